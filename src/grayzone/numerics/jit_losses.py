"""Elementwise work on the margins of many rows, compiled: one call a thread for a whole pass.

NumPy would pass over the rows a dozen times, on one thread. Nothing imports this module until many
rows are fitted. Every function works on the rows start to stop, and releases the interpreter lock.
"""

from __future__ import annotations

from math import exp, expm1, inf, log, log1p
from typing import Any

from grayzone.numerics.compiled import loop, part, place
from grayzone.numerics.jit_exponential import exponential, log_of_one_and

Array = Any

# Sums may be in any order: that is what lets several numbers be added at once.
_ANY_ORDER = {"contract", "reassoc"}


@loop(error_model="numpy")
def slopes(u: Array, floor: Array, first: Array, second: Array, start: int, stop: int) -> None:
    """Set slopes and curvatures of the truncated logistic loss; both are 0 up to the floor."""
    for k in range(start, stop):
        i = place(k)
        x = u[i]
        e = exponential(-abs(x))
        share = 1.0 / (1.0 + e)
        active = x > floor[i]
        first[i] = (share if x >= 0.0 else e * share) if active else 0.0
        second[i] = e * share * share if active else 0.0


@loop(error_model="numpy")
def slope(u: Array, floor: Array, first: Array, start: int, stop: int) -> None:
    """Set slopes alone."""
    for k in range(start, stop):
        i = place(k)
        x = u[i]
        e = exponential(-abs(x))
        active = x > floor[i]
        first[i] = ((1.0 if x >= 0.0 else e) / (1.0 + e)) if active else 0.0


@loop(error_model="numpy")
def sides_of_kink(
    u: Array, floor: Array, delta: float, near: Array, far: Array, start: int, stop: int
) -> None:
    """Mark rows up to delta away from the kink, and those that are further above it."""
    for k in range(start, stop):
        i = place(k)
        r = u[i] - floor[i]
        near[i], far[i] = abs(r) <= delta, r > delta


@loop(error_model="numpy")
def misjudged(
    u: Array,
    floor: Array,
    moved: Array,
    most: float,
    least: float,
    wrong: Array,
    start: int,
    stop: int,
) -> None:
    """Mark rows that cross the kink by more than ``least``, or move by more than ``most`` above it.

    ``moved`` is what is added to margins u.
    """
    for k in range(start, stop):
        i = place(k)
        r = u[i] - floor[i]
        there = r + moved[i]
        crosses = (r > 0.0) != (there > 0.0) and abs(there) > least
        wrong[i] = crosses or (r > 0.0 and abs(moved[i]) > most)


@loop(error_model="numpy")
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
    for j in range(start, stop):
        k = place(j)
        i = place(rows[k])
        x, w = u[i], weight[i]
        e = exponential(-abs(x))
        share = 1.0 / (1.0 + e)
        active = x > floor[i]
        omega[k] = w * (e * share * share) if active else 0.0
        residual[k] = -y[i] * (w * (share if x >= 0.0 else e * share)) if active else 0.0


@loop(error_model="numpy")
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
    for j in range(start, stop):
        k = place(j)
        i = place(rows[k])
        there = -y[i] * (pull[k] + curvature[k] * change[i]) / weight[i]
        x = max(u[i], floor[i])
        e = exponential(-abs(x))
        slope = (1.0 if x >= 0.0 else e) / (1.0 + e)
        least, most = 0.0, slope
        if u[i] > floor[i]:
            e = exponential(-abs(floor[i]))
            least = max(share * slope, (1.0 if floor[i] >= 0.0 else e) / (1.0 + e))
            most = 1.0 - share * (1.0 - slope)
        a[i] = min(max(there, least), most)


@part(error_model="numpy")
def _bent(u: float, floor: float, width: float) -> tuple[float, float, float]:
    """Margin with the kink rounded off, and its first two derivatives, as in ``losses``."""
    t = (u - floor) / width
    below, above, square = t <= -1.0, not t < 1.0, t * t
    there = floor + width * (3.0 / 16.0 + t / 2.0 + square * (3.0 / 8.0 - square / 16.0))
    rise, bend = 0.5 + t * (0.75 - square / 4.0), 0.75 * (1.0 - square) / width
    # all three each time: without a branch several rows are one instruction
    there = floor if below else u if above else there
    rise = 0.0 if below else 1.0 if above else rise
    return there, rise, 0.0 if below or above else bend


