"""Truncated logistic regression that chooses its penalty and its zone by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from grayzone.estimators._base import SupportVectorClassifier
from grayzone.estimators._callbacks import (
    FIT_DEPTH,
    CallbackSupportMixin,
    fit_progress,
    with_callbacks,
)
from grayzone.estimators._search import FoldedRows, Scorer, check_cs, scored, scorer_of
from grayzone.estimators._truncated_blocks import fit_blocks
from grayzone.estimators._truncated_cv_device import DeviceSearch
from grayzone.estimators.truncated import FINE, TruncatedLogisticRegression
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import all_or_nothing, check_weights
from grayzone.solvers import Solution
from grayzone.solvers.training import Training, make_training
from grayzone.sources.open import given_blocks, refuse_blocks
from grayzone.sources.source import HeldSource, Source

Array = Any

# Means of the same scores, summed in another order, differ by less than this share of them.
_ROUNDING = 1e-12
# Rows from which a start saves time; fewer are solved outright from nothing, and more precisely.
_WORTH_A_START = 2000


class TruncatedLogisticRegressionCV(CallbackSupportMixin, SupportVectorClassifier):
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
        Folds; None is 5, stratified, and an integer is that many.
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
        training rows in each fold.
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
        Relative duality gap at which a fit may stop.
    max_iter : int, default=1000
        Most iterations of the solver, in each fit.
    random_state : int, RandomState instance or None, default=None
        Draws the subsets from which large fits start; the optimum does not depend on it.

    Attributes
    ----------
    C_ : float
        The chosen C.
    best_width_ : float, None, pair, mapping or array
        The chosen entry of ``zones``.
    Cs_ : ndarray of shape (n_Cs,)
        The values of C, in the order of ``scores_``.
    scores_ : ndarray of shape (n_zones, n_Cs, n_folds)
        Score of every pair on the held-out rows of every fold.
    n_iter_ : ndarray of shape (n_zones, n_Cs, n_folds)
        Iterations of the solver in each fit; where several zones are the same one, of the only fit.
    classes_ : ndarray of shape (K,)
        Class labels; ``classes_[1]`` is the positive one of two.
    coef_ : ndarray of shape (1, n_features) or (K, n_features)
        Coefficients of the chosen model, fitted to all rows, as are all attributes that follow;
        only with the linear kernel.
    intercept_ : ndarray of shape (1,) or (K,)
        Intercepts.
    zone_ : tuple of two floats, or ndarray of shape (K,)
        The zone ``(p_min, p_max)``, or the caps of K > 2 classes.
    threshold_ : float or None
        Decision threshold of two classes; None for more.
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
    >>> clf.C_ in clf.Cs_, clf.best_width_ in clf.zones
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
        grid = _Grid(check_cs(self.Cs), _check_zones(self.zones), self._shared())
        scorer = scorer_of(self)
        grid.model(0, 0)._check_parameters()
        self._forget()
        refuse_blocks(
            self,
            X,
            "Cross-validate on a sample of the rows, then fit TruncatedLogisticRegression to all "
            "blocks with the C_ and best_width_ that were chosen.",
        )
        source = given_blocks(self, X, y, sample_weight)
        if source is not None:
            return self._fit_held(grid, scorer, source)
        X, y = validate_data(self, X, y, **self._accepted())
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, len(y))
        whole = make_training(grid.model(0, 0), X, y, sample_weight)
        widths = grid.widths(whole)
        rows = FoldedRows(X, y, sample_weight, self.kernel == "precomputed")
        folds = rows.folds(self.cv)
        paths = self._walk(grid, scorer, rows, folds)
        self.classes_, self.Cs_ = whole.classes, grid.Cs
        self.scores_ = np.stack([path.scores for path in paths], axis=2)
        best = _best_pair(self.scores_, grid.Cs, widths)
        self.best_width_, self.C_ = grid.zones[best[0]], float(grid.Cs[best[1]])
        failed = sum(path.n_failed for path in paths)
        if self.refit:
            failed += self._adopt(grid.model(*best), whole)
        self.n_iter_ = np.stack([path.n_iter for path in paths], axis=2)
        self._tell_unless_converged(failed)
        return self

    def _fit_held(self, grid: _Grid, scorer: Scorer, source: Source) -> Self:
        """Do the same with rows on a device."""
        assert isinstance(source, HeldSource)
        X, y, sample_weight, _ = source.block
        search = DeviceSearch(grid, source, self.cv)
        with fit_progress(self, "search", 1) as report:
            search.run(scorer)
            if report is not None:
                report()
        paths = [_Path(*search.path(fold)) for fold in search.folds]
        scores = np.stack([path.scores for path in paths], axis=2)
        best = _best_pair(scores, grid.Cs, grid.widths(search.known))
        self.best_width_, self.C_ = grid.zones[best[0]], float(grid.Cs[best[1]])
        failed = sum(path.n_failed for path in paths)
        if self.refit:
            model = grid.model(*best)
            model.n_features_in_ = self.n_features_in_
            status = fit_blocks(model, HeldSource(X, y, sample_weight), None)
            self._take_over(model)
            failed += int(status not in FINE)
        else:
            self.classes_ = search.known.classes
        self.n_iter_ = moved(np.stack([path.n_iter for path in paths], axis=2), X)
        self.scores_, self.Cs_ = moved(scores, X), moved(grid.Cs, X)
        self._tell_unless_converged(failed)
        return self

    def _shared(self) -> dict[str, Any]:
        """Parameters that every fit has."""
        known = TruncatedLogisticRegression().get_params(deep=False)
        own = self.get_params(deep=False)
        return {name: value for name, value in own.items() if name in known}

    def _walk(self, grid: _Grid, scorer: Scorer, rows: FoldedRows, folds: list[Any]) -> list[_Path]:
        """Fit and score the grid in every fold, or until a callback wants no more of them."""
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        walks = parallel(delayed(_walk_fold)(grid, scorer, rows, *fold) for fold in folds)
        paths = []
        with fit_progress(self, "fold", len(folds)) as report:
            for path in walks:
                paths.append(path)
                if report is not None and report(scores=path.scores):
                    break
        return paths

    def _adopt(self, model: TruncatedLogisticRegression, whole: Training) -> int:
        """Take over what a model learns from all rows; gives the number of failures."""
        found = model._fit_to(whole)
        self._take_over(model)
        return int(found.status not in FINE)

    def _take_over(self, model: TruncatedLogisticRegression) -> None:
        parameters = model.get_params(deep=False)
        for name, value in vars(model).items():
            if name not in parameters:
                setattr(self, name, value)

    def _supports_arrays(self) -> bool:
        return self.solver == "auto"

    def _tell_unless_converged(self, n_failed: int) -> None:
        if n_failed == 0:
            return
        n_fits = int(np.prod(self.scores_.shape)) + int(self.refit)
        warnings.warn(
            f"{n_failed} of {n_fits} fits stopped above a relative duality gap of tol="
            f"{self.tol:g}. Scale the features, raise max_iter (now {self.max_iter}) or tol, or "
            "leave large values out of Cs.",
            ConvergenceWarning,
            stacklevel=FIT_DEPTH,
        )

    def score(self, X: Array, y: Array, sample_weight: Array | None = None) -> float:
        """Score of the decisions or probabilities, by ``scoring``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            True labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            By default the negative expected cost: greater is better.
        """
        return scored(scorer_of(self), self, X, y, sample_weight)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "scores_")
        if "dual_coef_" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} has refit=False: it chose C_ and best_width_, but "
                "fitted no model to predict with."
            )


class _Grid(NamedTuple):
    """Values of C and zones, and the parameters that all fits share."""

    Cs: Array
    zones: list[Any]
    shared: dict[str, Any]

    def model(self, zone: int, C: int) -> TruncatedLogisticRegression:
        """Give the estimator of one pair, not fitted."""
        return TruncatedLogisticRegression(
            C=float(self.Cs[C]), zone=self.zones[zone], **self.shared
        )

    def caps(self, zone: int, training: Any) -> tuple[float, ...]:
        """Caps of the classes in a zone, once the threshold is known."""
        model = self.model(zone, 0)
        model._set_decision(training)
        return tuple(model._caps().tolist())

    def widths(self, training: Any) -> Array:
        """Widths of the zones: p_max - p_min, but for a constant."""
        return np.array([sum(self.caps(k, training)) for k in range(len(self.zones))])


class _Path(NamedTuple):
    """What one fold says about every pair; arrays are (n_zones, n_Cs)."""

    scores: Array
    n_iter: Array
    n_failed: int


def _walk_fold(grid: _Grid, scorer: Scorer, rows: FoldedRows, train: Array, test: Array) -> _Path:
    """Fit all pairs to the training rows of one fold, and score them on the others."""
    X, y, weight = rows.take(train, train)
    held_out = rows.take(test, train)
    training = make_training(grid.model(0, 0), X, y, weight, share=True)
    order = np.argsort(grid.Cs, kind="stable")
    shape = len(grid.zones), grid.Cs.size
    scores, n_iter, n_failed = np.empty(shape), np.empty(shape, dtype=int), 0
    first_of: dict[tuple[float, ...], int] = {}
    coef: dict[int, Array] = {}
    for zone in range(shape[0]):
        twin = first_of.setdefault(grid.caps(zone, training), zone)
        if twin < zone:
            scores[zone], n_iter[zone] = scores[twin], n_iter[twin]
            continue
        before = order[0]  # of the last zone
        for C in order:
            model = grid.model(zone, C)
            validate_data(model, X, skip_check_array=True)  # tells it the number of features
            found = _fit_from(model, training, coef.get(before))
            coef[C], before = found.coef, C
            scores[zone, C] = scored(scorer, model, *held_out)
            n_iter[zone, C] = model.n_iter_
            n_failed += found.status not in FINE
    return _Path(scores, n_iter, n_failed)


def _fit_from(
    model: TruncatedLogisticRegression, training: Training, start: Array | None
) -> Solution:
    """Fit from the solution of another pair where that is the shorter way, else from nothing."""
    if start is not None and training.used.size >= _WORTH_A_START:
        found = model._fit_to(training, start)
        if found.status in FINE and model.dual_gap_ <= model.tol:
            return found
    return model._fit_to(training)


def _best_pair(scores: Array, Cs: Array, widths: Array) -> tuple[int, int]:
    """Zone and C with the best mean score; of several, the smallest C, then the narrowest zone."""
    means = scores.mean(axis=2)
    usable = np.where(np.isnan(means), -np.inf, means)
    best = usable.max()
    if not np.isfinite(best):
        raise ValueError(
            f"scoring gave no finite mean score for any C and zone; the best one is {best}."
        )
    slack = _ROUNDING * np.max(np.abs(scores[np.isfinite(scores)]))
    ties = np.argwhere(usable >= best - slack)
    zone, C = min(ties, key=lambda pair: (Cs[pair[1]], widths[pair[0]]))
    return int(zone), int(C)


def _check_zones(zones: Any) -> list[Any]:
    listed = isinstance(zones, (Sequence, np.ndarray)) and not isinstance(zones, str)
    if not listed or not len(zones):
        raise ValueError(f"zones must be a sequence of at least one zone; got {zones!r}.")
    return list(zones)
