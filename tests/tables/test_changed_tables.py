"""A table that has changed since a model learned from it: said, reported, and decided on."""

import json
import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")

import grayzone
from grayzone.cli import main
from grayzone.tables.changes import changes_of
from grayzone.tables.schema import MOST_VALUES, Schema

N = 400


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "amount": np.round(rng.lognormal(3, 1.5, n), 2),
            "age": rng.normal(40, 10, n),
            "city": rng.choice(["Bonn", "Jena", "Ulm"], n),
            "code": [f"c{k}" for k in rng.integers(0, 300, n)],
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        }
    )
    made.loc[rng.random(n) < 0.05, "age"] = np.nan
    return made


CHANGES = {
    "amount": (
        lambda t: t["amount"] * 1000,
        r"\d\d% of the values of 'amount' are outside of .*; in training 1%.",
    ),
    "city": (
        lambda t: "Atlantis",
        "100% of the values of 'city' were not in training: 'Atlantis'.",
    ),
    "age": (lambda t: np.nan, "'age' is empty in every row, in training in 6%."),
}


def test_each_change_is_a_line_of_its_own_and_nothing_else_is():
    schema = Schema.of(table())
    for name, (change, said) in CHANGES.items():
        new = table(seed=1)
        changes = changes_of(schema, new.assign(**{name: change(new)})).set_index("column")
        told = changes["change"]
        assert list(told[told != ""].index) == [name]
        assert re.fullmatch(said, told[name]), told[name]
    half = table(seed=1).assign(city=["Rome", "Bonn"] * (N // 2))
    assert changes_of(schema, half).set_index("column").loc["city", "unseen"] == 0.5


def test_a_table_of_the_same_kind_has_not_changed():
    """Of 100 tables of 1 to 400 rows, with later days and codes that are new now and then."""
    schema = Schema.of(table())
    for seed in range(25):
        for n in (1, 3, 20, N):
            new = table(n, seed + 1)
            new["day"] += pd.Timedelta(days=1000)
            assert not changes_of(schema, new)["change"].any(), (seed, n)


def test_texts_of_too_many_values_are_not_kept():
    names = pd.DataFrame({"name": [f"n{k}" for k in range(MOST_VALUES + 1)]})
    schema = Schema.of(names)
    assert schema.columns[0].learnt.values is None
    assert not changes_of(schema, names + "x")["change"].any()


@pytest.fixture
def trained(here):
    old = table()
    old["y"] = np.where(old["amount"] > 20, "fraud", "fine")
    old.loc[::9, "y"] = "fine"
    old.to_csv("old.csv", index=False)
    costs = ["--costs", "FN=amount,FP=1", "--model", "logistic-regression"]
    assert (
        main(
            [
                "train",
                "old.csv",
                "--target",
                "y",
                *costs,
                "--drop",
                "day",
                "--drop",
                "code",
                "--out",
                "out",
            ]
        )
        == 0
    )
    new = table(seed=1)
    for name, (change, _) in CHANGES.items():
        new[name] = change(new)
    new.to_csv("new.csv", index=False)


def test_predict_says_what_has_changed_and_goes_on(trained, capsys):
    capsys.readouterr()
    report = ["--report-changes", "changes.csv"]
    assert main(["predict", "out", "new.csv", "-o", "d.csv", *report, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"] == N
    said = [line for line in err.splitlines() if line.startswith("changed: ")]
    assert sorted(line.split("'")[1] for line in said) == sorted(CHANGES)
    changes = pd.read_csv("changes.csv").set_index("column")
    assert set(changes.index) == {"amount", "age", "city"}  # also what only costs
    assert changes.loc["age", "empty"] == 1.0
    assert changes.loc["city", "unseen"] == 1.0
    assert changes.loc["amount", "outside"] > 0.5
    held = grayzone.load_model("out").changes("new.csv").set_index("column")
    assert (held["change"] == changes["change"].fillna("")).all()
    assert main(["predict", "out", "old.csv", "-o", "d.csv", "--report-changes", "d.csv"]) == 2
    assert "choose its own" in capsys.readouterr().err
    assert main(["predict", "out", "old.csv", "-o", "d.csv"]) == 0
    assert capsys.readouterr().err == ""


def test_exported_models_say_so_too(trained, capsys):
    pytest.importorskip("onnxruntime")
    assert main(["export", "out", "-o", "m.onnx"]) == 0
    capsys.readouterr()
    assert main(["predict", "m.onnx", "new.csv", "-o", "d.csv"]) == 0
    assert capsys.readouterr().err.count("changed: ") == len(CHANGES)
