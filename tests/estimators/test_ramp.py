"""The loss saturated on both sides: descent, stationarity, and rows that are given up."""

import numpy as np
import pytest
from scipy.special import expit, logit

from grayzone import TruncatedLogisticRegression
from grayzone.numerics.losses import Ramp
from grayzone.solvers import TruncatedSpec, minimise_problem
from grayzone.solvers.truncated.ramp import descend_ramp
from grayzone.sources.labelled import label
from grayzone.sources.source import HeldSource


def contaminated(n=200, d=3, share=0.1, seed=0, n_classes=2):
    """Well separated classes, and a share of rows far out on the wrong side."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d))
    X[:, 0] += 3.0 * (y - (n_classes - 1) / 2.0)
    wrong = rng.random(n) < share
    y[wrong] = (y[wrong] + 1) % n_classes
    X[wrong] *= 1.5
    return X, y, wrong


def ramp_of(X, y, h=1.0, C=1.0, weight=None):
    """Rows and their losses, with the zone sigma(+-h) or caps sigma(h)."""
    spec = TruncatedSpec(np.full(y.max() + 1, -h), 1.0 / C, True)
    return label(HeldSource(X, y, weight)), spec


def ramp_problem(X, y, h=1.0, C=1.0, weight=None):
    """The same as a problem and its ramp."""
    labelled, spec = ramp_of(X, y, h, C, weight)
    problem = spec.problem(labelled.held)
    return problem, Ramp(problem.loss.floor, -problem.loss.floor)


OPTIONS = {"tol": 1e-8, "max_iter": 500}


def ramp_value(problem, ramp, coef):
    u = problem.margins.margin(problem.design.scores(coef))
    return float(problem.weight @ ramp.value(u)) + problem.penalty_value(coef)


CASES = {
    "two classes": contaminated(),
    "two classes, many wrong": contaminated(share=0.25, seed=1),
    "three classes": contaminated(n_classes=3, seed=2),
}


@pytest.fixture(params=CASES)
def data(request):
    return CASES[request.param]


@pytest.fixture(params=[(1.0, 1.0), (0.3, 1.0), (2.0, 0.05), (1.0, 100.0)], ids=str)
def descended(request, data):
    h, C = request.param
    X, y, _ = data
    weight = np.random.default_rng(3).uniform(0.5, 2.0, size=len(y))
    problem, ramp = ramp_problem(X, y, h, C, weight)
    labelled, spec = ramp_of(X, y, h, C, weight)
    return problem, ramp, descend_ramp(labelled, spec, -spec.floors, **OPTIONS)


def test_the_objective_never_rises(descended):
    problem, ramp, found = descended
    assert np.all(np.diff(found.objectives) <= 0.0)
    # the last one is the value at what is given back, the first one that of the convex fit
    assert found.objectives[-1] == pytest.approx(
        ramp_value(problem, ramp, found.convex.coef), rel=1e-12
    )
    first = ramp_value(problem, ramp, minimise_problem(problem, **OPTIONS).coef)
    assert found.objectives[0] == pytest.approx(first, rel=1e-6)


def test_stationary(descended):
    problem, ramp, found = descended
    u = problem.margins.margin(problem.design.scores(found.convex.coef))
    given_up = np.flatnonzero(ramp.given_up(u))
    # nothing pulls at rows beyond the ceiling, and all others are fitted to the gap
    kept = np.flatnonzero(found.kept.held.weight)
    assert np.intersect1d(kept, given_up).size == 0
    assert kept.size + given_up.size == problem.design.n_rows
    assert found.convex.certificate.relative <= 1e-8


def test_no_step_nearby_is_lower(descended):
    problem, ramp, found = descended
    here = found.objectives[-1]
    rng = np.random.default_rng(4)
    for size in (1e-5, 1e-4, 1e-3):
        for _ in range(20):
            step = rng.normal(size=found.convex.coef.shape)
            step *= size / np.linalg.norm(step)
            there = ramp_value(problem, ramp, found.convex.coef + step)
            # the convex part is solved to a relative gap of 1e-8
            assert there >= here - 1e-7 * here


@pytest.mark.parametrize("seed", range(5))
def test_one_coefficient_is_a_local_optimum(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=30)
    y = (x + rng.normal(size=30) > 0.0).astype(int)
    x[:3] *= -4.0
    fitted = TruncatedLogisticRegression(
        loss="ramp", C=10.0, zone=0.7, fit_intercept=False, tol=1e-10
    ).fit(x[:, None], y)
    w = fitted.coef_[0, 0]

    def value(w):
        u = np.where(y == 1, -1.0, 1.0)[:, None] * np.outer(x, w)
        return np.logaddexp(0.0, np.clip(u, -0.7, 0.7)).sum(axis=0) + w**2 / 20.0

    assert fitted.objective_ == pytest.approx(value(np.array([w]))[0], rel=1e-12)
    near = w + np.linspace(-1e-3, 1e-3, 2001)
    assert value(near).min() >= fitted.objective_ * (1.0 - 1e-10)


def test_not_above_the_value_at_the_convex_fit(data):
    X, y, _ = data
    problem, ramp = ramp_problem(X, y)
    truncated = TruncatedLogisticRegression().fit(X, y)
    ramped = TruncatedLogisticRegression(loss="ramp").fit(X, y)
    before, after = (
        ramp_value(problem, ramp, np.column_stack([e.coef_, e.intercept_]))
        for e in (truncated, ramped)
    )
    assert after <= before
    assert ramped.objective_ == pytest.approx(after, rel=1e-12)
    assert ramped.objective_ <= truncated.objective_
    assert ramped.dual_gap_ <= 1e-6


def test_outliers_are_given_up(data):
    X, y, wrong = data
    truncated = TruncatedLogisticRegression().fit(X, y)
    ramped = TruncatedLogisticRegression(loss="ramp").fit(X, y)
    assert ramped.support_.size < truncated.support_.size
    # most of the wrong rows carry the truncated model, hardly any the ramp
    assert np.isin(np.flatnonzero(wrong), truncated.support_).mean() > 0.6
    assert np.isin(np.flatnonzero(wrong), ramped.support_).mean() < 0.3
    np.testing.assert_array_equal(np.flatnonzero(ramped.partition_), ramped.support_)
    assert ramped.partition_.shape == y.shape


def test_given_up_rows_have_no_influence(data):
    X, y, _ = data
    ramped = TruncatedLogisticRegression(loss="ramp", tol=1e-9).fit(X, y)
    own = ramped.predict_proba(X)[np.arange(len(y)), y]
    # beyond the ceiling another class is as certain as its cap, sigma(1)
    kept = own >= expit(-1.0)
    again = TruncatedLogisticRegression(tol=1e-9).fit(X[kept], y[kept])
    np.testing.assert_allclose(ramped.coef_, again.coef_, atol=1e-3)
    assert not np.any(np.isin(np.flatnonzero(~kept), ramped.support_))


def test_the_truncated_fit_where_no_row_is_beyond():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0.0).astype(int)
    X[:, 0] += 2.0 * np.sign(X[:, 0])
    truncated = TruncatedLogisticRegression().fit(X, y)
    ramped = TruncatedLogisticRegression(loss="ramp").fit(X, y)
    np.testing.assert_array_equal(ramped.coef_, truncated.coef_)
    np.testing.assert_array_equal(ramped.support_, truncated.support_)
    assert ramped.objective_ == pytest.approx(truncated.objective_, rel=1e-12)


@pytest.mark.parametrize("costs", [None, {0: 1.0, 1: 5.0}])
def test_both_sides_of_the_zone(costs):
    # positive rows are given up below p_min, negative ones above p_max
    X, y, _ = contaminated(seed=6)
    ramped = TruncatedLogisticRegression(loss="ramp", costs=costs).fit(X, y)
    p = ramped.predict_proba(X)[:, 1]
    p_min, p_max = ramped.zone_
    np.testing.assert_allclose(logit(ramped.zone_) - logit(ramped.threshold_), [-1.0, 1.0])
    beyond = np.where(y == 1, p < p_min - 1e-6, p > p_max + 1e-6)
    assert beyond.any()
    assert not np.any(ramped.partition_[beyond])


def test_no_class_is_given_up_whole():
    # every positive row is an outlier of the convex fit: giving all up would leave one class
    X = np.concatenate([np.linspace(-1.0, 1.0, 200), [0.0, 0.1]])[:, None]
    y = np.repeat([0, 1], [200, 2])
    with pytest.warns(UserWarning, match="is a constant"):
        ramped = TruncatedLogisticRegression(loss="ramp", zone=0.5).fit(X, y)
    assert np.isfinite(ramped.coef_).all()
    assert set(y[ramped.support_]) == {0, 1}
