"""Tables with gaps of pandas' own, and tables of pyarrow."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimators_pickle

from grayzone import DecisionEnsembleClassifier, RateLimitClassifier


def table(n_rows=200):
    rng = np.random.default_rng(0)
    number = rng.normal(size=n_rows)
    word = np.where(number + rng.normal(size=n_rows) > 0, "yes", "no").astype(object)
    y = (number + rng.normal(size=n_rows) > 0).astype(int)
    return pd.DataFrame({"number": number, "word": word}), y


def test_gaps_of_string_columns():
    X, y = table()
    X.loc[::7, "word"] = None
    of_pandas = X.astype({"word": "string"})
    assert of_pandas["word"][0] is pd.NA
    proba = [
        DecisionEnsembleClassifier(["logistic-regression", "boosting"]).fit(T, y).predict_proba(T)
        for T in (X, of_pandas)
    ]
    np.testing.assert_array_equal(*proba)


GAPS = {
    "members of the package": ("auto", True),
    "a classifier that takes gaps": ([("b", HistGradientBoostingClassifier())], True),
    "a pipeline that takes none": ([make_pipeline(StandardScaler(), LogisticRegression())], False),
    "one of two": (["logistic-regression", LogisticRegression()], False),
}


@pytest.mark.parametrize("name", GAPS)
def test_gaps_are_allowed_where_all_members_take_them(name):
    members, allowed = GAPS[name]
    model = DecisionEnsembleClassifier(members)
    assert get_tags(model).input_tags.allow_nan is allowed
    if members != "auto":
        check_estimators_pickle(name, model)  # on data with gaps, where these are allowed


def test_limits_on_a_table_of_pyarrow():
    pa = pytest.importorskip("pyarrow")
    X, y = table(400)
    X = X[["number"]]
    arrow = pa.Table.from_pandas(X)
    for options in ({}, {"cv": 3}):
        model = RateLimitClassifier(LogisticRegression(), max_fpr=0.4, **options)
        expected = model.fit(X, y).predict(X)
        for labels in (y, pa.array(y)):
            np.testing.assert_array_equal(model.fit(arrow, labels).predict(arrow), expected)
