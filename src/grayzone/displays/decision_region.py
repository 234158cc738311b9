"""Decisions of a classifier of two features, and how sure it is of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from grayzone.decision import action_costs, reject_costs
from grayzone.decision.costs import Costs, class_prior, cost_matrix, has_threshold, threshold_of
from grayzone.displays._base import MUTED, Zone, axes_for, fitted, legend, once, pyplot
from grayzone.estimators.bayes import BayesDecisionClassifier
from grayzone.numerics.checks import (
    Array,
    Floats,
    as_labels,
    as_numpy,
    as_probabilities,
    check_integer,
    check_number,
    encode_labels,
    is_auto,
    is_real,
    listed,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import QuadContourSet
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

# The palette of Okabe & Ito, distinct to readers with any colour vision; markers for print. As
# there are not as many of one as of the other, more classes than either still look different.
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
_MARKERS = ("o", "^", "s", "D", "v", "P", "X", "*")
_REFERENCE = "#882255"
_NO_LINE = np.empty((0, 2))
_TINT = 0.16  # opacity of the regions: light enough for points to stand out

# Share of the cost of an error by which a decision may seem wrong and still be a tie.
_TIE = 1e-6


class DecisionRegionDisplay:
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

    ax_: Axes
    figure_: Figure | SubFigure
    boundary_: Line2D
    contours_: Line2D
    reference_: Line2D | None
    class_lines_: list[Line2D]
    points_: Line2D | None
    regions_: list[QuadContourSet]

    def __init__(
        self,
        *,
        xx0: Floats,
        xx1: Floats,
        proba: Floats,
        expected_costs: Floats,
        classes: NDArray[Any],
        levels: tuple[float, ...] = (0.25, 0.75),
        zone: Zone | None = None,
        reference_costs: Floats | None = None,
        X: Floats | None = None,
        y: NDArray[Any] | None = None,
        points: Floats | None = None,
        points_name: str = "marked points",
        regions: bool = True,
        xlabel: str = "$x_1$",
        ylabel: str = "$x_2$",
        name: str = "decision boundary",
    ) -> None:
        self.xx0 = xx0
        self.xx1 = xx1
        self.proba = proba
        self.expected_costs = expected_costs
        self.classes = classes
        self.levels = levels
        self.zone = zone
        self.reference_costs = reference_costs
        self.X = X
        self.y = y
        self.points = points
        self.points_name = points_name
        self.regions = regions
        self.xlabel = xlabel
        self.ylabel = ylabel
        self.name = name

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
        pyplot(f"{cls.__name__}.from_estimator")
        check_is_fitted(estimator)
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"{cls.__name__} needs a classifier with predict_proba, which "
                f"{type(estimator).__name__} lacks; "
                "sklearn.calibration.CalibratedClassifierCV can provide it."
            )
        rows = _two_features(X, "X")
        xx0, xx1 = _grid(rows, check_integer("grid_resolution", grid_resolution, least=2), eps)
        nodes = _in_form_of(X, np.column_stack([xx0.ravel(), xx1.ravel()]))
        classes = as_labels(estimator.classes_, "classes_")
        proba = _probabilities(estimator.predict_proba(nodes), xx0.shape, "predict_proba")
        rule, expected = _decisions(estimator, nodes, proba, classes)
        points_name = "marked points"
        if is_auto(points):
            points, points_name = _spanning_rows(estimator)
        display = cls(
            xx0=xx0,
            xx1=xx1,
            proba=proba.reshape(*xx0.shape, -1),
            expected_costs=expected.reshape(*xx0.shape, -1),
            classes=classes,
            levels=_levels(levels),
            zone=_faithful(fitted(estimator, "zone_", None)),
            reference_costs=_reference_costs(reference, xx0, xx1, rule),
            X=None if y is None else rows,
            y=None if y is None else _labels(y, rows, classes),
            points=None if points is None else _two_features(points, "points"),
            points_name=points_name,
            regions=regions,
            name=rule.name if name is None else name,
            **_axis_labels(X),
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
        pyplot(f"{cls.__name__}.from_predictions")
        xx0, xx1 = _checked_grid(xx0, xx1)
        flat = _probabilities(proba, xx0.shape, "proba")
        if (X is None) != (y is None):
            raise ValueError("X and y must be given together: rows are coloured by their labels.")
        rows = None if X is None else _two_features(X, "X")
        labels = _class_labels(classes, y, flat.shape[1])
        known = None if y is None else _labels(y, rows, labels)
        prior = None if known is None else class_prior(known, labels)
        rejection = None if reject_cost is None else reject_costs(reject_cost, labels)
        rule = _Rule(cost_matrix(costs, labels, prior), rejection)
        display = cls(
            xx0=xx0,
            xx1=xx1,
            proba=flat.reshape(*xx0.shape, -1),
            expected_costs=rule.expected(flat).reshape(*xx0.shape, -1),
            classes=labels,
            levels=_levels(levels),
            reference_costs=_reference_costs(reference, xx0, xx1, rule),
            X=rows,
            y=known,
            points=None if points is None else _two_features(points, "points"),
            regions=regions,
            name=rule.name if name is None else name,
            **_axis_labels(X),
        )
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw regions, rows, lines and marks.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        name : str, default=None
            Name of the solid line; by default that of the display.
        **kwargs : dict
            Passed to matplotlib's `plot` for the solid line.

        Returns
        -------
        display : DecisionRegionDisplay
            The object itself.
        """
        shared = ax is not None
        ax = self.ax_ = axes_for(ax, f"{type(self).__name__}.plot")
        self.figure_ = ax.figure
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
        style = {"linewidth": 2.0, "label": name or self.name, **kwargs}
        self.boundary_ = _draw_line(ax, self._boundary(self.expected_costs), **style)
        self.reference_ = None
        if self.reference_costs is not None:
            style = {"color": _REFERENCE, "linewidth": 1.8, "linestyle": (0, (6, 1.5, 1, 1.5))}
            line = self._boundary(self.reference_costs)
            self.reference_ = _draw_line(ax, line, label=once(ax, "reference boundary"), **style)
        if shared:
            legend(ax)
        else:  # a figure that makes room beside the plot, which is full
            ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize="small", frameon=False)
        return self

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
        for k, margin in enumerate(_margins(self.expected_costs)):
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
        for margin in _margins(costs)[:-1]:
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


