"""Reasons for a decision: shares of columns in its log-odds, told against typical rows."""

import dataclasses
import json
from itertools import combinations
from math import factorial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from knowing import Knowing
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler

pytest.importorskip("skops")

import grayzone
from grayzone.cli import main
from grayzone.tables.errors import UserError
from grayzone.tables.schema import Schema
from grayzone.training.asking import class_scores, probabilities
from grayzone.training.model import DecisionModel
from grayzone.training.reasons import explained, reasons_of
from grayzone.training.shapley import shares_of
from grayzone.training.stakes import Stakes
from grayzone.training.typical import typical_rows

TWO = Stakes(("no", "yes"), np.array([[0.0, 1.0], [5.0, 0.0]]))
THREE = Stakes(("one", "two", "three"), 1.0 - np.eye(3))


def numbers(n, columns="abcd", seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n, len(columns))), columns=list(columns))


def scored(log_odds):
    """Scores of two classes, as a function of a table."""
    return lambda table: np.outer(log_odds(table), [-1.0, 1.0])


def brute_force(scores, row, typical, target=1):
    """Shapley values over all subsets of columns."""
    d = typical.shape[1]

    def value(columns):
        table = typical.copy()
        for j in columns:
            table.isetitem(j, [row.iloc[j]] * len(table))
        return scores(table)[:, target].mean()

    shares = np.zeros(d)
    for j in range(d):
        others = [k for k in range(d) if k != j]
        for m in range(d):
            worth = factorial(m) * factorial(d - m - 1) / factorial(d)
            for some in combinations(others, m):
                shares[j] += worth * (value((*some, j)) - value(some))
    return shares


def of_all_orders(scores, table, typical, target=1):
    return np.array(
        [brute_force(scores, table.iloc[i], typical, target) for i in range(len(table))]
    )


def tangled(table):
    a, b, c, d = (table[name] for name in "abcd")
    return a * b * np.sign(c) + np.sin(d) + np.maximum(a, d) * c


def ones(table):
    return np.ones(len(table), dtype=int)


# Shares


def test_shares_are_those_of_all_subsets_within_their_error():
    table, typical, scores = numbers(5), numbers(6, seed=1), scored(tangled)
    truth = of_all_orders(scores, table, typical)
    rough = shares_of(scores, table, typical, ones(table))
    fine = shares_of(scores, table, typical, ones(table), rounds=100)
    assert np.abs(rough.shares - truth).max() > 1e-3  # it is sampled
    away = (fine.shares - truth) / fine.error
    assert np.abs(away).max() < 3.5
    assert np.sqrt(np.mean(away**2)) < 1.2
    assert fine.error.max() < 0.1 < rough.error.max()


@pytest.mark.parametrize("rounds", [1, 3])
def test_shares_sum_to_what_there_is_to_explain(rounds):
    table, typical, scores = numbers(20), numbers(7, seed=1), scored(tangled)
    found = shares_of(scores, table, typical, ones(table), rounds=rounds, seed=5)
    np.testing.assert_allclose(found.score, tangled(table))
    np.testing.assert_allclose(found.base, tangled(typical).mean())
    np.testing.assert_allclose(found.shares.sum(axis=1), found.score - found.base, atol=1e-12)


def test_columns_of_one_role_have_equal_shares_and_idle_ones_none():
    table, typical = numbers(4), numbers(1, seed=1) * 0.0
    table["b"] = table["a"]
    found = shares_of(scored(lambda t: t["a"] * t["b"] + t["c"]), table, typical, ones(table))
    np.testing.assert_allclose(found.shares[:, 0], found.shares[:, 1], atol=1e-14)
    np.testing.assert_allclose(found.shares[:, 3], 0.0, atol=1e-14)


