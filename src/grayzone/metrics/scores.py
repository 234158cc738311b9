"""What decisions cost, and how far probabilities can be trusted inside the zone."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import UndefinedMetricWarning

from grayzone.decision import reject_costs
from grayzone.decision.costs import Costs
from grayzone.decision.zones import binary_zone, class_caps
from grayzone.metrics.curves import (
    calibration_error,
    reliability_bins,
)
from grayzone.metrics.truth import (
    naming,
    read_binary,
    read_decisions,
    read_probabilities,
)
from grayzone.numerics.checks import Array, Floats
from grayzone.numerics.namespace import array_namespace


class SelectiveRisk(NamedTuple):
    """Risk on the rows that were decided, and their share.

    Attributes
    ----------
    risk : float
        Mean cost of the decided rows; NaN if there is none.
    coverage : float
        Share of the rows that were decided.

    See Also
    --------
    selective_risk : Computes it.
    risk_coverage_curve : The same for all shares of rows decided.

    Examples
    --------
    >>> from grayzone.metrics import selective_risk
    >>> found = selective_risk([0, 0, 1, 1], [0, -1, 0, 1])
    >>> round(found.risk, 3), found.coverage
    (0.333, 0.75)
    """

    risk: float
    coverage: float


def expected_cost(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    costs: Costs = None,
    example_costs: Any = None,
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
    example_costs : array-like or mapping, default=None
        Costs that differ from row to row, in place of `costs`: an array
        ``cost[row, true, predicted]`` of shape (n_samples, n_classes, n_classes), a mapping
        ``{label: cost of misclassifying each row if it has that label}``, or, of shape (n_samples,
        n_classes), the cost of predicting each of `labels`, right or wrong, for that row.
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
    savings_score : The share of the cost of a constant decision that is saved.

    Examples
    --------
    >>> from grayzone.metrics import expected_cost
    >>> expected_cost([0, 0, 1, 1], [0, 1, 1, 0], costs={0: 1.0, 1: 4.0})
    1.25
    >>> expected_cost([0, 0, 1, 1], [0, 1, 1, -1], costs={0: 1.0, 1: 4.0}, reject_cost=0.5)
    0.375

    A loan that goes bad costs its amount, one that is refused its margin:

    >>> amounts, margins = [500.0, 80.0, 200.0], [20.0, 4.0, 9.0]
    >>> rows = {"bad": amounts, "good": margins}
    >>> expected_cost(["bad", "good", "good"], ["bad", "bad", "good"], example_costs=rows)
    1.3333333333333333
    """
    bill = _bill(
        y_true,
        y_pred,
        costs,
        example_costs,
        sample_weight,
        labels,
        reject_cost,
        undecided_label,
    )
    total = float(bill.weights @ bill.paid)
    return total / float(bill.weights.sum()) if normalize else total


def savings_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    costs: Costs = None,
    example_costs: Any = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    reject_cost: Any = None,
    undecided_label: Any = "auto",
) -> float:
    r"""Return the share of the cost of the cheapest constant decision that decisions save.

    .. math:: 1 - \frac{\sum_i w_i \, c_i(\hat y_i)}{\min_j \sum_i w_i \, c_i(j)},

    with :math:`c_i(j)` what the decision :math:`j` costs for row :math:`i`: what Bahnsen et al.
    [1]_ call savings.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_pred : array-like of shape (n_samples,)
        Predicted labels, `undecided_label` where no decision was taken.
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        As in :func:`expected_cost`.
    example_costs : array-like or mapping, default=None
        Costs of each row, in place of `costs`; as in :func:`expected_cost`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the order of the costs; as in :func:`expected_cost`.
    reject_cost : float, mapping or array-like of shape (n_classes,), default=None
        Cost of a row left undecided, for all or for each true class.
    undecided_label : "auto", str or number, default="auto"
        Label of undecided rows in `y_pred`.

    Returns
    -------
    savings : float
        1 where nothing is paid, 0 where as much as for the constant decision that is cheapest for
        these rows, negative beyond. NaN, with a warning, where that costs nothing.

    See Also
    --------
    expected_cost : The cost itself.

    References
    ----------
    .. [1] A. C. Bahnsen, D. Aouada and B. Ottersten (2014). Example-dependent cost-sensitive
       logistic regression for credit scoring. ICMLA.

    Examples
    --------
    >>> from grayzone.metrics import savings_score
    >>> rows = {"bad": [500.0, 80.0, 200.0], "good": [20.0, 4.0, 9.0]}
    >>> round(savings_score(["bad", "good", "good"], ["bad", "bad", "good"], example_costs=rows), 3)
    0.692
    """
    bill = _bill(
        y_true,
        y_pred,
        costs,
        example_costs,
        sample_weight,
        labels,
        reject_cost,
        undecided_label,
    )
    constant = float(np.min(bill.weights @ bill.prices))
    if constant == 0.0:
        _warn_undefined("A constant decision costs nothing: savings are undefined and set to NaN.")
        return math.nan
    return 1.0 - float(bill.weights @ bill.paid) / constant


