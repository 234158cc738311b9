"""Several kinds of models that decide together, and what their decisions will cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import check_cv
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from grayzone.decision import bayes_decision, class_prior, cost_matrix
from grayzone.decision.costs import Costs, has_threshold, threshold_of
from grayzone.estimators._base import rows_of
from grayzone.estimators._callbacks import CallbackSupportMixin, fit_progress, with_callbacks
from grayzone.estimators._columns import columns_of
from grayzone.estimators._html import FittedSummary
from grayzone.estimators._members import MEMBERS, Answer, Member, Rows, stratified_folds
from grayzone.estimators._undecided import MayStayUndecided
from grayzone.numerics.checks import Floats, all_or_nothing, as_numpy, check_weights
from grayzone.solvers.stack import Stack, calibrate, fit_stack, log_scores
from grayzone.sources.open import refuse_blocks

Array = Any


class DecisionEnsembleClassifier(
    CallbackSupportMixin, MayStayUndecided, FittedSummary, ClassifierMixin, BaseEstimator
):
    r"""Models of several kinds, stacked for decisions on a table.

    Each member says what it thinks of rows that it has not seen: by common folds, or out of bag.
    Its log-odds are calibrated by a sigmoid (Platt), and the calibrated ones stacked,

    .. math:: \log p(x) = \sum_m w_m \log \hat p_m(x) + b + \mathrm{const}, \qquad w \ge 0,

    by maximum likelihood with a ridge towards equal weights. Decisions are those of least expected
    cost. The members are, in this order: logistic regression, a random forest, logistic regression
    with an RBF kernel, small boosted trees, extremely random trees, and logistic regression on
    splines.

    What the decisions will cost is estimated with calibration and stacking repeated on all folds
    but one, for the rows of that one.

    Parameters
    ----------
    members : "auto" or sequence, default="auto"
        Names of the members above ("logistic-regression", "random-forest", "kernel-logistic",
        "boosting", "extra-trees", "splines"), classifiers with `predict_proba` of your own, or
        pairs of a name and such a classifier. These get the data as they are.
    costs : None, "balanced", mapping or array-like of shape (n_classes, n_classes), default=None
        What errors cost: None (every error costs 1), "balanced", a mapping ``{label: cost of
        misclassifying it}``, or an array ``cost[true, predicted]``. The model itself does not
        depend on them.
    reject_cost : float, mapping or array-like of shape (n_classes,), default=None
        Cost of staying undecided; None: always decide.
    undecided_label : "auto", str or number, default="auto"
        What `predict` returns for undecided rows; "auto" is -1 beside numeric labels and
        "undecided" beside strings.
    cv : int or cross-validation splitter, default=5
        The common folds; fewer where a class has fewer rows.
    n_jobs : int or None, default=None
        Fits at a time; -1 uses all cores.
    random_state : int, RandomState instance or None, default=0
        Draws the folds and the forests.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels; the positive class of two is ``classes_[1]``.
    members_ : dict
        The fitted members by name, for labels that are places in `classes_`.
    settings_ : dict
        Parameters that were chosen for the members, by name.
    weights_ : ndarray of shape (n_members,)
        What the members' calibrated log-odds weigh.
    intercept_ : ndarray of shape (n_classes,)
        What is added to them; that of the first class is zero.
    kkt_residual_ : float
        Certificate of the weights: the largest slope along which the mean log-loss still falls.
    left_out_ : dict
        Members that could not take these data, with the reason.
    cost_matrix_ : ndarray of shape (n_classes, n_classes)
        ``cost[true, predicted]``.
    threshold_ : float or None
        Decision threshold on the probability of the positive class, where there is one.
    actions_ : ndarray of shape (n_classes,) or (n_classes + 1,)
        What `predict` can return.
    cross_fitted_proba_ : ndarray of shape (n_samples, n_classes)
        Probabilities of the training rows by models, calibrations and weights that had not seen
        them.
    cost_, cost_error_ : float
        Mean cost of the decisions that follow from those, and its standard error.
    member_costs_ : dict
        The same mean cost if each member decided alone, calibrated.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has names that are all strings.

    See Also
    --------
    BayesDecisionClassifier : Any one classifier, deciding by costs.

    Notes
    -----
    The tables may hold categories (strings, categorical columns) and gaps.

    References
    ----------
    L. Breiman, "Stacked regressions", Machine Learning, 1996.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from grayzone import DecisionEnsembleClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> members = ["logistic-regression", "random-forest"]
    >>> clf = DecisionEnsembleClassifier(members, costs={0: 5.0, 1: 1.0}).fit(X, y)
    >>> list(clf.members_), clf.cost_ < 0.1
    (['logistic-regression', 'random-forest'], True)
    """

    def __init__(
        self,
        members: Any = "auto",
        *,
        costs: Costs = None,
        reject_cost: Any = None,
        undecided_label: Any = "auto",
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.members = members
        self.costs = costs
        self.reject_cost = reject_cost
        self.undecided_label = undecided_label
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Array, y: Array = None, **fit_params: Any) -> Self:
        """Fit the members, calibrate and stack them; on any error the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Training data; tables may have categories and gaps.
        y : array-like of shape (n_samples,)
            Class labels.
        **fit_params : dict
            ``sample_weight``, the weights of the rows.

        Returns
        -------
        self : DecisionEnsembleClassifier
            The fitted estimator.
        """
        refuse_blocks(self, X, "Fit it to a sample of the rows.")
        X, labels = self._read(X, y)
        weight = self._weight(fit_params, len(labels))
        if not np.all(weight > 0.0):
            taking_part = np.flatnonzero(weight > 0.0)
            X, labels, weight = rows_of(X, taking_part), labels[taking_part], weight[taking_part]
        codes = self._encode(labels)
        self._set_decision(codes, weight)
        rows = self._rows(X, codes, weight)
        able, self.left_out_ = _able(_members(self.members), X)
        answers: list[Answer] = []
        with fit_progress(self, "member", len(able), X=X, y=y) as report:
            for member in able:
                answers.append(member.answer(rows))
                if report is not None and report(None, member=member.name):
                    break
        scores = np.stack([log_scores(answer.proba) for answer in answers])
        self._combine(answers, scores, rows)
        self._account(answers, scores, rows)
        return self

    def _read(self, X: Array, y: Array) -> tuple[Array, NDArray[Any]]:
        """Check the data."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        X = self._checked(X, reset=True)
        labels = column_or_1d(as_numpy(y), warn=True)
        check_classification_targets(labels)
        if len(labels) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and y {len(labels)} labels.")
        return X, labels

    def _encode(self, labels: NDArray[Any]) -> NDArray[np.intp]:
        """Find the classes, and return labels as places among them."""
        self.classes_, codes = np.unique(labels, return_inverse=True)
        counts = np.bincount(codes)
        if len(counts) < 2:
            raise ValueError(
                "A classifier needs at least two classes with a positive sample_weight; got one "
                f"class: {self.classes_.tolist()}."
            )
        if len(counts) == 2 and counts.min() < 2:
            rare = self.classes_[counts.argmin()].tolist()
            raise ValueError(f"The class {rare!r} has one row; folds need at least two.")
        return codes

    def _checked(self, X: Array, reset: bool) -> Array:
        if columns_of(X) is not None:
            _check_feature_names(self, X, reset=reset)
            _check_n_features(self, X, reset=reset)
            return X
        return validate_data(
            self, X, accept_sparse="csr", ensure_all_finite="allow-nan", reset=reset
        )

    def _weight(self, fit_params: dict[str, Any], n_rows: int) -> Floats:
        unknown = sorted(set(fit_params) - {"sample_weight"})
        if unknown:
            raise TypeError(f"fit takes sample_weight beside X and y; got {', '.join(unknown)}.")
        return check_weights(fit_params.get("sample_weight"), n_rows)

    def _set_decision(self, codes: Array, weight: Floats) -> None:
        prior = class_prior(codes, range(len(self.classes_)), weight)
        self.cost_matrix_ = cost_matrix(self.costs, self.classes_, prior)
        self._set_rejection(self.classes_)

    def _rows(self, X: Array, codes: Array, weight: Floats) -> Rows:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Rows(
            X, codes, weight, self._folds(codes, seed), len(self.classes_), seed, self.n_jobs
        )

    def _folds(self, codes: Array, seed: int) -> list[tuple[Array, Array]]:
        if isinstance(self.cv, int):
            if self.cv < 2:
                raise ValueError(f"cv must be at least 2; got {self.cv}.")
            return stratified_folds(codes, self.cv, seed)
        splitter = check_cv(self.cv, codes, classifier=True)
        folds = list(splitter.split(np.zeros(len(codes)), codes))
        tested = np.concatenate([test for _, test in folds])
        if not np.array_equal(np.sort(tested), np.arange(len(codes))):
            raise ValueError("cv must put every row into exactly one test fold.")
        return folds

    def _combine(self, answers: Sequence[Answer], scores: Floats, rows: Rows) -> None:
        """Calibrate and stack what members say of rows that they have not seen."""
        calibrations, stack = _stacked(scores, rows, np.arange(len(rows.codes)))
        self.members_ = {answer.name: answer.estimator for answer in answers}
        self.settings_ = {answer.name: dict(answer.setting) for answer in answers}
        self.weights_, self.intercept_ = stack.weights, stack.intercept
        self.kkt_residual_ = max(stack.kkt_residual, *(c.kkt_residual for c in calibrations))
        self._slopes = np.asarray([c.weights[0] for c in calibrations])
        self._shifts = np.stack([c.intercept for c in calibrations])

    def _account(self, answers: Sequence[Answer], scores: Floats, rows: Rows) -> None:
        """Estimate what decisions cost, with nothing that has seen the row that is decided."""
        together = np.empty(scores.shape[1:])
        alone = np.empty_like(scores)
        for train, test in rows.folds:
            calibrations, stack = _stacked(scores, rows, train)
            calibrated = _calibrated(calibrations, scores[:, test])
            together[test] = np.exp(stack.log_proba(calibrated))
            alone[:, test] = _softmax(calibrated)
        self.cross_fitted_proba_ = together
        costs = self._costs_of(together, rows.codes)
        share = rows.weight / rows.weight.sum()
        self.cost_ = float(share @ costs)
        self.cost_error_ = float(np.sqrt(np.sum((share * (costs - self.cost_)) ** 2)))
        self.member_costs_ = {
            answer.name: float(share @ self._costs_of(proba, rows.codes))
            for answer, proba in zip(answers, alone, strict=True)
        }

    def _costs_of(self, proba: Floats, codes: Array) -> Floats:
        """Cost of the decision about each row."""
        paid = self.cost_matrix_
        if self._reject_costs is not None:
            paid = np.column_stack([paid, self._reject_costs])
        costs: Floats = paid[codes, self._decide(proba)]
        return costs

    def _decide(self, proba: Floats) -> Array:
        return bayes_decision(proba, self.cost_matrix_, reject_cost=self._reject_costs)

    @property
    def threshold_(self) -> float | None:
        """Decision threshold on the probability of the positive class; None where there is none."""
        check_is_fitted(self)
        alone = len(self.classes_) == 2 and self._reject_costs is None
        return (
            threshold_of(self.cost_matrix_) if alone and has_threshold(self.cost_matrix_) else None
        )

    def predict_log_proba(self, X: Array) -> Floats:
        """Return the logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Log-probabilities, in the order of `classes_`.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        said = np.stack([log_scores(m.predict_proba(X)) for m in self.members_.values()])
        calibrations = [
            Stack(slope[None], shift, 0.0, 0.0)
            for slope, shift in zip(self._slopes, self._shifts, strict=True)
        ]
        stack = Stack(self.weights_, self.intercept_, 0.0, self.kkt_residual_)
        return stack.log_proba(_calibrated(calibrations, said))

    def predict_proba(self, X: Array) -> Floats:
        """Return class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        proba: Floats = np.exp(self.predict_log_proba(X))
        return proba

    def decision_function(self, X: Array) -> Floats:
        """Return log-odds (two classes) or log-probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            The scores.
        """
        logs = self.predict_log_proba(X)
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def predict(self, X: Array) -> NDArray[Any]:
        """Return the action of least expected cost for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        actions : ndarray of shape (n_samples,)
            Class labels or the label of "undecided".
        """
        proba = self.predict_proba(X)
        labels: NDArray[Any] = self.actions_[self._decide(proba)]
        return labels

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _members(given: Any) -> list[Member]:
    """Turn what may be given as members into members."""
    if isinstance(given, str):
        if given != "auto":
            raise ValueError(f"members must be 'auto' or a sequence; got {given!r}.")
        return list(MEMBERS.values())
    found: list[Member] = []
    for one in given:
        name, model = one if isinstance(one, tuple) and len(one) == 2 else (None, one)
        if isinstance(model, str):
            if model not in MEMBERS:
                raise ValueError(
                    f"members names {model!r}, which is not known; expected a classifier or one of "
                    f"{', '.join(MEMBERS)}."
                )
            found.append(MEMBERS[model])
            continue
        if not hasattr(model, "predict_proba"):
            raise TypeError(
                f"Members need predict_proba, which {type(model).__name__} lacks; "
                "sklearn.calibration.CalibratedClassifierCV can provide it."
            )
        found.append(Member(name or type(model).__name__.lower(), model))
    names = [member.name for member in found]
    if not found or len(set(names)) < len(names):
        raise ValueError(f"members must be at least one, of different names; got {names}.")
    return found


