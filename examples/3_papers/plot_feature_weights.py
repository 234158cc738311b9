"""
Which features a minimax machine looks at
=========================================

In the sparse minimax machine every basis function may have a width for each feature. Features that
tell nothing get small ones, and the mean over all bases is a weight of each feature: Figure 3 of
Strohmann et al. (2003). It comes with the fit, and is no separate selection.
"""

# %%
# Twenty features that tell, twenty that do not
# ---------------------------------------------
#
# Twonorm with 20 columns of noise behind its own. The machine is not told which is which.

import matplotlib.pyplot as plt
import numpy as np

from grayzone import SparseMinimaxProbabilityMachine
from grayzone.datasets import make_twonorm
from grayzone.displays import FeatureWeightDisplay

X, y = make_twonorm(400, n_noise=20, random_state=0)
X_test, y_test = make_twonorm(4000, n_noise=20, random_state=1)
machine = SparseMinimaxProbabilityMachine(n_bases=40, gamma_iter=3, random_state=0).fit(X, y)
weights = machine.feature_weights_
print(f"mean weight of features that tell {weights[:20].mean():.4f}")
print(f"mean weight of noise              {weights[20:].mean():.4f}")
order = np.argsort(-weights)
print("noise among the twenty heaviest:", int(np.sum(order[:20] >= 20)))
print(f"held-out bound {machine.held_out_bound_:.3f}")
print(f"test accuracy  {machine.score(X_test, y_test):.3f}")

# %%
# What the figure shows
# ---------------------
#
# All features of Twonorm tell equally much, and most of them are heavier than any noise. Their
# weights still differ a lot, by chance alone, and some noise is heavier than some of what tells:
# weights are a hint, and no test.

fig, ax = plt.subplots(figsize=(7.6, 3.8), layout="constrained")
display = FeatureWeightDisplay.from_estimator(machine, name="weight", ax=ax)
for bar in ax.patches[20:]:
    bar.set_facecolor("C1")
ax.axvline(19.5, color="0.5", lw=1, ls="--")
ax.annotate("tell", (18.8, 0.95), xycoords=("data", "axes fraction"), ha="right", va="top")
ax.annotate("noise", (20.2, 0.95), xycoords=("data", "axes fraction"), ha="left", va="top")
ax.set(xlabel="feature", ylabel="weight")
plt.show()
