"""Logistic losses of many rows that have columns, and derivatives, compiled: one call a thread.

NumPy would pass over the rows some thirty times for one reading, most of it on one thread, and take
the interpreter's lock at each block of the Gram matrix. Its product is SciPy's ``dsyrk``. Nothing
imports this module until points are chosen for many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grayzone.numerics.columns import sum_of_parts
from grayzone.numerics.compiled import clear, loop, part
from grayzone.numerics.jit_exponential import exponential, log_of_one_and
from grayzone.numerics.jit_gram import dsyrk
from grayzone.numerics.team import share, sums
from grayzone.numerics.threads import longest

Array = Any

# Numbers of a block, and its rows at most: columns and their scaled copy stay in the cache.
_VALUES, _ROWS = 2**15, 1024
_LOWER, _TURNED = (np.array([ord(letter)], dtype=np.uint8) for letter in "LT")
_ONCE = np.ones(1)
_REORDERED = {"reassoc", "contract"}  # what is not a number stays so


@part(fastmath={"contract"})
def _margins(
    columns: Array, coef: Array, y: Array, start: int, stop: int, u: Array, e: Array
) -> None:
    """Set u to the margins of rows start to stop, and e to exp(-|u|).

    ``u`` is given with what scores have beside the columns' part.
    """
    for j in range(columns.shape[0]):
        factor, column = coef[j], columns[j, start:stop]
        for k in range(column.shape[0]):
            u[k] += factor * column[k]
    for k in range(stop - start):
        u[k] *= -y[start + k]
        e[k] = exponential(-abs(u[k]))


@part(fastmath=_REORDERED, error_model="numpy")
def _loss(u: Array, e: Array, weight: Array) -> float:
    """Sum of weighted losses log(1 + exp(u)), where e is exp(-|u|)."""
    total = 0.0
    for k in range(u.shape[0]):
        # half and half: a maximum would make a number of what is none
        total += weight[k] * (0.5 * u[k] + 0.5 * abs(u[k]) + log_of_one_and(e[k]))
    return total


@part(fastmath={"contract"}, error_model="numpy")
def _derivatives(
    u: Array, e: Array, weight: Array, y: Array, omega: Array, residual: Array, root: Array
) -> None:
    """Set weighted curvatures, their roots, and the gradient of losses in the scores."""
    for k in range(u.shape[0]):
        share = 1.0 / (1.0 + e[k])
        w = weight[k] * share
        omega[k] = w * (e[k] * share)
        residual[k] = -y[k] * (w if u[k] >= 0.0 else w * e[k])
    for k in range(u.shape[0]):
        root[k] = np.sqrt(omega[k])


@part(fastmath=_REORDERED)
def _scaled(column: Array, root: Array, residual: Array, into: Array) -> float:
    """Set a column times roots, and return its product with residuals."""
    total = 0.0
    for k in range(column.shape[0]):
        into[k] = root[k] * column[k]
        total += residual[k] * column[k]
    return total


@part()
def _add_gram(block: Array, size: int, total: Array) -> None:
    """Add the products of the rows of a block, up to ``size``: the triangle on the upper right."""
    sizes = np.empty((3, 1), dtype=np.int32)
    sizes[0, 0], sizes[1, 0], sizes[2, 0] = total.shape[0], size, block.shape[1]
    high = sizes[0].ctypes
    # in Fortran's eyes: total += block' block
    dsyrk(
        _LOWER.ctypes,
        _TURNED.ctypes,
        high,
        sizes[1].ctypes,
        _ONCE.ctypes,
        block.ctypes,
        sizes[2].ctypes,
        _ONCE.ctypes,
        total.ctypes,
        high,
    )


@loop()
def _read(
    columns: Array,
    coef: Array,
    y: Array,
    weight: Array,
    omega: Array,
    residual: Array,
    block: Array,
    work: Array,
    total: Array,
    pulled: Array,
    start: int,
    stop: int,
) -> float:
    q, p, step, loss = columns.shape[0], total.shape[0], block.shape[1], 0.0
    clear(total)
    for a in range(start, stop, step):
        b = min(stop, a + step)
        n = b - a
        u, e, root = work[0, :n], work[1, :n], work[2, :n]
        for k in range(n):
            u[k] = coef[q] if p > q else 0.0
        _margins(columns, coef, y, a, b, u, e)
        loss += _loss(u, e, weight[a:b])
        _derivatives(u, e, weight[a:b], y[a:b], omega[a:b], residual[a:b], root)
        for j in range(q):
            pulled[j] += _scaled(columns[j, a:b], root, residual[a:b], block[j])
        if p > q:
            for k in range(n):
                block[q, k] = root[k]
                pulled[q] += residual[a + k]
        _add_gram(block, n, total)
    for i in range(p):
        for j in range(i):
            total[i, j] = total[j, i]
    return loss


def second_order(
    columns: Array,
    coef: Array,
    y: Array,
    weight: Array,
    omega: Array,
    residual: Array,
    edges: Sequence[int],
) -> tuple[float, Array, Array]:
    """Return the losses of rows, and their first two derivatives.

    Parameters
    ----------
    columns : ndarray of shape (q, n)
        What scores are linear in, C-contiguous.
    coef : ndarray of shape (p,)
        Coefficients of the columns, then the intercept where p is q + 1.
    y, weight : ndarray of shape (n,)
        Classes, -1 and 1, and weights of the rows.
    omega, residual : ndarray of shape (n,)
        What is set: weighted curvatures of the rows' losses, and their slopes in the scores.
    edges : sequence of int
        Where parts of the rows begin and end, one for each thread.

    Returns
    -------
    loss : float
        The sum; where it is not finite, derivatives need not be what they were.
    hessian : ndarray of shape (p, p)
    gradient : ndarray of shape (p,)
    """
    k, p = len(edges) - 1, coef.shape[0]
    step = min(_ROWS, _VALUES // p + 1, max(1, longest(edges)))
    block, work = np.empty((k, p, step)), np.empty((k, 3, step))
    hessians, pulled = np.empty((k, p, p)), sums(k, p)
    given = columns, coef, y, weight, omega, residual
    losses = share(_read, given, (block, work, hessians, pulled), edges)
    return float(sum(losses)), sum_of_parts(hessians), pulled.sum(axis=0)


@loop()
def _try(
    columns: Array,
    coefs: Array,
    own: Array,
    steps: Array,
    y: Array,
    weight: Array,
    work: Array,
    losses: Array,
    start: int,
    stop: int,
) -> None:
    q, step = columns.shape[0], work.shape[1]
    for a in range(start, stop, step):
        b = min(stop, a + step)
        n = b - a
        u, e = work[0, :n], work[1, :n]
        for i in range(coefs.shape[0]):
            beside, column = coefs[i, q] if coefs.shape[1] > q else 0.0, own[i, a:b]
            for k in range(n):
                u[k] = beside + steps[i] * column[k]
            _margins(columns, coefs[i], y, a, b, u, e)
            losses[i] += _loss(u, e, weight[a:b])


def losses_of_trials(
    columns: Array,
    coefs: Array,
    own: Array,
    steps: Array,
    y: Array,
    weight: Array,
    edges: Sequence[int],
) -> Array:
    """Return the losses (t,) of rows at several functions.

    Parameters
    ----------
    columns : ndarray of shape (q, n)
        What scores are linear in, C-contiguous.
    coefs : ndarray of shape (t, p)
        Coefficients of the columns, then the intercept where p is q + 1.
    own : ndarray of shape (t, n)
        A further column of each function, C-contiguous.
    steps : ndarray of shape (t,)
        Its coefficient.
    y, weight : ndarray of shape (n,)
        Classes, -1 and 1, and weights of the rows.
    edges : sequence of int
        Where parts of the rows begin and end, one for each thread.
    """
    k = len(edges) - 1
    step = min(_ROWS, _VALUES // max(1, columns.shape[0]) + 1, max(1, longest(edges)))
    losses, work = sums(k, coefs.shape[0]), np.empty((k, 2, step))
    given = columns, coefs, own, steps, y, weight
    share(_try, given, (work, losses), edges)
    return losses.sum(axis=0)
