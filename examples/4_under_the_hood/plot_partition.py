"""
Which rows carry a fit: saturated, hinge, logarithmic
=====================================================

A truncated fit sorts its rows into three kinds (Table 1 of Hérault & Grandvalet, 2007). *Saturated*
rows are safely right and have no influence at all. *Logarithmic* ones are inside the zone or on the
wrong side and pull as in logistic regression. And some are pinned exactly on the end of the zone,
on the *hinge*, with whatever pull keeps them there. ``partition_`` tells which is which.
"""

# %%
# A fit and its partition
# -----------------------
#
# 300 rows of a mixture, an RBF kernel, and a zone from .3 to .7.

import matplotlib.pyplot as plt
import numpy as np

from grayzone import TruncatedLogisticRegression
from grayzone.datasets import make_mixture

X, y, _ = make_mixture(300, random_state=1)
settings = {"kernel": "rbf", "gamma": 0.5, "C": 3.0, "zone": (0.3, 0.7), "tails": "as-fitted"}
model = TruncatedLogisticRegression(**settings).fit(X, y)
kinds = {0: "saturated", 1: "hinge", 2: "logarithmic"}
for code, kind in kinds.items():
    print(f"{kind:12s} {np.sum(model.partition_ == code):3d} rows")

# %%
# Saturated rows can be thrown away: a fit to the others alone is the same function, to the
# tolerance of the fits. (With ``tails="as-fitted"``: slopes beyond the zone are estimated from all
# rows, these included.)

others = model.partition_ > 0
again = TruncatedLogisticRegression(**settings).fit(X[others], y[others])
difference = np.abs(again.decision_function(X) - model.decision_function(X)).max()
print(f"largest difference of log-odds {difference:.0e}")

# %%
# As geometry
# -----------
#
# Thin lines are the ends of the zone. Rows of a class are saturated beyond *their* end: positive
# ones above .7, negative ones below .3. Rows on the hinge lie exactly on these lines.

low, high = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
xs, ys = np.meshgrid(np.linspace(low[0], high[0], 200), np.linspace(low[1], high[1], 200))
p = model.predict_proba(np.column_stack([xs.ravel(), ys.ravel()]))[:, 1].reshape(xs.shape)

fig, axes = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained", sharex=True, sharey=True)
styles = {0: ("0.75", ".", 5), 1: ("C1", "D", 6), 2: ("C0", "o", 4)}
for ax, label in zip(axes, (0, 1), strict=True):
    ax.contourf(xs, ys, p, levels=[0.3, 0.7], colors=["0.93"])
    ax.contour(xs, ys, p, levels=[0.3, 0.5, 0.7], colors="black", linewidths=[0.8, 1.8, 0.8])
    for code, (color, marker, size) in styles.items():
        chosen = (y == label) & (model.partition_ == code)
        ax.plot(*X[chosen].T, marker, ms=size, color=color, label=f"{kinds[code]} ({chosen.sum()})")
    ax.set(title=f"rows of class {label}", xlabel="first feature", ylabel="second feature")
    ax.legend(loc="lower left", fontsize="small")
    ax.label_outer()
plt.show()
