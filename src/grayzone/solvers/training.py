"""The rows a model is fitted to, ready for any penalty and any zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace
from sklearn.utils.multiclass import check_classification_targets

from grayzone.numerics.checks import row_weights
from grayzone.numerics.kernels import Kernel, resolve_kernel
from grayzone.numerics.margins import SignedMargin, SoftmaxMargin

Array = Any


@dataclass(frozen=True)
class Labelled:
    """Rows with their classes and weights.

    Rows without weight are rows that are not there: ``codes`` and ``weight`` belong to the rows
    ``used`` of X. ``sample_weight`` belongs to all rows, and knows nothing of class weights.
    """

    X: Array
    classes: Array
    prior: Array
    used: Array
    codes: Array
    weight: Array
    sample_weight: Array


def label_rows(
    X: Array,
    y: Array,
    sample_weight: Array | None,
    class_weight: Any = None,
    by_rows: bool = True,
) -> Labelled:
    """Check validated data, and find what classes and weights they have.

    Parameters
    ----------
    X, y, sample_weight : arrays
        The data.
    class_weight : mapping, "balanced" or None
        Weights of the classes.
    by_rows : bool
        Whether rows will be read a few at a time: then a sparse X is one of rows.

    Returns
    -------
    rows : Labelled
        The rows.
    """
    if by_rows and sp.issparse(X):
        X = X.tocsr()
    classes = np.unique(y)
    check_classification_targets(classes)
    codes: Array = np.searchsorted(classes, y)  # an inverse of unique would sort all rows
    sample_weight, weight = row_weights(sample_weight, class_weight, classes, codes)
    prior = np.bincount(codes, sample_weight, minlength=len(classes))
    used = np.flatnonzero(weight > 0)
    _check_two_classes(classes, codes[used])
    if used.size < codes.size:
        codes, weight = codes[used], weight[used]
    return Labelled(X, classes, prior / prior.sum(), used, codes, weight, sample_weight)


def kernel_of(settings: Any, rows: Any) -> Kernel:
    """Kernel that an estimator's parameters ask for, its width set by the data where it has to.

    Of the rows, ``X`` and ``sample_weight`` are looked at.
    """
    if settings.kernel == "precomputed":
        check_kernel_matrix(rows.X)
    s = settings
    return resolve_kernel(s.kernel, s.gamma, s.degree, s.coef0, rows.X, rows.sample_weight)


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


def _check_two_classes(classes: Array, codes: Array) -> None:
    present = np.flatnonzero(np.bincount(codes, minlength=classes.size))
    if present.size < 2:
        raise ValueError(
            f"A classifier needs at least two classes with a positive weight; got one class: "
            f"{classes[present].tolist()}."
        )
    if present.size < classes.size:
        absent = np.setdiff1d(np.arange(classes.size), present)
        raise ValueError(
            f"All rows of the classes {classes[absent].tolist()} have weight zero; leave these "
            "rows out or give them a positive weight."
        )


def margin_map(rows: Labelled) -> SignedMargin | SoftmaxMargin:
    """Map from scores to margins: signed for two classes, by the symmetric softmax for more."""
    if len(rows.classes) == 2:
        return SignedMargin(np.where(rows.codes == 1, 1.0, -1.0))
    return SoftmaxMargin(rows.codes[:, None] == np.arange(len(rows.classes)))
