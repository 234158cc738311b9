"""The generators of the benchmarks whose truth is known."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.data import (
    dataset,
    esl_mixture,
    esl_probability,
    esl_sample,
    labelled_table,
    mnist,
    random_split,
)


@pytest.fixture(autouse=True)
def _mixture_files():
    try:
        dataset("esl_mixture")
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_esl_probabilities_are_those_published_with_the_data():
    grid = dataset("esl_mixture").grid
    np.testing.assert_allclose(esl_probability(grid[:, :2]), grid[:, 2], rtol=0, atol=1e-12)


def test_esl_labels_follow_the_probabilities():
    X, y, p = esl_mixture(50_000, seed=1)
    assert X.shape == (50_000, 2)
    np.testing.assert_allclose(p, esl_probability(X), rtol=0, atol=1e-14)
    for low in np.arange(0, 1, 0.1):
        inside = (p >= low) & (p < low + 0.1)
        error = np.sqrt((p[inside] * (1 - p[inside])).sum()) / inside.sum()
        assert abs(y[inside].mean() - p[inside].mean()) < 4 * error
    assert np.minimum(p, 1 - p).mean() == pytest.approx(0.210, abs=0.003)  # as in the book


def test_esl_sample_is_the_one_of_the_book():
    X, y = esl_sample()
    assert X.shape == (200, 2)
    np.testing.assert_array_equal(np.bincount(y), [100, 100])
    # published with the data: linear regression errs on 27.0 % of them, 15 neighbours on 15.5 %
    coef = np.linalg.lstsq(np.column_stack([X, np.ones(200)]), y, rcond=None)[0]
    assert np.mean((X @ coef[:2] + coef[2] > 0.5) != y) == pytest.approx(0.270, abs=1e-12)
    neighbours = KNeighborsClassifier(15).fit(X, y)
    assert 1 - neighbours.score(X, y) == pytest.approx(0.155, abs=1e-12)


def test_random_splits_are_standardised_on_their_training_part():
    X, y = labelled_table("ionosphere")
    split = random_split(X, y, 315, seed=3)
    assert len(split.y_train) == 315
    assert len(split.y_test) == 351 - 315
    varies = X.std(axis=0) > 0
    assert np.count_nonzero(~varies) == 1  # the second feature is 0 everywhere
    np.testing.assert_allclose(split.X_train.mean(axis=0), 0.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(split.X_train.std(axis=0), varies, rtol=0, atol=1e-12)
    # undone by any affine map, the parts are the data, each row once
    order = np.random.default_rng(3).permutation(351)
    for part, rows in ((split.X_train, order[:315]), (split.X_test, order[315:])):
        scale = X[order[:315]].std(axis=0) + ~varies
        np.testing.assert_allclose(
            part * scale + X[order[:315]].mean(axis=0), X[rows], rtol=0, atol=1e-12
        )
    np.testing.assert_array_equal(np.concatenate([split.y_train, split.y_test]), y[order])
    assert not np.array_equal(random_split(X, y, 315, seed=4).y_train, split.y_train)


def test_mnist_is_scaled_and_complete():
    split = mnist()
    assert split.X_train.shape == (60_000, 784)
    assert split.X_train.dtype == split.X_test.dtype == np.float32
    assert (split.X_train.min(), split.X_train.max()) == (0.0, 1.0)
    np.testing.assert_array_equal(np.bincount(split.y_train)[[0, 9]], [5_923, 5_949])
    np.testing.assert_array_equal(np.bincount(split.y_test)[[0, 9]], [980, 1_009])
    # as the paper counts them
    assert np.count_nonzero(~split.X_train.any(axis=0)) == 67
