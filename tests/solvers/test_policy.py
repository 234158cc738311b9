"""Solvers of policies: derivatives, Lemma 1, convex fits, bounds renewed, descent of J itself."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.linear_model import LogisticRegression

import grayzone.solvers.policy.bounds as module
from grayzone.numerics.pieces import PIECE
from grayzone.solvers.policy.bounds import descend_directly, fit_bound, majorise
from grayzone.solvers.policy.policy import BinaryPolicy, SoftmaxPolicy, policy_of
from grayzone.solvers.policy.problem import PolicyProblem, PolicySpec
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import HeldSource

POLICIES = {"binary": BinaryPolicy(), "softmax 2": SoftmaxPolicy(2), "softmax 4": SoftmaxPolicy(4)}
EVERY_POLICY = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def full_scores(policy, F):
    """A score for each action: that of the first of two is zero."""
    return np.column_stack([np.zeros(len(F)), F[:, 0]]) if policy.n_outputs == 1 else F


def some_rows(policy, n=30, seed=0, spread=3.0):
    """Scores, and an amount for each action."""
    rng = np.random.default_rng(seed)
    F = spread * rng.normal(size=(n, policy.n_outputs))
    return F, rng.uniform(0.0, 2.0, size=(n, policy.n_actions))


def central(function, F, k, h=1e-5):
    """Derivative of values of rows in the k-th score; its error is of the order of h² = 1e-10."""
    step = h * np.eye(F.shape[1])[k]
    return (function(F + step) - function(F - step)) / (2.0 * h)


# -------------------------------------------------------------------------------------- policies


@EVERY_POLICY
def test_probabilities_are_a_softmax(policy):
    F, _ = some_rows(policy)
    expected = softmax(full_scores(policy, F), axis=1)
    np.testing.assert_allclose(policy.proba(F), expected, rtol=1e-13)


@EVERY_POLICY
def test_losses_are_weighted_logarithms(policy):
    F, q = some_rows(policy)
    expected = -np.sum(q * log_softmax(full_scores(policy, F), axis=1), axis=1)
    np.testing.assert_allclose(policy.losses(F, q), expected, rtol=1e-12)


@EVERY_POLICY
def test_pull_is_the_gradient_of_the_losses(policy):
    F, q = some_rows(policy)
    pull = policy.pull(policy.proba(F), q)
    for k in range(policy.n_outputs):
        numeric = central(lambda G: policy.losses(G, q), F, k)
        np.testing.assert_allclose(pull[:, k], numeric, rtol=1e-8, atol=1e-9)


@EVERY_POLICY
def test_bend_is_the_hessian_of_the_losses(policy):
    F, q = some_rows(policy)
    bend, outputs = policy.bend(policy.proba(F), q), np.eye(policy.n_outputs)
    assert bend.shape == (len(F), len(policy.pairs))
    assert np.all(bend >= 0.0)
    hessian = np.zeros((len(F), policy.n_outputs, policy.n_outputs))
    for column, (k, m) in zip(bend.T, policy.pairs, strict=True):
        side = outputs[k] - outputs[m] if k != m else outputs[k]
        hessian += column[:, None, None] * np.outer(side, side)
    for k in range(policy.n_outputs):
        for m in range(policy.n_outputs):
            numeric = central(lambda G, k=k: policy.pull(policy.proba(G), q)[:, k], F, m)
            np.testing.assert_allclose(hessian[:, k, m], numeric, rtol=1e-8, atol=1e-9)


@EVERY_POLICY
def test_reward_pull_is_the_gradient_of_expected_rewards(policy):
    F, R = some_rows(policy)
    pull = policy.reward_pull(policy.proba(F), R)
    for k in range(policy.n_outputs):
        numeric = central(lambda G: np.sum(R * policy.proba(G), axis=1), F, k)
        np.testing.assert_allclose(pull[:, k], numeric, rtol=1e-8, atol=1e-9)


@EVERY_POLICY
@pytest.mark.parametrize("size", [40.0, 800.0, 1e6])
def test_nothing_overflows_where_probabilities_saturate(policy, size):
    corners = size * np.array([[1.0, -1.0, 0.0, 1.0], [-1.0, 1.0, -1.0, 1.0]])
    F = corners[:, : policy.n_outputs]
    q = np.ones((2, policy.n_actions))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        proba, losses = policy.proba(F), policy.losses(F, q)
        others = policy.pull(proba, q), policy.bend(proba, q), policy.reward_pull(proba, q)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-15)
    full = full_scores(policy, F)
    expected = full.shape[1] * logsumexp(full, axis=1) - full.sum(axis=1)
    np.testing.assert_allclose(losses, expected, rtol=1e-14)
    assert all(np.isfinite(values).all() for values in others)


@EVERY_POLICY
@pytest.mark.parametrize("size", [10.0, 40.0, 300.0])
def test_losses_are_precise_where_they_nearly_vanish(policy, size):
    # all that is left of a row far on the right side: a sum of small numbers, no difference
    last = np.zeros((1, policy.n_outputs))
    last[:, -1] = size
    q = np.zeros((1, policy.n_actions))
    q[:, -1] = 1000.0
    expected = 1000.0 * np.log1p((policy.n_actions - 1) * np.exp(-size))
    np.testing.assert_allclose(policy.losses(last, q), expected, rtol=1e-10)


# --------------------------------------------------------------------------------------- Lemma 1

SCORES = st.floats(-30.0, 30.0)
REWARDS = st.floats(0.0, 10.0)


@EVERY_POLICY
@given(data=st.data())
def test_the_bound_lies_above_the_cost_and_touches_it(policy, data):
    def row(values, size):
        return np.array([data.draw(st.lists(values, min_size=size, max_size=size))])

    theta, nu = row(SCORES, policy.n_outputs), row(SCORES, policy.n_outputs)
    R = row(REWARDS, policy.n_actions)
    q = R * policy.proba(nu)

    def cost(F):
        return float(np.sum(R.max(axis=1) - np.sum(R * policy.proba(F), axis=1)))

    def bound(F):
        gained = policy.losses(F, q) - policy.losses(nu, q)
        return cost(nu) + float(gained[0])

    rounding = 1e-13 * (1.0 + R.sum()) * (1.0 + np.abs(theta).max() + np.abs(nu).max())
    assert bound(theta) >= cost(theta) - rounding
    assert bound(nu) == cost(nu)
    # it touches with the same slope
    p = policy.proba(nu)
    slopes = policy.pull(p, q), -policy.reward_pull(p, R)
    np.testing.assert_allclose(*slopes, atol=1e-14 * (1.0 + R.sum()))


# --------------------------------------------------------------------------------- the objective


def make_problem(policy, n=120, d=4, seed=0, penalty=0.3, tol=1e-9, intercept=True, **other):
    """Random rewards, of which the action that suits the row has most: each row is a class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    best = (X[:, :2] @ rng.normal(size=(2, policy.n_actions))).argmax(axis=1)
    rewards = rng.uniform(0.0, 0.6, size=(n, policy.n_actions))
    rewards[np.arange(n), best] += 1.0
    each, ones = np.arange(n), np.ones(n)
    rows = Rows(X, each, ones, memory={})
    labelled = Labelled(HeldSource(X, each), each, ones.astype(int), ones, ones, rows)
    spec = PolicySpec(policy, rewards, penalty, intercept)
    return PolicyProblem(labelled, spec, tol, **{"max_iter": 100, **other})


