"""Few positives among very many rows: finite, certified, and without a warning."""

import numpy as np
import pytest

from grayzone import TruncatedLogisticRegression


def rare(n, d, positives, shift, seed=0):
    """Gaussian rows, the positives moved; the last column is heavy-tailed as amounts are."""
    rng = np.random.default_rng(seed)
    y = np.zeros(n, dtype=int)
    y[rng.choice(n, size=positives, replace=False)] = 1
    X = rng.normal(size=(n, d))
    X[y == 1] += shift * rng.normal(size=d)
    X[:, -1] = np.exp(2.0 * rng.normal(size=n))
    return X, y


@pytest.fixture(scope="module")
def fraud():
    """.2 % positives."""
    return rare(20_000, 10, 40, 1.5)


@pytest.fixture(scope="module")
def needle():
    """One positive among 2,000."""
    return rare(2_000, 10, 1, 1.0, seed=1)


ZONES = [None, 1.0, 0.25]


def check(estimator, tol):
    assert np.isfinite(estimator.coef_).all()
    assert np.isfinite(estimator.intercept_).all()
    assert 0.0 <= estimator.dual_gap_ <= tol
    assert 0.0 < estimator.objective_ < np.inf


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("C", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("costs", [None, "balanced"])
def test_two_in_a_thousand(fraud, zone, C, costs):
    X, y = fraud
    estimator = TruncatedLogisticRegression(C=C, zone=zone, costs=costs).fit(X, y)
    check(estimator, 1e-6)
    # without costs nobody may be worth an alarm; at the prior many are, and more of the positives
    if costs == "balanced":
        alarm = estimator.predict(X) == 1
        assert alarm[y == 1].mean() > alarm[y == 0].mean()


@pytest.mark.parametrize("zone", ZONES)
def test_weights_make_up_for_it(fraud, zone):
    X, y = fraud
    estimator = TruncatedLogisticRegression(C=0.1, zone=zone, class_weight="balanced").fit(X, y)
    check(estimator, 1e-6)
    assert estimator.predict(X)[y == 1].mean() > 0.5


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("solver", ["auto", "primal"])
def test_one_in_two_thousand(needle, zone, C, solver):
    X, y = needle
    check(TruncatedLogisticRegression(C=C, zone=zone, solver=solver).fit(X, y), 1e-6)


@pytest.mark.parametrize("loss", ["truncated", "ramp"])
def test_a_rare_third_class(needle, loss):
    X, y = needle
    three = np.where(y == 1, 2, (X[:, 0] > 0.0).astype(int))
    check(TruncatedLogisticRegression(loss=loss, tol=1e-5).fit(X, three), 1e-5)


def test_margins_beyond_the_exponent(fraud):
    # features in large units: margins of thousands on the way, where exp overflows
    X, y = fraud
    check(TruncatedLogisticRegression(C=1.0).fit(1e3 * X[:4000], y[:4000]), 1e-6)
