"""What fitted estimators compute, as plain numbers: what a copy in another language needs.

Predictions of this package are a function of the rows, what it becomes beyond a zone, and a rule
that decides. Here each of these is told apart from the estimator, in NumPy and double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from grayzone.numerics.checks import Floats, as_numpy
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.tails import differs
from grayzone.solvers.stack import LEAST

Array = Any

__all__ = [
    "Bases",
    "Function",
    "Limit",
    "Rule",
    "Stacked",
    "Tails",
    "bases_of",
    "function_of",
    "limit_of",
    "policy_cut",
    "priors_of",
    "rejection_of",
    "rule_of",
    "stacked_of",
    "tails_of",
]


@dataclass(frozen=True)
class Function:
    """Scores (n, Q) of rows: ``X coef' + intercept``, or kernel values instead of X.

    Attributes
    ----------
    coef : ndarray of shape (Q, n_features) or (Q, n_vectors)
        Coefficients of features, or of kernel values.
    intercept : ndarray of shape (Q,)
        Intercepts.
    kernel : Kernel or None
        None where the function is linear.
    vectors : ndarray of shape (n_vectors, n_features) or None
        Rows whose kernel functions span it; of a precomputed kernel the numbers of its columns.
    """

    coef: Floats
    intercept: Floats
    kernel: Kernel | None = None
    vectors: Array | None = None


@dataclass(frozen=True)
class Tails:
    """Log-odds of each class at which its rows leave the zone, and slopes and bends beyond.

    What is d beyond an end becomes ``slope * log(1 + bend * d) / bend``; without a bend,
    ``slope * d``.
    """

    ends: Floats
    slopes: Floats
    bends: Floats


@dataclass(frozen=True)
class Rule:
    """Costs by which decisions are made: ``cost[true, decided]``, and of staying undecided."""

    costs: Floats
    reject_costs: Floats | None = None


@dataclass(frozen=True)
class Bases:
    """Basis functions phi(sum_l gamma_l D_l(x, v)) of a sparse minimax machine.

    ``name`` is "gaussian", "poly", "tanh" or "callable"; ``coef`` is (1, bases) for two classes,
    (K, bases) for more.
    """

    name: str
    degree: int
    coef0: float
    centres: Floats
    gammas: Floats
    coef: Floats
    intercept: Floats


@dataclass(frozen=True)
class Limit:
    """A threshold on a score of the class at a place: ``method`` is what scores come from."""

    threshold: float
    place: int
    method: str


@dataclass(frozen=True)
class Stacked:
    """Calibration of each member's log-scores (M,), (M, K), weights (M,), intercepts (K,).

    ``least`` is the probability that members' answers are clipped at; ``cut`` the threshold that a
    limit has set on the positive one of two classes, else None.
    """

    slopes: Floats
    shifts: Floats
    weights: Floats
    intercept: Floats
    cut: float | None
    least: float = LEAST


def function_of(model: Any) -> Function:
    """Return the function behind a model's scores.

    Parameters
    ----------
    model : estimator
        A fitted truncated, tight-bound, import vector or exact minimax classifier.

    Returns
    -------
    function : Function
        Its numbers.

    Examples
    --------
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.estimators.anatomy import function_of
    >>> clf = TruncatedLogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> function_of(clf).coef.shape, function_of(clf).kernel
    ((1, 1), None)
    """
    intercept = _doubles(model.intercept_)
    if "coef_" in vars(model):
        return Function(_doubles(model.coef_), intercept)
    kernel, coef = model._kernel, _doubles(model.dual_coef_)
    vectors = model._vectors if hasattr(model, "_vectors") else model._fit_X
    if kernel.name == "precomputed":
        known = model._right if hasattr(model, "_vectors") else np.arange(coef.shape[1])
        return Function(coef, intercept, kernel, as_numpy(known).astype(np.int64))
    vectors = vectors.toarray() if sp.issparse(vectors) else as_numpy(vectors)
    used = np.any(coef != 0.0, axis=0)  # an exact minimax machine has coefficients of all rows
    return Function(coef[:, used], intercept, kernel, vectors[used].astype(np.float64))


def tails_of(model: Any) -> Tails | None:
    """Return how log-odds go on beyond the zone; None where they are as fitted."""
    slopes = vars(model).get("tail_slopes_")
    if slopes is None or not np.any(differs(as_numpy(slopes), as_numpy(model.tail_bends_))):
        return None
    return Tails(_doubles(model._tail_ends()), _doubles(slopes), _doubles(model.tail_bends_))


def rejection_of(model: Any) -> Floats | None:
    """Return what staying undecided costs for each true class; None where it is no action."""
    costs = getattr(model, "_reject_costs", None)
    return None if costs is None else _doubles(costs)


def rule_of(model: Any) -> Rule:
    """Return the costs that a model decides by."""
    return Rule(_doubles(model.cost_matrix_), rejection_of(model))


def moved_threshold(model: Any) -> float | None:
    """Return the threshold of a search that has tuned it; None where costs decide."""
    return float(model.threshold_) if hasattr(model, "threshold_tuning_") else None


def policy_cut(model: Any) -> float:
    """Return the log-odds from which on a tight-bound model decides for the positive class."""
    return float(model._cut)


def priors_of(model: Any) -> tuple[Floats, Floats] | None:
    """Return class shares of the fit and of today, where a Bayes rule was given others."""
    if model._priors is None:
        return None
    seen, today = model._priors
    return _doubles(seen), _doubles(today)


def limit_of(model: Any) -> Limit:
    """Return the threshold that keeps a rate limit, and what it is a threshold on."""
    return Limit(float(model.threshold_), int(model._positive), model._method)


def bases_of(model: Any) -> Bases:
    """Return the basis functions of a sparse minimax machine."""
    family = model._fitted_family
    coef, intercept = _doubles(model.dual_coef_), _doubles(model.intercept_)
    centres, gammas = _doubles(model.bases_), _doubles(model.gammas_)
    return Bases(family.name, family.degree, family.coef0, centres, gammas, coef, intercept)


def stacked_of(model: Any) -> Stacked:
    """Return how a decision ensemble makes one answer of those of its members."""
    cut = None if model._cut is None else float(model._cut)
    return Stacked(
        _doubles(model._slopes),
        _doubles(model._shifts),
        _doubles(model.weights_),
        _doubles(model.intercept_),
        cut,
    )


def _doubles(values: Any) -> Floats:
    return np.asarray(as_numpy(values), dtype=np.float64)
