"""Scores without a part in the fit, by one Newton step, against fits without the row."""

import numpy as np
import pytest
from scipy.special import logit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from test_tails import best_power

from grayzone import TruncatedLogisticRegression
from grayzone.solvers.truncated import left_out as module
from grayzone.solvers.truncated import tails
from grayzone.sources import from_batches

X, y = load_breast_cancer(return_X_y=True)
X, y = scale(X)[:150], y[:150]
FEW = X[:, :8]
TIGHT = {"tol": 1e-10}


def fitted(monkeypatch, X, y, weight=None, **parameters):
    """Return a model, and the scores that its rows have without a part in the fit."""
    seen = {}

    def spy(labelled, spec, coef, scores):
        found = module.left_out(labelled, spec, coef, scores)
        if found is not None and labelled.held is not None:
            problem = spec.problem(labelled.held)
            seen["scores"] = found(labelled.held, problem, problem.design.scores(coef))[:, 0]
        return found

    monkeypatch.setattr(tails, "left_out", spy)
    model = TruncatedLogisticRegression(**TIGHT, **parameters).fit(X, y, sample_weight=weight)
    return model, seen.get("scores")


def as_fitted(model):
    return clone(model).set_params(tails="as-fitted")


def refitted(model, X, y, rows):
    """Scores of rows in fits to all others."""
    return np.array(
        [
            as_fitted(model)
            .fit(np.delete(X, row, 0), np.delete(y, row))
            .decision_function(X[[row]])[0]
            for row in rows
        ]
    )


@pytest.mark.parametrize(
    ("data", "parameters", "error"),
    [
        (FEW, {}, 0.2),
        (FEW, {"C": 0.02}, 0.3),
        (FEW, {"fit_intercept": False}, 0.45),
        (X, {}, 0.45),
        (X, {"kernel": "rbf"}, 0.1),
        (X, {"kernel": "rbf", "fit_intercept": False}, 0.1),
        (FEW, {"costs": {0: 5, 1: 1}}, 0.25),
    ],
    ids=["few", "strong penalty", "no intercept", "all", "rbf", "rbf, no intercept", "costs"],
)
def test_rows_move_nearly_as_if_they_had_not_been_there(data, parameters, error, monkeypatch):
    model, found = fitted(monkeypatch, data, y, **parameters)
    before = as_fitted(model).fit(data, y).decision_function(data)
    moved = np.flatnonzero((np.abs(found - before) > 1e-6) & (model.partition_ > 0))
    assert len(moved) >= 7
    steps = refitted(model, data, y, moved) - before[moved]
    off = found[moved] - before[moved] - steps
    assert np.sqrt(np.mean(off**2)) < error * np.sqrt(np.mean(steps**2))
    assert np.all(np.sign(found - before)[moved] == np.where(y[moved] == 1, -1, 1))


def test_rows_that_the_loss_ignores_stay_where_they_are(monkeypatch):
    model, found = fitted(monkeypatch, FEW, y)
    before = as_fitted(model).fit(FEW, y).decision_function(FEW)
    away = np.abs(np.abs(before) - 1.0) > 0.1  # from the kinks, of which others are kept
    ignored = np.flatnonzero((model.partition_ == 0) & away)
    assert len(ignored) > 50
    np.testing.assert_array_equal(found[ignored], before[ignored])
    again = refitted(model, FEW, y, ignored[:5])
    np.testing.assert_allclose(found[ignored[:5]], again, rtol=1e-6)


def test_a_kernel_moves_rows_as_the_linear_function_that_it_is(monkeypatch):
    _, linear = fitted(monkeypatch, FEW, y)
    kernel = {"kernel": "poly", "degree": 1, "gamma": 1.0}
    model, spanned = fitted(monkeypatch, FEW, y, **kernel)
    before = as_fitted(model).fit(FEW, y).decision_function(FEW)
    moved = np.abs(spanned - before) > 1e-6
    assert np.count_nonzero(moved) >= 8
    np.testing.assert_allclose(spanned[moved], linear[moved], rtol=1e-5)


