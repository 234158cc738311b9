"""Losses of rows far from the kink to second order, and multipliers after a step of that model."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.losses import sigmoid
from grayzone.numerics.margins import SignedMargin
from grayzone.numerics.pieces import least_rows, looped
from grayzone.solvers.problem import Problem

Array = Any

# Share of a slope s, and of 1 - s, that is left to a multiplier which a step takes beyond 0 or 1.
LEAST = 0.01


class Parabolas(NamedTuple):
    """Losses of some rows of two classes by their scores, with weights, to second order."""

    rows: Array
    pull: Array  # first derivatives
    curvature: Array  # second ones

    @classmethod
    def of(cls, problem: Problem, u: Array, rows: Array) -> Parabolas:
        """Return those of losses at margins u, by one compiled pass where rows are many."""
        assert isinstance(problem.margins, SignedMargin)
        w, y, loss = problem.weight, problem.margins.y, problem.loss
        if rows.size < least_rows(loss.is_loaded):
            slope, bend = loss.take(rows).slopes(u[rows])
            return cls(rows, -y[rows] * (w[rows] * slope), w[rows] * bend)
        # compiles, so only when needed
        from grayzone.numerics.jit_losses import second_order

        found = cls(rows, np.empty(rows.size), np.empty(rows.size))
        columns = u, loss.floor, w, y
        looped(second_order, rows, *columns, found.curvature, found.pull, n_rows=rows.size)
        return found

    def of_rows(self, rows: Array) -> Parabolas:
        """Return those of some rows; rows that have none are left out."""
        place = np.flatnonzero(np.isin(self.rows, rows, assume_unique=True))
        return Parabolas(*(column[place] for column in self))

    def second_order(self, problem: Problem) -> tuple[Array, Array]:
        """Hessian and gradient in the coefficients."""
        grams, gradient = problem.design.gram(
            self.curvature[:, None], self.pull[:, None], self.rows
        )
        return grams[0], gradient

    def multipliers(self, problem: Problem, u: Array, change: Array) -> Array:
        """Multipliers after a change of the scores that led to margins u; 0 for all other rows.

        They are the derivatives of the parabolas there. Coefficients that minimise the model have
        no force left by them, while slopes at the new margins leave all that the model misjudges,
        of which a weak penalty makes a large gap. What they cost in turn, their Fenchel-Young
        losses, is of fourth order in the change.
        """
        assert isinstance(problem.margins, SignedMargin)
        rows, a = self.rows, np.zeros(u.size)
        columns = u, problem.loss.floor, problem.weight, problem.margins.y
        if rows.size >= least_rows(problem.loss.is_loaded):
            # compiles, so only when needed
            from grayzone.numerics.jit_losses import modelled

            looped(modelled, *self, *columns, change, a, LEAST, n_rows=rows.size)
            return a
        u, floor, w, y = (column[rows] for column in columns)
        there = -y * (self.pull + self.curvature * change[rows]) / w
        slope, above = sigmoid(np.maximum(u, floor)), u > floor
        least = np.where(above, np.maximum(sigmoid(floor), LEAST * slope), 0.0)
        most = np.where(above, 1.0 - LEAST * (1.0 - slope), slope)
        a[rows] = np.clip(there, least, most)
        return a
