"""Charts of a report as Vega-Lite, made with Altair; sliders reach them through their signals."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

Summary = dict[str, Any]
Chart = dict[str, Any]

BLUE, ORANGE, GREEN = "#3b82c4", "#d9782d", "#3c9d74"
HEIGHT, ROW = 260, 17
MOST_STEPS = 250  # points of a curve; the sliders have all
# The colour of the text around: a page may be light or dark.
INK, FAINT = "currentColor", "#8888"
CONFIG: Chart = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "domainColor": FAINT,
        "tickColor": FAINT,
        "gridColor": "#8883",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12},
}


def charts_of(summary: Summary) -> dict[str, Chart]:
    """All charts there are data for, by name."""
    found: dict[str, alt.Chart | alt.LayerChart] = {}
    if summary["binary"] is not None:
        steps = _steps(summary)
        found["cost"] = _cost(summary, steps)
        found["reliability"] = _reliability(summary)
        found["roc"] = _roc(steps)
        found["precision"] = _precision(steps)
    if summary["risk_coverage"]:
        found["risk"] = _risk(summary)
    if summary["bound_path"]:
        found["bound"] = _bound(summary)
    if summary["weights"]:
        found["weights"] = _weights(summary)
    heights: dict[str, Any] = {"weights": alt.Step(ROW)}
    return {name: _plain(chart, heights.get(name, HEIGHT)) for name, chart in found.items()}


def _plain(chart: Any, height: Any) -> Chart:
    sized = chart.properties(width="container", height=height)
    return {**sized.to_dict(), "config": CONFIG}


def _steps(summary: Summary) -> pd.DataFrame:
    """Rates at some of the slider's thresholds."""
    own = summary["binary"]
    frame = pd.DataFrame({key: own[key] for key in ("steps", "tp", "fp")})
    keep = {round(k * (len(frame) - 1) / MOST_STEPS) for k in range(MOST_STEPS + 1)}
    frame = frame.iloc[sorted(keep | {own["start"]})]
    positives, negatives = max(own["positives"], 1), max(own["negatives"], 1)
    alarms = (frame.tp + frame.fp).clip(lower=1)
    return frame.assign(
        fn=own["positives"] - frame.tp,
        tpr=frame.tp / positives,
        fpr=frame.fp / negatives,
        precision=(frame.tp / alarms).where(frame.tp + frame.fp > 0, 1.0),
        n=own["positives"] + own["negatives"],
    )


def _percent(name: str, title: str, domain: tuple[float, float] | None = (0, 1)) -> dict[str, Any]:
    scale = alt.Scale(domain=list(domain)) if domain else alt.Scale()
    return {"shorthand": f"{name}:Q", "title": title, "scale": scale, "axis": alt.Axis(format="%")}


def _cost(summary: Summary, steps: pd.DataFrame) -> Any:
    """Mean cost against the threshold; the costs and the threshold are signals."""
    costs = summary["costs"]
    threshold = alt.param(name="threshold", value=summary["binary"]["threshold"])
    fn = alt.param(name="cost_fn", value=costs[1][0])
    fp = alt.param(name="cost_fp", value=costs[0][1])
    x = alt.X("steps:Q", title="threshold", scale=alt.Scale(domain=[0, 1]))
    line = (
        alt.Chart(steps)
        .transform_calculate(cost="(datum.fn * cost_fn + datum.fp * cost_fp) / datum.n")
        .mark_line(color=BLUE, interpolate="step-before")
        .encode(x, alt.Y("cost:Q", title="mean cost of a decision"))
    )
    rule = (
        alt.Chart(pd.DataFrame({"k": [0]}))
        .transform_calculate(at="threshold")
        .mark_rule(color=ORANGE, strokeWidth=2)
        .encode(alt.X("at:Q"))
    )
    return alt.layer(line, rule).add_params(threshold, fn, fp)


def _reliability(summary: Summary) -> Any:
    """Observed share of positives against the probability, the gray zone shaded."""
    own = summary["binary"]
    bins = pd.DataFrame(own["reliability"])
    low, high = own["zone"]
    zone = (
        alt.Chart(pd.DataFrame({"low": [low], "high": [high]}))
        .mark_rect(color=ORANGE, opacity=0.18)
        .encode(alt.X("low:Q"), alt.X2("high"))
    )
    ideal = (
        alt.Chart(pd.DataFrame({"p": [0, 1]}))
        .mark_line(color=FAINT, strokeDash=[4, 4])
        .encode(alt.X("p:Q"), alt.Y("p:Q"))
    )
    points = (
        alt.Chart(bins)
        .mark_line(color=BLUE, point=alt.OverlayMarkDef(color=BLUE, size=60))
        .encode(
            alt.X(**_percent("predicted", "probability")),
            alt.Y(**_percent("observed", "observed share of positives")),
            tooltip=["predicted:Q", "observed:Q", "rows:Q"],
        )
    )
    return alt.layer(zone, ideal, points)


def _roc(steps: pd.DataFrame) -> Any:
    axes = (
        alt.X(**_percent("fpr", "false positive rate")),
        alt.Y(**_percent("tpr", "true positive rate")),
    )
    return _with_point(alt.Chart(steps).mark_line(color=BLUE).encode(*axes, alt.Order("steps:Q")))


def _precision(steps: pd.DataFrame) -> Any:
    axes = alt.X(**_percent("tpr", "recall")), alt.Y(**_percent("precision", "precision"))
    return _with_point(alt.Chart(steps).mark_line(color=BLUE).encode(*axes, alt.Order("steps:Q")))


def _with_point(line: Any) -> Any:
    """A curve with the operating point, which the page moves by the signals `at_x` and `at_y`."""
    point = (
        alt.Chart(pd.DataFrame({"k": [0]}))
        .transform_calculate(x="at_x", y="at_y")
        .mark_point(color=ORANGE, filled=True, size=110)
        .encode(alt.X("x:Q"), alt.Y("y:Q"))
    )
    signals = alt.param(name="at_x", value=0), alt.param(name="at_y", value=0)
    return alt.layer(line, point).add_params(*signals)


def _risk(summary: Summary) -> Any:
    return (
        alt.Chart(pd.DataFrame(summary["risk_coverage"]))
        .mark_line(color=BLUE)
        .encode(
            alt.X(**_percent("coverage", "share of rows decided")),
            alt.Y(**_percent("risk", "errors among them", None)),
        )
    )


def _bound(summary: Summary) -> Any:
    path = summary["bound_path"]
    frame = pd.DataFrame({"bases": range(1, len(path) + 1), "bound": path})
    return (
        alt.Chart(frame)
        .mark_line(color=GREEN, point=True)
        .encode(
            alt.X("bases:Q", title="basis functions"),
            alt.Y(**_percent("bound", "accuracy bound", None)),
        )
    )


def _weights(summary: Summary) -> Any:
    """Weights of features; their names are values, never field names or expressions."""
    frame = pd.DataFrame(summary["weights"], columns=["feature", "weight"])
    return (
        alt.Chart(frame)
        .mark_bar(color=BLUE)
        .encode(
            alt.X("weight:Q", title="weight"),
            alt.Y("feature:N", title=None, sort=None, axis=alt.Axis(labelLimit=220)),
            tooltip=["feature:N", "weight:Q"],
        )
    )
