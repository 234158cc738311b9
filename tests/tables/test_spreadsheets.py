"""Text files that are opened in a spreadsheet: nothing in them is run there."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")

from fuzz.model_parts import small_model, small_table
from grayzone.cli import main
from grayzone.tables.reading import write_table
from grayzone.training.model import DecisionModel
from grayzone.training.stakes import Stakes


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


RUN = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "-",
    "=",
    "+49 30 1234",
    "-inf",
    "＝1+1",
]
LEFT = ["-3.5", "+1", "-.5", "-1e-9", "1", "a=b", " =1", "'=1", "", "é", "no-yes", "-7."]


@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.csv.gz"])
def test_cells_that_would_be_run_are_text(name):
    table = pd.DataFrame({"=name": RUN + LEFT, "b": np.arange(len(RUN + LEFT)) - 5.5})
    write_table(table, Path(name))
    options = {"sep": "\t" if "tsv" in name else ",", "keep_default_na": False, "dtype": str}
    found = pd.read_csv(name, **options)
    assert list(found.columns) == ["'=name", "b"]
    assert found["'=name"].tolist() == [f"'{value}" for value in RUN] + LEFT
    assert (found["b"].astype(float) == table["b"]).all()
    write_table(table, Path(name), raw=True)
    raw = pd.read_csv(name, **options)
    assert raw["=name"].tolist() == RUN + LEFT


def test_parquet_stays_as_it_is():
    table = pd.DataFrame({"=name": RUN})
    write_table(table, Path("d.parquet"))
    pd.testing.assert_frame_equal(pd.read_parquet("d.parquet"), table, check_dtype=False)


def test_values_that_parquet_has_no_type_for_are_text():
    # kept columns of a table were written whatever they were, and the writer's error was foreign
    large = pd.Series([10**30, None, -1], dtype=object)
    table = pd.DataFrame({"large": large, "mixed": pd.Series([1, "a", None], dtype=object)})
    table["b"] = [1.5, 2.5, 3.5]
    write_table(table, Path("d.parquet"))
    found = pd.read_parquet("d.parquet")
    assert found["large"].fillna("").tolist() == [str(10**30), "", "-1"]
    assert found["mixed"].fillna("").tolist() == ["1", "a", ""]
    assert found["b"].tolist() == [1.5, 2.5, 3.5]


def test_gaps_categories_and_dates_are_written_as_before():
    table = pd.DataFrame(
        {
            "text": ["=1", None, np.nan],
            "kind": pd.Categorical(["-x", None, "y"]),
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-02"]),
            "number": [-1.5, np.nan, 2],
        }
    )
    write_table(table, Path("d.csv"))
    assert Path("d.csv").read_text().splitlines() == [
        "text,kind,day,number",
        "'=1,'-x,2020-01-01,-1.5",
        ",,,",
        ",y,2020-01-02,2.0",
    ]


def test_labels_and_kept_columns_are_text_unless_asked_for_as_they_are():
    """A label `=cmd|…` was written as it is."""
    model = small_model()
    stakes = Stakes(("=cmd|' /C calc'!A0", "-1"), model.stakes.costs)
    DecisionModel(model.estimator, model.schema, stakes, None, model.about).save(Path("m.skops"))
    small_table().assign(**{"@more": "+1+1"}).to_csv("t.csv", index=False)
    arguments = ["predict", "m.skops", "t.csv", "--keep", "--json", "-o"]
    assert main([*arguments, "safe.csv"]) == 0
    assert main([*arguments, "raw.csv", "--raw"]) == 0
    safe, raw = pd.read_csv("safe.csv"), pd.read_csv("raw.csv")
    assert set(safe["decision"]) == {"'=cmd|' /C calc'!A0", "-1"}
    assert set(raw["decision"]) == {"=cmd|' /C calc'!A0", "-1"}
    assert set(safe["'@more"]) == {"'+1+1"}
    assert set(raw["@more"]) == {"+1+1"}
    numbers = safe.select_dtypes("number").columns
    pd.testing.assert_frame_equal(safe[numbers], raw[numbers], check_exact=True)


def test_decisions_go_where_there_is_a_folder_or_nowhere(capsys):
    """`predict -o` made folders that nobody had asked for."""
    small_model().save(Path("m.skops"))
    small_table().to_csv("t.csv", index=False)
    assert main(["predict", "m.skops", "t.csv", "-o", "gone/d.csv"]) == 2
    assert "gone does not exist; expected a folder to write to" in capsys.readouterr().err
    assert not Path("gone").exists()


def test_packed_text_is_the_same_text():
    table = pd.DataFrame({"a": ["=1", "b"]})
    write_table(table, Path("d.csv"))
    write_table(table, Path("d.csv.gz"))
    assert gzip.decompress(Path("d.csv.gz").read_bytes()) == Path("d.csv").read_bytes()
