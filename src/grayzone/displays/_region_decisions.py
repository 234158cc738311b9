"""What a classifier decides at each point of a plane, and by which costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from grayzone.decision import action_costs, reject_costs
from grayzone.decision.costs import has_threshold, threshold_of
from grayzone.displays._base import Zone, fitted
from grayzone.displays._region_checks import probabilities_on
from grayzone.estimators.bayes import BayesDecisionClassifier
from grayzone.numerics.checks import Floats, as_labels, as_numpy, encode_labels, is_real

# Share of the cost of an error by which a decision may seem wrong and still be a tie.
_TIE = 1e-6


class Rule(NamedTuple):
    """Costs to decide by: those of errors and, perhaps, of staying undecided."""

    costs: Floats
    reject_cost: Floats | None = None
    known: bool = True  # whether decisions are known to follow from them

    def expected(self, proba: Floats) -> Floats:
        """Return what each action is expected to cost at each point."""
        return as_numpy(action_costs(proba, self.costs, reject_cost=self.reject_cost))

    @property
    def name(self) -> str:
        """Name of the line where the decision changes."""
        binary = len(self.costs) == 2 and self.reject_cost is None
        if not (self.known and binary and has_threshold(self.costs)):
            return "decision boundary"
        return f"decision boundary (p = {threshold_of(self.costs):.3g})"


def _threshold_rule(threshold: float) -> Rule:
    """Return the costs, summing to one, that imply a threshold."""
    return Rule(np.array([[0.0, threshold], [1.0 - threshold, 0.0]]))


def decisions_of(
    estimator: Any, nodes: Any, proba: Floats, classes: NDArray[Any]
) -> tuple[Rule, Floats]:
    """Return the costs an estimator decides by, and those of each action at each point.

    What `predict` says is what counts. If no costs lead to it, an action costs nothing where it
    is taken and one elsewhere; the costs returned are then those of errors alike.
    """
    actions = as_labels(fitted(estimator, "actions_", classes), "actions_")
    taken = encode_labels(as_labels(estimator.predict(nodes), "predict"), actions, "predict")
    for rule in _candidates(estimator, proba, taken, classes):
        expected = rule.expected(proba)
        if taken.max() < expected.shape[1]:
            chosen = np.take_along_axis(expected, taken[:, None], axis=1)[:, 0]
            if np.max(chosen - expected.min(axis=1)) <= _TIE * np.max(rule.costs):
                return rule, expected
    return Rule(1.0 - np.eye(len(classes)), known=False), 1.0 - np.eye(len(actions))[taken]


def _candidates(
    estimator: Any, proba: Floats, taken: NDArray[np.intp], classes: NDArray[Any]
) -> Iterator[Rule]:
    """Yield rules by which an estimator might decide, the most explicit first."""
    binary = len(classes) == 2
    costs = fitted(estimator, "cost_matrix_", None)
    if np.shape(costs) == (len(classes), len(classes)):
        reject_cost = fitted(estimator, "reject_cost", None)
        if reject_cost is not None:
            reject_cost = reject_costs(reject_cost, classes)
        yield Rule(as_numpy(costs), reject_cost)
    threshold = fitted(estimator, "threshold_", None)
    if binary and is_real(threshold) and 0 <= threshold <= 1:
        yield _threshold_rule(threshold)
    yield Rule(1.0 - np.eye(len(classes)))
    if binary:
        below = proba[taken == 0, 1].max(initial=0.0)
        above = proba[taken == 1, 1].min(initial=1.0)
        yield _threshold_rule((below + above) / 2)


def margins(costs: Floats) -> list[Floats]:
    """Return by how much each action is cheaper than the best of the others, on the grid."""
    others = [np.delete(costs, k, axis=-1).min(axis=-1) for k in range(costs.shape[-1])]
    return [other - costs[..., k] for k, other in enumerate(others)]


def reference_costs(reference: Any, xx0: Floats, xx1: Floats, rule: Rule) -> Floats | None:
    """Return what each action is expected to cost by the reference, on the grid."""
    if reference is None:
        return None
    if callable(reference):
        reference = reference(np.column_stack([xx0.ravel(), xx1.ravel()]))
    proba = probabilities_on(reference, xx0.shape, "reference")
    if proba.shape[1] != len(rule.costs):
        raise ValueError(
            f"reference stands for {proba.shape[1]} classes; expected {len(rule.costs)}."
        )
    return rule.expected(proba).reshape(*xx0.shape, -1)


def spanning_rows(estimator: Any) -> tuple[Any, str]:
    """Return the rows that span the function of an estimator, if these are rows of X."""
    names = {"import_vectors_": "import points", "support_vectors_": "support vectors"}
    while estimator is not None:
        for attribute, name in names.items():
            rows = getattr(estimator, attribute, None)
            if rows is not None and rows.shape[0] > 0:
                return rows, name
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[0][1] if len(estimator.steps) == 1 else None
        elif isinstance(estimator, BayesDecisionClassifier):
            estimator = estimator.estimator_
        else:
            estimator = getattr(estimator, "best_estimator_", None)
    return None, "marked points"


def faithful_range(zone: Any) -> Zone | None:
    """Return the probabilities inside a zone of two classes, or below the caps of all of more."""
    if zone is None:
        return None
    return zone if isinstance(zone, tuple) else (0.0, float(np.min(zone)))
