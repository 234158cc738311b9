"""Tighter bounds of the expected error: what each step is, costs, undecided, batches, manners."""

import warnings
from functools import cache

import numpy as np
import pytest
from recording import Recording
from scipy.special import expit, logsumexp, softmax
from sklearn import datasets
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

import grayzone.solvers.policy.bounds as bounds
from grayzone import TightBoundLogisticRegression
from grayzone.solvers.policy.online import OnlinePolicy
from grayzone.sources.split import split_rows

NAMES = {2: [0, 1], 3: [3, 5, 8]}


@cache
def data(n=200, n_classes=2, seed=0, d=4):
    """Classes by one direction, with noise: no linear model is right everywhere."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] - 0.7 * X[:, 1] + 0.4 * X[:, 2] ** 2 + rng.normal(size=n)
    codes = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    X.setflags(write=False)
    return X, np.array(NAMES[n_classes])[codes]


def fit(X, y, sample_weight=None, **parameters):
    return TightBoundLogisticRegression(**parameters).fit(X, y, sample_weight=sample_weight)


def fitted_state(estimator):
    """Names of all that a fit left behind."""
    return vars(estimator).keys() - estimator.get_params(deep=False).keys()


def some_weights(n, seed=3):
    return np.random.default_rng(seed).uniform(0.2, 3.0, size=n)


def centred(intercepts):
    """Intercepts of several scores, which one constant may be added to."""
    return intercepts if len(intercepts) == 1 else intercepts - np.mean(intercepts)


def assert_same_model(found, other, atol):
    np.testing.assert_allclose(found.coef_, other.coef_, rtol=0.0, atol=atol)
    np.testing.assert_allclose(
        centred(found.intercept_), centred(other.intercept_), rtol=0.0, atol=atol
    )


SKLEARN = {"load_breast_cancer": 2, "load_iris": 3, "load_wine": 3, "load_digits": 10}
SHARED = ("statlog_heart", "german_credit_numeric", "sonar", "ionosphere", "pima_diabetes")


@pytest.fixture
def real_data(request):
    """Standardised data by name; those from outside are skipped where there are none."""

    def get(name):
        if name in SKLEARN:
            X, y = getattr(datasets, name)(return_X_y=True)
        else:
            X, y = request.getfixturevalue("load")(name)
        rows = np.random.default_rng(0).permutation(len(y))[:300]
        X = np.asarray(X[rows], float)
        return scale(X[:, X.std(axis=0) > 0.0]), y[rows]

    return get


# ------------------------------------------------------------- one bound is logistic regression


def logistic(X, y, sample_weight=None, **parameters):
    solver = "newton-cholesky" if len(np.unique(y)) == 2 else "newton-cg"
    settings = {"solver": solver, "tol": 1e-12, "max_iter": 10_000, **parameters}
    return LogisticRegression(**settings).fit(X, y, sample_weight=sample_weight)


def check_logistic(X, y, sample_weight=None, atol=1e-8, **parameters):
    """One bound against scikit-learn, for several penalties."""
    for C in (0.05, 1.0, 20.0):
        found = fit(X, y, sample_weight, C=C, n_bounds=1, tol=1e-9, **parameters)
        assert_same_model(found, logistic(X, y, sample_weight, C=C, **parameters), atol)
        assert found.n_iter_ == 1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_bound_is_logistic_regression(n_classes):
    check_logistic(*data(n_classes=n_classes))


@pytest.mark.parametrize("name", ["load_breast_cancer", "load_iris", "load_wine"])
def test_one_bound_is_logistic_regression_on_real_data(name, real_data):
    check_logistic(*real_data(name))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("balanced", [True, False])
def test_one_bound_is_logistic_regression_with_class_weights(n_classes, balanced):
    X, y = data(n_classes=n_classes)
    y = np.where(np.arange(len(y)) < 60, y[0], y)
    of_classes = dict(zip(NAMES[n_classes], [0.5, 3.0, 1.2], strict=False))
    class_weight = "balanced" if balanced else of_classes
    check_logistic(X, y, class_weight=class_weight)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_bound_is_logistic_regression_without_intercept(n_classes):
    check_logistic(*data(n_classes=n_classes), fit_intercept=False)


@pytest.mark.parametrize("n_bounds", [1, 4])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_costs_of_classes_are_weights(n_classes, n_bounds):
    X, y = data(n_classes=n_classes)
    costs = dict(zip(NAMES[n_classes], [0.5, 3.0, 1.2], strict=False))
    weight = np.array([costs[label] for label in y.tolist()])
    weight /= weight.mean()  # whatever their unit is
    settings = {"n_bounds": n_bounds, "tol": 1e-9}
    found = fit(X, y, costs=costs, **settings)
    assert_same_model(found, fit(X, y, weight, **settings), 1e-10)
    if n_bounds == 1:
        assert_same_model(found, logistic(X, y, weight), 1e-8)


def test_balanced_costs_are_balanced_weights():
    X, y = data()
    y = np.where(np.arange(len(y)) < 90, 0, y)
    weight = some_weights(len(y))
    found = fit(X, y, weight, costs="balanced", tol=1e-9)
    other = fit(X, y, weight, class_weight="balanced", tol=1e-9)
    assert_same_model(found, other, 1e-9)
    np.testing.assert_allclose(found.expected_error_path_, other.expected_error_path_, rtol=1e-10)


# ------------------------------------------------------------------------- J, step after step

CONFIGURATIONS = {
    "mm": {"solver": "mm"},
    "direct": {"solver": "direct"},
    "reject": {"reject_cost": 0.2, "solver": "mm"},
    "reject, direct": {"reject_cost": 0.2, "solver": "direct"},
    "class costs": {"costs": "classes"},
    "K x K costs": {"costs": "matrix"},
    "K x K costs, direct": {"costs": "matrix", "solver": "direct"},
    "no intercept": {"fit_intercept": False},
}


def configured(name, classes):
    """Parameters, with costs that suit the classes."""
    parameters = dict(CONFIGURATIONS[name])
    costs = 1.0 + np.arange(len(classes))
    if parameters.get("costs") == "classes":
        parameters["costs"] = dict(zip(classes.tolist(), costs, strict=True))
    elif parameters.get("costs") == "matrix":
        far = np.abs(np.subtract.outer(costs, costs))
        parameters["costs"] = far + 0.3 * np.triu(far)
    return parameters


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("name", [*SKLEARN, *SHARED])
def test_the_expected_error_never_rises(name, C, real_data):
    X, y = real_data(name)
    classes = np.unique(y)
    n_bounds = 6
    if len(classes) > 3:  # its Hessians would have 650 rows
        X, y, n_bounds = X[:100, ::2], y[:100], 3
    for configuration in CONFIGURATIONS:
        parameters = configured(configuration, classes)
        path = fit(X, y, C=C, n_bounds=n_bounds, **parameters).expected_error_path_
        if parameters.get("solver") != "direct":
            assert 2 <= len(path) <= n_bounds
        assert np.isfinite(path).all()
        assert path[-1] < path[0]
        # J is a difference of sums of as many terms, none above 1.3 K
        rounding = 1e-15 * len(y) * 1.3 * len(classes)
        assert np.all(np.diff(path) <= rounding), configuration


def reference_path(X, y, C, n_bounds):
    """J of Algorithm 1 by scikit-learn: K times each bound has its C, and weights K p."""
    classes, codes = np.unique(y, return_inverse=True)
    K = len(classes)
    weight, path = np.full(len(y), 1.0 / K), []
    settings = {"C": C * K, "tol": 1e-10, "max_iter": 1000}
    if K > 2:
        settings |= {"solver": "newton-cg", "warm_start": True}
    else:
        settings |= {"solver": "newton-cholesky"}
    model = LogisticRegression(**settings)
    for _ in range(n_bounds):
        model.fit(X, y, sample_weight=weight)
        weight = model.predict_proba(X)[np.arange(len(y)), codes]
        norm = 0.5 / (C * K) * np.sum(model.coef_**2)
        path.append(np.sum(1.0 - weight) + norm)
    return np.array(path), model


@pytest.mark.parametrize(
    ("name", "C"),
    [("load_breast_cancer", 0.1), ("statlog_heart", 1.0), ("pima_diabetes", 10.0)],
)
def test_a_hundred_bounds_are_a_hundred_weighted_logistic_regressions(name, C, real_data):
    X, y = real_data(name)
    expected, model = reference_path(X, y, C, 100)
    found = fit(X, y, C=C, n_bounds=100, solver="mm")
    path = found.expected_error_path_
    np.testing.assert_allclose(path, expected[: len(path)], rtol=1e-6)
    # where it stops early, the rest of the steps would have changed nothing
    np.testing.assert_allclose(path[-1], expected[len(path) - 1 :], rtol=1e-6)
    np.testing.assert_allclose(
        found.decision_function(X), model.decision_function(X), rtol=1e-3, atol=1e-3
    )


def test_bounds_of_three_classes_are_weighted_logistic_regressions(real_data):
    X, y = real_data("load_iris")
    expected, _ = reference_path(X, y, 1.0, 15)
    path = fit(X, y, n_bounds=15).expected_error_path_
    assert len(path) > 5
    np.testing.assert_allclose(path, expected[: len(path)], rtol=1e-6)
    np.testing.assert_allclose(path[-1], expected[len(path) - 1 :], rtol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_path_ends_at_the_expected_error_of_the_model(n_classes):
    X, y = data(n_classes=n_classes)
    weight = some_weights(len(y))
    for solver in ("mm", "direct"):
        found = fit(X, y, weight, C=0.3, solver=solver)
        own = found.predict_proba(X)[np.arange(len(y)), np.searchsorted(found.classes_, y)]
        J = weight @ (1.0 - own) + 0.5 / (0.3 * n_classes) * np.sum(found.coef_**2)
        assert found.expected_error_path_[-1] == pytest.approx(J, rel=1e-12)
        assert len(found.expected_error_path_) == found.n_iter_


def test_paths_of_fewer_bounds_are_beginnings():
    X, y = data()
    path = fit(X, y, n_bounds=8).expected_error_path_
    for n_bounds in (1, 3, 8):
        shorter = fit(X, y, n_bounds=n_bounds).expected_error_path_
        np.testing.assert_array_equal(shorter, path[:n_bounds])


@pytest.mark.parametrize(
    "name", ["load_breast_cancer", "load_iris", "german_credit_numeric", "ionosphere"]
)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_direct_descent_goes_where_bounds_lead(name, C, real_data):
    X, y = real_data(name)
    direct = fit(X, y, C=C, solver="direct")
    bounds = fit(X, y, C=C, solver="mm", n_bounds=100)
    assert direct.expected_error_path_[-1] <= bounds.expected_error_path_[-1] * (1.0 + 1e-4)
    assert direct.expected_error_path_[0] == bounds.expected_error_path_[0]


def expected_error(X, y, coef, intercept, C):
    """J by its definition."""
    K = len(np.unique(y))
    scores = X @ coef.T + intercept
    if K == 2:
        scores = np.column_stack([np.zeros(len(y)), scores[:, 0]])
    own = softmax(scores, axis=1)[np.arange(len(y)), np.searchsorted(np.unique(y), y)]
    return np.sum(1.0 - own) + 0.5 / (C * K) * np.sum(coef**2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_direct_descent_ends_at_a_stationary_point(n_classes):
    X, y = data(n_classes=n_classes)

    def gradient(coef, intercept, h=1e-5):
        whole = np.column_stack([coef, intercept])
        slopes = []
        for place in np.ndindex(whole.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = whole.copy()
                moved[place] += sign * h
                ends.append(expected_error(X, y, moved[:, :-1], moved[:, -1], 2.0))
            slopes.append((ends[0] - ends[1]) / (2.0 * h))
        return np.abs(slopes).max()

    found = fit(X, y, C=2.0, solver="direct")
    at_zero = gradient(np.zeros_like(found.coef_), np.zeros_like(found.intercept_))
    assert gradient(found.coef_, found.intercept_) <= 1e-4 * at_zero


def test_auto_takes_few_bounds_one_by_one_and_descends_for_many():
    X, y = data()
    for n_bounds, solver in ((20, "mm"), (21, "direct")):
        auto = fit(X, y, n_bounds=n_bounds)
        named = fit(X, y, n_bounds=n_bounds, solver=solver)
        np.testing.assert_array_equal(auto.coef_, named.coef_)
        np.testing.assert_array_equal(auto.expected_error_path_, named.expected_error_path_)
    assert len(fit(X, y, n_bounds=20).expected_error_path_) == 20


def test_one_bound_is_one_bound_whatever_the_solver():
    X, y = data()
    models = [fit(X, y, n_bounds=1, solver=solver) for solver in ("auto", "mm", "direct")]
    assert all(np.array_equal(model.coef_, models[0].coef_) for model in models)


def test_fewer_errors_where_a_few_rows_lie_far_on_the_wrong_side():
    # what the paper is about: far outliers pull the log-loss, not the expected error
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = (X[:, 0] > 0.0).astype(int)
    X, y = np.vstack([X, np.full((20, 1), 6.0)]), np.append(y, np.zeros(20, int))
    errors = [np.sum(fit(X, y, n_bounds=n, C=100.0).predict(X) != y) for n in (1, 10)]
    assert errors[0] > 100
    assert errors[1] == 20


# ------------------------------------------------------------------------------------------ costs


def expected_cost(found, X, y, costs, weight, C):
    """What decisions drawn from the policy cost, beyond the best ones, and the penalty."""
    codes = np.searchsorted(found.classes_, y)
    paid = costs[codes] - costs[codes].min(axis=1, keepdims=True)
    drawn = np.sum(found.policy_proba(X) * paid, axis=1)
    penalty = 0.5 / (C * costs.shape[1]) * np.sum(found.coef_**2)
    return weight @ drawn + mean_stake(costs[:, : len(found.classes_)][codes], weight) * penalty


def mean_stake(costs, weight=None):
    """What the dearest decision costs more than the cheapest, on average over rows."""
    return np.average(np.ptp(costs, axis=1), weights=weight)


@pytest.mark.parametrize("solver", ["mm", "direct"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_costs_of_decisions_are_what_is_minimised(n_classes, solver):
    X, y = data(n_classes=n_classes)
    rng = np.random.default_rng(5)
    # right decisions have a price as well
    costs = rng.uniform(0.0, 4.0, size=(n_classes, n_classes))
    costs[np.diag_indices(n_classes)] = rng.uniform(0.0, 0.3, size=n_classes)
    weight = some_weights(len(y))
    found = fit(X, y, weight, C=0.5, costs=costs, solver=solver)
    np.testing.assert_array_equal(found.cost_matrix_, costs)
    expected = expected_cost(found, X, y, costs, weight, 0.5)
    assert found.expected_error_path_[-1] == pytest.approx(expected, rel=1e-12)


def test_the_first_bound_of_costs_has_soft_targets():
    # a copy of each row for each decision, weighted by what it saves, has the same log-loss
    X, y = data(n_classes=3)
    costs = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [3.0, 3.5, 0.0]])
    rewards = (costs.max(axis=1, keepdims=True) - costs)[np.searchsorted(np.unique(y), y)]
    found = fit(X, y, n_bounds=1, costs=costs, tol=1e-9)
    copies = LogisticRegression(solver="newton-cg", tol=1e-12, max_iter=10_000)
    labels = np.repeat(np.unique(y), len(y))
    rewards /= mean_stake(rewards)
    copies.fit(np.tile(X, (3, 1)), labels, sample_weight=rewards.T.ravel())
    assert_same_model(found, copies, 1e-7)


def test_dear_errors_are_avoided():
    X, y = data()
    missed = [
        np.mean(fit(X, y, costs={0: 1.0, 1: cost}).predict(X)[y == 1] == 0)
        for cost in (0.1, 1.0, 10.0)
    ]
    assert missed[0] > missed[1] > missed[2]


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ("cheap", "balanced"),
        ({0: 1.0}, "no entry for"),
        ({0: 1.0, 1: 1.0, 2: 1.0}, "not among the classes"),
        ({0: -1.0, 1: 1.0}, "not be negative"),
        ({0: 0.0, 1: 0.0}, "All costs are zero"),
        (np.ones((3, 3)), "shape"),
        ([[0.0, np.nan], [1.0, 0.0]], "finite"),
    ],
)
def test_bad_costs(costs, words):
    with pytest.raises(ValueError, match=words):
        fit(*data(), costs=costs)


# -------------------------------------------------------------------------------------- undecided


@pytest.mark.parametrize("solver", ["mm", "direct"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_undecided_is_an_action_of_its_own(n_classes, solver):
    X, y = data(n_classes=n_classes)
    weight = some_weights(len(y))
    found = fit(X, y, weight, C=0.5, reject_cost=0.3, solver=solver)
    A = n_classes + 1
    np.testing.assert_array_equal(found.classes_, NAMES[n_classes])
    np.testing.assert_array_equal(found.actions_, [*NAMES[n_classes], -1])
    assert found.coef_.shape == (A, X.shape[1])
    assert found.intercept_.shape == (A,)
    assert found.threshold_ is None
    policy, proba = found.policy_proba(X), found.predict_proba(X)
    assert policy.shape == (len(y), A)
    np.testing.assert_allclose(policy.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(policy, softmax(X @ found.coef_.T + found.intercept_, axis=1))
    among = policy[:, :n_classes] / policy[:, :n_classes].sum(axis=1, keepdims=True)
    assert proba.shape == (len(y), n_classes)
    np.testing.assert_allclose(proba, among, rtol=1e-10)
    np.testing.assert_array_equal(found.predict(X), found.actions_[policy.argmax(axis=1)])
    assert 0 < np.sum(found.predict(X) == -1) < len(y)
    costs = np.column_stack([1.0 - np.eye(n_classes), np.full(n_classes, 0.3)])
    expected = expected_cost(found, X, y, costs, weight, 0.5)
    assert found.expected_error_path_[-1] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_beside_undecided_are_those_of_classes(n_classes):
    X, y = data(n_classes=n_classes)
    found = fit(X, y, reject_cost=0.3)
    scores, proba = found.decision_function(X), found.predict_proba(X)
    if n_classes == 2:
        np.testing.assert_allclose(expit(scores), proba[:, 1], rtol=1e-10)
    else:
        np.testing.assert_allclose(softmax(scores, axis=1), proba, rtol=1e-10)


def test_the_first_bound_with_undecided_is_that_at_chows_rule():
    # §4.2: each row again, as one of the class "undecided", with the weight of its reward; and, by
    # Lemma 1, times the probability of the action under a policy: Chow's rule, but for 1 % of doubt
    X, y = data()
    found = fit(X, y, n_bounds=1, C=0.7, reject_cost=0.3, tol=1e-9)
    precise = {"solver": "newton-cg", "tol": 1e-12, "max_iter": 10_000}
    proba = LogisticRegression(C=0.7, **precise).fit(X, y).predict_proba(X)
    policy = np.full((len(y), 3), 0.01 / 3)
    decided = np.where(proba.max(axis=1) < 0.7, 2, proba.argmax(axis=1))
    assert set(decided) == {0, 1, 2}
    policy[np.arange(len(y)), decided] += 0.99
    weight = np.append(policy[np.arange(len(y)), y], 0.7 * policy[:, 2])
    twice = LogisticRegression(C=3 * 0.7, **precise)
    twice.fit(np.vstack([X, X]), np.append(y, np.full(len(y), 9)), sample_weight=weight)
    assert_same_model(found, twice, 1e-6)


def test_costs_of_undecided_may_depend_on_the_class():
    X, y = data(400)
    one = fit(X, y, reject_cost=0.3)
    for same in ({0: 0.3, 1: 0.3}, [0.3, 0.3]):
        np.testing.assert_array_equal(fit(X, y, reject_cost=same).coef_, one.coef_)
    counts = [
        np.sum(fit(X, y, reject_cost={0: a, 1: b}).predict(X)[y == 1] == -1)
        for a, b in ((0.3, 0.6), (0.3, 0.3), (0.3, 0.1))
    ]
    assert counts[0] < counts[1] < counts[2]


def test_an_undecided_label_that_is_a_class():
    X, y = data()
    with pytest.raises(ValueError, match="one of the classes"):
        fit(X, np.where(y == 1, 1, -1), reject_cost=0.3)
    with pytest.raises(ValueError, match="one of the classes"):
        fit(X, y, reject_cost=0.3, undecided_label=1)
    with pytest.raises(ValueError, match="one of the classes"):
        fit(X, np.where(y == 1, "undecided", "b"), reject_cost=0.3)
    with pytest.raises(ValueError, match="cannot stand beside"):
        fit(X, y, reject_cost=0.3, undecided_label="undecided")
    # without an action for it there is nothing to collide with
    fit(X, np.where(y == 1, 1, -1))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_not_deciding_for_nothing_is_always_undecided(n_classes):
    X, y = data(n_classes=n_classes)
    found = fit(X, y, reject_cost=0.0, solver="direct")
    assert set(found.predict(X)) == {-1}
    assert found.expected_error_path_[-1] < 1e-6 * len(y)
    # bounds lead there as well, step by step
    undecided = [
        np.mean(fit(X, y, reject_cost=0.0, n_bounds=n, solver="mm").policy_proba(X)[:, -1])
        for n in (1, 10, 50)
    ]
    assert undecided[0] < undecided[1] < undecided[2]
    assert undecided[2] > 0.99


@pytest.mark.parametrize("solver", ["mm", "direct"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_not_deciding_for_more_than_an_error_never_happens(n_classes, solver):
    X, y = data(n_classes=n_classes)
    found = fit(X, y, reject_cost=1.5, solver=solver)
    assert -1 not in found.predict(X)
    assert np.max(found.policy_proba(X)[:, -1]) < 1e-6


def test_decisions_are_better_where_some_are_left_undecided():
    X, y = data(400)
    found = fit(X, y, reject_cost=0.2)
    predicted = found.predict(X)
    decided = predicted != -1
    assert np.mean(predicted[decided] != y[decided]) < np.mean(fit(X, y).predict(X) != y)


@pytest.mark.parametrize(
    ("reject_cost", "words"),
    [
        (-0.1, "not be negative"),
        (np.nan, "finite"),
        ([0.1, 0.2, 0.3], "shape"),
        ({0: 0.1}, "no entry"),
        ("cheap", "numbers"),
    ],
)
def test_bad_costs_of_undecided(reject_cost, words):
    with pytest.raises(ValueError, match=words):
        fit(*data(), reject_cost=reject_cost)


# ------------------------------------------------------------------------------- held-out rows


def held_out_costs(found, X, y, seed, share, action_costs, **parameters):
    """Mean costs on held-out rows of models refitted to the others."""
    codes = np.searchsorted(found.classes_, y)
    rng = np.random.RandomState(seed)
    train, out = split_rows(codes, found.classes_, share, rng)
    means = []
    for n_bounds in (1, found.n_bounds):
        model = fit(X[train], y[train], n_bounds=n_bounds, **parameters)
        places = np.argmax(model.policy_proba(X[out]), axis=1)
        means.append(np.mean(action_costs[codes[out], places]))
    return tuple(means)


def hard_to_bound():
    """Two classes on which a strong penalty lets later bounds give one of them up."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=300) > 0.9).astype(int)
    return X, y


