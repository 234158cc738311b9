r"""Primal-dual interior point for the kink of the truncated loss.

The kink is opened by slacks as in eq. (9) of Hérault & Grandvalet (2007): with
:math:`\xi \ge u` (slack p, multiplier alpha) and :math:`\xi \ge F` (slack q, multiplier beta),

    minimise  g'z + z'Hz / 2 + sum_i w_i log(1 + e^{xi_i}),   u = u(scores + X z),

whose Kuhn-Tucker conditions are w sigma(xi) = alpha + beta, g + Hz + J'alpha = 0,
alpha p = beta q = 0. Newton steps on the conditions eliminate each row's (xi, alpha, beta),
so that a system of the size of z is left. Steps are Mehrotra's predictor-corrector with
Gondzio's multiple centrality correctors and one common step length. Targets for alpha p
and beta q are weighted by w sigma(F), the largest alpha a row on the kink can have: with
uniform targets rows of very unequal sigma(F) leave the central path.

Written against the array API: the rows may live in any namespace a design supports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.columns import along
from grayzone.numerics.designs import DenseDesign
from grayzone.numerics.linalg import descend
from grayzone.numerics.losses import SmoothedLogistic, TruncatedLogistic, sigmoid
from grayzone.numerics.margins import SignedMargin
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.threads import LOOPS, edges
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.parabolas import LEAST
from grayzone.solvers.truncated.systems import Systems

Array = Any

_MAX_CORRECTORS = 2
_PATIENCE = 12  # iterations without progress
_SHORT = 0.2  # steps shorter than this get nowhere
_MOST_BENT = 0.1  # more than sigma'' ever is
_LEVEL = 0.25  # slope at the end of a step, as a share of that at its start, that is no way up
_CRAWL = 0.01  # gain of a shortened step, in units of the accuracy, that others like it follow
_WORTH_A_THREAD = 200_000  # numbers in rows that compiled loops read in a fifth of a millisecond
_NUMBERS = 8  # of a row that are read or set, where no features are
_TURN = 10.0  # how far margins may turn off the straight line that a step takes them for
_BACK_OFF = 0.99  # share of the way to the boundary that a step may go


class Quadratic(NamedTuple):
    """The smooth rest of the problem, g'z + z'Hz / 2, in the change z of the coefficients.

    Attributes
    ----------
    hessian : array of shape (Qp, Qp)
        The matrix H.
    gradient : array of shape (Q, p)
        The vector g.

    See Also
    --------
    interior_point : Minimises it plus losses.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers import Quadratic
    >>> Quadratic(np.eye(2), np.zeros((1, 2))).hessian.shape
    (2, 2)
    """

    hessian: Array
    gradient: Array


class Inner(NamedTuple):
    """What the interior point returns."""

    change: Array
    scores: Array
    multipliers: Array  # of unit-weight losses
    n_iter: int
    converged: bool


@dataclass
class _Iterate:
    """Primal and dual variables of all rows.

    Slacks p and q are variables of their own: as differences of xi they would round to zero near
    the end. They are one array (2, n), as are the multipliers alpha and beta: what is done to the
    one is done to the other.
    """

    change: Array
    scores: Array
    u: Array
    xi: Array
    slacks: Array
    multipliers: Array

    def inner(self, problem: Problem, n_iter: int, converged: bool) -> Inner:
        alpha = self.multipliers[0, :] / problem.weight
        return Inner(self.change, self.scores, alpha, n_iter, converged)


class _Direction(NamedTuple):
    change: Array
    scores: Array
    xi: Array
    slacks: Array
    multipliers: Array
    length: float  # the longest step that keeps slacks and multipliers non-negative, 1 at most
    furthest: float  # that xi goes


class _Newton:
    """The linear system at an iterate: factorised once, solved for several right-hand sides."""

    def __init__(self, systems: Systems, model: Quadratic, at: _Iterate) -> None:
        self.problem, self.at = systems.problem, at
        omega, alpha = self._linearise(), at.multipliers[0, :]
        self.solve, pulled = systems.at(at.scores, omega, alpha, alpha)
        xp = array_namespace(pulled)
        bent = xp.reshape(model.hessian @ xp.reshape(at.change, (-1,)), at.change.shape)
        self.r_z = model.gradient + bent + pulled

    def _linearise(self) -> Array:
        """Set what is known of rows; returns their curvatures in the scores."""
        at, weight = self.at, self.problem.weight
        xp = array_namespace(at.u)
        e = xp.exp(-xp.abs(at.xi))
        share = weight / (1.0 + e)  # of sigma(-|xi|) or its complement
        small = e * share
        bend = small / (1.0 + e)
        self.ratios = at.multipliers / at.slacks
        A, B = self.ratios[0, :], self.ratios[1, :]
        self.S = bend + A + B
        self.r_xi = xp.where(at.xi >= 0, share, small) - xp.sum(at.multipliers, axis=0)
        self.r_slacks = at.xi - xp.stack([at.u, self.problem.loss.floor]) - at.slacks
        self.left = float(self.r_xi @ (self.r_xi / self.S))
        # the sum of alpha p and beta q, and how far off slopes are from the multipliers' sums
        self.products = float(xp.sum(at.slacks * at.multipliers))
        self.mismatch = float(xp.max(xp.abs(self.r_xi) / weight))
        return A * (bend + B) / self.S

    def residual(self) -> float:
        """What is not yet stationary, in units of the objective: primal decrease and dual gap."""
        xp = array_namespace(self.r_z)
        r = xp.reshape(self.r_z, (-1,))
        primal = float(r @ self.solve(r)) + self.left
        free = self.r_z * self.problem.design.penalised()
        return primal + 0.5 * float(xp.sum(free * free)) / self.problem.penalty

    def direction(self, goals: Array) -> _Direction:
        """Newton direction towards goals (2, n) for alpha p and beta q."""
        at, S, A = self.at, self.S, self.ratios[0, :]
        xp = array_namespace(at.u)
        design, margins = self.problem.design, self.problem.margins
        x = goals / at.slacks - at.multipliers - self.ratios * self.r_slacks
        rho = x[0, :] + x[1, :] - self.r_xi
        k = x[0, :] - A * rho / S
        pulled = self.r_z + design.gradient(margins.pull(at.scores, k))
        change = xp.reshape(-self.solve(xp.reshape(pulled, (-1,))), at.change.shape)
        scores = design.scores(change)
        du = margins.push(at.scores, scores)
        xi = (rho + A * du) / S
        rises = xp.stack([xi - du, xi])
        slacks, multipliers = rises + self.r_slacks, x - self.ratios * rises
        worst = max(
            float(xp.max(-slacks / at.slacks)), float(xp.max(-multipliers / at.multipliers)), 1.0
        )
        furthest = float(xp.max(xp.abs(xi)))
        return _Direction(change, scores, xi, slacks, multipliers, 1.0 / worst, furthest)

    def aims(self, goal: Array, d: _Direction) -> Array:
        """Return goals (2, n) for all products, which a step along d would miss by its square."""
        return goal - d.slacks * d.multipliers

    def complementarity(self, d: _Direction, t: float) -> float:
        """Return what alpha p and beta q add up to after a step t along d."""
        return float(array_namespace(d.xi).sum(self._products(d, t)))

    def pulled_back(self, goals: Array, goal: Array, d: _Direction, t: float) -> Array:
        """Return goals that pull outliers of these products back into [goal / 10, 10 goal]."""
        there, xp = self._products(d, t), array_namespace(goal)
        return goals + xp.maximum(_between(there, 0.1 * goal, 10.0 * goal) - there, -10.0 * goal)

    def advance(self, d: _Direction, t: float) -> None:
        """Take a step t along d."""
        at = self.at
        at.change = at.change + t * d.change
        at.scores = at.scores + t * d.scores
        at.u = self.problem.margins.margin(at.scores)
        at.xi = at.xi + t * d.xi
        at.slacks = at.slacks + t * d.slacks
        at.multipliers = at.multipliers + t * d.multipliers

    def _products(self, d: _Direction, t: float) -> Array:
        at = self.at
        return (at.multipliers + t * d.multipliers) * (at.slacks + t * d.slacks)


class _LoopedNewton(_Newton):
    """The same for rows of two classes, by compiled loops on all threads."""

    def _linearise(self) -> Array:
        # compiles, so only when needed
        from grayzone.numerics import jit_interior, team

        at, problem, n = self.at, self.problem, self.at.u.size
        assert isinstance(problem.design, DenseDesign)
        assert isinstance(problem.margins, SignedMargin)
        self._loops, self._team = jit_interior, team
        self._rows = problem.design.X, -problem.margins.y
        self._parts = edges(n, threads=problem.design.X.size / _WORTH_A_THREAD, kind=LOOPS)
        # what is done once to each row, and not to each of its features
        self._long = edges(n, threads=_NUMBERS * n / _WORTH_A_THREAD, kind=LOOPS)
        self._known, omega = np.empty((10, n)), np.empty(n)
        of_rows = at.xi, at.u, problem.loss.floor, problem.weight, at.slacks, at.multipliers
        given, found = (*of_rows, self._known, omega), team.sums(len(self._parts) - 1, 3)
        team.share(jit_interior.linearise, given, (found,), self._parts)
        (self.left, self.products), self.mismatch = found[:, :2].sum(axis=0), found[:, 2].max()
        self.r_xi = self._known[7]
        return omega

    def direction(self, goals: Array) -> _Direction:
        d, p = self.problem.design.n_features, self.problem.design.n_coef
        n, parts = self.at.u.size, self._parts
        work, out = np.empty((3, n)), np.empty((6, n))
        pulled, z = self._team.sums(len(parts) - 1, d + 1), np.zeros(d + 1)
        given = *self._rows, self._known
        self._team.share(self._loops.pull, (*given, goals, work), (pulled,), parts)
        z[:p] = -self.solve(self.r_z.ravel() + pulled.sum(axis=0)[:p])
        found = self._team.sums(len(parts) - 1, 2)
        self._team.share(self._loops.push, (*given, work, z, out), (found,), parts)
        (worst, furthest), change = found.max(axis=0).tolist(), z[:p].reshape(self.r_z.shape)
        of_rows = out[0, :, None], out[1], out[2:4], out[4:]
        return _Direction(change, *of_rows, 1.0 / worst, furthest)

    def aims(self, goal: Array, d: _Direction) -> Array:
        goals = np.empty_like(d.slacks)
        given = goal, d.slacks, d.multipliers, goals
        self._team.share(self._loops.aim, given, (), self._long)
        return goals

    def complementarity(self, d: _Direction, t: float) -> float:
        given = self._known, d.slacks, d.multipliers, t
        return sum(self._team.share(self._loops.complementarity, given, (), self._long))

    def pulled_back(self, goals: Array, goal: Array, d: _Direction, t: float) -> Array:
        out = np.empty_like(goals)
        given = self._known, d.slacks, d.multipliers, t, goal, goals, out
        self._team.share(self._loops.pull_back, given, (), self._long)
        return out

    def advance(self, d: _Direction, t: float) -> None:
        at = self.at
        at.change = at.change + t * d.change
        given = d.scores, d.xi, d.slacks, d.multipliers, t, self._rows[1]
        known = at.scores, at.u, at.xi, at.slacks, at.multipliers
        self._team.share(self._loops.advance, (*given, *known), (), self._parts)


def _is_looped(problem: Problem) -> bool:
    """Whether compiled loops are loaded already, and know such rows."""
    design = problem.design
    if not (isinstance(design, DenseDesign) and isinstance(problem.margins, SignedMargin)):
        return False
    return design.is_loaded and design.X.flags.c_contiguous and design.X.dtype == np.float64


def _corrected(newton: _Newton, target: Array, mu: float, least: float) -> _Direction:
    """Predictor, Mehrotra's corrector, then Gondzio's while they lengthen the step.

    Complementarity goes from ``mu`` to no less than ``least``: were it to run ahead of what is
    not yet stationary, the slacks would have to come back from the boundary.
    """
    xp = array_namespace(target)
    predictor = newton.direction(xp.zeros_like(newton.at.slacks))
    reached = newton.complementarity(predictor, predictor.length) / float(2.0 * xp.sum(target))
    goal = max(mu * (max(reached, 0.0) / mu) ** 3, min(mu, least)) * target
    goals = newton.aims(goal, predictor)
    best = newton.direction(goals)
    for _ in range(_MAX_CORRECTORS):
        if best.length >= 0.9:
            break
        further = min(1.0, 1.5 * best.length + 0.1)
        goals = newton.pulled_back(goals, goal, best, further)
        tried = newton.direction(goals)
        if tried.length < best.length + 0.01 * further:
            return tried if tried.length > best.length else best
        best = tried
    return best


def _between(values: Array, least: Array, most: Array) -> Array:
    """Values moved into bounds; ``clip`` would look at the bounds' kind each time."""
    xp = array_namespace(values)
    return xp.minimum(xp.maximum(values, least), most)


