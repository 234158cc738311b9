"""Tighter bounds where they pay, and logistic regression with Bayes' rule where they do not."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from grayzone.decision import bayes_decision
from grayzone.decision.costs import has_threshold, threshold_of
from grayzone.estimators._base import class_probabilities, labels_at
from grayzone.estimators._callbacks import FIT_DEPTH, with_callbacks
from grayzone.estimators._contradictions import tell_contradictions
from grayzone.estimators._empty_classes import leaves_out_empty_classes
from grayzone.estimators._gate import Yardstick, of_all_rows
from grayzone.estimators._lazy import lazily
from grayzone.estimators._partial_fit import ACCEPTED
from grayzone.estimators._search import (
    FoldedRows,
    best_places,
    check_cs,
    fold_by_fold,
    shared_parameters,
    take_over,
)
from grayzone.estimators.tight_bound import TightBoundLogisticRegression
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import all_or_nothing, as_numpy
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pitfalls import Pitfall
from grayzone.solvers.policy.decisions import actions_of
from grayzone.sources.open import open_rows, refuse_blocks

Array = Any

# Standard errors by which bounds have to be cheaper.
_ERRORS = 1.0
# Thresholds that costs are averaged over, in log-odds on either side.
_NEARBY = 0.5


class TightBoundLogisticRegressionCV(TightBoundLogisticRegression):
    r"""Tighter bounds if they decide better than logistic regression, by cross-validation.

    First C is chosen for plain logistic regression, by the log-loss of held-out rows. Then
    ``n_bounds`` bounds of the expected cost are fitted with this C, as in
    :class:`TightBoundLogisticRegression`. They have to pass a *gate*: they are taken only if their
    decisions on held-out rows are cheaper than those of logistic regression with Bayes' rule, row
    by row, by more than one standard error,

    .. math:: \bar d > s, \qquad s^2 = \tfrac{n}{n - 1} \sum_i \bar w_i^2 (d_i - \bar d)^2,

    where :math:`d_i` is what row i saves and :math:`\bar w_i` its share of the weight. Two actions
    are judged by their cost averaged over thresholds within half a unit of log-odds of the one that
    decides, which depends less on single rows (scores of both are brought to the same standard
    deviation). Otherwise logistic regression itself is kept, fitted
    without costs, with Bayes' rule for these costs (Chow's rule with ``reject_cost``); ``gate_``
    says which way it went and by how much.

    Parameters
    ----------
    Cs : int or array-like of floats, default=10
        Values of C to choose from; an integer is that many on a logarithmic scale from 1e-4 to 1e4.
    n_bounds : int, default=3
        How many bounds are tried.
    costs : None, "balanced", mapping or array of shape (K, K), default=None
        Costs of errors: None (1 each), "balanced", ``{label: cost}`` or ``cost[true, decided]``.
    reject_cost : float, mapping or array of shape (K,), default=None
        Cost, in that unit, of staying undecided.
    undecided_label : "auto", str or number, default="auto"
        What ``predict`` returns for it; "auto" is -1 beside numbers and "undecided" beside strings.
    cv : int, cross-validation generator, iterable or None, default=None
        Folds whose rows are held out; None is 5, stratified, and an integer is that many.
    n_jobs : int or None, default=None
        Folds that are worked on at the same time; None is 1 unless in a
        :obj:`joblib.parallel_backend` context.
    solver : {"auto", "mm", "direct"}, default="auto"
        As in :class:`TightBoundLogisticRegression`.
    fit_intercept : bool, default=True
        Whether to fit an (unpenalised) intercept.
    class_weight : mapping, "balanced" or None, default=None
        Weights of the classes in the loss. For costs of *decisions* use ``costs``.
    tol : float, default=1e-6
        Relative accuracy of each fit, as in :class:`TightBoundLogisticRegression`.
    max_iter : int, default=100
        Most Newton steps for each bound.

    Attributes
    ----------
    C_ : float
        The chosen C.
    gate_ : dict
        Which way it went, and by how much: ``accepted``, ``chosen`` (in words), ``candidate`` (the
        bounds and C that were tried), ``gain`` (mean cost that they save on held-out rows),
        ``standard_error``, ``required_gain`` (what the gain has to exceed) and ``plain_cost`` (what
        logistic regression costs there).
    oof_decision_function_ : ndarray of shape (n_samples,) or (n_samples, K)
        Log-odds, or scores, of every row by what was chosen, fitted in the fold that held the row
        out (the mean of several, NaN where no fold did).
    Cs_ : ndarray of shape (n_Cs,)
        The values of C, in the order of ``scores_``.
    scores_ : ndarray of shape (n_Cs, n_folds)
        Negative log-loss of logistic regression on the held-out rows of every fold.
    classes_ : ndarray of shape (K,)
        Class labels; ``classes_[1]`` is the positive one of two.
    actions_ : ndarray of shape (A,)
        What ``predict`` can return: the classes and, with ``reject_cost``, the undecided label.
    coef_ : ndarray of shape (1, n_features), (K, n_features) or (A, n_features)
        Coefficients of the log-odds; else those of the A actions' scores if the bounds were taken,
        and those of the K classes' scores if not.
    intercept_ : ndarray of shape (1,), (K,) or (A,)
        Intercepts.
    threshold_ : float or None
        Probability from which on ``predict`` decides for the positive class: 1/2 if the bounds were
        taken, that of Bayes' rule if not. None where there are other than two actions.
    cost_matrix_ : ndarray of shape (K, K)
        ``cost[true, decided]``.
    expected_error_path_ : ndarray of shape (n_iter,)
        J after each bound, only if the bounds were taken.
    promised_decrease_ : float
        Relative decrease that the last Newton step of the last fit promised.
    n_iter_ : int
        Bounds (steps) taken in the fit to all rows.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names that are all strings.

    See Also
    --------
    TightBoundLogisticRegression : One fit, with a C that is given; also under limits.
    TruncatedLogisticRegressionCV : The same with zones in place of bounds.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from grayzone import TightBoundLogisticRegressionCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = TightBoundLogisticRegressionCV(Cs=[0.01, 0.1, 1.0], costs={0: 20, 1: 1})
    >>> clf.fit(scale(X), y).gate_["chosen"]
    'logistic regression, C=1'
    >>> clf.gate_["gain"] < clf.gate_["required_gain"]
    True
    >>> round(clf.threshold_, 3)
    0.952
    """

    def __init__(
        self,
        *,
        Cs: Any = 10,
        n_bounds: int = 3,
        costs: Any = None,
        reject_cost: Any = None,
        undecided_label: Any = "auto",
        cv: Any = None,
        n_jobs: int | None = None,
        solver: str = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-6,
        max_iter: int = 100,
    ) -> None:
        self.Cs = Cs
        self.n_bounds = n_bounds
        self.costs = costs
        self.reject_cost = reject_cost
        self.undecided_label = undecided_label
        self.cv = cv
        self.n_jobs = n_jobs
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter

    @all_or_nothing
    @with_callbacks
    @leaves_out_empty_classes
    def fit(  # type: ignore[override]  # costs of rows: only once the gate has decided who decides
        self, X: Array, y: Array = None, sample_weight: Array | None = None
    ) -> Self:
        """Choose C, try the bounds, and fit; on any error the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row, in the fits and in what decisions cost.

        Returns
        -------
        self : TightBoundLogisticRegressionCV
            The fitted estimator.
        """
        Cs = check_cs(self.Cs)
        shared = shared_parameters(self, TightBoundLogisticRegression)
        bounds = TightBoundLogisticRegression(**shared)
        bounds._check_parameters()
        refuse_blocks(
            self,
            X,
            "Cross-validate on a sample of the rows, then fit TightBoundLogisticRegression to all "
            "blocks with the C_ that was chosen.",
        )
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        labelled = open_rows(
            self, X, y, sample_weight, class_weight=self.class_weight, by_rows=True, **ACCEPTED
        )
        decision = labelled.classes, labelled.prior, labelled.like
        costs, data = self._decide(*decision), FoldedRows.of(labelled, pairwise=False)
        yardstick = Yardstick.of(labelled, data.y, data.weight, costs)
        plain = clone(bounds).set_params(n_bounds=1, costs=None, reject_cost=None, warm_start=True)
        found, walks = self._choose(_Contest(plain, bounds, Cs, data, yardstick))
        accepted = found["gate_"]["accepted"]
        model = clone(bounds if accepted else plain).set_params(C=found["C_"], warm_start=False)
        converged = _fit(model, X, y, sample_weight)
        take_over(self, model)
        if not accepted:
            self._decide(*decision)
            del self.expected_error_path_
        for name, value in found.items():
            is_array = isinstance(value, np.ndarray)
            setattr(self, name, moved(value, labelled.like) if is_array else value)
        self._tell_unless_converged(
            sum(walk.n_failed for walk in walks) + (not converged),
            sum(walk.scores.size for walk in walks) + 1,
        )
        tell_contradictions(self)
        return self

    def _choose(self, contest: _Contest) -> tuple[dict[str, Any], list[_Walk]]:
        """Return the attributes that say what was chosen, and what the folds have found."""
        Cs, data, yardstick = contest.Cs, contest.data, contest.yardstick
        folds = data.folds(self.cv)
        with fold_by_fold(self, 2 * len(folds)) as run:
            path = run(contest.walk_plain, folds)
            losses = np.stack([walk.scores for walk in path], axis=1)
            best = min(best_places(losses, "C")[:, 0], key=lambda place: Cs[place])
            C = float(Cs[best])
            tried = run(partial(contest.walk_bounds, C), folds[: len(path)])
        rows = np.concatenate([test for _, test in folds[: len(tried)]])
        before = np.concatenate([walk.of_rows[best] for walk in path[: len(tried)]])
        after = np.concatenate([walk.of_rows[0] for walk in tried])
        paid = _paid(yardstick, rows, before, after)
        verdict = yardstick.compare(rows, *paid, _ERRORS)
        chosen = f"{self.n_bounds} bounds" if verdict.accepted else "logistic regression"
        scores = _of_classes(after if verdict.accepted else before, len(yardstick.costs))
        found = {
            "C_": C,
            "Cs_": Cs,
            "scores_": losses,
            "oof_decision_function_": of_all_rows(rows, scores, len(data.y)),
            "gate_": verdict.record(
                f"{chosen}, C={C:.4g}",
                {"n_bounds": self.n_bounds, "C": C},
                yardstick.mean_cost(rows, paid[0]),
            ),
        }
        return found, path + tried

    def _tell_unless_converged(self, n_failed: int, n_fits: int) -> None:
        if n_failed:
            warnings.warn(
                f"{n_failed} of {n_fits} fits stopped far from stationary. Scale the features, "
                f"raise max_iter (now {self.max_iter}), or leave large values out of Cs. "
                f"{Pitfall.NOT_CONVERGED}",
                ConvergenceWarning,
                stacklevel=FIT_DEPTH,
            )

    @property
    def partial_fit(self) -> Any:
        """Not there: what was chosen belongs to the rows that it was chosen by."""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute 'partial_fit'")

    @property
    def threshold_(self) -> float | None:
        """Probability from which on the positive class is decided for."""
        check_is_fitted(self, "coef_")
        if self.gate_["accepted"] or self.actions_.shape[0] != 2:
            return super().threshold_
        matrix = as_numpy(self.cost_matrix_)
        return threshold_of(matrix) if has_threshold(matrix) else None

    def _taken(self, X: Array, method: str) -> Array:
        """Return the places of the actions of Bayes' rule."""
        proba = class_probabilities(self._scores(X, method))
        return bayes_decision(proba, as_numpy(self.cost_matrix_), reject_cost=self._reject_costs)

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
            One column for each of ``actions_``; of logistic regression with Bayes' rule, which
            leaves nothing to chance, 1 for the action that is taken.
        """
        check_is_fitted(self, "coef_")
        if self.gate_["accepted"]:
            return super().policy_proba(X)
        taken = self._taken(X, "policy_proba")
        xp = array_namespace(taken)
        actions = xp.arange(self.actions_.shape[0], device=device(taken))
        return xp.astype(taken[:, None] == actions[None, :], xp.float64)

    @lazily
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        proba : ndarray of shape (n_samples, K)
            Those of logistic regression or, where the bounds were taken, those of decisions for one
            of the classes, which saturate.
        """
        return super().predict_proba(X)

    @lazily
    def predict(self, X: Any) -> NDArray[Any]:
        """Take the most probable action of the bounds, or that of least expected cost.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels, or the undecided label.
        """
        check_is_fitted(self, "coef_")
        if self.gate_["accepted"]:
            return super().predict(X)
        return labels_at(self.actions_, self._taken(X, "predict"))


