"""Classes without a row that weighs anything: left out of a fit, and never predicted.

The other classes are fitted as if there were no more. Then each coefficient gets its place among
those of all classes, with a score for the empty ones whose exponential is zero: whatever reads the
model, from ``predict_proba`` to an exported file, knows all classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags

from grayzone.decision.costs import cost_matrix, threshold_of
from grayzone.decision.zones import class_caps
from grayzone.estimators._base import move_decision
from grayzone.estimators._limits import LIMITS
from grayzone.estimators._search import take_over
from grayzone.estimators._stakes import reach_of
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import Floats, Given, Result, as_numpy, is_real
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.sources.empty_classes import EmptyClassesError, Relabelled, of_present
from grayzone.sources.source import Block, ChangedSource, HeldSource

Array = Any

# Minus this is the score of an empty class. Single precision has it, too.
_NEVER = 1e30
# What coefficients of an empty class are.
_COEFFICIENTS = {"coef_": 0.0, "dual_coef_": 0.0, "intercept_": -_NEVER}
_OF_CLASSES = {"tail_slopes_": 1.0, "tail_bends_": 0.0, "class_bounds_": np.nan}


def leaves_out_empty_classes(fit: Callable[Given, Result]) -> Callable[Given, Result]:
    """Make a fit leave out the classes whose rows all weigh nothing."""
    signature, complete = inspect.signature(fit), cast(Callable[..., Any], fit)

    @wraps(fit)
    def fitted(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return complete(self, *args, **kwargs)
        except EmptyClassesError as error:
            empty = error
        given = signature.bind(self, *args, **kwargs).arguments
        _check_possible(self, given, empty)
        if empty.present.sum() > 1:
            _fit_to_others(self, given["X"], empty)
            _name_all(self, empty, priced=given.get("example_costs") is not None)
        else:
            _be_constant(self, empty)
        return self

    return cast(Callable[Given, Result], fitted)


def without_empty_classes(intercept: Array) -> Array:
    """Return intercepts to start from, zero for classes that were empty."""
    xp = array_namespace(intercept)
    return xp.where(xp.abs(intercept) < _NEVER, intercept, xp.zeros_like(intercept))


def _check_possible(model: Any, given: dict[str, Any], empty: EmptyClassesError) -> None:
    """Raise the error where limits, rewards, folds or bounds need the classes that are empty."""
    n_classes, n_present = len(empty.classes), int(empty.present.sum())
    limited = any(getattr(model, name, None) is not None for name in LIMITS)
    alone = n_present == 1 and "cv" in model.get_params(deep=False)
    binary = n_classes > 2 and not get_tags(model).classifier_tags.multi_class
    if limited or alone or binary or given.get("rewards") is not None:
        raise ValueError(str(empty))


def _fit_to_others(model: Any, X: Any, empty: EmptyClassesError) -> None:
    """Fit to all rows, of which those of empty classes get another label and weigh nothing."""
    other = clone(model).set_params(**_parameters(model, empty))
    change = Relabelled(empty.classes, empty.present)
    if isinstance(empty.source, HeldSource):
        block = change(empty.source.block)
        costs = {} if block.costs is None else {"example_costs": block.costs}
        if "Cs" in other.get_params(deep=False):
            other.set_params(cv=_folds(other, empty.source.block))
        other.fit(X, block.y, sample_weight=block.weight, **costs)
    else:
        other.fit(ChangedSource(empty.source, change))
    take_over(model, other)


def _parameters(model: Any, empty: EmptyClassesError) -> dict[str, Any]:
    """Return parameters that say something of each class, without the empty ones."""
    classes, present = empty.classes, empty.present
    known = model.get_params(deep=False)
    changed = {
        name: of_present(known[name], classes, present)
        for name in ("costs", "reject_cost", "class_weight")
        if name in known
    }
    if "zone" in known:
        changed["zone"] = _zone(known["zone"], classes, present)
    if "zones" in known:
        changed["zones"] = [_zone(zone, classes, present) for zone in known["zones"]]
    return changed


def _folds(search: Any, block: Block) -> Any:
    """Return folds of all rows that are stratified by their own labels."""
    if search.cv is None and hasattr(search, "validation_fraction"):  # no folds
        return None
    X, labels = block.X, as_numpy(block.y)
    X = X if is_numpy_array(X) or sp.issparse(X) else np.empty((len(labels), 0))
    return list(check_cv(search.cv, labels, classifier=True).split(X, labels))


def _zone(zone: Any, classes: Array, present: Array) -> Any:
    """Return a zone of more than two classes as one of those that are present."""
    if zone is None or is_real(zone):
        return zone
    caps = class_caps(zone, classes)[present]
    return (1.0 - caps[0], caps[1]) if len(caps) == 2 else caps


def _name_all(model: Any, empty: EmptyClassesError, priced: bool) -> None:
    """Give what was fitted to some classes its place among all of them."""
    classes, present = empty.classes, empty.present
    costs = _costs_of_all(model, empty, priced)
    for name, fill in _COEFFICIENTS.items():
        if name in vars(model):
            setattr(model, name, _coefficients(vars(model)[name], present, fill))
    for name, fill in _OF_CLASSES.items():
        if name in vars(model):
            setattr(model, name, _among(vars(model)[name], present, fill))
    if "zone_" in vars(model):
        reach = reach_of(model)
        caps = as_numpy(model.zone_) if reach is None else np.array([1.0 - reach[0], reach[1]])
        model.zone_, model._reach = _among(caps, present, float(caps.max())), None
    if vars(model).get("_prior") is not None:
        model._prior = _among(np.asarray(model._prior), present, 0.0).tolist()
    vars(model).pop("threshold_tuning_", None)
    _decide(model, classes, costs)
    move_decision(model, model.intercept_)


def _be_constant(model: Any, empty: EmptyClassesError) -> None:
    """Predict the only class that is there; nothing was fitted, nor is certified."""
    classes, present, like = empty.classes, empty.present, empty.source.like()
    _forget(model)
    costs = None if isinstance(model.costs, str) else model.costs
    policy = hasattr(model, "policy_proba")
    if policy:
        model._cut, model._prior = 0.0, None
    elif not hasattr(type(model), "threshold_"):
        model.threshold_ = None
    _decide(model, classes, cost_matrix(costs, classes))
    undecided = [-_NEVER] if policy and model._reject_costs is not None else []
    scores = np.append(np.where(present, 0.0, -_NEVER), undecided)
    scores = scores[1:] - scores[:1] if len(scores) == 2 else scores
    like = np.empty(0) if sp.issparse(like) else like
    model.coef_ = moved(np.zeros((len(scores), model.n_features_in_)), like)
    model.intercept_, model.n_iter_ = moved(scores, like), 0
    move_decision(model, like)


def _forget(model: Any) -> None:
    """Drop what an earlier fit left, but for the features that this one was given."""
    names = ("n_features_in_", "feature_names_in_")
    seen = {name: vars(model)[name] for name in names if name in vars(model)}
    for name in [name for name in vars(model) if name.endswith("_")]:
        delattr(model, name)
    vars(model).update(seen)


def _decide(model: Any, classes: Array, costs: Floats) -> None:
    """Set what can be decided, and what it costs."""
    model.classes_, model.cost_matrix_ = classes, costs
    if hasattr(model, "_set_rejection"):
        model._set_rejection(classes)
    if "threshold_" in vars(model):
        decides = len(classes) == 2 and model._reject_costs is None
        model.threshold_ = threshold_of(costs) if decides else None


def _costs_of_all(model: Any, empty: EmptyClassesError, priced: bool) -> Floats:
    """Return the costs that were given; of shares or rows those that were found.

    Then it costs as much to decide for an empty class as for the worst of the others.
    """
    classes, present = empty.classes, empty.present
    if not (priced or isinstance(model.costs, str)):
        return cost_matrix(model.costs, classes)
    found, costs = as_numpy(model.cost_matrix_), np.zeros((len(classes), len(classes)))
    costs[np.ix_(present, present)] = found
    costs[np.ix_(present, ~present)] = found.max(axis=1, keepdims=True)
    return costs


def _coefficients(values: Array, present: Array, fill: float) -> Array:
    """Coefficients of all classes, and of staying undecided where that has some."""
    xp = array_namespace(values)
    if values.shape[0] == 1:  # log-odds of two classes are the difference of their scores
        values = xp.concat([-0.5 * values, 0.5 * values])
    undecided = [True] * (values.shape[0] - int(present.sum()))
    return _among(values, np.append(present, undecided), fill)


def _among(values: Array, present: Array, fill: float) -> Array:
    """Values of those that are present in their places, and others between them."""
    xp, places = array_namespace(values), iter(range(values.shape[0]))
    other = xp.full_like(values[0, ...], fill)
    return xp.stack([values[next(places), ...] if here else other for here in present])
