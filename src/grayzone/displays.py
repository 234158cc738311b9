"""Pictures of decisions: cost against threshold, reliability in the zone, risk against coverage.

Each display follows scikit-learn's convention: `from_estimator` and `from_predictions` compute
and draw, `plot` draws again, and what was drawn is kept in attributes that end in an underscore.
Matplotlib is imported when something is drawn; it comes with ``pip install grayzone[plot]``.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.
"""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from grayzone._validation import binary_zone
from grayzone.decision import (
    Array,
    BayesDecisionClassifier,
    Costs,
    as_numpy,
    check_weights,
    class_prior,
    threshold_from_costs,
)
from grayzone.metrics import (
    Floats,
    ReliabilityBins,
    binary_target,
    calibration_error,
    cost_curve,
    positive_probability,
    reliability_bins,
    risk_coverage_curve,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

__all__ = ["CostCurveDisplay", "RiskCoverageDisplay", "ZoneReliabilityDisplay"]

Zone = tuple[float, float]

_MUTED = "0.45"  # grey of everything that is not the curve itself

# The risk of the very first rows decided is that of a handful of rows: the axis of a risk-coverage
# plot need not make room for it.
_SMALL_COVERAGE = 0.05

# Beyond so many points, matplotlib takes seconds to find the best place for a legend.
_MANY_POINTS = 20_000


class CostCurveDisplay:
    r"""Mean cost of two-class decisions against the decision threshold.

    Figure 1 of Hérault & Grandvalet (2007). The curve is exact: it has a step at every
    probability, found with one sort. The vertical line is the threshold implied by the costs,
    :math:`C^- / (C^+ + C^-)` of rule (1); where probabilities are good, the curve has its
    minimum there. It is recommended to create a display with `from_estimator` or
    `from_predictions`.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Thresholds at which the mean cost steps, increasing from 0 to 1.
    mean_cost : ndarray of shape (n_thresholds,)
        Mean cost for the thresholds in ``(thresholds[k - 1], thresholds[k]]``.
    threshold : float, default=None
        Where to draw the vertical line; None for no line.
    zone : tuple of float, default=None
        ``(p_min, p_max)`` to shade; None for no shade.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    line_ : matplotlib Line2D
        The curve.
    threshold_line_ : matplotlib Line2D or None
        The vertical line.
    zone_patch_ : matplotlib Patch or None
        The shade of the zone.

    See Also
    --------
    grayzone.metrics.cost_curve : The numbers behind it.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from grayzone.displays import CostCurveDisplay
    >>> display = CostCurveDisplay.from_predictions(
    ...     [0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9], costs={0: 1.0, 1: 3.0}, zone=1.0
    ... )
    >>> display.threshold
    0.25
    >>> plt.close(display.figure_)
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    threshold_line_: Line2D | None
    zone_patch_: Any

    def __init__(
        self,
        *,
        thresholds: Floats,
        mean_cost: Floats,
        threshold: float | None = None,
        zone: Zone | None = None,
        name: str | None = None,
    ) -> None:
        self.thresholds = thresholds
        self.mean_cost = mean_cost
        self.threshold = threshold
        self.zone = zone
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        costs: Costs = "auto",
        threshold: Any = "auto",
        zone: Any = "auto",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the cost curve of a fitted classifier of two classes.

        Parameters
        ----------
        estimator : estimator
            Fitted classifier, or a pipeline or search that ends in one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data to predict.
        y : array-like of shape (n_samples,)
            True labels.
        costs : "auto", None, "balanced", mapping or array-like of shape (2, 2), default="auto"
            What errors cost; "auto" takes them from the estimator if it has any, None means that
            every error costs 1.
        threshold : "auto", float or None, default="auto"
            Where to draw the vertical line; "auto" takes `threshold_` of the estimator or, if it
            has none, the threshold implied by the costs.
        zone : "auto", None, float or pair of floats, default="auto"
            What to shade: ``(p_min, p_max)`` or a half-width around the threshold; "auto" takes
            `zone_` of the estimator, if it has one.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        name : str, default=None
            Name of the curve; by default the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : CostCurveDisplay
            What was drawn.
        """
        _pyplot(f"{cls.__name__}.from_estimator")
        proba, pos_label = _positive_response(estimator, X)
        if _is_auto(threshold):
            threshold = _fitted(estimator, "threshold_", "auto")
        return cls.from_predictions(
            y,
            proba,
            costs=_fitted_costs(estimator) if _is_auto(costs) else costs,
            threshold=threshold,
            zone=_fitted_zone(estimator, None) if _is_auto(zone) else zone,
            sample_weight=sample_weight,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: Array,
        *,
        costs: Costs = None,
        threshold: Any = "auto",
        zone: Any = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the cost curve of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of two classes.
        y_proba : array of shape (n_samples,) or (n_samples, 2)
            Probability of the positive class; the second column of two.
        costs : None, "balanced", mapping or array-like of shape (2, 2), default=None
            What errors cost; None means that every error costs 1.
        threshold : "auto", float or None, default="auto"
            Where to draw the vertical line; "auto" takes the threshold implied by the costs.
        zone : None, float or pair of floats, default=None
            What to shade: ``(p_min, p_max)`` or a half-width around the threshold.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        pos_label : str or number, default=None
            The positive class; by default the last of the sorted labels.
        name : str, default=None
            Name of the curve; by default "Classifier".
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : CostCurveDisplay
            What was drawn.
        """
        _pyplot(f"{cls.__name__}.from_predictions")
        curve = cost_curve(
            y_true, y_proba, costs=costs, sample_weight=sample_weight, pos_label=pos_label
        )
        if _is_auto(threshold):
            threshold = _implied_threshold(y_true, costs, sample_weight, pos_label)
        display = cls(
            thresholds=curve.thresholds,
            mean_cost=curve.mean_cost,
            threshold=threshold,
            zone=None
            if zone is None
            else binary_zone(zone, 0.5 if threshold is None else threshold),
            name="Classifier" if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        name : str, default=None
            Name of the curve; by default that of the display.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : CostCurveDisplay
            The object itself.
        """
        ax = self.ax_ = _axes(ax, f"{type(self).__name__}.plot")
        self.figure_ = ax.figure
        self.zone_patch_ = _shade(ax, self.zone)
        self.threshold_line_ = None
        if self.threshold is not None:
            label = _once(ax, f"threshold {self.threshold:.3g}")
            self.threshold_line_ = ax.axvline(
                self.threshold, color=_MUTED, linestyle="--", linewidth=1.2, label=label
            )
        # A step holds up to and including its threshold: rule (1) decides with p >= t.
        style = {"drawstyle": "steps-pre", "label": name or self.name, **kwargs}
        (self.line_,) = ax.plot(self.thresholds, self.mean_cost, **style)
        ax.set(xlabel="Decision threshold", ylabel="Mean cost", xlim=(0, 1))
        _legend(ax)
        return self


class ZoneReliabilityDisplay:
    """Frequencies against probabilities, with the gray zone shaded.

    Inside the zone probabilities are meant to be frequencies, and the points should lie on the
    diagonal; the legend gives the calibration error there. Beyond the zone probabilities only
    say "beyond" (criterion (3) of Hérault & Grandvalet, 2007): those points are muted and count
    for nothing. It is recommended to create a display with `from_estimator` or
    `from_predictions`.

    Parameters
    ----------
    inside : tuple of ndarray
        Mean probability, frequency and weight of the bins inside the zone.
    outside : tuple of ndarray
        The same for the bins on both sides of the zone, in increasing order.
    zone : tuple of float
        The ends ``(p_min, p_max)`` of the zone.
    error : float
        Calibration error inside the zone; NaN if no row is inside.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    line_ : matplotlib Line2D
        The points inside the zone.
    outside_line_ : matplotlib Line2D
        The points beyond it, with a gap where the zone is.
    reference_line_ : matplotlib Line2D
        The diagonal.
    zone_patch_ : matplotlib Patch or None
        The shade of the zone; None if the zone is everything.

    See Also
    --------
    grayzone.metrics.zone_calibration_error : The number in the legend.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from grayzone.displays import ZoneReliabilityDisplay
    >>> display = ZoneReliabilityDisplay.from_predictions(
    ...     [0, 1, 0, 1, 1], [0.3, 0.3, 0.6, 0.6, 0.99], zone=(0.25, 0.75), n_bins=2
    ... )
    >>> round(display.error, 3)
    0.15
    >>> plt.close(display.figure_)
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    outside_line_: Line2D
    reference_line_: Line2D
    zone_patch_: Any

    def __init__(
        self,
        *,
        inside: ReliabilityBins,
        outside: ReliabilityBins,
        zone: Zone,
        error: float,
        name: str | None = None,
    ) -> None:
        self.inside = inside
        self.outside = outside
        self.zone = zone
        self.error = error
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        zone: Any = "auto",
        n_bins: int = 10,
        strategy: str = "quantile",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the reliability diagram of a fitted classifier of two classes.

        Parameters
        ----------
        estimator : estimator
            Fitted classifier, or a pipeline or search that ends in one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data to predict.
        y : array-like of shape (n_samples,)
            True labels.
        zone : "auto", None, float or pair of floats, default="auto"
            ``(p_min, p_max)``, a half-width in log-odds around the estimator's `threshold_` (or
            0.5), or None for all of [0, 1]; "auto" takes `zone_` of the estimator or, if it has
            none, the half-width 1.
        n_bins : int, default=10
            Number of bins inside the zone; on each side of it there are half as many.
        strategy : {"quantile", "uniform"}, default="quantile"
            Bins of equal mass or of equal width.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        name : str, default=None
            Name of the curve; by default the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the points inside the zone.

        Returns
        -------
        display : ZoneReliabilityDisplay
            What was drawn.
        """
        _pyplot(f"{cls.__name__}.from_estimator")
        proba, pos_label = _positive_response(estimator, X)
        if _is_auto(zone):
            zone = _fitted_zone(estimator, 1.0)
        if zone is not None and np.ndim(zone) == 0:
            zone = binary_zone(zone, _fitted(estimator, "threshold_", 0.5))
        return cls.from_predictions(
            y,
            proba,
            zone=zone,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            pos_label=pos_label,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: Array,
        *,
        zone: Any = 1.0,
        n_bins: int = 10,
        strategy: str = "quantile",
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the reliability diagram of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of two classes.
        y_proba : array of shape (n_samples,) or (n_samples, 2)
            Probability of the positive class; the second column of two.
        zone : None, float or pair of floats, default=1.0
            ``(p_min, p_max)``, a half-width in log-odds around 0.5, or None for all of [0, 1].
        n_bins : int, default=10
            Number of bins inside the zone; on each side of it there are half as many.
        strategy : {"quantile", "uniform"}, default="quantile"
            Bins of equal mass or of equal width.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        pos_label : str or number, default=None
            The positive class; by default the last of the sorted labels.
        name : str, default=None
            Name of the curve; by default "Classifier".
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the points inside the zone.

        Returns
        -------
        display : ZoneReliabilityDisplay
            What was drawn.
        """
        _pyplot(f"{cls.__name__}.from_predictions")
        p = positive_probability(y_proba)
        positive, _ = binary_target(y_true, len(p), pos_label, None)
        weights = check_weights(sample_weight, len(p))
        low, high = binary_zone(zone, 0.5)

        def bins(rows: Any, interval: Zone, count: int) -> ReliabilityBins:
            return reliability_bins(positive, p, weights, rows, interval, count, strategy)

        inside = bins((p >= low) & (p <= high), (low, high), n_bins)
        few = max(1, n_bins // 2)
        sides = [bins(p < low, (0.0, low), few), bins(p > high, (high, 1.0), few)]
        display = cls(
            inside=inside,
            outside=ReliabilityBins(*(np.concatenate(pair) for pair in zip(*sides, strict=True))),
            zone=(low, high),
            error=calibration_error(inside),
            name="Classifier" if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        name : str, default=None
            Name of the curve; by default that of the display.
        **kwargs : dict
            Passed to matplotlib's `plot` for the points inside the zone.

        Returns
        -------
        display : ZoneReliabilityDisplay
            The object itself.
        """
        ax = self.ax_ = _axes(ax, f"{type(self).__name__}.plot")
        self.figure_ = ax.figure
        self.zone_patch_ = _shade(ax, self.zone)
        (self.reference_line_,) = ax.plot(
            [0, 1], [0, 1], color=_MUTED, linestyle=":", label=_once(ax, "perfectly calibrated")
        )
        found = "no rows" if np.isnan(self.error) else f"error {self.error:.3f}"
        style = {"marker": "o", "label": f"{name or self.name} ({found} in the zone)", **kwargs}
        (self.line_,) = ax.plot(self.inside.predicted, self.inside.observed, **style)
        below = np.searchsorted(self.outside.predicted, self.zone[0])
        (self.outside_line_,) = ax.plot(
            np.insert(self.outside.predicted, below, np.nan),
            np.insert(self.outside.observed, below, np.nan),
            color=self.line_.get_color(),
            marker="o",
            markersize=4,
            markerfacecolor="none",
            linewidth=0.8,
            alpha=0.4,
            label=_once(ax, "beyond the zone") if len(self.outside.weight) else None,
        )
        ax.set(
            xlabel="Mean predicted probability of the positive class",
            ylabel="Observed frequency of the positive class",
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
        )
        _legend(ax)
        return self


class RiskCoverageDisplay:
    """Mean cost of the decided rows against the share of rows decided.

    Rows are decided by Bayes' rule, the safest first, as the cost of abstention grows. A curve
    that rises from zero tells that the classifier knows when it does not know. It is recommended
    to create a display with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    coverage : ndarray of shape (n_points,)
        Shares of rows decided, increasing to 1.
    risk : ndarray of shape (n_points,)
        Mean cost of the decided rows.
    reject_costs : ndarray of shape (n_points,)
        The smallest cost of abstention that leads to each coverage.
    reject_cost : float, default=None
        Cost of abstention to mark on the curve; None for no mark.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    line_ : matplotlib Line2D
        The curve.
    point_ : matplotlib Line2D or None
        The mark at `reject_cost`; None if it is not asked for or if nothing is decided there.

    See Also
    --------
    grayzone.metrics.risk_coverage_curve : The numbers behind it.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from grayzone.displays import RiskCoverageDisplay
    >>> display = RiskCoverageDisplay.from_predictions(
    ...     [0, 1, 0, 1], [0.125, 0.375, 0.75, 1.0], reject_cost=0.2
    ... )
    >>> display.coverage
    array([0.25, 0.5 , 0.75, 1.  ])
    >>> plt.close(display.figure_)
    """

    ax_: Axes
    figure_: Figure | SubFigure
    line_: Line2D
    point_: Line2D | None

    def __init__(
        self,
        *,
        coverage: Floats,
        risk: Floats,
        reject_costs: Floats,
        reject_cost: float | None = None,
        name: str | None = None,
    ) -> None:
        self.coverage = coverage
        self.risk = risk
        self.reject_costs = reject_costs
        self.reject_cost = reject_cost
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        costs: Costs = "auto",
        reject_cost: Any = "auto",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the risk-coverage curve of a fitted classifier.

        Parameters
        ----------
        estimator : estimator
            Fitted classifier, or a pipeline or search that ends in one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data to predict.
        y : array-like of shape (n_samples,)
            True labels.
        costs : "auto", None, "balanced", mapping or array-like, default="auto"
            What errors cost; "auto" takes them from the estimator if it has any, None means that
            every error costs 1.
        reject_cost : "auto", float or None, default="auto"
            Cost of abstention to mark; "auto" takes `reject_cost` of the estimator if that is a
            number.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        name : str, default=None
            Name of the curve; by default the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : RiskCoverageDisplay
            What was drawn.
        """
        _pyplot(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        if _is_auto(reject_cost):
            fitted = _fitted(estimator, "reject_cost", None)
            reject_cost = fitted if isinstance(fitted, Real) else None
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            costs=_fitted_costs(estimator) if _is_auto(costs) else costs,
            reject_cost=reject_cost,
            sample_weight=sample_weight,
            labels=as_numpy(estimator.classes_),
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: Array,
        *,
        costs: Costs = None,
        reject_cost: float | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the risk-coverage curve of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_proba : array of shape (n_samples, n_classes) or (n_samples,)
            Class probabilities, or the probability of the positive class.
        costs : None, "balanced", mapping or array-like, default=None
            What errors cost; None means that every error costs 1.
        reject_cost : float, default=None
            Cost of abstention to mark on the curve.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        labels : array-like of shape (n_classes,), default=None
            The classes in the order of the columns; by default the sorted labels of `y_true`.
        name : str, default=None
            Name of the curve; by default "Classifier".
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : RiskCoverageDisplay
            What was drawn.
        """
        _pyplot(f"{cls.__name__}.from_predictions")
        curve = risk_coverage_curve(
            y_true, y_proba, costs=costs, sample_weight=sample_weight, labels=labels
        )
        display = cls(
            coverage=curve.coverage,
            risk=curve.risk,
            reject_costs=curve.reject_cost,
            reject_cost=reject_cost,
            name="Classifier" if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        name : str, default=None
            Name of the curve; by default that of the display.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : RiskCoverageDisplay
            The object itself.
        """
        ax = self.ax_ = _axes(ax, f"{type(self).__name__}.plot")
        self.figure_ = ax.figure
        (self.line_,) = ax.plot(self.coverage, self.risk, **{"label": name or self.name, **kwargs})
        self.point_ = None
        if self.reject_cost is not None:
            at = np.searchsorted(self.reject_costs, self.reject_cost, side="right") - 1
            if at >= 0:
                (self.point_,) = ax.plot(
                    self.coverage[at],
                    self.risk[at],
                    color=self.line_.get_color(),
                    linestyle="none",
                    marker="o",
                    label=f"abstention costs {self.reject_cost:.3g}: "
                    f"{self.coverage[at]:.0%} decided",
                )
        ax.set(
            xlabel="Coverage (share of rows decided)",
            ylabel="Risk (mean cost of decided rows)",
            xlim=(0, 1.02),
        )
        ax.set_ylim(0, _visible_risk(ax))
        _legend(ax)
        return self


def _pyplot(caller: str) -> Any:
    """Import matplotlib's pyplot, or say what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{caller} requires matplotlib. You can install it with `pip install grayzone[plot]`."
        ) from error
    return plt


def _axes(ax: Axes | None, caller: str) -> Axes:
    plt = _pyplot(caller)
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def _shade(ax: Axes, zone: Zone | None) -> Any:
    """Shade the gray zone, unless it is everything."""
    if zone is None or zone == (0.0, 1.0):
        return None
    label = _once(ax, f"gray zone [{zone[0]:.3g}, {zone[1]:.3g}]")
    return ax.axvspan(*zone, facecolor="0.9", edgecolor="none", zorder=0, label=label)


def _visible_risk(ax: Axes) -> float | None:
    """Return the top of the risk axis that shows every curve beyond very small coverage."""
    highest = 0.0
    for line in ax.get_lines():
        coverage, risk = (np.asarray(values) for values in line.get_data())
        highest = max(highest, np.max(risk[coverage >= _SMALL_COVERAGE], initial=0.0))
    return 1.1 * highest if highest > 0 else None


def _legend(ax: Axes) -> None:
    points = sum(len(np.asarray(line.get_xdata())) for line in ax.get_lines())
    ax.legend(loc="best" if points < _MANY_POINTS else "upper right", fontsize="small")


def _once(ax: Axes, label: str) -> str:
    """Return the label, or matplotlib's "no label" if the legend already has it."""
    return "_nolegend_" if label in ax.get_legend_handles_labels()[1] else label


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _positive_response(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the probability of the positive class, and its label."""
    check_is_fitted(estimator)
    classes = as_numpy(estimator.classes_)
    if len(classes) != 2:
        raise ValueError(
            f"{type(estimator).__name__} was fitted on {len(classes)} classes; this display needs "
            "two."
        )
    return estimator.predict_proba(X)[:, 1], classes[1]


def _fitted(estimator: Any, attribute: str, default: Any) -> Any:
    """Find an attribute on an estimator or on the one it wraps."""
    while estimator is not None:
        value = getattr(estimator, attribute, None)
        if value is not None:
            return value
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif isinstance(estimator, BayesDecisionClassifier):
            estimator = estimator.estimator_
        else:
            estimator = getattr(estimator, "best_estimator_", None)
    return default


def _fitted_costs(estimator: Any) -> Costs:
    """Return the costs an estimator decides by: worked out while fitting, or as given."""
    costs = _fitted(estimator, "cost_matrix_", None)
    return _fitted(estimator, "costs", None) if costs is None else costs


def _fitted_zone(estimator: Any, default: Any) -> Any:
    return _fitted(estimator, "zone_", default)


def _implied_threshold(y_true: Any, costs: Costs, sample_weight: Any, pos_label: Any) -> float:
    """Return the threshold of rule (1), with the class frequencies of `y_true` if needed."""
    y_true = as_numpy(y_true)
    _, labels = binary_target(y_true, len(y_true), pos_label, costs)
    balanced = isinstance(costs, str)
    prior = class_prior(y_true, labels, sample_weight) if balanced else None
    return threshold_from_costs(costs, labels, prior)
