"""Rows with labels are the same wherever they are: held in one place, or read a block at a time."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from array_api_compat import array_namespace
from sklearn.linear_model import LogisticRegression

from grayzone import TruncatedLogisticRegression
from grayzone.sources import from_batches
from grayzone.sources.labelled import Labelled, Rows, label
from grayzone.sources.source import HeldSource
from grayzone.sources.split import split

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.array(["a", "b", "c"])[RNG.integers(3, size=60)]
WEIGHT = np.where(np.arange(60) % 7 == 0, 0.0, RNG.uniform(0.5, 2.0, size=60))


def held(X=X):
    return HeldSource(X, Y, WEIGHT)


def strict():
    xp = pytest.importorskip("array_api_strict")
    return HeldSource(xp.asarray(X), Y, xp.asarray(WEIGHT))


def streamed():
    parts = [slice(a, a + 25) for a in range(0, 60, 25)]
    return from_batches(lambda: ((X[p], Y[p], WEIGHT[p]) for p in parts))


CARRIERS = {
    "numpy": held,
    "csr": lambda: held(sp.csr_array(X)),
    "strict": strict,
    "stream": streamed,
}


def sums(rows: Rows):
    xp = array_namespace(rows.weight)
    dense = rows.X.toarray() if sp.issparse(rows.X) else rows.X
    own = [xp.sum(xp.where(rows.codes == k, rows.weight, 0.0)) for k in range(3)]
    return {
        "features": rows.weight[None, :] @ dense,
        "mass": xp.stack(own),
        "numbers": float(xp.sum(xp.where(rows.weight > 0, rows.places(), 0))),
    }


def assert_same_sums(one: Labelled, other: Labelled):
    a, b = one.reduce(sums), other.reduce(sums)
    for name in a:
        np.testing.assert_allclose(np.asarray(b[name]), np.asarray(a[name]), rtol=1e-12)


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 2.0, "b": 1.0, "c": 0.5}])
def test_classes_weights_and_sums_are_the_same(carrier, class_weight):
    one = label(held(), class_weight)
    other = label(CARRIERS[carrier](), class_weight)
    assert one.classes.tolist() == other.classes.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(other.counts, one.counts)
    assert other.n_rows == np.count_nonzero(WEIGHT)
    np.testing.assert_allclose(other.mass, [WEIGHT[c == Y].sum() for c in "abc"])
    np.testing.assert_allclose(other.factors, one.factors)
    assert_same_sums(one, other)
    assert_same_sums(one.plain, other.plain)
    assert other.n_features == 3
    assert other.cheap_rereads == (other.held is not None) == (carrier != "stream")


@pytest.mark.parametrize("carrier", [c for c in CARRIERS if c != "stream"])
def test_held_rows_without_weight_are_not_there(carrier):
    labelled = label(CARRIERS[carrier](), "balanced")
    rows = labelled.held
    assert np.asarray(rows.places()).tolist() == np.flatnonzero(WEIGHT).tolist()
    own = WEIGHT[WEIGHT > 0]
    np.testing.assert_array_equal(np.asarray(labelled.plain.held.weight), own)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_parts_share_the_rows_out(carrier):
    labelled = label(CARRIERS[carrier](), {"a": 2.0, "b": 1.0, "c": 0.5})
    train, out = split(labelled, 0.3, np.random.RandomState(0))
    np.testing.assert_array_equal(train.counts + out.counts, labelled.counts)
    np.testing.assert_allclose(train.mass + out.mass, labelled.mass)
    assert min(train.counts.min(), out.counts.min()) > 0
    whole = labelled.reduce(sums)
    for name, value in train.reduce(sums).items():
        there = np.asarray(value) + np.asarray(out.reduce(sums)[name])
        np.testing.assert_allclose(there, np.asarray(whole[name]), rtol=1e-12)


def test_held_rows_remember_and_streamed_rows_do_not():
    calls = []

    def make():
        calls.append(1)
        return len(calls)

    rows, token = label(held()).held, object()
    assert rows.state("scores", token, make) == rows.state("scores", token, make) == 1
    assert rows.state("scores", object(), make) == 2
    assert rows.take(np.arange(3)).state("scores", token, make) == 3
    bare = Rows(X, np.zeros(60, dtype=np.int64), WEIGHT)
    assert [bare.state("scores", token, make) for _ in range(2)] == [4, 5]


@pytest.mark.parametrize(
    "labels",
    [
        np.array([-1, 1], dtype=np.int8),
        np.array([-128, 0, 127], dtype=np.int8),
        np.array([-3, 2, 900]),
        np.array([0, 10**12]),
        np.array([-32768, 32767], dtype=np.int16),
        np.array([-100, -99, 27], dtype=np.int8),
        np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max]),
        np.array([1, 2], dtype=np.uint64),
        np.array([False, True]),
        np.array([-1.0, 2.0]),
        np.array(["no", "yes"]),
    ],
    ids=lambda labels: f"{labels.dtype}: {labels[0]}, {labels[-1]}",
)
def test_labels_of_any_kind_are_counted_as_they_are_sorted(labels):
    y = labels[RNG.integers(len(labels), size=60)]
    y[: len(labels)] = labels
    rows = label(HeldSource(X, y, None))
    np.testing.assert_array_equal(rows.classes, labels)
    assert rows.classes.dtype == labels.dtype
    np.testing.assert_array_equal(rows.classes[rows.held.codes], y)
    np.testing.assert_array_equal(rows.counts, np.unique(y, return_counts=True)[1])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "labels", [Y, Y == "a", (Y == "a").astype(float)], ids=["str", "bool", "f"]
)
def test_one_bad_value_is_refused_in_the_words_of_scikit_learn(labels, value, order):
    bad = np.array(X, order=order)
    bad[17, 1] = value
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)") as told:
        TruncatedLogisticRegression().fit(bad, labels)
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)") as also:
        LogisticRegression().fit(bad, labels)
    said, other = (str(e.value).split("\n")[0] for e in (told, also))
    assert said == other
    model = TruncatedLogisticRegression().fit(X, labels)
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        model.predict(bad)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    "labels", [Y, Y == "a", (Y == "a").astype(int)], ids=["str", "bool", "int"]
)
def test_a_fit_forgets_the_names_of_the_one_before_and_knows_how_many_features_it_has(
    labels, order
):
    names = [f"f{j}" for j in range(X.shape[1])]
    model = TruncatedLogisticRegression().fit(pd.DataFrame(X, columns=names), labels)
    assert list(model.feature_names_in_) == names
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    one_less = np.array(X[:, :-1], order=order)
    model.fit(one_less, labels)
    assert model.n_features_in_ == X.shape[1] - 1
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(one_less).shape == Y.shape
    with pytest.raises(ValueError, match=f"X has {X.shape[1]} features"):
        model.predict(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, labels[:-1])
    with pytest.raises(ValueError, match="1D array"):
        model.fit(X[:, 0], labels)
    with pytest.raises(ValueError, match="0 sample"):
        model.fit(X[:0], labels[:0])


def test_a_block_of_one_label_knows_nothing_of_those_that_are_far_away():
    y = np.array([0] * 30 + [10**15] * 30)
    blocks = [slice(0, 25), slice(25, 60)]
    rows = label(from_batches(lambda: ((X[p], y[p]) for p in blocks)))
    np.testing.assert_array_equal(rows.classes, [0, 10**15])
    np.testing.assert_array_equal(rows.counts, [30, 30])
    found = rows.reduce(lambda part: {"ones": float(np.sum(part.codes))})
    assert found["ones"] == 30.0
