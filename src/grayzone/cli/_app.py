"""Commands, and what a user sees of them."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import grayzone
from grayzone.cli import _demo, _explain, _export
from grayzone.cli import _options as options
from grayzone.reporting.parts import COST
from grayzone.tables.changes import changes_of
from grayzone.tables.errors import UserError, command_line, shortened
from grayzone.tables.reading import check_writable, read_table, write_table
from grayzone.training import job
from grayzone.training.model import DecisionModel
from grayzone.training.telling import told

app = typer.Typer(
    name="grayzone",
    help="A table in, a decision model and a report out. Start with `grayzone demo`.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_INTERRUPTED = 130
_EVERY = 10.0  # seconds between lines of progress: nine minutes are half a page of a log
_MOST_COLUMNS = 40  # that are shown before training
_MOST_CHANGES = 20  # columns whose changes are told
_STOPPED = "stopped; no model and no decisions were written"


def run(arguments: Sequence[str]) -> int:
    """Run a command; errors are one line, unless --debug is among the arguments."""
    debug = "--debug" in arguments
    rest = [argument for argument in arguments if argument != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # labels may be in any script
    try:
        with command_line():
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


def _console(stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, soft_wrap=True, emoji=False)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Bars on a terminal, lines elsewhere (a log, a pipe), nothing beside JSON."""
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
        with _lines() as say:
            yield say


@contextmanager
def _lines() -> Iterator[Callable[[str, int, int], None]]:
    """A line for all that is done, and every few seconds one that says what is being done."""
    begin, over = monotonic(), Event()
    at_work = ["the table"]

    def say(name: str, done: int, total: int) -> None:
        at_work[0] = name
        if done == total:
            at_work[0] = "the report"
            print(f"done: {name} ({monotonic() - begin:.0f} s)", file=sys.stderr, flush=True)

    def repeat() -> None:
        while not over.wait(_EVERY):
            line = f"at work: {at_work[0]} ({monotonic() - begin:.0f} s)"
            print(line, file=sys.stderr, flush=True)

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield say
    finally:
        over.set()
        thread.join()


