"""One step of a streamed fit: the model of the far rows with the losses of the near ones.

Rows that are far from the kink are in the model by their Hessian and their gradient; those near it
have their losses, kinks included, and so have rows that a step would misjudge.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grayzone.numerics.linalg import factorise, with_diagonal
from grayzone.numerics.losses import SmoothedLogistic
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.interior_point import (
    Inner,
    Quadratic,
    interior_point,
    smooth_newton,
)
from grayzone.solvers.truncated.readings import (
    LIVELY,
    Held,
    Lengths,
    Misjudged,
    misjudged,
    near_kink,
)
from grayzone.sources.gather import Gathered, gather

if TYPE_CHECKING:
    from grayzone.solvers.truncated.streamed import StreamedProblem, StreamedState

Array = Any

NEARLY = 0.9  # share of a decrease that is nearly all of it
FIRST_HELD = 0.75  # of the rows that can be held, after rounded kinks: others will join
LAST_INNER = 0.1  # accuracy of the last inner solves, in units of the tolerance

_FIRST_INNER = 100.0  # that of the first one after rounded kinks
_INNER = 1e-4  # accuracy of inner solves elsewhere, as a share of the decrease to come
_CENTRAL = 0.25  # first complementarity of the interior point, in widths of the rounding
_NO_ROOM = 0.01  # share of the rows that can be held up to which others cannot join
_JOINS = 2  # times that misjudged rows may join the near ones in a step


class Step(NamedTuple):
    """A change of the coefficients, what it promises, and multipliers of the rows it held."""

    change: Array
    promised: float
    near: Problem | None = None
    multipliers: Array | None = None
    held: Held | None = None


class Model:
    """The model of the far rows and the losses of the near ones, and their minimiser."""

    def __init__(self, problem: StreamedProblem, state: StreamedState, tol: float) -> None:
        self.problem, self.state, self.tol, self.spec = problem, state, tol, problem.spec

    def step(self) -> Step:
        """Minimise. Rows that the step misjudges are then treated exactly, and it is taken anew."""
        problem, state, spec = self.problem, self.state, self.spec
        xp, sums = array_namespace(state.coef), state.sums
        H = with_diagonal(sums["hessian"], xp.reshape(problem.ridge(state.coef), (-1,)))
        g = sums["gradient"] + problem.shrinkage(state.coef)
        if spec.has_kinks and "near" not in sums:
            H, g = H + sums["rounded_hessian"], g + sums["rounded_gradient"]
            return _newton_step(H, g)._replace(held=Held(state.coef, state.band, rounded=True))
        near = problem.gathered(sums.get("near", []))
        held = Held(state.coef, state.band, spec.is_uniform)
        step = self._solved(near, Quadratic(H, g), held, None)
        if spec.features is not None and not spec.has_kinks:
            return step  # exact rows are dear: another reading of all of them costs less
        for _ in range(_JOINS):
            least = self._least_misjudged(step.change, held, near.numbers.shape[0])
            if least is None or self._keeps_promise(step):
                break
            wrong = problem.labelled.reduce(Misjudged(spec, held, step.change, least))
            joined = problem.gathered(wrong["joined"])
            if not joined.numbers.shape[0]:
                break
            held = held._replace(changes=(*held.changes, (step.change, least)))
            near = _merged(near, joined)
            H, g = H - wrong["hessian"], g - wrong["gradient"]
            step = self._solved(near, Quadratic(H, g), held, step.change)
        return step

    def _keeps_promise(self, step: Step) -> bool:
        """Whether a step gains nearly what it promises, where a look costs less than a solve."""
        if not self.problem.rounded_first:
            return False
        found = gained(self.problem, self.state, step, (1.0,))[0]
        return bool(found >= NEARLY * step.promised)

    def _least_misjudged(self, change: Array, held: Held, n_near: int) -> float | None:
        """By how much a row has to be misjudged to join: so much that these are not too many.

        None where rows move so little that none can be, by the sample; or, once rows have joined,
        where the sample has no other one that is.
        """
        sample, spec = self.problem.sample, self.spec
        if sample is None:
            return None
        xp = array_namespace(change)
        scores = sample.design.scores(self.state.coef)
        moved = sample.design.scores(change)
        most = float(xp.max(xp.abs(sample.margins.push(scores, moved))))
        if most <= 0.1 * LIVELY and not (spec.has_kinks and most > 0.5 * self.state.band):
            return None
        amount = misjudged(sample, scores, moved, spec.is_uniform)
        if held.changes:
            others = (amount > 0) & ~near_kink(sample, held, scores)
            if not bool(xp.any(others)):
                return None
        room = 0.5 * self.problem.most
        if self.problem.rounded_first:  # systems of more rows than coefficients are dear
            room = min(room, self.problem.most - n_near)
            if room <= _NO_ROOM * self.problem.most:
                return None
        return quantile(amount, 1.0 - min(1.0, room / self.problem.labelled.n_rows))

    def _solved(self, near: Gathered, model: Quadratic, held: Held, start: Array | None) -> Step:
        if near.numbers.shape[0] == 0:
            return _newton_step(*model)
        rows, state = self._exactly(near), self.state
        scores = rows.design.scores(state.coef)
        tol = min(1e-13, max(1e-2 * self.tol, 1e-16)) * state.value
        if state.sums["n_far"] > 0:
            coming = min(state.decrease, state.value)
            tol = max(1e-6 * self.tol * state.value, _INNER * coming)
            if self.problem.rounded_first:
                share = LAST_INNER if isfinite(state.decrease) else _FIRST_INNER
                tol = min(tol, share * self.tol * state.value)
        if not self.spec.has_kinks:
            inner = smooth_newton(rows, model, scores, tol=tol)
        else:
            inner = self._mixed(rows, model, scores, tol, start)
        promised = _model_decrease(model, rows, scores, inner.change, inner.scores)
        return Step(inner.change, promised, rows, inner.multipliers, held)

    def _exactly(self, near: Gathered) -> Problem:
        """The near rows as a problem of their own, their features at hand where these fit."""
        rows = self.spec.exactly.problem(near.rows)
        kept = getattr(rows.design, "kept", None)
        return rows if kept is None else replace(rows, design=kept)

    def _mixed(
        self, near: Problem, model: Quadratic, scores: Array, tol: float, start: Array | None
    ) -> Inner:
        """Solve with the kinks of the near rows, from where rounded kinks lead."""
        band = self.state.band
        if not isfinite(band):
            return interior_point(near, model, scores, tol=tol)
        width = max(band, 1e-8)
        if start is not None and not self.problem.rounded_first:  # rows joined, from anywhere
            return interior_point(near, model, scores, tol=tol, start=start)
        tau = min(1.0, _CENTRAL * width)
        if self.problem.rounded_first:
            return interior_point(near, model, scores, tol=tol, tau=tau)
        smooth = replace(near, loss=SmoothedLogistic(near.loss, width))
        start = smooth_newton(smooth, model, scores, tol=tol).change
        return interior_point(near, model, scores, tol=tol, start=start, tau=tau)


def gained(
    problem: StreamedProblem, state: StreamedState, step: Step, lengths: tuple[float, ...]
) -> Array:
    """Decrease of the objective by some lengths of a step, a NumPy array."""
    look = Lengths(problem.spec, state.coef, step.change, lengths)
    losses = problem.labelled.reduce(look)["losses"]
    coefs = (state.coef + t * step.change for t in lengths)
    values = losses + [0.5 * problem.penalty * problem.square(coef) for coef in coefs]
    return state.value - np.where(np.isfinite(values), values, np.inf)


def _merged(near: Gathered, joined: Gathered) -> Gathered:
    """Both sets of rows, in their order among all."""
    both = gather([near, joined], near.numbers, 0) if near.numbers.shape[0] else joined
    order = array_namespace(both.numbers).argsort(both.numbers)
    return Gathered(both.rows.take(order), array_namespace(order).take(both.numbers, order))


def _newton_step(H: Array, g: Array) -> Step:
    xp = array_namespace(g)
    change = xp.reshape(-factorise(H)(xp.reshape(g, (-1,))), g.shape)
    return Step(change, -0.5 * float(xp.sum(g * change)))


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


def quantile(values: Array, share: float) -> float:
    """Quantile of values, 0 of none; array libraries know no other than by sorting."""
    n = values.shape[0]
    if n == 0:
        return 0.0
    return float(array_namespace(values).sort(values)[min(n - 1, int(share * n))])
