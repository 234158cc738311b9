"""The minimax probability machine: its optimum, what its bound means, and its manners."""

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import kernel_features
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import pairwise
from sklearn.model_selection import KFold, LeaveOneOut
from sklearn.utils import check_random_state
from state import assert_as_before, frozen

import grayzone.estimators.minimax as module
from grayzone import MinimaxProbabilityMachine
from grayzone.numerics.moments import mean_and_root
from grayzone.solvers.minimax.direction import Direction, Frontier, bound_of
from grayzone.sources.distinct import deal_folds, row_groups


def data(n=120, d=4, seed=0, apart=3.0):
    """Two classes that overlap, with covariances of their own."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    X = np.where(
        (y == 1)[:, None],
        rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + apart * rng.normal(size=d),
        rng.normal(size=(n, d)) @ rng.normal(size=(d, d)),
    )
    return X, y


def fit(X, y, sample_weight=None, **parameters):
    machine = MinimaxProbabilityMachine(**{"random_state": 0} | parameters)
    return machine.fit(X, y, sample_weight=sample_weight)


def kappas(bounds):
    """Distances in standard deviations that worst-case accuracies belong to."""
    return np.sqrt(np.asarray(bounds) / (1.0 - np.asarray(bounds)))


# ------------------------------------------------------------------ the optimum of known moments


def rooted(rank, d, rng):
    """Root of a covariance of this rank, of unit size."""
    return rng.normal(size=(rank, d)) / np.sqrt(d) if rank else np.zeros((1, d))


def well_conditioned(d, rng):
    return rng.normal(size=d), rooted(d + 2, d, rng), rooted(d + 2, d, rng)


def columns_over_eight_powers_of_ten(d, rng):
    scales = 10.0 ** rng.permutation(np.linspace(-4.0, 4.0, d))
    return tuple(part * scales for part in well_conditioned(d, rng))


def ill_conditioned(d, rng):
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0] * np.logspace(0.0, -6.0, d)
    return tuple(part @ axes.T for part in well_conditioned(d, rng))


def x_singular(d, rng):
    return rng.normal(size=d), rooted(d + 2, d, rng), rooted(d // 2, d, rng)


def y_singular(d, rng):
    return rng.normal(size=d), rooted(d // 2, d, rng), rooted(d + 2, d, rng)


def both_singular(d, rng):
    rank = -(-2 * d // 3)
    return rng.normal(size=d), rooted(rank, d, rng), rooted(rank, d, rng)


def common_null_space(d, rng):
    rank = -(-d // 2)
    span = rooted(rank, d, rng)
    return tuple(part @ span for part in well_conditioned(rank, rng))


KINDS = [
    well_conditioned,
    columns_over_eight_powers_of_ten,
    ill_conditioned,
    x_singular,
    y_singular,
    both_singular,
    common_null_space,
]
DIMENSIONS = [1, 2, 5, 20, 50, 100, 200]
RATIOS = [0.01, 1.0, 30.0]


@cache
def moments(kind, d):
    """Difference of the means, roots of the covariances of y and x."""
    return kind(d, np.random.default_rng(1000 * d + KINDS.index(kind)))


@cache
def frontier_of(kind, d):
    return Frontier(*moments(kind, d))


@cache
def direction(kind, d, ratio):
    return frontier_of(kind, d).at(ratio)


def criterion(found, ratio):
    return ratio * found.deviations[1] + found.deviations[0]


def in_common_span(difference, root_y, root_x):
    """The same in units of the features, and in coordinates of where anything varies."""
    roots = np.concatenate([root_y, root_x])
    units = np.linalg.norm(roots, axis=0)
    units[units == 0.0] = 1.0
    _, sizes, axes = np.linalg.svd(roots / units, full_matrices=False)
    axes = axes[sizes > 1e-12 * sizes[0]].T
    return difference / units @ axes, root_y / units @ axes, root_x / units @ axes


@cache
def conic_optimum(kind, d, ratio):
    """m by CVXPY and Clarabel, of norms of roots times a."""
    cp = pytest.importorskip("cvxpy")
    difference, *roots = in_common_span(*moments(kind, d))
    root_y, root_x = (np.linalg.qr(root, mode="r") for root in roots)
    unit = np.linalg.norm(difference)
    a = cp.Variable(difference.size)
    objective = (ratio * cp.norm(root_x @ a) + cp.norm(root_y @ a)) / max(ratio, 1.0)
    program = cp.Problem(cp.Minimize(objective), [(difference / unit) @ a == 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its doubts about accuracy: values are compared
        program.solve(
            solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13, max_iter=200
        )
    a = a.value / (difference @ a.value)
    return ratio * np.linalg.norm(root_x @ a) + np.linalg.norm(root_y @ a)


def dual_bound(kind, d, ratio, coef):
    """Lower bound of m from the direction itself.

    Any u, v of norms up to 1 with r Rx'u + Ry'v = b (x - y) bound m by b. At the optimum they are
    the directions of Rx a and Ry a; a class without variance along a leaves its own free.
    """
    difference, root_y, root_x = moments(kind, d)
    units = np.linalg.norm(np.concatenate([root_y, root_x]), axis=0)
    units[units == 0.0] = 1.0
    difference, parts = difference / units, [ratio * root_x / units, root_y / units]
    images = [part @ (coef * units) for part in parts]
    sizes = [np.linalg.norm(image) for image in images]
    m = sum(sizes)
    duals = [image / max(size, 1e-300) for image, size in zip(images, sizes, strict=True)]
    free = int(np.argmin(sizes))
    if sizes[free] < 1e-8 * m:
        left = m * difference - parts[1 - free].T @ duals[1 - free]
        duals[free] = np.linalg.lstsq(parts[free].T, left, rcond=1e-13)[0]
    # the condition is met exactly in coordinates in which both covariances sum to 1
    both, dual = np.concatenate(parts), np.concatenate(duals)
    left, widths, axes = np.linalg.svd(both, full_matrices=False)
    kept = widths > 1e-12 * widths[0]
    left, white = left[:, kept], (axes @ difference)[kept] / widths[kept]
    for _ in range(3):
        level = white @ (left.T @ dual) / (white @ white)
        dual = dual - left @ (left.T @ dual - level * white)
    error = both.T @ dual - level * difference
    assert np.linalg.norm(error) <= 1e-12 * level * np.linalg.norm(difference)
    n = len(root_x)
    return level / max(np.linalg.norm(dual[:n]), np.linalg.norm(dual[n:]))


CASES = [
    (kind, d)
    for kind in KINDS
    for d in DIMENSIONS
    # one dimension in which nothing varies has no optimum to compare
    if d > 1 or kind not in (both_singular, common_null_space)
]


def by_case(test):
    ids = [f"{kind.__name__}-{d}" for kind, d in CASES]
    return pytest.mark.parametrize(("kind", "d"), CASES, ids=ids)(test)


@by_case
def test_linear_optimum_is_that_of_a_conic_solver(kind, d):
    for ratio in RATIOS:
        m = criterion(direction(kind, d, ratio), ratio)
        assert m == pytest.approx(conic_optimum(kind, d, ratio), rel=1e-9, abs=0.0), ratio


@by_case
def test_linear_optimum_is_certified_by_its_dual(kind, d):
    for ratio in RATIOS:
        found = direction(kind, d, ratio)
        m = criterion(found, ratio)
        lower = dual_bound(kind, d, ratio, found.coef)
        assert lower <= m * (1.0 + 1e-9), ratio
        assert m <= lower * (1.0 + 1e-9), ratio


@by_case
def test_residual_of_the_optimum_is_rounding(kind, d):
    for ratio in RATIOS:
        assert direction(kind, d, ratio).residual <= 1e-10, ratio


@by_case
def test_deviations_and_bounds_are_those_of_the_direction(kind, d):
    difference, root_y, root_x = moments(kind, d)
    for ratio in RATIOS:
        found = direction(kind, d, ratio)
        assert found.coef @ difference == pytest.approx(1.0, rel=1e-9)
        m = criterion(found, ratio)
        for told, root in zip(found.deviations, (root_y, root_x), strict=True):
            assert np.linalg.norm(root @ found.coef) == pytest.approx(told, rel=1e-9, abs=1e-9 * m)
        np.testing.assert_allclose(found.kappas, [1.0 / m, ratio / m], rtol=1e-14)
        bounds = [1.0 / (1.0 + m**2), ratio**2 / (ratio**2 + m**2)]
        np.testing.assert_allclose(found.bounds, bounds, rtol=1e-14)


class Off(Frontier):
    """A search that ends beside the optimum."""

    shift = 0.5

    def _theta(self, ratio):
        theta, rest = super()._theta(ratio)
        t = np.log(theta / rest) + self.shift
        return 1.0 / (1.0 + np.exp(-t)), 1.0 / (1.0 + np.exp(t))


def optimality(coef, difference, sigma_y, sigma_x, ratio):
    """Relative size of r Sx a / s_x + Sy a / s_y - m d, in the metric of (Sx + Sy)^-1."""
    s_y, s_x = np.sqrt(coef @ sigma_y @ coef), np.sqrt(coef @ sigma_x @ coef)
    m = ratio * s_x + s_y
    left = ratio * sigma_x @ coef / s_x + sigma_y @ coef / s_y - m * difference
    metric = np.linalg.pinv(sigma_x + sigma_y)
    return np.sqrt(left @ metric @ left / (difference @ metric @ difference)) / m


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("d", [2, 5, 20, 100])
def test_residual_is_large_beside_the_optimum(d, ratio):
    difference, root_y, root_x = moments(well_conditioned, d)
    off = Off(difference, root_y, root_x).at(ratio)
    assert off.coef @ difference == pytest.approx(1.0, rel=1e-12)
    assert off.residual > 1e-3
    by_hand = optimality(off.coef, difference, root_y.T @ root_y, root_x.T @ root_x, ratio)
    assert off.residual == pytest.approx(by_hand, rel=1e-6)


def test_residual_tells_how_far_the_optimum_is():
    difference, root_y, root_x = moments(well_conditioned, 5)
    optimum = criterion(direction(well_conditioned, 5, 1.0), 1.0)
    residuals, excesses = [], []
    for shift in (1e-1, 1e-2, 1e-3, 1e-4):
        frontier = Off(difference, root_y, root_x)
        frontier.shift = shift
        found = frontier.at(1.0)
        residuals.append(found.residual)
        excesses.append(criterion(found, 1.0) / optimum - 1.0)
    residuals, excesses = np.array(residuals), np.array(excesses)
    # of first order in the distance, where the criterion is of second
    np.testing.assert_allclose(residuals[1:] / residuals[:-1], 0.1, rtol=0.2)
    np.testing.assert_allclose(excesses[1:3] / excesses[:2], 0.01, rtol=0.2)


def test_residual_at_a_kink_that_is_not_the_optimum():
    difference, root_y, root_x = moments(x_singular, 20)
    optimum = direction(x_singular, 20, 0.01)
    assert optimum.deviations[1] > 0.01 * optimum.deviations[0]

    class Kink(Frontier):
        def _theta(self, ratio):
            return 1e-100, 1.0

    kink = Kink(difference, root_y, root_x).at(0.01)
    assert kink.deviations[1] < 1e-12 * kink.deviations[0]
    assert criterion(kink, 0.01) > 1.001 * criterion(optimum, 0.01)
    assert kink.residual > 1e-3


def test_a_kink_that_is_the_optimum():
    # class x varies along the first feature only: across it there is nothing to pay for x
    found = Frontier(np.ones(2), np.eye(2), np.array([[100.0, 0.0]])).at(1.0)
    np.testing.assert_allclose(found.coef, [0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(found.deviations, [1.0, 0.0], atol=1e-12)
    assert found.residual <= 1e-12


@pytest.mark.parametrize("share", [1e-3, 0.5, 2.0, 1e3])
def test_equal_covariances_give_the_discriminant_of_fisher(share):
    difference, root, _ = moments(well_conditioned, 20)
    found = Frontier(difference, root, share * root).at(1.0)
    fisher = np.linalg.solve(root.T @ root, difference)
    np.testing.assert_allclose(found.coef, fisher / (difference @ fisher), rtol=1e-9)
    m = (1.0 + share) / np.sqrt(difference @ fisher)
    assert found.kappas[0] == pytest.approx(1.0 / m, rel=1e-12)


def test_along_the_frontier_one_bound_rises_and_the_other_falls():
    frontier = frontier_of(well_conditioned, 5)
    found = np.array([frontier.at(r).kappas for r in np.logspace(-6.0, 6.0, 100)])
    assert np.all(np.diff(found[:, 0]) < 0.0)
    assert np.all(np.diff(found[:, 1]) > 0.0)
    # to where the other class has no say: the distances of Mahalanobis
    difference, *roots = moments(well_conditioned, 5)
    ends = [np.sqrt(difference @ np.linalg.solve(r.T @ r, difference)) for r in roots]
    np.testing.assert_allclose([found[0, 0], found[-1, 1]], ends, rtol=1e-5)


@pytest.mark.parametrize(
    ("kappa", "bound"),
    [
        (np.inf, 1.0),
        (1e200, 1.0),
        (3.0, 0.9),
        (1.0, 0.5),
        (1e-3, 1e-6 / (1.0 + 1e-6)),
        (1e-170, 0.0),
        (0.0, 0.0),
        (-0.0, 0.0),
        (-2.0, 0.0),
        (-np.inf, 0.0),
    ],
)
def test_bound_of_a_distance(kappa, bound):
    assert bound_of(kappa) == pytest.approx(bound, rel=1e-15, abs=1e-300)


# ------------------------------------------------------------------------- moments of the data


@pytest.mark.parametrize("n", [50, 8192, 20_000])
@pytest.mark.parametrize("form", [np.asarray, np.float32, sp.csr_array])
def test_mean_and_root_of_a_covariance(n, form):
    rng = np.random.default_rng(0)
    X = np.array([0.0, 1.0, -2.0]) + rng.normal(size=(n, 3))
    X = X.astype(np.float32).astype(float)
    weight = rng.uniform(0.1, 2.0, size=n)
    mean, root = mean_and_root(form(X), weight)
    assert mean.dtype == root.dtype == np.float64
    np.testing.assert_allclose(mean, np.average(X, axis=0, weights=weight), rtol=1e-12)
    expected = np.cov(X.T, aweights=weight, ddof=0)
    np.testing.assert_allclose(root.T @ root, expected, rtol=1e-11, atol=1e-13)


def test_roots_keep_what_covariances_lose():
    rng = np.random.default_rng(0)
    base, tiny = rng.normal(size=(2, 1000))
    _, root = mean_and_root(np.column_stack([base, base + 1e-10 * tiny]), np.ones(1000))
    along = np.linalg.norm(root @ [-1.0, 1.0])
    # the entries are rounded at 1e-16
    assert along == pytest.approx(1e-10 * tiny.std(), rel=1e-5)


def test_fewer_rows_than_features():
    X = np.random.default_rng(0).normal(size=(3, 10))
    mean, root = mean_and_root(X, np.ones(3))
    np.testing.assert_allclose(root.T @ root, np.cov(X.T, ddof=0), atol=1e-14)
    assert len(root) <= 3
    assert mean.shape == (10,)


# ------------------------------------------------------------------- the machine on data


def rows_with_moments(mean, root):
    """Rows, of equal weight, of exactly this mean and covariance R'R."""
    spread = np.sqrt(len(root)) * root
    return np.concatenate([mean + spread, mean - spread])


