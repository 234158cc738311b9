"""Costs of each row in fits and decisions: against oracles, constant rows, and every carrier."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from carriers import CARRIERS, GPU, NAMES, PARTS, plain, rows
from oracle import (
    BinaryProblem,
    SoftmaxProblem,
    alpha_from_dual_coef,
    kernel_features,
    primal_value,
    relative_gap,
    solve_binary,
    solve_softmax,
    zone_floor,
)
from scipy.optimize import minimize
from scipy.special import expit, log_expit, log_softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import (
    ImportVectorMachine,
    TightBoundClassifier,
    TightBoundLogisticRegression,
    TightBoundLogisticRegressionCV,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.decision import bayes_decision, cost_matrices
from grayzone.solvers.truncated import streamed
from grayzone.sources import Block, Source, from_batches, open_npy, open_parquet

# costs of random rows reach further than the zones of some of the models here
pytestmark = pytest.mark.filterwarnings("ignore:The costs of")


def data(n=120, K=2, seed=0, n_features=4):
    """Return rows, labels, and what errors about rows cost, (n, K)."""
    X, y = make_classification(
        n, n_features, n_informative=n_features, n_redundant=0, n_classes=K, flip_y=0.2,
        n_clusters_per_class=1, random_state=seed,
    )  # fmt: skip
    errors = np.random.default_rng(seed).lognormal(sigma=0.7, size=(n, K))
    errors[:, 0] *= 3.0
    return X, y, errors


def mapping(errors):
    return dict(enumerate(errors.T))


def constant(matrix, n):
    return np.broadcast_to(np.asarray(matrix, dtype=float), (n, *np.shape(matrix)))


# ------------------------------------------------------------------------------------------
# Oracles
# ------------------------------------------------------------------------------------------


def of_stakes(weight, errors):
    """Return weights times stakes, which are mean costs of errors, relative to their mean."""
    stakes = errors.mean(axis=1)
    return weight * stakes / (weight @ stakes / weight.sum())


def binary_problem(features, y, weight, errors, model):
    """Return the problem that a model is to solve, from the definitions alone."""
    sign = np.where(y == 1, 1.0, -1.0)
    thresholds = errors[:, 0] / errors.sum(axis=1)
    floor = zone_floor(sign, model.zone, thresholds if np.ndim(model.zone) == 0 else 0.5)
    weight = of_stakes(weight, errors)
    if model.class_weight is not None:
        weight = weight * np.array([model.class_weight[0], model.class_weight[1]])[y]
    return BinaryProblem(features, sign, weight, floor, model.C, model.fit_intercept)


LINEAR = [
    {},
    {"zone": 0.3},
    {"zone": 2.5, "C": 10.0},
    {"zone": None},
    {"zone": (0.2, 0.7)},
    {"C": 0.01},
    {"C": 100.0, "fit_intercept": False},
    {"class_weight": {0: 2.0, 1: 0.5}},
    {"solver": "primal", "tol": 1e-10},
    {"solver": "active-set", "zone": 1.5},
]


@pytest.mark.parametrize("weighs", [False, True])
@pytest.mark.parametrize("parameters", LINEAR, ids=str)
def test_linear_fits_are_the_optimum(parameters, weighs):
    seed = LINEAR.index(parameters)
    X, y, errors = data(80, seed=seed)
    weight = np.random.default_rng(seed).uniform(0.3, 2.0, 80) if weighs else np.ones(80)
    model = TruncatedLogisticRegression(**{"tol": 1e-12, **parameters})
    model.fit(X, y, weight, example_costs=mapping(errors))
    problem = binary_problem(X, y, weight, errors, model)
    solution = solve_binary(problem)
    assert solution.gap <= 1e-9
    assert model.objective_ == pytest.approx(solution.objective, rel=1e-8)
    value = primal_value(problem, model.coef_, model.intercept_[0])
    assert model.objective_ == pytest.approx(value, rel=1e-12)
    assert 0.0 <= model.dual_gap_ <= 1e-9


@pytest.mark.parametrize("zone", [None, 0.5, 1.0])
@pytest.mark.parametrize(
    ("parameters", "values"),
    [
        ({"kernel": "rbf", "gamma": 0.3}, lambda X: rbf_kernel(X, gamma=0.3)),
        (
            {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 2},
            lambda X: polynomial_kernel(X, degree=2, gamma=0.3, coef0=1.0),
        ),
    ],
    ids=["rbf", "poly"],
)
def test_kernel_fits_are_the_optimum(parameters, values, zone):
    X, y, errors = data(70, seed=3)
    model = TruncatedLogisticRegression(zone=zone, tol=1e-12, **parameters)
    model.fit(X, y, example_costs=mapping(errors))
    problem = binary_problem(kernel_features(values(X)), y, np.ones(70), errors, model)
    assert model.objective_ == pytest.approx(solve_binary(problem).objective, rel=1e-8)
    assert model.dual_gap_ <= 1e-9


@pytest.mark.parametrize("zone", [None, 1.0, [0.5, 0.7, 0.9]])
def test_three_classes_are_the_optimum(zone):
    X, y, errors = data(80, K=3, seed=1)
    weight = np.random.default_rng(0).uniform(0.3, 2.0, 80)
    model = TruncatedLogisticRegression(zone=zone, tol=1e-12)
    model.fit(X, y, weight, example_costs=mapping(errors))
    cap = np.ones(3) if zone is None else np.broadcast_to(expit(1.0) if zone == 1.0 else zone, 3)
    problem = SoftmaxProblem(X, y, of_stakes(weight, errors), cap, 1.0, True)
    assert model.objective_ == pytest.approx(solve_softmax(problem).objective, rel=1e-8)
    assert model.dual_gap_ <= 1e-9


@pytest.mark.parametrize(
    ("n", "n_features", "parameters"),
    [
        (9000, 5, {}),  # from a part of the rows
        (9000, 5, {"zone": (0.2, 0.7)}),
        (60, 200, {}),  # more features than rows
        (700, 4, {"kernel": "rbf"}),  # block descent
        (200, 4, {"kernel": "rbf", "solver": "active-set"}),
        (500, 4, {"solver": "primal"}),
    ],
    ids=str,
)
def test_certificates_are_those_of_the_rows(n, n_features, parameters):
    X, y, errors = data(n, seed=2, n_features=n_features)
    model = TruncatedLogisticRegression(tol=1e-9, random_state=0, **parameters)
    model.fit(X, y, example_costs=mapping(errors))
    features = X
    if model.kernel == "rbf":
        features = kernel_features(rbf_kernel(X, gamma=1.0 / (n_features * X.var())))
    coef = model.dual_coef_ @ features[model.support_] if model.kernel == "rbf" else model.coef_
    problem = binary_problem(features, y, np.ones(n), errors, model)
    alpha = alpha_from_dual_coef(problem, model.support_, model.dual_coef_)
    gap = relative_gap(problem, coef, model.intercept_[0], alpha)
    value = primal_value(problem, coef, model.intercept_)
    assert model.objective_ == pytest.approx(value, rel=1e-8)
    assert abs(gap) <= 2e-9
    # what saturates, sticks to the hinge and is logarithmic, by the rows' own floors
    slope = expit(problem.floor)
    partition = (alpha > 0).astype(int) + (alpha > slope * (1.0 + 1e-9))
    assert np.mean(partition != model.partition_) < 0.01


def test_rows_given_up_by_a_ramp_are_beyond_their_own_zones():
    X, y, errors = data(300, seed=4)
    model = TruncatedLogisticRegression(loss="ramp", tol=1e-10)
    model.fit(X, y, example_costs=mapping(errors))
    u = -np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    middle = np.log(errors[:, 0] / errors[:, 1])
    floor = np.where(y == 1, -middle - 1.0, middle - 1.0)
    ceiling = np.where(y == 1, 1.0 - middle, 1.0 + middle)
    losses = np.logaddexp(0.0, np.clip(u, floor, ceiling))
    value = of_stakes(np.ones(300), errors) @ losses + 0.5 * np.sum(model.coef_**2)
    assert model.objective_ == pytest.approx(value, rel=1e-9)
    assert np.all(model.partition_[u > ceiling + 1e-6] == 0)


def policy_value(theta, X, y, errors, K, C):
    """Return J without its costs' unit, and the first bound, of rows that cost what they do."""
    A = 1 if K == 2 else K
    W = theta.reshape(A, -1)
    F = X @ W[:, :-1].T + W[:, -1]
    log_p = log_expit(np.column_stack([-F, F])) if K == 2 else log_softmax(F, axis=1)
    own = errors[np.arange(len(y)), y] / np.mean(errors[np.arange(len(y)), y])
    penalty = np.sum(W[:, :-1] ** 2) / (2.0 * C * K)
    log_own = log_p[np.arange(len(y)), y]
    first = penalty - np.sum(own * log_own) / K
    # K = 2: rewards of the class itself; more: all errors cost the same here
    return penalty + np.sum(own * (1.0 - np.exp(log_own))), first


