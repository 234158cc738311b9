"""
A classifier you already have
=============================

Nothing has to be thrown away to decide by costs. :class:`~grayzone.BayesDecisionClassifier` wraps
any classifier with ``predict_proba`` and makes its ``predict`` choose what is expected to cost
least. It can only be as good as the probabilities it is given, so these are looked at, too.
"""

# %%
# Three ways to decide with the same classifier
# ---------------------------------------------
#
# Missing a malignant tumour costs 20, a false alarm 1. Three classifiers decide (a) by themselves,
# at one half, (b) by costs, (c) by costs after their probabilities were calibrated on held-out
# folds. All of it is repeated on ten divisions of the data.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import BayesDecisionClassifier
from grayzone.metrics import expected_cost

X, y = load_breast_cancer(return_X_y=True)
y = np.where(y == 0, "malignant", "benign")
costs = {"benign": 1, "malignant": 20}

classifiers = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "15 neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(15)),
    "naive Bayes": GaussianNB(),
}


def ways(classifier):
    calibrated = CalibratedClassifierCV(classifier, cv=5)
    return {
        "as it is": classifier,
        "by costs": BayesDecisionClassifier(classifier, costs=costs),
        "calibrated, by costs": BayesDecisionClassifier(calibrated, costs=costs),
    }


splits = list(StratifiedShuffleSplit(10, test_size=0.4, random_state=0).split(X, y))


def paid(model):
    return [
        expected_cost(y[new], model.fit(X[old], y[old]).predict(X[new]), costs=costs)
        for old, new in splits
    ]


results = {
    name: {way: paid(model) for way, model in ways(classifier).items()}
    for name, classifier in classifiers.items()
}
for name, by_way in results.items():
    print(f"{name:20s}", ", ".join(f"{way}: {np.mean(v):.3f}" for way, v in by_way.items()))

# %%
# What the figure shows
# ---------------------
#
# Each dot is one division, each bar a mean. Deciding by costs saves much where probabilities are
# reasonable: logistic regression and neighbours. Naive Bayes says "practically 0" or "practically
# 1" of most patients, so that a threshold in between makes less of a difference. Calibrated by a
# sigmoid it sounds the alarm for every patient in all ten divisions (hence one dot): that is
# cheaper than what it did before, and no decision at all. Calibration even does harm where
# probabilities were fine already: it learns from the same few rows.

print("always an alarm costs", round(np.mean(y == "benign"), 3))

fig, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
for shift, (way, marker) in enumerate(zip(ways(None), "osD", strict=True)):
    for place, by_way in enumerate(results.values()):
        at = place + 0.25 * (shift - 1)
        color = ["0.5", "C0", "C1"][shift]
        label = way if place == 0 else None
        ax.scatter(np.full(10, at), by_way[way], 18, color=color, marker=marker, label=label)
        ax.hlines(np.mean(by_way[way]), at - 0.1, at + 0.1, color="black", lw=2)
ax.set_xticks(range(3), list(results))
ax.set(
    xlabel="classifier",
    ylabel="mean cost on new patients (false alarms)",
    ylim=(0, None),
)
ax.legend(loc="upper left")
plt.show()

# %%
# A classifier that is fitted already is wrapped in
# ``sklearn.frozen.FrozenEstimator``; then ``fit`` of the wrapper only learns the costs.
