"""Models that are compared out of time: all learn from the same rows, the first ones too."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

pytest.importorskip("skops")

import grayzone
from grayzone.training import candidates

LEARNED = []


class Recording(LogisticRegression):
    def fit(self, X, y, sample_weight=None):
        LEARNED.append(len(y))
        return super().fit(X, y, sample_weight)


def test_families_learn_from_the_same_earlier_rows_as_the_ensemble(monkeypatch):
    recorded = candidates.FAMILIES["tight-bound"]
    recorded = replace(recorded, make=lambda stakes, seed: Recording())
    monkeypatch.setitem(candidates.FAMILIES, "tight-bound", recorded)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 240))
    y = np.where(a + rng.normal(size=240) > 0.5, "yes", "no")
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(240), unit="D")
    table = pd.DataFrame({"a": a, "b": b, "day": day, "y": y})
    model = grayzone.train(table, "y", time="day", time_limit=60)
    compared = {c["name"]: c for c in model.metrics["compared"]}
    failed = {name: c["left_out"] for name, c in compared.items() if "failed" in c["left_out"]}
    assert failed == {}
    assert compared["tight-bound"]["mean"] is not None
    # the first half, a fifth of the second one more each time, and all rows for the kept fit
    assert sorted(LEARNED) == [120, 144, 168, 192, 216, 240]
    (note,) = (note for note in model.metrics["notes"] if "compared on" in note)
    assert note.startswith("Models were compared on 120 of 240 rows, ")
    assert "weigh" not in note
