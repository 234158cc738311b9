"""What is odd about a table is said with its number; ordinary tables give little to say."""

import random

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")

from fuzz.tables import hostile_columns
from grayzone.cli import main
from grayzone.tables.errors import UserError
from grayzone.tables.schema import Schema
from grayzone.training import hygiene
from grayzone.training.hygiene import inspect_rows

N = 600


def plain(n=N, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    y = (x + rng.normal(size=n) > 1.0).astype(int)
    table = pd.DataFrame({"x": x, "z": rng.normal(size=n), "city": rng.choice(list("abc"), n)})
    return table, y, rng


def look(table, y, target="y", **options):
    schema = Schema.of(table)
    classes = [f"class {k}" for k in range(int(y.max()) + 1)]
    return inspect_rows(schema.apply(table), schema, y, classes, target, **options)


def of(findings, kind, name=None):
    return [f for f in findings if f.kind == kind and (name is None or name in f.columns)]


def test_an_ordinary_table_gives_nothing_to_say():
    table, y, rng = plain()
    wide = table.join(pd.DataFrame(rng.normal(size=(N, 30)), columns=[f"v{k}" for k in range(30)]))
    assert look(wide, y) == []


LEAKS = {
    "a noisy copy": lambda y, rng: y + 0.1 * rng.normal(size=len(y)),
    "a code": lambda y, rng: np.where(y == 1, "closed", rng.choice(["open", "new"], len(y))),
    "filled for one class": lambda y, rng: np.where(y == 1, rng.normal(size=len(y)), np.nan),
    "filled for some of one class": lambda y, rng: np.where(
        (y == 1) & (rng.random(len(y)) < 0.3), 1.0, np.nan
    ),
    "recovered from some": lambda y, rng: np.where(
        (y == 1) & (rng.random(len(y)) < 0.6), rng.uniform(1, 9, len(y)), 0.0
    ),
    "in the middle": lambda y, rng: np.where(
        y == 1, rng.uniform(-1, 1, len(y)), rng.choice([-1, 1], len(y)) * rng.uniform(1, 9, len(y))
    ),
}


@pytest.mark.parametrize("kind", LEAKS)
def test_a_column_that_knows_the_outcome_is_serious(kind):
    table, y, rng = plain()
    findings = look(table.assign(later=LEAKS[kind](y, rng)), y)
    (leak,) = of(findings, "leak", "later")
    assert leak.serious
    assert any(character.isdigit() for character in leak.text)
    assert findings[0] == leak
    assert of(findings, "leak", "x") == []


def test_a_strong_feature_that_stands_out_is_a_warning_with_its_number():
    table, y, rng = plain()
    strong = table.assign(strong=y + 0.35 * rng.normal(size=N))
    (leak,) = of(look(strong, y), "leak")
    assert not leak.serious
    assert "area under the curve 0.9" in leak.text
    # as strong as others: nothing stands out
    both = strong.assign(other=y + 0.35 * rng.normal(size=N))
    assert of(look(both, y), "leak") == []


def test_rare_positives_and_more_classes():
    table, _, rng = plain(5_000)
    rare = (rng.random(5_000) < 0.004).astype(int)
    (leak,) = of(look(table.assign(later=rare + 0.05 * rng.normal(size=5_000)), rare), "leak")
    assert leak.serious
    many = rng.integers(0, 4, 5_000)
    leak = of(look(table.assign(later=many * 10 + rng.integers(0, 9, 5_000)), many), "leak")
    assert leak[0].columns == ("later",)


def test_dates_that_come_after_others():
    table, y, rng = plain()
    start = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 300, N), "D")
    dated = table.assign(
        applied=start,
        paid=start + pd.to_timedelta(rng.integers(1, 60, N), "D"),
        born=start - pd.to_timedelta(rng.integers(8_000, 20_000, N), "D"),
    )
    (leak,) = of(look(dated, y), "leak")
    assert leak.columns == ("paid",)
    assert "comes after 'applied' in 100% of rows" in leak.text
    assert not leak.serious
    (leak,) = of(look(dated.drop(columns="applied"), y, time=start.to_numpy()), "leak")
    assert leak.serious  # the user has said when the row was
    assert "after the time of the row" in leak.text


def test_names_of_outcomes_and_costs():
    table, y, rng = plain()
    named = table.assign(
        recovered_amount=rng.normal(size=N),
        churnReason=rng.choice(list("ab"), N),
        previous_outcome=rng.choice(list("ab"), N),
        loan_amount=rng.normal(size=N),
    )
    findings = look(named, y, target="churn")
    assert {f.columns for f in of(findings, "leak")} == {("recovered_amount",), ("churnReason",)}
    assert not any(f.serious for f in findings)
    (cost,) = of(findings, "cost")
    assert cost.columns == ("loan_amount",)
    telling = table.assign(recovery=y + 0.6 * rng.normal(size=N))
    assert of(look(telling, y), "leak", "recovery")[0].serious


IDENTIFIERS = {
    "customer_id": lambda rng: rng.permutation(N) * 37 + 10_000,
    "counter": lambda rng: np.arange(N) * 3,
    "token": lambda rng: [f"a{k:x}f{k * 7919 % N:x}" for k in range(N)],
    "e": lambda rng: [f"user{k}@example.org" for k in range(N)],
    "contact": lambda rng: [f"+49 30 {k}" for k in rng.integers(10**6, 10**7, N)],
    "phone": lambda rng: rng.integers(10**9, 10**10, N),
    "remark": lambda rng: [" ".join(rng.choice(list("abcdefgh"), 9)) for _ in range(N)],
}


