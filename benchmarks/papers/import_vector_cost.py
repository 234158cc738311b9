"""What import points cost: O(N²q²), as Zhu & Hastie (2002, §1, §6) say, beside the O(N³) of others.

Seconds of the processor (one thread) on samples of the ESL mixture: q points chosen among all N
rows (step B2*), among 300 rows that are drawn for each, and by their power alone; the SVC and
kernel logistic regression of all rows. Exponents are slopes of the logarithms over the upper half
of the sizes: small fits are mostly overhead. "q does not tend to increase as N increases" (§1): how
many points the stopping rule takes.

    python -m benchmarks.papers.import_vector_cost
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.data import Mixture, esl_mixture
from benchmarks.papers.running import new_figure, options_of
from benchmarks.report import graded, measure, print_table, say, show_figure, verdict, write_json
from grayzone import ImportVectorMachine, TruncatedLogisticRegression

C, GAMMA = np.exp(2.0), 1.0  # λ = e⁻², where the error of the paper's path is least
ROWS, QUICK_ROWS = (500, 1_000, 2_000, 4_000, 8_000), (250, 500, 1_000)
POINTS, QUICK_POINTS = (8, 16, 32, 64, 128), (4, 8, 16)
Q, N = 16, 2_000  # where the other one is varied
QUICK_N = 500
ALL, DRAWN, POWER = "all rows", "300 drawn", "power"
KERNEL, SVM = "kernel logistic regression", "SVC"
REPEATS = 2
SLACK = 0.3  # by which an exponent may be above the paper's

Seconds = dict[str, list[float]]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the times.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = options_of("import_vector_cost", __doc__, argv)
    rows, points = (QUICK_ROWS, QUICK_POINTS) if options.quick else (ROWS, POINTS)
    n = QUICK_N if options.quick else N
    with threadpool_limits(limits=options.threads):
        fit_once()
        by_rows, chosen = along_rows(rows)
        by_points = along_points(n, points)
    judge(rows, by_rows, points, by_points, chosen)
    draw(rows, by_rows, points, by_points, options.output.with_name("import_vector_cost.png"))
    found = {"rows": rows, "by_rows": by_rows, "points": points, "by_points": by_points}
    write_json("import_vector_cost", {**found, "points by rows": chosen}, options.output)
    return 0


def machines(q: int | None, tol: float = 0.0) -> dict[str, ImportVectorMachine]:
    """Return the ways to choose points."""
    common: dict[str, Any] = {"C": C, "gamma": GAMMA, "max_import_points": q, "tol": tol}
    return {
        ALL: ImportVectorMachine(**common),
        DRAWN: ImportVectorMachine(**common, n_candidates=300, random_state=0),
        POWER: ImportVectorMachine(**common, selection="power"),
    }


def fit_once() -> None:
    """Fit a little, so that imports and compilation are not counted."""
    X, y, _ = esl_mixture(100, 0)
    for model in machines(3).values():
        model.fit(X, y)
    TruncatedLogisticRegression(zone=None, kernel="rbf").fit(X, y)


def seconds(model: Any, sample: Mixture) -> float:
    """Return the least seconds of the processor of several fits."""
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        model.fit(sample.X, sample.y)
        taken.append(time.process_time() - start)
    return min(taken)


def along_rows(rows: Sequence[int]) -> tuple[Seconds, list[int]]:
    """Return seconds for each number of rows, and the points that the stopping rule takes."""
    found: Seconds = {name: [] for name in (ALL, DRAWN, POWER, KERNEL, SVM)}
    chosen = []
    for n in rows:
        sample = esl_mixture(n, (n, 1))
        models: dict[str, Any] = {
            **machines(Q),
            KERNEL: TruncatedLogisticRegression(C=C, zone=None, kernel="rbf", gamma=GAMMA),
            SVM: SVC(C=C, gamma=GAMMA, cache_size=1000),
        }
        for name, model in models.items():
            found[name].append(seconds(model, sample))
        model = machines(None, tol=1e-3)[DRAWN].fit(sample.X, sample.y)
        chosen.append(len(model.import_points_))
        say(f"{n} rows")
    return found, chosen


def along_points(n: int, points: Sequence[int]) -> Seconds:
    """Return seconds for each number of points."""
    sample = esl_mixture(n, (n, 1))
    found: Seconds = {name: [] for name in (ALL, DRAWN, POWER)}
    for q in points:
        for name, model in machines(q).items():
            found[name].append(seconds(model, sample))
    return found


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return the slope of the logarithms over the upper half of the sizes."""
    upper = slice(len(sizes) // 2 - (len(sizes) < 4), None)
    return float(np.polyfit(np.log(sizes[upper]), np.log(values[upper]), 1)[0])


def judge(
    rows: Sequence[int],
    by_rows: Seconds,
    points: Sequence[int],
    by_points: Seconds,
    chosen: Sequence[int],
) -> None:
    """Print seconds and exponents, and compare them with the paper's."""
    in_rows = {name: exponent(rows, values) for name, values in by_rows.items()}
    in_points = {name: exponent(points, values) for name, values in by_points.items()}
    print_table(
        f"Seconds of the processor against rows, {Q} points",
        ("", *(f"{n:,}" for n in rows), "exponent"),
        [[k, *(f"{v:.3f}" for v in values), f"{in_rows[k]:.2f}"] for k, values in by_rows.items()],
    )
    print_table(
        "Seconds of the processor against points",
        ("", *(str(q) for q in points), "exponent"),
        [
            [k, *(f"{v:.3f}" for v in values), f"{in_points[k]:.2f}"]
            for k, values in by_points.items()
        ],
    )
    verdict(
        "§1, §6: import points cost O(N²q²)",
        graded([in_rows[ALL] <= 2.0 + SLACK, in_points[ALL] <= 2.0 + SLACK]),
        f"time grows as N^{in_rows[ALL]:.2f} and q^{in_points[ALL]:.2f} among all rows, as"
        f" N^{in_rows[DRAWN]:.2f} and q^{in_points[DRAWN]:.2f} among 300 drawn; kernel logistic"
        f" regression as N^{in_rows[KERNEL]:.2f}, SVC as N^{in_rows[SVM]:.2f} (the paper has N³)",
    )
    verdict(
        "§1: q does not tend to increase with N",
        graded([max(chosen) <= 1.5 * min(chosen)]),
        "points by the stopping rule: "
        + ", ".join(f"{q} of {n:,}" for n, q in zip(rows, chosen, strict=True)),
    )
    measure("exponent of rows", in_rows[ALL], better="lower", slack=0.3)


def draw(
    rows: Sequence[int], by_rows: Seconds, points: Sequence[int], by_points: Seconds, path: Path
) -> None:
    """Draw both, with the paper's slopes."""
    made = new_figure(9.0, 3.6, 2)
    if made is None:
        return
    figure, panels = made
    for axes, sizes, found, label in (
        (panels[0], rows, by_rows, "rows N"),
        (panels[1], points, by_points, "import points q"),
    ):
        for name, values in found.items():
            axes.plot(sizes, values, "-o", markersize=4, label=name)
        guide = found[ALL][-1] * (np.array(sizes) / sizes[-1]) ** 2
        axes.plot(sizes, guide, ":", color="0.4", label="slope 2")
        axes.set(xlabel=label, xscale="log", yscale="log")
        axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
        axes.minorticks_off()
        axes.legend(fontsize=7)
    panels[0].set_ylabel("seconds of the processor")
    show_figure(figure, path, "What import points cost, against rows and points")


if __name__ == "__main__":
    raise SystemExit(main())
