"""What cannot be exported is said when it is exported, and why."""

import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from exported import fitted, overlapping
from sklearn.cluster import FeatureAgglomeration
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import linear_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

import grayzone as gz
from grayzone.onnx import NotConvertibleError, run, to_onnx


def gaussian(X, v):
    return np.exp(-np.sum((X - v) ** 2, axis=1))


@pytest.mark.parametrize(
    "model",
    [
        gz.TruncatedLogisticRegression(kernel=linear_kernel),
        gz.ImportVectorMachine(kernel=linear_kernel, max_import_points=3),
        gz.MinimaxProbabilityMachine(kernel=linear_kernel, cv=None),
        gz.SparseMinimaxProbabilityMachine(basis=gaussian, n_bases=2, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_functions_of_ones_own(model):
    X, y = overlapping()
    X, y = X[:60], y[:60]
    with pytest.raises(NotConvertibleError, match="holds formulas, no code"):
        to_onnx(fitted(model, X, y), X)


@pytest.mark.parametrize(
    "step", [FeatureAgglomeration(2), FunctionTransformer(np.cbrt)], ids=["foreign", "function"]
)
def test_steps_without_a_counterpart(step):
    X, y = overlapping()
    model = make_pipeline(step, gz.TruncatedLogisticRegression()).fit(X, y)
    with pytest.raises(NotConvertibleError, match=r"counterpart|no code"):
        to_onnx(model, X)


def test_limits_on_scores_that_nobody_knows():
    X, y = overlapping()
    from sklearn.svm import LinearSVC

    model = fitted(gz.RateLimitClassifier(LinearSVC(), max_fpr=0.2, random_state=0), X, y)
    with pytest.raises(NotConvertibleError):
        to_onnx(model, X)


def test_models_that_are_not_fitted():
    with pytest.raises(NotFittedError):
        to_onnx(gz.TruncatedLogisticRegression(), np.eye(3))


def test_columns_that_are_not_those_of_the_fit():
    X, y = overlapping()
    model = fitted(gz.TruncatedLogisticRegression(), X, y)
    with pytest.raises(ValueError, match=r"X has 4 columns; .* fitted with 6"):
        to_onnx(model, X[:, :4])
    with pytest.raises(ValueError, match="two dimensions"):
        to_onnx(model, X[0])
    table = pd.DataFrame(X, columns=list("abcdef"))
    pipeline = make_pipeline(StandardScaler(), gz.TruncatedLogisticRegression()).fit(table, y)
    with pytest.raises(ValueError, match=r"lacks 1 of 6 columns .*\['c'\]"):
        to_onnx(pipeline, table.drop(columns="c"))
    with pytest.raises(ValueError, match="in that order"):
        to_onnx(pipeline, table[list("bacdef")])
    renamed = table.rename(columns={"a": "costs"})
    pipeline = make_pipeline(gz.TruncatedLogisticRegression()).fit(renamed, y)
    with pytest.raises(ValueError, match="called 'costs'"):
        to_onnx(pipeline, renamed)


def test_gaps_that_the_model_does_not_take():
    X, y = overlapping()
    model = fitted(gz.TruncatedLogisticRegression(), X, y)
    late = np.vstack([X, np.full((1, X.shape[1]), np.nan)])  # behind the rows that are tried
    with pytest.raises(ValueError, match=r"cannot decide on these rows: .*NaN"):
        to_onnx(model, late)


def test_values_that_onnx_has_not():
    X, y = overlapping()
    model = fitted(gz.TruncatedLogisticRegression(), X, y)
    dates = np.full(X.shape, np.datetime64("2020-01-01"))
    with pytest.raises(ValueError, match="dates"):
        to_onnx(model, dates)
    mixed = np.array([["a", 1, 2, 3, 4, 5]], dtype=object)
    with pytest.raises(ValueError, match="types int, str"):
        to_onnx(model, mixed)
    with pytest.raises(NotConvertibleError, match="text where numbers are needed"):
        to_onnx(model, np.full((3, 6), "a"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cost": True}, "must be among"),
        ({"costs": "yes"}, "True or False"),
        ({"zipmap": True}, "must be False"),
        ({LogisticRegression: {"costs": True}}, "for the model that is exported"),
    ],
)
def test_options_that_are_none(options, says):
    X, y = overlapping()
    model = fitted(gz.TruncatedLogisticRegression(), X, y)
    with pytest.raises(ValueError, match=says):
        to_onnx(model, X, options=options)


def test_what_a_file_cannot_tell():
    X, y = overlapping()
    policy = fitted(gz.TightBoundLogisticRegression(), X, y)
    with pytest.raises(ValueError, match="decide by costs and probabilities"):
        to_onnx(policy, X, options={"expected_costs": True})
    with pytest.raises(ValueError, match="what JSON can hold"):
        to_onnx(policy, X, metadata={"owner": object()})
    with pytest.raises(ValueError, match="no input 'costs'"):
        run(to_onnx(policy, X), X, costs=np.eye(2))


def test_an_export_that_would_decide_otherwise_is_not_given_out(monkeypatch):
    X, y = overlapping()
    model = fitted(gz.TruncatedLogisticRegression(), X, y)
    from grayzone.onnx import answers

    monkeypatch.setattr(answers, "tails_of", lambda model: None)
    with pytest.raises(ValueError, match="would differ from the model in probabilities"):
        to_onnx(model, X)
    flipped = answers.function_of(model)
    flipped = type(flipped)(-flipped.coef, flipped.intercept)
    monkeypatch.setattr(answers, "function_of", lambda model: flipped)
    machine = fitted(gz.MinimaxProbabilityMachine(cv=None), X, y)
    with pytest.raises(ValueError, match="the decision about row"):
        to_onnx(machine, X)


def test_a_classifier_by_skl2onnx_decides_the_same():
    pytest.importorskip("skl2onnx")
    X, y = overlapping()
    neighbours = gz.BayesDecisionClassifier(KNeighborsClassifier(15), costs={0: 1.0, 1: 2.5})
    model = fitted(neighbours, X, y)
    said = run(to_onnx(model, X), X)
    np.testing.assert_array_equal(said["label"], model.predict(X))


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_without_the_extra(monkeypatch, missing):
    X, y = overlapping()
    model = fitted(gz.TruncatedLogisticRegression(), X, y)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"needs {missing}: pip install 'grayzone\[onnx\]'"):
        run(to_onnx(model), X)


def test_without_skl2onnx_its_steps_have_no_counterpart(monkeypatch):
    X, y = overlapping()
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    model = fitted(gz.TruncatedLogisticRegression(), X, y)
    np.testing.assert_array_equal(run(to_onnx(model, X), X)["label"], model.predict(X))
    polynomial = make_pipeline(PolynomialFeatures(2), gz.TruncatedLogisticRegression()).fit(X, y)
    with pytest.raises(NotConvertibleError, match="pip install 'grayzone"):
        to_onnx(polynomial, X)