class _Walk(NamedTuple):
    """What one fold says about some values of C."""

    scores: Array  # (n_Cs,)
    of_rows: list[Array]  # scores (n, Q) of the rows held out, for each C
    n_failed: int


class _Contest(NamedTuple):
    """Logistic regression and the bounds that are to replace it; neither is fitted."""

    plain: TightBoundLogisticRegression
    bounds: TightBoundLogisticRegression
    Cs: Array
    data: FoldedRows
    yardstick: Yardstick

    def walk_plain(self, train: Array, test: Array) -> _Walk:
        """Fit logistic regression for all values of C, each fit from the one before."""
        order = np.argsort(self.Cs, kind="stable")
        found, n_failed = self._walk(self.plain, self.Cs[order], train, test)
        of_rows = [found[place] for place in np.argsort(order, kind="stable")]
        losses = [-self.yardstick.log_loss(test, scores) for scores in of_rows]
        return _Walk(np.array(losses), of_rows, n_failed)

    def walk_bounds(self, C: float, train: Array, test: Array) -> _Walk:
        """Fit the bounds."""
        (scores,), n_failed = self._walk(self.bounds, np.array([C]), train, test)
        paid = self.yardstick.paid(test, actions_of(scores))
        return _Walk(-np.array([self.yardstick.mean_cost(test, paid)]), [scores], n_failed)

    def _walk(
        self, model: TightBoundLogisticRegression, Cs: Array, train: Array, test: Array
    ) -> tuple[list[Array], int]:
        """Return the scores of held-out rows for each C, and how many fits have not converged."""
        model, given = clone(model), self.data.take(train, train)
        held, found, n_failed = self.data.features(test, train), [], 0
        for C in Cs:
            n_failed += not _fit(model.set_params(C=float(C)), *given)
            found.append(as_numpy(model._scores(held, "predict")))
        return found, n_failed


