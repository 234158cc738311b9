"""The sparse minimax machine on rows that are reached by sums.

What it has to find is known: the model of the same rows as NumPy arrays, which other files hold
against the formulas, where its sample is all rows; and where that is a part of them, the moments of
the scores of all rows.
"""

import pickle
import warnings

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from recording import Recording

from grayzone import SparseMinimaxProbabilityMachine
from grayzone.arrays import to_numpy
from grayzone.numerics.checks import as_numpy
from grayzone.solvers.minimax import readings
from grayzone.solvers.minimax.aims import Aim
from grayzone.solvers.minimax.basis import Family
from grayzone.solvers.minimax.greedy import Greedy, Search
from grayzone.solvers.truncated import streamed
from grayzone.sources import Block, Source, from_batches
from grayzone.sources.distinct import dealt_by_value
from grayzone.sources.labelled import label

torch = pytest.importorskip("torch")

LIBRARIES = {
    "NumPy": np.asarray,
    "CSR": sp.csr_array,
    "torch": torch.asarray,
}
N = 240
KNOWN = ("bases_", "gammas_", "dual_coef_", "intercept_", "class_bounds_", "feature_weights_")
ALONG = ("accuracy_bound_", "bound_path_", "held_out_bound_", "held_out_path_", "n_iter_")


@pytest.fixture(autouse=True)
def hold_nothing(monkeypatch):
    """Let no fit bring all rows together, as it does with so few."""
    monkeypatch.setattr(streamed, "MOST_HELD", 0)


def hold_sample(monkeypatch, n_rows, n_features=3):
    """Let candidates be looked for among about so many rows."""
    monkeypatch.setattr(readings, "SAMPLE", n_rows * n_features)
    monkeypatch.setattr(readings, "_LEAST_ROWS", 2)


class Listed(Source):
    """Blocks of rows in any library; tasks and sums travel as bytes, and readings are counted."""

    def __init__(self, X, y, weight=None, n_blocks=4, library="NumPy"):
        self.n_features = X.shape[1]
        self.n_readings = 0
        self._data, self._make = (X, y, weight), LIBRARIES[library]
        self._cuts = np.array_split(np.arange(X.shape[0]), n_blocks)
        self._plain = np.asarray if library == "CSR" else self._make

    def blocks(self):
        X, y, weight = self._data
        for rows in self._cuts:
            own = None if weight is None else self._plain(weight[rows])
            yield Block(self._make(X[rows]), self._plain(y[rows]), own, int(rows[0]))

    def like(self):
        return self._plain(np.empty(0))

    def reduce(self, task):
        self.n_readings += 1
        return super().reduce(pickle.loads(pickle.dumps(task)))


