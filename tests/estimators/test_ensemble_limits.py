"""Limits, costs of rows, groups and budgets of a decision ensemble."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB

from grayzone import DecisionEnsembleClassifier
from grayzone.decision.confidence import TooFewRowsError
from grayzone.estimators import _draws, _members, _work
from grayzone.estimators._members import MEMBERS

QUICK = ["logistic-regression", GaussianNB()]


def rows(n=1500, rate=-2.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (rng.random(n) < expit(rate + 1.5 * X[:, 0] + X[:, 1] * X[:, 2])).astype(int)
    return X, y


@pytest.fixture(scope="module")
def limited():
    X, y = rows()
    return DecisionEnsembleClassifier(QUICK, max_fpr=0.1, cv=3).fit(X, y)


def test_a_limit_holds_with_its_confidence():
    """Of forty fits four may break a limit that holds with a probability of .9."""
    new, truth = rows(20_000, seed=10**6)
    broken, room = 0, []
    for seed in range(40):
        X, y = rows(900, seed=seed)
        model = DecisionEnsembleClassifier(
            [GaussianNB()], max_fpr=0.1, confidence=0.9, cv=2, random_state=seed
        ).fit(X, y)
        rate = model.predict(new)[truth == 0].mean()
        broken += rate > 0.1
        room.append(rate)
    assert broken <= 7
    assert np.mean(room) > 0.06


def test_only_rows_of_the_limited_class_are_held_out(limited):
    X, y = rows()
    out = limited.held_out_
    assert (y[out] == 0).all()
    assert abs(len(out) - 0.3 * np.sum(y == 0)) < 1
    learnt = np.unique(np.concatenate([train for train, _ in limited.folds_]))
    assert set(np.flatnonzero(y == 1)) <= set(learnt)
    assert not set(out) & set(learnt)
    # probabilities are still those of all rows
    assert abs(limited.predict_proba(X)[:, 1].mean() - y.mean()) < 0.01
    assert limited.rates_["fpr"] <= 0.1
    assert np.mean(limited.predict(X)[out] == 1) == limited.rates_["fpr"]
    assert limited.threshold_ == limited.threshold_range_[0]
    recall = DecisionEnsembleClassifier(QUICK, min_recall=0.8, cv=3).fit(X, y)
    assert (y[recall.held_out_] == 1).all()
    assert recall.rates_["recall"] >= 0.8
    precise = DecisionEnsembleClassifier(QUICK, min_precision=0.5, cv=3).fit(X, y)
    assert set(y[precise.held_out_]) == {0, 1}
    assert precise.rates_["precision"] >= 0.5


def test_promise_of_a_limited_model(limited):
    """Decisions at the threshold that is kept, of all rows."""
    _, y = rows()
    decided = limited.cross_fitted_proba_[:, 1] >= limited.threshold_
    np.testing.assert_array_equal(limited.row_costs_, decided != y)
    assert limited.cost_ == pytest.approx(np.mean(decided != y))
    new, truth = rows(20_000, seed=1)
    assert abs(np.mean(limited.predict(new) != truth) - limited.cost_) < 4 * limited.cost_error_


def test_costs_choose_among_thresholds_that_keep_limits():
    X, y = rows()
    wary = DecisionEnsembleClassifier(QUICK, max_fpr=0.1, costs={0: 20.0, 1: 1.0}, cv=3).fit(X, y)
    assert wary.threshold_ == pytest.approx(20 / 21)
    p = wary.predict_proba(X)[:, 1]
    own = {0: np.where(np.arange(len(y)) % 2, 1e-3, 1e3), 1: 1.0}
    cuts = np.where(np.arange(len(y)) % 2, wary.threshold_range_[0], 1e3 / (1e3 + 1))
    np.testing.assert_array_equal(wary.predict(X, example_costs=own), p >= cuts)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"max_fpr": 0.001}, "takes at least 5,990 negative rows, half of which are held out"),
        ({"min_recall": 0.999}, "takes at least 5,990 positive rows"),
        ({"max_fpr": 1.5}, "max_fpr must be between 0 and 1"),
        ({"max_fpr": 0.1, "confidence": 2.0}, "confidence must be between 0 and 1"),
        ({"max_fpr": 0.1, "reject_cost": 0.1}, "reject_cost must be None beside max_fpr"),
        ({"budget": -1.0}, "budget must be a positive number"),
        ({"stop_after": 0.0}, "stop_after must be a positive number"),
    ],
)
def test_what_cannot_be_kept(parameters, match):
    X, y = rows()
    with pytest.raises(ValueError, match=match):
        DecisionEnsembleClassifier(QUICK, **parameters).fit(X, y)


def test_limits_are_for_two_classes():
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match="max_fpr is for two classes"):
        DecisionEnsembleClassifier(QUICK, max_fpr=0.1).fit(X, y)
    assert issubclass(TooFewRowsError, ValueError)


def test_costs_of_rows_decide_about_them():
    X, y = rows()
    amounts = np.exp(np.random.default_rng(0).normal(size=len(y)))
    own = {0: 1.0, 1: amounts}
    plain = DecisionEnsembleClassifier(QUICK, cv=3).fit(X, y)
    model = DecisionEnsembleClassifier(QUICK, cv=3).fit(X, y, example_costs=own)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    decided = model.cross_fitted_proba_[:, 1] >= 1.0 / (1.0 + amounts)
    paid = np.where(decided, y == 0, amounts * (y == 1))
    np.testing.assert_allclose(model.row_costs_, paid)
    assert model.cost_ == pytest.approx(paid.mean())
    np.testing.assert_allclose(model.cost_matrix_, [[0.0, 1.0], [amounts.mean(), 0.0]])
    p = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X, example_costs=own), p >= 1 / (1 + amounts))
    expected = model.expected_costs(X, example_costs=own)
    np.testing.assert_allclose(expected, np.column_stack([p * amounts, 1 - p]))
    with pytest.raises(ValueError, match="costs must be None beside example_costs"):
        clone(model).set_params(costs={0: 1.0, 1: 2.0}).fit(X, y, example_costs=own)
    with pytest.raises(ValueError, match="beside min_precision"):
        clone(model).set_params(min_precision=0.5).fit(X, y, example_costs=own)


def test_ranges_of_costs():
    X, y = rows(400)
    model = DecisionEnsembleClassifier(QUICK, costs={0: 1.0, 1: (2.0, 8.0)}, cv=2).fit(X, y)
    assert model.threshold_ == pytest.approx(0.2)


def test_no_group_is_on_both_sides():
    """Rows that are nearly the same as others of their group say nothing of new groups."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(60), 5)
    y = rng.integers(0, 2, 60)[groups]
    X = rng.normal(size=(60, 4))[groups] + 0.01 * rng.normal(size=(300, 4))
    model = DecisionEnsembleClassifier([("trees", ExtraTreesClassifier(20, random_state=0))], cv=3)
    together = clone(model).fit(X, y, groups=groups)
    for train, test in together.folds_:
        assert not set(groups[train]) & set(groups[test])
    assert together.cost_ > 0.35
    assert clone(model).fit(X, y).cost_ < 0.05
    forest = DecisionEnsembleClassifier(["random-forest"], cv=2).fit(X, y, groups=groups)
    assert forest.cost_ > 0.35  # not by rows out of bag, which others of their group have told
    limit = clone(model).set_params(max_fpr=0.3, confidence=0.8).fit(X, y, groups=groups)
    learnt = np.unique(np.concatenate([train for train, _ in limit.folds_]))
    assert not set(groups[limit.held_out_]) & set(groups[learnt])
    with pytest.raises(ValueError, match="groups must be at least two"):
        clone(model).fit(X, y, groups=np.zeros(300))
    with pytest.raises(ValueError, match="one for each of 300 rows"):
        clone(model).fit(X, y, groups=groups[:7])


def test_folds_in_time_leave_the_first_rows_to_learn_from():
    X, y = rows(600)
    model = DecisionEnsembleClassifier([*QUICK, "extra-trees"], cv=TimeSeriesSplit(3)).fit(X, y)
    known = np.isfinite(model.cross_fitted_proba_[:, 0])
    np.testing.assert_array_equal(known, np.arange(600) >= 150)
    np.testing.assert_array_equal(np.isfinite(model.row_costs_), known)
    np.testing.assert_array_equal(model.row_weight_, known)
    assert model.cost_ == pytest.approx(model.row_costs_[known].mean())


def test_a_budget_takes_the_members_that_fit(monkeypatch):
    X, y = rows(400)
    monkeypatch.setattr(_work, "slowness", lambda: 1.0)
    little = DecisionEnsembleClassifier(budget=0.01, cv=3).fit(X, y)
    assert list(little.members_) == ["logistic-regression"]
    assert "a budget of 0.01 s has no room" in little.left_out_["random-forest"]
    some = DecisionEnsembleClassifier(budget=0.9, cv=3).fit(X, y)
    names = list(some.members_)
    assert names == [name for name in MEMBERS if name in names]
    assert 1 < len(names) < len(MEMBERS)


def test_the_plan_is_one_of_work_alone():
    size = _members.Size(500_000, 60_000, 100, 2, 5, True)
    members = list(MEMBERS.values())
    for budget in (1.0, 10.0, 60.0, 300.0):
        made = _work.plan([(member, size) for member in members], budget)
        planned = [_work._work(member, size, member.most_rows) for member in made.members]
        assert len(made.members) == 1 or sum(planned) <= _work.PLANNED * budget * 1.001
    assert len(made.members) == len(members)
    rows_of = [member.most_rows for member in made.members]
    more = _work.plan([(member, size) for member in members], 600.0).members
    assert all(a <= b.most_rows for a, b in zip(rows_of, more, strict=True))


def test_the_clock_stops_a_runaway_and_says_so(monkeypatch):
    X, y = rows(400)
    monkeypatch.setattr(_members, "RUNAWAY", 0.0)
    model = DecisionEnsembleClassifier(QUICK, budget=100.0, cv=2).fit(X, y)
    assert list(model.members_) == ["logistic-regression"]
    assert "the clock stopped" in model.left_out_["gaussiannb"]


def test_samples_keep_what_is_rare_and_weigh_it_back(monkeypatch):
    X, y = rows(4000, rate=-4.5)
    monkeypatch.setattr(_work, "_LEAST_SCORED", 900)
    monkeypatch.setattr(_work, "_SCORED", 900)
    model = DecisionEnsembleClassifier(QUICK, budget=60.0, cv=3, costs={0: 1.0, 1: 20.0})
    model.fit(X, y)
    known = np.isfinite(model.cross_fitted_proba_[:, 0])
    assert known.sum() == 900
    assert known[y == 1].all()
    for k in (0, 1):
        assert model.row_weight_[y == k].sum() == pytest.approx(np.sum(y == k))
    assert abs(model.predict_proba(X)[:, 1].mean() - y.mean()) < 0.005
    whole = DecisionEnsembleClassifier(QUICK, cv=3, costs={0: 1.0, 1: 20.0}).fit(X, y)
    assert abs(whole.cost_ - model.cost_) < 3 * whole.cost_error_
    few = _members.MEMBERS["logistic-regression"].with_rows(200)
    assert few.most_rows == 200


def test_draws_keep_rare_classes():
    codes = np.repeat([0, 1, 2], [900, 90, 10])
    some, stands_for = _draws.drawn(codes, 200, 0)
    np.testing.assert_array_equal(np.bincount(codes[some]), [100, 90, 10])
    np.testing.assert_allclose(np.bincount(codes[some], stands_for), [900, 90, 10])
    some, stands_for = _draws.drawn(codes, 2000, 0)
    assert len(some) == 1000
    assert (stands_for == 1.0).all()


def test_rows_can_be_forgotten(limited):
    X, _ = rows()
    said = limited.predict_proba(X)
    model = clone(limited).fit(*rows()).forget_rows()
    assert not hasattr(model, "cross_fitted_proba_")
    np.testing.assert_array_equal(model.predict_proba(X), said)
