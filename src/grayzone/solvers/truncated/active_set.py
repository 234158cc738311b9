r"""The dual active set of §4.2 of Hérault & Grandvalet (2007), formulas corrected.

Rows are saturated (I_0, alpha = 0), on the hinge (I_h, 0 <= alpha <= s) or logarithmic (I_l,
alpha >= s), s = sigma(F). For a guessed partition, Newton's method solves the conditions
(14); a step that leaves the box (13) is cut at its boundary and moves one row to another set;
when the partition holds, the saturated row that violates its condition most joins.

Two corrections to the paper's text. The gradient in (15)-(16) is written D(alpha) alpha with D =
log(alpha / (1 - alpha)); the derivative of the entropy is logit(alpha) itself, so that the
right-hand side of (16) is delta = 1 / (1 - alpha) - logit(alpha). And the matrix (15) is a
saddle matrix, indefinite because of the row of the intercept, so that it has no
Cholesky factor: it is solved by pivoted elimination. (The paper also writes I_0 for both the
saturated rows and the active ones; here the active ones are I_h and I_l.)

Meant for small data, for reproduction, and as an oracle for the other solvers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grayzone.numerics.losses import logit
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers.certificate import State
from grayzone.solvers.problem import Problem

Array = Any

SATURATED, HINGE, LOGARITHMIC = 0, 1, 2
_MAX_NEWTON = 500
_FEW = 2000  # rows whose inner products are kept
_HOVERING = 15  # full steps that come no nearer to each other: rounding leaves no more
_NEAR = 1e-6  # change of multipliers by such steps, that of an equilibrium nevertheless
_LOST = 25  # partitions in a row for which no equilibrium is found


@dataclass(frozen=True)
class _Partition:
    """Set of each row, multipliers alpha of unit-weight losses, and the intercept gamma = b."""

    kind: Array
    alpha: Array
    gamma: float
    gram: Array | None = None  # inner products of all rows, where these are few
    barred: frozenset[int] = frozenset()  # rows that joined and left again without any progress
    lost: int = 0  # partitions since the last one for which an equilibrium was found


class ActiveSet:
    """Move one row at a time between the parts of a partition, §4.2 of the paper; two classes.

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
    >>> from grayzone.solvers import ActiveSet, Problem, solve
    >>> X, sign = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.0, 1.0])
    >>> loss = TruncatedLogistic(np.full(4, -1.0))
    >>> problem = Problem(as_design(X), SignedMargin(sign), loss, np.ones(4), penalty=1.0)
    >>> solve(problem, ActiveSet(), tol=1e-6, max_iter=200).status.name
    'CONVERGED'
    """

    # a step moves one row: the gap may wait for many of them
    patience = 250

    def init(self, problem: Problem, start: Array | None) -> State:
        """Start from one row of each class, and all rows whose loss has no floor."""
        if not isinstance(problem.margins, SignedMargin):
            raise ValueError(
                "solver='active-set' is for two classes; use solver='auto' or 'primal' for more."
            )
        y, weight = problem.margins.y, problem.weight
        s = problem.loss.slope_at_floor
        unbounded = ~np.isfinite(problem.loss.floor)
        begin = unbounded.copy()
        for label in (1.0, -1.0):
            begin[np.flatnonzero(y == label)[0]] = True
        mass = np.array([weight[begin & (y == label)].sum() for label in (-1.0, 1.0)])
        # equal masses fulfil y'alpha = 0
        share = 0.5 * mass.min() / np.where(y > 0, mass[1], mass[0])
        alpha = np.where(begin, share, 0.0)
        kind = np.where(begin, np.where(alpha > s, LOGARITHMIC, HINGE), SATURATED)
        rows = np.arange(y.size)
        gram = problem.design.inner(rows, rows) if y.size <= _FEW else None
        return _state(problem, _Partition(kind, alpha, 0.0, gram))

    def step(self, problem: Problem, state: State, tol: float) -> State:
        """Solve (14) for the partition, then let the worst violator of I_0 join it."""
        part, found = _equilibrium(problem, state.memory)
        part = replace(part, lost=0 if found else part.lost + 1)
        moved = float(np.max(np.abs(part.alpha - state.memory.alpha), initial=0.0))
        if moved > 1e-14:
            part = replace(part, barred=frozenset())
        settled = _state(problem, part)
        violation = np.where(part.kind == SATURATED, settled.u - problem.loss.floor, -np.inf)
        violation[list(part.barred)] = -np.inf
        worst = int(np.argmax(violation))
        if part.lost >= _LOST or not violation[worst] > 1e-12:
            return replace(settled, stalled=True)
        kind = part.kind.copy()
        kind[worst] = HINGE
        joined = replace(part, kind=kind, barred=part.barred | {worst})
        return replace(settled, memory=joined)


def _state(problem: Problem, part: _Partition) -> State:
    """Primal point of the multipliers: w = sum(alpha y x) / lambda, b = gamma (end of §4.2)."""
    margins = problem.margins
    pulled = problem.design.gradient(-margins.pull(part.alpha, problem.weight * part.alpha))
    coef = pulled * problem.design.penalised() / problem.penalty
    if problem.design.fit_intercept:
        coef[0, -1] = part.gamma
    scores = problem.design.scores(coef)
    return State(coef, scores, margins.margin(scores), part.alpha, memory=part)


def _equilibrium(problem: Problem, part: _Partition) -> tuple[_Partition, bool]:
    """Newton steps (16) for the partition, moving one row at a time as §4.2.5 says.

    Also gives whether they came to an end; there is none where rounding errors move rows to and
    fro, or multipliers.
    """
    still, least, hovering = 0, np.inf, 0
    for _ in range(_MAX_NEWTON):
        if not np.any(part.kind):
            return part, True
        active = np.flatnonzero(part.kind)
        old = part.alpha[active]
        new, gamma = _newton_step(problem, part, active)
        rho, row = _longest_step(problem, part, active, new)
        alpha = part.alpha.copy()
        alpha[active] = old + rho * (new - old)
        gamma = part.gamma + rho * (gamma - part.gamma)
        part = replace(part, alpha=alpha, gamma=gamma)
        change = float(np.max(np.abs(new - old)))
        if row is not None:
            part, least = _moved(problem, part, row), np.inf
            # each row may have to move, to either side, before any multiplier does
            still = 0 if rho * change > 1e-14 else still + 1
            if still > 2 * part.kind.size:
                break
        elif rho == 1.0:
            if change <= 1e-11:
                return part, True
            hovering = 0 if change < 0.5 * least else hovering + 1
            least = min(least, change)
            if hovering > _HOVERING:
                break
    return part, least <= _NEAR


def _newton_step(problem: Problem, part: _Partition, active: Array) -> tuple[Array, float]:
    """Solve (16) with the corrected right-hand side; weights multiply alpha."""
    assert isinstance(problem.margins, SignedMargin)
    y, w = problem.margins.y[active], problem.weight[active]
    alpha = part.alpha[active]
    log = part.kind[active] == LOGARITHMIC
    m = active.size
    G = problem.design.inner(active, active) if part.gram is None else part.gram[active][:, active]
    G = G * (y[:, None] * y[None, :]) / problem.penalty
    inside = np.where(log, alpha, 0.5)
    diagonal = np.where(log, 1.0 / (w * inside * (1.0 - inside)), 1e-14 * (1.0 + G.diagonal()))
    delta = np.where(log, 1.0 / (1.0 - inside) - logit(inside), -problem.loss.finite_floor[active])
    border = int(problem.design.fit_intercept)
    K = np.zeros((m + border, m + border))
    K[:m, :m] = G
    K[np.arange(m), np.arange(m)] += diagonal
    rhs = np.zeros(m + border)
    rhs[:m] = delta
    if border:
        K[m, :m] = K[:m, m] = y
    try:
        found = np.linalg.solve(K, rhs)
    except np.linalg.LinAlgError as error:
        raise FloatingPointError("the system of the active rows is singular") from error
    return found[:m] / w, float(found[m]) if border else 0.0


def _longest_step(
    problem: Problem, part: _Partition, active: Array, new: Array
) -> tuple[float, int | None]:
    """Largest step within the box (13), and the row that stops it.

    Logarithmic rows also stay inside (0, 1), the domain of the entropy: they stop short
    of it without changing sets.
    """
    s = problem.loss.slope_at_floor[active]
    old = part.alpha[active]
    delta = new - old
    log = part.kind[active] == LOGARITHMIC
    lower, upper = np.where(log, s, 0.0), np.where(log, 1.0, s)
    bound = np.where(delta < 0, lower, upper)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(delta != 0.0, (bound - old) / delta, np.inf)
    # stops at 0 or 1 of a logarithmic row are of the domain, not of the partition
    domain = log & ((delta > 0) | (s == 0.0))
    open_end = float(np.min(np.where(domain, 0.9 * reach, np.inf), initial=np.inf))
    k = int(np.argmin(np.where(domain, np.inf, reach)))
    closed_end = float("inf") if domain[k] else float(max(reach[k], 0.0))
    if closed_end <= min(open_end, 1.0):
        return closed_end, int(active[k])
    return min(open_end, 1.0), None


def _moved(problem: Problem, part: _Partition, row: int) -> _Partition:
    """Move the faulty row to its new set (§4.2.5)."""
    kind, alpha = part.kind.copy(), part.alpha.copy()
    s = float(problem.loss.slope_at_floor[row])
    if kind[row] == LOGARITHMIC:
        kind[row], alpha[row] = HINGE, s
    elif alpha[row] < 0.5 * s:
        kind[row], alpha[row] = SATURATED, 0.0
    else:
        kind[row], alpha[row] = LOGARITHMIC, s
    return replace(part, kind=kind, alpha=alpha)
