"""The recipes of docs/guide/deployment.md run, where the libraries that they name are installed."""

import importlib.util
import re
import warnings
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "deployment.md").read_text()
BLOCKS = [
    (set(needs.split()), block)
    for needs, block in re.findall(
        r"^<!-- needs: (.*?) -->\n```python\n(.*?)^```", PAGE, re.M | re.S
    )
]
PLAIN = {"onnx", "onnxruntime"}
LIBRARIES = ["onnxruntime", "duckdb", "polars", "fastapi", "mlflow"]


def blocks_of(library):
    """Those that need no more than onnxruntime, and those of a library."""
    return [
        (needs, block)
        for needs, block in BLOCKS
        if needs == PLAIN or (library != "onnxruntime" and library in needs)
    ]


def test_every_block_says_what_it_needs():
    assert len(BLOCKS) == PAGE.count("```python") >= 9
    assert set().union(*(needs for needs, _ in BLOCKS)) >= set(LIBRARIES)
    assert all(len(blocks_of(name)) > len(blocks_of("onnxruntime")) for name in LIBRARIES[1:])


@pytest.mark.parametrize("library", LIBRARIES)
def test_recipes(library, tmp_path, monkeypatch, capsys):
    mine = blocks_of(library)
    needed = sorted(set().union(*(needs for needs, _ in mine)))
    absent = [name for name in needed if importlib.util.find_spec(name) is None]
    if absent:
        pytest.skip(f"without {', '.join(absent)}")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "recipe"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other libraries
        for _, block in mine:
            exec(compile(block, "docs/guide/deployment.md", "exec", dont_inherit=True), names)


def test_the_service_has_thirty_lines():
    (service,) = [block for _, block in BLOCKS if "FastAPI()" in block]
    assert sum(1 for line in service.splitlines() if line.strip()) <= 31
