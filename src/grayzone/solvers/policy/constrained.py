r"""Policies of two actions under limits on rates: feasible at every step.

Rates are linear in the probabilities of the rows' own classes: with weights :math:`a_i \ge 0`, a
limit is :math:`\sum_i a_i p(y_i|x_i) \ge b`. The bound of Lemma 1 replaces its left side by
something smaller, concave in the parameters,

.. math:: \sum_i a_i p^\nu_i \Bigl(1 + \log\frac{p(y_i|x_i)}{p^\nu_i}\Bigr) \ge b,

so that what satisfies it satisfies the limit. Its Lagrangian is a log-loss with one more weight,
and a search for its multiplier solves each subproblem. Solutions are feasible from the first to the
last, and the objective never falls; ascent in the dual would oscillate.

Weights of a limit are those of the rows times a factor of their class, and so are its targets
beside those of the objective: the Lagrangian is the bound of other rewards. Of two limits either is
tried alone, and is the solution where it keeps the other; where neither does both bind, and the
search for the multiplier of one goes on inside of that for the other.
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
    """Maximise rewards under limits, from the first bound's minimum shifted until they are kept.

    Parameters
    ----------
    problem : PolicyProblem
        Two actions and their limits; rows have their own weights, without those of classes.
    first : Solution
        The fit without them.
    n_bounds : int
        How often the bounds are renewed.

    Yields
    ------
    solution : Solution
        Every one feasible; their expected costs never rise.
    """
    point = _shifted(problem, first.reading.point)
    multipliers = np.ones(len(problem.spec.limits))
    now = Solution(problem.read(problem.bound_at(point), point, curvature=False), first.residual)
    yield now
    for _ in range(n_bounds):
        before = now.cost
        now = _Subproblem(problem, now).solution(multipliers)
        if now.cost > before:  # by what the search leaves: nothing is gained any more
            return
        yield now
        if before - now.cost <= FINER * problem.tol * abs(now.cost):
            return


class _Subproblem:
    """The convex subproblem at the current solution."""

    def __init__(self, problem: PolicyProblem, now: Solution) -> None:
        self._problem, self._now, here = problem, now, now.reading
        self._limits, self._tight_at = problem.spec.limits, PolicyAt(here.point)
        self._slack = np.array([limit.constant for limit in self._limits]) + here["limits"]
        # a multiplier of 1 makes a limit weigh as much as the objective
        unit = float(here["reward"]) / np.maximum(here["pulled"], 1e-300)
        self._own = [u * np.abs(k.factors) for u, k in zip(unit, self._limits, strict=True)]

    def solution(self, multipliers: Array) -> Solution:
        """Return the solution, from the last bound's multipliers, which become this one's."""
        for k, multiplier in enumerate(multipliers):
            kept, found = self._alone(k, float(multiplier))
            if kept is not None and self._keeps_others(kept, k):
                multipliers[k] = found
                return kept
        both = self._together(multipliers) if len(multipliers) == 2 else None
        return self._now if both is None else both

    def _keeps_others(self, solution: Solution, k: int) -> bool:
        return bool(np.all(np.delete(self._rooms(solution), k) >= 0.0))

    def _rooms(self, solution: Solution) -> Array:
        return self._slack - solution.reading["lost"]

    def _solved(self, multipliers: dict[int, float], start: Solution) -> Solution:
        own = sum(multiplier * self._own[k] for k, multiplier in multipliers.items())
        lagrangian = Bound(self._problem.spec.rewards + np.diag(own), self._tight_at)
        reading = self._problem.read(lagrangian, start.reading.point)
        return fit_bound(reading, FINER * self._problem.tol)

    def _alone(self, k: int, multiplier: float) -> tuple[Solution | None, float]:
        def solved(multiplier: float, start: Solution) -> tuple[Solution, float]:
            solution = self._solved({k: multiplier}, start)
            return solution, float(self._rooms(solution)[k])

        return _smallest(solved, self._now, multiplier, _CLOSE * self._limits[k].scale)

    def _together(self, multipliers: Array) -> Solution | None:
        """Keep two limits: for each multiplier of the second, the smallest of the first."""
        close = [_CLOSE * limit.scale for limit in self._limits]
        # each search for the first starts there: one that ended at next to nothing is no start
        origin = float(multipliers[0])

        def keeping(second: float, start: Solution) -> tuple[Solution, float]:
            def solved(first: float, start: Solution) -> tuple[Solution, float]:
                solution = self._solved({0: first, 1: second}, start)
                return solution, float(self._rooms(solution)[0])

            kept, _ = _smallest(solved, start, origin, close[0])
            if kept is None:  # by rounding
                return start, -self._limits[1].scale
            return kept, float(self._rooms(kept)[1])

        kept, multipliers[1] = _smallest(keeping, self._now, float(multipliers[1]), close[1])
        return kept


# ------------------------------------------------------------------------------------------
# Start
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shifts:
    """What is had of the limits at several shifts of the intercept, in one reading."""

    spec: PolicySpec
    point: Point
    shifts: tuple[float, ...]

    def __call__(self, rows: Rows) -> Sums:
        F = self.point.scores_of(self.spec, rows)

        def had(limit: ClassLimit, shift: float) -> float:
            def of_rows(F: Array, codes: Array, weight: Array) -> Array:
                return amounts(limit.factors, codes, weight) * sigmoid(F[:, 0] + shift)

            return float(summed(of_rows, F, rows.codes, rows.weight))

        return {"limits": np.array([[had(k, s) for s in self.shifts] for k in self.spec.limits])}


def _shifted(problem: PolicyProblem, first: Point) -> Point:
    """Move the intercept just as far as it takes for the limits to be kept."""
    limits = problem.spec.limits
    constants = np.array([[limit.constant] for limit in limits])

    def kept(shifts: Array) -> Array:
        task = _Shifts(problem.spec, first, tuple(float(s) for s in shifts))
        return np.all(constants + problem.labelled.reduce(task)["limits"] >= 0.0, axis=0)

    at_once = 1 if problem.labelled.cheap_rereads else _AT_ONCE
    inside, outside = _bracket(kept, at_once, " and ".join(limit.asked for limit in limits))
    while abs(inside - outside) > _FINEST * max(1.0, abs(inside)):
        tried = np.linspace(outside, inside, at_once + 2)[1:-1]
        good = np.append(kept(tried), True)
        place = int(np.argmax(good))  # the nearest to the outside that keeps it
        outside = outside if place == 0 else float(tried[place - 1])
        inside = inside if place == tried.size else float(tried[place])
    coef = first.coef.copy()
    coef[:, -1] += inside
    return Point(coef, None if first.scores is None else first.scores + inside)


def _bracket(kept: Callable[[Array], Array], at_once: int, asked: str) -> tuple[float, float]:
    """Shift that keeps the limits, and one next to it, nearer to none, that does not.

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
        f"{asked} cannot be kept on the training data, whatever the threshold is: there is no "
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
