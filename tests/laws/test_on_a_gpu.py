"""PyTorch and CuPy on a GPU: the numbers of NumPy, and nothing that leaves the device.

These run where there is a CUDA device; elsewhere the same estimators are tested with PyTorch on the
processor and with array-api-strict.
"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported

import numpy as np
import pytest
from array_api_compat import array_namespace, device
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_array_api_input

from grayzone import (
    ImportVectorMachine,
    MinimaxProbabilityMachine,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.arrays import move_to, to_numpy
from grayzone.numerics.checks import as_numpy

MODELS = {
    "linear": (2, TruncatedLogisticRegression(tol=1e-12)),
    "plain linear": (2, TruncatedLogisticRegression(zone=None, tol=1e-12)),
    "linear, three classes": (3, TruncatedLogisticRegression(tol=1e-12)),
    "ramp": (2, TruncatedLogisticRegression(loss="ramp", tol=1e-12)),
    "kernel": (2, TruncatedLogisticRegression(kernel="rbf", zone=(0.3, 0.7), tol=1e-11)),
    "plain kernel": (2, TruncatedLogisticRegression(kernel="rbf", zone=None, tol=1e-12)),
    "laplacian": (2, TruncatedLogisticRegression(kernel="laplacian", tol=1e-11)),
    "kernel, three classes": (3, TruncatedLogisticRegression(kernel="rbf", tol=1e-10)),
    "search": (
        2,
        TruncatedLogisticRegressionCV(Cs=[0.1, 1.0, 10.0], cv=3, kernel="rbf", tol=1e-10),
    ),
    "import points": (2, ImportVectorMachine(max_import_points=8)),
    "import points, three classes": (3, ImportVectorMachine(max_import_points=8)),
    "tight bounds": (2, TightBoundLogisticRegression()),
    "tight bounds, three classes": (3, TightBoundLogisticRegression()),
    "undecided": (2, TightBoundLogisticRegression(reject_cost=0.2)),
    "limited": (2, TightBoundLogisticRegression(max_fpr=0.1)),
    "minimax": (2, MinimaxProbabilityMachine()),
    "kernel minimax": (2, MinimaxProbabilityMachine(kernel="rbf")),
}
FITTED = ("coef_", "dual_coef_", "intercept_", "support_vectors_", "import_points_")


def torch_there():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no CUDA device")
    return lambda values: torch.asarray(values, device="cuda")


def cupy_there():
    cupy = pytest.importorskip("cupy")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        pytest.skip("CuPy finds no CUDA device")
    return cupy.asarray


LIBRARIES = {"torch": torch_there, "cupy": cupy_there}


@pytest.fixture(params=LIBRARIES)
def there(request):
    """Function that gives a NumPy array on the device."""
    return LIBRARIES[request.param]()


def rows(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    score = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.6 * rng.normal(size=300)
    return X, np.searchsorted([0.2, 1.0][: n_classes - 1], score), rng.uniform(0.5, 2.0, size=300)


def fit_both(there, name):
    n_classes, model = MODELS[name]
    X, y, weight = rows(n_classes)
    expected = clone(model).fit(X, y, sample_weight=weight)
    with config_context(array_api_dispatch=True):
        found = clone(model).fit(there(X), there(y), sample_weight=there(weight))
    return found, expected, X


@pytest.mark.parametrize("name", MODELS)
def test_the_numbers_are_those_of_numpy(name, there):
    found, expected, X = fit_both(there, name)
    with config_context(array_api_dispatch=True):
        scores = found.decision_function(there(X))
        labels = found.predict(there(X))
    assert device(scores) == device(there(X))
    own = expected.decision_function(X)
    size = np.abs(own).max()
    np.testing.assert_allclose(as_numpy(scores), own, rtol=0, atol=1e-6 * size)
    sure = np.abs(own) > 1e-5 * size
    same = as_numpy(labels) == expected.predict(X)
    assert np.all(same | ~(sure if sure.ndim == 1 else sure.all(axis=1)))


@pytest.mark.parametrize("name", MODELS)
def test_fitted_arrays_are_on_the_device_and_can_be_moved(name, there):
    found, _, X = fit_both(there, name)
    for attribute in FITTED:
        value = getattr(found, attribute, None)
        if hasattr(value, "shape"):
            assert array_namespace(value) is array_namespace(there(X)), attribute
            assert device(value) == device(there(X)), attribute
    here = to_numpy(found)
    with config_context(array_api_dispatch=True):
        back = move_to(here, there(X))
        scores = as_numpy(found.decision_function(there(X)))
        again = as_numpy(back.decision_function(there(X)))
    # products of arrays that lie otherwise in memory may round differently
    accuracy = {"rtol": 0.0, "atol": 1e-13 * np.abs(scores).max()}
    np.testing.assert_allclose(again, scores, **accuracy)
    np.testing.assert_allclose(here.decision_function(X), scores, **accuracy)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("library", "place", "dtype"),
    [("torch", "cuda", "float64"), ("torch", "cuda", "float32"), ("cupy", None, None)],
)
def test_checks_of_scikit_learn(name, library, place, dtype):
    LIBRARIES[library]()
    model = clone(MODELS[name][1])
    check_array_api_input(name, model, library, place, dtype, check_sample_weight=True)
