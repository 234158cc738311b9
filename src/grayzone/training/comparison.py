"""Models and what they say of rows that they have not seen: the one that is kept, and others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, process_time
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from grayzone.decision.limits import Target, cut_at
from grayzone.numerics.pace import STOPPED, Deadline, slowness
from grayzone.tables.errors import UserError, option
from grayzone.tables.schema import Schema
from grayzone.training.candidates import ENSEMBLE, FAMILIES, decider, preparation
from grayzone.training.folds import Fold, folds_of
from grayzone.training.samples import some_rows
from grayzone.training.stakes import Stakes

Array = Any
Tell = Callable[[str, int, int], None]  # model, parts done, parts in all

FOLDS = 5
MOST_ROWS = 5_000  # that families are compared on
REFER = "refer everyone"
_COMPARED_BY = 0.65  # share of the time of the day by which the comparison ends


@dataclass(frozen=True)
class Task:
    """A table that is ready to be learned from, and what is at stake.

    ``costs`` (n, K, K) are those of the rows, where they have their own, ``known`` the same as far
    as they are known when decisions are made. Rows of one of the ``groups`` are on one side of
    every split; ``together`` says what these are, ``copies`` numbers the copies among them.
    """

    X: Any
    codes: Array
    stakes: Stakes
    schema: Schema
    seed: int
    costs: Array | None = None
    known: Array | None = None
    groups: Array | None = None
    time: Array | None = None
    together: str = ""
    copies: Array | None = None
    _features: dict[bool, tuple[Any, Any]] = field(default_factory=dict)

    def prepared(self, name: str) -> tuple[list[tuple[str, Any]], Any]:
        """Fitted steps before a model, and the features of all rows; models share them.

        They know no labels: that they have seen all rows tells a model nothing of those held out.
        """
        kind = name in FAMILIES
        if kind not in self._features:
            steps = Pipeline([preparation(name)])
            with _quiet():
                features = steps.fit_transform(self.X)
            self._features[kind] = steps.steps, features
        return self._features[kind]

    def costs_at(self, rows: Array) -> Array | None:
        """Costs of some rows, where rows have their own."""
        return None if self.costs is None else self.costs[rows]

    def known_at(self, rows: Array) -> Array | None:
        """Costs of some rows by which decisions about them are made."""
        return None if self.known is None else self.known[rows]

    def decided(self, proba: Array, rows: Array, cut: float | None = None) -> Array:
        """What is decided of some rows, given their probabilities."""
        return self.stakes.decide(proba, self.known_at(rows), cut)

    def possible(self, rows: Array) -> Array:
        """What deciding for each class would cost of some rows."""
        return self.stakes.possible(self.codes[rows], self.costs_at(rows))

    def paid(self, proba: Array, rows: Array, cut: float | None = None) -> Array:
        """What these decisions cost."""
        decided = self.decided(proba, rows, cut)
        return self.stakes.paid(self.codes[rows], decided, self.costs_at(rows))


@dataclass(frozen=True)
class Fitted:
    """A model that is fitted, and what is known of it by rows that it had not seen.

    Attributes
    ----------
    name : str
        What it is called.
    pipeline : Pipeline
        From the table to decisions.
    folds : list of pairs of arrays
        Rows that were learned from, and decided on, to know that.
    held_out : array of int
        Rows that nothing was fitted to, for a limit.
    rows, weight, proba : arrays
        Rows that are known, how many rows each stands for, and their probabilities.
    members : dict
        Probabilities by the ensemble's members, each alone.
    left_out : dict
        Members that are not there, with the reason.
    cut : float or None
        Probability from which on to decide for the positive class, under a limit.
    seconds : float
        How long it took.
    """

    name: str
    pipeline: Pipeline
    folds: list[Fold]
    held_out: Array
    rows: Array
    weight: Array
    proba: Array
    members: dict[str, Array]
    left_out: dict[str, str]
    cut: float | None
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """How a model did on the rows that all are compared on, or why it was left out.

    ``losses`` are what its decisions cost; under a limit whether positive rows are missed, or
    negative ones alarmed, at the limit. ``seconds`` are None where nothing was fitted for it alone.
    """

    name: str
    losses: Array | None
    seconds: float | None = None
    left_out: str = ""


@dataclass(frozen=True)
class Comparison:
    """All outcomes, the kept model's first, with the rows they were seen on and their weights."""

    outcomes: list[Outcome]
    rows: Array
    weight: Array