def test_interactions_of_two_columns_take_one_round():
    table, typical = numbers(4), numbers(5, seed=1)
    scores = scored(lambda t: t["a"] * t["b"] - t["c"] * t["d"] + t["a"] * t["d"])
    found = shares_of(scores, table, typical, ones(table))
    np.testing.assert_allclose(found.shares, of_all_orders(scores, table, typical), atol=1e-12)


def test_a_row_is_explained_the_same_whatever_others_there_are():
    table, typical, scores = numbers(30, "abcdefghijklmn"), numbers(5, "abcdefghijklmn"), tangled
    every = shares_of(scored(scores), table, typical, ones(table))
    alone = shares_of(scored(scores), table.iloc[[17]], typical, np.array([1]))
    np.testing.assert_allclose(every.shares[17], alone.shares[0], atol=1e-12)


def test_of_many_columns_those_that_matter_have_shares_of_their_own():
    names = [f"x{k}" for k in range(40)]
    table, typical = numbers(6, names), numbers(5, names, seed=1)
    scores = scored(lambda t: t["x3"] * t["x9"] * 3.0 + t["x30"] * t["x31"] * t["x32"] * 0.01)
    found = shares_of(scores, table, typical, ones(table), players=6)
    assert (np.isfinite(found.shares).sum(axis=1) == 5).all()
    assert np.isfinite(found.shares[:, [3, 9]]).all()
    whole = np.nansum(found.shares, axis=1) + found.others
    np.testing.assert_allclose(whole, found.score - found.base, atol=1e-12)


def test_of_thousands_of_columns_only_some_are_looked_at():
    names = [f"x{k}" for k in range(2_000)]
    table, typical = numbers(2, names), numbers(4, names, seed=1)
    asked = []

    def scores(t):
        asked.append(len(t))
        return np.outer(t["x3"] * t["x9"] * 3.0 + t["x1700"], [-1.0, 1.0])

    candidates = np.array([3, 9, 12, 800, 1_700])
    found = shares_of(scores, table, typical, ones(table), players=6, candidates=candidates)
    assert sum(asked) < 1_000
    assert (np.flatnonzero(np.isfinite(found.shares[0])) == candidates).all()
    np.testing.assert_allclose(found.shares[:, [12, 800]], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.others, 0.0, atol=1e-12)
    only = shares_of(
        scored(lambda t: t["a"] * t["b"] * 3.0 + t["c"]),
        table[["x3", "x9", "x1700"]].set_axis(list("abc"), axis=1),
        typical[["x3", "x9", "x1700"]].set_axis(list("abc"), axis=1),
        ones(table),
    )
    np.testing.assert_allclose(found.shares[:, [3, 9, 1_700]], only.shares, atol=1e-12)


def test_gaps_texts_and_dates_are_values():
    table = pd.DataFrame(
        {
            "a": [np.nan, 1.0],
            "text": ["x", None],
            "day": pd.to_datetime(["2020-01-01", None]),
        }
    )
    typical = table.iloc[::-1].reset_index(drop=True)

    def scores(t):
        late = t["day"].notna() * (t["text"] == "x") * 4.0
        return np.outer(late + t["a"].fillna(-1.0), [-1.0, 1.0])

    found = shares_of(scores, table, typical, ones(table))
    np.testing.assert_allclose(found.shares, of_all_orders(scores, table, typical), atol=1e-12)


# Exact shares of models that add columns up


def mixed(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "income": rng.normal(size=n),
            "age": rng.integers(20, 70, n) * 1.0,
            "colour": rng.choice(["red", "green", "blue"], n),
        }
    )