@pytest.mark.parametrize("K", [2, 3])
def test_bounds_are_those_of_rewards_of_rows(K):
    X, y, errors = data(150, K=K, seed=5)
    unit = np.mean(errors[np.arange(150), y])
    one = TightBoundLogisticRegression(n_bounds=1, tol=1e-10)
    one.fit(X, y, example_costs=mapping(errors))
    theta = np.column_stack([one.coef_, one.intercept_]).ravel()
    found = minimize(
        lambda t: policy_value(t, X, y, errors, K, 1.0)[1], np.zeros(theta.size), method="BFGS",
        options={"gtol": 1e-7},
    )  # fmt: skip
    value, first = policy_value(theta, X, y, errors, K, 1.0)
    assert first <= found.fun * (1.0 + 1e-12)
    assert one.expected_error_path_[0] == pytest.approx(unit * value, rel=1e-12)
    more = TightBoundLogisticRegression(n_bounds=5, tol=1e-10)
    more.fit(X, y, example_costs=mapping(errors))
    assert np.all(np.diff(more.expected_error_path_) <= 0.0)
    theta = np.column_stack([more.coef_, more.intercept_]).ravel()
    value = policy_value(theta, X, y, errors, K, 1.0)[0]
    assert more.expected_error_path_[-1] == pytest.approx(unit * value, rel=1e-12)


