"""What decisions cost, and how far probabilities can be trusted inside the gray zone.

`expected_cost` and `selective_risk` judge decisions, abstentions included; `zone_log_loss` and
`zone_calibration_error` judge probabilities where they matter, inside the zone around the
decision threshold; `cost_curve` and `risk_coverage_curve` are the curves behind the displays of
the same names.

Labels and costs are handled in NumPy; probabilities may come from any array library that
follows the array API standard. All results are Python floats or NumPy arrays.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import make_scorer

from grayzone._validation import binary_zone, class_caps
from grayzone.decision import (
    Array,
    Costs,
    action_costs,
    as_labels,
    as_numpy,
    as_probabilities,
    bayes_decision,
    check_weights,
    cost_matrix,
    encode_labels,
    reject_costs,
    undecided_value,
)

__all__ = [
    "CostCurve",
    "RiskCoverageCurve",
    "SelectiveRisk",
    "cost_curve",
    "expected_cost",
    "make_cost_scorer",
    "risk_coverage_curve",
    "selective_risk",
    "zone_calibration_error",
    "zone_log_loss",
]

Floats = NDArray[np.float64]


class SelectiveRisk(NamedTuple):
    """Risk on the rows that were decided, and their share.

    Attributes
    ----------
    risk : float
        Mean cost of the decided rows; NaN if there is none.
    coverage : float
        Share of the rows that were decided.
    """

    risk: float
    coverage: float


class CostCurve(NamedTuple):
    """Mean cost as a function of the decision threshold.

    Attributes
    ----------
    thresholds : ndarray
        Increasing, from 0 to 1; in between, every distinct probability.
    mean_cost : ndarray
        ``mean_cost[k]`` is the mean cost for every threshold in
        ``(thresholds[k - 1], thresholds[k]]``.
    """

    thresholds: Floats
    mean_cost: Floats


class RiskCoverageCurve(NamedTuple):
    """Risk on decided rows as a function of the share of rows decided.

    Attributes
    ----------
    coverage : ndarray
        Increasing shares of rows decided; the last one is 1.
    risk : ndarray
        Mean cost of the rows decided.
    reject_cost : ndarray
        The smallest cost of abstention at which so many rows are decided.
    """

    coverage: Floats
    risk: Floats
    reject_cost: Floats


class ReliabilityBins(NamedTuple):
    """Probabilities against frequencies: what a reliability diagram shows."""

    predicted: Floats
    observed: Floats
    weight: Floats


# ------------------------------------------------------------------------------------------
# Decisions
# ------------------------------------------------------------------------------------------


def expected_cost(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    costs: Costs = None,
    example_costs: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    reject_cost: Any = None,
    undecided_label: Any = "auto",
    normalize: bool = True,
) -> float:
    r"""Return the mean cost of decisions.

    .. math:: \frac{\sum_i w_i \, \mathrm{cost}[y_i, \hat y_i]}{\sum_i w_i},

    where a row left undecided costs `reject_cost`. With costs :math:`C^+` and :math:`C^-` for
    the errors on two classes, this is the loss that rule (1) of Hérault & Grandvalet (2007)
    minimises.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels, `undecided_label` where no decision was taken.
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        None (every error costs 1), "balanced" (an error on class k costs
        ``1 / (n_classes * frequency of k in y_true)``: the mean is the error rate averaged over
        the classes of `y_true`), a mapping ``{label: cost of misclassifying it}``, or an array
        ``cost[true, predicted]`` in the order of `labels`.
    example_costs : array-like of shape (n_samples, n_classes), default=None
        Costs that differ from row to row, in place of `costs`: the cost of predicting each of
        `labels`, right or wrong, for that row.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the order of the costs. By default the sorted labels of `y_true`, the
        keys of a mapping and, unless `costs` is a mapping, the labels of `y_pred`.
    reject_cost : float, mapping or array-like of shape (n_classes,), default=None
        Cost of a row left undecided, for all or for each true class.
    undecided_label : "auto", str or number, default="auto"
        Label of undecided rows in `y_pred`; "auto" is -1 for numbers, "undecided" for strings,
        and nothing if that is one of the classes and no `reject_cost` is given.
    normalize : bool, default=True
        Return the (weighted) mean; otherwise the (weighted) sum.

    Returns
    -------
    cost : float
        The smaller, the better.

    See Also
    --------
    make_cost_scorer : The same as a scorer for model selection.
    selective_risk : Cost and share of decided rows apart.

    Examples
    --------
    >>> from grayzone.metrics import expected_cost
    >>> expected_cost([0, 0, 1, 1], [0, 1, 1, 0], costs={0: 1.0, 1: 4.0})
    1.25
    >>> expected_cost([0, 0, 1, 1], [0, 1, 1, -1], costs={0: 1.0, 1: 4.0}, reject_cost=0.5)
    0.375
    """
    if costs is not None and example_costs is not None:
        raise ValueError("Give either costs or example_costs, not both.")
    rows = _read_decisions(y_true, y_pred, labels, costs, undecided_label, reject_cost)
    weights = check_weights(sample_weight, len(rows.truth))
    if example_costs is None:
        paid = _matrix(costs, rows.labels, rows.truth, weights)[rows.truth, rows.chosen]
    else:
        offered = _example_costs(example_costs, len(rows.truth), rows.labels)
        paid = offered[np.arange(len(rows.truth)), rows.chosen]
    if not np.all(rows.decided):
        if reject_cost is None:
            raise ValueError(
                f"y_pred leaves {np.sum(~rows.decided)} rows undecided; give reject_cost, what "
                "such a row costs (or, if the label of these rows is a class, name all classes "
                "in labels)."
            )
        paid = np.where(rows.decided, paid, reject_costs(reject_cost, rows.labels)[rows.truth])
    total = float(weights @ paid)
    return total / float(weights.sum()) if normalize else total


def make_cost_scorer(
    costs: Costs = None,
    *,
    labels: ArrayLike | None = None,
    reject_cost: Any = None,
    undecided_label: Any = "auto",
) -> Callable[..., float]:
    """Make a scorer of the mean cost of decisions, for model selection.

    Parameters
    ----------
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        As in :func:`expected_cost`.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the order of an array of costs; needed if a fold may lack one of them.
    reject_cost : float, mapping or array-like of shape (n_classes,), default=None
        Cost of a row left undecided; needed if the estimator abstains.
    undecided_label : "auto", str or number, default="auto"
        Label of undecided rows.

    Returns
    -------
    scorer : callable
        ``scorer(estimator, X, y, sample_weight=None)``: the *negative* mean cost of
        ``estimator.predict(X)``, so that greater is better.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from grayzone.metrics import make_cost_scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scores = cross_val_score(GaussianNB(), X, y, scoring=make_cost_scorer({0: 5.0, 1: 1.0}))
    >>> float(scores.mean().round(2))
    -0.24
    """
    return make_scorer(
        expected_cost,
        greater_is_better=False,
        costs=costs,
        labels=labels,
        reject_cost=reject_cost,
        undecided_label=undecided_label,
    )


def selective_risk(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    undecided_label: Any = "auto",
    costs: Costs = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> SelectiveRisk:
    """Return the mean cost of the rows that were decided, and their share.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels, `undecided_label` where no decision was taken.
    undecided_label : "auto", str or number, default="auto"
        Label of undecided rows; "auto" is -1 for numbers, "undecided" for strings, and nothing
        if that is one of the classes.
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        As in :func:`expected_cost`; None makes the risk an error rate.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the order of the costs; as in :func:`expected_cost`.

    Returns
    -------
    result : SelectiveRisk
        The named tuple ``(risk, coverage)``. The risk is NaN, with a warning, if no row was
        decided.

    See Also
    --------
    risk_coverage_curve : Risk against coverage for all costs of abstention.

    Examples
    --------
    >>> from grayzone.metrics import selective_risk
    >>> selective_risk([0, 0, 1, 1], [0, -1, 1, 0])
    SelectiveRisk(risk=0.3333333333333333, coverage=0.75)
    """
    rows = _read_decisions(y_true, y_pred, labels, costs, undecided_label, None)
    weights = check_weights(sample_weight, len(rows.truth))
    paid = _matrix(costs, rows.labels, rows.truth, weights)[rows.truth, rows.chosen]
    decided = weights * rows.decided
    if not np.any(decided):
        _warn_undefined("No row was decided: the risk is undefined and set to NaN.")
        return SelectiveRisk(math.nan, 0.0)
    total = float(decided.sum())
    return SelectiveRisk(float(decided @ paid) / total, total / float(weights.sum()))


def cost_curve(
    y_true: ArrayLike,
    y_proba: Array,
    *,
    costs: Costs = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> CostCurve:
    r"""Return the mean cost of two-class decisions for every threshold.

    The rule is (1) of Hérault & Grandvalet (2007), positive if and only if :math:`p \ge t`, for
    all :math:`t` in [0, 1] (Figure 1 of the paper). The curve is exact: one sort finds all the
    steps of the mean cost, in :math:`O(n \log n)`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of two classes.
    y_proba : array of shape (n_samples,) or (n_samples, 2)
        Probability of the positive class; the second column of two.
    costs : None, "balanced", mapping or array-like of shape (2, 2), default=None
        As in :func:`expected_cost`; the positive class comes second.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    pos_label : str or number, default=None
        The positive class; by default the last of the sorted labels.

    Returns
    -------
    curve : CostCurve
        The named tuple ``(thresholds, mean_cost)``: ``mean_cost[k]`` holds for every threshold
        in ``(thresholds[k - 1], thresholds[k]]``.

    Examples
    --------
    >>> from grayzone.metrics import cost_curve
    >>> curve = cost_curve([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9], costs={0: 1.0, 1: 3.0})
    >>> curve.thresholds
    array([0. , 0.1, 0.4, 0.6, 0.9, 1. ])
    >>> curve.mean_cost
    array([0.5 , 0.5 , 0.25, 1.  , 0.75, 1.5 ])
    """
    p = positive_probability(y_proba)
    positive, labels = binary_target(y_true, len(p), pos_label, costs)
    weights = check_weights(sample_weight, len(p))
    truth = positive.astype(np.intp)
    matrix = _matrix(costs, labels, truth, weights)
    as_positive = weights * matrix[truth, 1]
    as_negative = weights * matrix[truth, 0]
    values, group = np.unique(p, return_inverse=True)
    # At the smallest value all rows are positive; each value passed turns its rows negative.
    steps = np.bincount(group, as_negative - as_positive)
    totals = as_positive.sum() + np.concatenate([[0.0], np.cumsum(steps)])
    if values[-1] < 1.0:
        values = np.append(values, 1.0)
    if values[0] > 0.0:
        values, totals = np.insert(values, 0, 0.0), np.insert(totals, 0, totals[0])
    return CostCurve(values, totals[: len(values)] / weights.sum())


def risk_coverage_curve(
    y_true: ArrayLike,
    y_proba: Array,
    *,
    costs: Costs = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> RiskCoverageCurve:
    r"""Return the risk on decided rows for every share of rows that Bayes' rule can decide.

    A row is decided when the expected cost of its best decision,
    :math:`\min_j \sum_i p_i \mathrm{cost}[i, j]`, does not exceed the cost of abstention.
    Letting the latter grow from zero decides the rows one after the other, the safest first.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, or the probability of the positive class.
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        As in :func:`expected_cost`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    labels : array-like of shape (n_classes,), default=None
        The classes in the order of the columns; by default the sorted labels of `y_true` and
        the keys of a mapping.

    Returns
    -------
    curve : RiskCoverageCurve
        The named tuple ``(coverage, risk, reject_cost)``, by increasing coverage: with
        ``reject_cost[k]`` as the cost of abstention, the share ``coverage[k]`` of the rows is
        decided at a mean cost of ``risk[k]``.

    See Also
    --------
    selective_risk : The same for given decisions.

    Examples
    --------
    >>> from grayzone.metrics import risk_coverage_curve
    >>> curve = risk_coverage_curve([0, 1, 0, 1], [0.125, 0.375, 0.75, 1.0])
    >>> curve.coverage
    array([0.25, 0.5 , 0.75, 1.  ])
    >>> curve.risk.round(2)
    array([0.  , 0.  , 0.33, 0.5 ])
    >>> curve.reject_cost
    array([0.   , 0.125, 0.25 , 0.375])
    """
    proba = as_numpy(_unit(as_probabilities(y_proba, "y_proba")))
    truth, known = _encode_columns(y_true, proba, labels, costs)
    weights = check_weights(sample_weight, len(truth))
    matrix = _matrix(costs, known, truth, weights)
    best = np.min(action_costs(proba, matrix), axis=1)
    paid = matrix[truth, bayes_decision(proba, matrix)]
    counted = weights > 0
    levels, group = np.unique(best[counted], return_inverse=True)
    mass = np.cumsum(np.bincount(group, weights[counted]))
    risk = np.cumsum(np.bincount(group, (weights * paid)[counted])) / mass
    return RiskCoverageCurve(mass / mass[-1], risk, levels.astype(np.float64))


@dataclass(frozen=True)
class _Decisions:
    """True and predicted classes as indices; `chosen` means nothing where not `decided`."""

    truth: NDArray[np.intp]
    chosen: NDArray[np.intp]
    decided: NDArray[np.bool_]
    labels: NDArray[Any]


def _read_decisions(
    y_true: Any, y_pred: Any, labels: Any, costs: Costs, undecided_label: Any, reject_cost: Any
) -> _Decisions:
    truth, predicted = as_labels(y_true, "y_true"), as_labels(y_pred, "y_pred")
    _check_length(truth, len(predicted), "y_pred")
    known = _known_labels(truth, labels, costs)
    abstains = _undecided(predicted, known, undecided_label, reject_cost)
    if labels is None and not isinstance(costs, Mapping):
        known = _merge(known, predicted[~abstains], "y_pred")
    # Undecided rows stand for any class here: their cost is not looked up.
    stated = np.where(abstains, truth, predicted) if np.any(abstains) else predicted
    return _Decisions(
        truth=encode_labels(truth, known, "y_true"),
        chosen=encode_labels(stated, known, "y_pred"),
        decided=~abstains,
        labels=known,
    )


def _undecided(
    predicted: NDArray[Any], known: NDArray[Any], undecided_label: Any, reject_cost: Any
) -> NDArray[np.bool_]:
    """Tell which predictions are abstentions."""
    try:
        label = undecided_value(known, undecided_label)
    except ValueError:
        # The default label may be a class (say -1 and 1) where nobody thinks of abstaining.
        if reject_cost is None and isinstance(undecided_label, str) and undecided_label == "auto":
            return np.zeros(len(predicted), dtype=bool)
        raise
    if isinstance(label, str) != (predicted.dtype.kind in "UT"):
        return np.zeros(len(predicted), dtype=bool)
    return predicted == label


def _known_labels(truth: NDArray[Any], labels: Any, costs: Costs) -> NDArray[Any]:
    """Return the labels given, or else those of `y_true` and of a mapping of costs."""
    if labels is not None:
        given = as_labels(labels, "labels")
        if len(np.unique(given)) != len(given):
            raise ValueError(f"labels must differ from each other; got {given.tolist()}.")
        return given
    known = np.unique(truth)
    if isinstance(costs, Mapping):
        known = _merge(known, as_labels(list(costs), "costs"), "costs")
    return known


def _merge(known: NDArray[Any], more: NDArray[Any], name: str) -> NDArray[Any]:
    if len(more) == 0:
        return known
    if (known.dtype.kind in "UT") != (more.dtype.kind in "UT"):
        raise ValueError(
            f"{name} holds labels like {more[0]!r}, but y_true holds labels like {known[0]!r}: "
            "strings and numbers do not mix."
        )
    return np.unique(np.concatenate([known, more]))


def _check_length(truth: NDArray[Any], length: int, name: str) -> None:
    if len(truth) != length:
        raise ValueError(f"y_true has {len(truth)} rows but {name} has {length}.")
    if length == 0:
        raise ValueError("y_true is empty.")


def _matrix(costs: Costs, labels: NDArray[Any], truth: NDArray[np.intp], weights: Floats) -> Floats:
    """Return the cost matrix, with "balanced" over the classes that do occur in `y_true`."""
    if not (isinstance(costs, str) and costs == "balanced"):
        return cost_matrix(costs, labels)
    mass = np.bincount(truth, weights, minlength=len(labels))
    present = mass > 0
    matrix = np.zeros((len(labels), len(labels)))
    shares = mass[present] / mass.sum()
    matrix[present] = (1.0 / (present.sum() * shares))[:, None]
    np.fill_diagonal(matrix, 0.0)
    return matrix


def _example_costs(example_costs: Any, n_samples: int, labels: NDArray[Any]) -> Floats:
    offered = as_numpy(example_costs).astype(np.float64)
    if offered.shape != (n_samples, len(labels)):
        raise ValueError(
            f"example_costs has shape {offered.shape}; expected ({n_samples}, {len(labels)}), "
            f"the cost of predicting each of the labels {labels.tolist()} for each row."
        )
    if not np.all(np.isfinite(offered)) or np.any(offered < 0):
        raise ValueError("example_costs must be finite and not negative.")
    return offered


# ------------------------------------------------------------------------------------------
# Probabilities
# ------------------------------------------------------------------------------------------


def zone_log_loss(
    y_true: ArrayLike,
    y_proba: Array,
    *,
    zone: Any,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    normalize: bool = True,
) -> float:
    r"""Return the log loss that does not care for probabilities beyond the gray zone.

    The negative of criterion (3) of Hérault & Grandvalet (2007), averaged:

    .. math::

        -\frac1n \Big[ \sum_{i: y_i = 1} \log \min(p_i, p_{\max})
        + \sum_{i: y_i = -1} \log \min(1 - p_i, 1 - p_{\min}) \Big].

    With more classes each has a cap, and a row's loss is
    :math:`\max(-\log p_y, -\log \mathrm{cap}_y)`; two classes have the caps
    :math:`1 - p_{\min}` and :math:`p_{\max}`.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, or the probability of the positive class.
    zone : None, float, pair of floats, mapping or array-like of shape (n_classes,)
        None for no caps, the plain log loss. For two classes ``(p_min, p_max)``, or a float h
        for :func:`~grayzone.decision.zone_around` 0.5. For more, one cap per class in the order
        of `labels`, or a float h for the cap :math:`\sigma(h)` of each. A mapping
        ``{label: cap}`` serves both.
    labels : array-like of shape (n_classes,), default=None
        The classes in the order of the columns; by default the sorted labels of `y_true`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    normalize : bool, default=True
        Return the (weighted) mean; otherwise the (weighted) sum.

    Returns
    -------
    loss : float
        Not negative. Probabilities are clipped at the machine epsilon of their type from below,
        as in :func:`sklearn.metrics.log_loss`, so that the loss is finite.

    See Also
    --------
    zone_calibration_error : Are probabilities inside the zone frequencies?

    Examples
    --------
    >>> from grayzone.metrics import zone_log_loss
    >>> y, p = [0, 1, 1], [0.01, 0.6, 0.99]
    >>> round(zone_log_loss(y, p, zone=(0.25, 0.75)), 4)
    0.3621
    >>> round(zone_log_loss(y, p, zone=None), 4)
    0.177
    """
    proba = _unit(as_probabilities(y_proba, "y_proba"))
    truth, known = _encode_columns(y_true, proba, labels, None)
    weights = check_weights(sample_weight, len(truth))
    caps = _caps(zone, known)
    xp, where = array_namespace(proba), device(proba)
    columns = xp.arange(len(known), device=where)
    own = xp.asarray(truth, device=where)[:, None] == columns[None, :]
    p = xp.sum(xp.where(own, proba, xp.zeros_like(proba)), axis=1)
    p = xp.clip(p, float(xp.finfo(proba.dtype).eps), 1.0)
    cap = xp.asarray(caps[truth], dtype=proba.dtype, device=where)
    loss = -xp.log(xp.minimum(p, cap))
    total = float(xp.sum(loss * xp.asarray(weights, dtype=proba.dtype, device=where)))
    return total / float(weights.sum()) if normalize else total


def zone_calibration_error(
    y_true: ArrayLike,
    y_proba: Array,
    *,
    zone: Any,
    n_bins: int = 10,
    strategy: str = "quantile",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Return the expected calibration error of two-class probabilities inside the gray zone.

    .. math:: \sum_b \frac{w_b}{\sum_{b'} w_{b'}} \, | \bar y_b - \bar p_b |

    over bins of the rows with :math:`p_{\min} \le p \le p_{\max}`: the difference between the
    frequency of the positive class and the mean probability, weighted by the bin's mass. Beyond
    the zone, probabilities say only "beyond" (criterion (3) of Hérault & Grandvalet, 2007), and
    are left out.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of two classes.
    y_proba : array of shape (n_samples,) or (n_samples, 2)
        Probability of the positive class; the second column of two.
    zone : None, float or pair of floats
        ``(p_min, p_max)``, a float h for :func:`~grayzone.decision.zone_around` 0.5, or None for
        all of [0, 1].
    n_bins : int, default=10
        Number of bins; those without rows do not count.
    strategy : {"quantile", "uniform"}, default="quantile"
        Bins of equal mass, or of equal width, over the zone.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    pos_label : str or number, default=None
        The positive class; by default the last of the sorted labels.

    Returns
    -------
    error : float
        Between 0 and 1. NaN, with a warning, if no row is inside the zone.

    See Also
    --------
    grayzone.displays.ZoneReliabilityDisplay : The picture of it.

    Examples
    --------
    >>> from grayzone.metrics import zone_calibration_error
    >>> y, p = [0, 1, 0, 1, 1], [0.3, 0.3, 0.6, 0.6, 0.99]
    >>> round(zone_calibration_error(y, p, zone=(0.25, 0.75), n_bins=2), 3)
    0.15
    """
    p = positive_probability(y_proba)
    positive, _ = binary_target(y_true, len(p), pos_label, None)
    weights = check_weights(sample_weight, len(p))
    p_min, p_max = binary_zone(zone, 0.5)
    bins = reliability_bins(
        positive, p, weights, (p >= p_min) & (p <= p_max), (p_min, p_max), n_bins, strategy
    )
    if bins.weight.size == 0:
        _warn_undefined(
            f"No probability lies inside the zone [{p_min:.3g}, {p_max:.3g}]: the calibration "
            "error is undefined and set to NaN."
        )
    return calibration_error(bins)


