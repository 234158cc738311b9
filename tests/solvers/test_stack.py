"""Weights of several classifiers' log-probabilities, against solvers that know nothing of them."""

import numpy as np
import pytest
from scipy.optimize import minimize

from grayzone.solvers.stack import calibrate, fit_stack, log_scores, minimise_stack

cp = pytest.importorskip("cvxpy")


def problem(K, M, seed, n=120):
    """Scores of classifiers that know something, and of some that do not."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, K, n)
    said = [
        0.5 * rng.dirichlet(np.ones(K), n) + 0.5 * np.eye(K)[codes] * (m % 2) + 1e-3
        for m in range(M)
    ]
    scores = np.stack([log_scores(p / p.sum(axis=1, keepdims=True)) for p in said])
    return scores, codes, rng.uniform(0.0, 2.0, n)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("M", [1, 4])
def test_stack_is_the_optimum_of_cvxpy(K, M):
    scores, codes, weight = problem(K, M, seed=10 * K + M)
    stack = fit_stack(scores, codes, weight)
    w, b = cp.Variable(M, nonneg=True), cp.Variable(K)
    logits = sum(w[m] * scores[m] for m in range(M)) + np.ones((len(codes), 1)) @ b[None, :]
    said = cp.sum(cp.multiply(np.eye(K)[codes], logits), axis=1)
    loss = cp.log_sum_exp(logits, axis=1) - said
    criterion = weight @ loss + 10.0 * cp.sum_squares(w - 1.0 / M)
    cp.Problem(cp.Minimize(criterion), [b[0] == 0]).solve(solver="CLARABEL")
    assert stack.objective <= criterion.value * (1 + 1e-8)
    np.testing.assert_allclose(stack.weights, w.value, atol=2e-5)
    np.testing.assert_allclose(stack.intercept, b.value, atol=2e-5)
    assert stack.kkt_residual <= 1e-9


def test_weights_are_never_negative_and_bounds_are_certified():
    scores, codes, weight = problem(2, 3, seed=0)
    scores[2] = -scores[1]  # worth a negative weight
    stack = minimise_stack(scores, np.eye(2)[codes], weight, ridge=0.1, towards=1 / 3)
    assert stack.weights.min() == 0.0
    assert stack.kkt_residual <= 1e-9


@pytest.mark.parametrize("K", [2, 4])
def test_calibration_is_platts(K):
    scores, codes, weight = problem(K, 2, seed=K)
    found = calibrate(scores[1], codes, weight)
    mass = np.bincount(codes, weight, minlength=K)

    def loss(theta):
        logits = theta[0] * scores[1] + np.concatenate([[0.0], theta[1:]])
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        N = mass[codes]
        own = logs[np.arange(len(codes)), codes]
        rest = logs.sum(axis=1) - own
        return -weight @ ((N + 1) / (N + K) * own + rest / (N + K))

    free = minimize(loss, np.zeros(K), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found.weights[0], free.x[0], rtol=1e-4)
    np.testing.assert_allclose(found.intercept[1:], free.x[1:], atol=1e-4)


def test_scores_without_an_error_have_a_finite_slope():
    codes = np.repeat([0, 1], 40)
    found = calibrate(log_scores(np.eye(2)[codes]), codes, np.ones(80))
    p = np.exp(found.log_proba(log_scores(np.eye(2)[codes])[None]))
    np.testing.assert_allclose(p[codes == 1, 1], 41 / 42, rtol=1e-6)


def test_scores_that_say_nothing_give_the_prior():
    codes = np.repeat([0, 1], [30, 10])
    found = calibrate(np.zeros((40, 2)), codes, np.ones(40))
    # each class pulled towards the other by Platt's targets
    share = (10 * 11 / 12 + 30 / 32) / 40
    np.testing.assert_allclose(np.exp(found.log_proba(np.zeros((1, 1, 2))))[0, 1], share)
