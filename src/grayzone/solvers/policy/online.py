"""A policy that learns one batch at a time, from a bound at a solution kept for a while."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grayzone.numerics.designs import as_design
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.policy.policy import policy_of

Array = Any

_FIRST = 1e-8  # of the sums of squares, so that the first steps are finite


def known_codes(y: Array, classes: Array) -> Array:
    """Return the places of labels among the classes; all of them have to be known."""
    known = np.isin(y, classes)
    if not np.all(known):
        raise ValueError(
            f"y has the label {y[~known][0]!r}, which is none of the classes {classes.tolist()}."
        )
    return np.searchsorted(classes, y)


@dataclass(frozen=True)
class OnlinePolicy:
    """Coefficients with what AdaGrad and the bound need to know; steps return new ones."""

    rewards: Array  # (K, A)
    coef: Array  # (Q, d + 1)
    frozen: Array  # coefficients at which the bound is taken
    squares: Array
    seen: float = 0.0  # weight of the rows so far
    renew: float = 1.0  # weight at which the bound is renewed

    @classmethod
    def start(cls, rewards: Array, coef: Array) -> OnlinePolicy:
        """Start from given coefficients, zeros where nothing is known."""
        return cls(rewards, coef, coef, array_namespace(coef).full_like(coef, _FIRST))

    def step(
        self, X: Array, codes: Array, weight: Array, penalty: float, eta: float, intercept: bool
    ) -> OnlinePolicy:
        """Take an AdaGrad step on a batch; renew the bound if the rows seen have doubled."""
        xp = array_namespace(self.coef)
        policy, design = policy_of(self.rewards.shape[1]), as_design(X, fit_intercept=True)
        total = float(xp.sum(weight))
        if not total > 0.0:
            return self
        q = weight[:, None] * xp.take(self.rewards, codes, axis=0)
        # at zero coefficients the bound is that of p = 1/A
        q = q * policy.proba(design.scores(self.frozen))
        gradient = design.gradient(policy.pull(policy.proba(design.scores(self.coef)), q))
        # the share of this batch in a penalty that belongs to all rows
        share = total / (self.seen + total)
        gradient = (gradient + share * penalty * self.coef * design.penalised()) / total
        if not intercept:
            gradient[:, -1] = 0.0
        squares = self.squares + gradient**2
        coef, seen = self.coef - eta * gradient / xp.sqrt(squares), self.seen + total
        after = replace(self, coef=coef, squares=squares, seen=seen)
        return replace(after, frozen=coef, renew=2.0 * seen) if seen >= self.renew else after
