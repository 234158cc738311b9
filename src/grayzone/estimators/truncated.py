"""Truncated ("lazy") logistic regression: likelihood where decisions are made."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from math import isinf
from typing import Any, Self

import numpy as np

from grayzone.decision.zones import ceilings_of
from grayzone.estimators._base import SupportVectorClassifier, move_decision
from grayzone.estimators._callbacks import (
    CallbackSupportMixin,
    Report,
    fit_progress,
    with_callbacks,
)
from grayzone.estimators._centred import Centred, check_centres
from grayzone.estimators._contradictions import tell_contradictions
from grayzone.estimators._draws import random_state_of
from grayzone.estimators._empty_classes import leaves_out_empty_classes
from grayzone.estimators._restarting import Restarting
from grayzone.estimators._selection import (
    check_carrier,
    check_selection,
    l1_share,
    may_be_unpenalised,
)
from grayzone.estimators._tails import TAILS, Tailed
from grayzone.estimators._told import Told
from grayzone.estimators._undecided import MayStayUndecided
from grayzone.estimators._zoned import Zoned
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import (
    all_or_nothing,
    check_choice,
    check_integer,
    check_number,
    check_penalty,
)
from grayzone.numerics.columns import places, products_at
from grayzone.numerics.kernels import NAMES
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers import Record, Solution, Status, TruncatedSpec, minimise
from grayzone.solvers.choose import check_possible
from grayzone.solvers.kernel.choose import kernel_for
from grayzone.solvers.kernel.systems import scattered
from grayzone.solvers.truncated.ramp import descend_ramp
from grayzone.solvers.truncated.unpenalised import without_penalty
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.open import open_rows

Array = Any


class TruncatedLogisticRegression(
    CallbackSupportMixin,
    MayStayUndecided,
    Zoned,
    Tailed,
    Restarting,
    Centred,
    Told,
    SupportVectorClassifier,
):
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

    Probabilities are faithful inside the zone, where functions are rich enough to level off at its
    ends, as those of kernels are; slopes of linear ones come out too small where many rows lie
    beyond a narrow zone, which decisions at the threshold hardly feel. The fit itself says only
    "beyond" outside it, where log-odds therefore get a shape of their own (``tails``);
    ``predict_proba`` is a proper, monotone probability everywhere.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty, as in ``SVC`` and ``LogisticRegression``. ``inf`` is no
        penalty, for the linear kernel and the truncated loss: the limit of penalties that vanish,
        with ``dual_gap_`` among functions of up to 1.4 times the norm; where the classes can be
        told apart without an error and the zone is None there is no optimum, and a warning.
    zone : float, pair, mapping, array or None, default=1.0
        Where probabilities have to be right. For two classes a float h > 0 is
        :math:`\sigma(\mathrm{logit}(\mathrm{threshold}) \pm h)`, that is (.27, .73) for h = 1 at
        threshold .5; a pair is ``(p_min, p_max)``; None is (0, 1), plain logistic
        regression, which is not sparse. Where ``costs`` are ranges h is in units of the range of
        thresholds: 1, the default, is that range, 2 is twice as wide in log-odds. With a
        ``reject_cost`` the zone reaches over both cuts, from h below the lower to h above the upper
        one. For more classes a float gives every class the cap :math:`\sigma(h)`, with a
        ``reject_cost`` h above the probability from which on a class is decided for; a mapping
        or array gives each its own, and ``{label: (low, high)}`` chosen classes an interval of
        their probability, whatever the others have.
    costs : None, "balanced", mapping or array of shape (K, K), default=None
        Costs of errors: None is 0/1, "balanced" puts the threshold at the class prior, a
        mapping is ``{label: cost of misclassifying it}``, an array ``cost[true, predicted]``. A
        cost of a mapping that is not known exactly is a range ``(low, high)``: its geometric middle
        decides, and the zone, unless it is given, is the range of thresholds.
        ``predict`` minimises the expected cost: for two classes rule (1), positive if and only
        if :math:`p \ge C^- / (C^+ + C^-)`.
    reject_cost : float, mapping or array of shape (K,), default=None
        Cost of staying undecided, for all or for each true class: ``predict`` follows Chow's rule.
        None: always decide.
    undecided_label : "auto", str or number, default="auto"
        What ``predict`` returns for undecided rows; "auto" is -1 beside numbers and "undecided"
        beside strings.
    tails : {"calibrated", "as-fitted"}, default="calibrated"
        Log-odds beyond the zone. "calibrated" lets odds grow, on each side (for each of K > 2
        classes), as a power of the distance, by maximum likelihood on the training rows beyond it;
        they stay continuous and monotone, the same inside the zone, and decisions do not change.
        "as-fitted" leaves them as they are, which is too close to the zone. A side where decisions
        are made outside the zone (one that was given), and a class whose cap is below 1/2, stay
        as fitted.
    kernel : str or callable, default="linear"
        Kernel of f: "linear", "poly", "rbf", "sigmoid", "laplacian" or "precomputed", where X
        holds the kernel values. A callable takes two matrices and returns those of their rows.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernels "rbf", "poly", "sigmoid" and "laplacian"; "scale" is 1 / (n_features *
        X.var()) and "auto" 1 / n_features, as in ``SVC``.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Independent term of the polynomial and sigmoid kernels.
    centres : None, int or array of shape (m, n_features), default=None
        Rows that may span f, for kernels and more rows than the kernel values of all pairs of them
        allow for: :math:`f = \sum_j a_j k(z_j, \cdot)` over m centres z. None is every row,
        the exact fit; an int m is so many training rows (all of them where there are no more), an
        array the centres themselves. A fit takes n m^2 multiplications and, beyond ``cache_size``,
        no more memory than m^2. What is certified is then the fit among these functions;
        ``restriction_cost_`` says how much the other rows might have added.
    centre_selection : {"random", "leverage", "import"}, default="random"
        How training rows become centres: at random, evenly over the rows of each class; at random
        by their approximate ridge leverage scores, of ten times as many rows; one after the other
        the row that those before explain least, of twice as many.
    loss : {"truncated", "ramp"}, default="truncated"
        "ramp" also saturates the other side (§3.3 of [1]_): rows beyond the far end of the zone are
        given up. Not convex: started from the convex fit, a local optimum.
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        What keeps the function small. "l1" is :math:`\|a\|_1 / C`, not the squared norm: with
        the linear kernel a is ``coef_``, few features; with others the coefficients of
        :math:`f = \sum_j a_j k(x_j, \cdot)`, few rows (Roth's expansion, §3.3 of [1]_), for which
        ``cache_size`` must hold all kernel values. "elasticnet" is :math:`(\rho \|a\|_1 +
        \tfrac{1-\rho}{2} \|f\|^2) / C` with :math:`\rho` the ``l1_ratio``. Both are for NumPy and
        SciPy arrays, the truncated loss, a finite C and ``solver="auto"``.
    l1_ratio : float, default=0.5
        Share of the l1 norm in the elastic net, above 0 and up to 1.
    cache_size : float, default=1000
        Megabytes that kernel values may take while fitting; what does not fit is computed again
        when needed. Not used by the linear kernel; features of ``centres`` on a GPU may take half
        of the memory that is free there, if that is more.
    fit_intercept : bool, default=True
        Whether to fit an (unpenalised) intercept.
    class_weight : mapping, "balanced" or None, default=None
        Weights of the classes in the loss. For costs of *decisions* use ``costs``.
    solver : {"auto", "active-set", "primal"}, default="auto"
        "auto" is, for the linear kernel, a decomposed Newton method with an interior point near the
        kink; where there are too many features for a Hessian, dual ascent for sparse rows (CSR)
        of two classes, else conjugate gradients; for other kernels and two classes, block descent
        in the dual. "active-set" is the paper's dual
        algorithm (§4.2, two classes, small data), "primal" its smoothed Newton method (§4.1);
        all of them reach the same optimum.
    tol : float, default=1e-6
        Relative accuracy: the fit may stop once what is left to gain is at most ``tol`` times the
        objective, by its duality gap. Where rounding errors of large kernel values leave no gap
        that small, ``dual_gap_`` says what was reached; a gap above ``max(tol, 1e-3)`` warns.
    max_iter : int, default=1000
        Most iterations of the solver.
    warm_start : bool, default=False
        Start from the previous solution where its shape fits.
    random_state : int, RandomState instance or None, default=None
        Draws the subsets from which large fits start, which the optimum does not depend on, and
        ``centres``; None is the same as 0.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels; ``classes_[1]`` is the positive one of two.
    actions_ : ndarray of shape (K,) or (K + 1,)
        What ``predict`` can return: the classes and, with ``reject_cost``, the undecided label.
    coef_ : ndarray of shape (1, n_features) or (K, n_features)
        Coefficients of the log-odds (two classes) or of the K scores; only with the linear kernel.
    intercept_ : ndarray of shape (1,) or (K,)
        Intercepts.
    zone_ : tuple of two floats, or ndarray of shape (K,)
        The zone ``(p_min, p_max)``, or the caps of K > 2 classes.
    tail_slopes_ : ndarray of shape (2,) or (K,)
        Slopes s of the log-odds of each class where it leaves the zone, below p_min and above
        p_max, relative to those of ``coef_`` or ``dual_coef_``; 1 is as fitted.
    tail_bends_ : ndarray of shape (2,) or (K,)
        How soon they level off: log-odds that were d beyond the end are s log(1 + b d) / b beyond
        it, with b the bend, and s d where that is 0, as fitted.
    threshold_ : float or None
        Decision threshold of two classes; None for more, and with ``reject_cost``.
    cost_matrix_ : ndarray of shape (K, K)
        ``cost[true, predicted]``.
    support_ : ndarray of shape (n_support,)
        Rows with a multiplier > 0; no other row has any influence on the solution. With an l1
        penalty and another kernel than the linear one, the rows that span the function.
    support_vectors_ : {array, sparse array} of shape (n_support, n_features)
        Those rows of X; empty for a precomputed kernel. With the linear kernel they are taken from
        the training data when asked for, not stored: the model does not need them, and
        they do not survive pickling or moving to another device.
    dual_coef_ : ndarray of shape (1, n_support) or (K, n_support)
        Signed dual variables times C, so that ``coef_`` is ``dual_coef_ @ support_vectors_``, to
        within the duality gap, as in ``SVC``. With other kernels they are the model; where kernel
        values are so large that rounding errors of the duals would show in it, they are other
        coefficients of these rows that span the same function. With an l1 penalty of share
        ``l1_ratio`` (1 for "l1") ``(1 - l1_ratio) * coef_`` is ``dual_coef_ @ support_vectors_``
        moved towards zero by ``l1_ratio``; with other kernels the coefficients a.
    partition_ : ndarray of shape (n_samples,)
        Table 1 of [1]_: 0 saturated, 1 on the hinge, 2 logarithmic.
    objective_ : float
        Criterion (8), summed and weighted.
    dual_gap_ : float
        Certificate: (P - D) / P at ``coef_`` (with other kernels than the linear one, at the
        function that ``dual_coef_`` spans) and ``dual_coef_``. With ``loss="ramp"``, that
        of the convex problem on the rows not given up.
    centres_ : {array, sparse array} of shape (n_centres, n_features)
        With ``centres``, the rows that span the function; ``dual_coef_`` has their coefficients,
        ``support_vectors_`` is the same, and ``support_`` is not there. Centres that the others
        span already, as of rows that are there twice, are left out.
    centre_indices_ : ndarray of shape (n_centres,)
        Numbers of the centres among the training rows, unless they were given.
    n_centres_dropped_ : int
        How many were left out.
    restriction_cost_ : float
        With ``centres``, how much lower the objective of a function of *all* rows might be, at
        most, as a share of ``objective_``: from the value that the multipliers found have in the
        dual of that fit. A bound where ``restriction_cost_is_bound_``; where more than 8,192 rows
        have a multiplier an estimate of that bound, from the kernel values of some rows with all.
        Near 1 it says nothing: the centres are too few to tell. For rows in one place and the
        truncated loss.
    restriction_cost_is_bound_ : bool
        Whether it is the bound itself.
    n_iter_ : int
        Iterations of the solver.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names that are all strings.

    See Also
    --------
    TruncatedLogisticRegressionCV : C and a zone chosen by cross-validation.
    ImportVectorMachine : Probabilities everywhere, of few points.

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

    Costs that are only known to lie in a range, and rows that somebody else may decide:

    >>> clf = TruncatedLogisticRegression(costs={0: (2, 9), 1: 1}, reject_cost=0.2).fit(scale(X), y)
    >>> [round(p, 3) for p in clf.zone_], clf.actions_
    ([0.2, 0.978], array([ 0,  1, -1]))

    Few features, with the same certificate:

    >>> clf = TruncatedLogisticRegression(C=0.1, penalty="l1").fit(scale(X), y)
    >>> int((clf.coef_ != 0).sum()) < 15, clf.dual_gap_ < 1e-6
    (True, True)

    A kernel on a few rows, the fit certified among the functions that they span, and what the other
    rows could have added bounded:

    >>> clf = TruncatedLogisticRegression(kernel="rbf", centres=100, random_state=0)
    >>> clf = clf.fit(scale(X), y)
    >>> clf.centres_.shape, clf.dual_gap_ < 1e-6, clf.restriction_cost_ < 0.05
    ((100, 30), True, True)
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        zone: Any = 1.0,
        costs: Any = None,
        reject_cost: Any = None,
        undecided_label: Any = "auto",
        tails: str = "calibrated",
        kernel: Any = "linear",
        gamma: str | float = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        centres: Any = None,
        centre_selection: str = "random",
        loss: str = "truncated",
        penalty: str = "l2",
        l1_ratio: float = 0.5,
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
        self.reject_cost = reject_cost
        self.undecided_label = undecided_label
        self.tails = tails
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.centres = centres
        self.centre_selection = centre_selection
        self.loss = loss
        self.penalty = penalty
        self.l1_ratio = l1_ratio
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
    @leaves_out_empty_classes
    def fit(
        self,
        X: Array,
        y: Array = None,
        sample_weight: Array | None = None,
        example_costs: Any = None,
    ) -> Self:
        """Fit the model; on any error or interruption the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix, Source, Dask collection} of shape (n_samples, n_features)
            Training data, dense or CSR/CSC, single or double precision; never copied whole when it
            is of these kinds already, but for an l1 penalty (by columns, in double precision).
            Arrays of other libraries stay where they are under scikit-learn's
            ``array_api_dispatch``, and so do fitted attributes. Blocks are a
            :class:`grayzone.sources.Source`; they and Dask are for the linear kernel, and leave
            ``support_``, ``support_vectors_``, ``dual_coef_`` and ``partition_`` unset, which have
            an entry for every row.
        y : array-like of shape (n_samples,), default=None
            Class labels; None beside blocks, which bring theirs.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row's loss; None beside blocks.
        example_costs : array-like of shape (n_samples, K, K) or mapping, default=None
            Costs of each row, in place of ``costs``: ``cost[row, true, decided]``, or ``{label:
            costs of misclassifying each row if it has that label}``. A row's threshold gives it its
            own zone, and its loss weighs as much as its stake, what errors about it cost, relative
            to the mean stake: constant rows are the same as ``costs``. Rows that have nothing at
            stake count as rows of weight zero. ``cost_matrix_``, ``threshold_`` and ``zone_`` are
            those of the mean costs, by which ``predict`` decides about rows of unknown costs. None
            beside blocks, which bring theirs.

        Returns
        -------
        self : TruncatedLogisticRegression
            The fitted estimator.
        """
        self._check_parameters()
        check_carrier(self, X)
        labelled = open_rows(
            self,
            X,
            y,
            sample_weight,
            class_weight=self.class_weight,
            by_rows=self.kernel != "linear",
            example_costs=example_costs,
            takes_costs=True,
            **self._accepted(),
        )
        start = self._previous_coef(labelled)
        seen = {} if labelled.held is None else {"X": X, "y": y}
        with fit_progress(self, "iteration", **seen) as report:
            solution = self._fit_to(labelled, start, report)
        self._tell_unless_converged(solution)
        self._tell_unless_faithful(labelled, solution)
        self._tell_if_constant(solution)
        tell_contradictions(self, example_costs)
        return self

    def _fit_to(
        self,
        labelled: Labelled,
        start: Array | None = None,
        report: Report | None = None,
        several_fits: bool = False,
    ) -> Solution:
        """Decide, specify, solve and expose, from start coefficients where there are some."""
        labelled = self._set_decision(labelled)
        floors, ceilings = self._saturation()
        spec = self._specify(labelled, floors, several_fits)
        options: dict[str, Any] = {
            "solver": self.solver,
            "tol": self.tol,
            "max_iter": self.max_iter,
            "seed": int(random_state_of(self.random_state).randint(2**31 - 1)),
            "start": start,
            "callback": self._listener(labelled, spec, report),
        }
        if isinf(self.C):
            spec, solution = self._without_penalty(labelled, spec, options)
        elif ceilings is None:
            solution = minimise(labelled, spec, **options)
        if ceilings is None:
            self.objective_, self.n_iter_ = solution.certificate.primal, solution.n_iter
        else:
            ramp = descend_ramp(labelled, spec, ceilings, **options)
            solution, kept = ramp.convex, ramp.kept
            self.objective_, self.n_iter_ = ramp.objectives[-1], ramp.n_iter
        slopes, bends = self._fit_tails(labelled, spec, solution)
        held = labelled.held is not None
        self._expose(kept if held and ceilings is not None else labelled, spec, solution)
        self.tail_slopes_ = moved(slopes, labelled.like)
        self.tail_bends_ = moved(bends, labelled.like)
        self._bound_restriction(labelled, spec, solution, several_fits or ceilings is not None)
        return solution

    def _without_penalty(
        self, labelled: Labelled, spec: TruncatedSpec, options: dict[str, Any]
    ) -> tuple[TruncatedSpec, Solution]:
        """Solve for C = inf, where there may be no optimum."""

        def fit(spec: TruncatedSpec, start: Array | None) -> Solution:
            known = options["start"] if start is None else start
            return minimise(labelled, spec, **{**options, "start": known})

        spec, solution, found = without_penalty(fit, spec, labelled.n_features, self.tol)
        return spec, solution if found else replace(solution, status=Status.NO_OPTIMUM)

    def _check_parameters(self) -> None:
        check_penalty("C", self.C, none=may_be_unpenalised(self))
        check_number("tol", self.tol, above=0.0)
        check_integer("max_iter", self.max_iter, least=1)
        check_number("cache_size", self.cache_size, above=0.0)
        if not callable(self.kernel):
            check_choice("kernel", self.kernel, NAMES)
        check_choice("tails", self.tails, TAILS)
        check_choice("loss", self.loss, ("truncated", "ramp"))
        check_choice("solver", self.solver, ("auto", "active-set", "primal"))
        check_selection(self)
        check_centres(self)

    def _saturation(self) -> tuple[Array, Array | None]:
        """Floors F of each class, and ceilings G for the ramp."""
        floors = self._floors()
        if self.loss == "truncated":
            return floors, None
        ceilings = ceilings_of(floors)
        if not np.all(np.isfinite(ceilings)):
            raise ValueError(
                f"loss='ramp' saturates both sides and needs a zone inside (0, 1); got "
                f"zone={self.zone!r}."
            )
        return floors, ceilings

    def _specify(self, labelled: Labelled, floors: Array, several_fits: bool) -> TruncatedSpec:
        kernel, cache = None, self.cache_size * 2**20
        exact = self.kernel != "linear" and self.centres is None
        check_possible(labelled, self.kernel if exact else None, self.solver)
        if exact:
            assert labelled.held is not None
            kernel = labelled.held.state("kernel", None, lambda: kernel_for(self, labelled))
        penalty, by_rows = 1.0 / self.C, labelled.by_rows
        spec = TruncatedSpec(
            floors,
            penalty,
            self.fit_intercept,
            kernel,
            cache,
            several_fits,
            by_rows,
            l1_share(self),
        )
        return spec if self.centres is None else self._on_centres(labelled, spec)

    def _listener(
        self, labelled: Labelled, spec: TruncatedSpec, report: Report | None
    ) -> Callable[[Record], bool] | None:
        """Return what hands a solver's records to callbacks, with the model as of then."""
        if report is None:
            return None

        def listener(record: Record) -> bool:
            def attributes() -> dict[str, Any]:
                model = copy.copy(self)
                model._expose_point(labelled, spec, record.coef)
                return dict(vars(model))

            facts = {"objective": record.objective, "dual_gap": record.gap}
            return report(None if record.coef is None else attributes, **facts)

        return listener

    def _supports_arrays(self) -> bool:
        return self.solver == "auto" and self.penalty == "l2"

    def _expose(self, labelled: Labelled, spec: TruncatedSpec, solution: Solution) -> None:
        """Turn a solution into fitted attributes."""
        xp = array_namespace(solution.coef)
        if not bool(xp.all(xp.isfinite(solution.coef))):
            raise FloatingPointError("coefficients are not finite")
        self.dual_gap_ = solution.certificate.relative
        for name in ("support_", "dual_coef_", "partition_"):
            self.__dict__.pop(name, None)
        if labelled.held is not None:
            self._expose_rows(labelled, spec, solution)
        self._expose_function(labelled, spec, solution.coef)

    def _expose_rows(self, labelled: Labelled, spec: TruncatedSpec, solution: Solution) -> None:
        """Set what has an entry for every row; rows without a weight have no influence."""
        rows, duals = labelled.held, solution.certificate.duals
        assert rows is not None
        assert duals is not None
        xp, coef = array_namespace(duals), solution.coef
        active = duals[:, 0] != 0.0 if duals.shape[1] == 1 else xp.any(duals != 0.0, axis=1)
        hinge = solution.multipliers <= spec.slopes_at_floors(rows)
        partition = xp.astype(active, xp.int8) + xp.astype(active & ~hinge, xp.int8)
        self.partition_ = self._of_all(partition, rows, int(labelled.source.like().shape[0]))
        if spec.features is not None:  # the model is spanned by the centres
            return
        if spec.kernel is not None:
            # the model may be spanned by others, and with an l1 penalty is by few
            spans = xp.any(coef[:, : rows.n_rows] != 0.0, axis=0)
            active = spans if spec.l1_ratio else active | spans
        support = places(active)
        self.support_ = rows.numbers_of(support)
        if spec.kernel is not None:
            self.dual_coef_ = xp.take(coef, support, axis=1)
        elif duals.shape[1] == 1:
            given = support, rows.weight, duals[:, 0]
            self.dual_coef_ = products_at(*given, factor=-1.0 / spec.penalty)[None, :]
        else:
            taken = xp.take(rows.weight, support) * xp.take(duals.T, support, axis=1)
            self.dual_coef_ = -taken / spec.penalty

    @staticmethod
    def _of_all(values: Array, rows: Rows, n_rows: int) -> Array:
        """Return whole numbers (n,) of all rows from those of some; of the others they are 0."""
        if rows.n_rows == n_rows:
            return values
        xp = array_namespace(values)
        every = scattered(xp.astype(values, xp.float64)[:, None], rows.places(), n_rows)
        return xp.astype(every[:, 0], values.dtype)

    def _expose_function(self, labelled: Labelled, spec: TruncatedSpec, coef: Array) -> None:
        """Set what predictions need."""
        xp, d = array_namespace(coef), coef.shape[1] - int(spec.fit_intercept)
        for name in ("coef_", "tail_slopes_", "tail_bends_"):
            self.__dict__.pop(name, None)
        self._keep_nothing()
        self.intercept_ = xp.zeros_like(coef[:, 0])
        if spec.fit_intercept:
            self.intercept_ = xp.asarray(coef[:, d], copy=True)
        if spec.features is not None:
            self._expose_centres(spec.features, coef[:, :d])
        elif spec.kernel is None:
            self.coef_ = xp.asarray(coef[:, :d], copy=True)
        if labelled.held is not None and spec.features is None:
            self._keep_vectors(labelled.source.like(), spec.kernel)
        move_decision(self, labelled.like)

    def _expose_point(self, labelled: Labelled, spec: TruncatedSpec, coef: Array) -> None:
        """Set the same for a point on the way; with a kernel the coefficients are the duals."""
        if spec.kernel is not None:
            assert labelled.held is not None
            xp, n = array_namespace(coef), labelled.held.n_rows
            places = xp.nonzero(xp.any(coef[:, :n] != 0.0, axis=0))[0]
            self.support_ = xp.take(labelled.held.places(), places)
            self.dual_coef_ = xp.take(coef, places, axis=1)
        self._expose_function(labelled, spec, coef)