def additive(bent=False):
    middle = SplineTransformer(4) if bent else StandardScaler()
    steps = [("n", middle, ["income", "age"]), ("c", OneHotEncoder(), ["colour"])]
    return Pipeline([("encode", ColumnTransformer(steps)), ("decide", LogisticRegression())])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_linear_models_are_exact_by_source_column(n_classes):
    table = mixed()
    codes = ((table["income"] > 0).astype(int) + (table["colour"] == "red")).to_numpy()
    codes = np.minimum(codes, n_classes - 1)
    model = additive().fit(table, codes)
    typical, rows = table.iloc[:9], table.iloc[50:60]
    targets = np.full(10, n_classes - 1)
    found = shares_of(
        lambda t: class_scores(probabilities(model, t)), rows, typical, targets, seed=1
    )
    weights = model[-1].coef_
    others = weights[:-1].mean(axis=0) if n_classes > 2 else 0.0
    own = weights[-1] - others
    features = model[:-1].transform(rows) - model[:-1].transform(typical).mean(axis=0)
    parts = features * own
    by_hand = np.column_stack([parts[:, 0], parts[:, 1], parts[:, 2:].sum(axis=1)])
    np.testing.assert_allclose(found.shares, by_hand, atol=1e-9)
    assert not found.error.any()


def test_additive_models_take_one_question_for_each_column():
    table = mixed()
    codes = (table["income"] ** 2 + (table["colour"] == "red") > 1).to_numpy().astype(int)
    model = additive(bent=True).fit(table, codes)
    typical, rows = table.iloc[:4], table.iloc[50:150]
    asked = []

    def scores(t):
        asked.append(len(t))
        return class_scores(probabilities(model, t))

    found = shares_of(scores, rows, typical, ones(rows))
    assert not found.error.any()
    assert sum(asked) < 100 * 4 + 4 * 30
    truth = of_all_orders(scores, rows.iloc[:1], typical)
    np.testing.assert_allclose(found.shares[:1], truth, atol=1e-9)


def test_where_scores_are_cut_off_nothing_is_called_exact():
    table = numbers(3) * 100.0
    found = shares_of(
        scored(lambda t: np.clip(t["a"] + t["b"], -5.0, 5.0)), table, numbers(4) * 0.1, ones(table)
    )
    np.testing.assert_allclose(found.shares.sum(axis=1), found.score - found.base, atol=1e-12)
    assert (found.error.max(axis=1) > 0.0).all()


# Typical rows


def personal(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "salary": 30_000.0 + np.arange(n) * 17.31,
            "children": rng.integers(0, 4, n) * 1.0,
            "name": [f"Name{chr(97 + k % 26)}{chr(97 + k // 26)} Smith" for k in range(n)],
            "account": [f"K{k:04d}" for k in range(n)],
            "job": rng.choice(["clerk", "nurse"], n),
            "born": pd.date_range("1960-01-01", periods=n, freq="37h"),
            "seldom": np.where(np.arange(n) % 10 == 0, 1.0, np.nan),
        }
    )


def test_typical_rows_are_nobody():
    table = personal()
    schema = Schema.of(table)
    table = schema.apply(table)
    model = Knowing(lambda t: (t["salary"] - 31_000) / 1_000)
    rows = typical_rows(model, table, schema)
    assert list(rows.columns) == list(table.columns)
    assert rows.dtypes.tolist() == table.dtypes.tolist()
    assert len(rows) == 8
    assert not set(rows["salary"]) & set(table["salary"])
    assert set(rows["children"]) <= {0.0, 1.0, 1.5, 2.0, 3.0}
    assert set(rows["name"]) == {"Smith"}  # words of five rows
    assert set(rows["account"]) == {"K0000"}
    assert set(rows["job"]) <= {"clerk", "nurse"}
    assert (rows["born"] == rows["born"].dt.normalize()).all()
    assert rows["seldom"].isna().all()
    assert rows["salary"].is_monotonic_increasing  # one for each part of the scores
    pd.testing.assert_frame_equal(rows, typical_rows(model, table, schema))


def test_few_rows_have_few_typical_ones():
    table = numbers(12)
    rows = typical_rows(Knowing(lambda t: t["a"]), table, Schema.of(table))
    assert len(rows) == 2


# Reasons in words


def model_of(estimator, table, stakes=TWO, cut=None):
    schema = Schema.of(table)
    X = schema.apply(table)
    return DecisionModel(
        estimator, schema, stakes, cut, {}, background=typical_rows(estimator, X, schema)
    )


