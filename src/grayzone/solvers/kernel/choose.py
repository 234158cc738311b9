"""The kernel that parameters ask for, its width set by the rows where it has to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace

from grayzone.numerics.kernels import Kernel, resolve_kernel
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

_WITH_WIDTH = ("rbf", "poly", "sigmoid", "laplacian")


def kernel_for(settings: Any, labelled: Labelled) -> Kernel:
    """Return the kernel that an estimator's parameters ask for.

    Parameters
    ----------
    settings : estimator
        Its parameters are ``kernel``, ``gamma``, ``degree`` and ``coef0``.
    labelled : Labelled
        The rows; their own weights count in the width, those of classes do not.

    Returns
    -------
    kernel : Kernel
        Its width is a positive number.
    """
    name, gamma, others = settings.kernel, settings.gamma, (settings.degree, settings.coef0)
    if labelled.held is not None:
        if name == "precomputed":
            check_kernel_matrix(labelled.source.like())
        rows = labelled.plain.held
        assert rows is not None
        return resolve_kernel(name, gamma, *others, rows.X, rows.weight)
    d = labelled.n_features
    if name in _WITH_WIDTH and isinstance(gamma, str) and gamma == "scale":
        plain = labelled.plain
        sums = plain.reduce(_Entries(0.0))
        mean = sums["sum"] / sums["total"]
        spread = plain.reduce(_Entries(mean))["square"] / sums["total"]
        gamma = 1.0 / (d * spread) if spread > 0 else 1.0
    return resolve_kernel(name, gamma, *others, np.zeros((1, d)))


@dataclass(frozen=True)
class _Entries:
    """Number, sum and squared distances from ``centre`` of all entries of X, rows weighted."""

    centre: float

    def __call__(self, rows: Rows) -> Sums:
        d, w = rows.X.shape[1], rows.weight
        xp = array_namespace(w)
        X = rows.X.astype(np.float64) if sp.issparse(rows.X) else xp.astype(rows.X, xp.float64)
        if sp.issparse(X):
            linear = np.asarray(X.sum(axis=1)).ravel()
            square = np.asarray(X.multiply(X).sum(axis=1)).ravel()
            square = square - self.centre * (2.0 * linear - d * self.centre)
        else:
            linear = xp.sum(X, axis=1)
            square = xp.sum((X - self.centre) ** 2, axis=1)
        sums = {"total": d * w, "sum": w * linear, "square": w * square}
        return {name: float(xp.sum(values)) for name, values in sums.items()}


def check_kernel_matrix(K: Array) -> None:
    """Check that a precomputed kernel is square and symmetric."""
    xp, (n, m) = array_namespace(K), K.shape
    if n != m:
        raise ValueError(
            f"kernel='precomputed' needs the kernel values of all pairs of training rows, a "
            f"square matrix; got shape {(n, m)}."
        )
    for a in range(0, n, 1024):
        rows, columns = K[a : min(n, a + 1024), :], K[:, a : min(n, a + 1024)].T
        worst = float(xp.max(xp.abs(rows - columns)))
        if worst > 1e-6 * float(xp.max(xp.abs(rows))):
            raise ValueError(
                f"A precomputed kernel matrix has to be symmetric; rows {a} to "
                f"{min(n, a + 1024) - 1} differ from their columns by up to {worst:.2e}."
            )
