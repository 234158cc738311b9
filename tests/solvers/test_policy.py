"""Solvers of policies: derivatives, Lemma 1, convex fits, bounds renewed, descent of J itself."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.linear_model import LogisticRegression

import grayzone.solvers.policy.policy as module
from grayzone.numerics.designs import as_design
from grayzone.numerics.margins import output_pairs
from grayzone.solvers.policy.policy import (
    BinaryPolicy,
    PolicyProblem,
    SoftmaxPolicy,
    descend_directly,
    fit_targets,
    majorise,
    policy_of,
)

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
    pull = policy.pull(F, q)
    for k in range(policy.n_outputs):
        numeric = central(lambda G: policy.losses(G, q), F, k)
        np.testing.assert_allclose(pull[:, k], numeric, rtol=1e-8, atol=1e-9)


@EVERY_POLICY
def test_bend_is_the_hessian_of_the_losses(policy):
    F, q = some_rows(policy)
    bend, pairs = policy.bend(F, q), list(output_pairs(policy.n_outputs))
    assert bend.shape == (len(F), len(pairs))
    for column, (k, m) in zip(bend.T, pairs, strict=True):
        numeric = central(lambda G, k=k: policy.pull(G, q)[:, k], F, m)
        np.testing.assert_allclose(column, numeric, rtol=1e-8, atol=1e-9)


@EVERY_POLICY
def test_reward_pull_is_the_gradient_of_expected_rewards(policy):
    F, R = some_rows(policy)
    pull = policy.reward_pull(F, R)
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
        others = policy.pull(F, q), policy.bend(F, q), policy.reward_pull(F, q)
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


def test_two_actions_have_one_score():
    assert isinstance(policy_of(2), BinaryPolicy)
    for n_actions in (3, 5):
        policy = policy_of(n_actions)
        assert (policy.n_actions, policy.n_outputs) == (n_actions, n_actions)


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
    slopes = policy.pull(nu, q), -policy.reward_pull(nu, R)
    np.testing.assert_allclose(*slopes, atol=1e-14 * (1.0 + R.sum()))


# --------------------------------------------------------------------------------- the objective


def make_problem(policy, n=120, d=4, seed=0, penalty=0.3, tol=1e-9, intercept=True, **other):
    """Random rewards, of which the action that suits the row has most."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    best = (X[:, :2] @ rng.normal(size=(2, policy.n_actions))).argmax(axis=1)
    rewards = rng.uniform(0.0, 0.6, size=(n, policy.n_actions))
    rewards[np.arange(n), best] += 1.0
    settings = {"max_iter": 100, **other}
    return PolicyProblem(as_design(X, intercept), policy, rewards, penalty, tol, **settings)


def cost_of(problem, coef):
    """J, by its definition."""
    X, d = problem.design.X, problem.design.n_features
    scores = X @ coef[:, :d].T
    if problem.design.fit_intercept:
        scores = scores + coef[:, d]
    proba = softmax(full_scores(problem.policy, scores), axis=1)
    best = problem.rewards.max(axis=1)
    lost = np.sum(best - np.sum(problem.rewards * proba, axis=1))
    return float(lost + 0.5 * problem.penalty * np.sum(coef[:, :d] ** 2))


def gradient_of(function, coef, h=1e-5):
    """Gradient by central differences."""
    gradient = np.empty(coef.size)
    for i in range(coef.size):
        step = np.zeros(coef.size)
        step[i] = h
        step = step.reshape(coef.shape)
        gradient[i] = (function(coef + step) - function(coef - step)) / (2.0 * h)
    return gradient.reshape(coef.shape)


def first_fit(problem):
    return fit_targets(problem, problem.first_targets(), problem.start(), 1e-3 * problem.tol)


@EVERY_POLICY
@pytest.mark.parametrize("intercept", [True, False])
def test_the_expected_cost_is_its_definition(policy, intercept):
    problem = make_problem(policy, intercept=intercept)
    coef = np.random.default_rng(1).normal(size=problem.start().shape)
    scores = problem.design.scores(coef)
    assert problem.expected_cost(coef, scores) == pytest.approx(cost_of(problem, coef), rel=1e-13)


