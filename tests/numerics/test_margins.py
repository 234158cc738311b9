"""What maps from scores to margins know of the rows' classes."""

import numpy as np
import pytest

from grayzone.numerics import pieces
from grayzone.numerics.margins import ReferenceMargin, SignedMargin, SoftmaxMargin
from grayzone.numerics.tails import excess, rows_beyond

CODES = np.random.default_rng(0).integers(3, size=200)
WEIGHT = 10.0 ** np.random.default_rng(1).uniform(-6.0, 6.0, size=200)
OWN = CODES[:, None] == np.arange(3)
MAPS = {
    "two classes": (SignedMargin(np.where(CODES > 0, 1.0, -1.0)), (CODES > 0).astype(int)),
    "two classes, compiled": (SignedMargin(np.where(CODES > 0, 1.0, -1.0), True), CODES > 0),
    "three classes": (SoftmaxMargin(OWN), CODES),
    "a reference class": (ReferenceMargin(OWN), CODES),
}


@pytest.mark.parametrize("name", MAPS)
def test_rows_of_each_class_and_what_they_weigh(name, monkeypatch):
    monkeypatch.setattr(pieces, "MANY_WHERE_LOADED", 1)
    margins, codes = MAPS[name]
    of_classes = [np.flatnonzero(codes == k) for k in range(int(codes.max()) + 1)]
    np.testing.assert_array_equal(margins.counts(), [rows.size for rows in of_classes])
    for first in (0, 7):
        steps = np.array([5, 1, 3])[: len(of_classes)]
        each = zip(of_classes, steps, strict=True)
        expected = np.sort(np.concatenate([rows[first % step :: step] for rows, step in each]))
        np.testing.assert_array_equal(margins.picked(steps, first), expected)
    expected = [WEIGHT[rows].sum() for rows in of_classes]
    np.testing.assert_allclose(margins.mass(WEIGHT), expected, rtol=1e-13)


@pytest.mark.parametrize("compiled", [True, False])
def test_signs_times_values(compiled, monkeypatch):
    monkeypatch.setattr(pieces, "MANY_WHERE_LOADED", 1)
    y, values = np.where(CODES > 0, 1.0, -1.0), np.random.default_rng(2).normal(size=(200, 1))
    margins, before = SignedMargin(y, compiled), values.copy()
    np.testing.assert_array_equal(margins.margin(values), -y * values[:, 0])
    np.testing.assert_array_equal(margins.push(values, values), -y * values[:, 0])
    np.testing.assert_array_equal(margins.pull(values, values[:, 0])[:, 0], -y * values[:, 0])
    np.testing.assert_array_equal(margins.margin(values[None, :, :]), -y * values[None, :, 0])
    np.testing.assert_array_equal(values, before)
    assert margins.take(np.arange(5)).is_loaded == compiled


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_rows_beyond_the_ends_of_a_zone(n_outputs):
    scores = 2.0 * np.random.default_rng(3).normal(size=(200, n_outputs))
    ends = np.array([0.5, 1.0, np.inf])[: max(2, n_outputs)]
    expected = excess(scores, ends)
    for k, (rows, far) in enumerate(rows_beyond(scores, ends)):
        np.testing.assert_array_equal(rows, np.flatnonzero(expected[:, k] > 0.0))
        np.testing.assert_array_equal(far, expected[rows, k])
