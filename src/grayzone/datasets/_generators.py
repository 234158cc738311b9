"""Data whose truth is known: draws from mixtures, with the probabilities of the classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.utils import check_random_state

from grayzone.numerics.checks import check_integer, check_number

Array = Any

_TWONORM_FEATURES = 20


class Mixture(NamedTuple):
    """A sample, its labels, and the true probabilities of all classes at each row."""

    X: Array
    y: Array
    proba: Array


def make_twonorm(
    n_samples: int = 300, *, n_noise: int = 0, random_state: Any = None
) -> tuple[Array, Array]:
    """Draw Breiman's Twonorm: two normal classes around ±(a, …, a), a = 2/√20, covariance I.

    The classes are equally likely. Bayes' rule is right with probability Φ(2) = .977.

    Parameters
    ----------
    n_samples : int, default=300
        Number of rows.
    n_noise : int, default=0
        Features that tell nothing, after the 20 that do.
    random_state : int, RandomState instance or None, default=None
        Draws the sample.

    Returns
    -------
    X : ndarray of shape (n_samples, 20 + n_noise)
        Features.
    y : ndarray of shape (n_samples,)
        0 or 1.

    See Also
    --------
    make_four_clusters : Two classes of two clusters each.
    make_mixture : Classes of many clusters.

    Examples
    --------
    >>> from grayzone.datasets import make_twonorm
    >>> X, y = make_twonorm(100, n_noise=5, random_state=0)
    >>> X.shape
    (100, 25)
    """
    check_integer("n_samples", n_samples, least=1)
    check_integer("n_noise", n_noise, least=0)
    rng = check_random_state(random_state)
    y = rng.randint(2, size=n_samples)
    X = rng.normal(size=(n_samples, _TWONORM_FEATURES + n_noise))
    X[:, :_TWONORM_FEATURES] += (2.0 / np.sqrt(_TWONORM_FEATURES)) * (2 * y[:, None] - 1)
    return X, y


def make_mixture(
    n_samples: int = 200,
    *,
    centres: Array | None = None,
    n_classes: int = 2,
    random_state: Any = None,
) -> Mixture:
    """Draw from a mixture by the recipe of The Elements of Statistical Learning.

    The classes are equally likely; each is a mixture of normal distributions with covariance I/5
    around centres of its own, equally likely too.

    Parameters
    ----------
    n_samples : int, default=200
        Number of points.
    centres : array of shape (n_classes * m, 2), default=None
        There are m of each class, class by class. None draws ten of each around a mean of the
        class: (1, 0), (0, 1), and further ones on their circle.
    n_classes : int, default=2
        Number of classes.
    random_state : int, RandomState instance or None, default=None
        Draws centres and sample.

    Returns
    -------
    mixture : named tuple
        ``X`` (n_samples, 2), ``y`` (n_samples,) and ``proba`` (n_samples, n_classes), the true
        probabilities.

    See Also
    --------
    make_four_clusters : Two classes of two clusters each.
    make_twonorm : Two normal classes.

    Examples
    --------
    >>> from grayzone.datasets import make_mixture
    >>> X, y, proba = make_mixture(500, random_state=0)
    >>> bool(0.6 < (proba.argmax(axis=1) == y).mean() < 1.0)
    True
    """
    check_integer("n_samples", n_samples, least=1)
    check_integer("n_classes", n_classes, least=2)
    rng = check_random_state(random_state)
    if centres is None:
        angles = 0.5 * np.pi * (1.0 - np.arange(n_classes) * 4.0 / max(n_classes, 4))
        means = np.column_stack([np.sin(angles), np.cos(angles)])
        centres = np.repeat(means, 10, axis=0) + rng.normal(size=(10 * n_classes, 2))
    centres = np.asarray(centres, dtype=np.float64)
    if centres.ndim != 2 or centres.shape[1] != 2 or len(centres) % n_classes or not len(centres):
        raise ValueError(
            f"centres must be of shape (n_classes * m, 2) with n_classes={n_classes}; got "
            f"{centres.shape}."
        )
    _check_finite("centres", centres)
    component = rng.randint(len(centres), size=n_samples)
    X = centres[component] + rng.normal(scale=np.sqrt(0.2), size=(n_samples, 2))
    distances = ((X[:, None, :] - centres) ** 2).sum(axis=2)
    log_density = logsumexp(-2.5 * distances.reshape(n_samples, n_classes, -1), axis=2)
    return Mixture(X, component // (len(centres) // n_classes), softmax(log_density, axis=1))


def make_four_clusters(
    n_samples: int = 1_000,
    *,
    centres: Array = ((-3.0, 1.0), (4.0, 2.0), (2.0, 3.0), (3.0, -3.0)),
    shares: Array = (0.1, 0.4, 0.25, 0.25),
    scale: float = 0.8,
    random_state: Any = None,
) -> Mixture:
    """Draw two classes of two normal clusters each, where lines for different costs cross.

    A problem of the kind of Bach, Heckerman & Horvitz (2006): the ROC curve of log-loss fits, one
    for each asymmetry of costs, is not concave. Their own data are not described; the default
    places are one mixture with this property.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of points.
    centres : array of shape (4, 2)
        Centres, the first two of class 0.
    shares : array of shape (4,)
        How likely each cluster is.
    scale : float, default=0.8
        Standard deviation of the clusters.
    random_state : int, RandomState instance or None, default=None
        Draws the sample.

    Returns
    -------
    mixture : named tuple
        ``X`` (n_samples, 2), ``y`` (n_samples,) and ``proba`` (n_samples, 2), the true
        probabilities.

    See Also
    --------
    make_mixture : Classes of many clusters.
    make_twonorm : Two normal classes.

    Examples
    --------
    >>> from grayzone.datasets import make_four_clusters
    >>> X, y, proba = make_four_clusters(200, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((200, 2), [0, 1])
    """
    check_integer("n_samples", n_samples, least=1)
    check_number("scale", scale, above=0.0)
    rng = check_random_state(random_state)
    centres, shares = np.asarray(centres, dtype=float), np.asarray(shares, dtype=float)
    if centres.shape != (4, 2) or shares.shape != (4,) or np.any(shares < 0) or shares.sum() <= 0:
        raise ValueError(
            f"centres must be of shape (4, 2) and shares four numbers >= 0; got {centres.shape} "
            f"and {shares.tolist()}."
        )
    _check_finite("centres", centres)
    _check_finite("shares", shares)
    shares = shares / shares.sum()
    cluster = rng.choice(4, size=n_samples, p=shares)
    X = centres[cluster] + rng.normal(scale=scale, size=(n_samples, 2))
    # a share of 0 is a density of 0; so is what lies too far away for a double
    with np.errstate(divide="ignore", over="ignore"):
        distances = (((X[:, None, :] - centres) / scale) ** 2).sum(axis=2)
        weighted = np.log(shares) - 0.5 * distances
    log_density = logsumexp(weighted.reshape(n_samples, 2, 2), axis=2)
    return Mixture(X, (cluster >= 2).astype(np.int64), softmax(log_density, axis=1))


def _check_finite(name: str, values: Array) -> None:
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{name} must be finite; got {values.tolist()}.")
