"""What a column does: mean probabilities where it has a value, all other columns as they are.

References
----------
J. H. Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics,
2001 (partial dependence).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from grayzone.reporting.parts import Effect
from grayzone.tables.schema import NUMBER, TEXT, Schema
from grayzone.training.asking import Mixture, probabilities
from grayzone.training.stakes import Stakes

Array = Any
Table = Any  # a pandas DataFrame

MOST_ROWS = 300  # whose probabilities are averaged
POINTS = 12
MOST_CATEGORIES = 10
MOST_CLASSES = 5
FEWEST = 5  # rows that a category is told of, so that a text of one row alone stays private
MISSING = "(missing)"
_REACH = (0.02, 0.98)  # quantiles that numbers lie between


class _Grid(NamedTuple):
    """Values of a column: what they are called, a row that has each, how many rows are near."""

    at: tuple[float | str, ...]
    rows: Array
    near: tuple[int, ...]


def effects_of(
    estimator: Any,
    table: Table,
    schema: Schema,
    stakes: Stakes,
    columns: Sequence[str],
    *,
    seed: int = 0,
) -> list[Effect]:
    """Return effects of columns on the probability of the positive class, or of each of several.

    Parameters
    ----------
    estimator : Pipeline
        The fitted pipeline that is explained.
    table : DataFrame
        Rows, in the columns of its schema; at most 300 of them are averaged over.
    schema : Schema
        Kinds of the columns.
    stakes : Stakes
        Classes. Of more than five, the five that are most probable on average are told of.
    columns : sequence of str
        Which columns; those of the largest importance are worth a look.
    seed : int
        Draws rows.

    Returns
    -------
    effects : list of Effect
        In the order of the columns, then of the classes. Numbers and dates are at quantiles of the
        rows, categories in the order of how many rows have them, if at least five do; columns
        without two such values are left out.
    """
    rng = np.random.default_rng(seed)
    others = np.sort(rng.permutation(len(table))[:MOST_ROWS])
    mixture = Mixture(table)
    kinds = {column.name: column.kind for column in schema.columns}
    effects = []
    for name in columns:
        grid = _grid(table[name], kinds[name])
        if len(grid.at) < 2:
            continue
        places = np.tile(np.repeat(others[:, None], len(mixture.names), axis=1), (len(grid.at), 1))
        places[:, mixture.names.index(name)] = np.repeat(grid.rows, len(others))
        said = probabilities(estimator, mixture.rows(places))
        means = said.reshape(len(grid.at), len(others), -1).mean(axis=1)
        for k in _told(means, stakes):
            label = None if stakes.binary else stakes.classes[k]
            probability = tuple(float(p) for p in means[:, k])
            effects.append(Effect(name, kinds[name], grid.at, probability, grid.near, label))
    return effects


def _told(means: Array, stakes: Stakes) -> list[int]:
    if stakes.binary:
        return [1]
    most = np.argsort(-means.mean(axis=0), kind="stable")[:MOST_CLASSES]
    return sorted(int(k) for k in most)


def _grid(column: Any, kind: str) -> _Grid:
    return _categories(column) if kind == TEXT else _quantiles(column, kind)


def _categories(column: Any) -> _Grid:
    texts = column.fillna(MISSING).astype(str)
    counts = texts.value_counts()
    # a text comes before another of as many rows by the alphabet, not by chance
    usual = sorted(counts[counts >= FEWEST].items(), key=lambda item: (-item[1], item[0]))
    names = [str(text) for text, _ in usual[:MOST_CATEGORIES]]
    first = [int(np.flatnonzero(texts.to_numpy() == text)[0]) for text in names]
    near = tuple(int(counts[text]) for text in names)
    return _Grid(tuple(names), np.asarray(first, dtype=np.intp), near)


def _quantiles(column: Any, kind: str) -> _Grid:
    """Values that rows have, of about equal numbers of rows each."""
    known = np.flatnonzero(column.notna().to_numpy())
    values = column.iloc[known]
    numbers = values.to_numpy() if kind == NUMBER else values.astype("int64").to_numpy()
    wanted = np.quantile(numbers, np.linspace(*_REACH, POINTS), method="nearest")
    different = np.unique(numbers)
    # of few values, each; a rare one between others that are not would be missed by quantiles
    at = different if len(different) <= POINTS else np.unique(wanted)
    order = np.argsort(numbers, kind="stable")
    rows = known[order[np.searchsorted(numbers[order], at)]]
    borders = at[:-1] + (at[1:] - at[:-1]) / 2
    near = np.bincount(np.searchsorted(borders, numbers, side="right"), minlength=len(at))
    if kind == NUMBER:
        names: tuple[float | str, ...] = tuple(float(value) for value in at)
    else:
        names = tuple(_day(column.iloc[row]) for row in rows)
    return _Grid(names, rows, tuple(int(n) for n in near))


def _day(value: Any) -> str:
    time = pd.Timestamp(value)
    return str(time.date()) if time == time.normalize() else time.isoformat(sep=" ")
