"""A report in a real browser without a network: numbers behind the sliders, layout, keyboard."""

import csv
import io
import json
import os
import shutil
from contextlib import contextmanager
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from grayzone import BayesDecisionClassifier
from grayzone.decision import bayes_decision
from grayzone.decision.cost_interval import cost_interval

pytest.importorskip("playwright")

from playwright.sync_api import sync_playwright

from grayzone.reporting import Compared, Facts, report
from grayzone.reporting.page import render
from grayzone.reporting.parts import (
    Effect,
    Example,
    Finding,
    Importance,
    Limit,
    Promise,
    Segment,
    Verdict,
)
from grayzone.reporting.summary import summarise

CHROMIUM = os.environ.get("GRAYZONE_CHROMIUM") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium; set GRAYZONE_CHROMIUM")

OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE, DESK = 390, 1100
HOSTILE = [
    "</script><script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=1">',
    "${window.pwned=1}",
    "{{window.pwned=1}} datum['x'] \u2028 ☃",
    "w" * 300,
]
PLOTS = ("cost", "reliability", "roc", "precision", "risk", "effect-0", "effect-1", "bound")
CELLS = ("cost", "low", "high", "saved", "rule-0", "rule-1", "total", "instead", "base")
CELLS += ("recall", "precision", "fpr", "alarms", "looked", "cheapest-cost", "cases")


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield found
        found.close()


