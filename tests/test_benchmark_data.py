"""The generators of the benchmarks whose truth is known."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.data import (
    class_centres,
    class_mixture,
    class_probabilities,
    data_file,
    esl_grid,
    esl_mixture,
    esl_probability,
    esl_sample,
    mixture_parts,
)


@pytest.fixture(autouse=True)
def _mixture_files():
    try:
        data_file("esl_mixture_means.csv")
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_esl_probabilities_are_those_published_with_the_data():
    grid = np.loadtxt(data_file("esl_mixture_grid.csv"), delimiter=",", skiprows=1)
    np.testing.assert_allclose(esl_probability(grid[:, :2]), grid[:, 2], rtol=0, atol=1e-12)


def test_esl_labels_follow_the_probabilities():
    X, y, p = esl_mixture(50_000, seed=1)
    assert X.shape == (50_000, 2)
    np.testing.assert_array_equal(p, esl_probability(X))
    for low in np.arange(0, 1, 0.1):
        inside = (p >= low) & (p < low + 0.1)
        error = np.sqrt((p[inside] * (1 - p[inside])).sum()) / inside.sum()
        assert abs(y[inside].mean() - p[inside].mean()) < 4 * error
    assert np.minimum(p, 1 - p).mean() == pytest.approx(0.210, abs=0.003)  # as in the book


def test_esl_draws_depend_on_the_seed_alone():
    np.testing.assert_array_equal(esl_mixture(20, seed=3).X, esl_mixture(20, seed=3).X)
    assert not np.array_equal(esl_mixture(20, seed=3).X, esl_mixture(20, seed=(3, 1)).X)


def test_mixture_parts_are_nested_and_the_held_out_ones_fixed():
    few, many = mixture_parts(300), mixture_parts(2_000)
    np.testing.assert_array_equal(few.X_train, many.X_train[:300])
    np.testing.assert_array_equal(few.y_train, many.y_train[:300])
    for one, other in zip(few[2:], many[2:], strict=True):
        assert len(one) == 10_000
        np.testing.assert_array_equal(one, other)
    rows = np.concatenate([many.X_train, many.X_valid, many.X_test])
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_esl_sample_is_the_one_of_the_book():
    X, y = esl_sample()
    assert X.shape == (200, 2)
    np.testing.assert_array_equal(np.bincount(y), [100, 100])
    # published with the data: linear regression errs on 27.0 % of them, 15 neighbours on 15.5 %
    coef = np.linalg.lstsq(np.column_stack([X, np.ones(200)]), y, rcond=None)[0]
    assert np.mean((X @ coef[:2] + coef[2] > 0.5) != y) == pytest.approx(0.270, abs=1e-12)
    neighbours = KNeighborsClassifier(15).fit(X, y)
    assert 1 - neighbours.score(X, y) == pytest.approx(0.155, abs=1e-12)


def test_esl_grid_has_the_error_of_bayes_rule():
    X, p, share = esl_grid()
    np.testing.assert_allclose(p, esl_probability(X), rtol=0, atol=1e-12)
    assert share.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.minimum(p, 1 - p) @ share == pytest.approx(0.210, abs=5e-4)  # as in the book
    np.testing.assert_array_equal(X.reshape(99, 69, 2)[0, :, 1], np.full(69, X[0, 1]))


def test_three_classes_follow_their_probabilities():
    centres = class_centres(seed=1)
    X, y, p = class_mixture(20_000, centres, seed=2)
    np.testing.assert_array_equal(np.bincount(y), [20_000] * 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(p, class_probabilities(X, centres))
    for k in range(3):
        for low in np.arange(0, 1, 0.1):
            inside = (p[:, k] >= low) & (p[:, k] < low + 0.1)
            q = p[inside, k]
            error = np.sqrt((q * (1 - q)).sum()) / inside.sum()
            assert abs(np.mean(y[inside] == k) - q.mean()) < 4 * error
