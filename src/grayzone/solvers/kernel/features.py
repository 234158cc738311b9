"""A kernel problem as a linear one: the rows of a factor of the kernel matrix are its data.

K = LL' (pivoted Cholesky, cut off at the rank) turns criterion (8) into a problem with n rows and
rank(K) features, for which the linear solvers are exact whatever C is. Of size n^2 in memory and
n^3 in work: for small problems, for the last steps of large ones on few rows, and, column by
column, for kernels of low rank on any number of rows.

Rows are scaled to norm one before they are factorised, so that rows of small norm keep their digits
beside those of large norm: polynomials of unscaled features have values from 1 to 1e24.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpstrf

from grayzone.numerics.designs import as_design
from grayzone.numerics.kernel_design import KernelDesign
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.pivoted import pivoted_columns
from grayzone.solvers.certificate import certify_duals
from grayzone.solvers.loop import Solution, Status
from grayzone.solvers.problem import Problem

Array = Any

_RESIDUAL = 1e-5  # what may be left of K beyond its rank, relative to its diagonal
_EPS = 2e-16  # relative precision of kernel values
FEW_COLUMNS = 128  # rank up to which columns are made one by one


def factor(K: Array, eps: float = _EPS, definite: bool = False) -> Array:
    """Return L with LL' = K and as many columns as K has rank, of any array library.

    ``eps`` is the relative precision of the entries. Each row has its own scale; of kernels that
    are not known to be ``definite`` only where the factor then has every entry at its own scale,
    too. Of others nobody knows the errors: all rows have the scale of the largest, and it is an
    error if they are indefinite.
    """
    xp = array_namespace(K)
    diagonal = xp.linalg.diagonal(K)
    scale = float(xp.max(diagonal))
    if not scale > 0.0:
        if bool(xp.any(K != 0.0)):
            raise indefinite("its diagonal has no positive value")
        return xp.zeros_like(K[:, :1])
    norms = xp.sqrt(xp.where(diagonal > 0.0, diagonal, scale))
    # no entry of a definite matrix is larger than the product of its rows' norms
    bound = (1.0 + _RESIDUAL) * norms[:, None] * norms[None, :]
    if definite or bool(xp.all(xp.abs(K) <= bound)):
        L = _factor_of_unit(K, norms, eps)
        if definite or _left(K, L, norms, eps) is None:
            return L
    norms = xp.sqrt(xp.full_like(diagonal, scale))
    L = _factor_of_unit(K, norms, eps)
    worst = _left(K, L, norms, eps)
    if worst is not None:
        rank = L.shape[1]
        raise indefinite(f"an entry is {worst * scale:.2e} off the nearest matrix of rank {rank}")
    return L


def _factor_of_unit(K: Array, norms: Array, eps: float) -> Array:
    """Return the factor of K, with rows of these norms."""
    unit = K / norms[:, None] / norms[None, :]
    pivoted = pivoted_factor if is_numpy_array(K) else pivoted_columns
    L, _ = pivoted(unit, eps * K.shape[0])
    return norms[:, None] * L


def _left(K: Array, L: Array, norms: Array, eps: float) -> float | None:
    """Return the most that a factor leaves of an entry, in norms of rows; None if that is fine."""
    xp, n = array_namespace(K), K.shape[0]
    if L.shape[1] == n:
        return None
    worst = float(xp.max(xp.abs(K - L @ L.T) / norms[:, None] / norms[None, :]))
    return None if worst <= max(_RESIDUAL, 1e3 * n * eps) else worst


def few_columns(design: KernelDesign, most: int) -> Array | None:
    """Return the same factor, made column by column; None where it has more than ``most``."""
    if not design.kernel.is_definite:
        return None
    rows, squares = np.arange(design.n_rows), design.row_squares()
    norms = np.sqrt(np.where(squares > 0.0, squares, 1.0))
    rest = (squares > 0.0).astype(np.float64)
    L = np.zeros((rows.size, most))
    for j in range(most + 1):
        pivot = int(np.argmax(rest))
        power = float(rest[pivot])
        if not power > _EPS * rows.size:
            return norms[:, None] * L[:, : max(j, 1)]
        if j == most:
            break
        column = design.inner(rows[pivot : pivot + 1], rows)[0] / norms / norms[pivot]
        column -= L[:, :j] @ L[pivot, :j]
        L[:, j] = column / np.sqrt(power)
        rest -= L[:, j] ** 2
        rest[pivot] = 0.0
    return None


def pivoted_factor(K: Array, least: float) -> tuple[Array, Array]:
    """Return L with LL' = K up to a diagonal of ``least``, and the rows where L is triangular."""
    lower, pivots, rank, _ = dpstrf(K, tol=least, lower=True)
    L = np.empty((K.shape[0], rank))
    L[pivots - 1] = np.tril(lower)[:, :rank]
    return L, pivots[:rank] - 1


