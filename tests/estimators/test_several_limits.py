"""Several limits at once: kept by every step and by decisions, or an error that names them."""

import re
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import grayzone.solvers.policy.solve as module
from grayzone import TightBoundLogisticRegression
from grayzone.decision.confidence import TooFewRowsError, fewest_rows
from grayzone.decision.limits import Target, cut_at, cut_for_all
from grayzone.sources import from_batches

Bounds = TightBoundLogisticRegression


def data(n=400, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] - 0.6 * X[:, 1] + rng.normal(size=n) > 0.7).astype(int)


def rates(y, decided):
    """Return the rates that limits are about."""
    precision = y[decided].mean() if decided.any() else 1.0
    return {
        "max_fpr": decided[y == 0].mean(),
        "min_recall": decided[y == 1].mean(),
        "min_precision": precision,
    }


def kept(limits, found):
    return all(
        found[name] <= value + 1e-12 if name == "max_fpr" else found[name] >= value - 1e-12
        for name, value in limits.items()
    )


SEVERAL = [
    {"max_fpr": 0.1, "min_recall": 0.4},
    {"max_fpr": 0.2, "min_precision": 0.7},
    {"max_fpr": 0.05, "min_precision": 0.6},
    {"min_recall": 0.4, "min_precision": 0.65},
    {"max_fpr": 0.1, "min_recall": 0.4, "min_precision": 0.65},
]


@pytest.mark.parametrize("limits", SEVERAL, ids=str)
def test_decisions_keep_all_limits_and_costs_fall(limits):
    for seed in range(5):
        X, y = data(seed=seed)
        model = Bounds(confidence=None, **limits).fit(X, y)
        assert kept(limits, rates(y, model.predict(X) == 1)), (seed, limits)
        assert np.all(np.diff(model.expected_error_path_) <= 0.0)


# ------------------------------------------------------------------------------------------
# Oracles
# ------------------------------------------------------------------------------------------


def subproblem(step, X, y, spec):
    """Minimise the bound at a step under the bounds of its limits; which of them bind?"""
    sign, start = np.where(y == 1, 1.0, -1.0), X @ step[:-1] + step[-1]
    own, before = expit(sign * start), np.logaddexp(0.0, -sign * start)
    Z = np.column_stack([X, np.ones(len(y))]) * sign[:, None]
    masked = np.append(np.ones(X.shape[1]), 0.0)

    def losses(weight, theta):
        """Weighed log-losses and their gradient."""
        u = Z @ theta
        return weight @ np.logaddexp(0.0, -u), -(weight * expit(-u)) @ Z

    def bounded(limit):
        weight, slack = np.abs(limit.factors)[y] * own, limit.constant
        slack += limit.factors[y] @ expit(start) + weight @ before
        return {
            "type": "ineq",
            "fun": lambda theta: slack - losses(weight, theta)[0],
            "jac": lambda theta: -losses(weight, theta)[1],
        }

    def value(theta):
        found, gradient = losses(own * np.diag(spec.rewards)[y], theta)
        slopes = spec.penalty * theta * masked
        return found + 0.5 * slopes @ theta, gradient + slopes

    limits = [bounded(limit) for limit in spec.limits]
    options = {"ftol": 1e-13, "maxiter": 500}
    found = minimize(value, step, jac=True, method="SLSQP", constraints=limits, options=options)
    assert found.success
    rooms = [limit["fun"](found.x) for limit in limits]
    assert min(rooms) > -1e-9
    return found.fun, sum(room < 1e-9 for room in rooms)


def value_at(coef, step, X, y, spec):
    sign = np.where(y == 1, 1.0, -1.0)
    own = expit(sign * (X @ step[:-1] + step[-1]))
    losses = np.logaddexp(0.0, -sign * (X @ coef[:-1] + coef[-1]))
    penalty = spec.penalty / 2 * np.sum(coef[:-1] ** 2)
    return (own * np.diag(spec.rewards)[y]) @ losses + penalty


@pytest.fixture
def steps(monkeypatch):
    """What constrained fits have gone through, with what they solved."""
    plain, seen = module.constrain, []

    def spy(problem, first, n_bounds):
        for solution in plain(problem, first, n_bounds):
            seen.append((problem.spec, solution.coef[0]))
            yield solution

    monkeypatch.setattr(module, "constrain", spy)
    return seen


def test_steps_solve_their_convex_problems_with_one_limit_or_both_that_bind(steps):
    binding = []
    for seed in (1, 2, 3, 16, 35):
        X, y = data(300, seed=seed)
        alone = Bounds(max_fpr=0.1, confidence=None, n_bounds=2).fit(X, y).predict_proba(X)[:, 1]
        # about the precision that the other limit leaves: either may bind, or both
        precision = 0.99 * alone[y == 1].sum() / alone.sum()
        limits = {"max_fpr": 0.1, "min_precision": precision}
        steps.clear()
        Bounds(confidence=None, n_bounds=2, **limits).fit(X, y)
        for (spec, before), (_, after) in pairwise(steps):
            best, active = subproblem(before, X, y, spec)
            binding.append(active)
            assert value_at(after, before, X, y, spec) <= best * (1.0 + 2e-5)
        for _, coef in steps:
            p = expit(X @ coef[:-1] + coef[-1])
            assert p[y == 0].mean() <= 0.1 + 1e-9
            assert p[y == 1].sum() >= precision * p.sum() * (1.0 - 1e-9)
    assert set(binding) == {1, 2}


def test_a_limit_that_another_implies_changes_nothing():
    X, y = data(seed=9)
    alone = Bounds(max_fpr=0.05, confidence=None).fit(X, y)
    for more in ({"min_precision": 0.2}, {"min_recall": 0.05}):
        both = Bounds(max_fpr=0.05, confidence=None, **more).fit(X, y)
        np.testing.assert_allclose(both.coef_, alone.coef_, atol=1e-8)
        assert both.threshold_ == pytest.approx(alone.threshold_)


