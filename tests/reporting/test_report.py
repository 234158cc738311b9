"""A report's numbers against brute force, its facts, and what it lets into the page."""

import json
import re
from html import unescape
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import grayzone
from grayzone import BayesDecisionClassifier
from grayzone.decision import near_threshold, row_thresholds
from grayzone.reporting import Compared, Facts, report
from grayzone.reporting.cuts import STEPS
from grayzone.reporting.markup import percent
from grayzone.reporting.page import render
from grayzone.reporting.parts import (
    Effect,
    Example,
    Finding,
    Importance,
    Limit,
    Promise,
    Rule,
    Segment,
    Verdict,
)
from grayzone.reporting.summary import summarise

NAMES = ["age", "b & c", "<b>x</b>", "π", "last one"]
HOSTILE = [
    "</script><script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=1">',
    "'; window.pwned=1; //",
    "<!--<script>",
    "{{constructor}} ${window.pwned=1} datum['x']",
    "\u2028\u2029 ünï ☃ \x07",
    "w" * 400,
]


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        401, 5, n_informative=4, n_redundant=0, weights=[0.7], flip_y=0.1, random_state=0
    )
    return pd.DataFrame(X, columns=NAMES), np.where(y == 1, "sick", "fit")


@pytest.fixture(scope="module")
def halves(data):
    X, y = data
    return (X[:200], y[:200]), (X[200:], y[200:])


@pytest.fixture(scope="module")
def truncated(halves):
    costs = {"fit": 1.0, "sick": 4.0}
    return grayzone.TruncatedLogisticRegression(costs=costs).fit(*halves[0])


@pytest.fixture(scope="module")
def page(truncated, halves):
    return report(truncated, *halves[1])


