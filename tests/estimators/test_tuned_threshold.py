"""The threshold moved together with C and the zone: by hand, out of fold, and what refuses."""

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from grayzone import TruncatedLogisticRegressionCV
from grayzone.estimators._gate import Yardstick
from grayzone.estimators._moved_cut import ANYWHERE, Deciding, range_of
from grayzone.metrics import expected_cost
from grayzone.numerics.losses import sigmoid

COSTS = {0: 1.0, 1: 4.0}
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


def data(n=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] - 0.5 * X[:, 1] ** 2 + 0.8 * rng.normal(size=n) > 0).astype(int)


def search(**parameters):
    settings = {"Cs": [0.1, 1.0], "zones": (1.0, 2.0), "cv": FOLDS, "costs": COSTS}
    return TruncatedLogisticRegressionCV(**{**settings, **parameters})


def deciding(y, weight=None, folds=1, costs=((0.0, 1.0), (4.0, 0.0))):
    weight = np.ones(len(y)) if weight is None else weight
    stick = Yardstick(y, weight, np.ones(2), np.array(costs))
    return Deciding.of(stick, np.array_split(np.arange(len(y)), folds)).with_cuts()


def cost_at(cut, scores, y, weight, costs=((0.0, 1.0), (4.0, 0.0))):
    taken = (scores >= cut).astype(int)
    return float(weight @ np.array(costs)[y, taken])


# ------------------------------------------------------------------------------------------
# The cut
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("within", [ANYWHERE, (-2.0, -0.5), (-1.4, -1.3)])
@pytest.mark.parametrize("seed", range(4))
def test_no_cut_within_the_range_costs_less(seed, within):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=60)
    scores = np.round(y + rng.normal(size=60) - 1.0, 1)  # with ties
    weight = rng.uniform(0.0, 2.0, size=60)
    judge = deciding(y, weight)
    found = judge.best_cut(scores[:, None], within, np.ones(60, dtype=bool))
    assert within[0] <= found <= within[1]
    every = np.linspace(max(within[0], -6.0), min(within[1], 6.0), 3001)
    costs = [cost_at(cut, scores, y, weight) for cut in every]
    assert cost_at(found, scores, y, weight) == pytest.approx(min(costs), rel=1e-12)


def test_of_equal_cuts_the_one_nearest_to_the_usual():
    y = np.array([0, 0, 1, 1])
    usual = np.log(1.0 / 4.0)
    # all cuts in (-3, 1] tell the classes apart; the usual one is among them
    judge, everyone = deciding(y), np.ones(4, dtype=bool)
    scores = np.array([[-4.0], [-3.0], [1.0], [2.0]])
    assert judge.best_cut(scores, ANYWHERE, everyone) == pytest.approx(usual)
    # here it is not: the middle of the gap
    assert judge.best_cut(scores + 3.0, ANYWHERE, everyone) == pytest.approx(2.0)
    # no rows, no reason to move
    assert judge.best_cut(scores, ANYWHERE, ~everyone) == pytest.approx(usual)


def test_a_zone_that_leaves_the_usual_cut_out_does_not_lose_it():
    judge = deciding(np.array([0, 1]))
    found = judge.best_cut(np.array([[-5.0], [0.0]]), (1.0, 2.0), np.ones(2, dtype=bool))
    assert found == pytest.approx(np.log(0.25))  # 1 would miss the positive row


def test_rows_are_judged_by_cuts_of_other_folds():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=30)
    scores = rng.normal(size=(30, 1)) + y[:, None]
    judge = deciding(y, folds=3)
    paid = judge.paid(scores)
    for fold in range(3):
        mine = judge.folds == fold
        cut = judge.best_cut(scores, ANYWHERE, ~mine)
        by_hand = judge.yardstick.paid(np.flatnonzero(mine), (scores[mine, 0] >= cut).astype(int))
        np.testing.assert_array_equal(paid[mine], by_hand)


def test_a_row_that_several_folds_hold_out_does_not_choose_for_itself():
    y = np.array([0, 1, 0, 1])
    stick = Yardstick(y, np.ones(4), np.ones(2), 1.0 - np.eye(2))
    twice = Deciding.of(stick, [np.arange(4), np.arange(4)]).with_cuts()
    # every row is in both folds: nobody is left to choose, and the usual cut stays
    assert twice.tuning(np.full((8, 1), -1.0) + 2.0 * y[np.r_[:4, :4]][:, None], ANYWHERE)[
        "fold_thresholds"
    ] == [0.5, 0.5]


