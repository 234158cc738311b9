"""Claims of Hérault & Grandvalet (2007) on Table 2's data: time, and virtual undersampling.

§6: sparse logistic regression "is also much faster to train" than logistic regression, its
"training time match[es] SVMs trained with asymmetrical costs", and it "performs a virtual targeted
undersampling of the majority class". §1: undersampling loses information and oversampling is
inefficient. French report, §3.1: logistic regression asks for less than linear discriminant
analysis.

Times are seconds of the processor, the best of several fits, with one thread; ours and peers' at
their default tolerances, but for those of logistic regression, which are tightened until its
objective is as exact as ours. Resampled rows are drawn in every fold anew (imbalanced-learn), the
penalty is chosen in 3 folds for each way, and decisions are by the threshold that suits the shares
of the classes that a way was fitted with.

    python -m benchmarks.papers.truncated_claims
"""

import importlib.util
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.data import Split, krummholz, stratified_rows
from benchmarks.papers.running import options_of
from benchmarks.papers.truncated_table2 import COST_NEGATIVE, COST_POSITIVE, PI
from benchmarks.papers.truncated_table3 import WEIGHTS, losses, machine
from benchmarks.report import graded, print_table, say, verdict, write_json
from grayzone import TruncatedLogisticRegression

ZONE = (0.078, 0.100)  # Table 2's last column
COSTS = {0: COST_NEGATIVE, 1: COST_POSITIVE}
CS = (0.01, 1.0, 100.0)
KERNEL_ROWS, QUICK_KERNEL_ROWS = 4_000, 1_000
SPLITS, QUICK_SPLITS, REPEATS = 5, 1, 3
MUCH = 2.0  # times as fast, to be much faster
ALIKE = 2.0  # times, to match
FEWER = 0.8  # of the share of the minority that is used, for the majority to be undersampled

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run all claims.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    options = options_of("truncated_claims", __doc__, argv)
    n_splits = QUICK_SPLITS if options.quick else SPLITS
    rows = QUICK_KERNEL_ROWS if options.quick else KERNEL_ROWS
    with threadpool_limits(limits=options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, FutureWarning))
        first = krummholz(0)
        times = race(first, rows, repeats=1 if options.quick else REPEATS)
        sampled = undersampling(first)
        records: list[Record] = []
        for k in range(n_splits):
            records += [{"split": k, **record} for record in compare(krummholz(k), k)]
            say(f"split {k + 1} of {n_splits}")
    judge_times(times, rows)
    judge_undersampling(sampled)
    judge_resampling(records)
    found = {"times": times, "undersampling": sampled, "resampling": records}
    write_json("truncated_claims", found, options.output)
    return 0


# ----------------------------------------------------------------------------------------------
# Time
# ----------------------------------------------------------------------------------------------


def race(split: Split, n_rows: int, repeats: int) -> dict[str, float]:
    """Return seconds of fits: linear ones to all training rows, those with a kernel to some."""
    few = stratified_rows(split.y_train, n_rows)
    ours: Record = {"costs": COSTS, "C": 1.0}
    kernel: Record = {**ours, "kernel": "rbf", "gamma": 0.02}
    svm: Record = {"C": 1.0, "gamma": 0.02, "class_weight": WEIGHTS, "cache_size": 1000}
    linear: dict[str, Any] = {
        "zone": TruncatedLogisticRegression(zone=ZONE, **ours),
        "no zone": TruncatedLogisticRegression(zone=None, **ours),
        "LogisticRegression, newton-cholesky": LogisticRegression(
            solver="newton-cholesky", tol=1e-5
        ),
        "LogisticRegression, lbfgs": LogisticRegression(tol=1e-5, max_iter=5_000),
        "LinearSVC, costs": machine(0.01, costs=True),
    }
    spanned: dict[str, Any] = {
        "zone, rbf": TruncatedLogisticRegression(zone=ZONE, **kernel),
        "no zone, rbf": TruncatedLogisticRegression(zone=None, **kernel),
        "SVC, costs, rbf": SVC(**svm),
    }
    everyone = np.arange(len(split.y_train))
    return {
        name: seconds(model, split.X_train[rows], split.y_train[rows], repeats)
        for models, rows in ((linear, everyone), (spanned, few))
        for name, model in models.items()
    }