def test_more_bounds_that_decide_worse_are_told():
    X, y = hard_to_bound()
    settings = {"C": 0.1, "n_bounds": 10}
    with pytest.warns(UserWarning, match="more than .* with one bound") as caught:
        found = fit(X, y, validation_fraction=0.4, random_state=1, **settings)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    expected = held_out_costs(found, X, y, 1, 0.4, 1.0 - np.eye(2), C=0.1)
    assert found.held_out_costs_ == pytest.approx(expected, abs=1e-12)
    assert found.held_out_costs_[1] > found.held_out_costs_[0]
    message = str(caught[0].message)
    assert all(f"{cost:.4g}" in message for cost in expected)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_more_bounds_that_decide_no_worse_are_not_told(n_classes):
    X, y = data(n_classes=n_classes)
    quiet = 0
    for seed in range(5):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = fit(X, y, C=10.0, validation_fraction=0.3, random_state=seed)
        one, all_ = found.held_out_costs_
        assert bool(caught) == (all_ > one)
        quiet += all_ <= one
        expected = held_out_costs(found, X, y, seed, 0.3, 1.0 - np.eye(n_classes), C=10.0)
        assert found.held_out_costs_ == pytest.approx(expected, abs=1e-12)
    assert quiet > 0


@pytest.mark.filterwarnings("ignore:On held-out rows")
def test_held_out_costs_are_those_of_actions():
    X, y = data()
    costs = np.array([[0.0, 1.0, 0.3], [4.0, 0.0, 0.3]])
    settings = {"costs": costs[:, :2], "reject_cost": 0.3, "fit_intercept": False}
    found = fit(X, y, validation_fraction=0.3, random_state=2, **settings)
    expected = held_out_costs(found, X, y, 2, 0.3, costs, **settings)
    assert found.held_out_costs_ == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore:On held-out rows")
