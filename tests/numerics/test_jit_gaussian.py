"""Compiled values of the Gaussian kernel against those of NumPy in double precision."""

from dataclasses import replace

import numpy as np
import pytest
from numba import njit
from threadpoolctl import threadpool_limits

from grayzone.numerics import jit_gaussian, kernels
from grayzone.numerics.jit_products import Others
from grayzone.numerics.kernels import Kernel

RNG = np.random.default_rng(0)
KERNEL = Kernel("rbf", gamma=0.3)


@pytest.fixture
def factors():
    X, Z = RNG.normal(size=(2500, 4)), RNG.normal(size=(7, 4))
    left, right = (KERNEL.right(rows, np.float32) for rows in (X, Z))
    return KERNEL.flipped(left), right, KERNEL(X, Z)


@njit
def compiled_exponentials(x, bits, powers):
    jit_gaussian.exponentials(x, bits, powers)


@pytest.mark.parametrize(
    "run", [compiled_exponentials, jit_gaussian.exponentials], ids=["compiled", "Python"]
)
def test_exponentials_have_the_digits_of_single_precision(run):
    x = np.concatenate([np.linspace(-87.0, 0.0, 3001), -np.logspace(-10, 0, 50)])
    values, bits = x.astype(np.float32), np.empty(x.size, dtype=np.int32)
    exact = np.exp(values.astype(np.float64))
    run(values, bits, bits.view(np.float32))
    np.testing.assert_allclose(values, exact, rtol=2e-7)


def test_exponentials_beyond_the_range_are_its_ends():
    values, bits = np.array([3e38, 1e-3, -87.5, -3e38], dtype=np.float32), np.empty(4, np.int32)
    compiled_exponentials(values, bits, bits.view(np.float32))
    np.testing.assert_array_equal(values[:2], 1.0)
    assert np.all((values[2:] > 0.0) & (values[2:] < 2e-38))


@pytest.mark.parametrize("edges", [[0, 900, 2500], [1000, 2100], [17, 17]])
def test_columns_of_values(factors, edges):
    start, stop = edges[0], edges[-1]
    left, right, exact = factors
    wide = np.full((7, 2500), -1.0, dtype=np.float32)
    jit_gaussian.fill(KERNEL.flipped(right), Others.of(KERNEL.flipped(left)), wide, edges)
    np.testing.assert_allclose(wide[:, start:stop], exact.T[:, start:stop], rtol=1e-5)
    np.testing.assert_array_equal(np.delete(wide, np.s_[start:stop], axis=1), -1.0)


@pytest.mark.parametrize("edges", [[0, 900, 2500], [1000, 2100], [17, 17]])
@pytest.mark.parametrize("times", [1, 20_000])
def test_sums_of_values_are_subtracted(factors, edges, times):
    left, right, exact = factors
    coef = np.repeat(RNG.normal(size=7), times).astype(np.float32)  # up to a tile of few rows
    values = np.full(2500, 5.0)
    edges = [max(edge, edges[-1] - 3) for edge in edges] if times > 1 else edges
    start, stop = edges[0], edges[-1]
    others = Others.of(np.repeat(right, times, axis=0))
    jit_gaussian.subtract(values, left, others, coef, edges)
    sums = times * (exact @ coef[::times].astype(np.float64))
    np.testing.assert_allclose(
        values[start:stop], 5.0 - sums[start:stop], rtol=1e-3, atol=1e-4 * times
    )
    np.testing.assert_array_equal(np.delete(values, np.s_[start:stop]), 5.0)


@pytest.mark.parametrize("shape", [(700, 1500), (3, 2), (1, 600)])
@pytest.mark.parametrize(("order", "dtype"), [("C", np.float64), ("F", np.float64), ("C", "f")])
@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_many_values(monkeypatch, shape, order, dtype, threads):
    n, m = shape
    X, Z = np.array(RNG.normal(size=(n, 4)), dtype, order=order), RNG.normal(size=(m, 4))
    kernel, coef = replace(KERNEL, centre=np.array([0.1, 0.0, -2.0, 0.5])), RNG.normal(size=(m, 2))
    right = kernel.right(Z)
    expected = KERNEL(X, Z) @ coef
    monkeypatch.setattr(kernels, "_MANY_VALUES", 0)
    with threadpool_limits(threads, user_api="blas"):
        assert kernel._product_looped(X, right, coef) is not None
        found = kernel.product(X, right, coef)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(coef).sum())
    # what is out of range is no number, as it is without them
    X[0] = [1e38, -1e38, 0.0, 0.0] if dtype == "f" else [1e160, -1e160, 0.0, 0.0]
    X[-1] = 1e38 if dtype == "f" else 1e200
    found = kernel.product(X, right, coef)
    monkeypatch.setattr(kernels, "_MANY_VALUES", n * m + 1)
    np.testing.assert_array_equal(found, kernel.product(X, right, coef))
