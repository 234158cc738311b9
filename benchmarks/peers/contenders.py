"""Solvers of logistic regression, and the tolerance at which each reaches a wanted accuracy."""

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.timing import Contender, as_given
from grayzone import TruncatedLogisticRegression

Zone = float | tuple[float, float] | None

# Half powers of ten: a coarser ladder would make peers solve more precisely than they are asked to.
LADDER = tuple(10 ** (-k / 2) for k in range(2, 25))
MAX_ITER = 10_000


@dataclass(frozen=True)
class Fit:
    """What is compared of a fitted model."""

    coef: np.ndarray
    intercept: float
    n_iter: int | None = None
    gap: float | None = None
    support_share: float | None = None


@dataclass(frozen=True)
class Peer:
    """Another library's solver of plain logistic regression.

    Parameters
    ----------
    name : str
        Its name in tables.
    fit : callable
        Takes the prepared data and the keywords `C` and `tol`; returns a `Fit`.
    prepare : callable
        As in `Contender`.
    penalises_intercept : bool, default=False
        Whether it minimises the objective with the intercept in the penalty.
    """

    name: str
    fit: Callable[..., Fit]
    prepare: Callable[[Any, np.ndarray], Any] = as_given
    penalises_intercept: bool = False

    def contender(self, C: float, tol: float) -> Contender:
        """Return this peer at one tolerance, ready to be timed."""
        return Contender(self.name, partial(self.fit, C=C, tol=tol), self.prepare)


def fit_ours(data: tuple[Any, np.ndarray], *, zone: Zone, C: float, tol: float) -> Fit:
    """Fit this package's estimator; `zone=None` is plain logistic regression."""
    X, y = data
    model = TruncatedLogisticRegression(C=C, zone=zone, tol=tol).fit(X, y)
    return Fit(
        np.ravel(model.coef_),
        float(np.ravel(model.intercept_)[0]),
        int(np.max(model.n_iter_)),
        float(model.dual_gap_),
        len(model.support_) / len(y),
    )


def ours(zone: Zone, C: float, tol: float) -> Contender:
    """Return this package at one zone and tolerance, ready to be timed."""
    return Contender(f"grayzone, {zone_name(zone)}", partial(fit_ours, zone=zone, C=C, tol=tol))


def zone_name(zone: Zone) -> str:
    """Name a zone in a table."""
    if zone is None:
        return "zone 0–1"
    if isinstance(zone, tuple):
        return f"zone {zone[0]:g}–{zone[1]:g}"
    return f"zone ±{zone:g}"


def fit_scikit_learn(
    data: tuple[Any, np.ndarray], *, solver: str, C: float, tol: float, fit_intercept: bool = True
) -> Fit:
    """Fit scikit-learn's LogisticRegression."""
    X, y = data
    model = LogisticRegression(
        C=C, solver=solver, tol=tol, max_iter=MAX_ITER, fit_intercept=fit_intercept
    ).fit(X, y)
    return Fit(model.coef_[0], float(np.ravel(model.intercept_)[0]), int(model.n_iter_[0]))


def fit_glum(data: tuple[Any, np.ndarray], *, C: float, tol: float) -> Fit:
    """Fit glum's binomial regression, whose objective is ours divided by the number of rows."""
    from glum import GeneralizedLinearRegressor

    X, y = data
    model = GeneralizedLinearRegressor(
        family="binomial",
        alpha=1.0 / (C * X.shape[0]),
        l1_ratio=0,
        gradient_tol=tol,
        max_iter=MAX_ITER,
    ).fit(X, y)
    return Fit(model.coef_, float(model.intercept_), int(model.n_iter_))


def liblinear_problem(X: Any, y: np.ndarray) -> Any:
    """Convert data to LIBLINEAR's format."""
    from liblinear.liblinearutil import problem

    # A dense array would be converted number by number in Python. Labels as +1 and -1: with the
    # positive first or not, the sign of the coefficients follows `model.label`.
    return problem(np.where(y == 1, 1.0, -1.0), sparse.csr_matrix(X), bias=1)


