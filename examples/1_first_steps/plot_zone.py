"""
A zone, and what it does
========================

A linear model is a simplification. Where should it be right? Fitted by maximum likelihood it is a
compromise over all probabilities, also those that no decision depends on. A *gray zone* around the
threshold tells the fit where probabilities matter: rows that are safely on their side of the zone
no longer pull.
"""

# %%
# One feature, a truth that is not logistic
# -----------------------------------------
#
# The log-odds of the true probability rise slowly at first, and steeply beyond x = 5, which no
# straight line can follow. A positive that is missed costs three times as much as a false alarm, so
# that the threshold is .25.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from grayzone import TruncatedLogisticRegression

rng = np.random.default_rng(0)


def truth(x):
    return expit(np.log(0.25) + 0.25 * x + 3.0 * np.maximum(x - 5.0, 0.0))


costs = {0: 1, 1: 3}
x = rng.uniform(-4, 10, size=2000)
X, y = x[:, None], (rng.random(2000) < truth(x)).astype(int)

everywhere = TruncatedLogisticRegression(zone=None, costs=costs).fit(X, y)
zoned = TruncatedLogisticRegression(zone=1.0, costs=costs).fit(X, y)
print("threshold:", zoned.threshold_)
print("zone:", tuple(round(p, 3) for p in zoned.zone_))

# %%
# What it changes
# ---------------
#
# As the truth is known, so are the errors of the probabilities where the truth is inside the zone,
# and what decisions cost.

grid = np.linspace(-4, 10, 1001)
p = truth(grid)
inside = (p >= zoned.zone_[0]) & (p <= zoned.zone_[1])
models = {"all probabilities (zone=None)": everywhere, "a zone around .25 (zone=1.0)": zoned}
for name, model in models.items():
    error = np.abs(model.predict_proba(grid[:, None])[:, 1] - p)[inside].mean()
    cost = np.where(model.predict(grid[:, None]) == 1, 1 - p, 3 * p).mean()
    share = model.support_.size / len(y)
    print(f"{name:30s} error in the zone {error:.3f}, cost {cost:.4f}, {share:.0%} of rows matter")
print(
    f"{'the truth itself':30s} error in the zone 0.000, cost {np.minimum(1 - p, 3 * p).mean():.4f}"
)

# %%
# Inside the shaded zone the second model follows the truth: rows far to the right are positive, it
# knows that already, and they do not pull. The first one bends to them, and its probabilities are
# wrong where decisions are made. Beyond the zone the fit only says "beyond"; there log-odds get a
# slope of their own, which happens to suit this truth and need not suit another.

fig, ax = plt.subplots(figsize=(6.8, 4.4), layout="constrained")
ax.axhspan(*zoned.zone_, color="0.9", label="gray zone")
ax.axhline(zoned.threshold_, color="0.5", lw=1, ls=":", label="threshold")
ax.plot(grid, p, color="black", lw=2, label="true probability")
for (name, model), style in zip(models.items(), ["--", "-"], strict=True):
    ax.plot(grid, model.predict_proba(grid[:, None])[:, 1], style, lw=2, label=name)
ax.set(xlabel="feature x", ylabel="P(y = 1 | x)", ylim=(0, 1), xlim=(-4, 10))
ax.legend(loc="upper left", fontsize="small")
plt.show()

# %%
# The errors of probabilities shrink much, the cost of decisions hardly at all: both models cross
# the threshold in nearly the same place, and near it both decisions cost nearly the same. What is
# gained here are probabilities that can be shown to somebody, or moved to other costs nearby, and a
# model that fewer rows carry. With few rows, or where a line fits well, there may be nothing to
# gain at all. :class:`~grayzone.TruncatedLogisticRegressionCV` takes a zone only where it decides
# cheaper than plain logistic regression on rows that were held out.
