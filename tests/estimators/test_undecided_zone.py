"""Staying undecided and the zone: Chow's rule, with a zone that reaches over both cuts."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.frozen import FrozenEstimator

from grayzone import (
    BayesDecisionClassifier,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.decision import bayes_decision
from grayzone.decision.rules import cuts_between_actions
from grayzone.metrics import expected_cost

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
y = (X[:, 0] + X[:, 1] + rng.normal(size=300) > 0.4).astype(int)
three = np.digitize(X[:, 0] + 0.7 * rng.normal(size=300), [-0.5, 0.5])
COSTS = {0: 1, 1: 4}


def test_the_zone_reaches_over_both_cuts():
    model = TruncatedLogisticRegression(zone=0.7, costs=COSTS, reject_cost=0.3).fit(X, y)
    low, high = cuts_between_actions(model.cost_matrix_, 0.3)
    assert (low, high) == (pytest.approx(0.3 / 4), pytest.approx(0.7))
    assert model.zone_ == pytest.approx((expit(logit(low) - 0.7), expit(logit(high) + 0.7)))
    assert model.threshold_ is None


def test_where_staying_undecided_never_pays_the_zone_is_that_of_the_threshold():
    model = TruncatedLogisticRegression(costs=COSTS, reject_cost=3.0)
    with pytest.warns(UserWarning, match="never worth paying"):
        model.fit(X, y)
    assert model.zone_ == pytest.approx(TruncatedLogisticRegression(costs=COSTS).fit(X, y).zone_)
    assert -1 not in model.predict(X)


def test_ranges_of_costs_reach_from_the_lowest_to_the_highest_cut():
    costs = {0: (0.5, 2), 1: (2, 8)}
    model = TruncatedLogisticRegression(costs=costs, reject_cost=0.2).fit(X, y)
    drawn = rng.uniform([0.5, 2], [2, 8], size=(300, 2))
    cuts = [cuts_between_actions([[0, fp], [fn, 0]], 0.2) for fp, fn in drawn]
    assert model.zone_ == pytest.approx((0.2 / 8, 1 - 0.2 / 2))
    assert model.zone_[0] <= min(c[0] for c in cuts) <= max(c[-1] for c in cuts) <= model.zone_[1]


def test_an_action_that_is_always_best_has_no_zone():
    with pytest.raises(ValueError, match="one action is the best"):
        TruncatedLogisticRegression(reject_cost=0.0).fit(X, y)
    model = TruncatedLogisticRegression(reject_cost=0.0, zone=None).fit(X, y)
    assert np.all(model.predict(X) == -1)


@pytest.mark.parametrize("target", [y, three])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_predictions_follow_the_rule_of_chow_with_the_own_probabilities(target, kernel):
    rejection = 0.25
    model = TruncatedLogisticRegression(kernel=kernel, reject_cost=rejection).fit(X, target)
    chosen = bayes_decision(model.predict_proba(X), model.cost_matrix_, reject_cost=rejection)
    np.testing.assert_array_equal(model.predict(X), model.actions_[chosen])
    assert model.actions_.tolist() == [*np.unique(target), -1]
    assert 0 < np.mean(model.predict(X) == -1) < 0.9
    outside = BayesDecisionClassifier(FrozenEstimator(model), reject_cost=rejection)
    np.testing.assert_array_equal(outside.fit(X, target).predict(X), model.predict(X))


def test_caps_of_more_classes_lie_beyond_where_rows_stay_undecided():
    h, rejection = 0.5, 0.2
    model = TruncatedLogisticRegression(zone=h, reject_cost=rejection).fit(X, three)
    # of 0/1 costs a class is decided for from 1 - rejection on
    np.testing.assert_allclose(model.zone_, expit(logit(1 - rejection) + h))
    dear = TruncatedLogisticRegression(zone=h, reject_cost=0.9).fit(X, three)
    np.testing.assert_allclose(dear.zone_, expit(h))
    costs = {0: 1.0, 1: 3.0, 2: 2.0}
    model = TruncatedLogisticRegression(costs=costs, reject_cost=rejection).fit(X, three)
    p = rng.dirichlet(np.full(3, 0.2), 5000)
    chosen = bayes_decision(p, model.cost_matrix_, reject_cost=rejection)
    for k in range(3):
        assert not np.any(chosen[p[:, k] >= model.zone_[k]] == 3)


def test_labels_of_undecided_rows():
    names = np.where(y == 1, "yes", "no")
    model = TruncatedLogisticRegression(reject_cost=0.2).fit(X, names)
    assert model.actions_.tolist() == ["no", "yes", "undecided"]
    assert "undecided" in model.predict(X)
    other = TruncatedLogisticRegression(reject_cost=0.2, undecided_label=9).fit(X, y)
    assert other.actions_.tolist() == [0, 1, 9]
    with pytest.raises(ValueError, match="one of the classes"):
        TruncatedLogisticRegression(reject_cost=0.2).fit(X, 2 * y - 1)
    with pytest.raises(ValueError, match="not be negative"):
        TruncatedLogisticRegression(reject_cost=-1.0).fit(X, y)


def test_undecided_rows_count_as_errors_in_the_score_and_by_their_cost_in_a_search():
    model = TruncatedLogisticRegression(costs=COSTS, reject_cost=0.3).fit(X, y)
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    search = TruncatedLogisticRegressionCV(Cs=[0.1, 1.0], costs=COSTS, reject_cost=0.3).fit(X, y)
    paid = expected_cost(y, search.predict(X), costs=COSTS, reject_cost=0.3)
    assert search.score(X, y) == pytest.approx(-paid)
    assert -1 in search.predict(X)
    assert search.actions_.tolist() == [0, 1, -1]
