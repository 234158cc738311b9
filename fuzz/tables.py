"""Hostile tables for the command line: decided on, trained on, or refused in one line."""

import bz2
import contextlib
import gzip
import importlib.util
import io
import json
import lzma
import os
import random
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from fuzz.model_parts import small_model, small_table
from grayzone.cli import main
from grayzone.tables.changes import changes_of
from grayzone.tables.errors import UserError
from grayzone.tables.reading import read_table
from grayzone.training import candidates, comparison
from grayzone.training.folds import folds_of
from grayzone.training.hygiene import inspect_rows
from grayzone.training.model import DecisionModel
from grayzone.training.rows import Roles, Rows, describe_columns, open_rows

Random = random.Random
Column = list[Any]

_TRAINED = 0.15  # how often a model is trained; that takes longer than to decide
_LONGEST = 600  # characters of a line
_WORKBOOKS = importlib.util.find_spec("openpyxl") is not None
_FILES = ["metrics.json", "model.skops", "report.html"]
_WORDS = (
    *("", " ", "a", "red", "NaN", "nan", "None", "null", "NA", "inf", "-inf", "True", "False"),
    *("=cmd|' /C calc'!A0", "+1+1", "-1", "@x", "\t", "a\rb", "a\nb", 'say "x"', "a,b", "a;b"),
    *("é", "日本語", "\u202e", "\ufeff", "😀", "<script>alert(1)</script>", "{{7*7}}", "%s%n"),
    *("../../x", "x" * 5_000, "1e400", "1_000", "0x10", "1,5", "2020-02-30", "2020-01-01"),
    *("31.12.1999", "9999-12-31T23:59:59+14:00", "0001-01-01", "12:00", "١٢", "\x1b[31m"),
)
_NUMBERS = (
    *(0, 1, -1, 0.5, -0.0, 1e-320, 1e29, -1e29, 1e31, 1e300, 2**53 + 1, 2**63, -(2**63), 10**30),
    *(float("nan"), float("inf"), float("-inf"), None, True, False, 1e-9, 255, 3.0),
)


def _tame(rng: Random, n: int) -> Column:
    return [round(rng.gauss(0, 1), 3) for _ in range(n)]


def _constant(rng: Random, n: int) -> Column:
    return [rng.choice((*_NUMBERS, *_WORDS))] * n


def _numbers(rng: Random, n: int) -> Column:
    some = rng.sample(_NUMBERS, 3)
    return [rng.choice(some) if rng.random() < 0.2 else rng.gauss(0, 3) for _ in range(n)]


def _words(rng: Random, n: int) -> Column:
    some = rng.sample(_WORDS, rng.choice((1, 2, 5)))
    return [rng.choice(some) for _ in range(n)]


def _anything(rng: Random, n: int) -> Column:
    return [rng.choice(rng.choice((_WORDS, _NUMBERS))) for _ in range(n)]


def _rare(rng: Random, n: int) -> Column:
    values: Column = [None] * n
    if n:
        values[rng.randrange(n)] = rng.choice((*_NUMBERS, *_WORDS))
    return values


def _counted(rng: Random, n: int) -> Column:
    return [f"{rng.choice(('id', '', '0'))}{k}" for k in range(n)]


def _dates(rng: Random, n: int) -> Column:
    fmt = rng.choice(("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y-%m-%dT%H:%M:%S+02:00", "%Y"))
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(
        [rng.randrange(900) for _ in range(n)], "D"
    )
    values: Column = list(days.strftime(fmt))
    if n and rng.random() < 0.3:
        values[rng.randrange(n)] = rng.choice((None, "soon", "2020-13-45", 3))
    return values


def _written_numbers(rng: Random, n: int) -> Column:
    """Numbers as people write them, mostly all in one way."""
    decimal, thousands = rng.choice((",.", ".,", ", ", ".'", ",\u202f", ",_"))
    unit = rng.choice(("", "", "", " %", " €", "$", "EUR"))
    places = rng.choice((0, 1, 2, 3))
    digits = rng.choice((1, 3, 6, 12))

    def text() -> str:
        plain = f"{rng.uniform(-1, 1) * 10**digits:_.{places}f}"
        swapped = plain.replace(".", decimal).replace("_", thousands.replace("_", ""))
        return unit + swapped if unit == "$" else swapped + unit

    values: Column = [text() for _ in range(n)]
    if n and rng.random() < 0.3:
        odd = (*_WORDS, "1.5", "1,5", "-", " N/A", "1,234", None, 3.5)
        values[rng.randrange(n)] = rng.choice(odd)
    return values


