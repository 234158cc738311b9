"""Cross-validation of truncated logistic regression on a device, sharing what can be shared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from sklearn.base import BaseEstimator, ClassifierMixin

from grayzone.decision import bayes_decision
from grayzone.estimators._base import class_probabilities
from grayzone.estimators._search import FoldedRows, Scorer, scored
from grayzone.estimators._truncated_blocks import fit_blocks
from grayzone.estimators._truncated_device import Shown
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy, check_weights, row_weights
from grayzone.numerics.kernels import Kernel
from grayzone.solvers import Status
from grayzone.solvers.kernel.device_matrix import KernelValues
from grayzone.solvers.kernel.device_path import fit_path
from grayzone.solvers.training import kernel_of
from grayzone.sources.source import HeldSource

Array = Any

_FINE = (Status.CONVERGED, Status.STOPPED, Status.ROUNDED)


class Classes(NamedTuple):
    """What decisions need to know of training rows."""

    classes: Array
    prior: Array


@dataclass
class Fold:
    """One fold: rows to fit to and rows to judge by, as NumPy knows them."""

    train: Array
    test: Array
    known: Classes
    weight: Array  # of all rows, those of the classes in it; zero on held-out rows
    results: dict[tuple[int, int], tuple[float, int, bool]] = field(default_factory=dict)


class _Judged(ClassifierMixin, BaseEstimator):
    """A model of which all that is left are its scores of the rows that it is judged by."""

    def __init__(self, scores: Array, classes: Array, cost_matrix: Array) -> None:
        self.scores = scores
        self.classes_, self.cost_matrix_ = classes, cost_matrix

    def decision_function(self, X: Array) -> Array:
        return self.scores[:, 0] if self.scores.shape[1] == 1 else self.scores

    def predict_proba(self, X: Array) -> Array:
        return class_probabilities(self.scores)

    def predict(self, X: Array) -> Array:
        return self.classes_[bayes_decision(self.predict_proba(X), self.cost_matrix_)]


class DeviceSearch:
    """All fits of a grid, in all folds, to rows on a device.

    Plain kernel logistic regressions of two classes are fitted all at once: folds and penalties
    share the kernel matrix. Other fits follow one another.

    Parameters
    ----------
    grid : object
        Gives models, as ``model(zone, C)``, the values ``Cs`` and the list ``zones``.
    source : HeldSource
        The rows.
    cv : object
        How to fold.
    """

    def __init__(self, grid: Any, source: HeldSource, cv: Any) -> None:
        self.grid, self.X = grid, source.block.X
        self.y = as_numpy(source.block.y)
        n = self.y.shape[0]
        weight = source.block.weight
        self.weight = None if weight is None else check_weights(weight, n)
        self.pairwise = grid.shared["kernel"] == "precomputed"
        folded = FoldedRows(np.empty((n, 0)), self.y, self.weight, pairwise=False)
        classes, codes = np.unique(self.y, return_inverse=True)
        self.classes, self.codes = classes, codes
        self.folds = [self._fold(*fold) for fold in folded.folds(cv)]

    @property
    def known(self) -> Classes:
        """Classes and their frequencies among all rows."""
        weight = np.ones(self.y.shape[0]) if self.weight is None else self.weight
        mass = np.bincount(self.codes, weight, minlength=self.classes.size)
        return Classes(self.classes, mass / mass.sum())

    def path(self, fold: Fold) -> tuple[Array, Array, int]:
        """Scores and steps (n_zones, n_Cs) of a fold, and how many fits failed."""
        shape = len(self.grid.zones), self.grid.Cs.size
        scores, n_iter, failed = np.empty(shape), np.empty(shape, dtype=int), 0
        for place, (score, steps, fine) in fold.results.items():
            scores[place], n_iter[place] = score, steps
            failed += not fine
        return scores, n_iter, failed

    def _fold(self, train: Array, test: Array) -> Fold:
        given = None if self.weight is None else self.weight[train]
        plain, own = row_weights(
            given, self.grid.shared["class_weight"], self.classes, self.codes[train]
        )
        weight = np.zeros(self.y.shape[0])
        weight[train] = own
        mass = np.bincount(self.codes[train], plain, minlength=self.classes.size)
        return Fold(train, test, Classes(self.classes, mass / mass.sum()), weight)

    def run(self, scorer: Scorer) -> None:
        """Fit and score all pairs in all folds; they keep the results."""
        plain = [zone for zone in range(len(self.grid.zones)) if self._is_plain(zone)]
        if plain:
            # all of them are the same fits
            for kernel, folds in self._by_kernel().items():
                self._at_once(kernel, folds, plain, scorer)
        for fold in self.folds:
            for zone in range(len(self.grid.zones)):
                for C in range(self.grid.Cs.size):
                    if (zone, C) not in fold.results:
                        fold.results[zone, C] = self._one(fold, zone, C, scorer)

    def _is_plain(self, zone: int) -> bool:
        """Whether a zone leaves the full likelihood, of two classes, with a kernel."""
        model = self.grid.model(zone, 0)
        if model.kernel == "linear" or model.loss != "truncated" or self.classes.size > 2:
            return False
        model._set_decision(self.folds[0].known)
        return not np.any(np.isfinite(model._floors()))

    def _taken(self, rows: Array, centres: Array) -> Array:
        xp = array_namespace(self.X)
        taken = xp.take(self.X, moved(rows, self.X), axis=0)
        return xp.take(taken, moved(centres, self.X), axis=1) if self.pairwise else taken

    def _by_kernel(self) -> dict[Kernel, list[Fold]]:
        """Folds that have the same kernel, whose width may depend on their rows."""
        kernels: dict[Kernel, list[Fold]] = {}
        for fold in self.folds:
            seen = self._taken(fold.train, fold.train)
            given = np.ones(self.y.shape[0]) if self.weight is None else self.weight
            shown = Shown(seen, moved(given[fold.train], self.X))
            kernels.setdefault(kernel_of(self.grid.model(0, 0), shown), []).append(fold)
        return kernels

    def _at_once(self, kernel: Kernel, folds: list[Fold], zones: list[int], scorer: Scorer) -> None:
        values = KernelValues(kernel, self.X)
        if values.kept is None:  # no room: one after the other, each planning its own memory
            return
        model, Cs = self.grid.model(zones[0], 0), self.grid.Cs
        found = fit_path(
            values,
            moved(np.where(self.codes == 1, 1.0, -1.0), self.X),
            moved(np.stack([f.weight for f in folds], axis=1), self.X),
            1.0 / Cs,
            fit_intercept=model.fit_intercept,
            tol=model.tol,
            max_iter=model.max_iter,
        )
        scores = as_numpy(found.scores)
        for place, (fold, C) in enumerate((f, c) for f in folds for c in range(Cs.size)):
            model._set_decision(fold.known)
            value = self._score(fold, model, scores[fold.test, place][:, None], scorer)
            fine = bool(found.gaps[place] <= model.tol)
            for zone in zones:
                fold.results[zone, C] = value, int(found.n_iter[place]), fine

    def _one(self, fold: Fold, zone: int, C: int, scorer: Scorer) -> tuple[float, int, bool]:
        """Fit one pair to one fold; zones that come to the same are fitted once."""
        model = self.grid.model(zone, C)
        for other in range(zone):
            if self.grid.caps(other, fold.known) == self.grid.caps(zone, fold.known):
                return fold.results[other, C]
        X, y = self._taken(fold.train, fold.train), self.y[fold.train]
        weight = None if self.weight is None else moved(self.weight[fold.train], self.X)
        model.n_features_in_ = X.shape[1]
        labels = y if y.dtype.kind not in "biuf" else moved(y, self.X)
        status = fit_blocks(model, HeldSource(X, labels, weight), None)
        scores = model._scores(self._taken(fold.test, fold.train), "predict")
        costs = as_numpy(model.cost_matrix_)
        model.cost_matrix_ = costs
        return self._score(fold, model, as_numpy(scores), scorer), model.n_iter_, status in _FINE

    def _score(self, fold: Fold, model: Any, scores: Array, scorer: Scorer) -> float:
        judged = _Judged(scores, self.classes, model.cost_matrix_)
        weight = None if self.weight is None else self.weight[fold.test]
        nothing = np.empty((fold.test.size, 0))
        return scored(scorer, judged, nothing, self.y[fold.test], weight)
