r"""The loss saturated on both sides (§3.3, last paragraph), by majorise-minimise.

min(h(u), c) is a difference of convex functions, h - (h - c)_+. Its tightest majoriser at a
point is the piece in force there: the constant c for rows beyond the ceiling, h for the others. So
each round fits the convex loss to the rows not given up; the objective never rises, and
when the same rows are given up twice running the point is stationary.

Which rows are given up is known from the coefficients at which they were: rows that are held are
told once, those of a stream in every reading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.checks import as_numpy
from grayzone.numerics.losses import Ramp
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.choose import at_hand, minimise
from grayzone.solvers.loop import Solution
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

_MAX_ROUNDS = 100


class RampSolution(NamedTuple):
    """The last convex solution, the rows it belongs to, and the ramp objective of each round."""

    convex: Solution
    kept: Labelled
    objectives: tuple[float, ...]
    n_iter: int


@dataclass(frozen=True)
class GivenUp:
    """Rows beyond their class's ceiling at some coefficients; as a part of rows, all others."""

    spec: TruncatedSpec
    ceilings: Array
    coef: Array

    def scored(self, rows: Rows) -> tuple[Ramp, Array, Array]:
        """Loss, scores and margins of rows; kept where these are held."""
        return rows.state("ramp", self, lambda: self._scored(rows))

    def _scored(self, rows: Rows) -> tuple[Ramp, Array, Array]:
        problem = self.spec.problem(rows)
        scores = problem.design.scores(self.coef)
        ramp = Ramp(problem.loss.floor, self.spec.ceilings_of(self.ceilings, rows))
        return ramp, scores, problem.margins.margin(scores)

    def mask(self, rows: Rows) -> Array:
        """Whether each row is given up."""
        ramp, _, u = self.scored(rows)
        return ramp.given_up(u)

    def __call__(self, rows: Rows) -> Rows:
        """Rows that take no weight where they are given up."""
        xp = array_namespace(rows.weight)
        return rows.weighing(xp.where(self.mask(rows), 0.0, rows.weight))


@dataclass(frozen=True)
class _RampReading:
    """Objective at new coefficients, and which rows are given up there and at the old ones."""

    here: GivenUp
    before: GivenUp | None

    def __call__(self, rows: Rows) -> Sums:
        xp, spec = array_namespace(rows.weight), self.here.spec
        # first what is known already
        was = rows.weight < 0 if self.before is None else self.before.mask(rows)
        ramp, scores, u = self.here.scored(rows)
        gone = ramp.given_up(u)
        kept = rows.weighing(xp.where(gone, 0.0, rows.weight))
        counted = [(kept.codes == code) & (kept.weight > 0) for code in range(spec.n_classes)]
        sums: Sums = {
            "loss": float(xp.sum(rows.weight * ramp.value(u))),
            "changed": int(xp.count_nonzero((gone != was) & (rows.weight > 0))),
            "counts": np.array([int(xp.count_nonzero(some)) for some in counted]),
            "mass": np.array([float(xp.sum(xp.where(c, rows.weight, 0.0))) for c in counted]),
        }
        if spec.kernel is not None:  # of rows that are held, in one piece
            design = spec.problem(rows).design
            sums["square"] = design.dot(self.here.coef, self.here.coef, scores)
        return sums


def descend_ramp(
    labelled: Labelled, spec: TruncatedSpec, ceilings: Array, **options: Any
) -> RampSolution:
    """Fit the convex loss to all rows, then to those not given up, until these do not change.

    ``options`` are those of ``minimise``, which solves the convex problems. A round that would give
    up a whole class is not taken: the model would have nothing to tell apart.
    """
    labelled = at_hand(labelled)
    solution, kept = minimise(labelled, spec, **options), labelled
    given_up = GivenUp(spec, ceilings, solution.coef)
    reading = labelled.reduce(_RampReading(given_up, None))
    objectives, n_iter = [_objective(labelled, given_up, reading)], solution.n_iter
    for _ in range(_MAX_ROUNDS):
        if reading["changed"] == 0 or not np.all(reading["counts"] > 0):
            break
        part = _part(labelled, given_up, reading)
        trial = minimise(part, spec, **{**options, "start": solution.coef})
        n_iter += trial.n_iter
        before, given_up = given_up, replace(given_up, coef=trial.coef)
        reading = labelled.reduce(_RampReading(given_up, before))
        reached = _objective(labelled, given_up, reading)
        # solved to a tolerance only: a last round may rise by that much, and is then not kept
        if reached > objectives[-1]:
            break
        solution, kept = trial, part
        objectives.append(reached)
    return RampSolution(solution, kept, tuple(objectives), n_iter)


def _part(labelled: Labelled, given_up: GivenUp, reading: Sums) -> Labelled:
    mass = reading["mass"] / labelled.factors
    return labelled.part_of(given_up, reading["counts"], mass)


def _objective(labelled: Labelled, given_up: GivenUp, reading: Sums) -> float:
    square = reading.get("square")
    if square is None:
        n_slopes = given_up.spec.n_slopes(labelled.n_features)
        slopes = as_numpy(given_up.coef)[:, :n_slopes]
        square = float(np.sum(slopes * slopes))
    return float(reading["loss"] + 0.5 * given_up.spec.penalty * square)
