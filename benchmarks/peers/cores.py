"""How fits grow with cores: the same fit on 1, 2, 4, 8 and 16 threads, best of several.

Rounds go through the numbers of threads in turn, so that a slow spell of the machine hits all of
them. Scikit-learn's newton-cholesky and SVC are there for scale.

    python -m benchmarks.peers.cores
    python -m benchmarks.peers.cores --case "linear 581k zone" --profile 16
"""

import argparse
import cProfile
import os
import pstats
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.data import covtype_binary
from benchmarks.report import print_table, write_json
from grayzone import ImportVectorMachine, TightBoundLogisticRegression, TruncatedLogisticRegression

THREADS = (1, 2, 4, 8, 16)
TLR, IVM, TBL = TruncatedLogisticRegression, ImportVectorMachine, TightBoundLogisticRegression
Work = Callable[[], Any]


@cache
def rows(n_rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of covertype."""
    return covtype_binary(n_rows)


def fit(kind: type, n_rows: int | None, **parameters: Any) -> Work:
    """Return a fit, its rows in memory."""
    given = rows(n_rows)
    return lambda: kind(**parameters).fit(*given)


def prediction(n_rows: int, **parameters: Any) -> Work:
    """Return probabilities of all rows of covertype by a model of some of them."""
    model, X = TLR(**parameters).fit(*rows(n_rows)), rows(None)[0]
    return lambda: model.predict_proba(X)


CASES: dict[str, Callable[[], Work]] = {
    # from the same parts of the rows each time: these decide how many steps there are
    "linear 581k zone": partial(fit, TLR, None, zone=(0.3, 0.7), random_state=0),
    "linear 581k plain": partial(fit, TLR, None, zone=None, random_state=0),
    "newton-cholesky 581k": partial(fit, LogisticRegression, None, solver="newton-cholesky"),
    "bounds 100k, T = 10": partial(fit, TBL, 100_000, n_bounds=10),
    "bounds 100k, undecided": partial(fit, TBL, 100_000, n_bounds=10, reject_cost=0.2),
    "import vectors 10k": partial(
        fit, IVM, 10_000, max_import_points=100, n_candidates=300, random_state=0
    ),
    "RBF 10k": partial(fit, TLR, 10_000, kernel="rbf", C=10.0),
    "RBF 23k": partial(fit, TLR, 23_000, kernel="rbf", C=10.0),
    "SVC 10k": partial(fit, SVC, 10_000, C=10.0),
    "RBF 2k, probabilities of 581k": partial(prediction, 2_000, kernel="rbf", C=10.0),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.cores", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int, default=THREADS, metavar="N")
    parser.add_argument("--repeats", type=int, default=2, help="rounds of timing (default: 2)")
    parser.add_argument("--profile", type=int, metavar="N", help="where N threads spend a fit")
    parser.add_argument("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # a fit to a limit of steps is timed as well
    if options.profile:
        for name in options.case:
            _profile(name, options.profile)
        return 0
    threads = [n for n in options.threads if n <= (os.cpu_count() or 1)]
    found = {name: _grown(name, threads, options.repeats) for name in options.case}
    heads = ("", *(f"{n} threads" for n in threads), "most / one")
    print_table("Seconds", heads, [[name, *s, s[0] / s[-1]] for name, s in found.items()])
    write_json("cores", {"threads": threads, "seconds": found}, options.output)
    return 0


def _grown(name: str, threads: Sequence[int], repeats: int) -> list[float]:
    """Return the best seconds of a case for each number of threads."""
    work = CASES[name]()
    work()  # compiled, and in memory
    best = dict.fromkeys(threads, np.inf)
    for _ in range(repeats):
        for n in threads:
            with threadpool_limits(n):
                began = time.perf_counter()
                work()
                best[n] = min(best[n], time.perf_counter() - began)
    print(name, {n: round(s, 3) for n, s in best.items()}, flush=True)
    return list(best.values())


def _profile(name: str, threads: int) -> None:
    """Print where the thread that calls a fit spends it."""
    work = CASES[name]()
    work()
    profile = cProfile.Profile()
    with threadpool_limits(threads):
        profile.runcall(work)
    print(f"\n{name}, {threads} threads")
    pstats.Stats(profile).sort_stats("tottime").print_stats(18)


if __name__ == "__main__":
    raise SystemExit(main())
