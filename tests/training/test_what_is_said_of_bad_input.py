"""Bad input from Python: ValueError or TypeError, in a Python caller's words, nothing written."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")

from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LinearRegression, LogisticRegression

import grayzone
from fuzz.model_parts import small_table
from grayzone.tables.errors import UserError, command_line, option

ALONE = {"model": "logistic-regression"}
HALF = "a\ud800b"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table():
    return small_table().assign(y=lambda t: np.where(t["a"] > t["a"].median(), "bad", "good"))


def texts(*values):
    return pd.Series(list(values), dtype=object)


CASES = {
    "huge costs": (lambda t: {"costs": "FN=1e200,FP=1"}, "FN: a cost must be between 1e-30 and"),
    "tiny costs": (lambda t: {"costs": {"bad": 1, "good": 1e-200}}, "good: a cost must be between"),
    "a huge cost in a matrix": (lambda t: {"costs": [[0, 1e200], [1, 0]]}, "a cost must be betwe"),
    "huge costs of rows": (
        lambda t: {"table": t.assign(c=1e200), "costs": "FN=c", "drop": ["c"]},
        "Column 'c': a cost must be between",
    ),
    "a huge cost of staying undecided": (lambda t: {"reject_cost": 1e200}, "reject_cost=….*betwe"),
    "half a character": (
        lambda t: {"table": t.assign(c=texts(*["x", HALF] * 99)[: len(t)])},
        r"Column 'c' should hold text without lone surrogates in each row; row 2 has 'a\\ud800b'",
    ),
    "half a character in a label": (
        lambda t: {"table": t.assign(y=texts(*["x", HALF] * 99)[: len(t)])},
        "Column 'y' should hold text without lone surrogates",
    ),
    "half a character in a name": (
        lambda t: {"table": t.set_axis(pd.Index([HALF, *t.columns[1:]], dtype=object), axis=1)},
        r"names of columns have lone surrogates: 'a\\ud800b'",
    ),
    "another case": (lambda t: {"target": "Y"}, r"target=…: .* no column 'Y'; did you mean 'y'\?"),
    "a near name": (lambda t: {"table": t.assign(age=1), "drop": ["aeg"]}, "did you mean 'age'"),
    "a cost of nothing": (
        lambda t: {"costs": "FNN=5,FP=1"},
        r"costs=…: 'FNN' is not known; .*'FN'",
    ),
    "no time": (lambda t: {"time_limit": -1}, "time_limit=… must be positive"),
    "no such model": (lambda t: {"model": "magic"}, "model=… 'magic' is not known"),
    "no such positive": (lambda t: {"positive": "x"}, "positive=… 'x' is no label"),
    "one time": (lambda t: {"table": t.assign(t=1), "time": "t"}, "time=…: all rows are of one mo"),
    "a leak": (
        lambda t: {"table": t.assign(leak=t["y"]), "strict": True},
        "strict=…: serious findings.* drop=… leaves it out",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_train_says_it_in_a_python_callers_words(here, case):
    make, match = CASES[case]
    given = {"table": table(), "target": "y", "out": "out"} | ALONE | make(table())
    with pytest.raises(ValueError, match=match) as caught:
        grayzone.train(given.pop("table"), given.pop("target"), **given)
    assert isinstance(caught.value, UserError)
    assert "--" not in str(caught.value)
    assert str(caught.value).isprintable()
    assert not list(here.iterdir())


def test_notes_and_findings_name_no_options_of_a_command():
    leaking = table().assign(leak=table()["y"], amount=np.arange(len(table())) % 7 + 1.0)
    model = grayzone.train(leaking, "y", reject_cost=0.9, **ALONE)
    said = [finding["text"] for finding in model.metrics["findings"]] + model.metrics["notes"]
    assert sum("=…" in text or "='" in text for text in said) >= 3
    assert not any("--" in text for text in said)
    notes = model.report_html.split("<h3>Findings</h3>")[1].split("</ul>")
    assert "=…" not in notes[0] + notes[1]


def test_the_same_options_on_a_command_line():
    with command_line():
        assert (option("ids"), option("max_fpr", "0.1")) == ("--id", "--max-fpr 0.1")
    assert (option("ids"), option("max_fpr", "0.1")) == ("ids=…", "max_fpr='0.1'")


def test_columns_that_the_model_needs_are_no_new_names_of_each_other():
    old = small_table().set_axis(["mean compactness", "mean smoothness"], axis=1)
    model = grayzone.train(old.assign(y=table()["y"]), "y", **ALONE)
    with pytest.raises(ValueError, match="lacks 1 of 2") as caught:
        model.predict(old[["mean smoothness"]])
    assert "renamed" not in str(caught.value)
    with pytest.raises(ValueError, match="Is 'mean_compactness' the renamed 'mean comp"):
        model.predict(old.rename(columns={"mean compactness": "mean_compactness"}))


def test_new_tables_with_halves_of_characters():
    old = table().assign(c=texts(*["x", "y"] * 99)[: len(table())])
    model = grayzone.train(old, "y", **ALONE)
    with pytest.raises(ValueError, match="'c' should hold text without lone surrogates"):
        model.predict(old.assign(c=texts(*["x", HALF] * 99)[: len(old)]))
    # columns that it does not need may hold anything
    more = old.assign(d=texts(*["x", HALF] * 99)[: len(old)])
    assert (model.predict(more) == model.predict(old)).all()


def test_a_model_is_saved_by_the_name_of_a_file_or_a_folder(here):
    model = grayzone.train(table(), "y", **ALONE)
    (here / "folder").mkdir()
    for name, file in (("folder", "folder/model.skops"), ("m.skops", "m.skops")):
        model.save(name)
        assert (here / file).is_file()
        assert (grayzone.load_model(name).predict(table()) == model.predict(table())).all()
    with pytest.raises(ValueError, match="nowhere does not exist"):
        model.save("nowhere/m.skops")


def test_a_report_of_costs_beyond_reckoning():
    X, y = small_table()[["a", "b"]].to_numpy(), (table()["y"] == "bad").to_numpy()
    fitted = LogisticRegression().fit(X, y)
    for costs in ({False: 1, True: 1e200}, {False: 1e-200, True: 1}):
        with pytest.raises(ValueError, match="costs: a cost must be between"):
            grayzone.report(fitted, X, y, costs=costs)
    with pytest.raises(ValueError, match="reject_cost: a cost must be between"):
        grayzone.report(fitted, X, y, reject_cost=1e200)


@pytest.mark.parametrize("kind", [LinearRegression, IsolationForest])
def test_a_rate_needs_a_classifier(kind):
    limited = grayzone.RateLimitClassifier(kind(), max_fpr=0.1)
    wanted = f"needs a classifier with predict_proba or decision_function; {kind.__name__} is none"
    with pytest.raises(TypeError, match=wanted):
        limited.fit(small_table().to_numpy(), table()["y"] == "bad")
