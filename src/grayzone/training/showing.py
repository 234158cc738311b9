"""What a decision model looks like in a terminal and in a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from grayzone.training.telling import rule_of, rule_told

_HEIGHT = 640  # pixels of the page in a notebook
_MOST = 12  # columns that are named


def described(model: Any) -> str:
    """Return a model in one line."""
    classes = ", ".join(map(repr, model.classes_.tolist()[:5])) + " …" * (len(model.classes_) > 5)
    return (
        f"DecisionModel({model.about['model']!r}, decides {model.about['target']!r}: {classes}; "
        f"{model.n_features_in_} columns, {model.about['rows']:,} rows)"
    )


def lines_of(model: Any) -> list[tuple[str, str]]:
    """Return what a reader should know of a model, as names and values."""
    names = model.schema.names
    shown = ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" * (len(names) > _MOST))
    lines = [
        ("decides", f"{model.about['target']}: {', '.join(map(str, model.classes_.tolist()))}"),
        ("model", f"{model.about['model']}, fitted to {model.about['rows']:,} rows"),
        ("columns", shown),
        ("rule", rule_told(rule_of(model))),
    ]
    promise = model.promise
    if promise is not None and model.stakes.limit is None:  # else nobody said what errors cost
        against = ", ".join(f"{rule.name} {rule.cost:.4g}" for rule in promise.rules)
        lines.append(
            (
                "a decision costs",
                f"{promise.cost:.4g} on new rows ({promise.low:.4g} to {promise.high:.4g}, with a "
                f"probability of .95); without a model: {against}",
            )
        )
    return lines


def shown(model: Any) -> str:
    """Return a model as HTML: what to know of it, and the page about it where there is one."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in lines_of(model)
    )
    table = f"<table><caption>{escape(type(model).__name__)}</caption>{rows}</table>"
    if model.report_html is None:
        return table
    # a frame of its own: styles and scripts of the page stay inside, and reach nothing outside
    return (
        f'{table}<iframe title="Report of the model" sandbox="allow-scripts" loading="lazy" '
        f'style="width:100%;height:{_HEIGHT}px;border:1px solid #8888" '
        f'srcdoc="{escape(model.report_html)}"></iframe>'
        "<p>The same page as a file: <code>model.save_report(&quot;report.html&quot;)</code></p>"
    )
