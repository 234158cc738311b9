"""Sliders, and what decisions come to with them."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from grayzone.reporting.markup import Content, html, joined, many, number, out, plot, soft, table

Summary = dict[str, Any]

_MOST_CLASSES = 12  # that have a field for their costs
_MANY = 8  # decisions that a desk has room for beside each other
_WIDE = 20.0  # how many times as much, or as little, a slider reaches


def explorer(summary: Summary) -> Iterator[str]:
    """What would be if the costs, the threshold, the cases were different."""
    cut = summary["binary"] is not None and summary["binary"]["steps"] is not None
    yield '<section><h2>What if?</h2><p id="now" role="status" data-out="sentence"></p>'
    text = "All numbers above and in this box follow the settings; “as trained” takes them back."
    if not cut:
        text += " Decisions stay as they were made; what they come to follows."
    yield soft(text)
    yield '<div class="explorer"><fieldset class="controls">'
    yield "<legend>Settings</legend>"
    yield from _settings(summary, cut)
    if cut:
        yield from _cuts(summary)
    yield '<button type="button" id="reset">As trained</button></fieldset><div>'
    if cut:
        yield plot("cost", "Cost of a decision against the threshold, with its 95 % interval")
        yield soft(_legend(summary))
    yield '<div class="pair">'
    if len(summary["classes"]) == 2:
        yield _rates(summary, cut)
    yield _confusion(summary)
    yield "</div></div></div></section>"


def _field(id_: str, label: str, value: str, reach: tuple[float, float], scale: str = "log") -> str:
    """A number with a slider beside it."""
    low, high = reach
    name = escape(label)
    return (
        f'<div class="control"><label for="{id_}">{name}</label>'
        f'<input type="number" id="{id_}" min="0" step="any" value="{value}">'
        f'<input type="range" data-of="{id_}" min="0" max="1000" step="1" data-low="{low:.6g}" '
        f'data-high="{high:.6g}" data-scale="{scale}" aria-label="{name}, slider"></div>'
    )


def _around(value: float) -> tuple[float, float]:
    return (value / _WIDE, value * _WIDE) if value > 0 else (1.0 / _WIDE, _WIDE)


def _settings(summary: Summary, cut: bool) -> Iterator[str]:
    classes, mass = summary["classes"], summary["mass"]
    yield _field("cases", "Cases, for instance a day", f"{mass:.0f}", (1.0, max(100 * mass, 10.0)))
    if cut:
        yield _field("capacity", "We can look at (cases)", "", (0.0, mass), "linear")
    if len(classes) == 2:
        yield from _binary_costs(summary)
    elif len(classes) <= _MOST_CLASSES:
        for k, label in enumerate(classes):
            text = f"Errors about “{label}” cost, times as much"
            yield _field(f"cost-{k}", text, "1", _around(1.0))
    if summary["reject_cost"] is not None:
        cost = summary["reject_cost"]
        yield _field("cost-undecided", "Cost of staying undecided", f"{cost:.12g}", _around(cost))


def _binary_costs(summary: Summary) -> Iterator[str]:
    share, positive = summary["counts"][1] / summary["mass"], summary["classes"][1]
    if 0 < share < 1:
        reach = 100 * min(share / 10, 0.5), 100 * max(1 - (1 - share) / 10, 0.5)
        text = f"Share of “{positive}” in %"
        yield _field("share", text, f"{100 * share:.6g}", reach, "odds")
    if summary["has_row_costs"]:
        for k, text in ((1, f"Missing “{positive}”"), (0, f"A false “{positive}”")):
            yield _field(f"cost-{k}", f"{text} costs, times as much", "1", _around(1.0))
    else:
        costs = summary["costs"]
        for k, text in ((1, f"Cost of missing “{positive}”"), (0, f"Cost of a false “{positive}”")):
            yield _field(f"cost-{k}", text, f"{costs[k][1 - k]:.12g}", _around(costs[k][1 - k]))


def _cuts(summary: Summary) -> Iterator[str]:
    own, (negative, positive) = summary["binary"], summary["classes"]
    options = "".join(
        f'<option value="{value}">{text}</option>'
        for value, text in (
            ("hand", "as trained, or by hand"),
            ("costs", "by these costs (Bayes' rule)"),
            ("cheapest", "cheapest on these rows"),
            ("capacity", "cheapest within what we can look at"),
        )
    )
    yield (
        '<div class="control"><label for="how">How the threshold is set</label>'
        f'<select id="how">{options}</select></div>'
    )
    cuts = [("high", f"“{positive}” from this probability on", own["start"][1])]
    if summary["reject_cost"] is not None:
        cuts.insert(0, ("low", f"“{negative}” below this probability", own["start"][0]))
    if summary["has_row_costs"]:
        cuts = [(id_, "Threshold, relative to each row's own (.5)", at) for id_, _, at in cuts]
    for id_, text, at in cuts:
        yield (
            f'<div class="control"><label for="cut-{id_}">{escape(text)}</label>'
            f"{out(f'cut-{id_}').text}"
            f'<input type="range" id="cut-{id_}" min="0" max="{len(own["steps"]) - 1}" step="1" '
            f'value="{at}"></div>'
        )


def _legend(summary: Summary) -> str:
    text = (
        "Vertical: the threshold in force. Dot: the cheapest on these rows. Band: 95 % interval. "
        "Zoomed on what is cheaper than the best rule without a model (dashed)."
    )
    if summary["reject_cost"] is not None:
        text += " Solid: the upper threshold moves; dashed: the lower one does."
    band = summary["binary"]["band"]
    if band is not None:
        text += (
            f" Shaded: thresholds of the range of costs, {number(band[0])} to {number(band[1])}; "
            "the costs of the settings are their geometric middle."
        )
    return text


def _rates(summary: Summary, cut: bool) -> str:
    positive = summary["classes"][1]
    rows: list[tuple[str, Content]] = [
        ("Cost of a decision", out("cost")),
        (f"“{positive}” found (recall)", out("recall")),
        ("Right among alarms (precision)", out("precision")),
        ("False alarm rate", out("fpr")),
        (f"Decided “{positive}” (alarms)", out("alarms")),
    ]
    if summary["reject_cost"] is not None:
        rows.append(("Left undecided", out("undecided")))
    if cut:
        looked = joined(out("looked"), " cases, ", out("room"))
        rows += [
            ("To be looked at (alarms and undecided)", looked),
            ("Threshold of these costs", out("bayes")),
            ("Cheapest threshold on these rows", out("cheapest")),
            ("Cost there (flatters: chosen on them)", out("cheapest-cost")),
        ]
    body = "".join(
        f'<tr><th scope="row">{escape(text)}</th><td>{html(value)}</td></tr>'
        for text, value in rows
    )
    return f"<table><caption>With these settings</caption><tbody>{body}</tbody></table>"


def _confusion(summary: Summary) -> str:
    """Cases by truth and decision; the one such table."""
    names = [*summary["classes"], "undecided"][: len(summary["confusion"][0])]
    rows = [
        [label, *(out(f"cell-{k}-{j}", many(n)) for j, n in enumerate(row))]
        for k, (label, row) in enumerate(zip(summary["classes"], summary["confusion"], strict=True))
    ]
    cases = table("Cases by truth (down) and decision (across)", ["true", *names], rows)
    wide = ' tabindex="0" role="region" aria-label="Decisions"' if len(names) > _MANY else ""
    return f'<div class="labels"{wide}>{cases}</div>'
