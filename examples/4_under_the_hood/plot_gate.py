"""
A path of C, and a gate for the zone
====================================

Choosing the cheapest of many models by cross-validation flatters the winner. The search of
:class:`~grayzone.TruncatedLogisticRegressionCV` therefore has a *gate*: C is chosen for plain
logistic regression first; a zone is taken only if its decisions on held-out rows are cheaper than
those by 1.5 standard errors, row by row.
"""

# %%
# Two data sets
# -------------
#
# In the first the log-odds are linear: a zone has nothing to mend. The second has four clusters,
# which no line separates, and the line that is best on the whole is not the one that is best where
# decisions are made. Missing a positive costs 2.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from grayzone import TruncatedLogisticRegressionCV
from grayzone.datasets import make_four_clusters

rng = np.random.default_rng(0)
X = rng.normal(size=(1500, 4))
y = (rng.random(1500) < expit(X[:, 0] - 0.5 * X[:, 1] - 1.0)).astype(int)
tables = {"a line": (X, y), "four clusters": make_four_clusters(1500, random_state=0)[:2]}

searches = {}
for name, (X, y) in tables.items():
    search = TruncatedLogisticRegressionCV(Cs=np.logspace(-4, 2, 7), costs={0: 1, 1: 2}).fit(X, y)
    searches[name] = search
    gate = search.gate_
    print(f"{name}: {gate['chosen']}")
    print(f"  cheapest zone: {gate['candidate']}")
    print(f"  it saves {gate['gain']:.4f} of {gate['plain_cost']:.4f}", end="")
    print(f" and has to save more than {gate['required_gain']:.4f}")

# %%
# The path and the gate
# ---------------------
#
# On the left C for plain logistic regression, by the log-loss of held-out rows; bars are standard
# errors over the folds. On the right the gate: on linear data the cheapest of a dozen zones saves
# less than it has to, and plain logistic regression is kept. On the clusters it saves far more
# than it has to, and is taken.

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
for (name, search), style, color in zip(searches.items(), ["o-", "s--"], ["C0", "C1"], strict=True):
    loss = -search.scores_
    error = loss.std(axis=1, ddof=1) / np.sqrt(loss.shape[1])
    left.errorbar(
        search.Cs_, loss.mean(axis=1), error, fmt=style, color=color, capsize=3, label=name
    )
left.set(xscale="log", xlabel="C", ylabel="log-loss on held-out rows (nats)")
left.legend()
places = np.arange(2)
gains = [search.gate_["gain"] for search in searches.values()]
needed = [search.gate_["required_gain"] for search in searches.values()]
right.bar(places - 0.17, gains, 0.3, color="C0", label="saved by the best zone")
right.bar(places + 0.17, needed, 0.3, color="0.7", label="has to exceed")
right.set_xticks(places, list(searches))
right.axhline(0, color="black", lw=0.8)
right.set(xlabel="data set", ylabel="mean cost of a held-out row")
right.legend()
plt.show()
