"""Rows whose decision would change with the costs, against trying many costs."""

import numpy as np
import pytest

from grayzone.decision import bayes_decision, near_range, near_threshold
from grayzone.decision.near import FACTOR

RNG = np.random.default_rng(0)


def _would_change(proba, costs, factor, reject_cost, tries=4000):
    """Draw costs within reach; corners are drawn as well, since extremes lie there."""
    first = bayes_decision(proba, costs, reject_cost=reject_cost)
    changed = np.zeros(len(proba), dtype=bool)
    rng, K = np.random.default_rng(1), proba.shape[1]
    for k in range(tries):
        s = factor ** (rng.integers(0, 2, K + 1) if k % 2 else rng.random(K + 1))
        scaled = costs * s[:K, None]
        refer = None if reject_cost is None else reject_cost * s[K]
        changed |= bayes_decision(proba, scaled, reject_cost=refer) != first
    return changed


@pytest.mark.parametrize("reject_cost", [None, 0.4])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_exactly_the_rows_whose_decision_some_costs_within_reach_change(n_classes, reject_cost):
    proba = RNG.dirichlet(np.ones(n_classes), 300)
    costs = RNG.uniform(0.5, 4.0, (n_classes, n_classes))
    np.fill_diagonal(costs, 0.0)
    near = near_threshold(proba, costs, 1.7, reject_cost)
    tried = _would_change(proba, costs, 1.7, reject_cost)
    assert 0.05 < near.mean() < 0.95
    assert np.array_equal(near, tried)


def test_of_two_classes_it_is_the_threshold_and_the_factor_in_log_odds():
    p = np.linspace(0.001, 0.999, 999)
    log_odds = np.log(p / (1 - p)) - np.log(1 / 9)
    near = near_threshold(p, [1.0, 9.0], 3.0)
    assert np.array_equal(near, np.abs(log_odds) < np.log(3.0))
    assert near_range([1.0, 9.0], 3.0) == pytest.approx((1 / 28, 1 / 4))


def test_a_range_of_costs_is_a_range_of_thresholds():
    p = np.linspace(0.001, 0.999, 999)
    middle = np.sqrt(3.0 * 8.0)
    reach = [(1.0, 1.0), (3.0 / middle, 8.0 / middle)]
    near = near_threshold(p, [1.0, middle], reach)
    assert np.array_equal(near, (p > 1 / 9) & (p < 1 / 4))
    assert near_range([1.0, middle], reach) == pytest.approx((1 / 9, 1 / 4))


def test_costs_of_rows_are_taken_row_by_row():
    p = np.array([0.1, 0.1, 0.5, 0.5])
    amounts = np.array([9.0, 1.0, 1.5, 30.0])
    costs = np.zeros((4, 2, 2))
    costs[:, 0, 1], costs[:, 1, 0] = 1.0, amounts
    alone = [near_threshold(p[k : k + 1], costs[k])[0] for k in range(4)]
    assert near_threshold(p, costs).tolist() == alone == [True, False, True, False]


def test_undecided_rows_are_near_where_deciding_would_become_cheaper():
    costs = np.array([[0.0, 1.0], [1.0, 0.0]])
    p = np.array([0.02, 0.06, 0.15, 0.5, 0.85, 0.94, 0.98])
    # undecided from .1 to .9; at a factor of 2 the nearer end is .05, the further .2
    near = near_threshold(p, costs, FACTOR, reject_cost=0.1)
    assert near.tolist() == [False, True, True, False, True, True, False]
    assert near_range(costs, FACTOR, 0.1) == pytest.approx((0.05, 0.95))


def test_a_factor_of_one_changes_nothing_and_less_is_refused():
    p = RNG.random(50)
    assert not near_threshold(p, [1.0, 3.0], 1.0).any()
    for bad in (0.5, [(1, 1)], [(2, 1), (1, 1)], "two"):
        with pytest.raises(ValueError, match="factor"):
            near_threshold(p, [1.0, 3.0], bad)
