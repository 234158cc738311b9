"""A decision model: a classifier of scikit-learn, for tables of every kind and costs of the day."""

import dataclasses
import html
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")

from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibrationDisplay
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.metrics import get_scorer, log_loss
from sklearn.model_selection import cross_val_score
from sklearn.utils.validation import check_is_fitted

import grayzone
from fuzz.model_parts import forge, held_in, small_model, small_table
from grayzone.cli import main
from grayzone.decision import action_costs, bayes_decision, near_threshold
from grayzone.metrics import make_cost_scorer
from grayzone.reporting.parts import Promise, Rule
from grayzone.tables.errors import UserError
from grayzone.tables.schema import Schema
from grayzone.training.labels import actions_of, label_type_of, labels_of

FILE = Path("model.skops")
FAST = ("--model", "logistic-regression")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def labelled(labels, n=80):
    """A table of two numbers with labels of any type, the last one where the second is large."""
    table = small_table(n=n).copy()
    places = np.argsort(np.argsort(table["b"])) * len(labels) // n
    places[:6] = np.arange(6) % len(labels)
    table["y"] = [labels[k] for k in places]
    return table


def train(table, *options, path="table.csv", **writing):
    kinds = {"parquet": table.to_parquet, "csv": table.to_csv}
    Path(path).parent.mkdir(exist_ok=True)
    kinds[path.rpartition(".")[2]](path, index=False, **writing)
    assert main(["train", path, "--target", "y", *FAST, "--out", "out", *options]) == 0
    return grayzone.load_model("out")


def truth(table=None):
    """Labels that a small model could have been fitted to."""
    b = (small_table() if table is None else table)["b"].to_numpy()
    return np.where(np.argsort(np.argsort(b)) * 2 // len(b) == 1, "yes", "no")


def costly(**stakes):
    """A small model whose rows have costs of their own."""
    model = small_model()
    more = dataclasses.replace(model.stakes, **stakes)
    return dataclasses.replace(model, stakes=more)


# Labels of the table's own type


@pytest.mark.parametrize(
    "labels", [(0, 1), (False, True), ("no", "yes"), (1.0, 2.0), (7, 8, 9), (10, 9)], ids=str
)
def test_labels_have_the_type_of_the_table(labels):
    """An integer target 0/1 came back as '0' and '1': accuracy 0."""
    table = labelled(labels)
    read = pd.read_parquet if labels == (0, 1) else pd.read_csv
    model = train(table, path="t.parquet" if labels == (0, 1) else "t.csv")
    known = read("t.parquet" if labels == (0, 1) else "t.csv")["y"]
    decided = model.predict(table)
    kinds = {bool: "b", int: "i", float: "f", str: "U"}
    assert decided.dtype.kind == kinds[type(labels[0])]
    assert model.classes_.tolist() == sorted(labels)
    assert model.score(table, known) == np.mean(decided == known.to_numpy()) > 0.8
    assert (model.decide(table)["decision"].to_numpy() == decided).all()


@pytest.mark.parametrize(
    ("labels", "undecided"), [((0, 1), -1), ((-1, 1), -2), (("no", "yes"), "undecided")]
)
def test_undecided_is_a_label_of_the_same_type(labels, undecided):
    table = labelled(labels)
    model = train(table, "--reject-cost", "0.2")
    decided = model.decide(table)
    assert set(decided["decision"]) == {*labels, undecided}
    assert (decided["undecided"] == (decided["decision"] == undecided)).all()
    assert model.score(table, table["y"]) == np.mean(decided["decision"] == table["y"])
    paid = np.where(decided["undecided"], 0.2, decided["decision"] != table["y"])
    assert model.mean_cost(table, table["y"]) == pytest.approx(paid.mean())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1], "int"),
        ([0, None], "float"),
        (pd.array([0, 1, None], dtype="Int64"), "int"),
        ([True, None], "bool"),
        (["1", "0"], "text"),
        (pd.Categorical([1, 2]), "int"),
        (pd.Categorical(["a"]), "text"),
        ([2**70, 1], "text"),
        ([1, "a"], "text"),
        (pd.to_datetime(["2020-01-01"]), "text"),
    ],
)
def test_types_of_labels(values, kind):
    assert label_type_of(pd.Series(values)) == kind


