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
diagonal of Q that becomes smaller and smaller, lead to a better first partition. Each trial solves
one system of the size of the active rows: where these are a few dozen, all trials together mostly
cost less than two iterations of an interior point, and end on the hinge exactly.
"""

from __future__ import annotations

from typing import Any

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
# Springs of rows, as shares of the diagonal of Q: none, which mostly does, or weak ones for a
# while, or from strong ones on.
_SPRINGS = (0.0, 0.01, 0.0, *np.geomspace(1.0, 1e-6, 13), 0.0)
_MOST_TRIALS = 12  # partitions with each of them
_ROUNDING, _EQUAL, _ALIKE = 1e-12, 1e-14, 1.0 - 1e-6
_FLAT, _HINGE, _CURVED = 0, 1, 2


class _Pieces:
    """Distances of rows from the kink, what multipliers take off them, and the pieces of each.

    Parameters
    ----------
    distance : array of shape (m,)
        The distances r without any multiplier.
    grip : array of shape (m, m)
        The matrix Q.
    weight, top, bend : arrays of shape (m,)
        Weights w of the rows, weighted slopes w s at the kink and curvatures w c above it.
    """

    def __init__(
        self, distance: Array, grip: Array, weight: Array, top: Array, bend: Array
    ) -> None:
        self.distance, self.grip, self.weight, self.top = distance, grip, weight, top
        self.own = np.diagonal(grip)
        self.like = self._like()
        near = _ROUNDING * max(1.0, float(np.abs(distance).max()))
        slack, soft, ones = _ROUNDING * top, 1.0 / bend, np.ones(top.size)
        none, any_ = 0.0 * ones, np.inf * ones
        self.rows = np.arange(top.size)
        # of each piece: the least and the largest value on it, of the distance below the kink and
        # else of the multiplier; what it adds to the diagonal, and to the right-hand side; what a
        # unit of these values is as a distance
        self.table = np.array(
            [
                [-any_, -slack, top - slack],
                [near * ones, top + slack, any_],
                [none, none, soft],
                [distance, distance, distance + soft * top],
                [ones, self.own, soft],
            ]
        )

    def _like(self) -> Array | None:
        """Which rows are alike (m, m), the margins that they would have included; None for none."""
        own, r = self.own, self.distance
        like = own[:, None] + own - 2.0 * self.grip <= _EQUAL * own
        if np.count_nonzero(like) == own.size:
            return None
        return like & like.T & (np.abs(r[:, None] - r) <= _EQUAL * (1.0 + np.abs(r)))

    def shared(self, a: Array) -> Array:
        """Multipliers of rows that are alike in proportion to their weights: only sums matter."""
        if self.like is None:
            return a
        return self.weight * (self.like @ a) / (self.like @ self.weight)


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
    u = signs * scores[:, 0]
    free = -few.base(model.gradient.ravel())
    distance, grip = u + signs * (few.rows @ free) - floor, signs[:, None] * few.inner * signs
    pieces = _Pieces(distance, grip, w, *_upper(w, u, floor))
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
    for share in _SPRINGS:
        a = _pivoted(pieces, part, share)
        if share == 0.0 and a is not None:
            return a
    return None


def _pivoted(pieces: _Pieces, part: Array, share: float) -> Array | None:
    """Multipliers that contradict none of the pieces; ``part`` is left at the last ones tried."""
    fewest, rows = part.size + 1, pieces.rows
    springs = (share + _ROUNDING) * pieces.own
    for _ in range(_MOST_TRIALS):
        least, most, rise, goal, unit = pieces.table[:, part, rows]
        active = part.nonzero()[0]
        a, factor = np.zeros(part.size), None
        if active.size:
            matrix = pieces.grip.take(active, axis=0).take(active, axis=1)
            matrix.reshape(-1)[:: active.size + 1] += (springs + rise)[active]
            factor, a[active], failed = dposv(matrix, goal[active], lower=True)
            if failed:
                return None
            a = pieces.shared(a)
        key = np.where(part == _FLAT, pieces.distance - pieces.grip @ a, a)
        above = key - most
        off = np.maximum(least - key, above)
        wrong = (off > 0.0).nonzero()[0]
        if not wrong.size:
            # once more, for what those springs took away that are only there to hold
            if factor is not None:
                a[active] += dpotrs(factor, _ROUNDING * (pieces.own * a)[active], lower=True)[0]
            return pieces.shared(a)
        if wrong.size < fewest:
            fewest = wrong.size
        else:
            worst = (off * unit)[wrong]
            wrong = wrong[worst >= _ALIKE * worst.max()]  # rows that are alike go together
        part[wrong] += np.where(above[wrong] > 0.0, 1, -1)
    return None
