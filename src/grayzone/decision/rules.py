"""Bayes' rule: the action of least expected cost, with "undecided" among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from array_api_compat import device
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

from grayzone.decision.costs import (
    Costs,
    cost_matrix,
    error_costs,
    has_threshold,
    reject_costs,
    stakes,
    threshold_of,
)
from grayzone.decision.example_costs import (
    errors_of_rows,
    have_thresholds,
    row_thresholds,
    shared_matrix,
)
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import (
    Array,
    Floats,
    as_amounts,
    as_labels,
    as_numpy,
    as_probabilities,
    is_auto,
    is_numeric_label,
    is_text,
    listed,
)
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.row_costs import cost_matrices


def action_costs(proba: Array, costs: Costs = None, *, reject_cost: Any = None) -> Array:
    r"""Return the expected cost of every action, :math:`\sum_i p_i \mathrm{cost}[i, j]`.

    Parameters
    ----------
    proba : array of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, or the probability of the positive class. Rows are taken to sum
        to one.
    costs : None or array-like of shape (n_classes, n_classes) or (n_classes,), default=None
        ``cost[true, predicted]``, or the cost of misclassifying each class; None means that
        every error costs 1. Costs of each row: ``cost[row, true, predicted]``, of shape
        (n_samples, n_classes, n_classes), as :func:`cost_matrices` makes it.
    reject_cost : float or array-like of shape (n_classes,), default=None
        Cost of staying undecided, for all or for each true class; None: not an option.

    Returns
    -------
    expected : array of shape (n_samples, n_classes) or (n_samples, n_classes + 1)
        One column per class and, with `reject_cost`, a last one for "undecided"; in the array
        library and on the device of `proba`.

    See Also
    --------
    bayes_decision : The action of least expected cost.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision import action_costs
    >>> action_costs(np.asarray([0.25, 0.5]), costs=[1.0, 4.0], reject_cost=0.6)
    array([[1.  , 0.75, 0.6 ],
           [2.  , 0.5 , 0.6 ]])
    """
    proba = as_probabilities(proba)
    expected = _expected(proba, known_costs(costs, proba), reject_cost)
    return array_namespace(proba).astype(expected, proba.dtype, copy=False)


def bayes_decision(proba: Array, costs: Costs = None, *, reject_cost: Any = None) -> Array:
    r"""Return the action of smallest expected cost for each row.

    .. math:: \arg\min_j \sum_i p_i \, \mathrm{cost}[i, j]

    For two classes this is rule (1) of Hérault & Grandvalet (2007), computed as the comparison
    of the positive class's probability with :func:`threshold_from_costs`. With `reject_cost`,
    rows whose best decision is expected to cost more than staying undecided stay undecided
    (Chow, 1970).

    Parameters
    ----------
    proba : array of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, or the probability of the positive class.
    costs : None or array-like of shape (n_classes, n_classes) or (n_classes,), default=None
        ``cost[true, predicted]``, or the cost of misclassifying each class; None means that
        every error costs 1. Classes are column indices here. Costs of each row:
        ``cost[row, true, predicted]``, of shape (n_samples, n_classes, n_classes).
    reject_cost : float or array-like of shape (n_classes,), default=None
        Cost of staying undecided, for all or for each true class; None: always decide.

    Returns
    -------
    action : array of shape (n_samples,)
        Index of the class decided for; ``n_classes`` stands for "undecided". In the array
        library and on the device of `proba`.

    See Also
    --------
    action_costs : The expected costs that it compares.
    action_labels : Labels of the actions.
    grayzone.BayesDecisionClassifier : The same rule around any classifier.

    Notes
    -----
    Ties: between two classes the positive one (index 1) wins, as rule (1) has it; between
    more, the first of the best; between deciding and staying undecided, deciding.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision import bayes_decision
    >>> p = np.asarray([0.1, 0.2, 0.3])
    >>> bayes_decision(p, costs=[1.0, 4.0])
    array([0, 1, 1])
    >>> bayes_decision(p, costs=[1.0, 4.0], reject_cost=0.75)
    array([0, 2, 1])
    """
    proba = as_probabilities(proba)
    xp = array_namespace(proba)
    n_classes = proba.shape[1]
    known = known_costs(costs, proba)
    rejection = None if reject_cost is None else reject_costs(reject_cost, range(n_classes))
    if known.ndim == 2:  # those of rows are summed in double precision, whatever their unit is
        known, rejection = _in_a_small_unit(known, rejection)
    decision = _decide(proba, known)
    if rejection is None:
        return decision
    expected = _expected(proba, known, rejection)
    undecided = expected[:, n_classes] < xp.min(expected[:, :n_classes], axis=1)
    return xp.where(undecided, xp.full_like(decision, n_classes), decision)


def _in_a_small_unit(matrix: Floats, rejection: Floats | None) -> tuple[Floats, Floats | None]:
    """Return the same costs, at most 1, which all precisions hold: exactly, by a power of two."""
    dearest = max(np.max(matrix), 0.0 if rejection is None else np.max(rejection))
    exponent = -int(np.frexp(dearest)[1])
    if rejection is not None:
        rejection = np.ldexp(rejection, exponent)
    return np.ldexp(matrix, exponent), rejection


def _expected(proba: Array, known: Array, reject_cost: Any) -> Array:
    """Return the expected cost of every action from an (n, K) array of probabilities."""
    xp = array_namespace(proba)
    if known.ndim == 3:
        proba = xp.astype(proba, xp.float64, copy=False)
        expected = xp.sum(proba[:, :, None] * known, axis=1)
    else:
        expected = proba @ _like(proba, known)
    if reject_cost is None:
        return expected
    costs = reject_costs(reject_cost, range(proba.shape[1]))
    if np.all(costs == costs[0]):
        # Not a sum over p: rounding in it must not leave ties undecided.
        undecided = xp.full_like(proba[:, 0], float(costs[0]))
    else:
        undecided = proba @ _like(proba, costs)
    return xp.concat([expected, undecided[:, None]], axis=1)


def _decide(proba: Array, known: Array) -> Array:
    """Return the best class of each row of an (n, K) array of probabilities."""
    xp = array_namespace(proba)
    if proba.shape[1] == 2:
        return xp.astype(_above(proba[:, 0], proba[:, 1], known), xp.int64)
    # The best action does not change when a constant is taken from a row of costs. Counting from
    # the dearest action makes 0/1 costs the identity, so that the decision is exactly the most
    # probable class, not subject to the rounding of sums.
    savings = array_namespace(known).max(known, axis=-1, keepdims=True) - known
    return xp.argmax(_expected(proba, savings, None), axis=1)


def _above(negative: Array, positive: Array, known: Array) -> Array:
    """Whether the positive class of two is decided for."""
    if known.ndim == 2:
        if has_threshold(known):
            return positive >= threshold_of(known) * (negative + positive)
        false_positive, false_negative = stakes(known)
        return false_negative * positive >= false_positive * negative
    xp = array_namespace(positive)
    # in the precision of the probabilities, as one threshold for all rows is
    thresholds = xp.astype(row_thresholds(known), positive.dtype, copy=False)
    false_positives, false_negatives = errors_of_rows(known)
    return xp.where(
        have_thresholds(known),
        positive >= thresholds * (negative + positive),
        false_negatives * positive >= false_positives * negative,
    )


def known_costs(costs: Costs, proba: Array) -> Array:
    """Return one matrix of costs, NumPy's, or those of each row, beside `proba`.

    Rows that all have the same costs are decided as by one matrix, to the last bit.
    """
    n_rows, n_classes = proba.shape
    if _ndim(costs) != 3:
        return _indexed_costs(costs, n_classes)
    rows = cost_matrices(costs, range(n_classes), n_rows, some_stake=False, name="costs")
    shared = shared_matrix(rows)
    return moved(rows, proba) if shared is None else shared


def _ndim(costs: Costs) -> int:
    if costs is None or isinstance(costs, (str, Mapping)):
        return 0
    return int(costs.ndim) if hasattr(costs, "ndim") else as_amounts(costs, "costs").ndim


def _indexed_costs(costs: Costs, n_classes: int) -> Floats:
    """Return the cost matrix of classes known by index, from a matrix or class costs."""
    if costs is not None and not isinstance(costs, (str, Mapping)):
        array = as_amounts(costs, "costs")
        if array.shape == (n_classes,):
            costs = error_costs(array)
        elif array.ndim != 2:
            raise ValueError(
                f"costs has shape {array.shape}; expected ({n_classes}, {n_classes}) or "
                f"({n_classes},), as proba has {n_classes} classes."
            )
    return cost_matrix(costs, range(n_classes))


def _like(proba: Array, values: Floats) -> Array:
    """Move a small NumPy array to the library, type and device of `proba`."""
    xp = array_namespace(proba)
    return xp.asarray(values, dtype=proba.dtype, device=device(proba))


def cuts_between_actions(costs: Any, reject_cost: Any = None) -> Floats:
    """Return the positive class's probabilities at which the best of two or three actions changes.

    Examples
    --------
    >>> from grayzone.decision.rules import cuts_between_actions
    >>> cuts_between_actions([[0, 1], [4, 0]])
    array([0.2])
    >>> cuts_between_actions([[0, 1], [1, 0]], reject_cost=0.25)
    array([0.25, 0.75])
    """
    ends = _expected(np.eye(2), _indexed_costs(costs, 2), reject_cost)
    cuts = set()
    for one, other in combinations(range(ends.shape[1]), 2):
        # expected costs are linear in the probability: where two lines meet below all others
        ahead = ends[:, one] - ends[:, other]
        if ahead[0] * ahead[1] < 0:
            cut = ahead[0] / (ahead[0] - ahead[1])
            expected = np.asarray([1.0 - cut, cut]) @ ends
            if expected[one] <= expected.min() * (1.0 + 1e-12):
                cuts.add(float(cut))
    return np.asarray(sorted(cuts))


def rejection_pays(costs: Floats, reject_cost: ArrayLike) -> bool:
    """Return whether there are probabilities at which staying undecided is cheaper than deciding.

    That is a linear program, the value of a game: the largest t over all probabilities p with
    ``p'(cost[:, k] - reject) >= t`` for all decisions k.

    Parameters
    ----------
    costs : ndarray of shape (K, K)
        ``cost[true, predicted]``.
    reject_cost : array-like of shape (K,)
        What staying undecided costs for each true class.

    Returns
    -------
    pays : bool
        False, if even the best of all probabilities gain nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision.rules import rejection_pays
    >>> costs = np.array([[0.0, 1.0], [5.0, 0.0]])
    >>> rejection_pays(costs, [0.8, 0.8]), rejection_pays(costs, [0.9, 0.9])  # 5 / 6 is the most
    (True, False)
    """
    gain = (costs - np.reshape(reject_cost, (-1, 1))) / max(np.max(costs), np.max(reject_cost))
    K = len(gain)
    found = linprog(
        np.append(np.zeros(K), -1.0),
        A_ub=np.hstack([-gain.T, np.ones((K, 1))]),
        b_ub=np.zeros(K),
        A_eq=np.append(np.ones(K), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0.0, 1.0)] * K + [(None, None)],
    )
    return found.fun is None or bool(-found.fun > 1e-9)  # no answer is no reason to say anything


def certain_from(costs: Floats, against: Sequence[int] | None = None) -> Floats:
    """Return the probability of each class from which on it is decided for.

    That is, however the other classes share the rest: from there on no other action can be
    better. Infinite where a class is never decided for.

    Parameters
    ----------
    costs : ndarray of shape (K, A)
        Costs of actions for each true class; the first K are decisions for the classes.
    against : sequence of int, default=None
        Which actions there are beside deciding for the class; None is all.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision.rules import certain_from
    >>> certain_from(np.array([[0.0, 1.0], [4.0, 0.0]]))  # decides for 1 from .2 on
    array([0.8, 0.2])
    """
    costs = costs / np.max(costs)  # so that no sum overflows
    certain = np.zeros(len(costs))
    for k in range(len(costs)):
        more = costs[:, against or slice(None)] - costs[:, [k]]  # than deciding for k
        at_stake = more[k].copy()
        more[k] = np.inf
        at_risk = -np.min(more, axis=0)
        better = at_risk > 0
        if np.any(at_stake[better] < 0):
            certain[k] = np.inf
        elif np.any(better):
            certain[k] = np.max(at_risk[better] / (at_risk[better] + at_stake[better]))
    return certain


def undecided_value(labels: NDArray[Any], undecided_label: Any) -> Any:
    """Return the label of "undecided" that suits `labels`, or say why there is none."""
    known = as_labels(labels, "classes")
    label = undecided_label
    if is_auto(label):
        label = "undecided" if is_text(known) else -1
    suits = isinstance(label, str) if is_text(known) else is_numeric_label(label)
    if not suits or label != label:
        raise ValueError(
            f"undecided_label={undecided_label!r} cannot stand beside the classes "
            f"{listed(known)}: give {'a string' if is_text(known) else 'a number'}."
        )
    if label in known.tolist():
        raise ValueError(
            f"undecided_label={undecided_label!r} stands for {label!r}, which is one of the "
            f"classes {listed(known)}; give another undecided_label."
        )
    return label


def action_labels(classes: ArrayLike, undecided_label: Any = "auto") -> NDArray[Any]:
    """Return the classes followed by the label of "undecided".

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
        The labels, all numbers or all strings.
    undecided_label : "auto", str or number, default="auto"
        Label of rows left undecided: a number beside numbers, a string beside strings, and
        none of the classes. "auto" is -1 or "undecided".

    Returns
    -------
    actions : ndarray of shape (n_classes + 1,)
        Every label that can be predicted, wide enough to hold each.

    See Also
    --------
    bayes_decision : Numbers of actions, which these labels are for.

    Examples
    --------
    >>> from grayzone.decision import action_labels
    >>> action_labels([0, 1])
    array([ 0,  1, -1])
    >>> action_labels(["no", "yes"])
    array(['no', 'yes', 'undecided'], dtype='<U9')
    """
    labels = as_numpy(classes)
    label = undecided_value(labels, undecided_label)
    dtype = labels.dtype if labels.dtype.kind == "O" else None
    return np.concatenate([labels, np.asarray([label], dtype=dtype)])
