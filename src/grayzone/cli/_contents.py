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
# shared nodes stand for as many as they are seen; a file must not make much of few of them
MOST_SHARED, FREE_SHARED = 20, 10_000
_WIDEST = 16  # bytes of a number
_NUMBERS = "biufmM"
# of the nodes of a boosted tree
TREE_FIELDS = frozenset(
    {
        *("value", "count", "gain", "depth", "is_leaf", "left", "right", "feature_idx"),
        *("num_threshold", "bin_threshold", "missing_go_to_left", "is_categorical", "bitset_idx"),
    }
)

Node = dict[str, Any]

_SKLEARN = {
    "_loss.link.Interval",
    "_loss.link.LogitLink",
    "_loss.link.MultinomialLogit",
    "_loss.loss.HalfBinomialLoss",
    "_loss.loss.HalfMultinomialLoss",
    "calibration.CalibratedClassifierCV",
    "calibration._CalibratedClassifier",
    "calibration._SigmoidCalibration",
    "decomposition._truncated_svd.TruncatedSVD",
    "ensemble._hist_gradient_boosting.binning._BinMapper",
    "ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
    "ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "feature_extraction.text.TfidfTransformer",
    "feature_extraction.text.TfidfVectorizer",
    "impute._base.SimpleImputer",
    "linear_model._logistic.LogisticRegression",
    "model_selection._split.StratifiedKFold",
    "pipeline.Pipeline",
    "preprocessing._data.StandardScaler",
    "preprocessing._encoders.OneHotEncoder",
    "preprocessing._label.LabelEncoder",
    "svm._classes.SVC",
}
_SKRUB = {
    "_apply_to_each_col.ApplyToEachCol",
    "_check_input.CheckInputDataFrame",
    "_clean_categories.CleanCategories",
    "_clean_null_strings.CleanNullStrings",
    "_datetime_encoder.DatetimeEncoder",
    "_drop_uninformative.DropUninformative",
    "_duration_to_float.DurationToFloat",
    "_string_encoder.StringEncoder",
    "_table_vectorizer.PassThrough",
    "_table_vectorizer.ShortReprDict",
    "_table_vectorizer.TableVectorizer",
    "_to_datetime.ToDatetime",
    "_to_float.ToFloat",
    "_to_str.ToStr",
    "selectors._base.All",
    "selectors._base.And",
    "selectors._base.Cols",
    "selectors._base.Filter",
    "selectors._base.Sub",
}
# Everything a model file may hold, by the loader that makes it.
ALLOWED = {
    "DTypeNode": {"numpy.dtype"},
    "DictNode": {"builtins.dict"},
    "FunctionNode": {
        "skrub._dataframe._common.is_any_date",
        "skrub._dataframe._common.is_categorical",
        "skrub._dataframe._common.is_numeric",
        "skrub._table_vectorizer._created_by_predicate",
        "skrub.selectors._selectors._cardinality_below",
    },
    "JsonNode": {"builtins.str"},
    "ListNode": {"builtins.list"},
    "LossNode": {
        "sklearn._loss._loss.CyHalfBinomialLoss",
        "sklearn._loss._loss.CyHalfMultinomialLoss",
    },
    "NdArrayNode": {
        f"numpy.{kind}" for kind in ("ndarray", "float32", "float64", "int64", "uint64", "bool")
    },
    "ObjectNode": {
        "grayzone.estimators.bayes.BayesDecisionClassifier",
        "grayzone.estimators.import_vector_cv.ImportVectorMachineCV",
        "grayzone.estimators.sparse_minimax.Family",
        "grayzone.estimators.sparse_minimax.SparseMinimaxProbabilityMachine",
        "grayzone.estimators.tight_bound.TightBoundLogisticRegression",
        "grayzone.estimators.truncated_cv.TruncatedLogisticRegressionCV",
        "grayzone.numerics.kernels.Kernel",
        *(f"sklearn.{name}" for name in _SKLEARN),
        *(f"skrub.{name}" for name in _SKRUB),
    },
    "TupleNode": {"builtins.tuple"},
    "TypeNode": {"builtins.int", "builtins.str", "numpy.float32", "numpy.float64"},
}
_NOTHING = {
    "__class__": "str",
    "__module__": "builtins",
    "__loader__": "JsonNode",
    "content": "null",
    "is_json": True,
}


class ForeignTypesError(Exception):
    """Types that a model file must not hold, by name."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = sorted(names)


def lean(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Leave out what decides nothing: repeated objects, generators, and arrays that only they use.

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
        if loader == "RandomGeneratorNode":
            return _NOTHING
        if loader in ("ObjectNode", "DTypeNode"):
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
    if weight > FREE_SHARED + MOST_SHARED * audit.n_nodes:
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
        self.n_nodes = 0

    def weigh(self, node: Node, depth: int) -> int:
        """Check a node and all below it; return how many they are, shared ones each time."""
        number = node.get("__id__")
        if number in self.weights:
            known = self.weights[number]
            if known is None:
                raise ValueError("an object holds itself")
            return known
        if depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        self.n_nodes += 1
        if number:
            self.weights[number] = None
        weight = 1
        for child in self._children(node):
            weight += self.weigh(child, depth + 1)
        if number:
            self.weights[number] = weight
        return weight

    def _children(self, node: Node) -> list[Node]:
        loader, name = node["__loader__"], f"{node['__module__']}.{node['__class__']}"
        if name not in ALLOWED.get(loader, ()):
            self.foreign.add(name)
            return list(_nested([value for key, value in node.items() if key[:2] != "__"]))
        self.types.add(name)
        match loader:
            case "DictNode":
                return [node["key_types"], *node["content"].values()]
            case "ListNode" | "TupleNode":
                return list(node["content"])
            case "ObjectNode":
                return [node["content"]] if node.get("content") is not None else []
            case "DTypeNode":
                return [node["content"]]
            case "LossNode":
                return [node["content"], node["__reduce__"]["args"]]
            case "NdArrayNode" if node["type"] == "json":
                return [*node["content"], node["shape"]]
            case "NdArrayNode":
                self._check_array(node["file"])
        return []

    def _check_array(self, name: str) -> None:
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
        numbers = dtype.kind in _NUMBERS and dtype.itemsize <= _WIDEST
        if not numbers and frozenset(dtype.names or ()) != TREE_FIELDS:
            raise ValueError(f"the array {name[:60]!r} holds no numbers")


def _nested(value: Any) -> Iterator[Node]:
    """Nodes within plain values, the outermost ones."""
    if isinstance(value, dict) and "__loader__" in value:
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _nested(inner)
