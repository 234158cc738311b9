"""What an index, a host and a channel are given: files that parse, and say the same."""

import io
import re
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

import grayzone

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
METADATA = PROJECT["project"]
SOURCE = METADATA["urls"]["Source"]
DOCS = METADATA["urls"]["Documentation"] + "/en/stable/"
# pages that are made when the site is built, or that a link may name for all of a room
MADE = {"", "auto_examples/index.html"}


def read(path):
    return yaml.safe_load(path.read_text("utf-8"))


def pythons():
    """The oldest and the newest Python, by the metadata."""
    found = re.findall(r"Python :: (3\.\d+)", "\n".join(METADATA["classifiers"]))
    assert METADATA["requires-python"] == f">={found[0]}"
    return [found[0], found[-1]]


# ---------------------------------------------------------------------------- the README


def test_links_of_the_readme_are_whole_and_lead_somewhere():
    """An index shows the README alone: what is relative leads nowhere there."""
    text = (ROOT / "README.md").read_text("utf-8")
    links = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.M))
    assert len(links) > 10
    for name in links:
        assert f"[{name}]" in text.replace(f"[{name}]: ", ""), name
    links = [*links.values(), *re.findall(r"\]\(([^)]+)\)", text)]
    raw = SOURCE.replace("github.com", "raw.githubusercontent.com") + "/main/"
    for link in links:
        if link.startswith(DOCS):
            page = link.removeprefix(DOCS)
            assert page in MADE or (ROOT / "docs" / page).with_suffix(".md").is_file(), link
        else:
            start = next(s for s in (f"{SOURCE}/blob/main/", raw) if link.startswith(s))
            assert (ROOT / link.removeprefix(start)).is_file(), link


# ---------------------------------------------------------------------------- metadata


def test_all_files_name_the_same_version():
    assert read(ROOT / "CITATION.cff")["version"] == grayzone.__version__
    assert read(ROOT / "recipe" / "recipe.yaml")["context"]["version"] == grayzone.__version__


def test_the_recipe_asks_for_the_same_packages():
    recipe = read(ROOT / "recipe" / "recipe.yaml")
    assert recipe["build"]["noarch"] == "python"
    assert f">={recipe['context']['python_min']}" == METADATA["requires-python"]
    python, *packages = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    assert [p.replace(" ", "") for p in packages] == METADATA["dependencies"]
    (script,) = recipe["build"]["python"]["entry_points"]
    assert script == f"grayzone = {METADATA['scripts']['grayzone']}"
    assert recipe["about"]["license"] == METADATA["license"]
    assert recipe["about"]["summary"] == METADATA["description"]
    assert (ROOT / recipe["about"]["license_file"]).is_file()


def test_a_source_distribution_is_built(tmp_path):
    sdist = pytest.importorskip("hatchling.builders.sdist")
    (made,) = sdist.SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(made) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
        about = archive.extractfile(f"grayzone-{grayzone.__version__}/PKG-INFO")
        text = io.TextIOWrapper(about, "utf-8").read()
    assert {"docs/pitfalls.md", "LICENSE", "CITATION.cff", "tests/conftest.py"} <= names
    assert not [name for name in names if "__pycache__" in name or "_build" in name]
    assert f"Project-URL: Source, {SOURCE}" in text


# ---------------------------------------------------------------------------- hosted files


def test_tests_run_on_three_systems_with_the_oldest_and_the_newest_python():
    wanted = {"os": ["ubuntu-latest", "macos-latest", "windows-latest"], "python": pythons()}
    tests = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["tests"]
    tried = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["try"]
    assert tests["strategy"]["matrix"] == tried["strategy"]["matrix"] == wanted


def test_a_release_is_published_without_a_password_after_it_was_tried():
    flow = read(ROOT / ".github" / "workflows" / "release.yml")
    assert flow[True] == {"push": {"tags": ["v*"]}}
    publish = flow["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    assert publish["needs"] == "try"
    assert flow["jobs"]["try"]["needs"] == "build"
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text()


def test_the_map_of_contributing_names_every_room():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rooms = [path.name for path in (ROOT / "src" / "grayzone").iterdir() if path.is_dir()]
    rooms += [path.name for path in (ROOT / "docs").iterdir() if path.is_dir()]
    unnamed = {"images", "auto_examples"}
    for room in rooms:
        assert f"`{room}/`" in text or room.startswith("_") or room in unnamed, room
