"""Logistic regression fitted to the expected cost of its decisions, by ever tighter bounds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import isinf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from grayzone.decision import action_labels
from grayzone.decision.confidence import TooFewRowsError
from grayzone.decision.costs import cost_matrix, cost_unit, savings
from grayzone.decision.limits import Target
from grayzone.estimators._base import (
    NO_OPTIMUM,
    class_probabilities,
    labels_at,
    linear_scores,
    log_probabilities,
    move_decision,
)
from grayzone.estimators._callbacks import (
    FIT_DEPTH,
    CallbackSupportMixin,
    Report,
    fit_progress,
    with_callbacks,
)
from grayzone.estimators._contradictions import tell_contradictions
from grayzone.estimators._draws import random_state_of
from grayzone.estimators._empty_classes import leaves_out_empty_classes, without_empty_classes
from grayzone.estimators._html import FittedSummary
from grayzone.estimators._lazy import lazily
from grayzone.estimators._partial_fit import ACCEPTED, PartialFit
from grayzone.estimators._rewards import RowRewards, check_alone
from grayzone.estimators._undecided import MayStayUndecided
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import (
    all_or_nothing,
    as_numpy,
    check_choice,
    check_integer,
    check_number,
    check_penalty,
)
from grayzone.numerics.losses import sigmoid
from grayzone.numerics.pitfalls import Pitfall
from grayzone.solvers.loop import MOST_SILENT
from grayzone.solvers.policy.cut import cut_scores
from grayzone.solvers.policy.decisions import actions_of, mean_costs
from grayzone.solvers.policy.policy import policy_of
from grayzone.solvers.policy.problem import PolicyProblem, PolicySpec
from grayzone.solvers.policy.solve import Course, PolicyFit, fit_policy
from grayzone.sources.labelled import Labelled
from grayzone.sources.open import check_same_place, open_rows, validated
from grayzone.sources.split import check_fraction, split

Array = Any

# Bounds up to which "auto" takes them one by one, as they are asked for.
_FEW_BOUNDS = 20
# Relative decrease that the last step of a convex fit may have promised, beyond ``tol``.
_SLACK = 10.0
# Share of what errors could cost that is no error.
_NO_ERROR = 1e-6
# Share of rows that a statement of confidence takes, if none is named.
_HELD_OUT = 0.3


class TightBoundLogisticRegression(
    PartialFit,
    CallbackSupportMixin,
    MayStayUndecided,
    FittedSummary,
    ClassifierMixin,
    BaseEstimator,
):
    r"""Logistic regression that minimises the expected cost of decisions instead of the log-loss.

    A decision for class k with probability :math:`p_k(x)` is wrong with probability
    :math:`1 - p_y(x)`; logistic regression minimises only an upper bound of the sum of these, tight
    where :math:`p = 1/K`. Algorithm 1 of Le Roux [1]_ renews the bound at each solution,

    .. math:: \theta_{t+1} = \arg\min_\theta
              -\sum_i w_i\, p(y_i|x_i, \theta_t) \log p(y_i|x_i, \theta)
              + \tfrac{1}{2CK}\|\theta\|^2,

    so that the expected error
    :math:`J = \sum_i w_i (1 - p(y_i|x_i)) + \tfrac{1}{2CK}\|\theta\|^2` falls with every step.
    Rows far on the wrong side lose their influence: fewer errors, above all where a linear
    model is too simple for the data. The first step is logistic regression itself.

    Probabilities of a policy trained for decisions saturate: they say what to do, and are not
    calibrated. Use :class:`TruncatedLogisticRegression` for probabilities at a threshold.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty, that of ``LogisticRegression`` at ``n_bounds=1``. Choose it
        anew for each ``n_bounds``: with a strong penalty more bounds can be worse than one. ``inf``
        is no penalty; a linear function that makes no errors has then no optimum, which is said.
    n_bounds : int, default=3
        How many bounds T are minimised; 1 is logistic regression.
    costs : None, "balanced", mapping or array of shape (K, K), default=None
        Costs of errors, trained for: None (1 each), "balanced", ``{label: cost}`` or
        ``cost[true, decided]``. ``predict`` needs no threshold: it decides for the most probable
        action. Their unit does not matter: for the fit they are divided by what the dearest
        decision costs more than the cheapest, on average over the rows (``partial_fit`` without a
        ``fit`` before it: over the classes), which is 1 for None and for "balanced".
    reject_cost : float, mapping or array of shape (K,), default=None
        Cost, in that unit, of staying undecided, an action of its own with scores of its own: §4.2
        of [1]_. The first bound is then the one at Chow's rule on the log-loss fit.
    undecided_label : "auto", str or number, default="auto"
        What ``predict`` returns for it; "auto" is -1 beside numbers and "undecided" beside strings.
        Beside ``rewards`` any other says that their last column is that of this action.
    max_fpr : float or None, default=None
        Limit on the false positive rate of two classes; the true positive rate is maximised under
        it, §4.1 of [1]_.
    min_recall : float or None, default=None
        Least true positive rate; the false positive rate is then minimised, if it is the only
        limit. Limits that cannot be kept together are an error that names them.
    min_precision : float or None, default=None
        Least precision; the true positive rate is then maximised.
    confidence : float or None, default=0.95
        Probability with which all limits hold on new rows, drawn as the held-out ones are. These
        set the threshold, by exact binomial bounds, as in :class:`RateLimitClassifier`; they are
        counted, whatever they weigh. Too few of them for such a statement are an error that names
        how many it takes. None: limits hold on average over draws of held-out rows or, without
        ``validation_fraction``, on the training rows alone; new rows break it more often than not.
    validation_fraction : float or None, default=None
        Share of rows to hold out: for the final threshold under a limit; otherwise to warn where
        ``n_bounds`` > 1 decides worse than 1. None is .3 for a limit with a ``confidence``, and no
        rows else. Of blocks rows are drawn by their numbers: about that share, and other rows than
        of the same data in memory.
    solver : {"auto", "mm", "direct"}, default="auto"
        "mm" runs Algorithm 1 literally. "direct" descends J itself after five bounds, to a
        stationary point, in a fraction of the time that hundreds of bounds would take; it need not
        be the point that they lead to. "auto" is "mm" up to 20 bounds, and "direct" beyond that.
        Limits always take bounds.
    fit_intercept : bool, default=True
        Whether to fit an (unpenalised) intercept.
    class_weight : mapping, "balanced" or None, default=None
        Weights of the classes.
    tol : float, default=1e-6
        Relative accuracy: the fit may stop once what is left to gain is at most ``tol`` times the
        objective. To be safe a thousandth of it is asked of what can be measured: of the decrease
        that the last Newton step of each bound promises, and of the last decrease of J.
    max_iter : int, default=100
        Most Newton steps for each bound.
    warm_start : bool, default=False
        Start the first bound from the previous solution.
    eta0 : float, default=0.5
        Step size of ``partial_fit``.
    random_state : int, RandomState instance or None, default=None
        Draws held-out rows; None is the same as 0.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels; ``classes_[1]`` is the positive one of two.
    actions_ : ndarray of shape (A,)
        What ``predict`` can return: the classes and, with ``reject_cost`` or ``rewards`` of one
        more action, the undecided label.
    coef_ : ndarray of shape (1, n_features) or (A, n_features)
        Coefficients of the log-odds of two actions, or of the A scores.
    intercept_ : ndarray of shape (1,) or (A,)
        Intercepts.
    expected_error_path_ : ndarray of shape (n_iter,)
        J after each bound (after each step of "direct"), in the unit of the costs; it never rises.
    threshold_ : float or None
        Probability from which on ``predict`` decides for the positive class: 1/2, or what a limit
        asks for. None where there are other than two actions.
    cost_matrix_ : ndarray of shape (K, K)
        ``cost[true, decided]``; the mean, where rows were given costs of their own. With rewards,
        what decisions earn less than the best action, on average over rows of each label.
    promised_decrease_ : float
        Relative decrease that the last Newton step of the last convex fit promised (the largest
        scaled gradient with "direct"): how far the solution is from stationary.
    held_out_costs_ : tuple of two floats
        Mean costs of decisions on held-out rows with one bound and with all; only without a limit
        and with ``validation_fraction``.
    n_iter_ : int
        Bounds (steps) taken.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names that are all strings.

    See Also
    --------
    TightBoundClassifier : The same bounds around any probabilistic classifier.
    roc_by_costs : A ROC curve of models, one for each cost ratio.

    References
    ----------
    .. [1] Le Roux, N. (2017). Tighter bounds lead to improved classifiers. ICLR.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from grayzone import TightBoundLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = TightBoundLogisticRegression(n_bounds=10).fit(scale(X), y)
    >>> bool((clf.expected_error_path_[1:] <= clf.expected_error_path_[:-1]).all())
    True
    >>> wary = TightBoundLogisticRegression(reject_cost=0.2).fit(scale(X), y)
    >>> wary.actions_
    array([ 0,  1, -1])
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        n_bounds: int = 3,
        costs: Any = None,
        reject_cost: Any = None,
        undecided_label: Any = "auto",
        max_fpr: float | None = None,
        min_recall: float | None = None,
        min_precision: float | None = None,
        confidence: float | None = 0.95,
        validation_fraction: float | None = None,
        solver: str = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-6,
        max_iter: int = 100,
        warm_start: bool = False,
        eta0: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.n_bounds = n_bounds
        self.costs = costs
        self.reject_cost = reject_cost
        self.undecided_label = undecided_label
        self.max_fpr = max_fpr
        self.min_recall = min_recall
        self.min_precision = min_precision
        self.confidence = confidence
        self.validation_fraction = validation_fraction
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.eta0 = eta0
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    @leaves_out_empty_classes
    def fit(
        self,
        X: Array,
        y: Array = None,
        sample_weight: Array | None = None,
        example_costs: Any = None,
        rewards: Any = None,
    ) -> Self:
        """Fit the policy; on any error or interruption the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix, Source, Dask collection} of shape (n_samples, n_features)
            Training data. Arrays of other libraries stay where they are under scikit-learn's
            ``array_api_dispatch``, and so do fitted attributes. Blocks are a
            :class:`grayzone.sources.Source`. All attributes are set, whatever X is.
        y : array-like of shape (n_samples,), default=None
            Class labels; None beside blocks, which bring theirs.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row; None beside blocks.
        example_costs : array-like of shape (n_samples, K, K) or mapping, default=None
            Costs of each row, in place of ``costs``: ``cost[row, true, decided]``, or ``{label:
            costs of misclassifying each row if it has that label}``, in any unit. They are rewards
            that the policy is trained for. None beside blocks, which bring theirs.
        rewards : array-like of shape (n_samples, A), default=None
            Rewards R(a, x) of every row and action, (4.1) of Le Roux, in place of all costs: finite
            numbers in any unit. Columns are those of ``classes_``, then that of the action named by
            ``undecided_label``, where it is not "auto". They are all that is learnt from, if there
            is no such action: ``y`` names the actions (in logs, those taken; if labels mean
            nothing, any that has each of them), and its classes have the weights of
            ``class_weight``. Not beside ``costs``, ``reject_cost``, ``example_costs``, limits or
            blocks other than Dask's.

        Returns
        -------
        self : TightBoundLogisticRegression
            The fitted estimator.
        """
        targets = self._check_parameters()
        beside = 0 if rewards is None else check_alone(self, example_costs)
        of_rows = {"example_costs": example_costs, "rewards": rewards, "beside": beside}
        kinds = {"class_weight": self.class_weight, "takes_costs": True, **of_rows, **ACCEPTED}
        labelled = open_rows(self, X, y, sample_weight, **kinds)
        for target in targets:
            target.check_classes(labelled.classes)
        start = self._previous(labelled)
        own = RowRewards.of(labelled, self, targets) if labelled.priced else None
        costs = self._decide(labelled.classes, labelled.prior, labelled.like, own)
        train, held_out = self._split(labelled, targets)
        if own is not None:
            train, held_out = own.given_to(train), held_out and own.given_to(held_out)
        spec = self._specify(costs, train.by_rows)
        problem = PolicyProblem(train, spec, self.tol, self.max_iter)
        undecided = None if costs.shape[1] == len(costs) else costs / self._unit
        course = Course(self.n_bounds, self._directly(), targets, undecided)
        given = {} if labelled.held is None else {"X": X, "y": y}
        with fit_progress(self, "bound", course.most_steps, **given) as report:
            solution = fit_policy(problem, course, start, self._listener(report, labelled.like))
        self._expose(solution, labelled.like)
        if targets:
            # with held-out rows the rates are those of new data
            judged, fresh = (train, False) if held_out is None else (held_out, True)
            self._cut = cut_scores(judged.plain, solution.coef, targets, fresh=fresh)
        elif held_out is not None:
            coefs = solution.first, solution.coef
            self.held_out_costs_ = mean_costs(held_out, coefs, costs, self.fit_intercept)
        self._warn(solution.stopped, endless=solution.path[-1] <= _NO_ERROR * problem.best)
        tell_contradictions(self, example_costs)
        return self

    def _check_parameters(self) -> tuple[Target, ...]:
        check_penalty("C", self.C, none=True)
        check_integer("n_bounds", self.n_bounds, least=1)
        check_choice("solver", self.solver, ("auto", "mm", "direct"))
        check_number("tol", self.tol, above=0.0)
        check_integer("max_iter", self.max_iter, least=1)
        check_number("eta0", self.eta0, above=0.0)
        if self.validation_fraction is not None:
            check_fraction(self.validation_fraction)
        limits = self.max_fpr, self.min_recall, self.min_precision
        targets = Target.several(*limits, self.confidence)
        if targets and not self.fit_intercept:
            raise ValueError(f"{targets[0].name} needs an intercept to start from; got none.")
        if targets and (self.costs is not None or self.reject_cost is not None):
            raise ValueError(
                f"{targets[0].name} already says what to trade for what; costs and reject_cost "
                "must be None beside it."
            )
        return targets

    def _decide(
        self, classes: Array, prior: Array | None, like: Array, rewards: RowRewards | None = None
    ) -> Array:
        """Set what can be decided and what it costs; returns costs (K, A) of actions.

        What an earlier fit left and this one need not set is dropped.
        """
        for name in ("held_out_costs_", "_online"):
            self.__dict__.pop(name, None)
        self.classes_ = classes
        self._set_rejection(classes)
        if rewards is not None and rewards.reject_costs is not None:
            self.actions_ = action_labels(classes, self.undecided_label)
            self._reject_costs = list(rewards.reject_costs)
        known = self.costs if rewards is None else rewards.costs
        self.cost_matrix_ = costs = cost_matrix(known, classes, prior)
        if self._reject_costs is not None:
            costs = np.column_stack([costs, self._reject_costs])
        # plain numbers: they stay on the host, wherever the data live
        self._prior = None if prior is None else as_numpy(prior).tolist()
        self._unit = cost_unit(self.cost_matrix_, prior) if rewards is None else rewards.unit
        self._by_rows = rewards is not None
        self._cut = 0.0
        move_decision(self, like)
        return costs

    @property
    def threshold_(self) -> float | None:
        """Probability from which on the positive class is decided for."""
        check_is_fitted(self, "coef_")
        return float(sigmoid(np.array(self._cut))) if self.actions_.shape[0] == 2 else None

    def _split(
        self, labelled: Labelled, targets: tuple[Target, ...]
    ) -> tuple[Labelled, Labelled | None]:
        """Return the rows to fit to, and those held out."""
        share, stated = self.validation_fraction, bool(targets) and self.confidence is not None
        if share is None and stated:
            share = _HELD_OUT
        if share is None:
            return labelled, None
        # a precision is about rows of both classes, as many of each as come
        by_class = not (stated and self.min_precision is not None)
        rng = random_state_of(self.random_state)
        train, held_out = split(labelled, share, rng, by_class)
        try:
            for target in targets:
                target.check_rows(*held_out.counts.tolist())
        except TooFewRowsError as error:
            said = str(error).removesuffix(f" {Pitfall.TOO_FEW_ROWS}")
            raise TooFewRowsError(
                f"{said} So would a larger validation_fraction (now {share:g}); "
                f"confidence=None makes no statement. {Pitfall.TOO_FEW_ROWS}"
            ) from None
        return train, held_out

    def _specify(self, costs: Array, by_rows: bool) -> PolicySpec:
        n_actions = costs.shape[1]
        policy, penalty = policy_of(n_actions), 1.0 / (self.C * n_actions)
        rewards = savings(costs, self._unit)
        return PolicySpec(policy, rewards, penalty, self.fit_intercept, by_rows=by_rows)

    def _directly(self) -> bool:
        """Whether J itself is descended, rather than bound by bound."""
        many = self.n_bounds > _FEW_BOUNDS if self.solver == "auto" else self.solver == "direct"
        return many and self.n_bounds > 1

    def _listener(self, report: Report | None, like: Array) -> Callable[[Array, float], bool]:
        """Return what tells callbacks J after each step, and what the policy is by then."""

        def listen(coef: Array, cost: float) -> bool:
            return report is not None and report(
                lambda: self._coefficients(coef, like), expected_cost=self._unit * cost
            )

        return listen

    def _coefficients(self, coef: Array, like: Array) -> dict[str, Array]:
        d = self.n_features_in_
        intercept = coef[:, d].copy() if self.fit_intercept else np.zeros(coef.shape[0])
        slopes = np.ascontiguousarray(coef[:, :d])
        return {"coef_": moved(slopes, like), "intercept_": moved(intercept, like)}

    def _expose(self, solution: PolicyFit, like: Array) -> None:
        for name, value in self._coefficients(solution.coef, like).items():
            setattr(self, name, value)
        self.expected_error_path_ = moved(self._unit * np.array(solution.path), like)
        self.promised_decrease_ = solution.residual
        self.n_iter_ = len(solution.path)

    def _warn(self, stopped: bool, endless: bool) -> None:
        """Warn where more bounds decide worse, and where the fit is not at its end, or has none."""
        if endless and isinf(self.C):
            warnings.warn(NO_OPTIMUM, ConvergenceWarning, stacklevel=FIT_DEPTH)
        one, every = getattr(self, "held_out_costs_", (0.0, 0.0))
        if every > one:
            warnings.warn(
                f"On held-out rows decisions cost {every:.4g} with n_bounds={self.n_bounds}, "
                f"more than {one:.4g} with one bound. Choose C anew, or n_bounds=1. "
                f"{Pitfall.MORE_BOUNDS}",
                UserWarning,
                stacklevel=FIT_DEPTH,
            )
        most = min(_SLACK * self.tol, max(self.tol, MOST_SILENT))
        if not stopped and not self.promised_decrease_ <= most:
            warnings.warn(
                f"The last convex fit stopped {self.promised_decrease_:.1e} from stationary; scale "
                f"the features or raise max_iter (now {self.max_iter}). {Pitfall.NOT_CONVERGED}",
                ConvergenceWarning,
                stacklevel=FIT_DEPTH,
            )

    def _previous(self, labelled: Labelled) -> Array | None:
        """Return coefficients of the last fit, where they can be a start for this one."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        classes = labelled.classes
        n_actions = len(classes) + (labelled.beside or int(self.reject_cost is not None))
        shape = (1 if n_actions == 2 else n_actions, labelled.n_features)
        if self.coef_.shape != shape or not np.array_equal(classes, as_numpy(self.classes_)):
            return None
        coef, intercept = as_numpy(self.coef_), without_empty_classes(as_numpy(self.intercept_))
        return np.column_stack([coef, intercept]) if self.fit_intercept else coef

    # ------------------------------------------------------------------------------------------
    # Decisions
    # ------------------------------------------------------------------------------------------

    def _scores(self, X: Array, method: str) -> Array:
        """Return scores of all actions, for the public method of that name."""
        check_is_fitted(self, "coef_")
        check_same_place(self, X, self.coef_, method)
        X = validated(self, X, reset=False, **ACCEPTED)
        return linear_scores(X, self.coef_, self.intercept_)

    def _class_scores(self, X: Array, method: str) -> Array:
        """Return scores of classes alone: (n, K), or (n, 1) log-odds of two actions."""
        scores = self._scores(X, method)
        return scores if scores.shape[1] == 1 else scores[:, : self.classes_.shape[0]]

    @lazily
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the log-odds of the positive class, or the K scores.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, K)
            Those of staying undecided are not among them.
        """
        scores = self._class_scores(X, "decision_function")
        if scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @lazily
    def policy_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the actions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        proba : ndarray of shape (n_samples, A)
            One column for each of ``actions_``.
        """
        return class_probabilities(self._scores(X, "policy_proba"))

    @lazily
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classes, among decisions for one of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        proba : ndarray of shape (n_samples, K)
            With ``n_bounds`` > 1 they saturate: they are probabilities of decisions, not calibrated
            ones of classes.
        """
        return class_probabilities(self._class_scores(X, "predict_proba"))

    @lazily
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Logarithm of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, K)
            Finite also where a probability underflows.
        """
        return log_probabilities(self._class_scores(X, "predict_log_proba"))

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """Take the most probable action; under a limit, by its threshold.

        A policy has learnt what to do, costs of rows included: it has no thresholds that other
        costs could move, and takes none here. Decide by costs that are known only now with
        :class:`TruncatedLogisticRegression` or :class:`BayesDecisionClassifier`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels, or the undecided label.
        """
        scores = self._scores(X, "predict")  # checks that there is a fit
        return labels_at(self.actions_, actions_of(scores, self._cut))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
        return tags
