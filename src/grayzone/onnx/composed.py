"""Classifiers of scikit-learn around others: votes, and thresholds set by hand or tuned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grayzone.onnx.formulas import NotConvertibleError
from grayzone.onnx.graph import Graph
from grayzone.onnx.rows import Rows
from grayzone.onnx.rules import Answer, Decision, by_argmax

Array = Any


def voted_answer(model: Any, rows: Rows, answer: Callable[[Any, Rows], Answer]) -> Answer:
    """Write down the weighted mean of probabilities of a VotingClassifier(voting="soft")."""
    if model.voting != "soft":
        raise NotConvertibleError("VotingClassifier(voting='hard') cannot go; 'soft' can.")
    weights = [
        1.0 if weight is None else float(weight)
        for weight, (_, part) in zip(
            model.weights or [None] * len(model.estimators), model.estimators, strict=True
        )
        if not (isinstance(part, str) and part == "drop")
    ]
    total: Any = None
    for part, weight in zip(model.estimators_, weights, strict=True):
        said = answer(part, rows).probabilities
        if said is None:
            raise NotConvertibleError(f"{type(part).__name__} has no probabilities.")
        total = said * weight if total is None else total + said * weight
    classes = np.asarray(model.classes_)
    proba = total / sum(weights)
    return Answer(classes, classes, by_argmax(proba, len(classes), len(classes)), proba)


def threshold_answer(model: Any, rows: Rows, answer: Callable[[Any, Rows], Answer]) -> Answer:
    """Write down a FixedThresholdClassifier or a TunedThresholdClassifierCV."""
    inner, classes = answer(model.estimator_, rows), np.asarray(model.classes_)
    asked = model.response_method
    by_proba = asked == "predict_proba" or (asked == "auto" and inner.probabilities is not None)
    said = inner.probabilities if by_proba else inner.scores
    if said is None:
        raise NotConvertibleError(
            f"What {type(model.estimator_).__name__} says, which a threshold is set on, has no "
            "counterpart."
        )
    threshold = getattr(model, "best_threshold_", None)
    if threshold is None:
        threshold = model.threshold
    if isinstance(threshold, str):  # "auto"
        threshold = 0.5 if by_proba else 0.0
    label = getattr(model, "pos_label", None)
    place = 1 if label is None else classes.tolist().index(label)
    sign = 1.0 if place == 1 else -1.0
    score = said.column(place) if by_proba else said.column(0) * sign

    def decide(graph: Graph, as_input: bool) -> Decision:
        reached = score >= float(threshold)
        action = (reached if place == 1 else ~reached).cast("INT64")
        return Decision(action, action)

    facts = {**inner.facts, "threshold": float(threshold), "positive": classes[place].item()}
    facts.pop("costs", None)
    return Answer(classes, classes, decide, inner.probabilities, inner.scores, facts)
