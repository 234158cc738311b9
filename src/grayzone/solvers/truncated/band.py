"""The band of rows near the kink: which are in it, which leave it, and how wide the next one is."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from grayzone.numerics.columns import places
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.pieces import are_many, looped

Array = Any

_NEAR_SHARE = 0.02  # rows in the first band after a start from a part
_NEAR_ROWS = 30  # as many where rows are few, or twice the share
_ROUNDING = 1e-10  # distance from the kink that no row is misjudged for
_STEADY = 0.005  # mean change of margins up to which the last Hessian still serves
_REACH = 0.2  # half-width of the next band, as a share of how far rows near the kink moved


def first_band(loss: TruncatedLogistic, u: Array) -> float:
    """Half-width of a band that few rows are in."""
    sample = slice(None, None, max(1, u.size // 20_000))
    distance = np.abs(u[sample] - loss.floor[sample])
    distance = distance[np.isfinite(distance)]
    if not distance.size:
        return 0.0
    share = max(_NEAR_SHARE, min(2.0 * _NEAR_SHARE, _NEAR_ROWS / u.size))
    return quantile(distance, share)


def split(loss: TruncatedLogistic, u: Array, delta: float, *others: Array) -> tuple[Array, Array]:
    """Near and far rows; rows without a kink are far, others that are given near in any case."""
    if delta == inf:
        bounded = np.isfinite(loss.floor)
        return np.flatnonzero(bounded), np.flatnonzero(~bounded)
    near, far = _sides(loss, u, delta)
    for rows in others:
        near[rows], far[rows] = True, False
    return places(near, loss.is_loaded), places(far, loss.is_loaded)


def _sides(loss: TruncatedLogistic, u: Array, delta: float) -> tuple[Array, Array]:
    """Mark rows whose margins u are up to delta away from the kink, and those further above it."""
    if are_many(u, loss.floor, is_loaded=loss.is_loaded):
        # compiles, so only when needed
        from grayzone.numerics.jit_losses import sides_of_kink

        near, far = np.empty((2, u.size), dtype=bool)
        looped(sides_of_kink, u, loss.floor, delta, near, far, n_rows=u.size)
        return near, far
    distance = u - loss.floor
    return np.abs(distance) <= delta, distance > delta


def misjudged(loss: TruncatedLogistic, u: Array, moved: Array, most: float) -> Array:
    """Mark rows whose margins u cross the kink, or move by more than ``most`` above it."""
    if are_many(u, loss.floor, moved, is_loaded=loss.is_loaded):
        # compiles, so only when needed
        from grayzone.numerics import jit_losses

        wrong = np.empty(u.size, dtype=bool)
        looped(jit_losses.misjudged, u, loss.floor, moved, most, _ROUNDING, wrong, n_rows=u.size)
        return wrong
    distance = u - loss.floor
    there = distance + moved
    crosses = ((distance > 0) != (there > 0)) & (np.abs(there) > _ROUNDING)
    return crosses | ((distance > 0) & (np.abs(moved) > most))


def outlook(
    loss: TruncatedLogistic, before: Array, u: Array, delta: float, t: float
) -> tuple[float, bool]:
    """Band for the next step, and whether the Hessian will still serve there.

    Rows in the neighbourhood of the kink move much less in the next step than in this one; those
    that do not are let in when they cross.
    """
    if t == 0.0:
        return (inf if delta > 1.0 else max(100.0 * delta, 1e-3)), False
    sample = slice(None, None, max(1, u.size // 20_000))
    moved = np.abs(u[sample] - before[sample])
    steady = t == 1.0 and float(moved.mean()) <= _STEADY
    distance = np.abs(u[sample] - loss.floor[sample])
    bounded = np.isfinite(distance)
    if not bounded.any():
        return 0.0, steady
    close = distance <= quantile(distance[bounded], 0.2)
    reach = quantile(moved[close], 0.99)
    goal = max(_REACH * reach if t == 1.0 else 2.0 * reach, 1e-7)
    return min(0.5 * delta, goal), steady


def quantile(values: Array, share: float) -> float:
    """Quantile of some values without the care that NumPy takes between two of them."""
    place = int(share * (values.size - 1))
    return float(np.partition(values, place)[place])