def test_long_labels_take_no_room_in_every_row():
    assert labels_of(["a" * 1_000, "b"], "text").dtype == object
    assert actions_of(labels_of(["a" * 1_000, "b"], "text"))[-1] == "undecided"


# A classifier of scikit-learn


def test_it_is_a_classifier_of_scikit_learn():
    """`proba`, and no `classes_`, `score`, `get_params`."""
    model, table = small_model(), small_table()
    assert isinstance(model, grayzone.DecisionModel)
    assert is_classifier(model)
    check_is_fitted(model)
    assert clone(model) is model
    assert model.n_features_in_ == 2
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert model.get_params(deep=False)["stakes"] is model.stakes
    assert model.set_params() is model
    with pytest.raises(TypeError, match=r"does not change; got cut\. Costs of the day"):
        model.set_params(cut=0.3)
    with pytest.raises(TypeError, match=r"is fitted.*grayzone\.train makes another one"):
        model.fit(table, truth())
    proba = model.predict_proba(table)
    assert (model.predict(table) == model.classes_[proba.argmax(axis=1)]).all()


def test_tools_of_scikit_learn_work_with_it():
    model, table, y = small_model(), small_table(), truth()
    found = permutation_importance(model, table, y, n_repeats=3, random_state=0)
    assert found.importances_mean[1] > found.importances_mean[0]
    curve = CalibrationDisplay.from_estimator(model, table, y, n_bins=3)
    np.testing.assert_allclose(curve.y_prob, model.predict_proba(table)[:, 1])
    frozen = FrozenEstimator(model).fit(table, y)
    assert (frozen.predict(table) == model.predict(table)).all()
    assert cross_val_score(frozen, table, y, cv=2).mean() > 0.8
    assert -make_cost_scorer()(model, table, y) == pytest.approx(model.mean_cost(table, y))


def test_probabilities_are_in_the_order_of_sorted_labels():
    """The positive class of "good" and "bad" is "bad": scorers know sorted labels alone."""
    table = labelled(("good", "bad"))
    model = train(table)
    assert model.positive == "bad"
    assert model.stakes.classes == ("good", "bad")
    assert model.classes_.tolist() == ["bad", "good"]
    proba = model.predict_proba(table)
    np.testing.assert_array_equal(proba[:, 0], model.decide(table)["probability_bad"])
    loss = log_loss(table["y"], proba, labels=["bad", "good"])
    assert -get_scorer("neg_log_loss")(model, table, table["y"]) == pytest.approx(loss)
    assert loss < 0.5
    matrix = [[0.0, 9.0], [1.0, 0.0]]  # of "bad", then "good"
    expected = bayes_decision(proba, matrix)
    assert (model.predict(table, costs=matrix) == model.classes_[expected]).all()
    assert (model.predict(table, costs={"bad": 9, "good": 1}) == model.classes_[expected]).all()
    assert (model.predict(table, costs={"FN": 9, "FP": 1}) == model.classes_[expected]).all()
    assert (model.predict(table, costs="FN=9") == model.classes_[expected]).all()


# Tables of every kind


def test_tables_of_every_kind():
    model, table = small_model(kind="mixed"), small_table("mixed")
    expected = model.predict_proba(table)
    table.to_csv("comma.csv", index=False)
    table.to_csv("semicolon.csv", index=False, sep=";")
    table.to_parquet("table.parquet")
    for path in ("comma.csv", Path("semicolon.csv"), "table.parquet"):
        np.testing.assert_allclose(model.predict_proba(path), expected)
    polars = pytest.importorskip("polars")
    np.testing.assert_allclose(model.predict_proba(polars.from_pandas(table)), expected)
    shuffled = table.sample(frac=1.0, random_state=0).assign(more="x")
    assert (model.decide(shuffled).index == shuffled.index).all()
    for other in (3, None, [[1.0, 2.0]]):
        with pytest.raises(TypeError, match="must be a DataFrame of pandas or polars, or the path"):
            model.predict(other)


def test_numbers_are_read_as_in_the_training_table():
    """Decimal commas, in the columns of features and of costs."""
    schema = Schema(
        tuple(dataclasses.replace(c, decimal=",") for c in small_model().schema.columns)
    )
    model = dataclasses.replace(costly(columns=(None, "b")), schema=schema)
    table = small_table().assign(b=lambda t: t["b"].abs())
    table.to_csv("t.csv", sep=";", decimal=",", index=False)
    np.testing.assert_allclose(model.predict_proba("t.csv"), model.predict_proba(table))
    pd.testing.assert_frame_equal(model.decide("t.csv"), model.decide(table))


