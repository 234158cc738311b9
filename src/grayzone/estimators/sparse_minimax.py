"""Sparse greedy minimax probability machine: bases, their widths and feature weights by a bound."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from grayzone.estimators._callbacks import (
    FIT_DEPTH,
    CallbackSupportMixin,
    Report,
    fit_progress,
    with_callbacks,
)
from grayzone.estimators._draws import random_state_of
from grayzone.estimators._empty_classes import leaves_out_empty_classes
from grayzone.estimators._minimax import (
    MinimaxClassifier,
    as_scores,
    check_two_rows_each,
    in_deviations,
    told_apart,
)
from grayzone.estimators._search import check_folds_of_blocks
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import (
    HEAVIEST,
    Floats,
    all_or_nothing,
    check_choice,
    check_integer,
    check_number,
)
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.pitfalls import Pitfall
from grayzone.numerics.threads import own_threads
from grayzone.solvers.choose import at_hand
from grayzone.solvers.minimax.aims import Aim
from grayzone.solvers.minimax.basis import Family
from grayzone.solvers.minimax.direction import joint_bound
from grayzone.solvers.minimax.greedy import (
    Greedy,
    Pair,
    Search,
    Whole,
    by_turns,
    in_double,
    rows_at,
)
from grayzone.solvers.minimax.held_out import check_folds, held_out_folds, score_bounds
from grayzone.solvers.minimax.readings import Part, Readings
from grayzone.sources.distinct import Distinct, distinct_rows
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.open import check_same_place, in_blocks, open_rows, refuse_elsewhere

Array = Any
Turns = Iterator[dict[int, Pair]]  # bounds by the places of machines that have one basis more

_INSTEAD = "A basis that is a function is given NumPy arrays: give it some, or name a basis."


class SparseMinimaxProbabilityMachine(CallbackSupportMixin, MinimaxClassifier):
    r"""Nonlinear minimax probability machine of few basis functions, chosen by its own bound.

    Basis functions :math:`K_\gamma(\cdot, v)` around training rows v are added one by one [1]_.
    Each time the best of a few random rows is taken, its kernel width or its weights of the
    features are improved, and a minimax problem in two dimensions, the model so far and the new
    basis, gives the coefficients (eq. (11)). All choices maximise the accuracy bound
    :math:`\Omega = 1/(1+m^2)`; no cross-validation is needed for them.

    Three classes or more are told apart one against the rest, as by
    :class:`MinimaxProbabilityMachine`, each with bases of its own.

    Parameters
    ----------
    n_bases : int, default=50
        Most basis functions.
    n_candidates : int, default=5
        Training rows that each basis is the best of.
    candidates : {"rows", "boosted"}, default="rows"
        "rows" draws them at random, as the paper does. "boosted" takes those of a sample of up to
        256 rows whose bases do most for the pairs of rows that a boosted kernel has wrong so far,
        after Crammer, Keshet & Singer [2]_, whom the paper's section 4 asks about.
    gamma : {"features", "width"} or float, default="features"
        "features" gives each basis a weight for each feature, eq. (18); "width" one width for all
        features, eq. (15); a float is that width. The former does not depend on the scales of the
        features, the others do.
    gamma_iter : int, default=1
        Quasi-Newton steps for gamma, from 1 / (n_features * variance). One to three: more of
        them overfit the bound.
    basis : {"gaussian", "poly", "tanh"} or callable, default="gaussian"
        :math:`e^{-\sum_l \gamma_l (x_l - v_l)^2}`,
        :math:`(\sum_l \gamma_l x_l v_l + c_0)^{degree}`,
        :math:`\tanh(\sum_l \gamma_l x_l v_l + c_0)`, or a function of X and one row that returns
        the values (n_samples,), which then has no gamma.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=1.0
        Independent term of "poly" and "tanh".
    costs : None, "balanced", mapping or array of shape (2, 2), default=None
        None treats both classes alike. Otherwise the expected cost in the worst case is minimised,
        given the class frequencies: a basis is looked for at the ratio of the classes' standard
        deviations from the threshold that was best so far, then the ratio is chosen anew. For two
        classes.
    required_bound : mapping {label: float} or None, default=None
        A worst-case accuracy that one class is given, below 1; that of the other is then maximised.
        Not together with ``costs``. For two classes.
    moment_error : None, float, pair of floats or mapping {label: either}, default=None
        How far the moments of the basis functions may be off for the bound to hold: :math:`\nu` or
        :math:`(\nu, \rho)`, as for :class:`MinimaxProbabilityMachine`, in the space of the bases
        that were chosen. :math:`\nu` takes so many standard deviations off, :math:`\rho`, a share
        of each basis's variance, acts as a ridge on the coefficients and on the choice of bases.
    stopping : {"held-out"} or None, default="held-out"
        "held-out" takes the number of bases, up to ``n_bases``, with the largest held-out bound;
        with ``costs`` with the least expected cost by held-out bounds, with ``required_bound`` the
        largest sum of both, what is beyond the required one left out. Each class has its own.
    cv : int, cross-validation generator, iterable or None, default=3
        Folds whose rows are held out, for the held-out bound; None only without ``stopping``. An
        integer is that many folds of distinct rows, by class.
    random_state : int, RandomState instance or None, default=None
        Draws candidates and folds, among distinct rows: their order and their repetitions make no
        difference, unless rows come in blocks and are too many to be brought together. None is the
        same as 0.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels; class x of the paper is ``classes_[1]``.
    accuracy_bound_ : float
        :math:`\Omega` on the training data. It was maximised over bases, widths and weights, and
        is broken by new data more often than not, once gamma is optimised. With ``moment_error``
        it holds for all moments of these bases that are no farther off. Of three classes or more
        it is that of all rows together, :math:`1 - \sum_k (1 - \Omega_k)` or 0, in the shares of
        the training data: a class of its own may do worse.
    class_bounds_ : ndarray of shape (n_classes,)
        Worst-case accuracy of each class; they differ only with ``costs``, ``required_bound`` or
        ``moment_error``. Of three classes or more :math:`\Omega_k`, how often in the worst case
        class k is told from the others, and the others from it.
    held_out_bound_ : float
        The bound to rely on: the smaller of the two classes' worst-case accuracies by the means
        and variances of scores of held-out rows, from ``cv`` fits to the others; of three classes
        or more that of all rows together. It knows nothing of ``moment_error``. NaN without ``cv``
        or where a class has too few rows.
    bound_path_ : ndarray
        :math:`\Omega` after each basis; of three classes or more, after one of each class.
    held_out_path_ : ndarray of shape (n_bases,)
        Held-out bound after each basis; only with ``cv``.
    bases_ : ndarray of shape (n_iter, n_features)
        Rows v of the bases; of three classes or more those of all of them, one after the other.
    gammas_ : ndarray of shape (n_iter, n_features)
        Their weights of the features; equal ones for a width.
    feature_weights_ : ndarray of shape (n_features,)
        Mean weights of the features in units of their variances, of sum 1.
    dual_coef_ : ndarray of shape (1, n_iter) or (n_classes, n_iter)
        Coefficients of the bases; 0 for those of other classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Independent term.
    cost_matrix_ : ndarray of shape (n_classes, n_classes)
        ``cost[true, predicted]``.
    n_iter_ : int
        Bases.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names that are all strings.

    See Also
    --------
    MinimaxProbabilityMachine : The exact machine, linear or on all rows of a kernel.

    References
    ----------
    .. [1] Strohmann, T., Grudic, G., Belitski, A. & DeCoste, D. (2004). Sparse greedy minimax
       probability machine classification. NIPS 16.
    .. [2] Crammer, K., Keshet, J. & Singer, Y. (2003). Kernel design using boosting. NIPS 15.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from grayzone import SparseMinimaxProbabilityMachine
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SparseMinimaxProbabilityMachine(n_bases=20, random_state=0).fit(X, y)
    >>> bool(clf.score(X, y) > clf.accuracy_bound_ > clf.held_out_bound_), len(clf.bases_) <= 20
    (True, True)

    A class that is to be right in nine cases of ten at least:

    >>> y_bound, x_bound = clf.set_params(required_bound={0: 0.9}).fit(X, y).class_bounds_
    >>> round(float(y_bound), 6), bool(x_bound < 0.9)
    (0.9, True)
    """

    bases_: Floats
    gammas_: Floats
    feature_weights_: Floats
    bound_path_: Floats
    held_out_path_: Floats
    n_iter_: int
    _fitted_family: Family

    def __init__(
        self,
        n_bases: int = 50,
        *,
        n_candidates: int = 5,
        candidates: str = "rows",
        gamma: str | float = "features",
        gamma_iter: int = 1,
        basis: Any = "gaussian",
        degree: int = 3,
        coef0: float = 1.0,
        costs: Any = None,
        required_bound: Any = None,
        moment_error: Any = None,
        stopping: str | None = "held-out",
        cv: int | None = 3,
        random_state: Any = None,
    ) -> None:
        self.n_bases = n_bases
        self.n_candidates = n_candidates
        self.candidates = candidates
        self.gamma = gamma
        self.gamma_iter = gamma_iter
        self.basis = basis
        self.degree = degree
        self.coef0 = coef0
        self.costs = costs
        self.required_bound = required_bound
        self.moment_error = moment_error
        self.stopping = stopping
        self.cv = cv
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    @leaves_out_empty_classes
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the machine; on any error or interruption the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix, Source, Dask collection} of shape (n_samples, n_features)
            Training data. Sparse rows stay sparse, but for those of the bases. Arrays of other
            libraries stay where they are under scikit-learn's ``array_api_dispatch``, and so do
            fitted attributes; a ``basis`` that is a function wants NumPy's. Blocks are a
            :class:`grayzone.sources.Source`; see Notes.
        y : array-like of shape (n_samples,), default=None
            Labels of two classes or more; None beside blocks, which bring theirs.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the moments; None beside blocks.

        Returns
        -------
        self : SparseMinimaxProbabilityMachine
            The fitted estimator.

        Notes
        -----
        Blocks and Dask collections of up to four million entries are brought together: the model is
        that of NumPy arrays. Of more rows, candidates are drawn from a sample (a million entries,
        by class and by the numbers of rows) and improved on it; then one reading of all rows gives
        the moments of all candidates, by which the best is chosen. Coefficients, thresholds and
        bounds are those of all rows. Rows are read three times, once for each basis, and with
        ``cv`` ``n_bases + 1`` times more for all folds together; as often for three classes as for
        two. Folds are dealt out by the values of rows, and about as large as each other; ``cv`` is
        a number of them, or None. ``held_out_bound_`` is NaN where one would leave less than two
        rows of a class.
        """
        self._check_parameters()
        if in_blocks(X):
            check_folds_of_blocks(self.cv)
        if callable(self.basis):
            refuse_elsewhere(self, X, _INSTEAD)
        labelled = open_rows(self, X, y, sample_weight, by_rows=True, **self._accepted())
        if callable(self.basis) and not is_numpy_array(labelled.like):  # as blocks of Dask may be
            raise TypeError(f"basis={self.basis!r} is given arrays of another library. {_INSTEAD}")
        check_two_rows_each(labelled)
        labelled = at_hand(labelled)
        rng = random_state_of(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        for name in [name for name in vars(self) if name.endswith("_path_")]:
            delattr(self, name)
        self.classes_ = labelled.classes
        aim = self._aim(labelled)
        with own_threads(), fit_progress(self, "basis", self.n_bases, X=X, y=y) as report:
            walk = self._by_readings if labelled.held is None else self._by_rows
            machines, turns = walk(labelled, rng, seed, aim)
            bounds = self._grow(machines, turns, report)
        self._expose(machines, bounds, aim)
        self._spread = (*machines[0].spread(), *aim.errors)
        self._class_shares = (float(labelled.prior[0]), float(labelled.prior[1]))
        self._move(labelled.like)
        return self

    def _move(self, like: Array) -> None:
        """Put what was found where the rows are; names of labels stay NumPy's."""
        for name, value in list(vars(self).items()):
            fitted = name.endswith("_") and isinstance(value, np.ndarray)
            if fitted and value.dtype.kind in "biuf":
                setattr(self, name, moved(value, like))

    def _by_rows(
        self, labelled: Labelled, rng: np.random.RandomState, seed: int, aim: Aim
    ) -> tuple[list[Greedy], Turns]:
        """Set the held-out bounds; return the machines, and the turns by which they will grow."""
        rows = labelled.all_held
        problems = told_apart(rows.codes, len(labelled.classes))
        folds = held_out_folds(self.cv, labelled, rows.X, rng)
        along = [self._along(rows, codes, folds, seed, aim) for codes in problems if folds]
        sizes = self._sizes(len(problems), along, labelled.prior, aim)
        machines = [self._greedy(rows, codes, seed, aim) for codes in problems]
        return machines, by_turns(machines, sizes)

    def _by_readings(
        self, labelled: Labelled, rng: np.random.RandomState, seed: int, aim: Aim
    ) -> tuple[list[Greedy], Turns]:
        """Do the same for rows that are reached by sums."""
        n_classes, make = len(labelled.classes), partial(self._made, seed=seed, aim=aim)
        codes = [None] if n_classes == 2 else list(range(n_classes))
        readings = Readings(labelled, int(self.cv or 0), int(rng.randint(2**31 - 1)))
        parts = [Part(fold, code) for code in codes for fold in range(readings.n_folds)]
        machines = [readings.machine(part, make) for part in parts]
        along = readings.held_out(parts, machines, self.n_bases) if parts else []
        sizes = self._sizes(len(codes), along, labelled.prior, aim)
        parts = [Part(None, code) for code in codes]
        machines = [readings.machine(part, make) for part in parts]
        return machines, readings.grow(parts, machines, sizes)

    def _grow(self, machines: list[Greedy], turns: Turns, report: Report | None) -> list[Pair]:
        """Add a basis to each machine by turns; set the path, return the bounds of both sides."""
        bounds, path = [(0.0, 0.0)] * len(machines), []
        for found in turns:
            for k, pair in found.items():
                bounds[k] = pair
            path.append(joint_bound([min(pair) for pair in bounds]))
            stopped = report is not None and report(
                lambda: self._functions(machines), accuracy_bound=path[-1]
            )
            if stopped:
                break
        self.bound_path_ = np.array(path)
        return bounds

    def _check_parameters(self) -> None:
        check_integer("n_bases", self.n_bases, least=1)
        check_integer("n_candidates", self.n_candidates, least=1)
        check_choice("candidates", self.candidates, ("rows", "boosted"))
        check_integer("gamma_iter", self.gamma_iter, least=0)
        if isinstance(self.gamma, str):
            check_choice("gamma", self.gamma, ("features", "width"))
        else:
            if check_number("gamma", self.gamma, above=0.0) > HEAVIEST:
                raise ValueError(f"gamma must be at most {HEAVIEST:g}; got {self.gamma!r}.")
        if not callable(self.basis):
            check_choice("basis", self.basis, ("gaussian", "poly", "tanh"))
        check_integer("degree", self.degree, least=1)
        check_number("coef0", self.coef0)
        check_folds(self.cv)
        self._check_aims()
        if self.stopping is not None:
            check_choice("stopping", self.stopping, ("held-out",))
            if self.cv is None:
                raise ValueError("stopping='held-out' needs folds: cv must not be None.")

    def _family(self) -> Family:
        if callable(self.basis):
            return Family("callable", function=self.basis)
        return Family(self.basis, self.degree, float(self.coef0))

    def _greedy(self, rows: Rows, codes: Array, seed: int, aim: Aim) -> Greedy:
        return self._made(distinct_rows(in_double(rows.X), codes, rows.weight), None, seed, aim)

    def _made(self, rows: Distinct, whole: Whole | None, seed: int, aim: Aim) -> Greedy:
        boosted = self.candidates == "boosted"
        search = Search(self.gamma, self.gamma_iter, self.n_candidates, boosted)
        return Greedy(self._family(), rows, search, aim, seed, whole)

    def _sizes(self, n_machines: int, along: list[list[Pair]], prior: Array, aim: Aim) -> list[int]:
        """Set the held-out bounds, and return the number of bases of each machine.

        ``along`` has bounds of both classes after each basis, of each machine; nothing without
        folds.
        """
        self.held_out_bound_ = float("nan")
        if not along:
            return [self.n_bases] * n_machines
        sizes, paths = [], []
        for pairs in along:
            worth = [aim.worth(pair, prior[:2]) for pair in pairs]
            best = int(np.argmax(worth)) if self.stopping == "held-out" else self.n_bases - 1
            paths.append([min(pair) for pair in pairs])
            sizes.append(best + 1)
        self.held_out_path_ = np.array([joint_bound(step) for step in zip(*paths, strict=True)])
        last = [path[size - 1] for path, size in zip(paths, sizes, strict=True)]
        self.held_out_bound_ = joint_bound(last)
        return sizes

    def _along(
        self, rows: Rows, codes: Array, folds: list[tuple[Array, Array]], seed: int, aim: Aim
    ) -> list[Pair]:
        """Bounds of both classes after each basis, by scores of held-out rows."""
        out, xp = np.concatenate([out for _, out in folds]), array_namespace(rows.weight)
        scores = [self._scores_out(rows, codes, fold, seed, aim) for fold in folds]
        along = xp.concat(scores, axis=1)
        taken = rows_at(codes, out), rows_at(rows.weight, out)
        return [score_bounds(along[k, :], *taken) for k in range(self.n_bases)]

    def _scores_out(
        self, rows: Rows, codes: Array, fold: tuple[Array, Array], seed: int, aim: Aim
    ) -> Array:
        """Scores (n_bases, n) of the held-out rows of a fold after each basis."""
        train = moved(fold[0], rows.codes)
        machine = self._greedy(rows.take(train), rows_at(codes, fold[0]), seed, aim)
        return machine.scores_along(rows_at(rows.X, fold[1]), self.n_bases)

    def _functions(self, machines: list[Greedy]) -> dict[str, Any]:
        """Return what a fitted machine of the bases by now computes its scores from."""
        d, n_classes = self.n_features_in_, len(self.classes_)
        factors = [in_deviations(machine.spread()[1:], n_classes) for machine in machines]
        n_each = [len(machine.coefs) for machine in machines]
        dual_coef = np.zeros((len(machines), sum(n_each)))
        for k, (machine, stop) in enumerate(zip(machines, np.cumsum(n_each), strict=True)):
            dual_coef[k, stop - n_each[k] : stop] = factors[k] * np.array(machine.coefs)
        intercepts = [f * machine.intercept for f, machine in zip(factors, machines, strict=True)]
        return {
            "_fitted_family": self._family(),  # whatever the parameters are by then
            "bases_": np.array([v for m in machines for v in m.centres]).reshape(-1, d),
            "gammas_": np.array([g for m in machines for g in m.gammas]).reshape(-1, d),
            "dual_coef_": dual_coef,
            "intercept_": np.array(intercepts),
        }

    def _expose(self, machines: list[Greedy], bounds: list[Pair], aim: Aim) -> None:
        if not any(machine.centres for machine in machines):
            warnings.warn(
                "No basis function has different means in the two classes: the bound is 0. "
                f"{Pitfall.SAME_MEANS}",
                UserWarning,
                stacklevel=FIT_DEPTH,
            )
        if aim.required is not None and aim.missed(bounds[0]):
            raise ValueError(
                f"required_bound={aim.required.given!r} cannot be met: "
                f"{len(machines[0].centres)} bases bound that class by "
                f"{bounds[0][aim.required.place]:.4g}."
            )
        for name, value in self._functions(machines).items():
            setattr(self, name, value)
        self.class_bounds_ = np.array(
            bounds[0] if len(bounds) == 1 else [min(pair) for pair in bounds]
        )
        self.accuracy_bound_ = joint_bound([min(pair) for pair in bounds])
        d = self.n_features_in_
        weights = np.sum(self.gammas_ * machines[0].variances, axis=0)
        total = float(np.sum(weights))
        self.feature_weights_ = weights / total if total > 0.0 else np.full(d, 1.0 / d)
        self.n_iter_ = len(self.bases_)

    def _accepted(self) -> dict[str, Any]:
        return {"accept_sparse": ["csr", "csc"], "dtype": [np.float64, np.float32]}

    def _checked(self, X: Array, method: str) -> Array:
        check_is_fitted(self)
        if self._fitted_family.name == "callable":
            refuse_elsewhere(self, X, _INSTEAD)
        check_same_place(self, X, self.intercept_, method)
        return super()._checked(X, method)

    def _scores(self, X: Array) -> Array:
        X = in_double(X.tocsr() if sp.issparse(X) else X)
        values = self._fitted_family.matrix(X, self.bases_, self.gammas_)
        return as_scores(values @ self.dual_coef_.T + self.intercept_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = not callable(self.basis)
        return tags
