"""Net benefit: what decisions at a threshold are worth, in true positives (decision curves)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from grayzone.metrics.resampling import (
    bootstrap_sums,
    check_confidence,
    check_replicates,
    percentile_band,
)
from grayzone.metrics.truth import Truth, read_binary
from grayzone.numerics.checks import Array, Floats, as_amounts, check_number

_SMALLEST = float(np.nextafter(0.0, 1.0))


class NetBenefitCurve(NamedTuple):
    """Net benefit as a function of the decision threshold: a decision curve.

    Attributes
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Probabilities from which on a row is treated as positive.
    net_benefit : ndarray of shape (n_thresholds,)
        Net benefit of deciding by the probabilities.
    treat_all : ndarray of shape (n_thresholds,)
        Net benefit of deciding for the positive class always.
    treat_none : ndarray of shape (n_thresholds,)
        Net benefit of never doing so: zero.
    lower, upper : ndarray of shape (n_thresholds,) or None
        Band of `net_benefit` by the bootstrap; None where it was not asked for.

    See Also
    --------
    net_benefit_curve : Computes it.
    grayzone.displays.NetBenefitDisplay : Draws it.

    Examples
    --------
    >>> from grayzone.metrics import net_benefit_curve
    >>> curve = net_benefit_curve([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8], thresholds=[0.25, 0.5])
    >>> curve.net_benefit.round(3)
    array([0.417, 0.25 ])
    >>> curve.treat_all.round(3)
    array([0.333, 0.   ])
    """

    thresholds: Floats
    net_benefit: Floats
    treat_all: Floats
    treat_none: Floats
    lower: Floats | None = None
    upper: Floats | None = None

    @property
    def interventions_avoided(self) -> Floats:
        """Share of rows spared by the probabilities beside treating all; NaN at threshold 0."""
        odds = self.thresholds / (1.0 - self.thresholds)
        gain = self.net_benefit - self.treat_all
        return np.divide(gain, odds, out=np.full(len(odds), np.nan), where=odds > 0)


def net_benefit(
    y_true: ArrayLike,
    y_proba: Array,
    *,
    threshold: float,
    prevalence: float | None = None,
    harm: float = 0.0,
    standardize: bool = False,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Return the net benefit of treating rows as positive from a threshold on.

    .. math::

        \mathrm{NB}(t) = \mathrm{TPR} \, \pi - \mathrm{FPR} \, (1 - \pi) \, \frac{t}{1 - t}

    of Vickers & Elkin [1]_: the share of true positives, less the share of false positives at
    the rate of exchange that the threshold :math:`t` implies; :math:`\pi` is the prevalence. With
    :math:`C^+` the cost of a missed positive and :math:`t = C^- / (C^+ + C^-)` the threshold of
    these costs, it is :math:`\pi` less :func:`expected_cost` in units of :math:`C^+`: what the
    costs say, in another unit.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of two classes.
    y_proba : array of shape (n_samples,) or (n_samples, 2)
        Probability of the positive class, the second column of two; decisions 0 and 1 will do.
    threshold : float
        Probability from which on a row is treated as positive, in [0, 1). A probability of exactly
        zero never is.
    prevalence : float, default=None
        Share of the positive class where decisions are made, for rows whose classes were drawn
        apart (case-control data). By default that of the rows.
    harm : float, default=0.0
        What it costs to have the probabilities, such as a test, in true positives a row.
    standardize : bool, default=False
        Divide by the prevalence: 1 is then the most that can be had [2]_.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    pos_label : str or number, default=None
        The positive class; by default the last of the sorted labels.

    Returns
    -------
    benefit : float
        The larger, the better; 0 is what treating nobody is worth.

    See Also
    --------
    net_benefit_curve : The same for many thresholds, beside treating all and none.
    grayzone.displays.NetBenefitDisplay : The picture of it.
    expected_cost : The mean cost of decisions.

    References
    ----------
    .. [1] A. J. Vickers and E. B. Elkin (2006). Decision curve analysis: a novel method for
       evaluating prediction models. Medical Decision Making.

    .. [2] K. F. Kerr, M. D. Brown, K. Zhu and H. Janes (2016). Assessing the clinical impact of
       risk prediction models with decision curves. Journal of Clinical Oncology.

    Examples
    --------
    >>> from grayzone.metrics import expected_cost, net_benefit
    >>> y, p = [0, 0, 0, 1, 1], [0.1, 0.3, 0.6, 0.4, 0.9]
    >>> net_benefit(y, p, threshold=0.2)
    0.3
    >>> 2 / 5 - expected_cost(y, [0, 1, 1, 1, 1], costs={0: 1.0, 1: 4.0}) / 4.0
    0.3
    """
    check_number("threshold", threshold)
    curve = net_benefit_curve(
        y_true,
        y_proba,
        thresholds=[threshold],
        prevalence=prevalence,
        harm=harm,
        standardize=standardize,
        sample_weight=sample_weight,
        pos_label=pos_label,
    )
    return float(curve.net_benefit[0])


