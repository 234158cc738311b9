"""Elementwise work on policies, compiled: one call a thread for a whole pass.

NumPy would take the interpreter's lock for each of its dozen steps, for which threads queue; one
exponential serves both of two actions here, and sums over few actions take no call. Nothing imports
this module until many rows are fitted. Every function works on the rows start to stop, and releases
the interpreter lock.
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


@loop(error_model="numpy")
def softmax_proba(F: Array, out: Array, start: int, stop: int) -> None:
    """Set the probabilities (n, A) of several actions by their scores (n, A)."""
    n_actions = F.shape[1]
    for i in range(start, stop):
        top, total = F[i, 0], 0.0
        for k in range(1, n_actions):
            top = max(top, F[i, k])
        for k in range(n_actions):
            e = exp(F[i, k] - top)
            out[i, k] = e
            total += e
        for k in range(n_actions):
            out[i, k] /= total


@loop(error_model="numpy")
def softmax_losses(F: Array, q: Array, start: int, stop: int) -> float:
    """Sum the log-losses of rows with target weights q (n, A): of terms that are all positive."""
    total, n_actions = 0.0, F.shape[1]
    for a in range(start, stop, _CHUNK):
        some = 0.0
        for i in range(a, min(stop, a + _CHUNK)):
            best = 0
            for k in range(1, n_actions):
                if F[i, k] > F[i, best]:
                    best = k
            others, weight, below = 0.0, 0.0, 0.0
            for k in range(n_actions):
                distance = F[i, k] - F[i, best]
                others += exp(distance) if k != best else 0.0
                weight += q[i, k]
                below += q[i, k] * distance
            some += weight * log1p(others) - below
        total += some
    return total


@loop(error_model="numpy")
def softmax_pull(p: Array, q: Array, out: Array, start: int, stop: int) -> None:
    """Set the gradient (n, A) of the log-losses in the scores, at probabilities p (n, A)."""
    for i in range(start, stop):
        total = 0.0
        for k in range(p.shape[1]):
            total += q[i, k]
        for k in range(p.shape[1]):
            out[i, k] = total * p[i, k] - q[i, k]


@loop(error_model="numpy")
def softmax_bend(p: Array, q: Array, out: Array, start: int, stop: int) -> None:
    """Set the Hessian weights of the log-losses for pairs of actions (0, 1), (0, 2) and so on."""
    for i in range(start, stop):
        total, pair = 0.0, 0
        for k in range(p.shape[1]):
            total += q[i, k]
        for k in range(p.shape[1]):
            for m in range(k + 1, p.shape[1]):
                out[i, pair] = total * p[i, k] * p[i, m]
                pair += 1
