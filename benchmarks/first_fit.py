"""What the first fit of a fresh install takes more than the next ones, as loops are compiled.

Each fit is a process of its own, with an empty folder for compiled loops and then with a full one:
the difference is what compiling takes. What both take more than a second fit are libraries that
are loaded, and memory that is touched for the first time.

    python -m benchmarks.first_fit
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.report import print_table, write_json

ROUNDS = 3
# Title: estimator, its parameters, and the shape of the rows.
CASES: dict[str, tuple[str, dict[str, Any], tuple[int, int]]] = {
    "1,000 × 20": ("TruncatedLogisticRegression", {}, (1_000, 20)),
    "200,000 × 54": ("TruncatedLogisticRegression", {}, (200_000, 54)),
    "texts": ("TruncatedLogisticRegression", {}, (30_000, 20_000)),
    "20,000 × 54, l1": ("TruncatedLogisticRegression", {"penalty": "l1"}, (20_000, 54)),
    "RBF, 20,000 × 54": (
        "TruncatedLogisticRegression",
        {"kernel": "rbf", "gamma": 0.05},
        (20_000, 54),
    ),
    "import vectors, 20,000 × 20": (
        "ImportVectorMachine",
        {"C": 10.0, "gamma": 0.05, "max_import_points": 8},
        (20_000, 20),
    ),
    "ten bounds, 120,000 × 54": ("TightBoundLogisticRegression", {}, (120_000, 54)),
    "undecided, 120,000 × 54": (
        "TightBoundLogisticRegression",
        {"reject_cost": 0.2},
        (120_000, 54),
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = parse_arguments(argv)
    if options.fit:
        print(json.dumps(seconds_of_two_fits(options.fit)))
        return 0
    records = [measured(title, options.rounds) for title in CASES]
    columns = ("cold", "warm", "second", "compiling", "first_less_second")
    print_table(
        "seconds of a fit (best of the rounds)",
        ("", "first, nothing compiled", "first, from disk", "second", "compiling", "1st - 2nd"),
        [[record["name"], *(record[column] for column in columns)] for record in records],
    )
    write_json("first_fit", {"rounds": options.rounds, "cases": records}, options.output)
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.first_fit", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument("--fit", choices=CASES, help="fit this twice, here, and print the seconds")
    parser.add_argument("--output", type=Path, help="where to write the JSON")
    return parser.parse_args(argv)


def measured(title: str, rounds: int) -> dict[str, Any]:
    """Time one case in fresh processes, each kind of time by its best round."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            found.append((*_in_a_process(title, folder), _in_a_process(title, folder)[0]))
    cold, second, warm = (min(times) for times in zip(*found, strict=True))
    return {
        "name": title,
        "cold": cold,
        "warm": warm,
        "second": second,
        "compiling": cold - warm,
        "first_less_second": cold - second,
    }


def _in_a_process(title: str, folder: str) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.first_fit", "--fit", title]
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, second = json.loads(done.stdout)
    return first, second


def seconds_of_two_fits(title: str) -> list[float]:
    """Fit a case twice in this process."""
    import grayzone

    name, parameters, shape = CASES[title]
    X, y = rows(*shape)
    model = getattr(grayzone, name)(**parameters)
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            began = time.perf_counter()
            model.fit(X, y)
            seconds.append(time.perf_counter() - began)
    return seconds


def rows(n: int, d: int) -> tuple[Any, np.ndarray]:
    """Draw normal features with a curved boundary, or texts where there are thousands of them."""
    rng = np.random.default_rng(0)
    if d > 1_000:
        X = sp.random(n, d, density=60 / d, format="csr", random_state=0)
        return X, (X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0).astype(int)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + X[:, 1] ** 2 + rng.normal(size=n) > 1).astype(int)


if __name__ == "__main__":
    raise SystemExit(main())
