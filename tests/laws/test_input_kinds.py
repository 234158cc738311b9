"""One model, whatever the data come in; and what weights, labels and zones mean."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from grayzone import TruncatedLogisticRegression

N, D = 90, 4


def data(n_classes=2, seed=0):
    """Rows of small whole numbers: exact in single precision and as integers."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-4, 5, size=(N, D)).astype(float)
    score = X[:, 0] - 0.5 * X[:, 1] + 2.0 * rng.normal(size=N)
    return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


@pytest.fixture(params=[2, 3], ids=["two classes", "three classes"])
def problem(request):
    return data(request.param)


def fit(X, y, sample_weight=None, **parameters):
    parameters = {"C": 0.5, "tol": 1e-10} | parameters
    return TruncatedLogisticRegression(**parameters).fit(X, y, sample_weight=sample_weight)


def assert_same(one, other, rtol=1e-9):
    """The same model, as far as the tolerance of the fits lets it be told."""
    assert other.objective_ == pytest.approx(one.objective_, rel=rtol)
    scale = np.abs(one.coef_).max() + np.abs(one.intercept_).max()
    # the objective is flat at the optimum: its digits are twice those of the coefficients
    np.testing.assert_allclose(other.coef_, one.coef_, atol=np.sqrt(rtol) * scale)
    np.testing.assert_allclose(other.intercept_, one.intercept_, atol=np.sqrt(rtol) * scale)


# ------------------------------------------------------------------------------------ containers


# ---------------------------------------------------------------------------------------- labels


def test_exchanged_labels_exchange_the_signs():
    X, y = data()
    plain, exchanged = fit(X, y, zone=(0.2, 0.6)), fit(X, 1 - y, zone=(0.4, 0.8))
    np.testing.assert_allclose(exchanged.coef_, -plain.coef_, atol=1e-5)
    np.testing.assert_allclose(exchanged.intercept_, -plain.intercept_, atol=1e-5)


# --------------------------------------------------------------------------------------- weights


def test_order_of_the_columns(problem):
    X, y = problem
    plain, turned = fit(X, y), fit(X[:, ::-1], y)
    np.testing.assert_allclose(turned.coef_[:, ::-1], plain.coef_, atol=1e-5)


@pytest.mark.parametrize("factor", [1e-3, 10.0])
def test_scaled_features_with_a_scaled_penalty(factor, problem):
    X, y = problem
    plain, scaled = fit(X, y), fit(factor * X, y, C=0.5 / factor**2)
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    np.testing.assert_allclose(factor * scaled.coef_, plain.coef_, atol=1e-5)


def test_class_weights_are_sample_weights(problem):
    X, y = problem
    per_class = np.array([0.5, 3.0, 1.5])[: y.max() + 1]
    by_class = fit(X, y, class_weight=dict(enumerate(per_class)))
    np.testing.assert_array_equal(by_class.coef_, fit(X, y, per_class[y]).coef_)


def test_balanced_class_weights(problem):
    X, y = problem
    weight = np.random.default_rng(10).uniform(size=N)
    mass = np.bincount(y, weight)
    expected = fit(X, y, weight * (weight.sum() / (len(mass) * mass))[y])
    assert_same(expected, fit(X, y, weight, class_weight="balanced"))


# ----------------------------------------------------------------------------------------- zones


@pytest.mark.parametrize("h", [0.05, 1.0, 3.0])
def test_a_width_is_a_pair_around_one_half(h):
    X, y = data()
    assert_same(fit(X, y, zone=(expit(-h), expit(h))), fit(X, y, zone=h))
    assert fit(X, y, zone=h).zone_ == pytest.approx((expit(-h), expit(h)))


@pytest.mark.parametrize("h", [0.5, 1])
def test_a_width_goes_around_the_threshold_of_the_costs(h):
    X, y = data()
    costs = {0: 1.0, 1: 4.0}
    pair = tuple(expit(logit(0.2) + np.array([-h, h])))
    wide = fit(X, y, zone=h, costs=costs)
    assert wide.threshold_ == pytest.approx(0.2)
    assert wide.zone_ == pytest.approx(pair)
    assert_same(fit(X, y, zone=pair, costs=costs), wide)
    # costs move the decision and the zone, never the likelihood inside it
    assert_same(fit(X, y, zone=pair), wide)


def test_balanced_costs_put_the_threshold_at_the_prior():
    X, y = data()
    weight = np.random.default_rng(11).uniform(size=N)
    fitted = fit(X, y, weight, costs="balanced")
    assert fitted.threshold_ == pytest.approx(weight[y == 1].sum() / weight.sum())
    # class weights are of the loss: they do not move what is decided
    assert fit(X, y, weight, costs="balanced", class_weight="balanced").threshold_ == (
        fitted.threshold_
    )


def test_the_threshold_decides():
    X, y = data()
    fitted = fit(X, y, costs={0: 1.0, 1: 4.0})
    positive = fitted.predict_proba(X)[:, 1] >= fitted.threshold_
    np.testing.assert_array_equal(fitted.predict(X), positive.astype(int))


def test_no_zone_is_the_whole_interval():
    X, y = data()
    whole = fit(X, y, zone=None)
    assert whole.zone_ == (0.0, 1.0)
    assert_same(whole, fit(X, y, zone=(0.0, 1.0)))
    assert_same(whole, fit(X, y, zone=40.0))


@pytest.mark.parametrize("zone", [[0.2, 0.9], np.array([0.2, 0.9]), pd.Series([0.2, 0.9])])
def test_forms_of_a_pair(zone):
    X, y = data()
    np.testing.assert_array_equal(fit(X, y, zone=zone).coef_, fit(X, y, zone=(0.2, 0.9)).coef_)


def test_forms_of_caps():
    X, y = data(3)
    h = 0.8
    wide = fit(X, y, zone=h)
    np.testing.assert_allclose(wide.zone_, expit(h))
    cap = float(expit(h))
    assert_same(wide, fit(X, y, zone=[cap] * 3))
    caps = [0.5, 0.7, 0.95]
    named = {"top": 0.95, "low": 0.5, "mid": 0.7}
    by_name = fit(X, np.array(["low", "mid", "top"])[y], zone=named)
    np.testing.assert_array_equal(by_name.zone_, caps)
    np.testing.assert_array_equal(by_name.coef_, fit(X, y, zone=np.array(caps)).coef_)
    assert_same(fit(X, y, zone=None), fit(X, y, zone=np.ones(3)))
