"""
Fraud: every payment has its own stake
======================================

A fraud that passes costs the amount of the payment; an honest customer who is stopped costs a call
and some anger, whatever the amount. So a payment of 2,000 deserves a look at a probability at which
one of 20 does not. The costs of each row say that, and decide.
"""

# %%
# Payments
# --------
#
# Few payments are frauds; these tend to be larger, at night, and from new accounts. Stopping an
# honest one costs 10.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import BayesDecisionClassifier, TruncatedLogisticRegression
from grayzone.metrics import expected_cost

rng = np.random.default_rng(0)


def payments(n):
    amount = rng.lognormal(np.log(60), 1.2, size=n)
    night = rng.random(n) < 0.2
    age = rng.exponential(300, size=n)
    score = -5.2 + 0.4 * np.log(amount / 60) + 1.6 * night + 2.0 * np.exp(-age / 60)
    truth = expit(score)
    X = np.column_stack([np.log(amount), night, np.log1p(age)])
    return X, (rng.random(n) < truth).astype(int), amount, truth


X, y, amount, _ = payments(8000)
X_new, y_new, amount_new, truth_new = payments(40_000)
rows, rows_new = {0: 10.0, 1: amount}, {0: 10.0, 1: amount_new}
print(f"{y_new.mean():.1%} of the payments are frauds")

# %%
# One model, two rules; and a model that knows the stakes
# -------------------------------------------------------
#
# Any classifier can decide by the costs of rows, inside :class:`~grayzone.BayesDecisionClassifier`.
# Estimators of grayzone can also *learn* by them: given to ``fit``, a row's threshold gives it its
# own zone, and its loss weighs as much as its stake. (The zone is wide, ``zone=2.0``, because next
# month will bring amounts that this one has not seen.)

plain = make_pipeline(StandardScaler(), TruncatedLogisticRegression(zone=None))
one = BayesDecisionClassifier(plain, costs={0: 10.0, 1: float(amount.mean())}).fit(X, y)
scaler = StandardScaler().fit(X)
staked = TruncatedLogisticRegression(zone=2.0).fit(scaler.transform(X), y, example_costs=rows)

decisions = {
    "let all pass": np.zeros_like(y_new),
    "one threshold": one.predict(X_new),
    "own thresholds": one.predict(X_new, example_costs=rows_new),
    "own thresholds,\nown zones in the fit": staked.predict(
        scaler.transform(X_new), example_costs=rows_new
    ),
    "true probabilities": (truth_new * amount_new >= (1 - truth_new) * 10).astype(int),
}
paid = {
    name: expected_cost(y_new, decided, example_costs=rows_new)
    for name, decided in decisions.items()
}
for name, cost in paid.items():
    print(
        f"{' '.join(name.split()):36s} {cost:.3f} a payment, {decisions[name].mean():.1%} stopped"
    )

# %%
# What is stopped
# ---------------
#
# The curve is where stopping begins to pay: :math:`p \cdot \text{amount} = (1 - p) \cdot 10`. One
# threshold for all is a horizontal line; it stops small payments that are not worth it, and lets
# large ones pass that are.

p = one.predict_proba(X_new)[:, 1]
show = rng.permutation(len(y_new))[:3000]
honest, fraud = show[y_new[show] == 0], np.flatnonzero(y_new == 1)[:150]
sums = np.logspace(0.3, 3.8, 200)
fig, (left, right) = plt.subplots(
    1, 2, figsize=(10.5, 4.4), layout="constrained", width_ratios=[1.2, 1]
)
left.loglog(amount_new[honest], p[honest], ".", ms=3, color="0.65", label="honest")
left.loglog(amount_new[fraud], p[fraud], "^", ms=5, color="C1", label="fraud (150 of them)")
left.loglog(sums, 10 / (10 + sums), color="C0", lw=2, label="stop above: own thresholds")
left.axhline(one.threshold_, color="black", ls="--", lw=1, label="stop above: one threshold")
left.set(xlabel="amount of the payment (currency)", ylabel="estimated P(fraud)", ylim=(1e-3, 1.3))
left.legend(fontsize="small", loc="lower left")
right.barh(list(paid), list(paid.values()), color=["0.7", "0.7", "C0", "C0", "black"])
right.set(xlabel="mean cost of a payment (currency)", ylabel="decided by")
right.invert_yaxis()
plt.show()

# %%
# Thresholds of their own save much, and come near what the true probabilities would allow. Fitting
# with the stakes does not add to that here, it is even slightly worse: the model of the
# probabilities is nearly right, and weighing rows by amounts leaves fewer of them to learn from.
