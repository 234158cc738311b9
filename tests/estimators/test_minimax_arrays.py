"""The minimax probability machine on arrays of other libraries: the same numbers, over there."""

import array_api_strict
import numpy as np
import pytest
from array_api_compat import array_namespace
from sklearn import config_context
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import scale

from grayzone import MinimaxProbabilityMachine
from grayzone.estimators import minimax
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.moments import difference, mean_and_root
from grayzone.numerics.pivoted import pivoted_columns
from grayzone.solvers.kernel.features import pivoted_factor
from grayzone.sources.distinct import row_groups

# Both ways are backward stable, with condition numbers below 1e6.
EQUAL = {"rtol": 1e-8, "atol": 1e-10}


def machine(**options):
    return MinimaxProbabilityMachine(**{"random_state": 0, **options})


def inner_products(A, B):
    return A @ B.T


@pytest.fixture(params=["strict", "torch"])
def there(request):
    """Turn NumPy arrays into those of another library."""
    if request.param == "torch":
        torch = pytest.importorskip("torch")
        return lambda a: torch.asarray(np.array(a))
    place = array_api_strict.Device("device1")
    return lambda a: array_api_strict.asarray(np.array(a), device=place)


@pytest.fixture(autouse=True)
def _dispatch():
    with config_context(array_api_dispatch=True):
        yield


