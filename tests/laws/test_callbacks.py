"""scikit-learn's callbacks: what they are told while a fit goes on, and what they may break."""

import numpy as np
import pytest
from recording import Recording
from sklearn.base import clone

from grayzone import TruncatedLogisticRegression

pytest.importorskip("sklearn.callback")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
LABELS = {
    "two classes": (X[:, 0] * X[:, 1] + 0.5 * RNG.normal(size=400) > 0.0).astype(int),
    "three classes": np.digitize(X[:, 0] * X[:, 1] + 0.5 * RNG.normal(size=400), [-0.5, 0.5]),
}
SETTINGS = {
    "linear": {},
    "few rows": {"kernel": "rbf"},
    "many rows": {"kernel": "rbf"},
    "primal": {"kernel": "rbf", "solver": "primal"},
    "ramp": {"kernel": "rbf", "loss": "ramp"},
}
ROWS = {"linear": 400, "few rows": 100, "many rows": 400, "primal": 100, "ramp": 400}


@pytest.fixture(params=SETTINGS)
def setting(request):
    return request.param


@pytest.fixture(params=LABELS)
def data(request, setting):
    n = ROWS[setting] if request.param == "two classes" else 80
    return X[:n], LABELS[request.param][:n]


@pytest.fixture
def estimator(setting):
    return TruncatedLogisticRegression(**SETTINGS[setting])


def test_tasks_begin_and_end(estimator, data):
    recording = Recording()
    estimator.set_callbacks(recording).fit(*data)
    calls = recording.calls
    assert calls[0][0] == "setup"
    assert calls[-1][0] == "teardown"
    # one fit around any number of iterations, each of which ends before the next one begins
    assert recording.kinds("fit") == ["setup", "begin", "end", "teardown"]
    inside = recording.kinds("iteration")
    assert len(inside) >= 2
    assert inside == ["begin", "end"] * (len(inside) // 2)
    assert [call[0] for call in calls[1:-1]] == ["begin", *inside, "end"]
    numbers = [number for kind, task, number, _ in calls if (kind, task) == ("end", "iteration")]
    assert numbers == list(range(len(numbers)))


def test_the_gap_falls_to_the_tolerance(estimator, data):
    recording = Recording()
    estimator.set_params(tol=1e-7).set_callbacks(recording).fit(*data)
    gaps = [facts["dual_gap"] for facts in recording.facts]
    objectives = [facts["objective"] for facts in recording.facts]
    assert np.all(np.isfinite(gaps))
    assert np.all(np.isfinite(objectives))
    assert gaps[-1] <= 1e-7
    if estimator.loss == "truncated":
        # what comes after the tolerance is reached is rounding
        assert gaps[-1] <= max(min(gaps), 1e-12)
        assert np.count_nonzero(np.array(gaps[:-1]) <= 1e-7) <= 3
        assert objectives[-1] == pytest.approx(estimator.objective_, rel=1e-6)


def test_blocks_tell_how_far_they_are():
    recording = Recording()
    estimator = TruncatedLogisticRegression(kernel="rbf", C=10.0)
    estimator.set_callbacks(recording).fit(X, LABELS["two classes"])
    gaps = np.array([facts["dual_gap"] for facts in recording.facts])
    assert gaps.size >= 3
    assert gaps[0] > 100.0 * gaps[-1]
    assert gaps[-1] == pytest.approx(estimator.dual_gap_, rel=1e-6)


def test_a_listener_changes_nothing(estimator, data):
    alone = clone(estimator).fit(*data)
    estimator.set_callbacks(Recording()).fit(*data)
    np.testing.assert_array_equal(estimator.dual_coef_, alone.dual_coef_)
    np.testing.assert_array_equal(estimator.intercept_, alone.intercept_)
    added = vars(estimator).keys() - vars(alone).keys()
    assert added == {"_skl_callbacks"}


def test_an_interruption_between_blocks():
    recording = Recording(raise_at=2)
    estimator = TruncatedLogisticRegression(kernel="rbf", C=10.0).set_callbacks(recording)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X, LABELS["two classes"])
    assert len(recording.facts) == 2
    # it stopped where it was told to: far from the end
    assert recording.facts[-1]["dual_gap"] > 1e-6
    assert not hasattr(estimator, "dual_coef_")


def test_several_listeners_hear_the_same(data):
    first, second = Recording(), Recording()
    estimator = TruncatedLogisticRegression(kernel="rbf").set_callbacks(first, second)
    estimator.fit(*data)
    assert [call[:3] for call in first.calls] == [call[:3] for call in second.calls]
    assert len(first.facts) > 0


def test_callbacks_are_torn_down_after_an_interruption(estimator, data):
    recording = Recording(raise_at=1)
    with pytest.raises(KeyboardInterrupt):
        estimator.set_callbacks(recording).fit(*data)
    assert recording.kinds("fit")[-1] == "teardown"
