"""Costs, thresholds, zones and Bayes' rule: laws first, then values and errors."""

import math
import re

import array_api_strict
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from grayzone.decision import (
    action_costs,
    action_labels,
    bayes_decision,
    class_prior,
    cost_matrix,
    reject_costs,
    threshold_from_costs,
    zone_around,
)
from grayzone.decision.zones import binary_zone, class_caps, floor_of
from grayzone.numerics.checks import as_numpy, as_probabilities

# Where arrays live: NumPy, the strict library, and a device NumPy cannot read from directly.
HOMES = {
    "numpy": lambda values, **kw: np.asarray(values, **kw),
    "strict": lambda values, **kw: array_api_strict.asarray(values, **kw),
    "strict, other device": lambda values, **kw: array_api_strict.asarray(
        values, device=array_api_strict.Device("device1"), **kw
    ),
}


@pytest.fixture(params=HOMES)
def home(request):
    return HOMES[request.param]


@st.composite
def exact_problems(draw, n_classes=None):
    """Probabilities in sixteenths and whole costs: every sum and product below is exact."""
    n_classes = draw(st.integers(2, 5)) if n_classes is None else n_classes
    n_samples = draw(st.integers(1, 8))
    cuts = [
        sorted(draw(st.lists(st.integers(0, 16), min_size=n_classes - 1, max_size=n_classes - 1)))
        for _ in range(n_samples)
    ]
    proba = np.asarray([np.diff([0, *cut, 16]) for cut in cuts]) / 16
    cell = st.integers(0, 9)
    cost = np.asarray(
        draw(
            st.lists(
                st.lists(cell, min_size=n_classes, max_size=n_classes),
                min_size=n_classes,
                max_size=n_classes,
            )
        ),
        dtype=float,
    )
    assume(np.any(cost))
    return proba, cost


def brute_force(proba, cost, reject=None):
    """Decide row by row, action by action, with the documented rules for ties."""
    actions = []
    for p in proba:
        expected = [
            sum(p[i] * cost[i][j] for i in range(len(p)))  # sum over true classes
            for j in range(len(p))
        ]
        best = min(expected)
        ties = [j for j, e in enumerate(expected) if e == best]
        action = ties[-1] if len(p) == 2 else ties[0]
        if reject is not None and sum(p[i] * reject[i] for i in range(len(p))) < best:
            action = len(p)
        actions.append(action)
    return actions


@given(exact_problems())
def test_bayes_decision_is_the_brute_force_minimum(problem):
    proba, cost = problem
    np.testing.assert_array_equal(bayes_decision(proba, cost), brute_force(proba, cost))


@given(exact_problems(), st.lists(st.integers(0, 40), min_size=5, max_size=5))
def test_abstention_is_the_brute_force_minimum(problem, quarters):
    proba, cost = problem
    reject = np.asarray(quarters[: len(cost)]) / 4
    got = bayes_decision(proba, cost, reject_cost=reject)
    np.testing.assert_array_equal(got, brute_force(proba, cost, reject))
    everywhere = np.full(len(cost), reject[0])
    np.testing.assert_array_equal(
        bayes_decision(proba, cost, reject_cost=float(reject[0])),
        brute_force(proba, cost, everywhere),
    )


@given(exact_problems(), st.lists(st.integers(0, 9), min_size=5, max_size=5))
def test_a_constant_per_true_class_changes_no_decision(problem, constants):
    proba, cost = problem
    shift = np.asarray(constants[: len(cost)], dtype=float)
    np.testing.assert_array_equal(
        bayes_decision(proba, cost + shift[:, None]), bayes_decision(proba, cost)
    )


@given(exact_problems(), st.sampled_from([0.25, 2.0, 1024.0]))
def test_the_unit_of_cost_changes_no_decision(problem, unit):
    proba, cost = problem
    np.testing.assert_array_equal(bayes_decision(proba, unit * cost), bayes_decision(proba, cost))


@given(exact_problems())
def test_no_constant_decision_is_expected_to_cost_less(problem):
    proba, cost = problem
    expected = action_costs(proba, cost)
    chosen = expected[np.arange(len(proba)), bayes_decision(proba, cost)]
    assert np.all(chosen.mean() <= expected.mean(axis=0))


positive_costs = st.floats(1e-6, 1e6)


