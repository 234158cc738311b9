"""A run of many benchmarks: stopped, failed, gone on with; its results, and their comparison."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import report, results, suite
from benchmarks.__main__ import main
from benchmarks.compare import compare
from benchmarks.suite import Entry
from grayzone.datasets import list_datasets

ROOT = Path(__file__).resolve().parents[2]
# Children of the suite notice nothing of what tests change in this process: they are told by
# their arguments how to behave, and they write down that they ran.
STUB = """
import argparse
import json
import os
import sys
import time
from pathlib import Path

from benchmarks.report import measure, print_table, verdict, write_json

parser = argparse.ArgumentParser()
parser.add_argument("behave", nargs="?", default="well")
parser.add_argument("--value", type=float, default=1.0)
parser.add_argument("--quick", action="store_true")
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--output", type=Path, required=True)
options = parser.parse_args()
calls = Path(os.environ["STUB_CALLS"])
name = options.output.stem


def note(event, **more):
    record = {"name": name, "event": event, "time": time.time(), "pid": os.getpid(), **more}
    with calls.open("a") as file:
        file.write(json.dumps(record) + "\\n")


def write(**results):
    measure("value", options.value, better="higher", slack=0.5)
    print_table("What was seen", ("", "value"), [[name, options.value]])
    verdict(f"Table of {name}", "reproduced", "as it is written")
    write_json(name, results, options.output)


