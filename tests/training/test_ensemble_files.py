"""What is in a model file, as nobody has fitted it: it neither crashes nor runs for ever.

Compiled code walks the trees, and would follow any index.
"""

import copy
import dataclasses

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")

from model_file import FILE, classifier, refused, saved
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import Pipeline

import grayzone
from fuzz.model_parts import forge, held_in, one_chain, small_model, small_table
from grayzone import DecisionEnsembleClassifier
from grayzone.estimators import table_features
from grayzone.estimators.table_features import TableFeatures
from grayzone.tables.errors import UserError
from grayzone.tables.schema import Schema

MEMBERS = ["logistic-regression", "random-forest", "boosting", "splines"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def trained():
    """Return a model of a table of all kinds of columns, with gaps, and that table."""
    rng, n = np.random.default_rng(0), 240
    kind = rng.choice(["cat", "dog"], n)
    table = pd.DataFrame(
        {
            "age": rng.normal(40.0, 10.0, n),
            "job": rng.choice(["clerk", "nurse", "pilot"], n),
            "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "note": [f"a {k} named {rng.integers(10**6)}" for k in kind],
        }
    )
    by_job = table["job"].map({"clerk": 0.0, "nurse": 1.0, "pilot": -1.0})
    known = 0.1 * (table["age"] - 40) + (kind == "dog") + by_job
    y = (known + rng.normal(size=n) > 0.5).to_numpy().astype(int)
    for step, name in enumerate(table.columns):
        table.loc[:: 9 + step, name] = None
    schema, plain = Schema.of(table), small_model()
    ensemble = DecisionEnsembleClassifier(MEMBERS, costs=plain.stakes.costs, cv=2)
    pipeline = Pipeline([("pass", "passthrough"), ("decide", ensemble)])
    pipeline.fit(schema.apply(table), y)
    ensemble.forget_rows()
    return dataclasses.replace(plain, estimator=pipeline, schema=schema), table


@pytest.fixture
def held(trained):
    """Return what the file of that model holds."""
    trained[0].save(FILE)
    return held_in(FILE)


def test_members_share_what_comes_before_them(held, trained):
    model, table = trained
    pd.testing.assert_frame_equal(
        grayzone.load_model(FILE).decide(table), model.decide(table), check_exact=True
    )
    members = held["estimator"][-1].members_
    assert list(members) == MEMBERS
    assert len({id(member.steps[0][1]) for member in members.values()}) == 1
    assert FILE.stat().st_size < 500_000


def with_change(thing, attribute, change):
    """Give an attribute another value, or one that is made of the one it has."""
    before = getattr(thing, attribute)
    setattr(thing, attribute, change(before) if callable(change) else change)


def at(place, value):
    """Change one of the values."""

    def change(values):
        changed = values.copy()
        changed[place] = value
        return changed

    return change


# Trees


@pytest.mark.parametrize(
    ("attribute", "change"),
    [
        ("feature_", at(-1, 10**6)),
        ("feature_", at(0, -7)),
        ("feature_", at(0, 2**31 - 1)),
        ("feature_", lambda a: a.astype(np.int64)),
        ("feature_", lambda a: a[:-1]),
        ("left_", at(0, 0)),
        ("left_", at(0, -1)),
        ("left_", at(0, 2**31 - 1)),
        ("left_", at(-1, 10**6)),
        ("left_", lambda a: a[:-1]),
        ("right_", at(0, 0)),
        ("right_", at(0, -(2**31))),
        ("right_", at(0, 2**31 - 1)),
        ("right_", lambda a: a.reshape(1, -1)),
        ("threshold_", lambda a: a[:0]),
        ("threshold_", lambda a: a.astype(np.float32)),
        ("gap_left_", lambda a: a[:-1]),
        ("gap_left_", lambda a: a.astype(np.int8)),
        ("category_", at(-1, 10**6)),
        ("category_", at(0, -2)),
        ("roots_", at(-1, 10**6)),
        ("roots_", at(0, -1)),
        ("columns_", at(-1, 10**6)),
        ("columns_", at(0, -1)),
        ("columns_", lambda a: a[:-1]),
        ("leaves_", lambda a: a[:-1]),
        ("leaves_", lambda a: a.ravel()),
        ("leaves_", lambda a: a.astype(np.float64)),
        ("base_", np.zeros(5)),
        ("classes_", np.arange(5)),
        ("classes_", "no"),
        ("n_features_in_", 1),
        ("n_features_in_", None),
        ("single_", 1),
    ],
)
@pytest.mark.parametrize("name", ["random-forest", "boosting"])
def test_trees_that_lead_elsewhere_are_refused(attribute, change, name, held):
    """`left = 2**31` crashed the process, a child 0 ran for ever."""
    trees = held["estimator"][-1].members_[name].steps[-1][1]
    assert trees.feature_[0] >= 0
    with_change(trees, attribute, change)
    forge(held, FILE)
    refused("arrays of TreeSum do not fit")


@pytest.mark.parametrize("name", ["random-forest", "boosting"])
def test_nodes_that_make_up_no_trees_are_refused(name, held):
    """A file of 1.15 MB kept `load_model` busy for hours: 2,000,000 roots of one long chain."""
    trees = held["estimator"][-1].members_[name].steps[-1][1]
    deep, fit = one_chain(500, 1), one_chain(499, 1)
    cases = {
        "deeper than any fit makes it": deep,
        "equal roots": one_chain(3, 2),
        "a root within another tree": one_chain(3, 2) | {"roots_": np.asarray([0, 2])},
        "a child of two nodes": fit | {"right_": np.where(fit["right_"] == 3, 1, fit["right_"])},
        "a node twice a child": fit | {"left_": np.where(fit["left_"] == 4, 3, fit["left_"])},
        "a node that nothing leads to": fit | {"roots_": np.asarray([2])},
        "no tree at all": fit | {"roots_": np.asarray([], int), "columns_": np.asarray([], int)},
        "more trees than any fit makes": one_chain(0, 1)
        | {"roots_": np.arange(401), "columns_": np.zeros(401, int)}
        | {key: np.repeat(one_chain(0, 1)[key], 401) for key in list(fit)[:6]},
    }
    for case, arrays in {"none of these": fit, **cases}.items():
        for attribute, values in arrays.items():
            setattr(trees, attribute, values)
        forge(held, FILE)
        if case == "none of these":
            grayzone.load_model(FILE)
            continue
        refused("arrays of TreeSum do not fit")


def test_sets_of_categories_are_in_their_places(held):
    trees = held["estimator"][-1].members_["boosting"].steps[-1][1]
    assert (trees.category_ >= 0).any()
    for change in (trees.bits_[:-1], trees.bits_[:, :-1], trees.bits_.astype(np.uint64)):
        trees.bits_ = change
        forge(held, FILE)
        refused("arrays of TreeSum do not fit")


# Features, and the ensemble


@pytest.mark.parametrize(
    ("part", "attribute", "change"),
    [
        ("features", "n_levels", [10**9, 3]),
        ("features", "n_levels", [3]),
        ("features", "n_levels", 3),
        ("features", "n_features_in_", "many"),
        ("features", "medians_", np.zeros(1)),
        ("features", "medians_", at(0, np.nan)),
        ("features", "means_", at(0, np.inf)),
        ("features", "scales_", at(0, 0.0)),
        ("features", "gaps_", np.asarray([99])),
        ("features", "gaps_", np.asarray([-1])),
        ("features", "knots_", lambda a: a[:-1]),
        ("features", "knots_", lambda a: a[:, :-1]),
        ("columns", "levels_", [["a"]]),
        ("columns", "levels_", lambda a: [[f"{k}" for k in range(999)], *a[1:]]),
        ("columns", "levels_", lambda a: [[3], *a[1:]]),
        ("columns", "has_rare_", lambda a: [3, *a[1:]]),
        ("columns", "text_maps_", [np.zeros((3, 3))]),
        ("columns", "text_maps_", []),
        ("columns", "texts_", None),
        ("ensemble", "members_", {}),
        ("ensemble", "weights_", np.ones(3)),
        ("ensemble", "weights_", None),
        ("ensemble", "_slopes", np.ones((4, 1))),
        ("ensemble", "_shifts", np.zeros((4, 3))),
        ("ensemble", "intercept_", np.zeros(3)),
        ("ensemble", "cost_matrix_", np.zeros((3, 3))),
        ("ensemble", "classes_", np.arange(3)),
        ("ensemble", "_cut", "half"),
        ("ensemble", "_reject_costs", [1.0]),
        ("ensemble", "actions_", np.arange(5)),
    ],
)
def test_parts_that_do_not_fit_are_refused(part, attribute, change, held):
    ensemble = held["estimator"][-1]
    steps = ensemble.members_["splines"].named_steps
    with_change(ensemble if part == "ensemble" else steps[part], attribute, change)
    forge(held, FILE)
    refused("do not fit each other")


@pytest.mark.parametrize(
    "change",
    [
        lambda steps: steps[1:],
        lambda steps: [steps[1], steps[0], steps[2]],
        lambda steps: [("columns", "passthrough"), *steps[1:]],
        lambda steps: [steps[0], ("features", "passthrough"), steps[2]],
        lambda steps: [*steps[:2], *steps[1:]],
    ],
)
def test_members_of_other_steps_are_refused(change, held):
    member = held["estimator"][-1].members_["splines"]
    member.steps = change(member.steps)
    forge(held, FILE)
    refused("arrays of DecisionEnsembleClassifier do not fit each other")


@pytest.mark.parametrize(
    ("attribute", "make"),
    [
        ("columns_", lambda features: features.scaled_),
        ("scaled_", lambda features: features.columns_),
        ("columns_", lambda features: TableFeatures()),
        ("scaled_", lambda features: features.scaled_.set_params(n_levels=[1])),
    ],
)
def test_features_of_a_family_fit_each_other(attribute, make):
    held = saved("tight-bound", "mixed")
    features = held["estimator"][0]
    setattr(features, attribute, make(features))
    forge(held, FILE)
    refused("do not fit each other")


# Models within models


def test_models_within_models_are_refused(held):
    """A pipeline of two of the same kind, fifty deep, would run for ever."""
    whole = held["estimator"]
    for name in ("pass", "features"):
        forge(held | {"estimator": Pipeline([(name, whole), whole.steps[-1]])}, FILE)
        refused(f"its step {name} is something else")
    member = whole[-1].members_["splines"]
    first = member.steps[:-1]
    for inner in (member, copy.deepcopy(whole[-1]), whole[-1].members_["boosting"]):
        whole[-1].members_["splines"] = Pipeline([*first, ("model", inner)])
        forge(held, FILE)
        refused("is not in its place")
    whole[-1].members_["splines"] = DecisionEnsembleClassifier()
    forge(held, FILE)
    refused("a DecisionEnsembleClassifier is not in its place")


def test_calibrations_within_calibrations_are_refused():
    held = saved("minimax")
    calibrated = classifier(held).calibrated_classifiers_[0]
    outer = copy.deepcopy(held["estimator"])
    for inner in (CalibratedClassifierCV(), outer, outer[-1]):
        calibrated.estimator = inner
        forge(held, FILE)
        refused("is not in its place")


def test_a_large_array_in_many_places_is_refused():
    """Each place of it is worked through when the model decides."""
    held = saved("minimax")
    calibration = classifier(held)
    machine = calibration.calibrated_classifiers_[0].estimator
    for name in ("bases_", "gammas_"):
        setattr(machine, name, np.ones((100_000, 2)))
    machine.dual_coef_ = np.zeros((1, 100_000))
    calibration.calibrated_classifiers_ *= 30
    forge(held, FILE)
    refused("a few of its objects are used too often")


@pytest.mark.parametrize(
    ("name", "attribute", "change"),
    [
        ("logistic-regression", "coef_", np.ones((1, 5))),
        ("logistic-regression", "coef_", "abc"),
        ("logistic-regression", "intercept_", np.zeros((7, 7))),
        ("logistic-regression", "classes_", np.arange(9)),
        ("truncated", "coef_", np.ones((1, 5))),
        ("truncated", "n_features_in_", None),
        ("tight-bound", "coef_", lambda a: a.ravel()),
        ("kernel-logistic", "dual_coef_", lambda a: a[:, :-1]),
        ("kernel-logistic", "_vectors", lambda a: a[:, :-1]),
        ("import-vector", "_vectors", lambda a: a[:-1]),
        ("minimax", "bases_", lambda a: a[:, :-1]),
        ("minimax", "gammas_", lambda a: a[:-1]),
    ],
)
def test_coefficients_that_do_not_fit_are_refused(name, attribute, change):
    """Some of them decided, by the first of their features."""
    held = saved(name)
    thing = classifier(held)
    if name == "minimax":
        thing = thing.calibrated_classifiers_[0].estimator
    with_change(thing, attribute, change)
    forge(held, FILE)
    refused(f"the arrays of {type(thing).__name__} do not fit each other")


# What shows when a model decides


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        ("logistic-regression", "coef_", np.full((1, 2), np.nan)),
        ("logistic-regression", "predict_proba", 3),
        ("kernel-logistic", "_kernel", None),
        ("tight-bound", "intercept_", np.full(1, np.nan)),
        ("minimax", "calibrated_classifiers_", []),
    ],
)
def test_models_that_cannot_decide_are_refused_on_loading(name, attribute, value):
    """Such were loaded, and then gave an IndexError."""
    held = saved(name)
    setattr(classifier(held), attribute, value)
    forge(held, FILE)
    refused("is damaged")


def test_damage_that_shows_in_some_rows_alone_is_refused_on_loading():
    """Found by changed files: features that are infinite where a certain word is."""
    held = saved(kind="mixed")
    columns = held["estimator"][-1].members_["logistic-regression"].named_steps["columns"]
    damaged = np.full_like(columns.text_maps_[0], np.inf)
    # what the row has that a model is tried on
    damaged[table_features._pieces(["some text"]).indices] = 0.0
    columns.text_maps_ = [damaged]
    forge(held, FILE)
    refused("do not fit each other")


def test_damage_that_no_file_shows_is_one_sentence():
    held = saved(kind="mixed")
    forge(held, FILE)
    model = grayzone.load_model(FILE)
    columns = model.estimator[-1].members_["logistic-regression"].named_steps["columns"]
    columns.text_maps_ = [columns.text_maps_[0][:3]]
    with pytest.raises(UserError, match="cannot decide on this table, it is damaged"):
        model.decide(small_table("mixed"))
