"""The same rows give the same model, whatever carries them: one table of estimators and carriers.

Each cell of the table is fitted and held against the model of NumPy arrays, or listed as refused
with its error, or not to be had on this machine; none is passed over.
"""

import inspect
import pickle
import re

import numpy as np
import pytest
from array_api_compat import array_namespace, device, is_array_api_obj
from carriers import (
    ABSENT,
    BAD,
    CARRIERS,
    ELSEWHERE,
    ESTIMATORS,
    GPU,
    NAMES,
    REFUSED,
    REFUSED_IN_PREDICT,
    assert_equal,
    fitted_attributes,
    is_effort,
    plain,
    rows,
)
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

import grayzone
from grayzone.arrays import move_to, to_numpy

# What rounding errors may add up to, relative to the largest entry: of models, and of predictions
# in double and in single precision.
RTOL = 1e-8
RTOL_OF = {"float64": RTOL, "float32": 1e-6}
# What single precision of X is to give in predictions.
FROM_SINGLE = np.float32


def pairs(name, kinds, carriers):
    """Parametrise by kinds of something and carriers."""
    parameters = []
    for carrier in carriers:
        for kind in kinds:
            marks = [pytest.mark.gpu] if carrier in GPU else []
            parameters.append(pytest.param(kind, carrier, marks=marks, id=f"{kind}-{carrier}"))
    return pytest.mark.parametrize((name, "carrier"), parameters)


def cells(carriers=tuple(CARRIERS)):
    """Parametrise by all estimators and carriers."""
    return pairs("estimator", ESTIMATORS, carriers)


@pytest.fixture(autouse=True, scope="module")
def one_thread_of_dask():
    try:
        import dask
    except ImportError:  # then there is none of its carriers either
        yield
        return
    with dask.config.set(scheduler="synchronous"):
        yield


def fit(estimator, carrier, folder):
    """Fit a model to the rows that a carrier brings."""
    case, form = ESTIMATORS[estimator], CARRIERS[carrier]
    X, y, weight = rows()
    with form.context():
        given = form.fit_arguments(folder, X, y[case.n_classes], weight)
        return case.fit(clone(case.model), given)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Function that gives models, and fits each one once."""
    models = {}

    def known(estimator, carrier):
        if (estimator, carrier) not in models:
            models[estimator, carrier] = fit(estimator, carrier, tmp_path_factory.mktemp("rows"))
        return models[estimator, carrier]

    return known


def skip_unless_here(carrier):
    reason = CARRIERS[carrier].missing()
    if reason is not None:
        pytest.skip(reason)


def refusal(table, estimator, carrier):
    """Return the error of a cell and what it says."""
    error, match = table[estimator, carrier]
    return error, match.replace("{name}", type(ESTIMATORS[estimator].model).__name__)


# ------------------------------------------------------------------------------------------
# The table
# ------------------------------------------------------------------------------------------


def test_every_public_classifier_is_in_the_table():
    public = (getattr(grayzone, name) for name in grayzone.__all__)
    estimators = {c for c in public if inspect.isclass(c) and issubclass(c, BaseEstimator)}
    # an ensemble is for tables in memory: its forests are, and what `train` makes of it is
    in_memory = {grayzone.DecisionEnsembleClassifier, grayzone.DecisionModel}
    assert estimators - in_memory == {type(case.model) for case in ESTIMATORS.values()}


def test_what_the_tables_name_is_in_the_table():
    table = {(e, c) for e in ESTIMATORS for c in CARRIERS}
    assert REFUSED.keys() | REFUSED_IN_PREDICT.keys() | ABSENT.keys() <= table
    # so that a carrier which is refused more often than today is noticed
    assert (len(ESTIMATORS), len(CARRIERS), len(REFUSED)) == (37, 21, 132)


@cells()
def test_the_model_is_that_of_numpy(estimator, carrier, fitted, tmp_path, record_property):
    record_property("carrier law", "not to be had here")
    skip_unless_here(carrier)
    if (estimator, carrier) in REFUSED:
        record_property("carrier law", "refused")
        error, match = refusal(REFUSED, estimator, carrier)
        with pytest.raises(error, match=match):
            fit(estimator, carrier, tmp_path)
        return
    record_property("carrier law", "fitted")
    case, form = ESTIMATORS[estimator], CARRIERS[carrier]
    found, expected = fitted(estimator, carrier), fitted(estimator, case.reference(form))
    assert_same_attributes(found, expected, ABSENT.get((estimator, carrier), frozenset()), form)
    assert_same_predictions(found, expected, case, form, tmp_path)
    if carrier != "array-api-strict":  # whose arrays cannot be pickled
        again = pickle.loads(pickle.dumps(found))
        assert_same_predictions(again, expected, case, form, tmp_path)


def assert_same_attributes(found, expected, absent, form):
    mine, others = fitted_attributes(found), fitted_attributes(expected)
    if form.named:
        assert list(mine.pop("feature_names_in_")) == NAMES
    assert mine.keys() == others.keys() - absent
    for name, value in mine.items():
        wanted = others[name]
        if isinstance(value, BaseEstimator):
            assert_same_attributes(value, wanted, absent, form)
        elif is_effort(name):
            assert np.shape(plain(value)) == np.shape(wanted), name
            assert np.all(np.isfinite(plain(value))), name
        else:
            assert_equal(plain(value), plain(wanted), RTOL, name)


def assert_same_predictions(found, expected, case, form, folder):
    X = rows()[0]
    for method in case.methods:
        with form.context():
            mine = getattr(found, method)(form.rows(folder, X))
            assert_there(mine, form, folder)
            mine = plain(mine)
        wanted = getattr(expected, method)(X)
        rtol = RTOL_OF.get(mine.dtype.name, 0.0)
        assert_equal(mine.astype(wanted.dtype), wanted, rtol, method)


def assert_there(values, form, folder):
    """Check that predictions are where the rows are, and of their kind."""
    if form.kind == "elsewhere":
        X = form.rows(folder, rows()[0])
        assert array_namespace(values) is array_namespace(X)
        assert device(values) == device(X)
    elif form.kind == "cluster":
        assert hasattr(values, "dask")
    elif form.held:
        assert isinstance(values, np.ndarray)
    else:
        assert inspect.isgenerator(values)


@cells()
def test_a_model_of_numpy_predicts_for_every_carrier(estimator, carrier, fitted, tmp_path):
    skip_unless_here(carrier)
    case, form = ESTIMATORS[estimator], CARRIERS[carrier]
    model = model_of_numpy(fitted, estimator, form, tmp_path)
    if (estimator, carrier) not in REFUSED_IN_PREDICT:
        assert_same_predictions(model, fitted(estimator, "NumPy"), case, form, tmp_path)
        return
    error, match = refusal(REFUSED_IN_PREDICT, estimator, carrier)
    for method in case.methods:
        with form.context(), pytest.raises(error, match=match):
            plain(getattr(model, method)(form.rows(tmp_path, rows()[0])))


def model_of_numpy(fitted, estimator, form, folder):
    """Return a model of rows in NumPy's memory, moved to where it is to predict."""
    # a model that knows names wants them
    model = fitted(estimator, "pandas" if form.named else "NumPy")
    if form.kind != "elsewhere":
        return model
    with form.context():
        return move_to(model, form.rows(folder, rows()[0]))


