"""PyTorch and CuPy on a GPU: what the law of all carriers leaves to say.

These run where there is a CUDA device; elsewhere the same estimators are tested with PyTorch on the
processor and with array-api-strict.
"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported

import numpy as np
import pytest
from array_api_compat import device
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
from grayzone.numerics.checks import as_numpy

# Those of which the law of all carriers (test_carriers.py) has no cell, with their classes.
NOT_IN_THE_LAW = {
    "plain kernel": (2, TruncatedLogisticRegression(kernel="rbf", zone=None, tol=1e-12)),
    "laplacian": (2, TruncatedLogisticRegression(kernel="laplacian", tol=1e-11)),
    "kernel, three classes": (3, TruncatedLogisticRegression(kernel="rbf", tol=1e-10)),
    "kernel search": (
        2,
        TruncatedLogisticRegressionCV(Cs=[0.1, 1.0, 10.0], cv=3, kernel="rbf", tol=1e-12),
    ),
    "tight bounds, three classes": (3, TightBoundLogisticRegression()),
}
MODELS = {
    "linear": TruncatedLogisticRegression(tol=1e-12),
    "plain linear": TruncatedLogisticRegression(zone=None, tol=1e-12),
    "ramp": TruncatedLogisticRegression(loss="ramp", tol=1e-12),
    "kernel": TruncatedLogisticRegression(kernel="rbf", zone=(0.3, 0.7), tol=1e-11),
    "search": NOT_IN_THE_LAW["kernel search"][1],
    "import points": ImportVectorMachine(max_import_points=8),
    "tight bounds": TightBoundLogisticRegression(),
    "undecided": TightBoundLogisticRegression(reject_cost=0.2),
    "limited": TightBoundLogisticRegression(max_fpr=0.5, confidence=0.5, random_state=0),
    "minimax": MinimaxProbabilityMachine(),
    "kernel minimax": MinimaxProbabilityMachine(kernel="rbf"),
}


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


@pytest.mark.parametrize("name", NOT_IN_THE_LAW)
def test_the_numbers_are_those_of_numpy(name, there):
    n_classes, model = NOT_IN_THE_LAW[name]
    X, y, weight = rows(n_classes)
    expected = clone(model).fit(X, y, sample_weight=weight)
    with config_context(array_api_dispatch=True):
        found = clone(model).fit(there(X), there(y), sample_weight=there(weight))
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
@pytest.mark.parametrize(
    ("library", "place", "dtype"),
    [("torch", "cuda", "float64"), ("torch", "cuda", "float32"), ("cupy", None, None)],
)
def test_checks_of_scikit_learn(name, library, place, dtype):
    LIBRARIES[library]()
    model = clone(MODELS[name])
    check_array_api_input(name, model, library, place, dtype, check_sample_weight=True)