def test_reasons_name_column_value_and_share():
    table = mixed()
    table.loc[0, "colour"] = None
    model = model_of(
        Knowing(lambda t: 2.0 * t["income"] + np.where(t["colour"] == "red", 3.0, 0.0)), table
    )
    found = reasons_of(model, table, 3)
    assert list(found.columns) == ["reason_1", "reason_2", "reason_3"]
    whole = explained(model, table)
    assert found["reason_3"].isna().all()  # age adds nothing
    for i in (0, 5, 9):
        column, _, share = found["reason_1"][i].rpartition(": ")
        name, _, value = column.partition(" = ")
        j = table.columns.get_loc(name)
        assert j == np.abs(whole.shares.shares[i]).argmax()
        assert float(share) == pytest.approx(whole.shares.shares[i, j], abs=5e-4)
        if name == "income":
            assert float(value) == pytest.approx(table["income"][i], rel=1e-5)
    assert any("colour = (missing)" in str(text) for text in found.iloc[0])


def test_reasons_of_several_classes_are_those_of_the_one_decided_for():
    table = numbers(200, "abc")
    model = model_of(Knowing(lambda t: 3.0 * t.to_numpy()), table, THREE)
    found = reasons_of(model, table.iloc[:50], 1)["reason_1"]
    decided = table.iloc[:50].to_numpy().argmax(axis=1)
    told = explained(model, table.iloc[:50])
    np.testing.assert_array_equal(told.targets, decided)
    agree = [text.startswith("abc"[k]) for text, k in zip(found, decided, strict=True)]
    assert np.mean(agree) > 0.7
    other = reasons_of(model, table.iloc[:50], 1, decided=(decided + 1) % 3)["reason_1"]
    assert (other != found).any()


def test_reasons_of_many_columns_are_columns():
    names = [f"x{k}" for k in range(30)]
    table = numbers(60, names)
    weights = np.arange(30) / 10.0
    model = model_of(Knowing(lambda t: 5.0 * np.tanh(t.to_numpy() @ weights / 10.0)), table)
    found = reasons_of(model, table.iloc[:20], 12)
    assert found.notna().all(axis=None)
    alone = np.abs(table.iloc[:20] * weights).to_numpy().argmax(axis=1)
    first = found["reason_1"].str.split(" = ").str[0].str[1:].astype(int)
    assert np.mean(first == alone) > 0.7


def test_a_forest_of_rules_is_explained_by_what_it_uses():
    """A model that is not linear gave no reasons."""
    table = mixed(400)
    codes = ((table["income"] > 0) ^ (table["colour"] == "red")).to_numpy().astype(int)
    encode = ColumnTransformer(
        [("c", OneHotEncoder(), ["colour"])], remainder="passthrough", sparse_threshold=0.0
    )
    trees = HistGradientBoostingClassifier(max_iter=30, random_state=0)
    pipeline = Pipeline([("encode", encode), ("decide", trees)]).fit(table, codes)
    model = model_of(pipeline, table)
    first = reasons_of(model, table.iloc[:100], 1)["reason_1"]
    assert first.str.match("income|colour").mean() > 0.95


def test_reasons_take_something_to_compare_with():
    table = mixed(50)
    model = dataclasses.replace(model_of(Knowing(lambda t: t["income"]), table), background=None)
    with pytest.raises(UserError, match="typical rows"):
        reasons_of(model, table)
    assert len(reasons_of(model, table, background=table.iloc[:5])) == 50
    with pytest.raises(UserError, match="at least one"):
        reasons_of(model, table, 0, background=table)