def test_sums_over_many_rows_lose_none():
    # more rows than stay in one piece, or with one thread
    problem = make_problem(BinaryPolicy(), n=2 * module._PIECE + 77, d=2)
    coef = np.array([[0.7, -0.2, 0.1]])
    scores = problem.design.scores(coef)
    assert problem.expected_cost(coef, scores) == pytest.approx(cost_of(problem, coef), rel=1e-12)
    q = problem.targets(scores)
    expected = problem.policy.losses(scores, q).sum() + problem.norm(coef)
    assert problem.log_loss(coef, scores, q) == pytest.approx(expected, rel=1e-12)


@EVERY_POLICY
def test_targets_are_rewards_times_probabilities(policy):
    problem = make_problem(policy)
    at_zero = problem.design.scores(problem.start())
    # the first bound is the one at the policy that knows nothing
    np.testing.assert_allclose(problem.first_targets(), problem.targets(at_zero), rtol=1e-15)
    coef = np.random.default_rng(1).normal(size=problem.start().shape)
    scores = problem.design.scores(coef)
    expected = problem.rewards * softmax(full_scores(policy, scores), axis=1)
    np.testing.assert_allclose(problem.targets(scores), expected, rtol=1e-12)


# ----------------------------------------------------------------------------------- convex fits


def repeated_rows_fit(problem, q):
    """scikit-learn's minimum of the same log-loss: a weighted copy of each row for each action."""
    n, A = q.shape
    X = np.tile(problem.design.X, (A, 1))
    labels, weight = np.repeat(np.arange(A), n), q.T.ravel()
    solver = "newton-cholesky" if A == 2 else "newton-cg"
    intercept = problem.design.fit_intercept
    model = LogisticRegression(
        C=1.0 / problem.penalty, solver=solver, tol=1e-12, max_iter=5000, fit_intercept=intercept
    )
    return model.fit(X, labels, sample_weight=weight)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_actions", [2, 3])
def test_soft_targets_are_weighted_copies_of_rows(n_actions, intercept):
    problem = make_problem(policy_of(n_actions), intercept=intercept)
    q = problem.targets(problem.design.scores(0.5 + problem.start()))
    found = fit_targets(problem, q, problem.start(), 1e-12)
    other = repeated_rows_fit(problem, q)
    d = problem.design.n_features
    np.testing.assert_allclose(found.coef[:, :d], other.coef_, atol=1e-7)
    if intercept:
        b, c = found.coef[:, d], other.intercept_
        shift = 0.0 if n_actions == 2 else np.mean(b) - np.mean(c)
        np.testing.assert_allclose(b - shift, c, atol=1e-7)


@EVERY_POLICY
def test_newton_and_quasi_newton_reach_the_same_minimum(policy, monkeypatch):
    problem = make_problem(policy)
    q = problem.first_targets()
    newton = fit_targets(problem, q, problem.start(), 1e-12)
    monkeypatch.setattr(module, "_MAX_NEWTON", 0)
    quasi = fit_targets(problem, q, problem.start(), 1e-12)
    values = [problem.log_loss(f.coef, f.scores, q) for f in (newton, quasi)]
    assert values[1] == pytest.approx(values[0], rel=1e-12)
    np.testing.assert_allclose(policy.proba(quasi.scores), policy.proba(newton.scores), atol=1e-5)


@EVERY_POLICY
def test_a_minimum_is_stationary_and_does_not_depend_on_the_start(policy):
    problem = make_problem(policy)
    q = problem.first_targets()

    def value(coef):
        return problem.log_loss(coef, problem.design.scores(coef), q)

    found = fit_targets(problem, q, problem.start(), 1e-12)
    size = np.abs(gradient_of(value, problem.start())).max()
    assert np.abs(gradient_of(value, found.coef)).max() <= 1e-8 * size
    assert found.residual <= 1e-12
    np.testing.assert_allclose(problem.design.scores(found.coef), found.scores, atol=1e-12)
    far = np.random.default_rng(2).normal(scale=3.0, size=found.coef.shape)
    again = fit_targets(problem, q, far, 1e-12)
    np.testing.assert_allclose(policy.proba(again.scores), policy.proba(found.scores), atol=1e-9)


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
    steps = list(majorise(problem, first, 30))
    assert steps[0][0] is first
    assert 1 < len(steps) <= 30
    costs = [cost for _, cost in steps]
    for fitted, cost in steps:
        assert cost == pytest.approx(cost_of(problem, fitted.coef), rel=1e-12)
    rounding = 1e-15 * problem.rewards.size
    assert all(later <= cost + rounding for cost, later in pairwise(costs))