class Problem:
    """Rows, costs and decisions, and what a page has to say of them, counted row by row."""

    def __init__(self, costs=((0.0, 1.0), (10.0, 0.0)), *, reject=None, rows=False, weighted=False):
        rng = np.random.default_rng(0)
        n = 331
        self.p = rng.beta(0.5, 0.9, size=n)
        self.codes = (rng.uniform(size=n) < self.p).astype(int)
        self.reject, self.rows = reject, rows
        self.weight = rng.uniform(0.5, 3.0, size=n) if weighted else np.ones(n)
        self.costs = np.broadcast_to(np.asarray(costs, dtype=float), (n, 2, 2)).copy()
        if rows:
            self.costs[:, 1, 0] *= rng.lognormal(0.0, 1.0, n)
            self.costs[:, 0, 1] *= rng.uniform(0.5, 2.0, n)
        proba = np.column_stack([1 - self.p, self.p])
        known = self.costs if rows else self.costs[0]
        found = bayes_decision(proba, known, reject_cost=reject)
        self.decided = np.where(found == 2, -1, found)
        self.score = self.p
        if rows:
            odds = self.p / (1 - self.p) * self.costs[:, 1, 0] / self.costs[:, 0, 1]
            self.score = odds / (1 + odds)

    def page(self, names=("no", "yes"), **more):
        facts = Facts("TruncatedLogisticRegression")
        facts.lines = [("Support vectors", "12")]
        facts.weights = [(f"{names[0]} {j}", 1.0 - 0.3 * j) for j in range(6)]
        facts.bound_path, facts.points = [0.5, 0.61, 0.64], ["3", "14"]
        effects = [
            Effect(names[0], "number", (0.0, 1.0, 2.5), (0.1, 0.2, 0.4), (20, 30, 10)),
            Effect(names[1], "date", ("2024-01-01", "2025-01-01"), (0.1, 0.2), (20, 40)),
            Effect(names[0], "text", names, (0.25, 0.5), (40, 20)),
        ]
        compared = [
            Compared("forest", 0.6, 0.05, 1.0, True, False, difference=0.1, difference_error=0.02),
            Compared(names[0], 0.5, 0.05, 2.0, False, True),
            Compared("left-out", None, None, 0.0, False, False, names[1]),
        ]
        given = {
            "title": names[1],
            "classes": list(names),
            "costs": np.average(self.costs, axis=0, weights=self.weight),
            "proba": np.column_stack([1 - self.p, self.p]),
            "codes": self.codes,
            "decided": self.decided,
            "reject_cost": self.reject,
            "row_costs": self.costs if self.rows else None,
            "weight": self.weight,
            "facts": facts,
            "verdict": Verdict(True, f"Use it for {names[1]}."),
            "importance": [Importance(name, 0.2, 0.05) for name in names],
            "effects": effects,
            "examples": [Example("the surest", names[1], names[0], 0.9, (f"{names[0]} = 1: +2",))],
            "segments": [Segment(names[0], names[1], 40, 0.4, 0.3, 0.05, 0.5, 0.75, 0.125, 0.1)],
            "findings": [Finding("leak", names, f"{names[0]} decides alone.", serious=True)],
            "compared": compared,
            "columns": [{"name": name, "kind": "number", "missing": 0.0} for name in names],
            "usage": f"model = grayzone.load_model({names[1]!r})",
            "notes": [f"{names[0]} was chosen."],
        }
        return render(summarise(**{**given, **more}))

    def weights(self, share=None):
        w = self.weight
        if share is None:
            return w
        now = np.average(self.codes, weights=w)
        return w * np.where(self.codes == 1, share / now, (1 - share) / (1 - now))

    def at_costs(self, miss=None, alarm=None):
        costs = self.costs.copy()
        for k, value in ((1, miss), (0, alarm)):
            if value is not None:
                costs[:, k, 1 - k] = value * (self.costs[:, k, 1 - k] if self.rows else 1.0)
        return costs

    def paid(self, decided, miss=None, alarm=None, refer=None):
        """Costs of rows; those of errors are replaced, or multiplied where rows have their own."""
        costs = self.at_costs(miss, alarm)
        refer = self.reject if refer is None else refer
        full = np.concatenate([costs, np.full((len(self.p), 2, 1), refer or 0.0)], axis=2)
        return full[np.arange(len(self.p)), self.codes, decided]

    def at(self, low, high):
        return np.where(self.score >= high, 1, np.where(self.score < low, 0, -1))

    def expected(self, low, high, *, steps, share=None, cases=None, room=1.0, **costs):
        """What the cells have to say."""
        w, decided, refer = self.weights(share), self.at(low, high), costs.get("refer")
        n, cases = len(self.p), float(self.weight.sum()) if cases is None else cases
        paid = self.paid(decided, **costs)
        cost = np.average(paid, weights=w)
        possible = self.at_costs(costs.get("miss"), costs.get("alarm"))[np.arange(n), self.codes]
        low, high, _ = cost_interval(paid, possible, self.codes, 0.95, weight=w)
        rules = [np.average(self.paid(np.full(n, k), **costs), weights=w) for k in (0, 1)]
        refer = self.reject if refer is None else refer
        # what is looked at is drawn, as far as there is capacity
        least = min(rules[1:] if refer is None else [rules[1], refer])
        best = min(rules[0], room * least + (1 - room) * rules[0])
        rules[1] = room * rules[1] + (1 - room) * rules[0]
        positive, alarm = self.codes == 1, decided == 1
        total = w.sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            saved = 1 - np.float64(cost) / best
            precision = np.sum(w[alarm & positive]) / np.sum(w[alarm])
        found = {
            "cost": short(cost),
            "low": short(low),
            "high": short(high),
            "saved": percent(saved),
            "rule-0": short(rules[0]),
            "rule-1": short(rules[1]),
            "total": many(cost * cases),
            "instead": many(best * cases),
            "base": percent(np.sum(w[positive]) / total),
            "recall": percent(np.sum(w[alarm & positive]) / np.sum(w[positive])),
            "precision": percent(precision),
            "fpr": percent(np.sum(w[alarm & ~positive]) / np.sum(w[~positive])),
            "alarms": percent(np.sum(w[alarm]) / total),
            "looked": many(np.sum(w[decided != 0]) / total * cases),
            "cheapest-cost": short(self.least(w, steps, **costs)),
            "cases": many(cases),
        }
        if self.reject is not None:
            found["undecided"] = percent(np.sum(w[decided < 0]) / total)
            found["refer"] = short(refer)
        for k in (0, 1):
            for j, action in enumerate((0, 1, -1)[: 2 + (self.reject is not None)]):
                there = (self.codes == k) & (decided == action)
                found[f"cell-{k}-{j}"] = many(np.sum(w[there]) / total * cases)
        return found

    def least(self, w, steps, most=np.inf, **costs):
        """Cost at the cheapest cuts, by trying them all."""
        above = self.score[:, None] >= steps
        no, yes, refer = (w * self.paid(np.full(len(w), k), **costs) for k in (0, 1, -1))
        fits = w @ above <= most * w.sum() * (1 + 1e-12)
        if self.reject is None:
            return np.min((no @ ~above + yes @ above)[fits]) / w.sum()
        # all pairs: below the first, between, from the second on
        low, high = (no @ ~above + refer @ above)[fits], (yes @ above - refer @ above)[fits]
        pairs = np.triu(np.ones((len(low), len(low)), dtype=bool))
        return np.min((low[:, None] + high)[pairs]) / w.sum()


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """Open pages offline; nothing may be said in the console, asked for or go wrong."""
    folder = tmp_path_factory.mktemp("reports")

    @contextmanager
    def opened(html, *, scheme="light", width=DESK):
        path = Path(folder, "report.html")
        path.write_text(html, encoding="utf-8")
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True
        )
        page, said, asked = context.new_page(), [], []
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("requestfailed", lambda request: said.append(f"failed: {request.url}"))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=20_000)
        try:
            yield page
            settle(page)
            assert said == []
            outside = [url for url in asked if not url.startswith(("data:", "blob:"))]
            assert outside == [path.as_uri()]
        finally:
            context.close()

    return opened


