"""Tables from files: text, Parquet, Arrow and workbooks, read as they are or refused."""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import re
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from grayzone.tables.errors import UserError, option, shortened
from grayzone.tables.output import check_file, whole_file
from grayzone.tables.packed import PACKINGS, packing, unpacked, unpacked_name
from grayzone.tables.workbooks import SUFFIXES as WORKBOOKS
from grayzone.tables.workbooks import read_sheet

Table = Any  # a pandas DataFrame

TEXT_SUFFIXES = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": None}
BINARY_SUFFIXES = {".parquet", ".pq", ".arrow", ".feather", ".ipc"}
_OTHER_KINDS = (".xls", ".xlsb", ".ods", ".numbers")
DELIMITERS = ",;\t|"
SNIFFED = 65_536  # characters that a delimiter is looked for in
_WRITTEN_TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_WRITTEN_BINARY = (".parquet", ".pq")
# how a cell begins that spreadsheets run, also in the wide letters of East Asian keyboards
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
HALF = re.compile("[\ud800-\udfff]")  # of a character: a lone surrogate, which UTF-8 has not
_READABLE = f"CSV, TSV (also {', '.join(PACKINGS)}), Parquet, Arrow, Feather or .xlsx"


class Remark(NamedTuple):
    """Something that a reader of a file should know, and the columns that it is about."""

    columns: tuple[str, ...]
    text: str


class Content(NamedTuple):
    """What a file holds: a table, whether semicolons part its columns, and what is to be said."""

    table: Table
    semicolons: bool = False
    remarks: tuple[Remark, ...] = ()


def read_table(
    path: Path, corner: str | None = None, *, text: Collection[str] = (), sheet: str | None = None
) -> Table:
    """Read a table; every column has a name of its own, and there are rows.

    Parameters
    ----------
    path : path
        A file: text, also compressed, Parquet, Arrow or a workbook.
    corner : str, optional
        Name of the first column of a text file where it has none.
    text : collection of str, default=()
        Columns of a text file that are left as they are written.
    sheet : str, optional
        Sheet of a workbook; the first one by default.

    Raises
    ------
    UserError
        If it cannot be read, or holds nothing to learn from.
    """
    return read_content(path, corner, text=text, sheet=sheet).table


