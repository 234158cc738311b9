"""The sparse machine with costs or a required bound, and with sparse rows."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from fuzz.laws import examine
from grayzone import MinimaxProbabilityMachine, SparseMinimaxProbabilityMachine
from grayzone.solvers.minimax.aims import Aim, Required
from grayzone.solvers.minimax.plane import PlaneMoments


def data(n=120, seed=0):
    """Two classes that no plane keeps apart, and which overlap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] * X[:, 1] + 1.2 * X[:, 0] + 0.5 * rng.normal(size=n)
    return X, (score > np.quantile(score, 0.6)).astype(int)


def fit(X, y, sample_weight=None, **parameters):
    plain = {"n_bases": 6, "random_state": 0, "cv": None, "stopping": None}
    return SparseMinimaxProbabilityMachine(**plain | parameters).fit(X, y, sample_weight)


def worst_cost(found, y, dear):
    prior = np.array([np.mean(y == 0), np.mean(y == 1)])
    return float((prior * [1.0, dear]) @ (1.0 - found.class_bounds_))


# ------------------------------------------------------------------------------- in the plane


@pytest.mark.parametrize("ratio", [1e-6, 0.2, 1.0, 3.0, 1e6])
def test_a_plane_of_any_ratio_is_the_best_of_many(ratio):
    rng = np.random.default_rng(0)
    for _ in range(20):
        roots = rng.normal(size=(2, 2, 2))
        x, y = ((r[0] @ r[0], r[0] @ r[1], r[1] @ r[1]) for r in roots)
        moments = PlaneMoments(tuple(rng.normal(size=2)), x, y)
        plane = moments.at(ratio)
        d = np.array(moments.difference)
        a = np.array([plane.first, plane.second])
        assert a @ d == pytest.approx(1.0, rel=1e-10)
        across = np.array([-d[1], d[0]]) / (d @ d)
        others = a + np.linspace(-1.0, 1.0, 201)[:, None] ** 3 * across

        def m(a, x=x, y=y):
            parts = [c[0] * a[0] ** 2 + 2 * c[1] * a[0] * a[1] + c[2] * a[1] ** 2 for c in (x, y)]
            return ratio * np.sqrt(parts[0]) + np.sqrt(parts[1])

        assert plane.m_at(ratio) == pytest.approx(m(a), rel=1e-10)
        assert plane.m_at(ratio) <= min(m(b) for b in others) * (1.0 + 1e-12)
        kappa_y, kappa_x = plane.kappas(ratio)
        assert kappa_x * plane.s_x + kappa_y * plane.s_y == pytest.approx(1.0, rel=1e-12)


def test_a_requirement_that_cannot_be_met_gets_as_near_as_it_can():
    moments = PlaneMoments((1.0, 0.5), (1.0, 0.2, 2.0), (1.5, 0.0, 0.7))
    aim = Aim(required=Required(1, 0.999, {1: 0.999}))
    bounds = aim.bounds(moments.kappas(aim.ratio(moments, (0.5, 0.5))))
    assert aim.missed(bounds)
    assert bounds[1] == pytest.approx(
        max(aim.bounds(moments.kappas(r))[1] for r in np.geomspace(1e-6, 1e15, 200)), rel=1e-6
    )
    met = Aim(required=Required(1, 0.3, {1: 0.3}))
    assert not met.missed(met.bounds(moments.kappas(met.ratio(moments, (0.5, 0.5)))))


# --------------------------------------------------------------------------------------- costs


def test_costs_of_one_make_no_difference_where_classes_are_alike():
    # a plane whose two classes are mirror images, and as many of them: even bounds are cheapest
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(60, 2)) * 0.5
    X, y = np.concatenate([Z + 2.0, -Z - 2.0]), np.repeat([1, 0], 60)
    found = fit(X, y, n_bases=1, basis="poly", degree=1, costs=[[0, 1], [1, 0]])
    np.testing.assert_allclose(found.class_bounds_[0], found.class_bounds_[1], rtol=1e-4)


def test_costs_lower_the_cost_in_the_worst_case():
    X, y = data()
    for dear in (0.2, 4.0):
        aimed = fit(X, y, costs={0: 1.0, 1: dear})
        plain = fit(X, y)
        assert worst_cost(aimed, y, dear) < worst_cost(plain, y, dear)
        assert aimed.accuracy_bound_ == pytest.approx(min(aimed.class_bounds_))
        np.testing.assert_allclose(aimed.cost_matrix_, [[0.0, 1.0], [dear, 0.0]])


