"""Decisions of a classifier of two features, and how sure it is of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grayzone.decision import reject_costs
from grayzone.decision.costs import Costs, class_prior, cost_matrix
from grayzone.displays._base import MUTED, Display, Zone, fitted, legend, once
from grayzone.displays._region_checks import (
    axis_labels,
    checked_grid,
    checked_levels,
    column_labels,
    grid_around,
    in_form_of,
    probabilities_on,
    row_labels,
    two_features,
)
from grayzone.displays._region_decisions import (
    Rule,
    decisions_of,
    faithful_range,
    margins,
    reference_costs,
    spanning_rows,
)
from grayzone.numerics.checks import Array, Floats, as_labels, check_integer, is_auto

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.lines import Line2D

# The palette of Okabe & Ito, distinct to readers with any colour vision; markers for print. As
# there are not as many of one as of the other, more classes than either still look different.
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
_REFERENCE = "#882255"
_NO_LINE = np.empty((0, 2))
_TINT = 0.16  # opacity of the regions: light enough for points to stand out


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionRegionDisplay(Display):
    """Decision boundary and probabilities of a classifier of two features.

    Figures 3 and 4 of Zhu & Hastie [1]_. The solid line is where the decision changes, dashed
    lines are contours of the probability: of the positive class of two, at `levels`, or, with
    more classes, of the largest probability of any class (which for two classes and levels
    symmetric about 1/2 is the same). Regions have the colour of the class decided for, grey where
    none is. It is recommended to create a display with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    xx0 : ndarray of shape (n_rows, n_columns)
        First feature at the points of a grid, as from :func:`numpy.meshgrid`.
    xx1 : ndarray of shape (n_rows, n_columns)
        Second feature at the points of the grid.
    proba : ndarray of shape (n_rows, n_columns, n_classes)
        Class probabilities there.
    expected_costs : ndarray of shape (n_rows, n_columns, n_actions)
        What each decision is expected to cost; the least is decided for. The actions are the
        classes and perhaps, last, "undecided".
    classes : ndarray of shape (n_classes,)
        Class labels; the positive one of two is ``classes[1]``.
    levels : tuple of float, default=(0.25, 0.75)
        Probabilities to draw contours of.
    zone : tuple of float, default=None
        ``(p_min, p_max)`` in which probabilities are faithful, told in the legend if a level is
        outside; None for everywhere.
    reference_costs : ndarray of shape (n_rows, n_columns, n_actions), default=None
        Like `expected_costs`, by the reference probabilities; None for no reference.
    X : ndarray of shape (n_samples, 2), default=None
        Rows to draw; None for no rows.
    y : ndarray of shape (n_samples,), default=None
        Their labels.
    points : ndarray of shape (n_points, 2), default=None
        Points to mark; None for no marks.
    points_name : str, default="marked points"
        What they are.
    regions : bool, default=True
        Whether to colour the regions.
    xlabel : str, default="$x_1$"
        Name of the first feature.
    ylabel : str, default="$x_2$"
        Name of the second feature.
    name : str, default="decision boundary"
        Name of the solid line in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    boundary_ : matplotlib Line2D
        The decision boundary; where it is several lines, rows of NaN are between their points.
    contours_ : matplotlib Line2D
        The contours of the probability.
    reference_ : matplotlib Line2D or None
        The boundary of the reference.
    class_lines_ : list of matplotlib Line2D
        The rows of each class; empty without `X`.
    points_ : matplotlib Line2D or None
        The marks.
    regions_ : list of matplotlib QuadContourSet
        The coloured regions.

    See Also
    --------
    sklearn.inspection.DecisionBoundaryDisplay : Surfaces of any response of an estimator.

    References
    ----------
    .. [1] Zhu, J. & Hastie, T. (2002). Support vector machines, kernel logistic regression and
       boosting. Multiple Classifier Systems.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import make_moons
    >>> from grayzone import ImportVectorMachine
    >>> from grayzone.displays import DecisionRegionDisplay
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> clf = ImportVectorMachine(C=10.0, gamma=1.0, costs={0: 1.0, 1: 4.0}).fit(X, y)
    >>> display = DecisionRegionDisplay.from_estimator(clf, X, y)
    >>> display.boundary_.get_label()
    'decision boundary (p = 0.2)'
    >>> len(display.points_.get_xydata()) == len(clf.import_points_)
    True
    >>> plt.close(display.figure_)
    """

    xx0: Floats
    xx1: Floats
    proba: Floats
    expected_costs: Floats
    classes: NDArray[Any]
    levels: tuple[float, ...] = (0.25, 0.75)
    zone: Zone | None = None
    reference_costs: Floats | None = None
    X: Floats | None = None
    y: NDArray[Any] | None = None
    points: Floats | None = None
    points_name: str = "marked points"
    regions: bool = True
    xlabel: str = "$x_1$"
    ylabel: str = "$x_2$"
    name: str | None = "decision boundary"
    boundary_: Line2D = field(init=False)
    contours_: Line2D = field(init=False)
    reference_: Line2D | None = field(init=False)
    class_lines_: list[Line2D] = field(init=False)
    points_: Line2D | None = field(init=False)
    regions_: list[QuadContourSet] = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        levels: ArrayLike = (0.25, 0.75),
        reference: Callable[[Floats], Array] | ArrayLike | None = None,
        points: Any = "auto",
        regions: bool = True,
        grid_resolution: int = 200,
        eps: Any = "auto",
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the decisions and probabilities of a fitted classifier of two features.

        The boundary is where `predict` changes. It is found to a fraction of the grid's spacing
        if `predict` takes the least expected cost by the `cost_matrix_` (and `reject_cost`) of
        the estimator, or the most probable class, or, of two classes, compares the probability
        with some threshold, such as `threshold_`; otherwise to half the spacing.

        Parameters
        ----------
        estimator : estimator
            Fitted classifier with `predict_proba`, or a pipeline or search that ends in one.
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, 2)
            The rows that the plot shall show, usually those that were fitted. The names of the
            columns of a dataframe become those of the axes.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows; None does not draw the rows.
        levels : array-like of float, default=(0.25, 0.75)
            Probabilities to draw contours of: of the positive class or, with more than two
            classes, of the most probable one, which has no levels below ``1 / n_classes``.
        reference : callable or array-like, default=None
            Gives the probabilities to compare with, such as true ones: called with an array of
            points, of shape (n_points, 2), it returns those of the classes, of shape (n_points,
            n_classes), or of the positive class, of shape (n_points,). The boundary drawn for
            them is that of the same costs: the Bayes boundary, if they are true. An array holds
            their values on the grid, as in `from_predictions`.
        points : "auto", None or array-like of shape (n_points, 2), default="auto"
            Points to mark; "auto" takes `import_vectors_` or `support_vectors_` of the estimator,
            if it has any. Those at the end of a pipeline of several steps are *not* marked, as
            they are points of the transformed space; mark them, where the steps can be undone,
            with ``points=model[:-1].inverse_transform(model[-1].import_vectors_)``.
        regions : bool, default=True
            Whether to colour the regions by the class decided for.
        grid_resolution : int, default=200
            Number of grid points along each axis.
        eps : "auto" or float, default="auto"
            How far the grid extends beyond `X`, in units of the features; "auto" is a tenth of
            the range of each.
        name : str, default=None
            Name of the solid line; by default "decision boundary" and its probability.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the solid line.

        Returns
        -------
        display : DecisionRegionDisplay
            What was drawn.

        Notes
        -----
        Where the likelihood was truncated, probabilities are faithful inside the zone only. Ask
        for contours of its limits, ``levels=estimator.zone_``; the legend says so if others are
        drawn.
        """
        cls._begin("from_estimator", estimator)
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"{cls.__name__} needs a classifier with predict_proba, which "
                f"{type(estimator).__name__} lacks; "
                "sklearn.calibration.CalibratedClassifierCV can provide it."
            )
        rows = two_features(X, "X")
        xx0, xx1 = grid_around(
            rows, check_integer("grid_resolution", grid_resolution, least=2), eps
        )
        nodes = in_form_of(X, np.column_stack([xx0.ravel(), xx1.ravel()]))
        classes = as_labels(estimator.classes_, "classes_")
        proba = probabilities_on(estimator.predict_proba(nodes), xx0.shape, "predict_proba")
        rule, expected = decisions_of(estimator, nodes, proba, classes)
        points_name = "marked points"
        if is_auto(points):
            points, points_name = spanning_rows(estimator)
        display = cls(
            xx0=xx0,
            xx1=xx1,
            proba=proba.reshape(*xx0.shape, -1),
            expected_costs=expected.reshape(*xx0.shape, -1),
            classes=classes,
            levels=checked_levels(levels),
            zone=faithful_range(fitted(estimator, "zone_", None)),
            reference_costs=reference_costs(reference, xx0, xx1, rule),
            X=None if y is None else rows,
            y=None if y is None else row_labels(y, rows, classes),
            points=None if points is None else two_features(points, "points"),
            points_name=points_name,
            regions=regions,
            name=rule.name if name is None else name,
            **axis_labels(X),
        )
        return display.plot(ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        xx0: ArrayLike,
        xx1: ArrayLike,
        proba: Array,
        *,
        X: Any = None,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        costs: Costs = None,
        reject_cost: Any = None,
        levels: ArrayLike = (0.25, 0.75),
        reference: Callable[[Floats], Array] | ArrayLike | None = None,
        points: ArrayLike | None = None,
        regions: bool = True,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the decisions that probabilities on a grid lead to.

        Parameters
        ----------
        xx0 : array-like of shape (n_rows, n_columns)
            First feature at the points of a grid, as from :func:`numpy.meshgrid`.
        xx1 : array-like of shape (n_rows, n_columns)
            Second feature at the points of the grid.
        proba : array of shape (n_rows, n_columns) or (n_rows, n_columns, n_classes)
            Probability of the positive class, or of every class. The first two axes may be one,
            as if `predict_proba` was called with the points of the raveled grid.
        X : array-like of shape (n_samples, 2), default=None
            Rows to draw.
        y : array-like of shape (n_samples,), default=None
            Labels of `X`.
        classes : array-like of shape (n_classes,), default=None
            The classes in the order of the columns; by default the sorted labels of `y` or,
            without these, 0 to ``n_classes - 1``.
        costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), \
                default=None
            What errors cost; None means that every error costs 1. For a threshold t on the
            probability of the positive class, ``[[0, t], [1 - t, 0]]``.
        reject_cost : float, mapping or array-like of shape (n_classes,), default=None
            Cost of staying undecided; None: always decide.
        levels : array-like of float, default=(0.25, 0.75)
            Probabilities to draw contours of, as in `from_estimator`.
        reference : callable or array-like, default=None
            Gives the probabilities to compare with, as in `from_estimator`; or an array like
            `proba`.
        points : array-like of shape (n_points, 2), default=None
            Points to mark.
        regions : bool, default=True
            Whether to colour the regions by the class decided for.
        name : str, default=None
            Name of the solid line; by default "decision boundary" and its probability.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the solid line.

        Returns
        -------
        display : DecisionRegionDisplay
            What was drawn.

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> import numpy as np
        >>> from grayzone.displays import DecisionRegionDisplay
        >>> xx0, xx1 = np.meshgrid(np.linspace(-4, 4), np.linspace(-3, 3))
        >>> proba = 1 / (1 + np.exp(-2 * xx0 - xx1))
        >>> display = DecisionRegionDisplay.from_predictions(xx0, xx1, proba, reject_cost=0.1)
        >>> display.name, display.expected_costs.shape
        ('decision boundary', (50, 50, 3))
        >>> plt.close(display.figure_)
        """
        cls._begin("from_predictions")
        xx0, xx1 = checked_grid(xx0, xx1)
        flat = probabilities_on(proba, xx0.shape, "proba")
        if (X is None) != (y is None):
            raise ValueError("X and y must be given together: rows are coloured by their labels.")
        rows = None if X is None else two_features(X, "X")
        labels = column_labels(classes, y, flat.shape[1])
        known = None if y is None else row_labels(y, rows, labels)
        prior = None if known is None else class_prior(known, labels)
        rejection = None if reject_cost is None else reject_costs(reject_cost, labels)
        rule = Rule(cost_matrix(costs, labels, prior), rejection)
        display = cls(
            xx0=xx0,
            xx1=xx1,
            proba=flat.reshape(*xx0.shape, -1),
            expected_costs=rule.expected(flat).reshape(*xx0.shape, -1),
            classes=labels,
            levels=checked_levels(levels),
            reference_costs=reference_costs(reference, xx0, xx1, rule),
            X=rows,
            y=known,
            points=None if points is None else two_features(points, "points"),
            regions=regions,
            name=rule.name if name is None else name,
            **axis_labels(X),
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Axes, name: str | None, style: dict[str, Any]) -> None:
        ax.set(
            xlabel=self.xlabel,
            ylabel=self.ylabel,
            xlim=(self.xx0.min(), self.xx0.max()),
            ylim=(self.xx1.min(), self.xx1.max()),
        )
        self.class_lines_ = self._draw_rows(ax)
        self.regions_ = self._draw_regions(ax) if self.regions else []
        self.points_ = self._draw_points(ax)
        self.contours_ = self._draw_contours(ax)
        style = {"linewidth": 2.0, "label": name, **style}
        self.boundary_ = _draw_line(ax, self._boundary(self.expected_costs), **style)
        self.reference_ = None
        if self.reference_costs is not None:
            style = {"color": _REFERENCE, "linewidth": 1.8, "linestyle": (0, (6, 1.5, 1, 1.5))}
            line = self._boundary(self.reference_costs)
            self.reference_ = _draw_line(ax, line, label=once(ax, "reference boundary"), **style)

    def _add_legend(self, ax: Axes, *, alone: bool) -> None:
        if alone:  # a figure that makes room beside the plot, which is full
            ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize="small", frameon=False)
        else:
            legend(ax)

    def _draw_rows(self, ax: Axes) -> list[Line2D]:
        if self.X is None or self.y is None:
            return []
        lines = []
        for k, label in enumerate(self.classes):
            lines += ax.plot(
                *self.X[self.y == label].T,
                linestyle="none",
                marker=_MARKERS[k % len(_MARKERS)],
                markersize=5,
                color=_color(k),
                markeredgecolor="white",
                markeredgewidth=0.5,
                label=once(ax, f"class {label}"),
            )
        return lines

    def _draw_regions(self, ax: Axes) -> list[QuadContourSet]:
        regions = []
        for k, margin in enumerate(margins(self.expected_costs)):
            decides = k < len(self.classes)
            color = _color(k) if decides else MUTED
            if margin.max() > 0:
                levels = [0.0, 2.0 * margin.max()]
                style: dict[str, Any] = {"colors": [color], "alpha": _TINT, "zorder": 0}
                regions.append(ax.contourf(self.xx0, self.xx1, margin, levels, **style))
            if not (decides and self.class_lines_):  # otherwise the rows tell the colour
                label = once(ax, f"class {self.classes[k]}" if decides else "undecided")
                style = {"linestyle": "none", "marker": "s", "markersize": 9, "color": color}
                ax.plot([], [], alpha=2 * _TINT, label=label, **style)
        return regions

    def _draw_points(self, ax: Axes) -> Line2D | None:
        if self.points is None:
            return None
        (line,) = ax.plot(
            *self.points.T,
            linestyle="none",
            marker="o",
            markersize=9,
            color="black",
            markerfacecolor="none",
            markeredgewidth=1.3,
            label=f"{self.points_name} ({len(self.points)})",
        )
        return line

    def _draw_contours(self, ax: Axes) -> Line2D:
        binary = len(self.classes) == 2
        values = self.proba[..., 1] if binary else self.proba.max(axis=-1)
        lines = {level: self._contour(values, level) for level in self.levels}
        drawn = [level for level, line in lines.items() if len(line)]
        whose = f"p(class {self.classes[1]})" if binary else "largest p"
        label = f"{whose} = {', '.join(f'{level:.3g}' for level in drawn)}"
        low, high = self.zone or (0.0, 1.0)
        if not all(low <= level <= high for level in drawn):
            label += f"\n(faithful in [{low:.3g}, {high:.3g}] only)"
        style = {"linewidth": 1.2, "linestyle": (0, (4, 2.5)), "label": label}
        return _draw_line(ax, np.concatenate([_NO_LINE, *lines.values()]), **style)

    def _boundary(self, costs: Floats) -> Floats:
        """Return the lines where the least of the costs changes."""
        boundary, tiny = _NO_LINE, 1e-9 * np.array([np.ptp(self.xx0), np.ptp(self.xx1)])
        # Every boundary has another action than the last on one of its sides.
        for margin in margins(costs)[:-1]:
            line = self._contour(margin, 0.0)
            boundary = np.concatenate([boundary, _without(line, boundary, tiny)])
        return boundary

    def _contour(self, values: Floats, level: float) -> Floats:
        """Return the vertices of a contour of values on the grid, NaN after each of its lines."""
        # What matplotlib computes contours with; unlike `ax.contour` it may find none.
        from contourpy import LineType, contour_generator

        lines: Any = contour_generator(
            self.xx0, self.xx1, values, name="serial", line_type=LineType.Separate
        ).lines(level)
        ends = np.full((1, 2), np.nan)
        return np.concatenate([_NO_LINE, *(part for line in lines for part in (line, ends))])


def _without(line: Floats, other: Floats, tiny: Floats) -> Floats:
    """Leave out of a line what another one has already: dashes drawn twice fill their gaps."""
    # Vertices lie on edges of the grid, where two contours of one boundary agree but for rounding.
    first, second = (np.round(vertices / tiny) @ [1, 1j] for vertices in (line, other))
    new = ~np.isin(first, second) & ~np.isnan(first)
    # A piece ends at the vertex where the other line goes on.
    wanted = new | np.append(new[1:], False) | np.append(False, new[:-1])
    return np.where(wanted[:, None], line, np.nan)


def _draw_line(ax: Axes, vertices: Floats, **style: Any) -> Line2D:
    """Draw a line, which the legend knows if it is anywhere."""
    if not len(vertices):
        style["label"] = "_nolegend_"
    (line,) = ax.plot(*vertices.T, **{"color": "black", **style})
    return line


def _color(k: int) -> str:
    return _COLORS[k % len(_COLORS)]
