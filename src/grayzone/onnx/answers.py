"""What each classifier says of rows, written down as operators.

``answer(model, rows)`` is the one way in: for the estimators of this package, for the classifiers
of scikit-learn that keep double precision here, and, by skl2onnx, for all others.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.utils.validation import check_is_fitted

from grayzone.decision.costs import has_threshold, threshold_of
from grayzone.estimators.anatomy import (
    Rule,
    bases_of,
    function_of,
    limit_of,
    moved_threshold,
    policy_cut,
    priors_of,
    rejection_of,
    rule_of,
    tails_of,
)
from grayzone.estimators.bayes import BayesDecisionClassifier
from grayzone.estimators.decision_ensemble import DecisionEnsembleClassifier
from grayzone.estimators.import_vector import ImportVectorMachine
from grayzone.estimators.import_vector_cv import ImportVectorMachineCV
from grayzone.estimators.minimax import MinimaxProbabilityMachine
from grayzone.estimators.rate_limit import RateLimitClassifier
from grayzone.estimators.sparse_minimax import SparseMinimaxProbabilityMachine
from grayzone.estimators.tight_bound import TightBoundLogisticRegression
from grayzone.estimators.tight_bound_classifier import TightBoundClassifier
from grayzone.estimators.tight_bound_cv import TightBoundLogisticRegressionCV
from grayzone.estimators.tree_sum import TreeSum
from grayzone.estimators.truncated import TruncatedLogisticRegression
from grayzone.estimators.truncated_cv import TruncatedLogisticRegressionCV
from grayzone.numerics.checks import as_numpy
from grayzone.onnx.calibration import calibrated_answer
from grayzone.onnx.composed import threshold_answer, voted_answer
from grayzone.onnx.ensemble import ensemble_answer
from grayzone.onnx.foreign import foreign_answer
from grayzone.onnx.formulas import (
    NotConvertibleError,
    adjusted,
    basis_scores,
    class_probabilities,
    function_scores,
    sigmoid,
    softmax,
    stretched,
)
from grayzone.onnx.graph import Graph, Tensor
from grayzone.onnx.rows import Rows
from grayzone.onnx.rules import Answer, Decision, by_argmax, by_costs, by_threshold
from grayzone.onnx.steps import transformed
from grayzone.onnx.trees import forest_shares, tree_sum_probabilities

Array = Any


@singledispatch
def answer(model: Any, rows: Rows) -> Answer:
    """Write down what a fitted classifier says of rows.

    Parameters
    ----------
    model : estimator
        A fitted classifier.
    rows : Rows
        Rows of a graph.

    Returns
    -------
    answer : Answer
        Probabilities or scores, and the rule that decides by them.

    Raises
    ------
    NotConvertibleError
        If it, or a part of it, has no counterpart.
    """
    return foreign_answer(model, rows)


@answer.register
def _(model: Pipeline, rows: Rows) -> Answer:
    for _, step in model.steps[:-1]:
        rows = transformed(step, rows)
    return answer(model.steps[-1][1], rows)


@answer.register(FrozenEstimator)
def _frozen(model: Any, rows: Rows) -> Answer:
    return answer(model.estimator, rows)


@answer.register(GridSearchCV)
@answer.register(RandomizedSearchCV)
def _searched(model: Any, rows: Rows) -> Answer:
    return answer(model.best_estimator_, rows)


@answer.register(CalibratedClassifierCV)
def _calibrated(model: Any, rows: Rows) -> Answer:
    check_is_fitted(model)
    return calibrated_answer(model, rows, answer)


@answer.register(VotingClassifier)
def _voted(model: Any, rows: Rows) -> Answer:
    check_is_fitted(model)
    return voted_answer(model, rows, answer)


@answer.register(FixedThresholdClassifier)
@answer.register(TunedThresholdClassifierCV)
def _cut(model: Any, rows: Rows) -> Answer:
    check_is_fitted(model)
    return threshold_answer(model, rows, answer)


@answer.register
def _ensemble(model: DecisionEnsembleClassifier, rows: Rows) -> Answer:
    check_is_fitted(model)
    return ensemble_answer(model, rows, answer)


# Functions of the rows, and Bayes' rule


@answer.register(TruncatedLogisticRegression)
@answer.register(TruncatedLogisticRegressionCV)
@answer.register(ImportVectorMachine)
@answer.register(ImportVectorMachineCV)
def _function(model: Any, rows: Rows) -> Answer:
    check_is_fitted(model)
    _check_width(model, rows)
    function, tails = function_of(model), tails_of(model)
    scores, n_columns = function_scores(rows.numbers(), function), len(function.intercept)
    if tails is not None:
        scores = stretched(scores, n_columns, tails)
    proba = class_probabilities(scores, n_columns)
    moved = moved_threshold(model)
    if moved is not None:  # other costs would not move its decisions
        return _by_moved_threshold(model, proba, moved, scores)
    rule = rule_of(model)
    actions = model.classes_ if rule.reject_costs is None else model.actions_
    return _by_costs(model, proba, rule, actions, scores)


def _by_moved_threshold(model: Any, proba: Tensor, threshold: float, scores: Tensor) -> Answer:
    """Return the answer of a search that has tuned its threshold."""
    classes = as_numpy(model.classes_)
    facts = {"threshold": threshold, "zone": [float(p) for p in model.zone_]}
    decide = by_threshold(proba.column(1), threshold)
    return Answer(classes, classes, decide, proba, scores, facts)


def _by_costs(
    model: Any, proba: Tensor, rule: Rule, actions: Array, scores: Tensor | None
) -> Answer:
    """Return the answer of a model that decides by Bayes' rule."""
    classes = as_numpy(model.classes_)
    facts: dict[str, Any] = {"costs": rule.costs.tolist()}
    if rule.reject_costs is not None:
        facts["reject_cost"] = rule.reject_costs.tolist()
    elif len(classes) == 2 and has_threshold(rule.costs):
        facts["threshold"] = threshold_of(rule.costs)
    zone = getattr(model, "zone_", None)
    if zone is not None:
        facts["zone"] = np.asarray(as_numpy(zone), dtype=np.float64).tolist()
    decide = by_costs(proba, len(classes), rule)
    return Answer(classes, as_numpy(actions), decide, proba, scores, facts)


