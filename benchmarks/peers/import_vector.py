"""Import vector machine beside SVC, Nystroem features, fastrvm and Gaussian processes.

The ESL mixture, ijcnn1 and covertype (class 2 against the rest) with an RBF kernel and a fixed
number of import points. Parameters are tuned for each method on the same validation rows; then all
methods are timed on growing training sets and judged on test rows.

    python -m benchmarks.peers.import_vector
"""

import argparse
import math
import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import data
from benchmarks.data import Parts
from benchmarks.peers import kernel
from benchmarks.peers.import_vector_contenders import RVM, SMALL_ROWS, Method, methods
from benchmarks.peers.kernel_contenders import NYSTROEM, OURS, SVM, Fitted
from benchmarks.peers.kernel_race import (
    CACHE_SIZE,
    growth,
    print_growth,
    ratios,
    single_row_seconds,
    time_predictions,
)
from benchmarks.report import RESULTS, measure, now, print_table, say, verdict, write_json
from benchmarks.timing import race

SIZES = (1_000, 4_000, 16_000, 100_000)
QUICK_SIZES = (500, 1_000)
CS = (0.1, 1.0, 10.0, 100.0, 1_000.0)
TUNE_ROWS = 2_000
CANDIDATES = 300
QUICK_POINTS = 30
REPEATS = 3
SLOW_ROWS = 25_000  # above, --skip-slow leaves out what is slow
WARM_UP_SIZES = (300, 4_000)  # single precision has code of its own, which few rows do not use

# What the package sets out to reach.
SVC_DATA, SVC_ROWS, SVC_RATIO = "mixture", 16_000, 20.0
RVM_RATIO, GROWTH = 20.0, 1.1


@dataclass(frozen=True)
class Problem(kernel.Problem):
    """A data set by name, with the widths of the kernel to choose from, and the import points."""

    points: int


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("mixture", data.mixture_parts, (0.1, 0.3, 1.0, 3.0), 21),
        Problem("ijcnn1", data.ijcnn1_parts, (0.3, 1.0, 3.0, 10.0), 200),
        Problem("covtype", data.covtype_parts, (0.01, 0.03, 0.1, 0.3), 300),
    )
}

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = parse_arguments(argv)
    book = Book(options.output)
    problems = [PROBLEMS[name] for name in options.data]
    targets: list[Record] = []
    try:
        for problem in problems:
            competing = methods(options.points(problem), options.candidates)
            settings = tuning_settings(problem, options)
            if options.retune or not book.has_tuned(problem, settings):
                book.begin(problem, tune(problem, competing, settings, options.threads))
            else:
                say(f"{problem.name}: parameters as tuned in {os.path.relpath(book.path)}")
            targets += race_sizes(problem, competing, book, options)
    except KeyboardInterrupt:
        print(f"\nstopped; what was complete is in {os.path.relpath(book.path)}")
        return 130
    print_targets(targets)
    book.write(announce=True)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.import_vector", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--data", type=_names, default=tuple(PROBLEMS), help=f"of {','.join(PROBLEMS)} (all)")
    add("--sizes", type=_numbers, help=f"training rows (default: {','.join(map(str, SIZES))})")
    add("--quick", action="store_true", help="at most 1,000 rows, a tiny grid, one round")
    add("--repeats", type=int, help=f"rounds of timing (default: {REPEATS})")
    add("--candidates", type=int, default=CANDIDATES, help=f"of ours (default: {CANDIDATES})")
    add("--threads", type=int, default=os.cpu_count(), help="threads (default: all processors)")
    add(
        "--skip-slow",
        action=argparse.BooleanOptionalAction,
        default=True,
        help=f"leave SVC and calibrated SVC out above {SLOW_ROWS:,} rows (default: yes)",
    )
    add("--retune", action="store_true", help="tune, even if the JSON file has the parameters")
    add("--output", type=Path, help="the JSON file, continued if it exists")
    options = parser.parse_args(argv)
    unknown = set(options.data) - set(PROBLEMS)
    if unknown:
        parser.error(f"no data set {', '.join(sorted(unknown))}; there are {', '.join(PROBLEMS)}")
    quick = options.quick
    options.sizes = options.sizes or (QUICK_SIZES if quick else SIZES)
    options.repeats = options.repeats or (1 if quick else REPEATS)
    options.points = lambda problem: QUICK_POINTS if quick else problem.points
    name = "import_vector_quick.json" if quick else "import_vector.json"
    options.output = options.output or RESULTS / name
    return options


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(part) for part in text.split(",")))


