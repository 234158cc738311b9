"""Factors of kernel matrices whose values are of very different size."""

import array_api_strict as strict
import numpy as np
import pytest

from grayzone.numerics.kernel_design import KernelDesign
from grayzone.numerics.kernels import Kernel
from grayzone.solvers.kernel.features import factor, few_columns

X = np.exp(2.0 * np.random.default_rng(0).normal(size=(60, 3))) * 100.0
CUBIC = Kernel("poly", gamma=1.0 / 3.0)


def assert_factor(L, K):
    norms = np.sqrt(np.diagonal(K))
    error = (np.asarray(L) @ np.asarray(L).T - K) / norms / norms[:, None]
    assert np.max(np.abs(error)) < 1e-11


@pytest.mark.parametrize("library", [np, strict])
def test_rows_of_small_norm_keep_their_digits(library):
    K = CUBIC(X, X)
    assert np.ptp(np.log10(np.diagonal(K))) > 11.0
    L = factor(library.asarray(K), definite=True)
    assert L.shape[1] == 10  # cubic monomials of three features
    assert_factor(L, K)


@pytest.mark.parametrize("library", [np, strict])
def test_so_do_those_of_a_matrix_that_only_shows_to_be_definite(library):
    rows = X * [1e12, 1.0, 1.0] * (np.arange(60) % 2)[:, None] + X * [0.0, 1.0, 1.0]
    K = rows @ rows.T
    L = factor(library.asarray(K))
    assert L.shape[1] == 3
    assert_factor(L, K)


def test_column_by_column():
    L = few_columns(KernelDesign(CUBIC, X), 20)
    assert L.shape[1] == 10
    assert_factor(L, CUBIC(X, X))


def test_too_many_columns():
    assert few_columns(KernelDesign(CUBIC, X), 9) is None
    assert few_columns(KernelDesign(CUBIC, X), 10) is not None


def test_kernels_that_may_be_indefinite_are_not_tried():
    assert few_columns(KernelDesign(Kernel("sigmoid"), X), 60) is None


def test_rows_of_zeros():
    K = CUBIC(np.zeros((4, 3)), np.zeros((4, 3)))
    assert not factor(K, definite=True).any()
    assert not few_columns(KernelDesign(CUBIC, np.zeros((4, 3))), 2).any()


@pytest.mark.parametrize("library", [np, strict])
def test_an_indefinite_matrix_is_an_error(library):
    with pytest.raises(ValueError, match="positive semi-definite"):
        factor(library.asarray([[1.0, 2.0], [2.0, 1.0]]))


@pytest.mark.parametrize("library", [np, strict])
def test_errors_of_the_size_of_the_largest_entry_are_no_reason_to_refuse(library):
    K = CUBIC(X, X)
    noise = np.random.default_rng(1).normal(size=K.shape)
    K += 1e-12 * np.max(K) * (noise + noise.T)  # more than all there is of most rows
    L = np.asarray(factor(library.asarray(K)))
    assert np.max(np.abs(L @ L.T - K)) < 1e-10 * np.max(K)
