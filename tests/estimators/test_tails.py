"""Probabilities beyond the zone: slopes of their own that change no decision."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, logit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import log_loss
from sklearn.preprocessing import scale

from grayzone import TruncatedLogisticRegression, TruncatedLogisticRegressionCV
from grayzone.numerics.spread import _spread_sorted, spread
from grayzone.numerics.tails import stretched
from grayzone.sources import from_batches

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
KINDS = {
    "linear": {},
    "costs": {"costs": {0: 20, 1: 1}},
    "rbf": {"kernel": "rbf"},
    "ramp": {"loss": "ramp"},
    "undecided": {"reject_cost": 0.2},
    "weak penalty": {"C": 100.0},
}


def pair(X, y, **parameters):
    """Return the same fit with both kinds of tails."""
    model = TruncatedLogisticRegression(**parameters).fit(X, y)
    return model, clone(model).set_params(tails="as-fitted").fit(X, y)


@pytest.mark.parametrize("kind", KINDS)
def test_decisions_and_the_inside_of_the_zone_stay_as_they_are(kind):
    model, plain = pair(X, y, **KINDS[kind])
    f, raw = model.decision_function(X), plain.decision_function(X)
    inside = (raw >= logit(model.zone_[0])) & (raw <= logit(model.zone_[1]))
    np.testing.assert_array_equal(f[inside], raw[inside])
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    np.testing.assert_array_equal(np.argsort(f), np.argsort(raw))
    np.testing.assert_array_equal(model.intercept_, plain.intercept_)
    np.testing.assert_allclose(expit(f), model.predict_proba(X)[:, 1], rtol=1e-13)
    np.testing.assert_allclose(log_expit(f), model.predict_log_proba(X)[:, 1], atol=1e-14)
    assert np.any(model.tail_slopes_ != 1.0) or kind == "undecided"  # few rows are beyond
    np.testing.assert_array_equal(plain.tail_slopes_, [1.0, 1.0])


@pytest.mark.parametrize("kind", ["linear", "costs", "rbf", "undecided"])
def test_slopes_maximise_the_penalised_likelihood_of_the_rows_beyond(kind):
    model, plain = pair(X, y, **KINDS[kind])
    f = plain.decision_function(X)
    loss = np.sum(np.logaddexp(0, np.maximum(-(2 * y - 1) * f, floors(model)[y])))
    doubt = 0.2 * (model.objective_ - loss)  # a fifth of the penalty
    for k, (sign, end) in enumerate(zip((-1, 1), logit(model.zone_), strict=True)):
        d, end = sign * (f - end), sign * end
        right = np.where(y == k, 1, -1)[d > 0]
        d = d[d > 0]

        def minus_log_likelihood(s, doubt, d=d, right=right, end=end):
            wrong = -log_expit(-(end + s * (d @ d) / d.sum()))
            return -np.sum(log_expit(right * (end + s * d))) + doubt * wrong

        most = max(1.0, min(100.0, 20.0 * d.sum() / (d @ d)))
        bounds = [(0.02, 1.0, 0.0), (1.0, most, doubt)]
        less, more = (
            minimize_scalar(minus_log_likelihood, bounds=(low, high), args=(doubt,)).x
            for low, high, doubt in bounds
        )
        assert model.tail_slopes_[k] == pytest.approx(less if less < 0.99 else more, rel=5e-3)


def floors(model):
    return np.array([logit(model.zone_[0]), -logit(model.zone_[1])])


@pytest.mark.parametrize("zone", [0.5, 1.0, 2.0])
def test_tails_come_closer_to_the_truth_where_the_model_is_true(zone):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 2))
    p = expit(2.0 * x[:, 0] - x[:, 1])
    labels = (rng.uniform(size=len(x)) < p).astype(int)
    model, plain = pair(x, labels, zone=zone)
    best = log_loss(labels, TruncatedLogisticRegression(zone=None).fit(x, labels).predict_proba(x))
    lost, raw = (log_loss(labels, m.predict_proba(x)) - best for m in (model, plain))
    assert 0 <= lost < 0.75 * raw
    assert np.all(model.tail_slopes_ > 1.0)


def test_a_side_without_rows_of_another_class_has_a_finite_slope():
    x = np.linspace(-3, 3, 40)[:, None]
    model = TruncatedLogisticRegression(C=1e6).fit(x, (x[:, 0] > 0).astype(int))
    assert np.all((model.tail_slopes_ >= 0.02) & (model.tail_slopes_ <= 100.0))
    assert np.all(np.diff(model.predict_proba(x)[:, 1]) >= 0)


def test_no_zone_has_no_tails():
    model = TruncatedLogisticRegression(zone=None).fit(X, y)
    np.testing.assert_array_equal(model.tail_slopes_, [1.0, 1.0])


def test_a_side_where_decisions_are_made_outside_the_zone_stays_as_fitted():
    model, plain = pair(X, y, zone=(0.6, 0.9))  # decides at one half
    assert model.tail_slopes_[0] == 1.0
    assert model.tail_slopes_[1] != 1.0
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    model, plain = pair(X, y, zone=(0.3, 0.7), reject_cost=0.2)  # cuts at .2 and .8
    np.testing.assert_array_equal(model.tail_slopes_, [1.0, 1.0])


def test_more_classes_have_a_slope_each_and_decide_as_before():
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    for parameters in ({}, {"kernel": "rbf"}, {"zone": 0.5}):
        model, plain = pair(X, y, **parameters)
        assert np.all(model.tail_slopes_ > 1.0)
        np.testing.assert_array_equal(model.predict(X), plain.predict(X))
        p, raw = model.predict_proba(X), plain.predict_proba(X)
        beyond = np.any(raw > model.zone_, axis=1)
        np.testing.assert_array_equal(p[~beyond], raw[~beyond])
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert log_loss(y, p) < log_loss(y, raw)
    # costs for which even the cap does not settle the decision
    model, plain = pair(X, y, costs={0: 1, 1: 20, 2: 1})
    assert model.tail_slopes_[1] != 1.0
    np.testing.assert_array_equal(model.tail_slopes_[[0, 2]], 1.0)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    low = TruncatedLogisticRegression(zone=[0.4, 0.4, 0.9]).fit(X, y)
    np.testing.assert_array_equal(low.tail_slopes_[:2], 1.0)


def test_stretched_log_odds_of_the_leading_class():
    scores = np.array([[3.0, 0.0, 1.0], [0.1, 0.2, 0.3]])
    new = stretched(scores, np.ones(3), np.array([2.0, 1.0, 1.0]))
    odds = scores[0, 0] - np.logaddexp(0.0, 1.0)
    assert new[0, 0] - np.logaddexp(0.0, 1.0) == pytest.approx(1 + 2 * (odds - 1))
    np.testing.assert_array_equal(new[0, 1:], scores[0, 1:])
    np.testing.assert_array_equal(new[1], scores[1])


def test_blocks_give_the_same_slopes():
    here = TruncatedLogisticRegression(tol=1e-10).fit(X, y)
    blocks = from_batches(lambda: [(X[:200], y[:200]), (X[200:], y[200:])])
    there = TruncatedLogisticRegression(tol=1e-10).fit(blocks)
    np.testing.assert_allclose(there.tail_slopes_, here.tail_slopes_, rtol=1e-6)


def test_the_unit_of_weights_does_not_matter_nor_do_repetitions():
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    fits = [
        TruncatedLogisticRegression(tol=1e-10).fit(X, y, sample_weight=weight),
        TruncatedLogisticRegression(tol=1e-10).fit(np.repeat(X, weight, 0), np.repeat(y, weight)),
        TruncatedLogisticRegression(C=0.1, tol=1e-10).fit(X, y, sample_weight=10 * weight),
    ]
    for model in fits[1:]:
        np.testing.assert_allclose(model.tail_slopes_, fits[0].tail_slopes_, rtol=1e-6)


def test_a_search_has_the_tails_of_its_model():
    # with a scoring there is no gate that could keep plain logistic regression
    grid = {"Cs": [1.0], "zones": (1.0,), "scoring": "accuracy"}
    search = TruncatedLogisticRegressionCV(cv=3, **grid).fit(X, y)
    model = TruncatedLogisticRegression().fit(X, y)
    np.testing.assert_array_equal(search.tail_slopes_, model.tail_slopes_)
    np.testing.assert_array_equal(search.predict_proba(X), model.predict_proba(X))


def test_what_is_no_kind_of_tails_is_an_error():
    with pytest.raises(ValueError, match="tails must be one of 'calibrated', 'as-fitted'"):
        TruncatedLogisticRegression(tails="linear").fit(X, y)


def test_weights_of_values_spread_over_nodes_keep_linear_sums():
    rng = np.random.default_rng(0)
    nodes = np.array([0.0, 0.5, 2.0, 7.0])
    values, weight = rng.uniform(0, 7, 100), rng.uniform(size=100)
    values[:2] = 0.0, 7.0
    mass = spread(values, weight, nodes)
    np.testing.assert_allclose(_spread_sorted(values, weight, nodes), mass)
    assert mass.sum() == pytest.approx(weight.sum())
    assert mass @ nodes == pytest.approx(weight @ values)
    kinked = np.array([1.0, -2.0, 5.0, 0.0])
    assert mass @ kinked == pytest.approx(weight @ np.interp(values, nodes, kinked))
