"""Whether rows that are read again are those of the first reading."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import is_numpy_array
from grayzone.sources.source import Block

Array = Any

# Of so many entries one is looked at, which takes a hundredth of the time of a reading; a prime, so
# that these are of all columns.
_EVERY = 127


@dataclass(frozen=True)
class Seen:
    """Checksums of blocks, by the number of their first row and how many rows they have.

    Rows that come in other blocks than before are not compared.
    """

    checksums: dict[tuple[int, int], int]

    def check(self, block: Block) -> None:
        """Raise an error if a block is another one than in the first reading."""
        n_rows = block.X.shape[0]
        known = self.checksums.get((block.first, n_rows))
        if known is not None and known != checksum(block):
            raise RuntimeError(
                f"Rows {block.first} to {block.first + n_rows - 1} are not those of the first "
                "reading: their values, labels or weights have changed since the fit began. All "
                "readings must see the same rows in the same order."
            )


def checksum(block: Block) -> int:
    """Return a checksum of some entries of the rows, their labels, weights and costs."""
    X = block.X
    parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    value = 0
    costs = block.costs.values() if isinstance(block.costs, Mapping) else (block.costs,)
    for part in (*parts, block.y, block.weight, *costs):
        if part is not None and np.ndim(part):
            value = zlib.crc32(_some(part), value)
    return value


def _some(values: Array) -> bytes:
    every = _EVERY + 4 if values.shape[-1] % _EVERY == 0 else _EVERY  # the next prime
    if not is_numpy_array(values):  # where they are, and then here
        some = as_numpy(values.reshape((-1,))[::every])
    elif values.flags.c_contiguous:
        some = values.reshape(-1)[::every]
    else:  # in the order of the rows all the same, without a copy
        some = values.flat[::every]
    return some.tobytes() if some.dtype.kind in "biuf" else repr(some.tolist()).encode()
