"""Why a constrained ROC curve is not concave: §4.1 of Le Roux, Tighter bounds (ICLR 2017).

The paper notes that the curve of models under limits on the false positive rate "matches that of
T = 1, i.e. is not concave", while that of models for all asymmetries of costs is, and has no
explanation. Here lines are tried by brute force: the largest true positive rate that any line
reaches under each limit, on the training rows of the data of Figure 6. Beside it: thresholds on the
log-loss fit (T = 1), ten bounds for 41 asymmetries of costs, and ten bounds under limits, from the
log-loss fit (shifted to the limit) and from several of the models of the asymmetries.

    python -m benchmarks.papers.tight_bound_frontier
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import UNEVEN_PLANE
from benchmarks.papers.tight_bound_figures import ASYMMETRIES, LIMITS, areas_under, draw
from benchmarks.report import RESULTS, measure, print_table, say, show_figure, verdict, write_json
from grayzone import TightBoundLogisticRegression, roc_by_costs
from grayzone.decision.limits import Target, make_limits
from grayzone.solvers.policy.bounds import Solution
from grayzone.solvers.policy.constrained import constrain
from grayzone.solvers.policy.policy import policy_of
from grayzone.solvers.policy.problem import PolicyProblem, PolicySpec
from grayzone.sources.labelled import label
from grayzone.sources.source import HeldSource

SPLITS, QUICK_SPLITS = 10, 2
BOUNDS, ANGLES = 10, 720
STARTS = slice(0, None, 8)  # of the models of the asymmetries
FRONTIER, BY_COSTS = "any line", "T = 10, asymmetries"
AT_LIMITS = (FRONTIER, "T = 1, threshold", "T = 10, limits", "T = 10, limits, more starts")
COLOURS = dict(zip(AT_LIMITS, ("0.6", "black", "#D55E00", "#0072B2"), strict=True))

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.tight_bound_frontier",
        description=__doc__.split("\n")[0],
    )
    add = parser.add_argument
    add("--splits", type=int, default=SPLITS, help=f"draws of the data (default: {SPLITS})")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="the JSON file; the figure goes beside it")
    options = parser.parse_args(argv)
    if options.splits < 2:
        parser.error("--splits must be at least 2: there are deviations to compute")
    draws = []
    with threadpool_limits(limits=options.threads):
        for seed in range(options.splits):
            draws.append(curves(seed))
            say(f"draw {seed + 1} of {options.splits}")
    results = summarise(draws)
    show(results)
    path = options.output or RESULTS / "tight_bound_frontier.json"
    draw_figure(path.parent, draws[0])
    write_json("tight_bound_frontier", {"splits": options.splits, "draws": draws, **results}, path)
    return 0


# ----------------------------------------------------------------------------------------------
# Curves
# ----------------------------------------------------------------------------------------------


def curves(seed: int) -> Record:
    """Return true positive rates at the limits, and the points of the asymmetries."""
    X, y, _, _ = draw(UNEVEN_PLANE, seed)
    angles = np.linspace(0.0, 2.0 * np.pi, ANGLES, endpoint=False)
    lines = X @ np.stack([np.cos(angles), np.sin(angles)])
    by_costs = roc_by_costs(
        TightBoundLogisticRegression(n_bounds=BOUNDS), X, y, asymmetries=ASYMMETRIES
    )
    one = TightBoundLogisticRegression(n_bounds=1).fit(X, y)
    starts = [one, *by_costs.models[STARTS]]
    limited = [[constrained(X, y, limit, start) for start in starts] for limit in LIMITS]
    found = {
        FRONTIER: np.max([rates_at(scores, y) for scores in lines.T], axis=0),
        "T = 1, threshold": rates_at(one.decision_function(X), y),
        "T = 10, limits": np.array([tries[0][1] for tries in limited]),
        # of the solutions the one whose own objective is best, not the rate that is drawn
        "T = 10, limits, more starts": np.array([min(tries)[1] for tries in limited]),
    }
    found = {name: rates.tolist() for name, rates in found.items()}
    return {**found, BY_COSTS: [by_costs.fpr.tolist(), by_costs.tpr.tolist()]}


def rates_at(scores: np.ndarray, y: np.ndarray, limits: np.ndarray = LIMITS) -> np.ndarray:
    """Return the largest true positive rate that thresholds on scores have under each limit."""
    negative = np.append(np.sort(scores[y == 0])[::-1], -np.inf)
    allowed = np.floor(limits * np.sum(y == 0) + 1e-9).astype(int)
    return np.mean(scores[y == 1][:, None] > negative[allowed][None, :], axis=0)


def constrained(
    X: np.ndarray, y: np.ndarray, limit: float, start: TightBoundLogisticRegression
) -> tuple[float, float]:
    """Take bounds under a limit, from a model; return the objective and the true positive rate."""
    labelled = label(HeldSource(X, y))
    spec = PolicySpec(policy_of(2), np.eye(2), 0.5, fit_intercept=True)
    problem = PolicyProblem(labelled, spec, 1e-6, 100)
    coef = np.column_stack([start.coef_, start.intercept_])
    first = Solution(problem.read(problem.first_bound(), problem.point(coef)), 0.0)
    limits, rewards = make_limits((Target("max_fpr", float(limit)),), labelled.mass)
    under = replace(problem, spec=replace(spec, rewards=rewards, limits=limits))
    *_, last = constrain(under, first, BOUNDS)
    scores = X @ last.coef[0, :-1] + last.coef[0, -1]
    return last.cost, float(rates_at(scores, y, np.array([limit]))[0])


# ----------------------------------------------------------------------------------------------
# Results
# ----------------------------------------------------------------------------------------------


def summarise(draws: Sequence[Record]) -> Record:
    """Return how dented curves are, how far below all lines, and where asymmetries have nothing."""
    rows = {}
    for name in AT_LIMITS:
        areas = np.array([areas_under(LIMITS, np.array(one[name])) for one in draws])
        rates = np.array([one[name] for one in draws])
        below = np.array([one[FRONTIER] for one in draws]) - rates
        off = np.abs(np.array([one["T = 1, threshold"] for one in draws]) - rates)
        rows[name] = _record(areas, below, off)
    areas = np.array([areas_under(*map(np.array, one[BY_COSTS])) for one in draws])
    unknown = np.array([np.nan])
    rows[BY_COSTS] = _record(areas, unknown, unknown)
    holes = [float(np.max(np.diff(np.sort([0.0, *one[BY_COSTS][0], 1.0])))) for one in draws]
    return {"rows": rows, "hole": float(np.mean(holes))}


def _record(areas: np.ndarray, below: np.ndarray, off: np.ndarray) -> Record:
    missing = areas[:, 1] - areas[:, 0]
    return {
        "area": float(areas[:, 0].mean()),
        "missing": float(missing.mean()),
        "missing_se": float(missing.std(ddof=1) / np.sqrt(len(missing))),
        "below": float(np.mean(below)),
        "off": float(np.mean(off)),
    }


def show(results: Record) -> None:
    """Print the table, and the answer."""
    rows = results["rows"]
    print_table(
        f"ROC curves of training rows at {len(LIMITS)} limits: area between curve and concave hull;"
        " mean true positive rate below that of the best line; mean distance from T = 1",
        ("", "area", "missing to the hull", "below any line", "from T = 1"),
        [
            [
                name,
                f"{one['area']:.4f}",
                f"{one['missing']:.4f} ± {one['missing_se']:.4f}",
                *("–" if np.isnan(one[key]) else f"{one[key]:.4f}" for key in ("below", "off")),
            ]
            for name, one in rows.items()
        ],
    )
    frontier, limits, started = (rows[AT_LIMITS[k]] for k in (0, 2, 3))
    dented = frontier["missing"] > 2.0 * frontier["missing_se"]
    verdict(
        "§4.1: why the constrained ROC curve is not concave while that of all asymmetries is",
        "met" if dented and started["below"] < 0.25 * limits["below"] else "missed",
        f"no curve of lines is: the best line at each limit leaves {frontier['missing']:.4f} ± "
        f"{frontier['missing_se']:.4f} to its hull. Asymmetries visit corners of the hull alone: "
        f"they have no model in {results['hole']:.2f} of the false positive rates, where a limit "
        f"asks for one. What is left is the start: from T = 1 limits stay {limits['below']:.4f} "
        f"below the best line (and near T = 1 in the dent), from {len(range(ASYMMETRIES)[STARTS])} "
        f"models of asymmetries {started['below']:.4f}",
    )
    measure("limits below the best line", limits["below"], better="lower", slack=0.01)
    measure("limits below it, more starts", started["below"], better="lower", slack=0.003)


def draw_figure(folder: Path, one: Record) -> None:
    """Draw the curves of one draw, where matplotlib is there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no figure")
        return
    figure = Figure(figsize=(5, 4.5), layout="constrained")
    axes = figure.subplots()
    for name in AT_LIMITS:
        axes.plot(LIMITS, one[name], "o-", color=COLOURS[name], markersize=3, label=name)
    axes.plot(*one[BY_COSTS], "r*", markersize=5, label=BY_COSTS)
    axes.set(xlabel="false positive rate", ylabel="true positive rate", title="training rows")
    axes.legend(frameon=False, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    caption = "§4.1: limits, asymmetries and the best line at each limit"
    show_figure(figure, folder / "tight_bound_frontier.png", caption)


if __name__ == "__main__":
    raise SystemExit(main())