def _start(
    problem: Problem, change: Array, scores: Array, tau: float, guess: Array | None
) -> _Iterate:
    """Put every row on a central path of its own: alpha p = beta q = tau w sigma(xi).

    With the slope w sigma(xi) held at its value above the kink, p solves a quadratic; whatever
    the distance r of a row from the kink, near or far on either side, it starts centred, and
    (unlike with the targets' sigma(F)) not too close to the boundary where it is far above.
    Rows with a guess of their multiplier start from it, and leave a residual in q instead.
    """
    xp = array_namespace(scores)
    u = problem.margins.margin(scores)
    floor = problem.loss.floor
    total = problem.weight * sigmoid(xp.maximum(u, floor))
    goal, reach = tau * total, u - floor
    root = xp.sqrt(reach**2 + 4.0 * tau**2)
    # the larger of the slacks p and q = p + r has no cancellation; then p q = tau (p + q)
    large = 0.5 * (root + xp.abs(reach)) + tau
    small = tau * large / (large - tau)
    alpha = goal / xp.where(reach > 0, small, large)
    if guess is not None:
        known = _between(problem.weight * guess, 0.02 * total, 0.98 * total)
        alpha = xp.where(xp.isnan(guess), alpha, known)
    beta = total - alpha
    beta = xp.where(beta > 0.5 * total, beta, goal / xp.where(reach > 0, large, small))
    if guess is not None:
        beta = xp.where(xp.isnan(guess), beta, total - alpha)
    multipliers = xp.stack([alpha, beta])
    slacks = goal / multipliers
    return _Iterate(change, scores, u, u + slacks[0, :], slacks, multipliers)


