"""The note in a model file: what the model was made for, checked field by field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from math import isfinite, isnan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from grayzone.reporting.parts import Importance, Promise
from grayzone.reporting.parts import Rule as PlainRule
from grayzone.tables.numerals import DECIMALS, THOUSANDS, UNITS
from grayzone.tables.schema import DATE, FORMATS, LARGEST, MOST_VALUES, NUMBER, TEXT, Column, Schema
from grayzone.training.labels import LABEL_TYPES, labels_of
from grayzone.training.labels import TEXT as TEXTS
from grayzone.training.stakes import LIMITS, MOST_CLASSES, UNDECIDED, Stakes

Record = dict[str, Any]
Rule = Callable[[Any], bool]

VERSIONED = ("grayzone", "scikit-learn", "numpy", "pandas")
_LONGEST = 100_000  # characters of a name
MOST_BACKGROUND = 1_000  # rows


class Note(NamedTuple):
    """Columns, stakes, a threshold, circumstances, labels, promise, a few rows, importances."""

    schema: Schema
    stakes: Stakes
    cut: float | None
    about: Record
    label_type: str = TEXTS
    promise: Promise | None = None
    background: Any = None
    importance: tuple[Importance, ...] = ()


def write_note(note: Note) -> str:
    """Return a note as text."""
    return json.dumps(
        {
            "schema": note.schema.dump(),
            "beside": note.schema.dump_beside(),
            "classes": list(note.stakes.classes),
            "costs": note.stakes.costs.tolist(),
            "reject_cost": note.stakes.reject_cost,
            **{name: getattr(note.stakes, name) for name in LIMITS},
            "reach": note.stakes.reach,
            "cost_columns": note.stakes.columns,
            "cut": note.cut,
            "about": note.about,
            "label_type": note.label_type,
            "promise": None if note.promise is None else asdict(note.promise),
            "background": _dumped(note.background, note.schema),
            "importance": [asdict(one) for one in note.importance],
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
    stakes = _stakes(record)
    _check("cut", record["cut"], lambda cut: (cut is None) == (stakes.limit is None))
    labels_of(stakes.classes, record["label_type"])
    schema = Schema.load(record["schema"], record["beside"])
    rows = record["background"]
    _check("background", rows, _maybe(_are_rows_of(schema)))
    return Note(
        schema,
        stakes,
        record["cut"],
        record["about"],
        record["label_type"],
        _promise(record["promise"]),
        None if rows is None else _loaded(rows, schema),
        _importance(record["importance"]),
    )


def _stakes(record: Record) -> Stakes:
    classes, columns = tuple(record["classes"]), record["cost_columns"]
    _check("costs", np.array(record["costs"], dtype=np.float64), _are_costs(len(classes)))
    _check("reach", record["reach"], _maybe(lambda value: len(value) == len(classes)))
    _check("cost_columns", columns, _maybe(lambda value: len(value) == len(classes)))
    limits = {name: record[name] for name in LIMITS}
    kept = [name for name in LIMITS if limits[name] is not None]
    _check("limit", kept, lambda names: len(names) <= (len(classes) == 2))
    rejecting = record["reject_cost"] is not None
    _check("reject_cost", rejecting, lambda r: not r or (UNDECIDED not in classes and not kept))
    return Stakes(
        classes,
        np.array(record["costs"], dtype=np.float64),
        record["reject_cost"],
        **limits,
        reach=None if record["reach"] is None else tuple((a, b) for a, b in record["reach"]),
        columns=None if columns is None else tuple(columns),
    )


def _promise(record: Record | None) -> Promise | None:
    if record is None:
        return None
    rules = tuple(PlainRule(**rule) for rule in record["rules"])
    return Promise(**(record | {"rules": rules}))


def _importance(records: list[Record]) -> tuple[Importance, ...]:
    return tuple(Importance(**one | {"together": tuple(one["together"])}) for one in records)


def _dumped(rows: Any, schema: Schema) -> Record | None:
    """Rows as lists of plain values, by column; gaps are None."""
    if rows is None:
        return None
    return {
        column.name: [None if pd.isna(v) else _plain(v, column) for v in rows[column.name]]
        for column in schema.columns
    }


def _plain(value: Any, column: Column) -> Any:
    if column.kind == NUMBER:
        return float(value)
    return value.isoformat() if column.kind == DATE else str(value)


def _loaded(rows: Record, schema: Schema) -> Any:
    kinds = {NUMBER: np.float64, TEXT: object}
    return pd.DataFrame(
        {
            c.name: pd.to_datetime(pd.Series(rows[c.name], dtype=object), format="ISO8601")
            if c.kind == DATE
            else pd.Series(rows[c.name], dtype=kinds[c.kind])
            for c in schema.columns
        }
    )


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


def _are_some_names(value: Any) -> bool:
    """Whether it is a list of names and gaps, and not of gaps alone."""
    return isinstance(value, list) and any(value) and all(map(_maybe(_is_name), value))


def _are_ranges(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list)
        and len(pair) == 2
        and all(map(_is_positive, pair))
        and pair[0] <= pair[1]
        for pair in value
    )


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
        and all(map(_is_as_learnt, value))
        and _are_names([column["name"] for column in value])
    )


def _are_rows_of(schema: Schema) -> Rule:
    def rule(value: Any) -> bool:
        if not isinstance(value, dict) or list(value) != schema.names:
            return False
        lists = list(value.values())
        return all(isinstance(values, list) for values in lists) and (
            0 < len(lists[0]) <= MOST_BACKGROUND
            and all(len(values) == len(lists[0]) for values in lists)
            and all(all(map(_CELLS[c.kind], value[c.name])) for c in schema.columns)
        )

    return rule


def _is_amount(value: Any) -> bool:
    return _is_number(value) and isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST


def _are_values(value: Any) -> bool:
    texts = isinstance(value, list) and all(map(_is_text, value))
    return texts and len(value) <= MOST_VALUES and len(set(value)) == len(value)


def _is_as_learnt(column: Record) -> bool:
    """Whether what was learnt of a column is of its kind, and counts the same rows."""
    learnt = column["learnt"]
    if learnt is None:
        return True
    low, high = learnt["low"], learnt["high"]
    known = learnt["rows"] - learnt["gaps"]
    counted = learnt["rows"] > 0 and learnt["odd"] <= known
    if low is None or high is None:
        return counted and low == high and (learnt["values"] is None or column["kind"] == TEXT)
    only = column["kind"] == NUMBER and learnt["values"] is None
    return bool(counted and only and low <= high and known > 0)


def _are_rules(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_record(_PLAIN_RULE), value))


def _are_importances(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_record(_IMPORTANCE), value))


def _are_versions(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_name, value.values()))


_COLUMN: dict[str, Rule] = {
    "name": _is_name,
    "kind": lambda value: value in (NUMBER, DATE, TEXT),
    "format": _maybe(lambda value: value in FORMATS),
    "mixed": lambda value: isinstance(value, bool),
    "decimal": lambda value: value in DECIMALS,
    "thousands": lambda value: value in THOUSANDS,
    "unit": lambda value: value in UNITS,
    "missing": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "learnt": _maybe(lambda value: _is_record(_LEARNT)(value)),
}
_LEARNT: dict[str, Rule] = {
    **dict.fromkeys(("rows", "gaps", "odd"), _is_count),
    **dict.fromkeys(("low", "high"), _maybe(_is_amount)),
    "values": _maybe(lambda value: _are_values(value)),
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
    "ids": _are_names,
    "time": _maybe(_is_name),
    "group": _maybe(_is_name),
}
_CELLS: dict[str, Rule] = {
    NUMBER: _maybe(lambda value: _is_amount(value) and abs(value) <= LARGEST),
    DATE: _maybe(_is_text),
    TEXT: _maybe(_is_text),
}
_PLAIN_RULE: dict[str, Rule] = {"name": _is_name, "cost": _is_amount}
_PROMISE: dict[str, Rule] = {
    **{name: _is_amount for name in ("cost", "error", "low", "high")},
    "rows": _is_count,
    "rules": _are_rules,
    "how": _is_text,
}
_IMPORTANCE: dict[str, Rule] = {
    "column": _is_name,
    "cost": _is_amount,
    "error": _is_amount,
    "together": _are_names,
}
_FIELDS: dict[str, Rule] = {
    "schema": lambda value: _are_columns(value) and len(value) > 0,
    "beside": _are_columns,
    "classes": _are_classes,
    "costs": _are_rows,
    "reject_cost": _maybe(_is_positive),
    **{name: _maybe(lambda value: _is_positive(value) and value < 1) for name in LIMITS},
    "reach": _maybe(_are_ranges),
    "cost_columns": _maybe(_are_some_names),
    "cut": _maybe(_is_number),
    "about": _is_record(_ABOUT),
    "label_type": lambda value: value in LABEL_TYPES,
    "promise": _maybe(_is_record(_PROMISE)),
    "background": lambda value: True,  # checked against the columns
    "importance": _are_importances,
}


def circumstances(name: str, **more: Any) -> dict[str, Any]:
    """Return what is told of a model: its name, versions and the time."""
    versions = {}
    for library in VERSIONED:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    made = datetime.now(UTC).isoformat(timespec="seconds")
    roles: dict[str, Any] = {"ids": [], "time": None, "group": None}
    return {"model": name, "versions": versions, "made": made, **roles, **more}
