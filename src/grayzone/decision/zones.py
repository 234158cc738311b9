r"""Gray zones: where probabilities have to be faithful, in all the forms they are given in.

Two classes have a zone :math:`(p_{\min}, p_{\max})` around the decision threshold, more have a cap
on the probability of each; caps :math:`1 - p_{\min}` and :math:`p_{\max}` are the case of two.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grayzone.numerics.checks import Floats, as_numpy, check_number, is_real
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pitfalls import Pitfall

# Below this half-width (in log-odds) the ends of a zone are computed from their distance to the
# threshold: above it, that difference would cancel.
_NARROW_ZONE = 0.5


def zone_around(threshold: float, width: float | None = 1.0) -> tuple[float, float]:
    r"""Return the gray zone of a given half-width, in log-odds, around a threshold.

    .. math:: p_{\min}, p_{\max} = \sigma(\mathrm{logit}(\text{threshold}) \mp \text{width})

    Criterion (3) of Hérault & Grandvalet (2007) asks for faithful probabilities inside
    :math:`[p_{\min}, p_{\max}]` only, and is calibrated for classification when the threshold
    lies in it.

    Parameters
    ----------
    threshold : float
        Decision threshold, strictly between 0 and 1.
    width : float or None, default=1.0
        Half-width in log-odds; None for the whole interval (0, 1), the full likelihood.

    Returns
    -------
    p_min, p_max : float
        The ends of the zone, with ``p_min < threshold < p_max``.

    See Also
    --------
    threshold_from_costs : The threshold of given costs.
    grayzone.TruncatedLogisticRegression : Fits a zone.

    Examples
    --------
    >>> from grayzone.decision import zone_around
    >>> [round(p, 2) for p in zone_around(0.5)]
    [0.27, 0.73]
    >>> zone_around(0.088, width=None)
    (0.0, 1.0)
    """
    t = float(threshold)
    if not 0.0 < t < 1.0:
        raise ValueError(f"threshold must lie strictly between 0 and 1; got {threshold!r}.")
    if width is None:
        return 0.0, 1.0
    w = check_number("width", width, above=0.0)
    p_min, p_max = _end_below(t, w), _end_above(t, w)
    if not p_min < t < p_max:
        raise ValueError(
            f"The zone of width {width!r} around {threshold!r} is narrower than floating-point "
            f"numbers can tell apart; give a larger width. {Pitfall.NO_ZONE}"
        )
    return p_min, p_max


def _end_below(t: Any, width: float) -> Any:
    """Probability so far below t in log-odds; t is a number or an array."""
    if width < _NARROW_ZONE:
        loss = -math.expm1(-width)
        return t - t * (1.0 - t) * loss / (1.0 - t * loss)
    shrink = math.exp(-width)
    return t * shrink / (t * shrink + (1.0 - t))


def _end_above(t: Any, width: float) -> Any:
    """Probability so far above t in log-odds; t is a number or an array."""
    if width < _NARROW_ZONE:
        loss = -math.expm1(-width)
        return t + t * (1.0 - t) * loss / (1.0 - (1.0 - t) * loss)
    return t / (t + (1.0 - t) * math.exp(-width))


def row_floors(low: Any, high: Any, width: float) -> Any:
    """Return the floors (n, 2) of the losses of rows, one for each class they may have.

    Those of the zones from `width` below the lowest probability at which a row's decision changes
    to `width` above the highest; in the library of these arrays. NaN for rows without a zone.
    """
    xp = array_namespace(low)
    p_min, p_max = _end_below(low, width), _end_above(high, width)
    good = (p_min > 0.0) & (p_min < low) & (low <= high) & (high < p_max) & (p_max < 1.0)
    p_min, p_max = xp.where(good, p_min, 0.5), xp.where(good, p_max, 0.5)
    floors = xp.stack([xp.log(p_min) - xp.log1p(-p_min), xp.log1p(-p_max) - xp.log(p_max)], axis=1)
    return xp.where(good[:, None], floors, xp.nan)


class Cuts(NamedTuple):
    """Where the decision between two classes changes, and what a zone's width is measured in.

    Attributes
    ----------
    low, high : float
        The lowest and the highest probability at which it does.
    below, above : float
        Units of the width on either side, in log-odds.
    """

    low: float
    high: float
    below: float = 1.0
    above: float = 1.0


def binary_zone(zone: Any, cuts: Cuts | float) -> tuple[float, float]:
    """Zone (p_min, p_max) of two classes, from all the forms it can be given in.

    ``None`` is (0, 1); a float h > 0 is sigma(logit(threshold) +- h) or, of several cuts, from h
    units below the lowest to h units above the highest; a pair is itself.
    """
    if zone is None:
        return 0.0, 1.0
    if is_real(zone):
        width = check_number("zone", zone, above=0.0)
        low, high, below, above = cuts if isinstance(cuts, Cuts) else Cuts(cuts, cuts)
        for cut in (low, high):
            if not 0.0 < cut < 1.0:
                raise ValueError(
                    f"zone={zone!r} is a width around the decision threshold, but the costs put "
                    f"the threshold at {cut:g}; give both kinds of error a positive cost, or the "
                    f"zone as (p_min, p_max). {Pitfall.NO_ZONE}"
                )
        p_min = zone_around(low, width * below)[0] if below else low
        return p_min, zone_around(high, width * above)[1] if above else high
    pair = _numbers(zone, 2)
    if pair is None:
        raise ValueError(
            "zone must be None, a float > 0 or a pair (p_min, p_max) for two classes; "
            f"got {zone!r}."
        )
    p_min, p_max = pair.tolist()
    if not (0.0 <= p_min <= 1.0 and 0.0 <= p_max <= 1.0):
        raise ValueError(f"zone must hold two probabilities in [0, 1]; got ({p_min:g}, {p_max:g}).")
    if p_min >= p_max:
        raise ValueError(
            f"zone must have p_min < p_max; got p_min={p_min:g}, p_max={p_max:g} (an empty zone "
            f"is fitted by a constant). {Pitfall.NO_ZONE}"
        )
    return p_min, p_max


def class_caps(zone: Any, classes: NDArray[Any], decided: Floats | None = None) -> Floats:
    """Cap of each of K > 2 classes: None is 1, a float h is sigma(h), a mapping or array itself.

    A mapping that gives some classes an interval of their probability, ``{label: (low, high)}``,
    gives each class the largest probability that all of them leave it.
    Where rows may stay undecided, ``decided`` are the probabilities from which on they do not; a
    float h then is sigma(logit(decided) + h) where that is more. Caps that sum to 1 or less would
    all be met by one constant prediction.
    """
    if zone is None:
        return np.ones(len(classes))
    if is_real(zone):
        h = check_number("zone", zone, above=0.0)
        decided = np.full(len(classes), 0.5 if decided is None else decided)
        return 1.0 / (1.0 + np.exp(floor_of(np.clip(decided, 0.5, 1.0)) - h))
    given = zone
    if isinstance(zone, Mapping) and any(_is_interval(value) for value in zone.values()):
        return _interval_caps(zone, classes)
    if isinstance(zone, Mapping):
        known = classes.tolist()
        if set(zone) != set(known):
            raise ValueError(
                f"zone must give a cap to each of the classes {known}; got {dict(zone)!r}."
            )
        given = [zone[label] for label in known]
    caps = _numbers(given, len(classes))
    if caps is None:
        raise ValueError(
            f"zone must be None, a float > 0, or one cap for each of the {len(classes)} classes; "
            f"got {zone!r}."
        )
    if not np.all((caps > 0.0) & (caps <= 1.0)):
        raise ValueError(f"the caps in zone must be in (0, 1]; got {caps.tolist()}.")
    if caps.sum() <= 1.0:
        raise ValueError(
            f"the caps in zone must sum to more than 1; got {caps.tolist()}, which one constant "
            f"prediction fulfils. {Pitfall.NO_ZONE}"
        )
    return caps


def _is_interval(value: Any) -> bool:
    return not is_real(value) and np.ndim(value) == 1


def _interval_caps(zone: Mapping[Any, Any], classes: NDArray[Any]) -> Floats:
    r"""Caps :math:`\min(\mathrm{high}_y, 1 - \sum_{k \ne y} \mathrm{low}_k)` of intervals.

    The truncated likelihood knows a set of probabilities by the largest of each class alone;
    classes that are not named may have any.
    """
    known = classes.tolist()
    unknown = [label for label in zone if label not in known]
    if unknown:
        raise ValueError(f"zone names {unknown[0]!r}, which is none of the classes {known}.")
    low, high = np.zeros(len(known)), np.ones(len(known))
    for label, value in zone.items():
        pair = _numbers((0.0, value) if is_real(value) else value, 2)
        if pair is None or not 0.0 <= pair[0] < pair[1] <= 1.0:
            raise ValueError(
                f"zone must give {label!r} an interval (low, high) of probabilities, low < high, "
                f"or a cap; got {value!r}."
            )
        low[known.index(label)], high[known.index(label)] = pair
    if not low.sum() < 1.0 < high.sum():
        raise ValueError(
            f"no probabilities lie inside all intervals of zone: their lower ends sum to "
            f"{low.sum():g}, their upper ends to {high.sum():g}; got {dict(zone)!r}. "
            f"{Pitfall.NO_ZONE}"
        )
    return np.minimum(high, 1.0 - (low.sum() - low))


def floor_of(cap: ArrayLike) -> Floats:
    """Loss floor F = -logit(cap), -inf for a cap of 1."""
    cap = np.asarray(cap, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.where(cap < 1.0, np.log1p(-cap) - np.log(cap), -np.inf)


def binary_floors(p_min: float, p_max: float) -> Floats:
    """Return the floors of the two classes of a zone."""
    # not by way of 1 - p_min, which rounds
    return np.array([-floor_of(p_min), floor_of(p_max)])


def ceilings_of(floors: Floats) -> Floats:
    """Return the margins G of each class beyond which the ramp gives rows up.

    That is where another class is as certain as its own cap would have it: for two classes,
    positive rows below p_min and negative rows above p_max.
    """
    others = np.where(np.eye(len(floors), dtype=bool), -np.inf, -floors[None, :])
    return np.asarray(others.max(axis=1))


def _numbers(values: Any, count: int) -> Floats | None:
    """Return so many numbers as float64, or None if that is not what the values are."""
    try:
        array = as_numpy(values)
    except ValueError:  # a ragged sequence
        return None
    if array.shape != (count,) or array.dtype.kind not in "iuf":
        return None
    return array.astype(np.float64)