def known_classes(d=3, seed=0, apart=2.0):
    """Mean and root of a covariance of the classes y and x."""
    rng = np.random.default_rng(seed)
    return [(code * apart * rng.normal(size=d), rng.normal(size=(d, d))) for code in (0, 1)]


def fit_known(classes, **parameters):
    """A machine fitted to data with these moments, as if they were known."""
    rows = [rows_with_moments(*part) for part in classes]
    y = np.repeat([0, 1], [len(part) for part in rows])
    return fit(np.concatenate(rows), y, **{"covariance_reg": 0.0, "cv": None} | parameters)


@pytest.mark.parametrize("d", [1, 2, 5, 20, 100])
def test_the_machine_has_the_optimum_of_its_moments(d):
    difference, root_y, root_x = moments(columns_over_eight_powers_of_ten, d)
    found = fit_known([(np.zeros(d), root_y), (difference, root_x)])
    m = conic_optimum(columns_over_eight_powers_of_ten, d, 1.0)
    assert found.accuracy_bound_ == pytest.approx(1.0 / (1.0 + m**2), rel=1e-9)
    assert found.kkt_residual_ <= 1e-10


def settings_of_moments(X, y, weight, reg):
    """Means and covariances with their ridge, by NumPy's own functions."""
    parts = [
        (
            np.average(X[y == code], axis=0, weights=weight[y == code]),
            np.cov(X[y == code].T, aweights=weight[y == code], ddof=0),
        )
        for code in (0, 1)
    ]
    ridge = reg * np.diag(0.5 * (np.diag(parts[0][1]) + np.diag(parts[1][1])))
    return [(mean, sigma + ridge) for mean, sigma in parts]


