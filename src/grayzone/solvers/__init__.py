"""Solvers against design x loss: one loop, one certificate, one file each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import qr

from grayzone.numerics.designs import DenseDesign
from grayzone.numerics.kernel_design import KernelDesign
from grayzone.numerics.threads import own_threads
from grayzone.solvers.kernel.features import solve_for_duals, solve_in_features
from grayzone.solvers.loop import Record, Solution, Solver, Status, solve
from grayzone.solvers.problem import Certificate, Problem, State, certify
from grayzone.solvers.truncated.active_set import ActiveSet
from grayzone.solvers.truncated.decomposed import Decomposed
from grayzone.solvers.truncated.interior_point import Quadratic, interior_point
from grayzone.solvers.truncated.primal import MAX_FACTORISED, Primal

__all__ = [
    "ActiveSet",
    "Certificate",
    "Decomposed",
    "Primal",
    "Problem",
    "Quadratic",
    "Record",
    "Solution",
    "Solver",
    "State",
    "Status",
    "certify",
    "choose",
    "interior_point",
    "minimise",
    "solve",
]

Array = Any

# Rows times squared coefficients up to which a fit is taken to rounding level: milliseconds.
_SMALL = 5_000_000
# Rows up to which a kernel fit of two classes is taken to rounding level.
_SMALL_KERNEL = 250


def choose(name: str, problem: Problem, seed: int = 0) -> Solver:
    """Give the solver of that name; "auto" by the number of coefficients."""
    if name == "active-set":
        return ActiveSet()
    fits = problem.n_outputs * problem.design.n_coef <= MAX_FACTORISED
    return Decomposed(seed) if name == "auto" and fits else Primal()


def minimise(
    problem: Problem,
    name: str,
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
    seed: int = 0,
    callback: Callable[[Record], bool | None] | None = None,
) -> Solution:
    """Solve with the named solver, in the coordinates that suit the design."""
    design = problem.design
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "callback": callback}
    if isinstance(design, KernelDesign):
        with own_threads():
            return _minimise_with_kernel(problem, design, name, start, seed=seed, **options)
    wide = isinstance(design, DenseDesign) and design.n_rows < design.n_features
    if wide and name == "auto" and design.n_rows <= MAX_FACTORISED:
        return _minimise_in_row_space(problem, start, seed=seed, **options)
    with own_threads():
        return _minimise_linear(problem, name, start, seed=seed, **options)


def _minimise_linear(
    problem: Problem, name: str, start: Array | None, *, max_iter: int, seed: int, **options: Any
) -> Solution:
    design = problem.design
    size = design.n_rows * (problem.n_outputs * design.n_coef) ** 2
    options["polish"] = 3 if size <= _SMALL else 0
    solver = choose(name, problem, seed)
    found = solve(problem, solver, max_iter=max_iter, start=start, **options)
    left = max_iter - found.n_iter
    if found.status is Status.CONVERGED or not isinstance(solver, Decomposed) or left < 1:
        return found
    # slower and sure: smoothed Newton steps, each of them downhill
    again = solve(problem, Primal(), max_iter=left, start=found.coef, **options)
    best = min(found, again, key=lambda solution: solution.certificate.gap)
    return replace(best, n_iter=found.n_iter + again.n_iter)


def _minimise_with_kernel(
    problem: Problem,
    design: KernelDesign,
    name: str,
    start: Array | None,
    *,
    seed: int,
    **options: Any,
) -> Solution:
    """Block descent for two classes; else features of the kernel, or products with it if many."""
    if name == "active-set":
        return solve(problem, ActiveSet(), start=start, **options)

    def linear(part: Problem, start: Array | None, tol: float) -> Solution:
        return _minimise_linear(part, name, start, seed=seed, **{**options, "tol": tol})

    n_rows, few = design.n_rows, MAX_FACTORISED
    if name == "auto" and problem.n_outputs == 1:
        few = _SMALL_KERNEL
    if problem.n_outputs * (n_rows + 1) <= few:
        return solve_in_features(problem, linear, start, options["tol"])
    if name == "auto" and problem.n_outputs == 1:
        from grayzone.solvers.kernel.block_descent import (
            BlockDescent,  # compiles, so only when needed
        )

        solver = BlockDescent(linear, options["callback"])
        return solve(problem, solver, start=start, **options)
    kept = replace(problem, design=design.keeping())

    def by_products(start: Array | None, tol: float) -> Solution:
        return solve(kept, Primal(), start=start, **{**options, "tol": tol})

    return solve_for_duals(kept, by_products, start, options["tol"])


def _minimise_in_row_space(problem: Problem, start: Array | None, **options: Any) -> Solution:
    """Solve wide data in n coordinates: the optimum lies in the span of the rows, X' = QR."""
    design = problem.design
    d = design.n_features
    basis, triangle = qr(np.asarray(design.X, dtype=np.float64).T, mode="economic")
    rotated = DenseDesign(np.ascontiguousarray(triangle.T), design.fit_intercept)
    if start is not None:
        start = np.concatenate([start[:, :d] @ basis, start[:, d:]], axis=1)
    found = minimise(replace(problem, design=rotated), "auto", start=start, **options)
    r = rotated.n_features
    coef = np.concatenate([found.coef[:, :r] @ basis.T, found.coef[:, r:]], axis=1)
    scores = design.scores(coef)
    certificate = certify(problem, coef, scores, found.multipliers)
    return replace(found, coef=coef, scores=scores, certificate=certificate)