def interior_point(
    problem: Problem,
    model: Quadratic,
    scores: Array,
    *,
    tol: float,
    start: Array | None = None,
    tau: float = 1.0,
    guess: Array | None = None,
    max_iter: int = 100,
    progress: Callable[[float], None] | None = None,
) -> Inner:
    """Minimise the model plus the losses of all rows of ``problem``, whose floors are finite.

    Parameters
    ----------
    problem : Problem
        Rows, losses and weights; its penalty is expected inside ``model``.
    model : Quadratic
        Smooth part, in the change of the coefficients.
    scores : array of shape (n, Q)
        Scores before any change.
    tol : float
        Absolute complementarity and stationarity asked for, in units of the objective.
    start : array of shape (Q, p), optional
        Change of the coefficients to start from.
    tau : float
        Complementarity of the start, as a distance from the kink; small when it is good.
    guess : array of shape (n,), optional
        Multipliers of unit-weight losses to start from; NaN where there is none.
    max_iter : int
        Most iterations.
    progress : callable, optional
        Told the complementarity after each iteration.

    Returns
    -------
    Inner
        Change of the coefficients, scores after it, multipliers of unit-weight losses, the number
        of iterations, and whether what was asked for is reached.

    See Also
    --------
    Decomposed : Uses it for rows near the kink.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.designs import as_design
    >>> from grayzone.numerics.losses import TruncatedLogistic
    >>> from grayzone.numerics.margins import SignedMargin
    >>> from grayzone.solvers import Problem, Quadratic, interior_point
    >>> X, sign = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.0, 1.0])
    >>> loss = TruncatedLogistic(np.full(4, -1.0))
    >>> problem = Problem(as_design(X), SignedMargin(sign), loss, np.ones(4), penalty=1.0)
    >>> model = Quadratic(np.diag(problem.ridge()), np.zeros((1, 2)))
    >>> interior_point(problem, model, np.zeros((4, 1)), tol=1e-8).converged
    True
    """
    target = problem.weight * problem.loss.slope_at_floor
    xp = array_namespace(target)
    total = float(2.0 * xp.sum(target))
    if start is None:  # scores are a copy, which steps change
        start, scores = xp.zeros_like(model.gradient), xp.asarray(scores, copy=True)
    else:
        scores = scores + problem.design.scores(start)
    at = _start(problem, start, scores, tau, guess)
    systems = Systems(problem, model.hessian)
    newton_at = _LoopedNewton if _is_looped(problem) else _Newton
    best, least, since, short = float("inf"), float("inf"), 0, 0
    for n_iter in range(1, max_iter + 1):
        newton = newton_at(systems, model, at)
        comp, residual = newton.products, newton.residual()
        left = comp + residual
        if progress is not None:
            progress(left)
        if left <= tol or comp <= 1e-15 * total:
            return at.inner(problem, n_iter, True)
        # rounding errors set an end to what can be reached: stop when nothing improves
        since = 0 if left < 0.9 * best or comp < 0.9 * least else since + 1
        best, least = min(left, best), min(comp, least)
        if since >= _PATIENCE:
            break
        direction = _corrected(newton, target, comp / total, 0.1 * residual / total)
        short = short + 1 if direction.length < _SHORT else 0
        if short >= 2 and tau < 1.0:
            # too close to the boundary for what is left to do: back to the middle, further away
            tau, short, since = min(1.0, 30.0 * tau), 0, 0
            best = least = float("inf")
            at = _start(problem, at.change, at.scores, tau, None)
        else:
            length = _credible(newton, direction, min(1.0, _BACK_OFF * direction.length))
            newton.advance(direction, _straight(newton, direction, length))
    return at.inner(problem, n_iter, False)


