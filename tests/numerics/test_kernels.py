"""Kernel values, block by block, against scikit-learn and against the explicit matrix."""

import numpy as np
import pytest
import scipy.sparse as sp
from every import every
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import pairwise
from sklearn.svm import SVC

from grayzone.numerics.kernels import Kernel, resolve_kernel

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(37, 5)), RNG.normal(size=(23, 5))
X[RNG.random(X.shape) < 0.4] = 0.0
Z[3] = X[5]


def dot_plus_one(A, B):
    product = A @ B.T
    return (product.toarray() if sp.issparse(product) else product) + 1.0


EXPECTED = {
    "linear": (Kernel("linear"), lambda A, B: pairwise.linear_kernel(A, B)),
    "rbf": (Kernel("rbf", gamma=0.3), lambda A, B: pairwise.rbf_kernel(A, B, gamma=0.3)),
    "poly": (
        Kernel("poly", gamma=0.3, degree=4, coef0=0.7),
        lambda A, B: pairwise.polynomial_kernel(A, B, degree=4, gamma=0.3, coef0=0.7),
    ),
    "poly of degree 1": (
        Kernel("poly", gamma=2.0, degree=1, coef0=-1.5),
        lambda A, B: pairwise.polynomial_kernel(A, B, degree=1, gamma=2.0, coef0=-1.5),
    ),
    "sigmoid": (
        Kernel("sigmoid", gamma=0.2, coef0=-0.4),
        lambda A, B: pairwise.sigmoid_kernel(A, B, gamma=0.2, coef0=-0.4),
    ),
    "laplacian": (
        Kernel("laplacian", gamma=0.3),
        lambda A, B: pairwise.laplacian_kernel(A, B, gamma=0.3),
    ),
    "callable": (Kernel(dot_plus_one), lambda A, B: A @ B.T + 1.0),
}
STORAGE = {
    "dense": np.asarray,
    "Fortran order": np.asfortranarray,
    "single precision": lambda A: A.astype(np.float32),
    "CSR array": sp.csr_array,
    "CSR matrix": sp.csr_matrix,
    "CSR, single precision": lambda A: sp.csr_array(A.astype(np.float32)),
}


@pytest.fixture(params=EXPECTED)
def kernel_and_expected(request):
    return EXPECTED[request.param]


@pytest.fixture(params=STORAGE)
def stored(request):
    return STORAGE[request.param]


def in_double(A):
    return A.toarray().astype(float) if sp.issparse(A) else A.astype(float)


def test_values(kernel_and_expected, stored):
    kernel, expected = kernel_and_expected
    A, B = stored(X), stored(Z)
    values = kernel(A, B)
    # a foreign function is called with what the factors are: the rows, in double precision
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, expected(in_double(A), in_double(B)), rtol=1e-12, atol=1e-13)


def test_values_in_single_precision(kernel_and_expected):
    kernel, expected = kernel_and_expected
    block = kernel.between(kernel.left(X, np.float32), kernel.right(Z, np.float32))
    exact = expected(X, Z)
    np.testing.assert_allclose(block, exact, atol=2e-5 * np.abs(exact).max())


def test_a_row_has_the_largest_value_with_itself():
    for name in ("rbf", "laplacian"):
        values = Kernel(name, gamma=3.0)(X, Z)
        assert values[5, 3] == pytest.approx(1.0, abs=1e-13)
        assert values.max() <= 1.0 + 1e-13


@pytest.mark.parametrize("shift", [10.0, 1e3])
def test_gaussian_kernel_far_from_the_origin(shift):
    # squared norms cancel: of distances d there is left what eps |x|^2 leaves
    exact = pairwise.rbf_kernel(X, Z, gamma=0.3)
    norm2 = np.max(np.sum((X + shift) ** 2, axis=1))
    np.testing.assert_allclose(
        Kernel("rbf", gamma=0.3)(X + shift, Z + shift), exact, atol=8 * 2.3e-16 * norm2
    )


def test_diagonal(kernel_and_expected, stored):
    kernel, expected = kernel_and_expected
    A = stored(X)
    if callable(kernel.name):
        A = A.astype(np.float64)
    dense = in_double(A)
    np.testing.assert_allclose(
        kernel.diagonal(A), np.diagonal(expected(dense, dense)), rtol=1e-12, atol=1e-13
    )


def test_precomputed():
    K = pairwise.rbf_kernel(X)
    kernel, columns = Kernel("precomputed"), np.array([7, 0, 3])
    np.testing.assert_array_equal(
        kernel.between(kernel.left(K[:4]), kernel.right(columns)), K[:4][:, columns]
    )
    np.testing.assert_array_equal(kernel.diagonal(K), np.diagonal(K))
    coef = RNG.normal(size=(3, 2))
    np.testing.assert_allclose(kernel.product(K, columns, coef), K[:, columns] @ coef)


# -------------------------------------------------------------------------------------- products


