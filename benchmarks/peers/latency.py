"""Predictions and models: time of one row, of a hundred and of many, and bytes on disk.

Covertype, class 2 against the rest, 10,000 training rows; all kernels have the same gamma. What is
timed is what a decision needs: probabilities, or decision values where there are none. Models are
interleaved; each time is the best of several medians.

    python -m benchmarks.peers.latency
"""

import argparse
import os
import pickle
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.data import covtype_parts
from benchmarks.report import measure, print_table, say, verdict, write_json
from grayzone import (
    ImportVectorMachine,
    MinimaxProbabilityMachine,
    SparseMinimaxProbabilityMachine,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
)

ROWS, QUICK_ROWS = 10_000, 1_000
BATCHES = (1, 100, 10_000)
ROUNDS, CALLS = 5, 50
GAMMA, C, POINTS = 0.1, 10.0, 300
OURS = "import vector machine"
RIVAL = "calibrated SVC"

Record = dict[str, Any]
MODELS: dict[str, Callable[[], Any]] = {
    "truncated, linear": lambda: TruncatedLogisticRegression(costs={0: 1, 1: 5}),
    "tight bounds": TightBoundLogisticRegression,
    "minimax, linear": MinimaxProbabilityMachine,
    "LogisticRegression": lambda: LogisticRegression(max_iter=1_000),
    OURS: lambda: ImportVectorMachine(
        C=C, gamma=GAMMA, max_import_points=POINTS, n_candidates=300, tol=0.0, random_state=0
    ),
    "minimax, sparse": lambda: SparseMinimaxProbabilityMachine(random_state=0),
    "truncated, rbf": lambda: TruncatedLogisticRegression(
        C=C, kernel="rbf", gamma=GAMMA, costs={0: 1, 1: 5}
    ),
    "SVC (no probabilities)": lambda: SVC(C=C, gamma=GAMMA, cache_size=1_000),
    RIVAL: lambda: CalibratedClassifierCV(SVC(C=C, gamma=GAMMA, cache_size=1_000)),
    "Nystroem + LogisticRegression": lambda: make_pipeline(
        Nystroem(gamma=GAMMA, n_components=POINTS, random_state=0),
        LogisticRegression(max_iter=1_000),
    ),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.latency", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows, one round")
    add("--threads", type=int, default=os.cpu_count(), help="threads (default: all processors)")
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    parts = covtype_parts(QUICK_ROWS if options.quick else ROWS)
    with threadpool_limits(limits=options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {name: fitted(name, make, parts) for name, make in MODELS.items()}
        times = time_all(models, parts.X_test, 1 if options.quick else ROUNDS)
    records = [
        {"name": name, **times[name], **about(model, parts)} for name, model in models.items()
    ]
    print_records(len(parts.y_train), records)
    write_json("latency", {"threads": options.threads, "models": records}, options.output)
    return 0


def fitted(name: str, make: Callable[[], Any], parts: Any) -> Any:
    """Fit one model."""
    start = time.perf_counter()
    model = make().fit(parts.X_train, parts.y_train)
    say(f"{name}: fitted in {time.perf_counter() - start:.2f} s")
    return model


def answer_of(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return what is timed: probabilities, or decision values where there are none."""
    return model.predict_proba if hasattr(model, "predict_proba") else model.decision_function


def time_all(models: dict[str, Any], X: np.ndarray, rounds: int) -> dict[str, dict[str, float]]:
    """Time batches of all sizes, model after model, round after round."""
    times: dict[str, dict[str, float]] = {name: {} for name in models}
    for _ in range(rounds):
        for size in BATCHES:
            calls = CALLS if size < BATCHES[-1] else 1
            for name, model in models.items():
                key, seconds = f"seconds_{size}", median_seconds(answer_of(model), X, size, calls)
                times[name][key] = min(seconds, times[name].get(key, np.inf))
    return times


def median_seconds(
    answer: Callable[[np.ndarray], np.ndarray], X: np.ndarray, size: int, calls: int
) -> float:
    """Return the median time of several calls, each with other rows."""
    seconds = []
    for k in range(calls):
        first = (k * size) % max(1, len(X) - size + 1)
        rows = X[first : first + size]
        start = time.perf_counter()
        answer(rows)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def about(model: Any, parts: Any) -> Record:
    """Return the size of a model on disk, its vectors and its test error."""
    vectors = None
    for name in ("import_points_", "n_support_", "bases_"):
        if hasattr(model, name):
            found = getattr(model, name)
            vectors = int(np.sum(found)) if name == "n_support_" else len(found)
    if vectors is None and getattr(model, "kernel", None) == "rbf":
        vectors = len(model.support_)
    return {
        "bytes": len(pickle.dumps(model)),
        "vectors": vectors,
        "error": float(np.mean(model.predict(parts.X_test) != parts.y_test)),
    }


def print_records(n_rows: int, records: Sequence[Record]) -> None:
    """Print times and sizes, and how ours compares with the usual way to kernel probabilities."""
    print_table(
        f"{n_rows:,} training rows of covertype: predictions, and models on disk",
        ("", *(f"ms for {size:,}" for size in BATCHES), "kB", "vectors", "test error"),
        [
            [
                r["name"],
                *(f"{1e3 * r[f'seconds_{size}']:.3g}" for size in BATCHES),
                f"{r['bytes'] / 1e3:,.1f}",
                r["vectors"],
                f"{r['error']:.4f}",
            ]
            for r in records
        ],
    )
    named = {r["name"]: r for r in records}
    own, rival = named[OURS], named[RIVAL]
    ratios = {size: rival[f"seconds_{size}"] / own[f"seconds_{size}"] for size in BATCHES}
    for size, ratio in ratios.items():
        measure(f"{RIVAL} / {OURS}, {size} rows", ratio, better="higher", slack=0.3 * ratio)
    measure(f"bytes of the {OURS}", own["bytes"], better="lower", slack=0.05 * own["bytes"])
    verdict(
        "Kernel probabilities: quicker and smaller than a calibrated SVC",
        "met" if min(ratios.values()) > 1 and own["bytes"] < rival["bytes"] else "missed",
        ", ".join(f"{ratio:.1f} times as quick for {size:,}" for size, ratio in ratios.items())
        + f"; {rival['bytes'] / own['bytes']:.0f} times smaller; test error {own['error']:.4f} and "
        f"{rival['error']:.4f}",
    )


if __name__ == "__main__":
    raise SystemExit(main())