@app.command()
def train(
    table: options.TrainingTable,
    target: options.Target,
    positive: options.Positive = None,
    costs: options.Costs = None,
    cost_matrix: options.CostMatrix = None,
    reject_cost: options.RejectCost = None,
    max_fpr: options.MaxFpr = None,
    min_recall: options.MinRecall = None,
    min_precision: options.MinPrecision = None,
    model: options.Model = job.AUTO,
    prefer: options.Prefer = job.BEST,
    drop: options.Drop = None,
    keep: options.Keep = None,
    ids: options.Ids = None,
    time: options.Time = None,
    group: options.Group = None,
    decimal: options.Decimal = None,
    sheet: options.Sheet = None,
    missing: options.Missing = None,
    strict: options.Strict = False,
    segment: options.Segment = None,
    limit_by: options.LimitBy = None,
    cost_known_after: options.CostKnownAfter = None,
    out: options.Out = Path("grayzone-model"),
    time_limit: options.TimeLimit = job.TIME_LIMIT,
    stop_after: options.StopAfter = None,
    seed: options.Seed = 0,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit the best model for decisions, compare others, and write a report."""
    asked = dict(locals())  # a request has the same names
    del asked["as_json"]
    for repeatable in ("drop", "keep", "ids", "segment", "missing", "cost_known_after"):
        asked[repeatable] = tuple(asked[repeatable] or ())
    with _progress(as_json) as tell:
        trained = job.train(job.Request(**asked), tell, _quiet if as_json else _show_columns)
    _show(trained, out, as_json)


def _quiet(lines: list[list[str]]) -> None:
    """Beside JSON nothing is said."""


def _show_columns(lines: list[list[str]]) -> None:
    """What the columns are taken for, before a model learns from them: no part of the result."""
    console = _console(stderr=True)
    grid = Table(title="Columns to learn from", title_justify="left")
    for name in ("column", "kind", "gaps", "values"):
        grid.add_column(name, justify="right" if name == "gaps" else "left")
    for line in lines[:_MOST_COLUMNS]:
        grid.add_row(*map(escape, line))
    console.print(grid)
    if len(lines) > _MOST_COLUMNS:
        console.print(f"and {len(lines) - _MOST_COLUMNS:,} columns more")


def _show(trained: job.Trained, out: Path, as_json: bool, new_rows: Path | None = None) -> None:
    if as_json:
        print(json.dumps({**trained.metrics, "out": str(out)}))
        return
    console = _console()
    for line in told(trained.metrics):
        console.print(escape(line))
    console.print(_grid(trained.metrics))
    if left := _left_out(trained.metrics):
        console.print(escape(left))
    for finding in trained.metrics["findings"]:
        console.print(escape(finding["text"]))
    for note in trained.metrics["notes"]:
        console.print(escape(note))
    console.print(f"Report: {escape(str((out / 'report.html').resolve()))}")
    asked = ("TABLE", "decisions.csv")
    if new_rows is not None:
        asked = (str(new_rows), str(new_rows.with_name("decisions.csv")))
    command = shlex.join([*_program(), "predict", str(out), asked[0], "-o", asked[1]])
    console.print(escape(f"Next: {command}"))


def _program() -> list[str]:
    """How this program was called, so that a line that is printed can be run as it is."""
    called = Path(sys.argv[0])
    if called.stem == "__main__" and called.parent.name == "grayzone":
        return [sys.executable, "-m", "grayzone"]
    found = shutil.which("grayzone")
    there = called.stem == "grayzone" and called.is_file()
    if there and (found is None or not Path(found).samefile(called)):
        return [str(called)]
    return ["grayzone"]


def _grid(metrics: dict[str, Any]) -> Table:
    """Models that were compared, the best first."""
    compared = metrics["compared"]
    title = "Compared on rows that models had not seen (± is a standard error)"
    measure = compared[0]["measure"]
    absolute = measure == COST  # at a limit, recalls are those of other thresholds
    if not absolute:
        title += f"\nBy {measure}, without a margin"
    grid = Table(title=title, title_justify="left")
    for name in ("model", *((measure, "±") * absolute), "more than the kept one", "±", ""):
        left = name in ("model", "")
        grid.add_column(name, justify="left" if left else "right", no_wrap=name == "model")
    there = [c for c in compared if c["mean"] is not None]
    for c in sorted(there, key=lambda c: c["mean"]):
        numbers = [_number(c["mean"], ".4g"), _number(c["error"], ".2g")] * absolute
        numbers += [_number(c["difference"], "+.2g"), _number(c["difference_error"], ".2g")]
        grid.add_row(escape(c["name"]), *numbers, "kept" if c["chosen"] else "")
    return grid


def _left_out(metrics: dict[str, Any]) -> str:
    """Which models were not compared, and why; nothing if all were."""
    left = [f"{c['name']} ({c['left_out']})" for c in metrics["compared"] if c["mean"] is None]
    return f"Not compared: {'; '.join(left)}." if left else ""


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


@app.command()
def predict(
    model: options.AnyModel,
    table: options.NewTable,
    output: options.Output,
    keep: options.KeepColumns = False,
    raw: options.Raw = False,
    sheet: options.Sheet = None,
    reasons: options.Reasons = 0,
    changes: options.Changes = None,
    as_json: options.AsJson = False,
) -> None:
    """Decide on every row: class, probabilities, gray zone, expected cost of each action.

    An exported model (.onnx) gives its decisions and probabilities, to check it.
    """
    check_writable(output)
    if changes is not None:
        check_writable(changes)
        if changes.resolve() in (output.resolve(), table.resolve()):
            raise UserError(f"--report-changes {changes} is another of the files; choose its own.")
    if model.suffix == _export.ONNX_SUFFIX:
        refused = {"--keep": keep, "--reasons": bool(reasons)}
        counts, changed = _export.predict(model, table, output, raw, sheet, refused)
        _report_changes(changed, changes)
        _say_decisions(counts, output, as_json)
        return
    decider = DecisionModel.load(model)
    ids = decider.about["ids"]
    data = read_table(table, text=[*decider.schema.as_written, *ids], sheet=sheet)
    if output.exists() and output.samefile(table):
        raise UserError(f"{output} is the table itself; choose another --output.")
    decided = decider.decide(data, reasons=reasons)
    carried = data if keep else data[[name for name in ids if name in data]]
    if carried.shape[1]:
        both = [name for name in data.columns if name in decided.columns]
        if both:
            raise UserError(f"The table has columns {shortened(both)} already.")
        decided = decided.join(carried) if keep else carried.join(decided)
    write_table(decided, output, raw)
    counts = {str(k): n for k, n in decided["decision"].value_counts().items()}
    _report_changes(changes_of(decider.schema, data), changes)
    _say_decisions(counts, output, as_json)


def _report_changes(changes: Any, file: Path | None) -> None:
    """Write what has changed since training, and say it, a line each."""
    if file is not None:
        write_table(changes, file)
    told = [text for text in changes["change"] if text]
    for text in told[:_MOST_CHANGES]:
        print(f"changed: {text}", file=sys.stderr)
    if len(told) > _MOST_CHANGES:
        print(f"changed: {len(told) - _MOST_CHANGES:,} columns more", file=sys.stderr)


def _say_decisions(counts: dict[str, int], output: Path, as_json: bool) -> None:
    n_rows = sum(counts.values())
    if as_json:
        print(json.dumps({"rows": n_rows, "decisions": counts, "output": str(output)}))
        return
    parts = ", ".join(f"{n:,} {label!r}" for label, n in counts.items())
    _console().print(escape(f"{n_rows:,} decisions: {parts}. Written to {output}."))


@app.command()
def export(
    model: options.SavedModel,
    output: options.ExportedFile,
    to: options.To = _export.ONNX,
    table: options.QueriedTable = "rows",
    points: options.Points = None,
    overwrite: options.OverwriteFile = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a model as a file that decides the same without Python: ONNX, a scorecard or SQL."""
    told = _export.write(DecisionModel.load(model), to, output, table, points, overwrite)
    if as_json:
        print(json.dumps(told))
        return
    _console().print(escape(f"Written to {output}: {told['what']}, {told['bytes']:,} bytes."))
    if to == _export.ONNX:
        command = shlex.join([*_program(), "predict", str(output), "TABLE", "-o", "decisions.csv"])
        _console().print(escape(f"To check it: {command}"))


@app.command()
def explain(
    model: options.SavedModel,
    table: options.ExplainedTable = None,
    row: options.Row = None,
    sheet: options.Sheet = None,
    as_json: options.AsJson = False,
) -> None:
    """Say what a model is, what it was made for, and what it needs; or why it decides on a row."""
    if (row is None) != (table is None):
        raise UserError("--row and --table belong together: a row of which table?")
    decider, console = DecisionModel.load(model), _console()
    if row is not None and table is not None:
        record = _explain.of_row(decider, table, row, sheet)
    else:
        record = _explain.of_model(decider)
    if as_json:
        print(json.dumps(record))
    elif row is not None:
        _explain.show_row(record, decider.stakes.binary, console)
    else:
        _explain.show_model(record, console)


@app.command()
def demo(
    out: options.DemoOut = Path("grayzone-demo"),
    time_limit: options.TimeLimit = 60.0,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Train on payments in a web shop, some of them fraud, from probabilities that are known."""
    table, new_rows, drawn = _demo.write_tables(out, seed)
    truth = _demo.Truth(drawn)
    request = job.Request(
        table,
        _demo.TARGET,
        out,
        costs=_demo.COSTS,
        reject_cost=_demo.REJECT_COST,
        time_limit=time_limit,
        seed=seed,
        overwrite=True,
        best_possible=truth.paid(truth.best()),
    )
    if not as_json:
        options = _demo.options(table, out, time_limit, seed)
        command = shlex.join([*_program(), "train", *options])
        _console().print(escape("\n".join((*_demo.story(table, drawn), f"  {command}", ""))))
    with _progress(as_json) as tell:
        trained = job.train(request, tell)
    _show(trained, out, as_json, new_rows)


@app.command()
def reproduce(
    only: options.Only = None,
    quick: options.Quick = False,
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
    debug: options.Debug = False,
) -> None:
    pass
