"""Systems for many right-hand sides, compiled, beside those of LAPACK."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from grayzone.numerics import jit_triangular
from grayzone.numerics.linalg import factorise, solved_by_many


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("p", "m"), [(1, 1), (1, 7), (6, 1), (5, 300), (80, 33)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_systems_of_many_right_hand_sides(threads, p, m, order, monkeypatch):
    monkeypatch.setattr(jit_triangular, "_WORTH_A_THREAD", 1)
    rng = np.random.default_rng(p)
    rows, right = rng.normal(size=(p + 5, p)), np.array(rng.normal(size=(p, m)), order=order)
    H, before = rows.T @ rows, right.copy()
    solve = factorise(H)
    with threadpool_limits(threads, user_api="blas"):
        found = solved_by_many(solve, right)
    np.testing.assert_allclose(found, solve(right), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(H @ found, right, atol=1e-9)
    np.testing.assert_array_equal(right, before)


def test_what_solves_otherwise_does_so_here():
    assert solved_by_many(lambda right: 2.0 * right, 3.0) == 6.0
