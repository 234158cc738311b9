"""Kernel classifiers beside each other: how each is fitted, scored and judged."""

import functools
import importlib
import importlib.util
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from benchmarks.timing import Contender
from grayzone import TruncatedLogisticRegression
from grayzone.decision import threshold_from_costs, zone_around
from grayzone.metrics import expected_cost, zone_calibration_error, zone_log_loss

COSTS = {0: 1.0, 1: 5.0}
ZONE_WIDTH = 1.0
THRESHOLD = threshold_from_costs(COSTS, [0, 1])
ZONE = zone_around(THRESHOLD, ZONE_WIDTH)
DEFAULT_TOL = 1e-6
FOLDS = 5

# Names in the tables and the JSON.
OURS, OURS_MATCHED = "grayzone", "grayzone at the gap of SVC"
SVM, INTELEX, CALIBRATED = "SVC", "SVC of scikit-learn-intelex", "calibrated SVC"
NYSTROEM, PROTOTYPE = "Nystroem + LogisticRegression", "prototype"

Data = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Fitted:
    """A fitted model: what it answers with, and what it had to keep for that.

    Parameters
    ----------
    model : object
        As its library returned it.
    score : callable
        From rows to probabilities of the positive class or, without those, to decision values.
    vectors : int
        Rows with which each prediction compares.
    gap : float, optional
        Relative duality gap, where the library says it.
    """

    model: Any
    score: Callable[[np.ndarray], np.ndarray]
    vectors: int
    gap: float | None = None


@dataclass(frozen=True)
class Method:
    """One kind of model.

    Parameters
    ----------
    name : str
        Its name in tables.
    fit : callable
        Takes the data and the keywords `C`, `gamma` and `cache_size`; returns a `Fitted`.
    tuned_as : str
        Name of the method whose tuned parameters it takes: its own, or that of another way to
        solve the same problem.
    probabilistic : bool, default=True
        Whether scores are probabilities, and decisions therefore Bayes' rule.
    slow : bool, default=False
        Whether to leave it out of large problems on demand.
    """

    name: str
    fit: Callable[..., Fitted]
    tuned_as: str
    probabilistic: bool = True
    slow: bool = False

    def contender(self, parameters: dict[str, Any], cache_size: float) -> Contender:
        """Return this method with its tuned parameters, ready to be timed."""
        C, gamma = parameters["C"], parameters["gamma"]
        return Contender(self.name, partial(self.fit, C=C, gamma=gamma, cache_size=cache_size))


def ours(name: str = OURS, tol: float = DEFAULT_TOL) -> Method:
    """Return this package at one tolerance."""
    return Method(name, partial(fit_ours, tol=tol), OURS)


def peers(threads: int, components: int, prototype: Path | None) -> list[Method]:
    """Return the other methods; those that are not installed are named and left out.

    Parameters
    ----------
    threads : int
        Threads of scikit-learn-intelex, which the limits on BLAS and OpenMP do not reach.
    components : int
        Landmarks of Nystroem.
    prototype : Path, optional
        Folder with the module ``kfit``.
    """
    found = [Method(SVM, fit_svc, SVM, probabilistic=False, slow=True)]
    if importlib.util.find_spec("sklearnex"):
        found.append(Method(INTELEX, partial(fit_intelex, threads=threads), SVM, False))
    else:
        print("scikit-learn-intelex is not installed and left out (the `bench` extra installs it)")
    found.append(Method(CALIBRATED, fit_calibrated, CALIBRATED, slow=True))
    found.append(Method(NYSTROEM, partial(fit_nystroem, components=components), NYSTROEM))
    if prototype is not None and (prototype / "kfit.py").is_file():
        folder = str(prototype.resolve())
        found.append(Method(PROTOTYPE, partial(fit_prototype, folder=folder), OURS))
    elif prototype is not None:
        print(f"there is no kfit.py in {prototype}: no prototype")
    return found


def fit_ours(data: Data, *, C: float, gamma: float, cache_size: float, tol: float) -> Fitted:
    """Fit this package's estimator for the costs."""
    model = TruncatedLogisticRegression(
        C=C,
        zone=ZONE_WIDTH,
        costs=COSTS,
        kernel="rbf",
        gamma=gamma,
        cache_size=cache_size,
        tol=tol,
        random_state=0,
    ).fit(*data)
    return Fitted(model, partial(_positive, model), len(model.support_), float(model.dual_gap_))


def fit_svc(data: Data, *, C: float, gamma: float, cache_size: float) -> Fitted:
    """Fit scikit-learn's SVC at its default tolerance."""
    model = SVC(C=C, gamma=gamma, cache_size=cache_size).fit(*data)
    return Fitted(model, model.decision_function, len(model.support_))


def fit_intelex(data: Data, *, C: float, gamma: float, cache_size: float, threads: int) -> Fitted:
    """Fit the SVC of scikit-learn-intelex at its default tolerance."""
    from sklearnex import svm

    model = svm.SVC(C=C, gamma=gamma, cache_size=cache_size, n_jobs=threads).fit(*data)
    return Fitted(model, model.decision_function, len(model.support_))


def fit_calibrated(data: Data, *, C: float, gamma: float, cache_size: float) -> Fitted:
    """Fit SVC once, and a sigmoid to its decision values in cross-validation."""
    model = CalibratedClassifierCV(
        SVC(C=C, gamma=gamma, cache_size=cache_size), ensemble=False, cv=FOLDS
    ).fit(*data)
    kept = model.calibrated_classifiers_[0].estimator.support_
    return Fitted(model, partial(_positive, model), len(kept))


