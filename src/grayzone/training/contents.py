"""What the parts of a model file may be: the types that ``train`` writes, arrays, nothing else.

skops writes a tree of nodes (``schema.json``), each with a type and with the loader that makes it,
and arrays beside it. Here every node is compared with one list, whatever skops trusts by itself,
before skops makes anything of it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

SCHEMA = "schema.json"
KEYS = {"grayzone_model", "estimator"}  # what a file holds
LEAST_PROTOCOL = 2  # of skops: earlier ones are read by other loaders
DEEPEST = 100
# shared nodes, and numbers of their arrays, stand for as many as they are seen; a file must not
# make much of few of them
MOST_SHARED, FREE_SHARED = 20, 10_000
_WIDEST = 16  # bytes of a number
_NUMBERS = "biuf"

Node = dict[str, Any]

_OURS = {
    "estimators.decision_ensemble.DecisionEnsembleClassifier",
    "estimators.import_vector_cv.ImportVectorMachineCV",
    "estimators.sparse_minimax.SparseMinimaxProbabilityMachine",
    "estimators.table_features.ScaledFeatures",
    "estimators.table_features.TableColumns",
    "estimators.table_features.TableFeatures",
    "estimators.tight_bound_cv.TightBoundLogisticRegressionCV",
    "estimators.tree_sum.TreeSum",
    "estimators.truncated.TruncatedLogisticRegression",
    "estimators.truncated_cv.TruncatedLogisticRegressionCV",
    "numerics.kernels.Kernel",
    "solvers.minimax.basis.Family",
}
_SKLEARN = {
    "calibration.CalibratedClassifierCV",
    "calibration._CalibratedClassifier",
    "calibration._SigmoidCalibration",
    "linear_model._logistic.LogisticRegression",
    "model_selection._split.StratifiedKFold",
    "pipeline.Pipeline",
}
# Everything a model file may hold, by the loader that makes it.
ALLOWED = {
    "DictNode": {"builtins.dict"},
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "NdArrayNode": {"numpy.ndarray", "numpy.float64"},
    "ObjectNode": {
        *(f"grayzone.{name}" for name in _OURS),
        *(f"sklearn.{name}" for name in _SKLEARN),
    },
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {"builtins.str"},
}


class ForeignTypesError(Exception):
    """Types that a model file must not hold, by name."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = sorted(names)


def lean(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Leave out what decides nothing: repeated objects, and arrays that only they use.

    An object that was seen is a node with its number alone: skops takes the first of that number.
    """
    seen: set[int] = set()
    used = {SCHEMA}

    def slim(node: Any) -> Any:
        if isinstance(node, list):
            return [slim(value) for value in node]
        if not isinstance(node, dict):
            return node
        loader = node.get("__loader__")
        if loader == "ObjectNode":
            if node["__id__"] in seen:
                return {key: node[key] for key in node if key != "content"}
            seen.add(node["__id__"])
        if loader == "NdArrayNode" and node["type"] == "numpy":
            used.add(node["file"])
        return {key: slim(value) for key, value in node.items()}

    schema = json.dumps(slim(json.loads(parts[SCHEMA])), separators=(",", ":")).encode()
    return {name: part for name, part in parts.items() if name in used} | {SCHEMA: schema}


def check_contents(parts: Mapping[str, bytes]) -> list[str]:
    """Check types and arrays of a model file, and return the types that are in it.

    Raises
    ------
    ForeignTypesError
        If there are types that ``train`` does not write.
    ValueError, LookupError, TypeError
        If it is put together in another way.
    """
    schema = json.loads(parts[SCHEMA])
    protocol = schema["protocol"]
    if type(protocol) is not int or protocol < LEAST_PROTOCOL:
        raise ValueError(f"it follows the protocol {str(protocol)[:20]!r}")
    audit = _Audit(parts)
    weight = audit.weigh(schema, 0)
    if audit.foreign:
        raise ForeignTypesError(audit.foreign)
    if schema["__loader__"] != "DictNode" or set(schema["content"]) != KEYS:
        raise ValueError("it does not hold a note and an estimator")
    if weight > FREE_SHARED + MOST_SHARED * audit.size:
        raise ValueError("a few of its objects are used too often")
    if audit.unused:
        raise ValueError(f"{min(audit.unused)[:60]!r} is used by nothing")
    return sorted(audit.types)


class _Audit:
    """A walk over the nodes, in the order in which skops makes them."""

    def __init__(self, parts: Mapping[str, bytes]) -> None:
        self.parts = parts
        self.unused = set(parts) - {SCHEMA}
        self.foreign: set[str] = set()
        self.types: set[str] = set()
        self.weights: dict[Any, int | None] = {}  # None: not complete yet
        self.size = 0  # nodes, and numbers of arrays

    def weigh(self, node: Node, depth: int) -> int:
        """Check a node and all below it; return their size, shared ones counted each time."""
        number = node.get("__id__")
        if number in self.weights:
            known = self.weights[number]
            if known is None:
                raise ValueError("an object holds itself")
            return known
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        if number:
            self.weights[number] = None
        children, n_numbers = self._contents(node)
        weight = 1 + n_numbers
        self.size += weight
        for child in children:
            weight += self.weigh(child, depth + 1)
        if number:
            self.weights[number] = weight
        return weight

    def _contents(self, node: Node) -> tuple[list[Node], int]:
        """Nodes right below one, and how many numbers of an array it has."""
        loader, name = node["__loader__"], f"{node['__module__']}.{node['__class__']}"
        if name not in ALLOWED.get(loader, ()):
            self.foreign.add(name)
            return list(_nested([value for key, value in node.items() if key[:2] != "__"])), 0
        self.types.add(name)
        match loader:
            case "DictNode":
                return [node["key_types"], *node["content"].values()], 0
            case "ListNode" | "TupleNode":
                return list(node["content"]), 0
            case "ObjectNode":
                return [node["content"]] if node.get("content") is not None else [], 0
            case "NdArrayNode" if node["type"] == "json":
                return [*node["content"], node["shape"]], 0
            case "NdArrayNode":
                return [], self._check_array(node["file"])
        return [], 0

    def _check_array(self, name: str) -> int:
        """Check the array of a name; return how many numbers it has."""
        if name not in self.unused:
            raise ValueError(f"the array {str(name)[:60]!r} is missing, or used twice")
        self.unused.remove(name)
        raw = self.parts[name]
        file = io.BytesIO(raw)
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, dtype = read(file)
        if min(shape, default=0) < 0 or prod(shape) * dtype.itemsize != len(raw) - file.tell():
            raise ValueError(f"the array {name[:60]!r} is not as long as it says")
        if dtype.kind not in _NUMBERS or dtype.itemsize > _WIDEST:
            raise ValueError(f"the array {name[:60]!r} holds no numbers")
        return prod(shape)


def _nested(value: Any) -> Iterator[Node]:
    """Nodes within plain values, the outermost ones."""
    if isinstance(value, dict) and "__loader__" in value:
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _nested(inner)
