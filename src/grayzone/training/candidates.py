"""Models that are compared: the ensemble, its members alone, and the families of this package.

All of them are a :class:`grayzone.DecisionEnsembleClassifier`, of several members or of one: what
they say of rows is calibrated, and known of rows that they have not seen, in the same way. They
learn places in the list of classes, so that the positive one of two comes last, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline

from grayzone import (
    DecisionEnsembleClassifier,
    ImportVectorMachineCV,
    SparseMinimaxProbabilityMachine,
    TightBoundLogisticRegressionCV,
    TruncatedLogisticRegressionCV,
)
from grayzone.estimators.table_features import TableFeatures
from grayzone.training.stakes import CONFIDENCE, LIMITS, Stakes

Array = Any

AUTO, ENSEMBLE = "auto", "ensemble"
FOLDS = 3  # within a fit, to choose a penalty
CS = (0.01, 0.1, 1.0, 10.0)
ZONES = (0.5, 1.0, 2.0, 4.0)
KERNEL_CS = (0.1, 1.0, 10.0, 100.0)
MOST_POINTS, CANDIDATES = 50, 100
BASES = 20


@dataclass(frozen=True)
class Family:
    """A kind of model of this package, beside the members of the ensemble.

    Parameters
    ----------
    name : str
        What users call it.
    make : callable
        Makes a classifier with probabilities, from the stakes and a seed.
    seconds : callable
        About how long a fit takes on one core of the machine that
        :mod:`grayzone.numerics.pace` knows, from rows, features and classes: fixed numbers, so that
        what fits a budget does not depend on what else the machine does.
    unable : callable
        Says why it cannot do what is asked, from the stakes; "" if it can.
    """

    name: str
    make: Callable[[Stakes, int], Any]
    seconds: Callable[[int, int, int], float]
    unable: Callable[[Stakes], str] = lambda stakes: ""


def _folds(seed: int) -> StratifiedKFold:
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


def _truncated(stakes: Stakes, seed: int) -> Any:
    return TruncatedLogisticRegressionCV(
        Cs=CS,
        zones=ZONES if stakes.binary else (None,),
        costs=stakes.costs,
        cv=_folds(seed),
        tol=1e-4,
    )


def _tight_bound(stakes: Stakes, seed: int) -> Any:
    return TightBoundLogisticRegressionCV(Cs=CS, costs=stakes.costs, cv=_folds(seed), tol=1e-5)


def _import_vector(stakes: Stakes, seed: int) -> Any:
    return ImportVectorMachineCV(
        Cs=KERNEL_CS,
        n_candidates=CANDIDATES,
        max_import_points=MOST_POINTS,
        costs=stakes.costs,
        random_state=seed,
    )


def _minimax(stakes: Stakes, seed: int) -> Any:
    machine = SparseMinimaxProbabilityMachine(n_bases=BASES, random_state=seed)
    return CalibratedClassifierCV(machine, cv=_folds(seed), ensemble=False)


def _needs_two(stakes: Stakes) -> str:
    return "" if stakes.binary else "it is for two classes"


# By what they are worth for the time they take: the first ones are compared where it is short.
FAMILIES = {
    family.name: family
    for family in (
        Family(
            "tight-bound",
            _tight_bound,
            lambda n, d, K: (0.03 + 5e-6 * n + 3e-7 * n * d) * (K / 2) ** 1.3,
        ),
        Family(
            "truncated",
            _truncated,
            lambda n, d, K: (0.14 + 1.2e-5 * n + 6e-7 * n * d) * (K / 2),
        ),
        Family(
            "import-vector",
            _import_vector,
            lambda n, d, K: (0.08 + 7e-5 * n + 9e-7 * n * d) * (K / 2) ** 2.5,
        ),
        Family(
            "minimax",
            _minimax,
            lambda n, d, K: 0.5 + 6e-5 * n + 4e-6 * n * d,
            unable=_needs_two,
        ),
    )
}
MEMBERS = (
    "logistic-regression",
    "random-forest",
    "kernel-logistic",
    "boosting",
    "extra-trees",
    "splines",
)
# From the simplest on: of what is as good as the ensemble, the first one is told of, or preferred.
BY_SIMPLICITY = (
    "logistic-regression",
    "truncated",
    "tight-bound",
    "minimax",
    "splines",
    "import-vector",
    "kernel-logistic",
    "boosting",
    "random-forest",
    "extra-trees",
)
MODELS = (AUTO, ENSEMBLE, *BY_SIMPLICITY)


def preparation(name: str) -> tuple[str, Any]:
    """Step from a table to features; the ensemble has its own, for each of its members."""
    return ("features", TableFeatures()) if name in FAMILIES else ("pass", "passthrough")


def decider(name: str, stakes: Stakes, seed: int, **options: Any) -> DecisionEnsembleClassifier:
    """Return a model of this name, to be fitted to the features of its preparation."""
    members: Any = [name]
    if name == ENSEMBLE:
        members = "auto"
    elif name in FAMILIES:
        members = [(name, FAMILIES[name].make(stakes, seed))]
    limits = {limit: getattr(stakes, limit) for limit in LIMITS}
    limited = stakes.limit is not None
    return DecisionEnsembleClassifier(
        members,
        costs=None if limited else stakes.costs,
        reject_cost=stakes.reject_cost,
        **limits,
        confidence=CONFIDENCE,
        random_state=seed,
        **options,
    )


def pipeline(name: str, stakes: Stakes, seed: int, **options: Any) -> Pipeline:
    """Everything from a table to a decision."""
    return Pipeline([preparation(name), ("decide", decider(name, stakes, seed, **options))])
