r"""Scores that rows of two classes would have had without a part in the fit, by one Newton step.

Rows that the truncated loss ignores have the scores that they have: leaving them out changes
nothing. One with slope :math:`\alpha_i` and bend :math:`\omega_i` of its loss pulls its own score
f_i towards its class, without it

.. math:: f_i - y_i \frac{\ell_i}{1 - \ell_i} \frac{\alpha_i}{\omega_i}, \qquad
          \ell_i = w_i \omega_i \,
          x_i' \bigl(\lambda I + \sum_j w_j \omega_j x_j x_j'\bigr)^{-1} x_i,

with no :math:`\lambda` for the intercept. Rows near the kink tend to stay there whatever others do:
their bend is large, and their multipliers are what the penalty's pull leaves to them. With kernels
the same :math:`\ell` come from kernel values G of the rows, without an intercept
:math:`\ell = 1 - \mathrm{diag}(I + W^{1/2} G W^{1/2} / \lambda)^{-1}`, W that of
:math:`w \omega`; rows near the kink do not move there, nor do those that would have to cross most
of the zone.

What is left out weighs as much as the lightest row, times the weight of its class: a row of weight
three is three rows, and the unit of weights makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from array_api_compat import device, is_numpy_array
from scipy.linalg.lapack import dpotrf, dtrtri, dtrtrs

from grayzone.decision.zones import ceilings_of
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import Floats
from grayzone.numerics.linalg import add_to_diagonal, lower_factor, with_diagonal
from grayzone.numerics.losses import sigmoid
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.kernel.systems import scattered
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

# Distance from the kink within which rows are kept there, and how much larger their bend is: where
# it comes closest to fits without the row, which some of them leave the kink for.
_NEAR, _STIFF = 1e-2, 30.0
# Part of the zone that rows of a kernel fit have behind them before they are moved.
_BEHIND = 0.25
# Margin from which on a row is so far on the wrong side that moving it makes no difference.
_FAR = 15.0
# Bends that are none.
_NONE = 1e-12
# Rows for each coefficient from which on a row hardly moves its own score.
_MANY = 200
# Coefficients, or rows with a bend of a kernel fit, up to which they are worth a factor.
_MOST = 1500
# Ridge of a matrix of unit diagonal, for features that are copies of others.
_RIDGE = 1e-12


@dataclass(frozen=True)
class LeftOut:
    """What moves scores: of linear functions a root of the inverse Hessian, of others leverages.

    Attributes
    ----------
    units : ndarray of shape (K,)
        Weight that is left out of the rows of each class.
    root : array of shape (p, p) or None
        A root R of the inverse Hessian R'R.
    pinning : array of shape (1, p) or None
        The pull of the rows at the kink, through the inverse Hessian.
    leverages : array of shape (n,) or None
        Those of all rows, where they are held.
    """

    units: Floats
    root: Array | None = None
    pinning: Array | None = None
    leverages: Array | None = None

    def __call__(self, rows: Rows, problem: Problem, scores: Array) -> Array:
        """Return the scores that rows would have had without a part in the fit.

        Parameters
        ----------
        rows : Rows
            The rows.
        problem : Problem
            Their part of the problem.
        scores : array of shape (n, 1)
            Scores that they have.

        Returns
        -------
        array of shape (n, 1)
            The scores.
        """
        xp, losses = array_namespace(scores), _Losses.of(problem, scores)
        sign = xp.where(rows.codes == 1, xp.ones_like(losses.slope), -1.0)
        slope, leverage = losses.slope, self.leverages
        if leverage is None:
            pinning, root = (moved(a, rows.weight) for a in (self.pinning, self.root))
            slope = slope + losses.multipliers(sign * problem.design.scores(pinning)[:, 0])
            leverage = _leverages(problem, rows.weight * losses.bend, slope, root)
        unit = xp.take(moved(self.units, rows.weight), rows.codes)
        weight = xp.where(rows.weight > 0.0, rows.weight, 1.0)
        part = xp.clip(leverage * xp.clip(unit / weight, max=1.0), min=0.0, max=1.0 - 1e-9)
        step = part / (1.0 - part) * slope / xp.where(losses.bend > _NONE, losses.bend, 1.0)
        return scores - (sign * step)[:, None]


def left_out(
    labelled: Labelled, spec: TruncatedSpec, coef: Array, scores: Array | None
) -> LeftOut | None:
    """Find what moves scores; None where rows hardly move their own, or that is not worth it.

    Parameters
    ----------
    labelled : Labelled
        The rows.
    spec : TruncatedSpec
        What was fitted.
    coef : array of shape (Q, p)
        Coefficients of the fit.
    scores : array of shape (n, Q), optional
        Scores of rows that are held, where they are known.

    Returns
    -------
    LeftOut or None
        From rows and their scores to the scores that they would have had.
    """
    if spec.n_classes > 2 or spec.l1_ratio > 0.0:
        return None
    if spec.kernel is not None:
        return _of_kernel(labelled, spec, coef, scores)
    n_coef = spec.n_slopes(labelled.n_features) + int(spec.fit_intercept)
    if n_coef > _MOST or labelled.n_rows >= _MANY * n_coef:
        return None
    sums = labelled.reduce(_Hessian(spec, coef, labelled.factors, scores))
    root = _inverse_root(sums["hessian"], spec.penalty, spec.fit_intercept)
    if root is None:
        return None
    xp, d = array_namespace(root), n_coef - int(spec.fit_intercept)
    held = spec.penalty * moved(coef, root) - sums["pull"]
    if spec.fit_intercept:
        held[:, d] = -sums["pull"][:, d]
    pinning = xp.matmul(xp.matmul(held, root.T), root)
    return LeftOut(min(sums["lightest"]) * labelled.factors, root, pinning)


def _of_kernel(
    labelled: Labelled, spec: TruncatedSpec, coef: Array, scores: Array | None
) -> LeftOut | None:
    rows = labelled.all_held
    problem = spec.problem(rows)
    losses = _Losses.of(problem, problem.design.scores(coef) if scores is None else scores)
    stiff, xp = rows.weight * losses.bend, array_namespace(rows.weight)
    if int(xp.count_nonzero(stiff > _NONE)) > _MOST:
        return None
    moving = (losses.slope > 0.0) & (stiff > _NONE) & _may_cross(spec, rows, losses)
    leverages = _by_rows(problem, stiff, moving)
    units = _lightest(rows, labelled.factors) * labelled.factors
    return None if leverages is None else LeftOut(units, leverages=leverages)


def _may_cross(spec: TruncatedSpec, rows: Rows, losses: _Losses) -> Array:
    """Whether rows have a quarter of the zone behind them: others stay on the right side of it."""
    xp = array_namespace(losses.u)
    closed = xp.isfinite(losses.floor)  # in an open zone there is no way to go
    low = xp.where(closed, losses.floor, 0.0)
    high = spec.ceilings_of(ceilings_of(spec.floors), rows)
    return (losses.u > low + _BEHIND * (high - low)) | ~closed


def _lightest(rows: Rows, factors: Floats) -> float:
    """Weight of the lightest row that has one, that of its class left out."""
    xp = array_namespace(rows.weight)
    own = rows.weight / xp.take(moved(factors, rows.weight), rows.codes)
    return float(xp.min(xp.where(rows.weight > 0.0, own, xp.inf)))


class _Losses(NamedTuple):
    """Margins and floors (n,), slopes of the losses away from the kink, and bends."""

    u: Array
    floor: Array
    slope: Array
    bend: Array
    pinned: Array  # the part of the bends that keeps rows at the kink

    @classmethod
    def of(cls, problem: Problem, scores: Array) -> _Losses:
        u, floor = problem.margins.margin(scores), problem.loss.floor
        xp = array_namespace(u)
        near = xp.exp(-(((u - floor) / _NEAR) ** 2))
        free = xp.where(u > floor, 1.0 - near, 0.0)
        slope = xp.where(u < _FAR, free * sigmoid(u), 0.0)
        pinned = _STIFF * near * sigmoid(floor) * sigmoid(-floor)
        return cls(u, floor, slope, free * sigmoid(u) * sigmoid(-u) + pinned, pinned)

    def multipliers(self, moved_by: Array) -> Array:
        """Multipliers of the rows at the kink, from what their pull would move their scores by."""
        xp = array_namespace(moved_by)
        found = xp.clip(self.pinned * moved_by, min=0.0)
        return xp.minimum(found, sigmoid(self.floor))


@dataclass(frozen=True)
class _Hessian:
    """Sums of w omega x x' and of w alpha y x over the rows, and their smallest weight."""

    spec: TruncatedSpec
    coef: Array
    factors: Floats
    scores: Array | None

    def __call__(self, rows: Rows) -> Sums:
        problem, scores = self.spec.problem(rows), self.scores
        if scores is None:
            scores = problem.design.scores(moved(self.coef, rows.weight))
        xp, losses = array_namespace(scores), _Losses.of(problem, scores)
        stiff = rows.weight * losses.bend
        active = xp.nonzero(stiff > _NONE)[0]
        pull = xp.where(rows.codes == 1, rows.weight, -rows.weight) * losses.slope
        weights, pull = (xp.take(a, active)[:, None] for a in (stiff, pull))
        hessian, pulled = problem.design.gram(weights, pull, active)
        lightest = [_lightest(rows, self.factors)]
        return {"hessian": hessian[0, :, :], "pull": pulled, "lightest": lightest}