# ------------------------------------------------------------------------------------------
# Decisions
# ------------------------------------------------------------------------------------------


class _Rule(NamedTuple):
    """Costs to decide by: those of errors and, perhaps, of staying undecided."""

    costs: Floats
    reject_cost: Floats | None = None
    known: bool = True  # whether decisions are known to follow from them

    def expected(self, proba: Floats) -> Floats:
        """Return what each action is expected to cost at each point."""
        return as_numpy(action_costs(proba, self.costs, reject_cost=self.reject_cost))

    @property
    def name(self) -> str:
        """Name of the line where the decision changes."""
        binary = len(self.costs) == 2 and self.reject_cost is None
        if not (self.known and binary and has_threshold(self.costs)):
            return "decision boundary"
        return f"decision boundary (p = {threshold_of(self.costs):.3g})"


def _threshold_rule(threshold: float) -> _Rule:
    """Return the costs, summing to one, that imply a threshold."""
    return _Rule(np.array([[0.0, threshold], [1.0 - threshold, 0.0]]))


def _decisions(
    estimator: Any, nodes: Any, proba: Floats, classes: NDArray[Any]
) -> tuple[_Rule, Floats]:
    """Return the costs an estimator decides by, and those of each action at each point.

    What `predict` says is what counts. If no costs lead to it, an action costs nothing where it
    is taken and one elsewhere; the costs returned are then those of errors alike.
    """
    actions = as_labels(fitted(estimator, "actions_", classes), "actions_")
    taken = encode_labels(as_labels(estimator.predict(nodes), "predict"), actions, "predict")
    for rule in _candidates(estimator, proba, taken, classes):
        expected = rule.expected(proba)
        if taken.max() < expected.shape[1]:
            chosen = np.take_along_axis(expected, taken[:, None], axis=1)[:, 0]
            if np.max(chosen - expected.min(axis=1)) <= _TIE * np.max(rule.costs):
                return rule, expected
    return _Rule(1.0 - np.eye(len(classes)), known=False), 1.0 - np.eye(len(actions))[taken]


