"""Mean cost of the decided rows against their share."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from grayzone.decision.costs import Costs
from grayzone.displays._base import Display, fitted, fitted_costs, name_of
from grayzone.metrics.curves import risk_coverage_curve
from grayzone.numerics.checks import Array, Floats, as_numpy, is_auto

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

# The risk of the very first rows decided is that of a handful of rows: the axis need not make room
# for it.
_SMALL_COVERAGE = 0.05


@dataclass(kw_only=True, eq=False, repr=False)
class RiskCoverageDisplay(Display):
    """Mean cost of the decided rows against the share of rows decided.

    Rows are decided by Bayes' rule, the safest first, as the cost of staying undecided grows. A
    curve that rises from zero tells that the classifier knows when it does not know. It is
    recommended to create a display with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    coverage : ndarray of shape (n_points,)
        Shares of rows decided, increasing to 1.
    risk : ndarray of shape (n_points,)
        Mean cost of the decided rows.
    reject_costs : ndarray of shape (n_points,)
        The smallest cost of staying undecided that leads to each coverage.
    reject_cost : float, default=None
        Cost of staying undecided to mark on the curve; None for no mark.
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

    coverage: Floats
    risk: Floats
    reject_costs: Floats
    reject_cost: float | None = None
    name: str | None = None
    line_: Line2D = field(init=False)
    point_: Line2D | None = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        costs: Costs = "auto",
        example_costs: Any = None,
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
        example_costs : array-like of shape (n_samples, n_classes, n_classes) or mapping, \
                default=None
            Costs of each row, in place of `costs`; as in
            :func:`grayzone.metrics.risk_coverage_curve`.
        reject_cost : "auto", float or None, default="auto"
            Cost of staying undecided to mark; "auto" takes `reject_cost` of the estimator if that
            is a number.
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
        cls._begin("from_estimator", estimator)
        if is_auto(reject_cost):
            found = fitted(estimator, "reject_cost", None)
            reject_cost = found if isinstance(found, Real) else None
        if is_auto(costs):
            costs = None if example_costs is not None else fitted_costs(estimator)
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            costs=costs,
            example_costs=example_costs,
            reject_cost=reject_cost,
            sample_weight=sample_weight,
            labels=as_numpy(estimator.classes_),
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
        example_costs : array-like of shape (n_samples, n_classes, n_classes) or mapping, \
                default=None
            Costs of each row, in place of `costs`; as in
            :func:`grayzone.metrics.risk_coverage_curve`.
        reject_cost : float, default=None
            Cost of staying undecided to mark on the curve.
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
        cls._begin("from_predictions")
        curve = risk_coverage_curve(
            y_true,
            y_proba,
            costs=costs,
            example_costs=example_costs,
            sample_weight=sample_weight,
            labels=labels,
        )
        display = cls(
            coverage=curve.coverage,
            risk=curve.risk,
            reject_costs=curve.reject_cost,
            reject_cost=reject_cost,
            name="Classifier" if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Axes, name: str | None, style: dict[str, Any]) -> None:
        (self.line_,) = ax.plot(self.coverage, self.risk, **{"label": name, **style})
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
                    label=f"undecided costs {self.reject_cost:.3g}: "
                    f"{self.coverage[at]:.0%} decided",
                )
        ax.set(
            xlabel="Coverage (share of rows decided)",
            ylabel="Risk (mean cost of decided rows)",
            xlim=(0, 1.02),
        )
        ax.set_ylim(0, _visible_risk(ax))


def _visible_risk(ax: Axes) -> float | None:
    """Return the top of the risk axis that shows every curve beyond very small coverage."""
    highest = 0.0
    for line in ax.get_lines():
        coverage, risk = (np.asarray(values) for values in line.get_data())
        highest = max(highest, np.max(risk[coverage >= _SMALL_COVERAGE], initial=0.0))
    return 1.1 * highest if highest > 0 else None
