"""Decisions of policies, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from array_api_compat import device

from grayzone.decision.example_costs import true_costs
from grayzone.numerics.backend import moved
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.policy.problem import amounts
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any


def actions_of(scores: Array, cut: float = 0.0) -> Array:
    """Return the places of the actions taken."""
    xp = array_namespace(scores)
    if scores.shape[1] == 1:
        return xp.astype(scores[:, 0] >= cut, xp.int64)
    return xp.argmax(scores, axis=1)


def mean_costs(
    labelled: Labelled, coefs: tuple[Array, ...], costs: Array, fit_intercept: bool
) -> tuple[float, ...]:
    """Return mean costs of the decisions of several policies.

    ``costs`` (K, A) are of actions, unless rows have their own.
    """
    sums = labelled.reduce(_Paid(coefs, costs, fit_intercept))
    return tuple(float(paid) / float(sums["weight"]) for paid in sums["paid"])


@dataclass(frozen=True)
class _Paid:
    """What decisions of policies cost, and what the rows weigh."""

    coefs: tuple[Array, ...]
    costs: Array
    fit_intercept: bool

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        kinds = rows.codes if rows.costs is None else true_costs(rows.costs, rows.codes)
        design, costs = rows.design(self.fit_intercept), amounts(self.costs, kinds, rows.weight)
        known = xp.arange(self.costs.shape[1], device=device(rows.codes))
        paid = []
        for coef in self.coefs:
            taken = actions_of(design.scores(moved(coef, rows.weight)))[:, None] == known[None, :]
            paid.append(xp.sum(xp.where(taken, costs, 0.0)))
        return {"paid": xp.stack(paid), "weight": xp.sum(rows.weight)}
