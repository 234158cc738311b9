"""Costs of each row in metrics, scorers and curves: by brute force, and as costs that all share."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import BayesDecisionClassifier
from grayzone.decision import bayes_decision, cost_matrices, cost_matrix
from grayzone.displays import CostCurveDisplay, RiskCoverageDisplay
from grayzone.metrics import (
    cost_curve,
    expected_cost,
    make_cost_scorer,
    risk_coverage_curve,
    savings_score,
    selective_risk,
)


def random_rows(n=60, K=3, seed=0):
    rng = np.random.default_rng(seed)
    y, pred = rng.integers(K, size=n), rng.integers(K, size=n)
    return y, pred, rng.lognormal(size=(n, K, K)), rng.integers(0, 3, size=n)


@pytest.mark.parametrize("K", [2, 3])
def test_cubes_are_looked_up_row_by_row(K):
    y, pred, E, weights = random_rows(K=K)
    labels = list(range(K))
    paid = np.array([E[i, y[i], pred[i]] for i in range(len(y))])
    rows = {"example_costs": E, "labels": labels, "sample_weight": weights}
    mean = weights @ paid / weights.sum()
    assert expected_cost(y, pred, **rows) == pytest.approx(mean, rel=1e-13)
    assert selective_risk(y, pred, **rows) == (pytest.approx(mean), 1.0)
    left = np.where(np.arange(len(y)) % 4 == 0, -1, pred)
    paid = np.where(left == -1, 0.5, paid)
    got = expected_cost(y, left, **rows, reject_cost=0.5)
    assert got == pytest.approx(weights @ paid / weights.sum(), rel=1e-13)
    # what each decision costs, the truth being what it is, says the same
    prices = E[np.arange(len(y)), y]
    assert expected_cost(y, left, **{**rows, "example_costs": prices}, reject_cost=0.5) == got


def test_a_mapping_says_what_its_array_says():
    y, pred, _, weights = random_rows(K=2)
    names = np.asarray(["good", "bad"])
    amounts, margins = np.random.default_rng(1).lognormal(size=(2, len(y)))
    mapping = {"bad": amounts, "good": margins}
    array = cost_matrices(mapping, ["bad", "good"])
    wanted = np.where(y == pred, 0.0, np.where(names[y] == "bad", amounts, margins))
    for rows in (mapping, {"bad": pd.Series(amounts), "good": list(margins)}, array):
        got = expected_cost(names[y], names[pred], example_costs=rows, sample_weight=weights)
        assert got == pytest.approx(np.average(wanted, weights=weights), rel=1e-13)
    # a number is the same for all rows, and a class that does not occur is known by its name
    one = {"bad": 3.0, "good": np.ones(2)}
    assert expected_cost(["good", "good"], ["good", "bad"], example_costs=one) == 0.5


@pytest.mark.parametrize("costs", [{0: 1.0, 1: 4.0}, [[0.5, 2.0], [3.0, 0.25]]])
def test_constant_rows_are_the_matrix(costs):
    rng = np.random.default_rng(0)
    n = 200
    p = np.concatenate([rng.random(n - 10), [0.0, 1.0] * 5])
    y, weights = (rng.random(n) < p).astype(int), rng.random(n)
    E = np.broadcast_to(cost_matrix(costs, [0, 1]), (n, 2, 2))
    pred = (p > 0.3).astype(int)
    for metric in (expected_cost, savings_score):
        one = metric(y, pred, costs=costs, sample_weight=weights)
        assert metric(y, pred, example_costs=E, sample_weight=weights) == pytest.approx(one, 1e-12)
    options = {"sample_weight": weights, "n_bootstrap": 20, "random_state": 0}
    wanted, got = (
        cost_curve(y, p, **options, **c) for c in ({"costs": costs}, {"example_costs": E})
    )
    for k in range(4):
        np.testing.assert_allclose(got[k], wanted[k], rtol=0, atol=1e-12)
    wanted = risk_coverage_curve(y, p, costs=costs, sample_weight=weights)
    got = risk_coverage_curve(y, p, example_costs=E, sample_weight=weights)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_savings_are_measured_by_the_cheapest_constant_decision():
    y, pred, E, weights = random_rows(K=3)
    rows = {"example_costs": E, "labels": [0, 1, 2], "sample_weight": weights}
    constants = [expected_cost(y, np.full(len(y), k), **rows) for k in range(3)]
    wanted = 1 - expected_cost(y, pred, **rows) / min(constants)
    assert savings_score(y, pred, **rows) == pytest.approx(wanted, rel=1e-12)
    best = np.full(len(y), int(np.argmin(constants)))
    assert savings_score(y, best, **rows) == pytest.approx(0.0, abs=1e-12)
    assert savings_score([0, 1], [0, 1], costs={0: 2, 1: 5}) == 1.0
    assert savings_score([0, 1], [1, 0], costs={0: 2, 1: 5}) == 1 - 7 / 2
    assert savings_score([0, 1], [0, -1], costs={0: 2, 1: 5}, reject_cost=1) == 0.5
    with pytest.warns(UndefinedMetricWarning, match="savings are undefined"):
        assert math.isnan(savings_score([0, 0], [0, 1]))


@pytest.mark.parametrize("ties", [False, True])
def test_a_cost_curve_moves_all_thresholds_by_one_factor_of_their_odds(ties):
    rng = np.random.default_rng(0)
    n = 80
    p = rng.integers(1, 10, size=n) / 10 if ties else rng.random(n)
    y = (rng.random(n) < p).astype(int)
    E = rng.random((n, 2, 2)) + rng.lognormal(size=(n, 2, 2)) * (1 - np.eye(2)) + 1 - np.eye(2)
    weights = rng.random(n)
    curve = cost_curve(y, p, example_costs=E, sample_weight=weights)
    negative, positive = E[:, 0, 1] - E[:, 0, 0], E[:, 1, 0] - E[:, 1, 1]
    means = np.average(negative, weights=weights), np.average(positive, weights=weights)
    for t in np.concatenate([(curve.thresholds[1:] + curve.thresholds[:-1]) / 2, [0.01, 0.99]]):
        factor = t / (1 - t) * means[1] / means[0]  # of the odds, beside Bayes' rule
        decided = (p / (1 - p) >= factor * negative / positive).astype(int)
        k = np.searchsorted(curve.thresholds, t, side="left")
        wanted = expected_cost(y, decided, example_costs=E, sample_weight=weights, labels=[0, 1])
        assert curve.mean_cost[k] == pytest.approx(wanted, rel=1e-10)
    # Bayes' rule is where the line of the display stands
    display = CostCurveDisplay.from_predictions(y, p, example_costs=E, sample_weight=weights)
    assert display.threshold == pytest.approx(means[0] / sum(means))
    k = np.searchsorted(curve.thresholds, display.threshold - 1e-12, side="left")
    bayes = bayes_decision(p, E)
    wanted = expected_cost(y, bayes, example_costs=E, sample_weight=weights, labels=[0, 1])
    assert curve.mean_cost[k] == pytest.approx(wanted, rel=1e-10)
    assert "mean costs" in display.ax_.get_xlabel()
    assert display.zone is None


def test_risk_coverage_by_rows_is_what_bayes_rule_does():
    rng = np.random.default_rng(0)
    proba, y = rng.dirichlet(np.ones(3), size=50), rng.integers(3, size=50)
    E = rng.lognormal(size=(50, 3, 3)) * (1 - np.eye(3))
    curve = risk_coverage_curve(y, proba, example_costs=E, labels=[0, 1, 2])
    for coverage, risk, reject in zip(*curve, strict=True):
        chosen = bayes_decision(proba, E, reject_cost=reject * (1 + 1e-9))
        decided = chosen < 3
        assert decided.mean() == pytest.approx(coverage)
        paid = E[np.arange(50), y, np.minimum(chosen, 2)][decided]
        assert paid.mean() == pytest.approx(risk)
    display = RiskCoverageDisplay.from_predictions(y, proba, example_costs=E, reject_cost=0.3)
    np.testing.assert_array_equal(display.risk, curve.risk)
    assert display.point_ is not None


# Ranges of costs ----------------------------------------------------------------------------


def test_the_regret_is_the_most_that_not_knowing_the_costs_costs():
    rng = np.random.default_rng(0)
    p = rng.random(60)
    y, weights = (rng.random(60) < p).astype(int), rng.random(60)
    ranges = {0: (1.0, 2.0), 1: (3.0, 8.0)}
    curve = cost_curve(y, p, costs=ranges, sample_weight=weights)
    middle = cost_curve(y, p, costs={0: math.sqrt(2), 1: math.sqrt(24)}, sample_weight=weights)
    np.testing.assert_allclose(curve.mean_cost, middle.mean_cost, rtol=1e-12)
    assert middle.regret is None
    worst = np.zeros(len(curve.thresholds))
    for negative in np.linspace(1, 2, 6):
        for positive in np.linspace(3, 8, 6):
            one = cost_curve(y, p, costs={0: negative, 1: positive}, sample_weight=weights)
            worst = np.maximum(worst, one.mean_cost - one.mean_cost.min())
    np.testing.assert_allclose(curve.regret, worst, atol=1e-12)
    assert cost_curve(y, p, costs={0: (2.0, 2.0), 1: 3.0}).regret is None


def test_ranges_are_drawn_as_their_thresholds_and_the_regret_over_them():
    X, y = make_classification(150, 4, flip_y=0.2, random_state=0)
    ranges = {0: 1.0, 1: (3.0, 9.0)}
    clf = BayesDecisionClassifier(LogisticRegression(), costs=ranges).fit(X, y)
    display = CostCurveDisplay.from_estimator(clf, X, y)
    assert display.threshold_range == pytest.approx((0.1, 0.25))
    x, height = display.regret_line_.get_data()
    assert (x[0], x[-1]) == display.threshold_range
    curve = cost_curve(y, clf.predict_proba(X), costs=ranges)
    places = np.searchsorted(curve.thresholds, x, side="left")
    np.testing.assert_array_equal(height, curve.regret[places])
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert "thresholds of costs [0.1, 0.25]" in legend
    assert "BayesDecisionClassifier: regret at most" in legend
    known = CostCurveDisplay.from_estimator(clf, X, y, costs={0: 1.0, 1: 3.0})
    assert known.regret_line_ is None
    assert known.range_patch_ is None
    # costs that the wrapped classifier was fitted with are not those of the wrapper
    plain = BayesDecisionClassifier(clf, costs={0: 1.0, 1: 1.0}).fit(X, y)
    assert CostCurveDisplay.from_estimator(plain, X, y).threshold_range is None


# Scorers ------------------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def loans():
    X, y = make_classification(240, 5, weights=[0.7], flip_y=0.1, random_state=0)
    amounts = np.exp(X[:, 0])
    return X, y, cost_matrices({0: 1.0, 1: 5 * amounts}, [0, 1])


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("in_a_pipeline", [False, True])
def test_costs_of_rows_decide_and_judge_in_cross_validation(loans, in_a_pipeline):
    X, y, E = loans
    scorer = make_cost_scorer().set_score_request(example_costs=True)
    clf = BayesDecisionClassifier(LogisticRegression()).set_predict_request(example_costs=True)
    model = make_pipeline(StandardScaler(), clf) if in_a_pipeline else clf
    folds = StratifiedKFold(3)
    params = {"example_costs": E}
    found = cross_validate(model, X, y, scoring=scorer, params=params, cv=folds)
    for score, (train, test) in zip(found["test_score"], folds.split(X, y), strict=True):
        fitted = clone(model).fit(X[train], y[train])
        decided = fitted.predict(X[test], example_costs=E[test])
        assert score == -expected_cost(y[test], decided, example_costs=E[test])
    # an estimator that does not want them is judged by them all the same
    other = clone(model)
    (other[-1] if in_a_pipeline else other).set_predict_request(example_costs=False)
    plain = cross_validate(other, X, y, scoring=scorer, params=params, cv=folds)
    for score, (train, test) in zip(plain["test_score"], folds.split(X, y), strict=True):
        decided = clone(model).fit(X[train], y[train]).predict(X[test])
        assert score == -expected_cost(y[test], decided, example_costs=E[test])
    assert plain["test_score"].mean() < found["test_score"].mean()


@pytest.mark.parametrize("in_a_pipeline", [False, True])
def test_without_routing_costs_go_to_who_takes_them(loans, in_a_pipeline):
    X, y, E = loans
    scorer = pickle.loads(pickle.dumps(make_cost_scorer({0: 1, 1: 5})))
    taker, other = (
        make_pipeline(StandardScaler(), model).fit(X, y) if in_a_pipeline else model.fit(X, y)
        for model in (BayesDecisionClassifier(LogisticRegression()), LogisticRegression())
    )
    decided = taker.predict(X, example_costs=E)
    wanted = -expected_cost(y, decided, example_costs=E)
    assert scorer(taker, X, y, example_costs=E) == wanted
    mapping = {0: E[:, 0, 1], 1: E[:, 1, 0]}
    assert scorer(taker, X, y, example_costs=mapping) == wanted
    got = scorer(other, X, y, example_costs=E, sample_weight=np.ones(len(y)))
    assert got == -expected_cost(y, other.predict(X), example_costs=E)
    # costs of all rows are for where there are none of each
    assert scorer(taker, X, y) == -expected_cost(y, taker.predict(X), costs={0: 1, 1: 5})


@pytest.mark.usefixtures("routing")
def test_a_mapping_that_folds_do_not_split_is_said(loans):
    X, y, _ = loans
    scorer = make_cost_scorer().set_score_request(example_costs=True)
    clf = BayesDecisionClassifier(LogisticRegression()).set_predict_request(example_costs=True)
    with pytest.raises(
        ValueError, match=r"splits arrays with its folds, but no mappings.*cost_mat"
    ):
        cross_validate(
            clf,
            X,
            y,
            scoring=scorer,
            params={"example_costs": {0: np.ones(len(y)), 1: np.exp(X[:, 0])}},
            error_score="raise",
        )


# Bad input ----------------------------------------------------------------------------------

Y, P = [0, 1, 1], [0.2, 0.6, 0.7]
BAD = [
    (np.ones((2, 2, 2)), "costs of 2 rows; expected 3"),
    (np.ones((3, 3, 3)), r"shape \(3, 3, 3\)"),
    ({0: [1.0, 2.0], 1: 1.0}, "costs of 2 rows; expected 3"),
    ({0: [1.0, np.nan, 2.0], 1: 1.0}, "must be finite; got nan in row 1"),
    ({0: [1.0, -4.0, 2.0], 1: 1.0}, "must not be negative; got -4 in row 1"),
    ({0: [1.0, 4.0, 2.0], 1: "dear"}, "must be made of numbers"),
    ({0: [1.0, 4.0, 2.0]}, r"no entry for \[1\]"),
    (-np.ones((3, 2, 2)), "must not be negative"),
    (np.full((3, 2, 2), np.inf), "must be finite"),
]


@pytest.mark.parametrize(("rows", "message"), BAD)
@pytest.mark.parametrize("metric", [expected_cost, selective_risk, savings_score])
def test_costs_of_rows_that_will_not_do(metric, rows, message):
    with pytest.raises(ValueError, match=message):
        metric(Y, [0, 1, 0], example_costs=rows)


@pytest.mark.parametrize(("rows", "message"), BAD)
@pytest.mark.parametrize("curve", [cost_curve, risk_coverage_curve])
def test_curves_of_costs_of_rows_that_will_not_do(curve, rows, message):
    with pytest.raises(ValueError, match=message):
        curve(Y, P, example_costs=rows)


def test_costs_of_all_rows_and_of_each_are_too_much():
    E = np.ones((3, 2, 2))
    for metric in (expected_cost, selective_risk, savings_score):
        with pytest.raises(ValueError, match="either costs or example_costs"):
            metric(Y, [0, 1, 0], costs={0: 1, 1: 2}, example_costs=E)
    for curve in (cost_curve, risk_coverage_curve):
        with pytest.raises(ValueError, match="either costs or example_costs"):
            curve(Y, P, costs={0: 1, 1: 2}, example_costs=E)


def test_costs_that_make_no_difference():
    equal = np.ones((3, 2, 2))
    assert expected_cost(Y, [0, 1, 0], example_costs=equal) == 1.0
    assert savings_score(Y, [0, 1, 0], example_costs=equal) == 0.0
    with pytest.raises(ValueError, match="make no difference"):
        cost_curve(Y, P, example_costs=equal)
    wrong_way = np.broadcast_to([[1.0, 0.0], [1.0, 0.0]], (3, 2, 2))
    with pytest.raises(ValueError, match="give row 0 no threshold"):
        cost_curve(Y, P, example_costs=wrong_way)
