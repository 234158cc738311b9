"""Pairs of a C and a zone, all of them fitted in every fold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from grayzone.estimators._judging import Decisions
from grayzone.estimators._search import FoldedRows, Scorer, scored
from grayzone.estimators.truncated import TruncatedLogisticRegression
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import is_numpy_array
from grayzone.solvers import Solution
from grayzone.solvers.kernel.centres import Centres
from grayzone.sources.labelled import Labelled

Array = Any

# Rows from which a start saves time; fewer are solved outright from nothing, and more precisely.
_WORTH_A_START = 2000
# Rows to fit to, and rows that are held out.
Fold = tuple[Array, Array]


class Grid(NamedTuple):
    """Values of C and zones, and the parameters that all fits share."""

    Cs: Array
    zones: list[Any]
    shared: dict[str, Any]

    def model(self, zone: int, C: int) -> TruncatedLogisticRegression:
        """Return the estimator of one pair, not fitted."""
        return TruncatedLogisticRegression(
            C=float(self.Cs[C]), zone=self.zones[zone], **self.shared
        )

    def caps(self, zone: int, labelled: Labelled) -> tuple[float, ...]:
        """Caps of the classes in a zone, once the threshold is known; it is checked, too."""
        model = self.model(zone, 0)
        model._set_decision(labelled)
        model._saturation()
        return tuple(model._caps().tolist())

    def is_plain(self, zone: int, labelled: Labelled) -> bool:
        """Whether a zone leaves the full likelihood."""
        model = self.model(zone, 0)
        model._set_decision(labelled)
        return not np.any(np.isfinite(model._floors()))

    def widths(self, labelled: Labelled) -> Array:
        """Widths of the zones: p_max - p_min, but for a constant."""
        return np.array([sum(self.caps(k, labelled)) for k in range(len(self.zones))])


class HeldOut(NamedTuple):
    """Rows that a fit is judged by."""

    X: Array
    y: Array
    weight: Array | None
    rows: Array  # their numbers among all
    costs: Array | None = None  # of each of them

    @property
    def elsewhere(self) -> bool:
        """Whether the rows are an array of another library."""
        return not (is_numpy_array(self.X) or sp.issparse(self.X))


class Judged(NamedTuple):
    """How good a fit is on held-out rows and, where it is asked for, its scores (n, Q) of them."""

    score: float
    of_rows: Array | None = None


# From a model, the rows held out and, where they are known already, its scores of these.
Judge = Callable[[TruncatedLogisticRegression, HeldOut, Array | None], Judged]


def by_scorer(scorer: Scorer, model: Any, held: HeldOut, known: Array | None = None) -> Judged:
    """Judge by a scorer; scorers are NumPy's, and are told what scores on a device lead to."""
    X = held.X
    if known is not None or held.elsewhere:
        model = Decisions(as_numpy(model._beyond(scores_of(model, held, known))), model)
        X = np.empty((held.rows.size, 0))
    return Judged(scored(scorer, model, X, held.y, held.weight, held.costs))


def scores_of(model: Any, held: HeldOut, known: Array | None = None) -> Array:
    """Return a model's scores of held-out rows, as NumPy's."""
    return as_numpy(model._beyond(model._scores_of(held.X)) if known is None else known)


class Result(NamedTuple):
    """What is known of one pair in one fold."""

    judged: Judged
    n_iter: int
    fine: bool  # whether the fit reached its tolerance
    constant: bool = False


Known = dict[tuple[int, int], Result]


class Walk(NamedTuple):
    """What one fold says about every pair."""

    results: Known
    n_failed: int
    n_constant: int

    def _table(self, of: Callable[[Result], Any]) -> Array:
        shape = 1 + np.max(list(self.results), axis=0)
        return np.array(
            [[of(self.results[zone, C]) for C in range(shape[1])] for zone in range(shape[0])]
        )

    @property
    def scores(self) -> Array:
        """Scores (n_zones, n_Cs) of the pairs."""
        return self._table(lambda result: result.judged.score)

    @property
    def n_iter(self) -> Array:
        """Iterations (n_zones, n_Cs) of the fits."""
        return self._table(lambda result: result.n_iter)


def walk_fold(
    grid: Grid,
    judge: Judge,
    data: FoldedRows,
    centres: Centres | None,
    train: Array,
    test: Array,
    known: Known,
) -> Walk:
    """Fit all pairs to the training rows of one fold, and judge them by the others.

    Those that are known already are not fitted; ``centres`` are those of all folds.
    """
    if len(known) == grid.Cs.size * len(grid.zones):  # all zones are the same, without an edge
        return _summed(known, {0})
    labelled = data.labelled(train, grid.shared["class_weight"])
    if centres is not None:
        labelled.all_held.state("centres", None, lambda: centres)
    held = HeldOut(*data.take(test, train), test, data.costs_of(test))
    order = np.argsort(grid.Cs, kind="stable")
    results, first_of, coef = dict(known), dict[tuple[float, ...], int](), dict[int, Array]()
    for zone in range(len(grid.zones)):
        twin = first_of.setdefault(grid.caps(zone, labelled), zone)
        before = order[0]  # of the last zone
        for C in order:
            if twin < zone:
                results[zone, C] = results[twin, C]
            if (zone, C) in results:
                continue
            model = grid.model(zone, C)
            model.n_features_in_ = int(held.X.shape[1])
            solution = _fit_from(model, labelled, coef.get(before))
            coef[C], before = solution.coef, C
            fine, judged = solution.fine(model.tol), judge(model, held, None)
            results[zone, C] = Result(judged, model.n_iter_, fine, solution.constant)
    return _summed(results, set(first_of.values()))


def _summed(results: Known, zones: set[int]) -> Walk:
    """What a fold says, with how many fits of these zones, each of its own, failed somehow."""
    fitted = [result for (zone, _), result in results.items() if zone in zones]
    n_failed = sum(not result.fine for result in fitted)
    return Walk(results, n_failed, sum(result.constant for result in fitted))


def _fit_from(
    model: TruncatedLogisticRegression, labelled: Labelled, start: Array | None
) -> Solution:
    """Fit from the solution of another pair where that is the shorter way, else from nothing."""
    # where features are selected, what is not yet used costs most
    selects = model.penalty != "l2"
    if start is not None and (selects or labelled.n_rows >= _WORTH_A_START):
        solution = model._fit_to(labelled, start, several_fits=True)
        if model.dual_gap_ <= model.tol:
            return solution
    return model._fit_to(labelled, several_fits=True)