@cells(ELSEWHERE)
def test_a_model_comes_home_and_goes_back(estimator, carrier, fitted, tmp_path):
    skip_unless_here(carrier)
    if (estimator, carrier) in REFUSED:
        pytest.skip("is not fitted there")
    case, form = ESTIMATORS[estimator], CARRIERS[carrier]
    found, there = fitted(estimator, carrier), form.rows(tmp_path, rows()[0])
    for name, value in fitted_attributes(found).items():
        if is_array_api_obj(value) and name not in HERE.get(type(found).__name__, ()):
            assert array_namespace(value) is array_namespace(there), name
            assert device(value) == device(there), name
    home = to_numpy(found)
    arrays = [v for v in fitted_attributes(home).values() if is_array_api_obj(v)]
    assert {type(values) for values in arrays} == {np.ndarray}
    with form.context():
        back = move_to(home, there)
    assert_same_predictions(found, home, case, form, tmp_path)
    assert_same_predictions(back, home, case, form, tmp_path)


@cells(ELSEWHERE)
def test_rows_of_another_place_are_an_error_that_says_so(estimator, carrier, fitted, tmp_path):
    skip_unless_here(carrier)
    if (estimator, carrier) in REFUSED_IN_PREDICT:
        pytest.skip("does not predict there")
    case, form = ESTIMATORS[estimator], CARRIERS[carrier]
    here = fitted(estimator, "NumPy")
    there = model_of_numpy(fitted, estimator, form, tmp_path)
    name, X = type(case.model).__name__, rows()[0]
    for method in case.methods:
        wrong = rf"{name}\.{method}\(\) must use the same namespace and the same device as"
        with form.context():
            with pytest.raises(ValueError, match=wrong):
                getattr(here, method)(form.rows(tmp_path, X))
            with pytest.raises(ValueError, match=wrong):
                getattr(there, method)(X)
        with pytest.raises(ValueError, match=rf"{wrong}.*dispatch is off.*move_to"):
            getattr(there, method)(X)


# Attributes that are NumPy's wherever the rows are.
HERE: dict[str, tuple[str, ...]] = {"BayesDecisionClassifier": ("cost_matrix_",)}


