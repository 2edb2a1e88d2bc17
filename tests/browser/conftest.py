"""One Chromium for all tests that drive the page; each test has a context of its own.

A test that asks for `stage` has a server whose one agent is the `guide`.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.browser.helpers_page import Guide, Stage, staged


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """The browser that is on this machine."""
    path = shutil.which("chromium")
    assert path, "no chromium on PATH: `make browser` installs it"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
def guide() -> Guide:
    """Who looks where it is told to, and waits."""
    return Guide()


@pytest_asyncio.fixture(loop_scope="session")
async def stage(chromium: Browser, guide: Guide) -> AsyncIterator[Stage]:
    """The guide's stage; its end asserts that no page misbehaved."""
    async with staged(chromium, guide.agent) as stage:
        yield stage
