"""A campaign goes on whatever its cases do, and finds what is planted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.campaign import Campaign
from fuzz.cases import draw_cases
from fuzz.command import main
from fuzz.findings import Finding, Outcome, Report

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def planted(monkeypatch):
    """Let processes of a campaign import the function with defects."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "helpers"))
    return "planted:check"


def test_crashes_and_hangs_are_findings_that_do_not_end_a_campaign(planted):
    report = Campaign(planted, minutes=5.0, cases=20, size=10, jobs=2, limit=3.0).run()
    assert report.results == {"passed": 16, "crash": 2, "hang": 2}
    kinds = {(b.finding.kind, b.finding.where): b for b in report.ordered()}
    assert {key: bucket.count for key, bucket in kinds.items()} == {
        ("broken law", "the first law"): 2,
        ("broken law", "the second law"): 4,
        ("crash", "planted.py:check"): 2,
        ("hang", "planted.py:check"): 2,
        ("exception", "ZeroDivisionError at planted.py:check"): 2,
    }
    assert kinds["broken law", "the second law"].example["seed"] == 2


def test_the_command_prints_findings_that_can_be_replayed(planted, tmp_path, capsys, monkeypatch):
    output = tmp_path / "findings.json"
    options = ["--cases", "4", "--batch", "4", "--minutes", "5", "--output", str(output)]
    assert main([planted, *options]) == 1
    printed = capsys.readouterr().out
    written = json.loads(output.read_text())
    assert [f["where"] for f in written["findings"]] == ["the first law", "the second law"]
    assert written["results"] == {"passed": 4}
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "helpers"))
    lines = [line for line in printed.splitlines() if " replay " in line]
    for line, broken in zip(lines, (1, 2), strict=True):
        case = line.split(" replay ")[1].strip("'")
        assert main(["replay", case]) == 1
        assert f"broken by {broken}" in capsys.readouterr().out
    assert main(["replay", '{"subject": "planted:check", "seed": 7}']) == 0


def test_a_process_that_cannot_begin_is_an_error_not_a_finding():
    with pytest.raises(RuntimeError, match="no_such_module"):
        Campaign("no_such_module:check", minutes=1.0, cases=1, size=1, limit=3.0).run()


def test_a_seed_draws_the_same_cases_whatever_the_package_is():
    code = """
import json, sys
from fuzz.subjects import subject_of
print(json.dumps(subject_of("fits").draw(5, 1, 60)))
assert "grayzone" not in sys.modules
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    drawn = draw_cases(5, 1, 60)
    assert json.dumps(drawn) == ran.stdout.strip()
    assert len({json.dumps(case) for case in drawn}) == 60
    assert json.dumps(drawn) != json.dumps(draw_cases(5, 2, 60))


def test_a_bucket_keeps_its_smallest_example():
    report = Report()
    finding = Finding("law", "Estimator", "place", "large")
    large, small = ({"rows": {"n": n, "d": 2}} for n in (9, 3))
    report.add(large, Outcome("fitted", [finding, finding]), 0.1)
    report.add(small, Outcome("fitted", [finding._replace(detail="small")]), 0.2)
    report.add({"rows": {"n": 5, "d": 2}}, Outcome("fitted", [finding]), 0.1)
    (bucket,) = report.ordered()
    assert (bucket.count, bucket.example, bucket.finding.detail) == (3, small, "small")
    assert [seconds for seconds, _ in report.slowest] == [0.2, 0.1, 0.1]
    assert json.loads(report.slowest[0][1]) == small
