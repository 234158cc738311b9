r"""What errors cost: any form of costs as a matrix, and the threshold that it implies.

``cost[i, j]`` is the cost of deciding ``j`` when the truth is ``i``; the positive class of two is
``classes[1]``. Costs are few: they are NumPy arrays.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grayzone.numerics.checks import (
    HEAVIEST,
    Floats,
    as_amounts,
    as_labels,
    as_numpy,
    check_named,
    check_weights,
    encode_labels,
    is_real,
    listed,
)
from grayzone.numerics.pitfalls import Pitfall

_DEAREST = 1e250  # mean cost of which a sum over many rows is still a double
Costs = Any  # None, "balanced", a mapping {label: cost or (low, high)} or a K x K array


def cost_matrix(costs: Costs, classes: ArrayLike, prior: ArrayLike | None = None) -> Floats:
    """Turn any form of `costs` into the matrix ``cost[true, predicted]``.

    Parameters
    ----------
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes)
        What errors cost:

        - None: every error costs 1;
        - "balanced": misclassifying class k costs ``1 / (n_classes * prior[k])``, so that the
          mean cost is the error rate averaged over the classes, and the threshold of two
          classes is the prior of the positive class;
        - a mapping ``{label: cost of misclassifying it}``, naming every class. A cost that is not
          known exactly is a range ``(low, high)``, of which the geometric middle is taken;
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
    >>> cost_matrix({"good": 1.0, "bad": (2.0, 8.0)}, classes=["good", "bad"])
    array([[0., 1.],
           [4., 0.]])
    """
    labels = as_numpy(classes)
    if costs is None:
        return error_costs(np.ones(len(labels)))
    if isinstance(costs, str):
        if costs != "balanced":
            raise ValueError(
                f"costs={costs!r} is not known; the only string allowed is 'balanced'. Otherwise "
                "give None, a mapping {label: cost} or a K x K array."
            )
        return error_costs(balanced_costs(labels, prior))
    if isinstance(costs, Mapping):
        low, high = class_costs(costs, labels)
        # a number, which is its own middle, may be zero, and must not be rounded
        matrix = error_costs(_middle(low, high))
    else:
        matrix = as_amounts(costs, "costs")
        if matrix.shape != (len(labels), len(labels)):
            raise ValueError(
                f"costs has shape {matrix.shape}; expected ({len(labels)}, {len(labels)}), "
                f"cost[true, predicted] for the classes {listed(labels)}."
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
            f"{labels.size} ({listed(labels)}). Use bayes_decision for more."
        )
    return threshold_of(cost_matrix(costs, labels, prior))


def _middle(low: Floats, high: Floats) -> Floats:
    """Geometric middle; of costs in another unit it has the same digits."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = high / low
    # unless the ends are further apart than numbers reach
    apart = np.where(np.isfinite(ratio), low * np.sqrt(ratio), np.sqrt(low) * np.sqrt(high))
    return np.where(low < high, apart, low)


def reject_costs(reject_cost: Any, classes: ArrayLike) -> Floats:
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

    See Also
    --------
    bayes_decision : Decide, or stay undecided.

    Examples
    --------
    >>> from grayzone.decision import reject_costs
    >>> reject_costs(0.2, classes=["a", "b"])
    array([0.2, 0.2])
    """
    labels = as_numpy(classes)
    if isinstance(reject_cost, Mapping):
        return mapped(reject_cost, labels, "reject_cost")
    vector = as_amounts(reject_cost, "reject_cost")
    if vector.ndim == 0:
        return np.full(len(labels), float(vector))
    if vector.shape != (len(labels),):
        raise ValueError(
            f"reject_cost has shape {vector.shape}; expected a number or one cost for each "
            f"of the classes {listed(labels)}."
        )
    return vector


def class_prior(y: Any, classes: ArrayLike, sample_weight: Any = None) -> Floats:
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

    See Also
    --------
    estimate_prior : The same of rows without labels.
    threshold_from_costs : Takes it for ``costs="balanced"``.

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


def class_costs(costs: Mapping[Any, Any], labels: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the least and the greatest cost of misclassifying each class; a number is both."""
    ends = {label: _range(value, label) for label, value in costs.items()}
    low, high = (
        mapped({label: pair[k] for label, pair in ends.items()}, labels, "costs") for k in (0, 1)
    )
    return low, high


def _range(value: Any, label: Any) -> tuple[Any, Any]:
    """Return the ends of a range of costs; of what is no pair, itself twice."""
    if not isinstance(value, (tuple, list, np.ndarray)) or np.ndim(value) == 0:
        return value, value
    numbers = list(value)
    good = len(numbers) == 2 and all(is_real(number) for number in numbers)
    if not (good and 0 < numbers[0] <= numbers[1] < math.inf):
        raise ValueError(
            f"costs must be numbers or ranges (low, high) with 0 < low <= high; got {value!r} for "
            f"{label!r}."
        )
    return numbers[0], numbers[1]


