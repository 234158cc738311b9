"""Compiled scores and sums of rows against NumPy in double precision."""

import numpy as np
import pytest

from grayzone.numerics import designs, jit_rows
from grayzone.numerics.designs import DenseDesign

N = 2003


def rows_of(dtype=np.float64):
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 7)).astype(dtype), rng.normal(size=(N, 3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("start", "stop"), [(0, N), (3, 5), (17, 17), (1000, 2002)])
def test_scores_and_sums_are_those_of_numpy(dtype, start, stop):
    X, residual = rows_of(dtype)
    coef, out, total = np.arange(24.0).reshape(3, 8), np.full((N, 3), -1.0), np.ones((3, 8))
    jit_rows.scores(X, coef, out, start, stop)
    expected = np.full((N, 3), -1.0)
    expected[start:stop] = X[start:stop].astype(np.float64) @ coef[:, :7].T + coef[:, 7]
    np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-12)
    jit_rows.pull(X, residual, total, start, stop)
    sums = residual[start:stop].T @ X[start:stop].astype(np.float64)
    np.testing.assert_allclose(total[:, :7], 1.0 + sums, rtol=1e-12, atol=1e-12)
    whole = residual[start:stop].sum(axis=0)
    np.testing.assert_allclose(total[:, 7], 1.0 + whole, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_designs_of_many_rows_are_those_of_few(monkeypatch, dtype, fit_intercept, n_outputs):
    X, residual = rows_of(dtype)
    few, many = DenseDesign(X, fit_intercept), DenseDesign(X, fit_intercept)
    monkeypatch.setattr(designs, "_BLOCK_SIZE", 100)
    many.is_loaded = True
    assert many._looped
    assert not few._looped
    rng, residual = np.random.default_rng(1), residual[:, :n_outputs]
    coef = rng.normal(size=(n_outputs, few.n_coef))
    np.testing.assert_allclose(many.scores(coef), few.scores(coef), rtol=1e-12, atol=1e-12)
    pulled = many.gradient(residual)
    np.testing.assert_allclose(pulled, few.gradient(residual), rtol=1e-12, atol=1e-12)
    assert pulled.shape == coef.shape
    # weights of both signs, and of none
    weights = rng.normal(size=(N, 2)) * rng.integers(2, size=(N, 2))
    for rows in (None, rng.permutation(N)[: N // 2]):
        part = slice(None) if rows is None else rows
        given = weights[part], residual[part], rows
        for mine, theirs in zip(many.gram(*given), few.gram(*given), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-11)


def test_a_weight_that_is_not_a_number_stays_so(monkeypatch):
    monkeypatch.setattr(designs, "_BLOCK_SIZE", 100)
    X, residual = rows_of()
    many, weights = DenseDesign(X, True), np.ones((N, 1))
    many.is_loaded, weights[40] = True, np.nan
    assert np.all(np.isnan(many.gram(weights, residual[:, :1])[0]))
