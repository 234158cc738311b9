r"""Class shares that differ from those a classifier was fitted to.

Where the share of each class changes and what a class looks like does not, a classifier's
probabilities are right up to the factor that the shares changed by. With :math:`\pi` the shares
the classifier has seen and :math:`\pi'` the new ones,

.. math:: p'_k(x) = \frac{p_k(x) \, \pi'_k / \pi_k}{\sum_j p_j(x) \, \pi'_j / \pi_j},

equation (2.4) of Saerens, Latinne & Decaestecker (2002); and the new shares themselves can be
estimated from rows without labels, by maximum likelihood.

References
----------
M. Saerens, P. Latinne and C. Decaestecker, "Adjusting the outputs of a classifier to new a priori
probabilities: a simple procedure", Neural Computation, 2002.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import ArrayLike, NDArray

from grayzone.decision.costs import mapped
from grayzone.numerics.checks import (
    Array,
    Floats,
    as_amounts,
    as_numpy,
    as_probabilities,
    check_integer,
    check_number,
    check_weights,
    listed,
)
from grayzone.numerics.namespace import array_namespace


def class_shares(prior: Any, classes: ArrayLike, name: str = "prior") -> Floats:
    """Return the share of each class, summing to one, from a mapping or an array.

    Parameters
    ----------
    prior : mapping or array-like of shape (n_classes,)
        ``{label: share}`` or one share a class, in the order of `classes`; counts will do.
    classes : array-like of shape (n_classes,)
        The labels.
    name : str
        What errors call the shares.

    Returns
    -------
    shares : ndarray of shape (n_classes,)
        Positive shares.
    """
    labels = as_numpy(classes)
    is_mapping = isinstance(prior, Mapping)
    shares = mapped(prior, labels, name) if is_mapping else as_amounts(prior, name)
    if shares.shape != labels.shape:
        raise ValueError(
            f"{name} has shape {shares.shape}; expected one share for each of the classes "
            f"{listed(labels)}."
        )
    if not np.all(shares > 0):
        raise ValueError(
            f"{name} must be positive for every class; got 0 for {listed(labels[shares == 0])}."
        )
    return shares / shares.max() / np.sum(shares / shares.max())


def adjust_prior(proba: Array, prior: ArrayLike, new_prior: ArrayLike) -> Array:
    r"""Return class probabilities as they are where the classes have other shares.

    .. math:: p'_k \propto p_k \, \pi'_k / \pi_k,

    equation (2.4) of Saerens et al. (2002). It moves a classifier to another month, region or
    market, and undoes resampling and class weights: a classifier fitted to balanced classes has
    seen the prior (1/2, 1/2), whatever the shares of the data.

    Parameters
    ----------
    proba : array of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, or the probability of the positive class.
    prior : array-like of shape (n_classes,)
        Shares of the classes that the classifier was fitted to, up to a factor, weighted as its
        rows were.
    new_prior : array-like of shape (n_classes,)
        Shares of the classes where its probabilities are used, up to a factor.

    Returns
    -------
    adjusted : array of the shape of `proba`
        Probabilities under the new shares; in the array library and on the device of `proba`.

    See Also
    --------
    estimate_prior : The new shares, from rows without labels.
    grayzone.BayesDecisionClassifier : Decides with adjusted probabilities, given its `prior`.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision import adjust_prior
    >>> p = np.asarray([0.1, 0.5, 0.9])  # from a fit to as many frauds as honest cases
    >>> adjust_prior(p, prior=[1, 1], new_prior=[99, 1]).round(4)
    array([0.0011, 0.01  , 0.0833])
    """
    columns = as_probabilities(proba)
    places = range(columns.shape[1])
    # the largest factor is one: no product overflows
    factors = class_shares(new_prior, places, "new_prior") / class_shares(prior, places)
    adjusted = _reweighted(columns, factors / factors.max())
    return adjusted[:, 1] if _is_flat(proba) else adjusted


def _is_flat(proba: Any) -> bool:
    return len(proba.shape if hasattr(proba, "shape") else np.shape(proba)) == 1


def _reweighted(proba: Array, factors: Floats) -> Array:
    xp = array_namespace(proba)
    products = proba * xp.asarray(factors, dtype=proba.dtype, device=device(proba))
    total = xp.sum(products, axis=1, keepdims=True)
    # where all of a row's probability has a factor of nothing, its largest is all there is
    certain = xp.astype(proba == xp.max(proba, axis=1, keepdims=True), proba.dtype)
    kept = xp.where(total > 0, products, certain)
    return kept / xp.sum(kept, axis=1, keepdims=True)


class EstimatedPrior(NamedTuple):
    """Class shares of rows without labels; see :func:`estimate_prior`.

    Attributes
    ----------
    prior : ndarray of shape (n_classes,)
        The shares, summing to one.
    standard_error : ndarray of shape (n_classes,)
        Standard errors of the shares; infinite where the probabilities tell nothing of them.
    n_iter : int
        Number of steps.

    See Also
    --------
    estimate_prior : Makes it.
    adjust_prior : Probabilities where the classes have other shares.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision import estimate_prior
    >>> proba = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]])
    >>> found = estimate_prior(proba, prior=[0.5, 0.5])
    >>> found.prior.round(2)
    array([0.64, 0.36])
    """

    prior: Floats
    standard_error: Floats
    n_iter: int


def estimate_prior(
    proba: Array,
    prior: ArrayLike,
    *,
    sample_weight: Any = None,
    tol: float = 1e-10,
    max_iter: int = 10_000,
) -> EstimatedPrior:
    r"""Estimate the shares of the classes among rows without labels.

    The shares maximise the likelihood of the rows,

    .. math:: L(\pi') = \frac{1}{n} \sum_i \log \sum_k \pi'_k \, p_k(x_i) / \pi_k,

    which is concave. Steps are those of the EM algorithm of Saerens et al. (2002), each share
    becoming the mean of the adjusted probabilities, or Newton's where these gain more. They end
    when no shares can have a likelihood higher by more than `tol`, which the largest slope
    :math:`\partial L / \partial \pi'_k - 1` bounds.

    Parameters
    ----------
    proba : array of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities of rows of the new kind, or those of the positive class. They should
        be calibrated: the estimate inherits what is wrong with them.
    prior : array-like of shape (n_classes,)
        Shares of the classes that the classifier was fitted to, up to a factor.
    sample_weight : array-like of shape (n_samples,), default=None
        How often each row counts; None means once.
    tol : float, default=1e-10
        How much likelihood, in the mean of a row, may be missing.
    max_iter : int, default=10000
        Most steps; an error says if they do not suffice.

    Returns
    -------
    estimate : EstimatedPrior
        ``prior``, its ``standard_error`` and ``n_iter``. The standard errors come from the
        curvature of the likelihood and count the rows as a sample; they know nothing of errors in
        the probabilities.

    See Also
    --------
    adjust_prior : The probabilities under the new shares.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision import estimate_prior
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=5000) + 2 * (rng.random(5000) < 0.1)  # a tenth are positive
    >>> p = 1 / (1 + np.exp(2 - 2 * x))  # of a classifier fitted to as many of both
    >>> estimate = estimate_prior(p, prior=[0.5, 0.5])
    >>> estimate.prior.round(3), estimate.standard_error.round(3)
    (array([0.899, 0.101]), array([0.007, 0.007]))
    """
    check_number("tol", tol, above=0.0)
    check_integer("max_iter", max_iter, least=1)
    columns = as_numpy(as_probabilities(proba)).astype(np.float64)
    if columns.shape[0] == 0:
        raise ValueError("proba has no rows; class shares need at least one.")
    weight = check_weights(sample_weight, columns.shape[0])
    if np.any(columns < 0) or np.any(columns.sum(axis=1) <= 0):
        raise ValueError("proba must not be negative, and every row needs a positive entry.")
    ratios = columns / class_shares(prior, range(columns.shape[1]))
    ratios /= ratios.max(axis=1, keepdims=True)
    likelihood = _Likelihood(ratios, weight / weight.sum())
    shares = np.full(columns.shape[1], 1.0 / columns.shape[1])
    for n_iter in range(1, max_iter + 1):
        slopes, curvature = likelihood.derivatives(shares)
        if slopes.max() - 1.0 <= tol:
            errors = _standard_errors(curvature, float(weight.sum()))
            return EstimatedPrior(shares, errors, n_iter - 1)
        shares = likelihood.best([shares * slopes, _newton_point(shares, slopes, curvature)])
    raise ValueError(
        f"The class shares did not settle within max_iter={max_iter} steps: the likelihood may be "
        f"{slopes.max() - 1.0:.1e} short, above tol={tol:g}."
    )


class _Likelihood(NamedTuple):
    """Mean log-likelihood of shares, given each row's likelihood ratios and weight."""

    ratios: Floats
    weight: Floats

    def derivatives(self, shares: Floats) -> tuple[Floats, Floats]:
        """Return slopes, and the negative matrix of second derivatives."""
        relative = self.ratios / (self.ratios @ shares)[:, None]
        return self.weight @ relative, relative.T @ (self.weight[:, None] * relative)

    def best(self, candidates: list[Floats]) -> Floats:
        """Return the shares with the highest likelihood."""
        with np.errstate(divide="ignore"):  # shares that leave a row no probability
            return max(candidates, key=lambda s: float(self.weight @ np.log(self.ratios @ s)))


