"""What a user is told of a model, and of one of its decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from grayzone.estimators.facts import facts_of
from grayzone.reporting.sections import added, spread
from grayzone.tables.errors import UserError
from grayzone.tables.reading import read_table
from grayzone.training.model import DecisionModel
from grayzone.training.reasons import as_shown, explained
from grayzone.training.stakes import LIMITS
from grayzone.training.telling import rule_of, rule_told

Record = dict[str, Any]

ROUNDS, PLAYERS = 20, 25  # a single row is worth more questions than one of a table


def of_model(model: DecisionModel) -> Record:
    """Say what a model is, what it was made for, and what it needs."""
    facts, stakes = facts_of(model.estimator), model.stakes
    return {
        "model": model.about["model"],
        "estimator": facts.name,
        "costs": stakes.costs.tolist(),
        "cost_factors": stakes.reach,
        **rule_of(model),
        "zone": model.zone,
        "facts": dict(facts.lines),
        "importance": [asdict(one) for one in model.importance],
        "columns": model.schema.dump(),
        "about": model.about,
    }


def show_model(record: Record, console: Console) -> None:
    """Print that."""
    about = record["about"]

    def say(text: str) -> None:
        console.print(escape(text))

    say(f"{record['model']} ({record['estimator']}) for {about['target']!r}")
    say(f"Made {about['made']} from {about['rows']:,} rows.")
    kept = next((name for name in LIMITS if record[name] is not None), None)
    if kept is None:
        for line in _costs(record):
            say(line)
    say(rule_told(record))
    if record["zone"] is not None and record["undecided_between"] is None:
        low, high = record["zone"]
        say(f"Gray zone: probabilities from {low:.4g} to {high:.4g}.")
    for text, value in record["facts"].items():
        say(f"{text}: {value}")
    if record["importance"]:
        more = added(kept)
        say(f"Which columns matter: how much more {more} where one is shuffled,")
        say("on rows that were not fitted, ± one standard error")
        for one in record["importance"][:10]:
            names = " with ".join([one["column"], *one["together"]])
            say(f"  {spread(one['cost'], one['error'])}  {names}")
    say(f"Needs the columns: {', '.join(column['name'] for column in record['columns'])}")


def _costs(record: Record) -> Iterator[str]:
    """What errors cost: numbers, ranges, or columns."""
    classes, columns, factors = (record[k] for k in ("classes", "cost_columns", "cost_factors"))
    for i, true in enumerate(classes):
        for j, other in enumerate(classes):
            if i == j:
                continue
            cost = f"{record['costs'][i][j]:g}"
            if columns is not None and columns[i] is not None:
                cost = f"what {columns[i]!r} says of the row, {cost} on average"
            elif factors is not None and factors[i][0] < factors[i][1]:
                low, high = (record["costs"][i][j] * factor for factor in factors[i])
                cost = f"{low:.4g} to {high:.4g}; {cost} is reckoned with"
            yield f"Deciding {other!r} where {true!r} is true costs {cost}."


def of_row(model: DecisionModel, path: Path, row: int, sheet: str | None = None) -> Record:
    """Say what the columns of one row of a table add to its log-odds.

    Raises
    ------
    UserError
        If the table has no such row.
    """
    table = read_table(path, text=model.schema.as_written, sheet=sheet)
    if not 1 <= row <= len(table):
        raise UserError(f"--row {row}: {path} has rows 1 to {len(table):,}.")
    one = table.iloc[[row - 1]]
    decided = model.decide(one)
    found = explained(model, one, rounds=ROUNDS, players=PLAYERS)
    shares = found.shares
    names, X = model.schema.names, found.table
    order = np.argsort(-np.nan_to_num(np.abs(shares.shares[0])), kind="stable")
    target = model.stakes.classes[int(found.targets[0])]
    return {
        "row": row,
        "decision": str(decided["decision"].iloc[0]),
        "class": target,
        "probability": float(decided[f"probability_{target}"].iloc[0]),
        "score": float(shares.score[0]),
        "typical_score": float(shares.base[0]),
        "shares": [
            {
                "column": names[j],
                "value": as_shown(X.iat[0, j]),
                "share": float(shares.shares[0, j]),
                "error": float(shares.error[0, j]),
            }
            for j in order
            if np.isfinite(shares.shares[0, j])
        ],
        "other_columns": [names[j] for j in np.flatnonzero(np.isnan(shares.shares[0]))],
        "other_columns_share": float(shares.others[0]),
    }


def show_row(record: Record, binary: bool, console: Console) -> None:
    """Print that."""
    what = "log-odds" if binary else "score"
    of = f"of {record['class']!r}"
    console.print(
        escape(
            f"Row {record['row']}: {record['decision']!r}. Probability {of} "
            f"{record['probability']:.4g}, {what} {record['score']:+.3f}; typical rows have "
            f"{record['typical_score']:+.3f}."
        )
    )
    grid = Table()
    grid.add_column("column")
    grid.add_column("value")
    grid.add_column(escape(f"adds to the {what} {of}"), justify="right")
    grid.add_column("±", justify="right")
    for one in record["shares"]:
        cells = one["column"], one["value"], f"{one['share']:+.3f}", f"{one['error']:.3f}"
        grid.add_row(*map(escape, cells))
    if record["other_columns"]:
        others = f"{len(record['other_columns'])} other columns"
        grid.add_row(others, "", f"{record['other_columns_share']:+.3f}", "")
    console.print(grid)
    exact = all(one["error"] == 0.0 for one in record["shares"])
    console.print(
        "These are exact: the model adds columns up."
        if exact
        else "± is one standard error: orders of columns are drawn."
    )
