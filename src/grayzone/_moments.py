"""Weighted means and roots of covariances, block by block, of dense and sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

Array = Any

# Entries of a block, and rows of it: more than columns, or the factors would be what takes time.
_BLOCK_SIZE, _BLOCK_ROWS = 2**22, 8192
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
    >>> from grayzone._moments import mean_and_root
    >>> mean, root = mean_and_root(np.array([[1.0], [3.0]]), np.ones(2))
    >>> mean, root.T @ root
    (array([2.]), array([[1.]]))
    """
    total, d = float(np.sum(weight)), X.shape[1]
    mean = sum((w @ block for block, w in _blocks(X, weight)), np.zeros(d)) / total
    root = np.empty((0, d))
    for block, w in _blocks(X, weight):
        rows = np.sqrt(w / total)[:, None] * (block - mean)
        root = qr(np.concatenate([root, rows]), mode="r", check_finite=False)[0][:d]
    # what rounding makes of a constant column is no variance
    root[:, np.linalg.norm(root, axis=0) <= ROUNDING * np.abs(mean)] = 0.0
    return mean, root


def difference(mean: Array, root: Array, other_mean: Array, other_root: Array) -> Array:
    """First mean minus the other, zero where rounding errors are all that it is."""
    sizes = [
        np.hypot(m, np.linalg.norm(r, axis=0)) for m, r in ((mean, root), (other_mean, other_root))
    ]
    apart = mean - other_mean
    return np.where(np.abs(apart) > ROUNDING * (sizes[0] + sizes[1]), apart, 0.0)


def _blocks(X: Array, weight: Array) -> Any:
    d = max(1, X.shape[1])
    step = max(d, min(_BLOCK_ROWS, _BLOCK_SIZE // d))
    for a in range(0, X.shape[0], step):
        part = slice(a, a + step)
        block = X[part].toarray() if sp.issparse(X) else X[part]
        yield block.astype(np.float64, copy=False), weight[part]
