"""Costs of the day: an exported model decides by those that it is given, of all rows or of each."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from exported import fitted, overlapping, several
from sklearn.linear_model import LogisticRegression

import grayzone as gz
from grayzone.decision import action_costs, bayes_decision
from grayzone.onnx import run, to_onnx
from grayzone.onnx.checking import session_of

rng = np.random.default_rng(0)
MODELS = {
    "truncated": gz.TruncatedLogisticRegression(reject_cost=0.2),
    "import points": gz.ImportVectorMachine(max_import_points=5),
    "decisions": gz.BayesDecisionClassifier(LogisticRegression(), reject_cost=[0.2, 0.4]),
    "ensemble": gz.DecisionEnsembleClassifier(["logistic-regression"], random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
def test_costs_of_all_rows_and_of_each(name):
    X, y = overlapping()
    model = fitted(MODELS[name], X, y)
    made, proba = to_onnx(model, X), model.predict_proba(X)
    reject = {"truncated": [0.2, 0.2], "decisions": [0.2, 0.4]}.get(name)
    actions = model.actions_ if reject else model.classes_
    for costs in (
        np.array([[0.0, 5.0], [1.0, 0.0]]),
        np.array([[0.5, 1.0], [3.0, 0.1]]),
        rng.uniform(0.0, 3.0, size=(len(X), 2, 2)),
    ):
        said = run(made, X, costs=costs)
        expected = bayes_decision(proba, costs, reject_cost=reject)
        np.testing.assert_array_equal(said["decision" if reject else "label"], actions[expected])


def test_several_classes_and_a_cost_of_staying_undecided():
    X, y = several()
    model = fitted(gz.TruncatedLogisticRegression(reject_cost=0.1), X, y)
    made, proba = to_onnx(model, X), model.predict_proba(X)
    costs = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [1.0, 5.0, 0.0]])
    for reject in ([0.05] * 3, [0.01, 0.3, 0.2], [9.0] * 3):
        said = run(made, X, costs=costs, reject_cost=reject)
        places = bayes_decision(proba, costs, reject_cost=reject)
        np.testing.assert_array_equal(said["decision"], model.actions_[places])


def test_costs_need_not_be_given_and_can_be_left_out():
    X, y = overlapping()
    model = fitted(gz.TruncatedLogisticRegression(costs={0: 2.0, 1: 1.0}), X, y)
    session = session_of(to_onnx(model, X))
    assert [i.name for i in session.get_inputs()] == ["X"]
    assert [i.name for i in session.get_overridable_initializers()] == ["costs"]
    fixed = to_onnx(model, X, options={"costs": False})
    assert [i.name for i in session_of(fixed).get_overridable_initializers()] == []
    np.testing.assert_array_equal(run(fixed, X)["label"], model.predict(X))
    with pytest.raises(ValueError, match="has no input 'costs'"):
        run(fixed, X, costs=np.eye(2))


def test_expected_costs_are_told():
    X, y = overlapping()
    model = fitted(MODELS["decisions"], X, y)
    said = run(to_onnx(model, X, options={"expected_costs": True}), X)
    np.testing.assert_allclose(said["expected_costs"], model.expected_costs(X), rtol=1e-12)
    costs = np.array([[0.0, 5.0], [1.0, 0.0]])
    told = run(to_onnx(model, X, options={"expected_costs": True}), X, costs=costs)
    wanted = action_costs(model.predict_proba(X), costs, reject_cost=[0.2, 0.4])
    np.testing.assert_allclose(told["expected_costs"], wanted, rtol=1e-12)


@pytest.mark.parametrize("by", [id, type])
def test_options_may_be_those_of_the_model(by):
    X, y = overlapping()
    model = fitted(gz.TruncatedLogisticRegression(), X, y)
    made = to_onnx(model, X, options={by(model): {"costs": False, "zipmap": False}})
    assert not session_of(made).get_overridable_initializers()


def test_a_row_of_which_nothing_is_known_stays_undecided():
    X, y = overlapping()
    made = to_onnx(fitted(gz.TruncatedLogisticRegression(reject_cost=0.3), X, y), X)
    said = run(made, np.full((1, X.shape[1]), np.nan))
    assert said["decision"].tolist() == [-1]
    assert np.isnan(said["probabilities"]).all()
    policy = to_onnx(fitted(gz.TightBoundLogisticRegression(reject_cost=0.3), X, y), X)
    assert run(policy, np.full((1, X.shape[1]), np.nan))["decision"].tolist() == [-1]
