"""A quadratic with an l1 penalty, minimised exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.numerics.linalg import factorise

Array = Any

# Rounds of passes and jumps; passes a round; jumps a round, and after how many rounds any number.
_ROUNDS, _PASSES, _JUMPS, _PLAIN = 12, 5, 4, 4


def minimise_quadratic(H: Array, gradient: Array, at: Array, l1: Array, tol: float) -> Array:
    """Minimise gradient'(a - at) + (a - at)'H(a - at) / 2 + sum of l1 |a|.

    Passes of coordinate descent find the signs; a jump then goes to the minimum among the
    coefficients of these signs, or on the way there to the first that would change its own, which
    becomes zero. Neither ever goes uphill. Where columns are nearly the same passes bring back what
    jumps have left out: after some rounds, jumps go on until that minimum is reached.

    Parameters
    ----------
    H : array of shape (m, m)
        Positive semidefinite.
    gradient, at : array of shape (m,)
        Where the quadratic starts.
    l1 : array of shape (m,)
        Penalties; coefficients without one are free.
    tol : float
        Largest violation of the optimality conditions, in units of l1.

    Returns
    -------
    a : array of shape (m,)
        The minimum.
    """
    # compiles, so only when needed
    from grayzone.numerics.jit_descent import descend_gram

    a = at.copy()
    for k in range(_ROUNDS):
        slope = gradient + H @ (a - at)
        if descend_gram(H, slope, a, l1, tol, _PASSES) <= tol:
            break
        # each jump but the last makes one more coefficient zero
        for _ in range(_JUMPS if k < _PLAIN else a.size):
            if _jump(H, gradient + H @ (a - at), a, l1):
                break
    return a


def _jump(H: Array, slope: Array, a: Array, l1: Array) -> bool:
    """Go to the minimum among the signs of ``a``, in place; whether it was reached."""
    free = l1 == 0.0
    used = np.flatnonzero((a != 0.0) | free)
    if not used.size:
        return True
    signed = np.where(free[used], 0.0, np.sign(a[used]))
    try:
        step = -factorise(H[np.ix_(used, used)])(slope[used] + l1[used] * signed)
    except FloatingPointError:
        return True
    after = a[used] + step
    crossing = after * signed < 0.0
    if not np.any(crossing):
        a[used] = after
        return True
    lengths = np.where(crossing, a[used] / np.where(crossing, a[used] - after, 1.0), np.inf)
    t = float(lengths.min())
    a[used] = np.where(lengths <= t, 0.0, a[used] + t * step)
    return False
