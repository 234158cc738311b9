"""Penalties that select features, or the rows that span a function: their parameters."""

from __future__ import annotations

from typing import Any

from grayzone.numerics.checks import check_choice, check_number
from grayzone.sources.open import refuse_blocks, refuse_elsewhere

PENALTIES = ("l2", "l1", "elasticnet")
_INSTEAD = "An l1 penalty is for NumPy and SciPy arrays in memory; penalty='l2' is for all."


def l1_share(settings: Any) -> float:
    """Share of the penalty that is an l1 norm."""
    if settings.penalty == "elasticnet":
        return float(settings.l1_ratio)
    return 1.0 if settings.penalty == "l1" else 0.0


def may_be_unpenalised(settings: Any) -> bool:
    """Whether C may be infinite."""
    plain = settings.kernel == "linear" and settings.loss == "truncated"
    return plain and settings.penalty == "l2"


def check_selection(settings: Any) -> None:
    """Check ``penalty`` and ``l1_ratio``, and what does not go with them."""
    check_choice("penalty", settings.penalty, PENALTIES)
    check_number("l1_ratio", settings.l1_ratio)
    if settings.penalty == "l2":
        return
    if settings.penalty == "elasticnet" and not 0.0 < settings.l1_ratio <= 1.0:
        raise ValueError(
            f"l1_ratio must be above 0 and at most 1; got {settings.l1_ratio!r}. Without any l1 "
            "norm it is penalty='l2'."
        )
    for name, wanted in (("loss", "truncated"), ("solver", "auto")):
        given = getattr(settings, name)
        if given != wanted:
            raise ValueError(
                f"penalty={settings.penalty!r} is for {name}={wanted!r}; got {name}={given!r}."
            )


def check_carrier(settings: Any, X: Any) -> None:
    """Raise an error where rows are not in NumPy's memory and the penalty wants them there."""
    if settings.penalty != "l2":
        refuse_blocks(settings, X, _INSTEAD)
        refuse_elsewhere(settings, X, _INSTEAD)
