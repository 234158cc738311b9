"""Which columns a model knows, and of what kind they are: numbers, dates or text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from grayzone.tables.errors import UserError, nearest, shortened
from grayzone.tables.numerals import GAPS, PLAIN, Numerals, converted, is_gap, is_text
from grayzone.tables.reading import HALF, as_text

Table = Any  # a pandas DataFrame

NUMBER, DATE, TEXT = "number", "date", "text"
FORMATS = ("ISO8601", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d")
LARGEST = 1e30  # squares and single precision hold it
MOST_VALUES = 1_000  # of a column of texts that are kept: those with more are names
_OUTSIDE = 0.01  # share of the numbers that are outside of the range that is kept: outliers
_SAMPLE = 1_000  # values that a format of dates is tried on first
_TRUTHS = {"True": 1.0, "False": 0.0}


@dataclass(frozen=True)
class Learnt:
    """What a column held when a model learned from it.

    Of ``rows`` rows ``gaps`` had no value. Of numbers, ``odd`` were outside of ``low`` to ``high``;
    of texts, the different ones are ``values``, or None where they are too many, and ``odd`` of
    them were there once.
    """

    rows: int
    gaps: int
    odd: int = 0
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] | None = None

    @classmethod
    def load(cls, record: Mapping[str, Any]) -> Learnt:
        """Make one from the plain values that it was dumped as."""
        values = record["values"]
        return cls(**{**record, "values": None if values is None else tuple(values)})

    @classmethod
    def of(cls, kind: str, values: Any) -> Learnt:
        """Return what is in a column of some kind."""
        known = values.dropna()
        learnt = cls(len(values), len(values) - len(known))
        if kind == NUMBER and len(known):
            low, high = np.quantile(known, (_OUTSIDE / 2, 1.0 - _OUTSIDE / 2), method="nearest")
            odd = int(((known < low) | (known > high)).sum())
            return replace(learnt, odd=odd, low=float(low), high=float(high))
        if kind == TEXT and known.nunique() <= MOST_VALUES:
            counts = known.value_counts()
            odd = int((counts == 1).sum())
            return replace(learnt, odd=odd, values=tuple(sorted(map(str, counts.index))))
        return learnt


@dataclass(frozen=True)
class Column:
    """A column: its name, its kind, and how it is written.

    ``format`` is that of dates, ``mixed`` says that some texts are numbers; ``decimal``,
    ``thousands`` and ``unit`` are those of numbers that are written as text, ``missing`` are words
    for gaps beside those that are usual in columns of numbers. ``learnt`` is what was in it.
    """

    name: str
    kind: str
    format: str | None = None
    mixed: bool = False
    decimal: str = PLAIN.decimal
    thousands: str = PLAIN.thousands
    unit: str = PLAIN.unit
    missing: tuple[str, ...] = ()
    learnt: Learnt | None = None

    @classmethod
    def load(cls, record: Mapping[str, Any]) -> Column:
        """Make one from the plain values that it was dumped as."""
        learnt = record.get("learnt")
        known = None if learnt is None else Learnt.load(learnt)
        return cls(**{**record, "missing": tuple(record.get("missing", ())), "learnt": known})

    @property
    def numerals(self) -> Numerals:
        """How numbers are written in the column where it is text."""
        return Numerals(self.decimal, self.thousands, self.unit)


@dataclass(frozen=True)
class Schema:
    """Columns of a table, in order; ``beside`` are those that are read, but not learned from."""

    columns: tuple[Column, ...]
    beside: tuple[Column, ...] = ()

    @classmethod
    def of(
        cls,
        table: Table,
        numerals: Mapping[str, Numerals] | None = None,
        missing: Sequence[str] = (),
    ) -> Schema:
        """Return all columns, and what is in them; those that are empty are left out.

        Parameters
        ----------
        table : DataFrame
            A table whose numbers are numbers.
        numerals : mapping, optional
            How they were written in columns that were text.
        missing : sequence of str, default=()
            Words for gaps that were asked for.
        """
        known = [name for name in table.columns if table[name].notna().any()]
        columns = [_column(str(name), table[name]) for name in known]
        columns = [replace(column, missing=tuple(missing)) for column in columns]
        columns = [_written(column, (numerals or {}).get(column.name)) for column in columns]
        held = [read_column(c, table[name]) for c, name in zip(columns, known, strict=True)]
        return cls(tuple(map(_learnt, columns, held)))

    @classmethod
    def load(
        cls, records: Sequence[dict[str, Any]], beside: Sequence[dict[str, Any]] = ()
    ) -> Schema:
        """Make one from what :meth:`dump` and :meth:`dump_beside` gave."""
        return cls(
            tuple(map(Column.load, records)),
            tuple(map(Column.load, beside)),
        )

    def dump(self) -> list[dict[str, Any]]:
        """Return plain values of the columns that are learned from."""
        return [asdict(column) for column in self.columns]

    def dump_beside(self) -> list[dict[str, Any]]:
        """Return plain values of the columns beside them."""
        return [asdict(column) for column in self.beside]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def as_written(self) -> list[str]:
        """Names of the columns that are to be read from a text file as they are written."""
        both = (*self.columns, *self.beside)
        return [column.name for column in both if column.numerals != PLAIN]

    def with_numbers(self, table: Table) -> Table:
        """Return a table in which what is written as text, but numbers, is numbers.

        Raises
        ------
        UserError
            If something else is written there.
        """
        both = (*self.columns, *self.beside)
        written = [c for c in both if c.numerals != PLAIN and c.name in table.columns]
        return table.assign(**{c.name: read_column(c, table[c.name]) for c in written})

    def apply(self, table: Table) -> Table:
        """Take these columns from a table, each as the kind it has.

        Raises
        ------
        UserError
            If one is missing, or holds values of another kind.
        """
        self.check(table)
        return pd.DataFrame(
            {column.name: read_column(column, table[column.name]) for column in self.columns},
            index=table.index,
        )

    def check(self, table: Table) -> None:
        """Refuse a table that lacks some of the columns.

        Raises
        ------
        UserError
            If it does.
        """
        missing = [name for name in self.names if name not in table.columns]
        if missing:
            further = [str(name) for name in table.columns if name not in self.names]
            raise UserError(
                f"The table lacks {len(missing)} of {len(self.names)} columns that the model needs:"
                f" {shortened(missing)}.{_hint(missing, further)}"
            )


def _hint(missing: Sequence[str], there: Sequence[str]) -> str:
    near = nearest(missing[0], there)
    return f" Is {near!r} the renamed {missing[0]!r}?" if near else ""


def _column(name: str, values: Any) -> Column:
    if pd.api.types.is_datetime64_any_dtype(values):
        return Column(name, DATE)
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_numeric_dtype(values):
        return Column(name, NUMBER)
    text = values.dropna().astype(str)
    if text.isin(list(_TRUTHS)).all() or pd.api.types.infer_dtype(values) == "decimal":
        return Column(name, NUMBER)
    numbers = pd.to_numeric(text, errors="coerce").notna()
    if numbers.all():  # as a text file would have it
        return Column(name, NUMBER)
    for fmt in FORMATS:
        if _parses(text.iloc[:_SAMPLE], fmt) and _parses(text, fmt):
            return Column(name, DATE, fmt)
    mixed = text.isin(list(_TRUTHS)) | numbers
    return Column(name, TEXT, mixed=bool(mixed.any()))


def _written(column: Column, way: Numerals | None) -> Column:
    if way is None:
        return column
    return replace(column, decimal=way.decimal, thousands=way.thousands, unit=way.unit)


def _learnt(column: Column, values: Any) -> Column:
    return replace(column, learnt=Learnt.of(column.kind, values))


def _parses(text: Any, fmt: str) -> bool:
    # four digits alone are years, counts or codes rather than dates
    if not text.str.contains(r"\d[-/.]\d", regex=True).all():
        return False
    return bool(pd.to_datetime(text, format=fmt, errors="coerce", utc=True).notna().all())


def check_characters(name: str, values: Any) -> None:
    """Refuse text with halves of characters, which can be neither written nor compared.

    Raises
    ------
    UserError
        If there is any.
    """
    if not (pd.api.types.is_object_dtype(values) or isinstance(values.dtype, pd.CategoricalDtype)):
        return
    halved = [isinstance(value, str) and bool(HALF.search(value)) for value in values]
    _refuse(name, values, pd.Series(halved), "text without lone surrogates")


def read_column(column: Column, values: Any) -> Any:
    """Return the values of a column as its kind has them.

    Raises
    ------
    UserError
        If some are of another kind.
    """
    check_characters(column.name, values)
    words = (*column.missing, *(GAPS if column.kind == NUMBER else ()))
    if words and (column.missing or not pd.api.types.is_numeric_dtype(values)):
        values = values.mask(is_gap(values, words))
    if column.kind == NUMBER:
        return _numbers(column, values)
    if column.kind == DATE:
        return _dates(column, values)
    return _texts(column, values)


def _texts(column: Column, values: Any) -> Any:
    # a few rows of a column in which only some texts are numbers may well be numbers throughout
    if not (column.mixed and pd.api.types.is_numeric_dtype(values)):
        _refuse(column.name, values, values.notna() & (not _is_text(values)), "text")
    text = pd.Series(None, index=values.index, dtype=object)
    known = values.notna().to_numpy()
    text[known] = as_text(values[known])
    return text


def _is_text(values: Any) -> bool:
    return not (
        pd.api.types.is_numeric_dtype(values) or pd.api.types.is_datetime64_any_dtype(values)
    )


def _numbers(column: Column, values: Any) -> Any:
    numbers = values
    if not pd.api.types.is_numeric_dtype(values):
        held = values.astype(object)
        if column.numerals != PLAIN and is_text(values):
            numbers = converted(column.numerals, held)
        else:
            text = held.map(str, na_action="ignore").map(lambda value: _TRUTHS.get(value, value))
            numbers = pd.to_numeric(text, errors="coerce")
    numbers = numbers.astype(np.float64)
    _refuse(column.name, values, numbers.isna() & values.notna(), "a number")
    _refuse(column.name, values, numbers.abs() > LARGEST, f"a number within ±{LARGEST:g}")
    return numbers


def _dates(column: Column, values: Any) -> Any:
    if pd.api.types.is_numeric_dtype(values):
        _refuse(column.name, values, values.notna(), "a date")
    dates = values
    if not pd.api.types.is_datetime64_any_dtype(values):
        text = values.astype(object).map(str, na_action="ignore")
        dates = pd.to_datetime(text, format=column.format or "ISO8601", errors="coerce", utc=True)
        _refuse(column.name, values, dates.isna() & values.notna(), "a date")
    # one clock for all rows, and for tables that name no time zone
    return dates.dt.tz_convert(None) if dates.dt.tz is not None else dates


def _refuse(name: str, values: Any, wrong: Any, wanted: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong.to_numpy())[0])
        raise UserError(
            f"Column {shortened([name])} should hold {wanted} in each row; row {row + 1} has"
            f" {shortened([str(values.iloc[row])])} ({int(wrong.sum()):,} such rows)."
        )
