"""Workers that are killed while a fit runs on them: the same result, to the last bit, every time.

A cluster of processes on this machine, data made by Dask. The model is a linear fit, a kernel on
centres that are drawn from the rows, or a search for the penalty of import vectors, in two folds
and one path of penalties each. In each round a worker, chosen at random, gets SIGKILL at a random
moment of the fit. Rounds whose fit ended before that moment do not count and are repeated.

    python -m benchmarks.peers.worker_kills
    python -m benchmarks.peers.worker_kills --model centres
    python -m benchmarks.peers.worker_kills --model search
"""

import argparse
import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import print_table, say, verdict, write_json
from grayzone import ImportVectorMachineCV, TruncatedLogisticRegression

FEATURES, CHUNKS = 20, 16
# Rows, and those of a quick run: a search reads them many times.
ROWS = {"linear": (400_000, 250_000), "centres": (100_000, 20_000), "search": (40_000, 10_000)}
ROUNDS, QUICK_ROUNDS = {"linear": 20, "centres": 10, "search": 10}, 3
MODELS = {
    "linear": lambda: TruncatedLogisticRegression(tol=1e-9),
    "centres": lambda: TruncatedLogisticRegression(
        kernel="rbf", gamma=0.05, centres=200, random_state=0, tol=1e-9
    ),
    "search": lambda: ImportVectorMachineCV(
        Cs=[0.1, 10.0],
        cv=2,
        scoring="neg_log_loss",
        max_import_points=3,
        n_candidates=100,
        random_state=0,
    ),
}
# What is compared.
RESULTS = {
    "linear": ("coef_", "intercept_"),
    "centres": ("centre_indices_", "centres_", "dual_coef_", "intercept_"),
    "search": ("scores_", "import_points_", "import_vectors_", "dual_coef_", "intercept_"),
}
# Seconds after a kill at which a fit counts as hung: so many, or so many times those of an
# undisturbed one, for workers that start again on a busy machine are slow.
LONGEST, TIMES_LONGER = 120.0, 10.0

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.worker_kills", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--quick", action="store_true", help=f"fewer rows, {QUICK_ROUNDS} rounds")
    add("--model", choices=list(MODELS), default="linear", help="what is fitted (default: linear)")
    add("--rounds", type=int, help="kills")
    add("--workers", type=int, default=2, help="processes (default: 2)")
    add("--threads", type=int, default=os.cpu_count(), help="of this process, not of the workers")
    add("--seed", type=int, default=0, help="of the moments and the workers (default: 0)")
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    model = options.model
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS[model])
    with threadpool_limits(limits=options.threads):
        n_rows = ROWS[model][int(options.quick)]
        found = run(model, n_rows, rounds, options.workers, options.seed)
    print_records(found, rounds)
    name = "worker_kills" if model == "linear" else f"worker_kills_{model}"
    write_json(name, found, options.output)
    return 0


def run(model: str, n_rows: int, rounds: int, workers: int, seed: int) -> Record:
    """Fit undisturbed, then with a kill in each round."""
    import dask
    from distributed import Client, LocalCluster

    with (
        # by default a local cluster looks 15 s after a loss whether the worker is back, and gives
        # it up for good if it is not: also where a later kill is why
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as cluster,
        Client(cluster) as client,
    ):
        X, y = made(n_rows)
        fit(model, X, y)  # workers import what they need
        # in a thread, as those to come: systems of this process are solved by fewer of them there
        plain: Record = {}
        fitting = threading.Thread(target=lambda: plain.update(fit(model, X, y)))
        fitting.start()
        fitting.join()
        say(f"undisturbed: {plain['seconds']:.2f} s, gap {plain['gap']:.1e}")
        records: list[Record] = []
        random.seed(seed)
        while len(records) < rounds:
            client.wait_for_workers(workers, timeout=60)
            moment = random.uniform(0.0, plain["seconds"])
            patience = max(LONGEST, TIMES_LONGER * plain["seconds"])
            record = disturbed(model, cluster, X, y, moment, patience)
            results = record.pop("results")
            if record["hung"] or record["in_the_fit"]:
                record["equal"] = not record["hung"] and all(
                    np.array_equal(a, b) for a, b in zip(results, plain["results"], strict=True)
                )
                records.append(record)
                say(f"killed after {record['moment']:.2f} s: {outcome(record)}")
            if record["hung"]:
                break
    return {
        "model": model,
        "rows": n_rows,
        "workers": workers,
        "undisturbed_seconds": plain["seconds"],
        "traffic": plain["traffic"],
        "rounds": records,
    }


def made(n_rows: int) -> Any:
    """Make rows and labels on the workers, and keep them there."""
    import dask
    import dask.array as da

    rng = da.random.default_rng(0)
    X = rng.normal(size=(n_rows, FEATURES), chunks=(n_rows // CHUNKS, FEATURES))
    noise = rng.normal(size=n_rows, chunks=n_rows // CHUNKS)
    return dask.persist(X, X @ np.linspace(-1.0, 1.0, FEATURES) + noise > 0)


def fit(model: str, X: Any, y: Any) -> Record:
    """Fit once."""
    from grayzone.sources import DaskSource

    source, start = DaskSource(X, y), time.perf_counter()
    clf = MODELS[model]().fit(source)
    return {
        "seconds": time.perf_counter() - start,
        "results": [getattr(clf, name) for name in RESULTS[model]],
        "gap": clf.dual_gap_,
        "traffic": source.traffic,
    }


def disturbed(model: str, cluster: Any, X: Any, y: Any, moment: float, patience: float) -> Record:
    """Fit while a worker is killed at a moment, in seconds from the beginning."""
    found: Record = {}
    # a thread of its own, which does not keep a process alive whose fit hangs
    fitting = threading.Thread(target=lambda: found.update(fit(model, X, y)), daemon=True)
    fitting.start()
    fitting.join(moment)
    in_the_fit = fitting.is_alive()
    if in_the_fit:
        victims = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
        os.kill(random.choice(victims), signal.SIGKILL)
    fitting.join(patience)
    record = {"moment": moment, "in_the_fit": in_the_fit, "hung": fitting.is_alive()}
    if not (record["hung"] or found):
        raise RuntimeError("A fit failed; see above.")
    return record | {"seconds": found.get("seconds"), "results": found.get("results")}


def outcome(record: Record) -> str:
    """Say how a round ended."""
    if record["hung"]:
        return "hung"
    return f"{'equal' if record['equal'] else 'NOT equal'}, {record['seconds']:.2f} s"


def print_records(found: Record, rounds: int) -> None:
    """Print all rounds, and whether each of them gave the same model."""
    records = found["rounds"]
    print_table(
        f"{found['model']}, {found['rows']:,} x {FEATURES} rows on {found['workers']} workers; "
        f"undisturbed {found['undisturbed_seconds']:.2f} s",
        ("round", "killed after s", "fit took s", "results"),
        [
            [str(k), f"{r['moment']:.2f}", r["seconds"], outcome(r).split(",")[0]]
            for k, r in enumerate(records, 1)
        ],
    )
    equal, hung = sum(r["equal"] for r in records), sum(r["hung"] for r in records)
    verdict(
        "A worker killed in each of several fits changes nothing",
        "met" if equal == rounds else "missed",
        f"{equal} of {rounds} results equal to the last bit, {hung} hung",
    )


if __name__ == "__main__":
    raise SystemExit(main())
