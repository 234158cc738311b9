"""C by generalised approximate cross-validation: the formula by hand, and what it is near to."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from grayzone import ImportVectorMachine, ImportVectorMachineCV
from grayzone.solvers.greedy import Growth, approximate_cv
from grayzone.sources.open import open_rows

CS = [0.1, 1.0, 10.0]


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + 0.7 * rng.normal(size=n) > 0.2).astype(int)


def grown(X, y, weight=None, **parameters):
    model = ImportVectorMachine(gamma=0.5, max_import_points=6, tol=0.0, **parameters)
    labelled = open_rows(model, X, y, weight, class_weight=None, by_rows=True, **model._accepted())
    kernel, criterion = model._specify(labelled)
    growth = Growth(labelled, kernel, criterion, model._rules(), np.random.default_rng(0))
    for _ in growth.grow():
        pass
    return growth


def by_hand(X, y, Z, a, b, C):
    """The formula, in the coefficients of kernel functions and an intercept."""
    T = np.column_stack([rbf_kernel(X, Z, gamma=0.5), np.ones(len(y))])
    p = 1.0 / (1.0 + np.exp(-(T @ np.append(a, b))))
    penalty = np.zeros((len(a) + 1, len(a) + 1))
    penalty[:-1, :-1] = rbf_kernel(Z, gamma=0.5) / C
    W = p * (1.0 - p)
    H = T @ np.linalg.inv(T.T @ (W[:, None] * T) + penalty) @ T.T
    loss = -np.mean(np.log(np.where(y == 1, p, 1.0 - p)))
    return loss + np.trace(H) / len(y) * np.sum(y * (y - p)) / (len(y) - np.sum(W * np.diag(H)))


@pytest.mark.parametrize("C", CS)
def test_the_formula_by_hand(C):
    X, y = data()
    growth = grown(X, y, C=C)
    model = growth.model()
    expected = by_hand(X, y, X[model.numbers], model.dual_coef[0], model.intercept[0], C)
    assert approximate_cv(growth) == pytest.approx(expected, rel=1e-6)


def test_it_is_near_leaving_rows_out():
    X, y = data(80)
    growth = grown(X, y, C=1.0)
    points = growth.model().numbers
    K = rbf_kernel(X, X[points], gamma=0.5)
    losses = []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        # the same points, the row left out: Newton's method in their span
        T = np.column_stack([K, np.ones(len(y))])
        penalty = np.zeros((7, 7))
        penalty[:6, :6] = rbf_kernel(X[points], gamma=0.5)
        beta = np.zeros(7)
        for _ in range(25):
            p = 1.0 / (1.0 + np.exp(-T @ beta))
            slope = T[rest].T @ (p - y)[rest] + penalty @ beta
            bend = T[rest].T @ ((p * (1 - p))[rest][:, None] * T[rest]) + penalty
            beta -= np.linalg.solve(bend, slope)
        p = 1.0 / (1.0 + np.exp(-T[i] @ beta))
        losses.append(-np.log(p if y[i] else 1.0 - p))
    out, found = float(np.mean(losses)), approximate_cv(growth)
    sign = np.where(y == 1, 1.0, -1.0)
    model = growth.model()
    on_all = np.logaddexp(0.0, -sign * (K @ model.dual_coef[0] + model.intercept[0])).mean()
    assert on_all < found  # and nearer to the truth than that is
    assert abs(found - out) < 0.7 * (out - on_all)


def test_weights_are_repetitions_and_no_intercept_is_none():
    X, y = data(30)
    times = np.random.default_rng(1).integers(1, 4, size=30)
    weighted = approximate_cv(grown(X, y, times.astype(float)))
    repeated = approximate_cv(grown(np.repeat(X, times, axis=0), np.repeat(y, times)))
    assert weighted == pytest.approx(repeated, rel=1e-6)
    assert np.isfinite(approximate_cv(grown(X, y, fit_intercept=False)))


def test_the_search_takes_the_least():
    X, y = data(120)
    search = ImportVectorMachineCV(Cs=CS, scoring="gacv", max_import_points=6, gamma=0.5)
    search.fit(X, y)
    assert search.scores_.shape == (3, 1)
    assert int(np.argmax(search.scores_[:, 0])) == CS.index(search.C_)
    # the points that the path ended with, and the score of the last record of each C
    ends = [search.path_["score"][search.path_["C"] == C][-1] for C in CS]
    np.testing.assert_allclose(ends, search.scores_[:, 0])
    a, b = search.dual_coef_[0], search.intercept_[0]
    told = -by_hand(X, y, search.import_vectors_, a, b, search.C_)
    assert search.scores_.max() == pytest.approx(told, rel=1e-5)
    # decisions are scored as ever
    assert search.score(X, y) == pytest.approx(-np.mean(search.predict(X) != y))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({}, "two classes; y has 3"), ({"zone": 1.0}, "zone=None; got zone=1.0")],
)
def test_what_the_formula_is_not_for(parameters, message):
    X, y = data()
    y = y if parameters else y + (X[:, 1] > 1.0)
    with pytest.raises(ValueError, match=message):
        ImportVectorMachineCV(Cs=CS, scoring="gacv", **parameters).fit(X, y)
