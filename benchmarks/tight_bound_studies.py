"""Decisions of tighter bounds beside thresholds on the log-loss fit: FPR limits, and undecided.

`fpr`: three unbalanced sets and a small one that hardly is, several random divisions. Is the limit
kept on training data; is the mean rate on test data the one asked for, with a held-out threshold;
and how many positives are found at that false positive rate, beside logistic regression with a
threshold. `reject`: mean reward of decisions (1 if right, 0 if wrong, 1 less the price if
undecided) beside Chow's rule on the log-loss fit, six sets; by ten bounds, and by "direct", which
descends what they bound. The penalties of all, and under limits the number of bounds, are chosen on
the same folds.

    python -m benchmarks.tight_bound_studies
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from benchmarks.data import (
    Split,
    bank_marketing,
    covtype_binary,
    ijcnn1_ordered,
    labelled_table,
    random_split,
    thinned,
)
from benchmarks.papers.tight_bound_tables import Cells
from benchmarks.report import RESULTS, measure, print_table, verdict
from grayzone import BayesDecisionClassifier, TightBoundLogisticRegression

SPLITS, QUICK_SPLITS = 20, 2
BOUNDS = 10
# Limits on the false positive rate
LIMITS = (0.05, 0.1)
HELD_OUT = 0.25
FPR_CS, FPR_BOUNDS, FPR_FOLDS = (0.1, 1.0, 10.0, 100.0), (1, 3, 10), 3
FEW_ROWS = 3_000  # for training; the others tell the rates of a model precisely
POOL_ROWS, THIN_NEGATIVES, THIN_RATIO = 200_000, 12_000, 20
# Undecided
REJECT_COSTS = (0.1, 0.3)
REJECT_CS, REJECT_FOLDS = (0.01, 0.1, 1.0, 10.0), 4
REJECT_ROWS = 4_000
SECTIONS = ("fpr", "reject")

Record = dict[str, Any]
Fit = Callable[[np.ndarray, np.ndarray], Any]


def bank_split(seed: int) -> Split:
    """Divide the bank's calls: 3,000 rows for training."""
    return random_split(*bank_marketing(), FEW_ROWS, seed)


def ijcnn1_split(n_train: int, seed: int) -> Split:
    """Divide the first 80 % of ijcnn1 at random."""
    X, y, _, _ = ijcnn1_ordered()
    return random_split(X, y, n_train, seed)


def covtype_split(n_train: int, seed: int) -> Split:
    """Divide a part of covertype at random."""
    return random_split(*covtype_pool(), n_train, seed)


