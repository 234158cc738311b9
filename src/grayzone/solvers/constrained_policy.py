r"""Policies of two actions under a limit on a rate: feasible at every step.

Rates are linear in the probabilities of the rows' own classes: with weights :math:`a_i \ge 0`, the
limit is :math:`\sum_i a_i p(y_i|x_i) \ge b`. The bound of Lemma 1 replaces its left side by
something smaller, concave in the parameters,

.. math:: \sum_i a_i p^\nu_i \Bigl(1 + \log\frac{p(y_i|x_i)}{p^\nu_i}\Bigr) \ge b,

so that what satisfies it satisfies the limit. Its Lagrangian is a log-loss with one more weight,
and bisection on the multiplier solves each subproblem. Solutions are feasible from the first to the
last, and the objective never falls; ascent in the dual would oscillate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from grayzone.losses import sigmoid, softplus
from grayzone.solvers.policy import _FINER, Fitted, PolicyProblem, fit_targets

Array = Any

_BISECTIONS = 60
_CLOSE = 1e-6  # to the limit, relative, that a bisection ends at
_FARTHEST, _STEP = 60.0, 0.25  # log-odds that the intercept is shifted by
_BRACKETS = 12  # powers of four that a multiplier is looked for in

Solver = Callable[[float, Fitted], tuple[Fitted, float]]


@dataclass(frozen=True)
class Limit:
    """constant + sum of weight * p(positive) >= 0, with weights < 0 for the negative rows.

    The same as a limit on the probabilities of the rows' own classes, but free of cancellation
    where all probabilities are small.
    """

    weight: Array
    constant: float

    def slack(self, scores: Array) -> float:
        """How much more than the limit there is."""
        return self.constant + float(self.weight @ sigmoid(scores[:, 0]))


def constrain(
    problem: PolicyProblem, own: Array, limit: Limit, first: Fitted, n_bounds: int
) -> Iterator[tuple[Fitted, float]]:
    """Maximise rewards under a limit, from the first bound's minimum shifted until it is kept.

    Parameters
    ----------
    problem : PolicyProblem
        Two actions; its rewards are the objective.
    own : array of shape (n,)
        1 for rows of the positive class, -1 for the others.
    limit : Limit
        The limit.
    first : Fitted
        The fit without it.
    n_bounds : int
        How often the bounds are renewed.

    Yields
    ------
    fitted, cost : Fitted, float
        Every solution, feasible, and its J.
    """
    now = _shifted(limit, first)
    cost = problem.expected_cost(now.coef, now.scores)
    yield now, cost
    for _ in range(n_bounds):
        now = _bounded_step(problem, own, limit, now)
        before, cost = cost, problem.expected_cost(now.coef, now.scores)
        if cost > before:  # by what the bisection leaves: nothing is gained any more
            return
        yield now, cost
        if before - cost <= _FINER * problem.tol * abs(cost):
            return


def _shifted(limit: Limit, first: Fitted) -> Fitted:
    """Move the intercept just as far as it takes for the limit to be kept."""
    if limit.slack(first.scores) >= 0.0:
        return first
    # outwards, to the nearest: a precision need not be kept everywhere beyond
    for step in np.arange(_STEP, _FARTHEST, _STEP):
        for inside, outside in ((-step, _STEP - step), (step, step - _STEP)):
            if limit.slack(first.scores + inside) >= 0.0:
                return _moved(limit, first, float(inside), float(outside))
    raise ValueError(
        "The limit cannot be kept on the training data, whatever the threshold is: there is no "
        "start for the constrained fit. Ask for less."
    )


def _moved(limit: Limit, first: Fitted, inside: float, outside: float) -> Fitted:
    for _ in range(_BISECTIONS):
        middle = 0.5 * (inside + outside)
        if limit.slack(first.scores + middle) >= 0.0:
            inside = middle
        else:
            outside = middle
    coef = first.coef.copy()
    coef[0, -1] += inside
    return Fitted(coef, first.scores + inside, first.residual)


def _bounded_step(problem: PolicyProblem, own: Array, limit: Limit, now: Fitted) -> Fitted:
    """Solve the convex subproblem at the current solution, by bisection on its multiplier."""
    pulled = np.abs(limit.weight) * sigmoid(own * now.scores[:, 0])
    # the bound holds where sum of pulled * (log p_now - log p) <= slack
    base = -softplus(-own * now.scores[:, 0])
    slack = limit.slack(now.scores)
    place = (own > 0).astype(np.intp)
    objective = problem.targets(now.scores)
    accuracy = _FINER * problem.tol

    def solved(multiplier: float, start: Fitted) -> tuple[Fitted, float]:
        q = objective.copy()
        q[np.arange(place.size), place] += multiplier * pulled
        found = fit_targets(problem, q, start.coef, accuracy)
        log_p = -softplus(-own * found.scores[:, 0])
        return found, slack - float(pulled @ (base - log_p))

    # in units in which the limit weighs as much as the objective
    unit = float(np.sum(objective)) / max(float(np.sum(pulled)), 1e-300)
    return _bisect(lambda multiplier, start: solved(unit * multiplier, start), now, slack)


def _bisect(solved: Solver, now: Fitted, slack: float) -> Fitted:
    """Smallest multiplier that keeps the bound; the current solution if rounding leaves none.

    Not from 0 on: without a limit the objective knows one class only, and has no minimum.
    """
    found, room = solved(1.0, now)
    kept, low, high = (found, 0.0, 1.0) if room >= 0.0 else (None, 1.0, np.inf)
    for _ in range(_BRACKETS):
        if kept is not None and low > 0.0:
            break
        multiplier = 0.25 * high if kept is not None else 4.0 * low
        found, room = solved(multiplier, found)
        if room >= 0.0:
            kept, high = found, multiplier
        else:
            low = multiplier
    for _ in range(_BISECTIONS):
        if kept is None or low == 0.0 or high - low <= _CLOSE * high:
            break
        middle = 0.5 * (low + high)
        found, room = solved(middle, kept)
        if room >= 0.0:
            high, kept = middle, found
            if room <= _CLOSE * max(slack, _CLOSE):
                break
        else:
            low = middle
    return now if kept is None else kept