def settle(page):
    """Let charts catch up with the size of the page."""
    page.evaluate("() => new Promise(f => requestAnimationFrame(() => setTimeout(f, 20)))")


def rounded(x, digits):
    return Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal(Decimal(float(x)))


def short(x):
    """Four significant digits as the browser rounds them, exact ties up."""
    return float(rounded(x, 4)) if np.isfinite(x) else None


def percent(x):
    share = 100 * float(x)
    if not np.isfinite(share):
        return "–"
    if abs(share) < 1e-6:
        return "0.0 %"
    if abs(share) < 1:
        return f"{float(rounded(share, 2)):.15g} %"
    return f"{Decimal(share).quantize(Decimal('0.1'), ROUND_HALF_UP)} %"


def many(x):
    """Thousands apart, one digit below a hundred."""
    digits = Decimal("0.1") if abs(x) < 100 else Decimal(1)
    text = f"{Decimal(float(x)).quantize(digits, ROUND_HALF_UP):,}"
    return text.removesuffix(".0")


def shown(page):
    """All cells that follow the settings; every place that shows one shows the same."""
    cells = {}
    for name, text in page.eval_on_selector_all(
        "[data-out]", "all => all.map(e => [e.dataset.out, e.textContent])"
    ):
        assert cells.setdefault(name, text) == text, name
    names = [*CELLS, *(k for k in cells if k.startswith("cell-")), "undecided", "refer"]
    found = {name: cells[name] for name in names if name in cells}
    for name in ("cost", "low", "high", "rule-0", "rule-1", "cheapest-cost", "refer"):
        if name in found:
            found[name] = None if found[name] == "–" else float(found[name])
    return found


def steps_of(page):
    return np.array(
        page.evaluate("JSON.parse(document.getElementById('data').textContent).binary.steps")
    )


def move(page, step, id_="high"):
    page.evaluate(
        "([id, step]) => { const s = document.getElementById('cut-' + id); s.value = step;"
        " s.dispatchEvent(new Event('input', {bubbles: true})); }",
        [id_, int(step)],
    )


def step_of(page, id_="high"):
    return int(page.input_value(f"#cut-{id_}"))


def standing(page, steps):
    """The cuts in force."""
    high = steps[step_of(page)]
    low = steps[step_of(page, "low")] if page.query_selector("#cut-low") else high
    return low, high