def reliability_bins(
    positive: NDArray[np.bool_],
    p: Floats,
    weights: Floats,
    rows: NDArray[np.bool_],
    interval: tuple[float, float],
    n_bins: int,
    strategy: str,
) -> ReliabilityBins:
    """Bin the probabilities of the rows asked for, all of them inside `interval`."""
    if n_bins < 1 or int(n_bins) != n_bins:
        raise ValueError(f"n_bins must be a positive integer; got {n_bins!r}.")
    if strategy not in ("quantile", "uniform"):
        raise ValueError(f"strategy must be 'quantile' or 'uniform'; got {strategy!r}.")
    rows = rows & (weights > 0)
    if not np.any(rows):
        return ReliabilityBins(np.empty(0), np.empty(0), np.empty(0))
    p, y, w = p[rows], positive[rows].astype(np.float64), weights[rows]
    inner = np.arange(1, n_bins) / n_bins
    if strategy == "uniform":
        edges = interval[0] + inner * (interval[1] - interval[0])
    else:
        # Edges are observed values: equal probabilities share a bin, and a row of weight two
        # counts as two rows.
        edges = np.quantile(p, inner, method="inverted_cdf", weights=w)
    group = np.searchsorted(edges, p, side="left")
    sums = np.stack([np.bincount(group, w * x, minlength=n_bins) for x in (p, y, np.ones_like(p))])
    predicted, observed, mass = sums[:, sums[2] > 0]
    return ReliabilityBins(predicted / mass, observed / mass, mass)


