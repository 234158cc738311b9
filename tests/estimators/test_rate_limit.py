"""Limits on rates of any classifier, which hold at a stated confidence."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import ShuffleSplit, cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from grayzone import RateLimitClassifier
from grayzone.decision.limits import Target, cut_at


def draw(n, seed, share=0.3, shift=1.5):
    """Rows of two classes, normal around 0 and around a shift."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return (rng.normal(size=n) + shift * y)[:, None], y


def rates(model, X, y):
    decided = model.predict(X) == 1
    return {
        "fpr": decided[y == 0].mean(),
        "recall": decided[y == 1].mean(),
        "precision": y[decided].mean(),
    }


@pytest.fixture(scope="module")
def new_rows():
    return draw(100_000, 10**6)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_fpr": 0.1},
        {"min_recall": 0.8},
        {"min_precision": 0.6},
        {"max_fpr": 0.3, "min_recall": 0.6},
        {"max_fpr": 0.2, "min_precision": 0.5, "costs": {0: 1, 1: 3}},
    ],
)
def test_limits_are_broken_no_more_often_than_said(limits, new_rows):
    base = FrozenEstimator(LogisticRegression().fit(*draw(500, 10**5)))
    broken = []
    for seed in range(120):
        model = RateLimitClassifier(base, confidence=0.9, **limits).fit(*draw(600, seed))
        reached = rates(model, *new_rows)
        broken.append(
            reached["fpr"] > limits.get("max_fpr", 1.0)
            or reached["recall"] < limits.get("min_recall", 0.0)
            or reached["precision"] < limits.get("min_precision", 0.0)
        )
    assert np.mean(broken) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 120)


def test_most_is_made_of_a_limit(new_rows):
    X, y = draw(20_000, 0)
    model = RateLimitClassifier(LogisticRegression(), max_fpr=0.1, random_state=0).fit(X, y)
    assert 0.08 < rates(model, *new_rows)["fpr"] <= 0.1
    model = RateLimitClassifier(LogisticRegression(), min_recall=0.8, random_state=0).fit(X, y)
    assert 0.8 <= rates(model, *new_rows)["recall"] < 0.83


def test_the_rows_that_are_held_out_are_not_fitted_to():
    X, y = draw(1000, 0)
    model = RateLimitClassifier(DecisionTreeClassifier(), max_fpr=0.3, random_state=0).fit(X, y)
    # a tree knows the rows it has seen by heart
    wrong = model.estimator_.predict(X) != y
    assert model.n_held_out_ == pytest.approx(300, abs=2)
    assert 0.5 * model.n_held_out_ > wrong.sum() > 0.1 * model.n_held_out_


def test_costs_choose_among_what_limits_allow():
    X, y = draw(5000, 0)
    base = FrozenEstimator(LogisticRegression().fit(*draw(500, 1)))
    free = RateLimitClassifier(base, max_fpr=0.4).fit(X, y)
    dear = RateLimitClassifier(base, max_fpr=0.4, costs={0: 1, 1: 1}).fit(X, y)
    assert dear.threshold_ == pytest.approx(0.5, abs=0.08)
    assert dear.threshold_ > free.threshold_
    scarce = RateLimitClassifier(base, max_fpr=0.01, costs={0: 1, 1: 50}).fit(X, y)
    assert (
        scarce.rates_["recall"]
        == RateLimitClassifier(base, max_fpr=0.01).fit(X, y).rates_["recall"]
    )


def test_limits_hold_in_every_group():
    X, y = draw(6000, 0)
    groups = np.where(np.arange(6000) % 3 == 0, "a", "b")
    X[groups == "a"] += 0.7  # whose negative rows look more like positive ones
    base = FrozenEstimator(LogisticRegression().fit(*draw(500, 1)))
    model = RateLimitClassifier(base, max_fpr=0.1).fit(X, y, groups=groups)
    in_a = (groups == "a") & (y == 0)
    assert model.predict(X)[in_a].mean() <= 0.1
    assert model.threshold_ > RateLimitClassifier(base, max_fpr=0.1).fit(X, y).threshold_


def test_groups_do_not_split_the_error():
    """The strictest of the groups' thresholds, each for the whole error, keeps all limits."""
    X, y = draw(3000, 0)
    groups = np.arange(3000) % 3
    X[groups == 1] += 0.4
    base = FrozenEstimator(LogisticRegression().fit(*draw(500, 1)))
    model = RateLimitClassifier(base, max_fpr=0.1)
    together = clone(model).fit(X, y, groups=groups).threshold_
    alone = [clone(model).fit(X[groups == g], y[groups == g]).threshold_ for g in range(3)]
    assert together == pytest.approx(max(alone), rel=1e-12)


