"""A fitted function of the rows, linear or spanned by a kernel, and the decisions taken by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from grayzone._html import FittedSummary
from grayzone._parallel import own_threads
from grayzone.decision import bayes_decision
from grayzone.designs import as_design
from grayzone.kernels import Kernel
from grayzone.losses import sigmoid

Array = Any


class FunctionClassifier(FittedSummary, ClassifierMixin, BaseEstimator):
    """Predictions from ``coef_``, or from ``dual_coef_`` on training rows, and ``intercept_``.

    A subclass has the parameter ``kernel`` and says which training rows span its function; its
    ``fit`` sets these attributes, ``classes_`` and ``cost_matrix_``, and calls ``_keep_vectors``.
    """

    kernel: Any
    classes_: Array
    cost_matrix_: Array
    intercept_: Array
    dual_coef_: Array

    @property
    def _centres(self) -> Array:
        """Training rows that ``dual_coef_`` belongs to."""
        raise NotImplementedError

    def _accepted(self) -> dict[str, Any]:
        """What kinds of X there may be."""
        formats = False if self.kernel == "precomputed" else ["csr", "csc"]
        return {"accept_sparse": formats, "dtype": [np.float64, np.float32]}

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _forget(self) -> None:
        """Drop what an earlier fit left."""
        private = ("_fit_X", "_kernel", "_vectors", "_right")
        for name in [n for n in vars(self) if n.endswith("_") or n in private]:
            delattr(self, name)

    def _keep_vectors(self, X: Array, kernel: Kernel | None) -> None:
        """Keep of the training data what the model needs: nothing, or the rows that span it."""
        for name in ("_fit_X", "_kernel", "_vectors", "_right"):
            self.__dict__.pop(name, None)
        if kernel is None:
            self._fit_X = X
            return
        self._kernel = kernel
        precomputed = kernel.name == "precomputed"
        self._vectors = np.empty((0, 0)) if precomputed else X[self._centres]
        self._prepare()

    def _prepare(self) -> None:
        """Make the right factor of the rows that span, for which all predictions ask."""
        precomputed = self._kernel.name == "precomputed"
        self._right = self._centres if precomputed else self._kernel.right(self._vectors)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be had again, and the training data of a linear model."""
        state = super().__getstate__().copy()
        for name in ("_fit_X", "_right"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make again what was left out."""
        super().__setstate__(state)
        if "_vectors" in state:
            self._prepare()

    def decision_function(self, X: Array) -> Array:
        """Log-odds of the positive class, or the K scores.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data; for a precomputed kernel the values with all training rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, K)
            The log-odds are zero at probability one half, whatever the threshold is.
        """
        self._check_fitted()
        X = validate_data(self, X, reset=False, **self._accepted())
        if "coef_" in vars(self):
            coef = np.column_stack([self.coef_, self.intercept_])
            scores = as_design(X, fit_intercept=True).scores(coef)
        else:
            scores = self._kernel_scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def _kernel_scores(self, X: Array) -> Array:
        if sp.issparse(X):
            X = X.tocsr()
        with own_threads():
            return self._kernel.product(X, self._right, self.dual_coef_.T) + self.intercept_

    def predict_proba(self, X: Array) -> Array:
        """Class probabilities, faithful inside the zone.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        proba : ndarray of shape (n_samples, K)
            One column a class. Beyond the zone a probability says only on which side it lies.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([sigmoid(-scores), sigmoid(scores)])
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Array) -> Array:
        """Logarithm of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, K)
            Finite also where a probability underflows.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        return scores - np.logaddexp.reduce(scores, axis=1)[:, None]

    def predict(self, X: Array) -> Array:
        """Decide with the least expected cost.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels. For two classes rule (1): positive if and only if p >= ``threshold_``.
        """
        proba = self.predict_proba(X)
        return self.classes_[bayes_decision(proba, self.cost_matrix_)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class SupportVectorClassifier(FunctionClassifier):
    """A function spanned by the rows that have a multiplier, ``support_``."""

    support_: Array

    @property
    def _centres(self) -> Array:
        return self.support_

    @property
    def support_vectors_(self) -> Array:
        """Training rows with a multiplier > 0."""
        self._check_fitted()
        if "_vectors" in vars(self):
            return self._vectors
        if "_fit_X" not in vars(self):
            raise AttributeError(
                "support_vectors_ is read from the training data, which a linear model does not "
                "keep when pickled; index your data with support_ instead."
            )
        return self._fit_X[self.support_]