def fit(task: Task, name: str, budget: float, stop_after: float | None = None) -> Fitted:
    """Fit a model to the table, within a budget of seconds, counted in work.

    After ``stop_after`` seconds of the day no further member of the ensemble is fitted.

    Raises
    ------
    UserError
        If it cannot be fitted to this table.
    """
    start = monotonic()
    unable = FAMILIES[name].unable(task.stakes) if name in FAMILIES else ""
    if unable:
        raise UserError(f"{option('model', name)}: {unable}.")
    steps, features = task.prepared(name)
    rows, weight = some_rows(task.codes, _most_rows(task, name, budget), task.seed)
    options = {} if name in FAMILIES else {"budget": budget, "stop_after": stop_after}
    model = decider(name, task.stakes, task.seed, cv=_cv(task, rows), **options)
    try:
        _learn(model, task, features, rows, weight)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{name} cannot be fitted to this table: {reason}") from error
    known = np.flatnonzero(np.isfinite(model.cross_fitted_proba_[:, 0]))
    fitted = Fitted(
        name=name,
        pipeline=Pipeline([*steps, ("decide", model)]),
        folds=[(rows[train], rows[test]) for train, test in model.folds_],
        held_out=rows[model.held_out_],
        rows=rows[known],
        weight=model.row_weight_[known],
        proba=model.cross_fitted_proba_[known],
        members={k: proba[known] for k, proba in model.member_proba_.items()},
        left_out=dict(model.left_out_),
        cut=None if task.stakes.limit is None else model.threshold_,
        seconds=monotonic() - start,
    )
    # a model goes elsewhere, its rows are many, and what was left of the day is no part of it
    model.set_params(cv=FOLDS, stop_after=None).forget_rows()
    return fitted


def _cv(task: Task, rows: Array) -> Any:
    """Folds in time where rows have times; otherwise the model shares rows, or groups, out."""
    if task.time is None:
        return FOLDS
    folds = folds_of(
        task.codes, FOLDS, task.seed, task.groups, task.time, classes=task.stakes.classes
    )
    return _within(folds, rows)


def _learn(model: Any, task: Task, features: Any, rows: Array, weight: Array) -> None:
    part = features.iloc[rows] if hasattr(features, "iloc") else features[rows]
    with _quiet():
        model.fit(
            part,
            task.codes[rows],
            sample_weight=None if np.all(weight == 1.0) else weight,
            groups=None if task.groups is None else task.groups[rows],
        )