def test_the_range_of_a_zone():
    assert range_of((0.9, 0.8)) == pytest.approx((np.log(1 / 9), np.log(4)))
    assert range_of((1.0, 1.0)) == ANYWHERE


# ------------------------------------------------------------------------------------------
# The search
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_decisions_are_those_of_the_moved_threshold(seed):
    X, y = data(seed=seed)
    model = search(tune_threshold=True).fit(X, y)
    told = model.threshold_tuning_
    assert model.threshold_ == told["threshold"]
    assert told["threshold_of_costs"] == pytest.approx(0.2)
    p = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X), (p >= model.threshold_).astype(int))
    # it is the best cut of what the folds say of rows that they have not seen
    oof = sigmoid(model.oof_decision_function_)
    cost = expected_cost(y, (oof >= model.threshold_).astype(int), costs=COSTS)
    for other in np.linspace(*(model.zone_ if model.best_zone_ else (0.01, 0.99)), 200):
        assert cost <= expected_cost(y, (oof >= other).astype(int), costs=COSTS) + 1e-12
    low, high = model.zone_
    assert low <= model.threshold_ <= high
    assert len(told["fold_thresholds"]) == 3


def test_probabilities_do_not_change():
    X, y = data()
    # one zone, one C, whatever the gate says: plain is kept in both
    still, moved = (search(zones=(None,), tune_threshold=t).fit(X, y) for t in (False, True))
    assert still.threshold_ == pytest.approx(0.2)
    assert moved.threshold_ != pytest.approx(0.2)
    for name in ("coef_", "intercept_", "tail_slopes_", "oof_decision_function_", "scores_"):
        np.testing.assert_array_equal(getattr(still, name), getattr(moved, name))
    np.testing.assert_array_equal(still.predict_proba(X), moved.predict_proba(X))
    assert not hasattr(still, "threshold_tuning_")


def test_the_gate_compares_moved_thresholds():
    X, y = data()
    model = search(tune_threshold=True).fit(X, y)
    oof = search(zones=(None,), tune_threshold=True).fit(X, y).oof_decision_function_
    held_out = [test for _, test in FOLDS.split(X, y)]
    stick = Yardstick(y, np.ones(len(y)), np.ones(2), np.array([[0.0, 1.0], [4.0, 0.0]]))
    judge = Deciding.of(stick, held_out).with_cuts()
    paid = judge.paid(oof[judge.rows][:, None])
    assert model.gate_["plain_cost"] == pytest.approx(paid.mean())


def test_costs_of_rows_decide_as_ever():
    X, y = data()
    model = search(tune_threshold=True).fit(X, y)
    rows = {0: np.ones(len(y)), 1: np.full(len(y), 4.0)}
    p = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X, example_costs=rows), (p >= 0.2).astype(int))


def test_names_of_classes_and_balanced_costs():
    X, y = data()
    names = np.array(["no", "yes"])[y]
    model = search(tune_threshold=True, costs="balanced").fit(X, names)
    assert set(model.predict(X)) == {"no", "yes"}
    assert model.threshold_tuning_["threshold_of_costs"] == pytest.approx(y.mean())


@pytest.mark.parametrize(
    ("parameters", "change", "message"),
    [
        ({"scoring": "accuracy"}, None, "scoring=None, as it is the costs that choose"),
        ({"reject_cost": 0.1}, None, "reject_cost=None, as it moves one threshold; got 0.1"),
        ({"costs": None}, "three classes", "two classes; y has 3"),
        ({"costs": None}, "costs of rows", "costs that all rows share"),
        ({"cv": [(np.arange(200), np.arange(200, 240))]}, None, "two folds or more"),
        ({"costs": {0: 0.0, 1: 1.0}, "zones": (None,)}, None, "costs of both kinds of error"),
    ],
)
def test_without_a_threshold_to_move_it_refuses(parameters, change, message):
    X, y = data()
    given = (
        {"example_costs": {0: np.ones(240), 1: np.ones(240)}} if change == "costs of rows" else {}
    )
    if change == "three classes":
        y = y + (X[:, 2] > 1.0)
    with pytest.raises(ValueError, match=message):
        search(tune_threshold=True, **parameters).fit(X, y, **given)
