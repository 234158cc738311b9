"""Row blocks worked through by several threads, each with its own accumulator.

The blocks are small BLAS-3 jobs on data in the cache, which BLAS itself splits badly: one
BLAS thread per worker and several workers is up to twice as fast.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache, partial
from itertools import pairwise
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")


@cache
def blas() -> ThreadpoolController:
    """Return the BLAS libraries of this process."""
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be seen)

    return ThreadpoolController().select(user_api="blas")


@cache
def _all_libraries() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401
    import sklearn.ensemble  # noqa: F401  (its OpenMP, too)

    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS and OpenMP to one thread: small work is quicker so, and sums are the same."""
    with _all_libraries().limit(limits=1):
        yield


@cache
def pool(workers: int) -> ThreadPoolExecutor:
    """Return the threads that all work shares: starting some for each reading would cost more."""
    return ThreadPoolExecutor(workers, thread_name_prefix="grayzone")


# Threads do not survive a fork: a child that inherited the pool would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)


_own_workers: ContextVar[int | None] = ContextVar("own_workers", default=None)


@contextmanager
def own_threads() -> Iterator[None]:
    """Keep BLAS to one thread; the blocks of rows take over the threads it had.

    Small BLAS calls on several threads lose more in waiting than they win, above all on
    a busy machine. Limits that the user or joblib set on BLAS hold for the workers too.
    """
    workers = n_workers()
    token = _own_workers.set(workers)
    try:
        # where BLAS has one thread, there is nothing to take over
        with blas().limit(limits=1) if workers > 1 else nullcontext():
            yield
    finally:
        _own_workers.reset(token)


def n_workers() -> int:
    """Count the threads that may be used now."""
    own = _own_workers.get()
    if own is not None:
        return own
    return max((lib.num_threads for lib in blas().lib_controllers), default=1)


def elsewhere(work: Callable[..., T]) -> Callable[..., T]:
    """Return work for another thread: with NumPy's settings for errors here, and on its own."""
    context = copy_context()
    context.run(_own_workers.set, 1)
    return partial(context.run, work)


# Threads that share the interpreter's lock: where each takes it for every few thousand numbers,
# more of them wait longer than they work (measured on sixteen cores).
_SHARE_THE_LOCK = 6


def split(
    n_rows: int, work: Callable[[int, int], T], *, threads: float, compiled: bool = False
) -> list[T]:
    """Call ``work(start, stop)`` on consecutive ranges of rows, one range a thread.

    The results come in the order of the rows, so that sums do not depend on timing. ``threads``
    says how many of them the whole keeps busy, as handing over costs some 50 microseconds each.
    Work that is ``compiled`` as a whole leaves the interpreter alone, and may have all threads.
    """
    if threads < 2:
        return [work(0, n_rows)]
    most = n_workers() if compiled else min(n_workers(), _SHARE_THE_LOCK)
    workers = min(most, int(threads))
    if workers == 1:
        return [work(0, n_rows)]
    edges = [n_rows * k // workers for k in range(workers + 1)]
    threads_of_all = pool(n_workers())
    rest = [threads_of_all.submit(elsewhere(work), *e) for e in pairwise(edges[1:])]
    return [work(*edges[:2]), *(job.result() for job in rest)]
