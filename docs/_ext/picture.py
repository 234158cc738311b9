"""The picture of the landing page: ``python docs/_ext/picture.py docs/images/gain.svg``.

Two panels: where decisions are made (a drawing), and what decisions cost (benchmarks/RESULTS.json).
The site has them in its pages, where colours follow its switch of light and dark; the file follows
the reader's own setting.
"""

import json
import math
import sys
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "RESULTS.json"
WIDTH, HEIGHT = 430, 318
# Bars, in this order: what RESULTS.json calls them, and how they are told.
BARS = {
    "boosting, calibrated": "boosted trees, calibrated",
    "forest, calibrated": "random forest, calibrated",
    "logistic regression": "logistic regression",
    "forest, out of bag": "random forest, out of bag",
    "FLAML, 60 s": "FLAML, 60 seconds",
    "train": "grayzone train",
}
COLOURS = """
.ink { fill: var(--gz-ink, #1f2328) } .dim { fill: var(--gz-dim, #59636e) }
.line { stroke: var(--gz-dim, #59636e); fill: none }
.no { stroke: var(--gz-no, #0a6aa1); fill: var(--gz-no, #0a6aa1) }
.yes { stroke: var(--gz-yes, #b54708); fill: var(--gz-yes, #b54708) }
.band { fill: var(--gz-band, #8a919966) } .bar { fill: var(--gz-bar, #b6bcc4) }
.ours { fill: var(--gz-ours, #0a6aa1) }
text, text.no, text.yes { font-family: system-ui, sans-serif; font-size: 14px; stroke: none }
text.small { font-size: 13px } text.bold { font-weight: 650 }
"""
DARK = """
@media (prefers-color-scheme: dark) { svg {
  --gz-ink: #e6edf3; --gz-dim: #9aa4af; --gz-no: #6cb8ea; --gz-yes: #f0a35e;
  --gz-band: #8a919980; --gz-bar: #59636e; --gz-ours: #6cb8ea } }
"""


def label(x, y, text, kind="ink", anchor="start"):
    """Return a text."""
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{text}</text>'


def framed(name, title, described, parts):
    """Return a panel with its name for those who do not see it."""
    head = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{name}-t {name}-d"'
        f' xmlns="http://www.w3.org/2000/svg"><title id="{name}-t">{title}</title>'
        f'<desc id="{name}-d">{described}</desc>'
    )
    return head + label(0, 18, title, "ink bold") + "".join(parts) + "</svg>"


def where_decisions_are_made():
    """Return the drawing of two classes along the log-odds, with costs of five to one."""
    left, right, ground, top = 8.0, WIDTH - 8.0, 238.0, 62.0
    low, high = -6.5, 5.0

    def across(odds):
        return left + (right - left) * (odds - low) / (high - low)

    def curve(centre, width, share, kind):
        xs = [low + (high - low) * i / 120 for i in range(121)]
        ys = [share * math.exp(-0.5 * ((x - centre) / width) ** 2) for x in xs]
        points = [
            f"{across(x):.1f},{ground - (ground - top) * y:.1f}"
            for x, y in zip(xs, ys, strict=True)
        ]
        ends = f"{across(low):.1f},{ground} " + " ".join(points) + f" {across(high):.1f},{ground}"
        return (
            f'<polygon class="{kind}" points="{ends}" style="stroke:none;opacity:.22"/>'
            f'<polyline class="{kind}" points="{" ".join(points)}"'
            ' style="fill:none" stroke-width="2"/>'
        )

    cut = math.log(1 / 5)
    start, end = across(cut - 1), across(cut + 1)
    parts = [
        f'<rect class="band" x="{start:.1f}" y="{top - 8:.0f}" width="{end - start:.1f}"'
        f' height="{ground - top + 8:.0f}"/>',
        curve(-3.4, 1.45, 0.9, "no"),
        curve(0.9, 1.7, 0.52, "yes"),
        f'<line class="line" x1="{left}" x2="{right}" y1="{ground}" y2="{ground}"/>',
        f'<line x1="{across(cut):.1f}" x2="{across(cut):.1f}" y1="{top - 8:.0f}"'
        f' y2="{ground + 6:.0f}"'
        ' style="stroke:var(--gz-ink,#1f2328)" stroke-width="2"/>',
        f'<line class="line" x1="{across(0):.1f}" x2="{across(0):.1f}" y1="{top + 30:.0f}"'
        f' y2="{ground + 6:.0f}" stroke-dasharray="4 4"/>',
        label((start + end) / 2, 44, "the gray zone", "ink bold", "middle"),
        label(left, ground + 46, "← pass", "no bold"),
        label(right, ground + 46, "stop →", "yes bold", "end"),
        label(across(-6.0), top + 22, "honest", "no"),
        label(across(1.9), top + 76, "fraud", "yes"),
    ]
    for chance in (0.01, 1 / 6, 0.5, 0.9):
        odds = math.log(chance / (1 - chance))
        kind = "ink bold" if chance == 1 / 6 else "dim small"
        parts.append(label(across(odds), ground + 22, f"{100 * chance:.0f} %", kind, "middle"))
    parts.append(label(WIDTH / 2, ground + 46, "estimated probability", "dim small", "middle"))
    parts.append(
        label(
            0,
            ground + 74,
            "A missed fraud costs 5, a false alarm 1: stop from 1/6 on, not ½.",
            "dim small",
        )
    )
    described = (
        "Two bell curves over the estimated probability of fraud. With costs of five to one the "
        "threshold is at 17 per cent; a gray band around it is where the fit is accurate."
    )
    return framed("gz-where", "Accurate where the decision is made", described, parts)


