"""Links of Markdown files lead somewhere; figures and the picture of the site are the results'.

Sphinx checks links between pages. This checks what it does not see: files of the repository that
pages name (`repo:`), and the files that are read where they lie.
"""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    path
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if not {"_build", "auto_examples", "generated"} & set(path.parts)
]
READ_IN_PLACE = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(path):
    """The text of a page without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text("utf-8"), flags=re.S)


def anchors(path):
    """What the headings of a page are called in addresses."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("path", READ_IN_PLACE, ids=lambda path: path.name)
def test_files_that_are_read_in_place_point_at_files(path):
    for target in LINK.findall(prose(path)):
        if re.match(r"https?:|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        assert place.exists(), f"{path.name}: {target}"
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), f"{path.name}: {target}"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT / "docs").as_posix())
def test_pages_name_files_of_the_repository_that_exist(path):
    for target in LINK.findall(prose(path)):
        if target.startswith("repo:"):
            assert (ROOT / target[5:].partition("#")[0]).exists(), target


def module(name):
    """An extension of the site, as it is."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_ext" / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


def test_the_picture_is_that_of_the_results():
    picture = module("picture")
    results = json.loads(picture.RESULTS.read_text("utf-8"))
    drawn = (ROOT / "docs" / "images" / "gain.svg").read_text("utf-8")
    assert drawn == picture.whole(results), "python docs/_ext/picture.py docs/images/gain.svg"
    (table,) = [
        t for t in results["entries"]["train"]["report"]["tables"] if "mean" in t["columns"]
    ]
    told = {row[0]: row[table["columns"].index("mean")] for row in table["rows"]}
    assert f">{float(told['train']):.3f}<" in drawn


def test_nothing_is_installed_from_an_index_before_a_release():
    command = re.search(r"^python3 -m venv .*demo$", (ROOT / "README.md").read_text(), re.M)
    assert command
    assert command.group() in (ROOT / "docs" / "index.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "install.md":
            assert not re.search(r"pip install ['\"]?grayzone", page.read_text()), page
