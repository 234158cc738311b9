"""Which step strategy solves a problem, by what its rows and its functions offer.

========================================  =========================================================
rows in NumPy's memory, linear            :class:`Decomposed`; where there are too many coefficients
                                          for a Hessian :class:`Ascent` for sparse rows of two
                                          classes, else :class:`Primal`
the same, with a kernel                   :class:`BlockDescent` for two classes; features of the
                                          kernel for few rows, else :class:`Primal`
rows on a device, linear; streams         :class:`Streamed`; streams that fit in memory are brought
                                          there instead
rows on a device, with a kernel           :class:`KernelNewton` for two classes, else features
rows as features of few centres           as linear functions; large Hessians are rounded at first
``solver="active-set"`` or ``"primal"``   these, for rows in NumPy's memory
a penalty that is in part an l1 norm      :class:`WorkingSet`, for rows in NumPy's memory
========================================  =========================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
from scipy.linalg import qr

from grayzone.numerics.centred_design import CentredDesign
from grayzone.numerics.columns import ends
from grayzone.numerics.designs import DenseDesign, as_design
from grayzone.numerics.kernel_design import KernelDesign
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.threads import own_threads
from grayzone.solvers.certificate import certify
from grayzone.solvers.kernel.beyond_memory import BeyondMemory, is_beyond_memory
from grayzone.solvers.kernel.device_design import DeviceKernelDesign
from grayzone.solvers.kernel.device_kernel import KernelNewton
from grayzone.solvers.kernel.device_matrix import check_memory
from grayzone.solvers.kernel.features import (
    FEW_COLUMNS,
    factor,
    few_columns,
    solve_for_duals,
    solve_in_features,
)
from grayzone.solvers.loop import Record, Solution, Solver, Status, solve
from grayzone.solvers.problem import Problem
from grayzone.solvers.sparse.solve import minimise_sparse
from grayzone.solvers.truncated import streamed
from grayzone.solvers.truncated.active_set import ActiveSet
from grayzone.solvers.truncated.ascent import Ascent, suits_ascent
from grayzone.solvers.truncated.conjugate import Conjugate, suits_conjugate
from grayzone.solvers.truncated.constant import is_constant, no_worse
from grayzone.solvers.truncated.decomposed import Decomposed
from grayzone.solvers.truncated.primal import MAX_FACTORISED, Primal
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.solvers.truncated.start import is_small, is_tiny
from grayzone.sources.gather import brought_here
from grayzone.sources.labelled import Labelled

Array = Any
Callback = Callable[[Record], bool | None]

# Coefficients of centres up to which Hessians are factorised: products with features are not cheap.
_MANY_CENTRES = 12_000
# Rows up to which a kernel fit of two classes is taken to rounding level.
SMALL_KERNEL = 250
# Steps more that take a small fit to rounding level.
_POLISH = 3
# Steps to a tolerance finer than what is asked for.
_FINER = 20


def minimise(
    labelled: Labelled,
    spec: TruncatedSpec,
    *,
    solver: str = "auto",
    tol: float,
    max_iter: int,
    start: Array | None = None,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """Minimise criterion (8) on rows, wherever they are.

    Parameters
    ----------
    labelled : Labelled
        The rows.
    spec : TruncatedSpec
        Losses, penalty and kernel.
    solver : {"auto", "active-set", "primal"}
        "auto" chooses by what there is; the others are for NumPy's memory.
    tol : float
        Relative duality gap asked for.
    max_iter : int
        Most steps.
    start : array of shape (Q, p), optional
        Coefficients to start from.
    seed : int
        Draws the parts from which large fits start.
    callback : callable, optional
        Told of each certificate; a true answer ends the fit.

    Returns
    -------
    solution : Solution
        The best certified point. What belongs to rows is there where they are in one place.

    See Also
    --------
    minimise_problem : The same for a problem in NumPy's memory.
    solve : One strategy, run by the loop.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers import TruncatedSpec, minimise
    >>> from grayzone.sources import from_batches
    >>> from grayzone.sources.labelled import label
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> rows = label(from_batches(lambda: [(X, y)]))
    >>> spec = TruncatedSpec(np.array([-1.0, -1.0]), penalty=1.0, fit_intercept=True)
    >>> minimise(rows, spec, tol=1e-8, max_iter=50).status.name
    'CONVERGED'
    """
    check_possible(labelled, None if spec.kernel is None else spec.kernel.name, solver)
    options: dict[str, Any] = dict(tol=tol, max_iter=max_iter, start=start, callback=callback)
    if spec.l1_ratio > 0.0:
        return minimise_sparse(labelled, spec, **options)
    rows = at_hand(labelled)
    problem: Any = streamed.StreamedProblem(rows, spec)
    if rows.held is not None and is_numpy_array(rows.held.weight):
        problem = spec.problem(rows.held)
        whole = ends(problem.weight)[0] > 0.0
        by = minimise_problem if whole else _minimise_part
        solution = by(problem, solver, seed=seed, **options)
    elif spec.kernel is None:
        solution = _minimise_mapped(rows, spec, **options)
    else:
        assert rows.held is not None  # as was checked
        problem = spec.problem(rows.held)
        solution = _minimise_on_device(rows, problem, spec, **options)
    left = max_iter - solution.n_iter
    coarse = spec.features is not None and spec.coarse
    if coarse and left > 0 and not _ended(solution, tol):  # rounded Hessians lead no further
        again = {**options, "start": solution.coef, "max_iter": left}
        exact = minimise(rows, spec.exactly, solver=solver, seed=seed, **again)
        return replace(exact, n_iter=solution.n_iter + exact.n_iter)
    if spec.kernel is None and spec.n_outputs > 1:
        solution = _centred(spec, solution)
    solution = no_worse(problem, rows, spec, solution, start=start, tol=tol)
    return replace(solution, constant=is_constant(rows, spec, solution))


def _centred(spec: TruncatedSpec, solution: Solution) -> Solution:
    """Subtract what the functions of all classes have in common, as no loss depends on it.

    The penalty makes it zero at the optimum. What rounding has left of it, next to a penalty that
    is nothing beside the losses, takes digits from the differences between classes.
    """
    xp, found, d = array_namespace(solution.coef), solution.certificate, -int(spec.fit_intercept)
    common = xp.mean(solution.coef, axis=0, keepdims=True)
    unpaid = 0.5 * spec.penalty * spec.n_outputs * float(xp.sum(common[:, : d or None] ** 2))
    if not (isfinite(unpaid) and isfinite(found.primal)):
        return solution
    scores = solution.scores
    if scores is not None:
        scores = scores - xp.mean(scores, axis=1, keepdims=True)
    primal, gap = found.primal - unpaid, max(0.0, found.gap - unpaid)
    certificate = replace(found, primal=primal, gap=gap)
    return replace(solution, coef=solution.coef - common, scores=scores, certificate=certificate)


def _ended(solution: Solution, tol: float) -> bool:
    return solution.certificate.relative <= tol or solution.status is Status.STOPPED


def at_hand(labelled: Labelled) -> Labelled:
    """Return streamed rows as held ones where they fit: one reading is then all there is."""
    size = labelled.n_rows * labelled.n_features
    streams = labelled.held is None and size <= streamed.MOST_HELD
    return brought_here(labelled) if streams else labelled


def check_possible(labelled: Labelled, kernel: Any, solver: str) -> None:
    """Check that there is a strategy for a kernel of that name, or None for linear functions."""
    here = labelled.held is not None and is_numpy_array(labelled.held.weight)
    if solver != "auto" and not here:
        raise ValueError(
            f"solver={solver!r} is for NumPy arrays in memory; use solver='auto' for "
            "arrays of other libraries and for blocks."
        )
    if kernel is not None and labelled.held is None:
        raise ValueError(
            f"kernel={kernel!r} needs all rows at once; blocks are for the linear "
            "kernel, and for others where few rows span the function: give centres, or take "
            "ImportVectorMachine."
        )


# ----------------------------------------------------------------------------------------------
# Streams and devices
# ----------------------------------------------------------------------------------------------


def minimise_streamed(labelled: Labelled, spec: TruncatedSpec, **options: Any) -> Solution:
    """Minimise over linear functions of rows that are reached by sums.

    Parameters
    ----------
    labelled : Labelled
        The rows.
    spec : TruncatedSpec
        Losses and penalty.
    **options : object
        Those of :func:`solve`.

    Returns
    -------
    Solution
        The best certified point. What belongs to rows is given where these are held.

    See Also
    --------
    minimise : The same, wherever rows are.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers import TruncatedSpec, minimise_streamed
    >>> from grayzone.sources import from_batches
    >>> from grayzone.sources.labelled import label
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
    >>> rows = label(from_batches(lambda: [(X, y)]))
    >>> spec = TruncatedSpec(np.array([-1.0, -1.0]), penalty=1.0, fit_intercept=True)
    >>> minimise_streamed(rows, spec, tol=1e-8, max_iter=50).status.name
    'CONVERGED'
    """
    problem = streamed.StreamedProblem(labelled, spec)
    few = labelled.n_rows <= min(problem.most, streamed.EXACT_ROWS)
    # few rows are taken to rounding level: that costs next to nothing
    solution = solve(problem, streamed.Streamed(), polish=_POLISH if few else 0, **options)
    if labelled.held is None:
        return solution
    rows = spec.problem(labelled.held)
    multipliers, duals = solution.streamed.of(rows)
    certificate = replace(solution.certificate, duals=duals)
    return replace(solution, certificate=certificate, multipliers=multipliers)


def _minimise_mapped(labelled: Labelled, spec: TruncatedSpec, **options: Any) -> Solution:
    """Minimise over linear functions, smooth ones of features of centres by conjugate gradients."""
    problem = None if labelled.held is None else spec.problem(labelled.held)
    if problem is not None and suits_conjugate(problem):
        polish = _POLISH if is_small(problem) else 0
        return solve(problem, Conjugate(), polish=polish, **options)
    return minimise_streamed(labelled, spec, **options)


def _minimise_on_device(
    labelled: Labelled, problem: Problem, spec: TruncatedSpec, **options: Any
) -> Solution:
    """Newton steps on the kernel matrix for two classes, features of the kernel for more."""
    assert labelled.held is not None
    if spec.n_outputs == 1:
        beyond = is_beyond_memory(problem)
        return solve(problem, BeyondMemory() if beyond else KernelNewton(), **options)
    design = problem.design
    assert isinstance(design, DeviceKernelDesign)
    check_memory(design.n_rows, problem.weight, matrices=4)
    L = factor(design.values.all(), definite=design.kernel.is_definite)
    linear = replace(labelled, held=replace(labelled.held, X=L, memory={}))
    features = replace(problem, design=as_design(L, spec.fit_intercept))

    def by_features(start: Array | None, tol: float) -> Solution:
        fit = {**options, "start": start, "tol": tol}
        return minimise_streamed(linear, replace(spec, kernel=None), **fit)

    return solve_for_duals(problem, by_features, None, options["tol"], features)


# ----------------------------------------------------------------------------------------------
# NumPy's memory
# ----------------------------------------------------------------------------------------------


def _minimise_part(problem: Problem, solver: str, **options: Any) -> Solution:
    """Solve on the rows that have a weight; what belongs to rows is zero for the others."""
    used = np.flatnonzero(problem.weight > 0)
    n_rows = problem.weight.size
    part = minimise_problem(problem.take(used), solver, **options)

    def scattered(values: Array) -> Array:
        out = np.zeros((n_rows, *values.shape[1:]))
        out[used] = values
        return out

    certificate = replace(part.certificate, duals=scattered(part.certificate.duals))
    multipliers = scattered(part.multipliers)
    return replace(part, certificate=certificate, multipliers=multipliers, scores=None)


def choose(name: str, problem: Problem, seed: int = 0) -> Solver:
    """Return the linear strategy of that name; "auto" goes by the number of coefficients.

    Parameters
    ----------
    name : {"auto", "active-set", "primal"}
        The name.
    problem : Problem
        What is to be minimised.
    seed : int
        Draws the parts from which large fits start.

    Returns
    -------
    Solver
        The strategy.

    See Also
    --------
    solve : Runs it.

    Examples
    --------
    >>> from grayzone.solvers import choose
    >>> type(choose("primal", problem=None)).__name__
    'Primal'
    """
    if name == "active-set":
        return ActiveSet()
    if name == "primal":
        return Primal()
    design, few = problem.design, MAX_FACTORISED
    if isinstance(design, CentredDesign):
        few = _MANY_CENTRES
        if suits_conjugate(problem) and design.has_room:
            return Conjugate()
    if problem.n_outputs * problem.design.n_coef <= few:
        return Decomposed(seed)
    return Ascent(seed) if suits_ascent(problem) else Primal()


def minimise_problem(
    problem: Problem,
    solver: str = "auto",
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """Solve a problem in NumPy's memory, in the coordinates that suit its design.

    Parameters
    ----------
    problem : Problem
        What is to be minimised.
    solver : {"auto", "active-set", "primal"}
        "auto" chooses by what there is.
    tol : float
        Relative duality gap asked for.
    max_iter : int
        Most steps.
    start : array of shape (Q, p), optional
        Coefficients to start from.
    seed : int
        Draws the parts from which large fits start.
    callback : callable, optional
        Told of each certificate; a true answer ends the fit.

    Returns
    -------
    Solution
        The best certified point.

    See Also
    --------
    minimise : The same for rows anywhere.
    solve : One strategy, run by the loop.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.designs import as_design
    >>> from grayzone.numerics.losses import TruncatedLogistic
    >>> from grayzone.numerics.margins import SignedMargin
    >>> from grayzone.solvers import Problem, minimise_problem
    >>> X, sign = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.0, 1.0])
    >>> loss = TruncatedLogistic(np.full(4, -1.0))
    >>> problem = Problem(as_design(X), SignedMargin(sign), loss, np.ones(4), penalty=1.0)
    >>> found = minimise_problem(problem, tol=1e-8, max_iter=50)
    >>> found.status.name
    'CONVERGED'
    """
    design = problem.design
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "callback": callback}
    if isinstance(design, KernelDesign):
        with own_threads():
            return _with_kernel(problem, design, solver, start, seed=seed, **options)
    wide = isinstance(design, DenseDesign) and design.n_rows < design.n_features
    if wide and solver == "auto" and design.n_rows <= MAX_FACTORISED:
        return _in_row_space(problem, start, seed=seed, **options)
    with own_threads():
        return _linear(problem, solver, start, seed=seed, **options)


def _linear(
    problem: Problem, name: str, start: Array | None, *, max_iter: int, seed: int, **options: Any
) -> Solution:
    options["polish"] = _POLISH if is_tiny(problem) else 0
    strategy = choose(name, problem, seed)
    best = solve(problem, strategy, max_iter=max_iter, start=start, **options)
    n_iter = best.n_iter
    for surer in _surer(problem, strategy):
        if best.status in (Status.CONVERGED, Status.STOPPED) or n_iter >= max_iter:
            break
        start = None if isinstance(surer, Decomposed) else best.coef
        again = solve(problem, surer, max_iter=max_iter - n_iter, start=start, **options)
        n_iter += again.n_iter
        best = min(best, again, key=lambda solution: solution.certificate.gap)
    return replace(best, n_iter=n_iter)


def _surer(problem: Problem, strategy: Solver) -> Iterator[Solver]:
    """Slower strategies that are more sure to get there, one after the other."""
    if isinstance(strategy, Decomposed) and problem.n_outputs == 1 and is_small(problem):
        yield Decomposed(at_once=True)
    if isinstance(strategy, Decomposed | Ascent | Conjugate):
        yield Primal()  # each of its steps is downhill


def _with_kernel(
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
        # a tolerance finer than what is asked for is reached in a few steps, or not at all
        most = options["max_iter"] if tol >= options["tol"] else min(_FINER, options["max_iter"])
        return _linear(part, name, start, seed=seed, **{**options, "tol": tol, "max_iter": most})

    few = MAX_FACTORISED
    if name == "auto" and problem.n_outputs == 1:
        few = SMALL_KERNEL
    if problem.n_outputs * (design.n_rows + 1) <= few:
        return solve_in_features(problem, linear, start, options["tol"])
    if name == "auto" and problem.n_outputs == 1:
        return _by_blocks(problem, design, linear, start, **options)
    if name == "auto":
        L = few_columns(design, min(FEW_COLUMNS, few // problem.n_outputs - 1))
        if L is not None:
            return solve_in_features(problem, linear, start, options["tol"], L)
    kept = replace(problem, design=design.keeping())

    def by_products(start: Array | None, tol: float) -> Solution:
        return solve(kept, Primal(), start=start, **{**options, "tol": tol})

    return solve_for_duals(kept, by_products, start, options["tol"])


def _by_blocks(
    problem: Problem,
    design: KernelDesign,
    linear: Callable[[Problem, Array | None, float], Solution],
    start: Array | None,
    **options: Any,
) -> Solution:
    """Block descent; where it ends early, in features of the kernel if these are not too many."""
    # compiles, so only when needed
    from grayzone.solvers.kernel.block_descent import BlockDescent

    strategy, tol = BlockDescent(linear, options["callback"]), options["tol"]
    first = solve(problem, strategy, start=start, **options)
    if first.certificate.relative <= tol or first.status is Status.STOPPED:
        return first
    L = None
    if design.n_rows > MAX_FACTORISED:
        L = few_columns(design, FEW_COLUMNS)
        if L is None:
            return first
    second = solve_in_features(problem, linear, None, tol, L)
    best = min(first, second, key=lambda solution: solution.certificate.gap)
    return replace(best, n_iter=first.n_iter + second.n_iter)


def _in_row_space(problem: Problem, start: Array | None, **options: Any) -> Solution:
    """Solve wide data in n coordinates: the optimum lies in the span of the rows, X' = QR."""
    design = problem.design
    d = design.n_features
    basis, triangle = qr(np.asarray(design.X, dtype=np.float64).T, mode="economic")
    rotated = DenseDesign(np.ascontiguousarray(triangle.T), design.fit_intercept)
    if start is not None:
        start = np.concatenate([start[:, :d] @ basis, start[:, d:]], axis=1)
    inner = minimise_problem(replace(problem, design=rotated), start=start, **options)
    r = rotated.n_features
    coef = np.concatenate([inner.coef[:, :r] @ basis.T, inner.coef[:, r:]], axis=1)
    scores = design.scores(coef)
    certificate = certify(problem, coef, scores, inner.multipliers)
    return replace(inner, coef=coef, scores=scores, certificate=certificate)
