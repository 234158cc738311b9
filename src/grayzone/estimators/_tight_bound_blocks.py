"""Tight bounds on rows that are not NumPy's: blocks, clusters and devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from sklearn.utils import check_random_state

from grayzone.decision.limits import Target
from grayzone.numerics.backend import moved
from grayzone.numerics.designs import Design
from grayzone.solvers.policy.by_blocks import (
    BlockFitted,
    BlockPolicy,
    Bound,
    FirstBound,
    PolicyFrame,
    descend_by_blocks,
    fit_bound,
    majorise_by_blocks,
    per_row,
)
from grayzone.solvers.policy.constrained_by_blocks import ClassLimit, constrain_by_blocks
from grayzone.solvers.policy.cut import cut_by_blocks
from grayzone.solvers.policy.policy import policy_of
from grayzone.sources.labelled import Rows
from grayzone.sources.labelled_blocks import LabelledBlocks, label_blocks
from grayzone.sources.part import PartOfBlocks, split_blocks
from grayzone.sources.source import Source, Sums

Array = Any

# Probability that the policy of the first bound beside an undecided action leaves to chance.
DOUBT = 0.01


class BlockResult(NamedTuple):
    """Whether a callback ended the fit, and mean costs of decisions on held-out rows."""

    stopped: bool
    held_out_costs: tuple[float, float] | None


def fit_blocks(
    estimator: Any, source: Source, target: Target | None, listen: Callable[[float], bool]
) -> BlockResult:
    """Fit an estimator whose parameters are checked, and set what it found.

    Parameters
    ----------
    estimator : TightBoundLogisticRegression
        What is fitted.
    source : Source
        The rows.
    target : Target or None
        The limit, where there is one.
    listen : callable
        Told J after each step; a true answer ends the fit.

    Returns
    -------
    result : BlockResult
        What the estimator does not keep.
    """
    labelled = label_blocks(source, estimator.class_weight)
    estimator._check_classes(labelled.classes, target)
    start = estimator._previous(labelled.classes, source.n_features, source.like())
    rewards = estimator._set_actions(labelled.classes, labelled.prior)
    train, out = _parts(estimator, labelled)
    problem = _problem(estimator, train, rewards)
    if start is None:
        start = problem.start()
    accuracy = 1e-3 * estimator.tol
    bound = _first_bound(estimator, train)
    renew = target is None and estimator.n_bounds > 1
    first = fit_bound(problem, bound, start, accuracy, renew)
    last, path, stopped = _tighten(estimator, problem, first, target, listen)
    costs = None if out is None or target is not None else _held_out(estimator, out, first, last)
    if target is not None:
        # with held-out rows the rate is that of new data
        judged, fresh = (train, False) if out is None else (out, True)
        estimator._cut = cut_by_blocks(_plain(judged), last.coef, target, fresh)
    _expose(estimator, labelled, last, path)
    return BlockResult(stopped, costs)


def _parts(estimator: Any, labelled: LabelledBlocks) -> tuple[LabelledBlocks, PartOfBlocks | None]:
    """Rows to fit to, and those held out."""
    if estimator.validation_fraction is None:
        return labelled, None
    rng = check_random_state(estimator.random_state)
    return split_blocks(labelled, estimator.validation_fraction, rng)


def _plain(labelled: LabelledBlocks) -> LabelledBlocks:
    """The same rows without the weights of classes: rates are those of the data."""
    return replace(labelled, factors=np.ones_like(labelled.factors))


def _problem(estimator: Any, labelled: LabelledBlocks, rewards: Array) -> BlockPolicy:
    frame = PolicyFrame(
        moved(rewards, labelled.source.like()),
        1.0 / (estimator.C * rewards.shape[1]),
        estimator.fit_intercept,
    )
    return BlockPolicy(labelled, frame, estimator.tol, estimator.max_iter)


# ------------------------------------------------------------------------------------------
# The first bound, and the others
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BoundAtChow:
    """The bound at Bayes' (Chow's) rule on log-loss probabilities, with some doubt."""

    coef: Array
    costs: Array  # (K, A)
    doubt: float

    def proba(self, frame: PolicyFrame, rows: Rows, design: Design) -> Array:
        """Give its probabilities, (n, A)."""
        xp = array_namespace(rows.weight)
        n_classes, n_actions = self.costs.shape
        proba = policy_of(n_classes).proba(design.scores(self.coef))
        chosen = xp.argmin(xp.matmul(proba, moved(self.costs, proba)), axis=1)
        known = xp.arange(n_actions, device=device(chosen))
        rest = self.doubt / n_actions
        taken = xp.astype(chosen[:, None] == known[None, :], xp.float64)
        return rest + (1.0 - self.doubt) * taken


def _first_bound(estimator: Any, labelled: LabelledBlocks) -> Bound:
    if estimator.reject_cost is None:
        return FirstBound()
    plain = _problem(estimator, labelled, np.eye(len(labelled.classes)))
    fitted = fit_bound(plain, FirstBound(), plain.start(), 1e-3 * estimator.tol)
    costs = moved(estimator._action_costs(), labelled.source.like())
    return _BoundAtChow(fitted.coef, costs, DOUBT)


def _tighten(
    estimator: Any,
    problem: BlockPolicy,
    first: BlockFitted,
    target: Target | None,
    listen: Callable[[float], bool],
) -> tuple[BlockFitted, list[float], bool]:
    """Go from the first bound to the last, unless told to stop; gives the path of J as well."""
    if target is None and estimator._directly():
        told: list[bool] = [False]

        def heard(cost: float) -> bool:
            told.append(listen(cost))
            return told[-1]

        found, path = descend_by_blocks(problem, first, heard)
        return found, path, told[-1]
    if target is None:
        steps = majorise_by_blocks(problem, first, estimator.n_bounds)
    else:
        labelled = _plain(problem.labelled)
        limit, objective = class_limit(target, labelled.mass)
        plain = replace(problem, labelled=labelled)
        steps = constrain_by_blocks(plain, objective, limit, first, estimator.n_bounds)
    last, costs = first, []
    for fitted, cost in steps:
        last = fitted
        costs.append(cost)
        if listen(cost):
            return last, costs, True
    return last, costs, False


def class_limit(target: Target, mass: Array) -> tuple[ClassLimit, Array]:
    """Limit on probabilities of the positive class, and rewards (2, 2) of what is maximised.

    What :func:`grayzone.decision.limits.make_limit` gives for rows, ``mass`` is that of classes.
    """
    negative, positive = mass
    if target.name == "min_recall":
        return ClassLimit(np.array([0.0, 1.0 / positive]), -target.value), np.diag([1.0, 0.0])
    objective = np.diag([0.0, 1.0])
    if target.name == "max_fpr":
        return ClassLimit(np.array([-1.0 / negative, 0.0]), target.value), objective
    ratio = (1.0 - target.value) / target.value
    return ClassLimit(np.array([-1.0, ratio]) / negative, 0.0), objective


# ------------------------------------------------------------------------------------------
# What is left in the end
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Paid:
    """What decisions of two policies cost, and what the rows weigh."""

    coefs: tuple[Array, Array]
    costs: Array  # (K, A)
    fit_intercept: bool

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        design, costs = rows.design(self.fit_intercept), per_row(self.costs, rows)
        known = xp.arange(self.costs.shape[1], device=device(rows.codes))
        paid = []
        for coef in self.coefs:
            taken = actions_of(design.scores(coef), 0.0)[:, None] == known[None, :]
            paid.append(xp.sum(xp.where(taken, costs, 0.0)))
        return {"paid": xp.stack(paid), "weight": xp.sum(rows.weight)}


def actions_of(scores: Array, cut: float) -> Array:
    """Places of the actions taken."""
    xp = array_namespace(scores)
    if scores.shape[1] == 1:
        return xp.astype(scores[:, 0] >= cut, xp.int64)
    return xp.argmax(scores, axis=1)


def _held_out(
    estimator: Any, out: LabelledBlocks, first: BlockFitted, last: BlockFitted
) -> tuple[float, float]:
    """Mean costs of decisions with one bound and with all."""
    costs = moved(estimator._action_costs(), out.source.like())
    found = out.reduce(_Paid((first.coef, last.coef), costs, estimator.fit_intercept))
    weight = float(found["weight"])
    return float(found["paid"][0]) / weight, float(found["paid"][1]) / weight


def _expose(estimator: Any, labelled: LabelledBlocks, last: BlockFitted, path: list[float]) -> None:
    d, like = labelled.source.n_features, labelled.source.like()
    xp = array_namespace(last.coef)
    estimator.coef_ = last.coef[:, :d]
    estimator.intercept_ = (
        last.coef[:, d]
        if estimator.fit_intercept
        else xp.zeros(last.coef.shape[0], dtype=xp.float64, device=device(last.coef))
    )
    estimator.expected_error_path_ = moved(np.array(path), like)
    estimator.kkt_residual_ = last.residual
    estimator.n_iter_ = len(path)
    move_decision(estimator, like)


def move_decision(estimator: Any, like: Array) -> None:
    """Put classes, actions and costs where the data are; names stay NumPy's."""
    estimator.cost_matrix_ = moved(estimator.cost_matrix_, like)
    if estimator.classes_.dtype.kind in "biuf":
        estimator.classes_ = moved(estimator.classes_, like)
        estimator.actions_ = moved(estimator.actions_, like)