def what_decisions_cost(results):
    """Return bars of the mean cost on tables that nothing was chosen on."""
    (table,) = [
        t
        for t in results["entries"]["train"]["report"]["tables"]
        if t["title"].startswith("12 tables: cost of decisions")
    ]
    mean = table["columns"].index("mean")
    costs = {row[0]: float(row[mean]) for row in table["rows"] if row[0] in BARS}
    start, scale, step = 186.0, 190.0, 33.0
    bars = {"always the cheaper answer": 1.0, **{BARS[name]: costs[name] for name in BARS}}
    parts = []
    for place, (name, cost) in enumerate(bars.items()):
        y = 44 + step * place
        ours = name == BARS["train"]
        parts += [
            label(start - 8, y + 16, name, "ink bold" if ours else "ink small", "end"),
            f'<rect class="{"ours" if ours else "bar"}" x="{start}" y="{y:.0f}" height="22" rx="2"'
            f' width="{scale * cost:.1f}"/>',
            label(
                start + scale * cost + 6, y + 16, f"{cost:.3f}"[: 5 if cost < 1 else 4], "ink bold"
            ),
        ]
    parts.append(
        label(
            0,
            44 + step * len(bars) + 14,
            "Mean over 12 public tables and costs 1:1, 5:1, 20:1, rows kept",
            "dim small",
        )
    )
    parts.append(
        label(
            0,
            44 + step * len(bars) + 32,
            "back; all decide by the costs. Always the cheaper answer = 1.",
            "dim small",
        )
    )
    told = ", ".join(f"{name} {cost:.3f}" for name, cost in bars.items())
    return framed("gz-cost", "What the decisions cost", f"Bars of mean costs: {told}.", parts)


def panels(results):
    """Return the two panels, for a page that has the colours."""
    style = f"<style>.gain-picture {{ {COLOURS} }}</style>"
    return where_decisions_are_made().replace("<title", f"{style}<title", 1), what_decisions_cost(
        results
    )


def whole(results):
    """Return both panels side by side, as a file of its own."""
    inner = []
    for place, panel in enumerate((where_decisions_are_made(), what_decisions_cost(results))):
        x = place * (WIDTH + 40) + 10
        inner.append(
            panel.replace("<svg ", f'<svg x="{x}" y="6" width="{WIDTH}" height="{HEIGHT}" ', 1)
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH + 60} {HEIGHT + 16}">'
        f"<style>{COLOURS}{DARK}</style>{''.join(inner)}</svg>\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(whole(json.loads(RESULTS.read_text("utf-8"))), "utf-8")
