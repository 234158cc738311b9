"""A kernel problem as a linear one: the rows of a factor of the kernel matrix are its data.

K = LL' (pivoted Cholesky, cut off at the rank) turns criterion (8) into a problem with n rows and
rank(K) features, for which the linear solvers are exact whatever C is. Of size n^2 in memory and
n^3 in work: for small problems, and for the last steps of large ones on few rows. On a device the
columns of L are eigenvectors times roots of their eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg.lapack import dpstrf

from grayzone.numerics.designs import DenseDesign
from grayzone.numerics.kernel_design import KernelDesign
from grayzone.solvers.certificate import certify_duals
from grayzone.solvers.loop import Solution, Status
from grayzone.solvers.problem import Problem

Array = Any

_RESIDUAL = 1e-5  # what may be left of K beyond its rank, relative to its diagonal
_ROUNDED = 2e-16  # eigenvalues below so much of the largest, a row, are rounding errors
_NEGATIVE = 1e-6  # negative eigenvalues, of the largest, that are rounding errors


def factor(K: Array, eps: float = 2e-16) -> Array:
    """Return L with LL' = K and as many columns as K has rank; an error if K is indefinite.

    ``eps`` is the relative precision of the entries.
    """
    n = K.shape[0]
    scale = float(np.max(np.diagonal(K), initial=0.0))
    if not scale > 0.0:
        if np.any(K != 0.0):
            raise indefinite("its diagonal has no positive value")
        return np.zeros((n, 1))
    L, _ = pivoted_factor(K, eps * n * scale)
    rank = L.shape[1]
    if rank < n:
        worst = float(np.max(np.abs(K - L @ L.T)))
        if worst > max(_RESIDUAL, 1e3 * n * eps) * scale:
            raise indefinite(f"an entry is {worst:.2e} off the nearest matrix of rank {rank}")
    return L


def pivoted_factor(K: Array, least: float) -> tuple[Array, Array]:
    """Return L with LL' = K up to a diagonal of ``least``, and the rows where L is triangular."""
    lower, pivots, rank, _ = dpstrf(K, tol=least, lower=True)
    L = np.empty((K.shape[0], rank))
    L[pivots - 1] = np.tril(lower)[:, :rank]
    return L, pivots[:rank] - 1


def eigenfeatures(K: Array) -> Array:
    """Return L with LL' = K, of any array library; an error if K is indefinite."""
    xp, n = array_namespace(K), K.shape[0]
    values, vectors = xp.linalg.eigh(0.5 * (K + K.T))
    largest, least = float(xp.max(xp.abs(values))), float(xp.min(values))
    if least < -_NEGATIVE * largest:
        raise indefinite(f"it has an eigenvalue of {least:.2e}, the largest being {largest:.2e}")
    kept = xp.nonzero(values > _ROUNDED * n * largest)[0]
    if kept.shape[0] == 0:  # a kernel of nothing but zeros
        return xp.zeros_like(K[:, :1])
    return xp.take(vectors, kept, axis=1) * xp.sqrt(xp.take(values, kept))


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
) -> Solution:
    """Solve by ``minimise``, a linear solver, and return the solution in kernel terms."""
    design = problem.design
    assert isinstance(design, KernelDesign)
    rows = np.arange(design.n_rows)
    L = factor(design.inner(rows, rows), design.precision)
    linear = replace(problem, design=DenseDesign(L, design.fit_intercept))
    if start is not None:
        slopes = start[:, design.rows] @ L
        start = np.concatenate([slopes, start[:, design.n_features :]], axis=1)
    return solve_for_duals(problem, partial(minimise, linear), start, tol)


def solve_for_duals(
    problem: Problem,
    minimise: Callable[[Array | None, float], Solution],
    start: Array | None,
    tol: float,
) -> Solution:
    """Solve until the function that the *duals* span is as good as asked for.

    A function within the tolerance may have duals that span a worse one, most of all for large C;
    it is then solved to a finer tolerance. Where that does not help, kernel values so large that
    their rounding errors show are what limits: no other duals would do better.
    """
    n_iter, before = 0, np.inf
    for finer in (1.0, 1e-2, 1e-4, 1e-6):
        linear = minimise(start, finer * tol)
        start, n_iter = linear.coef, n_iter + linear.n_iter
        spanned = _spanned_by_duals(problem, linear)
        if spanned.certificate.relative <= tol:
            return replace(spanned, status=Status.CONVERGED, n_iter=n_iter)
        if linear.status is not Status.CONVERGED:
            return replace(spanned, status=linear.status, n_iter=n_iter)
        if spanned.certificate.gap > 0.5 * before:
            return replace(spanned, status=Status.ROUNDED, n_iter=n_iter)
        before = spanned.certificate.gap
    return replace(spanned, status=Status.STALLED, n_iter=n_iter)


def _spanned_by_duals(problem: Problem, linear: Solution) -> Solution:
    """Solution in kernel terms: the function that the duals of a linear one span."""
    design, duals = problem.design, linear.certificate.duals
    coef = -design.gradient(problem.weight[:, None] * duals) / problem.penalty
    if design.fit_intercept:
        coef[:, -1] = linear.coef[:, -1]
    scores = design.scores(coef)
    certificate = certify_duals(problem, coef, scores, duals, spanned=True)
    return replace(linear, coef=coef, scores=scores, certificate=certificate, streamed=None)
