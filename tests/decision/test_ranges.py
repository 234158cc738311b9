"""Costs that are only known to lie in a range: the middle decides, the range is the zone."""

import numpy as np
import pytest
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachine,
    RateLimitClassifier,
    TightBoundClassifier,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
    report,
)
from grayzone.decision import (
    bayes_decision,
    cost_matrix,
    threshold_from_costs,
    threshold_range,
    zone_around,
)
from grayzone.decision.rules import certain_from, cuts_between_actions
from grayzone.estimators.facts import facts_of
from grayzone.metrics import cost_curve, expected_cost, make_cost_scorer, selective_risk

COSTS = {"bad": (3, 8), "good": 1}
CLASSES = ["bad", "good"]
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
y = np.where(X[:, 0] + rng.normal(size=200) > 0, "good", "bad")


def test_the_geometric_middle_decides():
    middle = cost_matrix({"bad": 24**0.5, "good": 1}, CLASSES)
    np.testing.assert_allclose(cost_matrix(COSTS, CLASSES), middle, rtol=1e-15)
    low, high = threshold_range(COSTS, CLASSES)
    assert (low, high) == (pytest.approx(3 / 4), pytest.approx(8 / 9))
    t = threshold_from_costs(COSTS, CLASSES)
    assert logit(t) == pytest.approx((logit(low) + logit(high)) / 2)


def test_two_ranges_span_all_thresholds_between_their_corners():
    costs = {0: (2, 3), 1: (5, 20)}
    low, high = threshold_range(costs)
    drawn = rng.uniform([2, 5], [3, 20], size=(500, 2))
    thresholds = [threshold_from_costs(dict(enumerate(pair))) for pair in drawn]
    assert low == pytest.approx(2 / 22)
    assert high == pytest.approx(3 / 8)
    assert low <= min(thresholds) <= max(thresholds) <= high


@pytest.mark.parametrize("costs", [{0: 3, 1: 1}, None, "balanced", [[0, 1], [2, 0]]])
def test_costs_that_are_known_are_a_range_of_one_threshold(costs):
    prior = [0.7, 0.3]
    t = threshold_from_costs(costs, [0, 1], prior)
    assert threshold_range(costs, [0, 1], prior) == (t, t)


def test_a_range_of_one_number_is_that_number():
    np.testing.assert_array_equal(
        cost_matrix({0: (3.3, 3.3), 1: 0}, [0, 1]), cost_matrix({0: 3.3, 1: 0}, [0, 1])
    )
    one = TruncatedLogisticRegression(costs={"bad": (5, 5), "good": 1}).fit(X, y)
    assert one.zone_ == TruncatedLogisticRegression(costs={"bad": 5, "good": 1}).fit(X, y).zone_


@pytest.mark.parametrize(
    "wrong", [(8, 3), (0, 3), (-1, 2), (1, 2, 3), (1,), (), ("a", 2), (1, np.inf), (np.nan, 1)]
)
def test_what_is_no_range_is_an_error_that_names_its_label(wrong):
    with pytest.raises(ValueError, match=r"ranges \(low, high\) with 0 < low <= high.*'bad'"):
        cost_matrix({"bad": wrong, "good": 1}, CLASSES)
    model = TruncatedLogisticRegression(costs={"bad": wrong, "good": 1})
    with pytest.raises(ValueError, match="low <= high"):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_rejection_costs_take_no_range():
    with pytest.raises(ValueError, match="one number for each class"):
        BayesDecisionClassifier(
            LogisticRegression(), reject_cost={"bad": (1, 2), "good": (1, 2)}
        ).fit(X, y)


@pytest.mark.parametrize("width", [1.0, 0.5, 2.0])
def test_the_zone_is_the_range_of_thresholds_and_other_widths_are_multiples_of_it(width):
    model = TruncatedLogisticRegression(zone=width, costs=COSTS).fit(X, y)
    half = (logit(8 / 9) - logit(3 / 4)) / 2
    middle = threshold_from_costs(COSTS, CLASSES)
    assert model.threshold_ == middle
    assert model.zone_ == pytest.approx(zone_around(middle, width * half), abs=1e-14)


def test_the_default_zone_is_the_range_alone_wherever_there_is_a_zone():
    for model in (
        TruncatedLogisticRegression(costs=COSTS),
        TruncatedLogisticRegressionCV(Cs=[1.0], zones=(1.0,), costs=COSTS, scoring="roc_auc"),
        ImportVectorMachine(max_import_points=3, zone=1.0, costs=COSTS),
    ):
        assert model.fit(X, y).zone_ == pytest.approx((3 / 4, 8 / 9), abs=1e-14)


