r"""What each candidate point would gain, for all of them in one pass over the kernel columns.

At the current function, with Hessian A and gradient c on the span, a candidate l with kernel column
k has the gradient :math:`g_l = k'\nabla + \lambda f(x_l)`, the cross terms
:math:`c_l = \Phi'Wk + \lambda\Phi_l'` and the curvature :math:`d_l = k'Wk + \lambda K_{ll}`. One
Newton step on the span and l together then has the coefficient

.. math:: -S_l^{-1}(g_l - c_l'A^{-1}c), \qquad S_l = d_l - c_l'A^{-1}c_l

and, with :math:`e_l = g_l - c_l'A^{-1}c`, promises the decrease
:math:`\tfrac12 e_l'S_l^{-1}e_l`: step (B2*) of Zhu & Hastie (2002), §3.2. With Q outputs g and e
are vectors, S and d are (Q, Q) matrices.

A task sends back sums over rows of their kernel values with the candidates; all else is of the size
of the candidates and of the basis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from array_api_compat import device

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import is_numerical
from grayzone.numerics.linalg import lower_factor, solved_by_many
from grayzone.numerics.margins import output_pairs
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.greedy.basis import NewtonBasis
from grayzone.solvers.greedy.columns import Factors, KernelColumns
from grayzone.solvers.greedy.many import losses_of_trials
from grayzone.solvers.greedy.refit import Fitted, Point
from grayzone.solvers.greedy.span import Spanned
from grayzone.sources.labelled import Rows
from grayzone.sources.source import Sums

Array = Any

# Share of a curvature that is added to it, and the least that is.
_TRACE, _LEAST = 1e-12, 1e-300

# ------------------------------------------------------------------------------------------
# Tasks
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Slopes:
    """Gradient of the losses along the candidates: all that the choice by power needs."""

    point: Point
    candidates: KernelColumns

    def __call__(self, rows: Rows, phi: Array) -> Sums:
        residual, _ = self.point.in_scores(rows, phi)
        none = residual[:, :0]
        sums, _ = self.candidates.sums(rows, Factors(none, none, residual))
        return {"pulled": sums}


@dataclass(frozen=True)
class _Model:
    """Gradient, cross terms and curvatures of the losses along the candidates."""

    point: Point
    candidates: KernelColumns

    def __call__(self, rows: Rows, phi: Array) -> Sums:
        residual, weights = self.point.in_scores(rows, phi)
        p = self.point.coef.shape[1]
        width = weights.shape[1] * p
        factors = Factors(phi, weights, residual, intercept=p > phi.shape[1])
        sums, squares = self.candidates.sums(rows, factors, weights)
        return {"crossed": sums[:width, :], "pulled": sums[width:, :], "squares": squares}


@dataclass(frozen=True)
class _Mixed:
    """Mixed curvatures of the losses along the candidates and one that was taken."""

    point: Point
    candidates: KernelColumns
    taken: KernelColumns
    column: Array | None  # its kernel column, where that of all rows is known

    def __call__(self, rows: Rows, phi: Array) -> Sums:
        _, weights = self.point.in_scores(rows, phi)
        own = self.taken.values(rows) if self.column is None else self.column[:, None]
        sums, _ = self.candidates.sums(rows, Factors(own, weights))
        return {"mixed": sums}


@dataclass(frozen=True)
class _Trials:
    """Losses at several functions, each with a candidate's kernel function of its own."""

    point: Point
    chosen: KernelColumns
    columns: Array | None  # their kernel columns (n, t), where those of all rows are known
    coefs: Array  # (t Q, p)
    steps: Array  # (t, Q)
    many: bool = False  # whether compiled loops are worth their loading

    def __call__(self, rows: Rows, phi: Array) -> Sums:
        problem = self.point.criterion.on_span(rows, phi)
        if self.many and self.columns is not None and self.point.criterion.is_plain:
            steps = self.steps[:, 0]
            return {"losses": losses_of_trials(problem, self.coefs, self.columns, steps)}
        xp, (t, n_outputs) = array_namespace(phi), self.steps.shape
        spanned = xp.reshape(problem.design.scores(self.coefs).T, (t, n_outputs, phi.shape[0]))
        own = (self.chosen.values(rows) if self.columns is None else self.columns).T
        scores = spanned + own[:, None, :] * self.steps[:, :, None]
        losses = problem.loss.value(problem.margins.margin(xp.permute_dims(scores, (0, 2, 1))))
        return {"losses": xp.matmul(losses, problem.weight)}


