"""What can be fuzzed: fits, model files, tables, and any function of a seed.

A subject draws the cases of a batch, always the same ones, and then loads what checks them: nothing
of the package is imported before cases are drawn.
"""

import traceback
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from fuzz.findings import Case, Finding, Outcome

# Functions of a seed, which raise an AssertionError that says what they have found.
SEEDED = {
    "files": "fuzz.model_files:check_model_file",
    "tables": "fuzz.tables:check_table",
}
Check = Callable[[Case], Outcome]


class Subject(NamedTuple):
    """How cases are drawn, of a campaign's seed, a batch's number and its size, and checked."""

    draw: Callable[[int, int, int], list[Case]]
    load: Callable[[], Check]


def subject_of(name: str) -> Subject:
    """Return a subject: "fits", "files", "tables", or a function of a seed as "module:function"."""
    if name != "fits":
        return Subject(partial(_seeds, name), partial(_load_seeded, name))
    from fuzz.cases import draw_cases

    return Subject(draw_cases, _load_examine)


def checked(case: Case) -> Outcome:
    """Check a case of whatever subject."""
    return subject_of(case.get("subject", "fits")).load()(case)


def _load_examine() -> Check:
    from fuzz.laws import examine

    return examine


def _seeds(name: str, campaign: int, batch: int, size: int) -> list[Case]:
    first = campaign * 10**9 + batch * size
    return [{"subject": name, "seed": seed} for seed in range(first, first + size)]


def _load_seeded(name: str) -> Check:
    module, _, function = SEEDED.get(name, name).partition(":")
    return partial(_asserted, getattr(import_module(module), function))


def _asserted(check: Callable[[int], Any], case: Case) -> Outcome:
    try:
        check(case["seed"])
    except Exception as error:  # whatever it is, it is what we are here for
        return Outcome("passed", [_found(case["subject"], error)])
    return Outcome("passed")


def _found(name: str, error: Exception) -> Finding:
    """Return a finding: what was asserted, or the place of a foreign exception."""
    trace, text = "".join(traceback.format_exception(error)), str(error)
    if isinstance(error, AssertionError):
        # what is said before a colon is the law, what follows is the case
        return Finding("broken law", name, text.split(":")[0][:100], text, trace)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/grayzone/" in frame.filename] or frames
    place = f"{Path(own[-1].filename).name}:{own[-1].name}"
    return Finding("exception", name, f"{type(error).__name__} at {place}", text, trace)
