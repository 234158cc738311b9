"""The benchmark behind docs/moving: what it measures is what it says."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from benchmarks.data import Split
from benchmarks.peers import moving
from benchmarks.peers import moving_contenders as ways
from grayzone import TruncatedLogisticRegression
from grayzone.metrics import expected_cost


@pytest.fixture(scope="module")
def split():
    X, y = make_classification(240, 6, weights=[0.7], flip_y=0.1, random_state=0)
    return Split(X[:120], y[:120], X[120:], y[120:])


@pytest.mark.parametrize("costs", [{0: 1.0, 1: 1.0}, {0: 1.0, 1: 5.0}, {0: 3.0, 1: 0.5}])
def test_costs_are_relative_to_the_better_constant_decision(costs):
    y, decided = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, 1, 0])
    constant = min(expected_cost(y, np.full(5, k), costs=costs) for k in (0, 1))
    wanted = expected_cost(y, decided, costs=costs) / constant
    assert moving.relative_cost(decided, costs, y) == pytest.approx(wanted)


def test_ratios_are_costs_of_a_miss_and_a_false_alarm():
    y = np.array([0, 0, 0, 1])
    assert moving.costs_of("5:1", y) == {0: 1.0, 1: 5.0}
    assert moving.costs_of("balanced", y) == {0: 0.25, 1: 0.75}  # the threshold is the share, 1/4


@pytest.mark.parametrize("costs", [{0: 1.0, 1: 5.0}, {0: 2.0, 1: 1.0}, {0: 1.0, 1: 1.0}])
@pytest.mark.parametrize("counts_for", [ways.oversampled_counts, ways.undersampled_counts])
def test_resampled_to_the_costs_one_half_is_their_threshold(counts_for, costs):
    counts = np.array([700, 300])
    asked = counts_for(counts, costs)
    # a row of probability p has the odds p/(1-p) · (new ratio / old ratio) afterwards
    ratio = (asked[1] / asked[0]) / (counts[1] / counts[0])
    threshold = costs[0] / (costs[0] + costs[1])
    assert threshold / (1 - threshold) * ratio == pytest.approx(1.0, rel=0.02)
    more = [asked[k] - counts[k] for k in (0, 1)]
    assert (min(more) >= 0) if counts_for is ways.oversampled_counts else (max(more) <= 0)


def test_a_limit_that_is_broken_is_worse_than_no_recall():
    y = np.array([0] * 10 + [1] * 4)
    kept = np.array([1] + [0] * 9 + [1, 1, 1, 0])
    broken = np.array([1, 1] + [0] * 8 + [1, 1, 1, 1])
    assert ways.recall_within_limit(y, kept) == 0.75
    assert ways.recall_within_limit(y, broken) < 0.0
    assert ways.recall_within_limit(y, np.ones(14)) < ways.recall_within_limit(y, broken)


def test_rows_of_a_model_are_those_that_a_prediction_visits(split):
    X, y = split.X_train, split.y_train
    machine = SVC().fit(X, y)
    assert moving.rows_in_model(machine) == machine.n_support_.sum()
    folds = ways.kernel_contenders(1.0)["CalibratedClassifierCV(SVC())"].make({}).fit(X, y)
    each = [one.estimator.n_support_.sum() for one in folds.calibrated_classifiers_]
    assert len(each) == 5
    assert moving.rows_in_model(folds) == sum(each)
    ours = TruncatedLogisticRegression(kernel="rbf").fit(X, y)
    assert moving.rows_in_model(ours) == len(ours.dual_coef_.T)
    assert np.isnan(moving.rows_in_model(LogisticRegression().fit(X, y)))


def test_bayes_rule_decides_where_there_are_probabilities(split):
    found = moving.try_contender(ways.linear_contenders()[ways.PLAIN], split, ("1:1", "5:1"))
    model = LogisticRegression(max_iter=2_000).fit(split.X_train, split.y_train)
    p = model.predict_proba(split.X_test)[:, 1]
    for ratio, threshold in (("1:1", 1 / 2), ("5:1", 1 / 6)):
        costs = moving.costs_of(ratio, split.y_train)
        wanted = moving.relative_cost(p >= threshold, costs, split.y_test)
        assert found[ratio]["cost"] == pytest.approx(wanted)
    assert found["1:1"]["fit"] == found["5:1"]["fit"]  # one model for both
    own = moving.try_contender(ways.linear_contenders()[ways.BAYES], split, ("1:1", "5:1"))
    assert [own[r]["cost"] for r in own] == [found[r]["cost"] for r in found]
    assert own["1:1"]["fit"] != own["5:1"]["fit"]


def test_differences_are_paired_and_count_sets():
    def runs(shift):
        noise = np.random.default_rng(0).normal(size=4)
        return {
            "better": [
                {"a": {"1:1": {"cost": x - shift}}, "b": {"1:1": {"cost": x}}} for x in noise
            ],
            "even": [
                {"a": {"1:1": {"cost": x + (-1) ** k}}, "b": {"1:1": {"cost": x}}}
                for k, x in enumerate(noise)
            ],
        }

    gap = moving.beside(runs(2.0), "a", "b", "1:1", "cost")
    assert gap["mean"] == pytest.approx(-1.0)
    assert (gap["less"], gap["more"]) == (1, 0)
    assert moving.told(gap) == "-1.00 ± 1.00 (1 / 1 / 0)"
    assert moving.told(gap, higher=True) == "-1.00 ± 1.00 (0 / 1 / 1)"
    assert moving.told(moving.beside(runs(2.0), "c", "b", "1:1", "cost")) == "–"


def without_calibration(*penalties):
    found = ways.kernel_contenders(*penalties)
    return {name: one for name, one in found.items() if "Calibrated" not in name}


def test_a_run_on_one_set_writes_its_tables(split, monkeypatch, tmp_path):
    monkeypatch.setattr(moving, "divide", lambda name, seed: split)
    monkeypatch.setattr(moving, "warm_up", lambda: None)
    monkeypatch.setattr(moving, "CS", (1.0,))
    few = {name: ways.linear_contenders()[name] for name in (ways.PLAIN, ways.BAYES)}
    monkeypatch.setattr(moving, "linear_contenders", lambda: few)
    monkeypatch.setattr(moving, "kernel_contenders", without_calibration)
    monkeypatch.setattr(moving, "limit_contenders", lambda: {"model": ways.logistic})
    target = tmp_path / "moving.json"
    assert (
        moving.main(["--sets", "sonar;wine, class 1", "--splits", "2", "--output", str(target)])
        == 0
    )
    report = json.loads(target.read_text("utf-8"))["report"]
    titles = [table["title"] for table in report["tables"]]
    for start in ("Kernels, C = 1: means", "Kernels, C by", "Linear models", "Limits"):
        assert any(title.startswith(start) for title in titles), start
    assert len(report["verdicts"]) == 8
    assert report["measures"]


def test_what_cannot_be_run_is_said(capsys):
    for arguments in (["--splits", "1"], ["--sets", "nothing"]):
        with pytest.raises(SystemExit):
            moving.main(arguments)
    said = capsys.readouterr().err
    assert "at least 2" in said
    assert "nothing" in said