# ------------------------------------------------------------------------------------------
# Scores
# ------------------------------------------------------------------------------------------


@dataclass
class Scores:
    """Candidates and their slopes: for the choice by power, which no second derivative enters."""

    places: Array  # in the pool (m,)
    at: Array  # Phi at the candidates (m, q)
    eligible: Array  # (m,)
    power: Array  # residual power (m,)
    slope: Array  # gradient along the candidates (m, Q)

    def limit(self, basis: NewtonBasis) -> None:
        """Leave only candidates that have enough residual power."""
        xp = array_namespace(self.places)
        self.power = xp.take(basis.power, self.places)
        self.eligible = self.eligible & xp.take(basis.enough_power(), self.places)

    def gains(self) -> Array:
        """What each candidate promises, -inf for those that add nothing: |slope|^2 / power."""
        xp = array_namespace(self.slope)
        # of others, which have none left, the power is no divisor
        power = xp.where(self.eligible, self.power, xp.ones_like(self.power))
        gain = xp.sum(self.slope**2, axis=1) / xp.clip(power, min=1e-300)
        return xp.where(self.eligible, gain, -xp.inf)

    def deflate(
        self, spanned: Spanned, fitted: Fitted, basis: NewtonBasis, taken: int, column: Array
    ) -> None:
        """Turn to what the others gain once the candidate ``taken``, of that column, has joined."""
        xp = array_namespace(self.places)
        others = xp.arange(self.places.shape[0], device=device(self.places)) != taken
        self.eligible = self.eligible & others


@dataclass
class NewtonScores(Scores):
    """Candidates and the quadratic model of the criterion along each of them.

    Slopes are those left beside a Newton step on the span; p coefficients belong to each output.
    """

    curvature: Array  # S (m, Q, Q)
    cross: Array  # c (Qp, m, Q)
    solved: Array  # A^-1 c (Qp, m, Q)

    def gains(self) -> Array:
        """Decrease that each candidate promises; -inf for those that add nothing."""
        xp = array_namespace(self.slope)
        # of points that are spanned already nothing but rounding errors are left to solve with
        curvature = xp.where(self.eligible[:, None, None], self.curvature, _eye(self.curvature))
        gain = -0.5 * xp.sum(self.slope * _steps(curvature, self.slope), axis=1)
        return xp.where(self.eligible & (gain >= 0.0), gain, -xp.inf)

    def steps(self, chosen: Array) -> Array:
        """Newton step of the coefficients of these candidates' columns, (len, Q)."""
        xp = array_namespace(chosen)
        return _steps(xp.take(self.curvature, chosen, axis=0), xp.take(self.slope, chosen, axis=0))

    def deflate(
        self, spanned: Spanned, fitted: Fitted, basis: NewtonBasis, taken: int, column: Array
    ) -> None:
        """Turn to what the others gain once the candidate ``taken``, of that column, has joined."""
        super().deflate(spanned, fitted, basis, taken, column)
        xp = array_namespace(self.slope)
        own = KernelColumns(basis.kernel, basis.right(self.places[taken : taken + 1]))
        known = column if basis.pool.complete else None
        task = _Mixed(fitted.point, basis.candidates(self.places), own, known)
        mixed = _symmetric(spanned.reduce(task)["mixed"], self.slope.shape[1])
        between = xp.take(column, self.places)
        mixed = mixed + fitted.point.criterion.penalty * between[:, None, None] * _eye(mixed)
        crossed = self.cross[:, taken, :].T  # (Q, Qp)
        mixed = mixed - xp.matmul(crossed, xp.permute_dims(self.solved, (1, 0, 2)))
        inverse = xp.linalg.inv(_root(_safe(self.curvature[taken : taken + 1, :, :])[0, :, :]))
        rows = xp.matmul(inverse, mixed)
        lost = xp.matmul(inverse, self.slope[taken, :])
        self.slope = self.slope - xp.matmul(xp.permute_dims(rows, (0, 2, 1)), lost)
        self.curvature = self.curvature - xp.matmul(xp.permute_dims(rows, (0, 2, 1)), rows)
        # for the next one taken, the span has one column more, along which A is now the identity
        more = xp.permute_dims(rows, (1, 0, 2))
        self.cross = xp.concat([self.cross, more])
        self.solved = xp.concat([self.solved, more])


