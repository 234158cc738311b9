"""Numbers as people write them: each column is read in one way, which is said, or stays text."""

import decimal

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")

from grayzone.tables.errors import UserError
from grayzone.tables.numerals import Numerals, numerals_of, with_numbers
from grayzone.tables.opening import open_table
from grayzone.tables.reading import read_table
from grayzone.tables.schema import NUMBER, TEXT, Schema


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# what stands in a column, and what it says
CLEAR = {
    "decimal comma": (["1.234,5", "7", "-0,5"], [1234.5, 7, -0.5]),
    "a zero before the comma": (["0,123", "1,234"], [0.123, 1.234]),
    "no thousands where they should be": (["1,234", "12345"], [1.234, 12345]),
    "two separators": (["1,234", "1,234,567"], [1234, 1234567]),
    "Swiss": (["1'234.50", "2’000"], [1234.5, 2000]),
    "French": (["1\u202f234,5", "12\u00a0345"], [1234.5, 12345]),
    "spaces alone": (["1 234", "12 345"], [1234, 12345]),
    "percent": (["12 %", "3,5 %"], [12, 3.5]),
    "euro before": (["€ 3.400,50", "€ 5", "-€ 1"], [3400.5, 5, -1]),
    "euro after": (["3.400,50 EUR", "5 EUR"], [3400.5, 5]),
    "dollars": (["$1,234.50", "$3"], [1234.5, 3]),
    "exponents": (["1,5e3", "2,5E-1"], [1500, 0.25]),
    "a minus of typesetters": (["−5,5", "+3,0"], [-5.5, 3]),
}


@pytest.mark.parametrize("name", CLEAR)
def test_a_column_that_allows_one_reading_is_read_that_way(name):
    texts, numbers = CLEAR[name]
    table = pd.DataFrame({"a": texts})
    for sign in (None, ",", "."):
        found = numerals_of(table, sign)
        assert found["a"].sure
        assert with_numbers(table, found)["a"].tolist() == numbers


@pytest.mark.parametrize(
    "texts",
    [
        ["1,5", "1.5"],
        ["12 %", "12"],
        ["1,5", "unknown"],
        ["1.2.3", "1.2.4"],
        ["01.02.2020", "03.04.2021"],
        ["1,,5", "2"],
        ["€ 5", "$ 5"],
        ["--5", "1,5"],
        ["030 123", "1"],
    ],
)
def test_what_has_no_one_reading_stays_text(texts):
    assert numerals_of(pd.DataFrame({"a": texts})) == {}


def test_an_ambiguous_column_is_decided_by_the_rest_of_the_table():
    both = pd.DataFrame({"a": ["1,234", "2,500"]})
    assert numerals_of(both)["a"] == Numerals(".", ",")
    assert not numerals_of(both)["a"].sure
    assert numerals_of(both, ",")["a"] == Numerals(",", ".")
    assert numerals_of(both, semicolons=True)["a"] == Numerals(",", ".")
    assert numerals_of(both.assign(b=["0,5", "7,25"]))["a"] == Numerals(",", ".")
    english = both.assign(b=["1,234.5", "7.25"])
    assert numerals_of(english, semicolons=True)["a"] == Numerals(".", ",")


GERMAN = "Alter;Einkommen (€);Menge;Ort;y\n" + "".join(
    f"{20 + k % 50},{k % 10};{1 + k % 9}.{k % 1000:03d};{k}.500;Ort {k % 3};{(k // 2) % 2}\n"
    for k in range(60)
)


