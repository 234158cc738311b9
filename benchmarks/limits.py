"""Limits on rates at a stated confidence: how often they are broken, and what they leave.

Samples of distributions whose rates are known, exactly or from 200,000 new rows, and divisions of
real sets whose test rows stand for new ones. `RateLimitClassifier` and
`TightBoundLogisticRegression` beside the umbrella algorithm of nproc (Tong, Feng & Li, 2018) and
MAPIE's risk control, all at a confidence of 95 %. Nothing was chosen on any of these data.

    python -m benchmarks.limits
"""

import argparse
import importlib.metadata
import importlib.util
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit
from scipy.stats import binom, norm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from benchmarks.data import Split, labelled_table, random_split
from benchmarks.report import measure, now, print_table, say, verdict, write_json
from benchmarks.tight_bound_studies import bank_split, covtype_split, ijcnn1_split
from grayzone import RateLimitClassifier, TightBoundLogisticRegression
from grayzone.datasets import load_dataset
from grayzone.decision.confidence import TooFewRowsError
from grayzone.sources.split import split_rows

CONFIDENCE, HELD_OUT = 0.95, 0.3
NEW_ROWS, SEED_OF_NEW_ROWS = 200_000, 10**6
COLUMNS = ("broken", "± by chance", "FPR", "TPR", "precision", "no statement")


class Rule(NamedTuple):
    """A fitted classifier, and the probability from which on it decides for class 1."""

    model: Any
    threshold: float


class Rows(NamedTuple):
    """Rows, their labels (0, 1) and groups."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray


class Case(NamedTuple):
    """A distribution and what is asked for."""

    draw: Callable[[int, int], Rows]  # rows, seed
    n_rows: int
    limits: dict[str, float]
    model: Any = LogisticRegression()
    grouped: bool = False
    exact: bool = True  # whether rates of linear rules are known exactly


# ------------------------------------------------------------------------------------------
# Distributions
# ------------------------------------------------------------------------------------------


# Of the positive class; the negative one is standard normal.
MEANS, WIDTHS = np.array([1.2, 0.8, 0.4, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 2.0, 1.0])
SHIFT = 0.8


def normal(
    n: int, seed: int, share: float = 0.5, whole: bool = False, grouped: bool = False
) -> Rows:
    """Draw two normal classes in five dimensions; one feature is wider in the positive one."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 5)) * np.where(y[:, None] == 1, WIDTHS, 1.0) + np.outer(y, MEANS)
    groups = (rng.random(n) < 0.4).astype(int) if grouped else np.zeros(n, dtype=int)
    X[:, 0] += SHIFT * groups  # whose negative rows look more like positive ones
    return Rows(np.round(X) if whole else X, y, groups)


def exactly(rule: Rule, share: float, shift: float) -> dict[str, float]:
    """Return rates of a linear rule on `normal` rows."""
    w = rule.model.coef_[0]
    cut = logit(rule.threshold) if 0.0 < rule.threshold < 1.0 else np.sign(rule.threshold) * np.inf
    cut -= rule.model.intercept_[0] + w[0] * shift
    fpr = float(norm.sf(cut / np.linalg.norm(w)))
    tpr = float(norm.sf((cut - w @ MEANS) / np.linalg.norm(w * WIDTHS)))
    taken = share * tpr + (1.0 - share) * fpr
    return {"fpr": fpr, "tpr": tpr, "precision": share * tpr / taken if taken > 0 else 1.0}


CASES = {
    "balanced": Case(normal, 1_000, {"max_fpr": 0.05}),
    "rare positives": Case(partial(normal, share=0.03), 3_000, {"max_fpr": 0.01}),
    "ties: a tree on whole numbers": Case(
        partial(normal, whole=True),
        800,
        {"max_fpr": 0.1},
        DecisionTreeClassifier(max_depth=4, random_state=0),
        exact=False,
    ),
    "two groups": Case(partial(normal, grouped=True), 1_500, {"max_fpr": 0.1}, grouped=True),
    "two limits": Case(normal, 2_000, {"max_fpr": 0.2, "min_recall": 0.6}),
    "recall": Case(partial(normal, share=0.2), 1_500, {"min_recall": 0.9}),
    "precision": Case(partial(normal, share=0.2), 1_500, {"min_precision": 0.7}),
    "precision, ties": Case(
        partial(normal, share=0.3, whole=True),
        1_500,
        {"min_precision": 0.7},
        DecisionTreeClassifier(max_depth=4, random_state=0),
        exact=False,
    ),
}


# ------------------------------------------------------------------------------------------
# Methods
# ------------------------------------------------------------------------------------------


