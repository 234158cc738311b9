"""Elementwise work on policies of two actions, compiled: one call a thread for a whole pass.

NumPy would take the interpreter's lock for each of its dozen steps, for which threads queue; and
one exponential serves both actions here. Nothing imports this module until many rows are fitted.
Every function works on the rows start to stop, and releases the interpreter lock.
"""

from __future__ import annotations

from math import exp, log1p
from typing import Any

from grayzone.numerics.compiled import loop

Array = Any

_CHUNK = 256  # rows that are added up before their sum is: errors of long sums stay small


@loop(error_model="numpy")
def proba(F: Array, out: Array, start: int, stop: int) -> None:
    """Set the probabilities (n, 2) of actions by the log-odds (n, 1) of the second."""
    for i in range(start, stop):
        f = F[i, 0]
        e = exp(-abs(f))
        likely, other = 1.0 / (1.0 + e), e / (1.0 + e)
        out[i, 0] = other if f > 0.0 else likely
        out[i, 1] = likely if f >= 0.0 else other


@loop(error_model="numpy")
def losses(F: Array, q: Array, start: int, stop: int) -> float:
    """Sum the log-losses of rows with target weights q (n, 2)."""
    total = 0.0
    for a in range(start, stop, _CHUNK):
        some = 0.0
        for i in range(a, min(stop, a + _CHUNK)):
            f = F[i, 0]
            least = log1p(exp(-abs(f)))
            some += q[i, 1] * (max(-f, 0.0) + least) + q[i, 0] * (max(f, 0.0) + least)
        total += some
    return total


@loop(error_model="numpy")
def pull(p: Array, q: Array, out: Array, start: int, stop: int) -> None:
    """Set the gradient (n, 1) of the log-losses in the scores, at probabilities p (n, 2)."""
    for i in range(start, stop):
        out[i, 0] = q[i, 0] * p[i, 1] - q[i, 1] * p[i, 0]


@loop(error_model="numpy")
def bend(p: Array, q: Array, out: Array, start: int, stop: int) -> None:
    """Set the Hessian weights (n, 1) of the log-losses."""
    for i in range(start, stop):
        out[i, 0] = (q[i, 0] + q[i, 1]) * p[i, 1] * p[i, 0]
