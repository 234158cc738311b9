"""Compiled loops where nothing can be kept on disk, or what is there is damaged."""

import importlib.util

import numba
import pytest
from numba.core.caching import CompileResultCacheImpl

LOOP = """
from grayzone.numerics.compiled import loop

@loop()
def more(x):
    return x + 1.0
"""


@pytest.fixture
def more(tmp_path, monkeypatch):
    """Return what imports a compiled loop, as a new process would."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    file = tmp_path / "loops.py"
    file.write_text(LOOP)

    def imported():
        spec = importlib.util.spec_from_file_location("loops", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.more

    return imported


def hits(function):
    return sum(function.stats.cache_hits.values())


def test_loops_are_compiled_where_nothing_can_be_kept(more, monkeypatch):
    """A container whose package and home are read-only could fit no kernel."""
    monkeypatch.setattr(CompileResultCacheImpl, "_locator_classes", [])
    assert more()(1.0) == 2.0


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_file_is_replaced(more, tmp_path, suffix):
    """It failed in every process from then on."""
    assert more()(1.0) == 2.0
    (kept,) = tmp_path.rglob(f"*.{suffix}")
    for damaged in (b"", kept.read_bytes()[:-20], b"no pickle"):
        kept.write_bytes(damaged)
        assert more()(1.0) == 2.0
        again = more()
        assert again(1.0) == 2.0
        assert hits(again) == 1


def test_a_folder_that_is_gone_when_a_loop_is_kept(more, tmp_path):
    function = more()
    (tmp_path / "kept").rename(tmp_path / "elsewhere")
    (tmp_path / "kept").write_text("no folder")
    assert function(1.0) == 2.0
