"""Every Python block of every page runs, top to bottom in one namespace, in a folder of its own.

A block that must not run is a ``{code-block} python``; one that needs more than the package stands
under a line ``<!-- needs: NAME ... -->``, and the page ends there where that is not installed.
"""

import importlib.util
import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(?:^<!-- needs: ([^\n]*) -->\n)?^```python\n(.*?)^```", re.M | re.S)
# Pages that tests of their own run, and judge.
ELSEWHERE = {
    "guide/deployment.md": "tests/onnx/test_deployment_recipes.py",
    "guide/policies.md": "tests/estimators/test_policies_page.py",
    "pitfalls.md": "tests/docs/test_pitfalls.py",
}
PAGES = {
    path.relative_to(DOCS).as_posix(): BLOCK.findall(path.read_text("utf-8"))
    for path in sorted(DOCS.rglob("*.md"))
    if not {"_build", "auto_examples", "generated"} & set(path.parts)
}
WITH_CODE = [name for name, blocks in PAGES.items() if blocks and name not in ELSEWHERE]


@pytest.mark.parametrize("name", WITH_CODE)
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = {"__name__": "page"}
    for needs, block in PAGES[name]:
        absent = [need for need in needs.split() if importlib.util.find_spec(need) is None]
        if absent:
            pytest.skip(f"without {', '.join(absent)}")
        with warnings.catch_warnings():
            # what other libraries are about to change is not the page's business
            for kind in (DeprecationWarning, FutureWarning, *([Warning] if needs else [])):
                warnings.simplefilter("ignore", kind)
            exec(compile(block, f"docs/{name}", "exec", dont_inherit=True), known)


def test_every_block_is_found_and_every_page_runs_once():
    for name, blocks in PAGES.items():
        text = (DOCS / name).read_text("utf-8")
        assert len(re.findall(r"^\s*```python", text, re.M)) == len(blocks), name
    assert len(WITH_CODE) >= 15
    for name, test in ELSEWHERE.items():
        if name in PAGES:
            assert PAGES[name]
            assert name.rsplit("/", 1)[-1] in (ROOT / test).read_text("utf-8")


def test_blocks_that_do_not_run_are_few_and_seen():
    """They are Spark's, Ray's and the like, and text says that they are not tested."""
    shown = [
        name
        for name in PAGES
        for _ in re.findall(r"^```\{code-block\} python", (DOCS / name).read_text("utf-8"), re.M)
    ]
    assert len(shown) <= 6, shown
