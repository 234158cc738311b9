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
_MIN_ROWS = 800  # fewer rows are solved outright
_WIDTH = 0.1  # of the rounded kinks
_ENOUGH = 0.3  # decrease promised by the last step, per coefficient


def coarse_start(problem: Problem, seed: int) -> Array | None:
    """Solve a stratified part of the rows, recursively; None where it would be too small.

    The optima of the part and of the whole differ by about half the number of coefficients, in
    units of the loss: nothing is gained by a better solution of the part, nor by sharp kinks.
    """
    rows = _stratified(problem, seed)
    if rows is None:
        return None
    share = float(np.sum(problem.weight[rows]) / np.sum(problem.weight))
    part = problem.take(rows, penalty=problem.penalty * share)
    coef = coarse_start(part, seed + 1)
    if coef is None:
        coef = part.prior_coef()
    penalty = Quadratic(np.diag(part.ridge()), part.shrinkage(coef))
    smooth = replace(part, loss=SmoothedLogistic(part.loss, _WIDTH))
    tol = _ENOUGH * coef.size
    return coef + smooth_newton(smooth, penalty, part.design.scores(coef), tol=tol).change


def _stratified(problem: Problem, seed: int) -> Array | None:
    """Every k-th row of each class; None when these would be too few."""
    codes = problem.margins.codes
    counts = np.bincount(codes)
    every = _LARGE_PART if codes.size >= _PLENTY * _LARGE_PART else _PART
    enough = max(_MIN_ROWS, 20 * problem.design.n_coef)
    if codes.size // every < enough or counts.min() < 20 * every:
        return None
    first = int(np.random.default_rng(seed).integers(every))
    chosen = np.zeros(codes.size, dtype=bool)
    for code in range(counts.size):
        chosen[np.flatnonzero(codes == code)[first::every]] = True
    return np.flatnonzero(chosen)
