"""How decisions do on parts of the rows: by the values, or ranges of values, of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom, chi2

from grayzone.decision.limits import Target
from grayzone.reporting.parts import Segment
from grayzone.tables.errors import UserError, shortened
from grayzone.tables.schema import DATE, NUMBER, TEXT, Schema
from grayzone.training.account import mean_and_error
from grayzone.training.stakes import Stakes

Array = Any
Table = Any  # a pandas DataFrame

FEWEST_ROWS = 30
LEAST_SHARE = 0.005
MOST_VALUES = 10  # of a column; the others are "other"
N_RANGES = 4
MOST_COLUMNS = 3  # that are looked for
CHANCE = 0.05
OTHER, MISSING = "other", "(missing)"


def segments_of(
    table: Table,
    schema: Schema,
    codes: Array,
    decided: Array,
    stakes: Stakes,
    *,
    columns: Sequence[str] | None = None,
    costs: Array | None = None,
    weight: Array | None = None,
) -> list[Segment]:
    """Return how decisions do on the segments of columns.

    Parameters
    ----------
    table : DataFrame
        Held-out rows, in the columns of the schema.
    schema : Schema
        Kinds of the columns.
    codes : ndarray of shape (n,)
        Classes of the rows, as places.
    decided : ndarray of shape (n,)
        What was decided by models that had not seen them; -1 for undecided.
    stakes : Stakes
        What decisions cost. Each segment is held against a limit, where there is one, by an exact
        binomial test at .05 for all segments together.
    columns : sequence of str, optional
        Which columns. By default those of few values whose decisions differ in cost by more than
        chance explains, three at most.
    costs : ndarray of shape (n, K, K), optional
        Costs of each row.
    weight : ndarray of shape (n,), optional
        What rows stand for, where some were drawn.

    Returns
    -------
    segments : list of Segment
        By column, the largest value first, ranges in order. Values of fewer than 30 rows (or .5 %)
        are one segment, "other". Numbers and dates of many values are cut into four ranges.

    Raises
    ------
    UserError
        If there is no such column.
    """
    losses = stakes.paid(codes, decided, costs)
    seen = _Seen(codes, decided, losses, np.ones(len(codes)) if weight is None else weight)
    kinds = {column.name: column.kind for column in schema.columns}
    if columns is None:
        columns = _uneven(table, kinds, losses)
    unknown = [name for name in columns if name not in kinds]
    if unknown:
        raise UserError(
            f"There are no segments by {shortened(unknown)}; columns: {shortened(schema.names)}."
        )
    parts = [
        (name, value, rows)
        for name in columns
        for value, rows in parts_of(table[name], kinds[name]).items()
    ]
    chance = CHANCE / max(len(parts), 1)
    return [_segment(name, value, seen.at(rows), stakes, chance) for name, value, rows in parts]


def broken(segments: Sequence[Segment], limit: Target) -> list[str]:
    """Say which segments break a limit by more than chance explains."""
    rate = {"max_fpr": "false positive rate", "min_recall": "recall"}.get(limit.name)
    sentences = []
    for one in segments:
        if one.breaks_limit:
            found = one.false_positive_rate if limit.name == "max_fpr" else one.recall
            told = "the precision" if rate is None else f"the {rate}, {found:.3g},"
            sentences.append(
                f"Where {one.column} is {one.value!r}, {told} breaks the limit of {limit.value:g} "
                "by more than chance explains: it is kept on all rows together."
            )
    return sentences


class _Seen(NamedTuple):
    """Classes of rows, what was decided, what that costs, and what rows stand for."""

    codes: Array
    decided: Array
    losses: Array
    weight: Array

    def at(self, rows: Array) -> _Seen:
        """Some of the rows."""
        return _Seen(*(field[rows] for field in self))

    def share(self, what: Array, among: Array) -> float | None:
        """Share of some rows among others, if there are any."""
        return float(np.average(what[among], weights=self.weight[among])) if among.any() else None


def parts_of(column: Any, kind: str) -> dict[str, Array]:
    """Return the rows of each segment of a column, by its name.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from grayzone.training.segments import parts_of
    >>> values = pd.Series(np.arange(400.0))
    >>> {name: len(rows) for name, rows in parts_of(values, "number").items()}
    {'up to 99': 100, '100 to 199': 100, '200 to 299': 100, 'from 300 on': 100}
    """
    known = column.notna().to_numpy()
    if kind != TEXT and column.nunique() > MOST_VALUES:
        parts = _ranges(column, kind, known)
    else:
        codes, values = pd.factorize(column[known])
        names = np.array([_shown(value, kind) for value in values], dtype=object)[codes]
        rows = pd.Series(np.flatnonzero(known))
        parts = {str(name): own.to_numpy() for name, own in rows.groupby(names)}
        parts = dict(sorted(parts.items(), key=lambda item: (-len(item[1]), item[0])))
    if not known.all():
        parts[MISSING] = np.flatnonzero(~known)
    return _merged(parts, len(column))


def _shown(value: Any, kind: str) -> str:
    if kind == NUMBER:
        return f"{value:.6g}"
    return str(value.date()) if kind == DATE else str(value)


def _ranges(column: Any, kind: str, known: Array) -> dict[str, Array]:
    """Cut values into ranges of about as many rows each; equal ones stay together."""
    values = column[known] if kind == NUMBER else column[known].astype("int64")
    numbers, rows = values.to_numpy(), np.flatnonzero(known)
    inner = np.arange(1, N_RANGES) / N_RANGES
    cuts = np.unique(np.quantile(numbers, inner, method="lower"))
    places = np.searchsorted(cuts[cuts < numbers.max()], numbers, side="left")
    parts = {}
    for k in range(places.max() + 1):
        own = rows[places == k]
        low, high = (
            _shown(edge, kind) for edge in (column.iloc[own].min(), column.iloc[own].max())
        )
        last = f"from {low} on" if k == places.max() else f"{low} to {high}"
        parts[f"up to {high}" if k == 0 else last] = own
    return parts


def _merged(parts: dict[str, Array], n_rows: int) -> dict[str, Array]:
    """Call what few rows have "other"."""
    fewest = max(FEWEST_ROWS, LEAST_SHARE * n_rows)
    large = [name for name, rows in parts.items() if len(rows) >= fewest][:MOST_VALUES]
    small = [rows for name, rows in parts.items() if name not in large]
    kept = {name: parts[name] for name in large}
    if small:
        both = [kept.pop(OTHER)] if OTHER in kept else []  # a value may be called so
        kept[OTHER] = np.sort(np.concatenate([*both, *small]))
    return kept


def _segment(column: str, value: str, seen: _Seen, stakes: Stakes, chance: float) -> Segment:
    every = np.ones(len(seen.codes), dtype=bool)
    positive, alarm = seen.codes == 1, seen.decided == 1
    mean, error = mean_and_error(seen.losses, seen.weight)
    binary = stakes.binary
    return Segment(
        column,
        value,
        len(every),
        seen.share(positive, every) if binary else None,
        mean,
        error,
        seen.share(alarm, every) if binary else None,
        seen.share(alarm, positive) if binary else None,
        seen.share(alarm, ~positive) if binary else None,
        seen.share(seen.decided == -1, every) or 0.0,
        None if stakes.limit is None else _breaks(stakes.limit, positive, alarm, chance),
    )


def _breaks(limit: Target, positive: Array, alarm: Array, chance: float) -> bool:
    """Whether more rows are on the wrong side than a rate at the limit would have by chance."""
    if limit.name == "max_fpr":
        wrong, rate = alarm[~positive], limit.value
    elif limit.name == "min_recall":
        wrong, rate = ~alarm[positive], 1.0 - limit.value
    else:
        wrong, rate = ~positive[alarm], 1.0 - limit.value
    return bool(binom.sf(wrong.sum() - 1, len(wrong), rate) < chance)


def _uneven(table: Table, kinds: dict[str, str], losses: Array) -> list[str]:
    """Columns of few values on which costs differ, by a chi-squared test for all of them."""
    found = []
    for name, kind in kinds.items():
        if not 1 < table[name].nunique(dropna=False) <= MOST_VALUES:
            continue
        groups = [losses[rows] for rows in parts_of(table[name], kind).values()]
        if len(groups) > 1:
            found.append((_by_chance(groups, losses), name))
    shown = sorted(one for one in found if one[0] * len(found) < CHANCE)
    return [name for _, name in shown[:MOST_COLUMNS]]


def _by_chance(groups: list[Array], losses: Array) -> float:
    """Probability of such differences between means if all rows were drawn alike."""
    # the spread of all rows: in a small group that decides nothing wrong there may be none
    away = sum(len(own) * (own.mean() - losses.mean()) ** 2 for own in groups)
    spread = losses.var()
    return float(chi2.sf(away / spread, len(groups) - 1)) if spread > 0.0 else 1.0
