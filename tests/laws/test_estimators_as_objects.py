"""What a user expects of every estimator as an object: labels, pickles, refits, errors, Ctrl-C."""

import pickle
import sys

import numpy as np
import pytest
from carriers import ESTIMATORS, assert_equal, rows
from every import every
from sklearn.base import clone
from state import assert_as_before, frozen

LABELS = {
    2: (["no", "yes"], [-3, 12], [1.0, 3.0], [False, True]),
    3: (["no", "perhaps", "yes"], [-3, 4, 12], [0.0, 2.0, 3.0]),
}


def data(name):
    X, y, weight = rows()
    return X, y[ESTIMATORS[name].n_classes], weight


def fit(name, X, y, weight=None):
    case = ESTIMATORS[name]
    return case.fit(clone(case.model), (X, y, weight))


def answers(name, model, X):
    return {method: getattr(model, method)(X) for method in ESTIMATORS[name].methods}


def public(estimator):
    return {name for name in vars(estimator) if not name.startswith("_")}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_pickle_is_the_same_model(name):
    X, y, weight = data(name)
    model = fit(name, X, y, weight)
    again = pickle.loads(pickle.dumps(model))
    assert public(again) == public(model)
    for method, values in answers(name, model, X).items():
        np.testing.assert_array_equal(getattr(again, method)(X), values)


def names_labels(name):
    """Return whether costs of a case name its labels, so that others would need other costs."""
    return isinstance(getattr(ESTIMATORS[name].model, "costs", None), dict)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if not names_labels(name)])
def test_labels_are_names_and_nothing_else(name):
    X, y, weight = data(name)
    plain = answers(name, fit(name, X, y, weight), X)
    for labels in map(np.array, LABELS[ESTIMATORS[name].n_classes]):
        model = fit(name, X, labels[y], weight)
        assert model.classes_.tolist() == labels.tolist()
        for method, values in answers(name, model, X).items():
            if method == "predict":
                decided = np.isin(plain[method], np.unique(y))
                np.testing.assert_array_equal(values[decided], labels[plain[method][decided]])
                assert not np.isin(values[~decided], labels).any()
            else:
                assert_equal(values, plain[method], 1e-10, method)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_is_left_of_an_earlier_fit(name):
    X, y, weight = data(name)
    fresh = fit(name, X, y, weight)
    used = clone(ESTIMATORS[name].model)
    ESTIMATORS[name].fit(used, (np.float32(2.0) * X[::-1, :2], y))
    ESTIMATORS[name].fit(used, (X, y, weight))
    assert vars(used).keys() == vars(fresh).keys()
    for method, values in answers(name, fresh, X).items():
        np.testing.assert_array_equal(getattr(used, method)(X), values)


def with_entry(values, entry):
    return np.where(np.arange(len(values)) == 5, entry, values.T).T


BAD = {
    "one class": (lambda X, y, w: (X, 0 * y, w), "class"),
    "nan": (lambda X, y, w: (with_entry(X, np.nan), y, w), "Input X contains NaN"),
    "continuous": (lambda X, y, w: (X, X[:, 0], w), "(?i)unknown label type|continuous"),
    "no labels": (lambda X, y, w: (X, None, w), "requires y to be passed"),
    "rows missing": (lambda X, y, w: (X[1:], y, w), "inconsistent numbers of samples"),
    "negative weight": (lambda X, y, w: (X, y, with_entry(w, -1.0)), "must not be negative"),
    "weight nan": (lambda X, y, w: (X, y, with_entry(w, np.nan)), "(?i)finite|NaN"),
    "no weight": (lambda X, y, w: (X, y, 0.0 * w), "must have a positive entry|zero"),
    "weights too few": (lambda X, y, w: (X, y, w[1:]), r"shape \(150,\)|inconsistent"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@every("kind", BAD)
def test_an_error_leaves_the_estimator_as_it_was(name, kind):
    change, words = BAD[kind]
    given = data(name)
    for model in (clone(ESTIMATORS[name].model), fitted_once(name)):
        before = frozen(model)
        with pytest.raises((ValueError, TypeError), match=words):
            ESTIMATORS[name].fit(model, change(*given))
        assert_as_before(model, before)


KEPT = {}


def fitted_once(name):
    """Return a fitted model that tests share, as none of them may change it."""
    if name not in KEPT:
        KEPT[name] = fit(name, *data(name))
    return KEPT[name]


class Interruption:
    """Raise KeyboardInterrupt at the k-th call of a function of the package; count calls before."""

    def __init__(self, at=None):
        self.at, self.calls = at, 0

    def __enter__(self):
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)

    def _profile(self, frame, event, argument):
        if event == "call" and frame.f_globals.get("__name__", "").startswith("grayzone."):
            self.calls += 1
            if self.calls == self.at:
                raise KeyboardInterrupt


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_interruption_leaves_the_estimator_as_it_was(name):
    X, y, weight = data(name)
    other = 2.0 * X[:, :2], np.roll(y, 7), weight
    with Interruption() as counted:
        ESTIMATORS[name].fit(clone(ESTIMATORS[name].model), other)
    for at in (counted.calls // 3, 2 * counted.calls // 3, counted.calls - 5):
        for model in (clone(ESTIMATORS[name].model), fitted_once(name)):
            before = frozen(model)
            with pytest.raises(KeyboardInterrupt), Interruption(at):
                ESTIMATORS[name].fit(model, other)
            assert_as_before(model, before)