def test_each_basis_lowers_the_cost():
    X, y = data()
    costs = [worst_cost(fit(X, y, n_bases=k, costs={0: 1.0, 1: 4.0}), y, 4.0) for k in range(1, 6)]
    assert np.all(np.diff(costs) <= 1e-9)
    assert costs[-1] < costs[0] - 0.01


def test_a_linear_basis_of_one_feature_is_the_exact_machine():
    """One feature, one linear basis: the same problem as that of the exact machine, in a line."""
    rng = np.random.default_rng(3)
    y = np.arange(90) % 3 == 0
    X = (rng.normal(size=90) * np.where(y, 0.5, 1.5) + 3.0 * y + 2.0)[:, None]
    for more in ({"costs": {False: 1.0, True: 5.0}}, {"required_bound": {True: 0.7}}, {}):
        sparse = fit(X, y, n_bases=1, basis="poly", degree=1, coef0=0.0, **more)
        exact = MinimaxProbabilityMachine(covariance_reg=0.0, cv=None, **more).fit(X, y)
        np.testing.assert_allclose(sparse.class_bounds_, exact.class_bounds_, rtol=1e-6)
        np.testing.assert_allclose(
            sparse.decision_function(X), exact.decision_function(X), rtol=1e-5, atol=1e-6
        )


def test_held_out_bases_are_those_of_least_cost():
    X, y = data(100)
    parameters = {"cv": 2, "n_bases": 6, "costs": {0: 1.0, 1: 5.0}}
    found = fit(X, y, stopping="held-out", **parameters)
    every = fit(X, y, **parameters)
    assert 1 <= found.n_iter_ <= 6
    np.testing.assert_allclose(found.held_out_path_, every.held_out_path_)
    assert found.held_out_bound_ == found.held_out_path_[found.n_iter_ - 1]


# ------------------------------------------------------------------------------ required bound


@pytest.mark.parametrize("asked", [{1: 0.8}, {0: 0.75}, {1: 0.05}])
def test_a_required_bound_is_met_and_the_other_pays(asked):
    X, y = data()
    found = fit(X, y, required_bound=asked)
    ((place, bound),) = asked.items()
    assert found.class_bounds_[place] == pytest.approx(bound, abs=1e-8)
    plain = fit(X, y)
    assert (found.class_bounds_[1 - place] < plain.accuracy_bound_) == (
        bound > plain.accuracy_bound_
    )
    # by the scores' own moments
    scores = found.decision_function(X)
    for k, sign in ((0, -1.0), (1, 1.0)):
        kappa = sign * scores[y == k].mean() / scores[y == k].std()
        assert kappa**2 / (1.0 + kappa**2) == pytest.approx(found.class_bounds_[k], abs=1e-6)


def test_a_bound_beyond_reach_is_an_error_that_leaves_the_model_as_it_was():
    X, y = data()
    found = fit(X, y)
    before = found.decision_function(X)
    found.set_params(required_bound={1: 0.9999}, n_bases=2)
    with pytest.raises(ValueError, match=r"required_bound=\{1: 0.9999\} cannot be met: 2 bases"):
        found.fit(X, y)
    np.testing.assert_array_equal(found.decision_function(X), before)


