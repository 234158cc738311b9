"""
The truncated losses of both classes
====================================

Hérault & Grandvalet (2007) cut the likelihood off outside a zone :math:`[p_{\\min}, p_{\\max}]`.
What is left is a loss for each class: logarithmic up to the kink, and flat beyond it. Where the
kinks are is set by the decision, not by the data. This page draws both losses for two zones.
"""

# %%
# The loss in score space
# -----------------------
#
# With the log-odds f of the positive class, a positive row costs
# :math:`\log(1 + e^{-\min(f,\, \mathrm{logit}\, p_{\max})})` and a negative one
# :math:`\log(1 + e^{\max(f,\, \mathrm{logit}\, p_{\min})})`. They are computed here from
# ``zone_log_loss``, criterion (3) of the paper, one row at a time.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, logit

from grayzone.decision import threshold_from_costs, zone_around
from grayzone.metrics import zone_log_loss

f = np.linspace(-5, 5, 201)


def loss(label, zone):
    return [zone_log_loss([label], [p], zone=zone, labels=[0, 1]) for p in expit(f)]


settings = {
    "equal costs": zone_around(0.5, 1.0),
    "a miss costs 9": zone_around(threshold_from_costs({0: 1, 1: 9}), 1.0),
}
for name, zone in settings.items():
    print(f"{name}: zone from {zone[0]:.3f} to {zone[1]:.3f}")

# %%
# Both classes
# ------------
#
# Rows of the positive class stop mattering to the right of the zone, those of the negative class to
# its left: a model that has them there has them right, by a margin, and need not be surer. On the
# wrong side both keep the slope of the log-loss, and a row that is far off pulls as much as ever.
# That is the price of convexity; ``loss="ramp"`` saturates there, too, and has local optima.

fig, axes = plt.subplots(1, 2, figsize=(10, 4.0), layout="constrained", sharey=True)
for ax, (name, zone) in zip(axes, settings.items(), strict=True):
    ax.axvspan(*logit(zone), color="0.92", label="gray zone")
    ax.plot(f, loss(1, zone), color="C0", lw=2, label="positive rows")
    ax.plot(f, loss(0, zone), color="C1", lw=2, ls="--", label="negative rows")
    ax.plot(f, loss(1, None), color="C0", lw=1, ls=":", label="log-loss, positive rows")
    ax.plot(f, loss(0, None), color="C1", lw=1, ls=":", label="log-loss, negative rows")
    ax.set(title=name, xlabel="log-odds f", ylabel="loss of a row (nats)", ylim=(0, 5))
    ax.label_outer()
axes[1].legend(fontsize="small", loc="upper center")
plt.show()

# %%
# With unequal costs the zone moves to low probabilities and the two losses are no longer mirror
# images: positive rows are content early, negative rows are asked to be far to the left.
