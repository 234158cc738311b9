"""
Reading a certificate
=====================

Did the fit converge? A solver that stopped can only say that it stopped. Fits of grayzone say how
far they are from the optimum *at most*: ``dual_gap_`` is a bound on what is left to gain, relative
to the objective. This page reads it, and looks at what a gap means for the coefficients.
"""

# %%
# A number beside each fit
# ------------------------
#
# The objective is a sum of losses and a penalty; it has one minimum. From the solution the fit
# makes a *dual* value, which no model can go below. The difference of the two, relative to the
# objective, is the gap. With the default ``tol`` it has to be 1e-6 or less.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale

from grayzone import TruncatedLogisticRegression

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
model = TruncatedLogisticRegression(C=10.0).fit(X, y)
print(f"objective {model.objective_:.6f}, gap {model.dual_gap_:.1e} after {model.n_iter_} steps")
print(f"no model whatsoever has an objective below {model.objective_ * (1 - model.dual_gap_):.6f}")

# %%
# A fit that was stopped too early
# --------------------------------
#
# The usual solver needs two steps here, which leaves nothing to stop. ``solver="primal"`` is a
# slower one, kept for comparison. With too few steps its gap is large, and there is a warning. It
# is caught here, to show its text.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", ConvergenceWarning)
    hasty = TruncatedLogisticRegression(C=10.0, solver="primal", max_iter=8).fit(X, y)
print(f"gap {hasty.dual_gap_:.1e}")
for warning in caught:
    print(warning.message)

# %%
# A gap and the true error
# ------------------------
#
# Stopped after so many steps, a fit has a gap, which it knows, and an error, which it does not
# know: how far its objective is above the optimum, which another fit has found. The certificate is
# honest if the error is never above the gap.

steps, gaps, errors = range(1, 31), [], []
for number in steps:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = TruncatedLogisticRegression(C=10.0, solver="primal", tol=1e-12, max_iter=number)
        fit.fit(X, y)
    gaps.append(fit.dual_gap_)
    errors.append(1 - model.objective_ / fit.objective_)
    if number in (5, 10, 20, 30):
        differ = np.sum(fit.predict(X) != model.predict(X))
        off = np.abs(fit.coef_ - model.coef_).max()
        print(f"{number:2d} steps: gap {gaps[-1]:.0e}, coefficients off by {off:.0e}, ", end="")
        print(f"{differ} of {len(y)} decisions differ from the optimum's")
print("errors above the gap:", np.sum(np.asarray(errors) > gaps))

fig, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
ax.semilogy(steps, gaps, "o-", ms=4, label="gap: what the fit knows")
ax.semilogy(steps, errors, "s--", ms=4, label="true error")
ax.axhline(1e-3, color="0.5", lw=1, ls="--", label="above: a warning")
ax.axhline(1e-6, color="0.5", lw=1, ls=":", label="below: the default tol is met")
ax.set(xlabel="steps of the solver", ylabel="relative to the objective")
ax.legend(fontsize="small")
plt.show()

# %%
# The gap is cautious: at first it is far above the error, as a good dual value takes a good
# solution. Near the optimum both are the same for all practical purposes. And decisions are the
# same long before the objective is: a gap of 1e-6 is more than any decision here needs.
