"""The race of kernel classifiers on one training set: fits and predictions, timed and judged."""

import math
import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.data import Parts
from benchmarks.peers.kernel_contenders import (
    COSTS,
    INTELEX,
    OURS,
    OURS_MATCHED,
    SVM,
    THRESHOLD,
    ZONE,
    Fitted,
    Method,
    cost_of,
    decision_threshold,
    ours,
    quality,
    svc_gap,
)
from benchmarks.report import now, print_table, say
from benchmarks.timing import Timing, race

CACHE_SIZE = 1_000
PREDICT_ROUNDS = 3
LONG_PREDICTION = 2.0  # seconds from which on once is enough
SINGLE_ROWS = 100
SMALLEST_TOL = 1e-12

Parameters = dict[str, dict[str, Any]]


def race_size(
    parts: Parts, rivals: Sequence[Method], best: Parameters, *, repeats: int, threads: int
) -> dict[str, Any]:
    """Time and judge all methods on one training set.

    Parameters
    ----------
    parts : Parts
        The data.
    rivals : sequence of Method
        Who runs beside us.
    best : dict
        The tuned parameters by name of the method.
    repeats : int
        Rounds of timing.
    threads : int
        Threads that BLAS and OpenMP may use.

    Returns
    -------
    dict
        The record of this size.
    """
    methods, timings = timed_rounds(parts, rivals, best, repeats, threads)
    records = judge(methods, timings, parts, best, threads)
    gaps = {record["name"]: record["gap"] for record in records}
    matched_to = next((name for name in (SVM, INTELEX) if name in gaps), None)
    return {
        "rows": len(parts.y_train),
        "test_rows": len(parts.y_test),
        "costs": COSTS,
        "zone": ZONE,
        "cache_size": CACHE_SIZE,
        "threads": threads,
        "repeats": repeats,
        "measured": now(),
        "matched_to": matched_to,
        "methods": records,
        "ratios": ratios(records),
    }


def timed_rounds(
    parts: Parts, rivals: Sequence[Method], best: Parameters, repeats: int, threads: int
) -> tuple[list[Method], list[Timing]]:
    """Time all methods round after round.

    The first round starts with SVC (or, where it is left out, scikit-learn-intelex): its duality
    gap is the tolerance of our second contender.
    """

    def timed(methods: Sequence[Method], rounds: int) -> list[Timing]:
        return race(
            [method.contender(best[method.tuned_as], CACHE_SIZE) for method in methods],
            parts.X_train,
            parts.y_train,
            repeats=rounds,
            threads=threads,
            report=lambda name, seconds: say(f"  {name}: {seconds:.2f} s"),
        )

    pacer = [method for name in (SVM, INTELEX) for method in rivals if method.name == name][:1]
    timings = timed(pacer, 1)
    gaps = [gap_of(timing.result, parts, threads) for timing in timings]
    if not gaps:
        say("  neither SVC nor scikit-learn-intelex: no tolerance to match")
    matched = [ours(OURS_MATCHED, max(gap, SMALLEST_TOL)) for gap in gaps]
    rest = [ours(), *matched, *(method for method in rivals if method not in pacer)]
    methods = [*pacer, *rest]
    timings += timed(rest, 1)
    if repeats > 1:
        timings = [
            Timing(first.seconds + later.seconds, later.result)
            for first, later in zip(timings, timed(methods, repeats - 1), strict=True)
        ]
    return methods, timings


def gap_of(fitted: Fitted, parts: Parts, threads: int) -> float:
    """Return the relative duality gap of an SVC."""
    with threadpool_limits(limits=threads):
        return svc_gap(fitted.model, parts.X_train, parts.y_train)


def judge(
    methods: Sequence[Method],
    timings: Sequence[Timing],
    parts: Parts,
    best: Parameters,
    threads: int,
) -> list[dict[str, Any]]:
    """Measure predictions in time and quality; return one record a method."""
    say("  predictions")
    fits: list[Fitted] = [timing.result for timing in timings]
    with threadpool_limits(limits=threads):
        seconds, answers = time_predictions(fits, parts.X_test)
        latencies = [single_row_seconds(fitted, parts.X_test) for fitted in fits]
        valid = [fitted.score(parts.X_valid) for fitted in fits]
    records = []
    for i, (method, fitted) in enumerate(zip(methods, fits, strict=True)):
        threshold = decision_threshold(method, valid[i], parts.y_valid)
        is_svc = method.name in (SVM, INTELEX)
        records.append(
            {
                "name": method.name,
                "C": best[method.tuned_as]["C"],
                "gamma": best[method.tuned_as]["gamma"],
                "tol": getattr(fitted.model, "tol", None),
                "gap": gap_of(fitted, parts, threads) if is_svc else fitted.gap,
                "seconds": timings[i].best,
                "all_seconds": timings[i].seconds,
                "threshold": threshold,
                "validation_cost": cost_of(valid[i], parts.y_valid, threshold),
                **quality(method, answers[i], parts.y_test, threshold),
                "vectors": fitted.vectors,
                "predict_seconds": seconds[i],
                "single_row_seconds": latencies[i],
            }
        )
    return records


