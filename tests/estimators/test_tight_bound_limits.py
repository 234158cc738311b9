"""Limits on rates of two classes: feasible at every step, kept by decisions; models along a ROC."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

import grayzone.solvers.policy.solve as module
from grayzone import (
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
    roc_by_costs,
)
from grayzone.decision.limits import Target, cut_at, make_limit
from grayzone.sources.split import split_rows

LIMITS = {"max_fpr": 0.1, "min_recall": 0.85, "min_precision": 0.4}
EVERY_LIMIT = pytest.mark.parametrize("name", LIMITS)


@cache
def data(n=200, share=0.2, seed=0, d=4, noise=0.7):
    """Few positives on one side of a plane, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] - 0.6 * X[:, 1] + noise * rng.normal(size=n)
    X.setflags(write=False)
    return X, (score > np.quantile(score, 1.0 - share)).astype(int)


def fit(X, y, sample_weight=None, **parameters):
    """Fit under a limit that is kept on the rows given: how it is on new ones is another file."""
    parameters = {"confidence": None, **parameters}
    return TightBoundLogisticRegression(**parameters).fit(X, y, sample_weight=sample_weight)


def rates(y, predicted, weight=None):
    """False positive rate, recall and precision of decisions."""
    weight = np.ones(len(y)) if weight is None else weight
    decided, positive = predicted == 1, y == 1
    right, false = weight[decided & positive].sum(), weight[decided & ~positive].sum()
    precision = right / (right + false) if right + false > 0 else 1.0
    return {
        "max_fpr": false / weight[~positive].sum(),
        "min_recall": right / weight[positive].sum(),
        "min_precision": precision,
    }


def keeps(name, value, found_rate, rel=1e-12):
    """Whether a rate is on the right side, up to rounding."""
    if name == "max_fpr":
        return found_rate <= value * (1.0 + rel)
    return found_rate >= value * (1.0 - rel)


# ----------------------------------------------------------------- every step keeps the limit

UNBALANCED = {
    "a tenth": {"share": 0.1},
    "nine tenths": {"share": 0.9},
    "german_credit_numeric": {},
    "bank_marketing": {},
}


@pytest.fixture
def unbalanced(request):
    """Data by name: generated, or from outside and skipped where there are none."""

    def get(name):
        if UNBALANCED[name]:
            return data(400, **UNBALANCED[name])
        X, y = request.getfixturevalue("load")(name)
        if X.dtype == object:  # categories are left out
            X = X[:, [isinstance(value, int | float) for value in X[0]]]
        rows = np.random.default_rng(0).permutation(len(y))[:1000]
        return scale(X[rows].astype(float)), y[rows]

    return get


@pytest.fixture
def steps(monkeypatch):
    """What the constrained fits have gone through, since the list was emptied."""
    plain, seen = module.constrain, []

    def spy(problem, first, n_bounds):
        rows = problem.labelled.held
        for solution in plain(problem, first, n_bounds):
            own = np.where(rows.codes == 1, 1.0, -1.0)
            seen.append(SimpleNamespace(problem=problem, X=rows.X, own=own, coef=solution.coef))
            yield solution

    monkeypatch.setattr(module, "constrain", spy)
    return seen


def soft_rates(step):
    """Rates of decisions drawn from the policy of a step, and its J, by their definitions."""
    coef, X, positive = step.coef, step.X, step.own > 0
    proba = expit(X @ coef[0, : X.shape[1]] + (coef[0, -1] if coef.size > X.shape[1] else 0.0))
    right, false = proba[positive].sum(), proba[~positive].sum()
    soft = {
        "max_fpr": false / np.sum(~positive),
        "min_recall": right / np.sum(positive),
        "min_precision": right / (right + false),
    }
    penalty = 0.5 * step.problem.spec.penalty * np.sum(coef[0, : X.shape[1]] ** 2)
    return soft, soft["min_recall"], 1.0 - soft["max_fpr"], penalty


