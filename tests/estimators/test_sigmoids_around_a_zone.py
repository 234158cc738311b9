"""A sigmoid takes all scores for log-odds of one line, which those of a zone are not."""

import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import scale

from grayzone import BayesDecisionClassifier, TruncatedLogisticRegression
from grayzone.metrics import expected_cost

COSTS = {0: 20.0, 1: 1.0}
ZONED = TruncatedLogisticRegression(costs=COSTS)


def cost(model):
    """Mean cost of decisions on held-out halves."""
    X, y = load_breast_cancer(return_X_y=True)
    X, costs = scale(X[:, :8]), []
    for train, test in StratifiedShuffleSplit(10, test_size=0.5, random_state=0).split(X, y):
        decider = BayesDecisionClassifier(model, costs=COSTS).fit(X[train], y[train])
        costs.append(expected_cost(y[test], decider.predict(X[test]), costs=COSTS))
    return np.mean(costs)


def test_a_sigmoid_is_warned_of_and_the_advice_is_cheaper():
    with pytest.warns(UserWarning, match=r"leave the calibration out.*GZ002"):
        by_sigmoid = cost(CalibratedClassifierCV(ZONED))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        advised = [
            cost(ZONED),
            cost(CalibratedClassifierCV(ZONED, method="isotonic")),
            cost(CalibratedClassifierCV(TruncatedLogisticRegression(zone=None))),
        ]
        assert max(advised) < 0.9 * by_sigmoid
        cost(CalibratedClassifierCV(LogisticRegression()))