PROBLEMS = {
    "plain": {},
    "weighted": {"weighted": True},
    "right decisions cost": {"costs": ((0.5, 3.0), (10.0, 2.0))},
    "undecided": {"reject": 0.6},
    "undecided, weighted, right ones cost": {
        "costs": ((0.1, 1.0), (5.0, 0.2)),
        "reject": 0.5,
        "weighted": True,
    },
    "costs of rows": {"rows": True},
    "costs of rows, weighted": {"rows": True, "weighted": True},
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_every_setting_gives_pythons_numbers(kind, opened):
    problem = Problem(**PROBLEMS[kind])
    with opened(problem.page()) as page:
        steps = steps_of(page)
        start = shown(page)
        low, high = standing(page, steps)
        assert np.array_equal(problem.at(low, high), problem.decided)
        assert start == problem.expected(low, high, steps=steps)
        for step in (0, 250, 777, 1_000):
            move(page, step)
            low, high = standing(page, steps)
            assert high == steps[step]
            assert shown(page) == problem.expected(low, high, steps=steps)
        if problem.reject is not None:
            move(page, 800)
            move(page, 300, "low")
            assert shown(page) == problem.expected(steps[300], steps[800], steps=steps)
            move(page, 900, "low")  # one pushes the other
            assert standing(page, steps) == (steps[900], steps[900])
        move(page, 400)
        now = {"share": 0.05, "cases": 1_234.0, "miss": 2.5, "alarm": 7.0}
        page.fill("#share", "5")
        page.fill("#cases", "1234")
        page.fill("#cost-1", "2.5")
        page.fill("#cost-0", "7")
        if problem.reject is not None:
            page.fill("#cost-undecided", "0.9")
            now["refer"] = 0.9
        low, high = standing(page, steps)
        assert shown(page) == problem.expected(low, high, steps=steps, **now)
        page.select_option("#how", "cheapest")
        low, high = standing(page, steps)
        there = problem.expected(low, high, steps=steps, **now)
        assert shown(page) == there
        assert there["cost"] == there["cheapest-cost"]
        page.click("#reset")
        assert shown(page) == start


@pytest.mark.parametrize("kind", ["plain", "weighted", "undecided", "costs of rows"])
def test_capacity_is_kept_at_the_least_cost(kind, opened):
    problem = Problem(**PROBLEMS[kind])
    with opened(problem.page()) as page:
        steps = steps_of(page)
        page.fill("#cases", "1000")
        for share, capacity in ((None, 200), (0.1, 200), (0.1, 60), (0.1, 2_000)):
            if share is not None:
                page.fill("#share", str(100 * share))
            page.fill("#capacity", str(capacity))
            assert page.input_value("#how") == "capacity"
            low, high = standing(page, steps)
            w = problem.weights(share)
            looked = np.sum(w[problem.score >= low]) / w.sum()
            assert looked <= capacity / 1_000 * (1 + 1e-9)
            found, part = shown(page), min(capacity / 1_000, 1.0)
            told = {"share": share, "cases": 1_000.0, "room": part}
            assert found == problem.expected(low, high, steps=steps, **told)
            # nobody can refer, or look at, more than there is capacity for
            text = page.text_content(".tiles") + page.text_content("#now")
            assert ("everyone" in text or "always" in text) == (part == 1.0)
            assert (f"{capacity} at random" in text) == (part < 1.0)
            assert found["cost"] == short(problem.least(w, steps, capacity / 1_000))
            assert page.text_content('[data-out="room"]').startswith(f"within the {capacity:,}")
        page.fill("#capacity", "60")
        move(page, 100)
        assert page.input_value("#how") == "hand"
        assert page.text_content('[data-out="room"]').startswith("more than the 60")


def bayes_cut(problem, miss, alarm, share):
    """Threshold of costs on the model's own scale, where positives are as frequent as told."""
    now = np.average(problem.codes, weights=problem.weight)
    ratio = (share / (1 - share)) / (now / (1 - now))
    return alarm / (alarm + miss * ratio)


@pytest.mark.parametrize("kind", ["plain", "costs of rows"])
def test_threshold_follows_costs_and_share(kind, opened):
    problem = Problem(**PROBLEMS[kind])
    with opened(problem.page()) as page:
        steps = steps_of(page)
        page.select_option("#how", "costs")
        for miss, alarm, share in ((2.5, 7.0, 0.3), (40.0, 0.5, 0.02), (1.0, 1.0, 0.9)):
            for id_, value in (("cost-1", miss), ("cost-0", alarm), ("share", 100 * share)):
                page.fill(f"#{id_}", str(value))
            cut = bayes_cut(problem, miss, alarm, share)
            assert page.text_content('[data-out="bayes"]') == str(short(cut)).removesuffix(".0")
            _, high = standing(page, steps)
            assert high == steps[np.argmin(np.abs(steps - cut))]
            now = {"miss": miss, "alarm": alarm, "share": share}
            assert shown(page) == problem.expected(high, high, steps=steps, **now)


def test_two_cuts_follow_costs(opened):
    problem = Problem(reject=0.6)
    with opened(problem.page()) as page:
        steps = steps_of(page)
        page.select_option("#how", "costs")
        for miss, alarm, refer in ((10, 1, 0.6), (4, 2, 0.8), (2, 2, 1.5)):
            for id_, value in (("cost-1", miss), ("cost-0", alarm), ("cost-undecided", refer)):
                page.fill(f"#{id_}", str(value))
            cuts = [refer / miss, 1 - refer / alarm]
            if cuts[0] > cuts[1]:  # too dear: two actions are left
                cuts = [alarm / (alarm + miss)] * 2
            want = [steps[np.argmin(np.abs(steps - cut))] for cut in cuts]
            assert list(standing(page, steps)) == pytest.approx(want, abs=1e-12)
            now = {"miss": miss, "alarm": alarm, "refer": refer}
            assert shown(page) == problem.expected(*standing(page, steps), steps=steps, **now)


def test_sliders_and_fields_are_one(opened):
    problem = Problem()
    with opened(problem.page()) as page:
        steps = steps_of(page)
        page.focus('[data-of="cost-1"]')
        page.keyboard.press("End")
        assert float(page.input_value("#cost-1")) == 200
        now = {"steps": steps, "miss": 200.0}
        low, high = standing(page, steps)
        assert shown(page) == problem.expected(low, high, **now)
        page.fill("#cost-1", "10")
        assert float(page.input_value('[data-of="cost-1"]')) == 500
        page.focus('[data-of="share"]')
        page.keyboard.press("ArrowRight")
        share = float(page.input_value("#share")) / 100
        assert shown(page) == problem.expected(low, high, steps=steps, share=share, miss=10.0)


@pytest.mark.parametrize(
    ("kind", "of"), [("max_fpr", "fpr"), ("min_recall", "recall"), ("min_precision", "precision")]
)
def test_limit_follows_the_threshold(kind, of, opened):
    problem = Problem()
    limit = Limit(kind, 0.6, 0.95, 0.5, 0.4, 0.6, "Seen on all rows.")
    with opened(problem.page(limit=limit)) as page:
        kept = set()
        for step in (0, 30, 120, 700):
            move(page, step)
            alarm, positive = problem.p >= steps_of(page)[step], problem.codes == 1
            rate = {
                "fpr": np.mean(alarm[~positive]),
                "recall": np.mean(alarm[positive]),
                "precision": np.mean(positive[alarm]),
            }[of]
            good = rate <= 0.6 if kind == "max_fpr" else rate >= 0.6
            text = page.text_content('[data-out="limit"]')
            assert text == percent(rate)
            assert page.text_content(f'td [data-out="{of}"]') == text
            assert page.text_content('[data-out="kept"]').startswith("kept" if good else "not kept")
            kept.add(good)
        assert kept == {True, False}


def test_tile_and_panel_agree_with_staying_undecided(opened):
    """The tile once said .187 and the panel of the same page .504."""
    problem = Problem(reject=0.5)
    promised = np.mean(problem.paid(problem.decided))
    told = Promise(promised, 0.01, promised - 0.03, promised + 0.02, 331, (), "Not fitted.")
    with opened(problem.page(promise=told)) as page:
        found = shown(page)  # checks that all places agree
        assert found["cost"] == short(promised)
        assert (found["low"], found["high"]) == (short(promised - 0.03), short(promised + 0.02))
        assert found["undecided"] == percent(np.mean(problem.decided < 0))
        best = min(0.5, *(np.mean(problem.paid(np.full(331, k))) for k in (0, 1)))
        assert best == 0.5  # referring everyone is what it is to be seen beside
        assert found["saved"] == percent(1 - promised / 0.5)
        assert "refer everyone (0.5)" in page.text_content("#now")
        hidden = "[...document.querySelectorAll('.as-trained')].every(e => e.hidden)"
        assert page.evaluate(hidden)
        page.fill("#cost-undecided", "0.4")
        assert page.evaluate("[...document.querySelectorAll('.as-trained')].every(e => !e.hidden)")


def test_keyboard_alone_is_enough(opened):
    problem = Problem()
    with opened(problem.page()) as page:
        steps, reached = steps_of(page), []
        for _ in range(15):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate(
                    "(e => e.id || e.hash || e.dataset.of || e.tagName)(document.activeElement)"
                )
            )
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none"
        fields = ["cases", "capacity", "share", "cost-1", "cost-0"]
        twice = [name for field in fields for name in (field, field)]
        assert reached == ["#main", *twice, "how", "cut-high", "reset", "SUMMARY"]
        page.focus("#cut-high")
        start = step_of(page)
        for key, step in (("ArrowRight", start + 1), ("ArrowLeft", start), ("End", 1_000)):
            page.keyboard.press(key)
            assert step_of(page) == step
        assert page.get_attribute("#cut-high", "aria-valuetext") == "1"
        assert shown(page) == problem.expected(1.0, 1.0, steps=steps)
        page.focus("#reset")
        page.keyboard.press("Enter")
        assert step_of(page) == start