@EVERY_LIMIT
@pytest.mark.parametrize("source", UNBALANCED)
def test_every_step_keeps_the_limit_and_gains(source, name, unbalanced, steps):
    X, y = unbalanced(source)
    for seed in range(20):
        rows = np.random.default_rng(seed).permutation(len(y))[:120]
        value = LIMITS[name] if name != "min_precision" else min(0.95, 1.3 * y[rows].mean())
        steps.clear()
        found = fit(X[rows], y[rows], n_bounds=2, max_iter=20, **{name: value})
        assert len(steps) >= 2
        costs = []
        for step in steps:
            soft, tpr, tnr, penalty = soft_rates(step)
            assert keeps(name, value, soft[name], 1e-9), (seed, soft[name])
            n = np.sum(step.own > 0) if name != "min_recall" else np.sum(step.own < 0)
            J = n * (1.0 - (tnr if name == "min_recall" else tpr)) + penalty
            costs.append(J)
        assert np.all(np.diff(costs) <= 1e-12 * costs[0])
        np.testing.assert_allclose(found.expected_error_path_, costs, rtol=1e-9)
        # and so do decisions
        decided = rates(y[rows], found.predict(X[rows]))
        assert keeps(name, value, decided[name]), (seed, decided)


def test_true_positives_get_more_with_a_weak_penalty(steps):
    for seed in range(5):
        X, y = data(share=0.15, seed=seed)
        steps.clear()
        fit(X, y, max_fpr=0.1, C=1e6, n_bounds=4, max_iter=20)
        recalls = [soft_rates(step)[1] for step in steps]
        assert len(recalls) > 2
        assert np.all(np.diff(recalls) >= -1e-6)
        assert recalls[-1] > recalls[0] + 0.01


@EVERY_LIMIT
def test_nothing_of_the_limit_is_left_unused(name, steps):
    X, y = data(share=0.15)
    fit(X, y, n_bounds=10, **{name: LIMITS[name]})
    final = soft_rates(steps[-1])[0][name]
    assert final == pytest.approx(LIMITS[name], rel=0.02)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_fpr", 0.02),
        ("max_fpr", 0.2),
        ("min_recall", 0.5),
        ("min_recall", 0.95),
        # a stricter precision leaves so few positives that single rows decide
        ("min_precision", 0.3),
    ],
)
def test_decisions_are_no_worse_than_those_of_a_moved_threshold(name, value):
    gained = []
    for seed in range(4):
        X, y = data(300, share=0.15, seed=seed, noise=0.5)
        found = rates(y, fit(X, y, n_bounds=3, max_iter=20, **{name: value}).predict(X))
        scores = LogisticRegression().fit(X, y).decision_function(X)
        cut = cut_at(Target(name, value), scores, y == 1, np.ones(len(y)), False)
        moved = rates(y, (scores >= cut).astype(int))
        if name == "min_recall":
            gained.append(moved["max_fpr"] - found["max_fpr"])
        else:
            gained.append(found["min_recall"] - moved["min_recall"])
    assert np.mean(gained) > -0.01


def test_a_limit_that_everybody_keeps():
    # all rows decided for the positive class have more than that precision
    X, y = data(share=0.5)
    found = fit(X, y, min_precision=0.2)
    assert rates(y, found.predict(X))["min_recall"] == 1.0


def test_stricter_limits_give_up_more():
    X, y = data()
    recalls = [
        rates(y, fit(X, y, n_bounds=2, max_fpr=value).predict(X))["min_recall"]
        for value in (0.01, 0.05, 0.2, 0.6)
    ]
    assert np.all(np.diff(recalls) > 0.0)


def test_a_limit_without_an_intercept(steps):
    X, y = data()
    try:
        found = fit(X, y, n_bounds=2, max_fpr=0.05, fit_intercept=False)
    except ValueError as error:
        assert "intercept" in str(error)  # noqa: PT017 (either way will do)
        return
    for step in steps:
        scores = X @ step.fitted.coef[0]
        np.testing.assert_allclose(step.fitted.scores[:, 0], scores, atol=1e-9)
        assert keeps("max_fpr", 0.05, np.mean(expit(scores[y == 0])), 1e-9)
    assert rates(y, found.predict(X))["max_fpr"] <= 0.05
    np.testing.assert_array_equal(found.intercept_, 0.0)


