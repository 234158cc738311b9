"""Dense linear fits beside scikit-learn, LIBLINEAR and glum, at matched accuracy.

Two problems: covertype, class 2 against the rest (581,012 × 54), and the training part of the
paper's problem (23,235 × 54), both with C = 1. Then the growth of time with the rows, and memory.

    python -m benchmarks.peers.linear
"""

import argparse
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.papers.truncated_table2 import ZONES as PAPER_ZONES
from benchmarks.peers.comparison import (
    Tolerances,
    compare,
    compare_memory,
    entries,
    judge_ratios,
    print_comparison,
)
from benchmarks.peers.contenders import Judge, Peer, Zone, optional_peers, ours, scikit_learn
from benchmarks.report import print_table, write_json
from benchmarks.timing import race

C = 1.0
TARGETS = (1e-6, 1e-9)
LARGE_ZONES: tuple[Zone, ...] = (None, (0.1, 0.9), (0.3, 0.7), (0.45, 0.55))
# The ends, and two steps between them that are even on a logarithmic scale.
SIZES = (23_235, 73_000, 232_000, data.LARGE_ROWS)
SECTIONS = ("small", "large", "scaling", "memory")


@dataclass(frozen=True)
class Problem:
    """A problem by name, with the zones to fit it with."""

    title: str
    load: Callable[[], tuple[np.ndarray, np.ndarray]]
    zones: tuple[Zone, ...]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = parse_arguments(argv)
    n_large = 20_000 if options.quick else None
    small = Problem("paper's problem", data.krummholz_train, PAPER_ZONES)
    large = Problem("covertype", partial(data.covtype_binary, n_large), LARGE_ZONES)
    peers = [
        *map(scikit_learn, ("newton-cholesky", "lbfgs", "liblinear")),
        *optional_peers("glum", "liblinear"),
    ]
    results: dict[str, Any] = {"threads": options.threads, "repeats": options.repeats}
    if "small" in options.sections:
        results["small"] = run_comparison(small, peers, options)[0]
    if "large" in options.sections or "memory" in options.sections:
        records, judge, tolerances = run_comparison(
            large, peers, options, timed="large" in options.sections
        )
        results["large"] = records
        if "memory" in options.sections:
            racing = list(entries(judge, large.zones, tolerances, TARGETS[0]))
            results["memory"] = compare_memory(racing, large.load, options.threads)
    if "scaling" in options.sections:
        sizes = (5_000, 20_000) if options.quick else SIZES
        results["scaling"] = scaling(sizes, options)
    write_json("linear", results, options.output)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.linear", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default"
    )
    parser.add_argument("--quick", action="store_true", help="few rows, one round")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of timing (default: 5)")
    parser.add_argument(
        "--threads", type=int, default=os.cpu_count(), help="threads (default: all processors)"
    )
    parser.add_argument("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    options.sections = options.sections or SECTIONS
    if options.quick:
        options.repeats = 1
    return options


def run_comparison(
    problem: Problem, peers: Sequence[Peer], options: argparse.Namespace, timed: bool = True
) -> tuple[list[dict[str, Any]], Judge, Tolerances]:
    """Find the peers' tolerances on one problem, then time everybody.

    Returns
    -------
    tuple
        The records of the timing, the judge and the tolerances.
    """
    X, y = problem.load()
    judge = Judge(X, y, C, "newton-cholesky", options.threads)
    tolerances = {peer: judge.tolerances(peer, TARGETS) for peer in peers}
    records: list[dict[str, Any]] = []
    if timed:
        records = compare(judge, problem.zones, tolerances, repeats=options.repeats)
        print_comparison(f"{problem.title}, {X.shape[0]:,} × {X.shape[1]}", records)
        judge_ratios(problem.title, records, TARGETS[-1])
    return records, judge, tolerances


def scaling(sizes: Sequence[int], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time growing stratified subsets of covertype; print the exponent of time in the rows."""
    contenders = [ours(zone, C, TARGETS[0]) for zone in LARGE_ZONES]
    seconds = []
    for size in sizes:
        X, y = data.covtype_binary(size)
        timings = race(contenders, X, y, repeats=options.repeats, threads=options.threads)
        seconds.append([timing.best for timing in timings])
    growth = math.log(sizes[-1] / sizes[0])
    records: list[dict[str, Any]] = [
        {
            "name": contender.name,
            "rows": list(sizes),
            "seconds": list(times),
            "exponent": math.log(times[-1] / times[0]) / growth,
        }
        for contender, times in zip(contenders, zip(*seconds, strict=True), strict=True)
    ]
    print_table(
        f"seconds at a gap of {TARGETS[0]:.0e} on subsets of covertype",
        ("", *(f"{size:,} rows" for size in sizes), "exponent"),
        [[r["name"], *r["seconds"], r["exponent"]] for r in records],
    )
    return records


if __name__ == "__main__":
    raise SystemExit(main())
