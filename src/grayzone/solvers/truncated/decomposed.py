r"""Decomposed Newton: a quadratic model far from the kink, exact losses near it.

Rows fall into three parts by their distance r = u - F from the kink: *ignored* (r < -delta: flat
loss), *far* (r > delta: smooth loss, replaced by its second-order model, one weighted
Gram matrix) and *near* (kept exactly, and handed to the interior point). Each outer step

1. builds the model (its Hessian is kept while curvatures hardly change),
2. predicts the step: with the kinks rounded off at first, later with springs that hold the
   rows on the hinge which the last step left there,
3. lets rows join the near ones that would cross the kink, or move too far for their model,
4. solves the mixed problem by the interior point, started from the prediction,
5. searches along the step, reads the partition off, and narrows the band.

Where the near rows are few, principal pivoting takes the place of 2 to 4: it finds which of them
are on the hinge at once, and rows that cross the kink join them for a second try.

With an infinite band it is the plain interior point, with no kink (zone (0, 1)) it is
Newton's method whose few restless rows are treated exactly. Large problems start from the
solution of a part of the rows, others from the solution with rounded kinks; small ones of several
classes treat all kinks exactly at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from grayzone.numerics.columns import along, places
from grayzone.numerics.linalg import add_to_diagonal, descend, factorise
from grayzone.numerics.losses import SmoothedLogistic, TruncatedLogistic, sigmoid
from grayzone.numerics.margins import SignedMargin
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.certificate import State
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.band import first_band, misjudged, outlook, quantile, split
from grayzone.solvers.truncated.interior_point import (
    Inner,
    Quadratic,
    interior_point,
    smooth_newton,
)
from grayzone.solvers.truncated.parabolas import Parabolas
from grayzone.solvers.truncated.pinned import pinned_constant, pinned_sign
from grayzone.solvers.truncated.pivoting import MOST_ROWS, by_pivoting
from grayzone.solvers.truncated.start import WIDTH, closer, first_coef, is_small, is_tiny

Array = Any

_LIVELY = 0.5  # change of a margin from which a second-order model of the loss is too crude
_FEW = 0.05  # misjudged rows, as a share of the near ones, that do not pay another solve
_MANY_STEPS, _FEW_STEPS = 50, 4  # of Newton on near rows; few where many have led to no end
_CENTRAL = 0.25  # first complementarity of the interior point, in widths of the rounding
_INNER = 1e-4  # accuracy of the inner solves, as a share of the decrease to come
_SPARE = 0.5  # share of the gap asked for that a step may leave in rows it has not solved exactly
_PREDICTED = 0.1  # accuracy of a prediction that may do, as a share of the same
# Last decrease, in units of the tolerance, that may be the last; by multipliers of the model.
_WORTH_CERTIFYING, _WORTH_BY_MODEL = 100.0, 2000.0
_NEARLY_ROUNDING = 0.01  # the same of tiny problems, which one more step takes to rounding


@dataclass(frozen=True)
class _Memory:
    """What a step hands to the next."""

    delta: float  # half-width of the near band
    primal: float
    decrease: float = inf
    pinned: Array | None = None  # rows on the hinge; None before the first step
    left: Array | None = None  # rows that the last step misjudged: near ones in the next
    hessian: Array | None = None  # of the last model, where it may serve once more
    idle: int = 0  # steps since the objective last fell by more than rounding
    flat: float = 0.0  # sign of the class that may be pinned as a whole, 0 for none
    rough: bool = False  # whether Newton's steps on the near rows led to no end


class Decomposed:
    """Take Newton steps on rows far from the kink, and an interior point on those near it.

    Parameters
    ----------
    seed : int
        Draws the parts for the start.
    at_once : bool
        Whether to start from the class priors, with all kinks treated exactly.

    See Also
    --------
    solve : Runs it.
    choose : When it is chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.designs import as_design
    >>> from grayzone.numerics.losses import TruncatedLogistic
    >>> from grayzone.numerics.margins import SignedMargin
    >>> from grayzone.solvers import Decomposed, Problem, solve
    >>> X, sign = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.0, 1.0])
    >>> loss = TruncatedLogistic(np.full(4, -1.0))
    >>> problem = Problem(as_design(X), SignedMargin(sign), loss, np.ones(4), penalty=1.0)
    >>> solve(problem, Decomposed(), tol=1e-6, max_iter=200).status.name
    'CONVERGED'
    """

    patience = 25

    def __init__(self, seed: int = 0, at_once: bool = False) -> None:
        self.seed = seed
        self.at_once = at_once

    def init(self, problem: Problem, start: Array | None) -> State:
        """Start from given coefficients, from rounded kinks, or from the class priors."""
        coef = None
        if start is not None:
            coef = closer(problem, start)
        elif not self.at_once:
            coef = first_coef(problem, self.seed)
        blind = coef is None
        if coef is None:
            coef = problem.prior_coef()
        scores = problem.design.scores(coef)
        u = problem.margins.margin(scores)
        band = inf if blind else first_band(problem.loss, u)
        # with rounded kinks, margins on the hinge spread no wider than these are
        flat = 0.0 if blind or start is not None else pinned_sign(problem, u, WIDTH)
        memory = _Memory(band, problem.primal(coef, u), flat=flat)
        return State(coef, scores, u, problem.loss.slope(u), memory=memory)

    def step(self, problem: Problem, state: State, tol: float) -> State:
        """Do one outer step."""
        memory: _Memory = state.memory
        if memory.flat:
            constant = _constant(problem, state, tol)
            if constant is not None:
                return constant
        mixed = _Mixed(problem, state)
        mixed.solve(tol)
        t, primal, scores, u = mixed.search()
        modelled = None
        if t == 1.0 or mixed.enough:
            # the better the point, the smaller the gap, whatever point the multipliers are of
            whole = u if t == 1.0 else problem.margins.margin(state.scores + mixed.scores)
            modelled = mixed.modelled_multipliers(whole)
        multipliers, raw = problem.loss.slope(u) if modelled is None else modelled, None
        near, pinned = mixed.near, None if memory.delta == inf else np.empty(0, dtype=np.intp)
        if near.size:
            raw = near, mixed.multipliers
            rows = mixed.rows
            kinked = mixed.kinked()
            found = read_off(rows, u[near], mixed.multipliers) if kinked else mixed.multipliers
            multipliers[near] = found
            hinge = (multipliers[near] > 0) & (multipliers[near] <= rows.loss.slope_at_floor)
            pinned = near[hinge]
        decrease = memory.primal - primal
        idle = memory.idle + 1 if decrease <= 1e-13 * primal else 0
        delta, steady = outlook(problem.loss, state.u, u, memory.delta, t)
        worth = _WORTH_CERTIFYING if modelled is None else _WORTH_BY_MODEL
        worth = _NEARLY_ROUNDING if is_tiny(problem) else worth
        kept = steady and memory.hessian is None and not is_small(problem)
        return State(
            state.coef + t * mixed.change,
            scores,
            u,
            multipliers,
            touched=near if modelled is None else None,
            raw=raw,
            settled=mixed.exact or decrease <= worth * tol * primal,
            stalled=memory.delta == inf and idle > 1,
            value=primal,
            memory=_Memory(
                # the objective is there and the multipliers are not: all rows exactly, at last
                inf if idle > 2 else delta,
                primal,
                decrease,
                pinned,
                mixed.left,
                mixed.hessian if kept else None,
                idle,
                rough=mixed.rough,
            ),
        )


class _Mixed:
    """Quadratic model of the far rows, exact losses of the near ones, and their minimiser."""

    def __init__(self, problem: Problem, state: State) -> None:
        memory: _Memory = state.memory
        self.problem, self.state, self.memory = problem, state, memory
        joined = [rows for rows in (memory.pinned, memory.left) if rows is not None]
        self.near, far = split(problem.loss, state.u, memory.delta, *joined)
        self.exact = not far.size
        self.parabolas: Parabolas | None = None  # of far rows at these margins, where worth it
        if memory.hessian is None and _is_plain(problem) and not is_small(problem):
            self.parabolas = Parabolas.of(problem, state.u, far)
            H, g = self.parabolas.second_order(problem)
        else:
            H, g = self._second_order(far, memory.hessian)
        if memory.hessian is None:
            add_to_diagonal(H, problem.ridge())
        self.hessian = H
        self.model = Quadratic(H, g + problem.shrinkage(state.coef))
        self.width = max(memory.delta, 1e-8)  # of the kinks where they are made smooth
        self.multipliers: Array | None = None
        self.rough = False
        self.enough = False  # whether what is not solved exactly adds little to the gap
        self._carried: Array | None = None  # the change that ``scores`` belong to
        self._taken: tuple[Array, Problem] | None = None

    def _second_order(self, rows: Array, hessian: Array | None = None) -> tuple[Array, Array]:
        """Hessian and gradient of the smooth losses of these rows; a given Hessian is kept."""
        problem, u = self.problem, self.state.u[rows]
        w, scores = problem.weight[rows], self.state.scores[rows]
        slope, bend = problem.loss.take(rows).slopes(u)
        if hessian is None:
            return problem.second_order(scores, w * bend, w * slope, w * slope, rows)
        a = np.zeros(problem.design.n_rows)
        a[rows] = slope
        return hessian, problem.gradient(self.state.scores, a)

    def modelled_multipliers(self, u: Array) -> Array | None:
        """Multipliers that the model has at the margins after its step, but for near rows.

        None where the model is not that of parabolas at the last margins.
        """
        if self.parabolas is None:
            return None
        return self.parabolas.multipliers(self.problem, u, self.scores[:, 0])

    def solve(self, tol: float) -> None:
        """Predict the step, let misjudged rows join the near ones, and minimise."""
        if self._pivot():
            return
        promised, spare = self._predict(), _SPARE * tol * self.memory.primal
        tol = _inner_tol(self.memory, tol, promised, exact=self.exact)
        # where the last Hessian still serves, rows hardly move: a look after the step will do
        looked = self.memory.delta < inf and self.memory.hessian is None
        if looked:
            self._propagate()
            self._join(self._misjudged())
        if self.kinked():
            if looked and self.memory.pinned is None:
                self._predict_restless(max(tol, _PREDICTED * spare))
                self.enough = self._is_enough(spare)
                if self.enough:
                    return
            self._minimise(tol)
        elif self.near.size:
            self._predict_restless(tol)
        self._propagate()
        self.left = self._misjudged()
        # a few rows are better left to the next step than paid for by another solve
        if self.left.size > _FEW * self.near.size:
            self.enough = self._near_cost() + self._left_cost() <= spare
            if self.enough:
                return
            self._join(self.left)
            (self._minimise if self.kinked() else self._predict_restless)(tol)
            self._propagate()
            self.left = self._misjudged()

    def _is_enough(self, spare: float) -> bool:
        """Whether a prediction, with kinks rounded off, leaves no more than that of the gap."""
        cost = self._near_cost()
        if cost > spare:
            return False
        self._propagate()
        self.left = self._misjudged()
        return cost + self._left_cost() <= spare

    def _near_cost(self) -> float:
        """Fenchel-Young losses of the near rows after the step.

        With multipliers of the models, which leave no force on the coefficients, such losses are
        all of the gap.
        """
        if not self.near.size:
            return 0.0
        rows = self.rows
        u = rows.margins.margin(self.state.scores[self.near] + rows.design.scores(self.change))
        return float(rows.weight @ rows.loss.fenchel_young(u, self.multipliers))

    def _left_cost(self) -> float:
        """Return the same of the misjudged rows."""
        if self.parabolas is None:
            return inf
        problem, rows = self.problem, self.left
        u = problem.margins.margin(self.state.scores + self.scores)
        a = self.parabolas.of_rows(rows).multipliers(problem, u, self.scores[:, 0])
        loss = problem.loss.take(rows)
        return float(problem.weight[rows] @ loss.fenchel_young(u[rows], a[rows]))

    def _pivot(self) -> bool:
        """Minimise with the losses of few near rows in two pieces; whether that was possible."""
        if self.memory.delta == inf or not self.kinked():
            return False
        guess = self._guess()
        for last in (False, True):
            inner = self._pivoted(guess)
            if inner is None:
                return False
            self.change, self.multipliers = inner.change, inner.multipliers
            self._propagate()
            # all rows are modelled by parabolas here, lively ones too
            self.left = self._misjudged(lively=False)
            if last or self.left.size <= _FEW * self.near.size:
                break
            self._join(self.left)
            # rows that cross may well stay on the kink
            crossing = 0.5 * self.problem.loss.slope_at_floor[self.left]
            guess = np.concatenate([inner.multipliers, crossing])
        return True

    def _pivoted(self, guess: Array | None) -> Inner | None:
        if self.near.size > MOST_ROWS:
            return None
        return by_pivoting(self.rows, self.model, self.state.scores[self.near], guess)

    @property
    def rows(self) -> Problem:
        """The near rows."""
        if self._taken is None or self._taken[0] is not self.near:
            self._taken = self.near, self.problem.take(self.near)
        return self._taken[1]

    def kinked(self) -> bool:
        """Whether the near rows have kinks; they all have or none has."""
        return bool(self.near.size) and bool(np.isfinite(self.problem.loss.floor[self.near[0]]))

    def _propagate(self) -> None:
        """Carry the change of the coefficients to the scores of all rows, one pass over them."""
        if self._carried is not self.change:
            self.scores = self.problem.design.scores(self.change)
            self._carried = self.change

    def _predict(self) -> float:
        """Set a first change of the coefficients: a Newton step with the near kinks made smooth.

        Gives the decrease that it promises.
        """
        model = self.model
        if self.memory.delta == inf and self.near.size:
            self.change = np.zeros_like(self.state.coef)
            return self.memory.primal
        if self.near.size:
            rows, scores = self.rows, self.state.scores[self.near]
            slope, bend = self._smooth_slopes(rows)
            w, pull = rows.weight, rows.weight * slope
            # springs may push, but a margin that is curved itself is convex under a pull alone
            H, g = rows.second_order(scores, w * bend, np.maximum(pull, 0.0), pull)
            model = Quadratic(model.hessian + H, model.gradient + g)
        z = -factorise(model.hessian)(model.gradient.ravel())
        self.change = z.reshape(self.state.coef.shape)
        return -0.5 * float(model.gradient.ravel() @ z)

    def _smooth_slopes(self, rows: Problem) -> tuple[Array, Array]:
        """Slopes and curvatures of near rows without their kinks.

        Rows that the last step left on the hinge have a multiplier, and a spring to the kink;
        the others are on their own side of it. Before the first step all kinks are rounded off.
        """
        u = self.state.u[self.near]
        if self.memory.pinned is None:
            return SmoothedLogistic(rows.loss, self.width).slopes(u)
        slope, bend = rows.loss.slopes(u)
        hinge = self._pinned()
        stiff = rows.loss.slope_at_floor[hinge] / self.width
        held = self.state.multipliers[self.near[hinge]]
        slope[hinge] = held + stiff * (u - rows.loss.floor)[hinge]
        bend[hinge] = stiff
        return slope, bend

    def _pinned(self) -> Array:
        """Which of the near rows the last step left on the hinge."""
        assert self.memory.pinned is not None
        pinned = np.zeros(self.problem.design.n_rows, dtype=bool)
        pinned[self.memory.pinned] = True
        return pinned[self.near]

    def _guess(self) -> Array | None:
        """Multipliers of near rows that the last step left on the hinge, NaN for others."""
        if self.memory.pinned is None:
            return None
        return np.where(self._pinned(), self.state.multipliers[self.near], np.nan)

    def _predict_restless(self, tol: float) -> None:
        """Predict again, with as many Newton steps as the rows need that one was too crude for."""
        rows, scores = self.rows, self.state.scores[self.near]
        kinked = self.kinked()
        if kinked:
            moved = rows.margins.push(scores, self.scores[self.near])
            self.width = max(self.width, quantile(np.abs(moved), 0.9))
            rows = replace(rows, loss=SmoothedLogistic(rows.loss, self.width))
        # with kinks this is only where the interior point starts from
        limit = _FEW_STEPS if kinked or self.memory.rough else _MANY_STEPS
        inner = smooth_newton(rows, self.model, scores, tol=tol, max_iter=limit)
        self.rough = not kinked and not inner.converged
        self.change, self.multipliers = inner.change, inner.multipliers

    def _join(self, rows: Array) -> None:
        """Make rows exact that the model misjudged; take them out of the model."""
        if not rows.size:
            return
        leaving = rows[self.state.u[rows] > self.problem.loss.floor[rows]]
        if leaving.size:
            H, g = self._second_order(leaving)
            # a kept Hessian is of other margins: what is taken off it might not be in it
            kept = self.memory.hessian is not None
            hessian = self.model.hessian if kept else self.model.hessian - H
            self.model = Quadratic(hessian, self.model.gradient - g)
        self.near = np.concatenate([self.near, rows])

    def _minimise(self, tol: float) -> None:
        inner = interior_point(
            self.rows,
            self.model,
            self.state.scores[self.near],
            tol=tol,
            start=self.change,
            guess=self._guess(),
            tau=min(1.0, _CENTRAL * self.width),
        )
        self.change, self.multipliers = inner.change, inner.multipliers

    def _misjudged(self, lively: bool = True) -> Array:
        """Rows not near that cross the kink, or move too far for their second-order model."""
        loss, moved = self.problem.loss, self.problem.margins.push(self.state.scores, self.scores)
        # the interior point wants floors, and the smooth Newton method wants none
        most = self._lively(moved) if lively and loss.is_alike else inf
        wrong = misjudged(loss, self.state.u, moved, most)
        wrong[self.near] = False
        return places(wrong, loss.is_loaded)

    def _lively(self, moved: Array) -> float:
        """Return how far a row has to move to be treated exactly: no more than some, if dear."""
        design = self.problem.design
        if not design.exact_is_dear or moved.size <= 2 * design.n_coef:
            return _LIVELY
        return max(_LIVELY, quantile(np.abs(moved), 1.0 - design.n_coef / moved.size))

    def search(self) -> tuple[float, float, Array, Array]:
        """Step length along the change, the objective there, the scores and their margins."""
        problem, state = self.problem, self.state
        last: tuple[float, Array, Array] = 0.0, state.scores, state.u

        def value(t: float) -> float:
            nonlocal last
            scores = along(state.scores, self.scores, t, problem.design.is_loaded)
            last = t, scores, problem.margins.margin(scores)
            return problem.primal(state.coef + t * self.change, last[2])

        t, primal = descend(value, -self._promised(), self.memory.primal)
        if t == 0.0:
            return t, primal, state.scores, state.u
        assert last[0] == t
        return t, primal, *last[1:]

    def _promised(self) -> float:
        """Decrease that the mixed model promises; the search asks for a share of it."""
        z = self.change.ravel()
        value = float(self.model.gradient.ravel() @ z + 0.5 * z @ self.model.hessian @ z)
        if self.near.size:
            rows = self.rows
            after = rows.margins.margin(self.state.scores[self.near] + self.scores[self.near])
            gain = rows.loss.value(after) - rows.loss.value(self.state.u[self.near])
            value += float(np.sum(rows.weight * gain))
        return -value


def _is_plain(problem: Problem) -> bool:
    """Whether there are two classes, and nothing stands in for their losses."""
    return isinstance(problem.margins, SignedMargin) and type(problem.loss) is TruncatedLogistic


def _constant(problem: Problem, state: State, tol: float) -> State | None:
    """Try the constant with all rows of a class on the hinge."""
    memory = replace(state.memory, flat=0.0)
    found = pinned_constant(problem, state.memory.flat, tol)
    if found is None:
        return None
    value = problem.primal(found.coef, found.u, found.scores)
    memory = replace(memory, primal=value, decrease=memory.primal - value)
    return State(
        found.coef,
        found.scores,
        found.u,
        found.multipliers,
        touched=found.rows,
        value=value,
        memory=memory,
    )


def _inner_tol(memory: _Memory, tol: float, promised: float, exact: bool) -> float:
    """Accuracy asked of the interior point: all there is where nothing else is approximate."""
    if exact:
        return 1e-13 * memory.primal
    # where the objective no longer falls, what is wanted are better multipliers
    finest = (1e-6 if memory.idle else 1e-4) * tol * memory.primal
    coming = max(0.0, min(promised, memory.decrease, memory.primal))
    return max(finest, _INNER * coming)


def read_off(rows: Problem, u: Array, a: Array) -> Array:
    """Multipliers with the partition read off: 0 where saturated, the slope where logarithmic.

    Keeping a multiplier a off the kink costs the gap about a |u - F|, dropping it about
    a^2 w |x|^2 / lambda, its own quadratic part of the dual; the cheaper of the two is done.
    """
    xp = array_namespace(u)
    loss = rows.loss
    own = rows.weight * rows.design.row_squares() / rows.penalty
    r = u - loss.floor
    slope = sigmoid(u)
    a = xp.where(-r > a * own, 0.0, xp.minimum(a, xp.maximum(loss.slope_at_floor, slope)))
    return xp.where((r > 0) & (r > (slope - a) * own), slope, a)
