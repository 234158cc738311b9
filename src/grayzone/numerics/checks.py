"""Checks of what callers give, before costs and zones come in.

Each error says what was given and what is expected. Labels, weights and costs are few or flat:
they become NumPy arrays. Probabilities stay in the array library they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from array_api_compat import is_array_api_obj, is_cupy_array, is_torch_array, to_device
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pitfalls import Pitfall
from grayzone.numerics.threads import square_sum

Array = Any  # an array of any library that follows the array API standard
Floats = NDArray[np.float64]
Numbers = NDArray[np.floating[Any]]  # predictions: single or double precision
# Values of X, and weights and inverse penalties, up to which weighted sums of squares are doubles.
LARGEST, HEAVIEST = 1e100, 1e50
Given = ParamSpec("Given")
Result = TypeVar("Result")


def all_or_nothing(fit: Callable[Given, Result]) -> Callable[Given, Result]:
    """Make a fit that fails or is interrupted leave its estimator as it was.

    What overflows on the way is no news. A model that is not finite, and a system that cannot be
    solved in double precision, are a matter of what was given.
    """
    unguarded: Callable[..., Any] = fit

    @wraps(fit)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = vars(self).copy()
        try:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                fitted = unguarded(self, *args, **kwargs)
            _check_finite(self)
            return fitted
        except BaseException as error:
            vars(self).clear()
            vars(self).update(before)
            if is_numerical(error):
                raise ValueError(
                    f"This fit takes numbers that double precision does not have ({error}). Scale "
                    "the features; weights, costs and C should not be far apart. "
                    f"{Pitfall.UNSCALED}"
                ) from error
            raise

    return cast(Callable[Given, Result], guarded)


def is_numerical(error: BaseException) -> bool:
    """Whether an error says that numbers went out of range, or that a matrix is singular.

    Each array library has a class of its own for the latter, all of one name.
    """
    known = isinstance(error, (FloatingPointError, OverflowError))
    return known or "LinAlgError" in type(error).__name__


def _check_finite(estimator: Any) -> None:
    """Check what an estimator predicts by."""
    for name in ("coef_", "dual_coef_", "intercept_"):
        values = vars(estimator).get(name)
        if values is None:
            continue
        xp = array_namespace(values)
        if not bool(xp.all(xp.isfinite(values))):
            raise FloatingPointError(f"{name} is not finite")


# ------------------------------------------------------------------------------------------
# Parameters
# ------------------------------------------------------------------------------------------


def is_real(value: Any) -> bool:
    """Whether a value is a number, not a flag."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_auto(value: Any) -> bool:
    """Whether a value is the word "auto", also where it may be an array."""
    return isinstance(value, str) and value == "auto"


def check_number(name: str, value: Any, *, above: float | None = None) -> float:
    """Check a finite real number, strictly above a bound where there is one."""
    expected = "a finite number"
    if above is not None:
        expected += f" > {above:g}"
    good = is_real(value) and _is_finite(value)
    good = good and (above is None or value > above)
    if not good:
        raise ValueError(f"{name} must be {expected}; got {value!r}.")
    return float(value)


def check_penalty(name: str, value: Any, *, none: bool = False) -> float:
    """Check an inverse strength C of the penalty: a number whose inverse is one as well.

    ``none`` says that it may be infinite.
    """
    if is_real(value) and value == inf:
        if none:
            return inf
        raise ValueError(
            f"{name} must be a finite number > 0; got inf. No penalty at all is for linear models "
            "with a convex loss: others fit any labels ever closer, and have no optimum."
        )
    number = check_number(name, value, above=0.0)
    if not 1.0 / HEAVIEST <= number <= HEAVIEST:
        raise ValueError(
            f"{name} must be between {1.0 / HEAVIEST:g} and {HEAVIEST:g}; got {value!r}."
        )
    return number


