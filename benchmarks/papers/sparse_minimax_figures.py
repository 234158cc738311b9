"""Figures 1 to 3 of Strohmann et al., Sparse greedy minimax probability machines.

Bounds and test accuracies along the bases, of one width and of a weight for each feature (Figure
1), of several numbers of candidates (Figure 2), and the weights of features that tell nothing
(Figure 3); means over the divisions of Tables 1 and 2. Of the ten panels of Figure 1 one, Sonar
with one width, has a bound above the accuracy where features are standardised and each width gets
one step: beside it other settings, of which ``sparse_minimax_studies`` has more.

    python -m benchmarks.papers.sparse_minimax_figures
"""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import TWONORM_FEATURES, Split
from benchmarks.papers.sparse_minimax_tables import (
    PROBLEMS,
    QUICK_SPLITS,
    SPLITS,
    Problem,
    Record,
    machine,
    raw_split,
    twonorm_split,
)
from benchmarks.report import (
    RESULTS,
    graded,
    print_table,
    say,
    show_figure,
    verdict,
    write_json,
)
from grayzone import SparseMinimaxProbabilityMachine

NOISE_FEATURES = 20
# Figure 1: the panel that does not come out, and what is tried on it
TENTH = ("Sonar", "width")
TENTH_SETTINGS: dict[str, Record] = {
    "standardised, 1 step": {},
    "as they are, 1 step": {"raw": True},
    "as they are, 10 steps": {"raw": True, "gamma_iter": 10},
}
# Figure 2
CANDIDATE_SET, CANDIDATE_COUNTS = "Pima Diabetes", (1, 5, 10)
# Figure 3: steps in the weights; 1 is the default
WEIGHT_STEPS = (1, 3, 10)
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.45"

CAPTIONS = {
    1: "bound and test accuracy along the bases, one width or a weight for each feature",
    2: "the same for 1, 5 and 10 candidates",
    3: "feature weights of Twonorm with noise, for one, three and ten steps",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiments.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.sparse_minimax_figures",
        description=__doc__.split("\n")[0],
    )
    add = parser.add_argument
    add("--splits", type=int, help=f"random divisions of each set (default: {SPLITS})")
    add("--quick", action="store_true", help=f"{QUICK_SPLITS} divisions: does everything run?")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="the JSON file; figures go beside it")
    options = parser.parse_args(argv)
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    if splits < 2:
        parser.error("--splits must be at least 2: there are standard deviations to compute")
    with threadpool_limits(limits=options.threads):
        results = {
            "splits": splits,
            "figure1": [selection_paths(problem, splits) for problem in PROBLEMS],
            "tenth_panel": tenth_panel(splits),
            "figure2": candidate_paths(splits),
            "figure3": noise_weights(splits),
        }
    print_results(results)
    judge(results)
    name = "sparse_minimax_figures" + "_quick" * options.quick
    output = options.output or RESULTS / f"{name}.json"
    draw_figures(output.parent, results)
    write_json(name, results, output)
    return 0


# ----------------------------------------------------------------------------------------------
# Figures 1 to 3
# ----------------------------------------------------------------------------------------------


def selection_paths(problem: Problem, splits: int) -> Record:
    """Bounds and test accuracies after each basis: one width, or a weight of each feature."""
    paths = {gamma: mean_paths(problem, splits, gamma=gamma) for gamma in ("width", "features")}
    say(f"figure 1: {problem.name}")
    return {"data": problem.name, **paths}


def tenth_panel(splits: int) -> list[Record]:
    """Ends of the paths of the panel that does not come out, with other settings, too."""
    problem = next(problem for problem in PROBLEMS if problem.name == TENTH[0])
    found = []
    for name, setting in TENTH_SETTINGS.items():
        parameters = {"gamma": TENTH[1], **setting}
        raw = parameters.pop("raw", False)
        divided = problem._replace(split=partial(raw_split, "sonar")) if raw else problem
        path = mean_paths(divided, splits, **parameters)
        found.append({"setting": name, **{k: path[k][-1] for k in ("bound", "accuracy")}})
    say("figure 1: the tenth panel")
    return found


def candidate_paths(splits: int) -> Record:
    """Bounds and test accuracies after each basis, of several numbers of candidates."""
    problem = next(problem for problem in PROBLEMS if problem.name == CANDIDATE_SET)
    found: Record = {"data": problem.name}
    for count in CANDIDATE_COUNTS:
        found[str(count)] = mean_paths(problem, splits, gamma=problem.gamma, n_candidates=count)
    say("figure 2")
    return found


