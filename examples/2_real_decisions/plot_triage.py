"""
Triage: let a person look at the rest
=====================================

A model need not decide about everyone. If a physician can look at a case for a known price, the
model should keep the cases that it decides more cheaply than that and hand over the others. With
``reject_cost`` that is one more action; how many cases it takes, and what the others cost, is a
curve.
"""

# %%
# Three actions
# -------------
#
# Missing a malignant tumour costs 20, a false alarm 1, asking a physician .3, whoever the patient
# is. ``predict`` returns the cheapest of the three; undecided is a label of its own.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import TruncatedLogisticRegression
from grayzone.displays import RiskCoverageDisplay
from grayzone.metrics import expected_cost, selective_risk

X, y = load_breast_cancer(return_X_y=True)
X, y = X[:, :4], np.where(y == 0, "malignant", "benign")  # four simple measurements
costs, ask = {"benign": 1, "malignant": 20}, 0.3
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)


def model(**options):
    return make_pipeline(
        StandardScaler(), TruncatedLogisticRegression(zone=None, costs=costs, **options)
    )


alone = model().fit(X_train, y_train)
wary = model(reject_cost=ask).fit(X_train, y_train)
decided = wary.predict(X_test)
print("actions:", wary[-1].actions_)
for action in wary[-1].actions_:
    print(f"{action:10s} {np.mean(decided == action):.1%} of the patients")

# %%
# What it saves
# -------------
#
# The bill counts everything: errors of the model, and the physician's time.

bill = {
    "everybody to the physician": ask,
    "the model alone": expected_cost(y_test, alone.predict(X_test), costs=costs),
    "the model, physician for the rest": expected_cost(
        y_test, decided, costs=costs, reject_cost=ask
    ),
}
for name, cost in bill.items():
    print(f"{name:34s} {cost:.3f} a patient")
share = selective_risk(y_test, decided, costs=costs)
print(f"the model keeps {share.coverage:.1%}, which cost {share.risk:.3f} each")

# %%
# Risk against coverage
# ---------------------
#
# Sorted by what the model expects its own decision to cost, patients are decided one after the
# other, the safest first. The curve is what those decided cost on average; the marked point is
# where the next one would be expected to cost more than the physician. The curve comes from all
# patients, each judged by a model that has not seen it. (Scikit-learn gives these folds labels 0
# and 1 in place of names, so that costs by name are left to the display.)

plain = make_pipeline(StandardScaler(), TruncatedLogisticRegression(zone=None))
proba = cross_val_predict(plain, X, y, cv=5, method="predict_proba")
fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
RiskCoverageDisplay.from_predictions(
    y, proba, costs=costs, reject_cost=ask, name="logistic regression", ax=ax
)
ax.set(
    xlabel="share of patients that the model decides", ylabel="mean cost of these (false alarms)"
)
plt.show()
