"""Kernel fits beside SVC, scikit-learn-intelex, a calibrated SVC and Nystroem features.

ijcnn1 and covertype (class 2 against the rest) with an RBF kernel, missing a positive costing five
times a false alarm. Parameters are tuned for each method on the same validation rows; then all
methods are timed on growing subsets and judged on test rows; then memory.

    python -m benchmarks.peers.kernel
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.data import Parts
from benchmarks.peers.kernel_contenders import (
    NYSTROEM,
    OURS,
    OURS_MATCHED,
    PROTOTYPE,
    Method,
    cost_of,
    decision_threshold,
    ours,
    peers,
)
from benchmarks.peers.kernel_race import CACHE_SIZE, growth, print_growth, print_size, race_size
from benchmarks.report import RESULTS, measure, now, print_table, say, verdict, write_json
from benchmarks.timing import WARM_UP_ROWS, peak_memory, race

SECTIONS = ("tune", "race", "memory")
SIZES = (2_000, 5_000, 10_000, 23_000, 50_000)
CS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
MEMORY_DATA, MEMORY_ROWS, MEMORY_CACHE_SIZE = "covtype", 50_000, 500
REPEATS = 3
ONE_ROUND_ROWS = 23_000  # from here on a single round, unless asked for more
SLOW_ROWS = 25_000  # above, --skip-slow leaves out what is slow


@dataclass(frozen=True)
class Problem:
    """A data set by name, with the widths of the kernel to choose from."""

    name: str
    load: Callable[[int], Parts]
    gammas: tuple[float, ...]


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("ijcnn1", data.ijcnn1_parts, (0.3, 1.0, 3.0, 10.0)),
        Problem("covtype", data.covtype_parts, (0.01, 0.03, 0.1, 0.3)),
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = parse_arguments(argv)
    book = Book(options.output)
    rivals = peers(options.threads, options.components, options.prototype)
    problems = [PROBLEMS[name] for name in options.data]
    try:
        if "tune" in options.sections:
            for problem in problems:
                book.begin(problem, tune(problem, rivals, options))
        if "race" in options.sections:
            for problem in problems:
                race_sizes(problem, rivals, book, options)
        if "memory" in options.sections and MEMORY_DATA not in options.data:
            say(f"memory is measured on {MEMORY_DATA} only, which --data leaves out")
        elif "memory" in options.sections:
            memory = compare_memory(PROBLEMS[MEMORY_DATA], rivals, book, options)
            book.keep(PROBLEMS[MEMORY_DATA], "memory", memory)
    except KeyboardInterrupt:
        print(f"\nstopped; what was complete is in {os.path.relpath(book.path)}")
        return 130
    book.write(announce=True)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.kernel", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default")
    add("--data", type=_names, default=tuple(PROBLEMS), help=f"of {','.join(PROBLEMS)} (both)")
    add("--sizes", type=_numbers, help=f"training rows (default: {','.join(map(str, SIZES))})")
    add("--quick", action="store_true", help="2,000 rows, a tiny grid, one round")
    add(
        "--repeats",
        type=int,
        help=f"rounds of timing (default: {REPEATS}, and 1 from {ONE_ROUND_ROWS:,} rows on)",
    )
    add("--threads", type=int, default=os.cpu_count(), help="threads (default: all processors)")
    add("--tune-rows", type=int, help="training rows to tune on (default: 5000)")
    add("--components", type=int, default=1_000, help="landmarks of Nystroem (default: 1000)")
    add(
        "--skip-slow",
        action="store_true",
        help=f"leave SVC and calibrated SVC out above {SLOW_ROWS:,} rows",
    )
    add("--prototype", type=Path, help="a folder with kfit.py, to be timed as well")
    add("--output", type=Path, help="the JSON file, continued if it exists")
    options = parser.parse_args(argv)
    for given, known, what in (
        (options.sections, SECTIONS, "section"),
        (options.data, PROBLEMS, "data set"),
    ):
        unknown = set(given) - set(known)
        if unknown:
            parser.error(f"no {what} {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return _with_defaults(options)


def _with_defaults(options: argparse.Namespace) -> argparse.Namespace:
    quick = options.quick
    options.sections = options.sections or SECTIONS
    options.sizes = options.sizes or (SIZES[:1] if quick else SIZES)
    options.tune_rows = options.tune_rows or (1_000 if quick else 5_000)
    options.memory_rows = SIZES[0] if quick else MEMORY_ROWS
    options.output = options.output or RESULTS / ("kernel_quick.json" if quick else "kernel.json")
    if quick:
        options.repeats = 1
    return options


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(part) for part in text.split(",")))


class Book:
    """What has been measured, in a file that is rewritten as soon as something is complete.

    Parameters
    ----------
    path : Path
        The file. If it exists, it is continued: tuning a data set drops what was measured with
        its earlier parameters, a size that is timed again replaces the earlier record.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data: dict[str, dict[str, Any]] = {}
        if path.is_file():
            self._data = json.loads(path.read_text()).get("data", {})

    def begin(self, problem: Problem, tuned: dict[str, Any]) -> None:
        """Keep the parameters of a data set and nothing that was measured with others."""
        self._data[problem.name] = {"tune": tuned}
        self.write()

    def keep(self, problem: Problem, section: str, records: Any) -> None:
        """Keep what a section measured."""
        self._data[problem.name][section] = records
        self.write()

    def keep_size(self, problem: Problem, record: dict[str, Any]) -> list[dict[str, Any]]:
        """Keep what was measured at one size; return the records of all sizes."""
        others = [r for r in self.sizes(problem) if r["rows"] != record["rows"]]
        records = sorted([*others, record], key=lambda r: r["rows"])
        self.keep(problem, "race", records)
        return records

    def sizes(self, problem: Problem) -> list[dict[str, Any]]:
        """Return the records of the race, by size."""
        return self._data[problem.name].get("race", [])

    def best(self, problem: Problem) -> dict[str, dict[str, Any]]:
        """Return the tuned parameters of each method.

        Raises
        ------
        SystemExit
            If the data set has not been tuned.
        """
        if problem.name not in self._data:
            raise SystemExit(
                f"{os.path.relpath(self.path)} has no parameters for {problem.name}: run the "
                "section tune first"
            )
        return self._data[problem.name]["tune"]["best"]

    def write(self, announce: bool = False) -> None:
        """Write the file."""
        write_json("kernel", {"data": self._data}, self.path, announce=announce)


