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
_RAREST = 20  # rows of a class without which there is no start from a part
_MIN_ROWS = 800  # fewer rows are solved outright
WIDTH = 0.1  # of the rounded kinks
_ENOUGH = 0.3  # decrease promised by the last step, per coefficient


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
    penalty = Quadratic(np.diag(part.ridge()), part.shrinkage(coef))
    smooth = replace(part, loss=SmoothedLogistic(part.loss, WIDTH))
    # few rows of a class explain little, and are all there are of it
    known = np.bincount(part.margins.codes).min() / _least_rows(problem)
    tol = _ENOUGH * coef.size * min(1.0, known) ** 2
    return coef + smooth_newton(smooth, penalty, part.design.scores(coef), tol=tol).change


def _stratified(problem: Problem, seed: int) -> Problem | None:
    """Every k-th row of each class, or more of a rare one; None when these would be too few.

    What a part knows of the optimum it knows from the rows of its rarest class. Where these are
    nearly all there are, they weigh as much as every k-th of them would.
    """
    codes = problem.margins.codes
    counts = np.bincount(codes)
    every = _LARGE_PART if codes.size >= _PLENTY * _LARGE_PART else _PART
    enough = _least_rows(problem)
    if codes.size // every < enough or counts.min() < _RAREST:
        return None
    steps = np.clip(counts // enough, 1, every)
    first = int(np.random.default_rng(seed).integers(every))
    chosen = np.zeros(codes.size, dtype=bool)
    for code, step in enumerate(steps):
        chosen[np.flatnonzero(codes == code)[first % step :: step]] = True
    rows = np.flatnonzero(chosen)
    part = problem.take(rows, penalty=problem.penalty / every)
    return replace(part, weight=part.weight * (steps / every)[codes[rows]])


def _least_rows(problem: Problem) -> int:
    """Rows that a part has at least, of each class where there are as many."""
    return max(_MIN_ROWS, 20 * problem.design.n_coef)
