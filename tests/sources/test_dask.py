"""Dask arrays and frames: the same model on any number of workers, also when some die."""

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client, KilledWorker, LocalCluster, Status
from rows_of_blocks import NAMES, D, N, assert_same_model, hold_few, make_rows, tight
from sklearn.linear_model import LogisticRegression

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachineCV,
    MinimaxProbabilityMachine,
    TightBoundClassifier,
    TightBoundLogisticRegressionCV,
    TruncatedLogisticRegression,
)
from grayzone.solvers.truncated import readings
from grayzone.sources import DaskSource
from grayzone.sources import dask as dask_module

CHUNK = 250
METHODS = ("decision_function", "predict", "predict_proba", "predict_log_proba")


@pytest.fixture(autouse=True)
def few_held(monkeypatch):
    hold_few(monkeypatch)


@pytest.fixture(scope="module")
def data():
    return make_rows()


@pytest.fixture(scope="module")
def frames(data):
    X, y, weight = data
    frame = pd.DataFrame(X, columns=NAMES).assign(label=y, weight=weight)
    return dd.from_pandas(frame, npartitions=7)


@pytest.fixture(scope="module")
def cluster():
    """One cluster of processes for all tests; it begins with a single worker."""
    # by default a local cluster looks 15 s after a loss whether the worker is back, and gives it up
    # for good if it is not: also where a later kill is why
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}):
        started = LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address=None,
            silence_logs=50,
        )
        try:
            with Client(started):
                yield started
        finally:
            try:
                started.close()
            except KeyError:
                # distributed looks up a worker that was killed and is not in its books any more,
                # when all processes have ended: nothing but the status is left to change
                started.status = Status.closed


def chunked(data):
    X, y, weight = data
    return da.from_array(X, chunks=(CHUNK, D)), da.from_array(y, chunks=CHUNK), weight


def unknown(X):
    """The same rows in chunks whose sizes are not known."""
    return X[da.ones(X.shape[0], chunks=X.chunks[0], dtype=bool)]


