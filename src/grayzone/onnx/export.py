"""A fitted model as a file of ONNX operators that decides the same."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import grayzone
from grayzone.onnx.answers import answer
from grayzone.onnx.checking import check_same
from grayzone.onnx.graph import (
    IR_VERSION,
    ML,
    OPSET,
    Graph,
    Tensor,
    kind_of,
    ml_opset,
    proto_constants,
    proto_nodes,
)
from grayzone.onnx.inputs import Inputs, inputs_of
from grayzone.onnx.needs import needed
from grayzone.onnx.rules import Answer

Array = Any

LABEL, PROBABILITIES, SCORES, DECISION = "label", "probabilities", "scores", "decision"
EXPECTED = "expected_costs"
METADATA = "grayzone"  # key under which a file tells what it is
OPTIONS = {"costs": True, EXPECTED: False, "zipmap": False}


@dataclass(frozen=True)
class Draft:
    """A graph with its outputs, before it is a file."""

    graph: Graph
    inputs: Inputs
    outputs: dict[str, tuple[Tensor, str, list[Any]]]  # name: value, type, shape
    facts: dict[str, Any]


def to_onnx(
    model: Any,
    X: Any = None,
    *,
    options: Mapping[Any, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Return a fitted model as ONNX: a file that decides the same, without Python.

    Numbers are computed in double precision, whatever the input; outputs have that of the input.
    Where onnxruntime is installed, what the result says of X is compared with what the model says,
    before it is returned.

    Parameters
    ----------
    model : estimator or DecisionModel
        A fitted classifier of this package, alone, in a pipeline of scikit-learn, around another
        classifier, or as ``grayzone train`` makes it.
    X : array-like, DataFrame or None, default=None
        Some rows as they will be given: their types and column names become those of the inputs. An
        array is one input "X", a DataFrame one input for each column, of shape (n, 1). None: an
        array of doubles, as wide as the model was fitted with; a DecisionModel needs none.
    options : mapping, default=None
        ``{"costs": False}`` leaves out the inputs "costs" (1 or n, K, K) and "reject_cost" (K,),
        which need not be given, and decide in place of the model's own where they are;
        ``{"expected_costs": True}`` adds this output. As with skl2onnx they may also be
        ``{id(model): {...}}`` or ``{type(model): {...}}``; a "zipmap" is never made.
    metadata : mapping, default=None
        What else the file is to say of itself, by name.

    Returns
    -------
    onnx_model : onnx.ModelProto
        Outputs are "label", "probabilities" (for machines without them "scores") and, where the
        model may stay undecided, "decision": the label, or that of "undecided".

    Raises
    ------
    NotConvertibleError
        If a part has no counterpart, such as a function as kernel; a ValueError that says what.
    ValueError
        If X does not suit the model, or the result would decide otherwise.

    See Also
    --------
    grayzone.scorecards.scorecard : A linear model as a table of points.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.onnx import run, to_onnx
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), TruncatedLogisticRegression()).fit(X, y)
    >>> made = to_onnx(model, X)  # made.SerializeToString() is the content of a file
    >>> said = run(made, X)  # by onnxruntime
    >>> bool((said["label"] == model.predict(X)).all())
    True

    This month a cancer that is missed costs twenty times as much:

    >>> said = run(made, X, costs=np.array([[0.0, 20.0], [1.0, 0.0]]))
    >>> int((said["label"] == 0).sum()) > int((model.predict(X) == 0).sum())
    True
    """
    chosen = _options(options, model)
    draft = _of_decision_model(model, chosen)
    if draft is None:
        check_is_fitted(model)
        draft = _draft(model, X, chosen)
    facts = {**draft.facts, **_plain(metadata or {})}
    made = finished(draft, facts)
    if X is not None:
        check_same(made, model, X)
    return made


def _of_decision_model(model: Any, chosen: dict[str, bool]) -> Draft | None:
    """Return the draft of a decision model, or None where it is something else."""
    # who has one has imported what it is: an estimator needs no data frames
    room = sys.modules.get("grayzone.training.model")
    if room is None or not isinstance(model, room.DecisionModel):
        return None
    from grayzone.onnx.decision_model import decision_model_draft

    return decision_model_draft(model, chosen)


def _options(options: Mapping[Any, Any] | None, model: Any) -> dict[str, bool]:
    """Return options by name, those of the model itself where they are given by model."""
    chosen = dict(OPTIONS)
    for key, value in (options or {}).items():
        given = {key: value} if isinstance(key, str) else value
        mine = isinstance(key, str) or key == id(model) or key is type(model)
        if not mine:
            raise ValueError(
                f"options are for the model that is exported, {type(model).__name__}; got {key!r}."
            )
        for name, choice in given.items():
            if name not in OPTIONS:
                raise ValueError(f"options must be among {sorted(OPTIONS)}; got {name!r}.")
            if not isinstance(choice, bool) or (name == "zipmap" and choice):
                allowed = "False" if name == "zipmap" else "True or False"
                raise ValueError(f"options[{name!r}] must be {allowed}; got {choice!r}.")
            chosen[name] = choice
    return chosen