def test_zones_that_are_given_stay():
    assert TruncatedLogisticRegression(zone=None, costs=COSTS).fit(X, y).zone_ == (0.0, 1.0)
    assert TruncatedLogisticRegression(zone=(0.1, 0.9), costs=COSTS).fit(X, y).zone_ == (0.1, 0.9)


def test_more_classes_take_the_middle_of_each_and_keep_their_caps():
    three = np.array(["a", "b", "c"])[rng.integers(0, 3, 200)]
    costs = {"a": (1, 4), "b": 1, "c": (2, 8)}
    model = TruncatedLogisticRegression(costs=costs).fit(X, three)
    middle = cost_matrix({"a": 2, "b": 1, "c": 4}, ["a", "b", "c"])
    np.testing.assert_allclose(model.cost_matrix_, middle, rtol=1e-15)
    np.testing.assert_array_equal(model.zone_, TruncatedLogisticRegression().fit(X, three).zone_)


def test_ranges_wherever_costs_are_a_parameter():
    middle = {"bad": 24**0.5, "good": 1}
    p = LogisticRegression().fit(X, y).predict_proba(X)
    for make in (
        lambda costs: BayesDecisionClassifier(LogisticRegression(), costs=costs),
        lambda costs: TightBoundLogisticRegression(costs=costs),
        lambda costs: TightBoundClassifier(LogisticRegression(), costs=costs),
        lambda costs: RateLimitClassifier(
            LogisticRegression(), max_fpr=0.5, costs=costs, random_state=0
        ),
    ):
        one, other = (make(costs).fit(X, y).predict(X) for costs in (COSTS, middle))
        np.testing.assert_array_equal(one, other)
    decided = np.asarray(CLASSES)[bayes_decision(p, cost_matrix(COSTS, CLASSES))]
    np.testing.assert_array_equal(
        bayes_decision(p, {0: (3, 8), 1: 1}), bayes_decision(p, {0: 24**0.5, 1: 1})
    )
    for score in (expected_cost, selective_risk):
        np.testing.assert_allclose(score(y, decided, costs=COSTS), score(y, decided, costs=middle))
    curves = (cost_curve(y, p, costs=costs).mean_cost for costs in (COSTS, middle))
    np.testing.assert_allclose(*curves)
    model = LogisticRegression().fit(X, y)
    assert make_cost_scorer(COSTS)(model, X, y) == pytest.approx(
        make_cost_scorer(middle)(model, X, y)
    )


def test_reports_show_the_band():
    model = TruncatedLogisticRegression(costs=COSTS).fit(X, y)
    assert ("Thresholds of the range of costs", "0.75 to 0.8889") in facts_of(model).lines
    assert "0.75 to 0.8889" in model._repr_html_()
    for page in (report(model, X, y), report(model, X, y, costs=COSTS)):
        assert page.summary["binary"]["band"] == pytest.approx((0.75, 8 / 9))
        assert "thresholds of the range of costs, 0.75 to 0.8889" in page.html
    known = report(model, X, y, costs={"bad": 2, "good": 1})
    assert known.summary["binary"]["band"] is None


@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("undecided", [False, True])
def test_from_certain_probabilities_on_no_other_action_is_better(K, undecided):
    costs = rng.uniform(0.5, 3.0, (K, K)) * (1 - np.eye(K))
    if undecided:
        costs = np.column_stack([costs, rng.uniform(0.1, 0.4, K)])
    for k, from_here in enumerate(certain_from(costs)):
        others = rng.dirichlet(np.full(K - 1, 0.3), size=2000)
        for p_k, certain in ((from_here + 1e-9, True), (from_here - 1e-3, False)):
            p = np.insert((1 - p_k) * others, k, p_k, axis=1)
            corners = np.insert((1 - p_k) * np.eye(K - 1), k, p_k, axis=1)
            expected = np.vstack([p, corners]) @ costs
            assert bool(np.all(np.argmin(expected, axis=1) == k)) == certain


def test_a_class_that_is_never_decided_for_is_never_certain():
    assert certain_from(np.array([[2.0, 1.0], [1.0, 0.0]]))[0] == np.inf


def test_of_two_classes_the_certain_probabilities_are_the_cuts():
    costs, rejection = np.array([[0.0, 1.0], [5.0, 0.0]]), 0.3
    low, high = cuts_between_actions(costs, rejection)
    certain = certain_from(np.column_stack([costs, [rejection, rejection]]))
    np.testing.assert_allclose(certain, [1 - low, high])
