r"""The F-measure, maximised through costs.

With costs :math:`1 + \beta^2 - t` of a miss and :math:`t` of a false positive, the classifier of
least cost has an F-measure of at least t if and only if there is one: at :math:`t = F_\beta^*` it
is that of the largest F-measure (Parambath et al., 2014). So the best of a path of
models, one for each asymmetry of costs, comes as near to it as the path is fine and as costs are
minimised; no threshold has to be moved.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from grayzone.estimators._base import rows_of
from grayzone.estimators.tight_bound_curve import checked_asymmetries, cost_path
from grayzone.numerics.checks import Array, as_labels, check_number, check_weights
from grayzone.sources.open import in_blocks

__all__ = ["FMeasureChoice", "best_f_measure"]


class FMeasureChoice(NamedTuple):
    """The model of the asymmetry that was chosen, and the F-measures of all."""

    model: Any
    asymmetry: float
    f_measure: float
    asymmetries: Array
    f_measures: Array


def best_f_measure(
    estimator: Any,
    X: Array,
    y: Array,
    *,
    beta: float = 1.0,
    asymmetries: Any = 21,
    cv: Any = None,
    sample_weight: Array | None = None,
) -> FMeasureChoice:
    r"""Train for the asymmetry of costs whose models have the largest F-measure on held-out rows.

    .. math:: F_\beta = \frac{(1+\beta^2)\,TP}{(1+\beta^2)\,TP + \beta^2\,FN + FP}

    is that of all held-out decisions together, each taken by a model that has not seen the row.
    Along the asymmetries fits start from each other, where the estimator has ``warm_start``.

    Parameters
    ----------
    estimator : estimator
        A classifier of two classes with the parameter ``costs``, such as
        :class:`grayzone.TightBoundLogisticRegression`; it is cloned. ``classes_[1]`` is positive.
    X, y : array-like
        Training data, neither blocks nor Dask.
    beta : float, default=1.0
        How many times more recall counts than precision.
    asymmetries : int or array-like of floats, default=21
        Costs a of missing a positive, strictly between 0 and 1; a false positive costs 1 - a. An
        integer is that many for F-measures t from 0 to 1, :math:`a = 1 - t/(1+\beta^2)`: there are
        no others that a largest F-measure could have.
    cv : int, cross-validation splitter or iterable, default=None
        Folds to hold out, which share out all rows or some; None is five.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row, in fits and F-measures.

    Returns
    -------
    choice : FMeasureChoice
        ``model``, fitted to all rows with the costs of the ``asymmetry`` chosen, the ``f_measure``
        it was chosen by (which flatters a little: it is the largest of several), ``asymmetries``
        and their ``f_measures``.

    See Also
    --------
    roc_by_costs : The rates of models along the same path.

    References
    ----------
    Parambath, S. P., Usunier, N. and Grandvalet, Y. (2014). Optimizing F-measures by cost-sensitive
    classification. NeurIPS.

    Bach, F. R., Heckerman, D. and Horvitz, E. (2006). Considering cost asymmetry in learning
    classifiers. Journal of Machine Learning Research.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from grayzone import TightBoundLogisticRegression, best_f_measure
    >>> X, y = make_classification(1000, weights=[0.9], class_sep=0.7, random_state=0)
    >>> choice = best_f_measure(TightBoundLogisticRegression(), X, y, asymmetries=7)
    >>> bool(choice.f_measure > choice.f_measures[0]), choice.model.costs[1] > 0.5
    (True, True)
    """
    if in_blocks(X):
        raise ValueError(
            f"best_f_measure takes no blocks of rows; got {type(X).__name__}. Choose by a sample."
        )
    check_number("beta", beta, above=0.0)
    values = checked_asymmetries(asymmetries, lambda number: _of_f_measures(number, beta))
    labels = as_labels(y, "y")
    classes = np.unique(labels)
    if classes.size != 2:
        raise ValueError(f"An F-measure is for two classes; y has {classes.size}.")
    weight, positive = check_weights(sample_weight, len(labels)), labels == classes[1]
    counts = np.zeros((len(values), 3))
    for train, test in check_cv(cv, labels, classifier=True).split(np.empty(len(labels)), labels):
        if np.unique(labels[train][weight[train] > 0.0]).size < 2:
            raise ValueError("Each fold of cv needs training rows of both classes.")
        given = None if sample_weight is None else weight[train]
        path = cost_path(estimator, rows_of(X, train), rows_of(y, train), classes, values, given)
        for k, model in enumerate(path):
            decided = as_labels(model.predict(rows_of(X, test)), "predictions") == classes[1]
            counts[k] += _counted(decided, positive[test], weight[test])
    f_measures = _f_measure(counts, beta)
    best = int(np.argmax(f_measures))
    (model,) = cost_path(estimator, X, y, classes, values[best : best + 1], sample_weight)
    return FMeasureChoice(model, float(values[best]), float(f_measures[best]), values, f_measures)


def _of_f_measures(number: int, beta: float) -> Array:
    """Costs of a miss where F-measures are even steps between 0 and 1."""
    return 1.0 - np.arange(number, 0, -1) / (number + 1) / (1.0 + beta**2)


def _counted(decided: Array, positive: Array, weight: Array) -> Array:
    """Weights of true positives, misses and false positives."""
    parts = decided & positive, ~decided & positive, decided & ~positive
    return np.array([weight[part].sum() for part in parts])


def _f_measure(counts: Array, beta: float) -> Array:
    """F-measures of counts (k, 3); 0 where nothing is positive, in truth or by decision."""
    right, missed, false = counts.T
    both = (1.0 + beta**2) * right
    all_of_them = both + beta**2 * missed + false
    return np.divide(both, all_of_them, out=np.zeros(len(counts)), where=all_of_them > 0.0)
