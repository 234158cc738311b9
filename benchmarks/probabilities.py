"""Probabilities inside the gray zone, and the cost of decisions, where the truth is known.

Samples of the mixture of Hastie, Tibshirani & Friedman, whose probabilities are known at every
point. Truncated kernel logistic regression beside full kernel logistic regression and a calibrated
SVC; C and gamma of each are chosen on a validation sample as large as the training sample, from one
grid and by criterion (3) of Hérault & Grandvalet at the zone. The rivals are shown a second time,
starred, with C and gamma chosen by the log loss, as is usual.

    python -m benchmarks.probabilities
"""

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.data import Mixture, esl_mixture
from benchmarks.probabilities_figure import draw_figure
from benchmarks.report import print_table, write_json
from grayzone import TruncatedLogisticRegression
from grayzone.metrics import zone_log_loss


class Case(NamedTuple):
    """A decision: where probabilities have to be right, and what missing class 1 costs.

    A false alarm costs 1.
    """

    zone: tuple[float, float]
    miss: float

    @property
    def threshold(self) -> float:
        """The probability from which class 1 is the cheaper decision."""
        return 1.0 / (1.0 + self.miss)


class Grid(NamedTuple):
    """What C and gamma are chosen from."""

    cs: tuple[float, ...]
    gammas: tuple[float, ...]


class Draw(NamedTuple):
    """Three independent samples."""

    train: Mixture
    valid: Mixture
    test: Mixture


class Fit(NamedTuple):
    """What is kept of a fit: probabilities of the test sample, support vectors, certificate."""

    estimates: np.ndarray
    n_support: int
    gap: float | None


CASES = (Case((0.4, 0.6), 1.0), Case((0.2, 0.8), 1.0), Case((0.05, 0.4), 5.0))
TRUNCATED, FULL = "truncated", "full logistic"
SIGMOID, ISOTONIC = "SVC, sigmoid", "SVC, isotonic"
METHODS = {SIGMOID: "sigmoid", ISOTONIC: "isotonic"}
FAMILIES = (TRUNCATED, FULL, SIGMOID)

