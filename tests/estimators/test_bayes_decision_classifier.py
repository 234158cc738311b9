"""The meta-estimator: costs obeyed, and life inside scikit-learn."""

import array_api_strict
import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

from grayzone import BayesDecisionClassifier
from grayzone.decision import bayes_decision
from grayzone.metrics import expected_cost, make_cost_scorer
from grayzone.numerics.checks import as_numpy


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("reject_cost", [None, 0.2])
@pytest.mark.parametrize("library_of_y", ["numpy", "strict", "torch"])
def test_actions_follow_the_rows_and_not_the_labels(library_of_y, reject_cost, frozen):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    there = array_api_strict.asarray(X, device=array_api_strict.Device("device1"))
    if library_of_y == "torch":
        labels = pytest.importorskip("torch").asarray(y)
    else:
        labels = y if library_of_y == "numpy" else array_api_strict.asarray(y)
    expected = BayesDecisionClassifier(LogisticRegression(), reject_cost=reject_cost).fit(X, y)
    with sklearn.config_context(array_api_dispatch=True):
        model = LogisticRegression()
        model = FrozenEstimator(model.fit(there, labels)) if frozen else model
        clf = BayesDecisionClassifier(model, reject_cost=reject_cost).fit(there, labels)
        found = clf.predict(there)
        if not frozen:
            assert clf.actions_.device == there.device
    if frozen and library_of_y == "numpy":
        assert isinstance(found, np.ndarray)  # where the classes of the frozen one are
    else:
        assert found.device == there.device
    np.testing.assert_array_equal(as_numpy(found), expected.predict(X))


