"""Stratified folds of streamed rows: those of scikit-learn, without a list of rows.

:class:`sklearn.model_selection.StratifiedKFold`, not shuffled, gives the first rows of each class
to the first fold, the next ones to the second, and so on. So the fold of a row follows from its
class and from how many rows of that class come before it, which is known of a piece of rows once
those of all pieces have been counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.backend import moved
from grayzone.numerics.namespace import array_namespace
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any


@dataclass(frozen=True)
class Deal:
    """How rows are dealt out to folds.

    Attributes
    ----------
    before : dict of {int: tuple of int}
        How many rows of each class there are before a piece, by the number of its first row.
    ends : tuple of tuple of int
        For each class, how many of its rows the first fold has, the first two folds, and so on.
    """

    before: dict[int, tuple[int, ...]]
    ends: tuple[tuple[int, ...], ...]

    def fold_of(self, rows: Rows) -> Array:
        """Return the number of the fold of each row."""
        xp, folds = array_namespace(rows.codes), rows.codes
        for code, ends in enumerate(self.ends):
            own = rows.codes == code
            rank = xp.cumulative_sum(xp.astype(own, xp.int64)) - 1 + self.before[rows.first][code]
            cuts = moved(np.array(ends), rows.codes)
            place = xp.searchsorted(cuts, rank, side="right")
            folds = xp.where(own, xp.astype(place, rows.codes.dtype), folds)
        return folds


@dataclass(frozen=True)
class OneFold:
    """The rows of one fold, which are held out."""

    deal: Deal
    number: int

    def held_out(self, rows: Rows) -> Array:
        """Return which rows are held out."""
        return self.deal.fold_of(rows) == self.number


class Dealt(NamedTuple):
    """Folds, with how many rows (n_folds, K) have a weight in each, and what they weigh."""

    deal: Deal
    counts: Array
    mass: Array


def deal_rows(plain: Labelled, n_folds: int) -> Dealt:
    """Deal streamed rows out to folds; reads them twice.

    Rows without a weight have their places in the order, as they have where all rows are at hand.
    """
    found = plain.reduce(_Census(len(plain.classes)))
    counts = np.array([own for _, own in found["counts"]])
    most = int(counts.sum(axis=0).max())
    if n_folds > most:
        raise ValueError(f"cv={n_folds} folds are more than any class has rows: {most}.")
    before = np.cumsum(counts, axis=0) - counts
    order = np.argsort(np.min(found["seen"], axis=0), kind="stable")
    ends = _ends(counts.sum(axis=0), order, n_folds)
    firsts = (first for first, _ in found["counts"])
    deal = Deal({n: tuple(b) for n, b in zip(firsts, before.tolist(), strict=True)}, ends)
    sums = plain.reduce(_Weighed(deal, n_folds, len(plain.classes)))
    return Dealt(deal, sums["counts"], sums["mass"])


def _ends(counts: Array, order: Array, n_folds: int) -> tuple[tuple[int, ...], ...]:
    """Share classes out: in a list of all rows by class, the i-th row counts for fold i modulo n.

    Classes are listed in the order of their first rows.
    """
    start, ends = 0, [()] * counts.size
    for code in order:
        stop = start + int(counts[code])
        shares = [len(range(start + (k - start) % n_folds, stop, n_folds)) for k in range(n_folds)]
        ends[code], start = tuple(np.cumsum(shares).tolist()), stop
    return tuple(ends)


@dataclass(frozen=True)
class _Census:
    """How many rows of each class a piece has, and the first of each."""

    n_classes: int

    def __call__(self, rows: Rows) -> Sums:
        xp, numbers = array_namespace(rows.codes), rows.places()
        counts, seen = [], []
        for code in range(self.n_classes):
            own = rows.codes == code
            counts.append(int(xp.count_nonzero(own)))
            seen.append(int(xp.min(xp.where(own, numbers, 2**62))))
        return {"counts": [(rows.first, counts)], "seen": [seen]}


@dataclass(frozen=True)
class _Weighed:
    """Rows with a weight and what they weigh, by fold and class."""

    deal: Deal
    n_folds: int
    n_classes: int

    def __call__(self, rows: Rows) -> Sums:
        xp, folds = array_namespace(rows.codes), self.deal.fold_of(rows)
        counts = np.zeros((self.n_folds, self.n_classes), dtype=np.int64)
        mass = np.zeros((self.n_folds, self.n_classes))
        for fold in range(self.n_folds):
            for code in range(self.n_classes):
                own = (folds == fold) & (rows.codes == code) & (rows.weight > 0)
                counts[fold, code] = int(xp.count_nonzero(own))
                mass[fold, code] = float(xp.sum(xp.where(own, rows.weight, 0.0)))
        return {"counts": counts, "mass": mass}
