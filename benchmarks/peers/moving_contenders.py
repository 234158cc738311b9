"""What users come from, and what they would move to, as contenders of `benchmarks.peers.moving`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.svm import SVC

from grayzone import (
    BayesDecisionClassifier,
    RateLimitClassifier,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.metrics import make_cost_scorer

Costs = Mapping[int, float]  # {0: cost of a false alarm, 1: cost of a miss}
MOST_FALSE_ALARMS = 0.1  # of the negative rows, where a limit is asked for

# Rivals of the kernel machines; `LEAVING` is what others are beside.
LEAVING = "SVC(probability=True)"
ADVISED = "CalibratedClassifierCV(SVC(), ensemble=False)"
ZONE = 'TruncatedLogisticRegression(kernel="rbf")'
NO_ZONE = 'TruncatedLogisticRegression(kernel="rbf", zone=None)'
TENFOLD, OWN = ", ten times that C", ", a C of its own"
# Of the linear ones.
PLAIN = "LogisticRegression() + threshold"
BAYES = "BayesDecisionClassifier(LogisticRegression())"
SEARCH = "TruncatedLogisticRegressionCV()"
# Of those that keep a limit.
TUNED_LIMIT = "TunedThresholdClassifierCV, recall where the limit is kept"
HELD_OUT_LIMIT = "RateLimitClassifier"
FOLDS_LIMIT = "RateLimitClassifier(cv=5)"


@dataclass(frozen=True)
class Contender:
    """A way to decide.

    Parameters
    ----------
    make : callable
        Makes an estimator for these costs.
    by_probabilities : bool
        Whether Bayes' rule on its probabilities decides; otherwise its own `predict`.
    knows_costs : bool
        Whether it is another model for other costs.
    slow : bool
        Whether it is left out at costs in proportion to the class shares.
    """

    make: Callable[[Costs], Any]
    by_probabilities: bool = True
    knows_costs: bool = False
    slow: bool = False


def kernel_contenders(
    C: float, own: Callable[[Costs | None], float] | None = None
) -> dict[str, Contender]:
    """Return machines with the RBF kernel, all with this C and ``gamma="scale"``.

    Ours stand there with ten times that C, too: their loss does not end at a margin, so that the
    same C is more of a penalty. `own` tells a C for costs, and for no zone: where it is given, ours
    stand there with it as well.
    """
    no_costs = {0: 1.0, 1: 1.0}
    found = {
        LEAVING: Contender(lambda costs: SVC(C=C, probability=True, random_state=0)),
        ADVISED: Contender(lambda costs: CalibratedClassifierCV(SVC(C=C), ensemble=False)),
        "CalibratedClassifierCV(SVC())": Contender(lambda costs: CalibratedClassifierCV(SVC(C=C))),
        "SVC(class_weight=costs)": Contender(
            lambda costs: SVC(C=C, class_weight=dict(costs)),
            by_probabilities=False,
            knows_costs=True,
        ),
        ZONE: Contender(partial(truncated, C=C), knows_costs=True),
        NO_ZONE: Contender(lambda costs: truncated(no_costs, C, zone=None)),
        ZONE + TENFOLD: Contender(partial(truncated, C=10 * C), knows_costs=True),
        NO_ZONE + TENFOLD: Contender(lambda costs: truncated(no_costs, 10 * C, zone=None)),
    }
    if own is not None:
        found[ZONE + OWN] = Contender(lambda costs: truncated(costs, own(costs)), knows_costs=True)
        found[NO_ZONE + OWN] = Contender(lambda costs: truncated(no_costs, own(None), zone=None))
    return found


def truncated(costs: Costs, C: float, **settings: Any) -> TruncatedLogisticRegression:
    """Return our machine with the RBF kernel."""
    return TruncatedLogisticRegression(C=C, kernel="rbf", costs=dict(costs), **settings)


def linear_contenders() -> dict[str, Contender]:
    """Return ways around logistic regression; resampling only with imbalanced-learn."""

    def tuned(costs: Costs) -> Any:
        scoring = make_cost_scorer(costs)
        return TunedThresholdClassifierCV(logistic(), scoring=scoring, random_state=0)

    return {
        "LogisticRegression()": Contender(lambda costs: logistic(), by_probabilities=False),
        PLAIN: Contender(lambda costs: logistic()),
        "LogisticRegression(class_weight=costs)": Contender(
            lambda costs: logistic(class_weight=dict(costs)),
            by_probabilities=False,
            knows_costs=True,
        ),
        "LogisticRegressionCV() + threshold": Contender(lambda costs: logistic_search()),
        "CalibratedClassifierCV(LogisticRegression()) + threshold": Contender(
            lambda costs: CalibratedClassifierCV(logistic())
        ),
        'CalibratedClassifierCV(…, method="isotonic") + threshold': Contender(
            lambda costs: CalibratedClassifierCV(logistic(), method="isotonic")
        ),
        "TunedThresholdClassifierCV(LogisticRegression())": Contender(
            tuned, by_probabilities=False, knows_costs=True
        ),
        **(resampling_contenders() if find_spec("imblearn") else {}),
        BAYES: Contender(
            lambda costs: BayesDecisionClassifier(logistic(), costs=dict(costs)),
            by_probabilities=False,
            knows_costs=True,
        ),
        SEARCH: Contender(
            lambda costs: TruncatedLogisticRegressionCV(costs=dict(costs)),
            knows_costs=True,
            slow=True,
        ),
    }


def logistic(**settings: Any) -> LogisticRegression:
    """Return scikit-learn's logistic regression as it comes, with enough iterations."""
    return LogisticRegression(max_iter=2_000, **settings)


