"""Converters for skl2onnx: whoever uses it finds the estimators of this package there."""

from __future__ import annotations

from typing import Any

import grayzone
from grayzone.onnx.answers import answer
from grayzone.onnx.export import DECISION, LABEL, PROBABILITIES, SCORES, labels_array, outputs_of
from grayzone.onnx.graph import (
    ML_OPSET,
    OPSET,
    TREE_OPSET,
    Graph,
    kind_of,
    proto_constants,
    proto_nodes,
)
from grayzone.onnx.needs import needed
from grayzone.onnx.rows import NUMBER, Column, Rows

Array = Any

CLASSIFIERS = (
    grayzone.BayesDecisionClassifier,
    grayzone.DecisionEnsembleClassifier,
    grayzone.ImportVectorMachine,
    grayzone.ImportVectorMachineCV,
    grayzone.MinimaxProbabilityMachine,
    grayzone.RateLimitClassifier,
    grayzone.SparseMinimaxProbabilityMachine,
    grayzone.TightBoundClassifier,
    grayzone.TightBoundLogisticRegression,
    grayzone.TightBoundLogisticRegressionCV,
    grayzone.TruncatedLogisticRegression,
    grayzone.TruncatedLogisticRegressionCV,
)
_OPTIONS = {"zipmap": [False], "costs": [True, False]}


def register() -> None:
    """Register the converters; importing ``grayzone.onnx`` does it."""
    library = needed("skl2onnx")
    for estimator in CLASSIFIERS:
        library.update_registered_converter(
            estimator,
            f"Grayzone{estimator.__name__}",
            _shapes,
            _convert,
            parser=_parse,
            options=_OPTIONS,
        )


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs: a label, probabilities or scores, and a decision where it differs."""
    types = needed("skl2onnx.common.data_types")
    operator = scope.declare_local_operator(f"Grayzone{type(model).__name__}", model)
    operator.inputs = inputs
    labels = labels_array(model.classes_)
    texts = {"STRING": types.StringTensorType, "INT64": types.Int64TensorType}
    texts |= {"DOUBLE": types.DoubleTensorType, "BOOL": types.BooleanTensorType}
    label = texts[kind_of(labels)]
    numbers = types.FloatTensorType if _is_single(inputs) else types.DoubleTensorType
    shown = PROBABILITIES if hasattr(model, "predict_proba") else SCORES
    operator.outputs.append(scope.declare_local_variable(LABEL, label()))
    operator.outputs.append(scope.declare_local_variable(shown, numbers()))
    actions: Any = getattr(model, "actions_", labels)
    if len(actions) > len(labels):
        operator.outputs.append(scope.declare_local_variable(DECISION, label()))
    return operator.outputs


def _is_single(inputs: Any) -> bool:
    single = needed("skl2onnx.common.data_types").FloatTensorType
    return all(isinstance(value.type, single) for value in inputs)


def _shapes(operator: Any) -> None:
    model = operator.raw_operator
    n_rows = operator.inputs[0].get_first_dimension()
    K = len(model.classes_)
    n_columns = K if hasattr(model, "predict_proba") or K > 2 else 1
    for place, output in enumerate(operator.outputs):
        output.type.shape = [n_rows, n_columns] if place == 1 else [n_rows]


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write the operators of a model into the graph of skl2onnx."""
    graph, model = Graph(), operator.raw_operator
    rows = _rows(graph, operator.inputs)
    options = container.get_options(model, dict(costs=False))
    kind = "FLOAT" if _is_single(operator.inputs) else "DOUBLE"
    chosen = {"costs": False, "expected_costs": False}
    if options["costs"]:
        raise ValueError(
            "Costs as an input are made by grayzone.onnx.to_onnx, which takes whole pipelines."
        )
    outputs = outputs_of(graph, answer(model, rows), kind, chosen)
    values = [value for value, _, _ in outputs.values()]
    nodes, constants = graph.needed(values)
    names: dict[str, str] = {value.full_name: value.full_name for value in operator.inputs}
    for value, declared in zip(values, operator.outputs, strict=True):
        names[value.name] = declared.full_name

    def rename(name: str) -> str:
        if name not in names:
            names[name] = scope.get_unique_variable_name(f"grayzone_{name}")
        return names[name]

    for tensor in proto_constants({rename(name): array for name, array in constants.items()}):
        container.initializers.append(tensor)
    for node in proto_nodes(nodes, rename):
        node.name = scope.get_unique_operator_name(node.op_type)
        container.nodes.append(node)
        container.node_domain_version_pair_sets.add((node.domain, _version(node)))


def _version(node: Any) -> int:
    """Return the version of an operator in the opset that it is written for."""
    opset = (TREE_OPSET if node.op_type == "TreeEnsemble" else ML_OPSET) if node.domain else OPSET
    schema = needed("onnx").defs.get_schema(node.op_type, opset, node.domain)
    return int(schema.since_version)


def _rows(graph: Graph, inputs: Any) -> Rows:
    """Return the inputs of an operator of skl2onnx, which may be several, as rows of numbers."""
    tensors = [graph.input(value.full_name).cast("DOUBLE") for value in inputs]
    widths = [value.type.shape[1] for value in inputs]
    if len(tensors) == 1:
        return Rows(graph, tensors[0], widths[0], NUMBER)
    if all(width == 1 for width in widths):
        names = [value.raw_name for value in inputs]
        columns = [Column(tensor, NUMBER) for tensor in tensors]
        return Rows.of_columns(graph, dict(zip(names, columns, strict=True)))
    return Rows(graph, graph.concat(tensors), sum(widths), NUMBER)
