"""The page of pitfalls: a section for every code, examples that show what it says, and mend it."""

import re
import tomllib
import warnings
from pathlib import Path

import pytest

from grayzone.numerics.pitfalls import PAGE, Pitfall

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "pitfalls.md").read_text()
TABLE = ROOT / "src" / "grayzone" / "numerics" / "pitfalls.py"
# what the section's fences hold, by the code of the section
SECTIONS = dict(re.findall(r"^\(gz\d+\)=\n## (GZ\d+): .*\n((?:(?!^\(gz).*\n)*)", TEXT, re.M))
CODES = [pitfall.value for pitfall in Pitfall]


def blocks(section, language):
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.M | re.S)


def run(example, code, names, capsys):
    """Run an example and return all that it says: what it prints, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(example, f"docs/pitfalls.md, {code}", "exec"), names)
    return [capsys.readouterr().out, *(str(warning.message) for warning in caught)]


def pattern(quoted):
    """A quoted sentence as a pattern: … stands for anything."""
    words = " ".join(quoted.split())
    return ".*".join(re.escape(part.strip()) for part in words.split("…"))


def test_every_code_has_a_section_in_order_and_an_anchor_of_its_own():
    assert list(SECTIONS) == CODES
    assert re.findall(r"^\((gz\d+)\)=$", TEXT, re.M) == [code.lower() for code in CODES]


def test_every_section_is_reached_from_the_table_at_the_top():
    table = TEXT[: TEXT.index("\n(gz001)=")]
    assert re.findall(r"^\| \[(GZ\d+)\]\(#(gz\d+)\)", table, re.M) == [
        (code, code.lower()) for code in CODES
    ]


def test_the_address_is_that_of_the_documentation():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert PAGE.startswith(project["urls"]["Documentation"] + "/")
    assert PAGE.endswith("/pitfalls.html")
    assert str(Pitfall.CONSTANT) == f"[GZ001: {PAGE}#gz001]"


def test_every_pitfall_that_is_not_silent_is_said_somewhere():
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    said = set(re.findall(r"\{Pitfall\.([A-Z_]+)\}", sources.replace(TABLE.read_text(), "")))
    silent = {pitfall.name for pitfall in Pitfall if not blocks(SECTIONS[pitfall.value], "text")}
    assert said == {pitfall.name for pitfall in Pitfall} - silent


def test_codes_and_the_address_are_written_in_one_place():
    sources = [path for path in (ROOT / "src").rglob("*.py") if path != TABLE]
    found = re.compile(r"GZ\d{3}|pitfalls\.html")
    assert not [path.name for path in sources if found.search(path.read_text())]


@pytest.mark.parametrize("code", CODES)
def test_the_first_example_shows_it_and_the_second_mends_it(code, capsys):
    section, names = SECTIONS[code], {}
    shown, mended = blocks(section, "python")
    said = run(shown, code, names, capsys)
    quoted = blocks(section, "text")
    if quoted:
        told = [text for text in said if f"[{code}: {PAGE}#{code.lower()}]" in text]
        assert len(told) == 1, said
        assert re.match(pattern(quoted[0]), " ".join(told[0].split())), told[0]
    others = [text for text in said if re.search(r"\[GZ\d+: ", text) and f"[{code}:" not in text]
    assert not others
    assert bool(quoted) or said == [""]
    assert "*Silent.*" in section or quoted
    exec(compile(mended, f"docs/pitfalls.md, {code}", "exec"), names)  # warnings are errors
