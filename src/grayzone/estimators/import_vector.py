"""Import vector machine: kernel logistic regression on few, greedily chosen training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from grayzone.estimators._base import FunctionClassifier
from grayzone.estimators._callbacks import CallbackSupportMixin, fit_progress, with_callbacks
from grayzone.estimators._import_vector_blocks import fit_blocks
from grayzone.estimators._zoned import Zoned
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import all_or_nothing, check_choice, check_integer, check_number
from grayzone.numerics.designs import DenseDesign
from grayzone.numerics.kernels import NAMES, Kernel
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.margins import Margins, ReferenceMargin, SoftmaxMargin
from grayzone.numerics.threads import own_threads
from grayzone.solvers import Problem
from grayzone.solvers.greedy import Growth, Rules
from grayzone.solvers.greedy.columns import KernelColumns
from grayzone.solvers.training import Labelled, kernel_of, label_rows, margin_map
from grayzone.sources.open import given_blocks
from grayzone.sources.split import check_fraction, split_rows

Array = Any

# Kernel values of a round of scores up to which these are computed in double precision.
_DOUBLE = 1_000_000


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
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable, \
            default="rbf"
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
        How candidates are compared. "exact" refits for each of them, step (B2) of [1]_. "one-step"
        takes one Newton step, (B2*): much faster, nearly always the same choice. (On many rows H
        itself is computed for the most promising candidates only.) "power" compares squared
        gradients over the part of a kernel function that is not spanned yet: no pass over the basis
        at all, for many rows or classes.
    n_candidates : int or None, default=None
        Rows, drawn anew for each choice, that may be chosen; None is every row. Some hundreds are
        plenty for large data: time grows with this number. They are drawn from all rows, on blocks
        from a stratified part of them (some thousands, at least ``n_candidates``).
    block_size : int, default=1
        Points that are chosen before each refit.
    removal : bool, default=False
        Whether to leave points out again, where that gives a lower H than was seen with as few.
    zone : None, float, pair or caps, default=None
        None is the full likelihood. Otherwise the loss is truncated outside this gray zone, as in
        :class:`TruncatedLogisticRegression`: import points for where decisions are made
        (§3.3 of [2]_).
    tol : float, default=1e-3
        Points are added until H has changed by less than this share of it over the last
        ``n_iter_no_change`` additions, §3.3 of [1]_. 0 goes on until no row adds anything.
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
        Draws candidates and held-out rows; not used where there are neither.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels; ``classes_[1]`` is the positive one of two.
    import_points_ : ndarray of shape (n_points,)
        Training rows that span f, in the order they were chosen.
    import_vectors_ : {array, sparse array} of shape (n_points, n_features)
        Those rows of X; empty for a precomputed kernel.
    dual_coef_ : ndarray of shape (1, n_points) or (K, n_points)
        Coefficients a of their kernel functions. With ``parametrization="reference"`` those of the
        last class are zero.
    intercept_ : ndarray of shape (1,) or (K,)
        Intercepts.
    objective_path_ : ndarray of shape (n_iter_,)
        H after each round of additions (and removals).
    objective_ : float
        H of the model.
    dual_gap_ : float
        Relative duality gap of the model among all functions of its import points.
    validation_path_ : ndarray of shape (n_iter_,)
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
    feature_names_in_ : ndarray of shape (n_features_in_,)
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

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from grayzone import ImportVectorMachine
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = ImportVectorMachine(C=10.0, max_import_points=20).fit(scale(X), y)
    >>> len(clf.import_points_), clf.score(scale(X), y) > 0.98
    (20, True)
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
        block_size: int = 1,
        removal: bool = False,
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
        self.block_size = block_size
        self.removal = removal
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
        source = given_blocks(self, X, y, sample_weight)
        if source is not None:
            with fit_progress(self, "round", self._most_rounds()) as report:
                fit_blocks(self, source, report)
            return self
        X, y = validate_data(self, X, y, **self._accepted())
        rows = label_rows(X, y, sample_weight, self.class_weight)
        rng = check_random_state(self.random_state)
        with own_threads(), fit_progress(self, "round", self._most_rounds()) as report:
            machine = Machine(self, rows, self._split(rows, rng) if self.early_stopping else None)
            growth = machine.growth(1.0 / self.C, rng)
            watch = _Watch(self, machine, growth) if self.early_stopping else None
            for objective in growth.grow():
                enough = watch is not None and watch.saw_enough(growth)
                facts = {"objective": objective, "n_import_points": growth.basis.size}
                if (report is not None and report(**facts)) or enough:
                    break
            self._expose(machine, machine.model(growth) if watch is None else watch.best)
        self.objective_path_ = np.array(growth.path)
        self.n_iter_ = len(growth.path)
        if watch is not None:
            self.validation_path_ = np.array(watch.path)
        return self

    def _check_parameters(self) -> None:
        check_number("C", self.C, above=0.0)
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, NAMES)
        for name in ("max_import_points", "n_candidates"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), least=1)
        check_choice("selection", self.selection, ("one-step", "exact", "power"))
        check_integer("block_size", self.block_size, least=1)
        if self.selection == "exact" and self.block_size > 1:
            raise ValueError(
                f"selection='exact' compares candidates one at a time; block_size must then be 1, "
                f"got {self.block_size!r}."
            )
        if check_number("tol", self.tol) < 0.0:
            raise ValueError(f"tol must be a finite number >= 0; got {self.tol!r}.")
        check_integer("n_iter_no_change", self.n_iter_no_change, least=1)
        check_choice("parametrization", self.parametrization, ("symmetric", "reference"))
        check_fraction(self.validation_fraction)

    def _most_rounds(self) -> int | None:
        """How many rounds there can be, where that is known."""
        if self.max_import_points is None or self.removal:
            return None
        return -(-self.max_import_points // self.block_size)

    def _rules(self) -> Rules:
        return Rules(
            self.selection,
            self.n_candidates,
            self.block_size,
            self.removal,
            self.max_import_points,
            self.tol,
            self.n_iter_no_change,
        )

    def _split(self, rows: Labelled, rng: np.random.RandomState) -> tuple[Array, Array]:
        """Split the rows, stratified, into training and held-out rows."""
        return split_rows(rows.codes, rows.classes, self.validation_fraction, rng)

    def _expose(self, machine: Machine, model: Model) -> None:
        rows = machine.rows
        self.import_points_ = rows.used[machine.order[model.points]]
        self.dual_coef_, self.intercept_ = model.dual_coef, model.intercept
        if isinstance(machine.margins, ReferenceMargin):
            self.dual_coef_ = np.pad(self.dual_coef_, ((0, 1), (0, 0)))
            self.intercept_ = np.pad(self.intercept_, (0, 1))
        self.objective_, self.dual_gap_ = model.objective, model.gap
        self._keep_vectors(rows.X, machine.kernel)

    def _keep_these(self, vectors: Array, kernel: Kernel) -> None:
        """Keep rows that have been read already."""
        self._keep_nothing()
        self._kernel = kernel
        precomputed = kernel.name == "precomputed"
        self._vectors = moved(np.empty((0, 0)), vectors) if precomputed else vectors
        self._prepare()

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


@dataclass(frozen=True)
class Model:
    """A function, taken out of the growth that goes on."""

    points: Array
    dual_coef: Array
    intercept: Array
    objective: float
    gap: float


class Machine:
    """Rows, kernel and loss of a fit: all that growing points needs, for any penalty.

    ``split`` are the training and the held-out rows, where there are some of the latter.
    """

    def __init__(
        self, settings: ImportVectorMachine, rows: Labelled, split: tuple[Array, Array] | None
    ) -> None:
        settings._set_decision(rows)
        self.settings, self.rows = settings, rows
        self.kernel: Kernel = kernel_of(settings, rows)
        self.order = np.arange(rows.codes.size) if split is None else np.concatenate(split)
        self.n_rows = rows.codes.size if split is None else split[0].size
        margins: Margins = margin_map(rows)
        if isinstance(margins, SoftmaxMargin) and settings.parametrization == "reference":
            margins = ReferenceMargin(margins.own)
        self.margins = margins.take(self.order)
        self.loss = TruncatedLogistic(settings._floors()[rows.codes[self.order]])
        self.weight = rows.weight[self.order]

    def growth(self, penalty: float, rng: np.random.RandomState) -> Growth:
        """Start without any point."""
        s, train = self.settings, slice(0, self.n_rows)
        margins = self.margins.take(train)
        loss, weight = self.loss.take(train), self.weight[train]

        def problem(design: DenseDesign, penalty: float) -> Problem:
            return Problem(design, margins, loss, weight, penalty)

        m = self.n_rows if s.n_candidates is None else min(s.n_candidates, self.n_rows)
        dtype = np.float64 if self.n_rows * m <= _DOUBLE else np.float32
        columns = KernelColumns(self.kernel, self.rows.X, self.rows.used[self.order], dtype)
        return Growth(columns, self.n_rows, problem, s.fit_intercept, penalty, s._rules(), rng)

    def held_out_loss(self, scores: Array) -> float:
        """Mean loss of the held-out rows."""
        out = slice(self.n_rows, None)
        u, weight = self.margins.take(out).margin(scores), self.weight[out]
        return float(weight @ self.loss.take(out).value(u) / np.sum(weight))

    def model(self, growth: Growth) -> Model:
        """Take the function out as it is now."""
        points = np.array(growth.basis.points, dtype=np.int64)
        fitted = growth.fitted
        return Model(points, *growth.dual_coef(), fitted.objective, fitted.gap)


class _Watch:
    """Early stopping: the loss of held-out rows, and the model with the smallest."""

    def __init__(self, settings: ImportVectorMachine, machine: Machine, growth: Growth) -> None:
        self.settings, self.machine = settings, machine
        self.path: list[float] = []
        self.best = machine.model(growth)
        self._least, self._since = machine.held_out_loss(growth.held_out_scores()), 0

    def saw_enough(self, growth: Growth) -> bool:
        """Look at a new model; true when the last few were no better."""
        loss = self.machine.held_out_loss(growth.held_out_scores())
        self.path.append(loss)
        if loss < self._least:
            self._since = 0 if loss < self._least * (1.0 - self.settings.tol) else self._since + 1
            self._least, self.best = loss, self.machine.model(growth)
        else:
            self._since += 1
        return self._since >= self.settings.n_iter_no_change
