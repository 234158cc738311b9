"""Readings of many rows whose columns NumPy holds: one compiled call a thread, for two classes."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.margins import SignedMargin
from grayzone.numerics.threads import LOOPS, edges
from grayzone.solvers.problem import Problem

Array = Any

# Of a fifth of a millisecond: multiply-adds of a Gram matrix, entries that are read once, and rows
# whose losses are computed.
_MULTIPLY_ADDS, _READ, _LOSSES = 3_500_000, 500_000, 24_000


class SecondOrder(NamedTuple):
    """Losses and their first two derivatives: in the coefficients, and of each row in its score."""

    loss: float
    hessian: Array  # (p, p)
    gradient: Array  # (1, p)
    residual: Array  # (n, 1)
    weights: Array  # (n, 1)


def second_order(problem: Problem, coef: Array) -> SecondOrder | None:
    """Read logistic losses at coefficients (1, p); None where a loss is beyond all numbers."""
    from grayzone.numerics import jit_readings  # compiles, so only when needed

    columns, y, weight = _held(problem)
    n, p = weight.shape[0], coef.shape[1]
    residual, omega = np.empty(n), np.empty(n)
    threads = n * p * p / _MULTIPLY_ADDS + n * p / _READ + n / _LOSSES
    parts = edges(n, threads=threads, kind=LOOPS)
    whole, given = np.ascontiguousarray(coef[0]), (y, weight, omega, residual, parts)
    loss, hessian, gradient = jit_readings.second_order(columns, whole, *given)
    if not isfinite(loss):
        return None
    return SecondOrder(loss, hessian, gradient[None], residual[:, None], omega[:, None])


def losses_of_trials(problem: Problem, coefs: Array, own: Array, steps: Array) -> Array:
    """Losses (t,) at functions of coefficients (t, p), with columns (n, t) of steps (t,) beside."""
    from grayzone.numerics import jit_readings

    columns, y, weight = _held(problem)
    n, (t, p) = weight.shape[0], coefs.shape
    given: list[Any] = [columns, *_whole(coefs, own.T, steps), y, weight]
    threads = t * (n * p / _READ + n / _LOSSES)
    given.append(edges(n, threads=threads, kind=LOOPS))
    return jit_readings.losses_of_trials(*given)


def _held(problem: Problem) -> list[Array]:
    """Columns (q, n), signs of the classes and weights."""
    assert isinstance(problem.margins, SignedMargin)
    return _whole(problem.design.X.T, problem.margins.y, problem.weight)


def _whole(*arrays: Array) -> list[Array]:
    """Arrays as compiled loops want them: next to never a copy."""
    return [np.ascontiguousarray(a) for a in arrays]
