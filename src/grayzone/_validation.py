"""Checks shared by the estimators: each error says what was given and what is expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from grayzone.decision import zone_around

Array = Any


def all_or_nothing(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Make a fit that fails or is interrupted leave its estimator as it was."""

    @wraps(fit)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = vars(self).copy()
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return guarded


def check_number(
    name: str, value: Any, *, above: float | None = None, least: float | None = None
) -> float:
    """Check a finite real number, strictly above or at least a bound."""
    expected = "a finite number"
    if above is not None:
        expected += f" > {above:g}"
    if least is not None:
        expected += f" >= {least:g}"
    good = isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
    good = good and (above is None or value > above) and (least is None or value >= least)
    if not good:
        raise ValueError(f"{name} must be {expected}; got {value!r}.")
    return float(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check one of a few names."""
    if value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")
    return str(value)


def row_weights(
    sample_weight: Array | None, class_weight: Any, classes: Array, codes: Array
) -> tuple[Array, Array]:
    """Check and give the sample weights, and their product with the class weights."""
    n = codes.shape[0]
    weights = np.ones(n) if sample_weight is None else checked_weights(sample_weight, n)
    per_class = compute_class_weight(
        class_weight, classes=classes, y=classes[codes], sample_weight=weights
    )
    if not np.all(np.isfinite(per_class)) or np.any(per_class < 0):
        raise ValueError(
            f"class_weight must give finite weights >= 0; got {class_weight!r} for classes "
            f"{classes.tolist()}."
        )
    return weights, weights * per_class[codes]


def checked_weights(sample_weight: Array, n: int) -> Array:
    """Sample weights as doubles: finite, not negative, not all zero, one a row."""
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n, float(weights))
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must have shape ({n},), one weight a row; got shape {weights.shape}."
        )
    if not np.all(np.isfinite(weights)):
        row = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise ValueError(f"sample_weight must be finite; got {weights[row]} in row {row}.")
    if np.any(weights < 0):
        row = int(np.flatnonzero(weights < 0)[0])
        raise ValueError(f"sample_weight must not be negative; got {weights[row]:g} in row {row}.")
    if not np.any(weights > 0):
        raise ValueError("sample_weight must have a positive entry; all are zero.")
    return weights


def binary_zone(zone: Any, threshold: float) -> tuple[float, float]:
    """Zone (p_min, p_max) of two classes, from all the forms it can be given in.

    ``None`` is (0, 1); a float h > 0 is sigma(logit(threshold) +- h); a pair is itself.
    """
    if zone is None:
        return 0.0, 1.0
    if isinstance(zone, Real) and not isinstance(zone, bool):
        check_number("zone", zone, above=0.0)
        if not 0.0 < threshold < 1.0:
            raise ValueError(
                f"zone={zone!r} is a width around the decision threshold, but the costs put the "
                f"threshold at {threshold:g}; give both kinds of error a positive cost, or the "
                "zone as (p_min, p_max)."
            )
        return zone_around(threshold, float(zone))
    if isinstance(zone, str | Mapping) or np.shape(zone) != (2,):
        raise ValueError(
            "zone must be None, a float > 0 or a pair (p_min, p_max) for two classes; "
            f"got {zone!r}."
        )
    p_min, p_max = (float(p) for p in zone)
    if not (0.0 <= p_min <= 1.0 and 0.0 <= p_max <= 1.0):
        raise ValueError(f"zone must hold two probabilities in [0, 1]; got ({p_min:g}, {p_max:g}).")
    if p_min >= p_max:
        raise ValueError(
            f"zone must have p_min < p_max; got p_min={p_min:g}, p_max={p_max:g} (an empty zone "
            "is fitted by a constant)."
        )
    return p_min, p_max


def class_caps(zone: Any, classes: Array) -> Array:
    """Cap of each of K > 2 classes: None is 1, a float h is sigma(h), a mapping or array itself.

    Caps that sum to 1 or less would all be met by one constant prediction.
    """
    if zone is None:
        return np.ones(len(classes))
    if isinstance(zone, Real) and not isinstance(zone, bool):
        h = check_number("zone", zone, above=0.0)
        return np.full(len(classes), 1.0 / (1.0 + np.exp(-h)))
    if isinstance(zone, Mapping):
        known = set(classes.tolist())
        unknown = [label for label in zone if label not in known]
        if unknown or len(zone) != len(classes):
            raise ValueError(
                f"zone must give a cap to each of the classes {classes.tolist()}; got "
                f"{dict(zone)!r}."
            )
        caps = np.array([float(zone[label]) for label in classes.tolist()])
    elif isinstance(zone, str) or np.shape(zone) != (len(classes),):
        raise ValueError(
            f"zone must be None, a float > 0, or one cap for each of the {len(classes)} classes; "
            f"got {zone!r}."
        )
    else:
        caps = np.asarray(zone, dtype=np.float64)
    if not np.all((caps > 0.0) & (caps <= 1.0)):
        raise ValueError(f"the caps in zone must be in (0, 1]; got {caps.tolist()}.")
    if caps.sum() <= 1.0:
        raise ValueError(
            f"the caps in zone must sum to more than 1; got {caps.tolist()}, which one constant "
            "prediction fulfils."
        )
    return caps


def floor_of(cap: Array) -> Array:
    """Loss floor F = -logit(cap), -inf for a cap of 1."""
    cap = np.asarray(cap, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.where(cap < 1.0, np.log1p(-cap) - np.log(cap), -inf)
