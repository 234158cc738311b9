"""Truncated logistic regression that chooses its penalty and its zone by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from grayzone.estimators._at_once import walk_folds
from grayzone.estimators._base import SupportVectorClassifier
from grayzone.estimators._callbacks import FIT_DEPTH, CallbackSupportMixin, with_callbacks
from grayzone.estimators._centred import Centred
from grayzone.estimators._contradictions import tell_contradictions
from grayzone.estimators._empty_classes import leaves_out_empty_classes
from grayzone.estimators._gate import Yardstick, least, of_all_rows
from grayzone.estimators._moved_cut import ANYWHERE, Deciding, Range, check_tuning, range_of
from grayzone.estimators._search import (
    FoldedRows,
    Searched,
    best_places,
    check_cs,
    fold_by_fold,
    scorer_of,
    shared_parameters,
    take_over,
)
from grayzone.estimators._selection import check_carrier
from grayzone.estimators._tails import Tailed
from grayzone.estimators._told import CONSTANT_HELP
from grayzone.estimators._zone_grid import (
    Fold,
    Grid,
    HeldOut,
    Judge,
    Judged,
    Walk,
    by_scorer,
    scores_of,
)
from grayzone.estimators.truncated import TruncatedLogisticRegression
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import HEAVIEST, all_or_nothing
from grayzone.numerics.pitfalls import Pitfall
from grayzone.solvers import Solution
from grayzone.solvers.kernel.choose import check_kernel_matrix
from grayzone.sources.labelled import Labelled
from grayzone.sources.open import open_rows, refuse_blocks

Array = Any

# Penalties that zones are tried with, in terms of the one that suits plain logistic regression.
_AROUND = (0.1, 1.0, 10.0)
# Standard errors by which a zone has to be cheaper: the least of a dozen costs flatters.
_ERRORS = 1.5


class TruncatedLogisticRegressionCV(
    Searched, CallbackSupportMixin, Tailed, Centred, SupportVectorClassifier
):
    r"""Truncated logistic regression with C and a zone, used where it pays, by cross-validation.

    First C is chosen for plain logistic regression (the full likelihood), by the log-loss of
    held-out rows. Then every zone is fitted with this C, a tenth and ten times of it. The pair
    whose decisions cost the least on held-out rows has to pass a *gate*: it is taken only if it is
    cheaper than plain logistic regression, row by row, by more than 1.5 standard errors,

    .. math:: \bar d > 1.5\, s, \qquad d_i = c(y_i, \hat y_i^{\mathrm{plain}})
              - c(y_i, \hat y_i^{\mathrm{zone}}), \qquad
              s^2 = \tfrac{n}{n - 1} \sum_i \bar w_i^2 (d_i - \bar d)^2,

    where :math:`\bar w_i` are the rows' shares of the weight. Otherwise ``zone=None`` is kept, with
    the C of the first step; ``gate_`` says which way it went and by how much. Ties go to the wider
    zone. With a ``scoring`` there is no gate: the pair with the best mean score is taken.

    In each fold the data, and the kernel values, are prepared once for all values of C, and once
    for all zones; each fit starts from the solution of the one before.

    Parameters
    ----------
    Cs : int or array-like of floats, default=10
        Values of C to choose from; an integer is that many on a logarithmic scale from 1e-4 to 1e4.
    zones : sequence, default=(0.5, 1.0, 2.0, 4.0)
        Zones to choose from, each in one of the forms that
        :class:`TruncatedLogisticRegression` takes: a half-width h in log-odds around the threshold,
        None for the full likelihood, a pair ``(p_min, p_max)``, caps of the classes.
    cv : int, cross-validation generator, iterable or None, default=None
        Folds whose rows are held out; None is 5, stratified, and an integer is that many.
    scoring : str, callable or None, default=None
        None is the gate above. Otherwise every pair of a C and a zone is fitted in every fold, and
        the best mean score decides; ties go to the smaller C, then to the narrower zone, which is
        the sparser model. A callable is ``scorer(estimator, X, y)``, and a name one of
        :func:`sklearn.metrics.get_scorer_names`; those that take ``sample_weight`` are given it.
    tune_threshold : bool, default=False
        Move the threshold of two classes, too, as the paper does to correct for a bias of the
        probabilities (§5.1): to where decisions of held-out rows cost the least, within the zone.
        ``predict`` then decides by the moved ``threshold_``; probabilities, their tails and
        ``oof_decision_function_`` stay what they are. Every model that the gate compares, plain
        logistic regression as well, is judged with thresholds that the rows of the *other* folds
        have chosen. Not for costs of each row, which have a threshold each: given in ``predict``
        they decide as ever.
    refit : bool, default=True
        Fit the best pair to all rows. Otherwise the pair is chosen, and there is no model to
        predict with.
    n_jobs : int or None, default=None
        Folds that are worked on at the same time; None is 1 unless in a
        :obj:`joblib.parallel_backend` context.
    costs : None, "balanced", mapping or array of shape (K, K), default=None
        Costs of errors, as in :class:`TruncatedLogisticRegression`. "balanced" is that of the
        training rows in each fold, where it makes the zone, and that of all rows for what decisions
        of held-out rows cost. Where costs are ranges, widths of ``zones`` are in units of the range
        of thresholds.
    reject_cost : float, mapping or array of shape (K,), default=None
        Cost of staying undecided, in decisions and in the gate. None: always decide.
    undecided_label : "auto", str or number, default="auto"
        What ``predict`` returns for undecided rows; "auto" is -1 beside numbers and "undecided"
        beside strings.
    tails : {"calibrated", "as-fitted"}, default="calibrated"
        Log-odds beyond the zone, as in :class:`TruncatedLogisticRegression`.
    kernel : str or callable, default="linear"
        Kernel of f, as in :class:`TruncatedLogisticRegression`.
    gamma : {"scale", "auto"} or float, default="scale"
        Width of the kernels; "scale" is that of the training rows in each fold.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Independent term of the polynomial and sigmoid kernels.
    centres : None, int or array of shape (m, n_features), default=None
        Rows that may span the function of a kernel, as in :class:`TruncatedLogisticRegression`:
        None is every row. They are chosen once, among all rows and without a look at labels but for
        an even share of the classes: folds have those of the model that is kept, and its kernel.
    centre_selection : {"random", "leverage", "import"}, default="random"
        How training rows become centres.
    loss : {"truncated", "ramp"}, default="truncated"
        "ramp" also saturates the other side.
    penalty : {"l2", "l1", "elasticnet"}, default="l2"
        As in :class:`TruncatedLogisticRegression`, of plain logistic regression too.
    l1_ratio : float, default=0.5
        Share of the l1 norm in the elastic net, above 0 and up to 1.
    cache_size : float, default=1000
        Megabytes that kernel values may take, in each job.
    fit_intercept : bool, default=True
        Whether to fit an (unpenalised) intercept.
    class_weight : mapping, "balanced" or None, default=None
        Weights of the classes in the loss. For costs of *decisions* use ``costs``.
    solver : {"auto", "active-set", "primal"}, default="auto"
        As in :class:`TruncatedLogisticRegression`.
    tol : float, default=1e-6
        Relative accuracy: a fit may stop once what is left to gain is at most ``tol`` times the
        objective, by its duality gap.
    max_iter : int, default=1000
        Most iterations of the solver, in each fit.
    random_state : int, RandomState instance or None, default=None
        Draws the subsets from which large fits start, which the optimum does not depend on, and
        ``centres``; None is the same as 0.

    Attributes
    ----------
    C_ : float
        The chosen C.
    best_zone_ : float, None, pair, mapping or array
        The chosen entry of ``zones``; None also where the gate kept plain logistic regression.
    gate_ : dict
        Which way it went, and by how much: ``accepted``, ``chosen`` (in words), ``candidate`` (the
        zone and C of least cost), ``gain`` (mean cost that it saves on held-out rows),
        ``standard_error``, ``required_gain`` (what the gain has to exceed) and ``plain_cost`` (what
        plain logistic regression costs there). Not there with a ``scoring``.
    threshold_tuning_ : dict
        With ``tune_threshold``: the ``threshold`` that was chosen, the ``threshold_of_costs`` that
        Bayes' rule would take, ``fold_thresholds`` (chosen without the rows of each fold), and the
        ``gain`` (mean cost that these save there, which may be negative), with its
        ``standard_error``.
    oof_decision_function_ : ndarray of shape (n_samples,) or (n_samples, K)
        Log-odds, or scores, of every row by the chosen pair, fitted in the fold that held the row
        out (the mean of several, NaN where no fold did). Not there with a ``scoring``.
    Cs_ : ndarray of shape (n_Cs,)
        The values of C, in the order of ``scores_``.
    scores_ : ndarray of shape (n_Cs, n_folds)
        Negative log-loss of plain logistic regression on the held-out rows of every fold. With a
        ``scoring``, its score of every pair, (n_zones, n_Cs, n_folds).
    zone_scores_ : ndarray of shape (n_zones, 3, n_folds)
        Negative mean cost of the zones on the held-out rows of every fold, with a tenth of the C of
        plain logistic regression, this C and ten times of it. Not there with a ``scoring``.
    n_iter_ : int
        Iterations of the solver in all fits.
    n_iters_path_ : ndarray, of the shape of ``scores_``
        Iterations in each of these fits; where several zones are the same one, of the only fit.
    classes_ : ndarray of shape (K,)
        Class labels; ``classes_[1]`` is the positive one of two.
    actions_ : ndarray of shape (K,) or (K + 1,)
        What ``predict`` can return: the classes and, with ``reject_cost``, the undecided label.
    coef_ : ndarray of shape (1, n_features) or (K, n_features)
        Coefficients of the chosen model, fitted to all rows, as are all attributes that follow;
        only with the linear kernel.
    intercept_ : ndarray of shape (1,) or (K,)
        Intercepts.
    tail_slopes_ : ndarray of shape (2,) or (K,)
        Slopes of the log-odds of each class where it leaves the zone.
    tail_bends_ : ndarray of shape (2,) or (K,)
        How soon they level off.
    zone_ : tuple of two floats, or ndarray of shape (K,)
        The zone ``(p_min, p_max)``, or the caps of K > 2 classes.
    threshold_ : float or None
        Decision threshold of two classes, moved with ``tune_threshold``; None for more, and with
        ``reject_cost``.
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
    centres_ : {array, sparse array} of shape (n_centres, n_features)
        With ``centres``, the rows that span the function.
    centre_indices_ : ndarray of shape (n_centres,)
        Their numbers among the training rows, unless they were given.
    n_centres_dropped_ : int
        How many were left out, which the others span already.
    restriction_cost_ : float
        With ``centres``, how much lower the objective of a function of all rows might be, at most.
    restriction_cost_is_bound_ : bool
        Whether it is a bound, not an estimate of one.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names that are all strings.

    See Also
    --------
    TruncatedLogisticRegression : One fit, with C and a zone that are given.
    TightBoundLogisticRegressionCV : The same with tighter bounds in place of zones.
    grayzone.metrics.expected_cost : What the gate measures.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from grayzone import TruncatedLogisticRegressionCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = TruncatedLogisticRegressionCV(Cs=[0.01, 0.1, 1.0], costs={0: 5, 1: 1})
    >>> clf.fit(scale(X), y).scores_.shape
    (3, 5)
    >>> clf.gate_["accepted"], clf.gate_["chosen"], clf.best_zone_
    (True, 'zone=0.5, C=1', 0.5)
    >>> clf.gate_["gain"] > clf.gate_["required_gain"]
    True
    >>> clf.oof_decision_function_.shape
    (569,)
    """

    def __init__(
        self,
        *,
        Cs: Any = 10,
        zones: Any = (0.5, 1.0, 2.0, 4.0),
        cv: Any = None,
        scoring: Any = None,
        tune_threshold: bool = False,
        refit: bool = True,
        n_jobs: int | None = None,
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
        random_state: Any = None,
    ) -> None:
        self.Cs = Cs
        self.zones = zones
        self.cv = cv
        self.scoring = scoring
        self.tune_threshold = tune_threshold
        self.refit = refit
        self.n_jobs = n_jobs
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
        self.random_state = random_state

    _chosen = "C_ and best_zone_"

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
        """Choose C and the zone, and fit; on any error the estimator stays as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data; with a precomputed kernel, its values for all pairs of rows.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row, in the fits and in the scores.
        example_costs : array-like of shape (n_samples, K, K) or mapping, default=None
            Costs of each row, in place of ``costs``, as in :class:`TruncatedLogisticRegression`.
            They are split as rows are, zones are fitted to them, and held-out rows are decided and
            judged by theirs. Plain logistic regression, which has to be beaten, is fitted without.
            Scorers that take ``example_costs`` are given them.

        Returns
        -------
        self : TruncatedLogisticRegressionCV
            The fitted estimator.
        """
        shared = shared_parameters(self, TruncatedLogisticRegression)
        grid = Grid(check_cs(self.Cs), _check_zones(self.zones), shared)
        scorer = None if self.scoring is None else scorer_of(self)
        grid.model(0, 0)._check_parameters()
        self._forget()
        refuse_blocks(
            self,
            X,
            "Cross-validate on a sample of the rows, then fit TruncatedLogisticRegression to all "
            "blocks with the C_ and best_zone_ that were chosen.",
        )
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
        if self.kernel == "precomputed":  # before it is split
            check_kernel_matrix(labelled.source.like())
        data = FoldedRows.of(labelled, self.kernel == "precomputed")
        folds = self._folds(data, labelled)
        if scorer is None:
            choice = self._behind_the_gate(grid, data, folds, labelled)
        else:
            choice = self._best_of_all(grid, partial(by_scorer, scorer), data, folds, labelled)
        last = self._expose(choice, labelled)
        self._tell_unless_converged(choice, last)
        self._tell_if_constant(choice, last)
        tell_contradictions(self, example_costs)
        return self

    def _folds(self, data: FoldedRows, labelled: Labelled) -> list[Fold]:
        """Return the folds, by which a threshold can be moved if it is to be."""
        folds = data.folds(self.cv)
        if self.tune_threshold:
            check_tuning(self, labelled, len(folds))
        return folds

    def _best_of_all(
        self, grid: Grid, judge: Judge, data: FoldedRows, folds: list[Fold], labelled: Labelled
    ) -> _Choice:
        """Choose the pair with the best mean score."""
        widths = grid.widths(labelled)
        with fold_by_fold(self, len(folds)) as run:
            walks = walk_folds(run, grid, judge, data, folds, labelled, scores_do=False)
        scores = np.stack([walk.scores for walk in walks], axis=2)
        n_iters = np.stack([walk.n_iter for walk in walks], axis=2)
        pair = _best_pair(scores, grid.Cs, widths)
        return _Choice(grid, pair, walks, {"scores_": scores, "n_iters_path_": n_iters})

    def _behind_the_gate(
        self, grid: Grid, data: FoldedRows, folds: list[Fold], labelled: Labelled
    ) -> _Choice:
        """Choose C by the log-loss of the plain fit, then a zone if it is cheaper than that."""
        widths = grid.widths(labelled)
        plain = grid._replace(zones=[None], shared={**grid.shared, "loss": "truncated"})
        yardstick, costs = _yardstick(plain, data, labelled)
        if labelled.priced:  # costs of rows are for decisions alone
            plain = plain._replace(shared={**plain.shared, "costs": costs})
        with fold_by_fold(self, 2 * len(folds)) as run:
            by_loss = partial(_by_log_loss, yardstick)
            path = walk_folds(
                run, plain, by_loss, data._replace(costs=None), folds, _free(labelled)
            )
            losses = np.stack([walk.scores[0] for walk in path], axis=1)
            best = min(best_places(losses, "C")[:, 0], key=lambda place: grid.Cs[place])
            Cs = np.clip(grid.Cs[best] * np.array(_AROUND), 1.0 / HEAVIEST, HEAVIEST)
            zoned, by_cost = grid._replace(Cs=Cs), partial(_by_cost, yardstick)
            tried = walk_folds(run, zoned, by_cost, data, folds[: len(path)], labelled)
        deciding = Deciding.of(yardstick, [test for _, test in folds[: len(tried)]])
        if self.tune_threshold:
            deciding = deciding.with_cuts()
        rows, ranges = (
            deciding.rows,
            [range_of(grid.caps(zone, labelled)) for zone in range(len(grid.zones))],
        )
        before = _held_out(path[: len(tried)], (0, best))
        paid = deciding.paid(before)
        pair = _cheapest(deciding, tried, widths, ranges)
        after = _held_out(tried, pair)
        verdict = yardstick.compare(rows, paid, deciding.paid(after, ranges[pair[0]]), _ERRORS)
        candidate = {"zone": grid.zones[pair[0]], "C": float(Cs[pair[1]])}
        chosen = f"logistic regression, C={grid.Cs[best]:.4g}"
        if verdict.accepted:
            chosen = f"zone={candidate['zone']}, C={candidate['C']:.4g}"
        scores, within = (after, ranges[pair[0]]) if verdict.accepted else (before, ANYWHERE)
        found = {
            "scores_": losses,
            "n_iters_path_": np.stack([walk.n_iter[0] for walk in path], axis=1),
            "zone_scores_": np.stack([walk.scores for walk in tried], axis=2),
            "oof_decision_function_": of_all_rows(rows, scores, data.y.shape[0]),
            "gate_": verdict.record(chosen, candidate, yardstick.mean_cost(rows, paid)),
        }
        if self.tune_threshold:
            found["threshold_tuning_"] = deciding.tuning(scores, within)
        if verdict.accepted:
            return _Choice(zoned, pair, path + tried, found)
        return _Choice(plain, (0, int(best)), path + tried, found, by_costs=False)

    def _expose(self, choice: _Choice, labelled: Labelled) -> Solution | None:
        """Set what was chosen and, if so asked, what the chosen model learns from all rows."""
        grid, (zone, C) = choice.grid, choice.pair
        n_iter, solution = sum(int(walk.n_iter.sum()) for walk in choice.walks), None
        self.classes_ = labelled.classes
        if self.refit:
            model = grid.model(zone, C)
            model.n_features_in_ = self.n_features_in_
            solution = model._fit_to(labelled if choice.by_costs else _free(labelled))
            model._tell_unless_faithful(labelled, solution)
            n_iter += model.n_iter_
            take_over(self, model)
        self.best_zone_, self.C_, self.n_iter_ = grid.zones[zone], float(grid.Cs[C]), n_iter
        self.Cs_ = moved(check_cs(self.Cs), labelled.like)
        for name, value in choice.found.items():
            is_array = isinstance(value, np.ndarray)
            setattr(self, name, moved(value, labelled.like) if is_array else value)
        if self.refit and self.tune_threshold:
            self.threshold_ = self.threshold_tuning_["threshold"]
        return solution

    def _supports_arrays(self) -> bool:
        return self.solver == "auto" and self.penalty == "l2"

    def _tell_if_constant(self, choice: _Choice, last: Solution | None) -> None:
        """Warn once, where the model that was chosen is a constant."""
        if last is None or not last.constant:
            return
        n_constant = sum(walk.n_constant for walk in choice.walks)
        warnings.warn(
            f"The chosen model is a constant, as {n_constant + 1} of {choice.n_fits + 1} fits are: "
            "the class priors lie outside the zone, and no function of these features gains more "
            f"than its penalty. {CONSTANT_HELP} {Pitfall.CONSTANT}",
            UserWarning,
            stacklevel=FIT_DEPTH,
        )

    def _tell_unless_converged(self, choice: _Choice, last: Solution | None) -> None:
        n_failed = sum(walk.n_failed for walk in choice.walks)
        n_failed += last is not None and not last.fine(self.tol)
        if n_failed == 0:
            return
        warnings.warn(
            f"{n_failed} of {choice.n_fits + self.refit} fits stopped above a relative duality gap "
            f"of tol={self.tol:g}. Scale the features, raise max_iter (now {self.max_iter}) or "
            f"tol, or leave large values out of Cs. {Pitfall.NOT_CONVERGED}",
            ConvergenceWarning,
            stacklevel=FIT_DEPTH,
        )


class _Choice(NamedTuple):
    """The pair that was chosen, and what the folds have found."""

    grid: Grid
    pair: tuple[int, int]
    walks: list[Walk]
    found: dict[str, Any]  # fitted attributes
    by_costs: bool = True  # whether costs of rows, where they have some, are fitted to

    @property
    def n_fits(self) -> int:
        """Fits of the folds."""
        return sum(len(walk.results) for walk in self.walks)


def _best_pair(scores: Array, Cs: Array, widths: Array) -> tuple[int, int]:
    """Zone and C with the best mean score; of several, the smallest C, then the narrowest zone."""
    ties = best_places(scores, "C and zone")
    zone, C = min(ties, key=lambda pair: (Cs[pair[1]], widths[pair[0]]))
    return int(zone), int(C)


def _check_zones(zones: Any) -> list[Any]:
    listed = isinstance(zones, (Sequence, np.ndarray)) and not isinstance(zones, str)
    if not listed or not len(zones):
        raise ValueError(f"zones must be a sequence of at least one zone; got {zones!r}.")
    return list(zones)


# ----------------------------------------------------------------------------------------------
# What the gate judges by
# ----------------------------------------------------------------------------------------------


def _free(labelled: Labelled) -> Labelled:
    """Return rows without their costs."""
    rows = labelled.held
    return replace(labelled, priced=False, held=rows and replace(rows, costs=None))


def _yardstick(plain: Grid, data: FoldedRows, labelled: Labelled) -> tuple[Yardstick, Array]:
    """Return what held-out rows are judged by, and the costs of rows that have none."""
    model = plain.model(0, 0)
    model._set_decision(labelled)
    costs = model._action_costs()
    if data.costs is not None:
        K, n = len(labelled.classes), data.y.shape[0]
        undecided = np.broadcast_to(costs[:, K:], (n, K, costs.shape[1] - K))
        costs = np.concatenate([data.costs, undecided], axis=2)
    return Yardstick.of(labelled, data.y, data.weight, costs), model.cost_matrix_


def _by_log_loss(
    yardstick: Yardstick, model: Any, held: HeldOut, known: Array | None = None
) -> Judged:
    scores = scores_of(model, held, known)
    return Judged(-yardstick.log_loss(held.rows, scores), scores)


def _by_cost(yardstick: Yardstick, model: Any, held: HeldOut, known: Array | None = None) -> Judged:
    scores = scores_of(model, held, known)
    paid = yardstick.paid(held.rows, yardstick.decided(held.rows, scores))
    return Judged(-yardstick.mean_cost(held.rows, paid), scores)


def _held_out(walks: list[Walk], pair: tuple[int, int]) -> Array:
    """Scores of held-out rows by one pair, fold after fold."""
    return np.concatenate([walk.results[pair].judged.of_rows for walk in walks])


def _cheapest(
    deciding: Deciding, walks: list[Walk], widths: Array, ranges: list[Range]
) -> tuple[int, int]:
    """Zone and C of least cost; of several, the widest zone, then the C nearest to the middle."""
    costs = np.empty((len(widths), len(_AROUND)))
    for zone, C in np.ndindex(costs.shape):
        paid = deciding.paid(_held_out(walks, (zone, C)), ranges[zone])
        costs[zone, C] = deciding.yardstick.mean_cost(deciding.rows, paid)
    middle = len(_AROUND) // 2
    zone, C = min(least(costs), key=lambda pair: (-widths[pair[0]], abs(pair[1] - middle), pair[1]))
    return int(zone), int(C)
