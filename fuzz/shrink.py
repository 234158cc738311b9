"""A case made smaller, as long as it breaks the same law in the same place."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from fuzz.findings import Case, Finding, Outcome

# What a case may be simplified to; the first that still breaks the law is taken.
_SIMPLE = {"carrier": "NumPy", "new rows": "zeros"}
_ROWS: dict[str, tuple[Any, ...]] = {
    "n": (2, 4, 6, 10, 20, 30),
    "d": (1, 2),
    "classes": (2,),
    "seed": (0, 1),
    "kind": ("linear",),
}


def shrunk(case: Case, finding: Finding, check: Callable[[Case], Outcome]) -> Case:
    """Return a smaller case with the same finding.

    Parameters
    ----------
    case : dict
        One of fits; others are returned as they are.
    finding : Finding
        What was found of it.
    check : callable
        Returns what is found of a case.
    """
    if "rows" not in case:
        return case
    tried: list[Case] = []
    while True:
        for simpler in _simpler(case):
            if simpler in tried:
                continue
            tried.append(simpler)
            if any(found[:3] == finding[:3] for found in check(simpler).findings):
                case = simpler
                break
        else:
            return case


def _simpler(case: Case) -> Iterator[Case]:
    """Yield cases with one thing less, or simpler."""
    for name in ("fitted before", "unit", "row costs", "rewards"):
        yield from _without(case, name)
    for name in case["parameters"]:
        if name not in ("estimator", "members"):
            yield from _without(case, "parameters", name)
    for name in ("twists", "weights", "labels", "single"):
        yield from _without(case, "rows", name)
    for k in range(len(case["rows"].get("twists", ()))):
        twists = case["rows"]["twists"]
        yield {**case, "rows": {**case["rows"], "twists": twists[:k] + twists[k + 1 :]}}
    for name, simple in _SIMPLE.items():
        if case[name] != simple:
            yield {**case, name: simple}
    for name, values in _ROWS.items():
        now = case["rows"][name]
        for value in values:
            if value == now or (not isinstance(now, str) and value > now):
                break
            yield {**case, "rows": {**case["rows"], name: value}}


def _without(case: Case, *path: str) -> Iterator[Case]:
    """Yield the case without an entry, where it has it."""
    fewer = deepcopy(case)
    inner = fewer
    for name in path[:-1]:
        inner = inner[name]
    if path[-1] in inner:
        del inner[path[-1]]
        yield fewer
