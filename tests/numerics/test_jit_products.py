"""Tiles of products by panels of our own and by BLAS, against NumPy."""

import numpy as np
import pytest
from numba import njit

from grayzone.numerics import jit_products
from grayzone.numerics.jit_products import PANEL, Others, as_they_are, in_panels

RNG = np.random.default_rng(0)


@njit
def by_panels(left, depth, a, b, right, c, d, tile):
    return jit_products.by_panels(left, depth, a, b, right, c, d, tile)


@njit
def by_blas(left, depth, a, b, right, c, d, tile):
    return jit_products.by_blas(left, depth, a, b, right, c, d, tile)


@pytest.mark.parametrize(
    ("multiply", "ready"),
    [(by_panels, in_panels), (by_blas, as_they_are)],
    ids=["panels", "BLAS"],
)
@pytest.mark.parametrize(
    ("a", "b", "c", "d"),
    [(0, 50, 0, 100), (3, 4, 0, 1), (7, 19, 31, 33), (0, 12, 32, 64), (20, 50, 99, 100)],
)
@pytest.mark.parametrize("depth", [1, 3, 24, 57])
def test_tiles_are_products_of_both_factors(multiply, ready, a, b, c, d, depth):
    left, right = (RNG.normal(size=(n, depth)).astype(np.float32) for n in (50, 100))
    size = (b - a) * (d - c + 2 * PANEL)
    tile = np.full(size + 8, np.nan, dtype=np.float32)
    apart, first = multiply(as_they_are(left), depth, a, b, ready(right), c, d, tile)
    assert first < PANEL
    assert (b - a) * apart <= size
    found = tile[: (b - a) * apart].reshape(b - a, apart)[:, first : first + d - c]
    exact = left[a:b].astype(np.float64) @ right[c:d].astype(np.float64).T
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    assert np.all(np.isnan(tile[size:]))


@pytest.mark.parametrize("n", [1, PANEL, PANEL + 1])
def test_panels_end_with_zeros(n):
    right = RNG.normal(size=(n, 3)).astype(np.float32)
    panels = in_panels(right).reshape(-1, 3, PANEL).transpose(0, 2, 1).reshape(-1, 3)
    np.testing.assert_array_equal(panels[:n], right)
    np.testing.assert_array_equal(panels[n:], 0.0)


def test_others_say_how_many_and_how_long_they_are():
    others = Others.of(RNG.normal(size=(5, 7)).astype(np.float32))
    assert others[:2] == (5, 7)
    assert others.numbers.ndim == 1
