"""Proximal Newton steps on some columns: a quadratic model of the losses, the penalty as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from grayzone.numerics.designs import as_design
from grayzone.numerics.linalg import descend
from grayzone.solvers.problem import Problem
from grayzone.solvers.sparse.kinks import Hinged
from grayzone.solvers.sparse.problem import SparseProblem
from grayzone.solvers.sparse.quadratic import minimise_quadratic

Array = Any

# Newton steps on one choice of columns.
_STEPS = 30
# Coefficients up to which a Hessian is formed; and those of a sparse matrix for two classes without
# kinks, whose curvature is large.
_MOST_FORMED, _FORMED = 3000, 300
# Share of a violation that may be left in a model; passes over columns, and what ends them.
_LEFT, _PASSES, _SHARE = 1e-3, 50, 1e-2
# Proximal terms: the first, the factor to the next, and the least.
WIDTH, _NARROWER, _NARROWEST = 1.0, 0.3, 1e-7
# Share of the first promise at which steps may end.
_PROMISED = 0.03
# Share of each coefficient's curvature that keeps it where it is.
_PROXIMAL = 1e-9
# Least curvature of a row, in slopes a margin: what log-odds beyond 4 against it would fall below.
_SECANT = 0.1
# Length of a step below which it is taken with more care.
_SHORT = 0.9
# Share of what the hinges leave to gain that the rest may, for the next multipliers.
_WORTH = 0.1


class Point(NamedTuple):
    """Slopes (Q, m) of some columns, intercepts (Q,), scores (n, Q) and the loss that is left."""

    slopes: Array
    intercept: Array
    scores: Array
    loss: Any  # TruncatedLogistic or Hinged
    multipliers: Array  # of the margins at these scores
    stalled: bool = False
    alike: bool = False  # whether columns have shown to be nearly the same
    n_steps: int = 0  # Newton steps that led here, on all choices of columns


class _Direction(NamedTuple):
    slopes: Array
    intercept: Array
    scores: Array
    promised: float  # decrease of the model, negative
    alike: bool = False


@dataclass(frozen=True)
class Restricted:
    """The problem on some columns.

    Attributes
    ----------
    whole : SparseProblem
        The problem on all of them.
    places : array of shape (m,)
        The columns.
    """

    whole: SparseProblem
    places: Array

    @cached_property
    def taken(self) -> Array:
        """The columns."""
        return self.whole.columns.take(self.places)

    @cached_property
    def part(self) -> Problem:
        """Rows, margins and weights, with these columns as the design; sparse ones by rows."""
        X = sp.csr_array(self.taken) if sp.issparse(self.taken) else self.taken
        return replace(self.whole.problem, design=as_design(X, self.whole.fit_intercept))

    @property
    def margins(self) -> Any:
        """Map from scores to margins."""
        return self.whole.problem.margins

    @property
    def weight(self) -> Array:
        """Weights of the rows."""
        return self.whole.problem.weight

    def minimise(self, at: Point, target: float, least: float) -> Point:
        """Newton steps until what is left to gain is below the target, and so are the hinges.

        A gap, and so a target, may be a thousand times what there is to gain: in any case the
        steps go on until they promise a share of what the first one did, or the ``least``.
        """
        first = 0.0
        for _ in range(_STEPS):
            at, left = self._step(at)
            first = max(first, left)
            hinges = 0.0
            if isinstance(at.loss, Hinged):
                u = self.margins.margin(at.scores)
                hinges = float(np.sum(self.weight * at.loss.left(u)))
                if left <= _WORTH * hinges or at.stalled:  # the next multipliers, and closer ones
                    narrower = max(_NARROWEST, _NARROWER * at.loss.width)
                    at = at._replace(loss=Hinged(at.loss.exact, at.loss.hinge(u), narrower))
            near = left <= max(_PROMISED * first, least)
            if (near and max(left, hinges) <= target) or (at.stalled and hinges <= target):
                break
        return at

    def _step(self, at: Point) -> tuple[Point, float]:
        """One step; returns what the model had promised."""
        u = self.margins.margin(at.scores)
        slope, bend = at.loss.slopes(u)
        # rows that are very wrong pull as hard as ever on a tangent that is nearly straight
        bend = np.maximum(bend, _SECANT * slope / (1.0 + np.maximum(u, 0.0)))
        d, t, value = self._along(at, slope, bend)
        if t < _SHORT and isinstance(at.loss, Hinged):
            # the kinks that a whole step would meet: a model that knows of them takes care
            met = at.loss.slopes(self.margins.margin(at.scores + d.scores))[1]
            careful = self._along(at, slope, np.maximum(bend, met))
            if careful[2] < value:
                d, t, value = careful
        scores, intercept = at.scores + t * d.scores, at.intercept + t * d.intercept
        if self.margins.shift_free:  # a constant added to all scores changes nothing
            scores, intercept = scores - intercept.mean(), intercept - intercept.mean()
        slopes = at.slopes + t * d.slopes
        # the multipliers that belong to the new point, for which the model's are a good guess
        slope = at.loss.slopes(self.margins.margin(scores))[0]
        n_steps = at.n_steps + 1
        after = Point(slopes, intercept, scores, at.loss, slope, t == 0.0, d.alike, n_steps)
        return after, -d.promised

    def _along(self, at: Point, slope: Array, bend: Array) -> tuple[_Direction, float, float]:
        """Minimise a model; returns the direction, the length of the step and the value there."""
        d = (self._by_coordinates if self._by_columns(at.loss) else self._by_gram)(at, slope, bend)

        def along(t: float) -> float:
            return self._value(at, d, t)

        return d, *descend(along, d.promised, along(0.0))

    def _by_columns(self, loss: Any) -> bool:
        q, columns = self.whole.problem.n_outputs, self.whole.columns
        few = _MOST_FORMED
        if q == 1 and columns.is_sparse and not isinstance(loss, Hinged):
            few = _FORMED
        # passes over columns know of no metric but the identity
        return q * self.places.size > few and not (columns.kernel and self.whole.ridge)

    def _value(self, at: Point, d: _Direction, t: float) -> float:
        scores, weight = at.scores + t * d.scores, self.weight
        values = scores - (at.intercept + t * d.intercept)
        total = float(weight @ at.loss.value(self.margins.margin(scores)))
        slopes = at.slopes + t * d.slopes
        total += self.whole.l1 * float(np.abs(slopes).sum())
        if self.whole.ridge:
            total += 0.5 * self.whole.ridge * float(np.sum(slopes * self._metric(slopes, values)))
        return total

    def _metric(self, slopes: Array, values: Array) -> Array:
        columns = self.whole.columns
        return values[columns.numbers[self.places]].T if columns.kernel else slopes

    # ------------------------------------------------------------------------------------------
    # Minimising the model
    # ------------------------------------------------------------------------------------------

    def _by_gram(self, at: Point, slope: Array, bend: Array) -> _Direction:
        """By the Hessian of the losses."""
        part, whole = self.part, self.whole
        m, free, q = self.places.size, int(whole.fit_intercept), part.n_outputs
        H, gradient = self._second_order(at.scores, part.weight * bend, part.weight * slope)
        if whole.ridge:
            metric = whole.ridge * whole.columns.metric_of(self.places)
            p = m + free
            for k in range(q):
                H[k * p : k * p + m, k * p : k * p + m] += metric
            gradient[:, :m] += whole.ridge * self._metric(at.slopes, at.scores - at.intercept)
        # columns that add up to others leave directions without curvature but that of rounding
        H[np.diag_indices_from(H)] *= 1.0 + _PROXIMAL
        l1 = np.tile(np.append(np.full(m, whole.l1), np.zeros(free)), q)
        coef = np.concatenate([at.slopes, at.intercept[:, None][:, :free]], axis=1)
        tol = _LEFT * _worst(gradient.ravel(), coef.ravel(), l1)
        found, alike = minimise_quadratic(
            H, gradient.ravel(), coef.ravel(), l1, tol, alike=at.alike
        )
        found = found.reshape(coef.shape)
        change = found - coef
        moved = part.design.scores(change)
        slopes = change[:, :m]
        intercept = change[:, m] if free else np.zeros(q)
        grown = float(np.abs(found[:, :m]).sum() - np.abs(at.slopes).sum())
        promised = float(np.sum(gradient * change)) + whole.l1 * grown
        return _Direction(slopes, intercept, moved, min(promised, 0.0), alike)

    def _second_order(self, scores: Array, bend: Array, slope: Array) -> tuple[Array, Array]:
        part = self.part
        if part.n_outputs > 1 or not sp.issparse(self.taken):
            return part.second_order(scores, bend, slope, slope)
        # compiles, so only when needed
        from grayzone.numerics.jit_descent import gram_of_rows

        X, m = part.design.X, self.places.size
        p = part.design.n_coef
        lower = np.zeros((p, p))
        gram_of_rows(X.indptr, X.indices, X.data, bend, lower)
        if part.design.fit_intercept:
            lower[m, :m], lower[m, m] = X.T @ bend, bend.sum()
        H = lower + lower.T
        H[np.diag_indices(p)] *= 0.5
        return H, part.design.gradient(part.margins.pull(scores, slope))

    def _by_coordinates(self, at: Point, slope: Array, bend: Array) -> _Direction:
        """By passes over the columns, output by output: a model without terms between these."""
        # compiles, so only when needed
        from grayzone.numerics.jit_descent import descend_columns

        whole, X = self.whole, self._sparse
        pulls = self.margins.pull(at.scores, self.weight * slope)
        bends = self.margins.second_order(at.scores, self.weight * bend, self.weight * slope)
        found = np.concatenate([at.slopes, at.intercept[:, None]], axis=1)
        for k in range(found.shape[0]):
            weight = np.ascontiguousarray(bends[:, (k * (k + 3)) // 2])  # the pair (k, k)
            args = X.indices, X.data, X.indptr, weight, pulls[:, k].copy(), found[k]
            descend_columns(*args, whole.fit_intercept, whole.l1, whole.ridge, _SHARE, _PASSES)
        slopes, intercept = found[:, :-1] - at.slopes, found[:, -1] - at.intercept
        used = np.flatnonzero(np.any(slopes != 0.0, axis=0))
        moved = X[:, used] @ slopes[:, used].T + intercept
        promised = float(np.sum(pulls * moved))
        promised += whole.l1 * float(np.abs(found[:, :-1]).sum() - np.abs(at.slopes).sum())
        if whole.ridge:
            promised += whole.ridge * float(np.sum(at.slopes * slopes + 0.5 * slopes**2))
        return _Direction(slopes, intercept, moved, min(promised, 0.0))

    @cached_property
    def _sparse(self) -> Any:
        return self.taken if sp.issparse(self.taken) else sp.csc_array(self.taken)


def _worst(gradient: Array, coef: Array, l1: Array) -> float:
    """Largest violation of the optimality conditions."""
    at_zero = np.maximum(np.abs(gradient) - l1, 0.0)
    return float(np.where(coef == 0.0, at_zero, np.abs(gradient + l1 * np.sign(coef))).max())