def test_three_classes_with_factors_and_staying_undecided(opened):
    X, y = load_iris(return_X_y=True)
    X = X[:, :2]
    costs = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    model = BayesDecisionClassifier(LogisticRegression(), costs=costs, reject_cost=0.4)
    model.fit(X[::2], y[::2])
    X, y = X[1::2], y[1::2]
    with opened(report(model, X, y, reject_cost=0.4).html, width=PHONE) as page:
        decided = model.predict(X)
        assert 0 < np.mean(decided == -1) < 1
        for id_, value in (("cost-1", "2.5"), ("cost-undecided", "0.3"), ("cases", "1000")):
            page.fill(f"#{id_}", value)
        now = costs * np.array([[1.0], [2.5], [1.0]])
        paid = np.column_stack([now, np.full(3, 0.3)])[y, decided]
        cells = {
            name: page.text_content(f'[data-out="{name}"]')
            for name in ("cost", "saved", "total", "undecided", "rule-0", "rule-2", "cell-1-3")
        }
        best = min(0.3, *now[y].mean(axis=0))
        assert float(cells["cost"]) == short(paid.mean())
        assert cells["saved"] == percent(1 - paid.mean() / best)
        assert cells["total"] == many(1_000 * paid.mean())
        assert cells["undecided"] == percent(np.mean(decided == -1))
        assert float(cells["rule-2"]) == short(now[y, 2].mean())
        assert cells["cell-1-3"] == many(np.mean((y == 1) & (decided == -1)) * 1_000)
        assert page.query_selector("#cut-high") is None
        assert len(page.query_selector_all(".plot svg")) == 1
        assert fits(page)


