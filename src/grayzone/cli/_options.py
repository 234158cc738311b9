"""Arguments and options of commands: their types, and what ``--help`` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grayzone.training import job

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.", min=0, max=2**32 - 1)]
TimeLimit = Annotated[
    float,
    typer.Option(
        help="Seconds of one processor for all of it; what is left out is said. They are counted "
        "in work, so that the same seed gives the same model on a busy machine."
    ),
]
StopAfter = Annotated[
    float | None,
    typer.Option(
        help="Seconds of the clock after which the best so far is kept; what there was no time for "
        "is said. One model is always finished, whatever that takes."
    ),
]
Sheet = Annotated[str | None, typer.Option(help="Sheet of a workbook; the first one by default.")]
Decimal = Annotated[
    str | None,
    typer.Option(help="Decimal sign, '.' or ',', of columns of numbers that allow both (1,234)."),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="Word for missing values in any column; repeatable. '-', '?', 'n/a', 'NULL' and the "
        "like are in columns of numbers anyway."
    ),
]
TrainingTable = Annotated[
    Path, typer.Argument(help="CSV, TSV (also .gz, .zip, …), Parquet, Arrow or .xlsx file.")
]
Target = Annotated[str, typer.Option(help="Column to decide on.")]
Positive = Annotated[str | None, typer.Option(help="Positive label of two.")]
Costs = Annotated[
    str | None,
    typer.Option(
        help="FN=10,FP=1 or LABEL=COST,…; 1 each by default. A cost may be a range (FN=3..8) "
        "or a column that has it for each row (FN=amount)."
    ),
]
CostKnownAfter = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of --costs that is known only after the decision: models do not learn from "
        "it, and decide by its mean; repeatable."
    ),
]
CostMatrix = Annotated[
    Path | None, typer.Option(help="Table: true label, then a column for each decision.")
]
RejectCost = Annotated[float | None, typer.Option(help="Cost of staying undecided.")]
MaxFpr = Annotated[
    float | None, typer.Option(help="Limit on the false positive rate, kept with 95 % confidence.")
]
MinRecall = Annotated[float | None, typer.Option(help="Least recall, kept with 95 % confidence.")]
MinPrecision = Annotated[
    float | None, typer.Option(help="Least precision, kept with 95 % confidence.")
]
Model = Annotated[str, typer.Option(help=f"{', '.join(job.MODELS)}. auto is the ensemble.")]
Prefer = Annotated[
    str, typer.Option(help="best, or simple: the simplest within one standard error of the best.")
]
Drop = Annotated[list[str] | None, typer.Option(help="Column not to learn from; repeatable.")]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="Column to learn from; with it, no others are (repeatable). Columns with a role "
        "(--id, --time, --group) are learned from only if they are named here."
    ),
]
Ids = Annotated[
    list[str] | None,
    typer.Option(
        "--id", help="Column that says which row it is, carried to decisions; repeatable."
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        help="Column of dates or numbers that puts rows in order: models are judged on later "
        "rows than those they learned from."
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        help="Column of customers, patients, …: models are judged on others than those they "
        "learned from."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop where the table has serious faults, such as leaks.")
]
Segment = Annotated[
    list[str] | None,
    typer.Option(help="Column for whose values it is told how decisions do; repeatable."),
]
LimitBy = Annotated[
    str | None, typer.Option(help="Column in each of whose segments the limit is kept.")
]
Out = Annotated[Path, typer.Option(help="Folder for model, metrics and report.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier model.")]
SavedModel = Annotated[Path, typer.Argument(help="model.skops, or the folder that has it.")]
AnyModel = Annotated[
    Path, typer.Argument(help="model.skops, the folder that has it, or an exported .onnx file.")
]
NewTable = Annotated[Path, typer.Argument(help="Table with the columns of the training table.")]
Output = Annotated[
    Path, typer.Option("--output", "-o", help="CSV, .csv.gz or Parquet file to write.")
]
KeepColumns = Annotated[bool, typer.Option(help="Write the table's own columns as well.")]
Raw = Annotated[
    bool, typer.Option("--raw", help="Write cells as they are, formulas of spreadsheets too.")
]
Reasons = Annotated[
    int, typer.Option(min=0, help="Columns that moved each decision most; 3 are often enough.")
]
Changes = Annotated[
    Path | None,
    typer.Option(
        "--report-changes",
        help="CSV, .csv.gz or Parquet file for what has changed in each column since training.",
    ),
]
ExplainedTable = Annotated[
    Path | None, typer.Option(help="Table with a row to explain the decision of.")
]
Row = Annotated[int | None, typer.Option(help="Which row, from 1 on.")]
ExportedFile = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]
To = Annotated[
    str,
    typer.Option(
        help="onnx: the whole model, columns to decisions. scorecard: points of a linear model "
        "as CSV. sql: the same as a query."
    ),
]
QueriedTable = Annotated[str, typer.Option(help="Name of the table in the query.")]
Points = Annotated[
    float | None, typer.Option(help="Points that double the odds; else points are log-odds.")
]
OverwriteFile = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier file.")]
DemoOut = Annotated[Path, typer.Option(help="Folder for table, model and report.")]
Only = Annotated[str | None, typer.Option(help="Names, separated by commas.")]
Quick = Annotated[bool, typer.Option(help="Small versions: does everything run?")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
