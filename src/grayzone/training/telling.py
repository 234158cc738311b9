"""What came of a training, in a few lines: the verdict, what to expect, and where it is close."""

from __future__ import annotations

from typing import Any

from grayzone.reporting.markup import percent
from grayzone.training.stakes import CONFIDENCE, LIMITS

Record = dict[str, Any]

_LIMITS = {
    "max_fpr": "false positive rate of at most",
    "min_recall": "recall of at least",
    "min_precision": "precision of at least",
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
    ...         "classes": ["no", "yes"],
    ...         "cost_columns": None,
    ...         **dict.fromkeys(("max_fpr", "min_recall", "min_precision")),
    ...         "reject_cost": None,
    ...         "threshold": 0.2,
    ...         "gray_zone": {"share": 0.04, "low": None, "high": None, "factor": 2.0},
    ...     }
    ... )[2]
    "Decides 'yes' from a probability of 0.2 on."
    """
    lines = [metrics["verdict"]["sentence"]]
    if metrics["limit"] is None:
        lines.append(_promise(metrics["promise"]))
    else:  # nobody said what errors cost
        lines.append(metrics["promise"]["how"])
    lines.append(rule_told(metrics))
    if metrics["limit"] is not None:
        lines.append(_limit(metrics["limit"]))
    if metrics["reject_cost"] is not None:
        lines.append(f"Undecided: {percent(metrics['undecided'])} of the rows.")
    lines.append(_gray_zone(metrics["gray_zone"]))
    return lines


def rule_of(model: Any) -> Record:
    """Return what the decisions of a model go by."""
    stakes = model.stakes
    return {
        "classes": list(stakes.classes),
        "reject_cost": stakes.reject_cost,
        **{name: getattr(stakes, name) for name in LIMITS},
        "confidence": None if stakes.limit is None else CONFIDENCE,
        "cost_columns": stakes.columns,
        "threshold": model.threshold,
        "undecided_between": stakes.undecided_between,
    }


def rule_told(record: Record) -> str:
    """Say how decisions follow from probabilities, and which limit they keep.

    Examples
    --------
    >>> from grayzone.training.telling import rule_told
    >>> record = dict.fromkeys(("max_fpr", "min_recall", "min_precision", "cost_columns"))
    >>> record |= {"classes": ["no", "yes"], "threshold": 0.7}
    >>> rule_told(record | {"reject_cost": 0.3, "undecided_between": (0.06, 0.7)}).split(", and")[0]
    "Decides 'yes' from a probability of 0.7 on, 'no' up to 0.06"
    """
    classes, refer = record["classes"], record["reject_cost"]
    if record["cost_columns"]:
        text = "Decides about each row as its own costs say"
    elif record["threshold"] is None:
        text = "Decides for the class of the least expected cost about each row"
    else:
        text = f"Decides {classes[1]!r} from a probability of {record['threshold']:.4g} on"
        if record.get("cost_known_after"):
            text += ", by the mean costs"
        if refer is not None and record["undecided_between"] is not None:
            low = record["undecided_between"][0]
            text += f", {classes[0]!r} up to {low:.4g}, and leaves what is between undecided"
            return f"{text}, at {refer:g} each."
        kept = next((name for name in LIMITS if record[name] is not None), None)
        if kept is not None:
            text += f". Keeps a {_LIMITS[kept]} {record[kept]:g} on new rows with a probability of "
            text += f"{record['confidence']:g}"
        return f"{text}."
    if refer is not None:
        text += f", or leaves it undecided, at {refer:g}, where that is expected to cost less"
    return f"{text}."


def _promise(promise: Record) -> str:
    rules = ", ".join(f"{rule['name']} {rule['cost']:.4g}" for rule in promise["rules"])
    return (
        f"Mean cost of a decision: {promise['cost']:.4g} ({promise['low']:.4g} to "
        f"{promise['high']:.4g}, 95 %). Without a model: {rules}. {promise['how']}"
    )


def _limit(limit: Record) -> str:
    low, high = percent(limit["low"]), percent(limit["high"])
    return f"The limit: {limit['how']} By these alone the rate is between {low} and {high} (95 %)."


def _gray_zone(zone: Record) -> str:
    by = (
        "within the ranges given"
        if zone["factor"] is None
        else f"by a factor of {zone['factor']:g}"
    )
    line = f"Gray zone: for {percent(zone['share'])} of the rows the best decision would change"
    line += f" if costs changed {by}"
    if zone["low"] is not None:
        line += f" (probabilities within {zone['low']:.4g} and {zone['high']:.4g})"
    return f"{line}."
