"""How sparse zones are when rows grow in number: the limit of Bartlett & Tewari (2004).

Hérault & Grandvalet (2007, §1): "sparsity does not occur when the conditional probabilities can be
unambiguously estimated everywhere". For truncated losses the argument gives a number. Above a
zone the best score is its upper end itself, where positive rows may have any multiplier up to
1 − p_max and negative ones have p_max: they balance if the former are at least a share
(1 − p) p_max / (1 − p_max). So of rows with probability p, support vectors are in the end

    1 inside the zone,  (1 − p) / (1 − p_max) above it,  p / p_min below it,

and their share is the mean of that over p; a hinge (both ends 1/2) has 2 min(p, 1 − p). Samples of
the ESL mixture, whose p is known, with a Gaussian kernel.

    python -m benchmarks.papers.truncated_sparsity
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.data import esl_mixture
from benchmarks.papers.running import new_figure, options_of
from benchmarks.report import graded, print_table, say, show_figure, verdict, write_json
from grayzone import TruncatedLogisticRegression
from grayzone.decision import zone_around

SIZES, QUICK_SIZES = (200, 400, 800, 1_600, 3_200, 6_400), (200, 400, 800)
WIDTHS = (None, 2.0, 1.0, 0.25)
GAMMA, C = 1.0, 1.0
LIMIT_ROWS = 200_000
SLACK = 0.05  # of a share, at the largest size

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = options_of("truncated_sparsity", __doc__, argv)
    sizes = QUICK_SIZES if options.quick else SIZES
    truth = esl_mixture(LIMIT_ROWS, 99).p
    limits: dict[Any, float] = {width: limit_of(width, truth) for width in WIDTHS}
    limits["hinge"] = float(np.mean(2.0 * np.minimum(truth, 1.0 - truth)))
    records: list[Record] = []
    with threadpool_limits(limits=options.threads):
        for n in sizes:
            records += shares(n)
            say(f"{n} rows")
    judge(records, sizes, limits)
    draw(records, sizes, limits, options.output.with_name("truncated_sparsity.png"))
    found = {"limits": {str(key): value for key, value in limits.items()}, "runs": records}
    write_json("truncated_sparsity", found, options.output)
    return 0


def limit_of(width: float | None, p: np.ndarray) -> float:
    """Return the share of support vectors in the end."""
    low, high = zone_around(0.5, width)
    if width is None:
        return 1.0
    above, below = (1.0 - p) / (1.0 - high), p / low
    return float(np.mean(np.where(p > high, above, np.where(p < low, below, 1.0))))


def shares(n: int) -> list[Record]:
    """Fit all zones, and an SVM, to a sample; return their shares of support vectors."""
    X, y, _ = esl_mixture(n, (n, 1))
    found = []
    for width in WIDTHS:
        model = TruncatedLogisticRegression(zone=width, C=C, kernel="rbf", gamma=GAMMA).fit(X, y)
        found.append({"n": n, "zone": width, "share": len(model.support_) / n})
    machine = SVC(C=C, gamma=GAMMA).fit(X, y)
    return [*found, {"n": n, "zone": "hinge", "share": len(machine.support_) / n}]


def share_at(records: Sequence[Record], zone: Any, n: int) -> float:
    """Return the share of one zone at one size."""
    return next(r["share"] for r in records if r["zone"] == zone and r["n"] == n)


def judge(records: Sequence[Record], sizes: Sequence[int], limits: dict[Any, float]) -> None:
    """Print shares beside their limits, and say whether they come near them."""
    rows, met = [], []
    for zone, limit in limits.items():
        values = [share_at(records, zone, n) for n in sizes]
        if zone != "hinge":
            met.append(abs(values[-1] - limit) <= SLACK)
        name = "no zone" if zone is None else zone if zone == "hinge" else f"± {zone:g}"
        rows.append([name, *(f"{value:.3f}" for value in values), f"{limit:.3f}"])
    print_table(
        "Share of support vectors, and where it goes as rows grow in number",
        ("", *(f"n = {n:,}" for n in sizes), "limit"),
        rows,
    )
    last = ", ".join(f"{row[0]} {row[-2]} ({row[-1]})" for row in rows)
    verdict(
        "§1: the sparsity that a zone leaves (Bartlett & Tewari)",
        graded(met),
        f"share at {sizes[-1]:,} rows (limit): {last}; zones within {SLACK:g} count",
    )


def draw(
    records: Sequence[Record], sizes: Sequence[int], limits: dict[Any, float], path: Path
) -> None:
    """Draw shares against the number of rows, with their limits."""
    made = new_figure(6.0, 3.8)
    if made is None:
        return
    figure, axes = made
    for zone, limit in limits.items():
        name = "no zone" if zone is None else "SVM" if zone == "hinge" else f"zone ± {zone:g}"
        (line,) = axes.plot(sizes, [share_at(records, zone, n) for n in sizes], "-o", label=name)
        axes.axhline(limit, color=line.get_color(), linestyle=":", linewidth=1.0)
    axes.set(xlabel="rows", ylabel="share of support vectors", xscale="log", ylim=(0, 1.05))
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="lower left")
    show_figure(figure, path, "Shares of support vectors, and (dotted) where they go")


if __name__ == "__main__":
    raise SystemExit(main())
