"""Sparse probabilistic classifiers that are accurate where decisions are made."""

from grayzone.bayes import BayesDecisionClassifier
from grayzone.truncated import TruncatedLogisticRegression

__version__ = "0.1.0"

__all__ = ["BayesDecisionClassifier", "TruncatedLogisticRegression"]
