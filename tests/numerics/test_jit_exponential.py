"""Compiled powers of e and logarithms against those of NumPy."""

import numpy as np
import pytest
from numba import njit

from grayzone.numerics import jit_exponential


@njit
def compiled_exponential(x):
    return jit_exponential.exponential(x)


@njit
def compiled_logarithm(e):
    return jit_exponential.log_of_one_and(e)


@njit
def exponentials(x, out):
    for k in range(x.size):
        out[k] = jit_exponential.exponential(x[k])


EXPONENTIAL = pytest.mark.parametrize(
    "run", [compiled_exponential, jit_exponential.exponential], ids=["compiled", "Python"]
)
LOGARITHM = pytest.mark.parametrize(
    "run", [compiled_logarithm, jit_exponential.log_of_one_and], ids=["compiled", "Python"]
)


@EXPONENTIAL
def test_powers_of_e_have_the_digits_of_double_precision(run):
    x = np.concatenate([np.linspace(-708.0, 700.0, 5003), -np.logspace(-18, 0, 50), [0.0, 1e-9]])
    found = np.array([run(value) for value in x])
    np.testing.assert_allclose(found, np.exp(x), rtol=5e-16)


@EXPONENTIAL
def test_powers_of_e_below_the_range_are_nothing(run):
    x = np.array([-np.inf, -1e300, -745.0, -708.1])
    assert [run(value) for value in x] == [0.0] * 4
    assert np.isnan(run(np.nan))
    assert [run(0.0), run(-0.0), run(-1e-300)] == [1.0] * 3


def test_several_at_a_time_are_those_of_one():
    x = np.random.default_rng(0).normal(scale=100.0, size=1003)
    out = np.empty(x.size)
    exponentials(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=5e-16)


@LOGARITHM
def test_logarithms_keep_their_digits_beside_zero(run):
    e = np.concatenate([np.linspace(0.0, 1.0, 1003), np.logspace(-320, 0, 500), [5e-324]])
    found = np.array([run(value) for value in e])
    np.testing.assert_allclose(found, np.log1p(e), rtol=5e-16, atol=5e-324)
    assert np.isnan(run(np.nan))
