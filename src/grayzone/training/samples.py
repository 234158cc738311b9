"""Some rows of very many, all of the rare classes, and some columns, those that differ most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

Array = Any
Table = Any  # a pandas DataFrame


def some_rows(codes: Array, most: int, seed: int) -> tuple[Array, Array]:
    """Draw at most so many rows, and say what each of them weighs.

    Every class may have as many rows as any other: those that have fewer are kept whole, and the
    rest is drawn from the others. With the weights, which sum to the number of rows drawn, the
    classes have the shares that they have among all rows.

    Parameters
    ----------
    codes : array of int, shape (n,)
        Places of the rows' classes.
    most : int
        Number of rows; all are kept if there are no more.
    seed : int
        Draws the rows.

    Returns
    -------
    rows : array of int
        Places of the rows, ascending.
    weight : array of float
        Weights of these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.training.samples import some_rows
    >>> codes = np.array([1] * 10 + [0] * 990)
    >>> rows, weight = some_rows(codes, 100, seed=0)
    >>> np.bincount(codes[rows]).tolist(), weight.sum().round(6).tolist()
    ([90, 10], 100.0)
    """
    if len(codes) <= most:
        return np.arange(len(codes)), np.ones(len(codes))
    counts = np.bincount(codes)
    cap = _cap(counts, most)
    rng = np.random.default_rng(seed)
    kept = [rng.permutation(np.flatnonzero(codes == k))[:cap] for k in range(len(counts))]
    rows = np.sort(np.concatenate(kept))
    drawn = np.bincount(codes[rows], minlength=len(counts))
    weight = (counts / np.maximum(drawn, 1))[codes[rows]]
    return rows, weight * (len(rows) / weight.sum())


def _cap(counts: Array, most: int) -> int:
    """Return the most rows that any class may have, so that all have at most so many together."""
    left, classes = most, len(counts)
    for count in np.sort(counts):
        if count * classes > left:
            break
        left, classes = left - count, classes - 1
    return max(1, left // max(classes, 1))


def some_columns(table: Table, codes: Array, most: int) -> Array:
    """Return the places of at most so many columns, in order: those that differ most by class.

    Numbers are looked at, and their gaps; texts and dates, which are few, go before.

    Parameters
    ----------
    table : DataFrame
        The columns.
    codes : array of int, shape (n,)
        Places of the rows' classes.
    most : int
        Number of columns; all are kept if there are no more.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from grayzone.training.samples import some_columns
    >>> table = pd.DataFrame({"a": [0, 1, 0, 1], "b": [0, 0, 1, 1], "c": [1, 1, 1, 2]})
    >>> some_columns(table, np.array([0, 0, 1, 1]), 2)
    array([1, 2])
    """
    if table.shape[1] <= most:
        return np.arange(table.shape[1])
    differences = np.full(table.shape[1], np.inf)
    places = [j for j, dtype in enumerate(table.dtypes) if pd.api.types.is_numeric_dtype(dtype)]
    numbers = table.iloc[:, places].to_numpy(dtype=float)
    gaps = np.isnan(numbers)
    numbers = within_one(np.where(gaps, 0.0, numbers))
    rare = codes == np.argmin(np.bincount(codes))
    apart = [
        np.abs(values[rare].mean(axis=0) - values[~rare].mean(axis=0))
        / np.maximum(values.std(axis=0), 1e-12)
        for values in (numbers, gaps.astype(float))
    ]
    differences[places] = np.maximum(*apart)
    return np.sort(np.argsort(-differences, kind="stable")[:most])


def within_one(table: Array) -> Array:
    """Return numbers between -1 and 1, so that their squares can be added."""
    return table / np.maximum(np.abs(table).max(axis=0), 1e-300)
