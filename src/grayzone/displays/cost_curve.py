"""Mean cost against the decision threshold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from grayzone.decision import threshold_from_costs, threshold_range
from grayzone.decision.costs import Costs
from grayzone.decision.example_costs import mean_costs
from grayzone.decision.zones import binary_zone
from grayzone.displays._base import (
    MUTED,
    Display,
    Zone,
    draw_band,
    fitted,
    fitted_costs,
    name_of,
    once,
    positive_response,
    shade,
)
from grayzone.metrics.curves import cost_curve
from grayzone.metrics.truth import naming, read_binary
from grayzone.numerics.checks import Array, Floats, is_auto

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D


@dataclass(kw_only=True, eq=False, repr=False)
class CostCurveDisplay(Display):
    r"""Mean cost of two-class decisions against the decision threshold.

    Figure 1 of Hérault & Grandvalet (2007). The curve is exact: it has a step at every
    probability, found with one sort. The vertical line is the threshold implied by the costs,
    :math:`C^- / (C^+ + C^-)` of rule (1); where probabilities are good, the curve has its
    minimum there. Where costs are ranges, the thresholds that they imply are shaded, and over them
    runs the regret: what not knowing the costs costs at most. It is recommended to create a display
    with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Thresholds at which the mean cost steps, increasing from 0 to 1.
    mean_cost : ndarray of shape (n_thresholds,)
        Mean cost for the thresholds in ``(thresholds[k - 1], thresholds[k]]``.
    lower, upper : ndarray of shape (n_thresholds,), default=None
        Band to shade around the curve; None for none.
    confidence : float, default=None
        What the band is to hold, for the legend.
    threshold : float, default=None
        Where to draw the vertical line; None for no line.
    threshold_range : tuple of float, default=None
        Least and greatest threshold that ranges of costs imply, to shade; None for no shade.
    regret : ndarray of shape (n_thresholds,), default=None
        What each threshold costs at most beyond the best one for the costs that turn out, drawn
        over `threshold_range`; None where costs are known.
    relative : bool, default=False
        Whether thresholds are those of a row with the mean of the rows' costs.
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
    band_ : matplotlib PolyCollection or None
        The shade between `lower` and `upper`.
    zone_patch_ : matplotlib Patch or None
        The shade of the zone.
    range_patch_ : matplotlib Patch or None
        The shade of the thresholds that ranges of costs imply.
    regret_line_ : matplotlib Line2D or None
        The regret over these.

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

    thresholds: Floats
    mean_cost: Floats
    lower: Floats | None = None
    upper: Floats | None = None
    confidence: float | None = None
    threshold: float | None = None
    threshold_range: Zone | None = None
    regret: Floats | None = None
    relative: bool = False
    zone: Zone | None = None
    name: str | None = None
    line_: Line2D = field(init=False)
    threshold_line_: Line2D | None = field(init=False)
    band_: PolyCollection | None = field(init=False)
    zone_patch_: Any = field(init=False)
    range_patch_: Any = field(init=False)
    regret_line_: Line2D | None = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        costs: Costs = "auto",
        example_costs: Any = None,
        threshold: Any = "auto",
        zone: Any = "auto",
        sample_weight: ArrayLike | None = None,
        n_bootstrap: int = 0,
        confidence: float = 0.95,
        random_state: Any = None,
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
            every error costs 1. A mapping's values may be ranges ``(low, high)``.
        example_costs : array-like of shape (n_samples, 2, 2) or mapping, default=None
            Costs of each row, in place of `costs`; as in :func:`grayzone.metrics.cost_curve`.
        threshold : "auto", float or None, default="auto"
            Where to draw the vertical line; "auto" takes `threshold_` of the estimator or, if it
            has none, the threshold implied by the costs.
        zone : "auto", None, float or pair of floats, default="auto"
            What to shade: ``(p_min, p_max)`` or a half-width around the threshold; "auto" takes
            `zone_` of the estimator, if it has one.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        n_bootstrap : int, default=0
            Replicates of the bootstrap for a band around the curve; 0 for none.
        confidence : float, default=0.95
            Share of the replicates that lie in the band, at each threshold.
        random_state : int, RandomState instance or None, default=None
            Draws the rows of the replicates.
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
        cls._begin("from_estimator", estimator)
        proba, pos_label = positive_response(estimator, X)
        if is_auto(costs):
            costs = None if example_costs is not None else fitted_costs(estimator)
        if example_costs is not None:  # which the estimator's threshold and zone know nothing of
            zone = None if is_auto(zone) else zone
        elif is_auto(threshold):
            threshold = fitted(estimator, "threshold_", "auto")
        return cls.from_predictions(
            y,
            proba,
            costs=costs,
            example_costs=example_costs,
            threshold=threshold,
            zone=fitted(estimator, "zone_", None) if is_auto(zone) else zone,
            sample_weight=sample_weight,
            pos_label=pos_label,
            n_bootstrap=n_bootstrap,
            confidence=confidence,
            random_state=random_state,
            name=name_of(estimator, name),
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
        example_costs: Any = None,
        threshold: Any = "auto",
        zone: Any = None,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        n_bootstrap: int = 0,
        confidence: float = 0.95,
        random_state: Any = None,
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
            What errors cost; None means that every error costs 1. A mapping's values may be
            ranges ``(low, high)``.
        example_costs : array-like of shape (n_samples, 2, 2) or mapping, default=None
            Costs of each row, in place of `costs`; as in :func:`grayzone.metrics.cost_curve`. The
            axis is then the threshold of a row with the mean costs.
        threshold : "auto", float or None, default="auto"
            Where to draw the vertical line; "auto" takes the threshold implied by the costs.
        zone : None, float or pair of floats, default=None
            What to shade: ``(p_min, p_max)`` or a half-width around the threshold.
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
        cls._begin("from_predictions")
        curve = cost_curve(
            y_true,
            y_proba,
            costs=costs,
            example_costs=example_costs,
            sample_weight=sample_weight,
            pos_label=pos_label,
            n_bootstrap=n_bootstrap,
            confidence=confidence,
            random_state=random_state,
        )
        named = naming(costs, example_costs)
        truth, _ = read_binary(y_true, y_proba, sample_weight, pos_label, named)
        if example_costs is not None:
            costs = mean_costs(truth.row_matrices(example_costs), truth.weights)
        if is_auto(threshold):
            threshold = threshold_from_costs(costs, truth.labels, truth.prior)
        if zone is not None:
            zone = binary_zone(zone, 0.5 if threshold is None else threshold)
        display = cls(
            thresholds=curve.thresholds,
            mean_cost=curve.mean_cost,
            lower=curve.lower,
            upper=curve.upper,
            confidence=confidence,
            threshold=threshold,
            threshold_range=None if curve.regret is None else threshold_range(costs, truth.labels),
            regret=curve.regret,
            relative=example_costs is not None,
            zone=zone,
            name="Classifier" if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Axes, name: str | None, style: dict[str, Any]) -> None:
        self.zone_patch_ = shade(ax, self.zone)
        self.range_patch_ = shade(ax, self.threshold_range, what="thresholds of costs", grey="0.82")
        self.threshold_line_ = None
        if self.threshold is not None:
            label = once(ax, f"threshold {self.threshold:.3g}")
            self.threshold_line_ = ax.axvline(
                self.threshold, color=MUTED, linestyle="--", linewidth=1.2, label=label
            )
        # A step holds up to and including its threshold: rule (1) decides with p >= t.
        style = {"drawstyle": "steps-pre", "label": name, **style}
        (self.line_,) = ax.plot(self.thresholds, self.mean_cost, **style)
        self.band_ = draw_band(ax, self.line_, self.lower, self.upper, self.confidence)
        self.regret_line_ = self._draw_regret(ax, name)
        axis = "Decision threshold"
        if self.relative:
            axis += " at the mean costs; those of rows move with it"
        ax.set(xlabel=axis, ylabel="Mean cost", xlim=(0, 1))

    def _draw_regret(self, ax: Axes, name: str | None) -> Line2D | None:
        """Draw the regret over the thresholds that the ranges of costs imply."""
        if self.regret is None or self.threshold_range is None:
            return None
        low, high = self.threshold_range
        ends = np.searchsorted(self.thresholds, (low, high), side="left")
        inside = slice(ends[0], ends[1])
        (line,) = ax.plot(
            [low, *self.thresholds[inside], high],
            [self.regret[ends[0]], *self.regret[inside], self.regret[ends[1]]],
            color=self.line_.get_color(),
            drawstyle="steps-pre",
            linestyle=":",
            label=f"{name}: regret at most",
        )
        return line
