"""The optimum on the span of the chosen points, where rows come in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

from array_api_compat import array_namespace, device

from grayzone.numerics.linalg import descend, factorise
from grayzone.numerics.losses import SmoothedLogistic
from grayzone.numerics.margins import Margins, ReferenceMargin
from grayzone.solvers.greedy.refit import ACCURACY, LEAST_BEND, MAX_STEPS, ROUNDED, WITH_KINKS
from grayzone.solvers.loop import Solution, solve
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.readings import Held, near_kink
from grayzone.solvers.truncated.spec import TruncatedSpec as Frame
from grayzone.solvers.truncated.streamed import Streamed, StreamedProblem
from grayzone.sources.labelled import Rows
from grayzone.sources.labelled_blocks import LabelledBlocks
from grayzone.sources.source import Sums

Array = Any


@dataclass(frozen=True)
class ReferenceFrame(Frame):
    """A frame of K > 2 classes whose last one has no function of its own."""

    @property
    def n_outputs(self) -> int:
        """Scores per row."""
        return self.n_classes - 1

    @property
    def kind(self) -> type[Margins]:
        """Map from scores to margins."""
        return ReferenceMargin


@dataclass(frozen=True)
class Kinks:
    """Multipliers of the rows near the kink of their loss, where slopes do not tell them."""

    numbers: Array  # of the rows among all, ascending
    multipliers: Array

    def put(self, slope: Array, first: int) -> Array:
        """Slopes of consecutive rows from ``first`` on, those near the kink replaced."""
        if self.numbers.shape[0] == 0:
            return slope
        xp = array_namespace(slope)
        rows = first + xp.arange(slope.shape[0], dtype=xp.int64, device=device(slope))
        place = xp.searchsorted(self.numbers, rows)
        place = xp.clip(place, max=self.numbers.shape[0] - 1)
        own = xp.take(self.multipliers, place)
        return xp.where(xp.take(self.numbers, place) == rows, own, slope)


@dataclass(frozen=True)
class Point:
    """A function on the span: what a task needs to know of it."""

    frame: Frame
    coef: Array  # (Q, p), the intercept last
    kinks: Kinks | None = None  # None: no loss has one

    def parts(self, rows: Rows) -> tuple[Problem, Array, Array, Array]:
        """Problem, scores, slopes and second derivatives of rows whose X are their columns."""
        problem = self.frame.problem(rows)
        scores = problem.design.scores(self.coef)
        u = problem.margins.margin(scores)
        if self.kinks is None:
            return problem, scores, *problem.loss.slopes(u)
        bend = SmoothedLogistic(problem.loss, ROUNDED).curvature(u)
        # where all rows are saturated nothing would hold a step back
        bend = array_namespace(u).clip(bend, min=LEAST_BEND)
        return problem, scores, self.kinks.put(problem.loss.slope(u), rows.first), bend


@dataclass(frozen=True)
class _Derivatives:
    """Loss, gradient and Hessian of rows whose X are their columns."""

    point: Point

    def __call__(self, rows: Rows) -> Sums:
        problem, scores, slope, bend = self.point.parts(rows)
        w, xp = problem.weight, array_namespace(scores)
        H, g = problem.second_order(scores, w * bend, w * slope, w * slope)
        loss = problem.loss.value(problem.margins.margin(scores))
        return {"loss": float(xp.sum(w * loss)), "hessian": H, "gradient": g}


@dataclass(frozen=True)
class _Near:
    """Numbers of the rows that a solve held."""

    frame: Frame
    held: Held

    def __call__(self, rows: Rows) -> Sums:
        near = near_kink(self.frame.problem(rows), self.held)
        return {"numbers": [rows.first + array_namespace(near).nonzero(near)[0]]}


@dataclass(frozen=True)
class _Loss:
    """Loss of rows whose X are their columns, and what they weigh."""

    frame: Frame
    coef: Array

    def __call__(self, rows: Rows) -> Sums:
        problem = self.frame.problem(rows)
        xp, u = array_namespace(self.coef), problem.margins.margin(problem.design.scores(self.coef))
        loss = xp.sum(problem.weight * problem.loss.value(u))
        return {"loss": float(loss), "weight": float(xp.sum(problem.weight))}


@dataclass(frozen=True)
class BlockFitted:
    """The optimum on the span, with the first two derivatives of the criterion there."""

    point: Point
    objective: float
    hessian: Array  # (Qp, Qp)
    gradient: Array  # (Q, p)
    gap: float | None = None  # relative duality gap on the span, where it is known already

    @property
    def coef(self) -> Array:
        """Coefficients (Q, p)."""
        return self.point.coef

    @cached_property
    def solve(self) -> Callable[[Array], Array]:
        """Function that solves systems with the Hessian."""
        return factorise(self.hessian) if self.hessian.shape[0] else lambda r: r


def refit_by_blocks(
    linear: LabelledBlocks, frame: Frame, start: Array, above: float = inf
) -> BlockFitted | None:
    """Minimise from start coefficients; None once the minimum is known to be ``above`` that.

    Parameters
    ----------
    linear : LabelledBlocks
        Rows with columns in the place of features.
    frame : Frame
        Losses and penalty.
    start : array of shape (Q, p)
        Start coefficients.
    above : float
        What the minimum has to be below of.

    Returns
    -------
    fitted : BlockFitted or None
        The optimum.
    """
    if frame.has_kinks and _size(start):
        return _refit_with_kinks(linear, frame, start)
    here = _look(linear, Point(frame, start))
    for _ in range(MAX_STEPS if _size(start) else 0):
        xp = array_namespace(start)
        change = xp.reshape(-here.solve(xp.reshape(here.gradient, (-1,))), start.shape)
        promised = -float(xp.sum(here.gradient * change))
        if promised <= ACCURACY * here.objective:
            break
        if here.objective - promised > above:
            gap = gap_by_blocks(linear, frame, here.coef)
            if here.objective * (1.0 - gap) > above:
                return None
        after = _downhill(linear, here, change, promised)
        if after is None:
            break
        here = after
    return here


def _size(coef: Array) -> int:
    return int(coef.shape[0] * coef.shape[1])


def _downhill(
    linear: LabelledBlocks, here: BlockFitted, change: Array, promised: float
) -> BlockFitted | None:
    """Look where a step leads, and shorten it where it leads nowhere.

    A look gives all that the next step asks for: the rows are read once a step.
    """
    seen: dict[float, BlockFitted] = {}

    def value(t: float) -> float:
        coef = here.coef + t * change
        seen[t] = _look(linear, Point(here.point.frame, coef))
        return seen[t].objective

    t, _ = descend(value, -promised, here.objective)
    return seen[t] if t > 0.0 else None


def _look(linear: LabelledBlocks, point: Point) -> BlockFitted:
    found = linear.reduce(_Derivatives(point))
    coef, frame, q = point.coef, point.frame, linear.source.n_features
    xp = array_namespace(coef)
    ridge = xp.zeros_like(coef)
    ridge[:, :q] = frame.penalty
    eye = xp.eye(_size(coef), dtype=coef.dtype, device=device(coef))
    H = found["hessian"] + eye * xp.reshape(ridge, (-1,))[:, None]
    slopes = coef[:, :q]
    objective = found["loss"] + 0.5 * frame.penalty * float(xp.sum(slopes * slopes))
    return BlockFitted(point, objective, H, found["gradient"] + ridge * coef)


def _refit_with_kinks(linear: LabelledBlocks, frame: Frame, start: Array) -> BlockFitted:
    found = _minimised(linear, frame, MAX_STEPS, start)
    kinks = _kinks(linear, frame, found)
    gap = found.certificate.relative
    return replace(_look(linear, Point(frame, found.coef, kinks)), gap=gap)


def _minimised(linear: LabelledBlocks, frame: Frame, max_iter: int, start: Array) -> Solution:
    problem = StreamedProblem(linear, frame)  # type: ignore[arg-type]
    return solve(problem, Streamed(), tol=WITH_KINKS, max_iter=max_iter, start=start)


def _kinks(linear: LabelledBlocks, frame: Frame, found: Solution) -> Kinks:
    xp, place = array_namespace(found.coef), device(found.coef)
    held, near = found.streamed.held, found.streamed.near
    if held is None or near is None:
        none = xp.zeros(0, dtype=xp.float64, device=place)
        return Kinks(xp.astype(none, xp.int64), none)
    return Kinks(xp.concat(linear.reduce(_Near(frame, held))["numbers"]), near)


def gap_by_blocks(linear: LabelledBlocks, frame: Frame, coef: Array) -> float:
    """Relative duality gap of coefficients among all functions of the span."""
    if not _size(coef):
        return 0.0
    # no step at all: where there are no kinks this is the certificate of the start
    return _minimised(linear, frame, 0, coef).certificate.relative


def mean_loss(linear: LabelledBlocks, frame: Frame, coef: Array) -> float:
    """Mean loss of rows whose X are their columns."""
    found = linear.reduce(_Loss(frame, coef))
    return float(found["loss"] / found["weight"])
