"""Designs of every storage against the explicit dense formulas, and how little they allocate."""

import tracemalloc

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from every import every
from threadpoolctl import threadpool_limits

from grayzone.numerics import designs
from grayzone.numerics.designs import as_design

N, D = 300, 7


def values():
    """Entries with four bits each: exact in single precision, and so are their squares' sums."""
    rng = np.random.default_rng(0)
    return np.where(rng.random((N, D)) < 0.4, 0.0, rng.integers(-8, 8, size=(N, D)) / 4.0)


def read_only(X):
    X = X.copy()
    X.setflags(write=False)
    return X


def memory_mapped(X, folder, order="C"):
    path = folder / "X.dat"
    filled = np.memmap(path, dtype=X.dtype, mode="w+", shape=X.shape, order=order)
    filled[:] = X
    filled.flush()
    return np.memmap(path, dtype=X.dtype, mode="r", shape=X.shape, order=order)


def strided(X):
    """Every other row and column of a larger array: contiguous in no order."""
    wide = np.full((2 * X.shape[0], 2 * X.shape[1]), np.nan)
    wide[::2, ::2] = X
    return wide[::2, ::2]


STORAGE = {
    "C order": lambda X, folder: X,
    "Fortran order": lambda X, folder: np.asfortranarray(X),
    "single": lambda X, folder: X.astype(np.float32),
    "single, Fortran": lambda X, folder: np.asfortranarray(X, dtype=np.float32),
    "read-only": lambda X, folder: read_only(X),
    "memory-mapped": memory_mapped,
    "memory-mapped, Fortran": lambda X, folder: memory_mapped(X, folder, "F"),
    "strided": lambda X, folder: strided(X),
    "reversed": lambda X, folder: X[::-1, ::-1].copy()[::-1, ::-1],
    "strict": lambda X, folder: array_api_strict.asarray(X),
    "strict, single": lambda X, folder: array_api_strict.asarray(X.astype(np.float32)),
    **{
        f"{kind.__name__}, {np.dtype(dtype).name}": lambda X, folder, kind=kind, dtype=dtype: kind(
            X.astype(dtype)
        )
        for kind, dtype in (
            (sp.csr_array, np.float64),
            (sp.csr_matrix, np.float32),
            (sp.csc_array, np.float32),
            (sp.csc_matrix, np.float64),
        )
    },
}