def _eye(S: Array) -> Array:
    """Identity (1, Q, Q) of the kind of these matrices."""
    xp = array_namespace(S)
    return xp.eye(S.shape[-1], dtype=S.dtype, device=device(S))[None, :, :]


def _safe(S: Array) -> Array:
    """S with a trace of its diagonal more: rounding errors may have eaten up all of it."""
    xp = array_namespace(S)
    trace = xp.sum(xp.linalg.diagonal(S), axis=-1) / S.shape[-1]
    return S + xp.clip(_TRACE * trace, min=_LEAST)[:, None, None] * _eye(S)


def _root(S: Array) -> Array:
    """Cholesky factor of a curvature (Q, Q); that of its diagonal where rounding is all it is."""
    try:
        return lower_factor(S)
    except FloatingPointError:
        xp = array_namespace(S)
        own = xp.linalg.diagonal(S)
        least = xp.clip(xp.max(xp.abs(own)), min=1e-300)
        return xp.sqrt(xp.where(own > 0.0, own, least))[:, None] * _eye(S)[0, :, :]


def _steps(curvature: Array, slope: Array) -> Array:
    if slope.shape[1] == 1:
        own = curvature[:, :, 0]
        more = _TRACE * own
        return -slope / (own + array_namespace(own).where(more > _LEAST, more, _LEAST))
    S = _safe(curvature)
    xp = array_namespace(S)
    try:
        return -xp.linalg.solve(S, slope[:, :, None])[:, :, 0]
    except Exception as error:  # each library raises its own where rounding is all there is
        if not is_numerical(error):
            raise
        own = xp.linalg.diagonal(S)
        return xp.where(own > 0.0, -slope / xp.where(own > 0.0, own, 1.0), 0.0)


def _symmetric(sums: Array, n_outputs: int) -> Array:
    """Matrices (m, Q, Q) from the sums (pairs, m) of their lower triangles."""
    xp = array_namespace(sums)
    shape = sums.shape[1], n_outputs, n_outputs
    out = xp.empty(shape, dtype=sums.dtype, device=device(sums))
    for i, (k, j) in enumerate(output_pairs(n_outputs)):
        out[:, k, j] = sums[i, :]
        out[:, j, k] = sums[i, :]
    return out


def score(spanned: Spanned, fitted: Fitted, basis: NewtonBasis, places: Array) -> NewtonScores:
    """Score candidates by (B2*), up to the evaluation of the criterion itself."""
    xp, (n_outputs, p) = array_namespace(fitted.coef), fitted.coef.shape
    sums = spanned.reduce(_Model(fitted.point, basis.candidates(places)))
    first = _first_order(fitted, basis, places, sums["pulled"])
    penalty, m = fitted.point.criterion.penalty, int(places.shape[0])
    cross = _cross_terms(sums["crossed"], penalty * first.at.T, (n_outputs, p))
    wide = n_outputs * p, m * n_outputs
    solve = partial(solved_by_many, fitted.solve) if spanned.are_many else fitted.solve
    solved = solve(xp.reshape(cross, wide))
    slope = xp.matmul(xp.reshape(fitted.gradient, (1, -1)), solved)
    slope = first.slope - xp.reshape(slope, (m, n_outputs))
    solved = xp.reshape(solved, cross.shape)
    curvature = _symmetric(sums["squares"], n_outputs)
    diagonal = xp.take(basis.pool.diagonal, places)
    curvature = curvature + penalty * diagonal[:, None, None] * _eye(curvature)
    curvature = curvature - _inner(cross, solved)
    return NewtonScores(
        places, first.at, first.eligible, first.power, slope, curvature, cross, solved
    )


