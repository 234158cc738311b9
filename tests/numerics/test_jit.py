"""The compiled loops against plain NumPy, and pairs of multipliers against a conic solver.

Each function runs compiled and as the Python it was compiled from.
"""

from dataclasses import dataclass
from types import FunctionType

import numpy as np
import pytest
from every import every
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from oracle import BinaryProblem, dual_value, solve_binary, zone_floor
from scipy.special import expit, logit
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from grayzone.numerics import jit as _jit
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.solvers.kernel.cache import at_a_time

ALMOST_ONE = _jit.ALMOST_ONE


def kinds(function, loop=None):
    """Run a test with the compiled function and with the Python it comes from.

    Of a function that calls a compiled ``loop``, the latter calls the loop's Python.
    """
    source = getattr(function, "py_func", function)
    if loop is not None:
        source = FunctionType(
            function.__code__, {**function.__globals__, loop.__name__: loop.py_func}
        )
    return pytest.mark.parametrize("run", [function, source], ids=["compiled", "Python"])


# ------------------------------------------------------------------------------- pairs in a block


@dataclass
class Block:
    """A block whose multipliers start at `a`; without an intercept, one more row stands for it."""

    K: np.ndarray
    y: np.ndarray
    w: np.ndarray
    floor: np.ndarray
    C: float
    fit_intercept: bool = True
    a: np.ndarray | None = None

    def __post_init__(self):
        n = len(self.y)
        self.a = np.zeros(n) if self.a is None else self.a.copy()
        self.begin = self.a.copy()
        self.y0 = self.y @ (self.w * self.a)

    def naive_pull(self):
        phi = np.where(self.a <= expit(self.floor), self.floor, logit(np.maximum(self.a, 1e-300)))
        return -self.C * self.K @ (self.w * self.a * self.y) - self.y * phi

    def descend(self, run, eps=1e-10, max_iter=100_000, dtype=np.float64):
        y, w, floor, s = self.y, self.w, self.floor, expit(self.floor)
        a, pull, K = self.a.copy(), self.naive_pull(), self.K.astype(dtype)
        least = np.zeros(len(y))
        if not self.fit_intercept:
            K = np.pad(K, (0, 1))
            y, w, floor, s = (
                np.append(old, new) for old, new in ((y, 1.0), (w, 1.0), (floor, 0.0), (s, np.inf))
            )
            a, pull, least = np.append(a, 0.0), np.append(pull, 0.0), np.append(least, -np.inf)
        found = run(K, y, w, floor, s, least, a, pull, self.C, eps, max_iter)
        self.a = a[: len(self.y)]
        self.carried = pull[: len(self.y)]
        self.free = a[len(self.y) :]
        return found

    def problem(self):
        values, vectors = np.linalg.eigh(self.K)
        kept = values > 1e-14 * values[-1]
        features = vectors[:, kept] * np.sqrt(values[kept])
        return BinaryProblem(features, self.y, self.w, self.floor, self.C, self.fit_intercept)

    def violation(self):
        """How much the rows that can move disagree, from the definition."""
        pull = self.naive_pull()
        rises, falls = self.a < ALMOST_ONE, self.a > 0.0
        up, low = np.where(self.y > 0, rises, falls), np.where(self.y > 0, falls, rises)
        top, bottom = pull[up].max(initial=-np.inf), pull[low].min(initial=np.inf)
        if not self.fit_intercept:
            top, bottom = max(top, 0.0), min(bottom, 0.0)
        return top - bottom


