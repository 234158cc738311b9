"""Truncated logistic regression that chooses its penalty and its zone by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from grayzone.estimators._base import SupportVectorClassifier, class_probabilities, decided
from grayzone.estimators._callbacks import FIT_DEPTH, CallbackSupportMixin, with_callbacks
from grayzone.estimators._search import (
    FoldedRows,
    Scorer,
    Searched,
    best_places,
    check_cs,
    on_folds,
    scored,
    scorer_of,
    shared_parameters,
    take_over,
)
from grayzone.estimators._tails import Tailed
from grayzone.estimators.truncated import CONSTANT_HELP, TruncatedLogisticRegression
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import all_or_nothing, as_numpy
from grayzone.numerics.kernels import Kernel
from grayzone.solvers import Solution
from grayzone.solvers.kernel.choose import check_kernel_matrix, kernel_for
from grayzone.solvers.kernel.device_matrix import KernelValues
from grayzone.solvers.kernel.device_path import fit_path
from grayzone.sources.labelled import Labelled
from grayzone.sources.open import open_rows, refuse_blocks

Array = Any

# Rows from which a start saves time; fewer are solved outright from nothing, and more precisely.
_WORTH_A_START = 2000


class TruncatedLogisticRegressionCV(
    Searched, CallbackSupportMixin, Tailed, SupportVectorClassifier
):
    r"""Truncated logistic regression with C and the zone chosen by cross-validation.

    In each fold the data, and the kernel values, are prepared once; then every pair of a C and a
    zone is fitted, each fit starting from the solution of the one before. The pair with the best
    mean score is fitted to all rows. Ties go to the smaller C, then to the narrower zone, which
    is the sparser model.

    Parameters
    ----------
    Cs : int or array-like of floats, default=10
        Values of C to choose from; an integer is that many on a logarithmic scale from 1e-4 to 1e4.
    zones : sequence, default=(0.5, 1.0, 2.0)
        Zones to choose from, each in one of the forms that
        :class:`TruncatedLogisticRegression` takes: a half-width h in log-odds around the threshold,
        None for the full likelihood, a pair ``(p_min, p_max)``, caps of the classes.
    cv : int, cross-validation generator, iterable or None, default=None
        Folds whose rows are held out; None is 5, stratified, and an integer is that many.
    scoring : str, callable or None, default=None
        What is better; None is the negative expected cost of decisions, with the costs of the
        fit. A callable is ``scorer(estimator, X, y)``, and a name one of
        :func:`sklearn.metrics.get_scorer_names`. Scorers that take ``sample_weight`` are given it.
    refit : bool, default=True
        Fit the best pair to all rows. Otherwise the pair is chosen, and there is no model to
        predict with.
    n_jobs : int or None, default=None
        Folds that are worked on at the same time; None is 1 unless in a
        :obj:`joblib.parallel_backend` context.
    costs : None, "balanced", mapping or array of shape (K, K), default=None
        Costs of errors, as in :class:`TruncatedLogisticRegression`. "balanced" is that of the
        training rows in each fold. Where costs are ranges, widths of ``zones`` are in units of the
        range of thresholds.
    reject_cost : float, mapping or array of shape (K,), default=None
        Cost of staying undecided, in decisions and in the default scoring. None: always decide.
    undecided_label : "auto", str or number, default="auto"
        What ``predict`` returns for undecided rows; "auto" is -1 beside numbers and "undecided"
        beside strings.
    tails : {"calibrated", "as-fitted"}, default="calibrated"
        Log-odds beyond the zone, as in :class:`TruncatedLogisticRegression`.
    kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed"} or callable, \
            default="linear"
        Kernel of f, as in :class:`TruncatedLogisticRegression`.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernels; "scale" is that of the training rows in each fold.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Independent term of the polynomial and sigmoid kernels.
    loss : {"truncated", "ramp"}, default="truncated"
        "ramp" also saturates the other side.
    cache_size : float, default=1000
        Megabytes that kernel values may take, in each job.
    fit_intercept : bool, default=True
        Whether to fit an (unpenalised) intercept.
    class_weight : mapping, "balanced" or None, default=None
        Weights of the classes in the loss. For costs of *decisions* use ``costs``.
    solver : {"auto", "active-set", "primal"}, default="auto"
        As in :class:`TruncatedLogisticRegression`.
    tol : float, default=1e-6
        Relative accuracy: a fit may stop once what is left to gain is at most ``tol`` times the
        objective, by its duality gap.
    max_iter : int, default=1000
        Most iterations of the solver, in each fit.
    random_state : int, RandomState instance or None, default=None
        Draws the subsets from which large fits start; the optimum does not depend on it.

    Attributes
    ----------
    C_ : float
        The chosen C.
    best_zone_ : float, None, pair, mapping or array
        The chosen entry of ``zones``.
    Cs_ : ndarray of shape (n_Cs,)
        The values of C, in the order of ``scores_``.
    scores_ : ndarray of shape (n_zones, n_Cs, n_folds)
        Score of every pair on the held-out rows of every fold.
    n_iter_ : int
        Iterations of the solver in all fits.
    n_iters_path_ : ndarray of shape (n_zones, n_Cs, n_folds)
        Iterations in each fit of the folds; where several zones are the same one, of the only fit.
    classes_ : ndarray of shape (K,)
        Class labels; ``classes_[1]`` is the positive one of two.
    actions_ : ndarray of shape (K,) or (K + 1,)
        What ``predict`` can return: the classes and, with ``reject_cost``, the undecided label.
    coef_ : ndarray of shape (1, n_features) or (K, n_features)
        Coefficients of the chosen model, fitted to all rows, as are all attributes that follow;
        only with the linear kernel.
    intercept_ : ndarray of shape (1,) or (K,)
        Intercepts.
    zone_ : tuple of two floats, or ndarray of shape (K,)
        The zone ``(p_min, p_max)``, or the caps of K > 2 classes.
    tail_slopes_ : ndarray of shape (2,) or (K,)
        Slopes of the log-odds of each class beyond its end of the zone.
    threshold_ : float or None
        Decision threshold of two classes; None for more, and with ``reject_cost``.
    cost_matrix_ : ndarray of shape (K, K)
        ``cost[true, predicted]``.
    support_ : ndarray of shape (n_support,)
        Rows with a multiplier > 0.
    support_vectors_ : {array, sparse array} of shape (n_support, n_features)
        Those rows of X.
    dual_coef_ : ndarray of shape (1, n_support) or (K, n_support)
        Signed dual variables times C.
    partition_ : ndarray of shape (n_samples,)
        For each row: 0 saturated, 1 on the hinge, 2 logarithmic.
    objective_ : float
        Criterion (8), summed and weighted.
    dual_gap_ : float
        Relative duality gap.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has names that are all strings.

    See Also
    --------
    TruncatedLogisticRegression : One fit, with C and a zone that are given.
    grayzone.metrics.expected_cost : What the default scoring measures.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from grayzone import TruncatedLogisticRegressionCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = TruncatedLogisticRegressionCV(Cs=[0.01, 0.1, 1.0], costs={0: 5, 1: 1})
    >>> clf.fit(scale(X), y).scores_.shape
    (3, 3, 5)
    >>> clf.C_ in clf.Cs_, clf.best_zone_ in clf.zones
    (True, True)
    """

    def __init__(
        self,
        *,
        Cs: Any = 10,
        zones: Any = (0.5, 1.0, 2.0),
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        n_jobs: int | None = None,
        costs: Any = None,
        reject_cost: Any = None,
        undecided_label: Any = "auto",
        tails: str = "calibrated",
        kernel: Any = "linear",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        loss: str = "truncated",
        cache_size: float = 1000,
        fit_intercept: bool = True,
        class_weight: Any = None,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.Cs = Cs
        self.zones = zones
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.costs = costs
        self.reject_cost = reject_cost
        self.undecided_label = undecided_label
        self.tails = tails
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.cache_size = cache_size
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    _chosen = "C_ and best_zone_"

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Array, y: Array = None, sample_weight: Array | None = None) -> Self:
        """Choose C and the zone, and fit; on any error the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; with a precomputed kernel, its values for all pairs of rows.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row, in the fits and in the scores.

        Returns
        -------
        self : TruncatedLogisticRegressionCV
            The fitted estimator.
        """
        shared = shared_parameters(self, TruncatedLogisticRegression)
        grid = _Grid(check_cs(self.Cs), _check_zones(self.zones), shared)
        scorer = scorer_of(self)
        grid.model(0, 0)._check_parameters()
        self._forget()
        refuse_blocks(
            self,
            X,
            "Cross-validate on a sample of the rows, then fit TruncatedLogisticRegression to all "
            "blocks with the C_ and best_zone_ that were chosen.",
        )
        labelled = open_rows(
            self,
            X,
            y,
            sample_weight,
            class_weight=self.class_weight,
            by_rows=self.kernel != "linear",
            **self._accepted(),
        )
        if self.kernel == "precomputed":  # before it is split
            check_kernel_matrix(labelled.source.like())
        widths = grid.widths(labelled)
        data = FoldedRows.of(labelled, self.kernel == "precomputed")
        folds = data.folds(self.cv)
        known = _plain_fits(grid, scorer, data, folds, labelled)
        work = partial(_walk_fold, grid, scorer, data)
        paths = on_folds(self, work, [(*fold, k) for fold, k in zip(folds, known, strict=True)])
        last = self._expose(grid, paths, widths, labelled)
        self._tell_unless_converged(paths, last)
        self._tell_if_constant(paths, last)
        return self

    def _expose(
        self, grid: _Grid, paths: list[_Path], widths: Array, labelled: Labelled
    ) -> Solution | None:
        """Set what was chosen and, if so asked, what the chosen model learns from all rows."""
        scores = np.stack([path.scores for path in paths], axis=2)
        n_iters = np.stack([path.n_iter for path in paths], axis=2)
        best = _best_pair(scores, grid.Cs, widths)
        n_iter, solution = int(n_iters.sum()), None
        self.classes_ = labelled.classes
        if self.refit:
            model = grid.model(*best)
            model.n_features_in_ = self.n_features_in_
            solution = model._fit_to(labelled)
            model._tell_unless_faithful(labelled, solution)
            n_iter += model.n_iter_
            take_over(self, model)
        self.best_zone_, self.C_ = grid.zones[best[0]], float(grid.Cs[best[1]])
        self.n_iter_ = n_iter
        self.scores_, self.Cs_, self.n_iters_path_ = (
            moved(values, labelled.like) for values in (scores, grid.Cs, n_iters)
        )
        return solution

    def _supports_arrays(self) -> bool:
        return self.solver == "auto"

    def _n_fits(self) -> int:
        return int(np.prod(self.scores_.shape)) + int(self.refit)

    def _tell_if_constant(self, paths: list[_Path], last: Solution | None) -> None:
        """Warn once, where the model that was chosen is a constant."""
        n_constant = sum(path.n_constant for path in paths)
        if last is None or not last.constant:
            return
        warnings.warn(
            f"The chosen model is a constant, as {n_constant + 1} of {self._n_fits()} fits are: "
            "the class priors lie outside the zone, and no function of these features gains more "
            f"than its penalty. {CONSTANT_HELP}",
            UserWarning,
            stacklevel=FIT_DEPTH,
        )

    def _tell_unless_converged(self, paths: list[_Path], last: Solution | None) -> None:
        n_failed = sum(path.n_failed for path in paths)
        n_failed += last is not None and not last.fine(self.tol)
        if n_failed == 0:
            return
        warnings.warn(
            f"{n_failed} of {self._n_fits()} fits stopped above a relative duality gap of tol="
            f"{self.tol:g}. Scale the features, raise max_iter (now {self.max_iter}) or tol, or "
            "leave large values out of Cs.",
            ConvergenceWarning,
            stacklevel=FIT_DEPTH,
        )


class _Grid(NamedTuple):
    """Values of C and zones, and the parameters that all fits share."""

    Cs: Array
    zones: list[Any]
    shared: dict[str, Any]

    def model(self, zone: int, C: int) -> TruncatedLogisticRegression:
        """Return the estimator of one pair, not fitted."""
        return TruncatedLogisticRegression(
            C=float(self.Cs[C]), zone=self.zones[zone], **self.shared
        )

    def caps(self, zone: int, labelled: Labelled) -> tuple[float, ...]:
        """Caps of the classes in a zone, once the threshold is known."""
        model = self.model(zone, 0)
        model._set_decision(labelled)
        return tuple(model._caps().tolist())

    def is_plain(self, zone: int, labelled: Labelled) -> bool:
        """Whether a zone leaves the full likelihood."""
        model = self.model(zone, 0)
        model._set_decision(labelled)
        return not np.any(np.isfinite(model._floors()))

    def widths(self, labelled: Labelled) -> Array:
        """Widths of the zones: p_max - p_min, but for a constant."""
        return np.array([sum(self.caps(k, labelled)) for k in range(len(self.zones))])


class _Path(NamedTuple):
    """What one fold says about every pair; arrays are (n_zones, n_Cs)."""

    scores: Array
    n_iter: Array
    n_failed: int
    n_constant: int


class _Judged(ClassifierMixin, BaseEstimator):
    """A model of which all that is left are its scores of the rows that it is judged by."""

    def __init__(self, scores: Array, model: TruncatedLogisticRegression) -> None:
        self.scores, self._reject_costs = scores, model._reject_costs
        self.classes_, self.actions_ = as_numpy(model.classes_), as_numpy(model.actions_)
        self.cost_matrix_ = as_numpy(model.cost_matrix_)

    def decision_function(self, X: Array) -> Array:
        return self.scores[:, 0] if self.scores.shape[1] == 1 else self.scores

    def predict_proba(self, X: Array) -> Array:
        return class_probabilities(self.scores)

    def predict(self, X: Array) -> Array:
        return decided(self, self.predict_proba(X))


def _judge(scorer: Scorer, data: FoldedRows, test: Array, scores: Array, model: Any) -> float:
    """Score of the decisions that scores on a device lead to: scorers are NumPy's."""
    judged = _Judged(as_numpy(scores), model)
    nothing = np.empty((test.size, 0))
    weight = None if data.weight is None else data.weight[test]
    return scored(scorer, judged, nothing, data.y[test], weight)


