"""What one step is worth shows after it: its certificate is about as good as its point."""

from dataclasses import replace

import numpy as np
import pytest

from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers import Decomposed, Problem, minimise_problem
from grayzone.solvers.truncated import decomposed
from grayzone.solvers.truncated.start import is_small


@pytest.fixture(scope="module", params=[-np.inf, -2.0, -0.3], ids=["no zone", "wide", "narrow"])
def problem(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 15))
    y = np.where(X @ rng.normal(size=15) + 2.0 * rng.logistic(size=30_000) > 1.0, 1.0, -1.0)
    loss = TruncatedLogistic(np.full(30_000, request.param))
    weight = rng.uniform(0.5, 2.0, size=30_000)
    return Problem(as_design(X), SignedMargin(y), loss, weight, penalty=1e-3)


def test_the_gap_after_a_step_is_that_of_its_point(problem):
    assert not is_small(problem)
    best = minimise_problem(problem, "auto", tol=1e-12, max_iter=100).certificate
    solver = Decomposed()
    state = solver.step(problem, solver.init(problem, None), 1e-6)
    found = state.certified(problem, 1e-6, last=True).certificate
    away = found.primal - (best.primal - best.gap)
    assert away <= found.gap <= 10.0 * away
    # slopes at the same point leave a force, which next to no penalty holds
    slopes = replace(state, multipliers=problem.loss.slope(state.u), touched=None, raw=None)
    assert slopes.certified(problem, 1e-6, last=True).certificate.gap > 100.0 * found.gap


def test_one_step_is_enough_where_it_leads_there(problem):
    assert minimise_problem(problem, "auto", tol=1e-4, max_iter=100).n_iter == 1


@pytest.mark.parametrize("seed", range(3))
def test_rounded_kinks_are_enough_for_a_loose_tolerance(problem, monkeypatch, seed):
    def interior_point(*_args, **_options):
        raise AssertionError("rows near the kink were treated exactly")

    monkeypatch.setattr(decomposed, "interior_point", interior_point)
    found = minimise_problem(problem, "auto", tol=1e-2, max_iter=100, seed=seed)
    assert found.n_iter == 1
    assert found.certificate.relative <= 1e-2


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-5])
def test_what_is_left_undone_is_in_the_certificate(problem, tol):
    best = minimise_problem(problem, "auto", tol=1e-12, max_iter=100).certificate
    found = minimise_problem(problem, "auto", tol=tol, max_iter=100).certificate
    assert found.primal - best.primal <= found.gap <= tol * found.primal
