"""The figures of the pages in docs/moving, taken from RESULTS.json so that they cannot drift.

A page has marks, ``<!-- figures: NAME -->`` and ``<!-- end of figures -->``; what is between them
is made of recorded tables by `python -m benchmarks results`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.moving_contenders import (
    ADVISED,
    BAYES,
    LEAVING,
    NO_ZONE,
    PLAIN,
    SEARCH,
    ZONE,
)
from benchmarks.report import replace_text

PAGES = Path(__file__).resolve().parents[1] / "docs" / "moving"
BLOCK = re.compile(r"(<!-- figures: ([a-z-]+) -->\n)(.*?)(<!-- end of figures -->)", re.DOTALL)

Record = dict[str, Any]


@dataclass(frozen=True)
class Extract:
    """Part of a recorded table.

    Parameters
    ----------
    entry : str
        Name of the benchmark.
    title : str
        How the table's title begins.
    rows : tuple of str
        First cells of the rows, in this order; all by default.
    columns : tuple of str
        Heads of the columns, in this order; all by default.
    """

    entry: str
    title: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def lines(self, results: Record) -> list[str]:
        """Return it as a table of Markdown, its title above; nothing if it was not recorded."""
        tables = results["entries"].get(self.entry, {}).get("report", {}).get("tables", [])
        table = next((t for t in tables if t["title"].startswith(self.title)), None)
        if table is None:
            return []
        heads = list(table["columns"])
        chosen = [0, *(heads.index(c) for c in self.columns or heads[1:])]
        by_name = {row[0]: row for row in table["rows"]}
        rows = [by_name[name] for name in self.rows or by_name]
        return [
            f"*{table['title']}.*",
            "",
            _row(heads[k] for k in chosen),
            _row(["---", *["---:"] * (len(chosen) - 1)]),
            *(_row([_code(row[0]), *(row[k] for k in chosen[1:])]) for row in rows),
        ]


def _row(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _code(name: str) -> str:
    """Set what is code in type of its own: a call, and what follows it is not."""
    found = re.match(r"^(.*[\])])(( \+ threshold|, [a-z ]+)?)$", name)
    return f"`{found[1]}`{found[2]}" if found else name


KERNELS = (LEAVING, ADVISED, "CalibratedClassifierCV(SVC())", "SVC(class_weight=costs)")
QUALITY = ("cost, 1:1", "cost, 5:1", "log-loss", "zone log-loss", "accuracy, %")
PRICE = ("rows in the model, %", "fit, ms", "predict, µs a row")
GAPS = ("cost, 1:1, %", "cost, 5:1, %", "log-loss, 5:1", "zone log-loss, 5:1")
COSTS = ("cost, 1:1", "cost, 5:1", "difference, 1:1, %", "difference, 5:1, %")
LOSS = ("log-loss, difference", "fit, ms")
SEARCHED = "Kernels, C by the cross-validation of SVC"
SAMPLERS = tuple(
    f"{sampler} + LogisticRegression(){how}"
    for sampler in ("SMOTE", "RandomUnderSampler")
    for how in ("", " + threshold", ", resampled to the costs")
)
EXTRACTS = {
    "svc-quality": Extract("moving", "Kernels, C = 1: means", columns=QUALITY),
    "svc-price": Extract("moving", "Kernels, C = 1: means", columns=PRICE),
    "svc-difference": Extract(
        "moving", "Kernels, C = 1: difference", (*KERNELS[1:], ZONE, NO_ZONE), GAPS
    ),
    "svc-searched": Extract(
        "moving", f"{SEARCHED}: difference", (*KERNELS[1:], ZONE, NO_ZONE), GAPS
    ),
    "svc-sets": Extract("moving", "Kernels, C = 1: each set"),
    "calibrated-svc": Extract(
        "moving", "Kernels, C = 1: means", (*KERNELS[:3], ZONE, NO_ZONE), (*QUALITY[:4], "fit, ms")
    ),
    "logistic-regression": Extract(
        "moving",
        "Linear models",
        (
            "LogisticRegression()",
            PLAIN,
            "LogisticRegression(class_weight=costs)",
            "LogisticRegressionCV() + threshold",
            BAYES,
            SEARCH,
        ),
        (*COSTS, "fit, ms"),
    ),
    "calibrated": Extract(
        "moving",
        "Linear models",
        (
            PLAIN,
            "CalibratedClassifierCV(LogisticRegression()) + threshold",
            'CalibratedClassifierCV(…, method="isotonic") + threshold',
            BAYES,
            SEARCH,
        ),
        (*COSTS[2:], *LOSS),
    ),
    "tuned-threshold": Extract(
        "moving",
        "Linear models",
        (PLAIN, "TunedThresholdClassifierCV(LogisticRegression())", BAYES, SEARCH),
        (*COSTS, "fit, ms"),
    ),
    "limits": Extract("moving", "Limits"),
    "resampling": Extract(
        "moving",
        "Linear models",
        (
            "LogisticRegression()",
            *SAMPLERS,
            "LogisticRegression(class_weight=costs)",
            BAYES,
            SEARCH,
        ),
        ("difference, 1:1, %", "difference, 5:1, %", "difference, balanced, %", LOSS[0]),
    ),
    "empulse": Extract("example-costs", "% more than logistic regression, other sets"),
}


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the names of a page's blocks, and what is between their marks."""
    return [(name, inside) for _, name, inside, _ in BLOCK.findall(text)]


def written(name: str, results: Record) -> str:
    """Return what belongs between the marks of a block; nothing if it was not recorded."""
    lines = EXTRACTS[name].lines(results)
    return "\n".join(["", *lines, "", ""]) if lines else ""


def update_pages(results: Record, pages: Sequence[Path] | None = None) -> None:
    """Put the figures between the marks of all pages; what was not recorded stays."""
    for page in sorted(PAGES.glob("*.md")) if pages is None else pages:
        text = page.read_text("utf-8")
        fresh = BLOCK.sub(lambda m: m[1] + (written(m[2], results) or m[3]) + m[4], text)
        if fresh != text:
            replace_text(page, fresh)
