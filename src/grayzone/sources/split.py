"""Rows held out of a fit, wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.checks import as_numpy, check_number
from grayzone.numerics.namespace import array_namespace
from grayzone.sources.deal import OneFold, deal_rows
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.lots import Lots, draw_lots

Array = Any
# Rows to fit to, or those held out: made when they are wanted, for copies take memory.
Side = Callable[[], Labelled]


class Fold(NamedTuple):
    """Both sides of a fold."""

    train: Side
    out: Side


def check_fraction(value: Any) -> None:
    """Check a share of rows to be held out."""
    if not 0.0 < check_number("validation_fraction", value) < 1.0:
        raise ValueError(f"validation_fraction must be between 0 and 1; got {value!r}.")


def split_rows(
    codes: Array, classes: Array, share: float, rng: np.random.RandomState, by_class: bool = True
) -> tuple[Array, Array]:
    """Split rows into training and held-out ones, both in ascending order.

    There is at least one row of each class on either side. ``by_class`` the share is that of each
    class; otherwise of all rows, of which those held out are then drawn independently.
    """
    counts = np.bincount(codes, minlength=len(classes))
    if counts.min() < 2:
        raise ValueError(
            f"Holding rows out takes two rows of each class; class "
            f"{classes[int(np.argmin(counts))]!r} has {counts.min()}."
        )
    held_out = np.zeros(codes.size, dtype=bool)
    if not by_class:
        held_out[rng.permutation(codes.size)[: round(share * codes.size)]] = True
    for code, count in enumerate(counts):
        own = np.flatnonzero(codes == code)
        n_drawn = round(share * count) if by_class else int(held_out[own].sum())
        n_out = min(max(n_drawn, 1), count - 1)
        if by_class or n_out != n_drawn:
            held_out[own] = False
            held_out[rng.permutation(own)[:n_out]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def split(
    labelled: Labelled, share: float, rng: np.random.RandomState, by_class: bool = True
) -> tuple[Labelled, Labelled]:
    """Split rows into those to fit to and those held out, about a share of each class.

    There is at least one row of each class on either side. Of rows that are held the share is
    exact, of each class or of all rows; streamed rows are told apart by their numbers, without a
    list of them.
    """
    if labelled.held is not None:
        codes = as_numpy(labelled.held.codes)
        train, out = split_rows(codes, labelled.classes, share, rng, by_class)
        return labelled.take(train), labelled.take(out)
    lots, counts, mass = draw_lots(labelled.plain, share, rng)
    train_part, out_part = (
        labelled.part_of(_Side(lots, bool(k)), counts[:, k], mass[:, k]) for k in (0, 1)
    )
    return train_part, out_part


def stratified_folds(labelled: Labelled, n_folds: int) -> list[Fold]:
    """Split streamed rows into the folds that scikit-learn makes of them, not shuffled."""
    deal, counts, mass = deal_rows(labelled.plain, n_folds)
    folds = []
    for k in range(n_folds):
        others, one = np.arange(n_folds) != k, OneFold(deal, k)
        check_fold(k, labelled.classes, counts[others].sum(axis=0), counts[k])
        weighed = counts[others].sum(axis=0), mass[others].sum(axis=0)
        train = partial(labelled.part_of, _Side(one, False), *weighed)
        folds.append(Fold(train, partial(labelled.part_of, _Side(one, True), counts[k], mass[k])))
    return folds


def check_fold(number: int, classes: Array, n_train: Array, n_out: Array) -> None:
    """Check that a fold can be fitted and scored, by its rows of each class that have a weight."""
    if not np.any(n_out):
        raise ValueError(f"Fold {number} of cv holds out no row with a positive weight.")
    if not np.all(n_train):
        absent = classes[n_train == 0]
        raise ValueError(
            f"Fold {number} of cv leaves the classes {absent.tolist()} without a training row "
            "of positive weight; use fewer or stratified folds."
        )


@dataclass(frozen=True)
class _Side:
    """The held-out rows, or the others; the rest has no weight."""

    lots: Lots | OneFold
    out: bool

    def __call__(self, rows: Rows) -> Rows:
        xp = array_namespace(rows.codes)
        mine = self.lots.held_out(rows)
        return rows.weighing(xp.where(mine if self.out else ~mine, rows.weight, 0.0))
