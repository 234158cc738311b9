"""
Churn: whom to call, when customers differ in value
===================================================

A customer who leaves takes a year's margin along. A call with an offer keeps some of those who
would have left, and is wasted on all others. Whom should the call centre ring? Not those who are
most likely to leave: those for whom a call is expected to earn more than it costs.
"""

# %%
# Costs with a price for right decisions
# --------------------------------------
#
# A call costs 10, right or wrong. It keeps 30 % of those who would leave, and with them their
# margin. So the costs of each row are a whole table, ``cost[row, true, decided]``: 1 is a customer
# who leaves, and to decide for 1 is to call.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import BayesDecisionClassifier, TruncatedLogisticRegression
from grayzone.metrics import expected_cost

CALL, KEPT = 10.0, 0.3
rng = np.random.default_rng(0)


def customers(n):
    margin = rng.lognormal(np.log(80), 0.9, size=n)
    tenure = rng.exponential(3.0, size=n)
    complaints = rng.poisson(0.3, size=n)
    score = -1.2 - 0.35 * tenure + 0.9 * complaints - 0.2 * np.log(margin / 80)
    leaves = (rng.random(n) < expit(score)).astype(int)
    X = np.column_stack([np.log(margin), tenure, complaints])
    return X, leaves, margin


def costs_of(margin):
    cost = np.zeros((len(margin), 2, 2))
    cost[:, :, 1] = CALL  # every call
    cost[:, 1, 0] = margin  # leaves, not called
    cost[:, 1, 1] += (1 - KEPT) * margin  # leaves, called
    return cost


X, y, margin = customers(3000)
X_new, y_new, margin_new = customers(20_000)
E_new = costs_of(margin_new)
print(f"{y_new.mean():.1%} leave within the year")

# %%
# The threshold of a customer follows: a call pays if P(leaves) · 30 % · margin > 10. For customers
# worth little it never does, however sure they are to leave: the rule finds that by itself.

pays = KEPT * margin_new > CALL
print(f"a call can pay for {pays.mean():.0%} of the customers")
print("a customer of 200: call from", round(CALL / (KEPT * 200), 3), "on")

# %%
# Three call lists
# ----------------
#
# Each list is judged by what all customers together cost: margins lost and calls made.

model = make_pipeline(StandardScaler(), TruncatedLogisticRegression(zone=None))
caller = BayesDecisionClassifier(model).fit(X, y)
p = caller.predict_proba(X_new)[:, 1]
own = caller.predict(X_new, example_costs=E_new)
n_calls = own.sum()


def first(order):
    """As many calls, by another order of customers."""
    called = np.zeros_like(own)
    called[np.argsort(-order)[:n_calls]] = 1
    return called


lists = {
    "most likely to leave": first(p),
    "most valuable": first(margin_new),
    "by each customer's costs": own,
}
nobody = expected_cost(y_new, np.zeros_like(own), example_costs=E_new)
gain = {
    name: nobody - expected_cost(y_new, called, example_costs=E_new)
    for name, called in lists.items()
}
for name, value in gain.items():
    print(f"{name:26s} {n_calls} calls earn {value * len(own):8.0f}")

# %%
# Calling those who are most likely to leave rings up many whose margin does not pay for the call;
# calling the most valuable disturbs many who would have stayed. With the same number of calls the
# list by costs earns most. The number is no guess either: the rule stops near the top of the curve
# on the right, which it could not see, as it is made of customers whose year is over.

expected = KEPT * margin_new * p - CALL
order = np.argsort(-expected)
leaves = y_new[order] == 1
earned = np.cumsum(np.where(leaves, KEPT * margin_new[order], 0.0) - CALL)

show = rng.permutation(len(p))[:2000]
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
for decision, color, marker, label in [(0, "0.6", ".", "not called"), (1, "C1", "^", "called")]:
    chosen = show[own[show] == decision]
    left.semilogx(margin_new[chosen], p[chosen], marker, ms=4, color=color, label=label)
worth = np.logspace(np.log10(CALL / KEPT), 3.3, 100)
left.semilogx(worth, CALL / (KEPT * worth), color="black", lw=1.5, label="a call breaks even")
left.set(xlabel="margin of a year (currency)", ylabel="estimated P(leaves)", ylim=(0, 1))
left.legend(loc="upper right", fontsize="small")
right.plot(np.arange(1, len(p) + 1), earned, color="C0")
right.axvline(n_calls, color="black", ls="--", lw=1, label="where the rule stops")
right.set(
    xlabel="customers called, best first", ylabel="earned by all calls (currency)", xlim=(0, 8000)
)
right.set_ylim(bottom=0)
right.legend()
plt.show()
