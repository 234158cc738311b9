"""Sparse probabilistic classifiers that are accurate where decisions are made."""

from typing import TYPE_CHECKING, Any

from grayzone.estimators.bayes import BayesDecisionClassifier
from grayzone.estimators.decision_ensemble import DecisionEnsembleClassifier
from grayzone.estimators.f_measure import best_f_measure
from grayzone.estimators.import_vector import ImportVectorMachine
from grayzone.estimators.import_vector_cv import ImportVectorMachineCV
from grayzone.estimators.minimax import MinimaxProbabilityMachine
from grayzone.estimators.rate_limit import RateLimitClassifier
from grayzone.estimators.sparse_minimax import SparseMinimaxProbabilityMachine
from grayzone.estimators.tight_bound import TightBoundLogisticRegression
from grayzone.estimators.tight_bound_classifier import TightBoundClassifier
from grayzone.estimators.tight_bound_curve import roc_by_costs
from grayzone.estimators.tight_bound_cv import TightBoundLogisticRegressionCV
from grayzone.estimators.truncated import TruncatedLogisticRegression
from grayzone.estimators.truncated_cv import TruncatedLogisticRegressionCV
from grayzone.estimators.trusted import trusted_types

if TYPE_CHECKING:  # imported only when they are asked for
    from grayzone.reporting import report
    from grayzone.training.model import DecisionModel, load_model
    from grayzone.training.train import train

__version__ = "0.1.0"

__all__ = [
    "BayesDecisionClassifier",
    "DecisionEnsembleClassifier",
    "DecisionModel",
    "ImportVectorMachine",
    "ImportVectorMachineCV",
    "MinimaxProbabilityMachine",
    "RateLimitClassifier",
    "SparseMinimaxProbabilityMachine",
    "TightBoundClassifier",
    "TightBoundLogisticRegression",
    "TightBoundLogisticRegressionCV",
    "TruncatedLogisticRegression",
    "TruncatedLogisticRegressionCV",
    "best_f_measure",
    "load_model",
    "report",
    "roc_by_costs",
    "train",
    "trusted_types",
]


def __getattr__(name: str) -> Any:
    """Import what needs more packages only when it is asked for."""
    if name == "report":
        from grayzone.reporting import report

        return report
    if name in ("DecisionModel", "load_model"):
        from grayzone.training import model

        return getattr(model, name)
    if name == "train":
        from grayzone.training.train import train

        return train
    raise AttributeError(f"module 'grayzone' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
