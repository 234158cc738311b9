"""Rows with reasons on the report: which they are, and that the kept model decides them so."""

import numpy as np
import pandas as pd
import pytest

import grayzone

rng = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120)})


@pytest.mark.parametrize("n_classes", [2, 3])
def test_examples_are_rows_of_the_kept_model_with_reasons(n_classes):
    score = TABLE["a"] + 0.3 * rng.normal(size=120)
    y = np.array(["no", "yes", "more"])[np.digitize(score, [0.2, 1.0][: n_classes - 1])]
    model = grayzone.train(TABLE.assign(y=y), target="y", model="logistic-regression")
    examples = model.metrics["examples"]
    names = {2: ["the most probable", "near the threshold", "the least probable"]}
    names[3] = ["the surest row", "the least sure"]
    assert [part["what"] for part in examples] == names[n_classes]
    found = model.decide(TABLE)
    for part in examples:
        shown = found[f"probability_{part['label']}"]
        row = int(np.argmin(np.abs(shown - part["probability"])))
        assert shown[row] == pytest.approx(part["probability"], rel=1e-9)
        assert found["decision"][row] == part["decision"]
        assert part["reasons"][0].startswith("a = ")  # what decides, in the words of the table
    assert "Reasons for single rows" in model.report_html
