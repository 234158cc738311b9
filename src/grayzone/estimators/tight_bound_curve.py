"""A ROC curve whose every point is a model trained for its own ratio of costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from grayzone.numerics.checks import as_labels, as_numpy

Array = Any


class CostRoc(NamedTuple):
    """Points of the curve, ordered by the cost of a miss, and the models they belong to."""

    fpr: Array
    tpr: Array
    asymmetries: Array
    models: list[Any]


def roc_by_costs(
    estimator: Any,
    X: Array,
    y: Array,
    *,
    asymmetries: Any = 21,
    X_test: Array | None = None,
    y_test: Array | None = None,
    sample_weight: Array | None = None,
) -> CostRoc:
    r"""Train a model for each asymmetry of costs, as in §4.1 and Figure 6 of Le Roux (2017).

    One model with a zone is made for its cone of the ROC curve, the slopes that thresholds inside
    the zone have (§1 of Hérault & Grandvalet, 2007): there its points are good ones, and beyond it
    they are not. Here each point has a model, and with it a zone, of its own.

    All asymmetries are one path, as Bach et al. (2006) have it: where the estimator has
    ``warm_start``, each fit starts from the one before, whose solution is next to its own.

    Parameters
    ----------
    estimator : estimator
        A classifier of two classes with the parameter ``costs``; it is cloned. With
        :class:`grayzone.TightBoundLogisticRegression` points are policies, with
        :class:`grayzone.TruncatedLogisticRegression` thresholds in zones: give ``zone`` as a
        half-width, which goes where the threshold goes, and not as a pair, which stays.
    X, y : array-like
        Training data.
    asymmetries : int or array-like of floats, default=21
        Costs a of missing a positive, strictly between 0 and 1; a false positive costs 1 - a. An
        integer is that many on a logistic scale.
    X_test, y_test : array-like, default=None
        Data on which the rates are measured; the training data by default.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each training row.

    Returns
    -------
    curve : CostRoc
        ``fpr``, ``tpr``, ``asymmetries`` and the fitted ``models``.

    See Also
    --------
    best_f_measure : The asymmetry whose models have the largest F-measure.
    TightBoundLogisticRegression : The models themselves.

    References
    ----------
    Le Roux, N. (2017). Tighter bounds lead to improved classifiers. ICLR.

    Hérault, R. & Grandvalet, Y. (2007). Sparse probabilistic classifiers. ICML.

    Bach, F. R., Heckerman, D. and Horvitz, E. (2006). Considering cost asymmetry in learning
    classifiers. Journal of Machine Learning Research.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from grayzone import TightBoundLogisticRegression
    >>> from grayzone import roc_by_costs
    >>> X, y = make_classification(random_state=0)
    >>> curve = roc_by_costs(TightBoundLogisticRegression(), X, y, asymmetries=[0.1, 0.5, 0.9])
    >>> bool(curve.tpr[0] <= curve.tpr[-1]), len(curve.models)
    (True, 3)

    >>> from grayzone import TruncatedLogisticRegression
    >>> zones = roc_by_costs(TruncatedLogisticRegression(zone=0.5), X, y, asymmetries=[0.2, 0.8])
    >>> [tuple(round(p, 2) for p in model.zone_) for model in zones.models]
    [(0.71, 0.87), (0.13, 0.29)]
    """
    if (X_test is None) != (y_test is None):
        raise ValueError("Give X_test and y_test together, or neither of them.")
    values = checked_asymmetries(asymmetries, _logistic_scale)
    labels = as_labels(y, "y")
    classes = np.unique(labels)
    if classes.size != 2:
        raise ValueError(f"A ROC curve is for two classes; y has {classes.size}.")
    where, truth = (X, labels) if X_test is None else (X_test, as_labels(y_test, "y_test"))
    unknown = np.setdiff1d(truth, classes)
    if unknown.size:
        raise ValueError(
            f"y_test has the label {unknown[0]!r}, which is none of the classes {classes.tolist()}."
        )
    positive = truth == classes[1]
    if not (positive.any() and (~positive).any()):
        raise ValueError("The data that rates are measured on must have rows of both classes.")
    models, rates = [], []
    for model in cost_path(estimator, X, y, classes, values, sample_weight):
        decided = model.predict(where) == classes[1]
        rates.append((decided[~positive].mean(), decided[positive].mean()))
        models.append(model)
    fpr, tpr = np.array(rates).T
    return CostRoc(fpr, tpr, values, models)


def cost_path(
    estimator: Any, X: Array, y: Array, classes: Array, values: Array, sample_weight: Array | None
) -> Iterator[Any]:
    """Yield a model for each asymmetry, fitted from the one before where that can be a start."""
    warm, model = "warm_start" in estimator.get_params(deep=False), clone(estimator)
    for a in values.tolist():
        model = deepcopy(model) if warm else clone(estimator)
        costs = {classes[0]: 1.0 - a, classes[1]: a}
        model.set_params(costs=costs, **({"warm_start": True} if warm else {}))
        model.fit(X, y, sample_weight=sample_weight)
        if warm:
            model.set_params(warm_start=estimator.warm_start)
        yield model


def checked_asymmetries(given: Any, spread: Callable[[int], Array]) -> Array:
    """Return costs of a miss in ascending order; so many, where a number of them is given."""
    values = as_numpy(given).astype(np.float64)
    if values.ndim == 0:
        if not (np.isfinite(values) and values >= 1 and values == int(values)):
            raise ValueError(f"asymmetries must be an integer >= 1 or numbers; got {given!r}.")
        values = spread(int(values))
    if values.ndim != 1 or not values.size or not np.all((values > 0.0) & (values < 1.0)):
        raise ValueError(f"asymmetries must lie strictly between 0 and 1; got {given!r}.")
    return np.sort(values)


def _logistic_scale(number: int) -> Array:
    return 1.0 / (1.0 + np.exp(-np.linspace(-5.0, 5.0, number)))