def _newton_point(shares: Floats, slopes: Floats, curvature: Floats) -> Floats:
    """Return where a Newton step among shares that sum to one leads, or the edge on the way."""
    # classes at the edge that are drawn further outward stay there
    free = (shares > 0) & ((shares > 1e-12) | (slopes > 1.0))
    n = int(free.sum())
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = curvature[np.ix_(free, free)], 0.0
    step = np.zeros_like(shares)
    step[free] = np.linalg.lstsq(system, np.append(slopes[free], 0.0), rcond=None)[0][:n]
    falling = step < 0
    longest = np.min(shares[falling] / -step[falling], initial=1.0)
    point = np.maximum(shares + longest * step, 0.0)
    return point / point.sum()


def _standard_errors(curvature: NDArray[Any], mass: float) -> Floats:
    """Return standard errors of shares that sum to one, from the curvature of a row's mean."""
    n_classes = len(curvature)
    # directions in which shares can change: their sum stays
    directions = np.linalg.svd(np.ones((1, n_classes)))[2][1:].T
    values, vectors = np.linalg.eigh(directions.T @ curvature @ directions)
    known = values > 1e-12 * max(float(np.trace(curvature)), 1.0)
    spread = (directions @ vectors) ** 2
    variance = spread[:, known] @ (1.0 / values[known]) / mass
    untold = spread[:, ~known].sum(axis=1) > 1e-12
    return np.sqrt(np.where(untold, np.inf, variance))
