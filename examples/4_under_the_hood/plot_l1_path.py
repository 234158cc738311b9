"""
A path of the l1 penalty, with certificates
===========================================

With ``penalty="l1"`` most coefficients are zero, and the more so the smaller C is. Following C from
small to large shows in which order features come in, what each number of features costs, and where
a zone makes a difference to either.
"""

# %%
# A path, each fit started from the one before
# --------------------------------------------
#
# ``warm_start`` keeps the last solution as the start of the next. Each fit has a duality gap.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from grayzone import TruncatedLogisticRegression
from grayzone.metrics import expected_cost

data = load_breast_cancer()
y = 1 - data.target  # 1 is malignant
X_train, X_test, y_train, y_test = train_test_split(
    data.data, y, test_size=0.5, random_state=0, stratify=y
)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
costs = {0: 1, 1: 2}
Cs = np.logspace(-2, 1, 25)


def path(zone):
    model = TruncatedLogisticRegression(penalty="l1", zone=zone, costs=costs, warm_start=True)
    coefs, paid, gaps = [], [], []
    for C in Cs:
        model.set_params(C=C).fit(X_train, y_train)
        coefs.append(model.coef_[0])
        paid.append(expected_cost(y_test, model.predict(X_test), costs=costs))
        gaps.append(model.dual_gap_)
    print(f"zone {zone}: largest gap of {len(Cs)} fits {max(gaps):.0e}")
    return np.array(coefs), np.array(paid)


plain, plain_cost = path(None)
zoned, zoned_cost = path(1.0)
first = np.flatnonzero(np.abs(plain).sum(axis=1))[0]
print("first to come in:", ", ".join(data.feature_names[plain[first] != 0]))

# %%
# Coefficients and costs
# ----------------------
#
# On the left the coefficients, the four largest by name. On the right what decisions cost beside
# the number of features: a few features do nearly all there is to do, and beyond that costs move up
# and down by single patients. The zone makes no difference here that 285 test rows could show.

print("test rows:", len(y_test))

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
heavy = np.argsort(-np.abs(plain).max(axis=0))[:4]
left.semilogx(Cs, np.delete(plain, heavy, axis=1), color="0.8", lw=1)
for number, style, color in zip(
    heavy, ["-", "--", "-.", ":"], ["C0", "C1", "black", "0.4"], strict=True
):
    left.semilogx(Cs, plain[:, number], style, color=color, lw=2, label=data.feature_names[number])
left.set(xlabel="C", ylabel="coefficient (features standardised)", title="no zone")
left.legend(fontsize="small", loc="upper left")
for coefs, paid, style, color, label in [
    (plain, plain_cost, "o", "C0", "no zone"),
    (zoned, zoned_cost, "D", "C1", "zone 1.0"),
]:
    right.plot((coefs != 0).sum(axis=1), paid, style, color=color, mfc="none", label=label)
right.set(xlabel="features used", ylabel="mean cost on test rows (false alarms)", ylim=(0, None))
right.legend()
plt.show()
