"""Kernels on many centres: covtype by the number of centres, growth in rows, races with rivals.

Every measurement is printed as a line of JSON as soon as it is there; one that fails says why, and
the next is made. Seconds are those of the wall, after the transfer and with the device
synchronised, and beside them those of the processor; peak memory is that of the device or, on the
processor, of the process so far.

    python -m benchmarks.peers.centres --device cuda --data FOLDER
    python -m benchmarks.peers.centres --device cuda --growth
    python -m benchmarks.peers.centres --nystroem --data FOLDER --threads 2
    python -m benchmarks.peers.centres --rivals --device cuda --data FOLDER
    python -m benchmarks.peers.centres --selection --rows 20000 --centres 100 300 --data FOLDER
"""

import argparse
import json
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

# before SciPy is there: without it scikit-learn takes no arrays of other libraries
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
from sklearn import config_context
from threadpoolctl import threadpool_limits

from grayzone import ImportVectorMachine, TruncatedLogisticRegression

TEST_ROWS = 50_000
CENTRES = (1_000, 3_000, 10_000)
GROWTH_ROWS = (100_000, 1_000_000, 10_000_000)
GROWTH_CENTRES = (500, 5_000)
GROWTH_FEATURES = 18
GAMMA, GROWTH_GAMMA = 0.3, 0.03
TOL = 1e-9
ZONES = {"none": None, "half": 0.5, "one": 1.0, "two": 2.0}

Array = Any
Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = _parser().parse_args(argv)
    parts = {
        "growth": growth,
        "nystroem": nystroem,
        "rivals": rivals,
        "selection": selections,
    }
    asked, gamma = [name for name in parts if getattr(options, name)], options.gamma
    with threadpool_limits(limits=options.threads):
        if options.library == "torch" and options.device == "cpu":
            import torch

            torch.set_num_threads(options.threads)
        for run in [parts[name] for name in asked] or [covtype]:
            options.gamma = gamma or (GROWTH_GAMMA if run is growth else GAMMA)
            run(options)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.centres", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    for name, said in (
        ("growth", "generated rows whose probabilities are known, more and more of them"),
        ("nystroem", "beside scikit-learn's Nystroem and LogisticRegression, on the processor"),
        ("rivals", "beside 300 import points, exact kernels and gradient boosting"),
        ("selection", "what each selection of centres buys"),
    ):
        add(f"--{name}", action="store_true", help=said)
    add("--data", type=Path, default=Path("data"), help="folder with covtype.npz")
    add("--device", default="cpu", help="cpu or cuda")
    add("--library", choices=("numpy", "torch", "cupy"), help="by default torch on cuda")
    add("--centres", "-m", type=int, nargs="+", help="numbers of centres")
    add("--rows", type=int, nargs="+", help="training rows; all by default")
    add("--features", type=int, default=GROWTH_FEATURES, help="of generated rows")
    add("--gamma", type=float, help=f"default: {GAMMA}, of generated rows {GROWTH_GAMMA}")
    add("--C", type=float, nargs="+", default=[100.0])
    add("--zones", nargs="+", choices=tuple(ZONES), default=["none", "one"])
    add("--select", choices=("random", "leverage", "import"), default="random")
    add("--cache", type=float, help="megabytes that features may take")
    add("--tol", type=float, default=TOL)
    add("--repeats", type=int, default=1, help="fits of which the fastest counts")
    add("--threads", type=int, default=os.cpu_count(), help="of the processor")
    add("--exact-rows", type=int, default=100_000, help="of the exact kernel among the rivals")
    return parser


# ----------------------------------------------------------------------------------------------
# Rows
# ----------------------------------------------------------------------------------------------


def covtype_rows(folder: Path, n_rows: int | None) -> tuple[Array, Array, Array, Array]:
    """Class 2 against the rest, standardised: training rows with labels, and 50,000 for a test."""
    with np.load(folder / "covtype.npz") as file:
        X, y = file["X"].astype(np.float64), (file["y"] == 2).astype(np.int64)
    order = np.random.default_rng(0).permutation(y.size)
    test, train = order[:TEST_ROWS], order[TEST_ROWS:]
    centre, scale = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - centre) / np.where(scale > 0.0, scale, 1.0)
    train = train[:n_rows]
    return X[train], y[train], X[test], y[test]