# ------------------------------------------------------------------------------------------
# Constant rows are a cost matrix
# ------------------------------------------------------------------------------------------

Truncated, Bounds = TruncatedLogisticRegression, TightBoundLogisticRegression
PRICED = [[0.5, 3.0], [1.0, 0.2]]  # right decisions have a price, too
MODELS = [
    Truncated(),
    Truncated(zone=0.2, C=5.0),
    Truncated(zone=None),
    Truncated(zone=(0.1, 0.8)),
    Truncated(class_weight="balanced", fit_intercept=False),
    Truncated(C=np.inf),
    Truncated(loss="ramp"),
    Truncated(solver="primal"),
    Truncated(kernel="rbf"),
    Truncated(kernel="poly", solver="active-set"),
    Truncated(reject_cost=0.4),
    Truncated(reject_cost={0: 0.7, 1: 0.3}, zone=0.4),
    Bounds(),
    Bounds(n_bounds=3, solver="direct"),
    Bounds(reject_cost=0.4, n_bounds=3),
    Bounds(class_weight={0: 2.0, 1: 1.0}, n_bounds=1),
]


@pytest.mark.filterwarnings("ignore:class_weight='balanced' beside costs")
@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("matrix", [[[0.0, 1.0], [4.0, 0.0]], PRICED], ids=["errors", "priced"])
def test_constant_rows_are_the_cost_matrix(model, matrix):
    n = 80 if getattr(model, "solver", None) == "active-set" else 300
    X, y, _ = data(n, seed=6)
    weight = np.random.default_rng(6).uniform(0.5, 2.0, size=n)
    weight[:20] = 0.0
    one = clone(model).set_params(costs=matrix).fit(X, y, weight)
    all_rows = clone(model).fit(X, y, weight, example_costs=constant(matrix, n))
    for name in ("coef_", "dual_coef_", "intercept_", "cost_matrix_", "zone_", "threshold_"):
        if hasattr(one, name) and getattr(one, name) is not None:
            np.testing.assert_allclose(getattr(all_rows, name), getattr(one, name), atol=1e-10)
    np.testing.assert_allclose(all_rows.predict_proba(X), one.predict_proba(X), atol=1e-10)
    np.testing.assert_array_equal(all_rows.predict(X), one.predict(X))
    if isinstance(model, Truncated):
        decided = one.predict(X, example_costs=constant(matrix, n))
        np.testing.assert_array_equal(decided, one.predict(X))


@pytest.mark.parametrize("model", [Truncated(), Truncated(kernel="rbf"), Bounds()], ids=repr)
def test_constant_rows_of_three_classes(model):
    X, y, _ = data(300, K=3, seed=7)
    matrix = np.random.default_rng(0).uniform(1.0, 3.0, size=(3, 3)) * (1.0 - np.eye(3))
    one = clone(model).set_params(costs=matrix).fit(X, y)
    all_rows = clone(model).fit(X, y, example_costs=constant(matrix, 300))
    np.testing.assert_allclose(all_rows.predict_proba(X), one.predict_proba(X), atol=1e-10)
    np.testing.assert_array_equal(all_rows.predict(X), one.predict(X))


def test_constant_rows_of_bounds_around_any_model():
    X, y, _ = data(100, seed=8)
    machine = ImportVectorMachine(max_import_points=5)
    one = TightBoundClassifier(machine, n_bounds=2, costs={0: 1.0, 1: 3.0}).fit(X, y)
    all_rows = TightBoundClassifier(machine, n_bounds=2)
    all_rows.fit(X, y, example_costs={0: np.full(100, 2.0), 1: 6.0})
    np.testing.assert_allclose(all_rows.predict_proba(X), one.predict_proba(X), atol=1e-10)