def _fit(model: TightBoundLogisticRegression, X: Array, y: Array, weight: Array | None) -> bool:
    """Fit, and return whether the fit has converged; of many fits it is said once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(X, y, sample_weight=weight)
    return not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)


def _of_classes(scores: Array, n_classes: int) -> Array:
    """Return scores (n, Q) of actions as log-odds (n, 1) or scores (n, K) of the classes alone."""
    if n_classes > 2 or scores.shape[1] == 1:
        return scores[:, :n_classes]
    return scores[:, 1:2] - scores[:, :1]


# ----------------------------------------------------------------------------------------------
# What the gate judges by
# ----------------------------------------------------------------------------------------------


def _paid(yardstick: Yardstick, rows: Array, plain: Array, bounds: Array) -> tuple[Array, Array]:
    """What rows cost under Bayes' rule on log-loss scores, and under the policy of the bounds."""
    costs = yardstick.costs
    if costs.shape != (2, 2) or not has_threshold(costs):
        decided = yardstick.decided(rows, plain), actions_of(bounds)
        before, after = (yardstick.paid(rows, actions) for actions in decided)
        return before, after
    threshold = threshold_of(costs)
    with np.errstate(divide="ignore"):
        cut = np.log(threshold) - np.log1p(-threshold)
    # scores of decisions are larger; in the same unit, thresholds are as near to both
    own, other = (yardstick.spread(rows, scores[:, 0]) for scores in (plain, bounds))
    unit = other / own if own > 0.0 and other > 0.0 else 1.0
    near = plain[:, 0] - cut, bounds[:, 0] / unit
    before, after = (_paid_near(yardstick, rows, above) for above in near)
    return before, after


def _paid_near(yardstick: Yardstick, rows: Array, above: Array) -> Array:
    """Costs of two actions, averaged over thresholds near the one that scores are above."""
    share = np.clip(0.5 + above / (2.0 * _NEARBY), 0.0, 1.0)
    negative, positive = (yardstick.paid(rows, np.full(rows.size, action)) for action in (0, 1))
    return negative + share * (positive - negative)