GRID = Grid(
    cs=tuple(float(f"{10.0**k:.3g}") for k in np.arange(-2.0, 3.1, 0.5)),
    gammas=tuple(float(f"{10.0**k:.3g}") for k in np.arange(-1.5, 1.1, 0.5)),
)
WIDE_GRID = Grid(cs=tuple(10.0**k for k in range(-2, 5)), gammas=GRID.gammas)
QUICK_GRID = Grid(cs=(0.1, 1.0, 10.0), gammas=(0.3, 1.0, 3.0))
TUNING_TOL, FINAL_TOL = 1e-5, 1e-8
SIZES = (200, 1_000)
TEST_ROWS = 20_000
BINS = np.linspace(0.0, 1.0, 21)
COLUMNS = (
    "",
    "n",
    "zone",
    "|p̂ − p|",
    "behind",
    "cost",
    "behind",
    "support %",
    "C",
    "edge",
    "gamma",
    "edge",
)
MEASURES = ("error", "cost")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = parse(argv)
    study = Study(options.grid, FAMILIES + (ISOTONIC,) * options.isotonic)
    try:
        with threadpool_limits(limits=options.threads):
            for k, size in product(range(options.draws), options.sizes):
                start = time.perf_counter()
                study.run(k, size, options.test_rows)
                seconds = time.perf_counter() - start
                print(f"draw {k + 1} of {options.draws}, n = {size:,}: {seconds:.1f} s", flush=True)
    except KeyboardInterrupt:
        print("\ninterrupted: what is done is reported", file=sys.stderr)
    if not study.records:
        return 1
    print_results(study.records, options.grid)
    results = study.results()
    write_json("probabilities", results, options.output)
    if options.figure is not None:
        draw_figure(results, options.figure)
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.probabilities", description=__doc__.split("\n")[0]
    )
    grids = parser.add_mutually_exclusive_group()
    grids.add_argument("--quick", action="store_true", help="two draws and a tiny grid")
    grids.add_argument("--wide", action="store_true", help="C in decades up to 10,000: slow")
    parser.add_argument("--draws", type=int, help="number of draws (default: 20)")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="training rows")
    parser.add_argument("--isotonic", action="store_true", help="an SVC calibrated so, too")
    parser.add_argument("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    parser.add_argument("--output", type=Path, help="where to write the JSON")
    parser.add_argument("--figure", type=Path, help="where to draw the figure, if anywhere")
    options = parser.parse_args(argv)
    options.grid = QUICK_GRID if options.quick else WIDE_GRID if options.wide else GRID
    options.draws = options.draws or (2 if options.quick else 20)
    options.test_rows = TEST_ROWS // 10 if options.quick else TEST_ROWS
    return options


class Study:
    """Draws, fits and measures, and keeps what was seen.

    Parameters
    ----------
    grid : Grid
        What C and gamma are chosen from.
    families : sequence of str
        Who takes part.

    Attributes
    ----------
    records : list of dict
        One for each draw, size, case and contender.
    """

    def __init__(self, grid: Grid, families: Sequence[str]) -> None:
        self.grid = grid
        self.families = families
        self.records: list[dict[str, Any]] = []
        self._estimates: dict[tuple[int, Case, str], list[np.ndarray]] = defaultdict(list)

    def run(self, k: int, size: int, test_rows: int) -> None:
        """Draw once; tune, fit and measure all contenders in all cases."""
        parts = (size, size, test_rows)
        draw = Draw(*(esl_mixture(n, seed=(k, size, part)) for part, n in enumerate(parts)))
        p = draw.test.p
        done = [entry for family in self.families for entry in compete(family, draw, self.grid)]
        for contender, case, choice, fit in done:  # all of a draw, or nothing of it
            about = {"draw": k, "size": size, "contender": contender}
            self.records.append({**about, **case._asdict(), **choice, **measure(fit, case, p)})
            self._estimates[size, case, contender].append(np.stack([p, fit.estimates]))

    def results(self) -> dict[str, Any]:
        """Return all that is worth keeping."""
        return {
            "grid": self.grid._asdict(),
            "runs": self.records,
            "curves": [
                {"size": size, "zone": case.zone, "contender": contender, **curve(np.hstack(pairs))}
                for (size, case, contender), pairs in self._estimates.items()
            ],
        }


def compete(
    family: str, draw: Draw, grid: Grid
) -> Iterator[tuple[str, Case, dict[str, float], Fit]]:
    """Tune a family for each case and fit it with the best of the grid.

    Yields
    ------
    tuple
        Name of the contender, starred if the log loss chose; case; C and gamma; fit.
    """
    losses = validation_losses(family, draw, grid)
    fits: dict[Any, Fit] = {}
    for case in CASES:
        for star, zone in (("", case.zone), ("*", None)):
            if family == TRUNCATED and zone is None:
                continue
            loss = losses[case, zone]
            i, j = np.unravel_index(loss.argmin(), loss.shape)
            choice = {"C": grid.cs[j], "gamma": grid.gammas[i]}
            key = (i, j, case if family == TRUNCATED else None)
            if key not in fits:
                fits[key] = final_fit(family, case, draw, **choice)
            yield family + star, case, choice, fits[key]


def validation_losses(family: str, draw: Draw, grid: Grid) -> dict[Any, np.ndarray]:
    """Measure criterion (3), and the log loss, on the validation sample.

    Returns
    -------
    dict
        For each case and its zone, or None for the log loss, an array: a row for each gamma and
        a column for each C.
    """
    losses: dict[Any, np.ndarray] = defaultdict(lambda: np.empty((len(grid.gammas), len(grid.cs))))
    for cases in [[case] for case in CASES] if family == TRUNCATED else [list(CASES)]:
        for i, gamma in enumerate(grid.gammas):
            for j, model in enumerate(path(family, cases[0], draw.train, gamma, grid.cs)):
                p = model.predict_proba(draw.valid.X)
                for case in cases:
                    for zone in (case.zone, None):
                        losses[case, zone][i, j] = zone_log_loss(draw.valid.y, p, zone=zone)
    return losses


def path(
    family: str, case: Case, train: Mixture, gamma: float, cs: Sequence[float]
) -> Iterator[Any]:
    """Fit for one C after the other, from strong to weak penalties.

    Logistic fits start at the one before.
    """
    options = {"gamma": gamma, "tol": TUNING_TOL, "warm_start": True}
    model = classifier(family, case, C=cs[0], **options)
    name = "estimator__C" if family in METHODS else "C"
    for C in cs:
        yield fit_quietly(model.set_params(**{name: C}), train)


def final_fit(family: str, case: Case, draw: Draw, **choice: float) -> Fit:
    """Fit to the training sample."""
    model = fit_quietly(classifier(family, case, tol=FINAL_TOL, **choice), draw.train)
    estimates = model.predict_proba(draw.test.X)[:, 1]
    if family in METHODS:
        svc = model.calibrated_classifiers_[0].estimator
        return Fit(estimates, int(svc.n_support_.sum()), None)
    return Fit(estimates, len(model.support_), float(model.dual_gap_))


def classifier(family: str, case: Case, **parameters: Any) -> Any:
    """Return a classifier: logistic, truncated for the case or full, or a calibrated SVC.

    The SVC keeps its own tolerance.
    """
    if family in METHODS:
        svc = SVC(**{key: parameters[key] for key in ("C", "gamma")})
        return CalibratedClassifierCV(svc, method=METHODS[family], ensemble=False)
    zone = case.zone if family == TRUNCATED else None
    costs = {0: 1.0, 1: case.miss}
    return TruncatedLogisticRegression(kernel="rbf", zone=zone, costs=costs, **parameters)


def fit_quietly(model: Any, train: Mixture) -> Any:
    """Fit without the warnings of one fit among thousands; certificates are recorded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(train.X, train.y)


def measure(fit: Fit, case: Case, p: np.ndarray) -> dict[str, Any]:
    """Compare with the true probabilities of the test sample.

    Returns
    -------
    dict
        Mean |p̂ − p| where p is in the zone, and that of the threshold in place of p̂; true cost
        of the decisions, and that of the best ones possible; support vectors; relative gap.
    """
    inside = (p >= case.zone[0]) & (p <= case.zone[1])
    return {
        "error": float(np.abs(fit.estimates - p)[inside].mean()),
        "constant_error": float(np.abs(case.threshold - p)[inside].mean()),
        "cost": true_cost(p, fit.estimates, case),
        "bayes_cost": true_cost(p, p, case),
        "n_support": fit.n_support,
        "gap": fit.gap,
    }


def true_cost(p: np.ndarray, estimates: np.ndarray, case: Case) -> float:
    """Return what decisions by estimated probabilities cost, expected under the true ones."""
    return float(np.where(estimates >= case.threshold, 1.0 - p, case.miss * p).mean())


def curve(pairs: np.ndarray) -> dict[str, list[float]]:
    """Return quantiles of the estimated probabilities where the true one is in a bin.

    Parameters
    ----------
    pairs : ndarray of shape (2, n_points)
        True and estimated probabilities of the test points of all draws.
    """
    p, estimates = pairs
    bins = np.clip(np.searchsorted(BINS, p, side="right") - 1, 0, len(BINS) - 2)
    present = np.unique(bins)
    quantiles = np.array([np.quantile(estimates[bins == b], (0.1, 0.5, 0.9)) for b in present])
    low, median, high = quantiles.T.tolist()
    means = [float(p[bins == b].mean()) for b in present]
    return {"p": means, "low": low, "median": median, "high": high}


def print_results(records: Sequence[dict[str, Any]], grid: Grid) -> None:
    """Print means over the draws with their standard errors, and how far rivals are behind."""
    rows: list[list[str]] = []
    for size, case in product(sorted({record["size"] for record in records}), CASES):
        cell = [r for r in records if r["size"] == size and tuple(r["zone"]) == case.zone]
        if not cell:
            continue
        ours = column(cell, TRUNCATED)
        where = [f"{size:,}", f"{case.zone[0]:g}–{case.zone[1]:g}"]
        for contender in dict.fromkeys(record["contender"] for record in cell):
            runs = column(cell, contender)
            rows.append([contender, *where])
            for key in MEASURES:
                rows[-1].append(spread(runs[key]))
                rows[-1].append("" if contender == TRUNCATED else spread(runs[key] - ours[key]))
            rows[-1].append(f"{100 * runs['n_support'].mean() / size:.0f}")
            rows[-1] += choices(runs["C"], grid.cs) + choices(runs["gamma"], grid.gammas)
        rows.append(["threshold as p̂", *where, spread(ours["constant_error"]), *[""] * 8])
        rows.append(["best possible", *where, "0", "", spread(ours["bayes_cost"]), *[""] * 6])
    print_table(
        "Mean ± standard error over draws, in 10⁻⁴: |p̂ − p| where p is in the zone, and true cost "
        "of the decisions\n"
        "  behind: less that of the truncated fit of the same draw\n"
        "  *: C and gamma chosen by the log loss\n"
        "  edge: draws in which the choice was the least | the greatest of the grid",
        COLUMNS,
        rows,
    )


def column(cell: Sequence[dict[str, Any]], contender: str) -> dict[str, np.ndarray]:
    """Return what a contender's runs measured, in the order of the draws."""
    runs = [record for record in cell if record["contender"] == contender]
    keys = (*MEASURES, "constant_error", "bayes_cost", "n_support", "C", "gamma")
    return {key: np.array([run[key] for run in runs], dtype=np.float64) for key in keys}


def spread(values: np.ndarray) -> str:
    """Write a mean and its standard error, in 10⁻⁴."""
    mean = f"{1e4 * values.mean():.0f}"
    if len(values) < 2:
        return mean
    return f"{mean} ± {1e4 * values.std(ddof=1) / np.sqrt(len(values)):.0f}"


def choices(chosen: np.ndarray, offered: Sequence[float]) -> list[str]:
    """Write the median choice, and how often it was at either end of the grid."""
    ends = (np.count_nonzero(chosen == end) for end in (offered[0], offered[-1]))
    return [f"{np.median(chosen):.2g}", "|".join(map(str, ends))]


if __name__ == "__main__":
    raise SystemExit(main())
