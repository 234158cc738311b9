"""Figures of the site, written from benchmarks/RESULTS.json so that none is typed by hand.

- ``{measured}`` `` `entry: measure: {:.1f}` ``: one measure in a line of text;
- ``{measured-cell}`` `` `entry: beginning of the title: row: column` ``: one cell of a table;
- ``{headline}``: the table of the README;
- ``{measured-table} entry: beginning of the title``: a table, or some ``:columns:``, ``:rows:``;
- ``{gain-picture}``: the picture of the landing page.

What is not in the results, or is there more than once, is an error.
"""

import json
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from picture import panels
from sphinx.util.docutils import SphinxDirective, SphinxRole

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "RESULTS.json"


def results():
    """Return what the last full run has measured."""
    return json.loads(RESULTS.read_text("utf-8"))


def measure(text):
    """Return a measure in words: ``entry: name: format``."""
    entry, rest = text.split(":", 1)
    name, form = rest.rsplit(": ", 1) if "{" in rest else (rest, "{:.3g}")
    measures = results()["entries"][entry.strip()]["report"]["measures"]
    return form.format(measures[name.strip()]["value"]).replace("-", "−")


def table(text):
    """Return the table of an entry whose title begins so."""
    entry, title = text.split(":", 1)
    found = [
        table
        for table in results()["entries"][entry.strip()]["report"]["tables"]
        if table["title"].startswith(title.strip())
    ]
    if len(found) != 1:
        raise ValueError(
            f"{len(found)} tables of RESULTS.json begin with {text!r}; one is expected"
        )
    return found[0]


def markdown(columns, rows):
    """Return the lines of a table."""
    yield "| " + " | ".join(columns) + " |"
    yield "| --- " + "| ---: " * (len(columns) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(cell.replace("-", "−") for cell in row) + " |"


class Measured(SphinxRole):
    """One measure."""

    def run(self):
        """Return it as text."""
        self.env.note_dependency(str(RESULTS))
        return [nodes.Text(measure(self.text))], []


class MeasuredCell(SphinxRole):
    """One cell of a table, ``entry: beginning of the title: row: column``, without its ± part."""

    def run(self):
        """Return it as text."""
        self.env.note_dependency(str(RESULTS))
        entry, title, row, column = (part.strip() for part in self.text.split(":", 3))
        found = table(f"{entry}: {title}")
        (cells,) = [cells for cells in found["rows"] if cells[0] == row]
        cell = cells[found["columns"].index(column)]
        return [nodes.Text(cell.split(" ±")[0].replace("-", "−"))], []


class FromResults(SphinxDirective):
    """What all directives here share: a page is written anew when the results change."""

    has_content = False

    def written(self, lines):
        """Return the nodes of lines of Markdown."""
        self.env.note_dependency(str(RESULTS))
        return self.parse_text_to_nodes("\n".join(lines) + "\n")


class Headline(FromResults):
    """The figures of the README."""

    def run(self):
        """Return the table."""
        sys.path.insert(0, str(ROOT))
        try:
            from benchmarks.headline import headline
        finally:
            sys.path.remove(str(ROOT))
        return self.written(headline(results()))


class MeasuredTable(FromResults):
    """A table of the results, whole or in part."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {  # noqa: RUF012
        "columns": directives.unchanged_required,
        "rows": directives.unchanged_required,
        "first": directives.unchanged_required,
    }

    def run(self):
        """Return the table."""
        found = table(self.arguments[0])
        wanted = self.options.get("columns", "; ".join(found["columns"][1:])).split("; ")
        places = [found["columns"].index(name) for name in wanted]
        kept = self.options["rows"].split("; ") if "rows" in self.options else None
        rows = [row for row in found["rows"] if kept is None or row[0] in kept]
        if kept is not None and len(rows) != len(kept):
            raise self.error(f"of {kept} there are {[row[0] for row in rows]}")
        head = [self.options.get("first", found["columns"][0]), *wanted]
        return self.written(markdown(head, ([row[0], *(row[j] for j in places)] for row in rows)))


class GainPicture(FromResults):
    """The two panels of the landing page, drawn into it so that they follow light and dark."""

    def run(self):
        """Return the panels."""
        self.env.note_dependency(str(RESULTS))
        drawn = "".join(f'<div class="panel">{panel}</div>' for panel in panels(results()))
        return [nodes.raw("", f'<div class="gain-picture">{drawn}</div>', format="html")]


def setup(app):
    """Register the role and the directives."""
    app.add_role("measured", Measured())
    app.add_role("measured-cell", MeasuredCell())
    app.add_directive("headline", Headline)
    app.add_directive("measured-table", MeasuredTable)
    app.add_directive("gain-picture", GainPicture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
