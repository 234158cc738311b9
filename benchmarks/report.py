"""Tables for people, JSON for programs."""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

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
)


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
    record = {"benchmark": name, "environment": environment(), **results}
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(record, indent=2, default=float) + "\n")
    os.replace(part, path)
    if announce:
        print(f"\nwritten to {os.path.relpath(path)}")
    return path


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
