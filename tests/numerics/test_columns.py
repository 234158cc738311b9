"""Whole columns of rows: compiled loops beside NumPy, and other libraries."""

import array_api_strict as strict
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from grayzone.numerics import columns, pieces

N = 1003
RNG = np.random.default_rng(0)
ONE, OTHER = RNG.normal(size=(2, N))


@pytest.fixture(params=["NumPy", "one thread", "two threads"])
def _how(request, monkeypatch):
    """With or without compiled loops; used for its effect only."""
    if request.param != "NumPy":
        monkeypatch.setattr(pieces, "MANY", 0)
        monkeypatch.setattr(columns, "_READ", 16)
    with threadpool_limits(2 if request.param == "two threads" else 1, user_api="blas"):
        yield


@pytest.mark.parametrize("t", [1.0, 0.25])
@pytest.mark.parametrize("shape", [(N,), (N, 1), (N // 17, 17)])
@pytest.mark.usefixtures("_how")
def test_values_along_a_change(t, shape):
    values, change = ONE.reshape(shape), OTHER.reshape(shape)
    found = columns.along(values, change, t)
    np.testing.assert_allclose(found, values + t * change, rtol=1e-15, atol=1e-16)
    assert found.shape == shape
    assert not np.shares_memory(found, values)
    turned = np.asfortranarray(values), np.asfortranarray(change)
    np.testing.assert_allclose(columns.along(*turned, t), found, rtol=1e-15, atol=1e-16)


@pytest.mark.parametrize("factor", [1.0, -1.0, 0.3])
@pytest.mark.usefixtures("_how")
def test_products(factor):
    found = columns.product(ONE, OTHER, factor)
    np.testing.assert_allclose(found, factor * ONE * OTHER, rtol=1e-15)
    rows = RNG.permutation(N)[: N // 2]
    found = columns.products_at(rows, ONE, OTHER, factor)
    np.testing.assert_allclose(found, factor * (ONE * OTHER)[rows], rtol=1e-15)
    assert columns.products_at(rows[:0], ONE, OTHER, factor).shape == (0,)


@pytest.mark.usefixtures("_how")
def test_values_of_codes():
    of_codes, codes = np.array([-1.0, np.inf, 5.0]), RNG.integers(3, size=N)
    np.testing.assert_array_equal(columns.by_code(of_codes, codes), of_codes[codes])
    narrow = codes.astype(np.int8)  # which loops are not compiled for
    np.testing.assert_array_equal(columns.by_code(of_codes, narrow), of_codes[codes])


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
@pytest.mark.usefixtures("_how")
def test_places_of_marked_rows(share):
    marks = RNG.uniform(size=N) < share
    found = columns.places(marks)
    np.testing.assert_array_equal(found, np.flatnonzero(marks))
    assert found.dtype == np.intp


@pytest.mark.usefixtures("_how")
def test_the_least_and_the_greatest():
    values = ONE.copy()
    assert columns.ends(values) == (values.min(), values.max())
    values[3], values[-1] = -np.inf, 1e300
    assert columns.ends(values[:, None]) == (-np.inf, 1e300)
    for place in (0, 500, N - 1):
        odd = ONE.copy()
        odd[place] = np.nan
        assert np.all(np.isnan(columns.ends(odd)))


@pytest.mark.parametrize("share", [0.0, 0.002, 0.5, 1.0])
@pytest.mark.parametrize("steps", [(1, 1), (7, 3), (400, 1), (2000, 2000)])
@pytest.mark.usefixtures("_how")
def test_every_so_many_rows_of_each_sign(share, steps):
    signs = np.where(RNG.uniform(size=N) < share, 1.0, -1.0)
    for first in (0, 5, 1999):
        expected = np.concatenate(
            [
                np.flatnonzero(own)[first % step :: step]
                for own, step in zip((signs < 0, signs > 0), steps, strict=True)
            ]
        )
        found = columns.picked(signs, np.array(steps), first)
        np.testing.assert_array_equal(found, np.sort(expected))
    assert columns.rises(signs) == np.count_nonzero(signs > 0)


def test_other_libraries_keep_their_own():
    one, codes = strict.asarray(ONE), strict.asarray(np.arange(N) % 2)
    assert isinstance(columns.along(one, one, 0.5), type(one))
    assert isinstance(columns.product(one, one, -1.0), type(one))
    assert isinstance(columns.by_code(one[:2], codes), type(one))
    assert columns.ends(one) == (float(ONE.min()), float(ONE.max()))
    np.testing.assert_array_equal(np.asarray(columns.places(codes == 1)), np.arange(1, N, 2))


@pytest.mark.parametrize("shape", [(1, 7), (5, 0), (16, 3, 11), (3, 2000)])
@pytest.mark.usefixtures("_how")
def test_sums_of_parts(shape):
    of_parts = RNG.normal(size=shape)
    found = columns.sum_of_parts(of_parts)
    np.testing.assert_allclose(found, of_parts.sum(axis=0), rtol=1e-13, atol=1e-15)
    assert found.shape == shape[1:]
