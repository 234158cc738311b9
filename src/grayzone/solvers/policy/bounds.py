"""Convex fits of bounds, bound after bound, and the descent of the expected cost itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from grayzone.numerics.checks import as_numpy
from grayzone.numerics.linalg import descend, factorise
from grayzone.solvers.policy.problem import PolicyProblem, Reading

Array = Any

FINER = 1e-3  # accuracy of convex problems, relative to that asked of the whole
_MAX_NEWTON = 700  # coefficients up to which Hessians are formed
_MEMORY = 20  # of L-BFGS
_BOUNDS_FIRST = 5  # before the direct descent
_NEXT_TO_NOTHING = 1e-6  # of all rewards
_PATIENCE = 3  # steps in a row that rounding errors leave nothing to gain


class Solution(NamedTuple):
    """What was found: sums at it, and what is left to gain, relative."""

    reading: Reading
    residual: float

    @property
    def coef(self) -> Array:
        """Coefficients (Q, p)."""
        return self.reading.point.coef

    @property
    def cost(self) -> float:
        """J."""
        return self.reading.cost


def fit_bound(start: Reading, accuracy: float, renew: bool = False) -> Solution:
    """Minimise a bound, until steps promise less than ``accuracy``.

    Parameters
    ----------
    start : Reading
        What bound of which rows, and where to start.
    accuracy : float
        Decrease promised by the last step, relative.
    renew : bool
        Whether the bound that is tight at the solution will be minimised next.

    Returns
    -------
    solution : Solution
        The minimum.
    """
    if start.point.coef.size > _MAX_NEWTON:
        problem, bound = start.problem, start.bound
        coef, residual = _lbfgs(
            problem, lambda c: problem.slope(bound, c), start.point.coef, accuracy
        )
        return Solution(problem.read(bound, problem.point(coef), curvature=False), residual)
    return _newton(start, accuracy, renew and not start.problem.labelled.cheap_rereads)


def _newton(here: Reading, accuracy: float, renew: bool) -> Solution:
    problem, bound, residual, value = here.problem, here.bound, np.inf, here.loss
    idle = 0  # steps that gained less than what is asked for, whatever they promised
    for _ in range(problem.max_iter):
        H, gradient = _derivatives(here)
        change = -factorise(H)(gradient.ravel()).reshape(gradient.shape)
        promised = -float(np.sum(gradient * change))
        # of the value, but not of next to nothing
        size = max(value, _NEXT_TO_NOTHING * problem.best)
        residual, before = promised / size, value
        last = residual <= accuracy
        line = _Line(here, change, renew and last)
        t, value = descend(line.value, -promised, value)
        if t == 0.0:
            break
        here = line.reading
        idle = idle + 1 if before - value <= accuracy * size else 0
        # the step is quadratically better than what it promised
        if (last and t == 1.0) or idle >= _PATIENCE:
            break
        if here.renew:  # shortened after all: its derivatives are those of another bound
            here = problem.read(bound, here.point)
    return Solution(here, residual)


class _Line:
    """Log-losses along a step, and the last reading there."""

    def __init__(self, start: Reading, change: Array, renew: bool) -> None:
        self._start, self._renew = start, renew
        self._point = start.problem.line(start.point, change)
        self.reading = start

    def value(self, t: float) -> float:
        """Return the log-loss at a step of this length."""
        start = self._start
        self.reading = start.problem.read(start.bound, self._point(t), renew=self._renew)
        return self.reading.loss


def _derivatives(reading: Reading) -> tuple[Array, Array]:
    """Hessian and gradient with the penalty."""
    problem, coef = reading.problem, reading.point.coef
    grams, gradient = as_numpy(reading["grams"]), as_numpy(reading["gradient"])
    n_outputs, p = coef.shape
    H = np.zeros((n_outputs, p, n_outputs, p))
    for gram, (k, m) in zip(grams, problem.spec.policy.pairs, strict=True):
        H[k, :, k] += gram
        if k != m:
            H[m, :, m] += gram
            H[k, :, m] = H[m, :, k] = -gram
    H = H.reshape(coef.size, coef.size)
    ridge = problem.spec.penalty * problem.penalised
    H.ravel()[:: coef.size + 1] += ridge if n_outputs == 1 else np.tile(ridge, n_outputs)
    if n_outputs > 1 and problem.spec.fit_intercept:
        # one constant added to all scores changes nothing: any curvature will do there
        last = (np.arange(coef.size) % p == p - 1).astype(float)
        H += np.outer(last, last) * (np.trace(H) / coef.size)
    return H, gradient + problem.shrinkage(coef)


def _lbfgs(
    problem: PolicyProblem,
    value_and_gradient: Callable[[Array], tuple[float, Array]],
    start: Array,
    accuracy: float,
    seen: Callable[[Array, float], bool] = lambda coef, value: False,
) -> tuple[Array, float]:
    """L-BFGS in coordinates scaled by the diagonal of the first Hessian.

    Returns the coefficients and the largest entry of the scaled gradient.
    """
    scale = 1.0 / np.sqrt(problem.diagonal())
    first = value_and_gradient(start)
    origin = (start / scale).ravel()
    size = max(abs(first[0]), _NEXT_TO_NOTHING * problem.best)

    def scaled(v: Array) -> tuple[float, Array]:
        known = np.array_equal(v, origin)
        value, gradient = first if known else value_and_gradient(v.reshape(start.shape) * scale)
        return value / size, (gradient * scale).ravel() / size

    def told(intermediate_result: Any) -> None:
        coef = intermediate_result.x.reshape(start.shape) * scale
        if seen(coef, size * intermediate_result.fun):
            raise StopIteration  # how a callback ends the search

    solution = minimize(
        scaled,
        origin,
        jac=True,
        method="L-BFGS-B",
        callback=told,
        options={
            "maxiter": 10 * problem.max_iter,
            "maxcor": _MEMORY,
            "ftol": min(accuracy, 1.0) * 1e-2,
            "gtol": accuracy,
        },
    )
    return solution.x.reshape(start.shape) * scale, float(np.abs(solution.jac).max())


# ------------------------------------------------------------------------------------------
# Bound after bound
# ------------------------------------------------------------------------------------------


def majorise(first: Solution, n_bounds: int) -> Iterator[Solution]:
    """Algorithm 1 from the first bound's minimum on: refit to the bound at the last solution.

    Yields each solution; their expected costs never rise.
    """
    now, accuracy = first, FINER * first.reading.problem.tol
    yield now
    for _ in range(n_bounds - 1):
        before = now.cost
        now = fit_bound(now.reading.tightened(), accuracy, renew=True)
        yield now
        if before - now.cost <= accuracy * abs(now.cost):
            return


def descend_directly(first: Solution, seen: Callable[[Array, float], bool]) -> tuple[Array, float]:
    """Descend J itself after a few bounds.

    From the first bound's minimum it would end at worse stationary points than bounds do.

    Parameters
    ----------
    first : Solution
        The first bound's minimum.
    seen : callable
        Called with coefficients and J at each step; ends the descent where it returns true.

    Returns
    -------
    coef : array of shape (Q, p)
        Coefficients.
    residual : float
        What is left to gain, relative.
    """
    problem = first.reading.problem
    for now in majorise(first, _BOUNDS_FIRST):
        if seen(now.coef, now.cost):
            return now.coef, now.residual
    accuracy = FINER * problem.tol
    return _lbfgs(problem, lambda c: problem.slope(None, c), now.coef, accuracy, seen)
