"""Folders and files that are whole, old or new, whatever happens while they are written."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("skops")

from grayzone.cli import main
from grayzone.tables import output
from grayzone.tables.errors import UserError
from grayzone.training import job

NAMES = ("one", "two", "three")
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["exchange", "two renames"])
def way(request, monkeypatch):
    """Both ways of switching."""
    if request.param == "two renames":
        monkeypatch.setattr(output, "_exchanged", lambda one, other: False)
    elif not sys.platform.startswith("linux"):
        pytest.skip("Linux alone exchanges folders")


def written(text, overwrite=True, target="out", **options):
    with output.whole_folder(Path(target), NAMES, overwrite, **options) as part:
        for name in NAMES:
            (part / name).write_text(text)


def texts(folder="out"):
    return {Path(folder, name).read_text() for name in NAMES}


def hidden():
    return [path.name for path in Path().iterdir() if path.name.startswith(".")]


def test_a_folder_is_replaced_and_all_else_in_it_stays(way):
    written("old")
    Path("out/notes.txt").write_text("mine")
    Path("out/plots").mkdir()
    Path("out/plots/a.png").write_bytes(b"1")
    Path("out/link").symlink_to("notes.txt")
    Path("out").chmod(0o750)
    before = Path("out/notes.txt").stat().st_ino
    written("new")
    assert texts() == {"new"}
    assert Path("out/notes.txt").stat().st_ino == before
    assert Path("out/link").readlink() == Path("notes.txt")
    assert Path("out/plots/a.png").read_bytes() == b"1"
    assert Path("out").stat().st_mode & 0o777 == 0o750
    assert hidden() == []


def test_what_comes_in_while_the_folder_is_switched_stays(way, monkeypatch):
    written("old")
    sync = output._sync_all

    def late(*arguments):
        sync(*arguments)
        Path("out/late.txt").write_text("mine")

    monkeypatch.setattr(output, "_sync_all", late)
    written("new")
    assert texts() == {"new"}
    assert Path("out/late.txt").read_text() == "mine"
    assert hidden() == []


@POSIX
def test_all_is_on_the_disk_before_the_switch_and_the_switch_after_it(monkeypatch):
    """Nothing was synced before the rename."""
    written("old")
    done, sync, exchange = [], os.fsync, output._exchanged

    def synced(handle):
        done.append(os.fstat(handle).st_ino)
        sync(handle)

    def exchanged(one, other):
        own = {path.stat().st_ino for path in (one, *(one / name for name in NAMES))}
        assert own <= set(done)
        done.clear()
        return exchange(one, other)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(output, "_exchanged", exchanged)
    written("new")
    assert done == [Path().stat().st_ino]
    assert texts() == {"new"}


def test_an_error_leaves_the_old_folder(way):
    written("old")
    with (
        contextlib.suppress(ZeroDivisionError),
        output.whole_folder(Path("out"), NAMES, True) as p,
    ):
        (p / "one").write_text("new")
        raise ZeroDivisionError
    assert texts() == {"old"}
    assert hidden() == []


@pytest.mark.parametrize("name", ["replace", "link", "fsync", "unlink", "rmdir"])
@pytest.mark.parametrize("nth", [0, 1, 2, 3])
def test_a_call_of_the_system_that_fails_leaves_a_whole_folder(way, monkeypatch, name, nth):
    written("old")
    Path("out/notes.txt").write_text("mine")
    calls, real = [], getattr(os, name)

    def failing(*arguments, **options):
        calls.append(arguments)
        if len(calls) - 1 == nth:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments, **options)

    with monkeypatch.context() as patch, contextlib.suppress(OSError):
        patch.setattr(os, name, failing)
        written("new")
    assert texts() in ({"old"}, {"new"})
    written("newer")
    assert texts() == {"newer"}
    assert Path("out/notes.txt").read_text() == "mine"
    assert hidden() == []


# Processes that are killed

KILLED_LINES = """
import os, signal, sys
from pathlib import Path
from grayzone.tables import output

NAMES = ("one", "two", "three")
if sys.argv[1] == "two renames":
    output._exchanged = lambda one, other: False

def written(text):
    with output.whole_folder(Path("out"), NAMES, True) as part:
        for name in NAMES:
            (part / name).write_text(text)