# ------------------------------------------------------------------------ decisions at the limit


def some_fits(n_fits=8):
    for seed in range(n_fits):
        X, y = data(n=150, seed=seed, d=7)
        for name in LIMITS:
            yield X, y, name, fit(X, y, n_bounds=1, **{name: LIMITS[name]})


def test_decisions_keep_the_limit_however_rows_are_given():
    # products with one row, or a sparse matrix, are rounded differently
    for X, y, name, found in some_fits():
        one_by_one = np.concatenate([found.predict(row[None]) for row in X])
        for predicted in (
            found.predict(X),
            one_by_one,
            found.predict(sp.csr_array(X)),
            found.predict(np.asfortranarray(X)),
        ):
            decided = rates(y, predicted)
            assert keeps(name, LIMITS[name], decided[name]), (name, decided)


def test_the_threshold_is_that_of_probabilities():
    for X, _, _, found in some_fits():
        proba = found.predict_proba(X)[:, 1]
        np.testing.assert_array_equal(proba >= found.threshold_, found.predict(X) == 1)


# ----------------------------------------------------------------------------- where to cut scores


def best_cut(target, scores, positive, weight):
    """Decisions at every score, and at none: the best of those that keep the limit."""
    best = None
    for cut in [*np.unique(scores), np.inf]:
        decided = np.where(scores >= cut, 1, 0)
        found = rates(positive.astype(int), decided, weight)
        if not keeps(target.name, target.value, found[target.name]):
            continue
        worth = -found["max_fpr"] if target.name == "min_recall" else found["min_recall"]
        best = worth if best is None else max(best, worth)
    return best


@st.composite
def scored_rows(draw, n_max=14):
    n = draw(st.integers(2, n_max))
    scores = np.array(draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), float)
    positive = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    positive[:2] = True, False
    weight = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=n, max_size=n)))
    return scores, positive, weight


@EVERY_LIMIT
@given(rows=scored_rows(), value=st.floats(0.01, 0.99))
def test_the_cut_is_the_best_of_all(name, rows, value):
    scores, positive, weight = rows
    target = Target(name, value)
    cut = cut_at(target, scores, positive, weight, False)
    assert not np.isnan(cut)
    found = rates(positive.astype(int), np.where(scores >= cut, 1, 0), weight)
    assert keeps(name, value, found[name])
    worth = -found["max_fpr"] if name == "min_recall" else found["min_recall"]
    assert worth == pytest.approx(best_cut(target, scores, positive, weight), abs=1e-12)


@EVERY_LIMIT
@given(rows=scored_rows(), value=st.floats(0.01, 0.99))
def test_fresh_rows_are_cut_no_less_carefully(name, rows, value):
    scores, positive, weight = rows
    known, fresh = (cut_at(Target(name, value), scores, positive, weight, f) for f in (False, True))
    # fewer false positives, or more true ones where that is what is promised
    assert fresh <= known if name == "min_recall" else fresh >= known


def mean_rate_of_new_rows(name, value, n, n_draws=3000, seed=0):
    """Average, over held-out samples of uniform scores, of the rate that new rows have."""
    rng = np.random.default_rng(seed)
    positive = np.full(2 * n, name == "min_recall")
    positive[n:] = ~positive[n:]
    found = []
    for _ in range(n_draws):
        scores = rng.random(2 * n)
        cut = cut_at(Target(name, value), scores, positive, np.ones(2 * n), True)
        found.append(1.0 - min(max(cut, 0.0), 1.0))
    return np.mean(found), np.std(found) / np.sqrt(n_draws)


