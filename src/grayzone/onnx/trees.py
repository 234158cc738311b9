"""Trees as one operator in double precision, ``TreeEnsemble`` of ai.onnx.ml 5.

A leaf of it speaks of one class. A forest, whose leaves have a share for each class, is therefore
written once for each class. Codes that go left at a node become a column of zeros and ones, so that
all nodes compare a number with a threshold.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from grayzone.estimators.tree_sum import WORDS, TreeSum
from grayzone.onnx.formulas import NotConvertibleError, sigmoid, softmax
from grayzone.onnx.graph import ML, Tensor, proto_constants

Array = Any

_CODES = 32 * WORDS
_LESS_OR_EQUAL, _SUM, _AS_IT_IS = 0, 1, 0


def forest_shares(model: Any, X: Tensor) -> Tensor:
    """Class shares of the leaves that rows reach in a tree or a forest of scikit-learn."""
    if model.n_outputs_ != 1:
        raise NotConvertibleError("Trees of several targets cannot be exported.")
    trees = getattr(model, "estimators_", [model])
    alike = SimpleNamespace(
        estimators_=trees, classes_=model.classes_, n_features_in_=model.n_features_in_
    )
    return tree_sum_probabilities(TreeSum.of_forest(alike, rounded=False), X)


def tree_sum_probabilities(model: TreeSum, X: Tensor) -> Tensor:
    """Probabilities (n, K), as ``TreeSum.predict_proba``."""
    if model.single_:
        X = X.cast("FLOAT").cast("DOUBLE")
    total = _total(model, X)
    if not len(model.base_):
        return total / total.sum(1)
    odds = total + model.base_
    if len(model.base_) > 1:
        return softmax(odds)
    positive = sigmoid(odds)
    return X.graph.concat([1.0 - positive, positive])


def _total(model: TreeSum, X: Tensor) -> Tensor:
    """What the leaves say, added up (n, n_outputs)."""
    X, feature, threshold, gap_left = _compared(model, X)
    inner = np.flatnonzero(model.feature_ >= 0)
    n_outputs, width = len(model.base_) or model.leaves_.shape[1], model.leaves_.shape[1]
    constant = np.zeros(n_outputs)
    for root, column in zip(model.roots_, model.columns_, strict=True):
        if model.feature_[root] < 0:  # a tree that is a leaf
            constant[column : column + width] += model.leaves_[model.left_[root]]
    standing = model.feature_[model.roots_] >= 0
    if not standing.any():
        return X.column(0).upright() * 0.0 + constant
    copies = [_copy(model, inner, standing, k) for k in range(width)]
    attributes = _attributes(copies, feature[inner], threshold[inner], gap_left[inner])
    total = X.graph.add("TreeEnsemble", X, domain=ML, n_targets=n_outputs, **attributes)
    return total + constant


def _copy(model: TreeSum, inner: Array, standing: Array, k: int) -> dict[str, Array]:
    """Nodes, leaves and roots of all trees, for the k-th number that leaves say."""
    place = np.full(len(model.feature_), -1)
    place[inner] = np.arange(len(inner))
    children = {}
    for side, nodes in (("true", model.left_), ("false", model.right_)):
        child = nodes[inner]
        leaf = model.feature_[child] < 0
        children[f"{side}leafs"] = leaf.astype(np.int64)
        children[f"{side}nodeids"] = np.where(leaf, model.left_[child], place[child])
    # which tree a leaf belongs to: trees are one behind the other, leaves in the order of nodes
    leaves = np.flatnonzero(model.feature_ < 0)
    tree = np.searchsorted(model.roots_, leaves, side="right") - 1
    return {
        **children,
        "roots": place[model.roots_[standing]],
        "targets": model.columns_[tree].astype(np.int64) + k,
        "weights": model.leaves_[:, k].astype(np.float64),
    }


def _attributes(
    copies: list[dict[str, Array]], feature: Array, threshold: Array, gap_left: Array
) -> dict[str, Any]:
    """Join copies of the trees, of which each has its own leaves, as the operator wants them."""
    n_nodes, n_leaves, n = len(feature), len(copies[0]["weights"]), len(copies)

    def nodes(side: str) -> Array:
        return np.concatenate(
            [
                c[f"{side}nodeids"] + k * np.where(c[f"{side}leafs"] == 1, n_leaves, n_nodes)
                for k, c in enumerate(copies)
            ]
        ).tolist()

    def joined(name: str) -> Array:
        return np.concatenate([copy[name] for copy in copies])

    tensors = proto_constants(
        {
            "nodes_splits": np.tile(threshold.astype(np.float64), n),
            "leaf_weights": joined("weights"),
            "nodes_modes": np.full(n * n_nodes, _LESS_OR_EQUAL, dtype=np.uint8),
        }
    )
    return {
        **{tensor.name: tensor for tensor in tensors},
        "aggregate_function": _SUM,
        "post_transform": _AS_IT_IS,
        "tree_roots": np.concatenate(
            [copy["roots"] + k * n_nodes for k, copy in enumerate(copies)]
        ).tolist(),
        "nodes_featureids": np.tile(feature.astype(np.int64), n).tolist(),
        "nodes_missing_value_tracks_true": np.tile(gap_left.astype(np.int64), n).tolist(),
        "nodes_truenodeids": nodes("true"),
        "nodes_falsenodeids": nodes("false"),
        "nodes_trueleafs": joined("trueleafs").tolist(),
        "nodes_falseleafs": joined("falseleafs").tolist(),
        "leaf_targetids": joined("targets").tolist(),
    }


def _compared(model: TreeSum, X: Tensor) -> tuple[Tensor, Array, Array, Array]:
    """Rows with a column for each set of codes, and features, thresholds and ways of gaps."""
    feature, threshold = model.feature_.astype(np.int64), model.threshold_.copy()
    gap_left = model.gap_left_.copy()
    by_code = np.flatnonzero((model.category_ >= 0) & (feature >= 0))
    if not len(by_code):
        return X, feature, threshold, gap_left
    keys = np.stack([feature, model.category_, gap_left.astype(np.int64)], axis=1)[by_code]
    kinds, kind = np.unique(keys, axis=0, return_inverse=True)
    parts, width = [X], model.n_features_in_
    for column in np.unique(kinds[:, 0]):
        parts.append(_right_of(model, X.column(int(column)), kinds[kinds[:, 0] == column]))
    # kinds are sorted by their column: so are the new columns
    feature[by_code], threshold[by_code] = width + kind.ravel(), 0.5
    gap_left[by_code] = False
    return X.graph.concat(parts), feature, threshold, gap_left


def _right_of(model: TreeSum, codes: Tensor, kinds: Array) -> Tensor:
    """Columns (n, S) of ones where a code, a number of which a set may know nothing, goes right."""
    gaps = kinds[:, 2].astype(bool)
    table = np.zeros((_CODES + 1, len(kinds)))
    for place, (_, number, _) in enumerate(kinds):
        bits = np.unpackbits(model.bits_[number].view(np.uint8), bitorder="little")
        table[:_CODES, place] = 1.0 - bits
    table[_CODES] = 1.0 - gaps  # gaps, and codes beyond all sets
    known = (codes > -1.0) & (codes < float(_CODES))
    row = known.where(codes, float(_CODES)).cast("INT64")
    return codes.graph.add("Gather", table, row, axis=0)
