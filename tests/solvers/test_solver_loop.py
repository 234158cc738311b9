"""The loop around every solver: limits, records, non-finite values and honest certificates."""

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import (
    BinaryProblem,
    SoftmaxProblem,
    dual_value,
    primal_value,
    softmax_dual_value,
    softmax_primal_value,
    solve_binary,
    solve_softmax,
)

from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.margins import SignedMargin, SoftmaxMargin
from grayzone.solvers import (
    ActiveSet,
    Certificate,
    Decomposed,
    Primal,
    Problem,
    Status,
    certify,
    choose,
    minimise_problem,
    solve,
)
from grayzone.solvers.certificate import Certified

SOLVERS = {"decomposed": Decomposed, "primal": Primal, "active set": ActiveSet}


@cache
def two_classes(fit_intercept=True):
    """An oracle's problem and the package's, the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    sign = np.where(X[:, 0] + rng.normal(size=60) > 0.3, 1.0, -1.0)
    weight = rng.uniform(0.2, 2.0, size=60)
    floor = np.where(sign > 0, -1.2, -0.4)
    mine = Problem(
        as_design(X, fit_intercept), SignedMargin(sign), TruncatedLogistic(floor), weight, 0.5
    )
    return BinaryProblem(X, sign, weight, floor, 2.0, fit_intercept), mine


@cache
def three_classes(fit_intercept=True):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(45, 2))
    label = np.arange(45) % 3
    X[:, 0] += label
    weight = rng.uniform(0.2, 2.0, size=45)
    cap = np.array([0.6, 0.8, 1.0])
    with np.errstate(divide="ignore"):
        floor = (np.log1p(-cap) - np.log(cap))[label]
    mine = Problem(
        as_design(X, fit_intercept),
        SoftmaxMargin(label[:, None] == np.arange(3)),
        TruncatedLogistic(floor),
        weight,
        0.5,
    )
    return SoftmaxProblem(X, label, weight, cap, 2.0, fit_intercept), mine


def split(coef, fit_intercept):
    return (coef[:, :-1], coef[:, -1]) if fit_intercept else (coef, np.zeros(len(coef)))


def state_at(problem, coef, **flags):
    """A state with the slopes of the losses for multipliers."""
    return replace(Primal().init(problem, coef), **flags)


class Scripted:
    """A solver that walks through given states, whatever the problem is."""

    def __init__(self, *states):
        self.states = states

    def init(self, problem, start):
        return replace(self.states[0], memory=0)

    def step(self, problem, state, tol):
        position = min(state.memory + 1, len(self.states) - 1)
        return replace(self.states[position], memory=position)


def optimal_state(problem, **flags):
    best = minimise_problem(problem, "auto", tol=1e-12, max_iter=100)
    return state_at(problem, best.coef, multipliers=best.multipliers, **flags)


# ---------------------------------------------------------------------------------- the way out


@pytest.mark.parametrize("name", SOLVERS)
def test_converged(name):
    _, problem = two_classes()
    found = solve(problem, SOLVERS[name](), tol=1e-8, max_iter=200)
    assert found.status is Status.CONVERGED
    assert found.certificate.relative <= 1e-8
    assert 1 <= found.n_iter <= 200


@pytest.mark.parametrize("name", ["primal", "active set"])
def test_the_limit_of_iterations(name):
    _, problem = two_classes()
    found = solve(problem, SOLVERS[name](), tol=1e-12, max_iter=2)
    assert found.status is Status.MAX_ITER
    assert found.n_iter == 2
    # what comes back is the best point seen, with a certificate of its own
    assert np.isfinite(found.coef).all()
    again = certify(problem, found.coef, problem.design.scores(found.coef), found.multipliers)
    assert found.certificate.gap == pytest.approx(again.gap, rel=1e-9)
    assert found.certificate.relative > 1e-12


def test_the_best_certified_point_is_kept():
    _, problem = two_classes()
    rng = np.random.default_rng(2)
    bad = [state_at(problem, rng.normal(size=(1, 4))) for _ in range(2)]
    best = optimal_state(problem)
    aside = best.coef + np.array([[1e-3, 0.0, 0.0, 0.0]])
    good = state_at(problem, aside, multipliers=best.multipliers)
    found = solve(problem, Scripted(bad[0], bad[0], good, bad[1]), tol=1e-12, max_iter=3)
    assert found.status is Status.MAX_ITER
    np.testing.assert_array_equal(found.coef, good.coef)
    np.testing.assert_array_equal(found.scores, good.scores)
    gaps = [r.gap for r in found.records]
    assert found.certificate.relative == min(gaps) == gaps[1]


def test_a_stalled_solver_is_told_apart():
    _, problem = two_classes()
    stuck = state_at(problem, np.ones((1, 4)), stalled=True)
    found = solve(problem, Scripted(stuck, stuck), tol=1e-6, max_iter=50)
    assert found.status is Status.STALLED
    assert found.n_iter == 1


@pytest.mark.parametrize("settled", [True, False])
def test_steps_that_gain_nothing_come_to_an_end(settled):
    _, problem = two_classes()
    idle = state_at(problem, np.ones((1, 4)), settled=settled, value=30.0)
    found = solve(problem, Scripted(idle, idle), tol=1e-6, max_iter=1000)
    assert found.status is Status.STALLED
    assert found.n_iter < 100


def test_steps_that_gain_something_go_on():
    _, problem = two_classes()
    falling = [state_at(problem, np.ones((1, 4)), settled=False, value=0.98**k) for k in range(300)]
    found = solve(problem, Scripted(*falling), tol=1e-6, max_iter=200)
    assert found.status is Status.MAX_ITER
    assert found.n_iter == 200


def test_what_is_below_rounding_of_the_start_gains_nothing():
    _, problem = two_classes()
    falling = [state_at(problem, np.ones((1, 4)), settled=False, value=0.1**k) for k in range(300)]
    found = solve(problem, Scripted(*falling), tol=1e-6, max_iter=200)
    assert found.status is Status.STALLED
    assert found.n_iter < 100


def test_a_fit_that_was_stopped_is_not_begun_anew_by_another_solver():
    _, problem = three_classes()
    heard = []

    def stop(record):
        heard.append(record)
        return True

    found = minimise_problem(problem, tol=0.0, max_iter=200, callback=stop)
    assert found.status is Status.STOPPED
    assert len(heard) == 1


def test_stalled_below_the_tolerance_is_converged():
    _, problem = two_classes()
    there = optimal_state(problem, stalled=True)
    found = solve(problem, Scripted(there, there), tol=1e-6, max_iter=50, polish=3)
    assert found.status is Status.CONVERGED
    assert found.n_iter == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_values_that_are_not_finite_end_the_loop(value):
    _, problem = two_classes()
    fair, broken = (state_at(problem, np.full((1, 4), v)) for v in (0.0, value))
    found = solve(problem, Scripted(fair, fair, broken, fair), tol=1e-12, max_iter=50)
    assert found.status is Status.NOT_FINITE
    assert found.n_iter == 2
    # the last point that was still one
    np.testing.assert_array_equal(found.coef, fair.coef)
    assert np.isfinite(found.certificate.gap)
    assert len(found.records) == 1


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_never_finite():
    _, problem = two_classes()
    broken = state_at(problem, np.full((1, 4), np.nan))
    found = solve(problem, Scripted(broken, broken), tol=1e-6, max_iter=50)
    assert found.status is Status.NOT_FINITE
    assert found.records == ()


# --------------------------------------------------------------------------- records, callback


@pytest.mark.parametrize("name", SOLVERS)
def test_records(name):
    _, problem = two_classes()
    heard = []
    found = solve(problem, SOLVERS[name](), tol=1e-9, max_iter=200, callback=heard.append)
    assert found.records == tuple(heard)
    iterations = [r.iteration for r in found.records]
    assert iterations == sorted(set(iterations))
    assert iterations[0] >= 1
    assert iterations[-1] == found.n_iter
    seconds = [r.seconds for r in found.records]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0.0
    assert min(r.gap for r in found.records) == found.certificate.relative
    assert all(0 <= r.active_rows <= 60 and r.gap >= 0.0 for r in found.records)
    assert found.certificate.primal in [r.objective for r in found.records]


def test_points_that_are_not_settled_are_not_certified():
    _, problem = two_classes()
    rough = state_at(problem, np.ones((1, 4)), settled=False)
    found = solve(problem, Scripted(rough, rough), tol=1e-12, max_iter=7)
    # only the last one, so that there is something to give back
    assert [r.iteration for r in found.records] == [7]
    assert found.status is Status.MAX_ITER


def test_polish_goes_on_while_it_pays():
    _, problem = two_classes()
    plain = solve(problem, Primal(), tol=1e-3, max_iter=200)
    polished = solve(problem, Primal(), tol=1e-3, max_iter=200, polish=3)
    assert plain.status is polished.status is Status.CONVERGED
    assert polished.certificate.gap < plain.certificate.gap
    assert polished.n_iter > plain.n_iter


def test_a_start_at_the_optimum_ends_at_once():
    _, problem = two_classes()
    best = optimal_state(problem)
    again = solve(problem, Decomposed(), tol=1e-8, max_iter=100, start=best.coef)
    assert again.status is Status.CONVERGED
    assert again.n_iter == 1


def test_names_choose_solvers():
    _, problem = two_classes()
    assert isinstance(choose("auto", problem), Decomposed)
    assert isinstance(choose("primal", problem), Primal)
    assert isinstance(choose("active-set", problem), ActiveSet)
    wide = replace(problem, design=as_design(np.zeros((60, 4000))))
    assert isinstance(choose("auto", wide), Primal)


@pytest.mark.parametrize("problem", [two_classes, three_classes])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_solvers_agree(problem, fit_intercept):
    _, mine = problem(fit_intercept)
    names = ["auto", "primal"] + ["active-set"] * (problem is two_classes)
    reached = [
        minimise_problem(mine, name, tol=1e-10, max_iter=500).certificate.primal for name in names
    ]
    np.testing.assert_allclose(reached, reached[0], rtol=1e-9)


# ---------------------------------------------------------------------------------- certificates

CASES = {
    "two classes": (lambda: two_classes(), 1),
    "two classes, no intercept": (lambda: two_classes(False), 1),
    "three classes": (lambda: three_classes(), 3),
    "three classes, no intercept": (lambda: three_classes(False), 3),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([0.0, 1e-6, 0.1, 1.0, 30.0]))
def test_certificates_are_honest(name, seed, size):
    pytest.importorskip("cvxpy")
    build, outputs = CASES[name]
    theirs, problem = build()
    many = outputs > 1
    oracle = solve_softmax(theirs) if many else solve_binary(theirs)
    rng = np.random.default_rng(seed)
    coef = size * rng.normal(size=(outputs, problem.design.n_coef))
    multipliers = rng.uniform(size=problem.design.n_rows) ** rng.choice([0.2, 1.0, 5.0])
    multipliers[rng.random(len(multipliers)) < 0.3] = 0.0
    scores = problem.design.scores(coef)
    found = certify(problem, coef, scores, multipliers)

    slopes, intercept = split(coef, theirs.fit_intercept)
    value, dual = (softmax_primal_value, softmax_dual_value) if many else (primal_value, dual_value)
    assert found.primal == pytest.approx(value(theirs, slopes, intercept), rel=1e-12)
    assert found.gap >= 0.0
    # an upper bound of what is left to gain, whatever the multipliers are
    assert found.primal - oracle.objective <= found.gap * (1.0 + 1e-12) + 1e-12 * found.primal
    # and exactly the distance to the dual value of the point it shows
    alpha = found.duals if many else -theirs.sign * found.duals[:, 0]
    lower = dual(theirs, alpha)
    scale = found.primal + abs(lower)
    assert found.gap == pytest.approx(found.primal - lower, rel=1e-9, abs=1e-12 * scale)
    if theirs.fit_intercept:
        mass = theirs.weight @ np.abs(found.duals)
        assert np.all(np.abs(theirs.weight @ found.duals) <= 1e-12 * (mass.max() + 1e-300))


@pytest.mark.parametrize("outside", [-0.5, 1.5])
def test_no_certificate_from_multipliers_outside_their_domain(outside):
    _, problem = two_classes(fit_intercept=False)
    best = optimal_state(problem)
    multipliers = best.multipliers.copy()
    multipliers[0] = outside
    found = certify(problem, best.coef, best.scores, multipliers)
    assert found.gap == np.inf


class Falling:
    """A strategy whose objective falls by a thousandth each step, and is never certified."""

    patience = 25

    def __init__(self, first):
        self.first = first

    def init(self, problem, start):
        return replace(Primal().init(problem, start), settled=False, value=self.first)

    def step(self, problem, state, tol):
        return replace(state, value=0.999 * state.value)


@pytest.mark.parametrize(("first", "status"), [(1e-30, "STALLED"), (1.0, "MAX_ITER")])
def test_what_is_nothing_already_need_not_become_less(first, status):
    # fits that start from the end of others, of kernel values of 1e40, went on for minutes
    solution = solve(two_classes()[1], Falling(first), tol=1e-6, max_iter=200)
    assert solution.status is Status[status]
    assert (solution.n_iter < 40) == (status == "STALLED")


@dataclass(frozen=True)
class Hopeless:
    """A strategy, and its state, whose gap is 1e12 times the objective and falls slowly."""

    coef: np.ndarray = field(default_factory=lambda: np.zeros((1, 1)))
    value: float = 1.0
    settled: bool = True
    stalled: bool = False

    def init(self, problem, start):
        return self

    def step(self, problem, state, tol):
        return replace(state, value=0.98 * state.value)

    def certified(self, problem, tol, last):
        return Certified(self.coef, Certificate(self.value, 1e12 * self.value), 1)


def test_a_gap_of_nothing_but_rounding_has_to_fall_fast():
    # fits of three classes and of kernel values of 1e14 took hundreds of such steps
    solution = solve(two_classes()[1], Hopeless(), tol=1e-6, max_iter=1000)
    assert solution.status is Status.STALLED
    assert solution.n_iter < 100
    assert not solution.fine(1e-6)
