"""The kernel that parameters ask for, its width set by the rows where it has to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grayzone.numerics.kernels import (
    COMPUTED,
    Extent,
    Kernel,
    resolve_kernel,
    scaled_width,
    squares_about,
    sums_about,
    variance_of,
)
from grayzone.numerics.namespace import array_namespace
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
    d, plain = labelled.n_features, labelled.plain
    kernel = resolve_kernel(name, gamma, *others, np.zeros((1, d)))
    if name not in COMPUTED:
        return kernel
    scaled = name in _WITH_WIDTH and isinstance(gamma, str) and gamma == "scale"
    first = plain.reduce(_Entries(0.0))
    extent = Extent.joined(first["extents"])
    if scaled:
        sums = plain.reduce(_Entries(first["sum"] / first["total"]))
        variance = variance_of(*(sums[name] for name in ("total", "sum", "square")))
        kernel = replace(kernel, gamma=scaled_width(d, variance, extent))
    return kernel.near(extent)


@dataclass(frozen=True)
class _Entries:
    """Number, differences and squared ones from ``mean`` of all entries of X, rows weighted.

    And where the rows are.
    """

    mean: float

    def __call__(self, rows: Rows) -> Sums:
        (n, d), w = rows.X.shape, rows.weight
        xp = array_namespace(w)
        sums = {
            "total": d * xp.sum(w),
            "sum": w @ sums_about(rows.X, self.mean),
            "square": w @ squares_about(rows.X, self.mean),
        }
        found: Sums = {name: float(value) for name, value in sums.items()}
        return {**found, "extents": [(n, Extent.of(rows.X))]}


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
