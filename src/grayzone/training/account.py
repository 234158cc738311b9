"""What decisions of the kept model will cost, against rules that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest

from grayzone.decision.cost_interval import CROSS_FITTED, CostInterval, cost_interval
from grayzone.reporting.markup import percent
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
    together = f", no {task.together} on both sides" if task.together else ""
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
            f"{percent(gain / constant)} less than {best!r}, the best rule that needs no model "
            f"({constant:.4g}).",
        )
    why = f"{best!r}, which needs no model and costs {constant:.4g} a row"
    if np.array_equal(paid, rule):
        return Verdict(False, f"Do not deploy: for every row this model decides as {why}.")
    return Verdict(False, f"Do not deploy: {_useless(why, -gain, more)}")


def with_caution(verdict: Verdict, findings: Sequence[Finding]) -> Verdict:
    r"""Hold back a model that learned from likely leaks: name these, and say what to do first.

    Examples
    --------
    >>> from grayzone.reporting.parts import Finding, Verdict
    >>> from grayzone.training.account import with_caution
    >>> leak = Finding("leak", ("loss",), "…", serious=True, caution="it alone decides nearly all")
    >>> held = with_caution(Verdict(True, "Decisions cost 1 a row."), [leak])
    >>> held.deploy, held.check
    (False, ('loss',))
    >>> print(held.sentence.replace(". ", ".\n"))
    Do not deploy yet: check 'loss' first, as it alone decides nearly all.
    If it is not known when decisions are made, train without it.
    If it is known, this holds: Decisions cost 1 a row.
    """
    leaks = [found for found in findings if found.kind == "leak" and found.serious]
    if not verdict.deploy or not leaks:
        return verdict
    names = list(dict.fromkeys(name for found in leaks for name in found.columns))
    one = len(names) == 1
    why = leaks[0].caution if one else "each may be known only after the outcome"
    it, known = ("it", "it is") if one else ("them", "they are")
    return Verdict(
        False,
        f"Do not deploy yet: check {shortened(names)} first, as {why}. If {known} not known when "
        f"decisions are made, train without {it}. If {known} known, this holds: "
        f"{verdict.sentence}",
        tuple(names),
    )


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
            f"probability of {limit.confidence:g}, this model finds {percent(recall)} of {label!r} "
            f"and raises an alarm for {percent(alarmed)} of the others.",
        )
    return Verdict(
        False,
        f"Do not deploy: with a {rate} of {sign} {limit.limit:g} this model finds "
        f"{percent(recall)} of {label!r} and raises an alarm for {percent(alarmed)} of the others, "
        "no better within the error than alarms that are drawn at random.",
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
    near = stakes.near(kept.proba, task.known_at(kept.rows), kept.cut)
    ends = None if task.known is not None else stakes.near_range(kept.cut)
    low, high = ends or (None, None)
    factor = stakes.factor if stakes.reach is None else None
    return GrayZone(low, high, _mean(near, kept), factor)


def compared_of(task: Task, found: Comparison, kept: Fitted, promise: Promise) -> list[Compared]:
    """Means of a measure, and paired differences to the model that is kept.

    The kept model and decisions without a model cost what was promised. Other models may be known
    on fewer rows: their mean is the promise plus the difference on those. Under a limit, all are
    measured at the thresholds where these rows just meet it, without the margin of the kept one.
    """
    return [_compared(task, found, outcome, kept, promise) for outcome in found.outcomes]


def _compared(
    task: Task, found: Comparison, outcome: Outcome, kept: Fitted, promise: Promise
) -> Compared:
    name, limit = outcome.name, task.stakes.limit
    baseline = name not in FAMILIES and name != ENSEMBLE
    measure = COST if limit is None else _MEASURES[limit.name]
    told = (outcome.seconds, baseline, name == kept.name, outcome.left_out, measure)
    if outcome.losses is None:
        return Compared(name, None, None, *told)
    mean, error = _of_counted(task, found, outcome.losses)
    if name == kept.name:
        if limit is None:
            mean, error = promise.cost, promise.error
        return Compared(name, mean, error, *told)
    rules = {} if limit is not None else rules_of(task, kept.rows)
    if name in rules:
        groups = _groups(task, kept.rows)
        beyond = rules[name] - task.paid(kept.proba, kept.rows, kept.cut)
        mean, error = mean_and_error(rules[name], kept.weight, groups)
        return Compared(name, mean, error, *told, *mean_and_error(beyond, kept.weight, groups))
    base = next(o.losses for o in found.outcomes if o.name == kept.name)
    difference = _of_counted(task, found, outcome.losses - base)
    if limit is None:
        mean = promise.cost + difference[0]
    return Compared(name, mean, error, *told, *difference)


def _of_counted(task: Task, found: Comparison, losses: Array) -> tuple[float, float]:
    counted = ~np.isnan(losses)
    groups = _some(_groups(task, found.rows), counted)
    return mean_and_error(losses[counted], found.weight[counted], groups)


def as_good(compared: Sequence[Compared]) -> Compared | None:
    """Return the simplest model within one standard error of the ensemble, if there is one."""
    by_name = {c.name: c for c in compared}
    for name in BY_SIMPLICITY:
        c = by_name.get(name)
        if c is None or c.difference is None or c.difference_error is None:
            continue
        if c.difference <= c.difference_error:
            return c
    return None