def generated(n_rows: int, n_features: int, seed: int) -> tuple[Array, Array, Array]:
    """Rows, labels, and the probabilities from which these were drawn."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    score = 1.5 * np.sin(1.5 * X[:, 0]) * X[:, 1] + X[:, 2] * X[:, 3] - 0.5 * X[:, 4] ** 2
    score += 0.5 * np.abs(X[:, 5] - X[:, 6]) + 0.3 * X[:, 7:].sum(axis=1)
    p = 1.0 / (1.0 + np.exp(-score.astype(np.float64)))
    return X, (rng.random(n_rows) < p).astype(np.int64), p


def placed(options: argparse.Namespace, *arrays: Array) -> list[Array]:
    """Arrays where the fit is to be."""
    library = options.library or ("torch" if options.device == "cuda" else "numpy")
    if library == "torch":
        import torch

        return [torch.asarray(a, device=options.device) for a in arrays]
    if library == "cupy":
        import cupy

        return [cupy.asarray(a) for a in arrays]
    return list(arrays)


def dispatched(X: Array) -> Any:
    """Return the context in which arrays of other libraries stay where they are."""
    return nullcontext() if isinstance(X, np.ndarray) else config_context(array_api_dispatch=True)


# ----------------------------------------------------------------------------------------------
# Measuring
# ----------------------------------------------------------------------------------------------


def say(**record: Any) -> None:
    """Print a measurement."""
    print(json.dumps(record), flush=True)


@contextmanager
def caught(**about: Any) -> Iterator[None]:
    """Let the run go on after a measurement that fails."""
    try:
        yield
    except Exception as error:
        say(**about, error=f"{type(error).__name__}: {error}"[:500])
    finally:
        _released()


def _released() -> None:
    import gc
    import sys

    gc.collect()
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        sys.modules["torch"].cuda.empty_cache()
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


def _synchronised(X: Array) -> None:
    kind = type(X).__module__.split(".")[0]
    if kind == "torch" and X.device.type == "cuda":
        import torch

        torch.cuda.synchronize()
    if kind == "cupy":
        import cupy

        cupy.cuda.Device().synchronize()


def timed(X: Array, work: Callable[[], Any], repeats: int = 1) -> tuple[Any, Record]:
    """Return what work gives, and the least seconds and the peak memory that it took."""
    on_cuda = type(X).__module__.startswith("torch") and X.device.type == "cuda"
    if on_cuda:
        import torch

        torch.cuda.reset_peak_memory_stats()
    found, least, busy = None, np.inf, np.inf
    for _ in range(repeats):
        found = None
        _synchronised(X)
        wall, cpu = time.perf_counter(), time.process_time()
        found = work()
        _synchronised(X)
        least = min(least, time.perf_counter() - wall)
        busy = min(busy, time.process_time() - cpu)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    if on_cuda:
        peak = torch.cuda.max_memory_allocated() / 1024**3
    return found, {"seconds": least, "cpu_seconds": busy, "peak_gib": peak}


def judged(proba: Array, y: Array) -> Record:
    """Log-loss and accuracy of probabilities of two classes."""
    proba = proba.get() if hasattr(proba, "get") else proba
    proba = proba.cpu().numpy() if hasattr(proba, "cpu") else np.asarray(proba)
    own = np.maximum(proba[np.arange(y.size), y], 1e-300)
    return {"log_loss": float(-np.log(own).mean()), "accuracy": float((own > 0.5).mean())}


def predicted(model: Any, X: Array) -> Array:
    """Probabilities of rows."""
    with dispatched(X):
        return model.predict_proba(X)


def on_centres(options: argparse.Namespace, m: int, C: float, zone: str, X: Array, y: Array) -> Any:
    """Return a fit to m centres, and what it took."""
    model = TruncatedLogisticRegression(
        C=C,
        zone=ZONES[zone],
        kernel="rbf",
        gamma=options.gamma,
        centres=m,
        centre_selection=options.select,
        cache_size=options.cache or _room(X),
        tol=options.tol,
        random_state=0,
    )
    with dispatched(X):
        try:
            return timed(X, lambda: model.fit(X, y), options.repeats)
        except Exception as error:
            if "memory" not in str(error).lower():
                raise
            say(part="note", m=m, said=f"{type(error).__name__}: features are no longer kept")
        _released()
        return timed(X, lambda: model.set_params(cache_size=1000.0).fit(X, y), options.repeats)


def _room(X: Array) -> float:
    """Megabytes for features: half of what is free."""
    if type(X).__module__.startswith("torch") and X.device.type == "cuda":
        import torch

        return 0.5 * torch.cuda.mem_get_info()[0] / 2**20
    if hasattr(X, "get"):
        import cupy

        return 0.5 * cupy.cuda.runtime.memGetInfo()[0] / 2**20
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
        return 0.5 * float(free) / 1024
    except (OSError, StopIteration):
        return 4_500.0


def told(model: Any) -> Record:
    """What a fit says of itself."""
    return {
        "gap": float(model.dual_gap_),
        "iterations": int(model.n_iter_),
        "objective": float(model.objective_),
        "centres": int(model.centres_.shape[0]),
        "restriction_cost": getattr(model, "restriction_cost_", None),
    }


# ----------------------------------------------------------------------------------------------
# Parts
# ----------------------------------------------------------------------------------------------


def covtype(options: argparse.Namespace) -> None:
    """Fit covtype for all numbers of centres, penalties and zones."""
    for n_rows in options.rows or [None]:
        X, y, X_test, y_test = covtype_rows(options.data, n_rows)
        X, X_test = placed(options, X, X_test)
        warm = {"part": "covtype", "rows": int(X.shape[0]), "device": options.device}
        with caught(**warm, what="a first small fit, for what is loaded once"):
            small = argparse.Namespace(**{**vars(options), "repeats": 1})
            on_centres(small, 100, 1.0, options.zones[-1], X[:5000], y[:5000])
        for m in options.centres or CENTRES:
            for C in options.C:
                for zone in options.zones:
                    about = {**warm, "m": m, "gamma": options.gamma, "C": C, "zone": zone}
                    with caught(**about):
                        model, took = on_centres(options, m, C, zone, X, y)
                        say(
                            **about,
                            **took,
                            **told(model),
                            **judged(predicted(model, X_test), y_test),
                        )
                        del model


def growth(options: argparse.Namespace) -> None:
    """Fit generated rows; what is left of the log-loss above that of the truth is the error."""
    X_test, y_test, p_test = generated(TEST_ROWS, options.features, 1)
    least = -np.where(y_test == 1, np.log(p_test), np.log1p(-p_test)).mean()
    for n_rows in options.rows or GROWTH_ROWS:
        X, y, _ = generated(n_rows, options.features, 0)
        X, known = placed(options, X, X_test)
        for m in options.centres or GROWTH_CENTRES:
            for zone in options.zones:
                about = {"part": "growth", "rows": n_rows, "features": options.features, "m": m}
                about |= {"zone": zone, "C": options.C[0], "device": options.device}
                with caught(**about):
                    model, took = on_centres(options, m, options.C[0], zone, X, y)
                    proba = predicted(model, known)
                    found = judged(proba, y_test)
                    found["above_truth"] = found["log_loss"] - float(least)
                    say(**about, gamma=options.gamma, **took, **told(model), **found)
                    del model, proba
        del X, y


def nystroem(options: argparse.Namespace) -> None:
    """Race scikit-learn's Nystroem and LogisticRegression at equal numbers of centres."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    for n_rows in options.rows or [None]:
        X, y, X_test, y_test = covtype_rows(options.data, n_rows)
        for m in options.centres or [2_000]:
            C = options.C[0]
            about = {"part": "nystroem", "rows": len(y), "m": m, "gamma": options.gamma, "C": C}
            about["threads"] = options.threads
            for zone in options.zones:
                with caught(**about, who="grayzone"):
                    model, took = on_centres(options, m, C, zone, X, y)
                    found = judged(model.predict_proba(X_test), y_test)
                    say(**about, who="grayzone", zone=zone, **took, **told(model), **found)
                    del model
            with caught(**about, who="Nystroem + LogisticRegression"):
                rival = make_pipeline(
                    Nystroem(gamma=options.gamma, n_components=m, random_state=0),
                    LogisticRegression(C=C),
                )
                rival, took = timed(X, partial(rival.fit, X, y))
                found = judged(rival.predict_proba(X_test), y_test)
                steps = int(rival[-1].n_iter_[0])
                say(**about, who="Nystroem + LogisticRegression", iterations=steps, **took, **found)
                del rival


