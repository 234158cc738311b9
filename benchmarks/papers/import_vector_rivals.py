"""Import points beside the other ways to q centres that the papers name, at equal q.

Zhu & Hastie (2002, §2) name clusters (Lin et al.), greedy columns of the kernel matrix (Smola &
Schölkopf) and random ones (Williams & Seeger), which do not look at the labels; Hérault &
Grandvalet (2007, §3.3) name the direct method of Wu et al., whose centres are anywhere. All are
fitted to the same criterion H with the same C, chosen for kernel logistic regression on *all* rows
by held-out log-loss, so that it favours none. Descent starts from import points, cluster means and
random rows, and the start of least H counts; "moved" is `ImportVectorMachine(move_points=True)`,
which starts from import points alone.

    python -m benchmarks.papers.import_vector_rivals
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from benchmarks.data import Split, esl_mixture, ijcnn1_parts, labelled_table, random_split
from benchmarks.papers.centres import (
    Expansion,
    at_random,
    fit_to,
    of_clusters,
    of_descent,
    of_greedy_columns,
)
from benchmarks.papers.running import new_figure, options_of
from benchmarks.report import print_table, say, show_figure, verdict, write_json
from grayzone import ImportVectorMachine, TruncatedLogisticRegression

OURS, MOVED, DESCENT = "import points", "moved import points", "descent, best of 3"
CHOICES: dict[str, Callable[..., np.ndarray]] = {
    "random rows": at_random,
    "clusters": of_clusters,
    "greedy columns": of_greedy_columns,
}
NAMES = (OURS, *CHOICES, MOVED, DESCENT)
CS = (0.1, 1.0, 10.0)
POINTS, QUICK_POINTS = (5, 10, 20, 40), (5, 10)
DRAWS, QUICK_DRAWS = 5, 1
TRAIN, TEST = 500, 10_000
TABLES = ("pima_diabetes", "statlog_heart", "spambase", "ionosphere")

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = options_of("import_vector_rivals", __doc__, argv)
    draws, points = (QUICK_DRAWS, QUICK_POINTS) if options.quick else (DRAWS, POINTS)
    records: list[Record] = []
    with threadpool_limits(limits=options.threads):
        for name in ("mixture", "ijcnn1", *TABLES):
            for seed in range(draws):
                records += [{"set": name, **record} for record in run(name, points, seed)]
            say(name)
    show(records, points)
    judge(records, points)
    draw(records, points, options.output.with_name("import_vector_rivals.png"))
    write_json("import_vector_rivals", {"runs": records}, options.output)
    return 0


def problem(name: str, seed: int) -> tuple[Split, float]:
    """Return standardised training and test rows, and the width of the kernel."""
    if name == "mixture":
        train, test = esl_mixture(TRAIN, (seed, 1)), esl_mixture(TEST, (seed, 2))
        return Split(train.X, train.y, test.X, test.y), 1.0
    if name == "ijcnn1":
        parts = ijcnn1_parts(20 * TRAIN)
        X, y = parts.X_train.astype(np.float64), parts.y_train
        split = random_split(X, y, 2 * TRAIN, seed=seed)
    else:
        X, y = labelled_table(name)
        split = random_split(X, y, min(2 * TRAIN, len(y) // 2), seed=seed)
    return split, 1.0 / split.X_train.shape[1]


def run(name: str, points: Sequence[int], seed: int) -> list[Record]:
    """Fit all ways to one draw of a set, for each number of centres."""
    split, gamma = problem(name, seed)
    X, y = split.X_train, split.y_train
    C = best_penalty(X, y, gamma, seed)
    full = TruncatedLogisticRegression(C=C, zone=None, kernel="rbf", gamma=gamma).fit(X, y)
    p = full.predict_proba(split.X_test)[:, 1]
    whole = {"H": float(full.objective_), "loss": log_loss(p, split.y_test)}
    found = []
    for q in points:
        for way, (fit, seconds) in fits(X, y, q, C, gamma, seed).items():
            p = fit.probability(split.X_test)
            found.append(
                {
                    **{"q": q, "seed": seed, "C": C, "way": way, "seconds": seconds},
                    "excess": fit.objective / whole["H"] - 1.0,
                    "loss": log_loss(p, split.y_test),
                    "loss of all rows": whole["loss"],
                    "error": float(np.mean((p >= 0.5) != (split.y_test == 1))),
                    "solves": fit.n_solves,
                }
            )
    return found


def best_penalty(X: np.ndarray, y: np.ndarray, gamma: float, seed: int) -> float:
    """Return the C of least held-out log-loss of kernel logistic regression."""
    order = np.random.default_rng((seed, 3)).permutation(len(y))
    out, rest = order[: len(y) // 3], order[len(y) // 3 :]
    losses = []
    for C in CS:
        model = TruncatedLogisticRegression(C=C, zone=None, kernel="rbf", gamma=gamma)
        losses.append(log_loss(model.fit(X[rest], y[rest]).predict_proba(X[out])[:, 1], y[out]))
    return CS[int(np.argmin(losses))]


def fits(
    X: np.ndarray, y: np.ndarray, q: int, C: float, gamma: float, seed: int
) -> dict[str, tuple[Expansion, float]]:
    """Fit all ways, each with the seconds of this process that it took."""
    found = {}
    start = time.process_time()
    machine = ImportVectorMachine(C=C, gamma=gamma, max_import_points=q, tol=0.0).fit(X, y)
    ours = np.asarray(machine.import_vectors_)
    found[OURS] = fit_to(X, y, ours, C, gamma), time.process_time() - start
    for name, choose in CHOICES.items():
        start = time.process_time()
        fit = fit_to(X, y, choose(X, q, gamma, seed), C, gamma)
        found[name] = fit, time.process_time() - start
    start = time.process_time()
    machine.set_params(move_points=True).fit(X, y)
    fit = fit_to(X, y, machine.import_vectors_, C, gamma)
    moved = replace(fit, n_solves=len(machine.move_path_))
    found[MOVED] = moved, time.process_time() - start
    means = KMeans(q, n_init=3, random_state=seed).fit(X).cluster_centers_
    others = [of_descent(X, y, Z, C, gamma) for Z in (means, at_random(X, q, gamma, seed))]
    best = min([moved, *others], key=lambda fit: fit.objective)
    found[DESCENT] = best, found[OURS][1] + time.process_time() - start
    return found


def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    """Return the mean log-loss."""
    return float(-np.mean(np.log(np.maximum(np.where(y == 1, p, 1.0 - p), 1e-15))))


def means_of(records: Sequence[Record], name: str, q: int, key: str) -> dict[str, float]:
    """Return means over the draws, by way."""
    chosen = [record for record in records if record["set"] == name and record["q"] == q]
    return {
        way: float(np.mean([record[key] for record in chosen if record["way"] == way]))
        for way in NAMES
    }


def show(records: Sequence[Record], points: Sequence[int]) -> None:
    """Print what is left of H, test losses and errors, and what they took."""
    sets = list(dict.fromkeys(record["set"] for record in records))
    for key, title, digits in (
        ("excess", "H beyond that of all rows (%)", 1),
        ("loss", "Log-loss of test rows (×100)", 1),
        ("error", "Error of test rows (%)", 1),
    ):
        rows = []
        for name in sets:
            for q in points:
                means = means_of(records, name, q, key)
                rows.append([name, q, *(f"{100 * means[way]:.{digits}f}" for way in NAMES)])
        print_table(title, ("", "q", *NAMES), rows)
    rows = []
    for q in points:
        chosen = [record for record in records if record["q"] == q]
        cells = []
        for way in NAMES:
            mine = [record for record in chosen if record["way"] == way]
            seconds, solves = (np.mean([r[key] for r in mine]) for key in ("seconds", "solves"))
            cells.append(f"{seconds:.2f} s, {solves:.0f}")
        rows.append([f"q = {q}", *cells])
    print_table(
        "Seconds of the processor, and fits to given centres (or moves)", ("", *NAMES), rows
    )


def wins(records: Sequence[Record], points: Sequence[int], way: str, key: str) -> tuple[int, int]:
    """Return on how many pairs of a set and q import points are better than a rival."""
    better = total = 0
    for name in dict.fromkeys(record["set"] for record in records):
        for q in points:
            means = means_of(records, name, q, key)
            better += means[OURS] < means[way]
            total += 1
    return better, total


def judge(records: Sequence[Record], points: Sequence[int]) -> None:
    """Say whether choosing by the labels pays, and whether points that move are better."""
    blind = {way: wins(records, points, way, "loss") for way in CHOICES}
    verdict(
        "§2: import points use the output, others do not (at equal q)",
        "reproduced" if all(2 * a > b for a, b in blind.values()) else "partly",
        "lower test log-loss than "
        + ", ".join(f"{way} on {a} of {b} pairs of a set and q" for way, (a, b) in blind.items()),
    )
    for way in (MOVED, DESCENT):
        fitted, tested = (wins(records, points, way, key) for key in ("excess", "loss"))
        share = np.mean(
            [
                means_of(records, name, q, "loss")[way] / means_of(records, name, q, "loss")[OURS]
                for name in dict.fromkeys(record["set"] for record in records)
                for q in points
            ]
        )
        verdict(
            f"Wu et al.'s direct expansion, {way}: import points dominate it",
            "reproduced" if 2 * tested[0] > tested[1] else "not reproduced",
            f"import points have the lower H on {fitted[0]} and the lower test log-loss on"
            f" {tested[0]} of {tested[1]} pairs; the rival's test log-loss is {share:.3f} of it",
        )


def draw(records: Sequence[Record], points: Sequence[int], path: Any) -> None:
    """Draw the test log-loss against the number of centres."""
    sets = ("mixture", "ijcnn1", "spambase")
    made = new_figure(11.0, 3.4, len(sets))
    if made is None:
        return
    figure, panels = made
    styles = dict(zip(NAMES, ("-o", ":s", ":^", ":v", "--o", "--d"), strict=True))
    for axes, name in zip(panels, sets, strict=True):
        for way in NAMES:
            values = [means_of(records, name, q, "loss")[way] for q in points]
            axes.plot(points, values, styles[way], markersize=4, label=way)
        whole = [r["loss of all rows"] for r in records if r["set"] == name]
        axes.axhline(float(np.mean(whole)), color="0.6", linewidth=0.8, label="all rows")
        axes.set(title=name, xlabel="centres", xscale="log")
        axes.set_xticks(points, [str(q) for q in points])
        axes.minorticks_off()
    panels[0].set_ylabel("test log-loss")
    panels[-1].legend(fontsize=7)
    show_figure(figure, path, "Test log-loss against the number of centres, by how they are chosen")


if __name__ == "__main__":
    raise SystemExit(main())
