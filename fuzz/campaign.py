"""A campaign: batches of cases, each in a process of its own, several at a time.

A case that crashes its process or hangs is a finding like any other; the rest of its batch goes on
in a new process.
"""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO, Any

from fuzz.findings import Case, Finding, Outcome, Report, subject_name

_ROOT = Path(__file__).resolve().parents[1]
# Seconds that a process has beyond the limit of a case, which it should keep by itself.
_PATIENCE = 30.0
_TOO_LONG = "Timeout ("  # as the traceback of such a case begins
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# Lines of a fault handler's traceback, the innermost first.
_OWN_FRAME = re.compile(r'File "[^"]*/(?:src|site-packages)/grayzone/([^"]+)", line \d+,? in (\S+)')
_ANY_FRAME = re.compile(r'File "(?:[^"]*/)?([^"/]+)", line \d+,? in (\S+)')


@dataclass
class Campaign:
    """What is to be tried, for how long, and what it has come to.

    Attributes
    ----------
    subject : str
        As :func:`fuzz.subjects.subject_of` names them.
    seed : int
        Which cases are drawn.
    minutes, cases : float, int
        When to end: after this time, or after so many cases, if any number is given.
    jobs : int
        Processes at a time.
    size : int
        Cases of a batch.
    limit : float
        Seconds after which a case is said to hang.
    """

    subject: str = "fits"
    seed: int = 0
    minutes: float = 1.0
    cases: int | None = None
    jobs: int = 1
    size: int = 500
    limit: float = 60.0
    report: Report = field(default_factory=Report)
    tell: Callable[[Report], None] = lambda report: None

    def __post_init__(self) -> None:
        self._lock = Lock()
        self._batches = self._sizes()
        self._end = time.monotonic() + 60.0 * self.minutes

    def _sizes(self) -> Iterator[tuple[int, int]]:
        """Yield the number of each batch and its size: the same ones whatever the jobs are."""
        for batch in itertools.count():
            left = self.size if self.cases is None else self.cases - batch * self.size
            if left <= 0:
                return
            yield batch, min(left, self.size)

    def run(self) -> Report:
        """Try cases until the time, or their number, is over."""
        with ThreadPoolExecutor(self.jobs) as pool:
            for future in [pool.submit(self._work) for _ in range(self.jobs)]:
                future.result()
        return self.report

    def _over(self) -> bool:
        return time.monotonic() >= self._end

    def _work(self) -> None:
        while not self._over():
            with self._lock:
                batch, size = next(self._batches, (0, 0))
            if size == 0:
                return
            first = 0
            while first < size and not self._over():
                first = self._process(batch, size, first)

    def _process(self, batch: int, size: int, first: int) -> int:
        """Check a batch from a case on; returns the case to go on with."""
        job = {"subject": self.subject, "seed": self.seed, "batch": batch, "first": first}
        job |= {"size": size, "limit": self.limit}
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as told:
            worker = Worker(job, told)
            with worker:
                for case, outcome, seconds in worker.outcomes():
                    with self._lock:
                        self.report.add(case, outcome, seconds)
                        self.tell(self.report)
                    if self._over():
                        return size
            return worker.next


class Worker:
    """A process that checks a batch, and the cases whose outcome it has told."""

    def __init__(self, job: dict[str, Any], told: IO[str]) -> None:
        self.next, self._size = job["first"], job["size"]
        self._limit, self._told = job["limit"], told
        threads = dict.fromkeys(_THREADS, "1")
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", json.dumps(job)],
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            encoding="utf-8",
            env={**os.environ, **threads, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        )

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *raised: Any) -> None:
        self._process.kill()
        self._process.__exit__(*raised)

    def outcomes(self) -> Iterator[tuple[Case, Outcome, float]]:
        """Yield each case with its outcome and the seconds it took; last, what ended the process.

        Raises
        ------
        RuntimeError
            If the process ends before it has begun with a case.
        """
        case: Case | None = None
        for line in self._lines():
            if "end" in line:
                self.next = self._size
                return
            if "case" in line:
                self.next, case = line["number"] + 1, line["case"]
            elif case is not None:
                result, findings, *more = line["outcome"]
                found = [Finding(*finding) for finding in findings]
                yield case, Outcome(result, found, *more), line["seconds"]
                case = None
        self._process.wait()
        trace = self._trace()
        if case is None:
            raise RuntimeError(f"A process of the campaign failed between two cases:\n{trace}")
        yield case, self._ended(case, trace), self._limit

    def _lines(self) -> Iterator[dict[str, Any]]:
        """Yield what the process says; one that says nothing for too long is ended."""
        assert self._process.stdout is not None
        self._heard, ended = time.monotonic(), Event()
        Thread(target=self._watch, args=[ended], daemon=True).start()
        try:
            for line in self._process.stdout:
                self._heard = time.monotonic()
                yield json.loads(line)
        finally:
            ended.set()

    def _watch(self, ended: Event) -> None:
        while not ended.wait(_PATIENCE / 10.0):
            if time.monotonic() - self._heard > self._limit + _PATIENCE:
                self._process.send_signal(signal.SIGABRT)

    def _trace(self) -> str:
        self._told.seek(0)
        told = self._told.read()
        # of a case that took too long all threads are told of, from there on
        long = told.rfind(_TOO_LONG)
        return told[-6000:] if long < 0 else told[long:][:6000]

    def _ended(self, case: Case, trace: str) -> Outcome:
        """Return the outcome of a case that ended its process."""
        hung = _TOO_LONG in trace
        kind, code = ("hang" if hung else "crash"), self._process.returncode
        frame = _OWN_FRAME.search(trace) or _ANY_FRAME.search(trace)
        where = "unknown" if frame is None else f"{frame[1]}:{frame[2]}"
        said = f"over {self._limit:g} s" if hung else f"exit status {code}"
        return Outcome(kind, [Finding(kind, subject_name(case), where, said, trace)])
