"""Where solvers start when they are given nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from grayzone.numerics.losses import SmoothedLogistic
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.interior_point import Quadratic, smooth_newton

Array = Any

_PART = 5  # rows in a level for one in the level before
_LARGE_PART = 10  # the same where that leaves plenty
_PLENTY = 20_000
_MOST = 0.51  # of the rows that a part has
_RAREST = 20  # rows of a class without which there is no start from a part
_EACH, _FEW_EACH = 20, 5  # rows of a part for each coefficient; few where a Hessian is dear
_MIN_ROWS = 800  # fewer rows are solved outright
WIDTH = 0.1  # of the rounded kinks
_ENOUGH = 0.3  # decrease promised by the last step on a part, per coefficient
_NEARLY = 0.03  # the same on all rows
_SMALL = 5_000_000  # rows times squared coefficients whose Hessian costs next to nothing
_TINY = 200_000  # the same where a step more does, too


def is_small(problem: Problem) -> bool:
    """Whether a Hessian takes no longer than what surrounds it."""
    return _size(problem) <= _SMALL


def is_tiny(problem: Problem) -> bool:
    """Whether a fit goes on to rounding: rows are so few that single ones are seen in a model."""
    few = problem.n_outputs > 1 or problem.design.n_rows < _EACH * problem.design.n_coef
    return _size(problem) <= (_SMALL if few else _TINY)


def _size(problem: Problem) -> int:
    return problem.design.n_rows * (problem.n_outputs * problem.design.n_coef) ** 2


def first_coef(problem: Problem, seed: int) -> Array | None:
    """Solve a part of the rows, or all of them with rounded kinks; None where neither pays.

    Where rows of several classes are so few that all their kinks are cheap, these are better
    treated exactly at once.
    """
    coef = coarse_start(problem, seed)
    if coef is not None:
        if problem.design.exact_is_dear and np.any(np.isfinite(problem.loss.floor)):
            # the fewer rows cross the kink from there, the fewer have to be treated exactly
            return _with_rounded_kinks(problem, coef, _NEARLY * problem.design.n_coef)
        return coef
    if problem.n_outputs > 1 and is_small(problem) and np.any(np.isfinite(problem.loss.floor)):
        return None
    return _with_rounded_kinks(problem, problem.prior_coef(), _NEARLY * problem.design.n_coef)


def closer(problem: Problem, start: Array) -> Array:
    """Go from given coefficients to where rounded kinks lead, if that is any better.

    It is not where they are the optimum already; after a change of C or of the zone it is, and
    saves a step whose kinks are treated exactly.
    """
    if not np.any(np.isfinite(problem.loss.floor)):
        return start
    coef = _with_rounded_kinks(problem, start, _ENOUGH * start.size)
    return coef if problem.value(coef) < problem.value(start) else start


def coarse_start(problem: Problem, seed: int) -> Array | None:
    """Solve a stratified part of the rows, recursively; None where it would be too small.

    The optima of the part and of the whole differ by about half the number of coefficients, in
    units of the loss: nothing is gained by a better solution of the part, nor by sharp kinks.
    """
    part = _stratified(problem, seed)
    if part is None:
        return None
    coef = coarse_start(part, seed + 1)
    if coef is None:
        coef = part.prior_coef()
    # few rows of a class explain little, and are all there are of it
    known = part.margins.counts().min() / _least_rows(problem)
    return _with_rounded_kinks(part, coef, _ENOUGH * coef.size * min(1.0, known) ** 2)


def _with_rounded_kinks(problem: Problem, coef: Array, tol: float) -> Array:
    """Minimise from coefficients until a step promises no more than ``tol``."""
    penalty = Quadratic(np.diag(problem.ridge()), problem.shrinkage(coef))
    smooth = replace(problem, loss=SmoothedLogistic(problem.loss, WIDTH))
    return coef + smooth_newton(smooth, penalty, problem.design.scores(coef), tol=tol).change


def _stratified(problem: Problem, seed: int) -> Problem | None:
    """Every k-th row of each class, or more of a rare one; None when these would be too few.

    What a part knows of the optimum it knows from the rows of its rarest class. Where these are
    nearly all there are, they weigh as much as every k-th of them would. Where that holds for all
    classes, the part would be the whole: None, too, if it had more than half of the rows.
    """
    n, counts = problem.weight.size, problem.margins.counts()
    every = _LARGE_PART if n >= _PLENTY * _LARGE_PART else _PART
    enough = _least_rows(problem)
    if n // every < enough or counts.min() < _RAREST:
        return None
    steps = np.clip(counts // enough, 1, every)
    first = int(np.random.default_rng(seed).integers(every))
    rows = problem.margins.picked(steps, first)
    if rows.size > _MOST * n:
        return None
    margins, loss = problem.margins.take(rows), problem.loss.take(rows)
    weight = problem.weight[rows] * (steps / every)[margins.codes]
    return Problem(problem.design.part(rows), margins, loss, weight, problem.penalty / every)


def _least_rows(problem: Problem) -> int:
    """Rows that a part has at least, of each class where there are as many."""
    each = _FEW_EACH if problem.design.exact_is_dear else _EACH
    return max(_MIN_ROWS, each * problem.design.n_coef)
