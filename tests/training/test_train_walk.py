"""What `train` promises of the model that it keeps, and when it says not to use it."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")

import grayzone
from grayzone.cli import main
from grayzone.decision import bayes_decision, near_threshold
from grayzone.numerics.pace import Deadline
from grayzone.reporting.markup import percent
from grayzone.tables.errors import UserError
from grayzone.tables.schema import Schema
from grayzone.training import comparison, job
from grayzone.training.account import as_good, compared_of, mean_and_error, promise_of
from grayzone.training.candidates import ENSEMBLE, FAMILIES, MEMBERS, decider
from grayzone.training.comparison import Fitted, Task, compare, fit
from grayzone.training.explanations import Explanations
from grayzone.training.samples import some_rows
from grayzone.training.stakes import Stakes, read_costs

FAST = {"model": "logistic-regression"}
UNHURRIED = {"deadline": Deadline(None), "tell": lambda *_: None}


def table_of(n, *, bias=0.0, slope=2.0, seed=0):
    """Two numbers that tell, a category that does not, and what an error costs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    p = 1.0 / (1.0 + np.exp(-(slope * (X[:, 0] + 0.5 * X[:, 1]) + bias)))
    return pd.DataFrame(
        {
            "a": X[:, 0],
            "b": X[:, 1],
            "kind": rng.choice(["x", "y", "z"], n),
            "amount": np.round(rng.lognormal(1.0, 1.0, n), 2),
            "y": np.where(rng.random(n) < p, "bad", "good"),
        }
    )


def features(table):
    return table.drop(columns="amount")


# Why 1: a limit belongs to the model that is kept


def test_a_limit_is_kept_on_new_rows_by_the_model_that_is_kept():
    table = features(table_of(5_000, bias=-5.0))
    assert 0.01 < (table["y"] == "bad").mean() < 0.05
    model = grayzone.train(table, "y", max_fpr=0.02, **FAST)
    limit = model.metrics["limit"]
    assert (limit["kind"], limit["limit"], limit["confidence"]) == ("max_fpr", 0.02, 0.95)
    assert limit["low"] < limit["reached"] < 0.02
    # the threshold is the one of the model: a copy of it that is asked gives the same rates
    assert model.cut == model.estimator[-1].threshold_
    fresh = table_of(50_000, bias=-5.0, seed=1)
    alarms = model.predict(fresh) == "bad"
    rate = alarms[fresh["y"] == "good"].mean()
    assert 0.008 < rate <= 0.02
    found = alarms[fresh["y"] == "bad"].mean()
    # three standard errors of a share of the positives there were
    error = np.sqrt(found * (1.0 - found) / (table["y"] == "bad").sum())
    assert found == pytest.approx(model.metrics["recall"], abs=3.0 * error)
    assert "finds" in model.metrics["verdict"]["sentence"]


@pytest.mark.slow
def test_a_small_limit_is_kept_where_positives_are_rare_and_rows_many():
    table = features(table_of(120_000, bias=-8.5))
    assert 0.001 < (table["y"] == "bad").mean() < 0.004
    model = grayzone.train(table, "y", max_fpr=0.001, **FAST)
    fresh = table_of(200_000, bias=-8.5, seed=100)
    alarms = model.predict(fresh) == "bad"
    assert alarms[fresh["y"] == "good"].mean() <= 0.001


@pytest.mark.parametrize(("limit", "least"), [("min_recall", 0.8), ("min_precision", 0.7)])
def test_other_limits_are_kept_too(limit, least):
    model = grayzone.train(features(table_of(1_500)), "y", **{limit: least}, **FAST)
    assert model.metrics["limit"]["kind"] == limit
    fresh = table_of(20_000, seed=1)
    alarms, bad = model.predict(fresh) == "bad", (fresh["y"] == "bad").to_numpy()
    rate = alarms[bad].mean() if limit == "min_recall" else bad[alarms].mean()
    assert least <= rate < least + 0.15


# Why 2: useless models are not sold


@pytest.mark.parametrize("options", [{}, {"reject_cost": 0.2}, {"max_fpr": 0.2}])
def test_a_model_of_noise_is_not_to_be_deployed(options):
    table = features(table_of(400, slope=0.0, bias=-1.0))
    model = grayzone.train(table, "y", **options, **FAST)
    verdict = model.metrics["verdict"]
    assert not verdict["deploy"]
    assert verdict["sentence"].startswith("Do not deploy: ")
    assert "Do not deploy" in model.report_html