# ------------------------------------------------------------------------------------------
# Laws
# ------------------------------------------------------------------------------------------

SOME = [Truncated(), Truncated(kernel="rbf"), Truncated(zone=None), Bounds(n_bounds=3)]


@pytest.mark.parametrize("model", SOME, ids=repr)
def test_rows_without_a_stake_have_no_influence(model):
    X, y, errors = data(200, seed=11)
    matrices = cost_matrices(mapping(errors), [0, 1])
    matrices[:50] = np.random.default_rng(0).uniform(size=(50, 2, 1))
    one = clone(model).set_params(tol=1e-12).fit(X, y, example_costs=matrices)
    other = clone(one).fit(X[50:], y[50:], example_costs=matrices[50:])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    if isinstance(model, Truncated):
        assert np.all(one.partition_[:50] == 0)


def test_rows_that_are_decided_whatever_they_are_have_no_zone():
    X, y, errors = data(200, seed=12)
    matrices = cost_matrices(mapping(errors), [0, 1])
    matrices[:30, 0, 1] = 0.0  # a threshold of zero
    matrices[30:60, 1, 1] = 2.0 * matrices[30:60, 1, 0]  # errors that are cheaper
    one = Truncated().fit(X, y, example_costs=matrices)
    other = Truncated().fit(X[60:], y[60:], example_costs=matrices[60:])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-8)
    decided = one.predict(X, example_costs=matrices)
    assert np.all(decided[:30] == 1)
    assert np.all(decided[30:60] == 0)


@pytest.mark.parametrize("K", [2, 3])
def test_decisions_are_those_of_each_row(K):
    X, y, errors = data(200, K=K, seed=13)
    model = Truncated(zone=None).fit(X, y)
    matrices = cost_matrices(mapping(errors), range(K))
    decided = model.predict(X, example_costs=mapping(errors))
    np.testing.assert_array_equal(decided, bayes_decision(model.predict_proba(X), matrices))
    expected = np.einsum("ni,nij->nj", model.predict_proba(X), matrices)
    np.testing.assert_array_equal(decided, expected.argmin(axis=1))


def test_unknown_costs_are_the_mean_costs():
    X, y, errors = data(200, seed=14)
    weight = np.random.default_rng(0).uniform(size=200)
    model = Truncated().fit(X, y, weight, example_costs=mapping(errors))
    mean = np.average(errors, axis=0, weights=weight)
    np.testing.assert_allclose(model.cost_matrix_, [[0.0, mean[0]], [mean[1], 0.0]])
    assert model.threshold_ == pytest.approx(mean[0] / mean.sum())
    np.testing.assert_array_equal(
        model.predict(X), (model.predict_proba(X)[:, 1] >= model.threshold_).astype(int)
    )


@pytest.mark.filterwarnings("error")
def test_thresholds_beyond_the_zones_of_the_fit_are_said():
    X, y, errors = data(200, seed=15)
    fitted_to_all = Truncated().fit(X, y)
    inside = {0: np.ones(200), 1: np.linspace(0.5, 2.0, 200)}
    fitted_to_all.predict(X, example_costs=inside)
    with pytest.warns(UserWarning, match="200 of 200 rows put their thresholds outside the zone"):
        fitted_to_all.predict(X, example_costs={0: np.ones(200), 1: 10.0})
    fitted_to_rows = Truncated().fit(X, y, example_costs=mapping(errors))
    fitted_to_rows.predict(X, example_costs=mapping(errors))
    Truncated(zone=None).fit(X, y).predict(X, example_costs=mapping(100.0**errors))


def test_a_constant_is_still_noticed():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), (rng.random(400) < 0.03).astype(int)
    errors = rng.uniform(0.9999, 1.0001, size=(400, 2))
    with pytest.warns(UserWarning, match="The fitted model is a constant"):
        Truncated().fit(X, y, example_costs=mapping(errors))


def test_no_fit_is_worse_than_a_constant():
    X, y, errors = data(300, seed=16)
    with pytest.warns(UserWarning, match="stopped at a relative duality gap"):
        early = Truncated(max_iter=1, C=1e8).fit(X * 1e9, y, example_costs=mapping(errors))
    weight, thresholds = of_stakes(np.ones(300), errors), errors[:, 0] / errors.sum(axis=1)
    sign = np.where(y == 1, 1.0, -1.0)
    floor = zone_floor(sign, 1.0, thresholds)
    scores = np.linspace(-5.0, 5.0, 1001)
    losses = np.logaddexp(0.0, np.maximum(-np.outer(scores, sign), floor)) @ weight
    assert early.objective_ <= losses.min() * (1.0 + 1e-9)


