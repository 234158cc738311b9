r"""Policies fitted to rows that are seen a block at a time, wherever they are.

The problem of :mod:`grayzone.solvers.policy.policy` with one difference: nothing of the size of the
rows is kept. Targets of the bound at :math:`\nu` are :math:`w R p^\nu(x)`, which every reading
computes anew from the coefficients :math:`\nu`. One reading gives the log-loss at new coefficients,
J, and the derivatives that the next step starts from: those of the same bound or, where the step
will be its last, of the next one. Steps are the same as in memory, and so are solutions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import array_namespace, device

from grayzone.numerics.backend import moved
from grayzone.numerics.designs import Design
from grayzone.numerics.linalg import descend, factorise
from grayzone.numerics.margins import output_pairs
from grayzone.solvers.policy import policy as in_memory
from grayzone.solvers.policy.policy import Policy, policy_of
from grayzone.sources.labelled import Rows
from grayzone.sources.labelled_blocks import LabelledBlocks
from grayzone.sources.source import Sums

Array = Any

_TRIALS = 40  # of the lengths of a step of L-BFGS
_FALL, _SLOPE = 1e-4, 0.9  # Wolfe's conditions
_ROUNDING = 1e-13  # of a sum over rows, relative


# ------------------------------------------------------------------------------------------
# Tasks
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limited:
    """What is maximised, and the limit that is kept on the way.

    The limit is on the sum of ``factors`` of the classes (2,), negative for the negative one, times
    the probabilities of the positive class; ``objective`` (2, 2) are the rewards.
    """

    objective: Array
    factors: Array


@dataclass(frozen=True)
class PolicyFrame:
    """Rewards (K, A) of the classes, penalty and intercept; small, it travels with every task.

    Under a limit ``rewards`` are those of its Lagrangian.
    """

    rewards: Array
    penalty: float  # lambda / A
    fit_intercept: bool
    limited: Limited | None = None

    @property
    def policy(self) -> Policy:
        """Policy of these actions."""
        return policy_of(self.rewards.shape[1])

    def design(self, rows: Rows) -> Design:
        """Give what scores of rows are linear in."""
        return rows.design(self.fit_intercept)

    def amounts(self, rows: Rows) -> Array:
        """Rewards (n, A) of rows, with their weights."""
        return per_row(self.rewards, rows)


def per_row(of_classes: Array, rows: Rows) -> Array:
    """Amounts of the classes as amounts of rows, times their weights."""
    xp = array_namespace(rows.weight)
    taken = xp.take(moved(of_classes, rows.weight), rows.codes, axis=0)
    return taken * (rows.weight if taken.ndim == 1 else rows.weight[:, None])


class Bound(Protocol):
    """The policy that a bound is taken at."""

    def proba(self, frame: PolicyFrame, rows: Rows, design: Design) -> Array:
        """Give its probabilities, (n, A)."""


@dataclass(frozen=True)
class BoundAt:
    """The bound at coefficients."""

    coef: Array

    def proba(self, frame: PolicyFrame, rows: Rows, design: Design) -> Array:
        """Give its probabilities, (n, A)."""
        return frame.policy.proba(design.scores(self.coef))


@dataclass(frozen=True)
class FirstBound:
    """The bound at p = 1/A."""

    def proba(self, frame: PolicyFrame, rows: Rows, design: Design) -> Array:
        """Give its probabilities, (n, A)."""
        n_actions = frame.policy.n_actions
        xp = array_namespace(rows.weight)
        shape = rows.weight.shape[0], n_actions
        return xp.full(shape, 1.0 / n_actions, dtype=xp.float64, device=device(rows.weight))


@dataclass(frozen=True)
class _Look:
    """Log-loss, J and derivatives at new coefficients, in one reading.

    With ``renew`` derivatives are those of the bound at these coefficients.
    """

    frame: PolicyFrame
    bound: Bound
    coef: Array
    renew: bool
    curvature: bool  # whether there are to be derivatives

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        frame, policy, design = self.frame, self.frame.policy, self.frame.design(rows)
        R, F = frame.amounts(rows), design.scores(self.coef)
        now, bound = policy.proba(F), self.bound.proba(frame, rows, design)
        q = R * bound
        own = R * now if self.renew else q
        sums: Sums = {"loss": xp.sum(policy.losses(F, q)), "own": xp.sum(policy.losses(F, own))}
        if self.curvature:
            grams, gradient = design.gram(policy.bend(F, own), policy.pull(F, own))
            sums = {**sums, "grams": grams, "gradient": gradient}
        if frame.limited is None:
            return {**sums, "reward": xp.sum(R * now)}
        return {**sums, **self._limits(frame.limited, rows, F, now, bound)}

    def _limits(self, limited: Limited, rows: Rows, F: Array, now: Array, bound: Array) -> Sums:
        """What is had of the objective and of the limit, and what its bound loses of it."""
        xp = array_namespace(rows.weight)
        weight = per_row(limited.factors, rows)
        absolute = xp.abs(weight)
        known = xp.arange(2, device=device(rows.codes))
        own = xp.where(rows.codes[:, None] == known[None, :], absolute[:, None], 0.0)
        design = self.frame.design(rows)
        before = design.scores(self.bound.coef) if isinstance(self.bound, BoundAt) else F
        policy, pulled = self.frame.policy, own * bound
        lost = policy.losses(F, pulled) - policy.losses(before, pulled)
        return {
            "reward": xp.sum(per_row(limited.objective, rows) * now),
            "limit": xp.sum(weight * now[:, 1]),
            "pulled": xp.sum(own * now),
            "lost": xp.sum(lost),
        }


@dataclass(frozen=True)
class _Slope:
    """Value and gradient of a log-loss or, without a bound, of minus the expected rewards."""

    frame: PolicyFrame
    bound: Bound | None
    coef: Array

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        policy, design = self.frame.policy, self.frame.design(rows)
        R, F = self.frame.amounts(rows), design.scores(self.coef)
        if self.bound is None:
            value, pull = -xp.sum(R * policy.proba(F)), -policy.reward_pull(F, R)
        else:
            q = R * self.bound.proba(self.frame, rows, design)
            value, pull = xp.sum(policy.losses(F, q)), policy.pull(F, q)
        return {"value": value, "gradient": design.gradient(pull)}


@dataclass(frozen=True)
class _Squares:
    """Diagonal of the Hessian of the first bound, where it is the same for all outputs."""

    frame: PolicyFrame

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        A = self.frame.policy.n_actions
        weight = xp.sum(self.frame.amounts(rows), axis=1, keepdims=True) / A**2
        return {"squares": self.frame.design(rows).square_sums(weight * (1.0 - 1.0 / A))}


# ------------------------------------------------------------------------------------------
# Convex fits
# ------------------------------------------------------------------------------------------


class BlockFitted(NamedTuple):
    """Coefficients, what is left of the gradient, relative, and what was seen there.

    ``renewed`` says whether the derivatives among the sums are those of the bound there.
    """

    coef: Array
    residual: float
    sums: Sums
    renewed: bool


class _Point(NamedTuple):
    """Coefficients, the log-loss there, and what was seen."""

    coef: Array
    value: float
    sums: Sums


@dataclass(frozen=True)
class BlockPolicy:
    """Rows in blocks, rewards of the classes, and the accuracy asked for."""

    labelled: LabelledBlocks
    frame: PolicyFrame
    tol: float
    max_iter: int

    @cached_property
    def like(self) -> Array:
        """An array of the kind that sums are."""
        return self.labelled.source.like()

    @cached_property
    def best(self) -> float:
        """Rewards of always doing the best."""
        limited = self.frame.limited
        rewards = self.frame.rewards if limited is None else limited.objective
        xp = array_namespace(rewards)
        mass = moved(self.labelled.mass * self.labelled.factors, rewards)
        return float(xp.sum(mass * xp.max(rewards, axis=1)))

    @cached_property
    def n_features(self) -> int:
        """Features of a row."""
        return int(self.labelled.source.n_features)

    @cached_property
    def penalised(self) -> Array:
        """Ones for penalised coefficients, zero for the intercept."""
        mask = np.ones(self.n_features + int(self.frame.fit_intercept))
        mask[self.n_features :] = 0.0
        return moved(mask, self.like)

    def start(self) -> Array:
        """Coefficients of the policy that knows nothing."""
        shape = self.frame.policy.n_outputs, self.n_features + int(self.frame.fit_intercept)
        return moved(np.zeros(shape), self.like)

    def norm(self, coef: Array) -> float:
        """Value of the penalty."""
        slopes = coef[:, : self.n_features]
        return 0.5 * self.frame.penalty * float(array_namespace(coef).sum(slopes * slopes))

    def shrinkage(self, coef: Array) -> Array:
        """Gradient of the penalty."""
        return self.frame.penalty * coef * self.penalised

    def expected_cost(self, found: BlockFitted) -> float:
        """J."""
        return self.best - float(found.sums["reward"]) + self.norm(found.coef)

    def look(self, bound: Bound, coef: Array, renew: bool = False, curvature: bool = True) -> Sums:
        """Read the rows once."""
        return self.labelled.reduce(_Look(self.frame, bound, coef, renew, curvature))

    def slope(self, bound: Bound | None, coef: Array) -> tuple[float, Array]:
        """Penalised log-loss and its gradient or, without a bound, those of J."""
        found = self.labelled.reduce(_Slope(self.frame, bound, coef))
        value = float(found["value"]) + self.norm(coef) + (self.best if bound is None else 0.0)
        return value, found["gradient"] + self.shrinkage(coef)


def fit_bound(
    problem: BlockPolicy,
    bound: Bound,
    start: BlockFitted | Array,
    accuracy: float,
    renew: bool = False,
) -> BlockFitted:
    """Minimise a bound, until steps promise less than ``accuracy``.

    Parameters
    ----------
    problem : BlockPolicy
        The rows.
    bound : Bound
        What bound.
    start : BlockFitted or array of shape (Q, p)
        Where to start; what was seen there is made use of where derivatives are renewed.
    accuracy : float
        Decrease promised by the last step, relative.
    renew : bool
        Whether the bound at the solution will be minimised next.

    Returns
    -------
    fitted : BlockFitted
        The minimum.
    """
    coef = start.coef if isinstance(start, BlockFitted) else start
    if coef.shape[0] * coef.shape[1] > in_memory._MAX_NEWTON:
        return _quasi_newton(problem, bound, coef, accuracy)
    known = isinstance(start, BlockFitted) and start.renewed
    sums = start.sums if known else problem.look(bound, coef)
    point = _Point(coef, float(sums["own"]) + problem.norm(coef), sums)
    residual, last = inf, False
    for _ in range(problem.max_iter):
        H, gradient = _derivatives(problem, point)
        xp = array_namespace(gradient)
        change = -xp.reshape(factorise(H)(xp.reshape(gradient, (-1,))), coef.shape)
        promised = -float(xp.sum(gradient * change))
        residual = promised / max(point.value, in_memory._NEXT_TO_NOTHING * problem.best)
        last = residual <= accuracy
        line = _Line(problem, bound, point, change, renew and last)
        t, _ = descend(line.value, -promised, point.value)
        if t == 0.0:
            break
        point = line.point
        # the step is quadratically better than what it promised
        if last and t == 1.0:
            return BlockFitted(point.coef, residual, point.sums, renew)
        if line.renews:  # shortened after all: its derivatives are those of another bound
            sums = problem.look(bound, point.coef)
            point = _Point(point.coef, point.value, sums)
    return BlockFitted(point.coef, residual, point.sums, False)


class _Line:
    """Log-losses along a step, and the last point looked at."""

    def __init__(
        self, problem: BlockPolicy, bound: Bound, point: _Point, change: Array, renews: bool
    ) -> None:
        self.problem, self.bound, self.origin = problem, bound, point
        self.change, self.renews = change, renews
        self.point = point

    def value(self, t: float) -> float:
        """Log-loss at a step of this length."""
        coef = self.origin.coef + t * self.change
        sums = self.problem.look(self.bound, coef, self.renews)
        value = float(sums["loss"]) + self.problem.norm(coef)
        self.point = _Point(coef, value, sums)
        return value


def _derivatives(problem: BlockPolicy, point: _Point) -> tuple[Array, Array]:
    """Hessian and gradient with the penalty."""
    grams, coef = point.sums["grams"], point.coef
    xp = array_namespace(coef)
    n_outputs, p = coef.shape
    places = {pair: i for i, pair in enumerate(output_pairs(n_outputs))}

    def part(k: int, m: int) -> Array:
        return grams[places[k, m], ...] if k >= m else grams[places[m, k], ...].T

    every = range(n_outputs)
    H = xp.concat([xp.concat([part(k, m) for m in every], axis=1) for k in every], axis=0)
    ridge = xp.concat([problem.frame.penalty * problem.penalised] * n_outputs)
    size = n_outputs * p
    H = H + xp.eye(size, dtype=H.dtype, device=device(H)) * ridge[:, None]
    if n_outputs > 1 and problem.frame.fit_intercept:
        # one constant added to all scores changes nothing: any curvature will do there
        last = xp.concat([1.0 - problem.penalised] * n_outputs)
        H = H + last[:, None] * last[None, :] * (xp.linalg.trace(H) / size)
    return H, point.sums["gradient"] + problem.shrinkage(coef)


# ------------------------------------------------------------------------------------------
# L-BFGS
# ------------------------------------------------------------------------------------------


def _quasi_newton(problem: BlockPolicy, bound: Bound, start: Array, accuracy: float) -> BlockFitted:
    coef, residual = _lbfgs(problem, lambda c: problem.slope(bound, c), start, accuracy)
    return BlockFitted(coef, residual, problem.look(bound, coef, curvature=False), False)


def _lbfgs(
    problem: BlockPolicy,
    value_and_gradient: Callable[[Array], tuple[float, Array]],
    start: Array,
    accuracy: float,
    seen: Callable[[float], bool] = lambda value: False,
) -> tuple[Array, float]:
    """L-BFGS in coordinates scaled by the diagonal of the first Hessian; SciPy's rules to stop.

    Gives the coefficients and the largest entry of the scaled gradient.
    """
    xp = array_namespace(start)
    scale = 1.0 / xp.sqrt(_diagonal(problem))
    x = start / scale
    value, gradient = value_and_gradient(start)
    size = max(abs(value), 1e-300)

    def scaled(z: Array) -> tuple[float, Array]:
        value, gradient = value_and_gradient(z * scale)
        return value / size, gradient * scale / size

    value, gradient = value / size, gradient * scale / size
    pairs: deque[tuple[Array, Array]] = deque(maxlen=in_memory._MEMORY)
    for _ in range(10 * problem.max_iter):
        if float(xp.max(xp.abs(gradient))) <= accuracy:
            break
        direction = _direction(gradient, pairs)
        found = _wolfe(scaled, x, value, gradient, direction)
        if found is None and pairs:  # what the pairs tell is not true here
            pairs.clear()
            continue
        if found is None:
            break
        step, after, slope = found
        pair = step, slope - gradient
        if float(xp.sum(pair[0] * pair[1])) > 0.0:
            pairs.append(pair)
        before, x, value, gradient = value, x + step, after, slope
        if seen(size * value):
            break
        if before - value <= 1e-2 * accuracy * max(abs(before), abs(value), 1.0):
            break
    return x * scale, float(xp.max(xp.abs(gradient)))


def _diagonal(problem: BlockPolicy) -> Array:
    squares = problem.labelled.reduce(_Squares(problem.frame))["squares"]
    diagonal = squares + (problem.frame.penalty * problem.penalised)[None, :]
    return diagonal + 1e-12 * array_namespace(diagonal).max(diagonal)


def _direction(gradient: Array, pairs: deque[tuple[Array, Array]]) -> Array:
    """Two-loop recursion (Nocedal, 1980); numbers stay where the gradient is."""
    xp = array_namespace(gradient)
    if not pairs:
        return -gradient / xp.sqrt(xp.sum(gradient * gradient))
    q, shares = gradient, []
    for s, y in reversed(pairs):
        shares.append(xp.sum(s * q) / xp.sum(s * y))
        q = q - shares[-1] * y
    s, y = pairs[-1]
    r = q * (xp.sum(s * y) / xp.sum(y * y))
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        r = r + (share - xp.sum(y * r) / xp.sum(s * y)) * s
    return -r


def _wolfe(
    function: Callable[[Array], tuple[float, Array]],
    x: Array,
    value: float,
    gradient: Array,
    direction: Array,
) -> tuple[Array, float, Array] | None:
    """Step that falls by a fair share and levels off, with value and gradient; None without one.

    Near the minimum, where the decrease drowns in rounding, slopes decide (Hager & Zhang, 2005).
    """
    xp = array_namespace(x)
    slope = float(xp.sum(gradient * direction))
    if not slope < 0.0:
        return None
    low, high, t = 0.0, inf, 1.0
    for _ in range(_TRIALS):
        step = t * direction
        reached, there = function(x + step)
        here = float(xp.sum(there * direction))
        fell = reached <= value + _FALL * t * slope
        level = reached <= value + _ROUNDING * abs(value) and here <= (2.0 * _FALL - 1.0) * slope
        if not (isfinite(reached) and (fell or level)):
            high = t
        elif here < _SLOPE * slope:
            low = t
        else:
            return step, reached, there
        t = 0.5 * (low + high) if isfinite(high) else 2.0 * low
    return None


# ------------------------------------------------------------------------------------------
# Bound after bound
# ------------------------------------------------------------------------------------------


def majorise_by_blocks(
    problem: BlockPolicy, first: BlockFitted, n_bounds: int
) -> Iterator[tuple[BlockFitted, float]]:
    """Algorithm 1 from the first bound's minimum on: refit to the bound at the last solution.

    Gives each solution and its expected cost, which never rises.
    """
    now, accuracy = first, in_memory._FINER * problem.tol
    cost = problem.expected_cost(now)
    yield now, cost
    for _ in range(n_bounds - 1):
        now = fit_bound(problem, BoundAt(now.coef), now, accuracy, renew=True)
        before, cost = cost, problem.expected_cost(now)
        yield now, cost
        if before - cost <= accuracy * abs(cost):
            return


def descend_by_blocks(
    problem: BlockPolicy, first: BlockFitted, seen: Callable[[float], bool]
) -> tuple[BlockFitted, list[float]]:
    """Descend J itself after a few bounds; gives J at each step as well.

    ``seen`` is called with J at each step, and ends the descent where it returns true.
    """
    path: list[float] = []

    def follow(value: float) -> bool:
        path.append(value)
        return seen(value)

    for now, cost in majorise_by_blocks(problem, first, in_memory._BOUNDS_FIRST):
        if follow(cost):
            return now, path
    accuracy = in_memory._FINER * problem.tol
    coef, residual = _lbfgs(problem, lambda c: problem.slope(None, c), now.coef, accuracy, follow)
    return BlockFitted(coef, residual, {}, False), path
