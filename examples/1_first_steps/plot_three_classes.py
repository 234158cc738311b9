"""
Three classes, and what each confusion costs
============================================

With more than two classes there is no single threshold. What a decision costs depends on the true
class and on the decision: a table with a row for each truth. The rule stays the same, the decision
of least expected cost; this page looks at how it moves the borders.
"""

# %%
# A table of costs
# ----------------
#
# Three cultivars of wine. Bottles of cultivar 2 are sold as rare ones: to take another wine for it
# is dear, 10, as customers notice; to overlook one costs 2, other confusions cost 1.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import TruncatedLogisticRegression
from grayzone.displays import DecisionRegionDisplay
from grayzone.metrics import expected_cost

costs = np.array(
    [  # decided: 0, 1, 2
        [0, 1, 10],  # truly 0
        [1, 0, 10],  # truly 1
        [2, 2, 0],  # truly 2
    ]
)
wine = load_wine(as_frame=True)
X, y = wine.data[["alcohol", "hue"]], wine.target
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)

# %%
# The same probabilities, two rules
# ---------------------------------
#
# ``zone=None`` fits the whole likelihood, which does not depend on costs; so both models have the
# same probabilities, and differ only in what they decide.

equal = make_pipeline(StandardScaler(), TruncatedLogisticRegression(zone=None))
dear = make_pipeline(StandardScaler(), TruncatedLogisticRegression(zone=None, costs=costs))
for name, model in {"every error costs 1": equal, "the table of costs": dear}.items():
    decided = model.fit(X_train, y_train).predict(X_test)
    cost = expected_cost(y_test, decided, costs=costs)
    print(f"{name:20s} accuracy {np.mean(decided == y_test):.3f}, mean cost {cost:.3f}")

# %%
# The region of cultivar 2 shrinks to where the model is nearly sure of it. By the table clearly
# fewer decisions are right, and together they cost a little less: accuracy and cost are two things,
# and only one of them is paid.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained", sharey=True)
for ax, model, title in zip(
    axes, [equal, dear], ["every error costs 1", "taking a wine for 2 costs 10"], strict=True
):
    DecisionRegionDisplay.from_estimator(model, X_test, y_test, levels=[], ax=ax)
    ax.set(title=title, xlabel="alcohol (% by volume)", ylabel="hue")
    ax.label_outer()
plt.show()
