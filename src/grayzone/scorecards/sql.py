"""A scorecard as one query of standard SQL."""

from __future__ import annotations

import sys
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
    # Each way repeats the sum: a name for it could be that of a column, which would decide instead.
    whole = "(" + " +\n    ".join([_number(base), *map(_case, effects)]) + ")"
    ways = []
    for cut, label in zip(reversed(cuts), reversed(list(decisions)[1:]), strict=True):
        if cut == -np.inf:
            ways.append(f"WHEN {whole} IS NOT NULL THEN {_literal(label)}")
        elif cut != np.inf:
            ways.append(f"WHEN {whole} >= {_number(cut)} THEN {_literal(label)}")
    ways.append(f"WHEN {whole} IS NOT NULL THEN {_literal(decisions[0])}")
    chosen = "\n    ".join(ways)
    taken = {effect.column.casefold() for effect in effects}
    points, decision = (_free(name, taken) for name in ("points", "decision"))
    return (
        f"SELECT given.*,\n    {whole} AS {points},\n  CASE\n    {chosen}\n  END AS {decision}\n"
        f"FROM {_name(table)} AS given;\n"
    )


def _free(name: str, taken: set[str]) -> str:
    """Return a name that no column of the model has; others of the table are not known."""
    return name if name not in taken else _free(f"{name}_", taken)


def _case(effect: Effect) -> str:
    # with the table's name: without, SQLite takes the name of no column for a text
    name = f"given.{_name(effect.column)}"
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
        return _text(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return repr(value)


def _text(value: str) -> str:
    """Return a text that is the same whether a database takes backslashes as escapes or not."""
    quoted = "'" + _checked(value).replace("'", "''") + "'"
    if "\\" not in value:
        return quoted
    other = next(c for c in map(chr, range(ord("!"), sys.maxunicode)) if c not in value + "'\\")
    # one backslash of two, or of the one that two stand for
    return f"REPLACE({quoted.replace(chr(92), other)}, '{other}', SUBSTR('\\\\', 1, 1))"


def _name(name: str) -> str:
    return '"' + _checked(name).replace('"', '""') + '"'


def _checked(text: str) -> str:
    """Return a text that a database can read."""
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError(
            f"{text!r} cannot be written in SQL: it holds a character that no text in a database "
            "may have (NUL, or half of a pair). Rename it in the table that the model learns from."
        )
    return text
