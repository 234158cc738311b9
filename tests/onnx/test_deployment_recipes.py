"""The recipes of docs/deployment.md run, where the libraries that they name are installed."""

import importlib.util
import re
import warnings
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "deployment.md").read_text()
BLOCKS = re.findall(r"^<!-- needs: (.*?) -->\n```python\n(.*?)^```", PAGE, re.M | re.S)
LIBRARIES = ["onnxruntime", "duckdb", "polars", "fastapi", "mlflow"]


def missing(needs):
    return [name for name in needs.split() if importlib.util.find_spec(name) is None]


def test_every_block_says_what_it_needs():
    assert len(BLOCKS) == PAGE.count("```python") >= 9
    assert {name for needs, _ in BLOCKS for name in needs.split()} >= set(LIBRARIES)


@pytest.mark.parametrize("library", LIBRARIES)
def test_recipes(library, tmp_path, monkeypatch, capsys):
    mine = [(needs, block) for needs, block in BLOCKS if library in needs.split()]
    absent = {name for needs, _ in mine for name in missing(needs)}
    if absent:
        pytest.skip(f"without {', '.join(sorted(absent))}")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "recipe"}
    plain = [block for needs, block in BLOCKS if set(needs.split()) == {"onnx", "onnxruntime"}]
    own = [] if library == "onnxruntime" else [block for _, block in mine]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other libraries
        for block in [*plain, *own]:
            exec(compile(block, "docs/deployment.md", "exec", dont_inherit=True), names)


def test_the_service_has_thirty_lines():
    (service,) = [block for _, block in BLOCKS if "FastAPI()" in block]
    assert sum(1 for line in service.splitlines() if line.strip()) <= 31
