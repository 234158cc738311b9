"""An exported model says what the model says: every estimator, to rounding, and every decision."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from exported import (
    SEVERAL,
    SINGLE,
    SURE,
    TWO,
    assert_same,
    decided,
    fitted,
    overlapping,
    several,
    two,
)
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale

import grayzone as gz
from grayzone.decision import action_costs
from grayzone.onnx import run, to_onnx

STANDARD = {"", "ai.onnx.ml"}


@pytest.mark.parametrize("name", TWO)
def test_two_classes(name):
    X, y = overlapping()
    model = fitted(TWO[name], X, y)
    assert_same(run(to_onnx(model, X), X), model, X)


@pytest.mark.parametrize("name", ["linear", "linear, undecided", "rbf", "bounds", "limit"])
def test_classes_that_hardly_overlap(name):
    X, y = two()
    model = fitted(TWO[name], X, y)
    assert_same(run(to_onnx(model, X), X), model, X)


def test_isotonic_calibration():
    X, y = overlapping()
    calibrated = CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=2)
    model = fitted(gz.BayesDecisionClassifier(calibrated, costs={0: 1.0, 1: 4.0}), X, y)
    rows = np.random.default_rng(0).normal(size=(300, X.shape[1]))
    said = run(to_onnx(model, X), rows)
    # steps of zero and one: small probabilities are differences of others
    np.testing.assert_allclose(said["probabilities"], model.predict_proba(rows), atol=1e-12)
    np.testing.assert_array_equal(said["label"], model.predict(rows))


@pytest.mark.parametrize("name", SEVERAL)
def test_several_classes(name):
    X, y = several()
    model = fitted(SEVERAL[name], X, y)
    assert_same(run(to_onnx(model, X), X), model, X)


@pytest.mark.parametrize("name", ["linear, undecided", "laplacian", "import points", "minimax"])
def test_text_labels_and_rows_of_any_number(name):
    X, y = overlapping()
    model = TWO[name]
    if name == "linear, undecided":
        model = gz.TruncatedLogisticRegression(reject_cost=0.2)
    model = fitted(model, X, np.array(["no", "yes"])[y])
    made = to_onnx(model, X)
    assert_same(run(made, X), model, X)
    assert_same(run(made, X[:1]), model, X[:1])
    said = run(made, X[:0])
    assert all(len(values) == 0 for values in said.values())
    if name == "linear, undecided":
        assert "undecided" in set(decided(run(made, X)))
        assert "undecided" not in set(run(made, X)["label"])


@pytest.mark.parametrize("name", ["linear", "import points", "bounds"])
def test_a_hundred_thousand_rows(name):
    X, y = overlapping()
    model = fitted(TWO[name], X, y)
    many = np.random.default_rng(0).normal(size=(100_000, X.shape[1]))
    assert_same(run(to_onnx(model, X), many), model, many)


@pytest.mark.parametrize("name", ["linear", "rbf", "bounds", "decisions", "limit", "ensemble"])
def test_single_precision(name):
    X, y = overlapping()
    X = X.astype(np.float32)
    model = fitted(TWO[name], X, y)
    said, proba = run(to_onnx(model, X), X), model.predict_proba(X)
    assert said["probabilities"].dtype == np.float32
    np.testing.assert_allclose(said["probabilities"], proba, rtol=SINGLE)
    if model.threshold_ is not None:
        sure = np.abs(proba[:, 1] - model.threshold_) > SURE
    else:
        costs = action_costs(proba, model.cost_matrix_, reject_cost=0.1)
        sure = np.ptp(np.sort(costs, axis=1)[:, :2], axis=1) > SURE
    assert sure.sum() > 0.99 * len(X)
    np.testing.assert_array_equal(decided(said)[sure], model.predict(X)[sure])


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "poly"])
def test_models_of_sparse_rows(kernel):
    X, y = two()
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    model = fitted(gz.TruncatedLogisticRegression(kernel=kernel), sp.csr_array(X), y)
    assert_same(run(to_onnx(model, sp.csr_array(X)), X), model, X)


def test_a_precomputed_kernel():
    X, y = overlapping()
    K = rbf_kernel(X, X, gamma=0.1)
    for model in (
        gz.TruncatedLogisticRegression(kernel="precomputed"),
        gz.ImportVectorMachine(kernel="precomputed", max_import_points=5),
        gz.MinimaxProbabilityMachine(kernel="precomputed", random_state=0),
    ):
        model = fitted(model, K, y)
        assert_same(run(to_onnx(model, K), K), model, K)


def test_rows_far_from_the_origin_keep_the_digits_of_their_distances():
    X, y = overlapping()
    for far in (X + 1e6, X * np.r_[1e6, np.ones(X.shape[1] - 1)]):
        model = fitted(gz.TruncatedLogisticRegression(kernel="rbf", gamma=0.1), far, y)
        said = run(to_onnx(model, far), far)
        np.testing.assert_array_equal(said["label"], model.predict(far))
        np.testing.assert_allclose(said["probabilities"], model.predict_proba(far), atol=1e-7)


def test_one_feature_keeps_double_precision():
    # a factor next to a product would be fused into it, in single precision
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = overlapping()
    model = make_pipeline(StandardScaler(), gz.TruncatedLogisticRegression())
    model.fit(7.3 * X[:, :1] + 1.1, y)
    rows = 7.3 * X[:, :1] + 1.1
    assert_same(run(to_onnx(model, rows), rows), model, rows)


@pytest.mark.parametrize("labels", [[False, True], [2.0, -1.0], [7, 3]])
def test_labels_of_every_type(labels):
    X, y = overlapping()
    model = fitted(gz.TruncatedLogisticRegression(), X, np.array(labels)[y])
    said = run(to_onnx(model, X), X)
    assert said["label"].dtype == model.classes_.dtype
    assert_same(said, model, X)


def test_operators_are_standard_and_the_file_tells_what_it_is():
    X, y = two()
    model = fitted(gz.TruncatedLogisticRegression(costs={0: 3.0, 1: 1.0}), X, y)
    made = to_onnx(model, X, metadata={"owner": "risk", "training_data_sha256": "abc"})
    assert {node.domain for node in made.graph.node} <= STANDARD
    assert not any("SVM" in node.op_type for node in made.graph.node)
    facts = json.loads(made.metadata_props[0].value)
    assert facts["threshold"] == pytest.approx(model.threshold_)
    assert facts["zone"] == pytest.approx(model.zone_)
    assert facts["costs"] == model.cost_matrix_.tolist()
    assert facts["version"] == gz.__version__
    assert (facts["owner"], facts["training_data_sha256"]) == ("risk", "abc")
    assert facts["classes"] == [0, 1]


def test_tails_are_exported():
    X, y = overlapping()
    model = fitted(gz.TruncatedLogisticRegression(zone=0.5), X, y)
    assert np.any(model.tail_slopes_ != 1.0)
    plain = fitted(gz.TruncatedLogisticRegression(zone=0.5, tails="as-fitted"), X, y)
    said = run(to_onnx(model, X), X)["probabilities"]
    assert np.abs(said - plain.predict_proba(X)).max() > 1e-3
    assert_same(run(to_onnx(model, X), X), model, X)


def test_moderate_scaling_of_several_classes_keeps_tails():
    X, y = several()
    rows = scale(X)[:, :3]
    model = fitted(gz.TruncatedLogisticRegression(zone=0.5), rows, y)
    assert np.any(model.tail_slopes_ != 1.0)
    assert_same(run(to_onnx(model, rows), rows), model, rows)


def test_rows_far_away_keep_the_tails_of_several_classes():
    X, y = several()
    rows = scale(X)[:, :3]
    model = fitted(gz.TruncatedLogisticRegression(zone=0.5), rows, y)
    far = 1e20 * rows
    proba = model.predict_proba(far)
    assert proba.max(axis=1).min() > 0.99  # log-odds of some fifty, lost in scores of 1e20 else
    np.testing.assert_allclose(run(to_onnx(model, rows), far)["probabilities"], proba, atol=1e-9)
