"""The curves behind the displays: cost against threshold, risk against coverage, reliability."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grayzone.decision import action_costs, bayes_decision
from grayzone.decision.costs import Costs, stakes, threshold_of
from grayzone.decision.example_costs import errors_of_rows, mean_costs
from grayzone.decision.ranges import corners, has_range
from grayzone.metrics.resampling import (
    bootstrap_sums,
    check_confidence,
    check_replicates,
    percentile_band,
)
from grayzone.metrics.truth import Truth, naming, read_binary, read_probabilities
from grayzone.numerics.checks import Array, Floats, as_numpy, check_choice, check_integer

_MOST_RESAMPLED = 1_000  # thresholds of a cost curve that replicates are summed for


class CostCurve(NamedTuple):
    """Mean cost as a function of the decision threshold.

    Attributes
    ----------
    thresholds : ndarray
        Increasing, from 0 to 1; in between, every distinct probability.
    mean_cost : ndarray
        ``mean_cost[k]`` is the mean cost for every threshold in
        ``(thresholds[k - 1], thresholds[k]]``.
    lower, upper : ndarray or None
        Band of `mean_cost` by the bootstrap; None where it was not asked for.
    regret : ndarray or None
        Where costs are ranges: what the threshold costs at most beyond the best one for the costs
        that turn out; None where costs are known.

    See Also
    --------
    cost_curve : Computes it.
    grayzone.displays.CostCurveDisplay : Draws it.

    Examples
    --------
    >>> from grayzone.metrics import cost_curve
    >>> curve = cost_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], costs={0: 1, 1: 5})
    >>> curve.thresholds
    array([0.  , 0.1 , 0.35, 0.4 , 0.8 , 1.  ])
    >>> curve.mean_cost
    array([0.5 , 0.5 , 0.25, 1.5 , 1.25, 2.5 ])
    """

    thresholds: Floats
    mean_cost: Floats
    lower: Floats | None = None
    upper: Floats | None = None
    regret: Floats | None = None


class RiskCoverageCurve(NamedTuple):
    """Risk on decided rows as a function of the share of rows decided.

    Attributes
    ----------
    coverage : ndarray
        Increasing shares of rows decided; the last one is 1.
    risk : ndarray
        Mean cost of the rows decided.
    reject_cost : ndarray
        The smallest cost of staying undecided at which so many rows are decided.

    See Also
    --------
    risk_coverage_curve : Computes it.
    grayzone.displays.RiskCoverageDisplay : Draws it.

    Examples
    --------
    >>> from grayzone.metrics import risk_coverage_curve
    >>> curve = risk_coverage_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> curve.coverage
    array([0.25, 0.5 , 0.75, 1.  ])
    >>> curve.risk.round(2)
    array([0.  , 0.  , 0.33, 0.25])
    """

    coverage: Floats
    risk: Floats
    reject_cost: Floats


class ReliabilityBins(NamedTuple):
    """Probabilities against frequencies: what a reliability diagram shows."""

    predicted: Floats
    observed: Floats
    weight: Floats


def cost_curve(
    y_true: ArrayLike,
    y_proba: Array,
    *,
    costs: Costs = None,
    example_costs: Any = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    n_bootstrap: int = 0,
    confidence: float = 0.95,
    random_state: Any = None,
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
        As in :func:`~grayzone.metrics.expected_cost`; the positive class comes second. A mapping's
        values may be ranges ``(low, high)``: the curve is then that of the geometric middle.
    example_costs : array-like of shape (n_samples, 2, 2) or mapping, default=None
        Costs of each row, in place of `costs`: ``cost[row, true, predicted]``, the positive class
        second, or ``{label: cost of misclassifying each row if it has that label}``. The threshold
        is then that of a row with the mean costs; those of the others move with it, their odds by
        the same factor.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    pos_label : str or number, default=None
        The positive class; by default the last of the sorted labels.
    n_bootstrap : int, default=0
        Replicates of the bootstrap for a band around the curve; 0 for none.
    confidence : float, default=0.95
        Share of the replicates that lie in the band, at each threshold.
    random_state : int, RandomState instance or None, default=None
        Draws the rows of the replicates.

    Returns
    -------
    curve : CostCurve
        The named tuple ``(thresholds, mean_cost, lower, upper, regret)``: ``mean_cost[k]`` holds
        for every threshold in ``(thresholds[k - 1], thresholds[k]]``.

    See Also
    --------
    expected_cost : The mean cost of given decisions.
    grayzone.displays.CostCurveDisplay : Draws the curve.

    Notes
    -----
    The bootstrap draws rows, not rows of each class: in another sample the share of the positive
    class is another one, too, and with it the mean cost; strata would make the band too narrow.
    Rows are drawn as often as any other whatever they weigh, and costs stay as they are, also
    "balanced" ones. Of more than 1,000 thresholds so many are looked at, at even distances in the
    sorted rows; the width of the band is interpolated in between.

    With ranges of costs the regret of a threshold :math:`t` is

    .. math:: \max_C \Big[ \mathrm{cost}_C(t) - \min_s \mathrm{cost}_C(s) \Big]

    over the costs :math:`C` in the ranges: what it costs at most not to have known them. It is
    convex in :math:`C`, so that the ends of the ranges have its maximum.

    Examples
    --------
    >>> from grayzone.metrics import cost_curve
    >>> curve = cost_curve([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9], costs={0: 1.0, 1: 3.0})
    >>> curve.thresholds
    array([0. , 0.1, 0.4, 0.6, 0.9, 1. ])
    >>> curve.mean_cost
    array([0.5 , 0.5 , 0.25, 1.  , 0.75, 1.5 ])

    A missed positive that costs between 2 and 4.5:

    >>> curve = cost_curve([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9], costs={0: 1.0, 1: (2.0, 4.5)})
    >>> curve.regret
    array([0.25 , 0.25 , 0.   , 1.125, 0.875, 2.   ])
    """
    share = check_confidence(confidence)
    replicates = check_replicates(n_bootstrap)
    named = naming(costs, example_costs)
    truth, p = read_binary(y_true, y_proba, sample_weight, pos_label, named)
    if example_costs is None:
        paid = truth.matrix_of(costs)[truth.codes]
    else:
        matrices = truth.row_matrices(example_costs, some_stake=True)
        paid = matrices[np.arange(len(p)), truth.codes]
        p = as_of_mean_row(p, matrices, mean_costs(matrices, truth.weights))
    values, group = np.unique(p, return_inverse=True)
    mean = _mean_costs(group, paid, truth.weights)
    lower = upper = regret = None
    if replicates:
        draw = partial(bootstrap_sums, n_bootstrap=replicates, random_state=random_state)
        lower, upper = _cost_band(group, paid, truth.weights, draw, share)
    if example_costs is None and has_range(costs, truth.labels):
        regret = _regret(group, truth, list(corners(costs, truth.labels)))
    return CostCurve(*_from_zero_to_one(values, [mean, lower, upper, regret]))


