"""docs/api: every public name once, commands as they are, docstrings that numpydoc finds whole."""

import ast
import doctest
import enum
import importlib
import inspect
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Protocol

import pytest

import grayzone

ROOT = Path(__file__).resolve().parents[2]
API, PACKAGE = ROOT / "docs" / "api", ROOT / "src" / "grayzone"
# Parts of a fit that those who extend it need; their room has more that is its own.
CONTRACTS = {
    "grayzone.numerics.designs": ("Design", "as_design"),
    "grayzone.numerics.losses": None,
    "grayzone.numerics.margins": (
        "ReferenceMargin",
        "SignedMargin",
        "SoftmaxMargin",
        "output_pairs",
    ),
}
LISTED = re.compile(
    r"\.\. currentmodule:: (\S+)\n\n\.\. autosummary::\n(?:   :.*\n)+\n((?:   \w+\n)+)"
)


def names_in(path):
    """What ``__all__`` of a module is; None where it has none. Nothing is imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return None


def public_names():
    """Names by room: the package itself, and every room in it that says what is public."""
    paths = [*PACKAGE.glob("[a-z]*.py"), *PACKAGE.glob("[a-z]*/__init__.py")]
    rooms = {f"grayzone.{p.parent.name if p.stem == '__init__' else p.stem}": p for p in paths}
    found = {room: names_in(path) for room, path in rooms.items()}
    # what the package has is listed there
    public = {
        room: [name for name in names if name not in grayzone.__all__]
        for room, names in found.items()
        if names is not None
    }
    return {"grayzone": grayzone.__all__, **public}


PUBLIC = public_names()


def listed_names():
    """Names in the tables of all pages."""
    pages = [page.read_text(encoding="utf-8") for page in API.glob("*.md")]
    tables = [table for page in pages for table in LISTED.findall(page)]
    assert len(tables) == sum(page.count(".. autosummary::") for page in pages)
    return Counter(f"{module}.{name}" for module, names in tables for name in names.split())


def test_every_public_name_is_listed_once():
    contracts = {
        room: names or names_in(PACKAGE.joinpath(*room.split(".")[1:]).with_suffix(".py"))
        for room, names in CONTRACTS.items()
    }
    known = {**PUBLIC, **contracts}
    expected = Counter(f"{room}.{name}" for room, names in known.items() for name in names)
    assert listed_names() == expected


def test_every_page_is_in_the_index():
    index = (API / "index.md").read_text(encoding="utf-8")
    toctree = re.search(r"```\{toctree\}\n:hidden:\n\n(.*?)```", index, re.S)[1].split()
    pages = {page.stem for page in API.glob("*.md")} - {"index"}
    assert Counter(toctree) == Counter(pages)
    assert pages <= set(re.findall(r"\]\((\w+)\.md\)", index))


# --------------------------------------------------------------------------------- command line


@pytest.fixture
def usage(monkeypatch):
    """The function behind the directive ``command``, which needs Sphinx only to be a directive."""
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    yield importlib.import_module("command_line").usage
    del sys.modules["command_line"]


def test_every_command_has_its_section():
    from typer.main import get_command

    from grayzone.cli._app import app

    page = (API / "command_line.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```\{command\} grayzone ?(.*)$", page, re.M)
    assert Counter(shown) == Counter(["", *get_command(app).commands])


def test_options_are_those_of_the_command(usage, capsys):
    from grayzone.cli import main

    line, text, options = usage("grayzone train")
    assert main(["train", "--help"]) == 0
    helped = capsys.readouterr().out
    written = {word for names, _ in options for word in re.findall(r"--[a-z-]+", names)}
    assert written == set(re.findall(r"(?<![\w-])--[a-z]+[a-z-]*", helped)) | {"--help"}
    assert "table" in line
    assert text.startswith("Fit the best model")
    assert dict(options)["--costs <str>"].startswith("FN=10,FP=1 or LABEL=COST")
    assert all(said for _, said in options)


# ----------------------------------------------------------------------------------- docstrings

NOT_OF_METHODS = {"EX01", "SA01"}
SAID_BY_CONTRACT = {"PR01", "RT01", "YD01"}


def left_out():
    """Checks that the project does without, for reasons that stand beside them."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    every, *but = config["tool"]["numpydoc_validation"]["checks"]
    assert every == "all"
    return set(but)


def tells_its_fields(cls):
    """Whether what a class is made of stands under Attributes, or no one calls it."""
    from numpydoc.docscrape import ClassDoc

    if issubclass(cls, enum.Enum | Exception) or Protocol in cls.__bases__:
        return True
    told = [item.name for item in ClassDoc(cls)["Attributes"]]
    names = {name.strip() for item in told for name in item.split(",")}
    return set(inspect.signature(cls).parameters) <= names


def methods_of(cls):
    """Public methods and properties that are of this package, with the classes before them."""
    from grayzone.solvers import Solver

    contracts = list(cls.__mro__[1:])
    if cls is not Solver and hasattr(cls, "init") and hasattr(cls, "step"):
        contracts.append(Solver)
    for name, member in inspect.getmembers(cls):
        function = member.fget if isinstance(member, property) else member
        here = str(getattr(function, "__module__", "")).startswith("grayzone")
        if not name.startswith("_") and here and callable(function) and name not in vars(object):
            kept = any(name in vars(base) and base.__doc__ for base in contracts)
            yield name, SAID_BY_CONTRACT if kept and name in vars(cls) else set()


def faults_of(path, but):
    validate = importlib.import_module("numpydoc.validate").validate
    return [f"{path}: {code} {text}" for code, text in validate(path)["errors"] if code not in but]


@pytest.mark.parametrize("room", PUBLIC)
def test_docstrings_are_whole(room):
    pytest.importorskip("numpydoc")
    if room == "grayzone.nn":
        pytest.importorskip("torch")
    module, but, faults = importlib.import_module(room), left_out(), []
    for name in PUBLIC[room]:
        thing = getattr(module, name)
        fields = {"PR01"} if inspect.isclass(thing) and tells_its_fields(thing) else set()
        faults += faults_of(f"{room}.{name}", but | fields)
        if inspect.isclass(thing):
            for method, said in methods_of(thing):
                faults += faults_of(f"{room}.{name}.{method}", but | NOT_OF_METHODS | said)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("room", [*PUBLIC, *CONTRACTS])
def test_every_name_has_an_example_that_runs(room):
    if room == "grayzone.nn":
        pytest.importorskip("torch")
    module, parser = importlib.import_module(room), doctest.DocTestParser()
    for name in PUBLIC.get(room) or CONTRACTS[room] or module.__all__:
        examples = parser.get_examples(inspect.getdoc(getattr(module, name)) or "")
        shown = [e for e in examples if e.want and not e.options.get(doctest.SKIP)]
        assert shown, f"{room}.{name}"


def test_a_docstring_that_is_not_whole_is_found(tmp_path, monkeypatch):
    pytest.importorskip("numpydoc")
    (tmp_path / "halved.py").write_text(
        'def half(x):\n    """Return half of x."""\n    return x / 2\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    codes = {fault.split()[1] for fault in faults_of("halved.half", left_out())}
    assert codes == {"PR01", "RT01", "SA01", "EX01"}