def test_warm_starts_and_pickles():
    X, y, errors = data(200, seed=17)
    model = Truncated(warm_start=True).fit(X, y)
    model.fit(X, y, example_costs=mapping(errors))
    fresh = Truncated().fit(X, y, example_costs=mapping(errors))
    np.testing.assert_allclose(model.coef_, fresh.coef_, atol=1e-8)
    again = pickle.loads(pickle.dumps(fresh))
    decided = again.predict(X, example_costs=mapping(errors))
    np.testing.assert_array_equal(decided, fresh.predict(X, example_costs=mapping(errors)))
    # and a fit without costs forgets them
    fresh.fit(X, y)
    np.testing.assert_array_equal(fresh.cost_matrix_, 1.0 - np.eye(2))


# ------------------------------------------------------------------------------------------
# Carriers
# ------------------------------------------------------------------------------------------


def priced_rows():
    X, y, weight = rows()
    errors = np.random.default_rng(0).lognormal(sigma=0.6, size=(150, 2)) * [1.0, 2.0]
    errors[5:9] = 0.0
    return X, y[2], weight, errors


def source_of(carrier, folder, X, y, weight, errors):
    """Return rows with their costs, in files or batches."""
    bad, good = errors.T
    if carrier == "Parquet":
        frame = CARRIERS["pandas"].X(X).assign(bad=bad, good=good)
        if y is not None:
            frame = frame.assign(label=y, weight=weight)
        frame.to_parquet(folder / "rows.parquet", row_group_size=60)
        columns = (None, None) if y is None else ("label", "weight")
        return open_parquet(
            folder / "rows.parquet", *columns, costs={0: "bad", 1: "good"}, block_rows=45
        )
    if carrier == "npy":
        for name, values in {"X": X, "y": y, "weight": weight, "good": good}.items():
            if values is not None:
                np.save(folder / f"{name}.npy", values)
        given = [folder / f"{name}.npy" for name in ("X", *(() if y is None else ("y", "weight")))]
        return open_npy(*given, costs={0: bad, 1: folder / "good.npy"}, block_rows=60)
    if carrier == "npy, array":
        np.save(folder / "X.npy", X)
        np.save(folder / "costs.npy", cost_matrices(mapping(errors), [0, 1]))
        return open_npy(folder / "X.npy", y, weight, costs=folder / "costs.npy", block_rows=60)

    def batches():
        for part in PARTS:
            some = (None if values is None else values[part] for values in (y, weight))
            X_part = sp.csr_array(X)[part] if "CSR" in carrier else X[part]
            yield (X_part, *some, {0: bad[part], 1: good[part]})

    return from_batches(batches)


def fit_arguments(carrier, folder, X, y, weight, errors):
    """Return what a fit is given, costs included."""
    if carrier in ("Parquet", "npy", "npy, array", "batches", "batches of CSR"):
        return (source_of(carrier, folder, X, y, weight, errors),)
    form, costs = CARRIERS[carrier], mapping(errors)
    if carrier == "Dask frame":
        costs = {label: form.y(column) for label, column in costs.items()}
    elif carrier != "pandas":
        costs = form.y(cost_matrices(costs, [0, 1]))
    return (*form.fit_arguments(folder, X, y, weight), costs)


def decisions(carrier, folder, model, X, errors):
    if carrier in ("Parquet", "npy", "npy, array", "batches", "batches of CSR"):
        source = source_of(carrier, folder, X, None, None, errors)
        return np.concatenate(list(model.predict(source)))
    given = fit_arguments(carrier, folder, X, None, None, errors)
    found = model.predict(given[0], example_costs=given[-1])
    return plain(found.compute() if hasattr(found, "compute") else found)


OTHERS = [
    "NumPy", "CSR", "pandas", "npy", "npy, array", "Parquet", "batches", "batches of CSR",
    "Dask array", "Dask frame", "PyTorch", "array-api-strict",
    *(pytest.param(name, marks=pytest.mark.gpu) for name in sorted(GPU) if "single" not in name),
]  # fmt: skip
CARRIED = {
    "linear": Truncated(tol=1e-14),
    "ramp": Truncated(loss="ramp", tol=1e-14),
    "kernel": Truncated(kernel="rbf", tol=1e-14),
    "bounds": Bounds(tol=1e-9, n_bounds=3),
    "undecided": Bounds(tol=1e-9, n_bounds=3, reject_cost=0.5),
}


