"""Ten bounds beside one fit of scikit-learn's logistic regression: time and memory.

Covertype, class 2 against the rest, the first 90 % of the rows (522,911 × 54), C = 1. The peer is
lbfgs at its default tolerance, 1e-4, with as many iterations as it takes. Besides: one bound, and
"direct", which descends what the bounds bound.

    python -m benchmarks.peers.tight_bound
"""

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.data import covtype_ordered
from benchmarks.report import measure, print_table, say, verdict, write_json
from benchmarks.timing import Contender, peak_memory, race
from grayzone import TightBoundLogisticRegression

C = 1.0
REPEATS = 5
QUICK_ROWS = 20_000
PEER_TOL, PEER_ITERATIONS = 1e-4, 10_000
MANY = 1_000  # bounds, of which "direct" needs to know only that they are more than one
OURS: dict[str, dict[str, Any]] = {
    "ten bounds": {"n_bounds": 10, "solver": "mm"},
    "one bound": {"n_bounds": 1},
    "direct": {"n_bounds": MANY, "solver": "direct"},
}
PEER = "scikit-learn lbfgs"
MOST_TIME, MOST_MEMORY = 3.0, 0.5

Data = tuple[np.ndarray, np.ndarray]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.tight_bound", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows, one round")
    add("--repeats", type=int, default=REPEATS, help=f"rounds of timing (default: {REPEATS})")
    add("--threads", type=int, default=os.cpu_count(), help="threads (default: all processors)")
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    load = partial(load_rows, QUICK_ROWS if options.quick else None)
    repeats = 1 if options.quick else options.repeats
    contenders = [Contender(name, partial(fit_ours, own)) for name, own in OURS.items()]
    contenders.append(Contender(PEER, fit_peer))
    records = compare(contenders, load, repeats, options.threads)
    X, y = load()
    print_records(f"covertype, {X.shape[0]:,} × {X.shape[1]}, {options.threads} threads", records)
    judge(records)
    results = {"threads": options.threads, "repeats": repeats, "rows": len(y), "fits": records}
    name = "tight_bound" + "_quick" * options.quick
    write_json(name, results, options.output)
    return 0


def load_rows(n_rows: int | None) -> Data:
    """Return the training rows of Table 1, or some at even distances."""
    X, y = covtype_ordered()[:2]
    if n_rows is None:
        return X, y
    step = len(y) // n_rows
    return np.ascontiguousarray(X[::step]), y[::step]


def fit_ours(parameters: dict[str, Any], data: Data) -> TightBoundLogisticRegression:
    """Fit bounds."""
    return TightBoundLogisticRegression(C=C, **parameters).fit(*data)


def fit_peer(data: Data) -> LogisticRegression:
    """Fit the log-loss."""
    return LogisticRegression(C=C, tol=PEER_TOL, max_iter=PEER_ITERATIONS).fit(*data)


def compare(
    contenders: Sequence[Contender], load: Any, repeats: int, threads: int
) -> list[dict[str, Any]]:
    """Time everybody in turn, then measure memory, each in a process of its own."""
    X, y = load()
    few = slice(None, None, max(1, len(y) // 2_000))
    race(contenders, X[few], y[few], repeats=1, threads=threads)  # imports and compiles
    timings = race(
        contenders,
        X,
        y,
        repeats=repeats,
        threads=threads,
        report=lambda name, seconds: say(f"{name}: {seconds:.2f} s"),
    )
    peer = timings[-1]
    records = []
    for contender, timing in zip(contenders, timings, strict=True):
        memory = peak_memory(contender, load, threads=threads)
        ratios = np.array(timing.seconds) / np.array(peer.seconds)
        records.append(
            {
                "name": contender.name,
                "seconds": list(timing.seconds),
                "best": timing.best,
                "ratio": timing.best / peer.best,
                "ratio_range": [float(ratios.min()), float(ratios.max())],
                "train_error": 100 * float(np.mean(timing.result.predict(X) != y)),
                "steps": int(np.max(timing.result.n_iter_)),
                "memory": memory,
                "extra_of_X": float(memory["extra_bytes"]) / float(memory["data_bytes"]),
            }
        )
    return records


def judge(records: Sequence[dict[str, Any]]) -> None:
    """Say whether ten bounds are as quick and as small as they should be."""
    ten = next(record for record in records if record["name"] == "ten bounds")
    verdict(
        f"Ten bounds within {MOST_TIME:g} times one lbfgs fit, memory at most {MOST_MEMORY:g} of X",
        "met" if ten["ratio"] <= MOST_TIME and ten["extra_of_X"] <= MOST_MEMORY else "missed",
        f"{ten['ratio']:.2f} times ({ten['ratio_range'][0]:.2f}–{ten['ratio_range'][1]:.2f} over"
        f" the rounds), memory {ten['extra_of_X']:.2f} of X",
    )
    slack = 0.3 * ten["ratio"]
    measure("ten bounds / one lbfgs fit", ten["ratio"], better="lower", slack=slack)


def print_records(title: str, records: Sequence[dict[str, Any]]) -> None:
    """Print times as multiples of the peer's, and memory as multiples of X."""
    print_table(
        title,
        ("", "seconds", "times the peer's", "in each round", "steps", "train %", "memory / X"),
        [
            [
                r["name"],
                f"{r['best']:.2f}",
                f"{r['ratio']:.2f}",
                "{:.2f}–{:.2f}".format(*r["ratio_range"]),
                r["steps"],
                f"{r['train_error']:.2f}",
                ("" if r["memory"]["exact"] else "<") + f"{r['extra_of_X']:.2f}",
            ]
            for r in records
        ],
    )


if __name__ == "__main__":
    raise SystemExit(main())
