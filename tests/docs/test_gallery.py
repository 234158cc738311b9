"""Every example of the gallery runs, without a warning, and draws something that can be read."""

import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAGES = sorted(EXAMPLES.glob("*/plot_*.py"))


@pytest.fixture
def no_window(monkeypatch):
    """Figures stay open for a look, and `show` has nothing to show them in."""
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    yield
    plt.close("all")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_an_example_runs_and_its_axes_say_what_they_show(page, no_window):
    runpy.run_path(str(page), run_name="__main__")
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert 1 <= len(figures) <= 2
    for figure in figures:
        assert any(ax.get_ylabel() for ax in figure.axes), page.name
        for ax in figure.axes:
            # of axes that are shared, the outer ones have the labels
            assert ax.get_xlabel() or not ax.get_subplotspec().is_last_row(), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_an_example_is_a_page(page):
    text = page.read_text(encoding="utf-8")
    title, line, blank, paragraph = text.split("\n")[1:5]
    assert text.startswith('"""\n')
    assert line == "=" * len(title)
    assert not blank
    assert paragraph
    assert len(re.findall(r"^# %%$", text, flags=re.MULTILINE)) >= 2
    assert "plt.show()" in text
