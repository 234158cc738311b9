"""Arrays that lie in ``.npy`` files, read a block at a time.

Blocks are read, not mapped: pages of a map stay resident until the kernel wants them back, which
looks like all of the data in memory, and a file that gets shorter under a map ends the process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from mmap import ALLOCATIONGRANULARITY
from typing import Any, BinaryIO

import numpy as np

from grayzone.numerics.checks import as_numpy
from grayzone.sources.convert import as_block, rows_of_a_block
from grayzone.sources.files import Stamp, stamp
from grayzone.sources.source import Block, Source

Array = Any


def open_npy(
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    costs: Any = None,
    block_rows: int | None = None,
) -> NpySource:
    """Open rows of ``.npy`` files, for ``fit`` and ``predict``, without loading them.

    A few blocks of rows are in memory at a time, whatever the number of rows is. Every step of
    a fit reads the files once, from the first row to the last; they must not change meanwhile.

    Parameters
    ----------
    X : path or memmap of shape (n_samples, n_features)
        A ``.npy`` file, or an array that is memory-mapped already, as by ``np.load(path,
        mmap_mode="r")``; also some of its rows or columns. Rows should lie one after the other
        ("C order"). Single precision stays so; other numbers become double precision.
    y : path, memmap or array of shape (n_samples,), default=None
        Labels, in a file or in memory; not needed for predictions.
    sample_weight : path, memmap or array of shape (n_samples,), default=None
        Weight of each row's loss.
    costs : path, memmap, array or mapping, default=None
        What decisions about each row cost, the ``example_costs`` of a fit and of predictions: an
        array of shape (n_samples, K, K), or ``{label: array of shape (n_samples,), or a number}``,
        in files or in memory.
    block_rows : int, default=None
        Rows of a block; by default as many as take 16 MB in double precision.

    Returns
    -------
    source : NpySource
        To be given to ``fit`` in place of X, without y; or to a method that predicts, which then
        yields one array a block.

    See Also
    --------
    open_parquet : The same for tables of Parquet and Arrow files.
    from_batches : The same for whatever can be iterated over again and again.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.sources import open_npy
    >>> folder = tempfile.TemporaryDirectory()
    >>> X = np.random.default_rng(0).normal(size=(1000, 3))
    >>> np.save(Path(folder.name, "X.npy"), X)
    >>> np.save(Path(folder.name, "y.npy"), X[:, 0] > X[:, 1])
    >>> source = open_npy(Path(folder.name, "X.npy"), Path(folder.name, "y.npy"), block_rows=300)
    >>> clf = TruncatedLogisticRegression().fit(source)
    >>> [labels.size for labels in clf.predict(source)]
    [300, 300, 300, 100]
    >>> folder.cleanup()
    """
    return NpySource(X, y, sample_weight, costs, block_rows)


class NpySource(Source):
    """Rows in files; made by :func:`open_npy`."""

    def __init__(self, X: Any, y: Any, weight: Any, costs: Any, block_rows: int | None) -> None:
        rows = _stored(X, "X")
        if rows is None:
            raise TypeError(
                f"X must be the path of a .npy file or a memory-mapped array; got "
                f"{type(X).__name__}. Arrays in memory are given to fit as they are."
            )
        if len(rows.shape) != 2:
            raise ValueError(
                f"{rows.stamp.path}: X must have two dimensions, rows and features; got shape "
                f"{rows.shape}."
            )
        if rows.dtype.kind not in "biuf":
            raise ValueError(
                f"{rows.stamp.path}: X must be made of numbers; got dtype {rows.dtype}."
            )
        self._X = rows
        self._y = _beside(y, "y", rows)
        self._weight = _beside(weight, "sample_weight", rows)
        self._labels = list(costs) if isinstance(costs, Mapping) else None
        self._costs = [_cost_column(part, rows) for part in _parts(costs)]
        self.has_labels = y is not None
        self.n_rows, self.n_features = rows.shape
        self.block_rows = rows_of_a_block(block_rows, self.n_features)

    def blocks(self) -> Iterator[Block]:
        """Read the blocks from the first to the last."""
        with ExitStack() as files:
            stored = (self._X, self._y, self._weight, *self._costs)
            parts = [_Reader(array, files) for array in stored]
            for first in range(0, self.n_rows, self.block_rows):
                stop = min(first + self.block_rows, self.n_rows)
                rows, labels, weights, *costs = (part(first, stop) for part in parts)
                prices = self._priced(costs)
                yield as_block(rows, labels, weights, first, self._X.stamp.path, prices)
            for part in parts:
                part.check()

    def _priced(self, costs: list[Array]) -> Any:
        """Return costs of rows in the form that they were given in."""
        if self._labels is not None:
            return dict(zip(self._labels, costs, strict=True))
        return costs[0] if costs else None


@dataclass(frozen=True)
class _Stored:
    """An array and where it lies in a file."""

    stamp: Stamp
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def width(self) -> int:
        """Bytes from the first entry of a row to the end of its last."""
        ends = ((n - 1) * s for n, s in zip(self.shape[1:], self.strides[1:], strict=True))
        return sum(ends) + self.dtype.itemsize

    def read(self, file: BinaryIO, first: int, stop: int) -> Array:
        """Read these rows."""
        n, step = stop - first, self.strides[0]
        at = self.offset + first * step
        if len(self.shape) != 2 or step >= self.width:
            data = self._bytes(file, at, (n - 1) * step + self.width, first, stop)
            return np.ndarray((n, *self.shape[1:]), self.dtype, data, 0, self.strides)
        columns = np.empty((self.shape[1], n), self.dtype)
        for k, column in enumerate(columns):
            place = at + k * self.strides[1]
            data = self._bytes(file, place, (n - 1) * step + self.dtype.itemsize, first, stop)
            column[:] = np.ndarray((n,), self.dtype, data, 0, (step,))
        return np.ascontiguousarray(columns.T)

    def _bytes(self, file: BinaryIO, at: int, size: int, first: int, stop: int) -> Array:
        data = np.empty(size, np.uint8)
        file.seek(at)
        done = 0
        while done < size:
            got = file.readinto(data[done:])  # type: ignore[attr-defined]
            if not got:
                raise RuntimeError(
                    f"{self.stamp.path} ends within rows {first} to {stop - 1}: expected "
                    f"{size} bytes from byte {at} on, got {done}. Has it changed since it was "
                    "opened?"
                )
            done += got
        return data


class _Reader:
    """One reading of an array, in a file or in memory; there may be none."""

    def __init__(self, array: _Stored | Array | None, files: ExitStack) -> None:
        self.array = array
        if isinstance(array, _Stored):
            self.check()
            file = open(array.stamp.path, "rb", buffering=0)  # noqa: SIM115  (the stack closes it)
            self.file = files.enter_context(file)

    def __call__(self, first: int, stop: int) -> Array | None:
        if isinstance(self.array, _Stored):
            return self.array.read(self.file, first, stop)
        if self.array is None or self.array.ndim == 0:  # a number for all rows
            return self.array
        return self.array[first:stop]

    def check(self) -> None:
        """Check that the file is still the one that was opened."""
        if isinstance(self.array, _Stored):
            self.array.stamp.check()


def _stored(values: Any, name: str) -> _Stored | None:
    """Find where an array lies; None for one in memory."""
    if isinstance(values, (str, os.PathLike)):
        path = os.fspath(values)
        try:
            values = np.load(path, mmap_mode="r")
        except ValueError as error:
            raise ValueError(f"{path} cannot be read as {name}: {error}") from error
        if not isinstance(values, np.memmap):
            raise ValueError(f"{path} cannot be read as {name}: it is not a .npy file.")
    if not isinstance(values, np.memmap):
        return None
    if values.filename is None or values.mode == "c" or min(values.strides, default=0) < 0:
        raise ValueError(
            f"{name} is a memory map that has no file of its own, that is copied on writing or "
            "that runs backwards; open it with np.load(path, mmap_mode='r')."
        )
    return _Stored(
        stamp(os.fspath(values.filename)),
        values.dtype,
        values.shape,
        values.strides,
        _place(values),
    )


def _place(mapped: Array) -> int:
    """Byte of the file at which an array begins; views of a map say where the whole begins."""
    pages = np.frombuffer(mapped._mmap, np.uint8)
    begin = mapped.offset - mapped.offset % ALLOCATIONGRANULARITY
    return int(begin + mapped.ctypes.data - pages.ctypes.data)


def _parts(costs: Any) -> list[Any]:
    if isinstance(costs, Mapping):
        return list(costs.values())
    return [] if costs is None else [costs]


def _cost_column(costs: Any, rows: _Stored) -> _Stored | Array:
    """Costs of all rows, or a number; what they are is looked at when a fit begins."""
    stored = _stored(costs, "costs")
    array: Any = as_numpy(costs) if stored is None else stored
    if array.shape and array.shape[0] != rows.shape[0]:
        place = "costs" if stored is None else f"costs ({stored.stamp.path})"
        raise ValueError(
            f"{place} must have one entry for each of the {rows.shape[0]} rows of "
            f"{rows.stamp.path}; got shape {array.shape}."
        )
    return array


def _beside(values: Any, name: str, rows: _Stored) -> _Stored | Array | None:
    if values is None:
        return None
    stored = _stored(values, name)
    array: Any = as_numpy(values) if stored is None else stored
    if name == "sample_weight" and array.shape == ():
        array = np.broadcast_to(array, rows.shape[:1])
    if array.shape not in (rows.shape[:1], (rows.shape[0], 1)):
        place = name if stored is None else f"{name} ({stored.stamp.path})"
        raise ValueError(
            f"{place} must have one entry for each of the {rows.shape[0]} rows of "
            f"{rows.stamp.path}; got shape {array.shape}."
        )
    return array
