"""Classifiers and steps of others, as skl2onnx converts them.

Their operators keep what precision these have, which is single for most; an export compares what
both say before it is given out.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from grayzone.onnx.formulas import NotConvertibleError
from grayzone.onnx.graph import ML, ML_OPSET, OPSET, Graph, Node, Tensor
from grayzone.onnx.needs import needed
from grayzone.onnx.rows import Rows
from grayzone.onnx.rules import Answer, by_argmax

Array = Any


def foreign_answer(model: Any, rows: Rows) -> Answer:
    """Write down what a classifier that this package does not know says of rows."""
    own = type(model).__module__.partition(".")[0] == "grayzone"  # known above, if at all
    if own or not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
        raise NotConvertibleError(
            f"{type(model).__name__} cannot be exported: it is no fitted classifier with "
            "probabilities."
        )
    outputs = _inlined(model, rows, {id(model): {"zipmap": False}})
    if len(outputs) < 2:
        raise NotConvertibleError(f"skl2onnx gives no probabilities of {type(model).__name__}.")
    proba, classes = outputs[1].cast("DOUBLE"), np.asarray(model.classes_)
    decide = by_argmax(proba, len(classes), len(classes))
    return Answer(classes, classes, decide, proba)


def foreign_step(step: Any, rows: Rows) -> Rows:
    """Write down what a step of a pipeline that this package does not know makes of rows."""
    matrix = _inlined(step, rows, None)[0].cast("DOUBLE")
    probe = np.zeros((1, rows.width))
    try:
        width = int(np.shape(step.transform(probe))[1])
    except Exception as error:
        raise _unsupported(step, error) from error
    return Rows(rows.graph, matrix, width)


def _inlined(model: Any, rows: Rows, options: Any) -> list[Tensor]:
    """Convert by skl2onnx, and put the operators into our graph.

    Some of its converters are right for doubles; the others get rows in single precision.
    """
    X, graph, reason = rows.numbers(), rows.graph, None
    for kind in ("DOUBLE", "FLOAT"):
        try:
            made = _converted(model, rows.width, kind, options)
        except Exception as error:  # whatever a converter makes of a model that it does not know
            reason = reason or error
            continue
        return _taken_over(made.graph, graph, X if kind == "DOUBLE" else X.cast(kind))
    assert reason is not None
    raise _unsupported(model, reason) from reason


def _converted(model: Any, width: int, kind: str, options: Any) -> Any:
    converter, types = needed("skl2onnx"), needed("skl2onnx.common.data_types")
    given = types.DoubleTensorType if kind == "DOUBLE" else types.FloatTensorType
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = converter.convert_sklearn(
            model,
            initial_types=[("X", given([None, width]))],
            options=options,
            target_opset={"": OPSET, ML: ML_OPSET},
        )
    needed("onnx").checker.check_model(made, full_check=True)
    return made


def _taken_over(made: Any, graph: Graph, X: Tensor) -> list[Tensor]:
    """Add the operators of another graph, whose one input is X, under names of their own."""
    numpy_helper, helper = needed("onnx").numpy_helper, needed("onnx").helper
    prefix = f"f{len(graph.nodes)}_"
    names = {made.input[0].name: X.name, "": ""}
    for tensor in made.initializer:
        names[tensor.name] = prefix + tensor.name
        graph.constants[names[tensor.name]] = numpy_helper.to_array(tensor)
    for node in made.node:
        for output in node.output:
            names[output] = prefix + output
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Cast":
            attributes["to"] = needed("onnx").TensorProto.DataType.Name(attributes["to"])
        inputs = tuple(names[value] for value in node.input)
        outputs = tuple(names[value] for value in node.output)
        graph.nodes.append(Node(node.op_type, inputs, outputs, node.domain, attributes))
    return [Tensor(graph, names[output.name]) for output in made.output]


def _unsupported(model: Any, error: Exception) -> NotConvertibleError:
    reason = " ".join(str(error).split())[:200]
    return NotConvertibleError(
        f"{type(model).__name__} has no counterpart here, nor in skl2onnx ({reason}). Replace it "
        "by a step that has one, or keep the model in Python, with skops."
    )
