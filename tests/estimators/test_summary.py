"""What notebooks show of an estimator, through IPython's hooks."""

import pytest
from sklearn import config_context
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

from grayzone import (
    BayesDecisionClassifier,
    MinimaxProbabilityMachine,
    SparseMinimaxProbabilityMachine,
    TightBoundClassifier,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
)

X, y = load_breast_cancer(return_X_y=True)
ESTIMATORS = [
    TruncatedLogisticRegression(),
    MinimaxProbabilityMachine(random_state=0),
    SparseMinimaxProbabilityMachine(3, random_state=0),
    BayesDecisionClassifier(TruncatedLogisticRegression()),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_what_was_fitted_is_shown_below_the_diagram(estimator):
    assert "As fitted" not in estimator._repr_html_()
    fitted = estimator.fit(X / X.std(axis=0), y)
    shown = fitted._repr_html_()
    assert "sk-estimator-doc-link" in shown or "sk-top-container" in shown
    assert shown.count("As fitted") == 1
    bundle = fitted._repr_mimebundle_()
    assert bundle["text/html"].count("As fitted") == 1
    assert bundle["text/plain"] == repr(fitted)


@pytest.mark.parametrize(
    ("estimator", "path"),
    [
        (TightBoundLogisticRegression(n_bounds=3), "expected_error_path_"),
        (TightBoundClassifier(LogisticRegression(max_iter=1000), n_bounds=3), "mean_cost_path_"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bounds_show_where_they_began_and_ended(estimator, path):
    fitted = estimator.fit(X / X.std(axis=0), y)
    first, *_, last = getattr(fitted, path)
    assert f"{first:.4g}, {last:.4g}" in fitted._repr_html_()


def test_no_diagram_where_scikit_learn_is_told_to_draw_none():
    fitted = TruncatedLogisticRegression().fit(X / X.std(axis=0), y)
    with config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert set(fitted._repr_mimebundle_()) == {"text/plain"}
