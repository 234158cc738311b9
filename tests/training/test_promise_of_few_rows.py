"""What is promised, and whether to use a model, where few rows or rare errors tell of it."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")

import grayzone

ALONE = {"model": "logistic-regression", "positive": "yes"}


def rows_apart(n, seed=0):
    """Two classes that two numbers part together, and none of them alone."""
    rng = np.random.default_rng(seed)
    yes = np.arange(n) % 2 == 1
    middle, off = np.where(yes, 1.5, -1.5) + rng.normal(size=n) / 3, 3.0 * rng.normal(size=n)
    # of sixty rows none is on the wrong side; of many, some are
    flipped = (rng.random(n) < 0.03) & (n > 60)
    y = np.where(yes ^ flipped, "yes", "no")
    return pd.DataFrame({"a": middle + off, "b": middle - off, "y": y})


def test_no_error_on_sixty_rows_is_no_promise_of_none():
    few, new = rows_apart(60), rows_apart(20_000, seed=1)
    model = grayzone.train(few, "y", **ALONE)
    promise, metrics = model.promise, model.metrics
    assert (promise.cost, promise.low) == (0.0, 0.0)
    # a share of errors that sixty rows do not show with a probability of .025
    assert promise.high == pytest.approx(1.0 - 0.025 ** (1 / 60), rel=1e-9)
    assert promise.error == metrics["mean_cost_error"] > 0.01
    assert promise.low <= np.mean(model.predict(new) != new["y"]) <= promise.high
    assert metrics["verdict"]["deploy"]
    assert "(0 to 0.05963 with a probability of 0.95)" in metrics["verdict"]["sentence"]
    # a report of sixty rows that were held out says no more than they do
    page = grayzone.report(model, few[["a", "b"]], few["y"].to_numpy())
    assert (page.summary["promise"]["low"], page.summary["promise"]["high"]) == pytest.approx(
        (0.0, promise.high)
    )


def test_dear_errors_that_no_row_has_shown_may_happen():
    """None of thirty dear errors was made: one in ten may be, which costs more than a rule."""
    verdict = grayzone.train(rows_apart(60), "y", costs="FN=20,FP=1", **ALONE).metrics["verdict"]
    assert not verdict["deploy"]
    assert "not shown to be better than 'always yes'" in verdict["sentence"]
    cheap = grayzone.train(rows_apart(60), "y", costs="FN=2,FP=1", **ALONE).metrics["verdict"]
    assert cheap["deploy"]
