"""A class whose rows all weigh nothing is left out of a fit, and gets no probability.

Bootstrap replicates are weights: of a class of two rows one in seven has none.
"""

import numpy as np
import pytest
from carriers import CARRIERS, ESTIMATORS, plain, rows
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale
from sklearn.utils import get_tags

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachine,
    MinimaxProbabilityMachine,
    TightBoundClassifier,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
)

BAGGED = [
    TruncatedLogisticRegression(costs={0: 1.0, 1: 2.0, 2: 3.0}),
    TruncatedLogisticRegression(kernel="rbf"),
    ImportVectorMachine(max_import_points=5),
    TightBoundLogisticRegression(n_bounds=2),
    TightBoundClassifier(TruncatedLogisticRegression(), n_bounds=2),
    BayesDecisionClassifier(LogisticRegression()),
]


@pytest.mark.parametrize("model", BAGGED, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_bagging_with_a_class_of_two_rows(model, n_classes):
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    few = np.r_[:50, 50:100, 100:102] if n_classes == 3 else np.r_[:50, 50:52]
    if n_classes == 2 and hasattr(model, "costs"):
        model = clone(model).set_params(costs=None)
    bag = BaggingClassifier(model, n_estimators=20, random_state=0).fit(X[few], y[few])
    proba = bag.predict_proba(X[few])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    # some have seen the rare class, and some have not
    rare = np.array([inner.predict_proba(X[few])[:, -1].max() for inner in bag.estimators_])
    assert rare.min() < 1e-3 < 0.2 < rare.max()


# Limits and costs that are for two classes; what is drawn among rows is another draw of fewer.
LAW = [
    name
    for name, case in ESTIMATORS.items()
    if not any(
        word in name
        for word in ("limit", "held-out", "search", "centres", "decisions", "sparse minimax, costs")
    )
]


def of_three(name):
    X, y, weight = rows()
    return X, y[3], np.where(y[3] == 1, 0.0, weight), y[3] != 1


@pytest.mark.parametrize("name", LAW)
def test_the_others_are_fitted_as_if_there_were_no_more(name):
    X, y, weight, kept = of_three(name)
    case = ESTIMATORS[name]
    every = case.fit(clone(case.model), (X, y, weight))
    others = case.fit(clone(case.model), (X[kept], y[kept], weight[kept]))
    np.testing.assert_array_equal(every.classes_, [0, 1, 2])
    assert_never_the_second(case, every, others, X)


def assert_never_the_second(case, every, others, X):
    np.testing.assert_array_equal(plain(every.predict(X)), plain(others.predict(X)))
    if "predict_proba" in case.methods:
        proba = plain(every.predict_proba(X))
        np.testing.assert_allclose(proba[:, [0, 2]], plain(others.predict_proba(X)), atol=1e-6)
        assert not proba[:, 1].any()
    if "decision_function" in case.methods:
        scores = plain(every.decision_function(X))
        assert scores.shape[1] == 3
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("name", ["linear", "bounds"])
def test_wherever_the_rows_are(name, carrier, tmp_path):
    form, case = CARRIERS[carrier], ESTIMATORS[name]
    if form.missing():
        pytest.skip(form.missing())
    X, y, weight, kept = of_three(name)
    with form.context():
        every = case.fit(clone(case.model), form.fit_arguments(tmp_path, X, y, weight))
        predicted = plain(every.predict(form.rows(tmp_path, X)))
    others = case.fit(clone(case.model), (X[kept], y[kept], weight[kept]))
    np.testing.assert_array_equal(predicted, others.predict(X))
    np.testing.assert_array_equal(plain(every.classes_), [0, 1, 2])


COSTS = [[0.0, 5.0, 2.0], [1.0, 0.0, 1.0], [3.0, 4.0, 0.0]]
PER_CLASS = {
    "a mapping of costs": {"costs": {0: 2.0, 1: 7.0, 2: 1.0}},
    "a table of costs": {"costs": COSTS},
    "balanced costs": {"costs": "balanced"},
    "costs of staying undecided": {"reject_cost": {0: 0.2, 1: 0.9, 2: 0.3}},
    "weights of classes": {"class_weight": {0: 1.0, 1: 0.0, 2: 2.0}},
    "caps": {"zone": [0.7, 0.9, 0.8]},
    "caps by name": {"zone": {0: 0.7, 1: 0.9, 2: 0.8}},
}


@pytest.mark.parametrize("name", PER_CLASS)
def test_what_is_said_of_each_class(name):
    X, y, weight, kept = of_three(name)
    given = PER_CLASS[name]
    (key, value), places = *given.items(), [0, 2]
    if isinstance(value, dict):
        value = {label: value[label] for label in places}
    elif key == "costs" and value != "balanced":
        value = np.array(value)[np.ix_(places, places)]
    if key == "zone":
        value = (1.0 - 0.7, 0.8)
    every = TruncatedLogisticRegression(tol=1e-12, **given).fit(X, y, weight)
    others = TruncatedLogisticRegression(tol=1e-12, **{key: value})
    others.fit(X[kept], y[kept], weight[kept])
    assert_never_the_second(ESTIMATORS["linear"], every, others, X)
    assert every.cost_matrix_.shape == (3, 3)


def test_costs_of_rows():
    X, y, weight, kept = of_three("costs of rows")
    costs = {label: 1.0 + np.abs(X[:, label]) for label in range(3)}
    for model in (TruncatedLogisticRegression(tol=1e-12), TightBoundLogisticRegression(tol=1e-9)):
        every = clone(model).fit(X, y, weight, example_costs=costs)
        own = {label: costs[label][kept] for label in (0, 2)}
        others = clone(model).fit(X[kept], y[kept], weight[kept], example_costs=own)
        assert_never_the_second(ESTIMATORS["bounds"], every, others, X)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("model", [*BAGGED[1:4], TightBoundLogisticRegression(reject_cost=0.1)])
def test_the_only_class_that_is_left_is_certain(model, label):
    X, y, weight = rows()
    alone = clone(model).fit(X, y[2], sample_weight=weight * (y[2] == label))
    assert (alone.predict(X) == label).all()
    np.testing.assert_array_equal(alone.predict_proba(X), np.eye(2)[np.full(len(X), label)])
    assert np.isfinite(alone.predict_log_proba(X)).all()


def test_a_later_fit_starts_from_the_classes_that_were_there():
    X, y, weight, _ = of_three("warm start")
    for model in (TruncatedLogisticRegression(), TightBoundLogisticRegression(C=0.1)):
        model.set_params(warm_start=True, tol=1e-10).fit(X, y, weight).fit(X, y)
        anew = clone(model).fit(X, y)
        np.testing.assert_allclose(model.coef_, anew.coef_, atol=1e-4)
    online = TightBoundLogisticRegression().fit(X, y, weight).partial_fit(X, y)
    assert np.abs(online.intercept_).max() < 10.0


@pytest.mark.parametrize(
    "model",
    [
        MinimaxProbabilityMachine(),
        TightBoundLogisticRegression(max_fpr=0.1),
    ],
)
def test_bounds_and_limits_need_two_classes(model):
    X, y, weight = rows()
    with pytest.raises(ValueError, match=r"with a positive weight; got one class: \[1\]\."):
        model.fit(X, y[2], sample_weight=weight * y[2])


def test_bounds_for_two_classes_stay_so():
    X, y, weight, _ = of_three("costs")
    model = MinimaxProbabilityMachine(costs={0: 1.0, 1: 2.0, 2: 1.0})
    assert not get_tags(model).classifier_tags.multi_class
    with pytest.raises(ValueError, match=r"All rows of the classes \[1\] have weight zero"):
        model.fit(X, y, sample_weight=weight)
