"""Fitted models from one array library to another: everything they hold moves, nothing else."""

from dataclasses import fields

import array_api_strict
import numpy as np
import pytest
from array_api_compat import is_array_api_obj, is_numpy_array
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from grayzone import (
    BayesDecisionClassifier,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
)
from grayzone.arrays import move_to, to_numpy
from grayzone.numerics.checks import as_numpy


@pytest.fixture(scope="module", params=["array_api_strict", "torch"])
def there(request):
    """Function that gives a NumPy array as one of another library."""
    return pytest.importorskip(request.param).asarray


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    return X, (X[:, 0] + 0.5 * rng.normal(size=150) > 0).astype(np.int64)


def arrays_of(value, path="model"):
    """Yield all arrays that an object holds, with their places."""
    if is_array_api_obj(value):
        yield path, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from arrays_of(part, f"{path}[{name!r}]")
    elif isinstance(value, (list, tuple)):
        for k, part in enumerate(value):
            yield from arrays_of(part, f"{path}[{k}]")
    elif hasattr(value, "__dict__") and not callable(value):
        for name, part in vars(value).items():
            yield from arrays_of(part, f"{path}.{name}")


def assert_all_here(model):
    assert [path for path, values in arrays_of(model) if not is_numpy_array(values)] == []


def test_steps_on_batches_go_on_elsewhere(there, data):
    X, y = data
    parts = [slice(k, k + 50) for k in (0, 50, 100)]

    def taken(model, place, *rows):
        for part in rows:
            model.partial_fit(place(X[part]), place(y[part]), classes=[0, 1])
        return model

    expected = taken(TightBoundLogisticRegression(), np.asarray, *parts)
    with config_context(array_api_dispatch=True):
        model = taken(TightBoundLogisticRegression(), there, parts[0])
    here = to_numpy(model)
    assert {f.name for f in fields(here._online)} == {f.name for f in fields(model._online)}
    assert_all_here(here)
    taken(here, np.asarray, parts[1])
    with config_context(array_api_dispatch=True):
        back = taken(move_to(here, there(X)), there, parts[2])
    assert (back._online.seen, back.n_iter_) == (150.0, 3)
    np.testing.assert_allclose(to_numpy(back).coef_, expected.coef_, rtol=1e-12)


def test_decisions_of_a_frozen_classifier_move_with_it(there, data):
    X, y = data
    X_there = there(X)
    frozen = FrozenEstimator(TruncatedLogisticRegression(zone=None).fit(X, y))
    model = BayesDecisionClassifier(frozen, costs={0: 5, 1: 1}).fit(X, y)
    with config_context(array_api_dispatch=True):
        found = move_to(model, X_there).predict(X_there)
    assert type(found) is type(X_there)
    np.testing.assert_array_equal(as_numpy(found), model.predict(X))


class Nested(BaseEstimator):
    """What no estimator here holds so far."""

    def __init__(self, given=None):
        self.given = given

    def fit(self, X, y=None):
        self.parts_ = {"list": [X, "word"], "tuple": (X, None), "names": np.array(["a", "b"])}
        return self


def test_containers_are_converted_and_parameters_are_not(data):
    X, _ = data
    there = array_api_strict.asarray(X)
    model = Nested(given=X).fit(X)
    moved = move_to(model, there)
    assert moved.given is X
    assert type(moved.parts_["list"][0]) is type(moved.parts_["tuple"][0]) is type(there)
    assert moved.parts_["list"][1:] == ["word"]
    assert moved.parts_["names"].tolist() == ["a", "b"]
    assert_all_here(to_numpy(moved))
    assert_all_here(model)


def test_training_data_of_a_linear_model_stay_behind(there, data):
    X, y = data
    moved = move_to(TruncatedLogisticRegression().fit(X, y), there(X))
    assert "_fit_X" not in vars(moved)
    with pytest.raises(AttributeError, match="when it is pickled or moved"):
        moved.support_vectors_  # noqa: B018
