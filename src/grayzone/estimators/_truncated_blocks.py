"""Truncated logistic regression on rows that are not NumPy's: blocks, clusters and devices."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from grayzone.estimators._callbacks import Report
from grayzone.estimators._truncated_device import expose_duals, fit_kernel, move_decision
from grayzone.numerics.backend import moved
from grayzone.solvers import Status
from grayzone.solvers.truncated.by_blocks import BlockSolution, minimise_by_blocks, row_duals
from grayzone.solvers.truncated.frame import Frame
from grayzone.solvers.truncated.ramp_by_blocks import descend_ramp_by_blocks
from grayzone.sources.labelled_blocks import LabelledBlocks, label_blocks
from grayzone.sources.source import HeldSource, Source

Array = Any


def fit_blocks(estimator: Any, source: Source, report: Report | None) -> Status:
    """Fit an estimator whose parameters are checked, and set what it found.

    Attributes that have an entry for every row are set where the rows are held in one place, as
    on a device; a fit to blocks keeps nothing of their number.
    """
    held = isinstance(source, HeldSource)
    _check_possible(estimator, held)
    labelled = label_blocks(source, estimator.class_weight)
    estimator._set_decision(labelled)
    if estimator.kernel != "linear":
        return fit_kernel(estimator, labelled, report)
    floors, ceilings = estimator._saturation()
    frame = Frame(floors, 1.0 / estimator.C, estimator.fit_intercept, ceilings)
    options = {
        "tol": estimator.tol,
        "max_iter": estimator.max_iter,
        "start": _previous(estimator, labelled),
        "callback": estimator._listener(report),
    }
    if ceilings is None:
        found = minimise_by_blocks(labelled, frame, **options)
        estimator.objective_, estimator.n_iter_ = found.objective, found.n_iter
    else:
        ramp = descend_ramp_by_blocks(labelled, frame, **options)
        found, frame = ramp.convex, ramp.frame
        estimator.objective_, estimator.n_iter_ = ramp.objective, ramp.n_iter
    _expose(estimator, labelled, found)
    if held:
        _expose_rows(estimator, labelled, frame, found)
    return found.status


def _check_possible(estimator: Any, held: bool) -> None:
    if estimator.solver != "auto":
        raise ValueError(
            f"solver={estimator.solver!r} is for NumPy arrays in memory; use solver='auto' for "
            "arrays of other libraries and for blocks."
        )
    if estimator.kernel != "linear" and not held:
        raise ValueError(
            f"kernel={estimator.kernel!r} needs all rows at once; blocks are for the linear "
            "kernel. ImportVectorMachine fits kernels to blocks."
        )


def _previous(estimator: Any, labelled: LabelledBlocks) -> Array | None:
    """Coefficients of the last fit, where they can be a start for this one."""
    K, d = len(labelled.classes), labelled.source.n_features
    shape = (1 if K == 2 else K, d)
    if not estimator.warm_start or getattr(getattr(estimator, "coef_", None), "shape", 0) != shape:
        return None
    slopes, like = estimator.coef_, labelled.source.like()
    xp = array_namespace(slopes)
    if estimator.fit_intercept:
        slopes = xp.concat([slopes, estimator.intercept_[:, None]], axis=1)
    return moved(slopes, like)


def _expose(estimator: Any, labelled: LabelledBlocks, found: BlockSolution) -> None:
    d, like = labelled.source.n_features, labelled.source.like()
    xp = array_namespace(like)
    for name in ("support_", "dual_coef_", "partition_"):
        estimator.__dict__.pop(name, None)
    estimator._keep_nothing()
    estimator.coef_ = found.coef[:, :d]
    estimator.intercept_ = (
        found.coef[:, d]
        if estimator.fit_intercept
        else xp.zeros(found.coef.shape[0], dtype=xp.float64, device=device(like))
    )
    estimator.dual_gap_ = found.gap
    move_decision(estimator, like)


def _expose_rows(
    estimator: Any, labelled: LabelledBlocks, frame: Frame, found: BlockSolution
) -> None:
    problem = frame.problem(labelled.held)
    multipliers, duals = row_duals(problem, found)
    expose_duals(estimator, problem, multipliers, duals)
    estimator._fit_X = labelled.held.X
