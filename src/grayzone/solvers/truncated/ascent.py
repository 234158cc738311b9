r"""Dual ascent, one row at a time: linear functions of sparse rows with very many features.

With slopes w(a) = sum a_i w_i y_i x_i / lambda the dual of criterion (8) is, along the multiplier
of a single row, concave with the derivative u_i(a) - h*'(a_i): a line up to sigma(F), where rows
are saturated or on the hinge, and a logit above. Its maximum costs one reading of the row, so
that a pass over all rows costs what two products with X do, and kinks cost nothing
(coordinate ascent, after Hsieh et al., 2008, and Yu et al., 2011, for the losses of [1]_).

The unpenalised intercept b asks for sum a_i w_i y_i = 0. It is held near where it was by a penalty
mu (b - b')^2 / 2 of its own, which leaves every multiplier free, and b' follows b after each pass
(the method of multipliers). A weak mu would tie all rows together: they would have to wait for each
other.

Rows are visited in stretches, which memory likes, and these in another order in each pass: in one
and the same order rows that resemble each other would take hundreds of passes.

References
----------
.. [1] Hérault, R. & Grandvalet, Y. (2007). Sparse probabilistic classifiers. ICML.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf, log
from typing import Any

import numpy as np

from grayzone.numerics.designs import MANY_STORED, SparseDesign, unsigned
from grayzone.numerics.losses import sigmoid
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers.certificate import Certified, certify
from grayzone.solvers.problem import Problem

Array = Any

_STRETCH = 64  # most rows that are visited one after the other
_STRETCHES = 256  # fewest stretches, where there are as many rows
_HELD = 0.05  # penalty of the intercept, in units of the curvature of the losses along it
_WORTH_CERTIFYING = 3.0  # distance seen in a pass, in units of the tolerance, that may be the last
# Passes that tell how many more it takes, and how many these may be: on smooth losses Newton's
# method does better than a slow ascent, and on kinks it does not.
_SMOOTH, _KINKED = (10, 50), (50, 5000)


def suits_ascent(problem: Problem) -> bool:
    """Whether rows are two classes of sparse ones, stored by rows without repetitions."""
    design = problem.design
    if not (isinstance(design, SparseDesign) and isinstance(problem.margins, SignedMargin)):
        return False
    X = design.X
    return X.format == "csr" and X.nnz >= MANY_STORED and bool(X.has_canonical_format)


@dataclass(frozen=True)
class AscentState:
    """Multipliers and what they span, after a pass."""

    coef: Array
    multipliers: Array
    settled: bool = False
    stalled: bool = False
    value: float = inf

    def certified(self, problem: Problem, tol: float, last: bool) -> Certified:
        """Certify by the multipliers themselves."""
        scores, a = problem.design.scores(self.coef), self.multipliers
        found = certify(problem, self.coef, scores, a)
        return Certified(self.coef, found, int(np.count_nonzero(a > 0)), scores, a)


class Ascent:
    """Raise the dual value a row at a time; for sparse rows of two classes.

    Parameters
    ----------
    seed : int
        Draws the order of the rows.

    See Also
    --------
    solve : Runs it.
    choose : When it is chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from grayzone.numerics.designs import as_design
    >>> from grayzone.numerics.losses import TruncatedLogistic
    >>> from grayzone.numerics.margins import SignedMargin
    >>> from grayzone.solvers import Ascent, Problem, solve
    >>> X = csr_array(np.array([[0.0], [1.0], [2.0], [3.0]]))
    >>> sign = np.array([-1.0, 1.0, -1.0, 1.0])
    >>> loss = TruncatedLogistic(np.full(4, -1.0))
    >>> problem = Problem(as_design(X), SignedMargin(sign), loss, np.ones(4), penalty=1.0)
    >>> solve(problem, Ascent(), tol=1e-6, max_iter=200).status.name
    'CONVERGED'
    """

    patience = _KINKED[1]

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def init(self, problem: Problem, start: Array | None) -> AscentState:
        """Start from no multipliers, or from those of start coefficients if they are better."""
        self._passes = _Passes(problem, self.seed)
        kinked = bool(np.any(np.isfinite(problem.loss.floor)))
        seen, self._ahead = _KINKED if kinked else _SMOOTH
        self._seen: deque[float] = deque(maxlen=seen)
        coef, a = problem.prior_coef(), np.zeros(problem.weight.shape[0])
        if start is not None:
            known = problem.loss.slope(problem.margins.margin(problem.design.scores(start)))
            spanned = self._passes.spanned(known, start)
            if self._passes.dual(known, spanned) > self._passes.dual(a, coef):
                coef, a = spanned, known
        return AscentState(coef, a)

    def step(self, problem: Problem, state: AscentState, tol: float) -> AscentState:
        """Pass over the rows once."""
        coef, a = state.coef.copy(), state.multipliers.copy()
        loss, distance = self._passes.one(coef, a)
        if not np.isfinite(loss):
            raise FloatingPointError
        goal = tol * (loss + problem.penalty_value(coef))
        self._seen.append(distance)
        settled = distance <= _WORTH_CERTIFYING * goal
        return AscentState(coef, a, settled, not settled and self._too_slow(goal))

    def _too_slow(self, goal: float) -> bool:
        """Whether it would take too many passes more, at the pace of the last ones."""
        if len(self._seen) < (self._seen.maxlen or 0):
            return False
        first, now = self._seen[0], self._seen[-1]
        pace = log(first / now) / len(self._seen)
        return pace * self._ahead < log(now / goal)


class _Passes:
    """The rows of a problem, laid out for the compiled pass."""

    def __init__(self, problem: Problem, seed: int) -> None:
        assert isinstance(problem.margins, SignedMargin)  # as was asked before
        self.problem, self.y = problem, problem.margins.y
        self.order = np.random.default_rng(seed)
        design, w = problem.design, problem.weight
        self.own = w * design.row_squares() / problem.penalty
        prior = np.full((design.n_rows, 1), problem.prior_coef()[0, -1])
        self.hold(sigmoid(problem.margins.margin(prior)))
        self.indptr, self.indices = unsigned(design.X.indptr, design.X.indices)
        self.length = max(1, min(_STRETCH, design.n_rows // _STRETCHES))
        self.stretches = -(-design.n_rows // self.length)

    def hold(self, a: Array) -> None:
        """Hold the intercept as firmly as multipliers say that it is known."""
        w, self.per_shift = self.problem.weight, 0.0
        if self.problem.design.fit_intercept:
            self.per_shift = 1.0 / max(_HELD * float(w @ (a * (1.0 - a))), 1e-9 * float(np.sum(w)))
        self.bends = np.maximum(self.own + w * self.per_shift, 1e-300)  # of a row of zeros: none

    def spanned(self, a: Array, coef: Array) -> Array:
        """Coefficients whose slopes the multipliers span, with a given intercept."""
        design = self.problem.design
        slopes = design.gradient((self.problem.weight * a * self.y)[:, None]) / self.problem.penalty
        if design.fit_intercept:
            slopes[:, -1] = coef[:, -1]
        return slopes

    def dual(self, a: Array, coef: Array) -> float:
        """Value of the dual with the intercept held; the slopes are those that ``a`` spans."""
        problem = self.problem
        value = float(problem.weight @ problem.loss.conjugate(a)) + problem.penalty_value(coef)
        if not problem.design.fit_intercept:
            return -value
        excess = float(np.sum(problem.weight * a * self.y))
        return -value - excess * (float(coef[0, -1]) + 0.5 * self.per_shift * excess)

    def one(self, coef: Array, a: Array) -> tuple[float, float]:
        """One pass; changes both arrays, and gives losses and distances as they were on the way."""
        # compiles, so only when needed
        from grayzone.numerics.jit import ascend_rows

        problem, d = self.problem, self.problem.design.n_features
        intercept = float(coef[0, d]) if problem.design.fit_intercept else 0.0
        intercept, loss, distance = ascend_rows(
            self.order.permutation(self.stretches),
            self.length,
            self.indptr,
            self.indices,
            problem.design.X.data,
            self.y,
            problem.weight,
            self.bends,
            problem.loss.floor,
            problem.loss.slope_at_floor,
            a,
            coef[0, :d],
            intercept,
            1.0 / problem.penalty,
            self.per_shift,
        )
        if problem.design.fit_intercept:
            excess = float(np.sum(problem.weight * a * self.y))
            coef[0, d] = intercept + self.per_shift * excess
            self.hold(a)
        return loss, distance
