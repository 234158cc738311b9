"""A kernel problem of several classes as a linear one, on a device: features from eigenvectors.

K = LL', the columns of L being eigenvectors times roots of their eigenvalues: criterion (8) in n
rows and as many features as K has rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from grayzone.numerics.kernels import Kernel
from grayzone.solvers.kernel.device_matrix import check_memory
from grayzone.solvers.kernel.features import indefinite
from grayzone.solvers.loop import Record, Status
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.by_blocks import minimise_by_blocks, row_duals
from grayzone.solvers.truncated.frame import Frame
from grayzone.sources.labelled import Rows
from grayzone.sources.labelled_blocks import LabelledBlocks
from grayzone.sources.source import HeldSource

Array = Any

_RANK = 2e-16  # eigenvalues below so much of the largest, a row, are rounding errors
_INDEFINITE = 1e-6
_FINER = (1.0, 1e-2, 1e-4)  # tolerances of the linear fit, in units of the one asked for


def fit_in_features(
    kernel: Kernel,
    rows: Rows,
    frame: Frame,
    tol: float,
    max_iter: int,
    callback: Callable[[Record], bool | None] | None,
) -> tuple[Array, Array, Array, float, float, Status, int]:
    """Minimise criterion (8) over the functions of a kernel, for any number of classes.

    Returns
    -------
    multipliers, duals, intercept, objective, gap, status, n_iter : tuple
        Objective and gap are those of the function that the duals (n, Q) span.
    """
    check_memory(rows.X.shape[0], rows.weight, matrices=4)
    L = _features(kernel, rows.X)
    xp, codes = array_namespace(L), rows.codes
    mass = [float(xp.sum(xp.where(codes == k, rows.weight, 0.0))) for k in range(frame.n_classes)]
    labelled = LabelledBlocks(HeldSource(L, codes, rows.weight), *_census(mass, L.shape[0]))
    problem = frame.problem(Rows(L, codes, rows.weight, 0))
    start, n_iter, best = None, 0, None
    # a function within the tolerance may have duals that span a worse one
    for finer in _FINER:
        options: Any = {"tol": finer * tol, "max_iter": max_iter, "callback": callback}
        found = minimise_by_blocks(labelled, frame, start=start, **options)
        start, n_iter = found.coef, n_iter + found.n_iter
        multipliers, duals = row_duals(problem, found)
        objective, gap = _spanned(problem, frame, found.coef, duals)
        if best is None or gap < best[3]:
            best = multipliers, duals, objective, gap, found
        if gap <= tol or found.status is not Status.CONVERGED:
            break
    assert best is not None
    multipliers, duals, objective, gap, found = best
    status = found.status
    if status is Status.CONVERGED and gap > tol:
        status = Status.ROUNDED
    intercept = xp.zeros_like(found.coef[:, 0])
    if frame.fit_intercept:
        intercept = found.coef[:, L.shape[1]]
    return multipliers, duals, intercept, objective, gap, status, n_iter


def _spanned(problem: Problem, frame: Frame, coef: Array, duals: Array) -> tuple[float, float]:
    """Objective and relative gap of the function that duals span, with these intercepts."""
    xp, rank = array_namespace(coef), problem.design.n_features
    slopes = -problem.design.gradient(problem.weight[:, None] * duals)[:, :rank] / frame.penalty
    scores = problem.design.scores(xp.concat([slopes, coef[:, rank:]], axis=1))
    distance = problem.margins.fenchel_young(problem.loss, scores, duals)
    loss = problem.loss.value(problem.margins.margin(scores))
    norm = 0.5 * frame.penalty * float(xp.sum(slopes * slopes))
    objective = float(xp.sum(problem.weight * loss)) + norm
    return objective, float(xp.sum(problem.weight * distance)) / objective


def _features(kernel: Kernel, X: Array) -> Array:
    xp = array_namespace(X)
    K = xp.astype(X, xp.float64) if kernel.name == "precomputed" else kernel(X, X)
    values, vectors = xp.linalg.eigh(0.5 * (K + K.T))
    largest = float(xp.max(xp.abs(values)))
    least = float(xp.min(values))
    if least < -_INDEFINITE * largest:
        raise indefinite(f"it has an eigenvalue of {least:.2e}, the largest being {largest:.2e}")
    kept = xp.nonzero(values > _RANK * X.shape[0] * largest)[0]
    if kept.shape[0] == 0:  # a kernel of nothing but zeros
        return xp.zeros_like(K[:, :1])
    return xp.take(vectors, kept, axis=1) * xp.sqrt(xp.take(values, kept))


def _census(mass: list[float], n_rows: int) -> tuple[Array, Array, Array, Array]:
    """Classes, counts, masses and factors of rows whose weights are all that is known."""
    K = len(mass)
    return np.arange(K), np.full(K, -(-n_rows // K)), np.array(mass), np.ones(K)