def test_one_newton_step_for_each_bound_lowers_the_cost_all_the_same():
    problem = make_problem(SoftmaxPolicy(3), penalty=0.01, max_iter=1)
    costs = [cost for _, cost in majorise(problem, first_fit(problem), 30)]
    assert len(costs) > 10
    assert all(later <= cost + 1e-12 for cost, later in pairwise(costs))


def test_bounds_stop_where_nothing_is_left_to_gain():
    problem = make_problem(BinaryPolicy(), penalty=30.0, tol=1e-5)
    costs = [cost for _, cost in majorise(problem, first_fit(problem), 10_000)]
    assert len(costs) < 1000
    assert costs[-2] - costs[-1] <= 1e-8 * costs[-1]


def test_each_step_minimises_the_bound_at_the_one_before():
    problem = make_problem(BinaryPolicy(), penalty=0.1)
    fits = [fitted for fitted, _ in majorise(problem, first_fit(problem), 4)]
    for before, after in pairwise(fits):
        other = repeated_rows_fit(problem, problem.targets(before.scores))
        np.testing.assert_allclose(after.coef[:, :-1], other.coef_, atol=1e-7)


@EVERY_POLICY
@pytest.mark.parametrize("penalty", [0.03, 1.0])
def test_direct_descent_ends_at_a_stationary_point_below_many_bounds(policy, penalty):
    problem = make_problem(policy, penalty=penalty)
    first = first_fit(problem)
    heard = []
    found, path = descend_directly(problem, first, heard.append)
    assert heard == path
    assert path[0] == problem.expected_cost(first.coef, first.scores)
    assert all(later <= cost for cost, later in pairwise(path))
    assert path[-1] == pytest.approx(cost_of(problem, found.coef), rel=1e-12)
    *_, (_, by_bounds) = majorise(problem, first, 100)
    assert path[-1] <= by_bounds * (1.0 + 1e-4)
    slope = gradient_of(lambda coef: cost_of(problem, coef), found.coef)
    at_first = gradient_of(lambda coef: cost_of(problem, coef), problem.start())
    assert np.abs(slope).max() <= 1e-5 * np.abs(at_first).max()


@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_direct_descent_ends_where_it_is_told_to(n_steps):
    problem = make_problem(SoftmaxPolicy(3), penalty=0.03)
    first, heard = first_fit(problem), []

    def enough(cost):
        heard.append(cost)
        return len(heard) == n_steps

    found, path = descend_directly(problem, first, enough)
    assert heard == path
    assert len(path) == n_steps
    assert path[-1] == pytest.approx(cost_of(problem, found.coef), rel=1e-12)
    np.testing.assert_allclose(problem.design.scores(found.coef), found.scores, atol=1e-12)


# ------------------------------------------------------------------------- two actions, two ways


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_two_scores_or_their_difference(seed, intercept):
    # scores ±w/2 have half the squared norm of w: the same problem with twice the penalty
    one = make_problem(BinaryPolicy(), seed=seed, penalty=0.2, intercept=intercept)
    two = make_problem(SoftmaxPolicy(2), seed=seed, penalty=0.4, intercept=intercept)
    np.testing.assert_array_equal(one.rewards, two.rewards)
    single = list(majorise(one, first_fit(one), 12))
    double = list(majorise(two, first_fit(two), 12))
    for (f, cost), (g, other) in zip(single, double, strict=True):
        assert other == pytest.approx(cost, rel=1e-10)
        np.testing.assert_allclose(g.coef[1] - g.coef[0], f.coef[0], atol=1e-7)
        np.testing.assert_allclose(g.coef[1] + g.coef[0], 0.0, atol=1e-9)
        np.testing.assert_array_equal(g.scores.argmax(axis=1), f.scores[:, 0] > 0.0)