def calibration_error(bins: ReliabilityBins) -> float:
    """Return the mean distance of frequencies and probabilities, NaN if there is no bin."""
    if bins.weight.size == 0:
        return math.nan
    distances = np.abs(bins.observed - bins.predicted)
    return float(bins.weight @ distances / bins.weight.sum())


def binary_target(
    y_true: Any, n_samples: int, pos_label: Any, costs: Costs
) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Return which rows are positive, and the two labels, the positive one last."""
    truth = as_labels(y_true, "y_true")
    _check_length(truth, n_samples, "y_proba")
    found = _known_labels(truth, None, costs)
    if pos_label is None:
        pos_label = _default_positive(found)
    label = as_labels([pos_label], "pos_label")
    if (label.dtype.kind in "UT") != (found.dtype.kind in "UT"):
        raise ValueError(f"pos_label={pos_label!r} is not among the labels {found.tolist()}.")
    others = found[found != label[0]]
    if len(others) > 1:
        raise ValueError(
            f"Expected two classes, one of them pos_label={pos_label!r}; got {found.tolist()}."
        )
    if len(others) == 0:  # positives only: any other label can stand for the class not seen
        others = np.asarray([f"not {label[0]}"]) if label.dtype.kind in "UT" else label - 1
    return truth == label[0], np.concatenate([others, label])


def _default_positive(found: NDArray[Any]) -> Any:
    if len(found) == 2:
        return found[1]
    if len(found) == 1 and found[0] in (-1, 0, 1):
        return 1
    raise ValueError(
        f"Expected two classes; got {found.tolist()}. With one class only, give pos_label."
    )


def positive_probability(y_proba: Any) -> Floats:
    """Return the probability of the positive class as a float64 vector."""
    proba = _unit(as_probabilities(y_proba, "y_proba"))
    if proba.shape[1] != 2:
        raise ValueError(
            "y_proba must have shape (n_samples,) or (n_samples, 2), for two classes; got "
            f"{proba.shape[1]} columns."
        )
    return as_numpy(proba[:, 1]).astype(np.float64)


def _unit(proba: Array) -> Array:
    xp = array_namespace(proba)
    if bool(xp.any((proba < 0) | (proba > 1))):
        raise ValueError("y_proba contains values outside [0, 1].")
    return proba


def _encode_columns(
    y_true: Any, proba: Array, labels: Any, costs: Costs
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the column of each row's true class, and the labels of the columns."""
    truth = as_labels(y_true, "y_true")
    _check_length(truth, proba.shape[0], "y_proba")
    known = _known_labels(truth, labels, costs)
    if len(known) != proba.shape[1]:
        raise ValueError(
            f"y_proba stands for {proba.shape[1]} classes but there are {len(known)} labels, "
            f"{known.tolist()}; name the label of each column in labels."
        )
    return encode_labels(truth, known, "y_true"), known


def _caps(zone: Any, labels: NDArray[Any]) -> Floats:
    """Return the probability above which a row's loss no longer falls, for each class."""
    if len(labels) > 2 or isinstance(zone, Mapping):
        return np.asarray(class_caps(zone, labels))
    p_min, p_max = binary_zone(zone, 0.5)
    return np.asarray([1.0 - p_min, p_max])


def _warn_undefined(message: str) -> None:
    warnings.warn(message, UndefinedMetricWarning, stacklevel=3)
