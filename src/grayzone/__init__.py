"""Sparse probabilistic classifiers that are accurate where decisions are made."""

from grayzone.bayes import BayesDecisionClassifier
from grayzone.truncated import TruncatedLogisticRegression
from grayzone.truncated_cv import TruncatedLogisticRegressionCV

__version__ = "0.1.0"

__all__ = [
    "BayesDecisionClassifier",
    "TruncatedLogisticRegression",
    "TruncatedLogisticRegressionCV",
]