KINDS: tuple[Callable[[Random, int], Column], ...] = (
    *(_tame, _tame, _tame, _constant, _numbers, _words, _anything, _rare, _counted, _dates),
    *(_written_numbers, _written_numbers),
)


def hostile_columns(rng: Random) -> tuple[list[str], list[Column]]:
    """Return names and columns; those that a model needs are often there, of any kind."""
    tame = rng.choice((0.0, 0.6, 0.95))  # how many columns are as a model knows them
    n = rng.choice((40, 60) if tame else (0, 1, 2, 20, 40))
    known = small_table(rng.choice(("numbers", "numbers", "mixed")))
    names = [name for name in known.columns if tame or rng.random() < 0.95]
    names += [rng.choice((*_WORDS, "c", "y", "decision")) for _ in range(rng.choice((0, 0, 1, 3)))]
    if rng.random() < 0.8:
        names = list(dict.fromkeys(names))
    rng.shuffle(names)
    columns = [
        rng.choices(known[name].tolist(), k=n)
        if name in known and rng.random() < tame
        else rng.choice(KINDS)(rng, n)
        for name in names
    ]
    return names, columns


def _target(rng: Random, n: int) -> Column:
    labels = rng.choice(
        (
            ("no", "yes"),
            ("0", "1"),
            (0.0, 1.0),
            ("=1+1", "-1"),
            ("a", "b", "c"),
            ("é", "\t"),
            _WORDS,
        )
    )
    shares = [rng.random() ** 2 for _ in labels]
    values: Column = rng.choices(labels, shares, k=n)
    gaps = rng.choice((0.0, 0.0, 0.02))
    return [None if rng.random() < gaps else value for value in values]


def written(rng: Random, folder: Path, names: list[str], columns: list[Column]) -> Path:
    """Write a table as a file of some kind."""
    if rng.random() < 0.25:
        return _binary(rng, folder, names, columns)
    if _WORKBOOKS and rng.random() < 0.1:
        return _workbook(rng, folder, names, columns)
    separator = rng.choice((",", ",", ",", ";", "\t", "|"))
    text = _text(rng, names, columns, separator)
    raw = text.encode(
        rng.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "utf-7")),
        "replace",
    )
    if rng.random() < 0.1:
        at = rng.randrange(len(raw) + 1)
        raw = raw[:at] + rng.choice((b"\0", b"\xff\xfe", b'"', b"\r", b"\n", b"\x80")) + raw[at:]
    if rng.random() < 0.05:
        raw = raw[: rng.randrange(len(raw) + 1)]
    name = rng.choice(("t.csv", "t.csv", "t.csv", "t.tsv", "t.txt", "t.tab"))
    packing = rng.choice(tuple(_PACKINGS))
    if packing:
        raw = _PACKINGS[packing](raw)
        raw = _damaged(rng, raw) if rng.random() < 0.2 else raw
    path = folder / f"{name}{packing}"
    path.write_bytes(raw)
    return path


def _zipped(raw: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", raw)
    return held.getvalue()


_PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda raw: pa.compress(raw, "zstd", asbytes=True),
    ".zip": _zipped,
}


