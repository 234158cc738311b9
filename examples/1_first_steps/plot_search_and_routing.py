"""
Pipelines, searches, and costs that travel along
================================================

Estimators of grayzone are ordinary scikit-learn estimators: they go into pipelines and are searched
over. Two things deserve attention. A search has to judge by cost, not by accuracy; and where each
row has costs of its own, these have to reach ``fit``, ``predict`` and the score of each fold.
"""

# %%
# A search that judges by cost
# ----------------------------
#
# The data are 1,000 rows with a rare class; overlooking one of it costs 10. The grid has C of a
# model behind a scaler. ``make_cost_scorer`` is the negative mean cost, so that larger is better.

import matplotlib.pyplot as plt
import numpy as np
from sklearn import config_context
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import TruncatedLogisticRegression
from grayzone.decision import cost_matrices
from grayzone.metrics import make_cost_scorer

X, y = make_classification(
    1000, n_features=30, n_informative=6, weights=[0.85], class_sep=0.6, random_state=0
)
costs = {0: 1, 1: 10}
grid = {"truncatedlogisticregression__C": np.logspace(-4, 1, 11)}
pipe = make_pipeline(StandardScaler(), TruncatedLogisticRegression(zone=None, costs=costs))
scoring = {"cost": make_cost_scorer(costs), "accuracy": "accuracy"}
search = GridSearchCV(pipe, grid, scoring=scoring, refit="cost", cv=5).fit(X, y)
results = search.cv_results_
Cs = np.asarray(results["param_truncatedlogisticregression__C"], dtype=float)
print("C by cost:    ", Cs[np.argmin(results["rank_test_cost"])])
print("C by accuracy:", Cs[np.argmin(results["rank_test_accuracy"])])

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.semilogx(Cs, -results["mean_test_cost"], "o-")
left.set(xlabel="C", ylabel="mean cost on held-out rows", title="what is paid")
right.semilogx(Cs, results["mean_test_accuracy"], "s-", color="C1")
right.set(xlabel="C", ylabel="accuracy on held-out rows", title="what is often looked at")
plt.show()

# %%
# Accuracy asks for a weak penalty, costs for a strong one: whoever searches by the wrong figure
# gets another model.
#
# Costs of each row
# -----------------
#
# Now every row has a cost of its own, say an amount. Scikit-learn hands such arrays on if each part
# says that it wants them, and splits them with the rows. ``cost_matrices`` makes one array of all
# costs, ``cost[row, true, decided]``, which folds can be cut from.

amounts = np.random.default_rng(0).lognormal(2.0, 1.0, size=len(y))
E = cost_matrices({0: 1.0, 1: amounts}, classes=[0, 1])

with config_context(enable_metadata_routing=True):
    asks = TruncatedLogisticRegression(zone=None)
    asks.set_fit_request(example_costs=False).set_predict_request(example_costs=True)
    scorer = make_cost_scorer().set_score_request(example_costs=True)
    routed = GridSearchCV(make_pipeline(StandardScaler(), asks), grid, scoring=scorer, cv=5)
    routed.fit(X, y, example_costs=E)
    decided = routed.best_estimator_.predict(X, example_costs=E)
print("C by the costs of the rows:", routed.best_params_["truncatedlogisticregression__C"])

# %%
# ``set_fit_request(example_costs=False)`` says that the fit does not want them: the likelihood has
# no use for costs. Predictions do, as each row has its own threshold, and so does the score. A part
# that says nothing, where costs arrive, is an error and not a silent choice.
#
# The rows that are decided for class 1 although their probability is small are those with much at
# stake:

proba = routed.predict_proba(X)[:, 1]
few = (decided == 1) & (proba < 0.05)
print(f"{few.sum()} rows of a probability below .05 are decided for class 1;")
print(f"their median amount is {np.median(amounts[few]):.0f}, that of all {np.median(amounts):.0f}")
