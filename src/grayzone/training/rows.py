"""What a table gives to learn from: features, labels, and columns that have another role."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from grayzone.reporting.parts import Finding
from grayzone.tables.errors import UserError, not_among, option, shortened
from grayzone.tables.numerals import Numerals
from grayzone.tables.opening import open_table
from grayzone.tables.reading import Remark
from grayzone.tables.schema import DATE, TEXT, Schema
from grayzone.training.stakes import read_target

Array = Any
Table = Any  # a pandas DataFrame

_EXAMPLES = 3  # values of a column that are shown


@dataclass(frozen=True)
class Roles:
    """Columns that say which row it is, when it was, and what it belongs to.

    ``ids`` are carried to the decisions, ``time`` puts rows in order, so that models are judged on
    later rows than they were fitted to, and no ``group`` is on both sides of a fold. None of them
    is learned from unless it is in ``keep``. Of all others, those in ``drop`` are not; where there
    is a ``keep``, only those in it are.
    """

    ids: tuple[str, ...] = ()
    time: str | None = None
    group: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    def check(self, names: Sequence[str], target: str) -> None:
        """Refuse roles of columns that are not there, and roles that contradict each other."""
        named = {"ids": self.ids, "drop": self.drop, "keep": self.keep}
        named |= {"time": _some(self.time), "group": _some(self.group)}
        for role, columns in named.items():
            unknown = [name for name in columns if name not in names]
            if unknown:
                raise UserError(f"{option(role)}: {not_among(unknown, names)}")
            if target in columns:
                raise UserError(f"{option(role)}: {shortened([target])} is the target.")
        both = [name for name in self.keep if name in self.drop]
        if both:
            raise UserError(
                f"{option('keep')} and {option('drop')}: {shortened(both)} cannot be both."
            )

    def features(self, names: Iterable[str], target: str) -> list[str]:
        """Columns to learn from."""
        if self.keep:
            return [name for name in names if name in self.keep]
        others = {target, *self.ids, *_some(self.time), *_some(self.group), *self.drop}
        return [name for name in names if name not in others]


def _some(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


@dataclass(frozen=True)
class Rows:
    """Rows of a table that have a target.

    Attributes
    ----------
    table : DataFrame
        All columns; numbers are numbers, however they were written.
    target : Series
        Labels as they are in the table.
    labels : array of str
        Labels as text.
    X : DataFrame
        Columns to learn from, each of the kind that ``schema`` says.
    schema : Schema
        What they are.
    numerals : dict
        How numbers were written, by column.
    time, groups : array or None
        What puts rows in order, and keeps them together.
    findings : list of Finding
        What was made of the file.
    """

    table: Table
    target: Any
    labels: Array
    X: Table
    schema: Schema
    numerals: dict[str, Numerals]
    time: Array | None
    groups: Array | None
    findings: list[Finding]


def open_rows(
    source: Path | Table,
    target: str,
    roles: Roles | None = None,
    *,
    decimal: str | None = None,
    sheet: str | None = None,
    missing: Sequence[str] = (),
) -> Rows:
    """Open a table and part it into what is learned, what is learned from, and the rest.

    Parameters
    ----------
    source : path or DataFrame
        The table.
    target : str
        Column to decide on.
    roles : Roles, optional
        Columns that are no features.
    decimal, sheet, missing : optional
        How to read it; see :func:`grayzone.tables.opening.open_table`.

    Raises
    ------
    UserError
        If it cannot be learned from.
    """
    roles = roles or Roles()
    names = (*roles.ids, *_some(roles.group))
    opened = open_table(
        source, decimal=decimal, sheet=sheet, text=names, labels=(target,), missing=missing
    )
    labels, known = read_target(opened.table, target)
    roles.check(list(opened.table.columns), target)
    remarks = list(opened.remarks)
    if not known.all():
        remarks.append(Remark((target,), f"{_count(~known)} without a target were left out."))
    if roles.time is not None:
        dated = opened.table[roles.time].notna().to_numpy()
        if not (known & dated).any():
            raise UserError(f"{option('time')}: {shortened([roles.time])} is empty in every row.")
        if (known & ~dated).any():
            left = _count(known & ~dated)
            remarks.append(Remark((roles.time,), f"{left} without a time were left out."))
            known = known & dated
            labels, known = _labels_of(opened.table, target, known)
    table = opened.table.loc[known].reset_index(drop=True)
    features = table[roles.features(table.columns, target)]
    X, schema = _features(features, opened.numerals, missing)
    groups = None
    if roles.group is not None:
        groups, alone = _groups(table[roles.group])
        if alone:
            remarks.append(
                Remark((roles.group,), f"{alone:,} rows without a group are each one of their own.")
            )
    findings = [Finding("reading", remark.columns, remark.text) for remark in remarks]
    return Rows(
        table,
        table[target],
        labels,
        X,
        schema,
        opened.numerals,
        None if roles.time is None else _times(table[[roles.time]], opened.numerals),
        groups,
        [*findings, *_empty(features)],
    )


def _labels_of(table: Table, target: str, rows: Array) -> tuple[Array, Array]:
    """Labels of some rows, and which rows of the table these are."""
    labels, known = read_target(table.loc[rows], target)
    places = np.flatnonzero(rows)[known]
    return labels, np.isin(np.arange(len(table)), places)


def _count(rows: Array) -> str:
    return f"{int(rows.sum()):,} rows" if rows.sum() != 1 else "1 row"


def _features(
    features: Table, numerals: dict[str, Numerals], missing: Sequence[str]
) -> tuple[Table, Schema]:
    if not features.shape[1]:
        raise UserError("The table has no column beside the target to learn from.")
    schema = Schema.of(features, numerals, missing)
    if not schema.columns:
        raise UserError("All columns beside the target are empty.")
    return schema.apply(features), schema


def _empty(features: Table) -> list[Finding]:
    names = [str(name) for name in features.columns if not features[name].notna().any()]
    if not names:
        return []
    verb = "are" if len(names) > 1 else "is"
    text = f"{shortened(names)} {verb} empty in every row: left out."
    return [Finding("empty", tuple(names), text)]


def _times(column: Table, numerals: dict[str, Numerals]) -> Array:
    schema = Schema.of(column, numerals)
    if not schema.columns or schema.columns[0].kind == TEXT:
        name, seen = str(column.columns[0]), column.iloc[:, 0].dropna()
        raise UserError(
            f"{option('time')}: {shortened([name])} should hold dates or numbers in each row; "
            f"it has {shortened([str(value) for value in seen.iloc[:2]])}."
        )
    return schema.apply(column).iloc[:, 0].to_numpy()


def _groups(column: Any) -> tuple[Array, int]:
    """Numbers of the rows' groups, and how many rows have none."""
    codes = pd.factorize(column)[0].astype(np.intp)
    alone = codes < 0
    codes[alone] = codes.max(initial=-1) + 1 + np.arange(alone.sum())
    return codes, int(alone.sum())


