"""Log-odds beyond the ends of a gray zone, with a slope and a bend of their own on each side.

Scores are log-odds (n, 1) of two classes or (n, K) of more; ends, slopes and bends are (K,). The
end of a class is the log-odds, against all others, at which its rows leave the zone: of two classes
those of ``classes[0]`` leave it below p_min, those of ``classes[1]`` above p_max. What is d beyond
the end becomes s log(1 + b d) / b, with a slope s > 0 where the zone ends and a bend b >= 0, of
which zero is a straight line: odds grow by the factor (1 + b d)^(s / b).
"""

from __future__ import annotations

from typing import Any

from array_api_compat import device

from grayzone.numerics.backend import moved
from grayzone.numerics.namespace import array_namespace

Array = Any


def excess(scores: Array, ends: Array) -> Array:
    """How far the log-odds of each class (n, K) are beyond its end, zero where they are not.

    Of two classes at most one is beyond; of more only the leading one is looked at.
    """
    xp = array_namespace(scores)
    ends = moved(ends, scores)
    if scores.shape[1] == 1:
        beyond = xp.concat([-scores, scores], axis=1) - ends
        return xp.where(beyond > 0.0, beyond, 0.0)
    leads, rest = _beside(scores)
    return xp.where(leads, xp.clip(scores - rest - ends, min=0.0), 0.0)


def rows_beyond(scores: Array, ends: Array) -> list[tuple[Array, Array]]:
    """Return which rows are beyond the end of each class, and how far."""
    xp, ends = array_namespace(scores), moved(ends, scores)
    if scores.shape[1] == 1:
        columns = [-scores[:, 0] - ends[0], scores[:, 0] - ends[1]]
    else:
        beyond = excess(scores, ends)
        columns = [beyond[:, k] for k in range(scores.shape[1])]
    places = [xp.nonzero(column > 0.0)[0] for column in columns]
    return [(some, xp.take(own, some)) for some, own in zip(places, columns, strict=True)]


def differs(slopes: Array, bends: Array) -> Array:
    """Whether log-odds of each class go on otherwise beyond its end: 1 and 0 change nothing."""
    return (slopes != 1.0) | (bends > 0.0)


def stretched(scores: Array, ends: Array, slopes: Array, bends: Array) -> Array:
    """Scores whose log-odds beyond the ends have these slopes and bends; others are as they were.

    Parameters
    ----------
    scores : array of shape (n, 1) or (n, K)
        Log-odds of two classes, or scores of K.
    ends, slopes, bends : arrays of shape (K,)
        One of each a class; slope 1 and bend 0 change nothing.

    Returns
    -------
    array of shape (n, 1) or (n, K)
        The scores.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.tails import stretched
    >>> scores = np.array([[-3.0], [0.5], [2.0]])  # a zone from -1 to 1
    >>> stretched(scores, np.ones(2), np.array([2.0, 10.0]), np.array([0.0, 10.0]))[:, 0].round(4)
    array([-5.    ,  0.5   ,  3.3979])
    """
    return _replaced(scores, ends, slopes, bends, _bent)


def unstretched(scores: Array, ends: Array, slopes: Array, bends: Array) -> Array:
    """Scores that :func:`stretched` turns into these."""
    return _replaced(scores, ends, slopes, bends, _straightened)


def _replaced(scores: Array, ends: Array, slopes: Array, bends: Array, rule: Any) -> Array:
    """Scores whose distances beyond the ends are replaced.

    The end and the new distance are added up: from large scores nothing may be subtracted. Nor can
    log-odds be added to scores that are too large for them: those of such a row are counted from
    what the others come to, which leaves its probabilities as they are.
    """
    xp = array_namespace(scores)
    ends, slopes, bends = (moved(a, scores) for a in (ends, slopes, bends))
    distance = excess(scores, ends)
    other = (distance > 0.0) & differs(slopes, bends)
    odds = xp.where(other, ends + rule(distance, slopes, bends), 0.0)
    if scores.shape[1] == 1:
        here = xp.any(other, axis=1, keepdims=True)
        return xp.where(here, odds[:, 1:] - odds[:, :1], scores)
    rest = _beside(scores)[1]
    drowns = xp.isfinite(rest) & (xp.abs(rest) > largest_rest(xp.finfo(scores.dtype).eps))
    off = xp.where(drowns & xp.any(other, axis=1, keepdims=True), rest, 0.0)
    return xp.where(other, rest - off + odds, scores - off)


def largest_rest(eps: float) -> float:
    """Score, in such a precision, to which log-odds can be added and keep three digits."""
    return 1e-3 / float(eps)


def leading(scores: Array) -> Array:
    """Which class (n, K) has the largest score of a row."""
    xp = array_namespace(scores)
    places = xp.arange(scores.shape[1], device=device(scores))
    return xp.argmax(scores, axis=1)[:, None] == places[None, :]


def _beside(scores: Array) -> tuple[Array, Array]:
    """Which class leads (n, K), and the logarithm (n, 1) of what the others come to together."""
    xp = array_namespace(scores)
    leads = leading(scores)
    others = xp.where(leads, -xp.inf, scores)
    second = xp.max(others, axis=1, keepdims=True)
    return leads, second + xp.log(xp.sum(xp.exp(others - second), axis=1, keepdims=True))


def _bent(distance: Array, slopes: Array, bends: Array) -> Array:
    xp = array_namespace(distance)
    curved = bends > 0.0
    factors = xp.where(curved, bends, 1.0)
    most = 1e-3 * float(xp.finfo(distance.dtype).max)  # so that no product overflows
    logarithm = xp.log1p(factors * xp.clip(distance, max=most)) / factors
    return slopes * xp.where(curved, logarithm, distance)


def _straightened(distance: Array, slopes: Array, bends: Array) -> Array:
    xp = array_namespace(distance)
    curved, straight = bends > 0.0, distance / slopes
    factors = xp.where(curved, bends, 1.0)
    return xp.where(curved, xp.expm1(xp.where(curved, factors * straight, 0.0)) / factors, straight)
