"""The page itself: everything inlined, everything escaped."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from grayzone.reporting.charts import charts_of
from grayzone.reporting.summary import COST

Summary = dict[str, Any]

# What the charts need of Vega, to be bundled: no address is left in the page.
_BUNDLED = "window.vegaEmbed = vegaEmbed;"
# Nothing may be fetched, whatever a column is called; `ast` below needs no eval.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_MOST_COLUMNS = 200


@functools.cache
def _vega() -> str:
    try:
        import vl_convert
    except ImportError as error:
        raise ImportError("A report needs vl_convert: pip install 'grayzone[cli]'.") from error
    return vl_convert.javascript_bundle(_BUNDLED)


def _asset(name: str) -> str:
    return files("grayzone.reporting").joinpath(name).read_text(encoding="utf-8")


def render(summary: Summary) -> str:
    """Return the page."""
    charts = charts_of(summary)
    shown = {key: summary[key] for key in ("binary", "costs")}
    data = _script_json({**shown, "charts": charts})
    body = "\n".join(_body(summary, charts))
    # `</script` inside a bundle would end it
    vega, script = (
        code.replace("</script", "<\\/script") for code in (_vega(), _asset("report.js"))
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(summary["title"])}</title>
<style>{_asset("report.css")}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script>{vega}</script>
<script>{script}</script>
</body>
</html>
"""


