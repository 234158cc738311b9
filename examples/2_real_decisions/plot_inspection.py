"""
Inspection: a limit on false alarms that holds
==============================================

A camera looks at parts on a line. Each false alarm stops it, and the plant has agreed to at most 2
% of good parts. Who puts the threshold where 2 % of the good *training* parts are above it breaks
that promise more often than not. :class:`~grayzone.RateLimitClassifier` keeps it with a stated
confidence, and this page counts how often it does.
"""

# %%
# Two ways to keep a limit
# ------------------------
#
# 1,500 parts, 10 % of them faulty. The naive way takes the threshold at which 2 % of the good
# training parts would be alarmed. The other one holds 30 % of the rows out and moves the threshold
# as far as exact binomial bounds on these ask for.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from grayzone import RateLimitClassifier

LIMIT = 0.02


def parts(n, rng):
    faulty = rng.random(n) < 0.1
    X = rng.normal(size=(n, 8)) + 0.8 * faulty[:, None]
    return X, faulty.astype(int)


rng = np.random.default_rng(0)
X, y = parts(1500, rng)
limited = RateLimitClassifier(
    LogisticRegression(), max_fpr=LIMIT, confidence=0.95, random_state=0
).fit(X, y)
print("threshold:", round(limited.threshold_, 3))
print("on the rows held out:", {name: round(rate, 3) for name, rate in limited.rates_.items()})

# %%
# A hundred plants
# ----------------
#
# One draw proves nothing. So a hundred training sets are drawn, both ways are used on each, and
# their true false alarm rates are found on 40,000 further parts.

X_new, y_new = parts(40_000, rng)
good, faulty = X_new[y_new == 0], X_new[y_new == 1]
rates = {"naive": [], "limited": []}
found = {"naive": [], "limited": []}
for draw in range(100):
    X, y = parts(1500, rng)
    plain = LogisticRegression().fit(X, y)
    cut = np.quantile(plain.decision_function(X[y == 0]), 1 - LIMIT)
    rates["naive"].append(np.mean(plain.decision_function(good) > cut))
    found["naive"].append(np.mean(plain.decision_function(faulty) > cut))
    limited = RateLimitClassifier(LogisticRegression(), max_fpr=LIMIT, random_state=draw).fit(X, y)
    rates["limited"].append(limited.predict(good).mean())
    found["limited"].append(limited.predict(faulty).mean())

for name in rates:
    broken = np.mean(np.asarray(rates[name]) > LIMIT)
    print(f"{name:8s} breaks the limit in {broken:.0%} of the draws", end=", ")
    print(f"finds {np.mean(found[name]):.1%} of the faulty parts")

# %%
# The price of a promise
# ----------------------
#
# The naive threshold was set on the rows that the model had been fitted to, and is too low for
# others. The limit that holds has to stay below the agreed one, and finds fewer faulty parts. That
# is the price of being sure; it falls with the number of good parts that are held out.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.0), layout="constrained")
bins = np.linspace(0, 0.04, 33)
for name, color, style in [("naive", "C1", "--"), ("limited", "C0", "-")]:
    label = {"naive": "threshold of training rows", "limited": "RateLimitClassifier, 95 %"}[name]
    left.hist(rates[name], bins, histtype="step", lw=2, color=color, ls=style, label=label)
    marker = {"naive": "^", "limited": "o"}[name]
    right.scatter(rates[name], found[name], 14, color=color, marker=marker, label=label)
left.axvline(LIMIT, color="black", lw=1, ls=":")
left.set(xlabel="true false alarm rate", ylabel="draws of training rows (of 100)")
left.set_ylim(top=left.get_ylim()[1] * 1.25)
left.legend(loc="upper right", fontsize="small")
right.axvline(LIMIT, color="black", lw=1, ls=":", label="limit")
right.set(xlabel="true false alarm rate", ylabel="share of faulty parts found")
right.legend(loc="lower right", fontsize="small")
plt.show()
