"""Minimax machines beside empulse's linear one and a tuned SVC: accuracy, bounds, time.

First the five data sets of Strohmann et al., several random divisions of each; then how time grows
with the rows: of linear fits (two normal classes, 50 features), and of sparse ones (covertype,
class 2 against the rest).

    python -m benchmarks.peers.minimax
"""

import argparse
import functools
import importlib.metadata
import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from benchmarks.data import Split, covtype_parts, two_normals
from benchmarks.papers.sparse_minimax_tables import PROBLEMS, Problem
from benchmarks.peers.import_vector import exponents
from benchmarks.report import measure, now, print_table, say, verdict, write_json
from benchmarks.timing import Contender, race
from grayzone import MinimaxProbabilityMachine, SparseMinimaxProbabilityMachine

SPLITS, QUICK_SPLITS = 20, 2
REPEATS = 3
LINEAR_SIZES, LINEAR_FEATURES = (10_000, 30_000, 100_000), 50
SPARSE_SIZES = (3_000, 10_000, 30_000)
QUICK_SIZES = (500, 1_000)
WARM_UP_ROWS = 300
SLOW_ROWS = 10_000  # above, SVC is left out
CS = np.logspace(-1, 3, 9)
RIDGE = 1e-6  # of empulse by default

EMPULSE = "empulse ProfMPMClassifier"
LIKE_EMPULSE = "linear, no folds, ridge of empulse"
NO_FOLDS = "sparse, all bases, no folds"

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.minimax", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="few divisions, few rows, one round")
    add("--splits", type=int, help=f"random divisions of each set (default: {SPLITS})")
    add("--repeats", type=int, help=f"rounds of timing of large fits (default: {REPEATS})")
    add("--threads", type=int, default=os.cpu_count(), help="threads (default: all processors)")
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    repeats = options.repeats or (1 if options.quick else REPEATS)
    if splits < 2:
        parser.error("--splits must be at least 2: there are standard errors to compute")
    sizes = (QUICK_SIZES, QUICK_SIZES) if options.quick else (LINEAR_SIZES, SPARSE_SIZES)
    warm_up(options.threads)
    results: Record = {"empulse": empulse_version(), "threads": options.threads, "measured": now()}
    results["sets"] = [compare(problem, splits, options.threads) for problem in PROBLEMS]
    print_sets(results["sets"])
    results["linear"] = race_linear(sizes[0], repeats, options.threads)
    print_growth("two normal classes, 50 features", results["linear"])
    results["sparse"] = race_sparse(sizes[1], repeats, options.threads)
    print_growth("covertype, 54 features", results["sparse"])
    judge_empulse(results["linear"])
    write_json("minimax" + "_quick" * options.quick, results, options.output)
    return 0


# ----------------------------------------------------------------------------------------------
# Contenders
# ----------------------------------------------------------------------------------------------


def empulse_version() -> str | None:
    """Return the version of empulse, None where it is not installed."""
    if importlib.util.find_spec("empulse") is None:
        say("empulse is not installed: the comparison goes without it")
        return None
    return importlib.metadata.version("empulse")


def fit_empulse(data: tuple[np.ndarray, np.ndarray]) -> Any:
    """Fit empulse's minimax machine without penalty, which is that of Lanckriet et al."""
    from empulse.models import ProfMPMClassifier

    return ProfMPMClassifier(ridge_penalty=RIDGE).fit(*data, fp_cost=1.0, fn_cost=1.0)


def fitted_by(make: Callable[[], Any]) -> Callable[[Any], Any]:
    """Return a function that makes an estimator and fits it."""
    return lambda data: make().fit(*data)


def linear_contenders() -> list[Contender]:
    """Return the linear machines, empulse's where it is installed."""
    same = functools.partial(MinimaxProbabilityMachine, covariance_reg=RIDGE, cv=None)
    found = [
        Contender("linear", fitted_by(MinimaxProbabilityMachine)),
        Contender(LIKE_EMPULSE, fitted_by(same)),
    ]
    if importlib.util.find_spec("empulse") is not None:
        found.append(Contender(EMPULSE, fit_empulse))
    return found


