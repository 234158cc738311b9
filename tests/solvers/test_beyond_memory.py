"""Exact kernel fits without room for a kernel matrix: the same optimum, and a plan beforehand."""

import os

import array_api_strict as strict
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_moons

from grayzone import TruncatedLogisticRegression
from grayzone.numerics.checks import as_numpy
from grayzone.solvers.kernel import beyond_memory, device_matrix

torch = pytest.importorskip("torch")
needs_dispatch = pytest.mark.skipif(
    os.environ.get("SCIPY_ARRAY_API") != "1", reason="arrays of other libraries are switched off"
)
pytestmark = [
    needs_dispatch,
    pytest.mark.filterwarnings("ignore:The kernel matrix of:UserWarning"),
]
LIBRARIES = {"torch": torch.asarray, "strict": strict.asarray}
EXACT = TruncatedLogisticRegression(kernel="rbf", gamma=2.0, zone=None, tol=1e-9)


def rows(n=200):
    return make_moons(n, noise=0.3, random_state=0)


@pytest.fixture
def no_room(monkeypatch):
    monkeypatch.setattr(beyond_memory, "fits_in_memory", lambda n_rows, like: False)
    monkeypatch.setattr(beyond_memory, "_RANK", 30)


def fit(library, estimator, X, y, **options):
    as_array = LIBRARIES[library]
    with config_context(array_api_dispatch=True):
        options = {name: as_array(value) for name, value in options.items()}
        return clone(estimator).fit(as_array(X), as_array(y), **options)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_optimum_is_that_of_the_whole_matrix(no_room, library, C, fit_intercept):
    X, y = rows()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    estimator = clone(EXACT).set_params(C=C, fit_intercept=fit_intercept)
    whole = clone(estimator).fit(X, y, sample_weight=weight)
    found = fit(library, estimator, X, y, sample_weight=weight)
    assert found.dual_gap_ <= 1e-9
    assert_allclose(found.objective_, whole.objective_, rtol=2e-9)
    with config_context(array_api_dispatch=True):
        scores = as_numpy(found.decision_function(LIBRARIES[library](X)))
    assert_allclose(scores, whole.decision_function(X), atol=2e-3)


def test_the_gap_is_that_of_what_is_kept(no_room):
    X, y = rows()
    found = fit("torch", EXACT, X, y)
    support, dual = as_numpy(found.support_), as_numpy(found.dual_coef_)[0]
    K = np.exp(-2.0 * ((X[:, None, :] - X[None, support, :]) ** 2).sum(axis=2))
    sign = np.where(y == 1, 1.0, -1.0)
    scores = K @ dual + float(found.intercept_[0])
    norm = dual @ K[support] @ dual
    primal = np.logaddexp(0.0, -sign * scores).sum() + 0.5 * norm
    a = sign[support] * dual
    every = np.zeros(len(y))
    every[support] = a
    assert abs((sign * every).sum()) < 1e-9
    entropy = -(every * np.log(every) + (1 - every) * np.log1p(-every)).sum()
    assert_allclose(found.objective_, primal, rtol=1e-10)
    assert 0.0 <= (primal - (entropy - 0.5 * norm)) / primal + 1e-12 <= 2e-9


def test_a_plan_is_told_before_the_work(no_room):
    X, y = rows()
    with pytest.warns(UserWarning, match=r"kernel matrix of 200 rows would take .* GB") as told:
        fit("torch", EXACT, X, y)
    message = str(told[0].message)
    for said in ("GB", "A product takes about", "minutes", "centres=10_000"):
        assert said in message
    assert told[0].filename == __file__


def test_a_zone_needs_the_matrix_and_says_what_does_not(monkeypatch):
    X, y = rows()
    monkeypatch.setattr(device_matrix, "free_memory", lambda like: 1e3)
    with pytest.raises(MemoryError, match="zone=None"):
        fit("torch", clone(EXACT).set_params(zone=1.0), X, y)


def test_there_is_no_plan_where_there_is_room(recwarn):
    X, y = rows()
    fit("torch", EXACT, X, y)
    assert not [w for w in recwarn if "kernel matrix" in str(w.message)]
