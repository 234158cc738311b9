"""Rewards of every row and action: against oracles, cost matrices, every carrier, logs, experts."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from carriers import CARRIERS, plain, rows
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold, cross_val_predict

from grayzone import TightBoundLogisticRegression, TightBoundLogisticRegressionCV
from grayzone.decision import rewards_from_logs
from grayzone.sources import from_batches

Bounds = TightBoundLogisticRegression


def data(n=90, K=3, seed=0):
    """Return rows, labels that name the actions, and rewards of any sign."""
    X, y = make_classification(
        n, 4, n_informative=4, n_redundant=0, n_classes=K, flip_y=0.2, n_clusters_per_class=1,
        random_state=seed,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(n, K)) + 2.0 * np.eye(K)[y] + X[:, [0]]
    return X, y, R


# ------------------------------------------------------------------------------------------
# Constant rewards are a cost matrix
# ------------------------------------------------------------------------------------------

CONSTANT = [
    {},
    {"n_bounds": 1},
    {"n_bounds": 30, "C": 10.0},  # direct
    {"reject_cost": 0.3},
    {"reject_cost": {0: 0.7, 1: 0.3, 2: 0.5}, "n_bounds": 10},
    {"class_weight": {0: 2.0, 1: 1.0, 2: 3.0}, "fit_intercept": False},
    {"validation_fraction": 0.3, "random_state": 0},
]


@pytest.mark.filterwarnings("ignore:On held-out rows decisions cost")
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("parameters", CONSTANT, ids=str)
def test_constant_rewards_are_the_cost_matrix(parameters, K):
    X, y, _ = data(200, K, seed=1)
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.5, 2.0, 200) * (np.arange(200) >= 20)
    matrix = rng.uniform(1.0, 3.0, size=(K, K)) * (1.0 - np.eye(K))
    parameters = dict(parameters)
    for name in ("reject_cost", "class_weight"):
        if isinstance(parameters.get(name), dict):
            parameters[name] = {k: v for k, v in parameters[name].items() if k < K}
    one = Bounds(costs=matrix, **parameters).fit(X, y, weight)
    rejection, R = parameters.pop("reject_cost", None), -matrix[y]
    if rejection is not None:
        of_classes = [rejection[k] if isinstance(rejection, dict) else rejection for k in range(K)]
        R = np.column_stack([R, -np.array(of_classes)[y]])
        parameters["undecided_label"] = -1
    # what is added to all actions of a row makes no difference
    other = Bounds(**parameters).fit(X, y, weight, rewards=R + rng.normal(size=(200, 1)))
    for name in ("coef_", "intercept_", "expected_error_path_", "cost_matrix_"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), atol=1e-10)
    np.testing.assert_array_equal(other.actions_, one.actions_)
    np.testing.assert_array_equal(other.predict(X), one.predict(X))
    assert other.threshold_ == one.threshold_
    if "validation_fraction" in parameters:
        assert other.held_out_costs_ == pytest.approx(one.held_out_costs_, rel=1e-10)


# ------------------------------------------------------------------------------------------
# Oracles
# ------------------------------------------------------------------------------------------


def rewarded(R, weight):
    """Return rewards above the least of each row, in the unit of the fit, by the definitions."""
    unit = weight @ (R.max(axis=1) - R.min(axis=1)) / weight.sum()
    return weight[:, None] * (R - R.min(axis=1, keepdims=True)) / unit, unit


def first_bound(X, gains, C):
    """Minimise the bound that is tight at p = 1/A with CVXPY."""
    d, A = X.shape[1], gains.shape[1]
    coef, intercept = cp.Variable((1 if A == 2 else A, d)), cp.Variable(1 if A == 2 else A)
    F = X @ coef.T + cp.reshape(intercept, (1, intercept.size), order="C")
    if A == 2:
        losses = gains[:, 1] @ cp.logistic(-F[:, 0]) + gains[:, 0] @ cp.logistic(F[:, 0])
    else:
        losses = gains.sum(axis=1) @ cp.log_sum_exp(F, axis=1) - cp.sum(cp.multiply(gains, F))
    problem = cp.Problem(cp.Minimize(losses / A + cp.sum_squares(coef) / (2.0 * C * A)))
    return float(problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-12, tol_feas=1e-12))


def values(model, X, gains, C):
    """Return the first bound and J of a model, by their definitions."""
    F, A = X @ model.coef_.T + model.intercept_, gains.shape[1]
    log_p = log_expit(np.column_stack([-F, F])) if A == 2 else log_softmax(F, axis=1)
    penalty = np.sum(model.coef_**2) / (2.0 * C * A)
    cost = np.sum(gains.max(axis=1)) - np.sum(gains * np.exp(log_p)) + penalty
    return penalty - np.sum(gains * log_p) / A, cost


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("C", [0.1, 5.0])
def test_the_first_bound_is_minimised_and_then_j_falls(K, C):
    X, y, R = data(60, K, seed=2)
    weight = np.random.default_rng(2).uniform(0.3, 2.0, 60)
    gains, unit = rewarded(R, weight)
    one = Bounds(C=C, n_bounds=1, tol=1e-10).fit(X, y, weight, rewards=R)
    first, cost = values(one, X, gains, C)
    assert first == pytest.approx(first_bound(X, gains, C), rel=1e-9)
    assert one.expected_error_path_[0] == pytest.approx(unit * cost, rel=1e-10)
    more = Bounds(C=C, n_bounds=8, tol=1e-10).fit(X, y, weight, rewards=R)
    assert len(more.expected_error_path_) > 2
    assert np.all(np.diff(more.expected_error_path_) <= 0.0)
    assert more.expected_error_path_[-1] == pytest.approx(
        unit * values(more, X, gains, C)[1], rel=1e-10
    )


def test_many_bounds_find_the_best_policy_of_one_feature():
    # of a line of points, the best pair of intervals is found by trying all cuts
    rng = np.random.default_rng(3)
    X = np.sort(rng.normal(size=(80, 1)), axis=0)
    R = np.column_stack([-X[:, 0], X[:, 0]]) + 0.3 * rng.normal(size=(80, 2))
    model = Bounds(C=1e4, n_bounds=200).fit(X, np.arange(80) % 2, rewards=R)
    earned = np.where(model.predict(X) == 1, R[:, 1], R[:, 0]).sum()
    below = np.append(0.0, np.cumsum(R[:, 0]))
    above = np.append(0.0, np.cumsum(R[::-1, 1]))[::-1]
    assert earned == pytest.approx(np.max(below + above), rel=1e-12)


# ------------------------------------------------------------------------------------------
# Laws
# ------------------------------------------------------------------------------------------


def test_warm_starts_pickles_and_a_fit_without_rewards():
    X, y, R = data(100, seed=7)
    wary = Bounds(undecided_label=-1, warm_start=True)
    more = np.column_stack([R, np.full(100, 1.0)])
    first = wary.fit(X, y, rewards=more).coef_
    np.testing.assert_allclose(wary.fit(X, y, rewards=more).coef_, first, atol=1e-6)
    again = pickle.loads(pickle.dumps(wary))
    np.testing.assert_array_equal(again.predict(X), wary.predict(X))
    assert again.policy_proba(X).shape == (100, 4)
    assert again.predict_proba(X).shape == (100, 3)
    wary.fit(X, y)
    np.testing.assert_array_equal(wary.actions_, [0, 1, 2])


def test_rewards_are_routed_to_folds():
    X, y, R = data(90, seed=8)
    with config_context(enable_metadata_routing=True):
        model = Bounds().set_fit_request(rewards=True)
        found = cross_val_predict(model, X, y, cv=KFold(3), params={"rewards": R})
    for train, test in KFold(3).split(X):
        fold = Bounds().fit(X[train], y[train], rewards=R[train])
        np.testing.assert_array_equal(found[test], fold.predict(X[test]))


# ------------------------------------------------------------------------------------------
# Carriers
# ------------------------------------------------------------------------------------------

CARRIED = ["CSR", "pandas", "PyTorch", "array-api-strict", "Dask array", "Dask frame"]


@pytest.fixture(autouse=True, scope="module")
def one_thread_of_dask():
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        yield


def carried(carrier, X, R):
    """Return rewards as they come beside rows of a carrier."""
    if carrier == "Dask frame":
        return R
    if carrier == "Dask array":  # in chunks of its own
        return CARRIERS[carrier].y(R).rechunk((70, 1))
    return CARRIERS[carrier].y(R) if carrier not in ("CSR", "pandas") else R.tolist()


@pytest.mark.parametrize("undecided", [False, True])
@pytest.mark.parametrize("carrier", CARRIED)
def test_the_model_is_that_of_numpy(carrier, undecided, tmp_path):
    form = CARRIERS[carrier]
    if form.missing() is not None:
        pytest.skip(form.missing())
    X, labels, weight = rows()
    y, R = labels[3], np.random.default_rng(9).normal(size=(150, 3)) + np.eye(3)[labels[3]]
    model = Bounds(tol=1e-9, undecided_label=-7 if undecided else "auto")
    R = np.column_stack([R, np.full(150, 0.6)]) if undecided else R
    here = clone(model).fit(X, y, weight, rewards=R)
    with form.context():
        given = form.fit_arguments(tmp_path, X, y, weight)
        there = clone(model).fit(*given, rewards=carried(carrier, X, R))
        for name in ("coef_", "intercept_", "expected_error_path_", "cost_matrix_", "actions_"):
            found, expected = plain(getattr(there, name)), getattr(here, name)
            np.testing.assert_allclose(found, expected, atol=1e-8 * (1 + abs(expected).max()))


# ------------------------------------------------------------------------------------------
# What will not do
# ------------------------------------------------------------------------------------------

BAD = {
    "one dimension": (lambda R: R[:, 0], r"two dimensions; got shape \(60,\)"),
    "three dimensions": (lambda R: R[:, :, None], "two dimensions"),
    "a mapping": (lambda R: {0: R[:, 0]}, "two dimensions"),
    "too few actions": (lambda R: R[:, :2], r"shape \(60, 2\); expected \(60, 3\).*\[0, 1, 2\]"),
    "one action more": (lambda R: np.c_[R, R[:, :1]], "takes an undecided_label"),
    "short": (lambda R: R[:-1], "rewards of 59 rows; expected 60"),
    "nan": (lambda R: np.where(R > 0, np.nan, R), "rewards must be finite; got nan in row"),
    "infinite": (lambda R: np.where(R > 1, -np.inf, R), "rewards must be finite; got inf in row"),
    "words": (lambda R: np.full(R.shape, "a"), "rewards must be made of numbers"),
    "all equal": (lambda R: np.tile(R[:, :1], 3), "rewards make no difference"),
    "tiny": (lambda R: 1e-290 * R, "Give them in another unit"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_rewards_leave_the_estimator_as_it_was(kind):
    X, y, R = data(60, seed=10)
    change, message = BAD[kind]
    model = Bounds().fit(X, y)
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, rewards=change(R))
    np.testing.assert_array_equal(model.coef_, before)


def test_an_undecided_label_asks_for_one_more_column():
    X, y, R = data(60, seed=10)
    with pytest.raises(ValueError, match=r"expected \(60, 4\).*undecided action last"):
        Bounds(undecided_label=-1).fit(X, y, rewards=R)
    with pytest.raises(ValueError, match="undecided_label"):
        Bounds(undecided_label=2).fit(X, y, rewards=np.c_[R, R[:, :1]])
    # it alone makes no difference between the classes
    with pytest.raises(ValueError, match="all classes earn the same"):
        Bounds(undecided_label=-1).fit(X, y, rewards=np.c_[np.zeros((60, 3)), R[:, :1]])


def test_what_does_not_go_with_rewards():
    X, y, R = data(60, K=2, seed=11)
    errors = {0: np.ones(60), 1: 2.0}
    for parameters, given in (
        ({"costs": "balanced"}, {}),
        ({"reject_cost": 0.2}, {}),
        ({}, {"example_costs": errors}),
    ):
        with pytest.raises(ValueError, match="must be None beside rewards"):
            Bounds(**parameters).fit(X, y, rewards=R, **given)
    with pytest.raises(ValueError, match="no rewards beside it"):
        Bounds(max_fpr=0.2, confidence=None).fit(X, y, rewards=R)
    with pytest.raises(ValueError, match="or the rewards"):
        Bounds().fit(X, y, rewards=R).partial_fit(X, y)
    with pytest.raises(ValueError, match="rewards are for rows in memory or of Dask"):
        Bounds().fit(from_batches(lambda: iter([(X, y)])), rewards=R)
    with pytest.raises(ValueError, match="of Dask only beside rows of Dask"):
        Bounds().fit(X, y, rewards=CARRIERS["Dask array"].y(np.tile(R, (3, 1))[:150])[:60])
    given, labels, _ = rows()
    there = [CARRIERS["Dask array"].y(values) for values in (given, labels[2])]
    with pytest.raises(ValueError, match="rewards must have one entry a row; X has 150 rows"):
        Bounds().fit(*there, rewards=R)
    with pytest.raises(TypeError, match="rewards"):
        TightBoundLogisticRegressionCV().fit(X, y, rewards=R)


# ------------------------------------------------------------------------------------------
# Logs
# ------------------------------------------------------------------------------------------


def test_rewards_from_logs_are_right_on_average():
    rng = np.random.default_rng(12)
    true, chances = rng.normal(size=(5, 3)), softmax(rng.normal(size=(5, 3)), axis=1)
    guesses = rng.normal(size=(5, 3))
    for baseline in (0.0, -2.5, guesses):
        mean = np.zeros((5, 3))
        for action in range(3):
            taken = np.full(5, action)
            given = taken, true[:, action], chances[:, action]
            R = rewards_from_logs(*given, labels=[0, 1, 2], baseline=baseline)
            mean += chances[:, [action]] * R
        np.testing.assert_allclose(mean, true, atol=1e-12)
    found = rewards_from_logs([0, 1], [1.0, 4.0], [0.5, 0.25], baseline="mean")
    mean = (1.0 / 0.5 + 4.0 / 0.25) / (1.0 / 0.5 + 1.0 / 0.25)
    expected = [[mean + (1.0 - mean) / 0.5, mean], [mean, mean + (4.0 - mean) / 0.25]]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensities": [0.5, 0.0]}, "above 0 and at most 1.*got 0 in row 1"),
        ({"propensities": [1.5, 0.5]}, "got 1.5 in row 0"),
        ({"propensities": [0.5]}, r"propensities has shape \(1,\); expected \(2,\)"),
        ({"rewards": [np.nan, 1.0]}, "rewards must be finite; got nan in row 0"),
        ({"rewards": ["a", "b"]}, "rewards must be made of numbers"),
        ({"labels": ["mail"]}, "'call' in row 0, which is none of the labels"),
        ({"baseline": "median"}, "baseline must be a number, 'mean' or an array"),
        ({"baseline": [1.0, 2.0]}, r"of shape \(2, 2\); got shape \(2,\)"),
    ],
)
def test_logs_that_will_not_do(change, message):
    given = {"actions": ["call", "mail"], "rewards": [1.0, 2.0], "propensities": [0.5, 0.5]}
    with pytest.raises(ValueError, match=message):
        rewards_from_logs(**{**given, **change})


PLANES = np.array([[1.0, 0.0, 0.0], [-0.5, 0.9, 0.0], [-0.5, -0.9, 0.0]])


def shop(n, seed):
    """Return rows, what actions earn there on average, and the chances of the logging policy.

    The best action earns .8, others .2, and the best policy is linear; a linear model of rewards is
    wrong, and the logs see each action where it was thought to be good.
    """
    X = np.random.default_rng(seed).normal(size=(n, 3))
    best = np.argmax(X @ PLANES.T + [0.0, 0.3, -0.3], axis=1)
    thought = np.column_stack([X[:, 1] + 0.8, -X[:, 0], X[:, 2]])
    return X, 0.2 + 0.6 * np.eye(3)[best], 0.9 * softmax(1.5 * thought, axis=1) + 0.1 / 3


def logged(n, seed):
    """Return rows, actions taken, rewards seen and propensities."""
    X, true, chances = shop(n, seed)
    rng = np.random.default_rng(1000 + seed)
    actions = (rng.random((n, 1)) > np.cumsum(chances, axis=1)[:, :2]).sum(axis=1)
    own = np.arange(n), actions
    return X, actions, (rng.random(n) < true[own]).astype(float), chances[own]


def test_a_policy_learnt_from_logs_earns_more_than_they_and_than_a_model_of_rewards():
    X_new, true, chances = shop(40_000, 99)
    own, earned = np.arange(len(true)), {"logging": [(true * chances).sum(axis=1).mean()]}
    for seed in range(3):
        X, actions, rewards, propensities = logged(3000, seed)
        models = [Ridge().fit(X[actions == k], rewards[actions == k]) for k in range(3)]
        guesses, of_new = (np.column_stack([m.predict(Z) for m in models]) for Z in (X, X_new))
        earned.setdefault("model of rewards", []).append(true[own, of_new.argmax(axis=1)].mean())
        for name, baseline in (("ips", 0.0), ("mean", "mean"), ("doubly robust", guesses)):
            R = rewards_from_logs(actions, rewards, propensities, baseline=baseline)
            policy = Bounds(n_bounds=10).fit(X, actions, rewards=R)
            earned.setdefault(name, []).append(true[own, policy.predict(X_new)].mean())
    mean = {name: np.mean(found) for name, found in earned.items()}
    # .8 is the most that can be earned: the policies come within .03 of it, the model does not
    assert mean["logging"] < 0.45
    assert 0.70 < mean["model of rewards"] < 0.75
    for name in ("ips", "mean", "doubly robust"):
        assert 0.77 < mean[name] <= 0.8, mean
        assert min(np.subtract(earned[name], earned["model of rewards"])) > 0.01


def test_the_self_normalised_estimate_is_maximised_by_its_own_value_as_a_baseline():
    X, actions, rewards, propensities = logged(2000, 5)
    rewards = rewards + 10.0  # a constant that plain weighting would learn from

    def estimate(policy):
        taken = policy.policy_proba(X)[np.arange(len(X)), actions] / propensities
        return taken @ rewards / taken.sum()

    value, found = rewards.mean(), []
    for _ in range(5):
        R = rewards_from_logs(actions, rewards, propensities, baseline=value)
        policy = Bounds(n_bounds=10, C=10.0).fit(X, actions, rewards=R)
        found.append(estimate(policy))
        value = found[-1]
    assert abs(found[-1] - found[-2]) < 1e-3
    plain_fit = Bounds(n_bounds=10, C=10.0).fit(
        X, actions, rewards=rewards_from_logs(actions, rewards, propensities)
    )
    assert found[-1] > estimate(plain_fit) + 0.02
    X_new, true, _ = shop(20_000, 98)
    worth = [true[np.arange(20_000), p.predict(X_new)].mean() for p in (policy, plain_fit)]
    assert worth[0] > worth[1] + 0.02


# ------------------------------------------------------------------------------------------
# An expert who errs
# ------------------------------------------------------------------------------------------


def patients(n, seed):
    """Return rows, labels, chances of the positive class and of the expert to be right."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    chance = expit(2.0 * X[:, 0])
    skill = np.where(X[:, 1] > 0.0, 0.98, 0.6)
    y = (rng.random(n) < chance).astype(int)
    return X, y, chance, skill, (rng.random(n) < skill).astype(float)


