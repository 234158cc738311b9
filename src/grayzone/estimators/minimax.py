"""Minimax probability machine: the direction whose worst case is best, with its bound."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_numpy_array
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import brentq, minimize_scalar
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from grayzone.decision import cost_matrices, cost_matrix
from grayzone.decision.costs import stakes
from grayzone.decision.example_costs import errors_of_rows
from grayzone.estimators._base import checked_scores, labels_at, rows_of
from grayzone.estimators._html import FittedSummary
from grayzone.estimators._lazy import lazily
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import (
    Floats,
    Numbers,
    all_or_nothing,
    as_numpy,
    check_choice,
    check_number,
)
from grayzone.numerics.designs import as_design
from grayzone.numerics.kernels import NAMES, resolve_kernel
from grayzone.numerics.moments import difference, mean_and_root, triangle
from grayzone.numerics.pivoted import pivoted_columns
from grayzone.numerics.threads import own_threads
from grayzone.solvers.kernel.choose import check_kernel_matrix
from grayzone.solvers.kernel.features import indefinite, pivoted_factor
from grayzone.solvers.minimax.direction import Direction, Frontier, bound_of
from grayzone.solvers.minimax.held_out import check_folds, held_out_folds, score_bounds
from grayzone.solvers.minimax.row_cuts import cheapest_cuts
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.open import check_same_place, open_rows, refuse_blocks, validated

Array = Any

# Square norm of a kernel function beyond those that span, relative, that is left out.
_LEAST_POWER = 1e-10
# Features up to which covariances on a device are decomposed here: too few to keep one busy.
_DECOMPOSED_HERE = 512
INSTEAD_OF_BLOCKS = (
    "It needs all rows at once: give it an array, or fit blocks by TruncatedLogisticRegression, "
    "TightBoundLogisticRegression or ImportVectorMachine."
)
_RATIOS = np.linspace(-24.0, 24.0, 145)  # logarithms of kappa_x / kappa_y that are looked at first


class MinimaxClassifier(FittedSummary, ClassifierMixin, BaseEstimator):
    """What the minimax machines share: two classes, scores without probabilities, a bound."""

    classes_: NDArray[Any]
    accuracy_bound_: float
    held_out_bound_: float
    intercept_: Floats
    dual_coef_: Floats
    n_features_in_: int
    # distance of the threshold from the mean of class x, that of the means being 1; standard
    # deviations of the classes y and x along the direction; and their shares of the rows
    _spread: tuple[float, float, float]
    _class_shares: tuple[float, float]

    def _scores(self, X: Array) -> Array:
        raise NotImplementedError

    def _accepted(self) -> dict[str, Any]:
        return {"dtype": [np.float64, np.float32]}

    def _scored(self, X: Array, method: str) -> Array:
        """Scores of rows, for the public method of that name."""
        rows = self._checked(X, method)
        with np.errstate(over="ignore", invalid="ignore"):
            return checked_scores(self._scores(rows))

    def _checked(self, X: Array, method: str) -> Array:
        """Rows to be scored for the public method of that name."""
        check_is_fitted(self)
        return validated(self, X, reset=False, **self._accepted())

    @lazily
    def decision_function(self, X: Any) -> Numbers:
        """Signed distance from the threshold, in units of the distance of the class means.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data; for a precomputed kernel the values with all training rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Positive for ``classes_[1]``. They are no log-odds: the machine bounds probabilities
            of classes, and estimates none of single rows.
        """
        return self._scored(X, "decision_function")

    @lazily
    def predict(self, X: Any, example_costs: Any = None) -> NDArray[Any]:
        """Decide by the sign of the scores.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        example_costs : array-like of shape (n_samples, 2, 2) or mapping, default=None
            What decisions about these rows cost: ``cost[row, true, predicted]``, or ``{label: cost
            of misclassifying each row if it has that label}``. Each row then has, between the means
            of the classes, the threshold of least expected cost in the worst case, by the classes'
            moments and shares in the training data; where its costs are in the ratio of ``costs``
            that is the machine's own. Rows that have nothing at stake are decided by that, too.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels.
        """
        scores = self._scored(X, "predict")
        xp, cuts = array_namespace(scores), 0.0
        if example_costs is not None:
            cuts = moved(self._row_cuts(example_costs, scores.shape[0]), scores)
        return labels_at(self.classes_, xp.astype(scores > cuts, xp.int64))

    def _row_cuts(self, example_costs: Any, n_rows: int) -> Floats:
        """Return the scores from which on rows with such costs are decided for class x."""
        if getattr(self, "required_bound", None) is not None:
            raise ValueError(
                "example_costs move the threshold, and required_bound=... sets it: this machine "
                "takes no costs of rows."
            )
        classes = as_numpy(self.classes_)
        matrices = cost_matrices(example_costs, classes, n_rows, some_stake=False)
        extra = np.stack([as_numpy(part) for part in errors_of_rows(matrices)])  # of y and x
        backwards = np.all(extra <= 0.0, axis=0) & np.any(extra < 0.0, axis=0)
        if np.any(backwards):
            raise ValueError(
                "example_costs must make errors dearer than right decisions for one class at "
                f"least; those of row {int(np.argmax(backwards))} do not."
            )
        cuts = np.zeros(n_rows)
        cuts[(extra[0] > 0.0) & (extra[1] <= 0.0)] = np.inf  # class x is never worth it
        cuts[(extra[1] > 0.0) & (extra[0] <= 0.0)] = -np.inf
        free = np.all(extra > 0.0, axis=0) & ~self._as_fitted(extra)
        prices = np.asarray(self._class_shares)[:, None] * extra[:, free]
        reach, *deviations = self._spread
        if self.accuracy_bound_ == 0.0:  # no direction: the dearer class is decided for
            cuts[free] = np.where(prices[1] > prices[0], -np.inf, np.inf)
        elif max(deviations) > 0.0:
            cuts[free] = cheapest_cuts(*prices, *deviations) - (1.0 - reach)
        return cuts

    def _as_fitted(self, extra: Floats) -> NDArray[np.bool_]:
        """Whether costs of rows are in the ratio of those that the machine was fitted with."""
        if getattr(self, "costs", None) is None:
            return np.zeros(extra.shape[1], dtype=bool)
        own = stakes(as_numpy(self.cost_matrix_))
        return np.isclose(extra[1] * own[0], extra[0] * own[1], rtol=1e-12, atol=0.0)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def check_two_rows_each(rows: Labelled) -> None:
    """Check that there are two classes, and rows enough for a variance of each."""
    if len(rows.classes) > 2:
        raise ValueError(
            f"Only binary classification is supported: minimax machines are for two classes, got "
            f"{len(rows.classes)}: {rows.classes.tolist()}. For more of them wrap the machine in "
            "OneVsRestClassifier or OneVsOneClassifier of scikit-learn."
        )
    fewest = int(np.argmin(rows.counts))
    if rows.counts[fewest] < 2:
        raise ValueError(
            f"A covariance takes two rows of each class; class {rows.classes[fewest]!r} has "
            f"{rows.counts[fewest]}."
        )


def products(X: Array, coef: Array) -> Array:
    """Inner products (n,) of rows with coefficients, where they are."""
    if sp.issparse(X) or is_numpy_array(X):
        return np.asarray(X @ coef).ravel()
    return as_design(X, fit_intercept=False).scores(coef[None, :])[:, 0]


class _Solved(NamedTuple):
    direction: Direction
    threshold: float  # b

    def scores(self, Z: Array) -> Array:
        """Scores of rows."""
        return products(Z, self.direction.coef) - self.threshold


class MinimaxProbabilityMachine(MinimaxClassifier):
    r"""Classifier that maximises how often it is right in the worst case, and says how often.

    Of all distributions with the means and covariances of the two classes, the least favourable
    ones are misclassified least by the hyperplane :math:`a'z = b` that solves

    .. math:: m = \min_a \sqrt{a'\Sigma_x a} + \sqrt{a'\Sigma_y a}, \quad a'(\bar x - \bar y) = 1,

    eq. (4) of [1]_ (Lanckriet et al., 2002); each class is then right with a probability of at
    least :math:`\Omega = 1/(1 + m^2)`, provided the moments are those of the classes. No
    distribution is assumed. Found exactly, by one decomposition and a search in one variable.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed"} or callable, \
            default="linear"
        Kernel, as in :class:`TruncatedLogisticRegression`. Kernels other than the linear one take
        memory for the squared number of rows, and time for its cube;
        :class:`SparseMinimaxProbabilityMachine` is for many rows.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernels.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Independent term of the polynomial and sigmoid kernels.
    covariance_reg : float, default=1e-3
        Ridge on both covariances: this share of each feature's mean variance or, for kernels, of
        the total variance in their space. It makes the bound smaller, never larger; without it a
        kernel separates any training data, and the bound of 1 says nothing.
    costs : None, "balanced", mapping or array of shape (2, 2), default=None
        None treats both classes alike: the larger of their worst-case error rates is
        minimised. Otherwise the expected cost in the worst case is minimised, given the class
        frequencies (biased minimax), over thresholds between the means: the classes then have
        bounds of their own, of which one may vanish where the classes overlap widely.
    required_bound : mapping {label: float} or None, default=None
        A worst-case accuracy that one class is given, below 1; that of the other is then maximised.
        Not together with ``costs``.
    cv : int, cross-validation generator, iterable or None, default=3
        Folds whose rows are held out, for ``held_out_bound_``; None leaves it out. An integer is
        that many folds of distinct rows, by class: no row is held out of a fit that has seen its
        copy.
    random_state : int, RandomState instance or None, default=None
        Deals rows to the folds.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels; class x of the paper is ``classes_[1]``.
    accuracy_bound_ : float
        Worst-case accuracy :math:`\Omega` of either class, by the moments of the training data. An
        estimate: the moments themselves are estimated, and the direction was fitted to them.
    class_bounds_ : ndarray of shape (2,)
        Worst-case accuracy of each class; they differ only with ``costs`` or ``required_bound``.
    held_out_bound_ : float
        The same from moments of scores of rows that were held out, by folds of distinct rows:
        the smaller of the two classes' bounds. NaN where ``cv`` is None or rows are too few.
    coef_ : ndarray of shape (1, n_features)
        Direction a; only with the linear kernel.
    intercept_ : ndarray of shape (1,)
        The threshold, -b.
    dual_coef_ : ndarray of shape (1, n_samples)
        Coefficients of the training rows' kernel functions; only with other kernels.
    kkt_residual_ : float
        What is left of the optimality condition, relative: the certificate of the direction.
    cost_matrix_ : ndarray of shape (2, 2)
        ``cost[true, predicted]``.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has names that are all strings.

    See Also
    --------
    SparseMinimaxProbabilityMachine : Few basis functions, with widths and feature weights.

    References
    ----------
    .. [1] Strohmann, T., Grudic, G., Belitski, A. & DeCoste, D. (2004). Sparse greedy minimax
       probability machine classification. NIPS 16.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from grayzone import MinimaxProbabilityMachine
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = MinimaxProbabilityMachine(random_state=0).fit(X, y)
    >>> bool(clf.score(X, y) > clf.accuracy_bound_ > clf.held_out_bound_)
    True
    """

    coef_: Floats
    class_bounds_: Floats
    cost_matrix_: Floats
    kkt_residual_: float

    def __init__(
        self,
        *,
        kernel: Any = "linear",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        covariance_reg: float = 1e-3,
        costs: Any = None,
        required_bound: Any = None,
        cv: int | None = 3,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.covariance_reg = covariance_reg
        self.costs = costs
        self.required_bound = required_bound
        self.cv = cv
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; with a precomputed kernel, its values for all pairs of rows. Arrays of
            other libraries stay where they are under scikit-learn's ``array_api_dispatch``, and so
            do fitted attributes. No blocks: all rows are needed at once. Predictions take them.
        y : array-like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the moments; a row of weight 2 counts as two rows.

        Returns
        -------
        self : MinimaxProbabilityMachine
            The fitted estimator.
        """
        self._check_parameters()
        refuse_blocks(self, X, INSTEAD_OF_BLOCKS)
        labelled = open_rows(self, X, y, sample_weight, by_rows=True, **self._accepted())
        check_two_rows_each(labelled)
        self.classes_ = labelled.classes
        self.cost_matrix_ = cost_matrix(self.costs, labelled.classes, labelled.prior)
        for name in ("coef_", "dual_coef_", "_kernel", "_fit_X"):
            self.__dict__.pop(name, None)
        rows = labelled.all_held
        with own_threads():
            Z, pivots = self._features(rows, labelled.given)
            solution = self._solve(Z, rows.codes, rows.weight)
            self.held_out_bound_ = self._held_out(Z, labelled)
        self._expose(labelled, solution, Z, pivots)
        return self

    def _accepted(self) -> dict[str, Any]:
        formats = False if self.kernel == "precomputed" else ["csr", "csc"]
        return {"accept_sparse": formats, "dtype": [np.float64, np.float32]}

    def _check_parameters(self) -> None:
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, NAMES)
        if check_number("covariance_reg", self.covariance_reg) < 0.0:
            raise ValueError(f"covariance_reg must be >= 0; got {self.covariance_reg!r}.")
        check_folds(self.cv)
        if self.required_bound is not None and self.costs is not None:
            raise ValueError("Give costs or required_bound, not both: each of them decides.")

    def _features(self, rows: Rows, given: Array) -> tuple[Array, Array | None]:
        """Rows in coordinates of the function space; for kernels, also the rows that span it."""
        if self.kernel == "linear":
            return rows.X, None
        K = self._kernel_matrix(rows, given)
        xp = array_namespace(K)
        largest = float(xp.max(xp.linalg.diagonal(K)))
        if largest > 0.0:
            factor = pivoted_factor if is_numpy_array(K) else pivoted_columns
            return factor(K, _LEAST_POWER * largest)
        if bool(xp.any(K != 0.0)):
            raise indefinite("its diagonal has no positive value")
        return xp.zeros_like(K[:, :1]), np.zeros(1, dtype=np.intp)

    def _kernel_matrix(self, rows: Rows, given: Array) -> Array:
        """Kernel values of all pairs of rows with a weight, to be overwritten."""
        if self.kernel == "precomputed":
            check_kernel_matrix(given)
        s, X = self, rows.X
        self._kernel = resolve_kernel(s.kernel, s.gamma, s.degree, s.coef0, X, rows.weight)
        if self.kernel == "precomputed":
            xp = array_namespace(X)
            K = xp.astype(xp.take(X, rows.places(), axis=1), xp.float64, copy=False)
        else:
            K = self._kernel(X, X)
        foreign = self.kernel == "precomputed" or callable(self.kernel)
        if foreign and not is_numpy_array(K):
            xp = array_namespace(K)
            # as LAPACK, which copies it, reads a matrix that is not quite symmetric
            K = xp.tril(K) + xp.tril(K, k=-1).T
        return K

    def _solve(self, Z: Array, codes: Array, weight: Array) -> _Solved:
        """Best direction and threshold; codes and weights are where Z is."""
        xp, parts = array_namespace(weight), []
        for code in (0, 1):
            own = xp.nonzero(codes == code)[0]
            parts.append(mean_and_root(rows_of(Z, own), xp.take(weight, own)))
        apart = difference(*parts[1], *parts[0])
        means, roots = zip(*parts, strict=True)
        ridge = self._ridge(*(xp.sum(root**2, axis=0) for root in roots))
        if self.covariance_reg > 0.0:
            roots = tuple(_with_ridge(root, ridge) for root in roots)
        if not is_numpy_array(apart) and apart.shape[0] <= _DECOMPOSED_HERE:
            apart, roots = as_numpy(apart), tuple(as_numpy(root) for root in roots)
        frontier = Frontier(apart, *roots)
        masses = np.array([float(xp.sum(xp.where(codes == k, weight, 0.0))) for k in (0, 1)])
        direction = frontier.at(self._ratio(frontier, masses / masses.sum()))
        direction = replace(direction, coef=moved(direction.coef, weight))
        return _Solved(direction, float(direction.coef @ means[1]) - direction.reach)

    def _ridge(self, variance_y: Array, variance_x: Array) -> Array:
        mean = 0.5 * (variance_y + variance_x)
        if self.kernel != "linear":
            xp = array_namespace(mean)
            mean = xp.zeros_like(mean) + xp.sum(mean)
        return self.covariance_reg * mean

    def _ratio(self, frontier: Frontier, prior: Array) -> float:
        """kappa_x / kappa_y, where on the frontier to be."""
        if self.required_bound is not None:
            return self._ratio_required(frontier)
        if self.costs is None or frontier.separable:
            return 1.0
        extra = self.cost_matrix_[[0, 1], [1, 0]] - np.diagonal(self.cost_matrix_)
        if np.any(extra < 0.0) or not np.any(extra > 0.0):
            raise ValueError(
                "costs must make errors dearer than right decisions; got "
                f"{self.cost_matrix_.tolist()}."
            )
        price = prior * (extra / np.max(extra))

        def cost(log_ratio: float) -> float:
            kappas = frontier.kappas(float(np.exp(log_ratio)))
            return -float(price @ [bound_of(kappa) for kappa in kappas])

        values = [cost(t) for t in _RATIOS]
        best = int(np.argmin(values))
        around = _RATIOS[max(best - 1, 0)], _RATIOS[min(best + 1, _RATIOS.size - 1)]
        return float(np.exp(minimize_scalar(cost, bounds=around, method="bounded").x))

    def _ratio_required(self, frontier: Frontier) -> float:
        place, asked = self._required()
        kappa = np.sqrt(asked / (1.0 - asked))

        def excess(log_ratio: float) -> float:
            return frontier.kappas(float(np.exp(log_ratio)))[place] - kappa

        # the bound of class x rises with the ratio, that of class y falls
        weakest, strongest = (-40.0, 40.0) if place == 1 else (40.0, -40.0)
        if frontier.separable or excess(weakest) >= 0.0:
            return float(np.exp(weakest)) if not frontier.separable else 1.0
        if excess(strongest) < 0.0:
            most = bound_of(frontier.kappas(float(np.exp(strongest)))[place])
            raise ValueError(
                f"required_bound={self.required_bound!r} cannot be met: no direction bounds that "
                f"class by more than {most:.4g}."
            )
        root = brentq(excess, min(weakest, strongest), max(weakest, strongest), xtol=1e-12)
        return float(np.exp(root))

    def _required(self) -> tuple[int, float]:
        """Place of the class with a required bound, and the bound."""
        given, known = self.required_bound, self.classes_.tolist()
        if not (isinstance(given, Mapping) and len(given) == 1 and next(iter(given)) in known):
            raise ValueError(
                f"required_bound must be a mapping of one of the classes {known} to a number; got "
                f"{given!r}."
            )
        label, value = next(iter(given.items()))
        if not 0.0 < check_number("required_bound", value) < 1.0:
            raise ValueError(f"required_bound must be between 0 and 1; got {value!r}.")
        return known.index(label), float(value)

    def _held_out(self, Z: Array, labelled: Labelled) -> float:
        rows = labelled.all_held
        # rows of a kernel matrix have no values of their own to tell copies by
        known = None if self.kernel == "precomputed" else rows.X
        rng = check_random_state(self.random_state)
        folds = [
            (moved(train, rows.codes), moved(out, rows.codes))
            for train, out in held_out_folds(self.cv, labelled, known, rng)
        ]
        if not folds:
            return float("nan")
        codes, weight, xp = rows.codes, rows.weight, array_namespace(rows.codes)
        scores = [
            self._solve(rows_of(Z, train), xp.take(codes, train), xp.take(weight, train)).scores(
                rows_of(Z, out)
            )
            for train, out in folds
        ]
        out = xp.concat([out for _, out in folds])
        return min(score_bounds(xp.concat(scores), xp.take(codes, out), xp.take(weight, out)))

    def _expose(
        self, labelled: Labelled, solution: _Solved, Z: Array, pivots: Array | None
    ) -> None:
        direction, like = solution.direction, labelled.like
        if not max(direction.kappas) > 0.0:
            warnings.warn(
                "The classes have the same mean: no direction tells them apart; the bound is 0.",
                UserWarning,
                stacklevel=4,
            )
        self.class_bounds_ = moved(np.array(direction.bounds), like)
        self.accuracy_bound_ = float(min(direction.bounds))
        self.kkt_residual_ = direction.residual
        s_y, s_x = direction.deviations
        self._spread = (direction.reach, float(s_y), float(s_x))
        self._class_shares = (float(labelled.prior[0]), float(labelled.prior[1]))
        self.intercept_ = moved(np.array([-solution.threshold]), like)
        self.cost_matrix_ = moved(self.cost_matrix_, like)
        if labelled.classes.dtype.kind in "biuf":
            self.classes_ = moved(labelled.classes, like)
        if pivots is None:
            self.coef_ = direction.coef[None, :]
            return
        # f has the values Z a on all rows; kernel functions of the pivots alone give them all
        numbers, n = as_numpy(labelled.all_held.places()), labelled.given.shape[0]
        dual_coef = np.zeros((1, n))
        if np.any(as_numpy(direction.coef)):
            spanning = rows_of(Z, moved(pivots, like))
            dual_coef[0, numbers[pivots]] = _duals(spanning, direction.coef)
        self.dual_coef_ = moved(dual_coef, like)
        precomputed = self.kernel == "precomputed"
        self._fit_X = moved(np.arange(n), like) if precomputed else labelled.given

    def _checked(self, X: Array, method: str) -> Array:
        check_is_fitted(self)
        check_same_place(self, X, self.intercept_, method)
        return validated(self, X, reset=False, **self._accepted())

    def _scores(self, X: Array) -> Array:
        if "coef_" in vars(self):
            return products(X, self.coef_[0, :]) + self.intercept_[0]
        if sp.issparse(X):
            X = X.tocsr()
        right = self._fit_X if self.kernel == "precomputed" else self._kernel.right(self._fit_X)
        with own_threads():
            return self._kernel.product(X, right, self.dual_coef_.T)[:, 0] + self.intercept_[0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.array_api_support = True
        return tags


def _with_ridge(root: Array, ridge: Array) -> Array:
    """Root of a covariance that has more on its diagonal."""
    xp = array_namespace(root)
    eye = xp.eye(ridge.shape[0], dtype=root.dtype, device=device(root))
    stacked = xp.concat([root, eye * xp.sqrt(ridge)])
    # a device has the shorter one decomposed sooner
    return stacked if is_numpy_array(root) else triangle(stacked)


def _duals(L: Array, coef: Array) -> Array:
    """Solve L'a = coef, L lower triangular; as a NumPy array."""
    if is_numpy_array(L):
        return solve_triangular(L, coef, trans="T", lower=True)
    # elimination has nothing to do in an upper triangle, and exchanges no rows
    return as_numpy(array_namespace(L).linalg.solve(L.T, coef[:, None])[:, 0])