def selective_risk(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    undecided_label: Any = "auto",
    costs: Costs = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    example_costs: Any = None,
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
    example_costs : array-like or mapping, default=None
        Costs of each row, in place of `costs`; as in :func:`expected_cost`.

    Returns
    -------
    result : SelectiveRisk
        The named tuple ``(risk, coverage)``. The risk is NaN, with a warning, if no row was
        decided.

    See Also
    --------
    risk_coverage_curve : Risk against coverage for all costs of staying undecided.

    Examples
    --------
    >>> from grayzone.metrics import selective_risk
    >>> selective_risk([0, 0, 1, 1], [0, -1, 1, 0])
    SelectiveRisk(risk=0.3333333333333333, coverage=0.75)
    """
    named = naming(costs, example_costs)
    truth, chosen, decided = read_decisions(
        y_true, y_pred, sample_weight, labels, named, undecided_label, reject_cost=None
    )
    paid = truth.prices(costs, example_costs)[np.arange(len(chosen)), chosen]
    mass = truth.weights * decided
    if not np.any(mass):
        _warn_undefined("No row was decided: the risk is undefined and set to NaN.")
        return SelectiveRisk(math.nan, 0.0)
    total = float(mass.sum())
    return SelectiveRisk(float(mass @ paid) / total, total / float(truth.weights.sum()))


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

        -\frac{1}{n} \Big[ \sum_{i: y_i = 1} \log \min(p_i, p_{\max})
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
    zone_calibration_error : Whether probabilities inside the zone are frequencies.

    Examples
    --------
    >>> from grayzone.metrics import zone_log_loss
    >>> y, p = [0, 1, 1], [0.01, 0.6, 0.99]
    >>> round(zone_log_loss(y, p, zone=(0.25, 0.75)), 4)
    0.3621
    >>> round(zone_log_loss(y, p, zone=None), 4)
    0.177
    """
    truth, proba = read_probabilities(y_true, y_proba, sample_weight, labels)
    caps = _caps(zone, truth.labels)
    xp, where = array_namespace(proba), device(proba)
    columns = xp.arange(len(truth.labels), device=where)
    own = xp.asarray(truth.codes, device=where)[:, None] == columns[None, :]
    p = xp.sum(xp.where(own, proba, xp.zeros_like(proba)), axis=1)
    p = xp.clip(p, float(xp.finfo(proba.dtype).eps), 1.0)
    cap = xp.asarray(caps[truth.codes], dtype=proba.dtype, device=where)
    loss = -xp.log(xp.minimum(p, cap))
    total = float(xp.sum(loss * xp.asarray(truth.weights, dtype=proba.dtype, device=where)))
    return total / float(truth.weights.sum()) if normalize else total


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
    truth, p = read_binary(y_true, y_proba, sample_weight, pos_label)
    p_min, p_max = binary_zone(zone, 0.5)
    inside = (p >= p_min) & (p <= p_max)
    bins = reliability_bins(truth, p, inside, (p_min, p_max), n_bins, strategy)
    if bins.weight.size == 0:
        _warn_undefined(
            f"No probability lies inside the zone [{p_min:.3g}, {p_max:.3g}]: the calibration "
            "error is undefined and set to NaN."
        )
    return calibration_error(bins)


class _Bill(NamedTuple):
    """What decisions cost."""

    weights: Floats
    prices: Floats  # (n, K): of each decision, the true class being what it is
    paid: Floats  # (n,): of the one that was taken


def _bill(
    y_true: Any,
    y_pred: Any,
    costs: Costs,
    example_costs: Any,
    sample_weight: Any,
    labels: Any,
    reject_cost: Any,
    undecided_label: Any,
) -> _Bill:
    named = naming(costs, example_costs)
    truth, chosen, decided = read_decisions(
        y_true, y_pred, sample_weight, labels, named, undecided_label, reject_cost
    )
    prices = truth.prices(costs, example_costs)
    paid = prices[np.arange(len(chosen)), chosen]
    if not np.all(decided):
        if reject_cost is None:
            raise ValueError(
                f"y_pred leaves {np.sum(~decided)} rows undecided; give reject_cost, what "
                "such a row costs (or, if the label of these rows is a class, name all classes "
                "in labels)."
            )
        paid = np.where(decided, paid, reject_costs(reject_cost, truth.labels)[truth.codes])
    return _Bill(truth.weights, prices, paid)


def _caps(zone: Any, labels: NDArray[Any]) -> Floats:
    """Return the probability above which a row's loss no longer falls, for each class."""
    if len(labels) > 2 or isinstance(zone, Mapping):
        return class_caps(zone, labels)
    p_min, p_max = binary_zone(zone, 0.5)
    return np.asarray([1.0 - p_min, p_max])


def _warn_undefined(message: str) -> None:
    warnings.warn(message, UndefinedMetricWarning, stacklevel=3)
