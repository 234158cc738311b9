"""Rows held out of a fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone._validation import check_number

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
