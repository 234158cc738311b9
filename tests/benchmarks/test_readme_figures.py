"""The figures of the README are those of the last full run."""

import json

import pytest

from benchmarks import headline
from benchmarks.results import HERE, collect, write_results

RESULTS = HERE / "RESULTS.json"


@pytest.fixture
def results():
    return json.loads(RESULTS.read_text())


def test_readme_figures_are_those_of_the_results(results):
    shown = headline.block(headline.README.read_text())
    assert shown.splitlines() == headline.headline(results)
    assert len(shown.splitlines()) == 2 + len(headline.LINES)


def test_the_results_are_those_of_a_full_run(results):
    assert not results["quick"]
    assert {entry["status"] for entry in results["entries"].values()} == {"complete"}


def test_results_md_is_made_from_results_json(results, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name, entry in results["entries"].items():
        report = entry.pop("report")
        (folder / f"{name}.json").write_text(json.dumps({"report": report}))
    (folder / "run.json").write_text(json.dumps(results))
    write_results(collect(folder), folder, tmp_path, readme=None)
    assert (tmp_path / "RESULTS.md").read_text() == (HERE / "RESULTS.md").read_text()


def test_every_figure_of_the_results_is_there(results):
    named = [f["file"] for e in results["entries"].values() for f in e["report"]["figures"]]
    assert named
    assert [name for name in named if not (HERE / "figures" / name).is_file()] == []


def test_a_measure_that_changes_changes_the_readme(results, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{headline.BEGIN}\nearlier\n{headline.END}\nafter\n")
    measures = results["entries"]["latency"]["report"]["measures"]
    measures["calibrated SVC / import vector machine, 1 rows"]["value"] = 123.4
    headline.update_readme(results, readme)
    text = readme.read_text()
    assert "123.4 times as quick" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "earlier" not in text
