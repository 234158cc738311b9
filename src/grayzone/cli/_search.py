"""Which model? Nested cross-validation of the cost of decisions, within a time limit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline

from grayzone.cli._candidates import (
    CANDIDATES_BY_NAME,
    Candidate,
    missed_at,
    pipeline,
    preparation,
    row_costs,
)
from grayzone.cli._errors import UserError
from grayzone.cli._schema import Schema
from grayzone.cli._stakes import Stakes

Array = Any
Tell = Callable[[str, int, int], None]  # candidate, folds done, folds in all

FOLDS = 5
MOST_ROWS = 20_000  # to compare models on


@dataclass
class Outcome:
    """How a candidate did on rows that it had not seen, or why it was left out."""

    candidate: Candidate
    left_out: str = ""
    seconds: float = 0.0
    # of each row; under a limit, of each positive one: whether it is missed
    costs: Array = field(default_factory=lambda: np.empty(0))
    decided: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    proba: Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def mean(self) -> float:
        """Mean cost of a decision."""
        return float(self.costs.mean())

    @property
    def error(self) -> float:
        """Its standard error."""
        return float(self.costs.std(ddof=1) / np.sqrt(len(self.costs)))


@dataclass(frozen=True)
class Comparison:
    """All outcomes, the one that was chosen, and the rows they were seen on."""

    outcomes: list[Outcome]
    chosen: Outcome
    rows: Array

    @property
    def best(self) -> Outcome:
        """The one with the least mean cost."""
        return min((o for o in self.outcomes if not o.left_out), key=lambda o: o.mean)


def compare(
    names: Sequence[str],
    table: Any,
    y: Array,
    stakes: Stakes,
    schema: Schema,
    *,
    time_limit: float,
    seed: int,
    tell: Tell,
) -> Comparison:
    """Compare candidates by the cost of their decisions on held-out rows, and choose one.

    The simplest whose mean cost is within one standard error of the least is chosen.
    """
    rows = _some_rows(y, seed)
    data = Folds(table.iloc[rows].reset_index(drop=True), y[rows], schema, seed)
    outcomes: list[Outcome] = []
    end = time.monotonic() + time_limit
    for name in names:
        candidate = CANDIDATES_BY_NAME[name]
        unable = candidate.unable(stakes, len(y))
        if unable:
            outcomes.append(Outcome(candidate, left_out=unable))
            continue
        # what was asked for alone is not left out for lack of time
        limit = end if len(names) > 1 and any(not o.left_out for o in outcomes) else np.inf
        try:
            outcomes.append(_evaluate(candidate, data, stakes, seed, limit, tell))
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            reason = " ".join(str(error).split())[:120]
            if len(names) == 1:
                raise UserError(f"{name} cannot be fitted to this table: {reason}") from error
            outcomes.append(Outcome(candidate, f"it failed: {reason}"))
    able = [outcome for outcome in outcomes if not outcome.left_out]
    if not able:
        raise UserError("No model can do that: " + "; ".join(_reasons(outcomes)) + ".")
    least = min(able, key=lambda outcome: outcome.mean)
    # names are in the order of simplicity
    chosen = next(outcome for outcome in able if outcome.mean <= least.mean + least.error)
    return Comparison(outcomes, chosen, rows)


def _reasons(outcomes: Sequence[Outcome]) -> list[str]:
    return [f"{outcome.candidate.name}: {outcome.left_out}" for outcome in outcomes]


def _some_rows(y: Array, seed: int) -> Array:
    """All rows or, of very many, some of each class."""
    if len(y) <= MOST_ROWS:
        return np.arange(len(y))
    rng = np.random.default_rng(seed)
    chosen = []
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        chosen.append(members[: max(FOLDS, round(MOST_ROWS * len(members) / len(y)))])
    return np.sort(np.concatenate(chosen))


class Folds:
    """Rows in folds; what comes before a model is fitted once for all models that share it."""

    def __init__(self, table: Any, y: Array, schema: Schema, seed: int) -> None:
        self.table, self.y, self.schema, self.seed = table, y, schema, seed
        splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
        self.parts = list(splitter.split(np.zeros(len(y)), y))
        self._prepared: dict[tuple[int, bool], tuple[Any, Any]] = {}

    def prepared(self, k: int, scaled: bool) -> tuple[Any, Any]:
        """Features of the training and the test rows of a fold."""
        if (k, scaled) not in self._prepared:
            train, test = self.parts[k]
            steps = Pipeline(preparation(self.schema, scaled, self.seed))
            inside = steps.fit_transform(self.table.iloc[train], self.y[train])
            outside = steps.transform(self.table.iloc[test])
            self._prepared[k, scaled] = np.asarray(inside), np.asarray(outside)
        return self._prepared[k, scaled]


def _evaluate(
    candidate: Candidate, data: Folds, stakes: Stakes, seed: int, end: float, tell: Tell
) -> Outcome:
    """Fit all but one fold, decide on that one, in turn."""
    y, start = data.y, time.monotonic()
    decided = np.empty(len(y), dtype=np.intp)
    proba = np.full((len(y), len(stakes.classes)), np.nan)
    costs: list[Array] = []
    for k, (train, test) in enumerate(data.parts):
        tell(candidate.name, k, len(data.parts))
        spent = time.monotonic() - start
        # a fold as long as those before it, and all rows once more
        if start + spent * (1 + 2 / k if k else 1) > end:
            needed = f", about {spent / k * (len(data.parts) + 1):.0f} s needed" if k else ""
            return Outcome(candidate, f"no time was left{needed}", spent)
        model = candidate.make(stakes, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            inside, outside = data.prepared(k, candidate.scaled)
            model.fit(inside, y[train])
        proba[test] = model.predict_proba(outside)
        decided[test] = model.predict(outside)
        if stakes.max_fpr is None:
            costs.append(row_costs(stakes, y[test], decided[test]))
        else:
            costs.append(missed_at(stakes.max_fpr, proba[test, 1], y[test] == 1))
    tell(candidate.name, len(data.parts), len(data.parts))
    seconds = time.monotonic() - start
    return Outcome(candidate, "", seconds, np.concatenate(costs).astype(float), decided, proba)


def refit(outcome: Outcome, table: Any, y: Array, stakes: Stakes, schema: Schema, seed: int) -> Any:
    """Fit the chosen model to all rows."""
    model = pipeline(outcome.candidate, stakes, schema, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        return _without_search(model.fit(table, y))


def _without_search(model: Pipeline) -> Pipeline:
    """Leave the search for parameters out: only what it found is used, and saved."""
    name, last = model.steps[-1]
    if hasattr(last, "best_estimator_"):
        model.steps[-1] = (name, last.best_estimator_)
    elif hasattr(getattr(last, "estimator_", None), "best_estimator_"):
        last.estimator_ = last.estimator_.best_estimator_
        last.estimator = clone(last.estimator_)
    return model
