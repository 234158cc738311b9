r"""Decomposed Newton on rows that are seen a block at a time, wherever they are.

The method of :mod:`grayzone.solvers.truncated.decomposed` with one difference: nothing of the size
of the rows is kept. What is known are the coefficients; each outer step reads the rows once and
asks for sums: the loss, the weighted Gram matrix and the gradient of the rows that are far from the
kink, and the few rows near it themselves, which an interior point then treats exactly. While these
would be too many to hold, the kink is rounded off on the width of the band instead. Where the step
went, how far margins moved and how wide the next band has to be is read off a sample.

The certificate is the same, too: multipliers of rows that were not held are the slopes of their
losses, and their part of the gap is a sum over blocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite
from typing import Any, NamedTuple

from array_api_compat import array_namespace, device

from grayzone.numerics.linalg import factorise
from grayzone.numerics.losses import SmoothedLogistic
from grayzone.solvers.loop import Record, Status
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.decomposed import read_off
from grayzone.solvers.truncated.frame import EXACT_ROWS, MOST_HELD, Frame
from grayzone.solvers.truncated.interior_point import (
    Inner,
    Quadratic,
    interior_point,
    smooth_newton,
)
from grayzone.sources.gather import Gathered, draw_sample, gather, picked
from grayzone.sources.labelled import Rows
from grayzone.sources.labelled_blocks import LabelledBlocks
from grayzone.sources.source import Sums

Array = Any

_WIDTH = 0.1  # of the rounded kinks in the sample
_ENOUGH = 0.3  # decrease promised by the last step on the sample, per coefficient
_NEAR_SHARE, _FIRST_BAND = 0.02, 1e-3  # rows in the first band, and its least width
_REACH = 0.5  # half-width of the next band, as a share of how far rows near the kink moved
_LEAST_NEAR = 40  # rows in a band, for each coefficient
_DENSITY = 0.01  # share of rows that tells how dense they are around the kink
_CENTRAL = 0.25  # first complementarity of the interior point, in widths of the rounding
_INNER = 1e-4  # accuracy of the inner solves, as a share of the decrease to come
_WORTH_CERTIFYING = 100.0  # last decrease, in units of the tolerance, that may be the last
_HOPELESS = 2.0  # part of a gap, in units of the tolerance, that makes it not worth computing
_BALANCED = 1e-13  # distance of factors from one that is nothing but rounding
_LIVELY = 0.5  # change of a margin from which a second-order model of the loss is too crude
_JOINS = 2  # times that misjudged rows may join the near ones in a step
_HALVINGS, _FEW_HALVINGS = 30, 4  # of a step; few where another model would do better
_CROWDED, _MANY = 0.1, 20  # share of a band that can be held, and rows in those that can
_NARROWEST = 1e-9  # width of kinks that are rounded off
_ROUNDING = 1e-15  # gap at which nothing is left to gain


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


class BlockSolution(NamedTuple):
    """The best certified point, and what gives the multipliers of all rows.

    Rows that ``held`` finds near the kink have the multipliers ``near``, in their order; the others
    have the slopes of their losses at ``coef``. ``scale`` balances the classes.
    """

    coef: Array
    objective: float
    gap: float
    status: Status
    n_iter: int
    held: Held | None
    near: Array | None
    scale: Array | None


def _slopes(problem: Problem, u: Array, held: Held | None) -> Array:
    """Multipliers of rows that were not held: slopes of their losses, as the solve had them."""
    if held is not None and held.rounded:
        return SmoothedLogistic(problem.loss, held.band).slope(u)
    return problem.loss.slope(u)


def near_kink(problem: Problem, held: Held, scores: Array | None = None) -> Array:
    """Tell which rows a solve held; ``scores`` are those at its coefficients, if known."""
    if held.rounded:
        return problem.weight < 0
    scores = problem.design.scores(held.coef) if scores is None else scores
    near = _in_band(problem, scores, held.band)
    for change, least in held.changes:
        moved = problem.design.scores(change)
        near = near | (_misjudged(problem, scores, moved, held.lively) > least)
    return near


def _in_band(problem: Problem, scores: Array, band: float) -> Array:
    xp = array_namespace(scores)
    distance = problem.margins.margin(scores) - problem.loss.floor
    return (xp.abs(distance) <= band) & xp.isfinite(problem.loss.floor) & (problem.weight > 0)


def _misjudged(problem: Problem, scores: Array, moved: Array, lively: bool) -> Array:
    """Tell by how much rows cross the kink, or move too far for their second-order model.

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
        far = xp.clip(xp.abs(change) - _LIVELY, min=0.0)
        amount = xp.maximum(amount, xp.where(distance > 0, far, 0.0))
    return xp.where(problem.weight > 0, amount, 0.0)