def seconds(model: Any, X: np.ndarray, y: np.ndarray, repeats: int) -> float:
    """Return the seconds of the processor that a fit takes, after a small one that compiles."""
    few = stratified_rows(y, 400)
    clone(model).fit(X[few], y[few])
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        clone(model).fit(X, y)
        taken.append(time.process_time() - start)
    return min(taken)


def judge_times(times: dict[str, float], n_rows: int) -> None:
    """Say whether the zone is much faster than logistic regression, and as fast as an SVM."""
    print_table(
        f"Seconds of the processor: linear fits to 23,235 rows, those with a kernel to {n_rows:,}",
        ("", "seconds"),
        [[name, value] for name, value in times.items()],
    )
    plain = times["no zone"] / times["zone"]
    peers = min(v for k, v in times.items() if k.startswith("LogisticRegression")) / times["zone"]
    spanned = times["no zone, rbf"] / times["zone, rbf"]
    verdict(
        "§6: a zone is much faster to train than logistic regression",
        graded([plain >= MUCH, peers >= MUCH, spanned >= MUCH]),
        f"linear: no zone takes {plain:.2f} of the zone's time in the same solver, scikit-learn's"
        f" fastest {peers:.2f}; with a kernel {spanned:.2f} (much is {MUCH:g})",
    )
    linear = times["LinearSVC, costs"] / times["zone"]
    svc = times["SVC, costs, rbf"] / times["zone, rbf"]
    verdict(
        "§6: training time matches that of SVMs with costs",
        graded([linear >= 1 / ALIKE, svc >= 1 / ALIKE]),
        f"a LinearSVC takes {linear:.2f}, an SVC with a kernel {svc:.2f} of the zone's time; no"
        f" more than {ALIKE:g} times as slow counts",
    )


# ----------------------------------------------------------------------------------------------
# Virtual undersampling
# ----------------------------------------------------------------------------------------------


def undersampling(split: Split) -> Record:
    """Tell which rows a zone uses, and what a fit to these alone gives."""
    X, y = split.X_train, split.y_train
    model = TruncatedLogisticRegression(zone=ZONE, costs=COSTS, tol=1e-10).fit(X, y)
    used = np.zeros(len(y), dtype=bool)
    used[model.support_] = True
    again = clone(model).fit(X[used], y[used])
    distance = np.abs(model.decision_function(X) - np.log(PI / (1 - PI)))
    negative = y == 0
    return {
        "used, majority": float(used[negative].mean()),
        "used, minority": float(used[~negative].mean()),
        "rows of the minority per one of the majority": float(
            (used & ~negative).sum() / (used & negative).sum()
        ),
        "distance of used rows": float(np.median(distance[used & negative])),
        "distance of others": float(np.median(distance[~used & negative])),
        "difference of coefficients": float(
            np.max(np.abs(again.coef_ - model.coef_)) / np.max(np.abs(model.coef_))
        ),
    }


def judge_undersampling(found: Record) -> None:
    """Say whether a zone undersamples the majority, those rows that are certain."""
    print_table("Rows that a zone uses", ("", ""), [[k, v] for k, v in found.items()])
    verdict(
        "§6: a zone is a virtual, targeted undersampling of the majority",
        graded(
            [
                found["used, majority"] <= FEWER * found["used, minority"],
                found["distance of used rows"] < found["distance of others"],
                found["difference of coefficients"] < 1e-4,
            ]
        ),
        f"it uses {100 * found['used, majority']:.0f} % of the majority and"
        f" {100 * found['used, minority']:.0f} % of the minority, rows"
        f" {found['distance of used rows']:.2f} from the threshold in log-odds in the median, the"
        f" others {found['distance of others']:.2f}; a fit to these alone has the same coefficients"
        f" to {found['difference of coefficients']:.0e}",
    )


# ----------------------------------------------------------------------------------------------
# Resampling
# ----------------------------------------------------------------------------------------------


