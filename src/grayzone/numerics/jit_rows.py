"""Scores of many dense rows, and sums of rows, compiled: one pass over X on all threads.

NumPy would ask for the interpreter's lock on each thread, and make a copy in double precision of
rows in single precision. Nothing imports this module until many rows are fitted.
"""

from __future__ import annotations

from typing import Any

from grayzone.numerics.compiled import loop

Array = Any

# Sums of products may be in any order: that is what lets several be formed at once.
_ANY_ORDER = {"contract", "reassoc"}


@loop(fastmath=_ANY_ORDER)
def scores(X: Array, coef: Array, out: Array, start: int, stop: int) -> None:
    """Set scores (n, Q) of rows start to stop of X (n, d), intercepts last in coef (Q, d + 1)."""
    d = X.shape[1]
    for i in range(start, stop):
        for q in range(coef.shape[0]):
            score = 0.0
            for j in range(d):
                score += X[i, j] * coef[q, j]
            out[i, q] = score + coef[q, d]


@loop(fastmath=_ANY_ORDER)
def pull(X: Array, residual: Array, total: Array, start: int, stop: int) -> None:
    """Add rows start to stop of X (n, d), times their residuals (n, Q), to the total (Q, d + 1).

    The last of them are sums of the residuals.
    """
    d = X.shape[1]
    for q in range(total.shape[0]):
        into = total[q]
        for i in range(start, stop):  # one after the other, as memory is read ahead of one place
            r = residual[i, q]
            for j in range(d):
                into[j] += r * X[i, j]
            into[d] += r


@loop()
def taken(X: Array, rows: Array, out: Array, start: int, stop: int) -> None:
    """Set rows start to stop of out to these rows of X, which are valid places."""
    for k in range(start, stop):
        i = rows[k]
        for j in range(X.shape[1]):
            out[k, j] = X[i, j]
