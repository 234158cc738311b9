"""Wrappers pass on what the classifier inside requests, as scikit-learn's own do."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from grayzone import BayesDecisionClassifier, RateLimitClassifier

X, y = make_classification(400, weights=[0.8], flip_y=0.1, random_state=0)
WEIGHT = np.random.default_rng(0).uniform(0.1, 5.0, size=len(y))
WRAPPERS = {
    "scikit-learn": lambda model: FixedThresholdClassifier(model, threshold=0.5),
    "costs": lambda model: BayesDecisionClassifier(model, costs="balanced"),
    "limits": lambda model: RateLimitClassifier(model, max_fpr=0.3),
}


def coefficients(wrap, model, **params):
    """Coefficients of the classifiers of two folds."""
    with config_context(enable_metadata_routing=True):
        found = cross_validate(wrap(model), X, y, cv=2, params=params, return_estimator=True)
    return [
        getattr(m.estimator_, "steps", [(0, m.estimator_)])[-1][1].coef_ for m in found["estimator"]
    ]


@pytest.mark.parametrize("name", WRAPPERS)
def test_requests_of_the_classifier_inside_are_obeyed(name):
    wrap = WRAPPERS[name]
    with config_context(enable_metadata_routing=True):
        asks = LogisticRegression().set_fit_request(sample_weight=True)
        renames = LogisticRegression().set_fit_request(sample_weight="exposure")
        in_steps = make_pipeline(MinMaxScaler(), asks)
        refuses = LogisticRegression().set_fit_request(sample_weight=False)
    plain = coefficients(wrap, LogisticRegression())
    weighted = coefficients(wrap, asks, sample_weight=WEIGHT)
    assert not np.allclose(weighted, plain)
    np.testing.assert_array_equal(coefficients(wrap, renames, exposure=WEIGHT), weighted)
    assert not np.allclose(
        coefficients(wrap, in_steps, sample_weight=WEIGHT), coefficients(wrap, in_steps)
    )
    with pytest.raises(TypeError, match="sample_weight"):
        coefficients(wrap, refuses, sample_weight=WEIGHT)


def test_weights_under_another_name_weigh_class_frequencies():
    with config_context(enable_metadata_routing=True):
        inner = LogisticRegression().set_fit_request(sample_weight="exposure")
        model = BayesDecisionClassifier(inner, costs="balanced").fit(X, y, exposure=WEIGHT)
    assert model.threshold_ == pytest.approx(np.average(y, weights=WEIGHT))
