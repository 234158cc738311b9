"""
Three solvers, one optimum
==========================

The truncated likelihood has a kink, at which an optimum pins rows: Newton's method alone does not
get there. Hérault & Grandvalet (2007) give two ways, an active set in the dual and a smoothed
Newton method in the primal; the usual solver of grayzone is a third. This page follows all three to
the same optimum, by their duality gaps.
"""

# %%
# Stopped after k steps
# ---------------------
#
# A fit with ``max_iter=k`` is where the solver is after k steps, and its ``dual_gap_`` says how far
# that may be from the optimum. It would warn that the gap is above ``tol``; here that is intended.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from grayzone import TruncatedLogisticRegression

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)


def stopped(solver, steps):
    model = TruncatedLogisticRegression(C=10.0, solver=solver, tol=1e-12, max_iter=steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


paths, ends = {}, {}
for solver in ("auto", "primal", "active-set"):
    ends[solver] = end = stopped(solver, 1000)
    steps = sorted(set(np.unique(np.geomspace(1, end.n_iter_, 16).round().astype(int))))
    paths[solver] = steps, [stopped(solver, k).dual_gap_ for k in steps]
    print(f"{solver:11s} {end.n_iter_:3d} steps, objective {end.objective_:.9f}", end="")
    print(f", gap {end.dual_gap_:.0e}, {end.support_.size} rows carry the model")

# %%
# What the figure shows
# ---------------------
#
# A step is not the same thing in the three: the active set adds one row at a time; the smoothed
# method takes Newton steps, with ever less smoothing; the usual one solves the whole problem of a
# few hundred rows in a step. They end at the same objective and the same rows, which is the point:
# three algorithms that share little code agree to the last digits.

fig, ax = plt.subplots(figsize=(6.6, 4.2), layout="constrained")
for (solver, (steps, gaps)), style, color in zip(
    paths.items(), ["D-", "s--", "o-."], ["black", "C1", "C0"], strict=True
):
    ax.loglog(steps, np.maximum(gaps, 1e-16), style, ms=5, color=color, label=f'solver="{solver}"')
ax.axhline(1e-6, color="0.5", lw=1, ls=":", label="default tol")
ax.set(xlabel="steps", ylabel="relative duality gap")
ax.legend(fontsize="small")
plt.show()
