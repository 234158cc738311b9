"""Rows to be judged: labels, decisions and probabilities, checked against each other and encoded.

Each reader returns the true classes as a `Truth` and, beside it, what was predicted for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grayzone.decision import cost_matrices
from grayzone.decision.costs import Costs, balanced_costs, cost_matrix, error_costs
from grayzone.decision.rules import undecided_value
from grayzone.numerics.checks import (
    Array,
    Floats,
    as_amounts,
    as_labels,
    as_numpy,
    as_probabilities,
    check_weights,
    encode_labels,
    is_auto,
    is_text,
)
from grayzone.numerics.namespace import array_namespace

Codes = NDArray[np.intp]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Truth:
    """The true class of each row, as an index into the labels, and the weight of the row."""

    codes: Codes
    labels: NDArray[Any]
    weights: Floats

    @property
    def prior(self) -> Floats:
        """Share of each class in the weight of all rows."""
        mass = np.bincount(self.codes, self.weights, minlength=len(self.labels))
        return mass / mass.sum()

    def matrix_of(self, costs: Costs) -> Floats:
        """Return ``cost[true, predicted]``, "balanced" over the classes that do occur."""
        if not (isinstance(costs, str) and costs == "balanced"):
            return cost_matrix(costs, self.labels)
        prior = self.prior
        occurs = prior > 0
        class_costs = np.zeros(len(prior))
        class_costs[occurs] = balanced_costs(self.labels[occurs], prior[occurs])
        return error_costs(class_costs)

    def row_matrices(self, example_costs: Any, *, some_stake: bool = False) -> Floats:
        """Return ``cost[row, true, predicted]``; something must be at stake, if that is asked."""
        rows = len(self.codes)
        return as_numpy(cost_matrices(example_costs, self.labels, rows, some_stake=some_stake))

    def prices(self, costs: Costs, example_costs: Any = None) -> Floats:
        """Return what each decision costs for each row, its true class being what it is.

        Costs of rows may be such prices themselves, beside the forms of `row_matrices`.
        """
        if example_costs is None:
            return self.matrix_of(costs)[self.codes]
        rows, n_classes = len(self.codes), len(self.labels)
        if not isinstance(example_costs, Mapping):
            offered = as_amounts(example_costs, "example_costs")
            if offered.shape == (rows, n_classes):
                return offered
            if offered.ndim == 2:
                raise ValueError(
                    f"example_costs has shape {offered.shape}; expected {(rows, n_classes)}, the "
                    f"cost of predicting each of the labels {self.labels.tolist()} for each row, "
                    f"or {(rows, n_classes, n_classes)}, cost[row, true, predicted]."
                )
            example_costs = offered
        return self.row_matrices(example_costs)[np.arange(rows), self.codes]


def read_decisions(
    y_true: Any,
    y_pred: Any,
    sample_weight: Any,
    labels: Any,
    costs: Costs,
    undecided_label: Any,
    reject_cost: Any,
) -> tuple[Truth, Codes, Flags]:
    """Return the truth, the class chosen for each row, and whether one was chosen at all.

    The class chosen means nothing where none was.
    """
    predicted = as_labels(y_pred, "y_pred")
    true = _true_labels(y_true, len(predicted), "y_pred")
    known = _known_labels(true, labels, costs)
    undecided = _undecided(predicted, known, undecided_label, reject_cost)
    if labels is None and not isinstance(costs, Mapping):
        known = _merge(known, predicted[~undecided], "y_pred")
    # Undecided rows stand for any class here: their cost is not looked up.
    stated = np.where(undecided, true, predicted) if np.any(undecided) else predicted
    truth = _truth(true, known, sample_weight)
    return truth, encode_labels(stated, known, "y_pred"), ~undecided


def read_probabilities(
    y_true: Any, y_proba: Any, sample_weight: Any, labels: Any, costs: Costs = None
) -> tuple[Truth, Array]:
    """Return the truth and the probabilities of the classes, one column for each label."""
    proba = _unit_probabilities(y_proba)
    true = _true_labels(y_true, proba.shape[0], "y_proba")
    known = _known_labels(true, labels, costs)
    if len(known) != proba.shape[1]:
        raise ValueError(
            f"y_proba stands for {proba.shape[1]} classes but there are {len(known)} labels, "
            f"{known.tolist()}; name the label of each column in labels."
        )
    return _truth(true, known, sample_weight), proba


def read_binary(
    y_true: Any, y_proba: Any, sample_weight: Any, pos_label: Any, costs: Costs = None
) -> tuple[Truth, Floats]:
    """Return the truth, the positive label last, and the probability of the positive class."""
    proba = _unit_probabilities(y_proba)
    if proba.shape[1] != 2:
        raise ValueError(
            "y_proba must have shape (n_samples,) or (n_samples, 2), for two classes; got "
            f"{proba.shape[1]} columns."
        )
    true = _true_labels(y_true, proba.shape[0], "y_proba")
    labels = _two_labels(_known_labels(true, None, costs), pos_label)
    return _truth(true, labels, sample_weight), as_numpy(proba[:, 1]).astype(np.float64)


def naming(costs: Costs, example_costs: Any) -> Costs:
    """Return the costs that name classes, of those of all rows and of each; not both are given."""
    if costs is not None and example_costs is not None:
        raise ValueError("Give either costs or example_costs, not both.")
    return example_costs if isinstance(example_costs, Mapping) else costs


def _truth(true: NDArray[Any], labels: NDArray[Any], sample_weight: Any) -> Truth:
    weights = check_weights(sample_weight, len(true))
    return Truth(encode_labels(true, labels, "y_true"), labels, weights)


def _true_labels(y_true: Any, length: int, other: str) -> NDArray[Any]:
    """Check that there are as many true labels as rows in `other`, and one at least."""
    true = as_labels(y_true, "y_true")
    if len(true) != length:
        raise ValueError(f"y_true has {len(true)} rows but {other} has {length}.")
    if length == 0:
        raise ValueError("y_true is empty.")
    return true


def _unit_probabilities(y_proba: Any) -> Array:
    proba = as_probabilities(y_proba, "y_proba")
    xp = array_namespace(proba)
    if bool(xp.any((proba < 0) | (proba > 1))):
        raise ValueError("y_proba contains values outside [0, 1].")
    return proba


def _known_labels(true: NDArray[Any], labels: Any, costs: Costs) -> NDArray[Any]:
    """Return the labels given, or else those of `y_true` and of a mapping of costs."""
    if labels is not None:
        given = as_labels(labels, "labels")
        if len(np.unique(given)) != len(given):
            raise ValueError(f"labels must differ from each other; got {given.tolist()}.")
        return given
    known = np.unique(true)
    if isinstance(costs, Mapping):
        known = _merge(known, as_labels(list(costs), "costs"), "costs")
    return known


def _merge(known: NDArray[Any], more: NDArray[Any], name: str) -> NDArray[Any]:
    if len(more) == 0:
        return known
    if is_text(known) != is_text(more):
        raise ValueError(
            f"{name} holds labels like {more[0]!r}, but y_true holds labels like {known[0]!r}: "
            "strings and numbers do not mix."
        )
    return np.unique(np.concatenate([known, more]))


def _undecided(
    predicted: NDArray[Any], known: NDArray[Any], undecided_label: Any, reject_cost: Any
) -> Flags:
    """Return which predictions are "undecided"."""
    nobody = np.zeros(len(predicted), dtype=bool)
    try:
        label = undecided_value(known, undecided_label)
    except ValueError:
        # The default label may be a class (say -1 and 1) where nobody thinks of staying undecided.
        if reject_cost is None and is_auto(undecided_label):
            return nobody
        raise
    return predicted == label if isinstance(label, str) == is_text(predicted) else nobody


def _two_labels(found: NDArray[Any], pos_label: Any) -> NDArray[Any]:
    """Return the two labels, the positive one last; one of them may not have been found."""
    if pos_label is None:
        pos_label = _default_positive(found)
    label = as_labels([pos_label], "pos_label")
    if is_text(label) != is_text(found):
        raise ValueError(f"pos_label={pos_label!r} is not among the labels {found.tolist()}.")
    others = found[found != label[0]]
    if len(others) > 1:
        raise ValueError(
            f"Expected two classes, one of them pos_label={pos_label!r}; got {found.tolist()}."
        )
    if len(others) == 0:  # positives only: any other label can stand for the class not seen
        others = np.asarray([f"not {label[0]}"]) if is_text(label) else label - 1
    return np.concatenate([others, label])


def _default_positive(found: NDArray[Any]) -> Any:
    if len(found) == 2:
        return found[1]
    if len(found) == 1 and found[0] in (-1, 0, 1):
        return 1
    raise ValueError(
        f"Expected two classes; got {found.tolist()}. With one class only, give pos_label."
    )