GIVEN = {
    "arrays": lambda X, y, w: (da.from_array(X, (CHUNK, D)), da.from_array(y, CHUNK), w),
    "chunks of columns": lambda X, y, w: (da.from_array(X, (300, 2)), da.from_array(y, 300), w),
    "other chunks": lambda X, y, w: (
        da.from_array(X, (300, D)),
        da.from_array(y, 170),
        da.from_array(w, 1000),
    ),
    "NumPy labels": lambda X, y, w: (da.from_array(X, (CHUNK, D)), y, w),
    "labels in a column": lambda X, y, w: (da.from_array(X, (CHUNK, D)), y[:, None], w),
    "unknown sizes": lambda X, y, w: (
        unknown(da.from_array(X, (300, 2))),
        unknown(da.from_array(y, 170)),
        da.from_array(w, 1000),
    ),
    "CSR chunks": lambda X, y, w: (da.from_array(X, (300, D)).map_blocks(sp.csr_array), y, w),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_arrays_give_the_model_of_rows_in_memory(kind, data):
    found = tight().fit(*GIVEN[kind](*data))
    assert_same_model(tight().fit(*data), found)
    assert found.n_features_in_ == D


def test_one_weight_for_all(data):
    X, y, _ = chunked(data)
    assert_same_model(tight().fit(data[0], data[1], 2.0), tight().fit(X, y, 2.0))


# ------------------------------------------------------------------- arrays and frames, one process


def test_empty_chunks_do_no_harm(data):
    X, y, weight = chunked(data)
    kept = np.repeat([True, False, True, True, True, True, True, False], CHUNK)
    mask = da.from_array(kept, chunks=CHUNK)
    clf = tight().fit(X[mask], y[mask], weight[kept])
    assert_same_model(tight().fit(*(a[kept] for a in data)), clf)
    assert clf.predict_proba(X[mask]).compute().shape == (kept.sum(), 2)
    with pytest.raises(ValueError, match="There are no rows"):
        tight().fit(X[mask & ~mask], y[mask & ~mask])


def test_empty_partitions_do_no_harm(data, frames):
    some = frames.map_partitions(lambda part: part[(part.index < 500) | (part.index >= 1200)])
    rows = some.compute()
    assert 0 in some.map_partitions(len).compute().tolist()
    clf = tight().fit(some[NAMES], some["label"], some["weight"])
    assert_same_model(tight().fit(rows[NAMES], rows["label"], rows["weight"]), clf)
    assert clf.predict(some[NAMES]).compute().shape == (len(rows),)
    with pytest.raises(ValueError, match="There are no rows"):
        tight().fit(frames[NAMES][frames["a"] > 1e9], frames["label"][frames["a"] > 1e9])


def test_what_travels_is_counted_and_small(data):
    X, y, _ = data

    def traffic(repeated):
        chunks = CHUNK * repeated
        source = DaskSource(
            da.from_array(np.tile(X, (repeated, 1)), (chunks, D)), np.tile(y, repeated)
        )
        tight().fit(source)
        return source.traffic

    found = traffic(1)
    assert {"census", "reading"} <= {name for name, _, _ in found}
    assert all(out < 1500 for _, out, _ in found)
    # rows that come back are those near the kink, of which 4 x 400 may be held, and the sample
    entry = (D + 3) * 8
    assert all(back < 5000 + 1600 * entry for _, _, back in traffic(8))


def test_errors_of_dask_input(data, frames):
    X, y, _ = chunked(data)
    with pytest.raises(ValueError, match=r"y must have one entry a row; X has 2000 rows, got 1999"):
        tight().fit(X, y[:-1])
    with pytest.raises(ValueError, match="X has 2000 rows, got 10"):
        tight().fit(X, data[1][:10])
    with pytest.raises(ValueError, match="y must not be None"):
        tight().fit(X)
    with pytest.raises(ValueError, match="X must have two dimensions"):
        tight().fit(X[:, 0], y)
    words = frames.assign(a=frames["a"].astype(str))
    with pytest.raises(ValueError, match="column 'a' must be made of numbers"):
        tight().fit(words[NAMES], frames["label"])
    with pytest.raises(ValueError, match="must be an array or a data frame; got Series"):
        tight().fit(frames["a"], frames["label"])
    hole = da.where(da.arange(N, chunks=CHUNK)[:, None] == 700, np.nan, X)
    with pytest.raises(ValueError, match="NaN or infinity, in rows 500 to 749"):
        tight().fit(hole, y)


def test_dask_is_not_imported_for_numpy():
    code = (
        "import sys, numpy as np; from grayzone import TruncatedLogisticRegression as T;"
        "T().fit(np.eye(4), [0, 1, 0, 1]).predict(np.eye(4)); print('dask' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# ------------------------------------------------------------------------------------- predictions


@pytest.fixture
def nothing_computed():
    """Fail where a graph is computed before it is asked for."""

    def refuse(*args, **kwargs):
        raise AssertionError("computed")

    with dask.config.set(scheduler=refuse):
        yield


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def fitted(request, data):
    X, y, _ = data
    labels = y if request.param == 2 else y + (X[:, 0] > 0.5)
    return TruncatedLogisticRegression().fit(X, labels)


def assert_lazy(method, X):
    """Check that predictions for X in chunks of columns, too, wait until they are asked for."""
    chunks = da.from_array(X, chunks=(300, 2))
    lazy, expected = method(chunks), method(X)
    assert isinstance(lazy, da.Array)
    assert lazy.chunks[0] == chunks.chunks[0]
    assert lazy.name.startswith(f"grayzone-{method.__name__.replace('_', '-')}-")
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    assert lazy._meta.ndim == expected.ndim
    found = lazy.compute(scheduler="synchronous")
    assert found.dtype == lazy.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_predictions_for_arrays_are_lazy(dtype, fitted, data, nothing_computed):
    for method in METHODS:
        assert_lazy(getattr(fitted, method), (4 * data[0]).astype(dtype))


def test_predictions_for_frames_are_lazy(data, frames):
    clf = TruncatedLogisticRegression().fit(frames[NAMES].compute(), data[1])
    for method in METHODS:
        lazy = getattr(clf, method)(frames[NAMES])
        assert isinstance(lazy, da.Array)
        expected = getattr(clf, method)(frames[NAMES].compute())
        assert lazy.dtype == expected.dtype
        np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-12, atol=1e-14)
        with pytest.raises(ValueError, match="feature names should match"):
            getattr(clf, method)(frames[NAMES[::-1]])


# ------------------------------------------------------------------------- models for other rows


IN_MEMORY = {
    MinimaxProbabilityMachine(): "SparseMinimaxProbabilityMachine or ImportVectorMachine",
    TightBoundClassifier(LogisticRegression()): "TightBoundLogisticRegression takes blocks",
    TightBoundLogisticRegressionCV(): "a sample of the rows, then fit TightBoundLogisticRegression",
    BayesDecisionClassifier(LogisticRegression()): "FrozenEstimator",
}


@pytest.mark.parametrize("model", IN_MEMORY, ids=lambda model: type(model).__name__)
def test_models_for_rows_in_memory_compute_nothing(model, data, frames, nothing_computed):
    X, y, _ = chunked(data)
    message = f"{type(model).__name__} takes no blocks.*{IN_MEMORY[model]}"
    for given in ((X, y), (frames[NAMES], frames["label"]), (frames["a"], frames["label"])):
        with pytest.raises(ValueError, match=message):
            model.fit(*given)
    assert not hasattr(model, "n_features_in_")


# ------------------------------------------------------------------------------------- schedulers


def test_threads_and_one_thread_give_the_same_bits(data):
    found = []
    for scheduler in ("synchronous", "threads"):
        with dask.config.set(scheduler=scheduler):
            found.append(tight().fit(*chunked(data)))
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)