@pytest.fixture(params=STORAGE)
def storage(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def fit_intercept(request):
    return request.param


@pytest.fixture(params=["one block", "blocks on two threads", "compiled on two threads"])
def _work(request, monkeypatch):
    """How the rows are worked through: `_work` is used for its effect only."""
    if request.param == "one block":
        yield
        return
    monkeypatch.setattr(designs, "_BLOCK_SIZE", 16 * D)
    monkeypatch.setattr(designs, "_MIN_BLOCK_ROWS", 16)
    monkeypatch.setattr(designs, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(designs, "_READ_BY_A_THREAD", 1)
    if request.param.startswith("compiled"):
        monkeypatch.setattr(designs, "_MANY_ENTRIES", 0)
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.fixture
def design(storage, fit_intercept, tmp_path, _work):
    """The design, the matrix it stands for with its column of ones, and its array library."""
    X = values()
    found = as_design(STORAGE[storage](X, tmp_path), fit_intercept)
    full = np.hstack([X, np.ones((N, 1))]) if fit_intercept else X
    return found, full, array_api_strict if storage.startswith("strict") else np


def close(actual, expected):
    actual = np.asarray(actual)
    assert actual.dtype == np.float64
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-11)


@every("outputs", [1, 3])
def test_scores(design, outputs):
    found, full, xp = design
    coef = np.random.default_rng(1).normal(size=(outputs, full.shape[1]))
    close(found.scores(xp.asarray(coef)), full @ coef.T)


@every("outputs", [1, 3])
def test_gradient(design, outputs):
    found, full, xp = design
    residual = np.random.default_rng(2).normal(size=(N, outputs))
    close(found.gradient(xp.asarray(residual)), residual.T @ full)


@every("sign", ["positive", "both signs"])
@every("matrices", [1, 3])
@every("subset", [False, True])
def test_gram(design, matrices, sign, subset):
    found, full, xp = design
    rng = np.random.default_rng(3)
    rows = np.sort(rng.choice(N, size=111, replace=False)) if subset else np.arange(N)
    weights = rng.normal(size=(len(rows), matrices))
    weights[rng.random(len(rows)) < 0.2] = 0.0  # saturated rows have none
    if sign == "positive":
        weights = np.abs(weights)
    residual = rng.normal(size=(len(rows), 2))
    grams, pulled = found.gram(
        xp.asarray(weights), xp.asarray(residual), xp.asarray(rows) if subset else None
    )
    part = full[rows]
    close(grams, np.stack([part.T @ (w[:, None] * part) for w in weights.T]))
    close(pulled, residual.T @ part)


def test_square_sums(design):
    found, full, xp = design
    weights = np.random.default_rng(4).normal(size=(N, 3))
    close(found.square_sums(xp.asarray(weights)), weights.T @ full**2)


def test_row_squares_leave_the_intercept_out(design):
    found, _, _ = design
    close(found.row_squares(), np.sum(values() ** 2, axis=1))


def test_take(design, fit_intercept):
    found, full, xp = design
    rows = np.array([250, 3, 3, 17])
    part = found.take(xp.asarray(rows))
    assert (part.n_rows, part.n_features, part.n_coef) == (4, D, D + fit_intercept)
    coef = np.random.default_rng(5).normal(size=(2, full.shape[1]))
    close(part.scores(xp.asarray(coef)), full[rows] @ coef.T)
    residual = np.random.default_rng(6).normal(size=(4, 1))
    close(part.gradient(xp.asarray(residual)), residual.T @ full[rows])


def test_inner_leaves_the_intercept_out(design):
    found, _, xp = design
    X, rows, others = values(), np.array([4, 200, 9]), np.array([0, 299])
    close(found.inner(xp.asarray(rows), xp.asarray(others)), X[rows] @ X[others].T)


def test_shape(design, fit_intercept):
    found, _, _ = design
    assert (found.n_rows, found.n_features, found.n_coef) == (N, D, D + fit_intercept)
    penalised = [1.0] * D + [0.0] * fit_intercept
    np.testing.assert_array_equal(np.asarray(found.penalised()), penalised)


def test_single_precision_is_summed_in_double():
    # 2^24 + 1 is not a single: a sum of a large and many small terms shows where it was added up
    X = np.ones((3000, 1), dtype=np.float32)
    X[0] = 2.0**24
    for found in (as_design(X, False), as_design(sp.csr_array(X), False)):
        assert found.gradient(np.ones((3000, 1)))[0, 0] == 2.0**24 + 2999.0
    third = np.full((4, 1), 1.0 / 3.0, dtype=np.float32)
    square = float(third[0, 0]) ** 2
    for found in (as_design(third, False), as_design(sp.csr_array(third), False)):
        np.testing.assert_allclose(found.row_squares(), square, rtol=1e-15)
        np.testing.assert_allclose(found.square_sums(np.ones((4, 1))), 4.0 * square, rtol=1e-15)
        gram, _ = found.gram(np.ones((4, 1)), np.ones((4, 1)))
        np.testing.assert_allclose(gram, 4.0 * square, rtol=1e-15)
        np.testing.assert_allclose(found.inner(np.arange(4), np.arange(4)), square, rtol=1e-15)


# ----------------------------------------------------------------------------------- allocation

TALL = (120_000, 16)


@pytest.fixture(scope="module")
def tall():
    return np.random.default_rng(9).normal(size=TALL)


@pytest.fixture(scope="module")
def tall_sparse():
    # 20 entries a row: the matrix takes ten times the memory of a column of scores
    return sp.random_array(
        (100_000, 50), density=0.4, format="csr", rng=np.random.default_rng(10), dtype=np.float64
    )


def peak_of(work):
    """Bytes that a call has allocated at its worst."""
    work()  # what is loaded or cached once is not counted
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


TALL_STORAGE = {
    "C order": lambda X, folder: X,
    "Fortran order": lambda X, folder: np.asfortranarray(X),
    "single": lambda X, folder: X.astype(np.float32),
    "strided": lambda X, folder: np.repeat(X, 2, axis=1)[:, ::2],
    "memory-mapped": memory_mapped,
    "memory-mapped, single": lambda X, folder: memory_mapped(X.astype(np.float32), folder),
}

OPERATIONS = {
    "scores": lambda d: d.scores(np.ones((1, d.n_coef))),
    "gradient": lambda d: d.gradient(np.ones((d.n_rows, 1))),
    "gram": lambda d: d.gram(*[np.ones((d.n_rows, 1))] * 2),
    "gram of both signs": lambda d: d.gram(*[-np.ones((d.n_rows, 1))] * 2),
    "gram of some rows": lambda d: d.gram(
        *[np.ones((d.n_rows // 2, 1))] * 2, np.arange(d.n_rows // 2)
    ),
    "square_sums": lambda d: d.square_sums(np.ones((d.n_rows, 1))),
    "row_squares": lambda d: d.row_squares(),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", TALL_STORAGE)
def test_dense_data_are_never_copied_whole(kind, operation, tall, tmp_path):
    found = as_design(TALL_STORAGE[kind](tall, tmp_path))
    peak = peak_of(lambda: OPERATIONS[operation](found))
    # a few columns of n doubles and a few blocks; a copy would be 16 columns
    assert peak < 5 * TALL[0] * 8 + 8 * 8 * designs._BLOCK_SIZE


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_data_are_never_copied_whole(operation, dtype, tall_sparse):
    X = tall_sparse.astype(dtype)
    found = as_design(X)
    peak = peak_of(lambda: OPERATIONS[operation](found))
    # an entry takes 8 bytes or 4, and its index 4
    assert peak < 5 * X.shape[0] * 8 + 8 * 8 * designs._BLOCK_SIZE
    assert peak < X.data.nbytes