def test_do_not_deploy_is_the_first_line_and_no_failure(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    features(table_of(300, slope=0.0, bias=-1.5)).to_csv("t.csv", index=False)
    arguments = [
        "train",
        "t.csv",
        "--target",
        "y",
        "--model",
        "logistic-regression",
        "--out",
        "out",
    ]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.lstrip().startswith("Do not deploy: ")
    told = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert not told["verdict"]["deploy"]


def test_a_useful_model_says_what_it_saves_against_the_best_rule():
    model = grayzone.train(features(table_of(600)), "y", costs="FN=5,FP=1", **FAST)
    promise, verdict = model.promise, model.metrics["verdict"]
    best = min(rule.cost for rule in promise.rules)
    assert verdict["deploy"]
    assert f"{percent(1.0 - promise.cost / best)} less than 'always bad'" in verdict["sentence"]
    assert promise.low < promise.cost < promise.high


@pytest.mark.parametrize(("slope", "told"), [(4.0, True), (0.0, False)])
def test_a_simpler_model_is_only_praised_where_one_is_worth_using(monkeypatch, slope, told):
    task = []

    def one_member(found_task, name, budget, stop_after):
        task.append(found_task)
        fitted = fit(found_task, "logistic-regression", budget)
        return replace(fitted, name=ENSEMBLE, members={"logistic-regression": fitted.proba})

    monkeypatch.setattr(job, "fit", one_member)
    monkeypatch.setattr(comparison, "FAMILIES", {})
    monkeypatch.setattr(job, "explain", lambda *_: Explanations([], [], [], None))
    monkeypatch.setattr(job, "examples_of", lambda *_: [])
    model = grayzone.train(features(table_of(300, slope=slope, bias=-1.5)), "y")
    assert model.metrics["verdict"]["deploy"] is told
    assert ("which is simpler, is as good" in " ".join(model.metrics["notes"])) is told
    assert len(task) == 1


def test_a_column_that_alone_decides_nearly_all_holds_the_model_back():
    table = features(table_of(300))
    copy, near = table["y"], np.where(table["y"] == "bad", 10.0, 0.0) + table["a"]
    for leak in (copy, near):
        model = grayzone.train(table.assign(loss=leak), "y", **FAST)
        verdict = model.metrics["verdict"]
        assert (verdict["deploy"], verdict["check"]) == (False, ("loss",))
        assert verdict["sentence"].startswith("Do not deploy yet: check 'loss' first, as it alone")
        assert "train without it. If it is known, this holds: Decisions of" in verdict["sentence"]
        assert '<section class="verdict check"' in model.report_html
        assert "<strong>Do not deploy yet.</strong> Check &#x27;loss&#x27; first" in (
            model.report_html
        )
    clean = grayzone.train(table.assign(loss=near), "y", drop=["loss"], **FAST)
    assert clean.metrics["verdict"]["deploy"]
    assert '<section class="verdict"' in clean.report_html


# Why 4: samples keep what is rare


def test_samples_keep_all_rows_of_rare_classes_and_weigh_the_others_back():
    codes = np.array([0] * 5_000 + [1] * 40 + [2] * 700)
    rows, weight = some_rows(codes, 1_000, 0)
    kept = np.bincount(codes[rows])
    assert kept[1] == 40
    assert kept.sum() == 1_000
    shares = np.bincount(codes[rows], weight) / weight.sum()
    np.testing.assert_allclose(shares, np.bincount(codes) / len(codes), rtol=1e-12)
    everything, ones = some_rows(codes, 10_000, 0)
    assert len(everything) == len(codes)
    assert (ones == 1.0).all()


def task_of(table, costs=None, **more):
    stakes = Stakes(("good", "bad"), 1.0 - np.eye(2) if costs is None else costs, **more)
    X = features(table).drop(columns="y")
    schema = Schema.of(X)
    return Task(schema.apply(X), (table["y"] == "bad").to_numpy().astype(int), stakes, schema, 0)


def judged(task, proba, n_folds=5):
    """A kept model that is not there: only what it said of the rows."""
    n = len(task.codes)
    fold = np.arange(n) % n_folds
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
    no_rows = np.empty(0, dtype=int)
    said = np.column_stack([1.0 - proba, proba])
    members = dict.fromkeys(MEMBERS, said)
    return Fitted(
        ENSEMBLE, None, folds, no_rows, np.arange(n), np.ones(n), said, members, {}, None, 1.0
    )


def test_families_are_compared_on_a_sample_with_all_positives(monkeypatch):
    monkeypatch.setattr(comparison, "MOST_ROWS", 400)
    table = table_of(3_000, bias=-4.5)
    task = task_of(table, np.array([[0.0, 1.0], [20.0, 0.0]]))
    n_bad = int(task.codes.sum())
    assert n_bad < 200
    only = {"tight-bound": FAMILIES["tight-bound"]}
    monkeypatch.setattr(comparison, "FAMILIES", only)
    kept = judged(task, np.full(3_000, 0.03))
    found = compare(task, kept, budget=1e6, until=np.inf, **UNHURRIED)
    assert len(found.rows) == 400
    assert task.codes[found.rows].sum() == n_bad
    # means on the sample are estimates of those on all rows: "always good" is known
    promise = promise_of(task, kept)
    compared = {c.name: c for c in compared_of(task, found, kept, promise)}
    assert compared["always good"].mean == pytest.approx(20.0 * task.codes.mean(), rel=1e-9)
    tight = compared["tight-bound"]
    assert tight.difference < -2.0 * tight.difference_error


# Why 5: work counts, not the clock


def walked(monkeypatch, speed, budget, clock="monotonic"):
    """Compare families where a clock runs at another speed; fits are not made."""
    now = iter(np.arange(0.0, 1e6, speed))
    # what this process has done so far is not of this run
    monkeypatch.setattr(comparison, "process_time", lambda: 0.0)
    monkeypatch.setattr(comparison, clock, lambda: float(next(now)))
    monkeypatch.setattr(comparison, "slowness", lambda: 1.0)

    def learn(model, task, features, rows, weight):
        model.cross_fitted_proba_ = np.full((len(rows), 2), 0.5)

    monkeypatch.setattr(comparison, "_learn", learn)
    task = task_of(table_of(100))
    kept = judged(task, np.full(100, 0.4))
    told = []
    given = UNHURRIED | {"tell": lambda *event: told.append(event)}
    found = compare(task, kept, budget=budget, until=30.0, **given)
    # only what was fitted is told of
    compared = [o.name for o in found.outcomes if o.name in FAMILIES and not o.left_out]
    assert told == [(name, done, 1) for name in compared for done in (0, 1)]
    return [(o.name, o.left_out) for o in found.outcomes]


@pytest.mark.parametrize("budget", [0.5, 2.0, 60.0])
def test_the_same_models_are_compared_on_a_busy_machine(monkeypatch, budget):
    idle = walked(monkeypatch, 0.1, budget)
    assert idle == walked(monkeypatch, 1e3, budget)
    able = [name for name, why in idle if name in FAMILIES and not why]
    # the first ones by what they are worth, as far as work goes
    assert able[0] == "tight-bound"
    assert len(able) == {0.5: 1, 2.0: 3, 60.0: 4}[budget]


def test_the_clock_stops_a_runaway_and_says_so(monkeypatch):
    found = dict(walked(monkeypatch, 20.0, 60.0, "process_time"))
    assert found["tight-bound"] == ""
    assert "the clock stopped it" in found["minimax"]


def test_the_simplest_within_one_standard_error_is_told_of():
    task = task_of(table_of(1_000))
    truth = task.codes.astype(float)
    rng = np.random.default_rng(0)
    wrong = rng.permutation(1_000)

    def right_in(share):
        flipped = truth.copy()
        flipped[wrong[round(share * 1_000) :]] = 1.0 - flipped[wrong[round(share * 1_000) :]]
        return np.abs(flipped - 0.1)

    kept = judged(task, right_in(0.95))
    said = {
        name: right_in(share)
        for name, share in zip(MEMBERS, (0.9, 0.951, 0.8, 0.8, 0.96, 0.8), strict=True)
    }
    members = {name: np.column_stack([1.0 - p, p]) for name, p in said.items()}
    kept = replace(kept, members=members)
    found = compare(task, kept, budget=0.0, until=np.inf, **UNHURRIED)
    # the random forest and the extra trees are; the forest is simpler
    compared = compared_of(task, found, kept, promise_of(task, kept))
    assert as_good(compared).name == "random-forest"


# Why 6: one account of staying undecided


def test_referring_everyone_can_be_as_good_as_a_model():
    table = features(table_of(400, slope=0.5))
    model = grayzone.train(table, "y", reject_cost=0.02, **FAST)
    sentence = model.metrics["verdict"]["sentence"]
    assert sentence.startswith("Do not deploy: ")
    assert "'refer everyone'" in sentence


# Why 7: one meaning of the gray zone


@pytest.mark.parametrize("costs", ["FN=1,FP=1", "FN=20,FP=1"])
def test_the_gray_zone_is_where_costs_twice_as_large_would_decide_otherwise(costs):
    model = grayzone.train(features(table_of(600)), "y", costs=costs, **FAST)
    zone = model.metrics["gray_zone"]
    ratio = model.stakes.costs[1, 0]
    assert zone["low"] == pytest.approx(1.0 / (1.0 + 2.0 * ratio))
    assert zone["high"] == pytest.approx(1.0 / (1.0 + 0.5 * ratio))
    assert zone["factor"] == 2.0
    assert 0.0 < zone["share"] < 0.5


def test_a_range_of_costs_is_the_gray_zone():
    model = grayzone.train(features(table_of(600)), "y", costs={"bad": (3, 8), "good": 1}, **FAST)
    zone = model.metrics["gray_zone"]
    assert (zone["low"], zone["high"]) == pytest.approx((1 / 9, 1 / 4))
    assert zone["factor"] is None
    assert 0.0 < zone["share"] < 0.5


# Costs of each row


def test_costs_of_rows_come_from_a_column_that_is_learned_from_too():
    table = table_of(800)
    model = grayzone.train(table, "y", costs="FN=amount,FP=2", **FAST)
    assert "amount" in model.schema.names
    assert model.stakes.columns == (None, "amount")
    (note,) = (note for note in model.metrics["notes"] if "'amount'" in note)
    assert note == (
        "Models decide by the costs in 'amount', and learn from them, too (cost_known_after=… if "
        "they are known only after the decision)."
    )
    assert "learn from them, too" in model.report_html
    assert all(found["kind"] != "cost" for found in model.metrics["findings"])
    decided = model.decide(table)
    p = decided["probability_bad"].to_numpy()
    bad = decided["decision"] == "bad"
    assert (bad == (p >= 2.0 / (2.0 + table["amount"]))).all()
    # rules pay what their rows cost
    rules = {rule.name: rule.cost for rule in model.promise.rules}
    truth = table["y"] == "bad"
    assert rules["always good"] == pytest.approx((table["amount"] * truth).mean())
    assert rules["always bad"] == pytest.approx(2.0 * (~truth).mean())
    assert model.promise.cost < min(rules.values())
    beside = grayzone.train(table, "y", costs={"bad": "amount"}, drop=["amount"], **FAST)
    assert "amount" not in beside.schema.names
    assert [column.name for column in beside.schema.beside] == ["amount"]


def test_costs_known_only_after_the_decision_are_paid_and_not_needed():
    table = table_of(800)
    truth = table["y"] == "bad"
    asked = {"costs": "FN=amount,FP=2", "cost_known_after": ["amount"]}
    model = grayzone.train(table, "y", **asked, **FAST)
    assert "amount" not in model.schema.names
    mean = table["amount"][truth].mean()  # of errors about bad rows, which alone cost it
    assert model.threshold == pytest.approx(2.0 / (2.0 + mean))
    decided = model.decide(table.drop(columns="amount"))
    assert ((decided["decision"] == "bad") == (decided["probability_bad"] >= model.threshold)).all()
    # what rows cost is what is promised
    rules = {rule.name: rule.cost for rule in model.promise.rules}
    assert rules["always good"] == pytest.approx((table["amount"] * truth).mean())
    assert model.metrics["cost_known_after"] == ["amount"]
    assert any(
        note.startswith("Costs known only after the decision: 'amount'.")
        for note in model.metrics["notes"]
    )
    for options, match in (
        (
            {"costs": "FN=amount", "cost_known_after": ["a"]},
            "'a' is not a column of costs=…, which",
        ),
        ({"cost_known_after": ["amount"]}, "'amount' is not a column of costs=…, which names no"),
        ({**asked, "keep": ["amount"]}, "keep=… and cost_known_after=…: 'amount' cannot be both"),
    ):
        with pytest.raises(UserError, match=match):
            grayzone.train(table, "y", **options, **FAST)


@pytest.mark.parametrize("positive", ["bad", "good"])
def test_an_array_of_costs_is_in_the_order_of_the_classes(positive):
    table = features(table_of(200))
    costs = [[0.0, 7.0], [1.0, 0.0]]  # bad, good: missing a bad one costs 7
    model = grayzone.train(table, "y", costs=costs, positive=positive, **FAST)
    assert model.classes_.tolist() == ["bad", "good"]
    said = model.decide(table)
    np.testing.assert_allclose(said["expected_cost_good"], 7.0 * said["probability_bad"])
    assert (model.predict(table, costs=costs) == said["decision"]).all()
    by_name = grayzone.train(table, "y", costs={"bad": 7, "good": 1}, positive=positive, **FAST)
    np.testing.assert_array_equal(by_name.stakes.costs, model.stakes.costs)


def test_an_array_of_costs_of_numbers_is_in_their_order():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=90), "y": np.repeat([2, 10, 30], 30)})
    costs = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0], [5.0, 6.0, 0.0]])
    model = grayzone.train(table, "y", costs=costs, **FAST)
    assert model.classes_.tolist() == [2, 10, 30]
    assert model.stakes.classes == ("10", "2", "30")
    assert model.stakes.costs[0].tolist() == [0.0, 3.0, 4.0]
    assert (model.predict(table, costs=costs) == model.predict(table)).all()


