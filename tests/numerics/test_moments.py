"""Variances of columns, dense and sparse, against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from grayzone.numerics.moments import column_variances

KINDS = {"dense": np.asarray, "CSR": sp.csr_array, "CSC": sp.csc_array}


def by_fractions(X, share):
    """Exact arithmetic, of what the doubles are."""
    found = []
    for column in X.T:
        values, weights = [list(map(Fraction, part.tolist())) for part in (column, share)]
        total = sum(weights)
        mean = sum(w * v for w, v in zip(weights, values, strict=True)) / total
        found.append(
            float(sum(w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True)) / total)
        )
    return np.array(found)


@pytest.mark.parametrize("kind", KINDS)
def test_variances_are_those_of_exact_arithmetic(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5)) * (rng.random(size=(40, 5)) < 0.4)
    X[:, 1] = 1e6 + rng.normal(size=40)  # far from zero, nowhere zero
    X[:, 2] = np.where(rng.random(40) < 0.5, 1e6, 0.0)
    X[:, 3] = 3.0  # constant
    X[:, 4] = 0.0
    share = rng.uniform(0.5, 2.0, size=40)
    share /= share.sum()
    found = column_variances(KINDS[kind](X), share)
    np.testing.assert_allclose(found[:3], by_fractions(X, share)[:3], rtol=1e-8)
    np.testing.assert_array_equal(found[3:], 0.0)
