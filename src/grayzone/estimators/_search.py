"""Folds of data and scores on them: what estimators that choose by cross-validation share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from grayzone.decision import cost_matrices
from grayzone.estimators._callbacks import fit_progress
from grayzone.metrics import expected_cost
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import (
    as_numpy,
    check_integer,
    check_penalty,
    check_weights,
    is_real,
)
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.sources.labelled import Labelled, label
from grayzone.sources.source import HeldSource
from grayzone.sources.split import Fold, check_fold, stratified_folds

Array = Any
Scorer = Callable[..., Any]

# Means of the same scores, summed in another order, differ by less than this share of them.
_ROUNDING = 1e-12


class FoldedRows(NamedTuple):
    """Rows to be split into folds, where they are held; labels and weights are NumPy's."""

    X: Array
    y: Array
    weight: Array | None
    pairwise: bool  # columns of X are rows, too
    costs: Array | None = None  # of each row, (n, K, K); NumPy's, too

    @classmethod
    def of(cls, labelled: Labelled, pairwise: bool) -> FoldedRows:
        """Return the rows that a fit was given."""
        assert isinstance(labelled.source, HeldSource)
        X, y, weight, _, costs = labelled.source.block
        if weight is not None:
            weight = check_weights(weight, int(X.shape[0]))
        if costs is not None:
            costs = as_numpy(cost_matrices(costs, labelled.classes, int(X.shape[0])))
        return cls(X, as_numpy(y), weight, pairwise, costs)

    @property
    def elsewhere(self) -> bool:
        """Whether the rows are an array of another library."""
        return not (is_numpy_array(self.X) or sp.issparse(self.X))

    def features(self, rows: Array, centres: Array) -> Array:
        """Return features of rows; of a precomputed kernel, its values with the centres."""
        if not self.elsewhere:
            return self.X[np.ix_(rows, centres)] if self.pairwise else self.X[rows]
        xp = array_namespace(self.X)
        taken = xp.take(self.X, moved(rows, self.X), axis=0)
        return xp.take(taken, moved(centres, self.X), axis=1) if self.pairwise else taken

    def take(self, rows: Array, centres: Array) -> tuple[Array, Array, Array | None]:
        """Return features, labels and weights of rows; ``centres`` are the training rows."""
        weight = None if self.weight is None else self.weight[rows]
        return self.features(rows, centres), self.y[rows], weight

    def labelled(self, rows: Array, class_weight: Any) -> Labelled:
        """Return rows as a fit is given them."""
        return label(HeldSource(*self.take(rows, rows), self.costs_of(rows)), class_weight)

    def costs_of(self, rows: Array) -> Array | None:
        """Return the costs of rows, where they have some."""
        return None if self.costs is None else self.costs[rows]

    def folds(self, cv: Any) -> list[tuple[Array, Array]]:
        """Row numbers of the training and the held-out rows of each fold, checked."""
        everything = np.arange(len(self.y))
        X = np.empty((len(self.y), 0)) if self.elsewhere else self.X
        splits = check_cv(cv, self.y, classifier=True).split(X, self.y)
        folds = [(everything[train], everything[test]) for train, test in splits]
        if not folds:
            raise ValueError(f"cv must give at least one fold; got {cv!r}.")
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        classes, codes = np.unique(self.y, return_inverse=True)
        for number, fold in enumerate(folds):
            heavy = (rows[weight[rows] > 0.0] for rows in fold)
            counts = (np.bincount(codes[rows], minlength=classes.size) for rows in heavy)
            check_fold(number, classes, *counts)
        return folds


def check_folds_of_blocks(cv: Any) -> None:
    """Check folds of rows that come in blocks: a number of them."""
    if cv is not None and not is_real(cv):
        raise ValueError(
            "Beside blocks cv must be a number of folds, or None: other folds are lists of the "
            f"numbers of all rows; got {cv!r}."
        )
    if cv is not None:
        check_integer("cv", cv, least=2)


def folds_of(labelled: Labelled, cv: Any) -> list[Fold]:
    """Return folds of rows, wherever they are; an integer makes the same ones everywhere."""
    if labelled.held is None:
        return stratified_folds(labelled, cv)
    data = FoldedRows.of(labelled, pairwise=False)
    place = np.full(len(data.y), -1)
    place[as_numpy(labelled.held.places())] = np.arange(labelled.held.n_rows)
    taken = [[place[rows][place[rows] >= 0] for rows in fold] for fold in data.folds(cv)]
    return [Fold(*(partial(labelled.take, places) for places in fold)) for fold in taken]


def scorer_of(estimator: Any) -> Scorer:
    """Scorer that the parameter ``scoring`` of an estimator asks for."""
    scoring = estimator.scoring
    if scoring is None:
        return negative_cost
    if not (isinstance(scoring, str) or callable(scoring)):
        raise ValueError(
            f"scoring must be None, the name of a scorer or a callable scorer(estimator, X, "
            f"y); got {scoring!r}."
        )
    return check_scoring(estimator, scoring=scoring)


