"""The constant model: what no fit may be worse than, and what some optima are.

Where the class priors are outside the zone, the rows of a class are saturated by a constant; its
optimum may then be the optimum of all functions, whatever C is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite, sqrt
from typing import Any

import numpy as np

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.columns import ends
from grayzone.numerics.losses import softplus
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.certificate import Certificate
from grayzone.solvers.loop import MOST_SILENT, Solution, Status, solve
from grayzone.solvers.truncated.decomposed import Decomposed
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.sources.gather import draw_sample
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

# Standard deviation of scores, in half-widths of the zone, of a constant and of what may be one.
_FLAT, _SMALL = 1e-3, 0.1
# Coefficients, or scores, from which on a certificate is not taken at its word.
_WILD = 1e10
# Rows with own floors by which the best constant is found; its loss is that of all.
_MANY = 20_000


def _blind(rows: Rows) -> Rows:
    """Rows without their features, as a constant sees them."""
    xp = array_namespace(rows.weight)
    return replace(rows, X=xp.zeros_like(rows.weight)[:, None], memory=None)


def _few_rows(spec: TruncatedSpec, labelled: Labelled) -> Rows:
    """One row a class, which weighs what its rows do; some rows where these have own floors."""
    if not spec.by_rows:
        mass = labelled.mass * labelled.factors
        return Rows(np.zeros((mass.size, 1)), np.arange(mass.size), mass)
    # without their features, which may be wide and sparse
    some = draw_sample(labelled.part_of(_blind, labelled.counts, labelled.mass), _MANY).rows
    codes, weight, own = (as_numpy(a) for a in (some.codes, some.weight, some.own))
    return Rows(np.zeros((codes.size, 1)), codes, weight, own=own)


def _best_constant(spec: TruncatedSpec, labelled: Labelled) -> tuple[Array, float]:
    """Scores (Q,) of the best constant, and its loss."""
    rows = _few_rows(spec, labelled)
    best = solve(spec.linear.problem(rows), Decomposed(), tol=1e-12, max_iter=100)
    if not spec.by_rows:
        return best.coef[:, -1], best.certificate.primal
    return best.coef[:, -1], labelled.reduce(_ConstantLoss(spec, best.coef))["loss"]


@dataclass(frozen=True)
class _ConstantLoss:
    """Losses of rows at a constant, and the least that they can be."""

    spec: TruncatedSpec
    coef: Array

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        problem = self.spec.linear.problem(_blind(rows))
        u = problem.margins.margin(problem.design.scores(moved(self.coef, rows.weight)))
        return {
            "loss": float(xp.sum(rows.weight * problem.loss.value(u))),
            "least": float(xp.sum(rows.weight * softplus(problem.loss.floor))),
        }


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
    xp, found = array_namespace(solution.coef), solution.certificate
    known = [ends(a) for a in (solution.coef, solution.scores) if a is not None]
    wild = not all(least >= -_WILD and greatest <= _WILD for least, greatest in known)
    if found.relative <= tol and not wild:
        return solution
    # no loss is below its floor: a bound that knows of no rounding
    bound = _least(spec, labelled)
    if wild:  # scores that were carried along may be those of another point
        value = problem.value(solution.coef)
        if not value <= found.primal * (1.0 + max(tol, MOST_SILENT)):
            found = Certificate(value, max(0.0, value - bound), found.duals)
            solution = replace(solution, certificate=found, scores=None, status=Status.ROUNDED)
    constant = xp.zeros_like(solution.coef)
    if spec.fit_intercept:
        constant[:, -1] = moved(_best_constant(spec, labelled)[0], constant)
    coef, least = None, found.primal if isfinite(found.primal) else np.inf
    for other in (start, constant):
        value = np.inf if other is None else problem.value(other)
        if value < least:
            coef, least = other, value
    if coef is None:
        return solution
    certificate = Certificate(least, max(0.0, least - bound), found.duals)
    return replace(solution, coef=coef, certificate=certificate, scores=None)


def _least(spec: TruncatedSpec, labelled: Labelled) -> float:
    """Return the sum of the least losses of all rows."""
    if not spec.by_rows:
        return float((labelled.mass * labelled.factors) @ softplus(spec.floors))
    flat = np.zeros((1, 1 + int(spec.fit_intercept)))
    return float(labelled.reduce(_ConstantLoss(spec, flat))["least"])


def is_constant(labelled: Labelled, spec: TruncatedSpec, solution: Solution) -> bool:
    """Whether the optimum is a constant for want of a decision, not of accuracy.

    That is where the constant saturates the rows of some class, and the scores of the training rows
    have next to no spread; or a small one, beyond which the certificate does not tell.
    """
    found = solution.certificate
    # all rows of a class are then on the kink, more than a stream can hold to certify that
    stuck = labelled.held is None and solution.status is Status.STALLED
    if not spec.has_kinks or not (stuck or found.relative <= MOST_SILENT):
        return False
    # weights of classes move a constant where they were told to
    mass = labelled.mass if spec.fit_intercept else np.ones_like(labelled.mass)
    if not np.any(np.log((np.sum(mass) - mass) / mass) <= spec.floors):
        return False
    half = -float(np.mean(spec.floors))
    half = half if isfinite(half) and half > 0.0 else 1.0
    if labelled.held is None:
        # one more reading, where the objective does not say already that there is some spread
        most = _FLAT * half * float(np.sum(labelled.mass * labelled.factors))
        little = _excess(spec, labelled, found) <= most
        return little and _spread(labelled, spec, solution) < _FLAT * half
    spread = _spread(labelled, spec, solution)
    if spread < _FLAT * half:
        return True
    return spread < _SMALL * half and _excess(spec, labelled, found) <= found.gap


def _excess(spec: TruncatedSpec, labelled: Labelled, found: Certificate) -> float:
    """By how much the best constant is worse than what was found."""
    return _best_constant(spec, labelled)[1] - found.primal


def _spread(labelled: Labelled, spec: TruncatedSpec, solution: Solution) -> float:
    """Largest standard deviation of a score."""
    scores = solution.scores
    if labelled.held is None:
        sums = labelled.reduce(_Scores(spec, solution.coef))
        mean = sums["sum"] / sums["n"]
        variance = sums["square"] / sums["n"] - mean**2
        return sqrt(max(0.0, float(array_namespace(mean).max(variance))))
    if scores is None:
        scores = spec.problem(labelled.held).design.scores(solution.coef)
    xp = array_namespace(scores)
    return float(xp.max(xp.std(scores, axis=0)))


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