def fit_liblinear_official(data: Any, *, C: float, tol: float) -> Fit:
    """Fit LIBLINEAR itself: primal Newton method, unpenalised intercept."""
    from liblinear.liblinearutil import train

    model = train(data, f"-s 0 -c {C!r} -e {tol!r} -B 1 -R -q")
    sign = 1.0 if model.get_labels()[0] == 1 else -1.0
    weights = sign * np.array(model.w[: model.nr_feature + 1])
    return Fit(weights[:-1], float(weights[-1]))


def scikit_learn(solver: str) -> Peer:
    """Return one of scikit-learn's solvers as a peer."""
    return Peer(
        f"scikit-learn {solver}",
        partial(fit_scikit_learn, solver=solver),
        penalises_intercept=solver == "liblinear",
    )


def optional_peers(*names: str) -> list[Peer]:
    """Return those of the peers "glum" and "liblinear" whose packages are installed."""
    known = {
        "glum": Peer("glum", fit_glum),
        "liblinear": Peer("LIBLINEAR -R", fit_liblinear_official, liblinear_problem),
    }
    found = [name for name in names if importlib.util.find_spec(name)]
    for name in sorted(set(names) - set(found)):
        print(f"{name} is not installed and left out (the `bench` extra installs it)")
    return [known[name] for name in found]


def objective(X: Any, y: np.ndarray, C: float, fit: Fit, penalises_intercept: bool) -> float:
    """Evaluate Σ log(1 + exp(−y f)) + ‖w‖² / 2C, the intercept in the penalty or not."""
    scores = X @ fit.coef + fit.intercept
    losses = np.logaddexp(0.0, np.where(y == 1, -scores, scores))
    squares = fit.coef @ fit.coef + (fit.intercept**2 if penalises_intercept else 0.0)
    return float(losses.sum() + squares / (2 * C))


class Judge:
    """Measures the error of fits of plain logistic regression on one problem.

    Parameters
    ----------
    X, y : array or sparse matrix, ndarray
        The data.
    C : float
        Inverse strength of the penalty.
    reference : str
        The solver of scikit-learn that, beside ours, finds the optimum.
    threads : int
        Threads that BLAS and OpenMP may use.
    """

    def __init__(self, X: Any, y: np.ndarray, C: float, reference: str, threads: int) -> None:
        self.X, self.y, self.C, self.threads = X, y, C, threads
        self._reference = reference
        self._optimum: dict[bool, float] = {}

    def error(self, fit: Fit, penalises_intercept: bool = False) -> float:
        """Return (P − P*) / P* for the objective that the fit minimises."""
        if penalises_intercept not in self._optimum:
            self._optimum[penalises_intercept] = self._find_optimum(penalises_intercept)
        best = self._optimum[penalises_intercept]
        value = objective(self.X, self.y, self.C, fit, penalises_intercept)
        return max(value - best, 0.0) / best

    def tolerances(self, peer: Peer, targets: Sequence[float]) -> dict[float, float | None]:
        """Find the loosest tolerance of the ladder that reaches each wanted error."""
        found: dict[float, float | None] = dict.fromkeys(targets)
        data = peer.prepare(self.X, self.y)
        with threadpool_limits(limits=self.threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for tol in LADDER:
                fit = peer.fit(data, C=self.C, tol=tol)
                error = self.error(fit, peer.penalises_intercept)
                for target in targets:
                    if found[target] is None and error <= target:
                        found[target] = tol
                if None not in found.values():
                    break
        return found

    def _find_optimum(self, penalises_intercept: bool) -> float:
        X = self.X
        if penalises_intercept:
            # The same problem with the intercept as the weight of a constant feature.
            ones = np.ones((X.shape[0], 1))
            X = sparse.hstack([X, ones], "csr") if sparse.issparse(X) else np.hstack([X, ones])
        data = (X, self.y)
        fits = []
        with threadpool_limits(limits=self.threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a tolerance at the limit of double precision
            fits.append(
                fit_scikit_learn(
                    data,
                    solver=self._reference,
                    C=self.C,
                    tol=1e-12,
                    fit_intercept=not penalises_intercept,
                )
            )
            if not penalises_intercept:
                fits.append(fit_ours(data, zone=None, C=self.C, tol=1e-13))
        return min(objective(X, self.y, self.C, fit, False) for fit in fits)
