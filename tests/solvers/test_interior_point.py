"""The interior point alone: Kuhn-Tucker conditions and a conic solver, in every array library."""

import copy

import array_api_strict
import numpy as np
import pytest
from oracle import (
    BinaryProblem,
    SoftmaxProblem,
    primal_value,
    softmax_primal_value,
    solve_binary,
    solve_softmax,
)
from scipy.special import expit
from threadpoolctl import threadpool_limits

from grayzone.numerics import jit_interior
from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.margins import SignedMargin, SoftmaxMargin
from grayzone.solvers import Problem, Quadratic, interior_point
from grayzone.solvers.truncated.interior_point import (
    _LoopedNewton,
    _Newton,
    _start,
)
from grayzone.solvers.truncated.systems import Systems

pytest.importorskip("cvxpy")


def gaussian(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0.0, 1.0, -1.0)


def binary(data=None, floors=(-1.0, -1.0), C=1.0, fit_intercept=True, weight=None, scale=1.0):
    """Problem with the floors of the negative and of the positive rows."""
    X, sign = gaussian() if data is None else data
    weight = np.ones(len(sign)) if weight is None else weight
    return BinaryProblem(
        X * scale, sign, weight, np.where(sign > 0, floors[1], floors[0]), C, fit_intercept
    )


def spread(n, seed=1):
    return 10.0 ** np.random.default_rng(seed).uniform(-3.0, 3.0, size=n)


# Eight rows that one feature separates up to ties: with a wide zone the optimum is far away.
TIED = np.array([[-1.0], [2.0], [0.0], [0.0], [-1.0], [0.0], [0.0], [0.0]])
TIED_SIGN = np.array([-1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, 1.0])

BINARY = {
    "plain": binary(),
    "narrow zone": binary(floors=(-0.02, -0.02), C=10.0),
    "low zone": binary(floors=(-2.5, 2.2)),
    "wide zone": binary(floors=(-7.0, -7.0), C=10.0),
    "no intercept": binary(fit_intercept=False),
    "weights": binary(weight=spread(60)),
    "badly scaled": binary(scale=np.array([1e-3, 1.0, 1e3])),
    "strong penalty": binary(C=1e-4),
    "weak penalty": binary(C=1e5),
    "one feature": binary(data=gaussian(40, 1, seed=2)),
    "repeated rows": binary(data=tuple(np.repeat(part, 3, axis=0) for part in gaussian(20))),
    "wide zone, tied rows": binary((TIED, TIED_SIGN), (-8.8, -8.8), 100.0, False),
    "very wide zone, tied rows": binary((TIED, TIED_SIGN), (-12.0, -12.0), 1e3, False),
}


def clusters(k, n=45, d=3, seed=0):
    rng = np.random.default_rng(seed)
    label = np.arange(n) % k
    return rng.normal(size=(k, d))[label] + 1.2 * rng.normal(size=(n, d)), label


def softmax(k=3, cap=0.7, C=1.0, fit_intercept=True, weight=None, scale=1.0):
    X, label = clusters(k)
    weight = np.ones(len(label)) if weight is None else weight
    return SoftmaxProblem(
        X * scale, label, weight, np.broadcast_to(cap, k).astype(float), C, fit_intercept
    )


SOFTMAX = {
    "three classes": softmax(),
    "four classes, own caps": softmax(4, [0.4, 0.6, 0.8, 0.95]),
    "no intercept": softmax(fit_intercept=False),
    "weights": softmax(weight=spread(45)),
    "badly scaled": softmax(scale=np.array([1e-2, 1.0, 1e2])),
    "high caps": softmax(cap=0.999, C=10.0),
    "weak penalty": softmax(C=1e3),
}

EVERY = {
    **{f"two: {name}": case for name, case in BINARY.items()},
    **{f"many: {name}": case for name, case in SOFTMAX.items()},
}


@pytest.fixture(params=["numpy", "strict"])
def xp(request):
    return {"numpy": np, "strict": array_api_strict}[request.param]


@pytest.fixture(params=EVERY)
def case(request):
    return EVERY[request.param]


def as_problem(case, xp):
    """The package's problem of an oracle's, in one array library."""
    if isinstance(case, BinaryProblem):
        margins, floor = SignedMargin(xp.asarray(case.sign)), case.floor
    else:
        margins = SoftmaxMargin(xp.asarray(case.label[:, None] == np.arange(len(case.cap))))
        floor = (np.log1p(-case.cap) - np.log(case.cap))[case.label]
    return Problem(
        as_design(xp.asarray(case.X), case.fit_intercept),
        margins,
        TruncatedLogistic(xp.asarray(floor)),
        xp.asarray(case.weight),
        1.0 / case.C,
    )


