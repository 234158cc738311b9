"""The few compiled loops: multipliers of rows, gathers from a kernel cache, trees.

Compiled by numba on first use and cached on disk; nothing imports this module until a kernel or
texts are fitted, or trees are walked. All functions release the interpreter lock, so that several
threads may run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, log1p
from typing import Any

import numpy as np

from grayzone.numerics.compiled import loop, part
from grayzone.numerics.team import share

Array = Any

# A multiplier above this is at its upper bound 1, which it never reaches: logit(1) is infinite.
ALMOST_ONE = 1.0 - 1e-12
_TRACE = 0.03  # share of the accuracy asked for that a difference between equal rows may have
NEVER = 1e300


@part(error_model="numpy")
def _threshold(a: float, s: float, floor: float) -> float:
    """Margin at which a is a slope: the derivative of the conjugate, F or logit(a)."""
    return floor if a <= s else log(a / (1.0 - a))


@part(error_model="numpy")
def _bend(a: float, s: float, w: float) -> float:
    """Second derivative of w h*(b / w) in b = w a."""
    return 0.0 if a <= s else 1.0 / (w * a * (1.0 - a))


@part()
def can_move(a: float, y: float, least: float) -> tuple[bool, bool]:
    """Whether b y can go up, and whether it can go down; ``least`` < 0 is a row without bounds."""
    rises, falls = a < ALMOST_ONE or least < 0.0, a > least
    return (rises, falls) if y > 0 else (falls, rises)


@part(fastmath=True, error_model="numpy")
def _move(
    pull: Array, Ki: Array, Kj: Array, c: float, up: Array, low: Array, high: Array, deep: Array
) -> None:
    """Add what the last pair changed; set the pulls of rows that can rise, and minus the others."""
    for k in range(pull.shape[0]):
        g = pull[k] - c * Ki[k] + c * Kj[k]
        pull[k] = g
        high[k] = g - up[k]
        deep[k] = -(g + low[k])


@part(fastmath=True, error_model="numpy")
def _promise(
    pull: Array,
    Ki: Array,
    base: Array,
    low: Array,
    top: float,
    fixed: float,
    twice: float,
    trace: float,
    gain: Array,
) -> None:
    """Set the decrease that each row promises as a partner, to second order, beyond a trace."""
    for k in range(pull.shape[0]):
        d = top - pull[k] - low[k]
        d = d if d > trace else 0.0
        gain[k] = d * d / (fixed + base[k] - twice * Ki[k])


@part(fastmath=True, error_model="numpy")
def _largest(values: Array) -> tuple[int, float]:
    """Place and value of the first of the largest.

    One maximum after the other would wait for the last: four of them need not.
    """
    n = values.shape[0]
    whole = n - n % 4
    m0 = m1 = m2 = m3 = -2.0 * NEVER
    for k in range(0, whole, 4):
        m0, m1 = max(m0, values[k]), max(m1, values[k + 1])
        m2, m3 = max(m2, values[k + 2]), max(m3, values[k + 3])
    for k in range(whole, n):
        m0 = max(m0, values[k])
    largest = max(max(m0, m1), max(m2, m3))
    place = 0
    while place < n - 1 and values[place] < largest:
        place += 1
    return place, largest


@part(error_model="numpy")
def _room(a: float, direction: float, w: float, s: float, least: float) -> float:
    """How far b = w a can go up or down; a loss without a floor has no multiplier 0."""
    if direction > 0:
        return w * (1.0 - a) if least == 0.0 else NEVER
    return w * (a - least) * (1.0 if s > 0.0 else 0.999)


@part(error_model="numpy")
def _pair_step(
    i: int,
    j: int,
    d: float,
    eta: float,
    a: Array,
    y: Array,
    w: Array,
    s: Array,
    floor: Array,
    longest: float,
) -> float:
    """Minimise along b_i += y_i t, b_j -= y_j t: safeguarded Newton on the slope, 0 < t <= longest.

    The slope is -d + eta t + y_i (phi_i(t) - phi_i(0)) - y_j (phi_j(t) - phi_j(0)), increasing.
    """
    pi, pj = _threshold(a[i], s[i], floor[i]), _threshold(a[j], s[j], floor[j])
    low, high = 0.0, longest
    t = min(d / (eta + _bend(a[i], s[i], w[i]) + _bend(a[j], s[j], w[j])), longest)
    for _ in range(100):
        x = min(a[i] + y[i] * t / w[i], ALMOST_ONE)
        z = min(a[j] - y[j] * t / w[j], ALMOST_ONE)
        slope = -d + eta * t + y[i] * (_threshold(x, s[i], floor[i]) - pi)
        slope -= y[j] * (_threshold(z, s[j], floor[j]) - pj)
        if slope > 0:
            high = t
        else:
            low = t
        if abs(slope) <= 1e-3 * d or (slope < 0 and t >= longest) or high - low <= 1e-15 * high:
            break
        t -= slope / (eta + _bend(x, s[i], w[i]) + _bend(z, s[j], w[j]))
        if not low < t < high:
            t = 0.5 * (low + high)
    return t


@part(error_model="numpy")
def _bounded(after: float, s: float, least: float, at_end: bool) -> float:
    """Multiplier within its bounds, exactly on the lower one where the step went all the way."""
    if least < 0.0:
        return after
    after = min(after, ALMOST_ONE)
    if s == 0.0:
        return max(after, 1e-250)  # no floor: a multiplier 0 has no margin
    return 0.0 if at_end and after < 1e-15 else after


@part(error_model="numpy")
def _set_gates(
    k: int,
    K: Array,
    y: Array,
    w: Array,
    s: Array,
    least: Array,
    a: Array,
    C: float,
    base: Array,
    up: Array,
    low: Array,
) -> None:
    """Set what the choice of pairs knows of a row: its curvature, and 0 or "never" each way."""
    base[k] = C * K[k, k] + _bend(a[k], s[k], w[k]) + 1e-12
    rises, falls = can_move(a[k], y[k], least[k])
    up[k] = 0.0 if rises else NEVER
    low[k] = 0.0 if falls else NEVER


@loop(error_model="numpy")
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
    base, up, low = np.empty(n), np.empty(n), np.empty(n)
    high, deep, gain = np.empty(n), np.empty(n), np.empty(n)
    for k in range(n):
        _set_gates(k, K, y, w, s, least, a, C, base, up, low)
    t, flattest = 0.0, 0.0
    i = j = n - 1  # nothing has moved; a plain 0 would be a type of its own, compiled for as well
    for iteration in range(max_iter):
        _move(pull, K[i], K[j], C * t, up, low, high, deep)
        i, top = _largest(high)
        bottom = -_largest(deep)[1]
        if top - bottom <= eps:
            return iteration, flattest
        # rows that are as good as equal have no curvature between them, so that a difference of
        # rounding would promise more than any other partner
        _promise(pull, K[i], base, low, top, base[i], 2.0 * C, _TRACE * eps, gain)
        gain[i] = -NEVER
        j, _ = _largest(gain)
        if j == i:  # it is alone
            return iteration, flattest
        eta = C * (K[i, i] + K[j, j] - 2.0 * K[i, j])
        flattest = min(flattest, eta)
        longest = min(
            _room(a[i], y[i], w[i], s[i], least[i]), _room(a[j], -y[j], w[j], s[j], least[j])
        )
        t = _pair_step(i, j, top - pull[j], max(eta, 1e-12), a, y, w, s, floor, longest)
        for k, step in ((i, y[i] * t), (j, -y[j] * t)):
            before = _threshold(a[k], s[k], floor[k])
            a[k] = _bounded(a[k] + step / w[k], s[k], least[k], t == longest)
            pull[k] -= y[k] * (_threshold(a[k], s[k], floor[k]) - before)
            _set_gates(k, K, y, w, s, least, a, C, base, up, low)
    return max_iter, flattest


@loop(fastmath=True)
def _add_rows(
    total: Array, rows: Array, slots: Array, coef: Array, chunk: Array, start: int, stop: int
) -> None:
    m = slots.shape[0]
    whole = m - m % 4
    for a in range(start, stop, chunk.shape[0]):
        size = min(chunk.shape[0], stop - a)
        for k in range(size):
            chunk[k] = 0.0
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


def add_rows(total: Array, rows: Array, slots: Array, coef: Array, edges: Sequence[int]) -> None:
    """total[k] += sum of coef[r] rows[slots[r], k] for the columns between edges."""
    # arrays are made here: compiling how to takes longer than many a loop
    chunks = np.empty((len(edges) - 1, 1024), dtype=rows.dtype)
    share(_add_rows, (total, rows, slots, coef), (chunks,), edges)


@loop()
def gather(out: Array, rows: Array, slots: Array, columns: Array, start: int, stop: int) -> None:
    """out[r] = rows[slots[r], columns] for the rows start to stop of out."""
    for r in range(start, stop):
        row = rows[slots[r]]
        for k in range(columns.shape[0]):
            out[r, k] = row[columns[k]]


@loop()
def compact(buffer: Array, rows: Array, width: int, columns: Array, first: int, stop: int) -> None:
    """Move these columns of these rows of a matrix of that width to the front of its buffer.

    Of the rows, those from the first to the stop: they become rows of those numbers.
    """
    m = columns.shape[0]
    for r in range(first, stop):
        start = rows[r] * width
        for k in range(m):
            # never ahead of what is still to be read: columns ascend, and r <= rows[r]
            buffer[r * m + k] = buffer[start + columns[k]]


@loop()
def intercept_slope(values: Array, y: Array, w: Array, floor: Array, b: float) -> float:
    """Derivative of all truncated losses by the intercept b; saturated rows cost nothing."""
    total = 0.0
    for k in range(y.shape[0]):
        u = -y[k] * (values[k] + b)
        if u > floor[k]:
            e = np.exp(-abs(u))
            total -= w[k] * y[k] * (1.0 if u >= 0.0 else e) / (1.0 + e)
    return total


@loop()
def walk_trees(
    out: Array,
    X: Array,
    feature: Array,
    threshold: Array,
    left: Array,
    right: Array,
    gap_left: Array,
    category: Array,
    bits: Array,
    roots: Array,
    columns: Array,
    leaves: Array,
    start: int,
    stop: int,
) -> None:
    """Add what the leaves that rows start to stop of X reach say, tree by tree.

    A node without a feature is a leaf, and its left child the number of it.
    """
    for t in range(len(roots)):
        for i in range(start, stop):
            node = roots[t]
            while feature[node] >= 0:
                x = X[i, feature[node]]
                if x != x:
                    goes = gap_left[node]
                elif category[node] < 0:
                    goes = x <= threshold[node]
                else:
                    code = int(x)
                    goes = gap_left[node]
                    if 0 <= code < 32 * bits.shape[1]:
                        word = bits[category[node], code // 32]
                        goes = (word >> np.uint32(code % 32)) & np.uint32(1) == np.uint32(1)
                node = left[node] if goes else right[node]
            for k in range(leaves.shape[1]):
                out[i, columns[t] + k] += leaves[left[node], k]


@part(error_model="numpy")
def _row_score(indices: Array, values: Array, start: int, stop: int, slopes: Array) -> float:
    """Inner product of a sparse row; four sums, for one would wait for each addition."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = start + (stop - start) // 4 * 4
    for k in range(start, whole, 4):
        a += values[k] * slopes[indices[k]]
        b += values[k + 1] * slopes[indices[k + 1]]
        c += values[k + 2] * slopes[indices[k + 2]]
        d += values[k + 3] * slopes[indices[k + 3]]
    for k in range(whole, stop):
        a += values[k] * slopes[indices[k]]
    return (a + b) + (c + d)


