"""Models that are compared: the four families of this package and three plain baselines.

They learn places in the list of classes, so that the positive one of two comes last, whatever it is
called; what they decide is a place as well, or -1 for undecided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachineCV,
    SparseMinimaxProbabilityMachine,
    TightBoundLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.cli._schema import NUMBER, Schema
from grayzone.cli._stakes import Stakes

Array = Any

FOLDS = 3  # within a fit, to choose a penalty
CS = (0.01, 0.1, 1.0, 10.0)
KERNEL_CS = (0.1, 1.0, 10.0, 100.0)
MOST_POINTS, CANDIDATES = 100, 300
MOST_KERNEL_ROWS = 20_000


@dataclass(frozen=True)
class Candidate:
    """A kind of model.

    Parameters
    ----------
    name : str
        What users call it.
    make : callable
        Makes an estimator that decides, from the stakes and a seed.
    baseline : bool, default=False
        Whether it is none of this package's families.
    scaled : bool, default=True
        Whether it needs features without gaps, on one scale.
    policy : bool, default=False
        Whether its probabilities are those of its decisions: they saturate, their scale differs
        from fit to fit, and a limit on the false positive rate is kept by a threshold of its own.
    unable : callable, optional
        Says why it cannot do what is asked, from the stakes and the number of rows; "" if it can.
    """

    name: str
    make: Callable[[Stakes, int], Any]
    baseline: bool = False
    scaled: bool = True
    policy: bool = False
    unable: Callable[[Stakes, int], str] = lambda stakes, rows: ""


def deciding(model: Any, stakes: Stakes) -> Any:
    """Let a probabilistic classifier decide by Bayes' rule."""
    return BayesDecisionClassifier(model, costs=stakes.costs, reject_cost=stakes.reject_cost)


def _folds(seed: int) -> StratifiedKFold:
    return StratifiedKFold(FOLDS, shuffle=True, random_state=seed)


def _logistic(stakes: Stakes, seed: int) -> Any:
    grid = {"C": list(CS)}
    model = LogisticRegression(max_iter=1_000)
    return deciding(GridSearchCV(model, grid, scoring="neg_log_loss", cv=_folds(seed)), stakes)


def _truncated(stakes: Stakes, seed: int) -> Any:
    model = TruncatedLogisticRegressionCV(
        Cs=CS,
        zones=(0.5, 1.0, 2.0, 4.0) if stakes.binary else (None,),
        costs=stakes.costs,
        reject_cost=stakes.reject_cost,
        cv=_folds(seed),
        tol=1e-4,
    )
    return deciding(model, stakes)


def _tight_bound(stakes: Stakes, seed: int) -> Any:
    limited = stakes.max_fpr is not None
    model = TightBoundLogisticRegression(
        costs=None if limited else stakes.costs,
        reject_cost=stakes.reject_cost,
        max_fpr=stakes.max_fpr,
        confidence=None,  # models are compared by the order of rows; the threshold comes last
        validation_fraction=0.25 if limited else None,
        tol=1e-5,
        random_state=seed,
    )
    return GridSearchCV(model, {"C": list(CS)}, scoring=_Reward(stakes), cv=_folds(seed))


def _import_vector(stakes: Stakes, seed: int) -> Any:
    model = ImportVectorMachineCV(
        Cs=KERNEL_CS,
        n_candidates=CANDIDATES,
        max_import_points=MOST_POINTS,
        costs=stakes.costs,
        cv=_folds(seed),
        random_state=seed,
    )
    return deciding(model, stakes)


def _calibrated(model: Any, stakes: Stakes, seed: int) -> Any:
    return deciding(CalibratedClassifierCV(model, cv=_folds(seed), ensemble=False), stakes)


def _minimax(stakes: Stakes, seed: int) -> Any:
    return _calibrated(SparseMinimaxProbabilityMachine(random_state=seed), stakes, seed)


def _svc(stakes: Stakes, seed: int) -> Any:
    return _calibrated(SVC(), stakes, seed)


def _boosting(stakes: Stakes, seed: int) -> Any:
    return deciding(HistGradientBoostingClassifier(random_state=seed), stakes)


class _Reward:
    """Scorer: minus the mean cost of decisions; under a limit, how well positives stand out."""

    def __init__(self, stakes: Stakes) -> None:
        self.stakes = stakes

    def __call__(self, model: Any, X: Array, y: Array) -> float:
        if self.stakes.max_fpr is not None:
            return -float(missed_at(self.stakes.max_fpr, model.decision_function(X), y == 1).mean())
        return -float(row_costs(self.stakes, y, model.predict(X)).mean())


def row_costs(stakes: Stakes, y: Array, decided: Array) -> Array:
    """Cost of each decision; -1, undecided, is the last action."""
    return stakes.action_costs()[y, decided]


def missed_at(limit: float, scores: Array, positive: Array) -> Array:
    """Which positives are missed where the false positive rate is just the limit on these rows."""
    negatives = np.sort(scores[~positive])[::-1]
    cut = negatives[min(int(limit * len(negatives)), len(negatives) - 1)]
    return scores[positive] <= cut


def _needs_two(stakes: Stakes, rows: int) -> str:
    return "" if stakes.binary else "it is for two classes"


def _not_too_many(stakes: Stakes, rows: int) -> str:
    too_many = rows > MOST_KERNEL_ROWS
    return f"too slow for more than {MOST_KERNEL_ROWS:,} rows" if too_many else ""


# From the simplest to the least simple: among models that are as good, the first one is chosen.
CANDIDATES_BY_NAME = {
    candidate.name: candidate
    for candidate in (
        Candidate("logistic-regression", _logistic, baseline=True),
        Candidate("truncated", _truncated),
        Candidate("tight-bound", _tight_bound, policy=True),
        Candidate("minimax", _minimax, unable=_needs_two),
        Candidate("import-vector", _import_vector),
        Candidate("gradient-boosting", _boosting, baseline=True, scaled=False),
        Candidate("calibrated-svc", _svc, baseline=True, unable=_not_too_many),
    )
}


def preparation(schema: Schema, scaled: bool, seed: int) -> list[tuple[str, Any]]:
    """Steps from a table to features."""
    steps: list[tuple[str, Any]] = []
    if any(column.kind != NUMBER for column in schema.columns):
        from skrub import StringEncoder, TableVectorizer

        encoder = StringEncoder(random_state=seed)
        steps.append(("vectorise", TableVectorizer(high_cardinality=encoder)))
    if scaled:
        steps += [("impute", SimpleImputer(keep_empty_features=True)), ("scale", StandardScaler())]
    return steps or [("pass", "passthrough")]


def pipeline(candidate: Candidate, stakes: Stakes, schema: Schema, seed: int) -> Pipeline:
    """Everything from a table to a decision."""
    model = candidate.make(stakes, seed)
    return Pipeline([*preparation(schema, candidate.scaled, seed), ("decide", model)])