def make_block(n=40, kernel="rbf", zone=1.0, C=1.0, weights=None, seed=0, **more):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    if kernel == "rbf":
        K = rbf_kernel(X, gamma=0.5)
    elif kernel == "singular":
        K = polynomial_kernel(X, degree=1, gamma=1.0, coef0=1.0)
    else:
        X = X[rng.integers(n // 3, size=n)]
        K = rbf_kernel(X, gamma=0.5)
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    w = np.ones(n) if weights is None else 10.0 ** rng.uniform(-weights, weights, size=n)
    return Block(K, y, w, zone_floor(y, zone), C, **more)


BLOCKS = {
    "plain": {},
    "two rows": {"n": 2, "seed": 4},
    "more than one chunk": {"n": 150},
    "a chunk exactly": {"n": 64},
    "narrow zone": {"zone": (0.49, 0.51)},
    "one-sided zone": {"zone": (0.0, 0.7), "a": True},
    "no zone": {"zone": None, "a": True},
    "weights": {"weights": 1.0},
    "very unequal weights": {"weights": 2.5},
    "small C": {"C": 1e-3},
    "large C": {"C": 100.0},
    "singular": {"kernel": "singular"},
    "repeated rows": {"kernel": "repeated"},
    "no intercept": {"fit_intercept": False},
    "no intercept, weights": {"fit_intercept": False, "weights": 1.0},
    "no intercept, off centre": {"fit_intercept": False, "zone": (0.6, 0.9)},
    "no intercept, singular": {"fit_intercept": False, "kernel": "singular"},
    "no intercept, no zone": {"fit_intercept": False, "zone": None, "a": True},
}


def named_block(name):
    settings = dict(BLOCKS[name])
    started = settings.pop("a", False)
    block = make_block(**settings)
    if started:
        # a loss without a floor has no multiplier 0; equal masses keep y'b = 0
        mass = np.where(block.y > 0, block.w[block.y > 0].sum(), block.w[block.y < 0].sum())
        block = Block(
            block.K, block.y, block.w, block.floor, block.C, block.fit_intercept, 0.3 / mass
        )
    return block


@kinds(_jit.descend_pairs)
@pytest.mark.parametrize("name", BLOCKS)
def test_pairs_reach_the_optimum(name, run):
    block = named_block(name)
    solution = solve_binary(block.problem())
    assert solution.gap <= 1e-10
    pairs, flattest = block.descend(run)
    assert 0 < pairs < 100_000
    assert flattest >= -1e-12 * block.C * np.abs(block.K).max()
    assert np.all((block.a >= 0.0) & (block.a <= 1.0))
    if block.fit_intercept:
        total = np.sum(block.w * block.a)
        assert abs(block.y @ (block.w * block.a)) <= 1e-13 * total
        value = dual_value(block.problem(), block.a)
        assert value <= solution.objective * (1.0 + 1e-13)
        assert value == pytest.approx(solution.objective, rel=1e-9)
    else:
        # what y'b gained is what the row without influence took up
        assert block.y @ (block.w * block.a) == pytest.approx(-block.free[0], abs=1e-11)
        value = dual_value(block.problem(), block.a)
        assert value == pytest.approx(solution.objective, rel=1e-9)
    assert block.violation() <= 1e-9
    # what was kept up to date from pair to pair is what the multipliers say
    np.testing.assert_allclose(block.carried, block.naive_pull(), atol=1e-10)


@every("seed", range(10))
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_from_any_start(seed, fit_intercept):
    rng = np.random.default_rng(seed)
    plain = make_block(n=50, weights=0.5, seed=seed)
    block = Block(
        plain.K, plain.y, plain.w, plain.floor, 3.0, fit_intercept, rng.choice([0.0, 0.3, 0.9], 50)
    )
    block.descend(_jit.descend_pairs)
    assert block.violation() <= 1e-9
    if fit_intercept:
        # the masses of the classes keep their difference
        assert block.y @ (block.w * block.a) == pytest.approx(block.y0, abs=1e-12)


def test_stops_at_the_violation_asked_for():
    for eps in (1.0, 0.1, 1e-3, 1e-6):
        block = make_block(n=80, C=10.0)
        pairs, _ = block.descend(_jit.descend_pairs, eps=eps)
        assert block.violation() <= eps * (1.0 + 1e-9)
        assert pairs > 0
        again, _ = block.descend(_jit.descend_pairs, eps=eps * (1.0 + 1e-9))
        assert again == 0


@kinds(_jit.descend_pairs)
def test_limit_of_pairs(run):
    block = make_block(n=80, C=10.0)
    assert block.descend(run, max_iter=7)[0] == 7
    assert block.violation() > 1e-3
    # no more than two rows a pair
    assert np.count_nonzero(block.a) <= 14


def test_every_pair_goes_up_in_the_dual():
    block = make_block(n=60, C=10.0, weights=0.5)
    problem, values = block.problem(), []
    for _ in range(60):
        block.descend(_jit.descend_pairs, max_iter=1)
        values.append(dual_value(problem, block.a))
    assert np.all(np.diff(values) >= -1e-12 * np.abs(values[-1]))
    assert values[-1] > values[0]


@kinds(_jit.descend_pairs)
def test_negative_curvature_is_told(run):
    # K_ii + K_jj - 2 K_ij = -2 for a pair of opposite classes
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    y = np.array([1.0, -1.0])
    block = Block(K, y, np.ones(2), zone_floor(y, 1.0), 5.0)
    _, flattest = block.descend(run, max_iter=50)
    assert flattest == pytest.approx(-10.0)


# ---------------------------------------------------------------------------------------- choices


def random_rows(n, seed):
    rng = np.random.default_rng(seed)
    a = rng.choice([0.0, 0.2, 0.7, 1.0, ALMOST_ONE], size=n)
    return rng.normal(size=n), a, rng.choice([-1.0, 1.0], size=n)


@njit
def compiled_largest(values):
    return _jit._largest(values)


@kinds(compiled_largest)
@every("n", [1, 3, 4, 5, 64, 513])
@every("seed", range(3))
def test_largest_is_the_first_of_its_value(n, seed, run):
    values = np.random.default_rng(seed).integers(-3, 3, size=n).astype(np.float64)
    assert run(values) == (int(np.argmax(values)), values.max())


@kinds(_jit.intercept_slope)
@every("floor", [-1.0, -np.inf])
def test_slope_by_the_intercept_is_that_of_the_losses(floor, run):
    values, _, y = random_rows(200, 0)
    w = np.random.default_rng(1).uniform(0.1, 3.0, size=200)
    loss = TruncatedLogistic(np.full(200, floor))
    expected = -np.sum(w * y * loss.slope(-y * (50.0 * values + 0.3)))
    assert run(50.0 * values, y, w, loss.floor, 0.3) == pytest.approx(expected, rel=1e-12)


# -------------------------------------------------------------------------------- rows of a cache


@kinds(_jit.add_rows, _jit._add_rows)
@every("m", [0, 1, 3, 4, 5, 30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_add_rows(m, dtype, run):
    rng = np.random.default_rng(m)
    rows = rng.normal(size=(12, 2500)).astype(dtype)
    slots, coef = rng.integers(12, size=m), rng.normal(size=m).astype(dtype)
    total = rng.normal(size=2500)
    for start, stop in ((0, 2500), (0, 1024), (100, 1300), (2499, 2500), (7, 7)):
        expected = total.copy()
        expected[start:stop] += coef.astype(float) @ rows[slots, start:stop].astype(float)
        found = total.copy()
        run(found, rows, slots, coef, [start, stop])
        bound = 10 * np.finfo(dtype).eps * (1.0 + np.abs(coef).sum()) * np.abs(rows).max()
        np.testing.assert_allclose(found, expected, atol=bound)
        np.testing.assert_array_equal(found[:start], total[:start])
        np.testing.assert_array_equal(found[stop:], total[stop:])


@kinds(_jit.gather)
def test_gather(run):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9, 30)).astype(np.float32)
    slots, columns = rng.integers(9, size=6), rng.integers(30, size=6)
    out = np.zeros((6, 6), dtype=np.float32)
    run(out, rows, slots, columns, 1, 5)
    np.testing.assert_array_equal(out[1:5], rows[slots[1:5]][:, columns])
    np.testing.assert_array_equal(out[[0, 5]], 0.0)


def check_compact(run, height, width, rows, columns):
    buffer = np.arange(height * width, dtype=np.float32)
    expected = buffer.reshape(height, width)[np.ix_(rows, columns)].ravel()
    for a, b in at_a_time(rows.size, width, columns.size):
        for r in reversed(range(a, b)):  # in any order
            run(buffer, rows, width, columns, r, r + 1)
    np.testing.assert_array_equal(buffer[: expected.size], expected)


@kinds(_jit.compact)
def test_compact(run):
    check_compact(run, 6, 10, np.array([1, 2, 5]), np.array([0, 3, 4, 9]))
    check_compact(run, 6, 10, np.arange(6), np.arange(10))
    check_compact(run, 6, 10, np.array([], dtype=np.int64), np.array([2]))


@given(st.data())
def test_compact_never_overwrites_what_is_still_to_be_read(data):
    height, width = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    rows = sorted(data.draw(st.sets(st.integers(0, height - 1))))
    columns = sorted(data.draw(st.sets(st.integers(0, width - 1), min_size=1)))
    check_compact(_jit.compact, height, width, np.array(rows, dtype=np.int64), np.array(columns))
