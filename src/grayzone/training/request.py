"""What was asked for, and whether it can be."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from grayzone.decision.confidence import check_precision, fewest_rows
from grayzone.numerics.pitfalls import Pitfall
from grayzone.tables.errors import UserError, option, shortened
from grayzone.training.candidates import AUTO, MODELS
from grayzone.training.rows import Roles
from grayzone.training.stakes import CONFIDENCE, LIMITS, UNDECIDED, Stakes, check_sizes

Array = Any

TIME_LIMIT = 120.0  # seconds
BEST, SIMPLE = "best", "simple"
LEAST_ROWS = 20
_MANY = 2**62  # rows: no limit takes as many


@dataclass(frozen=True)
class Request:
    """What was asked for: options of ``grayzone train``, or arguments of :func:`grayzone.train`.

    ``table`` is a file or a data frame; without ``out`` nothing is written. ``best_possible`` is
    what the best decisions about these rows have cost, where somebody knows: of generated ones.
    """

    table: Any
    target: str
    out: Path | None = None
    positive: str | None = None
    costs: Any = None
    cost_matrix: Path | None = None
    reject_cost: float | None = None
    max_fpr: float | None = None
    min_recall: float | None = None
    min_precision: float | None = None
    model: str = AUTO
    prefer: str = BEST
    drop: tuple[str, ...] = ()
    time_limit: float = TIME_LIMIT
    stop_after: float | None = None
    seed: int = 0
    overwrite: bool = False
    keep: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    time: str | None = None
    group: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    missing: tuple[str, ...] = ()
    strict: bool = False
    segment: tuple[str, ...] = ()
    limit_by: str | None = None
    best_possible: float | None = None
    cost_known_after: tuple[str, ...] = ()

    @property
    def roles(self) -> Roles:
        """Columns that are no features."""
        return Roles(self.ids, self.time, self.group, self.drop, self.keep)

    @property
    def limits(self) -> dict[str, float]:
        """Limits that were asked for."""
        asked = {name: getattr(self, name) for name in LIMITS}
        return {name: value for name, value in asked.items() if value is not None}

    @property
    def seconds(self) -> float:
        """Seconds of work: no more than there are seconds of the day."""
        return min(self.time_limit, inf if self.stop_after is None else self.stop_after)

    def check(self) -> None:
        """Refuse what contradicts itself.

        Raises
        ------
        UserError
            If something does.
        """
        if self.model not in MODELS:
            raise UserError(
                f"{option('model')} {self.model!r} is not known; expected {', '.join(MODELS)}."
            )
        if self.prefer not in (BEST, SIMPLE):
            raise UserError(
                f"{option('prefer')} {self.prefer!r} is not known; expected {BEST} or {SIMPLE}."
            )
        self._check_limits()
        if self.reject_cost is not None and not 0 < self.reject_cost < inf:
            raise UserError(
                f"{option('reject_cost')} must be a positive number; got {self.reject_cost:g}."
            )
        if self.reject_cost is not None:
            check_sizes([self.reject_cost], option("reject_cost"))
        if not 0 < self.time_limit < inf:
            raise UserError(f"{option('time_limit')} must be positive; got {self.time_limit:g}.")
        if self.stop_after is not None and not 0 < self.stop_after < inf:
            raise UserError(f"{option('stop_after')} must be positive; got {self.stop_after:g}.")

    def check_known_after(self, columns: tuple[str | None, ...] | None) -> None:
        """Refuse columns that have no costs, and to learn from what is known too late.

        Raises
        ------
        UserError
            If one is named.
        """
        asked = option("cost_known_after")
        priced = list(dict.fromkeys(name for name in columns or () if name is not None))
        other = [name for name in self.cost_known_after if name not in priced]
        if other:
            named = f"which names {shortened(priced)}" if priced else "which names no column"
            raise UserError(
                f"{asked}: {shortened(other)} is not a column of {option('costs')}, {named}."
            )
        both = [name for name in self.cost_known_after if name in self.keep]
        if both:
            raise UserError(f"{option('keep')} and {asked}: {shortened(both)} cannot be both.")

    @property
    def told_of(self) -> list[str]:
        """Columns whose segments are told of, each once."""
        return list(dict.fromkeys([*self.segment, *([self.limit_by] if self.limit_by else [])]))

    def _check_limits(self) -> None:
        by = option("limit_by")
        if self.limit_by is not None and not self.limits.keys() & {"max_fpr", "min_recall"}:
            raise UserError(f"{by} is for a limit on the false positive rate or on the recall.")
        named = {option(name): value for name, value in self.limits.items()}
        if len(named) > 1:
            raise UserError(f"Only one limit can be kept; got {' and '.join(named)}.")
        for name, value in named.items():
            if self.reject_cost is not None:
                raise UserError(f"{name} and {option('reject_cost')} cannot be asked for together.")
            if self.costs is not None or self.cost_matrix is not None:
                raise UserError(f"{name} says what to trade for what; give no costs beside it.")
            if not 0 < value < 1:
                raise UserError(f"{name} must be between 0 and 1; got {value:g}.")


def check_stakes(stakes: Stakes, labels: Array) -> None:
    """Refuse what these rows do not allow.

    Raises
    ------
    UserError
        If there are too few rows, or the labels are others than it takes.
    """
    if len(labels) < LEAST_ROWS:
        raise UserError(f"{len(labels)} rows with a target; at least {LEAST_ROWS} are needed.")
    if stakes.reject_cost is not None and UNDECIDED in stakes.classes:
        raise UserError(f"{option('reject_cost')}: {UNDECIDED!r} is a label already; rename it.")
    limit = stakes.limit
    if limit is None:
        return
    name = option(limit.name)
    if not stakes.binary:
        raise UserError(f"{name} is for two classes; the target has {len(stakes.classes)}.")
    counts = [int(np.sum(labels == label)) for label in stakes.classes]
    error = 1.0 - CONFIDENCE
    if limit.name == "min_precision":
        of, there = "in all", sum(counts)
        held = check_precision(_MANY, limit.value, error) + 1
    else:
        place = 0 if limit.name == "max_fpr" else 1
        share = limit.value if limit.name == "max_fpr" else 1.0 - limit.value
        of, there = f"of {shortened([stakes.classes[place]])}", counts[place]
        held = fewest_rows(share, error)
    if there < 2 * held:
        raise UserError(
            f"{name} {limit.value:g} takes at least {2 * held:,} rows {of}, half of them held out "
            f"to set a threshold that holds with a probability of {CONFIDENCE:g}; there are "
            f"{there:,}. {Pitfall.TOO_FEW_ROWS}"
        )
