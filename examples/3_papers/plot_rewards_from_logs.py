"""
Learning what to do from logs
=============================

Costs are not always known in advance. A shop has logs: which offer a customer got, with which
probability it was chosen, and whether it was taken. What the other offers would have earned is not
in there. From such logs a policy can be learnt all the same (Le Roux, 2017, §4), and compared
with a model of rewards.
"""

# %%
# A shop with three offers
# ------------------------
#
# Which offer suits a customer depends on two features; today's rule believes something else. It
# draws at random, and keeps the probability: its *propensity*.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from grayzone import TightBoundLogisticRegression
from grayzone.decision import rewards_from_logs

planes = np.array([[1.0, 0.0, 0.0], [-0.5, 0.9, 0.0], [-0.5, -0.9, 0.0]])


def shop(n, rng):
    """Customers, how likely each offer is taken, and how likely today's rule makes each."""
    X = rng.normal(size=(n, 3))
    best = np.argmax(X @ planes.T + [0.0, 0.3, -0.3], axis=1)
    thought = np.column_stack([X[:, 1] + 0.8, -X[:, 0], X[:, 2]])
    return X, 0.2 + 0.6 * np.eye(3)[best], 0.9 * softmax(1.5 * thought, axis=1) + 0.1 / 3


def log_of(n, seed):
    """What logs have: customers, the offer made, whether it was taken, and the propensity."""
    rng = np.random.default_rng(seed)
    X, worth, chances = shop(n, rng)
    offer = (rng.random((n, 1)) > np.cumsum(chances, axis=1)[:, :2]).sum(axis=1)
    own = np.arange(n), offer
    return X, offer, (rng.random(n) < worth[own]).astype(float), chances[own]


X_new, worth_new, chances_new = shop(20_000, np.random.default_rng(100))


def earned(offers):
    return worth_new[np.arange(len(offers)), offers].mean()


print(f"today's rule earns {(worth_new * chances_new).sum(axis=1).mean():.3f} a customer")
print(f"the best offers would earn {worth_new.max(axis=1).mean():.3f}")

# %%
# Two ways to learn
# -----------------
#
# A model of rewards fits, for each offer, how likely it is taken, to those who got it; the best
# guess is offered. A policy maximises the reward itself, weighed by inverse propensities
# (``rewards_from_logs``), and needs no model of rewards. Three logs of each size.


def by_model(X, offer, taken):
    guesses = [
        LogisticRegression().fit(X[offer == k], taken[offer == k]).predict_proba(X_new)[:, 1]
        for k in range(3)
    ]
    return np.argmax(guesses, axis=0)


def by_policy(X, offer, taken, propensity, n_bounds):
    rewards = rewards_from_logs(offer, taken, propensity, baseline="mean")
    policy = TightBoundLogisticRegression(n_bounds=n_bounds).fit(X, offer, rewards=rewards)
    return policy.predict(X_new)


sizes = [250, 500, 1000, 2000, 4000]
ways = {"model of rewards": [], "policy, 1 bound": [], "policy, 10 bounds": []}
for size in sizes:
    results = []
    for seed in range(3):
        X, offer, taken, propensity = log_of(size, seed)
        results.append(
            [
                earned(by_model(X, offer, taken)),
                earned(by_policy(X, offer, taken, propensity, 1)),
                earned(by_policy(X, offer, taken, propensity, 10)),
            ]
        )
    for name, value in zip(ways, np.mean(results, axis=0), strict=True):
        ways[name].append(value)
for name, values in ways.items():
    print(f"{name:18s}", *(f"{value:.3f}" for value in values))

# %%
# What the figure shows
# ---------------------
#
# Ten bounds earn most at every size, and come near the best possible. The model of rewards is
# wrong, as rewards are no logistic function of the features, and more rows do not mend that. A
# policy with one bound needs many rows to get past it: inverse propensities are noisy, and its loss
# cares too much for rows that it cannot please.

fig, ax = plt.subplots(figsize=(6.6, 4.2), layout="constrained")
for (name, values), style, color in zip(
    ways.items(), ["s--", "^-.", "o-"], ["C1", "0.5", "C0"], strict=True
):
    ax.semilogx(sizes, values, style, color=color, label=name)
today = (worth_new * chances_new).sum(axis=1).mean()
ax.axhline(today, color="black", lw=1, ls="--", label="today's rule")
ax.axhline(worth_new.max(axis=1).mean(), color="black", lw=1, ls=":", label="best possible")
ax.set_xticks(sizes, sizes)
ax.minorticks_off()
ax.set(xlabel="rows of the log", ylabel="offers taken, share of new customers")
ax.legend(fontsize="small", loc="center")
plt.show()
