"""Tables for people, JSON for programs.

What a benchmark shows it shows twice: on the terminal, and in its JSON file under "report", from
which `benchmarks/RESULTS.md` is made.
"""

import json
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

RESULTS = Path(__file__).resolve().parent / "results"
LIBRARIES = (
    "grayzone",
    "numpy",
    "scipy",
    "scikit-learn",
    "scikit-learn-intelex",
    "glum",
    "liblinear-official",
    "fastrvm",
    "empulse",
    "imbalanced-learn",
    "mapie",
)


Outcome = Literal["reproduced", "partly", "not reproduced", "met", "missed"]


@dataclass
class Report:
    """What this process has shown so far."""

    tables: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    measures: dict[str, dict[str, Any]] = field(default_factory=dict)
    figures: list[dict[str, str]] = field(default_factory=list)


_SHOWN = Report()


def verdict(what: str, outcome: Outcome, why: str) -> None:
    """Say in one line whether a claim held: one of a paper, or a target of this package.

    Parameters
    ----------
    what : str
        The table, figure or target.
    outcome : str
        "reproduced", "partly" or "not reproduced" of what a paper shows; "met" or "missed" of a
        target.
    why : str
        What was seen, and what limits it.
    """
    _SHOWN.verdicts.append({"what": what, "outcome": outcome, "why": why})
    print(f"\n{what}: {outcome} — {why}", flush=True)


def graded(met: Sequence[bool]) -> Outcome:
    """Return how much of a table was reproduced."""
    return "reproduced" if all(met) else "partly" if any(met) else "not reproduced"


def measure(name: str, value: float, *, better: Literal["higher", "lower"], slack: float) -> None:
    """Keep a number for `python -m benchmarks compare`.

    Parameters
    ----------
    name : str
        What was measured.
    value : float
        The number.
    better : {"higher", "lower"}
        Which way is better.
    slack : float
        By how much it may be worse by chance: a share of it for ratios of times, otherwise some
        standard errors.
    """
    if math.isfinite(value):
        _SHOWN.measures[name] = {"value": float(value), "better": better, "slack": float(slack)}


def show_figure(figure: Any, path: Path, caption: str) -> None:
    """Write a matplotlib figure, and keep its name.

    Parameters
    ----------
    figure : Figure
        The figure.
    path : Path
        A PNG file.
    caption : str
        What it shows.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part.png")
    figure.savefig(part, dpi=110, pil_kwargs={"optimize": True})
    os.replace(part, path)
    _SHOWN.figures.append({"file": path.name, "caption": caption})
    print(f"drawn: {path.name}")


def say(text: str) -> None:
    """Print a line of progress with the time of day, at once, also into a pipe."""
    print(f"[{datetime.now():%H:%M:%S}] {text}", flush=True)


def now() -> str:
    """Return the date and time of a measurement."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table, the first column aligned left, the others right.

    Parameters
    ----------
    title : str
        Printed above.
    columns : sequence of str
        Column names.
    rows : sequence of sequences
        Cells; a float is shown with three digits, None as a dash.
    """
    cells = [list(columns)] + [[_text(value) for value in row] for row in rows]
    _SHOWN.tables.append({"title": title, "columns": cells[0], "rows": cells[1:]})
    widths = [max(len(row[j]) for row in cells) for j in range(len(columns))]
    print(f"\n{title}")
    for i, row in enumerate(cells):
        aligned = [row[0].ljust(widths[0])]
        aligned += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  " + "  ".join(aligned))
        if i == 0:
            print("  " + "  ".join("-" * width for width in widths))


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return format(value, ".3g") if isinstance(value, float) else str(value)


def write_json(
    name: str, results: dict[str, Any], path: Path | None = None, *, announce: bool = True
) -> Path:
    """Write results with the circumstances of the measurement.

    The file is replaced in one step: an interruption leaves the earlier one, never half of one.

    Parameters
    ----------
    name : str
        Name of the benchmark.
    results : dict
        What it measured.
    path : Path, optional
        Where to; ``benchmarks/results/<name>.json`` by default.
    announce : bool, default=True
        Whether to print where it was written.

    Returns
    -------
    Path
        Where it was written.
    """
    path = path or RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"benchmark": name, "environment": environment(), **results, "report": asdict(_SHOWN)}
    replace_text(path, json.dumps(record, indent=2, default=float) + "\n")
    if announce:
        print(f"\nwritten to {os.path.relpath(path)}")
    return path


def replace_text(path: Path, text: str) -> None:
    """Write a text file in one step: an interruption leaves the earlier one, never half of one."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def environment() -> dict[str, Any]:
    """Describe the machine and the libraries."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), "")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
