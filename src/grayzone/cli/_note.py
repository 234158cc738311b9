"""The note in a model file: what the model was made for, checked field by field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np

from grayzone.cli._schema import DATE, FORMATS, NUMBER, TEXT, Schema
from grayzone.cli._stakes import MOST_CLASSES, UNDECIDED, Stakes

Record = dict[str, Any]
Rule = Callable[[Any], bool]

_LONGEST = 100_000  # characters of a name


class Note(NamedTuple):
    """Columns, stakes, a threshold of its own and circumstances."""

    schema: Schema
    stakes: Stakes
    cut: float | None
    about: Record


def write_note(note: Note) -> str:
    """Return a note as text."""
    return json.dumps(
        {
            "schema": note.schema.dump(),
            "classes": list(note.stakes.classes),
            "costs": note.stakes.costs.tolist(),
            "reject_cost": note.stakes.reject_cost,
            "max_fpr": note.stakes.max_fpr,
            "cut": note.cut,
            "about": note.about,
        }
    )


def read_note(text: Any) -> Note:
    """Return what :func:`write_note` was given.

    Raises
    ------
    ValueError
        If a field is missing, is of another type, or is out of range.
    """
    record: Any = json.loads(text) if isinstance(text, str) else None
    _check("note", record, _is_record(_FIELDS))
    stakes = Stakes(
        tuple(record["classes"]),
        np.array(record["costs"], dtype=np.float64),
        record["reject_cost"],
        record["max_fpr"],
    )
    _check("costs", stakes.costs, _are_costs(len(stakes.classes)))
    _check("reject_cost", stakes, lambda s: s.reject_cost is None or UNDECIDED not in s.classes)
    _check("max_fpr", stakes, lambda s: s.max_fpr is None or (s.binary and s.reject_cost is None))
    _check("cut", record["cut"], lambda cut: (cut is None) == (stakes.max_fpr is None))
    return Note(Schema.load(record["schema"]), stakes, record["cut"], record["about"])


def _check(name: str, value: Any, rule: Rule) -> None:
    if not rule(value):
        raise ValueError(f"its note is not that of a model ({name})")


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and not isnan(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and isfinite(value) and value > 0


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_record(fields: dict[str, Rule]) -> Rule:
    """Whether a value has these fields and no others, each as its rule says."""

    def rule(value: Any) -> bool:
        if not isinstance(value, dict) or set(value) != set(fields):
            return False
        for name, own in fields.items():
            _check(name, value[name], own)
        return True

    return rule


def _maybe(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_name, value)) and len(set(value)) == len(value)


def _are_classes(value: Any) -> bool:
    return _are_names(value) and 2 <= len(value) <= MOST_CLASSES


def _are_costs(n_classes: int) -> Rule:
    off = ~np.eye(n_classes, dtype=bool)

    def rule(costs: Any) -> bool:
        return bool(
            costs.shape == off.shape
            and np.isfinite(costs).all()
            and (costs[off] > 0).all()
            and not np.diag(costs).any()
        )

    return rule


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, list) and all(map(_is_number, row)) and len(row) == len(value)
        for row in value
    )


def _are_columns(value: Any) -> bool:
    rule = _is_record(_COLUMN)
    return (
        isinstance(value, list)
        and all(map(rule, value))
        and _are_names([column["name"] for column in value])
        and len(value) > 0
    )


def _are_versions(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_name, value.values()))


_COLUMN: dict[str, Rule] = {
    "name": _is_name,
    "kind": lambda value: value in (NUMBER, DATE, TEXT),
    "format": _maybe(lambda value: value in FORMATS),
    "mixed": lambda value: isinstance(value, bool),
}
_ABOUT: dict[str, Rule] = {
    "model": _is_name,
    "versions": _are_versions,
    "made": _is_name,
    "target": _is_name,
    "rows": _is_count,
    "data": _is_name,
    "sha256": lambda value: isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{64}", value)),
    "seed": _is_count,
}
_FIELDS: dict[str, Rule] = {
    "schema": _are_columns,
    "classes": _are_classes,
    "costs": _are_rows,
    "reject_cost": _maybe(_is_positive),
    "max_fpr": _maybe(lambda value: _is_positive(value) and value < 1),
    "cut": _maybe(_is_number),
    "about": _is_record(_ABOUT),
}
