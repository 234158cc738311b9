r"""What each candidate point would gain, for all of them in one pass over the kernel columns.

At the current function, with Hessian A and gradient c on the span, a candidate l with kernel column
k has the gradient :math:`g_l = k'\nabla + \lambda f(x_l)`, the cross terms
:math:`c_l = \Phi'Wk + \lambda\Phi_l'` and the curvature :math:`d_l = k'Wk + \lambda K_{ll}`. One
Newton step on the span and l together then has the coefficient

.. math:: -S_l^{-1}(g_l - c_l'A^{-1}c), \qquad S_l = d_l - c_l'A^{-1}c_l

and, with :math:`e_l = g_l - c_l'A^{-1}c`, promises the decrease
:math:`\tfrac12 e_l'S_l^{-1}e_l`: step (B2*) of Zhu & Hastie (2002), §3.2. With Q outputs g and e
are vectors, S and d are (Q, Q) matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.margins import output_pairs
from grayzone.solvers.greedy.basis import NewtonBasis
from grayzone.solvers.greedy.columns import KernelColumns
from grayzone.solvers.greedy.refit import Fitted

Array = Any

# Residual power, relative to K_ll, below which a point adds nothing that its column can show: what
# is left of sums over many rows in single precision has two digits by then.
LEAST_POWER = 1e-8
_LEAST_POWERS = {np.dtype(np.float64): LEAST_POWER, np.dtype(np.float32): 1e-2}


def enough_power(power: Array, diagonal: Array, dtype: Any) -> Array:
    """Whether points have enough residual power to add something."""
    return power > _LEAST_POWERS[dtype] * diagonal


@dataclass
class Scores:
    """Candidates and their slopes: for the choice by power, which no second derivative enters."""

    points: Array  # (m,)
    at: Array  # Phi at the candidates, (m, q)
    eligible: Array  # (m,)
    power: Array  # residual power (m,)
    slope: Array  # gradient along the candidates (m, Q)

    def limit(self, power: Array, diagonal: Array, dtype: Any) -> None:
        """Leave only candidates that have enough of the residual power of all rows."""
        self.power = power[self.points]
        self.eligible &= enough_power(self.power, diagonal[self.points], dtype)

    def gains(self) -> Array:
        """What each candidate promises, -inf for those that add nothing: |slope|^2 / power."""
        gain = np.sum(self.slope**2, axis=1) / np.maximum(self.power, 1e-300)
        return np.where(self.eligible, gain, -np.inf)

    def deflate(self, fitted: Fitted, columns: KernelColumns, taken: int, column: Array) -> None:
        """Turn to what the others gain once the candidate ``taken``, of that column, has joined."""
        self.eligible[taken] = False


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
        # of points that are spanned already nothing but rounding errors are left to solve with
        some = np.flatnonzero(self.eligible)
        gain = np.full(self.points.size, -np.inf)
        gain[some] = -0.5 * np.sum(self.slope[some] * self.steps(some), axis=1)
        return np.where(gain >= 0.0, gain, -np.inf)

    def steps(self, chosen: Array) -> Array:
        """Newton step of the coefficients of these candidates' columns, (len, Q)."""
        S = _safe(self.curvature[chosen])
        return -np.linalg.solve(S, self.slope[chosen][:, :, None])[:, :, 0]

    def deflate(self, fitted: Fitted, columns: KernelColumns, taken: int, column: Array) -> None:
        """Turn to what the others gain once the candidate ``taken``, of that column, has joined."""
        super().deflate(fitted, columns, taken, column)
        n, n_outputs = fitted.scores.shape
        weights, k = fitted.weights, column[:n]
        sums, _ = columns.sums(self.points, n, lambda a, b: k[a:b, None] * weights[a:b])
        mixed = _symmetric(sums, n_outputs)  # (m, Q, Q)
        mixed += fitted.problem.penalty * k[self.points, None, None] * np.eye(n_outputs)
        mixed -= np.einsum("ai,amj->mij", self.cross[:, taken], self.solved)
        root = np.linalg.cholesky(_safe(self.curvature[taken]))
        rows = np.linalg.solve(root, mixed)
        lost = np.linalg.solve(root, self.slope[taken])
        self.slope = self.slope - np.einsum("mij,i->mj", rows, lost)
        self.curvature = self.curvature - np.einsum("mki,mkj->mij", rows, rows)
        # for the next one taken, the span has one column more, along which A is now the identity
        self.cross = np.concatenate([self.cross, rows.transpose(1, 0, 2)])
        self.solved = np.concatenate([self.solved, rows.transpose(1, 0, 2)])


def _safe(S: Array) -> Array:
    """S with a trace of its diagonal more: rounding errors may have eaten up all of it."""
    q = S.shape[-1]
    trace = np.trace(S, axis1=-2, axis2=-1)[..., None, None] / q
    return S + np.maximum(1e-12 * trace, 1e-300) * np.eye(q)


def _symmetric(sums: Array, n_outputs: int) -> Array:
    """Matrices (m, Q, Q) from the sums (pairs, m) of their lower triangles."""
    out = np.empty((sums.shape[1], n_outputs, n_outputs))
    for values, (k, j) in zip(sums, output_pairs(n_outputs), strict=True):
        out[:, k, j] = out[:, j, k] = values
    return out


