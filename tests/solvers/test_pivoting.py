"""Principal pivoting: Kuhn-Tucker conditions of its pieces, and small fits that go by it."""

from types import SimpleNamespace

import numpy as np
import pytest
from oracle import BinaryProblem, solve_binary

from grayzone import TruncatedLogisticRegression
from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import TruncatedLogistic, sigmoid
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers import Decomposed, Problem, Quadratic, solve
from grayzone.solvers.truncated import decomposed, pivoting
from grayzone.solvers.truncated.pivoting import by_pivoting

pytest.importorskip("cvxpy")

ROUNDING = 1e-9


def near_rows(n, d, seed, spread=0.3, weights=True):
    """Rows near the kink at coefficients, and a model of others that determines the step."""
    rng = np.random.default_rng(seed)
    X, sign = rng.normal(size=(n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    floor = np.where(sign > 0, -1.0, -0.6)
    scores = -sign * (floor + spread * rng.normal(size=n))
    A = rng.normal(size=(4 * d, d + 1))
    hessian = A.T @ A + 0.1 * np.eye(d + 1)
    model = Quadratic(hessian, rng.normal(size=(1, d + 1)))
    weight = rng.uniform(0.5, 2.0, size=n) if weights else np.ones(n)
    problem = Problem(as_design(X), SignedMargin(sign), TruncatedLogistic(floor), weight, 1.0)
    return SimpleNamespace(problem=problem, model=model, scores=scores[:, None], X=X)


def assert_optimal(rows, found):
    """Check the conditions of a minimum of the model and the pieces, which is convex."""
    problem, model = rows.problem, rows.model
    y, w, floor = problem.margins.y, problem.weight, problem.loss.floor
    u = -y * rows.scores[:, 0]
    J = -y[:, None] * np.column_stack([rows.X, np.ones(len(y))])
    z, a = found.change[0], found.multipliers
    np.testing.assert_allclose(
        model.hessian @ z + model.gradient[0] + J.T @ (w * a), 0.0, atol=ROUNDING
    )
    distance = u + J @ z - floor
    at = np.maximum(u, floor)
    bend = sigmoid(at) * sigmoid(-at)
    top = sigmoid(at) - bend * (at - floor)
    above = distance > ROUNDING
    np.testing.assert_allclose(a[above], (top + bend * distance)[above], atol=ROUNDING)
    np.testing.assert_allclose(a[distance < -ROUNDING], 0.0, atol=ROUNDING)
    assert np.all(a >= -ROUNDING)
    assert np.all(a[~above] <= top[~above] + ROUNDING)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n", "d"), [(1, 2), (6, 3), (20, 20), (40, 8), (120, 5)])
def test_the_pieces_are_minimised(n, d, seed):
    rows = near_rows(n, d, seed)
    found = by_pivoting(rows.problem, rows.model, rows.scores)
    assert found is not None
    assert_optimal(rows, found)


@pytest.mark.parametrize("seed", range(5))
def test_any_first_partition_leads_there(seed):
    rows, rng = near_rows(30, 8, seed), np.random.default_rng(seed)
    expected = by_pivoting(rows.problem, rows.model, rows.scores)
    guess = np.where(rng.random(30) < 0.3, np.nan, rng.uniform(-0.1, 0.5, size=30))
    found = by_pivoting(rows.problem, rows.model, rows.scores, guess)
    np.testing.assert_allclose(found.change, expected.change, atol=ROUNDING)
    np.testing.assert_allclose(found.multipliers, expected.multipliers, atol=ROUNDING)


def test_springs_find_what_plain_pivoting_does_not(monkeypatch):
    problems = [near_rows(120, 5, seed, spread=0.05) for seed in range(20)]

    def n_found():
        found = [by_pivoting(rows.problem, rows.model, rows.scores) for rows in problems]
        for rows, one in zip(problems, found, strict=True):
            if one is not None:
                assert_optimal(rows, one)
        return sum(one is not None for one in found)

    with_springs = n_found()
    monkeypatch.setattr(pivoting, "_SPRINGS", (0.0,))
    assert n_found() < with_springs
    assert with_springs >= 19


def test_rows_that_are_alike_share_their_multiplier():
    rows = near_rows(12, 4, seed=3, weights=False)
    twice = np.repeat(np.arange(12), 2)
    problem = rows.problem.take(twice)
    found = by_pivoting(problem, rows.model, rows.scores[twice])
    np.testing.assert_allclose(found.multipliers[::2], found.multipliers[1::2], rtol=1e-12)
    hinge = (found.multipliers > 0.01) & (found.multipliers < 0.99 * problem.loss.slope_at_floor)
    assert hinge.any()


# ----------------------------------------------------------------------------------------------
# Fits
# ----------------------------------------------------------------------------------------------


def overlapping(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] - X[:, 1] + 1.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)


CASES = {
    "plain": (overlapping(300, 6, 0), (-1.0, -1.0), 1.0),
    "narrow zone": (overlapping(300, 6, 1), (-0.1, -0.1), 1.0),
    "far threshold": (overlapping(300, 6, 2), (0.6, -2.6), 1.0),
    "weak penalty": (overlapping(150, 30, 3), (-1.0, -1.0), 1e4),
    "strong penalty": (overlapping(300, 6, 4), (-1.0, -1.0), 1e-3),
    "as many hinges as coefficients": (overlapping(400, 3, 5), (-0.02, -0.02), 10.0),
    "repeated rows": (tuple(np.repeat(a, 3, axis=0) for a in overlapping(80, 4, 6)), (-1, -1), 1.0),
}


def problem_of(X, sign, floors, C):
    floor = np.where(sign > 0, floors[1], floors[0]).astype(float)
    loss, weight = TruncatedLogistic(floor), np.ones(len(sign))
    return Problem(as_design(X), SignedMargin(sign), loss, weight, 1.0 / C)


@pytest.mark.parametrize("name", CASES)
def test_small_fits_reach_the_optimum_of_a_conic_solver(name):
    (X, sign), floors, C = CASES[name]
    problem = problem_of(X, sign, floors, C)
    found = solve(problem, Decomposed(), tol=1e-9, max_iter=100, polish=3)
    assert found.certificate.relative <= 1e-9
    oracle = BinaryProblem(X, sign, problem.weight, problem.loss.floor, C, True)
    expected = solve_binary(oracle)
    assert found.certificate.primal <= expected.objective * (1.0 + 1e-9)
    assert found.certificate.primal >= expected.lower_bound * (1.0 - 1e-12)


@pytest.mark.parametrize("name", CASES)
def test_all_ways_lead_to_the_same_partition(name, monkeypatch):
    (X, sign), floors, C = CASES[name]
    problem = problem_of(X, sign, floors, C)

    def partition(strategy):
        found = solve(problem, strategy, tol=1e-12, max_iter=100, polish=3)
        a, top = found.multipliers, problem.loss.slope_at_floor
        return (a > 0).astype(int) + (a > top), found.certificate.primal

    pivoted, value = partition(Decomposed())
    at_once, same = partition(Decomposed(at_once=True))
    monkeypatch.setattr(decomposed, "by_pivoting", lambda *given: None)
    inside, again = partition(Decomposed())
    np.testing.assert_array_equal(pivoted, at_once)
    np.testing.assert_array_equal(pivoted, inside)
    np.testing.assert_allclose([same, again], value, rtol=1e-12)


def test_fits_of_a_thousand_rows_end_where_tol_is_reached_and_tiny_ones_at_rounding():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 20))
    y = (X[:, :3].sum(axis=1) + rng.normal(size=1000) > 0.0).astype(int)
    many, few = (TruncatedLogisticRegression().fit(X[:n], y[:n]) for n in (1000, 200))
    assert many.n_iter_ == 1
    assert 1e-15 < many.dual_gap_ <= many.tol
    assert few.dual_gap_ <= 1e-15
