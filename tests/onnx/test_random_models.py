"""Random models: whatever the parameters, an export says what the model says."""

import warnings

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from exported import assert_same, rounding_of
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import grayzone as gz
from grayzone.onnx import run, to_onnx

kernels = st.sampled_from(["linear", "rbf", "poly", "laplacian"])
positive = st.floats(0.1, 10.0)


@st.composite
def models(draw, n_classes):
    """A model of any kind, with any costs, zone, kernel and way of staying undecided."""
    costs = {k: draw(positive) for k in range(n_classes)}
    reject = draw(st.none() | st.floats(0.05, 0.5))
    kernel = {"kernel": draw(kernels), "gamma": draw(st.floats(0.02, 0.5)), "degree": 2}
    two = n_classes == 2
    zone = draw(st.none() | st.floats(0.3, 3.0))
    kinds = [
        lambda: gz.TruncatedLogisticRegression(
            C=draw(positive),
            zone=zone,
            costs=costs,
            reject_cost=reject,
            tails=draw(st.sampled_from(["calibrated", "as-fitted"])),
            coef0=1.0,
            tol=1e-3,
            **kernel,
        ),
        lambda: gz.ImportVectorMachine(
            C=draw(positive), zone=zone, costs=costs, max_import_points=6, coef0=1.0, **kernel
        ),
        lambda: gz.TightBoundLogisticRegression(
            C=draw(positive), costs=costs, reject_cost=reject, n_bounds=draw(st.integers(1, 4))
        ),
        lambda: gz.BayesDecisionClassifier(
            LogisticRegression(C=draw(positive)),
            costs=costs,
            reject_cost=reject,
            prior=draw(st.none() | st.just({k: draw(positive) for k in range(n_classes)})),
        ),
        lambda: gz.MinimaxProbabilityMachine(costs=costs, cv=None, coef0=1.0, **kernel),
        lambda: gz.SparseMinimaxProbabilityMachine(
            n_bases=3, basis=draw(st.sampled_from(["gaussian", "poly", "tanh"])), random_state=0
        ),
    ]
    made = draw(st.sampled_from(kinds if two else kinds[:4]))()
    return make_pipeline(StandardScaler(), made) if draw(st.booleans()) else made


@settings(max_examples=40)
@given(st.data(), st.integers(2, 4), st.integers(1, 5), st.integers(0, 2**31 - 1))
def test_random_models(data, n_classes, n_features, seed):
    rng = np.random.default_rng(seed)
    y = np.r_[np.repeat(np.arange(n_classes), 5), rng.integers(0, n_classes, 60)]
    X = rng.normal(size=(len(y), n_features)) + y[:, None] * rng.normal(size=n_features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = data.draw(models(n_classes)).fit(X, y)
    rows = np.vstack([X, 3.0 * rng.normal(size=(40, n_features))])
    assert_same(run(to_onnx(model, X), rows), model, rows, rounding_of(model, rows))