def score(
    fitted: Fitted, basis: NewtonBasis, columns: KernelColumns, points: Array, diagonal: Array
) -> NewtonScores:
    """Score candidates by (B2*), up to the evaluation of the criterion itself."""
    (n, n_outputs), (_, p) = fitted.scores.shape, fitted.coef.shape
    phi, weights, residual = basis.columns, fitted.weights, fitted.residual
    n_pairs, has_intercept = weights.shape[1], p > basis.size

    def factors(a: int, b: int) -> Array:
        rows = phi[a:b]
        if has_intercept:
            rows = np.concatenate([rows, np.ones((b - a, 1))], axis=1)
        scaled = (weights[a:b, :, None] * rows[:, None, :]).reshape(b - a, n_pairs * p)
        return np.concatenate([scaled, residual[a:b]], axis=1)

    sums, squares = columns.sums(points, n, factors, weights)
    found = _first_order(fitted, basis, columns, points, diagonal, sums[n_pairs * p :])
    penalty, eye = fitted.problem.penalty, np.eye(n_outputs)
    cross = np.empty((n_outputs, p, points.size, n_outputs))
    for i, (k, j) in enumerate(output_pairs(n_outputs)):
        cross[k, :, :, j] = cross[j, :, :, k] = sums[i * p : (i + 1) * p]
    for k in range(n_outputs):
        cross[k, : basis.size, :, k] += penalty * found.at.T
    cross = cross.reshape(n_outputs * p, points.size, n_outputs)
    solved = fitted.solve(cross.reshape(n_outputs * p, points.size * n_outputs))
    solved = solved.reshape(cross.shape)
    curvature = _symmetric(squares, n_outputs)
    curvature += penalty * diagonal[points, None, None] * eye
    curvature -= np.einsum("ami,amj->mij", cross, solved)
    slope = found.slope - np.einsum("ami,a->mi", solved, fitted.gradient.ravel())
    return NewtonScores(
        points, found.at, found.eligible, found.power, slope, curvature, cross, solved
    )


def score_by_power(
    fitted: Fitted, basis: NewtonBasis, columns: KernelColumns, points: Array, diagonal: Array
) -> Scores:
    """Score candidates by squared slope over residual power: no pass over the basis."""
    residual = fitted.residual
    n = fitted.scores.shape[0]
    sums, _ = columns.sums(points, n, lambda a, b: residual[a:b])
    return _first_order(fitted, basis, columns, points, diagonal, sums)


def _first_order(
    fitted: Fitted,
    basis: NewtonBasis,
    columns: KernelColumns,
    points: Array,
    diagonal: Array,
    pulled: Array,
) -> Scores:
    q = basis.size
    at = basis.columns[points]
    slope = pulled.T + fitted.problem.penalty * (at @ fitted.coef[:, :q].T)
    found = Scores(points, at, np.ones(points.size, dtype=bool), basis.power[points], slope)
    found.limit(basis.power, diagonal, columns.dtype)
    return found


class OneStep(NamedTuple):
    """Where one Newton step with each of some candidates leads."""

    values: Array  # the criterion (t,)
    coefs: Array  # coefficients in the basis that has the candidate's column as well (t, Q, p + 1)
    columns: Array  # kernel columns of the candidates (n, t)


def one_step(
    fitted: Fitted, basis: NewtonBasis, columns: KernelColumns, found: NewtonScores, chosen: Array
) -> OneStep:
    """Criterion (6) after one Newton step with each of these candidates, and where it leads."""
    n, n_outputs = fitted.scores.shape
    q, p = basis.size, fitted.coef.shape[1]
    problem, steps = fitted.problem, found.steps(chosen)
    shift = -fitted.solve(fitted.gradient.ravel())
    moved = shift[:, None] - np.einsum("ami,mi->am", found.solved[:, chosen], steps)
    moved = fitted.coef[:, :, None] + moved.reshape(n_outputs, p, chosen.size)
    K = columns.column(found.points[chosen])
    side_by_side = moved.transpose(2, 0, 1).reshape(chosen.size * n_outputs, p)
    spanned = problem.design.scores(side_by_side)
    scores = spanned.T.reshape(chosen.size, n_outputs, n) + K[:n].T[:, None] * steps[:, :, None]
    losses = problem.loss.value(problem.margins.margin(scores.transpose(0, 2, 1)))
    coefs = np.empty((chosen.size, n_outputs, p + 1))
    # the candidate's kernel column is part old basis, part new column
    coefs[:, :, :q] = moved[:, :q].transpose(2, 0, 1) + steps[:, :, None] * found.at[chosen, None]
    coefs[:, :, q] = np.sqrt(found.power[chosen, None]) * steps
    coefs[:, :, q + 1 :] = moved[:, q:].transpose(2, 0, 1)
    norms = np.sum(coefs[:, :, : q + 1] ** 2, axis=(1, 2))
    values = losses @ problem.weight + 0.5 * problem.penalty * norms
    return OneStep(np.where(np.isfinite(values), values, np.inf), coefs, K)
