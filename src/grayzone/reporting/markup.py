"""Pieces of a page. Whatever comes from outside is escaped here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite


@dataclass(frozen=True)
class Html:
    """Text that is markup already."""

    text: str


Content = str | Html
_NARROW = 4  # columns that a phone has room for
_SHORT = 20  # letters
_NOTHING = 1e-6  # percent


def html(content: Content) -> str:
    """Return markup; texts are escaped."""
    return content.text if isinstance(content, Html) else escape(content)


def joined(*contents: Content) -> Html:
    """Return several as one."""
    return Html("".join(map(html, contents)))


def out(name: str, text: str = "–", tag: str = "span") -> Html:
    """A number that follows the sliders."""
    return Html(f'<{tag} data-out="{name}">{escape(text)}</{tag}>')


def number(x: float | None) -> str:
    """Four digits, as the script writes them."""
    if x is None or not isfinite(x):
        return "–"
    return f"{float(f'{x:.4g}'):.15g}"


def percent(x: float | None) -> str:
    """A share with one digit; rare things have small ones, with two that count."""
    if x is None or not isfinite(x):
        return "–"
    share = 100 * x
    if abs(share) < _NOTHING:
        return "0.0 %"
    return f"{share:.1f} %" if abs(share) >= 1 else f"{float(f'{share:.2g}'):.15g} %"


def many(x: float) -> str:
    """A count, or a sum."""
    return f"{x:,.0f}" if abs(x) >= 100 or x == round(x) else f"{x:,.1f}"


def tile(heading: Content, value: Html, text: Content) -> str:
    """One number with what it is and what it is to be seen beside."""
    return (
        f'<div class="tile"><h3>{html(heading)}</h3>{value.text}<small>{html(text)}</small></div>'
    )


def section(title: str, *parts: str, kind: str = "") -> Iterator[str]:
    """A part of the page."""
    yield f'<section class="{kind}"><h2>{escape(title)}</h2>'
    yield from parts
    yield "</section>"


def soft(text: Content) -> str:
    """A remark."""
    return f'<p class="soft">{html(text)}</p>'


def as_trained() -> str:
    """What is said, once sliders moved, of numbers that they cannot reach."""
    return (
        '<p class="soft as-trained" hidden>These numbers are for costs, shares and thresholds as '
        "trained; the settings above do not change them.</p>"
    )


def plot(name: str, label: str) -> str:
    """A place for a chart."""
    return f'<div class="plot" id="plot-{name}" role="img" aria-label="{escape(label)}"></div>'


def _kind(content: Content) -> str:
    """Numbers stay on one line; what is longer may be broken anywhere."""
    return "short" if isinstance(content, str) and len(content) <= _SHORT else "long"


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Content]],
    chosen: Sequence[bool] = (),
) -> str:
    """Rows under a heading; on a phone each row of a wide one is a small list of its own."""
    wide = "stack" if len(head) > _NARROW else "plain"
    parts = [f'<table class="{wide}" role="table"><caption>{escape(caption)}</caption>']
    cells = "".join(f'<th scope="col" role="columnheader">{escape(text)}</th>' for text in head)
    parts.append(f'<thead role="rowgroup"><tr role="row">{cells}</tr></thead>')
    parts.append('<tbody role="rowgroup">')
    for k, (first, *rest) in enumerate(rows):
        kind = ' class="chosen"' if k < len(chosen) and chosen[k] else ""
        cells = "".join(
            f'<td role="cell" class="{_kind(content)}" data-label="{escape(name)}">'
            f"{html(content)}</td>"
            for name, content in zip(head[1:], rest, strict=True)
        )
        first = f'<th scope="row" role="rowheader">{html(first)}</th>'
        parts.append(f'<tr role="row"{kind}>{first}{cells}</tr>')
    return "".join([*parts, "</tbody></table>"])


class Strip:
    """A scale for small bars and dots in a table, drawn without a script."""

    def __init__(self, values: Sequence[tuple[float, float]]) -> None:
        self.low = min([0.0, *(value - error for value, error in values)])
        self.wide = max([0.0, *(value + error for value, error in values)]) - self.low or 1.0

    def _at(self, value: float) -> float:
        return 1.0 + 98.0 * (value - self.low) / self.wide

    def dot(self, value: float, error: float) -> Html:
        """A dot with its standard error to both sides."""
        return self._drawn(f'<i class="dot" style="left:{self._at(value):.2f}%"></i>', value, error)

    def bar(self, value: float, error: float) -> Html:
        """A bar from zero with its standard error to both sides."""
        left, right = sorted((self._at(0.0), self._at(value)))
        bar = f'<i class="bar" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>'
        return self._drawn(bar, value, error)

    def _drawn(self, mark: str, value: float, error: float) -> Html:
        left, right = self._at(value - error), self._at(value + error)
        zero = f'<i class="zero" style="left:{self._at(0.0):.2f}%"></i>'
        whisker = f'<i class="whisker" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>'
        return Html(f'<div class="strip" aria-hidden="true">{zero}{mark}{whisker}</div>')
