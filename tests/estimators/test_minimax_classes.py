"""Several classes, one against the rest: decisions, the joint bound, what is refused."""

import numpy as np
import pytest
from recording import Recording
from sklearn.datasets import load_iris, make_blobs
from sklearn.preprocessing import StandardScaler

from grayzone import MinimaxProbabilityMachine, SparseMinimaxProbabilityMachine
from grayzone.solvers.minimax.direction import joint_bound

MACHINES = {
    "linear": MinimaxProbabilityMachine(random_state=0),
    "rbf": MinimaxProbabilityMachine(kernel="rbf", random_state=0),
    "sparse": SparseMinimaxProbabilityMachine(8, random_state=0),
    "all bases": SparseMinimaxProbabilityMachine(4, cv=None, stopping=None, random_state=0),
}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(params=MACHINES)
def machine(request):
    return MACHINES[request.param].__class__(**MACHINES[request.param].get_params())


def alone(machine, X, y, weight=None):
    """The machine of two classes, of which the second one is that of the positive labels."""
    return machine.__class__(**machine.get_params()).fit(X, y.astype(int), weight)


@pytest.mark.parametrize("name", ["linear", "rbf", "all bases"])
def test_each_class_is_told_from_the_rest(name, iris):
    X, y = iris
    machine = MACHINES[name]
    found = machine.__class__(**machine.get_params()).fit(X, y)
    scores, bounds = found.decision_function(X), []
    for k in range(3):
        own = alone(machine, X, y == k)
        _, s_y, s_x, *_ = own._spread
        # the same plane or bases, in units of both standard deviations, ridge and all
        np.testing.assert_allclose(
            scores[:, k] * (s_y + s_x), own.decision_function(X), rtol=1e-6, atol=1e-7
        )
        bounds.append(own.accuracy_bound_)
    np.testing.assert_allclose(found.class_bounds_, bounds, rtol=1e-9)
    assert found.accuracy_bound_ == pytest.approx(joint_bound(bounds), abs=1e-9)
    np.testing.assert_array_equal(found.predict(X), found.classes_[np.argmax(scores, axis=1)])
    assert found.score(X, y) > 0.8


def test_held_out_bounds_are_joined_in_the_same_way(iris):
    X, y = iris
    for machine in (
        MinimaxProbabilityMachine(
            cv=[(np.arange(k % 2, 150, 2), np.arange(1 - k % 2, 150, 2)) for k in range(2)]
        ),
        SparseMinimaxProbabilityMachine(
            4, cv=[(np.arange(0, 150, 2), np.arange(1, 150, 2))], stopping=None, random_state=0
        ),
    ):
        found = machine.fit(X, y)
        each = [alone(machine, X, y == k).held_out_bound_ for k in range(3)]
        assert found.held_out_bound_ == pytest.approx(joint_bound(each), abs=1e-9)


def test_scores_are_in_standard_deviations(iris):
    X, y = iris
    found = MinimaxProbabilityMachine(covariance_reg=0.0, cv=None).fit(X, y)
    scores = found.decision_function(X)
    for k, bound in enumerate(found.class_bounds_):
        sides = [scores[y == k, k], scores[y != k, k]]
        # the threshold is kappa standard deviations from either mean
        kappas = [abs(side.mean()) / side.std() for side in sides]
        np.testing.assert_allclose(kappas, np.sqrt(bound / (1.0 - bound)), rtol=1e-9)
        assert sum(side.std() for side in sides) == pytest.approx(1.0, rel=1e-9)


def test_the_joint_bound_holds_for_the_rows_themselves():
    """Training rows are a distribution with these very moments: no plain bound can be broken."""
    for seed in range(5):
        X, y = make_blobs(150, centers=4, n_features=5, cluster_std=1.3, random_state=seed)
        found = MinimaxProbabilityMachine(covariance_reg=0.0, cv=None).fit(X, y)
        assert found.score(X, y) >= found.accuracy_bound_
        for k, bound in enumerate(found.class_bounds_):
            right = (found.decision_function(X)[:, k] > 0) == (y == k)
            assert min(right[y == k].mean(), right[y != k].mean()) >= bound - 1e-12


def test_a_bound_of_many_classes_may_be_zero_and_says_so():
    X, y = make_blobs(120, centers=6, n_features=2, cluster_std=3.0, random_state=0)
    found = MinimaxProbabilityMachine(cv=3, random_state=0).fit(X, y)
    assert found.accuracy_bound_ == 0.0
    assert found.class_bounds_.shape == (6,)
    assert found.held_out_bound_ == 0.0
    assert np.all(found.class_bounds_ > 0.0)


def test_a_precomputed_kernel_of_three_classes(iris):
    X, y = iris
    K = X @ X.T + 1.0
    given = MinimaxProbabilityMachine(kernel="precomputed", cv=None).fit(K, y)
    poly = MinimaxProbabilityMachine(kernel="poly", degree=1, gamma=1.0, coef0=1.0, cv=None)
    np.testing.assert_allclose(
        given.decision_function(K), poly.fit(X, y).decision_function(X), atol=1e-7
    )


def test_classes_that_are_apart_need_no_variance():
    X = np.eye(3).repeat(4, axis=0) * 2.0
    y = np.arange(3).repeat(4)
    found = MinimaxProbabilityMachine(covariance_reg=0.0, cv=None).fit(X, y)
    assert found.accuracy_bound_ == 1.0
    np.testing.assert_array_equal(found.predict(X), y)


REFUSED = {
    "costs": (
        {"costs": {0: 1.0, 1: 2.0, 2: 1.0}},
        r"supported with costs.* two classes; got 3: \[0, 1, 2\]",
    ),
    "required_bound": ({"required_bound": {0: 0.5}}, "supported with required_bound"),
    "errors of classes": (
        {"moment_error": {0: 0.1, 1: 0.1, 2: 0.1}},
        "mapping of both classes of two",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", [MinimaxProbabilityMachine, SparseMinimaxProbabilityMachine])
def test_what_is_for_two_classes_is_told(kind, name, iris):
    parameters, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        kind(**parameters).fit(*iris)


def test_costs_of_rows_are_for_two_classes(iris):
    X, y = iris
    found = MinimaxProbabilityMachine(cv=None).fit(X, y)
    with pytest.raises(ValueError, match=r"example_costs are for two classes; .* fitted to 3"):
        found.predict(X, example_costs={k: np.ones(150) for k in range(3)})


def test_given_folds_must_hold_out_every_class(iris):
    X, y = iris
    folds = [(np.arange(50, 150), np.arange(0, 50))]
    with pytest.raises(ValueError, match="less than two training rows of a class"):
        MinimaxProbabilityMachine(cv=folds).fit(X, y)
    out = np.arange(0, 100, 4)
    with pytest.raises(ValueError, match="must hold out rows of every class"):
        MinimaxProbabilityMachine(cv=[(np.setdiff1d(np.arange(150), out), out)]).fit(X, y)


def test_callbacks_hear_of_each_round_of_bases(iris):
    pytest.importorskip("sklearn.callback")
    X, y = iris
    recording = Recording("basis", stop_at=2)
    machine = SparseMinimaxProbabilityMachine(4, cv=None, stopping=None, random_state=0)
    found = machine.set_callbacks(recording).fit(X, y)
    # one basis of each class a round
    assert len(recording.facts) == len(found.bound_path_) == 2
    assert found.n_iter_ == 6
    assert [facts["dual_coef"].shape for facts in recording.facts] == [(3, 3), (3, 6)]
    assert [facts["accuracy_bound"] for facts in recording.facts] == found.bound_path_.tolist()
