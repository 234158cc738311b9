"""Accuracy bound of a minimax machine against the number of its bases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score

from grayzone.displays._base import Display, fitted, fitted_by_minimax, name_of
from grayzone.numerics.checks import Floats, as_amounts, as_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


@dataclass(kw_only=True, eq=False, repr=False)
class BoundPathDisplay(Display):
    r"""Accuracy bound of a sparse minimax machine against the number of its bases.

    Figures 1 and 2 of Strohmann et al. [1]_. The solid line is :math:`\Omega` on the training data,
    which every basis was chosen to raise; the dashed line is the bound by held-out rows, with a
    dot at the number of bases that the machine has. The dotted line is an accuracy, on data of the
    caller's: where it is below a bound, that bound was broken. It is recommended to create a
    display with `from_estimator` or `from_paths`.

    Parameters
    ----------
    bound_path : ndarray of shape (n_bases,)
        :math:`\Omega` after each basis.
    held_out_path : ndarray of shape (n_held_out,), default=None
        Held-out bound after each basis; it may go on where the machine has stopped. None for none.
    accuracy : float or ndarray of shape (n_accuracies,), default=None
        Accuracy of the machine, or after each basis; None for none.
    name : str, default=None
        Name of the machine in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.
    line_ : matplotlib Line2D
        :math:`\Omega`.
    held_out_line_ : matplotlib Line2D or None
        The held-out bound.
    point_ : matplotlib Line2D or None
        The dot on it; None where it is not known so far.
    accuracy_line_ : matplotlib Line2D or None
        The accuracy.

    See Also
    --------
    FeatureWeightDisplay : Weights of the features in the bases.

    References
    ----------
    .. [1] Strohmann, T., Grudic, G., Belitski, A. & DeCoste, D. (2004). Sparse greedy minimax
       probability machine classification. NIPS 16.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from grayzone import SparseMinimaxProbabilityMachine
    >>> from grayzone.displays import BoundPathDisplay
    >>> X, X_test, y, y_test = train_test_split(
    ...     *load_breast_cancer(return_X_y=True), random_state=0
    ... )
    >>> clf = SparseMinimaxProbabilityMachine(n_bases=20, random_state=0).fit(X, y)
    >>> display = BoundPathDisplay.from_estimator(clf, X_test, y_test)
    >>> bool(display.accuracy > display.bound_path[-1] == clf.accuracy_bound_)
    True
    >>> plt.close(display.figure_)
    """

    bound_path: Floats
    held_out_path: Floats | None = None
    accuracy: float | Floats | None = None
    name: str | None = None
    line_: Line2D = field(init=False)
    held_out_line_: Line2D | None = field(init=False)
    point_: Line2D | None = field(init=False)
    accuracy_line_: Line2D | None = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the bounds of a fitted machine and, given other data, its accuracy there.

        Parameters
        ----------
        estimator : estimator
            Fitted `SparseMinimaxProbabilityMachine`, or a pipeline or search that ends in one.
        X : array-like of shape (n_samples, n_features), default=None
            Data for the accuracy of the machine with all its bases, a horizontal line; best those
            that it was not fitted to. None for no accuracy.
        y : array-like of shape (n_samples,), default=None
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the accuracy.
        name : str, default=None
            Name of the machine; by default the estimator's class.
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the bound on the training data.

        Returns
        -------
        display : BoundPathDisplay
            What was drawn.
        """
        cls._begin("from_estimator", estimator)
        path = fitted_by_minimax(estimator, "bound_path_")
        if (X is None) != (y is None):
            raise ValueError("The accuracy takes both X and y; got only one of them.")
        accuracy = None
        if X is not None:
            accuracy = accuracy_score(
                as_numpy(y), as_numpy(estimator.predict(X)), sample_weight=sample_weight
            )
        return cls.from_paths(
            path,
            held_out_path=fitted(estimator, "held_out_path_", None),
            accuracy=accuracy,
            name=name_of(estimator, name),
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_paths(
        cls,
        bound_path: ArrayLike,
        *,
        held_out_path: ArrayLike | None = None,
        accuracy: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        r"""Draw given bounds, for instance means over several machines.

        Parameters
        ----------
        bound_path : array-like of shape (n_bases,)
            :math:`\Omega` after each basis.
        held_out_path : array-like of shape (n_held_out,), default=None
            Held-out bound after each basis.
        accuracy : float or array-like of shape (n_accuracies,), default=None
            Accuracy of the machine, or after each basis.
        name : str, default=None
            Name of the machine; by default "Machine".
        ax : matplotlib Axes, default=None
            Where to draw; by default a new figure.
        **kwargs : dict
            Passed to matplotlib's `plot` for the bound on the training data.

        Returns
        -------
        display : BoundPathDisplay
            What was drawn.
        """
        cls._begin("from_paths")
        if accuracy is not None:
            accuracy = as_amounts(accuracy, "accuracy")
            accuracy = float(accuracy) if accuracy.ndim == 0 else _as_path(accuracy, "accuracy")
        display = cls(
            bound_path=_as_path(bound_path, "bound_path"),
            held_out_path=None
            if held_out_path is None
            else _as_path(held_out_path, "held_out_path"),
            accuracy=accuracy,
            name="Machine" if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Axes, name: str | None, style: dict[str, Any]) -> None:
        style = {"label": rf"{name}, bound $\Omega$", **style}
        (self.line_,) = ax.plot(_numbers(self.bound_path), self.bound_path, **style)
        self._plot_held_out(ax, name)
        self._plot_accuracy(ax, name)
        ax.set(xlabel="Number of bases", ylabel="Accuracy and its bounds")

    def _plot_held_out(self, ax: Axes, name: str | None) -> None:
        self.held_out_line_ = self.point_ = None
        path, chosen = self.held_out_path, self.bound_path.size
        if path is None:
            return
        color = self.line_.get_color()
        (self.held_out_line_,) = ax.plot(
            _numbers(path), path, color=color, linestyle="--", label=f"{name}, held-out bound"
        )
        if 0 < chosen <= path.size:
            (self.point_,) = ax.plot(chosen, path[chosen - 1], color=color, marker="o")

    def _plot_accuracy(self, ax: Axes, name: str | None) -> None:
        self.accuracy_line_ = None
        if self.accuracy is None:
            return
        style: dict[str, Any] = {
            "color": self.line_.get_color(),
            "linestyle": ":",
            "linewidth": 2.0,
            "label": f"{name}, accuracy",
        }
        if isinstance(self.accuracy, float):
            style["label"] += f" {self.accuracy:.3f}"
            self.accuracy_line_ = ax.axhline(self.accuracy, **style)
        else:
            (self.accuracy_line_,) = ax.plot(_numbers(self.accuracy), self.accuracy, **style)


def _numbers(path: Floats) -> Any:
    """Numbers of bases, from one on."""
    return np.arange(1, path.size + 1)


def _as_path(values: ArrayLike, name: str) -> Floats:
    path = as_amounts(values, name)
    if path.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {path.shape}.")
    return path
