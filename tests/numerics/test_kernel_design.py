"""The design of a kernel: values, gradients and inner products of the functions it spans."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from grayzone.numerics.kernel_design import KernelDesign
from grayzone.numerics.kernels import Kernel

N, Q = 40, 2
RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(N, 3))
DATA[RNG.random(DATA.shape) < 0.3] = 0.0
RBF = Kernel("rbf", gamma=0.4)


def plus_one(A, B):
    return A @ B.T + 1.0


KERNELS = {
    "rbf": (RBF, DATA),
    "poly": (Kernel("poly", gamma=0.5, degree=2, coef0=1.0), DATA),
    "laplacian": (Kernel("laplacian", gamma=0.4), DATA),
    "callable": (Kernel(plus_one), DATA),
    "precomputed": (Kernel("precomputed"), RBF(DATA, DATA)),
    "sparse": (RBF, sp.csr_array(DATA)),
    "single precision": (RBF, DATA.astype(np.float32)),
}
SOME_ROWS = np.array([3, 4, 11, 30, 7])
STORING = {
    "nothing kept": {"keep": False},
    "all kept": {"keep": True},
    "kept, no room": {"keep": True, "budget": 100.0},
}
# Kernel, rows (None for all), what is kept, and whether there is an intercept: all of these for one
# kernel, and each of them for every other.
CASES = [
    *product(["rbf"], [None, SOME_ROWS], STORING, [True, False]),
    *(
        (name, *rest)
        for name in KERNELS
        if name != "rbf"
        for rest in (
            (None, "nothing kept", True),
            (SOME_ROWS, "all kept", False),
            (SOME_ROWS, "kept, no room", True),
        )
    ),
]


def kernel_matrix(kernel, X):
    if kernel.name == "precomputed":
        return X
    dense = X.toarray() if sp.issparse(X) else np.asarray(X, float)
    return kernel(dense, dense)


def name_of(case):
    kernel, rows, storing, intercept = case
    kinds = "all rows" if rows is None else "some rows", "intercept" if intercept else "none"
    return ", ".join([kernel, *kinds, storing])


@pytest.fixture(params=CASES, ids=name_of)
def case(request):
    return request.param


@pytest.fixture
def kernel_and_data(case):
    return KERNELS[case[0]]


@pytest.fixture
def rows(case):
    return case[1]


@pytest.fixture
def design(case):
    name, rows, storing, intercept = case
    return KernelDesign(*KERNELS[name], intercept, rows=rows, **STORING[storing])


@pytest.fixture(name="K")
def values_with_all_centres(kernel_and_data, rows):
    whole = kernel_matrix(*kernel_and_data)
    return whole if rows is None else whole[rows]


def coefficients(design, seed=1):
    return np.random.default_rng(seed).normal(size=(Q, design.n_coef))


def values(design, K, coef):
    return K @ coef[:, :N].T + (coef[:, N] if design.fit_intercept else 0.0)


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


def test_scores(design, K):
    coef = coefficients(design)
    close(design.scores(coef), values(design, K, coef))
    # and where most centres have no coefficient
    coef[:, :N][:, np.arange(N) % 7 > 0] = 0.0
    close(design.scores(coef), values(design, K, coef))


def test_added_is_the_part_of_a_few_centres(design, K):
    centres = np.array([5, 0, 33])
    coef = np.random.default_rng(2).normal(size=(3, Q))
    close(design.added(centres, coef), K[:, centres] @ coef)


def test_gradient_is_that_of_the_function_space(design, K):
    # (r, f(rows)) = <gradient, f> for every f: kernel inner product, plain one for the intercept
    residual = np.random.default_rng(3).normal(size=(design.n_rows, Q))
    gradient = design.gradient(residual)
    assert gradient.shape == (Q, design.n_coef)
    for seed in range(3):
        f = coefficients(design, seed)
        expected = np.sum(residual * values(design, K, f))
        found = np.sum((gradient[:, design.rows] @ K) * f[:, :N])
        if design.fit_intercept:
            found += gradient[:, -1] @ f[:, -1]
        assert found == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_dot_is_the_inner_product_of_functions(design, kernel_and_data):
    # of functions that the rows of the design span
    whole = kernel_matrix(*kernel_and_data)
    f, g = coefficients(design, 7), coefficients(design, 8)
    for coef in (f, g):
        outside = np.setdiff1d(np.arange(N), design.rows)
        coef[:, outside] = 0.0
    expected = np.sum((f[:, :N] @ whole) * g[:, :N])
    assert design.dot(f, g) == pytest.approx(expected, rel=1e-11)
    assert design.dot(g, f) == pytest.approx(expected, rel=1e-11)
    assert design.dot(f, g, scores=design.scores(g)) == pytest.approx(expected, rel=1e-11)


def test_inner_products_of_rows(design, K):
    some, others = np.array([4, 0, 2]), np.array([1, 3])
    expected = K[np.ix_(some, design.rows[others])]
    found = design.inner(some, others)
    assert found.dtype == np.float64
    close(found, expected)


def test_row_squares(design, K):
    close(design.row_squares(), K[np.arange(design.n_rows), design.rows])


def test_square_sums_know_the_intercept_only(design):
    weights = np.random.default_rng(9).random((design.n_rows, 3))
    sums = design.square_sums(weights)
    assert sums.shape == (3, design.n_coef)
    np.testing.assert_array_equal(sums[:, :N], 0.0)
    if design.fit_intercept:
        np.testing.assert_allclose(sums[:, -1], weights.sum(axis=0))


def test_take_keeps_the_centres(design, K):
    part = np.array([2, 0, 4])
    taken = design.take(part)
    assert (taken.n_rows, taken.n_features, taken.n_coef) == (3, N, design.n_coef)
    coef = coefficients(design)
    close(taken.scores(coef), values(design, K[part], coef))
    np.testing.assert_array_equal(taken.take(np.array([1])).rows, design.rows[[0]])
    residual = np.random.default_rng(10).normal(size=(3, Q))
    filled = np.zeros((design.n_rows, Q))
    filled[part] = residual
    np.testing.assert_allclose(taken.gradient(residual), design.gradient(filled), rtol=1e-15)


def test_keeping_values_changes_nothing(design):
    coef = coefficients(design)
    kept = design.keeping()
    close(kept.scores(coef), design.scores(coef))
    close(kept.take(np.array([1, 3])).scores(coef), design.take(np.array([1, 3])).scores(coef))


def test_kept_values_are_computed_once():
    calls = []

    def counting(A, B):
        calls.append(A.shape)
        return A @ B.T

    design = KernelDesign(Kernel(counting), DATA, keep=True)
    for seed in range(3):
        design.scores(coefficients(design, seed))
    assert len(calls) == 1
    no_room = KernelDesign(Kernel(counting), DATA, keep=True, budget=8.0 * N * N - 1)
    for seed in range(3):
        no_room.scores(coefficients(no_room, seed))
    assert len(calls) == 4


def test_precision_is_that_of_the_kernel_values():
    assert KernelDesign(RBF, DATA.astype(np.float32)).precision == np.finfo(np.float64).eps
    single = RBF(DATA, DATA).astype(np.float32)
    design = KernelDesign(Kernel("precomputed"), single)
    assert design.precision == np.finfo(np.float32).eps


def test_there_is_no_hessian():
    design = KernelDesign(RBF, DATA)
    assert not design.forms_gram
    with pytest.raises(NotImplementedError, match="Hessian"):
        design.gram(np.ones((N, 1)), np.ones((N, 1)))


def test_a_cheap_bound_on_a_norm_is_one(design):
    coef = np.zeros((Q, design.n_coef))
    coef[:, design.rows] = np.random.default_rng(2).normal(size=(Q, design.n_rows))
    square = design.dot(coef, coef, design.scores(coef))
    assert 0.0 < square <= design.square_at_most(coef) * (1.0 + 1e-12)
    alone = np.zeros((Q, design.n_coef))
    alone[0, design.rows[2]] = 3.0  # of one row it is the norm
    assert design.square_at_most(alone) == pytest.approx(design.dot(alone, alone), rel=1e-6)
