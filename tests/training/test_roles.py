"""Columns that are no features: identifiers, times, groups, and what is to be left out."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")

from grayzone.cli import main
from grayzone.tables.errors import UserError
from grayzone.training.rows import Roles, open_rows

N = 80


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"{k:04d}" for k in range(N)],
            "day": pd.date_range("2021-01-01", periods=N).strftime("%d.%m.%Y"),
            "shop": rng.integers(0, 12, N),
            "a": rng.normal(size=N),
            "b": rng.choice(["x", "y"], N),
            "empty": np.nan,
            "y": rng.permutation(np.arange(N) % 2),
        }
    )


ROLES = Roles(ids=("id",), time="day", group="shop")


def test_columns_with_a_role_are_not_learned_from():
    rows = open_rows(make(), "y", ROLES)
    assert rows.schema.names == ["a", "b"]
    assert rows.table["id"].tolist()[:2] == ["0000", "0001"]
    assert np.issubdtype(rows.time.dtype, np.datetime64)
    assert len(np.unique(rows.groups)) == 12
    assert rows.target.tolist() == make()["y"].tolist()
    (empty,) = [f for f in rows.findings if f.kind == "empty"]
    assert empty.columns == ("empty",)


@pytest.mark.parametrize(
    ("roles", "names"),
    [
        (Roles(), ["id", "day", "shop", "a", "b"]),
        (Roles(drop=("a", "id")), ["day", "shop", "b"]),
        (Roles(keep=("b", "a")), ["a", "b"]),
        (Roles(time="day", keep=("a", "day")), ["day", "a"]),
        (Roles(ids=("id", "shop"), time="day"), ["a", "b"]),
    ],
)
def test_keep_and_drop(roles, names):
    assert open_rows(make(), "y", roles).schema.names == names


@pytest.mark.parametrize(
    ("roles", "match"),
    [
        (Roles(ids=("no",)), "ids=…: the table has no column 'no'; it has 'id', 'day'"),
        (Roles(time="no"), "time=…: the table has no column 'no'"),
        (Roles(group="y"), "group=…: 'y' is the target"),
        (Roles(keep=("y",)), "keep=…: 'y' is the target"),
        (Roles(keep=("a",), drop=("a",)), "keep=… and drop=…: 'a' cannot be both"),
        (Roles(time="b"), "time=…: 'b' should hold dates or numbers"),
        (Roles(time="empty"), "time=…: 'empty' is empty in every row"),
        (Roles(keep=("empty",)), "All columns beside the target are empty"),
        (Roles(drop=("id", "day", "shop", "a", "b", "empty")), "no column beside the target"),
    ],
)
def test_roles_that_cannot_be(roles, match):
    with pytest.raises(UserError, match=match):
        open_rows(make(), "y", roles)


def test_rows_without_a_target_or_a_time_are_left_out_and_said():
    table = make().astype({"y": object, "shop": object})
    table.loc[3, "y"] = None
    table.loc[[5, 6], "day"] = None
    table.loc[[7, 8], "shop"] = None
    rows = open_rows(table, "y", ROLES)
    assert len(rows.X) == len(rows.labels) == len(rows.time) == len(rows.groups) == N - 3
    said = " ".join(f.text for f in rows.findings)
    assert "1 row without a target" in said
    assert "2 rows without a time" in said
    assert "2 rows without a group are each one of their own" in said
    assert "0003" not in rows.table["id"].tolist()
    assert len(np.unique(rows.groups)) == len(np.unique(table["shop"].dropna())) + 2


def test_identifiers_are_carried_to_decisions_as_they_are_written(here):
    make().to_csv("t.csv", index=False)
    options = ["--id", "id", "--time", "day", "--group", "shop"]
    arguments = ["train", "t.csv", "--target", "y", "--model", "logistic-regression"]
    assert main([*arguments, *options, "--out", "out"]) == 0
    assert main(["predict", "out", "t.csv", "-o", "d.csv"]) == 0
    decided = pd.read_csv("d.csv", dtype={"id": str})
    assert decided.columns[0] == "id"
    assert decided["id"].tolist() == make()["id"].tolist()
    # a table without them is decided on, too
    make()[["a", "b"]].to_csv("n.csv", index=False)
    assert main(["predict", "out", "n.csv", "-o", "e.csv"]) == 0
    assert "id" not in pd.read_csv("e.csv").columns
