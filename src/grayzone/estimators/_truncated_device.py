"""Truncated logistic regression with a kernel, on a device that holds all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from grayzone.estimators._callbacks import Report
from grayzone.numerics.backend import moved
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.losses import Ramp
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers import Problem, Record, Status
from grayzone.solvers.kernel.device_features import fit_in_features
from grayzone.solvers.kernel.device_kernel import KernelRows, fit_on_device
from grayzone.solvers.training import kernel_of
from grayzone.solvers.truncated.frame import Frame
from grayzone.sources.labelled import Rows
from grayzone.sources.labelled_blocks import LabelledBlocks, encoded
from grayzone.sources.source import HeldSource

Array = Any

_MAX_ROUNDS = 100


class _Found(NamedTuple):
    """What a fit found: duals (n, Q) as those of linear fits, and their certificate."""

    multipliers: Array
    duals: Array
    intercept: Array
    objective: float
    gap: float
    status: Status
    n_iter: int


class Shown(NamedTuple):
    """All that choosing a kernel needs to see of the rows."""

    X: Array
    sample_weight: Array


def fit_kernel(estimator: Any, labelled: LabelledBlocks, report: Report | None) -> Status:
    """Fit an estimator with a kernel to rows on a device, and set what it found."""
    assert isinstance(labelled.source, HeldSource)
    rows = labelled.held
    plain = encoded(labelled.source.block, labelled.classes, np.ones(len(labelled.classes)))
    kernel = kernel_of(estimator, Shown(rows.X, plain.weight))
    floors, ceilings = estimator._saturation()
    frame = Frame(floors, 1.0 / estimator.C, estimator.fit_intercept)
    options = {
        "tol": estimator.tol,
        "max_iter": estimator.max_iter,
        "callback": estimator._listener(report),
    }
    if ceilings is None:
        found = _convex(kernel, rows, frame, **options)
    else:
        found, rows = _ramp(kernel, rows, replace(frame, ceilings=ceilings), **options)
    _expose(estimator, kernel, rows, frame, found)
    return found.status


def _convex(
    kernel: Kernel,
    rows: Rows,
    frame: Frame,
    *,
    tol: float,
    max_iter: int,
    callback: Callable[[Record], bool | None] | None,
) -> _Found:
    """Newton steps on the kernel matrix for two classes, features of the kernel for more."""
    problem = frame.problem(rows)
    if not isinstance(problem.margins, SignedMargin):
        return _Found(*fit_in_features(kernel, rows, frame, tol, max_iter, callback))
    y = problem.margins.y
    seen = KernelRows(
        kernel, rows.X, y, rows.weight, problem.loss.floor, frame.penalty, frame.fit_intercept
    )
    found = fit_on_device(seen, tol=tol, max_iter=max_iter, callback=callback)
    intercept = moved(np.array([found.intercept]), rows.weight)
    duals = problem.margins.pull(found.duals[:, None], found.duals)
    return _Found(
        found.duals, duals, intercept, found.objective, found.gap, found.status, found.n_iter
    )


def _ramp(kernel: Kernel, rows: Rows, frame: Frame, **options: Any) -> tuple[_Found, Rows]:
    """Fit to all rows, then to those not given up, until these do not change."""
    xp = array_namespace(rows.weight)
    problem = frame.problem(rows)
    ramp = Ramp(problem.loss.floor, xp.take(moved(frame.ceilings, rows.weight), rows.codes))
    kept, n_iter, best = rows, 0, float("inf")
    convex = replace(frame, ceilings=None)
    found, held = None, rows
    for _ in range(_MAX_ROUNDS):
        trial = _convex(kernel, kept, convex, **options)
        n_iter += trial.n_iter
        coef = -(kept.weight[:, None] * trial.duals) / frame.penalty
        function = _values(kernel, rows.X, coef)
        u = problem.margins.margin(function + trial.intercept)
        norm = 0.5 * frame.penalty * float(xp.sum(coef * function))
        objective = float(xp.sum(rows.weight * ramp.value(u))) + norm
        if objective > best:
            break
        found, held, best = trial, kept, objective
        weight = xp.where(ramp.given_up(u), 0.0, rows.weight)
        masses = [
            float(xp.sum(xp.where(rows.codes == code, weight, 0.0)))
            for code in range(frame.n_classes)
        ]
        if bool(xp.all(weight == kept.weight)) or min(masses) == 0.0:
            break
        kept = Rows(rows.X, rows.codes, weight, 0)
    assert found is not None
    return found._replace(objective=best, n_iter=n_iter), held


def _values(kernel: Kernel, X: Array, coef: Array) -> Array:
    """Function that coefficients of all rows span, on all rows."""
    if kernel.name == "precomputed":
        return array_namespace(coef).matmul(X, coef)
    return kernel.product(X, kernel.right(X), coef)


def _expose(estimator: Any, kernel: Kernel, rows: Rows, frame: Frame, found: _Found) -> None:
    estimator.__dict__.pop("coef_", None)
    estimator.intercept_ = found.intercept
    estimator.objective_, estimator.n_iter_ = found.objective, found.n_iter
    estimator.dual_gap_ = found.gap
    expose_duals(estimator, frame.problem(rows), found.multipliers, found.duals)
    move_decision(estimator, rows.weight)
    estimator._keep_vectors(rows.X, kernel)


def expose_duals(estimator: Any, problem: Problem, multipliers: Array, duals: Array) -> None:
    """Set the attributes that have an entry for every row, or every support vector."""
    xp = array_namespace(duals)
    active = xp.any(duals != 0.0, axis=1)
    places = xp.nonzero(active)[0]
    estimator.support_ = xp.astype(places, xp.int64)
    taken = xp.take(problem.weight[:, None] * duals, places, axis=0)
    estimator.dual_coef_ = -estimator.C * taken.T
    hinge = multipliers <= problem.loss.slope_at_floor
    estimator.partition_ = xp.astype(active, xp.int8) + xp.astype(active & ~hinge, xp.int8)


def move_decision(estimator: Any, like: Array) -> None:
    """Put classes, costs and caps where the data are; names of classes stay NumPy's."""
    estimator.cost_matrix_ = moved(estimator.cost_matrix_, like)
    if estimator.classes_.dtype.kind in "biuf":
        estimator.classes_ = moved(estimator.classes_, like)
    if isinstance(getattr(estimator, "zone_", None), np.ndarray):
        estimator.zone_ = moved(estimator.zone_, like)
