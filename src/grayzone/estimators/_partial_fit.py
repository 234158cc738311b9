"""Policies fitted to one batch of rows after the other."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from grayzone.decision.costs import savings
from grayzone.estimators._empty_classes import without_empty_classes
from grayzone.numerics.backend import is_elsewhere, moved
from grayzone.numerics.checks import all_or_nothing, as_numpy, check_values, row_weights
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.policy.online import OnlinePolicy, known_codes
from grayzone.solvers.policy.policy import policy_of
from grayzone.sources.open import check_same_place, in_blocks, validated

Array = Any

# What rows a linear policy takes.
ACCEPTED: dict[str, Any] = {
    "accept_sparse": ["csr", "csc"],
    "dtype": [np.float64, np.float32],
}


class PartialFit:
    """A policy of linear scores that takes one step on a batch of rows."""

    C: float
    costs: Any
    class_weight: Any
    eta0: float
    fit_intercept: bool
    classes_: Array
    actions_: Array
    coef_: Array
    intercept_: Array
    n_features_in_: int
    n_iter_: int
    _online: OnlinePolicy
    _prior: list[float] | None
    _unit: float
    _by_rows: bool = False  # whether it was fitted with costs of rows
    _check_parameters: Any
    _decide: Any

    @all_or_nothing
    def partial_fit(
        self,
        X: Array,
        y: Array,
        classes: Array | None = None,
        sample_weight: Array | None = None,
    ) -> Self:
        """Take one step on a batch of rows.

        The bound is that at a solution which is kept for a while and renewed each time the number
        of rows seen has doubled (§2 of Le Roux, "online learning"); steps are those of AdaGrad.
        Features should be scaled. No limits, and no held-out rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Class labels.
        classes : array-like of shape (K,), default=None
            All labels that will come; needed by the first call, unless ``fit`` came before it,
            from whose solution it then goes on.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        self : TightBoundLogisticRegression
            The estimator.
        """
        if self._check_parameters():
            raise ValueError("partial_fit takes no max_fpr, min_recall or min_precision.")
        if in_blocks(X):
            raise ValueError(
                f"partial_fit takes the rows of one batch, in memory; got {type(X).__name__}. Give "
                "blocks and Dask collections to fit, or partial_fit one block after the other."
            )
        first = "_online" not in vars(self)
        anew = first and not (classes is None and hasattr(self, "coef_"))
        if not anew:
            check_same_place(self, X, self.coef_, "partial_fit")
        X, y = validated(self, X, y, reset=anew, **ACCEPTED)
        labels = None if classes is None else np.unique(as_numpy(classes))
        if first:
            self._begin(labels, X)
        elif labels is not None and not np.array_equal(labels, as_numpy(self.classes_)):
            raise ValueError(
                f"classes={labels.tolist()} differ from those of the first call: "
                f"{as_numpy(self.classes_).tolist()}."
            )
        check_values(X)
        known = as_numpy(self.classes_)
        codes = known_codes(as_numpy(y), known)
        _, weight = row_weights(sample_weight, self.class_weight, known, codes)
        if is_elsewhere(X):
            codes, weight = moved(codes, X), moved(weight, X)
        penalty = 1.0 / (self.C * self.actions_.shape[0])
        self._online = self._online.step(X, codes, weight, penalty, self.eta0, self.fit_intercept)
        self.coef_, self.intercept_ = self._online.coef[:, :-1], self._online.coef[:, -1]
        self.n_iter_ += 1
        return self

    def _begin(self, classes: Array | None, X: Array) -> None:
        """Start from zeros with these classes or, without, from where fit ended."""
        if classes is None and not hasattr(self, "coef_"):
            raise ValueError("The first call of partial_fit needs all labels: give classes.")
        if isinstance(self.costs, str) or isinstance(self.class_weight, str):
            raise ValueError("partial_fit does not know class frequencies: nothing is 'balanced'.")
        if classes is not None and classes.size < 2:
            raise ValueError(f"classes must name at least two classes; got {classes!r}.")
        if classes is None and self._by_rows:
            raise ValueError(
                "partial_fit does not know the costs of rows, or the rewards, which this model was "
                "fitted with; fit it again, or give classes to start anew."
            )
        if classes is None:
            classes, xp = as_numpy(self.classes_), array_namespace(self.coef_)
            intercept = without_empty_classes(self.intercept_)
            coef = xp.concat([self.coef_, intercept[:, None]], axis=1)
            costs = self._decide(classes, self._prior, coef)
        else:
            like = X if is_elsewhere(X) else np.empty(0)
            costs = self._decide(classes, None, like)
            n_outputs = policy_of(costs.shape[1]).n_outputs
            coef = moved(np.zeros((n_outputs, self.n_features_in_ + 1)), like)
            self.n_iter_ = 0
        self._online = OnlinePolicy.start(moved(savings(costs, self._unit), coef), coef)
