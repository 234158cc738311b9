"""
Import points on the mixture
============================

A support vector machine keeps every row near its border. Zhu & Hastie (2002) keep only the rows
that lower the loss of kernel logistic regression most, one after the other, until the next one
brings nothing. Their Figure 3 shows both on the mixture of *The Elements of Statistical Learning*;
this page draws it again, on a mixture by the same recipe.
"""

# %%
# Two machines
# ------------
#
# 200 points, RBF kernel. The import vector machine estimates probabilities, so that contours of .25
# and .75 can be drawn beside the border; the dash-dotted line is the border of the true ones.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from grayzone import ImportVectorMachine, TruncatedLogisticRegression
from grayzone.datasets import make_mixture
from grayzone.displays import DecisionRegionDisplay

rng = np.random.default_rng(1)
centres = np.vstack([rng.normal([1, 0], 1, size=(10, 2)), rng.normal([0, 1], 1, size=(10, 2))])
X, y, _ = make_mixture(200, centres=centres, random_state=0)
X_new, y_new, truth = make_mixture(5000, centres=centres, random_state=1)


def true_probability(points):
    """Of both classes: normal densities with covariance I/5 around their ten centres."""
    density = np.exp(-2.5 * ((points[:, None, :] - centres) ** 2).sum(axis=2))
    of_class = density.reshape(len(points), 2, 10).sum(axis=2)
    return of_class / (of_class[:, :1] + of_class[:, 1:])


few = ImportVectorMachine(C=3.0, gamma=1.0).fit(X, y)
full = TruncatedLogisticRegression(kernel="rbf", C=3.0, gamma=1.0, zone=None).fit(X, y)
svm = SVC(C=3.0, gamma=1.0).fit(X, y)
for name, model, points in [
    ("import vector machine", few, few.import_points_.size),
    ("kernel logistic regression", full, full.support_.size),
    ("support vector machine", svm, svm.support_.size),
]:
    print(f"{name:28s} {points:3d} points, test error {1 - model.score(X_new, y_new):.3f}")
print(f"{'Bayes rule':28s}             test error {np.mean(truth.argmax(axis=1) != y_new):.3f}")

# %%
# Where they are
# --------------
#
# Import points (circled) spread over the data, as the function has to be described everywhere;
# support vectors crowd along the border. Where rows are dense the borders follow the true one,
# roughly; where there are few they go their own ways.

fig, axes = plt.subplots(1, 2, figsize=(11, 5.0), layout="constrained", sharey=True)
DecisionRegionDisplay.from_estimator(few, X, y, reference=true_probability, ax=axes[0])
axes[0].set(title=f"import vectors: {few.import_points_.size} of {len(y)} rows")
axes[0].get_legend().set_loc("upper left")
for label, marker, color in [(0, "o", "C0"), (1, "^", "C1")]:
    axes[1].plot(*X[y == label].T, marker, ms=4, color=color, label=f"class {label}")
axes[1].plot(
    *svm.support_vectors_.T, "o", ms=9, mfc="none", mec="black", label="support vectors", ls=""
)
low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
xs, ys = np.meshgrid(np.linspace(low[0], high[0], 150), np.linspace(low[1], high[1], 150))
values = svm.decision_function(np.column_stack([xs.ravel(), ys.ravel()])).reshape(xs.shape)
axes[1].contour(xs, ys, values, levels=[0], colors="black", linewidths=2)
axes[1].set(title=f"support vectors: {svm.support_.size} of {len(y)} rows")
axes[1].legend(fontsize="small", loc="upper right")
for ax in axes:
    ax.set(xlabel="first feature", ylabel="second feature")
    ax.label_outer()
plt.show()

# %%
# How soon it is enough
# ---------------------
#
# The loss after each point, relative to that of all rows: what Zhu & Hastie's stopping rule looks
# at. The full optimum is that of kernel logistic regression with every row.

path = few.objective_path_ / full.objective_ - 1
fig, ax = plt.subplots(figsize=(6.0, 3.6), layout="constrained")
ax.semilogy(np.arange(1, len(path) + 1), path, "o-")
ax.set(xlabel="import points", ylabel="loss above the full optimum, relative")
plt.show()
