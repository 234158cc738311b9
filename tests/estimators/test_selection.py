"""Penalties that select: what is zero, what is reached from elsewhere, and the laws of the rest."""

import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from grayzone import TruncatedLogisticRegression, TruncatedLogisticRegressionCV

ZONES = [None, 0.5]
PENALTIES = ["l1", "elasticnet"]


@pytest.fixture(scope="module")
def data():
    """150 rows of 40 features, of which five matter."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 40))
    y = (X[:, :5] @ [2.0, -1.5, 1.0, 1.0, -1.0] + rng.logistic(size=150) > 0).astype(int)
    return X, y


def model(penalty="l1", **parameters):
    return TruncatedLogisticRegression(**{"penalty": penalty, "C": 0.3, "tol": 1e-11} | parameters)


def assert_same(one, other, rtol=1e-6):
    scale = np.abs(other.coef_).max()
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0.0, atol=rtol * scale)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=0.0, atol=rtol * scale)


def test_features_are_selected(data):
    fit = model().fit(*data)
    chosen = np.flatnonzero(fit.coef_[0])
    assert {0, 1, 2, 3, 4} <= set(chosen)
    assert chosen.size < 25
    assert 0 < fit.support_.size < len(data[1])
    assert model("elasticnet", l1_ratio=0.1).fit(*data).coef_.astype(bool).sum() > chosen.size


def test_c_is_that_of_scikit_learn(data):
    fit = model(zone=None, C=0.7).fit(*data)
    other = LogisticRegression(C=0.7, l1_ratio=1.0, solver="saga", tol=1e-10, max_iter=100_000)
    other.fit(*data)
    np.testing.assert_allclose(fit.coef_, other.coef_, atol=1e-5)
    net = model("elasticnet", zone=None, C=0.7, l1_ratio=0.3).fit(*data)
    other.set_params(l1_ratio=0.3).fit(*data)
    np.testing.assert_allclose(net.coef_, other.coef_, atol=1e-5)


@pytest.mark.parametrize("zone", ZONES)
def test_no_feature_at_all_where_the_penalty_is_large(data, zone):
    X, y = data
    fit = model(zone=zone, C=1e-4).fit(X, y)
    np.testing.assert_array_equal(fit.coef_, 0.0)
    assert fit.dual_gap_ <= 1e-11


def test_rows_that_span_are_few(data):
    X, y = data[0][:, :3], data[1]
    few = model(kernel="rbf", C=1.0).fit(X, y)
    many = TruncatedLogisticRegression(kernel="rbf").fit(X, y)
    assert few.support_.size < 0.5 * many.support_.size
    assert few.dual_coef_.shape == (1, few.support_.size)
    assert np.all(few.dual_coef_ != 0.0)
    np.testing.assert_array_equal(few.support_vectors_, X[few.support_])
    again = pickle.loads(pickle.dumps(few))
    np.testing.assert_array_equal(again.decision_function(X), few.decision_function(X))


def test_an_expansion_takes_a_kernel_that_is_indefinite(data):
    X, y = data[0][:, :3], data[1]
    fit = model(kernel="sigmoid", gamma=0.3, C=1.0, tol=1e-8).fit(X, y)
    assert fit.dual_gap_ <= 1e-8


# --------------------------------------------------------------------------------------- laws


# ------------------------------------------------------------------------------ starts, carriers


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_path_with_warm_starts_is_the_path_without(data, zone, kernel):
    X, y = data
    warm = model(zone=zone, kernel=kernel, warm_start=True, tol=1e-9)
    for C in np.geomspace(0.02, 5.0, 6):
        warm.set_params(C=C).fit(X, y)
        cold = model(zone=zone, kernel=kernel, tol=1e-9, C=C).fit(X, y)
        assert warm.dual_gap_ <= 1e-9
        assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-9)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_search_takes_the_penalty(data, penalty):
    X, y = data
    search = TruncatedLogisticRegressionCV(
        Cs=[0.03, 0.3, 3.0], zones=(1.0,), cv=3, penalty=penalty, l1_ratio=0.8
    ).fit(X, y)
    same = TruncatedLogisticRegression(
        C=search.C_, zone=search.best_zone_, penalty=penalty, l1_ratio=0.8
    ).fit(X, y)
    assert_same(search, same)
    assert np.any(search.coef_ == 0.0)


def test_a_limit_of_iterations_is_warned_of(data):
    with pytest.warns(UserWarning, match="relative duality gap"):
        fit = model(max_iter=1, tol=1e-12, zone=0.2).fit(*data)
    start = model(C=1e-6).fit(*data)  # the constant
    assert fit.objective_ <= start.objective_ * (1.0 + 1e-9)


def test_three_classes_of_many_features():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 350))
    y = np.argmax(X[:, :3] + 0.3 * rng.normal(size=(60, 3)), axis=1)
    fit = model(C=0.5, tol=1e-8).fit(X, y)
    assert fit.coef_.shape == (3, 350)
    assert fit.dual_gap_ <= 1e-8
    assert np.count_nonzero(fit.coef_.any(axis=0)) < 100


@pytest.mark.parametrize("zone", ZONES)
def test_columns_that_add_up_to_others_and_a_rare_one(zone):
    rng = np.random.default_rng(7)
    group = rng.choice(9, size=3000, p=[0.002, *[0.998 / 8] * 8])
    X = np.column_stack([np.eye(9)[group], rng.normal(size=(3000, 4)), np.zeros(3000)])
    y = (X[:, 9] * 3.0 + group - 6.0 + rng.logistic(size=3000) > 0) | (group == 0)
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    for C in (1.0, 100.0):
        assert model(zone=zone, C=C, tol=1e-8).fit(X, y).dual_gap_ <= 1e-8
