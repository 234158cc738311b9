"""Costs of each row: forms, thresholds, stakes, and decisions by them."""

import numpy as np
import pytest

from grayzone.decision import (
    action_costs,
    bayes_decision,
    cost_matrices,
    cost_matrix,
    row_stakes,
    row_thresholds,
    threshold_from_costs,
)
from grayzone.decision.example_costs import mean_costs

LABELS = ["bad", "good"]


def random_costs(n, K, seed=0, diagonal=False):
    rng = np.random.default_rng(seed)
    costs = rng.lognormal(size=(n, K, K))
    return costs if diagonal else costs * (1.0 - np.eye(K))


def random_proba(n, K, seed=1):
    return np.random.default_rng(seed).dirichlet(np.ones(K), size=n)


def test_a_mapping_is_the_array_of_its_errors():
    amounts = np.array([3.0, 0.0, 7.0])
    matrices = cost_matrices({"bad": amounts, "good": 2}, LABELS, 3)
    for row, amount in zip(matrices, amounts, strict=True):
        np.testing.assert_array_equal(row, cost_matrix({"bad": amount, "good": 2}, LABELS))
    np.testing.assert_array_equal(cost_matrices(matrices, LABELS, 3), matrices)
    column = {"bad": amounts[:, None], "good": 2.0}
    np.testing.assert_array_equal(cost_matrices(column, LABELS), matrices)


def test_costs_stay_in_their_library():
    xp = pytest.importorskip("array_api_strict")
    for given in ({0: xp.asarray([1.0, 2.0]), 1: 3.0}, xp.asarray(random_costs(2, 2))):
        matrices = cost_matrices(given, [0, 1])
        assert matrices.dtype == xp.float64
        assert row_thresholds(matrices).shape == row_stakes(matrices).shape == (2,)


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("diagonal", [False, True])
def test_rows_are_decided_one_by_one(K, diagonal):
    costs, proba = random_costs(200, K, diagonal=diagonal), random_proba(200, K)
    alone = [int(bayes_decision(p[None], c)[0]) for p, c in zip(proba, costs, strict=True)]
    np.testing.assert_array_equal(bayes_decision(proba, costs), alone)
    expected = np.einsum("ni,nij->nj", proba, costs)
    np.testing.assert_allclose(action_costs(proba, costs), expected, rtol=1e-14)
    rejecting = bayes_decision(proba, costs, reject_cost=0.3)
    cheaper = expected.min(axis=1) > 0.3
    np.testing.assert_array_equal(rejecting, np.where(cheaper, K, alone))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_rows_decide_as_the_matrix_does(K, dtype):
    # many ties: probabilities and costs are small fractions
    rng = np.random.default_rng(0)
    proba = rng.integers(1, 5, size=(300, K)).astype(dtype)
    proba /= proba.sum(axis=1, keepdims=True)
    matrix = rng.integers(0, 4, size=(K, K)) / 3.0
    rows = np.broadcast_to(matrix, (300, K, K))
    np.testing.assert_array_equal(bayes_decision(proba, rows), bayes_decision(proba, matrix))
    # and beside rows of other costs
    if K == 2:
        mixed = np.concatenate([rows, random_costs(1, K)])
        both = bayes_decision(np.concatenate([proba, proba[:1]]), mixed)[:-1]
        np.testing.assert_array_equal(both, bayes_decision(proba, matrix))
    for given in (action_costs(proba, rows), action_costs(proba, matrix)):
        assert given.dtype == dtype


def test_thresholds_and_stakes_are_those_of_each_matrix():
    costs = random_costs(50, 2)
    thresholds = [threshold_from_costs(matrix) for matrix in costs]
    np.testing.assert_array_equal(row_thresholds(costs), thresholds)
    np.testing.assert_allclose(row_stakes(costs), costs.sum(axis=(1, 2)) / 2.0)
    three = random_costs(50, 3, diagonal=True)
    spans = three.max(axis=2) - three.min(axis=2)
    np.testing.assert_allclose(row_stakes(three), spans.mean(axis=1))
    weights = np.arange(50.0)
    np.testing.assert_allclose(
        mean_costs(costs, weights), np.average(costs, axis=0, weights=weights), rtol=1e-13
    )