def _candidates(
    estimator: Any, proba: Floats, taken: NDArray[np.intp], classes: NDArray[Any]
) -> Iterator[_Rule]:
    """Yield rules by which an estimator might decide, the most explicit first."""
    binary = len(classes) == 2
    costs = fitted(estimator, "cost_matrix_", None)
    if np.shape(costs) == (len(classes), len(classes)):
        reject_cost = fitted(estimator, "reject_cost", None)
        if reject_cost is not None:
            reject_cost = reject_costs(reject_cost, classes)
        yield _Rule(as_numpy(costs), reject_cost)
    threshold = fitted(estimator, "threshold_", None)
    if binary and is_real(threshold) and 0 <= threshold <= 1:
        yield _threshold_rule(threshold)
    yield _Rule(1.0 - np.eye(len(classes)))
    if binary:
        below = proba[taken == 0, 1].max(initial=0.0)
        above = proba[taken == 1, 1].min(initial=1.0)
        yield _threshold_rule((below + above) / 2)


def _margins(costs: Floats) -> list[Floats]:
    """Return by how much each action is cheaper than the best of the others, on the grid."""
    others = [np.delete(costs, k, axis=-1).min(axis=-1) for k in range(costs.shape[-1])]
    return [other - costs[..., k] for k, other in enumerate(others)]


def _reference_costs(reference: Any, xx0: Floats, xx1: Floats, rule: _Rule) -> Floats | None:
    """Return what each action is expected to cost by the reference, on the grid."""
    if reference is None:
        return None
    if callable(reference):
        reference = reference(np.column_stack([xx0.ravel(), xx1.ravel()]))
    proba = _probabilities(reference, xx0.shape, "reference")
    if proba.shape[1] != len(rule.costs):
        raise ValueError(
            f"reference stands for {proba.shape[1]} classes; expected {len(rule.costs)}."
        )
    return rule.expected(proba).reshape(*xx0.shape, -1)


def _spanning_rows(estimator: Any) -> tuple[Any, str]:
    """Return the rows that span the function of an estimator, if these are rows of X."""
    names = {"import_vectors_": "import points", "support_vectors_": "support vectors"}
    while estimator is not None:
        for attribute, name in names.items():
            rows = getattr(estimator, attribute, None)
            if rows is not None and rows.shape[0] > 0:
                return rows, name
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[0][1] if len(estimator.steps) == 1 else None
        elif isinstance(estimator, BayesDecisionClassifier):
            estimator = estimator.estimator_
        else:
            estimator = getattr(estimator, "best_estimator_", None)
    return None, "marked points"


def _faithful(zone: Any) -> Zone | None:
    """Return the probabilities inside a zone of two classes, or below the caps of all of more."""
    if zone is None:
        return None
    return zone if isinstance(zone, tuple) else (0.0, float(np.min(zone)))


# ------------------------------------------------------------------------------------------
# Checks
# ------------------------------------------------------------------------------------------


def _two_features(values: Any, name: str) -> Floats:
    """Check rows of two features and return them as a dense array of floats."""
    dense = values.toarray() if sp.issparse(values) else as_numpy(values)
    rows = check_array(dense, dtype=np.float64, input_name=name)
    if rows.shape[1] != 2:
        raise ValueError(
            f"{name} must have two features to be drawn in a plane; got shape {rows.shape}."
        )
    return rows


