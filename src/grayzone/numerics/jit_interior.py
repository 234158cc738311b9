"""Directions of an interior point on some thousand rows, compiled: two calls a thread for each.

NumPy would pass over the rows some thirty times, on one thread, and take the interpreter's lock for
each product with them. Nothing imports this module until many rows are fitted. Every function works
on the rows start to stop, and releases the lock.

What is known of rows is one array: slacks p and q, multipliers alpha and beta, their ratios A and
B, the curvature S and the residuals of xi, p and q, in this order (10, n).
"""

from __future__ import annotations

from typing import Any

from grayzone.numerics.compiled import loop, place
from grayzone.numerics.jit_exponential import exponential

Array = Any

# Sums of products may be in any order: that is what lets several be formed at once.
_ANY_ORDER = {"contract", "reassoc"}


@loop(error_model="numpy", fastmath=_ANY_ORDER)
def linearise(
    xi: Array,
    u: Array,
    floor: Array,
    weight: Array,
    slacks: Array,
    multipliers: Array,
    known: Array,
    omega: Array,
    found: Array,
    a: int,
    b: int,
) -> None:
    """Set what is known of rows, and their curvatures in the scores.

    What is found of all rows is twice the decrease that the residuals of xi promise, the sum of
    alpha p and beta q, and the largest of the residuals, by the rows' weights.
    """
    left, products, worst = 0.0, 0.0, 0.0
    for k in range(a, b):
        i = place(k)
        e = exponential(-abs(xi[i]))
        share = weight[i] / (1.0 + e)  # of sigma(-|xi|) or its complement
        small = e * share
        bend = small / (1.0 + e)
        p, q, alpha, beta = slacks[0, i], slacks[1, i], multipliers[0, i], multipliers[1, i]
        A, B = alpha / p, beta / q
        S = bend + A + B
        r = (share if xi[i] >= 0.0 else small) - (alpha + beta)
        known[0, i], known[1, i], known[2, i], known[3, i] = p, q, alpha, beta
        known[4, i], known[5, i], known[6, i], known[7, i] = A, B, S, r
        known[8, i], known[9, i] = xi[i] - u[i] - p, xi[i] - floor[i] - q
        omega[i] = A * (bend + B) / S
        left += r * (r / S)
        products += alpha * p + beta * q
        off = abs(r) / weight[i]
        worst = worst if off <= worst or worst != worst else off
    found[0], found[1], found[2] = left, products, worst


@loop(error_model="numpy", fastmath=_ANY_ORDER)
def complementarity(
    known: Array, slacks: Array, multipliers: Array, t: float, a: int, b: int
) -> float:
    """Sum of the products alpha p and beta q after a step t along changes (2, n) of these."""
    total = 0.0
    for j in range(2):
        for k in range(a, b):
            i = place(k)
            p, alpha = known[j, i] + t * slacks[j, i], known[j + 2, i] + t * multipliers[j, i]
            total += alpha * p
    return total


@loop(error_model="numpy", fastmath=_ANY_ORDER)
def pull_back(
    known: Array,
    slacks: Array,
    multipliers: Array,
    t: float,
    goal: Array,
    goals: Array,
    out: Array,
    a: int,
    b: int,
) -> None:
    """Set ``out`` to goals (2, n) that pull products after a step into [goal / 10, 10 goal]."""
    for j in range(2):
        for k in range(a, b):
            i = place(k)
            p, alpha = known[j, i] + t * slacks[j, i], known[j + 2, i] + t * multipliers[j, i]
            there, far = alpha * p, 10.0 * goal[i]
            out[j, i] = goals[j, i] + max(min(max(there, 0.1 * goal[i]), far) - there, -far)


@loop(error_model="numpy", fastmath=_ANY_ORDER)
def pull(
    X: Array, sign: Array, known: Array, goals: Array, work: Array, total: Array, a: int, b: int
) -> None:
    """Set ``work`` (3, n) for ``push``, and add the pull on the coefficients to ``total`` (p,).

    ``goals`` (2, n) are the products alpha p and beta q that are aimed at.
    """
    for k in range(a, b):
        i = place(k)
        x1 = goals[0, i] / known[0, i] - known[2, i] - known[4, i] * known[8, i]
        x2 = goals[1, i] / known[1, i] - known[3, i] - known[5, i] * known[9, i]
        work[0, i], work[1, i], work[2, i] = x1, x2, x1 + x2 - known[7, i]
    d = X.shape[1]
    for k in range(a, b):
        i = place(k)
        pulls = sign[i] * (work[0, i] - known[4, i] * work[2, i] / known[6, i])
        for j in range(d):
            total[j] += pulls * X[i, j]
        total[d] += pulls


@loop(error_model="numpy", fastmath=_ANY_ORDER)
def push(
    X: Array,
    sign: Array,
    known: Array,
    work: Array,
    change: Array,
    out: Array,
    found: Array,
    a: int,
    b: int,
) -> None:
    """Set ``out`` (6, n): changes of scores, xi, p, q, alpha and beta by one of the coefficients.

    What is found of all rows is how many times too long the step is for p, q, alpha or beta to stay
    positive, or 1, and how far xi goes at most.
    """
    d = X.shape[1]
    for k in range(a, b):
        i = place(k)
        score = 0.0
        for j in range(d):
            score += X[i, j] * change[j]
        out[0, i] = score + change[d]
    worst, furthest = 1.0, 0.0
    for k in range(a, b):
        i = place(k)
        du = sign[i] * out[0, i]
        up = (work[2, i] + known[4, i] * du) / known[6, i]
        out[1, i], out[2, i], out[3, i] = up, up - du + known[8, i], up + known[9, i]
        out[4, i] = work[0, i] - known[4, i] * (up - du)
        out[5, i] = work[1, i] - known[5, i] * up
        furthest = furthest if abs(up) <= furthest or furthest != furthest else abs(up)
        for j in range(4):
            # no division where there is no need of one; what is not a number is the worst of all
            if worst == worst and not -out[j + 2, i] <= worst * known[j, i]:
                worst = -out[j + 2, i] / known[j, i]
    found[0], found[1] = worst, furthest


@loop(fastmath={"contract"})
def aim(
    goal: Array, slacks: Array, multipliers: Array, goals: Array, start: int, stop: int
) -> None:
    """Set goals (2, n) for products whose changes (2, n) by a first step have a product, too."""
    for j in range(2):
        for k in range(start, stop):
            i = place(k)
            goals[j, i] = goal[i] - slacks[j, i] * multipliers[j, i]


@loop(fastmath={"contract"})
def advance(
    scores_change: Array,
    xi_change: Array,
    slacks_change: Array,
    multipliers_change: Array,
    t: float,
    sign: Array,
    scores: Array,
    u: Array,
    xi: Array,
    slacks: Array,
    multipliers: Array,
    start: int,
    stop: int,
) -> None:
    """Take a step t along changes of scores (n, 1), xi, slacks (2, n) and multipliers (2, n)."""
    for k in range(start, stop):
        i = place(k)
        scores[i, 0] += t * scores_change[i, 0]
        u[i] = sign[i] * scores[i, 0]
        xi[i] += t * xi_change[i]
        for j in range(2):
            slacks[j, i] += t * slacks_change[j, i]
            multipliers[j, i] += t * multipliers_change[j, i]