class Page(HTMLParser):
    """Tags with the names of their attributes, addresses, texts and the JSON block."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.addresses, self.texts, self.data = [], [], [], None
        self._script = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, *sorted(name for name, _ in attrs)))
        self.addresses += [v for k, v in attrs if k in ("src", "href", "srcset", "data", "action")]
        self._script = dict(attrs) if tag == "script" else None

    def handle_data(self, data):
        if self._script is not None and self._script.get("id") == "data":
            self.data = json.loads(data)
        elif self._script is None:
            self.texts.append(data)

    def handle_endtag(self, tag):
        if tag == "script":
            self._script = None

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def brute(proba, y, t):
    """Decisions of "positive from t on", counted row by row."""
    tp = sum(1 for p, label in zip(proba, y, strict=True) if p >= t and label)
    fp = sum(1 for p, label in zip(proba, y, strict=True) if p >= t and not label)
    return tp, fp


def at_steps(own):
    """Weights of positives and negatives from every step on."""
    negative, positive = own["sums"]
    return list(zip(positive["w"][1:], negative["w"][1:], strict=True))


def of_probabilities(p, codes, costs=((0.0, 1.0), (1.0, 0.0)), **more):
    """Summary of decisions at the threshold of the costs."""
    p, codes, costs = np.asarray(p), np.asarray(codes, dtype=int), np.asarray(costs)
    threshold = costs[0, 1] / (costs[0, 1] + costs[1, 0])
    given = {
        "title": "t",
        "classes": ["no", "yes"],
        "costs": costs,
        "proba": np.column_stack([1 - p, p]),
        "codes": codes,
        "decided": (p >= threshold).astype(int),
        "reject_cost": None,
        "facts": Facts("Model"),
    }
    return summarise(**{**given, **more})


# Numbers


def test_costs_against_rows(page, truncated, halves):
    X, y = halves[1]
    paid = [
        (4.0 if label == "sick" else 1.0) * (label != decided)
        for label, decided in zip(y, truncated.predict(X), strict=True)
    ]
    summary = page.summary
    assert summary["costs"] == [[0.0, 1.0], [4.0, 0.0]]
    assert summary["mean_cost"] == pytest.approx(np.mean(paid), rel=1e-14)
    error = np.sqrt(np.sum((paid - np.mean(paid)) ** 2) / (len(paid) - 1) / len(paid))
    assert summary["mean_cost_error"] == pytest.approx(error, rel=1e-12)
    sick = np.mean(y == "sick")
    assert summary["always"] == pytest.approx([4.0 * sick, 1.0 - sick], rel=1e-14)
    assert summary["counts"] == [int(np.sum(y == "fit")), int(np.sum(y == "sick"))]
    assert summary["n_rows"] == len(y)


def test_costs_of_staying_undecided_are_those_of_the_model(halves):
    (X_train, y_train), (X_test, y_test) = halves
    model = grayzone.TruncatedLogisticRegression(reject_cost=0.2).fit(X_train, y_train)
    for clf in (model, make_pipeline(FrozenEstimator(model)).fit(X_train, y_train)):
        assert report(clf, X_test, y_test).html == report(clf, X_test, y_test, reject_cost=0.2).html
    uneven = grayzone.TruncatedLogisticRegression(reject_cost={"sick": 0.3, "fit": 0.1})
    with pytest.raises(ValueError, match="differs from class to class"):
        report(uneven.fit(X_train, y_train), X_test, y_test)


def test_headline_says_what_is_saved(page):
    mean, (never, always) = page.summary["mean_cost"], page.summary["always"]
    text = Page(page.html).text
    error = page.summary["mean_cost_error"]
    low, high = page.summary["promise"]["low"], page.summary["promise"]["high"]
    assert [low, high] == pytest.approx(mean + 1.96 * error * np.array([-1, 1]), rel=0.1)
    assert f"Cost of a decision {mean:.4g} 95 % interval: {low:.4g} to {high:.4g}" in text
    saved = 100 - 100 * mean / min(never, always)
    rules = f"never “sick” {never:.4g} , always “sick” {always:.4g}"
    assert f"Saved against the best of these {saved:.1f} % {rules}" in text
    assert f"Total for 201 cases {201 * mean:.0f} instead of {201 * min(never, always):.0f}" in text
    sick = page.summary["counts"][1]
    assert f"Base rate of “sick” {100 * sick / 201:.1f} % {sick} of 201 rows seen" in text


def test_counts_at_every_step(page, truncated, halves):
    X, y = halves[1]
    p, own = truncated.predict_proba(X)[:, 1], page.summary["binary"]
    assert len(own["steps"]) == STEPS + 1
    assert np.all(np.diff(own["steps"]) > 0)
    assert (own["steps"][0], own["steps"][-1]) == (0.0, 1.0)
    sick = y == "sick"
    found = [brute(p, sick, t) for t in own["steps"]]
    assert at_steps(own) == found
    assert [sums["w"][0] for sums in own["sums"]] == [int((~sick).sum()), int(sick.sum())]


@pytest.mark.parametrize("start", [0.0, 1 / 3, 0.1234567, 0.5, 0.9, 1.0])
def test_any_threshold_is_a_step(start):
    p = np.random.default_rng(0).uniform(size=50)
    decided = (p >= start).astype(int)
    own = of_probabilities(p, p > 0.4, threshold=start, decided=decided)["binary"]
    assert own["cuts"] == (start, start)
    assert [own["steps"][k] for k in own["start"]] == [start, start]
    assert np.all(np.diff(own["steps"]) > 0)
    assert [brute(p, p > 0.4, t) for t in own["steps"]] == at_steps(own)


@pytest.mark.parametrize("threshold", [1e-6, 1e-3, 0.0199, 0.981, 1 - 1e-4])
def test_rare_events_have_steps_even_in_log_odds(threshold):
    rng = np.random.default_rng(1)
    p = 1 / (1 + np.exp(-(np.log(threshold / (1 - threshold)) + rng.normal(size=300))))
    codes = (rng.uniform(size=300) < 0.2).astype(int)
    costs = [[0.0, threshold], [1.0 - threshold, 0.0]]
    own = of_probabilities(p, codes, costs)["binary"]
    steps = np.array(own["steps"])
    start = own["start"][0]
    assert steps[start] == own["cuts"][0] == pytest.approx(threshold, rel=1e-12)
    logits = np.delete(np.log(steps / (1 - steps)), start)
    gaps = np.diff(logits)
    # one gap is double where the threshold was taken out
    assert np.median(gaps) * 0.99 < np.delete(gaps, start - 1).min()
    assert logits[0] < np.log(threshold / (1 - threshold)) - 2.9
    assert logits[-1] > np.log(threshold / (1 - threshold)) + 2.9
    assert [brute(p, codes, t) for t in steps] == at_steps(own)


def test_reliability_bins_hold_tenths_of_the_rows():
    rng = np.random.default_rng(2)
    p = rng.permutation(np.linspace(0.01, 0.99, 200))
    codes = (rng.uniform(size=200) < p).astype(int)
    own = of_probabilities(p, codes)["binary"]
    order = np.argsort(p)
    for k, found in enumerate(own["reliability"]):
        rows = order[20 * k : 20 * k + 20]
        assert found["rows"] == 20
        assert found["predicted"] == pytest.approx(p[rows].mean(), rel=1e-13)
        assert found["observed"] == pytest.approx(codes[rows].mean(), rel=1e-13)
    assert len(own["reliability"]) == 10


def test_gray_zone_is_a_factor_of_two_of_the_costs(page, truncated, halves):
    p = truncated.predict_proba(halves[1][0])[:, 1]
    zone = page.summary["gray_zone"]
    assert [zone["low"], zone["high"]] == pytest.approx([1 / 9, 1 / 3], rel=1e-12)
    assert zone["share"] == np.mean((p >= zone["low"]) & (p <= zone["high"]))
    assert 0 < zone["share"] < 1
    text = Page(page.html).text
    share = f"{100 * zone['share']:.1f} % of the rows would be decided otherwise if one cost were 2"
    assert share in text
    assert "their probabilities are within 0.1111 and 0.3333" in text


def test_gray_zone_with_staying_undecided_is_of_rows_that_change(halves):
    costs = {"fit": 1.0, "sick": 4.0}
    model = BayesDecisionClassifier(LogisticRegression(), costs=costs, reject_cost=0.5)
    X, y = halves[1]
    model.fit(*halves[0])
    zone = report(model, X, y, reject_cost=0.5).summary["gray_zone"]
    near = near_threshold(model.predict_proba(X), [1.0, 4.0], 2.0, 0.5)
    assert (zone["low"], zone["high"], zone["share"]) == (None, None, near.mean())
    assert 0 < zone["share"] < 1


def test_curve_is_exact_where_probabilities_are_crowded():
    rng = np.random.default_rng(3)
    p = 1e-5 * rng.uniform(size=150)  # all below the slider's first step
    codes = (rng.uniform(size=150) < 1e5 * p).astype(int)
    curve = of_probabilities(p, codes)["binary"]["curve"]
    # the curve has fewer points than are allowed: none is left out
    assert len(curve) == 151
    positives, negatives = codes.sum(), (1 - codes).sum()
    for point, t in zip(curve, [1.0, *np.sort(p)[::-1]], strict=True):
        tp, fp = brute(p, codes, t)
        assert point["tpr"] == pytest.approx(tp / positives, abs=1e-15)
        assert point["fpr"] == pytest.approx(fp / negatives, abs=1e-15)


def test_long_curves_are_thinned_evenly():
    rng = np.random.default_rng(4)
    p = rng.uniform(size=5_000)
    curve = of_probabilities(p, (rng.uniform(size=5_000) < p).astype(int))["binary"]["curve"]
    assert 300 < len(curve) <= 400
    along = np.array([point["tpr"] + point["fpr"] for point in curve])
    assert (along[0], along[-1]) == (0.0, 2.0)
    # at most a step of the thinning and one of the data
    assert np.diff(along).max() < 2 / 399 + 1 / 1_500


def test_equal_probabilities_are_one_point():
    own = of_probabilities([0.3] * 4 + [0.6] * 4, [0, 0, 0, 1, 0, 1, 1, 1])["binary"]
    assert own["curve"] == [
        {"tpr": 0.0, "fpr": 0.0},
        {"tpr": 0.75, "fpr": 0.25},
        {"tpr": 1.0, "fpr": 1.0},
    ]
    assert own["auc"] == 0.75


def test_risk_against_coverage_row_by_row():
    rng = np.random.default_rng(5)
    p = rng.permutation(np.linspace(0.01, 0.99, 150) ** 2)
    codes = (rng.uniform(size=150) < p).astype(int)
    order = np.argsort(np.minimum(p, 1 - p))
    wrong = ((p >= 0.5) != codes)[order]
    found = of_probabilities(p, codes)["risk_coverage"]
    assert len(found) == 150
    for k, point in enumerate(found):
        assert point["coverage"] == pytest.approx((k + 1) / 150, rel=1e-13)
        assert point["risk"] == pytest.approx(wrong[: k + 1].mean(), abs=1e-14)


def test_undecided_rows_are_counted_and_paid_for(halves):
    costs = {"fit": 1.0, "sick": 4.0}
    model = BayesDecisionClassifier(LogisticRegression(), costs=costs, reject_cost=0.5)
    model.fit(*halves[0])
    X, y = halves[1]
    page = report(model, X, y, reject_cost=0.5)
    decided = model.predict(X)
    table = [
        [int(np.sum((y == true) & (decided == other))) for other in ("fit", "sick", "undecided")]
        for true in ("fit", "sick")
    ]
    assert page.summary["confusion"] == table
    assert min(map(min, table)) > 0
    undecided = decided == "undecided"
    assert page.summary["undecided"] == undecided.mean()
    mean = (0.5 * undecided.sum() + table[0][1] + 4.0 * table[1][0]) / len(y)
    assert page.summary["mean_cost"] == pytest.approx(mean, rel=1e-13)
    # two cuts: a miss costs more than .5 from .125 on, an alarm less from .5 on
    own = page.summary["binary"]
    assert own["cuts"] == pytest.approx((0.125, 0.5), rel=1e-12)
    low, high = own["start"]
    between = [sums["w"][low + 1] - sums["w"][high + 1] for sums in own["sums"]]
    assert between == [row[2] for row in table]
    text = Page(page.html).text
    assert f"Left undecided {100 * undecided.mean():.1f} % at 0.5 each" in text
    assert "true fit sick undecided" in text
    assert "refer everyone 0.5" in text


def test_undecided_rows_without_a_cost_are_refused(halves):
    model = BayesDecisionClassifier(LogisticRegression(), reject_cost=0.1).fit(*halves[0])
    says = ("classes_", "predict", "predict_proba")
    model = SimpleNamespace(**{name: getattr(model, name) for name in says})
    with pytest.raises(ValueError, match=r"^'undecided' is none of the classes .* reject_cost"):
        report(model, *halves[1])


# Where costs and thresholds come from


def test_costs_given_go_before_those_of_the_model(truncated, halves):
    page = report(truncated, *halves[1], costs={"fit": 2.0, "sick": 2.0})
    assert page.summary["costs"] == [[0.0, 2.0], [2.0, 0.0]]
    # the decisions are those of the model still
    assert page.summary["binary"]["cuts"] == (0.2, 0.2)


def test_balanced_costs_are_those_of_the_rows(truncated, halves):
    page = report(truncated, *halves[1], costs="balanced")
    share = np.mean(halves[1][1] == "sick")
    assert page.summary["costs"][1][0] == pytest.approx(0.5 / share, rel=1e-14)
    assert page.summary["always"] == pytest.approx([0.5, 0.5], rel=1e-14)


def test_outer_costs_are_in_force(halves):
    inner = grayzone.TruncatedLogisticRegression(costs={"fit": 7.0, "sick": 1.0})
    with pytest.warns(UserWarning, match="outside the zone"):
        model = BayesDecisionClassifier(inner, costs={"fit": 1.0, "sick": 9.0}).fit(*halves[0])
    summary = report(model, *halves[1]).summary
    assert summary["costs"] == [[0.0, 1.0], [9.0, 0.0]]
    assert summary["binary"]["cuts"] == (0.1, 0.1)


def test_threshold_of_decisions_that_costs_do_not_explain(halves):
    X, y = halves[1]
    plain = LogisticRegression().fit(*halves[0])
    own = report(plain, X, y, costs={"fit": 1.0, "sick": 9.0}).summary
    assert own["binary"]["cuts"] == (0.5, 0.5)
    tight = grayzone.TightBoundLogisticRegression(max_fpr=0.05, confidence=0.5, random_state=0).fit(
        *halves[0]
    )
    assert report(tight, X, y).summary["binary"]["cuts"][0] == tight.threshold_ != 0.5
    tuned = TunedThresholdClassifierCV(plain, scoring="balanced_accuracy", cv=3).fit(*halves[0])
    found = report(tuned, X, y)
    at = found.summary["binary"]["cuts"][1]
    p = tuned.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(np.where(p >= at, "sick", "fit"), tuned.predict(X))
    start = found.summary["binary"]["start"][1]
    table = found.summary["confusion"]
    assert at_steps(found.summary["binary"])[start] == (table[1][1], table[0][1])


def test_decisions_that_no_cut_explains_stay_as_they_are():
    p = np.linspace(0.05, 0.95, 40)
    odd = np.arange(40) % 2
    summary = of_probabilities(p, p > 0.4, decided=odd)
    assert summary["binary"]["cuts"] is None
    assert summary["binary"]["steps"] is None
    page = Page(render(summary))
    assert "Decisions stay as they were made" in page.text
    assert 'id="cut-high"' not in render(summary)


# Weights, and costs of rows


def test_weights_equal_repetitions():
    rng = np.random.default_rng(6)
    p = rng.permutation(np.linspace(0.02, 0.97, 90))
    codes, times = (rng.uniform(size=90) < p).astype(int), rng.integers(1, 4, size=90)
    costs = [[0.0, 1.0], [3.0, 0.0]]
    ours = of_probabilities(p, codes, costs, weight=times)
    theirs = of_probabilities(np.repeat(p, times), np.repeat(codes, times), costs)
    for key in ("mean_cost", "always", "undecided", "confusion", "counts", "mass"):
        np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-13, err_msg=key)
    for key in ("share", "low", "high"):
        assert ours["gray_zone"][key] == pytest.approx(theirs["gray_zone"][key], rel=1e-13)
    mine, other = ours["binary"], theirs["binary"]
    assert mine["auc"] == pytest.approx(other["auc"], rel=1e-13)
    assert mine["steps"] == other["steps"]
    for one, two in zip(mine["sums"], other["sums"], strict=True):
        assert one["w"] == two["w"]
    for one, two in zip(mine["reliability"], other["reliability"], strict=True):
        assert one == pytest.approx(two, rel=1e-13)
    assert "90 rows, which stand for" in Page(render(ours)).text


def test_weights_do_not_make_up_rows():
    rng = np.random.default_rng(7)
    p = rng.uniform(size=50)
    codes = (rng.uniform(size=50) < p).astype(int)
    ours = of_probabilities(p, codes, weight=np.full(50, 20.0))
    assert ours["mean_cost_error"] == pytest.approx(of_probabilities(p, codes)["mean_cost_error"])


def row_cost_problem(n=120, right=0.0):
    rng = np.random.default_rng(8)
    p = rng.uniform(size=n)
    codes = (rng.uniform(size=n) < p).astype(int)
    costs = np.zeros((n, 2, 2))
    costs[:, 1, 0], costs[:, 0, 1] = rng.lognormal(1.0, 1.0, n), rng.uniform(0.5, 2.0, n)
    costs[:, 1, 1] = right * costs[:, 1, 0]
    decided = (p >= row_thresholds(costs)).astype(int)
    mean = costs.mean(axis=0)
    more = {"row_costs": costs, "decided": decided}
    return p, codes, costs, of_probabilities(p, codes, mean, **more)


@pytest.mark.parametrize("right", [0.0, 0.2])
def test_costs_of_rows_are_summed_at_every_step(right):
    p, codes, costs, summary = row_cost_problem(right=right)
    rows = np.arange(len(p))
    own, at = summary["binary"], row_thresholds(costs)
    assert own["cuts"] == (0.5, 0.5)
    paid = costs[rows, codes, (p >= at).astype(int)]
    assert summary["mean_cost"] == pytest.approx(paid.mean(), rel=1e-13)
    always = [costs[rows, codes, k].mean() for k in (0, 1)]
    assert summary["always"] == pytest.approx(always, rel=1e-13)
    score = p * (1 - at) / (p * (1 - at) + (1 - p) * at)
    for step in (0, 200, own["start"][0], 731, 1_000):
        above = score >= own["steps"][step]
        for k, sums in enumerate(own["sums"]):
            mine = above & (codes == k)
            for name, decided in (("right", k), ("wrong", 1 - k)):
                cost = costs[mine, k, decided]
                found = [part[step + 1] for part in sums[name]]
                want = [cost.sum(), cost.sum(), (cost**2).sum()]
                assert found == pytest.approx(want, rel=1e-12, abs=1e-12)


def test_rows_with_nothing_at_stake_stay_where_they_are():
    p = np.array([0.1, 0.9, 0.4, 0.6])
    costs = np.array([[[0.0, 1.0], [1.0, 0.0]]] * 2 + [[[0.0, 0.0], [0.0, 0.0]]] * 2)
    decided = np.array([0, 1, 1, 0])
    own = of_probabilities(p, [0, 1, 1, 0], row_costs=costs, decided=decided)["binary"]
    assert own["cuts"] == (0.5, 0.5)
    assert at_steps(own)[own["start"][0]] == (2, 0)


def test_report_with_costs_of_rows_and_weights(halves):
    X, y = halves[1]
    costs = {"fit": 1.0, "sick": np.linspace(1.0, 9.0, len(y))}
    model = BayesDecisionClassifier(LogisticRegression()).fit(*halves[0])
    weight = np.linspace(0.5, 1.5, len(y))
    summary = report(model, X, y, example_costs=costs, sample_weight=weight).summary
    decided = model.predict(X, example_costs=costs)
    paid = (decided != y) * np.where(y == "sick", costs["sick"], 1.0)
    assert summary["mean_cost"] == pytest.approx(np.average(paid, weights=weight), rel=1e-13)
    assert summary["binary"]["cuts"] == (0.5, 0.5)


# Other kinds of problems


def test_three_classes_have_no_threshold():
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X[::2], y[::2])
    page = report(model, X[1::2], y[1::2], costs={0: 1.0, 1: 2.0, 2: 3.0})
    assert page.summary["binary"] is None
    wrong = model.predict(X[1::2]) != y[1::2]
    mean = np.mean(wrong * (1.0 + y[1::2]))
    assert page.summary["mean_cost"] == pytest.approx(mean, rel=1e-14)
    assert page.summary["always"] == pytest.approx([5 / 3, 4 / 3, 1.0], rel=1e-14)
    found = Page(page.html)
    assert 'id="cut-high"' not in page.html
    assert 'id="plot-risk"' in page.html
    assert "always “0” 1.667 , always “1” 1.333 , always “2” 1" in found.text


@pytest.mark.parametrize("label", ["fit", "sick"])
def test_rows_of_one_class(truncated, halves, label):
    X, y = halves[1]
    page = report(truncated, X[y == label], y[y == label])
    own = page.summary["binary"]
    assert (own["sums"][1]["w"][0] == 0) == (label == "fit")
    assert min(page.summary["always"]) == 0.0
    assert own["auc"] is None
    assert "Saved against the best of these – never" in Page(page.html).text
    assert 'id="share"' not in page.html  # nothing to weigh


def test_one_row(truncated, halves):
    X, y = halves[1]
    page = report(truncated, X[:1], y[:1])
    assert page.summary["mean_cost_error"] is None
    assert page.summary["n_rows"] == 1
    # it cost nothing, and another one may cost as much as one can
    assert "95 % interval: 0 to 0.975" in Page(page.html).text


def test_a_model_of_one_class():
    model = DummyClassifier().fit(np.zeros((4, 1)), ["a"] * 4)
    page = report(model, np.zeros((3, 1)), ["a"] * 3)
    assert page.summary["confusion"] == [[3]]
    assert page.summary["binary"] is None


@pytest.mark.parametrize("y", [[], [["fit"], ["sick"]]])
def test_labels_that_are_no_list_are_refused(truncated, halves, y):
    with pytest.raises(ValueError, match="labels must be a list with at least one"):
        report(truncated, halves[1][0][: len(y)], y)


def test_unknown_labels_are_named(truncated, halves):
    with pytest.raises(ValueError, match=r"^'ill' is none of the classes \['fit', 'sick'\]"):
        report(truncated, halves[1][0][:2], ["fit", "ill"])


def test_as_many_labels_as_rows(truncated, halves):
    with pytest.raises(ValueError, match=r"predict_proba gives shape \(3, 2\); expected \(2, 2\)"):
        report(truncated, halves[1][0][:3], ["fit", "sick"])


def test_models_without_probabilities_are_refused(halves):
    with pytest.raises(TypeError, match="LinearSVC has no predict_proba"):
        report(LinearSVC().fit(*halves[0]), *halves[1])


# What models are made of


def test_facts_through_a_frozen_pipeline(halves):
    inner = make_pipeline(StandardScaler(), grayzone.MinimaxProbabilityMachine()).fit(*halves[0])
    model = CalibratedClassifierCV(FrozenEstimator(inner), cv=2).fit(*halves[0])
    summary = report(model, *halves[1]).summary
    assert summary["model"] == "MinimaxProbabilityMachine"
    assert {name for name, _ in summary["weights"]} == set(NAMES)


def test_features_without_names_and_the_largest_weights(halves):
    X, y = make_classification(120, 40, random_state=0)
    model = LogisticRegression().fit(X, y)
    weights = report(model, X, y).summary["weights"]
    assert len(weights) == 30
    order = np.argsort(-np.abs(model.coef_[0]), kind="stable")[:30]
    assert weights == [(f"x{j}", model.coef_[0, j]) for j in order]
    assert report(model.sparsify(), X, y).summary["weights"] == []


# The page


def full(name="plain", **more):
    """A summary with all parts, everything named after `name`."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=60)
    facts = Facts(name)
    facts.lines = [(name, name)]
    facts.weights = [(name, 1.0), (name + "2", -0.5)]
    facts.bound_path, facts.points = [0.5, 0.6, 0.65], [name]
    paired = {"difference": 0.1, "difference_error": 0.03}
    given = {
        "title": name,
        "classes": [name, name + "2"],
        "facts": facts,
        "verdict": Verdict(False, f"Do not deploy: always {name} is as good."),
        "limit": Limit("max_fpr", 0.4, 0.95, 0.25, 0.2, 0.31, f"Seen on {name}."),
        "importance": [Importance(name, 0.25, 0.0625), Importance(name + "2", -0.01, 0.02)],
        "effects": [
            Effect(name, "number", (0.0, 1.0, 2.5), (0.1, 0.2, 0.4), (20, 30, 10)),
            Effect(name, "date", ("2024-01-01", "2025-01-01"), (0.1, 0.2), (20, 40)),
            Effect(name, "text", (name, name + "2"), (0.25, 0.5), (40, 20)),
        ],
        "examples": [Example("the surest", name, name, 0.875, (f"{name} = 1: +0.5", name))],
        "segments": [Segment(name, name, 40, 0.4, 0.3125, 0.05, 0.5, 0.75, 0.125, 0.0)],
        "findings": [
            Finding("constant", (name,), f"{name} is constant."),
            Finding("leak", (name,), f"{name} decides 98.5 % alone.", serious=True),
        ],
        "compared": [
            Compared("logistic-regression", 0.4, 0.01, 1.5, True, False, **paired),
            Compared(name, 0.3, 0.02, 2.5, False, True),
            Compared(name + "3", None, None, 0.0, False, False, name),
        ],
        "columns": [{"name": name, "kind": name, "missing": 0.125}],
        "usage": f"model = load({name!r})",
        "notes": [name],
    }
    codes = (rng.uniform(size=60) < p).astype(int)
    return of_probabilities(p, codes, **{**given, **more})


