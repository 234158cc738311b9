"""How a new table differs from the one that a model learned from: ranges, categories, gaps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import hypergeom

from grayzone.tables.errors import shortened
from grayzone.tables.schema import Column, Learnt, Schema, read_column

Table = Any  # a pandas DataFrame

# A change is told of where its share of the rows has grown by a tenth: amounts in another unit, a
# new code or a lost column are nearly all rows, while seasons and regions move less than that.
MORE = 0.1
# And where chance would hardly ever do it, in any column: few rows differ from many by luck.
CHANCE = 1e-3


def changes_of(schema: Schema, table: Table) -> Table:
    """Return what is different in each column of a new table.

    Parameters
    ----------
    schema : Schema
        Columns, and what was learned of them.
    table : DataFrame
        The new table.

    Returns
    -------
    changes : DataFrame
        A row per column: ``column`` and ``kind``; ``empty``, the share of rows without a value, and
        ``empty_in_training``; ``outside``, the share of numbers below ``low`` or above ``high``,
        between which 99 % were in training; ``unseen``, the share of texts that were not in
        training; ``change``, a sentence where a share has grown by a tenth of the rows, and by more
        than chance.

    Examples
    --------
    >>> import pandas as pd
    >>> from grayzone.tables.changes import changes_of
    >>> from grayzone.tables.schema import Schema
    >>> old = pd.DataFrame({"amount": range(200), "city": ["Bonn", "Jena"] * 100})
    >>> schema = Schema.of(old)
    >>> new = changes_of(schema, old.assign(amount=(old["amount"] + 1) * 1000))
    >>> new["change"].tolist()
    ["100% of the values of 'amount' are outside of 1 to 198, such as 1000; in training 1%.", '']
    """
    schema.check(table)
    both = (*schema.columns, *schema.beside)
    known = [(c, c.learnt) for c in both if c.learnt is not None and c.name in table]
    chance = CHANCE / max(2 * len(known), 1)
    lines = [
        _change(column, learnt, read_column(column, table[column.name]), chance)
        for column, learnt in known
    ]
    return pd.DataFrame(lines, columns=_Change._fields)


class _Change(NamedTuple):
    column: str
    kind: str
    empty: float
    empty_in_training: float
    outside: float
    low: float | None
    high: float | None
    unseen: float
    change: str


def _change(column: Column, learnt: Learnt, values: Any, chance: float) -> _Change:
    """What is different in one column."""
    empty = values.isna()
    known = values[~empty]
    new = _new(learnt, known)
    before, told = learnt.gaps / learnt.rows, []
    if _is_more(empty, learnt.gaps, learnt.rows, chance):
        where = "every row" if empty.all() else f"{empty.mean():.0%} of rows"
        told.append(f"{shortened([column.name])} is empty in {where}, in training in {before:.0%}.")
    if _is_more(new, learnt.odd, learnt.rows - learnt.gaps, chance):
        told.append(_told(column.name, learnt, known[new], float(new.mean())))
    share = float(new.mean()) if len(new) else np.nan
    return _Change(
        column.name,
        column.kind,
        float(empty.mean()),
        before,
        np.nan if learnt.low is None else share,
        learnt.low,
        learnt.high,
        np.nan if learnt.values is None else share,
        " ".join(told),
    )


def _new(learnt: Learnt, values: Any) -> Any:
    """Which values were not there in training, as far as that is known."""
    if learnt.values is not None:
        return ~values.isin(learnt.values)
    if learnt.low is None:
        return pd.Series(False, index=values.index)
    return (values < learnt.low) | (values > learnt.high)


def _is_more(rows: Any, before: int, of: int, chance: float) -> bool:
    """Whether a share of rows has grown by more than a tenth, and more than by chance."""
    count, n = int(rows.sum()), len(rows)
    if not n or count / n < before / max(of, 1) + MORE:
        return False
    return bool(hypergeom.sf(count - 1, n + of, count + before, n) < chance)


def _told(name: str, learnt: Learnt, values: Any, share: float) -> str:
    of = f"{share:.0%} of the values of {shortened([name])}"
    if learnt.values is not None:
        return f"{of} were not in training: {shortened(list(values.value_counts().index), 3)}."
    before = learnt.odd / (learnt.rows - learnt.gaps)
    return (
        f"{of} are outside of {learnt.low:.6g} to {learnt.high:.6g}, such as {values.iloc[0]:.6g}; "
        f"in training {before:.0%}."
    )