def net_benefit_curve(
    y_true: ArrayLike,
    y_proba: Array,
    *,
    thresholds: ArrayLike | None = None,
    prevalence: float | None = None,
    harm: float = 0.0,
    standardize: bool = False,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    n_bootstrap: int = 0,
    confidence: float = 0.95,
    random_state: Any = None,
) -> NetBenefitCurve:
    """Return the net benefit for many thresholds, beside treating all rows and none.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of two classes.
    y_proba : array of shape (n_samples,) or (n_samples, 2)
        Probability of the positive class, the second column of two; decisions 0 and 1 will do.
    thresholds : array-like of shape (n_thresholds,), default=None
        Probabilities from which on rows are treated as positive, in [0, 1); by default 0, 0.01, …,
        0.99.
    prevalence : float, default=None
        Share of the positive class where decisions are made, for rows whose classes were drawn
        apart (case-control data). By default that of the rows.
    harm : float, default=0.0
        What it costs to have the probabilities, such as a test, in true positives a row.
    standardize : bool, default=False
        Divide by the prevalence: 1 is then the most that can be had.
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
    curve : NetBenefitCurve
        The named tuple ``(thresholds, net_benefit, treat_all, treat_none, lower, upper)``, with
        the property `interventions_avoided`.

    See Also
    --------
    net_benefit : One threshold; with the formula and the references.

    Notes
    -----
    The bootstrap draws rows as they were drawn: all of them alike, so that the share of the
    positive class varies as in another sample, or those of each class apart where a `prevalence`
    says that this was done. Rows are drawn as often as any other whatever they weigh.

    Examples
    --------
    >>> from grayzone.metrics import net_benefit_curve
    >>> y, p = [0, 0, 0, 1, 1], [0.1, 0.3, 0.6, 0.4, 0.9]
    >>> curve = net_benefit_curve(y, p, thresholds=[0.2, 0.5])
    >>> curve.net_benefit
    array([0.3, 0. ])
    >>> curve.treat_all
    array([ 0.25, -0.2 ])
    >>> curve.interventions_avoided
    array([0.2, 0.2])
    """
    replicates, share = check_replicates(n_bootstrap), check_confidence(confidence)
    truth, p = read_binary(y_true, y_proba, sample_weight, pos_label)
    cuts = _checked_thresholds(thresholds)
    given = _checked_prevalence(prevalence, truth)
    if check_number("harm", harm) < 0.0:
        raise ValueError(f"harm must not be negative; got {harm!r}.")
    unit = _unit(truth, given) if standardize else 1.0
    counted = truth.weights > 0
    positive, weights = truth.codes[counted] == 1, truth.weights[counted]
    # Row by row the number of thresholds reached, in ascending order; zero reaches not even zero.
    order = np.argsort(cuts)
    cells = np.searchsorted(np.maximum(cuts[order], _SMALLEST), p[counted], side="right")
    parts = np.stack([weights * positive, weights * ~positive])
    sums: Floats = np.stack([np.bincount(cells, part, minlength=len(cuts) + 1) for part in parts])
    back = np.argsort(order)
    odds = cuts / (1.0 - cuts)

    def benefit(grouped: Floats) -> Floats:
        shares = _shares(grouped, given)[..., back]
        return (shares[..., 0, :] - odds * shares[..., 1, :] - harm) / unit

    lower = upper = None
    if replicates:
        strata = None if given is None else positive.astype(np.intp)
        drawn = bootstrap_sums(parts, cells, len(cuts) + 1, replicates, random_state, strata)
        lower, upper = percentile_band(benefit(drawn), share)
    prior = truth.prior[1] if given is None else given
    treat_all = (prior - odds * (1.0 - prior)) / unit
    return NetBenefitCurve(cuts, benefit(sums), treat_all, np.zeros(len(cuts)), lower, upper)


def _shares(sums: Floats, prevalence: float | None) -> Floats:
    """Return the true and the false positives' shares (…, 2, n_thresholds) from sums in cells."""
    masses = sums.sum(axis=-1, keepdims=True)
    # from each threshold on; before the first one lies who reaches none
    reached = np.flip(np.cumsum(np.flip(sums, axis=-1), axis=-1), axis=-1)[..., 1:]
    if prevalence is None:
        return reached / masses.sum(axis=-2, keepdims=True)
    return reached / masses * np.asarray([[prevalence], [1.0 - prevalence]])


def _checked_thresholds(thresholds: Any) -> Floats:
    if thresholds is None:
        return np.arange(100) / 100.0
    cuts = as_amounts(thresholds, "thresholds")
    if cuts.ndim != 1 or cuts.size == 0:
        raise ValueError(
            f"thresholds must be one-dimensional and not empty; got shape {cuts.shape}."
        )
    if np.any(cuts >= 1.0):
        raise ValueError(
            f"A threshold must be in [0, 1): from 1 on no true positive outweighs a false one; got "
            f"{cuts[np.argmax(cuts >= 1.0)]:g}."
        )
    return cuts


def _checked_prevalence(prevalence: Any, truth: Truth) -> float | None:
    if prevalence is None:
        return None
    if not 0.0 < check_number("prevalence", prevalence) < 1.0:
        raise ValueError(f"prevalence must be between 0 and 1; got {prevalence!r}.")
    if not np.all(truth.prior > 0):
        raise ValueError("A prevalence needs rows of both classes, for the rates of each.")
    return float(prevalence)


def _unit(truth: Truth, prevalence: float | None) -> float:
    """Return the most that can be had, all positives and nobody else."""
    unit = truth.prior[1] if prevalence is None else prevalence
    if not unit > 0.0:
        raise ValueError("standardize divides by the prevalence, and y_true has no positive row.")
    return float(unit)