def table_split(name: str, seed: int) -> Split:
    """Divide a table: two thirds for training."""
    X, y = labelled_table(name)
    return random_split(X, y, 2 * len(y) // 3, seed)


@cache
def covtype_pool() -> tuple[np.ndarray, np.ndarray]:
    """Load the rows that unbalanced sets are drawn from."""
    return covtype_binary(POOL_ROWS)


def thin_split(seed: int) -> Split:
    """Draw 12,000 negatives and 600 positives of covertype, a quarter of them for training."""
    X, y = thinned(*covtype_pool(), THIN_NEGATIVES, THIN_RATIO, seed)
    return random_split(X, y, len(y) // 4, seed)


FPR_SETS: dict[str, Callable[[int], Split]] = {
    "bank_marketing": bank_split,
    "ijcnn1": partial(ijcnn1_split, FEW_ROWS),
    "covtype, 1:20": thin_split,
    "german_credit_numeric": partial(table_split, "german_credit_numeric"),
}
SMALL_SETS = ("pima_diabetes", "statlog_heart")  # 512 and 180 training rows: shown, not counted
BALANCED = "german_credit_numeric"  # 30 % positives: shown, but not one of the unbalanced ones
REJECT_SETS: dict[str, Callable[[int], Split]] = {
    "ijcnn1": partial(ijcnn1_split, REJECT_ROWS),
    "covtype": partial(covtype_split, REJECT_ROWS),
    **{
        name: partial(table_split, name)
        for name in ("spambase", "german_credit_numeric", "pima_diabetes", "statlog_heart")
    },
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the studies.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tight_bound_studies", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all by default")
    add("--splits", type=int, help=f"random divisions (default: {SPLITS})")
    add("--quick", action="store_true", help=f"{QUICK_SPLITS} divisions: does everything run?")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="the JSON file, continued if it exists")
    options = parser.parse_args(argv)
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    if splits < 2:
        parser.error("--splits must be at least 2: there are standard errors to compute")
    path = options.output or RESULTS / f"tight_bound_studies{'_quick' * options.quick}.json"
    cells = Cells("tight_bound_studies", path)
    results: Record = {"splits": splits}
    sections = options.sections or SECTIONS
    with threadpool_limits(limits=options.threads):
        if "fpr" in sections:
            results["fpr"] = list(fpr_study(cells, splits))
            print_fpr(results["fpr"])
            judge_fpr(results["fpr"])
        if "reject" in sections:
            prices = REJECT_COSTS[1:2] if options.quick else REJECT_COSTS
            results["reject"] = list(reject_study(cells, splits, prices))
            print_reject(results["reject"])
            judge_reject(results["reject"])
    cells.write(results, announce=True)
    return 0


def choose(
    makers: Sequence[Fit],
    score: Callable[[Any, np.ndarray, np.ndarray], float],
    split: Split,
    n_folds: int,
    seed: int,
) -> Any:
    """Return the maker with the best mean score over folds of the training part."""
    X, y = split.X_train, split.y_train
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    scores = np.zeros(len(makers))
    for fitted, out in folds.split(X, y):
        scores += [score(fit(X[fitted], y[fitted]), X[out], y[out]) for fit in makers]
    return makers[int(np.argmax(scores))]


def logistic(C: float) -> LogisticRegression:
    """Return the log-loss fit."""
    return LogisticRegression(C=C, max_iter=2_000)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of values and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


# ----------------------------------------------------------------------------------------------
# Limits on the false positive rate
# ----------------------------------------------------------------------------------------------


def fpr_study(cells: Cells, splits: int) -> Iterator[Record]:
    """Run all sets and limits; give a record of each."""
    for name, divide in FPR_SETS.items():
        for limit in LIMITS:
            key = f"{name}, FPR <= {limit:g}"
            runs = [
                cells.get(f"{key}, division {seed}", partial(limit_one, divide, limit, seed))
                for seed in range(splits)
            ]
            yield {"data": name, "limit": limit, **summarise_fpr(runs, limit)}


def limit_one(divide: Callable[[int], Split], limit: float, seed: int) -> Record:
    """Choose both penalties on one division, refit, and measure rates on the test part."""
    split = divide(seed)
    score = partial(tpr_at, limit)
    ours = [partial(_fit_limited, C, T, limit) for C in FPR_CS for T in FPR_BOUNDS]
    theirs = [partial(_fit_logistic, C) for C in FPR_CS]
    fit_ours, fit_theirs = (choose(m, score, split, FPR_FOLDS, seed) for m in (ours, theirs))
    model = fit_ours(split.X_train, split.y_train)
    plain = fit_theirs(split.X_train, split.y_train)
    held_out = {"validation_fraction": HELD_OUT, "random_state": seed}
    careful = fit_ours(split.X_train, split.y_train, **held_out)
    C, T = fit_ours.args[:2]
    return {
        "C": C,
        "bounds": T,
        "C_logistic": fit_theirs.args[0],
        "train_fpr": fpr(model, split.X_train, split.y_train),
        "test_fpr": fpr(model, split.X_test, split.y_test),
        "test_fpr_held_out": fpr(careful, split.X_test, split.y_test),
        "tpr": tpr_at(limit, model, split.X_test, split.y_test),
        "tpr_logistic": tpr_at(limit, plain, split.X_test, split.y_test),
    }


def _fit_limited(
    C: float, n_bounds: int, limit: float, X: np.ndarray, y: np.ndarray, **parameters: Any
) -> Any:
    # the order of the rows is judged here; benchmarks.limits judges thresholds at a confidence
    parameters = {"max_fpr": limit, "confidence": None, **parameters}
    model = TightBoundLogisticRegression(C=C, n_bounds=n_bounds, **parameters)
    return model.fit(X, y)


def _fit_logistic(C: float, X: np.ndarray, y: np.ndarray) -> Any:
    return logistic(C).fit(X, y)


def fpr(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the false positive rate of decisions."""
    return float(np.mean(model.predict(X[y == 0]) == 1))


def tpr_at(limit: float, model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the true positive rate where the false one is just the limit on these very rows."""
    scores = model.decision_function(X)
    negatives = np.sort(scores[y == 0])[::-1]
    return float(np.mean(scores[y == 1] > negatives[int(limit * len(negatives))]))


def summarise_fpr(runs: Sequence[Record], limit: float) -> Record:
    """Average over divisions."""
    held_out, held_out_se = spread([run["test_fpr_held_out"] for run in runs])
    gains = [run["tpr"] - run["tpr_logistic"] for run in runs]
    gain, gain_se = spread(gains)
    return {
        "train_fpr_max": max(run["train_fpr"] for run in runs),
        "kept_in_training": all(run["train_fpr"] <= limit for run in runs),
        "test_fpr": float(np.mean([run["test_fpr"] for run in runs])),
        "test_fpr_held_out": held_out,
        "test_fpr_held_out_se": held_out_se,
        "held_out_agrees": abs(held_out - limit) <= 2 * held_out_se,
        "tpr": float(np.mean([run["tpr"] for run in runs])),
        "tpr_logistic": float(np.mean([run["tpr_logistic"] for run in runs])),
        "gain": gain,
        "gain_se": gain_se,
        "better": sum(g > 0 for g in gains),
        "worse": sum(g < 0 for g in gains),
    }


def print_fpr(records: Sequence[Record]) -> None:
    """Print how limits are kept, and what they are worth."""
    print_table(
        "limits on the false positive rate (mean ± standard error over divisions)",
        ("", "limit", "train, most", "test", "test, held-out threshold", "agrees"),
        [
            [
                r["data"],
                f"{r['limit']:g}",
                f"{r['train_fpr_max']:.4f}" + " EXCEEDED" * (not r["kept_in_training"]),
                f"{r['test_fpr']:.4f}",
                f"{r['test_fpr_held_out']:.4f} ± {r['test_fpr_held_out_se']:.4f}",
                "yes" if r["held_out_agrees"] else "NO",
            ]
            for r in records
        ],
    )
    print_table(
        "true positive rate at a test FPR of just the limit",
        ("", "limit", "bounds", "log-loss + threshold", "gain", "better / worse"),
        [
            [
                r["data"],
                f"{r['limit']:g}",
                f"{r['tpr']:.4f}",
                f"{r['tpr_logistic']:.4f}",
                f"{r['gain']:+.4f} ± {r['gain_se']:.4f}",
                f"{r['better']} / {r['worse']}",
            ]
            for r in records
        ],
    )


def judge_fpr(records: Sequence[Record]) -> None:
    """Say whether limits are kept, and whether they are worth training for."""
    unbalanced = [r for r in records if r["data"] != BALANCED]
    kept = all(r["kept_in_training"] for r in records)
    verdict(
        "FPR limit kept in training",
        "met" if kept else "missed",
        f"largest training FPR at each limit: {_most(records)}",
    )
    agree = [r["held_out_agrees"] for r in records]
    verdict(
        "Test FPR with a held-out threshold within two standard errors of the limit",
        "met" if all(agree) else "missed",
        f"{sum(agree)} of {len(agree)} sets and limits",
    )
    gain = float(np.mean([r["gain"] for r in unbalanced]))
    error = float(np.sqrt(np.mean([r["gain_se"] ** 2 for r in unbalanced]) / len(unbalanced)))
    verdict(
        "TPR at matched FPR above log-loss + threshold, on average of three unbalanced sets",
        "met" if gain > 0 else "missed",
        f"{gain:+.4f} ± {error:.4f}; "
        + ", ".join(f"{r['data']} at {r['limit']:g}: {r['gain']:+.4f}" for r in records),
    )
    measure("gain in TPR", gain, better="higher", slack=2 * error)


def _most(records: Sequence[Record]) -> str:
    found = {
        limit: max(r["train_fpr_max"] for r in records if r["limit"] == limit) for limit in LIMITS
    }
    return ", ".join(f"{value:.4f} for {limit:g}" for limit, value in found.items())


# ----------------------------------------------------------------------------------------------
# Undecided
# ----------------------------------------------------------------------------------------------


def reject_study(cells: Cells, splits: int, prices: Sequence[float]) -> Iterator[Record]:
    """Run all sets, prices and methods; give a record of each set and price."""
    for name in REJECT_SETS:
        for cost in prices:
            runs = {
                method: [
                    cells.get(
                        f"{name}, undecided costs {cost:g}, {method}, division {seed}",
                        partial(reject_one, name, cost, method, seed),
                    )
                    for seed in range(splits)
                ]
                for method in REJECT_METHODS
            }
            yield {"data": name, "cost": cost, "methods": summarise_reject(runs)}


def reject_one(name: str, cost: float, method: str, seed: int) -> Record:
    """Choose the penalty on one division, refit, and measure the reward on the test part."""
    split = REJECT_SETS[name](seed)
    score = partial(reward, cost)
    makers = [partial(REJECT_METHODS[method], C, cost) for C in REJECT_CS]
    fit = choose(makers, score, split, REJECT_FOLDS, seed)
    model = fit(split.X_train, split.y_train)
    return {
        "C": fit.args[0],
        "reward": score(model, split.X_test, split.y_test),
        "undecided": float(np.mean(model.predict(split.X_test) == -1)),
    }


def fit_bounds(C: float, cost: float, X: np.ndarray, y: np.ndarray) -> Any:
    """Fit ten bounds, one after the other."""
    return TightBoundLogisticRegression(C=C, n_bounds=BOUNDS, reject_cost=cost).fit(X, y)


def fit_direct(C: float, cost: float, X: np.ndarray, y: np.ndarray) -> Any:
    """Descend what the bounds bound."""
    model = TightBoundLogisticRegression(C=C, n_bounds=BOUNDS, solver="direct", reject_cost=cost)
    return model.fit(X, y)


def fit_chow(C: float, cost: float, X: np.ndarray, y: np.ndarray) -> Any:
    """Fit the log-loss, and decide by Chow's rule."""
    return BayesDecisionClassifier(logistic(C), reject_cost=cost).fit(X, y)


CHOW = "Chow's rule"
REJECT_METHODS: dict[str, Callable[..., Any]] = {
    "ten bounds": fit_bounds,
    "direct": fit_direct,
    CHOW: fit_chow,
}


def reward(cost: float, model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return the mean reward of decisions."""
    decided = model.predict(X)
    return float(np.mean(np.where(decided == -1, 1.0 - cost, decided == y)))


def summarise_reject(runs: dict[str, list[Record]]) -> dict[str, Record]:
    """Average over divisions; gains are over Chow's rule on the same division."""
    found = {}
    for method, own in runs.items():
        pairs = zip(own, runs[CHOW], strict=True)
        gains = [run["reward"] - rival["reward"] for run, rival in pairs]
        gain, gain_se = spread(gains)
        found[method] = {
            "reward": float(np.mean([run["reward"] for run in own])),
            "undecided": float(np.mean([run["undecided"] for run in own])),
            "gain": gain,
            "gain_se": gain_se,
            "better": sum(g > 0 for g in gains),
            "worse": sum(g < 0 for g in gains),
        }
    return found


def judge_reject(records: Sequence[Record]) -> None:
    """Say on how many sets ten bounds earn more than Chow's rule, all prices together."""
    found = {}
    for name in REJECT_SETS:
        own = [r["methods"]["ten bounds"] for r in records if r["data"] == name]
        gain = float(np.mean([m["gain"] for m in own]))
        # the divisions are the same at all prices: their errors do not average out
        found[name] = gain, float(np.mean([m["gain_se"] for m in own]))
        measure(
            f"reward above Chow's rule, {name}", gain, better="higher", slack=2 * found[name][1]
        )
    large = [name for name in found if name not in SMALL_SETS]
    better = [name for name in large if found[name][0] > 0]
    told = {name: f"{name} {gain:+.4f} ± {error:.4f}" for name, (gain, error) in found.items()}
    verdict(
        "Reward above Chow's rule on at least three of four sets of 1,000 rows or more",
        "met" if len(better) >= 3 else "missed",
        f"above on {len(better)} of {len(large)}: "
        + ", ".join(told[name] for name in large)
        + "; smaller ones, not counted: "
        + ", ".join(told[name] for name in SMALL_SETS),
    )


def print_reject(records: Sequence[Record]) -> None:
    """Print rewards beside Chow's rule."""
    print_table(
        "mean reward with undecided as an action (± standard error over divisions)",
        ("", "price", "", "reward", "undecided", "less Chow's", "better / worse"),
        [
            [
                record["data"],
                f"{record['cost']:g}",
                method,
                f"{own['reward']:.4f}",
                f"{own['undecided']:.2f}",
                None if method == CHOW else f"{own['gain']:+.4f} ± {own['gain_se']:.4f}",
                None if method == CHOW else f"{own['better']} / {own['worse']}",
            ]
            for record in records
            for method, own in record["methods"].items()
        ],
    )


if __name__ == "__main__":
    raise SystemExit(main())
