"""Elementwise work on rows, in pieces that stay in the cache and on all threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.threads import LOOPS, edges, split

Array = Any
T = TypeVar("T")

PIECE = 16384  # rows whose elementwise work stays in the cache
MANY = 100_000  # rows from which compiled loops are worth their loading
MANY_WHERE_LOADED = 1024  # the same where others are loaded anyway


def mapped(
    function: Callable[..., Array],
    width: int,
    *columns: Array,
    compiled: Callable[[], Callable[..., None]] | None = None,
) -> Array:
    """Return the values (n, width) of a function of rows.

    Parameters
    ----------
    function : callable
        From rows of the columns to values (rows, width).
    width : int
        How many values a row has.
    *columns : arrays of shape (n, ...)
        What is known of the rows, of one array library.
    compiled : callable, optional
        Gives the same as a compiled loop, for many rows in double precision: it is called with
        the columns, the array of values, and the rows to start and stop at.

    Returns
    -------
    values : array of shape (n, width)
        Of arrays of other libraries than NumPy computed at once.
    """
    n = columns[0].shape[0]
    if n <= PIECE or not is_numpy_array(columns[0]):
        return function(*columns)
    values = np.empty((n, width))
    if compiled is not None and n >= MANY:
        looped(compiled(), *columns, values, n_rows=n)
        return values

    def work(start: int, stop: int) -> None:
        for rows in _pieces(start, stop):
            values[rows] = function(*(column[rows] for column in columns))

    split(n, work, threads=n / PIECE)
    return values


def summed(
    function: Callable[..., Array],
    *columns: Array,
    compiled: Callable[[], Callable[..., float]] | None = None,
) -> Array:
    """Return the sum of the values of a function of rows.

    ``compiled`` gives a compiled loop that sums many of them, as in :func:`mapped`.
    """
    n = columns[0].shape[0]
    if n <= PIECE or not is_numpy_array(columns[0]):
        values = function(*columns)
        return array_namespace(values).sum(values)
    if compiled is not None and n >= MANY:
        return sum(looped(compiled(), *columns, n_rows=n))

    def work(start: int, stop: int) -> float:
        pieces = (function(*(column[rows] for column in columns)) for rows in _pieces(start, stop))
        return float(sum(float(np.sum(values)) for values in pieces))

    return sum(split(n, work, threads=n / PIECE))


def are_many(*columns: Array, is_loaded: bool = False) -> bool:
    """Whether columns are NumPy's, in double precision, and of rows enough for compiled loops."""
    n = columns[0].size if is_numpy_array(columns[0]) else 0
    if n < least_rows(is_loaded):
        return False
    return all(c.shape == (n,) and c.dtype == np.float64 for c in columns)


def least_rows(is_loaded: bool) -> int:
    """Rows from which compiled loops are worth it, where others are loaded or are not."""
    return min(MANY, MANY_WHERE_LOADED) if is_loaded else MANY


def looped(loop: Callable[..., T], *arguments: Any, n_rows: int, a_thread: int = PIECE) -> list[T]:
    """Call a compiled loop on all rows, whose start and stop are its last arguments.

    ``a_thread`` rows are a fifth of a millisecond's work.
    """
    from grayzone.numerics.team import share  # compiles, so only when needed

    return share(loop, arguments, (), edges(n_rows, threads=n_rows / a_thread, kind=LOOPS))


def looped_with(
    loop: Callable[..., T],
    shape: tuple[int, ...],
    *arguments: Any,
    n_rows: int,
    a_thread: int = PIECE,
) -> Array:
    """Do so with zeros of that shape for each part beside them; returns these (k, ...)."""
    from grayzone.numerics.team import share, sums  # compiles, so only when needed

    parts = edges(n_rows, threads=n_rows / a_thread, kind=LOOPS)
    own = sums(len(parts) - 1, *shape)
    share(loop, arguments, (own,), parts)
    return own


def _pieces(start: int, stop: int) -> Iterator[slice]:
    return (slice(a, min(stop, a + PIECE)) for a in range(start, stop, PIECE))