@pytest.fixture(autouse=True, scope="module")
def one_thread_of_dask():
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("carrier", OTHERS)
@pytest.mark.parametrize("kind", CARRIED)
def test_the_model_is_that_of_numpy(kind, carrier, tmp_path):
    form = CARRIERS[carrier.split(", array")[0]]
    if form.missing() is not None:
        pytest.skip(form.missing())
    if kind == "kernel" and not form.held:
        pytest.skip("kernels take all rows at once")
    X, y, weight, errors = priced_rows()
    here = clone(CARRIED[kind]).fit(X, y, weight, example_costs=mapping(errors))
    with form.context():
        model = clone(CARRIED[kind])
        model.fit(*fit_arguments(carrier, tmp_path, X, y, weight, errors))
        for name in ("coef_", "dual_coef_", "intercept_", "cost_matrix_", "expected_error_path_"):
            if hasattr(here, name) and hasattr(model, name):
                found, expected = plain(getattr(model, name)), getattr(here, name)
                np.testing.assert_allclose(found, expected, atol=1e-8 * (1 + abs(expected).max()))
        if kind == "linear":
            expected = here.predict(X, example_costs=mapping(errors))
            staked = errors.sum(axis=1) > 0
            found = decisions(carrier, tmp_path, model, X, errors)
            np.testing.assert_array_equal(found[staked], expected[staked])


def test_features_are_not_costs(tmp_path):
    X, y, weight, errors = priced_rows()
    source = source_of("Parquet", tmp_path, X, y, weight, errors)
    assert source.feature_names.tolist() == NAMES
    asked_for = open_parquet(
        tmp_path / "rows.parquet", "label", columns=["age", "bad"], costs={0: "bad", 1: 2.0}
    )
    assert asked_for.feature_names.tolist() == ["age", "bad"]
    Truncated().fit(asked_for)


@pytest.mark.parametrize("model", [Truncated(tol=1e-13), Bounds(tol=1e-9)], ids=repr)
def test_streams_that_do_not_fit_in_memory(model, monkeypatch):
    X, y, errors = data(6000, seed=18, n_features=5)
    here = clone(model).fit(X, y, example_costs=mapping(errors))
    monkeypatch.setattr(streamed, "MOST_HELD", 5 * 2000)
    monkeypatch.setattr(streamed, "EXACT_ROWS", 500)

    def batches():
        for a in range(0, 6000, 750):
            yield X[a : a + 750], y[a : a + 750], None, mapping(errors[a : a + 750])

    model = clone(model).fit(from_batches(batches))
    np.testing.assert_allclose(model.coef_, here.coef_, atol=1e-5)
    if hasattr(model, "objective_"):
        assert model.objective_ == pytest.approx(here.objective_, rel=1e-10)


# ------------------------------------------------------------------------------------------
# Metadata
# ------------------------------------------------------------------------------------------


def test_pipelines_pass_costs_on():
    X, y, errors = data(200, seed=19)
    scaled = StandardScaler().fit_transform(X)
    model = Truncated().fit(scaled, y, example_costs=mapping(errors))
    expected = model.predict(scaled, example_costs=mapping(errors))
    with config_context(enable_metadata_routing=True):
        last = Truncated().set_fit_request(example_costs=True)
        pipe = make_pipeline(StandardScaler(), last.set_predict_request(example_costs=True))
        pipe.fit(X, y, example_costs=mapping(errors))
        found = pipe.predict(X, example_costs=mapping(errors))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(pipe[-1].coef_, model.coef_)


def test_searches_and_cross_validation_split_costs():
    X, y, errors = data(300, seed=20)
    matrices = cost_matrices(mapping(errors), [0, 1])
    with config_context(enable_metadata_routing=True):
        model = Truncated().set_fit_request(example_costs=True, sample_weight=False)
        search = GridSearchCV(model, {"C": [0.1, 1.0]}, cv=3, scoring="roc_auc")
        search.fit(X, y, example_costs=matrices)
        how = {"cv": KFold(3), "method": "predict_proba"}
        found = cross_val_predict(model, X, y, params={"example_costs": matrices}, **how)
    for train, test in KFold(3).split(X):
        fold = Truncated().fit(X[train], y[train], example_costs=matrices[train])
        np.testing.assert_allclose(found[test], fold.predict_proba(X[test]))
    best = clone(Truncated(**search.best_params_)).fit(X, y, example_costs=matrices)
    np.testing.assert_allclose(search.best_estimator_.coef_, best.coef_)


# ------------------------------------------------------------------------------------------
# Searches
# ------------------------------------------------------------------------------------------

SEARCHES = [
    {},
    {"kernel": "rbf"},
    {"reject_cost": 0.4},
    {"scoring": "neg_log_loss"},
]


