"""The browser that `serve` opens: only where there is a display, with no token in its arguments."""

import queue
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from agent_lab.presentation.foreground import browser_at

URL = "http://127.0.0.1:8000/#token=secret&"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> queue.Queue[str]:
    """The addresses that a browser was given."""
    given: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr("agent_lab.presentation.foreground.sys.platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(webbrowser, "open", given.put)
    return given


def test_the_browser_is_sent_on_by_a_page_of_our_own(
    opened: queue.Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")

    with browser_at(URL):
        address = opened.get(timeout=5)
        page = Path(unquote(urlparse(address).path))
        assert "secret" not in address
        assert 'url=http://127.0.0.1:8000/#token=secret&amp;"' in page.read_text().replace(" ", "")
        assert page.parent.stat().st_mode & 0o077 == 0

    assert not page.exists()


def test_without_a_display_no_browser_takes_the_terminal(opened: queue.Queue[str]) -> None:
    with browser_at(URL):
        pass

    assert opened.empty()
