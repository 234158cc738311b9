"""What a file holds, and the fingerprint that tells whether it is the same as another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


def whole_numbers(labels: Array) -> Array:
    """Turn the labels of a LIBSVM file, which are read as floats, into integers."""
    if not np.array_equal(labels, np.round(labels)):
        raise ValueError("some labels are no whole numbers")
    return labels.astype(np.int64)


@dataclass(frozen=True)
class Contents:
    """Rows with labels: an array of numbers, or a DataFrame."""

    data: Any
    target: Array
    feature_names: list[str]

    def fingerprint(self) -> str:
        """SHA-256 of all values, column by column: the same whatever file they came from.

        Numbers count in single precision, which is what all copies agree in, and −0 as 0, which
        is what sparse files make of it.
        """
        digest = hashlib.sha256(f"{np.shape(self.data)}".encode())
        for column in self._columns():
            if column.dtype.kind in "fiub":
                with np.errstate(over="ignore"):  # only a damaged file has such numbers
                    numbers = np.ascontiguousarray(column, dtype="<f4")
                digest.update((numbers + np.float32(0)).astype("<f4", copy=False).tobytes())
            else:
                # lengths, so that no text can move from a cell to the next one
                digest.update("".join(f"{len(cell)}:{cell}" for cell in map(str, column)).encode())
        digest.update("\n".join(self.target.astype(str)).encode())
        return digest.hexdigest()

    def _columns(self) -> list[Array]:
        if isinstance(self.data, np.ndarray):
            return list(self.data.T)
        return [self.data[name].to_numpy() for name in self.data.columns]