COSTED = {
    "alike": {},
    "without ridge": {"covariance_reg": 0.0},
    "costs": {"costs": {0: 1.0, 1: 4.0}, "cv": None},
    "balanced": {"costs": "balanced", "covariance_reg": 0.1, "cv": None},
    "required": {"required_bound": {0: 0.6}},
}


@pytest.mark.parametrize("name", COSTED)
def test_residual_threshold_and_bounds_from_the_data_by_hand(name):
    X, y = data()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=120)
    found = fit(X, y, weight, **COSTED[name])
    reg = found.covariance_reg
    (mean_y, sigma_y), (mean_x, sigma_x) = settings_of_moments(X, y, weight, reg)
    a = found.coef_[0]
    s_y, s_x = np.sqrt(a @ sigma_y @ a), np.sqrt(a @ sigma_x @ a)
    assert a @ (mean_x - mean_y) == pytest.approx(1.0, rel=1e-12)
    # b lies kappa standard deviations from either mean, eq. (5)
    threshold = -found.intercept_[0]
    np.testing.assert_allclose(
        kappas(found.class_bounds_),
        [(threshold - a @ mean_y) / s_y, (a @ mean_x - threshold) / s_x],
        rtol=1e-9,
    )
    assert found.accuracy_bound_ == found.class_bounds_.min()
    by_class = kappas(found.class_bounds_)
    ratio = by_class[1] / by_class[0]
    assert found.kkt_residual_ <= 1e-10
    assert optimality(a, mean_x - mean_y, sigma_y, sigma_x, ratio) <= 1e-9
    moved = a + 0.05 * np.linalg.norm(a) * np.random.default_rng(2).normal(size=4)
    moved /= moved @ (mean_x - mean_y)
    assert optimality(moved, mean_x - mean_y, sigma_y, sigma_x, ratio) > 1e-3


def test_without_costs_the_classes_have_one_bound():
    found = fit(*data())
    assert found.class_bounds_[0] == found.class_bounds_[1] == found.accuracy_bound_


def test_training_scores_have_the_moments_that_the_bound_tells():
    X, y = data()
    found = fit(X, y, covariance_reg=0.0)
    scores = found.decision_function(X)
    means = np.array([scores[y == 0].mean(), scores[y == 1].mean()])
    assert means[1] - means[0] == pytest.approx(1.0, rel=1e-12)
    deviations = np.array([scores[y == 0].std(), scores[y == 1].std()])
    np.testing.assert_allclose(np.abs(means) / deviations, kappas(found.class_bounds_), rtol=1e-10)
    np.testing.assert_array_equal(found.predict(X), (scores > 0.0).astype(int))


# ------------------------------------------------------------------------ what the bound means