def test_numbers_are_saved(opened):
    problem = Problem()
    with opened(problem.page()) as page:
        steps = steps_of(page)
        page.fill("#cost-1", "4")
        move(page, 300)

        def saved(button):
            with page.expect_download() as waiting:
                page.click(button)
            return Path(waiting.value.path()).read_text(encoding="utf-8")

        numbers = json.loads(saved("#save-json"))
        assert numbers["now"]["cost"] == pytest.approx(
            np.mean(problem.paid(problem.at(0.3, 0.3), miss=4.0)), rel=1e-12
        )
        assert numbers["now"]["cuts"] == [steps[300], steps[300]]
        assert numbers["as_trained"]["mean_cost"] == pytest.approx(
            np.mean(problem.paid(problem.decided)), rel=1e-12
        )
        table = list(csv.DictReader(io.StringIO(saved("#save-csv"))))
        assert [float(row["threshold"]) for row in table] == steps.tolist()
        for k in (0, 300, 900):
            cost = np.mean(problem.paid(problem.at(steps[k], steps[k]), miss=4.0))
            assert float(table[k]["cost"]) == pytest.approx(cost, rel=1e-12)


def test_every_chart_is_drawn_and_everything_has_a_name(opened):
    with opened(Problem(reject=0.6).page()) as page:
        for name in PLOTS:
            box = page.query_selector(f"#plot-{name} svg").bounding_box()
            assert min(box["width"], box["height"]) > 150
            assert page.query_selector_all(f"#plot-{name} path.line")
            assert page.get_attribute(f"#plot-{name}", "role") == "img"
            assert page.get_attribute(f"#plot-{name}", "aria-label")
        assert len(page.query_selector_all("#plot-reliability circle.dot")) == 10
        assert len(page.query_selector_all("#plot-reliability rect.count")) == 10
        nameless = page.evaluate(
            "() => [...document.querySelectorAll('input, select, button')].filter("
            "e => !(e.labels.length || e.ariaLabel || e.textContent.trim())).length"
        )
        assert nameless == 0
        bare = "[...document.querySelectorAll('table')].filter(t => !t.caption.textContent).length"
        assert page.evaluate(bare) == 0
        empty = "[...document.querySelectorAll('th')].filter(t => !t.textContent.trim()).length"
        assert page.evaluate(empty) == 0
        levels = page.evaluate(
            "[...document.querySelectorAll('h1,h2,h3,h4')].map(h => h.tagName).join()"
        )
        assert levels.count("H1") == 1
        assert page.get_attribute("#now", "role") == "status"
        assert page.evaluate("document.querySelectorAll('[role=status], [aria-live]').length") == 1


