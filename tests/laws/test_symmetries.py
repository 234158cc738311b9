"""What a model must not depend on: how often a row is written, its place, and units of measure."""

import numpy as np
import pytest
from carriers import ESTIMATORS, assert_equal, rows
from sklearn.base import clone

from grayzone import TightBoundLogisticRegression

RTOL = 1e-8
# Folds, held-out rows and centres are drawn among rows: copies and places of rows change them.
DRAWN = {
    "search",
    "search, its threshold moved",
    "bound search",
    "bound search, undecided",
    "import point search",
    "import point search, balanced",
    "import point search, three classes",
    "import point search, held-out rows",
    "import points, held-out rows",
    "centres",
    "centres, three classes",
    "search on centres",
    "bounds, held-out rows",
    "limits of any model",
}
ALL = [name for name in ESTIMATORS if name not in DRAWN]


def data(estimator):
    X, y, weight = rows()
    return X, y[ESTIMATORS[estimator].n_classes], weight


def assert_same(estimator, one, other, but=()):
    X = rows()[0]
    for method in set(ESTIMATORS[estimator].methods) - set(but):
        assert_equal(getattr(other, method)(X), getattr(one, method)(X), RTOL, method)


def fit(estimator, X, y, weight=None, **parameters):
    case = ESTIMATORS[estimator]
    return case.fit(clone(case.model).set_params(**parameters), (X, y, weight))


@pytest.mark.parametrize("estimator", ALL)
def test_weights_are_repetitions(estimator):
    X, y, _ = data(estimator)
    times = np.random.default_rng(1).integers(0, 4, size=len(y))
    often = np.repeat(X, times, axis=0), np.repeat(y, times)
    assert_same(estimator, fit(estimator, *often), fit(estimator, X, y, times.astype(float)))


@pytest.mark.parametrize("estimator", ALL)
def test_the_order_of_rows_does_not_matter(estimator):
    X, y, weight = data(estimator)
    order = np.random.default_rng(2).permutation(len(y))
    shuffled = fit(estimator, X[order], y[order], weight[order])
    assert_same(estimator, fit(estimator, X, y, weight), shuffled)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("factor", [0.125, 8.0])
def test_a_factor_of_weights_is_one_of_the_penalty(estimator, factor):
    X, y, weight = data(estimator)
    model = ESTIMATORS[estimator].model
    penalties = {name for name in ("C", "Cs", "estimator__C") if name in model.get_params()}
    scaled = {name: np.asarray(model.get_params()[name]) / factor for name in penalties}
    scaled = {name: C.tolist() for name, C in scaled.items()}
    other = fit(estimator, X, y, factor * weight, **scaled)
    assert_same(estimator, fit(estimator, X, y, weight), other)


# Limits leave nothing to costs; those of minimax machines are for two classes.
WITHOUT_COSTS = {"minimax, three classes", "sparse minimax, three classes"}
WITH_COSTS = [
    name
    for name, case in ESTIMATORS.items()
    if hasattr(case.model, "costs")
    and getattr(case.model, "max_fpr", None) is None
    and name not in WITHOUT_COSTS
]


# some cases have balanced weights, which is said to pay twice
@pytest.mark.filterwarnings("ignore:class_weight='balanced' beside costs")
@pytest.mark.parametrize("unit", [1e-200, 0.125, 7.0, 1e200])
@pytest.mark.parametrize("estimator", WITH_COSTS)
def test_the_unit_of_costs_does_not_matter(estimator, unit):
    X, y, weight = data(estimator)
    model = ESTIMATORS[estimator].model
    costs = {label: 1.0 + label for label in np.unique(y).tolist()}
    given, other = {"costs": costs}, {"costs": {k: unit * c for k, c in costs.items()}}
    if getattr(model, "reject_cost", None) is not None:
        given["reject_cost"], other["reject_cost"] = 0.4, 0.4 * unit
    one, same = (fit(estimator, X, y, weight, **p) for p in (given, other))
    assert_same(estimator, one, same, but=["expected_costs"])
    # what is a cost is in that unit
    if hasattr(one, "expected_costs"):
        X = rows()[0]
        assert_equal(same.expected_costs(X) / unit, one.expected_costs(X), RTOL, "costs")
    if hasattr(one, "expected_error_path_"):
        found = same.expected_error_path_ / unit
        assert_equal(found, one.expected_error_path_, RTOL, "expected error")
    if hasattr(one, "cost_matrix_"):
        assert_equal(same.cost_matrix_ / unit, one.cost_matrix_, RTOL, "cost matrix")


@pytest.mark.parametrize("unit", [0.125, 7.0])
def test_the_unit_of_costs_does_not_matter_to_batches(unit):
    X, y, weight = data("undecided")
    models = [
        TightBoundLogisticRegression(costs={0: 1.0 * by, 1: 3.0 * by}, reject_cost=0.4 * by)
        for by in (1.0, unit)
    ]
    for model in models:
        model.partial_fit(X, y, classes=[0, 1], sample_weight=weight)
    assert_same("undecided", *models)
    for model in models:
        model.fit(X, y, weight).partial_fit(X, y, sample_weight=weight)
    assert_same("undecided", *models)