def data(n=N, n_classes=2, seed=0):
    """Rows, some entries of them zero, labels and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * (rng.random(size=(n, 3)) < 0.9)
    score = 0.5 * X[:, 0] * X[:, 1] + 1.5 * X[:, 0] + 0.3 * rng.normal(size=n)
    y = np.searchsorted([0.1] if n_classes == 2 else [-0.3, 0.6], score)
    return X, y, np.where(rng.random(n) < 0.1, 0.0, rng.uniform(0.5, 2.0, size=n))


def machine(**parameters):
    """A machine without folds, unless they are asked for."""
    plain = {"n_bases": 4, "random_state": 0}
    if "cv" not in parameters:
        plain |= {"cv": None, "stopping": None}
    return SparseMinimaxProbabilityMachine(**plain | parameters)


def distance(X, v):
    """A basis function of its own."""
    return np.sqrt(1.0 + np.sum((X - v) ** 2, axis=1))


def assert_same(found, expected, rtol=1e-8):
    """Check that two models are the same to within rounding errors."""
    found = to_numpy(found)
    for name in (*KNOWN, *ALONG):
        assert hasattr(found, name) == hasattr(expected, name), name
        if hasattr(expected, name):
            values, known = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
            assert values.shape == known.shape, name
            size = np.max(np.abs(known), initial=0.0, where=np.isfinite(known))
            np.testing.assert_allclose(values, known, rtol=0, atol=rtol * size, err_msg=name)


# ------------------------------------------------------------------------------------------
# The same model
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["NumPy", "CSR"])
def test_a_basis_of_ones_own_takes_blocks_of_numpy(library):
    X, y, weight = data()
    found = machine(basis=distance).fit(Listed(X, y, weight, library=library))
    assert_same(found, machine(basis=distance).fit(X, y, weight))


def folds_by_value(y, X, n_folds, seed=0):
    """Folds of a stream, as lists of rows."""
    rng = np.random.RandomState(seed)
    rng.randint(2**31 - 1)  # draws candidates
    folds = dealt_by_value(X, y, n_folds, int(rng.randint(2**31 - 1)))
    return [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(n_folds)]


HELD_OUT = {
    "two classes": ({}, 2),
    "no stopping": ({"stopping": None}, 2),
    "costs": ({"costs": {0: 1.5, 1: 1.0}, "moment_error": 0.1}, 2),
    "a required bound": ({"required_bound": {0: 0.5}}, 2),
    "three classes": ({"n_bases": 3, "gamma": "width"}, 3),
}


@pytest.mark.parametrize("library", ["NumPy", "CSR", "torch"])
@pytest.mark.parametrize("name", HELD_OUT)
def test_held_out_bounds_are_those_of_the_same_folds_in_memory(name, library):
    parameters, n_classes = HELD_OUT[name]
    X, y, weight = data(n_classes=n_classes)
    found = machine(cv=3, **parameters).fit(Listed(X, y, weight, library=library))
    folds = folds_by_value(y, X, 3)
    assert_same(found, machine(cv=folds, **parameters).fit(X, y, weight))


def test_features_that_are_far_from_zero():
    X, y, _ = data()
    X = X + np.array([1e5, -1e6, 0.0])
    expected = machine(n_bases=3).fit(X, y)
    for library in ("NumPy", "CSR"):
        found = machine(n_bases=3).fit(Listed(X, y, library=library))
        # coordinates of 1e6 have errors of 1e-10 of their deviations
        assert_same(found, expected, rtol=1e-6)


def test_few_rows_are_brought_here_and_read_twice(monkeypatch):
    monkeypatch.setattr(streamed, "MOST_HELD", 3 * N)
    X, y, weight = data()
    source = Listed(X, y, weight)
    found, expected = machine(cv=3).fit(source), machine(cv=3).fit(X, y, weight)
    assert source.n_readings == 2
    for name in (*KNOWN, *ALONG):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)


# ------------------------------------------------------------------------------------------
# A sample of the rows
# ------------------------------------------------------------------------------------------


def bound_by_hand(scores, y, weight):
    """Difference of the means of scores, and the bound that their moments give each class."""
    means, bounds = [], []
    for code, sign in ((0, -1.0), (1, 1.0)):
        own, w = scores[y == code], weight[y == code]
        means.append(np.average(own, weights=w))
        kappa = sign * means[-1] / np.sqrt(np.average((own - means[-1]) ** 2, weights=w))
        bounds.append(kappa**2 / (1.0 + kappa**2))
    return means[1] - means[0], np.array(bounds)


@pytest.mark.parametrize("parameters", [{}, {"costs": {0: 1.0, 1: 1.5}}, {"basis": "tanh"}])
def test_the_bound_is_that_of_all_rows(parameters, monkeypatch):
    hold_sample(monkeypatch, 150)
    X, y, weight = data(3000)
    found = machine(n_bases=6, **parameters).fit(Listed(X, y, weight))
    apart, bounds = bound_by_hand(found.decision_function(X), y, weight)
    assert apart == pytest.approx(1.0, rel=1e-9)
    np.testing.assert_allclose(found.class_bounds_, bounds, rtol=1e-7)
    assert np.all(np.diff(found.bound_path_) >= 0.0) or "costs" in parameters
    # a sample would have told something else
    _, of_sample = bound_by_hand(found.decision_function(X[:150]), y[:150], weight[:150])
    assert np.max(np.abs(of_sample - bounds)) > 1e-3


def test_the_held_out_bound_is_that_of_all_rows_that_were_not_seen(monkeypatch):
    hold_sample(monkeypatch, 200)
    X, y, weight = data(2000)
    looked = readings.Readings(label(Listed(X, y, weight)), n_folds=2, seed=5)
    parts = [readings.Part(0), readings.Part(1)]

    def make(rows, whole):
        return Greedy(Family("gaussian"), rows, Search(), Aim(), 0, whole)

    machines = [looked.machine(part, make) for part in parts]
    (along,) = looked.held_out(parts, machines, 3)
    folds, scores = dealt_by_value(X, y, 2, seed=5), np.empty(len(y))
    for k, greedy in enumerate(machines):
        known = np.array(greedy.centres), np.array(greedy.gammas)
        own = greedy.family.matrix(X[folds == k], *known) @ greedy.coefs + greedy.intercept
        scores[folds == k] = own
    _, bounds = bound_by_hand(scores, y, weight)
    np.testing.assert_allclose(along[-1], bounds, rtol=1e-8)
    assert len(along) == 3


def test_candidates_of_a_sample_do_nearly_as_well(monkeypatch):
    hold_sample(monkeypatch, 300)
    X, y, weight = data(3000)
    bounds = [
        machine(n_bases=6, random_state=seed).fit(*given).accuracy_bound_
        for seed in range(6)
        for given in ((Listed(X, y, weight),), (X, y, weight))
    ]
    some, everyone = np.mean(bounds[::2]), np.mean(bounds[1::2])
    assert some > 0.9 * everyone


def test_a_class_of_which_no_row_is_drawn_at_first(monkeypatch):
    hold_sample(monkeypatch, 60)
    X, _, weight = data(600)
    order = np.arange(600) * 2_654_435_769 % 2**32 / 2**32  # rows are drawn from the lowest on
    y = (order > 0.7).astype(int)
    source = Listed(X, y, weight)
    found = machine(n_bases=2).fit(source)
    assert source.n_readings > 3 + found.n_iter_
    _, bounds = bound_by_hand(found.decision_function(X), y, weight)
    np.testing.assert_allclose(found.class_bounds_, bounds, rtol=1e-6)


@pytest.mark.parametrize("n_blocks", [1, 3, 17])
def test_the_model_is_the_same_however_rows_are_cut(n_blocks, monkeypatch):
    hold_sample(monkeypatch, 100)
    X, y, weight = data(600)
    expected = machine(cv=3).fit(Listed(X, y, weight))
    assert_same(machine(cv=3).fit(Listed(X, y, weight, n_blocks=n_blocks)), expected)
    monkeypatch.setattr(readings, "_AT_A_TIME", 200)
    assert_same(machine(cv=3).fit(Listed(X, y, weight, n_blocks=n_blocks)), expected)


def test_rows_are_read_once_for_each_basis():
    X, y, weight = data()
    source = Listed(X, y, weight)
    found = machine(n_bases=5).fit(source)
    # classes, a sample, features; then the candidates of each basis
    assert source.n_readings == 3 + found.n_iter_ == 8
    source = Listed(*data(n_classes=3))
    machine(n_bases=2).fit(source)
    assert source.n_readings == 3 + 2
    source = Listed(X, y, weight)
    found = machine(n_bases=5, cv=3).fit(source)
    assert source.n_readings == 3 + (5 + 1) + found.n_iter_


@pytest.mark.parametrize("cv", [None, 3])
def test_a_callback_is_told_of_each_basis_and_may_stop(cv):
    X, y, weight = data()
    recording, source = Recording("basis", stop_at=2), Listed(X, y, weight)
    model = machine(cv=cv, stopping=None)
    model.set_callbacks(recording).fit(source)
    assert [facts["accuracy_bound"] for facts in recording.facts] == model.bound_path_.tolist()
    assert model.n_iter_ == 2
    # none is read for what will not come
    assert source.n_readings == 3 + (0 if cv is None else 5) + 2


# ------------------------------------------------------------------------------------------
# Folds by values
# ------------------------------------------------------------------------------------------


def test_folds_by_value_are_the_same_everywhere():
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, size=(500, 3)).astype(np.float32)
    X[X == 0.0] *= rng.choice([-1.0, 1.0], size=np.count_nonzero(X == 0.0))
    codes = rng.integers(2, size=500)
    folds = dealt_by_value(X.astype(np.float64), codes, 5, seed=7)
    for make in (np.asarray, sp.csr_array, torch.asarray, array_api_strict.asarray):
        own = codes if make is sp.csr_array else make(codes)
        np.testing.assert_array_equal(as_numpy(dealt_by_value(make(X), own, 5, seed=7)), folds)
    # copies of a row of one class share a fold
    groups = {}
    for row, code, fold in zip(X.tolist(), codes, folds, strict=True):
        assert groups.setdefault((*row, code), fold) == fold
    assert len(groups) < 250


def test_folds_by_value_are_about_as_large_as_each_other():
    X, codes = np.arange(30_000.0).reshape(-1, 1), np.arange(30_000) % 3
    folds = [dealt_by_value(X, codes, 3, seed) for seed in (0, 1)]
    for of_seed in folds:
        counts = np.histogram2d(of_seed, codes, bins=3)[0]
        # 3333 rows each, of which the standard deviation is 47
        assert np.max(np.abs(counts - 10_000 / 3)) < 5 * 47
    assert np.mean(folds[0] == folds[1]) == pytest.approx(1.0 / 3.0, abs=0.02)


def test_a_rare_class_leaves_no_folds(monkeypatch):
    X, y, _ = data()
    y[:], y[5], y[77] = 0, 1, 1
    found = machine(cv=2, n_bases=2, stopping="held-out").fit(Listed(X, y))
    assert np.isnan(found.held_out_bound_)
    assert not hasattr(found, "held_out_path_")
    assert found.n_iter_ == 2


# ------------------------------------------------------------------------------------------
# Bad input
# ------------------------------------------------------------------------------------------


def test_folds_of_blocks_are_a_number():
    X, y, weight = data()
    source, model = Listed(X, y, weight), machine(cv=folds_by_value(y, X, 2))
    with pytest.raises(ValueError, match="Beside blocks cv must be a number of folds, or None"):
        model.fit(source)
    assert source.n_readings == 0
    assert not hasattr(model, "n_features_in_")


def test_a_basis_of_ones_own_wants_numpy():
    X, y, weight = data()
    with pytest.raises(TypeError, match=r"is given arrays of another library\. A basis that is a"):
        machine(basis=distance).fit(Listed(X, y, weight, library="torch"))


def test_a_class_of_one_row_is_told():
    X, y, _ = data()
    y[:], y[5] = 0, 1
    with pytest.raises(ValueError, match="takes two rows of each class; class 1 has 1"):
        machine().fit(Listed(X, y))


def test_values_that_are_too_large_are_found_outside_the_sample(monkeypatch):
    hold_sample(monkeypatch, 40)
    X, y, weight = data(600)
    weight[:] = 1.0
    poly = machine(basis="poly", degree=8, gamma=1.0, n_bases=2)
    assert np.isfinite(poly.fit(Listed(X, y, weight)).accuracy_bound_)
    drawn = readings.draw_sample

    def without(labelled, most):
        """Draw a sample that has not seen the row."""
        sample = drawn(labelled, most)
        kept = np.flatnonzero(sample.numbers != 333)
        return sample._replace(rows=sample.rows.take(kept), numbers=sample.numbers[kept])

    monkeypatch.setattr(readings, "draw_sample", without)
    X[333] = 1e30
    with pytest.raises(ValueError, match=r"Values of basis='poly' are above 1e\+150"):
        poly.fit(Listed(X, y, weight))
    # a row without a weight is none
    weight[333] = 0.0
    assert np.isfinite(poly.fit(Listed(X, y, weight)).accuracy_bound_)


def test_a_block_without_weight_changes_nothing():
    X, y, weight = data()
    expected = machine(cv=3).fit(Listed(X, y, weight))
    more = np.concatenate([weight, np.zeros(60)])
    given = np.concatenate([X, 1e9 * X[:60]]), np.concatenate([y, y[:60]]), more
    assert_same(machine(cv=3).fit(Listed(*given, n_blocks=5)), expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_bases_that_tell_nothing_apart(library):
    X, y, weight = data(40)
    ones = machine(cv=2, basis="tanh", coef0=50.0)
    with pytest.warns(UserWarning, match="the bound is 0"):
        found = ones.fit(Listed(X, y, weight, library=library))
    assert found.accuracy_bound_ == found.held_out_bound_ == 0.0
    assert found.n_iter_ == 0
    np.testing.assert_array_equal(as_numpy(found.held_out_path_), np.zeros(4))


@pytest.mark.parametrize("library", LIBRARIES)
def test_features_that_do_not_vary(library):
    X, y, weight = data()
    given = np.insert(X, 1, 1e6 + 0.1, axis=1)
    found = machine(gamma_iter=0, n_bases=1).fit(Listed(given, y, weight, library=library))
    assert np.all(as_numpy(found.gammas_)[:, 1] == 0.0)
    assert np.all(as_numpy(found.gammas_)[:, [0, 2, 3]] > 0.0)
    with pytest.warns(UserWarning, match="the bound is 0"):
        found = machine(cv=2).fit(Listed(np.ones((40, 3)), np.arange(40) % 2, library=library))
    # copies of a row share a fold: the other one has none of that class
    assert found.accuracy_bound_ == 0.0
    assert np.isnan(found.held_out_bound_)


def test_rows_that_change_between_readings_are_noticed():
    X, y, weight = data()
    n_times = 0

    def batches():
        nonlocal n_times
        n_times += 1
        yield X + (1e-3 if n_times > 4 else 0.0), y, weight

    with pytest.raises(RuntimeError, match="are not those of the first reading"):
        machine().fit(from_batches(batches))


def test_no_warnings_where_a_fold_has_few_rows():
    X, y, weight = data(40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = machine(cv=5, n_bases=2).fit(Listed(X, y, weight, n_blocks=20))
    assert caught == []
    assert 1 <= model.n_iter_ <= 2
