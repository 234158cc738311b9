"""Features of many centres: conjugate gradients, from few centres to all.

Features of the first centres are the first features, so that a fit to few of them is a start for
more at a small part of the price. Hessians are dear there, and products with the features are
cheap: one of these serves for many steps (:mod:`grayzone.solvers.truncated.side_by_side`).

Losses with a kink are rounded off, at first widely and then less: that leads so near to the optimum
that few rows are left to be treated exactly (:mod:`grayzone.solvers.truncated.streamed`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.numerics.centred_design import CentredDesign
from grayzone.numerics.designs import Design
from grayzone.numerics.losses import SmoothedLogistic, TruncatedLogistic
from grayzone.numerics.margins import SignedMargin
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.certificate import State
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.side_by_side import SideBySide

Array = Any

_LEVELS, _LEAST = (16, 4), 200  # parts of the centres to start from, and how many pay
_ROUGHLY, _MOST = 1e-2, 30  # what their last steps may promise, and how many there are
# Half-widths of rounded kinks, and what the last step with each may promise.
_WIDTHS, _SHARES = (0.1, 0.03), (1e-3, 1e-5)
_ONE = np.ones(1, dtype=bool)


def suits_conjugate(problem: Problem) -> bool:
    """Whether a problem is smooth, and one of a score that is linear in features of centres."""
    xp = array_namespace(problem.weight)
    smooth = not bool(xp.any(xp.isfinite(problem.loss.floor)))
    return smooth and problem.n_outputs == 1 and isinstance(problem.design, CentredDesign)


def start_from_few(problem: Problem, width: float | None = None) -> Array:
    """Coefficients (1, p) of a fit to some of the centres, of kinks rounded off on some width."""
    design = problem.design
    assert isinstance(design, CentredDesign)
    m = design.n_features
    coef = _beside(problem, design, width).prior()
    for k in (m // level for level in _LEVELS if m // level >= _LEAST):
        fits = _beside(problem, design.of_first(k), width)
        coef = _of_all(_roughly(fits, _of_first(coef, k, m), problem.penalty, _ROUGHLY), k, m)
    return coef


def start_from_rounded(problem: Problem, start: Array | None = None) -> Array:
    """Coefficients (1, p) of a fit to all centres whose kinks are rounded off, less and less."""
    coef = start_from_few(problem, _WIDTHS[0]) if start is None else start
    for width, share in zip(_WIDTHS, _SHARES, strict=True):
        if start is None or width == _WIDTHS[-1]:
            fits = _beside(problem, problem.design, width)
            coef = _roughly(fits, coef, problem.penalty, share)
    return coef


def _roughly(fits: SideBySide, coef: Array, penalty: float, share: float) -> Array:
    """Coefficients after steps until one of them promises no more than a share of the objective."""
    fits.begin(coef, penalty)
    for _ in range(_MOST):
        fits.advance(_ONE, 0.0)
        if float(fits.promised()[0]) <= share:
            break
    return fits.point.coef


def _of_first(coef: Array, k: int, m: int) -> Array:
    """Coefficients of the first k features, with the intercept if there is one."""
    return array_namespace(coef).concat([coef[:, :k], coef[:, m:]], axis=1)


def _of_all(coef: Array, k: int, m: int) -> Array:
    """The same of all features, zero for the others."""
    xp = array_namespace(coef)
    rest = xp.zeros_like(xp.broadcast_to(coef[:, :1], (1, m - k)))
    return xp.concat([coef[:, :k], rest, coef[:, k:]], axis=1)


def _beside(problem: Problem, design: Design, width: float | None = None) -> SideBySide:
    """The problem as one column."""
    assert isinstance(problem.margins, SignedMargin)
    loss = None
    if width is not None:
        loss = SmoothedLogistic(TruncatedLogistic(problem.loss.floor[:, None]), width)
    return SideBySide(design, problem.margins.y, problem.weight[:, None], loss)


class Conjugate:
    """The strategy, for losses without a kink."""

    def init(self, problem: Problem, start: Array | None) -> State:
        """Start from given coefficients, or from those of few centres."""
        fits = _beside(problem, problem.design)
        fits.begin(start_from_few(problem) if start is None else start, problem.penalty)
        return self._state(problem, fits, settled=False)

    def step(self, problem: Problem, state: State, tol: float) -> State:
        """Take one step, after which a certificate is worth its price if little is left to gain."""
        gap = float(state.memory.advance(_ONE, tol)[0])
        return self._state(problem, state.memory, settled=gap <= tol)

    def _state(self, problem: Problem, fits: SideBySide, settled: bool) -> State:
        point = fits.point
        u = problem.margins.margin(point.scores)
        return State(
            point.coef,
            point.scores,
            u,
            problem.loss.slope(u),
            settled=settled,
            value=float(point.values[0]),
            memory=fits,
        )