def test_held_out_rows_have_no_influence_on_the_model():
    X, y = data()
    train, out = split_rows(y, np.array([0, 1]), 0.3, np.random.RandomState(0))
    found = fit(X, y, validation_fraction=0.3, random_state=0)
    assert_same_model(found, fit(X[train], y[train]), 1e-12)
    assert len(out) == 60
    assert np.array_equal(np.sort(np.append(train, out)), np.arange(len(y)))


def test_rows_without_weight_are_not_held_out():
    X, y = data()
    weight = np.ones(len(y))
    weight[::3] = 0.0
    kept = weight > 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "On held-out rows")
        settings = {"validation_fraction": 0.3, "random_state": 0}
        found, other = fit(X, y, weight, **settings), fit(X[kept], y[kept], **settings)
    assert found.held_out_costs_ == other.held_out_costs_
    assert_same_model(found, other, 1e-12)


def test_no_held_out_costs_without_held_out_rows():
    X, y = data()
    found = fit(X, y, C=10.0)
    assert not hasattr(found, "held_out_costs_")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "On held-out rows")
        found.set_params(validation_fraction=0.3, random_state=0).fit(X, y)
    assert hasattr(found, "held_out_costs_")
    found.set_params(validation_fraction=None).fit(X, y)
    assert not hasattr(found, "held_out_costs_")


