"""Tighter bounds around any probabilistic classifier: sample weights in, sample weights out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from grayzone.decision.costs import cost_matrix, cost_unit, savings
from grayzone.decision.example_costs import cost_matrices, true_costs
from grayzone.estimators._html import FittedSummary
from grayzone.estimators._wrapper import checked_finite
from grayzone.numerics.backend import is_single
from grayzone.numerics.checks import (
    all_or_nothing,
    as_numpy,
    check_integer,
    check_number,
    check_weights,
)
from grayzone.sources.labelled import label
from grayzone.sources.open import refuse_blocks, refuse_elsewhere, validated
from grayzone.sources.source import HeldSource

Array = Any

_ACCEPTED: dict[str, Any] = {"accept_sparse": ["csr", "csc"], "dtype": None}
_INSTEAD = "Give it a NumPy array, or use TightBoundLogisticRegression."


class TightBoundClassifier(FittedSummary, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    r"""Refit a probabilistic classifier to ever tighter bounds of its expected error.

    Algorithm 1 of Le Roux [1]_ with any model p(y|x): each fit minimises the model's own log-loss
    with the weight :math:`w_i\, c_{y_i}\, K\, p(y_i|x_i)` of each row, p from the fit before. The
    first fit has the weights :math:`w_i c_{y_i}`, so that the model's own penalty means what it
    always does. For linear models :class:`TightBoundLogisticRegression` is faster and knows
    more; this is for kernels and import vector machines.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba`` whose ``fit`` takes ``sample_weight`` and minimises a
        log-loss, such as ``ImportVectorMachine()``, or a pipeline that ends in one, to which
        weights are then passed on.
    n_bounds : int, default=5
        How many bounds; 1 is the classifier itself.
    costs : None, "balanced" or mapping {label: cost}, default=None
        Cost of misclassifying each class, in any unit: as weights of rows they are divided by their
        mean, so that the classifier's own penalty means what it always does.
    tol : float, default=1e-4
        Relative accuracy: the fit may stop once what is left to gain is at most ``tol`` times the
        objective, the mean expected cost; measured by what the last fit gained of it.

    Attributes
    ----------
    estimator_ : estimator
        The last fit that lowered the mean expected cost.
    classes_ : ndarray of shape (K,)
        Class labels.
    mean_cost_path_ : ndarray of shape (n_iter,)
        Mean expected cost on the training data after each fit, relative to the mean cost of errors
        and without the model's penalty: it need not fall where that grows.
    n_iter_ : int
        Fits.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names that are all strings.

    See Also
    --------
    TightBoundLogisticRegression : The same bounds of linear models, in one fit.
    BayesDecisionClassifier : Decide by costs without refitting.

    References
    ----------
    .. [1] Le Roux, N. (2017). Tighter bounds lead to improved classifiers. ICLR.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from grayzone import ImportVectorMachine, TightBoundClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ImportVectorMachine(max_import_points=10)
    >>> clf = TightBoundClassifier(model, n_bounds=3).fit(scale(X), y)
    >>> bool(clf.mean_cost_path_[-1] < clf.mean_cost_path_[0])
    True
    """

    def __init__(
        self, estimator: Any, *, n_bounds: int = 5, costs: Any = None, tol: float = 1e-4
    ) -> None:
        self.estimator = estimator
        self.n_bounds = n_bounds
        self.costs = costs
        self.tol = tol

    @all_or_nothing
    def fit(
        self,
        X: Array,
        y: Array = None,
        sample_weight: Array | None = None,
        example_costs: Any = None,
    ) -> Self:
        """Fit the classifier again and again; on any error nothing changes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data, passed on as they are.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        example_costs : mapping or array-like of shape (n_samples, K, K), default=None
            Costs of each row, in place of ``costs``: ``{label: costs of misclassifying each row if
            it has that label}``, or an array ``cost[row, true, decided]`` in which all errors about
            a row of a class cost the same: they are weights of rows.

        Returns
        -------
        self : TightBoundClassifier
            The fitted estimator.
        """
        self._check_parameters()
        refuse_blocks(self, X, "TightBoundLogisticRegression takes blocks.")
        refuse_elsewhere(self, X, _INSTEAD)
        checked, y = validated(self, X, y, **_ACCEPTED)
        labelled = label(HeldSource(checked, y, sample_weight, example_costs), empty=True)
        classes = labelled.classes
        codes: Array = np.searchsorted(classes, y)
        weight = check_weights(sample_weight, len(codes))
        if labelled.priced:
            weight = weight * self._worth(cost_matrices(example_costs, classes), codes, weight)
        else:
            costs = cost_matrix(self.costs, classes, labelled.prior)
            # what a class costs, whatever it is taken for: soft targets would be more than weights
            of_classes = savings(costs, cost_unit(costs, labelled.prior)).max(axis=1)
            weight = weight * of_classes[codes]
        self.classes_ = classes
        n_classes = int(np.count_nonzero(labelled.mass))
        own = np.full(len(codes), 1.0 / n_classes)
        path: list[float] = []
        # probabilities have the precision of the rows, and they are weights here
        double = X.astype(np.float64) if is_single(X) and hasattr(X, "astype") else X
        for _ in range(self.n_bounds):
            fitted = clone(self.estimator)
            fitted.fit(X, y, **{self._weighed_by(): weight * own * n_classes})
            own = fitted.predict_proba(double)[np.arange(len(codes)), codes]
            error = float(weight @ (1.0 - own) / np.sum(weight))
            if path and error >= path[-1]:
                break
            self.estimator_ = fitted
            path.append(error)
            if len(path) > 1 and path[-2] - error <= self.tol * error:
                break
        self.mean_cost_path_ = np.array(path)
        self.n_iter_ = len(path)
        return self

    def _worth(self, matrices: Array, codes: Array, weight: Array) -> Array:
        """Return what errors about rows cost, relative to the mean over those with a stake."""
        if self.costs is not None:
            raise ValueError(f"costs must be None beside example_costs; got {self.costs!r}.")
        matrices = as_numpy(matrices)
        costs, right = true_costs(matrices, codes), np.eye(matrices.shape[1], dtype=bool)[codes]
        dearest = costs.max(axis=1)
        if np.any(np.where(right, np.inf, costs).min(axis=1) != dearest):
            raise ValueError(
                "example_costs must be a mapping {label: costs}, or an array in which all errors "
                "about a row of a class cost the same, no less than the right decision: weights "
                "can be given to rows, not to decisions."
            )
        staked = weight * np.any(matrices.max(axis=2) > matrices.min(axis=2), axis=1)
        own = dearest - costs.min(axis=1)
        return own / (staked @ own / staked.sum())

    def _check_parameters(self) -> None:
        check_integer("n_bounds", self.n_bounds, least=1)
        check_number("tol", self.tol, above=0.0)
        named = isinstance(self.costs, str) and self.costs == "balanced"
        if not (self.costs is None or named or isinstance(self.costs, Mapping)):
            raise ValueError(
                f"costs must be None, 'balanced' or a mapping {{label: cost}}, as weights can be "
                f"given to rows, not to decisions; got {self.costs!r}."
            )
        self._weighed_by()
        if not hasattr(self.estimator, "predict_proba"):
            raise TypeError(f"{type(self.estimator).__name__} has no predict_proba.")

    def _weighed_by(self) -> str:
        """Return the name by which ``fit`` takes weights: that of a pipeline's last step."""
        estimator, prefix = self.estimator, ""
        while isinstance(estimator, Pipeline):
            name, estimator = estimator.steps[-1]
            prefix += f"{name}__"
        if not has_fit_parameter(estimator, "sample_weight"):
            raise TypeError(
                f"{type(estimator).__name__}.fit takes no sample_weight, which is how bounds are "
                "passed on."
            )
        routed = get_config()["enable_metadata_routing"]  # steps then ask for them by name
        return "sample_weight" if routed else f"{prefix}sample_weight"

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the last fit, which saturate: they are those of decisions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        proba : ndarray of shape (n_samples, K)
            One column a class.
        """
        check_is_fitted(self)
        refuse_blocks(self, X, "Predict for one block after the other.")
        refuse_elsewhere(self, X, _INSTEAD)
        validate_data(self, X, reset=False, **_ACCEPTED)
        return checked_finite(self.estimator_.predict_proba(X), self.estimator_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Decide for the most probable class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels.
        """
        proba = self.predict_proba(X)
        return self.classes_[np.argmax(proba, axis=1)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        return tags
