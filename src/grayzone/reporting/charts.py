"""Charts of a report as Vega-Lite, made with Altair; sliders reach them through their signals."""

from __future__ import annotations

from typing import Any

try:
    import altair as alt
    import pandas as pd
except ImportError as error:
    raise ImportError(f"A report needs {error.name}: pip install 'grayzone[cli]'.") from error

from grayzone.reporting.summary import RARE

Summary = dict[str, Any]
Chart = dict[str, Any]

BLUE, ORANGE, GREEN = "#3b82c4", "#d9782d", "#3c9d74"
HEIGHT, ROW, AXIS = 260, 17, 45
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
        curve = pd.DataFrame(summary["binary"]["curve"]).reset_index(names="k")
        found["cost"] = _cost(summary)
        found["reliability"] = _reliability(summary)
        found["roc"] = _roc(curve)
        found["precision"] = _precision(curve)
    if summary["risk_coverage"]:
        found["risk"] = _risk(summary)
    if summary["bound_path"]:
        found["bound"] = _bound(summary)
    if summary["weights"]:
        found["weights"] = _weights(summary)
    heights = {"weights": ROW * len(summary["weights"]) + AXIS}
    return {name: _plain(chart, heights.get(name, HEIGHT)) for name, chart in found.items()}


def _plain(chart: Any, height: int) -> Chart:
    sized = chart.properties(width="container", height=height)
    return {**sized.to_dict(), "config": CONFIG}


def _steps(summary: Summary) -> pd.DataFrame:
    """Decisions at some of the slider's thresholds."""
    own = summary["binary"]
    frame = pd.DataFrame({key: own[key] for key in ("steps", "tp", "fp")})
    keep = {round(k * (len(frame) - 1) / MOST_STEPS) for k in range(MOST_STEPS + 1)}
    frame = frame.iloc[sorted(keep | {own["start"]})]
    costs, n = summary["costs"], own["positives"] + own["negatives"]
    right = frame.tp * costs[1][1] + (own["negatives"] - frame.fp) * costs[0][0]
    return frame.assign(fn=own["positives"] - frame.tp, right=right, n=n)


def _percent(name: str, title: str, domain: tuple[float, float] | None = (0, 1)) -> dict[str, Any]:
    scale = alt.Scale(domain=list(domain)) if domain else alt.Scale()
    return {"shorthand": f"{name}:Q", "title": title, "scale": scale, "axis": alt.Axis(format="%")}


def _cost(summary: Summary) -> Any:
    """Mean cost against the threshold; the costs and the threshold are signals."""
    costs, steps, at = summary["costs"], _steps(summary), summary["binary"]["threshold"]
    threshold = alt.param(name="threshold", value=at)
    fn = alt.param(name="cost_fn", value=costs[1][0])
    fp = alt.param(name="cost_fp", value=costs[0][1])
    rare = 0.0 < at < RARE
    scale = alt.Scale(type="log" if rare else "linear", domain=[steps.steps.min(), 1], nice=False)
    axis = alt.Axis(format="~g", tickCount=5) if rare else alt.Axis()
    x = alt.X("steps:Q", title="threshold", scale=scale, axis=axis)
    line = (
        alt.Chart(steps)
        .transform_calculate(
            cost="(datum.fn * cost_fn + datum.fp * cost_fp + datum.right) / datum.n"
        )
        .mark_line(color=BLUE, interpolate="step-before")
        .encode(x, alt.Y("cost:Q", title="mean cost of a decision"))
    )
    rule = (
        alt.Chart(pd.DataFrame({"k": [0]}))
        .transform_calculate(at="threshold")
        .mark_rule(color=ORANGE, strokeWidth=2)
        .encode(alt.X("at:Q"))
    )
    band = summary["binary"]["band"]
    shaded = [] if band is None else [_shaded(*band)]
    return alt.layer(*shaded, line, rule).add_params(threshold, fn, fp)


def _shaded(low: float, high: float) -> Any:
    """A range of probabilities, behind everything else."""
    return (
        alt.Chart(pd.DataFrame({"low": [low], "high": [high]}))
        .mark_rect(color=ORANGE, opacity=0.18)
        .encode(alt.X("low:Q"), alt.X2("high"))
    )


def _reliability(summary: Summary) -> Any:
    """Observed share of positives against the probability, the gray zone shaded."""
    own = summary["binary"]
    bins = pd.DataFrame(own["reliability"])
    low, high = own["zone"]
    top = 1.1 * max(high, bins.predicted.max())
    shown = (0, top if top < 0.5 else 1)  # rare events have small probabilities
    zone = _shaded(low, high)
    ideal = (
        alt.Chart(pd.DataFrame({"p": [0, 1]}))
        .mark_line(color=FAINT, strokeDash=[4, 4], clip=True)
        .encode(alt.X("p:Q"), alt.Y("p:Q"))
    )
    points = (
        alt.Chart(bins)
        .mark_line(color=BLUE, point=alt.OverlayMarkDef(color=BLUE, size=60))
        .encode(
            alt.X(**_percent("predicted", "probability", shown)),
            alt.Y(**_percent("observed", "observed share of positives")),
            tooltip=["predicted:Q", "observed:Q", "rows:Q"],
        )
    )
    return alt.layer(zone, ideal, points)


def _roc(curve: pd.DataFrame) -> Any:
    axes = (
        alt.X(**_percent("fpr", "false positive rate")),
        alt.Y(**_percent("tpr", "true positive rate")),
    )
    return _with_point(alt.Chart(curve).mark_line(color=BLUE).encode(*axes, alt.Order("k:Q")))


def _precision(curve: pd.DataFrame) -> Any:
    axes = alt.X(**_percent("tpr", "recall")), alt.Y(**_percent("precision", "precision"))
    return _with_point(alt.Chart(curve).mark_line(color=BLUE).encode(*axes, alt.Order("k:Q")))


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
        .mark_line(color=GREEN, point=alt.OverlayMarkDef(color=GREEN))
        .encode(
            alt.X("bases:Q", title="basis functions", axis=alt.Axis(tickMinStep=1)),
            alt.Y(**{**_percent("bound", "accuracy bound"), "scale": alt.Scale(zero=False)}),
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
