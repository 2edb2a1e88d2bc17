"""Pictures for README: the page with the demo, at the moment when a message is held.

    .venv/bin/python scripts/screenshots.py [FOLDER]

Starts a server of its own and drives the page in a Chromium (`CHROMIUM` names another one).
"""

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, Page, async_playwright

ROOT = Path(__file__).parents[1]
PROGRAM = Path(sys.executable).with_name("agent-lab")
SIZE = {"width": 1440, "height": 900}
STEER = "And in Rome?"


async def main() -> None:
    folder = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chrome")
    async with served_demo() as url, async_playwright() as play:
        browser = await play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        await picture(browser, url, "light", folder)
        await picture(browser, url, "dark", folder)
        await browser.close()


@asynccontextmanager
async def served_demo() -> AsyncIterator[str]:
    """The address of a server with the built-in demo."""
    process = await asyncio.create_subprocess_exec(PROGRAM, "serve", "--no-browser", stdout=PIPE)
    assert process.stdout is not None
    try:
        yield (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def picture(
    browser: Browser, url: str, scheme: Literal["light", "dark"], folder: Path
) -> None:
    """Start the demo, say something while its slow tool runs, and look once that is held."""
    page = await browser.new_page(viewport=SIZE, color_scheme=scheme)
    page.set_default_timeout(20_000)
    await page.goto(url)
    await say(page, "Plan a trip to Oslo.")
    await page.get_by_text("22 degrees").first.wait_for()  # one of the two tools has replied
    await say(page, STEER)
    await page.get_by_text("blocked by call_2").click()
    await page.wait_for_timeout(2200)  # long enough for the held bar to be seen
    path = folder / f"page-{scheme}.png"
    await page.screenshot(path=path)
    sys.stderr.write(f"{path}\n")
    await page.close()


async def say(page: Page, text: str) -> None:
    await page.locator("#message").fill(text)
    await page.locator("#message").press("Enter")


if __name__ == "__main__":
    asyncio.run(main())
