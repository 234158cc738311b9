"""Shares of rows that provably stay saturated, and could be left out of the rest of a fit.

With a duality gap G the optimum is within r = sqrt(2 C G) of the function (criterion (8) is convex
by 1/C in it), so that a row whose margin is more than r |x| beyond the kink, or r with an
RBF kernel, stays there (Mialon, d'Aspremont & Mairal, 2020). The intercept, which is not penalised,
is taken for known: no proof leaves out more. A fit that leaves out rows reads fewer of them in the
steps to come; so what counts are shares at gaps at which there are steps to come.

    python -m benchmarks.screening
"""

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.data import covtype_binary
from benchmarks.report import print_table
from grayzone import TruncatedLogisticRegression
from grayzone.decision.zones import binary_floors

GAPS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
PROBLEMS: dict[str, tuple[int | None, dict[str, Any]]] = {
    "linear, 581,012 rows, C = 1": (None, {"C": 1.0}),
    "RBF, 23,000 rows, C = 10": (23_000, {"C": 10.0, "kernel": "rbf"}),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.screening", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="2,000 rows")
    options = parser.parse_args(argv)
    for title, (n_rows, parameters) in PROBLEMS.items():
        X, y = covtype_binary(2_000 if options.quick else n_rows)
        print_table(
            f"covertype, {title}, zone 1: rows that are saturated, and that provably stay so",
            ("gap asked for", "gap", "steps", "radius", "saturated %", "provably %"),
            [row_of(X, y, tol, parameters) for tol in GAPS],
        )
    return 0


def row_of(X: np.ndarray, y: np.ndarray, tol: float, parameters: dict[str, Any]) -> list[object]:
    """Fit to a gap, and count."""
    model = TruncatedLogisticRegression(tol=tol, tails="as-fitted", **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    sign = np.where(y == model.classes_[1], 1.0, -1.0)
    below, above = binary_floors(*model.zone_)
    distance = -sign * model.decision_function(X) - np.where(sign > 0, above, below)
    radius = np.sqrt(2.0 * model.C * model.dual_gap_ * model.objective_)
    size = 1.0 if model.kernel == "rbf" else np.linalg.norm(X, axis=1)
    saturated, proven = np.mean(distance < 0.0), np.mean(distance < -radius * size)
    return [tol, model.dual_gap_, int(model.n_iter_), radius, 100.0 * saturated, 100.0 * proven]


if __name__ == "__main__":
    raise SystemExit(main())
