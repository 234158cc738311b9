"""Every table and figure of the papers, and every race, from one command.

python -m benchmarks all            # everything, then benchmarks/RESULTS.md
python -m benchmarks papers --quick # does everything run?
python -m benchmarks compare old.json new.json
"""

import argparse
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from benchmarks import suite
from benchmarks.compare import compare
from benchmarks.headline import README
from benchmarks.report import RESULTS
from benchmarks.results import HERE, collect, write_results

QUICK_RESULTS = RESULTS / "quick"
EARLIER = HERE / "RESULTS.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = parse_arguments(argv)
    if options.command == "compare":
        return compare(options.old, options.new)
    if options.command == "list":
        for entry in suite.ENTRIES:
            note = " (--large)" if entry.large else ""
            print(f"{entry.kind:8}{entry.name:24}{entry.title}{note}")
        return 0
    folder = options.folder or (QUICK_RESULTS if getattr(options, "quick", False) else RESULTS)
    if options.command == "results":
        write_results(collect(folder, EARLIER), folder, readme=README)
        return 0
    # whoever ends a long run otherwise, such as a scheduler, wants what is complete kept as well
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = suite.run(
        options.only
        or [
            e.name
            for e in suite.ENTRIES
            if options.command in ("all", e.kind) and (options.large or not e.large)
        ],
        quick=options.quick,
        again=options.again,
        jobs=options.jobs,
        folder=folder,
    )
    if code != 130 and not options.quick and options.only is None:
        # papers and races may be run by themselves: of the others what was known stays
        earlier = None if options.command == "all" else EARLIER
        write_results(collect(folder, earlier), folder, readme=README)
    return code


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("all", "papers, then peers, then RESULTS.md"),
        ("papers", "tables and figures of the papers, then RESULTS.md with what is known of races"),
        ("peers", "races with other packages, then RESULTS.md with what is known of papers"),
    ):
        add = commands.add_parser(name, help=text).add_argument
        add("--only", type=_names, help="names, separated by commas; see the command `list`")
        add("--quick", action="store_true", help="small versions: does everything run?")
        add("--again", action="store_true", help="run also what is complete")
        add("--large", action="store_true", help="also what needs gigabytes, a cluster or a GPU")
        add(
            "--jobs",
            type=_positive,
            default=os.cpu_count() or 1,
            help="tables and figures at a time (default: one a processor; races run alone)",
        )
        add("--folder", type=Path, help="where results go (default: benchmarks/results)")
    add = commands.add_parser("results", help="write RESULTS.md and RESULTS.json anew").add_argument
    add("--folder", type=Path, help="where results are (default: benchmarks/results)")
    commands.add_parser("list", help="names of all benchmarks")
    add = commands.add_parser("compare", help="is anything worse than it was?").add_argument
    add("old", type=Path, help="RESULTS.json of an earlier run, or a JSON file of one benchmark")
    add("new", type=Path, help="the same of a later one")
    options = parser.parse_args(argv)
    for entry in suite.ENTRIES:
        asked = entry.name in (getattr(options, "only", None) or ())
        if asked and options.command not in ("all", entry.kind):
            parser.error(f"{entry.name} is one of the {entry.kind}, not of the {options.command}")
    return options


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in suite.NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"no benchmark {', '.join(unknown)}; there are {', '.join(suite.NAMES)}"
        )
    return names


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, at least 1; got {text}")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())
