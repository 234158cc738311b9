"""Import vector machine that chooses its penalty while it chooses its points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from grayzone.estimators._base import FunctionClassifier, move_decision
from grayzone.estimators._callbacks import CallbackSupportMixin, with_callbacks
from grayzone.estimators._contradictions import tell_contradictions
from grayzone.estimators._draws import random_state_of
from grayzone.estimators._empty_classes import leaves_out_empty_classes
from grayzone.estimators._judging import Judge, judge_of
from grayzone.estimators._search import (
    Scorer,
    Searched,
    best_places,
    check_cs,
    check_folds_of_blocks,
    folds_of,
    negative_cost,
    on_folds,
    shared_parameters,
    take_over,
)
from grayzone.estimators.import_vector import ImportVectorMachine
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import all_or_nothing
from grayzone.numerics.namespace import is_numpy_array
from grayzone.numerics.threads import own_threads
from grayzone.solvers.greedy import Growth, approximate_cv
from grayzone.sources.labelled import Labelled
from grayzone.sources.open import in_blocks, open_rows
from grayzone.sources.split import Fold, Side, check_fraction, split

Array = Any


class ImportVectorMachineCV(Searched, CallbackSupportMixin, FunctionClassifier):
    r"""Import vector machine with C chosen on held-out rows, along one path of import points.

    Steps (C1) to (C5) of Zhu & Hastie [1]_: from the strongest penalty on, points are added until
    the stopping rule holds; then the penalty is lowered and points are added to those there
    are, and so on. Few points are needed where the penalty is strong, so that all values of C cost
    little more than the last one alone. The C with the best score on held-out rows is taken, and
    the path to it repeated on all rows.

    Parameters
    ----------
    Cs : int or array-like of floats, default=10
        Values of C to choose from, :math:`1/\lambda`; an integer is that many on a logarithmic
        scale from 1e-4 to 1e4.
    cv : int, cross-validation generator, iterable or None, default=None
        Folds whose rows are held out; None is one stratified split, as in the paper. Of blocks and
        of Dask a number of folds, which then are the same as of arrays.
    validation_fraction : float, default=0.2
        Share of rows that are held out where ``cv`` is None.
    scoring : str, callable or None, default=None
        What is better; None is the negative expected cost of decisions, with the costs of the
        fit (without any, the negative error rate), "neg_log_loss" is for probabilities. A callable
        is ``scorer(estimator, X, y)``. Scorers that take ``sample_weight`` are given it. Blocks and
        Dask have no rows at once, only means over rows: None, "neg_log_loss" or "accuracy". "gacv"
        holds no rows out: C has the least generalised approximate cross-validation of the log-loss
        on all of them [2]_, for two classes without a zone, whatever ``cv`` is. For few rows: it
        chooses as well as a third of them held out, not as well as five folds, in a fifth of the
        time. ``score`` then is that of None.
    refit : bool, default=True
        Fit to all rows with the chosen C. Otherwise there is no model to predict with.
    n_jobs : int or None, default=None
        Folds that are worked on at the same time, of arrays in memory. Those of blocks, of Dask and
        on a device are worked on one after the other, each by all that there is.
    kernel : str or callable, default="rbf"
        Kernel, as are all parameters that follow, of :class:`ImportVectorMachine`.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernels; "scale" is that of the training rows in each fold.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Independent term of the polynomial and sigmoid kernels.
    max_import_points : int or None, default=None
        Most import points.
    selection : {"one-step", "exact", "power"}, default="one-step"
        How candidates are compared.
    n_candidates : int or None, default=None
        Rows, drawn anew for each choice, that may be chosen; None is every row.
    points_per_step : int, default=1
        Points that are chosen before each refit.
    allow_removal : bool, default=False
        Whether to leave points out again.
    zone : None, float, pair or caps, default=None
        None is the full likelihood; otherwise the gray zone outside which the loss is truncated.
    tol : float, default=1e-3
        Relative accuracy: the penalty is lowered once what is left to gain is at most ``tol`` times
        the criterion, by the gain of the last ``n_iter_no_change`` additions.
    n_iter_no_change : int, default=3
        The lag of that rule.
    parametrization : {"symmetric", "reference"}, default="symmetric"
        Of K > 2 classes.
    fit_intercept : bool, default=True
        Whether to fit an (unpenalised) intercept.
    costs : None, "balanced", mapping or array of shape (K, K), default=None
        Costs of errors.
    class_weight : mapping, "balanced" or None, default=None
        Weights of the classes in the loss.
    random_state : int, RandomState instance or None, default=None
        Draws candidates and held-out rows; None is the same as 0.

    Attributes
    ----------
    C_ : float
        The chosen C.
    Cs_ : ndarray of shape (n_Cs,)
        The values of C, ascending.
    scores_ : ndarray of shape (n_Cs, n_folds)
        Score on held-out rows of the points that each C ended with; minus GACV, as one fold.
    path_ : dict of ndarrays
        One entry for each point of each path: "fold", "C", "n_import_points", "objective" and
        "score"; made for ``pandas.DataFrame(path_)``. The first entry of each C is that before any
        point is added.
    classes_ : ndarray of shape (K,)
        Class labels; ``classes_[1]`` is the positive one of two.
    import_points_ : ndarray of shape (n_points,)
        Training rows that span the model fitted to all rows, as are all attributes that follow.
    import_vectors_ : {array, sparse array} of shape (n_points, n_features)
        Those rows of X; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_points) or (K, n_points)
        Coefficients of their kernel functions.
    intercept_ : ndarray of shape (1,) or (K,)
        Intercepts.
    objective_path_ : ndarray of shape (n_iter,)
        The criterion after each round of additions, at the penalty of that round.
    objective_ : float
        The criterion of the model.
    dual_gap_ : float
        Relative duality gap of the model among all functions of its import points.
    zone_ : tuple of two floats, or ndarray of shape (K,)
        The zone ``(p_min, p_max)``, or the caps of K > 2 classes.
    threshold_ : float or None
        Decision threshold of two classes; None for more.
    cost_matrix_ : ndarray of shape (K, K)
        ``cost[true, predicted]``.
    n_iter_ : int
        Rounds of additions.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names that are all strings.

    See Also
    --------
    ImportVectorMachine : One fit, with a C that is given.

    References
    ----------
    .. [1] Zhu, J. & Hastie, T. (2002). Support vector machines, kernel logistic regression and
       boosting. Multiple Classifier Systems.
    .. [2] Lin, X. et al. (2000). Smoothing spline ANOVA models for large data sets with Bernoulli
       observations and the randomized GACV. Annals of Statistics.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from grayzone import ImportVectorMachineCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = ImportVectorMachineCV(Cs=[0.1, 1.0, 10.0], random_state=0).fit(scale(X), y)
    >>> clf.C_ in clf.Cs_, clf.import_points_.size < len(y) / 5
    (True, True)
    """

    def __init__(
        self,
        *,
        Cs: Any = 10,
        cv: Any = None,
        validation_fraction: float = 0.2,
        scoring: Any = None,
        refit: bool = True,
        n_jobs: int | None = None,
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        max_import_points: int | None = None,
        selection: str = "one-step",
        n_candidates: int | None = None,
        points_per_step: int = 1,
        allow_removal: bool = False,
        zone: Any = None,
        tol: float = 1e-3,
        n_iter_no_change: int = 3,
        parametrization: str = "symmetric",
        fit_intercept: bool = True,
        costs: Any = None,
        class_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.validation_fraction = validation_fraction
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.max_import_points = max_import_points
        self.selection = selection
        self.n_candidates = n_candidates
        self.points_per_step = points_per_step
        self.allow_removal = allow_removal
        self.zone = zone
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.parametrization = parametrization
        self.fit_intercept = fit_intercept
        self.costs = costs
        self.class_weight = class_weight
        self.random_state = random_state

    _chosen = "C_"

    @all_or_nothing
    @with_callbacks
    @leaves_out_empty_classes
    def fit(self, X: Array, y: Array = None, sample_weight: Array | None = None) -> Self:
        """Choose C and import points, and fit; on any error the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix, Source, Dask collection} of shape (n_samples, n_features)
            Training data, as :meth:`ImportVectorMachine.fit` takes them, wherever they are.
        y : array-like of shape (n_samples,), default=None
            Class labels; None beside blocks, which bring theirs.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row, in the fits and in the scores; None beside blocks.

        Returns
        -------
        self : ImportVectorMachineCV
            The fitted estimator.
        """
        Cs, model = np.sort(check_cs(self.Cs)), self._model()
        judge = self._judge(sample_weight is not None, in_blocks(X))
        model._check_parameters()
        check_fraction(self.validation_fraction)
        self._forget()
        model._check_blocks(X)
        kinds = self._accepted()
        labelled = open_rows(
            self, X, y, sample_weight, class_weight=self.class_weight, by_rows=True, **kinds
        )
        model.n_features_in_ = self.n_features_in_
        model._specify(labelled)  # checks the kernel, before it is split
        rng = random_state_of(self.random_state)
        folds = self._folds(labelled, rng)
        start = partial(_start, seed=int(rng.randint(2**31 - 1)), share=1.0 / (len(folds) + 1))
        work = partial(_walk_fold, self._model(), Cs, judge, start)
        in_memory = labelled.held is not None and is_numpy_array(labelled.like)
        walks = on_folds(self, work, folds, alone=not in_memory)
        path = Cs[: self._choose(Cs, walks, labelled) + 1]
        gave_up = any(walk.gave_up for walk in walks)
        if self.refit:
            with own_threads():
                growth = start(model, labelled, Cs[0])
                for _ in _grow_along(growth, path):
                    pass
                found = growth.model()
                model._expose(growth, found)
            model._tell_unless_certain(model.dual_gap_)
            model._tell_unless_faithful(growth, found)
            take_over(self, model)
            gave_up = gave_up or growth.gave_up
        model._tell_if_not_exact(gave_up)
        tell_contradictions(self)
        return self

    def _choose(self, Cs: Array, walks: list[_Walk], labelled: Labelled) -> int:
        """Set what the folds say, and the C that is best there; return its place."""
        scores = np.column_stack([walk.scores for walk in walks])
        # of several, the first, which has the fewest points
        best = int(best_places(scores, of="C")[0, 0])
        self.C_, self.classes_, self.path_ = float(Cs[best]), labelled.classes, _joined(walks)
        self.Cs_, self.scores_ = moved(Cs, labelled.like), moved(scores, labelled.like)
        move_decision(self, labelled.like)
        return best

    def _model(self) -> ImportVectorMachine:
        """Return the estimator that each path is one of, not fitted."""
        shared = shared_parameters(self, ImportVectorMachine)
        return ImportVectorMachine(**{**shared, "validation_fraction": 0.5})

    def _judge(self, weighted: bool, streamed: bool) -> Judge | None:
        """Return what judges models on held-out rows; None where none are held out."""
        if self._by_formula():
            return None
        if streamed:
            check_folds_of_blocks(self.cv)
        return judge_of(self, weighted, streamed)

    def _folds(self, labelled: Labelled, rng: np.random.RandomState) -> list[Fold]:
        if self._by_formula():
            self._check_formula(labelled)
            everyone = partial(_itself, labelled)
            return [Fold(everyone, everyone)]
        if self.cv is not None:
            return folds_of(labelled, self.cv)
        sides = split(labelled, float(self.validation_fraction), rng)
        return [Fold(*(partial(_itself, side) for side in sides))]

    def _by_formula(self) -> bool:
        """Whether no rows are held out."""
        return isinstance(self.scoring, str) and self.scoring == "gacv"

    def _check_formula(self, labelled: Labelled) -> None:
        if len(labelled.classes) != 2:
            raise ValueError(f"scoring='gacv' is for two classes; y has {len(labelled.classes)}.")
        if self.zone is not None:
            raise ValueError(
                f"scoring='gacv' needs losses that are smooth: zone=None; got zone={self.zone!r}."
            )

    def _scorer(self) -> Scorer:
        """Return what judges a model on rows: the formula knows only those that were fitted."""
        return negative_cost if self._by_formula() else super()._scorer()

    def _supports_arrays(self) -> bool:
        return True

    @property
    def _centres(self) -> Array:
        return self.import_points_

    @property
    def import_vectors_(self) -> Array:
        """Training rows that span f, in the order they were chosen."""
        self._check_fitted()
        return self._vectors


class _Walk(NamedTuple):
    """A path along all values of C: scores at their ends, and one record a step."""

    scores: Array
    records: list[tuple[float, int, float, float]]  # C, points, criterion, score
    gave_up: bool  # whether candidates were too much work to be refitted


def _start(
    model: ImportVectorMachine, labelled: Labelled, C: float, seed: int, share: float
) -> Growth:
    kernel, criterion = model.set_params(C=float(C))._specify(labelled)
    rules = replace(model._rules(), share=share)
    return Growth(labelled, kernel, criterion, rules, np.random.default_rng(seed))


def _grow_along(growth: Growth, Cs: Array) -> Iterator[tuple[int, float]]:
    """Lower the penalty and add points to those there are; gives the place of C at each step."""
    for i, C in enumerate(Cs):
        growth.set_penalty(1.0 / float(C))
        yield i, growth.fitted.objective
        for objective in growth.grow():
            yield i, objective


def _walk_fold(
    model: ImportVectorMachine,
    Cs: Array,
    judge: Judge | None,
    start: Callable[..., Growth],
    train: Side,
    out: Side,
) -> _Walk:
    """Grow points on the training rows of one fold, and judge every step by the others.

    Without a judge, by what approximate cross-validation says of the training rows.
    """
    labelled, held_out = train().weighed_by(model.class_weight), out()
    model.n_features_in_ = labelled.n_features
    records, scores = [], np.empty(Cs.size)
    with own_threads():
        growth = start(model, labelled, Cs[0])
        for i, objective in _grow_along(growth, Cs):
            if judge is None:
                scores[i] = -approximate_cv(growth)
            else:
                model._set_function(growth.model())
                scores[i] = judge(model, held_out)
            records.append((float(Cs[i]), growth.basis.size, objective, float(scores[i])))
    return _Walk(scores, records, growth.gave_up)


def _itself(labelled: Labelled) -> Labelled:
    return labelled


def _joined(walks: list[_Walk]) -> dict[str, Array]:
    fold = np.repeat(np.arange(len(walks)), [len(walk.records) for walk in walks])
    columns = zip(*(record for walk in walks for record in walk.records), strict=True)
    names = ("C", "n_import_points", "objective", "score")
    return {"fold": fold} | {n: np.array(c) for n, c in zip(names, columns, strict=True)}
