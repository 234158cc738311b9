"""Is anything worse than it was? Two files of results, number by number."""

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.report import print_table

Measures = dict[str, dict[str, Any]]


def read_measures(path: Path) -> Measures:
    """Read the numbers of a file: all of RESULTS.json, or those of one benchmark.

    Raises
    ------
    SystemExit
        With the code 2, if it is neither.
    """
    try:
        record = json.loads(path.read_text("utf-8"))
        if "entries" in record:
            parts = {name: entry["report"]["measures"] for name, entry in record["entries"].items()}
            found = {f"{name}: {key}": m for name, own in parts.items() for key, m in own.items()}
        else:
            found = dict(record["report"]["measures"])
        return {name: _checked(measured) for name, measured in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"{path} holds no results of a benchmark: {error!r}", file=sys.stderr)
        raise SystemExit(2) from error


def _checked(measured: dict[str, Any]) -> dict[str, Any]:
    value, slack, better = (measured[key] for key in ("value", "slack", "better"))
    if better not in ("higher", "lower"):
        raise ValueError(f"better is {better!r}")
    return {"value": float(value), "slack": float(slack), "better": better}


def worse_by(old: dict[str, Any], new: dict[str, Any]) -> float:
    """Return by how much a number is worse, in units of what chance may do."""
    change = new["value"] - old["value"]
    harm = -change if old["better"] == "higher" else change
    return harm / max(old["slack"], new["slack"], 1e-300)


def compare(old_path: Path, new_path: Path) -> int:
    """Print what both files have measured.

    Returns
    -------
    int
        0, 1 if something is worse than chance explains, or 2 if there is nothing to compare.
    """
    old, new = read_measures(old_path), read_measures(new_path)
    common = [name for name in old if name in new]
    if not common:
        print(f"{old_path} and {new_path} have no measure in common: nothing to compare")
        return 2
    harm = {name: worse_by(old[name], new[name]) for name in common}
    print_table(
        f"{len(common)} numbers (change in units of what chance may do; + is worse)",
        ("", "old", "new", "better", "change", ""),
        [
            [
                name,
                f"{old[name]['value']:.4g}",
                f"{new[name]['value']:.4g}",
                old[name]["better"],
                f"{harm[name]:+.3g}",
                "WORSE" if harm[name] > 1 else "better" if harm[name] < -1 else "",
            ]
            for name in sorted(common, key=lambda name: -harm[name])
        ],
    )
    for name in sorted(set(old) ^ set(new)):
        print(f"  only in {'the old' if name in old else 'the new'} one: {name}")
    worse = [name for name in common if harm[name] > 1]
    print(f"\n{len(worse)} worse, {sum(h < -1 for h in harm.values())} better")
    return 1 if worse else 0
