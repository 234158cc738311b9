"""What a file holds, and the fingerprint that tells whether it is the same as another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Contents:
    """Rows with labels: an array of numbers, or a DataFrame."""

    data: Any
    target: Array
    feature_names: list[str]

    def fingerprint(self) -> str:
        """SHA-256 of all values, column by column: the same whatever file they came from.

        Numbers count in single precision, which is what all copies agree in.
        """
        digest = hashlib.sha256(f"{np.shape(self.data)}".encode())
        for column in self._columns():
            if column.dtype.kind in "fiub":
                digest.update(np.ascontiguousarray(column, dtype="<f4").tobytes())
            else:
                digest.update("\n".join(map(str, column)).encode())
        digest.update("\n".join(self.target.astype(str)).encode())
        return digest.hexdigest()

    def _columns(self) -> list[Array]:
        if isinstance(self.data, np.ndarray):
            return list(self.data.T)
        return [self.data[name].to_numpy() for name in self.data.columns]
