r"""Expected cost of a stochastic decision, and the log-losses that bound it, on rows anywhere.

A policy takes action a at x with probability :math:`p_a(x)`, the softmax of linear scores (two
actions: the logistic function of one). With rewards :math:`R_{ia} \ge 0` it loses

.. math:: J(\theta) = \sum_i w_i \Bigl(\max_a R_{ia} - \sum_a R_{ia} p_a(x_i)\Bigr)
          + \tfrac{\lambda}{2A}\|\theta\|^2,

which is not convex. By :math:`t \ge 1 + \log t` (Lemma 1 of Le Roux, 2017), for any other
parameters :math:`\nu`,

.. math:: -\sum_a R_{ia} p_a \le -\sum_a R_{ia} p^\nu_a \log p_a + \mathrm{const},

with equality at :math:`\theta = \nu`: a log-loss with the soft targets :math:`w R p^\nu`. The first
bound has :math:`p^\nu = 1/A`; for rewards of 1 for the right class it is A times smaller than
logistic regression, and so is its penalty.

Coefficients and all that is computed from sums are NumPy's; what belongs to rows is where they are.
Rows that are held keep scores, which are carried along lines, and targets; rows of a stream keep
nothing: one reading gives all that the next step may ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import device

from grayzone.decision.limits import ClassLimit
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.designs import Design
from grayzone.numerics.losses import sigmoid, softplus
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pieces import mapped, summed
from grayzone.solvers.policy.policy import Policy, policy_of
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

# Probability that the policy of the first bound beside an undecided action leaves to chance.
_DOUBT = 0.01


@dataclass(frozen=True, eq=False)
class PolicySpec:
    """What a policy is fitted to; small, it travels with every task.

    Rewards are those of the classes for each action; under a limit, those that are maximised. With
    ``by_rows`` rows have rewards of their own instead.
    """

    policy: Policy
    rewards: Array  # (K, A)
    penalty: float  # lambda / A
    fit_intercept: bool
    limits: tuple[ClassLimit, ...] = ()
    by_rows: bool = False

    def kinds(self, rows: Rows) -> Array:
        """Return what the rewards of rows follow from: their classes (n,), or theirs (n, A)."""
        return rows.own if self.by_rows else rows.codes

    def design(self, rows: Rows) -> Design:
        """Return what scores of rows are linear in."""
        return rows.state("design", self.fit_intercept, lambda: rows.design(self.fit_intercept))

    def amounts(self, rows: Rows) -> Array:
        """Return the rewards (n, A) of rows, with their weights."""
        columns = self.kinds(rows), rows.weight
        n_actions = self.policy.n_actions
        return rows.state(
            "rewards",
            self,
            lambda: mapped(lambda *c: amounts(self.rewards, *c), n_actions, *columns),
        )


def amounts(of_classes: Array, kinds: Array, weight: Array) -> Array:
    """Return amounts of the classes, or of rows themselves, times the rows' weights."""
    if kinds.ndim == 2:
        return kinds * weight[:, None]
    taken = array_namespace(kinds).take(moved(of_classes, weight), kinds, axis=0)
    return taken * (weight if taken.ndim == 1 else weight[:, None])


def policy_values(policy: Policy, name: str, width: int, *columns: Array) -> Array:
    """Return the values (n, width) of a method of a policy, compiled for many rows."""
    return mapped(getattr(policy, name), width, *columns, compiled=policy.compiled(name))


def log_loss(policy: Policy, F: Array, q: Array) -> Array:
    """Return the sum of log-losses with target weights q, compiled for many rows."""
    return summed(policy.losses, F, q, compiled=policy.compiled("losses"))


class Point(NamedTuple):
    """Coefficients (Q, p) and, of rows that are held, their scores."""

    coef: Array
    scores: Array | None = None

    def scores_of(self, spec: PolicySpec, rows: Rows) -> Array:
        """Return the scores (n, Q) of rows."""
        if self.scores is not None:
            return self.scores
        return spec.design(rows).scores(moved(self.coef, rows.weight))

    def proba(self, spec: PolicySpec, rows: Rows) -> Array:
        """Return the probabilities (n, A) of actions."""
        policy = spec.policy
        return rows.state(
            "proba",
            self.coef,
            lambda: policy_values(policy, "proba", policy.n_actions, self.scores_of(spec, rows)),
        )


# ------------------------------------------------------------------------------------------
# Bounds
# ------------------------------------------------------------------------------------------