def _credible(newton: _Newton, d: _Direction, t: float) -> float:
    """Shorten a step that the tangent of sigma(xi) misjudges.

    Where sigma is nearly flat its tangent may send xi far up, to where sigma is near 1.
    """
    at, weight = newton.at, newton.problem.weight
    xp = array_namespace(at.u)
    now = newton.mismatch
    allowed = max(0.2, 1.5 * now)
    # a tangent is off by no more than its share of the largest curvature
    furthest = t * d.furthest
    if now + 0.5 * _MOST_BENT * furthest * furthest <= allowed:  # its power would raise, not be inf
        return t

    def mismatch(t: float) -> float:
        total = xp.sum(at.multipliers + t * d.multipliers, axis=0)
        return float(xp.max(xp.abs(sigmoid(at.xi + t * d.xi) - total / weight)))

    while t > 1e-3 and mismatch(t) > allowed:
        t *= 0.5
    return t


def _straight(newton: _Newton, d: _Direction, t: float) -> float:
    """Shorten a step on which margins of several classes bend: they are no lines in the scores.

    By what they turn off these the residual of xi grows, which the step is to make smaller.
    """
    at, margins = newton.at, newton.problem.margins
    if newton.problem.n_outputs == 1:
        return t
    xp = array_namespace(at.u)
    pushed = margins.push(at.scores, d.scores)
    left = float(xp.max(xp.abs(newton.r_slacks[0, :])))

    def turn(t: float) -> float:
        return float(xp.max(margins.margin(at.scores + t * d.scores) - at.u - t * pushed))

    while t > 1e-3 and turn(t) > max(_TURN, t * left):
        t *= 0.5
    return t


