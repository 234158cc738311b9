"""What came of a training, in a few lines: the verdict, what to expect, and where it is close."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]

_LIMITS = {
    "max_fpr": "False positive rate of at most",
    "min_recall": "Recall of at least",
    "min_precision": "Precision of at least",
}


def told(metrics: Record) -> list[str]:
    """Return lines to print above the table of models that were compared.

    Examples
    --------
    >>> from grayzone.training.telling import told
    >>> promise = {"cost": 0.2, "low": 0.1, "high": 0.3, "how": "Seen on 90 rows.", "rules": []}
    >>> told(
    ...     {
    ...         "verdict": {"sentence": "Worth it."},
    ...         "promise": promise,
    ...         "limit": None,
    ...         "reject_cost": None,
    ...         "threshold": None,
    ...         "gray_zone": {"share": 0.04, "low": None, "high": None, "factor": 2.0},
    ...     }
    ... )[0]
    'Worth it.'
    """
    lines = [metrics["verdict"]["sentence"], _promise(metrics["promise"])]
    if metrics["limit"] is not None:
        lines.append(_limit(metrics["limit"]))
    if metrics["threshold"] is not None and metrics["reject_cost"] is None:
        positive = metrics["classes"][1]
        at = f"Decides {positive!r} from a probability of {metrics['threshold']:.4g} on"
        lines.append(f"{at}, by the mean costs." if metrics["cost_known_after"] else f"{at}.")
    if metrics["reject_cost"] is not None:
        lines.append(_undecided(metrics))
    lines.append(_gray_zone(metrics["gray_zone"]))
    return lines


def _promise(promise: Record) -> str:
    rules = ", ".join(f"{rule['name']} {rule['cost']:.4g}" for rule in promise["rules"])
    return (
        f"Mean cost of a decision: {promise['cost']:.4g} ({promise['low']:.4g} to "
        f"{promise['high']:.4g}, 95 %). Without a model: {rules}. {promise['how']}"
    )


def _limit(limit: Record) -> str:
    return (
        f"{_LIMITS[limit['kind']]} {limit['limit']:g}: reached {limit['reached']:.4g} "
        f"({limit['low']:.4g} to {limit['high']:.4g}, 95 %); on new rows like these the limit "
        f"holds with a probability of {limit['confidence']:g}."
    )


def _undecided(metrics: Record) -> str:
    line = f"Undecided: {metrics['undecided']:.1%} of the rows"
    if metrics["undecided_between"] is not None:
        low, high = metrics["undecided_between"]
        line += (
            f", with a probability of {metrics['classes'][1]!r} between {low:.4g} and {high:.4g}"
        )
    return f"{line}; each costs {metrics['reject_cost']:g}."


def _gray_zone(zone: Record) -> str:
    by = (
        "within the ranges given"
        if zone["factor"] is None
        else f"by a factor of {zone['factor']:g}"
    )
    line = f"Gray zone: for {zone['share']:.1%} of the rows the best decision would change if costs"
    line += f" changed {by}"
    if zone["low"] is not None:
        line += f" (probabilities from {zone['low']:.4g} to {zone['high']:.4g})"
    return f"{line}."