class Reference(Protocol):
    """The policy that a bound is tight at."""

    def proba(self, spec: PolicySpec, rows: Rows) -> Array:
        """Return its probabilities, (n, A)."""


@dataclass(frozen=True, eq=False)
class Uniform:
    """All actions alike."""

    def proba(self, spec: PolicySpec, rows: Rows) -> Array:
        """Return its probabilities, (n, A)."""
        xp, n_actions = array_namespace(rows.weight), spec.policy.n_actions
        shape = rows.n_rows, n_actions
        return xp.full(shape, 1.0 / n_actions, dtype=xp.float64, device=device(rows.weight))


@dataclass(frozen=True, eq=False)
class PolicyAt:
    """The policy of coefficients."""

    point: Point

    def proba(self, spec: PolicySpec, rows: Rows) -> Array:
        """Return its probabilities, (n, A)."""
        return self.point.proba(spec, rows)


@dataclass(frozen=True, eq=False)
class ChowsRule:
    """Bayes' (Chow's) rule on log-loss probabilities, with some doubt.

    Where p = 1/A every row stays half undecided, and more bounds hardly get away from there. The
    doubt rules no action out: its intercept would have no optimum.
    """

    point: Point
    costs: Array  # (K, A)

    def proba(self, spec: PolicySpec, rows: Rows) -> Array:
        """Return its probabilities, (n, A)."""
        F = self.point.scores_of(spec, rows)
        n_classes, n_actions = self.costs.shape
        plain, costs = policy_of(n_classes), moved(self.costs, rows.weight)

        def chosen(F: Array, own: Array | None = None) -> Array:
            xp, p = array_namespace(F), plain.proba(F)
            expected = p @ costs if own is None else xp.sum(p[:, :, None] * own, axis=1)
            action = xp.argmin(expected, axis=1)
            known = xp.arange(n_actions, device=device(F))
            taken = xp.astype(action[:, None] == known[None, :], xp.float64)
            return _DOUBT / n_actions + (1.0 - _DOUBT) * taken

        # rewards say nothing of what the row would earn if it were of another class
        known = rows.costs is not None and rows.costs.shape[1] == n_classes
        columns = (F, rows.costs) if known else (F,)
        return mapped(chosen, n_actions, *columns)


@dataclass(frozen=True, eq=False)
class Bound:
    """A log-loss that bounds the cost from above, with rewards (K, A) of classes."""

    rewards: Array
    tight_at: Reference

    def targets(self, spec: PolicySpec, rows: Rows) -> Array:
        """Return soft targets (n, A) of rows, with their weights."""
        return rows.state("targets", self, lambda: self._targets(spec, rows))

    def _targets(self, spec: PolicySpec, rows: Rows) -> Array:
        columns = self.tight_at.proba(spec, rows), spec.kinds(rows), rows.weight
        return mapped(lambda p, *c: p * amounts(self.rewards, *c), spec.policy.n_actions, *columns)


# ------------------------------------------------------------------------------------------
# Tasks
# ------------------------------------------------------------------------------------------

LOSS, DERIVATIVES, REWARD, RATES, LOST = "loss", "derivatives", "reward", "rates", "lost"
# The tasks' parts, by the names of what they give.
_PART_OF = {
    "loss": LOSS,
    "grams": DERIVATIVES,
    "gradient": DERIVATIVES,
    "reward": REWARD,
    "limits": RATES,
    "pulled": RATES,
    "lost": LOST,
}


