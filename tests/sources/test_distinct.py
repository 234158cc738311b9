"""Distinct rows, folds of them, and bounds from held-out scores."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold

from grayzone.solvers.minimax.held_out import check_folds, held_out_folds, score_bounds
from grayzone.sources.distinct import _hashes, deal_folds, distinct_rows, row_groups
from grayzone.sources.labelled import label
from grayzone.sources.source import HeldSource


def repeated_rows(n=300, d=3, seed=0):
    """Rows of which many come more than once, also in the other class."""
    rng = np.random.default_rng(seed)
    return rng.integers(-2, 3, size=(n, d)) / 8.0, rng.integers(2, size=n)


def by_hand(X, codes, weight):
    """Weights by class and values, from a dictionary."""
    total = {}
    for row, code, w in zip(X.tolist(), codes.tolist(), weight.tolist(), strict=True):
        key = (code, *row)
        total[key] = total.get(key, 0.0) + w
    return total


# ------------------------------------------------------------------------------- distinct rows


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_rows_are_merged_by_value_and_class(d):
    X, codes = repeated_rows(d=d)
    weight = np.random.default_rng(1).integers(1, 9, size=300) / 4.0
    rows = distinct_rows(X, codes, weight)
    assert by_hand(*rows) == by_hand(X, codes, weight)
    assert len(rows.codes) == len(by_hand(X, codes, weight))


def test_groups_name_a_row_of_their_own():
    X, codes = repeated_rows()
    first, number = row_groups(X, codes)
    np.testing.assert_array_equal(number[first], np.arange(first.size))
    np.testing.assert_array_equal(X[first][number], X)
    np.testing.assert_array_equal(codes[first][number], codes)


def test_zeros_of_either_sign_are_the_same():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [1.0, -0.0]])
    assert distinct_rows(X, np.zeros(4, dtype=int), np.ones(4)).weight.tolist() == [2.0, 2.0]


ALMOST = {
    "last digit": ([1.0, 2.0], [np.nextafter(1.0, 2.0), 2.0]),
    "smallest number": ([0.0, 0.0], [5e-324, 0.0]),
    "sign": ([1.0, -1.0], [-1.0, 1.0]),
    "places exchanged": ([1.0, 2.0], [2.0, 1.0]),
    "a zero moved": ([0.0, 3.0], [3.0, 0.0]),
    "sums equal": ([1.0, 3.0], [2.0, 2.0]),
    "products equal": ([1.0, 4.0], [2.0, 2.0]),
    "powers of two": ([2.0, 8.0], [4.0, 4.0]),
}


@pytest.mark.parametrize("name", ALMOST)
def test_different_rows_stay_apart(name):
    X = np.array(ALMOST[name])
    assert len(distinct_rows(X, np.zeros(2, dtype=int), np.ones(2)).weight) == 2


WHOLE = {"zeros and ones": 2, "digits": 10, "bytes": 256}


@pytest.mark.parametrize("name", WHOLE)
def test_nearly_all_bits_tell_rows_of_whole_numbers_apart(name):
    # bits that are the same in all rows make equal numbers of different rows likelier than 2^-64;
    # one or two may be the same by the chance of how the numbers are mixed
    X = np.random.default_rng(0).integers(WHOLE[name], size=(1000, 40)).astype(float)
    hashes = _hashes(X, np.zeros(1000, dtype=int))
    varying = int(np.bitwise_or.reduce(hashes ^ hashes[0]))
    assert varying.bit_count() >= 60


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix])
def test_sparse_rows_are_dense_rows(form):
    X, codes = repeated_rows()
    np.testing.assert_array_equal(_hashes(form(X), codes), _hashes(X, codes))
    stored = sp.csr_array(X + 100.0)
    stored.data -= 100.0  # zeros that are stored
    np.testing.assert_array_equal(_hashes(stored, codes), _hashes(X, codes))


# ---------------------------------------------------------------------------------------- folds


@pytest.mark.parametrize("n_folds", [2, 3, 5, 10])
@pytest.mark.parametrize("counts", [(30, 30), (7, 90), (11, 12), (3, 4)])
def test_folds_are_even_in_all_and_by_class(counts, n_folds):
    codes = np.random.default_rng(0).permutation(np.repeat([0, 1], counts))
    folds = deal_folds(codes, n_folds, np.random.RandomState(0))
    for part in (codes == 0, codes == 1, codes >= 0):
        sizes = np.bincount(folds[part], minlength=n_folds)
        assert sizes.size == n_folds
        assert sizes.max() - sizes.min() <= 1


def folds_of(X, y, cv=3, weight=None, seed=0, known="X"):
    rows = label(HeldSource(X, y, weight))
    known = rows.held.X if isinstance(known, str) else known
    return held_out_folds(cv, rows, known, np.random.RandomState(seed))


@pytest.mark.parametrize("cv", [2, 3, 5])
def test_each_row_is_held_out_once(cv):
    X, y = repeated_rows()
    folds = folds_of(X, y, cv)
    assert len(folds) == cv
    np.testing.assert_array_equal(np.sort(np.concatenate([out for _, out in folds])), range(300))
    for train, out in folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, out])), range(300))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_copies_stay_together(form, seed):
    X, y = repeated_rows(d=2)
    for train, out in folds_of(form(X), y, 4, seed=seed):
        seen = {(code, *row) for code, row in zip(y[train], X[train].tolist(), strict=True)}
        assert not any((y[i], *X[i].tolist()) in seen for i in out)


def test_folds_belong_to_values_not_to_places():
    X, y = repeated_rows(100, d=5)
    folds = folds_of(X, y)
    order = np.random.default_rng(1).permutation(100)
    for (_, out), (_, moved) in zip(folds, folds_of(X[order], y[order]), strict=True):
        np.testing.assert_array_equal(np.sort(order[moved]), out)
    # nor to weights, nor to repetitions
    times = 1 + np.arange(100) % 3
    again = folds_of(np.repeat(X, times, axis=0), np.repeat(y, times))
    places = np.repeat(np.arange(100), times)
    for (_, out), (_, moved) in zip(folds, again, strict=True):
        np.testing.assert_array_equal(np.unique(places[moved]), out)


def test_rows_without_weight_are_not_there():
    X, y = repeated_rows(100, d=5)
    weight = (np.arange(100) % 4 > 0).astype(float)
    used = np.flatnonzero(weight)
    for pair, alone in zip(folds_of(X, y, weight=weight), folds_of(X[used], y[used]), strict=True):
        for one, other in zip(pair, alone, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("fewest", "asked", "made"),
    [(2, 3, 0), (3, 2, 0), (3, 3, 3), (3, 10, 3), (4, 3, 3), (4, 2, 2), (5, 5, 5), (6, 10, 6)],
)
def test_training_parts_keep_two_rows_of_each_class(fewest, asked, made):
    X = np.arange(fewest + 20.0)[:, None]
    y = (np.arange(fewest + 20) < fewest).astype(int)
    folds = folds_of(X, y, asked)
    assert len(folds) == made
    for train, _ in folds:
        assert np.bincount(y[train]).min() >= 2
    # copies are no further rows
    assert len(folds_of(np.repeat(X, 2, axis=0), np.repeat(y, 2), asked)) == made


def test_no_folds():
    assert folds_of(*repeated_rows(), cv=None) == []


GIVEN = {
    "KFold": lambda: KFold(4, shuffle=True, random_state=0),
    "StratifiedKFold": lambda: StratifiedKFold(4),
    "ShuffleSplit": lambda: ShuffleSplit(2, random_state=0),
    "list": lambda: list(KFold(3).split(np.zeros(300))),
    "generator": lambda: KFold(3).split(np.zeros(300)),
    "lists of numbers": lambda: [(list(range(0, 300, 2)), list(range(1, 300, 2)))],
    "masks": lambda: [(np.arange(300) < 200, np.arange(300) >= 200)],
}


@pytest.mark.parametrize("name", GIVEN)
def test_given_folds_are_used_as_they_are(name):
    X, y = repeated_rows()
    expected = GIVEN[name]()
    if hasattr(expected, "split"):
        expected = expected.split(X, y)
    folds = folds_of(X, y, GIVEN[name]())
    for pair, given in zip(folds, expected, strict=True):
        for one, other in zip(pair, given, strict=True):
            np.testing.assert_array_equal(one, np.arange(300)[np.asarray(other)])


def test_given_folds_without_rows_of_weight_zero():
    X, y = repeated_rows()
    weight = np.ones(300)
    weight[::3] = 0.0
    used = np.flatnonzero(weight)
    for (train, out), given in zip(
        folds_of(X, y, KFold(3), weight), KFold(3).split(X), strict=True
    ):
        np.testing.assert_array_equal(used[train], np.setdiff1d(given[0], np.arange(0, 300, 3)))
        np.testing.assert_array_equal(used[out], np.setdiff1d(given[1], np.arange(0, 300, 3)))


def test_given_folds_that_cannot_be_fitted():
    X, y = repeated_rows(30)
    one = np.flatnonzero(y == 1)
    with pytest.raises(ValueError, match="less than two training rows of a class"):
        folds_of(X, y, [(np.setdiff1d(np.arange(30), one[1:]), one[1:])])


@pytest.mark.parametrize("cv", [0, 1, -3, 2.5, np.nan, np.inf])
def test_numbers_of_folds_that_make_no_sense(cv):
    with pytest.raises(ValueError, match="cv must be an integer >= 2"):
        check_folds(cv)


# --------------------------------------------------------------------------------------- bounds


def test_bounds_are_those_of_cantelli():
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=100)
    scores = np.where(codes == 1, 1.0, -0.7) + rng.normal(size=100)
    weight = rng.uniform(0.1, 3.0, size=100)
    for code, found in enumerate(score_bounds(scores, codes, weight)):
        own, w = scores[codes == code], weight[codes == code]
        mean = np.sum(w * own) / np.sum(w)
        variance = np.sum(w * own**2) / np.sum(w) - mean**2
        # the share on the wrong side of a threshold at a distance of |mean|
        assert found == pytest.approx(1.0 - variance / (variance + mean**2), rel=1e-12)


def test_bounds_of_extremes():
    codes = np.array([0, 0, 1, 1])
    # no variance, on the right and on the wrong side; a mean on the wrong side; on the threshold
    assert score_bounds(np.array([-1.0, -1.0, 2.0, 2.0]), codes, np.ones(4)) == (1.0, 1.0)
    assert score_bounds(np.array([1.0, 1.0, -2.0, -2.0]), codes, np.ones(4)) == (0.0, 0.0)
    assert score_bounds(np.array([5.0, -1.0, -3.0, 1.0]), codes, np.ones(4)) == (0.0, 0.0)
    assert score_bounds(np.zeros(4), codes, np.ones(4)) == (0.0, 0.0)
    assert score_bounds(np.array([-1e-200, 0.0, 1e200, 1e200]), codes, np.ones(4))[1] == 1.0