@pytest.fixture(scope="module")
def plain_page():
    return Page(render(full()))


HEADINGS = [
    "What if?",
    "Are the probabilities right?",
    "How well they rank: ROC",
    "Precision and recall",
    "Risk against coverage",
    "Which columns matter",
    "Feature weights",
    "What values do",
    "Reasons for single rows",
    "For whom it works",
    "Models that were compared",
    "The model: plain",
    "Data",
    "Use the model in Python",
    "Save the numbers",
]


def headings(html):
    return [unescape(text) for text in re.findall(r"<h2>(.*?)</h2>", html)]


def test_parts_without_a_record_are_left_out(page):
    assert headings(page.html) == [
        *HEADINGS[:5],
        "Feature weights",
        "The model: TruncatedLogisticRegression",
        "Data",
        "Save the numbers",
    ]
    assert "verdict" not in Page(page.html).text.split("What if?")[1]


@pytest.mark.parametrize(
    ("share", "text"), [(0.00094, "0.094 %"), (0.0, "0.0 %"), (-1e-17, "0.0 %"), (0.123, "12.3 %")]
)
def test_small_shares_are_not_rounded_away(share, text):
    assert percent(share) == text


def test_promise_gives_its_interval_and_its_rows():
    cost = full()["mean_cost"]
    how = "Each row was decided by models that had not seen it."
    told = Promise(cost, 0.05, cost - 0.11, cost + 0.13, 60, (Rule("never", 0.5),), how)
    text = Page(render(full(promise=told))).text
    interval = f"{cost - 0.11:.4g} to {cost + 0.13:.4g}"
    assert f"Cost of a decision {cost:.4g} 95 % interval: {interval}" in text
    assert how in text


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_wherever_they_stand(name, plain_page):
    html = render(full(name))
    page = Page(html)
    assert page.tags == plain_page.tags
    assert page.addresses == plain_page.addresses
    seen = "".join(page.texts)
    # title and heading, verdict, tiles, settings, tables of every record, code
    assert seen.count(name) >= 45
    assert page.data["classes"] == [name, name + "2"]
    assert page.data["effects"][0]["column"] == name
    assert html.lower().count("<script") == html.lower().count("</script>") == 4