def check_integer(name: str, value: Any, *, least: int) -> int:
    """Check a whole number that is at least a bound."""
    if not (isinstance(value, Integral) and is_real(value) and int(value) >= least):
        raise ValueError(f"{name} must be an integer >= {least}; got {value!r}.")
    return int(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Check one of a few names."""
    if value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}.")
    return str(value)


def _is_finite(value: Any) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # a whole number beyond all doubles
        return False


# ------------------------------------------------------------------------------------------
# Arrays and labels
# ------------------------------------------------------------------------------------------


def as_numpy(values: Any) -> NDArray[Any]:
    """Turn small or label-like data into a NumPy array, from any array library and device."""
    if is_torch_array(values) or is_cupy_array(values):
        values = to_device(values, "cpu")
    try:
        return np.asarray(values)
    except RuntimeError:  # a library that converts only on request, like array-api-strict
        xp = array_namespace(values)
        return np.from_dlpack(to_device(values, xp.Device("CPU_DEVICE")))


def as_probabilities(proba: Any, name: str = "proba") -> Array:
    """Check probabilities and return them as a floating-point array of shape (n, K)."""
    if not is_array_api_obj(proba):
        proba = np.asarray(proba)
        if proba.dtype.kind not in "biuf":
            proba = proba.astype(np.float64)
    xp = array_namespace(proba)
    if not xp.isdtype(proba.dtype, "real floating"):
        proba = xp.astype(proba, xp.float64)
    if proba.ndim not in (1, 2):
        raise ValueError(
            f"{name} must have shape (n_samples, n_classes), or (n_samples,) for the "
            f"probability of the positive class; got shape {tuple(proba.shape)}."
        )
    if not bool(xp.all(xp.isfinite(proba))):
        raise ValueError(f"{name} contains NaN or infinity; probabilities must be finite.")
    if proba.ndim == 1:
        return xp.stack([1.0 - proba, proba], axis=1)
    if proba.shape[1] == 0:
        raise ValueError(f"{name} has no columns; expected one column per class.")
    return proba


def check_values(X: Array, place: str = "") -> None:
    """Check that no value of X, of any library, is so large that weighted squares overflow.

    ``place`` says which rows they are, where these are not all.
    """
    values = X.data if hasattr(X, "indptr") else X
    if values.dtype == object:  # which a wrapped classifier is to judge
        return
    xp = array_namespace(values)
    if values.dtype == xp.float32 or 0 in values.shape:  # which has none that large
        return
    if isinstance(values, np.ndarray) and (values.flags.c_contiguous or values.flags.f_contiguous):
        with np.errstate(over="ignore"):
            if square_sum(values) <= LARGEST**2:
                return
    largest = max(float(xp.max(values)), -float(xp.min(values)))
    if largest > LARGEST:
        raise ValueError(
            f"X has values up to {largest:.3g} in absolute value{place}, above {LARGEST:g}: their "
            f"squares would overflow. Scale the features. {Pitfall.UNSCALED}"
        )


def as_labels(values: Any, name: str) -> NDArray[Any]:
    """Check labels and return them as a 1-D NumPy array of numbers or of strings.

    Arrays of Python objects (what pandas gives for strings) become arrays of the one kind
    they hold, so that sorting and comparing never meet a mixture.
    """
    labels = as_numpy(values)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {labels.shape}.")
    if labels.dtype.kind == "O":
        if all(isinstance(label, str) for label in labels):
            labels = labels.astype(str)
        elif all(is_numeric_label(label) for label in labels):
            labels = np.asarray(labels.tolist())
    if not (labels.dtype.kind in "biuf" or is_text(labels)):
        raise ValueError(
            f"{name} must hold numbers only or strings only; got an array of dtype "
            f"{labels.dtype} that holds something else."
        )
    return labels


def encode_labels(values: NDArray[Any], labels: NDArray[Any], name: str) -> NDArray[np.intp]:
    """Return the position in `labels` of each of `values`; unknown values are an error."""
    if values.size and is_text(values) != is_text(labels):
        raise ValueError(
            f"{name} holds {_kind(values)} but the labels {listed(labels)} are {_kind(labels)}."
        )
    order = np.argsort(labels)
    ranks = np.searchsorted(labels, values, sorter=order)
    positions = order[np.minimum(ranks, len(labels) - 1)]
    unknown = labels[positions] != values
    if np.any(unknown):
        raise ValueError(
            f"{name} contains {listed(np.unique(values[unknown]))}, not among the labels "
            f"{listed(labels)}."
        )
    return positions


def is_numeric_label(label: Any) -> bool:
    """Whether one label is a number; flags are labels, too."""
    return isinstance(label, (Real, np.bool_))


def is_text(labels: NDArray[Any]) -> bool:
    """Whether labels that passed `as_labels` are strings; otherwise they are numbers."""
    return labels.dtype.kind in "UT"


def listed(labels: Iterable[Any]) -> str:
    """Return labels as an error message shows them."""
    return str(np.asarray(labels).tolist())


def _kind(labels: NDArray[Any]) -> str:
    return "strings" if is_text(labels) else "numbers"


# ------------------------------------------------------------------------------------------
# Amounts and weights
# ------------------------------------------------------------------------------------------


def as_amounts(values: Any, name: str, owners: Sequence[Any] | None = None) -> Floats:
    """Check finite numbers, none of them negative, and return a copy of them as float64.

    An error names the first number that will not do, by its row or, where `owners` are given,
    by the label that it belongs to.
    """
    try:
        amounts = as_numpy(values).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be made of numbers; got {values!r}.") from error
    for wrong, demand in ((~np.isfinite(amounts), "be finite"), (amounts < 0, "not be negative")):
        if np.any(wrong):
            first = tuple(np.argwhere(wrong)[0].tolist())
            place = f" in row {first[0]}" if first else ""
            if owners is not None:
                place = f" for {owners[first[0]]!r}"
            raise ValueError(f"{name} must {demand}; got {amounts[first]:g}{place}.")
    return amounts


def check_named(mapping: Mapping[Any, Any], labels: NDArray[Any], name: str) -> None:
    """Check that a mapping names the labels, all of them and no others."""
    known = labels.tolist()
    unknown = [label for label in mapping if label not in known]
    if unknown:
        raise ValueError(
            f"{name} names {unknown}, not among the classes {known}. {Pitfall.ORDER_OF_CLASSES}"
        )
    missing = [label for label in known if label not in mapping]
    if missing:
        raise ValueError(
            f"{name} has no entry for {missing}; it must name all classes, {known}. "
            f"{Pitfall.ORDER_OF_CLASSES}"
        )


def check_weights(sample_weight: Any, n_samples: int) -> Floats:
    """Check sample weights and return one a row: ones for None, a single number for all."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = as_amounts(sample_weight, "sample_weight")
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must have shape ({n_samples},), one weight a row; got shape "
            f"{weights.shape}."
        )
    if not np.any(weights > 0):
        raise ValueError("sample_weight must have a positive entry; all are zero.")
    extreme = are_extreme(weights)
    if np.any(extreme):
        row = int(np.argmax(extreme))
        raise ValueError(
            f"sample_weight must be zero or between {1.0 / HEAVIEST:g} and {HEAVIEST:g}; got "
            f"{weights[row]:g} in row {row}."
        )
    return weights