def mean_paths(problem: Problem, splits: int, **parameters: Any) -> Record:
    """Return the means over the divisions of bound and test accuracy after each basis."""
    bounds, accuracies = [], []
    for seed in range(splits):
        split = problem.split(seed)
        bases = problem.published.bases
        model = machine(bases, seed, stopping=None, cv=None, **parameters)
        model.fit(split.X_train, split.y_train)
        bounds.append(prolonged(model.bound_path_, bases))
        accuracies.append(prolonged(accuracy_path(model, split), bases))
    return {
        "bound": np.mean(bounds, axis=0).tolist(),
        "accuracy": np.mean(accuracies, axis=0).tolist(),
    }


def prolonged(path: np.ndarray, n_bases: int) -> np.ndarray:
    """Repeat the last value where a machine had no use for more bases."""
    return np.concatenate([path, np.full(n_bases - len(path), path[-1])])


def accuracy_path(model: SparseMinimaxProbabilityMachine, split: Split) -> np.ndarray:
    """Return the test accuracy after each basis.

    Each step scales the model so far and adds a basis, eq. (13): up to a factor, the coefficients
    of an earlier model are the first ones of the last. Its threshold is as many standard
    deviations from the mean of either class, eq. (9).
    """
    known = np.cumsum(basis_values(model, split.X_train) * model.dual_coef_[0], axis=1)
    new = np.cumsum(basis_values(model, split.X_test) * model.dual_coef_[0], axis=1)
    y, x = (known[split.y_train == label] for label in (0, 1))
    middle = x.mean(axis=0) * y.std(axis=0) + y.mean(axis=0) * x.std(axis=0)
    threshold = middle / (x.std(axis=0) + y.std(axis=0))
    sign = np.sign(x.mean(axis=0) - y.mean(axis=0))
    positive = sign * (new - threshold) > 0
    return np.mean(positive == (split.y_test[:, None] == 1), axis=0)


def basis_values(model: SparseMinimaxProbabilityMachine, X: np.ndarray) -> np.ndarray:
    """Return the Gaussian basis functions (n, k) at each row, eq. (18)."""
    columns = [
        np.exp(-((X - centre) ** 2) @ gamma)
        for centre, gamma in zip(model.bases_, model.gammas_, strict=True)
    ]
    return np.column_stack(columns)


def noise_weights(splits: int) -> list[Record]:
    """Weights of the 20 features of Twonorm and of 20 that tell nothing."""
    records = []
    for steps in WEIGHT_STEPS:
        weights = []
        for seed in range(splits):
            split = twonorm_split(seed, NOISE_FEATURES)
            parameters = {"gamma_iter": steps, "stopping": None, "cv": None}
            model = machine(PROBLEMS[0].published.bases, seed, **parameters)
            weights.append(model.fit(split.X_train, split.y_train).feature_weights_)
        mean, deviation = np.mean(weights, axis=0), np.std(weights, axis=0, ddof=1)
        records.append(
            {"gamma_iter": steps, "mean": mean.tolist(), "deviation": deviation.tolist()}
        )
    say("figure 3")
    return records


# ----------------------------------------------------------------------------------------------
# Report
# ----------------------------------------------------------------------------------------------


def judge(results: Record) -> None:
    """Say of each figure whether it came out as in the paper."""
    held = {
        (p["data"], k): bool(np.all(np.array(p[k]["bound"][-5:]) <= p[k]["accuracy"][-5:]))
        for p in results["figure1"]
        for k in ("width", "features")
    }
    missed = ", ".join(f"{data} by {kind}" for (data, kind), ok in held.items() if not ok)
    verdict(
        "Figure 1 (widths and feature weights)",
        graded(list(held.values())),
        f"mean accuracy above mean Ω in the end in {sum(held.values())} of {len(held)} panels, as "
        f"the paper notes ({missed or 'none'} below; Sonar by one width, features, Ω and accuracy: "
        + ", ".join(
            f"{r['setting']} {100 * r['bound']:.1f}, {100 * r['accuracy']:.1f}"
            for r in results["tenth_panel"]
        )
        + "); single fits break Ω",
    )
    ends = {k: v["bound"][-1] for k, v in results["figure2"].items() if k != "data"}
    ordered = [ends[str(a)] <= ends[str(b)] + 1e-9 for a, b in ((1, 5), (5, 10))]
    verdict(
        "Figure 2 (candidates)",
        graded([bool(o) for o in ordered]),
        "Ω at the last basis with 1, 5 and 10 candidates: "
        + ", ".join(f"{100 * ends[str(c)]:.1f}" for c in CANDIDATE_COUNTS),
    )
    told, noisy, *_ = contrast(results["figure3"][0])
    verdict(
        "Figure 3 (feature weights of Twonorm)",
        graded([bool(told > noisy)]),
        f"least weight of a feature that tells something {told:.4f}, largest of noise {noisy:.4f}",
    )


