"""Compiled scores and sums of rows against NumPy in double precision."""

import numpy as np
import pytest

from grayzone.numerics import designs, jit_rows
from grayzone.numerics.designs import DenseDesign

N = 2003


def rows_of(dtype=np.float64):
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 7)).astype(dtype), rng.normal(size=N)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("start", "stop"), [(0, N), (3, 5), (17, 17), (1000, 2002)])
def test_scores_and_sums_are_those_of_numpy(dtype, start, stop):
    X, residual = rows_of(dtype)
    coef, out, total = np.arange(8.0), np.full(N, -1.0), np.ones(7)
    jit_rows.scores(X, coef, out, start, stop)
    expected = np.full(N, -1.0)
    expected[start:stop] = X[start:stop].astype(np.float64) @ coef[:7] + 7.0
    np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-12)
    jit_rows.pull(X, residual, total, start, stop)
    sums = residual[start:stop] @ X[start:stop].astype(np.float64)
    np.testing.assert_allclose(total, 1.0 + sums, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_designs_of_many_rows_are_those_of_few(monkeypatch, dtype, fit_intercept):
    X, residual = rows_of(dtype)
    few, many = DenseDesign(X, fit_intercept), DenseDesign(X, fit_intercept)
    monkeypatch.setattr(designs, "_BLOCK_SIZE", 100)
    many.is_loaded = True
    assert many._looped
    assert not few._looped
    coef = np.random.default_rng(1).normal(size=(1, few.n_coef))
    np.testing.assert_allclose(many.scores(coef), few.scores(coef), rtol=1e-12, atol=1e-12)
    pulled = many.gradient(residual[:, None])
    np.testing.assert_allclose(pulled, few.gradient(residual[:, None]), rtol=1e-12, atol=1e-12)
    assert pulled.shape == coef.shape
