"""Parts of the solver that selects: quadratics, sparse Gram matrices, kinks and safe screening."""

import numpy as np
import pytest
import scipy.sparse as sp

from grayzone.numerics.designs import as_design
from grayzone.numerics.jit_descent import descend_columns, gram_of_rows
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.margins import SignedMargin, SoftmaxMargin
from grayzone.solvers.loop import solve
from grayzone.solvers.problem import Problem
from grayzone.solvers.sparse import newton
from grayzone.solvers.sparse.columns import Columns
from grayzone.solvers.sparse.kinks import Hinged
from grayzone.solvers.sparse.problem import SparseProblem
from grayzone.solvers.sparse.quadratic import minimise_quadratic
from grayzone.solvers.sparse.working_set import WorkingSet


def quadratic(seed, n=30, rank=30):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(rank, n))
    at = rng.normal(size=n) * (rng.random(n) < 0.5)
    return A.T @ A, rng.normal(size=n) * 5.0, at, np.append(np.full(n - 1, 3.0), 0.0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rank", [30, 60])
def test_quadratics_end_at_their_conditions(seed, rank):
    H, gradient, at, l1 = quadratic(seed, rank=rank)
    a = minimise_quadratic(H, gradient, at, l1, 1e-9).a
    slope = gradient + H @ (a - at)
    used = a != 0.0
    np.testing.assert_allclose(slope[used], -(l1 * np.sign(a))[used], atol=1e-7)
    assert np.all(np.abs(slope[~used]) <= l1[~used] + 1e-7)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize("width", [0.3, 3.0])
def test_quadratics_of_nearly_equal_columns_end_at_their_conditions(width, alike):
    # passes and a few jumps undid each other's work: 48 jumps, and nowhere near
    x = np.linspace(0.0, 1.0, 60)
    K = np.exp(-((x[:, None] - x) ** 2) / width**2)
    target, l1 = np.sin(9.0 * x), np.full(60, 1e-3)
    found = minimise_quadratic(K @ K, -K @ target, np.zeros(60), l1, 1e-6, alike=alike)
    a, slope = found.a, K @ (K @ found.a - target)
    assert found.alike
    used = a != 0.0
    assert 0 < used.sum() < 15
    np.testing.assert_allclose(slope[used], -1e-3 * np.sign(a[used]), atol=1e-6)
    assert np.max(np.abs(slope)) <= 1e-3 + 1e-6


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_columns_descend_to_the_minimum_of_their_quadratic(ridge):
    rng = np.random.default_rng(0)
    X = sp.random_array((60, 15), density=0.4, rng=rng, format="csc")
    weight, pull, a = rng.uniform(0.1, 1.0, 60), rng.normal(size=60), rng.normal(size=16)
    wide = np.column_stack([X.toarray(), np.ones(60)])
    bare = np.diag(np.append(np.full(15, ridge), 0.0))
    H, l1 = wide.T @ (weight[:, None] * wide) + bare, np.append(np.full(15, 0.5), 0.0)
    expected = minimise_quadratic(H, wide.T @ pull + bare @ a, a, l1, 1e-12).a
    found = a.copy()
    descend_columns(
        X.indices, X.data, X.indptr, weight, pull.copy(), found, True, 0.5, ridge, 1e-16, 5000
    )
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_gram_of_sparse_rows():
    rng = np.random.default_rng(0)
    X = sp.random_array((50, 8), density=0.3, rng=rng, format="csr")
    weight, H = rng.uniform(size=50) * (rng.random(50) < 0.8), np.zeros((8, 8))
    gram_of_rows(X.indptr, X.indices, X.data, weight, H)
    dense = X.toarray()
    np.testing.assert_allclose(H, np.tril(dense.T @ (weight[:, None] * dense)), atol=1e-14)


def test_slopes_of_hinges_are_those_of_their_values():
    floor = np.array([-1.0, -1.0, -0.3, -np.inf])
    exact = TruncatedLogistic(floor)
    loss = Hinged(exact, 0.4 * exact.slope_at_floor, 0.7)
    for shift in np.linspace(-3.0, 3.0, 41):
        u = np.full(4, 0.013 + shift)
        slope, bend = loss.slopes(u)
        up, down = loss.value(u + 1e-6), loss.value(u - 1e-6)
        np.testing.assert_allclose(slope, (up - down) / 2e-6, atol=1e-8)
        higher, lower = loss.slopes(u + 1e-6)[0], loss.slopes(u - 1e-6)[0]
        np.testing.assert_allclose(bend, (higher - lower) / 2e-6, atol=1e-5)
        assert np.all(loss.value(u) <= exact.value(u) + 1e-15)
        assert np.all(loss.left(u) >= -1e-15)


# ------------------------------------------------------------------------------------- screening


def problem_of(floor, ridge=0.0, n_classes=2, share=0.15):
    """Rows of 400 sparse columns, and a penalty relative to the one that leaves none.

    Most columns are rare, as words are: rows on the kink say little about these.
    """
    rng = np.random.default_rng(4)
    density = np.where(np.arange(400) < 20, 0.5, 0.02)
    X = rng.normal(size=(300, 400)) * (rng.random((300, 400)) < density)
    scores = X[:, :6] @ rng.normal(size=(6, n_classes)) * 2.0
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    margins = SignedMargin(2.0 * y - 1.0) if n_classes == 2 else SoftmaxMargin(np.eye(3)[y] > 0)
    weight = rng.uniform(0.5, 2.0, 300)
    loss = TruncatedLogistic(np.full(300, floor))
    problem = Problem(as_design(X), margins, loss, weight, ridge)
    columns = Columns.of(sp.csr_array(X))
    least = np.abs(columns.pulled((weight * (0.5 - (y == 1)))[:, None])).max()
    return SparseProblem(problem, columns, share * least)


CASES = {
    "plain": (-np.inf, 0.0, 2),
    "kink": (-1.0, 0.0, 2),
    "narrow": (-0.1, 0.0, 2),
    "elastic net": (-0.5, 0.3, 2),
    "three classes": (-np.inf, 0.0, 3),
}


@pytest.mark.parametrize("case", CASES)
def test_no_column_that_is_used_is_ever_left_out(case):
    floor, ridge, K = CASES[case]
    problem = problem_of(floor, ridge, K)
    best = solve(problem, WorkingSet(), tol=1e-13, max_iter=100)
    used = np.any(best.coef[:, :400] != 0.0, axis=0)
    assert 3 < used.sum() < 60
    state, tried = WorkingSet().init(problem, None), 0
    for tol in 10.0 ** np.arange(0.0, -9.0, -1.0):
        state = WorkingSet().step(problem, state, tol)
        slopes = state.coef[:, :400]
        point = state.point
        found = problem.certify(slopes, point.intercept, point.scores, point.multipliers)
        kept = problem.kept(point.scores, found)
        assert np.all(kept[used]), tol
        assert np.all(np.isin(np.flatnonzero(used), state.problem.columns.numbers)), tol
        tried = int(kept.sum())
    assert tried < 100  # and most of the others are, in the end


@pytest.mark.parametrize("case", CASES)
def test_passes_over_columns_end_where_hessians_do(case, monkeypatch):
    floor, ridge, K = CASES[case]
    problem = problem_of(floor, ridge, K)
    expected = solve(problem, WorkingSet(), tol=1e-9, max_iter=100).certificate.primal
    monkeypatch.setattr(newton, "_MOST_FORMED", 0)
    monkeypatch.setattr(newton, "_FORMED", 0)
    tol = 1e-6 if K == 2 else 1e-3  # without terms between outputs there are many steps
    found = solve(problem, WorkingSet(), tol=tol, max_iter=100).certificate
    assert found.relative <= tol
    assert found.primal == pytest.approx(expected, rel=min(tol, 1e-5))
