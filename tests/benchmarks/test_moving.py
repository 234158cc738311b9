"""The benchmark behind docs/moving: what it measures is what it says."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from benchmarks.data import Split
from benchmarks.peers import moving
from benchmarks.peers import moving_contenders as ways
from grayzone import TruncatedLogisticRegression
from grayzone.metrics import expected_cost


@pytest.fixture(scope="module")
def split():
    X, y = make_classification(240, 6, weights=[0.7], flip_y=0.1, random_state=0)
    return Split(X[:120], y[:120], X[120:], y[120:])


@pytest.mark.parametrize("costs", [{0: 1.0, 1: 1.0}, {0: 1.0, 1: 5.0}, {0: 3.0, 1: 0.5}])
def test_costs_are_relative_to_the_better_constant_decision(costs):
    y, decided = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, 1, 0])
    constant = min(expected_cost(y, np.full(5, k), costs=costs) for k in (0, 1))
    wanted = expected_cost(y, decided, costs=costs) / constant
    assert moving.relative_cost(decided, costs, y) == pytest.approx(wanted)


def test_ratios_are_costs_of_a_miss_and_a_false_alarm():
    y = np.array([0, 0, 0, 1])
    assert moving.costs_of("5:1", y) == {0: 1.0, 1: 5.0}
    assert moving.costs_of("balanced", y) == {0: 0.25, 1: 0.75}  # the threshold is the share, 1/4


def test_rows_of_a_model_are_those_that_a_prediction_visits(split):
    X, y = split.X_train, split.y_train
    machine = SVC().fit(X, y)
    assert moving.rows_in_model(machine) == machine.n_support_.sum()
    folds = ways.kernel_contenders(1.0)["CalibratedClassifierCV(SVC())"].make({}).fit(X, y)
    each = [one.estimator.n_support_.sum() for one in folds.calibrated_classifiers_]
    assert len(each) == 5
    assert moving.rows_in_model(folds) == sum(each)
    ours = TruncatedLogisticRegression(kernel="rbf").fit(X, y)
    assert moving.rows_in_model(ours) == len(ours.dual_coef_.T)
    assert np.isnan(moving.rows_in_model(LogisticRegression().fit(X, y)))


def test_bayes_rule_decides_where_there_are_probabilities(split):
    found = moving.try_contender(ways.linear_contenders()[ways.PLAIN], split, ("1:1", "5:1"))
    model = LogisticRegression(max_iter=2_000).fit(split.X_train, split.y_train)
    p = model.predict_proba(split.X_test)[:, 1]
    for ratio, threshold in (("1:1", 1 / 2), ("5:1", 1 / 6)):
        costs = moving.costs_of(ratio, split.y_train)
        wanted = moving.relative_cost(p >= threshold, costs, split.y_test)
        assert found[ratio]["cost"] == pytest.approx(wanted)
    assert found["1:1"]["fit"] == found["5:1"]["fit"]  # one model for both
    own = moving.try_contender(ways.linear_contenders()[ways.BAYES], split, ("1:1", "5:1"))
    assert [own[r]["cost"] for r in own] == [found[r]["cost"] for r in found]
    assert own["1:1"]["fit"] != own["5:1"]["fit"]
