"""Import points that leave their rows: the slope by differences, never worse, and what refuses."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel

from grayzone import ImportVectorMachine
from grayzone.solvers.greedy import Growth
from grayzone.solvers.greedy.moving import _Descent
from grayzone.sources import from_batches
from grayzone.sources.open import open_rows

SETTINGS = {
    "two classes": (2, {}),
    "weights": (2, {"class_weight": {0: 1.0, 1: 3.0}}),
    "a zone": (2, {"zone": 0.7, "tol": 1e-3}),
    "no intercept": (2, {"fit_intercept": False}),
    "three classes": (3, {}),
    "a reference class": (3, {"parametrization": "reference"}),
}


def data(n=120, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    score = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


def machine(**parameters):
    return ImportVectorMachine(
        **{"C": 2.0, "gamma": 0.5, "max_import_points": 4, "tol": 0.0, **parameters}
    )


def descent(n_classes, parameters):
    """Return the criterion as a function of the centres, as a fit has it, and where it starts."""
    X, y = data(n_classes=n_classes)
    model = machine(**parameters)
    model._check_parameters()
    labelled = open_rows(
        model, X, y, None, class_weight=model.class_weight, by_rows=True, **model._accepted()
    )
    kernel, criterion = model._specify(labelled)
    growth = Growth(labelled, kernel, criterion, model._rules(), np.random.default_rng(0))
    for _ in growth.grow():
        pass
    found = _Descent(labelled, criterion, growth.model())
    return found, found.scale * found.best.centres.ravel()


@pytest.mark.parametrize("name", SETTINGS)
def test_the_slope_is_that_of_differences(name):
    value, start = descent(*SETTINGS[name])
    start = start + 0.05 * np.random.default_rng(0).normal(size=start.size)
    slope, h = value(start)[1], 1e-3
    for k, step in enumerate(h * np.eye(start.size)):
        expected = (value(start + step)[0] - value(start - step)[0]) / (2.0 * h)
        # fits end where a step promises 1e-8 of the criterion: that is 1e-4 of its slopes
        assert slope[k] == pytest.approx(expected, abs=5e-4 * np.abs(slope).max())


def test_the_criterion_is_that_of_the_centres():
    X, y = data()
    model = machine(move_points=True).fit(X, y)
    Z, a, b = model.import_vectors_, model.dual_coef_[0], model.intercept_[0]
    f = rbf_kernel(X, Z, gamma=0.5) @ a + b
    np.testing.assert_allclose(model.decision_function(X), f, rtol=1e-10)
    sign = np.where(y == 1, 1.0, -1.0)
    by_hand = np.logaddexp(0.0, -sign * f).sum() + a @ rbf_kernel(Z, gamma=0.5) @ a / 4.0
    assert model.objective_ == pytest.approx(by_hand, rel=1e-10)
    assert model.dual_gap_ <= 1e-7

    # an oracle from outside: all of centres, coefficients and intercept together, from there
    def whole(flat):
        Z, a, b = flat[:8].reshape(4, 2), flat[8:12], flat[12]
        scores = rbf_kernel(X, Z, gamma=0.5) @ a + b
        return np.logaddexp(0.0, -sign * scores).sum() + a @ rbf_kernel(Z, gamma=0.5) @ a / 4.0

    found = minimize(whole, np.concatenate([Z.ravel(), a, [b]]), method="L-BFGS-B")
    assert found.fun >= model.objective_ * (1.0 - 1e-4)


@pytest.mark.parametrize("name", SETTINGS)
def test_moving_lowers_the_criterion_step_by_step(name):
    n_classes, parameters = SETTINGS[name]
    X, y = data(n_classes=n_classes)
    still = machine(**parameters).fit(X, y)
    moved = machine(**parameters, move_points=True).fit(X, y)
    np.testing.assert_array_equal(moved.import_points_, still.import_points_)
    np.testing.assert_array_equal(moved.objective_path_, still.objective_path_)
    assert moved.objective_ < 0.99 * still.objective_
    assert np.all(np.diff(moved.move_path_) <= 0.0)
    assert moved.move_path_[-1] == pytest.approx(moved.objective_, rel=1e-12)
    assert moved.import_vectors_.shape == (4, 2)
    assert not np.allclose(moved.import_vectors_, X[moved.import_points_])
    assert not hasattr(still, "move_path_")


def test_tol_ends_the_moves():
    X, y = data()
    to_the_end = machine(move_points=True).fit(X, y)
    sooner = machine(move_points=True, tol=1e-3, n_iter_no_change=2).fit(X, y)
    assert len(sooner.move_path_) < len(to_the_end.move_path_) <= 100
    assert to_the_end.objective_ <= sooner.objective_


def test_features_in_another_unit_are_the_same_problem():
    X, y = data()
    model = machine(move_points=True, tol=1e-4).fit(X, y)
    other = machine(move_points=True, tol=1e-4, gamma=0.5e-6).fit(1e3 * X, y)
    np.testing.assert_allclose(
        model.decision_function(X), other.decision_function(1e3 * X), rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize(
    ("parameters", "change", "message"),
    [
        ({"kernel": "linear"}, None, "needs kernel='rbf'; got kernel='linear'"),
        ({"kernel": "precomputed"}, lambda X: X @ X.T, "needs kernel='rbf'"),
        ({"early_stopping": True}, None, "needs early_stopping=False"),
        ({}, sp.csr_array, "Sparse data was passed"),
    ],
)
def test_what_cannot_move_is_refused(parameters, change, message):
    X, y = data(40)
    X = X if change is None else change(X)
    with pytest.raises((ValueError, TypeError), match=message):
        machine(move_points=True, **parameters).fit(X, y)


def test_points_of_blocks_stay_rows():
    X, y = data(40)
    with pytest.raises(ValueError, match="needs dense rows that are held by NumPy"):
        machine(move_points=True).fit(from_batches(lambda: iter([(X, y)])))


def test_rows_that_are_hardly_apart_stay_where_they_are():
    X, _ = data(40)
    # a share of one class that only a point can tell, and steps that lead to nowhere
    model = machine(move_points=True, gamma=1.0, fit_intercept=False)
    model.fit(1e-168 * X, X[:, 0] > 1.0)
    assert np.all(np.isfinite(model.import_vectors_))
    assert model.objective_ <= model.objective_path_[-1]
