"""
Tails: what is said beyond the zone
===================================

Beyond its zone a truncated fit knows only that rows are beyond, and its probabilities pile up near
the ends. By default odds there grow as a power of the distance, by maximum likelihood on the
training rows, which changes no decision. This page compares these *tails* with the fit as it is,
and with a model that never had a zone.
"""

# %%
# Three models
# ------------
#
# Six features of Twonorm, whose log-odds are linear: plain logistic regression is the right model
# here, and nothing can be better than it but by chance.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from grayzone import TruncatedLogisticRegression
from grayzone.datasets import make_twonorm
from grayzone.displays import ZoneReliabilityDisplay

X, y = make_twonorm(600, random_state=0)
X = X[:, :6]  # six of twenty, so that the classes overlap
X_test, y_test = make_twonorm(20_000, random_state=1)
X_test = X_test[:, :6]

models = {
    "as fitted": TruncatedLogisticRegression(tails="as-fitted"),
    "calibrated tails": TruncatedLogisticRegression(),
    "no zone": TruncatedLogisticRegression(zone=None),
}
for name, model in models.items():
    p = model.fit(X, y).predict_proba(X_test)
    right = model.score(X_test, y_test)
    print(f"{name:17s} log-loss {log_loss(y_test, p):.4f}, accuracy {right:.4f}")
decisions = [models[name].predict(X_test) for name in ("as fitted", "calibrated tails")]
print("tails change no decision:", np.array_equal(*decisions))

# %%
# Reliability
# -----------
#
# Filled dots are inside the zone, open ones beyond it. As fitted, probabilities beyond the zone are
# too close to it: of rows with an estimated .8, far more are of class 1. With tails the outer ones
# lie on the diagonal, and most of the log-loss that the zone costs is won back.
#
# What tails do not touch is the zone itself, and there the figure shows a price: towards its ends
# probabilities are too close to one half. Rows beyond an end pull the fit to that end, which is
# where the truncated loss wants them, and a line cannot do that without growing flatter. At the
# threshold, where decisions are made, nothing is lost. Where probabilities themselves are what
# counts, no zone, or a wide one, is the better choice for a linear model.

fig, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained", sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    zone = None if model.zone is None else model.zone_
    ZoneReliabilityDisplay.from_predictions(
        y_test, model.predict_proba(X_test), zone=zone, n_bins=10, name="test rows", ax=ax
    )
    ax.set(title=name, xlabel="estimated P(y = 1)", ylabel="share of class 1", aspect="equal")
    ax.legend(loc="lower right", fontsize="x-small")
    ax.label_outer()
plt.show()