def test_the_scheduler_of_the_beginning_is_that_of_the_end(data, nothing_computed):
    X, y, weight = chunked(data)
    with dask.config.set(scheduler="synchronous"):
        source = DaskSource(X, y, weight)
    assert_same_model(tight().fit(*data), tight().fit(source))
    assert [block.first for block in source.blocks()] == list(range(0, N, CHUNK))


def test_chunks_that_are_drawn_anew_are_noticed(data):
    X, y, _ = chunked(data)
    rng = np.random.default_rng(0)
    noisy = X.map_blocks(lambda rows: rows + rng.normal(size=rows.shape), dtype=X.dtype)
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(RuntimeError, match=r"Rows \d+ to \d+ are not those of the first"),
    ):
        tight().fit(noisy, y)


# ----------------------------------------------------------------------------- what may go wrong


@pytest.mark.parametrize(("failures", "survives"), [(2, True), (3, False)])
def test_a_reduction_whose_workers_died_is_tried_again(failures, survives, data, monkeypatch):
    X, y, weight = chunked(data)
    source, tries = DaskSource(X, y, weight), []
    reduced = source._reduced

    def failing(task, name):
        tries.append(name)
        if len(tries) <= failures:
            raise KilledWorker("key", None, 3)
        return reduced(task, name)

    monkeypatch.setattr(source, "_reduced", failing)
    if survives:
        assert source.reduce(rows_of)["rows"] == N
    else:
        with pytest.raises(KilledWorker):
            source.reduce(rows_of)
    assert tries == ["rows-of"] * 3
    assert len(source.traffic) == int(survives)


def test_errors_of_tasks_are_not_tried_again(data, monkeypatch):
    X, y, weight = chunked(data)
    source, tries = DaskSource(X, y, weight), []

    def wrong(task, name):
        tries.append(name)
        raise ValueError("wrong")

    monkeypatch.setattr(source, "_reduced", wrong)
    with pytest.raises(ValueError, match="wrong"):
        source.reduce(rows_of)
    assert len(tries) == 1


