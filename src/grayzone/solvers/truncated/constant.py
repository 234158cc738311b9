"""The constant model: what no fit may be worse than, and what some optima are.

Where the class priors are outside the zone, the rows of a class are saturated by a constant; its
optimum may then be the optimum of all functions, whatever C is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from grayzone.numerics.backend import moved
from grayzone.numerics.losses import softplus
from grayzone.solvers.certificate import Certificate
from grayzone.solvers.loop import MOST_SILENT, Solution, Status, solve
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.decomposed import Decomposed
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

_FLAT = 1e-3  # standard deviation of the scores of a constant, in half-widths of the zone


def _of_classes(spec: TruncatedSpec, labelled: Labelled) -> Problem:
    """One row a class, which weighs what its rows do, and nothing that tells them apart."""
    mass, linear = labelled.mass * labelled.factors, replace(spec, kernel=None)
    return linear.problem(Rows(np.zeros((mass.size, 1)), np.arange(mass.size), mass))


def no_worse(
    problem: Any,
    labelled: Labelled,
    spec: TruncatedSpec,
    solution: Solution,
    *,
    start: Array | None,
    tol: float,
) -> Solution:
    """Return the solution, or the start or the best constant where one of these is better.

    Parameters
    ----------
    problem : Problem or StreamedProblem
        What was solved.
    labelled : Labelled
        Its rows.
    spec : TruncatedSpec
        Its losses and its penalty.
    solution : Solution
        What was found; it stays as it is where its gap says that nothing can be better.
    start : array of shape (Q, p) or None
        Coefficients that the fit was given to start from.
    tol : float
        Relative gap asked for.

    Returns
    -------
    solution : Solution
        With the status of the one that was found.
    """
    found = solution.certificate
    if found.relative <= tol:
        return solution
    few = _of_classes(spec, labelled)
    constant = array_namespace(solution.coef).zeros_like(solution.coef)
    if spec.fit_intercept:
        best = solve(few, Decomposed(), tol=1e-12, max_iter=100).coef[:, -1]
        constant[:, -1] = moved(best, constant)
    coef, least = None, found.primal if isfinite(found.primal) else np.inf
    for other in (start, constant):
        value = np.inf if other is None else problem.value(other)
        if value < least:
            coef, least = other, value
    if coef is None:
        return solution
    # no loss is below its floor: a bound that knows of no rounding
    gap = max(0.0, least - float(few.weight @ softplus(few.loss.floor)))
    return replace(
        solution, coef=coef, certificate=Certificate(least, gap, found.duals), scores=None
    )


def is_constant(labelled: Labelled, spec: TruncatedSpec, solution: Solution) -> bool:
    """Whether the optimum is a constant for want of a decision, not of accuracy.

    That is where the scores of the training rows have next to no spread, and the constant saturates
    the rows of some class.
    """
    # all rows of a class are then on the kink, more than a stream can hold to certify that
    stuck = labelled.held is None and solution.status is Status.STALLED
    if not spec.has_kinks or not (stuck or solution.certificate.relative <= MOST_SILENT):
        return False
    few = _of_classes(spec, labelled)
    u = few.margins.margin(few.design.scores(few.prior_coef()))
    if not np.any(u <= few.loss.floor):
        return False
    half = -float(np.mean(few.loss.floor))
    flat = _FLAT * (half if isfinite(half) and half > 0.0 else 1.0)
    if labelled.held is None:
        # one more reading, where the objective does not say already that there is some spread
        best = solve(few, Decomposed(), tol=1e-6, max_iter=100).certificate.primal
        if best - solution.certificate.primal > flat * float(np.sum(few.weight)):
            return False
        return _spread(labelled.reduce(_Scores(spec, solution.coef))) < flat
    scores = solution.scores
    if scores is None:
        scores = spec.problem(labelled.held).design.scores(solution.coef)
    xp = array_namespace(scores)
    return float(xp.max(xp.std(scores, axis=0))) < flat


@dataclass(frozen=True)
class _Scores:
    """Number, sums and sums of squares of the scores of rows, the intercept left out."""

    spec: TruncatedSpec
    coef: Array

    def __call__(self, rows: Rows) -> Sums:
        problem = self.spec.problem(rows)
        xp = array_namespace(rows.weight)
        scores = problem.design.scores(self.coef * problem.design.penalised())
        used = xp.astype(rows.weight > 0, xp.float64)[:, None]
        return {
            "n": float(xp.sum(used)),
            "sum": xp.sum(used * scores, axis=0),
            "square": xp.sum(used * scores**2, axis=0),
        }


def _spread(sums: Sums) -> float:
    """Largest standard deviation of a score."""
    mean = sums["sum"] / sums["n"]
    variance = sums["square"] / sums["n"] - mean**2
    return sqrt(max(0.0, float(array_namespace(mean).max(variance))))
