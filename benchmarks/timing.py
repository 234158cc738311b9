"""Fair timing and memory of several ways to fit the same data."""

import contextlib
import ctypes
import gc
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import stratified_rows

WARM_UP_ROWS = 2_000


def as_given(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Leave the data as they are."""
    return X, y


@dataclass(frozen=True)
class Contender:
    """One way to fit.

    Parameters
    ----------
    name : str
        Its name in tables.
    fit : callable
        Takes what `prepare` returns; everything it does is timed. Importable, so that another
        process can call it.
    prepare : callable, default=as_given
        Takes ``X, y`` and returns them in the form that `fit` wants; not timed.
    """

    name: str
    fit: Callable[[Any], Any]
    prepare: Callable[[Any, np.ndarray], Any] = as_given


@dataclass(frozen=True)
class Timing:
    """The seconds of each run, and what the last one returned."""

    seconds: tuple[float, ...]
    result: Any

    @property
    def best(self) -> float:
        """The run that other programs disturbed least."""
        return min(self.seconds)


def race(
    contenders: Sequence[Contender],
    X: Any,
    y: np.ndarray,
    *,
    repeats: int,
    threads: int,
    report: Callable[[str, float], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timing]:
    """Time contenders round after round, so that a slow spell of the machine hits all of them.

    Parameters
    ----------
    contenders : sequence of Contender
        What to run.
    X, y : array or sparse matrix, ndarray
        The data.
    repeats : int
        Number of rounds; each starts with another contender.
    threads : int
        Threads that BLAS and OpenMP may use.
    report : callable, optional
        Called after each run, off the clock, with the contender's name and its seconds.
    clock : callable, default=time.perf_counter
        `time.process_time` counts the processor's time alone, for machines that are not quiet.

    Returns
    -------
    list of Timing
        In the order of `contenders`.
    """
    prepared = {prepare: prepare(X, y) for prepare in {c.prepare for c in contenders}}
    seconds: list[list[float]] = [[] for _ in contenders]
    results: list[Any] = [None] * len(contenders)
    with threadpool_limits(limits=threads), warnings.catch_warnings():
        # Peers warn when a tolerance is out of their reach; the error they reach is in the table.
        warnings.simplefilter("ignore")
        for turn in range(repeats):
            for step in range(len(contenders)):
                i = (turn + step) % len(contenders)
                data = prepared[contenders[i].prepare]
                gc.collect()
                start = clock()
                results[i] = contenders[i].fit(data)
                seconds[i].append(clock() - start)
                if report is not None:
                    report(contenders[i].name, seconds[i][-1])
    return [Timing(tuple(s), r) for s, r in zip(seconds, results, strict=True)]


def peak_memory(
    contender: Contender, load: Callable[[], tuple[Any, np.ndarray]], *, threads: int
) -> dict[str, float | bool]:
    """Measure in a new process the memory that a fit needs beyond the data.

    Parameters
    ----------
    contender : Contender
        What to run; what `prepare` allocates counts.
    load : callable
        Returns ``X, y``. Importable, like the functions of the contender.
    threads : int
        Threads that BLAS and OpenMP may use.

    Returns
    -------
    dict
        ``extra_bytes``; ``data_bytes``, those of X; ``exact``, false where loading the data took
        more than the fit and only this upper bound is known.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_peak_memory_here, contender, load, threads).result()


def _peak_memory_here(
    contender: Contender, load: Callable[[], tuple[Any, np.ndarray]], threads: int
) -> dict[str, float | bool]:
    X, y = load()
    with threadpool_limits(limits=threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = stratified_rows(y, WARM_UP_ROWS)
        contender.fit(contender.prepare(X[few], y[few]))
        gc.collect()
        _return_free_memory()
        _forget_peak()
        before, peak_before = resident_bytes("VmRSS"), resident_bytes("VmHWM")
        contender.fit(contender.prepare(X, y))
    peak = resident_bytes("VmHWM")
    arrays = (X.data, X.indices, X.indptr) if hasattr(X, "indptr") else (X,)
    return {
        "extra_bytes": peak - before,
        "data_bytes": sum(a.nbytes for a in arrays),
        "exact": peak > peak_before,
    }


def resident_bytes(field: str) -> int:
    """Return the resident size of this process: "VmRSS" now, "VmHWM" at its highest."""
    # Not `ru_maxrss`: a process inherits that one from its parent, however large the parent was.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}; memory is measured on Linux only")


def _forget_peak() -> None:
    # Where the kernel refuses, the peak of loading stays, and with it only an upper bound.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _return_free_memory() -> None:
    # What the allocator keeps would be reused by the fit and hide part of its need (glibc only).
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
