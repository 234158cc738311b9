r"""Plain logistic fits to several columns of weights, such as folds: one Hessian serves them all.

Folds of one set of rows see most of the same rows, and so their fits differ little, and so do
Hessians along a path of penalties. One Hessian of the losses, at the mean of the curvatures,

.. math:: M = \sum_i \bar\omega_i x_i x_i' + \lambda, \qquad
          \bar\omega_i = \frac{1}{F} \sum_j w_{ij} h''(u_{ij}),

preconditions conjugate gradients (Polak & Ribière, with exact line searches) of every column. It
may be a little wrong, as one that is summed in single precision is, one of the last penalty, or,
for a single column of many rows, one of some of them, drawn by their curvature. A step reads the
rows twice, for all columns together: scores of the directions, and gradients.

The duality gap of each column is that of :mod:`grayzone.solvers.certificate`: where intercepts are
optimal the slopes of the losses are feasible duals, and only the force on the slopes is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.designs import Design
from grayzone.numerics.linalg import factorise, with_diagonal
from grayzone.numerics.losses import Logistic
from grayzone.numerics.namespace import array_namespace, is_numpy_array

Array = Any

# Steps after which another Hessian is worth its price: a share of the coefficients, the largest in
# NumPy's memory and the smallest on devices with quick products, within limits.
_RENEWED, _RENEWED_HERE, _QUICKLY_RENEWED, _LEAST_RENEWED, _MOST_RENEWED = 500, 130, 1500, 5, 15
_OFTEN = 10  # steps with one Hessian for which a device better inverts its factor
# Rows times squared coefficients from which a Hessian in memory is that of a sample of rows,
# and how many of them it has for each coefficient: more would hardly make it a better one.
_DEAR, _EACH = 1e10, 20
_PATIENCE, _SMALLER = 12, 0.5  # steps of all columns without a gap that is smaller
_LEVEL = 0.05  # slope at the end of a line search, as a share of that at its start
_SEARCHES = 20
# Force on an intercept, relative to all that pulls on it, at which to stop, and that is rounding.
_CENTRED, _BALANCED, _CENTRINGS = 1e-15, 1e-13, 6
_FLAT = 0.2  # share of rows with flat losses from which on these are better left out of a Hessian
_EXTRAPOLATED = 1.0  # farthest that a path is followed beyond its last piece, in its lengths


class Point(NamedTuple):
    """Fits side by side, where they are.

    Attributes
    ----------
    coef : array of shape (F, p)
        Coefficients.
    scores : array of shape (n, F)
        Their scores.
    gradient : array of shape (F, p)
        Gradients of the objectives.
    values : array of shape (F,)
        The objectives.
    """

    coef: Array
    scores: Array
    gradient: Array
    values: Array


class Found(NamedTuple):
    """What a search has reached: the fits, their relative duality gaps and their steps."""

    point: Point
    gaps: Array  # (F,), NumPy
    n_iter: Array  # (F,), NumPy


class _Way(NamedTuple):
    """Directions, and what the next ones need to know of them."""

    change: Array  # (F, p)
    gradient: Array  # at the start
    steepness: Array  # (F,), gradient' M^-1 gradient


class _Sample(NamedTuple):
    """Rows that stand for all in a Hessian, for how many each does, and the design of them."""

    rows: Array
    shares: Array  # (size, 1)
    design: Design


class SideBySide:
    """Fits to several columns of weights.

    Parameters
    ----------
    design : Design
        What scores are linear in.
    sign : array of shape (n,)
        -1 and 1.
    weight : array of shape (n, F)
        Weights of the rows in each fit; zero where it does not see them.
    loss : object, optional
        Smooth losses of margins (n, F); the logistic one by default.
    """

    def __init__(self, design: Design, sign: Array, weight: Array, loss: Any = None) -> None:
        self.design, self.sign, self.weight = design, sign[:, None], weight
        self.loss = Logistic(weight[:1, :1]) if loss is None else loss  # the first has no floor
        self.xp, self.free = array_namespace(weight), design.penalised()
        self.n_fits, self.penalty = weight.shape[1], 1.0
        self.point: Point
        self._hessian: Array | None = None  # of the losses
        self._sample: _Sample | None = None
        self._solve: Any = None
        self._way: _Way | None = None
        self._since = 0  # steps with this Hessian
        each = _QUICKLY_RENEWED if getattr(design, "quick_grams", False) else _RENEWED
        each = _RENEWED_HERE if is_numpy_array(weight) else each
        self._lasting = min(_MOST_RENEWED, max(_LEAST_RENEWED, design.n_coef // each))

    def prior(self) -> Array:
        """No slopes, and intercepts that give back the class priors."""
        xp = self.xp
        coef = moved(np.zeros((self.n_fits, self.design.n_coef)), self.weight)
        if self.design.fit_intercept:
            up = xp.sum(xp.where(self.sign > 0, self.weight, 0.0), axis=0)
            coef[:, -1] = xp.log(up / xp.sum(xp.where(self.sign > 0, 0.0, self.weight), axis=0))
        return coef

    def path(self, penalties: Array, tol: float, max_iter: int) -> Iterator[tuple[int, Found]]:
        """Fit for each of some penalties, the largest first; gives its place and what was found.

        Each starts from where the last two lead.
        """
        known: list[tuple[float, Point]] = []  # the last two
        for place in np.argsort(-penalties, kind="stable"):
            self.penalty = float(penalties[place])
            coef = self._ahead(known) if known else self.prior()
            found = self.fit(coef, self.penalty, tol, max_iter)
            yield int(place), found
            known = [*known[-1:], (log(self.penalty), found.point)]

    def _ahead(self, known: list[tuple[float, Point]]) -> Array:
        """Coefficients where a path leads, of columns for which that is better than to stay."""
        xp, (here, last), (there, before) = self.xp, known[-1], known[0]
        if not here < there:
            return last.coef
        share = min(_EXTRAPOLATED, (here - log(self.penalty)) / (there - here))
        coef = last.coef + share * (last.coef - before.coef)
        scores = last.scores + share * (last.scores - before.scores)
        better = self._values(coef, scores) < self._values(last.coef, last.scores)
        return xp.where(better[:, None], coef, last.coef)

    def fit(self, coef: Array, penalty: float, tol: float, max_iter: int) -> Found:
        """Fit all columns for one penalty, from these coefficients on.

        Columns that have reached their tolerance stay where they are.
        """
        self.begin(coef, penalty)
        gaps, n_iter = np.full(self.n_fits, np.inf), np.zeros(self.n_fits, dtype=int)
        idle = 0
        for _ in range(max_iter):
            live = gaps > tol
            n_iter[live] += 1
            now = self.advance(live, tol)
            idle = 0 if np.any(now < _SMALLER * gaps) else idle + 1
            gaps = np.where(live, now, gaps)
            if np.all(gaps <= tol) or idle > _PATIENCE or not np.all(np.isfinite(now)):
                break
        return Found(self.point, gaps, n_iter)

    def begin(self, coef: Array, penalty: float) -> None:
        """Go to a start; its gradients come with the Hessian."""
        self.penalty, self._solve = penalty, None
        scores = self.design.scores(coef)
        self.point = Point(coef, scores, coef, self._values(coef, scores))

    def advance(self, live: Array, tol: float) -> Array:
        """Take a step of the columns that are live; gives relative gaps, rough where above tol."""
        if self._solve is None or self._since > self._lasting:
            self._precondition()
        self._way = self._direction(live)
        self.point = self._moved(self._way)
        self._since += 1
        self.point, gaps = self._gaps(self.point, tol)
        return gaps

    def promised(self) -> Array:
        """What the last step could gain at most, by its Hessian, relative to the objective."""
        assert self._way is not None
        return as_numpy(0.5 * self._way.steepness / self.point.values)

    # ------------------------------------------------------------------------------------------
    # Points
    # ------------------------------------------------------------------------------------------

    def _values(self, coef: Array, scores: Array) -> Array:
        xp = self.xp
        losses = xp.sum(self.weight * self.loss.value(-self.sign * scores), axis=0)
        return losses + 0.5 * self.penalty * xp.sum(self.free * coef * coef, axis=1)

    def _residual(self, scores: Array) -> Array:
        return -self.sign * self.weight * self.loss.slope(-self.sign * scores)

    def _at(self, coef: Array, scores: Array) -> Point:
        pull = self.design.gradient(self._residual(scores))
        values = self._values(coef, scores)
        return Point(coef, scores, pull + self.penalty * self.free * coef, values)

    def _precondition(self) -> None:
        """Find the gradients, and what solves with a Hessian, a new one if that is due."""
        xp, point = self.xp, self.point
        if self._hessian is None or self._since > self._lasting:
            bend = self.loss.curvature(-self.sign * point.scores)
            omega = xp.mean(self.weight * bend, axis=1)[:, None]
            self._hessian, self._since = None, 0  # gone before there is another
            self._hessian, pull = self._summed(omega, self._residual(point.scores))
        else:
            pull = self.design.gradient(self._residual(point.scores))
        self.point = point._replace(gradient=pull + self.penalty * self.free * point.coef)
        ridge = self.penalty * self.free
        often = self._lasting >= _OFTEN
        self._solve = factorise(with_diagonal(self._hessian, ridge), often=often)
        self._way = None

    def _summed(self, omega: Array, residual: Array) -> tuple[Array, Array]:
        """Hessian of the losses, where it is dear that of a sample of rows; and the exact pull."""
        n, p = omega.shape[0], self.design.n_coef
        dear = n * float(p) ** 2 >= _DEAR and n >= 2 * _EACH * p and is_numpy_array(omega)
        if self._sample is None and dear and self.n_fits == 1:
            self._sample = self._drawn(omega)
        if self._sample is None:
            grams, pull = self._gram(omega, residual)
            return grams[0, :, :], pull
        few, xp = self._sample, self.xp
        weights = few.shares * xp.take(omega, few.rows, axis=0)
        grams, _ = few.design.gram(weights, xp.take(residual, few.rows, axis=0))
        return grams[0, :, :], self.design.gradient(residual)

    def _drawn(self, omega: Array) -> _Sample:
        """Draw rows for Hessians, evenly along a sum: half of it curvature, half the rows."""
        xp, n, size = self.xp, omega.shape[0], _EACH * self.design.n_coef
        chance = 0.5 / n + 0.5 * omega[:, 0] / xp.sum(omega)
        along = xp.cumulative_sum(chance)
        marks = (xp.arange(size, dtype=xp.float64, device=device(omega)) + 0.5) / size
        rows = xp.clip(xp.searchsorted(along, marks * along[-1]), max=n - 1)
        shares = 1.0 / (size * xp.take(chance, rows))
        return _Sample(rows, shares[:, None], self.design.part(rows))

    def _gram(self, omega: Array, residual: Array) -> tuple[Array, Array]:
        """Gram matrix and gradient of rows whose losses are not flat."""
        xp, n = self.xp, omega.shape[0]
        bent = xp.nonzero((omega[:, 0] > 0.0) | xp.any(residual != 0.0, axis=1))[0]
        if bent.shape[0] > (1.0 - _FLAT) * n:
            return self.design.gram(omega, residual)
        omega, residual = (xp.take(values, bent, axis=0) for values in (omega, residual))
        return self.design.gram(omega, residual, bent)

    # ------------------------------------------------------------------------------------------
    # Steps
    # ------------------------------------------------------------------------------------------

    def _direction(self, live: Array) -> _Way:
        """Conjugate directions; of columns that are done none."""
        xp, g, last = self.xp, self.point.gradient, self._way
        z = self._solve(g.T).T
        steepness = xp.sum(z * g, axis=1)
        change = -z
        if last is not None:
            known = xp.where(last.steepness > 0.0, last.steepness, 1.0)
            share = xp.clip(xp.sum(z * (g - last.gradient), axis=1) / known, min=0.0)
            share = xp.where(last.steepness > 0.0, share, 0.0)
            turned = change + share[:, None] * last.change
            downhill = xp.sum(turned * g, axis=1) < -0.1 * steepness
            change = xp.where(downhill[:, None], turned, change)
        seen = moved(live, g)
        return _Way(xp.where(seen[:, None], change, 0.0), g, xp.where(seen, steepness, 0.0))

    def _moved(self, way: _Way) -> Point:
        """Go to the least value along each direction; the gradient is not yet that of the place."""
        point, scores = self.point, self.design.scores(way.change)
        t = self._lengths(point, way.change, scores)
        coef = point.coef + t[:, None] * way.change
        return point._replace(coef=coef, scores=point.scores + t * scores)

    def _lengths(self, point: Point, change: Array, scores: Array) -> Array:
        """Where slopes of convex functions vanish: Newton's steps, within what is known."""
        xp, y, w = self.xp, self.sign, self.weight
        linear = self.penalty * xp.sum(self.free * point.coef * change, axis=1)
        square = self.penalty * xp.sum(self.free * change * change, axis=1)
        first = xp.sum(point.gradient * change, axis=1)
        t = xp.ones_like(first)
        low, high = xp.zeros_like(first), xp.full_like(first, xp.inf)
        for _ in range(_SEARCHES):
            a, bend = self.loss.slopes(-y * (point.scores + t * scores))
            slope = linear + t * square - xp.sum(y * w * a * scores, axis=0)
            curve = square + xp.sum(w * bend * scores * scores, axis=0)
            if bool(xp.all(xp.abs(slope) <= -_LEVEL * first)):
                break
            low, high = xp.where(slope < 0.0, t, low), xp.where(slope > 0.0, t, high)
            step = t - slope / xp.where(curve > 0.0, curve, 1.0)
            inside = (step > low) & (step < high) & (curve > 0.0)
            middle = xp.where(xp.isfinite(high), 0.5 * (low + high), 2.0 * t)
            level = xp.abs(slope) <= -_LEVEL * first
            t = xp.where(level, t, xp.where(inside, step, middle))
        return t

    # ------------------------------------------------------------------------------------------
    # Certificates
    # ------------------------------------------------------------------------------------------

    def _gaps(self, point: Point, tol: float) -> tuple[Point, Array]:
        """Return points with their gradients, and relative gaps; rough ones where far from tol."""
        point = self._at(point.coef, point.scores)
        gaps = self._force(point)
        if self.design.fit_intercept and np.any(gaps <= tol):
            point = self._at(*self._centred(point))
            gaps = np.where(self._is_centred(point), self._force(point), np.inf)
        return point, gaps

    def _force(self, point: Point) -> Array:
        """What the force on the slopes leaves to be gained, relative to the objective."""
        force = self.free * point.gradient
        gap = 0.5 * self.xp.sum(force * force, axis=1) / self.penalty
        return as_numpy(gap / point.values)

    def _centred(self, point: Point) -> tuple[Array, Array]:
        """Return coefficients and scores with optimal intercepts, by Newton's method."""
        xp, y, w = self.xp, self.sign, self.weight
        shift = xp.zeros_like(point.coef[:, -1])
        for _ in range(_CENTRINGS):
            slope, bend = self.loss.slopes(-y * (point.scores + shift))
            force = -xp.sum(y * w * slope, axis=0)
            if bool(xp.all(xp.abs(force) <= _CENTRED * xp.sum(w * slope, axis=0))):
                break
            curve = xp.sum(w * bend, axis=0)
            shift = shift - xp.where(curve > 0.0, force / xp.where(curve > 0.0, curve, 1.0), 0.0)
        coef = xp.asarray(point.coef, copy=True)
        coef[:, -1] += shift
        return coef, point.scores + shift

    def _is_centred(self, point: Point) -> Array:
        """Whether the slopes of the losses balance, but for rounding."""
        pull = self.xp.sum(abs(self._residual(point.scores)), axis=0)
        return as_numpy(abs(point.gradient[:, -1]) <= _BALANCED * pull)