note(
    "start",
    arguments=sys.argv[1:],
    threads=options.threads,
    variables=[os.environ[k] for k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")],
    data=os.environ["GRAYZONE_DATA"],
    found=options.output.is_file() and json.loads(options.output.read_text()).get("cells"),
)
if options.behave == "fail":
    print("\\n".join(f"line {k}" for k in range(40)))
    write(cells="of a failure")
    sys.exit(3)
elif options.behave == "say nothing":
    note("end")
    sys.exit(0)
write(cells="all")
note("end")
"""


def entry(name, kind="papers", *, full=(), quick=("--quick",), data=(), large=False, gpu=False):
    return Entry(name, kind, "stub_benchmark", f"Title of {name}", full, quick, data, large, gpu)


class Bench:
    """A suite of stubs in a folder of its own."""

    def __init__(self, root, monkeypatch):
        self.folder, self.calls_path, self.patch = root / "results", root / "calls", monkeypatch

    def offer(self, *entries):
        """Let these be all benchmarks that there are."""
        self.patch.setattr(suite, "ENTRIES", entries)
        self.patch.setattr(suite, "NAMES", tuple(e.name for e in entries))
        self.patch.setattr(results, "ENTRIES", entries)

    def run(self, *names, quick=False, again=False, jobs=1):
        names = names or suite.NAMES
        return suite.run(names, quick=quick, again=again, jobs=jobs, folder=self.folder)

    def events(self, *kinds):
        lines = self.calls_path.read_text().splitlines() if self.calls_path.exists() else []
        return [e for e in map(json.loads, lines) if not kinds or e["event"] in kinds]

    def ran(self):
        """Names of those that were started since this was asked last."""
        started = [e["name"] for e in self.events("start")]
        self.calls_path.unlink(missing_ok=True)
        return started

    def journal(self):
        return json.loads((self.folder / "run.json").read_text())

    def status(self):
        return {name: e["status"] for name, e in self.journal()["entries"].items()}

    def record(self, name):
        return json.loads((self.folder / f"{name}.json").read_text())


@pytest.fixture
def bench(tmp_path, monkeypatch):
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "stub_benchmark.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.setenv("STUB_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("GRAYZONE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "home"))
    monkeypatch.setattr(suite, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(suite, "HEAD_START", 0.05)
    made = Bench(tmp_path, monkeypatch)
    made.offer(entry("one"), entry("two", full=("--value", "2")), entry("race", "peers"))
    return made


@pytest.fixture(autouse=True)
def results_of_the_project_stay(tmp_path, monkeypatch):
    """Let commands write their results elsewhere."""

    def write(collected, folder, readme):
        results.write_results(collected, folder, tmp_path / "written by a command")

    monkeypatch.setattr("benchmarks.__main__.write_results", write)
    monkeypatch.setattr("benchmarks.__main__.EARLIER", tmp_path / "absent.json")


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    """What this test shows, and nothing that others have shown."""
    fresh = report.Report()
    monkeypatch.setattr(report, "_SHOWN", fresh)
    return fresh


# ----------------------------------------------------------------------------------------------
# Running
# ----------------------------------------------------------------------------------------------


def test_everything_runs_and_is_written_down(bench, capsys):
    assert bench.run() == 0
    assert bench.ran() == ["one", "two", "race"]
    assert bench.status() == dict.fromkeys(("one", "two", "race"), "complete")
    journal = bench.journal()
    assert journal["quick"] is False
    assert journal["environment"]["libraries"]["numpy"] == np.__version__
    assert journal["entries"]["two"]["arguments"] == ["--value", "2"]
    assert all(e["seconds"] > 0 for e in journal["entries"].values())
    assert bench.record("two")["report"]["measures"]["value"]["value"] == 2.0
    assert "What was seen" in (bench.folder / "two.log").read_text()
    assert sorted(p.name for p in bench.folder.iterdir()) == sorted(
        ["run.json", *(f"{name}.{end}" for name in suite.NAMES for end in ("json", "log"))]
    )
    said = capsys.readouterr().out
    assert re.search(r"two …  \(log: .*two\.log\)", said)
    assert re.search(r"race: \d+ s, 0 to go", said)


def test_what_is_complete_is_kept(bench, capsys):
    bench.run("one")
    before = (bench.folder / "one.json").read_bytes()
    bench.ran()
    assert bench.run() == 0
    assert bench.ran() == ["two", "race"]
    assert "1 of 3 are complete already (--again)" in capsys.readouterr().out
    assert bench.run() == 0
    assert bench.ran() == []
    assert (bench.folder / "one.json").read_bytes() == before


def test_one_that_fails_does_not_stop_the_others(bench, capsys):
    bench.offer(entry("bad", full=("fail",)), entry("good"), entry("race", "peers"))
    assert bench.run() == 1
    assert bench.ran() == ["bad", "good", "race"]
    assert bench.status() == {"bad": "failed", "good": "complete", "race": "complete"}
    assert bench.journal()["entries"]["bad"]["reason"] == "exit 3"
    said = capsys.readouterr().out
    assert "bad: FAILED, exit 3" in said
    assert "reproduced — as it is written" in said  # the end of its log, …
    assert "line 39" in said
    assert "line 20\n" not in said  # … and no more than that
    # what failed is tried again, and goes on from what it has
    assert bench.run() == 1
    assert [(e["name"], e["found"]) for e in bench.events("start")] == [("bad", "of a failure")]


def test_quick_and_full_runs_do_not_mix(bench):
    bench.offer(entry("one", full=("--value", "2")), entry("two", full=("say nothing",)))
    assert bench.run(quick=True) == 0
    assert [e["arguments"][0] for e in bench.events("start")] == ["--quick"] * 2
    assert bench.journal()["quick"] is True
    bench.ran()
    # nothing of the quick run counts, and nothing is gone on from
    assert bench.run("two") == 1
    assert [e["found"] for e in bench.events("start")] == [False]
    assert bench.status() == {"two": "failed"}
    collected = results.collect(bench.folder)
    assert collected["quick"] is False
    assert collected["entries"]["one"]["status"] == "not run"
    assert collected["entries"]["two"]["report"]["verdicts"] == []
    assert bench.run("one") == 0
    assert bench.record("one")["report"]["measures"]["value"]["value"] == 2.0


# ----------------------------------------------------------------------------------------------
# What benchmarks show
# ----------------------------------------------------------------------------------------------


class Picture:
    """A figure, as far as it matters here."""

    def __init__(self, content=b"picture", fails=False):
        self.content, self.fails = content, fails

    def savefig(self, path, **options):
        Path(path).write_bytes(self.content)
        if self.fails:
            raise KeyboardInterrupt


def test_all_that_is_shown_is_written(tmp_path, capsys):
    report.print_table("Errors", ("", "ours", "theirs"), [["a", 0.12345, None], ["b", 3, "4 ± 1"]])
    report.verdict("Table 1", "partly", "two of three")
    report.measure("error", np.float32(0.5), better="lower", slack=np.float64(0.1))
    report.show_figure(Picture(), tmp_path / "deep" / "figure.png", "What it shows")
    path = report.write_json("mine", {"extra": np.float64(2.5)}, tmp_path / "new" / "mine.json")
    record = json.loads(path.read_text())
    assert record["benchmark"] == "mine"
    assert record["extra"] == 2.5
    assert record["environment"]["cores"] == os.cpu_count()
    assert record["report"] == {
        "tables": [
            {
                "title": "Errors",
                "columns": ["", "ours", "theirs"],
                "rows": [["a", "0.123", "–"], ["b", "3", "4 ± 1"]],
            }
        ],
        "verdicts": [{"what": "Table 1", "outcome": "partly", "why": "two of three"}],
        "measures": {"error": {"value": 0.5, "better": "lower", "slack": 0.1}},
        "figures": [{"file": "figure.png", "caption": "What it shows"}],
    }
    assert (tmp_path / "deep" / "figure.png").read_bytes() == b"picture"
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["figure.png"]
    said = capsys.readouterr().out
    assert "Table 1: partly — two of three" in said
    lines = said.splitlines()
    header = next(k for k, line in enumerate(lines) if "theirs" in line)
    assert lines[header + 1] == "  -  -----  ------"
    assert lines[header + 2] == "  a  0.123       –"


# ----------------------------------------------------------------------------------------------
# RESULTS.md and RESULTS.json
# ----------------------------------------------------------------------------------------------

NASTY = "a|b *c* d\ne|f"


def make_run(folder, *, quick=False, **entries):
    """Write a journal, and a JSON file for each benchmark that is complete."""
    folder.mkdir(exist_ok=True)
    journal = suite.Journal(folder, quick)
    for one in suite.ENTRIES:
        if one.name in entries:
            status, reason = entries[one.name]
            journal.keep(one, status, 90.0, reason)


@pytest.fixture
def written(bench, tmp_path, shown):
    """Show nasty things, and write results of them; return where."""
    bench.offer(entry("one"), entry("two"), entry("race", "peers"), entry("lost", "peers"))
    report.print_table(f"Title {NASTY}", ("", NASTY), [[NASTY, 1.0], ["plain", None]])
    report.verdict(f"Table {NASTY}", "reproduced", f"Because {NASTY}")
    report.verdict("Table 2", "partly", "Some of it")
    report.verdict("Table 3", "partly", "Some of it too")
    report.measure("error", 0.5, better="lower", slack=0.1)
    report.show_figure(Picture(), bench.folder / "one.png", f"Caption {NASTY}")
    report.write_json("one", {}, bench.folder / "one.json", announce=False)
    # its report must not count: it failed after it had written something
    report.write_json("two", {}, bench.folder / "two.json", announce=False)
    make_run(
        bench.folder,
        one=("complete", ""),
        two=("failed", f"exit 3 {NASTY}"),
        lost=("complete", ""),
    )
    target = tmp_path / "target"
    results.write_results(results.collect(bench.folder), bench.folder, target)
    return target


# ----------------------------------------------------------------------------------------------
# Comparison
# ----------------------------------------------------------------------------------------------


def measures(path, **numbers):
    """Write a file of one benchmark: name=(value, better, slack)."""
    kept = {
        name.replace("_", " "): dict(zip(("value", "better", "slack"), number, strict=True))
        for name, number in numbers.items()
    }
    path.write_text(json.dumps({"report": {"measures": kept}}))
    return path


@pytest.mark.parametrize(
    ("better", "old", "new", "slack", "verdict", "code"),
    [
        ("higher", 1.0, 0.8, 0.1, "WORSE", 1),
        ("higher", 1.0, 1.2, 0.1, "better", 0),
        ("higher", 1.0, 0.95, 0.1, "", 0),
        ("lower", 1.0, 1.2, 0.1, "WORSE", 1),
        ("lower", 1.0, 0.8, 0.1, "better", 0),
        ("lower", 1.0, 1.05, 0.1, "", 0),
        ("lower", 1.0, 1.125, 0.125, "", 0),  # just what chance may do
        ("lower", 1.0, 1.0, 0.0, "", 0),
        ("lower", 1.0, 1.001, 0.0, "WORSE", 1),
        ("higher", -1.0, -2.0, 0.5, "WORSE", 1),
    ],
)
def test_worse_better_or_chance(tmp_path, capsys, better, old, new, slack, verdict, code):
    before = measures(tmp_path / "old.json", error=(old, better, slack))
    after = measures(tmp_path / "new.json", error=(new, better, slack))
    assert compare(before, after) == code
    lines = capsys.readouterr().out.splitlines()
    row = next(line.split() for line in lines if line.startswith("  error "))
    assert row[:4] == ["error", f"{old:.4g}", f"{new:.4g}", better]
    assert row[5:] == [verdict] * bool(verdict)
    assert max(map(len, lines)) < 100  # also where nothing is due to chance
    assert lines[-1] == f"{code} worse, {int(verdict == 'better')} better"


# ----------------------------------------------------------------------------------------------
# The command line
# ----------------------------------------------------------------------------------------------


def test_the_list_from_the_command_line():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "list"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines] == list(suite.NAMES)
    assert {line.split()[0] for line in lines} == {"papers", "peers"}


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (["papers"], ["one", "two"]),
        (["peers"], ["race"]),
        (["all", "--quick"], ["one", "two", "race"]),
        (["all", "--quick", "--only", "race,one"], ["one", "race"]),
    ],
)
def test_commands_run_what_they_say(bench, command, names):
    assert main([*command, "--folder", str(bench.folder), "--jobs", "1"]) == 0
    assert bench.ran() == names


# ----------------------------------------------------------------------------------------------
# The real benchmarks
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", suite.ENTRIES, ids=lambda one: one.name)
def test_benchmarks_exist_and_know_their_arguments(one):
    assert one.kind in results.KINDS
    assert set(one.data) <= set(list_datasets())
    source = Path(importlib.util.find_spec(one.module).origin).read_text("utf-8")
    if "options_of" in source:  # those that single claims share
        source += (ROOT / "benchmarks" / "papers" / "running.py").read_text("utf-8")
    options = {"--threads", "--output"} | {a for a in one.full + one.quick if a.startswith("--")}
    assert [option for option in sorted(options) if f'"{option}"' not in source] == []