def time_predictions(fits: Sequence[Fitted], X: np.ndarray) -> tuple[list[float], list[np.ndarray]]:
    """Time predictions in turn, best of several, the long ones once; return the scores as well."""
    seconds = [math.inf] * len(fits)
    scores: list[np.ndarray] = [np.empty(0)] * len(fits)
    for turn in range(PREDICT_ROUNDS):
        for i, fitted in enumerate(fits):
            if turn and seconds[i] > LONG_PREDICTION:
                continue
            start = time.perf_counter()
            scores[i] = fitted.score(X)
            seconds[i] = min(seconds[i], time.perf_counter() - start)
    return seconds, scores


def single_row_seconds(fitted: Fitted, X: np.ndarray) -> float:
    """Return the median time of a prediction for one row."""
    seconds = []
    for i in range(SINGLE_ROWS):
        start = time.perf_counter()
        fitted.score(X[i : i + 1])
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def ratios(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Divide the others' times by ours: the best of all rounds, and the range over the rounds."""
    mine = [record for record in records if record["name"] in (OURS, OURS_MATCHED)]
    found = []
    for peer, own in product([record for record in records if record not in mine], mine):
        by_round = [p / o for p, o in zip(peer["all_seconds"], own["all_seconds"], strict=True)]
        found.append(
            {
                "peer": peer["name"],
                "ours": own["name"],
                "ratio": peer["seconds"] / own["seconds"],
                "lowest": min(by_round),
                "highest": max(by_round),
            }
        )
    return found


def print_size(title: str, record: dict[str, Any]) -> None:
    """Print the times, the ratios and the quality at one size."""
    rows = f"{record['test_rows']:,}"
    print_table(
        f"{title}: fits, best of {record['repeats']}, and predictions",
        (
            *("", "C", "gamma", "tol", "gap", "seconds", "slowest"),
            *("vectors", f"s for {rows} rows", "ms for one"),
        ),
        [
            [
                *(r[key] for key in ("name", "C", "gamma", "tol", "gap", "seconds")),
                max(r["all_seconds"]),
                *(r["vectors"], r["predict_seconds"], 1e3 * r["single_row_seconds"]),
            ]
            for r in record["methods"]
        ],
    )
    cells = {(r["peer"], r["ours"]): _with_range(r) for r in record["ratios"]}
    mine = list(dict.fromkeys(own for _, own in cells))
    print_table(
        f"{title}: seconds of the other / seconds of ours (range over the rounds)",
        ("", *mine),
        [[p, *(cells[p, own] for own in mine)] for p in dict.fromkeys(p for p, _ in cells)],
    )
    print_table(
        f"{title}: {rows} test rows, costs {COSTS[1]:g}:{COSTS[0]:g}, zone "
        f"{ZONE[0]:.3f}–{ZONE[1]:.3f} (†: threshold tuned on the validation rows)",
        (
            *("", "expected cost", "error there", "error at 1/2"),
            *("zone log-loss", "log-loss", "zone calibration"),
        ),
        [
            [
                r["name"] + " †" * (r["threshold"] != THRESHOLD),
                *(r["cost"], r["error_at_costs"], r["error"]),
                *(r["zone_log_loss"], r["log_loss"], r["zone_calibration_error"]),
            ]
            for r in record["methods"]
        ],
    )


def _with_range(ratio: dict[str, Any]) -> str:
    return f"{ratio['ratio']:.2f} ({ratio['lowest']:.2f}–{ratio['highest']:.2f})"


def growth(records: Sequence[dict[str, Any]], like: dict[str, Any]) -> list[dict[str, Any]]:
    """Return, for each method with two sizes or more, the exponent of time between the ends.

    Records of earlier runs count if they have the settings of `like`.
    """
    settings = ("threads", "components", "cache_size")
    times: dict[str, dict[int, float]] = {}
    for record in records:
        if any(record[name] != like[name] for name in settings):
            continue
        for method in record["methods"]:
            times.setdefault(method["name"], {})[record["rows"]] = method["seconds"]
    found = []
    for name, by_size in times.items():
        few, many = min(by_size), max(by_size)
        if few < many:
            exponent = math.log(by_size[many] / by_size[few]) / math.log(many / few)
            rows, seconds = list(by_size), list(by_size.values())
            found.append({"name": name, "rows": rows, "seconds": seconds, "exponent": exponent})
    return found


def print_growth(title: str, records: Sequence[dict[str, Any]]) -> None:
    """Print the growth of time, if there are two sizes."""
    sizes = sorted({rows for record in records for rows in record["rows"]})
    cells = [dict(zip(r["rows"], r["seconds"], strict=True)) for r in records]
    if sizes:
        print_table(
            f"{title}: seconds, and the exponent of time in the rows between the ends",
            ("", *(f"{size:,} rows" for size in sizes), "exponent"),
            [
                [record["name"], *map(times.get, sizes), record["exponent"]]
                for record, times in zip(records, cells, strict=True)
            ],
        )
