"""Sparse probabilistic classifiers that are accurate where decisions are made."""

from typing import Any

from grayzone.bayes import BayesDecisionClassifier
from grayzone.import_vector import ImportVectorMachine
from grayzone.import_vector_cv import ImportVectorMachineCV
from grayzone.minimax import MinimaxProbabilityMachine
from grayzone.sparse_minimax import SparseMinimaxProbabilityMachine
from grayzone.tight_bound import TightBoundLogisticRegression
from grayzone.tight_bound_classifier import TightBoundClassifier
from grayzone.truncated import TruncatedLogisticRegression
from grayzone.truncated_cv import TruncatedLogisticRegressionCV

__version__ = "0.1.0"

__all__ = [
    "BayesDecisionClassifier",
    "ImportVectorMachine",
    "ImportVectorMachineCV",
    "MinimaxProbabilityMachine",
    "SparseMinimaxProbabilityMachine",
    "TightBoundClassifier",
    "TightBoundLogisticRegression",
    "TruncatedLogisticRegression",
    "TruncatedLogisticRegressionCV",
    "load_model",
    "report",
]


def __getattr__(name: str) -> Any:
    """Import what needs more packages only when it is asked for."""
    if name == "report":
        from grayzone._report import report

        return report
    if name == "load_model":
        from grayzone.cli._model import load_model

        return load_model
    raise AttributeError(f"module 'grayzone' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
