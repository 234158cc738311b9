"""What the minimax machines share: decisions by scores, what they aim for, several classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from grayzone.decision import cost_matrices, cost_matrix
from grayzone.decision.costs import has_threshold, stakes
from grayzone.decision.example_costs import errors_of_rows
from grayzone.estimators._base import checked_scores, labels_at
from grayzone.estimators._html import FittedSummary
from grayzone.estimators._lazy import lazily
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import Floats, Numbers, as_numpy
from grayzone.numerics.designs import as_design
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.solvers.minimax.aims import Aim, check_moment_error, moment_errors, required_of
from grayzone.solvers.minimax.row_cuts import cheapest_cuts
from grayzone.sources.labelled import Labelled
from grayzone.sources.open import validated

Array = Any

INSTEAD_OF_BLOCKS = (
    "It needs all rows at once: give it an array, or fit blocks by TruncatedLogisticRegression, "
    "TightBoundLogisticRegression, SparseMinimaxProbabilityMachine or ImportVectorMachine."
)
# Standard deviations of both classes together, the distance of the means being 1, below which
# scores of several classes are not divided by them.
_LEAST_DEVIATION = 1e-9


class MinimaxClassifier(FittedSummary, ClassifierMixin, BaseEstimator):
    """Scores without probabilities, and a bound of how often they are right."""

    costs: Any
    required_bound: Any
    moment_error: Any
    classes_: NDArray[Any]
    accuracy_bound_: float
    class_bounds_: Floats
    held_out_bound_: float
    cost_matrix_: Floats
    intercept_: Floats
    dual_coef_: Floats
    n_features_in_: int
    # distance of the threshold from the mean of class x, that of the means being 1; standard
    # deviations of the classes y and x along the direction; how many of them the means may be
    # off; and their shares of the rows. Of two classes.
    _spread: tuple[float, ...]
    _class_shares: tuple[float, float]

    def _scores(self, X: Array) -> Array:
        raise NotImplementedError

    def _accepted(self) -> dict[str, Any]:
        return {"dtype": [np.float64, np.float32]}

    def _scored(self, X: Array, method: str) -> Array:
        """Scores of rows, for the public method of that name."""
        rows = self._checked(X, method)
        with np.errstate(over="ignore", invalid="ignore"):
            return checked_scores(self._scores(rows))

    def _checked(self, X: Array, method: str) -> Array:
        """Rows to be scored for the public method of that name."""
        check_is_fitted(self)
        return validated(self, X, reset=False, **self._accepted())

    def _check_aims(self) -> None:
        """Check what bounds are to be, as far as that can be without knowing the classes."""
        check_moment_error(self.moment_error)
        if self.required_bound is not None and self.costs is not None:
            raise ValueError("Give costs or required_bound, not both: each of them decides.")

    def _aim(self, labelled: Labelled) -> Aim:
        """Set the costs, and return what the worst-case accuracies are to be."""
        classes = labelled.classes
        if len(classes) > 2:
            for name in ("costs", "required_bound"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"Only binary classification is supported with {name}, which is for two "
                        f"classes; got {len(classes)}: {classes.tolist()}."
                    )
        self.cost_matrix_ = cost_matrix(self.costs, classes, labelled.prior)
        errors, loose = moment_errors(self.moment_error, classes.tolist())
        required = required_of(self.required_bound, classes.tolist())
        if self.costs is None:
            return Aim(errors, loose, required=required)
        if not has_threshold(self.cost_matrix_):
            raise ValueError(
                "costs must make errors dearer than right decisions; got "
                f"{self.cost_matrix_.tolist()}."
            )
        return Aim(errors, loose, stakes(self.cost_matrix_))

    @lazily
    def decision_function(self, X: Any) -> Numbers:
        """Signed distance from the threshold, in units of the distance of the class means.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data; for a precomputed kernel the values with all training rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Positive for ``classes_[1]``. They are no log-odds: the machine bounds probabilities
            of classes, and estimates none of single rows. Of three classes or more a score for
            each, positive where it is told from the others, in units of the two standard deviations
            along its direction together.
        """
        return self._scored(X, "decision_function")

    @lazily
    def predict(self, X: Any, example_costs: Any = None) -> NDArray[Any]:
        """Decide by the sign of the scores; of several classes, for the largest one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        example_costs : array-like of shape (n_samples, 2, 2) or mapping, default=None
            What decisions about these rows cost: ``cost[row, true, predicted]``, or ``{label: cost
            of misclassifying each row if it has that label}``. Each row then has, between the means
            of the classes, the threshold of least expected cost in the worst case, by the classes'
            moments and shares in the training data; where its costs are in the ratio of ``costs``
            that is the machine's own. Rows that have nothing at stake are decided by that, too.
            For two classes.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels.
        """
        scores = self._scored(X, "predict")
        xp, cuts = array_namespace(scores), 0.0
        if self.classes_.shape[0] > 2:
            if example_costs is not None:
                raise ValueError(
                    "example_costs are for two classes; this machine was fitted to "
                    f"{self.classes_.shape[0]}."
                )
            return labels_at(self.classes_, xp.argmax(scores, axis=1))
        if example_costs is not None:
            cuts = moved(self._row_cuts(example_costs, scores.shape[0]), scores)
        return labels_at(self.classes_, xp.astype(scores > cuts, xp.int64))

    def _row_cuts(self, example_costs: Any, n_rows: int) -> Floats:
        """Return the scores from which on rows with such costs are decided for class x."""
        if self.required_bound is not None:
            raise ValueError(
                "example_costs move the threshold, and required_bound=... sets it: this machine "
                "takes no costs of rows."
            )
        classes = as_numpy(self.classes_)
        matrices = cost_matrices(example_costs, classes, n_rows, some_stake=False)
        extra = np.stack([as_numpy(part) for part in errors_of_rows(matrices)])  # of y and x
        backwards = np.all(extra <= 0.0, axis=0) & np.any(extra < 0.0, axis=0)
        if np.any(backwards):
            raise ValueError(
                "example_costs must make errors dearer than right decisions for one class at "
                f"least; those of row {int(np.argmax(backwards))} do not."
            )
        cuts = np.zeros(n_rows)
        cuts[(extra[0] > 0.0) & (extra[1] <= 0.0)] = np.inf  # class x is never worth it
        cuts[(extra[1] > 0.0) & (extra[0] <= 0.0)] = -np.inf
        free = np.all(extra > 0.0, axis=0) & ~self._as_fitted(extra)
        prices = np.asarray(self._class_shares)[:, None] * extra[:, free]
        reach, *known = self._spread
        if reach == 0.0:  # no direction: the dearer class is decided for
            cuts[free] = np.where(prices[1] > prices[0], -np.inf, np.inf)
        elif max(known[:2]) > 0.0:
            cuts[free] = cheapest_cuts(*prices, *known) - (1.0 - reach)
        return cuts

    def _as_fitted(self, extra: Floats) -> NDArray[np.bool_]:
        """Whether costs of rows are in the ratio of those that the machine was fitted with."""
        if self.costs is None:
            return np.zeros(extra.shape[1], dtype=bool)
        own = stakes(as_numpy(self.cost_matrix_))
        return np.isclose(extra[1] * own[0], extra[0] * own[1], rtol=1e-12, atol=0.0)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.costs is None and self.required_bound is None
        return tags


def check_two_rows_each(rows: Labelled) -> None:
    """Check that there are rows enough for a variance of each class."""
    fewest = int(np.argmin(rows.counts))
    if rows.counts[fewest] < 2:
        label = rows.classes.tolist()[fewest]
        raise ValueError(
            f"A covariance takes two rows of each class; class {label!r} has {rows.counts[fewest]}."
        )


def told_apart(codes: Array, n_classes: int) -> list[Array]:
    """Codes of the problems of two classes: of more than two, each against all others."""
    if n_classes == 2:
        return [codes]
    xp = array_namespace(codes)
    return [xp.astype(codes == k, codes.dtype) for k in range(n_classes)]


def in_deviations(deviations: Sequence[float], n_classes: int) -> float:
    """Factor that makes scores of several classes comparable: in units of standard deviations."""
    return 1.0 / max(sum(deviations), _LEAST_DEVIATION) if n_classes > 2 else 1.0


def products(X: Array, coef: Array) -> Array:
    """Inner products (n, k) of rows with coefficients (k, d), where they are."""
    if sp.issparse(X) or is_numpy_array(X):
        return np.asarray(X @ coef.T)
    return as_design(X, fit_intercept=False).scores(coef)


def as_scores(values: Array) -> Array:
    """Scores (n,) of two classes, (n, K) of more."""
    return values[:, 0] if values.shape[1] == 1 else values
