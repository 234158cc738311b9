"""Probabilities beyond the zone: slopes and bends of their own that change no decision."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, logit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import log_loss
from sklearn.preprocessing import scale

from grayzone import TruncatedLogisticRegression, TruncatedLogisticRegressionCV
from grayzone.decision.zones import floor_of
from grayzone.numerics.spread import _spread_sorted, spread
from grayzone.numerics.tails import stretched, unstretched
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
    low, high = -floor_of(model.zone_)
    inside = (raw >= low) & (raw <= high)
    np.testing.assert_array_equal(f[inside], raw[inside])
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    np.testing.assert_array_equal(np.argsort(f), np.argsort(raw))
    np.testing.assert_array_equal(model.intercept_, plain.intercept_)
    np.testing.assert_allclose(expit(f), model.predict_proba(X)[:, 1], rtol=1e-13)
    np.testing.assert_allclose(log_expit(f), model.predict_log_proba(X)[:, 1], atol=1e-14)
    assert np.any(model.tail_slopes_ != 1.0) or kind == "undecided"  # few rows are beyond
    np.testing.assert_array_equal(plain.tail_slopes_, [1.0, 1.0])
    np.testing.assert_array_equal(plain.tail_bends_, [0.0, 0.0])


@pytest.mark.parametrize("kind", ["linear", "costs", "rbf", "undecided"])
def test_powers_maximise_the_penalised_likelihood_of_the_rows_beyond(kind):
    model, plain = pair(X, y, **KINDS[kind])
    f = plain.decision_function(X)
    loss = np.sum(np.logaddexp(0, np.maximum(-(2 * y - 1) * f, floors(model)[y])))
    doubt = 0.1 * (model.objective_ - loss)  # a tenth of the penalty
    for k in (0, 1):
        assert model.tail_bends_[k] == 100.0
        expected = 100.0 * best_power(f, y, model.zone_, k, doubt)
        assert model.tail_slopes_[k] == pytest.approx(expected, rel=2e-3)


def best_power(f, y, zone, k, doubt):
    """Power of one class, by a search of its own."""
    sign, end = (-1, 1)[k], logit(zone)[k]
    d, end = sign * (f - end), sign * end
    right, x = np.where(y == k, 1, -1)[d > 0], np.log1p(100.0 * d[d > 0])

    def minus_log_likelihood(a):
        wrong = -log_expit(-(end + a * (x @ x) / x.sum()))
        return -np.sum(log_expit(right * (end + a * x))) + doubt * wrong

    most = min(20.0, 20.0 * x.sum() / (x @ x))
    return minimize_scalar(minus_log_likelihood, bounds=(0.01, most)).x


def floors(model):
    return np.array([logit(model.zone_[0]), -logit(model.zone_[1])])


@pytest.mark.parametrize(("zone", "left"), [(0.5, 0.4), (1.0, 0.6), (2.0, 0.8)])
def test_tails_come_closer_to_the_truth_where_the_model_is_true(zone, left):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 2))
    p = expit(2.0 * x[:, 0] - x[:, 1])
    labels = (rng.uniform(size=len(x)) < p).astype(int)
    model, plain = pair(x, labels, zone=zone)
    best = log_loss(labels, TruncatedLogisticRegression(zone=None).fit(x, labels).predict_proba(x))
    lost, raw = (log_loss(labels, m.predict_proba(x)) - best for m in (model, plain))
    assert 0 <= lost < left * raw
    assert np.all(model.tail_slopes_ > 1.0)


def test_a_side_without_rows_of_another_class_has_a_finite_slope():
    x = np.linspace(-3, 3, 40)[:, None]
    model = TruncatedLogisticRegression(C=1e6).fit(x, (x[:, 0] > 0).astype(int))
    assert np.all((model.tail_slopes_ > 1.0) & (model.tail_slopes_ <= 2000.0))
    assert np.all(np.diff(model.predict_proba(x)[:, 1]) >= 0)


def test_the_least_power_has_a_slope_of_one_and_is_not_as_fitted():
    # the one row beyond is of another class
    X = np.array([[1.0, 0.0], [-1, -1], [-1, -1], [3, -1], [2, 0], [2, 1]])
    given = {"C": 1e6, "class_weight": {0: 3, 1: 1}}
    model, plain = pair(X, np.array([0, 1, 0, 1, 0, 1]), **given)
    np.testing.assert_array_equal(model.tail_slopes_, [1.0, 1.0])
    np.testing.assert_array_equal(model.tail_bends_, [100.0, 0.0])
    raw = plain.decision_function(X)[-1]
    assert raw < -1.2
    beyond = -1.0 - 0.01 * np.log1p(100.0 * (-1.0 - raw))
    np.testing.assert_allclose(model.decision_function(X)[-1], beyond, rtol=1e-12)


def test_no_zone_has_no_tails():
    model = TruncatedLogisticRegression(zone=None).fit(X, y)
    np.testing.assert_array_equal(model.tail_slopes_, [1.0, 1.0])
    np.testing.assert_array_equal(model.tail_bends_, [0.0, 0.0])


def test_a_side_where_decisions_are_made_outside_the_zone_stays_as_fitted():
    model, plain = pair(X, y, zone=(0.6, 0.9))  # decides at one half
    assert (model.tail_slopes_[0], model.tail_bends_[0]) == (1.0, 0.0)
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
    ends, bends = np.ones(3), np.array([5.0, 0.0, 0.0])
    new = stretched(scores, ends, np.array([2.0, 1.0, 1.0]), bends)
    odds = scores[0, 0] - np.logaddexp(0.0, 1.0)
    expected = 1 + 2 * np.log1p(5.0 * (odds - 1)) / 5.0
    assert new[0, 0] - np.logaddexp(0.0, 1.0) == pytest.approx(expected)
    np.testing.assert_array_equal(new[0, 1:], scores[0, 1:])
    np.testing.assert_array_equal(new[1], scores[1])


@pytest.mark.parametrize("n_columns", [1, 3])
@pytest.mark.parametrize("bends", [0.0, 0.5, 100.0])
def test_what_is_stretched_can_be_undone(n_columns, bends):
    scores = np.random.default_rng(0).normal(scale=3.0, size=(200, n_columns))
    count = max(2, n_columns)
    given = np.full(count, 0.7), np.linspace(2.0, 90.0, count), np.full(count, bends)
    new = stretched(scores, *given)
    assert np.any(new != scores)
    np.testing.assert_allclose(unstretched(new, *given), scores, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_scores_stay_finite_and_in_order(dtype):
    most = float(np.finfo(dtype).max)
    values = [-most, -1e17, -1.0, 0.0, 1.0, 2.0, 1e17, 1e30, most]
    scores = np.array(values, dtype)[:, None]
    new = stretched(scores, np.ones(2), np.full(2, 90.0), np.full(2, 100.0))[:, 0]
    assert np.all(np.isfinite(new))
    assert np.all(np.diff(new) > 0)
    assert new[6] == pytest.approx(1.0 + 0.9 * np.log1p(1e19), rel=1e-5)


def test_blocks_give_the_same_slopes():
    here = TruncatedLogisticRegression(tol=1e-10).fit(X, y)
    blocks = from_batches(lambda: [(X[:200], y[:200]), (X[200:], y[200:])])
    there = TruncatedLogisticRegression(tol=1e-10).fit(blocks)
    np.testing.assert_allclose(there.tail_slopes_, here.tail_slopes_, rtol=1e-6)
    np.testing.assert_array_equal(there.tail_bends_, here.tail_bends_)


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
    nodes = np.array([0.0, 2.5, 5.0, 7.5])
    values, weight = rng.uniform(0, 7, 100), rng.uniform(size=100)
    values[:3] = 0.0, 2.5, 7.5
    mass = spread(values, weight, 2.5, 4)
    np.testing.assert_allclose(_spread_sorted(values, weight, nodes), mass)
    assert mass.sum() == pytest.approx(weight.sum())
    assert mass @ nodes == pytest.approx(weight @ values)
    kinked = np.array([1.0, -2.0, 5.0, 0.0])
    assert mass @ kinked == pytest.approx(weight @ np.interp(values, nodes, kinked))


@pytest.mark.parametrize(("dtype", "large"), [(np.float64, 1e20), (np.float32, 1e9)])
def test_log_odds_of_many_classes_survive_large_scores(dtype, large):
    near = np.array([[9.0, -1.0, -2.0], [0.5, 0.25, 0.0]], dtype=dtype)
    given = np.full(3, 1.0), np.full(3, 150.0), np.full(3, 100.0)
    far = (near * np.array([[large], [1.0]])).astype(dtype)
    new = stretched(far, *given)
    # the first class of the first row: e + 1.5 log(1 + 100 (distance - e)), as ever
    odds = 1.0 + 1.5 * np.log1p(100.0 * (10.0 * large - 1.0))
    np.testing.assert_allclose(new[0, 0] - new[0, 1], odds, rtol=1e-5)
    np.testing.assert_array_equal(new[1], far[1])  # of others nothing changes
