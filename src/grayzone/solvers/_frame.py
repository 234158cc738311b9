"""Criterion (8) without its rows: what turns any block of them into its part of the problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device

from grayzone._compat import moved
from grayzone.blocks import LabelledBlocks, Rows
from grayzone.blocks._source import Sums
from grayzone.designs import as_design
from grayzone.losses import Margins, SignedMargin, SoftmaxMargin, TruncatedLogistic
from grayzone.solvers._problem import Problem

Array = Any

# Entries of the rows that a fit by blocks may hold at a time: 32 MB of double precision.
MOST_HELD = 2**22


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
    def has_kinks(self) -> bool:
        """Whether any class has a floor."""
        return bool(np.any(np.isfinite(self.floors)))

    def problem(self, rows: Rows) -> Problem:
        """Give the part of the problem that these rows are."""
        xp = array_namespace(rows.codes)
        floors = xp.take(moved(self.floors, rows.weight), rows.codes)
        design = as_design(rows.X, self.fit_intercept)
        margins, weight = self._margins(rows), rows.weight
        if self.beyond is not None:
            u = margins.margin(design.scores(self.beyond))
            ceilings = xp.take(moved(self.ceilings, rows.weight), rows.codes)
            weight = xp.where(u > ceilings, 0.0, weight)
        return Problem(design, margins, TruncatedLogistic(floors), weight, self.penalty)

    def _margins(self, rows: Rows) -> Margins:
        xp = array_namespace(rows.codes)
        if self.n_classes == 2:
            return SignedMargin(xp.where(rows.codes == 1, xp.ones_like(rows.weight), -1.0))
        known = xp.arange(self.n_classes, device=device(rows.codes))
        return SoftmaxMargin(rows.codes[:, None] == known[None, :])

    def prior_coef(self, mass: Array, n_features: int, like: Array) -> Array:
        """Zero slopes, and the intercepts that give back the class priors."""
        coef = np.zeros((self.n_outputs, n_features + int(self.fit_intercept)))
        if self.fit_intercept:
            margins = SignedMargin if self.n_classes == 2 else SoftmaxMargin
            coef[:, -1] = margins.prior_scores(np.log(mass))
        return moved(coef, like)


class Gathered(NamedTuple):
    """Rows that were brought together, with their numbers among all."""

    rows: Rows
    numbers: Array


def gather(parts: list[Gathered], like: Array, n_features: int) -> Gathered:
    """Put gathered rows together, in their order."""
    xp = array_namespace(like)
    place = device(like)
    if not parts:
        empty = xp.zeros((0,), dtype=xp.float64, device=place)
        numbers = xp.zeros((0,), dtype=xp.int64, device=place)
        X = xp.zeros((0, n_features), dtype=xp.float64, device=place)
        return Gathered(Rows(X, numbers, empty, 0), numbers)
    if len(parts) == 1:
        return parts[0]
    rows = Rows(
        xp.concat([p.rows.X for p in parts]),
        xp.concat([p.rows.codes for p in parts]),
        xp.concat([p.rows.weight for p in parts]),
        0,
    )
    return Gathered(rows, xp.concat([p.numbers for p in parts]))


def picked(rows: Rows, places: Array) -> list[Gathered]:
    """Gather these rows of a block, in double precision."""
    if places.shape[0] == 0:
        return []
    xp = array_namespace(rows.codes)
    some = rows.take(places)
    X = some.X.toarray() if sp.issparse(some.X) else some.X
    X = X if X.dtype == xp.float64 else xp.astype(X, xp.float64)
    return [Gathered(Rows(X, some.codes, some.weight, rows.first), rows.first + places)]


@dataclass(frozen=True)
class Draw:
    """Every k-th row of each class in each block, k its stride."""

    strides: tuple[int, ...]

    def __call__(self, rows: Rows) -> Sums:
        """Gather the drawn rows, what each class of them weighs in place of all."""
        xp = array_namespace(rows.codes)
        drawn = []
        for code, stride in enumerate(self.strides):
            places = xp.nonzero((rows.codes == code) & (rows.weight > 0))[0]
            drawn.append(places[::stride])
        return {"drawn": picked(rows, xp.sort(xp.concat(drawn)))}


def draw_sample(labelled: LabelledBlocks, most: int) -> Gathered:
    """Draw about so many rows, of rare classes more, weighted so that they stand for all.

    Parameters
    ----------
    labelled : LabelledBlocks
        All rows.
    most : int
        How many rows, about: there is at least one of each class from every block.

    Returns
    -------
    sample : Gathered
        The rows; those of each class weigh as much as all of that class do.
    """
    share = max(1, most // len(labelled.classes))
    # what rare classes do not use, the others may
    spare = np.maximum(share - labelled.counts, 0).sum() / max(1, np.sum(labelled.counts > share))
    strides = np.maximum(1, np.ceil(labelled.counts / (share + spare)))
    like = labelled.source.like()
    found = labelled.reduce(Draw(tuple(int(s) for s in strides)))
    rows, numbers = gather(found["drawn"], like, labelled.source.n_features)
    xp = array_namespace(rows.codes)
    factors = [
        mass / max(float(xp.sum(xp.where(rows.codes == code, rows.weight, 0.0))), 1e-300)
        for code, mass in enumerate(labelled.mass * labelled.factors)
    ]
    weight = rows.weight * xp.take(moved(np.array(factors), rows.weight), rows.codes)
    return Gathered(Rows(rows.X, rows.codes, weight, 0), numbers)
