"""A rare class: starts that keep its rows, and constants that leave the other on the hinge."""

import numpy as np
import pytest

from grayzone import TruncatedLogisticRegression
from grayzone.numerics.designs import as_design
from grayzone.numerics.losses import TruncatedLogistic, sigmoid
from grayzone.numerics.margins import SignedMargin
from grayzone.solvers import Problem, certify, minimise_problem
from grayzone.solvers.truncated.pinned import pinned_constant, pinned_sign
from grayzone.solvers.truncated.start import _stratified


def rare(p_min, p_max, n=6000, shift=0.4, flipped=False):
    """About 1 % positives whose mean is not far from that of the others."""
    rng = np.random.default_rng(0)
    sign = np.where(rng.random(n) < 0.01, 1.0, -1.0)
    X = rng.normal(size=(n, 6)) + shift * (sign > 0)[:, None]
    floor = np.where(sign > 0, np.log((1 - p_max) / p_max), np.log(p_min / (1 - p_min)))
    if flipped:
        sign = -sign
    return Problem(
        as_design(X, True), SignedMargin(sign), TruncatedLogistic(floor), np.ones(n), 1.0
    )


@pytest.mark.parametrize("flipped", [False, True])
def test_a_class_on_the_hinge_is_proved_to_be_there(flipped):
    problem = rare(0.3, 0.7, flipped=flipped)
    sign = pinned_sign(problem, problem.margins.margin(np.zeros((6000, 1))), 0.1)
    assert sign == (1.0 if flipped else -1.0)
    found = pinned_constant(problem, sign, 1e-6)
    assert found is not None
    np.testing.assert_array_equal(found.coef[:, :-1], 0.0)
    assert sigmoid(np.abs(found.coef[0, -1])) == pytest.approx(0.7)
    a = found.multipliers[found.rows]
    assert np.all((a >= 0.0) & (a <= problem.loss.slope_at_floor[found.rows]))
    proof = certify(problem, found.coef, found.scores, found.multipliers)
    assert proof.relative <= 1e-6
    # what the interior point reaches on all rows is no better
    other = minimise_problem(problem, "active-set", tol=1e-3, max_iter=1, start=found.coef)
    assert proof.primal <= other.certificate.primal * (1.0 + 1e-12)
    best = minimise_problem(problem, tol=1e-10, max_iter=100)
    assert proof.primal == pytest.approx(best.certificate.primal, rel=1e-6)


def test_no_constant_where_a_function_is_better():
    problem = rare(0.3, 0.7, shift=3.0)
    assert pinned_constant(problem, -1.0, 1e-6) is None
    found = minimise_problem(problem, tol=1e-8, max_iter=100)
    assert found.certificate.relative <= 1e-8
    assert np.std(found.scores) > 0.1


def test_no_class_is_pinned_where_the_prior_is_in_the_zone():
    problem = rare(0.001, 0.7)
    assert pinned_sign(problem, np.zeros(6000), 0.1) == 0.0
    # nor where margins are all over the place, nor without an intercept
    problem = rare(0.3, 0.7)
    assert pinned_sign(problem, np.arange(6000.0), 0.1) == 0.0


def test_a_part_keeps_the_rare_class_and_the_balance():
    problem = rare(0.01, 0.3, n=20_000)
    part = _stratified(problem, 0)
    assert part is not None
    assert np.sum(part.margins.y > 0) == np.sum(problem.margins.y > 0)
    assert part.weight.size < 0.3 * problem.weight.size
    for sign in (-1.0, 1.0):
        share = part.weight[part.margins.y == sign].sum() / np.sum(problem.margins.y == sign)
        assert share == pytest.approx(0.2, rel=0.01)
    assert part.penalty == pytest.approx(0.2)


@pytest.mark.parametrize("n_classes", [3, 4, 10])
def test_starts_from_parts_come_to_an_end_with_several_classes(n_classes):
    # parts of classes that were nearly all kept were the whole again, without an end
    for n in (4000, 4003, 4400, 8000, 20_000):
        X = np.random.default_rng(0).normal(size=(n, 2))
        codes = np.arange(n) % n_classes
        X[:, 0] += codes
        model = TruncatedLogisticRegression(random_state=0).fit(X, codes)
        assert model.dual_gap_ <= model.tol