def ways() -> dict[str, tuple[Callable[[float], Any], Any, float]]:
    """Return models by C, what resamples their rows, and the threshold of their probabilities."""

    def plain(C: float) -> Any:
        return LogisticRegression(C=C, solver="newton-cholesky")

    def zoned(C: float) -> Any:
        return TruncatedLogisticRegression(C=C, zone=ZONE, costs=COSTS)

    def weighted(C: float) -> Any:
        return plain(C).set_params(class_weight="balanced")

    def discriminant(C: float) -> Any:
        return LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1e-2 / C if C < 100 else None)

    def svm(C: float) -> Any:
        return LinearSVC(
            **{**machine(0.01, costs=True).get_params(), "C": 0.01 * C, "max_iter": 1_000}
        )

    return {
        "zone 7.8–10 %": (zoned, None, PI),
        "logistic regression": (plain, None, PI),
        "class weights": (weighted, None, 0.5),
        **{name: (plain, sampler, 0.5) for name, sampler in samplers().items()},
        "LDA": (discriminant, None, PI),
        "SVM, costs in the loss": (svm, None, np.nan),
    }


def samplers() -> dict[str, Any]:
    """Return ways to resample; none, with a word, where imbalanced-learn is not installed."""
    if importlib.util.find_spec("imblearn") is None:
        say("imbalanced-learn is not installed and left out (the `bench` extra installs it)")
        return {}
    from imblearn.over_sampling import SMOTE, RandomOverSampler
    from imblearn.under_sampling import RandomUnderSampler

    return {
        "random undersampling": RandomUnderSampler(random_state=0),
        "random oversampling": RandomOverSampler(random_state=0),
        "SMOTE": SMOTE(random_state=0),
    }


def fitted(model: Any, sampler: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """Fit to rows that are resampled before."""
    return model.fit(*((X, y) if sampler is None else sampler.fit_resample(X, y)))


def mean_loss(model: Any, threshold: float, X: np.ndarray, y: np.ndarray) -> float:
    """Return the mean loss of decisions; machines decide by their sign."""
    if np.isnan(threshold):
        return float(losses(model.decision_function(X) >= 0, y).mean())
    return float(losses(model.predict_proba(X)[:, 1] >= threshold, y).mean())


def compare(split: Split, seed: int) -> list[Record]:
    """Choose C and fit for each way; return its test loss, rows and seconds."""
    X, y = split.X_train, split.y_train
    folds = list(StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y))
    found = []
    for name, (make, sampler, threshold) in ways().items():
        held = [
            np.mean(
                [
                    mean_loss(fitted(make(C), sampler, X[a], y[a]), threshold, X[b], y[b])
                    for a, b in folds
                ]
            )
            for C in CS
        ]
        C = CS[int(np.argmin(held))]
        start = time.process_time()
        rows = (X, y) if sampler is None else sampler.fit_resample(X, y)
        model = make(C).fit(*rows)
        taken = time.process_time() - start
        loss = mean_loss(model, threshold, split.X_test, split.y_test)
        found.append({"way": name, "C": C, "loss": loss, "rows": len(rows[1]), "seconds": taken})
    return found


def judge_resampling(records: Sequence[Record]) -> None:
    """Print losses by way, and say whether the zone is better than resampling."""
    means, rows = {}, []
    for name in dict.fromkeys(record["way"] for record in records):
        runs = [record for record in records if record["way"] == name]
        values = 100 * np.array([run["loss"] for run in runs])
        means[name] = float(values.mean())
        spread = f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else ""
        taken = float(np.mean([run["seconds"] for run in runs]))
        rows.append([name, f"{means[name]:.2f}{spread}", f"{runs[0]['rows']:,}", f"{taken:.2f}"])
    print_table(
        "Table 2's data: test loss (×10⁻²), rows that are fitted, seconds of the processor",
        ("", "loss", "rows", "seconds"),
        rows,
    )
    zone = means["zone 7.8–10 %"]
    rivals = {name: means[name] for name in samplers()}
    if rivals:
        judge_rivals(zone, rivals, means["class weights"])
    verdict(
        "French report, §3.1: logistic regression is more general than LDA",
        graded([means["logistic regression"] < means["LDA"]]),
        f"loss {means['logistic regression']:.2f}e-2 beside {means['LDA']:.2f}e-2 of LDA, features"
        " being 44 indicators and 10 numbers, no Gaussian mixture",
    )


def judge_rivals(zone: float, rivals: dict[str, float], weighted: float) -> None:
    """Say whether the zone is better than resampling."""
    verdict(
        "§1, §6: a zone is better than resampling",
        graded([zone < loss for loss in rivals.values()]),
        f"loss {zone:.2f}e-2; "
        + ", ".join(f"{name} {loss:.2f}" for name, loss in rivals.items())
        + f"; class weights {weighted:.2f}",
    )


if __name__ == "__main__":
    raise SystemExit(main())
