"""
A scorecard that decides as the model does
==========================================

Whoever is refused may ask why, and whoever runs the database may not have Python. A linear model is
a sum over columns: written as points, it can be read, printed, and computed in SQL, and decides
exactly as the model does.
"""

# %%
# A small model
# -------------
#
# Few columns make a card that fits on a page: an l1 penalty chooses them. Missing a malignant
# tumour costs 5, a false alarm 1.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import TruncatedLogisticRegression
from grayzone.scorecards import scorecard

data = load_breast_cancer(as_frame=True)
X = data.data.filter(like="mean ")
y = np.where(data.target == 0, "malignant", "benign")
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
model = make_pipeline(
    StandardScaler(),
    TruncatedLogisticRegression(
        C=0.05, zone=None, penalty="l1", costs={"benign": 1, "malignant": 5}
    ),
).fit(X_train, y_train)
used = model[-1].coef_[0] != 0
print(f"{used.sum()} of {X.shape[1]} columns are used:", ", ".join(X.columns[used]))

# %%
# Points
# ------
#
# Twenty points double the odds, as in many scorecards. A column gives its points and some more for
# each unit; points are not rounded, so that the decisions are those of the model.

card = scorecard(model, points_per_doubling=20)
lines = pd.DataFrame(card.rows())
lines[lines["points_per_unit"] != 0].dropna(subset="points")[
    ["column", "points", "points_per_unit"]
]

# %%
print("malignant from", round(card.cuts[0], 1), "points on")
print("same decisions:", bool((card.decide(X_test) == model.predict(X_test)).all()))

# %%
# The same card is a query for a database. Its first lines:

print(*card.to_sql("samples").splitlines()[:9], sep="\n")

# %%
# Three patients
# --------------
#
# What each column adds to the points, compared with a typical patient, is the reason for a
# decision. The dashed line is how many points above the typical patient a tumour counts as
# malignant.

per_unit = {
    line["column"]: line["points_per_unit"] for line in card.rows() if line["points_per_unit"]
}
typical = X_train.median()
points = card.points(X_test)
near = np.argsort(np.abs(points - card.cuts[0]))[0]
patients = {
    "safely benign": np.argsort(points)[len(points) // 4],
    "nearest to the cut": near,
    "safely malignant": np.argsort(points)[-len(points) // 8],
}
start = card.points(typical.to_frame().T)[0]
fig, ax = plt.subplots(figsize=(7.6, 3.8), layout="constrained")
for place, row in enumerate(patients.values()):
    right = left = 0.0
    for number, (column, slope) in enumerate(per_unit.items()):
        added = slope * (X_test[column].iloc[row] - typical[column])
        at = right if added > 0 else left
        label = column if place == 0 else None
        color = ["C0", "C1", "0.55"][number]
        ax.barh(place, added, left=at, height=0.5, color=color, edgecolor="white", label=label)
        right, left = right + max(added, 0), left + min(added, 0)
    ax.plot(right + left, place, "D", color="black", label=None if place else "all together")
ax.axvline(card.cuts[0] - start, color="black", ls="--", lw=1, label="malignant from here on")
ax.axvline(0, color="0.7", lw=1, zorder=0)
ax.set_yticks(range(3), list(patients))
ax.set(xlabel="points, compared with a typical patient", ylabel="patient")
ax.legend(fontsize="small", loc="center right")
plt.show()
