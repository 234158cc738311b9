"""
Costs that are only known roughly
=================================

"A complaint costs us somewhere between 3 and 12 times as much as a check." Such a sentence is
often all there is. It can be used as it stands: the costs become a range, the range of costs a range
of thresholds, and the fit concentrates on the probabilities that may turn out to matter.
"""

# %%
# A range in, a zone out
# ----------------------
#
# The threshold for 3 is 1/4, that for 12 is 1/13. The geometric middle of the costs decides; with
# the default ``zone=1.0`` the gray zone *is* the range of thresholds.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from grayzone import TruncatedLogisticRegression
from grayzone.decision import threshold_range
from grayzone.displays import CostCurveDisplay
from grayzone.metrics import cost_curve

rng = np.random.default_rng(0)


def deliveries(n):
    X = rng.normal(size=(n, 4))
    score = -2.4 + 1.2 * X[:, 0] + 0.8 * X[:, 1] + 0.9 * np.maximum(X[:, 0] - 0.5, 0) ** 2
    return X, np.where(rng.random(n) < expit(score), "complaint", "fine")


costs = {"fine": 1, "complaint": (3, 12)}
order = ["fine", "complaint"]
low, high = threshold_range(costs, classes=order)
print(f"thresholds from {low:.3f} to {high:.3f}")
X, y = deliveries(2000)
X_new, y_new = deliveries(10_000)

# %%
# Labels are sorted, so that "complaint" would come first and "fine" be the positive class. Numbers
# keep the figure easy to read: 1 is a complaint.

y, y_new = (y == "complaint").astype(int), (y_new == "complaint").astype(int)
costs = {0: 1, 1: (3, 12)}
model = TruncatedLogisticRegression(costs=costs).fit(X, y)
print("zone of the fit:", tuple(round(p, 3) for p in model.zone_))
print("it decides at", round(model.threshold_, 3))

# %%
# What not knowing costs
# ----------------------
#
# The solid line is the mean cost of each threshold with the middle costs. Over the range runs the
# *regret*: what a threshold costs at most beyond the best one for the costs that turn out. Towards
# the ends it rises, as the costs may turn out to be those of the other end; in the middle it is
# small. That number is what it is worth, at most, to find out the true cost.

p = model.predict_proba(X_new)[:, 1]
curve = cost_curve(y_new, p, costs=costs)
place = np.searchsorted(curve.thresholds, model.threshold_)
print(f"mean cost with middle costs {curve.mean_cost[place]:.3f}")
print(f"regret at most {curve.regret[place]:.3f}")

fig, ax = plt.subplots(figsize=(6.6, 4.4), layout="constrained")
CostCurveDisplay.from_predictions(y_new, p, costs=costs, name="cost with middle costs", ax=ax)
ax.set(
    xlabel="threshold on P(complaint)", ylabel="mean cost (checks)", xlim=(0, 0.5), ylim=(0, None)
)
plt.show()
