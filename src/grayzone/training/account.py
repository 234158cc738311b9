"""What decisions of the kept model will cost, against rules that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import binomtest

from grayzone.decision.cost_interval import CROSS_FITTED, CostInterval, cost_interval
from grayzone.reporting.parts import (
    ALARMED,
    COST,
    MISSED,
    Compared,
    Finding,
    GrayZone,
    Limit,
    Promise,
    Rule,
    Verdict,
)
from grayzone.tables.errors import shortened
from grayzone.training.candidates import BY_SIMPLICITY, ENSEMBLE, FAMILIES
from grayzone.training.comparison import Comparison, Fitted, Outcome, Task, rules_of
from grayzone.training.stakes import CONFIDENCE

Array = Any

_MEASURES = {"max_fpr": MISSED, "min_precision": MISSED, "min_recall": ALARMED}
_RATES = {
    "max_fpr": "false positive rate",
    "min_recall": "recall",
    "min_precision": "precision",
}


def mean_and_error(
    values: Array, weight: Array | None = None, groups: Array | None = None
) -> tuple[float, float]:
    """Mean and its standard error; rows of one group are counted as one draw.

    Examples
    --------
    >>> from grayzone.training.account import mean_and_error
    >>> mean_and_error([0.0, 0.0, 1.0, 1.0])[0]
    0.5
    """
    values = np.asarray(values, dtype=np.float64)
    share = np.ones(len(values)) if weight is None else np.asarray(weight, dtype=np.float64)
    share = share / share.sum()
    # from one of them, so that what is the same for all rows has no error
    mean = float(values[0] + share @ (values - values[0]))
    parts = share * (values - mean)
    if groups is not None:
        parts = np.bincount(np.unique(groups, return_inverse=True)[1], parts)
    n = len(parts)
    return mean, float(np.sqrt(n / max(n - 1, 1) * np.sum(parts**2)))


def promise_of(task: Task, kept: Fitted) -> Promise:
    """Cost of a decision on new rows, and of rules that need no model."""
    paid, possible = task.paid(kept.proba, kept.rows, kept.cut), task.possible(kept.rows)
    low, high, error = _interval(task, kept, paid, possible)
    rules = rules_of(task, kept.rows)
    return Promise(
        cost=_mean(paid, kept),
        error=error,
        low=low,
        high=high,
        rows=len(kept.rows),
        rules=tuple(Rule(name, _mean(costs, kept)) for name, costs in rules.items()),
        how=_how(task, kept),
    )


def _interval(task: Task, kept: Fitted, paid: Array, possible: Array) -> CostInterval:
    """Bound the mean of what decisions of the kept model cost."""
    return cost_interval(
        paid,
        possible,
        task.codes[kept.rows],
        CONFIDENCE,
        weight=kept.weight,
        groups=_groups(task, kept.rows),
        forgiven=CROSS_FITTED,
    )


def _mean(values: Array, kept: Fitted) -> float:
    return float(np.average(values, weights=kept.weight))


def close_to_best(promise: Promise, best: float) -> str:
    """Say how near decisions are to the best possible, where that is known.

    Examples
    --------
    >>> from grayzone.reporting.parts import Promise, Rule
    >>> from grayzone.training.account import close_to_best
    >>> promise = Promise(1.0, 0.1, 0.8, 1.2, 500, (Rule("always no", 4.0),), "")
    >>> close_to_best(promise, 0.5).partition(": ")[2]
    "this model's cost 1, 'always no' 4. Of what can be saved at all it saves 86%."
    """
    rule = min(promise.rules, key=lambda rule: rule.cost)
    share = (rule.cost - promise.cost) / (rule.cost - best)
    return (
        "These rows are generated, and their true probabilities are known. The best decisions "
        f"possible cost {best:.4g} a row: this model's cost {promise.cost:.4g}, {rule.name!r} "
        f"{rule.cost:.4g}. Of what can be saved at all it saves {share:.0%}."
    )


def _groups(task: Task, rows: Array) -> Array | None:
    return None if task.groups is None else task.groups[rows]


def _how(task: Task, kept: Fitted) -> str:
    what = f"{len(kept.rows):,} rows"
    if task.time is not None:
        return f"Seen on {what} of later times, each decided on by a model of earlier ones."
    of = f" of {len(task.codes):,}, all of rare classes" * (len(kept.rows) < len(task.codes))
    together = ", no group on both sides" if task.groups is not None else ""
    return (
        f"Seen on {what}{of}, each decided on by a model that was fitted without it "
        f"(cross-validation in {len(kept.folds)} folds{together})."
    )


def verdict_of(task: Task, kept: Fitted, promise: Promise, limit: Limit | None) -> Verdict:
    """Say in one sentence whether the model is worth using."""
    if limit is not None:
        return _verdict_at_limit(task, kept, limit)
    rows = kept.rows
    paid, rules = task.paid(kept.proba, rows, kept.cut), rules_of(task, rows)
    best = min(rules, key=lambda name: _mean(rules[name], kept))
    constant, rule = _mean(rules[best], kept), rules[best]
    gain = constant - promise.cost
    # one that costs as much as the rule passes in one of forty tables
    more = _interval(task, kept, paid - rule, task.possible(rows) - rule[:, None])
    if more.high < 0.0:
        return Verdict(
            True,
            f"Decisions of this model cost {promise.cost:.4g} a row on new rows like these "
            f"({promise.low:.4g} to {promise.high:.4g} with a probability of {CONFIDENCE:g}), "
            f"{gain / constant:.0%} less than {best!r}, the best rule that needs no model "
            f"({constant:.4g}).",
        )
    why = f"{best!r}, which needs no model and costs {constant:.4g} a row"
    if np.array_equal(paid, rule):
        return Verdict(False, f"Do not deploy: for every row this model decides as {why}.")
    return Verdict(False, f"Do not deploy: {_useless(why, -gain, more)}")


def with_caution(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    """Name columns that are likely leaks beside what a model that learned from them promises.

    Examples
    --------
    >>> from grayzone.reporting.parts import Finding, Verdict
    >>> from grayzone.training.account import with_caution
    >>> leak = Finding("leak", ("loss",), "…", serious=True, caution="it alone decides nearly all")
    >>> with_caution(Verdict(True, "Decisions cost 1 a row."), [leak]).sentence
    "Decisions cost 1 a row, but check 'loss' first: it alone decides nearly all."
    """
    leaks = [found for found in findings if found.kind == "leak" and found.serious]
    if not verdict.deploy or not leaks:
        return verdict
    names = list(dict.fromkeys(name for found in leaks for name in found.columns))
    why = leaks[0].caution if len(names) == 1 else "each may be known only after the outcome"
    said = verdict.sentence.removesuffix(".")
    return replace(verdict, sentence=f"{said}, but check {shortened(names)} first: {why}.")


def _useless(rule: str, extra: float, between: CostInterval) -> str:
    """Say that a rule is as good as the model, which costs so much more."""
    ends = f"{between.low:.2g} to {between.high:.2g} with a probability of {CONFIDENCE:g}"
    if between.low > 0.0:
        return f"this model costs {extra:.2g} more ({ends}) than {rule}."
    more = f"{abs(extra):.2g} {'more' if extra > 0.0 else 'less'}"
    return f"this model is not shown to be better than {rule}: it costs {more} (from {ends})."


def _verdict_at_limit(task: Task, kept: Fitted, limit: Limit) -> Verdict:
    """Whether positives are found more often than by alarms drawn at random."""
    positive = task.codes[kept.rows] == 1
    alarms = task.decided(kept.proba, kept.rows, kept.cut) == 1
    recall, alarmed = (
        float(np.average(alarms[of], weights=kept.weight[of])) for of in (positive, ~positive)
    )
    # at these costs alarms that are drawn at random cost 1, however many they are
    prior = np.average(positive, weights=kept.weight)
    miss, alarm = positive / prior, ~positive / (1.0 - prior)
    paid, possible = np.where(alarms, alarm, miss), np.column_stack([miss, alarm])
    label, rate = task.stakes.positive, _RATES[limit.kind]
    sign = "at most" if limit.kind == "max_fpr" else "at least"
    if _interval(task, kept, paid, possible).high < 1.0:
        return Verdict(
            True,
            f"With a {rate} of {sign} {limit.limit:g} on new rows like these, which holds with a "
            f"probability of {limit.confidence:g}, this model finds {recall:.1%} of {label!r} and "
            f"raises an alarm for {alarmed:.2%} of the others.",
        )
    return Verdict(
        False,
        f"Do not deploy: with a {rate} of {sign} {limit.limit:g} this model finds {recall:.1%} of "
        f"{label!r} and raises an alarm for {alarmed:.2%} of the others, no better within the "
        "error than alarms that are drawn at random.",
    )


def _some(groups: Array | None, of: Array) -> Array | None:
    return None if groups is None else groups[of]


def limit_of(task: Task, kept: Fitted) -> Limit | None:
    """Return the rate that is reached where a limit was asked for, by rows held out for it."""
    target = task.stakes.limit
    if target is None:
        return None
    held = np.isin(kept.rows, kept.held_out)
    positive = task.codes[kept.rows] == 1
    alarms = task.decided(kept.proba, kept.rows, kept.cut) == 1
    of, hits = {
        "max_fpr": (held & ~positive, alarms),
        "min_recall": (held & positive, alarms),
        "min_precision": (held & alarms, positive),
    }[target.name]
    k, n = int(np.sum(hits & of)), int(np.sum(of))
    low, high = binomtest(k, n).proportion_ci(CONFIDENCE) if n else (0.0, 1.0)
    return Limit(
        target.name,
        target.value,
        CONFIDENCE,
        k / n if n else float("nan"),
        float(low),
        float(high),
        f"{k:,} of {n:,} rows that were held out of the fit, and set the threshold.",
    )


def gray_zone_of(task: Task, kept: Fitted) -> GrayZone:
    """Rows whose best decision would change with the costs."""
    stakes = task.stakes
    near = stakes.near(kept.proba, task.costs_at(kept.rows), kept.cut)
    ends = None if task.costs is not None else stakes.near_range(kept.cut)
    low, high = ends or (None, None)
    factor = stakes.factor if stakes.reach is None else None
    return GrayZone(low, high, _mean(near, kept), factor)


def compared_of(task: Task, found: Comparison, chosen: str) -> list[Compared]:
    """Means of a measure, and paired differences to the model that is kept."""
    limit = task.stakes.limit
    measure = COST if limit is None else _MEASURES[limit.name]
    kept = next(o.losses for o in found.outcomes if o.name == chosen)
    return [_compared(task, found, outcome, kept, measure, chosen) for outcome in found.outcomes]


def _compared(
    task: Task, found: Comparison, outcome: Outcome, kept: Array, measure: str, chosen: str
) -> Compared:
    baseline = outcome.name not in FAMILIES and outcome.name != ENSEMBLE
    mine = outcome.name == chosen
    told = (outcome.seconds, baseline, mine, outcome.left_out, measure)
    if outcome.losses is None:
        return Compared(outcome.name, None, None, *told)
    mean, error = _of_counted(task, found, outcome.losses)
    if mine:
        return Compared(outcome.name, mean, error, *told)
    difference = _of_counted(task, found, outcome.losses - kept)
    return Compared(outcome.name, mean, error, *told, *difference)


def _of_counted(task: Task, found: Comparison, losses: Array) -> tuple[float, float]:
    counted = ~np.isnan(losses)
    groups = _some(_groups(task, found.rows), counted)
    return mean_and_error(losses[counted], found.weight[counted], groups)


def as_good(task: Task, found: Comparison) -> Compared | None:
    """Return the simplest model within one standard error of the ensemble, if there is one."""
    compared = {c.name: c for c in compared_of(task, found, ENSEMBLE)}
    for name in BY_SIMPLICITY:
        c = compared.get(name)
        if c is None or c.difference is None or c.difference_error is None:
            continue
        if c.difference <= c.difference_error:
            return c
    return None
