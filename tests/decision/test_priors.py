"""Other class shares than those of the fit: probabilities under them, and what they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from grayzone import BayesDecisionClassifier, TruncatedLogisticRegression
from grayzone.decision import adjust_prior, bayes_decision, estimate_prior


def gaussians(n, shares, seed=0):
    """Rows of classes that are normal around 0, 2, 4, … and their true probabilities."""
    rng = np.random.default_rng(seed)
    y = rng.choice(len(shares), size=n, p=shares)
    return rng.normal(size=n) + 2.0 * y, y


def true_probabilities(x, shares):
    density = np.exp(-0.5 * (x[:, None] - 2.0 * np.arange(len(shares))) ** 2)
    joint = density * np.asarray(shares)
    return joint / joint.sum(axis=1, keepdims=True)


class TestAdjustPrior:
    @pytest.mark.parametrize(
        ("old", "new"), [([0.5, 0.5], [0.99, 0.01]), ([0.2, 0.3, 0.5], [0.6, 0.3, 0.1])]
    )
    def test_true_probabilities_become_true_ones(self, old, new):
        x = np.linspace(-3, 7, 101)
        adjusted = adjust_prior(true_probabilities(x, old), old, new)
        np.testing.assert_allclose(adjusted, true_probabilities(x, new), rtol=1e-12)

    def test_shares_may_be_counts(self):
        p = np.asarray([0.2, 0.7])
        expected = adjust_prior(p, [0.5, 0.5], [0.9, 0.1])
        np.testing.assert_allclose(adjust_prior(p, [10, 10], [900, 100]), expected, rtol=1e-14)

    @given(st.lists(st.floats(1e-3, 1.0), min_size=6, max_size=6))
    def test_there_and_back(self, numbers):
        p, old, new = np.asarray(numbers).reshape(3, 2)
        p = (p / p.sum())[None, :]
        back = adjust_prior(adjust_prior(p, old, new), new, old)
        np.testing.assert_allclose(back, p, rtol=1e-10)

    def test_extreme_shares_leave_finite_probabilities(self):
        p = np.asarray([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
        adjusted = adjust_prior(p, [1e-300, 1.0], [1.0, 1e-300])
        np.testing.assert_array_equal(adjusted, [[1, 0], [0, 1], [1, 0]])

    def test_single_precision_and_one_column_stay(self):
        adjusted = adjust_prior(np.asarray([0.2, 0.7], dtype=np.float32), [1, 1], [3, 1])
        assert adjusted.dtype == np.float32
        assert adjusted.shape == (2,)

    @pytest.mark.parametrize(
        ("prior", "words"),
        [
            ([0.5, 0.3, 0.2], "one share for each"),
            ([1.0, 0.0], "must be positive for every class"),
            ([1.0, -1.0], "not be negative"),
            ([1.0, np.nan], "be finite"),
        ],
    )
    def test_bad_shares(self, prior, words):
        with pytest.raises(ValueError, match=words):
            adjust_prior([0.2, 0.3], prior, [0.5, 0.5])


class TestEstimatePrior:
    def test_two_classes_against_a_root(self):
        x, _ = gaussians(2000, [0.85, 0.15])
        p = true_probabilities(x, [0.5, 0.5])
        ratio = p / 0.5

        def slope(share):
            return np.mean((ratio[:, 1] - ratio[:, 0]) / (ratio @ [1 - share, share]))

        estimate = estimate_prior(p, [0.5, 0.5])
        assert estimate.prior[1] == pytest.approx(brentq(slope, 1e-6, 1 - 1e-6), abs=1e-6)

    def test_the_end_of_em(self):
        """Many plain steps of the EM algorithm lead to the same shares."""
        x, _ = gaussians(500, [0.5, 0.4, 0.1], seed=3)
        p, old = true_probabilities(x, [0.3, 0.3, 0.4]), [0.3, 0.3, 0.4]
        shares = np.asarray(old)
        for _ in range(5000):
            shares = adjust_prior(p, old, shares).mean(axis=0)
        np.testing.assert_allclose(estimate_prior(p, old).prior, shares, atol=1e-6)

    @pytest.mark.parametrize("shares", [[0.9, 0.1], [0.2, 0.5, 0.3]])
    def test_standard_errors_are_those_of_many_samples(self, shares):
        old = np.full(len(shares), 1.0)
        estimates = []
        for seed in range(200):
            x, _ = gaussians(400, shares, seed)
            estimates.append(estimate_prior(true_probabilities(x, old / old.sum()), old))
        found = np.std([e.prior for e in estimates], axis=0)
        told = np.mean([e.standard_error for e in estimates], axis=0)
        np.testing.assert_allclose(found, told, rtol=0.2)
        mean = np.mean([e.prior for e in estimates], axis=0)
        np.testing.assert_allclose(mean, shares, atol=4 * told.max() / np.sqrt(200))

    def test_weights_are_repetitions(self):
        x, _ = gaussians(100, [0.7, 0.3])
        p, weight = true_probabilities(x, [0.5, 0.5]), np.arange(100) % 3
        weighed = estimate_prior(p, [1, 1], sample_weight=weight)
        repeated = estimate_prior(np.repeat(p, weight, axis=0), [1, 1])
        np.testing.assert_allclose(weighed.prior, repeated.prior, atol=1e-8)
        np.testing.assert_allclose(weighed.standard_error, repeated.standard_error, rtol=1e-6)

    def test_a_class_that_is_not_there(self):
        x, _ = gaussians(3000, [1.0])
        p = true_probabilities(x, [0.5, 0.25, 0.25])
        estimate = estimate_prior(p, [0.5, 0.25, 0.25])
        assert estimate.prior[0] > 0.97
        np.testing.assert_allclose(estimate.prior.sum(), 1.0, rtol=1e-12)

    def test_probabilities_that_tell_nothing(self):
        estimate = estimate_prior(np.full((20, 2), 0.5), [0.5, 0.5])
        assert np.all(np.isinf(estimate.standard_error))

    @pytest.mark.parametrize(
        ("proba", "words"),
        [
            (np.empty((0, 2)), "no rows"),
            ([[-0.1, 1.1]], "must not be negative"),
            ([[0.0, 0.0]], "positive entry"),
            ([[0.3, np.nan]], "NaN"),
        ],
    )
    def test_bad_probabilities(self, proba, words):
        with pytest.raises(ValueError, match=words):
            estimate_prior(proba, [0.5, 0.5])

    def test_too_few_steps(self):
        x, _ = gaussians(100, [0.7, 0.3])
        with pytest.raises(ValueError, match="did not settle"):
            estimate_prior(true_probabilities(x, [0.5, 0.5]), [1, 1], max_iter=1)


class TestBayesDecisionClassifier:
    def fitted(self, **parameters):
        x, y = gaussians(2000, [0.5, 0.5])
        base = LogisticRegression().fit(x[:, None], y)
        model = BayesDecisionClassifier(FrozenEstimator(base), **parameters)
        return base, model.fit(x[:, None], y), x[:, None], y

    def test_decides_by_adjusted_probabilities(self):
        base, model, X, y = self.fitted(costs={0: 1, 1: 5}, prior={0: 0.9, 1: 0.1})
        seen = [np.mean(y == 0), np.mean(y == 1)]
        adjusted = adjust_prior(base.predict_proba(X), seen, [0.9, 0.1])
        np.testing.assert_allclose(model.predict_proba(X), adjusted, rtol=1e-12)
        np.testing.assert_allclose(model.predict_log_proba(X), np.log(adjusted), rtol=1e-9)
        decided = bayes_decision(adjusted, [[0, 1], [5, 0]])
        np.testing.assert_array_equal(model.predict(X), decided)

    def test_the_prior_of_the_fit_changes_nothing(self):
        base, model, X, y = self.fitted()
        same = clone(model).set_params(prior=np.bincount(y)).fit(X, y)
        np.testing.assert_allclose(same.predict_proba(X), base.predict_proba(X), rtol=1e-12)

    def test_resampling_is_undone(self):
        """A fit to as many of both classes, told the true shares, decides as one to all rows."""
        x, y = gaussians(60_000, [0.95, 0.05])
        few = np.concatenate([np.flatnonzero(y == 1), np.flatnonzero(y == 0)[: np.sum(y == 1)]])
        balanced = BayesDecisionClassifier(LogisticRegression(), prior=[0.95, 0.05])
        balanced.fit(x[few, None], y[few])
        whole = LogisticRegression().fit(x[:, None], y)
        grid = np.linspace(-1, 4, 50)[:, None]
        np.testing.assert_allclose(
            balanced.predict_proba(grid), whole.predict_proba(grid), atol=0.03
        )

    def test_bad_priors(self):
        with pytest.raises(ValueError, match="prior names"):
            self.fitted(prior={0: 0.5, 2: 0.5})
        with pytest.raises(ValueError, match="one share for each"):
            self.fitted(prior=[0.2, 0.3, 0.5])

    def test_a_threshold_beyond_the_zone_is_said(self):
        x, y = gaussians(500, [0.5, 0.5])
        model = FrozenEstimator(TruncatedLogisticRegression(zone=0.5).fit(x[:, None], y))
        with pytest.warns(UserWarning, match="outside the zone"):
            BayesDecisionClassifier(model, costs={0: 1, 1: 20}).fit(x[:, None], y)
        with pytest.warns(UserWarning, match="outside the zone"):
            BayesDecisionClassifier(model, prior=[0.01, 0.99]).fit(x[:, None], y)
        with pytest.warns(UserWarning, match="outside the zone"):
            BayesDecisionClassifier(model, reject_cost=0.05).fit(x[:, None], y)
        BayesDecisionClassifier(model, costs={0: 1, 1: 1.1}).fit(x[:, None], y)  # does not warn


def test_the_posterior_of_normal_classes_is_a_sigmoid():
    """What the tests above rest on."""
    x = np.linspace(-2, 4, 7)
    np.testing.assert_allclose(true_probabilities(x, [0.5, 0.5])[:, 1], expit(2 * x - 2))
