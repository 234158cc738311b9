"""The one loop every solver runs in: limits, records, certificates and the way out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from math import inf, isfinite
from typing import Any, Protocol

from grayzone.solvers.certificate import Certificate, Certified

Array = Any

# Steps without progress after which there will be none; and factors by which a gap, or an objective
# whose gap is not known, must have become smaller for that.
_PATIENCE, _SMALLER_GAP, _SMALLER_VALUE = 50, 0.9, 0.99
# Relative gap that is nothing but rounding, and the factor that is asked for in half as many steps.
_HOPELESS, _MUCH_SMALLER = 1e6, 0.5
# Relative gap at which nothing is left to gain.
_ROUNDING = 1e-15
# Loss of a row that leaves nothing to gain either.
_NOTHING = 1e-25
# Relative gap up to which an end above the tolerance may be silent.
MOST_SILENT = 1e-3


class Status(Enum):
    """How a solver ended; the values are the sentences a user reads.

    See Also
    --------
    Solution : Has the status of its end.
    solve : Sets it.

    Examples
    --------
    >>> from grayzone.solvers import Status
    >>> Status.MAX_ITER.value
    'the limit of iterations was reached'
    """

    CONVERGED = "the duality gap is below the tolerance"
    MAX_ITER = "the limit of iterations was reached"
    STALLED = "no step improves the objective any more: rounding errors or a very hard problem"
    STOPPED = "a callback asked to stop"
    ROUNDED = "rounding errors of the kernel values leave no smaller gap"
    NO_OPTIMUM = "without a penalty there is no optimum"
    NOT_FINITE = "the objective is no longer finite: check the scale of the features"


@dataclass(frozen=True)
class Record:
    """One line of a solver's diary.

    Attributes
    ----------
    iteration : int
        Number of the step, from 1 on.
    objective : float
        The objective there.
    gap : float
        Relative duality gap.
    active_rows : int
        Rows whose multiplier is not zero.
    seconds : float
        Since the beginning of the fit.
    coef : array of shape (Q, p) or None
        The point itself; None where a strategy tells of the way to its next one.

    See Also
    --------
    solve : Tells records to its callback.

    Examples
    --------
    >>> from grayzone.solvers import Record
    >>> Record(1, 12.5, 0.01, 40, 0.002)
    Record(iteration=1, objective=12.5, gap=0.01, active_rows=40, seconds=0.002)
    """

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

    Attributes
    ----------
    coef : array of shape (Q, p)
        The point.
    certificate : Certificate
        How far from the optimum it is at most.
    status : Status
        Why the loop ended.
    n_iter : int
        Steps taken.
    records : tuple of Record
        One for each certificate.
    scores : array of shape (n, Q) or None
        Scores of the rows.
    multipliers : array of shape (n,) or None
        Multipliers of their margins.
    streamed : object or None
        Gives the multipliers of rows that are not held.
    constant : bool
        Whether the optimum is a constant function, whatever C is.

    See Also
    --------
    solve : Returns it.
    minimise : Returns it.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers import Certificate, Solution, Status
    >>> found = Solution(np.zeros((1, 2)), Certificate(50.0, 1e-4), Status.CONVERGED, 7, ())
    >>> found.fine(tol=1e-5)
    True
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

        Parameters
        ----------
        tol : float
            Relative gap asked for.

        Returns
        -------
        bool
            Whether all is well.
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

    @property
    def value(self) -> float:
        """The objective; infinite where it is not known without a certificate."""

    def certified(self, problem: Any, tol: float, last: bool) -> Certified | None:
        """Certify; None where that is not worth its price, unless it is the ``last`` chance."""


class Solver(Protocol):
    """A step strategy: a start, and one step from state to state.

    What rows and problems it is for, the table of :mod:`grayzone.solvers.choose` says. By
    ``patience`` it may say after how many steps without progress it is to be called stalled.

    See Also
    --------
    solve : Runs it.
    State : What it goes from and to.

    Examples
    --------
    The strategies are solvers by their methods, without a common base:

    >>> from grayzone.solvers import Primal, Solver
    >>> solver: Solver = Primal()
    >>> solver.patience
    25
    """

    def init(self, problem: Any, start: Array | None) -> Any:
        """Return the first state, from start coefficients where there are some.

        Parameters
        ----------
        problem : Problem
            What is to be minimised.
        start : array of shape (Q, p) or None
            Coefficients to start from.

        Returns
        -------
        State
            The first one.
        """

    def step(self, problem: Any, state: Any, tol: float) -> Any:
        """Improve the state.

        Parameters
        ----------
        problem : Problem
            What is to be minimised.
        state : State
            Where the solver is.
        tol : float
            Relative gap asked for.

        Returns
        -------
        State
            The next one.
        """


class _Progress:
    """Steps since the objective, or the gap, has last become smaller by something that counts."""

    def __init__(self, patience: int, nothing: float) -> None:
        self._patience, self._since, self._nothing = patience, 0, nothing
        self._first = self._value = self._gap = inf
        self._hopeless = False

    def ended(self, value: float) -> bool:
        """Whether another step, which led to this objective, is one too many."""
        self._since += 1
        if self._first == inf:
            self._first = value
        # what is less than rounding of where it began is nothing already
        nothing = max(self._nothing, _ROUNDING * self._first)
        factor = _MUCH_SMALLER if self._hopeless else _SMALLER_VALUE
        if value < factor * self._value and not self._value < nothing:
            self._value, self._since = value, 0
        return self._since > (self._patience // 2 if self._hopeless else self._patience)

    def certified(self, found: Certificate) -> None:
        """Take note of a gap."""
        self._hopeless = found.relative > _HOPELESS
        if found.gap < (_MUCH_SMALLER if self._hopeless else _SMALLER_GAP) * self._gap:
            self._gap, self._since = found.gap, 0


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
    the gap, on non-finite values, when nothing is gained any more, or at the limit. The best
    certified point is returned in every case, with the reason why the loop ended.

    Parameters
    ----------
    problem : Problem
        What is to be minimised.
    solver : Solver
        The strategy.
    tol : float
        Relative duality gap asked for.
    max_iter : int
        Most steps.
    start : array of shape (Q, p), optional
        Coefficients to start from.
    polish : int, default=0
        Steps more that are taken while they divide the gap by ten: for small problems, whose
        solutions then do not depend on the order of rows or on how weights are written.
    callback : callable, optional
        Told the :class:`Record` of each certificate; a true answer ends the fit.

    Returns
    -------
    Solution
        The best certified point.

    See Also
    --------
    minimise_problem : Chooses the strategy.
    Status : Reasons for an end.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.designs import as_design
    >>> from grayzone.numerics.losses import Logistic
    >>> from grayzone.numerics.margins import SignedMargin
    >>> from grayzone.solvers import Primal, Problem, solve
    >>> X, sign = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.0, 1.0])
    >>> problem = Problem(as_design(X), SignedMargin(sign), Logistic(sign), np.ones(4), penalty=1.0)
    >>> found = solve(problem, Primal(), tol=1e-8, max_iter=50)
    >>> found.status.name, found.certificate.relative <= 1e-8
    ('CONVERGED', True)
    """
    began = time.perf_counter()
    records: list[Record] = []
    begun = state = solver.init(problem, start)
    best: Certified | None = None
    status, iteration = Status.MAX_ITER, 0
    progress = _Progress(getattr(solver, "patience", _PATIENCE), _NOTHING * problem.mass)
    for iteration in range(1, max_iter + 1):
        try:
            state = solver.step(problem, state, tol)
        except FloatingPointError:
            status = _broken(status)
            break
        stuck = state.stalled or progress.ended(state.value)
        last = stuck or iteration == max_iter
        point = state.certified(problem, tol, last) if state.settled or last else None
        if point is None:
            continue
        found = point.certificate
        if not (isfinite(found.primal) and isfinite(found.gap)):
            # multipliers of such a point are no numbers either: those of the start are
            state, status = begun, _broken(status)
            break
        records.append(_record(iteration, point, began))
        stop = callback is not None and bool(callback(records[-1]))
        improved = best is None or found.gap < 0.1 * best.certificate.gap
        progress.certified(found)
        best = point if best is None or found.gap < best.certificate.gap else best
        if best.certificate.relative <= tol:
            status = Status.CONVERGED
            done = polish == 0 or not improved or stuck or found.relative <= _ROUNDING
            if done or stop:
                break
            polish -= 1
        elif stuck or stop:
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
