"""Metrics against brute force, against scikit-learn, and against each other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss

from grayzone.decision import bayes_decision, cost_matrix
from grayzone.metrics import (
    cost_curve,
    expected_cost,
    make_cost_scorer,
    risk_coverage_curve,
    selective_risk,
    zone_calibration_error,
    zone_log_loss,
)


@st.composite
def decisions(draw, labels=(0, 1, 2), undecided=-1):
    n = draw(st.integers(1, 20))
    truth = draw(st.lists(st.sampled_from(labels), min_size=n, max_size=n))
    pred = draw(st.lists(st.sampled_from([*labels, undecided]), min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any))
    return truth, pred, weights


cells = st.lists(st.floats(0.1, 9), min_size=9, max_size=9)


@given(decisions(), cells, st.lists(st.floats(0, 3), min_size=3, max_size=3))
def test_expected_cost_is_the_brute_force_mean(rows, entries, reject):
    truth, pred, weights = rows
    cost = np.reshape(entries, (3, 3))
    paid = [reject[t] if p == -1 else cost[t, p] for t, p in zip(truth, pred, strict=True)]
    common = {"costs": cost, "labels": [0, 1, 2], "reject_cost": reject}
    total = sum(w * c for w, c in zip(weights, paid, strict=True))
    got = expected_cost(truth, pred, sample_weight=weights, normalize=False, **common)
    assert got == pytest.approx(total)
    got = expected_cost(truth, pred, sample_weight=weights, **common)
    assert got == pytest.approx(total / sum(weights))
    # A weight of two is a row twice.
    got = expected_cost(np.repeat(truth, weights), np.repeat(pred, weights), **common)
    assert got == pytest.approx(total / sum(weights))


@given(decisions(), cells, st.floats(0, 3))
def test_expected_cost_splits_into_risk_and_coverage(rows, entries, reject):
    truth, pred, weights = rows
    if all(p == -1 or w == 0 for p, w in zip(pred, weights, strict=True)):
        return
    common = {
        "costs": np.reshape(entries, (3, 3)),
        "labels": [0, 1, 2],
        "sample_weight": weights,
    }
    risk, coverage = selective_risk(truth, pred, **common)
    total = expected_cost(truth, pred, reject_cost=reject, **common)
    assert total == pytest.approx(coverage * risk + (1 - coverage) * reject)


@given(decisions(undecided=2))
def test_balanced_costs_are_the_balanced_error_rate(rows):
    truth, pred, _ = rows
    pred = [p if p in truth else truth[0] for p in pred]  # scikit-learn warns of other labels
    got = expected_cost(truth, pred, costs="balanced")
    assert got == pytest.approx(
        1 - np.mean([np.mean(np.asarray(pred)[np.asarray(truth) == k] == k) for k in set(truth)])
    )
    if len(set(truth)) > 1:
        assert got == pytest.approx(1 - balanced_accuracy_score(truth, pred))


@given(decisions(undecided=2), cells)
def test_example_costs_generalise_the_matrix(rows, entries):
    truth, pred, weights = rows
    cost = np.reshape(entries, (3, 3))
    common = {"labels": [0, 1, 2], "sample_weight": weights}
    got = expected_cost(truth, pred, example_costs=cost[truth], **common)
    assert got == pytest.approx(expected_cost(truth, pred, costs=cost, **common))


def test_minus_one_may_be_a_class():
    assert expected_cost([-1, 1, 1], [-1, -1, 1]) == pytest.approx(1 / 3)
    assert selective_risk([-1, 1], [-1, -1]) == (0.5, 1.0)
    got = expected_cost([-1, 1, 1], [-1, 0, 1], reject_cost=0.5, undecided_label=0)
    assert got == pytest.approx(0.5 / 3)


@pytest.mark.parametrize(
    ("truth", "pred", "params", "message"),
    [
        ([0, 1], [0, -1], {}, r"leaves 1 rows undecided; give reject_cost"),
        ([0, 1], [0, 7], {"costs": {0: 1, 1: 1}}, r"y_pred contains \[7\], not among"),
        (
            [0, 1],
            [0, 7],
            {"labels": [0, 1]},
            r"y_pred contains \[7\], not among the labels \[0, 1\]",
        ),
        ([0, 7], [0, 1], {"labels": [0, 1]}, r"y_true contains \[7\], not among"),
        ([0, 1], ["0", "1"], {}, r"y_pred holds labels like .*'0'.* do not mix"),
        ([0, 1], ["0", "1"], {"labels": [0, 1]}, r"y_pred holds strings but the labels"),
        ([0, 1], [0, 1], {"costs": {"0": 1}}, r"costs holds labels like"),
        ([0, 1, 2], [0, 1, 1], {"costs": {0: 1, 1: 1}}, r"costs has no entry for \[2\]"),
        ([0, 1], [0, 1], {"costs": np.ones((3, 3))}, r"shape \(3, 3\); expected \(2, 2\)"),
        ([0, 1], [0, 1], {"labels": [0, 0, 1]}, r"labels must differ"),
        ([0, 1], [0], {}, r"y_true has 2 rows but y_pred has 1"),
        ([], [], {}, r"empty"),
        ([-1, 1], [1, 1], {"reject_cost": 1}, r"stands for -1, which is one of the classes"),
        ([0, 1], [1, 1], {"undecided_label": 0}, r"undecided_label=0 stands for 0"),
        ([0, 1], [0, 1], {"sample_weight": [1]}, r"sample_weight must have shape \(2,\)"),
        ([0, 1], [0, 1], {"example_costs": [[0, 1]]}, r"example_costs has shape \(1, 2\)"),
        (
            [0, 1],
            [0, 1],
            {"example_costs": [[0, 1], [-1, 0]]},
            r"example_costs must not be negative; got -1 in row 1",
        ),
        (
            [0, 1],
            [0, 1],
            {"example_costs": [[0, math.nan], [1, 0]]},
            r"example_costs must be finite; got nan in row 0",
        ),
        ([0, 1], [0, 1], {"example_costs": [[0, 1]] * 2, "costs": {0: 1, 1: 1}}, r"not both"),
        ([0, 1], [0, 1], {"costs": "cheap"}, r"the only string allowed is 'balanced'"),
    ],
)
def test_errors_of_expected_cost(truth, pred, params, message):
    with pytest.raises(ValueError, match=message):
        expected_cost(truth, pred, **params)


def test_nothing_decided():
    with pytest.warns(UndefinedMetricWarning, match="No row was decided"):
        risk, coverage = selective_risk([0, 1], [-1, -1])
    assert math.isnan(risk)
    assert coverage == 0.0


# ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return make_classification(300, 6, weights=[0.7], flip_y=0.1, random_state=0)


def test_scorer_is_the_negative_mean_cost(data):
    X, y = data
    clf = LogisticRegression().fit(X, y)
    scorer = make_cost_scorer({0: 1, 1: 5})
    assert scorer(clf, X, y) == -expected_cost(y, clf.predict(X), costs={0: 1, 1: 5})
    weights = np.arange(len(y))
    assert scorer(clf, X, y, sample_weight=weights) == -expected_cost(
        y, clf.predict(X), costs={0: 1, 1: 5}, sample_weight=weights
    )


# ------------------------------------------------------------------------------------------

binary_rows = st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=25)


@given(binary_rows, st.floats(0.01, 0.98), st.floats(0.01, 1))
def test_zone_log_loss_is_criterion_three(rows, low, gap):
    high = min(1.0, low + gap)
    eps = np.finfo(float).eps
    losses = [
        -math.log(min(max(p, eps), high) if y else min(max(1 - p, eps), 1 - low)) for y, p in rows
    ]
    y, p = (np.asarray(column) for column in zip(*rows, strict=True))
    got = zone_log_loss(y, p, zone=(low, high), labels=[False, True])
    assert got == pytest.approx(np.mean(losses), rel=1e-12, abs=1e-15)
    total = zone_log_loss(y, p, zone=(low, high), labels=[False, True], normalize=False)
    assert total == pytest.approx(np.sum(losses), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_without_a_zone_it_is_the_log_loss(n_classes, weighted):
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=60)
    proba = rng.dirichlet(np.ones(n_classes), size=60)
    weights = rng.random(60) if weighted else None
    for normalize in (True, False):
        params = {"sample_weight": weights, "normalize": normalize}
        got = zone_log_loss(y, proba, zone=None, **params)
        assert got == pytest.approx(log_loss(y, proba, **params))


def test_impossible_rows_have_a_finite_loss():
    assert zone_log_loss([1, 0], [0.0, 1.0], zone=None) == pytest.approx(log_loss([1, 0], [0, 1]))
    single = np.asarray([0.0, 1.0], dtype=np.float32)
    expected = -math.log(np.finfo(np.float32).eps)
    assert zone_log_loss([1, 0], single, zone=1.0) == pytest.approx(expected)


def test_caps_of_many_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=50)
    proba = rng.dirichlet([0.3, 0.3, 0.3], size=50)
    own = proba[np.arange(50), y]
    caps = np.asarray([0.6, 0.7, 0.9])
    expected = np.mean(np.maximum(-np.log(own), -np.log(caps[y])))
    assert zone_log_loss(y, proba, zone=caps) == pytest.approx(expected)
    names = np.asarray(["x", "y", "z"])[y]
    mapping = {"z": 0.9, "x": 0.6, "y": 0.7}
    assert zone_log_loss(names, proba, zone=mapping) == pytest.approx(expected)
    cap = 1 / (1 + math.exp(-1.5))
    expected = np.mean(np.maximum(-np.log(own), -np.log(cap)))
    assert zone_log_loss(y, proba, zone=1.5) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("y", "proba", "params", "message"),
    [
        ([0, 1], [0.5, 1.5], {"zone": None}, r"outside \[0, 1\]"),
        ([0, 1], [0.5, math.nan], {"zone": None}, r"y_proba contains NaN"),
        ([0, 1], [0.5], {"zone": None}, r"y_true has 2 rows but y_proba has 1"),
        ([1, 1], [0.5, 0.5], {"zone": None}, r"stands for 2 classes but there are 1 labels"),
        ([0, 1], np.ones((2, 3)) / 3, {"zone": None}, r"stands for 3 classes but there are 2"),
        ([0, 1], [0.5, 0.5], {"zone": (0.7, 0.3)}, r"p_min < p_max"),
        ([0, 1], [0.5, 0.5], {"zone": (0.1, 0.2, 0.3)}, r"pair \(p_min, p_max\)"),
        ([0, 1], [0.5, 0.5], {"zone": -1.0}, r"zone must be a finite number > 0"),
        ([0, 1], [0.5, 0.5], {"zone": {0: 0.4, 1: 0.5}}, r"sum to more than 1"),
        ([0, 1], [0.5, 0.5], {"zone": {0: 0.9}}, r"a cap to each of the classes \[0, 1\]"),
        (
            [0, 1, 2],
            np.ones((3, 3)) / 3,
            {"zone": [0.5, 0.5]},
            r"one cap for each of the 3 classes",
        ),
        ([0, 1, 2], np.ones((3, 3)) / 3, {"zone": [0.5, 0.5, 1.5]}, r"must be in \(0, 1\]"),
    ],
)
def test_errors_of_zone_log_loss(y, proba, params, message):
    with pytest.raises(ValueError, match=message):
        zone_log_loss(y, proba, **params)


# ------------------------------------------------------------------------------------------


def brute_force_calibration(y, p, weights, zone, n_bins):
    """Bins of equal width, one by one."""
    low, high = zone
    error = mass = 0.0
    for k in range(n_bins):
        left, right = (low + (high - low) * edge / n_bins for edge in (k, k + 1))
        rows = [i for i in range(len(p)) if left < p[i] <= right or (k == 0 and p[i] == low)]
        weight = sum(weights[i] for i in rows)
        if weight > 0:
            error += abs(sum(weights[i] * (y[i] - p[i]) for i in rows))
            mass += weight
    return error / mass


@given(st.integers(0, 10_000), st.integers(1, 7))
def test_calibration_error_of_uniform_bins(seed, n_bins):
    rng = np.random.default_rng(seed)
    y, p, weights = rng.integers(2, size=40), rng.random(40), rng.random(40)
    zone = (0.2, 0.7)
    got = zone_calibration_error(
        y, p, zone=zone, n_bins=n_bins, strategy="uniform", sample_weight=weights, pos_label=1
    )
    assert got == pytest.approx(brute_force_calibration(y, p, weights, zone, n_bins))


def test_calibration_error_of_quantile_bins():
    rng = np.random.default_rng(0)
    p = rng.permutation(np.linspace(0.3, 0.6, 40))
    y = rng.random(40) < p
    order = np.argsort(p)
    by_hand = [abs(np.mean(y[rows]) - np.mean(p[rows])) for rows in np.split(order, 4)]
    got = zone_calibration_error(y, p, zone=(0.25, 0.75), n_bins=4)
    assert got == pytest.approx(np.mean(by_hand))
    # Rows beyond the zone change nothing.
    got = zone_calibration_error(
        np.append(y, [True, False]), np.append(p, [0.1, 0.9]), zone=(0.25, 0.75), n_bins=4
    )
    assert got == pytest.approx(np.mean(by_hand))


@given(st.integers(0, 10_000), st.sampled_from(["uniform", "quantile"]))
def test_weights_are_repetitions(seed, strategy):
    rng = np.random.default_rng(seed)
    y, p = rng.integers(2, size=20), rng.integers(1, 16, size=20) / 16
    weights = rng.integers(1, 4, size=20)
    params = {"zone": (0.05, 0.95), "n_bins": 4, "strategy": strategy, "pos_label": 1}
    assert zone_calibration_error(y, p, sample_weight=weights, **params) == pytest.approx(
        zone_calibration_error(np.repeat(y, weights), np.repeat(p, weights), **params)
    )


def test_no_row_in_the_zone():
    with pytest.warns(UndefinedMetricWarning, match=r"inside the zone \[0.4, 0.6\]"):
        assert math.isnan(zone_calibration_error([0, 1], [0.1, 0.9], zone=(0.4, 0.6)))


@pytest.mark.parametrize(
    ("y", "proba", "params", "message"),
    [
        ([0, 1], [0.5, 0.5], {"n_bins": 0}, r"n_bins must be an integer >= 1; got 0"),
        ([0, 1], [0.5, 0.5], {"n_bins": 2.5}, r"n_bins must be an integer >= 1; got 2.5"),
        ([0, 1], [0.5, 0.5], {"strategy": "other"}, r"strategy must be .* got 'other'"),
        ([0, 1, 2], [0.5, 0.5, 0.5], {}, r"Expected two classes; got \[0, 1, 2\]"),
        (["a", "a"], [0.5, 0.5], {}, r"give pos_label"),
        ([0, 1], [0.5, 0.5], {"pos_label": 2}, r"one of them pos_label=2; got \[0, 1\]"),
        ([0, 1], [0.5, 0.5], {"pos_label": "1"}, r"pos_label='1' is not among the labels"),
        ([0, 1], np.ones((2, 3)) / 3, {}, r"for two classes; got 3 columns"),
    ],
)
def test_errors_of_zone_calibration_error(y, proba, params, message):
    with pytest.raises(ValueError, match=message):
        zone_calibration_error(y, proba, zone=1.0, **params)


# ------------------------------------------------------------------------------------------


def cost_at(curve, threshold):
    return curve.mean_cost[np.searchsorted(curve.thresholds, threshold, side="left")]


@pytest.mark.parametrize("costs", [None, {0: 1, 1: 9}, [[0.5, 2], [3, 0.25]], "balanced"])
@pytest.mark.parametrize("ends", [False, True])
def test_cost_curve_is_the_mean_cost_at_every_threshold(costs, ends):
    rng = np.random.default_rng(0)
    p = rng.integers(1, 20, size=50) / 20  # many ties
    if ends:
        p[:2] = 0.0, 1.0
    y, weights = rng.integers(2, size=50), rng.random(50)
    curve = cost_curve(y, p, costs=costs, sample_weight=weights)
    assert curve.thresholds[0] == 0.0
    assert curve.thresholds[-1] == 1.0
    assert np.all(np.diff(curve.thresholds) > 0)
    assert len(curve.thresholds) == len(curve.mean_cost) == len(np.unique([0, *p, 1]))
    for t in [*curve.thresholds, *rng.random(50)]:
        pred = (p >= t).astype(int)
        expected = expected_cost(y, pred, costs=costs, labels=[0, 1], sample_weight=weights)
        assert cost_at(curve, t) == pytest.approx(expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_band_of_a_cost_curve_is_that_of_a_mean(weighted):
    """At each threshold it has the width that the standard error of the mean cost gives."""
    rng = np.random.default_rng(0)
    n = 3000  # more thresholds than are resampled: the others are interpolated
    p = rng.random(n)
    y = (rng.random(n) < p).astype(int)
    weights = rng.integers(0, 3, size=n) if weighted else np.ones(n)
    costs = {0: 1, 1: 4}
    curve = cost_curve(
        y, p, costs=costs, sample_weight=weights, n_bootstrap=1000, confidence=0.9, random_state=0
    )
    plain = cost_curve(y, p, costs=costs, sample_weight=weights)
    assert plain.lower is None
    assert plain.upper is None
    np.testing.assert_array_equal(curve.mean_cost, plain.mean_cost)
    for t in (0.0, 0.1, 0.2, 0.5, 0.9, 1.0):
        k = np.searchsorted(curve.thresholds, t, side="left")
        paid = np.where(p >= t, y == 0, 4 * (y == 1))
        mean = np.average(paid, weights=weights)
        error = np.sqrt(np.sum(weights**2 * (paid - mean) ** 2)) / weights.sum()
        assert curve.upper[k] - curve.lower[k] == pytest.approx(2 * 1.645 * error, rel=0.12)
        assert curve.lower[k] < curve.mean_cost[k] < curve.upper[k]


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("costs", [None, "matrix", "balanced"])
def test_risk_coverage_curve_is_what_bayes_decision_does(n_classes, costs):
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(n_classes), size=60)
    proba[:10] = proba[10:20]  # ties
    y, weights = rng.integers(n_classes, size=60), rng.integers(0, 3, size=60)
    if costs == "matrix":
        costs = rng.random((n_classes, n_classes)) + 1 - np.eye(n_classes)
    curve = risk_coverage_curve(y, proba, costs=costs, sample_weight=weights)
    assert curve.coverage[-1] == 1.0
    assert np.all(np.diff(curve.coverage) > 0)
    if isinstance(costs, str):
        prior = np.bincount(y, weights) / weights.sum()
        matrix = cost_matrix("balanced", range(n_classes), prior)
    else:
        matrix = costs
    actions = np.append(np.arange(n_classes), -1)
    for coverage, risk, reject in zip(*curve, strict=True):
        pred = actions[bayes_decision(proba, matrix, reject_cost=reject)]
        got = selective_risk(
            y, pred, costs=costs, sample_weight=weights, labels=np.arange(n_classes)
        )
        assert got == (pytest.approx(risk), pytest.approx(coverage))
