r"""Decomposed Newton: a quadratic model far from the kink, an interior point near it.

Rows fall into three parts by their distance r = u - F from the kink: *ignored* (r < -delta: flat
loss), *far* (r > delta: smooth loss, replaced by its second-order model, one weighted
Gram matrix) and *near* (a few per cent: kept exactly and handed to the interior point). Each
outer step solves that mixed model, lets rows which would cross the kink join the near ones,
searches along the step, and narrows the band. With an infinite band it is the plain
interior point, with no kink (zone (0, 1)) it is Newton's method.

Large problems start from the solution of a stratified part of the rows, recursively.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from grayzone.losses import sigmoid
from grayzone.solvers._linalg import descend, factorise
from grayzone.solvers._loop import solve
from grayzone.solvers._problem import Problem, State
from grayzone.solvers._start import prior_coef
from grayzone.solvers.interior_point import Inner, Quadratic, interior_point

Array = Any

_PART = 5  # a level holds this share of the rows of the next
_MIN_ROWS = 1500  # fewer rows are solved outright
_NEAR_SHARE = 0.02  # rows in the first band after a start from a part


@dataclass(frozen=True)
class _Band:
    """Half-width of the near band, and what the last step looked like."""

    delta: float
    primal: float
    decrease: float = inf


class Decomposed:
    """The solver; ``seed`` draws the parts for the start."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def init(self, problem: Problem, start: Array | None) -> State:
        """Start from given coefficients, from a part of the rows, or from the class priors."""
        coef = start
        if coef is None:
            coef = self._from_part(problem)
        rough = coef is None
        if coef is None:
            coef = prior_coef(problem)
        scores = problem.design.scores(coef)
        u = problem.margins.margin(scores)
        delta = inf if rough else _first_band(problem, u)
        band = _Band(delta, problem.primal(coef, u))
        return State(coef, scores, problem.loss.slope(u), memory=band)

    def _from_part(self, problem: Problem) -> Array | None:
        rows = _stratified(problem, self.seed)
        if rows is None:
            return None
        share = float(np.sum(problem.weight[rows]) / np.sum(problem.weight))
        part = problem.take(rows, penalty=problem.penalty * share)
        found = solve(part, Decomposed(self.seed + 1), tol=1e-3, max_iter=4)
        return found.coef

    def step(self, problem: Problem, state: State, tol: float) -> State:
        """Do one outer step."""
        band: _Band = state.memory
        u = problem.margins.margin(state.scores)
        near, far = _split(problem, u, band.delta)
        model = _far_model(problem, state, u, far)
        inner_tol = _inner_tol(band, tol, exact=not far.size)
        near, inner, change, scores = _mixed_step(
            problem, state, u, near, far, model, band.delta, inner_tol
        )
        promised = _promised(problem, model, u, near, inner, change)
        t, primal = _search(problem, state, change, scores, promised, band.primal)
        coef = state.coef + t * change
        scores_new = state.scores + t * scores
        u_new = problem.margins.margin(scores_new)
        moved = np.abs(u_new - u)
        multipliers, raw = problem.loss.slope(u_new), None
        if near.size:
            raw = multipliers.copy()
            raw[near] = inner.multipliers
            multipliers[near] = read_off(problem.take(near), u_new[near], inner.multipliers)
        delta = _next_band(band.delta, t, moved)
        return State(
            coef,
            scores_new,
            multipliers,
            memory=_Band(delta, primal, band.primal - primal),
            stalled=t == 0.0 and band.delta == inf,
            raw=raw,
        )


