"""
How often at least: a bound before any test
===========================================

Given the means and covariances of two classes, and nothing else about them, how often can a
decision be right in the worst case? The sparse minimax machine of Strohmann et al. (2003) adds
basis functions one after the other so that this bound, :math:`\\Omega`, rises most. Their Figure 1
follows it beside the test accuracy; this page does so too, and adds a bound that was not fitted.
"""

# %%
# Twonorm
# -------
#
# Two normal classes in 20 dimensions. 150 rows to learn from, 5,000 to test.

import matplotlib.pyplot as plt

from grayzone import SparseMinimaxProbabilityMachine
from grayzone.datasets import make_twonorm
from grayzone.displays import BoundPathDisplay

X, y = make_twonorm(150, random_state=0)
X_test, y_test = make_twonorm(5000, random_state=1)

settings = {
    "one step of each width": SparseMinimaxProbabilityMachine(
        n_bases=20, gamma_iter=1, stopping=None, random_state=0
    ),
    "fifteen steps of each width": SparseMinimaxProbabilityMachine(
        n_bases=20, gamma_iter=15, stopping=None, random_state=0
    ),
}
for name, machine in settings.items():
    machine.fit(X, y)
    print(
        f"{name}: bound {machine.accuracy_bound_:.3f}, held-out bound "
        f"{machine.held_out_bound_:.3f}, test accuracy {machine.score(X_test, y_test):.3f}"
    )

# %%
# Two bounds
# ----------
#
# The bound on the training rows rises with every basis, as it must: it is what is maximised. With
# one step of each width the accuracy stays above it. With fifteen steps the widths are fitted so
# closely that the bound passes the accuracy, and is broken. The held-out bound, from rows that were
# not fitted, stays below in both cases: it is the one to quote.

fig, axes = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained", sharey=True)
for ax, (name, machine) in zip(axes, settings.items(), strict=True):
    BoundPathDisplay.from_estimator(machine, X_test, y_test, name="sparse machine", ax=ax)
    ax.set(title=name, xlabel="basis functions", ylabel="accuracy", ylim=(0, 1.02))
    ax.set_xticks([1, 5, 10, 15, 20])
    ax.label_outer()
plt.show()
