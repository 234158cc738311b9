"""Figure 1 of Hérault & Grandvalet's French report, and the cone of the ROC curve (§1).

Figure 1: the losses of both classes against the log-odds, the local criterion (3) and the full
likelihood. §1: a classifier with a zone "provides relevant decision rules for the set of
corresponding asymmetric misclassification losses, or equivalently, for the corresponding cone of
the ROC curve". Where linear models are too simple (four clusters of a plane; Krummholz) the costs
of decisions at every threshold of one model with a zone stand beside those of logistic regression,
and beside `roc_by_costs`: a model for every threshold, each with its own zone.

    python -m benchmarks.papers.truncated_report
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import UNEVEN_PLANE, Split, krummholz, plane_sample, stratified_rows
from benchmarks.papers.running import new_figure, options_of
from benchmarks.report import graded, print_table, show_figure, verdict, write_json
from grayzone import TruncatedLogisticRegression, roc_by_costs
from grayzone.decision import zone_around
from grayzone.metrics import zone_log_loss

WIDTH, REACH = 0.7, 2.0  # of the zone and of the thresholds, to either side, in log-odds
CENTRES = {"four clusters": 0.25, "krummholz": 0.088}
POINTS, QUICK_POINTS = 31, 9
ROWS, TEST = 2_000, 50_000
ZONE = (0.2, 0.6)  # of Figure 1

Curves = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the figures.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = options_of("truncated_report", __doc__, argv)
    points = QUICK_POINTS if options.quick else POINTS
    judge_figure1(losses())
    draw_figure1(losses(), options.output.with_name("truncated_report_figure1.png"))
    with threadpool_limits(limits=options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # far from the share of a class: constants
        curves = {name: costs_of(problem(name), c, points) for name, c in CENTRES.items()}
    judge_cone(curves)
    draw_cone(curves, options.output.with_name("truncated_report_cone.png"))
    kept = {name: {k: np.array(v).tolist() for k, v in c.items()} for name, c in curves.items()}
    write_json("truncated_report", {"curves": kept}, options.output)
    return 0


# ----------------------------------------------------------------------------------------------
# Figure 1
# ----------------------------------------------------------------------------------------------


def losses() -> dict[str, np.ndarray]:
    """Return losses of both classes against the log-odds, with the zone and without."""
    f = np.linspace(-4.0, 4.0, 321)
    p = 1.0 / (1.0 + np.exp(-f))
    found = {"f": f}
    for label in (0, 1):
        for name, zone in (("local", ZONE), ("full", None)):
            each = [zone_log_loss([label], [q], zone=zone, labels=[0, 1]) for q in p]
            found[f"{name}, {label}"] = np.array(each)
    return found


def judge_figure1(found: dict[str, np.ndarray]) -> None:
    """Say whether the losses are what the report describes."""
    f, ends = found["f"], np.log(np.array(ZONE) / (1.0 - np.array(ZONE)))
    flat = [
        np.ptp(found["local, 1"][f >= ends[1]]) < 1e-12,
        np.ptp(found["local, 0"][f <= ends[0]]) < 1e-12,
    ]
    same = [
        np.allclose(found["local, 1"][f <= ends[1]], found["full, 1"][f <= ends[1]]),
        np.allclose(found["local, 0"][f >= ends[0]], found["full, 0"][f >= ends[0]]),
    ]
    verdict(
        "French report, Figure 1 (losses of both classes)",
        graded([bool(one) for one in (*flat, *same)]),
        "each class's loss is flat beyond its end of the zone and the likelihood's before it",
    )


def draw_figure1(found: dict[str, np.ndarray], path: Path) -> None:
    """Draw the losses."""
    made = new_figure(6.0, 3.6)
    if made is None:
        return
    figure, axes = made
    for label, colour in ((1, "#0072B2"), (0, "#D55E00")):
        sign = "+" if label else "−"
        axes.plot(found["f"], found[f"full, {label}"], ":", color=colour, label=f"{sign}1, full")
        axes.plot(found["f"], found[f"local, {label}"], color=colour, label=f"{sign}1, local")
    for end in ZONE:
        axes.axvline(np.log(end / (1.0 - end)), color="0.6", linewidth=0.8)
    axes.set(xlabel="log-odds", ylabel="loss")
    axes.legend()
    show_figure(figure, path, f"Losses of both classes; zone {ZONE[0]:g}–{ZONE[1]:g}")


# ----------------------------------------------------------------------------------------------
# The cone
# ----------------------------------------------------------------------------------------------


def problem(name: str) -> Split:
    """Return rows that linear models are too simple for."""
    if name == "krummholz":
        split = krummholz(0)
        few = stratified_rows(split.y_test, TEST)
        return split._replace(X_test=split.X_test[few], y_test=split.y_test[few])
    return Split(*plane_sample(ROWS, UNEVEN_PLANE, 1), *plane_sample(TEST, UNEVEN_PLANE, 2))


def costs_of(split: Split, centre: float, points: int) -> Curves:
    """Return costs of decisions at thresholds around the centre, by model."""
    logit = np.log(centre / (1.0 - centre)) + np.linspace(-REACH, REACH, points)
    thresholds = 1.0 / (1.0 + np.exp(-logit))
    costs = {0: centre, 1: 1.0 - centre}
    X, y = split.X_train, split.y_train
    found: Curves = {"thresholds": thresholds, "zone": zone_around(centre, WIDTH)}
    for name, zone in (("logistic regression", None), ("one zone", WIDTH)):
        model = TruncatedLogisticRegression(zone=zone, costs=costs).fit(X, y)
        p = model.predict_proba(split.X_test)[:, 1]
        found[name] = np.array([cost(p >= c, split.y_test, c) for c in thresholds])
    # missing a positive costs 1 - c where a false positive costs c
    curve = roc_by_costs(
        TruncatedLogisticRegression(zone=WIDTH),
        X,
        y,
        asymmetries=1.0 - thresholds,
        X_test=split.X_test,
        y_test=split.y_test,
    )
    order = np.argsort(1.0 - curve.asymmetries)
    share = split.y_test.mean()
    c = 1.0 - curve.asymmetries[order]
    missed, alarms = share * (1.0 - curve.tpr[order]), (1.0 - share) * curve.fpr[order]
    found["a zone for each"] = (1.0 - c) * missed + c * alarms
    found |= {"fpr": curve.fpr[order], "tpr": curve.tpr[order]}
    return found


def cost(decided: np.ndarray, y: np.ndarray, threshold: float) -> float:
    """Return the mean cost of decisions whose costs imply this threshold."""
    missed, alarms = np.mean((y == 1) & ~decided), np.mean((y == 0) & decided)
    return float((1.0 - threshold) * missed + threshold * alarms)


def judge_cone(curves: dict[str, Curves]) -> None:
    """Say where a zone is cheaper than logistic regression: inside, or outside as well."""
    rows, met, told = [], [], []
    for name, found in curves.items():
        c, (low, high) = found["thresholds"], found["zone"]
        inside = (c >= low) & (c <= high)
        saved = {
            way: 1.0 - found[way] / found["logistic regression"]
            for way in ("one zone", "a zone for each")
        }
        means = [float(100 * saved["one zone"][part].mean()) for part in (inside, ~inside)]
        each = float(100 * saved["a zone for each"].mean())
        met += [means[0] > 0.0, means[0] > means[1]]
        told.append(f"{name}: {means[0]:+.1f} % inside, {means[1]:+.1f} % outside, {each:+.1f} %")
        rows.append([name, f"{low:.3f}–{high:.3f}", *(f"{value:+.1f}" for value in (*means, each))])
    print_table(
        "Cost of decisions that a zone saves, of logistic regression's (%), mean over thresholds",
        ("", "zone", "one zone, inside", "one zone, outside", "a zone for each threshold"),
        rows,
    )
    verdict(
        "§1: a zone improves its cone of the ROC curve",
        graded(met),
        "; ".join(told) + " with a zone for each threshold",
    )


def draw_cone(curves: dict[str, Curves], path: Path) -> None:
    """Draw costs, relative to those of logistic regression, against the threshold."""
    made = new_figure(9.0, 3.4, len(curves))
    if made is None:
        return
    figure, panels = made
    for axes, (name, found) in zip(panels, curves.items(), strict=True):
        for way, style in (("one zone", "-"), ("a zone for each", "--")):
            ratio = found[way] / found["logistic regression"]
            axes.plot(found["thresholds"], ratio, style, label=way)
        axes.axhline(1.0, color="0.5", linewidth=0.8)
        axes.axvspan(*found["zone"], color="0.9", label="the zone")
        axes.set(title=name, xlabel="threshold", xscale="logit")
        axes.minorticks_off()
    panels[0].set_ylabel("cost / that of logistic regression")
    panels[0].legend(fontsize=8)
    show_figure(figure, path, "Costs of decisions with a zone, relative to logistic regression")


if __name__ == "__main__":
    raise SystemExit(main())