# Rows to fit to, and rows that are held out.
_Fold = tuple[Array, Array]


class _Result(NamedTuple):
    """What is known of one pair in one fold."""

    score: float
    n_iter: int
    fine: bool  # whether the fit reached its tolerance
    constant: bool = False


_Known = dict[tuple[int, int], _Result]


def _walk_fold(
    grid: _Grid, scorer: Scorer, data: FoldedRows, train: Array, test: Array, known: _Known
) -> _Path:
    """Fit all pairs to the training rows of one fold, and score them on the others."""
    labelled = data.labelled(train, grid.shared["class_weight"])
    held_out, y, weight = data.take(test, train)
    order = np.argsort(grid.Cs, kind="stable")
    shape = len(grid.zones), grid.Cs.size
    results, first_of, coef = dict(known), dict[tuple[float, ...], int](), dict[int, Array]()
    for zone in range(shape[0]):
        twin = first_of.setdefault(grid.caps(zone, labelled), zone)
        before = order[0]  # of the last zone
        for C in order:
            if twin < zone:
                results[zone, C] = results[twin, C]
            if (zone, C) in results:
                continue
            model = grid.model(zone, C)
            model.n_features_in_ = int(held_out.shape[1])
            solution = _fit_from(model, labelled, coef.get(before))
            coef[C], before = solution.coef, C
            if data.elsewhere:
                score = _judge(scorer, data, test, model._scores(held_out, "predict"), model)
            else:
                score = scored(scorer, model, held_out, y, weight)
            fine = solution.fine(model.tol)
            results[zone, C] = _Result(score, model.n_iter_, fine, solution.constant)
    scores, n_iter = np.empty(shape), np.empty(shape, dtype=int)
    for place, result in results.items():
        scores[place], n_iter[place] = result.score, result.n_iter
    fitted = [result for (zone, _), result in results.items() if zone in first_of.values()]
    n_failed = sum(not result.fine for result in fitted)
    return _Path(scores, n_iter, n_failed, sum(result.constant for result in fitted))


