"""What the displays share: where to draw, shades and legends, and what a fitted estimator knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from grayzone.decision.costs import Costs, cost_matrix
from grayzone.decision.ranges import has_range
from grayzone.estimators.bayes import BayesDecisionClassifier
from grayzone.numerics.checks import Floats, as_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D

Zone = tuple[float, float]

MUTED = "0.45"  # grey of everything that is not the curve itself

# Beyond so many points, matplotlib takes seconds to find the best place for a legend.
_MANY_POINTS = 20_000


class Display:
    """Numbers that can be drawn, as often as one likes.

    A subclass computes them in ``from_estimator`` and in another constructor, for numbers that the
    caller has; both begin with ``_begin`` and end with ``plot``. It says in ``_draw`` what there is
    to see.
    """

    ax_: Axes
    figure_: Figure | SubFigure
    name: str | None

    @classmethod
    def _begin(cls, constructor: str, *estimators: Any) -> None:
        """Check first that anything can be drawn, and that an estimator is fitted."""
        pyplot(f"{cls.__name__}.{constructor}")
        for estimator in estimators:
            check_is_fitted(estimator)

    def plot(self, ax: Axes | None = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw what the display holds.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        name : str, default=None
            Name in the legend; by default that of the display.
        **kwargs : dict
            Passed to matplotlib for the main thing that is drawn, as by the constructors.

        Returns
        -------
        display : Display
            The object itself.
        """
        self.ax_ = axes_for(ax, f"{type(self).__name__}.plot")
        self.figure_ = self.ax_.figure
        self._draw(self.ax_, name or self.name, kwargs)
        self._add_legend(self.ax_, alone=ax is None)
        return self

    def _draw(self, ax: Axes, name: str | None, style: dict[str, Any]) -> None:
        """Draw everything but the legend; ``style`` is that of the main thing."""
        raise NotImplementedError

    def _add_legend(self, ax: Axes, *, alone: bool) -> None:
        legend(ax)


def pyplot(caller: str) -> Any:
    """Import matplotlib's pyplot, or say what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{caller} requires matplotlib. You can install it with `pip install grayzone[plot]`."
        ) from error
    return plt


def axes_for(ax: Axes | None, caller: str) -> Axes:
    """Return the axes given, or those of a new figure."""
    plt = pyplot(caller)
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def shade(ax: Axes, zone: Zone | None, *, what: str = "gray zone", grey: str = "0.9") -> Any:
    """Shade the gray zone, or other thresholds, unless it is everything."""
    if zone is None or zone == (0.0, 1.0):
        return None
    label = once(ax, f"{what} [{zone[0]:.3g}, {zone[1]:.3g}]")
    return ax.axvspan(*zone, facecolor=grey, edgecolor="none", zorder=0, label=label)


def draw_band(
    ax: Axes,
    line: Line2D,
    lower: Floats | None,
    upper: Floats | None,
    confidence: float | None,
) -> PolyCollection | None:
    """Shade what lies between two curves, in the colour and with the steps of a third."""
    if lower is None or upper is None:
        return None
    steps = {"steps-pre": "pre", "steps-mid": "mid", "steps-post": "post"}
    step: Any = steps.get(line.get_drawstyle())
    style: dict[str, Any] = {"color": line.get_color(), "alpha": 0.2, "linewidth": 0}
    if confidence is not None:
        style["label"] = once(ax, f"{100 * confidence:.3g} % band")
    return ax.fill_between(np.asarray(line.get_xdata()), lower, upper, step=step, **style)


def legend(ax: Axes) -> None:
    """Draw the legend where it hides least, if that can be found in time."""
    points = sum(len(np.asarray(line.get_xdata())) for line in ax.get_lines())
    ax.legend(loc="best" if points < _MANY_POINTS else "upper right", fontsize="small")


def once(ax: Axes, label: str) -> str:
    """Return the label, or matplotlib's "no label" if the legend already has it."""
    return "_nolegend_" if label in ax.get_legend_handles_labels()[1] else label


def name_of(estimator: Any, name: str | None) -> str:
    """Return the name that is given, or that of the estimator's class."""
    return type(estimator).__name__ if name is None else name


def positive_response(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the probability of the positive class, and its label."""
    classes = as_numpy(estimator.classes_)
    if len(classes) != 2:
        raise ValueError(
            f"{type(estimator).__name__} was fitted on {len(classes)} classes; this display needs "
            "two."
        )
    return estimator.predict_proba(X)[:, 1], classes[1]


def fitted(estimator: Any, attribute: str, default: Any) -> Any:
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


def fitted_by_minimax(estimator: Any, attribute: str) -> Any:
    """Find an attribute that only sparse minimax machines have."""
    value = fitted(estimator, attribute, None)
    if value is None:
        raise ValueError(
            f"{type(estimator).__name__} has no {attribute}; this display is for "
            "SparseMinimaxProbabilityMachine."
        )
    return value


def fitted_costs(estimator: Any) -> Costs:
    """Return the costs an estimator decides by: worked out while fitting, or as given."""
    matrix, given = fitted(estimator, "cost_matrix_", None), fitted(estimator, "costs", None)
    if matrix is None or not isinstance(given, Mapping):
        return given if matrix is None else matrix
    # a mapping may say more than the matrix: the ranges of which it is the middle
    classes = as_numpy(estimator.classes_)
    same = has_range(given, classes) and np.array_equal(
        as_numpy(matrix), cost_matrix(given, classes)
    )
    return given if same else matrix