@dataclass(frozen=True)
class _Look:
    """All that a step wants to know of the rows at new coefficients, in one reading."""

    frame: Frame
    coef: Array
    band: float
    gathers: bool  # whether near rows are brought along, rather than rounded off
    held: Held | None  # the last solve, whose rows have multipliers of their own

    def __call__(self, rows: Rows) -> Sums:
        problem = self.frame.problem(rows)
        xp = array_namespace(rows.weight)
        scores = problem.design.scores(self.coef)
        u, loss, w = problem.margins.margin(scores), problem.loss, problem.weight
        own = _slopes(problem, u, self.held)
        if self.held is not None:
            own = xp.where(near_kink(problem, self.held), 0.0, own)
        duals = problem.margins.pull(scores, own)
        near = _in_band(problem, scores, self.band)
        far = xp.nonzero(~near & (u > loss.floor) & (w > 0))[0]
        near_places = xp.nonzero(near)[0]
        H, g = _second_order(problem, scores, u, far, None)
        sums: Sums = {
            "loss": float(xp.sum(w * loss.value(u))),
            "rest": problem.design.gradient(w[:, None] * duals),
            "flow": problem.margins.flow(duals, w),
            "hessian": H,
            "gradient": g,
            "n_far": int(far.shape[0]),
        }
        if not self.frame.has_kinks:
            return sums
        if self.gathers:
            return {**sums, "near": picked(replace(rows, weight=w), near_places)}
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
class _Join:
    """Rows that a step misjudges, and what the model of the far rows had of them."""

    frame: Frame
    held: Held  # the rows held already
    change: Array
    least: float

    def __call__(self, rows: Rows) -> Sums:
        problem = self.frame.problem(rows)
        xp = array_namespace(rows.weight)
        scores = problem.design.scores(self.held.coef)
        moved = problem.design.scores(self.change)
        wrong = _misjudged(problem, scores, moved, self.held.lively) > self.least
        wrong = wrong & ~near_kink(problem, self.held, scores)
        u = problem.margins.margin(scores)
        H, g = _second_order(
            problem, scores, u, xp.nonzero(wrong & (u > problem.loss.floor))[0], None
        )
        joined = picked(replace(rows, weight=problem.weight), xp.nonzero(wrong)[0])
        return {"joined": joined, "hessian": H, "gradient": g}


@dataclass(frozen=True)
class _Distance:
    """Fenchel-Young losses and pull of the rows that are not held, their duals scaled."""

    frame: Frame
    coef: Array
    held: Held | None
    scale: Array

    def __call__(self, rows: Rows) -> Sums:
        problem = self.frame.problem(rows)
        xp = array_namespace(rows.weight)
        scores = problem.design.scores(self.coef)
        margins, w = problem.margins, problem.weight
        rest = w > 0
        if self.held is not None:
            rest = rest & ~near_kink(problem, self.held)
        slope = xp.where(rest, _slopes(problem, margins.margin(scores), self.held), 0.0)
        duals = margins.scaled(margins.pull(scores, slope), self.scale)
        distance = margins.fenchel_young(problem.loss, scores, duals)
        return {
            "gap": float(xp.sum(xp.where(rest, w * distance, 0.0))),
            "rest": problem.design.gradient(w[:, None] * duals),
        }


def minimise_by_blocks(
    labelled: LabelledBlocks,
    frame: Frame,
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
    callback: Callable[[Record], bool | None] | None = None,
) -> BlockSolution:
    """Minimise criterion (8) over linear functions of the rows.

    Parameters
    ----------
    labelled : LabelledBlocks
        The rows.
    frame : Frame
        Losses and penalty.
    tol : float
        Relative duality gap asked for.
    max_iter : int
        Most readings of the rows.
    start : array of shape (Q, p), optional
        Coefficients to start from; by default those of a sample.
    callback : callable, optional
        Told of each certificate; a true answer ends the fit.

    Returns
    -------
    solution : BlockSolution
        The best certified point.
    """
    return _Descent(labelled, frame, tol, callback).run(start, max_iter)