@pytest.mark.parametrize("name", IDENTIFIERS)
def test_identifiers_phone_numbers_and_near_unique_text(name):
    table, y, rng = plain()
    (found,) = of(look(table.assign(**{name: IDENTIFIERS[name](rng)}), y), "identifier")
    assert found.columns == (name,)
    assert f"in {N:,} rows" in found.text
    assert ("phone" in found.text) == (name in ("contact", "phone"))


def test_constants_copies_and_columns_that_say_the_same():
    table, y, _ = plain()
    odd = table.assign(
        one=1,
        nearly=(np.arange(N) == 7).astype(int),
        celsius=table["x"] * 1.8 + 32,
        town=table["city"].map({"a": "A", "b": "B", "c": "C"}),
    )
    odd, y = pd.concat([odd, odd.iloc[:12]]), np.r_[y, 1 - y[:5], y[5:12]]
    findings = look(odd.reset_index(drop=True), y)
    assert {f.columns for f in of(findings, "constant")} == {("one",), ("nearly",)}
    rows, columns = sorted(of(findings, "duplicate"), key=lambda f: len(f.columns))
    assert "12 of 612 rows" in rows.text
    assert "10 rows differ from such a row in the target" in rows.text
    assert set(columns.columns) == {"x", "celsius", "city", "town"}


def test_drift_between_first_and_last_rows():
    table, y, rng = plain()
    moving = table.assign(moving=np.arange(N) / N + 0.3 * rng.normal(size=N))
    (found,) = of(look(moving, y), "drift")
    assert found.columns == ("moving",)
    kinds = np.where(np.arange(N) < N / 2, "old", rng.choice(["old", "new"], N))
    assert of(look(table.assign(kind=kinds), y), "drift")[0].columns == ("kind",)
    # by time, where it is known
    shuffled = rng.permutation(N)
    assert of(look(moving.iloc[shuffled].reset_index(drop=True), y[shuffled]), "drift") == []
    late = look(moving.iloc[shuffled].reset_index(drop=True), y[shuffled], time=shuffled)
    assert of(late, "drift")[0].columns == ("moving",)
    order = np.argsort(y, kind="stable")
    (found,) = of(look(table.iloc[order].reset_index(drop=True), y[order]), "drift")
    assert "in an order that has to do with the target" in found.text


def test_large_tables_are_looked_at_in_a_sample_that_keeps_rare_rows(monkeypatch):
    monkeypatch.setattr(hygiene, "MOST_ROWS", 1_000)
    table, _, rng = plain(8_000)
    y = (np.arange(8_000) % 800 == 0).astype(int)
    findings = look(table.assign(later=y + 0.05 * rng.normal(size=8_000)), y)
    assert of(findings, "leak", "later")[0].serious
    assert "of 8,000 rows" in of(findings, "reading")[0].text


def test_no_table_makes_it_fail():
    seen = 0
    for seed in range(60):
        rng = random.Random(seed)
        names, columns = hostile_columns(rng)
        unique = dict(zip(names, columns, strict=True))
        table = pd.DataFrame({str(name): pd.Series(values) for name, values in unique.items()})
        schema = Schema.of(table)
        if len(table) < 2 or not schema.columns:
            continue
        try:
            X = schema.apply(table)
        except UserError:  # what is no table is refused before
            continue
        y = np.array([k % 2 for k in range(len(table))])
        seen += 1
        assert isinstance(inspect_rows(X, schema, y, ["a", "b"], "y"), list)
    assert seen > 20


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_says_what_it_found_and_stops_if_strict(here, capsys):
    table, y, rng = plain()
    table["recovered_amount"] = np.where((y == 1) & (rng.random(N) < 0.6), 5.0, 0.0)
    table["customer_id"] = np.arange(N) + 1_000
    table["branch"] = 1
    table["nothing"] = np.nan
    table.assign(y=y).to_csv("t.csv", index=False)
    arguments = ["train", "t.csv", "--target", "y", "--model", "logistic-regression"]
    assert main([*arguments, "--out", "strict", "--strict"]) == 2
    said = capsys.readouterr().err
    assert "'recovered_amount' is other than '0.0'" in said
    assert not (here / "strict").exists()
    assert main([*arguments, "--out", "out"]) == 0
    out = capsys.readouterr().out
    for text in ("'recovered_amount'", "'customer_id' looks like", "'branch' has one value"):
        assert text in out
    assert "'nothing' is empty in every row" in out
    rest = [*arguments, "--drop", "recovered_amount", "--strict", "--out", "rest"]
    assert main(rest) == 0


def test_very_wide_tables_are_looked_at_in_the_columns_that_differ_most(monkeypatch):
    monkeypatch.setattr(hygiene, "MOST_COLUMNS", 20)
    table, y, rng = plain()
    noise = pd.DataFrame(rng.normal(size=(N, 60)), columns=[f"v{k}" for k in range(60)])
    gaps = np.where(y == 1, 1e29, np.nan)
    findings = look(noise.join(table.assign(later=y + 0.1 * rng.normal(size=N), gaps=gaps)), y)
    assert {f.columns for f in findings if f.serious} == {("later",), ("gaps",)}
    assert "20 of 65 columns" in of(findings, "reading")[0].text