def test_a_class_of_one_row_cannot_be_split():
    X, y = data()
    y = np.where(np.arange(len(y)) == 0, 7, y)
    with pytest.raises(ValueError, match=r"two rows of each class; class .*7.* has 1"):
        fit(X, y, validation_fraction=0.3)


# ------------------------------------------------------------------------------ batch after batch


class PlainOnline:
    """AdaGrad on the bound at parameters that are renewed when the weight seen has doubled."""

    def __init__(self, rewards, d, penalty, eta, intercept=True):
        A = rewards.shape[1]
        self.rewards, self.penalty, self.eta, self.intercept = rewards, penalty, eta, intercept
        self.coef = np.zeros((1 if A == 2 else A, d + 1))
        self.frozen, self.squares = self.coef.copy(), np.full_like(self.coef, 1e-8)
        self.seen, self.renew, self.renewals = 0.0, 1.0, 0

    def proba(self, X, coef):
        scores = X @ coef[:, :-1].T + coef[:, -1]
        if scores.shape[1] == 1:
            scores = np.column_stack([np.zeros(len(X)), scores[:, 0]])
        return softmax(scores, axis=1)

    def step(self, X, codes, weight):
        q = weight[:, None] * self.rewards[codes] * self.proba(X, self.frozen)
        residual = q.sum(axis=1, keepdims=True) * self.proba(X, self.coef) - q
        residual = residual[:, 1:] if self.coef.shape[0] == 1 else residual
        gradient = residual.T @ np.column_stack([X, np.ones(len(X))])
        before, self.seen = self.seen, self.seen + weight.sum()
        penalised = self.coef.copy()
        penalised[:, -1] = 0.0
        gradient += (1.0 - before / self.seen) * self.penalty * penalised
        gradient /= weight.sum()
        if not self.intercept:
            gradient[:, -1] = 0.0
        self.squares += gradient**2
        self.coef = self.coef - self.eta * gradient / np.sqrt(self.squares)
        if self.seen >= self.renew:
            self.frozen, self.renew = self.coef.copy(), 2.0 * self.seen
            self.renewals += 1