def all_contenders(seed: int) -> list[Contender]:
    """Return all machines with their defaults, and an SVC with C chosen by five folds."""
    rbf = functools.partial(MinimaxProbabilityMachine, kernel="rbf")
    sparse = functools.partial(SparseMinimaxProbabilityMachine, random_state=seed)
    tuned = functools.partial(GridSearchCV, SVC(), {"C": CS}, cv=5)
    return [
        *linear_contenders(),
        Contender("rbf", fitted_by(rbf)),
        Contender("sparse", fitted_by(sparse)),
        Contender("SVC, C tuned", fitted_by(tuned)),
    ]


def warm_up(threads: int) -> None:
    """Fit few rows, so that imports and compilation are not timed."""
    X, y = two_normals(WARM_UP_ROWS, 5)
    race(all_contenders(0), X, y, repeats=1, threads=threads)


# ----------------------------------------------------------------------------------------------
# Five data sets
# ----------------------------------------------------------------------------------------------


def compare(problem: Problem, splits: int, threads: int) -> Record:
    """Fit all contenders to each division, in turns, and judge them."""
    seen: dict[str, list[Record]] = {}
    for seed in range(splits):
        split = problem.split(seed)
        contenders = all_contenders(seed)
        first = seed % len(contenders)
        order = contenders[first:] + contenders[:first]
        timings = race(order, split.X_train, split.y_train, repeats=1, threads=threads)
        for contender, timing in zip(order, timings, strict=True):
            record = {"seconds": timing.best, **judge(timing.result, split)}
            seen.setdefault(contender.name, []).append(record)
    say(f"{problem.name}: {splits} divisions")
    names = [contender.name for contender in all_contenders(0)]
    methods = [{"name": name, **summary(seen[name])} for name in names]
    return {"data": problem.name, "rows": len(split.y_train), "splits": splits, "methods": methods}


def judge(model: Any, split: Split) -> Record:
    """Record accuracy and bounds, None where a model has none."""
    accuracy = float(np.mean(model.predict(split.X_test) == split.y_test))
    bound = getattr(model, "accuracy_bound_", getattr(model, "alpha_1_", None))
    held_out = getattr(model, "held_out_bound_", None)  # NaN without folds
    linear = hasattr(model, "coef_")
    return {
        "accuracy": accuracy,
        "bound": bound,
        "reached": direction_bound(model, split) if linear else None,
        "held_out_bound": None if held_out is None or math.isnan(held_out) else held_out,
        "below_bound": None if bound is None else accuracy < bound,
    }


def direction_bound(model: Any, split: Split) -> float:
    """Return Ω of a direction by the plain moments (1/N) of the training rows.

    All linear machines here maximise it, up to a ridge: the larger, the nearer to the optimum.
    """
    scores = split.X_train @ np.ravel(model.coef_)
    x, y = scores[split.y_train == 1], scores[split.y_train == 0]
    apart = x.mean() - y.mean()
    return float(apart**2 / (apart**2 + (x.std() + y.std()) ** 2))


def summary(runs: Sequence[Record]) -> Record:
    """Return best time, mean accuracy with its standard error, and mean bounds."""
    found: Record = {
        "seconds": min(run["seconds"] for run in runs),
        "all_seconds": [run["seconds"] for run in runs],
    }
    for key in ("accuracy", "bound", "reached", "held_out_bound", "below_bound"):
        values = [run[key] for run in runs]
        found[key] = None if None in values else float(np.mean(values))
    accuracies = [run["accuracy"] for run in runs]
    found["accuracy_se"] = float(np.std(accuracies, ddof=1) / math.sqrt(len(runs)))
    return found


def print_sets(records: Sequence[Record]) -> None:
    """Print accuracy, bounds and time of all methods on each set."""
    for record in records:
        print_table(
            f"{record['data']}, {record['rows']} rows, {record['splits']} divisions (%, and the "
            "best seconds; reached: bound of a direction by plain moments)",
            ("", "accuracy", "bound", "reached", "held-out", "acc. < bound", "seconds"),
            [
                [
                    m["name"],
                    f"{100 * m['accuracy']:.1f} ± {100 * m['accuracy_se']:.1f}",
                    _percent(m["bound"], 1),
                    _percent(m["reached"], 3),
                    _percent(m["held_out_bound"], 1),
                    _percent(m["below_bound"], 0),
                    m["seconds"],
                ]
                for m in record["methods"]
            ],
        )


def _percent(share: float | None, digits: int) -> str | None:
    return None if share is None else f"{100 * share:.{digits}f}"


# ----------------------------------------------------------------------------------------------
# Growth with the rows
# ----------------------------------------------------------------------------------------------