BAD = {
    "both": ({"costs": "balanced", "required_bound": {1: 0.5}}, "not both"),
    "unknown class": ({"required_bound": {7: 0.5}}, r"one of the classes \[0, 1\]"),
    "one": ({"required_bound": {1: 1.0}}, "between 0 and 1"),
    "a number": ({"required_bound": 0.9}, "must be a mapping"),
    "cheap errors": ({"costs": [[1, 0], [0, 1]]}, "errors dearer than right decisions"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_aims_are_told(name):
    parameters, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        fit(*data(40), **parameters)


def test_a_required_bound_takes_no_costs_of_rows():
    X, y = data()
    found = fit(X, y, required_bound={1: 0.6})
    with pytest.raises(ValueError, match="takes no costs of rows"):
        found.predict(X, example_costs={0: np.ones(120), 1: np.ones(120)})


def test_costs_of_rows_in_the_ratio_of_the_fit_have_its_threshold():
    X, y = data()
    found = fit(X, y, costs={0: 1.0, 1: 3.0})
    same = {0: np.full(120, 2.0), 1: np.full(120, 6.0)}
    np.testing.assert_array_equal(found.predict(X, example_costs=same), found.predict(X))


# -------------------------------------------------------------------------------- sparse rows


def distance(X, v):
    """A basis function of its own, for dense rows."""
    assert not sp.issparse(X)
    return np.sqrt(1.0 + np.sum((X - v) ** 2, axis=1))


FAMILIES = {
    "gaussian": {},
    "width": {"gamma": "width", "gamma_iter": 3},
    "poly": {"basis": "poly", "degree": 2},
    "tanh": {"basis": "tanh"},
    "callable": {"basis": distance},
    "boosted": {"candidates": "boosted"},
}


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize("name", FAMILIES)
def test_sparse_rows_give_the_model_of_dense_ones(name, kind):
    X, y = data()
    X = X * (np.random.default_rng(5).random(X.shape) < 0.6)
    weight = np.random.default_rng(6).uniform(0.0, 2.0, size=120)
    dense = fit(X, y, weight, **FAMILIES[name])
    sparse = fit(kind(X), y, weight, **FAMILIES[name])
    np.testing.assert_allclose(sparse.bases_, dense.bases_)
    for attribute in ("gammas_", "dual_coef_", "bound_path_", "feature_weights_"):
        np.testing.assert_allclose(
            getattr(sparse, attribute), getattr(dense, attribute), rtol=1e-5, atol=1e-8
        )
    np.testing.assert_allclose(
        dense.decision_function(kind(X)), dense.decision_function(X), rtol=1e-9, atol=1e-9
    )


def test_sparse_rows_are_never_dense_all_at_once():
    rng = np.random.default_rng(0)
    n, d = 3000, 4000
    X = sp.random(n, d, density=2e-3, format="csr", random_state=rng)
    X = sp.csr_array(sp.hstack([rng.normal(size=(n, 1)), X[:, 1:]], format="csr"))
    y = (X[:, [0]].toarray()[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)
    tracemalloc.start()
    found = fit(X, y, n_bases=2, n_candidates=2)
    found.predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.score(X, y) > 0.6
    assert peak < n * d * 8 / 10  # a tenth of what the rows would be, dense


@pytest.mark.parametrize("name", ["gaussian", "width", "boosted"])
def test_sparse_rows_far_from_zero_lose_no_digits(name):
    X, y = data()
    X[:, :2] = 1e6 + X[:, :2]  # nowhere zero: measured from their means
    X[::3, 2] = 0.0
    dense, sparse = (fit(rows, y, **FAMILIES[name]) for rows in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.bound_path_, dense.bound_path_, rtol=1e-5)
    np.testing.assert_allclose(
        sparse.decision_function(sp.csr_array(X)), dense.decision_function(X), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(
        dense.decision_function(sp.csc_array(X)), dense.decision_function(X), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    "more",
    [{"moment_error": {0: 0.0, 1: 0.3}}, {"costs": {0: 1, 1: 3}}, {"required_bound": {1: 0.9}}],
)
def test_classes_that_do_not_vary_have_no_ratio_to_choose(more):
    """Found by fuzzing: infinitely many standard deviations on both sides."""
    X, y = np.repeat([[0.0], [50.0]], 10, axis=0), np.repeat([0, 1], 10)
    found = fit(X, y, gamma=1.0, n_bases=3, **more)
    assert found.accuracy_bound_ > 0.99
    np.testing.assert_array_equal(found.predict(X), y)
    plane = PlaneMoments((1.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    assert plane.separable
    assert Aim(errors=(0.0, 0.3)).ratio(plane, (0.5, 0.5)) == 1.0


def test_a_basis_that_hardly_tells_the_classes_apart_is_no_overflow():
    """Found by fuzzing: the square of its coefficient is no double."""
    case = {
        "estimator": "SparseMinimaxProbabilityMachine",
        "parameters": {"n_bases": 1, "required_bound": {"of first": 0.01}},
        "rows": {
            **{"kind": "grid", "n": 40, "d": 2, "classes": 2, "seed": 1024},
            "twists": [["sparse", 0.95], ["offset", 100000000.0]],
            **{"weights": "some zero", "labels": "strings"},
        },
        "carrier": "CSR",
        "new rows": "infinite",
    }
    assert examine(case).findings == []