def test_rows_without_a_threshold_have_no_stake():
    nothing, price, cheaper = np.zeros((2, 2)), np.full((2, 2), 3.0), [[4.0, 1.0], [2.0, 0.0]]
    one_sided = [[0.0, 0.0], [2.0, 0.0]]
    costs = np.array([nothing, price, cheaper, one_sided])
    thresholds = row_thresholds(costs)
    assert np.all(np.isnan(thresholds[:3]))
    assert thresholds[3] == 0.0
    np.testing.assert_array_equal(row_stakes(costs), [0.0, 0.0, 0.0, 1.0])
    # of two dear errors one is always the better decision
    np.testing.assert_array_equal(bayes_decision(np.full(4, 0.01), costs), [1, 1, 1, 1])


def test_costs_of_any_size_have_thresholds():
    extreme = cost_matrices({0: [1e-300, 1.5e308, 1.0], 1: [3e-300, 1.5e308, 1e300]}, [0, 1])
    np.testing.assert_allclose(row_thresholds(extreme), [0.25, 0.5, 1e-300])
    assert np.all(np.isfinite(row_stakes(extreme)))
    p = np.array([0.3, 0.4, 1e-5], dtype=np.float32)
    np.testing.assert_array_equal(bayes_decision(p, extreme), [1, 0, 1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.ones((4, 2)), r"shape \(4, 2\); expected \(4, 2, 2\)"),
        (np.ones((4, 3, 3)), r"shape \(4, 3, 3\); expected \(4, 2, 2\)"),
        (np.zeros((5, 2, 2)), "costs of 5 rows; expected 4"),
        (-random_costs(4, 2), "not be negative; got .* in row 0"),
        (np.full((4, 2, 2), np.nan), "be finite; got nan in row 0"),
        (np.full((4, 2, 2), np.inf), "be finite; got inf in row 0"),
        (np.full((4, 2, 2), 3.0), "make no difference"),
        (np.zeros((4, 2, 2)), "make no difference"),
        ([["a", "b"]], "made of numbers"),
        ({"bad": np.ones(4)}, r"no entry for \['good'\]"),
        ({"bad": 1, "good": 1, "ugly": np.ones(4)}, r"names \['ugly'\], not among"),
        ({"bad": np.ones(3), "good": 1}, r"\['bad'\] has costs of 3 rows; expected 4"),
        ({"bad": np.ones((4, 2)), "good": 1}, "expected one cost a row"),
        ({"bad": [1, 2, np.nan, 4], "good": 1}, r"\['bad'\] must be finite; got nan in row 2"),
        ({"bad": 0, "good": np.zeros(4)}, "make no difference"),
    ],
)
def test_costs_that_will_not_do(given, message):
    with pytest.raises(ValueError, match=message):
        cost_matrices(given, LABELS, 4)


def test_numbers_alone_say_nothing_of_rows():
    with pytest.raises(ValueError, match="give one of them as an array"):
        cost_matrices({"bad": 1.0, "good": 2.0}, LABELS)
    assert cost_matrices({"bad": 1.0, "good": 2.0}, LABELS, 3).shape == (3, 2, 2)


def test_decisions_name_the_shape_that_is_wrong():
    with pytest.raises(ValueError, match=r"costs has costs of 3 rows; expected 4"):
        bayes_decision(np.full(4, 0.5), np.ones((3, 2, 2)))
    with pytest.raises(ValueError, match=r"expected \(4, 2, 2\)"):
        bayes_decision(np.full(4, 0.5), np.ones((4, 3, 3)))
