"""Fits on a local cluster: one process beside two, what travels, and the same coefficients.

Covertype, class 2 against the rest, ten times over, in single precision, in a file that the
workers read and keep in their memory before anything is timed. Workers are processes of one thread
each. Both clusters are there all the time; their fits take turns, and the best of several counts.

    python -m benchmarks.peers.dask_cluster
"""

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import covtype_binary
from benchmarks.report import measure, print_table, say, verdict, write_json
from grayzone import TruncatedLogisticRegression
from grayzone.solvers.truncated.streamed import MOST_HELD

TILES, CHUNKS = 10, 40
ROUNDS, QUICK_ROUNDS, QUICK_ROWS = 5, 1, 100_000
ZONES: dict[str, Any] = {"full likelihood": None, "zone .3–.7": (0.3, 0.7)}
# relative gaps that are asked for where coefficients are compared, near the least that can be had:
# distances go with the square root
TIGHT = {"full likelihood": 1e-22, "zone .3–.7": 1e-17}
FASTER, EQUAL = 1.5, 1e-8  # targets
MOST_BYTES = 1.1 * 8 * MOST_HELD  # of a reading: rows that a fit may hold, and what belongs to them

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.dask_cluster", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows {TILES} times, one round")
    add("--threads", type=int, default=os.cpu_count(), help="of this process, not of the workers")
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    X, y = covtype_binary(QUICK_ROWS if options.quick else None)
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    with (
        tempfile.TemporaryDirectory(prefix="dask_cluster-") as folder,
        threadpool_limits(limits=options.threads),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of gaps that are out of reach
        found = run(X.astype(np.float32), y.astype(np.int8), Path(folder), rounds)
    print_records(found)
    write_json("dask_cluster", {"threads": options.threads, **found}, options.output)
    return 0


def run(X: np.ndarray, y: np.ndarray, folder: Path, rounds: int) -> Record:
    """Fit on both clusters, and in this process."""
    few, many = len(X), TILES * len(X)
    np.save(folder / "X.npy", np.tile(X, (TILES, 1)))
    np.save(folder / "y.npy", np.tile(y, TILES))
    with started(1, folder) as one, started(2, folder) as two:
        clusters = {1: one, 2: two}
        data = {k: cluster.kept(many) for k, cluster in clusters.items()}
        for k, cluster in clusters.items():
            cluster.fit(*data[k], None)  # workers import what they need
        times = {name: race(clusters, data, zone, rounds, name) for name, zone in ZONES.items()}
        traffic = {
            name: {few: two.traffic(*two.kept(few), zone), many: two.traffic(*data[2], zone)}
            for name, zone in ZONES.items()
        }
        coef = {name: two.fit(*data[2], zone, TIGHT[name]) for name, zone in ZONES.items()}
    here = np.load(folder / "X.npy"), np.load(folder / "y.npy")
    for name, zone in ZONES.items():
        times[name]["numpy_seconds"] = fit(*here, zone)["seconds"]
        coef[name] = compared(coef[name], fit(*here, zone, TIGHT[name]))
        say(f"{name}: relative difference to NumPy {coef[name]['difference']:.1e}")
    return {
        "rows": many,
        "features": X.shape[1],
        "chunks": CHUNKS,
        "times": times,
        "traffic": traffic,
        "coefficients": coef,
    }


def fit(X: Any, y: Any, zone: Any, tol: float = 1e-6) -> Record:
    """Fit once."""
    start = time.perf_counter()
    clf = TruncatedLogisticRegression(zone=zone, tol=tol).fit(X, y)
    return {
        "seconds": time.perf_counter() - start,
        "gap": clf.dual_gap_,
        "n_iter": clf.n_iter_,
        "coef": np.append(clf.coef_, clf.intercept_),
    }


def compared(found: Record, exact: Record) -> Record:
    """Compare coefficients."""
    apart = np.linalg.norm(found["coef"] - exact["coef"]) / np.linalg.norm(exact["coef"])
    return {"difference": float(apart), "gap": found["gap"], "numpy_gap": exact["gap"]}


# ------------------------------------------------------------------------------------------
# Clusters
# ------------------------------------------------------------------------------------------


class Moved(NamedTuple):
    """Bytes of one reading: the task, the sums that came back, and those between workers."""

    name: str
    out: int
    back: int
    between: int


class Cluster:
    """Worker processes, their client, and the file that has the rows."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client, self.folder = client, folder

    def kept(self, n_rows: int) -> tuple[Any, Any]:
        """Let the workers read the first rows, and keep them."""
        import dask
        import dask.array as da
        from distributed import wait

        edges = [n_rows * k // CHUNKS for k in range(CHUNKS + 1)]
        arrays = []
        for name in ("X", "y"):
            like = np.load(self.folder / f"{name}.npy", mmap_mode="r")
            parts = [
                da.from_delayed(
                    dask.delayed(read)(self.folder / f"{name}.npy", a, b),
                    (b - a, *like.shape[1:]),
                    dtype=like.dtype,
                )
                for a, b in pairwise(edges)
            ]
            arrays.append(da.concatenate(parts))
        with self.client.as_current():
            X, y = dask.persist(*arrays)
            wait([X, y])
        return X, y

    def fit(self, X: Any, y: Any, zone: Any, tol: float = 1e-6) -> Record:
        """Fit on the workers, and tell how long sums took."""
        from grayzone.sources import DaskSource

        with self.client.as_current():
            source, spent = DaskSource(X, y), 0.0
            reduce = source.reduce

            def timed(task: Any) -> Any:
                nonlocal spent
                start = time.perf_counter()
                sums = reduce(task)
                spent += time.perf_counter() - start
                return sums

            source.reduce = timed  # type: ignore[method-assign]
            found = fit(source, None, zone, tol)
        return found | {"sums_seconds": spent, "readings": len(source.traffic)}

    def traffic(self, X: Any, y: Any, zone: Any) -> list[Moved]:
        """Fit once more, and count the bytes of each reading."""
        from grayzone.sources import DaskSource

        with self.client.as_current():
            source, between = DaskSource(X, y), list[int]()
            reduce = source.reduce

            def counted(task: Any) -> Any:
                self.client.run(received)
                sums = reduce(task)
                between.append(sum(self.client.run(received).values()))
                return sums

            source.reduce = counted  # type: ignore[method-assign]
            fit(source, None, zone)
        return [Moved(*known, more) for known, more in zip(source.traffic, between, strict=True)]


@contextmanager
def started(workers: int, folder: Path) -> Iterator[Cluster]:
    """Start worker processes of one thread each."""
    import dask
    from distributed import Client, LocalCluster

    alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with (
        dask.config.set({"distributed.nanny.pre-spawn-environ": alone}),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield Cluster(client, folder)


def read(path: Path, first: int, stop: int) -> np.ndarray:
    """Read rows, on a worker."""
    return np.array(np.load(path, mmap_mode="r")[first:stop])


def received(dask_worker: Any) -> int:
    """Count the bytes that a worker got from others since this was asked last."""
    log = dask_worker.transfer_incoming_log
    total = sum(transfer["total"] for transfer in log)
    log.clear()
    return total


def race(
    clusters: dict[int, Cluster],
    data: dict[int, tuple[Any, Any]],
    zone: Any,
    rounds: int,
    name: str,
) -> Record:
    """Let the clusters take turns; keep the best fit of each."""
    best: dict[int, Record] = {}
    ratios = []
    for turn in range(rounds):
        order = sorted(clusters, reverse=turn % 2 == 1)
        seconds = {}
        for k in order:
            found = clusters[k].fit(*data[k], zone)
            del found["coef"]
            seconds[k] = found["seconds"]
            if k not in best or found["seconds"] < best[k]["seconds"]:
                best[k] = found
        ratios.append(seconds[1] / seconds[2])
        say(f"{name}: one process {seconds[1]:.2f} s, two {seconds[2]:.2f} s")
    return {"one": best[1], "two": best[2], "ratios": ratios}


# ------------------------------------------------------------------------------------------
# Tables
# ------------------------------------------------------------------------------------------


def print_records(found: Record) -> None:
    """Print times, bytes and verdicts."""
    print_table(
        f"{found['rows']:,} x {found['features']} rows in {found['chunks']} chunks; seconds, best "
        "of all rounds, and of these in sums on the workers",
        ("", "one process", "sums", "two", "sums", "ratio", "of sums", "readings", "NumPy"),
        [
            [
                name,
                *(f"{t[k][what]:.2f}" for k in ("one", "two") for what in _SECONDS),
                *(f"{t['one'][what] / t['two'][what]:.2f}" for what in _SECONDS),
                str(t["two"]["readings"]),
                f"{t['numpy_seconds']:.2f}",
            ]
            for name, t in found["times"].items()
        ],
    )
    few, many = found["rows"] // TILES, found["rows"]
    print_table(
        f"kB moved in each reading, {few:,} and {many:,} rows",
        ("", "reading", *(f"{what}, {n:,}" for what in _BYTES for n in (few, many))),
        [row for name, by_rows in found["traffic"].items() for row in _traffic_rows(name, by_rows)],
    )
    _judge_times(found["times"])
    _judge_bytes(found["traffic"], few, many)
    _judge_coefficients(found["coefficients"])


_SECONDS = ("seconds", "sums_seconds")
_BYTES = ("task", "sums back", "between workers")


def _traffic_rows(name: str, by_rows: dict[int, list[Moved]]) -> Iterator[list[str]]:
    for kind in dict.fromkeys(moved.name for moves in by_rows.values() for moved in moves):
        cells = []
        for part in ("out", "back", "between"):
            for moves in by_rows.values():
                sizes = [getattr(moved, part) for moved in moves if moved.name == kind]
                cells.append(f"{np.mean(sizes) / 1e3:.1f}" if sizes else "–")
        yield [name, kind, *cells]


def _judge_times(times: dict[str, Record]) -> None:
    ratios = {name: t["one"]["seconds"] / t["two"]["seconds"] for name, t in times.items()}
    for name, ratio in ratios.items():
        measure(f"one process / two, {name}", ratio, better="higher", slack=0.15 * ratio)
    verdict(
        f"Two processes at least {FASTER} times as fast as one",
        "met" if min(ratios.values()) >= FASTER else "missed",
        "; ".join(
            f"{name} {ratio:.2f} (rounds {min(times[name]['ratios']):.2f} to "
            f"{max(times[name]['ratios']):.2f})"
            for name, ratio in ratios.items()
        ),
    )


def _judge_bytes(traffic: dict[str, dict[int, list[Moved]]], few: int, many: int) -> None:
    told, most = [], 0
    for name, by_rows in traffic.items():
        for n in (few, many):
            largest = max(by_rows[n], key=lambda moved: moved.out + moved.back)
            size = largest.out + largest.back
            most = max(most, size)
            told.append(f"{name}, {n:,} rows: {size / 1e6:.1f} MB ({largest.name})")
    verdict(
        f"No reading moves more than {MOST_BYTES / 1e6:.0f} MB, whatever the number of rows",
        "met" if most <= MOST_BYTES else "missed",
        "the largest: " + "; ".join(told),
    )


def _judge_coefficients(coef: dict[str, Record]) -> None:
    worst = max(record["difference"] for record in coef.values())
    verdict(
        f"Coefficients as those of NumPy, to {EQUAL:.0e}",
        "met" if worst <= EQUAL else "missed",
        "; ".join(
            f"{name} {record['difference']:.1e} (gaps {record['gap']:.0e} and "
            f"{record['numpy_gap']:.0e})"
            for name, record in coef.items()
        ),
    )


if __name__ == "__main__":
    raise SystemExit(main())
