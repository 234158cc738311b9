"""Criterion (8) without its rows: what turns any block of them into its part of the problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from grayzone.numerics.backend import moved
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.margins import Margins, SignedMargin, SoftmaxMargin
from grayzone.solvers.problem import Problem
from grayzone.sources.labelled import Rows

Array = Any

# Entries of the rows that a fit by blocks may hold at a time: 32 MB of double precision.
MOST_HELD = 2**22
# Rows up to which all losses are better treated exactly at once than by a sample and a band.
EXACT_ROWS = 4000


@dataclass(frozen=True)
class Frame:
    """Floors of the classes, penalty and intercept; small, for it travels with every task.

    Rows whose margin at the coefficients ``beyond`` is above their class's ceiling are left out:
    those that the ramp loss gives up.
    """

    floors: Array
    penalty: float
    fit_intercept: bool
    ceilings: Array | None = None
    beyond: Array | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.floors.shape[0])

    @property
    def n_outputs(self) -> int:
        """Scores per row."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def kind(self) -> type[Margins]:
        """Map from scores to margins."""
        return SignedMargin if self.n_classes == 2 else SoftmaxMargin

    @property
    def has_kinks(self) -> bool:
        """Whether any class has a floor."""
        return bool(np.any(np.isfinite(self.floors)))

    @property
    def is_uniform(self) -> bool:
        """Whether all classes have a floor, or none has."""
        return bool(np.all(np.isfinite(self.floors))) or not self.has_kinks

    def problem(self, rows: Rows) -> Problem:
        """Give the part of the problem that these rows are."""
        xp = array_namespace(rows.codes)
        floors = xp.take(moved(self.floors, rows.weight), rows.codes)
        design = rows.design(self.fit_intercept)
        margins, weight = self._margins(rows), rows.weight
        if self.beyond is not None:
            u = margins.margin(design.scores(self.beyond))
            ceilings = xp.take(moved(self.ceilings, rows.weight), rows.codes)
            weight = xp.where(u > ceilings, 0.0, weight)
        return Problem(design, margins, TruncatedLogistic(floors), weight, self.penalty)

    def _margins(self, rows: Rows) -> Margins:
        xp = array_namespace(rows.codes)
        if self.n_classes == 2:
            return self.kind(xp.where(rows.codes == 1, xp.ones_like(rows.weight), -1.0))
        known = xp.arange(self.n_classes, device=device(rows.codes))
        return self.kind(rows.codes[:, None] == known[None, :])

    def prior_coef(self, mass: Array, n_features: int, like: Array) -> Array:
        """Zero slopes, and the intercepts that give back the class priors."""
        coef = np.zeros((self.n_outputs, n_features + int(self.fit_intercept)))
        if self.fit_intercept:
            coef[:, -1] = self.kind.prior_scores(np.log(mass))
        return moved(coef, like)