def test_arrays_have_the_columns_of_the_model():
    model, table = small_model(), small_table()
    assert (model.predict(table.to_numpy()) == model.predict(table)).all()
    with pytest.raises(ValueError, match="has 3 columns; expected 2: a, b"):
        model.predict(np.zeros((4, 3)))


@pytest.mark.parametrize(
    ("path", "writing"),
    [("t.csv", {}), ("t.csv", {"sep": ";"}), ("t.parquet", {}), ("there/a b's.csv", {})],
)
def test_the_code_on_the_page_runs_as_printed(path, writing):
    """It read every table as a CSV with commas."""
    table = labelled((0, 1))
    train(table, path=path, **writing)
    page = Path("out/report.html").read_text(encoding="utf-8")
    (code,) = re.findall(r"<pre[^>]*>(?:<code>)?(import grayzone.*?)</pre>", page, re.DOTALL)
    *_, last = html.unescape(re.sub("<[^>]*>", "", code)).strip().splitlines()
    names = {}
    exec(html.unescape(re.sub("<[^>]*>", "", code)), names)
    shown = eval(last, names)  # what a notebook would show
    pd.testing.assert_frame_equal(shown, grayzone.load_model("out").decide(table))


def test_the_code_of_the_documentation_runs():
    pages = Path(__file__).parents[2] / "docs" / "guide" / "decision_models.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", pages.read_text(encoding="utf-8"), re.M | re.S)
    names = {}
    exec(code, names)
    new, model = names["new"], names["model"]
    assert model.predict(new).dtype.kind == "i"
    assert model.mean_cost(new, new["target"]) < 0.3
    assert Path("tumours/report.html").exists()


# Costs of the day


def test_costs_of_the_day():
    model, table = small_model(), small_table()
    proba = model.predict_proba(table)
    for costs in ({"no": 1, "yes": 6}, {"FN": 6, "FP": 1}, [[0, 1], [6, 0]], "FN=6,FP=1"):
        decided = model.decide(table, costs=costs)
        places = bayes_decision(proba, [1.0, 6.0])
        assert (decided["decision"] == model.classes_[places]).all()
        assert (model.predict(table, costs=costs) == decided["decision"]).all()
        expected = action_costs(proba, [1.0, 6.0])
        np.testing.assert_allclose(decided["expected_cost_no"], expected[:, 0])
        assert (decided["in_gray_zone"] == near_threshold(proba, [1.0, 6.0])).all()
        paid = np.where(truth() == "yes", 6.0, 1.0) * (decided["decision"] != truth())
        assert model.mean_cost(table, truth(), costs=costs) == pytest.approx(paid.mean())
    ranged = model.decide(table, costs={"no": 1, "yes": (3, 12)})
    near = near_threshold(proba, [1.0, 6.0], [(1, 1), (0.5, 2)])
    assert (ranged["in_gray_zone"] == near).all()
    wary = model.decide(table, reject_cost=0.05)
    assert (wary["decision"][wary["undecided"]] == "undecided").all()
    assert wary["undecided"].any()
    assert not model.decide(table)["undecided"].any()


def test_costs_of_rows_from_a_column_or_an_array():
    model, table = small_model(), small_table().assign(amount=np.linspace(0.0, 50.0, 40))
    amounts = table["amount"].to_numpy()
    proba = model.predict_proba(table)
    expected = model.classes_[(proba[:, 1] * amounts >= proba[:, 0]).astype(int)]
    rows = np.zeros((40, 2, 2))
    rows[:, 1, 0], rows[:, 0, 1] = amounts, 1.0
    own = costly(columns=(None, "amount"))
    for decided in (
        *(model.predict(table, costs={"FN": value, "FP": 1}) for value in ("amount", amounts)),
        *(model.predict(table, costs=value) for value in (rows, "FN=amount")),
        own.predict(table),
    ):
        assert (decided == expected).all()
    cheap = own.decide(table)["expected_cost_no"]
    np.testing.assert_allclose(cheap, proba[:, 1] * amounts)
    assert own.threshold is None
    paid = np.where(truth() == "yes", amounts, 1.0) * (expected != truth())
    assert own.mean_cost(table, truth()) == pytest.approx(paid.mean())


