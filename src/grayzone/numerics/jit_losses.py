"""Elementwise work on the margins of many rows, compiled: one call a thread for a whole pass.

NumPy would pass over the rows a dozen times, on one thread. Nothing imports this module until many
rows are fitted. Every function works on the rows start to stop, and releases the interpreter lock.
"""

from __future__ import annotations

from math import exp
from typing import Any

from numba import njit

Array = Any


@njit(cache=True, nogil=True, error_model="numpy")
def slopes(u: Array, floor: Array, first: Array, second: Array, start: int, stop: int) -> None:
    """Set slopes and curvatures of the truncated logistic loss; both are 0 up to the floor."""
    for i in range(start, stop):
        x = u[i]
        e = exp(-abs(x))
        share = 1.0 / (1.0 + e)
        active = x > floor[i]
        first[i] = (share if x >= 0.0 else e * share) if active else 0.0
        second[i] = e * share * share if active else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def slope(u: Array, floor: Array, first: Array, start: int, stop: int) -> None:
    """Set slopes alone."""
    for i in range(start, stop):
        x = u[i]
        e = exp(-abs(x))
        active = x > floor[i]
        first[i] = ((1.0 if x >= 0.0 else e) / (1.0 + e)) if active else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def misjudged(
    distance: Array, moved: Array, most: float, least: float, wrong: Array, start: int, stop: int
) -> None:
    """Mark rows that cross the kink by more than ``least``, or move by more than ``most`` above it.

    ``distance`` is that from the kink before, ``moved`` what is added to it.
    """
    for i in range(start, stop):
        r = distance[i]
        there = r + moved[i]
        crosses = (r > 0.0) != (there > 0.0) and abs(there) > least
        wrong[i] = crosses or (r > 0.0 and abs(moved[i]) > most)


@njit(cache=True, nogil=True, error_model="numpy")
def second_order(
    rows: Array,
    u: Array,
    floor: Array,
    weight: Array,
    y: Array,
    omega: Array,
    residual: Array,
    start: int,
    stop: int,
) -> None:
    """Set weighted curvatures of some rows, and the gradient of their losses in the scores."""
    for k in range(start, stop):
        i = rows[k]
        x, w = u[i], weight[i]
        e = exp(-abs(x))
        share = 1.0 / (1.0 + e)
        active = x > floor[i]
        omega[k] = w * (e * share * share) if active else 0.0
        residual[k] = -y[i] * (w * (share if x >= 0.0 else e * share)) if active else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def modelled(
    rows: Array,
    pull: Array,
    curvature: Array,
    u: Array,
    floor: Array,
    weight: Array,
    y: Array,
    change: Array,
    a: Array,
    share: float,
    start: int,
    stop: int,
) -> None:
    """Set multipliers of some rows to those of parabolas after a change of the scores.

    At margins u above their floor, where the slope is s, they are at least the slope at the floor
    and that share of s, and at most 1 less a share of 1 - s; below, 0 to the slope at the floor.
    """
    for k in range(start, stop):
        i = rows[k]
        there = -y[i] * (pull[k] + curvature[k] * change[i]) / weight[i]
        x = max(u[i], floor[i])
        e = exp(-abs(x))
        slope = (1.0 if x >= 0.0 else e) / (1.0 + e)
        least, most = 0.0, slope
        if u[i] > floor[i]:
            e = exp(-abs(floor[i]))
            least = max(share * slope, (1.0 if floor[i] >= 0.0 else e) / (1.0 + e))
            most = 1.0 - share * (1.0 - slope)
        a[i] = min(max(there, least), most)
