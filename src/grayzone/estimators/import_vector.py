"""Import vector machine: kernel logistic regression on few, greedily chosen training rows."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from grayzone.estimators._base import FunctionClassifier, move_decision
from grayzone.estimators._callbacks import (
    FIT_DEPTH,
    CallbackSupportMixin,
    fit_progress,
    with_callbacks,
)
from grayzone.estimators._contradictions import tell_contradictions
from grayzone.estimators._draws import random_state_of
from grayzone.estimators._empty_classes import leaves_out_empty_classes
from grayzone.estimators._told import unfaithful
from grayzone.estimators._zoned import Zoned
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import (
    all_or_nothing,
    check_choice,
    check_integer,
    check_number,
    check_penalty,
)
from grayzone.numerics.kernels import NAMES, Kernel
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.pitfalls import Pitfall
from grayzone.numerics.threads import own_threads
from grayzone.solvers.greedy import Criterion, Growth, Model, Rules, Watch, move_points
from grayzone.solvers.kernel.choose import kernel_for
from grayzone.solvers.loop import MOST_SILENT
from grayzone.sources.labelled import Labelled
from grayzone.sources.open import in_blocks, open_rows
from grayzone.sources.split import check_fraction, split

Array = Any


class ImportVectorMachine(CallbackSupportMixin, Zoned, FunctionClassifier):
    r"""Sparse kernel logistic regression with native probabilities.

    Minimises the regularised negative log-likelihood (6) of Zhu & Hastie [1]_,

    .. math:: H = \sum_i w_i \log\bigl(1 + e^{-y_i (f(x_i) + b)}\bigr) + \tfrac{1}{2C} \|f\|^2,
              \qquad f = \sum_{j \in S} a_j K(x_j, \cdot),

    over the coefficients of few training rows S, the *import points*, which are chosen one after
    the other: each time the row that lowers H most. With K > 2 classes the likelihood is the
    multinomial one (9), all classes sharing the import points.

    The optimum over all rows is that of kernel logistic regression, which
    :class:`TruncatedLogisticRegression` with ``zone=None`` finds; a few import points come close to
    it. Memory is that of n_samples times the number of import points.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty, :math:`1/\lambda`.
    kernel : str or callable, default="rbf"
        Kernel, as in :class:`TruncatedLogisticRegression`.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernels; "scale" is 1 / (n_features * X.var()).
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Independent term of the polynomial and sigmoid kernels.
    max_import_points : int or None, default=None
        Most import points; None leaves the number to the stopping rule.
    selection : {"one-step", "exact", "power"}, default="one-step"
        How candidates are compared. "exact" refits for each of them, step (B2) of [1]_, as long as
        that takes no more than some fifteen seconds on 120 rows (counted in steps, not by the
        clock; more on more rows), then goes on as "one-step", and warns. "one-step"
        takes one Newton step, (B2*): much faster, nearly always the same choice. (On many rows H
        itself is computed for the most promising candidates only.) "power" compares squared
        gradients over the part of a kernel function that is not spanned yet: no pass over the basis
        at all, for many rows or classes.
    n_candidates : int or None, default=None
        Rows, drawn anew for each choice, that may be chosen; None is every row. Some hundreds are
        plenty for large data: time grows with this number. They are drawn from all rows, on blocks
        from a stratified part of them (some thousands, at least ``n_candidates``).
    points_per_step : int, default=1
        Points that are chosen before each refit.
    allow_removal : bool, default=False
        Whether to leave points out again, where that gives a lower H than was seen with as few.
    move_points : bool, default=False
        Whether to move the points once they are chosen, downhill to where H is less: the direct
        expansion of [3]_, named in §3.3 of [2]_. At equal numbers of points that is the better
        model, by some 6 % of the log-loss of new rows with 5 to 40 of them, most with few, for the
        time of some hundred refits; on a hundred rows it may fit too well. Moves end by the same
        rule as additions, by ``tol`` and ``n_iter_no_change``, after 100 at most. For
        ``kernel="rbf"`` and dense rows in memory; not with ``early_stopping``.
    zone : None, float, pair or caps, default=None
        None is the full likelihood. Otherwise the loss is truncated outside this gray zone, as in
        :class:`TruncatedLogisticRegression`: import points for where decisions are made
        (§3.3 of [2]_). Where ``costs`` are ranges, 1.0 is the range of thresholds.
    tol : float, default=1e-3
        Relative accuracy: the fit may stop once what is left to gain is at most ``tol`` times the
        objective. That is measured by the gain of the last points: H has changed by less than this
        share of it over the last ``n_iter_no_change`` additions, §3.3 of [1]_. 0 goes on until no
        row adds anything.
    n_iter_no_change : int, default=3
        The lag r of that rule; with ``early_stopping`` also the additions without any gain on
        held-out rows.
    early_stopping : bool, default=False
        Whether to hold rows out and stop where their loss no longer falls; the model with the
        smallest one is kept.
    validation_fraction : float, default=0.1
        Share of rows that ``early_stopping`` holds out, stratified.
    parametrization : {"symmetric", "reference"}, default="symmetric"
        For K > 2 classes: one penalised function a class, or, as in §5 of [1]_, none for the last
        one. The latter depends on which class that is.
    fit_intercept : bool, default=True
        Whether to fit an (unpenalised) intercept.
    costs : None, "balanced", mapping or array of shape (K, K), default=None
        Costs of errors, which ``predict`` obeys, as in :class:`TruncatedLogisticRegression`.
    class_weight : mapping, "balanced" or None, default=None
        Weights of the classes in the loss. For costs of *decisions* use ``costs``.
    random_state : int, RandomState instance or None, default=None
        Draws candidates and held-out rows; not used where there are neither. None is the same as 0.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels; ``classes_[1]`` is the positive one of two.
    import_points_ : ndarray of shape (n_points,)
        Training rows that span f, in the order they were chosen.
    import_vectors_ : {array, sparse array} of shape (n_points, n_features)
        Those rows of X, or where they have moved to; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_points) or (K, n_points)
        Coefficients a of their kernel functions. With ``parametrization="reference"`` those of the
        last class are zero.
    intercept_ : ndarray of shape (1,) or (K,)
        Intercepts.
    objective_path_ : ndarray of shape (n_iter,)
        H after each round of additions (and removals).
    objective_ : float
        H of the model.
    move_path_ : ndarray of shape (n_moves,)
        H after each move of all points; only with ``move_points``.
    dual_gap_ : float
        Relative duality gap of the model among all functions of its import points.
    held_out_path_ : ndarray of shape (n_iter,)
        Mean loss of the held-out rows after each round; only with ``early_stopping``.
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
    ImportVectorMachineCV : Chooses C while import points are being added.
    TruncatedLogisticRegression : The optimum over all training rows.

    References
    ----------
    .. [1] Zhu, J. & Hastie, T. (2002). Support vector machines, kernel logistic regression and
       boosting. Multiple Classifier Systems.
    .. [2] Hérault, R. & Grandvalet, Y. (2007). Sparse probabilistic classifiers. ICML.
    .. [3] Wu, M., Schölkopf, B. & Bakır, G. (2006). A direct method for building sparse kernel
       learning algorithms. JMLR.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from grayzone import ImportVectorMachine
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = ImportVectorMachine(C=10.0, max_import_points=20).fit(scale(X), y)
    >>> len(clf.import_points_), clf.score(scale(X), y) > 0.98
    (20, True)

    Five points that are moved to where they are worth most have a lower H than the first fifteen:

    >>> few = ImportVectorMachine(C=10.0, max_import_points=5, move_points=True).fit(scale(X), y)
    >>> few.import_vectors_.shape, bool(few.objective_ < clf.objective_path_[14])
    ((5, 30), True)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        max_import_points: int | None = None,
        selection: str = "one-step",
        n_candidates: int | None = None,
        points_per_step: int = 1,
        allow_removal: bool = False,
        move_points: bool = False,
        zone: Any = None,
        tol: float = 1e-3,
        n_iter_no_change: int = 3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        parametrization: str = "symmetric",
        fit_intercept: bool = True,
        costs: Any = None,
        class_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.max_import_points = max_import_points
        self.selection = selection
        self.n_candidates = n_candidates
        self.points_per_step = points_per_step
        self.allow_removal = allow_removal
        self.move_points = move_points
        self.zone = zone
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.parametrization = parametrization
        self.fit_intercept = fit_intercept
        self.costs = costs
        self.class_weight = class_weight
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    @leaves_out_empty_classes
    def fit(self, X: Array, y: Array = None, sample_weight: Array | None = None) -> Self:
        """Choose import points and fit; on any error or interruption nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix, Source, Dask collection} of shape (n_samples, n_features)
            Training data; with a precomputed kernel, its values for all pairs of rows. Arrays of
            other libraries stay where they are under scikit-learn's ``array_api_dispatch``, and so
            do fitted attributes. Blocks are a :class:`grayzone.sources.Source`; of them and of
            Dask, candidates are drawn from some thousands of rows. All attributes are set, whatever
            X is.
        y : array-like of shape (n_samples,), default=None
            Class labels; None beside blocks, which bring theirs.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row's loss; None beside blocks.

        Returns
        -------
        self : ImportVectorMachine
            The fitted estimator.
        """
        self._check_parameters()
        self._forget()
        self._check_blocks(X)
        kinds = self._accepted()
        labelled = open_rows(
            self, X, y, sample_weight, class_weight=self.class_weight, by_rows=True, **kinds
        )
        kernel, criterion = self._specify(labelled)
        if self.move_points:
            self._check_movable(labelled)
        rng, out = random_state_of(self.random_state), None
        if self.early_stopping:
            labelled, out = split(labelled, float(self.validation_fraction), rng)
        n_rounds = self._most_rounds()
        with own_threads(), fit_progress(self, "round", n_rounds, X=X, y=y) as report:
            drawing = np.random.default_rng(rng.randint(2**31 - 1))
            growth = Growth(labelled, kernel, criterion, self._rules(), drawing)
            watch = None if out is None else Watch(growth, out)
            for objective in growth.grow():
                enough = watch is not None and watch.saw_enough()
                facts = {"objective": objective, "n_import_points": growth.basis.size}
                stop = report is not None and report(lambda: _function(growth.model()), **facts)
                if stop or enough:
                    break
            model = growth.model() if watch is None else watch.best
            model = self._moved(growth, model) if self.move_points else model
            self._expose(growth, model)
        if watch is not None:
            self.held_out_path_ = moved(np.array(watch.path), labelled.like)
        self._tell_unless_certain(self.dual_gap_)
        self._tell_unless_faithful(growth, model)
        self._tell_if_not_exact(growth.gave_up)
        tell_contradictions(self)
        return self

    def _specify(self, labelled: Labelled) -> tuple[Kernel, Criterion]:
        """Decide what the fit is for, and return its kernel and its criterion."""
        self._set_decision(labelled)
        reference = len(labelled.classes) > 2 and self.parametrization == "reference"
        penalty, floors = 1.0 / self.C, self._floors()
        criterion = Criterion(floors, penalty, self.fit_intercept, reference=reference)
        move_decision(self, labelled.like)
        return kernel_for(self, labelled), criterion

    def _check_parameters(self) -> None:
        check_penalty("C", self.C)
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, NAMES)
        for name in ("max_import_points", "n_candidates"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), least=1)
        check_choice("selection", self.selection, ("one-step", "exact", "power"))
        check_integer("points_per_step", self.points_per_step, least=1)
        if self.selection == "exact" and self.points_per_step > 1:
            raise ValueError(
                f"selection='exact' compares candidates one at a time; points_per_step must then "
                f"be 1, got {self.points_per_step!r}."
            )
        if check_number("tol", self.tol) < 0.0:
            raise ValueError(f"tol must be a finite number >= 0; got {self.tol!r}.")
        check_integer("n_iter_no_change", self.n_iter_no_change, least=1)
        check_choice("parametrization", self.parametrization, ("symmetric", "reference"))
        check_fraction(self.validation_fraction)

    def _check_blocks(self, X: Array) -> None:
        """Raise an error for blocks of what is not made of rows."""
        if self.kernel == "precomputed" and in_blocks(X):
            raise ValueError(
                "kernel='precomputed' needs the kernel values of all pairs of rows at once; blocks "
                "are for kernels that are computed from rows."
            )

    def _check_movable(self, labelled: Labelled) -> None:
        """Raise an error where points cannot leave their rows."""
        reason = None
        if self.kernel != "rbf":
            reason = f"kernel='rbf'; got kernel={self.kernel!r}"
        elif self.early_stopping:
            reason = "early_stopping=False, as all rows say where points go"
        elif labelled.held is None or not is_numpy_array(labelled.held.X):
            reason = "dense rows that are held by NumPy; give X as one array"
        if reason is not None:
            raise ValueError(f"move_points=True needs {reason}.")

    def _moved(self, growth: Growth, model: Model) -> Model:
        """Move points downhill, and keep the way."""
        lag = self.n_iter_no_change
        moves = move_points(growth.labelled, growth.criterion, model, self.tol, lag)
        self.move_path_ = np.array(moves.path)
        return moves.model

    def _most_rounds(self) -> int | None:
        """How many rounds there can be, where that is known."""
        if self.max_import_points is None or self.allow_removal:
            return None
        return -(-self.max_import_points // self.points_per_step)

    def _rules(self) -> Rules:
        return Rules(
            self.selection,
            self.n_candidates,
            self.points_per_step,
            self.allow_removal,
            self.max_import_points,
            self.tol,
            self.n_iter_no_change,
        )

    def _expose(self, growth: Growth, model: Model) -> None:
        """Set what was found."""
        self._set_function(model)
        self.objective_, self.dual_gap_ = model.fitted.objective, growth.gap(model)
        self.objective_path_ = moved(np.array(growth.path), growth.labelled.like)
        self.n_iter_ = len(growth.path)

    @staticmethod
    def _tell_unless_certain(gap: float) -> None:
        if gap <= MOST_SILENT:
            return
        warnings.warn(
            f"The last fit to the import points stopped at a relative duality gap of {gap:.2e}: "
            "rounding errors or a very hard problem. Scale the features, or lower C or the degree "
            f"of a polynomial kernel. {Pitfall.NOT_CONVERGED}",
            ConvergenceWarning,
            stacklevel=FIT_DEPTH,
        )

    def _tell_unless_faithful(self, growth: Growth, model: Model) -> None:
        """Warn where some rows' predictions are not the scores that were fitted."""
        said = unfaithful(self, growth.labelled, partial(growth.scores, model))
        if said is not None:
            warnings.warn(said, ConvergenceWarning, stacklevel=FIT_DEPTH)

    @staticmethod
    def _tell_if_not_exact(gave_up: bool) -> None:
        if not gave_up:
            return
        warnings.warn(
            "selection='exact' was too much work on these data: from some point on, candidates "
            "were compared by one Newton step, as selection='one-step' does. Scale the features, "
            "lower C or the degree of a polynomial kernel, or draw n_candidates. "
            f"{Pitfall.UNSCALED}",
            UserWarning,
            stacklevel=FIT_DEPTH,
        )

    def _set_function(self, model: Model) -> None:
        """Set what predictions need."""
        for name, value in _function(model).items():
            setattr(self, name, value)

    def _supports_arrays(self) -> bool:
        return not self.move_points

    def _accepted(self) -> dict[str, Any]:
        kinds = super()._accepted()
        return {**kinds, "accept_sparse": False} if self.move_points else kinds

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse &= not self.move_points
        return tags

    @property
    def _centres(self) -> Array:
        return self.import_points_

    @property
    def import_vectors_(self) -> Array:
        """Training rows that span f, in the order they were chosen."""
        self._check_fitted()
        return self._vectors


def _function(model: Model) -> dict[str, Any]:
    """Attributes of an estimator that predicts by this function."""
    kernel, vectors = model.span.points.kernel, model.vectors
    dual_coef, intercept = model.dual_coef, model.intercept
    if model.fitted.point.criterion.reference:
        xp = array_namespace(dual_coef)
        dual_coef = xp.concat([dual_coef, xp.zeros_like(dual_coef[:1, :])])
        intercept = xp.concat([intercept, xp.zeros_like(intercept[:1])])
    if kernel.name == "precomputed":
        vectors = moved(np.empty((0, 0)), dual_coef)
    return {
        "import_points_": model.numbers,
        "dual_coef_": dual_coef,
        "intercept_": intercept,
        "_kernel": kernel,
        "_vectors": vectors,
        "_right": model.right,
    }