def _damaged(rng: Random, raw: bytes) -> bytes:
    """Bytes cut off, or some of them changed."""
    if rng.random() < 0.5:
        return raw[: rng.randrange(len(raw) + 1)]
    changed = bytearray(raw)
    for _ in range(rng.choice((1, 8))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _workbook(rng: Random, folder: Path, names: list[str], columns: list[Column]) -> Path:
    import openpyxl

    path = folder / rng.choice(("t.xlsx", "t.xlsx", "t.xlsm"))
    book = openpyxl.Workbook()
    for row in (names, *zip(*columns, strict=True)):
        cells = [_date_of(value) if rng.random() < 0.02 else value for value in row]
        book.active.append([_cell(value) for value in cells])
    if rng.random() < 0.2:
        book.create_sheet("two")
    book.save(path)
    if rng.random() < 0.2:
        path.write_bytes(_damaged(rng, path.read_bytes()))
    return path


def _cell(value: Any) -> Any:
    """What a workbook can hold: not every sign, and no number that is none."""
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    if isinstance(value, float) and not np.isfinite(value):
        return None
    return ILLEGAL_CHARACTERS_RE.sub("", value) if isinstance(value, str) else value


def _date_of(value: Any) -> Any:
    """A day in the place of a number."""
    number = isinstance(value, int | float) and 0 <= value < 10**4
    return pd.Timestamp("2020-01-01").to_pydatetime() if number else value


def _text(rng: Random, names: list[str], columns: list[Column], separator: str) -> str:
    def cell(value: Any) -> str:
        text = "" if value is None else str(value)
        quoted = any(c in text for c in f'{separator}"\r\n') or rng.random() < 0.05
        return '"' + text.replace('"', '""') + '"' if quoted and rng.random() < 0.98 else text

    rows = [names, *zip(*columns, strict=True)]
    end = rng.choice(("\n", "\n", "\r\n", "\r"))
    text = end.join(separator.join(map(cell, row)) for row in rows)
    if rng.random() < 0.05:
        text = text.replace(separator, separator * 2, rng.randrange(1, 5))
    return text + rng.choice((end, end, "", end * 3))


def _binary(rng: Random, folder: Path, names: list[str], columns: list[Column]) -> Path:
    kinds = (
        *(pa.decimal128(20, 3), pa.timestamp("ns", "UTC"), pa.timestamp("s"), pa.date32()),
        *(pa.list_(pa.float64()), pa.binary(), pa.duration("s"), pa.time64("us"), pa.null()),
        *(pa.dictionary(pa.int8(), pa.string()), pa.bool_(), pa.float16(), pa.uint64()),
        *(pa.struct([("a", pa.int64())]), pa.large_string(), pa.int8()),
    )
    arrays = []
    for column in columns:
        array: Any
        try:
            array = pa.array(column)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            array = pa.array([None if value is None else str(value) for value in column])
        if rng.random() < 0.3:
            try:
                array = array.cast(rng.choice(kinds))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
                array = pa.nulls(len(column), rng.choice(kinds))
        arrays.append(array)
    table = pa.Table.from_arrays(arrays, names=names)
    path = folder / rng.choice(("t.parquet", "t.parquet", "t.arrow", "t.feather"))
    try:
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(table, path)
        else:
            pyarrow.feather.write_feather(table, str(path))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):  # it cannot be written
        path.write_bytes(rng.randbytes(100))
    if rng.random() < 0.1:
        raw = bytearray(path.read_bytes())
        for _ in range(rng.choice((1, 8))):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        path.write_bytes(bytes(raw))
    return path


def _models() -> dict[str, DecisionModel]:
    """Models to decide by, made once."""
    return {
        "numbers.skops": small_model("logistic-regression", "numbers"),
        "trees.skops": small_model("boosting", "numbers"),
        "mixed.skops": small_model("logistic-regression", "mixed"),
    }


def check_table(seed: int) -> None:
    """Give a hostile table to ``train`` or ``predict``.

    Raises
    ------
    AssertionError
        If it is neither worked with nor refused in one line, or something is left half written.
    """
    rng = Random(seed)
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(place)
        try:
            (_train if rng.random() < _TRAINED else _predict)(rng, Path())
        finally:
            os.chdir(here)


def check_reading(seed: int) -> None:
    """Read a hostile table and look at it, without a model.

    Raises
    ------
    AssertionError
        If it is read otherwise a second time.
    """
    rng = Random(seed)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names, columns = hostile_columns(rng)
        n = len(columns[0]) if columns else 40
        path = written(rng, Path(place), [*names, "y"], [*columns, _target(rng, n)])
        decimal = rng.choice((None, None, None, ",", "."))
        roles = Roles(time=rng.choice(names)) if names and rng.random() < 0.1 else Roles()
        missing = rng.choice(((), (), ("-", "1.5"), ("0", "nan")))
        rows = None
        with contextlib.suppress(UserError):
            rows = open_rows(path, "y", roles, decimal=decimal, missing=missing)
        if rows is not None:
            _check_rows(rows, path)


def _check_rows(rows: Rows, path: Path) -> None:
    """New tables are read as this one was, and nothing about it makes a look at it fail."""
    if len(rows.X) == len(read_table(path)):
        again = rows.schema.apply(read_table(path, text=rows.schema.as_written))
        pd.testing.assert_frame_equal(again, rows.X, check_index_type=False)
        changes = changes_of(rows.schema, again)
        assert not changes["change"].any(), f"a table has changed: {changes['change'].tolist()}"
    classes, codes = np.unique(rows.labels, return_inverse=True)
    for finding in inspect_rows(rows.X, rows.schema, codes, list(classes), "y", time=rows.time):
        assert finding.text, "a finding says nothing"
    for line in describe_columns(rows.X, rows.schema):
        assert len(line) == 4, f"a column is described by {len(line)} texts"
    if rows.time is not None:
        with contextlib.suppress(UserError):
            folds = folds_of(codes, 5, 0, time=rows.time)
            assert all(rows.time[a].max() < rows.time[b].min() for a, b in folds), "time runs back"