def indefinite(detail: str) -> ValueError:
    """Return the error for a kernel that is none."""
    return ValueError(
        f"The kernel is not positive semi-definite ({detail}): criterion (8) has no minimum to "
        "find. A precomputed kernel matrix has to be symmetric with non-negative eigenvalues; the "
        "sigmoid kernel often is not, for a large gamma or a negative coef0."
    )


def solve_in_features(
    problem: Problem,
    minimise: Callable[[Problem, Array | None, float], Solution],
    start: Array | None,
    tol: float,
    L: Array | None = None,
) -> Solution:
    """Solve by ``minimise``, a linear solver, and return the solution in kernel terms.

    ``L`` is the factor of the kernel matrix, where it is known already.
    """
    design = problem.design
    assert isinstance(design, KernelDesign)
    if L is None:
        rows = np.arange(design.n_rows)
        L = factor(design.inner(rows, rows), design.precision, design.kernel.is_definite)
    linear = replace(problem, design=as_design(L, design.fit_intercept))
    if start is not None:
        slopes = start[:, design.rows] @ L
        start = np.concatenate([slopes, start[:, design.n_features :]], axis=1)
    return solve_for_duals(problem, partial(minimise, linear), start, tol, linear)


def solve_for_duals(
    problem: Problem,
    minimise: Callable[[Array | None, float], Solution],
    start: Array | None,
    tol: float,
    features: Problem | None = None,
) -> Solution:
    """Solve until the function that the *duals* span is as good as asked for.

    A function within the tolerance may have duals that span a worse one, most of all for large C;
    it is then solved to a finer tolerance. Where that does not help, kernel values are so large
    that rounding errors of the duals show. Then smaller coefficients of the same rows may span the
    function that was found, if it was found in ``features``.
    """
    linear = minimise(start, tol)
    spanned, n_iter, status = _spanned_by_duals(problem, linear), linear.n_iter, linear.status
    for finer in (1e-2, 1e-4, 1e-6):
        if spanned.certificate.relative <= tol:
            return replace(spanned, status=Status.CONVERGED, n_iter=n_iter)
        if linear.status is not Status.CONVERGED:
            break
        trial = minimise(linear.coef, finer * tol)
        n_iter += trial.n_iter
        after = _spanned_by_duals(problem, trial)
        better = after.certificate.gap <= 0.5 * spanned.certificate.gap
        status = trial.status if better else Status.ROUNDED
        if after.certificate.gap < spanned.certificate.gap:
            spanned, linear = after, trial
        if not better:
            break
    if features is not None:
        other = _spanned_by_support(problem, features, linear)
        # of a fit that was cut short the duals are kept, unless they span something much worse
        much = 0.1 if status in (Status.MAX_ITER, Status.STOPPED) else 1.0
        small = spanned.certificate.gap * much < other.certificate.gap
        spanned = spanned if small else other
    if spanned.certificate.relative <= tol:
        status = Status.CONVERGED
    elif status is Status.CONVERGED:
        status = Status.ROUNDED
    return replace(spanned, status=status, n_iter=n_iter)


def _spanned_by_duals(problem: Problem, linear: Solution) -> Solution:
    """Solution in kernel terms: the function that the duals of a linear one span."""
    design, duals = problem.design, linear.certificate.duals
    coef = -design.gradient(problem.weight[:, None] * duals) / problem.penalty
    if design.fit_intercept:
        coef[:, -1] = linear.coef[:, -1]
    scores = design.scores(coef)
    certificate = certify_duals(problem, coef, scores, duals, spanned=True)
    return replace(linear, coef=coef, scores=scores, certificate=certificate, streamed=None)


def _spanned_by_support(problem: Problem, features: Problem, linear: Solution) -> Solution:
    """Solution in kernel terms: the function itself, by the least coefficients of the support.

    Least in units of the rows' norms, which is what rounding errors of its values are made of.
    Duals are up to C in size wherever rows are, and cancel; these need not.
    """
    xp, design, duals = array_namespace(linear.coef), problem.design, linear.certificate.duals
    L = features.design.X
    norms = xp.sqrt(xp.sum(L * L, axis=1))
    support = xp.any(duals != 0.0, axis=1) & (norms > 0.0)
    norms = xp.where(support, norms, 1.0)[:, None]
    unit = xp.where(support[:, None], L / norms, 0.0)
    slopes = xp.matmul(linear.coef[:, : L.shape[1]], xp.linalg.pinv(unit)).T / norms
    coef = design.gradient(xp.where(support[:, None], slopes, 0.0))
    if design.fit_intercept:
        coef[:, -1] = linear.coef[:, -1]
    scores = design.scores(coef)
    certificate = certify_duals(features, linear.coef, scores, duals)
    # features that rounding has left out would not be paid for
    unpaid = problem.penalty_value(coef, scores) - features.penalty_value(linear.coef, scores)
    if not unpaid <= 0.0:
        primal, gap = certificate.primal + unpaid, certificate.gap + unpaid
        certificate = replace(certificate, primal=primal, gap=gap)
    return replace(linear, coef=coef, scores=scores, certificate=certificate, streamed=None)
