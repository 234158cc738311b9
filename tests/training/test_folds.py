"""Folds that all models share: stratified, by groups, out of time."""

import numpy as np
import pytest

pytest.importorskip("pandas")

from grayzone.tables.errors import UserError
from grayzone.training.folds import FIRST_PART, folds_of

RNG = np.random.default_rng(0)
CODES = (RNG.random(400) < 0.15).astype(int)


def shares(folds, codes=CODES):
    return np.array([codes[test].mean() for _, test in folds])


def check(folds):
    tested = np.concatenate([test for _, test in folds])
    assert len(np.unique(tested)) == len(tested)
    for train, test in folds:
        assert len(np.intersect1d(train, test)) == 0
        assert len(test) > 0
        assert np.all(np.diff(train) > 0)
        assert np.all(np.diff(test) > 0)
    return tested


def test_without_roles_classes_are_shared_out_evenly():
    folds = folds_of(CODES, 5, 0)
    assert sorted(check(folds)) == list(range(400))
    assert np.ptp(shares(folds)) <= 0.02
    again, other = folds_of(CODES, 5, 0), folds_of(CODES, 5, 1)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(folds, again, strict=True))
    assert not np.array_equal(folds[0][1], other[0][1])


@pytest.mark.parametrize("n_groups", [2, 3, 7, 60, 400])
def test_no_group_is_on_both_sides(n_groups):
    groups = np.random.default_rng(1).permutation(np.arange(400) % n_groups)
    folds = folds_of(CODES, 5, 0, groups=groups)
    assert len(folds) == min(5, n_groups)
    assert sorted(check(folds)) == list(range(400))
    for train, test in folds:
        assert not set(groups[train]) & set(groups[test])
    if n_groups >= 60:
        assert np.ptp(shares(folds)) < 0.06  # as like in classes as groups allow


@pytest.mark.parametrize("kind", ["numbers", "dates"])
def test_later_rows_are_decided_by_models_of_earlier_ones(kind):
    order = np.random.default_rng(2).permutation(400)
    time = order // 4  # four rows of each moment
    if kind == "dates":
        time = np.datetime64("2020-01-01", "ns") + time.astype("timedelta64[D]")
    folds = folds_of(CODES, 5, 0, time=time)
    tested = check(folds)
    assert len(folds) == 5
    assert len(tested) == (1 - FIRST_PART) * 400
    for train, test in folds:
        assert time[train].max() < time[test].min()
        # all that is earlier is learned from
        assert len(train) == (time < time[test].min()).sum()
    ends = [time[test].max() for _, test in folds]
    assert ends == sorted(ends)
    assert ends[-1] == time.max()


def test_groups_within_time_are_not_learned_from_and_decided_on():
    groups = np.random.default_rng(3).integers(0, 80, 400)
    time = np.arange(400)
    for train, test in folds_of(CODES, 4, 0, groups=groups, time=time):
        assert train.max() < test.min()
        assert not set(groups[train]) & set(groups[test])


def test_few_moments_make_few_folds():
    time = np.repeat([0, 1, 2], [100, 200, 100])
    folds = folds_of(CODES, 5, 0, time=time)
    assert [len(test) for _, test in folds] == [100]
    late = np.repeat([0, 1], [100, 300])  # more than half of the rows at the last moment
    ((train, test),) = folds_of(CODES, 5, 0, time=late)
    assert (len(train), len(test)) == (100, 300)


LATE = np.r_[np.zeros(300, dtype=int), np.tile([0, 1], 50)]


@pytest.mark.parametrize(
    ("roles", "codes", "match"),
    [
        ({"groups": np.zeros(400)}, CODES, "group=…: all rows are of one group"),
        ({"time": np.zeros(400)}, CODES, "time=…: all rows are of one moment"),
        ({"groups": CODES}, CODES, "group=…: the 2 groups cannot be shared .*class 'no' has 0"),
        ({"time": np.arange(400)}, LATE, "time=…: among the rows before 200 class 'yes' has 0"),
        (
            {"time": np.arange(400), "groups": np.zeros(400)},
            CODES,
            "rows of groups that are decided on are left out",
        ),
    ],
)
def test_what_cannot_be_is_said(roles, codes, match):
    with pytest.raises(UserError, match=match):
        folds_of(codes, 5, 0, **roles, classes=("no", "yes"))
