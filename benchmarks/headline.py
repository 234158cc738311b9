"""The figures of the project's README, taken from RESULTS.json so that they cannot drift."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import replace_text

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN, END = "<!-- figures: python -m benchmarks results -->", "<!-- end of figures -->"

Record = dict[str, Any]


class Line(NamedTuple):
    """A row: what it is about, the measures it needs, and how they are told."""

    what: str
    needs: tuple[tuple[str, str], ...]
    tell: Callable[..., str]


NARROW = "zone 7.8–10.0 %"
LINES = (
    Line(
        "Hérault & Grandvalet's Table 2, narrowest zone",
        (("truncated-table2", f"loss, {NARROW}"), ("truncated-table2", f"support, {NARROW}")),
        lambda loss, support: (
            f"mean loss {loss:.2f}·10⁻² with {support:.1f} % of the rows (paper: 1.78, 27.9 %)"
        ),
    ),
    Line(
        "Linear fit, 581,012 × 54, relative error 10⁻⁹",
        (("linear", "covertype: fastest peer / ours, zone 0–1"),),
        lambda ratio: (
            f"{ratio:.1f} times as fast as the fastest of scikit-learn, LIBLINEAR and glum"
        ),
    ),
    Line(
        "RBF kernel, 10,000 rows of covertype",
        (("kernel", "covtype, 10,000 rows: calibrated SVC / ours"),),
        lambda ratio: f"{ratio:.1f} times as fast as a calibrated `SVC`",
    ),
    Line(
        "Kernel probabilities for one row, beside a calibrated `SVC`",
        (("latency", "calibrated SVC / import vector machine, 1 rows"),),
        lambda ratio: f"the import vector machine is {ratio:.1f} times as quick",
    ),
    Line(
        "Le Roux's Table 1, covertype, test error",
        (
            ("tight-bound-tables", "error, covtype, T = 1"),
            ("tight-bound-tables", "error, covtype, T = 10"),
        ),
        lambda one, ten: f"{one:.2f} % with the log-loss, {ten:.2f} % with ten bounds",
    ),
    Line(
        "True positives at a limited false positive rate, beside log-loss + threshold",
        (("rate-limits", "gain in TPR"),),
        lambda gain: f"{100 * gain:+.1f} points, mean of three unbalanced sets",
    ),
)


def headline(results: Record) -> list[str]:
    """Return the rows for which everything was measured, as a table."""
    rows = ["| | |", "| --- | --- |"]
    for line in LINES:
        found = [_value(results, entry, name) for entry, name in line.needs]
        if None not in found:
            rows.append(f"| {line.what} | {line.tell(*found)} |")
    return rows


def _value(results: Record, entry: str, name: str) -> float | None:
    measures = results["entries"].get(entry, {}).get("report", {}).get("measures", {})
    return measures[name]["value"] if name in measures else None


def block(text: str) -> str:
    """Return what is between the marks of a text."""
    return text.split(BEGIN, 1)[1].split(END, 1)[0].strip("\n")


def update_readme(results: Record, path: Path = README) -> None:
    """Put the figures between the marks of the README."""
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        return
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    table = "\n".join(headline(results))
    replace_text(path, f"{before}{BEGIN}\n{table}\n{END}{after}")