@part(error_model="numpy")
def _smooth_multiplier(u: float, old: float, bend: float) -> tuple[float, float, float]:
    """Multiplier a = sigma(z) with z = u - bend (a - old), where the loss is logarithmic.

    z + bend sigma(z) only rises: Newton steps inside a bracket, to a thousandth of the change.
    Also gives the distance of the old multiplier and the loss at u, both to second order.
    """
    top = u + bend * old
    low, high, z = top - bend, top, min(max(u, top - bend), top)
    share, loss = 0.5, 0.0
    for n_iter in range(50):
        e = exp(-abs(z))
        share = (1.0 if z >= 0.0 else e) / (1.0 + e)
        if n_iter == 0:
            loss = max(z, 0.0) + log1p(e)
        excess = z + bend * share - top
        if abs(excess) <= max(1e-3 * abs(u - z), 1e-15 * abs(top)):
            break
        low, high = (low, z) if excess > 0.0 else (z, high)
        z -= excess / (1.0 + bend * share * (1.0 - share))
        z = z if low < z < high else 0.5 * (low + high)
    spread = share * (1.0 - share)
    away = (share - old) * (1.0 + bend * spread)
    return share, 0.5 * away * away / max(spread, 1e-12), loss


@loop(error_model="numpy")
def ascend_rows(
    order: Array,
    length: int,
    indptr: Array,
    indices: Array,
    values: Array,
    signs: Array,
    weight: Array,
    bends: Array,
    floor: Array,
    s: Array,
    a: Array,
    slopes: Array,
    intercept: float,
    per_unit: float,
    per_shift: float,
) -> tuple[float, float, float]:
    """Give each row in turn the multiplier that is best for it; ``a`` and ``slopes`` are changed.

    Rows come in stretches of ``length``, in the order given. ``bends`` are the second derivatives
    of the dual along each row's multiplier, ``per_unit`` and ``per_shift`` what a multiplier of
    unit weight adds to the slopes and to the intercept. Gives the intercept and, as of when each
    row was visited, the sums of the losses and of the distances of multipliers from their best.
    """
    total, distance, n = 0.0, 0.0, a.shape[0]
    for stretch in order:
        for i in range(stretch * length, min(n, (stretch + 1) * length)):
            start, stop, old, w = indptr[i], indptr[i + 1], a[i], weight[i]
            score = _row_score(indices, values, start, stop, slopes)
            u = -signs[i] * (score + intercept)
            rise = u - floor[i]
            new = max(old + rise / bends[i], 0.0)
            if new <= s[i]:
                missed = (s[i] - old) * rise + 0.125 * rise * rise if rise > 0 else -old * rise
                loss = s[i] * max(rise, 0.0) - log1p(-s[i])
            else:
                new, missed, loss = _smooth_multiplier(u, old, bends[i])
            total += w * loss
            distance += w * missed
            if new != old:
                a[i] = new
                change = w * signs[i] * (new - old)
                intercept += per_shift * change
                change *= per_unit
                for k in range(start, stop):
                    slopes[indices[k]] += change * values[k]
    return intercept, total, distance


@loop(error_model="numpy")
def add_pairs(
    indptr: Array, indices: Array, values: Array, weights: Array, out: Array, start: int, stop: int
) -> None:
    """Add w x x' of sparse rows start to stop to the lower triangles of matrices (M, d, d).

    The columns of a row are in rising order, each of them once. Rows of no weight are skipped.
    """
    for m in range(weights.shape[1]):
        total = out[m]
        for i in range(start, stop):
            w = weights[i, m]
            if w == 0.0:
                continue
            for j in range(indptr[i], indptr[i + 1]):
                scaled, row = w * values[j], total[indices[j]]
                for k in range(indptr[i], j + 1):
                    row[indices[k]] += scaled * values[k]
