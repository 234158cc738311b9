"""The sparse minimax machine: its gradients, its greedy path, its held-out bound, its manners."""

import array_api_strict
import numpy as np
import pytest
from recording import Recording
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from test_minimax import (
    XOR,
    assert_as_before,
    bound_by_hand,
    copies_in_both_classes,
    folds_by_hand,
    frozen,
    kappas,
)

import grayzone.solvers.minimax.greedy as module
from grayzone import MinimaxProbabilityMachine, SparseMinimaxProbabilityMachine
from grayzone.numerics import threads
from grayzone.solvers.minimax.aims import Aim
from grayzone.sources.labelled import label
from grayzone.sources.source import HeldSource


def data(n=100, d=3, seed=0, noise=0.5):
    """Two classes that no plane keeps apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] * X[:, 1] + 0.7 * X[:, 0] + noise * rng.normal(size=n)
    return X, (score > np.median(score)).astype(int)


def fit(X, y, sample_weight=None, **parameters):
    """A fit without folds, unless they are asked for."""
    plain = {"n_bases": 6, "random_state": 0}
    if "cv" not in parameters:
        plain |= {"cv": None, "stopping": None}
    return SparseMinimaxProbabilityMachine(**plain | parameters).fit(
        X, y, sample_weight=sample_weight
    )


def distance(X, v):
    """A basis function of its own."""
    return np.sqrt(1.0 + np.sum((X - v) ** 2, axis=1))


BASES = {
    "gaussian": {},
    "poly": {"basis": "poly", "degree": 2},
    "cubic": {"basis": "poly"},
    "tanh": {"basis": "tanh", "coef0": 0.3},
    "callable": {"basis": distance},
}
GAMMAS = {
    "features": {"gamma": "features"},
    "width": {"gamma": "width"},
    "given": {"gamma": 0.3},
    "three steps": {"gamma": "features", "gamma_iter": 3},
    "not optimised": {"gamma_iter": 0},
}


def basis_values(found, X):
    """Values of all bases, one row and one basis at a time."""
    values = np.empty((len(X), len(found.bases_)))
    for k, (v, gamma) in enumerate(zip(found.bases_, found.gammas_, strict=True)):
        for i, row in enumerate(X):
            if callable(found.basis):
                values[i, k] = found.basis(row[None], v).item()
            elif found.basis == "gaussian":
                values[i, k] = np.exp(-np.sum(gamma * (row - v) ** 2))
            else:
                s = np.sum(gamma * row * v) + found.coef0
                values[i, k] = s**found.degree if found.basis == "poly" else np.tanh(s)
    return values


# ----------------------------------------------------------------------------------- gradients


def slopes(function, at, steps):
    """Central differences of a function of several numbers."""
    unit = np.eye(at.size)
    return np.array(
        [
            (function(at + h * e) - function(at - h * e)) / (2.0 * h)
            for e, h in zip(unit, steps, strict=True)
        ]
    )


@pytest.mark.parametrize("gamma", ["features", "width"])
@pytest.mark.parametrize("name", ["gaussian", "poly", "cubic", "tanh"])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_in_gamma_is_that_of_differences(name, gamma, weighted, monkeypatch):
    X, y = data()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=100) if weighted else None
    rng = np.random.default_rng(2)
    checked, plain = [], module.minimize

    def spy(function, start, **more):
        for g in (start, start * np.exp(rng.normal(size=start.size))):
            m, gradient = function(g)
            assert m < 1e5
            by_hand = slopes(lambda g: function(g)[0], g, 1e-5 * g)
            error = np.linalg.norm(gradient - by_hand)
            rounding = 8.0 * 2.3e-16 * m / (1e-5 * g.min())  # of the differences
            assert error <= 1e-6 * np.linalg.norm(by_hand) + rounding
            checked.append(gradient)
        return plain(function, start, **more)

    monkeypatch.setattr(module, "minimize", spy)
    # the first basis is alone, all others join a model
    fit(X, y, weight, n_bases=3, n_candidates=2, gamma=gamma, **BASES[name])
    assert len(checked) == 12
    assert all(gradient.size == (3 if gamma == "features" else 1) for gradient in checked)


@pytest.mark.parametrize("n_before", [0, 1, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_in_the_values_of_a_basis_is_that_of_differences(n_before, weighted):
    X, y = data(40)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=40) if weighted else None
    machine = SparseMinimaxProbabilityMachine(n_bases=5)
    rows = label(HeldSource(X, y, weight)).held
    greedy = machine._greedy(rows, rows.codes, 0, Aim())
    assert len(list(greedy.grow(n_before))) == n_before
    values = np.random.default_rng(2).normal(size=40) + (greedy.rows.codes == 1)
    plane, gradient = greedy._plane(values)
    by_hand = slopes(lambda v: greedy._plane(v)[0].m, values, np.full(40, 1e-5))
    assert plane.m < 1e3
    np.testing.assert_allclose(gradient, by_hand, rtol=0.0, atol=1e-6 * np.abs(by_hand).max())


def test_a_step_along_the_gradient_makes_the_bound_larger():
    X, y = data()
    bounds = [fit(X, y, n_bases=1, n_candidates=100, gamma_iter=k) for k in (0, 1, 3, 10)]
    assert np.all(np.diff([found.accuracy_bound_ for found in bounds]) > 0.0)


# ----------------------------------------------------------------------------------- theorem 1


def moments_of_bases(found, X, y, weight):
    """Values of all bases, difference of their means, their covariances in y and x."""
    B = basis_values(found, X)
    means = [np.average(B[y == c], axis=0, weights=weight[y == c]) for c in (0, 1)]
    sigmas = [np.atleast_2d(np.cov(B[y == c].T, aweights=weight[y == c], ddof=0)) for c in (0, 1)]
    return B, means[1] - means[0], *sigmas


@pytest.mark.parametrize(
    ("name", "gamma"), [*((name, "features") for name in BASES), ("gaussian", "width")]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_theorem_1_along_the_path(name, gamma, weighted):
    X, y = data()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=100) if weighted else np.ones(100)
    whole = fit(X, y, weight, gamma=gamma, **BASES[name])
    assert whole.n_iter_ == 6
    for k in range(1, 7):
        found = fit(X, y, weight, gamma=gamma, n_bases=k, **BASES[name])
        np.testing.assert_array_equal(found.bases_, whole.bases_[:k])
        np.testing.assert_array_equal(found.bound_path_, whole.bound_path_[:k])
        # Omega of two dimensions is that of k, at these coefficients
        _, difference, sigma_y, sigma_x = moments_of_bases(found, X, y, weight)
        c = found.dual_coef_[0]
        assert c @ difference == pytest.approx(1.0, rel=1e-7)
        m = np.sqrt(c @ sigma_x @ c) + np.sqrt(c @ sigma_y @ c)
        assert whole.bound_path_[k - 1] == pytest.approx(1.0 / (1.0 + m**2), rel=1e-7)


@pytest.mark.parametrize("name", ["gaussian", "poly", "tanh"])
def test_the_optimum_over_all_bases_has_a_larger_bound(name):
    X, y = data()
    gains = []
    for k in range(1, 7):
        found = fit(X, y, n_bases=k, **BASES[name])
        B = basis_values(found, X)
        exact = MinimaxProbabilityMachine(covariance_reg=0.0, cv=None).fit(B, y)
        assert exact.accuracy_bound_ >= found.accuracy_bound_ * (1.0 - 1e-8)
        gains.append(exact.accuracy_bound_ - found.accuracy_bound_)
    # one basis is one number, two are one plane; of more only some are looked at together
    assert abs(gains[0]) <= 1e-8
    assert abs(gains[1]) <= 1e-8
    assert max(gains) > 1e-3


# ------------------------------------------------------------------------------- the greedy path


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", BASES)
def test_the_bound_never_decreases(name, gamma):
    X, y = data(noise=2.0)
    found = fit(X, y, n_bases=25, **BASES[name] | GAMMAS[gamma])
    assert found.n_iter_ == 25
    assert np.all(np.diff(found.bound_path_) >= -1e-12)
    assert found.bound_path_[-1] == found.accuracy_bound_ > found.bound_path_[0]


@pytest.mark.parametrize("name", BASES)
def test_training_scores_have_the_moments_that_the_bound_tells(name):
    X, y = data()
    found = fit(X, y, **BASES[name])
    scores = found.decision_function(X)
    means = np.array([scores[y == code].mean() for code in (0, 1)])
    deviations = np.array([scores[y == code].std() for code in (0, 1)])
    assert means[1] - means[0] == pytest.approx(1.0, rel=1e-7)
    # the threshold is as many standard deviations from either mean, eq. (12)
    np.testing.assert_allclose(np.abs(means) / deviations, kappas(found.accuracy_bound_), rtol=1e-6)
    np.testing.assert_array_equal(found.predict(X), (scores > 0.0).astype(int))


def test_the_first_basis_is_the_best_of_all_candidates():
    X, y = data(40)
    found = fit(X, y, n_bases=1, n_candidates=40, gamma=0.5)
    bounds = []
    for v in X:
        values = np.exp(-0.5 * np.sum((X - v) ** 2, axis=1))
        # eq. (7) and (8)
        apart = abs(values[y == 1].mean() - values[y == 0].mean())
        m = (values[y == 1].std() + values[y == 0].std()) / apart
        bounds.append(1.0 / (1.0 + m**2))
    assert found.accuracy_bound_ == pytest.approx(max(bounds), rel=1e-7)
    np.testing.assert_array_equal(found.bases_[0], X[np.argmax(bounds)])


def test_bases_are_training_rows():
    X, y = data()
    found = fit(X, y, n_bases=10)
    rows = {tuple(row) for row in X.tolist()}
    assert all(tuple(v) in rows for v in found.bases_.tolist())


def test_more_candidates_reach_a_bound_sooner():
    X, y = data(300)
    few, many = (
        np.mean([fit(X, y, n_candidates=k, random_state=s).accuracy_bound_ for s in range(5)])
        for k in (1, 20)
    )
    assert many > few


def test_it_ends_where_the_classes_are_apart():
    X = np.concatenate([np.zeros((20, 1)), np.ones((20, 1))])
    found = fit(X, np.repeat([0, 1], 20), n_bases=10)
    assert found.n_iter_ == len(found.bases_) < 10
    assert found.accuracy_bound_ == pytest.approx(1.0, abs=1e-9)
    assert found.score(X, np.repeat([0, 1], 20)) == 1.0


# --------------------------------------------------------------------------- what it consists of


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", BASES)
def test_scores_are_a_sum_over_the_bases(name, gamma):
    X, y = data()
    found = fit(X, y, **BASES[name] | GAMMAS[gamma])
    new = np.random.default_rng(3).normal(size=(20, 3)) * 3.0
    terms = basis_values(found, new) * found.dual_coef_[0]
    size = np.abs(terms).sum(axis=1) + abs(found.intercept_[0])
    error = np.abs(found.decision_function(new) - terms.sum(axis=1) - found.intercept_[0])
    assert np.all(error <= 1e-12 * size)


def test_a_width_is_the_same_for_all_features():
    X, y = data()
    wide = fit(X, y, gamma="width")
    np.testing.assert_array_equal(wide.gammas_, wide.gammas_[:, :1] * np.ones(3))
    assert np.unique(wide.gammas_).size > 1
    given = fit(X, y, gamma=0.7)
    np.testing.assert_allclose(given.gammas_, 0.7, rtol=1e-15)
    weights = fit(X, y, gamma="features").gammas_
    assert np.all(weights >= 0.0)
    assert np.all(np.ptp(weights, axis=1) > 0.0)


def test_gamma_starts_from_the_variances():
    X, y = data()
    X = X * [1.0, 10.0, 0.1]
    features = fit(X, y, gamma_iter=0)
    expected = np.broadcast_to(1.0 / (3.0 * X.var(axis=0)), (6, 3))
    np.testing.assert_allclose(features.gammas_, expected, rtol=1e-12)
    wide = fit(X, y, gamma="width", gamma_iter=0)
    np.testing.assert_allclose(wide.gammas_, 1.0 / (3.0 * X.var(axis=0).mean()), rtol=1e-12)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", BASES)
def test_feature_weights_are_shares(name, gamma):
    X, y = data()
    X = X * [1.0, 10.0, 0.1]
    found = fit(X, y, **BASES[name] | GAMMAS[gamma])
    assert found.feature_weights_.shape == (3,)
    assert found.feature_weights_.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.all(found.feature_weights_ >= 0.0)
    if name == "callable":
        np.testing.assert_array_equal(found.gammas_, 0.0)
        np.testing.assert_allclose(found.feature_weights_, 1.0 / 3.0)
    else:
        shares = np.sum(found.gammas_, axis=0) * X.var(axis=0)
        np.testing.assert_allclose(found.feature_weights_, shares / shares.sum(), rtol=1e-10)


def test_one_basis():
    X, y = data()
    found = fit(X, y, n_bases=1)
    assert found.bases_.shape == found.gammas_.shape == (1, 3)
    assert found.dual_coef_.shape == (1, 1)
    assert found.bound_path_.tolist() == [found.accuracy_bound_]
    B, difference, sigma_y, sigma_x = moments_of_bases(found, X, y, np.ones(100))
    # eq. (8)
    assert found.dual_coef_[0, 0] == pytest.approx(1.0 / difference[0], rel=1e-10)
    s_x, s_y = np.sqrt(sigma_x[0, 0]), np.sqrt(sigma_y[0, 0])
    threshold = B[y == 1].mean() / difference[0] - s_x / (s_x + s_y)
    assert found.intercept_[0] == pytest.approx(-threshold, rel=1e-6)


def test_one_feature_and_two_rows_of_each_class():
    X, y = np.array([[0.0], [1.0], [3.0], [4.5]]), np.array([0, 0, 1, 1])
    found = fit(X, y, n_bases=2)
    assert found.accuracy_bound_ > 0.5
    assert found.predict(X).tolist() == y.tolist()


def test_noise_features_weigh_less_than_those_of_twonorm():
    total = np.zeros(40)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        y = np.arange(300) % 2
        X = rng.normal(size=(300, 40))
        X[:, :20] += np.where(y == 1, 1.0, -1.0)[:, None] * 2.0 / np.sqrt(20.0)
        total += fit(X, y, n_bases=25, random_state=seed).feature_weights_
    assert total[:20].min() > total[20:].max()
    assert total.sum() == pytest.approx(10.0, rel=1e-12)


# --------------------------------------------------------------------------------- invariances


def assert_same(one, other, rtol=1e-10):
    """Two machines of the same bases."""
    np.testing.assert_array_equal(one.bases_, other.bases_)
    np.testing.assert_allclose(one.gammas_, other.gammas_, rtol=rtol)
    np.testing.assert_allclose(one.bound_path_, other.bound_path_, rtol=rtol)
    np.testing.assert_allclose(one.dual_coef_, other.dual_coef_, rtol=1e3 * rtol)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=1e3 * rtol)
    assert one.held_out_bound_ == pytest.approx(other.held_out_bound_, rel=1e3 * rtol, nan_ok=True)


FOLDED = {"n_bases": 5, "cv": 3}


@pytest.mark.parametrize("name", ["gaussian", "poly", "tanh"])
def test_units_of_the_features_make_no_difference_to_feature_weights(name):
    # rows are drawn by their values: with all of them as candidates there is nothing to draw
    X, y = data(60)
    scales = np.array([1e-3, 1.0, 250.0])
    plain, scaled = (fit(rows, y, n_candidates=60, **BASES[name]) for rows in (X, X * scales))
    np.testing.assert_allclose(scaled.bases_, plain.bases_ * scales, rtol=1e-14)
    np.testing.assert_allclose(scaled.bound_path_, plain.bound_path_, rtol=1e-7)
    np.testing.assert_allclose(scaled.feature_weights_, plain.feature_weights_, atol=1e-6)
    np.testing.assert_allclose(
        scaled.decision_function(X * scales), plain.decision_function(X), rtol=0.0, atol=1e-5
    )


@pytest.mark.parametrize("gamma", ["features", "width"])
def test_where_zero_is_makes_no_difference_to_gaussians(gamma):
    X, y = data(60)
    shift = np.array([1e4, -300.0, 0.5])
    plain, moved = (fit(rows, y, n_candidates=60, gamma=gamma) for rows in (X, X + shift))
    np.testing.assert_allclose(moved.bound_path_, plain.bound_path_, rtol=1e-6)
    np.testing.assert_allclose(
        moved.decision_function(X + shift), plain.decision_function(X), rtol=0.0, atol=1e-5
    )


def test_one_unit_for_all_features_makes_no_difference_to_a_width():
    X, y = data(60)
    plain, scaled = (fit(rows, y, n_candidates=60, gamma="width") for rows in (X, 1e3 * X))
    np.testing.assert_allclose(scaled.bound_path_, plain.bound_path_, rtol=1e-7)
    np.testing.assert_allclose(scaled.gammas_, plain.gammas_ / 1e6, rtol=1e-5)
    # but units of single features do
    other = fit(X * [1.0, 100.0, 1.0], y, n_candidates=60, gamma="width")
    assert abs(other.accuracy_bound_ - plain.accuracy_bound_) > 1e-3


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 123.456])
@pytest.mark.parametrize("name", ["gaussian", "poly", "tanh"])
def test_a_constant_feature_has_no_say(name, value):
    # the mean of equal numbers is not always that number
    for n in range(30, 60, 3):
        X, y = data(n)
        found = fit(np.insert(X, 1, value, axis=1), y, n_bases=2, **BASES[name])
        np.testing.assert_array_equal(found.gammas_[:, 1], 0.0)
        assert found.feature_weights_[1] == 0.0
        # nor has what it is in later rows
        now, later = (
            found.decision_function(np.insert(X, 1, other, axis=1)) for other in (value, value + 1)
        )
        assert np.ptp(now) > 0.1
        np.testing.assert_allclose(later, now, rtol=0.0, atol=1e-9 * np.ptp(now))


@pytest.mark.parametrize("name", ["gaussian", "tanh", "callable"])
def test_threads_make_no_difference(name, monkeypatch):
    X, y = data()
    alone = fit(X, y, **FOLDED | BASES[name])
    monkeypatch.setattr(threads, "n_workers", lambda: 3)
    monkeypatch.setattr(module, "_WORTH_A_THREAD", 0)
    assert_same(fit(X, y, **FOLDED | BASES[name]), alone, 0.0)


# ----------------------------------------------------------------------------- held-out bounds


def path_by_hand(found, X, y, weight, folds):
    """Held-out bound after each basis, by fits to the training parts of as many bases."""
    path = []
    for k in range(1, found.n_bases + 1):
        scores = np.full(len(y), np.nan)
        for train, out in folds:
            part = clone(found).set_params(n_bases=k, cv=None, stopping=None)
            part.fit(X[train], y[train], weight[train])
            assert part.n_iter_ == k
            scores[out] = part.decision_function(X[out])
        seen = ~np.isnan(scores)
        path.append(bound_by_hand(scores[seen], y[seen], weight[seen]))
    return np.array(path)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("cv", [2, 3])
def test_held_out_path_by_hand(name, cv):
    X, y = data(80)
    X, y = np.concatenate([X, X[:20]]), np.concatenate([y, y[:20]])
    weight = np.random.default_rng(5).uniform(0.5, 2.0, size=100)
    found = fit(X, y, weight, n_bases=4, cv=cv, random_state=7, **BASES[name])
    # candidates are drawn by a seed that comes first, folds by what comes then
    state = np.random.RandomState(7)
    state.randint(2**31 - 1)
    folds = folds_by_hand(X, y, cv, state)
    expected = path_by_hand(found, X, y, weight, folds)
    assert expected.max() > 0.05
    np.testing.assert_allclose(found.held_out_path_, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_it_stops_where_the_held_out_bound_is_largest(seed):
    X, y = data(noise=2.0)
    found = fit(X, y, n_bases=12, cv=3, gamma_iter=3, random_state=seed)
    assert found.held_out_path_.shape == (12,)
    best = int(np.argmax(found.held_out_path_))
    assert found.n_iter_ == len(found.bases_) == best + 1
    assert found.held_out_bound_ == found.held_out_path_.max()
    # the model itself is the one of all rows
    np.testing.assert_array_equal(
        found.bound_path_,
        fit(X, y, n_bases=best + 1, gamma_iter=3, random_state=seed).bound_path_,
    )


def test_it_does_not_always_stop_at_the_end():
    X, y = data(noise=2.0)
    chosen = {
        fit(X, y, n_bases=12, cv=3, gamma_iter=3, random_state=seed).n_iter_ for seed in range(4)
    }
    assert len(chosen) > 1
    assert min(chosen) < 12


def test_without_stopping_all_bases_are_used():
    X, y = data(noise=2.0)
    stopped = fit(X, y, n_bases=8, cv=3)
    found = fit(X, y, n_bases=8, cv=3, stopping=None)
    assert found.n_iter_ == 8
    np.testing.assert_array_equal(found.held_out_path_, stopped.held_out_path_)
    assert found.held_out_bound_ == found.held_out_path_[-1]
    np.testing.assert_array_equal(found.bound_path_[: stopped.n_iter_], stopped.bound_path_)


def test_folds_that_end_early_keep_their_last_scores():
    X, y = np.repeat([[0.0], [1.0]], 20, axis=0), np.repeat([0, 1], 20)
    new = np.linspace(-1.0, 2.0, 7)[:, None]
    machine = SparseMinimaxProbabilityMachine(n_bases=8)
    rows = label(HeldSource(X, y)).held
    greedy = machine._greedy(rows, rows.codes, 0, Aim())
    path = greedy.scores_along(new, 8)
    ended = len(greedy.coefs)
    assert 1 <= ended < 8
    assert np.ptp(path[-1]) > 0.5
    for scores in path[ended:]:
        np.testing.assert_array_equal(scores, path[ended - 1])
    # and so do the bounds of folds of which some end sooner than others
    X = np.concatenate([np.linspace(0.0, 0.2, 15), np.linspace(1.0, 1.2, 15), [0.1]])[:, None]
    y = np.repeat([0, 1], [15, 16])
    found = fit(X, y, n_bases=8, cv=3, stopping=None, n_candidates=31)
    assert found.held_out_path_.shape == (8,)
    assert np.all(np.isfinite(found.held_out_path_))


@pytest.mark.parametrize(
    "out", [np.array([], dtype=int), np.arange(0, 40, 4)], ids=["no rows", "one class"]
)
def test_folds_that_hold_out_less_than_two_classes_are_told(out):
    X, y = data(40)[0], np.arange(40) % 2
    with pytest.raises(ValueError, match="cv"):
        fit(X, y, cv=[(np.setdiff1d(np.arange(40), out), out)])


def test_the_held_out_bound_flatters_less():
    X, y = load_breast_cancer(return_X_y=True)
    found = fit(X[:150], y[:150], n_bases=20, cv=3, gamma_iter=3)
    later = [np.mean(found.predict(X[150:][y[150:] == c]) == c) for c in (0, 1)]
    assert found.held_out_bound_ < found.accuracy_bound_
    assert found.held_out_bound_ < min(later)


# ------------------------------------------------------------------------------ degenerate data


@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("name", ["copies", "zeros"])
def test_equal_means_are_told_and_bound_nothing(name, cv):
    if name == "copies":
        X, y = copies_in_both_classes()
    else:
        X, y = np.zeros((12, 3)), np.arange(12) % 2
    with pytest.warns(UserWarning, match="the bound is 0") as caught:
        found = fit(X, y, cv=cv, stopping=None)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert found.accuracy_bound_ == 0.0
    assert found.n_iter_ == 0
    assert found.bases_.shape == found.gammas_.shape == (0, 3)
    assert found.dual_coef_.shape == (1, 0)
    assert found.bound_path_.shape == (0,)
    np.testing.assert_allclose(found.feature_weights_, 1.0 / 3.0)
    np.testing.assert_array_equal(found.decision_function(X), 0.0)
    assert not found.held_out_bound_ > 0.0


def test_what_no_plane_tells_apart():
    found = fit(*XOR, n_bases=3, n_candidates=4)
    assert found.accuracy_bound_ > 0.9
    np.testing.assert_array_equal(found.predict(XOR[0]), XOR[1])


def test_a_single_row_of_a_class_is_an_error():
    X, y = data(20)
    keep = np.concatenate([np.flatnonzero(y == 0)[:1], np.flatnonzero(y == 1)])
    with pytest.raises(ValueError, match=r"two rows of each class; class \S*0\S* has 1"):
        fit(X[keep], y[keep])


@pytest.mark.parametrize("basis", ["gaussian", "poly", "tanh"])
@pytest.mark.parametrize("gamma", ["features", "width", 0.5])
def test_extreme_rows(basis, gamma):
    # an outlier, features of tiny and of huge values: finite all the same
    X, y = data(60)
    X = X * [1e-8, 1.0, 1e8]
    X[0] = [1e-3, 50.0, 1e9]
    if gamma == 0.5 and basis != "gaussian":
        X = X / np.abs(X).max(axis=0)
    found = fit(X, y, basis=basis, gamma=gamma)
    assert np.all(np.isfinite(found.decision_function(X)))
    assert np.all(np.isfinite(found.dual_coef_))
    assert np.all(np.diff(found.bound_path_) >= -1e-12)


# ------------------------------------------------------------------------------------- manners


BAD = {
    "no bases": ({"n_bases": 0}, "n_bases must be an integer >= 1; got 0"),
    "half a basis": ({"n_bases": 2.5}, "n_bases must be an integer >= 1; got 2.5"),
    "bases as a flag": ({"n_bases": True}, "n_bases must be .*got True"),
    "no candidates": ({"n_candidates": 0}, "n_candidates must be an integer >= 1; got 0"),
    "candidates None": ({"n_candidates": None}, "n_candidates must be .*got None"),
    "gamma unknown": ({"gamma": "scale"}, "gamma must be one of 'features', 'width'; got 'scale'"),
    "gamma 0": ({"gamma": 0.0}, "gamma must be a finite number > 0; got 0"),
    "gamma negative": ({"gamma": -1.0}, "gamma must be a finite number > 0; got -1"),
    "gamma inf": ({"gamma": np.inf}, "gamma must be a finite number > 0; got inf"),
    "gamma None": ({"gamma": None}, "gamma must be .*got None"),
    "steps negative": ({"gamma_iter": -1}, "gamma_iter must be an integer >= 0; got -1"),
    "half a step": ({"gamma_iter": 0.5}, "gamma_iter must be an integer >= 0; got 0.5"),
    "unknown basis": ({"basis": "rbf"}, "basis must be one of 'gaussian', 'poly', 'tanh'"),
    "no basis": ({"basis": None}, "basis must be one of .*got None"),
    "degree 0": ({"degree": 0}, "degree must be an integer >= 1; got 0"),
    "degree 1.5": ({"degree": 1.5}, "degree must be an integer >= 1; got 1.5"),
    "coef0 nan": ({"coef0": np.nan}, "coef0 must be a finite number; got nan"),
    "coef0 as a word": ({"coef0": "one"}, "coef0 must be a finite number; got 'one'"),
    "unknown stopping": ({"stopping": "early"}, "stopping must be one of 'held-out'; got 'early'"),
    "stopping as a flag": ({"stopping": True}, "stopping must be one of 'held-out'; got True"),
    "stopping without folds": ({"cv": None}, "stopping='held-out' needs folds"),
    "one fold": ({"cv": 1}, "cv must be an integer >= 2; got 1"),
    "half a fold": ({"cv": 2.5}, "cv must be an integer >= 2; got 2.5"),
    "folds as a word": ({"cv": "many"}, "cv.*many"),
    "seed": ({"random_state": "lucky"}, "cannot be used to seed"),
    "basis of another shape": ({"basis": lambda X, v: X}, r"basis must return .*shape \(\d+,\)"),
    "basis of nan": ({"basis": lambda X, v: np.full(len(X), np.nan)}, "basis must return finite"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_told_and_leave_no_trace(name):
    parameters, message = BAD[name]
    X, y = data(40)
    fresh = SparseMinimaxProbabilityMachine(**parameters)
    before = frozen(fresh)
    with pytest.raises(ValueError, match=message):
        fresh.fit(X, y)
    assert_as_before(fresh, before)
    fitted = fit(X, y, n_bases=3, cv=3)
    scores = fitted.decision_function(X)
    before = frozen(fitted.set_params(**parameters))
    with pytest.raises(ValueError, match=message):
        fitted.fit(X[:, :2], y)
    assert_as_before(fitted, before)
    np.testing.assert_array_equal(
        fitted.set_params(basis="gaussian", coef0=1.0).decision_function(X), scores
    )


# ------------------------------------------------------------------------------------ callbacks


@pytest.fixture
def machine():
    """A machine that callbacks may listen to."""
    pytest.importorskip("sklearn.callback")
    return SparseMinimaxProbabilityMachine(n_bases=5, random_state=0)


@pytest.mark.parametrize("parameters", [{}, {"cv": None, "stopping": None}], ids=["folds", "plain"])
def test_callbacks_hear_of_each_basis(machine, parameters):
    X, y = data()
    alone = clone(machine).set_params(**parameters).fit(X, y)
    recording = Recording("basis")
    found = machine.set_params(**parameters).set_callbacks(recording).fit(X, y)
    assert recording.kinds("fit") == ["setup", "begin", "end", "teardown"]
    # of the model itself, not of those of the folds
    assert recording.kinds("basis") == ["begin", "end"] * found.n_iter_
    numbers = [n for kind, task, n, _ in recording.calls if (kind, task) == ("end", "basis")]
    assert numbers == list(range(found.n_iter_))
    assert [facts["accuracy_bound"] for facts in recording.facts] == found.bound_path_.tolist()
    # and that somebody listens changes nothing
    assert_same(found, alone, 0.0)
    assert vars(found).keys() - vars(alone).keys() == {"_skl_callbacks"}


def test_a_callback_may_stop_the_growth(machine):
    X, y = data()
    machine.set_params(cv=None, stopping=None).set_callbacks(Recording("basis", stop_at=3)).fit(
        X, y
    )
    assert machine.n_iter_ == len(machine.bases_) == 3
    assert_same(machine, fit(X, y, n_bases=3), 0.0)


def test_a_basis_that_is_a_function_is_for_numpy():
    X, y = data()
    fitted = fit(X, y, n_bases=2, basis=distance)
    there = array_api_strict.asarray(X)
    match = r"computes with NumPy; got Array.*A basis that is a function is given NumPy arrays"
    with config_context(array_api_dispatch=True):
        with pytest.raises(TypeError, match=match):
            fit(there, y, basis=distance)
        with pytest.raises(TypeError, match=match):
            fitted.predict(there)
