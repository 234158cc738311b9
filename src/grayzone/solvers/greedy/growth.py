"""Import points, one after the other: steps (B1) to (B4) of Zhu & Hastie (2002)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from grayzone.numerics.designs import DenseDesign
from grayzone.solvers import Problem
from grayzone.solvers.greedy.basis import NewtonBasis
from grayzone.solvers.greedy.columns import KernelColumns
from grayzone.solvers.greedy.refit import Fitted, refit
from grayzone.solvers.greedy.scores import (
    NewtonScores,
    Scores,
    enough_power,
    one_step,
    score,
    score_by_power,
)
from grayzone.solvers.kernel.features import indefinite

Array = Any

# Candidates whose criterion is computed, not only promised: all while that is cheap, then a few.
ENTRIES, FINALISTS = 10_000, 4
# Gains that differ by less than this share are the same, and the order of rows must not decide.
TIE = 1e-9
_LEAST_SHOWN = 0.75  # share of rows that single precision has to show something of
ROUNDING = 1e-12


@dataclass(frozen=True)
class Rules:
    """How points are chosen, and when there are enough of them."""

    selection: str
    n_candidates: int | None
    block_size: int
    removal: bool
    max_points: int | None
    tol: float
    lag: int


class _Choice(NamedTuple):
    taken: int  # place among the candidates
    start: Array | None = None
    column: Array | None = None


class Rounds(ABC):
    """Additions, round by round, until the stopping rule holds: what all growth has in common."""

    rules: Rules
    n_rows: int
    basis: Any
    fitted: Any
    path: list[float]
    _best: dict[int, float]  # least criterion at each number of points

    @abstractmethod
    def _add(self) -> bool:
        """Add a block of points and refit; False where no candidate adds anything."""

    @abstractmethod
    def _remove(self) -> None:
        """Leave points out while that is worth it."""

    def grow(self) -> Iterator[float]:
        """Add points until the stopping rule of §3.3 holds; gives the criterion of each round."""
        while self._room() > 0 and self._add():
            if self.rules.removal:
                self._remove()
            self.path.append(self.fitted.objective)
            yield self.fitted.objective
            if self._converged():
                return

    def _converged(self) -> bool:
        """Whether the last r points have lowered the criterion by less than ``tol`` times itself.

        With removals, the least criterion seen at each number of points takes the place of H_k.
        """
        block = self.rules.block_size
        before = self._best.get(self.basis.size - block * ceil(self.rules.lag / block))
        if before is None:
            return False
        now = self._best[self.basis.size]
        return abs(before - now) < self.rules.tol * abs(now) or before == now

    def _room(self) -> int:
        most = self.rules.max_points
        return (self.n_rows if most is None else min(most, self.n_rows)) - self.basis.size


class Growth(Rounds):
    """A function whose points are being chosen.

    Parameters
    ----------
    columns : KernelColumns
        Kernel columns of training rows, and of held-out rows after them.
    n_rows : int
        How many of their rows are training rows.
    make_problem : callable
        Gives the problem of a design and a penalty.
    fit_intercept : bool
        Whether the function has an intercept.
    penalty : float
        lambda.
    rules : Rules
        How to choose.
    rng : RandomState
        Draws candidates, where not all rows are.

    Attributes
    ----------
    fitted : Fitted
        The optimum on the span of the points.
    path : list of float
        The criterion after each round of additions.
    """

    def __init__(
        self,
        columns: KernelColumns,
        n_rows: int,
        make_problem: Callable[[DenseDesign, float], Problem],
        fit_intercept: bool,
        penalty: float,
        rules: Rules,
        rng: np.random.RandomState,
    ) -> None:
        self.columns, self.n_rows, self.rules, self.rng = columns, n_rows, rules, rng
        self._make_problem, self._fit_intercept = make_problem, fit_intercept
        self.penalty = penalty
        self._diagonal = columns.diagonal()
        self.basis = NewtonBasis(self._diagonal)
        empty = self._problem(np.empty((columns.n_rows, 0)))
        self.fitted = self._refit(empty, empty.prior_coef())
        self.path: list[float] = []
        self._best = {0: self.fitted.objective}

    def set_penalty(self, penalty: float) -> None:
        """Go on with another penalty from the points there are: step (C4)."""
        self.penalty = penalty
        self.fitted = self._refit(self._problem(self.basis.columns), self.fitted.coef)
        self._best = {self.basis.size: self.fitted.objective}

    def _problem(self, columns: Array) -> Problem:
        design = DenseDesign(columns[: self.n_rows], self._fit_intercept)
        return self._make_problem(design, self.penalty)

    def _refit(self, problem: Problem, start: Array) -> Fitted:
        found = refit(problem, start)
        assert found is not None  # nothing to be above of
        return found

    def dual_coef(self) -> tuple[Array, Array]:
        """Coefficients (Q, q) of the kernel functions of the points, and intercepts (Q,)."""
        q, coef = self.basis.size, self.fitted.coef
        intercept = coef[:, q] if self._fit_intercept else np.zeros(coef.shape[0])
        return self.basis.dual_coef(coef[:, :q]), intercept.copy()

    def held_out_scores(self) -> Array:
        """Scores of the rows after the training rows."""
        q, coef = self.basis.size, self.fitted.coef
        return self.basis.columns[self.n_rows :] @ coef[:, :q].T + self.dual_coef()[1]

    # ------------------------------------------------------------------------------------------
    # Additions
    # ------------------------------------------------------------------------------------------

    def _candidates(self) -> Array:
        m = self.rules.n_candidates
        if m is None:
            return np.arange(self.n_rows)
        # among those that are not spanned yet, for a draw of others only would end the growth
        left = np.flatnonzero(self._unspanned())
        if m >= left.size:
            return left
        return np.sort(self.rng.choice(left, m, replace=False))

    def _unspanned(self) -> Array:
        """Whether columns of this precision can show that a row adds something."""
        power, diagonal = self.basis.power[: self.n_rows], self._diagonal[: self.n_rows]
        return enough_power(power, diagonal, self.columns.dtype)

    def _check_precision(self) -> None:
        """Turn to double precision once single shows too little of too many rows.

        The few of which it still shows something are not like the others.
        """
        if self.columns.dtype == np.float32 and np.mean(self._unspanned()) < _LEAST_SHOWN:
            self.columns = self.columns.in_double()

    def _add(self) -> bool:
        """Add a block of points and refit; False where no candidate adds anything."""
        self._check_definite()
        self._check_precision()
        points = self._candidates()
        if not points.size:
            return False
        how = score_by_power if self.rules.selection == "power" else score
        found: Scores = how(self.fitted, self.basis, self.columns, points, self._diagonal)
        before, size = self.fitted, min(self.rules.block_size, self._room())
        start = None
        for k in range(size):
            choice = self._choose(found, alone=size == 1)
            if choice is None:
                break
            taken, start, column = choice
            if column is None:
                column = self.columns.column(found.points[[taken]])[:, 0]
            self.basis.append(int(found.points[taken]), column)
            if k + 1 < size:
                found.deflate(before, self.columns, taken, column)
                found.limit(self.basis.power, self._diagonal, self.columns.dtype)
        else:
            k = size
        if k == 0:
            return False
        start = self._extended(before.coef, k) if start is None or size > 1 else start
        self.fitted = self._refit(self._problem(self.basis.columns), start)
        best = self._best.get(self.basis.size, np.inf)
        self._best[self.basis.size] = min(best, self.fitted.objective)
        return True

    def _extended(self, coef: Array, k: int) -> Array:
        """Coefficients with zeros for k new columns, before the intercept."""
        q = self.basis.size - k
        zeros = np.zeros((coef.shape[0], k))
        return np.concatenate([coef[:, :q], zeros, coef[:, q:]], axis=1)

    def _choose(self, found: Scores, alone: bool) -> _Choice | None:
        """Best candidate, with start coefficients and its column where there are some."""
        gains = found.gains()
        if not np.any(gains > 0.0):
            return None
        if not (alone and isinstance(found, NewtonScores)):
            return _Choice(self._tie_break(found, -gains))
        if self.rules.selection == "exact":
            return _Choice(self._by_refits(found, gains))
        return self._by_one_step(found, gains)

    def _by_one_step(self, found: NewtonScores, gains: Array) -> _Choice:
        """Step (B2*): the criterion of the most promising candidates, after one Newton step."""
        order = np.argsort(-gains, kind="stable")[: max(FINALISTS, ENTRIES // self.n_rows)]
        order = order[gains[order] > 0.0]
        tried = one_step(self.fitted, self.basis, self.columns, found, order)
        changes = np.full(gains.size, np.inf)
        changes[order] = tried.values - self.fitted.objective
        taken = self._tie_break(found, changes)
        i = int(np.flatnonzero(order == taken)[0])
        start = tried.coefs[i] if changes[taken] < 0.0 else None
        return _Choice(taken, start, tried.columns[:, i])

    def _by_refits(self, found: Scores, gains: Array) -> int:
        """Step (B2): the criterion of every candidate, at its own optimum.

        Candidates that duality shows to be worse than the best so far are left half way.
        """
        order = np.argsort(-gains, kind="stable")
        order = order[gains[order] >= 0.0]
        values, best = np.full(gains.size, np.inf), np.inf
        for block in np.array_split(order, max(1, order.size * self.n_rows // 2_000_000)):
            K = self.columns.column(found.points[block])
            for i, candidate in enumerate(block):
                tried = self.basis.tried(int(found.points[candidate]), K[:, i])
                q, coef = self.basis.size, self.fitted.coef
                start = np.insert(coef, q, 0.0, axis=1)
                limit = best + TIE * abs(best) if np.isfinite(best) else np.inf
                refitted = refit(self._problem(tried), start, above=limit)
                if refitted is not None:
                    values[candidate] = refitted.objective
                    best = min(best, refitted.objective)
        return self._tie_break(found, values - self.fitted.objective)

    def _tie_break(self, found: Scores, values: Array) -> int:
        """Place of the least value; of several within rounding, that of the first row in value."""
        best = float(np.min(values))
        # what is left of a nearly spanned column has few digits, and so has what it gains
        diagonal = np.abs(self._diagonal[found.points])
        left = np.maximum(found.power, 1e-12 * diagonal + 1e-300)
        rounding = ROUNDING * (1.0 + diagonal / left)
        slack = (TIE + rounding) * abs(best) + ROUNDING * self.fitted.objective
        near = np.flatnonzero(values <= best + slack)
        if near.size == 1 or self.columns.precomputed:
            return int(near[0])
        rows = self.columns.X[self.columns.rows[found.points[near]]]
        dense = rows.toarray() if sp.issparse(rows) else rows
        return int(near[np.lexsort(dense.T[::-1])[0]])

    def _check_definite(self) -> None:
        scale = float(np.max(np.abs(self._diagonal), initial=0.0))
        least = float(np.min(self.basis.power))
        if least < -1e-6 * scale:
            raise indefinite(f"a row has {least:.2e} left of its square norm")

    # ------------------------------------------------------------------------------------------
    # Removals
    # ------------------------------------------------------------------------------------------

    def removal_estimates(self) -> Array:
        r"""Increase of the criterion when each point is left out, to second order.

        With :math:`M^{-1}` the inverse Hessian in the coefficients a of kernel columns,
        :math:`\tfrac12 a_j'([M^{-1}]_{jj})^{-1}a_j`.
        """
        q, (n_outputs, p) = self.basis.size, self.fitted.coef.shape
        inverse_factor = np.linalg.inv(self.basis.factor)
        a = inverse_factor.T @ self.fitted.coef[:, :q].T
        wide = np.zeros((n_outputs, p, n_outputs, q))
        for k in range(n_outputs):
            wide[k, :q, k] = inverse_factor
        solved = self.fitted.solve(wide.reshape(n_outputs * p, n_outputs * q))
        solved = solved.reshape(n_outputs, p, n_outputs, q)[:, :q]
        block = np.einsum("aj,kalj->jkl", inverse_factor, solved)
        return 0.5 * np.einsum("jk,jk->j", a, np.linalg.solve(block, a[:, :, None])[:, :, 0])

    def _remove(self) -> None:
        """Leave points out while that gives the best criterion seen at the smaller size, by far.

        Every removal lowers one of these, so that no set of points comes back; and it lowers it by
        more than the stopping rule takes for nothing.
        """
        margin = max(self.rules.tol, ROUNDING)
        while self.basis.size > 1:
            size = self.basis.size - 1
            best = (1.0 - margin) * self._best.get(size, np.inf)  # H is positive
            increases = self.removal_estimates()
            j = int(np.argmin(increases))
            if not self.fitted.objective + increases[j] < best:
                return
            columns, factor = self.basis.without(j)
            start = self._rotated(j, factor)
            problem = self._problem(columns)
            fitted = self._refit(problem, start)
            if not fitted.objective < best:
                return
            self.basis.remove(j, columns, factor)
            # the design has to see the basis itself, not what it was computed in
            design = self._problem(self.basis.columns).design
            self.fitted = replace(fitted, problem=replace(problem, design=design))
            self._best[size] = fitted.objective

    def _rotated(self, j: int, factor: Array) -> Array:
        """Coefficients without the j-th point: those of the other kernel columns stay."""
        q = self.basis.size
        a = np.delete(self.basis.dual_coef(self.fitted.coef[:, :q]), j, axis=1)
        return np.concatenate([a @ factor, self.fitted.coef[:, q:]], axis=1)
