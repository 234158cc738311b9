r"""Kernel functions, block by block.

A block is one matrix product and one elementwise function: the *left* and *right* factors of two
sets of rows are made such that ``left @ right.T`` is already the argument of that function. For
the Gaussian kernel the squared norms are two more columns of the factors,

    (sqrt(2 g) x, -g |x|^2, 1) . (sqrt(2 g) z, 1, -g |z|^2) = -g |x - z|^2,

so that no other pass over the block is needed. Right factors of many columns are made once and
sliced; left factors are made a few rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_numpy_array
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from grayzone.numerics.checks import check_choice, check_integer, check_number
from grayzone.numerics.threads import split

Array = Any

NAMES = ("linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed")
# Entries of a tile, which stay in the L2 cache between the product and the function.
TILE_ROWS, TILE_COLUMNS = 256, 1024
# Entries of a tile on a device, where what counts is the number of calls.
_DEVICE_TILE = 2**27
# Entries from which the hand-over to a second thread pays.
WORTH_A_THREAD = 100_000


@dataclass(frozen=True)
class Kernel:
    r"""A positive semi-definite function of two rows, its parameters resolved.

    Parameters
    ----------
    name : str or callable
        "linear" :math:`x'z`, "poly" :math:`(\gamma x'z + c_0)^{degree}`, "rbf"
        :math:`e^{-\gamma\|x-z\|^2}`, "sigmoid" :math:`\tanh(\gamma x'z + c_0)` (which need not be
        positive semi-definite), "laplacian" :math:`e^{-\gamma\|x-z\|_1}`, "precomputed" (rows hold
        kernel values), or a function of two matrices that returns the block of their values.
    gamma : float, default=1.0
        Width of kernels that have one.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Independent term of "poly" and "sigmoid".

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.kernels import Kernel
    >>> Kernel("rbf", gamma=0.5)(np.array([[0.0], [2.0]]), np.array([[1.0]])).round(3)
    array([[0.607],
           [0.607]])
    """

    name: str | Callable[[Array, Array], Array]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    @property
    def is_definite(self) -> bool:
        """Whether the function is positive semi-definite whatever the rows are."""
        known = self.name in ("linear", "rbf", "laplacian")
        return known or (self.name == "poly" and self.coef0 >= 0.0)

    def right(self, X: Array, dtype: Any = np.float64) -> Array:
        """Right factor of rows of X; of a precomputed kernel, the numbers of its columns."""
        if self.name == "rbf":
            return _with_columns(self._scaled(X, sqrt(2.0 * self.gamma), dtype), 1.0, self._drop(X))
        if self.name in ("poly", "sigmoid"):
            return _with_columns(self._scaled(X, 1.0, dtype), 1.0)
        return X if self.name == "precomputed" else self._scaled(X, 1.0, dtype)

    def left(self, X: Array, dtype: Any = np.float64) -> Array:
        """Left factor of rows of X."""
        return X if self.name == "precomputed" else self.flipped(self.right(X, dtype))

    def flipped(self, right: Array) -> Array:
        """Left factor of the rows that have this right one."""
        if self.name == "rbf" and _is_elsewhere(right):
            xp = array_namespace(right)
            return xp.concat([right[:, :-2], right[:, -1:], right[:, -2:-1]], axis=1)
        if self.name == "rbf":
            order = np.arange(right.shape[1])
            order[-2:] = order[-1], order[-2]
            return right[:, order]
        if self.name in ("poly", "sigmoid"):
            d = right.shape[1] - 1
            return _with_columns(self._scaled(right[:, :d], self.gamma, right.dtype), self.coef0)
        return right

    def _scaled(self, X: Array, factor: float, dtype: Any) -> Array:
        if _is_elsewhere(X):
            xp = array_namespace(X)
            return xp.astype(xp.astype(X, xp.float64) * factor, dtype_of(xp, dtype))
        if factor == 1.0:
            return X.astype(dtype, copy=False)
        return (X.astype(np.float64, copy=False) * factor).astype(dtype, copy=False)

    def _drop(self, X: Array) -> Array:
        return -self.gamma * _row_squares(X)

    def between(self, left: Array, right: Array, out: Array | None = None) -> Array:
        """Block of kernel values of a left and a right factor; ``out`` of their precision."""
        if _is_elsewhere(left):
            return self._between_elsewhere(left, right)
        if self.name == "precomputed":
            block = left[:, right]
        elif callable(self.name):
            block = np.asarray(self.name(left, right))
            _check_block(block, left, right)
        elif self.name == "laplacian":
            block = _city_block(left, right)
            block *= -self.gamma
            np.exp(block, out=block)
        else:
            return self._finish(_product(left, right, out))
        if out is None:
            return block
        out[...] = block
        return out

    def _between_elsewhere(self, left: Array, right: Array) -> Array:
        """Do the same in another array library, which has no ``out``."""
        xp = array_namespace(left)
        if self.name == "precomputed":
            return xp.take(left, right, axis=1)
        if callable(self.name):
            block = self.name(left, right)
            _check_block(block, left, right)
            return block
        if self.name == "laplacian":
            # a feature at a time: all at once would take n times m times d numbers
            far = sum(xp.abs(left[:, j, None] - right[None, :, j]) for j in range(left.shape[1]))
            return xp.exp(-self.gamma * far)
        block = xp.matmul(left, right.T)
        if self.name == "rbf":
            return xp.exp(block)
        if self.name == "sigmoid":
            return xp.tanh(block)
        return block**self.degree if self.name == "poly" else block

    def _finish(self, block: Array) -> Array:
        if self.name == "rbf":
            return np.exp(block, out=block)
        if self.name == "sigmoid":
            return np.tanh(block, out=block)
        return np.power(block, self.degree, out=block) if self.name == "poly" else block

    def __call__(self, X: Array, Z: Array) -> Array:
        """Kernel values of all pairs of rows, in double precision."""
        return self.between(self.left(X), self.right(Z))

    def diagonal(self, X: Array) -> Array:
        """Kernel values of each row with itself."""
        if _is_elsewhere(X):
            return self._diagonal_elsewhere(X)
        if self.name in ("rbf", "laplacian"):
            return np.ones(X.shape[0])
        if self.name == "precomputed":
            return np.asarray(X.diagonal(), dtype=np.float64)
        if callable(self.name):
            rows = (X[i : i + 1].astype(np.float64) for i in range(X.shape[0]))
            return np.array([float(np.asarray(self.name(row, row)).item()) for row in rows])
        square = _row_squares(X)
        if self.name == "linear":
            return square
        inner = self.gamma * square + self.coef0
        return inner**self.degree if self.name == "poly" else np.tanh(inner)

    def _diagonal_elsewhere(self, X: Array) -> Array:
        xp = array_namespace(X)
        if self.name in ("rbf", "laplacian"):
            return xp.ones(X.shape[0], dtype=xp.float64, device=device(X))
        if self.name == "precomputed":
            return xp.astype(xp.linalg.diagonal(X), xp.float64)
        if callable(self.name):
            rows = (X[i : i + 1, :] for i in range(X.shape[0]))
            return xp.concat([xp.reshape(self.name(row, row), (1,)) for row in rows])
        square = _row_squares(X)
        if self.name == "linear":
            return square
        inner = self.gamma * square + self.coef0
        return inner**self.degree if self.name == "poly" else xp.tanh(inner)

    def product(self, X: Array, right: Array, coef: Array, dtype: Any = np.float64) -> Array:
        """Sum over the rows behind ``right`` of their kernel values times coef (m, Q).

        No more than a tile of kernel values exists at any time, on each thread.
        """
        n, m = X.shape[0], coef.shape[0]
        if _is_elsewhere(X):
            return self._product_elsewhere(X, right, coef)
        columns = _tile_columns(self, m)
        coef = coef.astype(dtype, copy=False)

        def part(start: int, stop: int) -> Array:
            total = np.zeros((stop - start, coef.shape[1]))
            buffer = np.empty((min(TILE_ROWS, stop - start), min(columns, m)), dtype=dtype)
            for a in range(start, stop, TILE_ROWS):
                b = min(stop, a + TILE_ROWS)
                left = self.left(_stored_like(right, X[a:b]), dtype)
                for c in range(0, m, columns):
                    d = min(m, c + columns)
                    tile = self.between(left, right[c:d], out=buffer[: b - a, : d - c])
                    total[a - start : b - start] += tile @ coef[c:d]
            return total

        worth = n * m > WORTH_A_THREAD and not callable(self.name)
        return np.concatenate(split(n, part, worth=worth))

    def _product_elsewhere(self, X: Array, right: Array, coef: Array) -> Array:
        xp, step = array_namespace(X), max(1, _DEVICE_TILE // max(1, coef.shape[0]))
        edges = [(a, min(X.shape[0], a + step)) for a in range(0, X.shape[0], step)]
        tiles = (self.between(self.left(X[a:b, :]), right) for a, b in edges)
        return xp.concat([xp.matmul(tile, coef) for tile in tiles])


def _check_block(block: Array, left: Array, right: Array) -> None:
    """Check what a kernel function returned."""
    expected = (left.shape[0], right.shape[0])
    if tuple(block.shape) != expected:
        raise ValueError(
            f"The kernel function returned an array of shape {tuple(block.shape)} for "
            f"{expected[0]} and {expected[1]} rows; expected {expected}."
        )


def _is_elsewhere(X: Array) -> bool:
    """Whether X is an array of another library than NumPy and SciPy."""
    return not (is_numpy_array(X) or sp.issparse(X))


def dtype_of(xp: Any, dtype: Any) -> Any:
    """Give the type that a library has for one of NumPy's; its own is what it is."""
    return getattr(xp, np.dtype(dtype).name) if isinstance(dtype, (type, np.dtype)) else dtype


