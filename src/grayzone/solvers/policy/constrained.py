r"""Policies of two actions under a limit on a rate: feasible at every step.

Rates are linear in the probabilities of the rows' own classes: with weights :math:`a_i \ge 0`, the
limit is :math:`\sum_i a_i p(y_i|x_i) \ge b`. The bound of Lemma 1 replaces its left side by
something smaller, concave in the parameters,

.. math:: \sum_i a_i p^\nu_i \Bigl(1 + \log\frac{p(y_i|x_i)}{p^\nu_i}\Bigr) \ge b,

so that what satisfies it satisfies the limit. Its Lagrangian is a log-loss with one more weight,
and a search for its multiplier solves each subproblem. Solutions are feasible from the first to the
last, and the objective never falls; ascent in the dual would oscillate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq

from grayzone.decision.limits import Limit
from grayzone.numerics.losses import sigmoid, softplus
from grayzone.solvers.policy.policy import _FINER, Fitted, PolicyProblem, fit_targets

Array = Any

_BISECTIONS = 60
_CLOSE = 1e-5  # to the limit, relative, that the search for a multiplier ends at
_FARTHEST, _STEP = 60.0, 0.25  # log-odds that the intercept is shifted by
_FIRST_STEP, _LARGEST_STEP = 0.125, 16.0  # of the logarithm of a multiplier

# From a multiplier and a start to a solution, of any kind, and the room that it leaves.
Solver = Callable[[float, Any], tuple[Any, float]]


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
    now, multiplier = _shifted(limit, first), 1.0
    cost = problem.expected_cost(now.coef, now.scores)
    yield now, cost
    for _ in range(n_bounds):
        now, multiplier = _bounded_step(problem, own, limit, now, multiplier)
        before, cost = cost, problem.expected_cost(now.coef, now.scores)
        if cost > before:  # by what the search leaves: nothing is gained any more
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


def _bounded_step(
    problem: PolicyProblem, own: Array, limit: Limit, now: Fitted, multiplier: float
) -> tuple[Fitted, float]:
    """Solve the convex subproblem at the current solution; gives its multiplier as well."""
    pulled = np.abs(limit.weight) * sigmoid(own * now.scores[:, 0])
    # the bound holds where sum of pulled * (log p_now - log p) <= slack
    base = -softplus(-own * now.scores[:, 0])
    slack = limit.slack(now.scores)
    place = (own > 0).astype(np.intp)
    objective = problem.targets(now.scores)
    # a multiplier of 1 makes the limit weigh as much as the objective
    unit = float(np.sum(objective)) / max(float(np.sum(pulled)), 1e-300)

    def solved(multiplier: float, start: Fitted) -> tuple[Fitted, float]:
        q = objective.copy()
        q[np.arange(place.size), place] += unit * multiplier * pulled
        found = fit_targets(problem, q, start.coef, _FINER * problem.tol)
        log_p = -softplus(-own * found.scores[:, 0])
        return found, slack - float(pulled @ (base - log_p))

    kept, multiplier = _smallest(solved, now, multiplier, _CLOSE * limit.scale)
    return (now if kept is None else kept), multiplier


def _smallest(solved: Solver, now: Any, multiplier: float, close: float) -> tuple[Any, float]:
    """Smallest multiplier that keeps the bound, with ``close`` to spare at most, and its solution.

    Room grows with the multiplier: it is bracketed from the last bound's on. Not from 0 on: without
    a limit the objective knows one class only, and has no minimum. No solution if rounding leaves
    none.
    """
    search = _Search(solved, close, now)
    place, step = float(np.log(multiplier)), _FIRST_STEP
    while step < _LARGEST_STEP and search.room(place) != 0.0:
        other = place - step if search.room(place) > 0.0 else place + step
        if search.room(place) * search.room(other) <= 0.0:
            brentq(search.room, place, other, xtol=_CLOSE**2, disp=False)
            break
        place, step = other, 2.0 * step
    return search.kept, float(np.exp(search.place))


class _Search:
    """Room that the bound leaves at logarithms of multipliers, and the solution with least of it.

    What is ``close`` to the limit counts as on it.
    """

    def __init__(self, solved: Solver, close: float, start: Any) -> None:
        self._solved, self._close, self._last = solved, close, start
        self._known: dict[float, float] = {}
        self.kept: Any = None
        self.place = 0.0

    def room(self, place: float) -> float:
        """Room at a multiplier; each is solved for once."""
        if place not in self._known:
            self._last, room = self._solved(float(np.exp(place)), self._last)
            if room >= 0.0 and (self.kept is None or place < self.place):
                self.kept, self.place = self._last, place
            self._known[place] = 0.0 if 0.0 <= room <= self._close else room
        return self._known[place]