@given(positive_costs, positive_costs, st.lists(st.floats(0, 1), max_size=10))
@example(2.0, 1.0, [])  # 2 / 3 is rounded down: comparing expected costs would miss the tie
def test_rule_one_is_a_threshold_and_ties_are_positive(false_positive, false_negative, others):
    threshold = threshold_from_costs([[0, false_positive], [false_negative, 0]])
    assert threshold == false_positive / (false_negative + false_positive)
    p = np.asarray([threshold, np.nextafter(threshold, 0), *others])
    costs = [false_positive, false_negative]
    np.testing.assert_array_equal(bayes_decision(p, costs), p >= threshold)
    np.testing.assert_array_equal(
        bayes_decision(np.stack([1 - p, p], axis=1), costs), p >= threshold
    )
    assert bayes_decision(p, costs)[0] == 1
    assert bayes_decision(p, costs)[1] == 0


@given(st.integers(1, 999), st.floats(0, 1))
def test_balanced_threshold_is_the_prior(positives, p):
    prior = np.asarray([1000 - positives, positives]) / 1000
    threshold = threshold_from_costs("balanced", prior=prior)
    assert threshold == pytest.approx(prior[1], rel=1e-14)
    at = np.asarray([threshold, p])
    np.testing.assert_array_equal(
        bayes_decision(at, cost_matrix("balanced", [0, 1], prior)), at >= threshold
    )


def test_most_probable_class_by_default():
    proba = np.asarray([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.3, 0.35, 0.35]])
    np.testing.assert_array_equal(bayes_decision(proba), [1, 0, 1])
    np.testing.assert_array_equal(bayes_decision(np.asarray([0.5, 0.49])), [1, 0])


def test_near_ties_of_probabilities_follow_the_larger_one():
    # Sums of the other probabilities round to the same number; the probabilities differ.
    proba = np.asarray([[np.nextafter(1 / 3, 0), 1 / 3, 1 / 3], [0.1, 0.45, np.nextafter(0.45, 1)]])
    np.testing.assert_array_equal(bayes_decision(proba), np.argmax(proba, axis=1))


