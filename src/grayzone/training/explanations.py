"""What a kept model goes by: columns that matter, their effects, and where decisions cost most."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grayzone.numerics.pace import Deadline
from grayzone.reporting.parts import Effect, Importance, Segment
from grayzone.tables.errors import shortened
from grayzone.tables.schema import Schema
from grayzone.training.candidates import FAMILIES, pipeline
from grayzone.training.comparison import Fitted, Task
from grayzone.training.effects import effects_of
from grayzone.training.held_out import held_out_copy
from grayzone.training.importance import JUDGED_BY, WORK, importance_of
from grayzone.training.segments import segments_of
from grayzone.training.typical import typical_rows

MOST_EFFECTS = 6  # columns whose effects are shown
_COPIED_BY = 0.75  # share of the time of the day by which the copy is to be fitted
_WHOLE_WORK = 6.0  # seconds of budget from which on importance takes all rows that are worth it


@dataclass(frozen=True)
class Explanations:
    """Parts of a report, and rows that reasons are told against."""

    importance: list[Importance]
    effects: list[Effect]
    segments: list[Segment]
    background: Any
    left_out: list[str] = field(default_factory=list)


def explain(
    task: Task, fitted: Fitted, budget: float, deadline: Deadline, by: Any = None
) -> Explanations:
    """Explain a fitted model on rows that a copy of it has not seen.

    ``budget`` are seconds of work for that copy, ``by`` a table of the columns whose segments are
    told of; None lets the decisions choose. What the ``deadline`` leaves no time for is named.
    """
    split = fitted.folds[-1] if task.time is not None or task.groups is not None else None
    options: dict[str, Any] = {}
    if fitted.name not in FAMILIES:
        options = {"budget": budget, "stop_after": deadline.left(_COPIED_BY)}
    # for the order of rows: a limit would take more of them than a copy is fitted to
    free = task.stakes.without_limits()
    like = pipeline(fitted.name, free, task.seed, **options)
    copy = held_out_copy(like, task.X, task.codes, split=split, groups=task.groups, seed=task.seed)
    importance = importance_of(
        copy.estimator,
        task.X.iloc[copy.rows],
        task.codes[copy.rows],
        task.stakes,
        cut=fitted.cut,
        costs=task.costs_at(copy.rows),
        known=task.known_at(copy.rows),
        seed=task.seed,
        work=round(WORK * min(1.0, budget / _WHOLE_WORK)),
        deadline=deadline,
    )
    left_out = _left_out(task, importance) if deadline.over(JUDGED_BY) else []
    matter = [found.column for found in importance if found.cost > 0.0][:MOST_EFFECTS]
    matter = [] if left_out else matter
    table, schema = (task.X, task.schema) if by is None else (by, Schema.of(by))
    decided = task.decided(fitted.proba, fitted.rows, fitted.cut)
    return Explanations(
        importance,
        effects_of(fitted.pipeline, task.X, task.schema, task.stakes, matter, seed=task.seed),
        segments_of(
            schema.apply(table).iloc[fitted.rows].reset_index(drop=True),
            schema,
            task.codes[fitted.rows],
            decided,
            task.stakes,
            columns=None if by is None else schema.names,
            costs=task.costs_at(fitted.rows),
            weight=fitted.weight,
        ),
        typical_rows(fitted.pipeline, task.X, task.schema, seed=task.seed),
        left_out,
    )


def _left_out(task: Task, importance: list[Importance]) -> list[str]:
    """Name what a report has of all columns when there is time for it."""
    judged = {name for one in importance for name in (one.column, *one.together)}
    others = [str(name) for name in task.X.columns if str(name) not in judged]
    return [*([f"the importance of {shortened(others)}"] if others else []), "effects of values"]
