r"""Generalised approximate cross-validation: what held-out rows would lose, from one fit to all.

Leaving row i out changes its own score by its influence :math:`h_i = \partial f_i/\partial y_i`,
about; with influences replaced by their mean this is, for two classes (Xiang & Wahba, 1996; Lin et
al., 2000, whom Zhu & Hastie, 2002, §2, name),

.. math:: \mathrm{GACV} = \frac1n \sum_i \ell_i + \frac{\sum_i h_i}{n}\,
          \frac{\sum_i y_i (y_i - p_i)}{n - \sum_i p_i (1 - p_i) h_i}, \qquad
          h_i = \phi_i' A^{-1} \phi_i,

where A is the Hessian of the criterion on the span. Rows count as often as they weigh.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from array_api_compat import device

from grayzone.numerics.losses import sigmoid
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.greedy.growth import Growth
from grayzone.solvers.greedy.refit import Point
from grayzone.sources.labelled import Rows
from grayzone.sources.source import Sums

Array = Any


def approximate_cv(growth: Growth) -> float:
    """Return GACV of the function as it is now: two classes, losses without kinks."""
    fitted = growth.fitted
    xp, coef = array_namespace(fitted.coef), fitted.coef
    eye = xp.eye(coef.shape[1], dtype=coef.dtype, device=device(coef))
    task = _Influence(fitted.point, fitted.solve(eye))
    sums = growth.basis.spanned(growth.labelled).reduce(task)
    left = sums["weight"] - sums["bent"]
    if not left > 0.0:  # as many columns as rows
        return inf
    n = sums["weight"]
    return float(sums["loss"] / n + sums["influence"] / n * sums["missed"] / left)


@dataclass(frozen=True)
class _Influence:
    """Sums over rows of what the formula asks for."""

    point: Point
    inverse: Array  # (p, p), of the Hessian

    def __call__(self, rows: Rows, phi: Array) -> Sums:
        xp, weight = array_namespace(phi), rows.weight
        problem, (scores, u, _, _) = self.point.derivatives(rows, phi)
        if self.point.criterion.fit_intercept:
            phi = xp.concat([phi, xp.ones_like(scores)], axis=1)
        influence = xp.sum(xp.matmul(phi, self.inverse) * phi, axis=1)
        p, positive = sigmoid(scores[:, 0]), xp.astype(rows.codes, phi.dtype)
        return {
            "weight": float(xp.sum(weight)),
            "loss": float(xp.sum(weight * problem.loss.value(u))),
            "influence": float(xp.sum(weight * influence)),
            "bent": float(xp.sum(weight * p * (1.0 - p) * influence)),
            "missed": float(xp.sum(weight * positive * (positive - p))),
        }
