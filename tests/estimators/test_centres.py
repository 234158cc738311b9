"""Kernels on few centres: exact where all rows are centres, certified and bounded where not."""

import os
from itertools import pairwise

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported

import numpy as np
import pytest
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_moons

from grayzone import TruncatedLogisticRegression
from grayzone.numerics.centred_design import CentredDesign
from grayzone.numerics.designs import DenseDesign
from grayzone.numerics.kernels import Kernel
from grayzone.solvers.kernel import restriction
from grayzone.solvers.kernel.centres import allotted, centre_map
from grayzone.solvers.truncated.side_by_side import SideBySide
from grayzone.sources import from_batches


def moons(n=120, seed=0):
    return make_moons(n, noise=0.35, random_state=seed)


def problems():
    """Twenty-four small problems: kernels, penalties, zones, classes, weights, intercepts."""
    kernels = [
        {"kernel": "rbf", "gamma": 2.0},
        {"kernel": "laplacian", "gamma": 0.7},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
    ]
    for seed, (kernel, zone, C) in enumerate(
        (k, z, C) for k in kernels for z in (None, 1.0) for C in (0.1, 1.0, 10.0, 300.0)
    ):
        rng = np.random.default_rng(seed)
        X, y = moons(60, seed)
        weight = None
        if seed % 3 == 1:
            y = y + 2 * (X[:, 0] > 1.2)
            y[y == 3] = 2
        if seed % 2:
            weight = rng.integers(1, 4, size=60).astype(float)
        yield {"C": C, "zone": zone, "fit_intercept": seed % 5 != 4, **kernel}, X, y, weight


@pytest.mark.parametrize(("settings", "X", "y", "weight"), list(problems()))
def test_all_rows_as_centres_are_the_exact_fit(settings, X, y, weight):
    exact = TruncatedLogisticRegression(tol=1e-9, **settings).fit(X, y, weight)
    model = TruncatedLogisticRegression(tol=1e-9, centres=len(y), **settings).fit(X, y, weight)
    more = TruncatedLogisticRegression(tol=1e-9, centres=10 * len(y), **settings).fit(X, y, weight)
    assert model.dual_gap_ <= 1e-9
    np.testing.assert_allclose(model.objective_, exact.objective_, rtol=1e-6)
    np.testing.assert_allclose(more.objective_, model.objective_, rtol=1e-12)
    assert model.restriction_cost_is_bound_
    assert 0.0 <= model.restriction_cost_ <= 1e-6
    assert model.centres_.shape[0] + model.n_centres_dropped_ == len(y)


def logistic_values(model, X, y, weight, factor=1.0):
    """Primal and dual values of the plain fit, by its function and its slopes alone."""
    K_mm = model._kernel(model.centres_, model.centres_)
    K_nm = model._kernel(X, model.centres_)
    sign = np.where(y == 1, 1.0, -1.0)
    a = model.dual_coef_[0]
    u = -sign * (K_nm @ a + model.intercept_[0])
    primal = weight @ np.logaddexp(0.0, u) + 0.5 / model.C * a @ K_mm @ a
    alpha = expit(u)
    sums = [np.sum((weight * alpha)[sign == s]) for s in (1.0, -1.0)]
    heavy = 1.0 if sums[0] > sums[1] else -1.0
    alpha = np.where(sign == heavy, alpha * min(sums) / max(sums), alpha)
    alpha = np.maximum(factor * alpha, 1e-300)
    entropy = alpha * np.log(alpha) + (1.0 - alpha) * np.log1p(-alpha)
    beta = weight * alpha * sign
    restricted = np.linalg.lstsq(K_mm, K_nm.T @ beta, rcond=None)[0] @ (K_nm.T @ beta)
    full = beta @ model._kernel(X, X) @ beta
    duals = [-weight @ entropy - 0.5 * model.C * square for square in (restricted, full)]
    return primal, *duals