def test_rows_are_handed_over_to_an_expert_where_the_expert_is_good():
    fee = 0.05
    X, y, _, _, right = patients(4000, 0)
    R = np.column_stack([y == 0, y == 1, right - fee])
    model = Bounds(n_bounds=40, undecided_label=9).fit(X, y, rewards=R)
    X_new, _, chance, skill, _ = patients(40_000, 1)
    worth = np.column_stack([1.0 - chance, chance, skill - fee])
    own, asked = np.arange(len(worth)), model.predict(X_new) == 9
    places = np.where(asked, 2, model.predict(X_new))
    earned = worth[own, places].mean()
    # one price for all rows, that of the expert's mean reward, is Chow's rule
    everywhere = Bounds(n_bounds=40, reject_cost=1.0 - (right.mean() - fee)).fit(X, y)
    chow = worth[own, np.where(everywhere.predict(X_new) == -1, 2, everywhere.predict(X_new))]
    alone = worth[own, Bounds(n_bounds=40).fit(X, y).predict(X_new)].mean()
    best = worth.max(axis=1).mean()
    assert earned > max(alone, chow.mean(), worth[:, 2].mean()) + 0.02
    assert best - earned < 0.01
    assert asked[X_new[:, 1] > 0.5].mean() > 0.9
    assert asked[X_new[:, 1] < -0.5].mean() < 0.05
