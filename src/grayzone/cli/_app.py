"""Commands, and what a user sees of them."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import grayzone
from grayzone.cli import _demo, _train
from grayzone.cli._errors import UserError, shortened
from grayzone.cli._tables import check_writable, read_table, write_table
from grayzone.cli.model import DecisionModel
from grayzone.estimators.facts import facts_of

app = typer.Typer(
    name="grayzone",
    help="A table in, a decision model and a report out. Start with `grayzone demo`.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_INTERRUPTED = 130
_STOPPED = "stopped; no model and no decisions were written"

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
SeedOption = Annotated[int, typer.Option(help="Seed of everything random.", min=0, max=2**32 - 1)]
LimitOption = Annotated[
    float, typer.Option(help="Seconds for comparing models; what is left out is said.")
]


def run(arguments: Sequence[str]) -> int:
    """Run a command; errors are one line, unless --debug is among the arguments."""
    debug = "--debug" in arguments
    rest = [argument for argument in arguments if argument != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # labels may be in any script
    try:
        code = app(rest or ["--help"], standalone_mode=False) or 0
        # typer turns an interruption into this code
        return _complain(_STOPPED, code) if code == _INTERRUPTED else code
    except (KeyboardInterrupt, typer.Abort):
        return _complain(_STOPPED, _INTERRUPTED)
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _complain(*_told(error))


def _told(error: Exception) -> tuple[str, int]:
    """What to say of an error, and the exit code."""
    if isinstance(error, UserError):
        return str(error), 2
    if hasattr(error, "format_message"):  # usage errors of the command line
        return f"{error.format_message()} (see --help)", 2
    if isinstance(error, MemoryError):
        return "there is not enough memory for this table", 1
    if isinstance(error, OSError) and error.errno is not None:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or error}{where}: nothing was written", 1
    kind = type(error).__name__
    return f"unexpected {kind}: {' '.join(str(error).split())[:300]} (--debug shows where)", 1


def _complain(text: str, code: int) -> int:
    line = " ".join(text.split())
    print(f"grayzone: {line}", file=sys.stderr)
    return code


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True, emoji=False)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Bars on a terminal, lines elsewhere, nothing beside JSON."""
    console = Console(stderr=True)
    if quiet:
        yield lambda name, done, total: None
    elif console.is_terminal:
        columns = TextColumn("{task.description:22}"), BarColumn(), TimeElapsedColumn()
        with Progress(*columns, console=console) as bars:
            tasks: dict[str, Any] = {}

            def draw(name: str, done: int, total: int) -> None:
                if name not in tasks:
                    tasks[name] = bars.add_task(name, total=total)
                bars.update(tasks[name], completed=done)

            yield draw
    else:

        def say(name: str, done: int, total: int) -> None:
            if done == total:
                print(f"compared: {name}", file=sys.stderr, flush=True)

        yield say


