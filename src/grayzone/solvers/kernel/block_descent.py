r"""Block descent in the dual, for kernels and two classes.

The dual of criterion (8), in b = w alpha, is

    minimise  C/2 b'YKYb + sum_i w_i h*(b_i / w_i),    y'b = 0,  0 <= b <= w.

At a dual point f = C K Y b, each row asks for the intercept -f_i - y_i phi(alpha_i), phi = h*'; at
the optimum all rows that can move agree. A block of those that disagree most is solved by
sequential minimal optimisation on its own small matrix, then the values f of the working set are
brought up to date by the kernel rows of the block. It starts from alpha = 0: rows far from the
decision never enter, and most of their kernel values are never computed.

Blocks work on single-precision kernel values. When the gap of the working set is small enough, f
is computed anew on *all* rows in double precision, so that what single precision left is the
right-hand side of the next round (iterative refinement), and the certificate covers every row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from grayzone.numerics import jit, jit_violators
from grayzone.numerics.kernel_design import KernelDesign
from grayzone.numerics.losses import TruncatedLogistic, logit
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers.certificate import Certificate, State
from grayzone.solvers.kernel.cache import KernelRows
from grayzone.solvers.kernel.features import indefinite, solve_in_features
from grayzone.solvers.loop import Record, Solution
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.primal import MAX_FACTORISED

Array = Any

_BLOCK = 768
_KEPT = 0.6  # share of a block that comes from the block before
_INNER = 0.2  # violation left in a block, relative to that of the working set
_LOOK = 0.65  # of the violation, after which the gap is looked at again
_SHARE = 0.7  # of the tolerance, that the working set may use up
_FARTHEST = 2.0  # violation from which rows may be left out of the working set
_FALL = 0.2  # of the violation, after which the working set is looked at again
# Share of the working set that may remain; where most values are computed time and again.
_WORTHWHILE, _WORTHWHILE_COMPUTED = 0.7, 0.9
_MARGIN = 0.1  # distance from the kink within which no row is left out
_PATIENCE = 100  # pairs for each row


@dataclass(frozen=True)
class _Memory:
    alpha: Array
    values: Array  # f, in double precision
    descent: _Descent | None = None
    share: float = _SHARE
    exact: bool = False  # whether the last step was solved exactly on the working set
    gap: float = np.inf  # of the working set, relative, when last seen in double precision


class BlockDescent:
    """The strategy, for kernels and two classes in NumPy's memory.

    Parameters
    ----------
    linear : callable
        Solves a linear problem exactly: for few rows on which blocks get nowhere.
    callback : callable, optional
        Called with a record now and then while blocks are solved; its gap is an estimate.
    """

    def __init__(
        self,
        linear: Callable[[Problem, Array | None, float], Solution],
        callback: Callable[[Record], bool | None] | None = None,
    ) -> None:
        self.linear = linear
        self.callback = callback

    def init(self, problem: Problem, start: Array | None) -> State:
        """Start from alpha = 0, or from given coefficients C w alpha y as far as they are feasible.

        Losses without a floor have no multiplier 0: then all rows start slightly above it.
        """
        y, w = _signs(problem), problem.weight
        bounded = bool(np.all(np.isfinite(problem.loss.floor)))
        mass = np.where(y > 0, np.sum(w[y > 0]), np.sum(w[y < 0]))
        if start is not None:
            alpha = np.maximum(problem.penalty * start[0, _design(problem).rows] * y / w, 0.0)
            return self._first(problem, alpha if bounded else alpha + 1e-6 * np.min(mass) / mass)
        return self._first(problem, np.zeros(y.size) if bounded else 0.05 * np.min(mass) / mass)

    def _first(self, problem: Problem, alpha: Array) -> State:
        """First state: these multipliers times whatever makes the dual largest.

        Whatever C they come from, and whatever C is, the values are then of the right order.
        """
        y, w, loss = _signs(problem), problem.weight, problem.loss
        if problem.design.fit_intercept:
            alpha = _balanced(alpha, y, w)
        values = self._values(problem, alpha)
        largest = float(np.max(alpha))
        if largest > 0.0:
            square = float(np.sum(w * alpha * y * values))

            def minus_dual(scale: float) -> float:
                return float(w @ loss.conjugate(scale * alpha)) + 0.5 * scale**2 * square

            best = minimize_scalar(minus_dual, bounds=(0.0, 0.99 / largest), method="bounded").x
            alpha, values = best * alpha, best * values
        return self._state(problem, _Memory(alpha, values))

    def _values(self, problem: Problem, alpha: Array) -> Array:
        used = np.flatnonzero(alpha)
        if not used.size:
            return np.zeros(alpha.size)
        coef = _dual_coef(problem, alpha)[used, None]
        return _design(problem).added(_design(problem).rows[used], coef)[:, 0]

    def step(self, problem: Problem, state: State, tol: float) -> State:
        """Descend on the working set, then look at every row in double precision."""
        memory: _Memory = state.memory
        descent = memory.descent or _Descent(problem, np.arange(state.u.size), self.callback)
        gap = descent.refresh(memory)
        if gap > 0.5 * memory.gap and descent.rows.dtype == np.float32:
            # single precision does not get any further
            descent = _Descent(problem, descent.rows.members, self.callback, np.float64)
            descent.refresh(memory)
        done = descent.run(memory.share * tol)
        members = descent.rows.members
        alpha = np.zeros(memory.alpha.size)
        exact = not done and members.size <= MAX_FACTORISED
        alpha[members] = self._exactly(problem, members, tol) if exact else descent.alpha
        change = _dual_coef(problem, alpha) - _dual_coef(problem, memory.alpha)
        moved = np.flatnonzero(change)
        design = _design(problem)
        values = memory.values + design.added(design.rows[moved], change[moved, None])[:, 0]
        after = self._state(
            problem, _Memory(alpha, values, descent, 0.8 * memory.share, exact, gap)
        )
        # nor does another round of blocks help where double precision got nowhere in the last two
        slow = not (done or exact) and gap > 0.5 * memory.gap and descent.rows.dtype == np.float64
        after = replace(after, stalled=slow or (exact and memory.exact))
        outside = np.ones(alpha.size, dtype=bool)
        outside[members] = False
        distance = np.where(outside, after.u - problem.loss.floor, -np.inf)
        if not np.any(distance > descent.violation):
            return after
        # rows left out of the working set have come back: on with them, and with their neighbours
        wider = np.flatnonzero(~outside | (distance > -_MARGIN))
        wider_descent = _Descent(problem, wider, self.callback)
        again = replace(after.memory, descent=wider_descent, share=memory.share)
        return replace(after, settled=False, stalled=False, memory=again)

    def _exactly(self, problem: Problem, members: Array, tol: float) -> Array:
        duals = solve_in_features(problem.take(members), self.linear, None, tol).certificate.duals
        assert duals is not None
        alpha = -duals[:, 0] * _signs(problem)[members]
        # where there is no floor, a multiplier that rounds to 0 would have no margin
        return np.where(np.isfinite(problem.loss.floor[members]), alpha, np.maximum(alpha, 1e-250))

    def _state(self, problem: Problem, memory: _Memory) -> State:
        design = _design(problem)
        b = 0.0
        if design.fit_intercept:
            pull = -memory.values - _signs(problem) * _thresholds(problem.loss, memory.alpha)
            top, bottom = jit_violators.extremes(pull, memory.alpha, _signs(problem))
            reach = 0.5 * abs(top - bottom) + 1e-9
            b = _best_intercept(problem, memory.values, 0.5 * (top + bottom), reach, 1e-14)
        coef = np.zeros((1, design.n_coef))
        coef[0, design.rows] = _dual_coef(problem, memory.alpha)
        if design.fit_intercept:
            coef[0, -1] = b
        scores = (memory.values + b)[:, None]
        return State(coef, scores, problem.margins.margin(scores), memory.alpha, memory=memory)


def _kernel_rows(design: KernelDesign, members: Array, dtype: Any) -> KernelRows:
    if design.memo is None or members.size < design.n_rows:
        return KernelRows(design, members, dtype)
    if dtype not in design.memo:
        design.memo[dtype] = KernelRows(design, members, dtype)
    return design.memo[dtype]


def _signs(problem: Problem) -> Array:
    """Labels -1 and 1."""
    assert isinstance(problem.margins, SignedMargin)
    return problem.margins.y


def _design(problem: Problem) -> KernelDesign:
    assert isinstance(problem.design, KernelDesign)
    return problem.design


def _best_intercept(
    problem: Problem, values: Array, near: float, reach: float, accuracy: float
) -> float:
    """Minimise the loss over the intercept, whose slope is monotone, from about ``near``."""
    rows = values, _signs(problem), problem.weight, problem.loss.floor

    def slope(b: float) -> float:
        return float(jit.intercept_slope(*rows, b))

    low, high = near - reach, near + reach
    while slope(low) > 0.0:
        low -= 2.0 * (high - low)
    while slope(high) < 0.0:
        high += 2.0 * (high - low)
    return float(brentq(slope, low, high, xtol=accuracy, rtol=1e-14))


def _dual_coef(problem: Problem, alpha: Array) -> Array:
    return alpha * problem.weight * _signs(problem) / problem.penalty


def _balanced(alpha: Array, y: Array, w: Array) -> Array:
    """Shrink the multipliers of the heavier class so that y'(w alpha) = 0."""
    up, down = (float(np.sum((w * alpha)[y == k])) for k in (1.0, -1.0))
    if not (up > 0 and down > 0):
        return np.zeros_like(alpha)
    return alpha * np.where(y > 0, min(1.0, down / up), min(1.0, up / down))


