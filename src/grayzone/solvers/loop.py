"""The one loop every solver runs in: limits, records, certificates and the way out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import Any, NamedTuple, Protocol

from grayzone.solvers.problem import Certificate, Problem, State, certify

Array = Any

# Relative gap at which nothing is left to gain.
_ROUNDING = 1e-15


class Status(Enum):
    """How a solver ended; the values are the sentences a user reads."""

    CONVERGED = "the duality gap is below the tolerance"
    MAX_ITER = "the limit of iterations was reached"
    STALLED = "no step improves the objective any more: rounding errors or a very hard problem"
    STOPPED = "a callback asked to stop"
    ROUNDED = "rounding errors of the kernel values leave no smaller gap"
    NOT_FINITE = "the objective is no longer finite: check the scale of the features"


@dataclass(frozen=True)
class Record:
    """One line of a solver's diary."""

    iteration: int
    objective: float
    gap: float
    active_rows: int
    seconds: float


@dataclass(frozen=True)
class Solution:
    """The best certified point found."""

    coef: Array
    scores: Array
    multipliers: Array
    certificate: Certificate
    status: Status
    n_iter: int
    records: tuple[Record, ...]


class Solver(Protocol):
    """What the loop asks of a solver: a start, and one step from state to state."""

    def init(self, problem: Problem, start: Array | None) -> State:
        """Give the first state, from start coefficients where there are some."""

    def step(self, problem: Problem, state: State, tol: float) -> State:
        """Improve the state; ``tol`` is the relative gap asked for."""


def solve(
    problem: Problem,
    solver: Solver,
    *,
    tol: float,
    max_iter: int,
    start: Array | None = None,
    polish: int = 0,
    callback: Callable[[Record], bool | None] | None = None,
) -> Solution:
    """Run a solver until its relative duality gap is at most ``tol``.

    1. init; 2. step; 3. certify where the solver says it is worth it; 4. record; 5. stop on
    the gap, on non-finite values, when the solver is stuck, or at the limit. The best
    certified point is returned in every case, with the reason why the loop ended.

    ``polish`` steps more are taken while they divide the gap by ten: for small problems, whose
    solutions then do not depend on the order of rows or on how weights are written.
    """
    began = time.perf_counter()
    records: list[Record] = []
    state = solver.init(problem, start)
    best: _Point | None = None
    status, iteration = Status.MAX_ITER, 0
    for iteration in range(1, max_iter + 1):
        try:
            state = solver.step(problem, state, tol)
        except FloatingPointError:
            status = _broken(status)
            break
        if not (state.settled or state.stalled or iteration == max_iter):
            continue
        point = _certified(problem, state, tol)
        found = point.certificate
        if not (isfinite(found.primal) and isfinite(found.gap)):
            status = _broken(status)
            break
        seconds = time.perf_counter() - began
        active = int((point.multipliers > 0).sum())
        records.append(Record(iteration, found.primal, found.relative, active, seconds))
        stop = callback is not None and bool(callback(records[-1]))
        better = best is None or found.gap < best.certificate.gap
        improved = best is None or found.gap < 0.1 * best.certificate.gap
        best = point if better else best
        if best is not None and best.certificate.relative <= tol:
            status = Status.CONVERGED
            if polish == 0 or not improved or state.stalled or found.relative <= _ROUNDING:
                break
            polish -= 1
        elif state.stalled or stop:
            status = Status.STOPPED if stop else Status.STALLED
            break
    point = best or _certified(problem, state, tol)
    return Solution(
        point.state.coef,
        point.state.scores,
        point.multipliers,
        point.certificate,
        status,
        iteration,
        tuple(records),
    )


def _broken(status: Status) -> Status:
    """Status after a step that failed: one that only polished takes nothing away."""
    return status if status is Status.CONVERGED else Status.NOT_FINITE


class _Point(NamedTuple):
    state: State
    multipliers: Array
    certificate: Certificate


def _certified(problem: Problem, state: State, tol: float) -> _Point:
    """Certify by the sparser multipliers if these reach the tolerance, else by the better ones."""

    def point(a: Array) -> _Point:
        found = certify(problem, state.coef, state.scores, a, u=state.u, touched=state.touched)
        return _Point(state, a, found)

    sparse = point(state.multipliers)
    reached = sparse.certificate.relative
    # far from the tolerance other multipliers would not reach it either
    if state.raw is None or reached <= tol or (reached > 1e3 * tol and not state.stalled):
        return sparse
    raw = point(state.raw)
    return raw if raw.certificate.gap < sparse.certificate.gap else sparse
