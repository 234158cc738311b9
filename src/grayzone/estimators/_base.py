"""A fitted function of the rows, linear or spanned by a kernel, and the decisions taken by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_array_api_obj
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from grayzone.decision import bayes_decision, cost_matrices
from grayzone.estimators._html import FittedSummary
from grayzone.estimators._lazy import lazily
from grayzone.estimators._stakes import warn_beyond_reach
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import Floats, Numbers, as_numpy
from grayzone.numerics.designs import as_design
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.losses import sigmoid
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.pitfalls import Pitfall
from grayzone.numerics.threads import own_threads
from grayzone.sources.open import check_same_place, validated

Array = Any

# What is said where there is no penalty and nothing else to keep coefficients from growing.
NO_OPTIMUM = (
    "C=inf has no optimum here: a linear function tells the classes apart without an error, and "
    f"the larger it is the better. Give a finite C. {Pitfall.NOT_CONVERGED}"
)
# Scores above it are not told from infinity: differences of two of them might be infinite.
_MOST = 1e300


class FunctionClassifier(FittedSummary, ClassifierMixin, BaseEstimator):
    """Predictions from ``coef_``, or from ``dual_coef_`` on training rows, and ``intercept_``.

    A subclass has the parameter ``kernel`` and says which training rows span its function; its
    ``fit`` sets these attributes, ``classes_`` and ``cost_matrix_``, and calls ``_keep_vectors``.
    """

    # As type checkers see it arrays are NumPy's; under ``array_api_dispatch`` they are of X's kind.
    kernel: Any
    classes_: NDArray[Any]
    cost_matrix_: Floats
    coef_: Floats
    intercept_: Floats
    dual_coef_: Floats
    n_features_in_: int

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
        private = ("_fit_X", "_kernel", "_vectors", "_right", "_reach", "_reject_costs")
        for name in [n for n in vars(self) if n.endswith("_") or n in private]:
            delattr(self, name)

    def _keep_vectors(self, X: Array, kernel: Kernel | None) -> None:
        """Keep of the training data what the model needs: nothing, or the rows that span it."""
        self._keep_nothing()
        if kernel is None:
            self._fit_X = X
            return
        self._kernel = kernel
        precomputed = kernel.name == "precomputed"
        self._vectors = (
            moved(np.empty((0, 0)), self.dual_coef_) if precomputed else rows_of(X, self._centres)
        )
        self._prepare()

    def _keep_nothing(self) -> None:
        for name in ("_fit_X", "_kernel", "_vectors", "_right"):
            self.__dict__.pop(name, None)

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

    def _scores(self, X: Array, method: str) -> Array:
        """Scores (n, 1) or (n, K), for the public method of that name."""
        self._check_fitted()
        check_same_place(self, X, self.intercept_, method)
        return self._beyond(self._scores_of(validated(self, X, reset=False, **self._accepted())))

    def _beyond(self, scores: Array) -> Array:
        """Scores as predictions know them: a model with a zone may change them outside of it."""
        return scores

    def _scores_of(self, X: Array) -> Array:
        """Scores of rows that are known to be good."""
        if "coef_" in vars(self):
            return linear_scores(X, self.coef_, self.intercept_)
        return checked_scores(self._kernel_scores(X))

    def _kernel_scores(self, X: Array) -> Array:
        if sp.issparse(X):
            X = X.tocsr()
        with own_threads():
            return self._kernel.product(X, self._right, self.dual_coef_.T) + self.intercept_

    @lazily
    def decision_function(self, X: Any) -> Numbers:
        """Return the log-odds of the positive class, or the K scores.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data; for a precomputed kernel the values with all training rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, K)
            The log-odds are zero at probability one half, whatever the threshold is.
        """
        scores = self._scores(X, "decision_function")
        return scores[:, 0] if self.classes_.shape[0] == 2 else scores

    @lazily
    def predict_proba(self, X: Any) -> Numbers:
        """Class probabilities, faithful inside the zone.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        proba : ndarray of shape (n_samples, K)
            One column a class. Beyond a zone they are as ``tails`` says, where there is that.
        """
        return class_probabilities(self._scores(X, "predict_proba"))

    @lazily
    def predict_log_proba(self, X: Any) -> Numbers:
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
        return log_probabilities(self._scores(X, "predict_log_proba"))

    @lazily
    def predict(self, X: Any, example_costs: Any = None) -> NDArray[Any]:
        """Decide with the least expected cost.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        example_costs : array-like of shape (n_samples, K, K) or mapping, default=None
            Costs of each row, by which it is decided: ``cost[row, true, decided]``, or ``{label:
            costs of misclassifying each row if it has that label}``. None: by ``cost_matrix_``, or
            by the costs that blocks bring. Where nothing is at stake any decision is right.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels. For two classes rule (1): positive if and only if p >= ``threshold_``. With a
            ``reject_cost`` the undecided label where even the best decision would cost more.
        """
        return decided(self, class_probabilities(self._scores(X, "predict")), example_costs)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.array_api_support = self._supports_arrays()
        return tags

    def _supports_arrays(self) -> bool:
        """Whether arrays of other libraries stay there under ``array_api_dispatch``."""
        return False


def rows_of(X: Array, rows: Array) -> Array:
    """Return some rows of an array or a table of any library, a sparse matrix or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if isinstance(X, (list, tuple)):
        return [X[k] for k in rows]
    if type(X).__module__.startswith("pyarrow") and not isinstance(rows, slice):
        return X.take(np.asarray(rows))
    if is_array_api_obj(X) and not is_numpy_array(X):
        return array_namespace(X).take(X, moved(rows, X), axis=0)
    if sp.issparse(X):
        X = X.tocsr()
    return (X if hasattr(X, "__getitem__") else np.asarray(X))[rows]


