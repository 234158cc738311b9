"""Import vector machine that chooses its penalty while it chooses its points."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from grayzone.estimators._base import FunctionClassifier
from grayzone.estimators._callbacks import CallbackSupportMixin, fit_progress, with_callbacks
from grayzone.estimators._search import FoldedRows, Scorer, check_cs, scored, scorer_of
from grayzone.estimators.import_vector import ImportVectorMachine, Machine
from grayzone.numerics.checks import all_or_nothing, check_weights
from grayzone.numerics.threads import own_threads
from grayzone.solvers.training import label_rows
from grayzone.sources.open import refuse_blocks
from grayzone.sources.split import check_fraction, split_rows

Array = Any

# Means of the same scores, summed in another order, differ by less than this share of them.
_ROUNDING = 1e-12


class ImportVectorMachineCV(CallbackSupportMixin, FunctionClassifier):
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
        Folds; None is one stratified split, as in the paper.
    validation_fraction : float, default=0.2
        Share of rows that are held out where ``cv`` is None.
    scoring : str, callable or None, default=None
        What is better; None is the negative expected cost of decisions, with the costs of the
        fit (without any, the negative error rate), "neg_log_loss" is for probabilities. A callable
        is ``scorer(estimator, X, y)``. Scorers that take ``sample_weight`` are given it.
    refit : bool, default=True
        Fit to all rows with the chosen C. Otherwise there is no model to predict with.
    n_jobs : int or None, default=None
        Folds that are worked on at the same time.
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable, \
            default="rbf"
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
    block_size : int, default=1
        Points that are chosen before each refit.
    removal : bool, default=False
        Whether to leave points out again.
    zone : None, float, pair or caps, default=None
        None is the full likelihood; otherwise the gray zone outside which the loss is truncated.
    tol : float, default=1e-3
        Change of the criterion over the last ``n_iter_no_change`` additions at which the penalty is
        lowered.
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
        Draws candidates and held-out rows.

    Attributes
    ----------
    C_ : float
        The chosen C.
    Cs_ : ndarray of shape (n_Cs,)
        The values of C, ascending.
    scores_ : ndarray of shape (n_Cs, n_folds)
        Score on held-out rows of the points that each C ended with.
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
    objective_path_ : ndarray of shape (n_iter_,)
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
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has names that are all strings.

    See Also
    --------
    ImportVectorMachine : One fit, with a C that is given.

    References
    ----------
    .. [1] Zhu, J. & Hastie, T. (2002). Support vector machines, kernel logistic regression and
       boosting. Multiple Classifier Systems.

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
        block_size: int = 1,
        removal: bool = False,
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
        self.block_size = block_size
        self.removal = removal
        self.zone = zone
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.parametrization = parametrization
        self.fit_intercept = fit_intercept
        self.costs = costs
        self.class_weight = class_weight
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Array, y: Array = None, sample_weight: Array | None = None) -> Self:
        """Choose C and import points, and fit; on any error the estimator stays as it was.

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
        self : ImportVectorMachineCV
            The fitted estimator.
        """
        Cs, scorer, model = np.sort(check_cs(self.Cs)), scorer_of(self), self._model()
        model._check_parameters()
        check_fraction(self.validation_fraction)
        self._forget()
        refuse_blocks(
            self,
            X,
            "Cross-validate on a sample of the rows, then fit ImportVectorMachine with the C_ that "
            "was chosen to all blocks.",
        )
        X, y = validate_data(self, X, y, **self._accepted())
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, len(y))
        validate_data(model, X, skip_check_array=True)  # tells it the number of features
        whole = label_rows(X, y, sample_weight, self.class_weight)
        machine = Machine(model, whole, None)  # checks the kernel, before it is split
        rows = FoldedRows(X, y, sample_weight, self.kernel == "precomputed")
        rng = check_random_state(self.random_state)
        folds = rows.folds(self._splits(whole, rng))
        seed = int(rng.randint(2**31 - 1))
        walks = self._walk(Cs, scorer, rows, folds, seed)
        self.classes_, self.Cs_ = whole.classes, Cs
        self.scores_ = np.column_stack([walk.scores for walk in walks])
        self.path_ = _joined(walks)
        best = _best(self.scores_)
        self.C_ = float(Cs[best])
        if self.refit:
            with own_threads():
                self._adopt(model, machine, Cs[: best + 1], seed)
        return self

    def _model(self) -> ImportVectorMachine:
        """Give the estimator that each path is one of, not fitted."""
        known = ImportVectorMachine().get_params(deep=False)
        own = self.get_params(deep=False)
        shared = {name: value for name, value in own.items() if name in known}
        return ImportVectorMachine(**{**shared, "validation_fraction": 0.5})

    def _splits(self, whole: Any, rng: np.random.RandomState) -> Any:
        if self.cv is not None:
            return self.cv
        train, out = split_rows(whole.codes, whole.classes, self.validation_fraction, rng)
        return [(whole.used[train], whole.used[out])]

    def _walk(
        self, Cs: Array, scorer: Scorer, rows: FoldedRows, folds: list[Any], seed: int
    ) -> list[_Walk]:
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        jobs = (delayed(_walk_fold)(self._model(), Cs, scorer, rows, *f, seed) for f in folds)
        walks = []
        with fit_progress(self, "fold", len(folds)) as report:
            for walk in parallel(jobs):
                walks.append(walk)
                if report is not None and report(scores=walk.scores):
                    break
        return walks

    def _adopt(self, model: ImportVectorMachine, machine: Machine, Cs: Array, seed: int) -> None:
        """Repeat the path on all rows, and take over what it ends with."""
        growth = machine.growth(1.0 / Cs[0], np.random.RandomState(seed))
        for C in Cs:
            growth.set_penalty(1.0 / C)
            for _ in growth.grow():
                pass
        model._expose(machine, machine.model(growth))
        model.objective_path_, model.n_iter_ = np.array(growth.path), len(growth.path)
        parameters = model.get_params(deep=False)
        for name, value in vars(model).items():
            if name not in parameters:
                setattr(self, name, value)

    @property
    def _centres(self) -> Array:
        return self.import_points_

    @property
    def import_vectors_(self) -> Array:
        """Training rows that span f, in the order they were chosen."""
        self._check_fitted()
        return self._vectors

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
                f"This {type(self).__name__} has refit=False: it chose C_, but fitted no model to "
                "predict with."
            )


class _Walk(NamedTuple):
    """A path along all values of C: scores at their ends, and one record a step."""

    scores: Array
    records: list[tuple[float, int, float, float]]  # C, points, criterion, score


def _walk_fold(
    model: ImportVectorMachine,
    Cs: Array,
    scorer: Scorer,
    rows: FoldedRows,
    train: Array,
    test: Array,
    seed: int,
) -> _Walk:
    """Grow points on the training rows of one fold, and score every step on the others."""
    X, y, weight = rows.take(train, train)
    held_out = rows.take(test, train)
    validate_data(model, X, skip_check_array=True)  # tells it the number of features
    records, scores = [], np.empty(Cs.size)

    with own_threads():
        machine = Machine(model, label_rows(X, y, weight, model.class_weight), None)
        growth = machine.growth(1.0 / Cs[0], np.random.RandomState(seed))

        def record(C: float) -> float:
            model._expose(machine, machine.model(growth))
            value = scored(scorer, model, *held_out)
            records.append((float(C), growth.basis.size, growth.fitted.objective, value))
            return value

        for i, C in enumerate(Cs):
            growth.set_penalty(1.0 / C)
            scores[i] = record(C)
            for _ in growth.grow():
                scores[i] = record(C)
    return _Walk(scores, records)


def _joined(walks: list[_Walk]) -> dict[str, Array]:
    fold = np.repeat(np.arange(len(walks)), [len(walk.records) for walk in walks])
    columns = zip(*(record for walk in walks for record in walk.records), strict=True)
    names = ("C", "n_import_points", "objective", "score")
    return {"fold": fold} | {n: np.array(c) for n, c in zip(names, columns, strict=True)}


def _best(scores: Array) -> int:
    """Place of the best mean score; of several, the first, which has the fewest points."""
    means = scores.mean(axis=1)
    usable = np.where(np.isnan(means), -np.inf, means)
    best = usable.max()
    if not np.isfinite(best):
        raise ValueError(f"scoring gave no finite mean score for any C; the best one is {best}.")
    slack = _ROUNDING * np.max(np.abs(scores[np.isfinite(scores)]))
    return int(np.flatnonzero(usable >= best - slack)[0])
