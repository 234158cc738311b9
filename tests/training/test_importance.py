"""Which columns matter, and what their values do: judged by cost, on rows that were not seen."""

import numpy as np
import pandas as pd
import pytest
from knowing import Knowing
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline

from grayzone import DecisionEnsembleClassifier
from grayzone.estimators.table_features import TableColumns
from grayzone.tables.schema import Schema
from grayzone.training.effects import effects_of
from grayzone.training.held_out import held_out_copy
from grayzone.training.importance import importance_of
from grayzone.training.stakes import Stakes

FIVE = Stakes(("no", "yes"), np.array([[0.0, 1.0], [5.0, 0.0]]))
SURE = 50.0  # log-odds


def numbers(n=2_000, columns="abc", seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n, len(columns))), columns=list(columns))


def by_column(found):
    return {one.column: one for one in found}


def sign_of_a(table):
    return SURE * np.sign(table["a"])


def test_a_column_that_decides_costs_what_shuffling_it_does():
    table = numbers(4_000)
    codes = (table["a"] > 0).to_numpy().astype(int)
    found = by_column(importance_of(Knowing(sign_of_a), table, codes, FIVE, work=10**9))
    share = codes.mean()
    truth = share * (1 - share) * (5.0 + 1.0)  # a positive one that is missed, a false alarm
    assert abs(found["a"].cost - truth) < 3 * found["a"].error
    assert found["a"].error < 0.05
    assert found["b"].cost == found["c"].cost == found["b"].error == 0.0


def test_the_largest_comes_first_and_a_seed_gives_the_same():
    table = numbers()
    truth = Knowing(lambda t: 2.0 * t["b"] + 0.5 * t["a"])
    codes = (np.random.default_rng(1).random(len(table)) < truth.predict_proba(table)[:, 1]).astype(
        int
    )
    first = importance_of(truth, table, codes, FIVE, seed=3)
    assert [one.column for one in first] == ["b", "a", "c"]
    assert importance_of(truth, table, codes, FIVE, seed=3) == first
    other = importance_of(truth, table, codes, FIVE, seed=4)
    assert other != first
    assert other[0].cost == pytest.approx(first[0].cost, abs=3 * first[0].error)


def test_the_error_is_that_of_other_tables():
    """Means of many tables spread as the stated standard errors say."""
    truth = Knowing(lambda t: 3.0 * t["a"])
    means, errors = [], []
    for seed in range(40):
        table = numbers(300, seed=seed)
        draws = np.random.default_rng(1_000 + seed).random(300)
        codes = (draws < truth.predict_proba(table)[:, 1]).astype(int)
        one = by_column(importance_of(truth, table, codes, FIVE, seed=seed))["a"]
        means.append(one.cost)
        errors.append(one.error)
    assert 0.7 < np.mean(errors) / np.std(means, ddof=1) < 1.4


def test_columns_that_say_the_same_are_shuffled_together():
    table = numbers().assign(
        dollars=lambda t: 3.0 - 2.0 * t["a"],  # the other way round
        grade=lambda t: np.where(t["b"] > 0, "high", "low"),
        code=lambda t: (t["b"] > 0) * 7.0,
    )
    codes = (table["a"] > 0).to_numpy().astype(int)
    # either column alone would do
    model = Knowing(lambda t: SURE * np.sign(t["a"] - (t["dollars"] - 3.0) / 2.0))
    found = importance_of(model, table, codes, FIVE)
    assert found[0].column == "a"
    assert found[0].together == ("dollars",)
    assert found[0].cost > 1.2
    assert by_column(found)["grade"].together == ("code",)
    assert {one.column for one in found} == {"a", "b", "c", "grade"}


def test_a_rare_flag_says_little_of_other_rare_flags():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: (rng.random(2_000) < 0.005) * 1.0 for name in "ab"})
    codes = (table["a"] > 0).to_numpy().astype(int)
    found = importance_of(Knowing(lambda t: SURE * (t["a"] - 0.5)), table, codes, FIVE)
    assert {one.column for one in found} == {"a", "b"}


