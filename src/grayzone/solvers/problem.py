"""A convex problem, a point in it, and the certificate that ties them together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from array_api_compat import array_namespace, device, is_numpy_array

from grayzone.numerics.designs import Design
from grayzone.numerics.margins import Margins, output_pairs
from grayzone.numerics.threads import split

Array = Any

# Rows whose elementwise work, some dozen temporary arrays, stays in the L2 cache.
_PIECE = 16384


@dataclass(frozen=True)
class Problem:
    r"""Criterion (8): minimise :math:`\sum_i w_i h_i(u_i) + \tfrac{\lambda}{2}\|w\|^2`.

    Coefficients are (Q, p) arrays, Q = 1 for two classes and K for more, the unpenalised
    intercept in the last column. Margins u are (n,), scores (n, Q).
    """

    design: Design
    margins: Margins
    loss: Any  # TruncatedLogistic, or a smooth stand-in for it
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
        return self.penalty * coef * self.design.penalised()

    def penalty_value(self, coef: Array, scores: Array | None = None) -> float:
        """Value of the penalty."""
        return 0.5 * self.penalty * self.design.dot(coef, coef, scores)

    def pairing(self, coef: Array, other: Array, scores: Array) -> float:
        """Inner product of coefficients, intercepts included; ``scores`` are those of other."""
        xp, d = array_namespace(coef), self.design.n_features
        return self.design.dot(coef, other, scores) + float(xp.sum(coef[:, d:] * other[:, d:]))

    def primal(self, coef: Array, u: Array, scores: Array | None = None) -> float:
        """Criterion (8) at coefficients whose margins are u."""

        def fit(rows: slice) -> Array:
            return self.loss.take(rows).value(u[rows])

        return self.weighted_sum(fit) + self.penalty_value(coef, scores)

    def weighted_sum(self, values: Callable[[slice], Array]) -> float:
        """Sum of w times ``values(rows)``, over pieces that stay in the cache, on all threads."""
        xp = array_namespace(self.weight)

        def work(start: int, stop: int) -> float:
            total = 0.0
            for a in range(start, stop, piece):
                rows = slice(a, min(stop, a + piece))
                total += float(xp.sum(self.weight[rows] * values(rows)))
            return total

        n, here = self.weight.shape[0], is_numpy_array(self.weight)
        piece = _PIECE if here else max(1, n)
        return sum(split(n, work, worth=here and n > 2 * _PIECE))

    def gradient(self, scores: Array, a: Array) -> Array:
        """Gradient (Q, p) in the coefficients of sum(w a u); the penalty is not in it."""
        return self.design.gradient(self.margins.pull(scores, self.weight * a))

    def second_order(
        self, scores: Array, omega: Array, a: Array, pull: Array, rows: Array | None = None
    ) -> tuple[Array, Array]:
        """Hessian (Qp, Qp) and gradient (Q, p) of rows, in one pass over them.

        The Hessian is that of weights omega u'u' + a u'', the gradient that of sum(pull u); all
        four arrays belong to ``rows``, weights of rows already in them and the penalty in neither.
        """
        margins = self.margins if rows is None else self.margins.take(rows)
        xp = array_namespace(omega)
        weights = margins.second_order(scores, omega, a)
        grams, gradient = self.design.gram(weights, margins.pull(scores, pull), rows)
        q = self.n_outputs
        if q == 1:
            return grams[0, :, :], gradient
        blocks: list[list[Any]] = [[None] * q for _ in range(q)]
        for i, (k, m) in enumerate(output_pairs(q)):
            blocks[k][m] = blocks[m][k] = grams[i, :, :]
        H = xp.concat([xp.concat(row, axis=1) for row in blocks], axis=0)
        guarded = self.design.fit_intercept and self.margins.shift_free
        return H + self._shift_guard(H) if guarded else H, gradient

    def _shift_guard(self, H: Array) -> Array:
        """Curvature against adding one constant to all intercepts, which changes nothing else."""
        xp = array_namespace(H)
        p, q = self.design.n_coef, self.n_outputs
        last = xp.asarray([float(j % p == p - 1) for j in range(p * q)], device=device(H))
        scale = xp.sum(xp.linalg.diagonal(H) * last) / q
        return scale * last[:, None] * last[None, :]

    def ridge(self) -> Array:
        """Diagonal (Qp,) of the penalty's Hessian."""
        xp = array_namespace(self.weight)
        return xp.tile(self.penalty * self.design.penalised(), (self.n_outputs,))


