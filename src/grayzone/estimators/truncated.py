"""Truncated ("lazy") logistic regression: likelihood where decisions are made."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from grayzone.estimators._base import SupportVectorClassifier
from grayzone.estimators._callbacks import (
    FIT_DEPTH,
    CallbackSupportMixin,
    Report,
    fit_progress,
    with_callbacks,
)
from grayzone.estimators._truncated_blocks import fit_blocks
from grayzone.estimators._zoned import Zoned
from grayzone.numerics.checks import all_or_nothing, check_choice, check_integer, check_number
from grayzone.numerics.kernels import NAMES
from grayzone.numerics.losses import Ramp
from grayzone.solvers import Problem, Record, Solution, Status, minimise
from grayzone.solvers.training import Training, make_training
from grayzone.solvers.truncated.ramp import descend_ramp
from grayzone.sources.open import given_blocks

Array = Any

# Ends of a fit that call for no warning.
FINE = (Status.CONVERGED, Status.STOPPED, Status.ROUNDED)


class TruncatedLogisticRegression(CallbackSupportMixin, Zoned, SupportVectorClassifier):
    r"""Logistic regression fitted for a decision: exact in a gray zone, sparse outside it.

    Minimises criterion (8) of Hérault & Grandvalet [1]_,

    .. math:: \sum_i w_i \log\bigl(1 + e^{\max(-y_i (f(x_i) + b),\, F_i)}\bigr)
              + \tfrac{1}{2C} \|f\|^2,

    the log-likelihood truncated outside the zone :math:`[p_{\min}, p_{\max}]`:
    :math:`F_i = -\mathrm{logit}(p_{\max})` for positive rows and
    :math:`\mathrm{logit}(p_{\min})` for negative ones. Rows that are already on the right side
    of the zone have no influence, so that the fit spends itself where decisions are taken,
    and few rows carry the model.
    With K > 2 classes the loss is the multinomial one with a cap on each class,
    :math:`\max(-\log p_y, -\log \mathrm{cap}_y)`.

    Probabilities are faithful inside the zone and say only "beyond" outside it;
    ``predict_proba`` is a proper, monotone probability everywhere.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty, as in ``SVC`` and ``LogisticRegression``.
    zone : float, pair, mapping, array or None, default=1.0
        Where probabilities have to be right. For two classes a float h > 0 is
        :math:`\sigma(\mathrm{logit}(\mathrm{threshold}) \pm h)`, that is (.27, .73) for h = 1 at
        threshold .5; a pair is ``(p_min, p_max)``; None is (0, 1), plain logistic
        regression, which is not sparse. For more classes a float gives every class the cap
        :math:`\sigma(h)`, a mapping or array gives each its own.
    costs : None, "balanced", mapping or array of shape (K, K), default=None
        Costs of errors: None is 0/1, "balanced" puts the threshold at the class prior, a
        mapping is ``{label: cost of misclassifying it}``, an array ``cost[true, predicted]``.
        ``predict`` minimises the expected cost: for two classes rule (1), positive if and only
        if :math:`p \ge C^- / (C^+ + C^-)`.
    kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed"} or callable, \
            default="linear"
        Kernel of f. A callable takes two matrices and returns the kernel values of their
        rows; with "precomputed", X holds these values.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernels "rbf", "poly", "sigmoid" and "laplacian"; "scale" is 1 / (n_features *
        X.var()) and "auto" 1 / n_features, as in ``SVC``.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Independent term of the polynomial and sigmoid kernels.
    loss : {"truncated", "ramp"}, default="truncated"
        "ramp" also saturates the other side (§3.3 of [1]_): rows beyond the far end of the zone are
        given up. Not convex: started from the convex fit, a local optimum.
    cache_size : float, default=1000
        Megabytes that kernel values may take while fitting; what does not fit is computed again
        when needed. Not used by the linear kernel.
    fit_intercept : bool, default=True
        Whether to fit an (unpenalised) intercept.
    class_weight : mapping, "balanced" or None, default=None
        Weights of the classes in the loss. For costs of *decisions* use ``costs``.
    solver : {"auto", "active-set", "primal"}, default="auto"
        "auto" is, for the linear kernel, a decomposed Newton method with an interior point near the
        kink, or conjugate gradients where there are too many features for a Hessian; for other
        kernels and two classes, block descent in the dual. "active-set" is the paper's dual
        algorithm (§4.2, two classes, small data), "primal" its smoothed Newton method (§4.1);
        all of them reach the same optimum.
    tol : float, default=1e-6
        Relative duality gap at which a fit may stop. Where rounding errors of large kernel values
        leave no gap that small, ``dual_gap_`` says what was reached, without a warning.
    max_iter : int, default=1000
        Most iterations of the solver.
    warm_start : bool, default=False
        Start from the previous solution where its shape fits.
    random_state : int, RandomState instance or None, default=None
        Draws the subsets from which large fits start; the optimum does not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels; ``classes_[1]`` is the positive one of two.
    coef_ : ndarray of shape (1, n_features) or (K, n_features)
        Coefficients of the log-odds (two classes) or of the K scores; only with the linear kernel.
    intercept_ : ndarray of shape (1,) or (K,)
        Intercepts.
    zone_ : tuple of two floats, or ndarray of shape (K,)
        The zone ``(p_min, p_max)``, or the caps of K > 2 classes.
    threshold_ : float or None
        Decision threshold of two classes; None for more.
    cost_matrix_ : ndarray of shape (K, K)
        ``cost[true, predicted]``.
    support_ : ndarray of shape (n_support,)
        Rows with a multiplier > 0; no other row has any influence on the solution.
    support_vectors_ : {array, sparse array} of shape (n_support, n_features)
        Those rows of X; empty for a precomputed kernel. With the linear kernel they are taken from
        the training data when asked for, not stored: the model does not need them, and
        they do not survive pickling or moving to another device.
    dual_coef_ : ndarray of shape (1, n_support) or (K, n_support)
        Signed dual variables times C, so that ``coef_`` is ``dual_coef_ @ support_vectors_``, to
        within the duality gap, as in ``SVC``. With other kernels they are the model.
    partition_ : ndarray of shape (n_samples,)
        Table 1 of [1]_: 0 saturated, 1 on the hinge, 2 logarithmic.
    objective_ : float
        Criterion (8), summed and weighted.
    dual_gap_ : float
        Certificate: (P - D) / P at ``coef_`` (with other kernels than the linear one, at the
        function that ``dual_coef_`` spans) and ``dual_coef_``. With ``loss="ramp"``, that
        of the convex problem on the rows not given up.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has names that are all strings.

    References
    ----------
    .. [1] Hérault, R. & Grandvalet, Y. (2007). Sparse probabilistic classifiers. ICML.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from grayzone import TruncatedLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = TruncatedLogisticRegression(costs={0: 5, 1: 1}).fit(scale(X), y)
    >>> round(clf.threshold_, 3), clf.support_.size < len(y) / 3, clf.dual_gap_ < 1e-6
    (0.833, True, True)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        zone: Any = 1.0,
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
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.zone = zone
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
        self.warm_start = warm_start
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Array, y: Array = None, sample_weight: Array | None = None) -> Self:
        """Fit the model; on any error or interruption the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix, Source, Dask collection} of shape (n_samples, n_features)
            Training data, dense or CSR/CSC, single or double precision; never copied whole when it
            is of these kinds already. Arrays of other libraries stay where they are under
            scikit-learn's ``array_api_dispatch``, and so do fitted attributes. Blocks are a
            :class:`grayzone.sources.Source`; they and Dask are for the linear kernel, and leave
            ``support_``, ``support_vectors_``, ``dual_coef_`` and ``partition_`` unset, which have
            an entry for every row.
        y : array-like of shape (n_samples,), default=None
            Class labels; None beside blocks, which bring theirs.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row's loss; None beside blocks.

        Returns
        -------
        self : TruncatedLogisticRegression
            The fitted estimator.
        """
        self._check_parameters()
        source = given_blocks(self, X, y, sample_weight)
        if source is not None:
            with fit_progress(self, "iteration") as report:
                self._tell_unless_converged(fit_blocks(self, source, report))
            return self
        X, y = validate_data(self, X, y, **self._accepted())
        training = make_training(self, X, y, sample_weight)
        start = self._previous_coef(training)
        with fit_progress(self, "iteration") as report:
            status = self._fit_to(training, start, report).status
        self._tell_unless_converged(status)
        return self

    def _fit_to(
        self, training: Training, start: Array | None = None, report: Report | None = None
    ) -> Solution:
        """Fit to rows that are ready, from start coefficients where there are some."""
        self._set_decision(training)
        floors, ceilings = self._saturation()
        problem, used = training.problem(floors, self.C), training.used
        convex = self._solver(report)
        if ceilings is None:
            found = convex(problem, start)
            self.objective_, self.n_iter_ = found.certificate.primal, found.n_iter
        else:
            loss = Ramp(problem.loss.floor, ceilings[training.codes])
            ramp = descend_ramp(problem, loss, convex, start=start)
            found, used = ramp.convex, used[ramp.kept]
            problem = problem.take(ramp.kept) if ramp.kept.size < problem.weight.size else problem
            self.objective_, self.n_iter_ = ramp.objectives[-1], ramp.n_iter
        self._expose(problem, found, used, training.X.shape[0])
        self._keep_vectors(training.X, training.kernel)
        return found

    def _check_parameters(self) -> None:
        check_number("C", self.C, above=0.0)
        check_number("tol", self.tol, above=0.0)
        check_integer("max_iter", self.max_iter, least=1)
        check_number("cache_size", self.cache_size, above=0.0)
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, NAMES)
        check_choice("loss", self.loss, ("truncated", "ramp"))
        check_choice("solver", self.solver, ("auto", "active-set", "primal"))

    def _saturation(self) -> tuple[Array, Array | None]:
        """Floors F of each class, and ceilings G for the ramp."""
        floors = self._floors()
        if self.loss == "truncated":
            return floors, None
        # A row is given up where another class is as certain as its own cap would have it: for
        # two classes, positive rows below p_min and negative rows above p_max.
        others = np.where(np.eye(len(floors), dtype=bool), -np.inf, -floors[None, :])
        ceilings = others.max(axis=1)
        if not np.all(np.isfinite(ceilings)):
            raise ValueError(
                f"loss='ramp' saturates both sides and needs a zone inside (0, 1); got "
                f"zone={self.zone!r}."
            )
        return floors, ceilings

    def _solver(self, report: Report | None) -> Callable[[Problem, Array | None], Solution]:
        """Give the function that solves convex problems from a start."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter, "seed": seed}
        options["callback"] = self._listener(report)
        return lambda problem, start: minimise(problem, self.solver, start=start, **options)

    @staticmethod
    def _listener(report: Report | None) -> Callable[[Record], bool] | None:
        """Tell callbacks what a solver records."""
        if report is None:
            return None
        return lambda record: report(objective=record.objective, dual_gap=record.gap)

    def _tell_unless_converged(self, status: Status) -> None:
        if status in FINE:
            return
        warnings.warn(
            f"The fit stopped at a relative duality gap of {self.dual_gap_:.2e}, above "
            f"tol={self.tol:g}: {status.value}. Scale the features, raise max_iter "
            f"(now {self.max_iter}) or tol, or lower C.",
            ConvergenceWarning,
            stacklevel=FIT_DEPTH,
        )

    def _previous_coef(self, training: Training) -> Array | None:
        """Coefficients of the last fit, where they can be a start for this one."""
        X, classes = training.X, training.classes
        known = self.warm_start and hasattr(self, "dual_coef_")
        if not (known and np.array_equal(classes, self.classes_)):
            return None
        if self.kernel == "linear":
            slopes = getattr(self, "coef_", np.empty((0, 0)))
            if slopes.shape != (1 if len(classes) == 2 else len(classes), X.shape[1]):
                return None
        else:
            if not self._same_rows(X):
                return None
            slopes = np.zeros((self.dual_coef_.shape[0], X.shape[0]))
            slopes[:, self.support_] = self.dual_coef_
        if not self.fit_intercept:
            return slopes.astype(np.float64)
        return np.column_stack([slopes, self.intercept_]).astype(np.float64)

    def _supports_arrays(self) -> bool:
        return self.solver == "auto"

    def _same_rows(self, X: Array) -> bool:
        """Whether the last fit saw these rows, by its support vectors."""
        if self.partition_.size != X.shape[0]:
            return False
        if self.kernel == "precomputed":
            return True
        before, now = self.support_vectors_, X[self.support_]
        if before.shape != now.shape:
            return False
        different = before != now
        return (different.nnz if sp.issparse(different) else np.count_nonzero(different)) == 0

    def _expose(self, problem: Problem, found: Solution, used: Array, n_rows: int) -> None:
        """Turn a solution on rows ``used`` of ``n_rows`` into fitted attributes."""
        d = problem.design.n_features
        self.__dict__.pop("coef_", None)
        if self.kernel == "linear":
            self.coef_ = np.ascontiguousarray(found.coef[:, :d])
        has_intercept = problem.design.fit_intercept
        self.intercept_ = found.coef[:, d].copy() if has_intercept else np.zeros(problem.n_outputs)
        certificate = found.certificate
        self.dual_gap_ = certificate.relative
        duals = certificate.duals
        active = np.any(duals != 0.0, axis=1)
        self.support_ = used[active]
        self.dual_coef_ = -self.C * (problem.weight[active, None] * duals[active]).T
        hinge = found.multipliers <= problem.loss.slope_at_floor
        self.partition_ = np.zeros(n_rows, dtype=np.int8)
        self.partition_[used] = np.where(active, np.where(hinge, 1, 2), 0)
