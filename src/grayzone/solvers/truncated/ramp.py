r"""The loss saturated on both sides (§3.3, last paragraph), by majorise-minimise.

min(h(u), c) is a difference of convex functions, h - (h - c)_+. Its tightest majoriser at a
point is the piece in force there: the constant c for rows beyond the ceiling, h for the others. So
each round fits the convex loss to the rows not given up; the objective never rises, and
when the same rows are given up twice running the point is stationary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.losses import Ramp
from grayzone.solvers.loop import Solution
from grayzone.solvers.problem import Problem

Array = Any


class RampSolution(NamedTuple):
    """The last convex solution, the rows it kept, and the ramp objective after each round."""

    convex: Solution
    kept: Array
    scores: Array
    objectives: tuple[float, ...]
    n_iter: int


def descend_ramp(
    problem: Problem,
    ramp: Ramp,
    minimise: Callable[[Problem, Array | None], Solution],
    *,
    start: Array | None = None,
    max_rounds: int = 100,
) -> RampSolution:
    """Fit the convex loss to all rows, then to those not given up, until these do not change.

    ``minimise(problem, start)`` solves the convex problems. A round that would give up a
    whole class is not taken: the model would have nothing to tell apart.
    """
    rows = np.arange(problem.design.n_rows)
    found = minimise(problem, start)
    scores, n_iter = found.scores, found.n_iter
    objectives = [_ramp_objective(problem, ramp, found.coef, scores)]
    for _ in range(max_rounds):
        kept = np.flatnonzero(~ramp.given_up(problem.margins.margin(scores)))
        if np.array_equal(kept, rows) or not _all_classes(problem, kept):
            break
        trial = minimise(problem.take(kept), found.coef)
        trial_scores = problem.design.scores(trial.coef)
        reached = _ramp_objective(problem, ramp, trial.coef, trial_scores)
        n_iter += trial.n_iter
        # solved to a tolerance only: a last round may rise by that much, and is then not kept
        if reached > objectives[-1]:
            break
        found, rows, scores = trial, kept, trial_scores
        objectives.append(reached)
    return RampSolution(found, rows, scores, tuple(objectives), n_iter)


def _ramp_objective(problem: Problem, ramp: Ramp, coef: Array, scores: Array) -> float:
    loss = ramp.value(problem.margins.margin(scores))
    return float(problem.weight @ loss) + problem.penalty_value(coef, scores)


def _all_classes(problem: Problem, rows: Array) -> bool:
    codes = problem.margins.codes
    return np.unique(codes[rows]).size == np.unique(codes).size
