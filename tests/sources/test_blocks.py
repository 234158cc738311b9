"""Rows from files and iterators: the same model as from memory, in memory that does not grow."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import feather, parquet
from rows_of_blocks import NAMES, D, N, assert_same_model, hold_few, make_rows, tight
from sklearn.linear_model import LogisticRegression

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachine,
    MinimaxProbabilityMachine,
    TightBoundClassifier,
    TightBoundLogisticRegression,
    TightBoundLogisticRegressionCV,
    TruncatedLogisticRegression,
)
from grayzone.sources import Block, Source, from_batches, labelled, open_npy, open_parquet, seen
from grayzone.sources import source as source_module


@pytest.fixture
def few_held(monkeypatch):
    hold_few(monkeypatch)


@pytest.fixture(scope="module")
def data():
    return make_rows()


# --------------------------------------------------------------------------- all kinds, one model


def saved(folder, X, y, weight):
    for name, values in (("X", X), ("y", y), ("w", weight)):
        np.save(folder / f"{name}.npy", values)
    return [folder / f"{name}.npy" for name in "Xyw"]


def npy(folder, X, y, weight):
    return open_npy(*saved(folder, X, y, weight), block_rows=300)


def npy_by_columns(folder, X, y, weight):
    return open_npy(*saved(folder, np.asfortranarray(X), y, weight), block_rows=300)


def mapped(folder, X, y, weight):
    """Views into one table: X, y and weights are columns of it, rows from the tenth on."""
    table = np.column_stack([weight, X, y])
    np.save(folder / "table.npy", np.vstack([np.zeros((10, D + 2)), table]))
    view = np.load(folder / "table.npy", mmap_mode="r")[10:]
    return open_npy(view[:, 1:-1], view[:, -1], view[:, 0], block_rows=300)


def frame_of(X, y, weight):
    return pd.DataFrame(X, columns=NAMES).assign(label=y, weight=weight)


def one_parquet(folder, X, y, weight):
    frame_of(X, y, weight).to_parquet(folder / "rows.parquet", row_group_size=450)
    return open_parquet(folder / "rows.parquet", "label", "weight", block_rows=300)


def folder_of_parquet(folder, X, y, weight):
    for k in range(4):
        part = slice(500 * k, 500 * (k + 1))
        rows = pa.Table.from_pandas(frame_of(X[part], y[part], weight[part]))
        parquet.write_table(rows, folder / f"part-{k}.parquet", row_group_size=100)
    return open_parquet(folder, target="label", weight="weight", block_rows=300)


def arrow(folder, X, y, weight):
    rows = pa.Table.from_pandas(frame_of(X, y, weight))
    feather.write_feather(rows, folder / "rows.arrow", chunksize=450)
    return open_parquet(folder / "rows.arrow", "label", "weight", block_rows=300)


def batches(make):
    def source(folder, X, y, weight):
        parts = [slice(k, k + 300) for k in range(0, N, 300)]
        return from_batches(lambda: ((make(X[p]), y[p], weight[p]) for p in parts))

    return source


SOURCES = {
    "npy": npy,
    "npy, Fortran order": npy_by_columns,
    "npy, views of a map": mapped,
    "parquet": one_parquet,
    "parquet folder": folder_of_parquet,
    "arrow": arrow,
    "batches": batches(np.asarray),
    "batches, pandas": batches(lambda X: pd.DataFrame(X, columns=NAMES)),
    "batches, polars": batches(lambda X: pl.DataFrame(X, schema=NAMES)),
    "batches, CSR": batches(sp.csr_array),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_blocks_give_every_row_once_each_time(kind, data, tmp_path):
    X, y, weight = data
    source = SOURCES[kind](tmp_path, *data)
    for _ in range(2):
        blocks = list(source.blocks())
        rows = [b.X.toarray() if sp.issparse(b.X) else b.X for b in blocks]
        np.testing.assert_array_equal(np.concatenate(rows), X)
        np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), y)
        np.testing.assert_array_equal(np.concatenate([b.weight for b in blocks]), weight)
        assert [b.first for b in blocks] == np.cumsum([0, *map(len, rows)])[:-1].tolist()
        assert max(map(len, rows)) <= 300


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tasks_are_given_pieces_of_blocks(dtype, data, tmp_path, few_held, monkeypatch):
    X, y, weight = data
    X = X.astype(dtype)
    monkeypatch.setattr(Source, "at_a_time", 70 * D)
    seen = []

    def task(rows):
        seen.append((rows.first, len(rows.codes), rows.X.dtype, rows.design().X.dtype))
        return {
            "X": rows.X.T.astype(float) @ rows.X,
            "weight": rows.weight.sum(),
            "codes": [rows.codes],
        }

    source = npy(tmp_path, X, y, weight)
    monkeypatch.setattr(source_module, "n_workers", lambda: 1)  # so that pieces come one by one
    sums = labelled.label(source).reduce(task)
    np.testing.assert_allclose(sums["X"], X.T.astype(float) @ X.astype(float), rtol=1e-12)
    assert sums["weight"] == pytest.approx(weight.sum())
    np.testing.assert_array_equal(np.concatenate(sums["codes"]), y)
    firsts, lengths, kinds, summed = zip(*seen, strict=True)
    assert max(lengths) == 70
    assert firsts == tuple(np.cumsum([0, *lengths[:-1]]))
    assert set(kinds) == {np.dtype(dtype)}
    assert set(summed) == {np.dtype(np.float64)}
    assert_same_model(tight().fit(X, y, weight), tight().fit(source))


@pytest.mark.parametrize(
    ("given", "expected"),
    [(np.float32, np.float32), (np.int16, np.float64), (">f8", np.float64), (bool, np.float64)],
)
def test_kinds_of_numbers(given, expected, tmp_path):
    X = np.array([[0, 1], [1, 0], [1, 1]]).astype(given)
    np.save(tmp_path / "X.npy", X)
    (block,) = open_npy(tmp_path / "X.npy").blocks()
    assert block.X.dtype == expected
    np.testing.assert_array_equal(block.X, X.astype(float))
    (block,) = from_batches(lambda: iter([(X, None)])).blocks()
    assert block.X.dtype == expected


def test_labels_may_be_words(data, tmp_path):
    X, y, weight = data
    words = np.array(["no", "yes"])[y]
    frame = frame_of(X, pd.Categorical(words), weight)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=500)
    clf = tight().fit(open_parquet(tmp_path / "t.parquet", "label", "weight"))
    assert clf.classes_.tolist() == ["no", "yes"]
    assert clf.feature_names_in_.tolist() == NAMES
    predicted = np.concatenate(list(clf.predict(open_parquet(tmp_path, columns=NAMES))))
    np.testing.assert_array_equal(predicted, clf.predict(frame[NAMES]))
    assert np.mean(predicted == words) > 0.7


# ----------------------------------------------------------------------------------- empty blocks


def npy_without_rows(folder, X, y):
    np.save(folder / "X.npy", X)
    return open_npy(folder / "X.npy", y)


def parquet_without_rows(folder, X, y):
    pd.DataFrame(X, columns=NAMES).assign(label=y).to_parquet(folder / "t.parquet")
    return open_parquet(folder / "t.parquet", "label")


def arrow_without_rows(folder, X, y):
    rows = pa.Table.from_pandas(pd.DataFrame(X, columns=NAMES).assign(label=y))
    feather.write_feather(rows, folder / "t.arrow")
    return open_parquet(folder / "t.arrow", "label")


@pytest.mark.parametrize("make", [npy_without_rows, parquet_without_rows, arrow_without_rows])
def test_files_without_rows(make, data, tmp_path):
    X, y, _ = data
    source = make(tmp_path, X[:0], y[:0])
    assert read(source) == []
    assert list(tight().fit(X, y).predict(source)) == []
    raises("There are no rows", lambda: tight().fit(source))


def test_empty_row_groups_and_files_are_passed_over(data, tmp_path):
    X, y, weight = data
    frame = frame_of(X, y, weight)
    with parquet.ParquetWriter(tmp_path / "1.parquet", pa.Schema.from_pandas(frame)) as writer:
        for part in (frame[:0], frame[:700], frame[:0], frame[700:1200]):
            writer.write_table(pa.Table.from_pandas(part), row_group_size=1000)
    schema = pa.Schema.from_pandas(frame)
    with pa.ipc.new_file(tmp_path / "2.arrow", schema) as writer:
        for part in (frame[:0], frame[1200:], frame[:0]):
            writer.write_batch(pa.RecordBatch.from_pandas(part, schema))
    frame[:0].to_parquet(tmp_path / "3.parquet")
    source = open_parquet(tmp_path, "label", "weight", block_rows=300)
    sizes = [len(block.X) for block in source.blocks()]
    assert (min(sizes) > 0, sum(sizes)) == (True, N)
    assert_same_model(tight().fit(*data), tight().fit(source))


@pytest.mark.parametrize("kind", ["arrays", "CSR", "frames", "frames of objects"])
def test_empty_batches_are_passed_over(kind, data):
    X, y, _ = data
    as_rows = {"arrays": np.asarray, "CSR": sp.csr_array}.get(
        kind, lambda rows: pd.DataFrame(rows, columns=NAMES)
    )
    nothing = as_rows(X[:0]) if kind != "frames of objects" else pd.DataFrame(columns=NAMES)
    # a query that found nothing need not know what it looked for
    parts = [(nothing, y[:0]), (as_rows(X[:900]), y[:900]), (nothing, []), (nothing, None)]
    source = from_batches(lambda: iter([*parts, (as_rows(X[900:]), y[900:])]))
    assert [block.X.shape[0] for block in source.blocks()] == [900, 1100]
    assert_same_model(tight().fit(X, y), tight().fit(source))
    assert [labels.size for labels in tight().fit(X, y).predict(source)] == [900, 1100]
    raises("There are no rows", lambda: from_batches(lambda: iter([(nothing, y[:0])])))


class WithHoles(Source):
    """A source of someone else's, which gives empty blocks, too."""

    def __init__(self, X, y):
        self.X, self.y, self.n_features = X, y, X.shape[1]

    def blocks(self):
        for a in range(0, N, 500):
            yield Block(self.X[:0], self.y[:0], None, a)
            yield Block(self.X[a : a + 500], self.y[a : a + 500], None, a)


