"""Fitted trees as a few plain arrays: small in a file, quick to walk, of no version of a library.

A forest is the mean of its leaves' class shares, boosted trees the sum of their leaves' log-odds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from grayzone.numerics.checks import Floats
from grayzone.numerics.threads import LOOPS, edges

Array = Any

WORDS = 8  # of 32 bits: codes of a category
# What a fit makes at most, and a file may hold: leaves of a tree, trees of each output.
MOST_LEAVES, MOST_TREES = 500, 200
_WORTH = 500_000  # leaves to reach for which a thread is worth it
_BLOCK = 20_000  # rows of a sparse matrix that are dense at a time


class TreeSum(ClassifierMixin, BaseEstimator):
    """A classifier that adds up what the leaves of trees say.

    Attributes
    ----------
    feature_ : ndarray of shape (n_nodes,)
        Feature by which a node divides; -1 for a leaf.
    threshold_ : ndarray of shape (n_nodes,)
        Numbers up to that go left.
    left_, right_ : ndarray of shape (n_nodes,)
        Children, which come behind their parents; the left one of a leaf is its place in `leaves_`.
    gap_left_ : ndarray of shape (n_nodes,)
        Whether gaps go left.
    category_ : ndarray of shape (n_nodes,)
        Place in `bits_` of the codes that go left; -1 where numbers are compared.
    bits_ : ndarray of shape (n_sets, 8)
        Sets of codes, a bit each.
    roots_, columns_ : ndarray of shape (n_trees,)
        First node of each tree, and the class that it speaks of first.
    leaves_ : ndarray of shape (n_leaves, n_outputs)
        What leaves say.
    base_ : ndarray of shape (n_outputs,)
        What is added to all of them: log-odds. Of no length where leaves are class shares.
    """

    classes_: Array
    n_features_in_: int
    feature_: Array
    threshold_: Floats
    left_: Array
    right_: Array
    gap_left_: Array
    category_: Array
    bits_: Array
    roots_: Array
    columns_: Array
    leaves_: Array
    base_: Floats
    single_: bool

    @classmethod
    def of_forest(cls, model: Any, rounded: bool = True) -> Self:
        """Take the trees of a fitted random forest, or of extremely random trees.

        Leaves are rounded to single precision, unless they are to be as they were.
        """
        trees = [tree.tree_ for tree in model.estimators_]
        parts = [
            _Part(
                feature=np.where(tree.children_left < 0, -1, tree.feature),
                threshold=tree.threshold,
                left=tree.children_left,
                right=tree.children_right,
                gap_left=np.asarray(tree.missing_go_to_left, dtype=bool),
                says=tree.value[:, 0, :] / len(trees),
                category=np.full(tree.node_count, -1),
                bits=np.empty((0, WORDS), dtype=np.uint32),
            )
            for tree in trees
        ]
        # such trees see numbers in single precision
        made = cls._joined(
            parts, np.zeros(len(parts), dtype=np.int32), single=True, rounded=rounded
        )
        made.base_ = np.empty(0)
        made.classes_, made.n_features_in_ = model.classes_, model.n_features_in_
        return made

    @classmethod
    def of_boosting(cls, model: Any, seen: Sequence[Array], rounded: bool = True) -> Self:
        """Take the trees of fitted boosted ones.

        Nothing public of scikit-learn tells their nodes: a test compares what both say.

        Parameters
        ----------
        model : HistGradientBoostingClassifier
            Fitted to data whose first columns are codes of categories.
        seen : sequence of ndarrays
            Codes that each of these had; of others the model knows nothing.
        rounded : bool, default=True
            Whether leaves are rounded to single precision.
        """
        rounds, base = model._predictors, np.ravel(model._baseline_prediction)
        parts = [
            _boosted_part(tree.nodes, tree.raw_left_cat_bitsets, seen)
            for trees in rounds
            for tree in trees
        ]
        columns = np.tile(np.arange(len(base), dtype=np.int32), len(rounds))
        made = cls._joined(parts, columns, single=False, rounded=rounded)
        made.base_ = base.astype(np.float64)
        made.classes_, made.n_features_in_ = model.classes_, model.n_features_in_
        return made

    @classmethod
    def _joined(
        cls, parts: Sequence[_Part], columns: Array, *, single: bool, rounded: bool
    ) -> Self:
        """Put trees behind each other."""
        made = cls()
        sizes = np.asarray([len(part.feature) for part in parts])
        offsets = np.repeat(np.cumsum(sizes) - sizes, sizes)
        sets = np.asarray([len(part.bits) for part in parts])
        feature = np.concatenate([part.feature for part in parts])
        category = np.concatenate([part.category for part in parts])
        category = np.where(category < 0, -1, category + np.repeat(np.cumsum(sets) - sets, sizes))
        leaf = feature < 0
        left = np.concatenate([part.left for part in parts]) + offsets
        left[leaf] = np.arange(leaf.sum())
        right = np.concatenate([part.right for part in parts]) + offsets
        thresholds = np.concatenate([part.threshold for part in parts])
        made.feature_ = feature.astype(np.int32)
        made.threshold_ = np.where(leaf, 0.0, thresholds)
        made.left_ = left.astype(np.int32)
        made.right_ = np.where(leaf, 0, right).astype(np.int32)
        made.gap_left_ = np.concatenate([part.gap_left for part in parts])
        made.category_ = category.astype(np.int32)
        made.bits_ = np.concatenate([part.bits for part in parts])
        made.roots_ = (np.cumsum(sizes) - sizes).astype(np.int32)
        made.columns_ = columns
        leaves = np.concatenate([part.says for part in parts])[leaf]
        made.leaves_ = leaves.astype(np.float32 if rounded else np.float64)
        made.single_ = single
        return made

    def predict_proba(self, X: Array) -> Floats:
        """Return class probabilities (n, n_classes)."""
        if sp.issparse(X):
            X = X.tocsr()
            starts = range(0, X.shape[0], _BLOCK)
            return np.concatenate([self.predict_proba(X[s : s + _BLOCK].toarray()) for s in starts])
        X = self._checked(X)
        total = self._nothing(X)
        self._walk(total, X, 0, len(self.roots_))
        return self._proba(total)

    def staged_proba(self, X: Array, rounds: Sequence[int]) -> Floats:
        """Return class probabilities (S, n, n_classes) after so many rounds of boosting."""
        X = self._checked(X)
        total, done, found = self._nothing(X), 0, []
        for n_rounds in rounds:
            last = min(n_rounds * len(self.base_), len(self.roots_))
            self._walk(total, X, done, last)
            found.append(self._proba(total))
            done = last
        return np.stack(found)

    def _proba(self, total: Floats) -> Floats:
        if not len(self.base_):
            proba: Floats = total / total.sum(axis=1, keepdims=True)
            return proba
        odds = total + self.base_
        if odds.shape[1] == 1:
            positive = expit(odds[:, 0])
            return np.column_stack([1.0 - positive, positive])
        return np.asarray(softmax(odds, axis=1))

    def predict(self, X: Array) -> Array:
        """Return the most probable class of each row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _checked(self, X: Array) -> Floats:
        X = np.asarray(X)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features; expected {self.n_features_in_}.")
        with np.errstate(over="ignore"):  # infinity is beyond every threshold, as the number is
            X = np.ascontiguousarray(X, dtype=np.float32 if self.single_ else np.float64)
        return X.astype(np.float64, copy=False)

    def _nothing(self, X: Floats) -> Floats:
        return np.zeros((len(X), len(self.base_) or self.leaves_.shape[1]))

    def _walk(self, total: Floats, X: Floats, first: int, last: int) -> None:
        """Add what some of the trees say."""
        # compiled: not on the way to other models
        from grayzone.numerics.jit import walk_trees
        from grayzone.numerics.team import share

        arrays = (
            total,
            *(X, self.feature_, self.threshold_, self.left_, self.right_, self.gap_left_),
            *(self.category_, self.bits_, self.roots_[first:last], self.columns_[first:last]),
            self.leaves_,
        )
        threads = len(X) * (last - first) / _WORTH
        share(walk_trees, arrays, (), edges(len(X), threads=threads, kind=LOOPS))


