"""Members that decide together: what they say, what it costs, what they take."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from grayzone import DecisionEnsembleClassifier
from grayzone.estimators._members import MEMBERS
from grayzone.metrics import expected_cost

QUICK = ["logistic-regression", DecisionTreeClassifier(max_depth=3, random_state=0)]
COSTS = {0: 5.0, 1: 1.0}


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.fixture(scope="module")
def fitted(cancer):
    X, y, _, _ = cancer
    return DecisionEnsembleClassifier(QUICK, costs=COSTS).fit(X, y)


def table(n=160):
    """Return a table with categories, gaps and a flag."""
    rng = np.random.default_rng(0)
    job = rng.choice(["clerk", "nurse", "pilot"], n)
    age = rng.normal(40.0, 10.0, n)
    y = np.where(0.08 * (age - 40) + (job == "pilot") + rng.normal(size=n) > 0.3, "bad", "good")
    age[::9] = np.nan
    data = {"age": age, "job": job, "member": rng.random(n) < 0.5, "sum": rng.exponential(size=n)}
    frame = pd.DataFrame(data)
    frame.loc[::11, "job"] = None
    return frame, y


def test_probabilities_are_the_stack_of_calibrated_log_odds(fitted, cancer):
    _, _, X, y = cancer
    proba = fitted.predict_proba(X)
    assert proba.shape == (len(X), 2)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), proba)
    odds = np.log(proba[:, 1]) - np.log(proba[:, 0])
    np.testing.assert_allclose(fitted.decision_function(X), odds, atol=1e-9)
    assert (fitted.predict(X) == (proba[:, 1] >= 5 / 6)).all()
    assert fitted.threshold_ == pytest.approx(5 / 6)
    assert (fitted.weights_ >= 0).all()
    assert fitted.kkt_residual_ <= 1e-8
    assert log_loss(y, proba) < 0.2


def test_costs_change_decisions_and_nothing_else(fitted, cancer):
    X, y, new, _ = cancer
    plain = DecisionEnsembleClassifier(QUICK).fit(X, y)
    np.testing.assert_array_equal(plain.predict_proba(new), fitted.predict_proba(new))
    assert plain.threshold_ == 0.5


def test_cost_is_that_of_rows_nobody_had_seen(fitted, cancer):
    """Calibration and weights of each fold come from the other folds."""
    X, y, new, truth = cancer
    decided = (fitted.cross_fitted_proba_[:, 1] >= 5 / 6).astype(int)
    assert fitted.cost_ == pytest.approx(expected_cost(y, decided, costs=COSTS))
    actual = expected_cost(truth, fitted.predict(new), costs=COSTS)
    assert abs(actual - fitted.cost_) < 4 * fitted.cost_error_
    # labels without any meaning: nothing that was fitted to them may look better than it is
    rng = np.random.default_rng(0)
    noise = DecisionEnsembleClassifier(QUICK).fit(X[:120, :4], rng.integers(0, 2, 120))
    assert noise.cost_ > 0.4
    assert set(noise.member_costs_) == {"logistic-regression", "decisiontreeclassifier"}


def test_undecided(cancer):
    X, y, new, _ = cancer
    wary = DecisionEnsembleClassifier(QUICK, reject_cost=0.1).fit(X, y)
    p = wary.predict_proba(new)[:, 1]
    np.testing.assert_array_equal(wary.predict(new) == -1, np.minimum(p, 1 - p) > 0.1)
    assert wary.threshold_ is None
    assert wary.actions_.tolist() == [0, 1, -1]
    assert wary.cost_ <= 0.1


def test_many_classes_and_names():
    X, y = load_wine(return_X_y=True)
    names = np.array(["a", "b", "c"])[y]
    model = DecisionEnsembleClassifier(QUICK, cv=3).fit(X, names)
    assert model.predict_proba(X).shape == (len(y), 3)
    assert np.mean(model.predict(X) == names) > 0.9
    assert model.decision_function(X).shape == (len(y), 3)


@pytest.mark.parametrize("name", MEMBERS)
def test_every_member_takes_categories_gaps_and_flags(name):
    frame, y = table()
    model = DecisionEnsembleClassifier([name], cv=2).fit(frame, y)
    assert model.cost_ < np.mean(y == "bad")
    shuffled = frame.copy()
    shuffled.loc[0, "job"] = "astronaut"  # not seen before
    shuffled.loc[1, "age"] = 1e308  # far beyond what was seen
    shuffled.loc[2, ["age", "sum"]] = -1.7e308, 1e40
    said = model.predict_proba(shuffled)
    assert np.isfinite(said).all()
    np.testing.assert_allclose(said[3:], model.predict_proba(frame)[3:], rtol=1e-9)


def test_all_members_together_are_the_same_each_time():
    frame, y = table()
    model = DecisionEnsembleClassifier(cv=2)
    one, other = clone(model).fit(frame, y), clone(model).set_params(n_jobs=2).fit(frame, y)
    assert list(one.members_) == list(MEMBERS)
    np.testing.assert_array_equal(one.predict_proba(frame), other.predict_proba(frame))


def test_sparse_rows_leave_members_out(cancer):
    X, y, _, _ = cancer
    X = sp.csr_array(X * (np.median(X, axis=0) < X))
    model = DecisionEnsembleClassifier(["logistic-regression", "boosting", "splines"], cv=2)
    model.fit(X, y)
    assert list(model.members_) == ["logistic-regression"]
    assert np.isfinite(model.predict_proba(X[:5] * 1e300)).all()
    assert set(model.left_out_) == {"boosting", "splines"}
    with pytest.raises(ValueError, match="No member takes these data"):
        DecisionEnsembleClassifier(["boosting"]).fit(X, y)


def test_weights_of_rows_count(cancer):
    X, y, _, _ = cancer
    weight = np.where(y == 1, 3.0, 1.0)
    heavy = DecisionEnsembleClassifier(QUICK, cv=2).fit(X, y, sample_weight=weight)
    plain = DecisionEnsembleClassifier(QUICK, cv=2).fit(X, y)
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()


def test_rare_classes_have_fewer_folds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.r_[np.ones(3, dtype=int), np.zeros(57, dtype=int)]
    model = DecisionEnsembleClassifier(QUICK, costs="balanced").fit(X, y)
    assert np.isfinite(model.cost_)
    alone = DecisionEnsembleClassifier(QUICK).fit(X, np.r_[2, y[1:]])
    assert alone.predict_proba(X).shape == (60, 3)
    with pytest.raises(ValueError, match="class 1 has one row"):
        DecisionEnsembleClassifier(QUICK).fit(X[2:], y[2:])
    with pytest.raises(ValueError, match="got one class"):
        DecisionEnsembleClassifier(QUICK).fit(X, y, sample_weight=1.0 - y)


@pytest.mark.parametrize(
    ("members", "error", "match"),
    [
        ("all", ValueError, "must be 'auto' or a sequence"),
        (["forest"], ValueError, "'forest', which is not known"),
        ([], ValueError, "at least one"),
        ([LogisticRegression(), LogisticRegression()], ValueError, "of different names"),
        ([LinearSVC()], TypeError, "need predict_proba"),
    ],
)
def test_bad_members(members, error, match, cancer):
    X, y, _, _ = cancer
    with pytest.raises(error, match=match):
        DecisionEnsembleClassifier(members).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"cv": 1}, "cv must be at least 2"),
        ({"cv": [(np.arange(50), np.arange(50, 99))]}, "at least two folds"),
        ({"costs": {0: 1.0}}, "no entry for"),
        ({"reject_cost": -1.0}, "reject_cost"),
    ],
)
def test_bad_parameters(parameters, match, cancer):
    X, y, _, _ = cancer
    model = DecisionEnsembleClassifier(QUICK, **parameters)
    with pytest.raises(ValueError, match=match):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


def test_folds_of_ones_own(cancer):
    X, y, _, _ = cancer
    folds = StratifiedKFold(3, shuffle=True, random_state=1)
    model = DecisionEnsembleClassifier(QUICK, cv=folds).fit(X, y)
    assert model.cross_fitted_proba_.shape == (len(y), 2)
    with pytest.raises(ValueError, match="groups on both sides"):
        model.fit(X, y, groups=np.arange(len(y)) // 2)
