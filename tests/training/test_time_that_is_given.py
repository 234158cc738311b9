"""Seconds that a training is given: of work, whatever else the machine does, and of the day."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_info

pytest.importorskip("skops")

import grayzone
from grayzone import DecisionEnsembleClassifier
from grayzone.cli import _app, main
from grayzone.estimators import _answering, _members, _work, decision_ensemble
from grayzone.estimators._members import MEMBERS, Size
from grayzone.numerics import pace
from grayzone.tables.errors import UserError
from grayzone.training.candidates import FAMILIES

# Processor seconds of the six members, in their order, on the machine that prices are of.
MEASURED = {
    "german credit": ((1_000, (61, 20, 61, 20, 20, 97)), (0.08, 0.3, 0.5, 0.2, 0.27, 0.08)),
    "8,000 × 30": ((8_000, (30, 30, 30, 30, 30, 210)), (0.22, 4.5, 5.7, 3.0, 0.88, 1.3)),
    "50,000 × 20": ((50_000, (20, 20, 20, 20, 20, 140)), (0.77, 22.0, 10.0, 4.6, 2.9, 4.5)),
    "2,000 × 100": ((2_000, (100, 100, 100, 100, 100, 700)), (0.24, 2.2, 1.4, 0.74, 0.57, 0.7)),
}
# The same of families, of all that the comparison makes of them.
FAMILIES_MEASURED = {
    (1_000, 61): (0.33, 1.31, 1.1, 5.0),
    (3_000, 20): (0.33, 1.22, 2.02, 5.6),
    (5_000, 30): (0.36, 1.16, 2.64, 6.16),
}


class Clocks:
    """The time of the day and of the process, moved by hand."""

    def __init__(self, monkeypatch):
        self.day = self.work = 0.0
        known = SimpleNamespace(monotonic=lambda: self.day, process_time=lambda: self.work)
        pace.slowness()  # measured once, by the real one
        for module in (_members, pace):
            monkeypatch.setattr(module, "time", known)

    def model(self, day, work):
        """A classifier whose fits take so long; it counts them."""
        clocks = self

        class Slow(GaussianNB):
            fits = 0

            def fit(self, X, y, sample_weight=None):
                type(self).fits += 1
                clocks.day, clocks.work = clocks.day + day, clocks.work + work
                return super().fit(X, y, sample_weight)

        return Slow()


def rows(n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + rng.logistic(size=n) > 0).astype(int)


def table():
    X, y = rows(240)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=np.where(y, "bad", "good"))


def sizes(case):
    (n_rows, widths), _ = MEASURED[case]
    return [
        (member, Size(n_rows, n_rows, width, 2, 5, True))
        for member, width in zip(MEMBERS.values(), widths, strict=True)
    ]


@pytest.mark.parametrize("case", MEASURED)
def test_prices_are_those_that_were_measured(case):
    """Data decide, too, what work takes: a factor of two."""
    for (member, size), seconds in zip(sizes(case), MEASURED[case][1], strict=True):
        learnt = replace(size, n_rows=min(size.n_rows, member.most_rows))
        assert 0.5 < member.work(learnt) / seconds < 2.0, member.name


def test_prices_of_families_are_those_that_were_measured():
    for (n_rows, n_features), measured in FAMILIES_MEASURED.items():
        for (name, family), seconds in zip(FAMILIES.items(), measured, strict=True):
            assert 0.5 < 6 * family.seconds(n_rows, n_features, 2) / seconds < 2.0, name


def test_what_there_is_room_for_is_not_left_out(monkeypatch):
    monkeypatch.setattr(_work, "slowness", lambda: 1.0)
    # of 20 s that German credit is given, 2 s are for the copy that is explained: of seven tenths
    copied = [
        (member, replace(size, n_rows=700, n_scored=700, n_folds=2))
        for member, size in sizes("german credit")
    ]
    assert not _work.plan(copied, 2.0).left_out
    # what has no room leaves it to those after it
    planned = _work.plan(sizes("8,000 × 30"), 5.0)
    assert list(planned.left_out) == ["boosting"]
    assert sum(planned.work) <= _work.PLANNED * 5.0
    # a sample is weighted, for which scikit-learn takes long: all rows are less work
    (boosting,) = (m for m in _work.plan(sizes("8,000 × 30"), 40.0).members if m.name == "boosting")
    assert boosting.most_rows >= 8_000
    # half as fast a machine has room for half as much
    monkeypatch.setattr(_work, "slowness", lambda: 2.0)
    slow = _work.plan(sizes("8,000 × 30"), 10.0)
    assert [member.most_rows for member in slow.members] == [
        member.most_rows for member in planned.members
    ]


def test_noise_of_the_calibration_changes_nothing():
    """The quickest of many probes varies by a few percent, and steps are a factor of two apart."""
    for step in (0.5, 1.0, 2.0, 4.0):
        assert {pace.step_of(step * noise) for noise in (0.75, 0.9, 1.0, 1.1, 1.35)} == {step}


def test_the_same_seed_gives_the_same_model_under_another_load(monkeypatch):
    X, y = rows()
    said = []
    for day, work in ((0.1, 0.1), (500.0, 0.2)):  # quiet; hardly anything is left of the machine
        clocks = Clocks(monkeypatch)
        members = [GaussianNB(), ("slow", clocks.model(day, work))]
        model = DecisionEnsembleClassifier(members, budget=1.0, cv=5).fit(X, y)
        assert list(model.members_) == ["gaussiannb", "slow"]
        said.append(model.predict_proba(X))
    np.testing.assert_array_equal(*said)


def test_members_are_stacked_on_one_thread(monkeypatch):
    """On a busy machine threads of BLAS wait for each other in each of thousands of products."""
    X, y = rows()
    found = []

    def stacked(*given):
        found.extend(pool["num_threads"] for pool in threadpool_info())
        return _answering.stacked(*given)

    monkeypatch.setattr(decision_ensemble, "stacked", stacked)
    DecisionEnsembleClassifier([GaussianNB()], cv=2).fit(X, y)
    assert set(found) == {1}


def test_a_member_is_stopped_between_its_fits_and_the_first_one_is_not(monkeypatch):
    X, y = rows()
    clocks = Clocks(monkeypatch)
    first, second, third = (clocks.model(10.0, 10.0) for _ in range(3))
    members = [("first", first), ("second", second), ("third", third)]
    model = DecisionEnsembleClassifier(members, stop_after=75.0, cv=5).fit(X, y)
    # six fits each: of all but one fold in turn, and of all rows
    assert (type(first).fits, type(second).fits, type(third).fits) == (6, 2, 0)
    assert list(model.members_) == ["first"]
    assert model.left_out_ == dict.fromkeys(("second", "third"), pace.STOPPED)


def test_nothing_is_begun_that_would_not_end_in_time(monkeypatch):
    clocks = Clocks(monkeypatch)
    deadline = pace.Deadline(100.0)
    clocks.day, clocks.work = 40.0, 10.0  # four seconds of the day for one of work
    assert deadline.allows(14.0)
    assert not deadline.allows(16.0)
    assert not deadline.allows(4.0, share=0.5)
    assert deadline.left(0.5) == 10.0
    assert deadline.over(0.4)
    assert not deadline.over(0.5)


def test_a_training_that_is_stopped_keeps_the_best_so_far_and_says_what_is_missing(tmp_path):
    with pytest.raises(UserError, match="stop_after=… must be positive; got 0"):
        grayzone.train(table(), "y", stop_after=0)
    model = grayzone.train(table(), "y", stop_after=1e-3, out=tmp_path / "kept")
    ensemble = model.estimator[-1]
    assert list(ensemble.members_) == ["logistic-regression"]
    assert ensemble.stop_after is None  # it is of that day, not of the model
    (note,) = (note for note in model.metrics["notes"] if "stop_after=" in note)
    assert note.startswith("stop_after=0.001 left no time for the importance of 'b', 'c'")
    assert "the same seed may give another model" in note
    assert len(model.metrics["importance"]) == 1
    assert (grayzone.load_model(tmp_path / "kept").predict(table()) == model.predict(table())).all()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_pipe_is_told_what_is_being_done(as_json, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_app, "_EVERY", 0.01)
    path = tmp_path / "table.csv"
    table().to_csv(path, index=False)
    asked = [str(path), "--target", "y", "--model", "logistic-regression"]
    asked += ["--out", str(tmp_path / "out")]
    assert main(["train", *asked, *(["--json"] if as_json else [])]) == 0
    said = capsys.readouterr().err
    for line in ("at work: logistic-regression (", "done: logistic-regression (", "at work: exp"):
        assert (line in said) is not as_json
    assert "\r" not in said
