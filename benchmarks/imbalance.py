"""Strong class imbalance: 150,000 rows, 0.2 % positives. Certificates, warnings, time.

python -m benchmarks.imbalance
"""

import argparse
import time
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import rare_positives
from benchmarks.report import print_table, write_json
from grayzone import TruncatedLogisticRegression

CS = (0.01, 0.1, 1.0)
# The zone lies around the threshold: .5 without costs, the share of positives if balanced.
CASES: tuple[tuple[float | None, str | None], ...] = (
    (None, None),
    (1.0, None),
    (0.25, None),
    (1.0, "balanced"),
    (0.25, "balanced"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.imbalance", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    parser.add_argument("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    X, y = rare_positives(options.rows)
    with threadpool_limits(limits=options.threads):
        records = [fit_one(X, y, C, zone, costs) for (zone, costs), C in product(CASES, CS)]
    print_table(
        f"{len(y):,} rows, {y.sum()} positives",
        ("zone", "costs", "C", "gap", "support", "iterations", "seconds", "warnings"),
        [[str(record["zone"]), *list(record.values())[1:]] for record in records],
    )
    write_json("imbalance", {"threads": options.threads, "fits": records}, options.output)
    return 0


def fit_one(
    X: np.ndarray, y: np.ndarray, C: float, zone: float | None, costs: str | None
) -> dict[str, Any]:
    """Fit once and record the certificate, the warnings and the time."""
    model = TruncatedLogisticRegression(C=C, zone=zone, costs=costs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
    return {
        "zone": zone,
        "costs": costs,
        "C": C,
        "gap": float(model.dual_gap_),
        "support_share": len(model.support_) / len(y),
        "n_iter": int(np.max(model.n_iter_)),
        "seconds": seconds,
        "warnings": "; ".join(sorted({str(warning.message) for warning in caught})) or None,
    }


if __name__ == "__main__":
    raise SystemExit(main())
