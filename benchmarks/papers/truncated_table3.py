"""Table 3 of Hérault & Grandvalet, Sparse probabilistic classifiers (ICML 2007).

Linear support vector machines on the data of Table 2: with equal costs, with a threshold chosen
for the costs ("bias correction"), and with the costs in the hinge loss. The penalty, and the
threshold where there is one, are chosen by 5-fold cross-validation. The paper does not say how the
machines were fitted; here by LIBLINEAR, which penalises the intercept: it is scaled by ten.

    python -m benchmarks.papers.truncated_table3
"""

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.data import Split, krummholz
from benchmarks.papers.truncated_table2 import COST_NEGATIVE, COST_POSITIVE, spread
from benchmarks.report import graded, measure, print_table, say, verdict, write_json

CS = (0.001, 0.01, 0.1)
FOLDS = 5
SPLITS, QUICK_SPLITS = 10, 1
TOL, ITERATIONS, INTERCEPT_SCALING = 1e-3, 3_000, 10.0
MARGIN = 1.0 + 1e-3  # rows at most this far from the boundary count as support vectors
# Costs that sum to two, so that C means the same with them and without.
WEIGHTS = {0: 2 * COST_NEGATIVE, 1: 2 * COST_POSITIVE}

Record = dict[str, Any]


class Published(NamedTuple):
    """A column of Table 3: losses in 10⁻², support vectors in %."""

    loss: float
    loss_sd: float
    support: float
    support_sd: float


TABLE3 = {
    "standard": Published(3.75, 0.23, 12.84, 0.79),
    "with bias correction": Published(2.31, 0.12, 13.16, 1.13),
    "costs in the loss": Published(1.79, 0.02, 26.19, 0.60),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.truncated_table3", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--splits", type=int, help=f"how many of the ten (default: {SPLITS})")
    add("--quick", action="store_true", help=f"{QUICK_SPLITS} split: does everything run?")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    if not 1 <= splits <= SPLITS:
        parser.error(f"--splits must be between 1 and {SPLITS}")
    records: list[Record] = []
    with threadpool_limits(limits=options.threads):
        for k in range(splits):
            records += [{"split": k, **record} for record in run_split(krummholz(k), seed=k)]
            say(f"split {k + 1} of {splits}")
    print_results(records)
    write_json("truncated_table3", {"runs": records}, options.output)
    return 0


def machine(C: float, costs: bool) -> LinearSVC:
    """Return a linear support vector machine, with the costs in its loss or not."""
    return LinearSVC(
        C=C,
        loss="hinge",
        class_weight=WEIGHTS if costs else None,
        intercept_scaling=INTERCEPT_SCALING,
        tol=TOL,
        max_iter=ITERATIONS,
        random_state=0,
    )


def run_split(split: Split, seed: int) -> list[Record]:
    """Fit the three machines of the table to one split."""
    plain, weighted = (cross_validate(split, costs, seed) for costs in (False, True))
    found = []
    for name, (scores, costs, shifted) in {
        "standard": (plain, False, False),
        "with bias correction": (plain, False, True),
        "costs in the loss": (weighted, True, False),
    }.items():
        tried = [(best_cut(*scores[C], shifted), C) for C in CS]
        (_, cut), C = min(tried)
        model, converged = fitted(machine(C, costs), split.X_train, split.y_train)
        margins = np.where(split.y_train == 1, 1, -1) * model.decision_function(split.X_train)
        decided = model.decision_function(split.X_test) >= cut
        found.append(
            {
                "machine": name,
                "C": C,
                "cut": float(cut),
                "loss": float(losses(decided, split.y_test).mean()),
                "support_share": float(np.mean(margins <= MARGIN)),
                "converged": converged,
            }
        )
    return found


def cross_validate(split: Split, costs: bool, seed: int) -> dict[float, tuple[Any, Any]]:
    """Return held-out decision values and labels, for each penalty."""
    X, y = split.X_train, split.y_train
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y))
    found = {}
    for C in CS:
        values = np.empty(len(y))
        for inside, out in folds:
            model, _ = fitted(machine(C, costs), X[inside], y[inside])
            values[out] = model.decision_function(X[out])
        found[C] = (values, y)
    return found


def fitted(model: LinearSVC, X: np.ndarray, y: np.ndarray) -> tuple[LinearSVC, bool]:
    """Fit; tell whether it converged as well."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(X, y)
    return model, not caught


def best_cut(values: np.ndarray, y: np.ndarray, shifted: bool) -> tuple[float, float]:
    """Return the least mean loss, and the cut of the decision values that has it (or 0)."""
    if not shifted:
        return float(losses(values >= 0, y).mean()), 0.0
    order = np.argsort(-values)
    # what the positives among the first k are worth, less what the negatives there cost
    gains = np.cumsum(np.where(y[order] == 1, COST_POSITIVE, -COST_NEGATIVE))
    k = int(np.argmax(gains))
    cut = values[order[k]] if k + 1 == len(y) else 0.5 * (values[order[k]] + values[order[k + 1]])
    return float((COST_POSITIVE * np.sum(y == 1) - gains[k]) / len(y)), float(cut)


def losses(positive: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the loss of each decision."""
    costs = np.where(y == 1, COST_POSITIVE, COST_NEGATIVE)
    return np.where(positive == (y == 1), 0.0, costs)


def print_results(records: Sequence[Record]) -> None:
    """Print means and standard deviations over the splits, beside the paper's."""
    rows, met = [], []
    for name, paper in TABLE3.items():
        runs = [record for record in records if record["machine"] == name]
        loss = 100 * float(np.mean([run["loss"] for run in runs]))
        met.append(abs(loss - paper.loss) <= max(0.05, 3 * paper.loss_sd))
        if name != "standard":
            measure(f"loss, {name}", loss, better="lower", slack=0.05)
        rows.append(
            [
                name,
                spread(runs, "loss", 2),
                f"{paper.loss:.2f} ± {paper.loss_sd:.2f}",
                spread(runs, "support_share", 1),
                f"{paper.support:.1f} ± {paper.support_sd:.1f}",
                f"{sum(run['converged'] for run in runs)} of {len(runs)}",
            ]
        )
    print_table(
        "Table 3: test loss (×10⁻²) and support vectors (%) of linear SVMs",
        ("", "loss", "paper", "support", "paper", "converged"),
        rows,
    )
    verdict(
        "Table 3 (SVMs on Table 2's data)",
        graded(met),
        "losses "
        + ", ".join(f"{row[1]} (paper {row[2]})" for row in rows)
        + "; within .05 or three deviations counts",
    )


if __name__ == "__main__":
    raise SystemExit(main())