def batches(X, y, size=10):
    return [(X[a : a + size], y[a : a + size]) for a in range(0, len(y), size)]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("reject_cost", [None, 0.2])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_batches_are_steps_on_a_bound_that_is_kept_for_a_while(n_classes, reject_cost, intercept):
    X, y = data(n_classes=n_classes)
    weight = some_weights(len(y))
    costs = 1.0 - np.eye(n_classes)
    if reject_cost is not None:
        costs = np.column_stack([costs, np.full(n_classes, reject_cost)])
    plain = PlainOnline(1.0 - costs, X.shape[1], 1.0 / (0.5 * costs.shape[1]), 0.3, intercept)
    found = TightBoundLogisticRegression(
        C=0.5, eta0=0.3, reject_cost=reject_cost, fit_intercept=intercept
    )
    codes = np.searchsorted(NAMES[n_classes], y)
    for a in range(0, len(y), 10):
        rows = slice(a, a + 10)
        found.partial_fit(X[rows], y[rows], NAMES[n_classes], sample_weight=weight[rows])
        plain.step(X[rows], codes[rows], weight[rows])
    assert plain.renewals >= 4
    np.testing.assert_allclose(found.coef_, plain.coef[:, :-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.intercept_, plain.coef[:, -1], rtol=1e-9, atol=1e-12)
    assert found.n_iter_ == len(y) // 10
    np.testing.assert_allclose(found.policy_proba(X), plain.proba(X, plain.coef), rtol=1e-9)


def test_the_bound_is_renewed_when_the_rows_seen_have_doubled():
    X, y = data(320)
    found = TightBoundLogisticRegression()
    renewed, frozen = [], None
    for number, (rows, labels) in enumerate(batches(X, y), start=1):
        found.partial_fit(rows, labels, classes=[0, 1])
        if found._online.frozen is not frozen:
            renewed.append(number)
            frozen = found._online.frozen
            np.testing.assert_array_equal(frozen[:, :-1], found.coef_)
    assert renewed == [1, 2, 4, 8, 16, 32]


def test_errors_get_fewer_on_a_stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = (X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=6000) > 0.4).astype(int)
    found = TightBoundLogisticRegression(C=100.0)
    wrong = []
    for rows, labels in batches(X, y, 30):
        if hasattr(found, "coef_"):
            wrong.append(np.mean(found.predict(rows) != labels))
        found.partial_fit(rows, labels, classes=[0, 1])
    assert np.mean(wrong[-50:]) < 0.7 * np.mean(wrong[:10])
    # hardly more than those of a fit to all rows
    whole = fit(X, y, C=100.0)
    assert np.mean(found.predict(X) != y) <= np.mean(whole.predict(X) != y) + 0.02


