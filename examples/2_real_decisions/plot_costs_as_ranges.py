"""
Costs that are only known roughly
=================================

"A complaint costs us somewhere between 3 and 12 times as much as a check." Such a sentence is
often all there is, and it can be used as it stands: a range of costs is a range of thresholds. This
page asks two questions. What does it cost not to know better? And should the fit concentrate on
that range?
"""

# %%
# A range in, a range of thresholds out
# -------------------------------------
#
# The threshold for 3 is 1/4, that for 12 is 1/13. The geometric middle of the costs decides.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from grayzone import TruncatedLogisticRegression
from grayzone.decision import threshold_range
from grayzone.metrics import cost_curve, zone_calibration_error

rng = np.random.default_rng(0)


def deliveries(n):
    """1 is a delivery that leads to a complaint."""
    X = rng.normal(size=(n, 4))
    score = -2.4 + 1.2 * X[:, 0] + 0.8 * X[:, 1] + 0.9 * np.maximum(X[:, 0] - 0.5, 0) ** 2
    return X, (rng.random(n) < expit(score)).astype(int)


costs = {0: 1, 1: (3, 12)}
low, high = threshold_range(costs)
print(f"thresholds from {low:.3f} to {high:.3f}")
X, y = deliveries(2000)
X_new, y_new = deliveries(10_000)

# %%
# Two fits
# --------
#
# With costs that are ranges, the default ``zone=1.0`` *is* the range of thresholds; ``zone=None``
# is plain logistic regression. ``regret`` is what a threshold costs at most beyond the best one for
# the costs that turn out: what it is worth, at most, to find out the true cost.

curves = {}
for name, zone in {"zone of the range": 1.0, "no zone": None}.items():
    model = TruncatedLogisticRegression(costs=costs, zone=zone).fit(X, y)
    p = model.predict_proba(X_new)[:, 1]
    curves[name] = curve = cost_curve(y_new, p, costs=costs)
    place = np.searchsorted(curve.thresholds, model.threshold_)
    error = zone_calibration_error(y_new, p, zone=(low, high))
    print(
        f"{name:18s} decides at {model.threshold_:.3f}: cost {curve.mean_cost[place]:.3f}, regret "
        f"at most {curve.regret[place]:.3f}; calibration error over the range {error:.3f}"
    )

# %%
# What the figure shows
# ---------------------
#
# At the threshold in the middle, where decisions are made today, the fit for the zone is slightly
# ahead, in cost and in regret. But its probabilities are too close to the middle: a straight line
# cannot follow the truth to both ends of a narrow zone and stay there, and what lies beyond pulls
# it flat. Whoever will learn the true cost later, and then move the threshold, is better off
# without a zone here, or with a wider one: towards the ends its regret is far smaller.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for (name, curve), style in zip(curves.items(), ["-", "--"], strict=True):
    left.plot(curve.thresholds, curve.mean_cost, style, drawstyle="steps-pre", label=name)
    here = (curve.thresholds >= low) & (curve.thresholds <= high)
    right.plot(curve.thresholds[here], curve.regret[here], style, drawstyle="steps-pre", label=name)
for ax in (left, right):
    ax.axvspan(low, high, color="0.9", zorder=0, label="range of thresholds")
    ax.axvline(model.threshold_, color="0.4", lw=1, ls=":", label="threshold that decides")
    ax.set(xlabel="threshold on P(complaint)", ylim=(0, None))
left.set(ylabel="mean cost with the middle costs (checks)", xlim=(0, 0.5), ylim=(0, 1))
right.set(ylabel="regret at most (checks)", xlim=(0.05, 0.28))
left.legend(loc="lower right", fontsize="small")
plt.show()
