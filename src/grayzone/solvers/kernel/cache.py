"""Rows of a kernel matrix over a working set, kept while memory allows, computed anew beyond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grayzone.numerics import jit, jit_gaussian
from grayzone.numerics.jit_products import Others
from grayzone.numerics.kernel_design import KernelDesign
from grayzone.numerics.kernels import TILE_COLUMNS, TILE_ROWS, WORTH_A_THREAD
from grayzone.numerics.team import share
from grayzone.numerics.threads import LOOPS, PRODUCTS, edges, long_product, split

Array = Any

_TILE = TILE_ROWS * TILE_COLUMNS // 2  # values of one that stays in the cache


class KernelRows:
    """Kernel values between rows of a working set.

    Rows are computed when they are first asked for and stored in the order of asking, until the
    budget of the design is used up; other rows are computed each time, a tile at a time.

    Parameters
    ----------
    design : KernelDesign
        Where the values come from.
    members : array of int
        The rows of the design in the working set; everything below counts within it.
    dtype : dtype
        Precision of the values.
    """

    def __init__(self, design: KernelDesign, members: Array, dtype: Any) -> None:
        self.design, self.kernel = design, design.kernel
        self.members = members
        self.dtype = np.dtype(dtype)
        self._set_factors(design.right(members, dtype))
        self._slot = np.full(members.size, -1)
        self._used = 0
        self._block = np.empty(0, dtype=dtype)
        slots = min(members.size, int(design.budget // (self.dtype.itemsize * members.size)))
        self._buffer = np.empty(slots * members.size, dtype=dtype)
        self._rows = self._buffer.reshape(slots, members.size)

    def _set_factors(self, right: Array) -> None:
        """Factors of the members; the left one, too: tiles are few columns wide."""
        dense = isinstance(right, np.ndarray) and self.dtype == np.float32
        self._gaussian = dense and self.kernel.name == "rbf" and not self.kernel.is_far
        known = self.kernel.name == "precomputed"
        self._left: Any = None if known else self.kernel.flipped(right)
        self._right = Others.of(right) if self._gaussian else right

    @property
    def all_fit(self) -> bool:
        """Whether there is room for the values of all members."""
        return self._rows.shape[0] == self.members.size

    @property
    def _cheap(self) -> bool:
        """Whether a small block is computed faster than it is picked out of long rows."""
        return isinstance(self._right, np.ndarray | Others) and self.kernel.name in (
            "linear",
            "poly",
            "rbf",
            "sigmoid",
        )

    def _right_of(self, rows: Array) -> Array:
        return self.kernel.flipped(self._left[rows]) if self._gaussian else self._right[rows]

    def _left_of(self, rows: Array | slice) -> Array:
        return self.design.data(self.members[rows]) if self._left is None else self._left[rows]

    def block(self, rows: Array) -> Array:
        """Values between these rows, (q, q), in memory that the next block will take."""
        self._keep(rows)
        q = rows.size
        if self._block.size < q * q:
            self._block = np.empty(q * q, dtype=self.dtype)
        out = self._block[: q * q].reshape(q, q)
        slots, threads = self._slot[rows], q * q / (WORTH_A_THREAD // 4)
        if self._gaussian:
            others, parts = Others.of(self._right_of(rows)), edges(q, threads=threads, kind=LOOPS)
            jit_gaussian.fill(self._left_of(rows), others, out, parts)
        elif not self._cheap and np.all(slots >= 0):
            parts = edges(q, threads=threads, kind=LOOPS)
            share(jit.gather, (out, self._rows, slots, rows), (), parts)
        else:
            right = self._right_of(rows)

            def part(a: int, b: int) -> None:
                self.kernel.between(self._left_of(rows[a:b]), right, out=out[a:b])

            split(q, part, threads=threads if self._cheap else 1, kind=PRODUCTS)
        return out

    def _keep(self, rows: Array) -> None:
        """Compute and store those of these rows that are not stored yet, while there is room."""
        new = rows[self._slot[rows] < 0][: self._rows.shape[0] - self._used]
        if not new.size:
            return
        stored = self._rows[self._used : self._used + new.size]
        self._slot[new] = np.arange(self._used, self._used + new.size)
        self._used += new.size
        self._compute(new, stored)

    def _compute(self, rows: Array, out: Array) -> None:
        m, q = self.members.size, rows.size
        left = self._left_of(rows)
        if self._gaussian:
            parts = edges(m, threads=self._threads(q), kind=LOOPS)
            jit_gaussian.fill(left, self._right, out, parts)
            return

        def part(start: int, stop: int) -> None:
            for c in range(start, stop, TILE_COLUMNS):
                d = min(stop, c + TILE_COLUMNS)
                right = self._right[c:d]
                for r in range(0, q, TILE_ROWS):
                    tile = out[r : r + TILE_ROWS, c:d]
                    self.kernel.between(left[r : r + TILE_ROWS], right, out=tile)

        split(m, part, threads=self._threads(q), kind=PRODUCTS)

    def _threads(self, n_rows: int) -> float:
        """How much there is to do for so many rows of the matrix."""
        alone = callable(self.kernel.name)
        return 1 if alone else n_rows * self.members.size / WORTH_A_THREAD

    def subtract(self, values: Array, rows: Array, coef: Array) -> None:
        """Take the sum of coef times these rows from the values (m,), in place."""
        slots = self._slot[rows]
        kept = slots >= 0
        where, how_much = slots[kept], -coef[kept].astype(self.dtype)
        m = self.members.size
        if where.size:
            parts = edges(m, threads=where.size * m / (4 * WORTH_A_THREAD), kind=LOOPS)
            jit.add_rows(values, self._rows, where, how_much, parts)
        if not np.all(kept):
            self._subtract_computed(values, rows[~kept], coef[~kept])

    def _subtract_computed(self, values: Array, rows: Array, coef: Array) -> None:
        right, coef, m = self._right_of(rows), coef.astype(self.dtype), self.members.size
        if self._gaussian:
            parts = edges(m, threads=self._threads(rows.size), kind=LOOPS)
            jit_gaussian.subtract(values, self._left, Others.of(right), coef, parts)
            return
        # the fewer the columns, the longer a tile: between two of them threads queue for the lock
        height = max(TILE_ROWS, _TILE // rows.size)

        def part(start: int, stop: int) -> None:
            tile = np.empty((min(height, stop - start), rows.size), dtype=self.dtype)
            for a in range(start, stop, height):
                b = min(stop, a + height)
                left = self._left_of(slice(a, b))
                values[a:b] -= long_product(
                    self.kernel.between(left, right, out=tile[: b - a]), coef
                )

        split(m, part, threads=self._threads(rows.size), kind=PRODUCTS)

    def narrow(self, keep: Array) -> None:
        """Leave only these members, in place; room that comes free is used for more rows."""
        self.members = self.members[keep]
        self._set_factors(self._right_of(keep))
        m = self.members.size
        # a row of no use any more still has values that others need; all of them are dropped
        kept = np.flatnonzero(self._slot >= 0)
        order = kept[np.argsort(self._slot[kept])]
        useful = np.zeros(self._slot.size, dtype=bool)
        useful[keep] = True
        rows = np.flatnonzero(useful[order])
        self._compact(rows, keep)
        place = np.full(self._slot.size, -1)
        place[order[rows]] = np.arange(rows.size)
        self._slot = place[keep]
        self._used = rows.size
        slots = min(m, self._buffer.size // m)
        self._rows = self._buffer[: slots * m].reshape(slots, m)

    def _compact(self, rows: Array, columns: Array) -> None:
        """Move these columns of these stored rows to the front."""
        width, m = self._rows.shape[1], columns.size
        for a, b in at_a_time(rows.size, width, m):
            parts = edges(b - a, threads=(b - a) * m / WORTH_A_THREAD, kind=LOOPS)
            given = self._buffer, rows, width, columns
            share(jit.compact, given, (), [a + edge for edge in parts])


def at_a_time(n_rows: int, width: int, narrower: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows that may become narrower in place at the same time.

    Rows a to b write before b ``narrower`` and are read from a ``width`` on.
    """
    a = 0
    while a < n_rows:
        b = min(n_rows, max(a + 1, a * width // narrower))
        yield a, b
        a = b