def _inverse_root(H: Array, penalty: float, fit_intercept: bool) -> Array | None:
    """Root R of the inverse R'R of the Hessian with its penalty; None where there is none."""
    xp, p = array_namespace(H), H.shape[0]
    place = device(H)
    ridge = xp.full((p,), penalty, dtype=xp.float64, device=place)
    if fit_intercept:
        ridge[-1] = 0.0
    H = with_diagonal(H, ridge)
    diagonal = xp.linalg.diagonal(H)
    if not bool(xp.all(diagonal > 0.0)):
        return None
    scale = 1.0 / xp.sqrt(diagonal)
    scaled = H * scale[:, None]
    scaled *= scale[None, :]
    lower = _factor(with_diagonal(scaled, _RIDGE))
    return None if lower is None else _inverse(lower) * scale[None, :]


def _leverages(problem: Problem, stiff: Array, slope: Array, root: Array) -> Array:
    """Leverages of rows, from a root of the inverse Hessian; zero for those without a slope."""
    xp = array_namespace(stiff)
    some = xp.nonzero((stiff > 0.0) & (slope > 0.0))[0]
    if some.shape[0] == 0:
        return xp.zeros_like(stiff)
    squares = xp.sum(problem.design.take(some).scores(root) ** 2, axis=1)
    return stiff * scattered(squares[:, None], some, stiff.shape[0])[:, 0]


