r"""Rows near the kink by principal pivoting: which of them saturate, lie on the hinge, or count.

With the loss of each near row replaced by two pieces that meet in the kink, flat below F and

.. math:: w_i \bigl(s_i (u - F_i) + \tfrac{c_i}{2} (u - F_i)^2\bigr)

above it, what is left of a step is a linear complementarity problem of the size of these rows. With
H the Hessian of the model, J the slopes of their margins, :math:`Q = J H^{-1} J'` and r the
distances from the kink that they would have without any multiplier,

.. math:: r - Q a = \begin{cases} \le 0, & a = 0 \\ 0, & 0 \le a \le w s \\
          (a - w s) / w c, & a \ge w s. \end{cases}

All rows that are on a wrong piece change it at once, as long as that leaves ever fewer of them, and
else only the one that is furthest off (block principal pivoting, after Portugal, Júdice & Vicente
1994). Where that goes round in circles, springs between rows and the kink, a multiple of the
diagonal of Q that becomes smaller and smaller, lead to a better first partition. Each trial solves one system of the
size of the active rows: where these are a few dozen, all trials together cost less than two
iterations of an interior point, and end on the hinge exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv, dpotrs

from grayzone.numerics.losses import sigmoid
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.interior_point import Inner, Quadratic
from grayzone.solvers.truncated.systems import few_rows, is_held

Array = Any

# Rows up to which systems of their number cost next to nothing.
MOST_ROWS = 150
# Springs of rows, as shares of the diagonal of Q; none at first, which mostly does.
_SPRINGS = (0.0, *np.geomspace(1.0, 1e-6, 13), 0.0)
_MOST_TRIALS = 12  # partitions with each of them
_ROUNDING = 1e-12
_FLAT, _HINGE, _CURVED = 0, 1, 2


class _Pieces(NamedTuple):
    """Distances r of rows from the kink, what multipliers take off them, and the upper pieces."""

    distance: Array
    grip: Array  # Q
    top: Array  # w s
    bend: Array  # w c


def by_pivoting(
    rows: Problem, model: Quadratic, scores: Array, guess: Array | None = None
) -> Inner | None:
    """Minimise the model plus the pieces of all rows; None where no partition is found.

    The pieces that rows are tried on first are those of the multipliers ``guess`` (of unit-weight
    losses), or those that they are on where that is NaN. Rows have one score, and the model alone
    has to determine a step.
    """
    if not (isinstance(rows.margins, SignedMargin) and is_held(rows, model.hessian)):
        return None
    few = few_rows(rows, model.hessian)
    w, floor, signs = rows.weight, rows.loss.floor, -rows.margins.y
    u = rows.margins.margin(scores)
    free = -few.base(model.gradient.ravel())
    pieces = _Pieces(
        u + signs * (few.rows @ free) - floor,
        signs[:, None] * few.inner * signs,
        *_upper(w, u, floor),
    )
    part = np.where(u > floor, _CURVED, _FLAT)
    if guess is not None:
        known = (guess > 0).astype(int) + (w * guess >= pieces.top)
        part = np.where(np.isnan(guess), part, known)
    a = _solved(pieces, part)
    if a is None:
        return None
    change = free - few.base(few.rows.T @ (signs * a))
    moved = scores + (few.rows @ change)[:, None]
    return Inner(change.reshape(model.gradient.shape), moved, a / w, 1, True)


def _upper(w: Array, u: Array, floor: Array) -> tuple[Array, Array]:
    """Slope at the kink and curvature of the piece above it, which touches the loss at u."""
    at = np.maximum(u, floor)
    slope = sigmoid(at)
    bend = slope * (1.0 - slope)
    return w * (slope - bend * (at - floor)), w * bend


def _solved(pieces: _Pieces, part: Array) -> Array | None:
    """Multipliers that solve the problem, sought from a first partition; None where not found."""
    own = np.diagonal(pieces.grip)
    bounds = _bounds(pieces)
    for share in _SPRINGS:
        a = _pivoted(pieces, bounds, part, share * own)
        if share == 0.0 and a is not None:
            return a
    return None


def _bounds(pieces: _Pieces) -> tuple[Array, Array]:
    """Least and largest values (3, m) on each piece: of a distance below the kink, else of a."""
    top, near = pieces.top, _ROUNDING * max(1.0, float(np.max(np.abs(pieces.distance))))
    slack, none = _ROUNDING * top, np.full(top.size, np.inf)
    return np.stack([-none, -slack, top - slack]), np.stack([0.0 * top + near, top + slack, none])


def _pivoted(
    pieces: _Pieces, bounds: tuple[Array, Array], part: Array, springs: Array
) -> Array | None:
    """Multipliers that contradict none of the pieces; ``part`` is left at the last ones tried."""
    (least, most), fewest, every = bounds, part.size + 1, np.arange(part.size)
    for _ in range(_MOST_TRIALS):
        a = _multipliers(pieces, part, springs)
        if a is None:
            return None
        key = np.where(part == _FLAT, pieces.distance - pieces.grip @ a, a)
        below, above = least[part, every] - key, key - most[part, every]
        off = np.maximum(below, above)
        wrong = np.flatnonzero(off > 0.0)
        if not wrong.size:
            return a
        if wrong.size < fewest:
            fewest = wrong.size
        else:
            wrong = wrong[[np.argmax(_in_margins(pieces, part, off)[wrong])]]
        part[wrong] += np.where(above[wrong] > 0.0, 1, -1)
    return None


def _in_margins(pieces: _Pieces, part: Array, off: Array) -> Array:
    """By how much values are out of their bounds, in units of the margin."""
    hinge = off * np.diagonal(pieces.grip)
    return np.where(part == _FLAT, off, np.where(part == _HINGE, hinge, off / pieces.bend))


def _multipliers(pieces: _Pieces, part: Array, springs: Array) -> Array | None:
    """Multipliers that put rows on their pieces; None where these do not determine them."""
    a = np.zeros(part.size)
    active = np.flatnonzero(part)
    if not active.size:
        return a
    rise = np.where(part == _CURVED, 1.0 / pieces.bend, 0.0)
    goal = (pieces.distance + rise * pieces.top)[active]
    matrix = pieces.grip[active[:, None], active]
    diagonal = np.einsum("ii->i", matrix)
    diagonal += (springs + rise)[active]
    held = matrix.copy()
    # rows that are alike share a multiplier
    np.einsum("ii->i", held)[...] += _ROUNDING * diagonal
    factor, found, failed = dposv(held, goal, lower=True)
    if failed:
        return None
    a[active] = found + dpotrs(factor, goal - matrix @ found, lower=True)[0]
    return a
