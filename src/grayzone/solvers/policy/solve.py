"""From the first bound to the last: all ways to fit a policy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from grayzone.decision.limits import Target, make_limits
from grayzone.numerics.namespace import is_numpy_array
from grayzone.numerics.threads import own_threads
from grayzone.solvers.policy.bounds import FINER, Solution, descend_directly, fit_bound, majorise
from grayzone.solvers.policy.constrained import constrain
from grayzone.solvers.policy.policy import policy_of
from grayzone.solvers.policy.problem import Bound, ChowsRule, PolicyProblem, PolicySpec
from grayzone.sources.labelled import Labelled

Array = Any


@dataclass(frozen=True)
class Course:
    """How far to go, and which way.

    Attributes
    ----------
    n_bounds : int
        How many bounds are minimised.
    directly : bool
        Whether J itself is descended after a few of them.
    targets : tuple of Target
        The rates that are kept; then bounds are taken one by one.
    undecided : array of shape (K, A) or None
        Costs of actions of which one is to stay undecided.
    """

    n_bounds: int
    directly: bool = False
    targets: tuple[Target, ...] = ()
    undecided: Array | None = None

    @property
    def most_steps(self) -> int | None:
        """How many steps there can be, where that is known."""
        if self.targets:
            return self.n_bounds + 1  # and the start, which keeps the limits
        return None if self.directly else self.n_bounds


class PolicyFit(NamedTuple):
    """Coefficients of the first bound's minimum and of the last, and the way between them."""

    first: Array
    coef: Array
    residual: float  # what is left to gain, relative
    path: list[float]  # J after each step
    stopped: bool  # whether it was told to


def fit_policy(
    problem: PolicyProblem,
    course: Course,
    start: Array | None = None,
    listen: Callable[[Array, float], bool] = lambda coef, cost: False,
) -> PolicyFit:
    """Fit a policy.

    Parameters
    ----------
    problem : PolicyProblem
        The rows, and rewards of their classes, or of each of them.
    course : Course
        How far to go.
    start : array of shape (Q, p) or None
        Where the first bound's fit starts.
    listen : callable
        Called with coefficients and J after each step; ends the fit where it returns true.

    Returns
    -------
    fit : PolicyFit
        What was found.
    """
    with _threads(problem.labelled):
        return _fit_policy(problem, course, start, listen)


def _threads(labelled: Labelled) -> AbstractContextManager[None]:
    """Return a context in which rows in this memory have all threads."""
    here = labelled.held is not None and is_numpy_array(labelled.like)
    return own_threads() if here else nullcontext()


def _fit_policy(
    problem: PolicyProblem,
    course: Course,
    start: Array | None,
    listen: Callable[[Array, float], bool],
) -> PolicyFit:
    first = _first(problem, course, start)
    path: list[float] = []
    told = [False]

    def seen(coef: Array, cost: float) -> bool:
        path.append(cost)
        told.append(listen(coef, cost))
        return told[-1]

    if not course.targets and course.directly:
        coef, residual = descend_directly(first, seen)
        return PolicyFit(first.coef, coef, residual, path, told[-1])
    last = first
    if not course.targets:
        steps = majorise(first, course.n_bounds)
    else:
        steps = constrain(_limited(problem, course.targets), first, course.n_bounds)
    for last in steps:
        if seen(last.coef, last.cost):
            break
    return PolicyFit(first.coef, last.coef, last.residual, path, told[-1])


def _first(problem: PolicyProblem, course: Course, start: Array | None) -> Solution:
    bound = problem.first_bound()
    if course.undecided is not None:
        bound = _bound_at_chows_rule(problem, course.undecided)
    point = problem.point(problem.start() if start is None else start)
    # the next bound is the one at this minimum, if no limit comes before
    renew = not course.targets and course.n_bounds > 1
    return fit_bound(problem.read(bound, point), FINER * problem.tol, renew)


def _bound_at_chows_rule(problem: PolicyProblem, costs: Array) -> Bound:
    """Return the bound that is tight at Bayes' (Chow's) rule on the log-loss fit."""
    spec, (n_classes, n_actions) = problem.spec, costs.shape
    penalty = spec.penalty * n_actions / n_classes
    plain = PolicySpec(policy_of(n_classes), np.eye(n_classes), penalty, spec.fit_intercept)
    of_classes = replace(problem, spec=plain)
    start = of_classes.read(of_classes.first_bound(), of_classes.point(of_classes.start()))
    solution = fit_bound(start, FINER * problem.tol)
    return Bound(spec.rewards, ChowsRule(solution.reading.point, costs))


def _limited(problem: PolicyProblem, targets: tuple[Target, ...]) -> PolicyProblem:
    """Return the problem under limits; rates are those of the data, whatever classes weigh."""
    labelled = problem.labelled.plain
    limits, rewards = make_limits(targets, labelled.mass)
    return replace(
        problem, labelled=labelled, spec=replace(problem.spec, rewards=rewards, limits=limits)
    )
