r"""From costs to decisions: cost matrices, thresholds, gray zones and Bayes' rule.

Everything here follows Bayes' decision rule. With ``cost[i, j]`` the cost of deciding ``j``
when the truth is ``i``, the best decision for a row with class probabilities ``p`` is

.. math:: \arg\min_j \sum_i p_i \, \mathrm{cost}[i, j],

which for two classes is rule (1) of Hérault & Grandvalet (2007): decide for the positive
class if and only if :math:`p \ge C^- / (C^+ + C^-)`. The positive class is ``classes[1]``.

The functions on probabilities run on any array library that follows the array API standard
and answer in the library and on the device of the probabilities. Costs and labels are few:
they are NumPy arrays.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

C. K. Chow, "On optimum recognition error and reject tradeoff", IEEE Transactions on
Information Theory, 1970.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from numbers import Real
from typing import Any, Self

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_cupy_array,
    is_numpy_array,
    is_torch_array,
    to_device,
)
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, assert_all_finite, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

__all__ = [
    "BayesDecisionClassifier",
    "action_costs",
    "action_labels",
    "bayes_decision",
    "class_prior",
    "cost_matrix",
    "reject_costs",
    "threshold_from_costs",
    "zone_around",
]

Array = Any  # an array of any library that follows the array API standard
Costs = Any  # None, "balanced", a mapping {label: cost} or a K x K array

# Below this half-width (in log-odds) the ends of a zone are computed from their distance to the
# threshold: above it, that difference would cancel.
_NARROW_ZONE = 0.5


# ------------------------------------------------------------------------------------------
# Arrays, weights and labels
# ------------------------------------------------------------------------------------------


def as_numpy(values: Any) -> NDArray[Any]:
    """Copy small or label-like data to a NumPy array, from any array library and device."""
    if is_torch_array(values) or is_cupy_array(values):
        values = to_device(values, "cpu")
    try:
        return np.asarray(values)
    except RuntimeError:  # a library that converts only on request, like array-api-strict
        return np.from_dlpack(values)


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
        elif all(_is_number(label) for label in labels):
            labels = np.asarray(labels.tolist())
    if not (_is_numeric(labels) or _is_text(labels)):
        raise ValueError(
            f"{name} must hold numbers only or strings only; got an array of dtype "
            f"{labels.dtype} that holds something else."
        )
    return labels


def encode_labels(values: NDArray[Any], labels: NDArray[Any], name: str) -> NDArray[np.intp]:
    """Return the position in `labels` of each of `values`; unknown values are an error."""
    if values.size and _is_text(values) != _is_text(labels):
        raise ValueError(
            f"{name} holds {_kind(values)} but the labels {_listed(labels)} are {_kind(labels)}."
        )
    order = np.argsort(labels)
    ranks = np.searchsorted(labels, values, sorter=order)
    positions = order[np.minimum(ranks, len(labels) - 1)]
    unknown = labels[positions] != values
    if np.any(unknown):
        raise ValueError(
            f"{name} contains {_listed(np.unique(values[unknown]))}, not among the labels "
            f"{_listed(labels)}."
        )
    return positions


def check_weights(sample_weight: Any, n_samples: int) -> NDArray[np.float64]:
    """Check sample weights and return them as a float64 vector (ones for None)."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = as_numpy(sample_weight).astype(np.float64)
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}; expected ({n_samples},), one weight per row."
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError("sample_weight must be finite and not negative.")
    if not np.any(weights > 0):
        raise ValueError("sample_weight is zero for every row.")
    return weights


def _is_number(value: Any) -> bool:
    return isinstance(value, (Real, np.bool_))


