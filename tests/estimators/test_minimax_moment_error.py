"""Bounds that hold for all moments near the estimated ones: CVXPY, worst cases, what they cost."""

import warnings

import numpy as np
import pytest

from grayzone import MinimaxProbabilityMachine, SparseMinimaxProbabilityMachine
from grayzone.solvers.minimax.aims import Aim, moment_errors
from grayzone.solvers.minimax.direction import bound_of


def data(n=80, d=3, seed=0):
    """Two normal classes of different covariances, and of 2 : 1 rows."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 3 == 0).astype(int)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 1.5 * y[:, None] * rng.normal(size=d)
    X[y == 1] *= rng.uniform(0.5, 2.0, size=d)
    return X, y


def exact(X, y, **parameters):
    return MinimaxProbabilityMachine(cv=None, **parameters).fit(X, y)


def moments(X, y):
    """Means and covariances of the classes y and x, and the diagonal that rho is a share of."""
    means = [X[y == k].mean(axis=0) for k in (0, 1)]
    sigmas = [np.atleast_2d(np.cov(X[y == k].T, ddof=0)) for k in (0, 1)]
    return means, sigmas, 0.5 * (np.diag(sigmas[0]) + np.diag(sigmas[1]))


def cvxpy_bound(X, y, nu, rho, reg):
    """The robust problem as Lanckriet et al. (2002) write it: a second-order cone program."""
    cp = pytest.importorskip("cvxpy")
    means, sigmas, diagonal = moments(X, y)
    a = cp.Variable(X.shape[1])
    roots = [np.linalg.cholesky(s + np.diag((rho + reg) * diagonal)).T for s in sigmas]
    objective = cp.norm(roots[0] @ a) + cp.norm(roots[1] @ a)
    program = cp.Problem(cp.Minimize(objective), [(means[1] - means[0]) @ a == 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
    kappa = 1.0 / program.value - nu
    return kappa**2 / (1.0 + kappa**2) if kappa > 0.0 else 0.0


@pytest.mark.parametrize("nu", [0.0, 0.1, 0.4, 5.0])
@pytest.mark.parametrize("rho", [0.0, 0.05, 1.0])
def test_the_bound_is_that_of_a_conic_solver(nu, rho):
    for seed in range(3):
        X, y = data(seed=seed)
        found = exact(X, y, moment_error=(nu, rho), covariance_reg=1e-3)
        wanted = cvxpy_bound(X, y, nu, rho, 1e-3)
        assert found.accuracy_bound_ == pytest.approx(wanted, abs=1e-8)
        assert wanted == 0.0 if nu == 5.0 else nu > 0.3 or wanted > 0.0
        assert found.kkt_residual_ < 1e-9


def worst_kappa(found, mean, sigma, diagonal, nu, rho, sign, rng):
    """Least distance from the threshold, in standard deviations, of many moments of the set.

    Covariances are the estimate plus a symmetric matrix of Frobenius norm rho, in the units of the
    features, means are on the surface of the ellipsoid of that covariance. The last ones are those
    that the proof says are worst.
    """
    a, b, units = found.coef_[0], -found.intercept_[0], np.sqrt(diagonal)
    d = mean.size
    kappas = []
    for trial in range(200):
        if trial < 199:
            change = rng.normal(size=(d, d))
            change = (change + change.T) * rng.uniform() ** 0.2
        else:
            change = np.outer(a * units, a * units)
        change *= rho / np.linalg.norm(change)
        s = sigma + units[:, None] * change * units
        if np.linalg.eigvalsh(s)[0] <= 0.0:
            continue
        toward = -sign * s @ a if trial >= 150 else np.linalg.cholesky(s) @ rng.normal(size=d)
        step = toward / np.sqrt(toward @ np.linalg.solve(s, toward))
        kappas.append(sign * (a @ (mean + nu * step) - b) / np.sqrt(a @ s @ a))
    return np.array(kappas)


@pytest.mark.parametrize("errors", [(0.2, 0.1), {0: (0.1, 0.3), 1: (0.3, 0.0)}, 0.25])
@pytest.mark.parametrize("more", [{}, {"costs": {0: 1.0, 1: 4.0}}, {"required_bound": {1: 0.6}}])
def test_no_moments_of_the_set_break_the_bounds(errors, more):
    rng = np.random.default_rng(1)
    for seed in range(3):
        X, y = data(seed=seed)
        X[y == 1] += 2.0 * np.sign(X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0))
        found = exact(X, y, moment_error=errors, covariance_reg=0.0, **more)
        means, sigmas, diagonal = moments(X, y)
        nus, rhos = moment_errors(errors, [0, 1])
        for k, sign in ((0, -1.0), (1, 1.0)):
            seen = worst_kappa(found, means[k], sigmas[k], diagonal, nus[k], rhos[k], sign, rng)
            assert bound_of(seen.min()) >= found.class_bounds_[k] - 1e-9
            # and the bound is the worst of them: nothing is given away
            assert bound_of(seen[-1]) == pytest.approx(found.class_bounds_[k], abs=1e-9)


def test_a_distribution_attains_the_bound():
    """Two points with the worst moments are wrong just as often as the bound allows."""
    X, y = data()
    X[y == 1] += 3.0
    nu = 0.3
    found = exact(X, y, moment_error=nu, covariance_reg=0.0)
    scores = found.decision_function(X)
    deviation = scores[y == 1].std()
    mean = scores[y == 1].mean() - nu * deviation
    p = 1.0 - found.class_bounds_[1]
    # one atom on the threshold, the other beyond the mean: mean and variance decide both
    other = mean + deviation * np.sqrt(p / (1.0 - p))
    on = mean - deviation * np.sqrt((1.0 - p) / p)
    assert on == pytest.approx(0.0, abs=1e-9)
    assert p * on + (1.0 - p) * other == pytest.approx(mean)
    assert p * on**2 + (1.0 - p) * other**2 - mean**2 == pytest.approx(deviation**2)


def test_an_error_of_both_means_moves_no_direction():
    X, y = data()
    X[y == 1] += 2.0
    plain, careful = exact(X, y), exact(X, y, moment_error=0.4)
    np.testing.assert_allclose(careful.coef_, plain.coef_, rtol=1e-10)
    np.testing.assert_allclose(careful.intercept_, plain.intercept_, rtol=1e-10)
    kappa = np.sqrt(plain.accuracy_bound_ / (1.0 - plain.accuracy_bound_)) - 0.4
    assert careful.accuracy_bound_ == pytest.approx(bound_of(kappa), rel=1e-12)


def test_an_error_of_the_covariances_is_a_ridge():
    X, y = data()
    for kernel in ("linear", "rbf"):
        ridge = exact(X, y, kernel=kernel, covariance_reg=0.11)
        loose = exact(X, y, kernel=kernel, covariance_reg=0.01, moment_error=(0.0, 0.1))
        assert loose.accuracy_bound_ == pytest.approx(ridge.accuracy_bound_, rel=1e-12)
        assert exact(X, y, kernel=kernel).accuracy_bound_ > ridge.accuracy_bound_


def test_classes_with_errors_of_their_own_have_the_same_bound():
    X, y = data()
    X[y == 1] += 2.0
    found = exact(X, y, moment_error={0: 0.1, 1: 0.5})
    assert found.class_bounds_[0] == pytest.approx(found.class_bounds_[1], rel=1e-9)
    both = exact(X, y, moment_error=0.5), exact(X, y, moment_error=0.1)
    assert both[0].accuracy_bound_ < found.accuracy_bound_ < both[1].accuracy_bound_
    # the class whose mean is known better is left less room
    even = exact(X, y)
    assert found.intercept_[0] > even.intercept_[0]


# ------------------------------------------------------------------------- the sparse machine


def robust_bounds(found, X, y, errors):
    """Bounds of all bases' moments, from their covariances in as many dimensions as there are."""
    B = np.column_stack(
        [
            np.exp(-np.sum(gamma * (X - v) ** 2, axis=1))
            for v, gamma in zip(found.bases_, found.gammas_, strict=True)
        ]
    )
    c, b = found.dual_coef_[0], -found.intercept_[0]
    means, sigmas, diagonal = moments(B, y)
    nus, rhos = moment_errors(errors, [0, 1])
    return [
        bound_of(
            sign * (c @ means[k] - b) / np.sqrt(c @ (sigmas[k] + rhos[k] * np.diag(diagonal)) @ c)
            - nus[k]
        )
        for k, sign in ((0, -1.0), (1, 1.0))
    ]


