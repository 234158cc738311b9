"""Kernel boosting: pair by pair, as Crammer, Keshet & Singer write it."""

import numpy as np
import pytest

from grayzone import SparseMinimaxProbabilityMachine
from grayzone.solvers.minimax.boosting import KernelBooster


def sample(n=12, seed=0):
    """Gaussians around rows of two classes, their signs, and shares of 1/2 a class."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, 2)) + signs[:, None]
    shares = rng.uniform(0.5, 1.5, size=n)
    for sign in (1.0, -1.0):
        shares[signs == sign] *= 0.5 / shares[signs == sign].sum()
    values = np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    return values, signs, shares


def by_pairs(values, signs, shares, rounds):
    """The rounds of boosting with loops over pairs: what is proposed, weights, and the kernel."""
    n = signs.size
    functions = values - shares @ values
    functions /= np.sqrt(shares @ functions**2)
    kernel, chosen, alphas = np.zeros((n, n)), [], []
    for _ in range(rounds):
        D = [
            [
                shares[i] * shares[j] / (1 + np.exp(signs[i] * signs[j] * kernel[i, j]))
                for j in range(n)
            ]
            for i in range(n)
        ]
        gains = [
            sum(D[i][j] * signs[i] * signs[j] * f[i] * f[j] for i in range(n) for j in range(n))
            for f in functions.T
        ]
        best = max((k for k in range(n) if k not in chosen), key=lambda k: gains[k])
        f, right, wrong = functions[:, best], 0.0, 0.0
        for i in range(n):
            for j in range(n):
                gain = signs[i] * signs[j] * f[i] * f[j]
                right += D[i][j] * max(gain, 0.0)
                wrong += D[i][j] * max(-gain, 0.0)
        alphas.append(0.5 * np.log(max(right, 1e-12) / max(wrong, 1e-12)))
        chosen.append(best)
        kernel += alphas[-1] * np.outer(f, f)
    return chosen, alphas, kernel


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rounds_are_those_of_loops_over_pairs(seed):
    values, signs, shares = sample(seed=seed)
    booster = KernelBooster(values, signs, shares)
    chosen, alphas, kernel = by_pairs(values, signs, shares, 4)
    for best, alpha in zip(chosen, alphas, strict=True):
        assert booster.propose(3)[0] == best
        assert booster.add(best, values[:, best]) == pytest.approx(alpha, rel=1e-12)
    np.testing.assert_allclose(booster.kernel, kernel, rtol=1e-10, atol=1e-12)


def test_each_round_lowers_the_loss_of_pairs():
    values, signs, shares = sample(40)
    booster = KernelBooster(values, signs, shares)

    def loss():
        right = np.outer(signs, signs) * booster.kernel
        return float(np.outer(shares, shares).ravel() @ np.log1p(np.exp(-right)).ravel())

    losses = [loss()]
    for _ in range(5):
        best = booster.propose(1)[0]
        booster.add(best, values[:, best])
        losses.append(loss())
    assert np.all(np.diff(losses) < 0.0)


def test_all_rows_come_before_one_comes_again():
    values, signs, shares = sample()
    booster, seen = KernelBooster(values, signs, shares), []
    for _ in range(24):
        seen.append(int(booster.propose(1)[0]))
        booster.add(seen[-1], values[:, seen[-1]])
    assert sorted(seen[:12]) == sorted(seen[12:]) == list(range(12))


def test_candidates_are_rows_that_boosting_proposes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] * X[:, 1] + X[:, 0] > 0).astype(int)
    fits = [
        SparseMinimaxProbabilityMachine(
            6, candidates=kind, n_candidates=1, cv=None, stopping=None, random_state=0
        ).fit(X, y)
        for kind in ("rows", "boosted")
    ]
    rows = {tuple(row) for row in X}
    assert all(tuple(base) in rows for found in fits for base in found.bases_)
    # one candidate that is proposed is worth more than one that is drawn
    assert fits[1].accuracy_bound_ > fits[0].accuracy_bound_
    # and what is proposed does not depend on the order of the rows, nor on how often they come
    again = fits[1].__class__(**fits[1].get_params())
    order = rng.permutation(80)
    np.testing.assert_allclose(
        again.fit(X[order], y[order]).decision_function(X), fits[1].decision_function(X), atol=1e-9
    )