def test_decimal_commas_in_a_file_are_numbers_and_are_said(here):
    (here / "t.csv").write_text(GERMAN, encoding="utf-8")
    opened = open_table(here / "t.csv", labels=("y",))
    assert opened.table["Alter"].tolist()[:2] == [20.0, 21.1]
    # points that a program would take for decimal ones: the other columns have commas
    assert opened.table["Einkommen (€)"].tolist()[:2] == [1000.0, 2001.0]
    assert opened.table["Menge"].tolist()[:2] == [0.5, 1.5]  # "0.500" cannot be thousands
    assert opened.table["y"].tolist()[:3] == [0, 0, 1]
    sure, unsure = opened.remarks
    assert sure.columns == ("Alter",)
    assert unsure.columns == ("Einkommen (€)",)
    assert all("comma as the decimal sign" in remark.text for remark in opened.remarks)
    assert "decimal=…" in unsure.text
    assert "decimal=" not in sure.text
    forced = open_table(here / "t.csv", decimal=".")
    assert forced.table["Einkommen (€)"].tolist()[:2] == [1.0, 2.001]
    with pytest.raises(UserError, match="decimal=… must be"):
        open_table(here / "t.csv", decimal=";")


def test_a_column_that_is_half_and_half_stays_text_and_is_said(here):
    values = ["1,5", "1.5", "2"] * 20
    table = pd.DataFrame({"a": values, "b": ["3", "unknown", "4"] * 20, "c": ["x", "y", "1"] * 20})
    opened = open_table(table)
    assert Schema.of(opened.table).columns[0].kind == TEXT
    said = {remark.columns[0]: remark.text for remark in opened.remarks}
    assert set(said) == {"a", "b"}
    assert "not all written in the same way" in said["a"]
    assert "'unknown'" in said["b"]
    assert "67%" in said["b"]


def test_new_tables_are_read_as_the_first_one_was(here):
    (here / "t.csv").write_text(GERMAN, encoding="utf-8")
    opened = open_table(here / "t.csv", labels=("y",))
    schema = Schema.of(opened.table.drop(columns="y"), opened.numerals)
    assert Schema.load(schema.dump()) == schema
    # one row, in which every number could be read otherwise
    (here / "n.csv").write_text("Alter;Einkommen (€);Menge;Ort\n31;2.500;3.5;Ort 1\n")
    new = schema.apply(read_table(here / "n.csv", text=schema.as_written))
    assert new.iloc[0].tolist() == [31.0, 2500.0, 3.5, "Ort 1"]
    # numbers that are numbers already, also as objects
    held = pd.DataFrame({"Alter": [31.5], "Menge": [3.5], "Ort": ["Ort 1"]})
    for value in (2500.0, 2500, decimal.Decimal("2500.000")):
        typed = held.assign(**{"Einkommen (€)": pd.Series([value], dtype=object)})
        assert schema.apply(typed)["Einkommen (€)"].tolist() == [2500.0]
    for wrong in ("2.50", "2,5,0", "25 %", "two"):
        with pytest.raises(UserError, match="should hold a number"):
            schema.apply(held.assign(**{"Einkommen (€)": [wrong]}))


def test_plain_numbers_are_left_alone(here):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=30), "b": rng.integers(0, 9, 30), "c": ["x"] * 30})
    table.to_csv("t.csv", index=False)
    opened = open_table(here / "t.csv")
    assert opened.numerals == {}
    assert opened.remarks == ()
    assert [column.kind for column in Schema.of(opened.table).columns] == [NUMBER, NUMBER, TEXT]


def test_columns_beside_the_features_are_read_the_same_way():
    table = pd.DataFrame({"a": ["1,5", "2,5"], "amount": ["1.234", "2.500"], "note": ["x", "y"]})
    opened = open_table(table)
    whole = Schema.of(opened.table, opened.numerals)
    schema = Schema(whole.columns[:1], beside=whole.columns[1:2])
    assert Schema.load(schema.dump(), schema.dump_beside()) == schema
    assert schema.names == ["a"]
    assert schema.as_written == ["a", "amount"]
    read = schema.with_numbers(table)
    assert read["amount"].tolist() == [1234.0, 2500.0]
    assert read["a"].tolist() == [1.5, 2.5]
    assert read["note"].tolist() == ["x", "y"]
    # a table without costs is no reason to fail here
    assert schema.with_numbers(table[["a"]])["a"].tolist() == [1.5, 2.5]
    with pytest.raises(UserError, match="'amount' should hold a number"):
        schema.with_numbers(table.assign(amount=["1.234", "a lot"]))
