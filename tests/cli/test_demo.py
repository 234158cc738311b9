"""The demonstration: what it says is true, and the lines that it prints run."""

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skops")

from grayzone.cli import _app, _demo, main


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def drawn():
    return _demo.draw(20_000, 0)


def test_payments_are_fraud_as_often_as_their_probabilities_say(drawn):
    assert 0.02 < drawn.probability.mean() < 0.05
    order = np.argsort(drawn.probability)
    for part in np.array_split(order, 5):
        p = drawn.probability[part]
        error = np.sqrt(np.sum(p * (1 - p))) / len(p)
        assert abs(drawn.fraud[part].mean() - p.mean()) < 4 * error
    again = _demo.draw(20_000, 0)
    pd.testing.assert_frame_equal(again.labelled, drawn.labelled)
    assert (_demo.draw(100, 1).fraud != drawn.fraud[:100]).any()


def test_nothing_is_cheaper_than_the_best_possible(drawn):
    truth = _demo.Truth(drawn)
    best = truth.best()
    assert set(best) == {0, 1, 2}  # let pass, refuse, have a person look
    rules = [truth.paid(np.full(len(best), k)) for k in range(3)]
    assert rules[2] == _demo.REJECT_COST
    assert truth.paid(best) < 0.5 * min(rules)
    # the costs are those that training is told
    amounts = drawn.table["amount"].to_numpy()
    assert rules[0] == pytest.approx(np.where(drawn.fraud, amounts, 0.0).mean())
    assert rules[1] == pytest.approx(np.where(drawn.fraud, 0.0, 10.0).mean())
    assert _demo.COSTS == "FN=amount,FP=10"
    # what is true of the row decides nothing that the table does not have
    table = drawn.table.copy()
    np.testing.assert_array_equal(_demo.probability(table), drawn.probability)


def test_the_demo_trains_and_the_line_that_it_prints_decides(here, monkeypatch, capsys):
    """It had no table for `predict`, and said that none of this package's models was needed."""
    monkeypatch.setattr(_demo, "N_ROWS", 500)
    out = "my demo"  # a name that a shell has to be told
    assert main(["demo", "--out", out, "--time-limit", "2"]) == 0
    said = capsys.readouterr().out
    assert "none of this package's models" not in said
    assert "The best decisions possible cost" in said
    files = {"payments.csv", "new_rows.csv", "model.skops", "metrics.json", "report.html"}
    assert {file.name for file in Path(out).iterdir()} == files
    assert list(pd.read_csv("my demo/payments.csv").columns)[-1] == "fraud"
    assert "fraud" not in pd.read_csv("my demo/new_rows.csv").columns
    metrics = json.loads(Path(out, "metrics.json").read_text())
    assert "These rows are generated" in metrics["notes"][0]
    assert metrics["cost_columns"] == [None, "amount"]
    assert metrics["notes"][0] in Path(out, "report.html").read_text().replace("&#x27;", "'")
    lines = [line.split(": ", 1)[1] for line in said.splitlines() if line.startswith("Next: ")]
    command = shlex.split(lines[0])
    assert command[:2] == ["grayzone", "predict"]
    assert main(command[1:]) == 0
    decided = pd.read_csv("my demo/decisions.csv")
    assert len(decided) == _demo.N_NEW
    assert set(decided["decision"]) <= {"no", "yes", "undecided"}


def test_lines_name_the_program_as_it_was_called(here, monkeypatch):
    program = here / ".venv" / "bin" / "grayzone"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setattr(_app.shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "argv", [".venv/bin/grayzone", "demo"])
    assert _app._program() == [".venv/bin/grayzone"]
    monkeypatch.setattr(_app.shutil, "which", lambda name: str(program))
    assert _app._program() == ["grayzone"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/grayzone/__main__.py", "demo"])
    assert _app._program() == [sys.executable, "-m", "grayzone"]