def rows_of(block):
    return {"rows": block.X.shape[0]}


def test_an_interrupted_fit_leaves_the_estimator_as_it_was(data, monkeypatch):
    clf = tight()
    X, y, weight = chunked(data)

    def interrupted(self, task, name):
        raise KeyboardInterrupt

    monkeypatch.setattr(DaskSource, "_reduced", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y, weight)
    assert not hasattr(clf, "n_features_in_")


def test_names_and_sizes():
    assert dask_module._name(readings.Reading(None, None, 0.0, False, None)) == "reading"
    assert dask_module._name(rows_of) == "rows-of"
    values = {"a": np.zeros(1000), "b": [np.ones(10)]}
    assert dask_module._size(values) >= 8080
    assert abs(dask_module._size(values) - len(pickle.dumps(values))) < 300
    assert dask_module._size(lambda block: block) > 0


# -------------------------------------------------------------------------------------- a cluster


def test_the_same_bits_on_1_2_and_4_workers(cluster, data):
    expected, found = tight().fit(*data), []
    for workers in (1, 2, 4):
        cluster.scale(workers)
        Client.current().wait_for_workers(workers, timeout=60)
        X, y, weight = chunked(data)
        source = DaskSource(X, y, weight)
        found.append(tight().fit(source))
        assert_same_model(expected, found[-1])
        assert "reading" in {name for name, _, _ in source.traffic}
    for other in found[1:]:
        np.testing.assert_array_equal(other.coef_, found[0].coef_)
        np.testing.assert_array_equal(other.intercept_, found[0].intercept_)
    lazy = found[0].predict_proba(da.from_array(data[0], chunks=(CHUNK, D)))
    np.testing.assert_allclose(lazy.compute(), found[0].predict_proba(data[0]), rtol=1e-12)


def fitted_there(X, y):
    return tight().fit(da.from_array(X, (CHUNK, D)), y)


def test_a_fit_within_a_task_leaves_room_for_its_own(cluster, data):
    X, y, _ = data
    found = Client.current().submit(fitted_there, X, y).result(timeout=120)
    assert_same_model(tight().fit(X, y), found)


class Disturbed(DaskSource):
    """Rows of which a worker dies in the course of a given reduction."""

    def disturb(self, cluster, reduction, delay):
        self.cluster, self.reduction, self.delay, self.killed = cluster, reduction, delay, None

    def reduce(self, task):
        if len(self.traffic) == self.reduction:
            timer = threading.Timer(self.delay, self.kill)
            timer.start()
            try:
                return super().reduce(task)
            finally:
                timer.join()
        return super().reduce(task)

    def kill(self):
        self.killed = random.choice([n.pid for n in self.cluster.workers.values() if n.pid])
        os.kill(self.killed, signal.SIGKILL)


def searching():
    return ImportVectorMachineCV(
        Cs=[0.1, 10.0],
        cv=2,
        scoring="neg_log_loss",
        max_import_points=2,
        n_candidates=20,
        random_state=0,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize(
    ("make", "kills", "names"),
    [
        (tight, 3, ("coef_", "intercept_")),
        (searching, 1, ("scores_", "import_points_", "dual_coef_", "intercept_")),
    ],
    ids=["fit", "search"],
)
def test_a_worker_that_is_killed_changes_nothing(make, kills, names, cluster, data):
    cluster.scale(2)
    Client.current().wait_for_workers(2, timeout=60)
    X, y, weight = chunked(data)
    X, y = dask.persist(X, y)
    plain = DaskSource(X, y, weight)
    expected = make().fit(plain)
    for _ in range(kills):
        source = Disturbed(X, y, weight)
        source.disturb(cluster, random.randrange(len(plain.traffic)), random.uniform(0.0, 0.02))
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(make().fit, source).result(timeout=60)
        assert source.killed is not None
        assert [name for name, _, _ in source.traffic] == [name for name, _, _ in plain.traffic]
        for name in names:
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
