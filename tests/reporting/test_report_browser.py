"""A report in a real browser without a network: numbers behind the slider, layout, keyboard."""

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

from grayzone.decision import cost_matrix

pytest.importorskip("playwright")
pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from playwright.sync_api import sync_playwright

from grayzone.reporting import Compared, Facts, report
from grayzone.reporting.page import render
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
CELLS = ("tp", "fp", "fn", "tn")
LABELS = {
    "cost": "Mean cost of a decision against the threshold",
    "reliability": "Are probabilities right?",
    "risk": "Risk against coverage",
    "roc": "ROC",
    "precision": "Precision and recall",
    "weights": "Feature weights",
    "bound": "Accuracy bound along the basis functions",
}
TWO_COSTS = [[0.0, 1.0], [10.0, 0.0]]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.9, size=331)
    return p, (rng.uniform(size=331) < p).astype(int)


def page_of(p, codes, costs=None, names=("no", "yes"), **more):
    """A page with all parts, for decisions at the threshold of the costs."""
    costs = cost_matrix(TWO_COSTS if costs is None else costs, [0, 1])
    stakes = costs[0, 1] - costs[0, 0], costs[1, 0] - costs[1, 1]
    threshold = stakes[0] / sum(stakes)
    facts = Facts("TruncatedLogisticRegression")
    facts.lines = [("Support vectors", "12")]
    facts.weights = [(f"{names[0]} {j}", 1.0 - 0.3 * j) for j in range(6)]
    facts.bound_path, facts.points = [0.5, 0.61, 0.64], ["3", "14"]
    given = {
        "title": names[1],
        "classes": list(names),
        "costs": costs,
        "proba": np.column_stack([1 - p, p]),
        "codes": codes,
        "decided": (p >= threshold).astype(int),
        "reject_cost": None,
        "zone": None,
        "facts": facts,
        "compared": [
            Compared("logistic-regression", 0.6, 0.05, 1.0, True, False),
            Compared(names[0], 0.5, 0.05, 2.0, False, True),
            Compared("left-out", None, None, 0.0, False, False, names[1]),
        ],
        "columns": [{"name": name, "kind": "number", "missing": 0.0} for name in names],
        "usage": f"model = grayzone.load_model({names[1]!r})",
        "notes": [f"{names[0]} was chosen."],
    }
    return render(summarise(**{**given, **more}))


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
            assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
        finally:
            context.close()

    return opened


def settle(page):
    """Let the charts catch up with their signals."""
    page.evaluate("() => new Promise(f => requestAnimationFrame(() => setTimeout(f, 50)))")


def short(x):
    """Four significant digits as the browser rounds them, exact ties up."""
    if not np.isfinite(x):
        return None
    return float(Context(prec=4, rounding=ROUND_HALF_UP).create_decimal(Decimal(float(x))))


def percent(x):
    if not np.isfinite(x):
        return "–"
    return f"{Decimal(100 * float(x)).quantize(Decimal('0.1'), ROUND_HALF_UP)} %"


def shown(page):
    """All output cells; numbers as such."""
    cells = page.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('output')]"
        ".map(o => [o.id.replace('-value', ''), o.textContent]))"
    )
    numbers = ("threshold", "cost", "never", "always", "bayes", "best")
    for name in numbers:
        cells[name] = None if cells[name] == "–" else float(cells[name])
    return cells


def counts(p, codes, t):
    alarm = p >= t
    return [int(np.sum(x)) for x in (alarm & (codes == 1), alarm & (codes == 0))]


def expected(p, codes, t, costs, steps):
    """What the cells have to say, from the probabilities themselves."""
    costs = np.asarray(costs, dtype=float)
    n, positives = len(p), int(np.sum(codes))
    tp, fp = counts(p, codes, t)
    fn, tn = positives - tp, n - positives - fp

    def cost(at):
        return np.mean(costs[codes, (p >= at).astype(int)])

    never, always = np.mean(costs[codes, 0]), np.mean(costs[codes, 1])
    with np.errstate(divide="ignore", invalid="ignore"):
        saved = 1 - np.float64(cost(t)) / min(never, always)
        recall, fpr = np.float64(tp) / positives, np.float64(fp) / (n - positives)
        precision = np.float64(tp) / (tp + fp)
        stakes = costs[0, 1] - costs[0, 0], costs[1, 0] - costs[1, 1]
        bayes = stakes[0] / np.float64(sum(stakes))
    along = np.array([cost(at) for at in steps])
    return {
        "threshold": short(t),
        "cost": short(cost(t)),
        "never": short(never),
        "always": short(always),
        "saved": percent(saved),
        "recall": percent(recall),
        "precision": percent(precision),
        "fpr": percent(fpr),
        "alarms": percent((tp + fp) / n),
        "bayes": short(bayes),
        # the first of the cheapest; sums are in another order here
        "best": short(steps[np.flatnonzero(along <= along.min() + 1e-12)[0]]),
        **{k: f"{v:,}" for k, v in zip(CELLS, (tp, fp, fn, tn), strict=True)},
    }