def _draft(model: Any, X: Any, chosen: dict[str, bool]) -> Draft:
    graph = Graph()
    inputs = inputs_of(graph, X, model)
    found = answer(model, inputs.rows)
    outputs = outputs_of(graph, found, inputs.kind, chosen)
    facts = {"estimator": type(model).__name__, **facts_of(found)}
    return Draft(graph, inputs, outputs, facts)


def outputs_of(
    graph: Graph, found: Answer, kind: str, chosen: Mapping[str, bool]
) -> dict[str, tuple[Tensor, str, list[Any]]]:
    """Return the outputs of an answer, by name: values, types and shapes."""
    decision = found.decide(graph, chosen["costs"])
    outputs: dict[str, tuple[Tensor, str, list[Any]]] = {}
    labels, actions = labels_array(found.classes), labels_array(found.actions)
    K, A = len(labels), len(actions)
    label = graph.add("Gather", labels, decision.label, axis=0)
    outputs[LABEL] = label, kind_of(labels), ["n"]
    if found.probabilities is not None:
        proba = found.probabilities if kind == "DOUBLE" else found.probabilities.cast(kind)
        outputs[PROBABILITIES] = proba, kind, ["n", K]
    elif found.scores is not None:
        scores = found.scores if kind == "DOUBLE" else found.scores.cast(kind)
        outputs[SCORES] = scores, kind, ["n", 1 if K == 2 else K]
    if found.may_stay_undecided:
        action = graph.add("Gather", actions, decision.action, axis=0)
        outputs[DECISION] = action, kind_of(actions), ["n"]
    if chosen[EXPECTED]:
        if decision.expected is None:
            raise ValueError(
                "expected_costs are told by models that decide by costs and probabilities; this "
                "one does not."
            )
        outputs[EXPECTED] = decision.expected, "DOUBLE", ["n", A]
    return outputs


def labels_array(labels: Array) -> Array:
    """Return labels as an array of a type that ONNX has: whole numbers, truths, numbers, text."""
    array = np.asarray(labels)
    if array.dtype.kind in "iu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.kind == "b":
        return array
    if all(isinstance(label, str) for label in array.tolist()):
        return array.astype(object)
    raise ValueError(
        "Labels must be all numbers or all text to be exported; got "
        f"{[type(label).__name__ for label in array.tolist()[:5]]}."
    )


def facts_of(found: Answer) -> dict[str, Any]:
    """Return what a file tells of the answers it gives."""
    facts: dict[str, Any] = {"classes": found.classes.tolist(), **found.facts}
    if found.may_stay_undecided:
        facts["undecided"] = found.actions.tolist()[-1]
    return facts


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(metadata)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"metadata must be what JSON can hold: {error}.") from error
    return plain


def finished(draft: Draft, facts: Mapping[str, Any]) -> Any:
    """Return the file of a draft, checked."""
    onnx = needed("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    graph, outputs = draft.graph, draft.outputs
    named = {name: graph.add("Identity", value) for name, (value, _, _) in outputs.items()}
    nodes, constants = graph.needed(list(named.values()))
    final = {tensor.name: name for name, tensor in named.items()}

    def rename(name: str) -> str:
        return final.get(name, name)

    inputs = [
        helper.make_tensor_value_info(name, getattr(types, kind), shape)
        for name, (kind, shape) in draft.inputs.declared.items()
    ]
    inputs += [
        helper.make_tensor_value_info(name, types.DOUBLE, graph.shapes[name])
        for name in graph.defaults
    ]
    shown = [
        helper.make_tensor_value_info(name, getattr(types, kind), shape)
        for name, (_, kind, shape) in outputs.items()
    ]
    body = helper.make_graph(
        proto_nodes(nodes, rename),
        "grayzone",
        inputs,
        shown,
        [*proto_constants(constants), *proto_constants(graph.defaults)],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    if (ml := ml_opset(nodes)) is not None:
        opsets.append(helper.make_opsetid(ML, ml))
    made = helper.make_model(
        body,
        opset_imports=opsets,
        ir_version=IR_VERSION,
        producer_name="grayzone",
        producer_version=grayzone.__version__,
    )
    told = {"version": grayzone.__version__, **facts}
    helper.set_model_props(made, {METADATA: json.dumps(told)})
    onnx.checker.check_model(made, full_check=True)
    return made