@pytest.mark.parametrize(
    "more", [{}, {"costs": {0: 1.0, 1: 3.0}}, {"required_bound": {0: 0.4}}], ids=str
)
@pytest.mark.parametrize("errors", [(0.0, 0.05), (0.1, 0.02), {0: 0.0, 1: (0.2, 0.1)}], ids=str)
def test_theorem_1_holds_where_moments_may_be_off(errors, more):
    X, y = data(100)
    found = SparseMinimaxProbabilityMachine(
        6, moment_error=errors, cv=None, stopping=None, random_state=0, **more
    ).fit(X, y)
    wanted = robust_bounds(found, X, y, errors)
    np.testing.assert_allclose(found.class_bounds_, wanted, rtol=1e-6, atol=1e-9)
    assert found.accuracy_bound_ == min(found.class_bounds_) == found.bound_path_[-1]


def test_a_larger_error_makes_a_smaller_bound():
    X, y = data(100)
    for errors in ([0.0, 0.1, 0.3], [(0.0, 0.0), (0.0, 0.05), (0.0, 0.5)]):
        bounds = [
            SparseMinimaxProbabilityMachine(
                6, moment_error=error, cv=None, stopping=None, random_state=0
            )
            .fit(X, y)
            .accuracy_bound_
            for error in errors
        ]
        assert np.all(np.diff(bounds) < 0.0)


