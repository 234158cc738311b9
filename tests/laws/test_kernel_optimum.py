"""The optimum of kernel fits against a conic solver, in features of the kernel matrix."""

import numpy as np
import pytest
from oracle import solve_binary, solve_softmax
from problems import (
    BINARY_KERNEL_CASES,
    LARGE_KERNEL_CASES,
    MULTICLASS_KERNEL_CASES,
    by_name,
    select,
)

from grayzone import TruncatedLogisticRegression
from grayzone.solvers.choose import SMALL_KERNEL

pytest.importorskip("cvxpy")

# one of the problems has no better solution, and says so
pytestmark = pytest.mark.filterwarnings("ignore:The fitted model is a constant")
RELATIVE = 1e-8


def fit(case, **parameters):
    X, y, sample_weight, _ = case.build()
    estimator = TruncatedLogisticRegression(**(case.parameters | {"tol": 1e-9} | parameters))
    return estimator.fit(X, y, sample_weight=sample_weight)


def check_optimal(estimator, solution):
    # the oracle certifies itself
    assert -1e-14 <= solution.gap <= RELATIVE / 50
    assert estimator.dual_gap_ <= 1e-9
    assert estimator.objective_ <= solution.objective * (1.0 + RELATIVE)
    assert estimator.objective_ >= solution.lower_bound * (1.0 - RELATIVE / 10)


def test_the_table_takes_both_ways():
    rows = {case: len(case.build()[1]) for case in BINARY_KERNEL_CASES}
    used = {case: np.count_nonzero(case.build()[-1].weight) for case in BINARY_KERNEL_CASES}
    assert sum(n > 260 for n in used.values()) >= 20
    assert all(used[case] > 260 > SMALL_KERNEL for case in LARGE_KERNEL_CASES)
    assert sum(n <= SMALL_KERNEL for n in rows.values()) >= 12


@by_name(BINARY_KERNEL_CASES)
def test_features_span_the_kernel(case):
    K, features = case.matrix(), case.build()[-1].X
    np.testing.assert_allclose(features @ features.T, K, atol=1e-12 * np.abs(K).max())


@by_name(BINARY_KERNEL_CASES)
def test_objective_is_the_optimum(case):
    check_optimal(fit(case), solve_binary(case.build()[-1]))


@by_name(MULTICLASS_KERNEL_CASES)
def test_objective_is_the_optimum_of_many_classes(case):
    check_optimal(fit(case), solve_softmax(case.build()[-1]))


@pytest.mark.parametrize("solver", ["active-set", "primal"])
@by_name(
    select(
        BINARY_KERNEL_CASES,
        "rbf-120",
        "rbf-repeated-rows",
        "rbf-C-1e-4",
        "rbf-full",
        "poly-3",
        "poly-1",
        "laplacian",
        "callable",
        "no-intercept",
        "precomputed",
        "rbf-300",
    )
)
def test_solvers_agree(case, solver):
    other = fit(case, solver=solver)
    assert other.objective_ == pytest.approx(fit(case).objective_, rel=RELATIVE)
    check_optimal(other, solve_binary(case.build()[-1]))


@by_name(select(MULTICLASS_KERNEL_CASES, "three-classes-poly", "three-classes-weights"))
def test_solvers_agree_on_many_classes(case):
    other = fit(case, solver="primal")
    assert other.objective_ == pytest.approx(fit(case).objective_, rel=RELATIVE)
    check_optimal(other, solve_softmax(case.build()[-1]))
