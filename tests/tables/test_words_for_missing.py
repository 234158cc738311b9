"""Words for what is missing in columns of numbers: gaps in training, and gaps in new tables."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")

import grayzone
from grayzone.cli import main
from grayzone.tables.numerals import GAPS, numbers_with_gaps
from grayzone.tables.opening import open_table
from grayzone.tables.schema import NUMBER, TEXT, Schema

N = 120
ALONE = {"model": "logistic-regression"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(missing=None):
    """Numbers, decimal commas and grades, all with words in some rows, or a gap there."""
    rng = np.random.default_rng(0)
    age = np.round(rng.uniform(20, 60, N), 1)
    made = pd.DataFrame({"age": age, "amount": age, "days": np.arange(N) % 7, "grade": "a"})
    made["y"] = np.where(age + rng.normal(0, 8, N) > 40, "bad", "good")
    made = made.astype(object)
    made["amount"] = [f"{value:.1f}".replace(".", ",") for value in age]
    for name, step, word in (("age", 12, "-"), ("amount", 7, " N/A "), ("days", 5, "-999")):
        made.loc[::step, name] = word if missing is None else missing
    made.loc[::3, "grade"] = "-"
    return made


@pytest.mark.parametrize("kind", ["csv", "frame"])
def test_usual_words_are_gaps_in_numbers_and_said_in_one_line(here, kind):
    table().to_csv("t.csv", index=False)
    opened = open_table(here / "t.csv" if kind == "csv" else table(), labels=("y",))
    said = [remark.text for remark in opened.remarks if "missing" in remark.text]
    gone = "'N/A' in 'amount' (18 rows)"  # which pandas reads as a gap, unless there are spaces
    assert said == [f"Read as missing: '-' in 'age' (10 rows); {gone}."]
    kinds = {column.name: column.kind for column in Schema.of(opened.table).columns}
    assert kinds == {"age": NUMBER, "amount": NUMBER, "days": NUMBER, "grade": TEXT, "y": TEXT}
    assert opened.table["age"].isna().sum() == 10
    assert opened.table["amount"].isna().sum() == 18
    assert opened.table["grade"].value_counts()["-"] == N / 3
    asked = open_table(table(), labels=("y",), missing=["-999", "a", "nowhere"])
    assert asked.table["days"].isna().sum() == N / 5
    assert asked.table["grade"].isna().sum() == 2 * N / 3
    assert asked.remarks[-1].text == "missing=…: 'nowhere' is in no column."


def test_only_columns_of_numbers_have_such_words():
    for word in (*GAPS, "NULL", " n/A "):
        assert Counter(numbers_with_gaps(pd.Series(["1", "2.5", word], dtype=object)).isna()) == {
            False: 2,
            True: 1,
        }, word
    for other in (["x", "-", "3"], ["1", "-", "-"], ["1", "2", "3"], [True, True, "-"], ["-"] * 3):
        assert numbers_with_gaps(pd.Series(other, dtype=object)) is None, other


def test_a_model_reads_new_tables_as_it_read_the_first_one(here):
    table().to_csv("t.csv", index=False)
    model = grayzone.train("t.csv", "y", missing=["-999"], **ALONE)
    model.save("model")
    loaded = grayzone.load_model("model")
    assert loaded.schema == model.schema
    gaps = table(np.nan)
    np.testing.assert_array_equal(loaded.predict_proba("t.csv"), model.predict_proba(gaps))
    # words that the first table did not have, and a column of nothing else
    for word in ("?", "NULL", "-"):
        other = gaps.assign(age=gaps["age"].fillna(word), days=word)
        expected = model.predict_proba(gaps.assign(days=np.nan))
        np.testing.assert_array_equal(loaded.predict_proba(other), expected)
    with pytest.raises(ValueError, match=r"'days' should hold a number .* row 2 has 'unknown'"):
        loaded.predict(gaps.assign(days=["1", "unknown"] * (N // 2)))


def test_the_command_takes_words_and_says_them(here, capsys):
    table().to_csv("t.csv", index=False)
    asked = ["--target", "y", "--model", ALONE["model"], "--missing", "-999", "--missing", "0"]
    assert main(["train", "t.csv", *asked, "--out", "out"]) == 0
    assert "Read as missing: '-999', '0' in 'days'" in " ".join(capsys.readouterr().out.split())
    assert main(["predict", "out", "t.csv", "-o", "d.csv"]) == 0
    assert len(pd.read_csv("d.csv")) == N
