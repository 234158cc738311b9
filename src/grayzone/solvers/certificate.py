"""How far a point is from the optimum, at most: one certificate for all solvers and carriers.

With multipliers a of the margins, balanced so that the condition of an unpenalised intercept
holds, P - D = sum of weighted Fenchel-Young losses + (lambda / 2) |w - w(a)|^2. Rows add *terms*,
their Fenchel-Young losses and their pull on the coefficients; the terms of parts of the rows are
added, wherever these are, and closed with the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple, Protocol

from grayzone.numerics.margins import SignedMargin
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.problem import Problem

Array = Any
_ROUNDING = 1e-15
_FEW = 1000  # rows that are no work for several threads


@dataclass(frozen=True)
class Certificate:
    """Primal value, a feasible dual point and the distance of the two values.

    Attributes
    ----------
    primal : float
        The objective at the point.
    gap : float
        Primal minus dual value: what is left to gain is at most that. It is summed from
        non-negative terms and so is honest far below the rounding error of the two values.
    duals : array of shape (n, Q) or None
        Dual variables of unit-weight losses, balanced so that the intercept's condition holds
        exactly, of rows that are held.

    See Also
    --------
    certify : Makes one.
    Solution : Has that of the best point.

    Examples
    --------
    >>> from grayzone.solvers import Certificate
    >>> Certificate(primal=50.0, gap=1e-4).relative
    2e-06
    """

    primal: float
    gap: float
    duals: Array | None = None

    @property
    def relative(self) -> float:
        """(P - D) / P; what is below zero by the rounding of one sum is none."""
        if self.primal > 0:
            share = self.gap / self.primal
            return 0.0 if -_ROUNDING <= share < 0.0 else share
        return 0.0 if self.gap == 0.0 else inf


class Terms(NamedTuple):
    """What rows add to a certificate.

    ``pull`` (Q, p) is the gradient of their losses at the duals; None where the coefficients are
    those that the duals span, so that there is no force left.
    """

    distance: float
    pull: Array | None


class _Penalised(Protocol):
    """What closing a certificate needs to know of a problem, wherever its rows are."""

    @property
    def penalty(self) -> float: ...

    def shrinkage(self, coef: Array) -> Array: ...

    def square(self, coef: Array) -> float: ...


def terms_of(
    problem: Problem,
    scores: Array,
    duals: Array,
    *,
    rows: Array | None = None,
    spanned: bool = False,
) -> Terms:
    """Terms of these rows for balanced duals; only ``rows`` have a distance (None: any)."""
    distance = _fenchel_young(problem, scores, duals, rows)
    if spanned:
        return Terms(distance, None)
    return Terms(distance, problem.design.gradient(problem.weighed(duals)))


def closed(
    problem: _Penalised, coef: Array, primal: float, terms: Terms, duals: Array | None = None
) -> Certificate:
    """Certificate from the terms of all rows."""
    gap = terms.distance
    if terms.pull is not None:
        gap += 0.5 * problem.square(terms.pull + problem.shrinkage(coef)) / problem.penalty
    return Certificate(primal, gap, duals)


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

    Any multipliers in the domain of the losses' conjugates give a bound; it is tight where they are
    slopes of the losses, at the optimum.

    Parameters
    ----------
    problem : Problem
        The problem.
    coef : array of shape (Q, p)
        The point.
    scores : array of shape (n, Q)
        Its scores.
    a : array of shape (n,)
        Multipliers of the margins.
    u : array of shape (n,), optional
        Its margins, where they are known already.
    touched : array of int, optional
        Rows whose multiplier is not the slope of the loss at u; the others have no Fenchel-Young
        loss but what the balancing adds. Without it every row is looked at.

    Returns
    -------
    Certificate
        The objective, and how far above the optimum it is at most.

    See Also
    --------
    Certificate : What is returned.
    State : Points that the loop certifies in this way.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.designs import as_design
    >>> from grayzone.numerics.losses import Logistic
    >>> from grayzone.numerics.margins import SignedMargin
    >>> from grayzone.solvers import Problem, certify
    >>> X, sign = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.0, 1.0])
    >>> problem = Problem(as_design(X), SignedMargin(sign), Logistic(sign), np.ones(4), penalty=1.0)
    >>> coef = np.zeros((1, 2))
    >>> scores = problem.design.scores(coef)
    >>> slopes = problem.loss.slope(problem.margins.margin(scores))
    >>> found = certify(problem, coef, scores, slopes)
    >>> round(found.primal, 3), found.gap  # the optimum is at least 2.773 - 0.5
    (2.773, 0.5)
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
    spanned: bool = False,
) -> Certificate:
    """Certify by balanced duals; ``spanned`` says that the coefficients are those they span."""
    u = problem.margins.margin(scores) if u is None else u
    terms = terms_of(problem, scores, duals, rows=rows, spanned=spanned)
    primal = problem.primal(coef, u, scores)
    if terms.pull is not None:
        force = problem.design.square_at_most(terms.pull + problem.shrinkage(coef))
        if 0.5 * force / problem.penalty <= _ROUNDING * primal:
            terms = terms._replace(pull=None)  # the duals span them, but for rounding
    return closed(problem, coef, primal, terms, duals)


def _fenchel_young(problem: Problem, scores: Array, duals: Array, rows: Array | None) -> float:
    margins, loss, weight = problem.margins, problem.loss, problem.weight
    if rows is None and isinstance(margins, SignedMargin):
        total = margins.fenchel_young_sum(loss, scores, duals, weight)
        if total is not None:
            return total
    if rows is not None:
        margins, loss, weight = margins.take(rows), loss.take(rows), weight[rows]
        xp = array_namespace(scores)
        scores, duals = xp.take(scores, rows, axis=0), xp.take(duals, rows, axis=0)
        if rows.shape[0] <= _FEW:
            return float(weight @ margins.fenchel_young(loss, scores, duals))

    def distance(piece: slice) -> Array:
        part = margins.take(piece)
        return part.fenchel_young(loss.take(piece), scores[piece, :], duals[piece, :])

    return replace(problem, weight=weight).weighted_sum(distance)


class Certified(NamedTuple):
    """A point with its certificate; what belongs to rows is there where they are held."""

    coef: Array
    certificate: Certificate
    n_active: int
    scores: Array | None = None
    multipliers: Array | None = None
    streamed: Any = None  # what gives the multipliers of rows that are not held


@dataclass(frozen=True)
class State:
    """A point on the way: coefficients, their scores and margins, and multipliers of these.

    Attributes
    ----------
    coef : array of shape (Q, p)
        The point.
    scores : array of shape (n, Q)
        Its scores.
    u : array of shape (n,)
        Its margins.
    multipliers : array of shape (n,)
        Multipliers of the margins, which a certificate is made of.
    touched : array of int or None
        Rows whose multiplier is not the slope of the loss; None is any.
    raw : (array of int, array) or None
        Rows of which small multipliers were set to zero, and what they were, for when the sparser
        ones do not certify; of NumPy's.
    settled : bool
        Whether a certificate is worth its price.
    stalled : bool
        Whether no further step will help.
    certificate : Certificate or None
        There where the step had to know it.
    value : float
        The objective; infinite where the step did not know it.
    memory : object
        The solver's own; the loop never looks at it.

    See Also
    --------
    Solver : Goes from state to state.
    certify : Certifies them.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers import State
    >>> start = State(np.zeros((1, 2)), np.zeros((4, 1)), np.zeros(4), np.full(4, 0.5))
    >>> start.settled, start.stalled
    (True, False)
    """

    coef: Array
    scores: Array
    u: Array
    multipliers: Array
    touched: Array | None = None
    raw: tuple[Array, Array] | None = None
    settled: bool = True
    stalled: bool = False
    certificate: Certificate | None = None
    value: float = inf
    memory: Any = None

    def certified(self, problem: Problem, tol: float, last: bool) -> Certified | None:
        """Certify by the sparser multipliers if these reach the tolerance, else by the better.

        Parameters
        ----------
        problem : Problem
            The problem.
        tol : float
            Relative gap asked for.
        last : bool
            Whether there is no other chance.

        Returns
        -------
        Certified
            The point with its certificate.
        """
        sparse = self._by(problem, self.multipliers)
        reached = sparse.certificate.relative
        # far from the tolerance other multipliers would not reach it either
        if self.raw is None or reached <= tol or (reached > 1e3 * tol and not self.stalled):
            return sparse
        (rows, given), multipliers = self.raw, self.multipliers.copy()
        multipliers[rows] = given
        raw = self._by(problem, multipliers)
        return raw if raw.certificate.gap < sparse.certificate.gap else sparse

    def _by(self, problem: Problem, a: Array) -> Certified:
        found = self.certificate
        if found is None:
            found = certify(problem, self.coef, self.scores, a, u=self.u, touched=self.touched)
        xp = array_namespace(a)
        return Certified(self.coef, found, int(xp.count_nonzero(a > 0)), self.scores, a)
