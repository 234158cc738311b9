r"""The constant that leaves all rows of a class on the hinge, and the multipliers that prove it.

Where the class priors lie outside the zone, a constant on its edge may be the best of all functions
(see :mod:`grayzone.solvers.truncated.constant`): if there are multipliers of the pinned rows,
0 <= b_i <= s, whose pull on every coefficient is that of the other class. They are sought as
b_i = clip(v'x_i, 0, s): the gradient of the convex function

    sum_i w_i Q(v'x_i) - m'v,   Q(t) = t^2 / 2 on [0, s] and linear beyond,

is what is left of the pull, and Newton's method on it reads the rows once a step. An interior point
would carry all rows of the class along.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.linalg import descend, factorise
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers.problem import Problem

Array = Any

_MOST_STEPS = 15
_ACCURATE = 1e-3  # part of the tolerance that is left to the pull


class Pinned(NamedTuple):
    """A constant, its margins, multipliers of all rows, and which of them are pinned."""

    coef: Array
    scores: Array
    u: Array
    multipliers: Array
    rows: Array


def pinned_sign(problem: Problem, u: Array, spread: float) -> float:
    """Sign of the class that the best constant leaves on its hinge; 0 where there is none.

    Also 0 where the margins u of its rows, at a first guess, have a larger standard deviation.
    """
    loss, margins = problem.loss, problem.margins
    if not (isinstance(margins, SignedMargin) and problem.design.fit_intercept):
        return 0.0
    highest = loss.ends[1]
    if highest == -inf:  # there is no hinge
        return 0.0
    log_odds = float(problem.prior_coef()[0, -1])
    if abs(log_odds) < -highest:
        return 0.0
    for sign in (-1.0, 1.0):
        own = margins.y == sign
        floors = loss.floor[own]
        if floors.size and np.all(floors == floors[0]) and -sign * log_odds <= floors[0]:
            return sign if float(np.std(u[own])) < spread else 0.0
    return 0.0


def pinned_constant(problem: Problem, sign: float, tol: float) -> Pinned | None:
    """Find the constant and its multipliers; None where some function seems to be better."""
    try:
        return _sought(problem, sign, tol)
    except FloatingPointError:  # no row is left between its bounds
        return None


def _sought(problem: Problem, sign: float, tol: float) -> Pinned | None:
    w, design, loss = problem.weight, problem.design, problem.loss
    assert isinstance(problem.margins, SignedMargin)
    pinned = problem.margins.y == sign
    floor = float(loss.floor[pinned][0])
    coef = np.zeros((1, design.n_coef))
    coef[0, -1] = -sign * floor
    scores = design.scores(coef)
    u = np.where(pinned, floor, problem.margins.margin(scores))
    others = np.where(pinned, 0.0, loss.slope(u))
    pull = sign * problem.gradient(scores, others)  # m
    mass, s = w * pinned, float(loss.slope_at_floor[pinned][0])
    goal = _ACCURATE * tol * problem.primal(coef, u, scores)
    v = np.zeros_like(coef)
    v[0, -1] = float(w @ others) / float(np.sum(mass))
    t = design.scores(v)[:, 0]
    value = _value(mass, s, t) - float(np.sum(pull * v))
    for _ in range(_MOST_STEPS):
        b = np.clip(t, 0.0, s)
        inside = mass * ((t > 0.0) & (t < s))
        grams, spanned = design.gram(inside[:, None], (mass * b)[:, None])
        left = spanned - pull
        if 0.5 * float(np.sum(left * left)) / problem.penalty <= goal:
            return Pinned(coef, scores, u, others + pinned * b, np.flatnonzero(pinned))
        step = -factorise(grams[0])(left.ravel()).reshape(v.shape)
        moved = design.scores(step)[:, 0]
        slope = float(np.sum(left * step))
        along = partial(
            _along, mass, s, t, moved, float(np.sum(pull * v)), float(np.sum(pull * step))
        )
        length, value = descend(along, slope, value)
        if length == 0.0:
            break
        v, t = v + length * step, t + length * moved
    return None


def _value(mass: Array, s: float, t: Array) -> float:
    b = np.clip(t, 0.0, s)
    return float(mass @ (b * (t - 0.5 * b)))


def _along(
    mass: Array, s: float, t: Array, moved: Array, pulled: float, pulling: float, length: float
) -> float:
    return _value(mass, s, t + length * moved) - pulled - length * pulling
