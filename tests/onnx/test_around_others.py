"""Classifiers of scikit-learn around those of this package, and within them."""

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from exported import assert_same, fitted, overlapping, several
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.tree import DecisionTreeClassifier

import grayzone as gz
from grayzone.onnx import NotConvertibleError, run, to_onnx

truncated = gz.TruncatedLogisticRegression()
logistic = LogisticRegression()
minimax = gz.MinimaxProbabilityMachine(cv=None)
AROUND = {
    "votes": VotingClassifier([("a", truncated), ("b", logistic)], voting="soft", weights=[2, 1]),
    "calibration": CalibratedClassifierCV(truncated, cv=2),
    "threshold": FixedThresholdClassifier(truncated, threshold=0.3),
    "threshold of the first": FixedThresholdClassifier(truncated, threshold=0.3, pos_label=0),
    "threshold on scores": FixedThresholdClassifier(minimax, threshold=0.1),
    "threshold on scores, first": FixedThresholdClassifier(minimax, pos_label=0),
    "tuned threshold": TunedThresholdClassifierCV(truncated, cv=2),
    "search": GridSearchCV(truncated, {"C": [0.1, 1.0]}, cv=2),
    "boosting": gz.BayesDecisionClassifier(
        HistGradientBoostingClassifier(max_iter=8), costs={0: 1.0, 1: 3.0}
    ),
    "tree": gz.BayesDecisionClassifier(
        DecisionTreeClassifier(max_depth=4, random_state=0), costs={0: 1.0, 1: 3.1}
    ),
    "a constant tree": gz.BayesDecisionClassifier(DecisionTreeClassifier(min_samples_leaf=300)),
}


@pytest.mark.parametrize("name", AROUND)
def test_two_classes(name):
    X, y = overlapping()
    model = fitted(AROUND[name], X, y)
    assert_same(run(to_onnx(model, X), X), model, X)


@pytest.mark.parametrize("name", ["votes", "calibration", "search"])
def test_several_classes(name):
    X, y = several()
    model = fitted(AROUND[name], X, y)
    assert_same(run(to_onnx(model, X), X), model, X)


def test_boosting_of_several_classes():
    X, y = several()
    model = fitted(gz.BayesDecisionClassifier(HistGradientBoostingClassifier(max_iter=4)), X, y)
    assert_same(run(to_onnx(model, X), X), model, X)


def test_a_stack_by_skl2onnx():
    pytest.importorskip("skl2onnx")
    X, y = overlapping()
    model = fitted(StackingClassifier([("a", truncated), ("b", logistic)], cv=2), X, y)
    said = run(to_onnx(model, X), X)
    assert (said["label"] == model.predict(X)).all()


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (VotingClassifier([("a", truncated), ("b", logistic)]), "'soft' can"),
        (CalibratedClassifierCV(truncated, method="temperature", ensemble=False), "'sigmoid' and"),
        (
            gz.BayesDecisionClassifier(HistGradientBoostingClassifier(categorical_features=[0])),
            "encode them before",
        ),
    ],
)
def test_what_cannot_go(model, says):
    X, y = overlapping()
    X = X.copy()
    X[:, 0] = X[:, 0] > 0
    with pytest.raises(NotConvertibleError, match=says):
        to_onnx(fitted(model, X, y), X)
