"""A run of many benchmarks, that can be stopped and goes on later.

Each runs as a process of its own, into a JSON file of its own; what is complete is kept. Tables and
figures of papers share the processors, as their times mean little; races with peers run alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.data import data_folder
from benchmarks.entries import ENTRIES as ENTRIES
from benchmarks.entries import Entry as Entry
from benchmarks.report import RESULTS, environment, now, replace_text, say
from grayzone.datasets import load_dataset

ROOT = Path(__file__).resolve().parents[1]
LOG_LINES = 15  # of a benchmark that failed
POLL_SECONDS = 0.2
HEAD_START = 1.0  # seconds for those that Ctrl-C at a terminal has reached already
PATIENCE = 20.0  # seconds that a stopped benchmark has to write what it has
NAMES = tuple(entry.name for entry in ENTRIES)


class Journal:
    """What has been run, in a file that is rewritten with each benchmark that ends.

    Parameters
    ----------
    folder : Path
        Where the JSON files are.
    quick : bool
        Whether the runs are quick ones.
    """

    def __init__(self, folder: Path, quick: bool) -> None:
        self.folder, self.quick = folder, quick
        self.path = folder / "run.json"
        known = json.loads(self.path.read_text("utf-8")) if self.path.is_file() else {}
        # a quick run and a full one have nothing in common
        self.done: dict[str, dict[str, Any]] = (
            known.get("entries", {}) if known.get("quick") == quick else {}
        )

    def has(self, entry: Entry) -> bool:
        """Tell whether a benchmark is complete, with the arguments it has now."""
        return self._status(entry) == "complete" and self.target(entry).is_file()

    def continues(self, entry: Entry) -> bool:
        """Tell whether an earlier run, with the same arguments, left something to go on from."""
        return self._status(entry) in ("unfinished", "failed")

    def seconds(self, entry: Entry) -> float:
        """Return how long a benchmark has taken so far."""
        return self.done[entry.name]["seconds"]

    def target(self, entry: Entry) -> Path:
        """Return the JSON file of a benchmark."""
        return self.folder / f"{entry.name}.json"

    def _status(self, entry: Entry) -> str | None:
        record = self.done.get(entry.name, {})
        same = record.get("arguments") == list(entry.arguments(self.quick))
        return record.get("status") if same else None

    def keep(self, entry: Entry, status: str, seconds: float, reason: str = "") -> None:
        """Keep how a benchmark ended."""
        self.done[entry.name] = {
            "status": status,
            "arguments": list(entry.arguments(self.quick)),
            "seconds": seconds,
            "ended": now(),
            **({"reason": reason} if reason else {}),
        }
        record = {"quick": self.quick, "environment": environment(), "entries": self.done}
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_text(self.path, json.dumps(record, indent=2) + "\n")


class Running:
    """A benchmark that is being run."""

    def __init__(self, entry: Entry, journal: Journal, threads: int) -> None:
        # what it goes on from took its time as well
        self.entry, self.start = entry, time.perf_counter() - journal.seconds(entry)
        self.log = journal.folder / f"{entry.name}.log"
        self.target = journal.target(entry)
        self._before = self._written()
        command = [sys.executable, "-m", entry.module, *entry.arguments(journal.quick)]
        command += ["--threads", str(threads), "--output", str(self.target)]
        limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **limits, "GRAYZONE_DATA": str(data_folder().resolve())},
            )

    @property
    def seconds(self) -> float:
        """Seconds it has taken, earlier parts included."""
        return time.perf_counter() - self.start

    @property
    def failure(self) -> str:
        """What went wrong, once it has ended; nothing if all went well."""
        if self.process.returncode:
            return f"exit {self.process.returncode}"
        return "no results written" if self._written() == self._before else ""

    def _written(self) -> int | None:
        return self.target.stat().st_mtime_ns if self.target.is_file() else None

    def tail(self) -> str:
        """Return the end of what it printed."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-LOG_LINES:])