def test_chow_rule():
    p = np.asarray([0.0, 0.125, 0.25, 0.5, 0.75, 0.875])
    np.testing.assert_array_equal(bayes_decision(p, reject_cost=0.25), [0, 0, 0, 2, 1, 1])
    np.testing.assert_array_equal(bayes_decision(p, reject_cost=0.5), [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(bayes_decision(p, reject_cost=0.0), [0, 2, 2, 2, 2, 2])


def test_abstaining_can_cost_more_for_one_class():
    # Leaving a positive undecided is as bad as missing it, a negative costs nothing.
    got = bayes_decision(np.asarray([0.25, 0.5, 0.75]), [1, 1], reject_cost=[0.0, 1.0])
    np.testing.assert_array_equal(got, [0, 1, 1])
    got = bayes_decision(np.asarray([0.25, 0.5, 0.75]), [1, 1], reject_cost=[0.0, 0.5])
    np.testing.assert_array_equal(got, [2, 2, 1])


def test_errors_cheaper_than_right_decisions_still_have_a_best_action():
    p = np.asarray([0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_array_equal(bayes_decision(p, [[1, 0], [0, 1]]), [1, 1, 1, 0, 0])
    np.testing.assert_array_equal(bayes_decision(p, [[1, 0], [1, 0]]), np.ones(5))
    np.testing.assert_array_equal(bayes_decision(p, [[0, 1], [0, 1]]), np.zeros(5))


def test_huge_costs_do_not_overflow():
    assert threshold_from_costs([[0, 1.5e308], [1.5e308, 0]]) == 0.5
    np.testing.assert_array_equal(
        bayes_decision(np.asarray([0.4, 0.6]), [1.5e308, 1.5e308]), [0, 1]
    )


def test_positive_probabilities_in_every_array_library(home):
    p = np.linspace(0, 1, 11)
    got = bayes_decision(home(p), [1.0, 4.0])
    np.testing.assert_array_equal(as_numpy(got), p >= 0.2)


def test_costs_may_come_from_any_array_library(home):
    cost = np.asarray([[0.0, 2.0], [1.0, 0.0]])
    assert threshold_from_costs(home(cost)) == 2 / 3
    np.testing.assert_array_equal(cost_matrix(home(cost), [0, 1]), cost)
    np.testing.assert_array_equal(reject_costs(home([0.1, 0.2]), [0, 1]), [0.1, 0.2])


def test_whole_numbers_and_lists_are_probabilities_too(home):
    np.testing.assert_array_equal(as_numpy(bayes_decision(home([[0, 1], [1, 0]]))), [1, 0])
    np.testing.assert_array_equal(bayes_decision([[0.1, 0.9], [0.9, 0.1]]), [1, 0])
    np.testing.assert_array_equal(bayes_decision([0.1, 0.9]), [0, 1])
    np.testing.assert_array_equal(bayes_decision([[1.0], [1.0]]), [0, 0])


# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "prior", "expected"),
    [
        (None, None, [[0, 1], [1, 0]]),
        ({"no": 1, "yes": 4}, None, [[0, 1], [4, 0]]),
        ({"yes": 4, "no": 0}, None, [[0, 0], [4, 0]]),
        ([[1, 2], [3, 0]], None, [[1, 2], [3, 0]]),
        ("balanced", [3, 1], [[0, 2 / 3], [2, 0]]),
        ("balanced", [0.75, 0.25], [[0, 2 / 3], [2, 0]]),
    ],
)
def test_cost_matrix_of_every_form(costs, prior, expected):
    got = cost_matrix(costs, np.asarray(["no", "yes"]), prior)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected)


def test_balanced_costs_of_many_classes_average_to_one():
    prior = np.asarray([0.5, 0.3, 0.2])
    cost = cost_matrix("balanced", [0, 1, 2], prior)
    assert prior @ cost.max(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("costs", "classes", "prior", "expected"),
    [
        (None, None, None, 0.5),
        ({"ill": 4, "healthy": 1}, None, None, 0.2),  # sorted: "ill" is positive
        ({"ill": 4, "healthy": 1}, ["ill", "healthy"], None, 0.8),
        ({1: 3, -1: 1}, None, None, 0.25),
        ({0: 0, 1: 1}, None, None, 0.0),
        ({0: 1, 1: 0}, None, None, 1.0),
        ([[0.5, 1.5], [3, 0]], None, None, 0.25),
        ("balanced", ["a", "b"], [9, 1], 0.1),
    ],
)
def test_threshold_of_every_form(costs, classes, prior, expected):
    got = threshold_from_costs(costs, classes, prior)
    assert isinstance(got, float)
    assert got == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("costs", "prior", "message"),
    [
        ("balance", None, r"costs='balance' is not known; the only string allowed is 'balanced'"),
        ("balanced", None, r"costs='balanced' needs the class frequencies"),
        ("balanced", [1.0], r"prior has shape \(1,\); expected one frequency for each"),
        ("balanced", [1.0, 0.0], r"\['b'\] never occurs"),
        ("balanced", [1.0, -1.0], r"prior must not be negative"),
        (
            {"a": 1, "b": 1, "c": 1},
            None,
            r"costs names \['c'\], not among the classes \['a', 'b'\]",
        ),
        ({"a": 1}, None, r"costs has no entry for \['b'\]"),
        ({"a": 1, "b": -1}, None, r"costs must not be negative; got -1 for 'b'"),
        ({"a": 1, "b": math.nan}, None, r"costs must be finite"),
        ({"a": 1, "b": "dear"}, None, r"costs must be made of numbers"),
        ({"a": 0, "b": 0}, None, r"All costs are zero"),
        (np.zeros((2, 2)), None, r"All costs are zero"),
        ([[0, 1], [-1, 0]], None, r"costs must not be negative; got -1 in row 1"),
        ([[0, math.inf], [1, 0]], None, r"costs must be finite"),
        (np.ones((3, 3)), None, r"costs has shape \(3, 3\); expected \(2, 2\).*\['a', 'b'\]"),
        ([1, 2], None, r"costs has shape \(2,\); expected \(2, 2\)"),
        ([[0, 1], [1]], None, r"costs must be made of numbers"),
    ],
)
def test_errors_of_cost_matrix(costs, prior, message):
    with pytest.raises(ValueError, match=message):
        cost_matrix(costs, ["a", "b"], prior)


@pytest.mark.parametrize(
    ("costs", "classes", "message"),
    [
        ([[1, 0], [0, 1]], None, r"define no threshold.*\[\[1.0, 0.0\], \[0.0, 1.0\]\]"),
        ([[2, 1], [1, 0]], None, r"define no threshold"),
        ([[1, 1], [2, 2]], None, r"define no threshold"),
        ({"a": 1, "b": 1, "c": 1}, None, r"separates two classes; got 3"),
        (None, [0, 1, 2], r"separates two classes; got 3 \(\[0, 1, 2\]\)"),
        ("balanced", None, r"needs the class frequencies"),
    ],
)
def test_errors_of_threshold(costs, classes, message):
    with pytest.raises(ValueError, match=message):
        threshold_from_costs(costs, classes)


@pytest.mark.parametrize(
    ("proba", "costs", "reject", "message"),
    [
        (np.zeros((2, 2, 2)), None, None, r"proba must have shape .* got shape \(2, 2, 2\)"),
        (np.zeros((2, 0)), None, None, r"no columns"),
        ([0.5, math.nan], None, None, r"NaN or infinity"),
        ([0.5, math.inf], None, None, r"NaN or infinity"),
        (np.ones((2, 3)) / 3, np.ones((2, 2)), None, r"shape \(2, 2\); expected \(3, 3\)"),
        (np.ones((2, 3)) / 3, [1, 1], None, r"shape \(2,\); expected \(3, 3\) or \(3,\)"),
        ([0.5], "balanced", None, r"needs the class frequencies"),
        ([0.5], None, -0.1, r"reject_cost must not be negative"),
        ([0.5], None, math.nan, r"reject_cost must be finite"),
        ([0.5], None, [0.1, 0.1, 0.1], r"reject_cost has shape \(3,\)"),
        ([0.5], None, {0: 0.1}, r"reject_cost has no entry for \[1\]"),
        ([0.5], None, "cheap", r"reject_cost must be made of numbers"),
    ],
)
def test_errors_of_bayes_decision(proba, costs, reject, message):
    with pytest.raises(ValueError, match=message):
        bayes_decision(np.asarray(proba), costs, reject_cost=reject)


def test_nan_is_found_in_every_array_library(home):
    with pytest.raises(ValueError, match="NaN or infinity"):
        as_probabilities(home([0.5, math.nan]))


# ------------------------------------------------------------------------------------------


def logit(p):
    return math.log(p) - math.log1p(-p)


@given(st.floats(1e-9, 1 - 1e-9), st.floats(1e-4, 12))
def test_zone_is_symmetric_in_log_odds(threshold, width):
    low, high = zone_around(threshold, width)
    assert 0 < low < threshold < high < 1
    assert logit(low) == pytest.approx(logit(threshold) - width, rel=1e-6, abs=1e-9)
    # Near 1 the spacing of floating-point numbers limits what log-odds can tell.
    slack = 1e-9 + 4 * np.spacing(1.0) / (1 - high)
    assert logit(high) == pytest.approx(logit(threshold) + width, rel=1e-6, abs=slack)


@given(st.floats(1e-12, 1 - 1e-6), st.floats(1e-6, 40), st.floats(1e-6, 40))
def test_wider_zones_contain_narrower_ones(threshold, a, b):
    narrow, wide = sorted([a, b])
    (low, high), (lower, higher) = zone_around(threshold, narrow), zone_around(threshold, wide)
    assert lower <= low * (1 + 1e-15)
    assert high <= higher * (1 + 1e-15)


@given(st.floats(1e-3, 1 - 1e-3), st.floats(1e-2, 5))
def test_zone_of_the_complement_is_the_complement(threshold, width):
    low, high = zone_around(threshold, width)
    np.testing.assert_allclose(zone_around(1 - threshold, width), (1 - high, 1 - low), rtol=1e-10)


@pytest.mark.parametrize("threshold", [1e-300, 1e-9, 0.088, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("ulps", [4, 16, 1000])
def test_very_narrow_zones_still_hold_the_threshold(threshold, ulps):
    width = ulps * np.spacing(threshold) / (threshold * (1 - threshold))
    low, high = zone_around(threshold, width)
    assert low < threshold < high
    assert threshold - low == pytest.approx(ulps * np.spacing(threshold), rel=0.3)
    assert high - threshold == pytest.approx(ulps * np.spacing(threshold), rel=0.3)


def test_zones_of_less_than_a_rounding_error_still_hold_the_threshold():
    rng = np.random.default_rng(0)
    for threshold in rng.random(500):
        width = 0.75 * np.spacing(threshold) / (threshold * (1 - threshold))
        low, high = zone_around(threshold, width)
        assert low < threshold < high


def test_zones_by_value():
    np.testing.assert_allclose(zone_around(0.5), (0.26894142, 0.73105858), rtol=1e-7)
    assert zone_around(0.3, None) == (0.0, 1.0)
    assert zone_around(0.3, 1e6) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("threshold", "width", "message"),
    [
        (0.0, 1.0, r"threshold must lie strictly between 0 and 1; got 0.0"),
        (1.0, 1.0, r"threshold must lie strictly between 0 and 1; got 1.0"),
        (math.nan, 1.0, r"threshold must lie strictly"),
        (1.5, None, r"threshold must lie strictly"),
        (0.5, 0.0, r"width must be a finite number > 0; got 0.0"),
        (0.5, -1.0, r"width must be a finite number > 0"),
        (0.5, math.inf, r"width must be a finite number > 0"),
        (0.5, math.nan, r"width must be a finite number > 0"),
        (0.5, 1e-17, r"narrower than floating-point numbers can tell apart"),
    ],
)
def test_errors_of_zone_around(threshold, width, message):
    with pytest.raises(ValueError, match=message):
        zone_around(threshold, width)


def test_every_form_of_a_zone():
    assert binary_zone(None, 0.2) == (0.0, 1.0)
    assert binary_zone(1, 0.2) == zone_around(0.2, 1.0)
    assert binary_zone(np.asarray([0.1, 0.9], dtype=np.float32), 0.2) == pytest.approx((0.1, 0.9))
    classes = np.asarray(["a", "b", "c"])
    np.testing.assert_array_equal(class_caps(None, classes), [1, 1, 1])
    np.testing.assert_allclose(class_caps(1.0, classes), zone_around(0.5)[1])
    for caps in ({"c": 0.9, "a": 0.5, "b": 1}, [0.5, 1, 0.9]):
        np.testing.assert_array_equal(class_caps(caps, classes), [0.5, 1, 0.9])


@pytest.mark.parametrize("zone", ["ab", ("low", "high"), (None, 0.5), (0.1, [0.9]), True, {0: 0.3}])
def test_a_zone_that_is_not_made_of_numbers(zone):
    with pytest.raises(ValueError, match=re.escape(f"two classes; got {zone!r}.")):
        binary_zone(zone, 0.5)


def test_floors_are_log_odds_at_the_caps():
    np.testing.assert_allclose(floor_of([0.25, 0.5]), [math.log(3), 0.0], atol=1e-15)
    assert floor_of(1.0) == -math.inf
    assert floor_of(1e-300) == pytest.approx(-math.log(1e-300))


# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "label", "expected"),
    [
        ([0, 1], "auto", [0, 1, -1]),
        ([False, True], "auto", [0, 1, -1]),
        (np.asarray([1, 2], dtype=np.uint8), "auto", [1, 2, -1]),
        ([0.5, 1.5], 7, [0.5, 1.5, 7]),
        (["a", "b"], "auto", ["a", "b", "undecided"]),
        (np.asarray(["a", "b"], dtype=object), "auto", ["a", "b", "undecided"]),
        (["a", "b"], "a referral", ["a", "b", "a referral"]),
    ],
)
def test_actions_hold_classes_and_the_undecided_label(classes, label, expected):
    assert action_labels(classes, label).tolist() == expected


def test_actions_keep_the_type_of_object_arrays():
    assert action_labels(np.asarray(["a", "b"], dtype=object)).dtype == object


@pytest.mark.parametrize(
    ("classes", "label", "message"),
    [
        ([-1, 1], "auto", r"undecided_label='auto' stands for -1, which is one of the classes"),
        (["undecided", "x"], "auto", r"stands for 'undecided', which is one of the classes"),
        ([0, 1], 1.0, r"undecided_label=1.0 stands for 1.0, which is one of"),
        ([0, 1], "?", r"undecided_label='\?' cannot stand beside .* give a number"),
        (["a", "b"], -1, r"undecided_label=-1 cannot stand beside .* give a string"),
        ([0, 1], math.nan, r"undecided_label=nan cannot stand beside"),
        ([0, 1], None, r"undecided_label=None cannot stand beside"),
        (np.asarray([b"a", b"b"]), "auto", r"classes must hold numbers only or strings only"),
        (np.asarray(["a", 1], dtype=object), "auto", r"numbers only or strings only"),
    ],
)
def test_errors_of_undecided_labels(classes, label, message):
    with pytest.raises(ValueError, match=message):
        action_labels(classes, label)


def test_class_prior_counts_with_weights_and_absent_classes(home):
    np.testing.assert_allclose(class_prior(home([1, 1, 0, 1]), [0, 1, 2]), [0.25, 0.75, 0])
    np.testing.assert_allclose(class_prior(["b", "a"], ["a", "b"], home([3.0, 1.0])), [0.25, 0.75])
