"""The mean cost of decisions as a scorer, with costs of each row that decide and judge."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping

from grayzone.decision.costs import Costs
from grayzone.metrics.scores import expected_cost
from grayzone.numerics.checks import as_numpy


def make_cost_scorer(
    costs: Costs = None,
    *,
    labels: ArrayLike | None = None,
    reject_cost: Any = None,
    undecided_label: Any = "auto",
) -> CostScorer:
    """Make a scorer of the mean cost of decisions, for model selection.

    Parameters
    ----------
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        As in :func:`expected_cost`; what decides where rows come without costs of their own.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the order of an array of costs; needed if a fold may lack one of them.
    reject_cost : float, mapping or array-like of shape (n_classes,), default=None
        Cost of a row left undecided; needed if the estimator leaves rows undecided.
    undecided_label : "auto", str or number, default="auto"
        Label of undecided rows.

    Returns
    -------
    scorer : CostScorer
        ``scorer(estimator, X, y, sample_weight=None, example_costs=None)``: the *negative* mean
        cost of ``estimator.predict(X)``, so that greater is better.

    See Also
    --------
    CostScorer : How costs of each row reach it, and the predictions.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from grayzone.metrics import make_cost_scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scores = cross_val_score(GaussianNB(), X, y, scoring=make_cost_scorer({0: 5.0, 1: 1.0}))
    >>> float(scores.mean().round(2))
    -0.24
    """
    return CostScorer(
        costs, labels=labels, reject_cost=reject_cost, undecided_label=undecided_label
    )


class CostScorer(BaseEstimator):
    """Scorer of the mean cost of decisions, made by :func:`make_cost_scorer`.

    Costs of each row come as metadata: ``set_score_request(example_costs=True)`` has
    :func:`~sklearn.model_selection.cross_validate` and searches pass them, split like rows. They
    judge the decisions and, where the estimator asks for them in `predict`
    (``set_predict_request(example_costs=True)``), make them, too.

    Parameters
    ----------
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        As in :func:`expected_cost`; what decides where rows come without costs of their own.
    labels : array-like of shape (n_classes,), default=None
        The classes, in the order of an array of costs. Costs of rows are in the order of the
        estimator's `classes_` where there are no labels.
    reject_cost : float, mapping or array-like of shape (n_classes,), default=None
        Cost of a row left undecided.
    undecided_label : "auto", str or number, default="auto"
        Label of undecided rows.

    See Also
    --------
    make_cost_scorer : Makes it, and checks what is given.
    expected_cost : The cost that it measures.

    Notes
    -----
    scikit-learn splits arrays with its folds, but no mappings: give it
    :func:`grayzone.decision.cost_matrices` of a mapping.

    Examples
    --------
    >>> import sklearn
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from grayzone import BayesDecisionClassifier
    >>> from grayzone.decision import cost_matrices
    >>> from grayzone.metrics import make_cost_scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> E = cost_matrices({0: X[:, 0], 1: 1.0}, classes=[0, 1])
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scorer = make_cost_scorer().set_score_request(example_costs=True)
    ...     clf = BayesDecisionClassifier(GaussianNB()).set_predict_request(example_costs=True)
    ...     found = cross_validate(clf, X, y, scoring=scorer, params={"example_costs": E})
    >>> float(found["test_score"].mean().round(2))
    -0.52
    """

    __metadata_request__score = {"estimator": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        costs: Costs = None,
        *,
        labels: ArrayLike | None = None,
        reject_cost: Any = None,
        undecided_label: Any = "auto",
    ) -> None:
        self.costs = costs
        self.labels = labels
        self.reject_cost = reject_cost
        self.undecided_label = undecided_label

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        example_costs: Any = None,
    ) -> float:
        """Return what :meth:`score` does."""
        return self.score(estimator, X, y, sample_weight, example_costs)

    def score(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        example_costs: Any = None,
    ) -> float:
        """Return the negative mean cost of an estimator's decisions.

        Parameters
        ----------
        estimator : estimator
            Fitted classifier.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data to predict.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        example_costs : array-like or mapping, default=None
            Costs of each row, in place of `costs`; as in :func:`expected_cost`. Passed to
            `predict` as well if the estimator requests them or, without metadata routing, takes
            them.

        Returns
        -------
        score : float
            Greater is better.
        """
        if example_costs is None:
            return -self._cost(y, estimator.predict(X), sample_weight, costs=self.costs)
        _check_split(example_costs, y)
        labels = self.labels
        if labels is None and not isinstance(example_costs, Mapping):
            labels = as_numpy(estimator.classes_)
        decided = estimator.predict(X, **self._for_predict(estimator, example_costs))
        return -self._cost(y, decided, sample_weight, labels=labels, example_costs=example_costs)

    def _cost(self, y: Any, decided: Any, sample_weight: Any, **costs: Any) -> float:
        params = {
            "labels": self.labels,
            "reject_cost": self.reject_cost,
            "undecided_label": self.undecided_label,
            "sample_weight": sample_weight,
            **costs,
        }
        return expected_cost(y, decided, **params)

    def _for_predict(self, estimator: Any, example_costs: Any) -> dict[str, Any]:
        """Return what of the costs the estimator's `predict` is to be given."""
        if not get_config()["enable_metadata_routing"]:
            last = estimator
            while isinstance(last, Pipeline):
                last = last.steps[-1][1]
            takes = "example_costs" in signature(last.predict).parameters
            return {"example_costs": example_costs} if takes else {}
        mapping = MethodMapping().add(caller="score", callee="predict")
        router = MetadataRouter(owner=self).add(estimator=estimator, method_mapping=mapping)
        params = {"example_costs": example_costs}
        return dict(router.route_params(caller="score", params=params)["estimator"]["predict"])

    # What scikit-learn's TunedThresholdClassifierCV asks scorers for, to score all thresholds at
    # once.
    _score_func = staticmethod(expected_cost)
    _sign = -1

    @property
    def _kwargs(self) -> dict[str, Any]:
        return dict(self.get_params(deep=False))

    def _accept_sample_weight(self) -> bool:
        """Tell scikit-learn's searches, which ask, that weights are welcome."""
        return True


def _check_split(example_costs: Any, y: Any) -> None:
    """Check that a mapping was split with the rows."""
    if not isinstance(example_costs, Mapping):
        return
    rows = len(as_numpy(y))
    for label, costs in example_costs.items():
        if np.ndim(costs) and len(costs) != rows:
            raise ValueError(
                f"example_costs[{label!r}] has costs of {len(costs)} rows; expected {rows}. "
                "scikit-learn splits arrays with its folds, but no mappings: give it the array "
                "grayzone.decision.cost_matrices(example_costs, classes)."
            )