def test_costs_of_rows_decide_and_judge_and_are_not_shuffled():
    table = numbers(1_000).assign(amount=lambda t: np.exp(t["c"]))
    codes = (np.random.default_rng(1).random(1_000) < 0.3).astype(int)
    costs = np.zeros((1_000, 2, 2))
    costs[:, 1, 0], costs[:, 0, 1] = table["amount"], 1.0
    same = Knowing(lambda t: np.full(len(t), np.log(0.3 / 0.7)))
    found = importance_of(same, table.drop(columns="c"), codes, FIVE, costs=costs, known=costs)
    assert all(one.cost == 0.0 for one in found)  # the decision needs the cost, not the column
    knows = importance_of(
        Knowing(sign_of_a), table, (table["a"] > 0) * 1, FIVE, costs=costs, known=costs
    )
    share = (table["a"] > 0).mean()
    expected = share * (1 - share) * (costs[:, 1, 0].mean() + 1.0)
    a = by_column(knows)["a"]
    assert abs(a.cost - expected) < 4 * a.error


def test_staying_undecided_costs_what_it_costs():
    stakes = Stakes(("no", "yes"), 1.0 - np.eye(2), reject_cost=0.1)
    table = numbers()
    codes = (table["a"] > 0).to_numpy().astype(int)
    # it knows the answer where b says so, and knows that it does not elsewhere
    model = Knowing(lambda t: SURE * np.sign(t["a"]) * (t["b"] > 0))
    found = by_column(importance_of(model, table, codes, stakes))
    assert found["b"].cost == pytest.approx(0.0, abs=3 * found["b"].error + 1e-12)
    assert found["a"].cost == pytest.approx(0.25, abs=0.03)  # half the rows, half of them wrong


@pytest.mark.parametrize("limit", [{"max_fpr": 0.1}, {"min_recall": 0.8}, {"min_precision": 0.5}])
def test_under_a_limit_the_errors_of_the_other_kind_count(limit):
    """At a fixed threshold, shuffling would save alarms and look like a gain."""
    table = numbers(4_000)
    truth = Knowing(lambda t: 2.0 * t["a"] - 4.0)
    draws = np.random.default_rng(1).random(len(table))
    codes = (draws < truth.predict_proba(table)[:, 1]).astype(int)
    stakes = Stakes(("no", "yes"), 1.0 - np.eye(2), **limit)
    found = by_column(importance_of(truth, table, codes, stakes, cut=0.3))
    assert found["a"].cost > 5 * found["a"].error
    assert found["b"].cost == 0.0


def test_rare_rows_are_all_used_and_count_as_what_they_are():
    table = numbers(20_000, "ab")
    codes = (table["a"] > 2.5).to_numpy().astype(int)
    assert codes.sum() < 200
    model = Knowing(lambda t: SURE * (t["a"] - 2.5))
    few = by_column(importance_of(model, table, codes, FIVE, work=10_000))["a"]
    share = codes.mean()
    truth = share * (1 - share) * 6.0
    assert abs(few.cost - truth) < 3 * few.error
    assert few.error < 0.2 * truth


def test_work_is_bounded_for_many_rows_and_columns():
    table = numbers(3_000, [f"x{k}" for k in range(120)])
    model = Knowing(lambda t: 5.0 * t["x7"] + 3.0 * t["x111"])
    codes = (table["x7"] > 0).to_numpy().astype(int)
    found = importance_of(model, table, codes, FIVE, work=80_000)
    assert model.asked < 1.3 * 80_000
    assert len(found) == 40
    assert found[0].column == "x7"
    assert "x111" in {one.column for one in found}


def test_several_classes():
    stakes = Stakes(("one", "two", "three"), 1.0 - np.eye(3))
    table = numbers()
    model = Knowing(lambda t: SURE * t[["a", "b", "c"]].to_numpy())
    codes = table.to_numpy().argmax(axis=1)
    found = importance_of(model, table, codes, stakes)
    assert all(one.cost > 0.2 for one in found)


