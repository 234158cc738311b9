"""The one loop every solver runs in: limits, records, certificates and the way out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite
from typing import Any, Protocol

from grayzone.solvers.certificate import Certificate, Certified

Array = Any

# Certificates without a smaller gap after which there will be none.
_PATIENCE = 50
# Relative gap at which nothing is left to gain.
_ROUNDING = 1e-15
# Relative gap up to which an end above the tolerance may be silent.
MOST_SILENT = 1e-3


class Status(Enum):
    """How a solver ended; the values are the sentences a user reads."""

    CONVERGED = "the duality gap is below the tolerance"
    MAX_ITER = "the limit of iterations was reached"
    STALLED = "no step improves the objective any more: rounding errors or a very hard problem"
    STOPPED = "a callback asked to stop"
    ROUNDED = "rounding errors of the kernel values leave no smaller gap"
    NO_OPTIMUM = "without a penalty there is no optimum"
    NOT_FINITE = "the objective is no longer finite: check the scale of the features"


@dataclass(frozen=True)
class Record:
    """One line of a solver's diary."""

    iteration: int
    objective: float
    gap: float
    active_rows: int
    seconds: float
    # the point itself; None where a strategy tells of the way to its next one
    coef: Array | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Solution:
    """The best certified point found; what belongs to rows is there where they are held.

    ``streamed`` gives the multipliers of rows that are not; ``constant`` says that the optimum is a
    constant function, whatever C is.
    """

    coef: Array
    certificate: Certificate
    status: Status
    n_iter: int
    records: tuple[Record, ...]
    scores: Array | None = None
    multipliers: Array | None = None
    streamed: Any = None
    constant: bool = False

    def fine(self, tol: float) -> bool:
        """Whether this end calls for no warning: a large gap always does, whatever ended the fit.

        A gap somewhat above the tolerance does not where rounding or a callback set the limit.
        """
        if self.status is Status.NO_OPTIMUM:
            return False
        gap, limited = self.certificate.relative, (Status.MAX_ITER, Status.STALLED)
        silent = self.status not in (*limited, Status.NOT_FINITE)
        return gap <= tol or (silent and gap <= MOST_SILENT)


class Point(Protocol):
    """What the loop asks of a state; see :class:`grayzone.solvers.certificate.State`."""

    @property
    def coef(self) -> Array:
        """Coefficients (Q, p)."""

    @property
    def settled(self) -> bool:
        """Whether a certificate is worth its price."""

    @property
    def stalled(self) -> bool:
        """Whether no further step will help."""

    def certified(self, problem: Any, tol: float, last: bool) -> Certified | None:
        """Certify; None where that is not worth its price, unless it is the ``last`` chance."""


class Solver(Protocol):
    """A step strategy: a start, and one step from state to state.

    What rows and problems it is for, the table of :mod:`grayzone.solvers.choose` says. One whose
    gap may wait for many steps says so by ``patience``: certificates without a smaller gap before
    it is called stalled.
    """

    def init(self, problem: Any, start: Array | None) -> Any:
        """Return the first state, from start coefficients where there are some."""

    def step(self, problem: Any, state: Any, tol: float) -> Any:
        """Improve the state; ``tol`` is the relative gap asked for."""


def solve(
    problem: Any,
    solver: Any,
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
    best: Certified | None = None
    status, iteration, since = Status.MAX_ITER, 0, 0
    for iteration in range(1, max_iter + 1):
        try:
            state = solver.step(problem, state, tol)
        except FloatingPointError:
            status = _broken(status)
            break
        last = state.stalled or iteration == max_iter
        point = state.certified(problem, tol, last) if state.settled or last else None
        if point is None:
            continue
        found = point.certificate
        if not (isfinite(found.primal) and isfinite(found.gap)):
            status = _broken(status)
            break
        records.append(_record(iteration, point, began))
        stop = callback is not None and bool(callback(records[-1]))
        improved = best is None or found.gap < 0.1 * best.certificate.gap
        since = 0 if best is None or found.gap < best.certificate.gap else since + 1
        best = point if best is None or since == 0 else best
        if best.certificate.relative <= tol:
            status = Status.CONVERGED
            done = polish == 0 or not improved or state.stalled or found.relative <= _ROUNDING
            if done or stop:
                break
            polish -= 1
        elif state.stalled or stop or since > getattr(solver, "patience", _PATIENCE):
            status = Status.STOPPED if stop else Status.STALLED
            break
    best = best or state.certified(problem, tol, last=True)
    assert best is not None
    coef, certificate, _, *of_rows = best
    return Solution(coef, certificate, status, iteration, tuple(records), *of_rows)


def _record(iteration: int, point: Certified, began: float) -> Record:
    found, seconds = point.certificate, time.perf_counter() - began
    return Record(iteration, found.primal, found.relative, point.n_active, seconds, point.coef)


def _broken(status: Status) -> Status:
    """Status after a step that failed: one that only polished takes nothing away."""
    return status if status is Status.CONVERGED else Status.NOT_FINITE
