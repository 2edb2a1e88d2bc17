"""One Chromium for all tests that drive the page; each test has a context of its own."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, async_playwright


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """The browser that is on this machine."""
    path = shutil.which("chromium")
    assert path, "no chromium on PATH: `make browser` installs it"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()
