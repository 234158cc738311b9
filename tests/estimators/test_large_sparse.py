"""Many features: sparse bags of words and wide dense rows, without a d x d matrix."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from grayzone import TruncatedLogisticRegression

N, D = 2_000, 20_000


@pytest.fixture(scope="module")
def words():
    """Word counts: frequencies fall as in a language, a few words tell the classes apart."""
    rng = np.random.default_rng(0)
    label = np.arange(N) % 4
    frequency = 1.0 / np.arange(1, D + 1)
    columns = []
    for k in label:
        tilted = frequency.copy()
        tilted[5 + k : 2000 : 7] *= 4.0
        columns.append(rng.choice(D, size=60, p=tilted / tilted.sum()))
    rows = np.repeat(np.arange(N), 60)
    X = sp.csr_array((np.ones(60 * N), (rows, np.concatenate(columns))), shape=(N, D))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    return X, label


def fit_and_peak(X, y, **parameters):
    """A fitted estimator and the bytes that its fit has allocated at its worst."""
    estimator = TruncatedLogisticRegression(**parameters)
    tracemalloc.start()
    try:
        estimator.fit(X, y)
        return estimator, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("zone", [1.0, None])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix])
def test_two_classes(words, zone, kind):
    X, label = words
    y = label % 2
    estimator, peak = fit_and_peak(kind(X), y, zone=zone, C=0.1, tol=1e-4)
    assert 0.0 <= estimator.dual_gap_ <= 1e-4
    assert np.isfinite(estimator.coef_).all()
    assert estimator.score(X, y) > 0.8
    # d x d doubles would be 3.2 GB; a dense copy of X 320 MB
    assert peak < 40e6


def test_four_classes(words):
    X, y = words
    estimator, peak = fit_and_peak(X, y, C=0.1, tol=1e-4)
    assert 0.0 <= estimator.dual_gap_ <= 1e-4
    assert estimator.coef_.shape == (4, D)
    assert estimator.score(X, y) > 0.6
    assert peak < 80e6


def test_a_sparse_matrix_is_not_copied():
    # many rows, few features: the matrix is large and all else of the fit is small
    rng = np.random.default_rng(1)
    X = sp.random_array((40_000, 60), density=0.5, format="csr", rng=rng, dtype=np.float64)
    y = (X[:, [0]].toarray().ravel() + 0.3 * rng.normal(size=40_000) > 0.3).astype(int)
    fit_and_peak(X[:2000], y[:2000])  # what is loaded once is not counted
    parameters = {"tol": 1e-3, "random_state": 0}
    _, peak = fit_and_peak(X, y, **parameters)
    # dense rows lie as BLAS wants them: their fit allocates vectors of n and a part of the rows
    _, needed = fit_and_peak(X.toarray(), y, **parameters)
    assert peak - needed < 0.6 * (X.data.nbytes + X.indices.nbytes)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("zone", [1.0, None])
def test_wide_dense_rows(n_classes, zone):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 5_000))
    y = np.arange(40) % n_classes
    estimator, peak = fit_and_peak(X, y, zone=zone, tol=1e-8)
    assert 0.0 <= estimator.dual_gap_ <= 1e-8
    assert estimator.score(X, y) == 1.0
    # some copies of X, but nothing of d x d, which would be 200 MB
    assert peak < 12e6
    # the coefficients are in the span of the rows
    combination = np.linalg.lstsq(X.T, estimator.coef_.T, rcond=None)[0]
    np.testing.assert_allclose(X.T @ combination, estimator.coef_.T, atol=1e-10)
