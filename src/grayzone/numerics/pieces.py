"""Elementwise work on rows, in pieces that stay in the cache and on all threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.threads import split

Array = Any

PIECE = 16384  # rows whose elementwise work stays in the cache


def mapped(function: Callable[..., Array], width: int, *columns: Array) -> Array:
    """Return the values (n, width) of a function of rows.

    Parameters
    ----------
    function : callable
        From rows of the columns to values (rows, width).
    width : int
        How many values a row has.
    *columns : arrays of shape (n, ...)
        What is known of the rows, of one array library.

    Returns
    -------
    values : array of shape (n, width)
        Of arrays of other libraries than NumPy computed at once.
    """
    n = columns[0].shape[0]
    if n <= PIECE or not is_numpy_array(columns[0]):
        return function(*columns)
    values = np.empty((n, width))

    def work(start: int, stop: int) -> None:
        for rows in _pieces(start, stop):
            values[rows] = function(*(column[rows] for column in columns))

    split(n, work, threads=n / PIECE)
    return values


def summed(function: Callable[..., Array], *columns: Array) -> Array:
    """Return the sum of the values of a function of rows."""
    n = columns[0].shape[0]
    if n <= PIECE or not is_numpy_array(columns[0]):
        values = function(*columns)
        return array_namespace(values).sum(values)

    def work(start: int, stop: int) -> float:
        pieces = (function(*(column[rows] for column in columns)) for rows in _pieces(start, stop))
        return float(sum(float(np.sum(values)) for values in pieces))

    return sum(split(n, work, threads=n / PIECE))


def _pieces(start: int, stop: int) -> Iterator[slice]:
    return (slice(a, min(stop, a + PIECE)) for a in range(start, stop, PIECE))
