"""Fits with an l1 penalty: few columns at a time, and a certificate that knows of all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from grayzone.solvers import certificate
from grayzone.solvers.problem import Problem
from grayzone.solvers.sparse.kinks import Hinged
from grayzone.solvers.sparse.newton import WIDTH, Point, Restricted
from grayzone.solvers.sparse.problem import Certified, SparseProblem

Array = Any

# Columns that are all taken at once, and the fewest that are taken, of one output; and the multiple
# of those in use that is.
_FEW, _FIRST, _GROWTH = 300, 500, 2
# Share of the gap that a step leaves, of the tolerance that it goes below, and the least.
_SHARE, _BELOW, _ROUNDING = 0.05, 0.3, 1e-15
# Shares of the gap that a step gains where it crawls and where it hardly moves, and leaves; how
# many steps may crawl, and for how many of them one counts that hardly moves.
_GAINED, _HARDLY, _LEFT, _CRAWLS, _COUNTS = 0.15, 0.02, 0.95, 60, 5
# Newton steps of a fit, which takes some thirty: one that takes more gets nowhere.
_MOST_NEWTON = 500
# Share of the columns below which those that are left are copied.
_WORTH_A_COPY = 0.5


@dataclass(frozen=True)
class SparseState:
    """A point on the way, with its certificate on the columns that are left."""

    problem: SparseProblem  # on the columns that are left
    coef: Array  # (Q, p), of all columns
    point: Point  # slopes of the columns that are left
    found: Certified
    stalled: bool = False
    settled: bool = True
    value: float = inf
    crawls: int = 0  # steps in a row that got nowhere near the optimum

    def certified(
        self, problem: SparseProblem, tol: float, last: bool
    ) -> certificate.Certified | None:
        """Certify on all columns, once those that are left say that it is time."""
        found = self.found.certificate
        columns, point = self.problem.columns, self.point
        if columns.n_columns < problem.columns.n_columns and (last or found.relative <= tol):
            slopes = self.coef[:, : problem.columns.n_columns]
            args = slopes, point.intercept, point.scores, point.multipliers
            found = problem.certify(*args).certificate
        used = int(np.count_nonzero(np.any(point.slopes != 0.0, axis=0)))
        return certificate.Certified(self.coef, found, used, point.scores, point.multipliers)


class WorkingSet:
    """Minimise on the columns that matter most, add those that are missing, leave out the rest.

    1. Choose columns: those in use and those nearest to being so, at least twice as many as in use.
    2. Newton steps on them until the gap of what they span is a share of the last one.
    3. Certify on all columns that are left.
    4. Drop the columns that, by the gap, no optimum uses.
    """

    patience = 40  # while a kink is sought the gap says little

    def init(self, problem: SparseProblem, start: Array | None) -> SparseState:
        """Start from the class priors, or from coefficients."""
        m, inner = problem.columns.n_columns, problem.problem
        coef = _start_of(inner, m) if start is None else np.array(start, dtype=np.float64)
        slopes = np.ascontiguousarray(coef[:, :m])
        intercept = coef[:, m].copy() if problem.fit_intercept else np.zeros(coef.shape[0])
        scores = problem.columns.scores(slopes) + intercept
        loss = inner.loss
        u = inner.margins.margin(scores)
        if np.any(np.isfinite(loss.floor)):
            loss = Hinged(loss, 0.5 * loss.slope_at_floor, WIDTH)
        point = Point(slopes, intercept, scores, loss, loss.slopes(u)[0])
        found = problem.certify(slopes, intercept, scores, point.multipliers)
        return SparseState(problem, coef, point, found)

    def step(self, problem: SparseProblem, state: SparseState, tol: float) -> SparseState:
        """Improve the state; ``tol`` is the relative gap asked for."""
        now, whole, before = state.problem, state.point, state.found.certificate
        places = _chosen(now, whole.slopes, state.found)  # 1
        part = Restricted(now, places)
        least = _ROUNDING * before.primal
        target = max(_SHARE * before.gap, least)
        if before.relative > tol:
            target = max(target, _BELOW * tol * before.primal)
            if not isinstance(whole.loss, Hinged):  # else a gap takes more than a small promise
                least = max(least, _BELOW * tol * before.primal)
        few = part.minimise(whole._replace(slopes=whole.slopes[:, places]), target, least)  # 2
        slopes = np.zeros_like(whole.slopes)
        slopes[:, places] = few.slopes
        point = few._replace(slopes=slopes)
        found = now.certify(slopes, few.intercept, few.scores, few.multipliers)  # 3
        stalled = few.stalled and places.size == now.columns.n_columns
        gap = found.certificate.gap
        stalled = stalled and gap > 0.5 * before.gap
        crawls = _crawls(state, found.certificate)
        stalled = stalled or crawls >= _CRAWLS or few.n_steps >= _MOST_NEWTON
        coef = np.zeros_like(state.coef)
        coef[:, now.columns.numbers] = slopes
        if now.fit_intercept:
            coef[:, -1] = few.intercept
        after = SparseState(now, coef, point, found, stalled, value=found.certificate.primal)
        if found.certificate.relative <= tol:
            return after  # it may well be the last
        return _screened(replace(after, crawls=crawls))  # 4


def _crawls(state: SparseState, now: certificate.Certificate) -> int:
    """Steps in a row that got nowhere near the optimum, with the one that led to a certificate."""
    before = state.found.certificate
    gained = before.primal - now.primal
    if gained >= _GAINED * now.gap or now.relative <= _LEFT * before.relative:
        return 0
    return state.crawls + (_COUNTS if gained < _HARDLY * now.gap else 1)


def _start_of(problem: Problem, n_columns: int) -> Array:
    known = problem.prior_coef()
    coef = np.zeros((known.shape[0], n_columns + int(problem.design.fit_intercept)))
    if problem.design.fit_intercept:
        coef[:, -1] = known[:, -1]
    return coef


def _chosen(problem: SparseProblem, slopes: Array, found: Certified) -> Array:
    """Columns to work on: all where they are few, else those in use and the nearest to that."""
    m = problem.columns.n_columns
    used = np.any(slopes != 0.0, axis=0)
    n_used = int(used.sum())
    force = np.abs(found.force).max(axis=0)
    q = problem.problem.n_outputs
    size = max(_FIRST // q, _GROWTH * n_used)
    if m <= max(_FEW // q, size):
        return np.arange(m)
    norms = problem.columns.norms(problem.problem.weight)
    # squared, what a column that pulls too hard has to gain; else how much closer it has to come
    distance = (problem.l1 - force) / np.where(norms > 0.0, norms, 1.0)
    distance = np.where(norms > 0.0, distance, inf)
    distance[used] = -inf
    return np.sort(np.argpartition(distance, size)[:size])


def _screened(state: SparseState) -> SparseState:
    """Leave out the columns that no optimum uses, where these are many."""
    problem, point = state.problem, state.point
    if not problem.can_screen or problem.columns.n_columns <= _FEW:
        return state
    kept = problem.kept(point.scores, state.found)
    kept |= np.any(point.slopes != 0.0, axis=0)
    if kept.sum() > _WORTH_A_COPY * problem.columns.n_columns:
        return state
    places = np.flatnonzero(kept)
    left = replace(problem, columns=problem.columns.only(places))
    found = state.found._replace(force=state.found.force[:, places])
    return replace(
        state, problem=left, point=point._replace(slopes=point.slopes[:, places]), found=found
    )