def wrapped(case: Case, rows: Rows, seed: int, **more: Any) -> Rule | None:
    """`RateLimitClassifier`; None where it says that nothing can be stated."""
    model = RateLimitClassifier(
        clone(case.model), **case.limits, confidence=CONFIDENCE, random_state=seed, **more
    )
    try:
        model.fit(rows.X, rows.y, groups=rows.groups if case.grouped else None)
    except ValueError as error:
        if not says_nothing(error):
            raise
        return None
    return Rule(model.estimator_, model.threshold_)


def bounds(case: Case, rows: Rows, seed: int, confidence: float | None) -> Rule | None:
    """`TightBoundLogisticRegression`, which has one limit and no groups."""
    if len(case.limits) > 1 or case.grouped:
        raise NotImplementedError
    settings: dict[str, Any] = {**case.limits, "confidence": confidence, "random_state": seed}
    model = TightBoundLogisticRegression(n_bounds=3, **settings)
    try:
        model.fit(rows.X, rows.y)
    except ValueError as error:
        if not says_nothing(error):
            raise
        return None
    return Rule(model, float(model.threshold_ or 0.0))


def says_nothing(error: ValueError) -> bool:
    """Whether it is no failure, but rows that are too few or too hard for a statement."""
    told = "No threshold keeps", "cannot be kept", "different numbers in a fold"
    return isinstance(error, TooFewRowsError) or any(words in str(error) for words in told)


def parts(case: Case, rows: Rows, seed: int) -> tuple[Any, Rows]:
    """Return the classifier fitted to the same rows as ours, and the rows held out."""
    by_class, rng = "min_precision" not in case.limits, np.random.RandomState(seed)
    train, out = split_rows(rows.y, np.arange(2), HELD_OUT, rng, by_class)
    model = clone(case.model).fit(rows.X[train], rows.y[train])
    return model, Rows(*(column[out] for column in rows))


def umbrella(scores: np.ndarray, limit: float) -> float:
    """Return the order statistic of class-0 scores above which to decide: Algorithm 1 of nproc.

    The least rank k whose violation rate, P(Binomial(n, 1 - limit) >= k), is at most the error.
    """
    n = len(scores)
    rates = binom.sf(np.arange(n), n, 1.0 - limit)  # of the ranks 1 to n
    return float(np.sort(scores)[int(np.argmax(rates <= 1.0 - CONFIDENCE))])