def _stored_like(other: Array, X: Array) -> Array:
    """X dense or sparse as another matrix is: new data need not come as the training data did."""
    if sp.issparse(X) == sp.issparse(other):
        return X
    return X.toarray() if sp.issparse(X) else sp.csr_array(X)


def _tile_columns(kernel: Kernel, m: int) -> int:
    # a foreign function may cost more by the call than it gains from the cache
    return max(1, m) if callable(kernel.name) else TILE_COLUMNS


def _row_squares(X: Array) -> Array:
    if _is_elsewhere(X):
        xp = array_namespace(X)
        return xp.sum(xp.astype(X, xp.float64) ** 2, axis=1)
    if sp.issparse(X):
        X = X.astype(np.float64)
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def _with_columns(X: Array, *columns: Array | float) -> Array:
    """X with further columns, in its own precision."""
    n = X.shape[0]
    if _is_elsewhere(X):
        xp = array_namespace(X)
        zeros = xp.zeros((n, 1), dtype=X.dtype, device=device(X))
        full = [
            zeros + (c if isinstance(c, float) else xp.astype(c, X.dtype)[:, None]) for c in columns
        ]
        return xp.concat([X, *full], axis=1)
    if sp.issparse(X):
        more = np.column_stack([np.broadcast_to(c, n) for c in columns]).astype(X.dtype)
        return sp.csr_array(sp.hstack([X, more], format="csr"))
    out = np.empty((n, X.shape[1] + len(columns)), dtype=X.dtype)
    out[:, : X.shape[1]] = X
    for j, column in enumerate(columns):
        out[:, X.shape[1] + j] = column
    return out


