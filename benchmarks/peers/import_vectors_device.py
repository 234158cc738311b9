"""A search for the penalty of import vectors on a GPU: covertype, a path of ten penalties.

Class 2 against the rest, standardised; 50,000 rows are for the test, the others for the search,
which holds a fifth of them out (or takes `--cv` folds) and scores every step of its path by their
log-loss. One JSON object a line, as soon as it is known: seconds of the fit (transfer apart, device
synchronised), log-loss and accuracy on the test rows, the penalty that was chosen, points, the
certified gap, and the highest memory of the device. What fails is a line with its error, and the
rest goes on. Needs NumPy, SciPy, scikit-learn, numba, and PyTorch or CuPy.

    python -m benchmarks.peers.import_vectors_device --data FOLDER_OF_COVTYPE_NPZ
    python -m benchmarks.peers.import_vectors_device --data FOLDER --quick --library numpy torch-cpu
"""

import argparse
import json
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before SciPy is imported

import numpy as np
from sklearn import config_context

from grayzone import ImportVectorMachineCV
from grayzone.numerics.checks import as_numpy

TEST_ROWS, QUICK_ROWS, QUICK_TEST = 50_000, 4_000, 2_000
POINTS, QUICK_POINTS = (100, 300), (10,)
CS, CANDIDATES, GAMMA = np.logspace(-1.0, 4.0, 10), 1_000, 0.1
LIBRARIES = ("torch", "cupy", "torch-cpu", "numpy")

Record = dict[str, Any]


class Place(NamedTuple):
    """Where arrays are put, and how its clock and its memory are read."""

    put: Callable[[Any], Any]
    synchronise: Callable[[], None]
    forget: Callable[[], None]
    gigabytes: Callable[[], float | None]
    name: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run all measurements, and print and write a line for each.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.import_vectors_device",
        description=__doc__.split("\n")[0],
    )
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder with covtype.npz")
    add("--library", nargs="+", choices=LIBRARIES, default=LIBRARIES[:2])
    add("--points", type=int, nargs="+", help="most import points (default: 100 300)")
    add("--candidates", type=int, default=CANDIDATES, help="rows drawn for each choice")
    add("--cv", type=int, help="folds (default: one split)")
    add("--rows", type=int, help="training rows (default: all but the test's)")
    add("--single", action="store_true", help="rows in single precision")
    add("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows, {QUICK_POINTS[0]} points")
    add("--output", type=Path, help="file that the lines are added to")
    options = parser.parse_args(argv)
    try:
        data = split_covtype(options)
    except Exception:
        told({"part": "data", "error": traceback.format_exc()}, options.output)
        return 1
    failed = 0
    for record in measurements(data, options):
        told(record, options.output)
        failed += "error" in record
    return int(failed > 0)


