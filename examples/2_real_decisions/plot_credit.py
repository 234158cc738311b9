"""
Credit: what a loan costs depends on the loan
=============================================

A loan that goes bad costs most of its amount; one that is refused and would have been paid back
costs its interest. So a small loan and a large one with the same probability of default may deserve
different answers. This page writes these costs down row by row, and compares decisions by them with
decisions by one threshold for all.
"""

# %%
# Applications
# ------------
#
# Amounts, durations, incomes and earlier delays are drawn by a formula, and so is who defaults;
# large amounts default more often. If a loan defaults, 60 % of its amount is lost. If it is paid
# back, interest of 6 % a year, for half the duration on average, is earned.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import TruncatedLogisticRegression
from grayzone.decision import cost_matrices, row_thresholds
from grayzone.metrics import expected_cost, savings_score

rng = np.random.default_rng(0)


def applications(n):
    amount = rng.lognormal(np.log(5000), 0.8, size=n)
    years = rng.integers(1, 6, size=n)
    income = rng.lognormal(np.log(2500), 0.4, size=n)
    delays = rng.poisson(0.4, size=n)
    score = -3.4 + 0.5 * np.log(amount / income) + 0.9 * delays + 0.15 * (years - 3)
    bad = rng.random(n) < expit(score)
    X = np.column_stack([np.log(amount), years, np.log(income), delays])
    rows = {"bad": 0.6 * amount, "good": 0.06 * amount * years / 2}
    return X, np.where(bad, "bad", "good"), rows, amount, years


X, y, rows, *_ = applications(3000)
X_new, y_new, rows_new, amount, years = applications(10_000)
print(f"{np.mean(y_new == 'bad'):.1%} of the loans go bad")

# %%
# A threshold for each loan
# -------------------------
#
# ``{"bad": ..., "good": ...}`` says what it costs to misclassify each row, if it has that label.
# The loss and the interest both grow with the amount, which cancels; the duration does not. A loan
# is granted if the probability that it is *good* is at least its threshold.

thresholds = row_thresholds(cost_matrices(rows_new, classes=["bad", "good"]))
for length in range(1, 6):
    print(f"{length} years: granted from P(good) = {thresholds[years == length][0]:.3f} on")

# %%
# Three ways to decide
# --------------------
#
# The same probabilities decide at one half, by the mean costs of all loans, and by each loan's own.

model = make_pipeline(StandardScaler(), TruncatedLogisticRegression(zone=None)).fit(X, y)
mean_costs = {label: float(np.mean(costs)) for label, costs in rows.items()}
by_mean = make_pipeline(
    StandardScaler(), TruncatedLogisticRegression(zone=None, costs=mean_costs)
).fit(X, y)

decisions = {
    "always grant": np.full(len(y_new), "good"),
    "at one half": model.predict(X_new),
    "by mean costs": by_mean.predict(X_new),
    "by each loan's costs": model.predict(X_new, example_costs=rows_new),
}
paid = {}
for name, decided in decisions.items():
    paid[name] = expected_cost(y_new, decided, example_costs=rows_new)
    print(f"{name:22s} {paid[name]:4.0f} a loan")
saved = savings_score(y_new, decisions["by each loan's costs"], example_costs=rows_new)
print(f"by each loan's costs {saved:.1%} of the best constant decision's cost are saved")

# %%
# In pictures
# -----------
#
# On the left, loans by their duration and probability of being good: those above the steps are
# granted. On the right, what the four ways cost. By far the largest step is from one half to any
# costs at all; that each loan has its own adds little here, as the thresholds do not differ much
# and few loans lie between them.

p_good = model.predict_proba(X_new)[:, 1]
granted = decisions["by each loan's costs"] == "good"
show = rng.permutation(len(y_new))[:600]
spread = years + rng.uniform(-0.3, 0.3, size=len(years))

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
for take, marker, color, label in [
    (granted, "o", "C0", "granted"),
    (~granted, "^", "C1", "refused"),
]:
    chosen = show[take[show]]
    left.scatter(spread[chosen], p_good[chosen], 10, color=color, marker=marker, label=label)
for length in range(1, 6):
    at = thresholds[years == length][0]
    left.hlines(at, length - 0.4, length + 0.4, color="black", lw=2)
left.axhline(0.5, color="0.5", ls=":", lw=1)
left.set(xlabel="duration (years)", ylabel="P(good)", xticks=range(1, 6))
left.legend(loc="lower left")
right.barh(list(paid), list(paid.values()), color=["0.7", "0.7", "0.7", "C0"])
right.set(xlabel="mean cost of a loan (currency)", ylabel="decided")
right.invert_yaxis()
plt.show()
