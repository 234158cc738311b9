"""Rows held out of a fit, wherever they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from grayzone.numerics.checks import as_numpy, check_number
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.lots import Lots, draw_lots

Array = Any


def check_fraction(value: Any) -> None:
    """Check a share of rows to be held out."""
    if not 0.0 < check_number("validation_fraction", value) < 1.0:
        raise ValueError(f"validation_fraction must be between 0 and 1; got {value!r}.")


def split_rows(
    codes: Array, classes: Array, share: float, rng: np.random.RandomState
) -> tuple[Array, Array]:
    """Split rows by class into training and held-out ones, both in ascending order."""
    counts = np.bincount(codes, minlength=len(classes))
    if counts.min() < 2:
        raise ValueError(
            f"Holding rows out takes two rows of each class; class "
            f"{classes[int(np.argmin(counts))]!r} has {counts.min()}."
        )
    held_out = np.zeros(codes.size, dtype=bool)
    for code, count in enumerate(counts):
        # at least one row of each class on either side
        n_out = min(max(round(share * count), 1), count - 1)
        held_out[rng.permutation(np.flatnonzero(codes == code))[:n_out]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def split(
    labelled: Labelled, share: float, rng: np.random.RandomState
) -> tuple[Labelled, Labelled]:
    """Split rows into those to fit to and those held out, about a share of each class.

    There is at least one row of each class on either side. Of rows that are held the share is
    exact; streamed rows are told apart by their numbers, without a list of them.
    """
    if labelled.held is not None:
        codes = as_numpy(labelled.held.codes)
        train, out = split_rows(codes, labelled.classes, share, rng)
        return labelled.take(train), labelled.take(out)
    lots, counts, mass = draw_lots(labelled.plain, share, rng)
    parts = (
        replace(labelled, counts=counts[:, k], mass=mass[:, k], part=_Side(lots, bool(k)))
        for k in (0, 1)
    )
    train_part, out_part = parts
    return train_part, out_part


@dataclass(frozen=True)
class _Side:
    """The held-out rows, or the others; the rest has no weight."""

    lots: Lots
    out: bool

    def __call__(self, rows: Rows) -> Rows:
        xp = array_namespace(rows.codes)
        mine = self.lots.held_out(rows)
        return rows.weighing(xp.where(mine if self.out else ~mine, rows.weight, 0.0))
