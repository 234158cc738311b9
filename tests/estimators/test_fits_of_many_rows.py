"""Fits of many rows by compiled passes, beside the same fits by NumPy's."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from grayzone import TightBoundLogisticRegression, TruncatedLogisticRegression
from grayzone.numerics import designs, pieces

N = 6000


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 6))
    return X, (X[:, 0] - 0.5 * X[:, 1] + rng.logistic(size=N) > 0.7).astype(int)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "model",
    [
        TruncatedLogisticRegression(zone=(0.3, 0.7), tol=1e-10, random_state=0),
        TruncatedLogisticRegression(zone=None, tol=1e-10, random_state=0),
        TightBoundLogisticRegression(n_bounds=3),
    ],
    ids=["zone", "plain", "bounds"],
)
def test_fits_by_compiled_passes_are_the_same(model, threads, rows, monkeypatch):
    expected = model.fit(*rows).coef_.copy()
    monkeypatch.setattr(pieces, "MANY", 100)
    monkeypatch.setattr(pieces, "PIECE", 64)
    for name in ("_MANY_ENTRIES", "_WORTH_A_THREAD", "_READ_BY_A_THREAD", "_BLOCK_SIZE"):
        monkeypatch.setattr(designs, name, 100)
    with threadpool_limits(threads, user_api="blas"):
        model.fit(*rows)
    if hasattr(model, "dual_gap_"):
        assert model.dual_gap_ <= model.tol
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-5, atol=1e-6)
