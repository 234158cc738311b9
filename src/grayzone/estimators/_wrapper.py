"""What classifiers that decide for another one share: its fit, its answers, its tags."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, assert_all_finite, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from grayzone.estimators._base import labels_at
from grayzone.estimators._html import FittedSummary
from grayzone.numerics.backend import is_elsewhere, moved
from grayzone.numerics.checks import Given, Numbers, Result, as_numpy
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.sources.open import check_same_place, refuse_blocks


def if_estimator_has(
    method: str,
) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Make a method be there if the wrapped estimator, fitted or not, has one of a name."""

    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    decorator: Callable[[Callable[Given, Result]], Callable[Given, Result]] = available_if(check)
    return decorator


class DecidingWrapper(FittedSummary, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier around another one, whose parameter is called ``estimator``."""

    # What the classifier inside requests for its fit is not asked for in `score`, unless told to.
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sample_weight": False}

    estimator: Any
    estimator_: Any
    actions_: NDArray[Any]
    _home: Any

    def _check_target(self, y: Any) -> None:
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        labels = as_numpy(y)
        assert_all_finite(labels, input_name="y")
        target = type_of_target(labels, input_name="y")
        if target not in ("binary", "multiclass"):
            raise ValueError(
                f"Unknown label type: {target}. Expected one label per row, of two or more classes."
            )

    def _routed_fit_params(self, sample_weight: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
        if get_config()["enable_metadata_routing"]:
            router = self.get_metadata_routing()
            router.validate_metadata(params=fit_params, method="fit")
            # weights that came here are of use here, whether or not the classifier requests them
            given = {"sample_weight": sample_weight, **fit_params}
            given = {name: value for name, value in given.items() if value is not None}
            return dict(router.route_params(params=given, caller="fit")["estimator"]["fit"])
        if sample_weight is None:
            return fit_params
        return {**fit_params, "sample_weight": sample_weight}

    def _expose_inner(self, estimator: Any, actions: NDArray[Any], X: Any) -> None:
        """Keep the fitted classifier, and what can be decided, where the data are."""
        # A frozen classifier was fitted elsewhere, on data of a library only it knows.
        frozen = isinstance(self.estimator, FrozenEstimator)
        self.actions_ = _placed(
            actions, X if is_elsewhere(X) and not frozen else estimator.classes_
        )
        # empty: an array that moves with the others (grayzone.arrays) and says where they are
        self._home = None if frozen else _placed(np.empty(0), X if is_elsewhere(X) else None)
        self.estimator_ = estimator

    def _labels(self, chosen: Any) -> NDArray[Any]:
        """Return the actions of these numbers."""
        if is_numpy_array(self.actions_):
            return labels_at(self.actions_, chosen)
        # those of a frozen classifier may be where its labels were, and its data elsewhere
        return labels_at(moved(self.actions_, chosen), chosen)

    @if_estimator_has("predict_proba")
    def predict_proba(self, X: Any) -> Numbers:
        """Return class probabilities: those that decisions are made by.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities of the classes, in the order of `classes_`.
        """
        return self._proba(X, caller="predict_proba")

    @if_estimator_has("predict_log_proba")
    def predict_log_proba(self, X: Any) -> Numbers:
        """Return the logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Log-probabilities of the classes, in the order of `classes_`.
        """
        check_is_fitted(self)
        return self._log_proba(X)

    @if_estimator_has("decision_function")
    def decision_function(self, X: Any) -> Numbers:
        """Return the wrapped classifier's decision function, which knows nothing of costs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data, as the wrapped classifier takes it.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            The scores.
        """
        scores = self._respond("decision_function", X, caller="decision_function")
        return checked_finite(scores, self.estimator_, "scores")

    def _proba(self, X: Any, *, caller: str) -> Any:
        """Return class probabilities where decisions are made."""
        return checked_finite(self._respond("predict_proba", X, caller=caller), self.estimator_)

    def _log_proba(self, X: Any) -> Any:
        return self._respond("predict_log_proba", X, caller="predict_log_proba")

    def _respond(self, method: str, X: Any, *, caller: str) -> Any:
        """Call a method of the fitted classifier on data of the library it was fitted with."""
        check_is_fitted(self)
        refuse_blocks(self, X, f"Call {caller} on one block after the other.")
        if self._home is not None:
            check_same_place(self, X, self._home, caller)
        return getattr(self.estimator_, method)(X)

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels."""
        return self._fitted("classes_").classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features seen by the classifier."""
        return int(self._fitted("n_features_in_").n_features_in_)

    @property
    def feature_names_in_(self) -> Any:
        """Names of features seen by the classifier."""
        return self._fitted("feature_names_in_").feature_names_in_

    def _fitted(self, attribute: str) -> Any:
        """Return the fitted classifier, or say that `attribute` is not there yet."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {attribute!r}: it is not fitted."
            )
        return self.estimator_

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of metadata: `fit` passes on what the wrapped classifier requests.

        Returns
        -------
        routing : sklearn.utils.metadata_routing.MetadataRouter
            What this object requests and what it passes to the wrapped classifier.
        """
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(
                estimator=self.estimator,
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        )

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = deepcopy(inner.input_tags)
        tags.array_api_support = inner.array_api_support
        tags.non_deterministic = inner.non_deterministic
        if inner.classifier_tags is not None:
            tags.classifier_tags = deepcopy(inner.classifier_tags)
            tags.classifier_tags.multi_label = False  # one decision per row
        return tags


def checked_finite(said: Any, model: Any, what: str = "probabilities") -> Any:
    """Check that what a classifier of somebody else's says are numbers."""
    xp = array_namespace(said)
    if not bool(xp.all(xp.isfinite(said))):
        raise ValueError(
            f"{type(model).__name__} gives {what} that are not finite for these rows; "
            "are their values far beyond those of the fit?"
        )
    return said


def _placed(actions: NDArray[Any], like: Any) -> Any:
    """Move actions that are numbers to where other data are; names are NumPy's everywhere."""
    here = not is_array_api_obj(like) or is_numpy_array(like)
    return actions if here or actions.dtype.kind not in "biuf" else moved(actions, like)
