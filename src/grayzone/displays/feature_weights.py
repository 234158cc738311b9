"""Weights that a minimax machine gives the features."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline

from grayzone.displays._base import MUTED, Display, fitted_by_minimax, name_of, once
from grayzone.numerics.checks import Floats, as_amounts, as_numpy, check_integer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D

Names = NDArray[np.str_]


@dataclass(kw_only=True, eq=False, repr=False)
class FeatureWeightDisplay(Display):
    """Weights of the features in the bases of a sparse minimax machine.

    Figure 3 of Strohmann et al. [1]_. A feature without weight has no say in any basis; the
    dashed line is where all of them would be, had all the same. It is recommended to create a
    display with `from_estimator` or `from_weights`.

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
        Weights of the features.
    spread : ndarray of shape (n_features,), default=None
        Half the length of an error bar for each, for instance the standard deviation over several
        machines; None for no error bars.
    feature_names : ndarray of shape (n_features,), default=None
        Names of the features; None for their numbers, from 0 on.
    max_features : int, default=None
        How many to draw, the heaviest first; None draws all of them in their order.
    name : str, default=None
        Name of the bars in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    bars_ : matplotlib BarContainer
        The bars, with their error bars in ``bars_.errorbar``.
    equal_line_ : matplotlib Line2D
        The mean weight.
    order_ : ndarray of shape (n_bars,)
        Which feature each bar is of.

    See Also
    --------
    BoundPathDisplay : Bounds of the machine against the number of bases.

    References
    ----------
    .. [1] Strohmann, T., Grudic, G., Belitski, A. & DeCoste, D. (2004). Sparse greedy minimax
       probability machine classification. NIPS 16.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_breast_cancer
    >>> from grayzone import SparseMinimaxProbabilityMachine
    >>> from grayzone.displays import FeatureWeightDisplay
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> clf = SparseMinimaxProbabilityMachine(n_bases=10, random_state=0).fit(X, y)
    >>> display = FeatureWeightDisplay.from_estimator(clf, max_features=5)
    >>> len(display.bars_), round(float(display.weights.sum()), 12)
    (5, 1.0)
    >>> plt.close(display.figure_)
    """

    weights: Floats
    spread: Floats | None = None
    feature_names: Names | None = None
    max_features: int | None = None
    name: str | None = None
    bars_: BarContainer = field(init=False)
    equal_line_: Line2D = field(init=False)
    order_: NDArray[np.intp] = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: ArrayLike | None = None,
        max_features: int | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the weights of the features of a fitted machine.

        Parameters
        ----------
        estimator : estimator
            Fitted `SparseMinimaxProbabilityMachine`, or a pipeline or search that ends in one; the
            features are then those that reach the machine.
        feature_names : array-like of shape (n_features,), default=None
            Names of the features; by default those that the data had while fitting, if any.
        max_features : int, default=None
            How many to draw, the heaviest first; by default all of them in their order.
        name : str, default=None
            Name of the bars; by default the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `bar`.

        Returns
        -------
        display : FeatureWeightDisplay
            What was drawn.
        """
        cls._begin("from_estimator", estimator)
        weights = fitted_by_minimax(estimator, "feature_weights_")
        return cls.from_weights(
            weights,
            feature_names=_names_of(estimator) if feature_names is None else feature_names,
            max_features=max_features,
            name=name_of(estimator, name),
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_weights(
        cls,
        weights: ArrayLike,
        *,
        spread: ArrayLike | None = None,
        feature_names: ArrayLike | None = None,
        max_features: int | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw given weights, for instance means over several machines.

        Parameters
        ----------
        weights : array-like of shape (n_features,)
            Weights of the features.
        spread : array-like of shape (n_features,), default=None
            Half the length of an error bar for each.
        feature_names : array-like of shape (n_features,), default=None
            Names of the features; by default their numbers, from 0 on.
        max_features : int, default=None
            How many to draw, the heaviest first; by default all of them in their order.
        name : str, default=None
            Name of the bars; by default "weights".
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `bar`.

        Returns
        -------
        display : FeatureWeightDisplay
            What was drawn.
        """
        cls._begin("from_weights")
        heights = as_amounts(weights, "weights")
        if heights.ndim != 1 or not heights.size:
            raise ValueError(f"weights must have shape (n_features,); got shape {heights.shape}.")
        if max_features is not None:
            max_features = check_integer("max_features", max_features, least=1)
        display = cls(
            weights=heights,
            spread=None
            if spread is None
            else _alike(as_amounts(spread, "spread"), heights, "spread"),
            feature_names=None
            if feature_names is None
            else _alike(as_numpy(feature_names).astype(str), heights, "feature_names"),
            max_features=max_features,
            name="weights" if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Axes, name: str | None, style: dict[str, Any]) -> None:
        self.order_ = np.arange(self.weights.size)
        if self.max_features is not None:
            # stable, so that equal weights stay in the order of their features
            self.order_ = np.argsort(-self.weights, kind="stable")[: self.max_features]
        style = {"label": name, "error_kw": {"elinewidth": 1.0}, **style}
        if self.spread is not None:
            style.setdefault("yerr", self.spread[self.order_])
        places = np.arange(self.order_.size)
        self.bars_ = ax.bar(places, self.weights[self.order_], **style)
        self.equal_line_ = ax.axhline(
            float(np.mean(self.weights)),
            color=MUTED,
            linestyle="--",
            linewidth=1.2,
            label=once(ax, "equal weights"),
        )
        self._name_features(ax, places)
        ax.set(ylabel="Weight")
        ax.set_ylim(bottom=0.0, auto=None)  # the top stays free for bars that are added

    def _name_features(self, ax: Axes, places: NDArray[np.intp]) -> None:
        ax.set_xlabel("Feature")
        if self.feature_names is not None:
            ax.set_xticks(places, self.feature_names[self.order_], rotation=45, ha="right")
        elif self.max_features is not None:
            ax.set_xticks(places, self.order_.astype(str))


def _names_of(estimator: Any) -> Names | None:
    """Names of the features that reach the machine, where the data had any."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    if not isinstance(estimator, Pipeline):
        return getattr(estimator, "feature_names_in_", None)
    names = getattr(estimator.steps[-1][1], "feature_names_in_", None)
    if names is None and hasattr(estimator, "feature_names_in_"):
        # the steps before made an array of the data; most know what became of the names
        with suppress(AttributeError):
            names = estimator[:-1].get_feature_names_out()
    return names


def _alike(values: Any, weights: Floats, name: str) -> Any:
    if values.shape != weights.shape:
        raise ValueError(
            f"{name} must have one entry a feature, shape {weights.shape}; got shape "
            f"{values.shape}."
        )
    return values
