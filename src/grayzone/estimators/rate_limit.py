"""A classifier whose rates keep their limits, at a stated confidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from grayzone.decision import cost_matrices, cost_matrix, row_thresholds
from grayzone.decision.costs import Costs, threshold_of
from grayzone.decision.limits import cut_between
from grayzone.estimators._base import rows_of
from grayzone.estimators._draws import random_state_of
from grayzone.estimators._limits import (
    LIMITS,
    allowed_thresholds,
    chosen_threshold,
    limits_of,
    range_of,
    rates_of,
)
from grayzone.estimators._wrapper import DecidingWrapper
from grayzone.estimators.facts import unwrapped
from grayzone.numerics.backend import is_single, moved
from grayzone.numerics.checks import (
    all_or_nothing,
    as_labels,
    as_numpy,
    check_weights,
)
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.pitfalls import Pitfall
from grayzone.sources.open import refuse_blocks
from grayzone.sources.split import check_fraction, split_rows

__all__ = ["RateLimitClassifier"]

Array = Any

_FEWEST_SCORES = 30  # that differ in a fold


class RateLimitClassifier(DecidingWrapper):
    r"""Make any classifier keep limits on its rates, at a stated confidence.

    Part of the rows is held out of the fit. From their scores comes a threshold such that

    .. math:: P(\text{a limit is broken on new rows}) \le 1 - \text{confidence},

    for rows that are drawn as the held-out ones are, whatever the classifier and the distribution:
    by order statistics of the scores of a class for a false positive rate or a recall (the
    Neyman–Pearson umbrella [1]_), by a fixed sequence of exact binomial tests for a precision.
    Several limits share the error, and so do several groups where it is a precision: the strictest
    of the thresholds that keep another rate in each group keeps it in all. Of the thresholds that
    keep all limits the one nearest to the cheapest is taken: rule (1) of Hérault & Grandvalet
    (2007) for probabilities, the least mean cost of the held-out rows for other scores. Without
    `costs` it is the one that decides for most rows, or for fewest where only a recall is asked
    for.

    The statement is about the classifier that is kept: it is not fitted again to all rows. With
    `cv` it is, and no row is lost to it; what holds then is told there.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba`` or ``decision_function``. It is cloned and fitted to the
        rows that are not held out; of a :class:`~sklearn.frozen.FrozenEstimator` all rows given to
        `fit` are held-out ones, which its own fit must not have seen.
    max_fpr : float, default=None
        Largest share of negative rows that are taken for positive ones.
    min_recall : float, default=None
        Smallest share of positive rows that are found.
    min_precision : float, default=None
        Smallest share of positive rows among those that are taken for them.
    confidence : float, default=0.95
        Probability with which all limits hold.
    costs : None, mapping or array-like of shape (2, 2), default=None
        What errors cost, for the choice among thresholds that keep the limits: a mapping
        ``{label: cost of misclassifying it}`` or an array ``cost[true, predicted]``. Two classes.
    positive : label, default=None
        The class that limits are about, against all others; ``classes_[1]`` of two classes.
    validation_fraction : float, default=0.3
        Share of the rows of each class that is held out.
    cv : int, cross-validation splitter or iterable, default=None
        Folds, of which each row is in one: the threshold comes from scores of all rows, by
        classifiers fitted to the other folds, and the classifier from all rows. More is made of few
        rows, and nothing is proven: the limits hold with the confidence as far as the last fit
        scores new rows as those of the folds score theirs, which no number of rows ensures for
        every classifier. In simulations linear models and naive Bayes broke them less often than
        stated (1 to 4 % at a confidence of 95 %), trees more often (10 %): few different
        scores in a fold are an error. None: rows are held out, which needs no such assumption.
    random_state : int, RandomState instance or None, default=None
        Draws the held-out rows; None is the same as 0.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    threshold_ : float
        Rows whose score for the positive class is at least that are decided for it: the probability
        or, without ``predict_proba``, the decision function.
    threshold_range_ : tuple of two floats
        The least and the largest threshold that keep all limits.
    rates_ : dict
        "fpr", "recall" and "precision" of the held-out rows at `threshold_`.
    n_held_out_ : int
        Held-out rows; with `cv` all.

    See Also
    --------
    TightBoundLogisticRegression : Limits inside the training of a linear model.
    sklearn.model_selection.TunedThresholdClassifierCV : A threshold by cross-validation, without a
        statement about new rows.

    Notes
    -----
    Held-out rows are counted, whatever they weigh: weights are for the classifier's fit; rows of
    weight zero are left out. Equal scores are decided alike, which keeps limits and may leave room
    below them. They are held out by class or, for a precision, whatever their class: it is about
    rows as they come.

    References
    ----------
    .. [1] X. Tong, Y. Feng and J. J. Li (2018). Neyman–Pearson classification algorithms and NP
       receiver operating characteristics. Science Advances.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from grayzone import RateLimitClassifier
    >>> X, y = make_classification(4000, weights=[0.9], random_state=0)
    >>> clf = RateLimitClassifier(LogisticRegression(), max_fpr=0.02, random_state=0)
    >>> clf.fit(X[:2000], y[:2000]).rates_["fpr"] < 0.02
    True
    >>> bool(clf.predict(X[2000:])[y[2000:] == 0].mean() < 0.02)
    True
    """

    def __init__(
        self,
        estimator: Any,
        max_fpr: float | None = None,
        min_recall: float | None = None,
        min_precision: float | None = None,
        confidence: float = 0.95,
        *,
        costs: Costs = None,
        positive: Any = None,
        validation_fraction: float = 0.3,
        cv: Any = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.max_fpr = max_fpr
        self.min_recall = min_recall
        self.min_precision = min_precision
        self.confidence = confidence
        self.costs = costs
        self.positive = positive
        self.validation_fraction = validation_fraction
        self.cv = cv
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, groups: Any = None, **fit_params: Any) -> Self:
        """Fit the classifier, and find a threshold that keeps the limits.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, as the wrapped classifier takes it, but neither blocks nor Dask.
        y : array-like of shape (n_samples,)
            Class labels.
        groups : array-like of shape (n_samples,), default=None
            Group of each row: each limit is kept in every group.
        **fit_params : dict
            More parameters for the classifier's `fit`, such as `sample_weight`; of those with an
            entry for each row, it gets the entries of its rows.

        Returns
        -------
        self : RateLimitClassifier
            The fitted object.
        """
        limits = self._checked_limits()
        refuse_blocks(self, X, "Fit the classifier to blocks, and freeze it.")
        self._check_target(y)
        labels = as_labels(y, "y")
        check_consistent_length(X, labels, groups)
        if not labels.size:
            raise ValueError(
                "Found array with 0 sample(s) (y is empty) while a minimum of 1 is required by "
                f"{type(self).__name__}."
            )
        used = np.flatnonzero(check_weights(fit_params.get("sample_weight"), len(labels)) > 0)
        train, judged = self._split(labels, used, by_class="min_precision" not in limits)
        estimator = self._fitted_to(train, X, y, fit_params)
        scored = hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")
        if not (scored and hasattr(estimator, "classes_")):
            raise TypeError(
                f"{type(self).__name__} needs a classifier with predict_proba or "
                f"decision_function; {type(estimator).__name__} is none."
            )
        classes = as_numpy(estimator.classes_)
        self._positive = self._checked_positive(classes)
        self._expose_inner(estimator, classes, X)
        if self.cv is None:
            scores = as_numpy(self._scores(self._responses(rows_of(X, judged), "fit")))
        else:
            scores = self._cross_fitted(used, X, y, labels[used], fit_params)
        scores = scores.astype(np.float64)
        positive = labels[judged] == classes[self._positive]
        groups = np.zeros(len(labels)) if groups is None else as_labels(groups, "groups")
        every, (of_groups, error) = np.unique(groups[used]), (groups[judged], 1.0 - self.confidence)
        allowed = allowed_thresholds(limits, scores, positive, of_groups, every, error)
        self.threshold_range_ = range_of(allowed, limits)
        best = self._cheapest(scores, positive, classes)
        self.threshold_ = chosen_threshold(allowed, limits, best)
        self.rates_ = rates_of(scores >= self.threshold_, positive)
        self.n_held_out_ = len(scores)
        return self

    def _checked_limits(self) -> dict[str, float]:
        limits = limits_of(self)
        if not limits:
            raise ValueError(f"Give at least one limit: {', '.join(LIMITS)}.")
        check_fraction(self.validation_fraction)
        return limits

    def _checked_positive(self, classes: Array) -> int:
        """Return the place of the class that limits are about."""
        if self.positive is None:
            if len(classes) != 2:
                raise ValueError(
                    "Only binary classification is supported. The type of the target is "
                    f"multiclass: name one of the {len(classes)} classes as `positive`."
                )
            return 1
        if self.positive not in classes.tolist():
            raise ValueError(
                f"positive={self.positive!r} is not among the classes {classes.tolist()}. "
                f"{Pitfall.ORDER_OF_CLASSES}"
            )
        return classes.tolist().index(self.positive)

    def _split(self, labels: Array, used: Array, by_class: bool) -> tuple[Array, Array]:
        """Return the numbers of the rows to fit to, and of those whose scores set the threshold."""
        frozen = isinstance(self.estimator, FrozenEstimator)
        if frozen and self.cv is not None:
            raise ValueError(
                "A frozen classifier is not fitted to folds: cv must be None, and the rows given "
                f"to fit ones that its own fit has not seen. {Pitfall.ANOTHER_MODEL}"
            )
        if frozen or self.cv is not None:
            return used, used
        classes, codes = np.unique(labels[used], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                "A classifier needs at least two classes with a positive weight; got one class: "
                f"{classes.tolist()}. Rows whose sample_weight is zero are left out."
            )
        rng = random_state_of(self.random_state)
        train, out = split_rows(codes, classes, self.validation_fraction, rng, by_class)
        return used[train], used[out]

    def _fitted_to(self, rows: Array, X: Any, y: Any, fit_params: dict[str, Any]) -> Any:
        """Return a clone of the classifier, fitted to some of the rows unless it is frozen."""
        if isinstance(self.estimator, FrozenEstimator):
            return clone(self.estimator)
        n_rows = len(as_numpy(y))
        params = {name: _part_of(value, rows, n_rows) for name, value in fit_params.items()}
        params = self._routed_fit_params(params.pop("sample_weight", None), params)
        return clone(self.estimator).fit(rows_of(X, rows), rows_of(y, rows), **params)

    def _cross_fitted(
        self, used: Array, X: Any, y: Any, labels: Array, fit_params: dict[str, Any]
    ) -> Array:
        """Return scores of the rows by classifiers that have not seen them."""
        scores, times = np.empty(len(used)), np.zeros(len(used))
        for inside, outside in check_cv(self.cv, labels, classifier=True).split(used, labels):
            model = self._fitted_to(used[inside], X, y, fit_params)
            if not np.array_equal(as_numpy(model.classes_), as_numpy(self.classes_)):
                raise ValueError("Each fold of cv needs training rows of all classes.")
            responses = getattr(model, self._method)(_in_double(rows_of(X, used[outside]), model))
            scores[outside] = as_numpy(self._scores(responses))
            times[outside] += 1
            _check_different(scores[outside])
        if np.any(times != 1):
            raise ValueError(
                f"cv must hold each row out once; some are held out {int(times.max())} times, "
                f"some {int(times.min())} times."
            )
        return scores

    def _cheapest(self, scores: Array, positive: Array, classes: Array) -> float | None:
        """Return the threshold of least cost; None without costs."""
        if self.costs is None:
            return None
        if len(classes) != 2:
            raise ValueError(f"costs beside limits are for two classes; y has {len(classes)}.")
        order = [1 - self._positive, self._positive]
        matrix = cost_matrix(self.costs, classes)[np.ix_(order, order)]
        if self._method == "predict_proba":
            return threshold_of(matrix)
        return _cheapest(scores, matrix[positive.astype(int)])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.positive is None and tags.classifier_tags is not None:
            tags.classifier_tags.multi_class = False
        return tags

    def _responses(self, X: Any, caller: str) -> Array:
        """Return probabilities or, without them, decision values; (n,) or one column a class."""
        return self._respond(self._method, _in_double(X, self.estimator_), caller=caller)

    @property
    def _method(self) -> str:
        """What scores come from."""
        has = hasattr(self.estimator_, "predict_proba")
        return "predict_proba" if has else "decision_function"

    def _scores(self, responses: Array) -> Array:
        """Return what of responses is about the positive class."""
        if responses.ndim == 1:
            return responses if self._positive == 1 else -responses
        return responses[:, self._positive]

    def predict(self, X: Any, example_costs: Any = None) -> NDArray[Any]:
        """Decide for the positive class where the score reaches the threshold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.
        example_costs : array-like of shape (n_samples, 2, 2) or mapping, default=None
            What decisions about these rows cost, of two classes: ``cost[row, true, predicted]``, or
            ``{label: cost of misclassifying each row if it has that label}``. Each row then has the
            threshold of its costs, or the end of `threshold_range_` that is nearest to it:
            decisions lie between those of the two ends, and keep a false positive rate and a recall
            as these do. A precision is kept by no such rule, and costs beside it are refused.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Class labels; other rows of more than two classes get the most probable of the others.
        """
        check_is_fitted(self)
        if example_costs is not None:
            return self._decided_by_rows(X, example_costs)
        responses = self._responses(X, "predict")
        xp, k = array_namespace(responses), self._positive
        # in double precision, as when the threshold was set: it may lie close to a score
        reached = xp.astype(self._scores(responses), xp.float64) >= self.threshold_
        if self.classes_.shape[0] == 2:
            return self._labels(xp.astype(reached if k == 1 else ~reached, xp.int64))
        others = xp.concat([responses[:, :k], responses[:, k + 1 :]], axis=1)
        left = xp.argmax(others, axis=1)
        left = xp.where(left >= k, left + 1, left)
        return self._labels(xp.where(reached, xp.full_like(left, k), left))

    def _decided_by_rows(self, X: Any, example_costs: Any) -> NDArray[Any]:
        """Decide by the costs of each row, as far as the limits allow."""
        classes, k = as_numpy(self.classes_), self._positive
        if self.min_precision is not None:
            raise ValueError(
                "example_costs cannot be kept beside min_precision: what share of the rows decided "
                "for is positive depends on all their thresholds together."
            )
        if len(classes) != 2 or not hasattr(self.estimator_, "predict_proba"):
            raise ValueError(
                "example_costs are for classifiers of two classes with predict_proba: costs imply "
                "thresholds on a probability."
            )
        scores = self._scores(self._responses(X, "predict"))
        matrices = cost_matrices(example_costs, classes, scores.shape[0], some_stake=False)
        own = as_numpy(row_thresholds(matrices))
        own = np.where(np.isnan(own), self.threshold_, own if k == 1 else 1.0 - own)
        xp = array_namespace(scores)
        reached = xp.astype(scores, xp.float64) >= moved(
            np.clip(own, *self.threshold_range_), scores
        )
        return self._labels(xp.astype(reached if k == 1 else ~reached, xp.int64))


def _check_different(scores: Array) -> None:
    """Check that a fold's scores are not a few numbers, as a tree's are: its next fit has others.

    In simulations limits of trees were broken twice as often as they may be.
    """
    n_different = len(np.unique(scores))
    if n_different < min(_FEWEST_SCORES, 0.5 * len(scores)):
        raise ValueError(
            f"Cross-fitted scores are {n_different} different numbers in a fold. Those of the "
            "classifier fitted to all rows can be others, of which a threshold then says nothing: "
            "hold rows out, with cv=None."
        )


def _in_double(X: Any, model: Any) -> Any:
    """Return rows whose scores are not rounded to single precision: thresholds lie between them.

    Other libraries than NumPy do not mix precisions: there it is that of the model's own numbers.
    """
    if not is_single(X):
        return X
    if is_array_api_obj(X) and not is_numpy_array(X):
        xp, own = array_namespace(X), getattr(unwrapped(model)[0], "coef_", None)
        return X if own is None or is_single(own) else xp.astype(X, xp.float64)
    return X.astype(np.float64) if hasattr(X, "astype") else X


def _part_of(value: Any, rows: Array, n_rows: int) -> Any:
    """Return a fit parameter for some of the rows, where it has one entry a row."""
    if isinstance(value, Mapping):
        return {label: _part_of(part, rows, n_rows) for label, part in value.items()}
    shape = getattr(value, "shape", (len(value),) if isinstance(value, (list, tuple)) else ())
    return rows_of(value, rows) if shape and shape[0] == n_rows else value


def _cheapest(scores: Array, costs: Array) -> float:
    """Return the threshold of least cost; ``costs`` (n, 2) are those of either decision."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    # what it costs more to decide for the first rows; equal scores are decided alike
    more = np.append(0.0, np.cumsum((costs[:, 1] - costs[:, 0])[order]))
    ends = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1], True])
    place = int(ends[np.argmin(more[ends])])
    above = float(ordered[place - 1]) if place > 0 else np.inf
    return cut_between(above, float(ordered[place]) if place < len(ordered) else -np.inf)
