"""Row blocks worked through by several threads, each with its own accumulator.

The blocks are small BLAS-3 jobs on data in the cache, which BLAS itself splits badly: one
BLAS thread per worker and several workers is up to twice as fast.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache, partial
from itertools import pairwise
from math import sqrt
from operator import sub
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
Array = Any
# Values from which their squares are worth several threads, that one of them reads in a fifth of a
# millisecond, and up to which BLAS takes one thread.
_MANY_VALUES, _READ_BY_A_THREAD, _UNTHREADED = 2**20, 300_000, 8192


@cache
def blas() -> ThreadpoolController:
    """Return the BLAS libraries of this process."""
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be seen)

    return ThreadpoolController().select(user_api="blas")


@cache
def _of_each_thread(openmp: bool) -> ThreadpoolController:
    """Return the libraries whose number of threads is that of the calling thread.

    BLAS built with OpenMP is among them, and OpenMP itself where it is asked for.
    """
    import sklearn.ensemble  # noqa: F401  (its OpenMP must be loaded to be seen)

    known = {"threading_layer": "openmp"} | ({"user_api": "openmp"} if openmp else {})
    return ThreadpoolController().select(**known)


class _OneThread:
    """One thread of BLAS from when somebody first wants it so until nobody does.

    The number of threads is the process's. Of two limits that are not given back in turn, the
    second would bring back what the first had set.
    """

    def __init__(self) -> None:
        self._changing, self._users = Lock(), 0
        self._before: dict[Any, int] = {}

    def __enter__(self) -> None:
        with self._changing:
            if not self._users:
                libraries = blas().lib_controllers
                shared = [one for one in libraries if one.threading_layer != "openmp"]
                self._before = {library: library.num_threads for library in shared}
                self._set(dict.fromkeys(shared, 1))
            self._users += 1

    def __exit__(self, *error: object) -> None:
        with self._changing:
            self._users -= 1
            if not self._users:
                self._set(self._before)
                self._before = {}

    def _set(self, numbers: dict[Any, int]) -> None:
        for library, n_threads in numbers.items():
            # since threadpoolctl 3.8 only the thread that set a number first can change it
            release = getattr(library, "clear_controlling_thread", lambda force: None)
            release(force=True)
            library.set_num_threads(n_threads)
            release(force=True)

    def allowed(self) -> int:
        """Return how many threads BLAS may use but for this limit."""
        with self._changing:
            known = self._before
            return max(
                (known.get(one, one.num_threads) for one in blas().lib_controllers), default=1
            )


_one_thread_of_blas = _OneThread()


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS and OpenMP to one thread: small work is quicker so, and sums are the same."""
    token = _own_workers.set(1)
    try:
        with _one_thread_of_blas, _of_each_thread(openmp=True).limit(limits=1):
            yield
    finally:
        _own_workers.reset(token)


@cache
def pool(workers: int) -> ThreadPoolExecutor:
    """Return the threads that blocks of a source share: starting some for each would cost more."""
    return ThreadPoolExecutor(workers, thread_name_prefix="grayzone")


class Crew:
    """Threads that wait for work, whoever has some.

    A job of a fraction of a millisecond has no time for what an executor does for each of its
    calls. Who is woken wakes two others, as a call to each of them would keep the caller from work.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], None], int]] = SimpleQueue()
        self._size, self._hiring = 0, Lock()
        # Not 0 while who waits for compiled loops, inside one of them, is wanted here.
        self.wanted = np.zeros(1, dtype=np.int64)

    def help_with(self, work: Callable[[], None], hands: int) -> None:
        """Let so many threads do the same work, as soon as they are free."""
        if self._size < hands:
            self._hire(hands)
        self._calls.put((work, hands))

    def _hire(self, size: int) -> None:
        with self._hiring:
            while self._size < size:
                Thread(target=self._wait, name="grayzone", daemon=True).start()
                self._size += 1

    def _wait(self) -> None:
        while True:
            self._do_next()

    def _do_next(self) -> None:
        # no name for it outside: rows would be kept until the next one comes
        work, hands = self._calls.get()
        for others in (hands // 2, (hands - 1) // 2):
            if others:
                self._calls.put((work, others))
        work()


class _Job(Generic[T]):
    """Ranges of rows that are taken one after the other by whoever is free, the caller first."""

    def __init__(self, of_range: Callable[[int, int], T], ranges: list[tuple[int, int]]) -> None:
        self._of_range, self._context = of_range, copy_context()
        self._context.run(_own_workers.set, 1)
        self._open, self._left = deque(enumerate(ranges)), len(ranges)
        self._found: list[Any] = [None] * len(ranges)
        self._error: BaseException | None = None
        self._counting, self._finished = Lock(), Lock()
        self._finished.acquire()

    def work(self) -> None:
        """Take ranges while there are any."""
        context = self._context.copy()  # one cannot be entered twice at a time
        while self._open:
            try:
                k, (start, stop) = self._open.popleft()
            except IndexError:  # another thread was quicker
                return
            try:
                self._found[k] = context.run(self._of_range, start, stop)
            except BaseException as error:
                self._error = error
            with self._counting:
                self._left -= 1
                last = self._left == 0
            if last:
                self._finished.release()

    def results(self) -> list[T]:
        """Wait for the ranges that others took; results in the order of the ranges."""
        self._finished.acquire()
        if self._error is not None:
            raise self._error
        return self._found


crew = Crew()


def _start_afresh() -> None:
    """Forget threads that are not here: they do not survive a fork, and would be waited for."""
    global crew, _one_thread_of_blas
    pool.cache_clear()
    crew, _one_thread_of_blas = Crew(), _OneThread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)


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
        if workers == 1:  # there is nothing to take over
            yield
        else:
            with _one_thread_of_blas, _of_each_thread(openmp=False).limit(limits=1):
                yield
    finally:
        _own_workers.reset(token)


@cache
def processors() -> int:
    """Count the processors that this process may keep busy, as a container limits them too."""
    from joblib import cpu_count  # which scikit-learn needs itself

    return int(cpu_count())


def n_workers() -> int:
    """Count the threads that may be used now."""
    own = _own_workers.get()
    return _one_thread_of_blas.allowed() if own is None else own


def elsewhere(work: Callable[..., T]) -> Callable[..., T]:
    """Return work for another thread: with NumPy's settings for errors here, and on its own."""
    context = copy_context()
    context.run(_own_workers.set, 1)
    return partial(context.run, work)


