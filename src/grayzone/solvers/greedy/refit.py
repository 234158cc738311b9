"""The optimum on the span of the chosen points, and what the next choice needs to know of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

from array_api_compat import device

from grayzone.numerics.linalg import descend, factorise
from grayzone.numerics.losses import SmoothedLogistic, softplus
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.solvers.greedy.criterion import (
    MAX_STEPS,
    Criterion,
    Multipliers,
    gap_without_kinks,
    minimise_with_kinks,
)
from grayzone.solvers.greedy.many import second_order
from grayzone.solvers.greedy.span import Spanned
from grayzone.solvers.loop import MOST_SILENT
from grayzone.solvers.problem import Problem
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

ACCURACY = 1e-8  # decrease that a Newton step may still promise, relative to the objective
# A kink has no curvature of its own; to say what a step would cost, it is taken as rounded by so
# much, in log-odds.
_ROUNDED = 0.25
_PATIENCE = 3  # steps in a row that gain less than the accuracy, whatever they promised
# Factor by which a step's promise has to shrink before duality is asked again if it is hopeless.
_CLOSER = 0.1
# Floating-point operations of the time that a reading of few rows takes; and such times that one
# takes of arrays of other libraries than NumPy, and of blocks, whose columns are computed again.
_SMALL, _ELSEWHERE, _IN_BLOCKS = 5e5, 6.0, 10.0
_LEAST_BEND = 1e-6
_IN_SCORES = "derivatives in the scores"  # what is kept of them


@dataclass
class Effort:
    """Work of refits so far, counted and not timed: a busy machine chooses the same points.

    The unit is a reading of few rows, about a quarter of a millisecond.
    """

    most: float = inf
    spent: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether there was enough of it."""
        return self.spent >= self.most

    def add(self, labelled: Labelled, coef: Array, times: float = 1.0) -> None:
        """Count readings of rows that give second derivatives in these coefficients."""
        Q, p = coef.shape
        products = labelled.n_rows * p * p * Q * (Q + 1) + (Q * p) ** 3 / 3.0
        slower = 1.0 if is_numpy_array(coef) else _ELSEWHERE
        slower = slower if labelled.held is not None else _IN_BLOCKS
        self.spent += times * (slower + products / _SMALL)


class Derivatives(NamedTuple):
    """Margins of rows, and the first two derivatives of their losses in them."""

    scores: Array
    u: Array
    slope: Array
    bend: Array


@dataclass(frozen=True)
class Point:
    """A function on the span: what a task needs to know of it."""

    criterion: Criterion
    coef: Array  # (Q, p), the intercept last
    multipliers: Multipliers | None = None  # None: no loss has a kink

    def derivatives(self, rows: Rows, phi: Array) -> tuple[Problem, Derivatives]:
        """Problem and derivatives of rows that have these columns; kept where rows are held."""
        problem = self.criterion.on_span(rows, phi)
        return problem, rows.state("derivatives", self, lambda: self._computed(problem, rows))

    def _computed(self, problem: Problem, rows: Rows) -> Derivatives:
        scores = problem.design.scores(self.coef)
        u = problem.margins.margin(scores)
        if self.multipliers is None:
            return Derivatives(scores, u, *problem.loss.slopes(u))
        bend = SmoothedLogistic(problem.loss, _ROUNDED).curvature(u)
        # where all rows are saturated nothing would hold a step back
        bend = array_namespace(u).clip(bend, min=_LEAST_BEND)
        return Derivatives(scores, u, self.multipliers.put(problem.loss.slope(u), rows.first), bend)

    def in_scores(self, rows: Rows, phi: Array) -> tuple[Array, Array]:
        """Gradient (n, Q) and second derivatives (n, pairs of outputs) in the scores; kept, too."""

        def compute() -> tuple[Array, Array]:
            problem, (scores, _, slope, bend) = self.derivatives(rows, phi)
            margins, first = problem.margins, problem.weight * slope
            second = margins.second_order(scores, problem.weight * bend, first)
            return margins.pull(scores, first), second

        return rows.state(_IN_SCORES, self, compute)

    def keep(self, rows: Rows, residual: Array, weights: Array) -> None:
        """Keep the gradient and the second derivatives in the scores of rows that are held."""
        rows.state(_IN_SCORES, self, lambda: (residual, weights))


@dataclass(frozen=True)
class _Model:
    """Loss, gradient and Hessian of rows in the coefficients."""

    point: Point
    many: bool = False  # whether compiled loops are worth their loading

    def __call__(self, rows: Rows, phi: Array) -> Sums:
        found = self._compiled(rows, phi) if self.many else None
        if found is not None:
            return found
        problem, (scores, u, slope, bend) = self.point.derivatives(rows, phi)
        w = problem.weight
        first = w * slope
        H, g = problem.second_order(scores, w * bend, first, first)
        loss = problem.weighted_sum(lambda part: problem.loss.take(part).value(u[part]))
        return {"loss": loss, "hessian": H, "gradient": g}

    def _compiled(self, rows: Rows, phi: Array) -> Sums | None:
        """The same by compiled loops; None for what these have no part in."""
        criterion, coef = self.point.criterion, self.point.coef
        if not (criterion.is_plain and coef.shape[1]):
            return None
        found = second_order(criterion.on_span(rows, phi), coef)
        if found is None:
            return None
        self.point.keep(rows, found.residual, found.weights)
        return {"loss": found.loss, "hessian": found.hessian, "gradient": found.gradient}