@dataclass(frozen=True)
class _Part:
    """One tree, with children and sets of codes counted from its own first."""

    feature: Array
    threshold: Floats
    left: Array
    right: Array
    gap_left: Array
    says: Floats
    category: Array
    bits: Array


def _boosted_part(nodes: Array, sets: Array, seen: Sequence[Array]) -> _Part:
    leaf = nodes["is_leaf"].astype(bool)
    by_code = nodes["is_categorical"].astype(bool) & ~leaf
    gap_left = nodes["missing_go_to_left"].astype(bool)
    bits = np.zeros((len(sets), WORDS), dtype=np.uint32)
    for node in nodes[by_code]:
        place = node["bitset_idx"]
        known = seen[node["feature_idx"]]
        # scikit-learn counts the codes that it saw; those it did not go where gaps go
        goes = np.full(32 * WORDS, bool(node["missing_go_to_left"]))
        counted = np.arange(len(known))
        goes[known] = (sets[place][counted // 32] >> (counted % 32).astype(np.uint32)) & 1
        bits[place] = np.packbits(goes, bitorder="little").view(np.uint32)
    return _Part(
        feature=np.where(leaf, -1, nodes["feature_idx"]),
        threshold=nodes["num_threshold"].astype(np.float64),
        left=nodes["left"],
        right=nodes["right"],
        gap_left=gap_left,
        says=nodes["value"][:, None],
        category=np.where(by_code, nodes["bitset_idx"].astype(np.int64), -1),
        bits=bits,
    )
