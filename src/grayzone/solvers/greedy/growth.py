"""Import points, one after the other: steps (B1) to (B4) of Zhu & Hastie (2002)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from array_api_compat import device

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.solvers.greedy.basis import NewtonBasis, left_out, pool_of
from grayzone.solvers.greedy.criterion import Criterion
from grayzone.solvers.greedy.refit import Effort, Fitted, refit
from grayzone.solvers.greedy.scores import (
    NewtonScores,
    Scores,
    one_step,
    score,
    score_by_power,
)
from grayzone.solvers.greedy.span import Known, Span, Spanned
from grayzone.solvers.kernel.features import indefinite
from grayzone.solvers.loop import MOST_SILENT
from grayzone.sources.labelled import Labelled

Array = Any

# Candidates whose criterion is computed, not only promised: all while that is cheap, then a few.
ENTRIES, FINALISTS = 10_000, 4
# Kernel values of a round of scores up to which these are computed in double precision.
DOUBLE = 1_000_000
# Kernel values of all rounds from which compiled loops are worth their loading; and rounds that may
# be expected where nothing else is said.
_MANY, _ROUNDS = 2**28, 100
# Kernel values of candidates that are refitted, which exist at a time.
_REFITTED = 2_000_000
# Gains that differ by less than this share are the same, and the order of rows must not decide.
TIE = 1e-9
_LEAST_SHOWN = 0.75  # share of rows that single precision has to show something of
ROUNDING = 1e-12
# Relative gap up to which multipliers tell what candidates can gain.
_CERTAIN = 1e-6
# A criterion that is less than rounding of what it was without a point is nothing already.
_NOTHING = 1e-15
# Work that refits of candidates may take on up to so many rows: some fifteen seconds. On more rows
# it grows with their cube, as the work itself does.
_MOST_WORK, _FEW_ROWS = 45_000.0, 120


@dataclass(frozen=True)
class Rules:
    """How points are chosen, and when there are enough of them."""

    selection: str
    n_candidates: int | None
    points_per_step: int
    allow_removal: bool
    max_points: int | None
    tol: float
    lag: int
    share: float = 1.0  # of the work that refits of candidates may take


class _Choice(NamedTuple):
    taken: int  # place among the candidates
    start: Array | None = None
    column: Array | None = None  # kernel values of the pool with it


@dataclass(frozen=True)
class Model:
    """A function, taken out of the growth that goes on."""

    numbers: Array  # of its points among all rows
    vectors: Array  # these rows
    dual_coef: Array  # (Q, q)
    intercept: Array  # (Q,)
    span: Span
    fitted: Fitted

    @property
    def right(self) -> Array:
        """Right factor of the points."""
        return self.span.points.right


class Growth:
    """A function whose points are being chosen.

    Parameters
    ----------
    labelled : Labelled
        Training rows, wherever they are.
    kernel : Kernel
        The kernel.
    criterion : Criterion
        Losses, penalty and intercept.
    rules : Rules
        How to choose.
    rng : Generator
        Draws candidates, where not all rows of the pool are.

    Attributes
    ----------
    fitted : Fitted
        The optimum on the span of the points.
    path : list of float
        The criterion after each round of additions.
    """

    def __init__(
        self,
        labelled: Labelled,
        kernel: Kernel,
        criterion: Criterion,
        rules: Rules,
        rng: np.random.Generator,
    ) -> None:
        self.labelled, self.criterion = labelled, criterion
        self.rules, self.rng = rules, rng
        self.n_rows = labelled.n_rows
        pool = pool_of(labelled, kernel, rules.n_candidates)
        self.basis = NewtonBasis(kernel, pool, self._precision(), self._are_many())
        self._scale = float(_largest(pool.diagonal))
        mass = labelled.mass * labelled.factors
        most = _MOST_WORK * max(1.0, (self.n_rows / _FEW_ROWS) ** 3)
        self._effort = Effort(rules.share * most)
        self._least = inf  # the criterion without a point
        self.fitted = self._refit(self._spanned(), criterion.prior_coef(mass, 0, self.basis.power))
        self.path: list[float] = []
        self._best = {0: self.fitted.objective}  # least criterion at each number of points
        self._least = self.fitted.objective
        self._tried: set[frozenset[int]] = set()  # sets of points that others were left out of

    @property
    def _n_values(self) -> int:
        """Kernel values of a round of scores, where NumPy holds the rows; else none."""
        rows, m = self.labelled.held, self.rules.n_candidates
        here = rows is not None and is_numpy_array(rows.weight)
        return self.n_rows * (self.n_rows if m is None else min(m, self.n_rows)) if here else 0

    def _precision(self) -> Any:
        """Precision of the scores: single on many rows, where NumPy holds them."""
        return np.float32 if self._n_values > DOUBLE else np.float64

    def _are_many(self) -> bool:
        """Whether rounds may come to so many kernel values that compiled loops are worth it."""
        most = min(self.rules.max_points or _ROUNDS, _ROUNDS * self.rules.points_per_step)
        return self._n_values * ceil(most / self.rules.points_per_step) >= _MANY

    def set_penalty(self, penalty: float) -> None:
        """Go on with another penalty from the points there are: step (C4)."""
        self.criterion = replace(self.criterion, penalty=penalty)
        self.fitted = self._refit(self._spanned(), self.fitted.coef)
        self._best, self._tried = {self.basis.size: self.fitted.objective}, set()

    def _spanned(self) -> Spanned:
        return self.basis.spanned(self.labelled)

    @property
    def gave_up(self) -> bool:
        """Whether candidates were too much work to be refitted to the end of the growth."""
        return self._effort.is_over

    @property
    def _nothing(self) -> float:
        return _NOTHING * self._least if self._least < inf else 0.0

    def _refit(self, spanned: Spanned, start: Array) -> Fitted:
        fitted = refit(spanned, self.criterion, start, nothing=self._nothing)
        assert fitted is not None  # nothing to be above of
        return fitted

    def model(self) -> Model:
        """Take the function out as it is now."""
        basis, coef, q = self.basis, self.fitted.coef, self.basis.size
        xp, places = array_namespace(coef), basis.places(basis.points)
        factor = xp.asarray(basis.factor, copy=True)  # removals rotate it
        intercept = xp.zeros(coef.shape[0], dtype=coef.dtype, device=device(coef))
        return Model(
            xp.take(basis.pool.rows.places(), places),
            basis.rows_at(places),
            basis.dual_coef(coef[:, :q]),
            coef[:, q] if self.criterion.fit_intercept else intercept,
            basis.span(factor=factor),
            self.fitted,
        )

    def gap(self, model: Model) -> float:
        """Relative duality gap of a model among all functions of its points."""
        spanned = self._spanned_by(model)
        gap = model.fitted.gap(spanned)
        if gap > MOST_SILENT and not self.criterion.has_kinks:
            gap = min(gap, model.fitted.gap_ahead(spanned))
        # values out of range may leave a certificate of nothing: points are added to do better
        worse = 1.0 - self._least / model.fitted.objective if model.fitted.objective > 0 else 0.0
        return max(gap, worse) if worse > MOST_SILENT else gap

    def scores(self, model: Model, some: Array) -> Array:
        """Scores of some held rows, by their places, as the fit has them."""
        assert self.labelled.held is not None
        xp, coef, span = array_namespace(some), model.fitted.coef, self._spanned_by(model).span
        if isinstance(span, Known):
            columns = xp.take(span.known, some, axis=0)
        else:
            columns = span.columns(self.labelled.held.take(some))
        out = xp.matmul(columns, coef[:, : span.size].T) + model.intercept
        return (
            xp.concat([out, xp.zeros_like(out[:, :1])], axis=1) if self.criterion.reference else out
        )

    def _spanned_by(self, model: Model) -> Spanned:
        now = model.fitted is self.fitted
        return self._spanned() if now else Spanned(self.labelled, model.span)

    # ------------------------------------------------------------------------------------------
    # Rounds
    # ------------------------------------------------------------------------------------------

    def grow(self) -> Iterator[float]:
        """Add points until the stopping rule of §3.3 holds; gives the criterion of each round."""
        while self._room() > 0 and self._add():
            if self.rules.allow_removal:
                self._remove()
            self.path.append(self.fitted.objective)
            yield self.fitted.objective
            if self._converged():
                return

    def _converged(self) -> bool:
        """Whether the last r points have lowered the criterion by less than ``tol`` times itself.

        With removals, the least criterion seen at each number of points takes the place of H_k.
        """
        if self.fitted.objective <= self._nothing:
            return True
        step = self.rules.points_per_step
        before = self._best.get(self.basis.size - step * ceil(self.rules.lag / step))
        if before is None:
            return False
        now = self._best[self.basis.size]
        return abs(before - now) < self.rules.tol * abs(now) or before == now

    def _room(self) -> int:
        most, n_pool = self.rules.max_points, self.basis.pool.rows.n_rows
        return (n_pool if most is None else min(most, n_pool)) - self.basis.size

    # ------------------------------------------------------------------------------------------
    # Additions
    # ------------------------------------------------------------------------------------------

    def _candidates(self) -> Array:
        """Places in the pool."""
        m = self.rules.n_candidates
        if m is None:
            return self.basis.everyone
        # among those that are not spanned yet, for a draw of others only would end the growth
        xp = array_namespace(self.basis.power)
        left = xp.nonzero(self.basis.enough_power())[0]
        n = int(left.shape[0])
        if m >= n:
            return left
        drawn = self.rng.choice(n, m, replace=False, shuffle=False)
        return xp.take(left, moved(np.sort(drawn), left))

    def _check_precision(self) -> None:
        """Turn to double precision once single shows too little of too many rows.

        The few of which it still shows something are not like the others.
        """
        basis = self.basis
        if basis.dtype != np.float32:
            return
        shown = np.count_nonzero(basis.enough_power())
        if shown < _LEAST_SHOWN * basis.pool.rows.n_rows:
            basis.dtype = np.dtype(np.float64)

    def _add(self) -> bool:
        """Add points and refit; False where no candidate adds anything."""
        self._check_definite()
        self._check_precision()
        places = self._candidates()
        if not places.shape[0]:
            return False
        how = score_by_power if self.rules.selection == "power" else score
        before, spanned = self.fitted, self._spanned()
        scores: Scores = how(spanned, before, self.basis, places)
        size = min(self.rules.points_per_step, self._room())
        start, k = None, 0
        while k < size:
            choice = self._choose(spanned, scores, alone=size == 1)
            if choice is None:
                break
            taken, start, column = choice
            place = int(scores.places[taken])
            if column is None:
                column = self.basis.kernel_values(self.basis.places([place]))[:, 0]
            self.basis.append(place, column)
            k += 1
            if k < size:
                scores.deflate(spanned, before, self.basis, taken, column)
                scores.limit(self.basis)
        if k == 0:
            return False
        start = self._extended(before.coef, k) if start is None or size > 1 else start
        self.fitted = self._refit(self._spanned(), start)
        best = self._best.get(self.basis.size, inf)
        self._best[self.basis.size] = min(best, self.fitted.objective)
        return True

    def _extended(self, coef: Array, k: int) -> Array:
        """Coefficients with zeros for k new columns, before the intercept."""
        xp, q = array_namespace(coef), coef.shape[1] - int(self.criterion.fit_intercept)
        zeros = xp.zeros((coef.shape[0], k), dtype=coef.dtype, device=device(coef))
        return xp.concat([coef[:, :q], zeros, coef[:, q:]], axis=1)

    def _choose(self, spanned: Spanned, scores: Scores, alone: bool) -> _Choice | None:
        """Best candidate, with start coefficients and its column where there are some."""
        gains = scores.gains()
        xp = array_namespace(gains)
        n_gain = int(xp.sum(xp.astype(gains > 0.0, xp.int64)))
        if not n_gain:
            return None
        if not (alone and isinstance(scores, NewtonScores)):
            return _Choice(self._tie_break(scores, -gains))
        if self.rules.selection == "exact" and not self._effort.is_over:
            return _Choice(self._by_refits(scores, gains))
        finalists = min(n_gain, max(FINALISTS, ENTRIES // self.n_rows))
        order = xp.argsort(-gains, stable=True)[:finalists]
        return self._by_one_step(spanned, scores, xp.sort(order))

    def _by_one_step(self, spanned: Spanned, scores: NewtonScores, chosen: Array) -> _Choice:
        """Step (B2*): the criterion of the most promising candidates, after one Newton step."""
        tried = one_step(spanned, self.fitted, self.basis, scores, chosen)
        changes = tried.values - self.fitted.objective
        i = self._tie_break(scores, changes, chosen)
        start = tried.coefs[i, :, :] if float(changes[i]) < 0.0 else None
        return _Choice(
            int(chosen[i]), start, None if tried.columns is None else tried.columns[:, i]
        )

    def _by_refits(self, scores: Scores, gains: Array) -> int:
        """Step (B2): the criterion of every candidate, at its own optimum.

        Candidates that duality shows to be worse than the best so far are left half way; of those
        that promise the same, as copies do, and rows that are alone, one is refitted. Where that
        was enough work, the best so far is taken: the most promising ones come first.
        """
        promised, places = as_numpy(gains), as_numpy(scores.places)
        values, best = np.full(promised.size, np.inf), inf
        order, most = self._of_ties(scores, promised), self._most_gained(scores)
        start = self._extended(self.fitted.coef, 1)
        n_parts = max(1, order.size * self.basis.pool.rows.n_rows // _REFITTED)
        for part in np.array_split(order, n_parts):
            columns = self.basis.kernel_values(moved(places[part], scores.places))
            for i, candidate in enumerate(part):
                limit = best + TIE * abs(best) if np.isfinite(best) else inf
                done = best < inf and self._effort.is_over
                if done or self.fitted.objective - most[candidate] > limit:
                    continue
                place = int(places[candidate])
                tried = self.basis.spanned_with(self.labelled, place, columns[:, i])
                refitted = refit(tried, self.criterion, start, limit, self._nothing, self._effort)
                if refitted is not None:
                    values[candidate] = refitted.objective
                    best = min(best, refitted.objective)
        return self._tie_break(scores, moved(values - self.fitted.objective, gains))

    def _most_gained(self, scores: Scores) -> Array:
        r"""Bounds of what candidates can gain, by the dual of the functions there are.

        Its multipliers are feasible with one more column, too, along which they pull by the slope
        g, and so cost :math:`g^2/2\lambda` of the dual. Where there are kinks and a good gap.
        """
        gap, penalty = self.fitted.known_gap, self.criterion.penalty
        slope, power = as_numpy(scores.slope), as_numpy(scores.power)
        if gap is None or gap > _CERTAIN:
            return np.full(power.size, np.inf)
        pulled = np.sum(slope**2, axis=1) / (2.0 * penalty * np.maximum(power, 1e-300))
        return 1.01 * pulled + _CERTAIN * self.fitted.objective

    def _of_ties(self, scores: Scores, promised: Array) -> Array:
        """Candidates by what they promise; of several that promise the same, the first in value."""
        ranks = np.arange(promised.size)
        if self.basis.kernel.name != "precomputed":
            ranks[np.lexsort(self._values_of(scores.places).T[::-1])] = np.arange(promised.size)
        order = np.argsort(-promised, kind="stable")
        order = order[promised[order] >= 0.0]
        differ = np.append(True, np.diff(promised[order]) < -TIE * promised[order[0]])
        order = order[np.lexsort((ranks[order], np.cumsum(differ)))]
        return order[differ]

    def _values_of(self, places: Array) -> Array:
        """Features of rows of the pool, as NumPy's."""
        rows = self.basis.rows_at(places)
        return rows.toarray() if sp.issparse(rows) else as_numpy(rows)

    def _tie_break(self, scores: Scores, values: Array, chosen: Array | None = None) -> int:
        """Place of the least value; of several within rounding, that of the first row in value.

        Values are those of all candidates, or of the ``chosen`` ones.
        """
        xp, basis = array_namespace(values), self.basis
        places, power = scores.places, scores.power
        if chosen is not None:
            places, power = xp.take(places, chosen), xp.take(power, chosen)
        values = xp.where(xp.isnan(values), xp.inf, values)
        best = float(xp.min(values))
        # what is left of a nearly spanned column has few digits, and so has what it gains
        diagonal = xp.abs(xp.take(basis.pool.diagonal, places))
        rounding = ROUNDING * (1.0 + diagonal / xp.maximum(power, 1e-12 * diagonal + 1e-300))
        slack = (TIE + rounding) * abs(best) + ROUNDING * self.fitted.objective
        # powers that are out of range leave no slack, but the best one
        ties = xp.nonzero(values <= best + xp.where(xp.isfinite(slack), slack, 0.0))[0]
        if ties.shape[0] == 1 or basis.kernel.name == "precomputed":
            return int(ties[0])
        rows = self._values_of(xp.take(places, ties))
        return int(ties[int(np.lexsort(rows.T[::-1])[0])])

    def _check_definite(self) -> None:
        if self.basis.kernel.is_definite:
            return  # what is negative is rounding
        power = self.basis.power
        least = float(array_namespace(power).min(power))
        if least < -1e-6 * self._scale:
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
        xp = array_namespace(self.fitted.coef)
        inverse = xp.linalg.inv(self.basis.factor)
        a = xp.matmul(inverse.T, self.fitted.coef[:, :q].T)
        wide = xp.zeros((n_outputs, p, n_outputs, q), dtype=a.dtype, device=device(a))
        for k in range(n_outputs):
            wide[k, :q, k, :] = inverse
        solved = self.fitted.solve(xp.reshape(wide, (n_outputs * p, n_outputs * q)))
        parts = xp.reshape(solved, (n_outputs, p, n_outputs, q))[:, :q, :, :]
        block = xp.sum(inverse[None, :, None, :] * parts, axis=1)  # (Q, Q, q)
        block = xp.permute_dims(block, (2, 0, 1))
        return 0.5 * xp.sum(a * xp.linalg.solve(block, a[:, :, None])[:, :, 0], axis=1)

    def _remove(self) -> None:
        """Leave points out while that gives the best criterion seen at the smaller size, by far.

        Every removal lowers one of these by more than the stopping rule takes for nothing, and none
        leads back to points that there were already: refits that rounding errors end would seem to
        lower it for ever.
        """
        margin = max(self.rules.tol, ROUNDING)
        while self.basis.size > 1:
            size = self.basis.size - 1
            best = (1.0 - margin) * self._best.get(size, inf)  # H is positive
            increases = self.removal_estimates()
            j = int(array_namespace(increases).argmin(increases))
            points = self.basis.points
            left = frozenset(points[:j] + points[j + 1 :])
            if left in self._tried or not self.fitted.objective + float(increases[j]) < best:
                return
            self._tried.add(left)
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
