r"""Import points that leave their rows: centres are moved to where the criterion is less.

The direct sparse expansion of Wu, Schölkopf & Bakır (2006), which Hérault & Grandvalet (2007, §3.3)
name: at the best coefficients :math:`a` of given centres, H is a function of the centres alone, and
its gradient is the one at fixed coefficients,

.. math:: \frac{\partial H}{\partial z_j} = 2\gamma \sum_q a_{qj} \Bigl[
          \sum_i g_{iq} K(x_i, z_j)(x_i - z_j)
          + \lambda \sum_k a_{qk} K(z_k, z_j)(z_k - z_j)\Bigr],

where :math:`g_{iq}` is the slope of row i's loss in its q-th score. H is not convex in the centres:
what is found is near where they start, at the import points, and never worse.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from grayzone.numerics.kernels import Kernel
from grayzone.numerics.linalg import lower_factor
from grayzone.solvers.greedy.columns import KernelColumns
from grayzone.solvers.greedy.criterion import Criterion
from grayzone.solvers.greedy.growth import Model
from grayzone.solvers.greedy.refit import Fitted, refit
from grayzone.solvers.greedy.span import Known, Span, Spanned, solve_lower
from grayzone.sources.labelled import Labelled

Array = Any

MOST_MOVES, MOST_FITS = 100, 200
# Residual power below which a centre is one of the others, as of import points.
_LEAST_POWER = 1e-8
# Widths of the kernel that a step may lead to: nothing is there.
_FARTHEST = 1e6


class Moves(NamedTuple):
    """The model whose points have moved, and the criterion after each step."""

    model: Model
    path: list[float]


class _Place(NamedTuple):
    """Centres with the best function on them."""

    centres: Array
    span: Span
    fitted: Fitted
    dual_coef: Array
    slope: Array  # of the criterion in the centres


class _EnoughError(Exception):
    """There is little left to gain."""


def move_points(
    labelled: Labelled, criterion: Criterion, model: Model, tol: float, lag: int
) -> Moves:
    """Move the points of a model downhill, by L-BFGS.

    Parameters
    ----------
    labelled : Labelled
        Dense rows that NumPy holds.
    criterion : Criterion
        Losses, penalty and intercept.
    model : Model
        Where to start: its kernel is "rbf".
    tol, lag : float, int
        Moves end once ``lag`` of them have gained less than ``tol`` times the criterion.

    Returns
    -------
    moves : Moves
        The best model that was seen; ``numbers`` stay those of the rows it started from.
    """
    descent = _Descent(labelled, criterion, model)
    if not descent.best.centres.size:
        return Moves(model, [])
    path = [model.fitted.objective]

    def see(_: Array) -> None:
        path.append(descent.best.fitted.objective)
        if len(path) > lag and path[-1 - lag] - path[-1] < tol * path[-1]:
            raise _EnoughError

    with suppress(_EnoughError):
        minimize(
            descent,
            descent.scale * descent.best.centres.ravel(),
            jac=True,
            method="L-BFGS-B",
            callback=see,
            options={"maxiter": MOST_MOVES, "maxfun": MOST_FITS, "ftol": 0.0, "gtol": 0.0},
        )
    return Moves(descent.model(model), path[1:])


class _Descent:
    """The criterion as a function of the centres, which remembers the best of them."""

    def __init__(self, labelled: Labelled, criterion: Criterion, model: Model) -> None:
        assert labelled.held is not None
        self.labelled, self.criterion, self.rows = labelled, criterion, labelled.held
        self.kernel: Kernel = model.span.points.kernel
        self.X = np.asarray(self.rows.X, dtype=np.float64)
        # in units of the kernel's width steps do not depend on that of the features
        self.scale = sqrt(2.0 * self.kernel.gamma)
        centres = np.array(model.vectors, dtype=np.float64)
        a, intercept = model.dual_coef, model.fitted.coef[:, model.span.size :]
        self.best = self._at(centres, model.span, a, intercept)

    def __call__(self, flat: Array) -> tuple[float, Array]:
        centres = flat.reshape(self.best.centres.shape) / self.scale
        try:
            away = np.abs(flat - self.scale * self.best.centres.ravel())
            if not np.max(away) < _FARTHEST:
                raise FloatingPointError("a centre is far from all rows")
            right = self.kernel.right(centres)
            factor = lower_factor(self.kernel.between(self.kernel.flipped(right), right))
            if not np.min(np.diag(factor)) ** 2 >= _LEAST_POWER:
                raise FloatingPointError("two centres are one")
            span = Span(KernelColumns(self.kernel, right, keeps=True), factor)
            best = self.best
            intercept = best.fitted.coef[:, span.size :]
            here = self._at(centres, span, best.dual_coef, intercept)
        except FloatingPointError:  # a shorter step is tried
            return 2.0 * self.best.fitted.objective, np.zeros_like(flat)
        if here.fitted.objective < self.best.fitted.objective:
            self.best = here
        return here.fitted.objective, here.slope.ravel() / self.scale

    def _at(self, centres: Array, span: Span, a: Array, intercept: Array) -> _Place:
        """Fit to centres, from coefficients of others, and look where it goes down."""
        values = span.points.values(self.rows)
        phi = solve_lower(span.factor, values.T).T
        start = np.concatenate([a @ span.factor, intercept], axis=1)
        fitted = refit(Spanned(self.labelled, Known(phi)), self.criterion, start)
        assert fitted is not None
        a = solve_lower(span.factor, fitted.coef[:, : span.size].T, transposed=True).T
        pull = (fitted.point.in_scores(self.rows, phi)[0] @ a) * values
        own = self.criterion.penalty * (a.T @ a) * (span.factor @ span.factor.T)
        force = pull.T @ self.X + own.T @ centres
        force -= (pull.sum(axis=0) + own.sum(axis=0))[:, None] * centres
        return _Place(centres, span, fitted, a, 2.0 * self.kernel.gamma * force)

    def model(self, before: Model) -> Model:
        """Return the best model seen; the one before where that is it."""
        best = self.best
        if not best.fitted.objective < before.fitted.objective:
            return before
        intercept = before.intercept
        if self.criterion.fit_intercept:
            intercept = best.fitted.coef[:, best.span.size]
        return replace(
            before,
            vectors=best.centres,
            dual_coef=best.dual_coef,
            intercept=intercept,
            span=best.span,
            fitted=best.fitted,
        )
