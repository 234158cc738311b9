"""Fits to rows that stay on the disk: peak memory, and a reading beside plain reading of the files.

Rows are made block by block: normal features in single precision, labels drawn from a logistic
model whose coefficients are known. Each fit is a process of its own. Plain reading takes the same
files in the same blocks and does nothing with them. *Warm* is a fit whose files the system has in
memory already, as it may where there is room; *cold* one that drops them before every reading, as
if the data were larger than any memory. A disk of a virtual machine may have a memory of its own,
which is not dropped.

    python -m benchmarks.peers.out_of_core
"""

import argparse
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import measure, print_table, say, verdict, write_json
from benchmarks.timing import resident_bytes
from grayzone import (
    ImportVectorMachine,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
)
from grayzone.solvers.truncated.readings import Reading
from grayzone.sources import open_npy

ROWS, QUICK_ROWS, FEATURES = 20_000_000, 1_000_000, 54
MADE_AT_A_TIME = 100_000  # rows, each lot with a seed of its own
SPARE = 1.1  # of the files' size, that the disk must have
MOST_MEMORY = 1.5e9  # bytes; the target
PLAIN_ROUNDS = 3
HESSIAN = Reading.__name__.lower()  # what gives a Newton step, as `_name` calls it

Record = dict[str, Any]
MODELS: dict[str, Callable[[], Any]] = {
    "linear": lambda: TruncatedLogisticRegression(zone=None),
    "truncated": lambda: TruncatedLogisticRegression(zone=(0.3, 0.7)),
}
# on a tenth of the rows, where asked for: they read them many times
OTHERS: dict[str, Callable[[], Any]] = {
    "tight bounds, 3": lambda: TightBoundLogisticRegression(n_bounds=3),
    "import vectors, 10": lambda: ImportVectorMachine(
        max_import_points=10, n_candidates=200, random_state=0
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.out_of_core", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--rows", type=int, help=f"default: {ROWS:,}")
    add("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows")
    add("--others", action="store_true", help="tight bounds and import vectors, a tenth of rows")
    add("--folder", type=Path, help="where the files go (default: a temporary folder)")
    add("--keep", action="store_true", help="leave the files there")
    add("--threads", type=int, default=os.cpu_count(), help="threads (default: all processors)")
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    n_rows = options.rows or (QUICK_ROWS if options.quick else ROWS)
    with data_files(n_rows, options.folder, options.keep) as folder:
        found = run(folder, n_rows, options.others, options.threads)
    print_records(found)
    write_json("out_of_core", found, options.output)
    return 0


def run(folder: Path, n_rows: int, others: bool, threads: int) -> Record:
    """Read the files plainly, then fit to them."""
    plain = {n: read_plainly(folder, n) for n in ([n_rows, n_rows // 10] if others else [n_rows])}
    fits = [
        fit_elsewhere(folder, name, n_rows, cold, threads)
        for name in MODELS
        for cold in (False, True)
    ]
    if others:
        fits += [fit_elsewhere(folder, name, n_rows // 10, False, threads) for name in OTHERS]
    return {
        "rows": n_rows,
        "threads": threads,
        "bytes": sum(path.stat().st_size for path in files(folder)),
        "plain": plain,
        "fits": fits,
    }


# ------------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------------


@contextmanager
def data_files(n_rows: int, folder: Path | None, keep: bool) -> Iterator[Path]:
    """Make the files, and delete them afterwards unless they are to be kept."""
    own = folder is None
    folder = Path(tempfile.mkdtemp(prefix="out_of_core-")) if folder is None else folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        make(folder, n_rows)
        yield folder
    finally:
        if keep:
            say(f"kept: {', '.join(map(str, files(folder)))}")
        else:
            for path in files(folder):
                path.unlink(missing_ok=True)
        if own and not keep:
            folder.rmdir()


def files(folder: Path) -> tuple[Path, Path]:
    """Name the files of rows and labels."""
    return folder / "X.npy", folder / "y.npy"


def make(folder: Path, n_rows: int) -> None:
    """Write rows and labels, a lot at a time; the same ones each time."""
    needed, free = n_rows * (4 * FEATURES + 1), shutil.disk_usage(folder).free
    if SPARE * needed > free:
        raise SystemExit(f"{folder} has {free / 1e9:.1f} GB free; needed: {needed / 1e9:.1f} GB.")
    start = time.perf_counter()
    coef = true_coef()
    with open(files(folder)[0], "wb") as X_file, open(files(folder)[1], "wb") as y_file:
        for file, dtype, shape in (
            (X_file, "<f4", (n_rows, FEATURES)),
            (y_file, "|i1", (n_rows,)),
        ):
            header = {"descr": dtype, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
        for lot, first in enumerate(range(0, n_rows, MADE_AT_A_TIME)):
            rng = np.random.default_rng([lot, 2])
            shape = min(MADE_AT_A_TIME, n_rows - first), FEATURES
            X = rng.standard_normal(shape, dtype=np.float32)
            odds = np.exp(X @ coef[:-1] + coef[-1])
            X.tofile(X_file)
            (rng.random(shape[0]) < odds / (1.0 + odds)).astype(np.int8).tofile(y_file)
        for file in (X_file, y_file):  # what is not on the disk cannot be dropped from memory
            file.flush()
            os.fsync(file.fileno())
    say(f"{n_rows:,} x {FEATURES} rows, {needed / 1e9:.2f} GB: {time.perf_counter() - start:.0f} s")


def true_coef() -> np.ndarray:
    """Coefficients of the model that labels are drawn from, the intercept last."""
    return np.append(np.linspace(-0.5, 0.5, FEATURES), 0.3)


def drop(folder: Path) -> None:
    """Ask the system to forget what it has of the files in memory."""
    for path in files(folder):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def source_of(folder: Path, n_rows: int) -> Any:
    """Open the first rows."""
    return open_npy(*(np.load(path, mmap_mode="r")[:n_rows] for path in files(folder)))


def read_plainly(folder: Path, n_rows: int) -> dict[str, float]:
    """Read the first rows in blocks; seconds cold, and warm, the best of several each."""
    block_rows = source_of(folder, n_rows).block_rows
    parts = zip(files(folder), (4 * FEATURES, 1), strict=True)
    opened = [
        (path.open("rb", buffering=0), memoryview(bytearray(width * block_rows)), width * n_rows)
        for path, width in parts
    ]
    seconds: dict[str, list[float]] = {"cold": [], "warm": []}
    for _ in range(PLAIN_ROUNDS):
        drop(folder)
        for state in seconds:
            start = time.perf_counter()
            for file, buffer, left in opened:
                file.seek(0)
                while left > 0:
                    left -= file.readinto(buffer[: min(left, len(buffer))])
            seconds[state].append(time.perf_counter() - start)
    for file, _, _ in opened:
        file.close()
    return {state: min(times) for state, times in seconds.items()}


# ------------------------------------------------------------------------------------------
# Fits
# ------------------------------------------------------------------------------------------


def fit_elsewhere(folder: Path, name: str, n_rows: int, cold: bool, threads: int) -> Record:
    """Fit in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        record = pool.submit(_fit_here, folder, name, n_rows, cold, threads).result()
    say(
        f"{name}, {'cold' if cold else 'warm'}: {record['seconds']:.1f} s, "
        f"{len(record['readings'])} readings, peak {record['peak_bytes'] / 1e6:.0f} MB"
    )
    return record


def _fit_here(folder: Path, name: str, n_rows: int, cold: bool, threads: int) -> Record:
    source, before = source_of(folder, n_rows), resident_bytes("VmRSS")
    readings: list[Record] = []
    reduce = source.reduce

    def timed(task: Any) -> Any:
        if cold:
            drop(folder)
        start, used = time.perf_counter(), time.process_time()
        sums = reduce(task)
        readings.append(
            {
                "name": _name(task),
                "seconds": time.perf_counter() - start,
                "cpu_seconds": time.process_time() - used,
            }
        )
        return sums

    source.reduce = timed
    model, start = (MODELS | OTHERS)[name](), time.perf_counter()
    with threadpool_limits(limits=threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of import vectors, that there could be more
        model.fit(source)
    return {
        "name": name,
        "rows": n_rows,
        "cold": cold,
        "seconds": time.perf_counter() - start,
        "readings": readings,
        "before_bytes": before,
        "peak_bytes": resident_bytes("VmHWM"),
        "gap": getattr(model, "dual_gap_", None),
        **_distances(model),
    }


def _name(task: Any) -> str:
    """Name what a reading is for."""
    while hasattr(task, "task"):
        task = task.task
    return getattr(task, "__name__", type(task).__name__).strip("_").lower()


def _distances(model: Any) -> dict[str, float | None]:
    """Distances from the coefficients that made the labels: of all, and of the slopes' directions.

    A truncated loss asks for no certainty beyond its zone: its slopes are shorter. For normal
    features they point where the true ones do.
    """
    if not hasattr(model, "coef_"):
        return {"distance": None, "direction": None}
    truth = true_coef()
    slopes, intercept = model.coef_[-1], model.intercept_[-1]
    apart = np.linalg.norm(np.append(slopes, intercept) - truth) / np.linalg.norm(truth)
    unit = slopes / np.linalg.norm(slopes)
    turned = np.linalg.norm(unit - truth[:-1] / np.linalg.norm(truth[:-1]))
    return {"distance": float(apart), "direction": float(turned)}


# ------------------------------------------------------------------------------------------
# Tables
# ------------------------------------------------------------------------------------------


def print_records(found: Record) -> None:
    """Print fits, readings and verdicts."""
    fits = found["fits"]
    print_table(
        f"{found['rows']:,} x {FEATURES} rows, {found['bytes'] / 1e9:.2f} GB on the disk, "
        f"{found['threads']} threads",
        (
            "",
            "rows",
            "files",
            "s",
            "readings",
            "peak MB",
            "before",
            "gap",
            "from truth",
            "direction",
        ),
        [
            [
                fit["name"],
                f"{fit['rows']:,}",
                _state(fit),
                f"{fit['seconds']:.1f}",
                str(len(fit["readings"])),
                f"{fit['peak_bytes'] / 1e6:.0f}",
                f"{fit['before_bytes'] / 1e6:.0f}",
                fit["gap"],
                fit["distance"],
                fit["direction"],
            ]
            for fit in fits
        ],
    )
    print_table(
        "Seconds a reading; plain reading does nothing with the rows",
        ("", "files", "reading", "times", "s each", "CPU s", "plain s", "ratio"),
        [row for fit in fits for row in _reading_rows(fit, found["plain"][fit["rows"]])],
    )
    peak = max(fit["peak_bytes"] for fit in fits)
    measure("peak MB", peak / 1e6, better="lower", slack=0.1 * peak / 1e6)
    verdict(
        f"{found['rows']:,} rows of {found['bytes'] / 1e9:.1f} GB in at most "
        f"{MOST_MEMORY / 1e9:.1f} GB of memory",
        "met" if peak <= MOST_MEMORY else "missed",
        f"peak {peak / 1e6:.0f} MB, of which {max(f['before_bytes'] for f in fits) / 1e6:.0f} are "
        f"the libraries; a Newton step's reading takes {_ratios(found)} times plain reading",
    )


def _state(fit: Record) -> str:
    return "cold" if fit["cold"] else "warm"


def _reading_rows(fit: Record, plain: dict[str, float]) -> Iterator[list[Any]]:
    base = plain[_state(fit)]
    for name in dict.fromkeys(reading["name"] for reading in fit["readings"]):
        same = [reading for reading in fit["readings"] if reading["name"] == name]
        seconds = float(np.mean([reading["seconds"] for reading in same]))
        used = float(np.mean([reading["cpu_seconds"] for reading in same]))
        ratio = f"{seconds / base:.1f}"
        yield [fit["name"], _state(fit), name, str(len(same)), seconds, used, base, ratio]


def _ratios(found: Record) -> str:
    """Tell how long the readings of Newton steps take, the files cold and warm."""
    told = []
    for state in ("cold", "warm"):
        ratios = [
            reading["seconds"] / found["plain"][fit["rows"]][state]
            for fit in found["fits"]
            for reading in fit["readings"]
            if _state(fit) == state and reading["name"] == HESSIAN and fit["name"] in MODELS
        ]
        told.append(f"{min(ratios):.1f} to {max(ratios):.1f} ({state})")
        measure(f"reading / plain, {state}", float(np.median(ratios)), better="lower", slack=1.0)
    return " and ".join(told)


if __name__ == "__main__":
    raise SystemExit(main())
