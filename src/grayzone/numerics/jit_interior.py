"""Directions of an interior point on some thousand rows, compiled: two calls a thread for each.

NumPy would pass over the rows some thirty times, on one thread, and take the interpreter's lock for
each product with them. Nothing imports this module until many rows are fitted. Every function works
on the rows start to stop, and releases the lock.

What is known of rows is one array: slacks p and q, multipliers alpha and beta, their ratios A and
B, the curvature S and the residuals of xi, p and q, in this order (10, n).
"""

from __future__ import annotations

from typing import Any

from numba import njit

Array = Any

# Sums of products may be in any order: that is what lets several be formed at once.
_ANY_ORDER = {"contract", "reassoc"}


@njit(cache=True, nogil=True, error_model="numpy")
def _targets(known: Array, goals: Array, work: Array, k: Array, start: int, stop: int) -> None:
    p, q, alpha, beta, A, B, S, r_xi, r_p, r_q = known
    first, second, rho = work
    for i in range(start, stop):
        x1 = goals[0, i] / p[i] - alpha[i] - A[i] * r_p[i]
        x2 = goals[1, i] / q[i] - beta[i] - B[i] * r_q[i]
        both = x1 + x2 - r_xi[i]
        first[i], second[i], rho[i] = x1, x2, both
        k[i] = x1 - A[i] * both / S[i]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_ANY_ORDER)
def _pulled(X: Array, sign: Array, k: Array, total: Array, start: int, stop: int) -> None:
    d = X.shape[1]
    for i in range(start, stop):
        x, pull = X[i], sign[i] * k[i]
        for j in range(d):
            total[j] += pull * x[j]
        total[d] += pull


@njit(cache=True, nogil=True)
def pull(
    X: Array,
    sign: Array,
    known: Array,
    goals: Array,
    work: Array,
    k: Array,
    total: Array,
    start: int,
    stop: int,
) -> None:
    """Set ``work`` (3, n) for ``push``, and add the pull on the coefficients to ``total`` (p,).

    ``goals`` (2, n) are the products alpha p and beta q that are aimed at.
    """
    _targets(known, goals, work, k, start, stop)
    _pulled(X, sign, k, total, start, stop)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_ANY_ORDER)
def _scored(X: Array, change: Array, scores: Array, start: int, stop: int) -> None:
    d = X.shape[1]
    for i in range(start, stop):
        x, total = X[i], 0.0
        for j in range(d):
            total += x[j] * change[j]
        scores[i] = total + change[d]


@njit(cache=True, nogil=True, error_model="numpy")
def _moved(sign: Array, known: Array, work: Array, out: Array, start: int, stop: int) -> None:
    _, _, _, _, A, B, S, _, r_p, r_q = known
    first, second, rho = work
    scores, xi, dp, dq, dalpha, dbeta = out
    for i in range(start, stop):
        du = sign[i] * scores[i]
        up = (rho[i] + A[i] * du) / S[i]
        rise = up - du
        xi[i], dp[i], dq[i] = up, rise + r_p[i], up + r_q[i]
        dalpha[i], dbeta[i] = first[i] - A[i] * rise, second[i] - B[i] * up


@njit(cache=True, nogil=True, error_model="numpy")
def _steepest(known: Array, out: Array, start: int, stop: int) -> float:
    worst = 1.0
    for j in range(4):
        value, change = known[j], out[j + 2]
        for i in range(start, stop):
            # no division where there is no need of one; what is not a number is the worst of all
            if not -change[i] <= worst * value[i]:
                worst = -change[i] / value[i]
    return worst


@njit(cache=True, nogil=True)
def push(
    X: Array,
    sign: Array,
    known: Array,
    work: Array,
    change: Array,
    out: Array,
    start: int,
    stop: int,
) -> float:
    """Set ``out`` (6, n): changes of scores, xi, p, q, alpha and beta by one of the coefficients.

    Returns how many times too long the step is for p, q, alpha or beta to stay positive, or 1.
    """
    _scored(X, change, out[0], start, stop)
    _moved(sign, known, work, out, start, stop)
    return _steepest(known, out, start, stop)
