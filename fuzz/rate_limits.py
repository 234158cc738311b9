"""What must hold of a classifier that keeps limits on its rates, or refuses to."""

import re
from collections.abc import Iterator
from math import ceil, log, log1p
from typing import Any

import numpy as np

from fuzz.carriers import taken
from fuzz.rows import Rows

Array = Any
Broken = tuple[str, str]  # a law, and what was seen

_LIMITS = ("max_fpr", "min_recall", "min_precision")
_TOO_FEW = re.compile(r"takes (?:at least|more than) (\d+) ")
_SEQUENCES = 4  # of tests for a precision, which share the error


def broken_by_fit(model: Any, rows: Rows, scores: Array, decided: Array) -> Iterator[Broken]:
    """Yield what is wrong with a fitted one.

    Parameters
    ----------
    model : RateLimitClassifier
        A fitted one.
    rows : Rows
        What it was fitted to.
    scores : array of shape (n,) or (n, K)
        Probabilities of these rows, or decision values.
    decided : array of shape (n,)
        Their labels, as decided.
    """
    rates, threshold = model.rates_, model.threshold_
    held_out = {"max_fpr": rates["fpr"], "min_recall": rates["recall"]}
    held_out["min_precision"] = rates["precision"]
    for name, limit in _limits(model).items():
        kept = held_out[name] <= limit if name == "max_fpr" else held_out[name] >= limit
        if not kept:
            yield "limit broken", f"{name}={limit:g}, on held-out rows {held_out[name]:g}."
    low, high = model.threshold_range_
    if not low <= threshold <= high:
        yield "limit broken", f"The threshold {threshold:g} is not within {low:g} to {high:g}."
    k = _positive(model)
    own = scores[:, k] if scores.ndim == 2 else scores * (1.0 if k == 1 else -1.0)
    # rows are judged in double precision: scores in single precision may round to the other side
    sure = np.abs(own.astype(np.float64) - threshold) > 1e-6 * (own.dtype == np.float32)
    reached = own.astype(np.float64) >= threshold
    if np.any(sure & (reached != (decided == taken(model.classes_)[k]))):
        yield "dear decisions", "A decision is not what the threshold says."
    for name, needed in _needed(model).items():
        there = _rows_for(name, model, rows)
        if there < needed:
            yield "limit without rows", f"{name} takes {needed} rows; there are {there} at most."


def broken_on_training_rows(model: Any, rows: Rows, decided: Array) -> Iterator[Broken]:
    """Yield which limits do not hold on the rows that were fitted, without a statement of others.

    Parameters
    ----------
    model : TightBoundLogisticRegression
        A fitted one, whose rows were all fitted.
    rows : Rows
        What it was fitted to.
    decided : array of shape (n,)
        Their labels, as decided.
    """
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight.astype(np.float64)
    weight = weight / np.max(weight)
    positive, found = (labels == taken(model.classes_)[1] for labels in (rows.y, decided))
    of = {"max_fpr": (found, ~positive), "min_recall": (found, positive)}
    of["min_precision"] = (positive, found)
    for name, limit in _limits(model).items():
        right, among = of[name]
        whole = float(weight @ among)
        rate = float(weight @ (right & among)) / whole if whole > 0.0 else limit
        if not (rate <= limit + 1e-9 if name == "max_fpr" else rate >= limit - 1e-9):
            yield "limit broken", f"{name}={limit:g}, on the training rows {rate:g}."


def broken_by_refusal(model: Any, refusal: str) -> Iterator[Broken]:
    """Yield what is wrong with a refusal for want of rows: it names how many it takes."""
    if "that the fit has not seen" not in refusal:
        return
    told = _TOO_FEW.search(refusal)
    if told is None or int(told[1]) not in _needed(model).values():
        yield "rows needed", f"One of {_needed(model)} is expected in: {refusal}"


def _limits(model: Any) -> dict[str, float]:
    given = {name: getattr(model, name) for name in _LIMITS}
    return {name: value for name, value in given.items() if value is not None}


def _needed(model: Any) -> dict[str, int]:
    """Return how many rows each limit takes: with fewer, all on the right side say too little."""
    limits = _limits(model)
    share = (1.0 - model.confidence) / len(limits)

    def fewest(right: float, error: float) -> int:
        return ceil(log(error) / log(right) - 1e-9)

    needed = {}
    for name, limit in limits.items():
        if name == "min_precision":
            needed[name] = fewest(limit, share / _SEQUENCES)
        else:
            rate = limit if name == "max_fpr" else 1.0 - limit
            needed[name] = ceil(log(share) / log1p(-rate) - 1e-9)
    return needed


def _positive(model: Any) -> int:
    classes = taken(model.classes_).tolist()
    return 1 if model.positive is None else classes.index(model.positive)


def _rows_for(name: str, model: Any, rows: Rows) -> int:
    """Return how many rows there are that a limit is about, were all of them held out."""
    used = np.ones(len(rows.y), dtype=bool) if rows.weight is None else rows.weight > 0.0
    positive = rows.y == taken(model.classes_)[_positive(model)]
    about = {"max_fpr": ~positive, "min_recall": positive, "min_precision": positive | ~positive}
    return int(np.sum(used & about[name]))
