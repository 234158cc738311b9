"""A quadratic with an l1 penalty, minimised exactly."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.linalg import factorise

Array = Any

# Rounds of passes and jumps; passes a round; jumps a round.
_ROUNDS, _PASSES, _JUMPS = 4, 5, 4
# Rounds that go to the minimum among signs; coefficients that enter in one of them.
_MORE_ROUNDS, _ENTERING = 30, 8
# Powers of the share of a jump after which a first coefficient is zero: others that are tried.
_FURTHER = (0.75, 0.5, 0.25, 0.0)


class Minimum(NamedTuple):
    """Where a quadratic is least, and whether columns are so much alike that passes do not help."""

    a: Array
    alike: bool


def minimise_quadratic(
    H: Array, gradient: Array, at: Array, l1: Array, tol: float, alike: bool = False
) -> Minimum:
    """Minimise gradient'(a - at) + (a - at)'H(a - at) / 2 + sum of l1 |a|.

    Passes of coordinate descent find the signs; a jump then goes to the minimum among the
    coefficients of these signs, or on the way there to the first that would change its own, which
    becomes zero. Neither ever goes uphill. Where columns are nearly the same passes bring back what
    jumps have left out: after some rounds jumps go on until that minimum is reached, and then only
    the coefficients that pull the hardest enter.

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
    alike : bool, default=False
        Whether columns are known to be so already; there are no passes then.

    Returns
    -------
    Minimum
        The minimum.
    """
    # compiles, so only when needed
    from grayzone.numerics.jit_descent import descend_gram

    a = at.copy()
    for _ in range(0 if alike else _ROUNDS):
        slope = gradient + H @ (a - at)
        if descend_gram(H, slope, a, l1, tol, _PASSES) <= tol:
            return Minimum(a, False)
        for _ in range(_JUMPS):
            if _jump(H, gradient + H @ (a - at), a, l1):
                break
    for _ in range(_MORE_ROUNDS):
        for _ in range(a.size):  # each jump but the last makes one more coefficient zero
            if _jump(H, gradient + H @ (a - at), a, l1):
                break
        if _enter(H, gradient + H @ (a - at), a, l1, tol):
            break
    return Minimum(a, True)


def _enter(H: Array, slope: Array, a: Array, l1: Array, tol: float) -> bool:
    """Move the zeros that pull the hardest, in place; whether none pulls too hard."""
    pulls = np.where(a == 0.0, np.abs(slope) - l1, -np.inf)
    tol, worst = max(tol, 0.0), np.argsort(-pulls)[:_ENTERING]
    if not pulls[worst[0]] > tol:
        return True
    for j in worst:
        if abs(slope[j]) - l1[j] > tol and H[j, j] > 0.0:
            a[j] = -np.sign(slope[j]) * (abs(slope[j]) - l1[j]) / H[j, j]
            slope = slope + a[j] * H[j]
    return False


def _jump(H: Array, slope: Array, a: Array, l1: Array) -> bool:
    """Go to the minimum among the signs of ``a``, in place; whether it was reached."""
    free = l1 == 0.0
    used = np.flatnonzero((a != 0.0) | free)
    if not used.size:
        return True
    signed = np.where(free[used], 0.0, np.sign(a[used]))
    own, pull = H[np.ix_(used, used)], slope[used] + l1[used] * signed
    try:
        step = -factorise(own)(pull)
    except FloatingPointError:
        return True
    after = a[used] + step
    crossing = after * signed < 0.0
    if not np.any(crossing):
        a[used] = after
        return True
    lengths = np.where(crossing, a[used] / np.where(crossing, a[used] - after, 1.0), np.inf)
    a[used] = _shortened(own, pull, a[used], step, lengths)
    return False


def _shortened(H: Array, pull: Array, a: Array, step: Array, lengths: Array) -> Array:
    """Best of some ways: to the first zero, which is downhill, or on with what is zero left there.

    ``lengths`` are the shares of the step after which coefficients become zero.
    """
    first = float(lengths.min())
    ways = np.append(first, first ** np.array(_FURTHER))
    ends = np.where(lengths <= ways[:, None], 0.0, a + ways[:, None] * step)
    moved = ends - a
    values = moved @ pull + 0.5 * np.sum((moved @ H) * moved, axis=1)
    return ends[np.argmin(values)]
