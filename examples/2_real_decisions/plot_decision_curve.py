"""
Is a test worth doing? Decision curves
======================================

Physicians disagree about how many needless biopsies a found tumour is worth, and so about the
threshold. A *decision curve* (Vickers & Elkin, 2006) asks for every threshold whether deciding by a
model does more good than treating everybody or nobody. This page compares a cheap model with a
dear one.
"""

# %%
# Two models
# ----------
#
# The first uses only the mean radius and texture of a sample, the second all thirty measurements.
# Probabilities are those of held-out folds.

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone.displays import NetBenefitDisplay
from grayzone.metrics import net_benefit

X, y = load_breast_cancer(return_X_y=True)
y = 1 - y  # 1 is malignant
model = make_pipeline(StandardScaler(), LogisticRegression())
cheap = cross_val_predict(model, X[:, :2], y, cv=5, method="predict_proba")[:, 1]
dear = cross_val_predict(model, X, y, cv=5, method="predict_proba")[:, 1]

# %%
# Net benefit
# -----------
#
# With a threshold t a false alarm weighs t / (1 - t) of a found tumour; the net benefit is
# found tumours less weighed false alarms, for each patient. Suppose the thirty measurements do
# harm, in time and money, worth .05 tumours a patient: ``harm`` subtracts it.

for t in (0.05, 0.2, 0.5):
    few = net_benefit(y, cheap, threshold=t)
    all_of_them = net_benefit(y, dear, threshold=t, harm=0.05)
    print(f"threshold {t:.2f}: two measurements {few:.3f}, thirty {all_of_them:.3f}")

# %%
# The curves
# ----------
#
# Both models do better than biopsies for all and for none over nearly all thresholds. Whether
# thirty measurements are worth their harm depends on the threshold: not for those who would take a
# biopsy at a low probability, where two measurements do as well, but for those who want to be
# rather sure.

fig, ax = plt.subplots(figsize=(6.8, 4.4), layout="constrained")
NetBenefitDisplay.from_predictions(y, cheap, name="two measurements", ax=ax, color="C0")
NetBenefitDisplay.from_predictions(
    y, dear, harm=0.05, name="thirty, less their harm", ax=ax, color="C1", ls="--"
)
ax.set(
    xlabel="threshold on P(malignant)",
    ylabel="net benefit (tumours found a patient)",
    ylim=(-0.05, 0.42),
)
handles, labels = ax.get_legend_handles_labels()
once = dict(zip(labels, handles, strict=True))  # all and none are drawn with either model
ax.legend(once.values(), once.keys(), fontsize="small")
plt.show()
