"""Independent oracles for the truncated likelihood with an l1 penalty or an elastic net.

As ``oracle.py``, written from the definitions, with nothing from the package. With columns X, the
signs s of two classes and ``u_i = -s_i (x_i.a + b)``::

    P(a, b) = sum_i w_i log(1 + exp(max(u_i, F_i))) + l1 |a|_1 + ridge/2 a'Ma

where M is the identity, or X itself where its columns are kernel values. For multipliers alpha in
[0, 1], with ``sum_i w_i alpha_i s_i = 0`` where there is an intercept, and g = X'(w alpha s)::

    D(alpha) = -sum_i w_i h_i*(alpha_i) - psi*(g)

psi* is zero where |g| <= l1 and infinite elsewhere without a ridge, ``(|g| - l1)_+^2 / (2 ridge)``
with one and M the identity, and at most ``ridge/2 c'Mc`` for any c with |g - ridge Mc| <= l1.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from oracle import (
    best_of_attempts,
    conjugate,
    kernel_features,
    run_clarabel,
    softmax_conjugate,
    softmax_losses,
)


@dataclass(frozen=True, eq=False)
class SelectingProblem:
    """Columns X, class codes, weights, floors (two classes) or caps (more), and the penalty."""

    X: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    limits: np.ndarray  # floor of each row, or cap of each class
    l1: float
    ridge: float
    fit_intercept: bool = True
    kernel: bool = False

    @property
    def sign(self):
        return np.where(self.codes == 1, 1.0, -1.0)

    @property
    def label(self):  # as the functions of `oracle` call it
        return self.codes

    @property
    def n_classes(self):
        return int(self.codes.max()) + 1

    @property
    def saturated_loss(self):
        return -np.log(self.limits)[self.codes]


def penalty(problem, coef):
    value = problem.l1 * np.abs(coef).sum()
    M = problem.X if problem.kernel else np.eye(problem.X.shape[1])
    return value + 0.5 * problem.ridge * float(np.sum(coef * (coef @ M)))


def primal(problem, coef, intercept):
    """P(a, b) of coefficients (1, d) or (K, d)."""
    scores = problem.X @ coef.T + intercept
    if problem.n_classes == 2:
        u = np.maximum(-problem.sign * scores[:, 0], problem.limits)
        losses = np.logaddexp(0.0, u)
    else:
        losses = np.maximum(softmax_losses(problem, scores), problem.saturated_loss)
    return math.fsum(problem.weight * losses) + penalty(problem, coef)


def dual(problem, duals, coef=None):
    """D of duals (n, Q), gradients of unit-weight losses in the scores, that satisfy all else.

    With kernels and a ridge, c is ``coef``.
    """
    if problem.n_classes == 2:
        losses = conjugate(-problem.sign * duals[:, 0], problem.limits)
    else:
        losses = softmax_conjugate(duals, problem.codes, problem.saturated_loss)
    g = -(problem.weight[:, None] * duals).T @ problem.X
    value = -math.fsum(problem.weight * losses)
    if not problem.ridge:
        assert np.abs(g).max() <= problem.l1 * (1 + 1e-12)
        return value
    if not problem.kernel:
        return value - float(np.sum(np.maximum(np.abs(g) - problem.l1, 0.0) ** 2)) / (
            2 * problem.ridge
        )
    force = g - problem.ridge * coef @ problem.X
    assert np.abs(force).max() <= problem.l1 * (1 + 1e-9)
    return value - 0.5 * problem.ridge * float(np.sum(coef * (coef @ problem.X)))


def feasible(problem, duals):
    """Duals scaled down until no column pulls harder than l1, where there is no ridge."""
    if problem.ridge:
        return duals
    g = (problem.weight[:, None] * duals).T @ problem.X
    return duals * min(1.0, problem.l1 / np.abs(g).max())


def solve_selecting(problem, lower=-np.inf):
    """Minimise P with CVXPY and Clarabel; what the solver says of itself is not believed.

    ``lower`` is a bound of the optimum, by ``dual``, up to which other scalings are tried.
    """
    cp = pytest.importorskip("cvxpy")
    X, weight = problem.X, problem.weight
    n, d = X.shape
    Q = 1 if problem.n_classes == 2 else problem.n_classes
    root = kernel_features(X) if problem.kernel and problem.ridge else None

    def attempt(unit, column, settings):
        coef, intercept = cp.Variable((Q, d)), cp.Variable((1, Q))
        scores, xi = (X / column) @ coef.T, cp.Variable(n)
        constraints = []
        if problem.fit_intercept:
            scores = scores + np.ones((n, 1)) @ intercept
        if Q == 1:
            constraints.append(xi >= -cp.multiply(problem.sign, scores[:, 0]))
            low, loss = problem.limits, cp.logistic(xi)
        else:
            own = cp.sum(cp.multiply(np.eye(Q)[problem.codes], scores), axis=1)
            constraints += [xi >= cp.log_sum_exp(scores, axis=1) - own, cp.sum(intercept) == 0.0]
            low, loss = problem.saturated_loss, xi
        kinked = np.flatnonzero(np.isfinite(low) & ((low > 0.0) | (Q == 1)))
        if kinked.size:
            constraints.append(xi[kinked] >= low[kinked])
        shrink = np.tile(1.0 / column, (Q, 1))
        total = cp.sum(cp.multiply(weight / unit, loss))
        total += problem.l1 / unit * cp.norm1(cp.multiply(shrink, coef))
        if problem.ridge:
            part = cp.multiply(shrink, coef)
            part = part if root is None else part @ root
            total += cp.sum_squares(np.sqrt(0.5 * problem.ridge / unit) * part)
        run_clarabel(cp, cp.Problem(cp.Minimize(total), constraints), settings)
        free = intercept.value[0] if problem.fit_intercept else np.zeros(Q)
        point = coef.value / column, free
        return point, primal(problem, *point), lower

    return best_of_attempts(cp, attempt, X, weight)
