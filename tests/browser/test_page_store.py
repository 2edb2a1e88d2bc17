"""The page's own pure tests (page/*.test.js), run in a real Chromium; each is a test here."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Route, sync_playwright

ROOT = Path(__file__).parents[2]
ORIGIN = "http://page.test"
TYPES = {".html": "text/html", ".js": "text/javascript"}
NAME = re.compile(r'^test\("(.+?)", \(', re.MULTILINE)
NAMES = [
    name
    for file in sorted((ROOT / "tests/browser/page").glob("*.test.js"))
    for name in NAME.findall(file.read_text(encoding="utf-8"))
]


def from_disk(route: Route) -> None:
    """Answers with the file of this repository; nothing leaves the browser."""
    path = ROOT / route.request.url.removeprefix(f"{ORIGIN}/")
    if path.is_file() and path.suffix in TYPES:
        route.fulfill(body=path.read_bytes(), content_type=TYPES[path.suffix])
    else:
        route.abort()


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, str | None]]:
    """What each test of the page said: None, or its error."""
    chromium = shutil.which("chromium")
    assert chromium, "no chromium on PATH: `make browser` installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.route("**/*", from_disk)
        page.goto(f"{ORIGIN}/tests/browser/page/run.html")
        page.wait_for_function("window.results !== undefined", timeout=5_000)
        yield page.evaluate("window.results")
        browser.close()


def test_every_test_of_the_page_is_listed_here(results: dict[str, str | None]) -> None:
    assert sorted(results) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_page(name: str, results: dict[str, str | None]) -> None:
    assert results[name] is None, results[name]
