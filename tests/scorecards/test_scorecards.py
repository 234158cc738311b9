"""A scorecard decides as the model: in Python, from its CSV, and by its query in a database."""

import csv
import io
import sqlite3
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

import grayzone as gz
from grayzone.scorecards import NoScorecardError, scorecard

SURE = 1e-6


def table(n=400):
    rng = np.random.default_rng(0)
    made = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "amount": np.round(rng.lognormal(3.0, 1.0, n), 2),
            "kind of customer": rng.choice(["new", "old", "it's complicated"], n),
        }
    )
    score = 0.05 * made["age"] + 1.0 * (made["kind of customer"] == "new") + rng.normal(0, 1, n)
    made.loc[::7, "amount"] = np.nan
    made.loc[::11, "kind of customer"] = None
    return made, np.where(score > 3.0, "yes", "no")


def prepared():
    bins = KBinsDiscretizer(4, quantile_method="averaged_inverted_cdf")
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return make_column_transformer(
        (bins, ["age"]),
        (numbers, ["amount"]),
        (OneHotEncoder(handle_unknown="ignore"), ["kind of customer"]),
        (RobustScaler(), ["age"]),
    )


def in_a_database(card, X):
    connection = sqlite3.connect(":memory:")
    X.to_sql("rows", connection, index=False)
    return np.array([row[-1] for row in connection.execute(card.to_sql("rows"))], dtype=object)


def from_csv(card, X):
    """Add up the lines of the file, as a spreadsheet would."""
    lines = list(csv.DictReader(io.StringIO(card.to_csv())))
    base = next(float(line["points"]) for line in lines if line["kind"] == "base")
    cuts = [line for line in lines if line["kind"] == "decision"]
    found = []
    for _, row in X.iterrows():
        points = base + sum(
            points_of(lines, name, row[name]) for name in {line["column"] for line in lines} - {""}
        )
        labels = [
            line["category"]
            for line in cuts
            if float(line["from"] or -np.inf) <= points < float(line["below"] or np.inf)
        ]
        found.append(labels[0] if labels else None)
    return np.array(found, dtype=object)


def points_of(lines, name, value):
    mine = [line for line in lines if line["column"] == name]
    gap = value is None or value != value
    kinds = {line["kind"]: line for line in mine}
    if gap:
        return float(kinds["gap"]["points"] or "nan")
    if "category" in kinds:
        same = [line for line in mine if line["category"] == value]
        return float((same or [kinds["other"]])[0]["points"])
    for line in mine:
        low, high = float(line["from"] or -np.inf), float(line["below"] or np.inf)
        if line["kind"] == "range" and low <= value < high:
            return float(line["points"]) + float(line["points_per_unit"]) * value
    raise AssertionError(name, value)


MODELS = {
    "truncated": gz.TruncatedLogisticRegression(costs={"no": 1.0, "yes": 3.0}),
    "truncated, undecided": gz.TruncatedLogisticRegression(reject_cost=0.2),
    "truncated, search": gz.TruncatedLogisticRegressionCV(Cs=(0.1, 1.0), cv=3),
    "bounds": gz.TightBoundLogisticRegression(),
    "bounds, limit": gz.TightBoundLogisticRegression(max_fpr=0.2, random_state=0),
    "bounds, search": gz.TightBoundLogisticRegressionCV(
        Cs=(0.1, 1.0), cv=3, costs={"no": 1.0, "yes": 3.0}
    ),
    "minimax": gz.MinimaxProbabilityMachine(cv=None),
    "logistic": LogisticRegression(),
    "decisions": gz.BayesDecisionClassifier(
        LogisticRegression(), costs={"no": 2.0, "yes": 1.0}, prior={"no": 0.8, "yes": 0.2}
    ),
    "beyond the zone": gz.BayesDecisionClassifier(
        gz.TruncatedLogisticRegression(zone=0.3), costs={"no": 1.0, "yes": 4.0}
    ),
    "limit": gz.RateLimitClassifier(LogisticRegression(), max_fpr=0.2, random_state=0),
    "limit, other class": gz.RateLimitClassifier(
        LogisticRegression(), max_fpr=0.2, positive="no", random_state=0
    ),
    "limit, scores": gz.RateLimitClassifier(
        gz.MinimaxProbabilityMachine(cv=None), max_fpr=0.2, random_state=0
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_decisions_are_the_same(name):
    X, y = table()
    model = make_pipeline(prepared(), MODELS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    decided = model.predict(X)
    assert len(set(decided)) > 1
    for points in (None, 20.0):
        card = scorecard(model, points_per_doubling=points)
        np.testing.assert_array_equal(card.decide(X), decided)
        np.testing.assert_array_equal(in_a_database(card, X), decided)
    np.testing.assert_array_equal(from_csv(card, X), decided)
    odd = X.assign(**{"kind of customer": "unheard of"})
    np.testing.assert_array_equal(card.decide(odd), model.predict(odd))


def test_points_are_the_log_odds():
    X, y = table()
    X = X[["age"]]
    model = make_pipeline(MinMaxScaler(), LogisticRegression()).fit(X, y)
    np.testing.assert_allclose(scorecard(model).points(X), model.decision_function(X), atol=1e-12)
    twenty = scorecard(model, points_per_doubling=20.0).points(X)
    np.testing.assert_allclose(twenty * np.log(2.0) / 20.0, model.decision_function(X), atol=1e-12)


def test_rows_of_which_nothing_is_known_have_no_decision():
    X, y = table()
    X = X[["age"]]
    card = scorecard(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y))
    X = pd.DataFrame({"age": [30.0, None]})
    assert card.decide(X)[1] is None
    assert in_a_database(card, X)[1] is None


def test_an_array_has_columns_by_number_or_by_name():
    X, y = table()
    rows = X[["age"]].to_numpy()
    model = FrozenEstimator(make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, y))
    assert [effect.column for effect in scorecard(model).effects] == ["x0"]
    assert [effect.column for effect in scorecard(model, ["age"]).effects] == ["age"]


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (make_pipeline(PCA(1), LogisticRegression()), "PCA has no place"),
        (gz.TruncatedLogisticRegression(kernel="rbf"), "no sum over columns"),
        (gz.TightBoundLogisticRegression(reject_cost=0.1), "three scores"),
        (gz.SparseMinimaxProbabilityMachine(n_bases=2, random_state=0), "no linear classifier"),
        (gz.DecisionEnsembleClassifier(["logistic-regression", "splines"]), "ensemble has no"),
        (gz.DecisionEnsembleClassifier(["splines"]), "Splines have no place"),
    ],
)
def test_models_that_are_no_sum_over_columns(model, says):
    X, y = table(120)
    X = X[["age"]].assign(other=np.arange(120.0) % 7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    with pytest.raises(NoScorecardError, match=says):
        scorecard(model)


def test_several_classes_have_none():
    X, _ = table(90)
    model = LogisticRegression().fit(X[["age"]], np.arange(90) % 3)
    with pytest.raises(NoScorecardError, match="two classes"):
        scorecard(model)
    two = LogisticRegression().fit(X[["age"]], np.arange(90) % 2)
    with pytest.raises(ValueError, match="points_per_doubling"):
        scorecard(two, points_per_doubling=-1.0)
