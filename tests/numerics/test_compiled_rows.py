"""Compiled passes over many rows beside the formulas that they take the place of."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from grayzone.numerics import jit_losses, pieces
from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import Logistic, SmoothedLogistic, TruncatedLogistic, sigmoid
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers.policy.policy import BinaryPolicy
from grayzone.solvers.policy.problem import log_loss, policy_values
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated import band
from grayzone.solvers.truncated.parabolas import Parabolas

EXTREMES = [0.0, -0.0, 1e-300, -1e-300, 1e-9, -1e-9, 30.0, -30.0, 800.0, -800.0, 1e300, -1e300]
N = 1003


@pytest.fixture(params=[1, 2])
def _many(request, monkeypatch):
    """Few rows are as good as many; `_many` is used for its effect only."""
    monkeypatch.setattr(pieces, "MANY", 0)
    monkeypatch.setattr(pieces, "PIECE", 16)
    with threadpool_limits(request.param, user_api="blas"):
        yield


def numbers(seed, scale=1.0):
    values = scale * np.random.default_rng(seed).normal(size=N)
    values[: len(EXTREMES)] = EXTREMES
    return values


@pytest.fixture
def policy_rows():
    q = np.random.default_rng(1).uniform(size=(N, 2))
    q[20:30, 0], q[25:35, 1] = 0.0, 0.0
    return numbers(0, 3.0)[:, None], q


@pytest.mark.usefixtures("_many")
def test_a_policy_of_two_actions(policy_rows):
    F, q = policy_rows
    policy = BinaryPolicy()
    p = policy.proba(F)
    np.testing.assert_allclose(policy_values(policy, "proba", 2, F), p, rtol=1e-15)
    for name in ("pull", "bend"):
        expected = getattr(policy, name)(p, q)
        np.testing.assert_allclose(policy_values(policy, name, 1, p, q), expected, rtol=1e-15)


@pytest.mark.usefixtures("_many")
def test_log_losses_of_a_policy(policy_rows):
    F, q = (rows[len(EXTREMES) :] for rows in policy_rows)
    assert float(log_loss(BinaryPolicy(), F, q)) == pytest.approx(
        float(BinaryPolicy().losses(F, q).sum()), rel=1e-14
    )
    # each of the extremes alone: in one sum the largest would hide all others
    for f in EXTREMES[:-2]:
        alone, target = np.full((20, 1), f), np.full((20, 2), 0.5)
        assert float(log_loss(BinaryPolicy(), alone, target)) == pytest.approx(
            float(BinaryPolicy().losses(alone, target).sum()), rel=1e-14
        )


def test_slopes_of_the_loss(monkeypatch):
    u, floor = numbers(2, 3.0), np.random.default_rng(3).normal(size=N)
    floor[::5], floor[: len(EXTREMES)] = -np.inf, -np.inf
    u[100:110] = floor[100:110]  # on the kink
    loss = TruncatedLogistic(floor)
    expected = *loss.slopes(u), loss.slope(u)
    monkeypatch.setattr(pieces, "MANY", 0)
    for found, value in zip((*loss.slopes(u), loss.slope(u)), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-15)


def test_sums_of_losses_and_their_distances_row_by_row():
    ends = np.array([-np.inf, -800.0, -1.0, 0.5])
    u, floor, a = (
        grid.ravel() for grid in np.meshgrid(EXTREMES, ends, [-0.1, 1.1, 2.0], indexing="ij")
    )
    loss = TruncatedLogistic(floor)
    slopes = sigmoid(u), 0.5 * sigmoid(floor), sigmoid(floor), np.full(u.size, 0.3)
    nearly = [np.clip(share * slopes[0], 0.0, 1.0) for share in (1.0 - 1e-6, 1.0 + 1e-6, 0.9)]
    ends = np.zeros(u.size), np.ones(u.size), np.full(u.size, 1.0 - 1e-12)
    weight, y = np.full(u.size, 2.0), np.where(np.arange(u.size) % 3, 1.0, -1.0)
    for i in range(u.size):
        found = jit_losses.value_sum(u, floor, weight, i, i + 1)
        assert found == pytest.approx(2.0 * loss.value(u)[i], rel=1e-14)
    for multipliers in (a, *slopes, *nearly, *ends):
        expected = 2.0 * loss.fenchel_young(u, multipliers)
        columns = y, -(y * u)[:, None], floor, -(y * multipliers)[:, None], weight, 1e-4
        found = [jit_losses.fenchel_young_sum(*columns, i, i + 1) for i in range(u.size)]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-28)


@pytest.mark.usefixtures("_many")
def test_sums_of_losses_and_their_distances():
    rng = np.random.default_rng(9)
    u, floor, weight = rng.normal(size=N), rng.normal(size=N), rng.uniform(size=N)
    floor[::7] = -np.inf
    loss, a = TruncatedLogistic(floor), rng.uniform(size=N)
    assert loss.value_sum(u, weight) == pytest.approx(weight @ loss.value(u), rel=1e-13)
    distances, y = weight @ loss.fenchel_young(u, a), rng.choice([-1.0, 1.0], size=N)
    scores, duals = -(y * u)[:, None], -(y * a)[:, None]
    found = loss.fenchel_young_sum(y, scores, duals, weight)
    assert found == pytest.approx(distances, rel=1e-13)
    assert SignedMargin(y).fenchel_young_sum(loss, scores, duals, weight) == found
    assert Logistic(u).value_sum(u, weight) is None  # what has other formulas is left to them
    assert loss.value_sum(u.astype(np.float32), weight) is None


@pytest.mark.parametrize("width", [1e-8, 0.1, 3.0])
@pytest.mark.usefixtures("_many")
def test_rounded_kinks(width):
    rng = np.random.default_rng(10)
    floor, weight = rng.normal(size=N), rng.uniform(size=N)
    u = floor + 2.0 * width * rng.normal(size=N)
    u[: len(EXTREMES)], u[20:23] = EXTREMES, floor[20:23] + width * np.array([-1.0, 0.0, 1.0])
    floor[::7] = -np.inf
    loss, plain = (SmoothedLogistic(TruncatedLogistic(floor), width) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "MANY", 10**9)
        slope, bend = plain.slopes(u)
        values = plain.value(u)
        assert plain.value_sum(u, weight) is None
    found = loss.slopes(u)
    np.testing.assert_allclose(found[0], slope, rtol=1e-13)
    # near the ends of the rounded piece its curvature is what is left of 1 - 1
    np.testing.assert_allclose(found[1], bend, rtol=1e-12, atol=1e-15 / width)
    assert loss.value_sum(u, weight) == pytest.approx(weight @ values, rel=1e-13)


@pytest.mark.parametrize("kind", ["even", "one class", "nothing", "far apart"])
@pytest.mark.usefixtures("_many")
def test_what_each_class_gives(kind):
    rng = np.random.default_rng(12)
    y, weight = rng.choice([-1.0, 1.0], size=N), rng.uniform(size=N)
    a = np.zeros(N) if kind == "nothing" else rng.uniform(size=N)
    y = np.ones(N) if kind == "one class" else y
    a = np.where(y > 0, 1e-12, 1.0) * a if kind == "far apart" else a
    duals = -(y * a)[:, None]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "MANY", 10**9)
        expected = SignedMargin(y).balance(duals, weight)
    found = SignedMargin(y).balance(duals, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    if kind in ("one class", "nothing"):
        assert not found.any()
    else:
        assert abs(weight @ found[:, 0]) <= 1e-12 * float(weight @ np.abs(found[:, 0]))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("compiled", [True, False])
def test_designs_of_some_rows(order, dtype, compiled):
    rng = np.random.default_rng(13)
    X = np.array(rng.normal(size=(3000, 30)), dtype=dtype, order=order)
    design, rows = as_design(X), np.sort(rng.choice(3000, 1000, replace=False))
    design.is_loaded = compiled
    taken = design.take(rows)
    assert taken.X.dtype == np.float64
    assert taken.is_loaded == compiled
    np.testing.assert_array_equal(taken.X, X[rows].astype(np.float64))
    if order == "C":
        np.testing.assert_array_equal(design.take(slice(5, 9)).X, X[5:9].astype(np.float64))


@pytest.mark.usefixtures("_many")
def test_hessian_and_gradient_of_some_rows():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(N, 3)), rng.choice([-1.0, 1.0], size=N)
    floor, weight = rng.normal(size=N), rng.uniform(size=N)
    floor[::7] = -np.inf
    problem = Problem(as_design(X), SignedMargin(y), TruncatedLogistic(floor), weight, 1.0)
    scores = problem.design.scores(rng.normal(size=(1, 4)))
    u, rows = problem.margins.margin(scores), rng.permutation(N)[:700]
    slope, bend = (weight[rows] * of for of in problem.loss.take(rows).slopes(u[rows]))
    expected = problem.second_order(scores[rows], bend, slope, slope, rows)
    found = Parabolas.of(problem, u, rows).second_order(problem)
    for sums, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(sums, value, rtol=1e-12, atol=1e-12)


def test_multipliers_of_parabolas_after_a_step(monkeypatch):
    rng = np.random.default_rng(8)
    y, weight = rng.choice([-1.0, 1.0], size=N), rng.uniform(0.1, 3.0, size=N)
    loss = TruncatedLogistic(np.where(np.arange(N) % 7, rng.normal(size=N), -np.inf))
    problem = Problem(as_design(np.zeros((N, 1))), SignedMargin(y), loss, weight, 1.0)
    u, change = rng.normal(scale=3.0, size=N), rng.normal(scale=2.0, size=N)
    rows = np.flatnonzero(u > loss.floor)
    expected = Parabolas.of(problem, u, rows).multipliers(problem, u - y * change, change)
    monkeypatch.setattr(pieces, "MANY", 0)
    found = Parabolas.of(problem, u, rows).multipliers(problem, u - y * change, change)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    # they are in the domain of the conjugates, on the side of the kink where the margins are
    slope, below = loss.slope_at_floor, (u - y * change)[rows] <= loss.floor[rows]
    assert np.all((found[rows] >= 0.0) & (found[rows] < 1.0))
    assert np.all(np.where(below, found[rows] <= slope[rows], found[rows] >= slope[rows]))
    assert not found[np.setdiff1d(np.arange(N), rows)].any()


@pytest.mark.parametrize("most", [0.5, np.inf])
def test_rows_that_a_step_misjudges(monkeypatch, most):
    u, moved, floor = numbers(4), numbers(5)[::-1].copy(), np.where(np.arange(N) % 3, 0.0, -2.0)
    u[200:210] = (floor - moved)[200:210]  # onto the kink
    u[210:220] = (floor - moved)[210:220] + 1e-11  # no more than rounding beyond it
    floor[300:310] = -np.inf
    loss = TruncatedLogistic(floor)
    expected = band.misjudged(loss, u, moved, most)
    assert 0 < expected.sum() < N
    assert not expected[300:310].any() or most < np.inf
    monkeypatch.setattr(pieces, "MANY", 0)
    np.testing.assert_array_equal(band.misjudged(loss, u, moved, most), expected)


@pytest.mark.parametrize("delta", [0.0, 0.5])
def test_rows_near_the_kink_and_above_it(monkeypatch, delta):
    u, floor = numbers(4), np.where(np.arange(N) % 3, 0.0, -np.inf)
    u[200:210] = floor[200:210] = 1.0
    loss = TruncatedLogistic(floor)
    expected = band._sides(loss, u, delta)
    assert all(0 < marks.sum() < N for marks in expected)
    monkeypatch.setattr(pieces, "MANY", 0)
    for found, value in zip(band._sides(loss, u, delta), expected, strict=True):
        np.testing.assert_array_equal(found, value)
