"""How good a model is on rows that were held out, wherever they are.

What is a mean over rows is summed where they are, in double precision. Other scorers are given all
held-out rows at once, or the scores of those on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from sklearn.base import BaseEstimator, ClassifierMixin

from grayzone.decision import bayes_decision
from grayzone.estimators._base import class_probabilities, decided, log_probabilities
from grayzone.estimators._search import Scorer, scored, scorer_of
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any
# Score of a model on held-out rows.
Judge = Callable[[Any, Labelled], float]
# From scores (n, Q), codes and the model, a value of each row.
Measure = Callable[[Array, Array, Any], Array]

# Probabilities that a log-loss takes for 0 and 1, as scikit-learn has it.
_LEAST = float(np.finfo(np.float64).eps)


class Decisions(ClassifierMixin, BaseEstimator):
    """A model of which all that is left are its scores of the rows that it is judged by."""

    def __init__(self, scores: Array, model: Any) -> None:
        self.scores, self._reject_costs = scores, getattr(model, "_reject_costs", None)
        self.classes_, self.cost_matrix_ = as_numpy(model.classes_), as_numpy(model.cost_matrix_)
        self.actions_ = as_numpy(getattr(model, "actions_", model.classes_))

    def decision_function(self, X: Array) -> Array:
        return self.scores[:, 0] if self.scores.shape[1] == 1 else self.scores

    def predict_proba(self, X: Array) -> Array:
        return class_probabilities(self.scores)

    def predict(self, X: Array, example_costs: Any = None) -> Array:
        return decided(self, self.predict_proba(X), example_costs)


def judge_of(search: Any, weighted: bool, streamed: bool) -> Judge:
    """Return what judges models by the parameter ``scoring`` of a search.

    Parameters
    ----------
    search : estimator
        Has the parameter.
    weighted : bool
        Whether rows were given weights, which scorers that take some are told.
    streamed : bool
        Whether rows come in blocks: then there are sums over them, and nothing else.
    """
    scoring = search.scoring
    if scoring is None or isinstance(scoring, str):
        measure = _MEASURES.get(scoring)
        if measure is not None:
            return partial(_mean_over_rows, measure)
    scorer = scorer_of(search)
    if streamed:
        raise ValueError(
            f"scoring={scoring!r} wants all held-out rows at once; beside blocks it must be a mean "
            "over rows: None, 'accuracy', 'neg_log_loss', or 'gacv' where that is offered."
        )
    return partial(_by_scorer, scorer, weighted)


def _by_scorer(scorer: Scorer, weighted: bool, model: Any, out: Labelled) -> float:
    """Judge by a scorer; scorers are NumPy's, and are told what scores on a device lead to."""
    rows = out.plain.all_held
    X, y = rows.X, out.classes[as_numpy(rows.codes)]
    if not (is_numpy_array(X) or sp.issparse(X)):
        model = Decisions(as_numpy(model._beyond(model._scores_of(X))), model)
        X = np.empty((rows.n_rows, 0))
    return scored(scorer, model, X, y, as_numpy(rows.weight) if weighted else None)


def _mean_over_rows(measure: Measure, model: Any, out: Labelled) -> float:
    sums = out.plain.reduce(_Measured(measure, model))
    return float(sums["value"] / sums["weight"])


@dataclass(frozen=True)
class _Measured:
    """What rows are worth under a model, and what they weigh."""

    measure: Measure
    model: Any

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        here = xp.nonzero(rows.weight > 0)[0]
        if here.shape[0] == 0:
            return {"value": 0.0, "weight": 0.0}
        if here.shape[0] < rows.n_rows:  # those of a stream that are held out
            rows = rows.take(here)
        scores = self.model._beyond(self.model._scores_of(rows.X))
        values = self.measure(scores, rows.codes, self.model)
        return {
            "value": float(xp.sum(rows.weight * values)),
            "weight": float(xp.sum(rows.weight)),
        }


def _decisions(scores: Array, model: Any) -> Array:
    xp = array_namespace(scores)
    places = bayes_decision(class_probabilities(scores), moved(model.cost_matrix_, scores))
    return xp.astype(places, xp.int64)


def _negative_costs(scores: Array, codes: Array, model: Any) -> Array:
    xp, costs = array_namespace(scores), moved(model.cost_matrix_, scores)
    places = codes * costs.shape[0] + _decisions(scores, model)
    return -xp.take(xp.reshape(xp.astype(costs, xp.float64), (-1,)), places)


def _right(scores: Array, codes: Array, model: Any) -> Array:
    xp = array_namespace(scores)
    return xp.astype(_decisions(scores, model) == codes, xp.float64)


def _log_likelihoods(scores: Array, codes: Array, model: Any) -> Array:
    xp, values = array_namespace(scores), log_probabilities(scores)
    n, K = values.shape
    places = K * xp.arange(n, dtype=xp.int64, device=device(codes)) + codes
    own = xp.take(xp.reshape(values, (-1,)), places)
    return xp.clip(own, float(np.log(_LEAST)), float(np.log1p(-_LEAST)))


_MEASURES: dict[str | None, Measure] = {
    None: _negative_costs,
    "accuracy": _right,
    "neg_log_loss": _log_likelihoods,
}
