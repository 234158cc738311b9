"""Rows that are in a table more than once, which a model must not learn from and be judged on."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from grayzone.tables.schema import NUMBER, TEXT, Column, Schema

Array = Any
Table = Any  # a pandas DataFrame

_NEAR = 5e-6  # relative difference of the same number: a millionth, in both copies, and its tails
_OFTEN = 5.0  # times as often as by chance that copies are equal
_FEW = 20  # values up to which a column is one of categories, whatever its kind
_RARE = 0.1  # values for a row from which on a text is more than a category
_USUAL = 0.02  # share of rows from which on a number is a usual value, such as 0
_MOST = 40  # categories that are looked at, those of many values: more can only make rows differ
_SAMPLE = 20_000  # rows, at most, by which chance is estimated
_DIGITS = 6  # of numbers that are looked at for a step, which is _NEAR beyond
_LOOPS = 10  # pairs of categories that are looked at where all others agree
_LEAST = 5  # pairs of rows that agree in all others, to say anything


def copies_of(X: Table, schema: Schema, but: Collection[str] = ()) -> Array | None:
    """Number the rows so that copies have the same number; None where there are none.

    Copies are equal in all columns, numbers up to rounding. Rows of few columns with few values are
    equal by chance, too: they are copies only if rows are equal five times as often as chance
    explains, which is estimated from how often rows agree in some of the columns.

    Parameters
    ----------
    X : DataFrame
        Features, of the kinds that the schema says.
    schema : Schema
        What they are.
    but : collection of str, default=()
        Columns that may differ between copies, as names of rows.

    Returns
    -------
    numbers : array of int, shape (n,), or None
        The same for copies of one row.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from grayzone.tables.schema import Schema
    >>> from grayzone.training.copies import copies_of
    >>> once = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
    >>> twice = pd.concat([once, once * 1.000001])
    >>> numbers = copies_of(twice, Schema.of(twice))
    >>> np.array_equal(numbers[:40], numbers[40:]), len(np.unique(numbers))
    (True, 40)
    >>> few = twice > 0
    >>> copies_of(few, Schema.of(few)) is None
    True
    """
    columns = [column for column in schema.columns if column.name not in but]
    numbers = _equal(X, columns)
    equal = _pairs(numbers)
    if not equal:
        return None
    some = X.iloc[:: -(-len(X) // _SAMPLE)]
    by_chance, categories = 1.0, []
    for column in columns:
        places = _places(some[column.name], column.kind)
        share = _chance(some[column.name], places, column.kind, len(X))
        by_chance *= 1.0 if share is None else share
        if share is None:
            categories.append(places)
    by_chance *= _alike(categories)
    return numbers if equal > _OFTEN * by_chance * _n_pairs(len(X)) else None


def joined(groups: Array | None, copies: Array | None) -> Array | None:
    """Number rows so that neither groups nor copies are parted; None where there are neither.

    Examples
    --------
    >>> from grayzone.training.copies import joined
    >>> joined([0, 0, 1, 2], [0, 1, 1, 2]).tolist()
    [0, 0, 0, 1]
    """
    if groups is None or copies is None:
        return copies if groups is None else groups
    a, b = (np.unique(numbers, return_inverse=True)[1] for numbers in (groups, copies))
    n_groups, n = int(a.max()) + 1, int(a.max() + b.max()) + 2
    edges = coo_array((np.ones(len(a), dtype=np.int8), (a, n_groups + b)), shape=(n, n))
    return connected_components(edges, directed=False)[1][a]


def first_of_each(numbers: Array | None, n_rows: int) -> Array:
    """Return the places of rows that are no copy of an earlier one, in order."""
    if numbers is None:
        return np.arange(n_rows)
    return np.sort(np.unique(numbers, return_index=True)[1])


def _equal(X: Table, columns: list[Column]) -> Array:
    """Number rows so that those that are equal in these columns have the same number."""
    numbers, rows = np.arange(len(X)), np.arange(len(X))
    same = np.zeros(len(X), dtype=np.intp)
    # texts, of which there may be few, after what tells most rows apart
    for column in sorted(columns, key=lambda column: column.kind == TEXT):
        places = _places(X[column.name].iloc[rows], column.kind)
        same = pd.factorize(same * len(X) + places)[0]
        tied = np.bincount(same)[same] > 1
        rows, same = rows[tied], same[tied]
        if not len(rows):
            return numbers
    if columns:
        _, first, same = np.unique(same, return_index=True, return_inverse=True)
        numbers[rows] = rows[first][same]
    return numbers


def _places(values: Any, kind: str) -> Array:
    """Number the values of a column, in their order; gaps are equal."""
    if kind != NUMBER:
        return pd.factorize(values, use_na_sentinel=False)[0]
    numbers = values.to_numpy(dtype=np.float64)
    order = np.argsort(numbers, kind="stable")  # gaps last
    along = numbers[order]
    # neighbours are compared, so that no rounding can part what is near
    apart = np.diff(along) > _reach(along)[1:]
    apart |= np.isnan(along[1:]) & ~np.isnan(along[:-1])
    places = np.empty(len(numbers), dtype=np.intp)
    places[order] = np.concatenate([[0], np.cumsum(apart)])
    return places


def _reach(numbers: Array) -> Array:
    """How far from each number the same one may be; whole numbers are what they are."""
    known = numbers[~np.isnan(numbers)]
    if not len(known) or not np.any(known % 1.0):
        return np.zeros(len(numbers))
    middle = np.median(known)
    return _NEAR * np.maximum(np.abs(numbers), np.median(np.abs(known - middle)))


def _pairs(numbers: Array) -> int:
    counts = np.bincount(numbers)
    return int(np.sum(_n_pairs(counts)))


def _n_pairs(n_rows: Any) -> Any:
    return n_rows * (n_rows - 1) // 2


def _alike(categories: list[Array]) -> float:
    """Share of pairs of rows that agree in all categories by chance.

    Categories that another one decides say nothing more. Then, whichever is more: as if the two
    halves of the others were independent, or as if two of them were, where all others agree.
    """
    if not categories:
        return 1.0
    order = np.argsort([_pairs(places) for places in categories], kind="stable")[:_MOST]
    kept: list[Array] = []
    for places in (categories[k] for k in order):
        if not any(_decides(other, places) for other in kept):
            kept.append(places)
    marks = [pd.util.hash_array(places + (k << 40)) for k, places in enumerate(kept)]
    n_pairs = _n_pairs(len(marks[0]))

    def agree(some: Any) -> int:
        return _pairs(pd.factorize(some)[0])

    halves = [np.add.reduce(half) for half in (marks[::2], marks[1::2]) if half]
    found = n_pairs * float(np.prod([agree(half) / n_pairs for half in halves]))
    whole, loops = np.add.reduce(marks), [0.0]
    in_all = agree(whole)
    for a, b in pairwise(marks[: _LOOPS + 1]):
        but_a, but_b = agree(whole - a) - in_all, agree(whole - b) - in_all
        neither = agree(whole - a - b) - in_all - but_a - but_b
        loops.append(but_a * but_b / neither if neither >= _LEAST else 0.0)
    return max(found, float(np.median(loops[-_LOOPS:]))) / n_pairs


def _decides(places: Array, other: Array) -> bool:
    """Whether all rows of a value in one column have the same in another one."""
    both = places * (int(other.max()) + 1) + other
    return len(np.unique(both)) == len(np.unique(places))


def _chance(values: Any, places: Array, kind: str, n_rows: int) -> float | None:
    """Share of pairs of rows that agree in a column by chance; None of categories."""
    shares = np.bincount(places) / len(places)
    if len(shares) <= _FEW:
        return None
    if kind != NUMBER:
        return float(np.sum(shares**2)) if len(shares) > _RARE * len(places) else None
    known = np.unique(values.dropna().to_numpy(dtype=np.float64))
    width = 2.0 * float(np.subtract(*np.quantile(known, [0.75, 0.25])))
    step = _step(known)
    if width <= step * n_rows:
        return None
    return float(np.sum(shares[shares >= _USUAL] ** 2) + step / width)


def _step(numbers: Array) -> float:
    """Largest step of which all differences are multiples; the least one told if there is none."""
    size = float(np.abs(numbers).max())
    first = int(np.floor(np.log10(size))) if np.any(numbers % 1.0) else 0
    for power in range(first, first - _DIGITS, -1):
        unit = 10.0**power
        multiples = np.round(numbers / unit)
        if np.all(np.abs(numbers / unit - multiples) <= 1e-6 * np.maximum(np.abs(multiples), 1.0)):
            whole = multiples - multiples[0]
            return unit * float(np.gcd.reduce(np.abs(whole).astype(np.int64)))
    return _NEAR * size
