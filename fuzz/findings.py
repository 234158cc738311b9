"""What breaks a law, gathered: one bucket for what is broken in one place, with an example."""

import json
from collections import Counter
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path
from typing import Any, NamedTuple

Case = dict[str, Any]
_SLOWEST = 10  # cases that are kept


class Finding(NamedTuple):
    """A law that did not hold.

    Attributes
    ----------
    kind : str
        The law.
    subject : str
        The estimator, or what else was tried.
    where : str
        The place in the package, or the situation.
    detail : str
        What was seen.
    trace : str
        How it came about, where there was an exception or a warning.
    """

    kind: str
    subject: str
    where: str
    detail: str
    trace: str = ""


class Outcome(NamedTuple):
    """What became of a case: "fitted", "refused", "left out", "passed", "crash" or "hang".

    ``compared`` are the starts that its objective was held against.
    """

    result: str
    findings: list[Finding] = []  # noqa: RUF012
    refusal: str | None = None
    compared: list[str] = []  # noqa: RUF012


def subject_name(case: Case) -> str:
    """Return the estimator of a case, or what else is tried."""
    return str(case.get("estimator", case.get("subject")))


def size_of(case: Case) -> tuple[int, int]:
    """Return how large a case is: its rows, then its description."""
    rows = case.get("rows", {})
    return rows.get("n", 0) * rows.get("d", 0), len(json.dumps(case))


@dataclass
class Bucket:
    """What was found in one place, how often, and the smallest example."""

    finding: Finding
    example: Case
    count: int = 1

    def add(self, finding: Finding, case: Case) -> None:
        """Count one more; keep it where it is smaller."""
        self.count += 1
        if size_of(case) < size_of(self.example):
            self.finding, self.example = finding, case

    def record(self) -> dict[str, Any]:
        """Return plain values."""
        return {**self.finding._asdict(), "count": self.count, "case": self.example}


@dataclass
class Report:
    """What a campaign has come to."""

    results: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    buckets: dict[tuple[str, str, str], Bucket] = field(default_factory=dict)
    slowest: list[tuple[float, str]] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)

    @property
    def tried(self) -> int:
        """How many cases were tried; those left out are not."""
        return self.results.total() - self.results["left out"]

    def add(self, case: Case, outcome: Outcome, seconds: float) -> None:
        """Take the outcome of a case in."""
        self.results[outcome.result] += 1
        if outcome.refusal is not None:
            self.refusals[outcome.refusal[:60]] += 1
        self.compared.update(outcome.compared)
        self.seconds[subject_name(case)] += seconds  # type: ignore[assignment]
        self.slowest = nlargest(_SLOWEST, [*self.slowest, (seconds, json.dumps(case))])
        for finding in set(outcome.findings):
            bucket = self.buckets.get(finding[:3])
            if bucket is None:
                self.buckets[finding[:3]] = Bucket(finding, case)
            else:
                bucket.add(finding, case)

    def ordered(self) -> list[Bucket]:
        """Return the buckets, those of one law together."""
        return [self.buckets[key] for key in sorted(self.buckets)]

    def table(self) -> str:
        """Return the findings as a user reads them."""
        lines = []
        for bucket in self.ordered():
            kind, subject, where, detail, _ = bucket.finding
            lines.append(f"{bucket.count:6d} × {kind} · {subject} · {where}")
            lines.append(f"         {detail.splitlines()[0][:150] if detail else ''}")
            lines.append(f"         python -m fuzz replay '{json.dumps(bucket.example)}'")
        return "\n".join(lines)

    def write(self, path: Path, **facts: Any) -> None:
        """Write it all as JSON."""
        record = {
            **facts,
            "results": dict(self.results),
            "compared with": dict(self.compared),
            "seconds of": {name: round(s, 1) for name, s in self.seconds.most_common()},
            "slowest": [(round(seconds, 2), json.loads(case)) for seconds, case in self.slowest],
            "findings": [bucket.record() for bucket in self.ordered()],
            "refusals": dict(self.refusals.most_common()),
        }
        path.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
