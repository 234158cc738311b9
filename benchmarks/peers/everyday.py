"""Everyday fits: small tables, searches over C, and rare positives, beside scikit-learn.

Default fits of 1,000 × 20 rows and searches on 4,000 × 46 against LogisticRegression and
LogisticRegressionCV; then 60,000 × 29 with 0.2 % positives, zones at several costs against the
plain fit.

    python -m benchmarks.peers.everyday
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from benchmarks import data
from benchmarks.report import print_table, write_json
from benchmarks.timing import Contender, race
from grayzone import TruncatedLogisticRegression, TruncatedLogisticRegressionCV

RATIOS = (1, 5, 20, 100)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.everyday", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="few rows, one round")
    parser.add_argument("--repeats", type=int, default=7, help="rounds of timing (default: 7)")
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    parser.add_argument("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    repeats, share = (1, 10) if options.quick else (options.repeats, 1)
    run = partial(_race, repeats=repeats, threads=options.threads)
    found = {
        "small": run("1,000 × 20, a fit", SMALL, table(1_000 // share, 20)),
        "search": run("4,000 × 46, a search", SEARCHES, table(4_000 // share, 46)),
        "rare": run(
            "60,000 × 29, 0.2 % positives", rare(), data.rare_positives(60_000 // share, 29)
        ),
    }
    write_json("everyday", {"threads": options.threads, **found}, options.output)
    return 0


def table(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate a small table of two classes that overlap."""
    X, y = make_classification(
        n_rows,
        n_features,
        n_informative=n_features // 3,
        class_sep=0.7,
        flip_y=0.05,
        random_state=0,
    )
    return X, y


def fit(data: tuple[Any, np.ndarray], *, kind: type, **parameters: Any) -> Any:
    """Fit an estimator of a kind."""
    return kind(**parameters).fit(*data)


def ours(name: str, kind: type = TruncatedLogisticRegression, **parameters: Any) -> Contender:
    """Return an estimator, ready to be timed."""
    return Contender(name, partial(fit, kind=kind, **parameters))


SMALL = (
    ours("LogisticRegression", LogisticRegression),
    ours("grayzone"),
    ours("grayzone, zone None", zone=None),
)
SEARCHES = (
    ours("LogisticRegressionCV", LogisticRegressionCV),
    ours("grayzone", TruncatedLogisticRegressionCV),
)


def rare() -> tuple[Contender, ...]:
    """Return the plain fit, and zones at costs of more and more for a missed positive."""
    zones = (ours(f"costs {ratio}:1", costs={0: 1, 1: ratio}) for ratio in RATIOS)
    return ours("plain", zone=None), *zones


def _race(
    title: str,
    contenders: Sequence[Contender],
    rows: tuple[np.ndarray, np.ndarray],
    *,
    repeats: int,
    threads: int,
) -> dict[str, float]:
    """Time contenders, print their seconds beside those of the first, and return them."""
    timings = race(contenders, *rows, repeats=repeats, threads=threads)
    seconds = {c.name: t.best for c, t in zip(contenders, timings, strict=True)}
    first = seconds[contenders[0].name]
    print_table(
        title,
        ("", "seconds", "of the first"),
        [[name, value, value / first] for name, value in seconds.items()],
    )
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