# On the command line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, and a model of it that is not linear."""
    folder, n = tmp_path_factory.mktemp("model"), 240
    rng = np.random.default_rng(0)
    late = rng.random(n) < 0.3
    told = np.where(late, "late and unpaid", "paid in time")
    table = pd.DataFrame(
        {
            "income": np.round(rng.normal(size=n), 3),
            "notes": [f"case {told[k]} number {k}" for k in range(n)],
            "region": rng.choice(["north", "south"], n),
            "y": np.where(late ^ (rng.random(n) < 0.1), "bad", "good"),
        }
    )
    table.to_csv(folder / "table.csv", index=False)
    options = ["--target", "y", "--costs", "FN=5,FP=1", "--model", "boosting", "--time-limit", "3"]
    options += ["--drop", "region", "--segment", "region", "--out", str(folder / "out")]
    assert main(["train", str(folder / "table.csv"), *options]) == 0
    return folder


@pytest.fixture
def trained(folder, monkeypatch):
    monkeypatch.chdir(folder)


def asked(capsys, *arguments):
    capsys.readouterr()
    code = main(list(arguments))
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


def test_a_model_that_is_not_linear_is_explained_by_source_columns(trained, capsys):
    """Nothing was told of such a model, and of linear ones features as encoded: ``notes_07``."""
    record = json.loads(asked(capsys, "explain", "out", "--json"))
    assert [one["column"] for one in record["importance"]] == ["notes", "income"]
    assert record["importance"][0]["cost"] > 3 * record["importance"][0]["error"]
    text = asked(capsys, "explain", "out")
    assert "notes" in text
    assert "notes_" not in text
    metrics = json.loads(Path("out/metrics.json").read_text(encoding="utf-8"))
    assert metrics["importance"] == record["importance"]
    assert metrics["effects"][0]["column"] == "income"  # texts of one row alone stay private
    told = {(one["column"], one["value"]): one["rows"] for one in metrics["segments"]}
    assert set(told) == {("region", "north"), ("region", "south")}  # not learned from
    assert sum(told.values()) == 240


def test_predict_tells_reasons(trained, capsys):
    asked(capsys, "predict", "out", "table.csv", "-o", "out.csv", "--reasons", "2")
    out = pd.read_csv("out.csv")
    assert [name for name in out if name.startswith("reason_")] == ["reason_1", "reason_2"]
    assert out["reason_1"].str.fullmatch(r"(income|notes) = .*: [+-]\d+\.\d{3}").all()
    told = grayzone.load_model("out").decide("table.csv", reasons=2)
    assert told["reason_1"].tolist() == out["reason_1"].tolist()


def test_explain_tells_of_one_row(trained, capsys):
    row = ["explain", "out", "--table", "table.csv", "--row", "3"]
    record = json.loads(asked(capsys, *row, "--json"))
    assert {one["column"] for one in record["shares"]} == {"income", "notes"}
    whole = sum(one["share"] for one in record["shares"])
    assert whole == pytest.approx(record["score"] - record["typical_score"], abs=1e-5)
    decided = grayzone.load_model("out").decide("table.csv").iloc[2]
    assert record["decision"] == decided["decision"]
    assert record["probability"] == pytest.approx(decided["probability_bad"])
    odds = decided["probability_bad"] / decided["probability_good"]
    assert record["score"] == pytest.approx(np.log(odds))
    assert "typical rows have" in asked(capsys, *row)


def test_a_row_that_is_not_there(trained, capsys):
    for given, match in (
        (["--row", "241", "--table", "table.csv"], "rows 1 to 240"),
        (["--row", "0", "--table", "table.csv"], "rows 1 to 240"),
        (["--row", "1"], "belong together"),
        (["--table", "table.csv"], "belong together"),
    ):
        assert main(["explain", "out", *given]) == 2
        assert match in capsys.readouterr().err


def test_a_segment_of_what_is_no_column(trained, capsys):
    given = ["train", "table.csv", "--target", "y", "--segment", "regoin", "--out", "other"]
    assert main(given) == 2
    assert "--segment: the table has no column 'regoin'" in capsys.readouterr().err
    assert not Path("other").exists()
