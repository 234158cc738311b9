"""Members of a decision ensemble: what they answer for rows that they have not seen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from grayzone.estimators._base import rows_of
from grayzone.estimators._columns import SCALED, SPLINES, TREES, columns_of, preparation
from grayzone.estimators.truncated import TruncatedLogisticRegression
from grayzone.numerics.checks import Floats

Array = Any

TREES_OF_A_FOREST = 300
# Rows that a tree, and a kernel, is grown from at most: with more, the others are not drawn.
ROWS_OF_A_TREE, ROWS_OF_A_KERNEL = 50_000, 3_000
_STAGES = tuple(range(10, 310, 10))


@dataclass(frozen=True)
class Rows:
    """Training rows, in folds that all members share."""

    X: Array
    codes: Array
    weight: Floats
    folds: list[tuple[Array, Array]]
    n_classes: int
    seed: int
    n_jobs: int | None

    def part(self, rows: Array) -> tuple[Array, Array, Floats]:
        """Some of the rows."""
        return rows_of(self.X, rows), self.codes[rows], self.weight[rows]


@dataclass(frozen=True)
class _Learning:
    """Features of rows to learn from, and what made them."""

    before: Any
    inside: Array
    codes: Array
    given: dict[str, Any]

    def features(self, X: Array) -> Array:
        """Features of other rows."""
        return X if self.before == "passthrough" else self.before.transform(X)

    def whole(self, model: Any) -> Any:
        """A model that takes the data themselves."""
        if self.before == "passthrough":
            return model
        return Pipeline([("prepare", self.before), ("model", model)])


@dataclass(frozen=True)
class Answer:
    """A member that is fitted to all rows, and what it says of each without having seen it."""

    name: str
    estimator: Any
    proba: Floats
    setting: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """A kind of model, with settings to choose from by the log-loss of rows in other folds.

    Parameters
    ----------
    name : str
        What it is called.
    model : estimator
        A classifier with probabilities.
    kind : str or None
        What features it takes (see :mod:`grayzone.estimators._columns`); None: data as they are.
    settings : tuple of dicts
        Parameters; a ``gamma`` is for each feature.
    most_rows : int or None
        Rows that it is fitted to at most; of more, some of each class are drawn, at least ten.
    """

    name: str
    model: Any
    kind: str | None = None
    settings: tuple[Mapping[str, Any], ...] = ({},)
    most_rows: int | None = None

    def unable(self, X: Array) -> str:
        """Say why it cannot take such data; "" if it can."""
        takes_sparse = self.kind in (None, SCALED, TREES)
        return "" if takes_sparse or not sp.issparse(X) else "it takes no sparse data"

    def answer(self, rows: Rows) -> Answer:
        """Fit all but one fold in turn with each setting, and all rows with the best one."""
        jobs = [delayed(self._fold)(rows, train, test) for train, test in rows.folds]
        parts = Parallel(rows.n_jobs)(jobs)
        proba = np.empty((len(parts[0]), len(rows.codes), rows.n_classes))
        for (_, test), part in zip(rows.folds, parts, strict=True):
            proba[:, test] = part
        best = _least_log_loss(proba, rows)
        learning = self._learning(rows, np.arange(len(rows.codes)))
        model = self._fit(rows, learning, self._setting(best))
        return Answer(self.name, learning.whole(model), proba[best], self._setting(best))

    def _setting(self, k: int) -> Mapping[str, Any]:
        return self.settings[k]

    def _fold(self, rows: Rows, train: Array, test: Array) -> Floats:
        """Probabilities of the rows of a fold, with each setting (S, n, K)."""
        learning = self._learning(rows, train)
        outside = learning.features(rows_of(rows.X, test))
        return np.stack(
            [
                _of_all_classes(model, model.predict_proba(outside), rows)
                for model in (self._fit(rows, learning, setting) for setting in self.settings)
            ]
        )

    def _learning(self, rows: Rows, train: Array) -> _Learning:
        """Turn some rows into features; settings share them."""
        X, codes, weight = rows.part(self._some(rows, train))
        before: Any = "passthrough" if self.kind is None else preparation(rows.X, self.kind)
        features = X if before == "passthrough" else before.fit_transform(X)
        given = {} if np.all(weight == 1.0) else {"sample_weight": weight}
        return _Learning(before, features, codes, given)

    def _fit(self, rows: Rows, learning: _Learning, setting: Mapping[str, Any]) -> Any:
        model = self._made(rows, learning.inside.shape[1], setting)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is judged by what it says
            return model.fit(learning.inside, learning.codes, **learning.given)

    def _made(self, rows: Rows, n_features: int, setting: Mapping[str, Any]) -> Any:
        known = dict(setting)
        if "gamma" in known:
            known["gamma"] = known["gamma"] / n_features
        model = clone(self.model).set_params(**known)
        if "random_state" in model.get_params():
            model.set_params(random_state=rows.seed)
        return model

    def _some(self, rows: Rows, train: Array) -> Array:
        """All of these rows or, of very many, some of each class."""
        if self.most_rows is None or len(train) <= self.most_rows:
            return train
        rng = np.random.default_rng(rows.seed)
        codes = rows.codes[train]
        counts = np.bincount(codes, minlength=rows.n_classes)
        kept = [
            rng.permutation(train[codes == k])[: max(10, round(self.most_rows * n / len(train)))]
            for k, n in enumerate(counts)
        ]
        return np.sort(np.concatenate(kept))


class Boosted(Member):
    """Trees that are added one after the other; how many is chosen from the stages of one fit."""

    def unable(self, X: Array) -> str:
        return "it takes no sparse data" if sp.issparse(X) else ""

    def _setting(self, k: int) -> Mapping[str, Any]:
        return {"max_iter": _STAGES[k]}

    def _fold(self, rows: Rows, train: Array, test: Array) -> Floats:
        learning = self._learning(rows, train)
        model = self._fit(rows, learning, {"max_iter": _STAGES[-1]})
        X = learning.features(rows_of(rows.X, test))
        every = [_of_all_classes(model, proba, rows) for proba in model.staged_predict_proba(X)]
        # a fit may end before its time, where nothing is left to gain
        return np.stack([every[min(stage, len(every)) - 1] for stage in _STAGES])

    def _made(self, rows: Rows, n_features: int, setting: Mapping[str, Any]) -> Any:
        columns = columns_of(rows.X)
        first = n_features if columns is None else len(columns[0])
        categories = list(range(first, n_features)) or None
        model = super()._made(rows, n_features, setting)
        return model.set_params(categorical_features=categories)


class Forest(Member):
    """Trees of which each leaves rows out: these are its rows not seen."""

    def answer(self, rows: Rows) -> Answer:
        learning = self._learning(rows, np.arange(len(rows.codes)))
        model = self._fit(rows, learning, {})
        proba = model.oob_decision_function_
        share = np.bincount(rows.codes, rows.weight) / rows.weight.sum()
        # of very few rows some may be in every tree
        proba = np.where(np.isfinite(proba).all(axis=1, keepdims=True), proba, share)
        del model.oob_decision_function_
        return Answer(self.name, learning.whole(model), proba)

    def _made(self, rows: Rows, n_features: int, setting: Mapping[str, Any]) -> Any:
        model = super()._made(rows, n_features, setting)
        drawn = ROWS_OF_A_TREE if len(rows.codes) > ROWS_OF_A_TREE else None
        return model.set_params(n_jobs=rows.n_jobs, max_samples=drawn)


def stratified_folds(codes: Array, most: int, seed: int) -> list[tuple[Array, Array]]:
    """Deal the rows of each class out to folds: fewer than asked for where a class has fewer.

    A class of one row is in one fold alone, and not known to models of the others.
    """
    rng = np.random.default_rng(seed)
    counts = np.bincount(codes)
    n_folds = min(most, max(2, int(counts.min())))
    dealt = np.concatenate(
        [rng.permutation(np.flatnonzero(codes == k)) for k in range(len(counts))]
    )
    fold = np.empty(len(codes), dtype=np.intp)
    fold[dealt] = np.arange(len(codes)) % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def _of_all_classes(model: Any, proba: Floats, rows: Rows) -> Floats:
    """Probabilities with a column for each class, also for those that a fold has not."""
    if proba.shape[1] == rows.n_classes:
        return proba
    every = np.zeros((len(proba), rows.n_classes))
    every[:, model.classes_] = proba
    return every


def _least_log_loss(proba: Floats, rows: Rows) -> int:
    """Which of several probabilities (S, n, K) says most of the classes."""
    said = proba[:, np.arange(len(rows.codes)), rows.codes]
    losses = -np.log(np.maximum(said, 1e-15)) @ rows.weight
    return int(np.argmin(losses))


def _logistic(**parameters: Any) -> Any:
    return TruncatedLogisticRegression(zone=None, tol=1e-4, **parameters)


_PENALTIES = tuple({"C": C} for C in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0))
_FOREST = {"n_estimators": TREES_OF_A_FOREST, "oob_score": True, "bootstrap": True}
# In this order: the first ones are most of what all of them are.
MEMBERS = {
    member.name: member
    for member in (
        Member("logistic-regression", _logistic(), SCALED, _PENALTIES),
        Forest("random-forest", RandomForestClassifier(**_FOREST), TREES),
        Member(
            "kernel-logistic",
            _logistic(kernel="rbf"),
            SCALED,
            tuple({"gamma": g, "C": C} for g in (0.1, 0.3, 1.0) for C in (0.3, 3.0, 30.0)),
            ROWS_OF_A_KERNEL,
        ),
        Boosted(
            "boosting",
            HistGradientBoostingClassifier(
                learning_rate=0.05, max_leaf_nodes=8, early_stopping=False
            ),
            TREES,
        ),
        Forest("extra-trees", ExtraTreesClassifier(**_FOREST), TREES),
        Member("splines", _logistic(), SPLINES, _PENALTIES),
    )
}
