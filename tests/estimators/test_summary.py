"""What notebooks show of an estimator, through IPython's hooks."""

import pytest
from sklearn import config_context
from sklearn.datasets import load_breast_cancer

from grayzone import (
    BayesDecisionClassifier,
    MinimaxProbabilityMachine,
    SparseMinimaxProbabilityMachine,
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


def test_no_diagram_where_scikit_learn_is_told_to_draw_none():
    fitted = TruncatedLogisticRegression().fit(X / X.std(axis=0), y)
    with config_context(display="text"):
        assert not hasattr(fitted, "_repr_html_")
        assert set(fitted._repr_mimebundle_()) == {"text/plain"}
