"""Frequencies against probabilities, inside and beyond the gray zone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from grayzone.decision.zones import binary_zone
from grayzone.displays._base import (
    MUTED,
    Display,
    Zone,
    fitted,
    name_of,
    once,
    positive_response,
    shade,
)
from grayzone.metrics.curves import ReliabilityBins, calibration_error, reliability_bins
from grayzone.metrics.truth import read_binary
from grayzone.numerics.checks import Array, is_auto

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


@dataclass(kw_only=True, eq=False, repr=False)
class ZoneReliabilityDisplay(Display):
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

    inside: ReliabilityBins
    outside: ReliabilityBins
    zone: Zone
    error: float
    name: str | None = None
    line_: Line2D = field(init=False)
    outside_line_: Line2D = field(init=False)
    reference_line_: Line2D = field(init=False)
    zone_patch_: Any = field(init=False)

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
        cls._begin("from_estimator", estimator)
        proba, pos_label = positive_response(estimator, X)
        if is_auto(zone):
            zone = fitted(estimator, "zone_", 1.0)
        if zone is not None and np.ndim(zone) == 0:
            zone = binary_zone(zone, fitted(estimator, "threshold_", 0.5))
        return cls.from_predictions(
            y,
            proba,
            zone=zone,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            pos_label=pos_label,
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
        cls._begin("from_predictions")
        truth, p = read_binary(y_true, y_proba, sample_weight, pos_label)
        low, high = binary_zone(zone, 0.5)

        def bins(rows: Any, interval: Zone, count: int) -> ReliabilityBins:
            return reliability_bins(truth, p, rows, interval, count, strategy)

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

    def _draw(self, ax: Axes, name: str | None, style: dict[str, Any]) -> None:
        self.zone_patch_ = shade(ax, self.zone)
        (self.reference_line_,) = ax.plot(
            [0, 1], [0, 1], color=MUTED, linestyle=":", label=once(ax, "perfectly calibrated")
        )
        found = "no rows" if np.isnan(self.error) else f"error {self.error:.3f}"
        style = {"marker": "o", "label": f"{name} ({found} in the zone)", **style}
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
            label=once(ax, "beyond the zone") if len(self.outside.weight) else None,
        )
        ax.set(
            xlabel="Mean predicted probability of the positive class",
            ylabel="Observed frequency of the positive class",
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
        )
