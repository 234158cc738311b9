"""Calibrated classifiers of scikit-learn, written down as operators in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grayzone.onnx.formulas import NotConvertibleError, sigmoid
from grayzone.onnx.graph import Graph, Tensor
from grayzone.onnx.rows import Rows
from grayzone.onnx.rules import Answer, by_argmax

Array = Any


def calibrated_answer(model: Any, rows: Rows, answer: Callable[[Any, Rows], Answer]) -> Answer:
    """Write down what a fitted CalibratedClassifierCV says: the mean of its calibrated copies."""
    classes = np.asarray(model.classes_)
    parts = [
        _calibrated(copy, rows, answer, len(classes)) for copy in model.calibrated_classifiers_
    ]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    proba = total / float(len(parts))
    decide = by_argmax(proba, len(classes), len(classes))
    return Answer(classes, classes, decide, proba)


def _calibrated(
    copy: Any, rows: Rows, answer: Callable[[Any, Rows], Answer], n_classes: int
) -> Tensor:
    """Probabilities (n, K) of one calibrated classifier."""
    graph, scores = rows.graph, _scores(copy.estimator, rows, answer, n_classes)
    calibrators = copy.calibrators
    if not all(hasattr(c, "a_") or hasattr(c, "X_thresholds_") for c in calibrators):
        raise NotConvertibleError(
            f"Calibration by method={copy.method!r} cannot be exported; 'sigmoid' and 'isotonic' "
            "can."
        )
    if len(calibrators) != (1 if n_classes == 2 else n_classes):
        raise NotConvertibleError("A calibrated classifier that has not seen all classes.")
    places = range(len(calibrators))
    said = [_applied(c, scores.columns([k])) for k, c in zip(places, calibrators, strict=True)]
    if n_classes == 2:
        return graph.concat([1.0 - said[0], said[0]])
    every = graph.concat(said)
    total = every.sum(1)
    # as scikit-learn has it: where all are zero, all classes are as probable
    share = (total > 0.0).where(every / total, 1.0 / n_classes)
    return ((share > 1.0) & (share <= 1.0 + 1e-5)).where(1.0, share)


def _scores(
    estimator: Any, rows: Rows, answer: Callable[[Any, Rows], Answer], n_classes: int
) -> Tensor:
    """What is calibrated: values of decision_function, else probabilities; (n, 1) of two."""
    found = answer(estimator, rows)
    if hasattr(estimator, "decision_function"):
        if found.scores is None:
            raise NotConvertibleError(
                f"Scores of {type(estimator).__name__}, which are calibrated, have no counterpart."
            )
        return found.scores
    assert found.probabilities is not None
    return found.probabilities.columns([1]) if n_classes == 2 else found.probabilities


def _applied(calibrator: Any, score: Tensor) -> Tensor:
    if hasattr(calibrator, "a_"):
        return sigmoid(-(score * float(calibrator.a_) + float(calibrator.b_)))
    return interpolated(score, calibrator.X_thresholds_, calibrator.y_thresholds_)


def interpolated(x: Tensor, knots: Array, values: Array) -> Tensor:
    """Values of a piecewise linear function (n, 1), constant beyond its knots."""
    graph: Graph = x.graph
    knots, values = np.asarray(knots, np.float64), np.asarray(values, np.float64)
    if len(knots) == 1:
        return x * 0.0 + values[0]
    within = x.applied("Clip", knots[0], knots[-1])
    # at a knot, the last one among them, its own value to the last bit, as numpy.interp has it
    piece = (within >= knots[None, 1:]).cast("INT64").sum(1)
    slopes = np.append(np.diff(values) / np.diff(knots), 0.0)
    start, base, slope = (graph.add("Gather", part, piece) for part in (knots, values, slopes))
    return base + (within - start) * slope
