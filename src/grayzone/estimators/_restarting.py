"""Warm starts: the last fit's coefficients, where they belong to the same columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from grayzone.estimators._empty_classes import without_empty_classes
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.sources.labelled import Labelled

Array = Any


class Restarting:
    """A function of features or of training rows that may start from the last one."""

    warm_start: bool
    fit_intercept: bool
    kernel: Any
    classes_: Array
    intercept_: Array
    support_: Array
    support_vectors_: Array
    dual_coef_: Array
    partition_: Array

    def _previous_coef(self, labelled: Labelled) -> Array | None:
        """Coefficients of the last fit, where they can be a start for this one."""
        known = self.warm_start and hasattr(self, "intercept_")
        if not (known and np.array_equal(labelled.classes, as_numpy(self.classes_))):
            return None
        slopes = self._previous_slopes(labelled)
        if slopes is None:
            return None
        if self.fit_intercept:
            intercept = without_empty_classes(self.intercept_)
            slopes = array_namespace(slopes).concat([slopes, intercept[:, None]], axis=1)
        xp = array_namespace(slopes)
        return moved(xp.astype(slopes, xp.float64), labelled.like)

    def _previous_slopes(self, labelled: Labelled) -> Array | None:
        if self.kernel == "linear":
            slopes, K = getattr(self, "coef_", np.empty((0, 0))), len(labelled.classes)
            shape = 1 if K == 2 else K, labelled.n_features
            return slopes if tuple(slopes.shape) == shape else None
        if getattr(self, "centres", None) is not None:  # coefficients are those of other features
            return None
        rows = labelled.held
        # on a device fits with a kernel start anew
        if rows is None or not is_numpy_array(rows.weight) or "dual_coef_" not in vars(self):
            return None
        held = np.isin(self.support_, rows.places())
        if not (np.all(held) and self._same_rows(labelled.source.like())):
            return None
        slopes = np.zeros((self.dual_coef_.shape[0], rows.n_rows))
        slopes[:, np.searchsorted(rows.places(), self.support_)] = self.dual_coef_
        return slopes

    def _same_rows(self, X: Array) -> bool:
        """Whether the last fit saw these rows, by its support vectors."""
        if self.partition_.size != X.shape[0]:
            return False
        if self.kernel == "precomputed":
            return True
        before, now = self.support_vectors_, X[self.support_]
        if before.shape != now.shape:
            return False
        different = before != now
        return (different.nnz if sp.issparse(different) else np.count_nonzero(different)) == 0
