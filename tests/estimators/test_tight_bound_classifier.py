"""Tighter bounds around other classifiers: their weights, what they stop at, what they refuse."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC

from grayzone import (
    ImportVectorMachine,
    TightBoundClassifier,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
)

CLASSES = {2: [0, 1], 3: [2, 5, 7]}


def data(n=150, n_classes=2, seed=0, noise=0.8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] - 0.5 * X[:, 1] + 0.5 * X[:, 2] ** 2 + noise * rng.normal(size=n)
    codes = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    return X, np.array(CLASSES[n_classes])[codes]


def logistic(n_classes=2, **parameters):
    solver = "newton-cholesky" if n_classes == 2 else "newton-cg"
    return LogisticRegression(**{"solver": solver, "tol": 1e-10, "max_iter": 5000, **parameters})


def bounded(estimator, X, y, sample_weight=None, **parameters):
    return TightBoundClassifier(estimator, **parameters).fit(X, y, sample_weight=sample_weight)


def own_proba(proba, y):
    return proba[np.arange(len(y)), np.searchsorted(np.unique(y), y)]


class Listening(LogisticRegression):
    """Logistic regression that keeps the weights of every fit, of all clones."""

    heard = ()

    def fit(self, X, y, sample_weight=None):
        type(self).heard = (*type(self).heard, np.copy(sample_weight))
        return super().fit(X, y, sample_weight)


@pytest.fixture
def heard():
    """Weights of the fits in this test."""
    Listening.heard = ()
    return lambda: list(Listening.heard)


# ------------------------------------------------------------------ around logistic regression


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_around_logistic_regression_it_is_the_linear_model_step_by_step(n_classes, C):
    X, y = data(n_classes=n_classes)
    steps = 5
    for t in range(1, steps + 1):
        found = bounded(logistic(n_classes, C=C), X, y, n_bounds=t, tol=1e-15)
        linear = TightBoundLogisticRegression(C=C, n_bounds=t, tol=1e-9).fit(X, y)
        assert found.n_iter_ == t
        np.testing.assert_allclose(found.estimator_.coef_, linear.coef_, atol=1e-5)
        np.testing.assert_allclose(found.predict_proba(X), linear.predict_proba(X), atol=1e-5)
        np.testing.assert_array_equal(found.predict(X), linear.predict(X))
        norm = 0.5 / (C * n_classes) * np.sum(linear.coef_**2)
        own_error = (linear.expected_error_path_[-1] - norm) / len(y)
        assert found.mean_cost_path_[-1] == pytest.approx(own_error, rel=1e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_k_times_the_probabilities_of_the_fit_before(n_classes, heard):
    X, y = data(n_classes=n_classes)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=len(y))
    found = bounded(Listening(), X, y, weight, n_bounds=4, tol=1e-15)
    fits = heard()
    assert len(fits) == found.n_iter_ == 4
    # the first fit is the classifier itself
    np.testing.assert_allclose(fits[0], weight, rtol=1e-14)
    for before, after in pairwise(fits):
        proba = LogisticRegression().fit(X, y, before).predict_proba(X)
        np.testing.assert_allclose(after, n_classes * weight * own_proba(proba, y), rtol=1e-12)


def test_one_bound_is_the_classifier_itself():
    X, y = data()
    found = bounded(LogisticRegression(), X, y, n_bounds=1)
    np.testing.assert_allclose(
        found.estimator_.coef_, LogisticRegression().fit(X, y).coef_, rtol=1e-12
    )
    assert found.n_iter_ == 1
    proba = found.predict_proba(X)
    assert found.mean_cost_path_ == pytest.approx([np.mean(1.0 - own_proba(proba, y))])


# ------------------------------------------------------------------------------- around kernels

KERNELS = {
    "import vectors": ImportVectorMachine(max_import_points=8),
    "full kernel": TruncatedLogisticRegression(kernel="rbf", zone=None),
    "logistic": LogisticRegression(),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_expected_error_falls(name, n_classes):
    X, y = data(100, n_classes=n_classes)
    found = bounded(KERNELS[name], X, y, n_bounds=3)
    path = found.mean_cost_path_
    assert 2 <= len(path) == found.n_iter_ <= 3
    assert np.all(np.diff(path) < 0.0)
    # the path ends at the fit that is kept
    proba = found.estimator_.predict_proba(X)
    assert path[-1] == pytest.approx(np.mean(1.0 - own_proba(proba, y)), rel=1e-12)
    np.testing.assert_array_equal(found.predict_proba(X), proba)
    np.testing.assert_array_equal(found.predict(X), found.classes_[proba.argmax(axis=1)])
    assert type(found.estimator_) is type(KERNELS[name])
    # the first one is that of the classifier alone
    alone = clone(KERNELS[name]).fit(X, y, sample_weight=np.ones(len(y)))
    first = np.mean(1.0 - own_proba(alone.predict_proba(X), y))
    assert path[0] == pytest.approx(first, rel=1e-6)


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_on_real_data(load):
    X, y = load(return_X_y=True)
    X = scale(X)
    for estimator in (ImportVectorMachine(max_import_points=10), LogisticRegression()):
        found = bounded(estimator, X, y, n_bounds=3)
        assert found.mean_cost_path_[-1] < found.mean_cost_path_[0]
        assert np.mean(found.predict(X) == y) > 0.93


# ------------------------------------------------------------------------------ when it stops


class Scripted(ClassifierMixin, BaseEstimator):
    """Probabilities of the right class by a script, one entry for each fit of a clone."""

    script, fits = (), 0

    def fit(self, X, y, sample_weight=None):
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        self.own_ = type(self).script[type(self).fits]
        type(self).fits += 1
        return self

    def predict_proba(self, X):
        proba = np.full((len(X), 2), 1.0 - self.own_)
        proba[np.arange(len(X)), self.codes_] = self.own_
        return proba


@pytest.mark.parametrize(
    ("script", "n_fits", "path"),
    [
        ([0.6, 0.7, 0.8], 3, [0.4, 0.3, 0.2]),
        # worse than before: the one before is kept
        ([0.6, 0.7, 0.65, 0.9], 3, [0.4, 0.3]),
        # as good as before
        ([0.6, 0.6, 0.9], 2, [0.4]),
        # hardly better: kept, but the last
        ([0.6, 0.6004, 0.9], 2, [0.4, 0.3996]),
    ],
)
def test_it_stops_where_errors_fall_no_more(script, n_fits, path, monkeypatch):
    monkeypatch.setattr(Scripted, "script", script)
    monkeypatch.setattr(Scripted, "fits", 0)
    X, y = data()
    found = bounded(Scripted(), X, y, n_bounds=len(script), tol=1e-2)
    assert Scripted.fits == n_fits
    np.testing.assert_allclose(found.mean_cost_path_, path, rtol=1e-10)
    assert found.n_iter_ == len(path)
    assert 1.0 - found.estimator_.own_ == pytest.approx(path[-1])


# ------------------------------------------------------------------------------ costs and weights


@pytest.mark.parametrize("n_classes", [2, 3])
def test_costs_of_classes_are_weights(n_classes):
    X, y = data(n_classes=n_classes)
    costs = dict(zip(CLASSES[n_classes], [0.5, 3.0, 1.5], strict=False))
    weight = np.array([costs[label] for label in y.tolist()])
    weight /= weight.mean()  # whatever their unit is
    settings = {"n_bounds": 3, "tol": 1e-15}
    found = bounded(logistic(n_classes), X, y, costs=costs, **settings)
    weighted = bounded(logistic(n_classes), X, y, weight, **settings)
    np.testing.assert_allclose(found.estimator_.coef_, weighted.estimator_.coef_, rtol=1e-9)
    linear = TightBoundLogisticRegression(costs=costs, n_bounds=3, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(found.estimator_.coef_, linear.coef_, atol=1e-5)
    # the mean is one of costs
    own = own_proba(found.predict_proba(X), y)
    expected = np.sum(weight * (1.0 - own)) / weight.sum()
    assert found.mean_cost_path_[-1] == pytest.approx(expected, rel=1e-12)


def test_balanced_costs():
    X, y = data()
    y = np.where(np.arange(len(y)) < 50, 0, y)
    found = bounded(logistic(), X, y, costs="balanced", n_bounds=3, tol=1e-15)
    share = np.mean(y == 1)
    same = {0: 0.5 / (1.0 - share), 1: 0.5 / share}
    other = bounded(logistic(), X, y, costs=same, n_bounds=3, tol=1e-15)
    np.testing.assert_allclose(found.estimator_.coef_, other.estimator_.coef_, rtol=1e-9)


@pytest.mark.parametrize(
    "costs", [np.array([[0.0, 1.0], [2.0, 0.0]]), [[0.0, 1.0], [2.0, 0.0]], "dear", 3.0]
)
def test_costs_that_are_no_weights(costs):
    with pytest.raises(ValueError, match="costs must be None, 'balanced' or a mapping"):
        bounded(LogisticRegression(), *data(), costs=costs)


@pytest.mark.parametrize(
    ("costs", "words"),
    [({0: 1.0}, "no entry"), ({0: 1.0, 1: -1.0}, "not be negative"), ({0: 0, 1: 0}, "are zero")],
)
def test_bad_costs(costs, words):
    with pytest.raises(ValueError, match=words):
        bounded(LogisticRegression(), *data(), costs=costs)


# ------------------------------------------------------------------------------------ bad choices


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (KNeighborsClassifier(), "KNeighborsClassifier.fit takes no sample_weight"),
        (LinearSVC(), "LinearSVC has no predict_proba"),
    ],
)
def test_estimators_that_cannot_be_bounded(estimator, words):
    found = TightBoundClassifier(estimator)
    before = dict(vars(found))
    with pytest.raises(TypeError, match=words):
        found.fit(*data())
    assert vars(found) == before


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_bounds": 0}, "n_bounds must be an integer >= 1"),
        ({"n_bounds": 2.0}, "n_bounds must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"tol": "small"}, "tol must be"),
    ],
)
def test_bad_parameters(parameters, words):
    with pytest.raises(ValueError, match=words):
        bounded(LogisticRegression(), *data(), **parameters)


# ---------------------------------------------------------------------------------------- manners
