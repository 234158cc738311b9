"""
Another share of cases than in training
=======================================

A model was fitted where 30 % of the patients were ill; now it is used where 8 % are, but nobody
knows that number yet. Its probabilities are too high there, and so it alarms too often. If only the
shares have changed, and not what ill and healthy patients look like, both can be mended without a
single new label.
"""

# %%
# Estimate the share, then move the probabilities
# -----------------------------------------------
#
# ``estimate_prior`` finds the shares that make the new, unlabelled rows most likely;
# ``adjust_prior`` moves probabilities to them. :class:`~grayzone.BayesDecisionClassifier` does the
# latter by itself when it is told a ``prior``.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from grayzone import BayesDecisionClassifier
from grayzone.decision import adjust_prior, bayes_decision, estimate_prior
from grayzone.displays import ZoneReliabilityDisplay
from grayzone.metrics import expected_cost

rng = np.random.default_rng(0)
costs = {0: 1, 1: 5}


def patients(n, share):
    y = (rng.random(n) < share).astype(int)
    return rng.normal(size=(n, 3)) + y[:, None] * [1.0, 0.8, 0.5], y


X, y = patients(3000, 0.30)
X_new, y_new = patients(6000, 0.08)
old = np.bincount(y) / len(y)
model = LogisticRegression().fit(X, y)
p_old = model.predict_proba(X_new)[:, 1]
estimate = estimate_prior(p_old, prior=old)
print(f"share in training {old[1]:.3f}")
print(f"estimated share now {estimate.prior[1]:.3f} ± {estimate.standard_error[1]:.3f}")
print(f"true share among the new rows {y_new.mean():.3f}")

# %%
# Decisions before and after
# --------------------------
#
# A patient who is missed costs 5, a false alarm 1. As it was fitted, the model costs more than
# never to alarm anybody. Adjusted by the estimate it does about as well as a model that was fitted
# to as many labels from the new place, if these could be had.

p_now = adjust_prior(p_old, prior=old, new_prior=estimate.prior)
there = BayesDecisionClassifier(LogisticRegression(), costs=costs, prior=estimate.prior).fit(X, y)
weights = [costs[0], costs[1]]
bills = {
    "as fitted": bayes_decision(p_old, weights),
    "adjusted by the estimate": there.predict(X_new),
    "fitted to labels from there": bayes_decision(
        LogisticRegression().fit(*patients(3000, 0.08)).predict_proba(X_new)[:, 1], weights
    ),
}
for name, decided in bills.items():
    cost = expected_cost(y_new, decided, costs=costs)
    print(f"{name:28s} {decided.mean():6.1%} alarms, mean cost {cost:.3f}")
print(f"{'never alarm':28s} {0:6.1%} alarms, mean cost {5 * y_new.mean():.3f}")

# %%
# On the left the probabilities as they were: far above the frequencies. On the right, after the
# adjustment, they agree. It costs nothing and needs no labels, but the assumption is a strong one:
# if ill patients look different there, nothing of this holds, and labels are needed.

fig, axes = plt.subplots(1, 2, figsize=(9.4, 4.4), layout="constrained", sharey=True)
for ax, p, name in zip(axes, [p_old, p_now], ["as fitted", "adjusted"], strict=True):
    ZoneReliabilityDisplay.from_predictions(y_new, p, zone=None, n_bins=10, name=name, ax=ax)
    ax.set(title=name, xlabel="estimated P(ill)", ylabel="share of ill patients")
    ax.label_outer()
plt.show()
