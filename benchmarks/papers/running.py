"""What scripts of single claims share: their options, and figures where matplotlib is there."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS


def options_of(name: str, doc: str | None, argv: Sequence[str] | None) -> argparse.Namespace:
    """Return ``quick``, ``threads`` and ``output`` of the command line.

    Parameters
    ----------
    name : str
        The module, below `benchmarks.papers`.
    doc : str
        Its docstring.
    argv : sequence of str or None
        Command-line arguments; None is those of the process.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.papers.{name}", description=(doc or "").split("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="small: does everything run?")
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    parser.add_argument("--output", type=Path, default=RESULTS / f"{name}.json", help="JSON file")
    return parser.parse_args(argv)


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any] | None:
    """Return a figure and its axes, or None, with a word, where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no figure")
        return None
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)
