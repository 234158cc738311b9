"""Models to export, and how what the export says is compared with what the model says."""

import warnings
from functools import cache

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_wine, make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

import grayzone as gz
from grayzone.estimators.anatomy import function_of

RELATIVE, SINGLE, SURE = 1e-12, 1e-5, 1e-6
LEAST = 1e-290  # smaller probabilities have fewer digits than others

_logistic = LogisticRegression()
TWO = {
    "few features": gz.TruncatedLogisticRegression(penalty="l1"),
    "few rows": gz.TruncatedLogisticRegression(penalty="l1", kernel="rbf"),
    "threshold moved": gz.TruncatedLogisticRegressionCV(
        Cs=2, cv=2, zones=(1.0,), tune_threshold=True, costs={0: 5.0, 1: 1.0}
    ),
    "import points that move": gz.ImportVectorMachine(max_import_points=4, move_points=True),
    "linear": gz.TruncatedLogisticRegression(costs={0: 3.0, 1: 1.0}),
    "linear, undecided": gz.TruncatedLogisticRegression(reject_cost=0.1),
    "linear, zone": gz.TruncatedLogisticRegression(zone=(0.05, 0.9), tails="as-fitted"),
    "linear, ramp": gz.TruncatedLogisticRegression(loss="ramp"),
    "linear, search": gz.TruncatedLogisticRegressionCV(Cs=(0.1, 1.0), cv=3),
    "rbf": gz.TruncatedLogisticRegression(kernel="rbf", C=10.0),
    "centres": gz.TruncatedLogisticRegression(kernel="rbf", centres=12, random_state=0),
    "poly": gz.TruncatedLogisticRegression(kernel="poly", degree=2, coef0=1.0),
    "sigmoid": gz.TruncatedLogisticRegression(kernel="sigmoid", gamma=1e-3),
    "laplacian": gz.TruncatedLogisticRegression(kernel="laplacian"),
    "import points": gz.ImportVectorMachine(C=10.0, max_import_points=8),
    "import points, search": gz.ImportVectorMachineCV(max_import_points=8, random_state=0),
    "bounds": gz.TightBoundLogisticRegression(),
    "bounds, undecided": gz.TightBoundLogisticRegression(reject_cost=0.2),
    "bounds, limit": gz.TightBoundLogisticRegression(max_fpr=0.1, random_state=0),
    "bounds, search": gz.TightBoundLogisticRegressionCV(Cs=(0.1, 1.0), cv=3, reject_cost=0.2),
    "bounds around": gz.TightBoundClassifier(gz.ImportVectorMachine(max_import_points=5)),
    "minimax": gz.MinimaxProbabilityMachine(random_state=0),
    "minimax, rbf": gz.MinimaxProbabilityMachine(kernel="rbf", cv=None),
    "bases": gz.SparseMinimaxProbabilityMachine(n_bases=4, random_state=0),
    "bases, tanh": gz.SparseMinimaxProbabilityMachine(n_bases=4, basis="tanh", random_state=0),
    "bases, poly": gz.SparseMinimaxProbabilityMachine(n_bases=4, basis="poly", random_state=0),
    "decisions": gz.BayesDecisionClassifier(_logistic, costs={0: 1.0, 1: 4.0}),
    "decisions, prior": gz.BayesDecisionClassifier(
        _logistic, reject_cost=0.1, prior={0: 0.9, 1: 0.1}
    ),
    "decisions, forest": gz.BayesDecisionClassifier(
        RandomForestClassifier(10, random_state=0), costs={0: 1.0, 1: 4.0}
    ),
    "decisions, sigmoid": gz.BayesDecisionClassifier(
        CalibratedClassifierCV(gz.MinimaxProbabilityMachine(random_state=0), cv=2)
    ),
    "decisions, calibrated policy": gz.BayesDecisionClassifier(
        CalibratedClassifierCV(gz.TightBoundLogisticRegression(reject_cost=0.2), cv=2)
    ),
    "limit": gz.RateLimitClassifier(_logistic, max_fpr=0.1, random_state=0),
    "limit, other class": gz.RateLimitClassifier(
        _logistic, min_recall=0.8, positive=0, random_state=0
    ),
    "limit, scores": gz.RateLimitClassifier(
        gz.MinimaxProbabilityMachine(random_state=0), max_fpr=0.1, random_state=0
    ),
    "ensemble": gz.DecisionEnsembleClassifier(
        ["logistic-regression", "splines"], reject_cost=0.1, random_state=0
    ),
    "ensemble, limit": gz.DecisionEnsembleClassifier(
        ["logistic-regression"], max_fpr=0.1, random_state=0
    ),
}
SEVERAL = {
    "minimax": gz.MinimaxProbabilityMachine(random_state=0),
    "minimax, rbf": gz.MinimaxProbabilityMachine(kernel="rbf", random_state=0),
    "sparse minimax": gz.SparseMinimaxProbabilityMachine(n_bases=4, random_state=0),
    "intervals of classes": gz.TruncatedLogisticRegression(zone={0: (0.1, 0.6)}),
    "linear": gz.TruncatedLogisticRegression(),
    "linear, undecided": gz.TruncatedLogisticRegression(reject_cost=0.1),
    "centres": gz.TruncatedLogisticRegression(kernel="laplacian", centres=12, random_state=0),
    "rbf": gz.TruncatedLogisticRegression(
        kernel="rbf", costs=np.array([[0, 1, 2], [3, 0, 1], [1, 5, 0]])
    ),
    "import points": gz.ImportVectorMachine(max_import_points=8),
    "import points, reference": gz.ImportVectorMachine(
        max_import_points=8, parametrization="reference", zone=2.0
    ),
    "bounds": gz.TightBoundLogisticRegression(),
    "bounds, undecided": gz.TightBoundLogisticRegression(reject_cost=0.2),
    "decisions": gz.BayesDecisionClassifier(_logistic, costs="balanced", reject_cost=0.1),
    "decisions, forest": gz.BayesDecisionClassifier(ExtraTreesClassifier(10, random_state=0)),
    "limit": gz.RateLimitClassifier(_logistic, max_fpr=0.2, positive=1, random_state=0),
    "ensemble": gz.DecisionEnsembleClassifier(["logistic-regression"], random_state=0),
}