def are_extreme(weights: Array) -> Array:
    """Whether weights, of any library, are too large or too small for sums of their products."""
    return (weights > HEAVIEST) | ((weights > 0.0) & (weights < 1.0 / HEAVIEST))


def row_weights(
    sample_weight: Any, class_weight: Any, classes: NDArray[Any], codes: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Check and return the sample weights, and their product with the class weights."""
    weights = check_weights(sample_weight, codes.shape[0])
    if class_weight is None:
        return weights, weights
    with np.errstate(divide="ignore"):  # "balanced" divides by the weight of each class
        per_class = compute_class_weight(
            class_weight, classes=classes, y=classes[codes], sample_weight=weights
        )
    per_class[np.bincount(codes, weights, minlength=len(classes)) == 0] = 0.0
    check_factors(per_class, class_weight, classes)
    return weights, weights * per_class[codes]


def check_factors(factors: Floats, class_weight: Any, classes: NDArray[Any]) -> None:
    """Check the weights that ``class_weight`` gives to classes."""
    if not np.all(np.isfinite(factors)) or np.any(factors < 0):
        raise ValueError(
            f"class_weight must give finite weights >= 0; got {class_weight!r} for classes "
            f"{classes.tolist()}."
        )
    if np.any(are_extreme(factors)):
        raise ValueError(
            f"class_weight must give weights of zero or between {1.0 / HEAVIEST:g} and "
            f"{HEAVIEST:g}; got {class_weight!r} for classes {classes.tolist()}, which gives "
            f"{factors.tolist()}."
        )
