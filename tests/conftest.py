"""What every test shares: one BLAS thread a process, hypothesis profiles, data sets."""

import functools
import importlib.util
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

# Workers are processes (pytest-xdist): threads on top of them would fight for the same cores.
# Set before NumPy is imported, or its libraries have already started their threads.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"
# Without it scikit-learn skips its common check of array API input. Read when SciPy is imported.
os.environ["SCIPY_ARRAY_API"] = "1"

import hypothesis
import numpy as np
import pandas as pd
import pytest
from pace import EVERY_CASE, NOT_QUICK, SLOW

ROOT = Path(__file__).resolve().parents[1]
HAVE_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))
BROWSER = ("tests/docs/test_site_in_a_browser.py", "tests/reporting/test_report_browser.py")
NEVER = r"(?!)"  # a pattern of no name

# The same examples every time: a failure belongs to the change that shows it, and random search is
# for `python -m fuzz`. A busy machine is no reason to fail: no deadlines, no complaint of slowness.
hypothesis.settings.register_profile(
    "same examples",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("same examples")


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the real data sets; tests that need it are skipped where there is none."""
    folder = Path(os.environ.get("GRAYZONE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data sets in {folder}; set GRAYZONE_DATA")
    return folder


@pytest.fixture(scope="session")
def load(data_dir):
    """Loader of real data sets by name, cached: ``X, y = load("sonar")``.

    Sets that come as two parts are asked for by part: ``load("mnist", "train")``. The arrays are
    read-only, because all tests share them.
    """

    @functools.cache
    def load(name, part=None):
        archive = data_dir / f"{name}.npz"
        if archive.exists():
            suffix = "" if part is None else f"_{part}"
            with np.load(archive) as arrays:
                X, y = arrays["X" + suffix], arrays["y" + suffix]
        else:
            X, y = read_table(data_dir, name)
        X.setflags(write=False)
        y.setflags(write=False)
        return X, y

    return load


def read_table(folder, name):
    """Read a CSV file with a `label` column; incomplete rows are left out."""
    for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
        if path.exists():
            table = pd.read_csv(path).dropna()
            return table.drop(columns="label").to_numpy(copy=True), table["label"].to_numpy(
                copy=True
            )
    pytest.skip(f"no data set {name!r} in {folder}")


# ------------------------------------------------------------------------------------- markers


def file_of(path):
    """Return a path as the tables of `pace` have it."""
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)


def pytest_ignore_collect(collection_path, config):
    """Leave files alone, under `-m quick`, of which no test would be run."""
    if config.option.markexpr == "quick" and file_of(collection_path) in NOT_QUICK:
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    """Make, under `-m quick`, the first case of a test alone, where that is all that is run."""
    test = f"{file_of(metafunc.definition.path)}::{metafunc.function.__name__}"
    if metafunc.config.option.markexpr != "quick" or test in EVERY_CASE:
        return
    parametrize = metafunc.parametrize

    def of_the_first(names, values, *, ids=None, **options):
        if isinstance(ids, Iterable):
            ids = list(ids)[:1]
        parametrize(names, list(values)[:1], ids=ids, **options)

    metafunc.parametrize = of_the_first


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items):
    """Give tests the markers slow, browser, cluster, gpu and, to those of no other, quick."""
    seen = set()
    for item in items:
        file, name = file_of(item.path), getattr(item, "originalname", item.name)
        kinds = {
            "browser": file in BROWSER,
            "cluster": "cluster" in getattr(item, "fixturenames", ()),
            "gpu": file == "tests/laws/test_on_a_gpu.py",
            "slow": name in SLOW.get(file, "").split(),
        }
        for kind in (kind for kind, applies in kinds.items() if applies):
            item.add_marker(kind)
        first = (file, name) not in seen
        seen.add((file, name))
        whole = re.search(EVERY_CASE.get(f"{file}::{name}", NEVER), item.name)
        real = "data_dir" in getattr(item, "fixturenames", ())  # data sets, some of them large
        heavy = real or file in NOT_QUICK
        if file.startswith("src/grayzone/onnx/") and not HAVE_ONNX:
            item.add_marker(pytest.mark.skip("without onnx and onnxruntime"))
        apart = any(item.get_closest_marker(kind) for kind in kinds)
        if (first or whole) and not heavy and not apart:
            item.add_marker("quick")


def pytest_terminal_summary(terminalreporter):
    """Say how many cells the table of estimators and carriers has (tests/laws/test_carriers.py)."""
    last = {
        report.nodeid: dict(report.user_properties)["carrier law"]
        for reports in terminalreporter.stats.values()
        for report in reports
        if "carrier law" in dict(getattr(report, "user_properties", ()))
    }
    if last:
        counts = Counter(last.values())
        parts = ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts))
        terminalreporter.write_line(f"Estimators x carriers: {len(last)} cells, {parts}.")
