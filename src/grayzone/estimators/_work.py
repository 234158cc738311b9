"""Which members a budget has room for, and how many rows each learns from: by estimated work.

Work is counted in processor seconds by fixed formulas of rows and features, never measured, so that
the same budget gives the same model on a busy machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from grayzone.estimators._members import MEMBERS, Member, Rows, Size

Array = Any

LEAST_ROWS = 1_000  # that a member learns from, where there are as many
PLANNED = 0.75  # share of a budget that is planned with
# Rows that are scored for a budget of a minute, and whatever the budget.
_SCORED, _MOST_SCORED, _LEAST_SCORED = 60_000, 200_000, 10_000
_STACKED = 1.2e-5  # seconds that calibration and stacking take for a row and a member


def rows_to_score(budget: float | None) -> int:
    """Return how many rows, at most, members are asked about."""
    if budget is None:
        return _MOST_SCORED
    return int(min(max(_SCORED * budget / 60.0, _LEAST_SCORED), _MOST_SCORED))


@dataclass(frozen=True)
class Plan:
    """Members with the rows that they learn from, and the names of those that are left out."""

    members: list[Member]
    left_out: dict[str, str]


def plan(sized: Sequence[tuple[Member, Size]], budget: float | None) -> Plan:
    """Take members in their order as long as all have room with a thousand rows, then share out.

    Members that need less than an equal part leave the rest to the others. The first one is always
    taken.
    """
    if budget is None:
        return Plan([member for member, _ in sized], {})
    room = PLANNED * budget
    least = [_work(member, size, LEAST_ROWS) for member, size in sized]
    n_taken = max(1, sum(sum(least[: k + 1]) <= room for k in range(len(sized))))
    taken, members = sized[:n_taken], {}
    needs = [_work(member, size, size.n_rows) for member, size in taken]
    order = sorted(range(n_taken), key=lambda k: needs[k])
    for done, k in enumerate(order):
        # what those that come have to have, at least, is theirs
        spare = room - sum(least[j] for j in order[done:])
        part = least[k] + max(spare, 0.0) / (n_taken - done)
        most = _most_rows(*taken[k], part)
        members[k] = taken[k][0].with_rows(most)
        room -= _work(*taken[k], most)
    reasons = {
        member.name: f"a budget of {budget:g} s has no room for it (about {work:.2g} s)"
        for (member, _), work in zip(sized[n_taken:], least[n_taken:], strict=True)
    }
    return Plan([members[k] for k in range(n_taken)], reasons)


def _work(member: Member, size: Size, n_rows: int) -> float:
    own = member.work(replace(size, n_rows=min(n_rows, size.n_rows, member.most_rows)))
    return own + _STACKED * size.n_scored


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
    return Size(rows.n_rows, scored, width, rows.n_classes, len(rows.folds), rows.alike)
