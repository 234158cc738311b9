"""Decision models of ``grayzone train``, from the columns of a table to the decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from grayzone.estimators.anatomy import Rule
from grayzone.onnx.answers import answer
from grayzone.onnx.export import Draft, facts_of, outputs_of
from grayzone.onnx.formulas import NotConvertibleError
from grayzone.onnx.graph import Graph, Tensor
from grayzone.onnx.inputs import Inputs, check_reserved
from grayzone.onnx.rows import NUMBER, TEXT, Column, Rows
from grayzone.onnx.rules import Answer, by_costs, by_threshold
from grayzone.tables import schema
from grayzone.training.labels import actions_of, labels_of
from grayzone.training.model import DecisionModel

Array = Any


def decision_model_draft(model: DecisionModel, chosen: Mapping[str, bool]) -> Draft:
    """Return the graph of a decision model: an input for each column, text or numbers.

    Raises
    ------
    NotConvertibleError
        If it learned from dates or free text.
    """
    graph = Graph()
    inputs, beside = _inputs(graph, model)
    said = answer(model.estimator, inputs.rows)
    labels = labels_of(model.stakes.classes, model.label_type)
    order = np.argsort(labels)  # places are in the order of the stakes, columns in that of labels
    assert said.probabilities is not None
    proba = said.probabilities
    stakes = model.stakes
    if model.cut is not None:
        decide = by_threshold(proba.column(1), model.cut)
    else:
        reject = stakes.reject_cost
        rule = Rule(
            np.asarray(stakes.costs, dtype=np.float64),
            None if reject is None else np.full(len(labels), float(reject)),
        )
        of_rows = _costs_of_rows(graph, stakes, beside)
        decide = by_costs(proba, len(labels), rule, of_rows, order)
    actions = labels if stakes.reject_cost is None or model.cut is not None else actions_of(labels)
    found = Answer(labels, actions, decide, proba)
    outputs = outputs_of(graph, found, "DOUBLE", chosen)
    value, kind, shape = outputs["probabilities"]
    outputs["probabilities"] = value.columns(order), kind, shape
    facts = {**facts_of(found), **_facts(model, order), "classes": labels[order].tolist()}
    return Draft(graph, inputs, outputs, facts)


def _inputs(graph: Graph, model: DecisionModel) -> tuple[Inputs, dict[str, Tensor]]:
    """Return the columns that the model learned from, and those that have costs."""
    dates = [c.name for c in model.schema.columns if c.kind == schema.DATE]
    if dates:
        raise NotConvertibleError(
            f"Columns {', '.join(map(repr, dates[:5]))} are dates, which a file of operators "
            "cannot read. Leave them out of the training, turn them into numbers before "
            "it, or decide in Python, with grayzone.load_model."
        )
    check_reserved(model.schema.names)
    columns, declared = {}, {}
    for column in model.schema.columns:
        text = column.kind == schema.TEXT
        declared[column.name] = "STRING" if text else "DOUBLE", ["n", 1]
        columns[column.name] = Column(graph.input(column.name), TEXT if text else NUMBER)
    priced = dict.fromkeys(name for name in model.stakes.columns or () if name is not None)
    declared |= {name: ("DOUBLE", ["n", 1]) for name in priced}
    costs = {name: graph.input(name) for name in priced}
    return Inputs(Rows.of_columns(graph, columns), declared, "DOUBLE"), costs


def _costs_of_rows(graph: Graph, stakes: Any, beside: dict[str, Tensor]) -> Tensor | None:
    """Costs (n, K, K) of rows from columns, as ``Stakes.row_costs``."""
    if stakes.columns is None:
        return None
    some = next(iter(beside.values())) * 0.0
    parts = [
        some + float(stakes.costs[k].max()) if name is None else beside[name]
        for k, name in enumerate(stakes.columns)
    ]
    of_classes = graph.add("Unsqueeze", graph.concat(parts), np.array([2]))
    return of_classes * (1.0 - np.eye(len(stakes.classes)))


def _facts(model: DecisionModel, order: Array) -> dict[str, Any]:
    """Return what is told of a decision model: what it was made for, and from which data."""
    facts: dict[str, Any] = {
        "estimator": "DecisionModel",
        "model": model.about.get("model"),
        "made": model.about.get("made"),
        "training_data_sha256": model.about.get("sha256"),
        "schema": model.schema.dump(),
        "beside": model.schema.dump_beside(),
        "label_type": model.label_type,
        "cost_columns": model.stakes.columns,
    }
    for name, value in (("threshold", model.threshold), ("zone", model.zone)):
        if value is not None:
            facts[name] = value
    if model.cut is None and model.stakes.columns is None:
        facts["costs"] = np.asarray(model.stakes.costs)[np.ix_(order, order)].tolist()
        if model.stakes.reject_cost is not None:
            facts["reject_cost"] = float(model.stakes.reject_cost)
    if model.positive is not None:
        facts["positive"] = model.positive
    return {name: value for name, value in facts.items() if value is not None}