def test_limits_of_groups_are_broken_no_more_often_than_said():
    """One group has more false positives than the others: the worst case; rates are known."""
    base = FrozenEstimator(RidgeClassifier().fit(*draw(500, 10**5)))
    slope, intercept = base.estimator.coef_[0], base.estimator.intercept_[0]
    broken, error = [], 0.2
    for seed in range(150):
        X, y = draw(450, seed, share=0.2)
        groups = np.arange(450) % 3
        X[groups == 1] += 0.5
        model = RateLimitClassifier(base, max_fpr=0.1, confidence=1.0 - error)
        model.fit(X, y, groups=groups)
        broken.append(norm.sf((model.threshold_ - intercept) / slope - 0.5) > 0.1)
    assert np.mean(broken) <= error + 3 * np.sqrt(error * (1 - error) / 150)


def test_a_group_without_held_out_rows_is_not_forgotten():
    X, y = draw(400, 0)
    groups = np.array(["few"] + ["many"] * 399)
    model = RateLimitClassifier(LogisticRegression(), max_fpr=0.2, random_state=0)
    with pytest.raises(ValueError, match=r"negative rows of the group .*few.*there are [01]\."):
        model.fit(X, y, groups=groups)


def test_one_class_of_several():
    X, y = make_blobs(2000, centers=4, cluster_std=3.0, random_state=0)
    names = np.array(["a", "b", "c", "d"])[y]
    model = RateLimitClassifier(LogisticRegression(), max_fpr=0.05, positive="c", random_state=0)
    decided = model.fit(X, names).predict(X)
    assert (decided[names != "c"] == "c").mean() < 0.06
    others = (decided != "c") & (names != "c")
    assert set(decided[others]) == {"a", "b", "d"}
    with pytest.raises(ValueError, match="as `positive`"):
        clone(model).set_params(positive=None).fit(X, names)
    with pytest.raises(ValueError, match="not among the classes"):
        clone(model).set_params(positive="e").fit(X, names)


@pytest.mark.parametrize("form", [pd.DataFrame, sp.csr_array, np.ndarray.tolist])
def test_rows_of_many_kinds(form):
    X, y = draw(500, 0)
    model = RateLimitClassifier(LogisticRegression(), max_fpr=0.2, random_state=0)
    expected = clone(model).fit(X, y)
    found = clone(model).fit(form(X), y)
    assert found.threshold_ == pytest.approx(expected.threshold_, rel=1e-6)
    np.testing.assert_array_equal(found.predict(form(X)), expected.predict(X))


def test_scores_without_probabilities():
    X, y = draw(800, 0)
    model = RateLimitClassifier(RidgeClassifier(), max_fpr=0.2, random_state=0).fit(X, y)
    assert model.predict(X)[y == 0].mean() < 0.25
    turned = RateLimitClassifier(RidgeClassifier(), max_fpr=0.2, positive=0, random_state=0)
    assert (turned.fit(X, y).predict(X)[y == 1] == 0).mean() < 0.25


def test_costs_of_other_scores_are_those_of_held_out_rows():
    X, y = draw(400, 0)
    X = np.round(X, 1)  # many of them equal
    base = FrozenEstimator(RidgeClassifier().fit(*draw(500, 1)))
    costs = np.array([[0.0, 1.0], [3.0, 0.0]])
    model = RateLimitClassifier(base, max_fpr=0.9, costs=costs).fit(X, y)
    scores = base.decision_function(X)
    paid = [costs[y, (scores >= t).astype(int)].mean() for t in [*np.unique(scores), np.inf]]
    assert costs[y, model.predict(X)].mean() == pytest.approx(min(paid))


def test_scores_in_single_precision_that_hardly_differ():
    """A threshold between neighbouring numbers is one of them in single precision."""

    class Single(RidgeClassifier):
        def decision_function(self, X):
            return X[:, 0].astype(np.float32)

    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.5).astype(int)
    steps = np.cumsum(np.where(rng.random(300) < 0.5, 1, 0))
    X = (np.float32(1.0) + np.finfo(np.float32).eps * steps)[:, None].astype(np.float32)
    base = FrozenEstimator(Single().fit(X, y))
    for limits in ({"max_fpr": 0.3}, {"min_recall": 0.3}, {"min_precision": 0.2}):
        model = RateLimitClassifier(base, **limits).fit(X, y)
        found = rates(model, X, y)
        assert found == pytest.approx(model.rates_)
        assert found["fpr"] <= limits.get("max_fpr", 1.0)


def test_the_rates_of_a_tree():
    """Few different scores: limits are kept, and no row too many is decided for."""
    new, broken = draw(50_000, 10**6), []
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    for seed in range(60):
        X, y = draw(400, seed)
        model = RateLimitClassifier(tree, max_fpr=0.2, confidence=0.8, random_state=seed)
        model.fit(np.round(X), y)
        broken.append(rates(model, np.round(new[0]), new[1])["fpr"] > 0.2)
    assert np.mean(broken) <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 60)


# ------------------------------------------------------------------------ cross-fitted scores