@pytest.mark.parametrize("C", [0.3, 30.0])
def test_the_gap_and_the_cost_of_the_restriction_are_what_they_say(C):
    X, y = moons(150)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=150)
    settings = {"C": C, "zone": None, "kernel": "rbf", "gamma": 1.0, "tol": 1e-7}
    model = TruncatedLogisticRegression(centres=12, random_state=0, **settings).fit(X, y, weight)
    primal, restricted, full = logistic_values(model, X, y, weight)
    np.testing.assert_allclose(model.objective_, primal, rtol=1e-10)
    np.testing.assert_allclose(model.dual_gap_, (primal - restricted) / primal, atol=1e-9)
    factors = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0)
    full = max(logistic_values(model, X, y, weight, factor)[2] for factor in factors)
    np.testing.assert_allclose(model.restriction_cost_, (primal - full) / primal, rtol=1e-5)
    assert model.restriction_cost_ < 1.0
    exact = TruncatedLogisticRegression(**settings).fit(X, y, weight)
    cost = (model.objective_ - exact.objective_) / model.objective_
    assert 1e-6 < cost <= model.restriction_cost_


@pytest.mark.parametrize("zone", [None, 1.0])
def test_the_cost_bounds_and_falls_with_more_centres(zone):
    X, y = moons(200)
    settings = {"C": 10.0, "zone": zone, "kernel": "rbf", "gamma": 1.0}
    exact = TruncatedLogisticRegression(**settings).fit(X, y)
    bounds = []
    for m in (5, 20, 80):
        model = TruncatedLogisticRegression(centres=m, random_state=1, **settings).fit(X, y)
        cost = (model.objective_ - exact.objective_) / model.objective_
        assert -1e-6 <= cost <= model.restriction_cost_ + 1e-6
        bounds.append(model.restriction_cost_)
    assert bounds[0] > 10 * bounds[1] > 100 * bounds[2]


def test_what_centres_leave_is_estimated_without_bias(monkeypatch):
    asked = []
    original = restriction.unexplained
    monkeypatch.setattr(
        restriction, "unexplained", lambda *given: asked.append(given) or original(*given)
    )
    X, y = moons(300)
    model = TruncatedLogisticRegression(kernel="rbf", gamma=1.0, zone=None, centres=8).fit(X, y)
    assert model.restriction_cost_is_bound_
    rows, spec, duals, pull, _ = asked[0]
    truth, exact = original(rows, spec, duals, pull)
    assert exact
    beta = (rows.weight[:, None] * duals)[:, 0]
    features = spec.features.features(X)
    by_hand = beta @ (model._kernel(X, X) - features @ features.T) @ beta
    np.testing.assert_allclose(truth, by_hand, rtol=1e-8)
    monkeypatch.setattr(restriction, "MOST_VALUES", 300 * 30)
    found = [original(rows, spec, duals, pull, seed) for seed in range(200)]
    assert not any(exact for _, exact in found)
    left = [value for value, _ in found]
    error = np.std(left) / np.sqrt(len(left))
    assert error < 0.1 * truth
    assert abs(np.mean(left) - truth) < 4.0 * error


def test_centres_that_are_there_twice_are_left_out():
    X, y = moons(60)
    twice, again = np.vstack([X, X]), np.r_[y, y]
    settings = {"kernel": "rbf", "gamma": 2.0, "C": 0.5}
    model = TruncatedLogisticRegression(centres=120, **settings).fit(twice, again)
    exact = TruncatedLogisticRegression(**settings).fit(twice, again)
    assert model.n_centres_dropped_ >= 60
    assert model.centres_.shape[0] == 120 - model.n_centres_dropped_ == model.dual_coef_.shape[1]
    np.testing.assert_array_equal(model.centres_, twice[model.centre_indices_])
    np.testing.assert_allclose(model.objective_, exact.objective_, rtol=1e-6)