def _product(left: Array, right: Array, out: Array | None) -> Array:
    if not sp.issparse(left):
        return np.matmul(left, right.T, out=out)
    block = (left @ right.T).toarray()
    if out is None:
        return block
    out[...] = block
    return out


def _short_indices(X: Array) -> Array:
    # scikit-learn's loop over sparse rows knows no others
    indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sp.csr_matrix((X.data, indices, indptr), shape=X.shape)


def _city_block(left: Array, right: Array) -> Array:
    if sp.issparse(left):
        return manhattan_distances(_short_indices(left), _short_indices(right))
    return cdist(left, right, "cityblock")


def resolve_kernel(
    name: Any, gamma: Any, degree: Any, coef0: Any, X: Array, weight: Array | None = None
) -> Kernel:
    """Check the parameters of a kernel, and set its width by the data where asked to.

    Parameters
    ----------
    name : str or callable
        As in :class:`Kernel`.
    gamma : {"scale", "auto"} or float
        "scale" is 1 / (n_features * X.var()), "auto" 1 / n_features, as in ``SVC``.
    degree, coef0 : int, float
        As in :class:`Kernel`.
    X : {array, sparse matrix} of shape (n, n_features)
        The data.
    weight : array of shape (n,), optional
        Weights of the rows in X.var(); a row of weight 2 counts as two rows.

    Returns
    -------
    kernel : Kernel
        Its width is a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.kernels import resolve_kernel
    >>> resolve_kernel("rbf", "scale", 3, 0.0, np.array([[0.0, 2.0], [2.0, 0.0]])).gamma
    0.5
    """
    if not callable(name):
        check_choice("kernel", name, NAMES)
    check_integer("degree", degree, least=1)
    check_number("coef0", coef0)
    if not isinstance(gamma, str):
        check_number("gamma", gamma, above=0.0)
        width = float(gamma)
    else:
        check_choice("gamma", gamma, ("scale", "auto"))
        spread = _variance(X, weight) if gamma == "scale" else 1.0
        width = 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
    return Kernel(name, width, int(degree), float(coef0))


def _variance(X: Array, weight: Array | None) -> float:
    """Variance of all entries of X, its rows weighted."""
    if _is_elsewhere(X):
        return _variance_elsewhere(X, weight)
    weight = np.ones(X.shape[0]) if weight is None else weight
    total = float(np.sum(weight)) * X.shape[1]
    mean = float(weight @ np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()) / total
    if sp.issparse(X):
        return float(weight @ _row_squares(X)) / total - mean**2
    square = 0.0
    for a in range(0, X.shape[0], TILE_COLUMNS):
        centred = X[a : a + TILE_COLUMNS].astype(np.float64) - mean
        square += float(weight[a : a + TILE_COLUMNS] @ _row_squares(centred))
    return square / total


def _variance_elsewhere(X: Array, weight: Array | None) -> float:
    xp = array_namespace(X)
    X = xp.astype(X, xp.float64)
    weight = xp.ones_like(X[:, 0]) if weight is None else weight
    total = float(xp.sum(weight)) * X.shape[1]
    mean = xp.sum(weight * xp.sum(X, axis=1)) / total
    return float(xp.sum(weight * _row_squares(X - mean))) / total
