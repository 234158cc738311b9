"""The fitted optimum against a conic solver, over the table of binary problems."""

import numpy as np
import pytest
from every import every
from oracle import (
    BinaryProblem,
    conjugate,
    negative_margin,
    primal_value,
    solve_binary,
    zone_floor,
)
from problems import BINARY_CASES, SMALL_BINARY_CASES, by_name
from scipy.optimize import minimize
from scipy.special import expit

from grayzone import TruncatedLogisticRegression

# some of the problems have no better solution, and say so
pytestmark = pytest.mark.filterwarnings("ignore:The fitted model is a constant")

pytest.importorskip("cvxpy")

RELATIVE = 1e-8


def fit(case, **parameters):
    X, y, sample_weight, _ = case.build()
    estimator = TruncatedLogisticRegression(**(case.parameters | {"tol": 1e-9} | parameters))
    return estimator.fit(X, y, sample_weight=sample_weight)


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2])
def test_oracle_agrees_with_quasi_newton_on_the_full_likelihood(C):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    sign = np.where(X[:, 0] + rng.normal(size=80) > 0, 1.0, -1.0)
    weight = rng.uniform(0.5, 2.0, size=80)
    problem = BinaryProblem(X, sign, weight, zone_floor(sign, None), C, True)

    def value_and_gradient(theta):
        slope = weight * expit(negative_margin(problem, theta[:-1], theta[-1])) * -sign
        gradient = np.append(X.T @ slope + theta[:-1] / C, slope.sum())
        return primal_value(problem, theta[:-1], theta[-1]), gradient

    options = {"maxiter": 1000, "ftol": 0.0, "gtol": 1e-10}
    found = minimize(value_and_gradient, np.zeros(5), jac=True, method="L-BFGS-B", options=options)
    solution = solve_binary(problem)
    assert found.fun == pytest.approx(solution.objective, rel=1e-12)
    np.testing.assert_allclose(found.x[:-1], solution.coef, atol=1e-5 * np.sqrt(C))


@pytest.mark.parametrize("floor", [-np.inf, -3.0, -0.2, 0.0, 1.5])
@every("alpha", [0.0, 1e-3, 0.3, 0.5, 0.8, 0.999])
def test_conjugate_is_the_largest_linear_excess(floor, alpha):
    u = np.append(np.linspace(-40.0, 40.0, 800_001), max(floor, -40.0))
    excess = alpha * u - np.logaddexp(0.0, np.maximum(u, floor))
    assert conjugate(alpha, floor) == pytest.approx(excess.max(), abs=1e-8)


@by_name(BINARY_CASES)
def test_objective_is_the_optimum_and_the_value_at_the_fitted_coefficients(case):
    X, _, _, problem = case.build()
    estimator = fit(case)
    solution = solve_binary(problem)
    # the oracle certifies itself
    assert -1e-14 <= solution.gap <= RELATIVE / 50
    assert estimator.objective_ <= solution.objective * (1.0 + RELATIVE)
    assert estimator.objective_ >= solution.lower_bound * (1.0 - 1e-13)
    assert estimator.coef_.shape == (1, X.shape[1])
    assert estimator.intercept_.shape == (1,)
    if not case.fit_intercept:
        assert estimator.intercept_[0] == 0.0
    value = primal_value(problem, estimator.coef_, estimator.intercept_)
    assert estimator.objective_ == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("solver", ["active-set", "primal"])
@by_name(SMALL_BINARY_CASES)
def test_solvers_agree(case, solver):
    solution = solve_binary(case.build()[-1])
    other = fit(case, solver=solver)
    assert other.objective_ == pytest.approx(fit(case).objective_, rel=RELATIVE)
    assert other.objective_ >= solution.lower_bound * (1.0 - 1e-13)
    value = primal_value(case.build()[-1], other.coef_, other.intercept_)
    assert other.objective_ == pytest.approx(value, rel=1e-12)
