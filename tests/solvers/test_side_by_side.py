"""Fits to several columns of weights at once are those of each column by itself, and certified."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from grayzone import TruncatedLogisticRegression, TruncatedLogisticRegressionCV
from grayzone.numerics.centred_design import CentredDesign
from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import Logistic, SmoothedLogistic, TruncatedLogistic
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers import Problem, certify
from grayzone.solvers.truncated.side_by_side import SideBySide

CS = np.array([0.01, 1.0, 100.0])


def rows(n=300, d=6, seed=0):
    X, y = make_classification(n, d, flip_y=0.2, weights=[0.7], random_state=seed)
    return X, y


def folds(X, y, k=4, weight=None):
    out = np.ones((len(y), k)) if weight is None else np.repeat(weight[:, None], k, axis=1)
    for column, (_, test) in enumerate(StratifiedKFold(k).split(X, y)):
        out[test, column] = 0.0
    return out


def side_by_side(X, y, weight, fit_intercept=True):
    sign = np.where(y == 1, 1.0, -1.0)
    return SideBySide(as_design(X, fit_intercept), sign, weight)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_each_column_is_the_fit_to_its_rows(fit_intercept):
    X, y = rows()
    weight = folds(X, y, weight=np.random.default_rng(0).uniform(0.5, 2.0, len(y)))
    fits = side_by_side(X, y, weight, fit_intercept)
    seen = set()
    for place, found in fits.path(1.0 / CS, 1e-13, 100):
        seen.add(place)
        assert np.all(found.gaps <= 1e-13)
        for column in range(weight.shape[1]):
            alone = LogisticRegression(
                C=CS[place],
                tol=1e-12,
                max_iter=1000,
                solver="newton-cholesky",
                fit_intercept=fit_intercept,
            ).fit(X, y, sample_weight=weight[:, column])
            coef = np.append(alone.coef_[0], alone.intercept_) if fit_intercept else alone.coef_[0]
            assert_allclose(found.point.coef[column], coef, atol=2e-5)
            assert_allclose(found.point.scores[:, column], alone.decision_function(X), atol=1e-4)
    assert seen == {0, 1, 2}


def test_gaps_are_those_of_the_certificate():
    X, y = rows(seed=1)
    weight, sign = folds(X, y), np.where(y == 1, 1.0, -1.0)
    fits = side_by_side(X, y, weight)
    for tol in (1e-3, 1e-6, 1e-9):
        found = fits.fit(fits.prior(), 0.5, tol, 100)
        for column in range(weight.shape[1]):
            problem = Problem(
                as_design(X), SignedMargin(sign), Logistic(sign), weight[:, column], 0.5
            )
            coef = found.point.coef[column : column + 1]
            scores = problem.design.scores(coef)
            own = certify(problem, coef, scores, problem.loss.slope(-sign * scores[:, 0]))
            assert own.relative <= tol
            assert_allclose(found.gaps[column], own.relative, rtol=1e-4, atol=1e-14)
            assert_allclose(found.point.values[column], own.primal, rtol=1e-12)


def test_rounded_kinks_are_losses_like_others():
    X, y = rows(seed=7)
    sign, floor = np.where(y == 1, 1.0, -1.0), np.where(y == 1, -0.5, -1.5)
    loss = SmoothedLogistic(TruncatedLogistic(floor[:, None]), 0.1)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, (len(y), 1))
    fits = SideBySide(as_design(X), sign, weight, loss)
    found = fits.fit(fits.prior(), 0.5, 1e-13, 100)
    assert found.gaps[0] <= 1e-13

    def value(coef):
        u = -sign * (X @ coef[:-1] + coef[-1])
        own = SmoothedLogistic(TruncatedLogistic(floor), 0.1)
        return weight[:, 0] @ own.value(u) + 0.25 * coef[:-1] @ coef[:-1]

    other = minimize(value, np.zeros(X.shape[1] + 1), method="BFGS", options={"gtol": 1e-7})
    assert_allclose(found.point.values[0], value(found.point.coef[0]), rtol=1e-12)
    assert_allclose(found.point.values[0], other.fun, rtol=1e-9)
    # many of these losses are flat, and such rows are left out of Hessians
    flat = -sign * found.point.scores[:, 0] < floor - 0.1
    assert np.mean(flat) > 0.2
    assert 0.0 <= fits.promised()[0] <= 1e-9  # by the last step


def test_what_does_not_converge_says_so():
    X, y = rows(seed=3)
    fits = side_by_side(X, y, folds(X, y))
    found = fits.fit(fits.prior(), 1e-3, 1e-12, 1)
    assert np.all(found.gaps > 1e-12)
    assert np.all(found.n_iter == 1)


def test_folds_share_the_centres_of_the_model_that_is_kept():
    X, y = rows(n=240, seed=5)
    settings = {"kernel": "rbf", "gamma": 0.3, "centres": 20, "random_state": 0}
    search = TruncatedLogisticRegressionCV(Cs=CS, cv=3, zones=[None], tol=1e-10, **settings)
    search.fit(X, y)
    settings["centres"] = search.centres_
    for C, losses in zip(CS, search.scores_, strict=True):
        for (train, test), loss in zip(StratifiedKFold(3).split(X, y), losses, strict=True):
            alone = TruncatedLogisticRegression(C=C, zone=None, tol=1e-10, **settings)
            p = alone.fit(X[train], y[train]).predict_proba(X[test])[np.arange(test.size), y[test]]
            assert_allclose(loss, np.log(p).mean(), rtol=1e-6)


def test_features_of_the_first_centres_are_the_first_features():
    X, y = rows(n=100, seed=6)
    model = TruncatedLogisticRegression(kernel="rbf", centres=30, zone=None, random_state=0)
    features = model.fit(X, y)._centres_of(_labelled(X, y)).features
    whole = features.features(X)
    assert_allclose(features.first(12).features(X), whole[:, :12], atol=1e-12)
    for budget in (1e9, 0.0):
        part = CentredDesign(X, features, budget=budget).of_first(12)
        coef = np.random.default_rng(0).standard_normal((1, 13))
        assert_allclose(part.scores(coef), whole[:, :12] @ coef[:, :12].T + coef[0, 12], atol=1e-11)


def _labelled(X, y):
    from grayzone.sources.labelled import label
    from grayzone.sources.source import HeldSource

    return label(HeldSource(X, y))