@pytest.mark.parametrize(
    "model",
    [
        TruncatedLogisticRegression(tol=1e-14),
        TightBoundLogisticRegression(validation_fraction=0.3, random_state=0),
        ImportVectorMachine(max_import_points=3, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_tasks_are_given_no_empty_blocks(model, data):
    X, y, _ = data
    full = from_batches(lambda: ((X[a : a + 500], y[a : a + 500]) for a in range(0, N, 500)))
    expected = model.fit(full).decision_function(X)
    np.testing.assert_array_equal(model.fit(WithHoles(X, y)).decision_function(X), expected)
    sizes = [scores.size for scores in model.decision_function(WithHoles(X, y))]
    assert sizes == [0, 500] * 4


# ------------------------------------------------------------------------------------------ errors

IN_MEMORY = {
    MinimaxProbabilityMachine(): "SparseMinimaxProbabilityMachine or ImportVectorMachine",
    TightBoundClassifier(LogisticRegression()): "TightBoundLogisticRegression takes blocks",
    TightBoundLogisticRegressionCV(): "a sample of the rows, then fit TightBoundLogisticRegression",
    BayesDecisionClassifier(LogisticRegression()): "FrozenEstimator",
}


@pytest.mark.parametrize("model", IN_MEMORY, ids=lambda model: type(model).__name__)
def test_models_for_rows_in_memory_say_what_to_use_instead(model, data, tmp_path):
    source = npy(tmp_path, *data)
    name = type(model).__name__
    raises(f"{name} takes no blocks.*NpySource.*{IN_MEMORY[model]}", lambda: model.fit(source))


def test_steps_are_taken_on_one_batch(data, tmp_path):
    source = npy(tmp_path, *data)
    model = TightBoundLogisticRegression()
    raises(
        "rows of one batch, in memory; got NpySource",
        lambda: model.partial_fit(source, None, classes=[0, 1]),
    )


def raises(message, action, error=ValueError):
    with pytest.raises(error, match=message):
        action()


def read(source):
    return list(source.blocks())


def test_npy_errors_name_the_file(tmp_path):
    path = tmp_path / "X.npy"
    raises("X must be the path", lambda: open_npy(np.eye(3)), TypeError)
    raises("nothing", lambda: open_npy(tmp_path / "nothing.npy"), FileNotFoundError)
    np.save(path, np.ones(3))
    raises(r"X\.npy: X must have two dimensions", lambda: open_npy(path))
    np.save(path, np.array([["a"], ["b"]]))
    raises(r"X\.npy: X must be made of numbers; got dtype <U1", lambda: open_npy(path))
    np.save(path, np.array([[None]]), allow_pickle=True)
    raises(r"X\.npy cannot be read", lambda: open_npy(path))
    np.savez(tmp_path / "X.npz", a=np.eye(2))
    raises(r"X\.npz cannot be read as X: it is not a \.npy", lambda: open_npy(tmp_path / "X.npz"))
    np.save(path, np.eye(3))
    raises(r"y must have one entry for each of the 3 rows", lambda: open_npy(path, [0, 1]))
    raises("block_rows must be an integer >= 1", lambda: open_npy(path, block_rows=0))
    copied = np.load(path, mmap_mode="c")
    raises("copied on writing", lambda: open_npy(copied))


def test_parquet_errors_name_file_and_column(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"a": [1.0, None], "word": ["x", "y"], "label": [0, 1]})
    parquet.write_table(table, path)
    raises(
        r"t\.parquet: column 'word' must be made of numbers", lambda: open_parquet(path, "label")
    )
    raises(r"t\.parquet has no column 'target'", lambda: open_parquet(path, "target"))
    raises("neither target nor weight", lambda: open_parquet(path, "label", columns=["label"]))
    raises("sequence of names", lambda: open_parquet(path, "label", columns="a"), TypeError)
    source = open_parquet(path, "label", columns=["a"])
    raises(r"'a' has 1 nulls .*t\.parquet, rows 0 to 1", lambda: read(source))
    empty = tmp_path / "empty"
    empty.mkdir()
    raises("has no files", lambda: open_parquet(empty), FileNotFoundError)
    raises("nothing", lambda: open_parquet(tmp_path / "nothing.parquet"), FileNotFoundError)
    (empty / "bad.parquet").write_bytes(b"no table, but long enough to be one")
    raises(r"bad\.parquet cannot be read", lambda: open_parquet(empty))


def test_parquet_files_must_have_the_same_columns(tmp_path):
    parquet.write_table(pa.table({"a": [1.0], "label": [0]}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"label": [1], "b": [1.0], "a": [2.0]}), tmp_path / "2.parquet")
    raises(r"2\.parquet has the columns \['b'\]", lambda: open_parquet(tmp_path, "label"))
    blocks = read(open_parquet(tmp_path, "label", columns=["a"]))
    np.testing.assert_array_equal(np.concatenate([b.X for b in blocks]), [[1.0], [2.0]])
    parquet.write_table(pa.table({"label": [1]}), tmp_path / "2.parquet")
    raises(r"2\.parquet has no column 'a'", lambda: open_parquet(tmp_path, "label"))


def test_batches_must_come_from_a_function():
    X, y = np.eye(2), [0, 1]
    raises("new iterator", lambda: from_batches((X, y) for _ in range(2)), TypeError)
    raises("new iterator", lambda: from_batches([(X, y)]), TypeError)
    raises("must return an iterator", lambda: from_batches(lambda: None), TypeError)
    raises("gave no batches", lambda: from_batches(lambda: iter(())))
    raises("must be \\(X, y\\)", lambda: from_batches(lambda: iter([X])), TypeError)


def test_batches_must_be_alike():
    X, y = np.eye(2), [0, 1]
    other = from_batches(lambda: iter([(X, y), (np.eye(3), [0, 1, 1])]))
    raises(r"batch 1 \(from row 2 on\) has 3, the first has 2", lambda: read(other))
    frames = [(pd.DataFrame(X, columns=list(names)), y) for names in ("ab", "ba")]
    raises(r"\['b', 'a'\]", lambda: read(from_batches(lambda: iter(frames))))
    half = from_batches(lambda: iter([(X, y), (X, None)]))
    raises(r"batch 1 \(from row 2 on\) has none, unlike the first", lambda: read(half))
    words = pd.DataFrame({"a": ["x", "y"]})
    raises("column 'a' must be made of numbers", lambda: from_batches(lambda: iter([(words, y)])))


def test_an_iterator_that_ends_is_noticed(data):
    X, y, _ = data
    once = iter([(X[:500], y[:500]), (X[500:1000], y[500:1000]), (X[1000:], y[1000:])])
    source = from_batches(lambda: once)  # its first batch is gone already
    raises("gave 1500 rows at first and 0 now", lambda: tight().fit(source), RuntimeError)


@pytest.mark.parametrize("kind", ["npy", "parquet", "arrow"])
def test_changed_files_are_noticed(kind, data, tmp_path):
    source = SOURCES[kind](tmp_path, *data)
    read(source)
    path = max(tmp_path.iterdir(), key=lambda p: p.stat().st_size)
    before = path.stat()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    raises(f"{path.name} has changed since it was opened", lambda: read(source), RuntimeError)


@pytest.mark.parametrize("kind", ["npy", "parquet", "arrow"])
def test_a_file_rewritten_with_its_time_restored_is_noticed(kind, data, tmp_path):
    source = SOURCES[kind](tmp_path, *data)
    read(source)
    path = max(tmp_path.iterdir(), key=lambda p: p.stat().st_size)
    before, contents = path.stat(), bytearray(path.read_bytes())
    contents[-20] ^= 1
    path.write_bytes(contents)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    raises(f"{path.name} has changed.* its time set back", lambda: read(source), RuntimeError)


def test_a_file_that_another_took_the_place_of_is_noticed(data, tmp_path):
    source = npy(tmp_path, *data)
    path = tmp_path / "X.npy"
    before = path.stat()
    np.save(tmp_path / "other.npy", data[0])
    os.utime(tmp_path / "other.npy", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(tmp_path / "other.npy", path)
    raises(r"X\.npy .* another file has taken its place", lambda: read(source), RuntimeError)


# --------------------------------------------------------------------- rows that are not the same


class Changing(Source):
    """Rows of which something is another from the second reading on."""

    def __init__(self, X, y, weight, change):
        self.rows, self.n_features, self.change, self.readings = (X, y, weight), D, change, 0

    def blocks(self):
        self.readings += 1
        X, y, weight = (values.copy() for values in self.rows)
        if self.readings > 1:
            self.change(X, y, weight)
        for a in range(0, N, 500):
            yield Block(X[a : a + 500], y[a : a + 500], weight[a : a + 500], a)


def change_features(X, y, weight):
    X[500:1000] += 1.0


def change_labels(X, y, weight):
    y[500:1000] = 1 - y[500:1000]


def change_weights(X, y, weight):
    weight[500:1000] *= 2.0


def change_order(X, y, weight):
    X[500:1000], y[500:1000], weight[500:1000] = (a[999:499:-1].copy() for a in (X, y, weight))


@pytest.mark.parametrize(
    "change",
    [change_features, change_labels, change_weights, change_order],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize(
    "model",
    [tight(), TightBoundLogisticRegression(), ImportVectorMachine(max_import_points=3)],
    ids=lambda model: type(model).__name__,
)
def test_rows_that_change_between_readings_are_noticed(model, change, data):
    source = Changing(*data, change)
    raises(
        "Rows 500 to 999 are not those of the first reading",
        lambda: model.fit(source),
        RuntimeError,
    )
    assert source.readings == 2
    assert not hasattr(model, "classes_")


def checksum(X, y=None):
    return seen.checksum(Block(X, y, None, 0))


@pytest.mark.parametrize("d", [3, 127, 200])
def test_checksums_see_every_column_and_every_long_row(d):
    X = np.random.default_rng(0).normal(size=(300, d))
    for column in range(d):
        other = X.copy()
        other[:, column] += 1.0
        assert checksum(other) != checksum(X)
    for row in range(300) if d == 200 else ():
        other = X.copy()
        other[row] += 1.0
        assert checksum(other) != checksum(X)


def test_a_file_that_gets_shorter_while_it_is_read(data, tmp_path):
    blocks = npy(tmp_path, *data).blocks()
    next(blocks)
    os.truncate(tmp_path / "X.npy", 400 * D * 8)
    raises(r"X\.npy ends within rows 300 to 599", lambda: list(blocks), RuntimeError)


def test_rows_without_labels_are_for_predictions(data, tmp_path):
    X, y, _ = data
    np.save(tmp_path / "X.npy", X)
    source = open_npy(tmp_path / "X.npy")
    raises("has no labels", lambda: tight().fit(source))
    labels = np.concatenate(list(tight().fit(X, y).predict(source)))
    assert labels.shape == (N,)
    raises("y and sample_weight must be None", lambda: tight().fit(open_npy(tmp_path / "X.npy"), y))


def test_predictions_want_the_features_of_the_fit(data, tmp_path):
    X, y, weight = data
    np.save(tmp_path / "X.npy", X[:, :3])
    clf = tight().fit(pd.DataFrame(X, columns=NAMES), y)
    raises(
        "X has 3 features, but .* is expecting 5", lambda: clf.predict(open_npy(tmp_path / "X.npy"))
    )
    frame_of(X, y, weight).to_parquet(tmp_path / "t.parquet")
    turned = open_parquet(tmp_path / "t.parquet", columns=NAMES[::-1])
    raises("feature names should match", lambda: clf.predict(turned))


# ------------------------------------------------------------------------------------------ memory

FIT = """
import sys
from grayzone import TruncatedLogisticRegression
from grayzone.sources import open_npy, open_parquet
from grayzone.sources import source as source_module
from grayzone.solvers.truncated import streamed
streamed.MOST_HELD = 2**17
kind, folder = sys.argv[1:]
if kind == "npy":
    source = open_npy(folder + "/X.npy", folder + "/y.npy", block_rows=4000)
else:
    source = open_parquet(folder + "/rows.parquet", "label", block_rows=4000)
TruncatedLogisticRegression(tol=1e-2).fit(source)
# not ru_maxrss: a child begins with that of its parent
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) / 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_memory_does_not_grow_with_rows(kind, tmp_path):
    peak = {}
    for n in (20_000, 160_000):
        X = np.random.default_rng(0).standard_normal((n, 80), dtype=np.float32)
        y = (X[:, 0] > X[:, 1] + X[:, 2] * X[:, 3]).astype(np.int8)
        if kind == "npy":
            saved(tmp_path, X, y, y)
        else:
            columns = {f"c{k}": X[:, k] for k in range(80)}
            # groups as large in both: what one of them takes does depend on its size
            parquet.write_table(
                pa.table({**columns, "label": y}),
                tmp_path / "rows.parquet",
                row_group_size=20_000,
                use_dictionary=False,
            )
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(FIT), kind, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        peak[n] = float(done.stdout)
    # the files differ by 45 MB, in double precision by 90
    assert peak[160_000] - peak[20_000] < 20
