"""The import vector machine: its choices, its optimum, its stopping rules and its manners."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from plain_greedy import Plain, gaussian_kernel
from recording import Recording
from scipy.linalg import cholesky, solve_triangular
from scipy.special import expit, logsumexp, softmax, xlogy
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import log_loss
from sklearn.metrics import pairwise as kernels
from sklearn.preprocessing import scale
from state import assert_as_before, frozen

import grayzone.sources.split as module
from grayzone import ImportVectorMachine, TruncatedLogisticRegression
from grayzone.solvers.greedy import Growth, basis, growth, refit


def data(n=80, n_classes=2, seed=0, d=2, noise=0.4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] * X[:, 1] + 0.5 * X[:, 0] + noise * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


def fit(X, y, sample_weight=None, **parameters):
    return ImportVectorMachine(**parameters).fit(X, y, sample_weight=sample_weight)


KINDS = {
    "binary": (2, "symmetric"),
    "symmetric": (3, "symmetric"),
    "reference": (3, "reference"),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


# ----------------------------------------------------------------- the basic algorithm, (B1)-(B4)


def some_rows(X, y, n, seed=0):
    """Some distinct rows, standardised."""
    X, first = np.unique(np.asarray(X, float), axis=0, return_index=True)
    rows = np.sort(np.random.default_rng(seed).choice(len(X), n, replace=False))
    X = X[rows]
    return scale(X[:, X.std(axis=0) > 0.0]), y[first][rows]


def check_first_five(X, y, C, parametrization="symmetric"):
    plain = Plain(
        gaussian_kernel(X, X, 1.0 / (X.shape[1] * X.var())), y, C, parametrization=parametrization
    )
    points, path = plain.greedy(5)
    found = fit(
        X,
        y,
        C=C,
        selection="exact",
        parametrization=parametrization,
        max_import_points=5,
        tol=0.0,
    )
    assert found.import_points_.tolist() == points
    np.testing.assert_allclose(found.objective_path_, path, rtol=1e-8)


@pytest.mark.parametrize("name", ["esl_mixture", "statlog_heart", "ionosphere"])
def test_the_exact_choice_is_that_of_brute_force(name, load):
    check_first_five(*some_rows(*load(name), 80), C=2.0)


def test_the_exact_choice_is_that_of_brute_force_on_breast_cancer():
    check_first_five(*some_rows(*load_breast_cancer(return_X_y=True), 80), C=10.0)


@pytest.mark.parametrize("parametrization", ["symmetric", "reference"])
def test_the_exact_choice_is_that_of_brute_force_for_three_classes(parametrization):
    X, y = some_rows(*load_iris(return_X_y=True), 50)
    check_first_five(X, y, 5.0, parametrization)


def test_one_step_chooses_nearly_as_well_as_refits(kind):
    n_classes, parametrization = kind
    X, y = data(50, n_classes)
    one, exact = (
        fit(X, y, selection=selection, parametrization=parametrization, max_import_points=6)
        for selection in ("one-step", "exact")
    )
    assert one.import_points_[0] == exact.import_points_[0]
    assert one.objective_ <= 1.02 * exact.objective_


# ----------------------------------------------------------------------------- with all points


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("zone", [None, 1.0])
def test_with_all_points_it_is_the_optimum_over_all_rows(n_classes, zone, C):
    X, y = data(35, n_classes)
    found = fit(X, y, C=C, gamma=2.0, zone=zone, tol=0.0)
    full = TruncatedLogisticRegression(
        C=C, kernel="rbf", gamma=2.0, zone=zone, tol=1e-9, tails="as-fitted"
    ).fit(X, y)
    assert found.objective_ == pytest.approx(full.objective_, rel=1e-6)
    assert found.objective_ >= full.objective_ * (1.0 - 2e-9)
    # to the square root of what the criterion tells
    np.testing.assert_allclose(found.predict_proba(X), full.predict_proba(X), atol=2e-3)


@pytest.mark.parametrize("selection", ["exact", "power"])
def test_other_choices_reach_the_same_optimum(selection):
    X, y = data(40)
    found = fit(X, y, gamma=2.0, selection=selection, tol=0.0)
    full = TruncatedLogisticRegression(kernel="rbf", gamma=2.0, zone=None, tol=1e-9).fit(X, y)
    assert found.objective_ == pytest.approx(full.objective_, rel=1e-6)


def test_blocks_and_candidates_reach_the_same_optimum():
    X, y = data(40)
    full = TruncatedLogisticRegression(kernel="rbf", gamma=2.0, zone=None, tol=1e-9).fit(X, y)
    for parameters in ({"points_per_step": 7}, {"n_candidates": 20, "random_state": 0}):
        found = fit(X, y, gamma=2.0, tol=0.0, **parameters)
        assert found.objective_ == pytest.approx(full.objective_, rel=1e-6)


# ----------------------------------------------------------------------------- the stopping rule


def stops(path, lag, tol):
    """Rounds k at which |H_k - H_{k-r}| / |H_k| < alpha; `path` starts with H_0."""
    return [k for k in range(lag, len(path)) if abs(path[k] - path[k - lag]) / abs(path[k]) < tol]


def without_points(y):
    """The criterion of the intercepts alone: n times the entropy of the prior."""
    prior = np.bincount(y) / len(y)
    return -len(y) * np.sum(xlogy(prior, prior))


@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize(("C", "tol"), [(0.1, 1e-3), (10.0, 1e-3), (10.0, 1e-2)])
def test_the_stopping_rule_of_the_paper(lag, tol, C, kind):
    n_classes, parametrization = kind
    X, y = data(80, n_classes)
    found = fit(
        X, y, C=C, gamma=1.0, tol=tol, n_iter_no_change=lag, parametrization=parametrization
    )
    path = [without_points(y), *found.objective_path_]
    assert found.n_iter_ == len(found.objective_path_) == len(found.import_points_)
    assert stops(path, lag, tol) == [found.n_iter_]
    assert found.n_iter_ > lag  # so that it is the rule on H_1, H_2, ... as printed


@pytest.mark.parametrize("lag", [1, 3])
def test_the_model_without_points_is_the_first_of_the_path(lag):
    X, y = data(60)
    # hardly any function is allowed: no point changes the criterion by a thousandth
    found = fit(X, y, C=1e-7, n_iter_no_change=lag)
    assert found.n_iter_ == lag
    assert found.objective_ == pytest.approx(without_points(y), rel=1e-3)


@pytest.mark.parametrize("lag", [1, 4])
@pytest.mark.parametrize("points_per_step", [2, 3])
def test_the_stopping_rule_looks_back_over_whole_blocks(lag, points_per_step):
    X, y = data(120)
    found = fit(X, y, C=10.0, gamma=1.0, n_iter_no_change=lag, points_per_step=points_per_step)
    path = [without_points(y), *found.objective_path_]
    rounds = -(-lag // points_per_step)
    assert stops(path, rounds, 1e-3) == [found.n_iter_]
    assert len(found.import_points_) == points_per_step * found.n_iter_


def test_a_greater_lag_only_goes_on_longer():
    X, y = data(120)
    paths = [fit(X, y, n_iter_no_change=lag) for lag in (1, 2, 5)]
    for earlier, later in pairwise(paths):
        assert earlier.n_iter_ < later.n_iter_
        np.testing.assert_array_equal(
            later.import_points_[: earlier.n_iter_], earlier.import_points_
        )


@pytest.mark.parametrize("most", [1, 4, 7])
@pytest.mark.parametrize("points_per_step", [1, 3])
def test_there_are_no_more_points_than_allowed(most, points_per_step):
    X, y = data()
    found = fit(X, y, max_import_points=most, points_per_step=points_per_step, tol=0.0)
    assert len(found.import_points_) == most
    assert found.n_iter_ == -(-most // points_per_step)
    assert len(fit(X, y, max_import_points=1000, tol=0.1).import_points_) < 80


def test_a_tolerance_of_zero_goes_on_to_the_end():
    X, y = data(50)
    # peaks so narrow that every row counts
    found = fit(X, y, gamma=100.0, tol=0.0)
    assert sorted(found.import_points_) == list(range(50))
    assert np.all(np.diff(found.objective_path_) < 0.0)


def test_the_path_goes_down(kind):
    n_classes, parametrization = kind
    X, y = data(n_classes=n_classes)
    for selection, most in (("one-step", None), ("exact", 3), ("power", None)):
        found = fit(
            X, y, selection=selection, parametrization=parametrization, max_import_points=most
        )
        path = np.array([without_points(y), *found.objective_path_])
        assert np.all(np.diff(path) <= 0.0)
        assert found.objective_ == found.objective_path_[-1]


# ------------------------------------------------------- order, repetitions and weights of rows


def assert_same_function(one, other, X, atol=1e-7):
    """Two fits that took the same way differ by rounding only, however it is amplified."""
    np.testing.assert_allclose(other.objective_path_, one.objective_path_, rtol=1e-9)
    np.testing.assert_allclose(
        other.decision_function(X), one.decision_function(X), rtol=0.0, atol=atol
    )


@pytest.fixture(params=["one-step", "exact", "power"])
def choosing(request, kind):
    """Number of classes, and an estimator; refits of all candidates are for few points."""
    most = 2 if request.param == "exact" else 8
    return kind[0], ImportVectorMachine(
        C=5.0, selection=request.param, parametrization=kind[1], max_import_points=most
    )


def test_the_order_of_rows_does_not_matter(choosing):
    n_classes, model = choosing
    X, y = data(50, n_classes)
    order = np.random.default_rng(1).permutation(50)
    plain, permuted = clone(model).fit(X, y), clone(model).fit(X[order], y[order])
    np.testing.assert_array_equal(order[permuted.import_points_], plain.import_points_)
    assert_same_function(plain, permuted, X)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "laplacian"])
@pytest.mark.parametrize("selection", ["one-step", "exact", "power"])
def test_the_order_of_rows_does_not_decide_between_equals(selection, kernel):
    # a pattern with all symmetries of the square: at each step several rows gain the same
    side = np.arange(-2.0, 3.0)
    X = np.array([(a, b) for a in side for b in side if a * b])
    y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
    model = ImportVectorMachine(kernel=kernel, selection=selection, max_import_points=6, coef0=1.0)
    plain = clone(model).fit(X, y)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        permuted = clone(model).fit(X[order], y[order])
        np.testing.assert_array_equal(order[permuted.import_points_], plain.import_points_)
        assert_same_function(plain, permuted, X)


@pytest.mark.parametrize("parameters", [{"kernel": "linear"}, {"kernel": "poly", "degree": 2}])
def test_the_order_of_rows_does_not_decide_which_point_completes_the_span(parameters):
    # any row that is not spanned yet then gains the same, and no more than a trace of H
    X, y = data(90, d=4)
    plain = fit(X, y, tol=0.0, **parameters)
    assert len(plain.import_points_) == {"linear": 4, "poly": 10}[parameters["kernel"]]
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(90)
        permuted = fit(X[order], y[order], tol=0.0, **parameters)
        np.testing.assert_array_equal(order[permuted.import_points_], plain.import_points_)


# an objective of next to nothing, of which a gap of next to nothing is a large part
@pytest.mark.filterwarnings("ignore:The last fit to the import points")
@pytest.mark.parametrize("noise", [0.0, 1.0], ids=["separable", "noisy"])
@pytest.mark.parametrize(("C", "zone"), [(1e-12, None), (1e12, None), (1e-12, 1.0), (1e6, 1.0)])
def test_extreme_penalties(C, noise, zone, kind):
    n_classes, parametrization = kind
    X, y = data(40, n_classes, noise=noise)
    found = fit(X, y, C=C, zone=zone, parametrization=parametrization, max_import_points=4)
    path = np.array([found.objective_path_[0], *found.objective_path_])
    assert np.isfinite(path).all()
    assert np.all(np.diff(path) <= 1e-8 * path[1:])
    proba = found.predict_proba(X)
    assert np.isfinite(proba).all()
    if C < 1.0:
        np.testing.assert_allclose(proba, np.tile(np.bincount(y) / 40, (40, 1)), atol=1e-3)
    else:
        assert np.isfinite(found.dual_coef_).all()
        assert found.score(X, y) > 0.1 + np.bincount(y).max() / 40


def test_costs_move_the_threshold_and_nothing_else():
    X, y = data(100)
    plain = fit(X, y)
    prior = y.mean()
    for costs, threshold in (
        ({0: 1.0, 1: 4.0}, 0.2),
        ([[0.0, 3.0], [1.0, 0.0]], 0.75),
        ("balanced", prior),
    ):
        found = fit(X, y, costs=costs)
        assert found.threshold_ == pytest.approx(threshold, rel=1e-12)
        np.testing.assert_array_equal(found.import_points_, plain.import_points_)
        np.testing.assert_array_equal(found.dual_coef_, plain.dual_coef_)
        np.testing.assert_array_equal(found.predict_proba(X), plain.predict_proba(X))
        np.testing.assert_array_equal(found.predict(X), found.predict_proba(X)[:, 1] >= threshold)
    assert plain.threshold_ == 0.5
    assert plain.zone_ == (0.0, 1.0)


def test_costs_of_three_classes_decide():
    X, y = data(100, 3)
    costs = np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    plain, found = fit(X, y), fit(X, y, costs=costs)
    np.testing.assert_array_equal(found.dual_coef_, plain.dual_coef_)
    expected = np.argmin(found.predict_proba(X) @ costs, axis=1)
    np.testing.assert_array_equal(found.predict(X), expected)
    assert np.any(expected != plain.predict(X))
    assert found.threshold_ is None


def test_a_zone_goes_around_the_threshold_of_the_costs():
    X, y = data(50)
    found = fit(X, y, zone=1.0, costs={0: 1.0, 1: 4.0})
    middle = np.log(0.2 / 0.8)
    np.testing.assert_allclose(found.zone_, expit([middle - 1.0, middle + 1.0]), rtol=1e-12)
    full = TruncatedLogisticRegression(
        kernel="rbf", zone=1.0, costs={0: 1.0, 1: 4.0}, tol=1e-9
    ).fit(X, y)
    end = clone(found).set_params(tol=0.0).fit(X, y)
    assert end.objective_ == pytest.approx(full.objective_, rel=1e-6)


# ------------------------------------------------------------------- candidates, blocks, removal


@pytest.mark.parametrize("selection", ["one-step", "exact", "power"])
def test_only_candidates_are_chosen(selection, monkeypatch):
    X, y = data(200)
    drawn = []
    plain = Growth._candidates

    def recorded(self):
        drawn.append(plain(self))
        return drawn[-1]

    monkeypatch.setattr(Growth, "_candidates", recorded)
    found = fit(X, y, n_candidates=10, selection=selection, max_import_points=8, random_state=0)
    assert len(drawn) >= 8
    for point, candidates in zip(found.import_points_, drawn, strict=False):
        assert len(np.unique(candidates)) == 10
        assert point in candidates
    assert len(np.unique(np.concatenate(drawn))) > 20  # drawn anew each time


def test_as_many_candidates_as_rows_are_all_rows():
    X, y = data(60)
    every = fit(X, y)
    for m in (60, 1000):
        found = fit(X, y, n_candidates=m, random_state=0)
        np.testing.assert_array_equal(found.import_points_, every.import_points_)


@pytest.mark.parametrize("n_candidates", [1, 2, 5])
def test_rows_that_are_chosen_already_do_not_end_the_growth(n_candidates):
    X, y = data(35)
    for seed in range(3):
        found = fit(
            X,
            y,
            gamma=20.0,  # each row has something to add
            n_candidates=n_candidates,
            max_import_points=30,
            tol=0.0,
            random_state=seed,
        )
        assert len(found.import_points_) == 30


def test_many_candidates_come_close_to_all_rows():
    X, y = data(300)
    every = fit(X, y, max_import_points=15, tol=0.0)
    some = fit(X, y, max_import_points=15, tol=0.0, n_candidates=60, random_state=0)
    assert every.objective_ <= some.objective_ * (1.0 + 1e-3)
    assert some.objective_ <= 1.05 * every.objective_


def test_blocks_come_close_to_single_points():
    X, y = data(200)
    single = fit(X, y, max_import_points=15, tol=0.0)
    blocks = fit(X, y, max_import_points=15, tol=0.0, points_per_step=3)
    assert blocks.n_iter_ == 5
    assert len(set(blocks.import_points_.tolist())) == 15
    assert blocks.import_points_[0] in single.import_points_
    assert blocks.objective_ <= 1.03 * single.objective_


def test_the_choice_by_power_is_the_steepest_direction():
    X, y = data(80)
    found = fit(X, y, gamma=1.0, C=3.0, selection="power", max_import_points=6, tol=0.0)
    K = gaussian_kernel(X, X, 1.0)
    plain = Plain(K, y, 3.0)
    S, A = [], plain.fit([])[1]
    for point in found.import_points_.tolist():
        residual = expit(plain.columns(S) @ A)[:, 0] - y
        slope = K @ residual + (K[:, S] @ A[:-1])[:, 0] / 3.0
        power = np.ones(80)
        if S:
            power -= np.sum(K[:, S] * np.linalg.solve(K[np.ix_(S, S)], K[S]).T, axis=1)
        power[S] = np.inf
        assert np.argmax(slope**2 / power) == point
        S.append(point)
        _, A = plain.fit(S)


def test_removal_leaves_points_out_for_the_better(kind):
    n_classes, parametrization = kind
    X, y = data(100, n_classes, seed=3)
    K = gaussian_kernel(X, X, 0.7)
    settings = {"C": 20.0, "gamma": 0.7, "parametrization": parametrization, "tol": 1e-5}
    found = fit(X, y, allow_removal=True, max_import_points=15, **settings)
    kept = fit(X, y, max_import_points=15, **settings)
    assert found.n_iter_ > len(found.import_points_)
    assert len(np.unique(found.import_points_)) == len(found.import_points_)
    assert found.objective_ < kept.objective_
    plain = Plain(K, y, 20.0, parametrization=parametrization)
    value, _ = plain.fit(found.import_points_.tolist())
    assert found.objective_ == pytest.approx(value, rel=1e-8)


# ----------------------------------------------------------------------------- early stopping


def hold_out(monkeypatch, train, out):
    monkeypatch.setattr(module, "split_rows", lambda *arguments: (train, out))


def test_the_model_with_the_least_held_out_loss_is_kept(kind):
    n_classes, parametrization = kind
    X, y = data(150, n_classes, noise=1.0)
    sizes = []
    for seed in range(4):
        found = fit(
            X,
            y,
            C=100.0,
            early_stopping=True,
            validation_fraction=0.3,
            tol=0.0,
            n_iter_no_change=4,
            parametrization=parametrization,
            random_state=seed,
        )
        path, size = found.held_out_path_, len(found.import_points_)
        assert path.shape == found.objective_path_.shape == (found.n_iter_,)
        assert len(path) == size + 4  # so many more were looked at
        sizes.append(size)
        if size:  # no point at all may be best, too
            assert size == 1 + np.argmin(path)
            assert found.objective_ == found.objective_path_[size - 1]
    assert np.count_nonzero(sizes) >= 2


def test_held_out_losses_are_those_of_plain_fits(monkeypatch, kind):
    n_classes, parametrization = kind
    X, y = data(90, n_classes, noise=1.0)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=90)
    out = np.arange(0, 90, 3)
    train = np.setdiff1d(np.arange(90), out)
    hold_out(monkeypatch, train, out)
    settings = {"C": 20.0, "gamma": 0.5, "parametrization": parametrization, "tol": 0.0}
    found = fit(X, y, weight, early_stopping=True, **settings)
    assert found.n_iter_ >= 3
    for k in range(1, found.n_iter_ + 1):
        plain = fit(X[train], y[train], weight[train], max_import_points=k, **settings)
        loss = log_loss(y[out], plain.predict_proba(X[out]), sample_weight=weight[out])
        assert found.held_out_path_[k - 1] == pytest.approx(loss, rel=1e-7)
        assert found.objective_path_[k - 1] == pytest.approx(plain.objective_, rel=1e-9)
        if k == len(found.import_points_):
            np.testing.assert_array_equal(found.import_points_, train[plain.import_points_])
            np.testing.assert_allclose(
                found.decision_function(X), plain.decision_function(X), atol=1e-7
            )
    np.testing.assert_array_equal(np.isin(found.import_points_, out), False)


def test_held_out_rows_are_a_stratified_share(monkeypatch):
    X, y = data(200)
    y[:] = np.arange(200) % 10 == 0  # 20 of class 1
    splits, plain = [], module.split_rows

    def recorded(*arguments):
        splits.append(plain(*arguments))
        return splits[-1]

    monkeypatch.setattr(module, "split_rows", recorded)
    for share in (0.1, 0.25):
        fit(X, y, early_stopping=True, validation_fraction=share, random_state=0)
        train, out = splits[-1]
        np.testing.assert_array_equal(np.sort(np.concatenate([train, out])), np.arange(200))
        assert len(out) == 200 * share
        assert y[out].sum() == 20 * share


def test_without_anything_to_learn_no_point_is_kept(monkeypatch):
    X, _ = data(60)
    y, out = np.arange(60) % 2, np.arange(20)
    # on the rows held out everything is the other way round
    y[20:], y[:20] = X[20:, 0] > 0.0, X[:20, 0] <= 0.0
    hold_out(monkeypatch, np.arange(20, 60), out)
    found = fit(X, y, early_stopping=True)
    assert found.import_points_.shape == (0,)
    assert found.dual_coef_.shape == (1, 0)
    assert found.import_vectors_.shape == (0, 2)
    assert found.n_iter_ == len(found.held_out_path_) == 3
    prior = y[20:].mean()
    np.testing.assert_allclose(found.predict_proba(X)[:, 1], prior, rtol=1e-6)
    assert found.objective_ == pytest.approx(without_points(y[20:]), rel=1e-8)


def test_early_stopping_is_reproducible():
    X, y = data(100, noise=1.0)
    first, again, other = (
        fit(X, y, early_stopping=True, validation_fraction=0.3, random_state=seed)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.held_out_path_, again.held_out_path_)
    assert first.held_out_path_.tolist() != other.held_out_path_.tolist()


def test_early_stopping_needs_two_rows_of_each_class():
    X, _ = data(30)
    y = np.where(np.arange(30) == 4, "rare", "common")
    with pytest.raises(ValueError, match=r"two rows of each class; class .*'rare'.* has 1"):
        fit(X, y, early_stopping=True)
    fit(X, y)
    # a row without weight is no row
    y[5] = "rare"
    with pytest.raises(ValueError, match=r"two rows of each class; class .*'rare'.* has 1"):
        fit(X, y, np.arange(30) != 5, early_stopping=True)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.9, 0.97])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_two_rows_of_a_class_are_enough_to_stop_early(share, n_classes):
    X, _ = data(60)
    y = np.zeros(60, dtype=int)
    for k in range(1, n_classes):
        y[2 * k : 2 * k + 2] = k
    for seed in range(3):
        found = fit(X, y, early_stopping=True, validation_fraction=share, random_state=seed, C=10.0)
        assert np.isfinite(found.predict_proba(X)).all()
        assert np.isfinite(found.held_out_path_).all()


# ------------------------------------------------------------------------ memory and precision


def peak_of(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("selection", ["one-step", "power"])
def test_memory_is_that_of_rows_times_points(selection):
    n, q, m = 20_000, 20, 100
    X, y = data(n, d=5, noise=1.0)
    model = ImportVectorMachine(
        C=10.0,
        n_candidates=m,
        max_import_points=q,
        tol=0.0,
        selection=selection,
        random_state=0,
    )
    peak = peak_of(lambda: model.fit(X, y))
    assert len(model.import_points_) == q
    assert peak < 8 * n * (m + q)
    # room for 32 columns, those of the finalists, kernel factors and vectors
    assert peak < 8 * n * 5 * q


def test_no_kernel_matrix_of_all_rows():
    n, q = 6_000, 5
    X, y = data(n, d=3, noise=1.0)
    model = ImportVectorMachine(C=10.0, max_import_points=q, tol=0.0)
    peak = peak_of(lambda: model.fit(X, y))
    assert len(model.import_points_) == q
    # a tenth of the kernel matrix in single precision
    assert peak < 0.1 * 4 * n**2


@pytest.mark.parametrize("n_candidates", [None, 900])
def test_nearly_spanned_rows_are_told_apart_in_double_precision(n_candidates, monkeypatch):
    # a wide kernel: after a few points next to nothing is left of any row, but much to be gained
    X, y = data(1200, d=2)
    model = ImportVectorMachine(
        C=1e4,
        gamma=0.05,
        n_candidates=n_candidates,
        max_import_points=25,
        tol=0.0,
        random_state=0,
    )
    single = clone(model).fit(X, y)
    monkeypatch.setattr(growth, "DOUBLE", len(y) ** 2)
    double = clone(model).fit(X, y)
    assert len(single.import_points_) == len(double.import_points_) == 25
    assert single.objective_ == pytest.approx(double.objective_, rel=0.01)


def test_a_million_kernel_values_are_still_in_double_precision(monkeypatch):
    dtypes, plain = [], basis.NewtonBasis.__init__

    def recorded(self, kernel, pool, dtype, many):
        dtypes.append(dtype)
        plain(self, kernel, pool, dtype, many)

    monkeypatch.setattr(basis.NewtonBasis, "__init__", recorded)
    X, y = data(2000)
    for m in (500, 501):
        fit(X, y, n_candidates=m, max_import_points=1, random_state=0)
    assert dtypes == [np.float64, np.float32]


# ------------------------------------------------------------- criterion and gap, from outside

# With a limit on the points, for speed; all that is not asked for here is the default.
SETTINGS = {
    "plain": {},
    "no intercept": {"fit_intercept": False},
    "large C": {"C": 1e4},
    "small C": {"C": 1e-3},
    "all points": {"tol": 0.0, "gamma": 2.0, "max_import_points": None},
    "blocks": {"points_per_step": 4},
    "power": {"selection": "power"},
    "removal": {"allow_removal": True, "tol": 1e-4, "C": 20.0, "max_import_points": 8},
    "zone": {"zone": 1.0},
    "zone, removal": {"zone": 0.5, "allow_removal": True, "tol": 1e-4, "max_import_points": 6},
    "zone, no intercept": {"zone": 1.0, "fit_intercept": False},
    "early": {"early_stopping": True, "random_state": 0},
    "candidates": {"n_candidates": 20, "random_state": 0},
    "laplacian": {"kernel": "laplacian"},
    "poly": {"kernel": "poly", "coef0": 1.0, "degree": 2},
}


def kernel_matrix(found, X):
    if found.kernel == "laplacian":
        return kernels.laplacian_kernel(X, gamma=found.gamma)
    if found.kernel == "poly":
        return kernels.polynomial_kernel(X, None, found.degree, found.gamma, found.coef0)
    return gaussian_kernel(X, X, found.gamma)


def losses(found, y, scores):
    """Loss of each row, the truncated one where there is a zone."""
    if len(found.classes_) == 2:
        p_min, p_max = found.zone_
        with np.errstate(divide="ignore"):
            floor = np.where(y == 1, np.log1p(-p_max) - np.log(p_max), np.log(p_min))
            floor -= np.where(y == 1, 0.0, np.log1p(-p_min))
        u = np.where(y == 1, -1.0, 1.0) * scores[:, 0]
        return np.logaddexp(0.0, np.maximum(u, floor))
    own = scores[np.arange(len(y)), y]
    return np.maximum(logsumexp(scores, axis=1) - own, -np.log(found.zone_)[y])


@pytest.mark.parametrize("name", SETTINGS)
def test_the_criterion_from_the_coefficients(name, kind):
    n_classes, parametrization = kind
    X, y = data(70, n_classes)
    weight = np.random.default_rng(0).uniform(0.3, 2.0, 70)
    settings = {"gamma": 0.6, "max_import_points": 10, **SETTINGS[name]}
    found = fit(X, y, weight, parametrization=parametrization, **settings)
    K = kernel_matrix(found, X)
    S, a = found.import_points_, found.dual_coef_
    scores = K[:, S] @ a.T + found.intercept_
    reported = found.decision_function(X).reshape(70, -1)
    np.testing.assert_allclose(reported, scores, rtol=1e-9, atol=1e-9)
    n_outputs = 1 if n_classes == 2 else n_classes
    assert a.shape == (n_outputs, S.size)
    assert found.intercept_.shape == (n_outputs,)
    if not found.fit_intercept:
        np.testing.assert_array_equal(found.intercept_, 0.0)
    if parametrization == "reference":
        np.testing.assert_array_equal(a[-1], 0.0)
        assert found.intercept_[-1] == 0.0
    np.testing.assert_array_equal(found.import_vectors_, X[S])
    if found.early_stopping:
        return  # which rows were summed over is not told
    fitness = weight @ losses(found, y, scores)
    norm = np.sum(a * (a @ K[np.ix_(S, S)]))
    assert found.objective_ == pytest.approx(fitness + 0.5 * norm / found.C, rel=1e-9)
    assert found.objective_ == found.objective_path_[-1]


@pytest.mark.parametrize("name", ["plain", "no intercept", "small C", "blocks", "removal", "power"])
def test_the_model_is_the_optimum_on_its_points(name, kind):
    n_classes, parametrization = kind
    X, y = data(70, n_classes)
    weight = np.random.default_rng(0).uniform(0.3, 2.0, 70)
    settings = {"gamma": 0.6, "max_import_points": 10, **SETTINGS[name]}
    found = fit(X, y, weight, parametrization=parametrization, **settings)
    K = kernel_matrix(found, X)
    plain = Plain(K, y, found.C, weight, found.fit_intercept, parametrization)
    value, _ = plain.fit(found.import_points_.tolist())
    assert found.objective_ == pytest.approx(value, rel=1e-8)
    # the gap bounds what is missing, up to the rounding of the difference
    assert found.objective_ - value <= (found.dual_gap_ + 1e-13) * found.objective_
    assert 0.0 <= found.dual_gap_ <= 1e-5


def span_of(K, S):
    """Orthonormal features of the functions spanned by S."""
    R = cholesky(K[np.ix_(S, S)], lower=True)
    return solve_triangular(R, K[S], lower=True).T


@pytest.mark.parametrize("accuracy", [1e-8, 1e-3])
def test_the_gap_is_the_criterion_minus_its_dual(accuracy, kind, monkeypatch):
    # without an intercept the dual point is that of the slopes: nothing has to be balanced
    n_classes, parametrization = kind
    monkeypatch.setattr(refit, "ACCURACY", accuracy)
    X, y = data(100, n_classes)
    weight = np.random.default_rng(0).uniform(0.3, 2.0, 100)
    found = fit(
        X,
        y,
        weight,
        C=3.0,
        gamma=0.6,
        fit_intercept=False,
        parametrization=parametrization,
        selection="power",
        max_import_points=9,
    )
    K, S = kernel_matrix(found, X), found.import_points_
    scores = K[:, S] @ found.dual_coef_.T
    full = np.column_stack([np.zeros(100), scores]) if n_classes == 2 else scores
    P = softmax(full, axis=1)
    # the dual of -log p_y at the gradient P - Y is the negative entropy of P
    residual = weight[:, None] * (P - np.eye(n_classes)[y])
    if n_classes == 2:
        residual = residual[:, 1:]
    elif parametrization == "reference":
        residual = residual[:, :-1]
    pulled = span_of(K, S).T @ residual
    dual = -weight @ np.sum(xlogy(P, P), axis=1) - 0.5 * found.C * np.sum(pulled**2)
    a = found.dual_coef_
    primal = weight @ losses(found, y, scores) + 0.5 * np.sum(a * (a @ K[np.ix_(S, S)])) / found.C
    gap = (primal - dual) / primal
    assert found.dual_gap_ == pytest.approx(gap, rel=1e-6, abs=1e-13)
    if accuracy == 1e-3:
        assert gap > 1e-9  # there was something to compare


@pytest.mark.parametrize("zone", [None, 1.0, (0.3, 0.9)])
@pytest.mark.parametrize("accuracy", [1e-8, 1e-3])
def test_the_gap_bounds_what_is_missing(zone, accuracy, monkeypatch):
    monkeypatch.setattr(refit, "ACCURACY", accuracy)
    X, y = data(100)
    found = fit(X, y, C=5.0, zone=zone, selection="power", max_import_points=9, gamma=0.5)
    K = gaussian_kernel(X, X, 0.5)
    best = TruncatedLogisticRegression(C=5.0, zone=zone, tol=1e-12).fit(
        span_of(K, found.import_points_), y
    )
    assert found.objective_ >= best.objective_ * (1.0 - 1e-11)
    assert found.objective_ - best.objective_ <= (found.dual_gap_ + 1e-11) * found.objective_
    assert found.dual_gap_ <= 10.0 * accuracy


# ------------------------------------------------------------------------------------- kernels

KERNELS = {
    "rbf": ({"gamma": 0.4}, lambda A, B: kernels.rbf_kernel(A, B, 0.4)),
    "rbf, scale": ({}, None),
    "rbf, auto": ({"gamma": "auto"}, lambda A, B: kernels.rbf_kernel(A, B, 0.25)),
    # fewer points than features: with as many, any row completes the span
    "linear": ({"kernel": "linear", "max_import_points": 3}, lambda A, B: A @ B.T),
    "poly": (
        {"kernel": "poly", "gamma": 0.4, "coef0": 1.0, "degree": 2},
        lambda A, B: kernels.polynomial_kernel(A, B, 2, 0.4, 1.0),
    ),
    "laplacian": (
        {"kernel": "laplacian", "gamma": 0.4},
        lambda A, B: kernels.laplacian_kernel(A, B, 0.4),
    ),
    # nearly linear: a sigmoid of larger arguments is not positive semi-definite
    "sigmoid": (
        {"kernel": "sigmoid", "gamma": 1e-5, "C": 1e5, "max_import_points": 3},
        lambda A, B: kernels.sigmoid_kernel(A, B, 1e-5, 0.0),
    ),
}


@pytest.fixture(params=KERNELS)
def kernel(request):
    parameters, function = KERNELS[request.param]
    if function is None:

        def function(A, B):
            return kernels.rbf_kernel(A, B, 1.0 / (4.0 * many[0].var()))

    many = data(90, d=4)
    return {"max_import_points": 6, "tol": 0.0, **parameters}, function, many


def test_a_kernel_by_name_is_its_matrix(kernel):
    parameters, function, (X, y) = kernel
    named = fit(X, y, **parameters)
    new = np.random.default_rng(5).normal(size=(20, 4))
    others = {"C": named.C, "max_import_points": named.max_import_points, "tol": 0.0}
    given = fit(function(X, X), y, kernel="precomputed", **others)
    called = fit(X, y, kernel=function, **others)
    for model, rows in ((given, function(new, X)), (called, new)):
        np.testing.assert_array_equal(model.import_points_, named.import_points_)
        assert_same_function_values(model, rows, named, new)
        np.testing.assert_allclose(model.objective_path_, named.objective_path_, rtol=1e-9)
    assert given.import_vectors_.size == 0
    assert given.__sklearn_tags__().input_tags.pairwise
    assert not named.__sklearn_tags__().input_tags.pairwise


def assert_same_function_values(one, rows, other, others, atol=1e-8):
    np.testing.assert_allclose(
        one.decision_function(rows), other.decision_function(others), rtol=0.0, atol=atol
    )


def test_a_kernel_function_may_keep_what_it_returns():
    X, y = data()
    known = {}

    def remembered(A, B):
        key = (A.tobytes(), B.tobytes())
        if key not in known:
            known[key] = kernels.rbf_kernel(A, B, 0.5)
            known[key].setflags(write=False)
        return known[key]

    found, named = fit(X, y, kernel=remembered), fit(X, y, gamma=0.5)
    np.testing.assert_array_equal(found.import_points_, named.import_points_)
    assert_same_function_values(found, X, named, X)


def test_a_kernel_function_of_another_shape_is_told():
    X, y = data()
    with pytest.raises(ValueError, match="returned an array of shape"):
        fit(X, y, kernel=lambda A, B: np.ones((len(A), 1)))


def test_a_kernel_matrix_that_is_not_definite_is_told():
    X, y = data(40)
    K = gaussian_kernel(X, X, 0.5)
    cases = {
        "the sign turned": -K,
        "a negative square": K - 1.2 * np.eye(40),
        "too large off the diagonal": K + 2.0 * (np.ones((40, 40)) - np.eye(40)),
        "random": (lambda A: A + A.T)(np.random.default_rng(0).normal(size=(40, 40))),
    }
    for bad in cases.values():
        with pytest.raises(ValueError, match="not positive semi-definite"):
            fit(bad, y, kernel="precomputed", tol=0.0)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        fit(X, y, kernel="sigmoid", gamma=3.0, coef0=-1.0, tol=0.0)
    with pytest.raises(ValueError, match="symmetric"):
        fit(np.triu(K), y, kernel="precomputed")
    with pytest.raises(ValueError, match="square"):
        fit(K[:, :30], y, kernel="precomputed")


def test_features_that_say_nothing():
    y = np.arange(30) % 3 == 0
    for kernel in ("rbf", "linear", "poly"):
        found = fit(np.zeros((30, 2)), y, kernel=kernel)
        np.testing.assert_allclose(found.predict_proba(np.ones((4, 2)))[:, 1], 1 / 3, atol=1e-6)
        assert found.objective_ == pytest.approx(without_points(y.astype(int)), rel=1e-8)


def test_the_linear_kernel_ends_with_as_many_points_as_features():
    X, y = data(80, d=4)
    found = fit(X, y, kernel="linear", tol=0.0)
    assert len(found.import_points_) == 4
    full = TruncatedLogisticRegression(zone=None, tol=1e-10).fit(X, y)
    assert found.objective_ == pytest.approx(full.objective_, rel=1e-8)
    np.testing.assert_allclose(
        found.dual_coef_ @ found.import_vectors_, full.coef_, rtol=0.0, atol=1e-3
    )


def test_no_intercept(kind):
    n_classes, parametrization = kind
    X, y = data(100, n_classes)
    found = fit(X, y, gamma=0.6, fit_intercept=False, parametrization=parametrization)
    np.testing.assert_array_equal(found.intercept_, 0.0)
    plain = Plain(kernel_matrix(found, X), y, intercept=False, parametrization=parametrization)
    value, _ = plain.fit(found.import_points_.tolist())
    assert found.objective_ == pytest.approx(value, rel=1e-8)


# -------------------------------------------------------------------------------- many classes


def test_the_reference_is_the_last_class():
    X, y = data(90, 3)
    symmetric = fit(X, y, max_import_points=6, tol=0.0)
    np.testing.assert_array_equal(
        fit(X, 2 - y, max_import_points=6, tol=0.0).import_points_, symmetric.import_points_
    )
    by_last, by_first = (
        fit(X, labels, parametrization="reference", max_import_points=6, tol=0.0)
        for labels in (y, 2 - y)
    )
    # the penalty of the reference class is left out: another one is another problem
    assert abs(by_last.objective_ / by_first.objective_ - 1.0) > 1e-6
    assert by_last.objective_ >= symmetric.objective_ or by_last.import_points_.tolist() != (
        symmetric.import_points_.tolist()
    )


def test_two_classes_have_one_parametrization():
    X, y = data()
    one, other = (fit(X, y, parametrization=p) for p in ("symmetric", "reference"))
    np.testing.assert_array_equal(one.import_points_, other.import_points_)
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)


def test_symmetric_scores_sum_to_zero():
    X, y = data(100, 4)
    found = fit(X, y)
    # what all scores have in common is not paid for by the likelihood, but by the penalty
    np.testing.assert_allclose(found.dual_coef_.sum(axis=0), 0.0, atol=1e-6)
    proba = found.predict_proba(X)
    np.testing.assert_allclose(proba, softmax(found.decision_function(X), axis=1), rtol=1e-12)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(found.predict_log_proba(X), np.log(proba), rtol=1e-9)


def test_caps_of_three_classes():
    X, y = data(40, 3)
    caps = {0: 0.6, 1: 0.8, 2: 0.9}
    found = fit(X, y, zone=caps, tol=0.0, gamma=1.0)
    np.testing.assert_allclose(found.zone_, [0.6, 0.8, 0.9])
    full = TruncatedLogisticRegression(kernel="rbf", gamma=1.0, zone=caps, tol=1e-9).fit(X, y)
    assert found.objective_ == pytest.approx(full.objective_, rel=1e-6)


# ---------------------------------------------------------------------------- kinds of labels


# ------------------------------------------------------------------------------ bad parameters

BAD = {
    "C of 0": ({"C": 0.0}, "C must be a finite number > 0; got 0"),
    "C inf": ({"C": np.inf}, "C must be a finite number > 0; got inf"),
    "C as a string": ({"C": "1"}, "C must be a finite number > 0; got '1'"),
    "unknown kernel": ({"kernel": "round"}, "kernel must be one of 'linear'.*; got 'round'"),
    "no kernel": ({"kernel": None}, "kernel must be one of 'linear'.*; got None"),
    "gamma negative": ({"gamma": -1.0}, "gamma must be a finite number > 0; got -1"),
    "gamma unknown": ({"gamma": "wide"}, "gamma must be one of 'scale', 'auto'; got 'wide'"),
    "degree 0": ({"kernel": "poly", "degree": 0}, "degree must be an integer >= 1; got 0"),
    "coef0 nan": ({"kernel": "poly", "coef0": np.nan}, "coef0 must be a finite number; got nan"),
    "no points": ({"max_import_points": 0}, "max_import_points must be an integer >= 1; got 0"),
    "half a point": ({"max_import_points": 2.5}, "max_import_points must be .*got 2.5"),
    "points as a flag": ({"max_import_points": True}, "max_import_points must be .*got True"),
    "unknown selection": (
        {"selection": "best"},
        "selection must be one of 'one-step', 'exact', 'power'; got 'best'",
    ),
    "no candidates": ({"n_candidates": 0}, "n_candidates must be an integer >= 1; got 0"),
    "half a candidate": ({"n_candidates": 0.5}, "n_candidates must be .*got 0.5"),
    "empty blocks": ({"points_per_step": 0}, "points_per_step must be an integer >= 1; got 0"),
    "no block size": (
        {"points_per_step": None},
        "points_per_step must be an integer >= 1; got None",
    ),
    "exact blocks": (
        {"selection": "exact", "points_per_step": 2},
        "selection='exact' .*points_per_step must then be 1, got 2",
    ),
    "empty zone": ({"zone": (0.7, 0.3)}, "p_min < p_max; got p_min=0.7, p_max=0.3"),
    "negative zone": ({"zone": -1.0}, "zone must be a finite number > 0; got -1"),
    "tol negative": ({"tol": -1e-3}, "tol must be a finite number >= 0; got -0.001"),
    "tol nan": ({"tol": np.nan}, "tol must be a finite number.*; got nan"),
    "tol None": ({"tol": None}, "tol must be a finite number.*; got None"),
    "no lag": ({"n_iter_no_change": 0}, "n_iter_no_change must be an integer >= 1; got 0"),
    "fraction 0": ({"validation_fraction": 0.0}, "validation_fraction must be between 0 and 1"),
    "fraction 1": ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1"),
    "fraction as a word": ({"validation_fraction": "some"}, "validation_fraction must be .*'some'"),
    "unknown parametrization": (
        {"parametrization": "last"},
        "parametrization must be one of 'symmetric', 'reference'; got 'last'",
    ),
    "unknown costs": ({"costs": "cheap"}, "costs='cheap' is not known"),
    "cost missing": ({"costs": {0: 1.0}}, r"costs has no entry for \[1\]"),
    "class weight negative": ({"class_weight": {0: -1.0, 1: 1.0}}, "class_weight must give"),
    "class weight unknown": ({"class_weight": "heavy"}, "class_weight"),
    "seed": ({"random_state": "lucky"}, "cannot be used to seed"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_told_and_leave_no_trace(name):
    parameters, message = BAD[name]
    X, y = data(40)
    fresh = ImportVectorMachine(**parameters)
    before = frozen(fresh)
    with pytest.raises(ValueError, match=message):
        fresh.fit(X, y)
    assert_as_before(fresh, before)
    fitted = fit(X, y, max_import_points=3)
    predicted = fitted.predict_proba(X)
    fitted.set_params(**parameters)
    before = frozen(fitted)
    with pytest.raises(ValueError, match=message):
        fitted.fit(X[:, :1], y)
    assert_as_before(fitted, before)
    np.testing.assert_array_equal(fitted.set_params(kernel="rbf").predict_proba(X), predicted)


# ------------------------------------------------------------------------------------ callbacks


@pytest.fixture
def callbacks():
    pytest.importorskip("sklearn.callback")


LISTENED = {
    "plain": {"tol": 1e-2},
    "blocks": {"tol": 1e-2, "points_per_step": 3},
    "removal": {"allow_removal": True, "C": 20.0, "tol": 1e-4, "max_import_points": 8},
    "early stopping": {"early_stopping": True, "random_state": 0, "C": 20.0},
}


@pytest.mark.usefixtures("callbacks")
@pytest.mark.parametrize("name", LISTENED)
def test_callbacks_hear_of_rounds(name, kind):
    n_classes, parametrization = kind
    X, y = data(80, n_classes)
    recording = Recording("round")
    found = ImportVectorMachine(parametrization=parametrization, **LISTENED[name])
    alone = clone(found).fit(X, y)
    found.set_callbacks(recording).fit(X, y)
    assert recording.kinds("fit") == ["setup", "begin", "end", "teardown"]
    assert recording.kinds("round") == ["begin", "end"] * found.n_iter_
    numbers = [n for kind, task, n, _ in recording.calls if (kind, task) == ("end", "round")]
    assert numbers == list(range(found.n_iter_))
    assert [facts["objective"] for facts in recording.facts] == found.objective_path_.tolist()
    points = [facts["n_import_points"] for facts in recording.facts]
    if name in ("plain", "blocks"):
        step = LISTENED[name].get("points_per_step", 1)
        assert points == list(range(step, step * found.n_iter_ + 1, step))
    if name != "early stopping":
        assert points[-1] == len(found.import_points_)
    # and that somebody listens changes nothing
    np.testing.assert_array_equal(found.dual_coef_, alone.dual_coef_)
    np.testing.assert_array_equal(found.import_points_, alone.import_points_)
    assert vars(found).keys() - vars(alone).keys() == {"_skl_callbacks"}


@pytest.mark.usefixtures("callbacks")
def test_a_callback_may_stop_the_growth():
    X, y = data()
    found = ImportVectorMachine(tol=0.0).set_callbacks(Recording("round", stop_at=4)).fit(X, y)
    assert found.n_iter_ == len(found.import_points_) == 4
    np.testing.assert_array_equal(
        found.dual_coef_, fit(X, y, tol=0.0, max_import_points=4).dual_coef_
    )
