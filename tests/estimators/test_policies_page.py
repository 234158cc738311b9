"""The code of docs/guide/policies.md runs, and does what the page says."""

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "policies.md"


def test_the_page_runs_and_says_what_comes_out(capsys):
    known = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, known)
    told = re.search(r"under max_fpr=0\.02 decisions find (0\.\d+)", capsys.readouterr().out)
    assert 0.25 < float(told[1]) < 0.35
    assert 0.77 < known["earned"] <= 0.8
    assert 0.40 < known["today"] < 0.44
    X, asked = known["patients"](2000)[0], known["wary"]
    handed = asked.predict(X) == -1
    assert handed[X[:, 1] > 0.5].mean() > 0.9
    assert handed[X[:, 1] < -0.5].mean() < 0.05
    assert known["choice"].f_measure == np.max(known["choice"].f_measures)