def test_centres_may_be_given():
    X, y = moons()
    Z = X[::10] + 0.01
    model = TruncatedLogisticRegression(kernel="rbf", centres=Z).fit(X, y)
    np.testing.assert_array_equal(model.centres_, Z)
    np.testing.assert_array_equal(model.support_vectors_, Z)
    assert not hasattr(model, "centre_indices_")
    assert not hasattr(model, "support_")
    scores = model._kernel(X, Z) @ model.dual_coef_[0] + model.intercept_[0]
    raw = clone(model).set_params(tails="as-fitted").fit(X, y).decision_function(X)
    np.testing.assert_allclose(raw, scores, atol=1e-10)


@pytest.mark.parametrize("selection", ["random", "leverage", "import"])
def test_selections_choose_rows_of_all_classes(selection):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=400) > 1.6).astype(int)
    model = TruncatedLogisticRegression(
        kernel="rbf", centres=20, centre_selection=selection, random_state=3, zone=None
    )
    model.fit(X, y)
    assert model.centre_indices_.shape == (20,)
    assert np.all(np.diff(model.centre_indices_) > 0)
    assert set(y[model.centre_indices_]) == {0, 1}
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.centre_indices_, model.centre_indices_)
    other = clone(model).set_params(random_state=4).fit(X, y)
    assert not np.array_equal(other.centre_indices_, model.centre_indices_)


def test_a_greedy_choice_leaves_less_than_a_random_one():
    X, _ = moons(200)
    y = np.arange(200) % 2

    def left(selection):
        model = TruncatedLogisticRegression(
            kernel="rbf", gamma=2.0, centres=25, centre_selection=selection, random_state=0
        )
        features, _ = centre_map(model.fit(X, y)._kernel, model.centres_, np.empty(0))
        return np.max(1.0 - np.sum(features.features(X) ** 2, axis=1))

    assert left("import") < left("random")


def test_centres_are_drawn_by_the_numbers_of_rows():
    X, y = moons(150)
    model = TruncatedLogisticRegression(kernel="rbf", centres=15, random_state=2).fit(X, y)
    for sizes in ([150], [10, 140], [75, 75]):

        def batches(sizes=sizes):
            edges = np.cumsum([0, *sizes])
            for a, b in pairwise(edges):
                yield X[a:b], y[a:b]

        streamed = clone(model).fit(from_batches(batches))
        np.testing.assert_array_equal(streamed.centre_indices_, model.centre_indices_)
        np.testing.assert_allclose(streamed.objective_, model.objective_, rtol=1e-6)


def test_centres_of_classes():
    assert allotted(10, np.array([5, 5])).tolist() == [5, 5]
    assert allotted(100, np.array([5, 3])).tolist() == [5, 3]
    assert allotted(50, np.array([10_000, 10])).tolist() == [45, 5]
    assert allotted(1, np.array([7, 8, 9])).sum() == 1