def test_costs_of_three_classes_by_column_and_range():
    table = pd.DataFrame({"price": [1.0, 2.0, 3.0], "x": [0, 1, 2]})
    given = {"a": "price", "b": (2, 8), "c": 3}
    costs, reach, columns = read_costs(given, None, ("a", "b", "c"), table)
    np.testing.assert_allclose(costs, [[0, 2, 2], [4, 0, 4], [3, 3, 0]])
    assert columns == ("price", None, None)
    np.testing.assert_allclose(reach, [(1, 1), (0.5, 2), (1, 1)])
    stakes = Stakes(("a", "b", "c"), costs, 0.9, reach=reach, columns=columns)
    rows = stakes.row_costs(table)
    np.testing.assert_allclose(rows[2], [[0, 3, 3], [4, 0, 4], [3, 3, 0]])
    proba = np.random.default_rng(0).dirichlet(np.ones(3), 3)
    decided = stakes.decide(proba, rows)
    by_rule = bayes_decision(proba, rows, reject_cost=0.9)
    assert (decided == np.where(by_rule == 3, -1, by_rule)).all()
    own = np.column_stack([rows[np.arange(3), [0, 1, 2]], np.full(3, 0.9)])
    np.testing.assert_allclose(
        stakes.paid(np.array([0, 1, 2]), decided, rows), own[np.arange(3), decided]
    )
    near = near_threshold(proba, rows, reach, 0.9)
    assert (stakes.near(proba, rows) == near).all()


