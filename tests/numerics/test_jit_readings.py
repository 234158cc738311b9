"""Compiled readings of logistic losses against NumPy."""

import numpy as np
import pytest

from grayzone.numerics.jit_readings import losses_of_trials, second_order
from grayzone.numerics.losses import sigmoid, softplus

N = 2500


def rows_of(q, scale=3.0):
    rng = np.random.default_rng(0)
    columns, y = rng.normal(size=(q, N)), np.where(rng.uniform(size=N) < 0.3, -1.0, 1.0)
    weight = rng.uniform(size=N)
    weight[::7] = 0.0
    return columns, y, weight, scale * rng.normal(size=q + 1)


@pytest.mark.parametrize("scale", [3.0, 1e3])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("q", [1, 6, 70])
def test_losses_and_derivatives_are_those_of_numpy(q, intercept, scale):
    columns, y, weight, coef = rows_of(q, scale)
    coef = coef if intercept else coef[:q]
    omega, residual = np.empty(N), np.empty(N)
    given = columns, coef, y, weight, omega, residual
    loss, hessian, gradient = second_order(*given, [0, 1300, N])
    own = np.vstack([columns, np.ones(N)]) if intercept else columns
    u = -y * (coef @ own)
    first, second = weight * sigmoid(u), weight * sigmoid(u) * sigmoid(-u)
    np.testing.assert_allclose(loss, weight @ softplus(u), rtol=1e-14)
    np.testing.assert_allclose(omega, second, rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(residual, -y * first, rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(gradient, own @ (-y * first), rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(hessian, (own * second) @ own.T, rtol=0.0, atol=1e-10)
    np.testing.assert_array_equal(hessian, hessian.T)


def test_an_intercept_alone():
    _, y, weight, _ = rows_of(0)
    omega, residual = np.empty(N), np.empty(N)
    given = np.empty((0, N)), np.array([0.4]), y, weight, omega, residual
    loss, hessian, gradient = second_order(*given, [0, N])
    np.testing.assert_allclose(loss, weight @ softplus(-0.4 * y), rtol=1e-14)
    np.testing.assert_allclose(hessian, [[np.sum(omega)]], rtol=1e-13)
    np.testing.assert_allclose(gradient, [np.sum(residual)], rtol=1e-13)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("q", [0, 6])
def test_losses_of_trials_are_those_of_numpy(q, intercept):
    columns, y, weight, coef = rows_of(q)
    coefs = np.array([coef, -coef, 0.1 * coef])[:, : q + intercept].copy()
    own, steps = np.random.default_rng(1).normal(size=(3, N)), np.array([1.0, -3.0, 0.0])
    given = columns, coefs, own, steps, y, weight
    losses = losses_of_trials(*given, [0, 1300, N])
    all_columns = np.vstack([columns, np.ones(N)]) if intercept else columns
    scores = coefs @ all_columns + steps[:, None] * own
    np.testing.assert_allclose(losses, softplus(-y * scores) @ weight, rtol=1e-13)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_losses_beyond_all_numbers_are_told(bad):
    columns, y, weight, coef = rows_of(2)
    columns[1, 9] = bad
    given = columns, coef, y, weight + 1.0, np.empty(N), np.empty(N)
    loss, _, _ = second_order(*given, [0, N])
    trials = columns, np.array([coef]), np.zeros((1, N)), np.zeros(1), -y, weight + 1.0
    there = losses_of_trials(*trials, [0, N])[0]
    assert not (np.isfinite(loss) and np.isfinite(there))
    assert not np.isnan(bad) or (np.isnan(loss) and np.isnan(there))