# Rows that were not seen


def by_heart():
    """Remembers every row it has seen."""
    return Pipeline([("pass", "passthrough"), ("decide", KNeighborsClassifier(1))])


def test_a_copy_has_not_seen_the_rows_that_it_is_explained_on():
    table = numbers(600, "ab").assign(b=lambda t: 100.0 * t["b"])
    codes = (np.random.default_rng(1).random(600) < 0.5).astype(int)
    whole = by_heart().fit(table, codes)
    flattered = by_column(importance_of(whole, table, codes, FIVE))
    assert flattered["b"].cost > 1.0  # learnt by heart
    copy = held_out_copy(whole, table, codes, seed=0)
    honest = by_column(importance_of(copy.estimator, table.iloc[copy.rows], codes[copy.rows], FIVE))
    assert abs(honest["b"].cost) < 3 * honest["b"].error
    assert len(copy.rows) == 180
    assert np.mean(codes[copy.rows]) == pytest.approx(codes.mean(), abs=0.01)
    known = copy.estimator.predict(table.iloc[np.setdiff1d(np.arange(600), copy.rows)])
    assert len(known) == 420


def test_a_split_by_groups_or_times_is_kept():
    table = numbers(100, "ab")
    codes = np.arange(100) % 2
    model = by_heart().fit(table, codes)
    copy = held_out_copy(model, table, codes, split=(np.arange(60), np.arange(60, 100)))
    np.testing.assert_array_equal(copy.rows, np.arange(60, 100))
    np.testing.assert_array_equal(copy.estimator[-1].n_samples_fit_, 60)


def test_an_ensemble_is_explained_by_source_columns():
    """No model that is not linear was, and of those that are the features were: ``notes_07``."""
    rng = np.random.default_rng(0)
    table = numbers(500, "ab").assign(
        notes=[f"case {'late' if k % 3 == 0 else 'paid'} {k}" for k in range(500)],
        colour=rng.choice(["red", "blue"], 500),
    )
    late = table["notes"].str.contains("late").to_numpy()
    codes = (late ^ ((table["a"] > 0) & (table["colour"] == "red")).to_numpy()).astype(int)
    members = ["logistic-regression", "random-forest"]
    ensemble = DecisionEnsembleClassifier(members, costs=FIVE.costs, random_state=0)
    model = Pipeline([("pass", "passthrough"), ("decide", ensemble)]).fit(table, codes)
    copy = held_out_copy(model, table, codes, seed=0)
    assert copy.estimator[-1].members == members
    found = importance_of(copy.estimator, table.iloc[copy.rows], codes[copy.rows], FIVE)
    assert {one.column for one in found} == {"a", "b", "notes", "colour"}
    assert found[0].column == "notes"
    assert found[0].cost > 5 * found[0].error
    assert found[-1].column == "b"


# Effects


def test_an_effect_is_a_mean_over_rows_at_each_value():
    table = numbers(250)
    model = Knowing(lambda t: np.abs(t["a"]) + t["b"])
    effect = effects_of(model, table, Schema.of(table), FIVE, ["a"])[0]
    assert (effect.column, effect.kind, effect.label) == ("a", "number", None)
    assert list(effect.at) == sorted(effect.at)
    assert sum(effect.rows) == 250
    assert set(effect.at) <= set(table["a"])
    for at, probability in zip(effect.at, effect.probability, strict=True):
        truth = model.predict_proba(table.assign(a=at))[:, 1].mean()
        assert probability == pytest.approx(truth, rel=1e-12)


