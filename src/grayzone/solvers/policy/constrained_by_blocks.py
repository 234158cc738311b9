"""Policies of two actions under a limit on a rate, on rows that come in blocks.

The method of :mod:`grayzone.solvers.policy.constrained`. Weights of the limit are those of the rows
times a factor of their class, and so are its targets beside those of the objective: the Lagrangian
is the problem of other rewards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from grayzone.numerics.backend import moved
from grayzone.numerics.losses import sigmoid
from grayzone.solvers.policy import constrained as in_memory
from grayzone.solvers.policy.by_blocks import (
    BlockFitted,
    BlockPolicy,
    BoundAt,
    Limited,
    PolicyFrame,
    fit_bound,
    per_row,
)
from grayzone.solvers.policy.policy import _FINER
from grayzone.sources.labelled import Rows
from grayzone.sources.source import Sums

Array = Any

_AT_ONCE = 16  # shifts of the intercept that one reading tries
_FINEST = 1e-15  # difference of shifts that is none


@dataclass(frozen=True)
class ClassLimit:
    """constant + sum of weight * factor of the class * p(positive) >= 0."""

    factors: Array  # (2,)
    constant: float

    @property
    def scale(self) -> float:
        """What slacks are measured by: the limit or, for ratios, a rate of one in a thousand."""
        return max(abs(self.constant), 1e-3)


@dataclass(frozen=True)
class _Shifts:
    """What is had of the limit at several shifts of the intercept, in one reading."""

    frame: PolicyFrame
    coef: Array
    factors: Array
    shifts: tuple[float, ...]

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        scores = self.frame.design(rows).scores(self.coef)[:, 0]
        weight = per_row(self.factors, rows)
        had = [xp.sum(weight * sigmoid(scores + shift)) for shift in self.shifts]
        return {"limit": xp.stack(had)}


def constrain_by_blocks(
    problem: BlockPolicy, objective: Array, limit: ClassLimit, first: BlockFitted, n_bounds: int
) -> Iterator[tuple[BlockFitted, float]]:
    """Maximise rewards under a limit, from the first bound's minimum shifted until it is kept.

    Parameters
    ----------
    problem : BlockPolicy
        Two actions; rows have their own weights, without those of classes.
    objective : array of shape (2, 2)
        Rewards.
    limit : ClassLimit
        The limit.
    first : BlockFitted
        The fit without it.
    n_bounds : int
        How often the bounds are renewed.

    Yields
    ------
    fitted, cost : BlockFitted, float
        Every solution, feasible, and its J.
    """
    like = problem.like
    limited = Limited(moved(objective, like), moved(limit.factors, like))
    frame = replace(problem.frame, rewards=limited.objective, limited=limited)
    problem = replace(problem, frame=frame)
    coef, multiplier = _shifted(problem, limit, first.coef), 1.0
    sums = problem.look(BoundAt(coef), coef, curvature=False)
    now = BlockFitted(coef, first.residual, sums, False)
    cost = problem.expected_cost(now)
    yield now, cost
    for _ in range(n_bounds):
        now, multiplier = _bounded_step(problem, limit, now, multiplier)
        before, cost = cost, problem.expected_cost(now)
        if cost > before:  # by what the search leaves: nothing is gained any more
            return
        yield now, cost
        if before - cost <= _FINER * problem.tol * abs(cost):
            return


def _bounded_step(
    problem: BlockPolicy, limit: ClassLimit, now: BlockFitted, multiplier: float
) -> tuple[BlockFitted, float]:
    """Solve the convex subproblem at the current solution; gives its multiplier as well."""
    limited = problem.frame.limited
    assert limited is not None
    slack = limit.constant + float(now.sums["limit"])
    # a multiplier of 1 makes the limit weigh as much as the objective
    unit = float(now.sums["reward"]) / max(float(now.sums["pulled"]), 1e-300)
    own = moved(np.diag(np.abs(limit.factors)), limited.objective)
    bound = BoundAt(now.coef)

    def solved(multiplier: float, start: BlockFitted) -> tuple[BlockFitted, float]:
        rewards = limited.objective + unit * multiplier * own
        lagrangian = replace(problem, frame=replace(problem.frame, rewards=rewards))
        found = fit_bound(lagrangian, bound, start.coef, _FINER * problem.tol)
        return found, slack - float(found.sums["lost"])

    close = in_memory._CLOSE * limit.scale
    kept, multiplier = in_memory._smallest(solved, now, multiplier, close)
    return (now if kept is None else kept), multiplier


# ------------------------------------------------------------------------------------------
# Start
# ------------------------------------------------------------------------------------------


def _shifted(problem: BlockPolicy, limit: ClassLimit, first: Array) -> Array:
    """Move the intercept just as far as it takes for the limit to be kept."""

    def kept(shifts: Array) -> Array:
        task = _Shifts(problem.frame, first, limit.factors, tuple(float(s) for s in shifts))
        had = problem.labelled.reduce(task)["limit"]
        return limit.constant + np.array([float(v) for v in had]) >= 0.0

    inside, outside = _bracket(kept)
    while abs(inside - outside) > _FINEST * max(1.0, abs(inside)):
        tried = np.linspace(outside, inside, _AT_ONCE + 2)[1:-1]
        good = np.append(kept(tried), True)
        place = int(np.argmax(good))  # the nearest to the outside that keeps it
        outside = outside if place == 0 else float(tried[place - 1])
        inside = inside if place == tried.size else float(tried[place])
    intercept = first[:, -1:] + inside
    return array_namespace(first).concat([first[:, :-1], intercept], axis=1)


def _bracket(kept: Any) -> tuple[float, float]:
    """Shift that keeps the limit, and one next to it, nearer to none, that does not.

    Outwards, to the nearest: a precision need not be kept everywhere beyond.
    """
    step = in_memory._STEP
    if kept(np.zeros(1))[0]:
        return 0.0, 0.0
    steps = np.arange(step, in_memory._FARTHEST, step)
    for a in range(0, steps.size, _AT_ONCE // 2):
        some = steps[a : a + _AT_ONCE // 2]
        tried = np.column_stack([-some, some]).ravel()
        good = kept(tried)
        if np.any(good):
            inside = float(tried[int(np.argmax(good))])
            return inside, inside - np.copysign(step, inside)
    raise ValueError(
        "The limit cannot be kept on the training data, whatever the threshold is: there is no "
        "start for the constrained fit. Ask for less."
    )
