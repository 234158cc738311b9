"""What stacked members answer, and what is decided by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_is_fitted,
    validate_data,
)

from grayzone.decision import action_costs, bayes_decision, cost_matrices, row_thresholds
from grayzone.decision.costs import has_threshold, threshold_of
from grayzone.estimators._base import rows_of
from grayzone.estimators._members import Rows
from grayzone.estimators._wrapper import checked_finite
from grayzone.estimators.table_features import ScaledFeatures, TableColumns, is_table
from grayzone.numerics.checks import Floats, as_numpy
from grayzone.solvers.stack import Stack, calibrate, fit_stack, log_scores
from grayzone.sources.open import refuse_elsewhere

Array = Any

_BLOCK = 20_000  # rows that are answered at a time
NO_PRECISION = (
    "example_costs cannot be kept beside min_precision: what share of the rows decided for is "
    "positive depends on all their thresholds together."
)


class StackedMembers:
    """Answers of members that have been calibrated and stacked, and decisions by them."""

    classes_: NDArray[Any]
    actions_: NDArray[Any]
    members_: dict[str, Any]
    weights_: Floats
    intercept_: Floats
    kkt_residual_: float
    cost_matrix_: Floats
    threshold_range_: tuple[float, float]
    min_precision: float | None
    _reject_costs: list[float] | None
    _cut: float | None
    _slopes: Floats
    _shifts: Floats

    def _checked(self, X: Array, reset: bool) -> Array:
        if is_table(X):
            _check_feature_names(self, X, reset=reset)
            _check_n_features(self, X, reset=reset)
            return X
        refuse_elsewhere(self, X, "Bring the rows to NumPy.")
        return validate_data(
            self, X, accept_sparse="csr", ensure_all_finite="allow-nan", reset=reset
        )

    def _decide(self, proba: Floats, prices: Floats | None = None) -> Array:
        """Numbers of the actions to take."""
        if self._cut is None:
            costs = self.cost_matrix_ if prices is None else prices
            return bayes_decision(proba, costs, reject_cost=self._reject_costs)
        cut: Any = self._cut
        if prices is not None:
            own = row_thresholds(prices)
            cut = np.where(np.isnan(own), cut, np.clip(own, *self.threshold_range_))
        return (proba[:, 1] >= cut).astype(np.intp)

    @property
    def threshold_(self) -> float | None:
        """Decision threshold on the probability of the positive class; None where there is none."""
        check_is_fitted(self)
        if self._cut is not None:
            return self._cut
        alone = len(self.classes_) == 2 and self._reject_costs is None
        return (
            threshold_of(self.cost_matrix_) if alone and has_threshold(self.cost_matrix_) else None
        )

    @property
    def _stack(self) -> Stack:
        return Stack(self.weights_, self.intercept_, 0.0, self.kkt_residual_)

    def _scores(self, X: Array) -> Floats:
        """Calibrated scores (M, n, K) of the members; those that take the same features share."""
        shared: dict[Any, Array] = {(): X}
        answers = np.stack(
            [log_scores(checked_finite(said(m, shared), m)) for m in self.members_.values()]
        )
        calibrations = [
            Stack(slope[None], shift, 0.0, 0.0)
            for slope, shift in zip(self._slopes, self._shifts, strict=True)
        ]
        return calibrated(calibrations, answers)

    def predict_log_proba(self, X: Array) -> Floats:
        """Return the logarithms of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Log-probabilities, in the order of `classes_`.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        starts = range(0, max(X.shape[0], 1), _BLOCK)
        parts = [
            self._stack.log_proba(self._scores(rows_of(X, slice(start, start + _BLOCK))))
            for start in starts
        ]
        return np.concatenate(parts)

    def predict_proba(self, X: Array) -> Floats:
        """Return class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Probabilities, in the order of `classes_`.
        """
        proba: Floats = np.exp(self.predict_log_proba(X))
        return proba

    def decision_function(self, X: Array) -> Floats:
        """Return log-odds (two classes) or log-probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            The scores.
        """
        logs = self.predict_log_proba(X)
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def predict(self, X: Array, example_costs: Any = None) -> NDArray[Any]:
        """Return the action of least expected cost for each row, as far as limits allow.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Data.
        example_costs : array-like of shape (n_samples, n_classes, n_classes) or mapping, \
                default=None
            What decisions about these rows cost, in place of `costs`. Under limits each row has the
            threshold of its costs, or the end of `threshold_range_` that is nearest to it; beside a
            precision they are refused.

        Returns
        -------
        actions : ndarray of shape (n_samples,)
            Class labels or the label of "undecided".
        """
        proba = self.predict_proba(X)
        labels: NDArray[Any] = self.actions_[
            self._decide(proba, self._prices(proba, example_costs))
        ]
        return labels

    def expected_costs(self, X: Array, example_costs: Any = None) -> Floats:
        """Return the expected cost of every action for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, table} of shape (n_samples, n_features)
            Data.
        example_costs : array-like of shape (n_samples, n_classes, n_classes) or mapping, \
                default=None
            Costs of these rows, in place of `costs`; as in `predict`.

        Returns
        -------
        expected : ndarray of shape (n_samples, n_actions)
            Expected costs, one column for each of `actions_`.
        """
        proba = self.predict_proba(X)
        prices = self._prices(proba, example_costs)
        costs = self.cost_matrix_ if prices is None else prices
        return action_costs(proba, costs, reject_cost=self._reject_costs)

    def _prices(self, proba: Floats, example_costs: Any) -> Floats | None:
        if example_costs is None:
            return None
        if self.min_precision is not None:
            raise ValueError(NO_PRECISION)
        matrices = cost_matrices(example_costs, self.classes_, len(proba), some_stake=False)
        return as_numpy(matrices)


def said(member: Any, shared: dict[Any, Array]) -> Floats:
    """What a member says of rows; what its steps make of them is kept for others."""
    steps = member.steps[:-1] if isinstance(member, Pipeline) else []
    if not all(isinstance(step, TableColumns | ScaledFeatures) for _, step in steps):
        return np.asarray(member.predict_proba(shared[()]))
    key: tuple[int, ...] = ()
    for _, step in steps:
        before, key = key, (*key, id(step))
        if key not in shared:
            shared[key] = step.transform(shared[before])
    model = member.steps[-1][1] if steps else member
    return np.asarray(model.predict_proba(shared[key]))


def stacked(
    scores: Floats, rows: Rows, some: Array, start: tuple[list[Stack], Stack] | None = None
) -> tuple[list[Stack], Stack]:
    """Calibrations and weights from some of the rows."""
    codes, weight = rows.codes[some], rows.weight[some]
    begin, before = start if start is not None else ([None] * len(scores), None)
    calibrations = [
        calibrate(s[some], codes, weight, first) for s, first in zip(scores, begin, strict=True)
    ]
    alike = calibrated(calibrations, scores[:, some])
    return calibrations, fit_stack(alike, codes, weight, before)


def calibrated(calibrations: Sequence[Stack], scores: Floats) -> Floats:
    """Scores (M, n, K) as each member's calibration has them, centred."""
    logs = np.stack([c.log_proba(s[None]) for c, s in zip(calibrations, scores, strict=True)])
    centred: Floats = logs - logs.mean(axis=2, keepdims=True)
    return centred


def softmax_of(scores: Floats) -> Floats:
    e = np.exp(scores - scores.max(axis=2, keepdims=True))
    proba: Floats = e / e.sum(axis=2, keepdims=True)
    return proba
