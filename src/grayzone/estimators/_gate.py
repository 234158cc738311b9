"""Whether a candidate pays: its costs beside those of plain logistic regression, row by row.

What a fit decides on rows that it was fitted to flatters it; so rows are judged by the fits of the
folds that held them out. The candidate of least cost among many looks better than it is, and so it
has to be better by more than chance explains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from grayzone.decision import bayes_decision
from grayzone.estimators._base import class_probabilities, log_probabilities
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.losses import softplus
from grayzone.sources.labelled import Labelled

Array = Any
# Sums of the same costs in another order differ by less than this share of them.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Yardstick:
    """What rows that were held out are judged by; everything is NumPy's.

    Attributes
    ----------
    codes : array of shape (n,)
        Places of the labels among the classes.
    weight : array of shape (n,)
        Weights of the rows.
    factors : array of shape (K,)
        The classes' own weights: of the log-loss alone, which is that of the fits.
    costs : array of shape (K, A) or (n, K, A)
        Costs of actions: the classes, and the last one beyond them is to stay undecided. Rows may
        have their own.
    """

    codes: Array
    weight: Array
    factors: Array
    costs: Array

    @classmethod
    def of(cls, labelled: Labelled, y: Array, weight: Array | None, costs: Array) -> Yardstick:
        """Return what all rows of a fit are judged by."""
        codes = np.searchsorted(labelled.classes, y)
        weight = np.ones(codes.size) if weight is None else weight
        return cls(codes, weight, labelled.factors, as_numpy(costs))

    def log_loss(self, rows: Array, scores: Array) -> float:
        """Mean log-loss of rows with these scores."""
        codes = self.codes[rows]
        if scores.shape[1] == 1:
            losses = softplus(np.where(codes == 1, -scores[:, 0], scores[:, 0]))
        else:
            losses = -log_probabilities(scores)[np.arange(codes.size), codes]
        return float(np.average(losses, weights=self.weight[rows] * self.factors[codes]))

    def decided(self, rows: Array, scores: Array) -> Array:
        """Places of the actions that Bayes' rule takes, Chow's where one is to stay undecided."""
        n_classes, n_actions = self.costs.shape[-2:]
        costs = self.costs if self.costs.ndim == 2 else self.costs[rows]
        undecided = None
        if n_actions > n_classes:  # what that costs is the same for all rows
            undecided = costs.reshape(-1, n_classes, n_actions)[0, :, n_classes]
        proba = class_probabilities(scores)
        return bayes_decision(proba, costs[..., :n_classes], reject_cost=undecided)

    def paid(self, rows: Array, actions: Array) -> Array:
        """Cost of each row's action."""
        codes = self.codes[rows]
        if self.costs.ndim == 2:
            return self.costs[codes, actions]
        return self.costs[rows, codes, actions]

    def mean_cost(self, rows: Array, paid: Array) -> float:
        """Mean of what rows cost."""
        # relative to the largest, so that no sum overflows
        dearest = float(np.max(np.abs(self.costs)))
        return dearest * float(np.average(paid / dearest, weights=self.weight[rows]))

    def spread(self, rows: Array, values: Array) -> float:
        """Standard deviation of values of rows."""
        weight = self.weight[rows]
        middle = np.average(values, weights=weight)
        return float(np.sqrt(np.average((values - middle) ** 2, weights=weight)))

    def compare(self, rows: Array, plain: Array, candidate: Array, errors: float) -> Verdict:
        """Compare what rows cost under two models; rows that come several times count once.

        The standard error takes a row for one observation whatever it weighs: the unit of weights
        says nothing.
        """
        rows, place = np.unique(rows, return_inverse=True)
        saved = np.bincount(place, plain - candidate) / np.bincount(place)
        largest = float(np.max(np.abs(saved)))
        share = self.weight[rows] / self.weight[rows].sum()
        n_rows = np.count_nonzero(share)
        if largest == 0.0 or n_rows < 2:
            return Verdict(0.0, 0.0, errors, False)
        saved = saved / largest  # squares neither overflow nor vanish
        gain = float(share @ saved)
        spread = float(np.sum((share * (saved - gain)) ** 2)) * n_rows / (n_rows - 1)
        error = float(np.sqrt(spread))
        return Verdict(largest * gain, largest * error, errors, gain > errors * error)


class Verdict(NamedTuple):
    """By how much a candidate is cheaper than the plain model, and whether that is enough."""

    gain: float  # of mean cost
    standard_error: float
    errors: float  # standard errors that the gain has to be more than
    accepted: bool

    def record(self, chosen: str, candidate: dict[str, Any], plain_cost: float) -> dict[str, Any]:
        """Return it as the attribute ``gate_``, for people to read."""
        return {
            "accepted": self.accepted,
            "chosen": chosen,
            "candidate": candidate,
            "gain": self.gain,
            "standard_error": self.standard_error,
            "required_gain": self.errors * self.standard_error,
            "plain_cost": plain_cost,
        }


def least(values: Array) -> Array:
    """Return the places (n_ties, ndim) of the smallest values, but for rounding errors."""
    slack = _ROUNDING * float(np.max(np.abs(values)))
    return np.argwhere(values <= values.min() + slack)


def of_all_rows(rows: Array, scores: Array, n_rows: int) -> Array:
    """Return held-out scores (m, Q) as one line for each row of the data.

    A row that several folds held out has the mean of its scores, one that none did has NaN.
    """
    times = np.bincount(rows, minlength=n_rows)
    sums = [np.bincount(rows, column, minlength=n_rows) for column in scores.T]
    with np.errstate(invalid="ignore"):
        every = np.column_stack(sums) / times[:, None]
    return every[:, 0] if every.shape[1] == 1 else every