def _thresholds(loss: TruncatedLogistic, alpha: Array) -> Array:
    """Margins at which alpha is a slope: phi = F up to sigma(F), logit(alpha) above."""
    above = alpha > loss.slope_at_floor
    return np.where(above, logit(np.where(above, alpha, 0.5)), loss.floor)


class _Descent:
    """Blocks on one working set."""

    def __init__(
        self, problem: Problem, members: Array, callback: Any, dtype: Any = np.float32
    ) -> None:
        whole = members.size == problem.weight.size
        self.problem = problem if whole else problem.take(members)
        self.rows = _kernel_rows(_design(problem), members, dtype)
        self.y, self.w = _signs(self.problem), self.problem.weight
        self.loss = self.problem.loss
        self.C = 1.0 / problem.penalty
        self.block = np.zeros(0, dtype=np.int64)
        self.callback = callback
        self.n_blocks = 0
        self.began = time.perf_counter()

    def refresh(self, memory: _Memory) -> float:
        """Take multipliers and values from a look at all rows; gives the relative gap."""
        members = self.rows.members
        self.alpha = memory.alpha[members]
        self.pull = -memory.values[members] - self.y * _thresholds(self.loss, self.alpha)
        return self._relative_gap(0.5 * sum(self._extremes()))

    def run(self, goal: float) -> bool:
        """Solve blocks until the relative gap of the working set is at most ``goal``.

        False where that takes suspiciously many: the problem is ill-conditioned.
        """
        looked, least, narrowed = np.inf, 0.0, _FARTHEST
        left = _PATIENCE * (100 + self.y.size)
        while left > 0:
            top, bottom = self._extremes()
            self.violation = top - bottom
            if self.violation <= 1e-13 * (1.0 + abs(top)):
                return True
            # a gap falls no faster than the square of the violation, or hardly so
            soon = least * (self.violation / looked) ** 2 <= goal
            if soon and self.violation <= _LOOK * looked and self.violation < 0.3:
                looked = self.violation
                least = self._relative_gap(0.5 * (top + bottom), goal)
                if least <= goal:
                    return True
            if self.violation <= narrowed:
                narrowed = _FALL * self.violation
                self._narrow(top, bottom)
            left -= self._solve_block(top, bottom)
        return False

    def _extremes(self) -> tuple[float, float]:
        top, bottom = jit_violators.extremes(self.pull, self.alpha, self.y)
        # without an intercept every row has to agree on 0
        return (
            (top, bottom)
            if self.problem.design.fit_intercept
            else (max(top, 0.0), min(bottom, 0.0))
        )

    def _relative_gap(self, b: float, goal: float = 0.0) -> float:
        """Relative gap of the working set, with the best intercept where that may decide."""
        values = -self.pull - self.y * _thresholds(self.loss, self.alpha)
        primal, gap = self._primal_and_gap(values, b)
        if goal < gap <= 20.0 * goal and self.problem.design.fit_intercept:
            b = _best_intercept(self.problem, values, b, self.violation, 0.02 * self.violation)
            primal, gap = self._primal_and_gap(values, b)
        if self.callback is not None:
            self._report(primal, gap)
        return gap

    def _primal_and_gap(self, values: Array, b: float) -> tuple[float, float]:
        u = -self.y * (values + b)
        gap = float(self.w @ self.loss.fenchel_young(u, self.alpha))
        primal = float(self.w @ (self.loss.value(u) + 0.5 * self.alpha * self.y * values))
        return primal, Certificate(primal, gap).relative

    def _solve_block(self, top: float, bottom: float) -> int:
        """Solve the block that disagrees most; gives the number of pairs that were moved."""
        block = self._choose(top, bottom)
        K = self.rows.block(block)
        y, w, before = self.y[block], self.w[block], self.alpha[block]
        loss = self.loss.take(block)
        floor, s = loss.floor, loss.slope_at_floor
        alpha, pull, least = before.copy(), self.pull[block], np.zeros(block.size)
        if not self.problem.design.fit_intercept:
            # a row that nothing depends on, free to take up what y'b gains or loses
            K = np.pad(K, (0, 1))
            y, w = np.append(y, 1.0), np.append(w, 1.0)
            floor, s = np.append(floor, 0.0), np.append(s, np.inf)
            alpha, pull = np.append(alpha, 0.0), np.append(pull, 0.0)
            least = np.append(least, -np.inf)
        eps, most = _INNER * (top - bottom), 20 * block.size + 200
        pairs, flattest = jit.descend_pairs(
            K, y, w, floor, s, least, alpha, pull, self.C, eps, most
        )
        self._check_curvature(flattest, K)
        alpha, y, w = alpha[: block.size], y[: block.size], w[: block.size]
        self.alpha[block] = alpha
        self.pull[block] -= y * (_thresholds(loss, alpha) - _thresholds(loss, before))
        change = self.C * w * (alpha - before) * y
        moved = np.flatnonzero(change)
        self.rows.subtract(self.pull, block[moved], change[moved])
        self.block = block
        self.n_blocks += 1
        return pairs

    def _check_curvature(self, flattest: float, K: Array) -> None:
        """A kernel has K_ii + K_jj - 2 K_ij >= 0, within what single precision leaves of it."""
        if flattest < 0.0 and flattest < -1e-3 * self.C * float(np.max(np.abs(K))):
            raise indefinite(f"K_ii + K_jj - 2 K_ij = {flattest / self.C:.2e} for two rows")

    def _choose(self, top: float, bottom: float) -> Array:
        n = self.y.size
        if n <= _BLOCK:
            return np.arange(n)
        fresh = _BLOCK if not self.block.size else int((1 - _KEPT) * _BLOCK)
        new = jit_violators.violators(self.pull, self.alpha, self.y, top, bottom, fresh // 2)
        marked = np.zeros(n, dtype=bool)
        marked[new] = True
        return np.concatenate([new, self.block[~marked[self.block]][: _BLOCK - new.size]])

    def _narrow(self, top: float, bottom: float) -> None:
        """Leave rows out that are saturated and far from the kink, where that saves a lot."""
        slack = np.where(self.y > 0, bottom - self.pull, self.pull - top)
        keep = np.flatnonzero((self.alpha > 0) | (slack <= max(_MARGIN, 2.0 * (top - bottom))))
        # rows that are kept for another fit stay whole
        most = _WORTHWHILE if self.rows.all_fit else _WORTHWHILE_COMPUTED
        if keep.size > most * self.y.size or self.rows.design.memo is not None:
            return
        self.rows.narrow(keep)
        position = np.full(self.y.size, -1)
        position[keep] = np.arange(keep.size)
        self.block = position[self.block][position[self.block] >= 0]
        self.problem = self.problem.take(keep)
        self.y, self.w, self.loss = _signs(self.problem), self.problem.weight, self.problem.loss
        self.alpha, self.pull = self.alpha[keep], self.pull[keep]

    def _report(self, primal: float, gap: float) -> None:
        active = int(np.count_nonzero(self.alpha))
        seconds = time.perf_counter() - self.began
        self.callback(Record(self.n_blocks, primal, gap, active, seconds))
