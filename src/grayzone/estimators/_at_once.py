"""Plain logistic regression for all folds and penalties of a search at once.

Folds and penalties of two classes share what is dear: a kernel matrix on a device, or the Hessians
of linear functions, also of features of centres.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from grayzone.estimators._search import FoldedRows
from grayzone.estimators._zone_grid import (
    Fold,
    Grid,
    HeldOut,
    Judge,
    Known,
    Result,
    Walk,
    walk_fold,
)
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.kernels import Kernel
from grayzone.solvers.kernel.centres import Centres
from grayzone.solvers.kernel.choose import kernel_for
from grayzone.solvers.kernel.device_matrix import KernelValues
from grayzone.solvers.kernel.device_path import fit_path
from grayzone.solvers.truncated.side_by_side import SideBySide
from grayzone.solvers.truncated.start import is_small
from grayzone.sources.labelled import Labelled

Array = Any

# Coefficients up to which a Hessian of linear functions is summed, and rows for each of them.
_MOST_COEFFICIENTS, _ROWS_EACH = 2000, 2
_FINE = 1e-15  # gap that is rounding level
# Steps side by side, of which most fits take some ten: one that crawls is better off by itself.
_MOST_STEPS = 100


class Path(NamedTuple):
    """What fits to all folds with one penalty have found."""

    C: int  # its place
    scores: Array  # (n, F) of all rows
    gaps: Array  # (F,) relative duality gaps, NumPy
    n_iter: Array  # (F,), NumPy


class _Fold(NamedTuple):
    """What fits at once need of a fold: no copy of its rows."""

    model: Any  # that knows the decision
    weight: Array  # (n,) of all rows, zero where it does not see them; NumPy
    out: HeldOut
    kernel: Kernel | None


class _Search(NamedTuple):
    """Fits that are to be made and judged."""

    grid: Grid
    judge: Judge
    data: FoldedRows
    folds: list[Fold]
    whole: Labelled
    centres: Centres | None

    def of(self, number: int) -> _Fold:
        """Return what is needed of a fold."""
        (train, test), data, model = self.folds[number], self.data, self.grid.model(0, 0)
        labelled = model._set_decision(data.labelled(train, self.grid.shared["class_weight"]))
        rows, weight = labelled.all_held, np.zeros(data.y.shape[0])
        weight[train[as_numpy(rows.places())]] = as_numpy(rows.weight)
        own = None if data.weight is None else data.weight[test]
        out = HeldOut(np.empty((test.size, 0)), data.y[test], own, test, data.costs_of(test))
        exact = model.kernel != "linear" and self.centres is None
        return _Fold(model, weight, out, kernel_for(model, labelled) if exact else None)

    @property
    def sign(self) -> Array:
        """Labels -1 and 1, where the rows are."""
        return self._here(np.where(self.data.y == np.unique(self.data.y)[1], 1.0, -1.0))

    def weight(self, folds: dict[int, _Fold]) -> Array:
        """Weights (n, F) of the rows in some folds, where the rows are."""
        return self._here(np.stack([fold.weight for fold in folds.values()], axis=1))

    def _here(self, values: Array) -> Array:
        return values if sp.issparse(self.data.X) else moved(values, self.data.X)

    def judged(
        self, folds: dict[int, _Fold], path: Iterator[Path]
    ) -> Iterator[tuple[int, int, Result]]:
        """Judge fits by held-out rows; gives the fold, the place of C and the result."""
        for C, every, gaps, n_iter in path:
            scores = as_numpy(every)
            for column, (number, fold) in enumerate(folds.items()):
                own = scores[fold.out.rows, column][:, None]
                if not np.all(np.isfinite(own)):
                    continue
                fine = bool(gaps[column] <= fold.model.tol)
                judged = self.judge(fold.model, fold.out, own)
                yield number, C, Result(judged, int(n_iter[column]), fine)


def walk_folds(
    run: Callable[..., list[Walk]],
    grid: Grid,
    judge: Judge,
    data: FoldedRows,
    folds: list[Fold],
    whole: Labelled,
    scores_do: bool = True,
) -> list[Walk]:
    """Fit and judge all pairs of a grid in every fold: at once what can be, then one by one.

    Of fits at once there are scores and no models; ``scores_do`` tells whether these are enough
    where a model could be had, in NumPy's memory.

    Where few centres span functions these are the same in all folds, as is their kernel: those of
    all rows, which the model that is kept will have, too.
    """
    model, centres = grid.model(0, 0), None
    if model.centres is not None:
        centres = model._centres_of(whole)
    known: list[Known] = [{} for _ in folds]
    if scores_do or data.elsewhere:
        known = _plain_fits(_Search(grid, judge, data, folds, whole, centres))
    work = partial(walk_fold, grid, judge, data, centres)
    return run(work, [(*fold, k) for fold, k in zip(folds, known, strict=True)])


def _plain_fits(search: _Search) -> list[Known]:
    """Fit what can be fitted at once; gives what is known of the pairs of each fold.

    All zones without an edge are the same fits.
    """
    known: list[Known] = [{} for _ in search.folds]
    grid, whole = search.grid, search.whole
    model = grid.model(0, 0)
    zones = [zone for zone in range(len(grid.zones)) if grid.is_plain(zone, whole)]
    plain = model.loss == "truncated" and model.penalty == "l2" and model.solver == "auto"
    if not (plain and zones and len(whole.classes) == 2):
        return known
    by = _by_design if model.kernel == "linear" or search.centres is not None else _by_kernel
    for number, C, result in by(search):
        known[number].update({(zone, C): result for zone in zones})
    return known


def _by_kernel(search: _Search) -> Iterator[tuple[int, int, Result]]:
    """Fits that share a kernel matrix on a device."""
    if not search.data.elsewhere:
        return
    # the width of a kernel may depend on the rows of a fold
    groups: dict[Kernel, dict[int, _Fold]] = {}
    for number in range(len(search.folds)):
        fold = search.of(number)
        assert fold.kernel is not None
        groups.setdefault(fold.kernel, {})[number] = fold
    for kernel, folds in groups.items():
        values = KernelValues(kernel, search.data.X)
        if values.kept is None:  # no room: one after the other, each planning its own memory
            continue
        try:
            yield from list(search.judged(folds, _along_kernel(search, folds, values)))
        except FloatingPointError:  # values out of range: one after the other knows more ways
            continue


def _along_kernel(search: _Search, folds: dict[int, _Fold], values: KernelValues) -> Iterator[Path]:
    model, n_Cs = search.grid.model(0, 0), search.grid.Cs.size
    found = fit_path(
        values,
        search.sign,
        search.weight(folds),
        1.0 / search.grid.Cs,
        fit_intercept=model.fit_intercept,
        tol=model.tol,
        max_iter=model.max_iter,
    )
    for C in range(n_Cs):
        own = slice(C, None, n_Cs)  # those of a fold are side by side
        yield Path(C, found.scores[:, own], found.gaps[own], found.n_iter[own])


def _by_design(search: _Search) -> Iterator[tuple[int, int, Result]]:
    """Fits of functions that are linear in few coefficients: they share Hessians.

    What does not reach its tolerance in this way is left to be fitted by itself.
    """
    model, whole, centres = search.grid.model(0, 0), search.whole, search.centres
    rows = whole.all_held
    n_coef = whole.n_features if centres is None else centres.features.n_centres
    few = n_coef <= _MOST_COEFFICIENTS or centres is not None
    enough = rows.n_rows >= _ROWS_EACH * n_coef and rows.n_rows == search.data.y.shape[0]
    if not (few and enough):
        return
    problem = model._specify(whole, np.full(2, -np.inf), several_fits=True).problem(rows)
    folds = {number: search.of(number) for number in range(len(search.folds))}
    fits = SideBySide(problem.design, search.sign, search.weight(folds))
    # of few rows to rounding level: fits then do not depend on how weights are written
    tol = min(model.tol, _FINE) if is_small(problem) else model.tol
    try:
        path = (
            Path(C, found.point.scores, found.gaps, found.n_iter)
            for C, found in fits.path(1.0 / search.grid.Cs, tol, min(model.max_iter, _MOST_STEPS))
        )
        for number, C, result in search.judged(folds, path):
            if result.fine:
                yield number, C, result
    except FloatingPointError:  # no Hessian: one after the other knows more ways
        return
