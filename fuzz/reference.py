"""Objectives worked out independently of the package, and points that no fit may be worse than.

The criterion is that of ``TruncatedLogisticRegression``: the sum of weighted, truncated log-losses
and the penalty (1/2C) |f|^2.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.svm import SVC

Array = Any

_MOST_STEPS = 20_000  # of libsvm, which knows no end on hostile data


class Criterion(NamedTuple):
    """What is minimised: codes (n,) and weights (n,) of rows, caps (K,) of classes, and C.

    ``least`` (K,) are the losses at the caps, which have digits where a cap has none beside one.
    """

    codes: Array
    weight: Array
    caps: Array
    least: Array
    C: float

    def loss(self, scores: Array) -> float:
        """Return the loss of log-odds (n,) of two classes, or of scores (n, K)."""
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        # relative to the own score, or what is left of a sure one is lost in rounding
        own = scores[np.arange(len(self.codes)), self.codes]
        surprise = logsumexp(scores - own[:, None], axis=1).clip(self.least[self.codes])
        return float(np.sum(np.where(self.weight > 0.0, self.weight * surprise, 0.0)))

    def objective(self, scores: Array, square: float) -> float:
        """Return the criterion of a function with these scores and this squared norm."""
        return self.loss(scores) + 0.5 * max(square, 0.0) / self.C

    def constant(self, fit_intercept: bool) -> float:
        """Return the smallest criterion of some constants, the best one of two classes included."""
        K, n = self.caps.size, self.codes.size
        constants = [np.zeros(K)]
        if fit_intercept:
            masses = np.bincount(self.codes, self.weight, minlength=K) / np.sum(self.weight)
            constants.append(np.log(masses.clip(1e-300)))
            constants.append(np.log(self.caps))
            # two classes: the constants at which one of them is at its cap
            shares = [np.array([cap, *[(1.0 - cap) / (K - 1)] * (K - 1)]) for cap in self.caps]
            constants += [np.log(np.roll(s, k).clip(1e-300)) for k, s in enumerate(shares) if K > 1]
        return min(self.loss(np.tile(scores, (n, 1))) for scores in constants)


def criterion_of(model: Any, classes: Array, y: Array, weight: Array | None) -> Criterion:
    """Return the criterion that a model was fitted by, from its parameters and its zone."""
    codes: Array = np.searchsorted(classes, y)
    w = np.ones(len(codes)) if weight is None else weight.astype(np.float64)
    if len(classes) == 2:
        p_min, p_max = (float(p) for p in model.zone_)
        caps, least = np.array([1.0 - p_min, p_max]), -np.array([np.log1p(-p_min), np.log(p_max)])
    else:
        caps = np.asarray(model.zone_, dtype=np.float64)
        least = -np.log(caps)
    each = _class_weights(model.class_weight, classes, codes, w)
    C = float(getattr(model, "C_", getattr(model, "C", 1.0)))
    return Criterion(codes, w * each[codes], caps, least, C)


def _class_weights(given: Any, classes: Array, codes: Array, weight: Array) -> Array:
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, dict):
        return np.array([given.get(label, 1.0) for label in classes.tolist()])
    masses = np.bincount(codes, weight, minlength=len(classes))
    return masses.sum() / (len(classes) * np.where(masses > 0.0, masses, np.inf))


def kernel_matrix(model: Any, X: Array, weight: Array | None) -> Array:
    """Return the kernel values of all pairs of rows; distances from differences, slow and exact.

    Rows' own weights count in the width, those of classes do not.
    """
    kernel, gamma = model.kernel, model.gamma
    weight = np.ones(len(X)) if weight is None else weight.astype(np.float64)
    if callable(kernel):
        values = kernel(X, X)
        return values.toarray() if sp.issparse(values) else np.asarray(values)
    if kernel == "precomputed":
        return X
    if gamma == "scale":
        off = X - weight @ X.mean(axis=1) / weight.sum()
        off -= weight @ off.mean(axis=1) / weight.sum()  # the mean itself is rounded
        spread = weight @ (off**2).mean(axis=1) / weight.sum() if np.ptp(X) > 0.0 else 0.0
        gamma = 1.0 / (X.shape[1] * spread) if spread > 0 else 1.0
    elif gamma == "auto":
        gamma = 1.0 / X.shape[1]
    if kernel in ("rbf", "laplacian"):
        far = cdist(X, X, "sqeuclidean" if kernel == "rbf" else "cityblock")
        return np.exp(-gamma * far)
    products = gamma * (X @ X.T) + model.coef0
    return products**model.degree if kernel == "poly" else np.tanh(products)


def is_definite(K: Array) -> bool:
    """Whether a matrix is symmetric and has no negative eigenvalue, but for rounding."""
    if not (np.all(np.isfinite(K)) and np.array_equal(K, K.T)):
        return False
    values = np.linalg.eigvalsh(K)
    return bool(values[0] >= -1e-9 * values[-1])


def support_vector_start(criterion: Criterion, K: Array, fit_intercept: bool) -> float:
    """Return the criterion at the dual coefficients of ``SVC``, one machine a class beyond two."""
    codes, weight, caps, _, C = criterion
    positives = [1] if len(caps) == 2 else range(len(caps))
    scores, square, rounding = [], 0.0, 0.0
    for k in positives:
        found = _machine(K, codes == k, weight, C)
        if found is None:
            return np.inf
        coef, intercept = found
        values = K @ coef
        square += float(coef @ values)
        # values that cancel are as wrong as they are large: no loss is steeper than one
        wrong = 10.0 * np.finfo(float).eps * (np.abs(K) @ np.abs(coef))
        rounding += float(weight @ wrong + np.abs(coef) @ wrong / C)
        scores.append(values + (intercept if fit_intercept else 0.0))
    together = scores[0] if len(caps) == 2 else np.column_stack(scores)
    return criterion.objective(together, square) + rounding


def _machine(K: Array, positive: Array, weight: Array, C: float) -> tuple[Array, float] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = SVC(C=C, kernel="precomputed", max_iter=_MOST_STEPS)
        try:
            machine.fit(K, positive, sample_weight=weight)
        except ValueError:  # a kernel that overflows, or weights that leave one class
            return None
    coef = np.zeros(len(weight))
    coef[machine.support_] = machine.dual_coef_[0]
    return coef, float(machine.intercept_[0])
