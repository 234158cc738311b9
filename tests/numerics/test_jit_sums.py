"""Compiled sums over the values of the Gaussian kernel against NumPy in double precision."""

import numpy as np
import pytest

from grayzone.numerics.jit_gaussian import put_columns
from grayzone.numerics.jit_sums import kernel_sums
from grayzone.numerics.kernels import Kernel

KERNEL = Kernel("rbf", gamma=0.3)


def rows_of(n, n_columns, n_weights, n_others):
    rng = np.random.default_rng(0)
    columns, others = rng.normal(size=(n_columns, n)), rng.normal(size=(n, n_others))
    weights = rng.uniform(size=(n, n_weights))
    weights[: n // 3] = 0.0
    return rng.normal(size=(n, 4)), columns, weights, others


@pytest.mark.parametrize("m", [1, 7, 1100])  # the last are more than two tiles wide
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    ("n_columns", "n_weights", "n_others"), [(3, 1, 1), (0, 1, 1), (2, 3, 2), (0, 0, 1), (1, 1, 0)]
)
def test_sums_are_those_of_numpy(m, intercept, n_columns, n_weights, n_others):
    X, columns, weights, others = rows_of(1700, n_columns, n_weights, n_others)
    left, right = KERNEL.left(X, np.float32), KERNEL.right(X[:m], np.float32)
    given = left, right, columns, weights, others, weights
    sums, squares = kernel_sums(*given, [0, 900, 1700], intercept=intercept)
    K, own = KERNEL(X, X[:m]), columns.T
    own = np.hstack([own, np.ones((1700, 1))]) if intercept else own
    factors = np.hstack([*(w[:, None] * own for w in weights.T), others])
    size = np.abs(factors).T @ K
    assert np.all(np.abs(sums - factors.T @ K) <= 2e-6 * size)
    np.testing.assert_allclose(squares, weights.T @ K**2, rtol=2e-6)


def test_what_is_not_a_number_stays_so():
    X, columns, weights, others = rows_of(50, 2, 1, 1)
    weights[40] = np.nan
    left, right = KERNEL.left(X, np.float32), KERNEL.right(X[:5], np.float32)
    given = left, right, columns, weights, others, weights
    sums, squares = kernel_sums(*given, [0, 50], intercept=False)
    assert np.all(np.isnan(sums[:2]))
    assert np.all(np.isnan(squares))
    assert np.all(np.isfinite(sums[2:]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_by_differences(dtype):
    X = np.random.default_rng(0).normal(size=(2500, 5)).astype(dtype)
    points, out = X[[4, 2000]].astype(np.float64), np.full((2, 2500), -1.0)
    put_columns(X, points, 0.3, out, [100, 1200, 2300])
    apart = np.sum((X[:, None, :].astype(np.float64) - points) ** 2, axis=2)
    expected = np.exp(-0.3 * apart.T)
    np.testing.assert_allclose(out[:, 100:2300], expected[:, 100:2300], rtol=1e-14)
    np.testing.assert_array_equal(np.delete(out, np.s_[100:2300], axis=1), -1.0)


def test_values_of_rows_far_away_are_nothing():
    out = np.empty((1, 2))
    put_columns(np.array([[0.0], [1e70]]), np.zeros((1, 1)), 1.0, out, [0, 2])
    np.testing.assert_array_equal(out, [[1.0, 0.0]])