def killed_at(k):
    # a process that ends at the k-th line of the module; whether it came that far
    child = os.fork()
    if child == 0:
        count = 0
        def tracer(frame, event, argument):
            nonlocal count
            if frame.f_code.co_filename != output.__file__:
                return None
            if event == "line":
                count += 1
                if count > k:
                    os.kill(os.getpid(), signal.SIGKILL)
            return tracer
        sys.settrace(tracer)
        written("new")
        sys.settrace(None)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0

k = outcomes = 0
seen = {}
while True:
    written("old")
    Path("out/notes.txt").write_text("mine")
    Path("out/plots").mkdir(exist_ok=True)
    Path("out/plots/a").write_text("mine")
    died = killed_at(k)
    place = output.set_aside(Path("out")) or Path("out")
    texts = {(place / name).read_text() for name in NAMES}
    assert texts in ({"old"}, {"new"}), (k, texts)
    assert (place / "notes.txt").read_text() == "mine", k
    seen[min(texts)] = seen.get(min(texts), 0) + 1
    written("old")
    assert Path("out/plots/a").read_text() == Path("out/notes.txt").read_text() == "mine", k
    assert os.listdir(".") == ["out"], (k, os.listdir("."))
    if not died:
        break
    k += 1
print(k, seen["old"], seen["new"])
"""


@POSIX
@pytest.mark.parametrize("way", ["exchange", "two renames"])
def test_a_kill_at_any_line_leaves_the_old_or_the_new_folder(way):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED_LINES, way],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines, old, new = map(int, done.stdout.split())
    assert lines > 100
    assert min(old, new) > 5


KILLED_TRAINING = """
import json, os, random, signal, sys, time
from pathlib import Path
import numpy as np, pandas as pd
import grayzone
from grayzone.cli import main
from grayzone.training import candidates, comparison

candidates.CS, candidates.FOLDS, comparison.FOLDS = (1.0,), 2, 2
rng = np.random.default_rng(0)
table = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
table["y"] = np.where(table["a"] > 0, "yes", "no")
table.to_csv("t.csv", index=False)

def train(cost):
    options = ["--target", "y", "--model", "logistic-regression", "--out", "out", "--json"]
    return main(["train", "t.csv", *options, "--overwrite", "--costs", f"FN={cost}"])

def forked(cost):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(train(cost))
    return child

train(2)
start = time.monotonic()
os.waitpid(forked(2), 0)
usual = time.monotonic() - start
random.seed(0)
whole = {"old": 0, "new": 0}
cost, n = 2, int(sys.argv[1])
for k in range(n):
    child = forked(cost + 1)
    # half of them around the end, where the folder is switched
    time.sleep(usual * (random.uniform(0, 1.1) if k % 2 else random.uniform(0.8, 1.05)))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = grayzone.load_model("out").stakes.costs[1, 0]
    assert json.loads(Path("out/metrics.json").read_text())["costs"][1][0] == found, k
    assert f'"costs": [[0.0, 1.0], [{found}, 0.0]]' in Path("out/report.html").read_text(), k
    listed = sorted(os.listdir("out"))
    assert listed == ["metrics.json", "model.skops", "report.html"], (k, listed)
    assert found in (cost, cost + 1)
    whole["old" if found == cost else "new"] += 1
    cost = int(found)
train(99)
assert sorted(os.listdir(".")) == ["out", "t.csv"], os.listdir(".")
print(json.dumps(whole), file=sys.stderr)
"""


@POSIX
def test_training_that_is_killed_leaves_the_old_or_the_new_model():
    """Killed between renames, a new model lay beside an old report."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    kills = os.environ.get("GRAYZONE_KILLS", "16")  # 50 take half a minute
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED_TRAINING, kills],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert sum(json.loads(done.stderr.splitlines()[-1]).values()) == int(kills)


LIVING = """
import sys, time
from pathlib import Path
from grayzone.tables import output
with output.whole_folder(Path("out"), ("one",), True) as part:
    print(part.name, flush=True)
    sys.stdin.readline()
    (part / "one").write_text("first")
"""