def _grid(rows: Floats, resolution: int, eps: Any) -> tuple[Floats, Floats]:
    """Return the two features on a grid that covers the rows and a little more."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    if is_auto(eps):
        margin = 0.1 * (high - low)
    elif check_number("eps", eps) >= 0:
        margin = np.full(2, float(eps))
    else:
        raise ValueError(f"eps must be 'auto' or a finite number >= 0; got {eps!r}.")
    margin[high + margin == low - margin] = 1.0  # a constant feature has no range
    ends = zip(low - margin, high + margin, strict=True)
    xx0, xx1 = np.meshgrid(*(np.linspace(*pair, resolution) for pair in ends))
    return xx0, xx1


def _checked_grid(xx0: Any, xx1: Any) -> tuple[Floats, Floats]:
    first, second = (as_numpy(xx).astype(np.float64) for xx in (xx0, xx1))
    if first.shape != second.shape or first.ndim != 2 or min(first.shape) < 2:
        raise ValueError(
            "xx0 and xx1 must have one shape, (n_rows, n_columns), both at least 2, as from "
            f"numpy.meshgrid; got {first.shape} and {second.shape}."
        )
    if not min(np.ptp(first), np.ptp(second)) > 0:
        raise ValueError("xx0 and xx1 must be finite, and neither may be the same everywhere.")
    return first, second


def _in_form_of(X: Any, nodes: Floats) -> Any:
    """Return points of a grid as the kind of table or array that X is."""
    if hasattr(X, "columns"):  # pandas and polars
        return type(X)(dict(zip(X.columns, nodes.T, strict=True)))
    if is_array_api_obj(X) and not is_numpy_array(X):
        return array_namespace(X).asarray(nodes, dtype=X.dtype, device=device(X))
    return nodes


def _axis_labels(X: Any) -> dict[str, Any]:
    """Return the names of two columns as labels of axes, if they have names."""
    columns = getattr(X, "columns", None)
    return {} if columns is None else {"xlabel": str(columns[0]), "ylabel": str(columns[1])}


def _probabilities(values: Any, shape: tuple[int, ...], name: str) -> Floats:
    """Check probabilities on a grid and return them with one row a point and a column a class."""
    array = as_numpy(values)
    n_nodes = shape[0] * shape[1]
    if array.shape[:2] == shape:
        array = array.reshape(n_nodes, *array.shape[2:])
    if array.shape[:1] != (n_nodes,):
        raise ValueError(
            f"{name} has shape {array.shape}; expected the probabilities at the points of the "
            f"grid of shape {shape}, {n_nodes} in all."
        )
    proba: Floats = as_probabilities(array, name).astype(np.float64)
    if proba.min() < 0 or proba.max() > 1:
        raise ValueError(
            f"{name} must be probabilities, between 0 and 1; they range from {proba.min():g} "
            f"to {proba.max():g}."
        )
    if proba.shape[1] < 2:
        raise ValueError(f"{name} stands for one class only: there is nothing to decide.")
    return proba


def _levels(levels: Any) -> tuple[float, ...]:
    checked = tuple(check_number("levels", level) for level in np.ravel(levels).tolist())
    if not all(0 < level < 1 for level in checked):
        raise ValueError(f"levels must be probabilities between 0 and 1; got {levels!r}.")
    return checked


def _class_labels(classes: Any, y: Any, n_classes: int) -> NDArray[Any]:
    """Return the labels of the columns of probabilities."""
    if classes is None:
        classes = np.arange(n_classes) if y is None else np.unique(as_labels(y, "y"))
    labels = as_labels(classes, "classes")
    if len(labels) != n_classes:
        raise ValueError(
            f"proba stands for {n_classes} classes but there are {len(labels)} labels, "
            f"{listed(labels)}; name the label of each column in classes."
        )
    return labels


def _labels(y: Any, rows: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Check the labels of rows: one each, and all of them classes."""
    labels = as_labels(y, "y")
    check_consistent_length(rows, labels)
    encode_labels(labels, classes, "y")
    return labels


def _color(k: int) -> str:
    return _COLORS[k % len(_COLORS)]