@app.command()
def train(
    table: Annotated[Path, typer.Argument(help="CSV, TSV (also .gz), Parquet or Arrow file.")],
    target: Annotated[str, typer.Option(help="Column to decide on.")],
    positive: Annotated[str | None, typer.Option(help="Positive label of two.")] = None,
    costs: Annotated[
        str | None, typer.Option(help="FN=10,FP=1 or LABEL=COST,…; 1 each by default.")
    ] = None,
    cost_matrix: Annotated[
        Path | None, typer.Option(help="Table: true label, then a column for each decision.")
    ] = None,
    reject_cost: Annotated[float | None, typer.Option(help="Cost of staying undecided.")] = None,
    max_fpr: Annotated[
        float | None,
        typer.Option(help="Limit on the false positive rate, kept with 95 % confidence."),
    ] = None,
    model: Annotated[str, typer.Option(help=", ".join(_train.MODELS))] = _train.AUTO,
    drop: Annotated[list[str] | None, typer.Option(help="Column to ignore; repeatable.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for model, metrics and report.")] = Path(
        "grayzone-model"
    ),
    time_limit: LimitOption = 300.0,
    seed: SeedOption = 0,
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier model.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare models by what their decisions cost, keep the best, and write a report."""
    request = _train.Request(
        table,
        target,
        out,
        positive,
        costs,
        cost_matrix,
        reject_cost,
        max_fpr,
        model,
        tuple(drop or ()),
        time_limit,
        seed,
        overwrite,
    )
    with _progress(as_json) as tell:
        trained = _train.train(request, tell)
    _show(trained, out, as_json)


def _show(trained: _train.Trained, out: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**trained.metrics, "out": str(out)}))
        return
    console, metrics = _console(), trained.metrics
    grid = Table(title="Decisions on rows that were not fitted", title_justify="left")
    for name in ("model", metrics["compared"][0]["measure"], "±", "seconds", ""):
        grid.add_column(name, justify="left" if name in ("model", "") else "right")
    for c in metrics["compared"]:
        mean, error = ("–", "–") if c["mean"] is None else (f"{c['mean']:.4g}", f"{c['error']:.2g}")
        mark = "chosen" if c["chosen"] else c["left_out"]
        grid.add_row(c["name"], mean, error, f"{c['seconds']:.1f}", escape(mark))
    console.print(grid)
    for note in trained.notes:
        console.print(escape(note))
    always = ", ".join(
        f"always {label!r} {cost:.4g}"
        for label, cost in zip(metrics["classes"], metrics["always"], strict=True)
    )
    console.print(escape(f"Mean cost {metrics['mean_cost']:.4g}; {always}."))
    if metrics["threshold"] is not None:
        console.print(f"Threshold {metrics['threshold']:.4g}, gray zone {_zone(metrics['zone'])}.")
    console.print(f"Report: {escape(str((out / 'report.html').resolve()))}")
    console.print(f"Next: grayzone predict {escape(str(out))} TABLE -o decisions.csv")


def _zone(zone: Sequence[float]) -> str:
    return f"{zone[0]:.4g} to {zone[1]:.4g}"


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="model.skops, or the folder that has it.")],
    table: Annotated[Path, typer.Argument(help="Table with the columns of the training table.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="CSV, .csv.gz or Parquet file to write.")
    ],
    keep: Annotated[bool, typer.Option(help="Write the table's own columns as well.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write cells as they are, formulas of spreadsheets too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Decide on every row: class, probabilities, gray zone, expected cost of each action."""
    check_writable(output)
    decider = DecisionModel.load(model)
    data = read_table(table)
    if output.exists() and output.samefile(table):
        raise UserError(f"{output} is the table itself; choose another --output.")
    decided = decider.decide(data)
    if keep:
        both = [name for name in data.columns if name in decided.columns]
        if both:
            raise UserError(f"--keep: the table has columns {shortened(both)} already.")
        decided = decided.join(data)
    write_table(decided, output, raw)
    counts = decided["decision"].value_counts().to_dict()
    if as_json:
        print(json.dumps({"rows": len(decided), "decisions": counts, "output": str(output)}))
        return
    parts = ", ".join(f"{n:,} {label!r}" for label, n in counts.items())
    _console().print(escape(f"{len(decided):,} decisions: {parts}. Written to {output}."))


@app.command()
def explain(
    model: Annotated[Path, typer.Argument(help="model.skops, or the folder that has it.")],
    as_json: JsonOption = False,
) -> None:
    """Say what a model is, what it was made for, and what it needs."""
    decider = DecisionModel.load(model)
    facts = facts_of(decider.estimator)
    stakes = decider.stakes
    record = {
        "model": decider.about["model"],
        "estimator": facts.name,
        "classes": list(stakes.classes),
        "costs": stakes.costs.tolist(),
        "reject_cost": stakes.reject_cost,
        "max_fpr": stakes.max_fpr,
        "threshold": decider.threshold,
        "zone": decider.zone,
        "facts": dict(facts.lines),
        "weights": facts.weights,
        "columns": decider.schema.dump(),
        "about": decider.about,
    }
    if as_json:
        print(json.dumps(record))
        return
    console = _console()
    console.print(escape(f"{record['model']} ({facts.name}) for {decider.about['target']!r}"))
    console.print(escape(f"Made {decider.about['made']} from {decider.about['rows']:,} rows."))
    for i, true in enumerate(stakes.classes):
        for j, other in enumerate(stakes.classes):
            if i != j:
                text = f"Deciding {other!r} where {true!r} is true costs {stakes.costs[i, j]:g}."
                console.print(escape(text))
    if decider.threshold is not None and decider.zone is not None:
        console.print(
            escape(f"Decides {stakes.positive!r} from probability {decider.threshold:.4g} on; ")
            + f"gray zone {_zone(decider.zone)}."
        )
    for text, value in facts.lines:
        console.print(escape(f"{text}: {value}"))
    for name, weight in facts.weights[:10]:
        console.print(escape(f"  {weight:+.3g}  {name}"))
    console.print(escape(f"Needs the columns: {', '.join(decider.schema.names)}"))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for table, model and report.")] = Path(
        "grayzone-demo"
    ),
    time_limit: LimitOption = 60.0,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Train on a table that comes along: tumours, where missing a malignant one costs ten."""
    table = _demo.write_table(out)
    request = _train.Request(
        table,
        "diagnosis",
        out,
        positive="malignant",
        costs="FN=10,FP=1",
        time_limit=time_limit,
        seed=seed,
        overwrite=True,
    )
    if not as_json:
        _console().print(
            escape(
                f"{table}: 569 tumours, 30 measurements each. The same as\n  grayzone train {table}"
                f" --target diagnosis --positive malignant --costs FN=10,FP=1 --out {out}"
            )
        )
    with _progress(as_json) as tell:
        trained = _train.train(request, tell)
    _show(trained, out, as_json)


@app.command()
def reproduce(
    only: Annotated[str | None, typer.Option(help="Names, separated by commas.")] = None,
    quick: Annotated[bool, typer.Option(help="Small versions: does everything run?")] = False,
) -> None:
    """Run the tables and figures of the papers, from a clone of the repository."""
    try:
        sys.path.insert(0, os.getcwd())
        from benchmarks.__main__ import main as benchmarks
    except ImportError as error:
        raise UserError(
            f"The benchmarks are not installed with the package ({error.name} is missing): run"
            " this inside a clone of the repository, with `pip install -e '.[bench]'`."
        ) from error
    options = [*(["--only", only] if only else []), *(["--quick"] if quick else [])]
    raise typer.Exit(benchmarks(["papers", *options]))


def _version(asked: bool) -> None:
    if asked:
        print(f"grayzone {grayzone.__version__}")
        raise typer.Exit()


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    pass