@dataclass(frozen=True)
class _SumsAt:
    """Named sums at a point, in one reading.

    With ``renew`` derivatives are those of the bound that is tight there, and ``own`` is its loss.
    """

    spec: PolicySpec
    bound: Bound
    point: Point
    wanted: tuple[str, ...]
    renew: bool

    def __call__(self, rows: Rows) -> Sums:
        rows, spec, policy, sums = rows.remembering(), self.spec, self.spec.policy, {}
        point = self.point._replace(scores=self.point.scores_of(spec, rows))
        if LOSS in self.wanted:
            sums["loss"] = log_loss(policy, point.scores, self.bound.targets(spec, rows))
        if self.wanted == (LOSS,):
            return sums
        p = point.proba(spec, rows)
        if DERIVATIVES in self.wanted:
            q = p * spec.amounts(rows) if self.renew else self.bound.targets(spec, rows)
            bend = policy_values(policy, "bend", len(policy.pairs), p, q)
            pull = policy_values(policy, "pull", policy.n_outputs, p, q)
            sums["grams"], sums["gradient"] = spec.design(rows).gram(bend, pull)
            if self.renew:
                sums["own"] = log_loss(policy, point.scores, q)
        columns = p, rows.codes, rows.weight
        if REWARD in self.wanted:
            own = p, spec.kinds(rows), rows.weight
            sums["reward"] = summed(lambda p, *c: p * amounts(spec.rewards, *c), *own)
        if RATES in self.wanted:
            sums |= self._rates(*columns)
        if LOST in self.wanted:
            sums["lost"] = self._lost(point.scores, rows)
        return sums

    def _rates(self, *columns: Array) -> Sums:
        """What is had of the limits, and of the probabilities of the rows' own classes in them."""
        xp = array_namespace(*columns)

        def had(factors: Array, p: Array, codes: Array, weight: Array) -> Array:
            return amounts(factors, codes, weight) * p[:, 1]

        def pulled(factors: Array, p: Array, codes: Array, weight: Array) -> Array:
            own = xp.where(codes == 1, p[:, 1], p[:, 0])
            return xp.abs(amounts(factors, codes, weight)) * own

        return {
            "limits": self._of_limits(had, *columns),
            "pulled": self._of_limits(pulled, *columns),
        }

    def _of_limits(self, function: Callable[..., Array], *columns: Array) -> Array:
        """Sums of a function of factors and rows, for each of the limits."""
        limits = self.spec.limits
        return np.array([float(summed(partial(function, k.factors), *columns)) for k in limits])

    def _lost(self, F: Array, rows: Rows) -> Array:
        """What the bounds of the limits lose of them since the point that they are tight at."""
        assert isinstance(self.bound.tight_at, PolicyAt)
        xp = array_namespace(F)

        def own_log_odds(F: Array, codes: Array) -> Array:
            return xp.where(codes == 1, F[:, 0], -F[:, 0])

        def lost(factors: Array, F: Array, before: Array, codes: Array, weight: Array) -> Array:
            now, then = own_log_odds(F, codes), own_log_odds(before, codes)
            pulled = xp.abs(amounts(factors, codes, weight)) * sigmoid(then)
            return pulled * (softplus(-now) - softplus(-then))

        before = self.bound.tight_at.point.scores_of(self.spec, rows)
        return self._of_limits(lost, F, before, rows.codes, rows.weight)


@dataclass(frozen=True)
class _Slope:
    """Value and gradient of a log-loss or, without a bound, of minus the expected rewards."""

    spec: PolicySpec
    bound: Bound | None
    coef: Array

    def __call__(self, rows: Rows) -> Sums:
        policy, n_outputs = self.spec.policy, self.spec.policy.n_outputs
        rows = rows.remembering()
        F = Point(self.coef).scores_of(self.spec, rows)
        p = policy_values(policy, "proba", policy.n_actions, F)
        if self.bound is None:
            R = self.spec.amounts(rows)
            value = -summed(lambda p, R: p * R, p, R)
            pull = mapped(lambda p, R: -policy.reward_pull(p, R), n_outputs, p, R)
        else:
            q = self.bound.targets(self.spec, rows)
            value, pull = log_loss(policy, F, q), policy_values(policy, "pull", n_outputs, p, q)
        return {"value": value, "gradient": self.spec.design(rows).gradient(pull)}


@dataclass(frozen=True)
class _Best:
    """What is had by always doing the best."""

    spec: PolicySpec

    def __call__(self, rows: Rows) -> Sums:
        R = self.spec.amounts(rows)
        xp = array_namespace(R)
        return {"best": xp.sum(xp.max(R, axis=1))}


@dataclass(frozen=True)
class _Squares:
    """Diagonal of the Hessian of the first bound, where it is the same for all outputs."""

    spec: PolicySpec

    def __call__(self, rows: Rows) -> Sums:
        A = self.spec.policy.n_actions

        def bend(kinds: Array, weight: Array) -> Array:
            R = amounts(self.spec.rewards, kinds, weight)
            return array_namespace(R).sum(R, axis=1, keepdims=True) / A**2 * (1.0 - 1.0 / A)

        weight = mapped(bend, 1, self.spec.kinds(rows), rows.weight)
        return {"squares": self.spec.design(rows).square_sums(weight)}


