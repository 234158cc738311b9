"""Whole columns of rows: by compiled loops on all threads where rows are many, else by NumPy."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.pieces import are_many, least_rows, looped, looped_with
from grayzone.numerics.threads import LOOPS, edges

Array = Any

_READ = 2**17  # numbers of a column that a thread reads and writes in a fifth of a millisecond


def along(values: Array, change: Array, t: float = 1.0, is_loaded: bool = False) -> Array:
    """Return values and t times their change.

    Parameters
    ----------
    values, change : arrays of one shape
        Of any library.
    t : float
        Factor of the change.
    is_loaded : bool
        Whether there are compiled loops at work on the rows anyway.

    Returns
    -------
    array of that shape
    """
    if not _are_flat(values, change, is_loaded=is_loaded):
        return values + (change if t == 1.0 else t * change)
    # compiles, so only when needed
    from grayzone.numerics import jit_columns

    out = np.empty(values.shape)
    flat = values.reshape(-1), change.reshape(-1), t, out.reshape(-1)
    looped(jit_columns.along, *flat, n_rows=out.size, a_thread=_READ)
    return out


def product(one: Array, other: Array, factor: float = 1.0, is_loaded: bool = False) -> Array:
    """Return products of two columns (n,), times a factor."""
    if not are_many(one, other, is_loaded=is_loaded):
        found = one * other
        return found if factor == 1.0 else factor * found
    from grayzone.numerics import jit_columns

    out = np.empty(one.size)
    looped(jit_columns.product, one, other, factor, out, n_rows=out.size, a_thread=_READ)
    return out


def by_code(of_codes: Array, codes: Array, is_loaded: bool = False) -> Array:
    """Return the value of each row's code, all of them in one library."""
    many = is_numpy_array(codes) and codes.size >= least_rows(is_loaded)
    if not (many and codes.dtype == np.int64 and of_codes.dtype == np.float64):
        return array_namespace(codes).take(of_codes, codes)
    from grayzone.numerics import jit_columns

    out = np.empty(codes.size)
    looped(jit_columns.by_code, of_codes, codes, out, n_rows=out.size, a_thread=_READ)
    return out


def places(marks: Array, is_loaded: bool = False) -> Array:
    """Return the numbers of marked rows, in order; ``marks`` are booleans (n,)."""
    n = marks.shape[0]
    if not is_numpy_array(marks) or n < least_rows(is_loaded):
        return array_namespace(marks).nonzero(marks)[0]
    from grayzone.numerics.jit_columns import put_places
    from grayzone.numerics.team import share

    parts = edges(n, threads=n / _READ, kind=LOOPS)
    found = [int(np.count_nonzero(marks[a:b])) for a, b in pairwise(parts)]
    out, before = np.empty(sum(found), dtype=np.intp), np.cumsum([0, *found])
    share(put_places, (marks, out), (before[:-1, None],), parts)
    return out


def ends(values: Array, is_loaded: bool = False) -> tuple[float, float]:
    """Return the least and the greatest of numbers; where one is no number neither is."""
    if not _are_flat(values, is_loaded=is_loaded):
        xp = array_namespace(values)
        return float(xp.min(values)), float(xp.max(values))
    from grayzone.numerics import jit_columns

    flat = values.reshape(-1)
    found = looped_with(jit_columns.ends, (2,), flat, n_rows=flat.size, a_thread=_READ)
    return float(found[:, 0].min()), float(found[:, 1].max())


def rises(signs: Array, is_loaded: bool = False) -> int:
    """Count positive numbers of NumPy's."""
    if not are_many(signs, is_loaded=is_loaded):
        return int(np.count_nonzero(signs > 0.0))
    from grayzone.numerics import jit_columns

    return int(sum(looped(jit_columns.rises, signs, n_rows=signs.size, a_thread=_READ)))


def picked(signs: Array, steps: Array, first: int, is_loaded: bool = False) -> Array:
    """Return every so many rows of each sign, in order.

    Parameters
    ----------
    signs : array of shape (n,)
        NumPy's, below and above zero.
    steps : array of shape (2,)
        How many, of those below and of those above zero.
    first : int
        Which is picked first; counted by rows of the sign, modulo its step.
    is_loaded : bool
        Whether there are compiled loops at work on the rows anyway.

    Returns
    -------
    array of int
        Numbers of the rows.
    """
    if not are_many(signs, is_loaded=is_loaded):
        return picked_of((signs <= 0.0, signs > 0.0), steps, first)
    from grayzone.numerics import jit_columns
    from grayzone.numerics.team import share

    n, first_of = signs.size, first % steps
    parts = edges(n, threads=n / _READ, kind=LOOPS)
    ups = share(jit_columns.rises, (signs,), (), parts)
    # of each part and sign, how many rows of it were there before, and how many of them were picked
    up = np.cumsum([0, *ups]).astype(np.int64)
    before = np.stack([np.array(parts) - up, up], axis=1)
    already = -(np.minimum(first_of - before, 0) // steps)
    coming, place = first_of + already * steps - before, already.sum(axis=1, keepdims=True)
    out = np.empty(place[-1, 0], dtype=np.intp)
    share(jit_columns.pick, (signs, steps, out), (coming[:-1], place[:-1]), parts)
    return out


def picked_of(classes: Iterable[Array], steps: Array, first: int) -> Array:
    """Return every so many rows of each class, in order; classes are booleans (n,) of NumPy's."""
    rows = (
        np.flatnonzero(own)[first % step :: step] for own, step in zip(classes, steps, strict=True)
    )
    return np.sort(np.concatenate(list(rows)))


def products_at(rows: Array, one: Array, other: Array, factor: float) -> Array:
    """Return products of two columns in some rows, times a factor."""
    xp = array_namespace(one)
    if not (are_many(one, other) and rows.size >= least_rows(True)):
        return factor * (xp.take(one, rows) * xp.take(other, rows))
    from grayzone.numerics import jit_columns

    out = np.empty(rows.size)
    looped(jit_columns.products_at, rows, one, other, factor, out, n_rows=rows.size, a_thread=_READ)
    return out


def sum_of_parts(of_parts: Array) -> Array:
    """Return the sum (...) of what parts of the rows come to, (k, ...) of NumPy's without gaps."""
    k = of_parts.shape[0]
    if of_parts.size < _READ:
        return of_parts.sum(axis=0)
    from grayzone.numerics import jit_columns

    out = np.empty(of_parts.shape[1:])
    given = of_parts.reshape(k, -1), out.reshape(-1)
    looped(jit_columns.sum_of_parts, *given, n_rows=out.size, a_thread=_READ // k)
    return out


def _are_flat(*arrays: Array, is_loaded: bool) -> bool:
    """Whether arrays are NumPy's, in double precision, without gaps, of many numbers."""
    if not all(is_numpy_array(a) and a.flags.c_contiguous for a in arrays):
        return False
    return are_many(*(a.reshape(-1) for a in arrays), is_loaded=is_loaded)
