"""Decisions as operators: Bayes' rule with costs that may be an input, thresholds, policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from grayzone.estimators.anatomy import Rule
from grayzone.onnx.graph import Graph, Tensor

Array = Any

COSTS, REJECT = "costs", "reject_cost"  # names of inputs that need not be given


@dataclass(frozen=True)
class Decision:
    """What is decided.

    Attributes
    ----------
    action : Tensor
        Place (n,) among the actions; "undecided" is the last one where it is one.
    label : Tensor
        Place of the class that is decided for if one has to be.
    expected : Tensor or None
        Expected cost (n, A) of every action, where decisions are made by costs.
    """

    action: Tensor
    label: Tensor
    expected: Tensor | None = None


@dataclass(frozen=True)
class Answer:
    """What a classifier says of rows; its decision is written down only if it is asked for.

    Attributes
    ----------
    classes, actions : ndarray
        Labels of classes, and of what can be decided.
    decide : callable
        Adds the operators of the decision to a graph.
    probabilities : Tensor or None
        (n, K), None where there are none.
    scores : Tensor or None
        Values of ``decision_function``, (n, 1) or (n, K), where it has them.
    facts : dict
        What is told of the rule: threshold, zone, costs.
    """

    classes: Array
    actions: Array
    decide: Callable[[Graph, bool], Decision]
    probabilities: Tensor | None
    scores: Tensor | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def may_stay_undecided(self) -> bool:
        """Whether "undecided" is an action."""
        return len(self.actions) > len(self.classes)


def by_costs(
    proba: Tensor,
    n_classes: int,
    rule: Rule,
    of_rows: Tensor | None = None,
    order: Array | None = None,
) -> Callable[[Graph, bool], Decision]:
    """Bayes' rule, as ``decision.bayes_decision``; costs are an input that need not be given.

    Costs (1, K, K) are for all rows, (n, K, K) of each. ``of_rows`` are such of a table's columns.
    ``order`` has the place of each class of the input, where the model knows them in another order.
    """
    places = np.arange(n_classes) if order is None else order
    back = np.argsort(places)

    def asked(graph: Graph, as_input: bool) -> Tensor:
        if of_rows is not None:
            return of_rows
        if not as_input:
            return graph.constant(rule.costs[None])
        shown = rule.costs[np.ix_(places, places)][None]
        costs = graph.default_input(COSTS, shown, ["cost_rows", n_classes, n_classes])
        if order is None:
            return costs
        return graph.add("Gather", graph.add("Gather", costs, back, axis=1), back, axis=2)

    def decide(graph: Graph, as_input: bool) -> Decision:
        costs = asked(graph, as_input)
        shares = graph.add("Unsqueeze", proba, np.array([2]))
        expected = (shares * costs).sum(1, keep=False)
        label = _two(proba, costs) if n_classes == 2 else _most_saved(shares, costs)
        if rule.reject_costs is None:
            return Decision(label, label, expected.columns(places))
        reject = _rejection(graph, rule.reject_costs, as_input, places, back)
        # one number for all classes is not summed: rounding must not leave ties undecided
        same = reject.max(0).equals(reject.min(0))
        undecided = same.where(reject.max(0), (proba * reject).sum(1, keep=False))
        least = expected.min(1, keep=False)
        # a row of which nothing is known, such as one with a gap, is none to decide about
        stays = (undecided < least) | proba.sum(1, keep=False).applied("IsNaN")
        action = stays.where(np.int64(n_classes), label)
        column = undecided + least * 0.0
        every = graph.concat([expected.columns(places), column.upright()])
        return Decision(action, label, every)

    return decide


def _rejection(graph: Graph, costs: Array, as_input: bool, places: Array, back: Array) -> Tensor:
    if not as_input:
        return graph.constant(costs)
    given = graph.default_input(REJECT, costs[places], [len(costs)])
    return graph.add("Gather", given, back, axis=0)


def _two(proba: Tensor, costs: Tensor) -> Tensor:
    """Rule (1) of Hérault & Grandvalet (2007) with these costs, as ``decision.rules``."""
    graph = proba.graph

    def cost(true: int, decided: int) -> Tensor:
        row = graph.add("Gather", costs, np.array(true), axis=1)
        return graph.add("Gather", row, np.array(decided), axis=1)

    false_positive = cost(0, 1) - cost(0, 0)
    false_negative = cost(1, 0) - cost(1, 1)
    negative, positive = proba.column(0), proba.column(1)
    none_cheaper = (false_positive >= 0.0) & (false_negative >= 0.0)
    good = none_cheaper & ((false_positive > 0.0) | (false_negative > 0.0))
    both = 0.5 * false_positive + 0.5 * false_negative
    threshold = 0.5 * false_positive / good.where(both, 1.0)
    above = positive >= threshold * (negative + positive)
    other = false_negative * positive >= false_positive * negative
    # conditions of all rows and of each do not mix in one choice: numbers do
    chosen = good.where(above.cast("DOUBLE"), other.cast("DOUBLE"))
    return chosen.cast("INT64")


def _most_saved(shares: Tensor, costs: Tensor) -> Tensor:
    """The first of the actions that save most, counted from the dearest one for each class."""
    return (shares * (costs.max(2) - costs)).sum(1, keep=False).argmax()


def by_threshold(score: Tensor, threshold: float) -> Callable[[Graph, bool], Decision]:
    """The positive one of two classes where a score (n,) reaches a threshold."""

    def decide(graph: Graph, as_input: bool) -> Decision:
        action = (score >= threshold).cast("INT64")
        return Decision(action, action)

    return decide


def by_argmax(scores: Tensor, n_classes: int, n_actions: int) -> Callable[[Graph, bool], Decision]:
    """The action of the largest score (n, A)."""

    def decide(graph: Graph, as_input: bool) -> Decision:
        action = scores.argmax()
        if n_actions == n_classes:
            return Decision(action, action)
        unknown = scores.sum(1, keep=False).applied("IsNaN")
        label = scores.columns(np.arange(n_classes)).argmax()
        return Decision(unknown.where(np.int64(n_actions - 1), action), label)

    return decide