def test_the_first_batch_needs_the_classes():
    X, y = data()
    found = TightBoundLogisticRegression()
    before = dict(vars(found))
    with pytest.raises(ValueError, match="give classes"):
        found.partial_fit(X, y)
    assert vars(found) == before
    found.partial_fit(X, y, classes=[1, 0, 1])
    assert found.classes_.tolist() == [0, 1]
    found.partial_fit(X, y)
    found.partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize("classes", [[0], []])
def test_one_class_is_not_enough_for_batches(classes):
    X, _ = data()
    found = TightBoundLogisticRegression()
    with pytest.raises(ValueError, match="class"):
        found.partial_fit(X, np.zeros(len(X), int), classes=classes)
    assert not fitted_state(found)


def test_a_batch_may_lack_classes():
    X, y = data(n_classes=3)
    found = TightBoundLogisticRegression().partial_fit(X[y == 3], y[y == 3], classes=NAMES[3])
    assert found.classes_.tolist() == NAMES[3]
    assert found.predict_proba(X).shape == (len(y), 3)


def test_unknown_labels_in_a_batch():
    X, y = data()
    found = TightBoundLogisticRegression().partial_fit(X, y, classes=[0, 1])
    before, coef = dict(vars(found)), found.coef_.copy()
    with pytest.raises(ValueError, match=r"label .*7.*none of the classes"):
        found.partial_fit(X, np.where(y == 1, 7, 0))
    assert vars(found) == before
    np.testing.assert_array_equal(found.coef_, coef)
    with pytest.raises(ValueError, match="none of the classes"):
        TightBoundLogisticRegression().partial_fit(X, y, classes=[0, 2])


def test_classes_that_change():
    X, y = data()
    found = TightBoundLogisticRegression().partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="differ from those of the first call"):
        found.partial_fit(X, y, classes=[0, 1, 2])


def test_features_that_change():
    X, y = data()
    found = TightBoundLogisticRegression().partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="features"):
        found.partial_fit(X[:, :2], y)


REJECT = {"reject_cost": 0.2, "solver": "mm"}


@pytest.mark.parametrize("settings", [{}, REJECT, {"fit_intercept": False}])
def test_batches_after_a_fit_go_on_from_its_solution(settings):
    X, y = data()
    found = fit(X, y, **settings)
    whole = clone(found).fit(X, y)
    found.set_params(eta0=1e-6).partial_fit(X, y)
    # the first step of AdaGrad is one of eta0 in every coefficient
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=0.0, atol=1.01e-6)
    assert np.max(np.abs(found.coef_ - whole.coef_)) > 1e-8
    np.testing.assert_allclose(found.intercept_, whole.intercept_, rtol=0.0, atol=1.01e-6)
    assert found.n_iter_ == whole.n_iter_ + 1
    if not settings.get("fit_intercept", True):
        np.testing.assert_array_equal(found.intercept_, 0.0)