def as_of_mean_row(p: Floats, matrices: Floats, mean: Floats) -> Floats:
    """Return the probability that a row with the mean costs would have in place of each row.

    That is, one as far from its threshold as the row's is from its own, in log-odds.
    """
    errors = np.stack(errors_of_rows(matrices))
    if np.any(errors < 0.0):
        row = int(np.argmax(np.any(errors < 0.0, axis=0)))
        raise ValueError(
            f"example_costs give row {row} no threshold: an error about it costs less than the "
            "right decision."
        )
    of_mean = np.asarray(stakes(mean))[:, None]
    false_positive, false_negative = errors / np.where(of_mean > 0.0, of_mean, 1.0)
    upwards, downwards = p * false_negative, (1.0 - p) * false_positive
    # a tie between two certainties, of which rule (1) takes the positive one
    tie = np.full(len(p), threshold_of(mean))
    both = upwards + downwards
    relative = np.divide(upwards, both, out=tie, where=both > 0.0)
    return np.where(np.any(errors > 0.0, axis=0), relative, p)


def _mean_costs(group: NDArray[np.intp], paid: Floats, weights: Floats) -> Floats:
    """Return the mean cost where the threshold is each of the sorted values, and beyond the last.

    ``group`` says which of the values a row has, ``paid`` what it costs as a negative and as a
    positive one.
    """
    # At the smallest value all rows are positive; each value passed turns its rows negative.
    steps = np.bincount(group, weights * (paid[:, 0] - paid[:, 1]))
    totals = weights @ paid[:, 1] + np.concatenate([[0.0], np.cumsum(steps)])
    return totals / weights.sum()