@pytest.mark.parametrize("parameters", SEARCHES, ids=str)
def test_a_search_by_constant_rows_is_that_by_the_matrix(parameters):
    X, y, _ = data(150, seed=23)
    matrix = [[0.0, 1.0], [4.0, 0.0]]
    search = TruncatedLogisticRegressionCV(Cs=[0.1, 1.0], zones=(1.0, None), cv=3, **parameters)
    one = clone(search).set_params(costs=matrix).fit(X, y)
    all_rows = clone(search).fit(X, y, example_costs=constant(matrix, 150))
    np.testing.assert_allclose(all_rows.predict_proba(X), one.predict_proba(X), atol=1e-10)
    np.testing.assert_array_equal(all_rows.predict(X), one.predict(X))
    np.testing.assert_allclose(all_rows.scores_, one.scores_, atol=1e-10)
    score = all_rows.score(X, y, example_costs=constant(matrix, 150))
    assert score == pytest.approx(one.score(X, y))


def test_a_search_splits_costs_and_judges_by_them():
    X, y, errors = data(150, seed=24)
    search = TruncatedLogisticRegressionCV(Cs=[1.0], zones=(1.0,), cv=KFold(3))
    search.fit(X, y, example_costs=mapping(errors))
    paid = {"plain": [], "zone": []}
    for train, test in KFold(3).split(X):
        costs = mapping(errors[train])
        plain_fit = Truncated(zone=None).fit(X[train], y[train])
        zoned = Truncated().fit(X[train], y[train], example_costs=costs)
        for name, model in (("plain", plain_fit), ("zone", zoned)):
            wrong = model.predict(X[test], example_costs=mapping(errors[test])) != y[test]
            paid[name].append(np.where(wrong, errors[test, y[test]], 0.0))
    plain_cost, zone_cost = (np.concatenate(paid[name]) for name in ("plain", "zone"))
    assert search.gate_["plain_cost"] == pytest.approx(plain_cost.mean())
    assert search.zone_scores_[0, 1] == pytest.approx([-np.mean(fold) for fold in paid["zone"]])
    accepted = search.gate_["accepted"]
    assert accepted == (search.gate_["gain"] > search.gate_["required_gain"])
    # what was chosen, fitted to all rows: plain logistic regression knows no costs
    one = Truncated(C=search.C_, zone=search.best_zone_)
    one.fit(X, y, **({"example_costs": mapping(errors)} if accepted else {}))
    np.testing.assert_allclose(search.coef_, one.coef_, atol=1e-8)
    np.testing.assert_allclose(search.cost_matrix_[[0, 1], [1, 0]], errors.mean(axis=0))
    if search.gate_["candidate"]["C"] == 1.0:
        assert search.gate_["gain"] == pytest.approx((plain_cost - zone_cost).mean())


# ------------------------------------------------------------------------------------------
# What will not do
# ------------------------------------------------------------------------------------------

BAD = {
    "flat": (lambda E: E[:, 0], r"shape \(60, 2\); expected \(60, 2, 2\)"),
    "short": (lambda E: E[:-1], "costs of 59 rows; expected 60"),
    "three classes": (lambda E: np.ones((60, 3, 3)), r"expected \(60, 2, 2\)"),
    "negative": (lambda E: -E, "not be negative"),
    "nan": (lambda E: np.where(E > 0, np.nan, E), "be finite; got nan"),
    "infinite": (lambda E: np.where(E > 0, np.inf, E), "be finite; got inf"),
    "unknown label": (lambda E: {0: 1.0, 1: 2.0, 2: 3.0}, r"names \[2\]"),
    "missing label": (lambda E: {0: np.ones(60)}, r"no entry for \[1\]"),
    "short column": (lambda E: {0: np.ones(59), 1: 1.0}, "costs of 59 rows"),
    "words": (lambda E: {0: ["a"] * 60, 1: 1.0}, "made of numbers"),
}
ALL_EQUAL = {
    "all equal": (lambda E: np.ones_like(E), "make no difference"),
    "all zero": (lambda E: {0: 0.0, 1: np.zeros(60)}, "make no difference"),
}
WRAPPED = TightBoundClassifier(Truncated(zone=None), n_bounds=2)


@pytest.mark.parametrize("kind", [*BAD, *ALL_EQUAL])
@pytest.mark.parametrize("model", [Truncated(), Bounds(), WRAPPED], ids=repr)
def test_bad_costs_leave_the_estimator_as_it_was(model, kind):
    X, y, errors = data(60, seed=21)
    change, message = {**BAD, **ALL_EQUAL}[kind]
    bad = change(cost_matrices(mapping(errors), [0, 1]))
    model = clone(model).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, example_costs=bad)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    if kind in BAD and isinstance(model, Truncated):
        with pytest.raises(ValueError, match=message):
            model.predict(X, example_costs=bad)