def row_duals(problem: Problem, found: BlockSolution) -> tuple[Array, Array]:
    """Multipliers (n,) of the margins of rows in memory, and their balanced duals (n, Q)."""
    xp = array_namespace(found.coef)
    scores = problem.design.scores(found.coef)
    multipliers = _slopes(problem, problem.margins.margin(scores), found.held)
    multipliers = xp.where(problem.weight > 0, multipliers, 0.0)
    if found.held is not None and found.near is not None and found.near.shape[0]:
        near = near_kink(problem, found.held)
        place = xp.cumulative_sum(xp.astype(near, xp.int64))
        own = xp.take(found.near, xp.clip(place - 1, min=0, max=found.near.shape[0] - 1))
        multipliers = xp.where(near, own, multipliers)
    duals = problem.margins.pull(scores, multipliers)
    return multipliers, duals if found.scale is None else problem.margins.scaled(duals, found.scale)


class _Step(NamedTuple):
    """A change of the coefficients, what it promises, and multipliers of the rows it held."""

    change: Array
    promised: float
    near: Problem | None = None
    multipliers: Array | None = None
    held: Held | None = None


class _Point(NamedTuple):
    """Coefficients, what a look at the rows there has found, and the step that led to them."""

    coef: Array
    band: float
    value: float
    look: Sums
    decrease: float = inf
    step: _Step | None = None  # only where it was taken whole


