"""What a model must not depend on: how often a row is written, its place, and units of measure."""

import numpy as np
import pytest
from carriers import ESTIMATORS, assert_equal, rows
from sklearn.base import clone

RTOL = 1e-8
# Folds and held-out rows are drawn among rows, so that copies and places of rows change them.
DRAWN = {
    "search",
    "import point search",
    "import points, held-out rows",
    "bounds, held-out rows",
}
# These are trained by costs, which are then weights of rows: their unit is one of the penalty.
TRAINED_BY_COSTS = {"bounds": "C", "one bound": "C"}
TRAINED_BY_COSTS["bounds of any model"] = "estimator__C"
NOT_YET = {
    "undecided": "the first fit is to the log-loss without costs: no penalty makes up for them"
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
    return clone(ESTIMATORS[estimator].model).set_params(**parameters).fit(X, y, weight)


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


WITH_COSTS = [
    pytest.param(name, marks=[pytest.mark.xfail(reason=NOT_YET[name])] if name in NOT_YET else [])
    for name, case in ESTIMATORS.items()
    if hasattr(case.model, "costs") and getattr(case.model, "max_fpr", None) is None
]


@pytest.mark.parametrize("unit", [0.125, 8.0])
@pytest.mark.parametrize("estimator", WITH_COSTS)
def test_the_unit_of_costs_does_not_matter(estimator, unit):
    X, y, weight = data(estimator)
    model = ESTIMATORS[estimator].model
    costs = {label: 1.0 + label for label in np.unique(y).tolist()}
    given, other = {"costs": costs}, {"costs": {k: unit * c for k, c in costs.items()}}
    if getattr(model, "reject_cost", None) is not None:
        given["reject_cost"], other["reject_cost"] = 0.4, 0.4 * unit
    if estimator in TRAINED_BY_COSTS:
        other[TRAINED_BY_COSTS[estimator]] = 1.0 / unit
    one, same = (fit(estimator, X, y, weight, **p) for p in (given, other))
    assert_same(estimator, one, same, but=["expected_costs"])  # which are in that unit
