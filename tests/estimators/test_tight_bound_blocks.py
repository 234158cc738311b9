"""Tight bounds on blocks of rows and on arrays of other libraries: the model of NumPy's arrays."""

import pickle
import warnings
from functools import cache

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

import grayzone.solvers.policy.bounds as bounds_module
import grayzone.solvers.policy.cut as cut_module
from grayzone import TightBoundLogisticRegression
from grayzone.decision.limits import Target, cut_at
from grayzone.numerics.checks import as_numpy
from grayzone.solvers.policy.cut import cut_scores
from grayzone.sources import Block, Source
from grayzone.sources.labelled import Rows, label
from grayzone.sources.lots import Lots
from grayzone.sources.source import added
from grayzone.sources.split import split, split_rows

torch = pytest.importorskip("torch")

# Steps are those of the fit in memory, so that only rounding tells the models apart.
ROUNDING = 1e-12
LIMITS = {"max_fpr": 0.1, "min_recall": 0.9, "min_precision": 0.8}
LIBRARIES = {"torch": torch.asarray, "strict": strict.asarray}
EVERY_LIMIT = pytest.mark.parametrize("name", LIMITS)


@cache
def data(n_classes=2, n=300, d=4, seed=0):
    """Classes by one direction, with noise, and whole weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] - 0.7 * X[:, 1] + 0.4 * X[:, 2] ** 2 + rng.normal(size=n)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    return X, y, rng.integers(0, 4, size=n).astype(float)


class ListSource(Source):
    """Rows in blocks of a few; tasks travel as on a cluster, and readings are counted."""

    def __init__(self, X, y, weight=None, size=37):
        self.X, self.y, self.weight, self.size = X, y, weight, size
        self.n_features = X.shape[1]
        self.readings, self.largest = 0, 0

    def blocks(self):
        for a in range(0, len(self.y), self.size):
            part = slice(a, a + self.size)
            weight = None if self.weight is None else self.weight[part]
            yield Block(self.X[part], self.y[part], weight, a)

    def reduce(self, task):
        self.readings += 1
        found = added(map(pickle.loads(pickle.dumps(task)), self.blocks()))
        for value in found.values():
            if not isinstance(value, list):
                self.largest = max(self.largest, np.size(value))
        return found


def make(**parameters):
    """Make an estimator whose limits are kept on the rows given, unless it is told otherwise."""
    return TightBoundLogisticRegression(**{"tol": 1e-8, "confidence": None, **parameters})


def in_library(library, X, y, weight=None, **parameters):
    """Fit to arrays of a library; gives X there as well."""
    here = LIBRARIES[library]
    X_there = here(X)
    y_there = here(y) if y.dtype.kind in "biuf" else y
    weight = None if weight is None else here(weight)
    with config_context(array_api_dispatch=True):
        return make(**parameters).fit(X_there, y_there, sample_weight=weight), X_there


def assert_same_model(found, other, rtol=ROUNDING):
    """Coefficients, path of J and threshold."""
    for name in ("coef_", "intercept_", "expected_error_path_"):
        expected = as_numpy(getattr(other, name))
        scale = max(1.0, np.abs(as_numpy(other.coef_)).max()) if name != "coef_" else 0.0
        scale = max(scale, np.abs(expected).max())
        np.testing.assert_allclose(as_numpy(getattr(found, name)), expected, atol=rtol * scale)
    assert found._cut == pytest.approx(other._cut, rel=rtol, abs=rtol)
    assert found.n_iter_ == other.n_iter_
    assert found.expected_error_path_.shape == (found.n_iter_,)


# -------------------------------------------------------------------------- the same model as NumPy


# --------------------------------------------------------------------------------- other ways to go


@pytest.mark.parametrize("n_classes", [2, 3])
def test_many_coefficients_go_without_hessians(n_classes, monkeypatch):
    X, y, weight = data(n_classes)
    parameters = {"tol": 1e-9, "n_bounds": 3}
    expected = make(**parameters).fit(X, y, sample_weight=weight)
    monkeypatch.setattr(bounds_module, "_MAX_NEWTON", 0)
    found = make(**parameters).fit(ListSource(X, y, weight))
    # log-losses that fall by less than 1e-14 leave coefficients, and J, within the root of that
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(found.expected_error_path_, expected.expected_error_path_, rtol=1e-7)
    there, _ = in_library("strict", X, y, weight, **parameters)
    np.testing.assert_allclose(as_numpy(there.coef_), expected.coef_, atol=1e-6)


def test_limits_without_hessians(monkeypatch):
    X, y, _ = data()
    parameters = {"max_fpr": 0.1, "n_bounds": 2}
    expected = make(**parameters).fit(X, y)
    monkeypatch.setattr(bounds_module, "_MAX_NEWTON", 0)
    found = make(**parameters).fit(ListSource(X, y))
    # multipliers are searched for until 1e-5 of the limit is left
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-3)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def cost_of(coef, X, y, penalty):
    """J of rewards of one, by its definition."""
    scores = X @ coef[:, :-1].T + coef[:, -1]
    if coef.shape[0] == 1:
        right = expit(np.where(y == 1, 1.0, -1.0) * scores[:, 0])
    else:
        right = softmax(scores, axis=1)[np.arange(len(y)), y]
    return float(np.sum(1.0 - right) + 0.5 * penalty * np.sum(coef[:, :-1] ** 2))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["blocks", *LIBRARIES])
def test_direct_descent_ends_at_the_stationary_point_of_numpy(n_classes, kind):
    X, y, _ = data(n_classes)
    parameters = {"solver": "direct", "tol": 1e-11}
    expected = make(**parameters).fit(X, y)
    if kind == "blocks":
        found = make(**parameters).fit(ListSource(X, y))
    else:
        found, _ = in_library(kind, X, y, **parameters)
    # scaled gradients of 1e-11 are what is left of either
    np.testing.assert_allclose(as_numpy(found.coef_), expected.coef_, rtol=1e-7)
    path = as_numpy(found.expected_error_path_)
    assert path[-1] == pytest.approx(expected.expected_error_path_[-1], rel=1e-12)
    assert np.all(np.diff(path) <= 1e-13 * path[0])
    coef = np.column_stack([as_numpy(found.coef_), as_numpy(found.intercept_)])
    assert path[-1] == pytest.approx(cost_of(coef, X, y, 1.0 / n_classes), rel=1e-12)
    assert found.promised_decrease_ <= 1e-9


def test_direct_descent_of_undecided_policies():
    X, y, weight = data(3)
    parameters = {"solver": "direct", "reject_cost": 0.3, "tol": 1e-9}
    expected = make(**parameters).fit(X, y, sample_weight=weight)
    found = make(**parameters).fit(ListSource(X, y, weight))
    reached = found.expected_error_path_[-1], expected.expected_error_path_[-1]
    assert reached[0] == pytest.approx(reached[1], rel=1e-10)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


# -------------------------------------------------------------------------------------- warm starts


@pytest.mark.parametrize("intercept", [True, False])
def test_a_warm_start_takes_fewer_readings_to_the_same_model(intercept):
    X, y, _ = data(3)
    parameters = {"n_bounds": 1, "fit_intercept": intercept}
    cold = ListSource(X, y)
    found = make(warm_start=True, **parameters).fit(cold)
    warm = ListSource(X, y)
    first = as_numpy(found.coef_)
    found.fit(warm)
    assert warm.readings < cold.readings - 2
    np.testing.assert_allclose(found.coef_, first, atol=1e-10)


# ------------------------------------------------------------------------------------ held-out rows


def held_out_rows(y, weight, share, seed, kind, by_class=True):
    """Which rows are held out: of blocks by their numbers alone, of all others by class."""
    rng = np.random.RandomState(seed)
    if kind != "blocks":
        used, held_out = np.flatnonzero(weight > 0), np.zeros(len(y), dtype=bool)
        held_out[used[split_rows(y[used], np.unique(y), share, rng, by_class)[1]]] = True
        return held_out
    factors = tuple(int(f) for f in rng.randint(1, 2**31 - 1, size=4, dtype=np.int64))
    lots = [sum(f * i**k for k, f in enumerate(reversed(factors))) for i in range(len(y))]
    return np.array([lot % (2**31 - 1) < round(share * (2**31 - 1)) for lot in lots])


@pytest.mark.filterwarnings("ignore:On held-out rows")
@pytest.mark.parametrize("kind", ["blocks", *LIBRARIES])
def test_held_out_rows_have_no_influence_on_the_model(kind):
    X, y, weight = data(3)
    out = held_out_rows(y, weight, 0.3, 5, kind)
    parameters = {"reject_cost": 0.3, "n_bounds": 3, "class_weight": {0: 1.0, 1: 2.0, 2: 3.0}}
    expected = make(**parameters).fit(X[~out], y[~out], sample_weight=weight[~out])
    one = make(**{**parameters, "n_bounds": 1}).fit(X[~out], y[~out], sample_weight=weight[~out])
    parameters |= {"validation_fraction": 0.3, "random_state": 5}
    if kind == "blocks":
        found = make(**parameters).fit(ListSource(X, y, weight))
    else:
        found, _ = in_library(kind, X, y, weight, **parameters)
    assert_same_model(found, expected)
    costs, weights = np.column_stack([1.0 - np.eye(3), np.full(3, 0.3)]), weight * (1.0 + y)
    means = []
    for model in (one, expected):
        places = np.argmax(model.policy_proba(X[out]), axis=1)
        means.append(np.average(costs[y[out], places], weights=weights[out]))
    assert found.held_out_costs_ == pytest.approx(means, rel=1e-12)


@EVERY_LIMIT
@pytest.mark.parametrize("error", [None, 0.3])
@pytest.mark.parametrize("kind", ["blocks", *LIBRARIES])
def test_limits_are_judged_on_held_out_rows(name, error, kind):
    X, y, weight = data()
    weight = 1.0 + weight
    out = held_out_rows(y, weight, 0.4, 1, kind, error is None or name != "min_precision")
    value = 0.7 if name == "min_precision" else LIMITS[name]
    parameters = {name: value, "n_bounds": 2}
    expected = make(**parameters).fit(X[~out], y[~out], sample_weight=weight[~out])
    parameters |= {"validation_fraction": 0.4, "random_state": 1}
    parameters["confidence"] = None if error is None else 1.0 - error
    if kind == "blocks":
        found = make(**parameters).fit(ListSource(X, y, weight))
    else:
        found, _ = in_library(kind, X, y, weight, **parameters)
    np.testing.assert_allclose(as_numpy(found.coef_), expected.coef_, rtol=1e-11)
    scores = expected.decision_function(X[out])
    cut = cut_at(Target(name, value, error), scores, y[out] == 1, weight[out], True)
    assert found._cut == pytest.approx(cut, rel=1e-10)
    assert not hasattr(found, "held_out_costs_")


def test_more_bounds_that_decide_worse_are_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=300) > 0.9).astype(int)
    estimator = make(C=0.1, validation_fraction=0.4, random_state=1)
    with pytest.warns(UserWarning, match="more than .* with one bound") as caught:
        estimator.fit(ListSource(X, y))
    assert caught[0].filename == __file__
    assert estimator.held_out_costs_[1] > estimator.held_out_costs_[0]


def test_about_the_share_is_held_out_of_every_class():
    y = np.tile([0, 1, 1, 2], 5000)
    labelled = label(ListSource(np.zeros((len(y), 1)), y, size=1234))
    for seed in range(5):
        train, out = split(labelled, 0.3, np.random.RandomState(seed))
        np.testing.assert_array_equal(train.counts + out.counts, labelled.counts)
        # five standard deviations of a binomial count
        spread = 5.0 * np.sqrt(0.21 * labelled.counts)
        assert np.all(np.abs(out.counts - 0.3 * labelled.counts) < spread)


def test_a_class_of_two_rows_has_one_on_either_side():
    y = np.zeros(50, dtype=int)
    y[[3, 40]], y[[7, 8]] = 1, 2
    weight = np.ones(50)
    weight[10:20] = 0.0
    labelled = label(ListSource(np.zeros((50, 1)), y, weight))
    for seed in range(20):
        train, out = split(labelled, 0.1, np.random.RandomState(seed))
        assert train.counts[1:].tolist() == out.counts[1:].tolist() == [1, 1]
        assert train.counts[0] + out.counts[0] == 36
        np.testing.assert_allclose(train.mass + out.mass, [36.0, 2.0, 2.0])


@pytest.mark.parametrize("weight", [None, 0.0])
def test_a_class_of_one_row_cannot_be_split(weight):
    X, y, _ = data()
    y = np.where(np.arange(len(y)) == 0, 7, y)
    weights = None
    if weight is not None:
        y[1], weights = 7, np.ones(len(y))
        weights[1] = weight
    with pytest.raises(ValueError, match=r"two rows of each class; class .*7.* has 1"):
        make(validation_fraction=0.3).fit(ListSource(X, y, weights))


def test_lots_do_not_repeat():
    lots = Lots((5, 7, 11, 13), (0,))
    codes = np.zeros(20_000, dtype=np.int64)
    drawn = lots.draw(Rows(codes[:, None], codes, codes, 2**31 - 10_000))
    # 20 000 of 2e9 numbers by chance: a tenth of a pair on average, polynomials have a few
    assert np.unique(drawn).size > 19_990


# ------------------------------------------------------------------------------ where to cut scores


@st.composite
def scored_rows(draw):
    n = draw(st.integers(2, 40))
    values = st.one_of(st.integers(-3, 3), st.floats(-1e6, 1e6, width=32), st.just(1e-300))
    scores = np.array(draw(st.lists(values, min_size=n, max_size=n)), float)
    positive = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    positive[:2] = True, False
    weight = np.array(draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=n, max_size=n)))
    return scores, positive, weight


@EVERY_LIMIT
@settings(max_examples=20)  # a cut takes many readings where ranges are so few
@given(rows=scored_rows(), value=st.floats(0.01, 0.99), most=st.sampled_from([0, 1, 5, 100]))
def test_cuts_of_blocks_are_cuts_of_all_scores(name, rows, value, most):
    scores, positive, weight = rows
    labelled = label(ListSource(scores[:, None], positive.astype(int), weight, size=7))
    coef, target = np.array([[1.0, 0.0]]), Target(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut_module, "_MOST_SCORES", most)
        patch.setattr(cut_module, "_N_RANGES", 64)
        for fresh in (False, True):
            expected = cut_at(target, scores, positive, weight, fresh)
            assert cut_scores(labelled, coef, (target,), fresh=fresh) == expected


@EVERY_LIMIT
def test_few_readings_find_the_cut_of_many_scores(name, monkeypatch):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=50_000)
    positive = rng.uniform(size=scores.size) < expit(4.0 * scores - 2.0)
    monkeypatch.setattr(cut_module, "_MOST_SCORES", 500)
    monkeypatch.setattr(cut_module, "_N_RANGES", 256)
    source = ListSource(scores[:, None], positive.astype(int), size=5000)
    labelled = label(source)
    source.readings = 0
    found = cut_scores(labelled, np.array([[1.0, 0.0]]), (Target(name, LIMITS[name]),), fresh=False)
    weight = np.ones(scores.size)
    assert found == cut_at(Target(name, LIMITS[name]), scores, positive, weight, False)
    assert source.readings <= 8


@EVERY_LIMIT
def test_a_limit_that_many_shifts_are_needed_for(name):
    X, y, _ = data()
    value = {"max_fpr": 1e-6, "min_recall": 1.0 - 1e-7, "min_precision": 0.85}[name]
    parameters = {name: value, "n_bounds": 1, "max_iter": 50}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        expected, found = make(**parameters).fit(X, y), make(**parameters).fit(ListSource(X, y))
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_an_impossible_precision():
    y = np.tile([0, 0, 1], 40)
    with pytest.raises(ValueError, match="cannot be kept"):
        make(min_precision=0.9).fit(ListSource(np.zeros((120, 2)), y))


# ------------------------------------------------------------------------------ memory and readings


@pytest.mark.parametrize("parameters", [{}, {"reject_cost": 0.2}, {"solver": "direct"}])
def test_what_comes_back_does_not_grow_with_the_rows(parameters):
    sizes, readings = [], []
    for n in (300, 3000):
        X, y, _ = data(n=n)
        source = ListSource(X, y, size=100)
        make(**parameters).fit(source)
        sizes.append(source.largest)
        readings.append(source.readings)
    assert sizes[0] == sizes[1] <= 6 * 5**2  # Gram matrices of pairs of three scores
    assert max(readings) <= 80


def test_bounds_share_readings():
    X, y, _ = data(n=1000)
    source = ListSource(X, y)
    found = make(tol=1e-6, n_bounds=10).fit(source)
    # labels, the first look, and the Newton steps of each bound: nothing between them
    assert source.readings <= 2 + 5 * found.n_iter_


# -------------------------------------------------------------------------------- batch after batch


def test_batches_go_on_from_a_fit():
    X, y, _ = data()
    expected = make(n_bounds=2).fit(X, y).partial_fit(X[:50], y[:50])
    found, X_there = in_library("torch", X, y, n_bounds=2)
    with config_context(array_api_dispatch=True):
        found.partial_fit(X_there[:50], torch.asarray(y[:50]))
        with pytest.raises(ValueError, match=r"partial_fit.*same namespace"):
            found.partial_fit(X, y)
    np.testing.assert_allclose(as_numpy(found.coef_), expected.coef_, rtol=1e-11)


def test_blocks_are_no_batch():
    X, y, _ = data()
    with pytest.raises(ValueError, match="one batch, in memory; got ListSource"):
        make().partial_fit(ListSource(X, y), None, classes=[0, 1])


# ------------------------------------------------------------------------------------------ manners


def test_too_few_iterations_are_told():
    X, y, _ = data()
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        make(C=1e3, n_bounds=1, max_iter=1).fit(ListSource(X, y))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("parameters", [{}, {"solver": "direct"}, {"max_fpr": 0.1}])
def test_a_fit_may_be_ended_early(parameters, monkeypatch):
    X, y, _ = data()
    heard = []

    def listener(self, report, like):
        return lambda coef, cost: heard.append(cost) or len(heard) == 3

    monkeypatch.setattr(TightBoundLogisticRegression, "_listener", listener)
    found = make(n_bounds=30, **parameters).fit(ListSource(X, y))
    assert found.n_iter_ == 3
    np.testing.assert_array_equal(found.expected_error_path_, heard)
