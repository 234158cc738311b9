"""A convex problem, a point in it, and the certificate that ties them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from grayzone.designs import Design
from grayzone.losses import SignedMargin, SoftmaxMargin, TruncatedLogistic, output_pairs

Array = Any


@dataclass(frozen=True)
class Problem:
    r"""Criterion (8): minimise :math:`\sum_i w_i h_i(u_i) + \tfrac{\lambda}{2}\|w\|^2`.

    Coefficients are (Q, p) arrays, Q = 1 for two classes and K for more, the unpenalised
    intercept in the last column. Margins u are (n,), scores (n, Q).
    """

    design: Design
    margins: SignedMargin | SoftmaxMargin
    loss: TruncatedLogistic
    weight: Array
    penalty: float

    @property
    def n_outputs(self) -> int:
        """Scores per row."""
        return self.margins.n_outputs

    def take(self, rows: Array, penalty: float | None = None) -> Problem:
        """Give the problem on these rows."""
        return Problem(
            self.design.take(rows),
            self.margins.take(rows),
            self.loss.take(rows),
            self.weight[rows],
            self.penalty if penalty is None else penalty,
        )

    def shrinkage(self, coef: Array) -> Array:
        """Gradient of the penalty."""
        xp = array_namespace(coef)
        return self.penalty * coef * xp.asarray(self.design.penalised())

    def penalty_value(self, coef: Array) -> float:
        """Value of the penalty."""
        xp = array_namespace(coef)
        return 0.5 * float(xp.sum(coef * self.shrinkage(coef)))

    def primal(self, coef: Array, u: Array) -> float:
        """Criterion (8) at coefficients whose margins are u."""
        xp = array_namespace(u)
        return float(xp.sum(self.weight * self.loss.value(u))) + self.penalty_value(coef)

    def gradient(self, scores: Array, a: Array) -> Array:
        """Gradient (Q, p) in the coefficients of sum(w a u); the penalty is not in it."""
        return self.design.gradient(self.margins.pull(scores, self.weight * a))

    def hessian(self, scores: Array, omega: Array, a: Array, rows: Array | None = None) -> Array:
        """Hessian (Qp, Qp) of rows with weights omega u'u'' + a u''; no penalty in it.

        ``scores``, ``omega`` and ``a`` belong to ``rows``; weights of rows are the caller's.
        """
        margins = self.margins if rows is None else self.margins.take(rows)
        xp = array_namespace(omega)
        grams = self.design.gram(margins.second_order(scores, omega, a), rows)
        q = self.n_outputs
        if q == 1:
            return grams[0, :, :]
        blocks: list[list[Any]] = [[None] * q for _ in range(q)]
        for i, (k, m) in enumerate(output_pairs(q)):
            blocks[k][m] = blocks[m][k] = grams[i, :, :]
        H = xp.concat([xp.concat(row, axis=1) for row in blocks], axis=0)
        return H + self._shift_guard(H) if self.design.fit_intercept else H

    def _shift_guard(self, H: Array) -> Array:
        """Curvature against adding one constant to all intercepts, which changes nothing else."""
        xp = array_namespace(H)
        p, q = self.design.n_coef, self.n_outputs
        last = xp.asarray([float(j % p == p - 1) for j in range(p * q)])
        scale = xp.sum(xp.linalg.diagonal(H) * last) / q
        return scale * last[:, None] * last[None, :]

    def ridge(self) -> Array:
        """Diagonal (Qp,) of the penalty's Hessian."""
        xp = array_namespace(self.weight)
        return xp.tile(self.penalty * xp.asarray(self.design.penalised()), (self.n_outputs,))


@dataclass(frozen=True)
class Certificate:
    """Primal value, a feasible dual point and the distance of the two values.

    ``duals`` (n, Q) are the dual variables of unit-weight losses, balanced so that the
    intercept's condition holds exactly; ``gap = primal - dual`` is summed from non-negative
    terms and so is honest far below the rounding error of the two values.
    """

    primal: float
    gap: float
    loss_part: float
    duals: Array

    @property
    def relative(self) -> float:
        """(P - D) / P."""
        return self.gap / self.primal if self.primal > 0 else 0.0


def certify(problem: Problem, coef: Array, scores: Array, a: Array) -> Certificate:
    """Bound the distance to the optimum, from multipliers ``a`` of the margins.

    P - D = sum of weighted Fenchel-Young losses + (lambda / 2) |w - w(a)|^2, which needs
    the duals of an unpenalised intercept to sum to zero.
    """
    xp = array_namespace(scores)
    margins, design = problem.margins, problem.design
    duals = margins.pull(scores, a)
    if design.fit_intercept:
        duals = margins.balance(duals, problem.weight)
    fit = float(xp.sum(problem.weight * margins.fenchel_young(problem.loss, scores, duals)))
    pulled = design.gradient(problem.weight[:, None] * duals) + problem.shrinkage(coef)
    free = pulled * xp.asarray(design.penalised())
    gap = fit + 0.5 * float(xp.sum(free**2)) / problem.penalty
    primal = problem.primal(coef, margins.margin(scores))
    return Certificate(primal, gap, fit, duals)


@dataclass(frozen=True)
class State:
    """A point on the way: coefficients, their scores, and multipliers of the margins.

    ``memory`` is the solver's own; the loop never looks at it. ``settled`` says that a
    certificate is worth its price, ``stalled`` that no further step will help. ``raw`` are
    multipliers before small ones were set to zero, for when the sparser ones do not certify.
    """

    coef: Array
    scores: Array
    multipliers: Array
    memory: Any = None
    settled: bool = True
    stalled: bool = False
    raw: Array | None = None
