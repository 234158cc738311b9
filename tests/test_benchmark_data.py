"""The generators of the benchmarks whose truth is known."""

import numpy as np
import pytest

from benchmarks.data import data_file, esl_mixture, esl_probability


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
