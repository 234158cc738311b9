"""Log-odds beyond the ends of a gray zone, with a slope of their own on each side.

Scores are log-odds (n, 1) of two classes or (n, K) of more; ends and slopes are (K,). The end of a
class is the log-odds, against all others, at which its rows leave the zone: of two classes those of
``classes[0]`` leave it below p_min, those of ``classes[1]`` above p_max.
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
    places = xp.arange(scores.shape[1], device=device(scores))
    leads = xp.argmax(scores, axis=1)[:, None] == places[None, :]
    others = xp.where(leads, -xp.inf, scores)
    second = xp.max(others, axis=1, keepdims=True)
    rest = second + xp.log(xp.sum(xp.exp(others - second), axis=1, keepdims=True))
    return xp.where(leads, xp.clip(scores - rest - ends, min=0.0), 0.0)


def stretched(scores: Array, ends: Array, slopes: Array) -> Array:
    """Scores whose log-odds beyond the ends have these slopes, and are otherwise as they were."""
    shift = excess(scores, ends) * (moved(slopes, scores) - 1.0)
    return scores + (shift[:, 1:] - shift[:, :1] if scores.shape[1] == 1 else shift)