def _cost_band(
    group: NDArray[np.intp],
    paid: Floats,
    weights: Floats,
    draw: Callable[..., Floats],
    share: float,
) -> tuple[Floats, Floats]:
    """Return the band of the mean costs."""
    mean, counted = _mean_costs(group, paid, weights), weights > 0
    places = np.unique(np.linspace(0, len(mean) - 1, _MOST_RESAMPLED).astype(np.intp))
    # A row is negative from the first of the places on that lies beyond its value.
    cells = np.searchsorted(places, group[counted], side="right")
    w, (as_negative, as_positive) = weights[counted], paid[counted].T
    sums = draw(np.stack([w * (as_negative - as_positive), w * as_positive, w]), cells, len(places))
    totals = sums[:, 1].sum(axis=-1, keepdims=True) + np.cumsum(sums[:, 0], axis=-1)
    band = percentile_band(totals / sums[:, 2].sum(axis=-1, keepdims=True), share)
    everywhere = np.arange(len(mean))
    lower, upper = (mean + np.interp(everywhere, places, end - mean[places]) for end in band)
    return lower, upper


def _regret(group: NDArray[np.intp], truth: Truth, matrices: Sequence[Floats]) -> Floats:
    """Return what is paid at most beyond the least mean cost, over some matrices of costs."""
    wrong = 1.0 - np.eye(2)[truth.codes]
    rates = [_mean_costs(group, wrong * (truth.codes == k)[:, None], truth.weights) for k in (0, 1)]
    costs = np.stack([stakes(matrix) for matrix in matrices]) @ np.stack(rates)
    return np.max(costs - costs.min(axis=1, keepdims=True), axis=0)


def _from_zero_to_one(values: Floats, curves: Sequence[Floats | None]) -> list[Any]:
    """Return thresholds that begin with 0 and end with 1, and curves with as many points."""
    first, last = int(values[0] > 0.0), int(values[-1] < 1.0)
    thresholds = np.concatenate([[0.0] * first, values, [1.0] * last])
    # before the first value all is as at it; what lies beyond the last one holds up to 1
    places = np.maximum(np.arange(len(thresholds)) - first, 0)
    return [thresholds, *(None if curve is None else curve[places] for curve in curves)]


def risk_coverage_curve(
    y_true: ArrayLike,
    y_proba: Array,
    *,
    costs: Costs = None,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    example_costs: Any = None,
) -> RiskCoverageCurve:
    r"""Return the risk on decided rows for every share of rows that Bayes' rule can decide.

    A row is decided when the expected cost of its best decision,
    :math:`\min_j \sum_i p_i \mathrm{cost}[i, j]`, does not exceed that of staying
    undecided.
    Letting the latter grow from zero decides the rows one after the other, the safest first.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_proba : array of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, or the probability of the positive class.
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        As in :func:`~grayzone.metrics.expected_cost`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    labels : array-like of shape (n_classes,), default=None
        The classes in the order of the columns; by default the sorted labels of `y_true` and
        the keys of a mapping.
    example_costs : array-like of shape (n_samples, n_classes, n_classes) or mapping, default=None
        Costs of each row, in place of `costs`: ``cost[row, true, predicted]``, or
        ``{label: cost of misclassifying each row if it has that label}``.

    Returns
    -------
    curve : RiskCoverageCurve
        The named tuple ``(coverage, risk, reject_cost)``, by increasing coverage: with
        ``reject_cost[k]`` as that of staying undecided, the share ``coverage[k]`` of the rows is
        decided at a mean cost of ``risk[k]``.

    See Also
    --------
    grayzone.metrics.selective_risk : The same for given decisions.

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
    named = naming(costs, example_costs)
    truth, proba = read_probabilities(y_true, y_proba, sample_weight, labels, named)
    proba = as_numpy(proba)
    known = truth.matrix_of(costs)
    if example_costs is not None:
        known = truth.row_matrices(example_costs)
    best = np.min(action_costs(proba, known), axis=1)
    rows = np.arange(len(proba))
    prices = known[truth.codes] if example_costs is None else known[rows, truth.codes]
    paid = truth.weights * prices[rows, bayes_decision(proba, known)]
    counted = truth.weights > 0
    levels, group = np.unique(best[counted], return_inverse=True)
    mass = np.cumsum(np.bincount(group, truth.weights[counted]))
    risk = np.cumsum(np.bincount(group, paid[counted])) / mass
    return RiskCoverageCurve(mass / mass[-1], risk, levels.astype(np.float64))


def reliability_bins(
    truth: Truth,
    p: Floats,
    rows: NDArray[np.bool_],
    interval: tuple[float, float],
    n_bins: int,
    strategy: str,
) -> ReliabilityBins:
    """Bin the probabilities of the rows asked for, all of them inside `interval`."""
    check_integer("n_bins", n_bins, least=1)
    check_choice("strategy", strategy, ("quantile", "uniform"))
    rows = rows & (truth.weights > 0)
    if not np.any(rows):
        return ReliabilityBins(np.empty(0), np.empty(0), np.empty(0))
    p, y, w = p[rows], truth.codes[rows], truth.weights[rows]
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
