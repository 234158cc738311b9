"""Sparse linear fits on texts beside scikit-learn and LIBLINEAR, at matched accuracy.

47,000 generated texts with 100,000 words, about 75 different ones each, C = 1. Solvers that form
a matrix of words × words (newton-cholesky, glum) are out of the question: 80 GB. Or a9a, 48,842
adults with 14 of 123 indicators each.

    python -m benchmarks.peers.sparse
    python -m benchmarks.peers.sparse --data a9a
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks import data
from benchmarks.peers.comparison import (
    compare,
    compare_memory,
    entries,
    judge_ratios,
    print_comparison,
)
from benchmarks.peers.contenders import Judge, Zone, optional_peers, scikit_learn
from benchmarks.report import write_json

C = 1.0
TARGET = 1e-4
TARGETS = (1e-2, TARGET, 1e-6)
ZONES: tuple[Zone, ...] = (None, 1.0, 0.25)
DATA = {"texts": data.texts, "a9a": data.a9a}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = parse_arguments(argv)
    load = partial(data.texts, 3_000, 10_000) if options.quick else DATA[options.data]
    X, y = load()
    print(f"{X.shape[0]:,} × {X.shape[1]:,}, {X.nnz / X.shape[0]:.0f} entries a row")
    judge = Judge(X, y, C, "newton-cg", options.threads)
    peers = [*map(scikit_learn, ("lbfgs", "newton-cg", "liblinear")), *optional_peers("liblinear")]
    tolerances = {peer: judge.tolerances(peer, TARGETS) for peer in peers}
    records = compare(judge, ZONES, tolerances, repeats=options.repeats)
    print_comparison(options.data, records)
    judge_ratios(options.data, records, TARGET)
    racing = list(entries(judge, ZONES, tolerances, TARGET))
    memory = compare_memory(racing, load, options.threads)
    write_json(
        "sparse" if options.data == "texts" else f"sparse_{options.data}",
        {
            "threads": options.threads,
            "repeats": options.repeats,
            "shape": X.shape,
            "nonzeros": X.nnz,
            "times": records,
            "memory": memory,
        },
        options.output,
    )
    return 0


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.sparse", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", choices=DATA, default="texts", help="which rows (default: texts)")
    parser.add_argument("--quick", action="store_true", help="3,000 × 10,000, one round")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of timing (default: 5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    parser.add_argument("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    if options.quick:
        options.repeats = 1
    return options


if __name__ == "__main__":
    raise SystemExit(main())
