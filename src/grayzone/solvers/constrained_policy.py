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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from grayzone.losses import sigmoid, softplus
from grayzone.solvers.policy import _FINER, Fitted, PolicyProblem, fit_targets

Array = Any

_BISECTIONS = 60
_CLOSE = 1e-6  # to the limit, relative, that a bisection ends at
_FARTHEST = 60.0  # log-odds that the intercept is shifted by


@dataclass(frozen=True)
class Limit:
    """sum of weight * p(own class) >= least."""

    weight: Array
    least: float


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
    now = _shifted(problem, own, limit, first)
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


def rate(own: Array, limit: Limit, scores: Array) -> float:
    """Left side of the limit."""
    return float(limit.weight @ sigmoid(own * scores[:, 0]))


def _shifted(problem: PolicyProblem, own: Array, limit: Limit, first: Fitted) -> Fitted:
    """Move the intercept just far enough for the limit to be kept."""
    if rate(own, limit, first.scores) >= limit.least:
        return first
    # towards the class that the limit is about; both ways, as a limit may be about both
    for far in (-_FARTHEST, _FARTHEST):
        if rate(own, limit, first.scores + far) < limit.least:
            continue
        inside, outside = far, 0.0
        for _ in range(_BISECTIONS):
            middle = 0.5 * (inside + outside)
            if rate(own, limit, first.scores + middle) >= limit.least:
                inside = middle
            else:
                outside = middle
        coef = first.coef.copy()
        coef[0, -1] += inside
        return Fitted(coef, first.scores + inside, first.residual)
    raise ValueError(
        "The limit cannot be kept on the training data, whatever the threshold is: no start for "
        "the constrained fit. Lower the target."
    )


def _bounded_step(problem: PolicyProblem, own: Array, limit: Limit, now: Fitted) -> Fitted:
    """Solve the convex subproblem at the current solution, by bisection on its multiplier."""
    p = sigmoid(own * now.scores[:, 0])
    pulled = limit.weight * p
    # the bound holds where sum of pulled * (log p_now - log p) <= slack
    base = -softplus(-own * now.scores[:, 0])
    slack = rate(own, limit, now.scores) - limit.least
    place = (own > 0).astype(np.intp)
    objective = problem.targets(now.scores)
    accuracy = _FINER * problem.tol

    def solved(multiplier: float, start: Fitted) -> tuple[Fitted, float]:
        q = objective.copy()
        q[np.arange(place.size), place] += multiplier * pulled
        found = fit_targets(problem, q, start.coef, accuracy)
        log_p = -softplus(-own * found.scores[:, 0])
        return found, slack - float(pulled @ (base - log_p))

    free, room = solved(0.0, now)
    if room >= 0.0:
        return free
    return _bisect(solved, now, limit)


def _bisect(solved: Any, now: Fitted, limit: Limit) -> Fitted:
    """Smallest multiplier that keeps the bound; the current solution if rounding leaves none."""
    low, high, kept = 0.0, 1.0, None
    found = now
    for _ in range(_BISECTIONS):
        found, room = solved(high, found)
        if room >= 0.0:
            kept = found
            break
        low, high = high, 4.0 * high
    for _ in range(_BISECTIONS):
        if kept is None or high - low <= _CLOSE * high:
            break
        middle = 0.5 * (low + high)
        found, room = solved(middle, kept)
        if room >= 0.0:
            high, kept = middle, found
            if room <= _CLOSE * abs(limit.least):
                break
        else:
            low = middle
    return now if kept is None else kept