@cache
def two():
    """Two classes that overlap: tails, zones and "undecided" matter."""
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X[:, :8]), y


@cache
def overlapping():
    X, y = make_classification(400, 6, n_informative=4, flip_y=0.1, class_sep=0.6, random_state=0)
    return scale(X), y


@cache
def several():
    X, y = load_wine(return_X_y=True)
    return scale(X), y


def fitted(model, X, y):
    from sklearn.base import clone

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).fit(X, y)


def decided(said):
    """What an exported model decides."""
    return said["decision" if "decision" in said else "label"]


def relative(found, expected):
    """Largest difference, relative to what is expected."""
    found, expected = np.asarray(found), np.asarray(expected)
    return float(
        np.max(np.abs(found - expected) / np.maximum(np.abs(expected), LEAST), initial=0.0)
    )


def assert_same(said, model, X, rounding=0.0):
    """Probabilities, or scores, to rounding (of sums of large terms: more); every decision."""
    # at the ends of a zone what scores lack in precision grows by the slope there
    rounding += 1e-14 * float(np.max(getattr(model, "tail_slopes_", 0.0)))
    np.testing.assert_array_equal(decided(said), model.predict(X))
    if "probabilities" in said:
        assert relative(said["probabilities"], model.predict_proba(X)) <= RELATIVE + rounding
    else:
        scores = model.decision_function(X)
        told = said["scores"] if scores.ndim == 2 else said["scores"][:, 0]
        away = np.abs(told - scores) / np.maximum(1.0, np.abs(scores))
        assert np.max(away, initial=0.0) <= RELATIVE + rounding


def rounding_of(model, X):
    """What the order of a sum may change: a few units of the last place of its largest terms."""
    before, model = (model[:-1], model[-1]) if hasattr(model, "steps") else (None, model)
    if not hasattr(model, "dual_coef_") or "coef_" in vars(model) or hasattr(model, "bases_"):
        return 0.0
    function = function_of(model)
    rows = X if before is None else before.transform(X)
    terms = np.abs(function.kernel(rows, function.vectors)) @ np.abs(function.coef).T
    return 64 * np.finfo(np.float64).eps * float(terms.max())
