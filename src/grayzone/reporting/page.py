"""The page itself: everything inlined, everything escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any

from grayzone.reporting.explorer import explorer
from grayzone.reporting.markup import as_trained, joined, many, number, out, percent, soft, tile
from grayzone.reporting.sections import details

Summary = dict[str, Any]

# Nothing may be fetched, whatever a column is called.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_STOP, _YET = "Do not deploy", "Do not deploy yet"
_UNKNOWN = (
    "These are the rows that the report was given; what they cost is what new rows like them will "
    "cost if the model was not fitted to them."
)
_LIMITS = {
    "max_fpr": ("False alarm rate", "at most"),
    "min_recall": ("Found (recall)", "at least"),
    "min_precision": ("Right among alarms (precision)", "at least"),
}
_RATES = {"max_fpr": "false_positive_rate", "min_recall": "recall", "min_precision": "precision"}


def _asset(name: str) -> str:
    text = files("grayzone.reporting").joinpath(name).read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script")  # inside a script it would end it


def render(summary: Summary) -> str:
    """Return the page."""
    body = "\n".join(_body(summary))
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
<script type="application/json" id="data">{_script_json(summary)}</script>
<script>{_asset("plot.js")}</script>
<script>{_asset("interval.js")}</script>
<script>{_asset("report.js")}</script>
</body>
</html>
"""


def _script_json(value: Any) -> str:
    """JSON that cannot end its element, nor be taken for anything else."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, default=float)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _body(summary: Summary) -> Iterator[str]:
    yield '<a class="skip" href="#main">Skip to the report</a>'
    yield f"<header><h1>{escape(summary['title'])}</h1>"
    counts = ", ".join(
        f"{many(n)} “{label}”"
        for label, n in zip(summary["classes"], summary["counts"], strict=True)
    )
    rows = f"{summary['n_rows']:,} rows"
    if summary["mass"] != summary["n_rows"]:
        rows += f", which stand for {many(summary['mass'])}"
    yield soft(f"{summary['model']}. {rows}: {counts}.") + "</header>"
    yield '<main id="main">'
    yield from _verdict(summary)
    tiles = list(_tiles(summary))
    # two even rows, where one is not enough
    yield f'<div class="tiles" style="--columns:{len(tiles) if len(tiles) < 6 else 3}">'
    yield from tiles
    yield "</div>"
    yield from _basis(summary)
    yield from explorer(summary)
    yield from details(summary)
    yield "</main>"


def _verdict(summary: Summary) -> Iterator[str]:
    """The decision in one sentence."""
    verdict = summary["verdict"]
    if verdict is None:
        return
    sentence, strong, state = verdict["sentence"], "", ""
    if not verdict["deploy"]:
        state, stop = (" check", _YET) if verdict["check"] else (" stop", _STOP)
        sentence = sentence.removeprefix(stop).lstrip(" .:,")
        sentence = sentence[:1].upper() + sentence[1:]
        strong = f"<strong>{stop}.</strong> "
    yield f'<section class="verdict{state}" aria-label="Verdict">'
    yield f"<p>{strong}{escape(sentence)}</p>{as_trained()}</section>"


def _tiles(summary: Summary) -> Iterator[str]:
    """What decisions cost, beside rules that need no model; a limit goes before."""
    yield from _limit(summary)
    promise, mass = summary["promise"], summary["mass"]
    rules = dict(enumerate(summary["always"]))
    if summary["reject_cost"] is not None:
        rules[len(summary["classes"])] = summary["reject_cost"]
    best = min(rules.values())
    saved = 1.0 - promise["cost"] / best if best > 0 else None
    yield tile(
        "Cost of a decision",
        out("cost", number(promise["cost"]), "b"),
        joined(
            "95 % interval: ",
            out("low", number(promise["low"])),
            " to ",
            out("high", number(promise["high"])),
        ),
    )
    names = [f"always “{label}”" for label in summary["classes"]]
    if len(names) == 2:
        names[0] = f"never “{summary['classes'][1]}”"
    names.append("refer everyone")
    beside: list[Any] = []
    for k, cost in rules.items():
        name, value = out(f"rule-name-{k}", names[k]), out(f"rule-{k}", number(cost))
        beside += [", " if k else "", name, " ", value]
    yield tile(
        "Saved against the best of these", out("saved", percent(saved), "b"), joined(*beside)
    )
    yield tile(
        joined("Total for ", out("cases", many(mass)), " cases"),
        out("total", many(promise["cost"] * mass), "b"),
        joined("instead of ", out("instead", many(best * mass))),
    )
    if len(summary["classes"]) == 2:
        share, positive = summary["counts"][1] / mass, summary["classes"][1]
        yield tile(
            f"Base rate of “{positive}”",
            out("base", percent(share), "b"),
            f"{many(summary['counts'][1])} of {many(mass)} rows seen",
        )
    if summary["reject_cost"] is not None:
        yield tile(
            "Left undecided",
            out("undecided", percent(summary["undecided"]), "b"),
            joined("at ", out("refer", number(summary["reject_cost"])), " each"),
        )


def _limit(summary: Summary) -> Iterator[str]:
    limit = summary["limit"]
    if limit is None:
        return
    name, side = _LIMITS[limit["kind"]]
    rates = summary["rates"]
    reached = rates[_RATES[limit["kind"]]]
    yield tile(
        f"{name}: {side} {number(100 * limit['limit'])} %",
        out("limit", percent(reached), "b"),
        out("kept"),
    )
    # what is traded for it
    positive = summary["classes"][1]
    if limit["kind"] == "min_recall":
        value = out("fpr", percent(rates["false_positive_rate"]), "b")
        yield tile(_LIMITS["max_fpr"][0], value, f"“{positive}” decided where it is not")
    else:
        value = out("recall", percent(rates["recall"]), "b")
        yield tile(_LIMITS["min_recall"][0], value, f"of all “{positive}”")


def _basis(summary: Summary) -> Iterator[str]:
    """Which rows the numbers are of, and what an interval means."""
    promise = summary["promise"]
    text = promise["how"] or _UNKNOWN
    limit = summary["limit"]
    if limit is not None:
        text += (
            f" The limit holds on new rows with a probability of {number(limit['confidence'])}: "
            f"{limit['how']} By these alone the rate is between {percent(limit['low'])} and "
            f"{percent(limit['high'])} (95 % interval)."
        )
    text += (
        " An interval of 95 % misses the mean of many new rows like these once in twenty times. It "
        "counts one error more than was seen: none on few rows does not mean that there are none."
    )
    yield soft(text)
