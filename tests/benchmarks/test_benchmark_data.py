"""The generators of the benchmarks whose truth is known."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.data import (
    UNEVEN_PLANE,
    bank_marketing,
    class_centres,
    class_mixture,
    class_probabilities,
    covtype,
    covtype_ordered,
    dataset,
    esl_grid,
    esl_mixture,
    esl_probability,
    esl_sample,
    ijcnn1_ordered,
    labelled_table,
    mixture_parts,
    mnist,
    plane_sample,
    random_plane,
    random_split,
    thinned,
    two_normals,
    twonorm,
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


@pytest.mark.parametrize(
    ("name", "features", "counts"),
    [
        ("breast_cancer_wisconsin", 9, [444, 239]),  # 683 of 699 rows are complete
        ("german_credit_numeric", 24, [700, 300]),
        ("ionosphere", 34, [126, 225]),
        ("pima_diabetes", 8, [500, 268]),
        ("sonar", 60, [97, 111]),
        ("spambase", 57, [2788, 1813]),
        ("statlog_heart", 13, [150, 120]),
    ],
)
def test_tables_have_the_published_counts(name, features, counts):
    X, y = labelled_table(name)
    assert X.shape == (sum(counts), features)
    np.testing.assert_array_equal(np.bincount(y), counts)
    assert np.all(np.isfinite(X))


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


def test_twonorm_is_breimans():
    X, y = twonorm(50_000, n_noise=3, seed=1)
    assert X.shape == (50_000, 23)
    signs = 2 * y - 1
    means = np.append(np.full(20, 2 / np.sqrt(20)), np.zeros(3))
    error = 1 / np.sqrt(len(y))
    assert np.max(np.abs((X * signs[:, None]).mean(axis=0) - means)) < 4.5 * error
    residuals = X - signs[:, None] * means
    assert np.max(np.abs(np.cov(residuals.T) - np.eye(23))) < 4.5 * np.sqrt(2) * error
    bayes = np.mean((X[:, :20].sum(axis=1) > 0) == (y == 1))
    chance = norm.cdf(2)
    assert abs(bayes - chance) < 4 * np.sqrt(chance * (1 - chance)) * error


def test_two_normals_have_covariances_of_their_own():
    X, y = two_normals(20_000, 4, seed=2)
    first, second = (np.cov(X[y == label].T) for label in (0, 1))
    assert np.linalg.norm(first - second) > 0.5 * np.linalg.norm(first)
    np.testing.assert_allclose(X[y == 0].mean(axis=0), 0.0, rtol=0, atol=0.1)
    assert np.linalg.norm(X[y == 1].mean(axis=0)) > 0.3


def test_bank_marketing_has_numbers_and_indicators():
    X, y = bank_marketing()
    assert X.shape == (45_211, 51)
    np.testing.assert_array_equal(np.bincount(y), [39_922, 5_289])
    indicators = X[:, 7:]
    assert set(np.unique(indicators)) == {0.0, 1.0}
    np.testing.assert_array_equal(indicators.sum(axis=1), 9.0)  # one for each of nine attributes
    assert np.all(indicators.any(axis=0))
    np.testing.assert_array_equal(X[0, :7], [58, 2143, 5, 261, 1, -1, 0])


def test_covtype_in_order():
    split = covtype_ordered()
    raw, classes = covtype()
    n = 522_911  # nine tenths of 581,012
    assert len(split.y_train) == n
    np.testing.assert_array_equal(np.concatenate([split.y_train, split.y_test]), classes == 2)
    np.testing.assert_allclose(split.X_train.mean(axis=0), 0.0, rtol=0, atol=1e-9)
    mean, scale = raw[:n, 0].mean(), raw[:n, 0].std()
    np.testing.assert_allclose(split.X_test[:, 0], (raw[n:, 0] - mean) / scale, rtol=0, atol=1e-9)


def test_ijcnn1_in_order():
    once, twice = ijcnn1_ordered(), ijcnn1_ordered(repeated=True)
    assert len(once.y_train) + len(once.y_test) == 49_990 + 91_701
    assert len(twice.y_train) + len(twice.y_test) == 191_681
    assert len(once.y_train) == 113_353
    assert len(twice.y_train) == 153_345
    X, y = (np.concatenate(pair) for pair in ((once[0], once[2]), (once[1], once[3])))
    X_all, y_all = (np.concatenate(pair) for pair in ((twice[0], twice[2]), (twice[1], twice[3])))
    assert y.sum() == 4_853 + 8_712
    order = np.append(np.arange(141_691), np.arange(49_990))
    np.testing.assert_array_equal(y_all, y[order])
    np.testing.assert_array_equal(X_all, X[order])


def test_mnist_is_scaled_and_complete():
    split = mnist()
    assert split.X_train.shape == (60_000, 784)
    assert split.X_train.dtype == split.X_test.dtype == np.float32
    assert (split.X_train.min(), split.X_train.max()) == (0.0, 1.0)
    np.testing.assert_array_equal(np.bincount(split.y_train)[[0, 9]], [5_923, 5_949])
    np.testing.assert_array_equal(np.bincount(split.y_test)[[0, 9]], [980, 1_009])
    # as the paper counts them
    assert np.count_nonzero(~split.X_train.any(axis=0)) == 67


def test_thinned_sets_are_as_unbalanced_as_asked_for():
    X, y = labelled_table("spambase")
    few, labels = thinned(X, y, 1_000, 20, seed=1)
    np.testing.assert_array_equal(np.bincount(labels), [1_000, 50])
    known = {(*row, label) for row, label in zip(X.tolist(), y.tolist(), strict=True)}
    assert all((*row, k) in known for row, k in zip(few.tolist(), labels.tolist(), strict=True))
    assert not np.array_equal(thinned(X, y, 1_000, 20, seed=2)[0], few)


def test_clusters_of_a_plane_have_their_places_and_shares():
    X, y = plane_sample(40_000, UNEVEN_PLANE, seed=1)
    # the two of a class are six deviations apart or more: the nearest is the one drawn from
    for label in (0, 1):
        centres = UNEVEN_PLANE.centres[2 * label : 2 * label + 2]
        shares = UNEVEN_PLANE.shares[2 * label : 2 * label + 2]
        rows = X[y == label]
        nearest = np.linalg.norm(rows[:, None] - centres, axis=2).argmin(axis=1)
        for k in (0, 1):
            own = rows[nearest == k]
            error = np.sqrt(shares[k] * (1 - shares[k]) / len(y))
            assert abs(len(own) / len(y) - shares[k]) < 4 * error
            deviation = np.abs(own.mean(axis=0) - centres[k]).max()
            assert deviation < 4.5 * UNEVEN_PLANE.scale / np.sqrt(len(own))
            assert own.std(axis=0) == pytest.approx(UNEVEN_PLANE.scale, rel=4 / np.sqrt(len(own)))


def test_random_planes_depend_on_the_seed():
    plane, other = random_plane(3), random_plane(4)
    np.testing.assert_array_equal(random_plane(3).centres, plane.centres)
    assert not np.array_equal(other.centres, plane.centres)
    np.testing.assert_allclose(plane.shares.reshape(2, 2).sum(axis=1), 0.5, rtol=0, atol=1e-12)