def read_content(
    path: Path, corner: str | None = None, *, text: Collection[str] = (), sheet: str | None = None
) -> Content:
    """Read a table as :func:`read_table` does, and return what else is known of the file."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; expected a file: {_READABLE}.")
    if not path.exists():
        raise UserError(f"{path} does not exist.")
    suffix = Path(unpacked_name(path)).suffix.lower()
    if sheet is not None and suffix not in WORKBOOKS:
        raise UserError(
            f"{option('sheet')} is for workbooks ({', '.join(WORKBOOKS)}); {path} is none."
        )
    if suffix in TEXT_SUFFIXES:
        content = _read_text(path, TEXT_SUFFIXES[suffix], corner, text)
    elif packing(path) and suffix in (*BINARY_SUFFIXES, *WORKBOOKS):
        raise UserError(f"{path}: unpack it first; {suffix} files are compressed themselves.")
    elif suffix in BINARY_SUFFIXES:
        content = Content(_read_binary(path, suffix))
    elif suffix in WORKBOOKS:
        content = _read_workbook(path, sheet)
    elif suffix in _OTHER_KINDS:
        raise UserError(f"{path}: {suffix} is not read; save it as .xlsx or CSV.")
    else:
        raise UserError(f"{path}: no known kind of table; expected {_READABLE}.")
    if not len(content.table):
        raise UserError(f"{path} has column names and no rows.")
    return content


def is_text_file(path: Path) -> bool:
    """Whether a file holds text, compressed or not."""
    return Path(unpacked_name(path)).suffix.lower() in TEXT_SUFFIXES


def fingerprint(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint_of(table: Table) -> str:
    """SHA-256 of a table in memory."""
    values = table.astype({name: str for name in table.select_dtypes(object)})
    hashes = pd.util.hash_pandas_object(values, index=False).to_numpy()
    return hashlib.sha256(hashes.tobytes()).hexdigest()


def as_text(column: Any) -> Any:
    """Values as they stand in a file; 1.0 is 1 where all are whole."""
    if pd.api.types.is_float_dtype(column) and (column % 1.0 == 0.0).all():
        column = column.map("{:.0f}".format)
    return column.astype(str).to_numpy().astype(str)


def check_writable(path: Path) -> None:
    """Refuse to write a table of an unknown kind, or where there is no folder for it."""
    check_file(path)
    if not path.name.lower().endswith((*_WRITTEN_TEXT, *_WRITTEN_BINARY)):
        raise UserError(f"{path}: expected .csv, .csv.gz, .tsv or .parquet.")


def write_table(table: Table, path: Path, raw: bool = False) -> None:
    """Write a table as CSV, TSV (also .gz) or Parquet, whole or not at all.

    Cells and names that a spreadsheet would run are text to it, by an apostrophe, unless they are
    asked for as they are (``raw``). Columns of values that Parquet has no type for, as integers of
    more than 64 bits, are text there.
    """
    check_writable(path)
    name = path.name.lower()
    if name.endswith(_WRITTEN_BINARY):
        typed = _with_types(table)
        whole_file(path, lambda part: typed.to_parquet(part, index=False))
        return
    text = table if raw else _harmless(table)
    options = {
        "sep": "\t" if ".tsv" in name else ",",
        "compression": "gzip" if name.endswith(".gz") else None,
        # readers take a carriage return for the end of a row, unless it is quoted
        "quoting": csv.QUOTE_NONNUMERIC if _has_return(text) else csv.QUOTE_MINIMAL,
    }
    whole_file(path, lambda part: text.to_csv(part, index=False, **options))


def _with_types(table: Table) -> Table:
    """Make text of columns whose values have no type of their own in Parquet."""
    columns = [table.iloc[:, k] for k in range(table.shape[1])]  # a name may be there twice
    typed = [column if _has_type(column) else column.map(str, "ignore") for column in columns]
    return pd.concat(typed, axis=1)


def _has_type(column: Any) -> bool:
    import pyarrow as pa

    if not pd.api.types.is_object_dtype(column):
        return True
    try:
        pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True


def _harmless(table: Table) -> Table:
    """Put an apostrophe before what begins as a formula does and is no number."""
    # by place: a name may be there twice
    columns = [
        column if _is_plain(column) else column.astype(object).map(_quoted, na_action="ignore")
        for column in (table.iloc[:, k] for k in range(table.shape[1]))
    ]
    return pd.concat(columns, axis=1).set_axis([_quoted(str(c)) for c in table.columns], axis=1)


def _has_return(table: Table) -> bool:
    columns = (table.iloc[:, k] for k in range(table.shape[1]))
    texts = (column.dropna().astype(str) for column in columns if not _is_plain(column))
    return any(text.str.contains("\r", regex=False).any() for text in texts) or any(
        "\r" in str(name) for name in table.columns
    )


def _is_plain(column: Any) -> bool:
    return pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column)


def _quoted(value: Any) -> Any:
    begins = isinstance(value, str) and value.startswith(_FORMULA)
    return f"'{value}" if begins and not _NUMBER.fullmatch(value) else value


def _read_workbook(path: Path, sheet: str | None) -> Content:
    read = read_sheet(path, sheet)
    check_names(path, list(read.table.columns))
    remarks = []
    if read.others and sheet is None:
        remarks.append(
            Remark(
                (),
                f"Sheet {shortened([read.name])} was read; there is {shortened(read.others)}"
                f" too ({option('sheet')} chooses).",
            )
        )
    if read.errors:
        remarks.append(
            Remark(
                tuple(read.errors),
                f"{sum(read.errors.values()):,} cells of {shortened(list(read.errors))} are errors "
                "of the spreadsheet (such as #DIV/0!): they are read as gaps.",
            )
        )
    return Content(read.table, remarks=tuple(remarks))


def _read_binary(path: Path, suffix: str) -> Table:
    try:
        import pyarrow as pa
        from pyarrow import feather, parquet
    except ImportError as error:
        raise UserError(f"{path}: Parquet and Arrow need pyarrow: pip install pyarrow.") from error
    try:
        arrow = parquet.read_table(path) if suffix in (".parquet", ".pq") else None
        if arrow is None:
            arrow = _read_arrow(path, feather)
        arrow.validate(full=True)  # places of texts are followed without a look
        check_names(path, arrow.column_names)
        unnamed = [name for name in arrow.column_names if name.startswith("__index_level_")]
        # as in a text file: a named index of pandas is a column, one without a name is none
        return arrow.drop_columns(unnamed).to_pandas(ignore_metadata=True)
    except UserError:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise UserError(f"{path} is no {suffix[1:]} file, or is damaged: {_line(error)}") from error


def _read_arrow(path: Path, feather: Any) -> Any:
    import pyarrow as pa

    try:
        return feather.read_table(path)
    except pa.ArrowInvalid:
        with pa.OSFile(str(path), "rb") as file:
            return pa.ipc.open_stream(file).read_all()


def _read_text(
    path: Path, delimiter: str | None, corner: str | None, as_written: Collection[str]
) -> Content:
    text = _decoded(unpacked(path))
    if not text.strip():
        raise UserError(f"{path} is empty.")
    if "\x00" in text:
        raise UserError(f"{path} is no text: it has zero bytes. Is it of another kind?")
    delimiter = _delimiter(text, delimiter)
    if corner is not None and text.startswith((delimiter, f'""{delimiter}')):
        text = corner + text.removeprefix('""')
    try:
        names = next(csv.reader(io.StringIO(text), delimiter=delimiter))
        check_names(path, names)
        with warnings.catch_warnings():
            # rows that are longer than the first one would lose values
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                io.StringIO(text),
                sep=delimiter,
                low_memory=False,
                index_col=False,
                dtype={name: str for name in as_written if name in names},
            )
    except UserError:
        raise
    except (csv.Error, pd.errors.ParserWarning, ValueError) as error:
        fault = _fault(text, delimiter) or _line(error)
        raise UserError(f"{path} is no proper table: {fault}") from error
    return Content(table, semicolons=delimiter == ";")


def _fault(text: str, delimiter: str) -> str:
    """Say which line a parser stumbled over; "" where that is not known."""
    lines = csv.reader(io.StringIO(text), delimiter=delimiter)
    try:
        n_columns = len(next(lines))
        for line in lines:
            if len(line) > n_columns:
                return (
                    f"line {lines.line_num:,} has {len(line):,} values, and the first line names "
                    f"{n_columns:,} columns. Is a {delimiter!r} within a value, without quotation "
                    "marks?"
                )
    except csv.Error as error:
        return f"line {lines.line_num:,}: {_line(error)}"
    return "a quotation mark is never closed" if text.count('"') % 2 else ""


def _decoded(raw: bytes) -> str:
    """Bytes as text: UTF-8, UTF-16 where they say so, and otherwise Latin-1, which reads all."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", errors="replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _delimiter(text: str, usual: str | None) -> str:
    """The usual one, unless the first line has none of it and another one stands out."""
    first = text[:SNIFFED].splitlines()[0]
    counts = {delimiter: first.count(delimiter) for delimiter in DELIMITERS}
    if usual is not None and counts[usual]:
        return usual
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] else (usual or ",")


def check_names(path: Path | str, names: list[str]) -> None:
    """Refuse columns without a name, and two of the same name."""
    blank = [str(k + 1) for k, name in enumerate(names) if not name.strip()]
    if blank:
        raise UserError(f"{path}: column {', '.join(blank[:5])} has no name.")
    if halved := [name for name in names if HALF.search(name)]:
        raise UserError(f"{path}: names of columns have lone surrogates: {shortened(halved)}.")
    seen: dict[str, int] = {}
    for k, name in enumerate(names):
        if name in seen:
            raise UserError(
                f"{path}: two columns have the name {shortened([name])} (columns {seen[name] + 1} "
                f"and {k + 1}); names must differ."
            )
        seen[name] = k


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