def run(
    names: Sequence[str], *, quick: bool, again: bool, jobs: int, folder: Path = RESULTS
) -> int:
    """Run benchmarks; those that are complete are kept, those that lack data are left out.

    Parameters
    ----------
    names : sequence of str
        Of ``NAMES``.
    quick : bool
        Whether to run the small versions.
    again : bool
        Whether to run those that are complete as well.
    jobs : int
        How many tables and figures of papers run at a time.
    folder : Path
        Where results go.

    Returns
    -------
    int
        0, 1 if something failed, or 130 if it was interrupted.
    """
    folder = folder.resolve()  # benchmarks run in a folder of their own
    journal = Journal(folder, quick)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [entry for entry in ENTRIES if entry.name in names]
    waiting = [e for e in chosen if again or not journal.has(e)]
    if len(waiting) < len(chosen):
        say(f"{len(chosen) - len(waiting)} of {len(chosen)} are complete already (--again)")
    threads = os.cpu_count() or 1
    failed = 0
    try:
        checked: dict[str, str] = {}
        ready = [entry for entry in waiting if _can_run(entry, journal, checked)]
        for kind, at_once, own in (
            ("papers", jobs, max(1, threads // jobs)),
            ("peers", 1, threads),
        ):
            group = [entry for entry in ready if entry.kind == kind]
            failed += _run_group(group, journal, at_once, own, again)
    except KeyboardInterrupt:
        hint = ", without --again," if again else ""
        say(f"stopped; what is complete is kept, and the same command{hint} goes on from there")
        return 130
    return 1 if failed else 0


def _can_run(entry: Entry, journal: Journal, checked: dict[str, str]) -> bool:
    """Tell whether a benchmark can be run; say and keep why where it cannot."""
    reason = missing(entry, checked)
    if reason:
        say(f"{entry.name} is left out: {reason}")
        journal.keep(entry, "left out", 0.0, reason)
    return not reason


def missing(entry: Entry, checked: dict[str, str]) -> str:
    """Return why a benchmark cannot be run; nothing where it can.

    ``checked`` keeps what was found out about each data set.
    """
    for name in entry.data:
        if name not in checked:
            checked[name] = _fault(name)
        if checked[name]:
            return checked[name]
    return _missing_gpu() if entry.gpu else ""


def _missing_gpu() -> str:
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    return "" if torch.cuda.is_available() else "PyTorch finds no CUDA device here"


def _fault(name: str) -> str:
    """Return why a data set cannot be loaded; nothing where it can."""
    try:
        load_dataset(name, folder=data_folder())
    except (FileNotFoundError, ImportError, ValueError) as error:
        return str(error)
    return ""


def _run_group(
    entries: Sequence[Entry], journal: Journal, at_once: int, threads: int, again: bool
) -> int:
    """Run some at a time; return how many failed. None outlives this function."""
    waiting, running, failed = list(entries), list[Running](), 0
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                entry = waiting.pop(0)
                _prepare(entry, journal, again)
                running.append(Running(entry, journal, threads))
                say(f"{entry.name} …  (log: {os.path.relpath(running[-1].log)})")
            time.sleep(POLL_SECONDS)
            for one in [r for r in running if r.process.poll() is not None]:
                running.remove(one)
                failed += _conclude(one, journal, left=len(waiting) + len(running))
    finally:
        for one in running:
            journal.keep(one.entry, "unfinished", one.seconds)
        _stop(running)
    return failed


def _prepare(entry: Entry, journal: Journal, again: bool) -> None:
    """Put earlier results aside, unless they are to go on from: some benchmarks continue a file."""
    target, goes_on = journal.target(entry), journal.continues(entry) and not again
    if target.is_file() and not goes_on:
        os.replace(target, target.with_name(target.name + ".old"))
    journal.keep(entry, "unfinished", journal.seconds(entry) if goes_on else 0.0)


def _stop(running: Sequence[Running]) -> None:
    """Let benchmarks write what they have, then end them; a second Ctrl-C ends them at once."""
    try:
        _await(running, HEAD_START)
        for one in running:
            one.process.send_signal(signal.SIGINT)
        _await(running, PATIENCE)
    except KeyboardInterrupt:
        pass
    for one in running:
        one.process.kill()
        one.process.wait()


def _await(running: Sequence[Running], seconds: float) -> None:
    end = time.perf_counter() + seconds
    for one in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(max(0.0, end - time.perf_counter()))


def _conclude(one: Running, journal: Journal, left: int) -> int:
    if not one.failure:
        journal.keep(one.entry, "complete", one.seconds)
        say(f"{one.entry.name}: {one.seconds:.0f} s, {left} to go")
        return 0
    journal.keep(one.entry, "failed", one.seconds, one.failure)
    say(f"{one.entry.name}: FAILED, {one.failure}, after {one.seconds:.0f} s\n{one.tail()}")
    return 1
