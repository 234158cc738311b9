"""What the dense and the sparse benchmark share: match the accuracy, race, report."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.peers.contenders import Judge, Peer, Zone, ours
from benchmarks.report import measure, print_table, verdict
from benchmarks.timing import Contender, Timing, peak_memory, race

Tolerances = dict[Peer, dict[float, float | None]]


@dataclass(frozen=True)
class Entry:
    """A contender in one race."""

    contender: Contender
    tol: float
    peer: Peer | None = None
    zone: Zone = None


def entries(
    judge: Judge, zones: Sequence[Zone], tolerances: Tolerances, target: float
) -> Iterator[Entry]:
    """List who can reach a wanted error: all zones of ours, and the peers with a tolerance."""
    for zone in zones:
        yield Entry(ours(zone, judge.C, target), target, zone=zone)
    for peer, found in tolerances.items():
        tol = found[target]
        if tol is not None:
            yield Entry(peer.contender(judge.C, tol), tol, peer)


def compare(
    judge: Judge, zones: Sequence[Zone], tolerances: Tolerances, *, repeats: int
) -> list[dict[str, Any]]:
    """Time this package and its peers on one problem, at matched accuracy.

    Parameters
    ----------
    judge : Judge
        Holds the problem and measures errors.
    zones : sequence
        Zones to fit; None is the peers' problem.
    tolerances : dict
        For each peer the tolerance for each wanted error, None where it does not reach it.
    repeats : int
        Rounds of timing.

    Returns
    -------
    list of dict
        One record per contender and wanted error.
    """
    records: list[dict[str, Any]] = []
    for target in next(iter(tolerances.values())):
        racing = list(entries(judge, zones, tolerances, target))
        contenders = [entry.contender for entry in racing]
        timings = race(contenders, judge.X, judge.y, repeats=repeats, threads=judge.threads)
        for entry, timing in zip(racing, timings, strict=True):
            record = _record(judge, entry, timing)
            # Peers were matched beforehand; ours must prove by its certificate that it is there.
            reached = entry.peer is not None or record["gap"] <= target
            records.append({"target": target, "reached": reached, **record})
        for peer, found in tolerances.items():
            if found[target] is None:
                records.append(
                    {"target": target, "reached": False, "name": peer.name, "peer": True}
                )
    return records


def _record(judge: Judge, entry: Entry, timing: Timing) -> dict[str, Any]:
    fit = timing.result
    error = None  # a narrower zone is another problem: its certificate stands for the error
    if entry.zone is None:
        error = judge.error(fit, entry.peer is not None and entry.peer.penalises_intercept)
    return {
        "name": entry.contender.name,
        "peer": entry.peer is not None,
        "tol": entry.tol,
        "seconds": timing.best,
        "all_seconds": timing.seconds,
        "error": error,
        "gap": fit.gap,
        "n_iter": fit.n_iter,
        "support_share": fit.support_share,
    }


def print_comparison(title: str, records: Sequence[dict[str, Any]]) -> None:
    """Print the times at each wanted error, then the peers' times divided by ours."""
    columns = ("tol", "seconds", "error", "gap", "n_iter", "support_share")
    for target in dict.fromkeys(record["target"] for record in records):
        group = [record for record in records if record["target"] == target]
        print_table(
            f"{title}: relative error {target:.0e} (*: not reached, and in no ratio)",
            ("", "tol", "seconds", "error", "gap", "iterations", "support"),
            [
                [record["name"] + " *" * (not record["reached"]), *map(record.get, columns)]
                for record in group
            ],
        )
        mine = [record for record in group if record["reached"] and not record["peer"]]
        rivals = [record for record in group if record["reached"] and record["peer"]]
        print_table(
            "seconds of the peer / seconds of grayzone",
            ("", *(record["name"].removeprefix("grayzone, ") for record in mine)),
            [[r["name"], *(r["seconds"] / m["seconds"] for m in mine)] for r in rivals],
        )


def judge_ratios(title: str, records: Sequence[dict[str, Any]], target: float) -> None:
    """Say how many times faster than the fastest peer ours is, at one wanted error."""
    reached = [r for r in records if r["reached"] and r["target"] == target]
    rivals = {r["name"]: r["seconds"] for r in reached if r["peer"]}
    if not rivals:
        return
    name = min(rivals, key=rivals.__getitem__)
    ratios = {
        r["name"].removeprefix("grayzone, "): rivals[name] / r["seconds"]
        for r in reached
        if not r["peer"]
    }
    for zone, ratio in ratios.items():
        measure(f"{title}: fastest peer / ours, {zone}", ratio, better="higher", slack=0.25 * ratio)
    verdict(
        f"Linear fits on {title}: no slower than the fastest peer",
        "met" if min(ratios.values()) >= 1 else "missed",
        f"{name} / ours at a relative error of {target:.0e}: "
        + ", ".join(f"{ratio:.2f} ({zone})" for zone, ratio in ratios.items()),
    )


def compare_memory(
    racing: Sequence[Entry], load: Callable[[], tuple[Any, np.ndarray]], threads: int
) -> list[dict[str, Any]]:
    """Measure the memory that each contender needs beyond the data, print and return it."""
    records: list[dict[str, Any]] = [
        {"name": entry.contender.name, **peak_memory(entry.contender, load, threads=threads)}
        for entry in racing
    ]
    print_table(
        "peak memory of a fit beyond the data (≤: an upper bound)",
        ("", "MB", "times the data"),
        [
            [
                record["name"],
                f"{'' if record['exact'] else '≤ '}{record['extra_bytes'] / 1e6:.0f}",
                record["extra_bytes"] / record["data_bytes"],
            ]
            for record in records
        ],
    )
    return records
