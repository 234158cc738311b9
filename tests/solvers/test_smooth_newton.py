"""Damped Newton steps on rounded kinks, where steps that look good at their end lead in circles."""

from dataclasses import replace

import numpy as np
import pytest

from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import SmoothedLogistic, TruncatedLogistic
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers import Problem, Quadratic
from grayzone.solvers.truncated.interior_point import smooth_newton

TOL = 2.0


def rare_columns(seed):
    """Rows of which one to three are in each of four rare columns, with rounded kinks."""
    rng = np.random.default_rng(seed)
    n = 800
    X, members = rng.normal(size=(n, 8)), rng.integers(1, 4, size=4)
    for j, size in enumerate(members, start=4):
        X[:, j] = 0.0
        X[rng.integers(n, size=size), j] = np.sqrt(n)
    X[:, 1] *= 3.0
    y = np.where(2.0 * X[:, 0] + 3.0 * rng.normal(size=n) > 4.0, 1.0, -1.0)
    loss = TruncatedLogistic(np.where(y > 0, -1.0, -4.0))
    problem = Problem(as_design(X), SignedMargin(y), loss, np.ones(n), penalty=1.0)
    return replace(problem, loss=SmoothedLogistic(loss, 0.1))


def minimised(problem, tol, **options):
    coef = problem.prior_coef()
    penalty = Quadratic(np.diag(problem.ridge()), problem.shrinkage(coef))
    found = smooth_newton(problem, penalty, problem.design.scores(coef), tol=tol, **options)
    u = problem.margins.margin(problem.design.scores(coef + found.change))
    losses = float(problem.weight @ problem.loss.value(u))
    return found, losses + 0.5 * problem.penalty * problem.square(coef + found.change)


@pytest.mark.parametrize("seed", [205, 519, 1167, 1184])
def test_rare_columns_lead_in_no_circles(seed):
    # 26 to 28 steps where those were taken whose slope at the end was a quarter of the promise
    problem = rare_columns(seed)
    found, value = minimised(problem, TOL)
    assert found.n_iter <= 18
    assert value <= minimised(problem, 1e-9, max_iter=500)[1] + TOL


@pytest.mark.parametrize("seed", [0, 205, 519])
def test_no_step_is_uphill_by_more_than_is_asked_for(seed):
    problem = rare_columns(seed)
    values = [minimised(problem, TOL, max_iter=k)[1] for k in range(1, 12)]
    assert np.all(np.diff(values) <= 0.25 * TOL)