def tune(problem: Problem, rivals: Sequence[Method], options: argparse.Namespace) -> dict[str, Any]:
    """Fit each method on a grid and choose what costs least on the validation rows."""
    parts = problem.load(options.tune_rows)
    grid_C, gammas = (CS[1:5:2], problem.gammas[1:3]) if options.quick else (CS, problem.gammas)
    # Other ways to solve the same problem take its parameters.
    methods = [method for method in (ours(), *rivals) if method.tuned_as == method.name]
    fits: list[dict[str, Any]] = []
    with threadpool_limits(limits=options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for gamma, C in product(gammas, grid_C):
            for method in methods:
                fits.append(try_parameters(method, parts, C, gamma))
            costs = ", ".join(f"{f['name']} {f['cost']:.4f}" for f in fits[-len(methods) :])
            say(f"{problem.name}, tuning: C {C:g}, gamma {gamma:g}: costs {costs}")
    best = {m.name: choose([f for f in fits if f["name"] == m.name]) for m in methods}
    print_table(
        f"{problem.name}: least expected cost on {len(parts.y_valid):,} validation rows, "
        f"fitted to {len(parts.y_train):,} (*: at the end of the grid)",
        ("", "C", "gamma", "cost", "seconds of all fits"),
        [
            [
                name,
                f"{found['C']:g}{'*' * ('C' in found['at_end'])}",
                f"{found['gamma']:g}{'*' * ('gamma' in found['at_end'])}",
                found["cost"],
                sum(f["seconds"] for f in fits if f["name"] == name),
            ]
            for name, found in best.items()
        ],
    )
    return {
        "rows": len(parts.y_train),
        "validation_rows": len(parts.y_valid),
        "grid": {"C": grid_C, "gamma": gammas},
        "components": options.components,
        "threads": options.threads,
        "measured": now(),
        "best": best,
        "fits": fits,
    }


def try_parameters(method: Method, parts: Parts, C: float, gamma: float) -> dict[str, Any]:
    """Fit once and record the expected cost on the validation rows."""
    start = time.perf_counter()
    fitted = method.fit((parts.X_train, parts.y_train), C=C, gamma=gamma, cache_size=CACHE_SIZE)
    seconds = time.perf_counter() - start
    scores = fitted.score(parts.X_valid)
    threshold = decision_threshold(method, scores, parts.y_valid)
    cost = cost_of(scores, parts.y_valid, threshold)
    return {"name": method.name, "C": C, "gamma": gamma, "cost": cost, "seconds": seconds}


def choose(fits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the parameters of least cost, and which of them lie at an end of the grid."""
    best = min(fits, key=lambda fit: fit["cost"])
    ends = {name: {f(fit[name] for fit in fits) for f in (min, max)} for name in ("C", "gamma")}
    return {
        "C": best["C"],
        "gamma": best["gamma"],
        "cost": best["cost"],
        "at_end": [name for name, values in ends.items() if best[name] in values],
    }


def race_sizes(
    problem: Problem, rivals: Sequence[Method], book: Book, options: argparse.Namespace
) -> None:
    """Time and judge all methods on growing subsets, then report the growth of time."""
    best = book.best(problem)
    warm_up(problem, [ours(), *rivals], best, options.threads)
    times: list[dict[str, Any]] = []
    for size in options.sizes:
        parts = problem.load(size)
        rows = len(parts.y_train)
        repeats = options.repeats or (1 if rows >= ONE_ROUND_ROWS else REPEATS)
        title = f"{problem.name}, {rows:,} rows"
        say(f"{title}, {repeats} round{'s' * (repeats > 1)}")
        left_out = absent(rivals, rows, options)
        racing = present(rivals, rows, options)
        record = race_size(parts, racing, best, repeats=repeats, threads=options.threads)
        record |= {"components": options.components, "left_out": left_out}
        times = growth(book.keep_size(problem, record), like=record)
        book.keep(problem, "growth", times)
        print_size(title, record)
        judge_size(title, record)
    print_growth(problem.name, times)


def judge_size(title: str, record: dict[str, Any]) -> None:
    """Say how the peers' times and costs compare with ours, at the gap that SVC reaches."""
    matched = [r for r in record["ratios"] if r["ours"] == OURS_MATCHED]
    for ratio in matched:
        measure(
            f"{title}: {ratio['peer']} / ours",
            ratio["ratio"],
            better="higher",
            slack=0.3 * ratio["ratio"],
        )
    costs = {m["name"]: m["cost"] for m in record["methods"]}
    measure(f"{title}: expected cost", costs[OURS], better="lower", slack=0.05 * costs[OURS])
    verdict(
        f"Kernel fits, {title}: no slower than any exact peer",
        "met" if all(r["ratio"] >= 1 for r in matched if r["peer"] != NYSTROEM) else "missed",
        "seconds of the peer / ours at SVC's gap: "
        + ", ".join(f"{r['peer']} {r['ratio']:.2f}" for r in matched)
        + f"; expected cost {costs[OURS]:.4f}, others "
        + ", ".join(f"{n} {c:.4f}" for n, c in costs.items() if n not in (OURS, OURS_MATCHED)),
    )


def present(rivals: Sequence[Method], size: int, options: argparse.Namespace) -> list[Method]:
    """Return the methods that take part at a size."""
    return [m for m in rivals if not (options.skip_slow and m.slow and size > SLOW_ROWS)]


def absent(rivals: Sequence[Method], size: int, options: argparse.Namespace) -> list[str]:
    """Name the methods that do not take part at a size, and say so."""
    there = present(rivals, size, options)
    names = [method.name for method in rivals if method not in there]
    if names:
        say(f"{size:,} rows: {', '.join(names)} left out (--skip-slow)")
    return names


def warm_up(
    problem: Problem, methods: Sequence[Method], best: dict[str, dict[str, Any]], threads: int
) -> None:
    """Fit few rows, so that imports and compilation are not timed."""
    parts = problem.load(WARM_UP_ROWS)
    contenders = [m.contender(best[m.tuned_as], CACHE_SIZE) for m in methods]
    for timing in race(contenders, parts.X_train, parts.y_train, repeats=1, threads=threads):
        timing.result.score(parts.X_test[:1])


def training_rows(name: str, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Load the training part of a data set, in whatever process is asked to."""
    parts = PROBLEMS[name].load(n_rows)
    return parts.X_train, parts.y_train


def compare_memory(
    problem: Problem, rivals: Sequence[Method], book: Book, options: argparse.Namespace
) -> dict[str, Any]:
    """Measure the memory that each fit needs beyond the data."""
    best, rows = book.best(problem), options.memory_rows
    left_out = absent(rivals, rows, options)
    records: list[dict[str, Any]] = []
    for method in (ours(), *present(rivals, rows, options)):
        contender = method.contender(best[method.tuned_as], MEMORY_CACHE_SIZE)
        load = partial(training_rows, problem.name, rows)
        measured = peak_memory(contender, load, threads=options.threads)
        records.append({"name": method.name, **measured})
        say(f"memory, {rows:,} rows: {method.name} {measured['extra_bytes'] / 2**20:.0f} MiB")
    print_table(
        f"{problem.name}, {rows:,} rows: peak memory of a fit beyond the data (≤: an upper bound), "
        f"caches of {MEMORY_CACHE_SIZE} MiB",
        ("", "MiB", "times the data"),
        [
            [
                record["name"] + " (has no such setting)" * (record["name"] == PROTOTYPE),
                f"{'' if record['exact'] else '≤ '}{record['extra_bytes'] / 2**20:.0f}",
                record["extra_bytes"] / record["data_bytes"],
            ]
            for record in records
        ],
    )
    return {
        "rows": rows,
        "cache_size": MEMORY_CACHE_SIZE,
        "threads": options.threads,
        "measured": now(),
        "left_out": left_out,
        "methods": records,
    }


if __name__ == "__main__":
    raise SystemExit(main())