@loop(error_model="numpy")
def smoothed_slopes(
    u: Array, floor: Array, width: float, first: Array, second: Array, start: int, stop: int
) -> None:
    """Set slopes and curvatures of the loss with its kink rounded off."""
    for k in range(start, stop):
        i = place(k)
        there, rise, bend = _bent(u[i], floor[i], width)
        e = exponential(-abs(there))
        share = 1.0 / (1.0 + e)
        p = share if there >= 0.0 else e * share
        first[i] = p * rise
        second[i] = p * ((1.0 - p) * rise * rise + bend)


@loop(error_model="numpy", fastmath=_ANY_ORDER)
def smoothed_sum(
    u: Array, floor: Array, weight: Array, width: float, start: int, stop: int
) -> float:
    """Sum of weighted losses with their kinks rounded off."""
    total = 0.0
    for k in range(start, stop):
        i = place(k)
        there = _bent(u[i], floor[i], width)[0]
        rest = log_of_one_and(exponential(-abs(there)))
        total += weight[i] * ((0.0 if there < 0.0 else there) + rest)
    return total


@loop(error_model="numpy", fastmath=_ANY_ORDER)
def value_sum(u: Array, floor: Array, weight: Array, start: int, stop: int) -> float:
    """Sum of weighted truncated logistic losses."""
    total = 0.0
    for k in range(start, stop):
        i = place(k)
        there = floor[i] if u[i] < floor[i] else u[i]
        rest = log_of_one_and(exponential(-abs(there)))
        total += weight[i] * ((0.0 if there < 0.0 else there) + rest)
    return total


@part(error_model="numpy")
def _softplus(u: float) -> float:
    # long enough for a call: loops that are to take several rows at a time write it out
    return max(u, 0.0) + log_of_one_and(exponential(-abs(u)))


@part(error_model="numpy")
def _bernoulli_bregman(a: float, d: float, series: float) -> float:
    """KL distance of two Bernoulli laws, a in (0, 1), as in ``losses``."""
    size = abs(d)
    if size < series:
        return max(0.0, 0.5 * a * (1.0 - a) * d * d * (1.0 + (1.0 - 2.0 * a) * d / 3.0))
    gone = 1.0 - a if d > 0.0 else a
    near = size < 1.0
    tail = log1p(gone * expm1(-size)) if near else log(1.0 - gone + gone * exp(-size))
    return max(0.0, gone * size + tail)


@part(error_model="numpy")
def _fenchel_young(u: float, floor: float, a: float, series: float) -> float:
    if not 0.0 <= a <= 1.0:
        return inf
    e = exp(-abs(floor))
    s = (1.0 if floor >= 0.0 else e) / (1.0 + e)
    above = u > floor
    if a > s:
        v = max(u, floor)
        far = _bernoulli_bregman(a, v - log(a / (1.0 - a)), series) if a < 1.0 else _softplus(-v)
        return far + (0.0 if above else a * (v - u))
    if not above:
        return a * (floor - u)
    if s == 0.0:  # no floor, or one below all numbers
        return _softplus(u)
    return _bernoulli_bregman(s, u - floor, series) + (s - a) * (u - floor)


@loop(error_model="numpy")
def fenchel_young_sum(
    y: Array,
    scores: Array,
    floor: Array,
    duals: Array,
    weight: Array,
    series: float,
    start: int,
    stop: int,
) -> float:
    """Sum of weighted Fenchel-Young losses of scores and duals (n, 1), as in ``losses``."""
    total = 0.0
    for k in range(start, stop):
        i = place(k)
        u, a = -y[i] * scores[i, 0], -y[i] * duals[i, 0]
        total += weight[i] * _fenchel_young(u, floor[i], a, series)
    return total


@loop(fastmath=_ANY_ORDER)
def sides(y: Array, weight: Array, duals: Array, mass: Array, start: int, stop: int) -> None:
    """Set what rows of each class give: weights times the sizes of duals (n, 1)."""
    down, up = 0.0, 0.0
    for k in range(start, stop):
        i = place(k)
        own = weight[i] * abs(duals[i, 0])
        up += own if y[i] > 0.0 else 0.0
        down += 0.0 if y[i] > 0.0 else own
    mass[0], mass[1] = down, up
