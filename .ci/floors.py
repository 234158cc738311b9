"""Try the package with the oldest versions that it declares, and on the newest Python there is.

    python3 .ci/floors.py prepare FOLDER   makes the two environments
    python3 .ci/floors.py test FOLDER      trains a model by the command line, and runs the quick
                                           tests of the laws, in each of them

What is oldest stands in pyproject.toml and nowhere else: the floor of `requires-python`, and those
of the dependencies, of what `grayzone[all]` adds and of what the tests use. Where there is no such
Python, that is said, loudly, and the tests are left out.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FLOOR = re.compile(r"([\w.-]+)(?:\[([\w,.-]+)\])?\s*>=\s*([\w.]+)")
NAMES = ("oldest", "newest")
COMMANDS = (
    "grayzone train rows.csv --target late --model truncated --out model --overwrite",
    "grayzone predict model rows.csv --output decisions.csv",
)
SHOW = """
import sys, platform, importlib.metadata as found
print("Python", platform.python_version(), *(f"{p} {found.version(p)}" for p in sys.argv[1:]))
"""


def oldest_python():
    """Return the floor of `requires-python`, as (3, 11)."""
    return tuple(map(int, re.fullmatch(r">=(\d+)\.(\d+)", PROJECT["requires-python"]).groups()))


def oldest_versions():
    """Return all floors that are declared, as constraints."""
    extras, wanted = PROJECT["optional-dependencies"], list(PROJECT["dependencies"])
    names = re.fullmatch(r"grayzone\[(.+)\]", *extras["all"]).group(1)
    for name in ("test", *names.split(",")):
        wanted += extras[name]
    found = {match.group(1, 3) for match in map(FLOOR.match, wanted) if match}
    return [f"{package}=={version}" for package, version in sorted(found)]


def pythons():
    """Return the interpreters of this machine by version: of the path, and those that pyenv has."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += sorted(pyenv.glob("versions/*/bin"))
    asked = "import sys, venv, ensurepip; print(*sys.version_info[:2], sys.version_info[3])"
    found = {}
    for folder in folders:
        for path in sorted(folder.glob("python3*")):
            if re.fullmatch(r"python3(\.\d+)?", path.name):
                said = subprocess.run([path, "-c", asked], capture_output=True, text=True).stdout
                if said.endswith(" final\n"):
                    found.setdefault(tuple(map(int, said.split()[:2])), path)
    return found


def chosen(name, found):
    """Return the interpreter for an environment; None, said loudly, if there is none."""
    floor = oldest_python()
    if name == "oldest" and floor in found:
        return found[floor]
    newest = max(found, default=floor)
    if name == "newest" and newest > floor:
        return found[newest]
    wanted = "no Python {}.{}" if name == "oldest" else "no Python newer than {}.{}"
    print(f"!!! SKIPPED, {name} versions: {wanted.format(*floor)} on this machine", flush=True)
    return None


def prepare(folder):
    """Make the environments."""
    found = pythons()
    for name in NAMES:
        python = chosen(name, found)
        if python is None:
            continue
        environment, constraints = folder / name, folder / f"{name}.txt"
        constraints.write_text("\n".join(oldest_versions() if name == "oldest" else []))
        subprocess.run([python, "-m", "venv", environment], check=True)
        pip = [environment / "bin" / "pip", "install", "-q", "--no-compile", "-c", constraints]
        subprocess.run([*pip, "-e", f"{ROOT}[test]"], check=True)


def test(folder):
    """Run the tests in the environments that there are."""
    found = pythons()
    for name in NAMES:
        python = folder / name / "bin" / "python"
        if not python.exists():
            assert chosen(name, found) is None, f"the environment of the {name} versions is missing"
            continue
        packages = [*(FLOOR.match(wanted).group(1) for wanted in PROJECT["dependencies"]), "skops"]
        print(f"--- {name} versions:", flush=True)
        subprocess.run([python, "-c", SHOW, *packages], check=True)
        rows = 100 * "1,a,no\n7,b,yes\n2,b,no\n"
        (folder / name / "rows.csv").write_text("amount,kind,late\n" + rows)
        for command in COMMANDS:
            subprocess.run([python, "-m", *command.split()], cwd=folder / name, check=True)
        laws = [python, "-m", "pytest", "-q", "-m", "quick", "tests/laws"]
        subprocess.run(laws, cwd=ROOT, check=True)


if __name__ == "__main__":
    folder = Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        {"prepare": prepare, "test": test}[sys.argv[1]](folder)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(map(str, error.cmd))}: exit status {error.returncode}")