def test_batches_after_a_fit_have_the_bound_at_its_solution():
    X, y = data()
    found = fit(X, y, C=2.0)
    before = np.column_stack([found.coef_, found.intercept_])
    plain = PlainOnline(np.eye(2), X.shape[1], 0.25, 0.1)
    plain.coef, plain.frozen = before.copy(), before.copy()
    found.set_params(eta0=0.1)
    for rows, labels in batches(X, y, 25):
        found.partial_fit(rows, labels)
        plain.step(rows, labels, np.ones(len(labels)))
    np.testing.assert_allclose(found.coef_, plain.coef[:, :-1], rtol=1e-9)


def test_classes_given_after_a_fit_start_anew():
    X, y = data()
    found = fit(X, y)
    found.partial_fit(X[:, :2], y, classes=[0, 1])
    other = TightBoundLogisticRegression().partial_fit(X[:, :2], y, classes=[0, 1])
    np.testing.assert_array_equal(found.coef_, other.coef_)
    assert found.n_features_in_ == 2
    assert found.n_iter_ == 1


def test_a_fit_after_batches_knows_nothing_of_them():
    X, y = data()
    found = TightBoundLogisticRegression().partial_fit(-X, y, classes=[0, 1])
    found.fit(X, y)
    np.testing.assert_array_equal(found.coef_, fit(X, y).coef_)
    # and the batches after it know nothing of the ones before
    other = fit(X, y).partial_fit(X, y)
    np.testing.assert_array_equal(found.partial_fit(X, y).coef_, other.coef_)


@pytest.mark.parametrize("name", ["max_fpr", "min_recall", "min_precision"])
def test_batches_know_no_limits(name):
    X, y = data()
    with pytest.raises(ValueError, match="partial_fit takes no"):
        TightBoundLogisticRegression(**{name: 0.5}).partial_fit(X, y, classes=[0, 1])


# -------------------------------------------------------------------------------- the estimator


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"C": 0.0}, "C must be a finite number > 0"),
        ({"C": -1.0}, "C must be"),
        ({"C": -np.inf}, "C must be"),
        ({"C": 1e200}, r"C must be between 1e-50 and 1e\+50"),
        ({"C": "1"}, "C must be"),
        ({"n_bounds": 0}, "n_bounds must be an integer >= 1"),
        ({"n_bounds": 2.5}, "n_bounds must be"),
        ({"n_bounds": True}, "n_bounds must be"),
        ({"solver": "newton"}, "solver must be one of 'auto', 'mm', 'direct'"),
        ({"solver": None}, "solver must be one of"),
        ({"tol": 0.0}, "tol must be"),
        ({"tol": -1e-3}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1"),
        ({"max_iter": 10.0}, "max_iter must be"),
        ({"eta0": 0.0}, "eta0 must be"),
        ({"validation_fraction": 0.0}, "validation_fraction must be between 0 and 1"),
        ({"validation_fraction": 1.0}, "validation_fraction must be"),
        ({"validation_fraction": "half"}, "validation_fraction must be"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "class_weight must give finite weights"),
        ({"class_weight": "even"}, "class_weight"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_bad_parameters(parameters, words, again):
    X, y = data()
    found = TightBoundLogisticRegression()
    if again:
        found.fit(X, y)
    found.set_params(**parameters)
    before = dict(vars(found))
    with pytest.raises(ValueError, match=words):
        found.fit(X, y)
    assert vars(found).keys() == before.keys()
    assert all(vars(found)[name] is value for name, value in before.items())


@pytest.mark.parametrize("reject_cost", [None, 0.2])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_scores_and_decisions_agree(n_classes, reject_cost):
    X, y = data(n_classes=n_classes)
    found = fit(X, y, reject_cost=reject_cost)
    proba = found.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-13)
    np.testing.assert_allclose(np.exp(found.predict_log_proba(X)), proba, rtol=1e-10)
    scores = found.decision_function(X)
    whole = np.column_stack([np.zeros(len(y)), scores]) if n_classes == 2 else scores
    np.testing.assert_allclose(proba, softmax(whole, axis=1), rtol=1e-10)
    if reject_cost is None:
        np.testing.assert_array_equal(found.policy_proba(X), proba)
        np.testing.assert_array_equal(found.predict(X), found.classes_[proba.argmax(axis=1)])
        whole = X @ found.coef_.T + found.intercept_
        np.testing.assert_allclose(whole[:, 0] if n_classes == 2 else whole, scores, rtol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_logarithms_are_finite_where_probabilities_are_not(n_classes):
    X, y = data(n_classes=n_classes)
    found = fit(X, y)
    far = 1e5 * X[:20]
    logs = found.predict_log_proba(far)
    assert np.isfinite(logs).all()
    assert logs.min() < -1e4
    np.testing.assert_allclose(logsumexp(logs, axis=1), 0.0, atol=1e-10)
    assert found.predict_proba(far).min() == 0.0


@pytest.mark.parametrize("solver", ["mm", "direct"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_residual_is_small_and_true(n_classes, solver):
    X, y = data(n_classes=n_classes)
    found = fit(X, y, solver=solver)
    assert 0.0 <= found.promised_decrease_ <= 1e-6
    if solver == "mm":
        assert found.promised_decrease_ <= 1e-9


@pytest.mark.parametrize("solver", ["mm", "direct"])
def test_too_few_iterations_are_told(solver):
    X, y = data()
    with pytest.warns(ConvergenceWarning, match="raise max_iter") as caught:
        found = fit(50.0 * X, y, C=1e4, max_iter=1, n_bounds=3, solver=solver)
    assert caught[0].filename == __file__
    assert found.promised_decrease_ > 1e-5
    assert f"{found.promised_decrease_:.1e}" in str(caught[0].message)
    assert np.isfinite(found.predict_proba(X)).all()
    # even so it never rises
    assert np.all(np.diff(found.expected_error_path_) <= 0.0)


def test_many_coefficients_go_without_hessians():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 800)) / 20.0
    y = (X[:, :40].sum(axis=1) > 0.0).astype(int)
    found = fit(X, y, n_bounds=3)
    expected, model = reference_path(X, y, 1.0, 3)
    np.testing.assert_allclose(found.expected_error_path_, expected, rtol=1e-7)
    np.testing.assert_allclose(found.decision_function(X), model.decision_function(X), atol=1e-3)


def test_constant_and_repeated_features():
    X, y = data()
    X = np.column_stack([X, X[:, 0], np.ones(len(y)), np.zeros(len(y))])
    for solver in ("mm", "direct"):
        found = fit(X, y, solver=solver)
        assert found.coef_[0, 0] == pytest.approx(found.coef_[0, 4], rel=1e-4)
        assert found.coef_[0, 6] == 0.0
        assert np.all(np.diff(found.expected_error_path_) <= 0.0)


def test_separable_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] > 0.0).astype(int)
    X[:, 0] += np.where(y == 1, 1.0, -1.0)
    for solver in ("mm", "direct"):
        found = fit(X, y, C=1e6, solver=solver)
        np.testing.assert_array_equal(found.predict(X), y)
        assert np.all(np.diff(found.expected_error_path_) <= 1e-12 * len(y))