def _by_rows(problem: Problem, stiff: Array, moving: Array) -> Array | None:
    """Leverages of held rows that move, from the inner products of all; None if there are none.

    Rows that move come last: of the inverse only the block of these is needed, which is that of the
    last block of the factor.
    """
    xp, n = array_namespace(stiff), stiff.shape[0]
    first, last = xp.nonzero((stiff > _NONE) & ~moving)[0], xp.nonzero(moving)[0]
    if last.shape[0] == 0:
        return None
    active, k = xp.concat([first, last]), first.shape[0]
    root = xp.sqrt(xp.take(stiff, active))
    inner = problem.design.inner(active, active) * root[:, None]
    inner *= root[None, :] / problem.penalty
    add_to_diagonal(inner, 1.0)
    lower = _factor(inner)
    if lower is None:
        return None
    inverse = _inverse(lower[k:, k:])
    leverages = 1.0 - xp.sum(inverse**2, axis=0)
    if problem.design.fit_intercept:
        y = _forward(lower, root)
        leverages = leverages + xp.matmul(inverse.T, y[k:]) ** 2 / xp.sum(y * y)
    return scattered(leverages[:, None], last, n)[:, 0]


def _factor(B: Array) -> Array | None:
    """Lower factor of a matrix that is not needed any more; None where it has none."""
    if is_numpy_array(B):  # LAPACK itself, which takes the transpose as it lies
        lower, failed = dpotrf(B.T, lower=True, overwrite_a=True)
        return None if failed else lower
    try:
        return lower_factor(B)
    except FloatingPointError:
        return None


def _inverse(lower: Array) -> Array:
    """Inverse of a lower factor."""
    if is_numpy_array(lower):
        return dtrtri(lower, lower=True)[0]
    xp = array_namespace(lower)
    return xp.linalg.solve(lower, xp.eye(lower.shape[0], dtype=lower.dtype, device=device(lower)))


def _forward(lower: Array, r: Array) -> Array:
    """Solution of the system that a lower factor (n, n) is, for a right-hand side (n,)."""
    if is_numpy_array(lower):
        return dtrtrs(lower, r, lower=True)[0]
    return array_namespace(r).linalg.solve(lower, r[:, None])[:, 0]