def penalty_model(problem, coef, xp):
    """The penalty around coefficients: all of the problem that is not in the losses."""
    return Quadratic(
        xp.asarray(np.diag(np.asarray(problem.ridge()))), problem.shrinkage(xp.asarray(coef))
    )


def solved(case, xp, coef=None, tol=1e-12, **options):
    """Coefficients and multipliers that the interior point gives, from `coef` or from zero."""
    problem = as_problem(case, xp)
    if coef is None:
        coef = np.zeros((problem.n_outputs, problem.design.n_coef))
    scores = problem.design.scores(xp.asarray(coef))
    inner = interior_point(problem, penalty_model(problem, coef, xp), scores, tol=tol, **options)
    return problem, coef + np.asarray(inner.change), inner


def split(coef, fit_intercept):
    return (coef[:, :-1], coef[:, -1]) if fit_intercept else (coef, np.zeros(len(coef)))


def objective(case, coef):
    slopes, intercept = split(coef, case.fit_intercept)
    if isinstance(case, BinaryProblem):
        return primal_value(case, slopes, intercept)
    return softmax_primal_value(case, slopes, intercept)


def optimum(case):
    return solve_binary(case) if isinstance(case, BinaryProblem) else solve_softmax(case)


def test_objective_is_the_optimum(case, xp):
    _, coef, inner = solved(case, xp, tol=1e-10)
    oracle = optimum(case)
    reached = objective(case, coef)
    # the oracle's own certificate bounds the optimum from both sides
    assert reached <= oracle.objective * (1.0 + 1e-8)
    assert reached >= oracle.lower_bound * (1.0 - 1e-13)
    assert inner.n_iter <= 60


def test_kuhn_tucker_conditions(case, xp):
    problem, coef, inner = solved(case, xp, tol=1e-10)
    multipliers = np.asarray(inner.multipliers)
    assert np.all(multipliers >= 0.0)
    # stationarity: what the losses pull is what the penalty holds
    pulled = problem.gradient(inner.scores, inner.multipliers) + problem.shrinkage(xp.asarray(coef))
    force = np.abs(case.weight * multipliers) @ (1.0 + np.abs(case.X).sum(axis=1))
    assert np.max(np.abs(np.asarray(pulled))) <= 1e-5 * (1.0 + force)
    # each multiplier is a slope of its row's loss: no Fenchel-Young loss is left
    duals = problem.margins.pull(inner.scores, inner.multipliers)
    left = problem.margins.fenchel_young(problem.loss, inner.scores, duals)
    assert case.weight @ np.asarray(left) <= 1e-6 * objective(case, coef)


@pytest.mark.parametrize("far", [0.5, 5.0, 50.0])
@pytest.mark.parametrize("name", ["plain", "low zone", "weights", "no intercept", "weak penalty"])
def test_started_far_away(name, far):
    case = BINARY[name]
    start = far * np.random.default_rng(3).normal(size=(1, case.X.shape[1] + case.fit_intercept))
    _, coef, _ = solved(case, np, coef=start, tol=1e-10)
    assert objective(case, coef) <= optimum(case).objective * (1.0 + 1e-8)


@pytest.mark.parametrize("far", [0.5, 5.0])
@pytest.mark.parametrize("name", ["three classes", "no intercept", "weights"])
def test_many_classes_started_far_away(name, far):
    case = SOFTMAX[name]
    shape = (len(case.cap), case.X.shape[1] + case.fit_intercept)
    start = far * np.random.default_rng(4).normal(size=shape)
    _, coef, _ = solved(case, np, coef=start, tol=1e-10)
    assert objective(case, coef) <= optimum(case).objective * (1.0 + 1e-8)