@dataclass(frozen=True)
class Fitted:
    """The optimum on the span, with the first two derivatives of the criterion there."""

    point: Point
    objective: float
    hessian: Array  # (Qp, Qp)
    gradient: Array  # (Q, p)
    known_gap: float | None = None  # relative duality gap on the span, where it is known already

    @property
    def coef(self) -> Array:
        """Coefficients (Q, p)."""
        return self.point.coef

    @cached_property
    def solve(self) -> Callable[[Array], Array]:
        """Function that solves systems with the Hessian."""
        return factorise(self.hessian) if self.hessian.shape[0] else lambda r: r

    def gap(self, spanned: Spanned) -> float:
        """Relative duality gap among all functions of the span."""
        if self.known_gap is not None:
            return self.known_gap
        return gap_without_kinks(spanned, self.point.criterion, self.coef)

    def gap_ahead(self, spanned: Spanned) -> float:
        """The same by the multipliers of a Newton step further on, of losses without kinks.

        Next to no penalty makes much of the little force that is left where steps gain nothing.
        """
        criterion, coef = self.point.criterion, self.coef
        xp = array_namespace(coef)
        ahead = coef - xp.reshape(self.solve(xp.reshape(self.gradient, (-1,))), coef.shape)
        there = Reading(spanned, criterion, coef)(Point(criterion, ahead)).objective
        dual = there * (1.0 - gap_without_kinks(spanned, criterion, ahead))
        return max(0.0, 1.0 - dual / self.objective)


def refit(
    spanned: Spanned,
    criterion: Criterion,
    start: Array,
    above: float = inf,
    nothing: float = 0.0,
    effort: Effort | None = None,
) -> Fitted | None:
    """Minimise from start coefficients; None once the minimum is known to be ``above`` that.

    Parameters
    ----------
    spanned : Spanned
        Rows with their columns.
    criterion : Criterion
        Losses and penalty.
    start : array of shape (Q, p)
        Start coefficients.
    above : float
        What the minimum has to be below of.
    nothing : float
        A criterion below which nothing is left to gain.
    effort : Effort or None
        Counts the work, where somebody asks.

    Returns
    -------
    fitted : Fitted or None
        The optimum.
    """
    look = Reading(spanned, criterion, start, effort)
    if not start.shape[1]:
        return look(Point(criterion, start))
    if criterion.has_kinks:
        return _with_kinks(look, criterion, start, above)
    here, xp, idle = look(Point(criterion, start)), array_namespace(start), 0
    asked = inf  # what was promised when duality was last asked
    for _ in range(MAX_STEPS):
        change = xp.reshape(-here.solve(xp.reshape(here.gradient, (-1,))), start.shape)
        promised = -float(xp.sum(here.gradient * change))
        if promised <= ACCURACY * here.objective:
            break
        if here.objective - promised > above and promised <= _CLOSER * asked:
            asked = promised
            look.count()
            if here.objective * (1.0 - here.gap(spanned)) > above:
                return None
        after = _downhill(look, here, change, promised)
        if after is None:
            break
        gained = here.objective - after.objective
        much = gained > ACCURACY * here.objective and after.objective > nothing
        idle, here = 0 if much else idle + 1, after
        if idle >= _PATIENCE:
            break
    return here


def _with_kinks(look: Reading, criterion: Criterion, start: Array, above: float) -> Fitted | None:
    """Minimise where losses have kinks; the start stays where that did not lead below it."""
    coef, multipliers, reached, work = minimise_with_kinks(look.spanned, criterion, start, above)
    look.count(work)
    if reached.primal - reached.gap > above:
        return None
    gap = reached.relative
    found = replace(look(Point(criterion, coef, multipliers)), known_gap=gap)
    if gap <= MOST_SILENT:
        return found
    xp, none = array_namespace(start), start[0, :0]
    before = look(Point(criterion, start, Multipliers(none, xp.astype(none, xp.int64))))
    if not before.objective < found.objective:
        return found
    # no loss is below its floor: a bound that knows of no rounding
    labelled = look.spanned.labelled
    least = float((labelled.mass * labelled.factors) @ softplus(criterion.floors))
    return replace(before, known_gap=max(1.0 - least / before.objective, 0.0))


class Reading:
    """Readings of the rows: each gives all that the next step asks for, so one a step will do."""

    def __init__(
        self, spanned: Spanned, criterion: Criterion, like: Array, effort: Effort | None = None
    ) -> None:
        xp, self.spanned, self.penalty = array_namespace(like), spanned, criterion.penalty
        self.size, self._like = spanned.span.size, like
        self._effort = Effort() if effort is None else effort
        self.ridge = xp.zeros_like(like)
        self.ridge[:, : self.size] = self.penalty
        n_coef = like.shape[0] * like.shape[1]
        eye = xp.eye(n_coef, dtype=like.dtype, device=device(like))
        self.curvature = eye * xp.reshape(self.ridge, (-1,))

    def count(self, times: float = 1.0) -> None:
        """Count work that takes as long as so many readings."""
        self._effort.add(self.spanned.labelled, self._like, times)

    def __call__(self, point: Point) -> Fitted:
        """Read the criterion and its derivatives at a point."""
        self.count()
        sums, coef = self.spanned.reduce(_Model(point, self.spanned.are_many)), point.coef
        slopes = coef[:, : self.size]
        norm = float(array_namespace(coef).sum(slopes * slopes))
        objective = sums["loss"] + 0.5 * self.penalty * norm
        hessian = sums["hessian"] + self.curvature
        return Fitted(point, objective, hessian, sums["gradient"] + self.ridge * coef)


def _downhill(look: Reading, here: Fitted, change: Array, promised: float) -> Fitted | None:
    """Look where a step leads, and shorten it where it leads nowhere."""
    seen: dict[float, Fitted] = {}

    def value(t: float) -> float:
        seen[t] = look(replace(here.point, coef=here.coef + t * change))
        return seen[t].objective

    t, _ = descend(value, -promised, here.objective)
    return seen[t] if t > 0.0 else None
