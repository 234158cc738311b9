"""Estimators through skops, with the types that this package names and no others."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import grayzone
from grayzone.metrics import make_cost_scorer

skops_io = pytest.importorskip("skops.io")

FOLDS = StratifiedKFold(2, shuffle=True, random_state=0)
MODELS = {
    "bayes": grayzone.BayesDecisionClassifier(LogisticRegression()),
    "bayes, undecided": grayzone.BayesDecisionClassifier(LogisticRegression(), reject_cost=0.2),
    "ensemble": grayzone.DecisionEnsembleClassifier(
        ["logistic-regression", "kernel-logistic"], cv=2
    ),
    "import vectors": grayzone.ImportVectorMachine(random_state=0),
    "import vectors, polynomial": grayzone.ImportVectorMachine(kernel="poly", random_state=0),
    "import vectors, moved": grayzone.ImportVectorMachine(max_import_points=3, move_points=True),
    "import vectors, path": grayzone.ImportVectorMachineCV(Cs=[1.0, 10.0], cv=FOLDS),
    "minimax": grayzone.MinimaxProbabilityMachine(random_state=0),
    "minimax, kernel": grayzone.MinimaxProbabilityMachine(kernel="rbf", random_state=0),
    "limits": grayzone.RateLimitClassifier(
        LogisticRegression(), max_fpr=0.4, confidence=0.6, random_state=0
    ),
    "sparse minimax": grayzone.SparseMinimaxProbabilityMachine(n_bases=3, random_state=0),
    "tight bound": grayzone.TightBoundLogisticRegression(),
    "tight bound, undecided": grayzone.TightBoundLogisticRegression(reject_cost=0.2),
    "tight bound, limited": grayzone.TightBoundLogisticRegression(max_fpr=0.4, random_state=0),
    "tight bound, search": grayzone.TightBoundLogisticRegressionCV(Cs=[1.0, 10.0], cv=FOLDS),
    "tight bound around another": grayzone.TightBoundClassifier(LogisticRegression()),
    "truncated": grayzone.TruncatedLogisticRegression(),
    "truncated, kernel": grayzone.TruncatedLogisticRegression(kernel="rbf"),
    "truncated, active set": grayzone.TruncatedLogisticRegression(solver="active-set"),
    "truncated, search": grayzone.TruncatedLogisticRegressionCV(Cs=[1.0, 10.0], cv=FOLDS),
    "truncated, search, its threshold moved": grayzone.TruncatedLogisticRegressionCV(
        Cs=[1.0, 10.0], cv=FOLDS, tune_threshold=True
    ),
    "truncated, search by costs": grayzone.TruncatedLogisticRegressionCV(
        Cs=[1.0, 10.0], cv=FOLDS, scoring=make_cost_scorer({0: 1.0, 1: 4.0})
    ),
}


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)


def came_back(model, X):
    saved = skops_io.dumps(model)
    loaded = skops_io.loads(saved, trusted=grayzone.trusted_types())
    assert type(loaded) is type(model)
    assert (loaded.predict(X) == model.predict(X)).all()
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    return set(skops_io.get_untrusted_types(data=saved))


@pytest.mark.parametrize("name", MODELS)
def test_every_estimator_comes_back_through_skops(name):
    """The default of skops, and of MLflow, refused every one of them."""
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(MODELS[name]).fit(X, y)
    assert came_back(model, X)  # types that are refused unless they are named


def test_a_model_that_learns_on_comes_back_through_skops():
    X, y = rows()
    model = grayzone.TightBoundLogisticRegression().partial_fit(X, y, classes=[0, 1])
    assert came_back(model, X)
    trusted = grayzone.trusted_types()
    loaded = skops_io.loads(skops_io.dumps(model), trusted=trusted)
    np.testing.assert_array_equal(loaded.partial_fit(X, y).coef_, model.partial_fit(X, y).coef_)


def test_every_estimator_is_tried_and_every_type_exists():
    from importlib import import_module

    names = {type(model).__name__ for model in MODELS.values()}
    # a decision model has a file of its own
    public = {name for name in grayzone.__all__ if name[0].isupper()} - {"DecisionModel"}
    assert names == public
    for full in grayzone.trusted_types():
        module, _, name = full.rpartition(".")
        assert getattr(import_module(module), name).__module__ == module
