"""What a column does: mean probabilities where it has a value, all other columns as they are.

Of a date, models learn the day, the time of the year, the day of the week and the hour
(:class:`~grayzone.estimators.table_features.TableColumns`): each is moved alone, as far as a
calendar allows.

References
----------
J. H. Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics,
2001 (partial dependence).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from grayzone.reporting.parts import Effect
from grayzone.tables.schema import DATE, NUMBER, TEXT, Schema
from grayzone.training.asking import probabilities
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
_HOUR, _ONE_DAY, _WEEK = pd.Timedelta(hours=1), pd.Timedelta(days=1), pd.Timedelta(weeks=1)
_YEAR = 52 * _WEEK  # that leaves the day of the week as it is
_WEEKDAYS = tuple(pd.Timestamp(2024, 1, day).day_name() for day in range(1, 8))
_MONTHS = tuple(pd.Timestamp(2024, month, 1).month_name() for month in range(1, 13))


class _Grid(NamedTuple):
    """Values of a column: what they are called, how many rows are near, the column with each."""

    kind: str
    at: tuple[float | str, ...]
    near: tuple[int, ...]
    columns: list[Any]
    part: str | None = None


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
        In the order of the columns, then of the classes. Numbers are at quantiles of the rows,
        categories in the order of how many rows have them, if at least five do; columns without two
        such values are left out. Of a date, the part that moves probabilities most is first.
    """
    rng = np.random.default_rng(seed)
    others = np.sort(rng.permutation(len(table))[:MOST_ROWS])
    some = table.iloc[others].reset_index(drop=True)
    kinds = {column.name: column.kind for column in schema.columns}
    effects = []
    for name in columns:
        grids = [g for g in _grids(table[name], kinds[name], others) if len(g.at) > 1]
        found = [(grid, _means(estimator, some, name, grid)) for grid in grids]
        for grid, means in sorted(found, key=lambda one: -np.ptp(one[1], axis=0).max()):
            for k in _told(means, stakes):
                label = None if stakes.binary else stakes.classes[k]
                probability = tuple(float(p) for p in means[:, k])
                effects.append(
                    Effect(name, grid.kind, grid.at, probability, grid.near, label, grid.part)
                )
    return effects


def _means(estimator: Any, some: Table, name: str, grid: _Grid) -> Array:
    """Mean probabilities (values, classes) of rows whose column has each value in turn."""
    tables = [some.assign(**{name: column}) for column in grid.columns]
    said = probabilities(estimator, pd.concat(tables, ignore_index=True))
    return said.reshape(len(tables), len(some), -1).mean(axis=1)


def _told(means: Array, stakes: Stakes) -> list[int]:
    if stakes.binary:
        return [1]
    most = np.argsort(-means.mean(axis=0), kind="stable")[:MOST_CLASSES]
    return sorted(int(k) for k in most)


def _grids(column: Any, kind: str, others: Array) -> Iterator[_Grid]:
    if kind == DATE:
        yield from _parts_of_dates(column, others)
        return
    at, rows, near = _categories(column) if kind == TEXT else _quantiles(column)
    columns = [column.iloc[np.full(len(others), row)].array for row in rows]
    yield _Grid(kind, at, near, columns)


def _categories(column: Any) -> tuple[tuple[str, ...], Array, tuple[int, ...]]:
    """Usual texts, a row that has each, and how many have."""
    texts = column.fillna(MISSING).astype(str)
    counts = texts.value_counts()
    # a text comes before another of as many rows by the alphabet, not by chance
    usual = sorted(counts[counts >= FEWEST].items(), key=lambda item: (-item[1], item[0]))
    names = [str(text) for text, _ in usual[:MOST_CATEGORIES]]
    first = [int(np.flatnonzero(texts.to_numpy() == text)[0]) for text in names]
    near = tuple(int(counts[text]) for text in names)
    return tuple(names), np.asarray(first, dtype=np.intp), near


def _quantiles(column: Any) -> tuple[tuple[float, ...], Array, tuple[int, ...]]:
    """Values that rows have, of about equal numbers of rows each, a row with each, and how many."""
    known = np.flatnonzero(column.notna().to_numpy())
    values = column.iloc[known]
    numbers = (values.astype("int64") if values.dtype.kind == "M" else values).to_numpy()
    wanted = np.quantile(numbers, np.linspace(*_REACH, POINTS), method="nearest")
    different = np.unique(numbers)
    # of few values, each; a rare one between others that are not would be missed by quantiles
    at = different if len(different) <= POINTS else np.unique(wanted)
    order = np.argsort(numbers, kind="stable")
    rows = known[order[np.searchsorted(numbers[order], at)]]
    borders = at[:-1] + (at[1:] - at[:-1]) / 2
    near = np.bincount(np.searchsorted(borders, numbers, side="right"), minlength=len(at))
    return tuple(float(value) for value in at), rows, tuple(int(n) for n in near)


def _parts_of_dates(column: Any, others: Array) -> Iterator[_Grid]:
    """Grids of the trend, of hours, days of the week and months, as far as dates differ in them."""
    known = column.dropna()
    if not len(known):
        return
    dates = column.iloc[others].fillna(known.sort_values().iloc[len(known) // 2])
    # in microseconds no date is moved out of bounds
    dates = dates.reset_index(drop=True).astype("datetime64[us]")
    long = known.max() - known.min() >= 2 * _YEAR
    # the other parts stay as they are: whole weeks, whole years where there are some
    step = _YEAR if long else _WEEK
    _, rows, near = _quantiles(column)
    ends = [column.iloc[row] for row in rows]
    moved = [dates + step * ((end - dates) / step).round() for end in ends]
    yield _Grid(DATE, tuple(_day(end) for end in ends), near, moved, "trend")
    if (known != known.dt.normalize()).any():
        hours, near = _counted(known.dt.hour)
        moved = [dates + _HOUR * (hour - dates.dt.hour) for hour in hours]
        yield _Grid(NUMBER, tuple(map(float, hours)), near, moved, "hour of the day")
    days, near = _counted(known.dt.day_of_week)
    moved = [dates + _ONE_DAY * (day - dates.dt.day_of_week) for day in days]
    yield _Grid(TEXT, tuple(_WEEKDAYS[day] for day in days), near, moved, "day of the week")
    if long:
        months, near = _counted(known.dt.month)
        moved = [dates + _WEEK * ((month - dates.dt.month) * 52 / 12).round() for month in months]
        yield _Grid(TEXT, tuple(_MONTHS[month - 1] for month in months), near, moved, "month")


def _counted(values: Any) -> tuple[list[int], tuple[int, ...]]:
    """Different values in order, and how many rows have each."""
    at, counts = np.unique(values.to_numpy(), return_counts=True)
    return at.tolist(), tuple(counts.tolist())


def _day(value: Any) -> str:
    time = pd.Timestamp(value)
    return str(time.date()) if time == time.normalize() else time.isoformat(sep=" ")