@pytest.mark.parametrize("n", [19, 39, 60, 200])
@pytest.mark.parametrize(("name", "value"), [("max_fpr", 0.1), ("min_recall", 0.9)])
def test_new_rows_keep_the_limit_on_average(name, value, n):
    found, error = mean_rate_of_new_rows(name, value, n)
    if name == "max_fpr":
        assert found <= value + 4.0 * error
    else:
        assert found >= value - 4.0 * error
    # and hardly more is given away than one row makes a difference
    assert abs(found - value) <= 2.0 / (n + 1.0) + 4.0 * error


@pytest.mark.parametrize(("name", "value"), [("max_fpr", 0.05), ("min_recall", 0.95)])
def test_too_few_held_out_rows_promise_nothing(name, value):
    # of ten rows and a new one the new one is the most extreme with probability 1/11
    try:
        found, error = mean_rate_of_new_rows(name, value, 10, n_draws=500)
    except ValueError:
        return
    assert keeps(name, value, found - 4.0 * error if name == "max_fpr" else found + 4.0 * error)


def test_the_expected_rate_of_a_fit_with_held_out_rows():
    # negatives are standard normal: the rate of new ones is known
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y = np.repeat([0, 1], [130, 70])
        X = rng.normal(size=(200, 1)) + 1.5 * y[:, None]
        settings = {"n_bounds": 1, "max_iter": 20, "validation_fraction": 0.3}
        model = fit(X, y, max_fpr=0.1, random_state=seed, **settings)
        border = (logit(model.threshold_) - model.intercept_[0]) / model.coef_[0, 0]
        assert model.coef_[0, 0] > 0.0
        found.append(norm.sf(border))
    assert np.mean(found) <= 0.1 + 3.0 * np.std(found) / np.sqrt(len(found))
    assert np.mean(found) >= 0.05


def test_held_out_rows_set_the_threshold_and_nothing_else():
    X, y = data()
    train, out = split_rows(y, np.array([0, 1]), 0.4, np.random.RandomState(0))
    found = fit(X, y, n_bounds=2, max_fpr=0.2, validation_fraction=0.4, random_state=0)
    alone = fit(X[train], y[train], n_bounds=2, max_fpr=0.2)
    np.testing.assert_allclose(found.coef_, alone.coef_, rtol=1e-12)
    assert found.threshold_ != alone.threshold_
    assert rates(y[out], found.predict(X[out]))["max_fpr"] <= 0.2
    assert not hasattr(found, "held_out_costs_")


# ------------------------------------------------------------------------------- limits as sums


@EVERY_LIMIT
@given(rows=scored_rows(), value=st.floats(0.05, 0.95))
def test_limits_are_sums_over_rows_of_their_own_class(name, rows, value):
    scores, positive, weight = rows
    codes = positive.astype(int)
    limit, rewards = make_limit(Target(name, value), np.bincount(codes, weight, minlength=2))
    rewards = rewards[codes] * weight[:, None]
    proba = expit(scores)
    right, false = weight[positive] @ proba[positive], weight[~positive] @ proba[~positive]
    slack = limit.constant + (limit.factors[codes] * weight) @ proba
    expected = {
        "max_fpr": value - false / weight[~positive].sum(),
        "min_recall": right / weight[positive].sum() - value,
        # a precision of v is FP <= TP (1 - v) / v
        "min_precision": (right * (1.0 - value) / value - false) / weight[~positive].sum(),
    }
    assert slack == pytest.approx(expected[name], abs=1e-12 / value)
    rewarded = ~positive if name == "min_recall" else positive
    np.testing.assert_array_equal(rewards.max(axis=1), weight * rewarded)
    np.testing.assert_array_equal(rewards.argmax(axis=1)[rewarded], positive[rewarded])


# ------------------------------------------------------------------------------------- bad limits


def test_an_impossible_precision():
    # features tell nothing: whatever the threshold is, a third of those decided for are positive
    y = np.tile([0, 0, 1], 40)
    found = TightBoundLogisticRegression(min_precision=0.9, confidence=None)
    with pytest.raises(ValueError, match="cannot be kept"):
        found.fit(np.zeros((120, 2)), y)
    with pytest.raises(NotFittedError):
        found.predict(np.zeros((1, 2)))


# ------------------------------------------------------------------------------------- ROC curves