def rows_of(problem):
    return problem.labelled.held.X


def targets(problem, bound):
    return bound.targets(problem.spec, problem.labelled.held)


def cost_of(problem, coef):
    """J, by its definition."""
    X, spec = rows_of(problem), problem.spec
    d = X.shape[1]
    scores = X @ coef[:, :d].T
    if spec.fit_intercept:
        scores = scores + coef[:, d]
    proba = softmax(full_scores(spec.policy, scores), axis=1)
    best = spec.rewards.max(axis=1)
    lost = np.sum(best - np.sum(spec.rewards * proba, axis=1))
    return float(lost + 0.5 * spec.penalty * np.sum(coef[:, :d] ** 2))


def log_loss(problem, bound, coef):
    return problem.read(bound, problem.point(coef)).loss


def gradient_of(function, coef, h=1e-5):
    """Gradient by central differences."""
    gradient = np.empty(coef.size)
    for i in range(coef.size):
        step = np.zeros(coef.size)
        step[i] = h
        step = step.reshape(coef.shape)
        gradient[i] = (function(coef + step) - function(coef - step)) / (2.0 * h)
    return gradient.reshape(coef.shape)


def minimum(problem, bound, accuracy, start=None):
    start = problem.start() if start is None else start
    return fit_bound(problem.read(bound, problem.point(start)), accuracy)


def first_fit(problem):
    return minimum(problem, problem.first_bound(), 1e-3 * problem.tol)


@EVERY_POLICY
@pytest.mark.parametrize("intercept", [True, False])
def test_the_expected_cost_is_its_definition(policy, intercept):
    problem = make_problem(policy, intercept=intercept)
    coef = np.random.default_rng(1).normal(size=problem.start().shape)
    reading = problem.read(problem.first_bound(), problem.point(coef))
    assert reading.cost == pytest.approx(cost_of(problem, coef), rel=1e-13)


