"""Import points chosen by sums over blocks of rows: steps (B1) to (B4) of Zhu & Hastie (2002).

What :mod:`grayzone.solvers.greedy.growth` does for rows in memory, in any array library: where all
rows are in one place the points are the same, one after the other.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.kernels import Kernel
from grayzone.solvers.greedy.growth import ENTRIES, FINALISTS, ROUNDING, TIE, Rounds, Rules
from grayzone.solvers.greedy.refit_by_blocks import BlockFitted, mean_loss, refit_by_blocks
from grayzone.solvers.greedy.scores_by_blocks import (
    BlockNewtonScores,
    BlockScores,
    enough_power,
    one_step_by_blocks,
    score_by_blocks,
    score_by_power_and_blocks,
)
from grayzone.solvers.greedy.span_by_blocks import BlockBasis, Pool, Span, Spanned, left_out
from grayzone.solvers.kernel.features import indefinite
from grayzone.solvers.truncated.spec import TruncatedSpec as Frame
from grayzone.sources.labelled_blocks import LabelledBlocks

Array = Any


class _Choice(NamedTuple):
    taken: int  # place among the candidates
    start: Array | None = None


class BlockModel(NamedTuple):
    """A function, taken out of the growth that goes on."""

    numbers: Array  # of its points among all rows
    vectors: Array  # these rows
    span: Span
    coef: Array  # in the basis, the intercept last
    objective: float
    gap: float | None  # relative duality gap on the span, where it is known already


class BlockGrowth(Rounds):
    """A function whose points are being chosen.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    pool : Pool
        Rows that points are chosen from.
    labelled : LabelledBlocks
        Training rows; others have no weight.
    n_rows : int
        Rows that have a weight.
    frame : Frame
        Losses, penalty and intercept.
    rules : Rules
        How to choose.
    rng : RandomState
        Draws candidates, where not all rows of the pool are.

    Attributes
    ----------
    fitted : BlockFitted
        The optimum on the span of the points.
    path : list of float
        The criterion after each round of additions.
    """

    def __init__(
        self,
        kernel: Kernel,
        pool: Pool,
        labelled: LabelledBlocks,
        n_rows: int,
        frame: Frame,
        rules: Rules,
        rng: np.random.RandomState,
    ) -> None:
        self.labelled, self.frame, self.n_rows = labelled, frame, n_rows
        self.rules, self.rng = rules, rng
        self.basis = BlockBasis(kernel, pool)
        self._scale = float(_largest(self.basis.diagonal))
        start = frame.prior_coef(labelled.mass * labelled.factors, 0, pool.numbers)
        self.fitted = self._refit(self._spanned(), start)
        self.path = []
        self._best = {0: self.fitted.objective}

    def _spanned(self) -> Spanned:
        return self.basis.spanned(self.labelled)

    def _refit(self, spanned: Spanned, start: Array) -> BlockFitted:
        found = refit_by_blocks(spanned.linear(), self.frame, start)
        assert found is not None  # nothing to be above of
        return found

    def _room(self) -> int:
        return min(super()._room(), int(self.basis.pool.numbers.shape[0]) - self.basis.size)

    def model(self) -> BlockModel:
        """Take the function out as it is now."""
        basis, fitted = self.basis, self.fitted
        places = moved(np.array(basis.points, dtype=np.int64), basis.pool.numbers)
        vectors = array_namespace(places).take(basis.pool.X, places, axis=0)
        span = Span(basis.kernel, basis.right(places), basis.factor)
        numbers = basis.numbers
        return BlockModel(numbers, vectors, span, fitted.coef, fitted.objective, fitted.gap)

    def mean_loss(self, labelled: LabelledBlocks) -> float:
        """Mean loss of other rows."""
        return mean_loss(self.basis.spanned(labelled).linear(), self.frame, self.fitted.coef)

    # ------------------------------------------------------------------------------------------
    # Additions
    # ------------------------------------------------------------------------------------------

    def _candidates(self) -> Array:
        """Places in the pool."""
        pool, m = self.basis.pool, self.rules.n_candidates
        xp = array_namespace(pool.numbers)
        if m is None:
            return xp.nonzero(pool.eligible)[0]
        # among those that are not spanned yet, for a draw of others only would end the growth
        left = xp.nonzero(pool.eligible & enough_power(self.basis))[0]
        n = int(left.shape[0])
        if m >= n:
            return left
        return xp.take(left, moved(np.sort(self.rng.choice(n, m, replace=False)), left))

    def _add(self) -> bool:
        self._check_definite()
        places = self._candidates()
        if not places.shape[0]:
            return False
        how = score_by_power_and_blocks if self.rules.selection == "power" else score_by_blocks
        before, spanned = self.fitted, self._spanned()
        found: BlockScores = how(spanned, before, self.basis, places)
        size = min(self.rules.block_size, self._room())
        start, k = None, 0
        while k < size:
            choice = self._choose(spanned, found, alone=size == 1)
            if choice is None:
                break
            taken, start = choice
            place = int(found.places[taken])
            self.basis.append(place, self.basis.column(place))
            k += 1
            if k < size:
                found.deflate(spanned, before, self.basis, taken)
                found.limit(self.basis)
        if k == 0:
            return False
        start = self._extended(before.coef, k) if start is None or size > 1 else start
        self.fitted = self._refit(self._spanned(), start)
        best = self._best.get(self.basis.size, inf)
        self._best[self.basis.size] = min(best, self.fitted.objective)
        return True

    def _extended(self, coef: Array, k: int) -> Array:
        """Coefficients with zeros for k new columns, before the intercept."""
        xp, q = array_namespace(coef), coef.shape[1] - int(self.frame.fit_intercept)
        zeros = xp.zeros((coef.shape[0], k), dtype=coef.dtype, device=device(coef))
        return xp.concat([coef[:, :q], zeros, coef[:, q:]], axis=1)

    def _choose(self, spanned: Spanned, found: BlockScores, alone: bool) -> _Choice | None:
        """Best candidate, with start coefficients where there are some."""
        gains = found.gains()
        xp = array_namespace(gains)
        n_gain = int(xp.sum(xp.astype(gains > 0.0, xp.int64)))
        if not n_gain:
            return None
        if not (alone and isinstance(found, BlockNewtonScores)):
            return _Choice(self._tie_break(found, -gains))
        if self.rules.selection == "exact":
            return _Choice(self._by_refits(found, gains))
        order = xp.argsort(-gains, stable=True)[
            : min(n_gain, max(FINALISTS, ENTRIES // self.n_rows))
        ]
        return self._by_one_step(spanned, found, xp.sort(order))

    def _by_one_step(self, spanned: Spanned, found: BlockNewtonScores, chosen: Array) -> _Choice:
        """Step (B2*): the criterion of the most promising candidates, after one Newton step."""
        tried = one_step_by_blocks(spanned, self.fitted, self.basis, found, chosen)
        changes = tried.values - self.fitted.objective
        i = self._tie_break(found, changes, chosen)
        start = tried.coefs[i, :, :] if float(changes[i]) < 0.0 else None
        return _Choice(int(chosen[i]), start)

    def _by_refits(self, found: BlockScores, gains: Array) -> int:
        """Step (B2): the criterion of every candidate, at its own optimum.

        Candidates that duality shows to be worse than the best so far are left half way.
        """
        promised, places = as_numpy(gains), as_numpy(found.places)
        values, best = np.full(promised.size, np.inf), np.inf
        start = self._extended(self.fitted.coef, 1)
        for candidate in np.argsort(-promised, kind="stable"):
            if not promised[candidate] >= 0.0:
                break
            tried = self.basis.spanned_with(self.labelled, int(places[candidate]))
            limit = best + TIE * abs(best) if np.isfinite(best) else inf
            refitted = refit_by_blocks(tried.linear(), self.frame, start, above=limit)
            if refitted is not None:
                values[candidate] = refitted.objective
                best = min(best, refitted.objective)
        return self._tie_break(found, moved(values - self.fitted.objective, gains))

    def _tie_break(self, found: BlockScores, values: Array, chosen: Array | None = None) -> int:
        """Place of the least value; of several within rounding, that of the first row in value.

        Values are those of all candidates, or of the ``chosen`` ones.
        """
        xp, basis = array_namespace(values), self.basis
        places, power = found.places, found.power
        if chosen is not None:
            places, power = xp.take(places, chosen), xp.take(power, chosen)
        best = float(xp.min(values))
        # what is left of a nearly spanned column has few digits, and so has what it gains
        diagonal = xp.abs(xp.take(basis.diagonal, places))
        rounding = ROUNDING * (1.0 + diagonal / xp.maximum(power, 1e-12 * diagonal + 1e-300))
        slack = (TIE + rounding) * abs(best) + ROUNDING * self.fitted.objective
        near = xp.nonzero(values <= best + slack)[0]
        if near.shape[0] == 1 or basis.kernel.name == "precomputed":
            return int(near[0])
        rows = as_numpy(xp.take(basis.pool.X, xp.take(places, near), axis=0))
        return int(near[int(np.lexsort(rows.T[::-1])[0])])

    def _check_definite(self) -> None:
        least = float(array_namespace(self.basis.power).min(self.basis.power))
        if least < -1e-6 * self._scale:
            raise indefinite(f"a row has {least:.2e} left of its square norm")

    # ------------------------------------------------------------------------------------------
    # Removals
    # ------------------------------------------------------------------------------------------

    def removal_estimates(self) -> Array:
        """Increase of the criterion when each point is left out, to second order.

        As :meth:`grayzone.solvers.greedy.growth.Growth.removal_estimates`.
        """
        q, (n_outputs, p) = self.basis.size, self.fitted.coef.shape
        xp = array_namespace(self.fitted.coef)
        inverse = xp.linalg.inv(self.basis.factor)
        a = xp.matmul(inverse.T, self.fitted.coef[:, :q].T)
        none = xp.zeros((p, q), dtype=a.dtype, device=device(a))
        own = xp.concat([inverse, none[q:, :]])
        wide = [[own if k == j else none for j in range(n_outputs)] for k in range(n_outputs)]
        solved = self.fitted.solve(xp.concat([xp.concat(row, axis=1) for row in wide]))
        parts = xp.reshape(solved, (n_outputs, p, n_outputs, q))[:, :q, :, :]
        block = xp.sum(inverse[None, :, None, :] * parts, axis=1)  # (Q, Q, q)
        block = xp.permute_dims(block, (2, 0, 1))
        return 0.5 * xp.sum(a * xp.linalg.solve(block, a[:, :, None])[:, :, 0], axis=1)

    def _remove(self) -> None:
        """Leave points out while that gives the best criterion seen at the smaller size, by far.

        As :meth:`grayzone.solvers.greedy.growth.Growth._remove`.
        """
        margin = max(self.rules.tol, ROUNDING)
        while self.basis.size > 1:
            size = self.basis.size - 1
            best = (1.0 - margin) * self._best.get(size, inf)
            increases = self.removal_estimates()
            j = int(array_namespace(increases).argmin(increases))
            if not self.fitted.objective + float(increases[j]) < best:
                return
            columns, factor = self.basis.without(j)
            spanned = self.basis.spanned_without(self.labelled, j, columns, factor)
            fitted = self._refit(spanned, self._rotated(j, factor))
            if not fitted.objective < best:
                return
            self.basis.remove(j, columns, factor)
            self.fitted = fitted
            self._best[size] = fitted.objective

    def _rotated(self, j: int, factor: Array) -> Array:
        """Coefficients without the j-th point: those of the other kernel columns stay."""
        q, coef = self.basis.size, self.fitted.coef
        xp = array_namespace(coef)
        a = left_out(self.basis.dual_coef(coef[:, :q]), j, axis=1)
        return xp.concat([xp.matmul(a, factor), coef[:, q:]], axis=1)


def _largest(diagonal: Array) -> Array:
    xp = array_namespace(diagonal)
    return xp.max(xp.abs(diagonal))
