"""Kernel classifiers beside the import vector machine: how each is fitted, tuned and judged."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from benchmarks.peers.kernel_contenders import (
    CALIBRATED,
    NYSTROEM,
    OURS,
    SVM,
    Data,
    Fitted,
    fit_calibrated,
    fit_svc,
)
from benchmarks.peers.kernel_race import CACHE_SIZE
from benchmarks.timing import Contender
from grayzone import ImportVectorMachine

NYSTROEM_OWN = f"{NYSTROEM}, own gamma"
RVM, GAUSSIAN_PROCESS = "fastrvm", "GaussianProcessClassifier"
RVM_ITERATIONS = 2_000  # its default, 10,000, takes minutes where it does not converge
SMALL_ROWS = 1_000  # most rows for those whose time grows with their cube
LEAST_PROBABILITY = 1e-15  # what a probability of zero counts as in the log loss


@dataclass(frozen=True)
class Method:
    """One kind of model.

    Parameters
    ----------
    name : str
        Its name in tables.
    fit : callable
        Takes the data and the keywords `C`, `gamma` and `seed`; returns a `Fitted`.
    penalised : bool, default=True
        Whether it has a C.
    gamma_of : str, optional
        Name of the method whose gamma it takes.
    probabilistic : bool, default=True
        Whether scores are probabilities: they are judged by the log loss, others by the error.
    slow : bool, default=False
        Whether to leave it out of large problems on demand.
    most_rows : int, optional
        Most rows that it is given.
    """

    name: str
    fit: Callable[..., Fitted]
    penalised: bool = True
    gamma_of: str | None = None
    probabilistic: bool = True
    slow: bool = False
    most_rows: int | None = None

    def contender(self, parameters: dict[str, Any], seed: int) -> Contender:
        """Return this method with its tuned parameters, ready to be timed."""
        C, gamma = parameters["C"], parameters["gamma"]
        return Contender(self.name, partial(self.fit, C=C, gamma=gamma, seed=seed))

    def losses(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return what each row loses: minus log likelihood or, without it, one for an error."""
        if not self.probabilistic:
            return self.errors(scores, y)
        p = np.where(y == 1, scores, 1.0 - scores)
        return -np.log(np.maximum(p, LEAST_PROBABILITY))

    def errors(self, scores: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return one for each wrong decision at even odds, zero for the others."""
        even = 0.5 if self.probabilistic else 0.0
        return ((scores >= even) != (y == 1)).astype(np.float64)


def methods(points: int, candidates: int) -> list[Method]:
    """Return all methods, ours first; those that are not installed are named and left out.

    Parameters
    ----------
    points : int
        Import points of ours, and landmarks of Nystroem.
    candidates : int
        Rows that ours compares for each import point.
    """
    landmarks = partial(fit_nystroem, points=points)
    found = [
        Method(OURS, partial(fit_ours, points=points, candidates=candidates)),
        Method(SVM, partial(_without_seed, fit_svc), probabilistic=False, slow=True),
        Method(CALIBRATED, partial(_without_seed, fit_calibrated), slow=True),
        Method(NYSTROEM, landmarks, gamma_of=OURS),
        Method(NYSTROEM_OWN, landmarks),
        Method(GAUSSIAN_PROCESS, fit_gaussian_process, most_rows=SMALL_ROWS),
    ]
    if importlib.util.find_spec("fastrvm"):
        found.append(Method(RVM, fit_rvm, penalised=False, most_rows=SMALL_ROWS))
    else:
        print("fastrvm is not installed and left out (the `bench` extra installs it)")
    return found


def fit_ours(
    data: Data, *, C: float, gamma: float, seed: int, points: int, candidates: int
) -> Fitted:
    """Fit this package's estimator with as many import points as allowed."""
    model = ImportVectorMachine(
        C=C,
        gamma=gamma,
        max_import_points=points,
        n_candidates=candidates,
        tol=0.0,
        random_state=seed,
    ).fit(*data)
    return Fitted(model, partial(_positive, model), len(model.import_points_))


def fit_nystroem(data: Data, *, C: float, gamma: float, seed: int, points: int) -> Fitted:
    """Fit logistic regression on Nystroem features: the same problem, with landmarks at random."""
    points = min(points, len(data[1]))
    model = make_pipeline(
        Nystroem(gamma=gamma, n_components=points, random_state=seed),
        LogisticRegression(C=C, max_iter=1_000),
    ).fit(*data)
    return Fitted(model, partial(_positive, model), points)


def fit_gaussian_process(data: Data, *, C: float, gamma: float, seed: int) -> Fitted:
    """Fit a Gaussian process whose prior is our penalty: variance C, the same kernel."""
    kernel = ConstantKernel(C) * RBF(1.0 / np.sqrt(2.0 * gamma))
    model = GaussianProcessClassifier(kernel, optimizer=None, random_state=seed).fit(*data)
    return Fitted(model, partial(_positive, model), len(data[1]))


def fit_rvm(data: Data, *, C: float | None, gamma: float, seed: int) -> Fitted:
    """Fit a relevance vector machine, which estimates its own penalties; nothing is random."""
    from fastrvm import RVC

    model = RVC(gamma=float(gamma), fit_intercept=True, max_iter=RVM_ITERATIONS).fit(*data)
    return Fitted(model, partial(_positive, model), len(model.relevance_))


def _without_seed(
    fit: Callable[..., Fitted], data: Data, *, C: float, gamma: float, seed: int
) -> Fitted:
    return fit(data, C=C, gamma=gamma, cache_size=CACHE_SIZE)


def _positive(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict_proba(X)[:, 1]