# Policies


@answer.register
def _policy(model: TightBoundLogisticRegression, rows: Rows) -> Answer:
    check_is_fitted(model, "coef_")
    _check_width(model, rows)
    function, classes = function_of(model), as_numpy(model.classes_)
    scores, n_columns = function_scores(rows.numbers(), function), len(function.coef)
    K = len(classes)
    own = scores if n_columns == 1 else scores.columns(np.arange(K))
    proba = class_probabilities(own, 1 if n_columns == 1 else K)
    if isinstance(model, TightBoundLogisticRegressionCV) and not model.gate_["accepted"]:
        return _by_costs(model, proba, rule_of(model), model.actions_, own)
    # what it has learnt to do: other costs would not move its decisions
    facts: dict[str, Any] = {"trained_for_costs": as_numpy(model.cost_matrix_).tolist()}
    if rejection_of(model) is not None:
        facts["trained_for_reject_cost"] = np.asarray(rejection_of(model)).tolist()
    if n_columns == 1:
        decide = by_threshold(scores.column(0), policy_cut(model))
        facts["threshold"] = model.threshold_
    else:
        decide = by_argmax(scores, K, n_columns)
    odds = own
    if n_columns > 1 and K == 2:  # as decision_function has them
        odds = (own.column(1) - own.column(0)).upright()
    return Answer(classes, as_numpy(model.actions_), decide, proba, odds, facts)


@answer.register
def _bounds_around(model: TightBoundClassifier, rows: Rows) -> Answer:
    check_is_fitted(model)
    inner = _with_probabilities(model.estimator_, rows, model)
    assert inner.probabilities is not None
    classes = as_numpy(model.classes_)
    decide = by_argmax(inner.probabilities, len(classes), len(classes))
    return Answer(classes, classes, decide, inner.probabilities)


# Minimax machines


@answer.register
def _minimax(model: MinimaxProbabilityMachine, rows: Rows) -> Answer:
    check_is_fitted(model)
    _check_width(model, rows)
    return _bounded(model, function_scores(rows.numbers(), function_of(model)))


@answer.register
def _sparse_minimax(model: SparseMinimaxProbabilityMachine, rows: Rows) -> Answer:
    check_is_fitted(model)
    _check_width(model, rows)
    return _bounded(model, basis_scores(rows.numbers(), bases_of(model)))


def _bounded(model: Any, scores: Tensor) -> Answer:
    classes = as_numpy(model.classes_)

    def decide(graph: Graph, as_input: bool) -> Decision:
        action = (scores.column(0) > 0.0).cast("INT64")
        return Decision(action, action)

    facts = {"accuracy_bound": float(model.accuracy_bound_)}
    rule = decide if len(classes) == 2 else by_argmax(scores, len(classes), len(classes))
    return Answer(classes, classes, rule, None, scores, facts)


# Around other classifiers


