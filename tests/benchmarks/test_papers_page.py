"""docs/project/papers.md: every line has a verdict, and every benchmark of a paper has a line."""

from pathlib import Path

import pytest

from benchmarks import suite

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "project" / "papers.md"
VERDICTS = ("built", "reproduced", "partly", "corrected", "not obtainable", "nothing to")


def lines():
    """Return the cells of all lines of all tables."""
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [row for row in cells if row[0] not in ("section", "---")]


def test_no_line_without_a_verdict():
    assert len(lines()) > 80
    for row in lines():
        assert len(row) == 4, row
        assert all((row[0], row[1])), row
        assert any(word in row[3].lower() for word in VERDICTS), row


@pytest.mark.parametrize("name", [e.name for e in suite.ENTRIES if e.kind == "papers"])
def test_every_benchmark_of_a_paper_is_on_the_page(name):
    assert f"`{name}`" in PAGE.read_text("utf-8")