def test_cross_fitted_scores_set_the_threshold_of_the_fit_to_all_rows():
    X, y = draw(600, 0)
    model = RateLimitClassifier(LogisticRegression(), max_fpr=0.1, cv=4).fit(X, y)
    np.testing.assert_array_equal(model.estimator_.coef_, LogisticRegression().fit(X, y).coef_)
    scores = cross_val_predict(LogisticRegression(), X, y, cv=4, method="predict_proba")[:, 1]
    target = Target("max_fpr", 0.1, 1.0 - 0.95)
    assert model.threshold_ == cut_at(target, scores, y == 1, np.ones(600), True)
    assert model.n_held_out_ == 600
    assert model.rates_["fpr"] == np.mean(scores[y == 0] >= model.threshold_)


def test_cross_fitted_scores_of_weighted_rows_in_groups():
    X, y = draw(600, 0)
    weight = np.where(np.arange(600) % 5 > 0, 1.0, 0.0)
    model = RateLimitClassifier(LogisticRegression(), max_fpr=0.2, cv=3)
    groups = np.arange(600) % 2
    found = clone(model).fit(X, y, sample_weight=weight, groups=groups)
    used = weight > 0
    same = clone(model).fit(X[used], y[used], groups=groups[used])
    assert found.n_held_out_ == used.sum()
    assert found.threshold_ == pytest.approx(same.threshold_, rel=1e-6)


@pytest.mark.parametrize(
    ("cv", "words"),
    [
        (ShuffleSplit(3, random_state=0), "hold each row out once"),
        ([(np.arange(200), np.arange(200, 400))], "hold each row out once"),
        (1, "cv|splits"),
        (2.5, "cv"),
    ],
)
def test_folds_that_say_nothing_of_some_rows(cv, words):
    X, y = draw(400, 0)
    model = RateLimitClassifier(LogisticRegression(), max_fpr=0.2, cv=cv)
    with pytest.raises(ValueError, match=words):
        model.fit(X, y)
    assert not hasattr(model, "estimator_")


def test_cross_fitted_scores_that_are_a_few_numbers():
    """Another fit of a tree has others; rows that are held out are judged by the tree itself."""
    X, y = draw(600, 0)
    model = RateLimitClassifier(DecisionTreeClassifier(max_depth=3), max_fpr=0.2, cv=5)
    with pytest.raises(ValueError, match=r"different numbers in a fold.* cv=None"):
        model.fit(X, y)
    assert 0.0 <= model.set_params(cv=None).fit(X, y).rates_["fpr"] < 0.2


def test_a_frozen_classifier_has_no_folds():
    X, y = draw(400, 0)
    base = FrozenEstimator(LogisticRegression().fit(X, y))
    with pytest.raises(ValueError, match="cv must be None"):
        RateLimitClassifier(base, max_fpr=0.2, cv=3).fit(X, y)


def test_folds_without_a_class():
    X, y = draw(300, 0)
    names = np.where(np.arange(300) < 3, "rare", np.array(["no", "yes"])[y])
    folds = [
        (np.arange(100, 300), np.arange(100)),
        (np.r_[0:100, 200:300], np.arange(100, 200)),
        (np.arange(200), np.arange(200, 300)),
    ]
    model = RateLimitClassifier(LogisticRegression(), max_fpr=0.2, positive="yes", cv=folds)
    with pytest.raises(ValueError, match="training rows of all classes"):
        model.fit(X, names)


def test_weights_are_for_the_fit_alone():
    X, y = draw(900, 0)
    weight = np.where(np.arange(900) % 3 > 0, 1.0, 1e-9)
    model = RateLimitClassifier(LogisticRegression(), max_fpr=0.2, random_state=0)
    weighed, plain = clone(model).fit(X, y, sample_weight=weight), clone(model).fit(X, y)
    assert weighed.n_held_out_ == plain.n_held_out_
    assert weighed.estimator_.coef_ != pytest.approx(plain.estimator_.coef_, rel=1e-3)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "at least one limit"),
        ({"max_fpr": 1.0}, "max_fpr must be between 0 and 1"),
        ({"max_fpr": 0.1, "confidence": 1.0}, "confidence must be between"),
        ({"max_fpr": 0.1, "validation_fraction": 0.0}, "validation_fraction"),
        ({"max_fpr": 0.001}, "at least 2995 negative rows .* there are"),
        ({"min_recall": 0.999}, "positive rows"),
        (
            {"max_fpr": 0.05, "min_recall": 0.99 - 0.04},
            "No threshold keeps max_fpr=0.05, min_recall",
        ),
        ({"max_fpr": 0.1, "costs": {0: 1, 2: 1}}, "costs names"),
    ],
)
def test_bad_input(parameters, words):
    X, y = draw(3000, 0)
    model = RateLimitClassifier(LogisticRegression(), **parameters)
    with pytest.raises(ValueError, match=words):
        model.fit(X, y)
    assert not hasattr(model, "estimator_")