# ------------------------------------------------------------------------------------------
# Problems
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PolicyProblem:
    """Rows, what a policy is fitted to, and the accuracy asked for."""

    labelled: Labelled
    spec: PolicySpec
    tol: float
    max_iter: int

    @cached_property
    def best(self) -> float:
        """Rewards of always doing the best."""
        if self.spec.by_rows:
            return float(self.labelled.reduce(_Best(self.spec))["best"])
        mass = self.labelled.mass * self.labelled.factors
        return float(mass @ self.spec.rewards.max(axis=1))

    @cached_property
    def penalised(self) -> Array:
        """Ones for penalised coefficients, zero for the intercept."""
        mask = np.ones(self.labelled.n_features + int(self.spec.fit_intercept))
        mask[self.labelled.n_features :] = 0.0
        return mask

    def start(self) -> Array:
        """Return the coefficients of the policy that knows nothing."""
        return np.zeros((self.spec.policy.n_outputs, self.penalised.size))

    def norm(self, coef: Array) -> float:
        """Return the value of the penalty."""
        slopes = coef[:, : self.labelled.n_features]
        return 0.5 * self.spec.penalty * float(np.sum(slopes * slopes))

    def shrinkage(self, coef: Array) -> Array:
        """Return the gradient of the penalty."""
        return self.spec.penalty * coef * self.penalised

    def point(self, coef: Array) -> Point:
        """Return coefficients with the scores of rows that are held."""
        rows = self.labelled.held
        if rows is None:
            return Point(coef)
        return Point(coef, Point(coef).scores_of(self.spec, rows))

    def line(self, start: Point, change: Array) -> Callable[[float], Point]:
        """Return points along a change, by its length; scores are linear in coefficients."""
        rate = self.point(change).scores

        def point(t: float) -> Point:
            coef = start.coef + t * change
            if rate is None or start.scores is None:
                return Point(coef)
            scores = t * rate
            scores += start.scores
            return Point(coef, scores)

        return point

    def read(
        self, bound: Bound, point: Point, *, renew: bool = False, curvature: bool = True
    ) -> Reading:
        """Return sums at a point, not read before they are asked for."""
        return Reading(self, bound, point, renew, curvature)

    def bound_at(self, point: Point) -> Bound:
        """Return the bound of the cost that is tight at a point."""
        return Bound(self.spec.rewards, PolicyAt(point))

    def first_bound(self) -> Bound:
        """Return the bound that is tight at p = 1/A."""
        return Bound(self.spec.rewards, Uniform())

    def slope(self, bound: Bound | None, coef: Array) -> tuple[float, Array]:
        """Return a penalised log-loss and its gradient or, without a bound, those of J."""
        sums = self.labelled.reduce(_Slope(self.spec, bound, coef))
        value = float(sums["value"]) + self.norm(coef) + (self.best if bound is None else 0.0)
        return value, as_numpy(sums["gradient"]) + self.shrinkage(coef)

    def diagonal(self) -> Array:
        """Return the diagonal (1, p) of the first bound's Hessian, the same for all outputs."""
        squares = as_numpy(self.labelled.reduce(_Squares(self.spec))["squares"])
        diagonal = squares + self.spec.penalty * self.penalised
        return diagonal + 1e-12 * diagonal.max()


class Reading:
    """Sums at a point: one by one where rereading is cheap, otherwise all in one reading.

    With ``renew`` the derivatives among them are those of the bound that is tight at this point;
    without ``curvature`` there are none.
    """

    def __init__(
        self,
        problem: PolicyProblem,
        bound: Bound,
        point: Point,
        renew: bool = False,
        curvature: bool = True,
        known: Sums | None = None,
    ) -> None:
        self.problem, self.bound, self.point = problem, bound, point
        self.renew, self._curvature = renew, curvature
        self._sums: Sums = known or {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._sums:
            self._sums |= self.problem.labelled.reduce(
                _SumsAt(self.problem.spec, self.bound, self.point, self._wanted(name), self.renew)
            )
        return self._sums[name]

    def _wanted(self, name: str) -> tuple[str, ...]:
        if self.problem.labelled.cheap_rereads:
            return (_PART_OF[name],)
        more = (DERIVATIVES,) if self._curvature else ()
        return (LOSS, *more, REWARD, *((RATES, LOST) if self.problem.spec.limits else ()))

    @property
    def loss(self) -> float:
        """Penalised log-loss."""
        return float(self["loss"]) + self.problem.norm(self.point.coef)

    @property
    def cost(self) -> float:
        """J."""
        return self.problem.best - float(self["reward"]) + self.problem.norm(self.point.coef)

    def tightened(self) -> Reading:
        """Return the sums for the bound that is tight here, as far as they are known."""
        bound = Bound(self.bound.rewards, PolicyAt(self.point))
        known = None
        if self.renew:
            known = {**self._sums, "loss": self._sums["own"]}
        return Reading(self.problem, bound, self.point, known=known)
