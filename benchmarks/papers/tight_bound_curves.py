"""Figures 1 to 5 of Le Roux, Tighter bounds lead to improved classifiers (ICLR 2017).

Training and validation errors and log-losses along Algorithm 1, on parts of covertype, MNIST and
ijcnn1. The paper draws them against the updates of a stochastic method that recomputes its bound T
times; here bounds are minimised to the end and counted, so that one curve shows every T: the first
point is logistic regression. The penalty is the one with the least validation error in the end.
`alpha` (Figure 3, and a panel of Figure 1) is no longer offered.

    python -m benchmarks.papers.tight_bound_curves
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import Split, covtype_ordered, ijcnn1_ordered, mnist
from benchmarks.report import RESULTS, graded, print_table, say, show_figure, verdict, write_json
from grayzone.numerics.designs import as_design
from grayzone.solvers.policy.bounds import fit_bound, majorise
from grayzone.solvers.policy.policy import policy_of
from grayzone.solvers.policy.problem import PolicyProblem, PolicySpec
from grayzone.sources.labelled import label
from grayzone.sources.source import HeldSource

BOUNDS, QUICK_BOUNDS = 60, 6
QUICK_ROWS = 2_000
MAX_ITER = 100
BLUE, ORANGE = "#0072B2", "#D55E00"

Record = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """A data set, how many of its rows to take, penalties, and the figure of the paper."""

    name: str
    figure: int
    load: Callable[[], Split]
    rows: int
    Cs: tuple[float, ...]
    tol: float


PROBLEMS = (
    Problem("covertype", 2, covtype_ordered, 100_000, (0.1, 1.0), 1e-5),
    Problem("MNIST", 4, mnist, 12_000, (0.03, 0.1), 1e-2),
    Problem("ijcnn1", 5, partial(ijcnn1_ordered, repeated=True), 100_000, (10.0, 100.0), 1e-5),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiments.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.tight_bound_curves", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--bounds", type=int, help=f"bounds on each set (default: {BOUNDS})")
    add("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows: does everything run?")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="the JSON file; figures go beside it")
    options = parser.parse_args(argv)
    n_bounds = options.bounds or (QUICK_BOUNDS if options.quick else BOUNDS)
    if n_bounds < 2:
        parser.error("--bounds must be at least 2: the first one is logistic regression")
    with threadpool_limits(limits=options.threads):
        curves = [follow(problem, n_bounds, options.quick) for problem in PROBLEMS]
    print_results(curves)
    output = options.output or RESULTS / "tight_bound_curves.json"
    draw_figures(output.parent, curves)
    write_json("tight_bound_curves", {"curves": curves}, output)
    return 0


def follow(problem: Problem, n_bounds: int, quick: bool) -> Record:
    """Follow Algorithm 1 with each penalty; return the curves of the best one."""
    split = problem.load()
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(split.y_train))[: 2 * (QUICK_ROWS if quick else problem.rows)]
    train, valid = np.array_split(rows, [int(0.8 * len(rows))])
    X, y = split.X_train, split.y_train
    parts = {"training": (X[train], y[train]), "validation": (X[valid], y[valid])}
    found = [one_penalty(parts, C, n_bounds, problem.tol) for C in problem.Cs]
    best = min(found, key=lambda curve: min(curve["validation_error"]))
    say(f"{problem.name}: C = {best['C']:g}, {len(best['cost'])} bounds")
    return {"data": problem.name, "figure": problem.figure, "rows": len(train), **best}


def one_penalty(
    parts: dict[str, tuple[np.ndarray, np.ndarray]], C: float, n_bounds: int, tol: float
) -> Record:
    """Minimise bound after bound; return errors and log-losses on both parts after each."""
    X, y = parts["training"]
    n_classes = int(y.max()) + 1
    policy = policy_of(n_classes)
    spec = PolicySpec(policy, np.eye(n_classes), 1.0 / (C * n_classes), fit_intercept=True)
    problem = PolicyProblem(label(HeldSource(X, y)), spec, tol, MAX_ITER)
    start = problem.read(problem.first_bound(), problem.point(problem.start()))
    curves: Record = {"C": C, "cost": []}
    for solution in majorise(fit_bound(start, 1e-3 * tol), n_bounds):
        curves["cost"].append(solution.cost)
        for name, (rows, labels) in parts.items():
            proba = policy.proba(as_design(rows, True).scores(solution.coef))
            own = np.maximum(proba[np.arange(len(labels)), labels], 1e-300)
            error = float(np.mean(proba.argmax(axis=1) != labels))
            curves.setdefault(f"{name}_error", []).append(error)
            curves.setdefault(f"{name}_nll", []).append(float(-np.log(own).mean()))
    return curves


def print_results(curves: Sequence[Record]) -> None:
    """Print both ends of the curves, and whether they do what the paper says."""
    print_table(
        "logistic regression, and the last bound (errors in %)",
        ("", "rows", "C", "bounds", "training", "", "validation", "", "training NLL", ""),
        [
            [
                *(curve[key] for key in ("data", "rows", "C")),
                len(curve["cost"]),
                *(f"{100 * curve['training_error'][k]:.2f}" for k in (0, -1)),
                *(f"{100 * curve['validation_error'][k]:.2f}" for k in (0, -1)),
                *(f"{curve['training_nll'][k]:.3f}" for k in (0, -1)),
            ]
            for curve in curves
        ],
    )
    lower = [curve["training_error"][-1] < curve["training_error"][0] for curve in curves]
    verdict(
        "Figure 1 (training errors)",
        graded(lower),
        "more than one bound has the lower training error on "
        + ", ".join(c["data"] for c, met in zip(curves, lower, strict=True) if met)
        + "; alpha not obtainable",
    )
    for curve in curves:
        rises = min(curve["training_nll"][1:]) > curve["training_nll"][0]
        better = min(curve["validation_error"][1:]) < curve["validation_error"][0]
        verdict(
            f"Figure {curve['figure']} ({curve['data']})",
            graded([rises, better]),
            f"the log-loss {'rises' if rises else 'does not rise'} once the bound is renewed; least"
            f" validation error {100 * min(curve['validation_error']):.2f} %, "
            f"{100 * curve['validation_error'][0]:.2f} % with one bound",
        )


def draw_figures(folder: Path, curves: Sequence[Record]) -> None:
    """Draw training errors of all sets, and four curves of each, where matplotlib is there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no figures")
        return
    errors = Figure(figsize=(10, 3.2), layout="constrained")
    for axes, curve in zip(errors.subplots(1, len(curves)), curves, strict=True):
        draw_curve(axes, curve, "error", ("training",), scale=100)
        axes.set(title=curve["data"], ylabel="training error (%)")
    show_figure(errors, folder / "tight_bound_figure1.png", "Figure 1: training errors")
    for curve in curves:
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        for axes, key, scale in zip(figure.subplots(1, 2), ("nll", "error"), (1, 100), strict=True):
            draw_curve(axes, curve, key, ("training", "validation"), scale)
            axes.set(ylabel="log-loss" if key == "nll" else "error (%)")
            axes.legend(frameon=False)
        name = f"tight_bound_figure{curve['figure']}.png"
        caption = f"Figure {curve['figure']}: log-loss and error along the bounds, {curve['data']}"
        show_figure(figure, folder / name, caption)


def draw_curve(axes: Any, curve: Record, key: str, parts: Sequence[str], scale: float) -> None:
    """Draw one quantity against the number of bounds."""
    counts = np.arange(1, len(curve["cost"]) + 1)
    for part, color in zip(parts, (BLUE, ORANGE), strict=False):
        axes.plot(counts, scale * np.array(curve[f"{part}_{key}"]), color=color, label=part)
    axes.set(xscale="log", xlabel="bounds T")
    axes.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    raise SystemExit(main())