@answer.register
def _bayes(model: BayesDecisionClassifier, rows: Rows) -> Answer:
    check_is_fitted(model)
    inner, priors = _with_probabilities(model.estimator_, rows, model), priors_of(model)
    proba = inner.probabilities
    assert proba is not None
    if priors is not None:
        proba = adjusted(proba, *priors)
    made = _by_costs(model, proba, rule_of(model), model.actions_, inner.scores)
    zone = {"zone": inner.facts["zone"]} if "zone" in inner.facts else {}
    return replace(made, facts={**zone, **made.facts})


@answer.register
def _limited(model: RateLimitClassifier, rows: Rows) -> Answer:
    check_is_fitted(model)
    inner, limit = answer(model.estimator_, rows), limit_of(model)
    classes = as_numpy(model.classes_)
    said, k = inner.probabilities, limit.place
    if limit.method == "decision_function":
        said = inner.scores
        if said is None:
            raise NotConvertibleError(
                f"The scores of {type(model.estimator_).__name__}, which limits are set on, have "
                "no counterpart; wrap a classifier of this package, or one with probabilities."
            )
    assert said is not None
    one = limit.method == "decision_function" and len(classes) == 2
    score = said.column(0) * (1.0 if k == 1 else -1.0) if one else said.column(k)

    def decide(graph: Graph, as_input: bool) -> Decision:
        reached = score >= limit.threshold
        if len(classes) == 2:
            action = (reached if k == 1 else ~reached).cast("INT64")
            return Decision(action, action)
        others = [place for place in range(len(classes)) if place != k]
        best = graph.add("Gather", np.array(others), said.columns(others).argmax(), axis=0)
        action = reached.where(np.int64(k), best)
        return Decision(action, action)

    facts = {**inner.facts, "threshold": limit.threshold, "positive": classes[k].item()}
    facts.pop("costs", None)
    for name in ("max_fpr", "min_recall", "min_precision"):
        if getattr(model, name) is not None:
            facts[name] = float(getattr(model, name))
    return Answer(classes, classes, decide, inner.probabilities, inner.scores, facts)


def _with_probabilities(model: Any, rows: Rows, around: Any) -> Answer:
    found = answer(model, rows)
    if found.probabilities is None:
        raise NotConvertibleError(
            f"{type(around).__name__} decides by probabilities, and those of "
            f"{type(model).__name__} have no counterpart."
        )
    return found


# Classifiers of scikit-learn whose counterparts in skl2onnx keep single precision


@answer.register
def _logistic(model: LogisticRegression, rows: Rows) -> Answer:
    check_is_fitted(model)
    _check_width(model, rows)
    scores = rows.numbers() @ np.asarray(model.coef_, dtype=np.float64).T + model.intercept_
    classes = model.classes_
    if len(model.coef_) > 1:
        decide = by_argmax(scores, len(classes), len(classes))
        return Answer(classes, classes, decide, softmax(scores), scores)
    positive = sigmoid(scores)  # as scikit-learn has it: small numbers are differences from one
    proba = rows.graph.concat([1.0 - positive, positive])
    decide = by_threshold(scores.column(0), float(np.nextafter(0.0, 1.0)))
    return Answer(classes, classes, decide, proba, scores)


@answer.register(DecisionTreeClassifier)
@answer.register(ExtraTreeClassifier)
@answer.register(RandomForestClassifier)
@answer.register(ExtraTreesClassifier)
def _forest(model: Any, rows: Rows) -> Answer:
    check_is_fitted(model)
    _check_width(model, rows)
    return most_probable(model.classes_, forest_shares(model, rows.numbers()))


@answer.register
def _boosted(model: HistGradientBoostingClassifier, rows: Rows) -> Answer:
    check_is_fitted(model)
    _check_width(model, rows)
    if model.is_categorical_ is not None:
        raise NotConvertibleError(
            "HistGradientBoostingClassifier with categorical_features cannot be exported; encode "
            "them before it, or take DecisionEnsembleClassifier(['boosting'])."
        )
    trees = TreeSum.of_boosting(model, [], rounded=False)
    return most_probable(model.classes_, tree_sum_probabilities(trees, rows.numbers()))


@answer.register
def _trees(model: TreeSum, rows: Rows) -> Answer:
    return most_probable(model.classes_, tree_sum_probabilities(model, rows.numbers()))


def most_probable(classes: Array, proba: Tensor, scores: Tensor | None = None) -> Answer:
    """Return the answer of a model that decides for the most probable class."""
    decide = by_argmax(proba, len(classes), len(classes))
    return Answer(np.asarray(classes), np.asarray(classes), decide, proba, scores)


def _check_width(model: Any, rows: Rows) -> None:
    """Check that a classifier is given as many columns as it was fitted with."""
    if rows.width != model.n_features_in_:
        raise ValueError(
            f"X has {rows.width} columns; {type(model).__name__} was fitted with "
            f"{model.n_features_in_}."
        )