def logistic_search() -> LogisticRegressionCV:
    """Return logistic regression with C by the log-loss of folds."""
    return LogisticRegressionCV(
        Cs=10,
        scoring="neg_log_loss",
        l1_ratios=(0,),
        max_iter=2_000,
        use_legacy_attributes=False,
    )


def resampling_contenders() -> dict[str, Contender]:
    """Return imbalanced-learn's two best known samplers before logistic regression.

    To equal classes, as they come; and to the costs: so many rows of each class that a threshold of
    one half on them is the costs' threshold on the rows as they were (Elkan, 2001).
    """
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline
    from imblearn.under_sampling import RandomUnderSampler

    found = {}
    for sampler, counts in ((SMOTE, oversampled_counts), (RandomUnderSampler, undersampled_counts)):
        name = f"{sampler.__name__} + LogisticRegression()"
        equal = partial(resampled, make_pipeline, sampler, None)
        found[name] = Contender(equal, by_probabilities=False)
        found[f"{name} + threshold"] = Contender(equal)
        found[f"{name}, resampled to the costs"] = Contender(
            partial(resampled, make_pipeline, sampler, counts),
            by_probabilities=False,
            knows_costs=True,
        )
    return found


def resampled(pipeline: Any, sampler: Any, counts: Any, costs: Costs) -> Any:
    """Put a sampler before logistic regression: to equal classes, or to the counts for costs."""
    strategy = "auto" if counts is None else lambda y: counts(np.bincount(y), costs)
    return pipeline(sampler(sampling_strategy=strategy, random_state=0), logistic())


def oversampled_counts(counts: np.ndarray, costs: Costs) -> dict[int, int]:
    """Return how many rows of each class there are to be, none of them fewer than there were."""
    factor = np.array([costs[0], costs[1]]) / min(costs.values())
    return {label: round(n * f) for label, (n, f) in enumerate(zip(counts, factor, strict=True))}


def undersampled_counts(counts: np.ndarray, costs: Costs) -> dict[int, int]:
    """Return how many rows of each class there are to be, none of them more than there were."""
    factor = np.array([costs[0], costs[1]]) / max(costs.values())
    return {
        label: max(1, round(n * f)) for label, (n, f) in enumerate(zip(counts, factor, strict=True))
    }


def limit_contenders() -> dict[str, Callable[[], Any]]:
    """Return ways to keep the false positive rate of logistic regression below a limit."""
    limit = MOST_FALSE_ALARMS
    return {
        TUNED_LIMIT: lambda: TunedThresholdClassifierCV(
            logistic(), scoring=make_scorer(recall_within_limit), random_state=0
        ),
        HELD_OUT_LIMIT: lambda: RateLimitClassifier(logistic(), max_fpr=limit, random_state=0),
        FOLDS_LIMIT: lambda: RateLimitClassifier(logistic(), max_fpr=limit, cv=5, random_state=0),
    }


def recall_within_limit(y: np.ndarray, decided: np.ndarray) -> float:
    """Return the recall; below zero where too many negative rows are taken for positive ones."""
    false_alarms = float(np.mean(decided[y == 0]))
    return float(np.mean(decided[y == 1])) if false_alarms <= MOST_FALSE_ALARMS else -false_alarms
