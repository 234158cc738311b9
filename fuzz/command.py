"""The command line of campaigns.

python -m fuzz                                 # fits, for a minute
python -m fuzz --minutes 60 --jobs 16 --seed 1 # for an hour
python -m fuzz files --cases 10000             # model files; tables: tables for the command line
python -m fuzz replay '{"estimator": …}'       # one case, in this process
python -m fuzz shrink '{"estimator": …}'       # the same, made as small as it can be
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fuzz.campaign import Campaign
from fuzz.carriers import missing
from fuzz.findings import Report
from fuzz.shrink import shrunk
from fuzz.subjects import checked

_SECONDS_BETWEEN = 20.0  # two words about how a campaign goes


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the status is 1 where a law was broken.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = _parse(argv)
    if options.subject in _OF_A_CASE:
        return _OF_A_CASE[options.subject](json.loads(options.case))
    if options.subject == "fits" and missing():
        print(f"Left out, as their library is not here: {', '.join(missing())}.")
    began = time.monotonic()

    def keep(report: Report) -> None:
        if options.output is not None:
            facts = {"subject": options.subject, "seed": options.seed}
            report.write(options.output, **facts, seconds=round(time.monotonic() - began))

    campaign = Campaign(
        subject=options.subject,
        seed=options.seed,
        minutes=options.minutes,
        cases=options.cases,
        jobs=options.jobs,
        size=options.batch,
        limit=options.limit,
        tell=_Teller(keep),
    )
    report = campaign.run()
    seconds = time.monotonic() - began
    if report.buckets:
        print(report.table())
    print(_summary(options.subject, options.seed, report, seconds))
    keep(report)
    return int(bool(report.buckets))


def replay(case: dict[str, Any]) -> int:
    """Check one case in this process, and print all that is found of it."""
    outcome = checked(case)
    for finding in outcome.findings:
        print(f"{finding.kind} · {finding.subject} · {finding.where}\n{finding.detail}")
        print(finding.trace)
    refusal = "" if outcome.refusal is None else f": {outcome.refusal}"
    print(f"{outcome.result}{refusal}; {len(outcome.findings)} findings")
    return int(bool(outcome.findings))


def shrink(case: dict[str, Any]) -> int:
    """Print a smaller case for each thing that is found of one."""
    outcome = checked(case)
    for finding in outcome.findings:
        smaller = shrunk(case, finding, checked)
        print(f"{finding.kind} · {finding.subject} · {finding.where}")
        print(f"python -m fuzz replay '{json.dumps(smaller)}'")
    return int(bool(outcome.findings))


_OF_A_CASE = {"replay": replay, "shrink": shrink}


def _summary(subject: str, seed: int, report: Report, seconds: float) -> str:
    results = ", ".join(f"{n:,} {name}" for name, n in sorted(report.results.items()))
    slowest = report.slowest[0][0] if report.slowest else 0.0
    pace = 1e3 * seconds / max(1, report.tried)
    compared = "".join(f"{n:,} compared with {name}; " for name, n in report.compared.items())
    return (
        f"{subject}, seed {seed}: {report.tried:,} cases in {seconds:.0f} s ({pace:.1f} ms each): "
        f"{results or 'none'}; {compared}slowest {slowest:.1f} s; "
        f"{len(report.buckets)} kinds of findings."
    )


class _Teller:
    """Says now and then how a campaign goes, to whoever watches, and keeps what it has found."""

    def __init__(self, keep: Callable[[Report], None]) -> None:
        self._last, self._keep = time.monotonic(), keep

    def __call__(self, report: Report) -> None:
        if time.monotonic() - self._last >= _SECONDS_BETWEEN:
            self._last = time.monotonic()
            said = f"{report.tried:,} cases, {len(report.buckets)} kinds of findings"
            print(said, file=sys.stderr, flush=True)
            self._keep(report)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "subject",
        nargs="?",
        default="fits",
        help="fits (the default), files, tables, module:function of a seed, replay or shrink",
    )
    parser.add_argument("case", nargs="?", help="the case, as JSON")
    parser.add_argument("--minutes", type=float, default=1.0, help="end after this time")
    parser.add_argument("--fits", "--cases", dest="cases", type=int, help="end after so many")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seed", type=int, default=0, help="which cases are drawn")
    parser.add_argument("--batch", type=int, default=1000, help="cases of a process")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a case")
    parser.add_argument("--output", type=Path, help="a JSON file for all findings")
    options = parser.parse_args(argv)
    if (options.subject in _OF_A_CASE) != (options.case is not None):
        parser.error("replay and shrink take a case, and nothing else does")
    if options.output is not None and not _can_be_written(options.output):
        parser.error(f"--output is the name of a file in a folder that exists: {options.output}")
    return options


def _can_be_written(path: Path) -> bool:
    """Whether findings can go there: known before the campaign, which may take hours."""
    return path.parent.is_dir() and not path.is_dir()
