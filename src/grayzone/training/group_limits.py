"""A limit on a rate that is kept in each of several groups, by one threshold for all of them.

Of rows that the model was not fitted to, each group has a threshold of its own that keeps the limit
with the confidence asked for; the strictest of them keeps it in every group, and no confidence is
lost by that (:mod:`grayzone.decision.confidence`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from grayzone.decision.confidence import TooFewRowsError
from grayzone.tables.errors import UserError, option
from grayzone.tables.schema import Schema
from grayzone.training.comparison import Fitted, Task
from grayzone.training.request import Request, check_stakes
from grayzone.training.segments import parts_of

Array = Any
Table = Any  # a pandas DataFrame


def parts_to_limit(request: Request, task: Task, columns: Table) -> dict[str, Array]:
    """Return the rows of each group, all of them with rows enough for the limit.

    Raises
    ------
    UserError
        If a group has too few rows.
    """
    by = columns[[request.limit_by]]
    schema = Schema.of(by)
    if not schema.columns:
        raise UserError(f"{option('limit_by')}: {request.limit_by!r} is empty.")
    kind, values = schema.columns[0].kind, schema.apply(by)[request.limit_by]
    parts = parts_of(values, kind)
    labels = np.array(task.stakes.classes)[task.codes]
    for value, rows in parts.items():
        try:
            check_stakes(task.stakes, labels[rows])
        except UserError as error:
            asked = option("limit_by", str(request.limit_by))
            raise UserError(
                f"{asked}: where it is {value!r}, there are too few: {error}"
            ) from error
    return parts


def limited_in_each(task: Task, fitted: Fitted, parts: dict[str, Array]) -> Fitted:
    """Return a fitted model with the threshold that keeps the limit in each group.

    Raises
    ------
    UserError
        If too few rows of a group were held out.
    """
    limit = task.stakes.limit
    assert limit is not None
    held = np.isin(fitted.rows, fitted.held_out)
    positive = task.codes[fitted.rows] == 1
    cuts = []
    for value, rows in parts.items():
        own = held & np.isin(fitted.rows, rows)
        try:
            cuts.append(task.stakes.cut_for(fitted.proba[own, 1], positive[own]))
        except TooFewRowsError as error:
            raise UserError(f"Where the group is {value!r}: {error}") from error
    return replace(fitted, cut=min(cuts) if limit.name == "min_recall" else max(cuts))