class _Descent:
    """One fit."""

    def __init__(
        self,
        labelled: LabelledBlocks,
        frame: Frame,
        tol: float,
        callback: Callable[[Record], bool | None] | None,
    ) -> None:
        self.labelled, self.frame, self.tol, self.callback = labelled, frame, tol, callback
        self.like = labelled.source.like()
        self.n_features = labelled.source.n_features
        self.most = max(1, MOST_HELD // max(1, self.n_features))
        self.best: BlockSolution | None = None
        self.certified: Array | None = None  # the last coefficients that were certified
        self.began = time.perf_counter()

    @cached_property
    def sample(self) -> Problem | None:
        """Rows that stand for all; None where these are so few that they are treated exactly."""
        n_rows = self.labelled.n_rows
        if n_rows <= min(self.most, EXACT_ROWS):
            return None
        size = min(self.most // 2, max(EXACT_ROWS, n_rows // 5))
        return self.frame.problem(draw_sample(self.labelled, size).rows)

    def run(self, start: Array | None, max_iter: int) -> BlockSolution:
        """Descend until the gap is small enough, or nothing helps any more."""
        coef = self._start() if start is None else start
        point = self._look(coef, self._first_band(coef), None)
        status, idle, polish, n_iter = Status.MAX_ITER, 0, 2, 0
        for n_iter in range(1, max_iter + 1):
            if not isfinite(point.value):
                status = Status.NOT_FINITE
                break
            step = self._step(point)
            # a model that promises a rise has got out of hand; one at the optimum promises nothing
            credible = step.promised > -1e-9 * abs(point.value)
            after = self._moved(point, step) if credible else None
            if after is None and self._may_round(point):
                # near rows that are too few, or kinks that are rounded off too widely
                rounded = "rounded_hessian" in point.look
                band = 0.1 * point.band if rounded else point.band
                point = self._look(point.coef, band, None, rounds=True)
                continue
            if after is None:
                # where nothing is left to gain, what the step found are better multipliers
                here = self._look(point.coef, point.band, step.held)
                self._certify(here._replace(step=step, decrease=0.0), n_iter, at_last=True)
                fine = self.best is not None and self.best.gap <= self.tol
                status = Status.CONVERGED if fine else Status.STALLED
                break
            point = after
            stop = self._certify(point, n_iter)
            if self.best is not None and self.best.gap <= self.tol:
                status = Status.CONVERGED
                # few rows are taken to rounding level: that costs next to nothing
                if self.sample is not None or self.best.gap <= _ROUNDING or polish == 0:
                    break
                polish -= 1
            idle = idle + 1 if point.decrease <= 1e-13 * point.value else 0
            if stop or idle > 3:
                if status is not Status.CONVERGED:
                    status = Status.STOPPED if stop else Status.STALLED
                break
        if self.certified is not point.coef:
            self._certify(point, n_iter, at_last=True)
        assert self.best is not None
        return self.best._replace(status=status, n_iter=n_iter)

    # ------------------------------------------------------------------------------------------
    # Start, band
    # ------------------------------------------------------------------------------------------

    def _start(self) -> Array:
        """Solution on the sample, to within what a sample can say; or the class priors."""
        mass = self.labelled.mass * self.labelled.factors
        coef = self.frame.prior_coef(mass, self.n_features, self.like)
        if self.sample is None:
            return coef
        share = self.labelled.n_rows / self.sample.design.n_rows
        smooth = replace(self.sample, loss=SmoothedLogistic(self.sample.loss, _WIDTH))
        penalty = Quadratic(_diagonal(self.sample.ridge()), self.sample.shrinkage(coef))
        tol = _ENOUGH * share * self.frame.n_outputs * self.sample.design.n_coef
        inner = smooth_newton(smooth, penalty, self.sample.design.scores(coef), tol=tol)
        if not inner.converged and self.frame.has_kinks and self.frame.is_uniform:
            # at the priors of rare classes hardly a row has any curvature
            coef = 0.0 * coef
            scores = self.sample.design.scores(coef)
            inner = interior_point(self.sample, penalty._replace(gradient=coef), scores, tol=tol)
        return coef + inner.change

    def _distances(self, coef: Array) -> Array:
        """Distances of the sample from the kink; infinite where there is none."""
        assert self.sample is not None
        u = self.sample.margins.margin(self.sample.design.scores(coef))
        return u - self.sample.loss.floor

    def _first_band(self, coef: Array) -> float:
        """Half-width of the first band: all rows where they are few, else a small share."""
        if not self.frame.has_kinks:
            return 0.0
        if self.sample is None:
            return inf
        distance = _finite(abs(self._distances(coef)))
        # at an earlier optimum rows lie on the kink itself, and others soon will
        return max(_quantile(distance, _NEAR_SHARE), min(_FIRST_BAND, self._widest(distance)))

    def _widest(self, distance: Array) -> float:
        """Band that holds as many rows as can be held, by the sample's distances."""
        return _quantile(distance, min(1.0, 0.9 * self.most / self.labelled.n_rows))

    def _next_band(self, point: _Point, step: _Step, whole: bool) -> float:
        """Half-width for the next look, by how far the step would move rows near the kink.

        They move much less in the next step than in this one, unless this one had to be cut short.
        The band holds some rows in any case: that costs little, and they may cross the kink.
        """
        if not self.frame.has_kinks or self.sample is None:
            return point.band
        xp = array_namespace(point.coef)
        was, now = self._distances(point.coef), self._distances(point.coef + step.change)
        bounded = xp.isfinite(now)
        distance, moved = xp.abs(was[bounded]), xp.abs(now[bounded] - was[bounded])
        reach = _quantile(moved[distance <= _quantile(distance, 0.2)], 0.99)
        if not whole:
            # no more rows than can be held
            return max(point.band, min(2.0 * reach, self._widest(distance)))
        some = min(1.0, _LEAST_NEAR * self.sample.design.n_coef / self.labelled.n_rows)
        # so few rows that the sample has none of them: their density is that of some more
        least = some * _quantile(distance, max(some, _DENSITY)) / max(some, _DENSITY)
        band = min(point.band, max(_REACH * reach, least))
        # from the second step on rows are better held than rounded off, unless they lie on the kink
        widest = self._widest(distance)
        crowded = widest < _CROWDED * band or self.labelled.n_rows < _MANY * self.most
        return band if crowded else min(band, widest)

    def _gathers(self, coef: Array, band: float) -> bool:
        """Whether the rows of the band are few enough to be held."""
        if self.sample is None:
            return True
        xp = array_namespace(coef)
        share = float(xp.mean(xp.astype(xp.abs(self._distances(coef)) <= band, xp.float64)))
        return share * self.labelled.n_rows <= self.most

    # ------------------------------------------------------------------------------------------
    # Steps
    # ------------------------------------------------------------------------------------------

    def _may_round(self, point: _Point) -> bool:
        """Whether another step from here, with kinks rounded off otherwise, may do better."""
        return self.frame.has_kinks and self.sample is not None and point.band > _NARROWEST

    def _look(self, coef: Array, band: float, held: Held | None, rounds: bool = False) -> _Point:
        gathers = self.frame.has_kinks and not rounds and self._gathers(coef, band)
        look = self.labelled.reduce(_Look(self.frame, coef, band, gathers, held))
        return _Point(coef, band, look["loss"] + self._penalty(coef), look)

    def _penalty(self, coef: Array) -> float:
        slopes = coef[:, : self.n_features]
        return 0.5 * self.frame.penalty * float(array_namespace(coef).sum(slopes * slopes))

    def _ridge(self, coef: Array) -> tuple[Array, Array]:
        """Diagonal of the penalty's Hessian, and its gradient."""
        xp = array_namespace(coef)
        mask = xp.zeros_like(coef)
        mask[:, : self.n_features] = self.frame.penalty
        return xp.reshape(mask, (-1,)), mask * coef

    def _step(self, point: _Point) -> _Step:
        """Minimise the model of the far rows and the losses of the near ones.

        Rows that the step misjudges are then treated exactly as well, and it is taken anew.
        """
        ridge, shrinkage = self._ridge(point.coef)
        H, g = point.look["hessian"] + _diagonal(ridge), point.look["gradient"] + shrinkage
        rounds = self.frame.has_kinks and "near" not in point.look
        if rounds:
            H = H + point.look["rounded_hessian"]
            g = g + point.look["rounded_gradient"]
            held = Held(point.coef, point.band, rounded=True)
            return _newton_step(H, g)._replace(held=held)
        near = gather(point.look.get("near", []), self.like, self.n_features)
        held = Held(point.coef, point.band, self.frame.is_uniform)
        step = self._solved(point, near, Quadratic(H, g), held, None)
        for _ in range(_JOINS):
            least = self._least_misjudged(point, step.change, held)
            if least is None:
                break
            found = self.labelled.reduce(_Join(self.frame, held, step.change, least))
            joined = gather(found["joined"], self.like, self.n_features)
            if joined.numbers.shape[0] == 0:
                break
            held = held._replace(changes=(*held.changes, (step.change, least)))
            near = _merged(near, joined)
            H, g = H - found["hessian"], g - found["gradient"]
            step = self._solved(point, near, Quadratic(H, g), held, step.change)
        return step

    def _least_misjudged(self, point: _Point, change: Array, held: Held) -> float | None:
        """By how much a row has to be misjudged to join: so much that these are not too many.

        None where rows move so little that none can be, by the sample; or, once rows have joined,
        where the sample has no other one that is.
        """
        if self.sample is None:
            return None
        xp = array_namespace(change)
        scores = self.sample.design.scores(point.coef)
        moved = self.sample.design.scores(change)
        most = float(xp.max(xp.abs(self.sample.margins.push(scores, moved))))
        if most <= 0.1 * _LIVELY and not (self.frame.has_kinks and most > 0.5 * point.band):
            return None
        amount = _misjudged(self.sample, scores, moved, self.frame.is_uniform)
        if held.changes:
            others = (amount > 0) & ~near_kink(self.sample, held, scores)
            if not bool(xp.any(others)):
                return None
        return _quantile(amount, 1.0 - min(1.0, 0.5 * self.most / self.labelled.n_rows))

    def _solved(
        self, point: _Point, near: Gathered, model: Quadratic, held: Held, start: Array | None
    ) -> _Step:
        if near.numbers.shape[0] == 0:
            return _newton_step(*model)
        rows = replace(self.frame, beyond=None).problem(near.rows)
        scores = rows.design.scores(point.coef)
        tol = min(1e-13, max(1e-2 * self.tol, 1e-16)) * point.value
        if point.look["n_far"] > 0:
            coming = min(point.decrease, point.value)
            tol = max(1e-6 * self.tol * point.value, _INNER * coming)
        if not self.frame.has_kinks:
            inner = smooth_newton(rows, model, scores, tol=tol)
        else:
            inner = self._mixed(point, rows, model, scores, tol, start)
        promised = _model_decrease(model, rows, scores, inner.change, inner.scores)
        return _Step(inner.change, promised, rows, inner.multipliers, held)

    def _mixed(
        self,
        point: _Point,
        near: Problem,
        model: Quadratic,
        scores: Array,
        tol: float,
        start: Array | None,
    ) -> Inner:
        """Solve with the kinks of the near rows, from where rounded kinks lead."""
        if not isfinite(point.band):
            return interior_point(near, model, scores, tol=tol)
        width = max(point.band, 1e-8)
        if start is not None:  # where rows have joined, which may be anywhere
            return interior_point(near, model, scores, tol=tol, start=start)
        smooth = replace(near, loss=SmoothedLogistic(near.loss, width))
        start = smooth_newton(smooth, model, scores, tol=tol).change
        tau = min(1.0, _CENTRAL * width)
        return interior_point(near, model, scores, tol=tol, start=start, tau=tau)

    def _moved(self, point: _Point, step: _Step) -> _Point | None:
        """Look where a step leads, and shorten it while the objective does not fall."""
        length, band = 1.0, self._next_band(point, step, whole=True)
        few = "rounded_hessian" in point.look and step.promised < point.value
        for _ in range(_FEW_HALVINGS if few else _HALVINGS):
            coef = point.coef + length * step.change
            after = self._look(coef, band, step.held if length == 1.0 else None)
            if _fell(after.value, point.value, length * step.promised):
                whole = step if length == 1.0 else None
                return after._replace(decrease=point.value - after.value, step=whole)
            if length == 1.0:
                band = self._next_band(point, step, whole=False)
            length *= _shorter(after.value, point.value, length * step.promised)
        return None

    # ------------------------------------------------------------------------------------------
    # Certificate
    # ------------------------------------------------------------------------------------------

    def _certify(self, point: _Point, n_iter: int, at_last: bool = False) -> bool:
        """Certify where that is worth its price; true where a callback asks to stop."""
        worth = point.decrease <= _WORTH_CERTIFYING * self.tol * point.value
        exact = point.step is not None and self.sample is None
        if not (worth or exact or at_last):
            return False
        found = self._best_certificate(point, needed=exact or at_last)
        if found is None:
            return False
        self.certified = point.coef
        if self.best is None or found.gap < self.best.gap:
            self.best = found
        if self.callback is None:
            return False
        seconds = time.perf_counter() - self.began
        record = Record(n_iter, found.objective, found.gap, point.look["n_far"], seconds)
        return bool(self.callback(record))

    def _best_certificate(self, point: _Point, needed: bool) -> BlockSolution | None:
        """Certify by the multipliers read off and, if that is not enough, by those of the step.

        None where the force on the slopes, which is known without a reading, is too large already.
        """
        choices, best = [self._read_off(point)], None
        if point.step is not None and point.step.near is not None and self.frame.has_kinks:
            choices.append(point.step.multipliers)
        for multipliers in choices:
            if not needed and self._pull_gap(point, multipliers) > _HOPELESS * self.tol:
                continue
            found = self._certificate(point, multipliers)
            best = found if best is None or found.gap < best.gap else best
            if best.gap <= self.tol:
                break
        return best

    def _pull_gap(self, point: _Point, multipliers: Array | None) -> float:
        """Part of the relative gap that is due to the slopes, before classes are balanced."""
        rest, near = point.look["rest"], None if point.step is None else point.step.near
        if near is not None:
            duals = near.margins.pull(near.design.scores(point.coef), multipliers)
            rest = rest + near.design.gradient(near.weight[:, None] * duals)
        return self._force(point.coef, rest) / point.value if point.value > 0 else inf

    def _force(self, coef: Array, rest: Array) -> float:
        """(lambda / 2) |w - w(a)|^2, from the pull of all rows."""
        force = (rest + self._ridge(coef)[1])[:, : self.n_features]
        return 0.5 * float(array_namespace(force).sum(force * force)) / self.frame.penalty

    def _read_off(self, point: _Point) -> Array | None:
        if point.step is None or point.step.near is None:
            return None
        near = point.step.near
        if not self.frame.has_kinks:
            return near.loss.slope(near.margins.margin(near.design.scores(point.coef)))
        u = near.margins.margin(near.design.scores(point.coef))
        return read_off(near, u, point.step.multipliers)

    def _certificate(self, point: _Point, multipliers: Array | None) -> BlockSolution:
        """P - D = Fenchel-Young losses + (lambda / 2) |w - w(a)|^2, summed over blocks."""
        coef, look, step = point.coef, point.look, point.step
        held = None if step is None else step.held
        near = None if step is None else step.near
        flow, scores, duals = look["flow"], None, None
        if near is not None:
            scores = near.design.scores(coef)
            duals = near.margins.pull(scores, multipliers)
            flow = flow + near.margins.flow(duals, near.weight)
        scale = self._scaling(flow)
        rest, gap = look["rest"], 0.0
        if scale is not None:
            sums = self.labelled.reduce(_Distance(self.frame, coef, held, scale))
            rest, gap = sums["rest"], sums["gap"]
        if near is not None:
            duals = duals if scale is None else near.margins.scaled(duals, scale)
            distance = near.margins.fenchel_young(near.loss, scores, duals)
            gap += float(array_namespace(distance).sum(near.weight * distance))
            rest = rest + near.design.gradient(near.weight[:, None] * duals)
        gap += self._force(coef, rest)
        relative = gap / point.value if point.value > 0 else inf
        return BlockSolution(
            coef, point.value, relative, Status.MAX_ITER, 0, held, multipliers, scale
        )

    def _scaling(self, flow: Array) -> Array | None:
        """Factors that balance the classes; None where they are ones but for rounding."""
        if not self.frame.fit_intercept:
            return None
        scale = self.frame.kind.scaling(flow)
        xp = array_namespace(scale)
        off = float(xp.max(xp.where(flow > 0, xp.abs(scale - 1.0), 0.0)))
        return scale if off > _BALANCED else None


def _diagonal(values: Array) -> Array:
    xp = array_namespace(values)
    return xp.eye(values.shape[0], dtype=values.dtype, device=device(values)) * values[:, None]


def _merged(near: Gathered, joined: Gathered) -> Gathered:
    """Both sets of rows, in their order among all."""
    both = gather([near, joined], near.numbers, 0) if near.numbers.shape[0] else joined
    order = array_namespace(both.numbers).argsort(both.numbers)
    return Gathered(both.rows.take(order), array_namespace(order).take(both.numbers, order))


def _newton_step(H: Array, g: Array) -> _Step:
    xp = array_namespace(g)
    change = xp.reshape(-factorise(H)(xp.reshape(g, (-1,))), g.shape)
    return _Step(change, -0.5 * float(xp.sum(g * change)))


def _model_decrease(
    model: Quadratic, near: Problem, before: Array, change: Array, after: Array
) -> float:
    """Decrease that the mixed model promises."""
    xp = array_namespace(change)
    z = xp.reshape(change, (-1,))
    value = float(
        xp.sum(xp.reshape(model.gradient, (-1,)) * z) + 0.5 * xp.sum(z * (model.hessian @ z))
    )
    u, was = near.margins.margin(after), near.margins.margin(before)
    return -value - float(xp.sum(near.weight * (near.loss.value(u) - near.loss.value(was))))


def _fell(value: float, before: float, promised: float) -> bool:
    """Whether the objective fell by a fair share, or by all that rounding lets one see."""
    if value <= before - 1e-4 * promised:
        return True
    return promised <= 1e-11 * abs(before) and value - before <= 1e-13 * abs(before)


def _shorter(value: float, before: float, promised: float) -> float:
    """Factor for a step that did not do, by the parabola through what is known."""
    bend = value - before + 2.0 * promised
    return min(0.5, max(promised / bend, 0.1)) if isfinite(bend) and bend > 0 else 0.1


def _finite(values: Array) -> Array:
    return values[array_namespace(values).isfinite(values)]


def _quantile(values: Array, share: float) -> float:
    """Quantile of values, 0 of none; array libraries know no other than by sorting."""
    n = values.shape[0]
    if n == 0:
        return 0.0
    return float(array_namespace(values).sort(values)[min(n - 1, int(share * n))])