@cells([name for name, form in CARRIERS.items() if form.single])
def test_predictions_have_the_precision_of_the_rows(estimator, carrier, fitted, tmp_path):
    skip_unless_here(carrier)
    case, form = ESTIMATORS[estimator], CARRIERS[carrier]
    if (estimator, carrier) in REFUSED:
        pytest.skip("is not fitted there")
    model = fitted(estimator, carrier)
    for method in set(case.methods) - {"predict"}:
        with form.context():
            values = plain(getattr(model, method)(form.rows(tmp_path, rows()[0])))
        assert values.dtype == FROM_SINGLE, method


NAMED = ["linear", "import points", "import points, three classes", "minimax", "undecided"]


@pairs("estimator", NAMED, CARRIERS)
def test_labels_may_be_names(estimator, carrier, fitted, tmp_path):
    skip_unless_here(carrier)
    if (estimator, carrier) in REFUSED:
        pytest.skip("is not fitted there")
    case, form = ESTIMATORS[estimator], CARRIERS[carrier]
    X, y, weight = rows()
    names = np.array(["bad", "good", "ugly"])
    given = list(form.fit_arguments(tmp_path, X, names[y[case.n_classes]], weight))
    with form.context():
        model = case.fit(clone(case.model), given)
        found = plain(model.predict(form.rows(tmp_path, X)))
        scores = plain(model.decision_function(form.rows(tmp_path, X)))
    expected = fitted(estimator, "NumPy")
    assert isinstance(model.classes_, np.ndarray)
    assert model.classes_.tolist() == names[: case.n_classes].tolist()
    wanted = expected.predict(X)
    np.testing.assert_array_equal(found, np.where(wanted < 0, "undecided", names[wanted]))
    wanted = expected.decision_function(X)
    assert_equal(scores.astype(wanted.dtype), wanted, RTOL_OF[scores.dtype.name], "scores")


# ------------------------------------------------------------------------------------------
# Bad input
# ------------------------------------------------------------------------------------------


def raised(call):
    """Return the error that a call ends with, or None."""
    try:
        call()
    except Exception as error:
        return error
    return None


def assert_says(error, kind, match, where):
    assert type(error) is kind, f"{where}: {error!r}"
    assert re.search(match, str(error), re.DOTALL), f"{where}: {error}"


@pairs("kind", BAD, CARRIERS)
def test_errors_are_the_same_and_leave_no_trace(kind, carrier, tmp_path):
    skip_unless_here(carrier)
    bad, form = BAD[kind], CARRIERS[carrier]
    if carrier in bad.without:
        pytest.skip("cannot bring such rows")
    X, y, weight = rows()
    for estimator, case in ESTIMATORS.items():
        if (estimator, carrier) in REFUSED:
            continue
        model = clone(case.model)
        before = dict(vars(model))
        with form.context():
            given = bad.change(X, y[case.n_classes], weight)
            error = raised(lambda: case.fit(model, form.fit_arguments(tmp_path, *given)))  # noqa: B023
        assert_says(error, bad.error, bad.match(carrier, model), estimator)
        assert vars(model) == before, estimator


@pairs("kind", ["not fitted", "other features", "NaN"], CARRIERS)
def test_errors_of_predictions_are_the_same(kind, carrier, fitted, tmp_path):
    skip_unless_here(carrier)
    form = CARRIERS[carrier]
    X = rows()[0]
    X[70, 1] = np.nan if kind == "NaN" else 0.0
    given = X[:, :2] if kind == "other features" else X
    for estimator, case in ESTIMATORS.items():
        if (estimator, carrier) in REFUSED_IN_PREDICT:
            continue
        if kind == "not fitted":
            model = case.model
        else:
            model = model_of_numpy(fitted, estimator, form, tmp_path)
        error, said = error_of_predictions(kind, case.model, form)
        for method in case.methods:
            with form.context():
                found = raised(
                    lambda: plain(getattr(model, method)(form.rows(tmp_path, given)))  # noqa: B023
                )
            assert_says(found, error, said, f"{estimator}.{method}")


def error_of_predictions(kind, model, form):
    """Return the type of the error and the pattern of what it says."""
    inner = getattr(model, "estimator", model)
    name = f"({type(model).__name__}|{type(inner).__name__})"
    if kind == "not fitted":
        return NotFittedError, f"This {type(model).__name__} instance is not fitted yet"
    if kind == "NaN":
        return ValueError, r"Input X contains NaN\.|Column 'dose' has 1 nulls"
    if form.named:  # names are looked at first
        return ValueError, "feature names should match those that were passed|X has 2 features"
    return ValueError, f"X has 2 features, but {name} is expecting 3 features as input"
