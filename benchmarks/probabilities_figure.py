"""The picture of the study of probabilities: estimated against true ones, and how far apart."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Okabe and Ito's colours, told apart by colour-blind readers; ours is drawn last, on top.
STYLES: dict[str, tuple[str, str, str]] = {
    "SVC, sigmoid": ("calibrated SVC", "#D55E00", "--"),
    "full logistic": ("full kernel logistic", "#009E73", "-."),
    "truncated": ("grayzone, fitted for the zone", "#0072B2", "-"),
}
GREY = "0.4"


def draw_figure(results: dict[str, Any], path: Path) -> None:
    """Draw the largest samples, where matplotlib is there.

    Parameters
    ----------
    results : dict
        What the study has written.
    path : Path
        Where to save the picture.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no figure")
        return
    size = max(run["size"] for run in results["runs"])
    curves = [curve for curve in results["curves"] if curve["size"] == size]
    runs = [run for run in results["runs"] if run["size"] == size]
    zones = list(dict.fromkeys(tuple(curve["zone"]) for curve in curves))
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots(
        2, len(zones), sharex="row", sharey="row", height_ratios=(3, 1), squeeze=False
    )
    for zone, upper, lower in zip(zones, axes[0], axes[1], strict=True):
        draw_curves(upper, [curve for curve in curves if tuple(curve["zone"]) == zone], zone)
        draw_errors(lower, [run for run in runs if tuple(run["zone"]) == zone])
    axes[0, 0].set_ylabel("estimated probability")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    draws = len({run["draw"] for run in runs})
    figure.legend(
        handles[::-1],
        labels[::-1],
        loc="outside upper center",
        ncols=len(STYLES),
        frameon=False,
        title=f"median and 10–90 % band, {size:,} training points, {draws} samples",
        title_fontsize="small",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, pil_kwargs={"optimize": True})
    print(f"figure drawn: {path.name}")


def draw_curves(axes: Any, curves: Sequence[dict[str, Any]], zone: Sequence[float]) -> None:
    """Draw medians and 10–90 % bands of the estimates against the true probability."""
    axes.axvspan(*zone, facecolor="0.9", edgecolor="none", zorder=0)
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, zorder=1)
    for contender, (label, colour, line) in STYLES.items():
        for curve in (curve for curve in curves if curve["contender"] == contender):
            axes.fill_between(
                curve["p"], curve["low"], curve["high"], color=colour, alpha=0.13, linewidth=0
            )
            axes.plot(curve["p"], curve["median"], line, color=colour, linewidth=2, label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="true probability")
    axes.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
    axes.set_title(f"zone {zone[0]:g} – {zone[1]:g}", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)


def draw_errors(axes: Any, runs: Sequence[dict[str, Any]]) -> None:
    """Draw the mean error inside the zone with its standard error."""
    for row, (contender, (label, colour, _)) in enumerate(STYLES.items()):
        errors = np.array([run["error"] for run in runs if run["contender"] == contender])
        deviation = errors.std(ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else 0.0
        mean = errors.mean()
        axes.errorbar(mean, row, xerr=deviation, fmt="o", color=colour, capsize=3, label=label)
        axes.annotate(
            f"{mean:.3f}".lstrip("0"),
            (mean, row),
            xytext=(0, 5),
            textcoords="offset points",
            ha="center",
            fontsize="small",
            color=colour,
        )
    axes.set(xlabel="mean error in the zone", ylim=(-0.6, len(STYLES) - 0.1))
    axes.set(yticks=(), xlim=(0, None))
    axes.spines[["top", "right", "left"]].set_visible(False)