@pytest.fixture(scope="module")
def rows():
    """Rows with copies, weights with zeros."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = scale(X)[:200], y[:200]
    X, y = np.concatenate([X, X[:20]]), np.concatenate([y, y[:20]])
    return X, y, np.random.default_rng(0).integers(3, size=y.size).astype(float)


def assert_same(found, expected, X, there):
    for name in ("class_bounds_", "held_out_bound_", "intercept_", "cost_matrix_", "classes_"):
        np.testing.assert_allclose(
            as_numpy(getattr(found, name)), getattr(expected, name), **EQUAL, err_msg=name
        )
    assert hasattr(found, "coef_") == hasattr(expected, "coef_")
    if hasattr(expected, "coef_"):
        np.testing.assert_allclose(as_numpy(found.coef_), expected.coef_, rtol=1e-8, atol=1e-9)
    else:
        assert found.dual_coef_.shape == expected.dual_coef_.shape
    scores = found.decision_function(there(X))
    np.testing.assert_allclose(as_numpy(scores), expected.decision_function(X), **EQUAL)
    np.testing.assert_array_equal(as_numpy(found.predict(there(X))), expected.predict(X))
    assert found.kkt_residual_ < 1e-10


# ------------------------------------------------------------------------------------------
# The same numbers
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"covariance_reg": 0.0, "cv": None},
        {"costs": {0: 5.0, 1: 1.0}},
        {"required_bound": {1: 0.9}},
        {"cv": StratifiedKFold(4), "random_state": None},
        {"cv": 5, "random_state": 3},
        {"kernel": "rbf"},
        {"kernel": "rbf", "gamma": 0.05, "costs": "balanced"},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"kernel": "laplacian"},
        {"kernel": "sigmoid", "gamma": 1e-3, "coef0": 0.1},
        {"kernel": inner_products},
    ],
    ids=lambda options: " ".join(getattr(v, "__name__", str(v)) for v in options.values()),
)
def test_all_kernels_and_options_give_the_numbers_of_numpy(rows, there, options):
    X, y, weight = rows
    expected = machine(**options).fit(X, y, weight)
    found = machine(**options).fit(there(X), there(y), there(weight))
    assert_same(found, expected, X, there)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_rows_of_equal_weight_give_the_numbers_of_numpy(rows, there, kernel):
    X, y, _ = rows
    expected = machine(kernel=kernel).fit(X, y)
    assert_same(machine(kernel=kernel).fit(there(X), there(y)), expected, X, there)


def test_a_precomputed_kernel_has_to_be_symmetric(rows, there):
    X, y, _ = rows
    with pytest.raises(ValueError, match="has to be symmetric"):
        machine(kernel="precomputed").fit(there(X[:30] @ X[1:31].T), there(y[:30]))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("costs", [None, {0: 5.0, 1: 1.0}])
def test_covariances_may_be_decomposed_on_the_device(rows, there, kernel, costs, monkeypatch):
    X, y, _ = rows
    options = {"kernel": kernel, "costs": costs}
    expected = machine(**options).fit(X, y)
    monkeypatch.setattr(minimax, "_DECOMPOSED_HERE", 0)
    assert_same(machine(**options).fit(there(X), there(y)), expected, X, there)


def test_a_kernel_that_is_zero_everywhere(there):
    X, y = np.zeros((8, 2)), np.repeat([0, 1], 4)
    with pytest.warns(UserWarning, match="same mean"):
        found = machine(kernel=inner_products, cv=None).fit(there(X), there(y))
    assert found.accuracy_bound_ == 0.0
    assert not np.any(as_numpy(found.dual_coef_))


def test_an_indefinite_kernel_is_told(there):
    K = np.array([[0.0, 1.0], [1.0, 0.0]]).repeat(2, axis=0).repeat(2, axis=1)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        machine(kernel="precomputed").fit(there(K), there([0, 1, 0, 1]))


def test_one_weight_for_all(rows, there):
    X, y, _ = rows
    fitted = machine(cv=None)
    coef = [as_numpy(fitted.fit(there(X), there(y), w).coef_) for w in (None, 2.0)]
    np.testing.assert_allclose(*coef, rtol=1e-10)


# ------------------------------------------------------------------------------------------
# Where things are
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_no_more_than_scalars_travel_in_a_search(rows, kernel, monkeypatch):
    torch = pytest.importorskip("torch")
    X, y, _ = rows
    sizes = []
    plain = torch.Tensor.__array__

    def recorded(self, *args, **kwargs):
        sizes.append(self.numel())
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "__array__", recorded)
    monkeypatch.setattr(minimax, "_DECOMPOSED_HERE", 0)
    counts = []
    for options in ({}, {"costs": {0: 5.0, 1: 1.0}}, {"required_bound": {1: 0.7}}):
        sizes.clear()
        fitted = machine(kernel=kernel, **options)
        fitted.fit(torch.asarray(X), torch.asarray(y))
        assert max(sizes) <= len(y)  # labels, hashes of rows; never rows
        counts.append(len(sizes))
    assert counts[0] == counts[1] == counts[2] < 40


def test_without_dispatch_arrays_become_numpys(rows, there):
    X, y, _ = rows
    if array_namespace(there(X)) is array_api_strict:
        pytest.skip("does not become a NumPy array by itself")
    with config_context(array_api_dispatch=False):
        fitted = machine().fit(there(X), there(y))
        assert isinstance(fitted.coef_, np.ndarray)
        assert isinstance(fitted.predict(there(X)), np.ndarray)


# ------------------------------------------------------------------------------------------
# Not for blocks
# ------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------
# Parts
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_groups_of_rows_are_those_of_numpy_in_the_same_order(there, dtype, monkeypatch):
    monkeypatch.setattr("grayzone.sources.distinct._DEVICE_BLOCK_SIZE", 1000)
    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, size=(500, 3)).astype(dtype)
    X[X == 0.0] *= rng.choice([-1.0, 1.0], size=np.count_nonzero(X == 0.0))
    for data in (X, rng.normal(size=(500, 7)).astype(dtype)):
        codes = rng.integers(2, size=500)
        pairs = zip(row_groups(there(data), codes), row_groups(data, codes), strict=True)
        for found, expected in pairs:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "kernel", [Kernel("rbf", 0.3), Kernel("poly", 0.3, 3, 1.0), Kernel("laplacian")]
)
def test_pivoted_columns_are_those_of_lapack(there, kernel):
    X = np.random.default_rng(1).normal(size=(300, 3))
    K = kernel(X, X)
    least = 1e-10 * K.diagonal().max()
    L, pivots = pivoted_factor(K, least)
    columns, rows = pivoted_columns(there(K), least)
    np.testing.assert_array_equal(rows, pivots)
    columns = as_numpy(columns)
    # columns at the end are differences of numbers 1e5 times as large
    np.testing.assert_allclose(columns, L, atol=1e-9 * np.sqrt(K.diagonal().max()))
    assert not np.any(np.triu(columns[rows], 1))


def test_moments_by_blocks_on_a_device(there, monkeypatch):
    monkeypatch.setattr("grayzone.numerics.moments._DEVICE_BLOCK_SIZE", 100)
    rng = np.random.default_rng(2)
    X, weight = rng.normal(size=(103, 5)), rng.uniform(size=103)
    X[:, 2] = 0.1
    mean, root = mean_and_root(X, weight)
    found_mean, found_root = (as_numpy(a) for a in mean_and_root(there(X), there(weight)))
    np.testing.assert_allclose(found_mean, mean, rtol=1e-13)
    np.testing.assert_allclose(found_root.T @ found_root, root.T @ root, atol=1e-14)
    assert not np.any(found_root[:, 2])
    moments = [there(a) for a in (mean, root, mean + np.array([1.0, 0, 1e-16, 0, 0]), root)]
    apart = as_numpy(difference(*moments))
    np.testing.assert_array_equal(apart, [-1.0, 0.0, 0.0, 0.0, 0.0])
