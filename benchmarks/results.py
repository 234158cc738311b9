"""RESULTS.md and RESULTS.json, made from what a run of the suite has written."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.entries import ENTRIES, Entry
from benchmarks.headline import update_readme
from benchmarks.pages import update_pages
from benchmarks.report import replace_text

HERE = Path(__file__).resolve().parent
FIGURES = HERE / "figures"
KINDS = {"papers": "Tables and figures of the papers", "peers": "Beside other packages"}
NOT_OBTAINABLE = (
    "Not obtainable: Table 2 and Figure 3 of Le Roux (2017) need `alpha` of the PASCAL Large Scale "
    "Learning Challenge (500,000 × 500), of which no public copy was found; so does the panel of "
    "`alpha` in Figure 1."
)

Record = dict[str, Any]


def collect(folder: Path, earlier: Path | None = None) -> Record:
    """Gather what was shown by all benchmarks of a run.

    Parameters
    ----------
    folder : Path
        Where the run is.
    earlier : Path or None
        RESULTS.json of an earlier run, for benchmarks that this one is without.

    Raises
    ------
    SystemExit
        If there was no run.
    """
    path = folder / "run.json"
    if not path.is_file():
        raise SystemExit(f"{path} is not there: run `python -m benchmarks all` first")
    run = json.loads(path.read_text("utf-8"))
    known = {}
    if earlier is not None and earlier.is_file():
        known = json.loads(earlier.read_text("utf-8"))["entries"]
    entries = {}
    for entry in ENTRIES:
        before = known.get(entry.name, {})
        if entry.name not in run["entries"] and before.get("status") == "complete":
            entries[entry.name] = before
            continue
        if entry.large and entry.name not in run["entries"]:
            continue  # no one asked for it
        ended = run["entries"].get(entry.name, {"status": "not run", "seconds": 0.0})
        found = folder / f"{entry.name}.json"
        report: Record = {"tables": [], "verdicts": [], "measures": {}, "figures": []}
        if ended["status"] == "complete" and found.is_file():
            report = json.loads(found.read_text("utf-8"))["report"]
        elif ended["status"] == "complete":
            ended = {**ended, "status": "lost", "reason": f"{found.name} is not there"}
        entries[entry.name] = {**ended, "report": report}
    return {"quick": run["quick"], "environment": run["environment"], "entries": entries}


def write_results(
    results: Record, folder: Path, target: Path = HERE, readme: Path | None = None
) -> None:
    """Write RESULTS.json, RESULTS.md and the figures.

    Parameters
    ----------
    results : dict
        From `collect`.
    folder : Path
        Where the run left its figures.
    target : Path
        Where to write to.
    readme : Path or None
        The README whose figures are renewed, with those of the pages in docs/moving, if any.
    """
    figures = target / FIGURES.name
    figures.mkdir(parents=True, exist_ok=True)
    for entry in results["entries"].values():
        for figure in entry["report"]["figures"]:
            source = folder / figure["file"]
            if source.is_file():
                shutil.copyfile(source, figures / f".{figure['file']}.part")
                os.replace(figures / f".{figure['file']}.part", figures / figure["file"])
    replace_text(target / "RESULTS.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    replace_text(target / "RESULTS.md", "\n".join(_lines(results)) + "\n")
    if readme is not None and not results["quick"]:
        update_readme(results, readme)
        update_pages(results)
    print(f"written: {os.path.relpath(target / 'RESULTS.md')}")


def _lines(results: Record) -> Iterator[str]:
    entries = results["entries"]
    yield "# Results"
    yield ""
    yield "Made by `python -m benchmarks`; do not edit. How things were measured is in"
    yield "[README.md](README.md)."
    yield ""
    yield from _circumstances(results)
    yield ""
    yield "## Verdicts"
    yield ""
    yield from _verdicts(entries)
    yield ""
    yield NOT_OBTAINABLE
    for kind, heading in KINDS.items():
        yield ""
        yield f"## {heading}"
        for entry in (e for e in ENTRIES if e.kind == kind and e.name in entries):
            yield from _section(entry, entries[entry.name])


def _circumstances(results: Record) -> Iterator[str]:
    about = results["environment"]
    entries = results["entries"]
    seconds = {
        kind: sum(
            entries[e.name]["seconds"] for e in ENTRIES if e.kind == kind and e.name in entries
        )
        for kind in KINDS
    }
    yield (
        f"- {about['cores']} × {about['processor']}, {about['system']}, Python {about['python']}"
        + (", **quick run: the figures mean nothing**" if results["quick"] else "")
    )
    versions = [f"{name} {version}" for name, version in about["libraries"].items() if version]
    yield f"- {', '.join(versions)}"
    yield (
        f"- Minutes: {seconds['papers'] / 60:.0f} of papers (several at a time), "
        f"{seconds['peers'] / 60:.0f} of races (one after the other)."
    )
    lacking = {n: e for n, e in entries.items() if e["status"] != "complete"}
    for name, entry in lacking.items():
        yield f"- **{name}: {entry['status']}.** {_escaped(entry.get('reason', ''))}".rstrip()


def _verdicts(entries: dict[str, Record]) -> Iterator[str]:
    rows = [
        [_short(entry), verdict["what"], verdict["outcome"], verdict["why"]]
        for entry in ENTRIES
        if entry.name in entries
        for verdict in entries[entry.name]["report"]["verdicts"]
    ]
    counts = Counter(row[2] for row in rows)
    yield (", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "None") + "."
    yield ""
    yield from _table(("", "", "verdict", "what was seen"), rows, "---")


def _short(entry: Entry) -> str:
    """Return the paper, or the name of a race."""
    return entry.title.split(",")[0] if entry.kind == "papers" else entry.name


def _section(entry: Entry, record: Record) -> Iterator[str]:
    yield ""
    yield f"### {entry.title}"
    yield ""
    yield f"`{entry.name}`, {record['seconds']:.0f} s."
    for verdict in record["report"]["verdicts"]:
        yield ""
        what, why = _escaped(verdict["what"]), _escaped(verdict["why"])
        yield f"**{what}: {verdict['outcome']}.** {why}"
    for table in record["report"]["tables"]:
        yield ""
        yield f"{_escaped(table['title'])}:"
        yield ""
        yield from _table(table["columns"], table["rows"])
    for figure in record["report"]["figures"]:
        caption = _escaped(figure["caption"])
        yield ""
        yield f"![{caption}]({FIGURES.name}/{figure['file']})"
        yield ""
        yield f"*{caption}*"


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], others: str = "---:"
) -> Iterator[str]:
    yield "| " + " | ".join(map(_escaped, columns)) + " |"
    yield "| " + " | ".join(["---"] + [others] * (len(columns) - 1)) + " |"
    for row in rows:
        yield "| " + " | ".join(map(_escaped, row)) + " |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")
