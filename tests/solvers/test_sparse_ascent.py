"""Sparse rows: dual ascent against CVXPY and the other solvers, and Gram matrices by pairs."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import BinaryProblem, dual_value, primal_value, solve_binary

from grayzone import TruncatedLogisticRegression
from grayzone.numerics import designs
from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.margins import SignedMargin, SoftmaxMargin
from grayzone.solvers import Ascent, Decomposed, Primal, Problem, Status, choose, solve

FLOORS = {"plain": (-np.inf, -np.inf), "zone": (-1.0, -1.0), "off centre": (-2.5, 0.5)}


def sparse_rows(n=120, d=40, seed=0, density=0.15):
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=density, format="csr", rng=rng, dtype=np.float64)
    X = sp.csr_array(X - 2.0 * (X > 0.9).astype(float))
    X.sort_indices()
    sign = np.where(X @ rng.normal(size=d) + 0.5 * rng.normal(size=n) > 0.2, 1.0, -1.0)
    return X, sign, rng.uniform(0.2, 2.0, size=n)


def both(floors, fit_intercept, penalty=0.5, **rows):
    """An oracle's problem and the package's, the same."""
    X, sign, weight = sparse_rows(**rows)
    floor = np.where(sign > 0, *floors)
    mine = Problem(
        as_design(X, fit_intercept), SignedMargin(sign), TruncatedLogistic(floor), weight, penalty
    )
    return BinaryProblem(X.toarray(), sign, weight, floor, 1.0 / penalty, fit_intercept), mine


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("name", FLOORS)
def test_the_optimum_is_that_of_cvxpy(name, fit_intercept):
    theirs, mine = both(FLOORS[name], fit_intercept)
    best = solve_binary(theirs)
    found = solve(mine, Ascent(), tol=1e-9, max_iter=3000)
    assert found.status is Status.CONVERGED
    slopes = found.coef[0, :40]
    intercept = float(found.coef[0, 40]) if fit_intercept else 0.0
    value = primal_value(theirs, slopes, intercept)
    assert value == pytest.approx(best.objective, rel=1e-8)
    # the certificate bounds the error, and its two ends are what the oracle says they are
    assert value - best.objective <= found.certificate.gap + 1e-9 * value
    a = np.abs(found.certificate.duals[:, 0])
    assert dual_value(theirs, a) == pytest.approx(value - found.certificate.gap, rel=1e-9)
    # multipliers are inside their bounds, and saturated rows have none
    assert np.all((a >= 0.0) & (a <= 1.0))
    u = mine.margins.margin(mine.design.scores(found.coef))
    assert np.all(found.multipliers[u < mine.loss.floor - 1e-3] == 0.0)


@pytest.mark.parametrize("case", ["sorted", "rare", "single precision", "long indices", "zeros"])
def test_rows_of_any_kind(case):
    _, problem = both((-1.0, -1.0), True, n=600, d=400)
    X, order = problem.design.X, np.arange(600)
    if case == "sorted":
        order = np.argsort(problem.margins.y, kind="stable")
    if case == "rare":
        positive = np.flatnonzero(problem.margins.y > 0)
        order = np.sort(np.concatenate([np.flatnonzero(problem.margins.y < 0), positive[:5]]))
    if case == "single precision":
        X = X.astype(np.float32)
    if case == "long indices":
        X = sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)
    if case == "zeros":
        X = sp.csr_array(X.multiply((np.arange(600) % 3 > 0)[:, None]))
        X.sort_indices()
    problem = replace(problem, design=as_design(X, True)).take(order)
    other = solve(problem, Decomposed(), tol=1e-10, max_iter=100)
    found = solve(problem, Ascent(seed=3), tol=1e-8, max_iter=3000)
    assert found.status is Status.CONVERGED
    assert found.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-8)


def test_a_good_start_is_used_and_a_bad_one_is_not():
    _, problem = both((-np.inf, -np.inf), True, n=600)
    cold = solve(problem, Ascent(), tol=1e-9, max_iter=3000)
    warm = solve(problem, Ascent(), tol=1e-6, max_iter=3000, start=cold.coef)
    assert warm.n_iter == 1 < cold.n_iter
    bad = solve(problem, Ascent(), tol=1e-9, max_iter=3000, start=1e3 * cold.coef)
    assert bad.n_iter <= cold.n_iter + 5


def test_a_slow_ascent_gives_way_to_newton_steps():
    # nearly no penalty and one long row: rows wait for each other
    _, problem = both((-np.inf, -np.inf), True, penalty=1e-7, n=300, d=40)
    found = solve(problem, Ascent(), tol=1e-10, max_iter=1000)
    assert found.status is Status.STALLED
    assert found.n_iter < 100


def test_which_rows_are_ascended(monkeypatch):
    _, problem = both((-1.0, -1.0), True)
    X = sp.csr_array((problem.design.X.data, problem.design.X.indices, problem.design.X.indptr))
    X.resize(120, 4000)
    wide = replace(problem, design=as_design(X))
    assert isinstance(choose("auto", wide), Primal)  # compiled loops are for more than that
    monkeypatch.setattr("grayzone.solvers.truncated.ascent.MANY_STORED", 100)
    assert isinstance(choose("auto", wide), Ascent)
    assert isinstance(choose("primal", wide), Primal)
    by_columns = replace(problem, design=as_design(sp.csc_array(X)))
    assert isinstance(choose("auto", by_columns), Primal)
    three = SoftmaxMargin((np.arange(120) % 3)[:, None] == np.arange(3))
    assert isinstance(choose("auto", replace(wide, margins=three)), Primal)
    twice = sp.csr_array(
        (np.repeat(X.data, 2) / 2.0, np.repeat(X.indices, 2), 2 * X.indptr), X.shape
    )
    assert isinstance(choose("auto", replace(problem, design=as_design(twice))), Primal)


def test_texts_by_the_estimator_and_by_smoothed_steps():
    X, sign, weight = sparse_rows(n=1000, d=3200, seed=4, density=0.02)
    assert X.nnz > designs.MANY_STORED
    mine, other = (
        TruncatedLogisticRegression(C=0.1, zone=0.5, tol=1e-5, solver=solver).fit(
            X, sign, sample_weight=weight
        )
        for solver in ("auto", "primal")
    )
    assert max(mine.dual_gap_, other.dual_gap_) <= 1e-5
    assert mine.objective_ == pytest.approx(other.objective_, rel=2e-5)
    spanned = mine.dual_coef_ @ mine.support_vectors_
    np.testing.assert_allclose(spanned, mine.coef_, atol=1e-4 * np.abs(mine.coef_).max())


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gram_by_pairs(monkeypatch, fit_intercept):
    X, _, _ = sparse_rows()
    rng = np.random.default_rng(1)
    weights, residual = rng.normal(size=(120, 3)), rng.normal(size=(120, 2))
    weights[::4] = 0.0
    dense = as_design(X.toarray(), fit_intercept)
    expected = dense.gram(weights, residual)
    some = np.arange(0, 120, 7)
    monkeypatch.setattr(designs, "MANY_STORED", 0)
    found = as_design(X, fit_intercept)
    assert found._few_pairs
    for mine, theirs in zip(found.gram(weights, residual), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
    mine, _ = found.gram(weights[some], residual[some], some)
    np.testing.assert_allclose(mine, dense.gram(weights[some], residual[some], some)[0], atol=1e-12)
    # few of many rows are paired, too: the loop is there already
    monkeypatch.setattr(designs, "MANY_STORED", X.nnz)
    assert as_design(X, fit_intercept).take(some)._few_pairs
    assert not as_design(X[some], fit_intercept)._few_pairs
    monkeypatch.setattr(designs, "MANY_STORED", 0)
    # unsorted columns go the other way
    turned = sp.csr_array((X.data[::-1], X.indices[::-1], X.nnz - X.indptr[::-1]), X.shape)
    assert not as_design(turned, fit_intercept)._few_pairs