def _cross_terms(crossed: Array, shrunk: Array, shape: tuple[int, int]) -> Array:
    """Cross terms (Qp, m, Q) from sums (pairs p, m) and the penalty's part (q, m)."""
    xp, (n_outputs, p) = array_namespace(crossed), shape
    q, m = shrunk.shape
    cross = xp.empty((n_outputs, p, m, n_outputs), dtype=crossed.dtype, device=device(crossed))
    for i, (k, j) in enumerate(output_pairs(n_outputs)):
        cross[k, :, :, j] = crossed[i * p : (i + 1) * p, :]
        cross[j, :, :, k] = crossed[i * p : (i + 1) * p, :]
    for k in range(n_outputs):
        cross[k, :q, :, k] += shrunk
    return xp.reshape(cross, (n_outputs * p, m, n_outputs))


def _inner(left: Array, right: Array) -> Array:
    """Sums over the first axis of products, (m, Q, Q) from two (Qp, m, Q)."""
    xp = array_namespace(left)
    if left.shape[2] == 1:
        return xp.sum(left * right, axis=0)[:, :, None]
    return xp.matmul(xp.permute_dims(left, (1, 2, 0)), xp.permute_dims(right, (1, 0, 2)))


def score_by_power(spanned: Spanned, fitted: Fitted, basis: NewtonBasis, places: Array) -> Scores:
    """Score candidates by squared slope over residual power: no pass over the basis."""
    sums = spanned.reduce(_Slopes(fitted.point, basis.candidates(places)))
    return _first_order(fitted, basis, places, sums["pulled"])


def _first_order(fitted: Fitted, basis: NewtonBasis, places: Array, pulled: Array) -> Scores:
    xp, q = array_namespace(places), basis.size
    at = basis.columns_at(places)
    slope = pulled.T + fitted.point.criterion.penalty * xp.matmul(at, fitted.coef[:, :q].T)
    every = xp.ones(places.shape[0], dtype=xp.bool, device=device(places))
    scores = Scores(places, at, every, basis.power, slope)
    scores.limit(basis)
    return scores


class Trials(NamedTuple):
    """Where one Newton step with each of some candidates leads."""

    values: Array  # the criterion (t,)
    coefs: Array  # coefficients in the basis that has the candidate's column as well (t, Q, p + 1)
    columns: Array | None  # kernel columns of the candidates (n, t), where rows are held


def one_step(
    spanned: Spanned, fitted: Fitted, basis: NewtonBasis, scores: NewtonScores, chosen: Array
) -> Trials:
    """Criterion (6) after one Newton step with each of these candidates, and where it leads."""
    xp, (n_outputs, p) = array_namespace(chosen), fitted.coef.shape
    q, t, steps = basis.size, int(chosen.shape[0]), scores.steps(chosen)
    shift = -fitted.solve(xp.reshape(fitted.gradient, (-1,)))
    solved = xp.permute_dims(xp.take(scores.solved, chosen, axis=1), (1, 0, 2))  # (t, Qp, Q)
    change = shift[None, :] - xp.matmul(solved, steps[:, :, None])[:, :, 0]
    coefs = fitted.coef[None, :, :] + xp.reshape(change, (t, n_outputs, p))
    places = xp.take(scores.places, chosen)
    columns = basis.kernel_values(places) if basis.pool.complete else None
    own = KernelColumns(basis.kernel, None if basis.pool.complete else basis.right(places))
    side_by_side = xp.reshape(coefs, (t * n_outputs, p))
    task = _Trials(fitted.point, own, columns, side_by_side, steps, spanned.are_many)
    losses = moved(spanned.reduce(task)["losses"], steps)
    # the candidate's kernel column is part old basis, part new column
    old = coefs[:, :, :q] + steps[:, :, None] * xp.take(scores.at, chosen, axis=0)[:, None, :]
    new = xp.sqrt(xp.take(scores.power, chosen))[:, None] * steps
    norms = xp.sum(old * old, axis=(1, 2)) + xp.sum(new * new, axis=1)
    values = losses + 0.5 * fitted.point.criterion.penalty * norms
    coefs = xp.concat([old, new[:, :, None], coefs[:, :, q:]], axis=2)
    return Trials(xp.where(xp.isfinite(values), values, xp.inf), coefs, columns)