def smooth_newton(
    problem: Problem, model: Quadratic, scores: Array, *, tol: float, max_iter: int = 50
) -> Inner:
    """Do the same for rows without a kink: damped Newton steps on the model plus their losses."""
    xp = array_namespace(scores)
    change = xp.zeros_like(model.gradient)
    w, loss, margins = problem.weight, problem.loss, problem.margins
    systems = Systems(problem, model.hessian)
    force = xp.reshape(model.gradient, (-1,))  # of the model, after the change
    slope, bend = loss.slopes(margins.margin(scores))
    lost: float | None = None  # at the scores, where it is known
    for n_iter in range(1, max_iter + 1):
        pull = w * slope
        solve, pulled = systems.at(scores, w * bend, pull, pull)
        gradient = force + xp.reshape(pulled, (-1,))
        z = -solve(gradient)
        step, curved = xp.reshape(z, change.shape), model.hessian @ z
        promised, rise, bent = -float(gradient @ z), float(force @ z), float(curved @ z)
        moved = problem.design.scores(step)
        t, there = 1.0, along(scores, moved, is_loaded=problem.design.is_loaded)
        before, (slope, bend) = (slope, bend), loss.slopes(margins.margin(there))
        uphill = float((w * slope) @ margins.push(there, moved)) + rise + bent
        # where nothing is curved, little is promised by a step that goes anywhere
        if promised <= tol and uphill <= max(tol, _LEVEL * promised):
            # slopes as the step has them, which leave no force on the coefficients it leads to
            linear = before[0] + before[1] * margins.push(scores, moved)
            linear = _between(linear, LEAST * slope, 1.0 - LEAST * (1.0 - slope))
            return Inner(change + step, there, linear, n_iter, True)
        # no higher than that slope: steps that may rise by more can go on in circles
        if uphill <= _LEVEL * tol:
            lost = None
        else:
            here = _lost(problem, scores) if lost is None else lost
            value = partial(_value, problem, scores, moved, rise, bent)
            t, reached = descend(value, -promised, here)
            if t == 0.0:
                return Inner(change, scores, before[0], n_iter, False)
            if t < 1.0:
                there = along(scores, moved, t, problem.design.is_loaded)
                slope, bend = loss.slopes(margins.margin(there))
                if here - reached <= _CRAWL * tol:
                    return Inner(change + t * step, there, slope, n_iter, False)
            lost = reached - t * (rise + 0.5 * t * bent)
        change, scores, force = change + t * step, there, force + t * curved
    return Inner(change, scores, slope, n_iter, False)


def _lost(problem: Problem, scores: Array) -> float:
    u, loss = problem.margins.margin(scores), problem.loss
    known = isinstance(loss, TruncatedLogistic | SmoothedLogistic)
    total = loss.value_sum(u, problem.weight) if known else None
    return float(problem.weight @ loss.value(u)) if total is None else total


def _value(
    problem: Problem, scores: Array, moved: Array, rise: float, bent: float, t: float
) -> float:
    """Losses after a step t, and what the model gains or loses by it."""
    there = along(scores, moved, t, problem.design.is_loaded)
    return _lost(problem, there) + t * (rise + 0.5 * t * bent)
