"""Features of many centres: conjugate gradients, from few centres to all.

Features of the first centres are the first features, so that a fit to few of them is a start for
more at a small part of the price. Hessians are dear there, and products with the features are
cheap: one of these serves for many steps (:mod:`grayzone.solvers.truncated.side_by_side`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.numerics.centred_design import CentredDesign
from grayzone.numerics.designs import Design
from grayzone.numerics.margins import SignedMargin
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.certificate import State
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.side_by_side import SideBySide

Array = Any

_LEVELS, _LEAST = (16, 4), 200  # parts of the centres to start from, and how many pay
_ROUGHLY, _MOST = 1e-3, 30  # gap and steps of these
_ONE = np.ones(1, dtype=bool)


def suits_conjugate(problem: Problem) -> bool:
    """Whether a problem is smooth, and one of a score that is linear in features of centres."""
    xp = array_namespace(problem.weight)
    smooth = not bool(xp.any(xp.isfinite(problem.loss.floor)))
    return smooth and problem.n_outputs == 1 and isinstance(problem.design, CentredDesign)


def start_from_few(problem: Problem) -> Array:
    """Coefficients (1, p) of a fit to some of the centres."""
    design = problem.design
    assert isinstance(design, CentredDesign)
    m = design.n_features
    coef = _beside(problem, design).prior()
    for k in (m // level for level in _LEVELS if m // level >= _LEAST):
        fits = _beside(problem, design.of_first(k))
        found = fits.fit(_of_first(coef, k, m), problem.penalty, _ROUGHLY, _MOST)
        coef = _of_all(found.point.coef, k, m)
    return coef


def _of_first(coef: Array, k: int, m: int) -> Array:
    """Coefficients of the first k features, with the intercept if there is one."""
    return array_namespace(coef).concat([coef[:, :k], coef[:, m:]], axis=1)


def _of_all(coef: Array, k: int, m: int) -> Array:
    """The same of all features, zero for the others."""
    xp = array_namespace(coef)
    rest = xp.zeros_like(xp.broadcast_to(coef[:, :1], (1, m - k)))
    return xp.concat([coef[:, :k], rest, coef[:, k:]], axis=1)


def _beside(problem: Problem, design: Design) -> SideBySide:
    """The problem as one column."""
    assert isinstance(problem.margins, SignedMargin)
    return SideBySide(design, problem.margins.y, problem.weight[:, None])


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