def rivals(options: argparse.Namespace) -> None:
    """Fit the same rows by 300 import points, exactly, and by gradient boosting."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    n_rows = (options.rows or [None])[0]
    X, y, X_test, y_test = covtype_rows(options.data, n_rows)
    there, test = placed(options, X, X_test)
    C, gamma = options.C[0], options.gamma
    kernel = {"kernel": "rbf", "gamma": gamma}
    few = ImportVectorMachine(
        C=C, max_import_points=300, n_candidates=100, random_state=0, **kernel
    )
    exact = TruncatedLogisticRegression(C=C, zone=None, tol=1e-6, cache_size=8000, **kernel)
    boosted = HistGradientBoostingClassifier(max_iter=500, max_leaf_nodes=63, random_state=0)
    some = slice(0, options.exact_rows)
    for who, model, rows, labels, seen in (
        ("import vectors, 300 points", few, there, y, test),
        (f"exact kernel, {options.exact_rows} rows", exact, there[some], y[some], test),
        ("gradient boosting", boosted, X, y, X_test),
    ):
        about = {"part": "rivals", "who": who, "rows": int(rows.shape[0]), "C": C, "gamma": gamma}
        with caught(**about), dispatched(rows):
            model, took = timed(rows, partial(model.fit, rows, labels))
            say(**about, **took, **judged(predicted(model, seen), y_test))


def selections(options: argparse.Namespace) -> None:
    """Compare selections of centres at equal numbers of them."""
    for n_rows in options.rows or [None]:
        X, y, X_test, y_test = covtype_rows(options.data, n_rows)
        X, X_test = placed(options, X, X_test)
        for m in options.centres or CENTRES[:2]:
            for select in ("random", "leverage", "import"):
                about = {"part": "selection", "rows": int(X.shape[0]), "m": m, "select": select}
                about |= {"gamma": options.gamma, "C": options.C[0], "zone": options.zones[0]}
                with caught(**about):
                    own = argparse.Namespace(**{**vars(options), "select": select})
                    model, took = on_centres(own, m, options.C[0], options.zones[0], X, y)
                    say(**about, **took, **told(model), **judged(predicted(model, X_test), y_test))
                    del model


if __name__ == "__main__":
    raise SystemExit(main())
