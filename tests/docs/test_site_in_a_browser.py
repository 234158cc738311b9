"""The site as it is built (docs/_build/html), in a real browser, over HTTP and without a network.

`.ci/run` builds it before it runs these tests; elsewhere: ``python -m sphinx -W docs
docs/_build/html`` with the extra `docs`.
"""

import functools
import os
import shutil
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

SITE = Path(__file__).resolve().parents[2] / "docs" / "_build" / "html"
CHROMIUM = os.environ.get("GRAYZONE_CHROMIUM") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").is_file(), reason="the site is not built: docs/_build/html"
)


class Page(HTMLParser):
    """What a page points at, and what can be pointed at in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.names, self.title = [], set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.names.update(found[key] for key in ("id", "name") if found.get(key))
        for key in ("href", "src"):
            if found.get(key) and not (tag == "link" and found.get("rel") == "canonical"):
                self.links.append(found[key])


@pytest.fixture(scope="module")
def pages():
    return {
        path.relative_to(SITE).as_posix(): Page(path.read_text("utf-8"))
        for path in sorted(SITE.rglob("*.html"))
        if "_static" not in path.parts  # parts of pages, not pages
    }


@pytest.fixture(scope="module")
def address():
    """Where the site is served, on this machine alone."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium; set GRAYZONE_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        window = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield window
        window.close()


def test_internal_links_lead_to_pages_and_places_in_them(pages):
    broken = []
    for name, page in pages.items():
        for link in page.links:
            target, anchor = urldefrag(urljoin(f"http://site/{name}", link))
            parts = urlsplit(target)
            if parts.netloc != "site" or parts.scheme != "http":
                continue
            path = unquote(parts.path).lstrip("/") or "index.html"
            known = path in pages or (SITE / path).is_file()
            if not known or (anchor and path in pages and anchor not in pages[path].names):
                broken.append(f"{name}: {link}")
    assert len(pages) > 30
    assert broken == []


def test_nothing_is_asked_of_other_hosts(pages):
    """Links may lead there; scripts, styles, fonts and pictures are here."""
    text = {name: (SITE / name).read_text("utf-8") for name in pages}
    for name in pages:
        for tag in ('<script src="http', 'stylesheet" href="http', '<img src="http', "//cdn."):
            assert tag not in text[name], name


def test_every_page_opens_without_an_error(pages, browser, address):
    """Of the reference's pages, made from one template, every tenth is opened."""
    generated = [name for name in pages if "/generated/" in name]
    opened = [n for n in pages if n not in generated and "genindex" not in n] + generated[::10]
    said = []
    window = browser.new_page()
    window.on("console", lambda m: said.append((window.url, m.text)) if m.type == "error" else 0)
    window.on("pageerror", lambda error: said.append((window.url, str(error))))
    window.on(
        "response",
        lambda answer: said.append((window.url, answer.url)) if answer.status >= 400 else 0,
    )
    for name in opened:
        window.goto(address + name, wait_until="load")
    window.close()
    assert said == []
