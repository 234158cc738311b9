"""The duality gap of kernel fits, recomputed from the fitted attributes and the kernel matrix."""

from functools import cache

import numpy as np
import pytest
from oracle import kernel_point, softmax_kernel_point, solve_binary, solve_softmax
from problems import BINARY_KERNEL_CASES, MULTICLASS_KERNEL_CASES, by_name
from scipy.special import expit

from grayzone import TruncatedLogisticRegression

# one of the problems has no better solution, and says so
pytestmark = pytest.mark.filterwarnings("ignore:The fitted model is a constant")
TOLERANCES = [1e-3, 1e-9]


@cache
def fit(case, tol):
    """The estimator, the oracle problem and what its attributes say about P and D."""
    X, y, sample_weight, problem = case.build()
    estimator = TruncatedLogisticRegression(**case.parameters, tol=tol)
    estimator.fit(X, y, sample_weight=sample_weight)
    recompute = softmax_kernel_point if len(estimator.classes_) > 2 else kernel_point
    attributes = estimator.support_, estimator.dual_coef_, estimator.intercept_
    return estimator, problem, recompute(problem, case.matrix(), *attributes)


def check_gap(estimator, point, tol):
    assert 0.0 <= estimator.dual_gap_ <= tol
    # P - D by subtraction carries a few units in the last place of P
    slack = 1e-12 + 2.0 * point.rounding
    assert estimator.dual_gap_ == pytest.approx(point.gap, rel=1e-6, abs=slack)
    assert estimator.objective_ == pytest.approx(point.primal, rel=slack)


def check_bounds(estimator, point, solution):
    """The optimum lies between D and P."""
    slack = (1e-12 + 2.0 * point.rounding) * solution.objective
    assert point.dual <= solution.objective + slack
    assert solution.lower_bound <= point.primal + slack
    low = estimator.objective_ * (1.0 - estimator.dual_gap_)
    assert low <= solution.objective + slack
    assert solution.lower_bound <= estimator.objective_ + slack


@pytest.mark.parametrize("tol", TOLERANCES)
@by_name(BINARY_KERNEL_CASES)
def test_gap(case, tol):
    estimator, _, point = fit(case, tol)
    check_gap(estimator, point, tol)


@pytest.mark.parametrize("tol", TOLERANCES)
@by_name(MULTICLASS_KERNEL_CASES)
def test_gap_of_many_classes(case, tol):
    estimator, _, point = fit(case, tol)
    check_gap(estimator, point, tol)


@by_name(BINARY_KERNEL_CASES[::3])
def test_the_optimum_lies_within_the_gap(case):
    pytest.importorskip("cvxpy")
    for tol in TOLERANCES:
        estimator, problem, point = fit(case, tol)
        check_bounds(estimator, point, solve_binary(problem))


@by_name(MULTICLASS_KERNEL_CASES[:3])
def test_the_optimum_of_many_classes_lies_within_the_gap(case):
    pytest.importorskip("cvxpy")
    for tol in TOLERANCES:
        estimator, problem, point = fit(case, tol)
        check_bounds(estimator, point, solve_softmax(problem))


@pytest.mark.parametrize("tol", TOLERANCES)
@by_name(BINARY_KERNEL_CASES)
def test_dual_point_is_admissible(case, tol):
    estimator, _, point = fit(case, tol)
    assert np.all(point.alpha >= 0.0)
    assert np.all(point.alpha <= 1.0 + 4 * np.finfo(float).eps)
    if case.fit_intercept:
        scale = np.abs(estimator.dual_coef_).sum()
        assert abs(estimator.dual_coef_.sum()) <= 1e-12 * scale
    else:
        assert estimator.intercept_[0] == 0.0


@pytest.mark.parametrize("tol", TOLERANCES)
@by_name(MULTICLASS_KERNEL_CASES)
def test_dual_point_of_many_classes_is_admissible(case, tol):
    estimator, problem, point = fit(case, tol)
    scale = np.abs(estimator.dual_coef_).sum()
    own = problem.label[:, None] == np.arange(point.alpha.shape[1])
    assert np.all(point.alpha[~own] >= 0.0)
    assert np.all(point.alpha[own] >= -1.0 - 1e-12)
    np.testing.assert_allclose(point.alpha.sum(axis=1), 0.0, atol=1e-12)
    if case.fit_intercept:
        np.testing.assert_allclose(estimator.dual_coef_.sum(axis=1), 0.0, atol=1e-12 * scale)


@by_name(BINARY_KERNEL_CASES)
def test_support_is_where_alpha_is_positive(case):
    estimator, problem, point = fit(case, 1e-9)
    support = estimator.support_
    np.testing.assert_array_equal(support, np.unique(support))
    assert estimator.dual_coef_.shape == (1, len(support))
    np.testing.assert_array_equal(np.flatnonzero(point.alpha > 0.0), support)
    np.testing.assert_array_equal(np.flatnonzero(estimator.partition_), support)
    assert np.all(problem.weight[support] > 0.0)


@by_name(BINARY_KERNEL_CASES)
def test_partition_follows_the_margins(case):
    estimator, problem, point = fit(case, 1e-9)
    partition, weight, floor = estimator.partition_, problem.weight, problem.floor
    assert partition.shape == weight.shape
    assert np.all(np.isin(partition, (0, 1, 2)))
    rows = weight > 0.0
    assert np.all(partition[~rows] == 0)
    assert np.all(partition[rows & np.isneginf(floor)] == 2)
    rows &= np.isfinite(floor)
    u, alpha, kink = -problem.sign * point.scores[:, 0], point.alpha, expit(floor)
    beyond = u - np.where(np.isfinite(floor), floor, u)
    # P - D is a sum of nonnegative terms, one per row: none exceeds the whole.
    total = (max(point.gap, 0.0) + 1e-12 + 2.0 * point.rounding) * point.primal

    saturated = rows & (partition == 0)
    assert np.all((weight * kink * beyond)[saturated] <= total)

    logarithmic = rows & (partition == 2)
    assert np.all(alpha[logarithmic] >= kink[logarithmic] * (1.0 - 1e-6))
    assert np.all((weight * alpha * -beyond)[logarithmic] <= total)

    hinge = rows & (partition == 1)
    assert np.all(alpha[hinge] <= kink[hinge] * (1.0 + 1e-6))
    assert np.all((weight * np.minimum(alpha, kink - alpha) * np.abs(beyond))[hinge] <= total)
