"""
Bounds that tighten around the error
====================================

Logistic regression minimises an upper bound of the number of errors, and a loose one: a row that is
hopelessly wrong costs it more than many that are nearly right. Le Roux (2017) renews the bound at
each solution, so that it touches the expected error where the model is. This page draws the bounds,
and what they do to a line that cannot fit all of its data.
"""

# %%
# The bounds of one row
# ---------------------
#
# The expected error of a decision drawn with probability p for the right class is 1 - p. As
# :math:`-\log p` is convex, :math:`1 - p \le 1 - \nu\,(1 + \log(p / \nu))` for every :math:`\nu`,
# with equality at :math:`p = \nu`. Bound one has :math:`\nu = 1/2` for all rows: that is the
# log-loss, shifted and scaled. The next one has :math:`\nu` where the last solution has put each
# row.

import matplotlib.pyplot as plt
import numpy as np

from grayzone import TightBoundLogisticRegression

f = np.linspace(-6, 4, 300)
p = 1 / (1 + np.exp(-f))
fig, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
ax.plot(f, 1 - p, color="black", lw=2, label="expected error")
for nu, style in [(0.5, "-"), (0.2, "--"), (0.05, "-.")]:
    ax.plot(f, 1 - nu * (1 + np.log(p / nu)), style, label=f"bound that touches at p = {nu}")
    ax.plot(np.log(nu / (1 - nu)), 1 - nu, "o", color="black", ms=4)
ax.set(xlabel="log-odds of the right class", ylabel="error, and bounds of it", ylim=(0, 3))
ax.legend()
plt.show()

# %%
# Rows that are far on the wrong side have a small :math:`\nu`, and with it a flat bound: they lose
# their pull.
#
# A line with outliers
# --------------------
#
# Two clusters that a line separates well, and a third, labelled 1, where it cannot be right.

rng = np.random.default_rng(0)


def clusters(n):
    which = rng.choice(3, size=n, p=[0.45, 0.45, 0.1])
    X = np.array([[-1.5, 0.0], [1.5, 0.0], [-7.0, 2.0]])[which] + rng.normal(size=(n, 2))
    return X, (which > 0).astype(int)


X, y = clusters(600)
X_new, y_new = clusters(20_000)
models = {T: TightBoundLogisticRegression(n_bounds=T).fit(X, y) for T in (1, 2, 3, 5, 10, 20)}
for T, model in models.items():
    print(f"{T:2d} bounds: error on new rows {1 - model.score(X_new, y_new):.3f}")

# %%
# The expected error falls with every bound, as it is proven to. For some bounds little happens;
# then the third cluster is given up, all at once, and the line separates the other two. Whether
# that is what one wants is another question: it is what the number of errors asks for.

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
path = models[20].expected_error_path_ / len(y)
left.plot(np.arange(1, len(path) + 1), path, "o-", ms=4, label="J / n, training rows")
left.plot(
    list(models),
    [1 - model.score(X_new, y_new) for model in models.values()],
    "s--",
    label="error on new rows",
)
left.set(xlabel="bounds", ylabel="expected error, error rate", ylim=(0, None))
left.set_xticks([1, 5, 10, 15, 20])
left.legend()
for label, marker, color in [(0, "o", "C0"), (1, "^", "C1")]:
    right.plot(*X[y == label].T, marker, ms=3, color=color, alpha=0.6, label=f"class {label}")
heights = np.array([-4.0, 6.0])
for T, style in [(1, ":"), (3, "--"), (20, "-")]:
    (a, b), c = models[T].coef_[0], models[T].intercept_[0]
    right.plot(
        -(c + b * heights) / a, heights, style, color="black", label=f"{T} bound{'s' * (T > 1)}"
    )
right.set(xlabel="first feature", ylabel="second feature", xlim=(-10, 5), ylim=(-4, 6))
right.legend(loc="lower left", fontsize="small")
plt.show()