@pytest.fixture(scope="module")
def unbalanced():
    return make_classification(
        400,
        5,
        n_informative=3,
        n_redundant=0,
        weights=[0.8],
        flip_y=0.1,
        class_sep=1.5,
        random_state=0,
    )


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def blurred(y, seed=0):
    """Relabel a fifth of the rows, so that there is something to be undecided about."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(y)) < 0.2, rng.permutation(y), y)


# Costs obeyed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "costs", [None, "balanced", {0: 1, 1: 7}, [[0, 3], [1, 0]], [[0.5, 3], [1, 0.25]]]
)
def test_predict_is_the_threshold_rule(unbalanced, costs):
    X, y = unbalanced
    clf = BayesDecisionClassifier(LogisticRegression(), costs=costs).fit(X, y)
    p = LogisticRegression().fit(X, y).predict_proba(X)[:, 1]
    np.testing.assert_array_equal(clf.predict(X), (p >= clf.threshold_).astype(int))
    np.testing.assert_array_equal(clf.predict_proba(X)[:, 1], p)


def test_threshold_values(unbalanced):
    X, y = unbalanced

    def threshold(costs, **fit_params):
        return BayesDecisionClassifier(GaussianNB(), costs=costs).fit(X, y, **fit_params).threshold_

    assert threshold(None) == 0.5
    assert threshold({0: 1, 1: 4}) == 0.2
    assert threshold("balanced") == pytest.approx(y.mean(), rel=1e-14)
    weights = np.random.default_rng(0).random(len(y))
    weighted = np.average(y, weights=weights)
    assert threshold("balanced", sample_weight=weights) == pytest.approx(weighted, rel=1e-12)


def test_costs_lower_the_cost_they_describe(unbalanced):
    X, y = unbalanced
    costs = {0: 1, 1: 9}
    plain = LogisticRegression().fit(X, y)
    wise = BayesDecisionClassifier(LogisticRegression(), costs=costs).fit(X, y)
    assert expected_cost(y, wise.predict(X), costs=costs) < 0.8 * expected_cost(
        y, plain.predict(X), costs=costs
    )


def test_three_classes_and_a_matrix(iris):
    X, y = iris
    y = blurred(y)
    cost = np.asarray([[0, 1, 5], [1, 0, 5], [1, 1, 0]])
    clf = BayesDecisionClassifier(LogisticRegression(max_iter=500), costs=cost).fit(X, y)
    proba = clf.predict_proba(X)
    np.testing.assert_array_equal(clf.predict(X), bayes_decision(proba, cost))
    np.testing.assert_allclose(clf.expected_costs(X), proba @ cost)
    np.testing.assert_array_equal(clf.cost_matrix_, cost)
    np.testing.assert_array_equal(clf.actions_, [0, 1, 2])
    assert clf.threshold_ is None


@pytest.mark.parametrize("reject", [0.25, {0: 0.1, 1: 0.3, 2: 0.2}, [0.1, 0.3, 0.2]])
def test_undecided_where_deciding_is_expected_to_cost_more(iris, reject):
    X, y = iris
    y = blurred(y)
    clf = BayesDecisionClassifier(LogisticRegression(max_iter=500), reject_cost=reject).fit(X, y)
    per_class = np.full(3, 0.25) if isinstance(reject, float) else np.asarray([0.1, 0.3, 0.2])
    expected = clf.expected_costs(X)
    assert expected.shape == (len(X), 4)
    np.testing.assert_allclose(expected[:, 3], clf.predict_proba(X) @ per_class)
    np.testing.assert_array_equal(clf.actions_, [0, 1, 2, -1])
    got = clf.predict(X)
    undecided = expected[:, 3] < expected[:, :3].min(axis=1)
    np.testing.assert_array_equal(got == -1, undecided)
    np.testing.assert_array_equal(got[~undecided], expected[~undecided, :3].argmin(axis=1))
    assert 0 < undecided.mean() < 1
    assert clf.predict_proba(X).shape == (len(X), 3)
    assert clf.threshold_ is None


def test_undecided_rows_count_as_errors_in_score(unbalanced):
    X, y = unbalanced
    clf = BayesDecisionClassifier(LogisticRegression(), reject_cost=0.1).fit(X, y)
    assert clf.score(X, y) == np.mean(clf.predict(X) == y)
    assert clf.threshold_ is None


def test_no_threshold_where_an_error_is_cheaper(unbalanced):
    X, y = unbalanced
    clf = BayesDecisionClassifier(LogisticRegression(), costs=[[1, 0], [0, 1]]).fit(X, y)
    assert clf.threshold_ is None
    np.testing.assert_array_equal(clf.predict(X), clf.predict_proba(X)[:, 1] <= 0.5)


# Labels -----------------------------------------------------------------------------------


def test_string_labels_do_not_cut_the_undecided_label_short(unbalanced):
    X, y = unbalanced
    names = np.asarray(["n", "y"])[y]
    clf = BayesDecisionClassifier(LogisticRegression(), reject_cost=0.3).fit(X, names)
    assert set(clf.predict(X)) == {"n", "y", "undecided"}
    assert clf.actions_.tolist() == ["n", "y", "undecided"]


@pytest.mark.parametrize(
    ("labels", "undecided_label", "message"),
    [
        ([-1, 1], "auto", r"stands for -1, which is one of the classes \[-1, 1\]"),
        ([0, 1], 1, r"stands for 1, which is one of the classes"),
        (["a", "b"], 0, r"cannot stand beside the classes \['a', 'b'\]: give a string"),
        ([0, 1], "?", r"cannot stand beside the classes \[0, 1\]: give a number"),
    ],
)
def test_undecided_labels_that_do_not_fit(unbalanced, labels, undecided_label, message):
    X, y = unbalanced
    clf = BayesDecisionClassifier(
        LogisticRegression(), reject_cost=0.1, undecided_label=undecided_label
    )
    with pytest.raises(ValueError, match=message):
        clf.fit(X, np.asarray(labels)[y])


def test_a_class_may_be_minus_one_if_nobody_abstains(unbalanced):
    X, y = unbalanced
    clf = BayesDecisionClassifier(LogisticRegression()).fit(X, 2 * y - 1)
    assert set(clf.predict(X)) == {-1, 1}


# Fitting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"costs": {0: 1, 1: 1, 2: 1}}, r"costs names \[2\], not among the classes \[0, 1\]"),
        ({"costs": "cheap"}, r"the only string allowed is 'balanced'"),
        ({"costs": np.ones((3, 3))}, r"costs has shape \(3, 3\); expected \(2, 2\)"),
        ({"reject_cost": -1}, r"reject_cost must not be negative"),
    ],
)
def test_errors_of_parameters(unbalanced, params, message):
    with pytest.raises(ValueError, match=message):
        BayesDecisionClassifier(LogisticRegression(), **params).fit(*unbalanced)


def test_an_estimator_without_probabilities_is_refused(unbalanced):
    with pytest.raises(TypeError, match=r"with predict_proba, which LinearSVC lacks"):
        BayesDecisionClassifier(LinearSVC()).fit(*unbalanced)


def test_several_labels_per_row_are_refused(unbalanced):
    X, y = unbalanced
    with pytest.raises(ValueError, match="Unknown label type: multilabel-indicator"):
        BayesDecisionClassifier(KNeighborsClassifier()).fit(X, np.stack([y, 1 - y], axis=1))


class Interrupted(ClassifierMixin, BaseEstimator):
    """A classifier whose second fit never ends well."""

    def __init__(self, error=None):
        self.error = error

    def fit(self, X, y):
        if self.error is not None:
            raise self.error
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.tile([0.25, 0.75], (len(X), 1))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("fitted", [False, True])
def test_a_fit_that_fails_changes_nothing(unbalanced, error, fitted):
    X, y = unbalanced
    clf = BayesDecisionClassifier(Interrupted(), costs={0: 1, 1: 4})
    if fitted:
        clf.fit(X, y)
    clf.set_params(estimator__error=error)
    before = dict(vars(clf))
    with pytest.raises(error):
        clf.fit(X, y)
    assert vars(clf) == before
    if fitted:
        assert clf.predict(X[:2]).tolist() == [1, 1]
    else:
        with pytest.raises(NotFittedError):
            clf.predict(X)


def test_late_failures_change_nothing_either(unbalanced):
    X, y = unbalanced
    clf = BayesDecisionClassifier(LogisticRegression()).fit(X, y)
    before = dict(vars(clf))
    clf.costs = {"unknown": 1}
    with pytest.raises(ValueError, match="unknown"):
        clf.fit(X, y)
    assert vars(clf) == {**before, "costs": {"unknown": 1}}


def test_methods_follow_the_wrapped_classifier(unbalanced):
    X, y = unbalanced
    assert not hasattr(BayesDecisionClassifier(GaussianNB()), "decision_function")
    assert not hasattr(BayesDecisionClassifier(LinearSVC()), "predict_proba")
    clf = BayesDecisionClassifier(LogisticRegression()).fit(X, y)
    inner = LogisticRegression().fit(X, y)
    for method in ("decision_function", "predict_proba", "predict_log_proba"):
        np.testing.assert_array_equal(getattr(clf, method)(X), getattr(inner, method)(X))


def test_frozen_estimators_are_not_refitted(iris):
    X, y = iris
    inner = LogisticRegression(max_iter=500).fit(X, y)
    coef = inner.coef_.copy()
    subset = y > 0  # class 0 is not in the data given, but known to the classifier
    clf = BayesDecisionClassifier(FrozenEstimator(inner), costs={0: 1, 1: 2, 2: 3})
    clf.fit(X[subset], y[subset])
    np.testing.assert_array_equal(clf.classes_, [0, 1, 2])
    np.testing.assert_array_equal(inner.coef_, coef)
    assert clf.estimator_.estimator is inner
    np.testing.assert_array_equal(clf.predict(X), bayes_decision(inner.predict_proba(X), [1, 2, 3]))
    clf.set_params(costs="balanced")
    with pytest.raises(ValueError, match=r"costs='balanced' is undefined: \[0\] never occurs"):
        clf.fit(X[subset], y[subset])


def test_frozen_estimator_takes_the_prior_from_the_data_given(unbalanced):
    X, y = unbalanced
    inner = LogisticRegression().fit(X, y)
    keep = np.flatnonzero((y == 1) | (np.arange(len(y)) % 4 == 0))
    clf = BayesDecisionClassifier(FrozenEstimator(inner), costs="balanced").fit(X[keep], y[keep])
    assert clf.threshold_ == pytest.approx(y[keep].mean())


def test_sample_weight_reaches_the_classifier(unbalanced):
    X, y = unbalanced
    weights = np.random.default_rng(0).random(len(y))
    clf = BayesDecisionClassifier(LogisticRegression()).fit(X, y, sample_weight=weights)
    inner = LogisticRegression().fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(clf.estimator_.coef_, inner.coef_)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_metadata_routing_through_a_search(unbalanced):
    X, y = unbalanced
    weights = np.random.default_rng(0).random(len(y))
    inner = LogisticRegression().set_fit_request(sample_weight=True)
    clf = BayesDecisionClassifier(inner, costs="balanced").set_fit_request(sample_weight=True)
    scorer = make_cost_scorer({0: 1, 1: 4}).set_score_request(sample_weight=True)
    search = GridSearchCV(clf, {"estimator__C": [1e-3, 1.0]}, scoring=scorer, cv=3)
    search.fit(X, y, sample_weight=weights)
    best = search.best_estimator_
    direct = LogisticRegression(C=best.estimator.C).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(best.estimator_.coef_, direct.coef_)


# Life inside scikit-learn -----------------------------------------------------------------


def test_search_over_costs_and_inner_parameters(unbalanced):
    X, y = unbalanced
    costs = {0: 1, 1: 8}
    grid = {"costs": [None, costs], "estimator__C": [0.01, 1.0]}
    search = GridSearchCV(
        BayesDecisionClassifier(LogisticRegression()), grid, scoring=make_cost_scorer(costs), cv=3
    ).fit(X, y)
    assert search.best_params_["costs"] == costs


def test_missing_attributes_stay_missing(unbalanced):
    class Silent(Interrupted):
        """Tells nothing about features."""

    clf = BayesDecisionClassifier(Silent()).fit(*unbalanced)
    assert not hasattr(clf, "n_features_in_")
    assert not hasattr(clf, "feature_names_in_")


def test_one_class_is_always_decided_for():
    clf = BayesDecisionClassifier(DummyClassifier()).fit(np.zeros((3, 1)), [7, 7, 7])
    assert clf.predict(np.zeros((2, 1))).tolist() == [7, 7]
