"""
One model for each point of a ROC curve
=======================================

A ROC curve is usually one model with a moving threshold. Le Roux (2017, §4.1) trains a model for
each point: for each asymmetry of costs, or for each limit on the false positive rate. Where a line
is too simple the line that is best for few false alarms is not the one that is best for few misses,
and moving a threshold only shifts a line.
"""

# %%
# Four clusters
# -------------
#
# Two classes of two clusters each, made so that lines for different costs cross.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_curve

from grayzone import TightBoundLogisticRegression, roc_by_costs
from grayzone.datasets import make_four_clusters

X, y, _ = make_four_clusters(1500, random_state=0)
X_test, y_test, _ = make_four_clusters(10_000, random_state=1)

one = TightBoundLogisticRegression(n_bounds=1).fit(X, y)
fpr, tpr, _ = roc_curve(y_test, one.decision_function(X_test))

by_costs = roc_by_costs(
    TightBoundLogisticRegression(n_bounds=10), X, y, asymmetries=21, X_test=X_test, y_test=y_test
)

# %%
# Limits
# ------
#
# Under a limit the true positive rate is maximised. ``confidence=None`` keeps it on the training
# rows alone, as in the paper; with a confidence, rows are held out and the limit holds on new rows.

limits = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4]
points = []
for limit in limits:
    model = TightBoundLogisticRegression(n_bounds=10, max_fpr=limit, confidence=None).fit(X, y)
    decided = model.predict(X_test) == 1
    points.append((decided[y_test == 0].mean(), decided[y_test == 1].mean()))
    threshold = np.interp(limit, fpr, tpr)
    print(f"limit {limit:.2f}: false positives {points[-1][0]:.3f}, ", end="")
    print(f"true positives {points[-1][1]:.3f} (logistic regression, threshold: {threshold:.3f})")
points = np.array(points)

# %%
# Three curves
# ------------
#
# Logistic regression with a threshold finds half of the positives, and then hardly more for many
# false alarms. Models for cost ratios do far better from a false positive rate of about .3 on, and
# jump over what is left of it: there is no cost ratio for which a line in between is best. Under a
# limit in that gap nothing is gained over a threshold. Bounds are local, they start from logistic
# regression and stay with its direction, as the paper saw, too; at .4 they get away from it. Limits
# of training rows are also broken slightly on new ones.

fig, ax = plt.subplots(figsize=(5.8, 5.2), layout="constrained")
ax.plot(fpr, tpr, color="0.5", lw=2, label="logistic regression, thresholds")
ax.plot(
    by_costs.fpr, by_costs.tpr, "o", color="C0", label="ten bounds, a model for each cost ratio"
)
ax.plot(*points.T, "^", color="C1", label="ten bounds, a model for each limit")
ax.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
ax.legend(loc="lower right", fontsize="small")
plt.show()
