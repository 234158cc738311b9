"""A search over penalties of kernels on centres beside TorchKM's Nyström, on TorchKM's protocol.

Covertype (class 2 against the rest), ten folds, fifty penalties; accuracy and log-loss of rows that
neither has seen. TorchKM (``pip install torchkm``) chooses by errors of the folds and has Platt's
probabilities; it says of each penalty whether it converged. Ours chooses by their log-loss, and
each fit has its gap. Every measurement is a line of JSON.

    python -m benchmarks.peers.torchkm_race --device cuda --data FOLDER
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

Record = dict[str, Any]


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
    parser.add_argument("--data", type=Path, help="folder with covtype.npz")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, help="training rows (default: all but the test rows)")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--penalties", type=int, default=50)
    parser.add_argument("--centres", type=int, default=2000)
    parser.add_argument("--gamma", type=float, default=0.1)
    parser.add_argument("--only", choices=("ours", "torchkm"))
    options = parser.parse_args(argv)
    X, y, X_test, y_test = covtype_rows(options.data, options.rows)
    for name, contender in {"ours": ours, "torchkm": theirs}.items():
        if options.only in (None, name):
            _tell({"who": name, **_caught(contender, options, X, y, X_test, y_test)})
    return 0


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
        low_rank=True,
        num_landmarks=options.centres,
        probability=True,
        random_state=0,
    )
    seconds = _timed(lambda: search.fit(X, y))
    proba = search.predict_proba(X_test)[:, 1]
    converged = None if search.converged_ is None else float(np.mean(search.converged_))
    return {
        "C": search.best_C_,
        "rank": search.nys_k_,
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
