"""Boosting beside the kernel machines of Zhu & Hastie (2002, §6).

The paper compares the losses (its Figure 5) and says that SVM, kernel logistic regression and
boosting "are similar in this regard, although the exponential left tail in boosting suggests a non-
robustness to clumps of observations far from their parent class". Here they are fitted: gradient
boosting with the exponential loss and with the log-loss (scikit-learn), an import vector machine
and an SVC, to samples of 200 of the ESL mixture, as they are and with a clump: a tenth of the rows,
of class 0, put where class 1 is. Each has the settings of least error on a large validation sample
of clean rows, the best that it could have; errors are of a clean test sample.

    python -m benchmarks.papers.import_vector_boosting
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.data import Mixture, esl_centres, esl_mixture
from benchmarks.papers.running import options_of
from benchmarks.report import graded, print_table, say, verdict, write_json
from grayzone import ImportVectorMachine

N, JUDGES = 200, 10_000
DRAWS, QUICK_DRAWS = 20, 2
ROUNDS, DEPTHS, RATE = 200, (1, 2, 4), 0.1
CS = (0.1, 1.0, 10.0, 100.0)
CLUMP = 0.1  # share of rows
EXPONENTIAL, LOGARITHMIC = "boosting, exponential loss", "boosting, log-loss"
IMPORT, SVM = "import vector machine", "SVC"
SIMILAR = 0.02  # of error

Record = dict[str, Any]
Decide = Callable[[np.ndarray], np.ndarray]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = options_of("import_vector_boosting", __doc__, argv)
    records: list[Record] = []
    with threadpool_limits(limits=options.threads):
        valid, test = esl_mixture(JUDGES, 1), esl_mixture(JUDGES, 2)
        for seed in range(QUICK_DRAWS if options.quick else DRAWS):
            clean = esl_mixture(N, (seed, 3))
            for kind, sample in (("clean", clean), ("clump", with_clump(clean, seed))):
                errors = {name: best(fits, valid, test) for name, fits in ways(sample)}
                records.append({"seed": seed, "rows": kind, **errors})
            say(f"draw {seed + 1}")
        bayes = float(np.mean((test.p >= 0.5) != (test.y == 1)))
    judge(records, bayes)
    write_json("import_vector_boosting", {"bayes": bayes, "runs": records}, options.output)
    return 0


def with_clump(sample: Mixture, seed: int) -> Mixture:
    """Put a tenth of the rows, of class 0, around the centre of class 1 that is surest of it."""
    rng = np.random.default_rng((seed, 4))
    centre = esl_centres()[10:][np.argmax(distances_to_the_other())]
    X, y = sample.X.copy(), sample.y.copy()
    moved = rng.choice(np.flatnonzero(y == 0), int(CLUMP * len(y)), replace=False)
    X[moved] = centre + 0.2 * rng.normal(size=(len(moved), 2))
    return Mixture(X, y, sample.p)


def distances_to_the_other() -> np.ndarray:
    """Return the distances of the centres of class 1 to the nearest of class 0."""
    centres = esl_centres()
    apart = np.linalg.norm(centres[10:, None, :] - centres[None, :10, :], axis=2)
    return apart.min(axis=1)


def ways(sample: Mixture) -> Iterator[tuple[str, Iterator[Decide]]]:
    """Yield names, and decisions of fits with each of their settings."""
    for name, loss in ((EXPONENTIAL, "exponential"), (LOGARITHMIC, "log_loss")):
        yield name, boosted(sample, loss)
    yield IMPORT, (ImportVectorMachine(C=C, gamma=1.0).fit(*sample[:2]).predict for C in CS)
    yield SVM, (SVC(C=C, gamma=1.0).fit(*sample[:2]).predict for C in CS)


def boosted(sample: Mixture, loss: str) -> Iterator[Decide]:
    """Yield decisions after some numbers of rounds, for each depth."""
    for depth in DEPTHS:
        for rounds in (ROUNDS // 10, ROUNDS // 4, ROUNDS):
            model = GradientBoostingClassifier(
                loss=loss, n_estimators=rounds, learning_rate=RATE, max_depth=depth, random_state=0
            )
            yield model.fit(*sample[:2]).predict


def best(fits: Iterator[Decide], valid: Mixture, test: Mixture) -> float:
    """Return the test error of the fit of least validation error."""
    decisions = list(fits)
    errors = [np.mean(decide(valid.X) != valid.y) for decide in decisions]
    return float(np.mean(decisions[int(np.argmin(errors))](test.X) != test.y))


def judge(records: Sequence[Record], bayes: float) -> None:
    """Print errors, and say whether the methods are alike and which a clump hurts most."""
    names = (EXPONENTIAL, LOGARITHMIC, IMPORT, SVM)
    means = {
        kind: {
            name: float(np.mean([r[name] for r in records if r["rows"] == kind])) for name in names
        }
        for kind in ("clean", "clump")
    }
    hurt = {name: means["clump"][name] - means["clean"][name] for name in names}
    print_table(
        f"Test error of fits to {N} rows of the mixture (Bayes {bayes:.4f})",
        ("", "clean", "with a clump", "more"),
        [
            [name, *(f"{means[kind][name]:.4f}" for kind in means), f"{hurt[name]:+.4f}"]
            for name in names
        ],
    )
    clean = means["clean"]
    verdict(
        "§6: SVM, kernel logistic regression and boosting are alike",
        graded([abs(clean[name] - clean[IMPORT]) <= SIMILAR for name in names if name != IMPORT]),
        ", ".join(f"{name} {value:.4f}" for name, value in clean.items())
        + f"; within {SIMILAR:g} of the import vector machine counts",
    )
    verdict(
        "§6: the exponential loss is not robust to clumps",
        graded([hurt[EXPONENTIAL] > hurt[LOGARITHMIC], hurt[EXPONENTIAL] > hurt[IMPORT]]),
        "a clump of a tenth of the rows adds "
        + ", ".join(f"{value:.4f} ({name})" for name, value in hurt.items()),
    )


if __name__ == "__main__":
    raise SystemExit(main())
