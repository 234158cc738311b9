"""Compiled loops of fits that select features: coordinate descent, and sparse Gram matrices.

Compiled by numba on first use and cached on disk; imported where an l1 penalty is fitted, and
nowhere else. All functions release the interpreter lock.
"""

from __future__ import annotations

from typing import Any

from grayzone.numerics.compiled import loop, part

Array = Any


@part(error_model="numpy")
def _moved_to(a: float, slope: float, bend: float, l1: float) -> float:
    """Minimiser of slope (x - a) + bend (x - a)^2 / 2 + l1 |x|: a soft threshold.

    Without any curvature it is 0, or there is none.
    """
    if bend <= 0.0:
        return 0.0 if abs(slope) < l1 else a
    x = a - slope / bend
    most = l1 / bend
    if x > most:
        return x - most
    if x < -most:
        return x + most
    return 0.0


@part(error_model="numpy")
def _violation(a: float, slope: float, l1: float) -> float:
    """Distance of 0 from slope + l1 sign(a), or from its interval where a is 0."""
    if a > 0.0:
        return abs(slope + l1)
    if a < 0.0:
        return abs(slope - l1)
    return max(abs(slope) - l1, 0.0)


@loop(error_model="numpy")
def descend_gram(H: Array, slope: Array, a: Array, l1: Array, tol: float, passes: int) -> float:
    """Minimise slope'd + d'Hd / 2 + sum of l1 |a + d| coordinate by coordinate.

    ``a`` becomes a + d and ``slope`` the gradient there. Returns the largest violation of the
    optimality conditions that the last pass met, each coordinate at its turn.
    """
    n = a.shape[0]
    worst = 0.0
    for _ in range(passes):
        worst = 0.0
        for j in range(n):
            worst = max(worst, _violation(a[j], slope[j], l1[j]))
            x = _moved_to(a[j], slope[j], H[j, j], l1[j])
            step = x - a[j]
            if step != 0.0:
                a[j] = x
                for k in range(n):
                    slope[k] += step * H[j, k]
        if worst <= tol:
            break
    return worst


@part(error_model="numpy")
def _column_slope(rows: Array, values: Array, pull: Array, start: int, stop: int) -> float:
    total = 0.0
    for k in range(start, stop):
        total += values[k] * pull[rows[k]]
    return total


@part(error_model="numpy")
def _visit(
    j: int,
    rows: Array,
    values: Array,
    bent: Array,
    starts: Array,
    bends: Array,
    pull: Array,
    a: Array,
    l1: float,
    ridge: float,
) -> tuple[float, float]:
    """Move one coordinate to its best value; gives its violation, and about its decrease."""
    slope = _column_slope(rows, values, pull, starts[j], starts[j + 1]) + ridge * a[j]
    bend = bends[j] + ridge
    wrong = _violation(a[j], slope, l1)
    if wrong == 0.0:
        return wrong, 0.0
    x = _moved_to(a[j], slope, bend, l1)
    step = x - a[j]
    if step != 0.0:
        a[j] = x
        for k in range(starts[j], starts[j + 1]):
            pull[rows[k]] += step * bent[k]
    return wrong, wrong * abs(step)


@loop(error_model="numpy")
def descend_columns(
    rows: Array,
    values: Array,
    starts: Array,
    weight: Array,
    pull: Array,
    a: Array,
    free: bool,
    l1: float,
    ridge: float,
    share: float,
    passes: int,
) -> float:
    """Minimise the quadratic model of weighted columns plus the penalty, coordinate by coordinate.

    The model is pull'Xd + (Xd)'W(Xd) / 2 for the columns of a CSC matrix and row weights W; ``a``
    holds the coefficients, the intercept last, and becomes a + d, ``pull`` the model's gradient
    in the scores there. Between passes over all columns there are passes over those that moved;
    they end when a pass gains less than ``share`` of what the first did. Returns the largest
    violation that the last whole pass met.
    """
    n, m = weight.shape[0], starts.shape[0] - 1
    bent, bends, moving = values.copy(), a.copy(), a != 0.0
    total = 0.0
    for i in range(n):
        total += weight[i]
    for j in range(m):
        bends[j] = 0.0
        for k in range(starts[j], starts[j + 1]):
            bent[k] *= weight[rows[k]]
            bends[j] += bent[k] * values[k]
    first, worst, whole = -1.0, 0.0, True
    for _ in range(passes):
        gain = 0.0
        if whole:
            worst = 0.0
        for j in range(m):
            if not (whole or moving[j]):
                continue
            wrong, gained = _visit(j, rows, values, bent, starts, bends, pull, a, l1, ridge)
            worst = max(worst, wrong) if whole else worst
            gain += gained
            moving[j] = gained > 0.0 or a[j] != 0.0
        if free and total > 0.0:
            off = 0.0
            for i in range(n):
                off += pull[i]
            step = -off / total
            a[m] += step
            for i in range(n):
                pull[i] += step * weight[i]
            gain += step * step * total
        if first < 0.0:
            first = gain
        small = gain <= share * first
        if whole and small:
            break
        whole = small
    return worst


@loop(error_model="numpy")
def gram_of_rows(starts: Array, columns: Array, values: Array, weight: Array, H: Array) -> None:
    """Add the sum of w x x' over the rows of a CSR matrix to the lower triangle of H.

    Columns ascend within each row.
    """
    for i in range(weight.shape[0]):
        if weight[i] == 0.0:
            continue
        for k in range(starts[i], starts[i + 1]):
            scaled = weight[i] * values[k]
            row = columns[k]
            for m in range(starts[i], k + 1):
                H[row, columns[m]] += scaled * values[m]
