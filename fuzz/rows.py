"""Rows, labels and weights, made of a small description: *tame* ones, and *hostile* ones.

A description is a dictionary of plain values: the kind of rows, their numbers, the seed, twists
that spoil them, and how labels and weights are written.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = Any
Maker = Callable[[np.random.Generator, int, int, Array], Array]


class Rows(NamedTuple):
    """What a fit is given, in NumPy's memory."""

    X: Array
    y: Array
    weight: Array | None


# ------------------------------------------------------------------------------------------
# Kinds of rows: features (n, d) for the codes of the classes
# ------------------------------------------------------------------------------------------


def _linear(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    return rng.normal(size=(n, d)) + codes[:, None] * rng.normal(size=d)


def _blobs(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    centres = rng.uniform(-6.0, 6.0, size=(int(codes.max()) + 1, d))
    return centres[codes] + rng.normal(size=(n, d))


def _moons(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    X = 0.1 * rng.normal(size=(n, d))
    angle = np.pi * rng.random(n) + np.pi * codes
    X[:, 0] += np.cos(angle) + codes
    X[:, -1] += np.sin(angle)
    return X


def _noise(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    return rng.normal(size=(n, d))


def _grid(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    return np.round(_linear(rng, n, d, codes))


def _rings(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    X = rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) * (1.0 + codes[:, None])


def _heavy(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    return np.exp(2.0 * rng.normal(size=(n, d))) * 100.0


def _denormal(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    return _linear(rng, n, d, codes) * 1e-320


def _zeros(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    return np.zeros((n, d))


def _row_scales(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    return _linear(rng, n, d, codes) * 10.0 ** rng.uniform(-100.0, 100.0, size=(n, 1))


def _column_scales(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    return _linear(rng, n, d, codes) * 10.0 ** rng.uniform(-12.0, 12.0, size=d)


def _far_apart(rng: np.random.Generator, n: int, d: int, codes: Array) -> Array:
    return 1e-3 * rng.normal(size=(n, d)) + 1e4 * codes[:, None]


TAME: dict[str, Maker] = {
    "linear": _linear,
    "blobs": _blobs,
    "moons": _moons,
    "noise": _noise,
    "grid": _grid,
    "rings": _rings,
}
HOSTILE: dict[str, Maker] = {
    "heavy": _heavy,
    "denormal": _denormal,
    "zeros": _zeros,
    "row scales": _row_scales,
    "column scales": _column_scales,
    "far apart": _far_apart,
}


# ------------------------------------------------------------------------------------------
# Twists: each spoils features and codes, by a value
# ------------------------------------------------------------------------------------------


def _first(n: int, share: float) -> slice:
    return slice(0, max(1, int(n * share)))


def _twisted(name: str, value: Any, X: Array, codes: Array) -> tuple[Array, Array]:
    n = len(codes)
    if name == "offset":
        X = X + value
    elif name == "scale":
        X = X * value
    elif name == "column":
        X[:, 0] *= value
    elif name == "constant":
        X[:, 0] = value
    elif name == "copied column":
        X[:, -1] = X[:, 0]
    elif name == "copies":
        X, codes = X[np.arange(n) % value], codes[np.arange(n) % value]
    elif name == "contradictions":
        X[: n // 2] = X[n - n // 2 :]
    elif name == "outlier":
        X[0] = value
    elif name == "cell":
        X[-1, -1] = value
    elif name == "sparse":
        X[np.random.default_rng(n).random(X.shape) < value] = 0.0
    elif name == "rare":
        codes = np.where(np.arange(n) < value, codes, 0)
    elif name == "one class":
        codes = np.zeros_like(codes)
    else:
        raise ValueError(f"There is no twist {name!r}.")
    return X, codes


# Values of each twist that cases draw from.
TWISTS: dict[str, tuple[Any, ...]] = {
    "offset": (1e5, 1e6, 1e8, -1e6),
    "scale": (1e-160, 1e-30, 1e-8, 1e-3, 1e3, 1e8, 1e30, 1e90, 1e160, 1e200),
    "column": (1e-8, 1e6, 1e12),
    "constant": (0.0, 1.0, 1e8),
    "copied column": (None,),
    "copies": (2, 3, 7),
    "contradictions": (None,),
    "outlier": (1e3, 1e8, 1e30),
    "cell": (np.nan, np.inf, 1e50),
    "sparse": (0.5, 0.95),
    "rare": (2, 3, 4),
    "one class": (None,),
}


# ------------------------------------------------------------------------------------------
# Labels and weights
# ------------------------------------------------------------------------------------------

LABELS = ("integers", "strings", "floats", "signs", "booleans", "large")
WEIGHTS = (
    "uniform",
    "counts",
    "some zero",
    "many scales",
    "huge",
    "largest",
    "tiny",
    "one heavy row",
    "none of a class",
    "all zero",
    "negative",
)
TAME_WEIGHTS = WEIGHTS[:3]


def _labels(name: str, codes: Array) -> Array:
    if name == "strings":
        return np.array(["no", "yes", *"abcdefgh"])[codes]
    if name == "floats":
        return codes * 1.0
    if name == "signs":
        return codes * 2 - 1
    if name == "booleans" and codes.max() < 2:
        return codes.astype(bool)
    return codes * 10**9 if name == "large" else codes


def _weights(name: str, rng: np.random.Generator, codes: Array) -> Array:
    n = len(codes)
    weight = rng.uniform(0.5, 2.0, size=n)
    if name == "counts":
        weight = rng.integers(1, 4, size=n).astype(np.float64)
    elif name == "some zero":
        weight[rng.random(n) < 0.3] = 0.0
    elif name == "many scales":
        weight = np.exp(20.0 * rng.normal(size=n))
    elif name in ("huge", "largest", "tiny"):
        weight *= {"huge": 1e150, "largest": 5e307, "tiny": 1e-300}[name]
    elif name == "one heavy row":
        weight[0] = 1e12
    elif name == "none of a class":
        weight[codes == 0] = 0.0
    elif name == "all zero":
        weight[:] = 0.0
    elif name == "negative":
        weight[0] = -1.0
    return weight


# What errors cost for each row: amounts of one class, whole matrices, and hostile ones.
ROW_COSTS = ("amounts", "matrices", "some nothing", "many scales", "huge", "negative", "too few")


def row_costs(name: str, seed: int, y: Array) -> Any:
    """Return ``example_costs`` of a kind: a mapping {label: costs}, or matrices (n, K, K)."""
    rng, classes, n = np.random.default_rng(seed), np.unique(y), len(y)
    if name == "matrices":
        return rng.uniform(0.5, 3.0, size=(n, classes.size, classes.size)) * (
            1.0 - np.eye(classes.size)
        )
    amounts = rng.uniform(0.5, 20.0, size=n - 1 if name == "too few" else n)
    if name == "some nothing":
        amounts[rng.random(n) < 0.3] = 0.0
    elif name == "many scales":
        amounts = np.exp(10.0 * rng.normal(size=n))
    elif name == "huge":
        amounts *= 1e300
    elif name == "negative":
        amounts[0] = -1.0
    each = {label: 1.0 for label in classes.tolist()}
    return {**each, classes.tolist()[-1]: amounts}


# Rewards of rows and actions: of all of them, of the actions taken alone, and hostile ones.
REWARDS = ("all", "logs", "alike", "many scales", "huge", "NaN", "too few")


def row_rewards(name: str, seed: int, y: Array, beside: int) -> Array:
    """Return ``rewards`` of a kind, with so many actions beside the classes."""
    rng, classes = np.random.default_rng(seed), np.unique(y)
    rewards = rng.normal(size=(len(y), classes.size + beside))
    own = np.searchsorted(classes, y)
    if name == "logs":
        rewards = np.zeros_like(rewards)
        rewards[np.arange(len(y)), own] = rng.random(len(y)) / rng.uniform(0.05, 1.0, len(y))
    elif name == "alike":
        rewards[:] = rewards[:, :1]
    elif name == "many scales":
        rewards *= np.exp(10.0 * rng.normal(size=(len(y), 1)))
    elif name == "huge":
        rewards *= 1e300
    elif name == "NaN":
        rewards[0] = np.nan
    return rewards[:-1] if name == "too few" else rewards


# ------------------------------------------------------------------------------------------
# All of it
# ------------------------------------------------------------------------------------------


def make_rows(given: dict[str, Any]) -> Rows:
    """Return the rows of a description.

    Parameters
    ----------
    given : dict
        ``kind``, ``n``, ``d``, ``classes`` and ``seed``; perhaps ``twists`` (pairs of a name and a
        value), ``labels``, ``weights`` and ``single``.
    """
    rng = np.random.default_rng(given["seed"])
    n, d, classes = given["n"], given["d"], given["classes"]
    codes = np.arange(n) % classes
    X = (TAME | HOSTILE)[given["kind"]](rng, n, d, codes)
    with np.errstate(all="ignore"):
        for name, value in given.get("twists", ()):
            X, codes = _twisted(name, value, X, codes)
        if given.get("single"):
            X = X.astype(np.float32)
    weights = given.get("weights")
    return Rows(
        np.ascontiguousarray(X),
        _labels(given.get("labels", "integers"), codes),
        None if weights is None else _weights(weights, rng, codes),
    )


def is_tame(given: dict[str, Any]) -> bool:
    """Whether nothing about these rows is hostile."""
    plain = given.get("weights") in (None, *TAME_WEIGHTS)
    return plain and given["kind"] in TAME and not given.get("twists")


# What new rows are like, for predictions.
NEW_ROWS = ("far", "huge", "largest", "zeros", "tiny", "other precision", "NaN", "infinite")


def new_rows(name: str, X: Array) -> Array:
    """Return rows to predict for: other ones of the same width."""
    some = X[:3].astype(np.float64)
    with np.errstate(all="ignore"):
        if name == "far":
            return some * 1e3 + 1e3
        if name == "other precision":
            single = X.dtype == np.float32
            return some if single else some.astype(np.float32)
    values = {"huge": 1e120, "largest": 1e308, "zeros": 0.0, "tiny": 5e-324}
    values |= {"NaN": np.nan, "infinite": np.inf}
    return np.full_like(some, values[name])