def fit_nystroem(
    data: Data, *, C: float, gamma: float, cache_size: float, components: int
) -> Fitted:
    """Fit logistic regression on Nystroem features; it has no use for a cache."""
    components = min(components, len(data[1]))
    model = make_pipeline(
        Nystroem(gamma=gamma, n_components=components, random_state=0),
        LogisticRegression(C=C, max_iter=1_000),
    ).fit(*data)
    return Fitted(model, partial(_positive, model), components)


def fit_prototype(data: Data, *, C: float, gamma: float, cache_size: float, folder: str) -> Fitted:
    """Fit our problem with the function ``kfit.fit`` of a folder; it has no setting for a cache."""
    X, y = data
    signs = np.where(y == 1, 1.0, -1.0)
    found = _prototype(folder).fit(X, signs, 1.0 / C, *ZONE, gamma)
    kept = np.flatnonzero(found["a"])
    coef = C * (found["a"] * signs)[kept]
    score = partial(_prototype_score, X[kept], coef, float(found["b"]), gamma)
    return Fitted(found, score, len(kept), float(found["gap"]))


@functools.cache
def _prototype(folder: str) -> ModuleType:
    sys.path.insert(0, folder)  # its modules import each other by bare names
    try:
        return importlib.import_module("kfit")
    finally:
        sys.path.remove(folder)


def _prototype_score(
    vectors: np.ndarray, coef: np.ndarray, intercept: float, gamma: float, X: np.ndarray
) -> np.ndarray:
    return expit(kernel_product(X, vectors, coef, gamma) + intercept)


def _positive(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict_proba(X)[:, 1]


def kernel_product(
    X: np.ndarray, vectors: np.ndarray, coef: np.ndarray, gamma: float, block: int = 1_000
) -> np.ndarray:
    """Multiply the RBF kernel of rows and vectors with coefficients, by blocks of rows."""
    starts = range(0, len(X), block)
    return np.concatenate(
        [rbf_kernel(X[start : start + block], vectors, gamma=gamma) @ coef for start in starts]
    )


def svc_gap(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return (P − D) / P of a fitted SVC, P = ‖f‖²/2 + C Σ max(0, 1 − y (f + b)).

    Parameters
    ----------
    model : SVC
        Of either library, fitted to `X` and `y` with a number for `gamma`.
    X, y : ndarray
        Its training data, labels 0 and 1.
    """
    duals = np.ravel(model.dual_coef_)
    values = kernel_product(X, X[model.support_], duals, model.gamma)
    half_square = duals @ values[model.support_] / 2
    margins = np.where(y == 1, 1.0, -1.0) * (values + float(np.ravel(model.intercept_)[0]))
    primal = half_square + model.C * np.maximum(0.0, 1.0 - margins).sum()
    dual = np.abs(duals).sum() - half_square
    return float((primal - dual) / primal)


def best_threshold(scores: np.ndarray, y: np.ndarray) -> float:
    """Find the threshold of scores at which decisions cost least.

    Parameters
    ----------
    scores : ndarray
        Decision values; positive is decided from the threshold on.
    y : ndarray
        Labels 0 and 1.

    Returns
    -------
    float
        Half way between two neighbouring scores, or the one from which all or no rows are positive.
    """
    order = np.argsort(scores, kind="stable")
    ordered, labels = scores[order], y[order]
    # Cut k decides positive for all but the first k rows: the positives among those are missed.
    missed = np.concatenate([[0], np.cumsum(labels == 1)])
    alarms = np.sum(labels == 0) - np.concatenate([[0], np.cumsum(labels == 0)])
    cost = COSTS[1] * missed + COSTS[0] * alarms
    cost[1:-1][ordered[:-1] == ordered[1:]] = np.inf  # equal scores cannot be told apart
    k = int(np.argmin(cost))
    if k == 0:
        return float(ordered[0])
    if k == len(y):
        return float(np.nextafter(ordered[-1], np.inf))
    return float((ordered[k - 1] + ordered[k]) / 2)


def cost_of(scores: np.ndarray, y: np.ndarray, threshold: float) -> float:
    """Return the expected cost of deciding positive from a threshold on."""
    return expected_cost(y, (scores >= threshold).astype(np.int64), costs=COSTS)


def decision_threshold(method: Method, scores: np.ndarray, y: np.ndarray) -> float:
    """Return Bayes' threshold or, without probabilities, the best one on validation scores."""
    return THRESHOLD if method.probabilistic else best_threshold(scores, y)


def quality(
    method: Method, scores: np.ndarray, y: np.ndarray, threshold: float
) -> dict[str, float | None]:
    """Judge scores on test rows.

    Returns
    -------
    dict
        ``cost``, expected cost at the threshold for the costs; ``error_at_costs``, the share of
        wrong decisions there; ``error``, that at even odds (probability 1/2, decision value 0);
        ``zone_log_loss``, ``log_loss`` and ``zone_calibration_error``, None without probabilities.
    """
    even = 0.5 if method.probabilistic else 0.0
    found: dict[str, float | None] = {
        "cost": cost_of(scores, y, threshold),
        "error_at_costs": float(np.mean((scores >= threshold) != (y == 1))),
        "error": float(np.mean((scores >= even) != (y == 1))),
        "zone_log_loss": None,
        "log_loss": None,
        "zone_calibration_error": None,
    }
    if method.probabilistic:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no row inside the zone: no number
            calibration = zone_calibration_error(y, scores, zone=ZONE)
        found["zone_log_loss"] = zone_log_loss(y, scores, zone=ZONE)
        found["log_loss"] = zone_log_loss(y, scores, zone=None)
        found["zone_calibration_error"] = None if math.isnan(calibration) else calibration
    return found
