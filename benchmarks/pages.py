"""The figures of the pages in docs/moving, taken from RESULTS.json so that they cannot drift.

A page has marks, ``<!-- figures: NAME -->`` and ``<!-- end of figures -->``; what is between them
is made of recorded tables by `python -m benchmarks results`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.moving_contenders import (
    ADVISED,
    BAYES,
    FOLDS_LIMIT,
    HELD_OUT_LIMIT,
    LEAVING,
    NO_ZONE,
    OWN,
    PLAIN,
    SEARCH,
    TENFOLD,
    TUNED_LIMIT,
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
            *(
                _row([SHORT.get(row[0], row[0]), *(_tight(row[k]) for k in chosen[1:])])
                for row in rows
            ),
        ]


def _tight(cell: str) -> str:
    """Let a line break only before the parenthesis that counts sets."""
    return cell.replace(" ± ", "\u202f±\u202f").replace(" / ", "/")


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


# Shorter names for narrow columns; what is not here has its own.
SHORT = {
    LEAVING: "`SVC(probability=True)`",
    ADVISED: "calibrated `SVC`, as advised",
    "CalibratedClassifierCV(SVC())": "calibrated `SVC`, an ensemble",
    "SVC(class_weight=costs)": "`SVC(class_weight=…)`",
    ZONE: "ours, zone",
    NO_ZONE: "ours, `zone=None`",
    ZONE + TENFOLD: "ours, zone, 10 C",
    NO_ZONE + TENFOLD: "ours, `zone=None`, 10 C",
    ZONE + OWN: "ours, zone, its own C",
    NO_ZONE + OWN: "ours, `zone=None`, its own C",
    "LogisticRegression()": "at one half",
    PLAIN: "at the threshold",
    "LogisticRegression(class_weight=costs)": "costs as class weights",
    "LogisticRegressionCV() + threshold": "C searched, at the threshold",
    "CalibratedClassifierCV(LogisticRegression()) + threshold": "calibrated, sigmoid",
    'CalibratedClassifierCV(…, method="isotonic") + threshold': "calibrated, isotonic",
    "TunedThresholdClassifierCV(LogisticRegression())": "tuned threshold",
    TUNED_LIMIT: "tuned threshold",
    HELD_OUT_LIMIT: "`RateLimitClassifier`",
    FOLDS_LIMIT: "`RateLimitClassifier(cv=5)`",
    "SMOTE + LogisticRegression()": "SMOTE, at one half",
    "SMOTE + LogisticRegression() + threshold": "SMOTE, at the threshold",
    "SMOTE + LogisticRegression(), resampled to the costs": "SMOTE, to the costs",
    "RandomUnderSampler + LogisticRegression()": "under-sampling, at one half",
    "RandomUnderSampler + LogisticRegression() + threshold": "under-sampling, at the threshold",
    "RandomUnderSampler + LogisticRegression(), resampled to the costs": (
        "under-sampling, to the costs"
    ),
    BAYES: "`BayesDecisionClassifier`",
    SEARCH: "ours, C and zone searched",
}

KERNELS = (LEAVING, ADVISED, "CalibratedClassifierCV(SVC())", "SVC(class_weight=costs)")
SAME = (ZONE, NO_ZONE)
OTHER = {how: (ZONE + how, NO_ZONE + how) for how in (TENFOLD, OWN)}
QUALITY = ("cost, 1:1", "cost, 5:1", "log-loss", "zone log-loss")
PRICE = ("accuracy, %", "rows in the model, %", "fit, ms", "predict, µs a row")
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
        "moving", "Kernels, C = 1: difference", (*KERNELS[1:], *SAME, *OTHER[TENFOLD]), GAPS
    ),
    "svc-searched": Extract(
        "moving", f"{SEARCHED}: difference", (*KERNELS[1:], *SAME, *OTHER[OWN]), GAPS
    ),
    "svc-sets": Extract("moving", "Kernels, C = 1: each set"),
    "calibrated-svc": Extract(
        "moving",
        "Kernels, C = 1: means",
        (*KERNELS[:3], *SAME, *OTHER[TENFOLD]),
        (*QUALITY, "fit, ms"),
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
    "empulse": Extract(
        "example-costs",
        "% more than logistic regression, other sets",
        columns=(
            *("mean", "fit, seconds", "fraud (generated)", "churn (generated)"),
            *("TV subscriptions", "credit, PAKDD 2009", "credit, VUB"),
        ),
    ),
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
