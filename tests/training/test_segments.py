"""How decisions do on parts of the rows, and where a limit is broken by more than chance."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit
from scipy.stats import norm

from grayzone.tables.errors import UserError
from grayzone.tables.schema import Schema
from grayzone.training.comparison import Fitted, Task
from grayzone.training.group_limits import limited_in_each, parts_to_limit
from grayzone.training.request import Request
from grayzone.training.segments import parts_of, segments_of
from grayzone.training.stakes import Stakes

FIVE = Stakes(("no", "yes"), np.array([[0.0, 1.0], [5.0, 0.0]]))


def rows(n=2_000, seed=0, wrong=0.1):
    """Regions of different sizes, and decisions that are wrong now and then."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "region": rng.choice(["north", "south", "isle"], n, p=[0.6, 0.395, 0.005]),
            "age": rng.integers(18, 80, n) * 1.0,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        }
    )
    codes = (rng.random(n) < 0.3).astype(int)
    decided = np.where(rng.random(n) < wrong, 1 - codes, codes)
    return table, codes, decided


def by_value(found):
    return {(one.column, one.value): one for one in found}


def test_numbers_of_a_segment_are_those_of_its_rows():
    table, codes, decided = rows()
    decided[::50] = -1
    stakes = Stakes(FIVE.classes, FIVE.costs, reject_cost=0.3)
    found = segments_of(table, Schema.of(table), codes, decided, stakes, columns=["region"])
    assert [one.value for one in found] == ["north", "south", "other"]  # few rows are one segment
    assert sum(one.rows for one in found) == 2_000
    north = (table["region"] == "north").to_numpy()
    c, d = codes[north], decided[north]
    costs = np.where(d == -1, 0.3, FIVE.costs[c, d])
    one = found[0]
    assert one.rows == north.sum()
    assert one.base_rate == pytest.approx(c.mean())
    assert one.cost == pytest.approx(costs.mean())
    assert one.error == pytest.approx(costs.std(ddof=1) / np.sqrt(len(costs)))
    assert one.alarms == pytest.approx((d == 1).mean())
    assert one.recall == pytest.approx((d[c == 1] == 1).mean())
    assert one.false_positive_rate == pytest.approx((d[c == 0] == 1).mean())
    assert one.undecided == pytest.approx((d == -1).mean())
    assert one.breaks_limit is None


def test_numbers_and_dates_are_cut_into_ranges_in_order():
    table, codes, decided = rows()
    table.loc[:99, "age"] = np.nan
    found = segments_of(table, Schema.of(table), codes, decided, FIVE, columns=["age", "day"])
    ages = [one for one in found if one.column == "age"]
    assert [one.value.split()[0] for one in ages[:1] + ages[3:]] == ["up", "from", "(missing)"]
    assert ages[-1].rows == 100
    assert all(400 < one.rows < 550 for one in ages[:4])
    lows = [int(one.value.split()[0]) for one in ages[1:3]]
    assert lows == sorted(lows)
    days = [one.value for one in found if one.column == "day"]
    assert days[0].startswith("up to 2020-")
    assert days[-1].startswith("from 2020-")
    assert len(days) == 4


def test_parts_are_all_rows_once():
    rng = np.random.default_rng(0)
    for values, kind in (
        (pd.Series(rng.choice(["a", "b", None], 500)), "text"),
        (pd.Series([f"name {k}" for k in range(500)]), "text"),
        (pd.Series(np.r_[np.zeros(450), np.arange(50.0)]), "number"),
        (pd.Series([True, False] * 250).astype(float), "number"),
        (pd.Series(np.full(500, np.nan)), "number"),
        (pd.Series(["other"] * 400 + [f"{k}" for k in range(100)]), "text"),
    ):
        parts = parts_of(values, kind)
        np.testing.assert_array_equal(np.sort(np.concatenate([*parts.values()])), np.arange(500))


def test_columns_are_looked_for_where_costs_differ():
    rng = np.random.default_rng(0)
    table, codes, decided = rows(3_000)
    schema = Schema.of(table)
    assert segments_of(table, schema, codes, decided, FIVE) == []  # all alike
    table["branch"] = rng.choice(["x", "y"], 3_000)
    table["idle"] = rng.choice(["p", "q"], 3_000)
    bad = (table["branch"] == "y").to_numpy() & (rng.random(3_000) < 0.2)
    decided = np.where(bad, 1 - codes, decided)
    found = segments_of(table, Schema.of(table), codes, decided, FIVE)
    assert {one.column for one in found} == {"branch"}
    costs = {one.value: one.cost for one in found}
    assert costs["y"] > costs["x"]


def test_chance_is_seldom_called_a_difference():
    called = 0
    for seed in range(60):
        table, codes, decided = rows(400, seed)
        flags = np.random.default_rng(seed + 1_000).integers(0, 2, (400, 6))
        table = pd.DataFrame(flags.astype(float), columns=list("abcdef"))
        called += bool(segments_of(table, Schema.of(table), codes, decided, FIVE))
    assert called <= 6  # .05 of 60, and two standard errors


