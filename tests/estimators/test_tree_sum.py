"""Trees as plain arrays say what scikit-learn's say."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

from grayzone.estimators.tree_sum import TreeSum


def rows(n_classes):
    """Numbers with gaps behind two columns of codes, one of which is never seen."""
    rng = np.random.default_rng(0)
    X, y = make_classification(
        500, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0
    )
    X[rng.random(X.shape) < 0.05] = np.nan
    codes = rng.integers(0, 60, (500, 2)).astype(float)
    codes[rng.random(codes.shape) < 0.05] = np.nan
    y = np.where(codes[:, 0] % 3 == 1, y, rng.integers(0, n_classes, 500))
    return np.hstack([codes, X]), y, np.isin(codes[:, 1], [7, 8], invert=True)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_boosted_trees_with_categories_and_gaps(n_classes):
    X, y, seen = rows(n_classes)
    model = HistGradientBoostingClassifier(max_iter=12, categorical_features=[0, 1])
    model.fit(X[seen], y[seen])
    codes = [np.unique(c[~np.isnan(c)]).astype(int) for c in X[seen, :2].T]
    trees = TreeSum.of_boosting(model, codes)
    np.testing.assert_allclose(trees.predict_proba(X), model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(trees.predict(X), model.predict(X))
    stages = list(model.staged_predict_proba(X))
    expected = [stages[4], stages[11], stages[11]]
    np.testing.assert_allclose(trees.staged_proba(X, [5, 12, 90]), expected, atol=1e-6)
    with pytest.raises(ValueError, match="X has 3 features; expected 8"):
        trees.predict_proba(X[:, :3])


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_forests(kind, n_classes):
    X, y, _ = rows(n_classes)
    model = kind(12, max_leaf_nodes=60, random_state=0).fit(X, y)
    trees = TreeSum.of_forest(model)
    np.testing.assert_allclose(trees.predict_proba(X), model.predict_proba(X), atol=1e-6)