def _is_numeric(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "biuf"


def _is_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "UT"


def _kind(labels: NDArray[Any]) -> str:
    return "strings" if _is_text(labels) else "numbers"


def _listed(labels: Iterable[Any]) -> str:
    return str(np.asarray(labels).tolist())


# ------------------------------------------------------------------------------------------
# Costs
# ------------------------------------------------------------------------------------------


def cost_matrix(
    costs: Costs, classes: ArrayLike, prior: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Turn any form of `costs` into the matrix ``cost[true, predicted]``.

    Parameters
    ----------
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes)
        What errors cost:

        - None: every error costs 1;
        - "balanced": misclassifying class k costs ``1 / (n_classes * prior[k])``, so that the
          mean cost is the error rate averaged over the classes, and the threshold of two
          classes is the prior of the positive class;
        - a mapping ``{label: cost of misclassifying it}``, naming every class;
        - an array ``cost[true, predicted]`` in the order of `classes`. Its diagonal may be
          non-zero: right decisions can have a price, too.
    classes : array-like of shape (n_classes,)
        The labels; the positive class of two is ``classes[1]``.
    prior : array-like of shape (n_classes,), default=None
        Class frequencies, up to a factor. Needed for "balanced", ignored otherwise.

    Returns
    -------
    cost : ndarray of shape (n_classes, n_classes)
        Cost of deciding for the column's class when the row's class is true.

    See Also
    --------
    threshold_from_costs : The threshold these costs imply for two classes.

    Examples
    --------
    >>> from grayzone.decision import cost_matrix
    >>> cost_matrix({"ham": 10.0, "spam": 1.0}, classes=["ham", "spam"])
    array([[ 0., 10.],
           [ 1.,  0.]])
    >>> cost_matrix("balanced", classes=[0, 1], prior=[0.75, 0.25])
    array([[0.        , 0.66666667],
           [2.        , 0.        ]])
    """
    labels = as_numpy(classes)
    if costs is None:
        return _error_costs(np.ones(len(labels)))
    if isinstance(costs, str):
        if costs != "balanced":
            raise ValueError(
                f"costs={costs!r} is not known; the only string allowed is 'balanced'. Otherwise "
                "give None, a mapping {label: cost} or a K x K array."
            )
        return _error_costs(_balanced_costs(labels, prior))
    if isinstance(costs, Mapping):
        matrix = _error_costs(_mapped(costs, labels, "costs"))
    else:
        matrix = _numbers(costs, "costs")
        if matrix.shape != (len(labels), len(labels)):
            raise ValueError(
                f"costs has shape {matrix.shape}; expected ({len(labels)}, {len(labels)}), "
                f"cost[true, predicted] for the classes {_listed(labels)}."
            )
    if len(labels) > 1 and not np.any(matrix):
        raise ValueError("All costs are zero: every decision would be as good as any other.")
    return matrix


def threshold_from_costs(
    costs: Costs, classes: ArrayLike | None = None, prior: ArrayLike | None = None
) -> float:
    r"""Return the probability from which on deciding for the positive class pays.

    Rule (1) of Hérault & Grandvalet (2007): with :math:`C^+` the cost of missing a positive
    (false negative) and :math:`C^-` that of a false positive, decide for the positive class if
    and only if

    .. math:: p \ge \frac{C^-}{C^+ + C^-}.

    For a matrix ``c[true, predicted]``, whose right decisions may cost something, :math:`C^-` is
    ``c[0, 1] - c[0, 0]`` and :math:`C^+` is ``c[1, 0] - c[1, 1]``.

    Parameters
    ----------
    costs : None, "balanced", mapping or array-like of shape (2, 2)
        As in :func:`cost_matrix`.
    classes : array-like of shape (2,), default=None
        The two labels, the positive one last. By default the sorted keys of a mapping.
    prior : array-like of shape (2,), default=None
        Class frequencies, needed for "balanced": the threshold is then ``prior[1]``.

    Returns
    -------
    threshold : float
        A number in [0, 1]; 0.5 for ``costs=None``.

    See Also
    --------
    zone_around : The gray zone around a threshold.
    bayes_decision : The rule itself, for any number of classes.

    Examples
    --------
    >>> from grayzone.decision import threshold_from_costs
    >>> threshold_from_costs({"healthy": 1.0, "ill": 4.0})
    0.2
    >>> round(threshold_from_costs("balanced", prior=[0.912, 0.088]), 6)
    0.088
    """
    if classes is None:
        classes = np.unique(list(costs)) if isinstance(costs, Mapping) else [0, 1]
    labels = as_numpy(classes)
    if labels.shape != (2,):
        raise ValueError(
            "A threshold separates two classes; got "
            f"{labels.size} ({_listed(labels)}). Use bayes_decision for more."
        )
    return _threshold(cost_matrix(costs, labels, prior))


def reject_costs(reject_cost: Any, classes: ArrayLike) -> NDArray[np.float64]:
    """Return the cost of staying undecided for each true class.

    Parameters
    ----------
    reject_cost : float, mapping or array-like of shape (n_classes,)
        One cost for all, ``{label: cost}``, or one cost per class in the order of `classes`.
    classes : array-like of shape (n_classes,)
        The labels.

    Returns
    -------
    costs : ndarray of shape (n_classes,)
        Cost of not deciding, given the true class.

    Examples
    --------
    >>> from grayzone.decision import reject_costs
    >>> reject_costs(0.2, classes=["a", "b"])
    array([0.2, 0.2])
    """
    labels = as_numpy(classes)
    if isinstance(reject_cost, Mapping):
        return _mapped(reject_cost, labels, "reject_cost")
    vector = _numbers(reject_cost, "reject_cost")
    if vector.ndim == 0:
        return np.full(len(labels), float(vector))
    if vector.shape != (len(labels),):
        raise ValueError(
            f"reject_cost has shape {vector.shape}; expected a number or one cost for each "
            f"of the classes {_listed(labels)}."
        )
    return vector


def class_prior(y: Any, classes: ArrayLike, sample_weight: Any = None) -> NDArray[np.float64]:
    """Return the (weighted) frequency of each class among the labels `y`.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels, all of them among `classes`.
    classes : array-like of shape (n_classes,)
        The labels to count; those that do not occur have frequency zero.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row; None means one.

    Returns
    -------
    prior : ndarray of shape (n_classes,)
        Frequencies, summing to one.

    Examples
    --------
    >>> from grayzone.decision import class_prior
    >>> class_prior(["b", "a", "a", "a"], classes=["a", "b"])
    array([0.75, 0.25])
    """
    known = as_labels(classes, "classes")
    values = as_labels(y, "y")
    weights = check_weights(sample_weight, len(values))
    totals = np.bincount(encode_labels(values, known, "y"), weights, minlength=len(known))
    return totals / totals.sum()


def _numbers(values: Any, name: str) -> NDArray[np.float64]:
    """Check that `values` are finite costs, not negative, and return them as float64."""
    try:
        array = as_numpy(values).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be made of numbers; got {values!r}.") from error
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite; got NaN or infinity in {values!r}.")
    if np.any(array < 0):
        raise ValueError(f"{name} must not be negative; got {values!r}.")
    return array


def _mapped(mapping: Mapping[Any, Any], labels: NDArray[Any], name: str) -> NDArray[np.float64]:
    """Return a mapping's values in the order of the labels, which it must name exactly."""
    known = labels.tolist()
    unknown = [label for label in mapping if label not in known]
    if unknown:
        raise ValueError(f"{name} names {unknown}, not among the classes {known}.")
    missing = [label for label in known if label not in mapping]
    if missing:
        raise ValueError(f"{name} has no entry for {missing}; it must name all classes, {known}.")
    return _numbers([mapping[label] for label in known], name)


def _error_costs(class_costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spread the cost of misclassifying each class over the off-diagonal of its row."""
    off_diagonal = 1.0 - np.eye(len(class_costs))
    return class_costs[:, None] * off_diagonal


def _balanced_costs(labels: NDArray[Any], prior: ArrayLike | None) -> NDArray[np.float64]:
    """Return the cost of misclassifying each class, inversely proportional to its frequency."""
    if prior is None:
        raise ValueError("costs='balanced' needs the class frequencies; give `prior`.")
    frequencies = _numbers(prior, "prior")
    if frequencies.shape != labels.shape:
        raise ValueError(
            f"prior has shape {frequencies.shape}; expected one frequency for each of the "
            f"classes {_listed(labels)}."
        )
    if not np.all(frequencies > 0):
        raise ValueError(
            f"costs='balanced' is undefined: {_listed(labels[frequencies == 0])} never occurs."
        )
    return frequencies.sum() / (len(labels) * frequencies)


def _stakes(matrix: NDArray[np.float64]) -> tuple[float, float]:
    """Return what an error costs more than the right decision, for each of two classes."""
    return float(matrix[0, 1] - matrix[0, 0]), float(matrix[1, 0] - matrix[1, 1])


def _has_threshold(matrix: NDArray[np.float64]) -> bool:
    return min(_stakes(matrix)) >= 0 and max(_stakes(matrix)) > 0


def _threshold(matrix: NDArray[np.float64]) -> float:
    """Apply rule (1) of Hérault & Grandvalet (2007) to a 2 x 2 cost matrix."""
    false_positive, false_negative = _stakes(matrix)
    if not _has_threshold(matrix):
        raise ValueError(
            "These costs define no threshold: an error must cost at least as much as the right "
            "decision for both classes, and more for one of them; got cost[true, predicted] = "
            f"{matrix.tolist()}."
        )
    # Scaling by a power of two is exact and keeps the sum from overflowing.
    exponent = -math.frexp(max(false_positive, false_negative))[1]
    false_positive = math.ldexp(false_positive, exponent)
    false_negative = math.ldexp(false_negative, exponent)
    return false_positive / (false_negative + false_positive)


# ------------------------------------------------------------------------------------------
# Zones
# ------------------------------------------------------------------------------------------


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
    w = float(width)
    if not (math.isfinite(w) and w > 0.0):
        raise ValueError(f"width must be positive and finite, or None; got {width!r}.")
    shrink = math.exp(-w)
    if w < _NARROW_ZONE:
        loss = -math.expm1(-w)
        p_min = t - t * (1.0 - t) * loss / (1.0 - t * loss)
        p_max = t + t * (1.0 - t) * loss / (1.0 - (1.0 - t) * loss)
    else:
        p_min = t * shrink / (t * shrink + (1.0 - t))
        p_max = t / (t + (1.0 - t) * shrink)
    if not p_min < t < p_max:
        raise ValueError(
            f"The zone of width {width!r} around {threshold!r} is narrower than floating-point "
            "numbers can tell apart; give a larger width."
        )
    return p_min, p_max


# ------------------------------------------------------------------------------------------
# Bayes' rule
# ------------------------------------------------------------------------------------------


def action_costs(proba: Array, costs: Costs = None, *, reject_cost: Any = None) -> Array:
    r"""Return the expected cost of every action, :math:`\sum_i p_i \mathrm{cost}[i, j]`.

    Parameters
    ----------
    proba : array of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, or the probability of the positive class. Rows are taken to sum
        to one.
    costs : None or array-like of shape (n_classes, n_classes) or (n_classes,), default=None
        ``cost[true, predicted]``, or the cost of misclassifying each class; None means that
        every error costs 1.
    reject_cost : float or array-like of shape (n_classes,), default=None
        Cost of staying undecided, for all or for each true class; None: not an option.

    Returns
    -------
    expected : array of shape (n_samples, n_classes) or (n_samples, n_classes + 1)
        One column per class and, with `reject_cost`, a last one for "undecided"; in the array
        library and on the device of `proba`.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision import action_costs
    >>> action_costs(np.asarray([0.25, 0.5]), costs=[1.0, 4.0], reject_cost=0.6)
    array([[1.  , 0.75, 0.6 ],
           [2.  , 0.5 , 0.6 ]])
    """
    proba = as_probabilities(proba)
    xp = array_namespace(proba)
    n_samples, n_classes = proba.shape
    expected = proba @ _like(proba, _indexed_costs(costs, n_classes))
    if reject_cost is None:
        return expected
    if np.ndim(reject_cost) == 0 and not isinstance(reject_cost, Mapping):
        # Not a sum over p: rounding in it must not turn ties into abstentions.
        cost = float(reject_costs(reject_cost, range(n_classes))[0])
        undecided = xp.full(n_samples, cost, dtype=proba.dtype, device=device(proba))
    else:
        undecided = proba @ _like(proba, reject_costs(reject_cost, range(n_classes)))
    return xp.concat([expected, undecided[:, None]], axis=1)


def bayes_decision(proba: Array, costs: Costs = None, *, reject_cost: Any = None) -> Array:
    r"""Return the action of smallest expected cost for each row.

    .. math:: \arg\min_j \sum_i p_i \, \mathrm{cost}[i, j]

    For two classes this is rule (1) of Hérault & Grandvalet (2007), computed as the comparison
    of the positive class's probability with :func:`threshold_from_costs`. With `reject_cost`,
    rows whose best decision is expected to cost more than staying undecided stay undecided
    (Chow, 1970).

    Parameters
    ----------
    proba : array of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, or the probability of the positive class.
    costs : None or array-like of shape (n_classes, n_classes) or (n_classes,), default=None
        ``cost[true, predicted]``, or the cost of misclassifying each class; None means that
        every error costs 1. Classes are column indices here.
    reject_cost : float or array-like of shape (n_classes,), default=None
        Cost of staying undecided, for all or for each true class; None: always decide.

    Returns
    -------
    action : array of shape (n_samples,)
        Index of the class decided for; ``n_classes`` stands for "undecided". In the array
        library and on the device of `proba`.

    Notes
    -----
    Ties: between two classes the positive one (index 1) wins, as rule (1) has it; between
    more, the first of the best; between deciding and staying undecided, deciding.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision import bayes_decision
    >>> p = np.asarray([0.1, 0.2, 0.3])
    >>> bayes_decision(p, costs=[1.0, 4.0])
    array([0, 1, 1])
    >>> bayes_decision(p, costs=[1.0, 4.0], reject_cost=0.75)
    array([0, 2, 1])
    """
    proba = as_probabilities(proba)
    xp = array_namespace(proba)
    n_classes = proba.shape[1]
    matrix = _indexed_costs(costs, n_classes)
    decision = _decide(proba, matrix)
    if reject_cost is None:
        return decision
    expected = action_costs(proba, matrix, reject_cost=reject_cost)
    undecided = expected[:, n_classes] < xp.min(expected[:, :n_classes], axis=1)
    return xp.where(undecided, xp.full_like(decision, n_classes), decision)


def _decide(proba: Array, matrix: NDArray[np.float64]) -> Array:
    """Return the best class of each row of an (n, K) array of probabilities."""
    xp = array_namespace(proba)
    if len(matrix) == 2:
        negative, positive = proba[:, 0], proba[:, 1]
        if _has_threshold(matrix):
            above = positive >= _threshold(matrix) * (negative + positive)
        else:
            false_positive, false_negative = _stakes(matrix)
            above = false_negative * positive >= false_positive * negative
        return xp.astype(above, xp.int64)
    # The best action does not change when a constant is taken from a row of costs. Counting from
    # the dearest action makes 0/1 costs the identity, so that the decision is exactly the most
    # probable class, not subject to the rounding of sums.
    savings = np.max(matrix, axis=1, keepdims=True) - matrix
    return xp.argmax(proba @ _like(proba, savings), axis=1)


def _indexed_costs(costs: Costs, n_classes: int) -> NDArray[np.float64]:
    """Return the cost matrix of classes known by index, from a matrix or class costs."""
    if costs is not None and not isinstance(costs, (str, Mapping)):
        array = _numbers(costs, "costs")
        if array.shape == (n_classes,):
            costs = _error_costs(array)
        elif array.ndim != 2:
            raise ValueError(
                f"costs has shape {array.shape}; expected ({n_classes}, {n_classes}) or "
                f"({n_classes},), as proba has {n_classes} classes."
            )
    return cost_matrix(costs, range(n_classes))


def _like(proba: Array, values: NDArray[np.float64]) -> Array:
    """Move a small NumPy array to the library, type and device of `proba`."""
    xp = array_namespace(proba)
    return xp.asarray(values, dtype=proba.dtype, device=device(proba))


# ------------------------------------------------------------------------------------------
# Actions and the meta-estimator
# ------------------------------------------------------------------------------------------


def undecided_value(labels: NDArray[Any], undecided_label: Any) -> Any:
    """Return the label of abstention that suits `labels`, or say why there is none."""
    known = as_labels(labels, "classes")
    label = undecided_label
    if isinstance(label, str) and label == "auto":
        label = "undecided" if _is_text(known) else -1
    suits = isinstance(label, str) if _is_text(known) else _is_number(label)
    if not suits or label != label:
        raise ValueError(
            f"undecided_label={undecided_label!r} cannot stand beside the classes "
            f"{_listed(known)}: give {'a string' if _is_text(known) else 'a number'}."
        )
    if label in known.tolist():
        raise ValueError(
            f"undecided_label={undecided_label!r} stands for {label!r}, which is one of the "
            f"classes {_listed(known)}; give another undecided_label."
        )
    return label


def action_labels(classes: ArrayLike, undecided_label: Any = "auto") -> NDArray[Any]:
    """Return the classes followed by the label of "undecided".

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
        The labels, all numbers or all strings.
    undecided_label : "auto", str or number, default="auto"
        Label of rows left undecided: a number beside numbers, a string beside strings, and
        none of the classes. "auto" is -1 or "undecided".

    Returns
    -------
    actions : ndarray of shape (n_classes + 1,)
        Every label that can be predicted, wide enough to hold each.

    Examples
    --------
    >>> from grayzone.decision import action_labels
    >>> action_labels([0, 1])
    array([ 0,  1, -1])
    >>> action_labels(["no", "yes"])
    array(['no', 'yes', 'undecided'], dtype='<U9')
    """
    labels = as_numpy(classes)
    label = undecided_value(labels, undecided_label)
    dtype = labels.dtype if labels.dtype.kind == "O" else None
    return np.concatenate([labels, np.asarray([label], dtype=dtype)])


def _estimator_has(method: str) -> Callable[[Any], bool]:
    """Tell `available_if` whether the wrapped estimator, fitted or not, has a method."""

    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return check


class BayesDecisionClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Make any probabilistic classifier decide by the costs of its errors.

    The wrapped classifier estimates :math:`p_i(x)`; `predict` returns the action of smallest
    expected cost

    .. math:: \arg\min_j \sum_i p_i(x) \, \mathrm{cost}[i, j],

    for two classes rule (1) of Hérault & Grandvalet (2007), and "undecided" where even the best
    decision is expected to cost more than `reject_cost`. Probabilities are left as they are.

    Parameters
    ----------
    estimator : estimator
        A classifier with `predict_proba`. It is cloned and fitted, unless it is a
        :class:`~sklearn.frozen.FrozenEstimator`.
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        What errors cost: None (every error costs 1), "balanced" (inversely proportional to class
        frequencies in `y`; for two classes the threshold is then the positive frequency), a
        mapping ``{label: cost of misclassifying it}``, or an array ``cost[true, predicted]``.
    reject_cost : float, mapping or array-like of shape (n_classes,), default=None
        Cost of staying undecided: one number, or one for each true class. None: always decide.
    undecided_label : "auto", str or number, default="auto"
        What `predict` returns for undecided rows; "auto" is -1 beside numeric labels and
        "undecided" beside strings. Used with `reject_cost` only.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Class labels; the positive class of two is ``classes_[1]``.
    actions_ : ndarray of shape (n_classes,) or (n_classes + 1,)
        What `predict` can return: the classes and, with `reject_cost`, the label of "undecided".
    cost_matrix_ : ndarray of shape (n_classes, n_classes)
        The costs, ``cost[true, predicted]``.
    threshold_ : float
        Decision threshold on the probability of the positive class. Only for two classes without
        `reject_cost`, and if no error is cheaper than the right decision.
    n_features_in_ : int
        Number of features seen by the classifier, if it tells.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen by the classifier, if it tells.

    See Also
    --------
    bayes_decision : The rule on its own.
    sklearn.model_selection.FixedThresholdClassifier : A threshold given by hand, two classes.
    sklearn.model_selection.TunedThresholdClassifierCV : A threshold found by cross-validation.

    Notes
    -----
    `score` is the accuracy, in which undecided rows count as errors; see
    :func:`grayzone.metrics.expected_cost` and :func:`grayzone.metrics.selective_risk`.

    `fit` is all or nothing: if it raises, the object is as it was before.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from grayzone.decision import BayesDecisionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> clf = BayesDecisionClassifier(model, costs={0: 10.0, 1: 1.0}).fit(X, y)
    >>> round(clf.threshold_, 3)
    0.909
    >>> wary = BayesDecisionClassifier(model, reject_cost=0.1).fit(X, y)
    >>> wary.actions_
    array([ 0,  1, -1])
    >>> int((wary.predict(X) == -1).sum())
    53
    """

    def __init__(
        self,
        estimator: Any,
        costs: Costs = None,
        reject_cost: Any = None,
        undecided_label: Any = "auto",
    ) -> None:
        self.estimator = estimator
        self.costs = costs
        self.reject_cost = reject_cost
        self.undecided_label = undecided_label

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the classifier and work out the costs of its decisions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, as the wrapped classifier takes it.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, passed to the classifier's `fit` and used for the class frequencies of
            ``costs="balanced"``. With metadata routing enabled the classifier gets them if it
            requests them.
        **fit_params : dict
            More parameters for the classifier's `fit`.

        Returns
        -------
        self : BayesDecisionClassifier
            The fitted object.
        """
        before = dict(self.__dict__)
        try:
            self._check_target(y)
            self._fit(X, y, sample_weight, fit_params)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _check_target(self, y: Any) -> None:
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        labels = as_numpy(y)
        assert_all_finite(labels, input_name="y")
        target = type_of_target(labels, input_name="y")
        if target not in ("binary", "multiclass"):
            raise ValueError(
                f"Unknown label type: {target}. Expected one label per row, of two or more classes."
            )

    def _fit(self, X: Any, y: Any, sample_weight: Any, fit_params: dict[str, Any]) -> None:
        params = self._routed_fit_params(sample_weight, fit_params)
        estimator = clone(self.estimator).fit(X, y, **params)
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"{type(self).__name__} needs a classifier with predict_proba, which "
                f"{type(estimator).__name__} lacks; "
                "sklearn.calibration.CalibratedClassifierCV can provide it."
            )
        classes = as_numpy(estimator.classes_)
        balanced = isinstance(self.costs, str)
        prior = class_prior(y, classes, sample_weight) if balanced else None
        # Costs stay on the host, as plain numbers, wherever the data live.
        self._costs = cost_matrix(self.costs, classes, prior).tolist()
        self._reject_cost = _reject_option(self.reject_cost, classes)
        self.actions_ = estimator.classes_
        if self.reject_cost is not None:
            actions = action_labels(classes, self.undecided_label)
            self.actions_ = _in_library_of(estimator.classes_, actions)
        # A frozen classifier was fitted elsewhere, on data of a library only it knows.
        self._home = None if isinstance(self.estimator, FrozenEstimator) else _home(X)
        self.estimator_ = estimator

    def _routed_fit_params(self, sample_weight: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
            return dict(routed["estimator"]["fit"])
        if sample_weight is None:
            return fit_params
        return {**fit_params, "sample_weight": sample_weight}

    def predict(self, X: Any) -> Any:
        """Return the action of smallest expected cost for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.

        Returns
        -------
        actions : ndarray of shape (n_samples,)
            Class labels or the label of "undecided".
        """
        proba = self._respond("predict_proba", X, caller="predict")
        chosen = bayes_decision(proba, self._costs, reject_cost=self._reject_cost)
        if is_numpy_array(self.actions_):
            return self.actions_[as_numpy(chosen)]
        return array_namespace(self.actions_).take(self.actions_, chosen, axis=0)

    def expected_costs(self, X: Any) -> Any:
        """Return the expected cost of every action for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.

        Returns
        -------
        expected : ndarray of shape (n_samples, n_actions)
            Expected costs, one column for each of `actions_`.
        """
        proba = self._respond("predict_proba", X, caller="expected_costs")
        return action_costs(proba, self._costs, reject_cost=self._reject_cost)

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the wrapped classifier's class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities of the classes, in the order of `classes_`.
        """
        return self._respond("predict_proba", X, caller="predict_proba")

    @available_if(_estimator_has("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the wrapped classifier's class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Log-probabilities of the classes, in the order of `classes_`.
        """
        return self._respond("predict_log_proba", X, caller="predict_log_proba")

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the wrapped classifier's decision function, which knows nothing of costs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            The scores.
        """
        return self._respond("decision_function", X, caller="decision_function")

    def _respond(self, method: str, X: Any, *, caller: str) -> Any:
        """Call a method of the fitted classifier on data of the library it was fitted with."""
        check_is_fitted(self)
        if self._home is not None and self._home != _home(X):
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.{caller}() must use the same namespace "
                f"and the same device as those passed to fit(): {self._home}; got {_home(X)}."
            )
        return getattr(self.estimator_, method)(X)

    @property
    def classes_(self) -> Any:
        """Class labels."""
        return self._fitted("classes_").classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features seen by the classifier."""
        return int(self._fitted("n_features_in_").n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of features seen by the classifier."""
        return self._fitted("feature_names_in_").feature_names_in_

    @property
    def cost_matrix_(self) -> NDArray[np.float64]:
        """The costs, ``cost[true, predicted]``."""
        self._fitted("cost_matrix_")
        return np.asarray(self._costs)

    @property
    def threshold_(self) -> float:
        """Decision threshold on the probability of the positive class."""
        self._fitted("threshold_")
        matrix = self.cost_matrix_
        binary = len(matrix) == 2 and self._reject_cost is None
        if not (binary and _has_threshold(matrix)):
            raise AttributeError(
                "threshold_ is defined for two classes, without reject_cost, and with costs by "
                "which no error is cheaper than the right decision."
            )
        return _threshold(matrix)

    def _fitted(self, attribute: str) -> Any:
        """Return the fitted classifier, or say that `attribute` is not there yet."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {attribute!r}: it is not fitted."
            )
        return self.estimator_

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of metadata: `fit` passes on, and weighs class frequencies.

        Returns
        -------
        routing : sklearn.utils.metadata_routing.MetadataRouter
            What this object requests and what it passes to the wrapped classifier.
        """
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        )

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = deepcopy(inner.input_tags)
        tags.array_api_support = inner.array_api_support
        tags.non_deterministic = inner.non_deterministic
        if inner.classifier_tags is not None:
            tags.classifier_tags = deepcopy(inner.classifier_tags)
            tags.classifier_tags.multi_label = False  # one decision per row
        return tags


def _reject_option(reject_cost: Any, classes: NDArray[Any]) -> Any:
    """Check `reject_cost` and return it as `bayes_decision` takes it."""
    if reject_cost is None:
        return None
    costs = reject_costs(reject_cost, classes)
    scalar = np.ndim(reject_cost) == 0 and not isinstance(reject_cost, Mapping)
    return float(costs[0]) if scalar else costs.tolist()


def _home(X: Any) -> tuple[str, str]:
    """Return the array library and device scikit-learn computes in when it is given X."""
    foreign = is_array_api_obj(X) and not is_numpy_array(X)
    if not (foreign and get_config()["array_api_dispatch"]):
        return "numpy", "cpu"
    return array_namespace(X).__name__, str(device(X))


def _in_library_of(classes: Any, actions: NDArray[Any]) -> Any:
    """Move the actions to where the classes live, if that is another array library."""
    if not is_array_api_obj(classes) or is_numpy_array(classes):
        return actions
    return array_namespace(classes).asarray(actions, device=device(classes))
