r"""Are standard regularisers still adapted to T > 1? §5 of Le Roux, Tighter bounds (ICLR 2017).

Logistic regression with the l1 norm, the squared l2 norm and no penalty, and Algorithm 1 with ten
bounds of each: every bound is a fit of scikit-learn's LogisticRegression (LIBLINEAR, with an
intercept that is hardly penalised) to rows that weigh K p(y|x) of the last one. Four public sets of
600 training rows, alone and beside 100 columns of noise, several random divisions; C has the least
error on a quarter of the training rows, and the model is then fitted to all of them. "None" is
l2 with C = 1e6.

    python -m benchmarks.papers.tight_bound_penalties
"""

import argparse
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks.data import Split
from benchmarks.do_no_harm import divide, spread
from benchmarks.papers.tight_bound_tables import Cells
from benchmarks.report import RESULTS, measure, print_table, verdict

SETS = ("a9a", "spambase", "ijcnn1", "german_credit_numeric")
SPLITS, QUICK_SPLITS = 10, 2
NOISE = (0, 100)  # columns of it
BOUNDS, HELD_OUT = (1, 10), 0.25
PENALTIES = {
    "l1": [(1.0, C) for C in (0.01, 0.03, 0.1, 0.3, 1.0, 10.0)],
    "l2": [(0.0, C) for C in (1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)],
    "none": [(0.0, 1e6)],
}

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.tight_bound_penalties",
        description=__doc__.split("\n")[0],
    )
    add = parser.add_argument
    add("--splits", type=int, help=f"random divisions (default: {SPLITS})")
    add("--quick", action="store_true", help=f"{QUICK_SPLITS} divisions: does everything run?")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="the JSON file, continued if it exists")
    options = parser.parse_args(argv)
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    name = "tight_bound_penalties"
    cells = Cells(name, options.output or RESULTS / f"{name}.json")
    runs = {}
    with threadpool_limits(limits=options.threads):
        for data in SETS:
            for noise in NOISE:
                key = f"{data}, {noise} columns of noise"
                runs[key] = [
                    cells.get(f"{key}, division {seed}", partial(one_division, data, noise, seed))
                    for seed in range(splits)
                ]
    show(runs)
    cells.write({"splits": splits}, announce=True)
    return 0


def one_division(name: str, noise: int, seed: int) -> Record:
    """Return test and training errors in %, and C, by penalty and number of bounds."""
    split = divide(name, seed)
    rng = np.random.default_rng((seed, noise))
    X, X_test = (
        np.hstack([rows, rng.normal(size=(len(rows), noise))])
        for rows in (split.X_train, split.X_test)
    )
    split = Split(X, split.y_train, X_test, split.y_test)
    inside, outside = train_test_split(
        np.arange(len(X)), test_size=HELD_OUT, stratify=split.y_train, random_state=seed
    )
    return {
        penalty: {str(n): chosen(split, inside, outside, grid, n) for n in BOUNDS}
        for penalty, grid in PENALTIES.items()
    }


def chosen(split: Split, inside: Any, outside: Any, grid: Sequence[Any], n_bounds: int) -> Record:
    """Choose C by held-out rows; fit it to all, and return its errors."""
    X, y = split.X_train, split.y_train
    held_out = []
    for ratio, C in grid:
        model = tightened(X[inside], y[inside], ratio, C, n_bounds)
        held_out.append(error(model, X[outside], y[outside]))
    # of equal ones the strongest penalty
    ratio, C = grid[int(np.argmin(held_out))]
    model = tightened(X, y, ratio, C, n_bounds)
    return {
        "C": C,
        "train": error(model, X, y),
        "test": error(model, split.X_test, split.y_test),
        "used": int(np.count_nonzero(model.coef_)),
    }


def tightened(
    X: np.ndarray, y: np.ndarray, l1_ratio: float, C: float, n_bounds: int
) -> LogisticRegression:
    """Run Algorithm 1 with any penalty: each bound weighs rows by their own probability."""
    weight = np.ones(len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LIBLINEAR's, of steps that end at tol
        for _ in range(n_bounds):
            model = LogisticRegression(
                C=C, l1_ratio=l1_ratio, solver="liblinear", intercept_scaling=10.0, random_state=0
            )
            model.fit(X, y, sample_weight=weight)
            own = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
            # rows far on the wrong side are as good as gone
            weight = np.maximum(2.0 * own, 1e-10)
    return model


def error(model: LogisticRegression, X: np.ndarray, y: np.ndarray) -> float:
    """Return the share of errors, in %."""
    return 100.0 * float(np.mean(model.predict(X) != y))


def show(runs: dict[str, list[Record]]) -> None:
    """Print errors and what ten bounds change, and answer the question."""
    rows = []
    for key, divisions in runs.items():
        cells = []
        for penalty in PENALTIES:
            one = np.mean([d[penalty]["1"]["test"] for d in divisions])
            change = [d[penalty]["10"]["test"] - d[penalty]["1"]["test"] for d in divisions]
            cells.append("{:.1f}, {:+.2f} ± {:.2f}".format(one, *spread(change)))
        rows.append([key, *cells])
    print_table(
        "test error in % with one bound, and what ten change (± standard error of divisions)",
        ("", *PENALTIES),
        rows,
    )
    changes, gaps = {}, {}
    for penalty in PENALTIES:
        of_sets = [
            [np.mean([d[penalty]["10"][k] - d[penalty]["1"][k] for d in divisions])
             for divisions in runs.values()]
            for k in ("test", "train")
        ]  # fmt: skip
        changes[penalty] = spread(of_sets[0])
        gaps[penalty] = changes[penalty][0] - float(np.mean(of_sets[1]))
        measure(f"ten bounds, {penalty}", changes[penalty][0], better="lower", slack=0.3)
    steps = [np.log10(d[p]["10"]["C"] / d[p]["1"]["C"]) for p in ("l1", "l2") for one in
             runs.values() for d in one]  # fmt: skip
    told = ", ".join(f"{penalty} {mean:+.2f} ± {se:.2f}" for penalty, (mean, se) in changes.items())
    apart = ", ".join(f"{penalty} {gap:+.2f}" for penalty, gap in gaps.items())
    # what ten bounds learn by heart without a penalty, at most half of it is left with one
    adapted = all(gaps[p] < 0.5 * gaps["none"] for p in ("l1", "l2"))
    verdict(
        "§5: standard regularisers still keep more than one bound from learning by heart",
        "met" if adapted else "missed",
        f"what ten bounds change in test error (points): {told}; more between test and training "
        f"error than with one: {apart}. The penalty chosen is {10 ** -np.mean(steps):.2g} times as "
        "strong with ten bounds as with one (geometric mean)",
    )


if __name__ == "__main__":
    raise SystemExit(main())
