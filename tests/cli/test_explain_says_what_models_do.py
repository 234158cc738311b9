"""`explain` said "decides '1' from .1667 on" of a model that is undecided from .06 to .7.

Of a model of a limit it told of costs of 1 and 1, which nobody had given, and which it does not go
by.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")

import grayzone
from grayzone.cli import main

CASES = {
    "costs": (
        {"costs": "FN=5,FP=1"},
        ["Deciding 'no' where 'yes' is true costs 5.", "Decides 'yes' from a probability of 0.166"],
    ),
    "undecided": (
        {"costs": "FN=5,FP=1", "reject_cost": 0.3},
        ["Decides 'yes' from a probability of 0.7 on, 'no' up to 0.06, and leaves what is between"],
    ),
    "never undecided": (
        {"costs": "FN=5,FP=1", "reject_cost": 3},
        ["Decides 'yes' from a probability of 0.1667 on."],
    ),
    "limit": (
        {"max_fpr": 0.15},
        ["Keeps a false positive rate of at most 0.15 on new rows with a probability of 0.95."],
    ),
    "found": ({"min_recall": 0.7}, ["Keeps a recall of at least 0.7 on new rows"]),
    "range": ({"costs": "FN=3..8,FP=1"}, ["where 'yes' is true costs 3 to 8; 4.89898 is"]),
    "rows": (
        {"costs": "FN=amount,FP=2", "reject_cost": 1},
        ["costs what 'amount' says of the row, ", "as its own costs say, or leaves it undecided"],
    ),
    "classes": ({}, ["Decides for the class of the least expected cost about each row."]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_is_what_is_done(case, tmp_path, capsys):
    asked, told = CASES[case]
    rng = np.random.default_rng(0)
    a = rng.normal(size=400)
    labels = np.where(rng.random(400) < 1 / (1 + np.exp(-2.0 * a)), "yes", "no")
    if case == "classes":
        labels = np.where(a > 1.0, "perhaps", labels)
    table = pd.DataFrame({"a": a, "y": labels})
    if case == "rows":
        table["amount"] = np.round(rng.lognormal(1.0, 0.5, 400), 1)
    model = grayzone.train(table, "y", model="logistic-regression", out=tmp_path / "out", **asked)
    assert main(["explain", str(tmp_path / "out")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert main(["explain", str(tmp_path / "out"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    for sentence in told:
        assert sentence in text
    assert ("is true costs" in text) == (model.cut is None)
    decided = model.decide(table)
    for label, edge in re.findall(r"'(\w+)' from a probability of ([\d.]+) on", text):
        above = decided[f"probability_{label}"] >= model.threshold
        assert (above == (decided["decision"] == label)).all()
        assert float(edge) == float(f"{model.threshold:.4g}")
        assert record["threshold"] == model.threshold
    if record["undecided_between"] is not None:
        low, high = record["undecided_between"]
        between = decided["probability_yes"].between(low, high, inclusive="neither")
        assert (between == decided["undecided"]).all()
        assert high == model.threshold
    else:
        assert "what is between" not in text
