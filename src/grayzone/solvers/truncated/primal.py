r"""Newton's method on a smoothed kink: §4.1 of Hérault & Grandvalet (2007).

The paper proposes to round the kink off by a polynomial (after Chapelle, 2007) and to run
Newton-Raphson in the primal. Here the rounding
(:class:`~grayzone.numerics.losses.SmoothedLogistic`) has two continuous derivatives, and its width
shrinks until the duality gap of the *exact* problem is as small as asked. The slopes of the
smoothed loss are the dual point.

Systems are solved by Cholesky factors where the Hessian fits, and by preconditioned conjugate
gradients where it does not (sparse data with 10^5 features), never forming a d x d matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np

from grayzone.numerics.linalg import factorise, level
from grayzone.numerics.losses import SmoothedLogistic, TruncatedLogistic
from grayzone.numerics.margins import output_pairs
from grayzone.solvers.certificate import State
from grayzone.solvers.problem import Problem

Array = Any

# Coefficients up to which a Hessian is formed: 3000^2 doubles are 72 MB.
MAX_FACTORISED = 3000
_SHRINK = 0.2
_MAX_CG = 500


@dataclass(frozen=True)
class _Smoothing:
    width: float
    before: float  # the width of the step before: larger where it was just narrowed
    trust: float = 0.1  # relative residual asked of conjugate gradients
    promised: float = inf  # decrease that the last step promised


class Primal:
    """Take Newton steps on a smoothed kink; for any design in NumPy's memory.

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
    >>> from grayzone.solvers import Primal, Problem, solve
    >>> X, sign = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.0, 1.0])
    >>> loss = TruncatedLogistic(np.full(4, -1.0))
    >>> problem = Problem(as_design(X), SignedMargin(sign), loss, np.ones(4), penalty=1.0)
    >>> solve(problem, Primal(), tol=1e-6, max_iter=200).status.name
    'CONVERGED'
    """

    patience = 25

    def init(self, problem: Problem, start: Array | None) -> State:
        """Start from given coefficients or the class priors, with a wide rounding."""
        coef = problem.prior_coef() if start is None else start
        scores = problem.design.scores(coef)
        u = problem.margins.margin(scores)
        width = 1.0 if np.any(np.isfinite(problem.loss.floor)) else 0.0
        smoothing = _Smoothing(width, width)
        return State(coef, scores, u, _loss(problem, width).slope(u), memory=smoothing)

    def step(self, problem: Problem, state: State, tol: float) -> State:
        """One Newton step on the smoothed objective; narrow the rounding when it is what limits."""
        smoothing: _Smoothing = state.memory
        width = smoothing.width
        loss = _loss(problem, width)
        narrowed = width < smoothing.before
        at = _carried(problem, state.u, smoothing) if narrowed else state.u
        slope, bend = loss.slopes(at)
        pull = slope + bend * (state.u - at) if narrowed else slope
        gradient, change = _newton_direction(problem, state, slope, bend, pull, smoothing.trust)
        moved = problem.design.scores(change)
        promised = -problem.pairing(gradient, change, moved)
        t = 1.0 if narrowed else _search(problem, state, loss, change, moved, promised)
        coef, scores = state.coef + t * change, state.scores + t * moved
        u = problem.margins.margin(scores)
        multipliers = loss.slope(u)
        bent = np.flatnonzero(np.abs(u - problem.loss.floor) < width)
        rounding = _rounding_gap(problem, u, multipliers, bent)
        primal = problem.primal(coef, u, scores)
        # far from the optimum of this width there is nothing to certify and no reason to narrow
        settled = not narrowed and promised <= max(0.1 * rounding, 1e-3 * tol * primal)
        return State(
            coef,
            scores,
            u,
            multipliers,
            touched=bent,
            settled=settled,
            stalled=t == 0.0 or (settled and width < 1e-15),
            value=primal,
            memory=_next(smoothing, settled, promised, primal),
        )


def _loss(problem: Problem, width: float) -> TruncatedLogistic | SmoothedLogistic:
    return SmoothedLogistic(problem.loss, width) if width else problem.loss


def _rounding_gap(problem: Problem, u: Array, slope: Array, bent: Array) -> float:
    """Part of the duality gap that the rounding answers for; only rows on it have any."""
    loss = problem.loss.take(bent)
    return float(problem.weight[bent] @ loss.fenchel_young(u[bent], slope[bent]))


def _carried(problem: Problem, u: Array, smoothing: _Smoothing) -> Array:
    """Where margins on the rounded piece go when it narrows: to the same place on the new one.

    Their slopes, the dual variables, are then unchanged. Newton steps from margins left where they
    were would find most of them off the new piece, and start all over.
    """
    floor = problem.loss.floor
    bent = np.isfinite(floor) & (np.abs(u - floor) < smoothing.before)
    distance = np.where(bent, u - floor, 0.0)
    ratio = smoothing.width / smoothing.before
    return np.where(bent, u - (1.0 - ratio) * distance, u)


def _search(
    problem: Problem, state: State, loss: Any, change: Array, moved: Array, promised: float
) -> float:
    pull = problem.penalty * problem.design.dot(state.coef, change, moved)
    bend = problem.penalty * problem.design.dot(change, change, moved)

    def slope_at(t: float) -> float:
        scores = state.scores + t * moved
        a = loss.slope(problem.margins.margin(scores))
        fit = float(np.sum(problem.weight * a * problem.margins.push(scores, moved)))
        return fit + pull + t * bend

    return level(slope_at, -promised)


def _next(smoothing: _Smoothing, settled: bool, promised: float, primal: float) -> _Smoothing:
    width = smoothing.width * (_SHRINK if settled else 1.0)
    share = promised / primal if primal > 0.0 else 0.0  # losses of all rows may have vanished
    trust = min(0.1, max(1e-3, sqrt(max(share, 0.0))))
    return _Smoothing(width, smoothing.width, trust, promised)


def _newton_direction(
    problem: Problem, state: State, slope: Array, bend: Array, pull: Array, trust: float
) -> tuple[Array, Array]:
    """Gradient of the smoothed objective, and the Newton direction."""
    w, scores = problem.weight, state.scores
    omega, a = w * bend, w * slope
    shrunk = problem.shrinkage(state.coef)
    if state.coef.size > MAX_FACTORISED or not problem.design.forms_gram:
        gradient = problem.gradient(scores, pull) + shrunk
        return gradient, -_by_conjugate_gradients(problem, scores, omega, a, gradient, trust)
    H, pulled = problem.second_order(scores, omega, a, w * pull)
    H[np.diag_indices_from(H)] += problem.ridge()
    gradient = pulled + shrunk
    return gradient, -factorise(H)(gradient.ravel()).reshape(gradient.shape)


def _by_conjugate_gradients(
    problem: Problem, scores: Array, omega: Array, a: Array, gradient: Array, trust: float
) -> Array:
    design, margins = problem.design, problem.margins

    def product(v: Array, moved: Array) -> Array:
        bent = margins.curve(scores, omega, a, moved)
        return design.gradient(bent) + problem.shrinkage(v)

    pairs = output_pairs(problem.n_outputs)
    squares = [i for i, (k, m) in enumerate(pairs) if k == m]
    diagonal = design.square_sums(margins.second_order(scores, omega, a)[:, squares])
    diagonal += problem.ridge().reshape(diagonal.shape)
    diagonal += 1e-12 * diagonal.max()
    return _conjugate_gradients(problem, product, gradient, diagonal, trust, _MAX_CG)


def _conjugate_gradients(
    problem: Problem,
    product: Callable[[Array, Array], Array],
    rhs: Array,
    diagonal: Array,
    rtol: float,
    max_iter: int,
) -> Array:
    """Solve product(x, scores of x) = rhs, preconditioned by a diagonal, to a relative residual.

    In the inner product of the function space: the scores of a direction, which that needs
    where a kernel gives it, are also what the next product starts from.
    """
    x = np.zeros_like(rhs)
    r = rhs.copy()
    d, moved = np.zeros_like(rhs), np.zeros(())
    rz = goal = 1.0
    for k in range(max_iter):
        z = r / diagonal
        scores = problem.design.scores(z)
        rz, old = problem.pairing(r, z, scores), rz
        goal = rtol**2 * rz if k == 0 else goal
        if rz <= goal * (k > 0) or rz == 0.0:
            break
        d, moved = (z, scores) if k == 0 else (z + (rz / old) * d, scores + (rz / old) * moved)
        Hd = product(d, moved)
        alpha = rz / problem.pairing(Hd, d, moved)
        x += alpha * d
        r -= alpha * Hd
    return x