def told(record: Record, path: Path | None) -> None:
    """Print a record, and add it to a file."""
    line = json.dumps(record)
    print(line, flush=True)
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def split_covtype(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Read covertype, and return rows and labels for training and for the test."""
    with np.load(options.data / "covtype.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    X = next(a for a in arrays.values() if a.ndim == 2).astype(np.float64)
    labels = next(a for a in arrays.values() if a.ndim == 1 and a.shape[0] == X.shape[0])
    X -= X.mean(axis=0)
    X /= np.maximum(X.std(axis=0), 1e-300)
    y = (labels == 2).astype(np.int64)
    order = np.random.default_rng(0).permutation(len(y))
    n_test = QUICK_TEST if options.quick else TEST_ROWS
    test, train = order[:n_test], order[n_test:]
    n_rows = options.rows or (QUICK_ROWS if options.quick else len(train))
    train = train[:n_rows]
    X = X.astype(np.float32) if options.single else X
    return {"X": X[train], "y": y[train], "X_test": X[test], "y_test": y[test]}


def measurements(data: dict[str, np.ndarray], options: argparse.Namespace) -> Iterator[Record]:
    """Measure each library with each number of points; errors are records, too."""
    sizes = options.points or (QUICK_POINTS if options.quick else POINTS)
    for library in options.library:
        known = {"library": library, "rows": len(data["y"]), "features": data["X"].shape[1]}
        try:
            place = place_of(library)
            known["device"] = place.name
            began = time.perf_counter()
            with config_context(array_api_dispatch=library != "numpy"):
                there = {name: place.put(values) for name, values in data.items()}
                place.synchronise()
                known["transfer_seconds"] = time.perf_counter() - began
                few = {name: values[:2000] for name, values in there.items()}
                searched(few, 5, options)  # libraries are loaded, and kernels compiled
        except Exception:
            yield known | {"error": traceback.format_exc()}
            continue
        for n_points in sizes:
            record = known | {"points": n_points, "Cs": len(CS), "cv": options.cv}
            try:
                yield record | measured(there, data, n_points, place, options)
            except Exception:
                yield record | {"error": traceback.format_exc()}
        del there, few


def searched(
    there: dict[str, Any], n_points: int, options: argparse.Namespace
) -> ImportVectorMachineCV:
    """Search for C, to a given number of points."""
    return ImportVectorMachineCV(
        Cs=CS,
        cv=options.cv,
        scoring="neg_log_loss",
        gamma=GAMMA,
        max_import_points=n_points,
        n_candidates=options.candidates,
        random_state=0,
    ).fit(there["X"], there["y"])


def measured(
    there: dict[str, Any],
    data: dict[str, np.ndarray],
    n_points: int,
    place: Place,
    options: argparse.Namespace,
) -> Record:
    """Time one search, and look at what it found."""
    with config_context(array_api_dispatch=place.name != "numpy"):
        place.forget()
        place.synchronise()
        began = time.perf_counter()
        search = searched(there, n_points, options)
        place.synchronise()
        seconds, gigabytes = time.perf_counter() - began, place.gigabytes()
        log_proba = as_numpy(search.predict_log_proba(there["X_test"])).astype(np.float64)
        decided = as_numpy(search.predict(there["X_test"]))
    y = data["y_test"]
    return {
        "seconds": seconds,
        "log_loss": -float(np.mean(log_proba[np.arange(y.size), y])),
        "accuracy": float(np.mean(decided == y)),
        "C": search.C_,
        "n_import_points": int(search.import_points_.shape[0]),
        "n_steps": len(search.path_["C"]),
        "gap": float(search.dual_gap_),
        "gigabytes": gigabytes,
        "scores": as_numpy(search.scores_).mean(axis=1).tolist(),
    }


# ------------------------------------------------------------------------------------------
# Libraries
# ------------------------------------------------------------------------------------------


def place_of(library: str) -> Place:
    """Return where a library's arrays are."""
    return {"torch": on_cuda, "cupy": on_cupy, "torch-cpu": on_cpu, "numpy": in_memory}[library]()


def on_cuda() -> Place:
    """Return the CUDA device of PyTorch."""
    import torch

    device = torch.device("cuda")

    def forget() -> None:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()

    return Place(
        lambda values: torch.asarray(values, device=device),
        torch.cuda.synchronize,
        forget,
        lambda: torch.cuda.max_memory_allocated() / 1e9,
        torch.cuda.get_device_name(device),
    )


def on_cupy() -> Place:
    """Return the CUDA device of CuPy, whose pool keeps what it once had."""
    import cupy

    pool = cupy.get_default_memory_pool()
    return Place(
        cupy.asarray,
        cupy.cuda.Device().synchronize,
        pool.free_all_blocks,
        lambda: pool.total_bytes() / 1e9,
        cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
    )


def on_cpu() -> Place:
    """Return PyTorch's processor: to try the script without a device."""
    import torch

    return Place(torch.asarray, _nothing, _nothing, lambda: None, "cpu")


def in_memory() -> Place:
    """Return NumPy's memory."""
    return Place(np.asarray, _nothing, _nothing, lambda: None, "numpy")


def _nothing() -> None:
    return None


if __name__ == "__main__":
    raise SystemExit(main())