def linear_scores(X: Array, slopes: Array, intercept: Array) -> Array:
    """Scores (n, Q) of a linear model with coefficients (Q, d) and (Q,)."""
    xp = array_namespace(slopes)
    coef = xp.concat([slopes, intercept[:, None]], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        return checked_scores(as_design(X, fit_intercept=True).scores(coef))


def checked_scores(scores: Array) -> Array:
    """Return scores of rows; an error where some are so large that they say nothing any more."""
    xp = array_namespace(scores)
    good = xp.abs(scores) < _MOST
    if bool(xp.all(good)):
        return scores
    row = int(np.flatnonzero(~as_numpy(good).reshape(scores.shape[0], -1).all(axis=1))[0])
    raise ValueError(
        f"Row {row} of X has values so large that its scores are not finite, or above {_MOST:g}. "
        f"Leave it out, or scale the features as those of the training data. {Pitfall.UNSCALED}"
    )


def class_probabilities(scores: Array) -> Array:
    """Probabilities (n, K) of scores: log-odds (n, 1) of two classes, or one score a class."""
    xp = array_namespace(scores)
    if scores.shape[1] == 1:
        return xp.concat([sigmoid(-scores), sigmoid(scores)], axis=1)
    e = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return e / xp.sum(e, axis=1, keepdims=True)


def log_probabilities(scores: Array) -> Array:
    """Logarithms of the same, finite also where a probability underflows."""
    xp = array_namespace(scores)
    if scores.shape[1] == 1:
        scores = xp.concat([xp.zeros_like(scores), scores], axis=1)
    top = xp.max(scores, axis=1, keepdims=True)
    return scores - (top + xp.log(xp.sum(xp.exp(scores - top), axis=1, keepdims=True)))


def move_decision(estimator: Any, like: Array) -> None:
    """Put classes, actions, costs and caps where the data are; names of labels stay NumPy's."""
    for name in ("classes_", "actions_", "cost_matrix_", "zone_"):
        value = getattr(estimator, name, None)
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            setattr(estimator, name, moved(value, like))


def labels_at(labels: Array, places: Array) -> Array:
    """Labels at these places, in the library that they are in; names are NumPy's."""
    if is_numpy_array(labels):
        return labels[as_numpy(places)]
    return array_namespace(labels).take(labels, places)


def decided(model: Any, proba: Array, example_costs: Any = None) -> Array:
    """Labels of the actions of least expected cost: that of each row, or that of all."""
    undecided, costs = getattr(model, "_reject_costs", None), model.cost_matrix_
    if example_costs is not None:
        classes, n_rows = as_numpy(model.classes_), proba.shape[0]
        costs = cost_matrices(example_costs, classes, n_rows, some_stake=False)
        warn_beyond_reach(model, costs, depth=5)
    elif hasattr(model, "threshold_tuning_"):  # the threshold is not that of the costs
        xp = array_namespace(proba)
        return labels_at(model.classes_, xp.astype(proba[:, 1] >= model.threshold_, xp.int64))
    actions = model.classes_ if undecided is None else model.actions_
    return labels_at(actions, bayes_decision(proba, costs, reject_cost=undecided))


class SupportVectorClassifier(FunctionClassifier):
    """A function spanned by the rows that have a multiplier, ``support_``."""

    support_: NDArray[np.intp]

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
                "keep when it is pickled or moved, nor when it is fitted to blocks; index your "
                "data with support_ where there is one."
            )
        return rows_of(self._fit_X, self.support_)