def test_points_are_those_of_the_models():
    X, y = data()
    curve = roc_by_costs(TightBoundLogisticRegression(n_bounds=3), X, y, asymmetries=7)
    assert len(curve.models) == 7
    for fpr, tpr, a, model in zip(*curve, strict=True):
        assert model.costs == {0: 1.0 - a, 1: a}
        found = rates(y, model.predict(X))
        assert (fpr, tpr) == pytest.approx((found["max_fpr"], found["min_recall"]), abs=1e-15)
        alone = fit(X, y, n_bounds=3, costs={0: 1.0 - a, 1: a})  # from zero, not from the last one
        np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-6)


def test_curves_go_from_nobody_to_everybody():
    X, y = data()
    curve = roc_by_costs(TightBoundLogisticRegression(n_bounds=10), X, y)
    assert len(curve.models) == len(curve.fpr) == len(curve.tpr) == 21
    assert np.all(np.diff(curve.asymmetries) > 0.0)
    # a logistic scale, the same for both classes
    np.testing.assert_allclose(np.diff(logit(curve.asymmetries)), 0.5, rtol=1e-10)
    np.testing.assert_allclose(curve.asymmetries + curve.asymmetries[::-1], 1.0, rtol=1e-12)
    assert (curve.fpr[0], curve.tpr[0]) == (0.0, 0.0)
    assert (curve.fpr[-1], curve.tpr[-1]) == (1.0, 1.0)
    middle = curve.tpr[10] - curve.fpr[10]
    assert middle > 0.3


@pytest.mark.parametrize(
    "asymmetries", [0, -3, 2.5, [], [0.0, 0.5], [0.5, 1.0], [[0.5]], [0.5, np.nan], np.nan]
)
def test_bad_asymmetries(asymmetries):
    with pytest.raises(ValueError, match="asymmetries must"):
        roc_by_costs(TightBoundLogisticRegression(), *data(), asymmetries=asymmetries)


def test_bad_data_for_a_curve():
    X, y = data()
    estimator = TightBoundLogisticRegression(n_bounds=1)
    for part in ({"X_test": X}, {"y_test": y}):
        with pytest.raises(ValueError, match="together"):
            roc_by_costs(estimator, X, y, **part)
    with pytest.raises(ValueError, match="two classes; y has 3"):
        roc_by_costs(estimator, X, np.where(X[:, 2] > 0.5, 2, y))
    for only in (0, 1):
        with pytest.raises(ValueError, match="rows of both classes"):
            roc_by_costs(estimator, X, y, X_test=X[y == only], y_test=y[y == only])
    with pytest.raises(ValueError, match="Invalid parameter 'costs'"):
        roc_by_costs(LogisticRegression(), X, y)


def test_labels_to_test_on_that_no_model_knows():
    X, y = data()
    strange = np.where(X[:, 2] > 0.5, 7, y)
    with pytest.raises(ValueError, match="y_test"):
        roc_by_costs(
            TightBoundLogisticRegression(n_bounds=1), X, y, asymmetries=2, X_test=X, y_test=strange
        )


def test_a_curve_of_zones_is_made_of_models_for_their_thresholds():
    X, y = data()
    curve = roc_by_costs(TruncatedLogisticRegression(zone=0.5), X, y, asymmetries=[0.6, 0.8, 0.9])
    for a, model, fpr, tpr in zip(
        curve.asymmetries, curve.models, curve.fpr, curve.tpr, strict=True
    ):
        own = TruncatedLogisticRegression(zone=0.5, costs={0: 1.0 - a, 1: a}).fit(X, y)
        # each fit of a path starts from the one before
        np.testing.assert_allclose(own.coef_, model.coef_, rtol=1e-6)
        assert model.threshold_ == pytest.approx(1.0 - a)
        assert model.zone_[0] < 1.0 - a < model.zone_[1]
        decided = own.predict(X)
        assert (fpr, tpr) == (decided[y == 0].mean(), decided[y == 1].mean())
    assert np.all(np.diff(curve.tpr) >= 0.0)