def _most_rows(task: Task, name: str, budget: float) -> int:
    """Return how many rows a family can be fitted to within a budget; the ensemble sees to it."""
    n, limit = len(task.codes), task.stakes.limit
    # how many are right among those decided for takes rows as they come
    if name not in FAMILIES or (limit is not None and limit.name == "min_precision"):
        return n
    while n > MOST_ROWS and _work(task, name, n) > budget:
        n = max(MOST_ROWS, n // 2)
    return n


def _work(task: Task, name: str, n_rows: int) -> float:
    """Seconds that a family takes to be fitted to all folds but one in turn, and to all rows."""
    shape = n_rows, task.prepared(name)[1].shape[1], len(task.stakes.classes)
    return slowness() * (FOLDS + 1) * FAMILIES[name].seconds(*shape)


def _within(folds: list[Fold], rows: Array) -> list[Fold]:
    """Folds of some of the rows, by their places among these."""
    return [
        (np.flatnonzero(np.isin(rows, train)), np.flatnonzero(np.isin(rows, test)))
        for train, test in folds
    ]


def compare(
    task: Task,
    kept: Fitted,
    *,
    budget: float,
    until: float,
    deadline: Deadline,
    tell: Tell,
) -> Comparison:
    """Put decisions without a model, the ensemble's members and families beside a model.

    All are judged on the same rows, and models in the same folds.

    ``budget`` are seconds of work for the families, by fixed estimates: the same ones are compared
    on a busy machine. A runaway is stopped when this process has used the time ``until``, and
    nothing is begun that would take longer than two thirds of the deadline.
    """
    learned, stands_for = _learned(task, kept)
    judged = np.isin(learned, np.concatenate([test for _, test in kept.folds]))
    rows, weight = learned[judged], stands_for[judged]
    some = np.searchsorted(kept.rows, rows)
    outcomes = [Outcome(kept.name, _losses(task, kept.proba[some], rows, weight), kept.seconds)]
    if task.stakes.limit is None:
        rules = rules_of(task, rows)
        outcomes += [Outcome(name, costs) for name, costs in rules.items()]
    if kept.name != ENSEMBLE:
        return Comparison(outcomes, rows, weight)
    for name, proba in kept.members.items():
        outcomes.append(Outcome(name, _losses(task, proba[some], rows, weight)))
    outcomes += [Outcome(name, None, left_out=why) for name, why in kept.left_out.items()]
    for name in FAMILIES:
        why_not = _why_not(task, name, len(learned), budget, until, deadline)
        if why_not:
            outcomes.append(Outcome(name, None, left_out=why_not))
            continue
        tell(name, 0, 1)
        outcomes.append(_family(task, name, kept.folds, learned, stands_for, rows))
        if not outcomes[-1].left_out:
            budget -= _work(task, name, len(learned))
            tell(name, 1, 1)
    return Comparison(outcomes, rows, weight)


def _learned(task: Task, kept: Fitted) -> tuple[Array, Array]:
    """Return rows that families learn from, of those that the kept model did, and weights.

    Among them are rows that no fold decides on, as the first ones in time.
    """
    rows = np.unique(np.concatenate([part for fold in kept.folds for part in fold]))
    some, weight = some_rows(task.codes[rows], MOST_ROWS, task.seed)
    of_class = np.ones(len(task.stakes.classes))
    of_class[task.codes[kept.rows]] = kept.weight
    return rows[some], weight * of_class[task.codes[rows[some]]]


def _why_not(
    task: Task, name: str, n_rows: int, budget: float, until: float, deadline: Deadline
) -> str:
    """Say why a family is not to be fitted to so many rows; nothing where it is."""
    unable = FAMILIES[name].unable(task.stakes)
    if unable:
        return unable
    needed = _work(task, name, n_rows)
    if needed > budget:
        return f"about {needed:.2g} s of work, {budget:.2g} s left"
    if not deadline.allows(needed, _COMPARED_BY):
        return STOPPED
    if process_time() > until:
        return "the clock stopped it: all before took far too long"
    return ""


def _family(
    task: Task, name: str, folds: list[Fold], learned: Array, weight: Array, rows: Array
) -> Outcome:
    """Fit a family in these folds and judge it on some rows, or say why it cannot be fitted."""
    start = monotonic()
    # a limit is looked at afterwards, as of all others: nothing is held out for it
    model = decider(name, task.stakes.without_limits(), task.seed, cv=_within(folds, learned))
    try:
        _learn(model, task, task.prepared(name)[1], learned, weight)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        reason = " ".join(str(error).split())[:120]
        return Outcome(name, None, left_out=f"it failed: {reason}")
    judged = np.isin(learned, rows)
    losses = _losses(task, model.cross_fitted_proba_[judged], rows, weight[judged])
    return Outcome(name, losses, monotonic() - start)


def rules_of(task: Task, rows: Array) -> dict[str, Array]:
    """What decisions that need no model cost of each row."""
    costs = task.costs_at(rows)
    rules = {
        f"always {label}": task.stakes.paid(task.codes[rows], np.full(len(rows), k), costs)
        for k, label in enumerate(task.stakes.classes)
    }
    if task.stakes.reject_cost is not None:
        rules[REFER] = np.full(len(rows), task.stakes.reject_cost)
    return rules


def _losses(task: Task, proba: Array, rows: Array, weight: Array) -> Array:
    """What decisions about rows cost; under a limit, which are wrong where the rate is just it.

    Then rows of the other class, of which the limit says nothing, are not counted: NaN.
    """
    limit = task.stakes.limit
    if limit is None:
        return task.paid(proba, rows)
    positive = task.codes[rows] == 1
    cut = cut_at(Target(limit.name, limit.value), proba[:, 1], positive, weight, fresh=False)
    alarms = proba[:, 1] >= cut
    counted, wrong = (~positive, alarms) if limit.name == "min_recall" else (positive, ~alarms)
    return np.where(counted, wrong.astype(float), np.nan)


@contextmanager
def _quiet() -> Iterator[None]:
    """Models are judged by what they say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield
