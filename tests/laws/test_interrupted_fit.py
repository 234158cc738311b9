"""Fits that are interrupted, and fits that run out of iterations."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from grayzone import BayesDecisionClassifier, TruncatedLogisticRegression
from grayzone.numerics.designs import Design

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
LABELS = {
    "two classes": (X[:, 0] + RNG.normal(size=300) > 0.0).astype(int),
    "three classes": np.digitize(X[:, 0] + 0.5 * RNG.normal(size=300), [-0.5, 0.5]),
}
SETTINGS = {
    "auto": {},
    "full likelihood": {"zone": None},
    "primal": {"solver": "primal"},
    "ramp": {"loss": "ramp", "zone": 0.5},
}


@pytest.fixture(params=LABELS)
def y(request):
    return LABELS[request.param]


@pytest.fixture(params=SETTINGS)
def estimator(request):
    return TruncatedLogisticRegression(**SETTINGS[request.param])


@pytest.fixture(params=[1, 3])
def interrupted(request, monkeypatch):
    """Run a call in which the k-th product with the data is an interruption from the keyboard."""

    def run(call):
        calls = iter(range(request.param - 1))

        def broken(plain):
            def product(*arguments):
                if next(calls, None) is None:
                    raise KeyboardInterrupt
                return plain(*arguments)

            return product

        with monkeypatch.context() as patch:
            for kind in Design.__subclasses__():
                for name in ("scores", "gradient", "gram"):
                    patch.setattr(kind, name, broken(getattr(kind, name)))
            with pytest.raises(KeyboardInterrupt):
                call()

    return run


def test_the_first_fit(estimator, y, interrupted):
    parameters = dict(vars(estimator))
    interrupted(lambda: estimator.fit(X, y))
    # no fitted attribute, not even the number of features
    assert vars(estimator) == parameters
    with pytest.raises(NotFittedError):
        estimator.predict(X)


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_fit_after_another(estimator, y, interrupted, warm_start):
    estimator.set_params(warm_start=warm_start).fit(X, y)
    before = dict(vars(estimator))
    copies = {k: np.copy(v) for k, v in before.items() if isinstance(v, np.ndarray)}
    predicted = estimator.predict_proba(X)
    other = np.roll(y, 7)
    interrupted(lambda: estimator.fit(2.0 * X[:, :3], other))
    assert vars(estimator).keys() == before.keys()
    assert all(vars(estimator)[name] is value for name, value in before.items())
    # and nobody wrote into the arrays
    for name, value in copies.items():
        np.testing.assert_array_equal(before[name], value)
    np.testing.assert_array_equal(estimator.predict_proba(X), predicted)


def test_a_fit_after_an_interruption(estimator, y, interrupted):
    expected = clone(estimator).fit(X, y)
    interrupted(lambda: estimator.fit(X, y))
    np.testing.assert_array_equal(estimator.fit(X, y).coef_, expected.coef_)


def test_inside_a_wrapper(y, interrupted):
    wrapper = BayesDecisionClassifier(TruncatedLogisticRegression())
    interrupted(lambda: wrapper.fit(X, y))
    with pytest.raises(NotFittedError):
        wrapper.predict(X)


# ---------------------------------------------------------------------------- out of iterations


@pytest.mark.parametrize("loss", ["truncated", "ramp"])
def test_too_few_iterations_are_told_with_the_gap(loss, y):
    # this solver narrows its rounding of the kink many times before it is done
    estimator = TruncatedLogisticRegression(
        solver="primal", loss=loss, zone=0.5, tol=1e-13, max_iter=2
    )
    with pytest.warns(ConvergenceWarning, match="relative duality gap") as caught:
        estimator.fit(X, y)
    message = str(caught[-1].message)
    told = float(re.search(r"relative duality gap of ([-+.e\d]+),", message).group(1))
    assert told == float(f"{estimator.dual_gap_:.2e}")
    assert estimator.dual_gap_ > 1e-13
    assert "max_iter" in message
    assert "tol=1e-13" in message
    # the point is there all the same, and can be used
    assert np.isfinite(estimator.coef_).all()
    assert np.isfinite(estimator.predict_proba(X)).all()


def test_the_warning_points_at_the_call_of_fit(y):
    estimator = TruncatedLogisticRegression(solver="primal", tol=1e-12, max_iter=1)
    with pytest.warns(ConvergenceWarning) as caught:
        estimator.fit(X, y)
    assert caught[0].filename == __file__


def test_a_solver_that_needs_one_iteration_does_not_warn(y):
    estimator = TruncatedLogisticRegression(zone=1.0, max_iter=1, tol=0.9).fit(X, y)
    assert estimator.n_iter_ == 1
    assert estimator.dual_gap_ <= 0.9