def race_linear(sizes: Sequence[int], repeats: int, threads: int) -> Record:
    """Time linear fits on growing samples of two normal classes."""
    X, y = two_normals(2 * max(sizes), LINEAR_FEATURES)
    held_out = X[max(sizes) :], y[max(sizes) :]
    records = []
    for size in sizes:
        split = Split(X[:size], y[:size], *held_out)
        records.append(race_size(linear_contenders(), split, repeats, threads))
    return {"sizes": records, "growth": growth(records)}


def race_sparse(sizes: Sequence[int], repeats: int, threads: int) -> Record:
    """Time sparse fits on growing subsets of covertype; an SVC beside them while it is quick."""
    sparse = functools.partial(SparseMinimaxProbabilityMachine, random_state=0)
    no_folds = functools.partial(sparse, stopping=None, cv=None)
    records = []
    for size in sizes:
        parts = covtype_parts(size)
        split = Split(parts.X_train, parts.y_train, parts.X_test, parts.y_test)
        racing = [
            Contender("sparse", fitted_by(sparse)),
            Contender(NO_FOLDS, fitted_by(no_folds)),
        ]
        if size <= SLOW_ROWS:
            racing.append(Contender("SVC, C=1", fitted_by(SVC)))
        records.append(race_size(racing, split, repeats, threads))
    return {"sizes": records, "growth": growth(records)}


def race_size(racing: Sequence[Contender], split: Split, repeats: int, threads: int) -> Record:
    """Time and judge the contenders at one size."""
    rows = len(split.y_train)
    say(f"{rows:,} rows")
    timings = race(
        racing,
        split.X_train,
        split.y_train,
        repeats=repeats,
        threads=threads,
        report=lambda name, seconds: say(f"  {name}: {seconds:.3f} s"),
    )
    methods = [
        {
            "name": contender.name,
            "seconds": timing.best,
            "all_seconds": timing.seconds,
            **judge(timing.result, split),
        }
        for contender, timing in zip(racing, timings, strict=True)
    ]
    return {"rows": rows, "repeats": repeats, "test_rows": len(split.y_test), "methods": methods}


def growth(records: Sequence[Record]) -> list[Record]:
    """Return the exponent of time in the rows of each method."""
    times: dict[str, dict[int, float]] = {}
    for record in records:
        for method in record["methods"]:
            times.setdefault(method["name"], {})[record["rows"]] = method["seconds"]
    found = []
    for name, by_size in times.items():
        overall, steepest = exponents(by_size)
        found.append({"name": name, "exponent": overall, "steepest": steepest})
    return found


def judge_empulse(found: Record) -> None:
    """Say how our linear machine compares with empulse's on the largest sample."""
    last = {m["name"]: m for m in found["sizes"][-1]["methods"]}
    if EMPULSE not in last:
        return
    own, theirs = last[LIKE_EMPULSE], last[EMPULSE]
    ratio = theirs["seconds"] / own["seconds"]
    verdict(
        "Linear minimax machine beside empulse: the same bound",
        "met" if own["reached"] >= theirs["reached"] - 1e-6 else "missed",
        f"bound of the direction {own['reached']:.6f}, empulse {theirs['reached']:.6f}; seconds "
        f"{own['seconds']:.3f} and {theirs['seconds']:.3f} on {found['sizes'][-1]['rows']:,} rows",
    )
    measure("empulse / ours", ratio, better="higher", slack=0.3 * ratio)


def print_growth(title: str, found: Record) -> None:
    """Print time, accuracy and bounds at each size, and how time grows."""
    for record in found["sizes"]:
        print_table(
            f"{title}, {record['rows']:,} rows, best of {record['repeats']}, "
            f"{record['test_rows']:,} test rows (%)",
            ("", "seconds", "accuracy", "bound", "reached", "held-out"),
            [
                [
                    m["name"],
                    m["seconds"],
                    _percent(m["accuracy"], 2),
                    *(_percent(m[k], 2) for k in ("bound", "reached", "held_out_bound")),
                ]
                for m in record["methods"]
            ],
        )
    print_table(
        f"{title}: exponent of time in the rows",
        ("", "between the ends", "steepest between neighbours"),
        [[g["name"], f"{g['exponent']:.2f}", f"{g['steepest']:.2f}"] for g in found["growth"]],
    )


if __name__ == "__main__":
    raise SystemExit(main())
