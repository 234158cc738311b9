"""The loss saturated on both sides, by majorise-minimise, on rows that come in blocks.

The method of :mod:`grayzone.solvers.truncated.ramp`. Which rows are given up is not kept: it is
known from the coefficients at which they were, and every task finds it anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.losses import Ramp
from grayzone.solvers.truncated.by_blocks import BlockSolution, minimise_by_blocks
from grayzone.solvers.truncated.frame import Frame
from grayzone.sources.labelled import Rows
from grayzone.sources.labelled_blocks import LabelledBlocks
from grayzone.sources.source import Sums

Array = Any

_MAX_ROUNDS = 100


class BlockRamp(NamedTuple):
    """The last convex solution, the problem it solves, and the ramp objective there."""

    convex: BlockSolution
    frame: Frame
    objective: float
    n_iter: int


@dataclass(frozen=True)
class _Ramp:
    """Loss at new coefficients, and which rows are given up there and at the old ones."""

    frame: Frame
    coef: Array
    before: Array | None

    def __call__(self, rows: Rows) -> Sums:
        problem = replace(self.frame, beyond=None).problem(rows)
        xp = array_namespace(rows.weight)
        ceilings = xp.take(moved(self.frame.ceilings, rows.weight), rows.codes)
        ramp = Ramp(problem.loss.floor, ceilings)
        u = problem.margins.margin(problem.design.scores(self.coef))
        gone = ramp.given_up(u)
        was = xp.zeros_like(gone)
        if self.before is not None:
            was = ramp.given_up(problem.margins.margin(problem.design.scores(self.before)))
        kept = [
            float(xp.sum(xp.where(gone | (rows.codes != code), 0.0, rows.weight)))
            for code in range(self.frame.n_classes)
        ]
        return {
            "loss": float(xp.sum(rows.weight * ramp.value(u))),
            "changed": int(xp.sum(xp.astype(gone != was, xp.int64))),
            "kept": np.array(kept),
        }


def descend_ramp_by_blocks(labelled: LabelledBlocks, frame: Frame, **options: Any) -> BlockRamp:
    """Fit the convex loss to all rows, then to those not given up, until these do not change.

    ``options`` are those of ``minimise_by_blocks``. A round that would give up a whole class is not
    taken.
    """
    frame = replace(frame, beyond=None)
    found = minimise_by_blocks(labelled, frame, **options)
    look = labelled.reduce(_Ramp(frame, found.coef, None))
    objective, n_iter = look["loss"] + _penalty(labelled, frame, found.coef), found.n_iter
    for _ in range(_MAX_ROUNDS):
        if look["changed"] == 0 or not np.all(as_numpy(look["kept"]) > 0):
            break
        tried = replace(frame, beyond=found.coef)
        trial = minimise_by_blocks(labelled, tried, **{**options, "start": found.coef})
        n_iter += trial.n_iter
        look = labelled.reduce(_Ramp(frame, trial.coef, found.coef))
        reached = look["loss"] + _penalty(labelled, frame, trial.coef)
        # solved to a tolerance only: a last round may rise by that much, and is then not kept
        if reached > objective:
            break
        found, frame, objective = trial, tried, reached
    return BlockRamp(found, frame, objective, n_iter)


def _penalty(labelled: LabelledBlocks, frame: Frame, coef: Array) -> float:
    slopes = coef[:, : labelled.source.n_features]
    return 0.5 * frame.penalty * float(array_namespace(coef).sum(slopes * slopes))
