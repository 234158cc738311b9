"""A fit without ``random_state`` is the same every time, whatever else draws in the process."""

import numpy as np
import pytest
from carriers import ESTIMATORS, rows
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from grayzone import (
    DecisionEnsembleClassifier,
    ImportVectorMachine,
    RateLimitClassifier,
    TruncatedLogisticRegression,
)

DRAWN = {
    name: case
    for name, case in ESTIMATORS.items()
    if any(key.endswith("random_state") for key in case.model.get_params())
}


def without_seeds(model):
    seeds = [name for name in model.get_params() if name.endswith("random_state")]
    return clone(model).set_params(**dict.fromkeys(seeds))


@pytest.mark.parametrize("name", DRAWN)
def test_every_estimator(name):
    case, (X, y, weight) = DRAWN[name], rows()
    once, again = (answers(case, X, y[case.n_classes], weight, seed) for seed in (0, 1))
    for method in case.methods:
        np.testing.assert_array_equal(again[method], once[method])


def answers(case, X, y, weight, seed):
    np.random.seed(seed)  # noqa: NPY002  # the state that everything in a process shares
    model = case.fit(without_seeds(case.model), (X, y, weight))
    return {method: getattr(model, method)(X) for method in case.methods}


MANY = {
    "a part to start from": (TruncatedLogisticRegression(), 20_000),
    "candidates": (ImportVectorMachine(n_candidates=5, max_import_points=5), 500),
    "steps of a member": (
        DecisionEnsembleClassifier(
            [make_pipeline(PCA(3, svd_solver="randomized"), RandomForestClassifier(3))],
            random_state=None,
        ),
        300,
    ),
}


@pytest.mark.parametrize("name", MANY)
def test_what_is_drawn(name):
    model, n_rows = MANY[name]
    X, y = make_classification(n_rows, 20, n_informative=8, flip_y=0.05, random_state=0)
    found = []
    for seed in range(4):
        np.random.seed(seed)  # noqa: NPY002  # the state that everything in a process shares
        found.append(clone(model).fit(X, y).predict_proba(X))
    for proba in found[1:]:
        np.testing.assert_array_equal(proba, found[0])


def test_a_generator_of_ones_own_still_draws_anew():
    X, y = make_classification(500, 20, n_informative=8, flip_y=0.05, random_state=0)
    model = RateLimitClassifier(TruncatedLogisticRegression(), max_fpr=0.2)
    model.set_params(random_state=np.random.RandomState(0))
    assert model.fit(X, y).threshold_ != model.fit(X, y).threshold_
