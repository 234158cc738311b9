"""A table as a model is to learn from it: numbers are numbers, whatever they are written like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from grayzone.tables.errors import UserError, option, shortened
from grayzone.tables.numerals import (
    COMMA,
    DECIMALS,
    PLAIN,
    Numerals,
    is_gap,
    is_some_number,
    is_text,
    numbers_with_gaps,
    numerals_of,
    with_numbers,
)
from grayzone.tables.reading import Content, Remark, check_names, is_text_file, read_content
from grayzone.tables.schema import check_characters

Table = Any  # a pandas DataFrame
Words = Counter[str]

_TOLD = 5  # columns whose words for gaps are told
_MOSTLY = 0.5  # share of numbers from which on a column of text is said to be one
_SAMPLE = 2_000  # different values that are looked at for that


@dataclass(frozen=True)
class Opened:
    """A table, how numbers are written in its columns, and what a reader should know."""

    table: Table
    numerals: dict[str, Numerals] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()


def open_table(
    source: Path | Table,
    *,
    decimal: str | None = None,
    sheet: str | None = None,
    text: Collection[str] = (),
    labels: Collection[str] = (),
    missing: Collection[str] = (),
) -> Opened:
    """Read a table, find out how numbers are written in each column, and make them numbers.

    Parameters
    ----------
    source : path or DataFrame
        Where the table is, or the table itself.
    decimal : {".", ","}, optional
        Decimal sign of columns that allow both.
    sheet : str, optional
        Sheet of a workbook.
    text : collection of str, default=()
        Columns that are names, not numbers: they stay as they are written, zeros in front too.
    labels : collection of str, default=()
        Columns that are not numbers either, and are read as they come.
    missing : collection of str, default=()
        Words, or numbers, that are gaps in any column; in columns of numbers the usual ones are.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    if decimal is not None and decimal not in DECIMALS:
        raise UserError(f"{option('decimal')} must be '.' or ','; got {decimal!r}.")
    if isinstance(source, Path):
        content = read_content(source, sheet=sheet, text=text)
    else:
        content = _held(source)
    table, words = _without(content.table, missing)
    texts = table.drop(columns=[name for name in (*text, *labels) if name in table])
    gapped = {name: numbers_with_gaps(texts[name]) for name in texts}
    gapped = {name: values for name, values in gapped.items() if values is not None}
    for name, values in gapped.items():
        words[name] = words.get(name, Counter()) + _written(table[name], values.isna())
    there = content.table
    unused = [word for word in missing if not any(is_gap(there[c], [word]).any() for c in there)]
    table, texts = table.assign(**gapped), texts.assign(**gapped)
    numerals = numerals_of(texts, decimal, content.semicolons)
    if isinstance(source, Path) and is_text_file(source) and (numerals or decimal == COMMA):
        # points that set thousands apart have been read as decimal ones
        doubtful = [name for name in texts if pd.api.types.is_float_dtype(texts[name])]
        written = _without(read_content(source, text=doubtful).table[doubtful], missing)[0]
        texts = texts.assign(**{name: written[name] for name in doubtful})
        numerals = numerals_of(texts, decimal, content.semicolons)
        changed = [name for name in doubtful if name in numerals]
        table = table.assign(**{name: written[name] for name in changed})
    other = texts.drop(columns=list(numerals))
    remarks = (*content.remarks, *_said(table, numerals), *_gaps(words, unused))
    plain = {name: PLAIN for name in gapped if name not in numerals and is_text(table[name])}
    remarks += tuple(_undecided(other.drop(columns=list(plain))))
    return Opened(with_numbers(table, numerals | plain), numerals, remarks)


def _without(table: Table, missing: Collection[str]) -> tuple[Table, dict[str, Words]]:
    """A table with gaps for some words, and which of them were in which column, how often."""
    gaps = {name: is_gap(table[name], missing) for name in table.columns if missing}
    gaps = {name: rows for name, rows in gaps.items() if rows.any()}
    words = {name: _written(table[name], rows) for name, rows in gaps.items()}
    return table.assign(**{name: table[name].mask(rows) for name, rows in gaps.items()}), words


def _written(values: Any, rows: Any) -> Words:
    """How often what is written in some rows of a column."""
    return Counter(str(value).strip() for value in values[rows].dropna())


def _held(table: Any) -> Content:
    """A table that somebody has in memory."""
    if not isinstance(table, pd.DataFrame):
        if not hasattr(table, "to_pandas"):
            raise UserError(f"A table must be a file or a data frame; got {type(table).__name__}.")
        table = table.to_pandas()
    names = [str(name) for name in table.columns]
    check_names("The table", names)
    if not len(table):
        raise UserError("The table has column names and no rows.")
    table = table.set_axis(names, axis=1).reset_index(drop=True)
    for name in names:
        check_characters(name, table[name])
    return Content(table)


def _said(table: Table, numerals: dict[str, Numerals]) -> list[Remark]:
    """One line for each way of writing, with an example."""
    lines = []
    for way, sure in dict.fromkeys((way, way.sure) for way in numerals.values()):
        names = [name for name, own in numerals.items() if (own, own.sure) == (way, sure)]
        values = (value for name in names for value in table[name].dropna().iloc[:_SAMPLE])
        longest = max(values, key=len)
        signs = [f"{'comma' if way.decimal == COMMA else 'point'} as the decimal sign"]
        signs += [f"{way.thousands!r} between thousands"] if way.thousands else []
        signs += [f"the unit {way.unit}"] if way.unit else []
        text = (
            f"Text read as numbers, {', '.join(signs)}: {shortened(names)} ({longest!r} is "
            f"{way.number(longest):.12g})."
        )
        if not sure:
            text += (
                f" Every value could be read otherwise, too: {option('decimal')} chooses the sign."
            )
        lines.append(Remark(tuple(names), text))
    return lines


def _gaps(words: dict[str, Words], unused: list[str]) -> list[Remark]:
    """One line on all words that are read as gaps, and on those that are nowhere."""
    lines = []
    if words:
        told = [
            f"{shortened(list(own), 3)} in {shortened([name])} ({sum(own.values()):,} rows)"
            for name, own in words.items()
        ]
        more = f" and in {len(told) - _TOLD:,} columns more" * (len(told) > _TOLD)
        text = f"Read as missing: {'; '.join(told[:_TOLD])}{more}."
        lines.append(Remark(tuple(words), text))
    if unused:
        lines.append(Remark((), f"{option('missing')}: {shortened(unused)} is in no column."))
    return lines


def _undecided(table: Table) -> list[Remark]:
    """Columns that stay text although most of their values are numbers, in one way or several."""
    lines = []
    for name in table.columns:
        if not is_text(table[name]):
            continue
        counts = table[name].dropna().astype(str).value_counts().iloc[:_SAMPLE]
        numbers = [is_some_number(value) for value in counts.index]
        share = float(np.average(numbers, weights=counts.to_numpy()))
        if share < _MOSTLY or all(PLAIN.number(value) is not None for value in counts.index):
            continue
        odd = [value for value, is_one in zip(counts.index, numbers, strict=True) if not is_one]
        why = (
            f"others are not, such as {shortened(odd[:2])} ({option('missing')} names words for "
            "missing values)"
        )
        if not odd:
            why = (
                f"but not all written in the same way, such as {shortened(list(counts.index[:3]))}"
            )
        text = f"{shortened([name])} stays text: {share:.0%} of its values are numbers, {why}."
        lines.append(Remark((str(name),), text))
    return lines