def move(page, step):
    page.evaluate(
        "step => { const s = document.getElementById('threshold'); s.value = step;"
        " s.dispatchEvent(new Event('input', {bubbles: true})); }",
        step,
    )


def step_of(page):
    return int(page.input_value("#threshold"))


def test_slider_costs_and_reset_give_pythons_numbers(rows, opened):
    p, codes = rows
    steps = np.linspace(0.0, 1.0, 1_001)
    steps[91] = 1 / 11
    with opened(page_of(p, codes)) as page:
        start = shown(page)
        assert step_of(page) == 91
        assert start == expected(p, codes, 1 / 11, TWO_COSTS, steps)
        for step in (0, 1, 250, 333, 500, 777, 999, 1_000):
            move(page, step)
            assert shown(page) == expected(p, codes, steps[step], TWO_COSTS, steps)
        for miss, alarm in (("2.5", "7"), ("1e3", "0.125"), ("0", "2"), ("3", "0"), ("0", "0")):
            page.fill("#cost-miss", miss)
            page.fill("#cost-alarm", alarm)
            move(page, 400)
            costs = [[0.0, float(alarm)], [float(miss), 0.0]]
            assert shown(page) == expected(p, codes, steps[400], costs, steps)
        page.fill("#cost-miss", "")  # not a number, or not a cost: as trained
        page.fill("#cost-alarm", "-3")
        assert shown(page) == expected(p, codes, steps[400], TWO_COSTS, steps)
        page.click("#reset")
        assert shown(page) == start
        values = [page.input_value(f"#{k}") for k in ("threshold", "cost-miss", "cost-alarm")]
        assert values == ["91", "10", "1"]


def test_keyboard_alone_is_enough(rows, opened):
    p, codes = rows
    steps = np.linspace(0.0, 1.0, 1_001)
    steps[91] = 1 / 11
    with opened(page_of(p, codes)) as page:
        reached = []
        for _ in range(5):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate("document.activeElement.id || document.activeElement.hash")
            )
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none"
        assert reached == ["#main", "threshold", "cost-miss", "cost-alarm", "reset"]
        page.focus("#threshold")
        for key, step in (("ArrowRight", 92), ("ArrowRight", 93), ("ArrowLeft", 92), ("Home", 0)):
            page.keyboard.press(key)
            assert step_of(page) == step
            assert shown(page) == expected(p, codes, steps[step], TWO_COSTS, steps)
        page.keyboard.press("End")
        assert shown(page) == expected(p, codes, 1.0, TWO_COSTS, steps)
        assert page.get_attribute("#threshold", "aria-valuetext") == "threshold 1"
        page.keyboard.press("Tab")
        page.keyboard.press("Control+a")
        page.keyboard.type("4")
        costs = [[0.0, 1.0], [4.0, 0.0]]
        assert shown(page) == expected(p, codes, 1.0, costs, steps)
        page.focus("#reset")
        page.keyboard.press("Enter")
        assert shown(page) == expected(p, codes, 1 / 11, TWO_COSTS, steps)


def place(page, selector):
    """Where a mark was drawn, from its transform."""
    settle(page)
    text = page.get_attribute(selector, "transform")
    return np.array([float(x) for x in text[len("translate(") : -1].split(",")])