@POSIX
def test_what_a_living_run_holds_is_left_alone_and_what_a_dead_one_left_is_not():
    process = subprocess.Popen(
        [sys.executable, "-c", LIVING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    name = process.stdout.readline().strip()
    written("second")
    assert hidden() == [name]
    process.communicate("\n", timeout=60)
    assert Path("out/one").read_text() == "first"
    process = subprocess.Popen(
        [sys.executable, "-c", LIVING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    name = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    assert hidden() == [name]
    written("third")
    assert hidden() == []
    assert texts() == {"third"}


# What can be known before the work


def refuses(monkeypatch, *options, code=2):
    """Train where that must be refused before anything is compared; give the message."""
    monkeypatch.setattr(job, "compare", lambda *_, **__: pytest.fail("it was trained"))
    rows = "".join(f"{k},{'yes' if k % 2 else 'no'}\n" for k in range(40))
    Path("t.csv").write_text(f"a,y\n{rows}")
    before = sorted(Path().rglob("*"))
    assert main(["train", "t.csv", "--target", "y", *options]) == code
    assert sorted(Path().rglob("*")) == before


def test_a_full_disk_is_said_before_training(monkeypatch, capsys):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9, 10**6))
    refuses(monkeypatch)
    assert "has 1 MB left; a model and its report may well take 17 MB" in capsys.readouterr().err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_nothing_is_noticed_before_training(monkeypatch, capsys, number):
    def failing(self, data):
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "write_bytes", failing)
    refuses(monkeypatch, code=1)
    assert os.strerror(number) in capsys.readouterr().err


def test_a_folder_that_may_not_be_written_to_is_said_before_training(monkeypatch, capsys):
    Path("out").mkdir()
    if os.name == "posix" and os.geteuid() == 0:  # nothing is forbidden to root
        monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    else:
        Path("out").chmod(0o555)
    refuses(monkeypatch, "--out", "out")
    assert "--out out: it may not be written to; choose another" in capsys.readouterr().err


def test_a_folder_that_has_vanished_is_said_before_training(monkeypatch, capsys):
    refuses(monkeypatch, "--out", "gone/out")
    assert "gone does not exist; choose another folder" in capsys.readouterr().err
    assert not Path("gone").exists()


@POSIX
def test_folders_that_cannot_be_replaced_are_said_before_training(monkeypatch, capsys, here):
    refuses(monkeypatch, "--out", ".")
    assert "you are in it" in capsys.readouterr().err
    Path("loop").symlink_to("loop")
    refuses(monkeypatch, "--out", "loop")
    assert "a link that leads nowhere" in capsys.readouterr().err
    Path("out").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "out")
    refuses(monkeypatch, "--out", "out")
    assert "a file system is mounted there" in capsys.readouterr().err


def test_files_that_are_folders_are_said_before_training(monkeypatch, capsys):
    Path("out/metrics.json").mkdir(parents=True)
    refuses(monkeypatch, "--out", "out", "--overwrite")
    assert "metrics.json is a folder there; expected a file" in capsys.readouterr().err


def test_a_link_to_a_folder_stays_one():
    Path("far").mkdir()
    Path("out").symlink_to("far")
    written("new")
    assert Path("out").is_symlink()
    assert texts("far") == {"new"}


# Files


def test_a_file_needs_a_folder_that_is_there():
    with pytest.raises(UserError, match="gone does not exist; expected a folder"):
        output.whole_file(Path("gone/d.csv"), lambda part: part.write_text("x"))
    assert not Path("gone").exists()


def test_a_file_that_was_cut_off_in_a_part_of_a_folder_does_not_move_to_the_folder():
    written("old")
    part = Path(".out.0123abcd.part")
    part.mkdir()
    (part / ".one.89abcdef.part").write_text("half")
    (part / "notes.txt").write_text("mine")
    written("new")
    assert sorted(os.listdir("out")) == sorted([*NAMES, "notes.txt"])
    assert hidden() == []


def test_files_of_killed_runs_are_removed_by_the_next():
    Path(".d.csv.0123abcd.part").write_text("half")
    Path(".d.csv.mine.part").write_text("not ours")
    output.whole_file(Path("d.csv"), lambda part: part.write_text("whole"))
    assert Path("d.csv").read_text() == "whole"
    assert hidden() == [".d.csv.mine.part"]