def test_powers_are_nearly_those_of_refitted_rows(monkeypatch):
    off, flattered = [], []
    for seed in range(3):
        # few rows are on the wrong side: one more makes a difference
        rng = np.random.default_rng(seed)
        data = rng.normal(size=(120, 6))
        labels = (data[:, 0] + 0.5 * data[:, 1] + 0.5 * rng.normal(size=120) > 0).astype(int)
        model, _ = fitted(monkeypatch, data, labels)
        plain = as_fitted(model).fit(data, labels)
        taking_part, doubt = np.flatnonzero(model.partition_), 0.02 * float(np.sum(plain.coef_**2))
        before = plain.decision_function(data)
        alone = before.copy()
        alone[taking_part] = refitted(model, data, labels, taking_part)
        truth, trained = (
            [best_power(f, labels, model.zone_, k, doubt) for k in (0, 1)] for f in (alone, before)
        )
        off.append(np.log(model.tail_slopes_ / truth / 100.0))
        flattered.append(np.log(np.divide(trained, truth)))
    assert np.mean(np.abs(off)) < 0.2
    assert np.mean(np.abs(off)) < 0.5 * np.mean(np.abs(flattered))


def test_heavy_rows_are_several_and_classes_have_their_weight(monkeypatch):
    times = np.random.default_rng(0).integers(1, 4, len(y))
    _, weighted = fitted(monkeypatch, FEW, y, times.astype(float))
    _, often = fitted(monkeypatch, np.repeat(FEW, times, 0), np.repeat(y, times))
    np.testing.assert_allclose(np.repeat(weighted, times), often, rtol=1e-6)
    _, scaled = fitted(monkeypatch, FEW, y, 10.0 * times, C=0.1)
    np.testing.assert_allclose(scaled, weighted, rtol=1e-6)
    # the weight of a class is no number of its rows: of a heavy one, whole rows are left out
    model, of_class = fitted(monkeypatch, FEW, y, class_weight={0: 4.0, 1: 1.0})
    before = as_fitted(model).fit(FEW, y).decision_function(FEW)
    _, of_rows = fitted(monkeypatch, FEW, y, np.where(y == 0, 4.0, 1.0))
    light, heavy = (y == 1), (y == 0) & (np.abs(of_class - before) > 0.02)
    np.testing.assert_allclose(of_class[light], of_rows[light], rtol=1e-6)
    assert np.count_nonzero(heavy) >= 4
    assert np.all(np.abs(of_class - before)[heavy] > 3.0 * np.abs(of_rows - before)[heavy])


def test_blocks_move_rows_as_arrays_do():
    blocks = from_batches(lambda: [(FEW[:70], y[:70]), (FEW[70:], y[70:])])
    here = TruncatedLogisticRegression(**TIGHT).fit(FEW, y)
    there = TruncatedLogisticRegression(**TIGHT).fit(blocks)
    np.testing.assert_allclose(there.tail_slopes_, here.tail_slopes_, rtol=1e-7)


@pytest.mark.parametrize(
    ("data", "parameters"),
    [
        (np.repeat(FEW[:, :1], 4, 0), {}),
        (FEW, {"penalty": "l1"}),
        (FEW, {"loss": "ramp"}),
        (FEW, {"zone": None}),
    ],
    ids=["many rows for a coefficient", "l1", "ramp", "no zone"],
)
def test_where_rows_keep_their_scores(data, parameters, monkeypatch):
    labels = np.repeat(y, len(data) // len(y))
    model, found = fitted(monkeypatch, data, labels, **parameters)
    assert found is None
    assert np.all(np.isfinite(model.tail_slopes_))


@pytest.mark.parametrize("zone", [(0.0, 0.7), (0.2, 1.0)])
def test_zones_that_are_open_on_one_side(zone, monkeypatch):
    model, found = fitted(monkeypatch, FEW, y, zone=zone)
    before = as_fitted(model).fit(FEW, y).decision_function(FEW)
    assert np.all(np.isfinite(found))
    assert np.any(found != before)
    assert np.count_nonzero(model.tail_bends_) == 1


def test_copies_of_features_and_ties_are_no_harm():
    rng = np.random.default_rng(3)
    copies = np.hstack([FEW, FEW, np.zeros((len(y), 2))]).round(0)
    wrong = np.where(rng.random(len(y)) < 0.1, 1 - y, y)
    model = TruncatedLogisticRegression(C=1e4).fit(copies, wrong)
    assert np.all(np.isfinite(model.tail_slopes_))
    assert np.all(model.tail_slopes_ >= 1.0)
    ends = logit(model.zone_)
    raw = as_fitted(model).fit(copies, wrong).decision_function(copies)
    assert np.any(raw < ends[0])
    assert np.any(raw > ends[1])
