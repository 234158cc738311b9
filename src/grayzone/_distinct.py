"""Rows as they are, however often and in whatever order they are given.

A row that comes twice is a row of weight two. What is drawn at random, candidates and folds, is
drawn among distinct rows in the order of their values, and so depends neither on the order of the
data nor on how weights are written; and no row is held out of a fit that has seen its copy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

Array = Any


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
    >>> from grayzone._distinct import distinct_rows
    >>> rows = distinct_rows(np.array([[2.0], [1.0], [2.0]]), np.array([0, 1, 0]), np.ones(3))
    >>> rows.X.ravel(), rows.weight
    (array([1., 2.]), array([1., 2.]))
    """
    first, number = row_groups(X, codes)
    return Distinct(X[first], codes[first], np.bincount(number, weight))


def row_groups(X: Array, codes: Array) -> tuple[Array, Array]:
    """Groups of equal rows of the same class, in an order that depends on their values alone.

    Returns
    -------
    first : ndarray of shape (n_groups,)
        A row of each group.
    number : ndarray of shape (n,)
        The group of each row.
    """
    _, first, number = np.unique(_hashes(X, codes), return_index=True, return_inverse=True)
    return first, number


def _hashes(X: Array, codes: Array) -> Array:
    """A number of 64 bits for each row; equal ones for different rows are a chance of 2^-64.

    Sums of the entries' bits times odd numbers, modulo 2^64: exact, and the same in any order.
    """
    factors = np.random.default_rng(0).integers(2**63, size=X.shape[1] + 1, dtype=np.uint64)
    factors = 2 * factors + 1
    total = codes.astype(np.uint64) * factors[-1]
    if sp.issparse(X):
        entries = sp.coo_array(X)
        np.add.at(total, entries.row, _mixed(entries.data) * factors[entries.col])
        return total
    for j, factor in enumerate(factors[:-1]):
        total += _mixed(X[:, j]) * factor
    return total


def _mixed(values: Array) -> Array:
    """Bits of numbers, zero for zero of either sign, such that their sums do not cancel."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)
    # the finaliser of splitmix64: whole numbers have their bits at one end only
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
