"""A Dask client that is lost during a fit: an error before long, and no rows brought here."""

import os
import subprocess
import sys
import threading
import time

import dask.array as da
import pytest
from distributed import Client
from rows_of_blocks import D, hold_few, make_rows, tight

from grayzone.sources import DaskSource

pytestmark = pytest.mark.cluster

SOON = 15.0  # seconds; Dask itself gives a scheduler up after 30


@pytest.fixture(autouse=True)
def few_held(monkeypatch):
    hold_few(monkeypatch)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """A scheduler and a worker, each a process of its own; gives the scheduler's and its file."""
    folder = tmp_path_factory.mktemp("scheduler")
    file, log = folder / "scheduler.json", folder / "log"
    options = {
        # any free port, as other tests have schedulers, too
        "scheduler": ["--port", "0", "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"],
        "worker": ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60"],
    }
    # the worker has to find `slowly`
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    started = []
    try:
        for role, given in options.items():
            command = [sys.executable, "-m", f"distributed.cli.dask_{role}", *given]
            with open(log, "a") as out:
                process = subprocess.Popen(
                    [*command, "--scheduler-file", file],
                    stdout=out,
                    stderr=out,
                    env={**os.environ, "PYTHONPATH": path},
                )
            started.append(process)
            while not file.exists():
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
        yield started[0], file
    finally:
        for process in started:
            process.kill()
            process.wait()


def slowly(rows):
    """Return rows, after a while; only a worker may ask for them."""
    assert "distributed.cli.dask_worker" in sys.argv[0].replace(os.sep, "."), "brought here"
    time.sleep(0.1)
    return rows


class Losing(DaskSource):
    """Rows whose client is lost in the course of the second reduction, or between two."""

    def lose(self, action, delay):
        self.action, self.delay, self.lost = action, delay, None

    def reduce(self, task):
        if len(self.traffic) == 1:
            timer = threading.Timer(self.delay, self.act)
            timer.start()
            if self.delay == 0.0:
                timer.join()
        return super().reduce(task)

    def act(self):
        self.lost = time.monotonic()  # before: closing may take longer than its notice
        self.action()


# the scheduler, which all share, is killed last
@pytest.mark.parametrize(
    ("how", "delay"),
    [("closed", 0.3), ("closed", 0.0), ("killed", 0.3)],
    ids=["closed within a reduction", "closed between reductions", "scheduler killed"],
)
def test_a_lost_client_ends_the_fit(how, delay, scheduler):
    process, file = scheduler
    X, y, weight = make_rows()
    clf = tight()
    with Client(scheduler_file=str(file), set_as_default=True) as client:
        client.wait_for_workers(1, timeout=60)
        rows = da.from_array(X, (250, D)).map_blocks(slowly, dtype=X.dtype, meta=X[:0])
        source = Losing(rows, y, weight)
        source.lose(client.close if how == "closed" else process.kill, delay)
        message = "was closed" if how == "closed" else "(has lost its scheduler|was closed)"
        with pytest.raises(RuntimeError, match=f"Dask client of the scheduler at tcp.*{message}"):
            clf.fit(source)
        assert source.lost is not None
        assert time.monotonic() - source.lost < SOON
        assert len(source.traffic) == 1
        assert not hasattr(clf, "n_features_in_")
        # nor does a later call of the same source find another home
        with pytest.raises(RuntimeError, match="Dask client of the scheduler"):
            next(source.blocks())
