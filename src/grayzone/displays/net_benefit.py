"""Net benefit against the decision threshold: decision curves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from grayzone.displays._base import (
    MUTED,
    Display,
    draw_band,
    fitted,
    name_of,
    once,
    positive_response,
)
from grayzone.metrics.net_benefit import net_benefit_curve
from grayzone.numerics.checks import Array, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.lines import Line2D

# How far below zero the axis goes, as a share of what is above.
_BELOW = 0.15


@dataclass(kw_only=True, eq=False, repr=False)
class NetBenefitDisplay(Display):
    r"""Net benefit of two-class decisions against the decision threshold: a decision curve.

    After Vickers & Elkin (2006). At the threshold :math:`t` a false positive counts
    :math:`t / (1 - t)` of a true one; the curve is what deciding by the probabilities is worth,
    beside deciding for the positive class always ("all") and never ("none"). A model is of use
    where it lies above both. It is recommended to create a display with `from_estimator` or
    `from_predictions`.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Decision thresholds, increasing.
    net_benefit : ndarray of shape (n_thresholds,)
        Net benefit at each.
    treat_all : ndarray of shape (n_thresholds,)
        Net benefit of deciding for the positive class always.
    lower, upper : ndarray of shape (n_thresholds,), default=None
        Band to shade around the curve; None for none.
    confidence : float, default=None
        What the band is to hold, for the legend.
    threshold : float, default=None
        Where to draw the vertical line; None for no line.
    standardized : bool, default=False
        Whether the net benefit was divided by the prevalence, for the name of the axis.
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
    all_line_, none_line_ : matplotlib Line2D
        The curves of "all" and "none".
    threshold_line_ : matplotlib Line2D or None
        The vertical line.
    band_ : matplotlib PolyCollection or None
        The shade between `lower` and `upper`.

    See Also
    --------
    grayzone.metrics.net_benefit_curve : The numbers behind it.
    CostCurveDisplay : The same decisions at costs that do not change with the threshold.

    References
    ----------
    A. J. Vickers and E. B. Elkin (2006). Decision curve analysis: a novel method for evaluating
    prediction models. Medical Decision Making.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from grayzone.displays import NetBenefitDisplay
    >>> display = NetBenefitDisplay.from_predictions(
    ...     [0, 0, 0, 1, 1], [0.1, 0.3, 0.6, 0.4, 0.9], thresholds=[0.2, 0.5]
    ... )
    >>> display.net_benefit
    array([0.3, 0. ])
    >>> plt.close(display.figure_)
    """

    thresholds: Floats
    net_benefit: Floats
    treat_all: Floats
    lower: Floats | None = None
    upper: Floats | None = None
    confidence: float | None = None
    threshold: float | None = None
    standardized: bool = False
    name: str | None = None
    line_: Line2D = field(init=False)
    all_line_: Line2D = field(init=False)
    none_line_: Line2D = field(init=False)
    threshold_line_: Line2D | None = field(init=False)
    band_: PolyCollection | None = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        thresholds: ArrayLike | None = None,
        prevalence: float | None = None,
        harm: float = 0.0,
        standardize: bool = False,
        sample_weight: ArrayLike | None = None,
        n_bootstrap: int = 0,
        confidence: float = 0.95,
        random_state: Any = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the decision curve of a fitted classifier of two classes.

        Parameters
        ----------
        estimator : estimator
            Fitted classifier, or a pipeline or search that ends in one. Its `threshold_`, if it has
            one, is the vertical line.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data to predict.
        y : array-like of shape (n_samples,)
            True labels.
        thresholds : array-like of shape (n_thresholds,), default=None
            Decision thresholds in [0, 1); by default 0, 0.01, …, 0.99.
        prevalence : float, default=None
            Share of the positive class where decisions are made, if it is not that of the rows
            (case-control data).
        harm : float, default=0.0
            What it costs to have the probabilities, in true positives a row.
        standardize : bool, default=False
            Divide by the prevalence.
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
        display : NetBenefitDisplay
            What was drawn.
        """
        cls._begin("from_estimator", estimator)
        proba, pos_label = positive_response(estimator, X)
        return cls.from_predictions(
            y,
            proba,
            thresholds=thresholds,
            prevalence=prevalence,
            harm=harm,
            standardize=standardize,
            sample_weight=sample_weight,
            pos_label=pos_label,
            n_bootstrap=n_bootstrap,
            confidence=confidence,
            random_state=random_state,
            threshold=fitted(estimator, "threshold_", None),
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
        thresholds: ArrayLike | None = None,
        prevalence: float | None = None,
        harm: float = 0.0,
        standardize: bool = False,
        sample_weight: ArrayLike | None = None,
        pos_label: Any = None,
        n_bootstrap: int = 0,
        confidence: float = 0.95,
        random_state: Any = None,
        threshold: float | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the decision curve of predicted probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, of two classes.
        y_proba : array of shape (n_samples,) or (n_samples, 2)
            Probability of the positive class, the second column of two; decisions 0 and 1 will do.
        thresholds : array-like of shape (n_thresholds,), default=None
            Decision thresholds in [0, 1); by default 0, 0.01, …, 0.99.
        prevalence : float, default=None
            Share of the positive class where decisions are made, if it is not that of the rows
            (case-control data).
        harm : float, default=0.0
            What it costs to have the probabilities, in true positives a row.
        standardize : bool, default=False
            Divide by the prevalence.
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
        threshold : float, default=None
            Where to draw a vertical line; None for no line.
        name : str, default=None
            Name of the curve; by default "Classifier".
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the curve.

        Returns
        -------
        display : NetBenefitDisplay
            What was drawn.
        """
        cls._begin("from_predictions")
        curve = net_benefit_curve(
            y_true,
            y_proba,
            thresholds=None if thresholds is None else np.unique(thresholds),
            prevalence=prevalence,
            harm=harm,
            standardize=standardize,
            sample_weight=sample_weight,
            pos_label=pos_label,
            n_bootstrap=n_bootstrap,
            confidence=confidence,
            random_state=random_state,
        )
        display = cls(
            thresholds=curve.thresholds,
            net_benefit=curve.net_benefit,
            treat_all=curve.treat_all,
            lower=curve.lower,
            upper=curve.upper,
            confidence=confidence,
            threshold=threshold,
            standardized=standardize,
            name="Classifier" if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Axes, name: str | None, style: dict[str, Any]) -> None:
        grey: dict[str, Any] = {"color": MUTED, "linewidth": 1.2, "zorder": 1}
        label = once(ax, "all")
        (self.all_line_,) = ax.plot(self.thresholds, self.treat_all, **grey, label=label)
        self.none_line_ = ax.axhline(0.0, **grey, linestyle=":", label=once(ax, "none"))
        self.threshold_line_ = None
        if self.threshold is not None:
            label = once(ax, f"threshold {self.threshold:.3g}")
            self.threshold_line_ = ax.axvline(self.threshold, **grey, linestyle="--", label=label)
        (self.line_,) = ax.plot(self.thresholds, self.net_benefit, **{"label": name, **style})
        self.band_ = draw_band(ax, self.line_, self.lower, self.upper, self.confidence)
        unit = "of the most that can be had" if self.standardized else "true positives a row"
        ax.set(
            xlabel="Decision threshold",
            ylabel=f"Net benefit ({unit})",
            xlim=(self.thresholds[0], max(self.thresholds[-1], self.thresholds[0] + 0.01)),
        )
        # Treating all falls without end: it must not set the scale.
        curves = [line for line in ax.get_lines() if line.get_transform() == ax.transData]
        heights = [np.asarray(line.get_ydata()) for line in curves]
        highest = max(float(np.max(values)) for values in [*heights, *self._ends()])
        if highest > 0:
            ax.set_ylim(-_BELOW * highest, 1.05 * highest)

    def _ends(self) -> list[Floats]:
        return [] if self.upper is None else [self.upper]