# tiles are of 256 rows and 1024 columns
@pytest.mark.parametrize(("n", "m"), [(1, 1), (256, 1024), (257, 1025), (700, 30), (90, 2100)])
@every("outputs", [1, 3])
def test_product(kernel_and_expected, n, m, outputs):
    kernel, expected = kernel_and_expected
    rng = np.random.default_rng(n)
    A, B = rng.normal(size=(n, 4)), rng.normal(size=(m, 4))
    coef = rng.normal(size=(m, outputs))
    K = expected(A, B)
    product = kernel.product(A, kernel.right(B), coef)
    assert product.shape == (n, outputs)
    np.testing.assert_allclose(product, K @ coef, atol=1e-12 * np.abs(K).max() * m)


def test_product_in_single_precision():
    rng = np.random.default_rng(1)
    A, B, coef = rng.normal(size=(300, 4)), rng.normal(size=(1100, 4)), rng.normal(size=(1100, 2))
    kernel = Kernel("rbf", gamma=0.3)
    product = kernel.product(A, kernel.right(B, np.float32), coef, dtype=np.float32)
    exact = kernel(A, B) @ coef
    np.testing.assert_allclose(product, exact, atol=1e-5 * np.abs(coef).sum())
    assert np.abs(product - exact).max() > 1e-12


@pytest.mark.parametrize("first", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("second", [np.asarray, sp.csr_array])
def test_product_of_dense_and_sparse(kernel_and_expected, first, second):
    kernel, expected = kernel_and_expected
    coef = np.random.default_rng(2).normal(size=(len(Z), 2))
    product = kernel.product(first(X), kernel.right(second(Z)), coef)
    np.testing.assert_allclose(product, expected(X, Z) @ coef, rtol=1e-11, atol=1e-11)


@given(
    st.sampled_from(["linear", "rbf", "laplacian"]),
    st.floats(0.01, 3.0),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
)
def test_quadratic_forms_are_not_negative(name, gamma, n, seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-2, 1)
    K = Kernel(name, gamma)(A, A)
    np.testing.assert_allclose(K, K.T, atol=1e-12 * (1.0 + np.abs(K).max()))
    assert np.linalg.eigvalsh(0.5 * (K + K.T))[0] >= -1e-12 * n * (1.0 + np.abs(K).max())


# ------------------------------------------------------------------------------------ parameters


def test_scale_and_auto_are_those_of_scikit_learn(stored):
    A = stored(X)
    y = np.arange(len(X)) % 2
    for gamma in ("scale", "auto"):
        width = resolve_kernel("rbf", gamma, 3, 0.0, A).gamma
        assert width == pytest.approx(SVC(gamma=gamma).fit(A, y)._gamma, rel=1e-6)
    width = resolve_kernel("rbf", "scale", 3, 0.0, A).gamma
    digits = float(4 * np.finfo(A.dtype).eps)
    assert width == pytest.approx(1.0 / (5 * in_double(A).var()), rel=digits)


def test_weights_in_scale_are_repeated_rows(stored):
    repeats = np.random.default_rng(3).integers(0, 4, size=len(X))
    weighted = resolve_kernel("rbf", "scale", 3, 0.0, stored(X), repeats.astype(float))
    repeated = resolve_kernel("rbf", "scale", 3, 0.0, stored(np.repeat(X, repeats, axis=0)))
    assert weighted.gamma == pytest.approx(repeated.gamma, rel=1e-12)
    assert weighted.gamma != pytest.approx(resolve_kernel("rbf", "scale", 3, 0.0, X).gamma)


def test_scale_of_constant_data_is_one():
    assert resolve_kernel("rbf", "scale", 3, 0.0, np.ones((5, 2))).gamma == 1.0


def test_a_number_is_taken_as_it_is():
    kernel = resolve_kernel("poly", 0.25, 2, -1, X)
    assert (kernel.name, kernel.gamma, kernel.degree, kernel.coef0) == ("poly", 0.25, 2, -1.0)


BAD = {
    "name": (("radial", "scale", 3, 0.0), "kernel must be one of .*'rbf'.*'radial'"),
    "gamma zero": (("rbf", 0.0, 3, 0.0), "gamma must be a finite number > 0; got 0.0"),
    "gamma negative": (("rbf", -1.0, 3, 0.0), "gamma must be .*got -1.0"),
    "gamma infinite": (("rbf", np.inf, 3, 0.0), "gamma must be .*got inf"),
    "gamma none": (("rbf", None, 3, 0.0), "gamma must be .*got None"),
    "gamma word": (("rbf", "wide", 3, 0.0), "gamma must be one of 'scale', 'auto'; got 'wide'"),
    "degree zero": (("poly", 1.0, 0, 0.0), "degree must be an integer >= 1; got 0"),
    "degree broken": (("poly", 1.0, 2.5, 0.0), "degree must be an integer >= 1; got 2.5"),
    "coef0 nan": (("poly", 1.0, 3, np.nan), "coef0 must be a finite number; got nan"),
    "coef0 word": (("poly", 1.0, 3, "one"), "coef0 must be a finite number; got 'one'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters(case):
    parameters, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        resolve_kernel(*parameters, X)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda A, B: (A @ B.T).T,
        lambda A, B: (A @ B.T).ravel(),
        lambda A, B: 1.0,
        lambda A, B: (A @ B.T)[:, :-1],
    ],
)
def test_a_function_that_returns_another_shape(wrong):
    with pytest.raises(ValueError, match=r"shape \(.*\) for 37 and 23 rows; expected \(37, 23\)"):
        Kernel(wrong)(X, Z)
