"""The multi-class optimum and its duality gap against a conic solver."""

import numpy as np
import pytest
from every import every
from oracle import (
    BinaryProblem,
    SoftmaxProblem,
    softmax_alpha_from_dual_coef,
    softmax_conjugate,
    softmax_primal_value,
    softmax_relative_gap,
    solve_binary,
    solve_softmax,
    zone_floor,
)
from problems import MULTICLASS_CASES, by_name
from scipy.optimize import minimize

from grayzone import TruncatedLogisticRegression

pytest.importorskip("cvxpy")

RELATIVE = 1e-6


def fit(case, tol=1e-7):
    """The estimator, the oracle problem and the dual point per row and class."""
    X, y, sample_weight, problem = case.build()
    estimator = TruncatedLogisticRegression(**case.parameters, tol=tol)
    estimator.fit(X, y, sample_weight=sample_weight)
    alpha = softmax_alpha_from_dual_coef(problem, estimator.support_, estimator.dual_coef_)
    return estimator, problem, alpha


@pytest.mark.parametrize("cap", [0.34, 0.6, 0.95, 1.0])
@every("tau", [0.0, 0.05, 0.4, 0.7, 0.97])
def test_conjugate_is_the_largest_linear_excess(cap, tau):
    label, share = 1, np.array([0.3, 0.0, 0.7])
    alpha = tau * share
    alpha[label] = -tau
    saturated_loss = -np.log(cap)

    # The supremum of alpha.f - max(-log p_y, c) as a smooth programme: xi lies above both pieces,
    # and f_y = 0 because neither term sees a common shift.
    def excess(z):
        return z[2] - tau * (share[0] * z[0] + share[2] * z[1])

    def above(z):
        return np.array([z[2] - np.logaddexp(0.0, np.logaddexp(z[0], z[1])), z[2] - saturated_loss])

    found = minimize(
        excess,
        np.array([-1.0, -1.0, 2.0]),
        constraints={"type": "ineq", "fun": above},
        bounds=[(-40.0, 40.0)] * 3,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    value = softmax_conjugate(alpha[None], np.array([label]), np.array([saturated_loss]))
    assert value[0] == pytest.approx(-found.fun, abs=1e-7)


@by_name(MULTICLASS_CASES)
def test_objective_is_the_optimum_and_the_value_at_the_fitted_coefficients(case):
    estimator, problem, _ = fit(case)
    solution = solve_softmax(problem)
    # the oracle certifies itself
    assert -1e-14 <= solution.gap <= RELATIVE / 1000
    assert estimator.objective_ == pytest.approx(solution.objective, rel=RELATIVE)
    assert estimator.objective_ >= solution.lower_bound * (1.0 - 1e-13)
    assert estimator.coef_.shape == (len(problem.cap), problem.X.shape[1])
    assert estimator.intercept_.shape == (len(problem.cap),)
    if not case.fit_intercept:
        assert not estimator.intercept_.any()
    value = softmax_primal_value(problem, estimator.coef_, estimator.intercept_)
    assert estimator.objective_ == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@by_name(MULTICLASS_CASES)
def test_gap(case, tol):
    estimator, problem, alpha = fit(case, tol)
    gap = softmax_relative_gap(problem, estimator.coef_, estimator.intercept_, alpha)
    # P - D by subtraction carries a few units in the last place of P, hence the absolute part.
    assert estimator.dual_gap_ == pytest.approx(gap, rel=1e-6, abs=1e-12)
    assert -1e-13 <= estimator.dual_gap_ <= tol
    # P - D = (sum of nonnegative terms, one per row) + |W - W(alpha)|^2 / (2 C).
    combination = estimator.dual_coef_ @ problem.X[estimator.support_]
    distance = np.linalg.norm(estimator.coef_ - combination)
    assert distance**2 <= 2.0 * problem.C * estimator.objective_ * (max(gap, 0.0) + 1e-13)


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@by_name(MULTICLASS_CASES)
def test_dual_point_is_admissible(case, tol):
    estimator, problem, alpha = fit(case, tol)
    own = np.arange(len(alpha)), problem.label
    mass = -alpha[own]
    assert np.all(mass >= 0.0)
    assert np.all(mass <= 1.0 + 1e-12)
    alpha[own] = 0.0
    assert np.all(alpha >= 0.0)
    np.testing.assert_allclose(alpha.sum(axis=1), mass, rtol=1e-10, atol=1e-14)
    if case.fit_intercept:
        scale = np.abs(estimator.dual_coef_).sum()
        assert np.all(np.abs(estimator.dual_coef_.sum(axis=1)) <= 1e-10 * scale)


@by_name(MULTICLASS_CASES)
def test_support_is_where_alpha_is_not_zero(case):
    estimator, problem, alpha = fit(case)
    support, counts = estimator.support_, problem.weight > 0.0
    np.testing.assert_array_equal(support, np.unique(support))
    assert estimator.dual_coef_.shape == (len(problem.cap), len(support))
    active = alpha.any(axis=1)
    np.testing.assert_array_equal(np.flatnonzero(active), support[counts[support]])
    np.testing.assert_array_equal(active[counts], (estimator.partition_ > 0)[counts])


@pytest.mark.parametrize("zone", [None, (0.2, 0.6), (0.0, 0.8), (0.55, 0.9)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_two_class_softmax_is_the_binary_problem(zone, fit_intercept):
    # With two classes W_1 = -W_0 = w/2, so that |W|^2 = |w|^2 / 2: the softmax with C is the
    # binary problem with 2 C, and its caps are 1 - p_min and p_max.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    label = (X[:, 0] - X[:, 1] + rng.normal(size=90) > 0.3).astype(int)
    weight = rng.uniform(0.5, 2.0, size=90)
    p_min, p_max = (0.0, 1.0) if zone is None else zone
    C = 0.8
    softmax = solve_softmax(
        SoftmaxProblem(X, label, weight, np.array([1.0 - p_min, p_max]), C, fit_intercept)
    )
    sign = np.where(label == 1, 1.0, -1.0)
    binary = solve_binary(
        BinaryProblem(X, sign, weight, zone_floor(sign, zone), 2.0 * C, fit_intercept)
    )
    assert binary.objective == pytest.approx(softmax.objective, rel=1e-9)

    estimator = TruncatedLogisticRegression(
        C=2.0 * C, zone=zone, fit_intercept=fit_intercept, tol=1e-9
    ).fit(X, label, sample_weight=weight)
    assert estimator.objective_ == pytest.approx(softmax.objective, rel=1e-8)
    np.testing.assert_allclose(estimator.coef_[0], softmax.coef[1] - softmax.coef[0], atol=1e-4)
    np.testing.assert_allclose(softmax.coef[0], -softmax.coef[1], atol=1e-4)
