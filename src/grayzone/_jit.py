"""The few compiled loops: pairs of multipliers, and gathers from rows of a kernel cache.

Compiled by numba on first use and cached on disk; nothing imports this module until a kernel is
fitted. All functions release the interpreter lock, so that several threads may run them.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
from numba import njit

Array = Any

# A multiplier above this is at its upper bound 1, which it never reaches: logit(1) is infinite.
ALMOST_ONE = 1.0 - 1e-12
_CHUNK = 64  # variables whose scores are reduced together
_NEVER = 1e300


@njit(cache=True, nogil=True, error_model="numpy")
def _threshold(a: float, s: float, floor: float) -> float:
    """Margin at which a is a slope: the derivative of the conjugate, F or logit(a)."""
    return floor if a <= s else log(a / (1.0 - a))


@njit(cache=True, nogil=True, error_model="numpy")
def _bend(a: float, s: float, w: float) -> float:
    """Second derivative of w h*(b / w) in b = w a."""
    return 0.0 if a <= s else 1.0 / (w * a * (1.0 - a))


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _move(
    pull: Array,
    K: Array,
    i: int,
    j: int,
    ci: float,
    cj: float,
    up: Array,
    low: Array,
    start: int,
    stop: int,
) -> tuple[float, float]:
    """Add what the last pair changed to a chunk, and give its extremes."""
    top, bottom = -_NEVER, _NEVER
    for k in range(start, stop):
        g = pull[k] - ci * K[i, k] - cj * K[j, k]
        pull[k] = g
        top = max(top, g - up[k])
        bottom = min(bottom, g + low[k])
    return top, bottom


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _promise(
    pull: Array,
    K: Array,
    i: int,
    base: Array,
    low: Array,
    top: float,
    fixed: float,
    twice: float,
    start: int,
    stop: int,
) -> float:
    """Largest decrease that a partner from a chunk promises, to second order."""
    best = 0.0
    for k in range(start, stop):
        d = max(top - pull[k] - low[k], 0.0)
        best = max(best, d * d / (fixed + base[k] - twice * K[i, k]))
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _pair_step(
    d: float,
    eta: float,
    ai: float,
    yi: float,
    wi: float,
    si: float,
    fi: float,
    aj: float,
    yj: float,
    wj: float,
    sj: float,
    fj: float,
    longest: float,
) -> float:
    """Minimise along b_i += y_i t, b_j -= y_j t: safeguarded Newton on the slope, 0 < t <= longest.

    The slope is -d + eta t + y_i (phi_i(t) - phi_i(0)) - y_j (phi_j(t) - phi_j(0)), increasing.
    """
    pi, pj = _threshold(ai, si, fi), _threshold(aj, sj, fj)
    low, high = 0.0, longest
    t = d / (eta + _bend(ai, si, wi) + _bend(aj, sj, wj))
    if t >= longest:
        t = longest
    for _ in range(100):
        x = min(ai + yi * t / wi, ALMOST_ONE)
        z = min(aj - yj * t / wj, ALMOST_ONE)
        slope = -d + eta * t
        slope += yi * (_threshold(x, si, fi) - pi) - yj * (_threshold(z, sj, fj) - pj)
        if slope > 0:
            high = t
        else:
            low = t
        if abs(slope) <= 1e-3 * d or (slope < 0 and t >= longest) or high - low <= 1e-15 * high:
            break
        t -= slope / (eta + _bend(x, si, wi) + _bend(z, sj, wj))
        if not low < t < high:
            t = 0.5 * (low + high)
    return t


@njit(cache=True, nogil=True, error_model="numpy")
def _room(a: float, direction: float, w: float, s: float, least: float) -> float:
    """How far b = w a can go up or down; a loss without a floor has no multiplier 0."""
    if direction > 0:
        return w * (1.0 - a) if least == 0.0 else _NEVER
    return w * (a - least) * (1.0 if s > 0.0 else 0.999)


@njit(cache=True, nogil=True, error_model="numpy")
def descend_pairs(
    K: Array,
    y: Array,
    w: Array,
    floor: Array,
    s: Array,
    least: Array,
    a: Array,
    pull: Array,
    C: float,
    eps: float,
    max_iter: int,
) -> tuple[int, float]:
    """Sequential minimal optimisation of one block, second-order choice of pairs.

    Minimises C/2 b'YKYb + sum(w h*(b / w)), b = w a, with y'b held fixed. ``pull`` is the
    intercept each row asks for, -f - y phi(a): equal for all rows that can move either way, at the
    optimum. ``least`` is 0, or -inf for the row that stands for "no intercept". ``a`` and
    ``pull`` are changed in place. Returns the iterations and the smallest curvature met.
    """
    n = y.shape[0]
    diagonal = np.empty(n)
    base = np.empty(n)
    up = np.empty(n)
    low = np.empty(n)
    for k in range(n):
        diagonal[k] = K[k, k]
        base[k] = C * diagonal[k] + _bend(a[k], s[k], w[k]) + 1e-12
        rises, falls = a[k] < ALMOST_ONE or least[k] < 0.0, a[k] > least[k]
        up[k] = 0.0 if (rises if y[k] > 0 else falls) else _NEVER
        low[k] = 0.0 if (falls if y[k] > 0 else rises) else _NEVER
    n_chunks = (n + _CHUNK - 1) // _CHUNK
    i, j, ci, cj = 0, 0, 0.0, 0.0
    flattest = 0.0
    for iteration in range(max_iter):
        top, bottom, chunk = -_NEVER, _NEVER, 0
        for c in range(n_chunks):
            high, small = _move(
                pull, K, i, j, ci, cj, up, low, c * _CHUNK, min(n, (c + 1) * _CHUNK)
            )
            if high > top:
                top, chunk = high, c
            bottom = min(bottom, small)
        if top - bottom <= eps:
            return iteration, flattest
        for k in range(chunk * _CHUNK, min(n, (chunk + 1) * _CHUNK)):
            if pull[k] - up[k] >= top:
                i = k
                break
        fixed = base[i]
        best = 0.0
        for c in range(n_chunks):
            value = _promise(
                pull, K, i, base, low, top, fixed, 2.0 * C, c * _CHUNK, min(n, (c + 1) * _CHUNK)
            )
            if value > best:
                best, chunk = value, c
        j, best = i, -1.0
        for k in range(chunk * _CHUNK, min(n, (chunk + 1) * _CHUNK)):
            d = max(top - pull[k] - low[k], 0.0)
            value = d * d / (fixed + base[k] - 2.0 * C * K[i, k])
            if value > best and k != i:
                j, best = k, value
        if j == i:
            return iteration, flattest
        eta = C * (diagonal[i] + diagonal[j] - 2.0 * K[i, j])
        flattest = min(flattest, eta)
        eta = max(eta, 1e-12)
        longest = min(
            _room(a[i], y[i], w[i], s[i], least[i]), _room(a[j], -y[j], w[j], s[j], least[j])
        )
        t = _pair_step(
            top - pull[j],
            eta,
            a[i],
            y[i],
            w[i],
            s[i],
            floor[i],
            a[j],
            y[j],
            w[j],
            s[j],
            floor[j],
            longest,
        )
        ci, cj = C * t, -C * t
        for k, step in ((i, y[i] * t), (j, -y[j] * t)):
            before = a[k]
            after = before + step / w[k]
            if least[k] == 0.0:
                after = min(after, ALMOST_ONE)
                if s[k] == 0.0:
                    after = max(after, 1e-250)  # no floor: a multiplier 0 has no margin
                elif t == longest and after < 1e-15:
                    after = 0.0
            a[k] = after
            pull[k] -= y[k] * (
                _threshold(a[k], s[k], floor[k]) - _threshold(before, s[k], floor[k])
            )
            base[k] = C * diagonal[k] + _bend(a[k], s[k], w[k]) + 1e-12
            rises, falls = a[k] < ALMOST_ONE or least[k] < 0.0, a[k] > least[k]
            up[k] = 0.0 if (rises if y[k] > 0 else falls) else _NEVER
            low[k] = 0.0 if (falls if y[k] > 0 else rises) else _NEVER
    return max_iter, flattest


@njit(cache=True, nogil=True, fastmath=True)
def add_rows(total: Array, rows: Array, slots: Array, coef: Array, start: int, stop: int) -> None:
    """total[k] += sum of coef[r] rows[slots[r], k] for the columns start to stop."""
    m = slots.shape[0]
    chunk = np.empty(1024, dtype=rows.dtype)
    for a in range(start, stop, 1024):
        size = min(1024, stop - a)
        chunk[:size] = 0.0
        whole = m - m % 4
        for r in range(0, whole, 4):
            c0, c1, c2, c3 = coef[r], coef[r + 1], coef[r + 2], coef[r + 3]
            k0 = rows[slots[r], a : a + size]
            k1 = rows[slots[r + 1], a : a + size]
            k2 = rows[slots[r + 2], a : a + size]
            k3 = rows[slots[r + 3], a : a + size]
            for k in range(size):
                chunk[k] += c0 * k0[k] + c1 * k1[k] + c2 * k2[k] + c3 * k3[k]
        for r in range(whole, m):
            c0 = coef[r]
            k0 = rows[slots[r], a : a + size]
            for k in range(size):
                chunk[k] += c0 * k0[k]
        for k in range(size):
            total[a + k] += chunk[k]


@njit(cache=True, nogil=True)
def gather(out: Array, rows: Array, slots: Array, columns: Array, start: int, stop: int) -> None:
    """out[r] = rows[slots[r], columns] for the rows start to stop of out."""
    for r in range(start, stop):
        row = rows[slots[r]]
        for k in range(columns.shape[0]):
            out[r, k] = row[columns[k]]


@njit(cache=True, nogil=True)
def compact(buffer: Array, rows: Array, width: int, columns: Array) -> None:
    """Move these columns of these rows of a matrix of that width to the front of its buffer."""
    m = columns.shape[0]
    for r in range(rows.shape[0]):
        start = rows[r] * width
        for k in range(m):
            # never ahead of what is still to be read: columns ascend, and r <= rows[r]
            buffer[r * m + k] = buffer[start + columns[k]]


@njit(cache=True, nogil=True)
def extremes(pull: Array, a: Array, y: Array) -> tuple[float, float]:
    """Largest pull of rows that can rise, smallest of rows that can fall."""
    top, bottom = -_NEVER, _NEVER
    for k in range(y.shape[0]):
        rises, falls = a[k] < ALMOST_ONE, a[k] > 0.0
        if rises if y[k] > 0 else falls:
            top = max(top, pull[k])
        if falls if y[k] > 0 else rises:
            bottom = min(bottom, pull[k])
    return top, bottom


_BINS = 1024


@njit(cache=True, nogil=True)
def violators(pull: Array, a: Array, y: Array, top: float, bottom: float, half: int) -> Array:
    """Rows furthest from the optimum: about ``half`` that should rise, as many that should fall.

    By histogram, so that one pass finds the limits and another the rows.
    """
    n = y.shape[0]
    scale = _BINS / (top - bottom)
    counts = np.zeros((2, _BINS), dtype=np.int64)
    place = np.empty((2, n), dtype=np.int16)
    for k in range(n):
        rises, falls = a[k] < ALMOST_ONE, a[k] > 0.0
        up = rises if y[k] > 0 else falls
        low = falls if y[k] > 0 else rises
        place[0, k] = place[1, k] = -1
        if up and pull[k] > bottom:
            place[0, k] = min(_BINS - 1, int(scale * (pull[k] - bottom)))
            counts[0, place[0, k]] += 1
        if low and pull[k] < top:
            place[1, k] = min(_BINS - 1, int(scale * (top - pull[k])))
            counts[1, place[1, k]] += 1
    limit = np.empty(2, dtype=np.int64)
    room = np.empty(2, dtype=np.int64)  # how many of the bin at the limit still fit
    for side in range(2):
        left, b = half, _BINS - 1
        while b > 0 and counts[side, b] <= left:
            left -= counts[side, b]
            b -= 1
        limit[side], room[side] = b, left
    chosen = np.empty(min(n, 2 * half), dtype=np.int64)
    m = 0
    for k in range(n):
        take = False
        for side in range(2):
            if place[side, k] > limit[side]:
                take = True
            elif place[side, k] == limit[side] and room[side] > 0:
                room[side] -= 1
                take = True
        if take and m < chosen.shape[0]:
            chosen[m] = k
            m += 1
    return chosen[:m]
