"""scikit-learn's common checks of every public estimator, with no expected failure."""

import inspect
from importlib.metadata import version
from unittest import SkipTest

import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import (
    check_array_api_input,
    estimator_checks_generator,
    parametrize_with_checks,
)

import grayzone
from grayzone import (
    BayesDecisionClassifier,
    DecisionEnsembleClassifier,
    ImportVectorMachine,
    ImportVectorMachineCV,
    MinimaxProbabilityMachine,
    RateLimitClassifier,
    SparseMinimaxProbabilityMachine,
    TightBoundClassifier,
    TightBoundLogisticRegression,
    TightBoundLogisticRegressionCV,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)

# Each class once, and again where other code fits it, predicts or answers for its parameters.
ESTIMATORS = [
    TruncatedLogisticRegression(),
    TruncatedLogisticRegression(zone=None, warm_start=True),
    TruncatedLogisticRegression(zone=0.2, costs="balanced", solver="primal"),
    TruncatedLogisticRegression(loss="ramp"),
    TruncatedLogisticRegression(kernel="rbf"),
    TruncatedLogisticRegression(kernel="rbf", zone=None, fit_intercept=False, warm_start=True),
    TruncatedLogisticRegression(kernel="poly"),
    # as many as the checks have rows where these are weighted, removed or repeated
    TruncatedLogisticRegression(kernel="rbf", centres=40, random_state=0),
    TruncatedLogisticRegression(penalty="l1"),
    TruncatedLogisticRegression(penalty="elasticnet", kernel="rbf", zone=None),
    TruncatedLogisticRegressionCV(Cs=2, cv=2, zones=(1.0,)),
    TruncatedLogisticRegressionCV(Cs=[0.1, 10.0], zones=(0.5, None), cv=2, kernel="rbf"),
    ImportVectorMachine(),
    # few points where that is all the same: the checks fit hundreds of models
    ImportVectorMachine(max_import_points=6, points_per_step=3, parametrization="reference"),
    ImportVectorMachine(max_import_points=6, kernel="linear", allow_removal=True),
    ImportVectorMachine(max_import_points=3, zone=1.0, selection="power"),
    ImportVectorMachine(max_import_points=3, move_points=True),
    ImportVectorMachineCV(
        Cs=2, cv=2, max_import_points=3, kernel="linear", parametrization="reference"
    ),
    MinimaxProbabilityMachine(),
    MinimaxProbabilityMachine(kernel="rbf", costs="balanced", cv=None),
    SparseMinimaxProbabilityMachine(n_bases=5),
    SparseMinimaxProbabilityMachine(
        n_bases=2, costs="balanced", moment_error=0.1, candidates="boosted", cv=None, stopping=None
    ),
    # with reject_cost, predict may return a label that is no class
    TightBoundLogisticRegression(),
    TightBoundLogisticRegression(solver="direct"),
    TightBoundLogisticRegressionCV(Cs=2, cv=2),
    TightBoundClassifier(LogisticRegression()),
    BayesDecisionClassifier(LogisticRegression()),
    # a limit that few rows are enough for, and costs that find the best threshold below it
    RateLimitClassifier(
        LogisticRegression(), max_fpr=0.5, confidence=0.5, costs=[[0, 1], [1, 0]], random_state=0
    ),
    BayesDecisionClassifier(TruncatedLogisticRegression()),
    DecisionEnsembleClassifier(
        ["logistic-regression", DecisionTreeClassifier(max_depth=3, random_state=0)], cv=2
    ),
]

# One check asks for 87 % of one class on blobs around the origin, where a model through the origin
# has half of the plane for each class, whatever the weights: scikit-learn's own
# LogisticRegression(fit_intercept=False) fails it, too. So do polynomials of odd degree.
THROUGH_THE_ORIGIN = [
    (estimator, check)
    for model in (
        TruncatedLogisticRegression(fit_intercept=False),
        TightBoundLogisticRegression(fit_intercept=False),
    )
    for estimator, check in estimator_checks_generator(model)
    if check.func.__name__ != "check_class_weight_classifiers"
]


def test_every_public_estimator_is_checked():
    public = (getattr(grayzone, name) for name in grayzone.__all__)
    estimators = {c for c in public if inspect.isclass(c) and issubclass(c, BaseEstimator)}
    # a decision model is fitted when it is made; tests/training has its own checks
    fitted = {grayzone.DecisionModel}
    assert estimators - fitted == {type(estimator) for estimator in ESTIMATORS}


@pytest.mark.skipif(
    tuple(map(int, version("scikit-learn").split(".")[:2])) < (1, 9),
    reason="scikit-learn 1.8 does not know the devices of older array-api-strict",
)
def test_checks_of_other_array_libraries_are_run():
    model = BayesDecisionClassifier(LogisticRegression())
    try:
        check_array_api_input("decisions", model, "array_api_strict", "CPU_DEVICE", "float64")
    except SkipTest as skipped:  # as without the variable that tests/conftest.py sets
        pytest.fail(str(skipped))


@parametrize_with_checks(ESTIMATORS)
def test_common_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("estimator", "check"),
    THROUGH_THE_ORIGIN,
    ids=[f"{check.func.__name__}-{i}" for i, (_, check) in enumerate(THROUGH_THE_ORIGIN)],
)
def test_common_checks_without_an_intercept(estimator, check):
    check(estimator)
