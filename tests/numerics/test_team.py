"""Parts of compiled loops that threads take: results, limits, and what is left behind."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from grayzone.numerics import team, threads
from grayzone.numerics.compiled import loop
from grayzone.numerics.packed import packed
from grayzone.numerics.threads import LOOPS, ONE_PRODUCT, blas, edges, split


@loop()
def put(X, rows, factor, shift, is_turned, out, total, start, stop):
    """Set out, add to total, and return the sum: an argument of every kind there is."""
    found = 0.0
    for i in range(start, stop):
        for j in range(X.shape[1]):
            value = factor * X[rows[i], j] + shift
            out[i, j] = -value if is_turned else value
            total[j] += out[i, j]
            found += out[i, j]
    return found


@loop()
def count(out, start, stop):
    """Add one, slowly enough for others to take parts, too."""
    for i in range(start, stop):
        for _ in range(20):
            out[i] += 1


@loop()
def refuse(values, start, stop):
    """Raise an error where there is a number below zero."""
    for i in range(start, stop):
        if values[i] < 0.0:
            raise ValueError("below zero")
    return 0.0


@pytest.fixture(autouse=True, params=[2, 8])
def processors(monkeypatch, request):
    """Threads that take parts beside the caller, whatever machine this is."""
    monkeypatch.setattr(threads, "processors", lambda: request.param)


def kinds_of_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    fixed = X.copy()
    fixed.flags.writeable = False
    unaligned = np.empty(60 * 5 * 8 + 1, dtype=np.uint8)[1:].view(np.float64).reshape(60, 5)
    unaligned[...] = X
    return {
        "by rows": X,
        "by columns": np.asfortranarray(X),
        "every second": np.repeat(X, 2, axis=0)[::2],
        "backwards": X[::-1],
        "single precision": X.astype(np.float32),
        "fixed": fixed,
        "unaligned": unaligned,
        "whole numbers": (10 * X).astype(np.int64),
    }


@pytest.mark.parametrize("parts", [1, 2, 3, 16, 61])
@pytest.mark.parametrize("kind", kinds_of_rows())
def test_parts_are_those_of_the_loop(kind, parts):
    X = kinds_of_rows()[kind]
    rows = np.random.default_rng(1).integers(60, size=60)
    ends = [60 * k // parts for k in range(parts + 1)]
    for factor, shift, is_turned in ((2.0, 3, True), (np.float64(-0.5), np.int64(-1), False)):
        out, total = np.full((60, 5), np.nan), np.zeros((parts, 5))
        found = team.share(put, (X, rows, factor, shift, is_turned, out), (total,), ends)
        expected = (-1.0 if is_turned else 1.0) * (factor * X[rows].astype(float) + shift)
        np.testing.assert_array_equal(out, expected)
        for k, (start, stop) in enumerate(pairwise(ends)):
            np.testing.assert_allclose(total[k], expected[start:stop].sum(axis=0), atol=1e-12)
            assert found[k] == pytest.approx(expected[start:stop].sum(), abs=1e-12)


def test_every_part_is_done_once():
    out = np.zeros(1000, dtype=np.int64)
    for _ in range(300):
        team.share(count, (out,), (), [0, 1, 7, 300, 300, 301, 900, 1000])
    np.testing.assert_array_equal(out, 300 * 20)


def test_more_parts_than_a_ticket_has_room_for():
    out = np.zeros(1000, dtype=np.int64)
    team.share(count, (out,), (), list(range(1001)))
    np.testing.assert_array_equal(out, 20)


def test_jobs_of_python_call_threads_out_of_compiled_loops():
    out = np.zeros(400, dtype=np.int64)
    with blas().limit(limits=4):
        for _ in range(50):
            team.share(count, (out,), (), [0, 100, 200, 300, 400])
            found = split(400, lambda a, b: b - a, threads=1e6, kind=ONE_PRODUCT)
            assert found == [100] * 4
    np.testing.assert_array_equal(out, 50 * 20)


@pytest.mark.parametrize("parts", [1, 4])
def test_errors_of_a_part_are_told(parts):
    values = np.ones(100)
    ends = [100 * k // parts for k in range(parts + 1)]
    team.share(refuse, (values,), (), ends)
    values[60] = -1.0
    with pytest.raises((ValueError, RuntimeError), match=r"below zero|failed on some rows"):
        team.share(refuse, (values,), (), ends)
    values[60] = 1.0
    assert team.share(refuse, (values,), (), ends) == [0.0] * parts


def test_numbers_that_no_loop_is_compiled_for_are_refused():
    with pytest.raises(TypeError, match="float32 is no array, float, int or bool"):
        packed(count, [np.ones(3), np.float32(1.0)], [], [0, 1, 2])


def test_no_more_threads_wait_than_there_are_processors(monkeypatch):
    called = []
    monkeypatch.setattr(team, "_team", team._Team())
    monkeypatch.setattr(
        threads.Crew, "help_with", lambda self, work, hands: called.append(hands)
    )  # nobody comes
    out = np.zeros(100, dtype=np.int64)
    for n in (1, 3, 200):
        monkeypatch.setattr(threads, "processors", lambda n=n: n)
        team.share(count, (out,), (), list(range(0, 101, 10)))
    assert called == [2, 7]  # two of nine are there by then
    np.testing.assert_array_equal(out, 3 * 20)


@pytest.mark.parametrize("allowed", [1, 3])
def test_limits_of_threads_hold(allowed):
    with blas().limit(limits=allowed):
        assert len(edges(1000, threads=1e6, kind=LOOPS)) == allowed + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    out = np.zeros(400, dtype=np.int64)
    team.share(count, (out,), (), [0, 100, 400])
    child = os.fork()
    if child == 0:
        team.share(count, (out,), (), [0, 100, 400])
        os._exit(0 if np.all(out == 40) else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(out, 20)


ENDS_AT_ONCE = """
import numpy as np
from grayzone.numerics import team
from grayzone.numerics.jit_losses import slope

u, floor, out = np.ones(1000), np.zeros(1000), np.empty(1000)
for _ in range(50):
    team.share(slope, (u, floor, out), (), [0, 300, 600, 1000])
print("done", flush=True)
"""


@pytest.mark.parametrize("processors", [2], indirect=True)  # which no other process hears of
def test_a_process_ends_while_threads_wait_in_compiled_loops():
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", ENDS_AT_ONCE], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
