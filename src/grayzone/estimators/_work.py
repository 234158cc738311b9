"""Which members a budget has room for, and how many rows each learns from: by estimated work.

Work is counted in processor seconds by fixed formulas of rows and features, times how slow the
machine is in powers of two, so that the same budget gives the same model when it is busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from grayzone.estimators._members import MEMBERS, Member, Rows, Size
from grayzone.numerics.pace import slowness

Array = Any

LEAST_ROWS = 1_000  # that a member learns from, where there are as many
PLANNED = 0.75  # share of a budget that is planned with
# Rows that are scored for a budget of a minute, and whatever the budget.
_SCORED, _MOST_SCORED, _LEAST_SCORED = 60_000, 200_000, 10_000
_STACKED = 3e-5  # seconds that calibration and stacking take for a row and a member


def rows_to_score(budget: float | None) -> int:
    """Return how many rows, at most, members are asked about."""
    if budget is None:
        return _MOST_SCORED
    return int(min(max(_SCORED * budget / 60.0, _LEAST_SCORED), _MOST_SCORED))


@dataclass(frozen=True)
class Plan:
    """Members with the rows that they learn from, and the names of those that are left out.

    ``work`` is what each of them takes, in seconds.
    """

    members: list[Member]
    work: list[float]
    left_out: dict[str, str]


def plan(sized: Sequence[tuple[Member, Size]], budget: float | None) -> Plan:
    """Take, in their order, members that there is room for with a thousand rows, then share out.

    Members that need less than an equal part leave the rest to the others. The first one is always
    taken.
    """
    if budget is None:
        work = [_work(member, size, size.n_rows) for member, size in sized]
        return Plan([member for member, _ in sized], work, {})
    room = PLANNED * budget
    # all rows may be less work than a thousand: weights, which a sample has, are dear
    least = [min(_work(*one, LEAST_ROWS), _work(*one, one[1].n_rows)) for one in sized]
    there = [0]
    for k in range(1, len(sized)):
        if sum(least[j] for j in there) + least[k] <= room:
            there.append(k)
    reasons = {
        member.name: f"a budget of {budget:g} s has no room for it (about {least[k]:.2g} s)"
        for k, (member, _) in enumerate(sized)
        if k not in there
    }
    sized, least, n_taken = [sized[k] for k in there], [least[k] for k in there], len(there)
    members = {}
    needs = [_work(*one, one[1].n_rows) for one in sized]
    work = [0.0] * n_taken
    order = sorted(range(n_taken), key=lambda k: needs[k])
    for done, k in enumerate(order):
        # what those that come have to have, at least, is theirs
        spare = room - sum(least[j] for j in order[done:])
        part = least[k] + max(spare, 0.0) / (n_taken - done)
        most = _most_rows(*sized[k], part)
        members[k] = sized[k][0].with_rows(most)
        work[k] = _work(*sized[k], most)
        room -= work[k]
    return Plan([members[k] for k in range(n_taken)], work, reasons)


def _work(member: Member, size: Size, n_rows: int) -> float:
    n_rows = min(n_rows, size.n_rows, member.most_rows)
    weighted = size.weighted or n_rows < size.n_rows
    own = member.work(replace(size, n_rows=n_rows, weighted=weighted))
    return slowness() * (own + _STACKED * size.n_scored)


def _most_rows(member: Member, size: Size, seconds: float) -> int:
    """Largest number of rows whose work fits, by bisection."""
    low, high = min(LEAST_ROWS, size.n_rows), min(size.n_rows, member.most_rows)
    if high <= low or _work(member, size, high) <= seconds:
        return high
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (middle, high) if _work(member, size, middle) <= seconds else (low, middle)
    return low


def members_of(given: Any) -> list[Member]:
    """Turn what may be given as members into members."""
    if isinstance(given, str):
        if given != "auto":
            raise ValueError(f"members must be 'auto' or a sequence; got {given!r}.")
        return list(MEMBERS.values())
    found: list[Member] = []
    for one in given:
        name, model = one if isinstance(one, tuple) and len(one) == 2 else (None, one)
        if isinstance(model, str):
            if model not in MEMBERS:
                raise ValueError(
                    f"members names {model!r}, which is not known; expected a classifier or one of "
                    f"{', '.join(MEMBERS)}."
                )
            found.append(MEMBERS[model])
            continue
        if not hasattr(model, "predict_proba"):
            raise TypeError(
                f"Members need predict_proba, which {type(model).__name__} lacks; "
                "sklearn.calibration.CalibratedClassifierCV can provide it."
            )
        found.append(Member(name or type(model).__name__.lower(), model))
    names = [member.name for member in found]
    if not found or len(set(names)) < len(names):
        raise ValueError(f"members must be at least one, of different names; got {names}.")
    return found


def own_models(given: Any) -> list[Any]:
    """Return the classifiers among what may be given as members: they get the data as they are."""
    if isinstance(given, str):
        return []
    models = (one[1] if isinstance(one, tuple) and len(one) == 2 else one for one in given)
    return [model for model in models if hasattr(model, "predict_proba")]


def able_to(members: Sequence[Member], X: Array) -> tuple[list[Member], dict[str, str]]:
    """Members that take such data, and why others do not."""
    reasons = {member.name: member.unable(X) for member in members}
    able = [member for member in members if not reasons[member.name]]
    if not able:
        raise ValueError(f"No member takes these data: {reasons}.")
    return able, {name: reason for name, reason in reasons.items() if reason}


def size_of(member: Member, rows: Rows, n_more: int) -> Size:
    width = rows.X.shape[1]
    if member.kind is not None:
        width = rows.preparation.width(member.kind, rows.numbers)
    scored = rows.n_rows + n_more
    weighted = not np.all(rows.weight == 1.0)
    return Size(rows.n_rows, scored, width, rows.n_classes, len(rows.folds), rows.alike, weighted)