@dataclass(frozen=True)
class Certificate:
    """Primal value, a feasible dual point and the distance of the two values.

    ``duals`` (n, Q) are the dual variables of unit-weight losses, balanced so that the
    intercept's condition holds exactly; ``gap = primal - dual`` is summed from non-negative
    terms and so is honest far below the rounding error of the two values.
    """

    primal: float
    gap: float
    duals: Array

    @property
    def relative(self) -> float:
        """(P - D) / P."""
        if self.primal > 0:
            return self.gap / self.primal
        return 0.0 if self.gap == 0.0 else float("inf")


def certify(
    problem: Problem,
    coef: Array,
    scores: Array,
    a: Array,
    *,
    u: Array | None = None,
    touched: Array | None = None,
) -> Certificate:
    """Bound the distance to the optimum, from multipliers ``a`` of the margins ``u``.

    P - D = sum of weighted Fenchel-Young losses + (lambda / 2) |w - w(a)|^2, which needs
    the duals of an unpenalised intercept to sum to zero. ``touched`` are the rows whose
    multiplier is not the slope of the loss at u; the others have no Fenchel-Young loss
    but what the balancing adds. Without it every row is looked at.
    """
    xp = array_namespace(scores)
    margins, design = problem.margins, problem.design
    u = margins.margin(scores) if u is None else u
    pulled = margins.pull(scores, a)
    duals = margins.balance(pulled, problem.weight) if design.fit_intercept else pulled
    rows = None
    if touched is not None:
        changed = xp.any(duals != pulled, axis=1)
        changed[touched] = True
        rows = xp.nonzero(changed)[0]
    return certify_duals(problem, coef, scores, duals, u=u, rows=rows)


def certify_duals(
    problem: Problem,
    coef: Array,
    scores: Array,
    duals: Array,
    *,
    u: Array | None = None,
    rows: Array | None = None,
) -> Certificate:
    """Certify by balanced duals; only ``rows`` have a Fenchel-Young loss (None: any)."""
    design = problem.design
    u = problem.margins.margin(scores) if u is None else u
    fit = _fenchel_young(problem, scores, duals, rows)
    force = design.gradient(problem.weight[:, None] * duals) + problem.shrinkage(coef)
    free = force * design.penalised()
    gap = fit + 0.5 * design.dot(free, free) / problem.penalty
    return Certificate(problem.primal(coef, u, scores), gap, duals)


def _fenchel_young(problem: Problem, scores: Array, duals: Array, rows: Array | None) -> float:
    margins, loss, weight = problem.margins, problem.loss, problem.weight
    if rows is not None:
        margins, loss, weight = margins.take(rows), loss.take(rows), weight[rows]
        xp = array_namespace(scores)
        scores, duals = xp.take(scores, rows, axis=0), xp.take(duals, rows, axis=0)

    def distance(piece: slice) -> Array:
        part = margins.take(piece)
        return part.fenchel_young(loss.take(piece), scores[piece, :], duals[piece, :])

    return replace(problem, weight=weight).weighted_sum(distance)


@dataclass(frozen=True)
class State:
    """A point on the way: coefficients, their scores and margins, and multipliers of these.

    ``touched`` are the rows whose multiplier is not the slope of the loss (None: any), and
    ``raw`` the multipliers before small ones were set to zero, for when the sparser ones do
    not certify. ``settled`` says that a certificate is worth its price, ``stalled`` that no
    further step will help. ``memory`` is the solver's own; the loop never looks at it.
    """

    coef: Array
    scores: Array
    u: Array
    multipliers: Array
    touched: Array | None = None
    raw: Array | None = None
    settled: bool = True
    stalled: bool = False
    memory: Any = None
