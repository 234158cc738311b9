"""
From costs to a threshold
=========================

A classifier estimates how probable it is that a tumour is malignant. From which probability on
should it be treated as such? That is not a property of the classifier: it follows from what the
two possible mistakes cost. This page takes the costs, derives the threshold, and looks at what
other thresholds would have cost on patients that the classifier has not seen.
"""

# %%
# What mistakes cost
# ------------------
#
# Say that overlooking a malignant tumour is ten times as bad as alarming a healthy patient. The
# unit does not matter, only the ratio does. With :math:`C^+` for a malignant tumour that is missed
# and :math:`C^-` for a false alarm, an alarm pays from :math:`p = C^- / (C^+ + C^-)` on.

from grayzone.decision import threshold_from_costs

costs = {"benign": 1, "malignant": 10}  # the cost of misclassifying each
threshold = threshold_from_costs(costs)
print(f"alarm from a probability of {threshold:.3f} on")

# %%
# A model that obeys
# ------------------
#
# Estimators of grayzone take these costs, and their ``predict`` decides by them. ``zone=None`` is
# plain logistic regression: nothing here depends on anything more special than that.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import TruncatedLogisticRegression
from grayzone.displays import CostCurveDisplay
from grayzone.metrics import expected_cost

X, y = load_breast_cancer(return_X_y=True)
X = X[:, :3]  # radius, texture and perimeter: with all 30 features there would be hardly an error
y = np.where(y == 0, "malignant", "benign")
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

model = make_pipeline(StandardScaler(), TruncatedLogisticRegression(zone=None, costs=costs))
model.fit(X_train, y_train)
decided = model.predict(X_test)
print("threshold of the model:", round(model[-1].threshold_, 3))
print("mean cost of its decisions:", round(expected_cost(y_test, decided, costs=costs), 3))

# %%
# What other thresholds would have cost
# -------------------------------------
#
# The probabilities stay; only the threshold moves. At one half, where ``predict`` of most
# classifiers decides, the same probabilities cost more.

proba = model.predict_proba(X_test)[:, 1]
at_half = np.where(proba >= 0.5, "malignant", "benign")
print("mean cost at a threshold of .5:", round(expected_cost(y_test, at_half, costs=costs), 3))

fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
CostCurveDisplay.from_predictions(
    y_test, proba, costs=costs, n_bootstrap=200, random_state=0, name="on new patients", ax=ax
)
ax.set(
    xlabel="threshold on P(malignant)",
    ylabel="mean cost (false alarms)",
    ylim=(0, 2),
    title="Cost of every threshold, same probabilities",
)
plt.show()

# %%
# The vertical line is the threshold that the costs imply. The curve need not have its minimum
# exactly there, and has not: the probabilities are estimates and the patients a sample. The band,
# 95 % of what other samples of patients would show, tells how little such differences mean. To the
# right the curve rises: there malignant tumours are missed.
