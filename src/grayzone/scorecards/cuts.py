"""Where on the scale of a linear score decisions change, through all that stands between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.linear_model import LogisticRegression

from grayzone.decision.costs import has_threshold
from grayzone.decision.rules import cuts_between_actions
from grayzone.estimators.anatomy import (
    Rule,
    Tails,
    function_of,
    limit_of,
    policy_cut,
    priors_of,
    rule_of,
    stacked_of,
    tails_of,
)
from grayzone.estimators.import_vector import ImportVectorMachine
from grayzone.estimators.import_vector_cv import ImportVectorMachineCV
from grayzone.estimators.minimax import MinimaxProbabilityMachine
from grayzone.estimators.tight_bound import TightBoundLogisticRegression
from grayzone.estimators.tight_bound_cv import TightBoundLogisticRegressionCV
from grayzone.estimators.truncated import TruncatedLogisticRegression
from grayzone.estimators.truncated_cv import TruncatedLogisticRegressionCV
from grayzone.numerics.checks import Floats, as_numpy
from grayzone.numerics.tails import unstretched
from grayzone.scorecards.effects import NoScorecardError

Array = Any

_BY_COSTS = (
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
    ImportVectorMachine,
    ImportVectorMachineCV,
)


@dataclass(frozen=True)
class Linear:
    """A linear score, and how the log-odds that decide follow from it.

    Attributes
    ----------
    coef : ndarray of shape (n_features,)
        Coefficients.
    intercept : float
        Intercept.
    cuts : tuple of float
        Scores, ascending, at which decisions change: from there on, the next one.
    decisions : tuple
        What is decided below the first cut, between cuts, and from the last one on.
    classes : tuple
        Labels, the positive one last.
    tails : Tails or None
        Slopes and bends of the log-odds beyond a zone.
    maps : tuple of (slope, shift, most)
        Maps from log-odds, which are held within ``±most``, to others, in the order in which they
        are applied.
    """

    coef: Floats
    intercept: float
    cuts: tuple[float, ...]
    decisions: tuple[Any, ...]
    classes: tuple[Any, Any]
    tails: Tails | None = None
    maps: tuple[tuple[float, float, float], ...] = ()

    def score_at(self, odds: float) -> float:
        """Return the score from which on the log-odds are at least these."""
        for slope, shift, most in reversed(self.maps):
            if not slope > 0.0:
                raise NoScorecardError("The calibration of the model takes its scores for nothing.")
            odds = (odds - shift) / slope
            if odds > most:
                return inf
            if odds <= -most:
                return -inf
        return odds if self.tails is None else _unstretched(odds, self.tails)

    def decided_by(self, rule: Rule, actions: Array) -> Linear:
        """Return the same, decided by costs."""
        return replace(self, **_cut_by_costs(self, rule, actions))

    def limited(self, cut: float) -> Linear:
        """Return the same, decided by a threshold on the last probability."""
        with np.errstate(divide="ignore"):
            odds = float(logit(cut))
        return replace(self, cuts=(self.score_at(odds),), decisions=self.classes)

    def around(self, model: Any) -> Linear:
        """Return the same, decided by a wrapper of this package."""
        if hasattr(model, "cost_matrix_"):
            made, priors = self, priors_of(model)
            if priors is not None:
                seen, today = (np.log(shares[1] / shares[0]) for shares in priors)
                made = replace(self, maps=(*self.maps, (1.0, float(today - seen), inf)))
            return made.decided_by(rule_of(model), model.actions_)
        limit = limit_of(model)
        if limit.method == "decision_function":
            cut = (
                limit.threshold if limit.place == 1 else float(np.nextafter(-limit.threshold, inf))
            )
            return replace(self, cuts=(cut,), decisions=self.classes)
        if limit.place == 1:
            return self.limited(limit.threshold)
        # the first class from a probability on: the second one below the rest
        with np.errstate(divide="ignore"):
            odds = float(logit(1.0 - limit.threshold))
        return replace(
            self, cuts=(float(np.nextafter(self.score_at(odds), inf)),), decisions=self.classes
        )

    def stacked(self, model: Any) -> Linear:
        """Return the same, calibrated and decided by an ensemble of this one member."""
        stack = stacked_of(model)
        most = float(logit(1.0 - stack.least))
        shift, intercept = np.diff(stack.shifts[0])[0], np.diff(stack.intercept)[0]
        weight, slope = float(stack.weights[0]), float(stack.slopes[0])
        last = weight * slope, float(weight * shift + intercept), most
        labels = as_numpy(model.classes_).tolist()
        made = replace(self, maps=(*self.maps, last), classes=tuple(labels))
        if stack.cut is not None:
            return made.limited(stack.cut)
        return made.decided_by(rule_of(model), as_numpy(model.actions_))

    def relabelled(self, labels: dict[Any, Any]) -> Linear:
        """Return the same with other labels."""
        decisions = tuple(labels[label] for label in self.decisions)
        return replace(self, decisions=decisions, classes=tuple(labels[c] for c in self.classes))


def linear_of(model: Any) -> Linear:
    """Return the score of a fitted linear classifier of two classes, and its decisions."""
    classes = as_numpy(getattr(model, "classes_", np.empty(0)))
    if len(classes) != 2:
        raise NoScorecardError(f"A scorecard is for two classes; the model has {len(classes)}.")
    if isinstance(model, LogisticRegression):
        coef, intercept = np.asarray(model.coef_[0], np.float64), float(model.intercept_[0])
        cut = (float(np.nextafter(0.0, 1.0)),)
        pair = tuple(classes.tolist())
        return Linear(coef, intercept, cut, pair, pair)
    own = (*_BY_COSTS, TightBoundLogisticRegression, MinimaxProbabilityMachine)
    if not isinstance(model, own):
        raise NoScorecardError(f"{type(model).__name__} is no linear classifier.")
    function = function_of(model)
    if function.kernel is not None:
        raise NoScorecardError(f"The kernel {function.kernel.name!r} is no sum over columns.")
    if len(function.intercept) != 1:
        raise NoScorecardError(
            "A policy with three actions has three scores, and no scorecard; take "
            "TruncatedLogisticRegression with a reject_cost."
        )
    return _own(model, function.coef[0], float(function.intercept[0]), classes)


def _own(model: Any, coef: Floats, intercept: float, classes: Array) -> Linear:
    pair = tuple(classes.tolist())
    plain = Linear(coef, intercept, (0.0,), pair, pair)
    if isinstance(model, MinimaxProbabilityMachine):
        return replace(plain, cuts=(float(np.nextafter(0.0, 1.0)),))
    gated = isinstance(model, TightBoundLogisticRegressionCV) and not model.gate_["accepted"]
    if isinstance(model, TightBoundLogisticRegression) and not gated:
        return replace(plain, cuts=(policy_cut(model),))
    tails = None if gated else tails_of(model)
    actions = getattr(model, "actions_", classes)
    return replace(plain, tails=tails).decided_by(rule_of(model), as_numpy(actions))


def _cut_by_costs(linear: Linear, rule: Rule, actions: Array) -> dict[str, Any]:
    """Return scores at which the action of least expected cost changes, and the actions."""
    if rule.reject_costs is None and not has_threshold(rule.costs):
        raise NoScorecardError("These costs define no threshold.")
    costs = (
        rule.costs
        if rule.reject_costs is None
        else np.column_stack([rule.costs, rule.reject_costs])
    )
    shares = cuts_between_actions(rule.costs, rule.reject_costs)
    points = np.r_[0.0, shares, 1.0]
    between = 0.5 * (points[1:] + points[:-1])
    best = [int(np.argmin([1.0 - p, p] @ costs)) for p in between]
    labels = as_numpy(actions).tolist()
    with np.errstate(divide="ignore"):
        cuts = tuple(linear.score_at(float(logit(share))) for share in shares)
    return {"cuts": cuts, "decisions": tuple(labels[place] for place in best)}


def _unstretched(odds: float, tails: Tails) -> float:
    """Return the score whose log-odds, with slopes and bends beyond the zone, are these."""
    if not np.isfinite(odds):
        return odds
    with np.errstate(over="ignore"):  # further out than any score
        return float(unstretched(np.array([[odds]]), tails.ends, tails.slopes, tails.bends)[0, 0])
