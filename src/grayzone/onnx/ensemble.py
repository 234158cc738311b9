"""Decision ensembles, written down as operators: members, calibration, stack, rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grayzone.estimators.anatomy import Rule, rule_of, stacked_of
from grayzone.numerics.checks import as_numpy
from grayzone.onnx.formulas import log_softmax
from grayzone.onnx.graph import Tensor
from grayzone.onnx.rows import Rows
from grayzone.onnx.rules import Answer, by_costs, by_threshold

Array = Any


def ensemble_answer(model: Any, rows: Rows, answer: Callable[[Any, Rows], Answer]) -> Answer:
    """Write down what a fitted DecisionEnsembleClassifier says of rows."""
    stack, classes = stacked_of(model), as_numpy(model.classes_)
    total: Any = None
    for place, member in enumerate(model.members_.values()):
        said = answer(member, rows).probabilities
        assert said is not None  # members of an ensemble have them
        scores = log_scores(said, stack.least) * stack.slopes[place] + stack.shifts[place]
        logs = log_softmax(scores)
        part = (logs - _mean(logs)) * stack.weights[place]
        total = part if total is None else total + part
    logs = log_softmax(total + stack.intercept)
    proba = logs.applied("Exp")
    two = len(classes) == 2
    shown = (logs.column(1) - logs.column(0)).upright() if two else logs
    facts: dict[str, Any] = {}
    if stack.cut is not None:
        facts["threshold"] = stack.cut
        decide = by_threshold(proba.column(1), stack.cut)
    else:
        rule: Rule = rule_of(model)
        facts["costs"] = rule.costs.tolist()
        if rule.reject_costs is not None:
            facts["reject_cost"] = rule.reject_costs.tolist()
        elif model.threshold_ is not None:
            facts["threshold"] = model.threshold_
        decide = by_costs(proba, len(classes), rule)
    return Answer(classes, as_numpy(model.actions_), decide, proba, shown, facts)


def log_scores(proba: Tensor, least: float) -> Tensor:
    """Log-probabilities of mean zero, none of them extreme, as ``solvers.stack.log_scores``."""
    held = proba.applied("Clip", least, 1.0 - least)
    logs = (held / held.sum(1)).applied("Log")
    return logs - _mean(logs)


def _mean(values: Tensor) -> Tensor:
    return values.applied("ReduceMean", np.array([1]))
