"""Fits that start from the fit before: the same optimum, sooner, or a fresh start."""

import numpy as np
import pytest
from sklearn.base import clone

from grayzone import TruncatedLogisticRegression


def data(n, d, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


SIZES = {
    "small, two classes": (150, 4, 2),
    "small, three classes": (150, 4, 3),
    "large, two classes": (12_000, 6, 2),
    "wide, two classes": (30, 60, 2),
}

CHANGES = {
    "nothing": {},
    "larger C": {"C": 3.0},
    "smaller C": {"C": 0.3},
    "much larger C": {"C": 300.0},
    "narrower zone": {"zone": 0.3},
    "wider zone": {"zone": 3.0},
    "no zone": {"zone": None},
}


@pytest.fixture(params=SIZES)
def problem(request):
    return data(*SIZES[request.param])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("solver", ["auto", "primal"])
def test_the_same_optimum(problem, change, solver):
    X, y = problem
    warm = TruncatedLogisticRegression(warm_start=True, solver=solver).fit(X, y)
    warm.set_params(**CHANGES[change]).fit(X, y)
    cold = clone(warm).fit(X, y)
    assert max(warm.dual_gap_, cold.dual_gap_) <= 1e-6
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("C", [0.1, 10.0, 300.0])
def test_an_optimum_stays_where_it_is(n_classes, seed, C):
    # at an optimum rows are pinned to the kink, which is where a warm start begins
    X, y = data(40, 3, n_classes, seed)
    warm = TruncatedLogisticRegression(C=C, zone=0.3, warm_start=True).fit(X, y)
    objective = warm.objective_
    warm.fit(X, y)
    assert warm.dual_gap_ <= 1e-6
    assert warm.n_iter_ <= 10
    assert warm.objective_ == pytest.approx(objective, rel=2e-6)


@pytest.mark.parametrize("change", ["nothing", "larger C", "smaller C", "narrower zone"])
def test_no_more_iterations(change):
    X, y = data(12_000, 6, 2)
    warm = TruncatedLogisticRegression(warm_start=True).fit(X, y)
    warm.set_params(**CHANGES[change]).fit(X, y)
    # a fresh start solves a part of the rows first, and does not count that
    assert warm.n_iter_ <= clone(warm).fit(X, y).n_iter_ + (change != "nothing")


OTHERS = {
    "fewer features": (lambda X, y: (X[:, :3], y)),
    "more classes": (lambda X, y: (X, y + (X[:, 2] > 1.0))),
    "other names": (lambda X, y: (X, np.array(["a", "b"])[y])),
    "other values": (lambda X, y: (X, y + 5)),
}


@pytest.mark.parametrize("other", OTHERS)
def test_ignored_when_the_problem_is_another(other):
    X, y = data(150, 4, 2)
    changed = OTHERS[other](X, y)
    warm = TruncatedLogisticRegression(warm_start=True).fit(X, y).fit(*changed)
    cold = TruncatedLogisticRegression().fit(*changed)
    np.testing.assert_array_equal(warm.coef_, cold.coef_)
    np.testing.assert_array_equal(warm.classes_, cold.classes_)
    assert warm.n_iter_ == cold.n_iter_


def test_the_intercept_may_come_and_go():
    X, y = data(150, 4, 2)
    warm = TruncatedLogisticRegression(warm_start=True).fit(X, y)
    warm.set_params(fit_intercept=False).fit(X, y)
    assert warm.intercept_[0] == 0.0
    cold = TruncatedLogisticRegression(fit_intercept=False).fit(X, y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)
    warm.set_params(fit_intercept=True).fit(X, y)
    assert warm.objective_ == pytest.approx(
        TruncatedLogisticRegression().fit(X, y).objective_, rel=2e-6
    )


def test_rows_may_change():
    X, y = data(150, 4, 2)
    warm = TruncatedLogisticRegression(warm_start=True).fit(X[:100], y[:100]).fit(X, y)
    cold = TruncatedLogisticRegression().fit(X, y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)
    assert warm.partition_.shape == (150,)


def test_without_it_a_refit_is_a_fresh_fit():
    X, y = data(150, 4, 2)
    once = TruncatedLogisticRegression().fit(X, y)
    twice = clone(once).fit(X[:50], y[:50]).fit(X, y)
    np.testing.assert_array_equal(twice.coef_, once.coef_)
    assert twice.n_iter_ == once.n_iter_