def _fit_from(
    model: TruncatedLogisticRegression, labelled: Labelled, start: Array | None
) -> Solution:
    """Fit from the solution of another pair where that is the shorter way, else from nothing."""
    if start is not None and labelled.n_rows >= _WORTH_A_START:
        solution = model._fit_to(labelled, start, several_fits=True)
        if model.dual_gap_ <= model.tol:
            return solution
    return model._fit_to(labelled, several_fits=True)


# ----------------------------------------------------------------------------------------------
# Plain kernel logistic regression on a device: all penalties and folds at once
# ----------------------------------------------------------------------------------------------


def _plain_fits(
    grid: _Grid, scorer: Scorer, data: FoldedRows, folds: list[_Fold], whole: Labelled
) -> list[_Known]:
    """Fit what can be fitted at once: folds and penalties of two classes share a kernel matrix.

    All zones without an edge are the same fits.
    """
    known: list[_Known] = [{} for _ in folds]
    model = grid.model(0, 0)
    kernels = data.elsewhere and model.kernel != "linear" and model.loss == "truncated"
    zones = [zone for zone in range(len(grid.zones)) if grid.is_plain(zone, whole)]
    if not (kernels and zones and len(whole.classes) == 2):
        return known
    # the width of a kernel may depend on the rows of a fold
    groups: dict[Kernel, dict[int, Labelled]] = {}
    for number, (train, _) in enumerate(folds):
        labelled = data.labelled(train, grid.shared["class_weight"])
        groups.setdefault(kernel_for(model, labelled), {})[number] = labelled
    for kernel, members in groups.items():
        values = KernelValues(kernel, data.X)
        if values.kept is None:  # no room: one after the other, each planning its own memory
            continue
        for (number, C), result in _fit_at_once(grid, scorer, data, folds, values, members):
            known[number].update({(zone, C): result for zone in zones})
    return known


