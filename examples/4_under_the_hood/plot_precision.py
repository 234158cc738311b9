"""
Single precision in, double precision sums
==========================================

Rows in single precision take half the memory. Sums over them are made in double precision all the
same, so that a fit to ``float32`` rows is that of the same, rounded, rows in ``float64``. What is
lost is in the rounding of the data and of the coefficients; this page measures it.
"""

# %%
# Five models, twice
# ------------------
#
# Each is fitted to rows in double precision, to the same rows in single precision, and to those
# rounded rows in double precision again. The first two differ by all that single precision does;
# the last two by what it does inside the fit and the predictions.

import matplotlib.pyplot as plt
import numpy as np

from grayzone import ImportVectorMachine, TightBoundLogisticRegression, TruncatedLogisticRegression
from grayzone.datasets import make_twonorm

X, y = make_twonorm(2000, random_state=0)
X_new, _ = make_twonorm(2000, random_state=1)
models = {
    "no zone": TruncatedLogisticRegression(zone=None),
    "zone": TruncatedLogisticRegression(),
    "zone,\nrbf kernel": TruncatedLogisticRegression(kernel="rbf"),
    "ten bounds": TightBoundLogisticRegression(n_bounds=10),
    "import\npoints": ImportVectorMachine(max_import_points=15),
}


def scores(model, kind):
    return model.fit(X.astype(kind), y).decision_function(X_new.astype(kind))


in_all, in_fit = [], []
rounded, rounded_new = X.astype(np.float32), X_new.astype(np.float32)
for name, model in models.items():
    double, single = scores(model, np.float64), scores(model, np.float32)
    again = model.fit(rounded.astype(float), y).decision_function(rounded_new.astype(float))
    scale = np.abs(double).max()
    in_all.append(np.abs(single - double).max() / scale)
    in_fit.append(np.abs(single - again).max() / scale)
    differ = np.sum((single > 0) != (double > 0))
    print(
        f"{' '.join(name.split()):17s} {single.dtype} scores, off by {in_all[-1]:.0e} of the ",
        end="",
    )
    print(f"largest; {differ} of {len(double)} decisions differ")

# %%
# What the figure shows
# ---------------------
#
# Given the rounded rows, every fit is as exact as numbers in single precision can be: squares lie
# below its resolution. What the rounding of the rows does comes on top, and shows most in the
# kernel model with a zone. None of it changes a decision here.

fig, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
places = np.arange(len(models))
ax.semilogy(places - 0.08, in_all, "o", color="C0", label="single against double rows")
ax.semilogy(places + 0.08, in_fit, "s", color="C1", label="the same, rounded rows")
ax.axhline(np.finfo(np.float32).eps, color="0.4", lw=1, ls=":", label="resolution of float32")
ax.set_xticks(places, list(models))
ax.set(xlabel="model", ylabel="largest difference of scores, relative", ylim=(1e-9, 1e-4))
ax.legend(loc="lower right", fontsize="small")
plt.show()