def keeps_at(cut, scores, positive, weight):
    """Whether a cut keeps a false positive rate of .3, a recall of .5 and a precision of .6."""
    up = scores >= cut
    right, false = weight[up & positive].sum(), weight[up & ~positive].sum()
    return (
        false <= 0.3 * weight[~positive].sum() + 1e-9
        and right >= 0.5 * weight[positive].sum() - 1e-9
        and right >= 0.6 * (right + false) - 1e-9
    )


def test_the_cut_is_the_lowest_that_keeps_all():
    rng = np.random.default_rng(3)
    limits = {"max_fpr": 0.3, "min_recall": 0.5, "min_precision": 0.6}
    targets, checked = Target.several(*limits.values()), 0
    for _ in range(60):
        scores = np.round(rng.normal(size=40), 1)
        positive = rng.random(40) < expit(2.0 * scores)
        weight = rng.uniform(0.5, 2.0, 40)
        good = [cut for cut in np.unique(scores) if keeps_at(cut, scores, positive, weight)]
        if not good:
            with pytest.raises(ValueError, match="together"):
                cut_for_all(targets, scores, positive, weight, False)
            continue
        checked += 1
        found = cut_for_all(targets, scores, positive, weight, False)
        np.testing.assert_array_equal(scores >= found, scores >= good[0])
    assert 10 < checked < 60


# ------------------------------------------------------------------------------------------
# New rows
# ------------------------------------------------------------------------------------------


def test_limits_share_the_error():
    first, second = Target.several(0.1, None, 0.8, 0.95)
    assert first.error == pytest.approx(0.025)
    assert second.error == pytest.approx(0.025)
    X, y = data(100)
    needed = fewest_rows(0.1, 0.025)
    with pytest.raises(TooFewRowsError, match=f"at least {needed} negative rows"):
        Bounds(max_fpr=0.1, min_recall=0.2, random_state=0).fit(X, y)


def test_a_precision_and_another_limit_at_a_confidence_have_one_cut():
    X, y = data(4000, seed=1)
    scores, positive = X[:, 0] - 0.6 * X[:, 1], y == 1
    targets = Target.several(0.1, 0.3, 0.6, 0.9)
    found = cut_for_all(targets, scores, positive, np.ones(len(y)), True)
    for target in targets:
        own = cut_at(target, scores, positive, np.ones(len(y)), True)
        assert found <= own if target.name == "min_recall" else found >= own
    impossible = Target.several(0.1, 0.99, 0.6, 0.9)
    with pytest.raises(ValueError, match=r"No threshold keeps max_fpr=0\.1 and min_recall"):
        cut_for_all(impossible, scores, positive, np.ones(len(y)), True)


@pytest.mark.parametrize(
    "limits", [{"max_fpr": 0.1, "min_recall": 0.3}, {"max_fpr": 0.1, "min_precision": 0.5}], ids=str
)
def test_new_rows_break_a_limit_no_more_often_than_stated(limits):
    X_new, y_new = data(30_000, seed=77)
    broken = 0
    for seed in range(25):
        X, y = data(900, seed=seed)
        model = Bounds(confidence=0.8, random_state=seed, n_bounds=2, **limits).fit(X, y)
        broken += not kept(limits, rates(y_new, model.predict(X_new) == 1))
    assert broken <= 9  # of 25 a fifth is 5; by chance more than 9 come once in fifty


# ------------------------------------------------------------------------------------------
# What cannot be kept, and where rows are
# ------------------------------------------------------------------------------------------


def test_limits_that_cannot_be_kept_together_are_named_with_what_is_left():
    X, y = data()
    message = r"max_fpr=0\.02 and min_recall=0\.9 together: under max_fpr=0\.02 decisions find "
    with pytest.raises(ValueError, match=message) as caught:
        Bounds(max_fpr=0.02, min_recall=0.9, confidence=None).fit(X, y)
    told = float(re.search(r"find ([0-9.]+) of", str(caught.value))[1])
    alone = Bounds(max_fpr=0.02, confidence=None).fit(X, y)
    assert told == pytest.approx(rates(y, alone.predict(X) == 1)["min_recall"], abs=5e-3)
    noise = np.random.default_rng(0).normal(size=(400, 1))
    with pytest.raises(ValueError, match=r"max_fpr=0\.5 and min_precision=0\.9 cannot be kept"):
        Bounds(max_fpr=0.5, min_precision=0.9, confidence=None).fit(noise, y)


def test_several_limits_on_several_classes_and_beside_costs():
    X, y = data()
    both = {"max_fpr": 0.2, "min_precision": 0.4}
    with pytest.raises(ValueError, match="max_fpr is for two classes"):
        Bounds(**both).fit(X, np.arange(400) % 3)
    with pytest.raises(ValueError, match="max_fpr already says what to trade"):
        Bounds(costs={0: 1.0, 1: 2.0}, **both).fit(X, y)
    with pytest.raises(ValueError, match="partial_fit takes no max_fpr"):
        Bounds(**both).partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize("limits", SEVERAL[1:], ids=str)
def test_blocks_give_the_same_model(limits):
    X, y = data(300, seed=4)
    here = Bounds(confidence=None, n_bounds=2, **limits).fit(X, y)
    blocks = from_batches(lambda: ((X[a : a + 70], y[a : a + 70]) for a in range(0, 300, 70)))
    there = Bounds(confidence=None, n_bounds=2, **limits).fit(blocks)
    np.testing.assert_allclose(there.coef_, here.coef_, atol=1e-5)
    np.testing.assert_array_equal(there.predict(X), here.predict(X))