def least_favourable(mean, root, a, kappa, side):
    """Rows and weights of these moments, 1 / (1 + kappa^2) of them kappa deviations to one side.

    Marshall & Olkin: z = mean + w Sigma a / s + rest, with w of two values, mean 0 and variance 1,
    and a rest of the remaining covariance, across a.
    """
    sigma = root.T @ root
    along = sigma @ a / np.sqrt(a @ sigma @ a)
    rest = root - np.outer(root @ a, sigma @ a) / (a @ sigma @ a)
    share = 1.0 / (1.0 + kappa**2)
    rows, weights = [], []
    for w, mass in ((side * kappa, share), (-side / kappa, 1.0 - share)):
        part = rows_with_moments(mean + w * along, rest)
        rows.append(part)
        weights.append(np.full(len(part), mass / len(part)))
    return np.concatenate(rows), np.concatenate(weights)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"costs": {0: 1.0, 1: 3.0}}, {"required_bound": {1: 0.7}}],
    ids=["alike", "costs", "required"],
)
def test_least_favourable_distributions_reach_the_bounds(d, parameters):
    classes = known_classes(d)
    known = fit_known(classes, **parameters)
    a, bounds = known.coef_[0], known.class_bounds_
    assert np.all((bounds > 0.05) & (bounds < 0.99))
    rows, weights, y = [], [], []
    for code, side in ((0, 1.0), (1, -1.0)):
        # a little beyond the threshold, on the wrong side of it
        kappa = kappas(bounds)[code] * (1.0 + 1e-7)
        part, mass = least_favourable(*classes[code], a, kappa, side)
        rows.append(part)
        weights.append(mass)
        y.append(np.full(len(part), code))
    X, w, y = map(np.concatenate, (rows, weights, y))
    found = fit(X, y, w, covariance_reg=0.0, cv=None, **parameters)
    # the moments are the same, and so is the machine
    np.testing.assert_allclose(found.class_bounds_, bounds, rtol=1e-5 if parameters else 1e-9)
    np.testing.assert_allclose(known.coef_, found.coef_, rtol=1e-4 if parameters else 1e-7)
    right = known.predict(X) == y
    for code in (0, 1):
        accuracy = np.average(right[y == code], weights=w[y == code])
        assert bounds[code] <= accuracy + 1e-12
        assert accuracy <= bounds[code] + 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_no_distribution_of_these_moments_breaks_the_bounds(seed):
    # whatever the direction that two points are spread along
    rng = np.random.default_rng(seed)
    classes = known_classes(3, seed)
    known = fit_known(classes)
    for _ in range(50):
        for code, side in ((0, 1.0), (1, -1.0)):
            a, kappa = rng.normal(size=3), np.exp(rng.uniform(-3.0, 3.0))
            X, w = least_favourable(*classes[code], a, kappa, side * rng.choice([-1.0, 1.0]))
            accuracy = np.average(known.predict(X) == code, weights=w)
            assert accuracy >= known.class_bounds_[code] - 1e-12


@pytest.mark.parametrize("parameters", [{}, {"costs": {0: 1.0, 1: 3.0}}], ids=["alike", "costs"])
def test_gaussian_classes_do_better_than_the_bounds(parameters):
    classes = known_classes(3)
    known = fit_known(classes, **parameters)
    rng = np.random.default_rng(0)
    for code, (mean, root) in enumerate(classes):
        X = mean + rng.normal(size=(20_000, 3)) @ root
        accuracy = np.mean(known.predict(X) == code)
        exactly = norm.cdf(kappas(known.class_bounds_)[code])
        assert exactly > known.class_bounds_[code]
        assert accuracy == pytest.approx(exactly, abs=4.0 * 0.5 / np.sqrt(20_000))


# -------------------------------------------------------------------- classes of unequal weight


def plane_directions(classes, angles):
    """Directions with a'(x - y) = 1 and the deviations of y and x along them."""
    (mean_y, root_y), (mean_x, root_x) = classes
    a = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    along = a @ (mean_x - mean_y)
    a = np.where(along[..., None] > 1e-9, a / np.where(along > 1e-9, along, 1.0)[..., None], np.nan)
    return a, *(np.linalg.norm(a @ root.T, axis=-1) for root in (root_y, root_x))


