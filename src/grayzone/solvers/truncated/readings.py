"""What a streamed fit reads off rows: tasks, each of which turns a block into its part of the sums.

Nothing of the number of rows is kept. Which rows a solve treated exactly is known from the
coefficients at which they were near the kink, and every task finds it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.losses import SmoothedLogistic
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.certificate import terms_of
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.sources.gather import picked
from grayzone.sources.labelled import Rows
from grayzone.sources.source import Sums

Array = Any

LIVELY = 0.5  # change of a margin from which a second-order model of the loss is too crude


class Held(NamedTuple):
    """Rows that a solve treated exactly: at ``coef`` in the band, or misjudged by ``changes``.

    Beside each change is the least amount by which a row has to be misjudged. Where kinks were
    rounded off instead no row was held, and multipliers are slopes of the rounded losses.
    """

    coef: Array
    band: float
    lively: bool = True  # whether rows that move far count as misjudged
    changes: tuple[tuple[Array, float], ...] = ()
    rounded: bool = False


class StreamedMultipliers(NamedTuple):
    """What gives the multipliers of rows that are not held, at the coefficients of a solution.

    Rows that ``held`` finds near the kink have the multipliers ``near``, in their order; the others
    have the slopes of their losses at ``coef``. ``scale`` balances the classes.
    """

    coef: Array
    held: Held | None
    near: Array | None
    scale: Array | None

    def of(self, problem: Problem) -> tuple[Array, Array]:
        """Multipliers (n,) of all rows, in one piece, and their balanced duals (n, Q)."""
        xp = array_namespace(self.coef)
        scores = problem.design.scores(self.coef)
        multipliers = slopes(problem, problem.margins.margin(scores), self.held)
        multipliers = xp.where(problem.weight > 0, multipliers, 0.0)
        if self.held is not None and self.near is not None and self.near.shape[0]:
            near = near_kink(problem, self.held)
            place = xp.cumulative_sum(xp.astype(near, xp.int64))
            own = xp.take(self.near, xp.clip(place - 1, min=0, max=self.near.shape[0] - 1))
            multipliers = xp.where(near, own, multipliers)
        duals = problem.margins.pull(scores, multipliers)
        return multipliers, duals if self.scale is None else problem.margins.scaled(
            duals, self.scale
        )


def slopes(problem: Problem, u: Array, held: Held | None) -> Array:
    """Multipliers of rows that were not held: slopes of their losses, as the solve had them."""
    if held is not None and held.rounded:
        return SmoothedLogistic(problem.loss, held.band).slope(u)
    return problem.loss.slope(u)


def near_kink(problem: Problem, held: Held, scores: Array | None = None) -> Array:
    """Return which rows a solve held; ``scores`` are those at its coefficients, if known."""
    if held.rounded:
        return problem.weight < 0
    scores = problem.design.scores(held.coef) if scores is None else scores
    near = _in_band(problem, scores, held.band)
    for change, least in held.changes:
        moved = problem.design.scores(change)
        near = near | (misjudged(problem, scores, moved, held.lively) > least)
    return near


def _in_band(problem: Problem, scores: Array, band: float) -> Array:
    xp = array_namespace(scores)
    distance = problem.margins.margin(scores) - problem.loss.floor
    return (xp.abs(distance) <= band) & xp.isfinite(problem.loss.floor) & (problem.weight > 0)


def misjudged(problem: Problem, scores: Array, moved: Array, lively: bool) -> Array:
    """Return by how much rows cross the kink, or move too far for their second-order model.

    The interior point wants floors, and the smooth Newton method wants none: where some classes
    have floors and some have not, only rows that cross are misjudged.
    """
    xp = array_namespace(scores)
    distance = problem.margins.margin(scores) - problem.loss.floor
    change = problem.margins.push(scores, moved)
    there = distance + change
    crosses = ((distance > 0) != (there > 0)) & (xp.abs(there) > 1e-10)
    amount = xp.where(crosses, xp.abs(there), 0.0)
    if lively:
        far = xp.clip(xp.abs(change) - LIVELY, min=0.0)
        amount = xp.maximum(amount, xp.where(distance > 0, far, 0.0))
    return xp.where(problem.weight > 0, amount, 0.0)


@dataclass(frozen=True)
class Reading:
    """All that a step wants to know of the rows at new coefficients, in one go."""

    spec: TruncatedSpec
    coef: Array
    band: float
    gathers: bool  # whether near rows are brought along, rather than rounded off
    held: Held | None  # the last solve, whose rows have multipliers of their own
    bends: bool = True  # whether Hessians are wanted, and what goes with them

    def __call__(self, rows: Rows) -> Sums:
        """Sum over a block."""
        problem = self.spec.problem(rows)
        xp = array_namespace(rows.weight)
        scores = problem.design.scores(self.coef)
        u, loss, w = problem.margins.margin(scores), problem.loss, problem.weight
        own = slopes(problem, u, self.held)
        if self.held is not None:
            own = xp.where(near_kink(problem, self.held), 0.0, own)
        duals = problem.margins.pull(scores, own)
        near = _in_band(problem, scores, self.band)
        far = xp.nonzero(~near & (u > loss.floor) & (w > 0))[0]
        sums: Sums = {
            "loss": float(xp.sum(w * loss.value(u))),
            "rest": problem.design.gradient(w[:, None] * duals),
            "flow": problem.margins.flow(duals, w),
            "n_far": int(far.shape[0]),
        }
        if not self.bends:
            return sums
        H, g = _second_order(problem, scores, u, far, None)
        sums = {**sums, "hessian": H, "gradient": g}
        if not self.spec.has_kinks:
            return sums
        near_places = xp.nonzero(near)[0]
        if self.gathers:
            return {**sums, "near": picked(rows, near_places)}
        rounded_H, rounded_g = _second_order(problem, scores, u, near_places, self.band)
        return {**sums, "rounded_hessian": rounded_H, "rounded_gradient": rounded_g}


def _second_order(
    problem: Problem, scores: Array, u: Array, places: Array, width: float | None
) -> tuple[Array, Array]:
    """Hessian and gradient of the losses of these rows, the kinks rounded off where asked to."""
    xp = array_namespace(u)
    if width is None and places.shape[0] == u.shape[0]:  # all rows: none needs to be copied
        slope, bend = problem.loss.slopes(u)
        w = problem.weight
        return problem.second_order(scores, w * bend, w * slope, w * slope)
    loss = problem.loss.take(places)
    loss = loss if width is None else SmoothedLogistic(loss, width)
    slope, bend = loss.slopes(xp.take(u, places))
    w, scores = xp.take(problem.weight, places), xp.take(scores, places, axis=0)
    return problem.second_order(scores, w * bend, w * slope, w * slope, places)


@dataclass(frozen=True)
class Lengths:
    """Losses at several lengths of a step, from two passes over the rows."""

    spec: TruncatedSpec
    coef: Array
    change: Array
    lengths: tuple[float, ...]

    def __call__(self, rows: Rows) -> Sums:
        """Sum over a block."""
        problem = self.spec.problem(rows)
        xp, w = array_namespace(rows.weight), rows.weight
        scores, moved = (problem.design.scores(c) for c in (self.coef, self.change))
        margins = (problem.margins.margin(scores + t * moved) for t in self.lengths)
        return {"losses": np.array([float(xp.sum(w * problem.loss.value(u))) for u in margins])}


@dataclass(frozen=True)
class Misjudged:
    """Rows that a step misjudges, and what the model of the far rows had of them."""

    spec: TruncatedSpec
    held: Held  # the rows held already
    change: Array
    least: float

    def __call__(self, rows: Rows) -> Sums:
        """Find them in a block."""
        problem = self.spec.problem(rows)
        xp = array_namespace(rows.weight)
        scores = problem.design.scores(self.held.coef)
        moved = problem.design.scores(self.change)
        wrong = misjudged(problem, scores, moved, self.held.lively) > self.least
        wrong = wrong & ~near_kink(problem, self.held, scores)
        u = problem.margins.margin(scores)
        H, g = _second_order(
            problem, scores, u, xp.nonzero(wrong & (u > problem.loss.floor))[0], None
        )
        joined = picked(rows, xp.nonzero(wrong)[0])
        return {"joined": joined, "hessian": H, "gradient": g}


@dataclass(frozen=True)
class Distance:
    """Fenchel-Young losses and pull of the rows that are not held, their duals scaled."""

    spec: TruncatedSpec
    coef: Array
    held: Held | None
    scale: Array

    def __call__(self, rows: Rows) -> Sums:
        """Sum over a block."""
        problem = self.spec.problem(rows)
        xp = array_namespace(rows.weight)
        scores = problem.design.scores(self.coef)
        margins, w = problem.margins, problem.weight
        rest = w > 0
        if self.held is not None:
            rest = rest & ~near_kink(problem, self.held)
        slope = xp.where(rest, slopes(problem, margins.margin(scores), self.held), 0.0)
        duals = margins.scaled(margins.pull(scores, slope), self.scale)
        terms = terms_of(problem, scores, duals, rows=xp.nonzero(rest)[0])
        return {"distance": terms.distance, "pull": terms.pull}
