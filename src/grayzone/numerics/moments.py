"""Weighted means and roots of covariances, block by block, of dense and sparse rows.

Rows of other array libraries stay where they are, and so do their moments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device, is_torch_array
from scipy.linalg import qr

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import array_namespace, is_numpy_array

Array = Any

# Entries of a block, and rows of it: more than columns, or the factors would be what takes time.
_BLOCK_SIZE, _BLOCK_ROWS = 2**22, 8192
# Entries of a block on a device, where what counts is the number of calls, and memory.
_DEVICE_BLOCK_SIZE = 2**26
# Rounding errors of a mean, relative.
ROUNDING = 1e-13


def mean_and_root(X: Array, weight: Array) -> tuple[Array, Array]:
    """Mean (d,) and a root R of the covariance R'R, divided by the sum of the weights.

    The root comes from the centred rows themselves (QR factors of blocks): forming the covariance
    would square the condition number, and a direction without variance would be given one of 1e-8
    standard deviations. Sparse rows become dense a block at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.moments import mean_and_root
    >>> mean, root = mean_and_root(np.array([[1.0], [3.0]]), np.ones(2))
    >>> mean, root.T @ root
    (array([2.]), array([[1.]]))
    """
    xp, d = array_namespace(weight), X.shape[1]
    zeros = xp.zeros((1, d), dtype=xp.float64, device=device(weight))
    total = float(xp.sum(weight))
    mean = sum((w @ block for block, w in _blocks(X, weight)), zeros[0, :]) / total
    root = zeros[:0, :]
    for block, w in _blocks(X, weight):
        rows = xp.sqrt(w / total)[:, None] * (block - mean)
        root = triangle(xp.concat([root, rows]))
    # what rounding makes of a constant column is no variance
    constant = xp.linalg.vector_norm(root, axis=0) <= ROUNDING * xp.abs(mean)
    return mean, xp.where(constant, xp.zeros_like(root), root)


def column_variances(X: Array, share: Array) -> Array:
    """Variance (d,) of each column of rows, whose shares have the sum 1; as a NumPy array.

    About the mean, so that nothing cancels; what rounding makes of a constant column is 0.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from grayzone.numerics.moments import column_variances
    >>> column_variances(sp.csr_array([[0.0, 1.0], [4.0, 1.0]]), np.array([0.5, 0.5]))
    array([4., 0.])
    """
    mean = as_numpy(X.T @ share)
    if sp.issparse(X):
        entries = sp.csc_array(X)
        entries.sum_duplicates()
        column = np.repeat(np.arange(X.shape[1]), np.diff(entries.indptr))
        own = share[entries.indices]
        stored = np.bincount(column, own, minlength=X.shape[1])
        square = own * (entries.data - mean[column]) ** 2
        # the zeros that are not stored are as far off as the mean is; rounding is no zero
        some = np.diff(entries.indptr) < X.shape[0]
        rest = np.where(some, np.maximum(1.0 - stored, 0.0), 0.0) * mean**2
        variances = np.bincount(column, square, minlength=X.shape[1]) + rest
    else:
        # a copy: what comes from elsewhere may not be written to
        variances = np.array(as_numpy(share @ (X - moved(mean, X)) ** 2))
    variances[variances <= (ROUNDING * mean) ** 2] = 0.0
    return variances


def triangle(A: Array) -> Array:
    """Return a root R of A'A, by QR factors: as many rows as A has, and no more than columns."""
    if is_numpy_array(A):
        return qr(A, mode="r", check_finite=False)[0][: A.shape[1]]
    # the standard has no way to ask for R alone
    mode = "r" if is_torch_array(A) else "reduced"
    return array_namespace(A).linalg.qr(A, mode=mode)[1]


def difference(mean: Array, root: Array, other_mean: Array, other_root: Array) -> Array:
    """First mean minus the other, zero where rounding errors are all that it is."""
    xp = array_namespace(mean)
    sizes = [
        xp.hypot(m, xp.linalg.vector_norm(r, axis=0))
        for m, r in ((mean, root), (other_mean, other_root))
    ]
    apart = mean - other_mean
    real = xp.abs(apart) > ROUNDING * (sizes[0] + sizes[1])
    return xp.where(real, apart, xp.zeros_like(apart))


def _blocks(X: Array, weight: Array) -> Any:
    xp, d = array_namespace(weight), max(1, X.shape[1])
    size = min(_BLOCK_ROWS, _BLOCK_SIZE // d) if is_numpy_array(weight) else _DEVICE_BLOCK_SIZE // d
    step = max(d, size)
    for a in range(0, X.shape[0], step):
        part = slice(a, min(X.shape[0], a + step))
        block = X[part, :]
        block = block.toarray() if sp.issparse(X) else block
        yield xp.astype(block, xp.float64, copy=False), weight[part]