def refined(objective, angles):
    """Maximum of a function of the angle: a grid, then a search around the best of it."""
    values = np.nan_to_num(objective(angles), nan=-np.inf)
    best = angles[np.argmax(values)]
    step = angles[1] - angles[0]
    found = minimize_scalar(
        lambda angle: -objective(np.array(angle)),
        bounds=(best - step, best + step),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return -found.fun


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("asked", [0.05, 0.3, 0.5, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_a_required_bound_is_met_and_the_other_is_the_largest(place, asked, seed):
    classes = known_classes(2, seed)
    kappa = kappas(asked)

    def other(angles):
        _, *deviations = plane_directions(classes, angles)
        return (1.0 - kappa * deviations[place]) / deviations[1 - place]

    best = refined(other, np.linspace(0.0, 2.0 * np.pi, 3001))
    if best <= 0.0:
        with pytest.raises(ValueError, match="cannot be met"):
            fit_known(classes, required_bound={place: asked})
        return
    found = fit_known(classes, required_bound={place: asked})
    assert found.class_bounds_[place] == pytest.approx(asked, rel=1e-10)
    assert kappas(found.class_bounds_)[1 - place] == pytest.approx(best, rel=1e-8)
    assert found.accuracy_bound_ == found.class_bounds_.min()


@pytest.mark.parametrize("place", [0, 1])
def test_a_required_bound_that_no_direction_has(place):
    classes = known_classes(3)
    (mean_y, root_y), (mean_x, root_x) = classes
    root = (root_y, root_x)[place]
    square = (mean_x - mean_y) @ np.linalg.solve(root.T @ root, mean_x - mean_y)
    most = square / (1.0 + square)
    with pytest.raises(ValueError, match="cannot be met") as caught:
        fit_known(classes, required_bound={place: most * 1.001})
    assert f"more than {most:.4g}." in str(caught.value)
    # but just below it is attained
    found = fit_known(classes, required_bound={place: most * 0.999})
    assert found.class_bounds_[place] == pytest.approx(most * 0.999, rel=1e-10)
    assert 0.0 < found.class_bounds_[1 - place] < 0.02


def test_a_required_bound_goes_by_label():
    X, y = data()
    found = fit(X, np.array(["ill", "well"])[y], required_bound={"ill": 0.6})
    assert found.classes_.tolist() == ["ill", "well"]
    assert found.class_bounds_[0] == pytest.approx(0.6, rel=1e-10)


PRICES = {
    "mapping": {0: 1.0, 1: 3.0},
    "the other way": {0: 2.5, 1: 1.0},
    "alike": {0: 1.0, 1: 1.0},
    "balanced": "balanced",
    "matrix": [[0.5, 2.0], [5.0, 1.0]],
}


def check_costs(name, classes):
    """Least expected cost in the worst case, by brute force over directions and thresholds."""
    rows = [rows_with_moments(*part) for part in classes]
    X, y = np.concatenate(rows), np.repeat([0, 1], [4, 4])
    weight = np.where(y == 1, 0.5, 1.0)  # priors of 2/3 and 1/3
    found = fit(X, y, weight, costs=PRICES[name], covariance_reg=0.0, cv=None)
    if name == "balanced":
        cost = np.array([[0.0, 0.75], [1.5, 0.0]])
    elif name == "matrix":
        cost = np.array(PRICES[name])
    else:
        cost = np.array([[0.0, PRICES[name][0]], [PRICES[name][1], 0.0]])
    np.testing.assert_allclose(found.cost_matrix_, cost, rtol=1e-14)
    prior = np.array([2.0 / 3.0, 1.0 / 3.0])

    def expected(bounds):
        """Cost when each class is wrong as often as it may be; over the last axis."""
        wrong = 1.0 - np.stack(bounds, axis=-1)
        return wrong @ (prior * cost[[0, 1], [1, 0]]) + (1.0 - wrong) @ (prior * np.diag(cost))

    def brute(angles, places):
        """Thresholds at these places between the projected means, 0 and 1."""
        _, s_y, s_x = plane_directions(classes, angles)
        return expected([k**2 / (1.0 + k**2) for k in (places / s_y, (1.0 - places) / s_x)])

    angles, places = np.meshgrid(
        np.linspace(0.0, 2.0 * np.pi, 721), np.linspace(0.0, 1.0, 201), indexing="ij"
    )
    values = np.nan_to_num(brute(angles, places), nan=np.inf)
    start = np.unravel_index(np.argmin(values), values.shape)
    best = minimize(
        lambda p: float(brute(np.array(p[0]), np.array(np.clip(p[1], 0.0, 1.0)))),
        [angles[start], places[start]],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 2000},
    ).fun
    # the ratio is found to 1e-5, of which the cost feels the square
    assert float(expected(list(found.class_bounds_))) <= best * (1.0 + 1e-8)
    return found.class_bounds_


@pytest.mark.parametrize("name", PRICES)
@pytest.mark.parametrize("seed", [0, 1])
def test_costs_minimise_the_expected_cost_of_the_worst_case(name, seed):
    assert np.all(check_costs(name, known_classes(2, seed, apart=3.0)) > 0.1)


@pytest.mark.parametrize("name", PRICES)
def test_costs_that_are_least_with_no_bound_for_one_class(name):
    assert np.any(check_costs(name, known_classes(2, 2, apart=3.0)) < 1e-3)


def test_dearer_errors_get_the_larger_bound():
    X, y = data()
    found = [
        fit(X, y, costs={0: 1.0, 1: c}, cv=None).class_bounds_ for c in (0.25, 0.5, 1.0, 2.0, 4.0)
    ]
    assert np.all(np.diff(np.array(found)[:, 1]) > 0.0)
    assert np.all(np.diff(np.array(found)[:, 0]) < 0.0)


# -------------------------------------------------------------------------------------- ridge


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_more_ridge_means_a_lower_bound(kernel):
    X, y = data()
    regs = [1e-6, 1e-4, 1e-2, 1.0, 100.0]
    bounds = [fit(X, y, kernel=kernel, covariance_reg=reg).accuracy_bound_ for reg in regs]
    assert np.all(np.diff(bounds) < 0.0)
    assert fit(X, y, kernel=kernel, covariance_reg=0.0).accuracy_bound_ > bounds[0]


def test_the_ridge_is_a_share_of_each_feature():
    X, y = data()
    found = fit(X, y, covariance_reg=0.3)
    parts = settings_of_moments(X, y, np.ones(120), 0.3)
    roots = [np.linalg.cholesky(sigma).T for _, sigma in parts]
    expected = Frontier(parts[1][0] - parts[0][0], *roots).at(1.0)
    assert found.accuracy_bound_ == pytest.approx(expected.bounds[0], rel=1e-10)
    np.testing.assert_allclose(found.coef_[0], expected.coef, rtol=1e-7)


# -------------------------------------------------------------------------------- invariances


@pytest.mark.parametrize("parameters", COSTED.values(), ids=COSTED)
def test_units_of_the_features_make_no_difference(parameters):
    X, y = data()
    scales = np.array([1e-4, 1.0, 1e4, 37.0])
    plain, scaled = (fit(rows, y, **parameters) for rows in (X, X * scales))
    np.testing.assert_allclose(scaled.class_bounds_, plain.class_bounds_, rtol=1e-9)
    np.testing.assert_allclose(scaled.coef_ * scales, plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(scaled.intercept_, plain.intercept_, rtol=1e-6)


def test_a_rotation_makes_no_difference_without_ridge():
    X, y = data()
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
    plain, turned = (fit(rows, y, covariance_reg=0.0) for rows in (X, X @ turn))
    assert turned.accuracy_bound_ == pytest.approx(plain.accuracy_bound_, rel=1e-9)
    np.testing.assert_allclose(turned.coef_, plain.coef_ @ turn, rtol=1e-6)


def test_labels_may_be_exchanged():
    X, y = data()
    plain, turned = fit(X, y), fit(X, 1 - y)
    assert turned.accuracy_bound_ == pytest.approx(plain.accuracy_bound_, rel=1e-10)
    np.testing.assert_allclose(turned.coef_, -plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(
        turned.decision_function(X), -plain.decision_function(X), rtol=0.0, atol=1e-7
    )
    swapped = fit(X, 1 - y, costs={1: 1.0, 0: 3.0})
    np.testing.assert_allclose(
        swapped.class_bounds_[::-1], fit(X, y, costs={0: 1.0, 1: 3.0}).class_bounds_, rtol=1e-5
    )


# ------------------------------------------------------------------------------------- kernels


def kernel_values(X, Z, name):
    if name == "rbf":
        return pairwise.rbf_kernel(X, Z, gamma=0.3)
    if name == "poly":
        return pairwise.polynomial_kernel(X, Z, gamma=0.3, degree=2, coef0=1.5)
    if name == "laplacian":
        return pairwise.laplacian_kernel(X, Z, gamma=0.3)
    return X @ Z.T


NAMED = {"kernel": "rbf", "gamma": 0.3, "degree": 2, "coef0": 1.5}


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian"])
def test_a_kernel_is_its_matrix(name):
    X, y = data()
    new = np.random.default_rng(5).normal(size=(30, 4))
    by_name = fit(X, y, **NAMED | {"kernel": name})
    by_matrix = fit(kernel_values(X, X, name), y, kernel="precomputed")
    assert by_name.accuracy_bound_ == pytest.approx(by_matrix.accuracy_bound_, rel=1e-8)
    np.testing.assert_allclose(
        by_name.decision_function(new),
        by_matrix.decision_function(kernel_values(new, X, name)),
        rtol=0.0,
        atol=1e-6,
    )
    by_function = fit(X, y, kernel=lambda A, B: kernel_values(A, B, name))
    np.testing.assert_allclose(
        by_function.decision_function(new), by_name.decision_function(new), rtol=0.0, atol=1e-6
    )


@pytest.mark.parametrize("name", ["rbf", "poly", "laplacian", "linear"])
@pytest.mark.parametrize("reg", [1e-3, 0.1])
def test_a_kernel_machine_is_the_linear_one_on_its_features(name, reg):
    X, y = data(80)
    K = kernel_values(X, X, name)
    found = fit(K, y, kernel="precomputed", covariance_reg=reg)
    Z = kernel_features(K)  # by eigenvalues, where the machine has a triangular factor
    parts = [Z[y == code] for code in (0, 1)]
    centred = [(part - part.mean(axis=0)) / np.sqrt(len(part)) for part in parts]
    total = 0.5 * sum(np.sum(part**2) for part in centred)
    ridge = np.sqrt(reg * total) * np.eye(Z.shape[1])
    roots = [np.concatenate([part, ridge]) for part in centred]
    best = Frontier(parts[1].mean(axis=0) - parts[0].mean(axis=0), *roots).at(1.0)
    assert found.accuracy_bound_ == pytest.approx(best.bounds[0], rel=1e-7)
    assert found.kkt_residual_ <= 1e-10
    scores = Z @ best.coef
    scores -= best.coef @ parts[1].mean(axis=0) - best.reach
    np.testing.assert_allclose(found.decision_function(K), scores, rtol=0.0, atol=1e-4)


def test_scores_are_a_sum_over_the_training_rows():
    X, y = data()
    found = fit(X, y, **NAMED)
    new = np.random.default_rng(5).normal(size=(30, 4))
    assert found.dual_coef_.shape == (1, 120)
    assert not hasattr(found, "coef_")
    expected = kernel_values(new, X, "rbf") @ found.dual_coef_[0] + found.intercept_[0]
    size = np.abs(found.dual_coef_).sum()
    np.testing.assert_allclose(found.decision_function(new), expected, rtol=0.0, atol=1e-14 * size)


@pytest.mark.parametrize("reg", [0.0, 1e-12])
@pytest.mark.parametrize("coef0", [0.0, 1.0])
def test_the_linear_kernel_by_way_of_all_rows(reg, coef0):
    # the ridge is another one: hardly any of it
    X, y = data()
    linear = fit(X, y, covariance_reg=reg)
    by_matrix = fit(X @ X.T + coef0, y, kernel="precomputed", covariance_reg=reg)
    poly = fit(X, y, kernel="poly", degree=1, gamma=1.0, coef0=coef0, covariance_reg=reg)
    for found in (by_matrix, poly):
        assert found.accuracy_bound_ == pytest.approx(linear.accuracy_bound_, rel=1e-8)
    scores = linear.decision_function(X)
    np.testing.assert_allclose(by_matrix.decision_function(X @ X.T + coef0), scores, atol=1e-6)
    np.testing.assert_allclose(poly.decision_function(X), scores, atol=1e-6)
    np.testing.assert_allclose((poly.dual_coef_ @ X)[0], linear.coef_[0], rtol=0.0, atol=1e-6)


def test_a_kernel_without_ridge_separates_and_says_nothing():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
    found = fit(X, y, kernel="rbf", gamma=5.0, covariance_reg=0.0)
    assert found.accuracy_bound_ > 0.999
    assert found.held_out_bound_ < 0.5
    assert fit(X, y, kernel="rbf", gamma=5.0, covariance_reg=0.1).accuracy_bound_ < 0.9


def test_widths_of_the_kernel_are_those_of_scikit_learn():
    X, y = data()
    for gamma, width in (("scale", 1.0 / (4 * X.var())), ("auto", 0.25)):
        named, given = (fit(X, y, kernel="rbf", gamma=g) for g in (gamma, width))
        assert named.accuracy_bound_ == pytest.approx(given.accuracy_bound_, rel=1e-9)


@pytest.mark.parametrize("coef0", [-5.0, 0.0, 1.0])
def test_a_kernel_that_is_none_still_gives_scores_that_belong_to_their_bound(coef0):
    # tanh is not positive definite: functions of fewer rows are left
    X, y = data()
    found = fit(X, y, kernel="sigmoid", gamma=0.1, coef0=coef0, covariance_reg=0.0, cv=None)
    scores = found.decision_function(X)
    means, deviations = (
        np.array([moment(scores[y == code]) for code in (0, 1)]) for moment in (np.mean, np.std)
    )
    np.testing.assert_allclose(np.abs(means) / deviations, kappas(found.class_bounds_), rtol=1e-4)


def test_a_kernel_of_nothing_but_negative_squares_is_told():
    X, y = data(20)
    with pytest.raises(ValueError, match="positive"):
        fit(X, y, kernel="sigmoid", gamma=0.1, coef0=-1e3)
    with pytest.raises(ValueError, match="positive"):
        fit(-np.eye(20), y, kernel="precomputed")


# ------------------------------------------------------------------------------ degenerate data

XOR = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]), np.array([0, 0, 1, 1])


def copies_in_both_classes(seed=0):
    """The same rows in either class, in another order: means are the same up to rounding."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, 3))
    return np.concatenate([rows, rows[rng.permutation(30)]]), np.repeat([0, 1], 30)


EQUAL_MEANS = {
    "exactly": XOR,
    "up to rounding": copies_in_both_classes(),
    "no variance": (np.zeros((8, 2)), np.arange(8) % 2),
}


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
@pytest.mark.parametrize("name", EQUAL_MEANS)
def test_equal_means_are_told_and_bound_nothing(name, kernel):
    X, y = EQUAL_MEANS[name]
    rows = X if kernel == "linear" else X @ X.T
    with pytest.warns(UserWarning, match="same mean.*the bound is 0") as caught:
        found = fit(rows, y, kernel=kernel)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert found.accuracy_bound_ == 0.0
    assert found.class_bounds_.tolist() == [0.0, 0.0]
    assert np.all(np.isfinite(found.decision_function(rows)))
    assert not found.held_out_bound_ > 0.0


def test_equal_means_in_a_kernel_space():
    X, y = copies_in_both_classes()
    with pytest.warns(UserWarning, match="same mean"):
        assert fit(X, y, kernel="rbf").accuracy_bound_ == 0.0


def test_a_kernel_tells_equal_means_apart():
    assert fit(*XOR, kernel="rbf").accuracy_bound_ > 0.9


def test_fewer_rows_than_features_separate():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(20, 50)), np.arange(20) % 2
    found = fit(X, y, covariance_reg=0.0)
    assert found.accuracy_bound_ == 1.0
    assert found.class_bounds_.tolist() == [1.0, 1.0]
    assert found.kkt_residual_ == 0.0
    assert found.score(X, y) == 1.0
    # no variance along the direction: half way between two points
    np.testing.assert_allclose(found.decision_function(X), y - 0.5, atol=1e-9)
    assert found.held_out_bound_ < 0.9
    assert fit(X, y).accuracy_bound_ < 1.0


@pytest.mark.parametrize("unit", [1e-12, 1e-8, 1.0, 1e8])
@pytest.mark.parametrize("place", [0, 2])
def test_a_feature_that_is_constant_in_each_class_separates_in_any_unit(place, unit):
    X, y = data(60, 2)
    X = np.insert(X, place, unit * y, axis=1)
    found = fit(X, y, covariance_reg=0.0)
    assert found.accuracy_bound_ == 1.0
    assert found.held_out_bound_ == 1.0
    np.testing.assert_allclose(found.decision_function(X), y - 0.5, atol=1e-6)


def test_costs_and_required_bounds_where_everything_separates():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(20, 50)), np.arange(20) % 2
    for parameters in ({"costs": {0: 1.0, 1: 9.0}}, {"required_bound": {1: 0.9}}):
        found = fit(X, y, covariance_reg=0.0, **parameters)
        assert found.class_bounds_.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("code", [0, 1])
def test_one_class_without_variance(code):
    rng = np.random.default_rng(8)
    y = np.arange(40) % 2
    X = np.where((y == code)[:, None], [1.0, 2.0], rng.normal(size=(40, 2)))
    found = fit(X, y, covariance_reg=0.0, cv=None)
    rest = X[y != code]
    difference = rest.mean(axis=0) - [1.0, 2.0]
    square = difference @ np.linalg.solve(np.cov(rest.T, ddof=0), difference)
    assert found.accuracy_bound_ == pytest.approx(square / (1.0 + square), rel=1e-9)
    assert np.all(found.predict(X[y == code]) == code)


@pytest.mark.parametrize("code", [0, 1])
def test_a_class_of_fewer_rows_than_features_is_right_as_often_as_its_bound(code):
    # the best direction may be one along which that class does not vary: then all its rows have
    # the same score, and have to be on the right side of the threshold
    rng = np.random.default_rng(11)
    y = np.where(np.arange(205) < 5, code, 1 - code)
    X = np.where((y == code)[:, None], 3.0, 1.0) * rng.normal(size=(205, 8))
    X[y == code] += 1.0
    found = fit(X, y, covariance_reg=0.0, cv=None)
    assert 0.1 < found.accuracy_bound_ < 0.9
    for own in (0, 1):
        assert np.mean(found.predict(X[y == own]) == own) >= found.class_bounds_[own]


def test_two_rows_of_a_class_are_enough():
    X, y = data(20)
    keep = np.concatenate([np.flatnonzero(y == 0)[:2], np.flatnonzero(y == 1)])
    found = fit(X[keep], y[keep])
    assert 0.0 < found.accuracy_bound_ <= 1.0
    assert np.isnan(found.held_out_bound_)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_single_row_of_a_class_is_an_error(kernel):
    X, y = data(20)
    keep = np.concatenate([np.flatnonzero(y == 0)[:1], np.flatnonzero(y == 1)])
    with pytest.raises(ValueError, match=r"two rows of each class; class \S*0\S* has 1"):
        fit(X[keep], y[keep], kernel=kernel)
    # nor do rows without weight count
    weight = np.ones(20)
    weight[np.flatnonzero(y == 1)[1:]] = 0.0
    with pytest.raises(ValueError, match=r"two rows of each class; class \S*1\S* has 1"):
        fit(X, y, weight, kernel=kernel)


# ----------------------------------------------------------------------------- held-out bounds


def folds_by_hand(X, y, n_folds, seed):
    """Distinct rows dealt out, as the estimator does it."""
    first, number = row_groups(X, y)
    fold = deal_folds(y[first], n_folds, check_random_state(seed))[number]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def bound_by_hand(scores, y, weight):
    """The lesser bound of two classes, from moments of scores."""
    bounds = []
    for code, sign in ((0, -1.0), (1, 1.0)):
        own, w = sign * scores[y == code], weight[y == code]
        mean = np.average(own, weights=w)
        variance = np.average((own - mean) ** 2, weights=w)
        bounds.append(mean**2 / (mean**2 + variance) if mean > 0.0 else 0.0)
    return min(bounds)


HELD_OUT = {
    "linear": {},
    "costs": {"costs": {0: 1.0, 1: 2.0}},
    "rbf": {"kernel": "rbf", "gamma": 0.2},
    "poly": {"kernel": "poly", "gamma": 0.2, "degree": 2, "coef0": 1.0},
}


def check_held_out(found, X, y, weight, folds, tol):
    scores = np.full(len(y), np.nan)
    for train, out in folds:
        part = clone(found).set_params(cv=None).fit(X[train], y[train], weight[train])
        scores[out] = part.decision_function(X[out])
    seen = ~np.isnan(scores)
    expected = bound_by_hand(scores[seen], y[seen], weight[seen])
    assert 0.01 < expected < 0.99
    assert found.held_out_bound_ == pytest.approx(expected, rel=tol)


@pytest.mark.parametrize("cv", [2, 3, 5])
@pytest.mark.parametrize("name", HELD_OUT)
def test_held_out_bound_by_hand(name, cv):
    X, y = data(100)
    X, y = np.concatenate([X, X[:20]]), np.concatenate([y, y[:20]])
    weight = np.random.default_rng(9).uniform(0.5, 2.0, size=120)
    found = fit(X, y, weight, cv=cv, random_state=3, **HELD_OUT[name])
    check_held_out(found, X, y, weight, folds_by_hand(X, y, cv, 3), 1e-6)


def test_held_out_bound_of_given_folds():
    X, y = data()
    weight = np.ones(120)
    for cv in (KFold(4), list(KFold(4).split(X)), [(np.arange(80), np.arange(80, 120))]):
        folds = cv.split(X) if hasattr(cv, "split") else cv
        check_held_out(fit(X, y, cv=cv), X, y, weight, folds, 1e-9)
    assert fit(X, y, cv=KFold(4).split(X)).held_out_bound_ == fit(X, y, cv=KFold(4)).held_out_bound_


def test_held_out_rows_one_at_a_time():
    X, y = data(40)
    check_held_out(fit(X, y, cv=LeaveOneOut()), X, y, np.ones(40), LeaveOneOut().split(X), 1e-9)


@pytest.mark.parametrize(
    "out", [np.array([], dtype=int), np.arange(0, 40, 4)], ids=["no rows", "one class"]
)
def test_folds_that_hold_out_less_than_two_classes_are_told(out):
    X, y = data(40)
    y = np.arange(40) % 2
    with pytest.raises(ValueError, match="cv"):
        fit(X, y, cv=[(np.setdiff1d(np.arange(40), out), out)])


def test_held_out_bound_is_reproducible():
    X, y = data()
    one, same, other = (fit(X, y, random_state=s).held_out_bound_ for s in (0, 0, 1))
    assert one == same == fit(X, y).held_out_bound_
    assert one != other
    state = np.random.RandomState(0)
    assert fit(X, y, random_state=state).held_out_bound_ == one


@pytest.fixture
def spied_folds(monkeypatch):
    """All folds that are made while it lasts."""
    made, plain = [], module.held_out_folds

    def spy(*arguments):
        folds = plain(*arguments)
        made.extend(folds)
        return folds

    monkeypatch.setattr(module, "held_out_folds", spy)
    return made


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_copies_are_never_split_between_training_and_held_out_rows(spied_folds, form, kernel):
    rng = np.random.default_rng(10)
    X, y = rng.integers(3, size=(200, 3)).astype(float), rng.integers(2, size=200)
    fit(form(X), y, kernel=kernel, cv=4)
    assert len(spied_folds) == 4
    for train, out in spied_folds:
        seen = {(code, *row) for code, row in zip(y[train], X[train].tolist(), strict=True)}
        assert not any((y[i], *X[i].tolist()) in seen for i in out)
    assert sorted(np.concatenate([out for _, out in spied_folds]).tolist()) == list(range(200))


def test_held_out_bounds_flatter_less():
    # few rows and many features that say nothing
    X, y = load_breast_cancer(return_X_y=True)
    found = fit(X[:120], y[:120])
    later = np.mean(found.predict(X[120:]) == y[120:])
    assert found.held_out_bound_ < found.accuracy_bound_
    assert found.held_out_bound_ < later


# ------------------------------------------------------------------------------------- manners


BAD = {
    "unknown kernel": ({"kernel": "round"}, "kernel must be one of 'linear'.*; got 'round'"),
    "no kernel": ({"kernel": None}, "kernel must be one of 'linear'.*; got None"),
    "gamma negative": ({"kernel": "rbf", "gamma": -1.0}, "gamma must be a finite number > 0"),
    "gamma unknown": ({"kernel": "rbf", "gamma": "wide"}, "gamma must be one of 'scale', 'auto'"),
    "degree 0": ({"kernel": "poly", "degree": 0}, "degree must be an integer >= 1; got 0"),
    "coef0 nan": ({"kernel": "poly", "coef0": np.nan}, "coef0 must be a finite number; got nan"),
    "ridge negative": ({"covariance_reg": -1e-9}, "covariance_reg must be >= 0; got -1e-09"),
    "ridge nan": ({"covariance_reg": np.nan}, "covariance_reg must be a finite number; got nan"),
    "ridge inf": ({"covariance_reg": np.inf}, "covariance_reg must be a finite number; got inf"),
    "ridge None": ({"covariance_reg": None}, "covariance_reg must be a finite number; got None"),
    "ridge as a word": ({"covariance_reg": "some"}, "covariance_reg must be .*got 'some'"),
    "ridge as a flag": ({"covariance_reg": True}, "covariance_reg must be .*got True"),
    "costs unknown": ({"costs": "cheap"}, "costs='cheap' is not known"),
    "cost missing": ({"costs": {0: 1.0}}, r"costs has no entry for \[1\]"),
    "cost negative": ({"costs": {0: -1.0, 1: 1.0}}, "costs must not be negative"),
    "no costs": ({"costs": {0: 0.0, 1: 0.0}}, "All costs are zero"),
    "costs of another shape": ({"costs": np.ones((3, 3))}, r"costs has shape \(3, 3\)"),
    "errors cheaper than right": ({"costs": [[1.0, 0.0], [0.0, 1.0]]}, "(?i)cost"),
    "required as a number": ({"required_bound": 0.9}, r"mapping of one of the classes \[0, 1\]"),
    "required of both": ({"required_bound": {0: 0.5, 1: 0.5}}, "mapping of one of the classes"),
    "required of none": ({"required_bound": {}}, "mapping of one of the classes"),
    "required of an unknown class": ({"required_bound": {7: 0.5}}, r"classes \[0, 1\].*got \{7"),
    "required 0": ({"required_bound": {0: 0.0}}, "between 0 and 1; got 0"),
    "required 1": ({"required_bound": {0: 1.0}}, "between 0 and 1; got 1"),
    "required nan": ({"required_bound": {0: np.nan}}, "required_bound must be .*got nan"),
    "required as a word": ({"required_bound": {0: "most"}}, "required_bound must be .*got 'most'"),
    "required too much": ({"required_bound": {0: 0.9999}}, "cannot be met.*more than 0"),
    "both": ({"costs": "balanced", "required_bound": {0: 0.5}}, "costs or required_bound, not"),
    "one fold": ({"cv": 1}, "cv must be an integer >= 2; got 1"),
    "half a fold": ({"cv": 2.5}, "cv must be an integer >= 2; got 2.5"),
    "folds as a word": ({"cv": "many"}, "cv.*many"),
    "folds as a flag": ({"cv": True}, "(cv|n_splits)"),
    "seed": ({"random_state": "lucky"}, "cannot be used to seed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_told_and_leave_no_trace(name):
    parameters, message = BAD[name]
    X, y = data(60)
    fresh = MinimaxProbabilityMachine(**{"random_state": 0, **parameters})
    before = frozen(fresh)
    with pytest.raises(ValueError, match=message):
        fresh.fit(X, y)
    assert_as_before(fresh, before)
    fitted = fit(X, y)
    scores = fitted.decision_function(X)
    before = frozen(fitted.set_params(**parameters))
    with pytest.raises(ValueError, match=message):
        fitted.fit(X[:, :3], y)
    assert_as_before(fitted, before)
    np.testing.assert_array_equal(fitted.set_params(kernel="linear").decision_function(X), scores)


def test_a_direction_that_separates_has_its_threshold_half_way():
    found = Direction(np.ones(1), (0.0, 0.0), (np.inf, np.inf), 0.0)
    assert found.reach == 0.5
    assert found.bounds == (1.0, 1.0)
    assert Direction(np.ones(1), (0.2, 0.3), (2.0, 2.0), 0.0).reach == pytest.approx(0.6)