@pytest.mark.parametrize(
    ("limit", "wrong_of"),
    [({"max_fpr": 0.1}, 0), ({"min_recall": 0.9}, 1)],
)
def test_segments_that_break_a_limit_by_more_than_chance(limit, wrong_of):
    stakes = Stakes(("no", "yes"), 1.0 - np.eye(2), **limit)
    columns = ["region"]
    told = 0
    for seed in range(40):  # every rate is just the limit
        table, codes, decided = rows(500, seed)
        found = segments_of(table, Schema.of(table), codes, decided, stakes, columns=columns)
        told += any(one.breaks_limit for one in found)
    assert told <= 5  # .05 of 40, and two standard errors
    table, codes, decided = rows(1_000)
    south = (table["region"] == "south").to_numpy() & (codes == wrong_of)
    more = np.random.default_rng(9).random(1_000) < 0.25
    decided = np.where(south & more, 1 - codes, decided)
    found = by_value(segments_of(table, Schema.of(table), codes, decided, stakes, columns=columns))
    assert found["region", "south"].breaks_limit is True
    assert found["region", "north"].breaks_limit is False


def test_precision_is_held_against_its_limit():
    stakes = Stakes(("no", "yes"), 1.0 - np.eye(2), min_precision=0.9)
    table, codes, decided = rows(1_000, wrong=0.0)
    south = (table["region"] == "south").to_numpy()
    decided = np.where(south & (np.arange(1_000) % 3 == 0), 1, decided)
    found = by_value(
        segments_of(table, Schema.of(table), codes, decided, stakes, columns=["region"])
    )
    assert found["region", "south"].breaks_limit is True
    assert found["region", "north"].breaks_limit is False


def test_costs_of_rows_and_weights():
    table, codes, decided = rows(600)
    costs = np.ones((600, 1, 1)) * (1.0 - np.eye(2))
    costs[:, 1, 0] = np.arange(600)
    weight = np.where(codes == 1, 1.0, 3.0)
    found = segments_of(
        table,
        Schema.of(table),
        codes,
        decided,
        FIVE,
        columns=["region"],
        costs=costs,
        weight=weight,
    )
    north = (table["region"] == "north").to_numpy()
    paid = costs[np.arange(600), codes, decided]
    assert found[0].cost == pytest.approx(np.average(paid[north], weights=weight[north]))
    assert found[0].base_rate == pytest.approx(np.average(codes[north], weights=weight[north]))


def test_several_classes_have_costs_and_no_rates():
    stakes = Stakes(("a", "b", "c"), 1.0 - np.eye(3))
    table, codes, decided = rows(300)
    found = segments_of(table, Schema.of(table), codes, decided, stakes, columns=["region"])
    assert found[0].base_rate is found[0].recall is found[0].alarms is None
    assert found[0].cost > 0.0


def test_a_column_that_is_not_there():
    table, codes, decided = rows(100)
    with pytest.raises(UserError, match=r"segments by 'regoin'"):
        segments_of(table, Schema.of(table), codes, decided, FIVE, columns=["regoin"])


# A limit in each of several groups


def fitted_to(codes, scores, held_out):
    """What is known of rows after a fit, as far as a threshold needs it."""
    proba = np.column_stack([1.0 - scores, scores])
    every = np.arange(len(codes))
    return Fitted(
        "any", None, [], held_out, every, np.ones(len(codes)), proba, {}, {}, cut=0.5, seconds=0.0
    )


@pytest.mark.parametrize("limit", [{"max_fpr": 0.1}, {"min_recall": 0.8}])
def test_one_threshold_keeps_a_limit_in_every_group(limit):
    stakes = Stakes(("no", "yes"), 1.0 - np.eye(2), **limit)
    concerned, sign = (0, 1.0) if "max_fpr" in limit else (1, -1.0)
    broken = {"every group": 0, "all rows": 0}

    def log_odds(codes, hard):
        """Their means; scores are normal around them."""
        return 1.5 * (codes - 0.5) + sign * 0.5 * hard

    for seed in range(60):
        rng = np.random.default_rng(seed)
        hard = (rng.random(900) < 0.3) * 1.0
        codes = (rng.random(900) < 0.4).astype(int)
        table = pd.DataFrame({"group": np.where(hard, "hard", "easy")})
        task = Task(table, codes, stakes, Schema.of(table), 0)
        scores = expit(log_odds(codes, hard) + rng.normal(size=900))
        fitted = fitted_to(codes, scores, np.arange(450))
        parts = parts_of(table["group"], "text")
        for name, some in (("every group", parts), ("all rows", {"": np.arange(900)})):
            cut = logit(limited_in_each(task, fitted, some).cut)
            rates = norm.sf(cut - log_odds(concerned, np.array([0.0, 1.0])))
            broken[name] += rates.max() > 0.1 if concerned == 0 else rates.min() < 0.8
    assert broken["every group"] <= 6  # .05 of 60, and two standard errors
    assert broken["all rows"] > 30


def test_a_group_of_too_few_rows_is_said_before_anything_is_fitted():
    request = Request(None, "y", max_fpr=0.05, limit_by="region")
    stakes = Stakes(("no", "yes"), 1.0 - np.eye(2), max_fpr=0.05)
    table, codes, _ = rows(2_000)
    task = Task(table, codes, stakes, Schema.of(table), 0)
    with pytest.raises(
        UserError, match=r"limit_by='region': where it is 'other', there are too few"
    ):
        parts_to_limit(request, task, table)
    some = table.assign(region=table["region"].replace("isle", "north"))
    assert set(parts_to_limit(request, task, some)) == {"north", "south"}


def test_groups_take_a_limit():
    with pytest.raises(UserError, match="limit_by=… is for a limit"):
        Request(None, "y", limit_by="region").check()
    with pytest.raises(UserError, match="limit_by=… is for a limit"):
        Request(None, "y", min_precision=0.5, limit_by="region").check()
    Request(None, "y", min_recall=0.5, limit_by="region").check()