def test_nothing_comes_from_the_network(page):
    found = Page(page.html)
    assert found.addresses == ["data:,", "#main"]
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page.html)[1]
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert "unsafe-eval" not in policy
    styles = re.search(r"<style>(.*?)</style>", page.html, re.DOTALL)[1]
    assert "url(" not in styles
    assert "@import" not in styles


def test_ids_are_unique_and_labels_lead_somewhere(page):
    markup = re.sub(r"<script.*?</script>", "", page.html, flags=re.DOTALL)
    ids = re.findall(r'\bid="([^"]+)"', markup)
    assert len(ids) == len(set(ids))
    fields = {"cases", "capacity", "share", "cost-1", "cost-0", "how", "cut-high"}
    assert set(re.findall(r'\bfor="([^"]+)"', markup)) == fields
    assert set(re.findall(r'data-of="([^"]+)"', markup)) == fields - {"how", "cut-high"}
    assert {*fields, "main"} <= set(ids)
    assert '<html lang="en">' in markup


def test_costs_are_not_rounded_in_their_fields():
    costs = [[0.0, 1234567.25], [0.123456789, 0.0]]
    html = render(full(costs=np.asarray(costs)))
    assert 'id="cost-1" min="0" step="any" value="0.123456789"' in html
    assert 'id="cost-0" min="0" step="any" value="1234567.25"' in html


def test_many_columns_are_cut_short():
    columns = [{"name": f"c{j}", "kind": "number", "missing": 0.0} for j in range(1_234)]
    text = Page(render(full(columns=columns))).text
    assert "1,234 columns, the first 200" in text
    assert "c199 " in text
    assert "c200 " not in text
    many = [Importance(f"i{j}", 0.1, 0.01) for j in range(99)]
    text = Page(render(full(importance=many))).text
    assert "i29 " in text
    assert "i30 " not in text
    assert "the 30 of 99 that matter most" in text


def test_saved_and_shown(page, tmp_path):
    path = page.save(str(tmp_path / "ü report.html"))
    assert path.read_text(encoding="utf-8") == page.html
    frame = Page(page._repr_html_())
    assert frame.tags == [("iframe", "srcdoc", "style", "title")]
    assert repr(page) == "Report('TruncatedLogisticRegression', 201 rows)"

    class Frame(HTMLParser):
        def handle_starttag(self, tag, attrs):
            self.srcdoc = dict(attrs)["srcdoc"]

    reader = Frame()
    reader.feed(page._repr_html_())
    assert reader.srcdoc == page.html
