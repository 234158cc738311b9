"""Net benefit against its definition, against costs, and against the package dcurves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from grayzone.metrics import expected_cost, net_benefit, net_benefit_curve

THRESHOLDS = [0.0, 0.05, 0.1, 0.25, 0.5, 0.8, 0.99]


def problems():
    """Labels, probabilities, prevalence: ties and ends, decisions, case-control data, real data."""
    rng = np.random.default_rng(0)
    p = rng.integers(0, 21, size=200) / 20
    yield "ties", (rng.random(200) < p).astype(int), p, None
    y = rng.integers(2, size=100)
    yield "decisions", y, np.where(rng.random(100) < 0.8, y, 1 - y).astype(float), None
    y = np.repeat([1, 0], [60, 140])
    yield "case-control", y, 1 / (1 + np.exp(-(rng.normal(size=200) + 1.5 * y - 1))), 0.05
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer", 1 - y, 1 / (1 + np.exp(-2 * (X[:, 0] - 14.0) / 3.5)), None


PROBLEMS = {name: problem for name, *problem in problems()}

# net benefit of the probabilities, and of treating all, by dcurves 1.1.7
STORED = {
    "ties": (
        [
            0.52,
            0.49736842105263157,
            0.47444444444444445,
            0.395,
            0.25500000000000006,
            0.10499999999999995,
            0.055,
        ],
        [
            0.52,
            0.4947368421052632,
            0.4666666666666667,
            0.36000000000000004,
            0.040000000000000036,
            -1.4000000000000004,
            -46.99999999999996,
        ],
    ),
    "decisions": (
        [
            0.47000000000000003,
            0.4636842105263158,
            0.4566666666666667,
            0.43000000000000005,
            0.35000000000000003,
            -0.010000000000000009,
            -11.409999999999988,
        ],
        [
            0.56,
            0.5368421052631579,
            0.5111111111111112,
            0.41333333333333344,
            0.1200000000000001,
            -1.2000000000000002,
            -42.99999999999996,
        ],
    ),
    "case-control": (
        [
            0.05,
            -0.0004761904761904773,
            -0.042817460317460324,
            -0.12749999999999997,
            -0.10666666666666666,
            0.010000000000000002,
            0.0,
        ],
        [
            0.05,
            0.0,
            -0.05555555555555555,
            -0.26666666666666666,
            -0.8999999999999999,
            -3.750000000000001,
            -93.99999999999991,
        ],
    ),
    "breast cancer": (
        [
            0.37258347978910367,
            0.34076403662935895,
            0.31263425112282756,
            0.2536613942589338,
            0.22495606326889278,
            0.19507908611599295,
            0.022847100175746923,
        ],
        [
            0.37258347978910367,
            0.3395615576727407,
            0.3028705330990041,
            0.1634446397188049,
            -0.25483304042179267,
            -2.137082601054482,
            -61.74165202108958,
        ],
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_equal_to_numbers_of_dcurves(name):
    y, p, prevalence = PROBLEMS[name]
    curve = net_benefit_curve(y, p, thresholds=THRESHOLDS, prevalence=prevalence)
    model, treat_all = STORED[name]
    np.testing.assert_allclose(curve.net_benefit, model, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(curve.treat_all, treat_all, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(curve.treat_none, 0.0)
    np.testing.assert_array_equal(curve.thresholds, THRESHOLDS)


rows = st.lists(
    st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0]), st.integers(0, 3)),
    min_size=1,
    max_size=15,
).filter(lambda rows: any(w for *_, w in rows))


@given(rows, st.sampled_from([0.1, 0.25, 0.3, 0.75]))
def test_it_is_the_prevalence_less_the_cost_in_missed_positives(rows, t):
    y, p, w = (np.asarray(column) for column in zip(*rows, strict=True))
    got = net_benefit(y, p, threshold=t, sample_weight=w, pos_label=True)
    matrix = [[0.0, t / (1 - t)], [1.0, 0.0]]
    cost = expected_cost(y, p >= t, costs=matrix, labels=[False, True], sample_weight=w)
    assert got == pytest.approx(w @ y / w.sum() - cost, abs=1e-12)
    # a weight of two is a row twice
    again = net_benefit(np.repeat(y, w), np.repeat(p, w), threshold=t, pos_label=True)
    assert again == pytest.approx(got, abs=1e-12)


def test_prevalence_is_what_weights_of_the_classes_would_make_it():
    y, p, _ = PROBLEMS["case-control"]
    weights = np.where(y == 1, 0.05 / np.mean(y), 0.95 / np.mean(1 - y))
    by_weights = net_benefit_curve(y, p, sample_weight=weights)
    given_it = net_benefit_curve(y, p, prevalence=0.05)
    np.testing.assert_allclose(by_weights.net_benefit, given_it.net_benefit, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(by_weights.treat_all, given_it.treat_all, rtol=1e-9, atol=1e-12)


def test_the_standardized_benefit_of_a_perfect_model_is_one():
    y = [0, 0, 0, 1]
    assert net_benefit(y, y, threshold=0.3) == 0.25
    assert net_benefit(y, y, threshold=0.3, standardize=True) == 1.0
    assert net_benefit(y, y, threshold=0.3, standardize=True, prevalence=0.01) == 1.0
    assert net_benefit(y, y, threshold=0.3, harm=0.05) == pytest.approx(0.2)
    curve = net_benefit_curve(y, y, standardize=True, thresholds=[0.0, 0.5])
    np.testing.assert_allclose(curve.treat_all, [1.0, -2.0])


@pytest.mark.parametrize("prevalence", [None, 0.2])
def test_the_band_is_that_of_a_mean(prevalence):
    """Far from the ends it has the width that the standard error gives."""
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    y = (rng.random(2000) < p).astype(int)
    curve = net_benefit_curve(
        y,
        p,
        thresholds=[0.25, 0.5],
        prevalence=prevalence,
        n_bootstrap=2000,
        confidence=0.9,
        random_state=0,
    )
    for k, t in enumerate(curve.thresholds):
        worth = np.where(y == 1, 1.0, -t / (1 - t)) * (p >= t)
        if prevalence is None:
            error = worth.std() / math.sqrt(len(y))
        else:  # rows of each class were drawn apart
            parts = [
                share * worth[y == label].std() / math.sqrt(np.sum(y == label))
                for label, share in ((1, prevalence), (0, 1 - prevalence))
            ]
            error = math.hypot(*parts)
        assert curve.upper[k] - curve.lower[k] == pytest.approx(2 * 1.645 * error, rel=0.06)
        assert curve.lower[k] < curve.net_benefit[k] < curve.upper[k]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"thresholds": [0.5, 1.0]}, r"must be in \[0, 1\).* got 1"),
        ({"thresholds": [-0.1]}, "thresholds must not be negative"),
        ({"thresholds": [math.nan]}, "thresholds must be finite"),
        ({"thresholds": []}, "not empty"),
        ({"thresholds": 0.5}, "one-dimensional"),
        ({"prevalence": 0.0}, "prevalence must be between 0 and 1"),
        ({"prevalence": math.nan}, "prevalence must be a finite number"),
        ({"harm": -1.0}, "harm must not be negative"),
        ({"n_bootstrap": 1}, "n_bootstrap must be 0, for no band, or at least 2"),
        ({"n_bootstrap": -1}, "n_bootstrap must be an integer >= 0"),
        ({"confidence": 1.0}, "confidence must be between 0 and 1"),
        ({"sample_weight": [1.0]}, "sample_weight must have shape"),
    ],
)
def test_what_will_not_do_is_said(params, message):
    with pytest.raises(ValueError, match=message):
        net_benefit_curve([0, 1, 1], [0.2, 0.3, 0.7], **params)


def test_one_class_only():
    assert net_benefit([0, 0], [0.2, 0.7], threshold=0.5) == -0.5
    assert net_benefit([1, 1], [0.2, 0.7], threshold=0.5) == 0.5
    with pytest.raises(ValueError, match="needs rows of both classes"):
        net_benefit([1, 1], [0.2, 0.7], threshold=0.5, prevalence=0.1)
    with pytest.raises(ValueError, match="no positive row"):
        net_benefit([0, 0], [0.2, 0.7], threshold=0.5, standardize=True)
    with pytest.raises(ValueError, match="outside"):
        net_benefit([0, 1], [0.2, 1.7], threshold=0.5)
    with pytest.raises(ValueError, match="threshold must be a finite number"):
        net_benefit([0, 1], [0.2, 0.7], threshold="half")