# ------------------------------------------------------------------------------------- warm start


def count_steps(monkeypatch):
    """Count the Hessians that are formed."""
    plain, count = bounds._derivatives, []

    def counted(*arguments):
        count.append(1)
        return plain(*arguments)

    monkeypatch.setattr(bounds, "_derivatives", counted)
    return count


def test_a_warm_start_takes_fewer_steps_to_the_same_model(monkeypatch):
    X, y = data()
    found = TightBoundLogisticRegression(n_bounds=1, warm_start=True, tol=1e-9)
    count = count_steps(monkeypatch)
    found.fit(X, y)
    cold = len(count)
    coef = found.coef_.copy()
    found.fit(X, y)
    assert len(count) - cold <= 1 < cold
    np.testing.assert_allclose(found.coef_, coef, atol=1e-9)
    found.set_params(C=1.1).fit(X, y)
    assert_same_model(found, fit(X, y, C=1.1, n_bounds=1, tol=1e-9), 1e-8)


def test_a_warm_start_from_another_problem_is_none():
    X, y = data()
    X3, y3 = data(n_classes=3)
    found = TightBoundLogisticRegression(warm_start=True)
    for features, labels in ((X, y), (X[:, :2], y), (X3, y3), (X, np.where(y == 1, 4, 2))):
        found.fit(features, labels)
        np.testing.assert_array_equal(found.coef_, fit(features, labels).coef_)
    found.set_params(reject_cost=0.2, costs=None).fit(X, y)
    np.testing.assert_array_equal(found.coef_, fit(X, y, reject_cost=0.2).coef_)


# ---------------------------------------------------------------------------------------- manners


def test_an_interrupted_batch_leaves_the_estimator_as_it_was(monkeypatch):
    X, y = data()
    found = TightBoundLogisticRegression().partial_fit(X, y, classes=[0, 1])
    before, coef = dict(vars(found)), found.coef_.copy()

    def at_once(*arguments, **keywords):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(OnlinePolicy, "step", at_once)
        with pytest.raises(KeyboardInterrupt):
            found.partial_fit(X, y)
    assert vars(found) == before
    np.testing.assert_array_equal(found.coef_, coef)


# -------------------------------------------------------------------------------------- callbacks


LISTENED = {
    "two classes": (2, {}),
    "three classes": (3, {}),
    "undecided": (2, {"reject_cost": 0.2}),
    "a limit": (2, {"max_fpr": 0.2, "n_bounds": 3, "random_state": 0}),
    "one bound and a limit": (2, {"min_recall": 0.8, "n_bounds": 1, "random_state": 0}),
    "direct": (2, {"solver": "direct"}),
}


@pytest.fixture(params=LISTENED)
def listened(request):
    pytest.importorskip("sklearn.callback")
    n_classes, settings = LISTENED[request.param]
    return TightBoundLogisticRegression(**settings), data(n_classes=n_classes)


def test_a_listener_changes_nothing(listened):
    estimator, (X, y) = listened
    alone = clone(estimator).fit(X, y)
    estimator.set_callbacks(Recording("bound")).fit(X, y)
    np.testing.assert_array_equal(estimator.coef_, alone.coef_)
    assert vars(estimator).keys() - vars(alone).keys() == {"_skl_callbacks"}


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_callback_may_end_a_direct_descent_early(n_classes):
    pytest.importorskip("sklearn.callback")
    X, y = data(n_classes=n_classes)
    # it did what it was asked to: that is no reason for a warning
    found = TightBoundLogisticRegression(solver="direct")
    found.set_callbacks(Recording("bound", stop_at=4)).fit(X, y)
    whole = fit(X, y, solver="direct")
    assert found.n_iter_ == 4 < whole.n_iter_
    np.testing.assert_array_equal(found.expected_error_path_, whole.expected_error_path_[:4])
    J = expected_error(X, y, found.coef_, found.intercept_, 1.0)
    assert found.expected_error_path_[-1] == pytest.approx(J, rel=1e-12)


def test_a_callback_may_end_a_fit_early():
    pytest.importorskip("sklearn.callback")
    X, y = data()
    found = TightBoundLogisticRegression(n_bounds=10)
    found.set_callbacks(Recording("bound", stop_at=4)).fit(X, y)
    np.testing.assert_array_equal(found.coef_, fit(X, y, n_bounds=4).coef_)
    assert found.n_iter_ == 4


# -------------------------------------------------------------------------------------- precision


# with so many bounds no logarithm is next to nothing, which single precision calls zero
