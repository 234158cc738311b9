"""Fits of the truncated likelihood with an l1 penalty, on rows in NumPy's memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from grayzone.numerics.kernel_design import KernelDesign
from grayzone.numerics.threads import own_threads
from grayzone.solvers.kernel.features import indefinite
from grayzone.solvers.loop import Record, Solution, solve
from grayzone.solvers.sparse.columns import Columns
from grayzone.solvers.sparse.problem import SparseProblem
from grayzone.solvers.sparse.working_set import WorkingSet
from grayzone.solvers.truncated.constant import is_constant
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.sources.labelled import Labelled, Rows

Array = Any

# Entries of a matrix up to which a fit is taken to rounding level, and steps more that do it.
_SMALL, _POLISH = 200_000, 4
# Share of the largest eigenvalue of a kernel matrix that negative ones may have, by rounding.
_DEFINITE = 1e-8


def minimise_sparse(
    labelled: Labelled,
    spec: TruncatedSpec,
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
    callback: Callable[[Record], bool | None] | None = None,
) -> Solution:
    """Minimise the truncated likelihood with an l1 penalty.

    Parameters
    ----------
    labelled : Labelled
        The rows, in NumPy's memory.
    spec : TruncatedSpec
        Losses, penalty, its ``l1_ratio`` and the kernel.
    tol : float
        Relative duality gap asked for.
    max_iter : int
        Most steps.
    start : array of shape (Q, p), optional
        Coefficients to start from.
    callback : callable, optional
        Told of each certificate; a true answer ends the fit.

    Returns
    -------
    solution : Solution
        The best certified point; with a kernel its coefficients are those of the rows.
    """
    rows = labelled.all_held
    whole = spec.problem(rows)
    columns = rows.state("columns", spec.kernel, lambda: _columns(rows, whole.design))
    if spec.l1_ratio < 1.0 and spec.kernel is not None and not spec.kernel.is_definite:
        rows.state("definite", spec.kernel, lambda: _check_definite(columns.X))
    ridge = spec.penalty * (1.0 - spec.l1_ratio)
    problem = SparseProblem(replace(whole, penalty=ridge), columns, spec.penalty * spec.l1_ratio)
    polish = _POLISH if columns.n_rows * columns.n_columns <= _SMALL else 0
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "callback": callback}
    with own_threads():
        solution = solve(problem, WorkingSet(), start=start, polish=polish, **options)
        solution = _no_worse(problem, solution, start, tol)
    return replace(solution, constant=is_constant(labelled, spec, solution))


def _columns(rows: Rows, design: Any) -> Columns:
    """Columns of X, or all kernel values where they fit."""
    if not isinstance(design, KernelDesign):
        return Columns.of(rows.X)
    needed = 8.0 * design.n_rows**2
    if needed > design.budget:
        raise ValueError(
            f"An l1 penalty on the terms of a kernel's expansion keeps the kernel values of all "
            f"pairs of {design.n_rows:,} rows, {needed / 2**20:,.0f} megabytes; cache_size is "
            f"{design.budget / 2**20:,.0f}. Raise it, take a sample of the rows, or penalty='l2'."
        )
    values = design.inner_with(design.data(), np.arange(design.n_features))
    return Columns.of(values, kernel=True)


def _check_definite(K: Array) -> bool:
    """Check that a squared norm is one."""
    least, most = np.linalg.eigvalsh(K)[[0, -1]]
    if least < -_DEFINITE * most:
        raise indefinite(f"its smallest eigenvalue is {least:.2e}, its largest {most:.2e}")
    return True


def _no_worse(
    problem: SparseProblem, solution: Solution, start: Array | None, tol: float
) -> Solution:
    """Return the solution or, where it is not precise, the start or the constant if better."""
    if solution.certificate.relative <= tol:
        return solution
    for coef in (start, None):
        before = WorkingSet().init(problem, coef)
        point = before.certified(problem, tol, last=True)
        assert point is not None
        if not point.certificate.primal >= solution.certificate.primal:
            parts = point.coef, point.certificate, point.scores, point.multipliers
            named = dict(zip(("coef", "certificate", "scores", "multipliers"), parts, strict=True))
            solution = replace(solution, **named)
    return solution