def mapped(mapping: Mapping[Any, Any], labels: NDArray[Any], name: str) -> Floats:
    """Return a mapping's values in the order of the labels, which it must name exactly."""
    check_named(mapping, labels, name)
    known = labels.tolist()
    amounts = as_amounts([mapping[label] for label in known], name, owners=known)
    if amounts.ndim != 1:
        raise ValueError(f"{name} must have one number for each class; got {dict(mapping)!r}.")
    return amounts


def error_costs(class_costs: Floats) -> Floats:
    """Spread the cost of misclassifying each class over the off-diagonal of its row."""
    off_diagonal = 1.0 - np.eye(len(class_costs))
    return class_costs[:, None] * off_diagonal


def balanced_costs(labels: NDArray[Any], prior: ArrayLike | None) -> Floats:
    """Return the cost of misclassifying each class, inversely proportional to its frequency."""
    if prior is None:
        raise ValueError("costs='balanced' needs the class frequencies; give `prior`.")
    frequencies = as_amounts(prior, "prior")
    if frequencies.shape != labels.shape:
        raise ValueError(
            f"prior has shape {frequencies.shape}; expected one frequency for each of the "
            f"classes {listed(labels)}."
        )
    if not np.all(frequencies > 0):
        raise ValueError(
            f"costs='balanced' is undefined: {listed(labels[frequencies == 0])} never occurs."
        )
    return frequencies.sum() / (len(labels) * frequencies)


def cost_unit(matrix: Floats, prior: ArrayLike | None = None) -> float:
    """Return the unit in which a model is trained by costs, so that theirs does not matter.

    That is what the dearest decision costs more than the cheapest, averaged over the rows: 1 for
    0/1 costs and for balanced ones. Divided by it, costs make the loss of a row weigh 1 on average,
    as without costs, and a penalty beside it means what it always does.

    Parameters
    ----------
    matrix : ndarray of shape (n_classes, n_classes)
        ``cost[true, predicted]``; what staying undecided costs is no part of it.
    prior : array-like of shape (n_classes,), default=None
        Class frequencies, which sum to one; None means equal ones.

    Returns
    -------
    unit : float
        A positive number, in the unit of the costs.

    Examples
    --------
    >>> from grayzone.decision.costs import cost_matrix, cost_unit
    >>> cost_unit(cost_matrix({0: 10.0, 1: 30.0}, classes=[0, 1]), prior=[0.75, 0.25])
    15.0
    """
    differences = matrix.max(axis=1) - matrix.min(axis=1)
    largest = float(differences.max())
    if not largest > 0.0:
        raise ValueError(
            "These costs make no difference: whatever the truth is, every decision costs the same; "
            f"got cost[true, predicted] = {matrix.tolist()}."
        )
    if np.all(differences == largest):
        return largest
    # relative to the largest, so that no sum overflows
    shares = np.full(len(matrix), 1.0 / len(matrix)) if prior is None else as_numpy(prior)
    return largest * float(shares @ (differences / largest))


def savings(costs: Floats, unit: float) -> Floats:
    """Return what actions (K, A) save against the dearest one, in a unit of their costs."""
    check_unit(unit)
    most = float(costs.max()) / unit
    if most > HEAVIEST:
        raise ValueError(
            f"costs and reject_cost are too far apart: the largest is {most:.3g} times what errors "
            f"cost on average; at most {HEAVIEST:g} times can be trained for. {Pitfall.UNITS}"
        )
    return (costs.max(axis=1, keepdims=True) - costs) / unit


def check_unit(unit: float) -> None:
    """Check what errors cost on average: sums over many rows have to be doubles."""
    if not 1.0 / _DEAREST <= unit <= _DEAREST:
        raise ValueError(
            f"Errors must cost between {1.0 / _DEAREST:g} and {_DEAREST:g} on average; got costs "
            f"of {unit:g}. Give them in another unit. {Pitfall.UNITS}"
        )


def stakes(matrix: Floats) -> tuple[float, float]:
    """Return what an error costs more than the right decision, for each of two classes."""
    return float(matrix[0, 1] - matrix[0, 0]), float(matrix[1, 0] - matrix[1, 1])


def has_threshold(matrix: Floats) -> bool:
    """Whether no error is cheaper than the right decision, and one is dearer."""
    return min(stakes(matrix)) >= 0 and max(stakes(matrix)) > 0


def threshold_of(matrix: Floats) -> float:
    """Apply rule (1) of Hérault & Grandvalet (2007) to a 2 x 2 cost matrix."""
    false_positive, false_negative = stakes(matrix)
    if not has_threshold(matrix):
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
