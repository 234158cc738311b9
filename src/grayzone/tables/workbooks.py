"""Tables from workbooks (.xlsx): one sheet, its first row the names, formulas by their values."""

from __future__ import annotations

import datetime
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import ParseError

import pandas as pd

from grayzone.tables.errors import UserError, shortened

Table = Any  # a pandas DataFrame
Cells = list[list[Any]]

SUFFIXES = (".xlsx", ".xlsm")
MOST_BYTES = 2**31  # of the unpacked workbook
MOST_CELLS = 50_000_000
# whatever a damaged file makes a reader of workbooks do
_DAMAGED = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, NotImplementedError, OSError),
    *(ParseError, RuntimeError, TypeError, ValueError, zipfile.BadZipFile, zlib.error),
)


class Sheet(NamedTuple):
    """Names and columns of a sheet, which one it is, and how many cells are errors, by column."""

    table: Table
    name: str
    others: list[str]
    errors: dict[str, int]


def read_sheet(path: Path, sheet: str | None = None) -> Sheet:
    """Read a sheet of a workbook, the first one unless another is named.

    Raises
    ------
    UserError
        If there is no such sheet, or it is no table with names in its first row.
    """
    with _workbook(path, values=True) as book:
        names = list(book.sheetnames)
        chosen = _chosen(path, names, sheet)
        cells = _cells(path, book[chosen])
    if not cells:
        raise UserError(f"{path}: sheet {shortened([chosen])} is empty.")
    width = max(map(len, cells))
    header = [*cells[0], *[None] * (width - len(cells[0]))]
    _check_header(path, chosen, header)
    rows = [[*row, *[None] * (width - len(row))] for row in cells[1:]]
    if any(value is None for row in rows for value in row):
        _check_formulas(path, chosen, cells)
    return _as_table(header, rows, chosen, names)


def _as_table(header: list[Any], rows: Cells, chosen: str, names: list[str]) -> Sheet:
    columns, errors = {}, {}
    for k, name in enumerate(header):
        values = [row[k] for row in rows]
        wrong = sum(isinstance(value, _Error) for value in values)
        if wrong:
            errors[str(name)] = wrong
        columns[k] = _column([None if isinstance(v, _Error) else v for v in values])
    # by place: a name may be there twice, which is refused later
    table = pd.DataFrame(columns, index=range(len(rows))).set_axis(list(map(str, header)), axis=1)
    return Sheet(table, chosen, [name for name in names if name != chosen], errors)


class _Error(str):
    """What stands in a cell that has no value: #DIV/0! and the like."""


@contextmanager
def _workbook(path: Path, values: bool) -> Iterator[Any]:
    try:
        import openpyxl
    except ImportError as error:
        raise UserError(f"{path}: workbooks need openpyxl: pip install openpyxl.") from error
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MOST_BYTES:
            raise UserError(f"{path} has {size:,} bytes unpacked; at most {MOST_BYTES:,} are read.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of parts that are not read
            book = openpyxl.load_workbook(path, read_only=True, data_only=values, keep_links=False)
            try:
                yield book
            finally:
                book.close()
    except UserError:
        raise
    except _DAMAGED as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} is no workbook, or is damaged: {reason}") from error


def _chosen(path: Path, names: list[str], sheet: str | None) -> str:
    if not names:
        raise UserError(f"{path} has no sheet.")
    if sheet is None:
        return names[0]
    if sheet not in names:
        raise UserError(f"{path} has no sheet {shortened([sheet])}; it has {shortened(names)}.")
    return sheet


def _cells(path: Path, sheet: Any) -> Cells:
    """Cells of a sheet without empty rows and columns at its end."""
    if not hasattr(sheet, "reset_dimensions"):
        raise UserError(f"{path}: sheet {shortened([sheet.title])} is a chart; expected a table.")
    sheet.reset_dimensions()  # what a file says of them may be anything
    rows: Cells = []
    end = seen = 0
    for row in sheet.iter_rows():
        seen += len(row) + 1
        if seen > MOST_CELLS:
            raise UserError(f"{path} has more than {MOST_CELLS:,} cells; save it as CSV instead.")
        values = [_value(cell) for cell in row]
        while values and values[-1] is None:
            values.pop()
        rows.append(values)
        end = len(rows) if values else end
    return rows[:end]


def _value(cell: Any) -> Any:
    value = cell.value
    if cell.data_type == "e":
        return _Error(value)
    if isinstance(value, str) and not value.strip():
        return None
    if isinstance(value, datetime.time | datetime.timedelta):
        return str(value)
    return value


def _column(values: list[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if str in kinds and len(kinds) > 1:
        return pd.Series(
            [None if value is None else _text(value) for value in values], dtype=object
        )
    return pd.Series(values, dtype=None if kinds else float)


def _text(value: Any) -> str:
    """What stands in a cell, as a text file would have it."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return str(value.date())
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _check_header(path: Path, sheet: str, header: list[Any]) -> None:
    blank = [str(k + 1) for k, name in enumerate(header) if name is None]
    if blank:
        raise UserError(
            f"{path}: column {', '.join(blank[:5])} of sheet {shortened([sheet])} has no name in "
            "the first row; expected one row of names there, without merged cells or a title."
        )


def _check_formulas(path: Path, sheet: str, cells: Cells) -> None:
    """Refuse formulas that were never computed: they would be gaps."""
    first = None
    with _workbook(path, values=False) as written:
        for values, row in zip(cells, written[sheet].iter_rows(), strict=False):
            for k, cell in enumerate(row):
                if cell.data_type != "f":
                    continue
                if k < len(values) and values[k] is not None:
                    return  # some were, so that a gap is what a formula has given
                first = first or cell.coordinate
    if first:
        raise UserError(
            f"{path}: the formulas of sheet {shortened([sheet])} (cell {first} and others) were "
            "never computed; open and save it in a spreadsheet program first."
        )