def describe_columns(table: Table, schema: Schema, but: Collection[str] = ()) -> list[list[str]]:
    """Rows to print before a model is trained: name, kind, gaps and some values of each column.

    Parameters
    ----------
    table : DataFrame
        Features.
    schema : Schema
        What they are.
    but : collection of str, default=()
        Columns that are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> from grayzone.tables.schema import Schema
    >>> from grayzone.training.rows import describe_columns
    >>> table = pd.DataFrame({"age": [31.0, None], "city": ["Bonn", "Jena"]})
    >>> describe_columns(table, Schema.of(table))
    [['age', 'number', '50%', '31'], ['city', 'text', '', "'Bonn', 'Jena'"]]
    """
    lines = []
    for column in schema.columns:
        if column.name in but:
            continue
        values = table[column.name]
        gaps = float(values.isna().mean())
        missing = "" if not gaps else f"{gaps:.0%}" if gaps >= 0.01 else "<1%"
        some = values.dropna().drop_duplicates().iloc[:_EXAMPLES].tolist()
        lines.append([column.name, column.kind, missing, _shown(some, column.kind)])
    return lines


def _shown(values: list[Any], kind: str) -> str:
    if kind == TEXT:
        return shortened([str(value) for value in values])
    if kind == DATE:
        return ", ".join(str(value).removesuffix(" 00:00:00") for value in values)
    return ", ".join(f"{value:.6g}" for value in values)
