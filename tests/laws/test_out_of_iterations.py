"""Fits that run out of iterations."""

import re

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from grayzone import TruncatedLogisticRegression

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
LABELS = {
    "two classes": (X[:, 0] + RNG.normal(size=300) > 0.0).astype(int),
    "three classes": np.digitize(X[:, 0] + 0.5 * RNG.normal(size=300), [-0.5, 0.5]),
}


@pytest.fixture(params=LABELS)
def y(request):
    return LABELS[request.param]


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
