"""What a user gets by installing: the README's example, light imports, types, documentation."""

import importlib
import re
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import pytest

import grayzone

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    *("array_api_strict", "cupy", "cvxpy", "dask", "distributed", "glum", "matplotlib"),
    *("numba", "onnx", "onnxruntime", "pandas", "polars", "pyarrow", "rich", "skl2onnx", "skops"),
    *("torch", "typer"),
}
BENCHMARKS = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "benchmarks").rglob("*.py")
    if path.name != "__init__.py"
)


def python(*arguments):
    """Run a fresh interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def readme_blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)


def heavy_imports(statement):
    code = f"import sys; {statement}; print(*{HEAVY} & set(sys.modules))"
    return set(python("-c", code).split())


def test_readme_examples_run_and_print_the_threshold(capsys):
    names = {}
    for example in readme_blocks("python"):
        exec(compile(example, "README.md", "exec"), names)
    printed = capsys.readouterr().out.split("\n")
    assert float(printed[0]) == pytest.approx(5 / 6)


def test_readme_commands_are_one_line_each():
    commands = readme_blocks("bash")
    assert len(commands) == 2
    assert all(command.count("\n") == 1 for command in commands)


def test_import_is_light():
    # scikit-learn imports pandas by itself where that is installed.
    unavoidable = heavy_imports("import sklearn.linear_model")
    assert heavy_imports("import grayzone") <= unavoidable


def test_modules_that_need_no_extra_are_attributes():
    modules = ("arrays", "decision", "metrics", "sources")
    names = ", ".join(f"grayzone.{module}.__name__" for module in modules)
    found = python("-c", f"import grayzone; print({names})")
    assert found.split() == [f"grayzone.{module}" for module in modules]


def test_type_information_ships():
    assert resources.files("grayzone").joinpath("py.typed").is_file()


def test_versions_agree():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is not None
    assert newest[1] == grayzone.__version__ == metadata.version("grayzone")


def test_public_names_exist_and_are_listed_once():
    assert len(set(grayzone.__all__)) == len(grayzone.__all__)
    assert set(grayzone.__all__) <= set(dir(grayzone))


def test_the_command_runs_as_a_module():
    shown = python("-m", "grayzone", "--help")
    for command in ("train", "predict", "export", "explain", "demo", "reproduce"):
        assert command in shown


def test_the_command_says_which_extra_it_needs(monkeypatch, capsys):
    for name in [n for n in sys.modules if n.startswith("grayzone.cli._")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "typer", None)
    assert importlib.import_module("grayzone.cli").main(["demo"]) == 1
    error = capsys.readouterr().err
    assert "typer" in error
    assert "pip install 'grayzone[cli]'" in error


@pytest.mark.parametrize("extra", ["report", "load_model"])
def test_what_needs_an_extra_is_a_public_name(extra):
    assert callable(getattr(grayzone, extra))
    with pytest.raises(AttributeError, match="nothing"):
        grayzone.nothing  # noqa: B018


@pytest.mark.parametrize("module", BENCHMARKS)
def test_benchmarks_can_be_imported(module):
    assert importlib.import_module(module).__doc__