def fits(page):
    wide = page.evaluate("document.documentElement.scrollWidth")
    return wide <= page.evaluate("document.documentElement.clientWidth")


def luminance(page, selector, what):
    colour = page.evaluate(
        "([s, w]) => getComputedStyle(document.querySelector(s))[w].match(/[\\d.]+/g).map(Number)",
        [selector, what],
    )
    parts = [
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
        for c in np.array(colour[:3]) / 255
    ]
    return float(np.dot([0.2126, 0.7152, 0.0722], parts))


def contrast(page, selector, ground, what="color"):
    """Ratio of the Web Content Accessibility Guidelines; 4.5 is what text needs."""
    ink, behind = luminance(page, selector, what), luminance(page, ground, "backgroundColor")
    return (max(ink, behind) + 0.05) / (min(ink, behind) + 0.05)


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_names_are_text_and_fit(opened, scheme, width):
    problem = Problem()
    for names in pairwise(HOSTILE) if (scheme, width) == ("light", DESK) else [HOSTILE[-2:]]:
        limit = Limit("max_fpr", 0.6, 0.95, 0.5, 0.4, 0.6, names[0])
        verdict = Verdict(False, f"Do not deploy: {names[0]}")
        html = problem.page(names=tuple(names), limit=limit, verdict=verdict)
        with opened(html, scheme=scheme, width=width) as page:
            assert page.evaluate("document.querySelectorAll('img').length") == 0
            assert page.evaluate("document.scripts.length") == 4
            assert page.title() == names[1]
            assert page.text_content("h1") == names[1]
            heads = page.eval_on_selector_all("tbody th", "all => all.map(e => e.textContent)")
            assert names[0] in heads
            drawn = page.eval_on_selector_all("svg text", "all => all.map(e => e.textContent)")
            assert names[0][:40] in drawn
            move(page, 100)
            assert f"Decide “{names[1]}” from" in page.text_content("#now")
            assert page.evaluate("typeof window.pwned") == "undefined"
            assert fits(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_on_paper_and_on_phones(opened, scheme):
    amber = Verdict(False, "Do not deploy yet: check 'a' first.", ("a",))
    with opened(Problem().page(verdict=amber), scheme=scheme) as page:
        assert contrast(page, ".verdict.check strong", ".verdict.check") > 4.5
    verdict = Verdict(False, "Do not deploy: always is as good.")
    html = Problem(reject=0.6).page(verdict=verdict)
    with opened(html, scheme=scheme, width=PHONE) as page:
        assert fits(page)
        assert (luminance(page, "body", "backgroundColor") < 0.1) == (scheme == "dark")
        for selector, ground in (
            ("body", "body"),
            ("header .soft", "body"),
            ("section .soft", "section"),
            (".verdict strong", ".verdict"),
            (".verdict p", ".verdict"),
            ("b.good", ".tile"),
            (".tile small", ".tile"),
            ("li.warn", "section:last-of-type"),
            ("caption", "section:last-of-type"),
            ("#cost-1", "#cost-1"),
        ):
            assert contrast(page, selector, ground) > 4.5, selector
        assert contrast(page, "#plot-cost text.tick", "section:last-of-type", "fill") > 4.5
        # a wide table is a list of its rows, with the names of its columns
        label = "getComputedStyle(document.querySelector('table.stack td'), '::before').content"
        assert page.evaluate(label) == '"rows"'
        page.set_viewport_size({"width": DESK, "height": 900})
        settle(page)
        assert fits(page)
        wide = page.query_selector("#plot-cost svg").bounding_box()["width"]
        assert wide > PHONE
        page.emulate_media(media="print", color_scheme=scheme)
        for selector in (".controls", "#cut-high", "#cost-1", "#reset", ".skip", "#save-json"):
            assert not page.is_visible(selector)
        assert page.is_visible('td [data-out="cost"]')
        assert page.is_visible("#plot-cost svg")
        assert luminance(page, "body", "backgroundColor") == pytest.approx(1.0)
        assert contrast(page, "section td", "body") > 7
        page.emulate_media(media="screen", color_scheme=scheme)
