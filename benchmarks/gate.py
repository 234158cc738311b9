"""Fits of this checkout beside those of another one: is any slower, or larger in memory.

One process for each checkout holds the data; fits take turns, so that a slow spell of the machine
hits both, and the best of several rounds counts. Nothing else should be running.

    python -m benchmarks.gate ../before/src
    python -m benchmarks.gate ../before/src --case linear ivm --repeats 7
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from benchmarks.data import covtype_binary, ijcnn1_parts
from benchmarks.report import print_table

SLOWEST = 1.05
Fit = Callable[[], Any]


# ------------------------------------------------------------------------------------------
# Cases: functions that make a fit
# ------------------------------------------------------------------------------------------


@cache
def _covtype(rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    return covtype_binary(rows)


@cache
def _ijcnn1(rows: int) -> tuple[np.ndarray, np.ndarray]:
    return ijcnn1_parts(rows)[:2]


@cache
def _small() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(1000, 20, n_informative=8, flip_y=0.1, random_state=0)


@cache
def _npy(rows: int, features: int) -> Any:
    try:
        from grayzone.sources import open_npy
    except ImportError:  # the name before the rooms
        from grayzone.blocks import open_npy  # type: ignore[import-not-found, no-redef]

    X, y = make_classification(rows, features, n_informative=8, flip_y=0.1, random_state=0)
    folder = Path(tempfile.mkdtemp())
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    return (open_npy(str(folder / "X.npy"), str(folder / "y.npy")),)


def _fit(name: str, data: Callable[[], tuple[Any, ...]], **parameters: Any) -> Fit:
    import grayzone

    given, kind = data(), getattr(grayzone, name)
    if "estimator" in parameters:
        parameters["estimator"] = LogisticRegression()
    # what an earlier checkout has no parameter for, it does in the way that is asked for
    known = signature(kind).parameters
    parameters = {key: value for key, value in parameters.items() if key in known}
    return lambda: kind(**parameters).fit(*given)


TLR, IVM, TBL = "TruncatedLogisticRegression", "ImportVectorMachine", "TightBoundLogisticRegression"
CASES: dict[str, Callable[[], Fit]] = {
    "linear 23k zone": partial(_fit, TLR, partial(_covtype, 23_000)),
    "linear 23k plain": partial(_fit, TLR, partial(_covtype, 23_000), zone=None),
    "linear 581k zone": partial(_fit, TLR, partial(_covtype, None)),
    "linear 581k plain": partial(_fit, TLR, partial(_covtype, None), zone=None),
    "rbf covtype 10k": partial(_fit, TLR, partial(_covtype, 10_000), kernel="rbf", C=10.0),
    "rbf ijcnn1 10k": partial(_fit, TLR, partial(_ijcnn1, 10_000), kernel="rbf", C=10.0),
    "ivm 400": partial(_fit, IVM, partial(_covtype, 400), max_import_points=50),
    "ivm 2k": partial(_fit, IVM, partial(_covtype, 2_000), max_import_points=100),
    "ivm 16k": partial(
        _fit,
        IVM,
        partial(_covtype, 16_000),
        max_import_points=100,
        n_candidates=300,
        random_state=0,
    ),
    "bounds T=10": partial(_fit, TBL, partial(_covtype, None), n_bounds=10),
    "bounds reject": partial(_fit, TBL, partial(_covtype, None), reject_cost=0.2),
    "bounds max_fpr": partial(_fit, TBL, partial(_covtype, None), max_fpr=0.1, confidence=None),
    "small truncated": partial(_fit, TLR, _small),
    "small rbf": partial(_fit, TLR, _small, kernel="rbf"),
    "small truncated cv": partial(_fit, f"{TLR}CV", _small, Cs=3),
    "small ivm": partial(_fit, IVM, _small),
    "small ivm cv": partial(_fit, f"{IVM}CV", _small, Cs=3, random_state=0),
    "small minimax": partial(_fit, "MinimaxProbabilityMachine", _small, random_state=0),
    "small sparse minimax": partial(
        _fit, "SparseMinimaxProbabilityMachine", _small, random_state=0
    ),
    "small bounds": partial(_fit, TBL, _small),
    "small bounds around": partial(_fit, "TightBoundClassifier", _small, estimator=None),
    "small bayes": partial(_fit, "BayesDecisionClassifier", _small, estimator=None),
    "blocks 20k": partial(_fit, TLR, partial(_npy, 20_000, 30)),
    "blocks 100k": partial(_fit, TLR, partial(_npy, 100_000, 30)),
    "blocks bounds 100k": partial(_fit, TBL, partial(_npy, 100_000, 30)),
}


# ------------------------------------------------------------------------------------------
# One process for each checkout
# ------------------------------------------------------------------------------------------


def serve() -> None:
    """Fit what the lines of the standard input name; answer with seconds and megabytes."""
    warnings.simplefilter("ignore")
    known: dict[str, Fit] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in known:
            known.clear()
            known[name] = CASES[name]()
            known[name]()
        before = _memory(reset=True)
        began = time.perf_counter()
        known[name]()
        seconds = time.perf_counter() - began
        print(json.dumps([seconds, _memory() - before]), flush=True)


def _memory(reset: bool = False) -> float:
    """Largest megabytes of this process so far; those of now where it is reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.split("\n") if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


class Checkout:
    """A process that fits with the package of a source folder."""

    def __init__(self, source: Path) -> None:
        root = Path(__file__).resolve().parents[1]
        path = os.pathsep.join([str(source.resolve()), str(root)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gate", "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONPATH": path},
        )

    def fit(self, case: str) -> tuple[float, float]:
        """Return seconds and megabytes of a fit."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(case + "\n")
        self._process.stdin.flush()
        seconds, megabytes = json.loads(self._process.stdout.readline())
        return seconds, megabytes


def main(argv: Sequence[str] | None = None) -> int:
    """Race both checkouts case by case, and print ratios of the best times.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gate", description=__doc__.split("\n")[0]
    )
    parser.add_argument("before", type=Path, nargs="?", help="source folder of the other checkout")
    parser.add_argument("--case", nargs="+", default=[""], help="beginnings of names of cases")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.serve:
        serve()
        return 0
    here = Path(__file__).resolve().parents[1] / "src"
    checkouts = [Checkout(options.before), Checkout(here)]
    rows = []
    for case in [name for name in CASES if name.startswith(tuple(options.case))]:
        rounds: list[list[tuple[float, float]]] = [[], []]
        for k in range(options.repeats):
            for place in (0, 1) if k % 2 else (1, 0):
                rounds[place].append(checkouts[place].fit(case))
        (before, was), (now, is_) = ([min(part) for part in zip(*r, strict=True)] for r in rounds)
        rows.append([case, before, now, f"{now / before:.3f}", f"{was:.0f}", f"{is_:.0f}"])
        print(*rows[-1], file=sys.stderr, flush=True)
    columns = ["fit", "before, s", "now, s", "ratio", "before, MB", "now, MB"]
    print_table("Fits of both checkouts, best times and least memory", columns, rows)
    return int(any(float(row[3]) > SLOWEST for row in rows))


if __name__ == "__main__":
    sys.exit(main())