class Kind(NamedTuple):
    """How often work takes the interpreter's lock, for which threads queue."""

    most: int  # threads that are not in each other's way
    hand_overs: float  # that take as long as a unit of work, a fifth of a millisecond
    least: float = 2.0  # units of work that are worth a second thread


# NumPy's calls on some ten thousand numbers, products of small matrices between which the lock is
# taken, one product a thread, and loops whose parts are taken inside compiled code. On sixteen
# cores more than four threads make the first slower, and the hand-over of the third takes 12
# microseconds; the second is in between, the last is that of two lines of the cache.
ELEMENTWISE, PRODUCTS, ONE_PRODUCT = Kind(4, 2.0), Kind(8, 4.0), Kind(2**20, 16.0)
LOOPS = Kind(128, 64.0, 0.5)


def edges(n_rows: int, *, threads: float, kind: Kind) -> list[int]:
    """Return where ranges of rows begin and end, one for each thread that work keeps busy.

    ``threads`` says how much there is to do, in units of a fifth of a millisecond or so. Threads
    are handed their ranges one after the other: k of them take W / k + k - 1 for work that takes as
    long as W hand-overs, which is least where k (k - 1) = W, so that more of them would only cost.
    """
    if threads < kind.least:
        return [0, n_rows]
    worth = int(0.5 + sqrt(0.25 + kind.hand_overs * threads))
    workers = max(1, min(n_workers(), kind.most, worth, n_rows))
    return [n_rows * k // workers for k in range(workers + 1)]


def longest(edges: Sequence[int]) -> int:
    """Return the length of the longest range."""
    return max(map(sub, edges[1:], edges))


def split(
    n_rows: int, work: Callable[[int, int], T], *, threads: float, kind: Kind = ELEMENTWISE
) -> list[T]:
    """Call ``work(start, stop)`` on consecutive ranges of rows, one range a thread.

    The results come in the order of the rows, so that sums do not depend on timing. Compiled loops
    are handed out by :func:`grayzone.numerics.team.share` instead.
    """
    ranges = list(pairwise(edges(n_rows, threads=threads, kind=kind)))
    if len(ranges) == 1:
        return [work(0, n_rows)]
    job = _Job(work, ranges)
    crew.wanted[0] = 1
    crew.help_with(job.work, len(ranges) - 1)
    job.work()
    return job.results()


def square_sum(values: Array) -> float:
    """Return the sum of squares of NumPy's numbers, which lie one after the other in some order.

    Not by threads of BLAS: these go on to spin for a while, in the way of what comes next.
    """
    flat = values.ravel(order="K")

    def work(start: int, stop: int) -> float:
        edges = pairwise([*range(start, stop, _UNTHREADED), stop])
        return sum(float(np.dot(flat[a:b], flat[a:b])) for a, b in edges)

    if flat.size <= _MANY_VALUES:
        return work(0, flat.size)
    with own_threads():
        parts = split(
            flat.size,
            lambda a, b: float(np.dot(flat[a:b], flat[a:b])),
            threads=flat.size / _READ_BY_A_THREAD,
            kind=ONE_PRODUCT,
        )
    return sum(parts)


def long_product(left: Array, right: Array) -> Array:
    """Return the product of two matrices of NumPy whose sums are long and few.

    ``matmul`` keeps the interpreter's lock where the result is small, however much there is to
    add: threads would take turns. ``dot`` does not.
    """
    return np.dot(left, right)
