"""The optimum on the span of the chosen points, and what the next choice needs to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from grayzone.numerics.linalg import descend, factorise
from grayzone.numerics.losses import SmoothedLogistic
from grayzone.solvers import Problem, certify, minimise_problem

Array = Any

ACCURACY = 1e-8  # decrease that a Newton step may still promise, relative to the objective
WITH_KINKS = 1e-10  # duality gap, relative, where the loss has kinks
MAX_STEPS = 200
# A kink has no curvature of its own; to say what a step would cost, it is taken as rounded by so
# much, in log-odds.
ROUNDED = 0.25
LEAST_BEND = 1e-6


@dataclass(frozen=True)
class Fitted:
    """A function on the span, with the first two derivatives of the criterion there."""

    problem: Problem
    coef: Array  # (Q, p), the intercept last
    scores: Array  # (n, Q)
    objective: float
    slope: Array  # (n,) multipliers of the margins
    bend: Array  # (n,) second derivatives of the losses
    hessian: Array  # (Qp, Qp)
    gradient: Array  # (Q, p)

    @cached_property
    def solve(self) -> Callable[[Array], Array]:
        """Function that solves systems with the Hessian."""
        return factorise(self.hessian) if self.coef.size else lambda r: r

    @cached_property
    def residual(self) -> Array:
        """Gradient of the losses in the scores, (n, Q)."""
        return self.problem.margins.pull(self.scores, self.problem.weight * self.slope)

    @cached_property
    def weights(self) -> Array:
        """Second derivatives of the losses in the scores, (n, pairs of outputs)."""
        w = self.problem.weight
        return self.problem.margins.second_order(self.scores, w * self.bend, w * self.slope)

    @cached_property
    def gap(self) -> float:
        """Relative duality gap on the span."""
        found = certify(self.problem, self.coef, self.scores, self.slope)
        return found.relative


def refit(problem: Problem, start: Array, above: float = np.inf) -> Fitted | None:
    """Minimise from start coefficients; None once the minimum is known to be ``above`` that."""
    if start.size and np.any(np.isfinite(problem.loss.floor)):
        return _refit_with_kinks(problem, start)
    coef, scores = start, problem.design.scores(start)
    u = problem.margins.margin(scores)
    value = problem.primal(coef, u)
    for _ in range(MAX_STEPS):
        here = _derivatives(problem, coef, scores, value, *problem.loss.slopes(u))
        if not coef.size:
            break
        change = -here.solve(here.gradient.ravel()).reshape(coef.shape)
        promised = -float(np.sum(here.gradient * change))
        if promised <= ACCURACY * value:
            break
        if value - promised > above and _lower_bound(here) > above:
            return None
        moved = problem.design.scores(change)
        t, value = _downhill(problem, here, change, moved, promised)
        if t == 0.0:
            break
        coef, scores = coef + t * change, scores + t * moved
        u = problem.margins.margin(scores)
    return here


def _derivatives(
    problem: Problem, coef: Array, scores: Array, value: float, slope: Array, bend: Array
) -> Fitted:
    w = problem.weight
    H, pulled = problem.second_order(scores, w * bend, w * slope, w * slope)
    H[np.diag_indices_from(H)] += problem.ridge()
    gradient = pulled + problem.shrinkage(coef)
    return Fitted(problem, coef, scores, value, slope, bend, H, gradient)


def _downhill(
    problem: Problem, here: Fitted, change: Array, moved: Array, promised: float
) -> tuple[float, float]:
    def value(t: float) -> float:
        u = problem.margins.margin(here.scores + t * moved)
        return problem.primal(here.coef + t * change, u)

    return descend(value, -promised, here.objective)


def _lower_bound(here: Fitted) -> float:
    """What no function on the span can do better than, by duality."""
    return here.objective * (1.0 - here.gap)


def _refit_with_kinks(problem: Problem, start: Array) -> Fitted:
    found = minimise_problem(problem, "auto", tol=WITH_KINKS, max_iter=MAX_STEPS, start=start)
    u = problem.margins.margin(found.scores)
    # where all rows are saturated nothing would hold a step back
    bend = np.maximum(SmoothedLogistic(problem.loss, ROUNDED).curvature(u), LEAST_BEND)
    value = found.certificate.primal
    return _derivatives(problem, found.coef, found.scores, value, found.multipliers, bend)