def negative_cost(
    estimator: Any,
    X: Array,
    y: Array,
    sample_weight: Array | None = None,
    example_costs: Any = None,
) -> float:
    """Negative expected cost of decisions, by costs of rows or those that a model was fitted with.

    Rows that have costs are decided by them, too.
    """
    undecided = getattr(estimator, "_reject_costs", None)
    costs, options = estimator.cost_matrix_, {}
    if example_costs is not None:
        costs, options = None, {"example_costs": example_costs}
    return -expected_cost(
        y,
        estimator.predict(X, **options),
        costs=costs,
        example_costs=example_costs,
        labels=estimator.classes_,
        sample_weight=sample_weight,
        reject_cost=undecided,
        undecided_label="auto" if undecided is None else as_numpy(estimator.actions_)[-1].item(),
    )


def scored(
    scorer: Scorer, model: Any, X: Array, y: Array, weight: Array | None, costs: Any = None
) -> float:
    """Score of a model on rows, with their weights and costs where the scorer takes some."""
    taken = inspect.signature(scorer).parameters
    known = {"sample_weight": weight, "example_costs": costs}
    options = {name: of for name, of in known.items() if of is not None and name in taken}
    value = scorer(model, X, y, **options)
    if not is_real(value):
        raise ValueError(f"scoring must give one number; got {value!r}.")
    return float(value)


def check_cs(Cs: Any) -> Array:
    """Values of C to choose from: given, or so many on a logarithmic scale."""
    if is_real(Cs):
        return np.logspace(-4.0, 4.0, check_integer("Cs", Cs, least=1))
    try:
        values = as_numpy(Cs).astype(np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.ndim != 1 or not values.size or not np.all((values > 0.0) & np.isfinite(values)):
        raise ValueError(f"Cs must be an integer >= 1 or finite numbers > 0; got {Cs!r}.")
    for value in (values.min(), values.max()):
        check_penalty("C, one of Cs,", float(value))
    return values


def shared_parameters(search: BaseEstimator, kind: type[BaseEstimator]) -> dict[str, Any]:
    """Return the parameters of an estimator that those it chooses among have as well."""
    known, own = kind().get_params(deep=False), search.get_params(deep=False)
    return {name: value for name, value in own.items() if name in known}


@contextmanager
def fold_by_fold(
    search: Any, n_tasks: int, alone: bool = False
) -> Iterator[Callable[..., list[Any]]]:
    """Give a function that returns what ``work(*fold)`` finds in each of some folds.

    ``n_jobs`` of them are worked on at the same time; one where they are to be ``alone``, as each
    is worked on by all that there is. What is found has ``scores``, which callbacks are told; they
    may want no more folds. ``n_tasks`` folds are to come, in one pass or several.
    """
    n_jobs = 1 if alone else search.n_jobs
    with fit_progress(search, "fold", n_tasks) as report:

        def run(work: Callable[..., Any], folds: list[Any]) -> list[Any]:
            parallel, found = Parallel(n_jobs=n_jobs, return_as="generator"), []
            for one in parallel(delayed(work)(*fold) for fold in folds):
                found.append(one)
                if report is not None and report(scores=one.scores):
                    break
            return found

        yield run


def on_folds(
    search: Any, work: Callable[..., Any], folds: list[Any], alone: bool = False
) -> list[Any]:
    """Return what ``work(*fold)`` finds in each fold, in one pass."""
    with fold_by_fold(search, len(folds), alone) as run:
        return run(work, folds)


def best_places(scores: Array, of: str) -> Array:
    """Return the places (n_ties, ndim - 1) of the best mean score over the last axis, the folds."""
    means = scores.mean(axis=-1)
    usable = np.where(np.isnan(means), -np.inf, means)
    best = usable.max()
    if not np.isfinite(best):
        raise ValueError(f"scoring gave no finite mean score for any {of}; the best one is {best}.")
    slack = _ROUNDING * np.max(np.abs(scores[np.isfinite(scores)]))
    return np.argwhere(usable >= best - slack)


def take_over(search: BaseEstimator, model: BaseEstimator) -> None:
    """Set all that a chosen model was fitted with and has learnt."""
    parameters = model.get_params(deep=False)
    for name, value in vars(model).items():
        if name not in parameters:
            setattr(search, name, value)


class Searched:
    """An estimator that has chosen parameters by cross-validation; before its base classes."""

    scoring: Any
    _chosen: str  # names of the attributes that say what was chosen

    def score(
        self,
        X: Array,
        y: Array,
        sample_weight: Array | None = None,
        example_costs: Any = None,
    ) -> float:
        """Score of the decisions or probabilities, by ``scoring``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        example_costs : array-like of shape (n_samples, K, K) or mapping, default=None
            Costs of each row, for scorers that take them: by default they decide and judge.

        Returns
        -------
        score : float
            By default the negative expected cost: greater is better.
        """
        return scored(self._scorer(), self, X, y, sample_weight, example_costs)

    def _scorer(self) -> Scorer:
        """Return what judges a model on rows."""
        return scorer_of(self)

    def _check_fitted(self) -> None:
        """Check that an estimator has chosen, and has then been fitted to all rows."""
        check_is_fitted(self, "scores_")
        if "dual_coef_" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} has refit=False: it chose {self._chosen}, but fitted "
                "no model to predict with."
            )
