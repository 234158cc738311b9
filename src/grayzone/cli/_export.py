"""Models as files for other systems, and what those files decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grayzone.tables.changes import changes_of
from grayzone.tables.errors import UserError
from grayzone.tables.output import whole_file
from grayzone.tables.reading import read_table, write_table
from grayzone.training.model import DecisionModel

ONNX, SCORECARD, SQL = "onnx", "scorecard", "sql"
KINDS = (ONNX, SCORECARD, SQL)
ONNX_SUFFIX = ".onnx"


def write(
    model: DecisionModel, to: str, output: Path, table: str, points: float | None, overwrite: bool
) -> dict[str, Any]:
    """Write a model, and return what was written.

    Raises
    ------
    UserError
        If the model cannot go there, or the file may not be written.
    """
    if to not in KINDS:
        raise UserError(f"--to must be {', '.join(KINDS)}; got {to!r}.")
    if output.exists() and not overwrite:
        raise UserError(f"{output} exists already; choose another --output, or --overwrite.")
    if points is not None and not points > 0.0:
        raise UserError(f"--points must be a positive number; got {points:g}.")
    content = _onnx(model) if to == ONNX else _card(model, to, table, points)

    def save(part: Path) -> None:
        part.write_bytes(content)

    whole_file(output, save)
    what = {ONNX: "the decision model", SCORECARD: "points of each column", SQL: "a query"}[to]
    return {"output": str(output), "to": to, "what": what, "bytes": len(content)}


def _onnx(model: DecisionModel) -> bytes:
    try:
        from grayzone.onnx import NotConvertibleError, to_onnx

        made = to_onnx(model, _some_rows(model))
    except ImportError as error:
        raise UserError(str(error)) from error
    except NotConvertibleError as error:
        raise UserError(f"The model cannot go to ONNX: {error}") from error
    except ValueError as error:
        raise UserError(str(error)) from error
    content: bytes = made.SerializeToString()
    return content


def _some_rows(model: DecisionModel) -> Any:
    """Rows on which the file is compared with the model; of costs beside them any will do."""
    rows = model.background
    names = [name for name in model.stakes.columns or () if name is not None]
    return rows if rows is None else rows.assign(**{n: 1.0 for n in names if n not in rows})


def _card(model: DecisionModel, to: str, table: str, points: float | None) -> bytes:
    from grayzone.scorecards import NoScorecardError, scorecard

    try:
        card = scorecard(model, points_per_doubling=points)
    except NoScorecardError as error:
        raise UserError(f"The model has no scorecard: {error}") from error
    try:
        return (card.to_csv() if to == SCORECARD else card.to_sql(table)).encode()
    except ValueError as error:  # of texts that cannot be written there
        raise UserError(str(error)) from error


def predict(
    path: Path, table: Path, output: Path, raw: bool, sheet: str | None, options: dict[str, bool]
) -> tuple[dict[str, int], Any]:
    """Decide on a table by an exported model; return how often what was decided, and changes.

    Raises
    ------
    UserError
        If something is asked for that it does not know, or a file is not what it should be.
    """
    from grayzone.onnx.exported import ExportedModel

    if asked := [name for name, is_asked in options.items() if is_asked]:
        raise UserError(f"{asked[0]} is for model.skops; an exported model knows decisions alone.")
    decider = ExportedModel.load(path)
    data = read_table(table, text=decider.schema.as_written, sheet=sheet)
    if output.exists() and output.samefile(table):
        raise UserError(f"{output} is the table itself; choose another --output.")
    decided = decider.decide(data)
    write_table(decided, output, raw)
    counts = {str(label): int(n) for label, n in decided["decision"].value_counts().items()}
    return counts, changes_of(decider.schema, data)
