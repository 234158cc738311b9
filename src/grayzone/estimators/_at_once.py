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
from grayzone.numerics.losses import Logistic
from grayzone.solvers.kernel.centres import Centres
from grayzone.solvers.kernel.choose import kernel_for
from grayzone.solvers.kernel.device_matrix import KernelValues
from grayzone.solvers.kernel.device_path import fit_path
from grayzone.solvers.truncated.side_by_side import SideBySide
from grayzone.sources.labelled import Labelled

Array = Any

# Coefficients up to which a Hessian of linear functions is summed, and rows for each of them.
_MOST_COEFFICIENTS, _ROWS_EACH = 2000, 2
# Multiply-adds of a Hessian up to which fits are taken to rounding level, and that gap.
_SMALL, _FINE = 5e6, 1e-15


class Path(NamedTuple):
    """What fits to all folds with one penalty have found."""

    C: int  # its place
    scores: Array  # (n, F) of all rows
    gaps: Array  # (F,) relative duality gaps, NumPy
    n_iter: Array  # (F,), NumPy


class _Members(NamedTuple):
    """Folds that are fitted at once."""

    grid: Grid
    data: FoldedRows
    folds: list[Fold]
    labelled: dict[int, Labelled]  # training rows of each, by its number

    @property
    def sign(self) -> Array:
        """Labels -1 and 1, where the rows are."""
        return self._here(np.where(self.data.y == np.unique(self.data.y)[1], 1.0, -1.0))

    @property
    def weight(self) -> Array:
        """Weights (n, F) of the rows in each fold, zero where it does not see them."""
        weight = np.zeros((self.data.y.shape[0], len(self.labelled)))
        for column, (number, labelled) in enumerate(self.labelled.items()):
            rows = labelled.all_held
            weight[self.folds[number][0][as_numpy(rows.places())], column] = as_numpy(rows.weight)
        return self._here(weight)

    def _here(self, values: Array) -> Array:
        return values if sp.issparse(self.data.X) else moved(values, self.data.X)

    def judged(self, judge: Judge, path: Iterator[Path]) -> Iterator[tuple[int, int, Result]]:
        """Judge fits by held-out rows; gives the fold, the place of C and the result."""
        held = {number: self._held_out(self.folds[number][1]) for number in self.labelled}
        models = {}
        for number, labelled in self.labelled.items():
            models[number] = self.grid.model(0, 0)
            models[number]._set_decision(labelled)
        for C, scores, gaps, n_iter in path:
            scores = as_numpy(scores)
            for column, (number, out) in enumerate(held.items()):
                own = scores[out.rows, column][:, None]
                if not np.all(np.isfinite(own)):
                    continue
                fine = bool(gaps[column] <= models[number].tol)
                judged = judge(models[number], out, own)
                yield number, C, Result(judged, int(n_iter[column]), fine)

    def _held_out(self, test: Array) -> HeldOut:
        data = self.data
        own = None if data.weight is None else data.weight[test]
        return HeldOut(np.empty((test.size, 0)), data.y[test], own, test, data.costs_of(test))


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
        known = plain_fits(grid, judge, data, folds, whole, centres)
    work = partial(walk_fold, grid, judge, data, centres)
    return run(work, [(*fold, k) for fold, k in zip(folds, known, strict=True)])


def plain_fits(
    grid: Grid,
    judge: Judge,
    data: FoldedRows,
    folds: list[Fold],
    whole: Labelled,
    centres: Centres | None,
) -> list[Known]:
    """Fit what can be fitted at once; gives what is known of the pairs of each fold.

    All zones without an edge are the same fits.
    """
    known: list[Known] = [{} for _ in folds]
    model = grid.model(0, 0)
    zones = [zone for zone in range(len(grid.zones)) if grid.is_plain(zone, whole)]
    plain = model.loss == "truncated" and model.penalty == "l2" and model.solver == "auto"
    if not (plain and zones and len(whole.classes) == 2):
        return known
    by = _by_kernel
    if model.kernel == "linear" or centres is not None:
        by = _by_design
    for number, C, result in by(grid, judge, data, folds, whole, centres):
        known[number].update({(zone, C): result for zone in zones})
    return known


def _by_kernel(
    grid: Grid,
    judge: Judge,
    data: FoldedRows,
    folds: list[Fold],
    whole: Labelled,
    centres: Centres | None,
) -> Iterator[tuple[int, int, Result]]:
    """Fits that share a kernel matrix on a device."""
    if not data.elsewhere:
        return
    # the width of a kernel may depend on the rows of a fold
    model = grid.model(0, 0)
    groups: dict[Kernel, dict[int, Labelled]] = {}
    for number, labelled in _of_folds(grid, data, folds).items():
        groups.setdefault(kernel_for(model, labelled), {})[number] = labelled
    for kernel, own in groups.items():
        values = KernelValues(kernel, data.X)
        if values.kept is None:  # no room: one after the other, each planning its own memory
            continue
        members = _Members(grid, data, folds, own)
        try:
            yield from list(members.judged(judge, _along_kernel(members, values)))
        except FloatingPointError:  # values out of range: one after the other knows more ways
            continue


def _of_folds(grid: Grid, data: FoldedRows, folds: list[Fold]) -> dict[int, Labelled]:
    """Training rows of the folds, with what their costs come to."""
    model, weights = grid.model(0, 0), grid.shared["class_weight"]
    return {k: model._set_decision(data.labelled(f[0], weights)) for k, f in enumerate(folds)}


def _along_kernel(members: _Members, values: KernelValues) -> Iterator[Path]:
    model, n_Cs = members.grid.model(0, 0), members.grid.Cs.size
    found = fit_path(
        values,
        members.sign,
        members.weight,
        1.0 / members.grid.Cs,
        fit_intercept=model.fit_intercept,
        tol=model.tol,
        max_iter=model.max_iter,
    )
    for C in range(n_Cs):
        own = slice(C, None, n_Cs)  # those of a fold are side by side
        yield Path(C, found.scores[:, own], found.gaps[own], found.n_iter[own])


def _by_design(
    grid: Grid,
    judge: Judge,
    data: FoldedRows,
    folds: list[Fold],
    whole: Labelled,
    centres: Centres | None,
) -> Iterator[tuple[int, int, Result]]:
    """Fits of functions that are linear in few coefficients: they share Hessians.

    What does not reach its tolerance in this way is left to be fitted by itself.
    """
    model, rows = grid.model(0, 0), whole.all_held
    n_coef = whole.n_features if centres is None else centres.features.n_centres
    few = n_coef <= _MOST_COEFFICIENTS or centres is not None
    enough = rows.n_rows >= _ROWS_EACH * n_coef and rows.n_rows == data.y.shape[0]
    if not (few and enough):
        return
    spec = model._specify(whole, np.full(2, -np.inf), several_fits=True)
    members = _Members(grid, data, folds, _of_folds(grid, data, folds))
    fits = SideBySide(
        spec.problem(rows).design,
        members.sign,
        Logistic(rows.weight[:1]),
        members.weight,
    )
    # of few rows to rounding level: fits then do not depend on how weights are written
    small = rows.n_rows * float(n_coef) ** 2 <= _SMALL
    tol = min(model.tol, _FINE) if small else model.tol
    try:
        path = (
            Path(C, found.point.scores, found.gaps, found.n_iter)
            for C, found in fits.path(1.0 / grid.Cs, tol, model.max_iter)
        )
        for number, C, result in members.judged(judge, path):
            if result.fine:
                yield number, C, result
    except FloatingPointError:  # no Hessian: one after the other knows more ways
        return
