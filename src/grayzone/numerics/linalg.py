"""Positive definite systems, and line search along a convex function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import device, is_torch_array
from scipy.linalg.lapack import dpotrf, dpotrs

from grayzone.numerics.namespace import array_namespace, is_numpy_array

Array = Any

# Size from which on the inverse of a factor costs more than the solves that it saves; also that of
# blocks along a diagonal.
_LARGE = 512


def factorise(H: Array, often: bool = False) -> Callable[[Array], Array]:
    """Cholesky factor of H; gives the function that solves, one right-hand side or several.

    A ridge at rounding level, raised until the factor exists, takes care of exact duplicates. It is
    a share of the diagonal, so that the scale of features makes no difference: nor does it to the
    factor itself. Where it will solve ``often``, one right-hand side after the other, a device
    inverts the factor.
    """
    xp = array_namespace(H)
    diagonal = xp.linalg.diagonal(H)
    largest = float(xp.max(diagonal))
    if not largest > 1e-290:
        raise FloatingPointError("the Hessian is zero, or not finite")
    # a direction without curvature (an intercept that no active row holds) gets a trace of it
    least = 1e-18 * largest
    own = xp.where(diagonal > least, diagonal, least)
    ridge = 1e-15
    while ridge < 1.0:
        solve = _cholesky(with_diagonal(H, ridge * own), often)
        if solve is not None:
            return solve
        ridge *= 100.0
    raise FloatingPointError("the Hessian is not positive definite, or not finite")


def with_diagonal(H: Array, values: Array | float) -> Array:
    """Return H with values, or one of them, added to its diagonal."""
    out = array_namespace(H).asarray(H, copy=True)
    add_to_diagonal(out, values)
    return out


def add_to_diagonal(H: Array, values: Array | float) -> None:
    """Do so in place, in blocks: no other matrix of its size is made."""
    if is_numpy_array(H):
        np.einsum("ii->i", H)[...] += values
        return
    xp, n = array_namespace(H), H.shape[0]
    for a in range(0, n, _LARGE):
        b = min(n, a + _LARGE)
        own = values if isinstance(values, float) else values[a:b, None]
        H[a:b, a:b] += own * xp.eye(b - a, dtype=H.dtype, device=device(H))


def lower_factor(H: Array) -> Array:
    """Cholesky factors, of one matrix or several, in any array library."""
    try:
        return array_namespace(H).linalg.cholesky(H)
    except Exception as error:  # each library raises its own
        raise FloatingPointError("a matrix is not positive definite, or not finite") from error


class _Factor:
    """What solves by a Cholesky factor of LAPACK's."""

    def __init__(self, lower: Array) -> None:
        self.lower = lower

    def __call__(self, right: Array) -> Array:
        return dpotrs(self.lower, right, lower=True)[0]


def solved_by_many(solve: Callable[[Array], Array], right: Array) -> Array:
    """Solve for right-hand sides (p, m) by what ``factorise`` gives; NumPy's on all threads.

    For where compiled loops are at work anyway.
    """
    if not isinstance(solve, _Factor):
        return solve(right)
    from grayzone.numerics.jit_triangular import solved  # compiles, so only when needed

    return solved(solve.lower, right)


def _cholesky(H: Array, often: bool) -> Callable[[Array], Array] | None:
    if is_numpy_array(H):
        # LAPACK itself: the wrappers cost more than systems of this size
        factor, failed = dpotrf(H, lower=True, clean=False)
        return None if failed else _Factor(factor)
    xp = array_namespace(H)
    try:
        lower = lower_factor(H)
    except FloatingPointError:
        return None
    if H.shape[0] > _LARGE and is_torch_array(H):
        import torch

        if often and H.device.type == "cuda":  # which substitutes one number after the other
            eye = torch.eye(H.shape[0], dtype=H.dtype, device=H.device)
            turned = torch.linalg.solve_triangular(lower, eye, upper=False)
            return lambda r: turned.T @ (turned @ r)

        return lambda r: torch.cholesky_solve(xp.reshape(r, (r.shape[0], -1)), lower).reshape(
            r.shape
        )
    inverse = xp.linalg.solve(lower, xp.eye(H.shape[0], dtype=H.dtype, device=device(H)))
    return lambda r: xp.matmul(inverse.T, xp.matmul(inverse, r))


def descend(value: Callable[[float], float], slope0: float, start: float) -> tuple[float, float]:
    """Find a step t in (0, 1] that lowers a convex function by a fair share of what it promises.

    Halving guided by the parabola through value(0), slope(0) and value(t). Returns the step and
    the value there; (0, start) when no step down to 1e-12 helps.
    """
    t = 1.0
    while t > 1e-12:
        reached = value(t)
        if reached <= start + 1e-4 * t * slope0:
            return t, reached
        # near the optimum the promised decrease drowns in the rounding of the sum
        if t == 1.0 and -slope0 <= 1e-11 * abs(start) and reached - start <= 1e-13 * abs(start):
            return t, reached
        bend = reached - start - t * slope0
        guess = -slope0 * t * t / (2.0 * bend) if np.isfinite(bend) and bend > 0 else 0.0
        t = min(0.5 * t, max(guess, 0.1 * t))
    return 0.0, start


def level(slope: Callable[[float], float], slope0: float) -> float:
    """Find a step t in (0, 1] where the slope of a convex function is at most half of slope(0).

    Slopes do not drown in the rounding of a large sum as differences of values do. Regula falsi
    (Illinois) on the slope, which only rises with t; 1 where it is still negative there. Where it
    is positive, that half of the way is steeper says that the function is lower than at 0: beyond a
    kink it might not be.
    """

    def is_level(t: float, here: float) -> bool:
        if not here > 0.0:
            return here >= -0.5 * abs(slope0)
        return here <= 0.5 * abs(slope0) and slope(0.5 * t) <= -here

    low, at_low, high, at_high = 0.0, slope0, 1.0, slope(1.0)
    if not at_high > 0.0 or is_level(1.0, at_high):
        return 1.0
    for _ in range(60):
        t = low + (high - low) * at_low / (at_low - at_high)
        t = min(max(t, low + 0.01 * (high - low)), high - 0.01 * (high - low))
        here = slope(t)
        if is_level(t, here):
            return t
        if here < 0:
            low, at_low, at_high = t, here, 0.5 * at_high
        else:
            high, at_high, at_low = t, here, 0.5 * at_low
    return low