def test_sums_over_many_rows_lose_none():
    # more rows than stay in one piece, or with one thread
    problem = make_problem(BinaryPolicy(), n=2 * PIECE + 77, d=2)
    coef = np.array([[0.7, -0.2, 0.1]])
    point = problem.point(coef)
    bound = problem.bound_at(point)
    reading = problem.read(bound, point)
    assert reading.cost == pytest.approx(cost_of(problem, coef), rel=1e-12)
    q = targets(problem, bound)
    expected = problem.spec.policy.losses(point.scores, q).sum() + problem.norm(coef)
    assert reading.loss == pytest.approx(expected, rel=1e-12)


@EVERY_POLICY
def test_targets_are_rewards_times_probabilities(policy):
    problem = make_problem(policy)
    at_zero = problem.bound_at(problem.point(problem.start()))
    # the first bound is the one at the policy that knows nothing
    first = targets(problem, problem.first_bound())
    np.testing.assert_allclose(first, targets(problem, at_zero), rtol=1e-15)
    coef = np.random.default_rng(1).normal(size=problem.start().shape)
    point = problem.point(coef)
    expected = problem.spec.rewards * softmax(full_scores(policy, point.scores), axis=1)
    np.testing.assert_allclose(targets(problem, problem.bound_at(point)), expected, rtol=1e-12)


# ----------------------------------------------------------------------------------- convex fits


def repeated_rows_fit(problem, q):
    """scikit-learn's minimum of the same log-loss: a weighted copy of each row for each action."""
    n, A = q.shape
    X = np.tile(rows_of(problem), (A, 1))
    labels, weight = np.repeat(np.arange(A), n), q.T.ravel()
    solver = "newton-cholesky" if A == 2 else "newton-cg"
    intercept = problem.spec.fit_intercept
    model = LogisticRegression(
        C=1.0 / problem.spec.penalty,
        solver=solver,
        tol=1e-12,
        max_iter=5000,
        fit_intercept=intercept,
    )
    return model.fit(X, labels, sample_weight=weight)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_actions", [2, 3])
def test_soft_targets_are_weighted_copies_of_rows(n_actions, intercept):
    problem = make_problem(policy_of(n_actions), intercept=intercept)
    bound = problem.bound_at(problem.point(0.5 + problem.start()))
    found = minimum(problem, bound, 1e-12)
    other = repeated_rows_fit(problem, targets(problem, bound))
    d = rows_of(problem).shape[1]
    np.testing.assert_allclose(found.coef[:, :d], other.coef_, atol=1e-7)
    if intercept:
        b, c = found.coef[:, d], other.intercept_
        shift = 0.0 if n_actions == 2 else np.mean(b) - np.mean(c)
        np.testing.assert_allclose(b - shift, c, atol=1e-7)


@EVERY_POLICY
def test_newton_and_quasi_newton_reach_the_same_minimum(policy, monkeypatch):
    problem = make_problem(policy)
    bound = problem.first_bound()
    newton = minimum(problem, bound, 1e-12)
    monkeypatch.setattr(module, "_MAX_NEWTON", 0)
    quasi = minimum(problem, bound, 1e-12)
    assert quasi.reading.loss == pytest.approx(newton.reading.loss, rel=1e-12)
    probas = [policy.proba(found.reading.point.scores) for found in (newton, quasi)]
    np.testing.assert_allclose(*probas, atol=1e-5)


@EVERY_POLICY
def test_a_minimum_is_stationary_and_does_not_depend_on_the_start(policy):
    problem = make_problem(policy)
    bound = problem.first_bound()

    def value(coef):
        return log_loss(problem, bound, coef)

    found = minimum(problem, bound, 1e-12)
    size = np.abs(gradient_of(value, problem.start())).max()
    assert np.abs(gradient_of(value, found.coef)).max() <= 1e-8 * size
    assert found.residual <= 1e-12
    scores = found.reading.point.scores
    np.testing.assert_allclose(problem.point(found.coef).scores, scores, atol=1e-12)
    far = np.random.default_rng(2).normal(scale=3.0, size=found.coef.shape)
    again = minimum(problem, bound, 1e-12, far)
    np.testing.assert_allclose(
        policy.proba(again.reading.point.scores), policy.proba(scores), atol=1e-9
    )


def test_intercepts_of_several_scores_sum_to_zero():
    problem = make_problem(SoftmaxPolicy(3))
    found = first_fit(problem)
    np.testing.assert_allclose(found.coef.sum(axis=0), 0.0, atol=1e-10)


def test_one_step_is_too_few_and_says_so():
    problem = make_problem(BinaryPolicy(), penalty=1e-3, max_iter=1)
    assert first_fit(problem).residual > 1e-3


# ------------------------------------------------------------------------------------- Algorithm 1


