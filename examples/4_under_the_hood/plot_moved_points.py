"""
Import points that may move
===========================

Import vectors are training rows. But nothing says that the best places for a few kernel functions
are rows: with ``move_points=True`` the chosen points go downhill to where the loss is less. Fewer
of them then do, for a longer fit.
"""

# %%
# As many points, held and moved
# ------------------------------
#
# A mixture whose true probabilities are known, 300 rows. The loss on new rows is the expected
# log-loss under the truth, without the noise of labels.

import matplotlib.pyplot as plt
import numpy as np

from grayzone import ImportVectorMachine, TruncatedLogisticRegression
from grayzone.datasets import make_mixture

rng = np.random.default_rng(1)
centres = np.vstack([rng.normal([1, 0], 1, size=(10, 2)), rng.normal([0, 1], 1, size=(10, 2))])
X, y, _ = make_mixture(300, centres=centres, random_state=0)
X_new, _, truth = make_mixture(5000, centres=centres, random_state=1)
truth = truth[:, 1]


def log_loss_of(model):
    """Expected log-loss under the true probabilities."""
    p = model.predict_proba(X_new)[:, 1]
    return -np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p))


numbers = [2, 3, 5, 8, 12, 20]
held, moved = [], []
for number in numbers:
    for moves, results in ((False, held), (True, moved)):
        model = ImportVectorMachine(
            C=3.0, gamma=1.0, max_import_points=number, move_points=moves, tol=1e-6
        ).fit(X, y)
        results.append((model.objective_, log_loss_of(model)))
full = TruncatedLogisticRegression(kernel="rbf", gamma=1.0, C=3.0, zone=None).fit(X, y)
for number, still, went in zip(numbers, held, moved, strict=True):
    print(
        f"{number:2d} points: loss on new rows {still[1]:.3f} where they are, {went[1]:.3f} moved"
    )
print(f"all {len(y)} rows: {log_loss_of(full):.3f}")

# %%
# Where they go
# -------------
#
# Moved points leave the rows, most of all where there are few of them, and may end up where no row
# is. The fewer points, the more there is to gain; with twenty of them moving brings next to nothing
# here. The points of a moved model are no rows that one could show to somebody as examples.

five = {"max_import_points": 5, "C": 3.0, "gamma": 1.0, "tol": 1e-6}
still = ImportVectorMachine(**five).fit(X, y).import_vectors_
went = ImportVectorMachine(**five, move_points=True).fit(X, y).import_vectors_

fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
for label, marker, color in [(0, "o", "0.6"), (1, "^", "0.8")]:
    left.plot(*X[y == label].T, marker, ms=3, color=color, label=f"class {label}")
left.plot(*still.T, "s", ms=8, color="C1", label="chosen rows")
left.plot(*went.T, "D", ms=8, color="C0", label="where they moved to")
for start, end in zip(still, went, strict=True):
    left.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": "black"})
left.set(xlabel="first feature", ylabel="second feature", title="five points")
left.legend(fontsize="small", loc="lower left")
right.plot(numbers, [loss for _, loss in held], "s--", color="C1", label="rows")
right.plot(numbers, [loss for _, loss in moved], "D-", color="C0", label="moved")
right.axhline(log_loss_of(full), color="black", ls=":", lw=1, label="all rows")
right.set_xticks(numbers)
right.set(xlabel="import points", ylabel="expected log-loss on new rows (nats)")
right.legend()
plt.show()