def test_a_model_with_costs_of_rows_comes_back_and_says_what_a_table_lacks():
    model = costly(columns=(None, "amount"), reach=((1.0, 1.0), (0.5, 2.0)))
    model.save(FILE)
    back = grayzone.load_model(FILE)
    assert back.stakes.columns == (None, "amount")
    assert back.stakes.reach == model.stakes.reach
    with pytest.raises(UserError, match="no column 'amount', which has costs of rows"):
        back.decide(small_table())
    with pytest.raises(UserError, match=r"row 1 has 'x' \(40 such rows\)"):
        back.predict(small_table().assign(amount="x"))
    assert len(back.predict(small_table().assign(amount=0.0))) == 40


def test_reasons_stand_beside_decisions():
    model = dataclasses.replace(small_model(), background=small_table()[:5])
    told = model.decide(small_table(), reasons=1)
    assert list(told.columns)[-1] == "reason_1"
    assert told["reason_1"].str.startswith(("a = ", "b = ")).all()


def test_costs_that_are_none():
    model, table = small_model(), small_table()
    with pytest.raises(UserError, match="'maybe' is not known"):
        model.predict(table, costs={"maybe": 3})
    with pytest.raises(UserError, match=r"reject_cost must be a positive number; got -1\."):
        model.predict(table, reject_cost=-1)
    with pytest.raises(UserError, match="a row and a column for each of the classes"):
        model.predict(table, costs=np.eye(3))
    with pytest.raises(ValueError, match="39"):
        model.predict(table, costs={"FN": np.ones(39), "FP": 1})
    limited = small_model(max_fpr=0.3)
    with pytest.raises(UserError, match="keeps a limit, whatever errors cost"):
        limited.predict(table, costs={"FN": 2, "FP": 1})


def test_shares_in_the_gray_zone_are_not_all_or_none():
    """`in_gray_zone` was True for 97 to 100 % of the rows of models with wide zones."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    for name in ("truncated",):
        assert 0.02 < small_model(name).decide(table)["in_gray_zone"].mean() < 0.6


# What it shows


def promised():
    rules = (Rule("always no", 0.5), Rule("always yes", 0.4))
    promise = Promise(0.125, 0.01, 0.1, 0.15, 40, rules, "seen on rows that were not fitted")
    return dataclasses.replace(small_model(), promise=promise)


def test_what_it_was_made_for_comes_back_from_a_file():
    model = dataclasses.replace(promised(), background=small_table()[:5])
    model.save(FILE)
    back = grayzone.load_model(FILE)
    assert back.promise == model.promise
    pd.testing.assert_frame_equal(back.background, model.background)
    mixed = small_model(kind="mixed")
    rows = mixed.schema.apply(small_table("mixed"))[:9]
    dataclasses.replace(mixed, background=rows).save(FILE)
    pd.testing.assert_frame_equal(
        grayzone.load_model(FILE).background, rows, check_dtype=False, check_exact=True
    )


def test_a_notebook_shows_what_to_expect_and_the_page():
    model = promised()
    assert repr(model) == (
        "DecisionModel('logistic-regression', decides 'y': 'no', 'yes'; 2 columns, 40 rows)"
    )
    plain = model._repr_html_()
    assert "0.125 on new rows (0.1 to 0.15" in plain
    assert "always no 0.5, always yes 0.4" in plain
    assert "<iframe" not in plain
    told = model.with_report('<p class="x">the page</p>', {"n_rows": 40})
    assert told.metrics == {"n_rows": 40}
    framed = told._repr_mimebundle_()["text/html"]
    assert 'srcdoc="&lt;p class=&quot;x&quot;&gt;the page&lt;/p&gt;"' in framed
    assert "http" not in framed
    told.save_report("page.html")
    assert Path("page.html").read_text() == '<p class="x">the page</p>'
    with pytest.raises(UserError, match="no report beside a model from a file"):
        model.save_report("page.html")


def test_earlier_formats_are_refused_with_a_sentence():
    small_model().save(FILE)
    forge(held_in(FILE), FILE, version=2)
    with pytest.raises(UserError, match=r"has the format 2; this version reads 4\. Train the"):
        grayzone.load_model(FILE)