# ----------------------------------------------------------------------------------------------
# The design
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["all", "the first"])
def test_a_design_of_few_features_keeps_values(of):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(300, 4)), rng.normal(size=(20, 4))
    features, _ = centre_map(Kernel("rbf", 0.2), Z, np.empty(0))
    design, k = CentredDesign(X, features, few=True), 20
    if of == "the first":
        design, k = design.of_first(12), 12
    assert design.kept is None
    assert design.kept_values.shape == (300, k)
    dense = DenseDesign(features.features(X)[:, :k], True)
    coef, residual = rng.normal(size=(2, k + 1)), rng.normal(size=(300, 2))
    np.testing.assert_allclose(design.scores(coef), dense.scores(coef), atol=1e-9)
    np.testing.assert_allclose(design.gradient(residual), dense.gradient(residual), atol=1e-9)
    some = rng.permutation(300)[:70]
    part, weights = design.part(some), rng.random((70, 1))
    np.testing.assert_allclose(part.kept.X, dense.X[some], atol=1e-12)
    for ours in (part.gram(weights, residual[some]), design.gram(weights, residual[some], some)):
        for a, b in zip(ours, dense.gram(weights, residual[some], some), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("weights", ["alike", "far apart"])
def test_values_and_hessians_of_a_sample_lead_to_the_same_optimum(weights, monkeypatch):
    X, y = moons(2000)
    weight = np.random.default_rng(0).lognormal(0.0, 3.0, 2000) if weights == "far apart" else None
    settings = {"kernel": "rbf", "gamma": 1.0, "C": 50.0, "zone": None, "tol": 1e-9, "centres": 20}
    exact = TruncatedLogisticRegression(random_state=0, **settings).fit(X, y, sample_weight=weight)
    drawn, draw = [], SideBySide._drawn
    monkeypatch.setattr(
        SideBySide, "_drawn", lambda *given: drawn.append(draw(*given)) or drawn[-1]
    )
    monkeypatch.setattr("grayzone.numerics.centred_design._DEAR", 0.0)
    monkeypatch.setattr("grayzone.solvers.truncated.side_by_side._DEAR", 0.0)
    few = TruncatedLogisticRegression(random_state=0, **settings).fit(X, y, sample_weight=weight)
    assert few.dual_gap_ <= 1e-9
    np.testing.assert_allclose(few.objective_, exact.objective_, rtol=2e-9)
    np.testing.assert_allclose(few.predict_proba(X), exact.predict_proba(X), atol=1e-3)
    (sample,) = drawn  # one for all Hessians
    assert sample.rows.shape == (20 * 21,)
    # shares add up to the rows, and what is drawn by curvature to the curvature
    np.testing.assert_allclose(np.sum(sample.shares), 2000.0, rtol=0.2)


@pytest.fixture(params=["double", "single", "nothing"])
def kept(request):
    """Bytes for 300 rows of 20 features: enough for all, in single precision only, or none."""
    return {"double": 1e9, "single": 300 * 20 * 4 + 1.0, "nothing": 0.0}[request.param]


def test_a_mapped_design_is_a_dense_one_of_features(kept):
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(300, 4)), rng.normal(size=(20, 4))
    features, _ = centre_map(Kernel("rbf", 0.2), Z, np.empty(0))
    design = CentredDesign(X, features, budget=kept)
    dense = DenseDesign(features.features(X), True)
    coef, residual, weights = (
        rng.normal(size=(2, 21)),
        rng.normal(size=(300, 2)),
        rng.random((300, 3)),
    )
    rows = rng.permutation(300)[:70]
    np.testing.assert_allclose(
        dense.X @ dense.X.T,
        features.values(X) @ np.linalg.solve(features.kernel(Z, Z), features.values(X).T),
        atol=1e-9,
    )
    np.testing.assert_allclose(design.scores(coef), dense.scores(coef), atol=1e-9)
    np.testing.assert_allclose(design.gradient(residual), dense.gradient(residual), atol=1e-9)
    np.testing.assert_allclose(design.row_squares(), dense.row_squares(), atol=1e-9)
    np.testing.assert_allclose(design.square_sums(weights), dense.square_sums(weights), atol=1e-9)
    np.testing.assert_allclose(design.inner(rows, rows[:5]), dense.inner(rows, rows[:5]), atol=1e-9)
    for some in (None, rows, rows[:0]):
        n = slice(None) if some is None else slice(0, some.size)
        for ours, theirs in zip(
            design.gram(weights[n], residual[n], some),
            dense.gram(weights[n], residual[n], some),
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)
    np.testing.assert_allclose(design.take(rows).scores(coef), dense.scores(coef)[rows], atol=1e-9)


