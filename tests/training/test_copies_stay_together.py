"""Tables with copies of rows, exact or but for rounding: no promise is made by having seen them."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")

import grayzone
from grayzone.tables.errors import UserError
from grayzone.tables.schema import Schema
from grayzone.training.copies import copies_of, joined

RNG = np.random.default_rng(0)
FAST = {"model": "logistic-regression", "time_limit": 5}


def n_copies(table):
    table = table.reset_index(drop=True)
    schema = Schema.of(table)
    numbers = copies_of(schema.apply(table), schema)
    return 0 if numbers is None else len(table) - len(np.unique(numbers))


def twice(table, n_rows=None):
    return pd.concat([table, table.iloc[:n_rows]])


NUMBERS = pd.DataFrame(RNG.normal(size=(150, 4)), columns=list("abcd"))
LEVELS = pd.DataFrame(RNG.integers(0, 4, (1_000, 8))).add_prefix("c")
CODES = RNG.integers(0, 30, 1_000)
TRAIT = RNG.normal(size=(1_000, 1))
COINS = pd.DataFrame(RNG.integers(0, 2, (1_000, 4))).add_prefix("c")


def test_copies_are_rows_that_are_equal_more_often_than_by_chance():
    near = NUMBERS * (1 + 1e-6 * RNG.normal(size=NUMBERS.shape))
    cents = pd.DataFrame({"amount": np.round(RNG.lognormal(4.0, 0.4, 6_000), 2)})
    people = pd.DataFrame({"age": RNG.integers(20, 70, 900), "sex": RNG.choice(["f", "m"], 900)})
    items = np.digitize(TRAIT + 0.5 * RNG.normal(size=(1_000, 6)), [-1, 0, 1])
    products = pd.DataFrame({"code": CODES, "name": [f"n{k}" for k in CODES], "kind": CODES // 5})
    sparse = pd.DataFrame(RNG.poisson(0.05, (1_000, 20))).add_prefix("c")
    cases = {
        "exact": (twice(NUMBERS), 150),
        "one column of numbers": (pd.concat([NUMBERS[["a"]]] * 4), 450),
        "a millionth off": (pd.concat([NUMBERS, near]), 150),
        "a few of many": (twice(NUMBERS, 3), 3),
        "drawn with replacement": (NUMBERS.iloc[RNG.integers(0, 150, 150)], None),
        "with gaps": (twice(NUMBERS.where(RNG.random(NUMBERS.shape) < 0.8)), 150),
        "of other rows": (NUMBERS, 0),
        "coins": (COINS, 0),
        "people": (people, 0),
        "amounts of money": (cents, 0),
        "answers that go together": (pd.DataFrame(items).add_prefix("c"), 0),
        "products": (products, 0),
        "dummies": (pd.get_dummies(products["name"]).astype(int), 0),
        "mostly zeros": (sparse, 0),
    }
    for name, (table, expected) in cases.items():
        found = n_copies(table)
        assert found > 30 if expected is None else found == expected, (name, found)
    # by chance some rows of eight categories are equal, of which half are copied
    assert n_copies(LEVELS) == 0
    assert 500 <= n_copies(twice(LEVELS, 500)) < 520


def test_no_rounding_parts_near_copies():
    exact = pd.DataFrame({"a": np.arange(2_000) / 16 + 1 / 3, "b": RNG.normal(size=2_000)})
    off = exact * (1 + RNG.choice([-1e-6, 1e-6], exact.shape))
    assert n_copies(pd.concat([exact, off])) == 2_000


def test_copies_and_groups_stay_together():
    copies, groups = [0, 1, 1, 2, 3, 3], [0, 0, 1, 2, 2, 3]
    assert joined(np.array(groups), np.array(copies)).tolist() == [0, 0, 0, 1, 1, 1]


def test_noise_that_is_copied_is_not_learned():
    noise = NUMBERS.assign(y=np.tile(["no", "yes"], 75))
    near = [noise.assign(a=noise["a"] + 1e-6 * RNG.normal(size=150)) for _ in range(3)]
    table = pd.concat([noise, *near], ignore_index=True)
    table["row"] = np.arange(len(table))
    model = grayzone.train(table, "y", model="random-forest", time_limit=10)
    assert not model.metrics["verdict"]["deploy"]
    assert 0.4 < model.promise.cost < 0.6
    assert "no copy on both sides" in model.promise.how
    # that each of its values is there four times makes no column the same as another one
    (said,) = (f["text"] for f in model.metrics["findings"] if f["kind"] == "duplicate")
    assert said.startswith("450 of 600 rows (75.0%) are copies of another")
    assert "on one side of every split that models are judged by" in said
    assert "450 of 600 rows" in model.report_html


def test_copies_change_a_promise_by_no_more_than_chance():
    x = RNG.normal(size=(200, 6))
    y = np.where(x[:, 0] + 1.5 * RNG.normal(size=200) > 0.7, "yes", "no")
    once = pd.DataFrame(x, columns=list("abcdef")).assign(y=y)
    asked = {"model": "random-forest", "costs": "FN=5,FP=1", "time_limit": 10}
    plain = grayzone.train(once, "y", **asked).promise
    copied = grayzone.train(twice(once, 100), "y", **asked).promise
    assert copied.cost > plain.cost - plain.error
    assert copied.error > 0.8 * plain.error


def test_copies_are_not_learned_from_before_they_are_decided_on():
    noise = NUMBERS.assign(y=np.tile(["no", "yes"], 75))
    table = pd.concat([noise] * 4, ignore_index=True)
    table["day"] = np.arange(600)
    model = grayzone.train(table, "y", time="day", model="random-forest", time_limit=10)
    assert model.promise.cost > 0.4


def test_a_limit_has_the_rows_that_it_takes_beside_copies():
    x = RNG.normal(size=(700, 2))
    y = np.where(np.arange(700) < 60, "yes", "no")
    table = pd.DataFrame(x, columns=["a", "b"]).assign(y=y)
    model = grayzone.train(twice(table, 10), "y", max_fpr=0.01, **FAST)
    assert model.metrics["limit"]["reached"] <= 0.01


def test_a_class_of_one_row_is_refused_however_often_it_is_there():
    table = NUMBERS.assign(y="no")
    one = NUMBERS.iloc[:1].assign(y="yes", a=9.5)
    with pytest.raises(UserError, match="All 8 rows of 'yes' are copies of one row"):
        grayzone.train(pd.concat([table, *[one] * 8]), "y", **FAST)
    # of two rows, each model knows one
    two = pd.concat([one, NUMBERS.iloc[1:2].assign(y="yes", a=9.0)])
    model = grayzone.train(pd.concat([table, *[two] * 4]), "y", **FAST)
    assert model.predict(two).tolist() == ["yes", "yes"]