@EVERY_POLICY
@pytest.mark.parametrize("penalty", [1e-3, 0.1, 10.0])
def test_the_expected_cost_never_rises(policy, penalty):
    problem = make_problem(policy, penalty=penalty)
    first = first_fit(problem)
    steps = list(majorise(first, 30))
    assert steps[0] is first
    assert 1 < len(steps) <= 30
    costs = [step.cost for step in steps]
    for step in steps:
        assert step.cost == pytest.approx(cost_of(problem, step.coef), rel=1e-12)
    rounding = 1e-15 * problem.spec.rewards.size
    assert all(later <= cost + rounding for cost, later in pairwise(costs))


def test_each_step_minimises_the_bound_at_the_one_before():
    problem = make_problem(BinaryPolicy(), penalty=0.1)
    for before, after in pairwise(majorise(first_fit(problem), 4)):
        bound = problem.bound_at(before.reading.point)
        other = repeated_rows_fit(problem, targets(problem, bound))
        np.testing.assert_allclose(after.coef[:, :-1], other.coef_, atol=1e-7)


@EVERY_POLICY
@pytest.mark.parametrize("penalty", [0.03, 1.0])
def test_direct_descent_ends_at_a_stationary_point_below_many_bounds(policy, penalty):
    problem = make_problem(policy, penalty=penalty)
    first = first_fit(problem)
    heard = []
    coef, _ = descend_directly(first, lambda *step: heard.append(step))
    path = [cost for _, cost in heard]
    assert path[0] == first.cost
    assert all(later <= cost for cost, later in pairwise(path))
    for place, cost in heard:
        assert cost == pytest.approx(cost_of(problem, place), rel=1e-12)
    np.testing.assert_array_equal(heard[-1][0], coef)
    *_, last = majorise(first, 100)
    assert path[-1] <= last.cost * (1.0 + 1e-4)
    slope = gradient_of(lambda coef: cost_of(problem, coef), coef)
    at_first = gradient_of(lambda coef: cost_of(problem, coef), problem.start())
    assert np.abs(slope).max() <= 1e-5 * np.abs(at_first).max()


@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_direct_descent_ends_where_it_is_told_to(n_steps):
    problem = make_problem(SoftmaxPolicy(3), penalty=0.03)
    first, heard = first_fit(problem), []

    def enough(coef, cost):
        heard.append((coef, cost))
        return len(heard) == n_steps

    coef, _ = descend_directly(first, enough)
    assert len(heard) == n_steps
    np.testing.assert_array_equal(heard[-1][0], coef)
    assert heard[-1][1] == pytest.approx(cost_of(problem, coef), rel=1e-12)


# ------------------------------------------------------------------------- two actions, two ways


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_two_scores_or_their_difference(seed, intercept):
    # scores ±w/2 have half the squared norm of w: the same problem with twice the penalty
    one = make_problem(BinaryPolicy(), seed=seed, penalty=0.2, intercept=intercept)
    two = make_problem(SoftmaxPolicy(2), seed=seed, penalty=0.4, intercept=intercept)
    np.testing.assert_array_equal(one.spec.rewards, two.spec.rewards)
    single, double = majorise(first_fit(one), 12), majorise(first_fit(two), 12)
    for f, g in zip(single, double, strict=True):
        assert g.cost == pytest.approx(f.cost, rel=1e-10)
        np.testing.assert_allclose(g.coef[1] - g.coef[0], f.coef[0], atol=1e-7)
        np.testing.assert_allclose(g.coef[1] + g.coef[0], 0.0, atol=1e-9)
        decided = g.reading.point.scores.argmax(axis=1)
        np.testing.assert_array_equal(decided, f.reading.point.scores[:, 0] > 0.0)


@EVERY_POLICY
def test_compiled_loops_are_the_methods(policy):
    F, q = some_rows(policy)
    F[0], F[1] = 1e3, -1e3 * np.arange(policy.n_outputs)
    n, p = len(F), policy.proba(F)

    def looped(name, width, *columns):
        out = np.full((n, width), np.nan)
        for start, stop in ((0, n // 2), (n // 2, n)):
            policy.compiled(name)()(*columns, out, start, stop)
        return out

    np.testing.assert_allclose(looped("proba", policy.n_actions, F), p, rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(
        looped("pull", policy.n_outputs, p, q), policy.pull(p, q), atol=1e-14
    )
    bend = looped("bend", len(policy.pairs), p, q)
    np.testing.assert_allclose(bend, policy.bend(p, q), rtol=1e-13, atol=1e-300)
    losses = [policy.compiled("losses")()(F, q, a, b) for a, b in ((0, n // 2), (n // 2, n))]
    assert sum(losses) == pytest.approx(np.sum(policy.losses(F, q)), rel=1e-14)
