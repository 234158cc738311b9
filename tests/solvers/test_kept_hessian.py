"""A step on a Hessian kept from the step before, with rows that step left misjudged."""

from dataclasses import replace

import numpy as np
import pytest

from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers import Decomposed, Problem, Status, minimise_problem, solve


def problem_of(floor):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = np.where(X[:, 0] + rng.normal(size=400) > 0, 1.0, -1.0)
    loss = TruncatedLogistic(np.full(400, floor))
    return Problem(as_design(X), SignedMargin(y), loss, np.ones(400), 1.0)


@pytest.mark.parametrize("floor", [-np.inf, -1.0])
def test_rows_left_over_are_solved_for(floor):
    problem = problem_of(floor)
    best = minimise_problem(problem, "auto", tol=1e-12, max_iter=100).certificate.primal
    solver = Decomposed()
    start = np.full((1, 5), 0.05)
    state = solver.step(problem, solver.init(problem, start), 1e-9)
    margin = problem.margins.margin(state.scores)
    slope, bend = problem.loss.slopes(margin)
    H, _ = problem.second_order(state.scores, bend, slope, slope)
    H[np.diag_indices_from(H)] += problem.ridge()
    # rows 0 and 1 are near ones now, whatever their distance from the kink
    memory = replace(state.memory, left=np.array([0, 1]), hessian=H)
    after = solver.step(problem, replace(state, memory=memory), 1e-9)
    assert np.isfinite(after.multipliers).all()
    assert problem.primal(after.coef, after.u) == pytest.approx(best, rel=1e-5)


def test_a_broken_polishing_step_is_no_failure():
    class Breaks(Decomposed):
        steps = 0

        def step(self, problem, state, tol):
            self.steps += 1
            if self.steps > 1:
                raise FloatingPointError
            # an honest first step, but one after which there is still something to polish
            found = super().step(problem, state, tol)
            return replace(found, multipliers=found.multipliers * (1.0 - 1e-6), raw=None)

    problem = problem_of(-1.0)
    found = solve(problem, Breaks(), tol=1e-2, max_iter=10, polish=3)
    assert found.status is Status.CONVERGED
    assert 0.0 < found.certificate.relative <= 1e-2


def test_a_broken_first_step_is_one():
    class Breaks(Decomposed):
        def step(self, problem, state, tol):
            raise FloatingPointError

    found = solve(problem_of(-1.0), Breaks(), tol=1e-2, max_iter=10)
    assert found.status is Status.NOT_FINITE
    assert np.isfinite(found.coef).all()