def nproc(case: Case, rows: Rows, seed: int, half: bool) -> Rule | None:
    """The umbrella: on the rows that ours holds out, or on half of class 0 as nproc does."""
    if set(case.limits) != {"max_fpr"} or case.grouped:
        raise NotImplementedError
    if half:
        negative = np.random.RandomState(seed).permutation(np.flatnonzero(rows.y == 0))
        out = negative[: len(negative) // 2]
        train = np.setdiff1d(np.arange(len(rows.y)), out)
        model = clone(case.model).fit(rows.X[train], rows.y[train])
        scores = model.predict_proba(rows.X[out])[:, 1]
    else:
        model, held_out = parts(case, rows, seed)
        scores = model.predict_proba(held_out.X[held_out.y == 0])[:, 1]
    threshold = umbrella(scores, case.limits["max_fpr"])
    return Rule(model, np.nextafter(threshold, np.inf))


def mapie(case: Case, rows: Rows, seed: int, method: str) -> Rule | None:
    """MAPIE's risk control on the rows that ours holds out, by its own list of thresholds.

    A fixed sequence goes from the strictest threshold on, which needs no correction.
    """
    several = len(case.limits) > 1 or "min_precision" in case.limits  # which have no strict end
    if case.grouped or (method == "fixed_sequence" and several):
        raise NotImplementedError
    from mapie.risk_control import BinaryClassificationController

    model, held_out = parts(case, rows, seed)
    named = {"max_fpr": "fpr", "min_recall": "recall", "min_precision": "precision"}
    risks, levels = [named[name] for name in case.limits], list(case.limits.values())
    more: dict[str, Any] = {}
    if method == "fixed_sequence":
        thresholds = np.linspace(0.0, 0.995, 200)
        from_above = "min_recall" not in case.limits
        more = {"list_predict_params": thresholds[::-1] if from_above else thresholds}
    controller = BinaryClassificationController(
        model.predict_proba,
        risks if len(risks) > 1 else risks[0],
        levels if len(risks) > 1 else levels[0],
        confidence_level=CONFIDENCE,
        best_predict_param_choice="fpr" if risks == ["recall"] else "recall",
        fwer_method=method,
        **more,
    )
    controller.calibrate(held_out.X, held_out.y)
    threshold = controller.best_predict_param
    return None if threshold is None else Rule(model, float(threshold))


METHODS: dict[str, Callable[[Case, Rows, int], Rule | None]] = {
    "RateLimitClassifier": wrapped,
    "RateLimitClassifier, cv=5": partial(wrapped, cv=5),
    "TightBoundLogisticRegression": partial(bounds, confidence=CONFIDENCE),
    "the same, training rows alone": partial(bounds, confidence=None),
    "umbrella, the same rows": partial(nproc, half=False),
    "nproc: half of class 0": partial(nproc, half=True),
    "MAPIE, by default": partial(mapie, method="bonferroni_holm"),
    "MAPIE, fixed sequence": partial(mapie, method="fixed_sequence"),
}
# Draws that are enough to see means of those that need no proof here.
FEWER = {
    "RateLimitClassifier, cv=5": 300,
    "the same, training rows alone": 200,
    "MAPIE, by default": 300,
    "MAPIE, fixed sequence": 300,
}
STATED = ("RateLimitClassifier", "TightBoundLogisticRegression")  # that a confidence is stated of


# ------------------------------------------------------------------------------------------
# Runs
# ------------------------------------------------------------------------------------------


def reached(rule: Rule | None, new: Rows, case: Case) -> dict[str, float] | None:
    """Return rates of new rows, and whether a limit is broken in any group."""
    if rule is None:
        return None
    groups = np.unique(new.groups) if case.grouped else [0]
    if case.exact and hasattr(rule.model, "coef_"):
        share = share_of(case)
        found = [exactly(rule, share, SHIFT * g) for g in groups]
    else:
        taken = rule.model.predict_proba(new.X)[:, 1] >= rule.threshold
        found = [seen(taken[new.groups == g], new.y[new.groups == g] == 1) for g in groups]
    means = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
    return {**means, "broken": float(any(breaks(one, case.limits) for one in found))}


def share_of(case: Case) -> float:
    """Return the share of positive rows that a case draws."""
    return getattr(case.draw, "keywords", {}).get("share", 0.5)


def seen(taken: np.ndarray, positive: np.ndarray) -> dict[str, float]:
    """Return rates of decisions on rows."""
    precision = float(positive[taken].mean()) if taken.any() else 1.0
    fpr, tpr = float(taken[~positive].mean()), float(taken[positive].mean())
    return {"fpr": fpr, "tpr": tpr, "precision": precision}


def breaks(found: dict[str, float], limits: dict[str, float]) -> bool:
    """Whether rates break a limit."""
    return (
        found["fpr"] > limits.get("max_fpr", 1.0)
        or found["tpr"] < limits.get("min_recall", 0.0)
        or found["precision"] < limits.get("min_precision", 0.0)
    )


def summary(found: list[dict[str, float] | None]) -> list[float]:
    """Return one row of a table; where nothing is stated nothing is broken, nor found."""
    stated = [one for one in found if one is not None]
    broken = sum(one["broken"] for one in stated) / len(found)
    chance = np.sqrt((1.0 - CONFIDENCE) * CONFIDENCE / len(found))
    means = [
        float(np.mean([one[name] for one in stated])) if stated else float("nan")
        for name in ("fpr", "tpr", "precision")
    ]
    means[1] *= len(stated) / len(found)
    return [broken, float(chance), *means, 1.0 - len(stated) / len(found)]


Found = dict[str, list[dict[str, float] | None]]


def run(case: Case, pairs: Any, methods: Sequence[str]) -> Found:
    """Let all methods decide on draws: pairs of a seed and the rows to learn from, and new ones."""
    found: Found = defaultdict(list)
    able = set(methods)
    for seed, rows, new in pairs:
        for name in methods:
            if name not in able or seed >= FEWER.get(name, seed + 1):
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    rule = METHODS[name](case, rows, seed)
            except NotImplementedError:
                able.discard(name)
                continue
            found[name].append(reached(rule, new, case))
    return found


def simulate(name: str, draws: int, new_rows: int, methods: Sequence[str]) -> Found:
    """Draw rows again and again from a distribution."""
    case = CASES[name]
    new = case.draw(new_rows, SEED_OF_NEW_ROWS)
    return run(case, ((s, case.draw(case.n_rows, s), new) for s in range(draws)), methods)


# ------------------------------------------------------------------------------------------
# Real data
# ------------------------------------------------------------------------------------------

LEARNT = 3_000  # rows to learn from; all others are new ones
REAL_LIMITS = (0.01, 0.05)


@cache
def a9a() -> tuple[np.ndarray, np.ndarray]:
    """Return a9a's indicators; label 1 is an income above 50,000."""
    data = load_dataset("a9a")
    return data.data.astype(np.float64), (data.target == 1).astype(int)


def a9a_split(seed: int) -> Split:
    """Divide a9a."""
    X, y = a9a()
    return random_split(X, y, LEARNT, seed)


def spam_split(seed: int) -> Split:
    """Divide spambase, which is small: half as many rows to learn from."""
    X, y = labelled_table("spambase")
    return random_split(X, y, LEARNT // 2, seed)


REAL: dict[str, Callable[[int], Split]] = {
    "ijcnn1": partial(ijcnn1_split, LEARNT),
    "bank_marketing": bank_split,
    "covtype": partial(covtype_split, LEARNT),
    "a9a": a9a_split,
    "spambase": spam_split,
}


def division(name: str, seed: int) -> tuple[int, Rows, Rows]:
    """Return rows to learn from and all others, which stand for new ones."""
    split = REAL[name](seed)
    learnt = Rows(split.X_train, split.y_train, np.zeros_like(split.y_train))
    return seed, learnt, Rows(split.X_test, split.y_test, np.zeros_like(split.y_test))


def divide(name: str, limit: float, splits: int, methods: Sequence[str]) -> Found:
    """Divide a real set again and again."""
    case = Case(normal, LEARNT, {"max_fpr": limit}, exact=False)
    return run(case, (division(name, seed) for seed in range(splits)), methods)


# ------------------------------------------------------------------------------------------
# Command line
# ------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.limits", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--draws", type=int, default=1_000, help="samples of each distribution (default: 1,000)")
    add("--splits", type=int, default=40, help="divisions of each real set (default: 40)")
    add("--quick", action="store_true", help="few draws: does everything run?")
    add("--cases", default=";".join(CASES), help="distributions, separated by semicolons")
    add("--methods", default=";".join(METHODS), help="methods, separated by semicolons")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    draws, splits = (10, 2) if options.quick else (options.draws, options.splits)
    methods = [
        name
        for name in options.methods.split(";")
        if not name.startswith("MAPIE") or mapie_version()
    ]
    results: dict[str, Any] = {"mapie": mapie_version(), "measured": now()}
    start = time.perf_counter()
    with threadpool_limits(limits=options.threads):
        results["simulated"] = {
            name: simulate(name, draws, NEW_ROWS if not options.quick else 20_000, methods)
            for name in options.cases.split(";")
            if name and show(name)
        }
        results["real"] = {
            f"{name}, {limit:g}": divide(name, limit, splits, methods)
            for name in REAL
            for limit in REAL_LIMITS
            if splits and show(f"{name}, {limit:g}")
        }
    results["seconds"] = time.perf_counter() - start
    for kind in ("simulated", "real"):
        for name, found in results[kind].items():
            shown(kind, name, found)
    judge(results["simulated"], f"{draws:,} draws of each of {len(results['simulated'])} cases")
    judge(results["real"], f"{splits} divisions of each real set, at two limits")
    write_json("limits", results, options.output)
    return 0


def mapie_version() -> str | None:
    """Return MAPIE's version, None where it is not installed."""
    if importlib.util.find_spec("mapie") is None:
        return None
    return importlib.metadata.version("mapie")


def show(name: str) -> bool:
    """Say what comes next."""
    say(name)
    return True


def shown(kind: str, name: str, found: Found) -> None:
    """Show a table of one case."""
    case = CASES.get(name)
    asked = "" if case is None else ", ".join(f"{k}={v:g}" for k, v in case.limits.items())
    title = f"{name}: {asked}, {case.n_rows:,} rows" if case else f"{name} (max_fpr)"
    print_table(
        f"{kind}, {title}", ("method", *COLUMNS), [[m, *summary(f)] for m, f in found.items()]
    )


def judge(results: dict[str, Found], what: str) -> None:
    """Say whether limits are broken no more often than stated, in the worst case and on average."""
    for method in STATED:
        rows = {name: summary(found[method]) for name, found in results.items() if method in found}
        if not rows:
            continue
        worst = max(rows, key=lambda name: rows[name][0])
        broken, chance = rows[worst][:2]
        met = broken <= 1.0 - CONFIDENCE + 2.0 * chance
        mean = float(np.mean([row[0] for row in rows.values()]))
        verdict(
            f"{method}: limits broken in at most {1.0 - CONFIDENCE:.0%} ({what})",
            "met" if met else "missed",
            f"at most {broken:.1%} ({worst}; ± {chance:.1%} by chance), {mean:.1%} on average",
        )
        measure(f"{method}, broken, {what}", mean, better="lower", slack=2.0 * chance)


if __name__ == "__main__":
    raise SystemExit(main())
