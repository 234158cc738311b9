"""Predictions have the precision of the rows; what is fitted is in double precision."""

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachine,
    MinimaxProbabilityMachine,
    SparseMinimaxProbabilityMachine,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
)
from grayzone.numerics.checks import as_numpy
from grayzone.sources import Block, Source

ESTIMATORS = {
    "truncated": TruncatedLogisticRegression(),
    "truncated kernel": TruncatedLogisticRegression(kernel="rbf"),
    "import vectors": ImportVectorMachine(max_import_points=10),
    "minimax": MinimaxProbabilityMachine(random_state=0),
    "minimax kernel": MinimaxProbabilityMachine(kernel="rbf", cv=None),
    "sparse minimax": SparseMinimaxProbabilityMachine(5, random_state=0),
    "tight bounds": TightBoundLogisticRegression(),
    "Bayes": BayesDecisionClassifier(TruncatedLogisticRegression(zone=None), reject_cost=0.2),
}
METHODS = ("decision_function", "predict_proba", "predict_log_proba", "expected_costs")
X, y = load_breast_cancer(return_X_y=True)
X = scale(X)[:200, :6]
y = y[:200]
FORMS = {
    "array": np.asarray,
    "sparse": sp.csr_array,
    "pandas": lambda X: pd.DataFrame(X, columns=list("abcdef")),
    "polars": lambda X: pl.DataFrame(X, schema=list("abcdef")),
}


@pytest.fixture(scope="module", params=ESTIMATORS)
def name(request):
    return request.param


def numbers(estimator, rows):
    """What the methods that return numbers say."""
    there = [method for method in METHODS if hasattr(estimator, method)]
    assert there
    return {method: getattr(estimator, method)(rows) for method in there}


@pytest.mark.parametrize("form", FORMS)
def test_numbers_have_the_precision_of_the_rows(name, form):
    estimator = ESTIMATORS[name].fit(FORMS[form](X), y)
    double = numbers(estimator, FORMS[form](X))
    single = numbers(estimator, FORMS[form](X.astype(np.float32)))
    for method, values in double.items():
        assert values.dtype == np.float64
        assert single[method].dtype == np.float32
        np.testing.assert_allclose(single[method], values, rtol=1e-3, atol=1e-4)


def test_logarithms_are_those_of_the_probabilities(name):
    estimator = ESTIMATORS[name].fit(X, y)
    if not hasattr(estimator, "predict_log_proba"):
        pytest.skip("has no probabilities")
    far = (8.0 * X).astype(np.float32)
    proba, log_proba = estimator.predict_proba(far), estimator.predict_log_proba(far)
    assert np.all(log_proba <= 0.0)
    assert np.isfinite(log_proba).all()
    np.testing.assert_allclose(np.exp(log_proba), proba, rtol=2e-5, atol=1e-37)
    # near zero and one, where probabilities have lost it, logarithms are as precise as the rows
    double = estimator.predict_log_proba(far.astype(np.float64))
    told = double < -1e-7
    np.testing.assert_allclose(log_proba[told], double[told], rtol=1e-4)


def test_labels_have_their_own_type():
    estimator = TruncatedLogisticRegression().fit(X.astype(np.float32), y.astype(np.float64))
    assert estimator.predict(X.astype(np.float32)).dtype == np.float64


def test_what_is_fitted_is_in_double_precision(name):
    estimator = ESTIMATORS[name].fit(X.astype(np.float32), y)
    for attribute in ("coef_", "dual_coef_", "intercept_", "cost_matrix_"):
        assert getattr(estimator, attribute, np.empty(0)).dtype == np.float64


@pytest.mark.parametrize("chosen", ["truncated", "minimax", "minimax kernel"])
@pytest.mark.parametrize("library", ["strict", "torch"])
def test_arrays_of_other_libraries(chosen, library):
    asarray = array_api_strict.asarray
    if library == "torch":
        asarray = pytest.importorskip("torch").asarray
    with config_context(array_api_dispatch=True):
        for dtype in (np.float32, np.float64):
            rows = asarray(X.astype(dtype))
            estimator = ESTIMATORS[chosen].fit(rows, asarray(y))
            for values in numbers(estimator, rows).values():
                assert as_numpy(values).dtype == dtype


class TwoBlocks(Source):
    n_features = 6

    def blocks(self):
        yield Block(X[:100], y[:100], None, 0)
        yield Block(X[100:].astype(np.float32), y[100:], None, 100)


def test_blocks_have_each_their_own():
    estimator = TruncatedLogisticRegression().fit(X, y)
    parts = list(estimator.predict_proba(TwoBlocks()))
    assert [part.dtype for part in parts] == [np.float64, np.float32]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dask_knows_before_anything_is_computed(dtype):
    dask_array = pytest.importorskip("dask.array")
    estimator = TruncatedLogisticRegression().fit(X, y)
    rows = dask_array.from_array(X.astype(dtype), chunks=(80, 6))
    proba = estimator.predict_proba(rows)
    assert proba.dtype == proba.compute().dtype == dtype
    frame = pytest.importorskip("dask.dataframe").from_pandas(
        pd.DataFrame(X.astype(dtype)), npartitions=2
    )
    proba = estimator.predict_proba(frame)
    assert proba.dtype == proba.compute().dtype == dtype