def _stratified(problem: Problem, seed: int) -> Array | None:
    """Rows of a part that keeps the share of each class; None when it would be too small."""
    n = problem.design.n_rows
    if n // _PART < max(_MIN_ROWS, 20 * problem.design.n_coef):
        return None
    codes = problem.margins.codes
    rng = np.random.default_rng(seed)
    chosen = []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        keep = min(len(rows), max(len(rows) // _PART, 50))
        chosen.append(rng.choice(rows, keep, replace=False))
    return np.sort(np.concatenate(chosen))


def _first_band(problem: Problem, u: Array) -> float:
    distance = np.abs(u - problem.loss.floor)
    distance = distance[:: max(1, distance.size // 20_000)]
    distance = distance[np.isfinite(distance)]
    return float(np.quantile(distance, _NEAR_SHARE)) if distance.size else 0.0


def _split(problem: Problem, u: Array, delta: float) -> tuple[Array, Array]:
    """Near and far rows; rows without a kink are far."""
    floor = problem.loss.floor
    if delta == inf:
        bounded = np.isfinite(floor)
        return np.flatnonzero(bounded), np.flatnonzero(~bounded)
    r = u - floor
    return np.flatnonzero(np.abs(r) <= delta), np.flatnonzero(r > delta)


def _far_model(problem: Problem, state: State, u: Array, far: Array) -> Quadratic:
    """Second-order model of the penalty and the far rows, in the change of the coefficients."""
    w = problem.weight[far]
    uf = u[far]
    slope = sigmoid(uf)
    scores = state.scores[far]
    H = problem.hessian(scores, w * slope * sigmoid(-uf), w * slope, far)
    H[np.diag_indices_from(H)] += problem.ridge()
    a = np.zeros(problem.design.n_rows)
    a[far] = slope
    g = problem.gradient(state.scores, a) + problem.shrinkage(state.coef)
    return Quadratic(H, g)


def _without(problem: Problem, state: State, u: Array, rows: Array, model: Quadratic) -> Quadratic:
    """Take rows that cross the kink out of the model again."""
    w, ur = problem.weight[rows], u[rows]
    slope = sigmoid(ur)
    part = problem.take(rows)
    H = part.hessian(state.scores[rows], w * slope * sigmoid(-ur), w * slope)
    return Quadratic(model.hessian - H, model.gradient - part.gradient(state.scores[rows], slope))


def _mixed_step(problem, state, u, near, far, model, delta, tol):
    """Solve the mixed model; rows that would cross the kink join, twice at most."""
    r = u - problem.loss.floor
    for attempt in range(3):
        if near.size:
            rows = problem.take(near)
            offset = min(1.0, max(0.5 * delta, 1e-8))
            inner = interior_point(
                rows, model, state.scores[near], tol=tol, offset=offset
            )
            change = inner.change
        else:
            solved = factorise(model.hessian)(model.gradient.ravel())
            change, inner = -solved.reshape(state.coef.shape), None
        scores = problem.design.scores(change)
        moved = r + problem.margins.push(state.scores, scores)
        crossing = ((r > delta) & (moved < 0)) | ((r < -delta) & (moved > 0))
        joining = np.flatnonzero(crossing)
        joining = np.setdiff1d(joining, near, assume_unique=True)
        if attempt == 2 or not joining.size:
            break
        leaving = joining[r[joining] > 0]
        if leaving.size:
            model = _without(problem, state, u, leaving, model)
        near = np.concatenate([near, joining])
    return near, inner, change, scores


def _inner_tol(band: _Band, tol: float, exact: bool) -> float:
    """Accuracy asked of the interior point: all there is where nothing else is approximate."""
    if exact:
        return 1e-13 * band.primal
    return max(0.01 * tol * band.primal, 1e-4 * min(band.decrease, band.primal))


def _promised(problem, model, u, near, inner, change) -> float:
    """Decrease that the mixed model promises; the line search asks for a share of it."""
    z = change.ravel()
    value = float(model.gradient.ravel() @ z + 0.5 * z @ model.hessian @ z)
    if near.size:
        loss, w = problem.loss.take(near), problem.weight[near]
        after = problem.margins.take(near).margin(inner.scores)
        value += float(np.sum(w * (loss.value(after) - loss.value(u[near]))))
    return -value


def _search(problem, state, change, scores, promised, primal):
    def value(t: float) -> float:
        return problem.primal(
            state.coef + t * change, problem.margins.margin(state.scores + t * scores)
        )

    return descend(value, -promised, primal)


def _next_band(delta: float, t: float, moved: Array) -> float:
    if t == 0.0:
        return inf if delta > 1.0 else max(100.0 * delta, 1e-3)
    reach = float(np.quantile(moved[:: max(1, moved.size // 20_000)], 0.999))
    goal = max(reach * min(1.0, reach) if t == 1.0 else 2.0 * reach, 1e-7)
    return min(0.5 * delta, goal)


def read_off(rows: Problem, u: Array, a: Array) -> Array:
    """Multipliers with the partition read off: 0 where saturated, the slope where logarithmic.

    Keeping a multiplier a off the kink costs the gap about a |u - F|, dropping it about
    a^2 w |x|^2 / lambda, its own quadratic part of the dual; the cheaper of the two is done.
    """
    loss = rows.loss
    own = rows.weight * rows.design.row_squares() / rows.penalty
    r = u - loss.floor
    slope = sigmoid(u)
    a = np.where(-r > a * own, 0.0, np.minimum(a, np.maximum(loss.slope_at_floor, slope)))
    return np.where((r > 0) & (r > (slope - a) * own), slope, a)