# Groups, times, errors


def test_groups_are_not_on_both_sides_and_errors_count_groups():
    table = features(table_of(600))
    table["who"] = np.repeat(np.arange(60), 10)
    model = grayzone.train(table, "y", group="who", **FAST)
    assert "no group on both sides" in model.promise.how
    assert "who" not in model.schema.names
    # rows of a group that are all the same are one row: the error is that of the groups
    values, groups = np.repeat(np.arange(60.0), 10), np.repeat(np.arange(60), 10)
    alone = mean_and_error(np.arange(60.0))
    assert mean_and_error(values, groups=groups) == pytest.approx(alone)


def test_later_rows_are_decided_on_by_models_of_earlier_ones():
    table = features(table_of(600))
    table["day"] = pd.date_range("2024-01-01", periods=600).strftime("%Y-%m-%d")
    model = grayzone.train(table, "y", time="day", **FAST)
    assert model.promise.rows == 300
    assert "later times" in model.promise.how


def test_a_model_that_is_fitted_alone_is_the_one_that_is_named():
    task = task_of(table_of(120))
    for name in ("logistic-regression", "tight-bound"):
        fitted = fit(task, name, 10.0)
        (member,) = fitted.pipeline[-1].members_
        assert member == name
        assert not hasattr(fitted.pipeline[-1], "cross_fitted_proba_")  # nothing of the rows
    assert decider(ENSEMBLE, task.stakes, 0).members == "auto"


# From Python


def test_train_from_python_writes_nothing_and_names_no_flags(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = []
    pl = pytest.importorskip("polars")
    table = pl.DataFrame(features(table_of(150)))
    model = grayzone.train(table, "y", progress=lambda *event: told.append(event), **FAST)
    assert not list(tmp_path.iterdir())
    stages = ("logistic-regression", "explanations")
    assert told == [(name, done, 1) for name in stages for done in (0, 1)]
    assert isinstance(model, grayzone.DecisionModel)
    assert "--" not in " ".join(model.metrics["notes"])
    assert model.report_html.startswith("<!")
    again = grayzone.train(table, "y", out="kept", **FAST)
    back = grayzone.load_model("kept")
    frame = table.to_pandas()
    assert (back.predict(frame) == model.predict(frame)).all()
    np.testing.assert_array_equal(back.predict_proba(frame), again.predict_proba(frame))


def test_errors_name_what_is_wrong():
    with pytest.raises(UserError, match="no column 'z'"):
        grayzone.train(table_of(60), "z", **FAST)