def test_marks_follow_the_slider(rows, opened):
    p, codes = rows
    dots = {name: f"#chart-{name} svg .mark-symbol path" for name in ("roc", "precision")}
    rule = "#chart-cost svg .mark-rule.role-mark line"
    with opened(page_of(p, codes)) as page:
        move(page, 0)  # everything is an alarm
        right, height = place(page, dots["roc"])[0], place(page, dots["precision"])[1]
        left = place(page, rule)[0]
        move(page, 1_000)  # nothing is
        bottom = place(page, dots["roc"])[1]
        wide = place(page, rule)[0] - left
        assert min(right, bottom, wide) > 100
        np.testing.assert_allclose(place(page, dots["precision"]), [0, 0], atol=0.01)
        full = bottom * (1 - codes.mean())  # precision of everything: the share of positives
        assert height == pytest.approx(full, abs=0.01)
        for step in (200, 640):
            move(page, step)
            tp, fp = counts(p, codes, step / 1_000)
            tpr, fpr = tp / codes.sum(), fp / (1 - codes).sum()
            want = fpr * right, (1 - tpr) * bottom
            np.testing.assert_allclose(place(page, dots["roc"]), want, atol=0.01)
            want = (1 - tp / (tp + fp)) * bottom
            assert place(page, dots["precision"])[1] == pytest.approx(want, abs=0.01)
            assert place(page, rule)[0] - left == pytest.approx(wide * step / 1_000, abs=0.01)


def test_every_chart_is_drawn_and_everything_has_a_name(rows, opened):
    with opened(page_of(*rows)) as page:
        for name in LABELS:
            svg = page.query_selector_all(f"#chart-{name} svg")
            assert len(svg) == 1
            box = svg[0].bounding_box()
            assert min(box["width"], box["height"]) > 150
            marks = f"#chart-{name} svg .role-mark path, #chart-{name} svg .role-mark line"
            assert page.query_selector_all(marks)
            assert page.get_attribute(f"#chart-{name}", "role") in ("img", "graphics-document")
            assert page.get_attribute(f"#chart-{name}", "aria-label") == LABELS[name]
        nameless = page.evaluate(
            "() => [...document.querySelectorAll('input, button')].filter("
            "e => !(e.labels.length || e.textContent.trim())).length"
        )
        assert nameless == 0
        assert page.evaluate("document.querySelectorAll('input').length") == 3
        bare = "[...document.querySelectorAll('table')].filter(t => !t.caption.textContent).length"
        assert page.evaluate(bare) == 0
        empty = "[...document.querySelectorAll('th')].filter(t => !t.textContent.trim()).length"
        assert page.evaluate(empty) == 0
        levels = page.evaluate(
            "[...document.querySelectorAll('h1,h2,h3,h4')].map(h => h.tagName).join()"
        )
        assert levels.startswith("H1,H2")
        assert levels.count("H1") == 1


@pytest.mark.parametrize("costs", [[[0.5, 3.0], [10.0, 2.0]], [[0.0, 2.0], [0.3, 0.1]]])
def test_right_decisions_that_cost_something(rows, opened, costs):
    p, codes = rows
    stakes = costs[0][1] - costs[0][0], costs[1][0] - costs[1][1]
    threshold = stakes[0] / sum(stakes)
    steps = np.linspace(0.0, 1.0, 1_001)
    steps[int(np.argmin(np.abs(steps - threshold)))] = threshold
    with opened(page_of(p, codes, costs)) as page:
        assert shown(page) == expected(p, codes, threshold, costs, steps)
        headline = np.mean(np.asarray(costs)[codes, (p >= threshold).astype(int)])
        assert f"{headline:.4g} ±" in page.inner_text(".tile")
        page.fill("#cost-miss", "20")
        move(page, 300)
        costs = [costs[0], [20.0, costs[1][1]]]
        assert shown(page) == expected(p, codes, steps[300], costs, steps)


def test_rare_events(opened):
    rng = np.random.default_rng(1)
    p = 1 / (1 + np.exp(6.9 - 1.5 * rng.normal(size=997)))
    codes = (rng.uniform(size=997) < 20 * p).astype(int)
    costs = [[0.0, 1.0], [1_000.0, 0.0]]
    with opened(page_of(p, codes, costs)) as page:
        steps = np.array(
            page.evaluate("JSON.parse(document.getElementById('data').textContent).binary.steps")
        )
        start = step_of(page)
        assert steps[start] == 1 / 1_001
        assert shown(page) == expected(p, codes, 1 / 1_001, costs, steps)
        recalls = set()
        for step in range(start - 100, start + 200, 30):
            move(page, step)
            cells = shown(page)
            assert cells == expected(p, codes, steps[step], costs, steps)
            recalls.add(cells["recall"])
        assert len(recalls) > 5  # the slider has its steps where it matters
        drawn = page.text_content("#chart-cost svg .role-axis-label")
        assert drawn


