"""Several kinds of models that decide together, and what their decisions will cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_is_fitted,
    column_or_1d,
)

from grayzone.decision import (
    class_prior,
    cost_matrices,
    cost_matrix,
)
from grayzone.decision.costs import Costs, threshold_of
from grayzone.decision.example_costs import mean_costs, true_costs
from grayzone.estimators._answering import (
    NO_PRECISION,
    StackedMembers,
    calibrated,
    softmax_of,
    stacked,
)
from grayzone.estimators._base import rows_of
from grayzone.estimators._callbacks import (
    FIT_DEPTH,
    CallbackSupportMixin,
    fit_progress,
    with_callbacks,
)
from grayzone.estimators._contradictions import tell_contradictions
from grayzone.estimators._draws import (
    Fold,
    Given,
    check_folds,
    group_folds,
    random_state_of,
    split_folds,
    stratified_folds,
    within,
)
from grayzone.estimators._html import FittedSummary
from grayzone.estimators._limits import (
    LIMITS,
    allowed_thresholds,
    chosen_threshold,
    limits_of,
    range_of,
    rates_of,
)
from grayzone.estimators._members import (
    Answer,
    Clock,
    Member,
    OutOfTimeError,
    Preparation,
    Rows,
)
from grayzone.estimators._undecided import MayStayUndecided
from grayzone.estimators._work import able_to, members_of, own_models, plan, rows_to_score, size_of
from grayzone.estimators._wrapper import checked_finite
from grayzone.numerics.checks import (
    Floats,
    all_or_nothing,
    as_labels,
    as_numpy,
    check_number,
    check_weights,
)
from grayzone.numerics.threads import one_thread
from grayzone.solvers.stack import log_scores
from grayzone.sources.open import refuse_blocks

Array = Any


class DecisionEnsembleClassifier(
    CallbackSupportMixin,
    StackedMembers,
    MayStayUndecided,
    FittedSummary,
    ClassifierMixin,
    BaseEstimator,
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
        misclassifying it}``, whose values may be ranges ``(low, high)``, or an array ``cost[true,
        predicted]``. The model itself does not depend on them.
    reject_cost : float, mapping or array-like of shape (n_classes,), default=None
        Cost of staying undecided; None: always decide.
    undecided_label : "auto", str or number, default="auto"
        What `predict` returns for undecided rows; "auto" is -1 beside numeric labels and
        "undecided" beside strings.
    max_fpr : float, default=None
        Largest share of negative rows that are taken for positive ones. Limits are for two classes:
        rows are held out of the fit, and the threshold is set by their scores, so that new rows
        like them keep all limits with a probability of `confidence`; of the thresholds that do, the
        one nearest to the cheapest is taken or, without costs, as in
        :class:`RateLimitClassifier`.
    min_recall : float, default=None
        Smallest share of positive rows that are found.
    min_precision : float, default=None
        Smallest share of positive rows among those that are taken for them.
    confidence : float, default=0.95
        Probability with which all limits hold.
    budget : float, default=None
        Seconds that a fit may take, about. Members are taken in their order, with as many rows as
        there is room for, by their *estimated* work for one processor: the same seed gives the same
        model, however busy the machine is. How fast it is is measured first, in powers of two. A
        fit that takes three times as much is stopped, and `left_out_` says so. None: all members.
    stop_after : float, default=None
        Seconds of the day after which no further member is fitted, nor one that would take longer,
        and `left_out_` says so: what is fitted by then decides. The first member is always finished
        and calibration takes a little. It depends on what else the machine does which members there
        are; None: they depend on `budget` alone.
    cv : int, cross-validation splitter or iterable, default=5
        The common folds; fewer where a class has fewer rows. Rows that no fold decides on, as the
        first ones of folds in time, are learnt from alone.
    n_jobs : int or None, default=None
        Fits at a time; -1 uses all cores. The model is the same.
    random_state : int, RandomState instance or None, default=0
        Draws the folds, the forests and samples of very many rows; None is the same as 0.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels; the positive class of two is ``classes_[1]``.
    members_ : dict
        The fitted members by name, for labels that are places in `classes_`.
    settings_ : dict
        Parameters that were chosen for the members, by name.
    n_learnt_ : dict
        How many rows each member was fitted to.
    weights_ : ndarray of shape (n_members,)
        What the members' calibrated log-odds weigh.
    intercept_ : ndarray of shape (n_classes,)
        What is added to them; that of the first class is zero.
    kkt_residual_ : float
        Certificate of the weights: the largest slope along which the mean log-loss still falls.
    left_out_ : dict
        Members that could not take these data, or had no time, with the reason.
    cost_matrix_ : ndarray of shape (n_classes, n_classes)
        ``cost[true, predicted]``; with `example_costs` the mean of theirs, for rows without.
    threshold_ : float or None
        Decision threshold on the probability of the positive class, where there is one.
    threshold_range_ : tuple of two floats
        The least and the largest threshold that keep all limits, where there are limits.
    rates_ : dict
        "fpr", "recall" and "precision" at `threshold_`, where there are limits: of held-out rows,
        of a class that has none there by cross-fitted probabilities.
    held_out_ : ndarray of ints
        Rows that were held out for limits.
    actions_ : ndarray of shape (n_classes,) or (n_classes + 1,)
        What `predict` can return.
    folds_ : list of (ndarray, ndarray)
        Rows that were learnt from and decided on, of each common fold.
    cross_fitted_proba_ : ndarray of shape (n_samples, n_classes)
        Probabilities of the training rows by models, calibrations and weights that had not seen
        them; NaN for rows that were not asked about.
    member_proba_ : dict
        The same by each member alone, calibrated.
    row_costs_ : ndarray of shape (n_samples,)
        What the decision about each row costs that follows from its cross-fitted probability.
    row_weight_ : ndarray of shape (n_samples,)
        What rows weigh in `cost_`: those of a sample stand for others; zero where there is no cost.
    cost_, cost_error_ : float
        Mean of the `row_costs_`, and its standard error.
    member_costs_ : dict
        The same mean cost if each member decided alone, calibrated.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names that are all strings.

    See Also
    --------
    BayesDecisionClassifier : Any one classifier, deciding by costs.
    RateLimitClassifier : Any one classifier, keeping limits.

    Notes
    -----
    Tables may hold categories, texts, dates and gaps. Boosted trees take categories as they are;
    other members a feature for each of ten rows or more.

    Members learn from at most 100,000 rows (a kernel from 20,000), fewer in a `budget`, and all are
    asked about at most 200,000: samples keep all rows of rare classes, and what is drawn of the
    others is weighted back, so that probabilities and costs are those of all rows.

    For a limit on the false positive rate negative rows are held out, for a recall positive ones:
    all rows of a rare class stay in the fit where the limit is about the other one. With `groups`
    whole groups are held out; the confidence is for rows that are drawn independently.

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
        max_fpr: float | None = None,
        min_recall: float | None = None,
        min_precision: float | None = None,
        confidence: float = 0.95,
        budget: float | None = None,
        stop_after: float | None = None,
        cv: Any = 5,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.members = members
        self.costs = costs
        self.reject_cost = reject_cost
        self.undecided_label = undecided_label
        self.max_fpr = max_fpr
        self.min_recall = min_recall
        self.min_precision = min_precision
        self.confidence = confidence
        self.budget = budget
        self.stop_after = stop_after
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    def fit(
        self,
        X: Array,
        y: Array = None,
        sample_weight: Any = None,
        example_costs: Any = None,
        groups: Any = None,
    ) -> Self:
        """Fit the members, calibrate and stack them; on any error the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Training data; tables may have categories, texts, dates and gaps.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; rows of weight zero are left out.
        example_costs : array-like of shape (n_samples, n_classes, n_classes) or mapping, \
                default=None
            What decisions about each row cost, in place of `costs`: ``cost[row, true, predicted]``,
            or ``{label: cost of misclassifying each row if it has that label}``. Probabilities do
            not depend on it; decisions about these rows, and `cost_`, do.
        groups : array-like of shape (n_samples,), default=None
            Group of each row: none is on both sides of a fold, nor learnt from and held out.

        Returns
        -------
        self : DecisionEnsembleClassifier
            The fitted estimator.
        """
        limits = self._checked_limits()
        clock = Clock(self.budget, self.stop_after)
        refuse_blocks(self, X, "Fit it to a sample of the rows.")
        X, labels = self._read(X, y)
        weight = check_weights(sample_weight, len(labels))
        used = np.flatnonzero(weight > 0.0)
        codes = self._encode(labels, used)
        prices = self._set_decision(codes, used, weight, example_costs)
        groups = None if groups is None else self._checked_groups(groups, len(codes))
        seed = int(random_state_of(self.random_state).randint(2**31 - 1))
        given = Given(codes, weight, used, groups, len(self.classes_))
        given = given.for_limits(limits, 1.0 - self.confidence, seed, rows_to_score(self.budget))
        folds = self._folds(given, seed)
        some, stands_for = given.drawn(rows_to_score(self.budget), seed)
        able, self.left_out_ = able_to(members_of(self.members), X)
        rows = self._rows(X, able, given, some, stands_for, within(folds, some, len(codes)), seed)
        answers = self._answers(X, y, able, rows, len(given.held_out), clock)
        with one_thread():  # products of few columns: threads would wait for each other
            honest = self._combine(answers, rows, some, len(codes))
        self.folds_ = [(some[train], some[test]) for train, test in rows.folds]
        self._hold(X, given, honest)
        self._set_limits(limits, given)
        self._account(given, folds, prices)
        # one decorator less than fits of one model have
        tell_contradictions(self, example_costs, depth=FIT_DEPTH - 1)
        return self

    def _checked_limits(self) -> dict[str, float]:
        limits = limits_of(self)
        if limits and self.reject_cost is not None:
            raise ValueError(
                f"reject_cost must be None beside {', '.join(limits)}: rates of decisions say "
                f"nothing about rows that are left undecided; got {self.reject_cost!r}."
            )
        for name in ("budget", "stop_after"):
            seconds = getattr(self, name)
            if seconds is not None and not check_number(name, seconds) > 0.0:
                raise ValueError(f"{name} must be a positive number of seconds; got {seconds!r}.")
        return limits

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

    def _encode(self, labels: NDArray[Any], used: Array) -> NDArray[np.intp]:
        """Find the classes, and return labels as places among them; -1 is not used."""
        self.classes_, known = np.unique(labels[used], return_inverse=True)
        counts = np.bincount(known)
        if len(counts) < 2:
            raise ValueError(
                "A classifier needs at least two classes with a positive sample_weight; got one "
                f"class: {self.classes_.tolist()}."
            )
        if len(counts) == 2 and counts.min() < 2:
            rare = self.classes_[counts.argmin()].tolist()
            raise ValueError(f"The class {rare!r} has one row; folds need at least two.")
        codes = np.full(len(labels), -1, dtype=np.intp)
        codes[used] = known
        return codes

    def _checked_groups(self, groups: Any, n_rows: int) -> Array:
        groups = as_labels(groups, "groups")
        if groups.shape != (n_rows,):
            raise ValueError(f"groups must be one for each of {n_rows} rows; got {groups.shape}.")
        return groups

    def _set_decision(
        self, codes: Array, used: Array, weight: Floats, example_costs: Any
    ) -> Floats | None:
        """Set what all rows cost; return what each does, where rows have costs of their own."""
        K, prices = len(self.classes_), None
        if example_costs is None:
            prior = class_prior(codes[used], range(K), weight[used])
            self.cost_matrix_ = cost_matrix(self.costs, self.classes_, prior)
        else:
            if self.costs is not None:
                raise ValueError(
                    "costs must be None beside example_costs, which say what each row costs; got "
                    f"costs={self.costs!r}."
                )
            prices = as_numpy(cost_matrices(example_costs, self.classes_, len(codes)))
            self.cost_matrix_ = mean_costs(prices[used], weight[used])
            if "min_precision" in limits_of(self):
                raise ValueError(NO_PRECISION)
        self._set_rejection(self.classes_)
        return prices

    def _folds(self, given: Given, seed: int) -> list[Fold]:
        """Rows to learn from and to decide on, as numbers among all rows."""
        rows, codes = given.fitted, given.codes[given.fitted]
        if isinstance(self.cv, Integral):
            if self.cv < 2:
                raise ValueError(f"cv must be at least 2; got {self.cv}.")
            if given.groups is None:
                folds = stratified_folds(codes, int(self.cv), seed)
            else:
                folds = group_folds(codes, given.groups[rows], int(self.cv), seed)
            return [(rows[train], rows[test]) for train, test in folds]
        kept = within(split_folds(self.cv, given.codes, given.groups), rows, len(given.codes))
        check_folds(kept, codes)
        return [(rows[train], rows[test]) for train, test in kept]

    def _rows(
        self,
        X: Array,
        able: Sequence[Member],
        given: Given,
        some: Array,
        stands_for: Floats,
        folds: list[Fold],
        seed: int,
    ) -> Rows:
        """Gather the rows that members learn from and are asked about."""
        X = rows_of(X, some)
        weight = given.fit_weight[some] * stands_for
        kinds = {member.kind for member in able if member.kind is not None}
        preparation, numbers = Preparation.of(X, kinds, weight)
        return Rows(
            X,
            numbers,
            preparation,
            given.codes[some],
            weight,
            folds,
            given.n_classes,
            seed,
            self.n_jobs,
            alike=given.groups is None and isinstance(self.cv, Integral),
        )

    def _answers(
        self, X: Array, y: Array, able: Sequence[Member], rows: Rows, n_more: int, clock: Clock
    ) -> list[Answer]:
        """Ask the members that there is room for, one after the other."""
        planned = plan([(member, size_of(member, rows, n_more)) for member in able], self.budget)
        self.left_out_ |= planned.left_out
        timed = replace(rows, clock=clock)
        answers: list[Answer] = []
        with fit_progress(self, "member", len(planned.members), X=X, y=y) as report:
            for member, work in zip(planned.members, planned.work, strict=True):
                try:
                    if answers:  # there has to be one
                        # what workers do is not seen by the pace of this process
                        clock.check(work if self.n_jobs in (None, 1) else 0.0)
                    answers.append(member.answer(timed if answers else rows))
                except OutOfTimeError as error:
                    self.left_out_[member.name] = str(error)
                    continue
                if report is not None and report(None, member=member.name):
                    break
        return answers

    def _combine(
        self, answers: Sequence[Answer], rows: Rows, some: Array, n_rows: int
    ) -> list[Floats]:
        """Calibrate and stack; return what honest probabilities of all rows are kept in."""
        asked = np.sort(np.concatenate([test for _, test in rows.folds]))
        scores = np.zeros((len(answers), rows.n_rows, rows.n_classes))
        for k, answer in enumerate(answers):
            proba = checked_finite(answer.proba[asked], answer.estimator)
            scores[k, asked] = log_scores(proba)
        calibrations, stack = stacked(scores, rows, asked)
        self.members_ = {answer.name: answer.estimator for answer in answers}
        self.settings_ = {answer.name: dict(answer.setting) for answer in answers}
        self.n_learnt_ = {answer.name: answer.n_rows for answer in answers}
        self.weights_, self.intercept_ = stack.weights, stack.intercept
        self.kkt_residual_ = max(stack.kkt_residual, *(c.kkt_residual for c in calibrations))
        self._slopes = np.asarray([c.weights[0] for c in calibrations])
        self._shifts = np.stack([c.intercept for c in calibrations])
        honest = [np.full((n_rows, rows.n_classes), np.nan) for _ in range(len(answers) + 1)]
        for _, test in rows.folds:
            others = np.setdiff1d(asked, test)
            alone, together = stacked(scores, rows, others, (calibrations, stack))
            alike = calibrated(alone, scores[:, test])
            honest[0][some[test]] = np.exp(together.log_proba(alike))
            for known, proba in zip(honest[1:], softmax_of(alike), strict=True):
                known[some[test]] = proba
        return honest

    def _hold(self, X: Array, given: Given, honest: list[Floats]) -> None:
        """Keep honest probabilities: rows that were held out are answered by what was fitted."""
        self.held_out_ = given.held_out
        if len(given.held_out):
            scores = self._scores(rows_of(X, given.held_out))
            honest[0][given.held_out] = np.exp(self._stack.log_proba(scores))
            for known, alone in zip(honest[1:], softmax_of(scores), strict=True):
                known[given.held_out] = alone
        self.cross_fitted_proba_ = honest[0]
        self.member_proba_ = dict(zip(self.members_, honest[1:], strict=True))

    def _set_limits(self, limits: dict[str, float], given: Given) -> None:
        """Set the threshold of the model that is kept by rows that it has not seen."""
        self._cut = None
        if not limits:
            return
        out = given.held_out
        scores, positive = self.cross_fitted_proba_[out, 1], given.codes[out] == 1
        groups, error = np.zeros(len(out)), 1.0 - self.confidence
        allowed = allowed_thresholds(limits, scores, positive, groups, np.zeros(1), error)
        best = None if self.costs is None else threshold_of(self.cost_matrix_)
        self._cut = chosen_threshold(allowed, limits, best)
        self.threshold_range_ = range_of(allowed, limits)

    def _account(self, given: Given, folds: Sequence[Fold], prices: Floats | None) -> None:
        """Say what decisions cost, by probabilities that have not seen the row that is decided."""
        known = np.flatnonzero(np.isfinite(self.cross_fitted_proba_[:, 0]))
        asked = np.concatenate([given.held_out, *(test for _, test in folds)])
        self.row_weight_ = given.standing_for(asked, known)
        self.row_costs_ = self._costs_of(self.cross_fitted_proba_, given.codes, known, prices)
        share = self.row_weight_[known] / self.row_weight_.sum()
        self.cost_ = float(share @ self.row_costs_[known])
        away = self.row_costs_[known] - self.cost_
        self.cost_error_ = float(norm(share * away))  # squares of costs may be out of range
        self.member_costs_ = {
            name: float(share @ self._costs_of(proba, given.codes, known, prices)[known])
            for name, proba in self.member_proba_.items()
        }
        if self._cut is not None:
            self.rates_ = self._rates(self._cut, given, known)

    def _rates(self, cut: float, given: Given, known: Array) -> dict[str, float]:
        """Rates at the threshold: of held-out rows, of a class without them of the others."""
        decided, positive = self.cross_fitted_proba_[:, 1] >= cut, given.codes == 1
        rates = rates_of(decided[known], positive[known], self.row_weight_[known])
        out = rates_of(decided[given.held_out], positive[given.held_out])
        rates |= {name: value for name, value in out.items() if np.isfinite(value)}
        if not np.all(given.held_counts):
            # those held out are of one class: shares of classes come from all rows
            prior = np.bincount(given.codes[known], self.row_weight_[known], minlength=2)
            right, wrong = rates["recall"] * prior[1], rates["fpr"] * prior[0]
            rates["precision"] = right / (right + wrong) if right + wrong > 0.0 else np.nan
        return {name: float(value) for name, value in rates.items()}

    def _costs_of(self, proba: Floats, codes: Array, known: Array, prices: Floats | None) -> Floats:
        """Cost of the decision about each row that is known."""
        own = None if prices is None else prices[known]
        decided = self._decide(proba[known], own)
        paid = self.cost_matrix_[codes[known]] if own is None else true_costs(own, codes[known])
        if self._reject_costs is not None:
            paid = np.column_stack([paid, np.asarray(self._reject_costs)[codes[known]]])
        costs = np.full(len(proba), np.nan)
        costs[known] = paid[np.arange(len(known)), decided]
        return costs

    def forget_rows(self) -> Self:
        """Drop what is kept of the training rows, which predictions do not need.

        A file that keeps the model is smaller without it, and says less about the data.

        Returns
        -------
        self : DecisionEnsembleClassifier
            The same estimator.
        """
        check_is_fitted(self)
        for name in _OF_ROWS:
            self.__dict__.pop(name, None)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        own = [get_tags(model).input_tags for model in own_models(self.members)]
        for kind in ("sparse", "allow_nan", "categorical"):  # which the other members all take
            setattr(tags.input_tags, kind, all(getattr(inner, kind) for inner in own))
        if tags.classifier_tags is not None and any(getattr(self, name) for name in LIMITS):
            tags.classifier_tags.multi_class = False
        return tags


_OF_ROWS = (
    *("cross_fitted_proba_", "member_proba_", "row_costs_", "row_weight_"),
    *("folds_", "held_out_"),
)
