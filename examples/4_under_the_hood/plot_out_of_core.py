"""
The same coefficients from a file
=================================

Rows need not be in memory. Given a *source* of blocks, a fit reads them as often as it needs sums
over all rows, and ends at the same coefficients as from an array. Here they lie in ``.npy`` files,
and then come from a function that makes batches.
"""

# %%
# Three carriers
# --------------
#
# 220,000 rows of 20 features are not large; they are just beyond the four million entries up to
# which blocks are held whole in any case, as they would save nothing.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from grayzone import TruncatedLogisticRegression
from grayzone.datasets import make_twonorm
from grayzone.sources import from_batches, open_npy

X, y = make_twonorm(220_000, random_state=0)
readings = []


def batches():
    """A new iterator each time: every reading begins anew."""
    readings.append(0)
    for start in range(0, len(y), 20_000):
        readings[-1] += 1
        yield X[start : start + 20_000], y[start : start + 20_000]


def fit(*rows):
    return TruncatedLogisticRegression(costs={0: 1, 1: 5}, tol=1e-10, random_state=0).fit(*rows)


with tempfile.TemporaryDirectory() as folder:
    names = Path(folder) / "X.npy", Path(folder) / "y.npy"
    np.save(names[0], X)
    np.save(names[1], y)
    fits = {
        "array in memory": fit(X, y),
        ".npy files": fit(open_npy(*names, block_rows=20_000)),
        "batches": fit(from_batches(batches)),
    }

array = fits["array in memory"]
for name, model in fits.items():
    off = np.abs(model.coef_ - array.coef_).max()
    print(f"{name:16s} objective {model.objective_:.8f}, gap {model.dual_gap_:.0e}, ", end="")
    print(f"coefficients off by {off:.0e}")
print(f"batches were asked for {len(readings)} times, {max(readings)} blocks at most")

# %%
# Equal to within the tolerance
# -----------------------------
#
# The solvers take other steps where rows are read block by block, and both stop when the gap is
# small enough; ``tol=1e-10`` asks for more than the default. What differs is what that leaves open:
# an objective that is nearly flat at its minimum pins coefficients down less sharply than itself.
# Of attributes, those with an entry for each row (``support_``, ``partition_``) are only there when
# rows are in memory.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.0), layout="constrained")
places = np.arange(20)
for (name, model), marker, size, color in zip(
    fits.items(), "os^", [11, 7, 3.5], ["0.75", "C1", "C0"], strict=True
):
    left.plot(places, model.coef_[0], marker, ms=size, color=color, label=name)
    if model is not array:
        off = np.abs(model.coef_ - array.coef_)[0] / np.abs(array.coef_[0])
        right.semilogy(places, np.maximum(off, 1e-9), marker, ms=6, color=color, label=name)
left.set(xlabel="feature", ylabel="coefficient", ylim=(0, 0.4))
left.legend(loc="lower right")
right.set(xlabel="feature", ylabel="difference from the array's, relative", ylim=(1e-9, 1e-4))
right.legend()
for ax in (left, right):
    ax.set_xticks(places[::5])
plt.show()