@pytest.mark.parametrize("label", [0, 1])
def test_rows_of_one_class(rows, opened, label):
    p, codes = rows[0][:101], np.full(101, label)
    steps = np.linspace(0.0, 1.0, 1_001)
    steps[91] = 1 / 11
    with opened(page_of(p, codes)) as page:
        assert shown(page) == expected(p, codes, 1 / 11, TWO_COSTS, steps)
        for step in (0, 600, 1_000):
            move(page, step)
            assert shown(page) == expected(p, codes, steps[step], TWO_COSTS, steps)
        assert len(page.query_selector_all(".chart svg")) == len(LABELS)


@pytest.mark.parametrize("costs", [[[0.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
def test_thresholds_at_the_ends(rows, opened, costs):
    p, codes = rows
    threshold = costs[0][1]
    with opened(page_of(p, codes, costs)) as page:
        cells = shown(page)
        assert cells["threshold"] == cells["bayes"] == threshold
        assert cells["cost"] == short(
            np.mean(np.asarray(costs)[codes, (p >= threshold).astype(int)])
        )


def test_three_classes(opened):
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(max_iter=500).fit(X[::2], y[::2])
    with opened(report(model, X[1::2], y[1::2]).html, width=PHONE) as page:
        assert page.query_selector("input") is None
        assert len(page.query_selector_all(".chart svg")) == 1
        assert fits(page)


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


def contrast(page, selector, ground):
    """Ratio of the Web Content Accessibility Guidelines; 4.5 is what text needs."""
    ink, behind = luminance(page, selector, "color"), luminance(page, ground, "backgroundColor")
    return (max(ink, behind) + 0.05) / (min(ink, behind) + 0.05)


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hostile_names_are_text_and_fit(rows, opened, scheme, width):
    for names in pairwise(HOSTILE) if (scheme, width) == ("light", DESK) else [HOSTILE[-2:]]:
        with opened(page_of(*rows, names=names), scheme=scheme, width=width) as page:
            assert page.evaluate("typeof window.pwned") == "undefined"
            assert page.evaluate("document.querySelectorAll('img').length") == 0
            assert page.evaluate("document.scripts.length") == 3
            assert page.title() == names[1]
            assert page.text_content("h1") == names[1]
            heads = page.eval_on_selector_all("tbody td", "all => all.map(e => e.textContent)")
            assert names[0] in heads
            bars = page.eval_on_selector_all(
                "#chart-weights .role-axis-label text", "all => all.map(e => e.textContent)"
            )
            assert any(bar.startswith(names[0][:15]) for bar in bars)
            page.hover("#chart-weights svg .mark-rect path >> nth=0")
            page.wait_for_selector("#vg-tooltip-element.visible")
            assert names[0][:15] in page.text_content("#vg-tooltip-element")
            move(page, 100)
            assert page.evaluate("typeof window.pwned") == "undefined"
            assert fits(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_on_paper_and_on_phones(rows, opened, scheme):
    html = page_of(*rows)
    with opened(html, scheme=scheme, width=PHONE) as page:
        assert fits(page)
        assert (luminance(page, "body", "backgroundColor") < 0.1) == (scheme == "dark")
        for selector, ground in (
            ("body", "body"),
            ("header .soft", "body"),
            ("section .soft", "section"),
            (".good", ".tile"),
            ("caption", "section"),
            ("#cost-miss", "#cost-miss"),
        ):
            assert contrast(page, selector, ground) > 4.5
        # text of charts has the colour of the text around
        fill = page.evaluate(
            "getComputedStyle(document.querySelector('#chart-cost .role-axis-label text')).fill"
        )
        assert fill == page.evaluate("getComputedStyle(document.body).color")
        assert page.is_visible("#threshold")
        page.set_viewport_size({"width": DESK, "height": 900})
        settle(page)
        assert fits(page)
        page.emulate_media(media="print", color_scheme=scheme)
        for selector in (".controls", "#threshold", "#cost-miss", "#reset", ".skip"):
            assert not page.is_visible(selector)
        assert page.is_visible("#cost-value")
        assert page.is_visible("#chart-cost svg")
        assert luminance(page, "body", "backgroundColor") == pytest.approx(1.0)
        assert contrast(page, "section td", "body") > 7
        page.emulate_media(media="screen", color_scheme=scheme)
