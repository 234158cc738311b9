"""Policies: probabilities of actions from linear scores, and the log-losses of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np
from array_api_compat import device

from grayzone.numerics.losses import sigmoid, softplus
from grayzone.numerics.namespace import array_namespace, is_numpy_array

Array = Any


def _compiled(name: str) -> Any:
    return getattr(import_module("grayzone.numerics.jit_policy"), name)


class BinaryPolicy:
    """Two actions; one score, the log-odds of the second."""

    n_actions = 2
    n_outputs = 1
    pairs: Sequence[tuple[int, int]] = ((0, 0),)  # of outputs that Hessians are sums over

    def compiled(self, name: str) -> Callable[[], Any] | None:
        """Return what gives the compiled loop of a method; asking for it compiles."""
        return partial(_compiled, name)

    def proba(self, F: Array) -> Array:
        """Probabilities of the actions, (n, 2)."""
        return array_namespace(F).concat([sigmoid(-F), sigmoid(F)], axis=1)

    def losses(self, F: Array, q: Array) -> Array:
        """Log-loss of each row with target weights q (n, 2)."""
        return q[:, 1] * softplus(-F[:, 0]) + q[:, 0] * softplus(F[:, 0])

    def pull(self, p: Array, q: Array) -> Array:
        """Gradient of the log-losses in the scores, at probabilities p (n, 2)."""
        return (q[:, 0] * p[:, 1] - q[:, 1] * p[:, 0])[:, None]

    def bend(self, p: Array, q: Array) -> Array:
        """Hessian weights of the log-losses."""
        return ((q[:, 0] + q[:, 1]) * p[:, 1] * p[:, 0])[:, None]

    def reward_pull(self, p: Array, R: Array) -> Array:
        """Gradient in the scores of the expected rewards R (n, 2)."""
        return ((R[:, 1] - R[:, 0]) * p[:, 1] * p[:, 0])[:, None]


class SoftmaxPolicy:
    """A actions with a score each, all penalised alike."""

    def __init__(self, n_actions: int) -> None:
        self.n_actions = self.n_outputs = n_actions
        self.pairs = tuple(combinations(range(n_actions), 2))

    def compiled(self, name: str) -> Callable[[], Any] | None:
        """Return what gives the compiled loop of a method, as for two actions."""
        return partial(_compiled, f"softmax_{name}")

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

    def pull(self, p: Array, q: Array) -> Array:
        """Gradient of the log-losses in the scores, at probabilities p (n, A)."""
        return array_namespace(p).sum(q, axis=1, keepdims=True) * p - q

    def bend(self, p: Array, q: Array) -> Array:
        """Hessian weights of the log-losses, for squares of the differences of two outputs.

        As one constant added to all scores changes nothing, these are all there is: the Hessian of
        a row is the sum over pairs of q p_k p_m (e_k - e_m)(e_k - e_m)', no term of it negative.
        """
        xp = array_namespace(p)
        total = xp.sum(q, axis=1)
        return xp.stack([total * p[:, k] * p[:, m] for k, m in self.pairs], axis=1)

    def reward_pull(self, p: Array, R: Array) -> Array:
        """Gradient in the scores of the expected rewards R (n, A)."""
        return p * (R - array_namespace(p).vecdot(p, R)[:, None])


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
    """Return the policy of so many actions."""
    return BinaryPolicy() if n_actions == 2 else SoftmaxPolicy(n_actions)
