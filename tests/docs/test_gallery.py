"""Every example of the gallery runs, without a warning, and draws something that can be read."""

import re
import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAGES = sorted(EXAMPLES.glob("*/plot_*.py"))
FOLDERS = ("1_first_steps", "2_real_decisions", "3_papers", "4_under_the_hood")


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


def test_there_are_enough_of_every_kind():
    counts = {folder: sum(page.parent.name == folder for page in PAGES) for folder in FOLDERS}
    assert sum(counts.values()) == len(PAGES) >= 25
    assert counts["1_first_steps"] >= 6
    assert counts["2_real_decisions"] >= 8
    assert counts["3_papers"] >= 7
    assert counts["4_under_the_hood"] >= 6
    for header in [EXAMPLES, *(EXAMPLES / folder for folder in FOLDERS)]:
        assert (header / "GALLERY_HEADER.rst").is_file()


def test_names_of_pages_differ():
    names = [page.stem for page in PAGES]
    assert len(set(names)) == len(names)
