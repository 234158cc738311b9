"""Inside scikit-learn's meta-estimators, with costs: no worse than logistic regression there."""

import warnings

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from benchmarks.composition import COSTS, METAS, WITHOUT_PROBABILITIES, mean_cost
from grayzone import (
    BayesDecisionClassifier,
    TightBoundClassifier,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
)
from grayzone.displays import DecisionRegionDisplay
from grayzone.metrics import expected_cost

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    scale(X), y, test_size=0.5, stratify=y, random_state=0
)
MATRIX = [[0.0, 20.0], [1.0, 0.0]]


def truncated(**parameters):
    return TruncatedLogisticRegression(C=0.1, costs=COSTS, **parameters)


def cost_of(model):
    return expected_cost(y_test, model.fit(X_train, y_train).predict(X_test), costs=COSTS)


@pytest.mark.parametrize("name", METAS)
def test_decisions_cost_no_more_than_those_of_logistic_regression(name):
    # one half decides too little: the first three of the table's ten
    outside = name not in WITHOUT_PROBABILITIES
    models = truncated(), LogisticRegression(C=0.1)
    own, plain = (mean_cost(METAS[name](model), outside, 3) for model in models)
    assert own <= plain + 1e-12


@pytest.mark.parametrize("meta", ["BaggingClassifier", "VotingClassifier, soft"])
def test_averages_of_calibrated_tails_are_decided_for_less(meta):
    before, after = (cost_of(METAS[meta](truncated(tails=t))) for t in ("as-fitted", "calibrated"))
    assert after < 0.5 * before
    assert cost_of(BayesDecisionClassifier(METAS[meta](truncated()), costs=COSTS)) < 0.5 * after


@pytest.mark.parametrize("kind", [MultiOutputClassifier, ClassifierChain])
def test_several_targets_are_decided_by_costs_each(kind):
    targets = np.column_stack([y_train, X_train[:, 0] + X_train[:, 1] < 0.5]).astype(int)
    own = kind(TruncatedLogisticRegression(C=0.1, costs=MATRIX)).fit(X_train, targets)
    plain = kind(BayesDecisionClassifier(LogisticRegression(C=0.1), costs=MATRIX))
    decided = [m.predict(X_test)[:, 0] for m in (own, plain.fit(X_train, targets))]
    one, other = (expected_cost(y_test, d, costs=COSTS) for d in decided)
    assert one <= other


def test_column_transformers_and_pipelines():
    half = make_column_transformer((StandardScaler(), slice(0, 15)), remainder="passthrough")
    one, other = (
        cost_of(BayesDecisionClassifier(make_pipeline(half, model), costs=COSTS))
        for model in (truncated(), LogisticRegression(C=0.1))
    )
    assert one <= other


@pytest.mark.parametrize(
    "name", ["BaggingClassifier", "OneVsRestClassifier", "RFE", "GridSearchCV"]
)
def test_members_may_stay_undecided(name):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Decisions change at", UserWarning)
        model = METAS[name](truncated())
        wary = BayesDecisionClassifier(model, costs=COSTS, reject_cost=0.3).fit(X_train, y_train)
    decided = wary.predict(X_test)
    assert 0 < np.mean(decided == -1) < 0.7
    # undecided rows cost .3 each, whatever they are
    assert expected_cost(y_test, decided, costs=COSTS, reject_cost=0.3) < 0.3


WARY = [
    TruncatedLogisticRegression(C=0.1, reject_cost=0.1),
    TightBoundLogisticRegression(reject_cost=0.1),
    BayesDecisionClassifier(LogisticRegression(C=0.1), reject_cost=0.1),
]


@pytest.mark.parametrize("model", WARY, ids=lambda model: type(model).__name__)
def test_hard_votes_for_undecided_are_refused_and_soft_ones_counted(model):
    members = [("one", model), ("two", LogisticRegression())]
    hard = VotingClassifier(members, voting="hard").fit(X_train, y_train)
    with pytest.raises(ValueError, match="negative"):  # scikit-learn counts labels from zero on
        hard.predict(X_test)
    soft = VotingClassifier(members, voting="soft").fit(X_train, y_train)
    assert soft.score(X_test, y_test) > 0.9


def test_boosting_and_bagging_count_undecided_members_for_no_class():
    member = TruncatedLogisticRegression(C=100.0, reject_cost=0.1)
    for kind in (AdaBoostClassifier, BaggingClassifier):
        model = kind(member, n_estimators=3, random_state=0).fit(X_train, y_train)
        assert set(model.predict(X_test)) <= {0, 1}
        assert model.score(X_test, y_test) > 0.85


def test_displays_show_undecided_rows():
    pytest.importorskip("matplotlib").use("Agg")
    model = TruncatedLogisticRegression(C=0.1, reject_cost=0.1).fit(X_train[:, :2], y_train)
    assert -1 in model.predict(X_test[:, :2])
    DecisionRegionDisplay.from_estimator(model, X_test[:, :2])
    shown = ConfusionMatrixDisplay.from_estimator(model, X_test[:, :2], y_test)
    assert shown.confusion_matrix.shape == (3, 3)


def test_tight_bounds_wrap_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    wrapped = TightBoundClassifier(pipeline, costs=COSTS, n_bounds=3).fit(X_train, y_train)
    scaled = StandardScaler().fit(X_train)
    bare = TightBoundClassifier(LogisticRegression(C=0.1), costs=COSTS, n_bounds=3)
    bare.fit(scaled.transform(X_train), y_train)
    np.testing.assert_allclose(
        wrapped.predict_proba(X_test), bare.predict_proba(scaled.transform(X_test))
    )
    np.testing.assert_allclose(wrapped.mean_cost_path_, bare.mean_cost_path_)
