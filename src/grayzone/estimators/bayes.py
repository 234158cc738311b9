"""A probabilistic classifier that decides by the costs of its errors."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from grayzone.decision import (
    action_costs,
    adjust_prior,
    bayes_decision,
    class_prior,
    cost_matrices,
    cost_matrix,
)
from grayzone.decision.costs import Costs, has_threshold, threshold_of
from grayzone.decision.priors import class_shares
from grayzone.decision.rules import cuts_between_actions
from grayzone.estimators._contradictions import tell_contradictions
from grayzone.estimators._stakes import reach_of, warn_beyond_reach
from grayzone.estimators._undecided import MayStayUndecided
from grayzone.estimators._wrapper import DecidingWrapper
from grayzone.estimators.facts import is_on_a_line, unwrapped
from grayzone.numerics.checks import Floats, Numbers, all_or_nothing, as_numpy
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pitfalls import Pitfall
from grayzone.sources.open import refuse_blocks

__all__ = ["BayesDecisionClassifier"]


class BayesDecisionClassifier(MayStayUndecided, DecidingWrapper):
    r"""Make any probabilistic classifier decide by the costs of its errors.

    The wrapped classifier estimates :math:`p_i(x)`; `predict` returns the action of smallest
    expected cost

    .. math:: \arg\min_j \sum_i p_i(x) \, \mathrm{cost}[i, j],

    for two classes rule (1) of Hérault & Grandvalet (2007), and "undecided" where even the best
    decision is expected to cost more than `reject_cost`. Probabilities are left as they are,
    unless a `prior` moves them to other class shares, by equation (2.4) of Saerens et al. (2002).

    Parameters
    ----------
    estimator : estimator
        A classifier with `predict_proba`. It is cloned and fitted, unless it is a
        :class:`~sklearn.frozen.FrozenEstimator`.
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        What errors cost: None (every error costs 1), "balanced" (inversely proportional to class
        frequencies in `y`; for two classes the threshold is then the positive frequency), a
        mapping ``{label: cost of misclassifying it}``, or an array ``cost[true, predicted]``.
    reject_cost : float, mapping or array-like of shape (n_classes,), default=None
        Cost of staying undecided: one number, or one for each true class. None: always decide.
    undecided_label : "auto", str or number, default="auto"
        What `predict` returns for undecided rows; "auto" is -1 beside numeric labels and
        "undecided" beside strings. Used with `reject_cost` only.
    prior : None, mapping or array-like of shape (n_classes,), default=None
        Shares of the classes where decisions are made, up to a factor, if they differ from those
        of the labels (weighted as they are) that `fit` is given: ``{label: share}`` or one for
        each class. Probabilities are then those under these shares, see
        :func:`grayzone.decision.adjust_prior`. None: the shares stay.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (n_classes,)
        Class labels; the positive class of two is ``classes_[1]``.
    actions_ : ndarray of shape (n_classes,) or (n_classes + 1,)
        What `predict` can return: the classes and, with `reject_cost`, the label of "undecided".
    cost_matrix_ : ndarray of shape (n_classes, n_classes)
        The costs, ``cost[true, predicted]``.
    threshold_ : float or None
        Decision threshold on the probability of the positive class; None with more than two
        classes, with `reject_cost`, or if an error is cheaper than the right decision.
    n_features_in_ : int
        Number of features seen by the classifier, if it tells.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen by the classifier, if it tells.

    See Also
    --------
    grayzone.decision.bayes_decision : The rule on its own.
    sklearn.model_selection.FixedThresholdClassifier : A threshold given by hand, two classes.
    sklearn.model_selection.TunedThresholdClassifierCV : A threshold found by cross-validation.

    Notes
    -----
    `score` is the accuracy, in which undecided rows count as errors; see
    :func:`grayzone.metrics.expected_cost` and :func:`grayzone.metrics.selective_risk`.

    A classifier that was fitted for a gray zone has faithful probabilities inside it only; `fit`
    warns if these costs, or this prior, put a decision elsewhere.

    `fit` is all or nothing: if it raises, the object is as it was before.

    References
    ----------
    M. Saerens, P. Latinne and C. Decaestecker, "Adjusting the outputs of a classifier to new a
    priori probabilities: a simple procedure", Neural Computation, 2002.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from grayzone import BayesDecisionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression())
    >>> clf = BayesDecisionClassifier(model, costs={0: 10.0, 1: 1.0}).fit(X, y)
    >>> round(clf.threshold_, 3)
    0.909
    >>> wary = BayesDecisionClassifier(model, reject_cost=0.1).fit(X, y)
    >>> wary.actions_
    array([ 0,  1, -1])
    >>> int((wary.predict(X) == -1).sum())
    53

    A fitted classifier, where the costs are others and a class has become rarer:

    >>> from sklearn.frozen import FrozenEstimator
    >>> today = BayesDecisionClassifier(
    ...     FrozenEstimator(clf.estimator_), costs={0: 2.0, 1: 1.0}, prior={0: 0.1, 1: 0.9}
    ... )
    >>> int((today.fit(X, y).predict(X) == 0).sum()), int((clf.predict(X) == 0).sum())
    (200, 246)

    Costs of each row, such as the amount of a loan, decide in place of the others:

    >>> rows = clf.predict(X, example_costs={0: X[:, 3], 1: 100.0})
    >>> int((rows == 0).sum())
    227
    """

    # It is the classifier that requests weights, unless this object is told to for its own sake.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sample_weight": False}

    def __init__(
        self,
        estimator: Any,
        costs: Costs = None,
        reject_cost: Any = None,
        undecided_label: Any = "auto",
        prior: Any = None,
    ) -> None:
        self.estimator = estimator
        self.costs = costs
        self.reject_cost = reject_cost
        self.undecided_label = undecided_label
        self.prior = prior

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the classifier and work out the costs of its decisions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, as the wrapped classifier takes it, but neither blocks nor Dask: fit
            the classifier to those, and wrap it in a :class:`~sklearn.frozen.FrozenEstimator`.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, passed to the classifier's `fit` and used for the class frequencies of
            ``costs="balanced"`` and of a `prior`. With metadata routing enabled it is the
            classifier that requests them, as in
            :class:`~sklearn.model_selection.FixedThresholdClassifier`.
        **fit_params : dict
            More parameters for the classifier's `fit`.

        Returns
        -------
        self : BayesDecisionClassifier
            The fitted object.
        """
        refuse_blocks(
            self,
            X,
            "Fit the classifier to blocks first; then wrap it in sklearn.frozen.FrozenEstimator, "
            "and give this one a sample of the rows, for the class frequencies.",
        )
        self._check_target(y)
        params = self._routed_fit_params(sample_weight, fit_params)
        sample_weight = params.get("sample_weight", sample_weight)  # which may have another name
        estimator = clone(self.estimator).fit(X, y, **params)
        if not hasattr(estimator, "predict_proba"):
            raise TypeError(
                f"{type(self).__name__} needs a classifier with predict_proba, which "
                f"{type(estimator).__name__} lacks; "
                "sklearn.calibration.CalibratedClassifierCV can provide it."
            )
        classes = as_numpy(estimator.classes_)
        self._set_decision(classes, y, sample_weight)
        self._set_rejection(classes)
        self._expose_inner(estimator, self.actions_, X)
        self._warn_beyond_zone()
        self._warn_on_a_line()
        tell_contradictions(self, inside=estimator, depth=4)
        return self

    def _set_decision(self, classes: Any, y: Any, sample_weight: Any) -> None:
        """Set costs and class shares; they stay on the host, wherever the data live."""
        self._priors = None
        prior = None
        if isinstance(self.costs, str) or self.prior is not None:
            prior = class_prior(y, classes, sample_weight)
        if self.prior is not None:
            seen, prior = prior, class_shares(self.prior, classes)
            self._priors = class_shares(seen, classes, "y's shares").tolist(), prior.tolist()
        self._costs = cost_matrix(self.costs, classes, prior).tolist()

    def _warn_beyond_zone(self) -> None:
        """Warn where decisions rest on probabilities that a zoned classifier has not fitted."""
        zone = reach_of(unwrapped(self.estimator_)[0])
        if len(self._costs) > 2 or zone is None:
            return
        cuts = cuts_between_actions(self._costs, self._reject_costs)
        if self._priors is not None:
            cuts = adjust_prior(cuts, *reversed(self._priors))
        beyond = [cut for cut in cuts if not zone[0] <= cut <= zone[1]]
        if beyond:
            warnings.warn(
                f"Decisions change at a probability of {beyond[0]:.3g}, outside the zone "
                f"({zone[0]:.3g}, {zone[1]:.3g}) that the classifier was fitted for, where its "
                "probabilities only say that they are beyond it. Fit it with these costs, with a "
                f"wider zone, or with zone=None. {Pitfall.BEYOND_THE_ZONE}",
                UserWarning,
                stacklevel=4,
            )

    def _warn_on_a_line(self) -> None:
        """Warn where a sigmoid takes all scores of a zoned classifier for those of one line."""
        model = unwrapped(self.estimator_)[0]
        zone = getattr(model, "zone_", None)
        straight = zone is None or (
            zone == (0.0, 1.0) if isinstance(zone, tuple) else min(zone) == 1.0
        )
        if is_on_a_line(self.estimator_) and not straight:
            warnings.warn(
                f"CalibratedClassifierCV(method='sigmoid') is for scores whose log-odds are one "
                f"straight line; those of {type(model).__name__} are straight in its zone only. "
                "Its own probabilities need no calibration there: leave the calibration out, or "
                "take method='temperature' or 'isotonic', or zone=None. "
                f"{Pitfall.BEYOND_THE_ZONE}",
                UserWarning,
                stacklevel=4,
            )

    def predict(self, X: Any, example_costs: Any = None) -> NDArray[Any]:
        """Return the action of smallest expected cost for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.
        example_costs : array-like of shape (n_samples, n_classes, n_classes) or mapping, \
                default=None
            What decisions about these rows cost, in place of `costs`: ``cost[row, true,
            predicted]``, or ``{label: cost of misclassifying each row if it has that label}``. What
            staying undecided costs remains `reject_cost`.

        Returns
        -------
        actions : ndarray of shape (n_samples,)
            Class labels or the label of "undecided".
        """
        proba = self._proba(X, caller="predict")
        costs = self._costs_for(proba, example_costs)
        return self._labels(bayes_decision(proba, costs, reject_cost=self._reject_costs))

    def expected_costs(self, X: Any, example_costs: Any = None) -> Numbers:
        """Return the expected cost of every action for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.
        example_costs : array-like of shape (n_samples, n_classes, n_classes) or mapping, \
                default=None
            Costs of these rows, in place of `costs`; as in `predict`.

        Returns
        -------
        expected : ndarray of shape (n_samples, n_actions)
            Expected costs, one column for each of `actions_`.
        """
        proba = self._proba(X, caller="expected_costs")
        costs = self._costs_for(proba, example_costs)
        return action_costs(proba, costs, reject_cost=self._reject_costs)

    def _costs_for(self, proba: Any, example_costs: Any) -> Any:
        """Return the costs of rows with these probabilities, or those that all rows share."""
        if example_costs is None:
            return self._costs
        classes = as_numpy(self.classes_)
        matrices = cost_matrices(example_costs, classes, proba.shape[0], some_stake=False)
        if len(classes) == 2:
            shares = None if self._priors is None else (self._priors[1], self._priors[0])
            warn_beyond_reach(unwrapped(self.estimator_)[0], matrices, shares)
        return matrices

    def _proba(self, X: Any, *, caller: str) -> Any:
        proba = super()._proba(X, caller=caller)
        return proba if self._priors is None else adjust_prior(proba, *self._priors)

    def _log_proba(self, X: Any) -> Any:
        if self._priors is None:
            return super()._log_proba(X)
        proba = self._proba(X, caller="predict_log_proba")
        with np.errstate(divide="ignore"):
            return array_namespace(proba).log(proba)

    @property
    def cost_matrix_(self) -> Floats:
        """The costs, ``cost[true, predicted]``."""
        self._fitted("cost_matrix_")
        return np.asarray(self._costs)

    @property
    def threshold_(self) -> float | None:
        """Decision threshold on the probability of the positive class; None where there is none."""
        self._fitted("threshold_")
        matrix = self.cost_matrix_
        binary = len(matrix) == 2 and self._reject_costs is None
        return threshold_of(matrix) if binary and has_threshold(matrix) else None