def _script_json(value: Any) -> str:
    """JSON that cannot end its element, nor be taken for anything else."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, default=float)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _body(summary: Summary, charts: Summary) -> Iterator[str]:
    yield '<a class="skip" href="#main">Skip to the report</a>'
    yield f"<header><h1>{escape(summary['title'])}</h1>"
    counts = ", ".join(
        f"{n:,} “{escape(label)}”"
        for label, n in zip(summary["classes"], summary["counts"], strict=True)
    )
    yield (
        f'<p class="soft">{escape(summary["model"])}. {summary["n_rows"]:,} rows that the model '
        f"had not seen: {counts}.</p></header>"
    )
    yield '<main id="main">'
    yield from _headline(summary)
    if summary["binary"] is not None:
        yield from _explorer(summary)
        yield '<div class="pair">'
        yield from _chart("Are probabilities right?", "reliability", _reliability_text(summary))
        yield from _chart("Risk against coverage", "risk", "Errors if only the surest are decided.")
        yield from _chart("ROC", "roc", "The dot is the threshold chosen above.")
        yield from _chart("Precision and recall", "precision", "The dot is the same threshold.")
        yield "</div>"
    elif "risk" in charts:
        yield from _chart("Risk against coverage", "risk", "Errors if only the surest are decided.")
    yield from _confusion(summary)
    yield from _compared(summary)
    yield from _model(summary, charts)
    yield from _columns(summary)
    yield from _usage(summary)
    yield "</main>"


def _tile(value: str, text: str, kind: str = "") -> str:
    return f'<div class="tile"><b class="{kind}">{escape(value)}</b>{escape(text)}</div>'


def _saved(mean: float, cost: float, text: str) -> str:
    """Share of a cost that is saved; of none at all nothing can be."""
    if not cost > 0:
        return _tile("–", f"{text} ({cost:.4g})")
    share = 1.0 - mean / cost
    return _tile(f"{100 * share:.0f} %", f"{text} ({cost:.4g})", "good" if share > 0 else "warn")


def _headline(summary: Summary) -> Iterator[str]:
    """What decisions cost, beside the simplest rules and logistic regression."""
    mean, error = summary["mean_cost"], summary["mean_cost_error"]
    spread = f" ± {error:.2g}" if error is not None else ""
    yield '<div class="tiles">'
    yield _tile(f"{mean:.4g}{spread}", "mean cost of a decision")
    for label, cost in zip(summary["classes"], summary["always"], strict=True):
        yield _saved(mean, cost, f"saved against always “{label}”")
    plain = [c for c in summary["compared"] if c["name"] == "logistic-regression" and c["mean"]]
    # under a limit models are compared by something else than what is shown here
    if plain and plain[0]["measure"] == COST and not plain[0]["chosen"]:
        yield _saved(mean, plain[0]["mean"], "saved against logistic regression")
    if summary["reject_cost"] is not None:
        share = 100 * summary["undecided"]
        yield _tile(f"{share:.0f} %", f"left undecided, at {summary['reject_cost']:.4g} each")
    yield "</div>"
    for note in summary["notes"]:
        yield f"<p>{escape(note)}</p>"


def _explorer(summary: Summary) -> Iterator[str]:
    """Sliders, and what decisions come to."""
    own, costs, (negative, positive) = summary["binary"], summary["costs"], summary["classes"]
    yield "<section><h2>What if the threshold or the costs were different?</h2>"
    yield '<div class="controls">'
    yield (
        '<div><label for="threshold">Threshold: <output id="threshold-value"></output></label>'
        f'<input type="range" id="threshold" min="0" max="{len(own["steps"]) - 1}" step="1" '
        f'value="{own["start"]}"></div>'
    )
    for id_, text, cost in (
        ("cost-miss", f"Cost of missing “{positive}”", costs[1][0]),
        ("cost-alarm", f"Cost of a false “{positive}”", costs[0][1]),
    ):
        yield (
            f'<div><label for="{id_}">{escape(text)}</label>'
            f'<input type="number" id="{id_}" min="0" step="any" value="{cost:.12g}"></div>'
        )
    yield '<div><button type="button" id="reset">As trained</button></div></div>'
    yield (
        '<div class="pair"><div><div class="chart" id="chart-cost" role="img" '
        'aria-label="Mean cost of a decision against the threshold"></div>'
    )
    if own["band"] is not None:
        low, high = own["band"]
        yield (
            f'<p class="soft">Shaded: thresholds of the range of costs, {low:.3g} to {high:.3g}; '
            "the costs on the right are their geometric middle.</p>"
        )
    yield "</div>"
    yield '<div class="scroll" aria-live="polite">'
    yield "<table><caption>At this threshold</caption><tbody>"
    for text, id_ in (
        ("Mean cost of a decision", "cost-value"),
        ("Saved against the better of never and always", "saved-value"),
        (f"Never “{positive}” would cost", "never-value"),
        (f"Always “{positive}” would cost", "always-value"),
        (f"“{positive}” found (recall)", "recall-value"),
        ("Right among alarms (precision)", "precision-value"),
        ("False alarm rate", "fpr-value"),
        ("Share of alarms", "alarms-value"),
        ("Bayes' threshold for these costs", "bayes-value"),
        ("Cheapest threshold on these rows", "best-value"),
    ):
        yield f'<tr><th scope="row">{escape(text)}</th><td><output id="{id_}"></output></td></tr>'
    yield "</tbody></table>"
    yield (
        "<table><caption>Decisions at this threshold</caption><thead><tr><th>true</th>"
        f"<th>{escape(negative)}</th><th>{escape(positive)}</th></tr></thead><tbody>"
    )
    for label, first, second in ((negative, "tn", "fp"), (positive, "fn", "tp")):
        yield (
            f'<tr><th scope="row">{escape(label)}</th><td><output id="{first}-value"></output></td>'
            f'<td><output id="{second}-value"></output></td></tr>'
        )
    yield "</tbody></table></div></div></section>"


def _reliability_text(summary: Summary) -> str:
    low, high = summary["binary"]["zone"]
    share = 100 * summary["binary"]["in_zone"]
    return f"Shaded: the gray zone, {low:.3g} to {high:.3g}, with {share:.0f} % of the rows."


def _chart(title: str, name: str, text: str) -> Iterator[str]:
    yield f"<section><h2>{escape(title)}</h2>"
    yield f'<div class="chart" id="chart-{name}" role="img" aria-label="{escape(title)}"></div>'
    yield f'<p class="soft">{escape(text)}</p></section>'


def _rows(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], chosen: Sequence[bool] = ()
) -> Iterator[str]:
    yield f'<div class="scroll"><table><caption>{escape(caption)}</caption><thead><tr>'
    yield "".join(f'<th scope="col">{escape(text)}</th>' for text in head) + "</tr></thead><tbody>"
    for k, row in enumerate(rows):
        kind = ' class="chosen"' if k < len(chosen) and chosen[k] else ""
        cells = "".join(f"<td>{escape(text)}</td>" for text in row)
        yield f"<tr{kind}>{cells}</tr>"
    yield "</tbody></table></div>"


def _confusion(summary: Summary) -> Iterator[str]:
    names = list(summary["classes"])
    if summary["reject_cost"] is not None:
        names.append("undecided")
    rows = [
        [label, *(f"{n:,}" for n in row)]
        for label, row in zip(summary["classes"], summary["confusion"], strict=True)
    ]
    yield "<section><h2>Decisions</h2>"
    yield from _rows("Rows by truth (down) and decision (across)", ["true", *names], rows)
    yield "</section>"


def _compared(summary: Summary) -> Iterator[str]:
    compared = summary["compared"]
    if not compared:
        return
    rows = []
    for c in compared:
        mean = "–" if c["mean"] is None else f"{c['mean']:.4g} ± {c['error']:.2g}"
        kind = "baseline" if c["baseline"] else "grayzone"
        rows.append([c["name"], kind, mean, f"{c['seconds']:.1f}", c["left_out"]])
    yield "<section><h2>Models that were compared</h2>"
    head = ("model", "kind", f"{compared[0]['measure']}, held-out", "seconds", "left out because")
    caption = "Simplest first; the simplest within one standard error of the least is chosen"
    yield from _rows(caption, head, rows, [c["chosen"] for c in compared])
    yield "</section>"


def _model(summary: Summary, charts: Summary) -> Iterator[str]:
    if summary["facts"]:
        yield f"<section><h2>The model: {escape(summary['model'])}</h2>"
        yield from _rows("As fitted", ("what", "value"), summary["facts"])
        if summary["points"]:
            rows = escape(", ".join(summary["points"]))
            yield f'<p class="soft">Training rows of the first of these points: {rows}</p>'
        yield "</section>"
    yield '<div class="pair">'
    if "weights" in charts:
        text = "Largest first, of features as the model sees them."
        yield from _chart("Feature weights", "weights", text)
    if "bound" in charts:
        yield from _chart(
            "Accuracy bound along the basis functions", "bound", "Of the training data."
        )
    yield "</div>"


def _columns(summary: Summary) -> Iterator[str]:
    columns = summary["columns"]
    if not columns:
        return
    rows = [[c["name"], c["kind"], f"{100 * c['missing']:.1f} %"] for c in columns[:_MOST_COLUMNS]]
    more = len(columns) - len(rows)
    yield "<section><h2>Data</h2>"
    caption = f"{len(columns):,} columns" + (f", the first {len(rows)}" if more else "")
    yield from _rows(caption, ("column", "kind", "missing"), rows)
    yield "</section>"


def _usage(summary: Summary) -> Iterator[str]:
    if summary["usage"]:
        yield "<section><h2>Use the model in Python</h2>"
        yield f"<pre><code>{escape(summary['usage'])}</code></pre></section>"