def _run(arguments: list[str]) -> tuple[int, str]:
    """Run a command; what every failure has to look like is checked."""
    before = sorted(Path().rglob("*"))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    lines = [x for x in err.getvalue().splitlines() if not x.startswith("compared: ")]
    if code:
        assert code in (1, 2), f"an exit code is unknown: {code}"
        assert len(lines) == 1, f"a failure has several lines: {lines[:5]}"
        assert lines[0].startswith("grayzone: "), f"a failure does not say whose it is: {lines}"
        foreign = lines[0].startswith("grayzone: unexpected ")
        assert not foreign, f"an exception is foreign: {lines[0]}"
        assert len(lines[0]) < _LONGEST, f"a line is too long: {lines[0]}"
        assert not out.getvalue(), f"a failure prints: {out.getvalue()[:200]}"
        assert sorted(Path().rglob("*")) == before, "a failure leaves something behind: files"
    return code, out.getvalue()


def _predict(rng: Random, folder: Path) -> None:
    names, columns = hostile_columns(rng)
    table = written(rng, folder, names, columns)
    models = _models()
    name = rng.choice(sorted(models))
    target = rng.choice(("d.csv", "d.csv", "d.tsv", "d.csv.gz", "d.parquet"))
    options = [o for o in ("--keep", "--raw") if rng.random() < 0.3]
    # that files load is seen elsewhere, and takes longer than to decide
    with patch.object(DecisionModel, "load", lambda path: models[path.name]):
        code, out = _run(["predict", name, str(table), "-o", target, "--json", *options])
    if code:
        return
    assert json.loads(out)["rows"] > 0, "no rows were decided on: 0"
    if target.endswith(".parquet"):
        decided = pd.read_parquet(target)
    else:
        decided = pd.read_csv(target, sep="\t" if "tsv" in target else ",", low_memory=False)
    assert len(decided) == json.loads(out)["rows"], f"rows are lost in {target}: {len(decided)}"
    own = [c for c in decided.columns if c.startswith(("probability_", "expected_cost_"))]
    assert np.isfinite(decided[own].to_numpy(dtype=float)).all(), "results are not finite: NaN"
    if target != "d.parquet" and "--raw" not in options:
        _check_cells(decided)


def _check_cells(decided: pd.DataFrame) -> None:
    for name in decided.columns:
        cells = [v for v in (name, *decided[name]) if isinstance(v, str)]
        run = [v for v in cells if v.startswith(("=", "+", "@", "\t", "\r"))]
        numbers = [v for v in run if v.lstrip("+").replace(".", "").replace("e+", "").isdigit()]
        assert len(run) == len(numbers), f"a spreadsheet would run a cell: {run[:3]}"


def _roles(rng: Random, names: list[str]) -> list[str]:
    """Roles of some columns, and how to read the table."""
    options = []
    for option in ("--id", "--time", "--group", "--drop", "--keep"):
        if names and rng.random() < 0.07:
            options += [option, rng.choice(names)]
    if rng.random() < 0.1:
        options += ["--decimal", rng.choice((",", ",", ".", ";"))]
    return [*options, "--strict"] if rng.random() < 0.1 else options


def _train(rng: Random, folder: Path) -> None:
    names, columns = hostile_columns(rng)
    n = len(columns[0]) if columns else 40
    table = written(rng, folder, [*names, "y"], [*columns, _target(rng, n)])
    options = rng.choice(
        ([], [], ["--costs", "FN=5"], ["--reject-cost", "0.2"], ["--max-fpr", "0.3"])
    )
    options = [*options, *_roles(rng, names)]
    few = (1.0,)
    with (
        patch.multiple(candidates, CS=few, KERNEL_CS=few, FOLDS=2),
        patch.object(comparison, "FOLDS", 2),
    ):
        model = rng.choice(("logistic-regression", "logistic-regression", "boosting"))
        arguments = ["train", str(table), "--target", "y", "--model", model, "--out", "out"]
        code, out = _run([*arguments, "--json", *options])
    if code:
        return
    assert sorted(os.listdir("out")) == _FILES, f"a folder is not whole: {os.listdir('out')}"
    metrics = json.loads(Path("out/metrics.json").read_text("utf-8"))
    assert np.isfinite(metrics["mean_cost"]), "a cost is not finite: NaN"
    assert json.loads(out)["classes"] == metrics["classes"], "what is told differs: classes"
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = main(["predict", "out", str(table), "-o", "d.csv"])
    # rows without a target were not looked at, and may be anything
    said = [finding["text"] for finding in metrics["findings"]]
    some = any("without a target" in text or "without a time" in text for text in said)
    assert some or code == 0, f"a model does not decide on its own table: {err.getvalue()[:300]}"
