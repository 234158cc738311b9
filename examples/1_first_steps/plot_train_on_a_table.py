"""
From a table to a decision model
================================

:func:`grayzone.train` takes a table as it is, with categories and gaps, and what mistakes cost. It
returns a model that decides, and an account of what its decisions will cost. The same happens on
the command line with ``grayzone train``.
"""

# %%
# A table
# -------
#
# Machines in a plant: some stop within a week. Looking after one that would have run costs 1, a
# stop that was not foreseen costs 8. One column is a category, and some measurements are missing.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.special import expit

import grayzone

rng = np.random.default_rng(0)


def machines(n):
    hours = rng.gamma(2.0, 400.0, size=n)
    vibration = rng.normal(2.0, 0.5, size=n)
    kind = rng.choice(["press", "lathe", "mill"], size=n)
    heat = rng.normal(60, 8, size=n)
    score = -5.2 + hours / 500 + 1.2 * (vibration - 2) + 1.2 * (kind == "press") + (heat - 60) / 12
    stops = np.where(rng.random(n) < expit(score), "stops", "runs")
    heat[rng.random(n) < 0.1] = np.nan
    columns = {"hours": hours, "vibration": vibration, "kind": kind, "heat": heat, "week": stops}
    return pd.DataFrame(columns)


table, new = machines(800), machines(4000)
table.head(3)

# %%
# Train
# -----
#
# ``model="logistic-regression"`` keeps this page quick. Left out, an ensemble of six members is
# trained and compared with them, which takes longer and is what to take for a table of your own.

model = grayzone.train(
    table, "week", costs={"stops": 8, "runs": 1}, positive="stops", model="logistic-regression"
)
promise = model.promise
print(f"threshold: {model.threshold:.3f}")
print(f"promised cost: {promise.cost:.3f}, from {promise.low:.3f} to {promise.high:.3f}")
print(f"cost on {len(new)} machines it has never seen: {model.mean_cost(new, new['week']):.3f}")

# %%
# Facts of the report
# -------------------
#
# ``model.metrics`` has the numbers of the report that ``model.save_report("report.html")`` writes:
# whether the model is worth using, in one sentence, and which columns matter to what decisions
# cost.

verdict = model.metrics["verdict"]
print("worth using:", verdict["deploy"])
print(verdict["sentence"])
for column in model.metrics["importance"]:
    print(f"{column['column']:10s} shuffled: {column['cost']:+.3f} ± {column['error']:.3f} a row")

# %%
# What was promised, and what came
# --------------------------------
#
# The promise is the cost on rows that a model had not seen, by cross-validation, with an interval
# that should hold the truth with a probability of .95. Beside it stand the two rules that need no
# model. The cost on the new machines lies inside the interval, in its upper part: one table of 800
# rows cannot promise more exactly than that.

rules = {rule.name: rule.cost for rule in promise.rules}
fig, ax = plt.subplots(figsize=(6.6, 3.0), layout="constrained")
ax.barh([*rules, "the model"], [*rules.values(), promise.cost], color=["0.7", "0.7", "C0"])
ax.errorbar(
    promise.cost,
    2,
    xerr=[[promise.cost - promise.low], [promise.high - promise.cost]],
    color="black",
    capsize=4,
    label="interval of the promise",
)
ax.plot(model.mean_cost(new, new["week"]), 2, "D", color="C1", label="on 4,000 new machines")
ax.set(xlabel="mean cost of a decision (needless inspections)", ylabel="who decides")
ax.legend(loc="lower right", fontsize="small")
plt.show()

# %%
# New rows get a decision, its probability, what either decision is expected to cost, and, when
# asked for, reasons: what each column adds to the log-odds, compared with typical machines.

model.decide(new.iloc[:3], reasons=2).T
