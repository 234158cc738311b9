"""Rows of a kernel matrix, stored or not: always those of the explicit matrix."""

import numpy as np
import pytest
import scipy.sparse as sp

from grayzone.numerics.kernel_design import KernelDesign
from grayzone.numerics.kernels import Kernel
from grayzone.solvers.kernel.cache import KernelRows

N = 1100  # more than one tile of rows, and of columns
RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(N, 3))
DATA[RNG.random(DATA.shape) < 0.3] = 0.0
RBF = Kernel("rbf", gamma=0.4)
POLY = Kernel("poly", gamma=0.5, degree=2, coef0=1.0)


def plus_one(A, B):
    return A @ B.T + 1.0


KERNELS = {
    "rbf": (RBF, DATA),
    "poly": (POLY, DATA),
    "laplacian": (Kernel("laplacian", gamma=0.4), DATA),
    "callable": (Kernel(plus_one), DATA),
    "precomputed": (Kernel("precomputed"), RBF(DATA, DATA)),
    "precomputed, single precision": (
        Kernel("precomputed"),
        RBF(DATA, DATA).astype(np.float32),
    ),
    "sparse": (RBF, sp.csr_array(DATA)),
    "sparse, laplacian": (Kernel("laplacian", gamma=0.4), sp.csr_array(DATA)),
}
PRECISION = {np.float64: 1e-12, np.float32: 2e-5}


def kernel_matrix(kernel, X):
    if kernel.name == "precomputed":
        return X.astype(float)
    dense = X.toarray() if sp.issparse(X) else X
    return kernel(dense, dense)


MATRICES = {name: kernel_matrix(*KERNELS[name]) for name in KERNELS}


@pytest.fixture(params=KERNELS)
def named(request):
    return request.param


@pytest.fixture(params=PRECISION, ids=lambda kind: kind.__name__)
def dtype(request):
    return request.param


@pytest.fixture(params=[1.0, 0.0, 0.15], ids=["all stored", "none stored", "part stored"])
def share(request):
    """Share of the kernel matrix for which there is memory."""
    return request.param


def some_rows(n, size, seed=1):
    return np.random.default_rng(seed).permutation(n)[:size]


class Checked:
    """Rows of a working set together with the matrix they are rows of."""

    def __init__(self, named, dtype, share, members=None, part=None):
        kernel, X = KERNELS[named]
        self.members = np.arange(N) if members is None else members
        size = self.members.size
        budget = share * np.dtype(dtype).itemsize * size * size
        design = KernelDesign(kernel, X, rows=part, budget=budget)
        self.rows = KernelRows(design, self.members, dtype)
        of_matrix = self.members if part is None else part[self.members]
        self.K = MATRICES[named][np.ix_(of_matrix, of_matrix)]
        self.tolerance = PRECISION[dtype]

    def narrow(self, keep):
        self.rows.narrow(keep)
        self.K = self.K[np.ix_(keep, keep)]

    def check(self, seed=1):
        n = len(self.K)
        scale = np.abs(self.K).max()
        chosen = some_rows(n, min(n, 150), seed)
        block = self.rows.block(chosen)
        assert block.dtype == self.rows.dtype
        np.testing.assert_allclose(
            block, self.K[np.ix_(chosen, chosen)], atol=self.tolerance * scale
        )
        # some that were asked for before, and some that were not
        moved = some_rows(n, min(n, 90), seed + 1)
        rng = np.random.default_rng(seed + 2)
        coef, values = rng.normal(size=moved.size), rng.normal(size=n)
        expected = values - self.K[:, moved] @ coef
        self.rows.subtract(values, moved, coef)
        bound = self.tolerance * scale * np.abs(coef).sum()
        np.testing.assert_allclose(values, expected, atol=bound)


def test_against_the_explicit_matrix(named, dtype, share):
    rows = Checked(named, dtype, share)
    for seed in range(4):
        rows.check(seed)


def test_design_of_a_part(named, share):
    part = np.sort(some_rows(N, 500, seed=10))
    rows = Checked(named, np.float64, share, members=np.arange(0, 500, 2), part=part)
    for seed in range(3):
        rows.check(seed)


def test_after_narrowing(named, dtype, share):
    check_after_narrowing(named, dtype, share, left=300)


def check_after_narrowing(named, dtype, share, left):
    rows = Checked(named, dtype, share)
    rows.check(0)
    rows.narrow(np.sort(some_rows(N, left, seed=11)))
    for seed in range(3):
        rows.check(seed)
    rows.narrow(np.sort(some_rows(left, left // 2, seed=12)))
    for seed in range(3):
        rows.check(seed)


class Counting:
    """A kernel function that counts the values it was asked for."""

    def __init__(self):
        self.count = 0

    def __call__(self, A, B):
        self.count += A.shape[0] * B.shape[0]
        return A @ B.T


def counted(share):
    kernel = Counting()
    design = KernelDesign(Kernel(kernel), DATA, budget=share * 4 * N * N)
    return kernel, KernelRows(design, np.arange(N), np.float32)


def test_stored_rows_are_computed_once():
    kernel, rows = counted(1.0)
    chosen = some_rows(N, 100)
    rows.block(chosen)
    assert kernel.count == 100 * N
    rows.block(chosen)
    rows.block(chosen[:30])
    rows.subtract(np.zeros(N), chosen, np.ones(100))
    assert kernel.count == 100 * N
    # two more rows
    rows.block(np.append(chosen, some_rows(N, 102)[100:]))
    assert kernel.count == 102 * N


def test_memory_stays_within_the_budget():
    for share in (0.0, 0.1, 0.5):
        _, rows = counted(share)
        rows.block(np.arange(800))
        assert rows._buffer.nbytes <= share * 4 * N * N