def _fit_at_once(
    grid: _Grid,
    scorer: Scorer,
    data: FoldedRows,
    folds: list[_Fold],
    values: KernelValues,
    members: dict[int, Labelled],
) -> Iterator[tuple[tuple[int, int], _Result]]:
    """Fit these folds for all penalties; gives what is known of each fold and C."""
    model = grid.model(0, 0)
    weight = np.zeros((data.y.shape[0], len(members)))
    for column, (number, labelled) in enumerate(members.items()):
        assert labelled.held is not None
        seen = folds[number][0][as_numpy(labelled.held.places())]
        weight[seen, column] = as_numpy(labelled.held.weight)
    path = fit_path(
        values,
        moved(np.where(data.y == np.unique(data.y)[1], 1.0, -1.0), data.X),
        moved(weight, data.X),
        1.0 / grid.Cs,
        fit_intercept=model.fit_intercept,
        tol=model.tol,
        max_iter=model.max_iter,
    )
    scores = as_numpy(path.scores)
    pairs = ((number, C) for number in members for C in range(grid.Cs.size))
    for place, (number, C) in enumerate(pairs):
        model._set_decision(members[number])
        test = folds[number][1]
        score = _judge(scorer, data, test, scores[test, place][:, None], model)
        fine = bool(path.gaps[place] <= model.tol)
        yield (number, C), _Result(score, int(path.n_iter[place]), fine)


def _best_pair(scores: Array, Cs: Array, widths: Array) -> tuple[int, int]:
    """Zone and C with the best mean score; of several, the smallest C, then the narrowest zone."""
    ties = best_places(scores, "C and zone")
    zone, C = min(ties, key=lambda pair: (Cs[pair[1]], widths[pair[0]]))
    return int(zone), int(C)


def _check_zones(zones: Any) -> list[Any]:
    listed = isinstance(zones, (Sequence, np.ndarray)) and not isinstance(zones, str)
    if not listed or not len(zones):
        raise ValueError(f"zones must be a sequence of at least one zone; got {zones!r}.")
    return list(zones)
