"""GACV as the criterion for λ of an import vector machine, beside held-out rows (Zhu & Hastie, §2).

Lin et al. (2001), whom the paper names, choose the penalty by generalised approximate
cross-validation, a formula that needs no fit but the one to all rows. Here it chooses the C of an
import vector machine, beside a third of the rows that is held out (the paper's §3.4), 5-fold
cross-validation, and the C that the test rows would choose, on several draws of five sets. What is
chosen is fitted to all training rows. "fits" are those that a choice takes.

    python -m benchmarks.papers.import_vector_gacv
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from benchmarks.data import Split, esl_mixture, labelled_table, random_split
from benchmarks.papers.centres import fit_to
from benchmarks.papers.import_vector_rivals import log_loss
from benchmarks.papers.running import options_of
from benchmarks.report import print_table, say, verdict, write_json
from grayzone import ImportVectorMachine

CS = tuple(np.exp(np.arange(-4.0, 9.0, 2.0)).tolist())
WAYS = ("GACV", "a third held out", "5 folds", "test rows")
FITS = {"GACV": 1, "a third held out": 1, "5 folds": 5, "test rows": 1}
TABLES = ("pima_diabetes", "statlog_heart", "ionosphere", "german_credit_numeric")
MOST_POINTS = 30
DRAWS, QUICK_DRAWS = 10, 2

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = options_of("import_vector_gacv", __doc__, argv)
    records: list[Record] = []
    with threadpool_limits(limits=options.threads):
        for name in ("mixture", *TABLES):
            for seed in range(QUICK_DRAWS if options.quick else DRAWS):
                records += [{"set": name, "seed": seed, **r} for r in run(name, seed)]
            say(name)
    judge(records)
    write_json("import_vector_gacv", {"Cs": CS, "runs": records}, options.output)
    return 0


def problem(name: str, seed: int) -> tuple[Split, float]:
    """Return training and test rows, and the width of the kernel."""
    if name == "mixture":
        train, test = esl_mixture(200, (seed, 1)), esl_mixture(10_000, (seed, 2))
        return Split(train.X, train.y, test.X, test.y), 1.0
    split = random_split(*labelled_table(name), 250 if name != "statlog_heart" else 135, seed=seed)
    return split, 1.0 / split.X_train.shape[1]


def machine(C: float, gamma: float) -> ImportVectorMachine:
    """Return the machine whose C is to be chosen."""
    return ImportVectorMachine(C=C, gamma=gamma, max_import_points=MOST_POINTS)


def run(name: str, seed: int) -> list[Record]:
    """Choose C in all ways; return what the fit to all rows is worth."""
    split, gamma = problem(name, seed)
    X, y = split.X_train, split.y_train
    every, gacv = [], []
    for C in CS:
        model = machine(C, gamma).fit(X, y)
        gacv.append(fit_to(X, y, model.import_vectors_, C, gamma).gacv(y))
        p = model.predict_proba(split.X_test)[:, 1]
        error = float(np.mean((p >= 0.5) != (split.y_test == 1)))
        every.append({"loss": log_loss(p, split.y_test), "error": error})
    folds = StratifiedKFold(5, shuffle=True, random_state=seed).split(X, y)
    third = StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y)
    choices = {
        "GACV": np.array(gacv),
        "a third held out": held_out(X, y, gamma, list(third)[:1]),
        "5 folds": held_out(X, y, gamma, list(folds)),
        "test rows": np.array([one["loss"] for one in every]),
    }
    return [
        {"way": way, "C": CS[int(np.argmin(values))], **every[int(np.argmin(values))]}
        for way, values in choices.items()
    ]


def held_out(X: np.ndarray, y: np.ndarray, gamma: float, folds: list[Any]) -> np.ndarray:
    """Return the mean log-loss of held-out rows for each C."""
    losses = np.zeros(len(CS))
    for inside, out in folds:
        for k, C in enumerate(CS):
            model = machine(C, gamma).fit(X[inside], y[inside])
            losses[k] += log_loss(model.predict_proba(X[out])[:, 1], y[out]) / len(folds)
    return losses


def judge(records: Sequence[Record]) -> None:
    """Print test losses and errors, and say whether GACV is as good as held-out rows."""
    rows, ratios = [], []
    for name in dict.fromkeys(record["set"] for record in records):
        cells = []
        means = {}
        for way in WAYS:
            runs = [r for r in records if r["set"] == name and r["way"] == way]
            means[way] = float(np.mean([r["loss"] for r in runs]))
            error = 100 * float(np.mean([r["error"] for r in runs]))
            middle = float(np.median(np.log([r["C"] for r in runs])))
            cells.append(f"{100 * means[way]:.2f}, {error:.1f} %, ln C = {middle:.0f}")
        ratios.append([means[way] / means["test rows"] for way in WAYS])
        rows.append([name, *cells])
    rows.append(["fits for each C", *(str(FITS[way]) for way in WAYS)])
    print_table("Test log-loss (×100), error and median C, by what chose C", ("", *WAYS), rows)
    mean = dict(zip(WAYS, np.mean(ratios, axis=0).tolist(), strict=True))
    verdict(
        "§2: GACV chooses λ",
        "reproduced" if mean["GACV"] <= mean["a third held out"] else "not reproduced",
        "mean ratio of test log-losses to the best C's: "
        + ", ".join(f"{way} {mean[way]:.3f}" for way in WAYS[:-1]),
    )


if __name__ == "__main__":
    raise SystemExit(main())
