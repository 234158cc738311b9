"""What is behind the decisions: probabilities, columns, parts of the rows, models, data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from math import floor, log10
from typing import Any

from grayzone.reporting.markup import (
    Content,
    Strip,
    as_trained,
    joined,
    many,
    number,
    percent,
    plot,
    section,
    soft,
    table,
)
from grayzone.reporting.parts import COST

Summary = dict[str, Any]

_MOST_COLUMNS = 200
_MOST_EFFECTS = 12
_BEYOND = " (breaks the limit by more than chance)"
_MOST_IMPORTANT = 30
_OPTION = r"(?<![\w'-])(?:--[a-z]|[a-z_]+=['…])"


def details(summary: Summary) -> Iterator[str]:
    """All sections there is something to say in."""
    yield from _probabilities(summary)
    yield from _importance(summary)
    yield from _effects(summary)
    yield from _examples(summary)
    yield from _segments(summary)
    yield from _compared(summary)
    yield from _model(summary)
    yield from _data(summary)
    yield from _usage(summary)


def spread(value: float | None, error: float | None) -> str:
    """A number with its error, in as many digits as two of the error."""
    if value is None:
        return "–"
    if error is None or not error > 0:
        return number(value)
    digits = max(0, 1 - floor(log10(error)))  # two of the error
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def _chart(title: str, name: str, label: str, text: str) -> Iterator[str]:
    yield from section(title, plot(name, label), soft(text))


def _probabilities(summary: Summary) -> Iterator[str]:
    own = summary["binary"]
    yield '<div class="pair">'
    if own is not None:
        rows = [
            [percent(b["predicted"]), percent(b["observed"]), many(b["rows"])]
            for b in own["reliability"]
        ]
        label = "Observed share of positives against the probability, tenths of the rows"
        counts = table("Tenths of the rows", ["predicted", "observed", "rows"], rows)
        yield from section(
            "Are the probabilities right?",
            plot("reliability", label),
            soft(_reliability_text(summary)),
            f"<details><summary>The same as a table</summary>{counts}</details>",
            as_trained(),
        )
        auc = own["auc"]
        found = "" if auc is None else f"Area below (AUC): {number(auc)}, which is "
        meaning = (
            "the probability that a positive row is ranked above a negative one. " if found else ""
        )
        # rows of one probability may be decided differently then
        off = ", off the curve as rows have costs of their own" * summary["has_row_costs"]
        yield from _chart(
            "How well they rank: ROC",
            "roc",
            "True positive rate against the false alarm rate",
            f"{found}{meaning}The dot is the threshold in force{off}.",
        )
        text = "Follows the share of positives that is set above; the dot is the same threshold."
        label = "Precision against recall"
        yield from _chart("Precision and recall", "precision", label, text)
    if summary["risk_coverage"]:
        text = "Errors if only the surest rows are decided, and the others left to somebody else."
        if own is None:
            text += f" {gray_zone_text(summary['gray_zone'])}"
        yield from _chart("Risk against coverage", "risk", "Errors among decided rows", text)
    yield "</div>"


def _reliability_text(summary: Summary) -> str:
    text = (
        "Each dot is a tenth of the rows with its 95 % interval; on the line, probabilities are "
        "right. Bars: how many rows, where ties make tenths unequal."
    )
    return f"{text} {gray_zone_text(summary['gray_zone'])}"


def gray_zone_text(zone: Summary) -> str:
    """What the gray zone is, in words."""
    if zone["factor"] is None:
        why = "within the range of costs that was given"
    else:
        why = f"if one cost were {number(zone['factor'])} times what it is, beside the others"
    text = f"The gray zone: {percent(zone['share'])} of the rows would be decided otherwise {why}"
    if zone["low"] is not None:
        low, high = number(zone["low"]), number(zone["high"])
        text += f"; their probabilities are within {low} and {high} (shaded)"
    return text + "."


def _importance(summary: Summary) -> Iterator[str]:
    found = sorted(summary["importance"], key=lambda part: -part["cost"])[:_MOST_IMPORTANT]
    if found:
        of = len(summary["importance"])
        strip = Strip([(part["cost"], part["error"]) for part in found])
        rows: list[list[Content]] = [
            [
                " with ".join([part["column"], *part["together"]]),
                strip.bar(part["cost"], part["error"]),
                spread(part["cost"], part["error"]),
            ]
            for part in found
        ]
        limit = None if summary["limit"] is None else summary["limit"]["kind"]
        caption = (
            f"How much more {added(limit)} where the values of a column are shuffled, on rows that "
            "were not fitted; ± is one standard error"
        )
        if of > len(found):
            caption += f"; the {len(found)} of {of:,} that matter most"
        head = ["column", "plot", "added cost" if limit is None else "added share"]
        yield from section("Which columns matter", table(caption, head, rows), as_trained())
    if summary["weights"]:
        strip = Strip([(weight, 0.0) for _, weight in summary["weights"]])
        rows = [
            [name, strip.bar(weight, 0.0), number(weight)] for name, weight in summary["weights"]
        ]
        caption = "Largest first, of features as the model sees them"
        yield from section("Feature weights", table(caption, ["feature", "plot", "weight"], rows))


def added(limit: str | None) -> str:
    """Say what is more where a column that matters is shuffled."""
    if limit is None:
        return "a decision costs"
    wrong = "negatives are alarmed" if limit == "min_recall" else "positives are missed"
    return f"often {wrong} at the limit"


def _effects(summary: Summary) -> Iterator[str]:
    found = summary["effects"]
    if not found:
        return
    own = summary["binary"]
    what = f"“{summary['classes'][1]}”" if own is not None else "a class"
    parts = [
        soft(
            f"Mean probability of {what} where a column has a value and all else is as it is. "
            "Bars: how many rows are near. An effect in the model is not a cause in the world."
        )
    ]
    parts.append('<div class="pair">')
    for k, effect in enumerate(found[:_MOST_EFFECTS]):
        of = "" if effect["label"] is None else f" and “{effect['label']}”"
        name = effect["column"] + (f": {effect['part']}" if effect["part"] else "")
        parts.append(f"<div><h3>{escape(name + of)}</h3>")
        if effect["kind"] == "text":
            parts.append(_effect_table(effect))
        else:
            parts.append(plot(f"effect-{k}", f"Mean probability against {name}"))
        parts.append("</div>")
    yield from section("What values do", *parts, "</div>")


def _effect_table(effect: Summary) -> str:
    strip = Strip([(p, 0.0) for p in effect["probability"]])
    rows: list[list[Content]] = [
        [str(at), strip.bar(p, 0.0), percent(p), many(n)]
        for at, p, n in zip(effect["at"], effect["probability"], effect["rows"], strict=True)
    ]
    return table("Categories", ["value", "plot", "probability", "rows"], rows)


def _examples(summary: Summary) -> Iterator[str]:
    if not summary["examples"]:
        return
    rows = [
        [
            part["what"],
            part["decision"],
            f"{percent(part['probability'])} “{part['label']}”",
            "; ".join(part["reasons"]) or "–",
        ]
        for part in summary["examples"]
    ]
    caption = (
        "Some rows, and the values that moved their log-odds most: more or less than those of a "
        "typical row do"
    )
    head = ["row", "decision", "probability", "reasons"]
    yield from section("Reasons for single rows", table(caption, head, rows), as_trained())


def _segments(summary: Summary) -> Iterator[str]:
    found = summary["segments"]
    if not found:
        return
    strip = Strip([(part["cost"], part["error"]) for part in found])
    undecided = summary["reject_cost"] is not None
    head = ["segment", "rows", "base rate", "plot", "cost", "alarms", "recall", "false alarm rate"]
    rows: list[list[Content]] = [
        [
            f"{part['column']}: {part['value']}" + _BEYOND * bool(part["breaks_limit"]),
            many(part["rows"]),
            percent(part["base_rate"]),
            strip.dot(part["cost"], part["error"]),
            spread(part["cost"], part["error"]),
            percent(part["alarms"]),
            percent(part["recall"]),
            percent(part["false_positive_rate"]),
            *([percent(part["undecided"])] if undecided else []),
        ]
        for part in found
    ]
    if undecided:
        head.append("undecided")
    caption = "Decisions by parts of the rows; ± is one standard error of the cost of a decision"
    yield from section("For whom it works", table(caption, head, rows), as_trained())


def _compared(summary: Summary) -> Iterator[str]:
    there = [c for c in summary["compared"] if c["mean"] is not None]
    if len(there) == 1 and there[0]["measure"] != COST:
        there = []  # nothing to compare it with
    left = [f"{c['name']} ({c['left_out']})" for c in summary["compared"] if c["mean"] is None]
    if not there and not left:
        return
    parts = [_models(sorted(there, key=lambda c: c["mean"]))] if there else []
    if left:
        parts.append(soft(f"Left out: {'; '.join(left)}."))
    yield from section("Models that were compared", *parts, as_trained())


def _models(there: Sequence[Summary]) -> str:
    """A plot of paired differences, or of means where nothing is paired.

    Shares at a limit are differences only: the models are cut where these rows just meet it, which
    is not where the kept one is, and a second recall beside that of its decisions would mislead.
    """
    paired = any(c["difference"] is not None for c in there)
    of, error_of = ("difference", "difference_error") if paired else ("mean", "error")
    measure = there[0]["measure"]
    absolute = measure == COST
    values = [(c[of] or 0.0, c[error_of] or 0.0) for c in there]
    strip = Strip(values)
    rows: list[list[Content]] = []
    for c, (value, error) in zip(there, values, strict=True):
        beyond = "kept" if c["chosen"] else spread(c["difference"], c["difference_error"])
        kind = joined(c["name"], " (baseline)" if c["baseline"] else "")
        row: list[Content] = [kind, strip.dot(value, error), *([beyond] if paired else [])]
        if absolute:
            row.append(number(c["mean"]) + (f" ± {c['error']:.2g}" if c["error"] else ""))
        rows.append([*row, _seconds(c["seconds"])])
    head = ["model", "plot", *(["beyond the kept one"] if paired else [])]
    head += [*([measure] if absolute else []), "seconds"]
    caption = f"By {measure} on rows that were not fitted; ± is one standard error"
    if paired:
        caption += ", of differences on the same rows in the plot"
    if not absolute:
        caption += ". All are cut where these rows just meet the limit, without a margin"
    if any(c["seconds"] is None for c in there):
        caption += ". –: part of the ensemble, or nothing to fit"
    return table(caption, head, rows, [c["chosen"] for c in there])


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2g}" if value < 1.0 else f"{value:.1f}"


def _model(summary: Summary) -> Iterator[str]:
    parts = []
    if summary["facts"]:
        parts.append(table("As fitted", ["what", "value"], summary["facts"]))
    if summary["points"]:
        rows = ", ".join(summary["points"])
        parts.append(soft(f"Training rows of the first of these points: {rows}"))
    if summary["bound_path"]:
        label = "Accuracy bound along the basis functions"
        parts += [plot("bound", label), soft(f"{label}, of the training data.")]
    if parts:
        yield from section(f"The model: {summary['model']}", *parts)


def without_options(text: str) -> str:
    """Leave out advice for a command line: whoever reads a page need not have one.

    Examples
    --------
    >>> without_options("The positive class is 'yes' (by its name; --positive chooses another).")
    "The positive class is 'yes' (by its name)."
    >>> without_options("Is it known when the decision is made? If not, --drop it.")
    'Is it known when the decision is made?'
    """
    kept = re.sub(rf"[ ;,]*(?<=[ ;,(]){_OPTION}[^()]*(?=\))", "", text)
    kept = re.sub(r" ?\(\)", "", kept)
    parts = [part for part in re.split(r"(?<=[.?!;:]) ", kept) if not re.search(_OPTION, part)]
    kept = " ".join(parts).rstrip(" ;:,")
    if not kept:
        return text
    return kept if kept[-1] in ".?!" else f"{kept}."


def _data(summary: Summary) -> Iterator[str]:
    columns, findings, notes = (summary[key] for key in ("columns", "findings", "notes"))
    parts = []
    if findings:
        items = "".join(
            f'<li class="{"warn" if part["serious"] else ""}"><b>{escape(part["kind"])}</b>: '
            f"{escape(without_options(part['text']))}</li>"
            for part in sorted(findings, key=lambda part: not part["serious"])
        )
        parts.append(f"<h3>Findings</h3><ul>{items}</ul>")
    if notes:
        items = "".join(f"<li>{escape(without_options(note))}</li>" for note in notes)
        parts.append(f"<h3>Notes</h3><ul>{items}</ul>")
    if columns:
        shown = columns[:_MOST_COLUMNS]
        caption = f"{len(columns):,} columns" + (
            f", the first {len(shown)}" if len(columns) > len(shown) else ""
        )
        rows = [[c["name"], c["kind"], percent(c["missing"])] for c in shown]
        parts.append(table(caption, ["column", "kind", "missing"], rows))
    if parts:
        yield from section("Data", *parts)


def _usage(summary: Summary) -> Iterator[str]:
    if summary["usage"]:
        code = f"<pre><code>{escape(summary['usage'])}</code></pre>"
        yield from section("Use the model in Python", code)
    own = summary["binary"]
    save = '<button type="button" id="save-json">All numbers (JSON)</button> '
    if own is not None and own["steps"] is not None:
        text = "Every threshold, with these settings (CSV)"
        save += f'<button type="button" id="save-csv">{text}</button>'
    text = soft("Made from what this page holds; nothing is sent anywhere.")
    yield from section("Save the numbers", f"<p>{save}</p>", text, kind="export")