# ---------------------------------------------------------------------------------- bad input

BAD = {
    "negative": (-0.1, "moment_error must be >= 0; got -0.1"),
    "negative rho": ((0.1, -1.0), "moment_error must be >= 0"),
    "a word": ("much", "moment_error must be a .*number; got 'much'"),
    "nan": (float("nan"), "moment_error must be a finite number"),
    "three numbers": ((0.1, 0.2, 0.3), "or a pair of that and of how far the covariance"),
    "one class": ({0: 0.1}, r"mapping of both classes of two; the classes are \[0, 1\]"),
    "another class": ({0: 0.1, 7: 0.2}, r"mapping of both classes of two"),
    "bad of a class": ({0: 0.1, 1: -0.2}, "moment_error must be >= 0; got -0.2"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("machine", [MinimaxProbabilityMachine, SparseMinimaxProbabilityMachine])
def test_bad_errors_of_moments_are_told(machine, name):
    value, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        machine(moment_error=value).fit(*data(40))


def test_costs_of_rows_are_weighed_by_the_bounds_that_hold():
    X, y = data()
    X[y == 1] += 2.0
    costs = {0: np.ones(len(y)), 1: np.full(len(y), 6.0)}
    found = exact(X, y, moment_error=0.3)
    cut = found._row_cuts(costs, len(y))[0]
    scores = found.decision_function(X)
    aim = Aim(errors=(0.3, 0.3))
    means = [scores[y == k].mean() for k in (0, 1)]
    _, s_y, s_x, *_ = found._spread

    def cost(t):
        bounds = aim.bounds(((t - means[0]) / s_y, (means[1] - t) / s_x))
        prices = np.array([1.0, 6.0]) * np.array([np.mean(y == 0), np.mean(y == 1)])
        return prices @ (1.0 - np.array(bounds))

    grid = np.linspace(means[0], means[1], 4_001)
    assert cost(cut) == pytest.approx(min(cost(t) for t in grid), abs=1e-6)
    assert cut < 0.0


def test_an_error_beyond_all_bounds_decides_for_the_dearer_class():
    X, y = data()
    found = exact(X, y, moment_error=50.0)
    assert found.accuracy_bound_ == 0.0
    for dear in (0, 1):
        costs = {k: np.full(len(y), 5.0 if k == dear else 1.0) for k in (0, 1)}
        means = [found.decision_function(X)[y == k].mean() for k in (0, 1)]
        cut = found._row_cuts(costs, len(y))[0]
        assert abs(cut - means[1 - dear]) < 2e-3
