"""Compressed files and workbooks: read as any other table, and refused before they do harm."""

import bz2
import datetime
import gzip
import lzma
import zipfile

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from grayzone.tables import packed, workbooks
from grayzone.tables.errors import UserError
from grayzone.tables.opening import open_table
from grayzone.tables.reading import read_table

TABLE = pd.DataFrame({"a": [1.5, 2.0, -3.25], "b": ["x", "y", None], "c": [1, 2, 3]})
RAW = TABLE.to_csv(index=False).encode()


def zipped(**members):
    def write(path):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, raw in members.items():
                archive.writestr(name, raw)

    return write


PACKED = {
    "t.csv.gz": lambda path: path.write_bytes(gzip.compress(RAW)),
    "t.csv.bz2": lambda path: path.write_bytes(bz2.compress(RAW)),
    "t.CSV.XZ": lambda path: path.write_bytes(lzma.compress(RAW)),
    "t.csv.zst": lambda path: path.write_bytes(pa.compress(RAW, "zstd", asbytes=True)),
    "t.csv.zip": zipped(**{"t.csv": RAW}),
    "t.zip": zipped(**{"folder/t.csv": RAW, "__MACOSX/t.csv": b"x", "folder/.DS_Store": b"y"}),
}


@pytest.mark.parametrize("name", PACKED)
def test_compressed_files_are_read(tmp_path, name):
    PACKED[name](tmp_path / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / name), TABLE, check_dtype=False)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.bz2", "t.CSV.XZ", "t.csv.zst", "t.csv.zip"])
def test_files_that_blow_up_are_refused(tmp_path, name, monkeypatch):
    monkeypatch.setattr(packed, "_GRANTED", 2**16)
    raw = b"a,b\n" + b"1,2\n" * 500_000
    pack = {
        "t.csv.gz": gzip.compress,
        "t.csv.bz2": bz2.compress,
        "t.CSV.XZ": lzma.compress,
        "t.csv.zst": lambda raw: pa.compress(raw, "zstd", asbytes=True),
    }
    if name in pack:
        (tmp_path / name).write_bytes(pack[name](raw))
    else:
        zipped(**{"t.csv": raw})(tmp_path / name)
    monkeypatch.setattr(packed, "MOST_TIMES", 20)
    with pytest.raises(UserError, match="unpacked: that is no ordinary table"):
        read_table(tmp_path / name)