@pytest.mark.parametrize("model", [Truncated(), Bounds(), WRAPPED], ids=repr)
def test_costs_for_all_rows_and_of_each_do_not_go_together(model):
    X, y, errors = data(60, seed=21)
    with pytest.raises(ValueError, match="costs must be None beside example_costs"):
        clone(model).set_params(costs={0: 1.0, 1: 2.0}).fit(X, y, example_costs=mapping(errors))


def test_costs_that_would_be_ignored_are_refused():
    X, y, errors = data(60, seed=21)
    with pytest.raises(ValueError, match="partial_fit does not know the costs of rows"):
        Bounds().fit(X, y, example_costs=mapping(errors)).partial_fit(X, y)
    with pytest.raises(TypeError, match="example_costs"):
        TightBoundLogisticRegressionCV().fit(X, y, example_costs=mapping(errors))
    with pytest.raises(ValueError, match="max_fpr already says"):
        Bounds(max_fpr=0.2).fit(X, y, example_costs=mapping(errors))
    with pytest.raises(TypeError, match="example_costs"):
        Bounds().fit(X, y).predict(X, example_costs=mapping(errors))
    blocks = from_batches(lambda: iter([(X, y, None, mapping(errors))]))
    with pytest.raises(ValueError, match="Blocks bring their own costs"):
        Truncated().fit(blocks, example_costs=mapping(errors))
    with pytest.raises(ValueError, match="Blocks bring their own costs"):
        Truncated().fit(X, y).predict(blocks, example_costs=mapping(errors))
    with pytest.raises(ValueError, match="ImportVectorMachine learns nothing from costs of rows"):
        ImportVectorMachine().fit(blocks)
    three = data(60, K=3, seed=21)
    uneven = cost_matrices(mapping(three[2]), range(3)) * np.arange(1.0, 4.0)
    with pytest.raises(ValueError, match="weights can be given to rows, not to decisions"):
        clone(WRAPPED).fit(*three[:2], example_costs=uneven)


def test_rows_of_each_class_need_something_at_stake():
    X, y, errors = data(60, seed=21)
    errors[y == 1] = 0.0
    with pytest.raises(ValueError, match="something at stake in rows of each class"):
        Truncated().fit(X, y, example_costs=mapping(errors))
    with pytest.raises(ValueError, match="something at stake in rows of each class"):
        Truncated().fit(X, y, example_costs={0: np.ones(60), 1: 0.0})
    far = np.where(np.arange(60)[:, None] < 30, 1e-60, 1.0) * np.ones((60, 2))
    with pytest.raises(ValueError, match="too far apart"):
        Truncated().fit(X, y, example_costs=mapping(far))


def test_blocks_name_the_rows_of_bad_costs(tmp_path):
    X, y, weight, errors = priced_rows()
    errors[100, 0] = np.nan
    with pytest.raises(ValueError, match=r"of rows 97 to 149\)\[0\] must be finite; got nan"):
        Truncated().fit(source_of("batches", tmp_path, X, y, weight, errors))
    with pytest.raises(ValueError, match="names"):
        Truncated().fit(from_batches(lambda: iter([(X, y, None, {0: errors[:, 1], 7: 1.0})])))

    class Forgetful(Source):
        n_features = 3

        def blocks(self):
            yield Block(X[:100], y[:100], None, 0, {0: errors[:100, 0], 1: 1.0})
            yield Block(X[100:], y[100:], None, 100)

    with pytest.raises(ValueError, match="All blocks must have costs of their rows, or none"):
        Truncated().fit(Forgetful())


def test_columns_of_costs_are_checked(tmp_path):
    X, y, weight, errors = priced_rows()
    source_of("Parquet", tmp_path, X, y, weight, errors)
    path = tmp_path / "rows.parquet"
    with pytest.raises(ValueError, match="has no column 'amount'"):
        open_parquet(path, "label", costs={0: "amount", 1: 1.0})
    with pytest.raises(TypeError, match="costs must be a mapping"):
        open_parquet(path, "label", costs="bad")
    with pytest.raises(TypeError, match="name of a column or a number"):
        open_parquet(path, "label", costs={0: "bad", 1: None})
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match="costs must have one entry for each of the 150 rows"):
        open_npy(tmp_path / "X.npy", y, costs={0: errors[:10, 0], 1: 1.0})


def test_all_is_quiet_where_nothing_is_to_be_said():
    X, y, errors = data(200, seed=22)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = Truncated().fit(X, y, example_costs=mapping(errors))
        decided = model.predict(X, example_costs=mapping(errors))
    assert caught == []
    assert set(decided) == {0, 1}