def test_any_quadratic_rest(xp):
    # far rows come in as a Hessian and a gradient: correlated, and not centred at zero
    case = BINARY["plain"]
    problem = as_problem(case, xp)
    rng = np.random.default_rng(5)
    p = problem.design.n_coef
    factor = rng.normal(size=(p, p))
    H, g = factor @ factor.T + 0.1 * np.eye(p), 5.0 * rng.normal(size=(1, p))
    start = xp.asarray(rng.normal(size=(1, p)))
    inner = interior_point(
        problem,
        Quadratic(xp.asarray(H), xp.asarray(g)),
        problem.design.scores(start),
        tol=1e-12,
    )
    assert inner.converged
    z = np.asarray(inner.change)
    a, scores = np.asarray(inner.multipliers), np.asarray(inner.scores)
    pulled = np.asarray(problem.gradient(inner.scores, inner.multipliers))
    np.testing.assert_allclose(g + z @ H + pulled, 0.0, atol=1e-6)
    u = -case.sign * scores[:, 0]
    kink = np.abs(u - case.floor) < 1e-6
    above = ~kink & (u > case.floor)
    np.testing.assert_allclose(a[above], expit(u[above]), atol=1e-5)
    np.testing.assert_allclose(a[~kink & ~above], 0.0, atol=1e-5)
    assert np.all(a[kink] <= expit(case.floor[kink]) + 1e-9)


def test_progress_is_reported_and_falls():
    left = []
    _, _, inner = solved(BINARY["plain"], np, progress=left.append)
    assert inner.converged
    assert len(left) == inner.n_iter
    assert left[-1] <= 1e-12 < left[0]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["plain", "weights", "no intercept", "wide zone"])
def test_compiled_steps_are_those_of_numpy(name, threads, monkeypatch):
    monkeypatch.setattr("grayzone.solvers.truncated.interior_point._WORTH_A_THREAD", 1)
    problem = as_problem(BINARY[name], np)
    p, n, rng = problem.design.n_coef, problem.design.n_rows, np.random.default_rng(3)
    change = 0.1 * rng.normal(size=(1, p))
    model = Quadratic(np.diag(problem.ridge()), rng.normal(size=(1, p)))
    at = _start(problem, change, problem.design.scores(change), 0.5, None)
    at.slacks = at.slacks * rng.uniform(0.5, 2.0, size=(2, n))
    systems, goal = Systems(problem, model.hessian), rng.uniform(0.1, 1.0, size=n)
    with threadpool_limits(threads, user_api="blas"):
        plain, looped = (kind(systems, model, at) for kind in (_Newton, _LoopedNewton))
        assert looped.residual() == pytest.approx(plain.residual(), rel=1e-12)
        np.testing.assert_allclose(looped.r_xi, plain.r_xi, rtol=1e-12, atol=1e-14)
        assert looped.products == pytest.approx(plain.products, rel=1e-13)
        assert looped.mismatch == pytest.approx(plain.mismatch, rel=1e-12)
        goals = np.stack([goal, 2.0 * goal])
        one, other = plain.direction(goals), looped.direction(goals)
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_allclose(theirs, mine, rtol=1e-7, atol=1e-9 * np.abs(mine).max())
        for t in (0.0, 0.3, 1.0):
            found = looped.complementarity(one, t)
            assert found == pytest.approx(plain.complementarity(one, t), rel=1e-11)
            expected = plain.pulled_back(goals, goal, one, t)
            found = looped.pulled_back(goals, goal, one, t)
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(looped.aims(goal, one), plain.aims(goal, one), rtol=1e-13)
        plain.at, looped.at = (copy.deepcopy(at) for _ in range(2))
        for newton in (plain, looped):
            newton.advance(one, 0.3)
    for name, value in vars(plain.at).items():
        np.testing.assert_allclose(getattr(looped.at, name), value, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("row", [0, 7, 19])
def test_what_is_no_number_is_the_worst_of_all_rows(row):
    rng, n = np.random.default_rng(0), 20
    xi, u, floor, weight, sign = rng.normal(size=(5, n))
    slacks, multipliers, known = *rng.uniform(0.1, 1.0, size=(2, 2, n)), np.empty((10, n))
    odd, found = xi.copy(), np.zeros(3)
    odd[row] = np.nan
    given = u, floor, np.abs(weight), slacks, multipliers, known, np.empty(n)
    jit_interior.linearise(odd, *given, found, 0, n)
    assert np.isnan(found[[0, 2]]).all()
    jit_interior.linearise(xi, *given, found, 0, n)
    assert np.isfinite(found).all()
    X, change, step = rng.normal(size=(n, 2)), np.ones(3), np.zeros(2)
    given = rng.normal(size=(3, n)), change, np.empty((6, n)), step, 0, n
    jit_interior.push(X, sign, known, *given)
    assert np.isfinite(step).all()
    X[row] = np.nan
    jit_interior.push(X, sign, known, *given)
    assert np.isnan(step).all()
