"""A scorecard as one query of standard SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grayzone.scorecards.effects import Effect


def sql_of(
    base: float,
    effects: Sequence[Effect],
    cuts: Sequence[float],
    decisions: Sequence[Any],
    table: str,
) -> str:
    """Return a query that adds ``points`` and ``decision`` to the rows of a table.

    Where points are not known, such as for a gap that no step fills, both are NULL.
    """
    terms = [_number(base), *map(_case, effects)]
    whole = " +\n    ".join(terms)
    ways = ["WHEN points IS NULL THEN NULL"]
    for cut, label in zip(reversed(cuts), reversed(list(decisions)[1:]), strict=True):
        if cut == -np.inf:
            ways.append(f"WHEN TRUE THEN {_literal(label)}")
        elif cut != np.inf:
            ways.append(f"WHEN points >= {_number(cut)} THEN {_literal(label)}")
    chosen = "\n    ".join([*ways, f"ELSE {_literal(decisions[0])}"])
    return (
        f"SELECT scored.*,\n  CASE\n    {chosen}\n  END AS decision\n"
        f"FROM (\n  SELECT given.*,\n    {whole} AS points\n  FROM {_name(table)} AS given\n"
        ") AS scored;\n"
    )


def _case(effect: Effect) -> str:
    name = _name(effect.column)
    gap = f"WHEN {name} IS NULL THEN {_number(effect.gap)}"
    if effect.levels is not None:
        ways = [
            f"WHEN {name} = {_literal(level)} THEN {_number(value)}"
            for level, value in effect.levels.items()
        ]
        return f"CASE {' '.join([gap, *ways])} ELSE {_number(effect.other)} END"
    pieces = list(zip(effect.offsets, effect.slopes, strict=True))
    ways = [
        f"WHEN {name} < {_number(edge)} THEN {_piece(name, *piece)}"
        for edge, piece in zip(effect.edges, pieces, strict=False)
    ]
    return f"CASE {' '.join([gap, *ways])} ELSE {_piece(name, *pieces[-1])} END"


def _piece(name: str, offset: float, slope: float) -> str:
    return _number(offset) if slope == 0.0 else f"{_number(offset)} + {_number(slope)} * {name}"


def _number(value: float) -> str:
    """Return a number with all its digits, in parentheses where it has a sign."""
    if np.isnan(value):
        return "NULL"
    text = repr(float(value))
    text = text if "e" in text else f"{text}e0"  # a double, not a decimal of few digits
    return f"({text})" if value < 0.0 else text


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return repr(value)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
