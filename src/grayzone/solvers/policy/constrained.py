r"""Policies of two actions under a limit on a rate: feasible at every step.

Rates are linear in the probabilities of the rows' own classes: with weights :math:`a_i \ge 0`, the
limit is :math:`\sum_i a_i p(y_i|x_i) \ge b`. The bound of Lemma 1 replaces its left side by
something smaller, concave in the parameters,

.. math:: \sum_i a_i p^\nu_i \Bigl(1 + \log\frac{p(y_i|x_i)}{p^\nu_i}\Bigr) \ge b,

so that what satisfies it satisfies the limit. Its Lagrangian is a log-loss with one more weight,
and a search for its multiplier solves each subproblem. Solutions are feasible from the first to the
last, and the objective never falls; ascent in the dual would oscillate.

Weights of the limit are those of the rows times a factor of their class, and so are its targets
beside those of the objective: the Lagrangian is the bound of other rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from grayzone.decision.limits import ClassLimit
from grayzone.numerics.losses import sigmoid
from grayzone.numerics.pieces import summed
from grayzone.solvers.policy.bounds import FINER, Solution, fit_bound
from grayzone.solvers.policy.problem import (
    Bound,
    Point,
    PolicyAt,
    PolicyProblem,
    PolicySpec,
    amounts,
)
from grayzone.sources.labelled import Rows
from grayzone.sources.source import Sums

Array = Any

_CLOSE = 1e-5  # to the limit, relative, that the search for a multiplier ends at
_FARTHEST, _STEP = 60.0, 0.25  # log-odds that the intercept is shifted by
_FINEST = 1e-15  # difference of shifts that is none
_AT_ONCE = 16  # shifts that one reading tries, where readings are dear
_FIRST_STEP, _LARGEST_STEP = 0.125, 16.0  # of the logarithm of a multiplier

# From a multiplier and a start to a solution, and the room that it leaves.
Solver = Callable[[float, Solution], tuple[Solution, float]]


def constrain(problem: PolicyProblem, first: Solution, n_bounds: int) -> Iterator[Solution]:
    """Maximise rewards under a limit, from the first bound's minimum shifted until it is kept.

    Parameters
    ----------
    problem : PolicyProblem
        Two actions and their limit; rows have their own weights, without those of classes.
    first : Solution
        The fit without it.
    n_bounds : int
        How often the bounds are renewed.

    Yields
    ------
    solution : Solution
        Every one feasible; their expected costs never rise.
    """
    limit = problem.spec.limit
    assert limit is not None
    point, multiplier = _shifted(problem, limit, first.reading.point), 1.0
    now = Solution(problem.read(problem.bound_at(point), point, curvature=False), first.residual)
    yield now
    for _ in range(n_bounds):
        before = now.cost
        now, multiplier = _bounded_step(problem, limit, now, multiplier)
        if now.cost > before:  # by what the search leaves: nothing is gained any more
            return
        yield now
        if before - now.cost <= FINER * problem.tol * abs(now.cost):
            return


def _bounded_step(
    problem: PolicyProblem, limit: ClassLimit, now: Solution, multiplier: float
) -> tuple[Solution, float]:
    """Solve the convex subproblem at the current solution; returns its multiplier as well."""
    here = now.reading
    slack = limit.constant + float(here["limit"])
    # a multiplier of 1 makes the limit weigh as much as the objective
    unit = float(here["reward"]) / max(float(here["pulled"]), 1e-300)
    own, tight_at = np.diag(np.abs(limit.factors)), PolicyAt(here.point)

    def solved(multiplier: float, start: Solution) -> tuple[Solution, float]:
        lagrangian = Bound(problem.spec.rewards + unit * multiplier * own, tight_at)
        reading = problem.read(lagrangian, start.reading.point)
        solution = fit_bound(reading, FINER * problem.tol)
        return solution, slack - float(solution.reading["lost"])

    kept, multiplier = _smallest(solved, now, multiplier, _CLOSE * limit.scale)
    return (now if kept is None else kept), multiplier


# ------------------------------------------------------------------------------------------
# Start
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shifts:
    """What is had of the limit at several shifts of the intercept, in one reading."""

    spec: PolicySpec
    limit: ClassLimit
    point: Point
    shifts: tuple[float, ...]

    def __call__(self, rows: Rows) -> Sums:
        F = self.point.scores_of(self.spec, rows)

        def had(shift: float) -> Array:
            def of_rows(F: Array, codes: Array, weight: Array) -> Array:
                return amounts(self.limit.factors, codes, weight) * sigmoid(F[:, 0] + shift)

            return summed(of_rows, F, rows.codes, rows.weight)

        return {"limit": np.array([float(had(shift)) for shift in self.shifts])}


def _shifted(problem: PolicyProblem, limit: ClassLimit, first: Point) -> Point:
    """Move the intercept just as far as it takes for the limit to be kept."""

    def kept(shifts: Array) -> Array:
        task = _Shifts(problem.spec, limit, first, tuple(float(s) for s in shifts))
        return limit.constant + problem.labelled.reduce(task)["limit"] >= 0.0

    at_once = 1 if problem.labelled.cheap_rereads else _AT_ONCE
    inside, outside = _bracket(kept, at_once)
    while abs(inside - outside) > _FINEST * max(1.0, abs(inside)):
        tried = np.linspace(outside, inside, at_once + 2)[1:-1]
        good = np.append(kept(tried), True)
        place = int(np.argmax(good))  # the nearest to the outside that keeps it
        outside = outside if place == 0 else float(tried[place - 1])
        inside = inside if place == tried.size else float(tried[place])
    coef = first.coef.copy()
    coef[:, -1] += inside
    return Point(coef, None if first.scores is None else first.scores + inside)


def _bracket(kept: Callable[[Array], Array], at_once: int) -> tuple[float, float]:
    """Shift that keeps the limit, and one next to it, nearer to none, that does not.

    Outwards, to the nearest: a precision need not be kept everywhere beyond.
    """
    if kept(np.zeros(1))[0]:
        return 0.0, 0.0
    steps, few = np.arange(_STEP, _FARTHEST, _STEP), max(1, at_once // 2)
    for a in range(0, steps.size, few):
        some = steps[a : a + few]
        tried = np.column_stack([-some, some]).ravel()
        good = kept(tried)
        if np.any(good):
            inside = float(tried[int(np.argmax(good))])
            return inside, inside - float(np.copysign(_STEP, inside))
    raise ValueError(
        "The limit cannot be kept on the training data, whatever the threshold is: there is no "
        "start for the constrained fit. Ask for less."
    )


# ------------------------------------------------------------------------------------------
# Multipliers
# ------------------------------------------------------------------------------------------


def _smallest(
    solved: Solver, now: Solution, multiplier: float, close: float
) -> tuple[Solution | None, float]:
    """Smallest multiplier that keeps the bound, with ``close`` to spare at most, and its solution.

    Room grows with the multiplier: it is bracketed from the last bound's on. Not from 0 on: without
    a limit the objective knows one class only, and has no minimum. No solution if rounding leaves
    none.
    """
    search = _Search(solved, close, now)
    place, step = float(np.log(max(multiplier, 1e-300))), _FIRST_STEP
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

    def __init__(self, solved: Solver, close: float, start: Solution) -> None:
        self._solved, self._close, self._last = solved, close, start
        self._known: dict[float, float] = {}
        self.kept: Solution | None = None
        self.place = 0.0

    def room(self, place: float) -> float:
        """Room at a multiplier; each is solved for once."""
        if place not in self._known:
            self._last, room = self._solved(float(np.exp(place)), self._last)
            if room >= 0.0 and (self.kept is None or place < self.place):
                self.kept, self.place = self._last, place
            self._known[place] = 0.0 if 0.0 <= room <= self._close else room
        return self._known[place]
