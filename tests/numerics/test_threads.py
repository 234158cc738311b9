"""Ranges of rows that several threads take: order, limits, errors, and what is left behind."""

import gc
import os
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from grayzone.numerics.threads import (
    ELEMENTWISE,
    ONE_PRODUCT,
    PRODUCTS,
    blas,
    long_product,
    n_workers,
    one_thread,
    own_threads,
    split,
)

MUCH = 1e6  # work that keeps any number of threads busy


def ranges(n_rows, threads, kind=ONE_PRODUCT, most=8):
    with blas().limit(limits=most):
        return split(n_rows, lambda start, stop: (start, stop), threads=threads, kind=kind)


@pytest.mark.parametrize("n_rows", [1, 7, 8, 1000])
def test_ranges_are_consecutive_and_come_in_order(n_rows):
    for _ in range(20):
        found = ranges(n_rows, MUCH)
        assert len(found) == min(n_rows, 8)
        assert [start for start, _ in found] == [0, *(stop for _, stop in found[:-1])]
        assert found[-1][1] == n_rows


@pytest.mark.parametrize(("kind", "most"), [(ELEMENTWISE, 4), (PRODUCTS, 8), (ONE_PRODUCT, 12)])
def test_no_more_threads_than_are_allowed_or_pay(kind, most):
    for allowed in (1, 2, 3, 12):
        # what a library was built for is a limit as well
        with blas().limit(limits=allowed):
            allowed = n_workers()
        assert len(ranges(1000, MUCH, kind, allowed)) == min(allowed, most)
    assert len(ranges(1000, 1.9, kind)) == 1
    # k threads take W / k + k - 1 for W hand-overs of work
    for units in (2.0, 5.0, 20.0):
        taken = {k: kind.hand_overs * units / k + k - 1 for k in range(1, min(8, most) + 1)}
        assert len(ranges(1000, units, kind)) == min(taken, key=lambda k: (taken[k], -k))


def test_who_waits_gets_the_error_when_all_are_done():
    seen = []

    def work(start, stop):
        time.sleep(0.01)
        seen.append(start)
        if start == 500:
            raise ValueError("no such rows")

    with blas().limit(limits=4), pytest.raises(ValueError, match="no such rows"):
        split(1000, work, threads=MUCH, kind=ONE_PRODUCT)
    assert sorted(seen) == [0, 250, 500, 750]


def test_ranges_keep_the_settings_of_errors_and_split_no_further():
    def work(start, stop):
        time.sleep(0.005)
        return float(np.float64(1e308) * 10.0), n_workers()

    with blas().limit(limits=3), np.errstate(over="ignore"), own_threads():
        assert split(99, work, threads=MUCH, kind=ONE_PRODUCT) == [(np.inf, 1)] * 3


def test_callers_of_several_threads_do_not_mix():
    def caller(k):
        found = split(
            100, lambda a, b: [k * i for i in range(a, b)], threads=MUCH, kind=ONE_PRODUCT
        )
        return [value for part in found for value in part]

    with blas().limit(limits=4), ThreadPoolExecutor(6) as callers:
        for k, found in enumerate(callers.map(caller, range(50))):
            assert found == [k * i for i in range(100)]


@pytest.mark.parametrize("first", [own_threads, one_thread])
@pytest.mark.parametrize("second", [own_threads, one_thread])
def test_limits_of_two_threads_that_overlap_are_given_back(first, second):
    """Two ensembles fitted in two threads left BLAS at one thread for good."""

    def found():
        return {lib["filepath"]: lib["num_threads"] for lib in threadpool_info()}

    with blas().limit(limits=2), ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        before, alone = one.submit(found).result(), n_workers()
        outer, inner = first(), second()
        one.submit(outer.__enter__).result()
        other.submit(inner.__enter__).result()
        assert other.submit(n_workers).result() == (1 if second is one_thread else alone)
        one.submit(outer.__exit__, None, None, None).result()
        assert {lib.num_threads for lib in blas().lib_controllers} == {1}
        other.submit(inner.__exit__, None, None, None).result()
        assert one.submit(found).result() == other.submit(found).result() == before


def test_nothing_of_a_job_is_kept():
    values = np.zeros(1000)
    gone = weakref.ref(values)
    with blas().limit(limits=4):
        split(1000, lambda a, b, values=values: values[a:b].sum(), threads=MUCH, kind=ONE_PRODUCT)
    del values
    until = time.monotonic() + 10.0
    while gone() is not None and time.monotonic() < until:
        time.sleep(0.01)  # who came too late to help still has to see that
        gc.collect()
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    ranges(1000, MUCH)
    child = os.fork()
    if child == 0:
        os._exit(0 if len(ranges(1000, MUCH)) == 8 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_long_products_are_products():
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(3, 5000)), rng.normal(size=(5000, 4))
    np.testing.assert_allclose(long_product(left, right), left @ right, rtol=1e-12, atol=1e-12)
