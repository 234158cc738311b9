"""Rows as they are, however often and in whatever order they are given.

A row that comes twice is a row of weight two. What is drawn at random, candidates and folds, is
drawn among distinct rows in the order of their values, and so depends neither on the order of the
data nor on how weights are written; and no row is held out of a fit that has seen its copy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import array_namespace, is_numpy_array

Array = Any

# Entries on a device that are mixed at once.
_DEVICE_BLOCK_SIZE = 2**22


class Distinct(NamedTuple):
    """Distinct rows with their class codes and weights."""

    X: Array
    codes: Array
    weight: Array


def distinct_rows(X: Array, codes: Array, weight: Array) -> Distinct:
    """Merge equal rows of the same class.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.sources.distinct import distinct_rows
    >>> rows = distinct_rows(np.array([[2.0], [1.0], [2.0]]), np.array([0, 1, 0]), np.ones(3))
    >>> rows.X.ravel(), rows.weight
    (array([1., 2.]), array([1., 2.]))
    """
    first, number = row_groups(X, codes)
    if sp.issparse(X) or is_numpy_array(X):
        return Distinct(X[first], codes[first], np.bincount(number, weight))
    xp, own = array_namespace(X), moved(np.bincount(number, as_numpy(weight)), X)
    first = moved(first, X)
    return Distinct(xp.take(X, first, axis=0), xp.take(codes, first), own)


def row_groups(X: Array, codes: Array) -> tuple[Array, Array]:
    """Groups of equal rows of the same class, in an order that depends on their values alone.

    Returns
    -------
    first : ndarray of shape (n_groups,)
        A row of each group.
    number : ndarray of shape (n,)
        The group of each row.
    """
    if not (sp.issparse(X) or is_numpy_array(X)):
        return _row_groups_elsewhere(X, codes)
    _, first, number = np.unique(_hashes(X, codes), return_index=True, return_inverse=True)
    return first, number


def _row_groups_elsewhere(X: Array, codes: Array) -> tuple[Array, Array]:
    """Find the same groups where the rows are; only their numbers come back."""
    xp = array_namespace(X)
    # numbers with a sign in the order of those without
    hashes = _hashes_elsewhere(X, moved(codes, X)) ^ _signed(2**63)
    order = xp.argsort(hashes, stable=True)
    hashes = xp.take(hashes, order)
    new = xp.concat([xp.ones_like(hashes[:1], dtype=xp.bool), hashes[1:] != hashes[:-1]])
    number = xp.cumulative_sum(xp.astype(new, xp.int64)) - 1
    return as_numpy(order[new]), as_numpy(xp.take(number, xp.argsort(order)))


def _hashes(X: Array, codes: Array) -> Array:
    """A number of 64 bits for each row; equal ones for different rows are a chance of 2^-64.

    Sums of the entries' bits times odd numbers, modulo 2^64: exact, and the same in any order.
    """
    factors = _factors(X.shape[1])
    total = codes.astype(np.uint64) * factors[-1]
    if sp.issparse(X):
        entries = sp.coo_array(X)
        np.add.at(total, entries.row, _mixed(entries.data) * factors[entries.col])
        return total
    for j, factor in enumerate(factors[:-1]):
        total += _mixed(X[:, j]) * factor
    return total


def _factors(n_features: int) -> Array:
    """Odd numbers, one a feature and one for the class."""
    factors = np.random.default_rng(0).integers(2**63, size=n_features + 1, dtype=np.uint64)
    return 2 * factors + 1


def _hashes_elsewhere(X: Array, codes: Array) -> Array:
    """Find the same numbers where the rows are, with a sign: not all libraries have others."""
    xp, (n, d) = array_namespace(X), X.shape
    factors = moved(_factors(d).view(np.int64), X)
    total, step = xp.astype(codes, xp.int64) * factors[d], max(1, _DEVICE_BLOCK_SIZE // n)
    for a in range(0, d, step):
        part = slice(a, min(d, a + step))
        total = total + xp.sum(_mixed_elsewhere(X[:, part]) * factors[part], axis=1)
    return total


def _mixed_elsewhere(values: Array) -> Array:
    xp = array_namespace(values)
    bits = _bits(xp.astype(values, xp.float64) + 0.0)
    bits = (bits ^ _shifted(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shifted(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shifted(bits, 31)


def _bits(values: Array) -> Array:
    """Bits of doubles as whole numbers; libraries without views take them by way of NumPy."""
    if hasattr(values, "view"):
        return values.view(array_namespace(values).int64)
    return moved(as_numpy(values).view(np.int64), values)


def _shifted(bits: Array, places: int) -> Array:
    """Bits further right; what comes in from the left is zero, not the sign."""
    return (bits >> places) & (2 ** (64 - places) - 1)


def _signed(number: int) -> int:
    """The number with a sign that has these 64 bits."""
    return number - 2**64 if number >= 2**63 else number


def _mixed(values: Array) -> Array:
    """Bits of numbers, zero for zero of either sign, such that their sums do not cancel."""
    # whole numbers have their bits at one end only
    return _mixed_bits((values.astype(np.float64) + 0.0).view(np.uint64))


def _mixed_bits(bits: Array) -> Array:
    """Spread what is in some bits over all 64: the finaliser of splitmix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def deal_folds(codes: Array, n_folds: int, rng: np.random.RandomState) -> Array:
    """Number of the fold of each row: those of each class are shuffled and dealt out.

    Classes go on where the one before ended, so that folds differ by at most one row.
    """
    folds = np.empty(codes.size, dtype=np.int64)
    dealt = 0
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        folds[rows] = (dealt + np.arange(rows.size)) % n_folds
        dealt += rows.size
    return folds


def dealt_by_value(X: Array, codes: Array, n_folds: int, seed: int) -> Array:
    """Number of the fold of each row, by its values and its class alone; as a NumPy array.

    Copies of a row share a fold, whichever block they are in: for rows that no one has all of.
    Folds are about as large as each other, not exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.sources.distinct import dealt_by_value
    >>> X, codes = np.arange(8.0).reshape(-1, 1) % 4, np.zeros(8, dtype=np.int64)
    >>> folds = dealt_by_value(X, codes, 3, seed=0)
    >>> bool(np.all(folds[:4] == folds[4:])), int(folds.max()) < 3
    (True, True)
    """
    if sp.issparse(X) or is_numpy_array(X):
        hashes = _hashes(X, codes)
    else:
        hashes = as_numpy(_hashes_elsewhere(X, moved(codes, X))).view(np.uint64)
    lots = _mixed_bits(hashes + np.uint64(seed))
    # the upper half: all of its bits depend on all of the hash
    return ((lots >> np.uint64(32)) % np.uint64(n_folds)).astype(np.int64)
