"""A table in, a decision model and a report out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from pathlib import Path
from typing import Any

import numpy as np

from grayzone.cli._candidates import CANDIDATES_BY_NAME
from grayzone.cli._errors import UserError, shortened
from grayzone.cli._output import whole_folder
from grayzone.cli._schema import Schema
from grayzone.cli._search import Comparison, Tell, compare, refit
from grayzone.cli._stakes import UNDECIDED, Stakes, order_classes, parse_costs, read_target
from grayzone.cli._tables import fingerprint, read_table
from grayzone.cli.model import ERROR, FILE, DecisionModel, circumstances, cut_for
from grayzone.decision.confidence import fewest_rows
from grayzone.estimators.facts import facts_of
from grayzone.reporting.page import render
from grayzone.reporting.summary import COST, MISSED, Compared, summarise
from grayzone.sources.split import split_rows

FILES = (FILE, "metrics.json", "report.html")
AUTO = "auto"
MODELS = (AUTO, *CANDIDATES_BY_NAME)
_LEAST_ROWS = 20
HELD_OUT = 0.3  # share of the rows that a limit on the false positive rate takes
_LEAST_ROOM = 2**24  # bytes
_PACKED = 10  # how much larger a packed table may well be

Record = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    table: Path
    target: str
    out: Path
    positive: str | None = None
    costs: str | None = None
    cost_matrix: Path | None = None
    reject_cost: float | None = None
    max_fpr: float | None = None
    model: str = AUTO
    drop: tuple[str, ...] = ()
    time_limit: float = 300.0
    seed: int = 0
    overwrite: bool = False


@dataclass(frozen=True)
class Trained:
    """What came of it."""

    model: DecisionModel
    metrics: Record
    notes: list[str]


def train(request: Request, tell: Tell) -> Trained:
    """Read, compare, fit, and write the three files.

    Raises
    ------
    UserError
        If the input cannot be used; nothing is written then.
    """
    _check_request(request)
    with whole_folder(request.out, FILES, request.overwrite, _room(request.table)) as part:
        trained, page = _made(request, tell)
        trained.model.save(part / FILES[0])
        DecisionModel.load(part / FILES[0])  # what cannot be read is not worth keeping
        metrics = json.dumps(trained.metrics, indent=2) + "\n"
        (part / FILES[1]).write_text(metrics, encoding="utf-8")
        (part / FILES[2]).write_text(page, encoding="utf-8")
    return trained


def _room(table: Path) -> int:
    """Bytes that a model of a table and its report may well take."""
    size = table.stat().st_size if table.is_file() else 0
    return _LEAST_ROOM + size * (_PACKED if table.suffix.lower() == ".gz" else 1)


def _made(request: Request, tell: Tell) -> tuple[Trained, str]:
    """Read, compare and fit; what came of it, and its page."""
    table = read_table(request.table)
    labels, known = read_target(table, request.target)
    notes: list[str] = []
    if not known.all():
        notes.append(f"{int((~known).sum()):,} rows without a target were left out.")
    classes, why = order_classes(labels, request.positive)
    stakes = Stakes(
        classes,
        parse_costs(request.costs, request.cost_matrix, classes),
        request.reject_cost,
        request.max_fpr,
    )
    _check_stakes(stakes, labels)
    if why and request.positive is None:
        notes.append(f"The positive class is {classes[1]!r} ({why}; --positive chooses another).")
    features = table.loc[known].drop(columns=[request.target, *_dropped(table, request)])
    if not features.shape[1]:
        raise UserError("The table has no column beside the target to learn from.")
    if len(labels) < _LEAST_ROWS:
        raise UserError(f"{len(labels)} rows with a target; at least {_LEAST_ROWS} are needed.")
    schema = Schema.of(features)
    if not schema.columns:
        raise UserError("All columns beside the target are empty.")
    X = schema.apply(features.reset_index(drop=True))
    places = {label: k for k, label in enumerate(classes)}
    y = np.array([places[label] for label in labels], dtype=np.intp)
    names = list(CANDIDATES_BY_NAME) if request.model == AUTO else [request.model]
    found = compare(
        names, X, y, stakes, schema, time_limit=request.time_limit, seed=request.seed, tell=tell
    )
    notes += _verdict(found, len(y), _measure(stakes))
    model = _model(request, found, X, y, stakes, schema, notes)
    metrics, page = _account(request, model, found, X, y, notes)
    return Trained(model, metrics, notes), page


def _check_request(request: Request) -> None:
    if request.model not in MODELS:
        raise UserError(f"--model {request.model!r} is not known; expected {', '.join(MODELS)}.")
    if request.max_fpr is not None and request.reject_cost is not None:
        raise UserError("--max-fpr and --reject-cost cannot be asked for together.")
    if request.max_fpr is not None and (request.costs or request.cost_matrix):
        raise UserError("--max-fpr says what to trade for what; give no costs beside it.")
    if request.max_fpr is not None and not 0 < request.max_fpr < 1:
        raise UserError(f"--max-fpr must be between 0 and 1; got {request.max_fpr:g}.")
    if request.reject_cost is not None and not 0 < request.reject_cost < inf:
        raise UserError(f"--reject-cost must be a positive number; got {request.reject_cost:g}.")
    if not request.time_limit > 0:
        raise UserError(f"--time-limit must be positive; got {request.time_limit:g}.")


def _check_stakes(stakes: Stakes, labels: Any) -> None:
    if stakes.reject_cost is not None and UNDECIDED in stakes.classes:
        raise UserError(f"--reject-cost: {UNDECIDED!r} is a label already; rename it.")
    if stakes.max_fpr is None:
        return
    if not stakes.binary:
        raise UserError(f"--max-fpr is for two classes; the target has {len(stakes.classes)}.")
    there, needed = int(np.sum(labels == stakes.classes[0])), fewest_rows(stakes.max_fpr, ERROR)
    if round(HELD_OUT * there) < needed:
        raise UserError(
            f"--max-fpr {stakes.max_fpr:g} takes at least {ceil(needed / HELD_OUT):,} rows of "
            f"{shortened([stakes.classes[0]])}, {needed:,} of them to set a threshold that holds "
            f"with a probability of {1.0 - ERROR:g}; there are {there:,}."
        )


def _dropped(table: Any, request: Request) -> list[str]:
    unknown = [name for name in request.drop if name not in table.columns]
    if unknown:
        raise UserError(f"--drop: the table has no column {shortened(unknown)}.")
    if request.target in request.drop:
        raise UserError(f"--drop: {shortened([request.target])} is the target.")
    return list(request.drop)


def _verdict(found: Comparison, n_rows: int, measure: str) -> list[str]:
    chosen, best = found.chosen, found.best
    lines = []
    if len(found.rows) < n_rows:
        lines.append(f"Models were compared on {len(found.rows):,} of {n_rows:,} rows.")
    what = f"{chosen.candidate.name} was chosen"
    if len([o for o in found.outcomes if not o.left_out]) > 1:
        same = chosen is best
        what += (
            f": it has the least {measure}."
            if same
            else f": it is simpler than {best.candidate.name}, which has the least {measure}, "
            "and within one standard error of it."
        )
        if chosen.candidate.baseline:
            what += " It is a plain baseline: none of this package's models was needed here."
    else:
        what += ", as the only one."
    lines.append(what)
    if chosen.candidate.policy:
        lines.append(
            "Its probabilities are those of its decisions: they saturate, and expected costs that "
            "are computed from them are a rough guide."
        )
    left = [f"{o.candidate.name} ({o.left_out})" for o in found.outcomes if o.left_out]
    if left:
        lines.append(f"Left out: {'; '.join(left)}.")
    return lines


def _measure(stakes: Stakes) -> str:
    return COST if stakes.max_fpr is None else MISSED


def _model(
    request: Request,
    found: Comparison,
    X: Any,
    y: Any,
    stakes: Stakes,
    schema: Schema,
    notes: list[str],
) -> DecisionModel:
    fitted_to, held_out = np.arange(len(y)), None
    if stakes.max_fpr is not None:
        # that the limit holds on new rows takes rows that the model has not seen
        rng = np.random.RandomState(request.seed)
        fitted_to, held_out = split_rows(y, np.arange(2), HELD_OUT, rng)
    estimator = refit(found.chosen, X.iloc[fitted_to], y[fitted_to], stakes, schema, request.seed)
    about = circumstances(
        found.chosen.candidate.name,
        target=request.target,
        rows=len(y),
        data=request.table.name,
        sha256=fingerprint(request.table),
        seed=request.seed,
    )
    cut = None
    if held_out is not None:
        cut = cut_for(stakes, estimator.predict_proba(X.iloc[held_out]), y[held_out])
        notes.append(
            f"The threshold was set on {len(held_out):,} rows that the model was not fitted to: on "
            f"new rows like them the limit holds with a probability of {1.0 - ERROR:g}."
        )
    return DecisionModel(estimator, schema, stakes, cut, about)


def _account(
    request: Request, model: DecisionModel, found: Comparison, X: Any, y: Any, notes: Sequence[str]
) -> tuple[Record, str]:
    """Numbers and page, both from decisions on held-out folds."""
    chosen, truth = found.chosen, y[found.rows]
    decided = chosen.decided
    if model.cut is not None and not chosen.candidate.policy:
        decided = (chosen.proba[:, 1] >= model.cut).astype(np.intp)
    compared = [
        Compared(
            o.candidate.name,
            None if o.left_out else o.mean,
            None if o.left_out else o.error,
            o.seconds,
            o.candidate.baseline,
            o is chosen,
            o.left_out,
            _measure(model.stakes),
        )
        for o in found.outcomes
    ]
    columns = [
        {"name": c.name, "kind": c.kind, "missing": float(X[c.name].isna().mean())}
        for c in model.schema.columns
    ]
    title = f"{request.target}: decisions by {chosen.candidate.name}"
    summary = summarise(
        title=title,
        classes=list(model.stakes.classes),
        costs=model.stakes.costs,
        proba=chosen.proba,
        codes=truth,
        decided=decided,
        reject_cost=model.stakes.reject_cost,
        zone=model.zone,
        facts=facts_of(model.estimator, None),
        threshold=model.threshold,
        compared=compared,
        columns=columns,
        usage=_usage(request),
        notes=list(notes),
    )
    kept = ("classes", "costs", "reject_cost", "n_rows", "counts", "mean_cost", "mean_cost_error")
    metrics = {key: summary[key] for key in (*kept, "always", "undecided", "confusion", "compared")}
    metrics |= {"threshold": model.threshold, "zone": model.zone, "notes": list(notes)}
    metrics |= {"max_fpr": model.stakes.max_fpr, "about": model.about}
    if model.stakes.binary:
        metrics |= _rates(truth, decided)
    return metrics, render(summary)


def _rates(truth: Any, decided: Any) -> Record:
    positive, negative = truth == 1, truth == 0
    alarms = decided == 1
    return {
        "recall": float(np.mean(alarms[positive])),
        "false_positive_rate": float(np.mean(alarms[negative])),
        "precision": float(np.mean(truth[alarms] == 1)) if alarms.any() else None,
    }


def _usage(request: Request) -> str:
    return (
        "import pandas as pd\n"
        "import grayzone\n\n"
        f"model = grayzone.load_model({str(request.out / FILES[0])!r})\n"
        f"table = pd.read_csv({request.table.name!r})\n"
        "model.predict(table)  # labels\n"
        "model.decide(table)   # probabilities, gray zone, expected cost of each action\n"
    )
