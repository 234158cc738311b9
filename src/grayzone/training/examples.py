"""A few rows of the table, and why the kept model decides them as it does."""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.reporting.parts import Example
from grayzone.training.comparison import Fitted, Task
from grayzone.training.reasons import reasons_of
from grayzone.training.stakes import UNDECIDED

Array = Any

REASONS = 3


def examples_of(model: Any, task: Task, fitted: Fitted, threshold: float | None) -> list[Example]:
    """Return the surest rows and one that could go either way, with reasons."""
    chosen = _chosen(fitted.proba, threshold)
    rows = fitted.rows[list(chosen.values())]
    table = task.X.iloc[rows].reset_index(drop=True)
    proba = np.asarray(model.estimator.predict_proba(table), dtype=np.float64)
    decided = task.decided(proba, rows, fitted.cut)
    reasons = reasons_of(model, table, REASONS, decided=decided, seed=task.seed)
    names = [*task.stakes.classes, UNDECIDED]
    of = np.ones(len(rows), dtype=np.intp) if task.stakes.binary else proba.argmax(axis=1)
    return [
        Example(
            what,
            names[decided[k]],
            names[of[k]],
            float(proba[k, of[k]]),
            tuple(text for text in reasons.iloc[k] if isinstance(text, str)),
        )
        for k, what in enumerate(chosen)
    ]


def _chosen(proba: Array, threshold: float | None) -> dict[str, int]:
    """Places of rows by what they are examples of."""
    if proba.shape[1] > 2 or threshold is None:
        sure = proba.max(axis=1)
        return {"the surest row": int(sure.argmax()), "the least sure": int(sure.argmin())}
    p = proba[:, 1]
    odds = np.clip([*p, threshold], 1e-9, 1.0 - 1e-9)
    odds = np.log(odds / (1.0 - odds))
    return {
        "the most probable": int(p.argmax()),
        "near the threshold": int(np.abs(odds[:-1] - odds[-1]).argmin()),
        "the least probable": int(p.argmin()),
    }
