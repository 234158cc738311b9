"""A table in, a decision model and a report out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from grayzone.estimators.facts import facts_of
from grayzone.numerics.pace import RUNAWAY, STOPPED, Deadline
from grayzone.numerics.pitfalls import Pitfall
from grayzone.reporting.page import render
from grayzone.reporting.parts import Compared, Finding
from grayzone.reporting.summary import summarise
from grayzone.tables.errors import UserError, not_among, option, shortened
from grayzone.tables.output import whole_folder
from grayzone.tables.packed import packing
from grayzone.tables.reading import fingerprint, fingerprint_of
from grayzone.tables.schema import Schema
from grayzone.training.account import (
    as_good,
    close_to_best,
    compared_of,
    gray_zone_of,
    limit_of,
    promise_of,
    verdict_of,
    with_caution,
)
from grayzone.training.candidates import AUTO, ENSEMBLE, MODELS
from grayzone.training.comparison import (
    Comparison,
    Fitted,
    Task,
    Tell,
    compare,
    fit,
)
from grayzone.training.copies import copies_of, joined
from grayzone.training.examples import examples_of
from grayzone.training.explanations import Explanations, explain
from grayzone.training.group_limits import limited_in_each, parts_to_limit
from grayzone.training.hygiene import inspect_rows, row_names, stop_if_serious
from grayzone.training.labels import by_place, label_type_of, labels_of
from grayzone.training.model import FILE, DecisionModel
from grayzone.training.note import circumstances
from grayzone.training.request import BEST, SIMPLE, TIME_LIMIT, Request, check_stakes
from grayzone.training.rows import Rows, describe_columns, open_rows
from grayzone.training.segments import broken
from grayzone.training.stakes import CONFIDENCE, LIMITS, Stakes, order_classes, read_costs

__all__ = ["AUTO", "BEST", "MODELS", "TIME_LIMIT", "Request", "Trained", "train"]

FILES = (FILE, "metrics.json", "report.html")
_LEAST_ROOM = 2**24  # bytes
_PACKED = 10  # how much larger a packed table may well be
# Shares of the time limit, counted in work: the ensemble, the families beside it; one model that
# was asked for, or preferred; a copy of it that is explained. The rest is for the report.
_FIRST, _BESIDE, _ALONE, _PREFERRED, _EXPLAINED = 0.5, 0.2, 0.7, 0.15, 0.1
_FITTED_BY = 0.55  # share of the time of the day by which the model that is kept is to be fitted
EXPLANATIONS = "explanations"  # what is told of after the models

Record = dict[str, Any]
Show = Callable[[list[list[str]]], None]  # name, kind, gaps and some values of each column


@dataclass(frozen=True)
class Trained:
    """What came of it."""

    model: DecisionModel
    metrics: Record
    page: str


@dataclass(frozen=True)
class _Kept:
    """The model that is kept, and what it was compared with."""

    task: Task
    fitted: Fitted
    found: Comparison
    notes: list[str]
    simpler: Compared | None


def train(request: Request, tell: Tell, show: Show = lambda lines: None) -> Trained:
    """Read, fit, compare, and write the three files where a folder is given for them.

    What the columns are taken for is shown before anything is fitted.

    Raises
    ------
    UserError
        If the input cannot be used; nothing is written then.
    """
    request.check()
    deadline = Deadline(request.stop_after)
    if request.out is None:
        return _made(request, deadline, tell, show)
    if request.stop_after is not None:
        import skops.io  # noqa: F401 (a second or more, which is to be counted)
    room = _room(request.table)
    with whole_folder(request.out, FILES, request.overwrite, room) as part:
        trained = _made(request, deadline, tell, show)
        trained.model.save(part / FILES[0])
        DecisionModel.load(part / FILES[0])  # what cannot be read is not worth keeping
        metrics = json.dumps(trained.metrics, indent=2) + "\n"
        (part / FILES[1]).write_text(metrics, encoding="utf-8")
        (part / FILES[2]).write_text(trained.page, encoding="utf-8")
    return trained


def _room(table: Any) -> int:
    """Bytes that a model of a table and its report may well take."""
    if not isinstance(table, Path):
        return _LEAST_ROOM
    size = table.stat().st_size if table.is_file() else 0
    return _LEAST_ROOM + size * (_PACKED if packing(table) else 1)


def _made(request: Request, deadline: Deadline, tell: Tell, show: Show) -> Trained:
    """Read, fit and compare; what came of it, and its page."""
    rows = open_rows(
        request.table,
        request.target,
        request.roles,
        decimal=request.decimal,
        sheet=request.sheet,
        missing=request.missing,
    )
    task, notes = _task(request, rows)
    show(describe_columns(task.X, task.schema))
    segments = _segments(request, rows)
    parts = None if request.limit_by is None else parts_to_limit(request, task, segments)
    findings = _findings(request, rows, task)
    kept = _kept(request, task, notes, deadline, tell)
    if parts is not None:
        kept = replace(kept, fitted=limited_in_each(task, kept.fitted, parts))
    tell(EXPLANATIONS, 0, 1)
    budget = request.seconds * _EXPLAINED
    explanations = explain(task, kept.fitted, budget, deadline, segments)
    tell(EXPLANATIONS, 1, 1)
    kept.notes.extend(_stopped(request, kept.found, explanations))
    if task.stakes.limit is not None:
        kept.notes.extend(broken(explanations.segments, task.stakes.limit))
    promise = promise_of(task, kept.fitted)
    compared = compared_of(task, kept.found, kept.fitted, promise)
    limit = limit_of(task, kept.fitted)
    verdict = with_caution(verdict_of(task, kept.fitted, promise, limit), findings)
    if kept.simpler is not None and verdict.deploy:
        kept.notes.append(_simpler(kept.simpler))
    if request.best_possible is not None:
        kept.notes.insert(0, close_to_best(promise, request.best_possible))
    model = DecisionModel(
        kept.fitted.pipeline,
        task.schema,
        task.stakes,
        kept.fitted.cut,
        _about(request, kept),
        label_type_of(rows.target),
        promise,
        explanations.background,
        tuple(explanations.importance),
    )
    known = {"verdict": verdict, "limit": limit, "findings": findings, "compared": compared}
    metrics, page = _account(request, model, kept, explanations, known)
    return Trained(model.with_report(page, metrics), metrics, page)


def _segments(request: Request, rows: Rows) -> Any:
    """Columns whose segments were asked for, learned from or not."""
    unknown = [name for name in request.told_of if name not in rows.table]
    if unknown:
        asked = option("segment" if set(unknown) & set(request.segment) else "limit_by")
        raise UserError(f"{asked}: {not_among(unknown, list(rows.table))}")
    return rows.table[request.told_of] if request.told_of else None


def _task(request: Request, rows: Rows) -> tuple[Task, list[str]]:
    """What is to be learned from what, and what is at stake."""
    classes, why = order_classes(rows.labels, request.positive)
    given = _by_place(request.costs, classes, rows)
    costs, reach, columns = read_costs(given, request.cost_matrix, classes, rows.table)
    told = Stakes(
        classes, costs, request.reject_cost, **request.limits, reach=reach, columns=columns
    )
    request.check_known_after(columns)
    check_stakes(told, rows.labels)
    places = {label: k for k, label in enumerate(classes)}
    codes = np.array([places[label] for label in rows.labels], dtype=np.intp)
    stakes = told.known_before(request.cost_known_after, rows.table, codes)
    notes = []
    if why and request.positive is None:
        another = option("positive")
        notes.append(f"The positive class is {classes[1]!r} ({why}; {another} chooses another).")
    if stakes.never_undecided:
        notes.append(
            f"{option('reject_cost')} {stakes.reject_cost:g} is never worth paying: some "
            "decision is always expected to cost no more, and no row will be left undecided. "
            f"{Pitfall.NEVER_UNDECIDED}"
        )
    X, schema = _features(request, rows, stakes, notes)
    copies = copies_of(X, schema, row_names(X, schema))
    _check_copies(copies, codes, classes)
    kinds = {"group": rows.groups, "copy": copies}
    task = Task(
        X,
        codes,
        stakes,
        schema,
        request.seed,
        told.row_costs(rows.table),
        stakes.row_costs(rows.table),
        joined(rows.groups, copies),
        rows.time,
        " or ".join(kind for kind, numbers in kinds.items() if numbers is not None),
        copies,
    )
    return task, notes


def _check_copies(copies: Any, codes: Any, classes: tuple[str, ...]) -> None:
    """Refuse a class of which there is one row alone, however often."""
    for code, label in enumerate(classes):
        own = () if copies is None else copies[codes == code]
        if len(own) and len(np.unique(own)) == 1:
            raise UserError(
                f"All {len(own):,} rows of {shortened([label])} are copies of one row: there is "
                "nothing to learn from and to test on beside it."
            )


def _by_place(costs: Any, classes: tuple[str, ...], rows: Rows) -> Any:
    """Costs as they were given; of an array, in the order of our classes."""
    if costs is None or isinstance(costs, str | Mapping):
        return costs
    matrix, n = np.asarray(costs, dtype=np.float64), len(classes)
    if matrix.shape != (n, n):
        return matrix
    return by_place(matrix, labels_of(classes, label_type_of(rows.target)))


def _findings(request: Request, rows: Rows, task: Task) -> list[Finding]:
    """What a reader should know of the table.

    Raises
    ------
    UserError
        If something is serious, and was to stop us then.
    """
    found = inspect_rows(
        task.X,
        task.schema,
        task.codes,
        task.stakes.classes,
        request.target,
        time=task.time,
        copies=task.copies,
        priced=[name for name in task.stakes.columns or () if name is not None],
        seed=task.seed,
    )
    findings = [*rows.findings, *found]
    if request.strict:
        stop_if_serious(findings)
    return findings


def _features(request: Request, rows: Rows, stakes: Stakes, notes: list[str]) -> tuple[Any, Schema]:
    """Columns to learn from, those with costs too, unless these are known too late for that."""
    after = [name for name in rows.schema.names if name in request.cost_known_after]
    columns = tuple(column for column in rows.schema.columns if column.name not in after)
    if not columns:
        raise UserError("The table has no column beside target and costs to learn from.")
    if request.cost_known_after:
        names = list(request.cost_known_after)
        notes.append(
            f"Costs known only after the decision: {shortened(names)}. Models do not learn from "
            "them, and decide by their means over the rows of each class."
        )
    priced = list(dict.fromkeys(name for name in stakes.columns or () if name is not None))
    learned = [column.name for column in columns if column.name in priced]
    if learned:
        notes.append(
            f"Models decide by the costs in {shortened(learned)}, and learn from them, too "
            f"({option('cost_known_after')} if they are known only after the decision)."
        )
    left = [name for name in priced if name not in learned]
    beside = Schema.of(rows.table[left], rows.numerals).columns
    return rows.X.drop(columns=after), Schema(columns, beside)


def _kept(request: Request, task: Task, notes: list[str], deadline: Deadline, tell: Tell) -> _Kept:
    """Fit the model that is kept, and put others beside it."""
    name = ENSEMBLE if request.model == AUTO else request.model
    alone = name != ENSEMBLE
    limit, until = request.seconds, time.process_time() + RUNAWAY * request.seconds
    tell(name, 0, 1)
    budget = limit * (_ALONE if alone else _FIRST)
    fitted = fit(task, name, budget, deadline.left(_FITTED_BY))
    tell(name, 1, 1)
    found = compare(task, fitted, budget=limit * _BESIDE, until=until, deadline=deadline, tell=tell)
    notes = [*notes, *_told(task, found)]
    compared = compared_of(task, found, fitted, promise_of(task, fitted))
    simple = None if alone else as_good(compared)
    if simple is not None and request.prefer == SIMPLE and not deadline.over():
        tell(f"{simple.name}, kept", 0, 1)
        fitted = fit(task, simple.name, limit * _PREFERRED)
        tell(f"{simple.name}, kept", 1, 1)
        notes.append(
            f"{simple.name} is kept: it is the simplest model within one standard error of the "
            "ensemble."
        )
        simple = None
    return _Kept(task, fitted, found, notes, simple)


def _stopped(request: Request, found: Comparison, explained: Explanations) -> list[str]:
    """Say what the clock of the day left no time for."""
    left = [outcome.name for outcome in found.outcomes if outcome.left_out == STOPPED]
    left += explained.left_out
    if not left:
        return []
    return [
        f"{option('stop_after', request.stop_after)} left no time for "
        f"{', '.join(left)}; with more time, or on a machine with less to do, the same seed may "
        "give another model."
    ]


def _simpler(c: Compared) -> str:
    """Say that a simpler model would do as well."""
    return (
        f"{c.name}, which is simpler, is as good as the ensemble within one standard error "
        f"({c.measure} {c.difference:+.2g} ± {c.difference_error:.2g}); "
        f"{option('model', c.name)} takes it, {option('prefer', SIMPLE)} takes the "
        "simplest that is as good."
    )


def _told(task: Task, found: Comparison) -> list[str]:
    """What a reader should know of the comparison."""
    notes = []
    if len(found.rows) < len(task.codes) and len(found.outcomes) > 1:
        rare = int(np.argmin(np.bincount(task.codes)))
        there = int(np.sum(task.codes[found.rows] == rare))
        weighted = "; sampled rows are reweighted" * bool(np.ptp(found.weight))
        notes.append(
            f"Models were compared on {len(found.rows):,} of {len(task.codes):,} rows, {there:,} "
            f"of them {task.stakes.classes[rare]!r}{weighted}."
        )
    return notes


def _about(request: Request, kept: _Kept) -> Record:
    in_file = isinstance(request.table, Path)
    return circumstances(
        kept.fitted.name,
        target=request.target,
        rows=len(kept.task.codes),
        data=request.table.name if in_file else "a table in memory",
        sha256=fingerprint(request.table) if in_file else fingerprint_of(kept.task.X),
        seed=request.seed,
        ids=list(request.ids),
        time=request.time,
        group=request.group,
    )


def _account(
    request: Request,
    model: DecisionModel,
    kept: _Kept,
    told: Explanations,
    known: Record,
) -> tuple[Record, str]:
    """Numbers and page, both from decisions on rows that models had not seen."""
    task, fitted, stakes = kept.task, kept.fitted, kept.task.stakes
    parts: Record = {
        **known,
        "promise": model.promise,
        "gray_zone": gray_zone_of(task, fitted),
        "importance": told.importance,
        "effects": told.effects,
        "examples": examples_of(model, task, fitted, model.threshold),
        "segments": told.segments,
    }
    summary = summarise(
        title=f"{request.target}: decisions by {fitted.name}",
        classes=list(stakes.classes),
        costs=stakes.costs,
        proba=fitted.proba,
        codes=task.codes[fitted.rows],
        decided=task.decided(fitted.proba, fitted.rows, fitted.cut),
        reject_cost=stakes.reject_cost,
        facts=facts_of(model.estimator, None),
        row_costs=task.costs_at(fitted.rows),
        weight=None if np.all(fitted.weight == 1.0) else fitted.weight,
        threshold=model.threshold,
        **parts,
        columns=[
            {"name": c.name, "kind": c.kind, "missing": float(task.X[c.name].isna().mean())}
            for c in task.schema.columns
        ],
        usage=_usage(request),
        notes=kept.notes,
    )
    same = ("classes", "costs", "reject_cost", "n_rows", "counts", "always", "confusion")
    metrics = {name: _plain(part) for name, part in parts.items()}
    metrics |= {key: summary[key] for key in (*same, "undecided")} | summary["rates"]
    metrics |= _numbers(model, kept)
    metrics["cost_known_after"] = list(request.cost_known_after)
    return metrics, render(summary)


def _plain(part: Any) -> Any:
    """Return a record, or some, as plain values; None where there is none."""
    if isinstance(part, list):
        return [asdict(record) for record in part]
    return None if part is None else asdict(part)


def _numbers(model: DecisionModel, kept: _Kept) -> Record:
    """Numbers of the decisions, and what they were asked for."""
    stakes = kept.task.stakes
    assert model.promise is not None
    return {
        "mean_cost": model.promise.cost,
        "mean_cost_error": model.promise.error,
        "undecided_between": stakes.undecided_between,
        "threshold": model.threshold,
        "notes": list(kept.notes),
        "about": model.about,
        **{name: getattr(stakes, name) for name in LIMITS},
        "confidence": None if stakes.limit is None else CONFIDENCE,
        "cost_columns": stakes.columns,
        "cost_factors": stakes.reach,
    }


def _usage(request: Request) -> str:
    where = Path("grayzone-model") if request.out is None else request.out
    name = str(request.table) if isinstance(request.table, Path) else "new_rows.csv"
    return (
        "import grayzone\n\n"
        f"model = grayzone.load_model({str(where / FILES[0])!r})\n"
        f"model.predict({name!r})  # labels, for a file or a DataFrame\n"
        f"model.decide({name!r})   # probabilities, expected cost of each action, and more\n"
    )