@pytest.mark.parametrize("zone", [None, 1.0])
def test_coarse_hessians_lead_to_the_same_optimum(zone, kept, monkeypatch):
    X, y = moons(300)
    settings = {"kernel": "rbf", "gamma": 1.0, "C": 50.0, "zone": zone, "tol": 1e-9, "centres": 20}
    exact = TruncatedLogisticRegression(random_state=0, **settings).fit(X, y)
    monkeypatch.setattr("grayzone.numerics.centred_design._WORTH_ROUNDING", 0.0)
    cache = max(kept, 1.0) / 2**20
    coarse = TruncatedLogisticRegression(random_state=0, cache_size=cache, **settings).fit(X, y)
    assert coarse.dual_gap_ <= 1e-9
    np.testing.assert_allclose(coarse.objective_, exact.objective_, rtol=2e-9)


# ----------------------------------------------------------------------------------------------
# The estimator
# ----------------------------------------------------------------------------------------------


def test_the_ramp_goes_with_centres():
    X, y = moons(150)
    settings = {"kernel": "rbf", "gamma": 1.0, "loss": "ramp", "C": 3.0}
    exact = TruncatedLogisticRegression(**settings).fit(X, y)
    model = TruncatedLogisticRegression(centres=150, **settings).fit(X, y)
    np.testing.assert_allclose(model.objective_, exact.objective_, rtol=1e-4)
    assert not hasattr(model, "restriction_cost_")


def test_a_warm_start_starts_anew():
    X, y = moons()
    model = TruncatedLogisticRegression(kernel="rbf", centres=15, random_state=0, warm_start=True)
    first = model.fit(X, y).objective_
    np.testing.assert_allclose(model.fit(X, y).objective_, first, rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"centres": 0}, "centres must be an integer >= 1"),
        ({"centres": 2.5}, "centres must be an integer >= 1"),
        ({"centres": True}, "centres must be an integer >= 1"),
        ({"centres": "many"}, "centres must be None, an integer >= 1 or an array of rows"),
        ({"centres": np.ones(3)}, "an array of rows of two dimensions; got ndarray of shape"),
        ({"centres": np.ones((3, 5))}, "as many features as X, 2; got 5"),
        ({"centres": [[np.nan, 1.0]]}, "centres must be finite numbers"),
        ({"centres": 5, "centre_selection": "best"}, "centre_selection must be one of"),
        ({"centres": 5, "kernel": "linear"}, "got kernel='linear'"),
        ({"centres": 5, "kernel": "precomputed"}, "got kernel='precomputed'"),
        ({"centres": 5, "penalty": "l1"}, "centres are for penalty='l2'; got penalty='l1'"),
        ({"centres": 5, "solver": "primal"}, "centres are for solver='auto'"),
    ],
)
def test_bad_centres(settings, said):
    X, y = moons(40)
    with pytest.raises(ValueError, match=said):
        TruncatedLogisticRegression(**{"kernel": "rbf", **settings}).fit(X, y)


def test_an_indefinite_kernel_is_refused():
    X, y = moons(60)
    model = TruncatedLogisticRegression(kernel="sigmoid", gamma=5.0, coef0=-3.0, centres=40)
    with pytest.raises(ValueError, match=r"not positive semi-definite|no positive value"):
        model.fit(10 * X, y)


def test_a_model_without_centres_has_none():
    X, y = moons(40)
    with pytest.raises(AttributeError, match="with the parameter centres"):
        _ = TruncatedLogisticRegression(kernel="rbf").fit(X, y).centres_


# ----------------------------------------------------------------------------------------------
# Devices and blocks, of more rows than are treated at once
# ----------------------------------------------------------------------------------------------


def many(n=4500):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    score = 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, (rng.random(n) < expit(score)).astype(int)


@pytest.mark.parametrize("zone", [None, 1.0])
def test_many_rows_on_a_device(zone, monkeypatch):
    torch = pytest.importorskip("torch")
    X, y = many()
    model = TruncatedLogisticRegression(
        C=10.0, zone=zone, kernel="rbf", gamma=0.5, centres=40, random_state=0, tol=1e-9
    )
    here = clone(model).fit(X, y)
    monkeypatch.setattr("grayzone.numerics.centred_design._WORTH_ROUNDING", 1e6)
    for cache in (1000, 1.0, 1e-6):  # features are kept in double, in single precision, not at all
        with config_context(array_api_dispatch=True):
            there = clone(model).set_params(cache_size=cache)
            there.fit(torch.asarray(X), torch.asarray(y))
        assert there.dual_gap_ <= 1e-9
        np.testing.assert_allclose(there.objective_, here.objective_, rtol=2e-9)
        np.testing.assert_array_equal(there.centre_indices_, here.centre_indices_)
        np.testing.assert_allclose(there.restriction_cost_, here.restriction_cost_, rtol=1e-3)


@pytest.mark.parametrize(
    ("C", "zone", "shift"),
    [
        (0.01, 1.0, 0.0),
        (10.0, (0.05, 0.2), -3.0),
        (1e4, (0.02, 0.03), -4.0),
        (10.0, (0.3, 1.0), 0.0),
    ],
    ids=["hardly any function", "rare class", "rarer, narrow zone", "one kink"],
)
def test_zones_on_a_device_from_rounded_kinks(C, zone, shift):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4500, 3))
    y = (rng.random(4500) < expit(2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + shift)).astype(int)
    weight = rng.integers(0, 4, 4500).astype(float)
    model = TruncatedLogisticRegression(
        C=C, zone=zone, kernel="rbf", gamma=0.5, centres=60, random_state=0, tol=1e-9
    )
    here = clone(model).fit(X, y, sample_weight=weight)
    with config_context(array_api_dispatch=True):
        there = clone(model).fit(*(torch.asarray(a) for a in (X, y, weight)))
    assert there.dual_gap_ <= 1e-9
    assert there.n_iter_ <= 6  # what is left after rounded kinks
    np.testing.assert_allclose(there.objective_, here.objective_, rtol=2e-9)


def test_a_gram_in_half_precision_is_close_in_every_direction(monkeypatch):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("for CUDA devices")
    monkeypatch.setattr("grayzone.numerics.centred_design._WORTH_ROUNDING", 0.0)
    rng = np.random.default_rng(0)
    X, Z, weights = rng.normal(size=(300, 2)), rng.normal(size=(20, 2)), rng.random((300, 1))
    X, Z, weights = (torch.asarray(a, device="cuda") for a in (X, Z, 1e4 * weights))
    features, _ = centre_map(Kernel("rbf", 0.1), Z, weights)
    exact, _ = CentredDesign(X, features, coarse=False).gram(weights, weights)
    design = CentredDesign(X, features)
    assert design.quick_grams
    coarse, _ = design.gram(weights, weights)
    ridge = torch.eye(21, dtype=torch.float64, device="cuda")
    quotient = torch.linalg.eigvals(torch.linalg.solve(exact[0] + ridge, coarse[0] + ridge))
    assert float((quotient - 1.0).abs().max()) < 0.05


@pytest.mark.parametrize("zone", [None, 1.0])
def test_many_rows_in_blocks(zone, monkeypatch):
    X, y = many()
    model = TruncatedLogisticRegression(
        C=10.0, zone=zone, kernel="rbf", gamma=0.5, centres=40, random_state=0, tol=1e-9
    )
    here = clone(model).fit(X, y)
    monkeypatch.setattr("grayzone.solvers.truncated.streamed.MOST_HELD", 1000)

    def batches():
        for a in range(0, len(y), 1700):
            yield X[a : a + 1700], y[a : a + 1700]

    there = model.fit(from_batches(batches))
    assert there.dual_gap_ <= 1e-9
    np.testing.assert_allclose(there.objective_, here.objective_, rtol=2e-9)
    np.testing.assert_allclose(there.tail_slopes_, here.tail_slopes_, rtol=1e-3)
    assert not hasattr(there, "partition_")