def test_effects_of_every_kind_of_column():
    n = 200
    table = pd.DataFrame(
        {
            "day": pd.date_range("2020-01-01", periods=n),
            "colour": ["red"] * 120 + ["blue"] * 60 + [None] * 17 + ["odd"] * 3,
            "name": [f"Ms {k}" for k in range(n)],
            "flag": [0.0, 1.0] * 80 + [np.nan] * 40,
        }
    )
    schema = Schema.of(table)
    table = schema.apply(table)
    model = Knowing(lambda t: np.where(t["colour"] == "red", 1.0, -1.0) + t["flag"].fillna(0.5))
    effects = effects_of(model, table, schema, FIVE, list(table.columns))
    found = by_column(one for one in effects if one.part in (None, "trend"))
    assert set(found) == {"day", "colour", "flag"}  # a text of one row alone stays private
    assert found["colour"].at == ("red", "blue", "(missing)")
    assert found["colour"].rows == (120, 60, 17)
    assert found["colour"].probability[0] > 0.7 > 0.4 > found["colour"].probability[1]
    assert found["flag"].at == (0.0, 1.0)
    assert found["flag"].rows == (80, 80)
    assert found["day"].at[0] == "2020-01-05"
    assert list(found["day"].at) == sorted(found["day"].at)
    assert sum(found["day"].rows) == n


@pytest.mark.parametrize("years", [0.5, 4])
def test_of_a_date_what_models_learn_is_plotted(years):
    """It was days of the calendar, with an hour each, where the hour of the day is what counts."""
    rng = np.random.default_rng(0)
    seconds = pd.to_timedelta(rng.integers(0, int(years * 365 * 86_400), 400), unit="s")
    table = pd.DataFrame({"when": pd.Timestamp("2021-03-01") + seconds})
    schema = Schema.of(table)

    def score(t):
        days, of_year, weekday, hour = TableColumns().fit(t).transform(t).T
        season = 0.6 * np.cos(2 * np.pi * of_year / 365) * (years > 1)
        trend = (days - 18_700) / 365 / years  # from 0 to 1
        return 2.0 * (hour >= 20) + 1.2 * (weekday >= 5) + season + 0.6 * trend - 1.0

    model = Knowing(score)
    found = effects_of(model, schema.apply(table), schema, FIVE, ["when"])
    parts = ["hour of the day", "day of the week", "month", "trend"]
    # what moves probabilities most comes first
    assert [one.part for one in found] == [p for p in parts if years > 1 or p != "month"]
    assert {one.column for one in found} == {"when"}
    assert all(sum(one.rows) == 400 for one in found)
    of = {one.part: dict(zip(one.at, one.probability, strict=True)) for one in found}
    assert list(of["hour of the day"]) == [float(hour) for hour in range(24)]
    late, early = ([p for h, p in of["hour of the day"].items() if (h >= 20) == x] for x in (1, 0))
    assert np.ptp(late) < 1e-3 > np.ptp(early)
    assert min(late) - max(early) > 0.3
    week = of["day of the week"]
    assert [day[:2] for day in week] == ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"]
    assert week["Saturday"] == pytest.approx(week["Sunday"], abs=0.02)
    assert week["Sunday"] - week["Friday"] > 0.15
    assert week["Monday"] == pytest.approx(week["Friday"], abs=0.02)
    trend = list(of["trend"].values())
    assert trend[-1] - trend[0] > 0.08
    # neither the hours nor the days of the week of some dates are mixed up with it
    assert np.diff(trend).min() > -0.01
    if years > 1:
        assert max(of["month"], key=of["month"].get) in ("December", "January")
        assert min(of["month"], key=of["month"].get) in ("June", "July")


def test_effects_on_several_classes():
    stakes = Stakes(("one", "two", "three"), 1.0 - np.eye(3))
    table = numbers(100)
    model = Knowing(lambda t: t[["a", "b", "c"]].to_numpy())
    found = effects_of(model, table, Schema.of(table), stakes, ["b"])
    assert [one.label for one in found] == ["one", "two", "three"]
    np.testing.assert_allclose(np.sum([one.probability for one in found], axis=0), 1.0)
    assert found[1].probability[-1] > found[1].probability[0]
