r"""Expected cost of a stochastic decision, and the log-losses that bound it.

A policy takes action a at x with probability :math:`p_a(x)`, the softmax of linear scores (two
actions: the logistic function of one). With rewards :math:`R_{ia} \ge 0` it loses

.. math:: J(\theta) = \sum_i w_i \Bigl(\max_a R_{ia} - \sum_a R_{ia} p_a(x_i)\Bigr)
          + \tfrac{\lambda}{2A}\|\theta\|^2,

which is not convex. By :math:`t \ge 1 + \log t` (Lemma 1 of Le Roux, 2017), for any other
parameters :math:`\nu`,

.. math:: -\sum_a R_{ia} p_a \le -\sum_a R_{ia} p^\nu_a \log p_a + \mathrm{const},

with equality at :math:`\theta = \nu`: a log-loss with the soft targets :math:`w R p^\nu`. The first
bound has :math:`p^\nu = 1/A`; for rewards of 1 for the right class it is A times smaller than
logistic regression, and so is its penalty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array
from scipy.optimize import minimize

from grayzone.numerics.designs import Design
from grayzone.numerics.linalg import descend, factorise
from grayzone.numerics.losses import sigmoid, softplus
from grayzone.numerics.margins import output_pairs
from grayzone.numerics.threads import split

Array = Any

_PIECE = 16384  # rows whose elementwise work stays in the cache
_MAX_NEWTON = 700  # coefficients up to which Hessians are formed
_FINER = 1e-3  # accuracy of convex problems, relative to that asked of the whole
_MEMORY = 20  # of L-BFGS
_BOUNDS_FIRST = 5  # before the direct descent
_NEXT_TO_NOTHING = 1e-6  # of all rewards


class BinaryPolicy:
    """Two actions; one score, the log-odds of the second."""

    n_actions = 2
    n_outputs = 1

    def proba(self, F: Array) -> Array:
        """Probabilities of the actions, (n, 2)."""
        return array_namespace(F).concat([sigmoid(-F), sigmoid(F)], axis=1)

    def losses(self, F: Array, q: Array) -> Array:
        """Log-loss of each row with target weights q (n, 2)."""
        return q[:, 1] * softplus(-F[:, 0]) + q[:, 0] * softplus(F[:, 0])

    def pull(self, F: Array, q: Array) -> Array:
        """Gradient of the log-losses in the scores."""
        p = sigmoid(F[:, 0])
        return (q[:, 0] * p - q[:, 1] * sigmoid(-F[:, 0]))[:, None]

    def bend(self, F: Array, q: Array) -> Array:
        """Hessian weights of the log-losses."""
        p = sigmoid(F[:, 0])
        return ((q[:, 0] + q[:, 1]) * p * sigmoid(-F[:, 0]))[:, None]

    def reward_pull(self, F: Array, R: Array) -> Array:
        """Gradient in the scores of the expected rewards."""
        p = sigmoid(F[:, 0])
        return ((R[:, 1] - R[:, 0]) * p * sigmoid(-F[:, 0]))[:, None]


class SoftmaxPolicy:
    """A actions with a score each, all penalised alike."""

    def __init__(self, n_actions: int) -> None:
        self.n_actions = self.n_outputs = n_actions

    def proba(self, F: Array) -> Array:
        """Probabilities of the actions, (n, A)."""
        xp = array_namespace(F)
        e = xp.exp(F - xp.max(F, axis=1, keepdims=True))
        return e / xp.sum(e, axis=1, keepdims=True)

    def losses(self, F: Array, q: Array) -> Array:
        """Log-loss of each row with target weights q (n, A)."""
        # all terms are positive, so that losses keep their digits where they nearly vanish
        xp = array_namespace(F)
        below = F - xp.max(F, axis=1, keepdims=True)
        others = _without_largest(xp.exp(below), F)
        return xp.sum(q, axis=1) * xp.log1p(xp.sum(others, axis=1)) - xp.vecdot(q, below)

    def pull(self, F: Array, q: Array) -> Array:
        """Gradient of the log-losses in the scores."""
        return array_namespace(F).sum(q, axis=1, keepdims=True) * self.proba(F) - q

    def bend(self, F: Array, q: Array) -> Array:
        """Hessian weights of the log-losses, for the pairs of outputs."""
        xp = array_namespace(F)
        p, total = self.proba(F), xp.sum(q, axis=1)
        pairs = output_pairs(self.n_outputs)
        return xp.stack(
            [total * p[:, k] * (float(k == m) - p[:, m]) for k, m in pairs],
            axis=1,
        )

    def reward_pull(self, F: Array, R: Array) -> Array:
        """Gradient in the scores of the expected rewards."""
        p = self.proba(F)
        return p * (R - array_namespace(F).vecdot(p, R)[:, None])


def _without_largest(values: Array, F: Array) -> Array:
    """Values (n, A) with zeros in the places of the largest scores; they may be written to."""
    xp = array_namespace(F)
    top = xp.argmax(F, axis=1)
    if is_numpy_array(F):
        values[np.arange(F.shape[0]), top] = 0.0
        return values
    places = xp.arange(F.shape[1], device=device(F))
    return xp.where(top[:, None] == places[None, :], 0.0, values)


Policy = BinaryPolicy | SoftmaxPolicy


def policy_of(n_actions: int) -> Policy:
    """Give the policy of so many actions."""
    return BinaryPolicy() if n_actions == 2 else SoftmaxPolicy(n_actions)


@dataclass(frozen=True)
class PolicyProblem:
    """Rows with rewards, and the strength of the penalty on the policy's coefficients.

    ``rewards`` (n, A) have the weights of rows in them.
    """

    design: Design
    policy: Policy
    rewards: Array
    penalty: float  # lambda / A
    tol: float
    max_iter: int

    @cached_property
    def best(self) -> float:
        """Rewards of always doing the best."""
        return float(np.sum(self.rewards.max(axis=1)))

    def start(self) -> Array:
        """Coefficients of the policy that knows nothing."""
        return np.zeros((self.policy.n_outputs, self.design.n_coef))

    def first_targets(self) -> Array:
        """Targets of the bound at p = 1/A."""
        return self.rewards / self.policy.n_actions

    def targets(self, scores: Array) -> Array:
        """Targets of the bound at these scores."""
        return self.rewards * self.policy.proba(scores)

    def expected_cost(self, coef: Array, scores: Array) -> float:
        """J."""
        reward = self._summed(lambda rows: self.policy.proba(scores[rows]) * self.rewards[rows])
        return self.best - reward + self.norm(coef)

    def norm(self, coef: Array) -> float:
        """Value of the penalty."""
        return 0.5 * self.penalty * self.design.dot(coef, coef)

    def shrinkage(self, coef: Array) -> Array:
        """Gradient of the penalty."""
        return self.penalty * coef * self.design.penalised()

    def _summed(self, values: Callable[[slice], Array]) -> float:
        """Sum over pieces of rows that stay in the cache, on all threads."""

        def work(start: int, stop: int) -> float:
            pieces = (slice(a, min(stop, a + _PIECE)) for a in range(start, stop, _PIECE))
            return float(sum(float(np.sum(values(rows))) for rows in pieces))

        n = self.rewards.shape[0]
        return sum(split(n, work, worth=n > 2 * _PIECE))

    def log_loss(self, coef: Array, scores: Array, q: Array) -> float:
        """Penalised log-loss with targets q."""
        return self._summed(lambda r: self.policy.losses(scores[r], q[r])) + self.norm(coef)


class Fitted(NamedTuple):
    """Coefficients, their scores, and what is left of the gradient, relative."""

    coef: Array
    scores: Array
    residual: float


def fit_targets(problem: PolicyProblem, q: Array, start: Array, accuracy: float) -> Fitted:
    """Minimise the convex log-loss with targets q, until steps promise less than ``accuracy``."""
    if start.size <= _MAX_NEWTON:
        return _newton(problem, q, start, accuracy)
    return _quasi_newton(problem, q, start, accuracy)


def _newton(problem: PolicyProblem, q: Array, coef: Array, accuracy: float) -> Fitted:
    scores = problem.design.scores(coef)
    value = problem.log_loss(coef, scores, q)
    residual = np.inf
    for _ in range(problem.max_iter):
        H, gradient = _derivatives(problem, q, coef, scores)
        change = -factorise(H)(gradient.ravel()).reshape(coef.shape)
        promised = -float(np.sum(gradient * change))
        # of the value, but not of next to nothing
        residual = promised / max(value, _NEXT_TO_NOTHING * problem.best)
        moved = problem.design.scores(change)
        t, reached = descend(_along(problem, q, coef, scores, change, moved), -promised, value)
        coef, scores, value = coef + t * change, scores + t * moved, reached
        # the step is quadratically better than what it promised
        if t == 0.0 or (t == 1.0 and residual <= accuracy):
            break
    return Fitted(coef, scores, residual)


def _along(
    problem: PolicyProblem, q: Array, coef: Array, scores: Array, change: Array, moved: Array
) -> Callable[[float], float]:
    return lambda t: problem.log_loss(coef + t * change, scores + t * moved, q)


def _derivatives(
    problem: PolicyProblem, q: Array, coef: Array, scores: Array
) -> tuple[Array, Array]:
    policy = problem.policy
    n_outputs, p = coef.shape
    grams, gradient = problem.design.gram(policy.bend(scores, q), policy.pull(scores, q))
    H = np.empty((n_outputs, p, n_outputs, p))
    for gram, (k, m) in zip(grams, output_pairs(n_outputs), strict=True):
        H[k, :, m], H[m, :, k] = gram, gram.T
    H = H.reshape(coef.size, coef.size)
    H[np.diag_indices_from(H)] += np.tile(problem.penalty * problem.design.penalised(), n_outputs)
    if n_outputs > 1 and problem.design.fit_intercept:
        # one constant added to all scores changes nothing: any curvature will do there
        last = (np.arange(coef.size) % p == p - 1).astype(float)
        H += np.outer(last, last) * (np.trace(H) / coef.size)
    return H, gradient + problem.shrinkage(coef)


def _quasi_newton(problem: PolicyProblem, q: Array, coef: Array, accuracy: float) -> Fitted:
    def value_and_gradient(c: Array) -> tuple[float, Array]:
        scores = problem.design.scores(c)
        gradient = problem.design.gradient(problem.policy.pull(scores, q))
        return problem.log_loss(c, scores, q), gradient + problem.shrinkage(c)

    return _lbfgs(problem, value_and_gradient, coef, accuracy)


def _lbfgs(
    problem: PolicyProblem,
    value_and_gradient: Callable[[Array], tuple[float, Array]],
    start: Array,
    accuracy: float,
    seen: Callable[[float], bool] = lambda value: False,
) -> Fitted:
    """L-BFGS in coordinates scaled by the diagonal of the first Hessian, or by its factor."""
    shape = start.shape
    scale = 1.0 / np.sqrt(_diagonal(problem, start))
    size = max(abs(value_and_gradient(start)[0]), 1e-300)

    def scaled(v: Array) -> tuple[float, Array]:
        value, gradient = value_and_gradient(v.reshape(shape) * scale)
        return value / size, (gradient * scale).ravel() / size

    def told(intermediate_result: Any) -> None:
        if seen(size * intermediate_result.fun):
            raise StopIteration  # how a callback ends the search

    found = minimize(
        scaled,
        (start / scale).ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=told,
        options={
            "maxiter": 10 * problem.max_iter,
            "maxcor": _MEMORY,
            "ftol": accuracy * 1e-2,
            "gtol": accuracy,
        },
    )
    coef = found.x.reshape(shape) * scale
    return Fitted(coef, problem.design.scores(coef), float(np.abs(found.jac).max()))


def _diagonal(problem: PolicyProblem, coef: Array) -> Array:
    """Diagonal of the Hessian of the first bound, where it is the same for all outputs."""
    policy = problem.policy
    weight = problem.first_targets().sum(axis=1, keepdims=True) / policy.n_actions
    diagonal = problem.design.square_sums(weight * (1.0 - 1.0 / policy.n_actions))
    diagonal = diagonal + problem.penalty * problem.design.penalised()
    return np.broadcast_to(diagonal + 1e-12 * diagonal.max(), coef.shape)


def majorise(
    problem: PolicyProblem, first: Fitted, n_bounds: int
) -> Iterator[tuple[Fitted, float]]:
    """Algorithm 1 from the first bound's minimum on: refit to the bound at the last solution.

    Gives each solution and its expected cost, which never rises.
    """
    now, accuracy = first, _FINER * problem.tol
    cost = problem.expected_cost(now.coef, now.scores)
    yield now, cost
    for _ in range(n_bounds - 1):
        now = fit_targets(problem, problem.targets(now.scores), now.coef, accuracy)
        before, cost = cost, problem.expected_cost(now.coef, now.scores)
        yield now, cost
        if before - cost <= accuracy * abs(cost):
            return


def descend_directly(
    problem: PolicyProblem, first: Fitted, seen: Callable[[float], bool]
) -> tuple[Fitted, list[float]]:
    """Descend J itself after a few bounds; gives J at each step as well.

    From the first bound's minimum it would end at worse stationary points than bounds do.
    ``seen`` is called with J at each step, and ends the descent where it returns true.
    """

    def value_and_gradient(coef: Array) -> tuple[float, Array]:
        scores = problem.design.scores(coef)
        pulled = -problem.policy.reward_pull(scores, problem.rewards)
        gradient = problem.design.gradient(pulled) + problem.shrinkage(coef)
        return problem.expected_cost(coef, scores), gradient

    path: list[float] = []

    def follow(value: float) -> bool:
        path.append(value)
        return seen(value)

    for now, cost in majorise(problem, first, _BOUNDS_FIRST):
        if follow(cost):
            return now, path
    accuracy = _FINER * problem.tol
    return _lbfgs(problem, value_and_gradient, now.coef, accuracy, follow), path
