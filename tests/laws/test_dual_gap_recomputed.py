"""The duality gap and its dual point, recomputed from the fitted attributes alone."""

from functools import cache

import numpy as np
import pytest
from oracle import alpha_from_dual_coef, negative_margin, primal_value, relative_gap
from problems import BINARY_CASES, SMALL_BINARY_CASES, by_name
from scipy.special import expit

from grayzone import TruncatedLogisticRegression

# some of the problems have no better solution, and say so
pytestmark = pytest.mark.filterwarnings("ignore:The fitted model is a constant")

TOLERANCES = [1e-3, 1e-9]


@cache
def fit(case, tol, **parameters):
    """The estimator, the oracle problem and the dual point per row."""
    X, y, sample_weight, problem = case.build()
    estimator = TruncatedLogisticRegression(**case.parameters, tol=tol, **parameters)
    estimator.fit(X, y, sample_weight=sample_weight)
    alpha = alpha_from_dual_coef(problem, estimator.support_, estimator.dual_coef_)
    return estimator, problem, alpha


def gap_total(estimator, problem, alpha):
    """P - D, and 1e-13 of P for the rounding of the subtraction."""
    gap = max(relative_gap(problem, estimator.coef_, estimator.intercept_, alpha), 0.0) + 1e-13
    return gap * primal_value(problem, estimator.coef_, estimator.intercept_)


def check_gap(estimator, problem, alpha, tol):
    gap = relative_gap(problem, estimator.coef_, estimator.intercept_, alpha)
    # P - D by subtraction carries a few units in the last place of P, hence the absolute part.
    assert estimator.dual_gap_ == pytest.approx(gap, rel=1e-6, abs=1e-12)
    assert -1e-13 <= estimator.dual_gap_ <= tol


@pytest.mark.parametrize("tol", TOLERANCES)
@by_name(BINARY_CASES)
def test_gap(case, tol):
    check_gap(*fit(case, tol), tol)


@pytest.mark.parametrize("solver", ["active-set", "primal"])
@by_name(SMALL_BINARY_CASES)
def test_gap_of_the_other_solvers(case, solver):
    check_gap(*fit(case, 1e-6, solver=solver), 1e-6)


@pytest.mark.parametrize("tol", TOLERANCES)
@by_name(BINARY_CASES)
def test_dual_point_is_admissible_and_spans_the_coefficients(case, tol):
    estimator, problem, alpha = fit(case, tol)
    # A sigmoid beyond 37 is 1 in double precision; the division by C and the weight rounds too.
    assert np.all(alpha >= 0.0)
    assert np.all(alpha <= 1.0 + 4 * np.finfo(float).eps)
    if case.fit_intercept:
        scale = np.abs(estimator.dual_coef_).sum()
        assert abs(estimator.dual_coef_.sum()) <= 1e-12 * scale
    # P - D = (sum of nonnegative terms, one per row) + |w - w(a)|^2 / (2 C).
    combination = estimator.dual_coef_ @ problem.X[estimator.support_]
    distance = np.linalg.norm(estimator.coef_ - combination)
    assert distance**2 <= 2.0 * problem.C * gap_total(estimator, problem, alpha)


@by_name(BINARY_CASES)
def test_support_is_where_alpha_is_positive(case):
    estimator, problem, alpha = fit(case, 1e-9)
    support = estimator.support_
    np.testing.assert_array_equal(support, np.unique(support))
    assert estimator.dual_coef_.shape == (1, len(support))
    counts = problem.weight > 0.0
    np.testing.assert_array_equal(np.flatnonzero(alpha), support[counts[support]])
    assert estimator.partition_.shape == (len(counts),)
    np.testing.assert_array_equal((alpha > 0.0)[counts], (estimator.partition_ > 0)[counts])


@by_name(BINARY_CASES)
def test_partition_follows_the_margins(case):
    estimator, problem, alpha = fit(case, 1e-9)
    partition, weight = estimator.partition_, problem.weight
    assert np.all(np.isin(partition, (0, 1, 2)))
    rows = weight > 0.0
    assert np.all(partition[rows & np.isneginf(problem.floor)] == 2)
    rows &= np.isfinite(problem.floor)
    u = negative_margin(problem, estimator.coef_, estimator.intercept_)
    kink = expit(problem.floor)
    # P - D is a sum of nonnegative terms, one per row: none exceeds the whole.
    total = gap_total(estimator, problem, alpha)

    saturated = rows & (partition == 0)
    assert np.all(alpha[saturated] == 0.0)
    beyond = (u - problem.floor)[saturated]
    assert np.all((weight * kink)[saturated] * beyond <= total)

    logarithmic = rows & (partition == 2)
    assert np.all(alpha[logarithmic] >= kink[logarithmic] * (1.0 - 1e-6))
    short = (problem.floor - u)[logarithmic]
    assert np.all((weight * alpha)[logarithmic] * short <= total)

    hinge = rows & (partition == 1)
    assert np.all(alpha[hinge] <= kink[hinge] * (1.0 + 1e-6))
    off = np.abs(u - problem.floor)[hinge]
    assert np.all((weight * np.minimum(alpha, kink - alpha))[hinge] * off <= total)
    # Close to the ends of its interval a multiplier makes the term small wherever the margin is,
    # so that only this last one, which is no theorem, says that the row sits on the kink.
    assert np.all(off <= 1e-3 * (1.0 + np.abs(problem.floor[hinge])))


@by_name(BINARY_CASES)
def test_alpha_is_the_slope_of_the_loss_off_the_kink(case):
    estimator, problem, alpha = fit(case, 1e-9)
    u = negative_margin(problem, estimator.coef_, estimator.intercept_)
    rows = (u > problem.floor) & (alpha >= expit(problem.floor))
    # The term of such a row is the relative entropy of (a, 1-a) to (p, 1-p) with p = sigma(u),
    # which Pinsker's inequality bounds below by 2 (a - p)^2.
    terms = problem.weight * 2.0 * (alpha - expit(u)) ** 2
    assert np.all(terms[rows] <= gap_total(estimator, problem, alpha))
