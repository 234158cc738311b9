r"""The truncated likelihood with an l1 penalty, its certificate, and what it leaves out for sure.

.. math:: \sum_i w_i h_i(u_i) + \kappa_1 \|a\|_1 + \tfrac{\kappa_2}{2} a'Ma

where the coefficients a are those of the columns of a matrix X: features, with M the identity, or
the training rows that span a function of a kernel (Roth's expansion, §3.3 of Hérault & Grandvalet
(2007)), X = M being the kernel matrix. With multipliers alpha of the margins, balanced for the
intercept, let e be minus the gradient of the losses and of the ridge in a. Any
:math:`\tau \le 1` with :math:`\tau |e_j| \le \kappa_1` for all j makes (tau alpha, tau a) feasible
in the dual, and

.. math:: P - D = \sum_i w_i\, \mathrm{FY}_i(u_i, \tau\alpha_i)
          + \sum_j (\kappa_1 |a_j| - \tau e_j a_j) + \tfrac{\kappa_2}{2} (1 - \tau)^2 a'Ma,

a sum of terms that are never negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from grayzone.solvers.certificate import Certificate, terms_of
from grayzone.solvers.problem import Problem
from grayzone.solvers.sparse.columns import Columns

Array = Any

# What rows away from the kink may shift a feature's pull, as a share of the penalty.
_KINK_SHARE = 0.1
# Rounding of a pull, relative to what it is the sum of.
_ROUNDING = 1e-12


class Certified(NamedTuple):
    """A certificate, and what screening needs of it."""

    certificate: Certificate
    force: Array  # (Q, m): e, of the columns that are left
    duals: Array  # (n, Q): balanced, not yet scaled


@dataclass(frozen=True)
class SparseProblem:
    """Rows and losses in ``problem``, whose penalty is the ridge; columns that may be selected.

    Attributes
    ----------
    problem : Problem
        Margins, losses and weights; its design is not used, its penalty is kappa_2.
    columns : Columns
        The columns that are left, of all or of those that screening has kept.
    l1 : float
        The penalty kappa_1.
    """

    problem: Problem
    columns: Columns
    l1: float

    @property
    def ridge(self) -> float:
        """The penalty kappa_2."""
        return self.problem.penalty

    @property
    def mass(self) -> float:
        """Weight of all rows."""
        return self.problem.mass

    @property
    def fit_intercept(self) -> bool:
        """Whether there is an intercept."""
        return self.problem.design.fit_intercept

    def penalty_value(self, slopes: Array, values: Array) -> float:
        """Value of the penalty of slopes (Q, m), whose scores without intercept are (n, Q)."""
        total = self.l1 * float(np.abs(slopes).sum())
        if self.ridge:
            total += 0.5 * self.ridge * self.columns.square(slopes, values)
        return total

    def loss_value(self, u: Array) -> float:
        """Weighted sum of the losses."""
        loss = self.problem.loss
        return self.problem.weighted_sum(lambda rows: loss.take(rows).value(u[rows]))

    def certify(self, slopes: Array, intercept: Array, scores: Array, a: Array) -> Certified:
        """Bound the distance to the optimum, from multipliers ``a`` of the margins."""
        problem, margins = self.problem, self.problem.margins
        duals = margins.pull(scores, a)
        if self.fit_intercept:
            duals = margins.balance(duals, problem.weight)
        values = scores - intercept
        force = -self.columns.pulled(problem.weight[:, None] * duals)
        if self.ridge:
            force -= self.ridge * self.columns.metric(slopes, values)
        most = float(np.abs(force).max(initial=0.0))
        tau = 1.0 if most <= self.l1 else self.l1 / most
        u = margins.margin(scores)
        gap = terms_of(problem, scores, tau * duals, spanned=True).distance
        gap += float(np.sum(np.maximum(self.l1 * np.abs(slopes) - tau * force * slopes, 0.0)))
        if self.ridge:
            square = self.columns.square(slopes, values)
            gap += 0.5 * self.ridge * (1.0 - tau) ** 2 * square
        primal = self.loss_value(u) + self.penalty_value(slopes, values)
        return Certified(Certificate(primal, gap, tau * duals), force, duals)

    # ------------------------------------------------------------------------------------------
    # Screening
    # ------------------------------------------------------------------------------------------

    @property
    def can_screen(self) -> bool:
        """Whether there is a safe rule: for two classes, and for more without caps."""
        return self.problem.n_outputs == 1 or not np.any(np.isfinite(self.problem.loss.floor))

    def kept(self, scores: Array, found: Certified) -> Array:
        r"""Return which columns may have a coefficient at the optimum; the others have none.

        At the optimum's multipliers the Fenchel-Young losses of the rows sum to at most the gap G.
        Away from the kink they are at least twice the squared distance to the slope of the loss,
        but for what is below sigma(F), where they are the distance to the kink times the change;
        rows closer to the kink than delta may have any multiplier up to that slope. So

        .. math:: |e^*_j - e_j| \le \sum_i w_i |x_{ij}| t_i + \max_i |x_{ij}| G / \delta
                  + \|\sqrt w x_j\| \sqrt{G / 2} + \sqrt{2 G \kappa_2 M_{jj}}

        with t_i the slope itself near the kink, elsewhere what the multiplier is off the slope.
        """
        problem, gap = self.problem, max(found.certificate.gap, 0.0)
        loss, margins = problem.loss, problem.margins
        u = margins.margin(scores)
        off = np.abs(found.duals - margins.pull(scores, loss.slope(u))).max(axis=1)
        norms = self.columns.norms(problem.weight)
        radius = norms * sqrt(0.5 * gap)
        largest, kinked = self.columns.largest, np.isfinite(loss.floor)
        if np.any(kinked):
            top = float(largest.max(initial=0.0))
            delta = gap * top / (_KINK_SHARE * self.l1)
            near = kinked & (np.abs(u - np.where(kinked, loss.floor, 0.0)) <= delta)
            slope = loss.value(u)  # sigma of max(u, F) is one minus e to the minus loss
            off = np.where(near, -np.expm1(-slope), off)
            if delta > 0.0:
                radius = radius + largest * (gap / delta)
            radius = radius + self.columns.absolute_sums(problem.weight * off)
        else:
            radius = radius + norms * sqrt(float(problem.weight @ off**2))
        if self.ridge:
            radius = radius + np.sqrt(2.0 * gap * self.ridge * self.columns.diagonal)
        size = np.abs(found.force).max(axis=0)
        slack = _ROUNDING * (self.l1 + largest * float(problem.weight.sum()))
        return size + radius + slack >= self.l1