@pytest.mark.parametrize("name", PACKED)
def test_compressed_files_that_are_damaged(tmp_path, name):
    PACKED[name](tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for raw in (whole[:-12], whole[:9], b"", RAW):
        (tmp_path / name).write_bytes(raw)
        with pytest.raises(UserError, match=r"cannot be read|is empty"):
            read_table(tmp_path / name)


def test_archives_hold_one_file_of_a_known_kind(tmp_path):
    zipped(**{"a.csv": RAW, "b.csv": RAW})(tmp_path / "t.zip")
    with pytest.raises(UserError, match=r"should hold one file; it holds 2: 'a.csv', 'b.csv'"):
        read_table(tmp_path / "t.zip")
    zipped()(tmp_path / "t.zip")
    with pytest.raises(UserError, match="it holds 0"):
        read_table(tmp_path / "t.zip")
    zipped(**{"a.parquet": RAW})(tmp_path / "t.zip")
    with pytest.raises(UserError, match="unpack it first"):
        read_table(tmp_path / "t.zip")
    zipped(**{"a.json": RAW})(tmp_path / "t.zip")
    with pytest.raises(UserError, match="no known kind of table"):
        read_table(tmp_path / "t.zip")


def test_old_workbooks_are_named(tmp_path):
    (tmp_path / "t.xls").write_bytes(b"\xd0\xcf\x11\xe0")
    with pytest.raises(UserError, match=r"save it as .xlsx or CSV"):
        read_table(tmp_path / "t.xls")
    (tmp_path / "t.csv").write_bytes(RAW)
    with pytest.raises(UserError, match="sheet=… is for workbooks"):
        read_table(tmp_path / "t.csv", sheet="one")


def workbook(path, rows, title="one", more=()):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    for name in more:
        book.create_sheet(name).append(["z"])
        book[name].append([1])
    book.save(path)
    return book


ROWS = [
    ["number", "whole", "text", "day", "truth", "mixed", "gaps"],
    [1.5, 3, "x", datetime.datetime(2020, 1, 2), True, "a", None],
    [-2.0, 4, "y", datetime.datetime(2020, 1, 3), False, 7, None],
    [None, 5, None, None, True, datetime.datetime(2020, 1, 4), 2],
]


def test_workbooks_have_numbers_dates_truths_and_gaps(tmp_path):
    workbook(tmp_path / "t.xlsx", ROWS)
    table = read_table(tmp_path / "t.xlsx")
    assert table["number"].tolist()[:2] == [1.5, -2.0]
    assert np.isnan(table["number"].iloc[2])
    assert table["whole"].tolist() == [3, 4, 5]
    assert table["text"].tolist()[:2] == ["x", "y"]
    assert pd.api.types.is_datetime64_any_dtype(table["day"])
    assert table["day"].iloc[0] == pd.Timestamp("2020-01-02")
    assert table["truth"].tolist() == [True, False, True]
    assert table["mixed"].tolist() == ["a", "7", "2020-01-04"]
    assert table["gaps"].notna().tolist() == [False, False, True]


def test_a_sheet_is_chosen_and_said(tmp_path):
    workbook(tmp_path / "t.xlsx", ROWS, more=("two",))
    opened = open_table(tmp_path / "t.xlsx")
    assert any("'two'" in remark.text and "sheet=…" in remark.text for remark in opened.remarks)
    assert open_table(tmp_path / "t.xlsx", sheet="two").table["z"].tolist() == [1]
    with pytest.raises(UserError, match="no sheet 'three'; it has 'one', 'two'"):
        open_table(tmp_path / "t.xlsx", sheet="three")


def test_text_in_workbooks_is_read_as_numbers_too(tmp_path):
    workbook(tmp_path / "t.xlsx", [["a"], ["1.234,5"], ["2,5"]])
    opened = open_table(tmp_path / "t.xlsx")
    assert opened.table["a"].tolist() == [1234.5, 2.5]
    assert opened.remarks[0].columns == ("a",)


def test_errors_of_a_spreadsheet_are_gaps_and_said(tmp_path):
    workbook(tmp_path / "t.xlsx", [["a", "b"], [1, 2], ["#DIV/0!", 3], [4, "#N/A"]])
    opened = open_table(tmp_path / "t.xlsx")
    assert opened.table["a"].isna().tolist() == [False, True, False]
    assert "2 cells of 'a', 'b' are errors of the spreadsheet" in opened.remarks[0].text


def test_formulas_that_were_never_computed_are_refused(tmp_path):
    workbook(tmp_path / "t.xlsx", [["a", "b"], [1, "=A2*2"], [2, "=A3*2"]])
    with pytest.raises(UserError, match=r"cell B2 and others.* were never computed"):
        read_table(tmp_path / "t.xlsx")


def test_headers_that_are_merged_or_a_title(tmp_path):
    book = workbook(tmp_path / "t.xlsx", [["Report", None, None], ["a", "b", "c"], [1, 2, 3]])
    with pytest.raises(UserError, match="column 2, 3 of sheet 'one' has no name in the first row"):
        read_table(tmp_path / "t.xlsx")
    book.active.merge_cells("A1:B1")
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(UserError, match="without merged cells or a title"):
        read_table(tmp_path / "t.xlsx")
    workbook(tmp_path / "t.xlsx", [["a", "a"], [1, 2]])
    with pytest.raises(UserError, match="two columns have the name 'a'"):
        read_table(tmp_path / "t.xlsx")
    workbook(tmp_path / "t.xlsx", [])
    with pytest.raises(UserError, match="is empty"):
        read_table(tmp_path / "t.xlsx")
    workbook(tmp_path / "t.xlsx", [["a", "b"]])
    with pytest.raises(UserError, match="column names and no rows"):
        read_table(tmp_path / "t.xlsx")


def test_workbooks_that_blow_up_are_refused(tmp_path, monkeypatch):
    book = workbook(tmp_path / "t.xlsx", [["a"], [1]])
    for row in range(3, 60):
        book.active.cell(row, 16_384, 1)
    book.save(tmp_path / "t.xlsx")
    monkeypatch.setattr(workbooks, "MOST_CELLS", 100_000)
    with pytest.raises(UserError, match="more than 100,000 cells"):
        read_table(tmp_path / "t.xlsx")
    monkeypatch.setattr(workbooks, "MOST_BYTES", 1_000)
    with pytest.raises(UserError, match="at most 1,000 are read"):
        read_table(tmp_path / "t.xlsx")


def test_workbooks_that_are_damaged(tmp_path):
    workbook(tmp_path / "t.xlsx", ROWS)
    whole = (tmp_path / "t.xlsx").read_bytes()
    with zipfile.ZipFile(tmp_path / "t.xlsx") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for raw in (whole[:200], b"", RAW):
        (tmp_path / "t.xlsx").write_bytes(raw)
        with pytest.raises(UserError, match="is no workbook, or is damaged"):
            read_table(tmp_path / "t.xlsx")
    outcomes = set()
    for name in parts:
        for raw in (b"", b"<x/>", parts[name][: len(parts[name]) // 2]):
            zipped(**{**parts, name: raw})(tmp_path / "t.xlsx")
            outcomes.add(outcome(tmp_path / "t.xlsx"))
    # without some of its parts it is still a table; nothing else happens
    assert outcomes == {"read", "refused"}


def outcome(path):
    try:
        read_table(path)
    except UserError:
        return "refused"
    return "read"