class Book(kernel.Book):
    """What has been measured, in a file that is rewritten as soon as something is complete."""

    def has_tuned(self, problem: kernel.Problem, settings: Record) -> bool:
        """Tell whether the file has the parameters that tuning with these settings gave."""
        known = self._data.get(problem.name, {}).get("tune", {})
        return known.get("settings") == settings

    def write(self, announce: bool = False) -> None:
        """Write the file."""
        write_json("import_vector", {"data": self._data}, self.path, announce=announce)


# ----------------------------------------------------------------------------------------------
# Parameters
# ----------------------------------------------------------------------------------------------


def tuning_settings(problem: Problem, options: argparse.Namespace) -> Record:
    """Return all that the tuned parameters depend on, as JSON has it."""
    quick = options.quick
    return {
        "rows": SMALL_ROWS // 2 if quick else TUNE_ROWS,
        "C": list(CS[1:4:2] if quick else CS),
        "gamma": list(problem.gammas[1:3] if quick else problem.gammas),
        "points": options.points(problem),
        "candidates": options.candidates,
    }


def tune(problem: Problem, competing: Sequence[Method], settings: Record, threads: int) -> Record:
    """Fit each method on its grid and choose what loses least on the validation rows."""
    best: dict[str, Record] = {}
    fits: list[Record] = []
    with threadpool_limits(limits=threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in competing:
            parts = problem.load(min(settings["rows"], method.most_rows or math.inf))
            grid = parameter_grid(method, settings, best)
            tried = [try_parameters(method, parts, **point) for point in grid]
            best[method.name] = choose(tried)
            fits += tried
            say(f"{problem.name}, tuning: {method.name}, {len(tried)} fits: {best[method.name]}")
    print_table(
        f"{problem.name}: least log loss (SVC: error) on {len(parts.y_valid):,} validation rows, "
        f"fitted to {settings['rows']:,} at most (*: at the end of the grid)",
        ("", "rows", "C", "gamma", "loss", "seconds of all fits"),
        [
            [
                name,
                found["rows"],
                *(_starred(found, parameter) for parameter in ("C", "gamma")),
                found["loss"],
                sum(fit["seconds"] for fit in fits if fit["name"] == name),
            ]
            for name, found in best.items()
        ],
    )
    about = {"validation_rows": len(parts.y_valid), "threads": threads, "measured": now()}
    return {"settings": settings, **about, "best": best, "fits": fits}


def parameter_grid(method: Method, settings: Record, best: dict[str, Record]) -> list[Record]:
    """List the parameters to try for a method; `best` has those chosen for others before it."""
    gammas = settings["gamma"] if method.gamma_of is None else [best[method.gamma_of]["gamma"]]
    Cs = settings["C"] if method.penalised else [None]
    return [{"C": C, "gamma": gamma} for C, gamma in product(Cs, gammas)]


def try_parameters(method: Method, parts: Parts, C: float | None, gamma: float) -> Record:
    """Fit once and record the loss on the validation rows."""
    start = time.perf_counter()
    fitted = method.fit((parts.X_train, parts.y_train), C=C, gamma=gamma, seed=0)
    seconds = time.perf_counter() - start
    loss = float(method.losses(fitted.score(parts.X_valid), parts.y_valid).mean())
    rows = len(parts.y_train)
    return {
        **{"name": method.name, "rows": rows, "C": C, "gamma": gamma},
        **{"loss": loss, "seconds": seconds},
    }


def choose(fits: Sequence[Record]) -> Record:
    """Return the parameters of least loss, and which of them lie at an end of the grid."""
    best = min(fits, key=lambda fit: fit["loss"])
    at_end = []
    for name in ("C", "gamma"):
        values = {fit[name] for fit in fits}
        if len(values) > 1 and best[name] in (min(values), max(values)):
            at_end.append(name)
    return {name: best[name] for name in ("C", "gamma", "loss", "rows")} | {"at_end": at_end}


def _starred(found: Record, name: str) -> str | None:
    value = found[name]
    return None if value is None else f"{value:g}{'*' * (name in found['at_end'])}"


# ----------------------------------------------------------------------------------------------
# The race
# ----------------------------------------------------------------------------------------------


def race_sizes(
    problem: Problem, competing: Sequence[Method], book: Book, options: argparse.Namespace
) -> list[Record]:
    """Time and judge all methods on growing training sets; return the targets and what was seen."""
    best, points = book.best(problem), options.points(problem)
    warm_up(problem, competing, best, options.threads)
    records, times = book.sizes(problem), []
    for size in options.sizes:
        parts = problem.load(size)
        rows = len(parts.y_train)
        title = f"{problem.name}, {rows:,} rows, {points} points"
        say(f"{title}, {options.repeats} round{'s' * (options.repeats > 1)}")
        racing, left_out = present(competing, rows, options.skip_slow)
        record = race_size(parts, racing, best, options.repeats, options.threads)
        about = {"components": points, "candidates": options.candidates, "left_out": left_out}
        records = book.keep_size(problem, record | about)
        times = growth(records, like=record | about)
        book.keep(problem, "growth", times)
        print_size(title, record)
    print_growth(problem.name, times)
    targets = check_targets(problem.name, records, options.threads)
    book.keep(problem, "targets", targets)
    return targets


def present(
    competing: Sequence[Method], rows: int, skip_slow: bool
) -> tuple[list[Method], list[str]]:
    """Return the methods that take part at a size, and the names of the others, which are said."""
    racing = [
        method
        for method in competing
        if not (method.most_rows and rows > method.most_rows)
        and not (skip_slow and method.slow and rows > SLOW_ROWS)
    ]
    names = [method.name for method in competing if method not in racing]
    if names:
        say(f"  left out at {rows:,} rows: {', '.join(names)}")
    return racing, names


def warm_up(
    problem: Problem, competing: Sequence[Method], best: dict[str, Record], threads: int
) -> None:
    """Fit few rows, so that imports and compilation are not timed."""
    for size in WARM_UP_SIZES:
        parts = problem.load(size)
        racing = [m for m in competing if size <= (m.most_rows or size)]
        contenders = [m.contender(best[m.name], seed=0) for m in racing]
        for timing in race(contenders, parts.X_train, parts.y_train, repeats=1, threads=threads):
            timing.result.score(parts.X_test[:1])


class Round(NamedTuple):
    """What one method did in one round; errors and losses by test row."""

    seconds: float
    predict_seconds: float
    vectors: int
    converged: bool
    errors: np.ndarray
    losses: np.ndarray


def race_size(
    parts: Parts,
    racing: Sequence[Method],
    best: dict[str, Record],
    repeats: int,
    threads: int,
) -> Record:
    """Time and judge all methods on one training set.

    Each round draws landmarks and candidates anew and starts with another method.
    """
    rounds: dict[str, list[Round]] = {method.name: [] for method in racing}
    for turn in range(repeats):
        start = turn % len(racing)
        order = [*racing[start:], *racing[:start]]
        fits = run_round(order, parts, best, turn, threads, rounds)
    records = []
    for method in racing:
        seen = describe(method, rounds[method.name], rounds[OURS], best[method.name])
        with threadpool_limits(limits=threads):
            seen["single_row_seconds"] = single_row_seconds(fits[method.name], parts.X_test)
        records.append(seen)
    return {
        "rows": len(parts.y_train),
        "test_rows": len(parts.y_test),
        "cache_size": CACHE_SIZE,
        "threads": threads,
        "repeats": repeats,
        "measured": now(),
        "methods": records,
        "ratios": ratios(records),
    }


def run_round(
    order: Sequence[Method],
    parts: Parts,
    best: dict[str, Record],
    seed: int,
    threads: int,
    rounds: dict[str, list[Round]],
) -> dict[str, Fitted]:
    """Fit and predict with each method once, add that to `rounds`; return the fits."""
    timings = race(
        [method.contender(best[method.name], seed) for method in order],
        parts.X_train,
        parts.y_train,
        repeats=1,
        threads=threads,
        report=lambda name, seconds: say(f"  {name}: {seconds:.2f} s"),
    )
    fits = {m.name: t.result for m, t in zip(order, timings, strict=True)}
    with threadpool_limits(limits=threads):
        seconds, answers = time_predictions(list(fits.values()), parts.X_test)
    for i, method in enumerate(order):
        judged = (judge(answers[i], parts.y_test) for judge in (method.errors, method.losses))
        fitted = fits[method.name]
        # fastrvm says so in its status, which the others do not have.
        about = fitted.vectors, getattr(fitted.model, "fit_status_", 0) == 0
        rounds[method.name].append(Round(timings[i].best, seconds[i], *about, *judged))
    return fits


def describe(
    method: Method, seen: Sequence[Round], own: Sequence[Round], parameters: Record
) -> Record:
    """Record a method: best times, means of the quality, and its log loss beyond ours."""
    losses = np.array([each.losses for each in seen])
    quality: Record = {"log_loss": None, "behind": None, "behind_error": None}
    if method.probabilistic:
        # Paired by test row and round, so that rows which are hard for all do not matter.
        beyond = np.mean(losses, axis=0) - np.mean([each.losses for each in own], axis=0)
        quality = {
            "log_loss": float(losses.mean()),
            "all_log_losses": losses.mean(axis=1).tolist(),
            "behind": float(beyond.mean()),
            "behind_error": float(beyond.std(ddof=1) / math.sqrt(len(beyond))),
        }
    return {
        "name": method.name,
        "C": parameters["C"],
        "gamma": parameters["gamma"],
        "seconds": min(each.seconds for each in seen),
        "all_seconds": [each.seconds for each in seen],
        "vectors": min(each.vectors for each in seen),
        "converged": all(each.converged for each in seen),
        "predict_seconds": min(each.predict_seconds for each in seen),
        "error": float(np.mean([each.errors for each in seen])),
        **quality,
    }


def print_size(title: str, record: Record) -> None:
    """Print the times, the ratios and the quality at one size."""
    spread = {r["peer"]: f"{r['lowest']:.2f}–{r['highest']:.2f}" for r in record["ratios"]}
    ratio = {r["peer"]: r["ratio"] for r in record["ratios"]}
    names = {r["name"]: r["name"] + " †" * (not r["converged"]) for r in record["methods"]}
    print_table(
        f"{title}: fits, best of {record['repeats']}, and predictions"
        + " (†: stopped at its limit of iterations)" * any("†" in name for name in names.values()),
        (
            *("", "C", "gamma", "seconds", "/ ours", "over the rounds", "vectors"),
            *(f"s for {record['test_rows']:,} rows", "ms for one"),
        ),
        [
            [
                *(names[r["name"]], r["C"], r["gamma"], r["seconds"]),
                *(ratio.get(r["name"]), spread.get(r["name"])),
                *(r["vectors"], r["predict_seconds"], 1e3 * r["single_row_seconds"]),
            ]
            for r in record["methods"]
        ],
    )
    print_table(
        f"{title}: {record['test_rows']:,} test rows, means of the rounds",
        ("", "error", "log loss", "less ours", "its standard error"),
        [
            [r["name"], *(_digits(r[k]) for k in ("error", "log_loss", "behind", "behind_error"))]
            for r in record["methods"]
        ],
    )


def _digits(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


# ----------------------------------------------------------------------------------------------
# What was to be reached
# ----------------------------------------------------------------------------------------------


def check_targets(name: str, records: Sequence[Record], threads: int) -> list[Record]:
    """Compare what was seen on one data set, in this run and the file, with the targets."""
    found: list[Record] = []

    def add(target: str, seen: str, met: bool) -> None:
        found.append({"data": name, "target": target, "seen": seen, "met": met})

    records = [record for record in records if record["threads"] == threads]
    for record in records:
        rows = record["rows"]
        ours, nystroem = (method_of(record, method) for method in (OURS, NYSTROEM))
        measure(f"log loss, {name}, {rows} rows", ours["log_loss"], better="lower", slack=0.005)
        add(
            f"log loss below Nystroem's, {rows:,} rows",
            f"{ours['log_loss']:.4f} ({ours['vectors']} points) and "
            f"{nystroem['log_loss']:.4f} ({nystroem['vectors']})",
            ours["log_loss"] < nystroem["log_loss"],
        )
        for ratio in record["ratios"]:
            at_svc = (name, rows, ratio["peer"]) == (SVC_DATA, SVC_ROWS, SVM)
            at_rvm = (rows, ratio["peer"]) == (SMALL_ROWS, RVM)
            if at_svc or at_rvm:
                least = SVC_RATIO if at_svc else RVM_RATIO
                add(
                    f"{ratio['peer']} / ours at least {least:g}, {rows:,} rows",
                    f"{ratio['ratio']:.1f} ({ratio['lowest']:.1f}–{ratio['highest']:.1f})"
                    + " †" * (not method_of(record, ratio["peer"])["converged"]),
                    ratio["ratio"] >= least,
                )
    times = our_times(records)
    if len(times) > 1:
        overall, steepest = exponents(times)
        add(
            f"time at most n^{GROWTH}, {min(times):,} to {max(times):,} rows",
            f"n^{overall:.2f} (steepest between neighbours n^{steepest:.2f})",
            overall <= GROWTH,
        )
    return found


def method_of(record: Record, name: str) -> Record:
    """Return the record of one method at one size."""
    return next(method for method in record["methods"] if method["name"] == name)


def our_times(records: Sequence[Record]) -> dict[int, float]:
    """Return our seconds by size, where all import points were found: the others did less work."""
    full = [r for r in records if method_of(r, OURS)["vectors"] == r["components"]]
    return {record["rows"]: method_of(record, OURS)["seconds"] for record in full}


def exponents(times: dict[int, float]) -> tuple[float, float]:
    """Return the exponent of time in the rows between the ends, and the steepest one."""

    def exponent(few: int, many: int) -> float:
        return math.log(times[many] / times[few]) / math.log(many / few)

    sizes = sorted(times)
    return exponent(sizes[0], sizes[-1]), max(exponent(*ends) for ends in pairwise(sizes))


def print_targets(targets: Sequence[Record]) -> None:
    """Print the targets beside what was seen."""
    print_table(
        "targets (ratios: best times, and the range over the rounds; †: the peer stopped at its "
        "limit of iterations)",
        ("", "seen", "met"),
        [[f"{t['data']}: {t['target']}", t["seen"], "yes" if t["met"] else "NO"] for t in targets],
    )
    missed = [t for t in targets if not t["met"]]
    verdict(
        "Import vector machines: log loss below Nystroem's, faster than SVC and fastrvm, growth",
        "missed" if missed else "met",
        f"{len(targets) - len(missed)} of {len(targets)} targets"
        + "".join(f"; missed: {t['data']}, {t['target']}: {t['seen']}" for t in missed),
    )


if __name__ == "__main__":
    raise SystemExit(main())