def _able(members: Sequence[Member], X: Array) -> tuple[list[Member], dict[str, str]]:
    """Members that take such data, and why others do not."""
    reasons = {member.name: member.unable(X) for member in members}
    able = [member for member in members if not reasons[member.name]]
    if not able:
        raise ValueError(f"No member takes these data: {reasons}.")
    return able, {name: reason for name, reason in reasons.items() if reason}


def _stacked(scores: Floats, rows: Rows, some: Array) -> tuple[list[Stack], Stack]:
    """Calibrations and weights from some of the rows."""
    codes, weight = rows.codes[some], rows.weight[some]
    calibrations = [calibrate(s[some], codes, weight) for s in scores]
    return calibrations, fit_stack(_calibrated(calibrations, scores[:, some]), codes, weight)


def _calibrated(calibrations: Sequence[Stack], scores: Floats) -> Floats:
    """Scores (M, n, K) as each member's calibration has them, centred."""
    logs = np.stack([c.log_proba(s[None]) for c, s in zip(calibrations, scores, strict=True)])
    centred: Floats = logs - logs.mean(axis=2, keepdims=True)
    return centred


def _softmax(scores: Floats) -> Floats:
    e = np.exp(scores - scores.max(axis=2, keepdims=True))
    proba: Floats = e / e.sum(axis=2, keepdims=True)
    return proba
