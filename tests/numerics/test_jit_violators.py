"""Rows that blocks are made of, by compiled loops and by the Python of these, in any parts."""

from itertools import pairwise

import numpy as np
import pytest
from every import every
from test_jit import ALMOST_ONE, random_rows

from grayzone.numerics import jit_violators
from grayzone.numerics.jit_violators import extremes, violators


@pytest.fixture(autouse=True, params=["compiled", "Python"])
def run(request, monkeypatch):
    """Run loops compiled, and as the Python they were compiled from."""
    if request.param == "Python":
        for name in ("_extremes", "_count", "_allow", "_take"):
            monkeypatch.setattr(jit_violators, name, getattr(jit_violators, name).py_func)
        monkeypatch.setattr(jit_violators, "share", in_turn)


def in_turn(loop, given, own, edges):
    parts = enumerate(pairwise(edges))
    return [loop(*given, *(array[k] for array in own), start, stop) for k, (start, stop) in parts]


@pytest.fixture(autouse=True, params=[1, 3, 16])
def parts(request, monkeypatch):
    """Cut rows into so many parts, some of which may have none."""
    n = request.param
    monkeypatch.setattr(
        jit_violators, "_parts", lambda n_rows: [n_rows * k // n for k in range(n + 1)]
    )
    return n


def naive_sides(a, y):
    rises, falls = a < ALMOST_ONE, a > 0.0
    return np.where(y > 0, rises, falls), np.where(y > 0, falls, rises)


@every("n", [1, 2, 7, 1000])
@every("seed", range(3))
def test_extremes(n, seed):
    pull, a, y = random_rows(n, seed)
    up, low = naive_sides(a, y)
    top, bottom = extremes(pull, a, y)
    assert top == pull[up].max(initial=-1e300)
    assert bottom == pull[low].min(initial=1e300)


@pytest.mark.parametrize(("n", "half"), [(10, 3), (300, 40), (2000, 256), (2000, 1), (30, 500)])
@every("seed", range(3))
def test_violators(n, half, seed, parts, monkeypatch):
    pull, a, y = random_rows(n, seed)
    up, low = naive_sides(a, y)
    top, bottom = pull[up].max(), pull[low].min()
    chosen = violators(pull, a, y, top, bottom, half)
    assert np.array_equal(chosen, np.unique(chosen))
    assert chosen.size <= min(n, 2 * half)
    taken = np.zeros(n, dtype=bool)
    taken[chosen] = True
    width = (top - bottom) / 1024
    wanted = np.zeros(n, dtype=bool)
    for side, distance in ((up, pull - bottom), (low, top - pull)):
        candidates = np.sort(distance[side & (distance > 0.0)])[::-1]
        # up to a bin of the histogram the furthest are chosen, and no others
        limit = candidates[half - 1] if candidates.size >= half else 0.0
        assert np.all(taken[side & (distance > limit + width)])
        wanted |= side & (distance >= limit - width) & (distance > 0.0)
    assert np.all(wanted[taken])
    fewer = min(half, np.count_nonzero(up & (pull > bottom)))
    assert chosen.size >= fewer
    monkeypatch.setattr(jit_violators, "_parts", lambda n_rows: [0, n_rows])
    np.testing.assert_array_equal(chosen, violators(pull, a, y, top, bottom, half))


def test_violators_take_all_where_there_are_few():
    pull, a, y = random_rows(50, 5)
    up, low = naive_sides(a, y)
    top, bottom = pull[up].max(), pull[low].min()
    chosen = violators(pull, a, y, top, bottom, 50)
    np.testing.assert_array_equal(
        chosen, np.flatnonzero((up & (pull > bottom)) | (low & (pull < top)))
    )


def test_violators_of_equal_pulls():
    # one bin holds them all: as many of them as there is room for
    n = 100
    y = np.repeat([1.0, -1.0], 50)
    pull = y.copy()
    chosen = violators(pull, np.zeros(n), y, 1.0, -1.0, 10)
    assert chosen.size == 20
    assert np.count_nonzero(y[chosen] > 0) == 10
