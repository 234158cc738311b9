"""A search for the penalty of a kernel beside TorchKM, on its protocol: 10 folds, 50 penalties.

Problems: covertype (class 2 against the rest), a9a and ijcnn1 with kernels on centres beside its
Nyström; simulated rows with exact kernels on both sides. Accuracy and log-loss are those of rows
that neither has seen. TorchKM (``pip install torchkm``) chooses by errors of the
folds and has Platt's probabilities; it says of each penalty whether it converged. Ours chooses by
their log-loss, and each fit has its gap. Every measurement is a line of JSON.

    python -m benchmarks.peers.torchkm_race --device cuda --data FOLDER
    python -m benchmarks.peers.torchkm_race --problem simulated --rows 10000 --features 100
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# before SciPy is there: without it scikit-learn takes no arrays of other libraries
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import numpy as np
import torch
from sklearn import config_context
from sklearn.metrics import accuracy_score, log_loss

from benchmarks.peers.centres import covtype_rows
from grayzone import TruncatedLogisticRegressionCV

Array = Any
Record = dict[str, Any]
TEST_ROWS = 10_000  # of simulated rows


def main(argv: Sequence[str] | None = None) -> int:
    """Run the race.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.torchkm_race", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", type=Path, help="folder with covtype.npz, a9a.npz, ijcnn1.npz")
    parser.add_argument("--problem", choices=tuple(PROBLEMS), default="covtype")
    parser.add_argument("--features", type=int, default=10, help="of simulated rows")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, help="training rows (default: all but the test rows)")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--penalties", type=int, default=50)
    parser.add_argument("--centres", type=int, help="default: 2,000; none for simulated rows")
    parser.add_argument("--gamma", type=float, help="default: a usual one, or 1 / features")
    parser.add_argument("--only", choices=("ours", "torchkm"))
    options = parser.parse_args(argv)
    X, y, X_test, y_test = PROBLEMS[options.problem](options)
    if options.problem != "simulated":
        options.centres = options.centres or 2000
    options.gamma = options.gamma or GAMMAS.get(options.problem, 1.0 / X.shape[1])
    about = {"problem": options.problem, "rows": len(y), "features": X.shape[1]}
    about |= {"centres": options.centres, "gamma": options.gamma}
    for name, contender in {"ours": ours, "torchkm": theirs}.items():
        if options.only in (None, name):
            _tell({"who": name, **about, **_caught(contender, options, X, y, X_test, y_test)})
    return 0


def simulated(options: argparse.Namespace) -> tuple[Array, Array, Array, Array]:
    """Two classes of ten clusters each, around (1, 0, ...) and (0, 1, ...); 10,000 test rows."""
    rng = np.random.default_rng(0)
    n, p = (options.rows or 10_000) + TEST_ROWS, options.features
    means = np.zeros((2, p))
    means[0, 0] = means[1, 1] = 1.0
    clusters = means[:, None, :] + rng.normal(size=(2, 10, p))
    y = rng.integers(2, size=n)
    X = clusters[y, rng.integers(10, size=n)] + rng.normal(scale=np.sqrt(0.2), size=(n, p))
    return X[TEST_ROWS:], y[TEST_ROWS:], X[:TEST_ROWS], y[:TEST_ROWS]


def _divided(options: argparse.Namespace) -> tuple[Array, Array, Array, Array]:
    """Rows of a9a or ijcnn1 as they are, in the parts that they are published in."""
    with np.load(options.data / f"{options.problem}.npz") as file:
        parts = [file[name] for name in ("X_train", "y_train", "X_test", "y_test")]
    X, y, X_test, y_test = parts
    y, y_test = ((labels == y.max()).astype(np.int64) for labels in (y, y_test))
    X, X_test = (rows.astype(np.float64) for rows in (X, X_test))
    return X[: options.rows], y[: options.rows], X_test, y_test


# Widths that are usual for these sets.
GAMMAS = {"covtype": 0.1, "a9a": 2.0**-5, "ijcnn1": 2.0}
PROBLEMS: dict[str, Callable[[argparse.Namespace], tuple[Array, Array, Array, Array]]] = {
    "covtype": lambda options: covtype_rows(options.data, options.rows),
    "a9a": _divided,
    "ijcnn1": _divided,
    "simulated": simulated,
}


def ours(options: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> Record:
    """Search with grayzone."""
    place = {"device": options.device}
    X, y, X_test = (torch.asarray(part, **place) for part in (X, y, X_test))
    search = TruncatedLogisticRegressionCV(
        Cs=np.logspace(-3, 3, options.penalties),
        zones=(None,),
        cv=options.folds,
        kernel="rbf",
        gamma=options.gamma,
        centres=options.centres,
        random_state=0,
    )
    with config_context(array_api_dispatch=True):
        seconds = _timed(lambda: search.fit(X, y))
        proba = np.asarray(torch.asarray(search.predict_proba(X_test)).cpu())[:, 1]
    return {"C": search.C_, "gap": search.dual_gap_, **_judged(y_test, proba), **seconds}


def theirs(options: Any, X: Any, y: Any, X_test: Any, y_test: Any) -> Record:
    """Search with TorchKM."""
    from torchkm.estimators import TorchKMLogit

    search = TorchKMLogit(
        nC=options.penalties,
        cv=options.folds,
        device=options.device,
        low_rank=options.centres is not None,
        num_landmarks=options.centres or 2000,
        probability=True,
        random_state=0,
    )
    seconds = _timed(lambda: search.fit(X, y))
    proba = search.predict_proba(X_test)[:, 1]
    converged = None if search.converged_ is None else float(np.mean(search.converged_))
    return {
        "C": search.best_C_,
        "rank": getattr(search, "nys_k_", None),  # of its Nyström alone
        "share of penalties converged": converged,
        **_judged(y_test, proba),
        **seconds,
    }


def _judged(y: np.ndarray, proba: np.ndarray) -> Record:
    """Accuracy and log-loss."""
    return {"accuracy": accuracy_score(y, proba > 0.5), "log-loss": log_loss(y, proba)}


def _timed(work: Callable[[], Any]) -> Record:
    """Return the seconds that work takes, on a device that has then finished."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    kinds = sorted({warning.category.__name__ for warning in said})
    return {"seconds": time.perf_counter() - began, "warnings": [len(said), *kinds]}


def _caught(contender: Callable[..., Record], *arguments: Any) -> Record:
    """Return what a contender measured, or why it failed."""
    try:
        return contender(*arguments)
    except Exception as error:  # the next one is still to be measured
        return {"failed": f"{type(error).__name__}: {error}"}


def _tell(record: Record) -> None:
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