def contrast(record: Record) -> tuple[float, float, float, float]:
    """Return least and most, then the means, of the weights of Twonorm's features and of noise."""
    told, noisy = np.split(np.array(record["mean"]), [TWONORM_FEATURES])
    return told.min(), noisy.max(), told.mean(), noisy.mean()


def print_results(results: Record) -> None:
    """Print where the paths end, and the weights."""
    print_table(
        f"Figure 1: mean bound and test accuracy (%) with all bases, {results['splits']} divisions",
        ("", "bound, width", "accuracy", "bound, weights", "accuracy"),
        [
            [
                r["data"],
                *(
                    f"{100 * r[k][what][-1]:.1f}"
                    for k in ("width", "features")
                    for what in ("bound", "accuracy")
                ),
            ]
            for r in results["figure1"]
        ],
    )
    print_table(
        "Figure 1, Sonar by one width: mean bound and test accuracy (%) of other settings",
        ("", "bound", "accuracy"),
        [
            [r["setting"], f"{100 * r['bound']:.1f}", f"{100 * r['accuracy']:.1f}"]
            for r in results["tenth_panel"]
        ],
    )
    print_table(
        f"Figure 3: Twonorm and {NOISE_FEATURES} features of noise, mean weights (%)",
        ("steps", "least of Twonorm", "most of noise", "mean of Twonorm", "mean of noise"),
        [
            [str(r["gamma_iter"]), *(f"{100 * w:.2f}" for w in contrast(r))]
            for r in results["figure3"]
        ],
    )


# ----------------------------------------------------------------------------------------------
# Pictures
# ----------------------------------------------------------------------------------------------


def draw_figures(folder: Path, results: Record) -> None:
    """Draw all figures into a folder, where matplotlib is there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no figures")
        return
    figures = {
        1: Figure(figsize=(12, 3.4), layout="constrained"),
        2: Figure(figsize=(6, 4), layout="constrained"),
        3: Figure(figsize=(12, 3.4), layout="constrained"),
    }
    draw_figure1(figures[1], results["figure1"])
    draw_figure2(figures[2], results["figure2"])
    draw_figure3(figures[3], results["figure3"])
    for number, figure in figures.items():
        path = folder / f"sparse_minimax_figure{number}.png"
        show_figure(figure, path, f"Figure {number}: {CAPTIONS[number]}")


def draw_figure1(figure: Any, records: Sequence[Record]) -> None:
    """Draw bounds and accuracies of the two kinds of selection, a panel for each set."""
    axes = figure.subplots(1, len(records), sharey=True)
    kinds = {"width": ("width selection", ORANGE), "features": ("feature selection", BLUE)}
    for ax, record in zip(axes, records, strict=True):
        draw_paths(ax, {label: (record[k], c) for k, (label, c) in kinds.items()})
        ax.set_title(record["data"], fontsize="medium")
        ax.get_legend().remove()
        ax.set_ylabel("")
    axes[0].set_ylabel("mean bound and test accuracy")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)


def draw_figure2(figure: Any, record: Record) -> None:
    """Draw bounds and accuracies of several numbers of candidates."""
    ax = figure.subplots()
    colours = (ORANGE, BLUE, GREEN)
    draw_paths(
        ax,
        {
            f"{count} candidate{'s' * (count > 1)}": (record[str(count)], colour)
            for count, colour in zip(CANDIDATE_COUNTS, colours, strict=True)
        },
    )
    ax.set(title=record["data"], ylabel="mean bound and test accuracy")


def draw_paths(ax: Any, paths: dict[str, tuple[Record, str]]) -> None:
    """Draw several paths into the same axes."""
    from grayzone.displays import BoundPathDisplay

    for label, (path, colour) in paths.items():
        BoundPathDisplay.from_paths(
            path["bound"], accuracy=path["accuracy"], name=label, ax=ax, color=colour
        )
    ax.spines[["top", "right"]].set_visible(False)


def draw_figure3(figure: Any, records: Sequence[Record]) -> None:
    """Draw the weights of the features that tell something, and of the others."""
    from grayzone.displays import FeatureWeightDisplay

    axes = figure.subplots(1, len(records), sharey=True)
    colours = [BLUE] * TWONORM_FEATURES + [GREY] * NOISE_FEATURES
    for ax, record in zip(axes, records, strict=True):
        FeatureWeightDisplay.from_weights(
            record["mean"], spread=record["deviation"], ax=ax, color=colours
        )
        ax.get_legend().remove()
        ax.set(title=f"gamma_iter={record['gamma_iter']}", ylabel="")
        ax.set_xlabel(f"{TWONORM_FEATURES} features of Twonorm, {NOISE_FEATURES} of noise")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("mean weight ± standard deviation")


if __name__ == "__main__":
    raise SystemExit(main())
