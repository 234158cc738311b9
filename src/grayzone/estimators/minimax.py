"""Minimax probability machine: the direction whose worst case is best, with its bound."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from scipy.linalg import solve_triangular
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from grayzone.estimators._base import rows_of
from grayzone.estimators._draws import random_state_of
from grayzone.estimators._empty_classes import leaves_out_empty_classes
from grayzone.estimators._minimax import (
    INSTEAD_OF_BLOCKS,
    MinimaxClassifier,
    as_scores,
    check_two_rows_each,
    in_deviations,
    products,
    told_apart,
)
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import (
    Floats,
    all_or_nothing,
    as_numpy,
    check_choice,
    check_number,
)
from grayzone.numerics.kernels import NAMES, resolve_kernel
from grayzone.numerics.moments import difference, mean_and_root, triangle
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.pitfalls import Pitfall
from grayzone.numerics.pivoted import pivoted_columns
from grayzone.numerics.threads import own_threads
from grayzone.solvers.kernel.choose import check_kernel_matrix
from grayzone.solvers.kernel.features import indefinite, pivoted_factor
from grayzone.solvers.minimax.aims import Aim
from grayzone.solvers.minimax.direction import Direction, Frontier, joint_bound
from grayzone.solvers.minimax.held_out import check_folds, held_out_folds, score_bounds
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.open import check_same_place, open_rows, refuse_blocks, validated

Array = Any

# Square norm of a kernel function beyond those that span, relative, that is left out.
_LEAST_POWER = 1e-10
# Features up to which covariances on a device are decomposed here: too few to keep one busy.
_DECOMPOSED_HERE = 512


class _Solved(NamedTuple):
    direction: Direction
    threshold: float  # b

    def scores(self, Z: Array) -> Array:
        """Scores of rows."""
        return products(Z, self.direction.coef[None, :])[:, 0] - self.threshold


class MinimaxProbabilityMachine(MinimaxClassifier):
    r"""Classifier that maximises how often it is right in the worst case, and says how often.

    Of all distributions with the means and covariances of the two classes, the least favourable
    ones are misclassified least by the hyperplane :math:`a'z = b` that solves

    .. math:: m = \min_a \sqrt{a'\Sigma_x a} + \sqrt{a'\Sigma_y a}, \quad a'(\bar x - \bar y) = 1,

    eq. (4) of [1]_ (Lanckriet et al., 2002); each class is then right with a probability of at
    least :math:`\Omega = 1/(1 + m^2)`, provided the moments are those of the classes. No
    distribution is assumed. Found exactly, by one decomposition and a search in one variable.

    Moments are estimates. ``moment_error`` has the bound hold for all moments near them, section 5
    of [2]_: a mean off by up to :math:`\nu` standard deviations in any direction,
    :math:`(\mu - \bar x)'\Sigma^{-1}(\mu - \bar x) \le \nu^2`, and a covariance off by up to
    :math:`\|\Sigma - \Sigma_x\|_F \le \rho`. The largest variance along a is then
    :math:`a'(\Sigma_x + \rho I)a`, as :math:`a'\Delta a \le \|\Delta\|_F \|a\|^2`, with
    :math:`\Delta = \rho\,aa'/\|a\|^2` attaining it; the mean comes nearer to the threshold by at
    most :math:`\nu` of these standard deviations. So :math:`\Sigma + \rho I` replaces
    :math:`\Sigma`, and :math:`\kappa = 1/m - \nu` replaces :math:`1/m` in
    :math:`\Omega = \kappa^2/(1 + \kappa^2)`, which is 0 where :math:`\kappa \le 0`.

    Three classes or more are told apart one against the rest. A row that all machines are right
    about has a positive score of its own class alone, and the largest score decides: by Boole's
    inequality at least :math:`1 - \sum_k (1 - \Omega_k)` of all rows are decided right, whatever
    the distributions are, provided the moments of each class and of the others together are
    theirs.

    Parameters
    ----------
    kernel : str or callable, default="linear"
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
        bounds of their own, of which one may vanish where the classes overlap widely. For two
        classes.
    required_bound : mapping {label: float} or None, default=None
        A worst-case accuracy that one class is given, below 1; that of the other is then maximised.
        Not together with ``costs``. For two classes.
    moment_error : None, float, pair of floats or mapping {label: either}, default=None
        How far the moments of the classes may be off for the bounds to hold: :math:`\nu`, in
        standard deviations of the class, or :math:`(\nu, \rho)`, with :math:`\rho` in the units
        of ``covariance_reg``, to which it is added: it has the same effect, class by class. A mean
        of n rows of d features is off by :math:`\nu = \sqrt{d/n}` on average, in root mean
        square. A mapping, of two classes, gives each its own.
    cv : int, cross-validation generator, iterable or None, default=3
        Folds whose rows are held out, for ``held_out_bound_``; None leaves it out. An integer is
        that many folds of distinct rows, by class: no row is held out of a fit that has seen its
        copy.
    random_state : int, RandomState instance or None, default=None
        Deals rows to the folds; None is the same as 0.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels; class x of the paper is ``classes_[1]``.
    accuracy_bound_ : float
        Worst-case accuracy :math:`\Omega` of either class, by the moments of the training data. An
        estimate: the moments themselves are estimated, and the direction was fitted to them. With
        ``moment_error`` it holds for all moments that are no farther off. Of three classes or more
        it is that of all rows together, :math:`1 - \sum_k (1 - \Omega_k)` or 0, in the shares of
        the training data: a class of its own may do worse.
    class_bounds_ : ndarray of shape (n_classes,)
        Worst-case accuracy of each class; they differ only with ``costs`` or ``required_bound``.
        Of three classes or more :math:`\Omega_k`, how often in the worst case class k is told
        from the others, and the others from it.
    held_out_bound_ : float
        The same from moments of scores of rows that were held out, by folds of distinct rows:
        the smaller of the two classes' bounds, or that of all rows together. It knows nothing of
        ``moment_error``. NaN where ``cv`` is None or rows are too few.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Direction a; only with the linear kernel. Those of several classes have been divided by the
        standard deviations along them, so that scores compare.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        The threshold, -b.
    dual_coef_ : ndarray of shape (1, n_samples) or (n_classes, n_samples)
        Coefficients of the training rows' kernel functions; only with other kernels.
    kkt_residual_ : float
        What is left of the optimality condition, relative: the certificate of the direction, of
        several directions the worst.
    cost_matrix_ : ndarray of shape (n_classes, n_classes)
        ``cost[true, predicted]``.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names that are all strings.

    See Also
    --------
    SparseMinimaxProbabilityMachine : Few basis functions, with widths and feature weights.

    References
    ----------
    .. [1] Strohmann, T., Grudic, G., Belitski, A. & DeCoste, D. (2004). Sparse greedy minimax
       probability machine classification. NIPS 16.
    .. [2] Lanckriet, G., El Ghaoui, L., Bhattacharyya, C. & Jordan, M. (2002). A robust minimax
       approach to classification. Journal of Machine Learning Research 3.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from grayzone import MinimaxProbabilityMachine
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = MinimaxProbabilityMachine(random_state=0).fit(X, y)
    >>> bool(clf.score(X, y) > clf.accuracy_bound_ > clf.held_out_bound_)
    True

    A bound that holds for all means within a tenth of a standard deviation is smaller:

    >>> careful = MinimaxProbabilityMachine(moment_error=0.1, random_state=0).fit(X, y)
    >>> bool(careful.accuracy_bound_ < clf.accuracy_bound_)
    True
    """

    coef_: Floats
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
        moment_error: Any = None,
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
        self.moment_error = moment_error
        self.cv = cv
        self.random_state = random_state

    @all_or_nothing
    @leaves_out_empty_classes
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; with a precomputed kernel, its values for all pairs of rows. Arrays of
            other libraries stay where they are under scikit-learn's ``array_api_dispatch``, and so
            do fitted attributes. No blocks: all rows are needed at once. Predictions take them.
        y : array-like of shape (n_samples,)
            Labels of two classes or more.
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
        aim = self._aim(labelled)
        for name in ("coef_", "dual_coef_", "_kernel", "_fit_X"):
            self.__dict__.pop(name, None)
        rows = labelled.all_held
        with own_threads():
            Z, pivots = self._features(rows, labelled.given)
            solutions = [
                self._solve(Z, codes, rows.weight, aim)
                for codes in told_apart(rows.codes, len(labelled.classes))
            ]
            self.held_out_bound_ = self._held_out(Z, labelled, aim)
        self._expose(labelled, solutions, aim)
        self._expose_functions(labelled, solutions, Z, pivots)
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
        self._check_aims()

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

    def _solve(self, Z: Array, codes: Array, weight: Array, aim: Aim) -> _Solved:
        """Best direction and threshold of two classes; codes and weights are where Z is."""
        xp, parts = array_namespace(weight), []
        for code in (0, 1):
            own = xp.nonzero(codes == code)[0]
            parts.append(mean_and_root(rows_of(Z, own), xp.take(weight, own)))
        apart = difference(*parts[1], *parts[0])
        means, roots = zip(*parts, strict=True)
        ridge = self._ridge(*(xp.sum(root**2, axis=0) for root in roots))
        shares = [self.covariance_reg + rho for rho in aim.loose]
        roots = tuple(
            _with_ridge(root, share * ridge) if share > 0.0 else root
            for root, share in zip(roots, shares, strict=True)
        )
        if not is_numpy_array(apart) and apart.shape[0] <= _DECOMPOSED_HERE:
            apart, roots = as_numpy(apart), tuple(as_numpy(root) for root in roots)
        frontier = Frontier(apart, *roots)
        masses = np.array([float(xp.sum(xp.where(codes == k, weight, 0.0))) for k in (0, 1)])
        direction = frontier.at(aim.ratio(frontier, masses / masses.sum()))
        bounds = aim.bounds(direction.kappas)
        if aim.required is not None and aim.missed(bounds):
            raise ValueError(
                f"required_bound={aim.required.given!r} cannot be met: no direction bounds that "
                f"class by more than {bounds[aim.required.place]:.4g}."
            )
        direction = replace(direction, coef=moved(direction.coef, weight))
        return _Solved(direction, float(direction.coef @ means[1]) - direction.reach)

    def _ridge(self, variance_y: Array, variance_x: Array) -> Array:
        """What a share of 1 adds to both covariances' diagonals."""
        mean = 0.5 * (variance_y + variance_x)
        if self.kernel != "linear":
            xp = array_namespace(mean)
            mean = xp.zeros_like(mean) + xp.sum(mean)
        return mean

    def _held_out(self, Z: Array, labelled: Labelled, aim: Aim) -> float:
        rows = labelled.all_held
        # rows of a kernel matrix have no values of their own to tell copies by
        known = None if self.kernel == "precomputed" else rows.X
        rng = random_state_of(self.random_state)
        folds = [
            (moved(train, rows.codes), moved(out, rows.codes))
            for train, out in held_out_folds(self.cv, labelled, known, rng)
        ]
        if not folds:
            return float("nan")
        weight, xp = rows.weight, array_namespace(rows.codes)
        out, bounds = xp.concat([out for _, out in folds]), []
        for codes in told_apart(rows.codes, len(labelled.classes)):
            scores = []
            for train, own in folds:
                part = rows_of(Z, train), xp.take(codes, train), xp.take(weight, train)
                scores.append(self._solve(*part, aim).scores(rows_of(Z, own)))
            taken = xp.take(codes, out), xp.take(weight, out)
            bounds.append(min(score_bounds(xp.concat(scores), *taken)))
        return joint_bound(bounds)

    def _expose(self, labelled: Labelled, solutions: list[_Solved], aim: Aim) -> None:
        """Set what was found but the functions themselves."""
        directions, like = [solution.direction for solution in solutions], labelled.like
        if not any(max(direction.kappas) > 0.0 for direction in directions):
            warnings.warn(
                "The classes have the same mean: no direction tells them apart; the bound is 0. "
                f"{Pitfall.SAME_MEANS}",
                UserWarning,
                stacklevel=5,
            )
        pairs = [aim.bounds(direction.kappas) for direction in directions]
        bounds = list(pairs[0]) if len(pairs) == 1 else [min(pair) for pair in pairs]
        self.class_bounds_ = moved(np.array(bounds), like)
        self.accuracy_bound_ = min(pairs[0]) if len(pairs) == 1 else joint_bound(bounds)
        self.kkt_residual_ = max(direction.residual for direction in directions)
        s_y, s_x = directions[0].deviations
        self._spread = (directions[0].reach, float(s_y), float(s_x), *aim.errors)
        self._class_shares = (float(labelled.prior[0]), float(labelled.prior[1]))
        self.cost_matrix_ = moved(self.cost_matrix_, like)
        if labelled.classes.dtype.kind in "biuf":
            self.classes_ = moved(labelled.classes, like)

    def _expose_functions(
        self, labelled: Labelled, solutions: list[_Solved], Z: Array, pivots: Array | None
    ) -> None:
        like, n_classes = labelled.like, len(labelled.classes)
        factors = [in_deviations(s.direction.deviations, n_classes) for s in solutions]
        thresholds = [f * s.threshold for f, s in zip(factors, solutions, strict=True)]
        self.intercept_ = moved(-np.array(thresholds), like)
        coefs = [f * s.direction.coef for f, s in zip(factors, solutions, strict=True)]
        if pivots is None:
            self.coef_ = array_namespace(coefs[0]).stack(coefs)
            return
        # f has the values Z a on all rows; kernel functions of the pivots alone give them all
        numbers, n = as_numpy(labelled.all_held.places()), labelled.given.shape[0]
        dual_coef = np.zeros((len(coefs), n))
        spanning = rows_of(Z, moved(pivots, like))
        for own, coef in zip(dual_coef, coefs, strict=True):
            if np.any(as_numpy(coef)):
                own[numbers[pivots]] = _duals(spanning, coef)
        self.dual_coef_ = moved(dual_coef, like)
        precomputed = self.kernel == "precomputed"
        self._fit_X = moved(np.arange(n), like) if precomputed else labelled.given

    def _checked(self, X: Array, method: str) -> Array:
        check_is_fitted(self)
        check_same_place(self, X, self.intercept_, method)
        return validated(self, X, reset=False, **self._accepted())

    def _scores(self, X: Array) -> Array:
        if "coef_" in vars(self):
            return as_scores(products(X, self.coef_) + self.intercept_)
        if sp.issparse(X):
            X = X.tocsr()
        right = self._fit_X if self.kernel == "precomputed" else self._kernel.right(self._fit_X)
        with own_threads():
            return as_scores(self._kernel.product(X, right, self.dual_coef_.T) + self.intercept_)

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
